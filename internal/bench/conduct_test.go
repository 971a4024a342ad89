// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func plan(t testing.TB, dir string, d Design, arms ...Arm) *Experiment {
	t.Helper()
	if arms == nil {
		arms = twoArms
	}
	e, err := New(dir, d, arms, oneJob)
	if err != nil {
		t.Fatal(err)
	}
	e.rounds = 499
	return e
}

func TestOrder(t *testing.T) {
	arms := []Arm{{Name: Base}, {Name: Patched}, {Name: WithCompanion}}
	e := plan(t, "", Design{Seed: 7, Boots: 40}, arms...)
	firsts := map[string]int{}
	for b := 0; b < 40; b++ {
		var names []string
		for _, p := range e.Order[3*b : 3*b+3] {
			if p.Block != b+1 || p.Try != 1 {
				t.Fatalf("%+v", p)
			}
			names = append(names, p.Arm)
		}
		firsts[names[0]]++
		slices.Sort(names)
		if !reflect.DeepEqual(names, []string{Base, Patched, WithCompanion}) {
			t.Fatalf("block %d: %v", b+1, names)
		}
	}
	for a, n := range firsts {
		if n < 5 {
			t.Errorf("%s is first in %d of 40 blocks", a, n)
		}
	}
	if !reflect.DeepEqual(e.Order, plan(t, "", Design{Seed: 7, Boots: 40}, arms...).Order) {
		t.Error("the same seed gave another order")
	}
	if reflect.DeepEqual(e.Order, plan(t, "", Design{Seed: 8, Boots: 40}, arms...).Order) {
		t.Error("another seed gave the same order")
	}
	if s := plan(t, "", Design{}).Design.Seed; s == 0 || s >= 1<<53 {
		t.Errorf("seed %d is not one that JSON keeps", s)
	}
}

func TestDesignErrors(t *testing.T) {
	for name, f := range map[string]func() error{
		"one arm":        func() error { _, err := New("", Design{}, twoArms[:1], oneJob); return err },
		"same arm twice": func() error { _, err := New("", Design{}, []Arm{{Name: "a"}, {Name: "a"}}, oneJob); return err },
		"no job":         func() error { _, err := New("", Design{}, twoArms, nil); return err },
		"max below":      func() error { _, err := New("", Design{Boots: 9, Max: 5}, twoArms, oneJob); return err },
		"alpha":          func() error { _, err := New("", Design{Alpha: 0.9}, twoArms, oneJob); return err },
		"negative":       func() error { _, err := New("", Design{Boots: -1}, twoArms, oneJob); return err },
	} {
		if f() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, c := range []struct {
		d    Design
		want []int
	}{{Design{Boots: 5}, []int{5}}, {Design{Budget: time.Hour}, []int{5, 8, 12, 18, 24}}, {Design{Boots: 3, Max: 4}, []int{3, 4}}, {Design{Boots: 10, Precision: 1}, []int{10, 15, 24}}} {
		if got := plan(t, "", c.d).Design.Schedule; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.d, got, c.want)
		}
	}
}

func TestConductFixed(t *testing.T) {
	dir := t.TempDir()
	e := plan(t, dir, Design{Seed: 3, Runs: 2})
	s := &simulator{rnd: rand.New(rand.NewPCG(1, 1)), ios: 2000, bins: true, delay: map[string]float64{Patched: 2000}}
	if err := simulate(context.Background(), e, s, nil); err != nil {
		t.Fatal(err)
	}
	if e.Stop.Reason != StopBoots || len(e.Boots) != 10 || len(e.Looks) != 1 || e.Looks[0].Level != 0.05 {
		t.Fatalf("%+v, %d boots, looks %+v", e.Stop, len(e.Boots), e.Looks)
	}
	for i, b := range e.Boots {
		if b.Arm != e.Order[i].Arm || b.Index != i+1 {
			t.Errorf("boot %d is of %s, planned %s", i+1, b.Arm, e.Order[i].Arm)
		}
	}
	// Everything can be made again from the folder.
	got, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	got.rounds = e.rounds
	a, err := Analyse(e)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Analyse(got)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a.Contrasts, b.Contrasts) {
		t.Error("the record gives another analysis")
	}
	row := a.Contrasts[0].Rows[0]
	if row.Name != "job/write clat mean" || !row.Primary || row.Outcome != "worse" || row.Mean.Lo > 2000 || row.Mean.Hi < 2000 || row.NBase != 5 {
		t.Errorf("%+v", row)
	}
	if row.Values[0][0] > 1.5*level {
		t.Error("the warm-up run was counted")
	}
	last := a.Contrasts[0].Rows[len(a.Contrasts[0].Rows)-1]
	if last.Name != "job/write clat p99.99" || last.NA != "n/a (n=20000)" {
		t.Errorf("20000 I/Os an arm cannot give p99.99: %+v", last)
	}
	// Raw output that is gone is an error, not fewer boots.
	if err := os.Remove(filepath.Join(dir, e.Boots[0].Runs[1].Fio)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Error(err)
	}
	if _, err := Open(t.TempDir()); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}

