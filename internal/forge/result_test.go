// SPDX-License-Identifier: Apache-2.0

package forge

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/findings"
	"patchcheck/internal/runfolder"
	"patchcheck/patches"
	"patchcheck/testplans"
)

func series(t *testing.T) *patches.Series {
	t.Helper()
	s, err := patches.Load(ctx, []string{"-"}, patches.LoadOptions{Stdin: bytes.NewReader([]byte(mbox))})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func testRun(t *testing.T) *runfolder.Run {
	t.Helper()
	p, err := testplans.Load("svcrdma-inline")
	if err != nil {
		t.Fatal(err)
	}
	r, err := runfolder.Create(t.TempDir(), time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), "x")
	if err != nil {
		t.Fatal(err)
	}
	s := series(t)
	r.Plan, r.Verdict, r.Ended = *p, checks.Pass, r.Started.Add(time.Minute)
	r.Series = runfolder.Series{Title: "net: @three #1", Total: 2}
	for _, x := range s.Patches {
		r.Series.Patches = append(r.Series.Patches, runfolder.Patch{Index: x.Index, Subject: x.Subject})
		if err := os.WriteFile(r.Path("series", fmt.Sprintf("%04d.diff", x.Index)), x.Diff, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func find(patch int, file string, line int, id string) checks.Finding {
	return checks.Finding{ID: id, Severity: checks.Warning, Where: checks.Where{Patch: patch, File: file, Line: line}, Message: fmt.Sprintf("m%d @ann", line), Evidence: []string{"+three(); @x"}}
}

func TestPlaces(t *testing.T) {
	r := testRun(t)
	tests := []struct {
		name string
		f    checks.Finding
		want string // "" for no place
	}{
		{"moved down by the next patch", find(1, "net/a.c", 12, "style.x"), "net/a.c:14"},
		{"in the last patch", find(2, "net/a.c", 12, "style.x"), "net/a.c:12"},
		{"above the change", find(1, "net/b.c", 3, "style.x"), "net/b.c:3"},
		{"no patch named: a line of the last state", find(0, "net/a.c", 5, "style.x"), "net/a.c:5"},
		{"no line", find(1, "net/a.c", 0, "style.x"), ""},
		{"no such patch", find(9, "net/a.c", 1, "style.x"), ""},
		{"absolute", find(1, "/etc/passwd", 1, "style.x"), ""},
		{"out of the tree", find(1, "../x", 1, "style.x"), ""},
		{"a companion moves the lines of the build", find(1, "drivers/infiniband/sw/rxe/rxe_qp.c", 1, "warning.x"), ""},
		{"not those of the patch", find(1, "drivers/infiniband/sw/rxe/rxe_qp.c", 1, "style.x"), "drivers/infiniband/sw/rxe/rxe_qp.c:1"},
		{"of a build, untouched", find(1, "net/a.c", 12, "warning.x"), "net/a.c:14"},
	}
	pl, err := placesOfRun(r)
	if err != nil {
		t.Fatal(err)
	}
	if !pl.loose["drivers/infiniband/sw/rxe/rxe_qp.c"] {
		t.Skip("the companion does not touch rxe_qp.c any more")
	}
	for _, x := range tests {
		file, line, ok := pl.head(x.f)
		got := fmt.Sprintf("%s:%d", file, line)
		if !ok {
			got = ""
		}
		if got != x.want {
			t.Errorf("%s: got %q, want %q", x.name, got, x.want)
		}
	}
	// With offsets the built file has other lines than the commit.
	r.Apply = []runfolder.Apply{{Patch: 1, Class: "offset", Lines: []string{"net/a.c: hunk 1 of 1 at offset +3"}}}
	if pl, err = placesOfRun(r); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := pl.head(find(1, "net/a.c", 12, "warning.x")); ok {
		t.Error("a line of a file with offsets has a place")
	}
}

// A line that a later patch removes has no place.
func TestPlaceGone(t *testing.T) {
	s, err := patches.Load(ctx, []string{"-"}, patches.LoadOptions{Stdin: strings.NewReader(`From: A <a@x>
Subject: [PATCH] x

--- a/a.c
+++ b/a.c
@@ -1,4 +1,3 @@
 a
-b
-c
+B
 d
`)})
	if err != nil {
		t.Fatal(err)
	}
	pl := &places{}
	pl.patch(1, nil)
	pl.patch(2, s.Patches[0].Files)
	for line, want := range map[int]int{1: 1, 2: 0, 3: 0, 4: 3, 9: 8} {
		_, got, ok := pl.head(find(1, "a.c", line, "x"))
		if !ok {
			got = 0
		}
		if got != want {
			t.Errorf("line %d: got %d, want %d", line, got, want)
		}
	}
}

func TestFromRun(t *testing.T) {
	tests := []struct {
		verdict checks.Verdict
		want    Conclusion
		title   string
	}{
		{checks.Pass, Success, "PASS: built, nothing was booted"},
		{checks.Fail, Failure, "FAIL: why @\u200bann"},
		{checks.Infra, Neutral, "says nothing about the patches"},
		{checks.Unstable, Neutral, "repetitions give different results"},
		{checks.BaseFails, Neutral, "without the patches fails the same way"},
		{checks.Skip, Neutral, "SKIP: why"},
		{"", Neutral, "UNFINISHED: why"},
	}
	for _, x := range tests {
		r := testRun(t)
		r.Verdict = x.verdict
		if x.verdict != checks.Pass {
			r.Reason = "why @ann"
		}
		r.Findings = []checks.Finding{find(1, "net/a.c", 12, "style.x"), {ID: "mail.x", Severity: checks.Error, Message: "no place #12 https://evil.example.org", Evidence: []string{"```", "@ann"}}}
		p, err := FromRun(r, Target{Repo: Repo{"o", "r"}, SHA: shaHead, PR: 1})
		if err != nil {
			t.Fatal(err)
		}
		if p.Conclusion != x.want || !strings.Contains(p.Title, x.title) {
			t.Errorf("%s: %s %q", x.verdict, p.Conclusion, p.Title)
		}
		if len(p.Annotations) != 1 || p.Annotations[0].Line != 14 || p.Annotations[0].Title != "1/2 style.x" || !strings.Contains(p.Text, "no place") {
			t.Errorf("annotations %+v\ntext %s", p.Annotations, p.Text)
		}
		outside := p.Summary + p.Title + p.Annotations[0].Text + strings.NewReplacer("\n@ann\n", "", "+three(); @x", "").Replace(p.Text)
		for _, bad := range []string{"@ann", "@three", "#12", "#1", "https://evil"} {
			if strings.Contains(outside, bad) {
				t.Errorf("%q is live in:\n%s", bad, outside)
			}
		}
	}
	r := testRun(t)
	os.Remove(r.Path("series", "0001.diff"))
	if _, err := FromRun(r, Target{}); err == nil {
		t.Error("a run folder without its patches gives places")
	}
}

func TestFromRunCells(t *testing.T) {
	r := testRun(t)
	for i, c := range r.Plan.Cells()[:3] {
		v := []checks.Verdict{checks.Pass, checks.Fail, checks.Infra}[i]
		if err := r.SaveCell(&runfolder.Cell{ID: c.ID(), Spec: c, Verdict: v, Reason: "reason " + string(v), Findings: []checks.Finding{find(0, "", 0, "count.x")}}); err != nil {
			t.Fatal(err)
		}
	}
	r.Verdict = checks.Fail
	p, err := FromRun(r, Target{})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(p.Text, "###") != 2 || !strings.Contains(p.Text, "FAIL: patched/") || !strings.Contains(p.Text, "INFRA: patched/") {
		t.Errorf("text:\n%s", p.Text)
	}
}

func TestFromLint(t *testing.T) {
	s := series(t)
	for _, x := range []struct {
		fs   []checks.Finding
		want Conclusion
	}{
		{nil, Success},
		{[]checks.Finding{{ID: "a.b", Severity: checks.Note, Message: "m"}}, Success},
		{[]checks.Finding{find(1, "net/a.c", 12, "a.b")}, Failure},
		{[]checks.Finding{{ID: "checkpatch.infra", Severity: checks.Error, Message: "m"}}, Neutral},
	} {
		p := FromLint(&findings.Report{Tool: "t", Series: s, Findings: x.fs, Notes: []string{"@ann"}}, Target{Repo: Repo{"o", "r"}, SHA: shaHead}, time.Now(), time.Now())
		if p.Conclusion != x.want || p.Key != "lint" || strings.Contains(p.Summary, "@ann") {
			t.Errorf("%v: %+v", x.fs, p)
		}
	}
}
