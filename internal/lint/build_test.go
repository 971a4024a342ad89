// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"patchcheck/checks"
	"patchcheck/internal/cache"
	"patchcheck/internal/kernel"
	"patchcheck/kernel-configs/variants"
	"patchcheck/patches"
	"patchcheck/patches/diff"
)

// fakeKernel is a tree whose Makefile does what kbuild does for the variants
// of a folder without a set of its own: configure, and compile single objects
// with a step line each.
var fakeKernel = map[string]string{
	"Kconfig":                "",
	"scripts/Kbuild.include": "",
	"drivers/demo/Makefile":  "obj-$(CONFIG_DEMO) += ring.o queue.o\n",
	"drivers/demo/Kconfig":   "config DEMO\n\ttristate \"demo\"\nconfig DEMO_DEBUG\n\tbool \"debug\"\n",
	"drivers/Makefile":       "obj-y += demo/\n",
	"drivers/demo/ring.h":    "int ring(int n);\n",
	"drivers/demo/ring.c":    "#include \"ring.h\"\nint ring(int n)\n{\n\tint old;\n\treturn n;\n}\n",
	"drivers/demo/queue.c":   "#include \"ring.h\"\n#ifdef CONFIG_DEMO_DEBUG\nint q_debug;\n#endif\nint queue(void) { return ring(1); }\n",
	"Makefile": `VERSION = 7
PATCHLEVEL = 3
SUBLEVEL = 4
EXTRAVERSION =
targets := $(filter %.o %/,$(MAKECMDGOALS))
all%config:
	@{ grep -v "^#" $(O)/$(KCONFIG_ALLCONFIG); echo CONFIG_DEMO=$(if $(filter allmodconfig,$@),m,y); $(if $(filter allmodconfig,$@),echo CONFIG_MODULES=y;) grep -q '^# CONFIG_DEMO_DEBUG' $(O)/$(KCONFIG_ALLCONFIG) || echo CONFIG_DEMO_DEBUG=y; } > $(O)/$(KCONFIG_CONFIG)
objs := $(patsubst %.c,$(O)/%.o,$(wildcard drivers/demo/*.c))
drivers/demo/: $(objs) ; @mkdir -p $(O)/drivers/demo && ls $(O)/drivers/demo/*.o | sed 's,^$(O)/,,' > $(O)/drivers/demo/modules.order
drivers/demo/%.o: $(O)/drivers/demo/%.o ;
$(O)/drivers/demo/%.o: drivers/demo/%.c drivers/demo/ring.h $(O)/.config
	@mkdir -p $(@D)
	@echo '  CC      $(@:$(O)/%=%)'
	@gcc -Wall $(shell grep -q DEMO_DEBUG=y $(O)/.config && echo -DCONFIG_DEMO_DEBUG) -c -o $@ $(CURDIR)/$<
.DELETE_ON_ERROR:
.PRECIOUS: $(O)/drivers/demo/%.o
`,
}

