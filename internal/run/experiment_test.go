// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	measure "patchcheck/internal/bench"
	"patchcheck/internal/guestproto"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

func hits(n int64, keys map[string]string) guestproto.Hist {
	return guestproto.Hist{Hits: n, Entries: 1, Rows: []guestproto.HistRow{{Keys: keys, Hits: n}}}
}

// rows makes a histogram of one key, value by value.
func rows(key string, pairs ...int64) guestproto.Hist {
	var h guestproto.Hist
	for i := 0; i < len(pairs); i += 2 {
		h.Rows = append(h.Rows, guestproto.HistRow{Keys: map[string]string{key: fmt.Sprint(pairs[i]), "procname": "WRITE", "procedure": "WRITE"}, Hits: pairs[i+1]})
		h.Hits += pairs[i+1]
		h.Entries++
	}
	return h
}

// benchHists are counts of 1000 RPCs as the bundled plans want them.
func benchHists() map[string]guestproto.Hist {
	return map[string]guestproto.Hist{
		"enqueued": hits(5000, nil), "dequeued": hits(4000, nil), "processed": hits(1000, nil),
		"received": rows("ret", 0, 3000, 4212, 1000), "sends": rows("flags", 10, 900, 2, 100),
		"client_latency": rows("rtt", 500, 600, 520, 400), "server_latency": rows("execute", 74, 1000),
	}
}

const fioDocument = `{"fio version":"fio-3.33","jobs":[{"jobname":"randwrite","error":0,"write":{"io_bytes":8192000,"total_ios":2000,"runtime":1800,"clat_ns":{"min":1,"max":9,"mean":5,"N":2000}}}]}`

// benchGuest answers the verbs of a measurement.
func benchGuest() *fakeGuest {
	n := 0
	sample := func() *guestproto.Sample {
		n++
		k := int64(n)
		return &guestproto.Sample{MonotonicNS: k * 2e9, CPU: map[string]int64{"user": k * 1e8, "system": k * 3e8, "idle": k * 5e9},
			Tasks: map[string]int64{"nfsd": k * 2e8}, Xprt: map[string]int64{"sends": k * 2001},
			Ops: map[string]guestproto.OpSample{"WRITE": {Op: guestproto.Op{Ops: k * 2000, Sent: k*2000 + k/2}, RTTMS: k * 1100}, "GETATTR": {Op: guestproto.Op{Ops: k, Sent: k}}}}
	}
	return &fakeGuest{over: map[string]func(any) (any, error){
		guestproto.VerbFio: func(req any) (any, error) {
			return guestproto.FioResult{Output: fioDocument, Version: "fio-3.33", ElapsedUS: 1900000, Before: sample(), After: sample()}, nil
		},
		guestproto.VerbSample: func(any) (any, error) { return sample(), nil },
		guestproto.VerbFiles: func(req any) (any, error) {
			f := req.(guestproto.Files)
			return guestproto.FilesResult{Count: f.Count, Bytes: 1000, SHA256: "x", Want: "x", ElapsedUS: 2_000_000}, nil
		},
		guestproto.VerbTraceRead: func(any) (any, error) { return guestproto.TraceResult{Hists: benchHists()}, nil },
	}}
}

func testExperiment(t *testing.T, plan string) (*Experiment, *session, *fakeGuest, testplans.Cell) {
	t.Helper()
	p, err := testplans.Load(plan)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := runfolder.Create(t.TempDir(), time.Now(), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rec.Close() })
	e := &Experiment{r: &runner{plan: p, rec: rec}, m: &matrix{run: rec, plan: p}, record: &measure.Experiment{Jobs: Jobs(p), Versions: map[string]string{},
		Arms: []measure.Arm{{Name: measure.Base}, {Name: measure.Patched}}}}
	if err := e.record.Prepare("", measure.Design{Boots: p.Measure.Boots, Runs: p.Measure.Runs, Warmup: p.Measure.Warmup}); err != nil {
		t.Fatal(err)
	}
	g := benchGuest()
	return e, &session{b: &bench{g: g, plan: p, guest: "01-base"}}, g, p.Measure.Cell(p, testplans.RoleBase)
}

