// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/stat"
)

// simulations is how many experiments a test simulates for each kind of noise;
// PATCHCHECK_SIMULATIONS asks for more.
func simulations(n int) int {
	if v, err := strconv.Atoi(os.Getenv("PATCHCHECK_SIMULATIONS")); err == nil && v > n {
		return v
	}
	return n
}

// atMost is the largest count of n with the given chance that three standard
// deviations of luck explain.
func atMost(n int, chance float64) int {
	return int(float64(n)*chance + 3*math.Sqrt(float64(n)*chance*(1-chance)))
}

// noises are boots of a kernel as hosts really give them, around 100: in the
// order of time, so that neighbours may depend on each other.
var noises = map[string]func(r *rand.Rand, n int) []float64{
	"normal":    each(func(r *rand.Rand) float64 { return 100 + r.NormFloat64() }),
	"skewed":    each(func(r *rand.Rand) float64 { return 100 * math.Exp(0.25*r.NormFloat64()) }),
	"bimodal":   each(func(r *rand.Rand) float64 { return 100 + 0.5*r.NormFloat64() + 8*float64(r.IntN(10)/7) }),
	"quantised": each(func(r *rand.Rand) float64 { return math.Round(100 + 0.7*r.NormFloat64()) }),
	"outliers": each(func(r *rand.Rand) float64 {
		v := 100 + r.NormFloat64()
		if r.IntN(10) == 0 {
			v += 50 * r.Float64()
		}
		return v
	}),
	"heavy tails": each(func(r *rand.Rand) float64 { return 100 + r.NormFloat64()/math.Sqrt(r.ExpFloat64()) }),
	"drift": func(r *rand.Rand, n int) []float64 {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = 100 + r.NormFloat64() + 6*float64(i)/float64(n)
		}
		return xs
	},
	"autocorrelated": func(r *rand.Rand, n int) []float64 {
		xs, s := make([]float64, n), r.NormFloat64()*1.4
		for i := range xs {
			s = 0.7*s + r.NormFloat64()
			xs[i] = 100 + s
		}
		return xs
	},
	"a busy stretch": func(r *rand.Rand, n int) []float64 {
		xs, from := make([]float64, n), r.IntN(n)
		for i := range xs {
			xs[i] = 100 + r.NormFloat64()
			if i >= from && i < from+n/4 {
				xs[i] += 15
			}
		}
		return xs
	},
}

func each(f func(*rand.Rand) float64) func(*rand.Rand, int) []float64 {
	return func(r *rand.Rand, n int) []float64 {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = f(r)
		}
		return xs
	}
}

// experiment deals noise out to two arms as the design does: one boot of each
// in every block, in random order.
func experiment(r *rand.Rand, noise func(*rand.Rand, int) []float64, boots int, effect float64) (base, patched []float64) {
	xs := noise(r, 2*boots)
	for i := 0; i < len(xs); i += 2 {
		k := r.IntN(2)
		base, patched = append(base, xs[i+k]), append(patched, xs[i+1-k]+effect)
	}
	return base, patched
}

