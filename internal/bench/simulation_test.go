// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"patchcheck/checks/stats"
)

// simulations is how many experiments are simulated for each kind of host;
// PATCHCHECK_SIMULATIONS asks for more.
func simulations(n int) int {
	if v, err := strconv.Atoi(os.Getenv("PATCHCHECK_SIMULATIONS")); err == nil && v > n {
		return v
	}
	return n
}

var hosts = []string{"quiet", "outliers", "bimodal", "drift", "autocorrelated", "loud"}

var designs = map[string]Design{
	"fixed":     {Boots: 5, Runs: 2},
	"until":     {Boots: 5, Runs: 2, Max: 24}, // looks five times
	"precision": {Boots: 5, Runs: 2, Precision: 1.2, PrecisionUnit: "%"},
	"budget":    {Boots: 5, Runs: 2, Budget: 29 * time.Minute}, // ends between two looks
}

// A kernel against itself, with and without looking early: at most 1 % of
// experiments claim anything, 2.5 % by luck. And with an added delay, the interval at the end,
// whatever ended it, covers the delay in at least 95 %.
func TestErrorAndCoverage(t *testing.T) {
	for name, d := range designs {
		n := simulations(60)
		if name == "fixed" || name == "until" {
			n = simulations(200)
		}
		var claims, misses, found, all int
		for _, host := range hosts {
			var c, m, f int
			// The 200 experiments are over all hosts.
			k := (n + len(hosts) - 1) / len(hosts)
			for i := range k {
				for _, delay := range []float64{0, 4000} {
					d.Seed = uint64(i + 1)
					e := plan(t, "", d)
					e.rounds = 199
					s := &simulator{rnd: rand.New(rand.NewPCG(uint64(i), uint64(delay))), host: host, delay: map[string]float64{Patched: delay}, took: time.Minute}
					if err := simulate(context.Background(), e, s, nil); err != nil {
						t.Fatal(err)
					}
					a, err := Analyse(e)
					if err != nil {
						t.Fatal(err)
					}
					r := a.Contrasts[0].Rows[0]
					switch {
					case delay == 0 && r.Outcome.Claims():
						c++
					case delay > 3000 && r.Outcome == stats.Worse:
						f++
					}
					if r.Mean.Lo > delay || r.Mean.Hi < delay {
						m++
					}
				}
			}
			t.Logf("%-9s %-14s %d of %d claim what is not there, %d of %d intervals miss, %d of %d find 4 us in 20", name, host, c, k, m, 2*k, f, k)
			claims, misses, found, all = claims+c, misses+m, found+f, all+k
		}
		t.Logf("%-9s %.1f %% false claims, %.1f %% coverage, a delay of a fifth found in %.0f %%", name, pc(claims, all), 100-pc(misses, 2*all), pc(found, all))
		if claims*40 > all {
			t.Errorf("%s: %d of %d experiments claim a difference that is not there", name, claims, all)
		}
		if misses*20 > 2*all {
			t.Errorf("%s: %d of %d intervals do not cover the delay", name, misses, 2*all)
		}
		if found*10 < 7*all {
			t.Errorf("%s: a delay of a fifth is found in only %d of %d experiments", name, found, all)
		}
	}
}

func pc(a, b int) float64 { return 100 * float64(a) / float64(b) }

// The whole table of a fio job: no false claim in any row in 95 % of
// experiments, and the intervals of percentiles of merged histograms cover the
// delay.
func TestErrorAndCoverageOfPercentiles(t *testing.T) {
	n := simulations(40)
	var claims int
	miss := map[string]int{}
	const delay = 1500
	// The delay is a constant added to a lognormal: all quantiles of a boot move
	// by delay times what the simulator's spread makes of it.
	for i := range n {
		for _, d := range []float64{0, delay} {
			e := plan(t, "", Design{Boots: 5, Runs: 2, Warmup: 0, Seed: uint64(i + 1)})
			e.rounds = 499
			s := &simulator{rnd: rand.New(rand.NewPCG(uint64(i), uint64(d))), host: hosts[i%len(hosts)], delay: map[string]float64{Patched: d}, ios: 1100, bins: true}
			if err := simulate(context.Background(), e, s, nil); err != nil {
				t.Fatal(err)
			}
			a, err := Analyse(e)
			if err != nil {
				t.Fatal(err)
			}
			any := false
			for _, r := range a.Contrasts[0].Rows {
				any = any || r.Outcome.Claims()
				z, ok := map[string]float64{"write clat p50": 0, "write clat p90": 1.2816, "write clat p99": 2.3263, "write clat p99.9": 3.0902}[r.Metric]
				if !ok || r.NA != "" {
					continue
				}
				if !r.Merged {
					t.Fatalf("%s is not of merged histograms", r.Metric)
				}
				want := d * math.Exp(0.3*z-0.045)
				if r.Mean.Lo > want || r.Mean.Hi < want {
					miss[r.Metric]++
				}
			}
			if any && d == 0 {
				claims++
			}
		}
	}
	t.Logf("%d of %d experiments claim something; intervals that miss, of %d: %v", claims, n, 2*n, miss)
	if claims*20 > n {
		t.Errorf("%d of %d experiments claim what is not there", claims, n)
	}
	for m, k := range miss {
		if k*20 > 2*n {
			t.Errorf("%s: %d of %d intervals miss", m, k, 2*n)
		}
	}
}
