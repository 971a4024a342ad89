// SPDX-License-Identifier: Apache-2.0

// Package stats compares measurements of two kernels and says so when they do
// not allow an answer. It works on samples, one value for each run, never on
// means; it prefers "no difference shown" and "n/a" to a number that means
// nothing.
//
// Rules: medians; a rank test (Mann-Whitney U, golang.org/x/perf/benchmath)
// that no single outlier can turn; a bootstrap interval for the change of the
// median; a smallest effect that is worth naming; at least MinRuns runs on
// each side.
package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"

	"golang.org/x/perf/benchmath"

	"patchcheck/checks"
)

// Better says which direction of a metric is good.
type Better int

const (
	HigherIsBetter Better = iota // throughput
	LowerIsBetter                // latency, time
)

// Limits of a comparison.
type Limits struct {
	MinRuns    int     // on each side; default 5, with which p can reach 0.008
	Alpha      float64 // of the rank test; default 0.05
	Floor      float64 // smallest relative change of the median that counts; default 0.05
	Confidence float64 // of the interval; default 0.95
}

func (l Limits) withDefaults() Limits {
	if l.MinRuns == 0 {
		l.MinRuns = 5
	}
	if l.Alpha == 0 {
		l.Alpha = 0.05
	}
	if l.Floor == 0 {
		l.Floor = 0.05
	}
	if l.Confidence == 0 {
		l.Confidence = 0.95
	}
	return l
}

// Outcome of a comparison.
type Outcome string

const (
	NoDifference Outcome = "no difference shown"
	Improved     Outcome = "better"
	Worse        Outcome = "worse"
	TooFew       Outcome = "too few runs"
	NotUsable    Outcome = "not usable"
)

// Result of a comparison of base with patched.
type Result struct {
	Outcome  Outcome  `json:"outcome"`
	NBase    int      `json:"n_base"`
	NPatched int      `json:"n_patched"`
	Base     float64  `json:"base"`    // median
	Patched  float64  `json:"patched"` // median
	Delta    float64  `json:"delta"`   // relative change of the median, 0.2 is +20 %
	Lo       float64  `json:"lo"`      // interval of Delta
	Hi       float64  `json:"hi"`
	P        float64  `json:"p"` // of the rank test
	Warnings []string `json:"warnings,omitempty"`
}

// Rules of this package.
var Rules = []checks.Rule{ruleWorse}

var ruleWorse = checks.Rule{ID: "perf.worse", Severity: checks.Error, Title: "a measurement got worse",
	Source: "Mann-Whitney U over repeated runs, bootstrap interval of the median", Fix: "run more repeats; look for what the patch added to the measured path"}

// bootstrapRounds resamplings give the 95 % interval to about a hundredth of
// its width.
const bootstrapRounds = 2000

// Compare compares two samples, one value for each run.
func Compare(base, patched []float64, better Better, lim Limits) Result {
	lim = lim.withDefaults()
	r := Result{NBase: len(base), NPatched: len(patched), P: 1}
	for _, s := range [][]float64{base, patched} {
		for _, v := range s {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				r.Outcome = NotUsable
				r.Warnings = append(r.Warnings, "a value is no number")
				return r
			}
		}
	}
	if len(base) > 0 {
		r.Base = Median(base)
	}
	if len(patched) > 0 {
		r.Patched = Median(patched)
	}
	if len(base) < lim.MinRuns || len(patched) < lim.MinRuns {
		r.Outcome = TooFew
		r.Warnings = append(r.Warnings, fmt.Sprintf("n=%d and %d, at least %d runs of each are needed", len(base), len(patched), lim.MinRuns))
		return r
	}
	if r.Base == 0 {
		r.Outcome = NotUsable
		r.Warnings = append(r.Warnings, "the base's median is 0: no relative change can be given")
		return r
	}
	r.Delta = r.Patched/r.Base - 1
	r.Lo, r.Hi = bootstrap(base, patched, lim.Confidence)

	// NewSample sorts what it is given.
	th := &benchmath.Thresholds{CompareAlpha: lim.Alpha}
	a := benchmath.NewSample(append([]float64(nil), base...), th)
	b := benchmath.NewSample(append([]float64(nil), patched...), th)
	c := benchmath.AssumeNothing.Compare(a, b)
	r.P = c.P
	for _, w := range c.Warnings {
		r.Warnings = append(r.Warnings, w.Error())
	}
	if w := spread(base); w > 0.5 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the base's runs spread over %.0f %% of their median: a noisy host", w*100))
	}
	r.Outcome = NoDifference
	if r.P >= lim.Alpha || math.Abs(r.Delta) < lim.Floor || r.Lo <= 0 && r.Hi >= 0 {
		return r
	}
	if (r.Delta > 0) == (better == HigherIsBetter) {
		r.Outcome = Improved
	} else {
		r.Outcome = Worse
	}
	return r
}

