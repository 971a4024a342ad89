// SPDX-License-Identifier: Apache-2.0

// Package stats compares measurements of two kernels and says so when they do
// not allow an answer. It works on one value for each independent unit (a
// boot, or a run where boots cannot be told apart), never on I/Os and never on
// means of means.
//
// A difference is claimed when three things agree: the rank test
// (Mann-Whitney U, golang.org/x/perf/benchmath), whose error holds whatever
// the noise looks like and which no single outlier can turn; a bootstrap
// interval, of the means or of the medians, that lies on one side of zero; and
// the correction for the number of comparisons. Everything else is "no
// difference shown", together with the size that would have been seen.
package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"

	"golang.org/x/perf/benchmath"

	"patchcheck/checks"
)

// Better says which direction of a metric is good.
type Better int

const (
	HigherIsBetter Better = iota // throughput
	LowerIsBetter                // latency, time
	NeitherIsBetter
)

// Limits of a comparison.
type Limits struct {
	MinRuns int     // on each side; default 5, with which the rank test can reach 0.008
	Alpha   float64 // chance of a false claim; default 0.01
	Level   float64 // of intervals, as an error; default 0.05. Both are smaller at a look at unfinished data
	// Floor is the smallest relative change worth a claim. Runs whose order
	// nobody randomised differ by some percent for reasons of their own; see
	// LooseFloor.
	Floor  float64
	Rounds int // of bootstraps; default by size of the sample
}

// LooseFloor is the Floor for results that were not made in random order.
const LooseFloor = 0.05

func (l Limits) withDefaults() Limits {
	l.MinRuns = cmp.Or(l.MinRuns, 5)
	l.Alpha = cmp.Or(l.Alpha, 0.01)
	l.Level = cmp.Or(l.Level, 0.05)
	return l
}

// Outcome of a comparison.
type Outcome string

const (
	NoDifference Outcome = "no difference shown"
	Improved     Outcome = "better"
	Worse        Outcome = "worse"
	Differs      Outcome = "different" // without a better side
	Same         Outcome = "the same"  // exact counts only
	TooFew       Outcome = "too few runs"
	NotUsable    Outcome = "not usable"
)

// Claims tells whether the outcome says that the kernels differ.
func (o Outcome) Claims() bool { return o == Improved || o == Worse || o == Differs }

// Answers tells whether there was a comparison at all.
func (o Outcome) Answers() bool { return o != TooFew && o != NotUsable }

// Result of a comparison of base with patched.
type Result struct {
	Outcome  Outcome  `json:"outcome"`
	Better   Better   `json:"-"`
	NBase    int      `json:"n_base"`
	NPatched int      `json:"n_patched"`
	Level    float64  `json:"level"`           // error of the intervals: 0.05 for 95 %
	Alpha    float64  `json:"alpha"`           // p values from here on claim nothing
	Mean     Contrast `json:"mean"`            // of the means of the units
	Median   Contrast `json:"median"`          // of the medians of the units
	RankP    float64  `json:"rank_p"`          // Mann-Whitney U, two-sided
	WelchP   float64  `json:"welch_p"`         // Welch's t test, two-sided; only for the correction for many comparisons
	Cliff    float64  `json:"cliff"`           // effect size of the rank test, -1 to 1
	Hedges   *float64 `json:"hedges_g"`        // standardised difference of means; null where nothing varies
	Seen     *float64 `json:"would_have_seen"` // difference of means found with chance Power; null: none
	PAdj     float64  `json:"p_adjusted"`      // for the number of comparisons; set by Decide
	// Uncorrected is the number of comparisons among which a difference that
	// would stand alone does not; 0 otherwise.
	Uncorrected int      `json:"uncorrected,omitempty"`
	Spread      float64  `json:"spread"` // distance of the base's quartiles by its median
	Warnings    []string `json:"warnings,omitempty"`

	lim Limits
}

// Location is the contrast that the claim rests on: the means, unless only the
// medians differ or an outlier hides the means.
func (r Result) Location() Contrast {
	if r.Median.Excludes0() && !r.Mean.Excludes0() {
		return r.Median
	}
	return r.Mean
}

// Relative gives a contrast as shares of its base value; ok is false when that
// is zero.
func (c Contrast) Relative() (d, lo, hi float64, ok bool) {
	if c.Base == 0 {
		return 0, 0, 0, false
	}
	d, lo, hi = c.Diff/c.Base, c.Lo/c.Base, c.Hi/c.Base
	if c.Base < 0 {
		lo, hi = hi, lo
	}
	return d, lo, hi, true
}

