// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"
	"strings"
	"testing"

	"patchcheck/checks"
)

func rep(n int, v float64) []float64 {
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = v
	}
	return xs
}

// compare compares two samples, one value for each unit, as the only
// comparison there is.
func compare(base, patched []float64, better Better, lim Limits) Result {
	rs := []Result{Measure(base, patched, better, lim)}
	Decide(rs, 0)
	return rs[0]
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		name    string
		a, b    []float64
		better  Better
		outcome Outcome
		shown   string
	}{
		{"one outlier hides nothing", append(rep(9, 1), 10), rep(10, 1.2), LowerIsBetter, Worse, "worse: +20.0 %"},
		{"noise", []float64{100, 76, 115, 124, 130}, []float64{109, 149, 121, 122, 131}, HigherIsBetter, NoDifference, "no difference shown"},
		{"clear loss", []float64{100, 101, 99, 100, 102}, []float64{80, 81, 79, 80, 82}, HigherIsBetter, Worse, "worse: -19.9 % [-21.6, -18.2]"},
		{"clear gain", []float64{100, 101, 99, 100, 102}, []float64{80, 81, 79, 80, 82}, LowerIsBetter, Improved, "better: -19.9 % [-21.6, -18.2]"},
		{"below the floor", []float64{100, 100.1, 99.9, 100, 100.2}, []float64{103, 103.1, 102.9, 103, 103.2}, LowerIsBetter, NoDifference, "no difference"},
		{"four runs", rep(4, 1), rep(5, 2), LowerIsBetter, TooFew, "n/a (n=4)"},
		{"no runs", nil, nil, LowerIsBetter, TooFew, "n/a (n=0)"},
		{"all equal", rep(6, 5), rep(6, 5), LowerIsBetter, NoDifference, "no difference"},
		{"base zero has no share", rep(6, 0), rep(6, 5), LowerIsBetter, Worse, "worse: +5 [+5, +5]"},
		{"not a number", append(rep(6, 1), math.NaN()), rep(6, 5), LowerIsBetter, NotUsable, "n/a"},
	} {
		a := append([]float64(nil), c.a...)
		r := compare(c.a, c.b, c.better, Limits{Floor: LooseFloor})
		if r.Outcome != c.outcome || !strings.HasPrefix(r.String(), c.shown) {
			t.Errorf("%s: %+v %s", c.name, r, r)
		}
		for i := range a {
			if a[i] != c.a[i] && !math.IsNaN(a[i]) {
				t.Errorf("%s: the sample was changed", c.name)
				break
			}
		}
		if _, ok := r.Finding("x", checks.Where{}); ok != (c.outcome == Worse) {
			t.Errorf("%s: finding", c.name)
		}
	}
}

// With several comparisons one of them differs by chance.
func TestDecide(t *testing.T) {
	mk := func(rank, boot float64) Result {
		c := Contrast{Base: 100, Patched: 110, Diff: 10, Lo: 1, Hi: 19, P: boot}
		return Result{Level: 0.05, Alpha: 0.05, RankP: rank, WelchP: boot, Mean: c, Median: Contrast{P: 1}, Cliff: 1, Better: LowerIsBetter}
	}
	for _, c := range []struct {
		name    string
		rs      []Result
		primary int
		want    []bool
	}{
		{"alone", []Result{mk(0.04, 0.04)}, -1, []bool{true}},
		{"among many", []Result{mk(0.01, 0.03), mk(0.01, 0.001), mk(0.5, 0.5)}, -1, []bool{false, true, false}},
		{"the primary is not corrected for the others", []Result{mk(0.03, 0.03), mk(0.5, 0.5), mk(0.5, 0.5)}, 0, []bool{true, false, false}},
		{"but leaves them a part of the error", []Result{mk(0.045, 0.04), mk(0.5, 0.5)}, 0, []bool{false, false}},
		{"the others have a fifth when the primary does not stand", []Result{mk(0.5, 0.5), mk(0.01, 0.01)}, 0, []bool{false, false}},
		{"and all of it when it does", []Result{mk(0.01, 0.01), mk(0.01, 0.01)}, 0, []bool{true, true}},
		{"no rank test, no claim", []Result{mk(0.06, 0.001)}, -1, []bool{false}},
	} {
		Decide(c.rs, c.primary)
		for i, r := range c.rs {
			if r.Outcome.Claims() != c.want[i] {
				t.Errorf("%s: %d: %s, adjusted p %g", c.name, i, r.Outcome, r.PAdj)
			}
		}
	}
	rs := []Result{{Outcome: TooFew}, mk(0.04, 0.04)}
	if Decide(rs, -1); rs[0].Outcome != TooFew || !rs[1].Outcome.Claims() {
		t.Errorf("what could not be compared is no comparison: %+v", rs)
	}
}

func TestPercentile(t *testing.T) {
	for q, n := range map[float64]int{0.5: 20, 0.9: 100, 0.95: 200, 0.99: 1000, 0.999: 10000} {
		if Needed(q) != n {
			t.Errorf("%g needs %d, got %d", q, n, Needed(q))
		}
	}
	xs := make([]float64, 100)
	for i := range xs {
		xs[i] = float64(100 - i)
	}
	if v, ok := Percentile(xs, 0.9); !ok || v != 90 {
		t.Errorf("p90 %v %v", v, ok)
	}
	if _, ok := Percentile(xs[:99], 0.9); ok {
		t.Error("p90 of 99")
	}
	if _, ok := Percentile(xs, 1); ok {
		t.Error("p100")
	}
	if NA(20) != "n/a (n=20)" {
		t.Error(NA(20))
	}
}

func TestExcludedRate(t *testing.T) {
	if r := ExcludedRate(20, 0.95); math.Abs(r-0.1391) > 0.001 {
		t.Error(r)
	}
	if ExcludedRate(0, 0.95) != 1 {
		t.Error("none")
	}
	// The rule of three: about 3/n, exactly 1 - 0.05^(1/n).
	for n, want := range map[int]float64{1: 0.95, 10: 0.2589, 30: 0.0950} {
		if got := ExcludedRate(n, 0.95); got < want-0.001 || got > want+0.001 {
			t.Errorf("%d passes: %.4f, want %.4f", n, got, want)
		}
	}
}
