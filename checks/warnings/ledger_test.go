// SPDX-License-Identifier: Apache-2.0

package warnings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"patchcheck/checks"
)

const firstBuild = `  CC      fs/demo/a.o
fs/demo/a.c: In function 'alpha':
fs/demo/a.c:12:6: warning: unused variable 'n' [-Wunused-variable]
  CHECK   fs/demo/a.c
fs/demo/a.c:30:1: warning: context imbalance in 'alpha' - wrong count at exit
  CC      fs/demo/b.o
In file included from fs/demo/b.c:2:
fs/demo/demo.h:7:2: warning: odd [-Wodd]
  CC      fs/demo/c.o
  MODPOST Module.symvers
WARNING: modpost: missing MODULE_DESCRIPTION() in fs/demo/demo.o
`

func describe(l Ledger) string {
	var out []string
	for _, o := range slices.Sorted(maps.Keys(l)) {
		var msgs []string
		for _, d := range l[o] {
			msgs = append(msgs, d.Message)
		}
		out = append(out, o+": "+strings.Join(msgs, "; "))
	}
	return strings.Join(out, "\n")
}

func TestLedgerUpdate(t *testing.T) {
	first := Ledger{}
	first.Update(ParseString(firstBuild))
	for _, tc := range []struct{ name, log, want string }{
		{"nothing", "", `Module.symvers: missing MODULE_DESCRIPTION() in fs/demo/demo.o
fs/demo/a.o: unused variable 'n' [-Wunused-variable]; context imbalance in 'alpha' - wrong count at exit
fs/demo/b.o: odd [-Wodd]
fs/demo/c.o: `},
		{"one object again", "  CC      fs/demo/a.o\nfs/demo/a.c:13:6: warning: other [-Wother]\n", `Module.symvers: missing MODULE_DESCRIPTION() in fs/demo/demo.o
fs/demo/a.o: other [-Wother]
fs/demo/b.o: odd [-Wodd]
fs/demo/c.o: `},
		{"only checked", "  CHECK   fs/demo/a.c\nfs/demo/a.c:3:1: warning: symbol 'x' was not declared. Should it be static?\n", `Module.symvers: missing MODULE_DESCRIPTION() in fs/demo/demo.o
fs/demo/a.o: unused variable 'n' [-Wunused-variable]; symbol 'x' was not declared. Should it be static?
fs/demo/b.o: odd [-Wodd]
fs/demo/c.o: `},
		{"kernel-doc by hand", "Warning: fs/demo/c.c:9 Excess function parameter 'z' description in 'f'\n", `Module.symvers: missing MODULE_DESCRIPTION() in fs/demo/demo.o
fs/demo/a.o: unused variable 'n' [-Wunused-variable]; context imbalance in 'alpha' - wrong count at exit
fs/demo/b.o: odd [-Wodd]
fs/demo/c.o: Excess function parameter 'z' description in 'f'`},
		{"modpost again", "  MODPOST Module.symvers\n", `Module.symvers: 
fs/demo/a.o: unused variable 'n' [-Wunused-variable]; context imbalance in 'alpha' - wrong count at exit
fs/demo/b.o: odd [-Wodd]
fs/demo/c.o: `},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := first.Clone()
			l.Update(ParseString(tc.log))
			if got := describe(l); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
	if got := len(first.Diagnostics()); got != 4 {
		t.Errorf("updating a clone changed the ledger it came from: %d diagnostics", got)
	}
}

func TestDiffLedgers(t *testing.T) {
	base := Ledger{}
	base.Update(ParseString(firstBuild))
	patched := base.Clone()
	patched.Update(ParseString(`  CC      fs/demo/b.o
In file included from fs/demo/b.c:2:
fs/demo/demo.h:7:2: warning: odd [-Wodd]
fs/demo/demo.h:9:2: warning: even [-Weven]
  CC      fs/demo/c.o
In file included from fs/demo/c.c:2:
fs/demo/demo.h:7:2: warning: odd [-Wodd]
fs/demo/demo.h:9:2: warning: even [-Weven]
  CC      fs/demo/new.o
fs/demo/new.c:1:1: error: no
`))
	r := DiffLedgers(base, patched, Options{})
	if got, want := entries(r.New), "fs/demo/demo.h:9:2: warning: even [-Weven]\nfs/demo/new.c:1:1: error: no"; got != want {
		t.Errorf("new: got %q, want %q", got, want)
	}
	if len(r.New) > 0 && fmt.Sprint(r.New[0].Objects) != "[fs/demo/b.o fs/demo/c.o]" {
		t.Errorf("objects: %v", r.New[0].Objects)
	}
	if len(r.Fixed) != 0 || !r.Comparable() || fmt.Sprint(r.OnlyPatched) != "[fs/demo/new.o]" {
		t.Errorf("fixed %q, incomparable %q, only patched %v", entries(r.Fixed), r.Incomparable, r.OnlyPatched)
	}
	if r := DiffLedgers(Ledger{}, patched, Options{}); r.Comparable() {
		t.Error("an empty ledger is not a base")
	}
	if r := DiffLedgers(base, patched, Options{BaseCompiler: "gcc 12", PatchedCompiler: "gcc 13"}); r.Comparable() {
		t.Error("ledgers of two compilers were compared")
	}
}

func TestFindings(t *testing.T) {
	base := "  CC      fs/a.o\nfs/a.c:1:1: warning: old [-Wold]\n  CC      fs/b.o\n"
	for _, tc := range []struct{ name, base, patched, want string }{
		{"new and fixed", base, "  CC      fs/a.o\nfs/a.c: In function 'f':\nfs/a.c:2:3: warning: unused variable 'x' [-Wu]\n    2 | int x;\nWarning: fs/a.c:9 bad line: x\n  CC      fs/b.o\n",
			"warning.new warning fs/a.c:2:3 unused variable 'x' [-Wu] (in f) {fs/a.c:2:3: warning: unused variable 'x' [-Wu]|    int x;}\n" +
				"kerneldoc.new warning fs/a.c:9 bad line: x {Warning: fs/a.c:9 bad line: x}\n" +
				"warning.fixed note fs/a.c:1:1 fixed: old [-Wold] {fs/a.c:1:1: warning: old [-Wold]}"},
		{"does not build", base, "  CC      fs/a.o\nfs/a.c:1:1: warning: old [-Wold]\nfs/a.c:3:1: error: no\n",
			"warning.error error fs/a.c:3:1 no {fs/a.c:3:1: error: no}\n" +
				"warning.partial note  the patched build stopped at an error: 1 object of the base was not compiled {}"},
		{"gave up without a word", base, base + "make: *** [scripts/x:1: fs/b.o] Error 1\n",
			"warning.error error  make gave up on fs/b.o and printed no error that is known here {}"},
		{"not comparable", base, "  CC      fs/a.o\nfs/a.c:5:1: warning: new [-Wnew]\n",
			"warning.not-comparable error  base and patched build cannot be compared: different objects were compiled: 1 on both sides, 1 only in the base (fs/b.o); one log is of an incremental build {}"},
		{"killed", base, base + "gcc: fatal error: Killed signal terminated program cc1\n",
			"warning.infra error  the build was stopped by the machine, not by the source {gcc: fatal error: Killed signal terminated program cc1}\n" +
				"warning.error error  Killed signal terminated program cc1 {gcc: fatal error: Killed signal terminated program cc1}"},
		{"base fails too", base + "fs/b.c:1:1: error: old\n", base + "fs/b.c:1:1: error: old\n",
			"warning.base-fails note  the base does not build without errors; only what the patched build adds is listed {}"},
		{"modpost", "", "ERROR: modpost: \"f\" [fs/a.ko] undefined!\n",
			"warning.modpost error  \"f\" [fs/a.ko] undefined! {ERROR: modpost: \"f\" [fs/a.ko] undefined!}"},
		{"clean", base, base, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, f := range Findings(DiffLogs(ParseString(tc.base), ParseString(tc.patched), Options{})) {
				got = append(got, fmt.Sprintf("%s %s %s %s {%s}", f.ID, f.Severity, f.Where, f.Message, strings.Join(f.Evidence, "|")))
			}
			if g := strings.Join(got, "\n"); g != tc.want {
				t.Errorf("got\n%s\nwant\n%s", g, tc.want)
			}
		})
	}
}

func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules() {
		if seen[r.ID] || r.Title == "" || r.Source == "" || r.Fix == "" || r.Severity == checks.Severity("") {
			t.Errorf("rule %+v is a duplicate or incomplete", r)
		}
		seen[r.ID] = true
	}
}