// Rules of this package.
var Rules = []checks.Rule{ruleWorse}

var ruleWorse = checks.Rule{ID: "perf.worse", Severity: checks.Error, Title: "a measurement got worse",
	Source: "Mann-Whitney U over repeated boots or runs, bootstrap interval of the difference", Fix: "run more repeats; look for what the patch added to the measured path"}

// Measure computes everything but the outcome, which needs all comparisons
// that are made together: see Decide.
func Measure(base, patched []float64, better Better, lim Limits) Result {
	lim = lim.withDefaults()
	r := Result{NBase: len(base), NPatched: len(patched), Better: better, RankP: 1, WelchP: 1, PAdj: 1, Level: lim.Level, Alpha: lim.Alpha, lim: lim}
	r.Mean.P, r.Median.P = 1, 1
	for _, s := range [][]float64{base, patched} {
		for _, v := range s {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				r.Outcome = NotUsable
				r.Warnings = append(r.Warnings, "a value is no number")
				return r
			}
		}
	}
	if len(base) < lim.MinRuns || len(patched) < lim.MinRuns {
		r.Outcome = TooFew
		r.Warnings = append(r.Warnings, fmt.Sprintf("n=%d and %d, at least %d of each are needed", len(base), len(patched), lim.MinRuns))
		if len(base) > 0 && len(patched) > 0 {
			r.Median = Contrast{Base: Median(base), Patched: Median(patched), P: 1}
			r.Median.Diff = r.Median.Patched - r.Median.Base
			r.Mean = Contrast{Base: mean(base), Patched: mean(patched), P: 1}
			r.Mean.Diff = r.Mean.Patched - r.Mean.Base
		}
		return r
	}
	r.Mean = MeanContrast(base, patched, 1-lim.Level, lim.Rounds)
	r.Median = MedianContrast(base, patched, 1-lim.Level, lim.Rounds)
	r.Cliff = Cliff(base, patched)
	if g := Hedges(base, patched); !math.IsNaN(g) && !math.IsInf(g, 0) {
		r.Hedges = &g
	}
	if d := Detectable(base, patched, 1-lim.Level, lim.Alpha*first); !math.IsNaN(d) && !math.IsInf(d, 0) {
		r.Seen = &d
	}

	// NewSample sorts what it is given.
	th := &benchmath.Thresholds{CompareAlpha: lim.Alpha}
	a, b := benchmath.NewSample(slices.Clone(base), th), benchmath.NewSample(slices.Clone(patched), th)
	c := benchmath.AssumeNothing.Compare(a, b)
	r.RankP = c.P
	if r.WelchP = benchmath.AssumeNormal.Compare(a, b).P; r.Mean.Lo == r.Mean.Hi {
		r.WelchP = r.Mean.P // no variance, no t test
	}
	for _, w := range c.Warnings {
		r.Warnings = append(r.Warnings, w.Error())
	}
	if r.Spread = spread(base); r.Spread > 0.5 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the base's values spread over %.0f %% of their median: a noisy host", r.Spread*100))
	}
	return r
}

// first is the part of the error that the primary comparison may use; the
// others share the rest, or all of it once the primary's difference stands
// (the fallback procedure of Wiens 2003).
const first = 0.8

// Decide sets the outcomes of comparisons that are made together, so that the
// chance of any false claim among them stays below their error. primary is the
// index of the comparison that the experiment was made for, -1 when there is
// none; it is judged by the rank test and the intervals alone. The others also
// need a p value that stands Holm's correction.
func Decide(rs []Result, primary int) {
	var others []int
	for i := range rs {
		if rs[i].Outcome.Answers() && i != primary {
			others = append(others, i)
		}
	}
	share := 1.0
	if primary >= 0 && rs[primary].Outcome.Answers() {
		r := &rs[primary]
		r.PAdj = r.RankP
		if len(others) > 0 {
			r.PAdj, share = math.Min(1, r.RankP/first), 1-first
		}
		if r.decide(r.PAdj); r.Outcome.Claims() {
			share = 1
		}
	}
	sort.SliceStable(others, func(i, j int) bool { return rs[others[i]].familyP() < rs[others[j]].familyP() })
	adj := 0.0
	for k, i := range others {
		r := &rs[i]
		p := r.familyP()
		if len(others) == 1 && share == 1 {
			p = r.RankP // nothing to correct
		}
		// Adjusted values do not fall along the order.
		adj = math.Max(adj, math.Min(1, p*float64(len(others)-k)/share))
		r.PAdj = math.Max(adj, r.RankP)
		r.decide(r.PAdj)
		if r.Outcome == NoDifference && r.RankP < r.Alpha && r.Location().Excludes0() && r.PAdj >= r.Alpha && len(rs) > 1 {
			r.Uncorrected = len(rs)
		}
	}
}