func TestConductRepeatsNoise(t *testing.T) {
	e := plan(t, "", Design{Seed: 3})
	s := &simulator{rnd: rand.New(rand.NewPCG(1, 1))}
	err := simulate(context.Background(), e, s, func(n int) Noise {
		switch n {
		case 3:
			return Noise{Steal: 0.3}
		case 7, 9, 10:
			return Noise{Others: 0.9}
		}
		return Noise{}
	})
	if err != nil {
		t.Fatal(err)
	}
	rejected, noisy := 0, 0
	for _, b := range e.Boots {
		if b.Rejected != "" {
			rejected++
			if !strings.HasPrefix(b.Rejected, "noisy host, repeated: ") || len(b.Runs) == 0 {
				t.Errorf("%+v", b)
			}
		} else if len(b.Noisy) > 0 {
			noisy++
		}
	}
	if len(e.Order) != len(e.Boots) || len(e.Boots) != 10+rejected || rejected < 2 {
		t.Errorf("%d places, %d boots, %d rejected, %d noisy", len(e.Order), len(e.Boots), rejected, noisy)
	}
	for _, a := range e.Arms {
		if n := len(e.boots(a.Name)); n != 5 {
			t.Errorf("%s has %d boots that count", a.Name, n)
		}
	}
	// A host that is always noisy does not stop us; it is said.
	e = plan(t, "", Design{Seed: 3})
	if err := simulate(context.Background(), e, &simulator{rnd: s.rnd}, func(int) Noise { return Noise{QEMUs: 2} }); err != nil {
		t.Fatal(err)
	}
	an, err := Analyse(e)
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(an.Notes, "\n"); len(e.Boots) != 13 || !strings.Contains(notes, "although the host was noisy: 10 of 10") || !strings.Contains(notes, "because the host was noisy: 3 ") {
		t.Errorf("%d boots: %s", len(e.Boots), notes)
	}
}

func TestConductFailures(t *testing.T) {
	boom := errors.New("QEMU did not start")
	// Once: tried again.
	e := plan(t, "", Design{Seed: 3})
	s := &simulator{rnd: rand.New(rand.NewPCG(1, 1)), fail: func(_ string, n int) error {
		if n == 4 {
			return boom
		}
		return nil
	}}
	if err := simulate(context.Background(), e, s, nil); err != nil || len(e.Boots) != 11 || !strings.Contains(e.Boots[3].Rejected, boom.Error()) {
		t.Errorf("%v, %d boots", err, len(e.Boots))
	}
	// Always: it ends, and says so.
	e = plan(t, "", Design{Seed: 3})
	s = &simulator{rnd: s.rnd, fail: func(arm string, n int) error { return boom }}
	if err := simulate(context.Background(), e, s, nil); !errors.Is(err, boom) || e.Stop.Reason != StopFailed || s.boots > 6 {
		t.Errorf("%v %+v after %d boots", err, e.Stop, s.boots)
	}
	// The kernel's fault: at once.
	e = plan(t, "", Design{Seed: 3})
	s = &simulator{rnd: s.rnd, fail: func(arm string, n int) error {
		if arm == Patched {
			return &KernelError{Arm: arm, Text: "BUG: in svc_rdma_sendto"}
		}
		return nil
	}}
	var ke *KernelError
	if err := simulate(context.Background(), e, s, nil); !errors.As(err, &ke) || s.boots > 2 {
		t.Errorf("%v after %d boots", err, s.boots)
	}
	// The user's.
	ctx, cancel := context.WithCancel(context.Background())
	dir := t.TempDir()
	e = plan(t, dir, Design{Seed: 3})
	s = &simulator{rnd: s.rnd, bins: true, ios: 1000, fail: func(_ string, n int) error {
		if n == 4 {
			cancel()
			return ctx.Err()
		}
		return nil
	}}
	if err := simulate(ctx, e, s, nil); !errors.Is(err, context.Canceled) || e.Stop.Reason != StopCanceled || len(e.Boots) != 3 {
		t.Fatalf("%v %+v", err, e.Stop)
	}
	// And gone on with.
	e, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	again := plan(t, "", Design{Seed: 99})
	if err := again.Resume(t.TempDir(), e); err != nil {
		t.Fatal(err)
	}
	s.fail = nil
	if err := simulate(context.Background(), again, s, nil); err != nil || len(again.Boots) != 10 || again.Design.Seed != 3 {
		t.Errorf("%v, %d boots, seed %d", err, len(again.Boots), again.Design.Seed)
	}
	done, err := Open(again.dir)
	if err != nil {
		t.Fatal(err)
	}
	// What has come to its end stays as it is.
	if err := simulate(context.Background(), done, s, nil); err != nil || len(done.Boots) != 10 || done.Stop.Reason != StopBoots || len(done.Looks) != 1 {
		t.Errorf("%v, %d boots, %+v", err, len(done.Boots), done.Stop)
	}
}

