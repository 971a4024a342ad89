// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchcheck/internal/bench"
	"patchcheck/internal/runfolder"
)

// fakeExperiment has kernels that answer in a known time.
type fakeExperiment struct {
	rec    *bench.Experiment
	folder string
	rnd    *rand.Rand
	mean   map[string]float64
	fail   func(arm string, n int) error
	ended  error
}

func (f *fakeExperiment) Record() *bench.Experiment { return f.rec }
func (f *fakeExperiment) Folder() string            { return f.folder }
func (f *fakeExperiment) Run() *runfolder.Run       { return nil }
func (f *fakeExperiment) End(_ context.Context, err error) error {
	f.ended = err
	return nil
}

func (f *fakeExperiment) Boot(_ context.Context, arm string, n int) (bench.Boot, error) {
	if f.fail != nil {
		if err := f.fail(arm, n); err != nil {
			return bench.Boot{}, err
		}
	}
	m := f.mean[arm] * (1 + 0.01*f.rnd.NormFloat64())
	raw := fmt.Sprintf(`{"fio version": "fio-3.36", "jobs": [{"jobname": "w", "error": 0, "job options": {"rw": "randwrite", "bs": "4k"},
 "write": {"io_bytes": 4096000, "bw_bytes": 1000, "iops": %g, "runtime": 1000, "total_ios": 1000, "clat_ns": {"min": 100, "max": 99999, "mean": %g, "N": 1000, "bins": {"%.0f": 1000}}}}]}`, 1e9/m, m, m)
	return bench.Boot{Arm: arm, Runs: []bench.Run{{Job: "w", Index: 1, Raw: []byte(raw)}}}, nil
}

