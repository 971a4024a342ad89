// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/cache"
	"patchcheck/internal/kernel"
	"patchcheck/internal/runfolder"
	"patchcheck/internal/view"
	"patchcheck/testplans"
)

// smallPlan is a plan for the twenty-line tree of internal/kernel.
const smallPlan = `name: small
about: for tests of the run itself
kernel: {configs: [%s]}
guest: {cpus: 1, memory: 512MiB}
fabric: {proto: rdma, port: 20049, netdev: dummy0, address: 192.0.2.1/24, link: rxe0, type: rxe, module: rdma_rxe}
server: {export: /export, fs: tmpfs, size: 64MiB, threads: 2}
axes:
  device:
    - {name: none, label: {vendor: rxe}, params: {x: 0}, facts: {got: 0}}
  nfs: ["3"]
kernels: {patched: {}}
workload:
  - {name: direct, file: {size: 64KiB, write: 4KiB, read: [4KiB], direct: true}}
count:
  - {name: completions, event: rpcrdma/svcrdma_wc_send}
values:
  - {name: all, from: [completions]}
hold:
  - {id: some, that: all > 1, why: there is work}
table: {columns: [{head: all, value: all}]}
`

// smallSeries warns in its first patch and, by a header, in its second.
const smallSeries = `From 1111111111111111111111111111111111111111 Mon Sep 17 00:00:00 2001
From: Ann Author <ann@example.org>
Date: Mon, 2 Mar 2026 10:00:00 +0000
Subject: [PATCH 1/2] net: keep a number

It is needed by what comes next.

Signed-off-by: Ann Author <ann@example.org>
---
 net/b.c | 2 +-
 1 file changed, 1 insertion(+), 1 deletion(-)

diff --git a/net/b.c b/net/b.c
--- a/net/b.c
+++ b/net/b.c
@@ -1,3 +1,3 @@
 // SPDX-License-Identifier: GPL-2.0-only
 #include "shared.h"
-unsigned int b_limit(struct outer *o) { return o->in->limit; }
+unsigned int b_limit(struct outer *o) { int unused; return o->in->limit; }
-- 
2.47.0

From 2222222222222222222222222222222222222222 Mon Sep 17 00:00:00 2001
From: Ann Author <ann@example.org>
Date: Mon, 2 Mar 2026 10:00:01 +0000
Subject: [PATCH 2/2] net: add a file

It holds what comes next.

Signed-off-by: Ann Author <ann@example.org>
---
 net/d.c | 2 ++
 1 file changed, 2 insertions(+)
 create mode 100644 net/d.c

diff --git a/net/d.c b/net/d.c
new file mode 100644
--- /dev/null
+++ b/net/d.c
@@ -0,0 +1,2 @@
+// SPDX-License-Identifier: GPL-2.0-only
+int d_one;
-- 
2.47.0
`

