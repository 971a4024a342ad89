// SPDX-License-Identifier: Apache-2.0

package warnings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchcheck/internal/sharedtest"
)

func entries(l []Entry) string {
	var out []string
	for _, e := range l {
		out = append(out, e.Raw)
	}
	return strings.Join(out, "\n")
}

func TestDiffLogs(t *testing.T) {
	for _, tc := range []struct {
		name, base, patched string
		opts                Options
		fresh, fixed        string // raw lines
		moved, changed      int
		incomparable        string // part of a reason
	}{
		{name: "moved is not new",
			base:    "fs/a.c: In function 'f':\nfs/a.c:10:5: warning: unused variable 'x' [-Wunused-variable]\n",
			patched: "fs/a.c: In function 'f':\nfs/a.c:51:9: warning: unused variable 'x' [-Wunused-variable]\n", moved: 1},
		{name: "a second one alike is new",
			base:    "fs/a.c: In function 'f':\nfs/a.c:10:5: warning: unused variable 'x' [-Wu]\n   10 | int x;\n",
			patched: "fs/a.c: In function 'f':\nfs/a.c:8:5: warning: unused variable 'x' [-Wu]\n    8 | long x;\nfs/a.c:12:5: warning: unused variable 'x' [-Wu]\n   12 | int x;\n",
			fresh:   "fs/a.c:8:5: warning: unused variable 'x' [-Wu]", moved: 1},
		{name: "the map decides which of two is new",
			base:    "fs/a.c:10:5: warning: w [-Wu]\n",
			patched: "fs/a.c:10:5: warning: w [-Wu]\nfs/a.c:13:5: warning: w [-Wu]\n",
			opts:    Options{Map: MapEdits([]FileChange{{"fs/a.c", "fs/a.c", []Edit{{5, 0, 3}}}})},
			fresh:   "fs/a.c:10:5: warning: w [-Wu]", moved: 1},
		{name: "renamed file",
			base: "fs/a.c:10:5: warning: w [-Wu]\n", patched: "fs/b.c:11:5: warning: w [-Wu]\n",
			opts:  Options{Map: MapEdits([]FileChange{{"fs/a.c", "fs/b.c", []Edit{{1, 0, 1}}}})},
			moved: 1},
		{name: "other function is new",
			base:    "fs/a.c: In function 'f':\nfs/a.c:10:5: warning: unused variable 'x' [-Wu]\n",
			patched: "fs/a.c: In function 'g':\nfs/a.c:40:5: warning: unused variable 'x' [-Wu]\n",
			fresh:   "fs/a.c:40:5: warning: unused variable 'x' [-Wu]", fixed: "fs/a.c:10:5: warning: unused variable 'x' [-Wu]"},
		{name: "renamed function at the mapped line",
			base:    "fs/a.c: In function 'f':\nfs/a.c:10:5: warning: w [-Wu]\n",
			patched: "fs/a.c: In function 'g':\nfs/a.c:12:5: warning: w [-Wu]\n",
			opts:    Options{Map: MapEdits([]FileChange{{"fs/a.c", "fs/a.c", []Edit{{1, 0, 2}, {8, 1, 1}}}})}, moved: 1},
		{name: "numbers in messages",
			base:    "fs/a.c:1:1: warning: struct <anonymous struct at include/x.h:12:3> is odd, see line 14\nfs/a.c:2:1: error: call to '__compiletime_assert_120' declared with attribute error: no\nfs/a.o: warning: objtool: f.constprop.0()+0x35f: stack state mismatch: cfa1=6+16 cfa2=7+8\n",
			patched: "fs/a.c:1:1: warning: struct <anonymous struct at include/x.h:99:7> is odd, see line 20\nfs/a.c:2:1: error: call to '__compiletime_assert_131' declared with attribute error: no\nfs/a.o: warning: objtool: f.isra.0.constprop.1()+0x11: stack state mismatch: cfa1=6+24 cfa2=7+8\n", changed: 1},
		{name: "frame size grows",
			base:    "fs/a.c: In function 'f':\nfs/a.c:1:1: warning: the frame size of 1040 bytes is larger than 1024 bytes [-Wframe-larger-than=]\n",
			patched: "fs/a.c: In function 'f':\nfs/a.c:1:1: warning: the frame size of 1096 bytes is larger than 1024 bytes [-Wframe-larger-than=]\n", changed: 1},
		{name: "suggestion differs",
			base:    "fs/a.c:1:1: error: 'x' undeclared; did you mean 'y'?\n",
			patched: "fs/a.c:1:1: error: 'x' undeclared; did you mean 'z'?\n"},
		{name: "modpost addresses",
			base:    "WARNING: modpost: vmlinux: section mismatch in reference: f+0x1c (section: .text) -> g (section: .init.text)\n",
			patched: "WARNING: modpost: vmlinux: section mismatch in reference: f+0x2c (section: .text) -> g (section: .init.text)\nWARNING: modpost: vmlinux: section mismatch in reference: h+0x2c (section: .text) -> g (section: .init.text)\n",
			fresh:   "WARNING: modpost: vmlinux: section mismatch in reference: h+0x2c (section: .text) -> g (section: .init.text)"},
		{name: "linker counts within a function",
			base:    "ld: a.o: in function `f':\na.c:(.text+0x10): undefined reference to `g'\n",
			patched: "ld: a.o: in function `f':\nld: a.c:(.text+0x08): undefined reference to `g'\na.c:(.text+0x10): undefined reference to `g'\n",
			fresh:   "ld: a.c:(.text+0x08): undefined reference to `g'"},
		{name: "unmet dependencies with another selector",
			base:    "warning: (A && B && C) selects X which has unmet direct dependencies (D || E)\n",
			patched: "warning: (B && C) selects X which has unmet direct dependencies (D || E)\n", changed: 1},
		{name: "an error that became a warning",
			base: "fs/a.c:1:1: error: odd [-Werror=odd]\n", patched: "fs/a.c:1:1: warning: odd [-Wodd]\n", changed: 1},
		{name: "a warning that became an error",
			base: "fs/a.c:1:1: warning: odd [-Wodd]\n", patched: "fs/a.c:1:1: error: odd [-Werror=odd]\n",
			fresh: "fs/a.c:1:1: error: odd [-Werror=odd]", fixed: "fs/a.c:1:1: warning: odd [-Wodd]"},
		{name: "absolute and relative paths",
			base:    "fs/demo/a.c:1:1: warning: w [-Wu]\n",
			patched: "/tree/linux/fs/demo/a.c:2:1: warning: w [-Wu]\n", moved: 1},
		{name: "header repeated by more objects",
			base:    "  CC      fs/a.o\n  CC      fs/b.o\nIn file included from fs/a.c:1:\ninclude/h.h:5:1: warning: w [-Wu]\n",
			patched: "  CC      fs/a.o\n  CC      fs/b.o\nIn file included from fs/a.c:1:\ninclude/h.h:5:1: warning: w [-Wu]\nIn file included from fs/b.c:1:\ninclude/h.h:5:1: warning: w [-Wu]\n"},
		{name: "full against incremental",
			base:    "  CC      fs/a.o\nfs/a.c:1:1: warning: u [-Wu]\n  CC      fs/b.o\n",
			patched: "  CC      fs/b.o\nfs/b.c:2:1: warning: v [-Wv]\n", fresh: "fs/b.c:2:1: warning: v [-Wv]", incomparable: "different objects"},
		{name: "incremental against full",
			base:    "  CC      fs/b.o\n",
			patched: "  CC      fs/a.o\nfs/a.c:1:1: warning: u [-Wu]\n  CC      fs/b.o\n", incomparable: "different objects"},
		{name: "restricted to common objects",
			base:    "  CC      fs/a.o\nfs/a.c:1:1: warning: u [-Wu]\n  CC      fs/b.o\n",
			patched: "  CC      fs/b.o\nfs/b.c:2:1: warning: v [-Wv]\n", opts: Options{Objects: map[string]bool{"fs/b.o": true}}, fresh: "fs/b.c:2:1: warning: v [-Wv]"},
		{name: "added file",
			base:    "  CC      fs/b.o\n",
			patched: "  CC      fs/b.o\n  CC      fs/new.o\nfs/new.c:2:1: warning: v [-Wv]\n",
			opts:    Options{MayDiffer: func(o string) bool { return o == "fs/new.o" }}, fresh: "fs/new.c:2:1: warning: v [-Wv]"},
		{name: "error stops the patched build",
			base:    "  CC      fs/a.o\n  CC      fs/b.o\nfs/b.c:2:1: warning: v [-Wv]\n",
			patched: "  CC      fs/a.o\nfs/a.c:1:1: error: no\nmake[2]: *** [scripts/Makefile.build:1: fs/a.o] Error 1\n", fresh: "fs/a.c:1:1: error: no"},
		{name: "other compiler", base: "gcc (Debian 12.2.0-14) 12.2.0\n", patched: "gcc (Debian 13.1.0-1) 13.1.0\n", incomparable: "different compilers"},
		{name: "gcc against clang", base: "cc1: x\nfs/a.c: In function 'f':\nfs/a.c:1:1: warning: w [-Wu]\n", patched: "fs/a.c:1:1: warning: w [-Wu]\n1 warning generated.\n", incomparable: "different compilers"},
		{name: "dropped -W option on the command line",
			base:    "  gcc -Wall -Wextra -c -o fs/a.o fs/a.c\n",
			patched: "  gcc -Wall -c -o fs/a.o fs/a.c\n", incomparable: "dropped -Wextra"},
		{name: "another W", base: "make W=1 fs/\n", patched: "make -j4 fs/ V=0\n", incomparable: "W=1"},
		{name: "a whole option vanishes",
			base:    "fs/a.c:1:1: warning: u [-Wq]\nfs/b.c:1:1: warning: u [-Wq]\nfs/c.c:1:1: warning: u [-Wq]\n",
			patched: "", fixed: "fs/a.c:1:1: warning: u [-Wq]\nfs/b.c:1:1: warning: u [-Wq]\nfs/c.c:1:1: warning: u [-Wq]", incomparable: "-Wq"},
		{name: "a clean-up of an option",
			base:    "fs/a.c:1:1: warning: u [-Wq]\nfs/b.c:1:1: warning: u [-Wq]\nfs/c.c:1:1: warning: u [-Wq]\n",
			patched: "", opts: Options{Touched: map[string]bool{"fs/a.c": true, "fs/b.c": true, "fs/c.c": true}},
			fixed: "fs/a.c:1:1: warning: u [-Wq]\nfs/b.c:1:1: warning: u [-Wq]\nfs/c.c:1:1: warning: u [-Wq]"},
		{name: "sparse tells types apart",
			base:    "fs/a.c:9:1: warning: incorrect type in assignment (different base types)\nfs/a.c:9:1:    expected int\nfs/a.c:9:1:    got restricted __be32\n",
			patched: "fs/a.c:9:1: warning: incorrect type in assignment (different base types)\nfs/a.c:9:1:    expected int\nfs/a.c:9:1:    got restricted __be16\n",
			fresh:   "fs/a.c:9:1: warning: incorrect type in assignment (different base types)", fixed: "fs/a.c:9:1: warning: incorrect type in assignment (different base types)"},
		{name: "fixed here and made there, without functions",
			base: "fs/a.c:10:1: warning: w [-Wu]\n", patched: "fs/a.c:91:1: warning: w [-Wu]\n",
			opts:  Options{Map: MapEdits([]FileChange{{"fs/a.c", "fs/a.c", []Edit{{10, 1, 1}, {90, 0, 5}}}})},
			fresh: "fs/a.c:91:1: warning: w [-Wu]", fixed: "fs/a.c:10:1: warning: w [-Wu]"},
		{name: "the line with the warning is rewritten",
			base: "fs/a.c:10:1: warning: w [-Wu]\n", patched: "fs/a.c:14:3: warning: w [-Wu]\n",
			opts:  Options{Map: MapEdits([]FileChange{{"fs/a.c", "fs/a.c", []Edit{{8, 4, 9}}}})},
			moved: 1},
		{name: "ignored tool", base: "", patched: "Warning: fs/a.c:1 expecting prototype for f(). Prototype was for g() instead\n", opts: Options{Ignore: map[Tool]bool{KernelDoc: true}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := DiffLogs(ParseString(tc.base), ParseString(tc.patched), tc.opts)
			if got := entries(r.New); got != tc.fresh {
				t.Errorf("new: got %q, want %q", got, tc.fresh)
			}
			if got := entries(r.Fixed); got != tc.fixed {
				t.Errorf("fixed: got %q, want %q", got, tc.fixed)
			}
			if len(r.Moved) != tc.moved || len(r.Changed) != tc.changed {
				t.Errorf("moved %d, changed %d; want %d, %d", len(r.Moved), len(r.Changed), tc.moved, tc.changed)
			}
			if got := strings.Join(r.Incomparable, "; "); !strings.Contains(got, tc.incomparable) || tc.incomparable == "" && got != "" {
				t.Errorf("incomparable: got %q, want %q", got, tc.incomparable)
			}
		})
	}
}