func TestExperimentBoot(t *testing.T) {
	for _, plan := range measuring() {
		e, s, g, c := testExperiment(t, plan)
		var mount guestproto.Mount
		g.over[guestproto.VerbMount] = func(req any) (any, error) {
			mount = req.(guestproto.Mount)
			return answer(guestproto.VerbMount, req), nil
		}
		var b measure.Boot
		if err := e.work(context.Background(), s, &guestKernel{}, c, &runfolder.Attempt{}, &b); err != nil {
			t.Fatalf("%s: %v", plan, err)
		}
		// A GETATTR that is due to the clock would be among what is counted.
		if !slices.Contains(mount.Options, attributesKept) {
			t.Errorf("%s: attributes expire while jobs run: mount options %q", plan, mount.Options)
		}
		m := e.r.plan.Measure
		if want := (m.Warmup + m.Runs) * len(m.Jobs); len(b.Runs) != want {
			t.Errorf("%s: %d runs, want %d", plan, len(b.Runs), want)
		}
		for i, r := range b.Runs {
			if r.Warmup != (i < m.Warmup*len(m.Jobs)) || r.Job != m.Jobs[i%len(m.Jobs)].Name {
				t.Errorf("%s: run %d is %+v", plan, i, r)
			}
			for name, x := range r.Metrics {
				if x.Invalid != "" && x.Invalid != "percent" && !strings.Contains(name, "READ") {
					t.Errorf("%s: job %s: %s: %s", plan, r.Job, name, x.Invalid)
				}
			}
		}
		// A probe must not be there while a time is measured.
		if n := slices.Index(g.sent, guestproto.VerbTrace); n >= 0 {
			open := false
			for _, v := range g.sent {
				switch v {
				case guestproto.VerbTrace:
					open = true
				case guestproto.VerbTraceOff:
					open = false
				}
			}
			if open {
				t.Errorf("%s: probes are left behind", plan)
			}
		}
		if last := g.sent[len(g.sent)-1]; last != guestproto.VerbLinkDel {
			t.Errorf("%s: the last step is %s", plan, last)
		}
	}
}

func TestExperimentMetrics(t *testing.T) {
	e, s, g, c := testExperiment(t, "nfs-latency")
	run := func() (timed, counted measure.Run) {
		t.Helper()
		var b measure.Boot
		if err := e.work(context.Background(), s, &guestKernel{}, c, &runfolder.Attempt{}, &b); err != nil {
			t.Fatal(err)
		}
		n := len(b.Runs)
		return b.Runs[n-2], b.Runs[n-1]
	}
	timed, counted := run()
	for _, x := range []struct {
		r    measure.Run
		name string
		want float64
		unit string
	}{
		{timed, "CPU per RPC", 4e8 / 2001.0, "ns"},
		{timed, "WRITE round trip mean", 1100e6 / 2000.0, "ns"},
		{counted, "enqueues per RPC", 5, ""},
		{counted, "empty dequeues", 75, "%"},
		{counted, "Sends inline per RPC", 0.9, ""},
	} {
		m, ok := x.r.Metrics[x.name]
		if !ok || m.Invalid != "" || math.Abs(m.Value-x.want) > 1e-9*math.Abs(x.want) || m.Unit != x.unit {
			t.Errorf("%s: %+v (%v), want %v %s", x.name, m, ok, x.want, x.unit)
		}
	}
	if _, ok := timed.Metrics["enqueues per RPC"]; ok {
		t.Error("a job without probes has counts")
	}
	if _, ok := counted.Metrics["CPU per RPC"]; ok {
		t.Error("the CPU time of a job with probes is compared")
	}
	h := counted.Hists["WRITE round trip"]
	if h.N() != 1000 || h.Unit != "ns" || h.Bins[0].Lo != 500e3 || h.Bins[0].Hi != 501e3 {
		t.Errorf("WRITE round trip: %+v", h)
	}
	if string(timed.Raw) != fioDocument || timed.Elapsed <= 0 {
		t.Errorf("raw output %q, elapsed %v", timed.Raw, timed.Elapsed)
	}

	// Lost events are no number.
	for what, spoil := range map[string]func(h *guestproto.Hist){
		"dropped": func(h *guestproto.Hist) { h.Dropped = 3 },
		"missed":  func(h *guestproto.Hist) { h.Missed = 3 },
		"short":   func(h *guestproto.Hist) { h.Hits += 3 },
	} {
		g.over[guestproto.VerbTraceRead] = func(any) (any, error) {
			hs := benchHists()
			h := hs["received"]
			spoil(&h)
			hs["received"] = h
			return guestproto.TraceResult{Hists: hs}, nil
		}
		_, counted := run()
		for _, name := range []string{"enqueues per RPC", "empty dequeues"} {
			if m := counted.Metrics[name]; m.Invalid == "" || m.Value != 0 || !strings.HasPrefix(m.Invalid, "LOST") {
				t.Errorf("%s events: %s is %+v", what, name, m)
			}
		}
		if len(counted.Hists) != 0 {
			t.Errorf("%s events: there are distributions", what)
		}
	}

	// Nothing counted is no number either.
	g.over[guestproto.VerbTraceRead] = func(any) (any, error) {
		hs := benchHists()
		for k := range hs {
			hs[k] = guestproto.Hist{}
		}
		return guestproto.TraceResult{Hists: hs}, nil
	}
	if _, counted := run(); counted.Metrics["enqueues per RPC"].Invalid == "" {
		t.Errorf("0 of 0: %+v", counted.Metrics["enqueues per RPC"])
	}
}