// bed is a place for runs of the small series: a tree, a cache, run folders.
type bed struct {
	Dir     string
	Resume  string // run folder to go on with
	NoBwrap bool
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{Dir: t.TempDir(), NoBwrap: !kernel.FindSandbox(context.Background()).Enabled}
	if err := os.CopyFS(filepath.Join(b.Dir, "linux"), os.DirFS("../kernel/testdata/tree")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"small.config": "CONFIG_WANTED=y\n", "series.mbox": smallSeries,
		"plan.yaml": fmt.Sprintf(smallPlan, filepath.Join(b.Dir, "small.config"))} {
		if err := os.WriteFile(filepath.Join(b.Dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(b.Dir, "tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bed) options() Options {
	return Options{Sources: []string{filepath.Join(b.Dir, "series.mbox")}, Tree: filepath.Join(b.Dir, "linux"), Plan: filepath.Join(b.Dir, "plan.yaml"),
		CacheDir: filepath.Join(b.Dir, "cache"), RunsDir: filepath.Join(b.Dir, "runs"), Accel: "tcg", BuildOnly: true, Jobs: 2, NoSandbox: b.NoBwrap, Tool: "test"}
}

func (b *bed) run(ctx context.Context) (*runfolder.Run, error) {
	if b.Resume != "" {
		return Resume(ctx, Options{RunsDir: filepath.Join(b.Dir, "runs"), Tool: "test"}, b.Resume)
	}
	return Run(ctx, b.options())
}

// bedEnv makes the test binary a patchcheck that can be killed.
const bedEnv = "PATCHCHECK_TEST_BED"

func TestBedProcess(t *testing.T) {
	s := os.Getenv(bedEnv)
	if s == "" {
		t.Skip("only as a process of other tests")
	}
	var b bed
	if err := json.Unmarshal([]byte(s), &b); err != nil {
		t.Fatal(err)
	}
	if _, err := b.run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// start runs b in a process of its own.
func (b *bed) start(t *testing.T) *exec.Cmd {
	t.Helper()
	s, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestBedProcess$")
	cmd.Env = append(os.Environ(), bedEnv+"="+string(s), "TMPDIR="+filepath.Join(b.Dir, "tmp"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// outcome is what must not depend on whether a run was disturbed.
type outcome struct {
	Verdict  checks.Verdict
	Reason   string
	Findings []string
	Apply    []runfolder.Apply
	NotRun   []string
	New      []int
	Kernels  map[string]string // images by role
}

func outcomeOf(r *runfolder.Run) outcome {
	o := outcome{Verdict: r.Verdict, Reason: r.Reason, Apply: r.Apply, NotRun: r.NotRun, Kernels: map[string]string{}}
	for _, f := range r.Findings {
		o.Findings = append(o.Findings, fmt.Sprintf("%s %v %s", f.ID, f.Where, f.Message))
	}
	for _, b := range r.Builds {
		o.New = append(o.New, b.New)
	}
	for role, k := range r.Kernels {
		o.Kernels[role] = k.Image
	}
	return o
}

// killSeed is random unless a test is to be repeated: PATCHCHECK_TEST_SEED.
func killSeed(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("PATCHCHECK_TEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d (PATCHCHECK_TEST_SEED=%d repeats it)", seed, seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// dropped waits until the locks of a killed process are gone. A child that it
// was just starting has a copy of them until it executes its program.
func dropped(t *testing.T, runs string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		dirs, err := runfolder.List(runs)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(dirs, runfolder.Working) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the lock of one of %v outlived its holder by a minute", dirs)
		}
	}
}

// TestKillAnywhere kills runs of a small series with SIGKILL at random points
// of lint, apply and the builds, also while they are resumed. In the end each
// says what an undisturbed one says, and nothing is left over.
func TestKillAnywhere(t *testing.T) {
	rnd := killSeed(t)
	calm := newBed(t)
	begin := time.Now()
	if err := calm.start(t).Wait(); err != nil {
		t.Fatal(err)
	}
	whole := time.Since(begin)
	dirs, err := runfolder.List(filepath.Join(calm.Dir, "runs"))
	if err != nil || len(dirs) != 1 {
		t.Fatal(dirs, err)
	}
	ref, err := runfolder.Open(dirs[0])
	if err != nil {
		t.Fatal(err)
	}
	want := outcomeOf(ref)
	if want.Verdict != checks.Fail || !slices.ContainsFunc(want.Findings, func(s string) bool { return strings.Contains(s, "unused") }) {
		t.Fatalf("the undisturbed run: %+v", want)
	}
	points := 6
	if s := os.Getenv("PATCHCHECK_TEST_POINTS"); s != "" {
		if points, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	for i := range points {
		b := newBed(t)
		kills := 1 + rnd.IntN(3)
		for n := range kills {
			cmd := b.start(t)
			// The first kills are spread over the whole of a run; those of a resumed
			// run, which is shorter, come anywhere.
			at := time.Duration((float64(i) + rnd.Float64()) / float64(points) * float64(whole))
			if n > 0 {
				at = time.Duration(rnd.Float64() * float64(whole) * 2 / 3)
			}
			time.Sleep(at)
			cmd.Process.Kill()
			cmd.Wait()
			dropped(t, filepath.Join(b.Dir, "runs"))
			b.Resume = ""
			if d, err := FindUnfinished(filepath.Join(b.Dir, "runs")); err == nil {
				b.Resume = d
			}
		}
		if b.Resume == "" {
			// Killed before there was a record, or after the verdict.
			if dirs, _ := runfolder.List(filepath.Join(b.Dir, "runs")); len(dirs) > 0 {
				r, err := runfolder.Open(dirs[0])
				if err != nil || !r.Finished() {
					t.Errorf("point %d: a run that is neither finished nor to be resumed: %v", i, err)
				} else if got := outcomeOf(r); !reflect.DeepEqual(got, want) {
					t.Errorf("point %d: finished with\n%+v\nwant\n%+v", i, got, want)
				}
				continue
			}
		}
		r, err := b.run(context.Background())
		if err != nil {
			t.Errorf("point %d: %v", i, err)
			continue
		}
		if got := outcomeOf(r); !reflect.DeepEqual(got, want) {
			t.Errorf("point %d: got\n%+v\nwant\n%+v", i, got, want)
		}
		cache.SweepTemp(filepath.Join(b.Dir, "tmp"), tempPrefix) // what the next run does first
		// A folder without a record is removed by the first run that comes a
		// minute later: it might be in the making.
		dirs, _ := filepath.Glob(filepath.Join(b.Dir, "runs", "*"))
		for _, d := range dirs {
			old := time.Now().Add(-2 * time.Minute)
			os.Chtimes(d, old, old)
		}
		runfolder.Sweep(filepath.Join(b.Dir, "runs"))
		for _, pattern := range []string{"tmp/*", "cache/*/.tmp-*", "cache/.new-*", "cache/*/.new-*", "runs/*/.new-*", "runs/*/*/.new-*"} {
			if left, _ := filepath.Glob(filepath.Join(b.Dir, pattern)); len(left) > 0 {
				t.Errorf("point %d: left over: %v", i, left)
			}
		}
	}
}

// resumed runs b until the context of the first process ends it, changes
// something, and goes on.
func resumed(t *testing.T, b *bed, change func(r *runfolder.Run)) (*runfolder.Run, string, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	o := b.options()
	// Interrupted as soon as the builds begin.
	o.View = view.New(writerFunc(func(p []byte) (int, error) {
		if strings.HasPrefix(string(p), "apply") {
			cancel()
		}
		return len(p), nil
	}))
	r, err := Run(ctx, o)
	if !errors.Is(err, context.Canceled) || r == nil || r.Finished() {
		t.Fatalf("not interrupted: %v", err)
	}
	change(r)
	var said strings.Builder
	got, err := Resume(context.Background(), Options{RunsDir: o.RunsDir, Tool: "test", View: view.New(&said)}, r.Dir())
	return got, said.String(), err
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestResumeSaysWhatChanged(t *testing.T) {
	edit := func(t *testing.T, path string, change func(string) string) {
		t.Helper()
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, []byte(change(string(b))), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		change func(t *testing.T, b *bed, r *runfolder.Run)
		err    string // part of the error; "" wants a verdict
		said   string // part of what is shown
		lint   view.Status
	}{
		{name: "nothing", change: func(*testing.T, *bed, *runfolder.Run) {}, said: "going on with run", lint: view.Reused},
		{name: "the sources are gone", change: func(t *testing.T, b *bed, r *runfolder.Run) {
			os.Remove(filepath.Join(b.Dir, "series.mbox"))
			os.Remove(filepath.Join(b.Dir, "plan.yaml"))
		}, said: "going on with run", lint: view.Reused},
		{name: "the tree", change: func(t *testing.T, b *bed, r *runfolder.Run) {
			edit(t, filepath.Join(b.Dir, "linux/net/a.c"), func(s string) string { return s + "int more;\n" })
		}, said: "is not what it was when the run began", lint: view.OK},
		{name: "the version", change: func(t *testing.T, b *bed, r *runfolder.Run) {
			edit(t, r.Path(inputsName), func(s string) string { return strings.Replace(s, `"tool": "test"`, `"tool": "old"`, 1) })
		}, said: "begun by patchcheck old and this is test", lint: view.OK},
		{name: "the answers' version", change: func(t *testing.T, b *bed, r *runfolder.Run) {
			edit(t, r.Path(inputsName), func(s string) string {
				return strings.Replace(s, fmt.Sprintf(`"answers": %d`, answerVersion), `"answers": 1`, 1)
			})
		}, said: "lint and cells are done again", lint: view.OK},
		{name: "the configuration", change: func(t *testing.T, b *bed, r *runfolder.Run) {
			edit(t, filepath.Join(b.Dir, "small.config"), func(s string) string { return s + "CONFIG_OTHER=y\n" })
		}, said: "a configuration fragment of the plan was changed", lint: view.OK},
		{name: "the series in the run folder", change: func(t *testing.T, b *bed, r *runfolder.Run) {
			edit(t, r.Path("series", inputName(0)), func(s string) string { return strings.Replace(s, "int unused", "int wanted", 1) })
		}, err: "reads differently now"},
		{name: "no inputs", change: func(t *testing.T, b *bed, r *runfolder.Run) { os.Remove(r.Path(inputsName)) }, err: "does not hold its inputs"},
		{name: "damaged inputs", change: func(t *testing.T, b *bed, r *runfolder.Run) { os.Truncate(r.Path(inputsName), 20) }, err: "its inputs cannot be read"},
		{name: "damaged record", change: func(t *testing.T, b *bed, r *runfolder.Run) { os.Truncate(r.Path("run.json"), 20) }, err: "run.json is damaged"},
		{name: "a newer record", change: func(t *testing.T, b *bed, r *runfolder.Run) {
			edit(t, r.Path("run.json"), func(s string) string { return strings.Replace(s, `"schema": 1`, `"schema": 99`, 1) })
		}, err: "newer patchcheck"},
		{name: "finished", change: func(t *testing.T, b *bed, r *runfolder.Run) {
			edit(t, r.Path("run.json"), func(s string) string { return strings.Replace(s, `"verdict": ""`, `"verdict": "PASS"`, 1) })
		}, err: "it is finished, its verdict is PASS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			r, said, err := resumed(t, b, func(r *runfolder.Run) { c.change(t, b, r) })
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || !IsInput(err) {
					t.Fatalf("err = %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict != checks.Fail && c.name != "the configuration" {
				t.Errorf("verdict %s: %s", r.Verdict, r.Reason)
			}
			if !strings.Contains(said, c.said) {
				t.Errorf("said\n%s\nwant %q", said, c.said)
			}
			for _, s := range r.Steps {
				if s.Name == "lint" && s.Status != string(c.lint) {
					t.Errorf("lint was %s, want %s", s.Status, c.lint)
				}
			}
			if len(r.Resumed) != 1 || (len(r.Resumed[0].Notes) > 0) != (c.lint == view.OK) {
				t.Errorf("resumed: %+v", r.Resumed)
			}
		})
	}
}

func TestResumeOfARunAtWork(t *testing.T) {
	rec, err := runfolder.Create(t.TempDir(), time.Now(), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	if err := rec.Save(); err != nil {
		t.Fatal(err)
	}
	_, err = Resume(context.Background(), Options{}, rec.Dir())
	if err == nil || !strings.Contains(err.Error(), "in use by another patchcheck") || !strings.Contains(err.Error(), fmt.Sprintf("process id %d (since ", os.Getpid())) {
		t.Errorf("err = %v", err)
	}
	rec.WriteFile([]byte("{}"), inputsName)
	if _, err := FindUnfinished(filepath.Dir(rec.Dir())); err == nil || !strings.Contains(err.Error(), rec.ID+", which another process is working on") {
		t.Errorf("err = %v", err)
	}
}

// What is taken over must leave the verdict as it would have been.
func TestCarry(t *testing.T) {
	p, err := testplans.Load("svcrdma-inline")
	if err != nil {
		t.Fatal(err)
	}
	all := p.Cells()
	var base, patched []testplans.Cell
	keys := map[string]string{}
	for _, c := range all {
		keys[c.ID()] = "key of " + c.ID()
		if c.Kernel == testplans.RoleBase {
			base = append(base, c)
		} else {
			patched = append(patched, c)
		}
	}
	if len(base) < 2 || len(patched) < 2*growthCells || place(patched[0]) != place(base[0]) {
		t.Fatal("the bundled plan is not what this test was made for")
	}
	cell := func(c testplans.Cell, nth int, edits ...func(*runfolder.Cell)) *runfolder.Cell {
		x := &runfolder.Cell{ID: c.ID(), Key: keys[c.ID()], Verdict: checks.Pass, Attempts: []runfolder.Attempt{{Guest: "02-patched", Nth: nth, Token: "done", Verdict: checks.Pass, SUnreclaim: int64(nth)}}}
		for _, e := range edits {
			e(x)
		}
		return x
	}
	final := func(x *runfolder.Cell) { x.Final = true }
	fail := func(x *runfolder.Cell) { x.Verdict, x.Attempts[0].Token = checks.Fail, "" }
	leak := func(x *runfolder.Cell) { x.Attempts[0].SUnreclaim *= 10000 }
	first := func(n int, edits ...func(*runfolder.Cell)) []*runfolder.Cell {
		var out []*runfolder.Cell
		for i, c := range patched[:n] {
			out = append(out, cell(c, i+1, edits...))
		}
		return out
	}
	bases := func(edits ...func(*runfolder.Cell)) []*runfolder.Cell {
		var out []*runfolder.Cell
		for i, c := range base {
			out = append(out, cell(c, i+1, edits...))
		}
		return out
	}
	join := func(xs ...[]*runfolder.Cell) []*runfolder.Cell { return slices.Concat(xs...) }
	n := len(patched)
	debug, err := p.WithDebug()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name        string
		plan        *testplans.Plan
		cells       []*runfolder.Cell
		pass        int
		final, kept int
	}{
		{name: "nothing", plan: p},
		{name: "base is done", plan: p, cells: bases(final), final: len(base)},
		{name: "base is not final", plan: p, cells: bases()},
		{name: "one of base is missing", plan: p, cells: bases(final)[:1]},
		{name: "the first cells", plan: p, cells: first(6), kept: 6},
		{name: "too few for growth are kept, enough are left", plan: p, cells: first(3), kept: 3},
		{name: "not all that are compared with base", plan: p, cells: first(1)},
		{name: "all but the end of the guest", plan: p, cells: first(n), kept: n - 1},
		{name: "all final", plan: p, cells: first(n, final), final: n},
		{name: "all final, one failed", plan: p, cells: append(first(n-1, final), cell(patched[n-1], n, final, fail)), final: n - 1},
		{name: "one failed, not all final", plan: p, cells: append(first(6), cell(patched[6], 7, fail), cell(patched[7], 1)), kept: 6},
		{name: "memory grows", plan: p, cells: first(8, leak)},
		{name: "another key", plan: p, cells: first(6, func(x *runfolder.Cell) { x.Key = "other" })},
		{name: "no token", plan: p, cells: first(6, func(x *runfolder.Cell) { x.Attempts[0].Token = "" })},
		{name: "an earlier pass", plan: p, cells: first(n, final), pass: 1},
		{name: "debug kernel", plan: debug, cells: first(6)},
		{name: "debug kernel, all final", plan: debug, cells: join(bases(final), first(n, final)), final: len(base) + n},
	} {
		t.Run(c.name, func(t *testing.T) {
			prior := map[string]*runfolder.Cell{}
			for _, x := range c.cells {
				prior[x.ID] = x
			}
			fin, kept := carry(c.plan, prior, keys, c.pass)
			if len(fin) != c.final || len(kept) != c.kept {
				t.Errorf("final %d %v, kept %d %v; want %d, %d", len(fin), slices.Sorted(maps.Keys(fin)), len(kept), slices.Sorted(maps.Keys(kept)), c.final, c.kept)
			}
		})
	}
}

func TestAfterFailure(t *testing.T) {
	for _, c := range []struct {
		name     string
		old, now checks.Verdict
		want     checks.Verdict
	}{
		{"failed, passes now", checks.Fail, checks.Pass, checks.Unstable},
		{"unstable, passes now", checks.Unstable, checks.Pass, checks.Unstable},
		{"the base failed, too", checks.BaseFails, checks.Pass, checks.Unstable},
		{"fails again", checks.Fail, checks.Fail, checks.Fail},
		{"infrastructure", checks.Infra, checks.Pass, checks.Pass},
		{"passed", checks.Pass, checks.Pass, checks.Pass},
	} {
		old := &runfolder.Cell{Key: "k", Verdict: c.old, Final: true, Reason: "why", Attempts: []runfolder.Attempt{{Guest: "1"}}}
		now := &runfolder.Cell{Key: "k", Verdict: c.now, Attempts: []runfolder.Attempt{{Guest: "2"}}}
		afterFailure(old, now)
		if now.Verdict != c.want {
			t.Errorf("%s: %s, want %s", c.name, now.Verdict, c.want)
		}
		if c.want == checks.Unstable && (len(now.Attempts) != 2 || !strings.Contains(now.Reason, "why")) {
			t.Errorf("%s: the failure is not on record: %+v", c.name, now)
		}
	}
}