// The same diagnostics in any order are the same diagnostics.
func TestInterleavingDoesNotMatter(t *testing.T) {
	a := []string{"  CC      fs/a.o", "fs/a.c: In function 'fa':", "fs/a.c:12:6: warning: unused variable 'x' [-Wu]", "   12 |  int x;", "      |      ^", "In file included from fs/a.c:2:", "include/h.h: In function 'h':", "include/h.h:5:1: warning: shared [-Ws]"}
	b := []string{"  CC      net/b.o", "net/b.c: In function 'fb':", "net/b.c:90:2: warning: odd [-Wo]", "   90 |  if (a)", "In file included from net/b.c:2:", "include/h.h: In function 'h':", "include/h.h:5:1: warning: shared [-Ws]"}
	inOrder := strings.Join(append(append([]string{}, a...), b...), "\n") + "\n"
	merges := 0
	for mask := 0; mask < 1<<(len(a)+len(b)); mask++ {
		if bits.OnesCount(uint(mask)) != len(b) {
			continue
		}
		if merges++; merges%13 != 0 { // all of them take seconds
			continue
		}
		var mixed []string
		i, j := 0, 0
		for k := 0; k < len(a)+len(b); k++ {
			if mask>>k&1 == 0 {
				mixed = append(mixed, a[i])
				i++
			} else {
				mixed = append(mixed, b[j])
				j++
			}
		}
		for _, r := range []Result{
			DiffLogs(ParseString(inOrder), ParseString(strings.Join(mixed, "\n")+"\n"), Options{}),
			DiffLogs(ParseString(strings.Join(mixed, "\n")+"\n"), ParseString(inOrder), Options{}),
		} {
			if len(r.New) != 0 || len(r.Fixed) != 0 || !r.Comparable() {
				t.Fatalf("mask %b: new %q, fixed %q, incomparable %q", mask, entries(r.New), entries(r.Fixed), r.Incomparable)
			}
		}
	}
}