func newFake(t *testing.T, runs, id string, base, patched float64) *fakeExperiment {
	t.Helper()
	dir := filepath.Join(runs, id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	rec := &bench.Experiment{Schema: bench.Schema, ID: id, Plan: "p", Title: "a series", Accel: bench.Accel{Name: "tcg"},
		Arms: []bench.Arm{{Name: bench.Base, Arch: "x86_64"}, {Name: bench.Patched, Arch: "x86_64"}},
		Jobs: []bench.Job{{Name: "w", Kind: "fio", Text: "[w]\nrw=randwrite\n"}}}
	rec.Design.Boots, rec.Design.Runs = 5, 1
	return &fakeExperiment{rec: rec, folder: dir, rnd: rand.New(rand.NewPCG(1, 9)), mean: map[string]float64{bench.Base: base, bench.Patched: patched}}
}

func TestBenchCommand(t *testing.T) {
	runs := t.TempDir()
	do := func(f *fakeExperiment, flags benchFlags, ctx context.Context) (code int, out, log string) {
		var o, e bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: &o, stderr: &e, runs: runs}
		if flags.format.format == "" {
			flags.format.format = "rows"
		}
		flags.allowNoise = true // the machine that runs this test is busy
		return a.exit(ctx, a.conduct(ctx, &flags, f, nil)), o.String(), e.String()
	}
	ctx := context.Background()
	worse := newFake(t, runs, "20261130-100000-worse", 20000, 25000)
	code, out, log := do(worse, benchFlags{}, ctx)
	if code != exitFindings || !strings.Contains(out, "WORSE: w/write clat mean") || !strings.HasPrefix(out, "Emulated (TCG)") || !strings.Contains(log, "boot 10 of 10") {
		t.Errorf("worse: %d\n%s%s", code, out, log)
	}
	for _, name := range []string{"bench.json", "bench.txt", "bench.html"} {
		if b, err := os.ReadFile(filepath.Join(worse.folder, name)); err != nil || len(b) < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	same := newFake(t, runs, "20261130-110000-same", 20000, 20000)
	if code, out, _ := do(same, benchFlags{}, ctx); code != exitReady || !strings.Contains(out, "no difference shown (would have seen") {
		t.Errorf("same: %d\n%s", code, out)
	}
	better := newFake(t, runs, "20261130-120000-better", 20000, 16000)
	flags := benchFlags{untilClear: true, format: formatFlag{format: "sentence"}}
	flags.design.Seed = 42
	if code, out, log := do(better, flags, ctx); code != exitReady || !strings.Contains(out, "fell by") || !strings.Contains(out, "repeated") || better.rec.Design.Seed != 42 || better.rec.Design.Max != bench.DefaultMax || !strings.Contains(log, "stop: clear") {
		t.Errorf("better: %d %+v\n%s%s", code, better.rec.Design, out, log)
	}
	broken := newFake(t, runs, "20261130-130000-broken", 1, 1)
	broken.fail = func(arm string, n int) error {
		if arm == bench.Patched {
			return &bench.KernelError{Arm: arm, Text: "BUG: unable to handle page fault"}
		}
		return nil
	}
	if code, _, log := do(broken, benchFlags{}, ctx); code != exitFindings || !strings.Contains(log, "the patched kernel failed: BUG: unable") {
		t.Errorf("broken: %d %s", code, log)
	}
	var ke *bench.KernelError
	if !errors.As(broken.ended, &ke) {
		t.Errorf("the run folder was not told: %v", broken.ended)
	}
	infra := newFake(t, runs, "20261130-140000-infra", 1, 1)
	infra.fail = func(string, int) error { return errors.New("no QEMU") }
	if code, _, log := do(infra, benchFlags{}, ctx); code != exitInfra || !strings.Contains(log, "no QEMU") {
		t.Errorf("infra: %d %s", code, log)
	}
	gone, cancel := context.WithCancel(ctx)
	stopped := newFake(t, runs, "20261130-150000-stopped", 20000, 20000)
	stopped.fail = func(_ string, n int) error {
		if n == 4 {
			cancel()
			return gone.Err()
		}
		return nil
	}
	if code, _, log := do(stopped, benchFlags{}, gone); code != exitInterrupted || !strings.Contains(log, "patchcheck bench --resume 20261130-150000-stopped") {
		t.Errorf("stopped: %d %s", code, log)
	}

	// Reports and comparisons from the folders.
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"bench report 20261130-100000-worse", exitReady, "WORSE"},
		{"bench report --format sentence 20261130-100000-worse", exitReady, "rose by"},
		{"bench report --format sweep 20261130-100000-worse", exitUsage, "do not sweep"},
		{"bench report --json 20261130-100000-worse", exitReady, `"$schema": "urn:patchcheck:bench:1"`},
		{"bench report", exitReady, "did not come to its end"}, // the newest
		{"bench compare 20261130-110000-same 20261130-100000-worse", exitFindings, "A is patched of 20261130-110000-same"},
		{"bench compare --arms base 20261130-110000-same 20261130-100000-worse", exitReady, "no difference shown"},
		{"bench compare --arms base,patched 20261130-100000-worse 20261130-100000-worse", exitFindings, "WORSE"},
		{"bench compare 20261130-110000-same 20261130-110000-same", exitUsage, "one and the same"},
		{"bench compare --arms nope 20261130-110000-same 20261130-100000-worse", exitUsage, "no arm"},
	} {
		var o, e bytes.Buffer
		code := Main(ctx, append([]string{"--out", runs}, strings.Fields(c.args)...), strings.NewReader(""), &o, &e)
		if got := o.String() + e.String(); code != c.code || !strings.Contains(got, c.want) {
			t.Errorf("%s: exit code %d, want %d\n%s", c.args, code, c.code, got)
		}
	}
	// Another accelerator is refused.
	better.rec.Accel.Name = "kvm"
	if err := better.rec.Save(); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]int{"": exitUsage, "--force-unlike ": exitReady} {
		var o, e bytes.Buffer
		args := "bench compare " + flag + "20261130-110000-same 20261130-120000-better"
		code := Main(ctx, append([]string{"--out", runs}, strings.Fields(args)...), strings.NewReader(""), &o, &e)
		if got := o.String() + e.String(); code != want || !strings.Contains(strings.Join(strings.Fields(got), " "), "accelerator: tcg and kvm") {
			t.Errorf("%s: exit code %d, want %d\n%s", args, code, want, got)
		}
	}
}
