// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"patchcheck/internal/cache"
	"patchcheck/patches/diff"
)

// Overlay is what differs from a tree. Paths are slash-separated and relative
// to the tree's top.
type Overlay interface {
	// Paths lists every path whose content, mode or existence differs from the
	// tree, sorted.
	Paths() []string
	// ReadFile returns a file as it is with the overlay; fs.ErrNotExist means
	// that the overlay removes it. A symbolic link has fs.ModeSymlink and its
	// target as content.
	ReadFile(path string) ([]byte, fs.FileMode, error)
}

// NoOverlay is the tree itself.
type NoOverlay struct{}

func (NoOverlay) Paths() []string { return nil }
func (NoOverlay) ReadFile(string) ([]byte, fs.FileMode, error) {
	return nil, 0, fs.ErrNotExist
}

// FromDiff makes an Overlay of what patches were applied to.
func FromDiff(o *diff.Overlay) Overlay {
	l := &diffOverlay{files: map[string]diff.Change{}}
	for _, c := range o.Changed() {
		l.paths = append(l.paths, c.Path)
		l.files[c.Path] = c
	}
	return l
}

type diffOverlay struct {
	paths []string
	files map[string]diff.Change
}

func (o *diffOverlay) Paths() []string { return o.paths }

func (o *diffOverlay) ReadFile(p string) ([]byte, fs.FileMode, error) {
	c, ok := o.files[p]
	if !ok || c.Deleted {
		return nil, 0, &fs.PathError{Op: "read", Path: p, Err: fs.ErrNotExist}
	}
	return c.Content, c.Mode, nil
}

// plainMode reduces a mode to what git knows.
func plainMode(m fs.FileMode) fs.FileMode {
	if m&fs.ModeSymlink != 0 {
		return fs.ModeSymlink | 0o777
	}
	return gitMode(m)
}

