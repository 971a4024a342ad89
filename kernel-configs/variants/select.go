// SPDX-License-Identifier: Apache-2.0

package variants

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Selection is what Select found.
type Selection struct {
	Variants []Variant
	// Left are touched files that no variant compiles, with the reason: text,
	// scripts, headers that nothing of the chosen folders includes.
	Left map[string]string
}

// Select chooses the variants for a series that touches the files given.
// tree is the kernel source with the series applied; paths are relative to it.
// Touched files of a subsystem that has a set of its own get that set; others
// get variants made from the symbols in the Makefiles and Kconfig of their
// folders.
func Select(tree fs.FS, touched []string, opts Options) (Selection, error) {
	sel := Selection{Left: map[string]string{}}
	in := &includes{tree, map[string]*file{}}
	k := &kbuild{tree, map[string]*makefile{}}

	files := map[string]bool{}
	for _, p := range touched {
		p = path.Clean(p)
		if why := notCompiled(p); why != "" {
			sel.Left[p] = why
			continue
		}
		files[p] = true
	}
	taken := map[string]bool{}
	for i := range sets {
		s := &sets[i]
		targets, sources, symbols, hit, err := affectedBy(in, s.folders, files)
		if err != nil {
			return sel, fmt.Errorf("cannot read the sources of %s: %w", strings.Join(s.folders, ", "), err)
		}
		for _, p := range hit {
			taken[p] = true
		}
		if len(targets) == 0 {
			continue
		}
		for _, m := range s.members {
			v := s.variant(m, opts)
			v.Targets, v.Sources = targets, sources
			if !m.always && !slices.ContainsFunc(s.changes(m), func(c string) bool { return symbols[c] }) {
				v.SameAs = s.members[0].file
			}
			sel.Variants = append(sel.Variants, v)
		}
	}

	// The rest, by folder.
	var folders []string
	rest := map[string]bool{}
	for p := range files {
		if taken[p] {
			continue
		}
		rest[p] = true
		if dir := path.Dir(p); !isHeader(p) && dir != "." && topLevel(dir) != "arch" && topLevel(dir) != "include" && topLevel(dir) != "scripts" && topLevel(dir) != "tools" {
			folders = append(folders, dir)
		}
	}
	// Headers beside the sources of a touched folder, or of their own folder.
	for p := range rest {
		if isHeader(p) && topLevel(p) != "include" && topLevel(p) != "arch" {
			folders = append(folders, path.Dir(p))
		}
	}
	slices.Sort(folders)
	folders = slices.Compact(folders)
	targets, sources, _, hit, err := affectedBy(in, folders, rest)
	if err != nil {
		return sel, fmt.Errorf("cannot read the sources of %s: %w", strings.Join(folders, ", "), err)
	}
	if len(targets) > 0 {
		sel.Variants = append(sel.Variants, generic(k, in, targets, sources, rest, opts)...)
	}
	for p := range rest {
		if !slices.Contains(hit, p) {
			sel.Left[p] = "nothing of the touched folders is compiled from it; the boot kernel's build covers it"
		}
	}
	return sel, nil
}

// notCompiled tells files that no configuration compiles.
func notCompiled(p string) string {
	switch {
	case !fs.ValidPath(p):
		return "not a path within the tree"
	case topLevel(p) == "Documentation", path.Ext(p) == ".rst", path.Ext(p) == ".txt", path.Ext(p) == ".md", p == "MAINTAINERS", p == "CREDITS":
		return "a document"
	case topLevel(p) == "scripts", topLevel(p) == "tools":
		return "a tool of the host"
	}
	return ""
}

func topLevel(p string) string { t, _, _ := strings.Cut(p, "/"); return t }
func isHeader(p string) bool   { return path.Ext(p) == ".h" }
func isBuildFile(p string) bool {
	b := path.Base(p)
	return strings.HasPrefix(b, "Makefile") || strings.HasPrefix(b, "Kconfig") || b == "Kbuild"
}

// affectedBy finds what of the folders a series can change: the targets of
// make, the sources, the symbols in them, and which touched files matter.
func affectedBy(in *includes, folders []string, touched map[string]bool) (targets, sources []string, symbols map[string]bool, hit []string, err error) {
	within := func(p string) bool {
		return slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(p, f+"/") })
	}
	need := false
	for p := range touched {
		need = need || within(p) || isHeader(p)
	}
	if !need || len(folders) == 0 {
		return nil, nil, nil, nil, nil
	}
	all, err := in.sources(folders)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	var headersOf []string
	for _, f := range folders {
		headersOf = append(headersOf, f+"/")
	}
	headersOf = append(headersOf, "include/linux/sunrpc/", "include/linux/nfs", "include/linux/lockd/", "include/trace/events/", "include/rdma/")
	sources, symbols = in.affected(all, touched, headersOf)
	for _, s := range sources {
		targets = append(targets, path.Dir(s)+"/")
	}
	for p := range touched {
		switch {
		case within(p) && isBuildFile(p):
			// It can change every object below.
			targets = append(targets, path.Dir(p)+"/")
			for _, s := range all {
				if strings.HasPrefix(s, path.Dir(p)+"/") {
					sources = append(sources, s)
				}
			}
			hit = append(hit, p)
		case slices.Contains(sources, p):
			hit = append(hit, p)
		case within(p) && isUnit(p):
			hit = append(hit, p) // removed by the series
			targets = append(targets, path.Dir(p)+"/")
		case isHeader(p):
			if one, _ := in.affected(all, map[string]bool{p: true}, nil); len(one) > 0 {
				hit = append(hit, p)
			}
		}
	}
	slices.Sort(sources)
	slices.Sort(hit)
	return minimal(targets), slices.Compact(sources), symbols, hit, nil
}

