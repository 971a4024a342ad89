// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"
	"math/rand/v2"
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
		{"clear loss", []float64{100, 101, 99, 100, 102}, []float64{80, 81, 79, 80, 82}, HigherIsBetter, Worse, "worse: -20.0 %"},
		{"clear gain", []float64{100, 101, 99, 100, 102}, []float64{80, 81, 79, 80, 82}, LowerIsBetter, Improved, "better: -20.0 %"},
		{"below the floor", []float64{100, 100.1, 99.9, 100, 100.2}, []float64{103, 103.1, 102.9, 103, 103.2}, LowerIsBetter, NoDifference, "no difference"},
		{"four runs", rep(4, 1), rep(5, 2), LowerIsBetter, TooFew, "n/a (n=4)"},
		{"no runs", nil, nil, LowerIsBetter, TooFew, "n/a (n=0)"},
		{"all equal", rep(6, 5), rep(6, 5), LowerIsBetter, NoDifference, "no difference"},
		{"base zero", rep(6, 0), rep(6, 5), LowerIsBetter, NotUsable, "n/a"},
		{"not a number", append(rep(6, 1), math.NaN()), rep(6, 5), LowerIsBetter, NotUsable, "n/a"},
	} {
		a := append([]float64(nil), c.a...)
		r := Compare(c.a, c.b, c.better, Limits{})
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

// The same job twice must not fail the gate more often than alpha allows.
func TestFalseAlarms(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	alarms := 0
	const rounds = 300
	for range rounds {
		a, b := make([]float64, 5), make([]float64, 5)
		for i := range a {
			a[i], b[i] = 100*math.Exp(rnd.NormFloat64()*0.2), 100*math.Exp(rnd.NormFloat64()*0.2)
		}
		if o := Compare(a, b, HigherIsBetter, Limits{}).Outcome; o == Worse || o == Improved {
			alarms++
		}
	}
	if alarms > rounds*6/100 {
		t.Errorf("%d of %d", alarms, rounds)
	}
}

func TestHolm(t *testing.T) {
	rs := []Result{{Outcome: Worse, P: 0.04}, {Outcome: NoDifference, P: 0.5}, {Outcome: Worse, P: 0.001}, {Outcome: TooFew, P: 1}}
	Holm(rs, 0)
	if rs[0].Outcome != NoDifference || rs[2].Outcome != Worse || len(rs[0].Warnings) != 1 {
		t.Errorf("%+v", rs)
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
}