// OverlayHash identifies an overlay by its paths, modes and contents.
func OverlayHash(o Overlay) (string, error) {
	h := sha256.New()
	for _, p := range o.Paths() {
		b, mode, err := o.ReadFile(p)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			fmt.Fprintf(h, "%s\x00gone\n", p)
		case err != nil:
			return "", err
		default:
			fmt.Fprintf(h, "%s\x00%o\x00%x\n", p, plainMode(mode), sha256.Sum256(b))
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Workspace is our own copy of a tree at a stable path with an object folder
// beside it, held under a lock until Close.
//
// Every change is journalled in state.json before it happens, so that a run
// killed at any point is repaired by the next OpenWorkspace.
type Workspace struct {
	Dir string // holds the rest
	Src string
	Obj string

	tree  *Tree
	cache *cache.Cache
	lock  *cache.Lock
	// parent is set in a further object folder, see Sub.
	parent *Workspace
	busy   *os.File // locked through every process that make starts, see waitForMake
	state  wsState
	led    Ledger
	subEnd atomic.Int64 // latest BuildEnd of the further object folders

	trustSet bool   // Trust was called since Sync
	trusted  string // for this state.Synced

	progress func(string)
}

// wsState is the journal.
type wsState struct {
	Version   int    `json:"version"`
	Lineage   string `json:"lineage"`
	TreeID    string `json:"tree_id"`
	Populated bool   `json:"populated"` // Src is exactly the tree but for Overlay
	// Overlay holds every path at which Src may differ from the tree.
	Overlay []string `json:"overlay,omitempty"`

	Building   bool   `json:"building"`              // a make is running, or was when we died
	BuildStart int64  `json:"build_start,omitempty"` // Unix nanoseconds
	BuildEnd   int64  `json:"build_end,omitempty"`   // of the latest make, by whatever clock was highest
	Log        string `json:"log,omitempty"`         // name of the latest log within Dir

	Synced string   `json:"synced,omitempty"` // OverlayHash of what Sync made
	Ran    []string `json:"ran,omitempty"`    // states of a series whose code ran in Obj, see Trust
	Kept   bool     `json:"kept,omitempty"`   // the copy beside Obj is of the folder before Ran

	ConfigFor string         `json:"config_for,omitempty"` // what .config was made from
	Steps     map[string]int `json:"steps,omitempty"`      // targets -> steps of their latest whole build
}

const wsVersion = 1

// OpenWorkspace locks and prepares the workspace of a tree and a configuration.
// It waits for another process that uses it; progress is told so. configKey
// keeps object folders of different configurations apart.
func OpenWorkspace(ctx context.Context, c *cache.Cache, t *Tree, configKey string, progress func(string)) (_ *Workspace, err error) {
	if progress == nil {
		progress = func(string) {}
	}
	if t.ID == "" {
		progress("reading " + t.Spec)
	}
	if err := t.Identify(ctx); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(t.lineage + "\x00" + configKey))
	name := hex.EncodeToString(sum[:8])
	w := &Workspace{Dir: c.Path("work", name), tree: t, cache: c, progress: progress}
	w.Src, w.Obj = filepath.Join(w.Dir, "src"), filepath.Join(w.Dir, "obj")
	w.lock, err = c.Lock(ctx, "work-"+name, func(h string) { progress("waiting for " + h + ", which builds in the same workspace") })
	if err != nil {
		return nil, err
	}
	ok := false
	defer func() {
		if !ok {
			w.Close()
		}
	}()
	if err := os.MkdirAll(w.Dir, 0o755); err != nil {
		return nil, explainFull(err, c)
	}
	if err := w.waitForMake(ctx); err != nil {
		return nil, explainFull(err, c)
	}
	w.load()
	if err := w.populate(ctx); err != nil {
		return nil, explainFull(err, c)
	}
	if err := os.MkdirAll(w.Obj, 0o755); err != nil {
		return nil, explainFull(err, c)
	}
	if err := w.repair(); err != nil {
		return nil, explainFull(err, c)
	}
	ok = true
	return w, nil
}

// Close gives the workspace to the next process. It stays in the cache.
func (w *Workspace) Close() error {
	if w.busy != nil {
		w.busy.Close()
	}
	if w.parent != nil {
		return nil // the lock is the parent's
	}
	return w.lock.Close()
}

// waitForMake waits until the last process of a make that was killed with its
// patchcheck is gone. The workspace's lock went with that patchcheck, but its
// compilers live some milliseconds longer, and without a sandbox until they
// are done; they inherited the lock taken here.
func (w *Workspace) waitForMake(ctx context.Context) error {
	path := filepath.Join(w.Dir, "busy")
	l, err := cache.LockFile(ctx, path, func(string) { w.progress("waiting for the compilers of a killed run to end") })
	if err != nil {
		return err
	}
	if err := l.Close(); err != nil {
		return err
	}
	// Read-only: what make starts has no use for it but to keep it open.
	w.busy, err = os.Open(path)
	return err
}

// Tree is the tree that Src is a copy of.
func (w *Workspace) Tree() *Tree { return w.tree }

// explainFull turns ENOSPC into an error that says what to do.
func explainFull(err error, c *cache.Cache) error {
	var full *cache.FullError
	if err != nil && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) && !errors.As(err, &full) {
		return &cache.FullError{Path: c.Root(), Err: err}
	}
	return err
}

func (w *Workspace) load() {
	b, err := os.ReadFile(filepath.Join(w.Dir, "state.json"))
	if err == nil {
		err = json.Unmarshal(b, &w.state)
	}
	if err != nil || w.state.Version != wsVersion || w.state.Lineage != w.tree.lineage {
		w.state = wsState{Version: wsVersion, Lineage: w.tree.lineage}
		// Nothing is known of what is there, so nothing of it can be used.
		os.Remove(filepath.Join(w.Dir, "state.json"))
		if w.parent == nil {
			cache.RemoveAll(w.Src)
		}
		cache.RemoveAll(w.Obj)
		cache.RemoveAll(w.keptDir())
	}
	if w.state.Steps == nil {
		w.state.Steps = map[string]int{}
	}
	w.led, err = readLedger(filepath.Join(w.Dir, "ledger.json"))
	if err != nil {
		// Objects without their diagnostics would make a warning comparison lie.
		cache.RemoveAll(w.Obj)
		w.led, w.state.Building, w.state.ConfigFor = Ledger{}, false, ""
	}
}