// instrumentation is what all*config switch on and what only slows the
// compiler down, or floods the log.
var instrumentation = map[string]string{
	"KASAN": "n", "KCOV": "n", "KCSAN": "n", "UBSAN": "n", "GCOV_KERNEL": "n", "DEBUG_INFO_NONE": "y", "DEBUG_INFO_DWARF5": "n",
	"WERROR": "n", "MODULE_SIG": "n", "LTO_CLANG_FULL": "n", "LTO_CLANG_THIN": "n", "GCC_PLUGINS": "n", "RUST": "n",
	"CPU_MITIGATIONS": "n", "UNWINDER_FRAME_POINTER": "y", "COMPILE_TEST": "y",
}

// generic makes variants for folders that have no set: everything modular,
// everything built in, 32 bit, and each symbol that the touched sources ask
// about turned off.
func generic(k *kbuild, in *includes, targets, sources []string, touched map[string]bool, opts Options) []Variant {
	arch := cmp.Or(opts.Arch, "x86_64")
	make1 := func(name, arch, base, why string, off ...string) Variant {
		s := map[string]string{}
		for k, v := range instrumentation {
			s[k] = v
		}
		for _, o := range off {
			s[o] = "n"
		}
		return Variant{Name: name, Arch: arch, Base: base, Fragment: render(s), Targets: targets, Sources: sources, MakeVars: opts.makeVars(), Why: why}
	}
	mod := make1("all-modules", arch, "allmodconfig", "all modular: symbols that are used across modules and not exported")
	mod.Modular = true
	out := []Variant{mod, make1("all-built-in", arch, "allyesconfig", "everything on and built in: code that the boot kernel leaves out")}
	if arch == "x86_64" {
		out = append(out, make1("all-i386", "i386", "allmodconfig", "32 bit: size_t and long in format strings, 64-bit division, min() of unlike types"))
	}
	most := cmp.Or(opts.MostSymbols, 3)
	for _, s := range askedSymbols(k, in, sources, touched) {
		if most == 0 {
			break
		}
		most--
		out = append(out, make1("no-"+strings.ToLower(s), arch, "allmodconfig", "CONFIG_"+s+" off: the touched files ask for it", s))
	}
	return out
}

var reKconfigSym = regexp.MustCompile(`(?m)^[ \t]*(?:menu)?config[ \t]+(\w+)`)

// askedSymbols lists the symbols that touched files test and that the Kconfig
// of their folders defines: turning one off compiles other code. The symbols
// that decide whether the touched objects are compiled at all are left out.
func askedSymbols(k *kbuild, in *includes, sources []string, touched map[string]bool) []string {
	gates, defined := map[string]bool{}, map[string]bool{}
	asked := map[string]int{}
	folders := map[string]bool{}
	for p := range touched {
		folders[path.Dir(p)] = true
		if !isBuildFile(p) {
			for _, s := range in.symbols(p) {
				asked[s] += 2
			}
		}
	}
	for _, s := range sources {
		dir := path.Dir(s)
		folders[dir] = true
		if m := k.folder(dir); m != nil && touched[s] {
			for _, g := range m.gates(strings.TrimSuffix(path.Base(s), path.Ext(s))+".o", 0) {
				gates[g] = true
			}
		}
		for d := dir; path.Dir(d) != "."; d = path.Dir(d) {
			if m := k.folder(path.Dir(d)); m != nil {
				for _, g := range m.gates(path.Base(d)+"/", 0) {
					gates[g] = true
				}
			}
		}
	}
	for d := range folders {
		for ; d != "."; d = path.Dir(d) {
			if b, err := fs.ReadFile(k.tree, path.Join(d, "Kconfig")); err == nil {
				for _, m := range reKconfigSym.FindAllStringSubmatch(string(b), -1) {
					defined[m[1]] = true
				}
			}
		}
	}
	for d := range folders { // what a Makefile leaves out changes its neighbours too
		if m := k.folder(d); m != nil {
			for _, s := range m.symbols {
				asked[s]++
			}
		}
	}
	var out []string
	for s := range asked {
		if defined[s] && !gates[s] {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(asked[b]-asked[a], cmp.Compare(a, b)) })
	return out
}
