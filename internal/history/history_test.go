// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

// day0 is the first night of made-up histories.
var day0 = time.Date(2026, 1, 1, 2, 0, 0, 0, time.UTC)

// fakeRun makes a run folder of n cells on a day; bad cells fail.
func fakeRun(t testing.TB, dir string, day, n int, bad ...int) *runfolder.Run {
	t.Helper()
	r, err := runfolder.Create(dir, day0.AddDate(0, 0, day), "small series")
	if err != nil {
		t.Fatal(err)
	}
	fill(r, day, n, bad...)
	if err := r.Save(); err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Cells {
		if err := r.SaveCell(c); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// fill gives a run its content.
func fill(r *runfolder.Run, day, n int, bad ...int) {
	r.Ended = r.Started.Add(10 * time.Minute)
	r.Tool = "test"
	r.Tree = runfolder.Tree{Spec: "git", ID: "git:1", Version: "7.3.4", Commit: strings.Repeat("a", 40)}
	r.Series = runfolder.Series{ID: "s", Title: "small series", Version: 1, Patches: []runfolder.Patch{{Index: 1, Subject: "one", ID: "p1"}, {Index: 2, Subject: "two", ID: "p2"}}}
	r.Plan = testplans.Plan{Name: "plan"}
	r.PlanID = "plan-id"
	r.JobKey = fmt.Sprintf("key-%d", day)
	r.Tools = map[string]string{"compiler": "gcc 14", "qemu": "10.0"}
	r.Accel.Name = "tcg"
	r.Kernels = map[string]runfolder.Kernel{"base": {Key: "kb", Config: "c"}, "patched": {Key: "kp", Config: "c"}}
	r.Builds = []runfolder.Build{{Patch: 0, OK: true, Reused: true}, {Patch: 1, OK: true, Objects: 3, Elapsed: time.Second}, {Patch: 2, OK: true, Objects: 1}}
	r.Steps = []runfolder.Step{{Name: "apply", Status: "ok", Elapsed: time.Second, Started: r.Started}}
	r.Findings = []checks.Finding{{ID: "style.x", Severity: checks.Warning, Where: checks.Where{Patch: 1, File: "a.c", Line: 7}, Message: "m"}}
	r.Verdict = checks.Pass
	for i := range n {
		c := testplans.Cell{Kernel: "patched", Device: testplans.Device{Name: fmt.Sprintf("dev-%02d", i/4)}, NFS: []string{"3", "4.0", "4.1", "4.2"}[i%4]}
		a := runfolder.Attempt{Guest: "01-patched", Kernel: "7.3.4", Accel: "tcg", Started: r.Started, Elapsed: 5 * time.Second, Verdict: checks.Pass, Token: "x",
			Steps:  []runfolder.CellStep{{Name: "work: write", Elapsed: 800 * time.Millisecond}, {Name: "work: read", Elapsed: 200 * time.Millisecond}, {Name: "umount", Elapsed: time.Second}},
			Values: map[string]int64{"inline": 636, "by_reference": int64(2048 + day), "granted": 216, "refused": 0}}
		cell := &runfolder.Cell{ID: c.ID(), Spec: c, Key: fmt.Sprintf("ck-%d", i), Verdict: checks.Pass, Attempts: []runfolder.Attempt{a}}
		if slices.Contains(bad, i) {
			cell.Verdict, r.Verdict = checks.Fail, checks.Fail
			cell.Findings = []checks.Finding{{ID: "count.hold", Severity: checks.Error, Message: fmt.Sprintf("granted: %d is not 216", 217+day)}}
		}
		r.Cells = append(r.Cells, cell)
	}
}

func open(t testing.TB, path string) *DB {
	t.Helper()
	db, err := Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func TestRecord(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "a b?c%20.db")) // a name that a URI has to quote
	r := fakeRun(t, dir, 3, 5, 1)
	dump := func() map[string]int {
		m := map[string]int{}
		for _, table := range []string{"runs", "cells", "attempts", "counts", "findings", "steps", "builds", "patches", "versions"} {
			var n int
			if err := db.sql.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil {
				t.Fatal(err)
			}
			m[table] = n
		}
		return m
	}
	if err := db.Record(ctx, r); err != nil {
		t.Fatal(err)
	}
	once := dump()
	if want := map[string]int{"runs": 1, "cells": 5, "attempts": 5, "counts": 20, "findings": 2, "steps": 1, "builds": 3, "patches": 2, "versions": 6}; !reflect.DeepEqual(once, want) {
		t.Errorf("rows: %v, want %v", once, want)
	}
	if err := db.Record(ctx, r); err != nil {
		t.Fatal(err)
	}
	if twice := dump(); !reflect.DeepEqual(once, twice) {
		t.Errorf("recording twice gave %v, once %v", twice, once)
	}
	got, err := db.Facts(ctx, r.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := FromRun(r)
	want.attempts = nil
	// The file keeps the ids of patches only, times to the millisecond, and
	// builds without the time inside make.
	if got.Built != 2 || got.Executed != 5 || got.Verdict != checks.Fail || got.Target != (Target{Tree: "git", Series: "small series", Plan: "plan"}) || got.Night != "2026-01-04" || !got.Started.Equal(r.Started) {
		t.Errorf("run: %+v", got.Run)
	}
	if !reflect.DeepEqual(got.Cells, want.Cells) {
		t.Errorf("cells:\n%+v\nwant\n%+v", got.Cells, want.Cells)
	}
	if c := got.Cell("patched/dev-00/v4.0"); c == nil || c.Signature != "count.hold:granted" || c.Work != time.Second {
		t.Errorf("cell: %+v", c)
	}
	if !reflect.DeepEqual(got.Findings, want.Findings) || !reflect.DeepEqual(got.Versions, want.Versions) {
		t.Errorf("findings %+v, versions %v", got.Findings, got.Versions)
	}
	if _, err := db.Facts(ctx, "nope"); !errors.Is(err, ErrUnknown) {
		t.Errorf("unknown run: %v", err)
	}
	if err := db.Check(ctx); err != nil {
		t.Error(err)
	}
	if err := db.Forget(ctx, r.ID); err != nil {
		t.Fatal(err)
	}
	for table, n := range dump() {
		if n != 0 {
			t.Errorf("%s keeps %d rows of a run that was forgotten", table, n)
		}
	}
}

func TestByKey(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "h.db"))
	for _, tc := range []struct {
		verdict checks.Verdict
		ended   bool
		known   bool
	}{
		{checks.Pass, true, true}, {checks.Fail, true, true}, {checks.BaseFails, true, true},
		{checks.Infra, true, false}, {checks.Unstable, true, false}, {"", false, false}, {checks.Pass, false, false},
	} {
		r := fakeRun(t, dir, 1, 1)
		r.JobKey = "k-" + r.ID
		r.Verdict = tc.verdict
		if !tc.ended {
			r.Ended = time.Time{}
		}
		if err := db.Record(ctx, r); err != nil {
			t.Fatal(err)
		}
		got, err := db.ByKey(ctx, r.JobKey)
		if (err == nil) != tc.known || tc.known && got.ID != r.ID || !tc.known && !errors.Is(err, ErrUnknown) {
			t.Errorf("%+v: %v %v", tc, got.ID, err)
		}
	}
	if _, err := db.ByKey(ctx, ""); !errors.Is(err, ErrUnknown) {
		t.Errorf("a run without a key answers for others without one: %v", err)
	}
}