// familyP is the p value that is corrected for the number of comparisons: of
// the better of two contrasts, corrected for the choice. The rank test cannot
// serve: with five values a side its smallest p is 0.008, which no correction
// for more than six comparisons leaves significant. Nor can the bootstrap of
// means, whose resamples of five values say little about one in a thousand.
// That Welch's test assumes normal samples does not matter here: the rank test
// has to agree, and it assumes nothing.
func (r Result) familyP() float64 { return math.Min(1, 2*math.Min(r.WelchP, r.Median.P)) }

func (r *Result) decide(p float64) {
	r.Outcome = NoDifference
	c := r.Location()
	if p >= r.Alpha || r.RankP >= r.Alpha || !c.Excludes0() {
		return
	}
	// Means that say the contrary of the ranks are an outlier's.
	if c.Diff > 0 != (r.Cliff > 0) {
		return
	}
	if d, _, _, ok := c.Relative(); ok && math.Abs(d) < r.lim.Floor {
		r.Warnings = append(r.Warnings, fmt.Sprintf("a change of %+.1f %% is below the %g %% that count for these results", d*100, r.lim.Floor*100))
		return
	}
	switch {
	case r.Better == NeitherIsBetter:
		r.Outcome = Differs
	case (c.Diff > 0) == (r.Better == HigherIsBetter):
		r.Outcome = Improved
	default:
		r.Outcome = Worse
	}
}

func mean(xs []float64) float64 {
	var s float64
	for _, x := range xs {
		s += x
	}
	return s / float64(len(xs))
}

// Median of a sample that is not empty.
func Median(xs []float64) float64 { return medianInPlace(append([]float64(nil), xs...)) }

func medianInPlace(xs []float64) float64 {
	slices.Sort(xs)
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

// String is the result in one line, in percent of the base.
func (r Result) String() string {
	n := fmt.Sprintf("p=%.3f, n=%d+%d", r.RankP, r.NBase, r.NPatched)
	switch r.Outcome {
	case TooFew:
		return fmt.Sprintf("n/a (n=%d)", min(r.NBase, r.NPatched))
	case NotUsable:
		return "n/a"
	case NoDifference, "":
		if r.Uncorrected > 0 {
			return fmt.Sprintf("%s (not significant among %d comparisons, %s)", NoDifference, r.Uncorrected, n)
		}
		if r.Weak() {
			return fmt.Sprintf("%s (a claim needs p<%.2g, %s)", NoDifference, r.Alpha, n)
		}
		if s, ok := r.SeenShare(); ok {
			n = fmt.Sprintf("would have seen %s %%, %s", Figures(s*100, 2), n)
		}
		return fmt.Sprintf("%s (%s)", NoDifference, n)
	}
	c := r.Location()
	d, lo, hi, ok := c.Relative()
	if !ok {
		return fmt.Sprintf("%s: %+.4g [%+.4g, %+.4g] (%s)", r.Outcome, c.Diff, c.Lo, c.Hi, n)
	}
	return fmt.Sprintf("%s: %+.1f %% [%+.1f, %+.1f] (%s)", r.Outcome, d*100, lo*100, hi*100, n)
}

// Weak tells whether the interval leaves out zero, so that a reader may well
// see a difference, and yet p is too large for a claim.
func (r Result) Weak() bool {
	return r.Outcome == NoDifference && r.Uncorrected == 0 && r.RankP >= r.Alpha && r.RankP < r.Level && r.Location().Excludes0()
}

// SeenShare is Seen as a share of the base's mean.
func (r Result) SeenShare() (float64, bool) {
	if r.Seen == nil || *r.Seen == 0 || r.Mean.Base == 0 {
		return 0, false
	}
	return math.Abs(*r.Seen / r.Mean.Base), true
}

// Figures prints x with n significant digits and no exponent.
func Figures(x float64, n int) string {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	digits := n - 1 - int(math.Floor(math.Log10(math.Abs(x))))
	return strconv.FormatFloat(x, 'f', max(0, digits), 64)
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