// What goes wrong in a job is the kernel's fault or ours, and says so.
func TestExperimentFailures(t *testing.T) {
	failing := func(errno int) string {
		return strings.Replace(fioDocument, `"error":0`, fmt.Sprintf(`"error":%d`, errno), 1)
	}
	for _, x := range []struct {
		name    string
		verb    string
		answer  func(any) (any, error)
		verdict checks.Verdict
		want    string
	}{
		{"I/O error", guestproto.VerbFio, func(any) (any, error) { return guestproto.FioResult{Output: failing(5), Exit: 1}, nil }, checks.Fail, "EIO"},
		{"full", guestproto.VerbFio, func(any) (any, error) { return guestproto.FioResult{Output: failing(28), Exit: 1}, nil }, checks.Infra, "ENOSPC"},
		{"alignment", guestproto.VerbFio, func(any) (any, error) { return guestproto.FioResult{Output: failing(22), Exit: 1}, nil }, checks.Infra, "EINVAL"},
		{"bad job", guestproto.VerbFio, func(any) (any, error) {
			return guestproto.FioResult{Stderr: "fio: engine libfoo not loadable\nmore", Exit: 1}, nil
		}, checks.Infra, "engine libfoo"},
		{"no fio", guestproto.VerbFio, fails(&guestproto.Error{Class: guestproto.ClassSetup, Message: "the guest has no fio"}), checks.Infra, "no fio"},
		{"mount fails", guestproto.VerbMount, fails(&guestproto.Error{Class: guestproto.ClassKernel, Message: "cannot mount", Errno: "EIO"}), checks.Fail, "cannot mount"},
		{"wrong transport", guestproto.VerbMount, func(any) (any, error) {
			return guestproto.Mounted{Options: "rw,vers=3,proto=tcp", Xprt: "tcp 0"}, nil
		}, checks.Infra, "asked for NFSv3 over rdma"},
		{"umount hangs", guestproto.VerbUmount, fails(errors.New("closed")), checks.Infra, "umount"},
	} {
		e, s, g, c := testExperiment(t, "nfs-latency")
		g.over[x.verb] = x.answer
		err := e.work(context.Background(), s, &guestKernel{}, c, &runfolder.Attempt{}, &measure.Boot{})
		var ce *cellError
		if !errors.As(err, &ce) {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		if ce.verdict != x.verdict || !strings.Contains(ce.finding.Message, x.want) {
			t.Errorf("%s: %s: %s", x.name, ce.verdict, ce.finding.Message)
		}
		out := e.blame("patched", nil, err)
		var ke *measure.KernelError
		if errors.As(out, &ke) != (x.verdict == checks.Fail) {
			t.Errorf("%s: %v", x.name, out)
		}
		if (len(e.r.rec.Findings) > 0) != (x.verdict == checks.Fail) {
			t.Errorf("%s: findings of the run: %v", x.name, e.r.rec.Findings)
		}
	}
	e, s, g, c := testExperiment(t, "nfs-metadata")
	g.over[guestproto.VerbFiles] = func(req any) (any, error) {
		f := req.(guestproto.Files)
		r := guestproto.FilesResult{Count: f.Count, ElapsedUS: 1}
		if f.Check {
			r.WrongN, r.Wrong = 1, []string{"f017: first differs at byte 12"}
		}
		return r, nil
	}
	var ce *cellError
	if err := e.work(context.Background(), s, &guestKernel{}, c, &runfolder.Attempt{}, &measure.Boot{}); !errors.As(err, &ce) || ce.verdict != checks.Fail {
		t.Errorf("wrong contents: %v", err)
	}
}

func TestRuntimes(t *testing.T) {
	for job, want := range map[string]time.Duration{
		"[a]\nrw=read\n":                           0,
		"[a]\nruntime=30\nramp_time = 5s\n":        35 * time.Second,
		"[a]\nruntime=2m\n[b]\n runtime=1h\n":      time.Hour + 2*time.Minute,
		"[a]\nmax_runtime=30\n# runtime=3\n":       0,
		"[global]\ntime_based\nruntime=10s\n[a]\n": 10 * time.Second,
	} {
		if got := runtimes(job); got != want {
			t.Errorf("%q: %v, want %v", job, got, want)
		}
	}
}

func TestJobsHash(t *testing.T) {
	p, err := testplans.Load("nfs-latency")
	if err != nil {
		t.Fatal(err)
	}
	a := Jobs(p)
	if len(a) != 2 || a[0].Kind != "fio" || a[1].Kind != "fio"+measure.Counted || a[0].Hash == a[1].Hash {
		b, _ := json.Marshal(a)
		t.Errorf("%s", b)
	}
	p.Measure.Jobs[0].Fio += "# another\n"
	if b := Jobs(p); b[0].Hash == a[0].Hash {
		t.Error("another job text has the same hash")
	}
}
