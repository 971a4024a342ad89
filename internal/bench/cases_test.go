// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"patchcheck/checks/fio"
	"patchcheck/checks/stats"
	"patchcheck/internal/sharedtest"
)

func outcomes(a *Analysis) (claims, none int) {
	for _, p := range a.Contrasts {
		for _, r := range p.Rows {
			switch {
			case r.Outcome.Claims():
				claims++
			case r.Outcome == stats.NoDifference:
				none++
			}
		}
	}
	return claims, none
}

func TestPublicCases(t *testing.T) {
	dir := sharedtest.Path(t, "cases", "samples")
	side := func(name, glob string) Side {
		files, err := filepath.Glob(filepath.Join(dir, glob))
		if err != nil || len(files) == 0 {
			t.Skip("no " + glob)
		}
		s := Side{Name: name}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			o, err := fio.Parse(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			s.Outputs = append(s.Outputs, o)
		}
		return s
	}
	// The same commit twice on a noisy host.
	e, differs := Loose([]Side{side("A", "B90-A-*.json"), side("AA", "B90-AA-*.json")}, stats.LooseFloor)
	if differs != nil {
		t.Errorf("the same job: %q", differs)
	}
	if claims, none := outcomes(analyse(t, e)); claims != 0 || none < 10 {
		t.Errorf("the same job twice: %d claims, %d rows without a difference", claims, none)
	}
	// Another block size.
	e, differs = Loose([]Side{side("A", "B90-A-*.json"), side("B", "B90-B-*.json")}, stats.LooseFloor)
	if len(differs) != 1 || !strings.Contains(differs[0], "bs=") {
		t.Errorf("another block size: %q", differs)
	}
	if claims, _ := outcomes(analyse(t, e)); claims < 10 {
		t.Errorf("another block size: %d claims", claims)
	}
	// One outlier.
	b, err := os.ReadFile(filepath.Join(dir, "B94-outlier.json"))
	if err != nil {
		t.Skip(err)
	}
	names, values, ok := Samples(b)
	if !ok || !slices.Equal(names, []string{"A", "B"}) {
		t.Fatalf("%q %v", names, ok)
	}
	e, _ = Loose([]Side{{Name: "A", Values: plain(values[0])}, {Name: "B", Values: plain(values[1])}}, stats.LooseFloor)
	if r := analyse(t, e).Contrasts[0].Rows[0]; r.Outcome != stats.Worse || r.Location().Diff < 0.19 {
		t.Errorf("an outlier hides a slow-down of a fifth: %+v", r.Result)
	}
}

func plain(xs []float64) (ms []Metric) {
	for _, x := range xs {
		ms = append(ms, Metric{Value: x, Better: Lower})
	}
	return ms
}

// Percentiles of runs without bins are never averaged: the middle run's own is
// shown.
func TestUnbinnedPercentiles(t *testing.T) {
	var sides []Side
	for _, n := range []string{"a", "b"} {
		s := Side{Name: n}
		for _, p := range []int{1000, 1010, 1020, 1030, 9000} {
			o, err := fio.Parse(strings.NewReader(fmt.Sprintf(`{"fio version": "fio-3.36", "jobs": [{"jobname": "j", "error": 0,
				"read": {"io_bytes": 4096000, "bw_bytes": 1, "iops": 1, "runtime": 1000, "total_ios": 1000,
				"clat_ns": {"min": 1, "max": 10000, "mean": 1500, "N": 1000, "percentile": {"99.000000": %d, "99.900000": 9500}}}}]}`, p)))
			if err != nil {
				t.Fatal(err)
			}
			s.Outputs = append(s.Outputs, o)
		}
		sides = append(sides, s)
	}
	e, _ := Loose(sides, 0)
	a := analyse(t, e)
	found := false
	for _, r := range a.Contrasts[0].Rows {
		switch r.Metric {
		case "read clat p99":
			found = true
			if r.Mean.Base != 1020 || r.Merged {
				t.Errorf("%+v", r)
			}
		case "read clat p99.9":
			if r.NA != "n/a (n=1000)" {
				t.Errorf("each run has 1000 I/Os: %+v", r)
			}
		}
	}
	if !found || !strings.Contains(strings.Join(a.Notes, " "), "no bins") {
		t.Errorf("%q", a.Notes)
	}
}

