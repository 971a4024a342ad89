// SPDX-License-Identifier: Apache-2.0

// Package kernel owns everything that turns a kernel source into a kernel:
// trees, workspaces, configuration, make, the compiler's identity, the cache
// of built kernels, and the struct offsets that tracing needs. It never writes
// to a user's tree and never judges a series: it reports facts and typed
// errors.
package kernel

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"patchcheck/internal/cache"
	"patchcheck/patches/diff"
)

// DefaultTree is used when the user is not inside a kernel tree.
const DefaultTree = "debian:linux-source-7.3"

// namedTrees are specs with a name of their own.
var namedTrees = map[string]string{
	// Base of the NFSD maintainers; MAINTAINERS, entry "KERNEL NFSD".
	"nfsd-testing": "git+https://git.kernel.org/pub/scm/linux/kernel/git/cel/linux.git#nfsd-testing",
}

// NamedTrees lists the built-in names and what they stand for.
func NamedTrees() map[string]string {
	m := make(map[string]string, len(namedTrees))
	for k, v := range namedTrees {
		m[k] = v
	}
	return m
}

// Kind says what a tree was made from.
type Kind string

const (
	KindFolder Kind = "folder" // plain source
	KindGit    Kind = "git"    // commit of a local repository or of one that was cloned into the cache
	KindDebian Kind = "debian" // Debian source package
)

// Tree is a kernel source at a base. It is never written to.
type Tree struct {
	Spec           string   `json:"spec"` // as the user gave it
	Kind           Kind     `json:"kind"`
	Version        string   `json:"version"`                   // of the Makefile: "7.3.4", "7.4.0-rc2"
	Commit         string   `json:"commit,omitempty"`          // git: full id
	CommitTitle    string   `json:"commit_title,omitempty"`    // git: "title", for people
	PackageVersion string   `json:"package_version,omitempty"` // Debian: "7.3.4-1~bpo13+1"
	ID             string   `json:"id"`                        // identity of the content; "" for a folder until Identify
	Notes          []string `json:"notes,omitempty"`           // what a report should say of how the tree was found

	// Dir holds the sources: the user's own folder, or a folder of our cache.
	// It is "" for a git tree until Export.
	Dir string `json:"dir,omitempty"`
	// Repo is the git folder of a git tree.
	Repo string `json:"repo,omitempty"`

	cache   *cache.Cache
	lineage string // trees of one lineage share a workspace: their contents are alike
	owned   bool   // Dir belongs to our cache and never changes
	index   *folderIndex
	git     *catFile

	dirOnce *sync.Once
	dirTree diff.Tree
}

// TreeOptions say how a spec is to be understood.
type TreeOptions struct {
	Base       string // --base REV
	SeriesBase string // the series' base-commit, used when Base is empty and the repository has it
	Refresh    bool   // look for something newer even when the cache would do
	Progress   func(string)
}

// TreeError is a tree that cannot be had: the input's fault unless Infra.
type TreeError struct {
	Spec  string
	Msg   string
	Infra bool // no network, a mirror that fails, no space
	Err   error
}

func (e *TreeError) Error() string {
	s := fmt.Sprintf("kernel tree %s: %s", e.Spec, e.Msg)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *TreeError) Unwrap() error { return e.Err }

// Resolve finds the tree that spec names:
//
//	/path/to/linux            a plain folder of sources, or a git repository (bare ones too)
//	git+URL#branch            fetched into the cache
//	debian:linux-source-7.3   a Debian source package
//	nfsd-testing              a name from NamedTrees
//
// Network is used only for the latter three, and only when the cache has
// nothing of that name or opt.Refresh is set.
func Resolve(ctx context.Context, c *cache.Cache, spec string, opt TreeOptions) (*Tree, error) {
	if opt.Progress == nil {
		opt.Progress = func(string) {}
	}
	real := spec
	if n, ok := namedTrees[spec]; ok {
		if _, err := os.Stat(spec); err != nil {
			real = n
		}
	}
	var t *Tree
	var err error
	switch {
	case strings.HasPrefix(real, "debian:"):
		t, err = resolveDebian(ctx, c, strings.TrimPrefix(real, "debian:"), opt)
	case strings.HasPrefix(real, "git+"):
		t, err = resolveRemote(ctx, c, strings.TrimPrefix(real, "git+"), opt)
	default:
		t, err = resolveLocal(ctx, c, real, opt)
	}
	if err != nil {
		var te *TreeError
		if !errors.As(err, &te) {
			return nil, &TreeError{Spec: spec, Msg: "cannot be used", Err: err}
		}
		te.Spec = withoutUser(spec)
		return nil, err
	}
	t.Spec, t.cache, t.dirOnce = spec, c, new(sync.Once)
	return t, nil
}