func TestNewExpansionOfAnOldWarning(t *testing.T) {
	base := "fs/a.c: In function 'f':\ninclude/h.h:5:1: warning: w [-Wu]\nfs/a.c:20:1: note: in expansion of macro 'M'\n"
	patched := "fs/a.c: In function 'f':\ninclude/h.h:5:1: warning: w [-Wu]\nfs/a.c:22:1: note: in expansion of macro 'M'\nfs/a.c:21:1: note: in expansion of macro 'N'\nfs/a.c:9:1: note: 'v' declared here\n"
	r := DiffLogs(ParseString(base), ParseString(patched), Options{})
	if len(r.New) != 0 || len(r.Notes) != 1 || r.Notes[0].Message != "in expansion of macro 'N'" {
		t.Errorf("new %q, notes %v", entries(r.New), r.Notes)
	}
}

func TestDiffLines(t *testing.T) {
	old := "a\nb\nc\nd\n}\ne\nf\n}\ng\n"
	for _, tc := range []struct {
		name, new string
		lines     map[int]string // old line -> "new line" or "gone"
	}{
		{"same", old, map[int]string{1: "1", 9: "9"}},
		{"inserted in front", "x\ny\n" + old, map[int]string{1: "3", 9: "11"}},
		{"removed", "a\nd\n}\ne\nf\n}\ng\n", map[int]string{1: "1", 2: "gone", 3: "gone", 4: "2", 9: "7"}},
		{"changed", "a\nb\nC\nd\n}\ne\nf\n}\ng\n", map[int]string{2: "2", 3: "gone", 4: "4", 9: "9"}},
		{"two places", "a\nb\nb2\nc\nd\n}\ne\n}\ng\n", map[int]string{2: "2", 3: "4", 6: "7", 7: "gone", 9: "9"}},
		{"all new", "x\n", map[int]string{1: "gone", 9: "gone"}},
		{"empty", "", map[int]string{1: "gone", 9: "gone"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := MapEdits([]FileChange{{"f", "f", DiffLines([]byte(old), []byte(tc.new))}})
			for line, want := range tc.lines {
				_, n, ok := m("f", line)
				got := fmt.Sprint(n)
				if !ok {
					got = "gone"
				}
				if got != want {
					t.Errorf("line %d: got %s, want %s", line, got, want)
				}
			}
		})
	}
	if _, _, ok := MapEdits([]FileChange{{OldPath: "f"}})("f", 1); ok {
		t.Error("a line of a deleted file is still there")
	}
}

