// SPDX-License-Identifier: Apache-2.0

package nightly

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchcheck/checks"
	"patchcheck/internal/cache"
	"patchcheck/internal/history"
	"patchcheck/internal/kernel"
	"patchcheck/internal/run"
	"patchcheck/internal/runfolder"
	"patchcheck/patches"
	"patchcheck/testplans"
)

// bed is a world without kernels: trees, series and what runs of them answer
// are made up. It is the Engine of its nights.
type bed struct {
	t      *testing.T
	dir    string
	db     *history.DB
	clock  time.Time
	tips   map[string]Tip             // by spec
	errs   map[string]error           // of fetching, by spec
	gone   map[string]bool            // commits that a rewritten tree has lost
	series map[string]*patches.Series // by source
	answer func(o run.Options, r *runfolder.Run) error
	runs   []string // what was run: "series(patches)/tree/plan/cells"
	took   time.Duration
	free   int64
	clean  []int
	forge  *fakeForge
	site   []string
}

func newBed(t *testing.T) *bed {
	dir := t.TempDir()
	db, err := history.Open(t.Context(), filepath.Join(dir, "h.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return &bed{t: t, dir: dir, db: db, clock: time.Date(2026, 12, 1, 1, 0, 0, 0, time.UTC), tips: map[string]Tip{"spec-a": {"ida", "aaaa", "7.3"}, "spec-b": {"idb", "bbbb", "7.4"}},
		errs: map[string]error{}, gone: map[string]bool{}, took: 10 * time.Minute, free: 100 << 30,
		series: map[string]*patches.Series{"one": series("s1", "p1", "p2", "p3", "p4"), "two": series("s2", "q1")}}
}

// series makes one whose patches are told apart by their subjects.
func series(title string, subjects ...string) *patches.Series {
	s := &patches.Series{Title: title, Version: 1, Total: len(subjects)}
	for i, x := range subjects {
		s.Patches = append(s.Patches, &patches.Patch{Index: i + 1, Total: len(subjects), Subject: x, Diff: []byte(x)})
	}
	return s
}

func (b *bed) Fetch(_ context.Context, spec, base string) (Tip, error) {
	return b.tips[spec], b.errs[spec]
}
func (b *bed) Contains(_ context.Context, _, _, old string) (bool, bool) {
	return !b.gone[old], true
}
func (b *bed) Load(_ context.Context, source, _ string) (*patches.Series, error) {
	if s := b.series[filepath.Base(source)]; s != nil {
		return s, nil
	}
	return nil, &patches.InputError{Source: source, Reason: "there is no patch in it"}
}
func (b *bed) Key(_ context.Context, o run.Options) (*run.Job, error) {
	if o.Plan == "broken" {
		return nil, &testplans.Error{Name: o.Plan, Msgs: []string{"  no such plan"}}
	}
	id := ""
	if o.Series != nil {
		id = run.SeriesID(o.Series)
	}
	return &run.Job{Key: fmt.Sprintf("%x", sha256.Sum256([]byte(fmt.Sprint(b.tips[o.Tree].ID, id, o.Plan, o.Device, o.NFS, o.Alone))))[:16]}, nil
}
func (b *bed) Clean(_ context.Context, days int) error { b.clean = append(b.clean, days); return nil }
func (b *bed) Free() (int64, error)                    { return b.free, nil }

// cells of the made-up plan.
var bedCells = []testplans.Cell{
	{Kernel: "patched", Device: testplans.Device{Name: "dev"}, NFS: "3"},
	{Kernel: "patched", Device: testplans.Device{Name: "dev"}, NFS: "4.1"},
}

func (b *bed) Run(ctx context.Context, o run.Options) (*runfolder.Run, error) {
	n := 0
	if o.Series != nil {
		n = len(o.Series.Patches)
	}
	b.runs = append(b.runs, fmt.Sprintf("%s(%d)/%s/%s%v", o.Target.Series, n, o.Tree, o.Plan, o.NFS))
	r, err := runfolder.Create(filepath.Join(b.dir, "runs"), b.clock, "n")
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b.clock = b.clock.Add(b.took)
	j, err := b.Key(ctx, o)
	if err != nil {
		return nil, err
	}
	r.Ended, r.JobKey, r.Target, r.Verdict = b.clock, j.Key, o.Target, checks.Pass
	r.Tree = runfolder.Tree{Spec: o.Tree, ID: b.tips[o.Tree].ID, Commit: b.tips[o.Tree].Commit}
	r.Plan.Name = o.Plan
	if o.Series != nil {
		r.Series = runfolder.Series{ID: run.SeriesID(o.Series), Title: o.Series.Title}
		for _, p := range o.Series.Patches {
			r.Series.Patches = append(r.Series.Patches, runfolder.Patch{Index: p.Index, Subject: p.Subject, ID: p.Subject})
		}
	}
	for _, c := range bedCells {
		if len(o.NFS) == 0 || slices.Contains(o.NFS, c.NFS) {
			r.Cells = append(r.Cells, &runfolder.Cell{ID: c.ID(), Spec: c, Key: "k", Verdict: checks.Pass, Attempts: []runfolder.Attempt{{Verdict: checks.Pass, Token: "x", Started: b.clock}}})
		}
	}
	if b.answer != nil {
		if err := b.answer(o, r); err != nil {
			return r, err
		}
	}
	for _, c := range r.Cells {
		if err := r.SaveCell(c); err != nil {
			return nil, err
		}
	}
	return r, r.Save()
}

// fail makes a cell of a run fail.
func fail(r *runfolder.Run, nfs, id, msg string) {
	for _, c := range r.Cells {
		if c.Spec.NFS == nfs {
			c.Verdict, r.Verdict, r.Reason = checks.Fail, checks.Fail, "1 cell FAIL"
			c.Findings = []checks.Finding{{ID: id, Severity: checks.Error, Message: msg}}
			c.Reason = msg
		}
	}
}

const bedConfig = `trees: [{name: A, from: spec-a}, {name: B, from: spec-b}]
series: [{name: S1, from: one}, {name: S2, from: two}]
plans: [{name: P, plan: plan}]
`

func (b *bed) nightly(config string) *Nightly {
	b.t.Helper()
	c, err := ParseConfig(filepath.Join(b.dir, "nightly.yaml"), []byte(config))
	if err != nil {
		b.t.Fatal(err)
	}
	n := &Nightly{Config: c, DB: b.db, Engine: b, Now: func() time.Time { return b.clock }, Base: run.Options{RunsDir: filepath.Join(b.dir, "runs")}}
	if b.forge != nil {
		n.Forge = b.forge
	}
	n.Site = func(_ context.Context, dir string) error { b.site = append(b.site, dir); return nil }
	return n
}

// night runs a night and goes on to the next day.
func (b *bed) night(config string) *Result {
	b.t.Helper()
	b.runs = nil
	r, err := b.nightly(config).Run(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	b.clock = time.Date(b.clock.Year(), b.clock.Month(), b.clock.Day()+1, 1, 0, 0, 0, time.UTC)
	return r
}

func states(r *Result) string {
	var out []string
	for _, j := range r.Jobs {
		s := string(j.State)
		if j.Verdict != "" {
			s += "/" + string(j.Verdict)
		}
		out = append(out, fmt.Sprintf("%s:%s:%s=%s", j.Target.Tree, j.Target.Series, j.Target.Plan, s))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestNothingNew(t *testing.T) {
	b := newBed(t)
	r := b.night(bedConfig)
	if want := "A:S1:P=done/PASS A:S2:P=done/PASS B:S1:P=done/PASS B:S2:P=done/PASS"; states(r) != want || r.Ran != 4 {
		t.Errorf("first night: %s", states(r))
	}
	r = b.night(bedConfig)
	if want := "A:S1:P=known/PASS A:S2:P=known/PASS B:S1:P=known/PASS B:S2:P=known/PASS"; states(r) != want || len(b.runs) != 0 {
		t.Errorf("second night: %s, ran %v", states(r), b.runs)
	}
	if got, want := r.Text(), "night 2026-12-02: nothing changed since 2026-12-01 (0 jobs run, 4 known)\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// Only what is new runs, and a passing answer to something new is nothing to say.
	b.tips["spec-a"] = Tip{"ida2", "aaa2", "7.3"}
	r = b.night(bedConfig)
	if len(b.runs) != 2 || r.Text() != "night 2026-12-03: nothing changed since 2026-12-02 (2 jobs run, 2 known)\n" {
		t.Errorf("third night ran %v: %s", b.runs, r.Text())
	}
	if r.Trees[0].State != history.TreeNew || r.Trees[0].OldTip != "aaaa" || r.Trees[1].State != history.TreeSame {
		t.Errorf("trees: %+v", r.Trees)
	}
}

func TestCulprit(t *testing.T) {
	b := newBed(t)
	const config = "trees: [{name: A, from: spec-a}]\nseries: [{name: S1, from: one}]\nplans: [{name: P, plan: plan}]\n"
	b.night(config)
	// Patch 3 is broken in the second version. With patch 1 only, a condition
	// does not hold yet, which is another failure.
	b.series["one"] = series("s1", "p1", "p2", "p3 bad", "p4")
	b.answer = func(o run.Options, r *runfolder.Run) error {
		if len(o.Series.Patches) == 1 {
			fail(r, "4.1", "count.hold", "inline: not yet")
		}
		for _, p := range o.Series.Patches {
			if p.Subject == "p3 bad" {
				fail(r, "4.1", "contents.differ", "byte 7")
			}
		}
		return nil
	}
	r := b.night(config)
	j := r.Jobs[0]
	if j.Culprit != (history.Culprit{Patch: 3, Subject: "p3 bad", Cell: "patched/dev/v4.1"}) || !r.Worse() {
		t.Errorf("culprit: %+v", j)
	}
	// Patches 1 and 2 are those of the version that passed, so 3 is asked, and 2
	// to be sure; never the other cell.
	if want := []string{"S1(4)/spec-a/plan[]", "S1 (first 3)(3)/spec-a/plan[4.1]", "S1 (first 2)(2)/spec-a/plan[4.1]"}; !slices.Equal(b.runs, want) {
		t.Errorf("ran %q, want %q", b.runs, want)
	}
	want := `night 2026-12-02: something got worse since 2026-12-01 (1 job run, 0 known)
S1 on A with P
  verdict      FAIL, was PASS: 1 cell FAIL
  NEW FAILURE  patched/dev/v4.1: FAIL (byte 7)
  culprit      patch 3: p3 bad, seen in patched/dev/v4.1
`
	if r.Text() != want {
		t.Errorf("%s\nwant\n%s", r.Text(), want)
	}
	// Nothing new: known, with its culprit, and nothing to say.
	r = b.night(config)
	if len(b.runs) != 0 || r.Jobs[0].Culprit.Patch != 3 || len(r.Changes) != 0 {
		t.Errorf("same again: ran %v, %+v, %s", b.runs, r.Jobs[0], r.Text())
	}
	b.series["one"] = series("s1", "p1", "p2", "p3", "p4")
	r = b.night(config)
	if len(b.runs) != 0 || !strings.Contains(r.Text(), "FIXED        patched/dev/v4.1, was FAIL: contents.differ") || r.Worse() {
		t.Errorf("back to the first version, which is known: ran %v, %s", b.runs, r.Text())
	}
	// Broken from the start: no earlier version to go by.
	b.series["one"] = series("s1 v3", "p0", "p3 bad", "p5", "p6", "p7")
	r = b.night(config)
	if j := r.Jobs[0]; j.Culprit.Patch != 2 {
		t.Errorf("culprit of another series: %+v; ran %v", j, b.runs)
	}
	// A build failure names its patch itself.
	b.series["one"] = series("s1 v4", "p0", "p1")
	b.answer = func(o run.Options, r *runfolder.Run) error {
		r.Cells, r.Verdict = nil, checks.Fail
		r.Findings = []checks.Finding{{ID: "build.fails", Severity: checks.Error, Where: checks.Where{Patch: 2}, Message: "a.c"}}
		return nil
	}
	r = b.night(config)
	if j := r.Jobs[0]; j.Culprit != (history.Culprit{Patch: 2, Subject: "p1"}) || len(b.runs) != 1 {
		t.Errorf("build failure: %+v", j)
	}
}

// TestBadNight puts every kind of trouble into one night: each has a state of
// its own, and the rest still runs.
func TestBadNight(t *testing.T) {
	b := newBed(t)
	const config = `job_deadline: 1h
trees: [{name: A, from: spec-a}, {name: down, from: spec-down}, {name: moved, from: spec-b}, {name: wrong, from: spec-wrong}]
series:
 - {name: good, from: one}
 - {name: late, from: two, trees: [A]}
 - {name: none, from: nothing, trees: [A]}
 - {name: big, from: big, trees: [A]}
 - {name: basebad, from: basebad, trees: [A]}
 - {name: hang, from: hang, trees: [A]}
 - {name: ours, from: ours, trees: [A]}
 - {name: full, from: full, trees: [A]}
 - {name: warn, from: warn, trees: [A]}
plans: [{name: P, plan: plan}]
`
	for _, n := range []string{"basebad", "hang", "ours", "full", "warn"} {
		b.series[n] = series(n, n)
	}
	b.series["big"] = series("big", "x")
	b.errs["spec-down"] = &kernel.TreeError{Spec: "spec-down", Msg: "cannot fetch", Infra: true}
	b.errs["spec-wrong"] = &kernel.TreeError{Spec: "spec-wrong", Msg: "there is no such folder"}
	b.tips["spec-b"] = Tip{"idb", "bbbb", "7.4"}
	b.answer = func(o run.Options, r *runfolder.Run) error {
		finding := func(id string, patch int, v checks.Verdict) {
			r.Cells, r.Verdict, r.Reason = nil, v, id
			r.Findings = []checks.Finding{{ID: id, Severity: checks.Error, Where: checks.Where{Patch: patch}, Message: id}}
		}
		switch o.Target.Series {
		case "late":
			finding("apply.fails", 1, checks.Fail)
		case "basebad":
			finding("build.base-fails", 0, checks.BaseFails)
		case "warn":
			finding("build.fails", 1, checks.Fail)
		case "ours":
			r.Cells, r.Verdict, r.Reason = nil, checks.Infra, "QEMU could not be started"
		case "full":
			r.Cells, r.Verdict, r.Reason = nil, checks.Infra, (&cache.FullError{Path: b.dir, Err: unix.ENOSPC}).Error()
		case "big":
			return fmt.Errorf("cannot write: %w", unix.ENOSPC)
		case "hang":
			return errHang
		}
		return nil
	}
	b.night(strings.ReplaceAll(config, "spec-wrong", "spec-a"))
	b.gone["bbbb"] = true
	b.tips["spec-b"] = Tip{"idb2", "b222", "7.4"}
	n := b.nightly(config)
	n.Engine = hanging{b}
	r, err := n.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"A:basebad:P=known/BASE-FAILS", "A:big:P=disk-full", "A:full:P=disk-full/INFRA", "A:good:P=known/PASS", "A:hang:P=hung", "A:late:P=known/FAIL",
		"A:none:P=bad-input", "A:ours:P=infra/INFRA", "A:warn:P=known/FAIL", "down:good:P=fetch-failed", "moved:good:P=done/PASS", "wrong:good:P=bad-input",
	}, " ")
	if got := states(r); got != want {
		t.Errorf("states:\n%s\nwant\n%s", strings.ReplaceAll(got, " ", "\n"), strings.ReplaceAll(want, " ", "\n"))
	}
	text := r.Text()
	for _, want := range []string{
		"tree moved was rewritten: forced update: bbbb is no longer part of it, the tip is now b222",
		"trouble of our own", "tree down: fetch-failed: kernel tree spec-down: cannot fetch", "hang on A with P: hung: it did not end within job_deadline (1h0m0s)", "ours on A with P: infra: QEMU could not be started",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the night does not say %q:\n%s", want, text)
		}
	}
	if r.Worse() {
		t.Errorf("trouble of our own is blamed on the code:\n%s", text)
	}
	for _, j := range r.Jobs {
		if j.Verdict == checks.Fail && j.State != history.Known && j.State != history.Done {
			t.Errorf("%+v: a FAIL that is no answer", j)
		}
	}
}

// The first bad night names the states that later ones know.
func TestFirstBadNight(t *testing.T) {
	b := newBed(t)
	const config = "trees: [{name: A, from: spec-a}]\nseries: [{name: late, from: one}, {name: base, from: two}]\nplans: [{name: P, plan: plan}]\n"
	b.night(config)
	b.tips["spec-a"] = Tip{"ida2", "aaa2", "7.3"}
	b.answer = func(o run.Options, r *runfolder.Run) error {
		id, v := "apply.fails", checks.Fail
		if o.Target.Series == "base" {
			id, v = "build.base-fails", checks.BaseFails
		}
		r.Cells, r.Verdict, r.Reason = nil, v, "patch 2 does not apply"
		r.Findings = []checks.Finding{{ID: id, Severity: checks.Error, Message: id}}
		return nil
	}
	r := b.night(config)
	if want := "A:base:P=base-broken/BASE-FAILS A:late:P=conflict/FAIL"; states(r) != want {
		t.Errorf("%s, want %s", states(r), want)
	}
	if s := r.Text(); !strings.Contains(s, "does not apply any more: patch 2") || !strings.Contains(s, "the tree does not build, without the series") {
		t.Error(s)
	}
	if r = b.night(config); len(r.Changes) != 0 {
		t.Errorf("said again on the next night: %s", r.Text())
	}
	b.tips["spec-a"] = Tip{"ida3", "aaa3", "7.3"}
	if r = b.night(config); len(r.Changes) != 0 || states(r) != "A:base:P=base-broken/BASE-FAILS A:late:P=conflict/FAIL" {
		t.Errorf("said again on another tree: %s %s", states(r), r.Text())
	}
}

var errHang = errors.New("hang")

// hanging waits for the job's deadline where a test asks for a hang.
type hanging struct{ *bed }

func (h hanging) Run(ctx context.Context, o run.Options) (*runfolder.Run, error) {
	if o.Target.Series != "hang" {
		return h.bed.Run(ctx, o)
	}
	d, ok := ctx.Deadline()
	if !ok || time.Until(d) < 30*time.Minute {
		h.t.Errorf("a job has the deadline %v, %v", d, ok)
	}
	ctx, cancel := context.WithDeadline(ctx, time.Now())
	defer cancel()
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestOrderAndBudget(t *testing.T) {
	b := newBed(t)
	const trees = "trees: [{name: A, from: spec-a}]\n"
	const rest = `plans: [{name: P, plan: plan}]
series:
 - {name: plain, from: plain}
 - {name: slow, from: slow}
 - {name: failing, from: failing}
 - {name: long-failing, from: long-failing}
 - {name: urgent, from: urgent, priority: 5}
`
	for _, n := range []string{"plain", "slow", "failing", "long-failing", "urgent", "new"} {
		b.series[n] = series(n, n)
	}
	since := map[string]int{"failing": 2, "long-failing": 1}
	for day := 1; day <= 3; day++ {
		b.answer = func(o run.Options, r *runfolder.Run) error {
			if o.Target.Series == "slow" {
				b.clock = b.clock.Add(3 * time.Hour)
				r.Ended = b.clock
			}
			if n := since[o.Target.Series]; n > 0 && day >= n {
				fail(r, "3", "contents.differ", "x")
			}
			return nil
		}
		b.tips["spec-a"] = Tip{fmt.Sprint("id", day), fmt.Sprint("tip", day), "7.3"}
		b.night("culprit: false\n" + trees + rest)
	}
	b.answer = nil
	b.tips["spec-a"] = Tip{"last", "lasttip", "7.3"}
	r := b.night("budget: 45m\nculprit: false\n" + trees + rest + " - {name: new, from: new}\n")
	var got []string
	for _, x := range b.runs {
		got = append(got, x[:strings.IndexByte(x, '(')])
	}
	// 10 minutes each: five fit before 45 minutes are over, slow takes too long.
	if want := []string{"urgent", "long-failing", "failing", "new"}; !slices.Equal(got, want) {
		t.Errorf("ran %v, want %v", got, want)
	}
	if want := "A:failing:P=done/PASS A:long-failing:P=done/PASS A:new:P=done/PASS A:plain:P=left A:slow:P=left A:urgent:P=done/PASS"; states(r) != want {
		t.Errorf("states %s\nwant %s", states(r), want)
	}
	if s := r.Text(); !strings.Contains(s, "2 left over)") || !strings.Contains(s, "slow on A with P (its last run took 3h") {
		t.Error(s)
	}
}

func TestResume(t *testing.T) {
	b := newBed(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.answer = func(o run.Options, r *runfolder.Run) error {
		if o.Target == (history.Target{Tree: "A", Series: "S2", Plan: "P"}) {
			cancel() // the machine goes down
			return ctx.Err()
		}
		return nil
	}
	if _, err := b.nightly(bedConfig).Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	first := slices.Clone(b.runs)
	b.answer, b.runs = nil, nil
	b.clock = b.clock.Add(time.Hour)
	r, err := b.nightly(bedConfig).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !r.Resumed || r.Night.ID != "2026-12-01" {
		t.Errorf("night %+v", r.Night)
	}
	if want := "A:S1:P=done/PASS A:S2:P=done/PASS B:S1:P=done/PASS B:S2:P=done/PASS"; states(r) != want {
		t.Errorf("%s, want %s", states(r), want)
	}
	if len(first) != 2 || len(b.runs) != 3 {
		t.Errorf("first %v, then %v", first, b.runs)
	}
}

func TestLock(t *testing.T) {
	b := newBed(t)
	file := b.db.Path() + ".nightly.lock"
	l, err := lock(file, "other.yaml", b.clock)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.nightly(bedConfig).Run(t.Context())
	var be *BusyError
	if !errors.As(err, &be) || be.Who.PID != os.Getpid() || !strings.Contains(err.Error(), "other.yaml") || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("second instance: %v", err)
	}
	if ns, _ := b.db.Nights(t.Context(), "", 0); len(ns) != 0 {
		t.Errorf("the second instance has begun a night: %+v", ns)
	}
	l.Close()
	if r := b.night(bedConfig); r.Ran != 4 {
		t.Errorf("after the lock was given up: %s", states(r))
	}
}

func TestDisk(t *testing.T) {
	b := newBed(t)
	const config = "disk: {min_free: 1GiB, keep_days: 10, max_runs: 1GiB}\n" + bedConfig
	b.free = 1 << 20
	r := b.night(config)
	if len(b.runs) != 0 || !strings.Contains(states(r), "A:S1:P=disk-full") || !slices.Equal(b.clean, []int{30, 3, 3, 3, 3}) {
		t.Errorf("no room: %s, cleaned %v", states(r), b.clean)
	}
	b.free = 2 << 30
	b.night(config) // four runs
	old, _ := runfolder.List(filepath.Join(b.dir, "runs"))
	byHand := filepath.Join(b.dir, "runs", "20200101-000000-mine")
	if err := os.MkdirAll(byHand, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(byHand, "run.json"), []byte(`{"schema":1,"id":"20200101-000000-mine","started":"2020-01-01T00:00:00Z"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	b.tips["spec-a"] = Tip{"ida2", "aaa2", "7.3"}
	b.night(config)
	left := func() (n int) {
		for _, d := range old {
			if _, err := os.Stat(d); err == nil {
				n++
			}
		}
		return n
	}
	b.clock = b.clock.AddDate(0, 0, 11)
	b.night(config)
	// Of the four, the two on A are answered by newer runs.
	if left() != 2 {
		t.Errorf("%d of 4 old run folders are left, want those 2 that still answer", left())
	}
	if _, err := os.Stat(byHand); err != nil {
		t.Error("a run by hand was removed")
	}
	// A run that was cut off answers for nothing.
	cut := filepath.Join(b.dir, "runs", "20260101-000000-cut")
	if err := os.MkdirAll(cut, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cut, "run.json"), []byte(`{"schema":1,"id":"20260101-000000-cut","started":"2026-01-01T00:00:00Z","target":{"tree":"A"}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	b.night(config)
	if _, err := os.Stat(cut); err == nil {
		t.Error("a run that was cut off long ago is kept")
	}
}

type fakeForge struct {
	prs      []PullRequest
	err      error
	reported []string
}

func (f *fakeForge) PullRequests(_ context.Context, repo, label string) ([]PullRequest, error) {
	if repo != "o/r" || label != "nightly" {
		return nil, fmt.Errorf("asked for %s %s", repo, label)
	}
	return f.prs, f.err
}

func (f *fakeForge) Report(_ context.Context, pr PullRequest, r *runfolder.Run) error {
	f.reported = append(f.reported, fmt.Sprintf("%d %s", pr.Number, r.Verdict))
	return nil
}

func TestPullRequests(t *testing.T) {
	b := newBed(t)
	const config = "trees: [{name: A, from: spec-a}]\nseries: [{name: PR, github: {repo: o/r, label: nightly}}, {name: S1, from: one}]\nplans: [{name: P, plan: plan}]\npublish: {github: true}\n"
	if r := b.night(config); !strings.Contains(states(r), "A:PR:P=bad-input") || r.Ran != 1 {
		t.Errorf("without a token: %s", states(r))
	}
	b.forge = &fakeForge{err: errors.New("connection refused")}
	if r := b.night(config); !strings.Contains(states(r), "A:PR:P=fetch-failed") {
		t.Errorf("network down: %s", states(r))
	}
	b.forge.err = nil
	b.forge.prs = []PullRequest{{Repo: "o/r", Number: 7, Series: series("seven", "x")}, {Repo: "o/r", Number: 8, Err: errors.New("gone")}, {Repo: "o/r", Number: 9, Series: series("nine", "y")}}
	b.answer = func(o run.Options, r *runfolder.Run) error {
		if o.Target.Series == "PR#9" {
			r.Verdict, r.Cells = checks.Infra, nil
		}
		return nil
	}
	r := b.night(config)
	if want := "A:PR#7:P=done/PASS A:PR#8:P=fetch-failed A:PR#9:P=infra/INFRA A:S1:P=known/PASS"; states(r) != want {
		t.Errorf("%s, want %s", states(r), want)
	}
	if want := []string{"7 PASS"}; !slices.Equal(b.forge.reported, want) {
		t.Errorf("reported %v, want %v", b.forge.reported, want)
	}
}

func TestPublish(t *testing.T) {
	b := newBed(t)
	script := filepath.Join(b.dir, "hook")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n(echo $PATCHCHECK_NIGHT $PATCHCHECK_CHANGED $PATCHCHECK_WORSE; cat $PATCHCHECK_SUMMARY) >>said\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	config := bedConfig + "publish: {site: pages, command: [./hook]}\n"
	b.night(config)
	b.night(config)
	got, _ := os.ReadFile(filepath.Join(b.dir, "said"))
	if !strings.Contains(string(got), "2026-12-02 0 0\nnight 2026-12-02: nothing changed") || !strings.Contains(string(got), "2026-12-01 1 0\n") {
		t.Errorf("hook said %q", got)
	}
	if len(b.site) != 2 {
		t.Errorf("pages made in %v", b.site)
	}
	if r := b.night(bedConfig + "publish: {command: [./none]}\n"); len(r.Trouble) != 1 || !strings.Contains(r.Trouble[0], "publish.command failed") {
		t.Errorf("a hook that is not there: %v", r.Trouble)
	}
}

func TestAlone(t *testing.T) {
	b := newBed(t)
	const config = "trees: [{name: A, from: spec-a, alone: patched}]\nplans: [{name: P, plan: plan}]\n"
	b.answer = func(o run.Options, r *runfolder.Run) error {
		if o.Alone != testplans.RolePatched || o.Series != nil || o.Base != b.tips["spec-a"].Commit {
			t.Errorf("options of a tree alone: %q %v %q", o.Alone, o.Series, o.Base)
		}
		if b.tips["spec-a"].ID == "ida2" {
			fail(r, "3", "contents.differ", "x")
		}
		return nil
	}
	b.night(config)
	b.tips["spec-a"] = Tip{"ida2", "aaa2", "7.3"}
	r := b.night(config)
	if !r.Worse() || !strings.Contains(r.Text(), "A with P\n") || !strings.Contains(r.Text(), "patchcheck bisect") {
		t.Error(r.Text())
	}
}

func TestParseConfig(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"nothing":         {"{}\n", "name at least one of each"},
		"typing error":    {"tres: []\n", "tres"},
		"no series":       {"trees: [{name: A, from: x}]\nplans: [{name: P}]\n", "there is nothing to test"},
		"two trees":       {"trees: [{name: A, from: x}, {name: A, from: y, alone: base}]\nplans: [{name: P}]\n", `[1:36] two entries of trees are called "A"`},
		"no from":         {"trees: [{name: A, alone: base}]\nplans: [{name: P}]\n", `tree "A" has no from`},
		"bad role":        {"trees: [{name: A, from: x, alone: yes please}]\nplans: [{name: P}]\n", "is no kernel's role"},
		"two sources":     {"trees: [{name: A, from: x}]\nplans: [{name: P}]\nseries: [{name: S, from: a, range: b..c, repo: d}]\n", "needs one source"},
		"range alone":     {"trees: [{name: A, from: x}]\nplans: [{name: P}]\nseries: [{name: S, range: b..c}]\n", "needs its repository"},
		"no range":        {"trees: [{name: A, from: x}]\nplans: [{name: P}]\nseries: [{name: S, range: b, repo: d}]\n", "is no range"},
		"unknown tree":    {"trees: [{name: A, from: x}]\nplans: [{name: P}]\nseries: [{name: S, from: a, trees: [B]}]\n", `[3:37] there is no tree "B"; there are A`},
		"unknown plan":    {"trees: [{name: A, from: x}]\nplans: [{name: P}]\nseries: [{name: S, from: a, plans: [B]}]\n", `there is no plan "B"`},
		"no label":        {"trees: [{name: A, from: x}]\nplans: [{name: P}]\nseries: [{name: S, github: {repo: o/r}}]\n", "repo (OWNER/NAME) and label"},
		"bad duration":    {"budget: soon\ntrees: [{name: A, from: x, alone: base}]\nplans: [{name: P}]\n", "is no length of time"},
		"bad size":        {"disk: {min_free: much}\ntrees: [{name: A, from: x, alone: base}]\nplans: [{name: P}]\n", "is no size"},
		"bad accelerator": {"accel: fast\ntrees: [{name: A, from: x, alone: base}]\nplans: [{name: P}]\n", "none of auto, kvm, tcg"},
	} {
		_, err := ParseConfig("n.yaml", []byte(tc.in))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v; want %q", name, err, tc.want)
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "n.yaml")
	if err := os.WriteFile(file, []byte("runs: r\ntrees: [{name: A, from: ./linux}, {name: B, from: 'git+https://h/x.git#b'}, {name: C, from: nfsd-testing}]\nseries: [{name: S, from: mails}]\nplans: [{name: svcrdma-inline}, {name: own, plan: ./p.yaml}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := LoadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{c.Runs, c.Trees[0].From, c.Trees[1].From, c.Trees[2].From, c.Series[0].From, c.Plans[0].Plan, c.Plans[1].Plan}
	want := []string{dir + "/r", dir + "/linux", "git+https://h/x.git#b", "nfsd-testing", dir + "/mails", "svcrdma-inline", dir + "/p.yaml"}
	if !slices.Equal(got, want) {
		t.Errorf("paths %q, want %q", got, want)
	}
	if time.Duration(c.Deadline) != 4*time.Hour || c.Disk.KeepDays != 60 || c.Disk.CacheDays != 30 || c.Disk.MinFree != 5<<30 {
		t.Errorf("defaults: %+v", c)
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add(bedConfig)
	f.Add("budget: 6h\ndisk: {max_runs: 1GiB}\ntrees: [{name: A, from: x, alone: base}]\nplans: [{name: P}]\n")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseConfig("n.yaml", []byte(s))
		if err == nil && (len(c.Trees) == 0 || len(c.Plans) == 0) {
			t.Error("a configuration without trees or plans was accepted")
		}
	})
}