type lab struct {
	cache *cache.Cache
	tree  *kernel.Tree
	base  *diff.Overlay
	said  []string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	if sb := kernel.FindSandbox(t.Context()); !sb.Enabled {
		t.Skip("no sandbox here: " + sb.Reason)
	}
	if miss := kernel.MissingTools(""); len(miss) > 0 {
		t.Skip(miss[0])
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{}
	if l.cache, err = cache.Open(filepath.Join(root, "cache")); err != nil {
		t.Fatal(err)
	}
	for n, text := range fakeKernel {
		p := filepath.Join(root, "linux", n)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if l.tree, err = kernel.Resolve(t.Context(), l.cache, filepath.Join(root, "linux"), kernel.TreeOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.tree.Close)
	l.base = diff.NewOverlay(l.tree)
	return l
}

// state is the base with files replaced.
func (l *lab) state(on *diff.Overlay, files ...string) *diff.Overlay {
	for i := 0; i < len(files); i += 2 {
		on = on.With(diff.Change{Path: files[i], Content: []byte(files[i+1]), Mode: 0o644})
	}
	return on
}

func (l *lab) run(t *testing.T, states ...*diff.Overlay) ([]checks.Finding, []VariantCost) {
	t.Helper()
	s := &patches.Series{}
	before := map[string]string{}
	for i, o := range states {
		p := &patches.Patch{Index: i + 1}
		for _, c := range o.Changed() {
			if before[c.Path] != string(c.Content) {
				before[c.Path] = string(c.Content)
				p.Files = append(p.Files, &diff.File{Old: c.Path, New: c.Path})
			}
		}
		s.Patches = append(s.Patches, p)
	}
	l.said = nil
	fs, costs, err := Variants(t.Context(), BuildOptions{Tree: l.tree, Series: s, Base: l.base, States: states, Cache: l.cache, NoSparse: true, Jobs: 2,
		Progress: func(m string) { l.said = append(l.said, m) }})
	if err != nil {
		t.Fatal(err)
	}
	return fs, costs
}

const ringC, queueC = "drivers/demo/ring.c", "drivers/demo/queue.c"

func TestVariants(t *testing.T) {
	l := newLab(t)
	ring := fakeKernel[ringC]
	good := l.state(l.base, ringC, "\n\n"+ring) // the old warning moves
	// Patch 2 has a variable that only one configuration leaves unused.
	bad := l.state(good, queueC, "#include \"ring.h\"\nint queue(void)\n{\n\tint n = 1;\n#ifdef CONFIG_DEMO_DEBUG\n\treturn ring(n);\n#else\n\treturn ring(1);\n#endif\n}\n")
	fs, costs := l.run(t, good, bad)
	if len(costs) < 3 {
		t.Fatalf("variants: %v", costs)
	}
	if len(fs) != 1 || fs[0].ID != "variant.no-demo_debug" || fs[0].Where.Patch != 2 || fs[0].Where.File != queueC || !strings.Contains(fs[0].Message, "in configuration no-demo_debug") {
		t.Errorf("got %s", showFindings(fs))
	}
	for _, c := range costs {
		if c.Objects == 0 || c.Reused || c.Skipped != "" || c.Compiled == 0 {
			t.Errorf("%+v", c)
		}
	}
	// Again: nothing is compiled.
	fs2, costs := l.run(t, good, bad)
	if showFindings(fs2) != showFindings(fs) || len(l.said) != 0 || !costs[0].Reused || costs[0].Objects == 0 {
		t.Errorf("the second time: %s%v %q", showFindings(fs2), costs, l.said)
	}
	// An edit: the base is known. What the series touches is made again from the
	// base's objects, since the earlier version ran among its own.
	worse := l.state(good, queueC, "#include \"ring.h\"\nint queue(void)\n{\n\tint every;\n\treturn ring(1) + nowhere;\n}\n")
	fs, costs = l.run(t, good, worse)
	all := showFindings(fs)
	if !strings.Contains(all, "'nowhere' undeclared") || fs[0].Severity != checks.Error || fs[0].Where.Patch != 2 {
		t.Errorf("got %s", all)
	}
	for _, c := range costs {
		if c.Base != 0 || c.Compiled > 2 {
			t.Errorf("after an edit: %+v", c)
		}
	}
	if n := strings.Count(all, "[patch 2: drivers/demo/queue.c:5:26]"); n != 1 {
		t.Errorf("what all variants say is told %d times:\n%s", n, all)
	}
}

func TestVariantOfNewFile(t *testing.T) {
	l := newLab(t)
	o := l.state(l.base, "drivers/demo/extra.c", "int extra(void)\n{\n\tint unused;\n\treturn 0;\n}\n",
		"drivers/demo/Makefile", "obj-$(CONFIG_DEMO) += ring.o queue.o extra.o\n")
	fs, _ := l.run(t, o)
	if len(fs) != 1 || fs[0].Where.File != "drivers/demo/extra.c" || !strings.Contains(fs[0].Message, "unused variable") {
		t.Errorf("got %s", showFindings(fs))
	}
}

func TestVariantUncovered(t *testing.T) {
	l := newLab(t)
	o := l.state(l.base, "arch/x86/kernel/demo.c", "int demo;\n", "Documentation/demo.rst", "Words.\n")
	fs, costs := l.run(t, o)
	if len(costs) != 0 || len(fs) != 1 || fs[0].ID != "variant.uncovered" || fs[0].Where.File != "arch/x86/kernel/demo.c" {
		t.Errorf("got %s%v", showFindings(fs), costs)
	}
	// Without the compiler asked for, the variant is named, not compiled.
	s := &patches.Series{Patches: []*patches.Patch{{Index: 1}}}
	good := l.state(l.base, ringC, "\n"+fakeKernel[ringC])
	_, costs, err := Variants(t.Context(), BuildOptions{Tree: l.tree, Series: s, Base: l.base, States: []*diff.Overlay{good}, Cache: l.cache, NoSparse: true,
		Clang: true, Only: []string{"all-built-in", "all-built-in-clang"}})
	if err != nil || len(costs) != 2 || costs[0].Objects == 0 {
		t.Fatalf("%v %v", costs, err)
	}
	if _, err := kernel.FindToolchain(t.Context(), "clang"); err != nil && !strings.Contains(costs[1].String(), "not compiled") {
		t.Errorf("without clang: %s", costs[1])
	}
}

func TestVariantWithoutConfiguration(t *testing.T) {
	l := newLab(t)
	mk := fakeKernel["Makefile"]
	broken := l.state(l.base, "Makefile", strings.Replace(mk, "all%config:\n", "all%config:\n\t@echo 'drivers/demo/Kconfig:3: syntax error' >&2; false\n", 1), ringC, "\n"+fakeKernel[ringC])
	fs, _ := l.run(t, broken)
	if len(fs) == 0 || fs[0].Severity != checks.Error {
		t.Errorf("a tree that cannot be configured any more: %s", showFindings(fs))
	}
}

func TestStateFS(t *testing.T) {
	l := newLab(t)
	o := l.state(l.base, "drivers/new/a.c", "int a;\n", ringC, "int r;\n").With(diff.Change{Path: queueC, Deleted: true})
	f := overlayFS(l.tree.Dir, o)
	if err := fstest.TestFS(f, ringC, "drivers/new/a.c", "Makefile"); err != nil {
		t.Error(err)
	}
	if b, err := fs.ReadFile(f, ringC); err != nil || string(b) != "int r;\n" {
		t.Errorf("%q %v", b, err)
	}
	if _, err := fs.Stat(f, queueC); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a removed file: %v", err)
	}
	var names []string
	es, err := fs.ReadDir(f, "drivers/demo")
	for _, e := range es {
		names = append(names, e.Name())
	}
	if err != nil || !slices.Equal(names, []string{"Kconfig", "Makefile", "ring.c", "ring.h"}) {
		t.Errorf("%q %v", names, err)
	}
	if es, err := fs.ReadDir(f, "drivers/new"); err != nil || len(es) != 1 {
		t.Errorf("%v %v", es, err)
	}
}

// compareOnly compares given sides without compiling anything.
func compareOnly(t *testing.T, l *lab, works []*work, states ...*diff.Overlay) []checks.Finding {
	t.Helper()
	s := &patches.Series{}
	for i := range states {
		s.Patches = append(s.Patches, &patches.Patch{Index: i + 1})
	}
	return BuildOptions{Series: s, States: states}.compare(works, append([]*diff.Overlay{l.base}, states...), l.tree.Dir)
}

func TestCompare(t *testing.T) {
	l := newLab(t)
	o := l.state(l.base, ringC, "int r;\n")
	side := func(lines ...string) *sideOf { return &sideOf{Ledger: kernel.Ledger{"drivers/demo/ring.o": lines}} }
	mk := func(name string, a, b *sideOf) *work {
		return &work{Variant: variants.Variant{Name: name, Modular: a.Undefined != nil, Sources: []string{"drivers/demo/ring.c", "drivers/demo/extra.c"}}, sides: []*sideOf{a, b}}
	}
	needs := func(names ...string) *sideOf {
		s := side()
		s.Symbols.Needs = map[string]string{}
		for _, n := range names {
			s.Symbols.Needs[n] = "drivers/demo/ring.o"
		}
		return s
	}
	defines := func(name string) *sideOf {
		s := side()
		s.Symbols.Defines = map[string]string{name: "drivers/demo/extra.o"}
		return s
	}
	warn := ringC + ":1:5: warning: unused variable 'r' [-Wunused-variable]"
	missing := &sideOf{Missing: "CONFIG_X cannot be had\nmore"}
	infra := mk("broken", side(), nil)
	infra.err = errors.New("the compiler was killed")
	for _, c := range []struct {
		name  string
		works []*work
		want  []string // id, severity
	}{
		{"nothing new", []*work{mk("a", side(warn), side(warn))}, nil},
		{"new under two", []*work{mk("a", side(), side(warn)), mk("b", side(), side(warn))}, []string{"variant.a warning in configurations a, b"}},
		{"fixed", []*work{mk("a", side(warn), side())}, []string{"variant.a note"}},
		{"no such configuration", []*work{mk("a", missing, missing)}, nil},
		{"not configurable any more", []*work{mk("a", side(), missing)}, []string{"variant.a error cannot be configured any more"}},
		{"make alone", []*work{mk("a", side(), &sideOf{Ledger: kernel.Ledger{"drivers/demo/ring.o": nil}, Failed: []string{"drivers/demo/x.o"}, Lines: []string{"*** No rule"}})}, []string{"variant.a error make cannot build drivers/demo/x.o"}},
		{"base fails, too", []*work{mk("a", &sideOf{Failed: []string{"x"}}, &sideOf{Failed: []string{"x"}})}, nil},
		{"host", []*work{infra}, []string{"variant.infra error the compiler was killed"}},
		{"not exported", []*work{mk("m", &sideOf{Undefined: map[string][]string{}}, &sideOf{Undefined: map[string][]string{"drivers/demo/demo.ko": {"no_such_symbol"}}})}, []string{"variant.m error no_such_symbol"}},
		{"divides 64 bits", []*work{mk("i386", side(), needs("__divdi3", "printk"))}, []string{"variant.i386 error __divdi3' in drivers/demo/ring.o (a 64-bit division"}},
		{"divided before", []*work{mk("i386", needs("__divdi3"), needs("__divdi3", "__udivdi3"))}, []string{"variant.i386 error __udivdi3"}},
		{"defined elsewhere", []*work{mk("all", side(), defines("helper")), mk("less", side(), needs("helper", "printk"))}, []string{"variant.less error helper' in drivers/demo/ring.o (drivers/demo/extra.o defines it in other configurations only)"}},
		{"defined by what is not compiled here", []*work{mk("all", side(), defines("helper")), mk("less", needs("helper"), needs("helper"))}, nil},
		{"no longer defined", []*work{mk("less", defines("helper"), needs("helper"))}, []string{"variant.less error helper' in drivers/demo/ring.o (drivers/demo/extra.o defined it before)"}},
	} {
		fs := compareOnly(t, l, c.works, o)
		if len(fs) != len(c.want) {
			t.Errorf("%s: got %s", c.name, showFindings(fs))
			continue
		}
		for i, w := range c.want {
			f := strings.SplitN(w, " ", 3)
			if fs[i].ID != f[0] || string(fs[i].Severity) != f[1] || len(f) > 2 && !strings.Contains(fs[i].Message, f[2]) {
				t.Errorf("%s: got %s, want %s", c.name, showFindings(fs), w)
			}
		}
	}
	if r := VariantRule("x"); r.ID != "variant.x" || r.Source == "" || r.Fix == "" {
		t.Errorf("%+v", r)
	}
}
