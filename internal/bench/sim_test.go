// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strings"
	"time"
)

// simulator is a Booter whose kernels answer I/O in a way that is known:
// latencies are lognormal around a level that differs from boot to boot and
// run to run, as the noise of its host says, plus the arm's own delay.
type simulator struct {
	rnd    *rand.Rand
	host   string             // noise profile
	delay  map[string]float64 // ns added to each I/O, by arm
	ios    int                // per run
	runs   int
	warmup int
	bins   bool // write raw fio output; else only metrics
	state  float64
	clock  time.Time
	took   time.Duration
	fail   func(arm string, n int) error
	boots  int
}

const level = 20000 // ns

// boot is the level of one boot, in ns, relative effects included.
func (s *simulator) boot(n int) float64 {
	r := s.rnd
	v := level * (1 + 0.01*r.NormFloat64())
	switch s.host {
	case "outliers":
		if r.IntN(10) == 0 {
			v *= 1 + 0.5*r.Float64()
		}
	case "bimodal":
		if r.IntN(10) < 3 {
			v *= 1.08
		}
	case "drift":
		v *= 1 + 0.004*float64(n)
	case "autocorrelated":
		s.state = 0.7*s.state + 0.01*r.NormFloat64()
		v *= 1 + s.state
	case "loud":
		v *= math.Exp(0.2 * r.NormFloat64())
	}
	return v
}

func (s *simulator) Boot(ctx context.Context, arm string, n int) (Boot, error) {
	if err := ctx.Err(); err != nil {
		return Boot{}, err
	}
	s.boots++
	s.clock = s.clock.Add(s.took)
	if s.fail != nil {
		if err := s.fail(arm, n); err != nil {
			return Boot{}, err
		}
	}
	v := s.boot(n)
	b := Boot{Arm: arm, Guest: fmt.Sprintf("%s-%d", arm, n)}
	for i := 1; i <= s.warmup+s.runs; i++ {
		run := Run{Job: "job", Index: i, Warmup: i <= s.warmup}
		mean := v * (1 + 0.005*s.rnd.NormFloat64())
		if run.Warmup {
			mean *= 3 // must not count
		}
		mean += s.delay[arm]
		if s.bins {
			run.Raw = []byte(s.output(mean))
		} else {
			run.Metrics = map[string]Metric{"latency": {Value: mean, Unit: "ns", Better: Lower}}
		}
		b.Runs = append(b.Runs, run)
	}
	return b, nil
}

// output is fio's json+ of a run whose latencies are lognormal around mean.
func (s *simulator) output(mean float64) string {
	const sigma = 0.3
	bins := map[int64]int{}
	lo, hi, sum := math.Inf(1), 0.0, 0.0
	for range s.ios {
		x := mean * math.Exp(sigma*s.rnd.NormFloat64()-sigma*sigma/2)
		lo, hi, sum = math.Min(lo, math.Floor(x)), math.Max(hi, math.Floor(x)), sum+math.Floor(x)
		w := math.Exp2(math.Floor(math.Log2(x)) - 6)
		bins[int64(math.Floor(x/w)*w+w/2)]++
	}
	var keys []int64
	for k := range bins {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i] < keys[j] })
	var text []string
	for _, k := range keys {
		text = append(text, fmt.Sprintf("\"%d\": %d", k, bins[k]))
	}
	ms := sum / 1e6
	return fmt.Sprintf(`fio: a notice
{
 "fio version": "fio-3.36",
 "global options": {"ioengine": "psync", "direct": "1"},
 "jobs": [{"jobname": "job", "error": 0, "job options": {"rw": "randwrite", "bs": "4k", "iodepth": "1"},
  "read": {"io_bytes": 0, "total_ios": 0},
  "write": {"io_bytes": %d, "bw_bytes": %.0f, "iops": %f, "runtime": %.0f, "total_ios": %d,
   "clat_ns": {"min": %.0f, "max": %.0f, "mean": %f, "N": %d, "bins": {%s}}}}]
}
`, s.ios*4096, float64(s.ios)*4096e3/ms, float64(s.ios)*1e3/ms, ms, s.ios, lo, hi, sum/float64(s.ios), s.ios, strings.Join(text, ", "))
}

var twoArms = []Arm{{Name: Base, Release: "7.3.4", Arch: "x86_64"}, {Name: Patched, Release: "7.3.4+", Arch: "x86_64", Patches: []string{"svcrdma: a patch"}}}

var oneJob = []Job{{Name: "job", Kind: "fio", Text: "[job]\nrw=randwrite\nbs=4k\n"}}

// simulate conducts an experiment on the simulator without a host to watch.
func simulate(ctx context.Context, e *Experiment, s *simulator, quiet func(n int) Noise) error {
	if s.clock.IsZero() {
		s.clock = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	}
	s.runs, s.warmup = e.Design.Runs, e.Design.Warmup
	c := &conductor{e: e, boot: s, now: func() time.Time { return s.clock }, watch: func() func() Noise {
		return func() Noise {
			if quiet != nil {
				return quiet(len(e.Boots) + 1)
			}
			return Noise{PSI: -1, PSIIO: -1}
		}
	}}
	return c.run(ctx)
}
