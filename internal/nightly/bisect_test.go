// SPDX-License-Identifier: Apache-2.0

package nightly

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"patchcheck/checks"
	"patchcheck/internal/bisect"
	"patchcheck/internal/run"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

// history makes a repository of n empty commits, c1 to cn.
func commits(t *testing.T, n int) (dir string, ids []string) {
	t.Helper()
	dir = t.TempDir()
	git := func(in string, args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(in)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	var in strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&in, "commit refs/heads/main\nmark :%d\ncommitter a <a@example.org> %d +0000\ndata <<E\nc%d\nE\nM 100644 inline f\ndata <<E\n%d\nE\n\n", i, 1700000000+i, i, i)
	}
	git("", "init", "-q", "-b", "main", ".")
	git(in.String(), "fast-import", "--quiet")
	return filepath.Join(dir, ".git"), strings.Fields(git("", "rev-list", "--reverse", "main"))
}

func TestBisectTree(t *testing.T) {
	repo, ids := commits(t, 10)
	const cell = "patched/dev/v3"
	for name, tc := range map[string]struct {
		answer func(n int, try int, r *runfolder.Run) // n: number of the commit
		good   int
		want   string // culprit, or part of the error
	}{
		"culprit": {func(n, _ int, r *runfolder.Run) {
			if n >= 7 {
				fail(r, "3", "contents.differ", "x")
			}
		}, 1, "c7"},
		"some do not build": {func(n, _ int, r *runfolder.Run) {
			switch {
			case n == 5 || n == 6:
				r.Cells, r.Verdict = nil, checks.BaseFails
				r.Findings = []checks.Finding{{ID: "build.base-fails", Severity: checks.Error, Message: "a.c:1: no"}}
			case n >= 8:
				fail(r, "3", "contents.differ", "x")
			}
		}, 1, "c8"},
		"another failure before it": {func(n, _ int, r *runfolder.Run) {
			switch {
			case n >= 7:
				fail(r, "3", "contents.differ", "x")
			case n == 5:
				fail(r, "3", "guest.hang", "x") // hides what is looked for
			case n >= 3:
				fail(r, "3", "count.hold", "inline: 3 is not 4")
			}
		}, 1, "c7"},
		"unstable": {func(n, try int, r *runfolder.Run) {
			switch {
			case n >= 6:
				fail(r, "3", "contents.differ", "x")
			case n == 5: // fails one time in three
				if try == 0 {
					r.Cells[0].Verdict = checks.Unstable
				}
			}
		}, 1, "one of 2"},
		"infra once": {func(n, try int, r *runfolder.Run) {
			switch {
			case n == 5 && try == 0:
				r.Cells, r.Verdict, r.Reason = nil, checks.Infra, "no QEMU"
			case n >= 4:
				fail(r, "3", "contents.differ", "x")
			}
		}, 1, "c4"},
		"infra for good": {func(n, _ int, r *runfolder.Run) {
			switch {
			case n == 5:
				r.Cells, r.Verdict, r.Reason = nil, checks.Infra, "no QEMU"
			case n >= 9:
				fail(r, "3", "contents.differ", "x")
			}
		}, 1, "could not be tested in 3 runs (no QEMU)"},
		"bad end passes": {func(n, _ int, r *runfolder.Run) {}, 1, "does not fail at --bad"},
		"good end fails": {func(n, _ int, r *runfolder.Run) { fail(r, "3", "contents.differ", "x") }, 1, "does not pass at --good"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			tries := map[int]int{}
			b.answer = func(o run.Options, r *runfolder.Run) error {
				if o.Alone != testplans.RolePatched || !slices.Equal(o.NFS, []string{"3"}) || !slices.Equal(o.Device, []string{"dev"}) {
					t.Errorf("more than the cell was run: %+v", o)
				}
				n := 1 + slices.Index(ids, o.Base)
				if tries[n] > 0 && !o.Fresh {
					t.Errorf("c%d is asked again without Fresh", n)
				}
				tc.answer(n, tries[n], r)
				tries[n]++
				return nil
			}
			g := &bisect.Git{Dir: t.TempDir(), Repo: repo, Good: ids[tc.good-1], Bad: "main"}
			ct := &CellTest{Engine: commitKeys{b}, DB: b.db, Base: run.Options{Tree: "spec-a", Plan: "plan"}, Cell: cell}
			r, err := BisectTree(t.Context(), g, ct, false)
			got := ""
			switch {
			case err != nil:
				got = err.Error()
			case r.Culprit != "":
				got = r.Title
			default:
				got = r.Text("commit")
			}
			if !strings.Contains(got, tc.want) {
				t.Errorf("%s; want %s", got, tc.want)
			}
		})
	}
}

// commitKeys gives each commit a key of its own.
type commitKeys struct{ *bed }

func (c commitKeys) Key(ctx context.Context, o run.Options) (*run.Job, error) {
	return &run.Job{Key: "k" + o.Base}, nil
}

func (c commitKeys) Run(ctx context.Context, o run.Options) (*runfolder.Run, error) {
	r, err := c.bed.Run(ctx, o)
	if r != nil {
		r.JobKey = "k" + o.Base
	}
	return r, err
}

func TestBisectSeries(t *testing.T) {
	b := newBed(t)
	b.answer = func(o run.Options, r *runfolder.Run) error {
		if len(o.Series.Patches) >= 2 {
			fail(r, "4.1", "contents.differ", "x")
		}
		return nil
	}
	ct := func(cell string) *CellTest {
		return &CellTest{Engine: b, DB: b.db, Base: run.Options{Tree: "spec-a", Plan: "plan"}, Cell: cell}
	}
	r, err := BisectSeries(t.Context(), b.series["one"], ct("patched/dev/v4.1"))
	if err != nil || r.Culprit != "2" || r.Title != "p2" {
		t.Errorf("%+v, %v", r, err)
	}
	// Asked again, every answer is known.
	n := len(b.runs)
	if r, err = BisectSeries(t.Context(), b.series["one"], ct("patched/dev/v4.1")); err != nil || r.Culprit != "2" || len(b.runs) != n {
		t.Errorf("again: %+v, %v; ran %v", r, err, b.runs[n:])
	}
	var ie *bisect.InputError
	if _, err := BisectSeries(t.Context(), b.series["one"], ct("patched/dev/v3")); !errors.As(err, &ie) {
		t.Errorf("a cell that passes: %v", err)
	}
	b.answer = func(o run.Options, r *runfolder.Run) error {
		fail(r, "3", "contents.differ", "x")
		r.Cells[0].Verdict, r.Verdict = checks.BaseFails, checks.BaseFails
		return nil
	}
	if _, err := BisectSeries(t.Context(), b.series["two"], ct("patched/dev/v3")); !errors.As(err, &ie) || !strings.Contains(err.Error(), "without the series") {
		t.Errorf("a base that fails: %v", err)
	}
	for _, bad := range []string{"", "dev", "patched/dev/3", "other/dev/v3", "patched/dev"} {
		if _, err := BisectSeries(t.Context(), b.series["two"], ct(bad)); err == nil || !run.IsInput(err) {
			t.Errorf("cell %q: %v", bad, err)
		}
	}
}