// TestSuite runs the public build-warnings suite.
func TestSuite(t *testing.T) {
	dir := sharedtest.Path(t, "cases", "suites", "build-warnings")
	f, err := os.ReadFile(filepath.Join(dir, "manifest.jsonl"))
	if err != nil {
		t.Skip("the suite is not here:", err)
	}
	passed, total := 0, 0
	for _, line := range bytes.Split(bytes.TrimSpace(f), []byte{'\n'}) {
		var c struct {
			ID  string
			New []Item
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		read := func(side string) Log {
			b, err := os.ReadFile(filepath.Join(dir, c.ID, side+".log"))
			if err != nil {
				t.Fatal(err)
			}
			return ParseString(string(b))
		}
		r := DiffLogs(read("before"), read("after"), Options{})
		set := func(items []Item) map[string]bool {
			m := map[string]bool{}
			for _, i := range items {
				m[i.File+"\x00"+string(i.Severity)+"\x00"+i.Message+"\x00"+i.Raw] = true
			}
			return m
		}
		want, got := set(c.New), set(r.Report().New)
		total++
		if fmt.Sprint(want) == fmt.Sprint(got) {
			passed++
		} else {
			t.Logf("%s: got %v", c.ID, got)
		}
	}
	t.Logf("%d of %d", passed, total)
	if total-passed > 1 {
		t.Errorf("%d of %d cases pass; one that differs in which notes count as new is known", passed, total)
	}
}

// An undeclared argument of clamp() is one error, not one more for each copy
// that the macro makes of it; alone, such an error is kept.
func TestErrorsThatFollow(t *testing.T) {
	in := "fs/a.c: In function 'f':\n"
	made := "include/linux/compiler.h:165:17: error: '__UNIQUE_ID_h__15' undeclared (first use in this function); did you mean '__UNIQUE_ID_v__12'?\nfs/a.c:9:2: note: in expansion of macro 'clamp'\n"
	cause := "fs/a.c:9:20: error: 'limit' undeclared (first use in this function)\n"
	for _, tt := range []struct{ log, want string }{
		{in + made + cause, "'limit' undeclared (first use in this function)"},
		{in + made, "'__UNIQUE_ID_h__15' undeclared (first use in this function); did you mean '__UNIQUE_ID_v__12'?"},
	} {
		fs := Findings(DiffLogs(ParseString(""), ParseString(tt.log), Options{}))
		if len(fs) == 0 || !strings.HasPrefix(fs[0].Message, tt.want) || len(fs) > 1 && fs[1].ID == RuleError.ID {
			t.Errorf("%s: got %+v", tt.log, fs)
		}
	}
}
