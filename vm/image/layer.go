// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"patchcheck/internal/cache"
	"patchcheck/internal/debian"
	"patchcheck/internal/proc"
	"patchcheck/vm/initramfs"
)

// layer is one archive in the cache.
type layer struct {
	Name       string    `json:"name"`
	SHA256     string    `json:"sha256"`
	Packages   []Package `json:"packages"`
	Files      []string  `json:"files"` // what it holds, so that later layers need not
	Compressed int64     `json:"compressed_bytes"`

	path string
}

const (
	layerFile = "layer.cpio"
	layerMeta = "layer.json"
)

// key is the name of the layer in the cache. Versions of packages are not
// part of it: they are what a refresh may change.
func (r recipe) key(below []layer) string {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // plain strings
	}
	h := sha256.New()
	fmt.Fprintf(h, "layer %d\n%s\n%s\n", format, suite, b)
	for _, l := range below {
		fmt.Fprintf(h, "above %s\n", l.SHA256)
	}
	return r.Name + "-" + hex.EncodeToString(h.Sum(nil))[:24]
}

// build returns the layer, which lies above those in below.
func (r recipe) build(ctx context.Context, c *cache.Cache, opt Options, below []layer) (layer, error) {
	key := r.key(below)
	if !opt.Refresh {
		if dir, err := c.Lookup(section, key); err == nil {
			if l, err := readLayer(dir); err == nil {
				c.Touch(section, key)
				return l, nil
			}
		}
	}
	lock, err := c.Lock(ctx, "image-"+r.Name, func(holder string) { opt.Progress("waiting for " + holder + ", which builds the guest image") })
	if err != nil {
		return layer{}, err
	}
	defer lock.Close()
	if !opt.Refresh {
		if dir, err := c.Lookup(section, key); err == nil {
			if l, err := readLayer(dir); err == nil {
				return l, nil
			}
		}
	}
	tree, used, err := r.collect(ctx, c, opt, below)
	if err != nil {
		return layer{}, fmt.Errorf("guest image, layer %s: %w", r.Name, err)
	}
	archive, err := tree.Bytes()
	if err != nil {
		return layer{}, err
	}
	packed, err := tree.Compressed(6)
	if err != nil {
		return layer{}, err
	}
	sum := sha256.Sum256(archive)
	l := layer{Name: r.Name, SHA256: hex.EncodeToString(sum[:]), Packages: used, Files: slices.Sorted(maps.Keys(tree)), Compressed: int64(len(packed))}
	if opt.Refresh {
		// Put keeps an entry that is there.
		if dir, err := c.Lookup(section, key); err == nil {
			if old, err := readLayer(dir); err == nil && old.SHA256 == l.SHA256 {
				return old, nil
			}
			if err := c.Remove(section, key); err != nil {
				return layer{}, err
			}
		}
	}
	dir, err := c.Put(section, key, func(dir string) error {
		if err := os.WriteFile(filepath.Join(dir, layerFile), archive, 0o644); err != nil {
			return err
		}
		meta, err := json.MarshalIndent(l, "", " ")
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, layerMeta), meta, 0o644)
	})
	if err != nil {
		return layer{}, err
	}
	return readLayer(dir)
}

func readLayer(dir string) (layer, error) {
	b, err := os.ReadFile(filepath.Join(dir, layerMeta))
	if err != nil {
		return layer{}, err
	}
	var l layer
	if err := json.Unmarshal(b, &l); err != nil {
		return layer{}, fmt.Errorf("%s: %w", dir, err)
	}
	l.path = filepath.Join(dir, layerFile)
	return l, nil
}

