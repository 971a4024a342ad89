// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"sort"
	"sync"
	"syscall"
)

// maxFile bounds the size of a file that is read from a tree, in bytes.
const maxFile = 1 << 30

// ErrSymlink says that a path leads through a symbolic link.
var ErrSymlink = errors.New("the path leads through a symbolic link")

// Tree is a source tree that is only read. Paths are slash-separated and
// relative to its top.
type Tree interface {
	// ReadFile returns a file's content and mode without following a symbolic
	// link: of a link the content is its target and the mode has
	// fs.ModeSymlink. Of a folder the content is nil, the mode has fs.ModeDir
	// and there is no error. The error of an absent file matches
	// fs.ErrNotExist, that of a path through a symbolic link ErrSymlink.
	ReadFile(path string) (content []byte, mode fs.FileMode, err error)
}

// DirTree is the tree in the folder dir. Files are read through os.Root, and a
// path that leads through any symbolic link is refused, even when the link
// stays inside.
func DirTree(dir string) Tree { return &dirTree{dir: dir} }

type dirTree struct {
	dir  string
	once sync.Once
	root *os.Root
	err  error

	mu    sync.Mutex
	plain map[string]bool // folders known to be no links
}

func (t *dirTree) open() error {
	t.once.Do(func() {
		t.root, t.err = os.OpenRoot(t.dir)
		t.plain = map[string]bool{}
	})
	if t.err != nil {
		// Not wrapped: an absent tree must not look like an absent file.
		return fmt.Errorf("cannot open the tree: %v", t.err)
	}
	return nil
}

func (t *dirTree) ReadFile(name string) ([]byte, fs.FileMode, error) {
	if err := t.open(); err != nil {
		return nil, 0, err
	}
	if !fs.ValidPath(name) {
		return nil, 0, &PathError{Path: name, Reason: "not a path inside a tree"}
	}
	if err := t.checkParents(name); err != nil {
		return nil, 0, err
	}
	// Look before opening: opening a fifo would block, and of a link the
	// target is wanted.
	st, err := t.root.Lstat(name)
	if err != nil {
		return nil, 0, absent(err)
	}
	switch m := st.Mode(); {
	case m.IsDir():
		return nil, m, nil
	case m&fs.ModeSymlink != 0:
		target, err := t.root.Readlink(name)
		return []byte(target), m, err
	case !m.IsRegular():
		return nil, m, &fs.PathError{Op: "read", Path: name, Err: errors.New("not a regular file")}
	}
	f, err := t.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	if st, err = f.Stat(); err != nil {
		return nil, 0, err
	}
	if !st.Mode().IsRegular() || st.Size() > maxFile {
		return nil, 0, &fs.PathError{Op: "read", Path: name, Err: errors.New("not a regular file of reasonable size")}
	}
	b := make([]byte, 0, st.Size()+bytes.MinRead) // room for ReadFrom to see the end
	buf := bytes.NewBuffer(b)
	if _, err := io.Copy(buf, io.LimitReader(f, maxFile)); err != nil {
		return nil, 0, err
	}
	return buf.Bytes(), st.Mode(), nil
}

// checkParents refuses a path with a folder that is a symbolic link.
func (t *dirTree) checkParents(name string) error {
	var err error
	var seen []string
	parents(name, func(dir string) bool {
		t.mu.Lock()
		known := t.plain[dir]
		t.mu.Unlock()
		if known {
			return false
		}
		st, e := t.root.Lstat(dir)
		switch {
		case errors.Is(e, fs.ErrNotExist), errors.Is(e, syscall.ENOTDIR):
			return true
		case e != nil:
			// os.Root refuses a link out of the tree further up.
			err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w (%v)", ErrSymlink, e)}
			return false
		case st.Mode()&fs.ModeSymlink != 0:
			err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w (%s)", ErrSymlink, dir)}
			return false
		case !st.IsDir():
			return true
		}
		seen = append(seen, dir)
		return true
	})
	if err == nil {
		t.mu.Lock()
		for _, d := range seen {
			t.plain[d] = true
		}
		t.mu.Unlock()
	}
	return err
}

// absent makes "a parent is a file" an absent file.
func absent(err error) error {
	if errors.Is(err, syscall.ENOTDIR) {
		return &fs.PathError{Op: "read", Path: "", Err: fs.ErrNotExist}
	}
	return err
}

// MapTree is a tree in memory, for tests and for callers that hold the files
// anyway. Modes are 0644.
type MapTree map[string][]byte

// ReadFile implements Tree.
func (t MapTree) ReadFile(name string) ([]byte, fs.FileMode, error) {
	if b, ok := t[name]; ok {
		return b, 0o644, nil
	}
	return nil, 0, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
}

// Change is a file of an overlay that differs from the tree below.
type Change struct {
	Path    string
	Content []byte // of a symbolic link: its target
	Mode    fs.FileMode
	Deleted bool
}

// Overlay is a tree over a tree: the files that differ, by path. It never
// changes; With returns a new one. The zero value is not usable, see
// NewOverlay.
type Overlay struct {
	base  Tree
	below *Overlay // older changes to the same base; nil at the bottom
	depth int
	files map[string]Change
}

// maxDepth bounds the layers that a look-up goes through, and so how often a
// long series has its changes copied together.
const maxDepth = 16