// A kernel against itself: at most 1 % false claims, more only
// by luck. And an added delay: the
// intervals cover it in at least 95 % of experiments.
func TestErrorAndCoverage(t *testing.T) {
	n := simulations(200)
	var all, allClaims, allMissMean, allMissMedian int
	defer func() {
		if allClaims > atMost(all, 0.01) || allMissMean*20 > 2*all || allMissMedian*20 > 2*all {
			t.Errorf("all noises together: %d false claims of %d, %d and %d intervals of %d miss", allClaims, all, allMissMean, allMissMedian, 2*all)
		}
	}()
	for name, noise := range noises {
		for _, boots := range []int{5, 9} {
			r := rand.New(rand.NewPCG(1, uint64(boots)))
			var claims, missMean, missMedian int
			for range n {
				for _, effect := range []float64{0, 10} {
					a, b := experiment(r, noise, boots, effect)
					c := compare(a, b, LowerIsBetter, Limits{Rounds: 499})
					if effect == 0 && c.Outcome.Claims() {
						claims++
					}
					const eps = 1e-9
					if c.Mean.Lo > effect+eps || c.Mean.Hi < effect-eps {
						missMean++
					}
					if c.Median.Lo > effect+eps || c.Median.Hi < effect-eps {
						missMedian++
					}
				}
			}
			t.Logf("%-14s %d boots: %.1f %% false claims, coverage of means %.1f %%, of medians %.1f %%", name, boots,
				100*float64(claims)/float64(n), 100-100*float64(missMean)/float64(2*n), 100-100*float64(missMedian)/float64(2*n))
			all, allClaims, allMissMean, allMissMedian = all+n, allClaims+claims, allMissMean+missMean, allMissMedian+missMedian
			if claims > atMost(n, 0.01) {
				t.Errorf("%s, %d boots: %d false claims of %d", name, boots, claims, n)
			}
			if missMean > atMost(2*n, 0.05) || missMedian > atMost(2*n, 0.05) {
				t.Errorf("%s, %d boots: %d (means) and %d (medians) of %d intervals miss", name, boots, missMean, missMedian, 2*n)
			}
		}
	}
}

// Ten metrics of one kernel: still at most 1 % of experiments make any false
// claim, more only by luck, whether the metrics go together or not, with a primary one or none.
func TestErrorOfManyMetrics(t *testing.T) {
	n := simulations(200)
	for _, c := range []struct {
		name    string
		noise   string
		shared  float64
		primary int
	}{{"alike", "normal", 0.9, 0}, {"apart", "normal", 0, 0}, {"apart, none primary", "normal", 0, -1}, {"bimodal", "bimodal", 0, -1},
		{"outliers", "outliers", 0.5, -1}, {"skewed", "skewed", 0, 0}, {"quantised", "quantised", 0, -1}, {"heavy tails", "heavy tails", 0, -1}} {
		r := rand.New(rand.NewPCG(2, 3))
		bad := 0
		for range n {
			sa, sb := experiment(r, noises[c.noise], 5, 0)
			rs := make([]Result, 10)
			for m := range rs {
				a, b := experiment(r, noises[c.noise], 5, 0)
				for i := range a {
					a[i] = c.shared*sa[i] + (1-c.shared)*a[i]
					b[i] = c.shared*sb[i] + (1-c.shared)*b[i]
				}
				rs[m] = Measure(a, b, LowerIsBetter, Limits{Rounds: 199})
			}
			Decide(rs, c.primary)
			for _, x := range rs {
				if x.Outcome.Claims() {
					bad++
					break
				}
			}
		}
		t.Logf("%s: %.1f %% of experiments make a false claim", c.name, 100*float64(bad)/float64(n))
		if bad > atMost(n, 0.01) {
			t.Errorf("%s: %d of %d", c.name, bad, n)
		}
	}
}

// What "would have seen" says is seen.
func TestDetectable(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	n := simulations(300)
	for _, boots := range []int{5, 10, 20} {
		// Sigma is 1 in this noise; the statement from a sample varies with the
		// sample's own spread, so the true one is asked for.
		a := []float64{}
		for i := range boots {
			a = append(a, float64(i))
		}
		sd := stat.StdDev(a, nil)
		for i := range a {
			a[i] /= sd
		}
		d := Detectable(a, a, 0.95, 0.01*first)
		seen := 0
		for range n {
			x, y := experiment(r, noises["normal"], boots, d)
			if compare(x, y, LowerIsBetter, Limits{Rounds: 499}).Outcome == Worse {
				seen++
			}
		}
		t.Logf("%d boots: %.2f standard deviations, seen in %.1f %%", boots, d, 100*float64(seen)/float64(n))
		if n-seen > atMost(n, 1-Power) {
			t.Errorf("%d boots: a difference of %.2f seen in %d of %d", boots, d, seen, n)
		}
	}
	if v := Detectable([]float64{1, 2, 3}, []float64{1, 2, 3}, 0.95, 0.01); !math.IsInf(v, 1) {
		t.Errorf("three values a side can never tell, got %g", v)
	}
}
