// SPDX-License-Identifier: Apache-2.0

package variants

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	kernelconfigs "patchcheck/kernel-configs"
)

// demoTree is a small kernel with a piece of sunrpc and a driver.
var demoTree = fstest.MapFS{
	"net/Makefile":                                {Data: []byte("obj-$(CONFIG_SUNRPC) += sunrpc/\n")},
	"net/sunrpc/Makefile":                         {Data: []byte("obj-$(CONFIG_SUNRPC) += sunrpc.o\nobj-$(CONFIG_SUNRPC_XPRT_RDMA) += xprtrdma/\nsunrpc-y := svc.o \\\n\tclnt.o\nsunrpc-$(CONFIG_SUNRPC_BACKCHANNEL) += back.o\n")},
	"net/sunrpc/svc.c":                            {Data: []byte("#include <linux/sunrpc/svc.h>\n#ifdef CONFIG_SUNRPC_DEBUG\n#endif\n")},
	"net/sunrpc/clnt.c":                           {Data: []byte("#include <linux/kernel.h>\n")},
	"net/sunrpc/back.c":                           {Data: []byte("#include \"local.h\"\n")},
	"net/sunrpc/local.h":                          {Data: []byte("#include <linux/sunrpc/svc.h>\n")},
	"net/sunrpc/xprtrdma/Makefile":                {Data: []byte("obj-$(CONFIG_SUNRPC_XPRT_RDMA) += rpcrdma.o\nrpcrdma-y := send.o\nrpcrdma-$(CONFIG_SUNRPC_BACKCHANNEL) += chan.o\n")},
	"net/sunrpc/xprtrdma/send.c":                  {Data: []byte("  #  include <linux/sunrpc/svc_rdma.h>\n")},
	"net/sunrpc/xprtrdma/chan.c":                  {Data: []byte("/* #include <linux/sunrpc/svc_rdma.h> */\n")},
	"include/linux/kernel.h":                      {Data: []byte("#include <linux/loop.h>\n")},
	"include/linux/loop.h":                        {Data: []byte("#include <linux/kernel.h>\n")},
	"include/linux/sunrpc/svc.h":                  {Data: []byte("#include <linux/kernel.h>\nCONFIG_NFSD_V4\n")},
	"include/linux/sunrpc/svc_rdma.h":             {Data: []byte("#include <linux/sunrpc/svc.h>\n")},
	"include/linux/unused.h":                      {Data: []byte("\n")},
	"drivers/Makefile":                            {Data: []byte("obj-y += demo/\n")},
	"drivers/demo/Makefile":                       {Data: []byte("obj-$(CONFIG_DEMO) += demo.o\ndemo-objs := main.o\nifdef CONFIG_DEMO_PM\ndemo-y += pm.o\nelse\ndemo-y += nopm.o\nendif\nifneq ($(CONFIG_DEMO_PCI),)\nobj-m += pci.o\nendif\nobj-y += $(addsuffix .o, odd)\n")},
	"drivers/demo/Kconfig":                        {Data: []byte("config DEMO\n\ttristate\nconfig DEMO_DEBUGFS\n\tbool\nmenuconfig DEMO_PM\n\tbool\n")},
	"drivers/demo/main.c":                         {Data: []byte("#ifdef CONFIG_DEMO_DEBUGFS\n#if IS_ENABLED(CONFIG_DEMO)\n#ifdef CONFIG_PCI\n")},
	"drivers/demo/pm.c":                           {Data: []byte("\n")},
	"drivers/demo/nopm.c":                         {Data: []byte("\n")},
	"drivers/demo/odd.c":                          {Data: []byte("\n")},
	"Documentation/demo.rst":                      {Data: []byte("\n")},
	"kernel/exports.c":                            {Data: []byte("EXPORT_SYMBOL(one);\nEXPORT_SYMBOL_GPL( two );\nEXPORT_SYMBOL_NS_GPL(three, \"DEMO\");\nEXPORT_STATIC_CALL(four);\nEXPORT_TRACEPOINT_SYMBOL_GPL(five);\nEXPORT_OTHER(six);\n#define EXPORT_SYMBOL_\n")},
	"arch/x86/include/asm/export.S":               {Data: []byte("EXPORT_SYMBOL(seven)\n")},
	"fs/nfsd/Makefile":                            {Data: []byte("obj-$(CONFIG_NFSD) += nfsd.o\nnfsd-y += proc.o\n")},
	"fs/nfsd/proc.c":                              {Data: []byte("#include \"../../include/linux/sunrpc/svc.h\"\n")},
	"include/trace/events/ignored-by-everyone.h":  {Data: []byte("\n")},
	"tools/testing/selftests/demo/host-program.c": {Data: []byte("\n")},
}

