// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/perf/benchfmt"

	"patchcheck/checks/fio"
	"patchcheck/checks/stats"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	p := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -update rewrites it):\n%s", name, got)
	}
}

// measured is a small experiment with everything in it.
func measured(t *testing.T, accel string, delay float64, noise float64) *Experiment {
	t.Helper()
	arms := []Arm{
		{Name: Base, Release: "7.3.4", Arch: "x86_64", Config: "0123456789abcdef", Compiler: "gcc 12.2.0"},
		{Name: Patched, Release: "7.3.4", Arch: "x86_64", Patches: []string{"svcrdma: Do less"}},
		{Name: WithCompanion, Label: "the client's patch as well", Release: "7.3.4", Arch: "x86_64"},
	}
	e, err := New("", Design{Seed: 5, Boots: 6, Runs: 2, Warmup: 1}, arms, []Job{
		{Name: "qd1", Kind: "fio", Text: "[job]\nrw=randwrite\nbs=4k\niodepth=1\n"},
		{Name: "qd8", Kind: "fio", Text: "[job]\nrw=randwrite\nbs=4k\niodepth=8\n"}})
	if err != nil {
		t.Fatal(err)
	}
	e.rounds = 999
	e.ID, e.Title, e.Plan = "20261130-120000-do-less", "svcrdma: Do less", "nfs-latency"
	e.Accel, e.Fabric = Accel{Name: accel}, "rxe on dummy0, client and server in one guest"
	e.Hosts = []Host{{CPU: "Example CPU 9000", CPUs: 8, Arch: "x86_64", MemMiB: 16384, Kernel: "6.12.1"}}
	e.Guest = Guest{CPUs: 2, MemMiB: 1024}
	e.Mount = "vers=3,proto=rdma"
	e.Versions = map[string]string{"fio": "fio-3.36", "qemu": "QEMU 7.2.22"}
	rnd := rand.New(rand.NewPCG(8, 8))
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	b := booter(func(arm string, n int) (Boot, error) {
		s := &simulator{rnd: rnd, ios: 1000}
		lv := level * (1 + noise*rnd.NormFloat64())
		switch arm {
		case Patched:
			lv -= delay
		case WithCompanion:
			lv -= 2 * delay
		}
		out := Boot{Arm: arm}
		for i := 1; i <= 3; i++ {
			for k, job := range []string{"qd1", "qd8"} {
				raw := s.output(lv * float64(1+7*k))
				raw = strings.Replace(raw, `"iodepth": "1"`, fmt.Sprintf(`"iodepth": "%d"`, 1+7*k), 1)
				r := Run{Job: job, Index: i, Warmup: i == 1, Raw: []byte(raw)}
				if k == 0 {
					enq, inline := 14.0, 0.0
					if arm != Base {
						enq, inline = 5, 2048
					}
					r.Metrics = map[string]Metric{
						"enqueues per RPC": {Value: enq, Better: Lower, Exact: true},
						"Sends inline":     {Value: inline, Better: None, Exact: true},
						"empty dequeues":   {Better: Lower, Unit: "%", Invalid: "LOST 12 events"},
						"CPU per RPC":      {Value: 9000 + 100*rnd.NormFloat64(), Unit: "ns", Better: Lower},
					}
				}
				out.Runs = append(out.Runs, r)
			}
		}
		return out, nil
	})
	c := &conductor{e: e, boot: b, now: func() time.Time { return at }, watch: func() func() Noise { return func() Noise { return Noise{} } }}
	if err := c.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return e
}