func (w *Workspace) save() error {
	b, err := json.MarshalIndent(&w.state, "", " ")
	if err != nil {
		return err
	}
	return explainFull(cache.WriteFile(filepath.Join(w.Dir, "state.json"), append(b, '\n'), 0o644), w.cache)
}

// populate makes Src a copy of the tree.
func (w *Workspace) populate(ctx context.Context) error {
	if w.state.Populated && w.state.TreeID == w.tree.ID {
		if _, err := os.Stat(w.Src); err == nil {
			return nil
		}
	}
	if _, err := w.tree.Export(ctx); err != nil {
		return err
	}
	_, serr := os.Stat(w.Src)
	fresh := serr != nil
	if fresh {
		w.progress("copying the kernel tree into a workspace")
	} else {
		w.progress("moving the workspace to another base")
	}
	w.state.Populated, w.state.TreeID = false, w.tree.ID
	if err := w.save(); err != nil {
		return err
	}
	if err := os.MkdirAll(w.Src, 0o755); err != nil {
		return err
	}
	var err error
	if w.tree.owned {
		err = w.populateOwned(ctx)
	} else {
		err = w.populateFolder(ctx)
	}
	if err != nil {
		return err
	}
	w.state.Populated, w.state.Overlay, w.state.Synced = true, nil, ""
	return w.save()
}

// populateOwned links the files of a tree in our cache, which nobody changes,
// and which Sync only ever replaces by renaming. A file that differs from what
// was there gets a new time, so that make sees it.
func (w *Workspace) populateOwned(ctx context.Context) error {
	keep := map[string]bool{}
	err := filepath.WalkDir(w.tree.Dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rel, err := filepath.Rel(w.tree.Dir, p)
		if err != nil || rel == "." {
			return err
		}
		keep[rel] = true
		dest := filepath.Join(w.Src, rel)
		if d.IsDir() {
			fi, err := os.Lstat(dest)
			if err == nil && !fi.IsDir() {
				os.Remove(dest)
			}
			if err != nil || !fi.IsDir() {
				return os.Mkdir(dest, 0o755)
			}
			return nil
		}
		have, herr := os.Lstat(dest)
		if herr != nil {
			if d.Type().IsRegular() && os.Link(p, dest) == nil {
				return nil
			}
			return w.replaceFrom(p, rel)
		}
		want, err := d.Info()
		if err != nil {
			return err
		}
		if os.SameFile(have, want) {
			return nil
		}
		if same, err := sameContent(p, want, dest, have); err != nil || same {
			return err
		}
		return w.replaceFrom(p, rel)
	})
	if err != nil {
		return err
	}
	return w.removeOthers(keep)
}

// replaceFrom copies one file of the tree to rel.
func (w *Workspace) replaceFrom(from, rel string) error {
	fi, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if fi.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return w.put(rel, []byte(target), fs.ModeSymlink|0o777)
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return w.put(rel, b, gitMode(fi.Mode()))
}

func sameContent(a string, ai fs.FileInfo, b string, bi fs.FileInfo) (bool, error) {
	if ai.Mode().Type() != bi.Mode().Type() || ai.Mode().IsRegular() && (ai.Size() != bi.Size() || gitMode(ai.Mode()) != gitMode(bi.Mode())) {
		return false, nil
	}
	if ai.Mode()&fs.ModeSymlink != 0 {
		x, err := os.Readlink(a)
		if err != nil {
			return false, err
		}
		y, err := os.Readlink(b)
		return x == y, err
	}
	x, err := os.ReadFile(a)
	if err != nil {
		return false, err
	}
	y, err := os.ReadFile(b)
	return bytes.Equal(x, y), err
}