func TestUnlike(t *testing.T) {
	mk := func(change func(*Experiment)) *Experiment {
		e := plan(t, "", Design{Seed: 1, Boots: 5, Runs: 1})
		e.ID, e.Accel, e.Hosts = "r", Accel{Name: "tcg"}, []Host{{CPU: "A", CPUs: 2}}
		e.Arms = slices.Clone(e.Arms)
		e.Arms[0].Config = "c1"
		s := &simulator{rnd: rand.New(rand.NewPCG(3, 3))}
		if err := simulate(context.Background(), e, s, nil); err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(e)
		}
		return e
	}
	a := mk(nil)
	for want, change := range map[string]func(*Experiment){
		"":                                      nil,
		"accelerator: tcg and kvm":              func(e *Experiment) { e.Accel.Name = "kvm" },
		"CPU: A and B":                          func(e *Experiment) { e.Hosts[0].CPU = "B" },
		"kernel architecture: x86_64 and arm64": func(e *Experiment) { e.Arms[0].Arch = "arm64" },
		"kernel config: c1 and c2":              func(e *Experiment) { e.Arms[0].Config = "c2" },
		`job job is another one: "bs=4k" and "bs=8k"`: func(e *Experiment) { e.Jobs[0].Text, e.Jobs[0].Hash = "[job]\nrw=randwrite\nbs=8k\n", "x" },
	} {
		if got := strings.Join(Unlike(a, mk(change)), "; "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	b := mk(nil)
	b.ID = "s"
	e, differs, err := Across(a, b, Patched, Patched, 0.05)
	if err != nil || differs != nil || len(e.Boots) != 10 {
		t.Fatalf("%v %q", err, differs)
	}
	an := analyse(t, e)
	if an.Notes[0] != TCGNote || !strings.Contains(strings.Join(an.Notes, " "), "not measured in turns") || an.Contrasts[0].Base != "patched of r" {
		t.Errorf("%q %+v", an.Notes, an.Contrasts[0].Base)
	}
	if _, _, err := Across(a, b, Patched, "nope", 0); err == nil || !strings.Contains(err.Error(), "base, patched") {
		t.Error(err)
	}
	if _, _, err := Across(a, a, Patched, Patched, 0); err == nil {
		t.Error("a run against itself")
	}
	if e, _, err := Across(a, a, Base, Patched, 0); err != nil || e.Arms[0].Name != Base {
		t.Error(err)
	}
}

func TestMountOptions(t *testing.T) {
	m := "rw,relatime,rw,vers=3,rsize=131072,hard,proto=rdma,port=20049,sec=sys,mountaddr=192.0.2.1,mountport=53067,addr=192.0.2.1 rdma 0 0 1 6"
	if got := mountOptions(m, "vers", "proto", "sec"); got != "vers=3,proto=rdma" {
		t.Error(got)
	}
	if got := mountOptions(m); got != "rw,relatime,vers=3,rsize=131072,hard,proto=rdma,port=20049,sec=sys,rdma" {
		t.Error(got)
	}
	if mountOptions(m) != mountOptions(strings.Replace(m, "53067", "40000", 1)+" 7") {
		t.Error("another port is no other mount")
	}
}

func TestParsePrecision(t *testing.T) {
	for in, want := range map[string]string{"0.1us": "100 ns", "250ns": "250 ns", "0.5%": "0.5 %", "3": "3 ", "1 ms": "1e+06 ns"} {
		v, u, err := ParsePrecision(in)
		if got := fmt.Sprintf("%g %s", v, u); err != nil || got != want {
			t.Errorf("%s: %s %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "us", "-1us", "0", "1 week", "NaN", "1e999"} {
		if _, _, err := ParsePrecision(in); err == nil {
			t.Errorf("%q was taken", in)
		}
	}
}

func TestSamplesForms(t *testing.T) {
	for in, want := range map[string]string{
		`{"b": [1, 2], "a": [3]}`: "[b a] [[1 2] [3]]",
		`[1, 2.5]`:                "[] [[1 2.5]]",
		"1\n2 3 # three\n\n":      "[] [[1 2 3]]",
		`{"a": [1]}`:              "no",
		`{"a": 1, "b": [2]}`:      "no",
		`{"fio version": "x"}`:    "no",
		"":                        "no",
		"hello":                   "no",
	} {
		names, values, ok := Samples([]byte(in))
		got := "no"
		if ok {
			got = fmt.Sprint(names, " ", values)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func FuzzSamples(f *testing.F) {
	f.Add([]byte(`{"b": [1, 2], "a": [3]}`))
	f.Add([]byte("1 2\n# x"))
	f.Fuzz(func(t *testing.T, b []byte) { Samples(b) })
}

func FuzzParsePrecision(f *testing.F) {
	f.Add("0.1us")
	f.Fuzz(func(t *testing.T, s string) {
		if v, _, err := ParsePrecision(s); err == nil && !(v > 0) {
			t.Errorf("%q gave %g", s, v)
		}
	})
}