func TestImport(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "h.db"))
	runs := filepath.Join(dir, "runs")
	night := fakeRun(t, runs, 0, 2)
	fakeRun(t, runs, 1, 2)
	open := fakeRun(t, runs, 2, 2)
	open.Ended = time.Time{}
	if err := open.Save(); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(runs, "broken")
	if err := os.MkdirAll(bad, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bad, "run.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := db.RecordIn(ctx, night, "2026-01-01.02"); err != nil {
		t.Fatal(err)
	}
	im, err := db.Import(ctx, runs, false)
	if err != nil || im.New != 2 || im.Known != 1 || len(im.Skipped) != 1 {
		t.Errorf("first import: %+v, %v", im, err)
	}
	// The one without an end is looked at again, the others are not.
	if im, err = db.Import(ctx, runs, false); err != nil || im.New != 1 || im.Known != 2 {
		t.Errorf("second import: %+v, %v", im, err)
	}
	if _, err = db.Import(ctx, runs, true); err != nil {
		t.Fatal(err)
	}
	f, err := db.Facts(ctx, night.ID)
	if err != nil || f.Night != "2026-01-01.02" {
		t.Errorf("an import has changed the night of a run: %q, %v", f.Night, err)
	}
	if rs, err := db.Runs(ctx, Filter{Cell: "patched/dev-00/v3", Finished: true, Limit: 1, Target: Target{Plan: "plan"}}); err != nil || len(rs) != 1 || rs[0].Night != "2026-01-02" {
		t.Errorf("runs: %+v, %v", rs, err)
	}
	if rs, err := db.Runs(ctx, Filter{Cell: "patched/none/v3"}); err != nil || len(rs) != 0 {
		t.Errorf("runs of an unknown cell: %+v, %v", rs, err)
	}
}