// collect fetches the packages and picks the files.
func (r recipe) collect(ctx context.Context, c *cache.Cache, opt Options, below []layer) (initramfs.Tree, []Package, error) {
	root, err := debian.Open(ctx, c, debian.Options{Suites: []string{suite}, Refresh: opt.Refresh, Progress: opt.Progress})
	if err != nil {
		return nil, nil, err
	}
	opt.Progress("finding the packages of the guest image (" + r.Name + ")")
	var all []debian.Package
	if len(r.Packages) > 0 {
		if all, err = root.Resolve(ctx, true, r.Packages...); err != nil {
			return nil, nil, err
		}
	}
	var want []string
	for _, p := range all {
		if slices.Contains(r.Packages, p.Name) || library(p.Name) {
			want = append(want, p.Name+"="+p.Version)
		}
	}
	var pkgs []debian.Package
	if len(want) > 0 {
		if pkgs, err = root.Download(ctx, false, want...); err != nil {
			return nil, nil, err
		}
	}
	// Below the cache: the host's /tmp may be small or mounted noexec, and
	// busybox is run once.
	if err := os.MkdirAll(c.Path("tmp"), 0o755); err != nil {
		return nil, nil, err
	}
	tmp, err := os.MkdirTemp(c.Path("tmp"), "image-")
	if err != nil {
		return nil, nil, err
	}
	defer cache.RemoveAll(tmp)
	opt.Progress(fmt.Sprintf("unpacking %d packages of the guest image (%s)", len(pkgs), r.Name))
	src := newSource(tmp)
	for _, p := range pkgs {
		dir := filepath.Join(tmp, p.Name)
		if err := debian.Extract(ctx, p, dir); err != nil {
			return nil, nil, err
		}
		if err := src.add(p.Name, dir); err != nil {
			return nil, nil, err
		}
	}
	have := make(map[string]bool)
	for _, l := range below {
		for _, f := range l.Files {
			have[f] = true
		}
	}
	pick := picker{src: src, tree: initramfs.Tree{}, have: have, used: make(map[string]bool)}
	for _, f := range r.Files {
		if err := pick.glob(f); err != nil {
			return nil, nil, err
		}
	}
	if r.Applets {
		if err := applets(ctx, pick, src); err != nil {
			return nil, nil, err
		}
	}
	for name, text := range r.Settings {
		pick.tree.File(name, 0o644, []byte(text))
	}
	for _, d := range r.Dirs {
		pick.tree.Dir(d, 0o755)
	}
	for name, target := range r.Links {
		pick.tree.Link(name, target)
	}
	var used []Package
	if r.Compile != nil {
		program, origin, err := r.Compile.program(ctx, root, opt, filepath.Join(tmp, ".compile"))
		if err != nil {
			return nil, nil, err
		}
		data, err := os.ReadFile(program)
		if err != nil {
			return nil, nil, err
		}
		pick.tree.File(r.Compile.As, 0o755, data)
		used = append(used, origin)
	}
	for _, p := range pkgs {
		if pick.used[p.Name] {
			used = append(used, Package{p.Name, p.Version})
		}
	}
	return pick.tree, used, nil
}

// library says whether a package may hold a shared library that a program
// needs. Which ones are needed is decided by the programs themselves; this
// only saves fetching interpreters.
func library(name string) bool {
	if name == "zlib1g" {
		return true
	}
	return strings.HasPrefix(name, "lib") && !strings.HasPrefix(name, "libperl") && !strings.HasPrefix(name, "libpython") && !strings.HasSuffix(name, "-perl")
}

// source is what the packages hold, by path in the guest.
type source struct {
	root  string
	files map[string]sourceFile
}

type sourceFile struct {
	pkg  string
	path string // on the host
	link string // target, if it is a symbolic link
	mode fs.FileMode
}

func newSource(root string) *source {
	return &source{root: root, files: make(map[string]sourceFile)}
}

// merged maps a path to where it is on a system with a merged /usr, which the
// guest is (Debian's usrmerge).
func merged(p string) string {
	p = strings.TrimPrefix(path.Clean("/"+p), "/")
	for _, top := range []string{"bin", "sbin", "lib", "lib64"} {
		if strings.HasPrefix(p, top+"/") {
			return "usr/" + p
		}
	}
	return p
}

func (s *source) add(pkg, dir string) error {
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		f := sourceFile{pkg: pkg, path: p, mode: info.Mode()}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			if f.link, err = os.Readlink(p); err != nil {
				return err
			}
		case !info.Mode().IsRegular():
			return nil
		}
		s.files[merged(filepath.ToSlash(rel))] = f
		return nil
	})
}

