// SPDX-License-Identifier: Apache-2.0

//go:build integration

package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/checks/stats"
	measure "patchcheck/internal/bench"
	"patchcheck/internal/runfolder"
	"patchcheck/patches"
)

// benchPlan writes a bundled plan with edits applied. The companions are those
// of the plan that the other tests run, whose kernels are in the cache.
func benchPlan(t *testing.T, name string, edits ...string) string {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("../../testplans", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s := string(src)
	for i := 0; i < len(edits); i += 2 {
		n := strings.Replace(s, edits[i], edits[i+1], 1)
		if n == s {
			t.Fatalf("the plan has no %q", edits[i])
		}
		s = n
	}
	path := filepath.Join(t.TempDir(), name+".yaml")
	if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// follower logs an experiment.
type follower struct{ t *testing.T }

func (f follower) Booting(p measure.Place, n, planned int) {
	f.t.Logf("boot %d of %d: %s", n, planned, p.Arm)
}
func (f follower) Booted(b measure.Boot) {
	f.t.Logf("  %v, noise %+v %v %s", b.Elapsed.Round(time.Second), b.Noise, b.Noisy, b.Rejected)
}
func (f follower) Looked(l measure.Look) { f.t.Logf("  look: %v %s", l, l.Stop) }

// conduct measures and analyses.
func conduct(t *testing.T, o Options, mo MeasureOptions, design func(*measure.Design)) (*measure.Experiment, *measure.Analysis) {
	t.Helper()
	ctx := context.Background()
	e, err := NewExperiment(ctx, o, mo)
	if err != nil {
		t.Fatal(err)
	}
	rec := e.Record()
	d := rec.Design
	// Tests share their host with whatever runs on it; repeating would only
	// take longer.
	d.Noise = measure.NoiseLimits{Others: 1, Steal: 1, QEMUs: 100}
	if design != nil {
		design(&d)
	}
	if err := rec.Prepare(e.Folder(), d); err != nil {
		t.Fatal(err)
	}
	err = measure.Conduct(ctx, rec, e, follower{t})
	if eerr := e.End(ctx, err); err != nil || eerr != nil {
		t.Fatal(err, eerr)
	}
	got, err := measure.Open(e.Folder())
	if err != nil {
		t.Fatal(err)
	}
	an, err := measure.Analyse(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range an.Contrasts {
		for _, r := range p.Rows {
			t.Logf("%s: %s %s -> %s: %.6g %.6g %s [%.4g %.4g] %s %s", r.Outcome, r.Name, p.Base, p.Patched, r.Mean.Base, r.Mean.Patched, r.Unit, r.Mean.Lo, r.Mean.Hi, r.NA, strings.Join(r.Warnings, "; "))
		}
	}
	return got, an
}

func row(t *testing.T, a *measure.Analysis, name string) measure.Row {
	t.Helper()
	for _, r := range a.Contrasts[0].Rows {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("no metric %q", name)
	return measure.Row{}
}

// TestBenchEndToEnd makes two boots of two arms and reads the record back.
func TestBenchEndToEnd(t *testing.T) {
	o := options(t)
	o.Plan = benchPlan(t, "nfs-latency", "companions: [rxe-device]", "companions: [rxe-device, xprtrdma-inline]", "  with: [xprtrdma-inline]     # the third arm: the client posts small Calls inline, too\n", "",
		"number_ios=2000", "number_ios=200", "number_ios=500", "number_ios=100", "runs: 3", "runs: 2", "boots: 5", "boots: 2")
	e, a := conduct(t, o, MeasureOptions{}, nil)
	if len(e.Boots) != 4 || len(e.Arms) != 2 || e.Arms[0].Key == e.Arms[1].Key || len(e.Arms[1].Patches) != 2 {
		t.Errorf("%d boots, arms %+v", len(e.Boots), e.Arms)
	}
	if !strings.HasPrefix(e.Versions["fio"], "fio-") || !strings.Contains(e.Mount, "proto=rdma") || e.Accel.Name == "" || e.Hosts[0].CPU == "" {
		t.Errorf("versions %v, mount %q, accelerator %+v, hosts %+v", e.Versions, e.Mount, e.Accel, e.Hosts)
	}
	for _, b := range e.Boots {
		if b.Rejected != "" || len(b.Runs) != 6 || b.Guest == "" {
			t.Errorf("boot %d: %q, %d runs in guest %q", b.Index, b.Rejected, len(b.Runs), b.Guest)
		}
		for _, r := range b.Runs {
			if _, err := os.Stat(filepath.Join(e.Dir(), r.Fio)); err != nil || r.Fio == "" || r.Invalid != "" {
				t.Errorf("boot %d, %s: raw output %q (%v), invalid %q", b.Index, r.Job, r.Fio, err, r.Invalid)
			}
		}
	}
	// Each WRITE is one RPC with one Reply, and the series posts it inline.
	inline := row(t, a, "counted/Sends inline per RPC")
	if inline.Values[0][0] != 0 || inline.Values[1][0] < 0.9 {
		t.Errorf("Sends inline per RPC: %v", inline.Values)
	}
	// No RPC that the clock brings is among those counted.
	for _, name := range []string{"counted/Sends inline per RPC", "counted/Sends by reference per RPC"} {
		if r := row(t, a, name); r.Varies || r.Outcome == stats.TooFew {
			t.Errorf("%s is not the same in each run of one kernel: %v, %v", name, r.Values, r.Warnings)
		}
	}
	if w := row(t, a, "randwrite-qd1/write clat mean"); w.Mean.Base <= 0 || w.Mean.Patched <= 0 {
		t.Errorf("write clat mean: %+v", w.Mean)
	}
	r, err := runfolder.Open(e.Dir())
	if err != nil || r.Verdict != checks.Pass || r.Kernels[measure.Patched].Key != e.Arms[1].Key {
		t.Errorf("run folder: %v, %+v", err, r)
	}
}

// slowReply is a series whose kernel waits before each Reply.
func slowReply(t *testing.T, us int) *patches.Series {
	t.Helper()
	b, err := os.ReadFile("../../testdata/bench/slow-reply.patch")
	if err != nil {
		t.Fatal(err)
	}
	const at = "SVC_RDMA_REPLY_DELAY_US	50\n"
	text := strings.Replace(string(b), at, strings.Replace(at, "50", strconv.Itoa(us), 1), 1)
	if us != 50 && text == string(b) {
		t.Fatalf("the patch no longer has %q", at)
	}
	s, err := patches.Load(context.Background(), []string{"-"}, patches.LoadOptions{Stdin: strings.NewReader(text)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestBenchSlowReply finds a delay of a known size, given in microseconds by
// PATCHCHECK_DELAY, when the power statement says that it can.
func TestBenchSlowReply(t *testing.T) {
	v := os.Getenv("PATCHCHECK_DELAY")
	if v == "" {
		t.Skip("set PATCHCHECK_DELAY to the delay in microseconds; it takes some minutes")
	}
	us, err := strconv.Atoi(v)
	if err != nil {
		t.Fatal(err)
	}
	o := options(t)
	o.Series = slowReply(t, us)
	o.Plan = benchPlan(t, "nfs-latency", "  with: [xprtrdma-inline]     # the third arm: the client posts small Calls inline, too\n", "")
	_, a := conduct(t, o, MeasureOptions{}, nil)
	w := row(t, a, "randwrite-qd1/write clat mean")
	seen := "nothing"
	if w.Seen != nil {
		seen = fmt.Sprintf("%.1f us", *w.Seen/1e3)
	}
	t.Logf("delay %d us: found %.1f us [%.1f, %.1f], %s; would have seen %s", us, w.Mean.Diff/1e3, w.Mean.Lo/1e3, w.Mean.Hi/1e3, w.Outcome, seen)
	if w.Seen != nil && float64(us)*1e3 > *w.Seen && w.Outcome != stats.Worse {
		t.Errorf("a delay of %d us was to be seen and was not: %s", us, w.Outcome)
	}
}

// TestBenchAA measures the base kernel against itself, PATCHCHECK_AA times: no
// difference may be claimed.
func TestBenchAA(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("PATCHCHECK_AA"))
	if n == 0 {
		t.Skip("set PATCHCHECK_AA to the number of experiments; each takes some minutes (make bench-aa)")
	}
	for i := range n {
		o := options(t)
		o.Plan = "nfs-latency"
		_, a := conduct(t, o, MeasureOptions{AA: true}, nil)
		for _, r := range a.Contrasts[0].Rows {
			if r.Outcome.Claims() {
				t.Errorf("experiment %d of %d claims a difference of a kernel from itself: %s is %s", i+1, n, r.Name, r.Outcome)
			}
		}
	}
}