func TestGridAndFailures(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "h.db"))
	tg := Target{Tree: "git", Series: "small series", Plan: "plan"}
	rec := func(day int, bad ...int) *runfolder.Run {
		r := fakeRun(t, dir, day, 3, bad...)
		if err := db.Record(ctx, r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	night := func(day int, s State, run *runfolder.Run) {
		n, _, err := db.BeginNight(ctx, "c", day0.AddDate(0, 0, day), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		j := Job{Night: n.ID, Target: tg, State: s, Detail: "d"}
		if run != nil {
			j.Run, j.Verdict = run.ID, run.Verdict
		}
		if err := errors.Join(db.SaveJob(ctx, j), db.EndNight(ctx, n.ID, n.Started, Done, "")); err != nil {
			t.Fatal(err)
		}
	}
	rec(0)
	rec(1, 0, 2)
	other := rec(2, 0)
	other.Cells[0].Findings[0].ID = "console.warn" // the same cell fails in another way
	if err := db.Record(ctx, other); err != nil {
		t.Fatal(err)
	}
	night(3, Known, other)
	night(4, FetchFailed, nil)
	rec(5)
	rec(5, 1) // the later run of a night counts
	g, err := db.Grid(ctx, tg, 0)
	if err != nil {
		t.Fatal(err)
	}
	var pic []string
	for i, c := range g.Cells {
		l := c + " "
		for j := range g.Columns {
			switch s := g.Squares[i][j]; {
			case s == nil:
				l += " "
			case s.Verdict == checks.Pass:
				l += "."
			default:
				l += "F"
			}
		}
		pic = append(pic, l)
	}
	if want := []string{"patched/dev-00/v3 .FFF .", "patched/dev-00/v4.0 .... F", "patched/dev-00/v4.1 .F.. ."}; !slices.Equal(pic, want) {
		t.Errorf("grid:\n%s\nwant\n%s", strings.Join(pic, "\n"), strings.Join(want, "\n"))
	}
	if c := g.Columns[3]; !c.Carried || c.Run != other.ID || c.State != Known {
		t.Errorf("night with a known answer: %+v", c)
	}
	if c := g.Columns[4]; c.Run != "" || c.State != FetchFailed || c.Detail != "d" {
		t.Errorf("night without an answer: %+v", c)
	}
	var got []string
	for _, f := range g.Failures() {
		got = append(got, fmt.Sprintf("%s %s %s..%s %d good %q fixed %q", f.Cell, f.Signature, f.FirstBad, f.LastBad, f.Nights, f.LastGood, f.FixedIn))
	}
	want := []string{
		`patched/dev-00/v4.0 count.hold:granted 2026-01-06..2026-01-06 1 good "2026-01-04" fixed ""`,
		`patched/dev-00/v3 console.warn 2026-01-03..2026-01-04 2 good "2026-01-01" fixed "2026-01-06"`,
		`patched/dev-00/v3 count.hold:granted 2026-01-02..2026-01-02 1 good "2026-01-01" fixed "2026-01-03"`,
		`patched/dev-00/v4.1 count.hold:granted 2026-01-02..2026-01-02 1 good "2026-01-01" fixed "2026-01-03"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("failures:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if g, err = db.Grid(ctx, tg, 2); err != nil || len(g.Columns) != 2 || g.Columns[1].Night != "2026-01-06" {
		t.Errorf("last two nights: %+v, %v", g, err)
	}
	if g, err = db.Grid(ctx, Target{Tree: "no", Series: "such", Plan: "target"}, 0); err != nil || len(g.Columns) != 0 {
		t.Errorf("unknown target: %+v, %v", g, err)
	}
	p, err := db.Trend(ctx, tg, "patched/dev-00/v3")
	if err != nil || len(p) != 5 || p[2].Values["by_reference"] != 2050 || p[2].Work != time.Second || p[1].Verdict != checks.Fail {
		t.Errorf("trend: %+v, %v", p, err)
	}
	ls, err := db.Counts(ctx, tg)
	if err != nil || len(ls) != 12 || ls[0].Name != "by_reference" || !slices.Equal(ls[0].Values, []int64{2048, 2049, 2050, 2053, 2053}) {
		t.Errorf("counts: %+v, %v", ls, err)
	}
	ts, err := db.Targets(ctx)
	if err != nil || len(ts) != 1 || ts[0].Runs != 5 || ts[0].Latest.Night != "2026-01-06" {
		t.Errorf("targets: %+v, %v", ts, err)
	}
}

func TestNights(t *testing.T) {
	ctx := context.Background()
	db := open(t, filepath.Join(t.TempDir(), "h.db"))
	begin := func(now time.Time) (Night, bool) {
		n, resumed, err := db.BeginNight(ctx, "c", now, 20*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return n, resumed
	}
	n, resumed := begin(day0)
	if n.ID != "2026-01-01" || resumed {
		t.Errorf("first night: %+v %v", n, resumed)
	}
	tg := Target{Tree: "t", Series: "s", Plan: "p"}
	j := Job{Night: n.ID, Target: tg, State: Running, Key: "k", Detail: "x", Culprit: Culprit{3, "subj", "cell"}, Started: day0}
	if err := db.SaveJob(ctx, j); err != nil {
		t.Fatal(err)
	}
	// The process was killed: the night goes on, its running job is to be done again.
	if again, resumed := begin(day0.Add(time.Hour)); !resumed || again.ID != n.ID {
		t.Errorf("resume: %+v %v", again, resumed)
	}
	js, err := db.Jobs(ctx, n.ID)
	j.State = Interrupted
	if err != nil || len(js) != 1 || js[0] != j {
		t.Errorf("jobs: %+v, %v", js, err)
	}
	if err := db.EndNight(ctx, n.ID, day0.Add(2*time.Hour), Done, "sum"); err != nil {
		t.Fatal(err)
	}
	if n, resumed = begin(day0.Add(3 * time.Hour)); n.ID != "2026-01-01.02" || resumed {
		t.Errorf("second night of a day: %+v %v", n, resumed)
	}
	// One that was left too long ago is closed, not resumed.
	if n, resumed = begin(day0.Add(30 * time.Hour)); n.ID != "2026-01-02" || resumed {
		t.Errorf("next night: %+v %v", n, resumed)
	}
	ns, err := db.Nights(ctx, "c", 0)
	if err != nil || len(ns) != 3 || ns[1].State != Interrupted || ns[2].State != Done || ns[2].Summary != "sum" {
		t.Errorf("nights: %+v, %v", ns, err)
	}
	for i, s := range []TreeState{{Tree: "t", State: TreeNew, Tip: "a"}, {Tree: "t", State: FetchFailed}, {Tree: "t", State: TreeRewritten, Tip: "b", OldTip: "a"}} {
		if err := db.SaveTree(ctx, ns[2-i].ID, s); err != nil {
			t.Fatal(err)
		}
	}
	if last, err := db.LastTree(ctx, "t", ns[0].ID); err != nil || last.Tip != "a" {
		t.Errorf("last tip before a failed fetch: %+v, %v", last, err)
	}
	if _, err := db.LastTree(ctx, "t", ns[2].ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("before the first night: %v", err)
	}
}

func TestBadFiles(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	good := filepath.Join(dir, "good.db")
	db, err := Open(ctx, good)
	if err != nil {
		t.Fatal(err)
	}
	r := fakeRun(t, dir, 0, 200)
	if err := db.Record(ctx, r); err != nil {
		t.Fatal(err)
	}
	db.Close()
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, b []byte) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	pragma := func(name, q string) string {
		p := write(name, whole)
		s, err := sql.Open("sqlite", p)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Exec(q); err != nil {
			t.Fatal(err)
		}
		return p
	}
	foreign := filepath.Join(dir, "foreign.db")
	s, err := sql.Open("sqlite", foreign)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Exec("CREATE TABLE cookies (a)"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	var damaged *DamagedError
	var other *ForeignError
	var newer *NewerError
	for _, tc := range []struct {
		name, path string
		as         any
		say        string
	}{
		{"text", write("text.db", []byte(strings.Repeat("no database\n", 100))), &damaged, "patchcheck history reset"},
		{"foreign", foreign, &other, "another program"},
		{"newer", pragma("newer.db", fmt.Sprintf("PRAGMA user_version = %d", SchemaVersion+1)), &newer, "update patchcheck"},
		{"foreign with an id", pragma("id.db", "PRAGMA application_id = 7"), &other, "another program"},
	} {
		before, _ := os.ReadFile(tc.path)
		for _, op := range []func(context.Context, string) (*DB, error){Open, OpenReadOnly} {
			_, err := op(ctx, tc.path)
			if err == nil || !errors.As(err, tc.as) || !strings.Contains(err.Error(), tc.say) {
				t.Errorf("%s: %v", tc.name, err)
			}
		}
		if after, _ := os.ReadFile(tc.path); string(after) != string(before) {
			t.Errorf("%s: a file that was refused has changed", tc.name)
		}
	}
	// Damage in the middle shows when the pages are read.
	b := slices.Clone(whole)
	for i := 3 * 4096; i < len(b)-4096; i++ {
		b[i] ^= 0x55
	}
	p := write("middle.db", b)
	db, err = Open(ctx, p)
	if err == nil {
		_, err = db.Facts(ctx, r.ID)
		if err == nil {
			err = db.Check(ctx)
		}
		db.Close()
	}
	if !errors.As(err, &damaged) {
		t.Errorf("damage in the middle: %v", err)
	}
	// Half a file.
	db, err = Open(ctx, write("half.db", whole[:len(whole)/2]))
	if err == nil {
		err = db.Check(ctx)
		db.Close()
	}
	if !errors.As(err, &damaged) {
		t.Errorf("half a file: %v", err)
	}
	// Moved aside when told, then as good as new.
	to, err := MoveAside(p, day0)
	if err != nil || filepath.Base(to) != "middle.db.aside-20260101-020000" {
		t.Errorf("moved to %s, %v", to, err)
	}
	db = open(t, p)
	if err := db.Record(ctx, r); err != nil {
		t.Error(err)
	}
	// An empty file is as good as none; a folder is not.
	open(t, write("empty.db", nil))
	if _, err := Open(ctx, dir); err == nil {
		t.Error("a folder was taken for a history")
	}
	if _, err := OpenReadOnly(ctx, filepath.Join(dir, "absent.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

func TestReadOnly(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	path := filepath.Join(dir, "h.db")
	db := open(t, path)
	r := fakeRun(t, t.TempDir(), 0, 2)
	if err := db.Record(ctx, r); err != nil {
		t.Fatal(err)
	}
	ro, err := OpenReadOnly(ctx, path) // while another has it open
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	if _, err := ro.Facts(ctx, r.ID); err != nil {
		t.Error(err)
	}
	if err := ro.Record(ctx, r); !errors.Is(err, ErrReadOnly) {
		t.Errorf("write to a history opened for reading: %v", err)
	}
	if os.Getuid() == 0 {
		t.Skip("root may write to a file without write permission: the rest needs another user")
	}
	db.Close()
	os.Chmod(path, 0o444)
	os.Chmod(dir, 0o555)
	defer os.Chmod(dir, 0o755)
	db = open(t, path)
	if db.Writable() {
		t.Error("a file without write permission is said to be writable")
	}
	if _, err := db.Facts(ctx, r.ID); err != nil {
		t.Error(err)
	}
}

// TestProcesses lets several processes make and fill one history at once.
func TestProcesses(t *testing.T) {
	ctx := context.Background()
	const procs, each = 3, 8
	if dir := os.Getenv("HISTORY_TEST_DIR"); dir != "" {
		db := open(t, filepath.Join(dir, "h.db"))
		for i := range each {
			r := fakeRun(t, filepath.Join(dir, os.Getenv("HISTORY_TEST_PROC")), i, 20)
			r.ID = os.Getenv("HISTORY_TEST_PROC") + "-" + r.ID
			if err := db.Record(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var cmds []*exec.Cmd
	for i := range procs {
		cmd := exec.Command(exe, "-test.run=^TestProcesses$")
		cmd.Env = append(os.Environ(), "HISTORY_TEST_DIR="+dir, fmt.Sprintf("HISTORY_TEST_PROC=p%d", i))
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	for _, c := range cmds {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
	db := open(t, filepath.Join(dir, "h.db"))
	rs, err := db.Runs(ctx, Filter{})
	if err != nil || len(rs) != procs*each {
		t.Errorf("%d runs, want %d: %v", len(rs), procs*each, err)
	}
	if err := db.Check(ctx); err != nil {
		t.Error(err)
	}
}

func TestSignature(t *testing.T) {
	f := func(id, msg string, s checks.Severity) checks.Finding {
		return checks.Finding{ID: id, Message: msg, Severity: s}
	}
	for _, tc := range []struct {
		in   []checks.Finding
		want string
	}{
		{nil, ""},
		{[]checks.Finding{f("a.note", "x", checks.Note), f("b.warn", "x", checks.Warning)}, ""},
		{[]checks.Finding{f("guest.hang", "umount: no answer", checks.Error)}, "guest.hang"},
		{[]checks.Finding{f("count.hold", "refused: 3 is not 0", checks.Error), f("count.hold", "granted: 217", checks.Error), f("count.hold", "granted: 218", checks.Error), f("console.kasan", "KASAN: use-after-free", checks.Error)},
			"console.kasan count.hold:granted count.hold:refused"},
	} {
		if got := Signature(tc.in); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.in, got, tc.want)
		}
	}
}

// year makes a history of 365 nights with 200 cells each.
func year(b *testing.B) (*DB, Target) {
	b.Helper()
	ctx := context.Background()
	db := open(b, filepath.Join(b.TempDir(), "h.db"))
	start := time.Now()
	err := db.write(ctx, func(tx *sql.Tx) error {
		for day := range 365 {
			r := &runfolder.Run{ID: fmt.Sprintf("run-%03d", day), Started: day0.AddDate(0, 0, day)}
			fill(r, day, 200, day%200, (day+1)%200)
			if err := put(ctx, tx, FromRun(r), true); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	fi, _ := os.Stat(db.path)
	b.Logf("365 nights x 200 cells recorded in %v, %.1f MB", time.Since(start).Round(time.Millisecond), float64(fi.Size())/1e6)
	return db, Target{Tree: "git", Series: "small series", Plan: "plan"}
}

func BenchmarkYear(b *testing.B) {
	ctx := context.Background()
	db, tg := year(b)
	for name, f := range map[string]func() error{
		"Grid": func() error {
			g, err := db.Grid(ctx, tg, 0)
			if err == nil && (len(g.Cells) != 200 || len(g.Columns) != 365) {
				b.Fatalf("%d cells, %d nights", len(g.Cells), len(g.Columns))
			}
			return err
		},
		"GridFailures": func() error {
			g, err := db.Grid(ctx, tg, 0)
			if err == nil && len(g.Failures()) < 100 {
				b.Fatal("too few failures")
			}
			return err
		},
		"Grid30":  func() error { _, err := db.Grid(ctx, tg, 30); return err },
		"Trend":   func() error { _, err := db.Trend(ctx, tg, "patched/dev-10/v4.1"); return err },
		"Counts":  func() error { _, err := db.Counts(ctx, tg); return err },
		"ByKey":   func() error { _, err := db.ByKey(ctx, "key-200"); return err },
		"Facts":   func() error { _, err := db.Facts(ctx, "run-200"); return err },
		"Targets": func() error { _, err := db.Targets(ctx); return err },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// between lets something happen between two questions.
type between struct {
	querier
	then func()
}

func (b *between) QueryRowContext(ctx context.Context, q string, args ...any) *sql.Row {
	row := b.querier.QueryRowContext(ctx, q, args...)
	if err := row.Err(); err == nil && b.then != nil {
		then := b.then
		b.then = nil
		defer then()
	}
	return row
}

// A history that another process makes just now is not taken for a file of
// another program, whichever question the other one's commit comes after.
func TestMadeMeanwhile(t *testing.T) {
	for after := range 3 {
		path := filepath.Join(t.TempDir(), "h.db")
		q, err := sql.Open("sqlite", dsn(path, "rwc"))
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		made := 0
		var b *between
		var step func()
		step = func() {
			if made++; made == after+1 {
				open(t, path)
				return
			}
			b.then = step
		}
		b = &between{querier: q, then: step}
		if err := (&DB{path: path}).ours(t.Context(), b); err != nil {
			t.Errorf("made after question %d: %v", after+1, err)
		}
	}
	empty := filepath.Join(t.TempDir(), "h.db")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenReadOnly(t.Context(), empty); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is still empty: %v", err)
	}
}

// A new file that somebody else holds is waited for, also by the switch to the
// write-ahead log, for which SQLite itself does not wait.
func TestHeldWhileNew(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "h.db")
	other, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	conn, err := other.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	sqlOnly, err := sql.Open("sqlite", dsn(path, "rwc"))
	if err != nil {
		t.Fatal(err)
	}
	defer sqlOnly.Close()
	if err := sqlOnly.PingContext(ctx); !busy(err) {
		t.Fatalf("SQLite alone: %v; this test needs a lock that it does not wait for", err)
	}
	done := make(chan error, 1)
	go func() {
		db, err := Open(ctx, path)
		if err == nil {
			err = db.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	if _, err := conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