// picker copies chosen files, and what they need, into a tree.
type picker struct {
	src  *source
	tree initramfs.Tree
	have map[string]bool // in a layer below
	used map[string]bool // packages
}

func (p picker) glob(pattern string) error {
	prefix, isPrefix := strings.CutSuffix(pattern, "*")
	if !isPrefix {
		return p.take(merged(pattern), "the recipe")
	}
	prefix = merged(prefix)
	n := 0
	for _, name := range slices.Sorted(maps.Keys(p.src.files)) {
		if strings.HasPrefix(name, prefix) {
			n++
			if err := p.take(name, "the recipe"); err != nil {
				return err
			}
		}
	}
	if n == 0 {
		return fmt.Errorf("no package holds %s", pattern)
	}
	return nil
}

// take adds one file: a link with what it points to, a program with its
// libraries.
func (p picker) take(name, by string) error {
	if _, ok := p.tree[name]; ok || p.have[name] {
		return nil
	}
	f, ok := p.src.files[name]
	if !ok {
		return fmt.Errorf("no package holds /%s, which %s needs", name, by)
	}
	p.used[f.pkg] = true
	if f.link != "" {
		p.tree.Link(name, f.link)
		target := f.link
		if !path.IsAbs(target) {
			target = path.Join(path.Dir("/"+name), target)
		}
		return p.take(merged(target), "/"+name)
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	p.tree.File(name, f.mode.Perm()|0o444, data)
	return p.libraries(name, f.path)
}

// searchPath is where the dynamic linker looks without being told.
var searchPath = []string{"usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib"}

func (p picker) libraries(name, host string) error {
	e, err := elf.Open(host)
	if err != nil {
		var format *elf.FormatError
		if errors.As(err, &format) || strings.Contains(err.Error(), "EOF") {
			return nil // a script or a text
		}
		return err
	}
	defer e.Close()
	for _, prog := range e.Progs {
		if prog.Type != elf.PT_INTERP {
			continue
		}
		b := make([]byte, prog.Filesz)
		if _, err := prog.ReadAt(b, 0); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := p.take(merged(strings.TrimRight(string(b), "\x00")), "/"+name); err != nil {
			return err
		}
	}
	needed, err := e.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	dirs := slices.Clone(searchPath)
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		paths, _ := e.DynString(tag)
		for _, list := range paths {
			for _, d := range strings.Split(list, ":") {
				d = strings.ReplaceAll(strings.ReplaceAll(d, "${ORIGIN}", "$ORIGIN"), "$ORIGIN", path.Dir("/"+name))
				dirs = append(dirs, merged(d))
			}
		}
	}
	for _, lib := range needed {
		found := false
		for _, d := range dirs {
			at := d + "/" + lib
			if _, ok := p.src.files[at]; ok || p.have[at] {
				found = true
				if err := p.take(at, "/"+name); err != nil {
					return err
				}
				break
			}
		}
		if !found {
			return fmt.Errorf("no package holds the library %s, which /%s needs", lib, name)
		}
	}
	return nil
}

// applets links busybox's commands to it, but for those that the image has as
// programs of their own.
func applets(ctx context.Context, p picker, src *source) error {
	bb := src.files["usr/bin/busybox"]
	// A program from a signed package, run with nothing to read: it lists its
	// own commands.
	res, err := proc.Run(ctx, proc.Cmd{Argv: []string{bb.path, "--list-full"}})
	if err != nil {
		return fmt.Errorf("busybox: %w", err)
	}
	for _, line := range strings.Fields(string(res.Stdout)) {
		name := merged(line)
		if !strings.HasPrefix(name, "usr/") {
			continue
		}
		twin := map[string]string{"usr/bin": "usr/sbin", "usr/sbin": "usr/bin"}[path.Dir(name)] + "/" + path.Base(name)
		_, own := p.tree[name]
		_, ownTwin := p.tree[twin]
		if !own && !ownTwin {
			p.tree.Link(name, "/usr/bin/busybox")
		}
	}
	return nil
}