// resolveLocal decides between a plain folder and a git repository.
func resolveLocal(ctx context.Context, c *cache.Cache, spec string, opt TreeOptions) (*Tree, error) {
	dir, err := filepath.Abs(spec)
	if err != nil {
		return nil, err
	}
	fi, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		hint := ""
		if !strings.ContainsRune(spec, '/') {
			hint = "; known names are nfsd-testing and debian:linux-source-VERSION"
		}
		return nil, &TreeError{Spec: spec, Msg: "there is no such folder" + hint}
	case err != nil:
		return nil, err
	case !fi.IsDir():
		return nil, &TreeError{Spec: spec, Msg: "is a file; a folder with kernel sources or a git repository is needed"}
	}
	if repo := gitDir(ctx, dir); repo != "" {
		return resolveCommit(ctx, c, repo, "git:"+repo, opt)
	}
	if opt.Base != "" {
		return nil, &TreeError{Spec: spec, Msg: fmt.Sprintf("is not a git repository, so --base %s means nothing here", opt.Base)}
	}
	version, err := looksLikeKernel(func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, name)) })
	if err != nil {
		return nil, &TreeError{Spec: spec, Msg: "is no kernel tree", Err: err}
	}
	return &Tree{Kind: KindFolder, Version: version, Dir: dir, lineage: "folder:" + dir}, nil
}

var reMakeVar = regexp.MustCompile(`^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION)\s*=\s*(\S*)\s*$`)

// looksLikeKernel checks a few files that every kernel tree has and returns
// its version.
func looksLikeKernel(read func(string) ([]byte, error)) (string, error) {
	b, err := read("Makefile")
	if err != nil {
		return "", errors.New("it has no Makefile at its top")
	}
	v := map[string]string{}
	sc := bufio.NewScanner(bytes.NewReader(b))
	for i := 0; sc.Scan() && i < 20; i++ {
		if m := reMakeVar.FindStringSubmatch(sc.Text()); m != nil {
			v[m[1]] = m[2]
		}
	}
	if v["VERSION"] == "" || v["PATCHLEVEL"] == "" {
		return "", errors.New("its Makefile does not begin with VERSION and PATCHLEVEL")
	}
	for _, need := range []string{"Kconfig", "scripts/Kbuild.include"} {
		if _, err := read(need); err != nil {
			return "", fmt.Errorf("it has no %s", need)
		}
	}
	return fmt.Sprintf("%s.%s.%s%s", v["VERSION"], v["PATCHLEVEL"], orZero(v["SUBLEVEL"]), v["EXTRAVERSION"]), nil
}

func orZero(s string) string {
	if s == "" {
		return "0"
	}
	return s
}

// String names the tree for people: "debian:linux-source-7.3 (7.3.4-1~bpo13+1)".
func (t *Tree) String() string {
	switch {
	case t.PackageVersion != "":
		return fmt.Sprintf("%s (%s)", t.Spec, t.PackageVersion)
	case t.Commit != "":
		return fmt.Sprintf("%s (%s at %.12s)", t.Spec, t.Version, t.Commit)
	}
	return fmt.Sprintf("%s (%s)", t.Spec, t.Version)
}

// ReadFile implements diff.Tree: a file of the tree and its mode; of a
// symbolic link, its target; of a folder, nil and fs.ModeDir. A path that the
// tree has not is fs.ErrNotExist. It needs no Export.
func (t *Tree) ReadFile(name string) ([]byte, fs.FileMode, error) {
	if !fs.ValidPath(name) {
		return nil, 0, fmt.Errorf("%q is no path inside a kernel tree", name)
	}
	if t.Dir == "" {
		return t.git.read(t.Commit, name)
	}
	t.dirOnce.Do(func() { t.dirTree = diff.DirTree(t.Dir) })
	return t.dirTree.ReadFile(name)
}

// readTreeFile reads below dir without following links out of it.
func readTreeFile(dir, name string) ([]byte, fs.FileMode, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	fi, err := root.Lstat(name)
	if err != nil {
		if isNotDir(err) {
			err = &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
		}
		return nil, 0, err
	}
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		target, err := root.Readlink(name)
		return []byte(target), fs.ModeSymlink | 0o777, err
	case !fi.Mode().IsRegular():
		return nil, 0, fmt.Errorf("%s is no regular file", name)
	}
	b, err := root.ReadFile(name)
	return b, gitMode(fi.Mode()), err
}

// gitMode reduces a mode to what git knows.
func gitMode(m fs.FileMode) fs.FileMode {
	if m&0o100 != 0 {
		return 0o755
	}
	return 0o644
}