// Output that fio calls an error is no result, and whose fault it is depends
// on whether the base does it too.
func TestConductUnusable(t *testing.T) {
	bad := func(arms ...string) Booter {
		return booter(func(arm string, n int) (Boot, error) {
			s := &simulator{rnd: rand.New(rand.NewPCG(1, uint64(n))), ios: 100}
			out := s.output(level)
			if slices.Contains(arms, arm) {
				out = strings.Replace(out, `"error": 0`, `"error": 5`, 1)
			}
			return Boot{Arm: arm, Runs: []Run{{Job: "job", Index: 1, Raw: []byte(out)}}}, nil
		})
	}
	var ke *KernelError
	for name, c := range map[string]struct {
		arms   []string
		kernel bool
	}{"patched only": {[]string{Patched}, true}, "base too": {[]string{Base, Patched}, false}} {
		e := plan(t, "", Design{Seed: 4})
		c2 := &conductor{e: e, boot: bad(c.arms...), now: time.Now, watch: func() func() Noise { return func() Noise { return Noise{} } }}
		err := c2.run(context.Background())
		if err == nil || !strings.Contains(err.Error(), "EIO") || errors.As(err, &ke) != c.kernel {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type booter func(arm string, n int) (Boot, error)

func (b booter) Boot(_ context.Context, arm string, n int) (Boot, error) { return b(arm, n) }

func TestConductGrows(t *testing.T) {
	for _, c := range []struct {
		name   string
		d      Design
		delay  float64
		took   time.Duration
		reason string
		boots  [2]int // of each arm
	}{
		{"clear at once", Design{Seed: 1, Budget: 10 * time.Hour}, 5000, time.Minute, StopClear, [2]int{8, 8}},
		{"nothing there", Design{Seed: 1, Budget: 10 * time.Hour}, 0, time.Minute, StopMax, [2]int{24, 24}},
		{"budget", Design{Seed: 1, Budget: 30 * time.Minute}, 0, time.Minute, StopBudget, [2]int{15, 15}},
		{"a budget below the first look", Design{Seed: 1, Budget: 7 * time.Minute}, 5000, time.Minute, StopBudget, [2]int{3, 3}},
		{"precision", Design{Seed: 1, Precision: 300, PrecisionUnit: "ns"}, 5000, time.Minute, StopPrecision, [2]int{8, 18}},
		{"precision in percent", Design{Seed: 1, Precision: 5, PrecisionUnit: "%"}, 0, time.Minute, StopPrecision, [2]int{5, 5}},
	} {
		e := plan(t, "", c.d)
		s := &simulator{rnd: rand.New(rand.NewPCG(5, 5)), took: c.took, delay: map[string]float64{Patched: c.delay}}
		if err := simulate(context.Background(), e, s, nil); err != nil {
			t.Fatal(err)
		}
		n := len(e.boots(Base))
		if e.Stop.Reason != c.reason || n < c.boots[0] || n > c.boots[1] || n != len(e.boots(Patched)) {
			t.Errorf("%s: %+v after %d boots an arm", c.name, e.Stop, n)
		}
		a, err := Analyse(e)
		if err != nil {
			t.Fatal(err)
		}
		if last := e.Looks[len(e.Looks)-1]; last.Level != a.Level || last.Stop != c.reason {
			t.Errorf("%s: level %g, look %+v", c.name, a.Level, last)
		}
		if r := a.Contrasts[0].Rows[0]; n >= 5 && r.Outcome.Claims() != (c.delay > 0) {
			t.Errorf("%s: %s", c.name, r.Outcome)
		}
	}
}

func TestNoise(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("proc/stat", "cpu  1000 0 500 8000 100 0 0 50 0 0\ncpu0 ...\n")
	write("proc/loadavg", "1.50 1.00 0.50 2/300 4242\n")
	write("proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n")
	write("proc/cpuinfo", "processor\t: 0\nmodel name\t: A  CPU\nflags\t\t: fpu hypervisor sse\ncpu MHz\t\t: 2000.0\n\nprocessor\t: 1\ncpu MHz\t\t: 3000.0\n")
	write("proc/meminfo", "MemTotal:        2048000 kB\n")
	write("proc/77/comm", "qemu-system-x86\n")
	write("proc/78/comm", "bash\n")
	write("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n")
	a := look(filepath.Join(dir, "proc"), filepath.Join(dir, "sys"))
	if a.err != nil || a.load != 1.5 || a.mhz != 2500 || a.qemus != 1 || a.psi != 1 || a.psiIO != -1 || a.throttled != 3 || a.steal != 0.5 {
		t.Errorf("%+v", a)
	}
	b := a
	b.at, b.busy, b.total, b.steal, b.ours, b.psi, b.throttled = a.at.Add(10*time.Second), a.busy+9, a.total+20, a.steal+1, a.ours+3, a.psi+4, a.throttled+1
	n := between(a, b)
	if n.Others != 0.3 || n.Steal != 0.05 || n.PSI != 0.4 || n.PSIIO != -1 || n.Throttled != 1 {
		t.Errorf("%+v", n)
	}
	if why := DefaultNoise.broken(n); len(why) != 3 {
		t.Errorf("%q", why)
	}
	if why := DefaultNoise.broken(Noise{Others: 0.1}); why != nil {
		t.Errorf("%q", why)
	}
	if n := between(look(filepath.Join(dir, "none"), dir), b); n.Unknown == "" {
		t.Error("no /proc")
	}
	h := hostAt(filepath.Join(dir, "proc"), filepath.Join(dir, "sys"), filepath.Join(dir, "os"))
	if h.CPU != "A CPU" || h.MemMiB != 2000 || h.Virtual != "hypervisor" {
		t.Errorf("%+v", h)
	}
}

func BenchmarkAnalyse(b *testing.B) {
	e := plan(b, "", Design{Seed: 3, Boots: 24, Runs: 3})
	e.rounds = 0
	s := &simulator{rnd: rand.New(rand.NewPCG(1, 1)), ios: 4000, bins: true}
	if err := simulate(context.Background(), e, s, nil); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Analyse(e); err != nil {
			b.Fatal(err)
		}
	}
}

// looks is an observer that keeps what it was told of each look.
type looks struct{ told []Look }

func (o *looks) Booting(Place, int, int) {}
func (o *looks) Booted(Boot)             {}
func (o *looks) Looked(l Look)           { o.told = append(o.told, l) }

// Who follows an experiment is not told to go on when it has ended.
func TestLastLookIsTold(t *testing.T) {
	e := plan(t, "", Design{Seed: 3, Boots: 2})
	s := &simulator{rnd: rand.New(rand.NewPCG(1, 1)), ios: 100, runs: e.Design.Runs, warmup: e.Design.Warmup}
	var o looks
	c := &conductor{e: e, boot: s, see: &o, now: time.Now, watch: func() func() Noise { return func() Noise { return Noise{} } }}
	if err := c.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(o.told) != 1 || o.told[0].Stop != StopBoots {
		t.Errorf("%+v", o.told)
	}
}
