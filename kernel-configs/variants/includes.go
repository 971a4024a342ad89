// SPDX-License-Identifier: Apache-2.0

package variants

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// includes answers which sources of some folders include a file, directly or
// through other headers. It reads #include lines only: conditions are ignored,
// so the answer may hold a source too many, hardly one too few.
type includes struct {
	tree fs.FS
	read map[string]*file // by path; nil: does not exist
}

// file is what is known of a source or header.
type file struct {
	quoted, angled []string // names in #include "..." and <...>
}

var reSymbol = regexp.MustCompile(`\bCONFIG_([A-Z0-9_a-z]+)`)

// maxSource bounds the part of a source that is read, in bytes: generated
// register headers have tens of megabytes.
const maxSource = 4 << 20

func (in *includes) text(p string) ([]byte, bool) {
	b, err := fs.ReadFile(in.tree, p)
	return b[:min(len(b), maxSource)], err == nil
}

func (in *includes) file(p string) *file {
	if f, ok := in.read[p]; ok {
		return f
	}
	in.read[p] = nil
	b, ok := in.text(p)
	if !ok {
		return nil
	}
	f := &file{}
	for len(b) > 0 {
		// A tree has some gigabyte of text: no regular expression here.
		i := bytes.IndexByte(b, '#')
		if i < 0 {
			break
		}
		line := b[i+1:]
		first := len(bytes.TrimLeft(b[bytes.LastIndexByte(b[:i], '\n')+1:i], " \t")) == 0
		if n := bytes.IndexByte(line, '\n'); n >= 0 {
			line, b = line[:n], line[n+1:]
		} else {
			b = nil
		}
		name, found := bytes.CutPrefix(bytes.TrimLeft(line, " \t"), []byte("include"))
		name = bytes.TrimLeft(name, " \t")
		if !first || !found || len(name) < 3 {
			continue
		}
		switch name[0] {
		case '"':
			if n := bytes.IndexByte(name[1:], '"'); n > 0 {
				f.quoted = append(f.quoted, string(name[1:1+n]))
			}
		case '<':
			if n := bytes.IndexByte(name, '>'); n > 1 {
				f.angled = append(f.angled, string(name[1:n]))
			}
		}
	}
	in.read[p] = f
	return f
}

// symbols lists the CONFIG_ symbols in the text of p, without the prefix.
func (in *includes) symbols(p string) []string {
	b, _ := in.text(p)
	var out []string
	for _, m := range reSymbol.FindAllSubmatch(b, -1) {
		if s := strings.TrimSuffix(string(m[1]), "_MODULE"); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// targets lists the paths that the #include lines of the file at p may mean.
func (in *includes) targets(p string, f *file) []string {
	var out []string
	try := func(names ...string) {
		for _, n := range names {
			if in.file(n) != nil {
				out = append(out, n)
				return
			}
		}
	}
	for _, q := range f.quoted {
		try(path.Join(path.Dir(p), q), path.Join("include", q))
	}
	for _, a := range f.angled {
		try(path.Join("include", a), path.Join("include/uapi", a), path.Join("arch/x86/include", a), path.Join("arch/x86/include/uapi", a), path.Join("include/asm-generic", strings.TrimPrefix(a, "asm/")))
	}
	return out
}

// sources lists the files below folders that are compiled by themselves.
func (in *includes) sources(folders []string) ([]string, error) {
	var out []string
	for _, dir := range folders {
		err := fs.WalkDir(in.tree, dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.Type().IsRegular() && isUnit(p) {
				out = append(out, p)
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// affected lists the sources that are, or include, one of the touched files,
// sorted, and the symbols that occur in them and in the headers they include,
// of those whose path begins with one of headersOf.
func (in *includes) affected(sources []string, touched map[string]bool, headersOf []string) (hit []string, symbols map[string]bool) {
	includers := map[string][]string{} // reverse edges
	seen := map[string]bool{}
	var todo []string
	for p := range touched {
		if !isUnit(p) {
			todo = slices.Clone(sources) // only then includes matter
			break
		}
	}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[p] {
			continue
		}
		seen[p] = true
		f := in.file(p)
		if f == nil {
			continue
		}
		for _, t := range in.targets(p, f) {
			includers[t] = append(includers[t], p)
			todo = append(todo, t)
		}
	}
	changed := map[string]bool{}
	for p := range touched {
		todo = append(todo, p)
	}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if changed[p] {
			continue
		}
		changed[p] = true
		todo = append(todo, includers[p]...)
	}
	symbols = map[string]bool{}
	collected := map[string]bool{}
	for _, s := range sources {
		if changed[s] {
			hit = append(hit, s)
			in.collect(s, headersOf, symbols, collected)
		}
	}
	return hit, symbols
}

// isUnit tells a file that is compiled by itself.
func isUnit(p string) bool { return path.Ext(p) == ".c" || path.Ext(p) == ".S" }

// collect adds the symbols of p and of the headers it includes.
func (in *includes) collect(p string, headersOf []string, symbols, seen map[string]bool) {
	if seen[p] {
		return
	}
	seen[p] = true
	f := in.file(p)
	if f == nil {
		return
	}
	for _, s := range in.symbols(p) {
		symbols[s] = true
	}
	for _, t := range in.targets(p, f) {
		if slices.ContainsFunc(headersOf, func(h string) bool { return strings.HasPrefix(t, h) }) {
			in.collect(t, headersOf, symbols, seen)
		}
	}
}
