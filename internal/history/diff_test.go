// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/runfolder"
)

// facts makes a run of cells "p/a/v3" and so on from "ID=VERDICT[:signature]".
func facts(id string, v checks.Verdict, cells ...string) *Facts {
	f := &Facts{Run: Run{ID: id, Verdict: v, PlanID: "p", TreeID: "t", SeriesID: "s", Target: Target{Tree: "git", Series: "s", Plan: "p"}},
		Versions: map[string]string{"accel": "tcg", "compiler": "gcc 14"}}
	for _, c := range cells {
		id, rest, _ := strings.Cut(c, "=")
		v, sig, _ := strings.Cut(rest, ":")
		f.Cells = append(f.Cells, Cell{ID: id, Verdict: checks.Verdict(v), Signature: sig, Work: time.Second, Values: map[string]int64{"inline": 10}})
	}
	return f
}

func TestCompare(t *testing.T) {
	both := func(cells ...string) func() (*Facts, *Facts) {
		return func() (*Facts, *Facts) {
			return facts("r1", checks.Pass, cells...), facts("r2", checks.Pass, cells...)
		}
	}
	change := func(f func(o, n *Facts)) func() (*Facts, *Facts) {
		return func() (*Facts, *Facts) {
			o, n := both("p/a/v3=PASS", "p/b/v3=PASS")()
			f(o, n)
			return o, n
		}
	}
	slow := func(o, n *Facts) { n.Cells[0].Work = 2 * time.Second }
	for name, tc := range map[string]struct {
		make  func() (*Facts, *Facts)
		seen  Range
		want  string // lines, "|" between them
		worse bool
	}{
		"same": {both("p/a/v3=PASS"), Range{}, "nothing changed", false},
		"same failure": {func() (*Facts, *Facts) {
			return facts("r1", "FAIL", "p/a/v3=FAIL:x"), facts("r2", "FAIL", "p/a/v3=FAIL:x")
		}, Range{}, "nothing changed", false},
		"new failure": {func() (*Facts, *Facts) {
			return facts("r1", "PASS", "p/a/v3=PASS"), facts("r2", "FAIL", "p/a/v3=FAIL:x")
		}, Range{},
			"verdict      FAIL, was PASS|NEW FAILURE  p/a/v3: FAIL (x)", true},
		"failure of a new cell": {func() (*Facts, *Facts) { return facts("r1", "FAIL"), facts("r2", "FAIL", "p/a/v3=FAIL:x") }, Range{},
			"NEW FAILURE  p/a/v3: FAIL (x)", true},
		"quarantined failure": {func() (*Facts, *Facts) {
			n := facts("r2", "PASS", "p/a/v3=FAIL:x")
			n.Cells[0].Quarantined = true
			return facts("r1", "PASS", "p/a/v3=PASS"), n
		}, Range{}, "NEW FAILURE  p/a/v3 (in quarantine): FAIL (x)", false},
		"fixed": {func() (*Facts, *Facts) {
			return facts("r1", "FAIL", "p/a/v3=FAIL:x"), facts("r2", "PASS", "p/a/v3=PASS")
		}, Range{},
			"verdict      PASS, was FAIL|FIXED        p/a/v3, was FAIL: x", false},
		"another failure": {func() (*Facts, *Facts) {
			return facts("r1", "FAIL", "p/a/v3=FAIL:x"), facts("r2", "FAIL", "p/a/v3=FAIL:y")
		}, Range{},
			"still fails  p/a/v3: FAIL, in another way (y, was x)", false},
		"base failed, now the series does": {func() (*Facts, *Facts) {
			return facts("r1", "FAIL", "p/a/v3=BASE-FAILS:x"), facts("r2", "FAIL", "p/a/v3=FAIL:x")
		}, Range{}, "still fails  p/a/v3: FAIL, was BASE-FAILS", true},
		"infra is not worse": {func() (*Facts, *Facts) {
			return facts("r1", "PASS", "p/a/v3=PASS"), facts("r2", "INFRA", "p/a/v3=INFRA")
		}, Range{},
			"verdict      INFRA, was PASS|no answer    p/a/v3: INFRA, was PASS", false},
		"back from infra": {func() (*Facts, *Facts) {
			return facts("r1", "INFRA", "p/a/v3=INFRA"), facts("r2", "PASS", "p/a/v3=PASS")
		}, Range{},
			"verdict      PASS, was INFRA|answered     p/a/v3: PASS, was INFRA", false},
		"infra, then failure": {func() (*Facts, *Facts) {
			return facts("r1", "INFRA", "p/a/v3=INFRA"), facts("r2", "FAIL", "p/a/v3=FAIL:x")
		}, Range{},
			"verdict      FAIL, was INFRA|NEW FAILURE  p/a/v3: FAIL (x)", true},
		"cells come and go": {func() (*Facts, *Facts) { return facts("r1", "PASS", "p/a/v3=PASS"), facts("r2", "PASS", "p/b/v3=PASS") }, Range{},
			"new cell     p/b/v3|not run now  p/a/v3", false},
		"count":                    {change(func(o, n *Facts) { n.Cells[1].Values["inline"] = 11 }), Range{}, "count        p/b/v3: inline 11, was 10", false},
		"slower":                   {change(slow), Range{}, "SLOWER       p/a/v3: 2s, was 1s", true},
		"slower, as seen before":   {change(slow), Range{time.Second, 1900 * time.Millisecond}, "nothing changed", false},
		"slower than ever":         {change(slow), Range{time.Second, 1500 * time.Millisecond}, "SLOWER       p/a/v3: 2s, was 1s", true},
		"a little slower":          {change(func(o, n *Facts) { n.Cells[0].Work = 1400 * time.Millisecond }), Range{}, "nothing changed", false},
		"slower by milliseconds":   {change(func(o, n *Facts) { o.Cells[0].Work, n.Cells[0].Work = 10*time.Millisecond, 90*time.Millisecond }), Range{}, "nothing changed", false},
		"reused is no measurement": {change(func(o, n *Facts) { slow(o, n); n.Cells[0].Reused = "r0" }), Range{}, "nothing changed", false},
		"faster":                   {change(func(o, n *Facts) { n.Cells[0].Work = 500 * time.Millisecond }), Range{}, "faster       p/a/v3: 500ms, was 1s", false},
		"another accelerator": {change(func(o, n *Facts) { slow(o, n); n.Versions["accel"] = "kvm" }), Range{},
			`note         times are not compared: accel was "tcg" and is "kvm"|around: accel tcg -> kvm`, false},
		"another compiler": {change(func(o, n *Facts) { n.Versions["compiler"] = "gcc 15" }), Range{}, "around: compiler gcc 14 -> gcc 15", false},
		"moved warning": {change(func(o, n *Facts) {
			o.Findings = []checks.Finding{{ID: "warning.x", Severity: checks.Warning, Where: checks.Where{File: "a.c", Line: 3}, Message: "m"}}
			n.Findings = []checks.Finding{{ID: "warning.x", Severity: checks.Warning, Where: checks.Where{File: "a.c", Line: 9}, Message: "m"}}
		}), Range{}, "nothing changed", false},
		"new warning": {change(func(o, n *Facts) {
			n.Findings = []checks.Finding{{ID: "warning.x", Severity: checks.Warning, Where: checks.Where{File: "a.c", Line: 9}, Message: "m"}}
		}), Range{}, "NEW FINDING  warning.x: a.c:9: m", true},
		"note with another number": {change(func(o, n *Facts) {
			o.Findings = []checks.Finding{{ID: "style.x", Severity: checks.Note, Message: "3 of them"}}
			n.Findings = []checks.Finding{{ID: "style.x", Severity: checks.Note, Message: "4 of them"}}
		}), Range{}, "nothing changed", false},
		"does not apply to another commit either": {change(func(o, n *Facts) {
			o.Findings = []checks.Finding{{ID: "apply.fails", Severity: checks.Error, Where: checks.Where{Patch: 2}, Message: "does not apply to x at 1111"}}
			n.Findings = []checks.Finding{{ID: "apply.fails", Severity: checks.Error, Where: checks.Where{Patch: 2}, Message: "does not apply to x at 2222"}}
		}), Range{}, "nothing changed", false},
		"note gone": {change(func(o, n *Facts) {
			o.Findings = []checks.Finding{{ID: "style.x", Severity: checks.Note, Message: "m"}}
		}), Range{}, "gone finding style.x: m", false},
		"does not build now": {func() (*Facts, *Facts) { return facts("r1", "PASS", "p/a/v3=PASS"), facts("r2", "FAIL") }, Range{},
			"verdict      FAIL, was PASS|not run now  p/a/v3", true},
	} {
		o, n := tc.make()
		d := Compare(o, n, func(string) Range { return tc.seen })
		var b strings.Builder
		d.Text(&b)
		var got []string
		around := false
		for _, l := range strings.Split(strings.TrimSpace(b.String()), "\n") {
			switch {
			case strings.HasSuffix(l, ": nothing changed"):
				got = append(got, "nothing changed")
			case strings.HasPrefix(l, "r1 "):
			case l == "around the run:":
				around = true
			case around:
				got = append(got, "around: "+strings.Join(strings.Fields(l), " "))
			default:
				got = append(got, strings.TrimPrefix(l, "  "))
			}
		}
		if s := strings.Join(got, "|"); s != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, s, tc.want)
		}
		if d.Worse() != tc.worse {
			t.Errorf("%s: worse is %v", name, d.Worse())
		}
		if d.Nothing() != (tc.want == "nothing changed") {
			t.Errorf("%s: nothing is %v", name, d.Nothing())
		}
	}
}

// TestDiffWithHistory checks what only the history can add.
func TestDiffWithHistory(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "h.db"))
	var last []*Facts
	rec := func(day int, work time.Duration, bad ...int) {
		r := fakeRun(t, dir, day, 2, bad...)
		r.Cells[1].Attempts[0].Steps = []runfolder.CellStep{{Name: "x: read", Elapsed: work}}
		if err := db.Record(ctx, r); err != nil {
			t.Fatal(err)
		}
		f, err := db.Facts(ctx, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		last = append(last, f)
	}
	rec(0, time.Second)
	rec(1, 3*time.Second, 0)
	rec(2, time.Second, 0)
	rec(3, 3*time.Second, 0)
	rec(4, 9*time.Second, 0)
	d, err := db.Diff(ctx, last[2], last[3])
	if err != nil || len(d.Still) != 1 || d.Still[0].Since != "2026-01-02" || len(d.Slower) != 0 {
		t.Errorf("within what was seen: %+v, %v", d, err)
	}
	if d, err = db.Diff(ctx, last[3], last[4]); err != nil || len(d.Slower) != 1 || !d.Worse() {
		t.Errorf("slower than ever: %+v, %v", d, err)
	}
}