// NewOverlay returns an overlay of t that changes nothing yet.
func NewOverlay(t Tree) *Overlay {
	if o, ok := t.(*Overlay); ok {
		return o
	}
	return &Overlay{base: t}
}

// Base is the tree below.
func (o *Overlay) Base() Tree { return o.base }

// change finds the latest change of name.
func (o *Overlay) change(name string) (Change, bool) {
	for l := o; l != nil; l = l.below {
		if c, ok := l.files[name]; ok {
			return c, true
		}
	}
	return Change{}, false
}

// merged is the latest change of every file.
func (o *Overlay) merged() map[string]Change {
	var layers []*Overlay
	for l := o; l != nil; l = l.below {
		layers = append(layers, l)
	}
	out := map[string]Change{}
	for _, l := range slices.Backward(layers) {
		maps.Copy(out, l.files)
	}
	return out
}

// ReadFile implements Tree. The content must not be modified.
func (o *Overlay) ReadFile(name string) ([]byte, fs.FileMode, error) {
	absent := &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	if c, ok := o.change(name); ok {
		if c.Deleted {
			return nil, 0, absent
		}
		return c.Content, c.Mode, nil
	}
	if o.below == nil && len(o.files) == 0 {
		return o.base.ReadFile(name)
	}
	var err error
	parents(name, func(dir string) bool {
		c, ok := o.change(dir)
		switch {
		case !ok:
			return true
		case c.Deleted:
			// A file or link went away here; what may be in the folder that
			// came in its place is a change itself.
			err = absent
			return true
		case c.Mode&fs.ModeSymlink != 0:
			err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w (%s)", ErrSymlink, dir)}
		default:
			err = absent
		}
		return false
	})
	if err != nil {
		return nil, 0, err
	}
	return o.base.ReadFile(name)
}

// With returns an overlay with the changes c on top.
func (o *Overlay) With(c ...Change) *Overlay {
	n := &Overlay{base: o.base, below: o, depth: o.depth + 1}
	if n.depth > maxDepth {
		n.below, n.depth, n.files = nil, 0, o.merged()
	} else {
		n.files = make(map[string]Change, len(c))
	}
	for _, ch := range c {
		n.files[ch.Path] = ch
	}
	return n
}

// Changed lists the files that differ from the tree below, by path. A file
// that was changed and changed back is not in it.
func (o *Overlay) Changed() []Change {
	all := o.merged()
	out := make([]Change, 0, len(all))
	for _, c := range all {
		old, mode, err := o.base.ReadFile(c.Path)
		switch {
		case c.Deleted && errors.Is(err, fs.ErrNotExist):
			continue
		case err == nil && !c.Deleted && mode.Type() == c.Mode.Type() && mode.Perm() == c.Mode.Perm() && bytes.Equal(old, c.Content):
			continue
		}
		out = append(out, c)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out
}

// Write brings the files that differ into the folder dir, which holds the tree
// below the overlay (our own copy of it, never the user's). Each file is
// written beside its place and renamed, so that hard links to it keep the old
// content and a reader never sees half a file. Everything goes through
// os.Root, and a path through a symbolic link is refused.
func Write(dir string, o *Overlay) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("cannot write the patched files: %w", err)
	}
	defer root.Close()
	changes := o.Changed()
	there := &dirTree{dir: dir}
	// First what goes away, the deepest first: a file may become a folder.
	for _, c := range slices.Backward(changes) {
		if !c.Deleted {
			continue
		}
		if err := CheckPath(c.Path); err != nil {
			return err
		}
		if err := there.open(); err != nil {
			return err
		}
		if err := there.checkParents(c.Path); err != nil {
			return err
		}
		if err := root.Remove(c.Path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return fmt.Errorf("cannot delete %s: %w", c.Path, err)
		}
		// As git: a folder that became empty goes too.
		parents(c.Path, func(d string) bool { return root.Remove(d) == nil })
	}
	if there.root != nil {
		there.root.Close()
	}
	there = &dirTree{dir: dir}
	if err := there.open(); err != nil {
		return err
	}
	defer there.root.Close()
	for _, c := range changes {
		if c.Deleted {
			continue
		}
		if err := writeOne(root, there, c); err != nil {
			return fmt.Errorf("cannot write %s: %w", c.Path, err)
		}
	}
	return nil
}

func writeOne(root *os.Root, there *dirTree, c Change) (err error) {
	if err := CheckPath(c.Path); err != nil {
		return err
	}
	if err := there.checkParents(c.Path); err != nil {
		return err
	}
	if d := path.Dir(c.Path); d != "." {
		if err := root.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	tmp := path.Join(path.Dir(c.Path), fmt.Sprintf(".patchcheck-%d.tmp", os.Getpid()))
	root.Remove(tmp)
	defer func() {
		if err != nil {
			root.Remove(tmp)
		}
	}()
	if c.Mode&fs.ModeSymlink != 0 {
		if err := root.Symlink(string(c.Content), tmp); err != nil {
			return err
		}
		return root.Rename(tmp, c.Path)
	}
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(c.Content)
	if err == nil {
		err = f.Chmod(c.Mode.Perm())
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return root.Rename(tmp, c.Path)
}