func describe(s Selection) string {
	var out []string
	for _, v := range s.Variants {
		l := fmt.Sprintf("%s %s %s", v.Name, v.Arch, strings.Join(v.Targets, " "))
		if v.SameAs != "" {
			l += " same as " + v.SameAs
		}
		out = append(out, l)
	}
	for _, p := range slices.Sorted(maps.Keys(s.Left)) {
		out = append(out, "left "+p+": "+s.Left[p])
	}
	return strings.Join(out, "\n")
}

func TestSelect(t *testing.T) {
	for _, tc := range []struct {
		name    string
		touched []string
		want    string
	}{
		{"a header that one folder includes", []string{"include/linux/sunrpc/svc_rdma.h", "Documentation/demo.rst"},
			`nfs-all x86_64 net/sunrpc/xprtrdma/
nfs-nodebug x86_64 net/sunrpc/xprtrdma/ same as nfs-all
nfs-nov4 x86_64 net/sunrpc/xprtrdma/ same as nfs-all
nfs-v41only x86_64 net/sunrpc/xprtrdma/ same as nfs-all
nfsd-nov4 x86_64 net/sunrpc/xprtrdma/
nfs-modules x86_64 net/sunrpc/xprtrdma/
nfs-i386 i386 net/sunrpc/xprtrdma/
left Documentation/demo.rst: a document`},
		{"a header that many include", []string{"include/linux/loop.h"},
			`nfs-all x86_64 fs/nfsd/ net/sunrpc/
nfs-nodebug x86_64 fs/nfsd/ net/sunrpc/
nfs-nov4 x86_64 fs/nfsd/ net/sunrpc/ same as nfs-all
nfs-v41only x86_64 fs/nfsd/ net/sunrpc/ same as nfs-all
nfsd-nov4 x86_64 fs/nfsd/ net/sunrpc/
nfs-modules x86_64 fs/nfsd/ net/sunrpc/
nfs-i386 i386 fs/nfsd/ net/sunrpc/`},
		{"nothing includes it", []string{"include/linux/unused.h"},
			"left include/linux/unused.h: nothing of the touched folders is compiled from it; the boot kernel's build covers it"},
		{"a driver", []string{"drivers/demo/main.c", "tools/testing/selftests/demo/host-program.c"},
			`all-modules x86_64 drivers/demo/
all-built-in x86_64 drivers/demo/
all-i386 i386 drivers/demo/
no-demo_debugfs x86_64 drivers/demo/
no-demo_pm x86_64 drivers/demo/
left tools/testing/selftests/demo/host-program.c: a tool of the host`},
		{"a Makefile", []string{"net/sunrpc/xprtrdma/Makefile"},
			`nfs-all x86_64 net/sunrpc/xprtrdma/
nfs-nodebug x86_64 net/sunrpc/xprtrdma/ same as nfs-all
nfs-nov4 x86_64 net/sunrpc/xprtrdma/ same as nfs-all
nfs-v41only x86_64 net/sunrpc/xprtrdma/ same as nfs-all
nfsd-nov4 x86_64 net/sunrpc/xprtrdma/ same as nfs-all
nfs-modules x86_64 net/sunrpc/xprtrdma/
nfs-i386 i386 net/sunrpc/xprtrdma/`},
		{"a removed source", []string{"fs/nfsd/gone.c"}, "nfs-all x86_64 fs/nfsd/\nnfs-nodebug x86_64 fs/nfsd/ same as nfs-all\nnfs-nov4 x86_64 fs/nfsd/ same as nfs-all\nnfs-v41only x86_64 fs/nfsd/ same as nfs-all\nnfsd-nov4 x86_64 fs/nfsd/ same as nfs-all\nnfs-modules x86_64 fs/nfsd/\nnfs-i386 i386 fs/nfsd/"},
		{"outside", []string{"../etc/passwd"}, "left ../etc/passwd: not a path within the tree"},
		{"nothing", nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := Select(demoTree, tc.touched, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := describe(s); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func TestNarrow(t *testing.T) {
	config := func(on ...string) map[string]string {
		m := map[string]string{}
		for _, s := range on {
			m[s] = "y"
		}
		return m
	}
	for _, tc := range []struct {
		name    string
		sources []string
		config  map[string]string
		want    string
	}{
		{"all on", []string{"net/sunrpc/back.c", "net/sunrpc/xprtrdma/chan.c"}, config("SUNRPC", "SUNRPC_XPRT_RDMA", "SUNRPC_BACKCHANNEL"), "net/sunrpc/back.o net/sunrpc/xprtrdma/chan.o"},
		{"one symbol off", []string{"net/sunrpc/svc.c", "net/sunrpc/back.c"}, config("SUNRPC"), "net/sunrpc/svc.o"},
		{"folder off", []string{"net/sunrpc/xprtrdma/send.c"}, config("SUNRPC"), ""},
		{"module off", []string{"drivers/demo/main.c"}, config(), ""},
		{"ifdef and else", []string{"drivers/demo/pm.c", "drivers/demo/nopm.c"}, config("DEMO", "DEMO_PM"), "drivers/demo/pm.o"},
		{"else", []string{"drivers/demo/pm.c", "drivers/demo/nopm.c"}, config("DEMO"), "drivers/demo/nopm.o"},
		{"not understood", []string{"drivers/demo/odd.c"}, config("DEMO"), "drivers/demo/"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := strings.Join(Narrow(demoTree, Variant{Sources: tc.sources}, tc.config), " "); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if got := Narrow(demoTree, Variant{Modular: true, Targets: []string{"fs/nfsd/"}, Sources: []string{"fs/nfsd/proc.c"}}, nil); fmt.Sprint(got) != "[fs/nfsd/]" {
		t.Errorf("a modular variant was narrowed to %v", got)
	}
}

func TestUnexported(t *testing.T) {
	base := map[string][]string{"a.ko": {"old", "one"}}
	patched := map[string][]string{"a.ko": {"old", "one", "two", "three", "__SCT__four", "__traceiter_five", "seven"}}
	lines, err := Unexported(demoTree, base, patched)
	if err != nil || len(lines) != 0 {
		t.Errorf("everything is exported: got %q, %v", lines, err)
	}
	patched["a.ko"] = append(patched["a.ko"], "six", "nowhere")
	patched["b.ko"] = []string{"nowhere", "__this_module"}
	lines, err = Unexported(demoTree, base, patched)
	want := `ERROR: modpost: "nowhere" [a.ko] undefined!
ERROR: modpost: "nowhere" [b.ko] undefined!
ERROR: modpost: "six" [a.ko] undefined!`
	if got := strings.Join(lines, "\n"); err != nil || got != want {
		t.Errorf("got\n%s\n%v, want\n%s", got, err, want)
	}
}

func TestUndefined(t *testing.T) {
	dir := t.TempDir()
	if got, err := Undefined(dir, []string{"fs/demo/"}); err != nil || len(got) != 0 {
		t.Errorf("nothing was built: got %v, %v", got, err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "fs/demo"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "fs/demo/modules.order"), []byte("fs/demo/missing.o\nfs/demo/broken.o\n../../../etc/passwd\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "fs/demo/broken.o"), []byte("not ELF"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Undefined(dir, []string{"fs/demo/"}); err == nil || !strings.Contains(err.Error(), "fs/demo/broken.o") {
		t.Errorf("a broken module: got %v", err)
	}
}

func TestCopyBuild(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	old := time.Date(2020, 1, 2, 3, 4, 5, 678, time.UTC)
	for name, text := range map[string]string{
		"fs/a.o":                  "object of " + from + "/fs",
		"fs/.a.o.cmd":             "gcc -o fs/a.o /src/fs/a.c",
		"tools/objtool/.c.o.cmd":  "gcc -o " + from + "/tools/objtool/c.o\ndeps := " + from + "/x.h " + from + "2/x.h",
		"scripts/mod/modpost.exe": "tool",
	} {
		p := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(p, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/src", filepath.Join(from, "source")); err != nil {
		t.Fatal(err)
	}
	if err := CopyBuild(from, to); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"fs/a.o":                  "object of " + from + "/fs",
		"fs/.a.o.cmd":             "gcc -o fs/a.o /src/fs/a.c",
		"tools/objtool/.c.o.cmd":  "gcc -o " + to + "/tools/objtool/c.o\ndeps := " + to + "/x.h " + from + "2/x.h",
		"scripts/mod/modpost.exe": "tool",
	} {
		p := filepath.Join(to, name)
		b, err := os.ReadFile(p)
		if err != nil || string(b) != want {
			t.Errorf("%s: got %q, %v; want %q", name, b, err, want)
		}
		if st, err := os.Stat(p); err != nil || !st.ModTime().Equal(old) || st.Mode().Perm() != 0o755 {
			t.Errorf("%s: time or mode was lost (%v)", name, err)
		}
	}
	if l, err := os.Readlink(filepath.Join(to, "source")); err != nil || l != "/src" {
		t.Errorf("symbolic link: %q, %v", l, err)
	}
	if err := CopyBuild(from, to); err == nil {
		t.Error("copied over a folder that was there")
	}
	if err := CopyBuild(filepath.Join(dir, "none"), filepath.Join(dir, "new")); err == nil || isThere(filepath.Join(dir, "new")) {
		t.Errorf("a failed copy was left behind, or no error: %v", err)
	}
}

func isThere(p string) bool {
	_, err := os.Stat(p)
	return err == nil
}

// The merged fragments are what kernelconfigs accepts, and each one states
// what it is for.
func TestFragments(t *testing.T) {
	for _, s := range sets {
		for _, m := range s.members {
			v := s.variant(m, Options{Sparse: true, Clang: true, Python: "/usr/bin/python3"})
			if _, err := kernelconfigs.Parse(v.Name, v.Fragment); err != nil {
				t.Errorf("%s: %v", v.Name, err)
			}
			if v.Why == "" {
				t.Errorf("%s does not say why", v.Name)
			}
			if m.file != s.members[0].file && len(s.changes(m)) == 0 {
				t.Errorf("%s is the same as %s", m.file, s.members[0].file)
			}
			b, err := embedded.ReadFile(m.file + ".config")
			if err != nil || !strings.HasPrefix(string(b), "# SPDX-License-Identifier: GPL-2.0-only\n") {
				t.Errorf("%s.config: no licence line (%v)", m.file, err)
			}
			if got, want := strings.Join(v.BuildArgs("/s", "/o", 2), " "), "-k -j2 --output-sync=target -C /s O=/o ARCH="+v.Arch+" W=1 KERNELDOC=/dev/null PYTHON3=/usr/bin/python3 LLVM=1 C=1"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if got, want := strings.Join(v.ConfigArgs("/s", "/o", "/f"), " "), "-s -C /s O=/o ARCH="+v.Arch+" KCONFIG_ALLCONFIG=/f PYTHON3=/usr/bin/python3 LLVM=1 allnoconfig"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	}
	entries, err := embedded.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".config")
		if !slices.ContainsFunc(sets, func(s set) bool {
			return slices.ContainsFunc(s.members, func(m member) bool { return m.file == name })
		}) {
			t.Errorf("%s belongs to no set", e.Name())
		}
	}
}

// TestSymbolsExist checks the fragments against a kernel tree, named by
// PATCHCHECK_TREE: each symbol has a Kconfig entry.
func TestSymbolsExist(t *testing.T) {
	tree := os.Getenv("PATCHCHECK_TREE")
	if tree == "" {
		t.Skip("PATCHCHECK_TREE names no kernel source: symbols are not looked up")
	}
	defined := map[string]bool{}
	re := regexp.MustCompile(`(?m)^[ \t]*(?:menu)?config[ \t]+(\w+)`)
	err := filepath.WalkDir(tree, func(p string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasPrefix(d.Name(), "Kconfig") || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		for _, m := range re.FindAllSubmatch(b, -1) {
			defined[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sets {
		for _, m := range s.members {
			for sym := range settings(s.variant(m, Options{}).Fragment) {
				if !defined[sym] {
					t.Errorf("%s: CONFIG_%s does not exist in this tree", m.file, sym)
				}
			}
		}
	}
}

func FuzzMakefile(f *testing.F) {
	f.Add("obj-$(CONFIG_A) += a.o\na-y := b.o \\\n c.o\nifdef CONFIG_B\nb-y += a.o\nelse\nendif\n", "a.o")
	f.Fuzz(func(t *testing.T, text, item string) {
		m := parseMakefile(text)
		m.built(item, func(string) string { return "y" })
		m.gates(item, 0)
	})
}

func BenchmarkSelect(b *testing.B) {
	tree := os.Getenv("PATCHCHECK_TREE")
	if tree == "" {
		b.Skip("PATCHCHECK_TREE names no kernel source")
	}
	for b.Loop() {
		if _, err := Select(os.DirFS(tree), []string{"include/linux/sunrpc/svc.h"}, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