func analyse(t *testing.T, e *Experiment) *Analysis {
	t.Helper()
	a, err := Analyse(e)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func render(t *testing.T, a *Analysis, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, a, format); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFormats(t *testing.T) {
	for name, e := range map[string]*Experiment{
		"better": measured(t, "kvm", 1000, 0.005),
		"none":   measured(t, "tcg", 0, 0.02),
	} {
		a := analyse(t, e)
		for _, f := range Formats {
			got := render(t, a, f)
			golden(t, name+"."+f, got)
			if f == "html" && !bytes.Equal(got, render(t, analyse(t, e), f)) {
				t.Errorf("%s %s: not the same twice", name, f)
			}
			switch f {
			case "rows", "sentence", "table", "sweep":
				for _, l := range strings.Split(string(got), "\n") {
					if len([]rune(l)) > width {
						t.Errorf("%s %s: %d columns: %s", name, f, len([]rune(l)), l)
					}
					if strings.TrimRight(l, " ") != l {
						t.Errorf("%s %s: blank at the end: %q", name, f, l)
					}
				}
				if tcg := strings.HasPrefix(string(got), "Emulated (TCG): absolute figures mean nothing"); tcg != (name == "none") {
					t.Errorf("%s %s: first line %.60s", name, f, got)
				}
				for _, must := range []string{"95"} {
					if !strings.Contains(string(got), must) {
						t.Errorf("%s %s lacks %q", name, f, must)
					}
				}
			case "json":
				var d Document
				if err := json.Unmarshal(got, &d); err != nil {
					t.Error(err)
				} else if d.Emulated != (name == "none") || len(d.Contrasts) != 2 {
					t.Errorf("%+v", d)
				}
			case "bench":
				n, boots := 0, map[string]int{}
				r := benchfmt.NewReader(bytes.NewReader(got), f)
				for r.Scan() {
					switch rec := r.Result().(type) {
					case *benchfmt.SyntaxError:
						t.Errorf("%s: benchstat cannot read %v", name, rec)
					case *benchfmt.Result:
						n++
						boots[string(rec.Name)]++
					}
				}
				if n != 2*3*6 || boots["Qd1/arm=base"] != 6 {
					t.Errorf("%s: %d results, %v", name, n, boots)
				}
			case "html":
				if s := string(got); strings.Contains(s, "<script") || strings.Contains(s, "http://") || strings.Contains(s, "https://") || !strings.Contains(s, "<svg") {
					t.Errorf("%s: the page is not self-contained or has no figures", name)
				}
			}
		}
	}
	a, err := Analyse(measured(t, "kvm", 0, 0.01))
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(&bytes.Buffer{}, a, "pie"); err == nil {
		t.Error("no such format")
	}
}

func TestExactCounts(t *testing.T) {
	a, err := Analyse(measured(t, "tcg", 0, 0.02))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]stats.Outcome{"enqueues per RPC": stats.Improved, "Sends inline": stats.Differs, "empty dequeues": stats.NotUsable}
	for _, p := range a.Contrasts {
		for _, r := range p.Rows {
			if o, ok := want[r.Metric]; ok && r.Outcome != o {
				t.Errorf("%s, %s: %s, want %s", p.Patched, r.Metric, r.Outcome, o)
			}
			if r.Metric == "empty dequeues" && r.NA != "LOST 12 events" {
				t.Errorf("%+v", r)
			}
		}
	}
	// An exact count that is not is a measurement like others, and said.
	e := measured(t, "kvm", 0, 0.01)
	m := e.Boots[3].Runs[2].Metrics["enqueues per RPC"]
	m.Value++
	e.Boots[3].Runs[2].Metrics["enqueues per RPC"] = m
	if a, err = Analyse(e); err != nil {
		t.Fatal(err)
	}
	varies := false
	for _, p := range a.Contrasts {
		for _, r := range p.Rows {
			varies = varies || r.Metric == "enqueues per RPC" && r.Varies && strings.Contains(strings.Join(r.Warnings, " "), "the plan calls this count exact, but runs of one and the same kernel")
		}
	}
	if !varies {
		t.Error("a count that varies was taken for exact")
	}
}

// With too few boots for an answer, percentiles are still those of the merged
// histograms, and nothing is said of bins that fio did write.
func TestFewBootsMerge(t *testing.T) {
	e := measured(t, "kvm", 1000, 0.2)
	e.Boots = slices.DeleteFunc(e.Boots, func(b Boot) bool { return b.Block > 2 })
	a := analyse(t, e)
	found := false
	for _, r := range a.Contrasts[0].Rows {
		if r.Name != "qd1/write clat p99" {
			continue
		}
		found = true
		var hs []stats.Hist
		for _, b := range e.boots(Base) {
			for _, run := range b.Runs {
				if run.Job != "qd1" || run.Warmup {
					continue
				}
				for _, p := range fio.Pool(*run.out) {
					h, _ := p.Hist()
					hs = append(hs, h)
				}
			}
		}
		if want := stats.Merge(hs...).Rough(0.99); !r.Merged || r.Outcome != stats.TooFew || r.NBase != 2 || math.Abs(r.Mean.Base-want) > 0.02*want {
			t.Errorf("merged p99 is %g: %+v", want, r)
		}
		if r.Mean.Lo != 0 || r.Mean.Hi != 0 {
			t.Errorf("an interval of two boots: %+v", r.Mean)
		}
	}
	if !found || strings.Contains(strings.Join(a.Notes, " "), "bins") {
		t.Errorf("%q", a.Notes)
	}
	if got := string(render(t, a, "rows")); !strings.Contains(got, "at least 5 boots of each are needed") {
		t.Errorf("no word of the boots that lack:\n%s", got)
	}
}

// A count that the base never has is still shown with the other side's digits.
func TestPlacesFromNothing(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		exact  bool
		want   string
	}{
		{0.998, 0.998, true, "0.9980"},
		{0.9975, 0.9985, false, "0.99800"},
	} {
		r := Row{Metric: "Sends inline per RPC", Exact: c.exact}
		r.Mean = stats.Contrast{Patched: 0.998, Diff: 0.998, Lo: c.lo, Hi: c.hi, P: 1}
		r.Outcome = stats.Differs
		var b bytes.Buffer
		(&Analysis{Unit: "boots"}).row(&b, r)
		if !strings.Contains(b.String(), c.want) {
			t.Errorf("want %s: %s", c.want, b.String())
		}
	}
}

func TestLookString(t *testing.T) {
	for _, c := range []struct {
		l    Look
		want string
	}{
		{Look{Metric: "qd1/write clat mean", Unit: "ns", Diff: -1081432, Lo: -2000000, Hi: -100000}, "qd1/write clat mean -1081 (-2000 to -100) us"},
		{Look{Metric: "qd1/write clat mean", Unit: "ns", Diff: -1081432}, "qd1/write clat mean -1081 us"}, // too few boots for an interval
		{Look{Metric: "enqueues per RPC", Diff: -9, Lo: -9, Hi: -9}, "enqueues per RPC -9.000"},
	} {
		if got := c.l.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
