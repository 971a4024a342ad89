// SPDX-License-Identifier: Apache-2.0

package variants

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What gcc itself makes of a division is found in the object, and only there.
func TestSymbolsOf(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.c": "extern int helper(int);\nlong long ratio(long long a, long long b) { return a / b + helper(1); }\nstatic int unseen;\nint *seen(void) { return &unseen; }\n",
		"b.c": "int helper(int a) { return a; }\n__attribute__((weak)) int spare(void) { return 0; }\n",
	} {
		src := filepath.Join(dir, name)
		if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("gcc", "-m32", "-O2", "-fno-pic", "-c", "-o", strings.TrimSuffix(src, ".c")+".o", src).CombinedOutput()
		if err != nil {
			t.Fatalf("gcc: %v\n%s", err, out)
		}
	}
	a, err := SymbolsOf(dir, []string{"a.o", "failed-to-compile.o"})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Needs) != 2 || a.Needs["__divdi3"] != "a.o" || a.Needs["helper"] != "a.o" || len(a.Defines) != 2 || a.Defines["seen"] != "a.o" {
		t.Errorf("a.o: %+v", a)
	}
	both, err := SymbolsOf(dir, []string{"a.o", "b.o"})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := both.Needs["helper"]; ok || both.Defines["spare"] != "b.o" {
		t.Errorf("both: %+v", both)
	}
	got := strings.Join(Unlinked(Variant{Sources: []string{"b.c"}}, Symbols{}, a, []Symbols{both}), "\n")
	want := "undefined reference to `__divdi3' in a.o (a 64-bit division on a 32-bit architecture: see div_u64() and do_div())\n" +
		"undefined reference to `helper' in a.o (b.o defines it in other configurations only)"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := Unlinked(Variant{Sources: []string{"b.c"}}, a, a, []Symbols{both}); got != nil {
		t.Errorf("nothing is new, yet %q", got)
	}
	if got := Unlinked(Variant{Sources: []string{"a.c"}}, Symbols{}, Symbols{Needs: map[string]string{"helper": "a.o"}}, []Symbols{both}); got != nil {
		t.Errorf("what is not among the variant's sources is not compiled, yet %q", got)
	}
}
