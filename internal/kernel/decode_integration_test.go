// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kernel

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"patchcheck/checks/console"
)

// A program small enough to be made in a second, with the places that matter
// marked: HERE(n) stands for the n-th. The calls' results are changed, so that
// there is an instruction of another line behind each call.
var demoSources = map[string]string{
	"include/demo.h": `struct demo { int v[4]; };
static inline __attribute__((always_inline)) int demo_get(struct demo *d)
{
	return d->v[3]; /* HERE(1) */
}
`,
	"net/demo.c": `#include "demo.h"
#define NOINLINE __attribute__((noinline, noclone))
NOINLINE int demo_accept(struct demo *d);
NOINLINE int demo_accept(struct demo *d)
{
	int r = demo_get(d); /* HERE(2) */

	__asm__ volatile("" ::: "memory");
	return r + 1;
}
NOINLINE int demo_connect(struct demo *d);
NOINLINE int demo_connect(struct demo *d)
{
	int r = demo_accept(d); /* HERE(3) */

	r += d->v[0]; /* HERE(4) */
	return r;
}
`,
	"init/main.c": `struct demo;
int demo_connect(struct demo *d);
int kernel_init(struct demo *d);
int kernel_init(struct demo *d)
{
	return demo_connect(d) + 3;
}
`,
}

// here finds where a mark stands.
func here(t *testing.T, n int) string {
	t.Helper()
	for name, text := range demoSources {
		for i, l := range strings.Split(text, "\n") {
			if strings.Contains(l, fmt.Sprintf("HERE(%d)", n)) {
				return fmt.Sprintf("%s:%d", name, i+1)
			}
		}
	}
	t.Fatalf("no mark %d", n)
	return ""
}

// TestDecodeWithTheTreesScript runs the kernel's own script, nm and addr2line
// over a program that was linked from sources laid out as the kernel's are.
func TestDecodeWithTheTreesScript(t *testing.T) {
	tree := os.Getenv("PATCHCHECK_TREE")
	if tree == "" {
		t.Skip("no kernel tree: set PATCHCHECK_TREE to an unpacked Linux 7.3")
	}
	script, err := os.ReadFile(filepath.Join(tree, DecodeScript))
	if err != nil {
		t.Fatal(err)
	}
	src, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range demoSources {
		if err := os.MkdirAll(filepath.Join(src, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(src, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	vmlinux := filepath.Join(t.TempDir(), "vmlinux")
	argv := []string{"-O2", "-g", "-gdwarf-5", "-ffunction-sections", "-femit-struct-debug-baseonly", "-nostdlib", "-static", "-Wl,-e,kernel_init",
		"-I" + filepath.Join(src, "include"), "-o", vmlinux, filepath.Join(src, "net/demo.c"), filepath.Join(src, "init/main.c")}
	if out, err := exec.Command("gcc", argv...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	table, err := functions(vmlinux)
	if err != nil {
		t.Fatal(err)
	}
	size := func(name string) uint64 { return table[name][0].size }
	trap := console.Symbol{Name: "demo_accept", Size: size("demo_accept"), Trap: true}
	for _, source := range []string{src, ""} {
		d := Decoder{Vmlinux: vmlinux, Script: script, Source: source, NoSandbox: !FindSandbox(t.Context()).Enabled}
		at, err := d.Decode(t.Context(), []console.Symbol{trap})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(at[trap]), "["+here(t, 1)+" "+here(t, 2)+"]"; got != want {
			t.Errorf("the load is at %s, want %s", got, want)
		}
		// Each address in the caller, as a return address and as a trap's.
		n := size("demo_connect")
		frame := func(off uint64, trap bool) console.Symbol {
			return console.Symbol{Name: "demo_connect", Offset: off, Size: n, Trap: trap}
		}
		var ask []console.Symbol
		for off := uint64(1); off < n; off++ {
			ask = append(ask, frame(off, false), frame(off, true))
		}
		if at, err = d.Decode(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
		var call, next bool
		for off := uint64(1); off < n; off++ {
			ret, struck := fmt.Sprint(at[frame(off, false)]), fmt.Sprint(at[frame(off, true)])
			// What the call returns to is of another line.
			call = call || ret == "["+here(t, 3)+"]" && struck == "["+here(t, 4)+"]"
			next = next || struck == "["+here(t, 3)+"]"
		}
		if !call || !next {
			t.Errorf("no address of demo_connect is the call's as a return address (%v), or of a trap (%v)", call, next)
		}
	}
	d := Decoder{Vmlinux: vmlinux, Script: script}
	if _, err := d.Decode(t.Context(), []console.Symbol{{Name: "demo_accept", Offset: 1, Size: 0x999}}); err == nil {
		t.Error("a frame of another kernel was decoded")
	}
}