// Holm corrects several comparisons of one run: with many metrics one of them
// differs by chance. It turns those whose p does not stand the correction
// into "no difference shown" and says so.
func Holm(rs []Result, alpha float64) {
	if alpha == 0 {
		alpha = 0.05
	}
	var at []int
	for i := range rs {
		if rs[i].Outcome != TooFew && rs[i].Outcome != NotUsable {
			at = append(at, i)
		}
	}
	sort.SliceStable(at, func(i, j int) bool { return rs[at[i]].P < rs[at[j]].P })
	stop := false
	for k, i := range at {
		if rs[i].P > alpha/float64(len(at)-k) {
			stop = true
		}
		if stop && (rs[i].Outcome == Worse || rs[i].Outcome == Improved) {
			rs[i].Outcome = NoDifference
			rs[i].Warnings = append(rs[i].Warnings, fmt.Sprintf("p=%.3f does not stand among %d comparisons", rs[i].P, len(at)))
		}
	}
}

// bootstrap gives the interval of median(patched)/median(base)-1. The random
// source is fixed, so that a report can be made again.
func bootstrap(base, patched []float64, confidence float64) (lo, hi float64) {
	rnd := rand.New(rand.NewPCG(1, 2))
	ds := make([]float64, 0, bootstrapRounds)
	a := make([]float64, len(base))
	b := make([]float64, len(patched))
	for range bootstrapRounds {
		for i := range a {
			a[i] = base[rnd.IntN(len(base))]
		}
		for i := range b {
			b[i] = patched[rnd.IntN(len(patched))]
		}
		if m := medianInPlace(a); m != 0 {
			ds = append(ds, medianInPlace(b)/m-1)
		}
	}
	if len(ds) == 0 {
		return math.Inf(-1), math.Inf(1)
	}
	sort.Float64s(ds)
	tail := (1 - confidence) / 2
	at := func(q float64) float64 { return ds[min(len(ds)-1, int(q*float64(len(ds))))] }
	return at(tail), at(1 - tail)
}

// Median of a sample that is not empty.
func Median(xs []float64) float64 { return medianInPlace(append([]float64(nil), xs...)) }

func medianInPlace(xs []float64) float64 {
	sort.Float64s(xs)
	n := len(xs)
	if n%2 == 1 {
		return xs[n/2]
	}
	return (xs[n/2-1] + xs[n/2]) / 2
}

// spread is the distance of the quartiles by the median.
func spread(xs []float64) float64 {
	s := append([]float64(nil), xs...)
	sort.Float64s(s)
	n := len(s)
	m := medianInPlace(s)
	if m == 0 || n < 4 {
		return 0
	}
	return math.Abs((s[(3*n)/4] - s[n/4]) / m)
}

func (r Result) String() string {
	switch r.Outcome {
	case TooFew:
		return fmt.Sprintf("n/a (n=%d)", min(r.NBase, r.NPatched))
	case NotUsable:
		return "n/a"
	case NoDifference:
		return fmt.Sprintf("no difference shown (p=%.3f, n=%d+%d)", r.P, r.NBase, r.NPatched)
	}
	return fmt.Sprintf("%s: %+.1f %% [%+.1f, %+.1f] (p=%.3f, n=%d+%d)", r.Outcome, r.Delta*100, r.Lo*100, r.Hi*100, r.P, r.NBase, r.NPatched)
}

// Finding of a metric that got worse; ok is false for all other outcomes.
func (r Result) Finding(metric string, where checks.Where) (f checks.Finding, ok bool) {
	if r.Outcome != Worse {
		return f, false
	}
	return ruleWorse.New(where, "%s: %s", metric, r), true
}

// Needed is how many samples a quantile needs: ten beyond it.
func Needed(q float64) int {
	if q >= 1 {
		return math.MaxInt
	}
	// 10/(1-0.9) is a little over 100 in binary.
	return int(math.Ceil(10/(1-q) - 1e-6))
}

// Percentile of a sample by the nearest rank; ok is false when the sample is
// too small for it.
func Percentile(xs []float64, q float64) (v float64, ok bool) {
	if len(xs) < Needed(q) || len(xs) == 0 {
		return 0, false
	}
	s := append([]float64(nil), xs...)
	sort.Float64s(s)
	return s[min(len(s)-1, max(0, int(math.Ceil(q*float64(len(s))))-1))], true
}

// NA is what stands where a sample of n was too small.
func NA(n int) string { return fmt.Sprintf("n/a (n=%d)", n) }

// ExcludedRate is the failure rate that n passes without a failure exclude at
// the given confidence: a flake rarer than this may still be there. One for
// no passes.
func ExcludedRate(n int, confidence float64) float64 {
	if n <= 0 {
		return 1
	}
	return 1 - math.Pow(1-confidence, 1/float64(n))
}