// populateFolder copies from a user's folder what differs from the last copy.
func (w *Workspace) populateFolder(ctx context.Context) error {
	store := filepath.Join(w.Dir, "copied.index")
	old := map[string]folderFile{}
	if b, err := os.ReadFile(store); err == nil {
		if gob.NewDecoder(bytes.NewReader(b)).Decode(&old) != nil {
			old = map[string]folderFile{}
		}
	}
	// What an overlay or an interrupted copy touched is not what old says.
	for _, p := range w.state.Overlay {
		delete(old, p)
	}
	if err := os.Remove(store); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	keep := map[string]bool{}
	for rel, f := range w.tree.index.Files {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for d := rel; d != "."; d = path.Dir(d) {
			keep[d] = true
		}
		if o, ok := old[rel]; ok && o.Hash == f.Hash && o.Mode == f.Mode {
			continue
		}
		b, mode, err := w.treeFile(rel)
		if err != nil {
			return err
		}
		dest := filepath.Join(w.Src, rel)
		if cur, cmode, err := readTreeFile(w.Src, rel); err == nil && cmode == mode && bytes.Equal(cur, b) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(dest), 0o755); err != nil {
			return err
		}
		if err := w.put(rel, b, mode); err != nil {
			return err
		}
	}
	if err := w.removeOthers(keep); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(w.tree.index.Files); err != nil {
		return err
	}
	return cache.WriteFile(store, b.Bytes(), 0o644)
}

// treeFile reads from the tree; a user's folder that changes under our hands
// is an error, as two kernels would be built from different bases.
func (w *Workspace) treeFile(rel string) ([]byte, fs.FileMode, error) {
	b, mode, err := w.tree.ReadFile(rel)
	if w.tree.index == nil {
		return b, plainMode(mode) | mode&fs.ModeDir, err
	}
	f, known := w.tree.index.Files[rel]
	if !known {
		return nil, 0, &fs.PathError{Op: "read", Path: rel, Err: fs.ErrNotExist}
	}
	sum := sha256.Sum256(b)
	if err != nil || hex.EncodeToString(sum[:]) != f.Hash {
		return nil, 0, &TreeError{Spec: w.tree.Spec, Infra: true, Msg: fmt.Sprintf("%s was changed while the run was using it; leave the folder alone during a run, or give a git repository", rel), Err: err}
	}
	return b, plainMode(mode), nil
}

// removeOthers deletes from Src what is not in keep.
func (w *Workspace) removeOthers(keep map[string]bool) error {
	var gone []string
	err := filepath.WalkDir(w.Src, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(w.Src, p)
		if err != nil || rel == "." || keep[rel] {
			return err
		}
		gone = append(gone, p)
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	for _, p := range gone {
		if rerr := cache.RemoveAll(p); err == nil {
			err = rerr
		}
	}
	return err
}

// put writes one file of Src under a temporary name and renames it into place,
// with a time that is newer than everything built so far.
func (w *Workspace) put(rel string, data []byte, mode fs.FileMode) error {
	dest := filepath.Join(w.Src, rel)
	tmp := filepath.Join(w.Dir, "incoming")
	os.Remove(tmp)
	if mode&fs.ModeSymlink != 0 {
		if err := os.Symlink(string(data), tmp); err != nil {
			return err
		}
	} else {
		f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		if err == nil {
			err = f.Chmod(mode.Perm())
		}
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
		if err := os.Chtimes(tmp, w.newTime(), w.newTime()); err != nil {
			return err
		}
	}
	if fi, err := os.Lstat(dest); err == nil && fi.IsDir() {
		if err := cache.RemoveAll(dest); err != nil {
			return err
		}
	}
	return os.Rename(tmp, dest)
}

// newTime is now, or just after the latest build when the clock was set back:
// make goes by the order of times.
func (w *Workspace) newTime() time.Time {
	now := time.Now()
	end := max(w.state.BuildEnd, w.subEnd.Load())
	if last := time.Unix(0, end).Add(time.Millisecond); now.Before(last) {
		return last
	}
	return now
}

// SyncResult is what Sync changed.
type SyncResult struct {
	Written []string // files of the overlay that were written or removed
	Revert  []string // files put back as they are in the tree
}

// Sync makes Src the tree with o on top. Only files that differ from what is
// there are written; what an earlier overlay had is put back.
func (w *Workspace) Sync(ctx context.Context, o Overlay) (SyncResult, error) {
	var res SyncResult
	want := map[string]bool{}
	for _, p := range o.Paths() {
		if err := checkSourcePath(p); err != nil {
			return res, err
		}
		want[p] = true
	}
	all := map[string]bool{}
	for p := range want {
		all[p] = true
	}
	for _, p := range w.state.Overlay {
		all[p] = true
	}
	paths := make([]string, 0, len(all))
	for p := range all {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	synced, err := OverlayHash(o)
	if err != nil {
		return res, err
	}
	if strings.Join(paths, "\n") != strings.Join(w.state.Overlay, "\n") || synced != w.state.Synced {
		w.state.Overlay, w.state.Synced, w.trustSet = paths, synced, false
		if err := w.save(); err != nil {
			return res, err
		}
	}
	type file struct {
		data []byte
		mode fs.FileMode
	}
	final := make(map[string]*file, len(paths))
	for _, p := range paths {
		var b []byte
		var mode fs.FileMode
		var err error
		if want[p] {
			b, mode, err = o.ReadFile(p)
		} else {
			b, mode, err = w.treeFile(p)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, diff.ErrSymlink) && !want[p], err == nil && mode.IsDir():
			final[p] = nil
		case err != nil:
			return res, err
		default:
			final[p] = &file{b, plainMode(mode)}
		}
	}
	note := func(p string) {
		if want[p] {
			res.Written = append(res.Written, p)
		} else {
			res.Revert = append(res.Revert, p)
		}
	}
	// Removals first, the deepest first: a folder may take the place of a file
	// and the other way round.
	for _, p := range slices.Backward(paths) {
		if final[p] != nil || w.parentsAreFolders(p) != nil {
			continue
		}
		fi, err := os.Lstat(filepath.Join(w.Src, p))
		if err != nil || fi.IsDir() {
			continue // a folder goes when its last file does
		}
		if err := os.Remove(filepath.Join(w.Src, p)); err != nil {
			return res, err
		}
		note(p)
		w.removeEmptyParents(p)
	}
	for _, p := range paths {
		f := final[p]
		if f == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return res, err
		}
		cur, mode, err := readTreeFile(w.Src, p)
		if err == nil && mode == f.mode && bytes.Equal(cur, f.data) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(w.Src, p)), 0o755); err != nil {
			return res, err
		}
		if err := w.parentsAreFolders(p); err != nil {
			return res, err
		}
		if err := w.put(p, f.data, f.mode); err != nil {
			return res, explainFull(err, w.cache)
		}
		note(p)
	}
	keep := make([]string, 0, len(want))
	for p := range want {
		keep = append(keep, p)
	}
	sort.Strings(keep)
	if len(keep) != len(w.state.Overlay) {
		w.state.Overlay = keep
		return res, w.save()
	}
	return res, nil
}

// checkSourcePath refuses paths that no kernel source file can have.
func checkSourcePath(p string) error {
	if !filepath.IsLocal(p) || path.Clean(p) != p || p == "." || strings.ContainsAny(p, "\x00\n") {
		return fmt.Errorf("the series names the path %q, which is not inside the tree", p)
	}
	for _, e := range strings.Split(p, "/") {
		if strings.EqualFold(e, ".git") {
			return fmt.Errorf("the series names the path %q inside a .git folder", p)
		}
	}
	return nil
}

// parentsAreFolders refuses paths beyond a symbolic link, as git does.
func (w *Workspace) parentsAreFolders(p string) error {
	for d := path.Dir(p); d != "."; d = path.Dir(d) {
		fi, err := os.Lstat(filepath.Join(w.Src, d))
		if err != nil {
			return err
		}
		if !fi.IsDir() {
			return fmt.Errorf("the series names the path %q, but %s is no folder in the tree", p, d)
		}
	}
	return nil
}

// removeEmptyParents drops folders that git would not have.
func (w *Workspace) removeEmptyParents(p string) {
	for d := path.Dir(p); d != "."; d = path.Dir(d) {
		if os.Remove(filepath.Join(w.Src, d)) != nil {
			return
		}
	}
}

// openObj opens a file of the object folder. What make left there is the
// series' work: a symbolic link that leads out of it is not followed.
func (w *Workspace) openObj(rel string) (*os.File, error) {
	root, err := os.OpenRoot(w.Obj)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	// Opening a FIFO would wait for somebody to write.
	f, err := root.OpenFile(rel, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%s in the object folder is no regular file", rel)
	}
	return f, nil
}

func (w *Workspace) readObj(rel string, limit int64) ([]byte, error) {
	f, err := w.openObj(rel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s in the object folder is larger than %d bytes", rel, limit)
	}
	return b, err
}
