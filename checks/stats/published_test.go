// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

func near(t *testing.T, what string, got, want, eps float64) {
	t.Helper()
	if !(math.Abs(got-want) <= eps) {
		t.Errorf("%s: %.6g, want %.6g", what, got, want)
	}
}

// Five looks at equal distances, error 0.05 two-sided. Limits of O'Brien and
// Fleming (1979) and Pocock (1977) as tabulated in Jennison and Turnbull
// (2000), tables 2.1 and 2.3; the error of testing five times at 5 % from
// Armitage, McPherson and Rowe (1969), table 2.
func TestPublishedBoundaries(t *testing.T) {
	n := []int{1, 2, 3, 4, 5}
	obf, pocock, naive := make([]float64, 5), make([]float64, 5), make([]float64, 5)
	for i := range n {
		obf[i], pocock[i], naive[i] = 2.040*math.Sqrt(5/float64(n[i])), 2.413, 1.960
	}
	near(t, "O'Brien-Fleming", crossing(n, obf), 0.05, 2e-4)
	near(t, "Pocock", crossing(n, pocock), 0.05, 2e-4)
	near(t, "naive", crossing(n, naive), 0.142, 5e-4)
}

// The spending function of O'Brien-Fleming type at five equal looks: the
// limits that Lan and DeMets' program and its successors print (Reboussin,
// DeMets, Kim and Lan 2000).
func TestPublishedSpending(t *testing.T) {
	n := []int{1, 2, 3, 4, 5}
	spent := make([]float64, 5)
	for i := range spent {
		// Two-sided 0.05 as two one-sided 0.025, spent apart.
		z := distuv.UnitNormal.Quantile(1 - 0.025/2)
		spent[i] = 4 * distuv.UnitNormal.CDF(-z/math.Sqrt(float64(n[i])/5))
	}
	levels, err := Levels(n, spent)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{4.8769, 3.3569, 2.6803, 2.2898, 2.0310} {
		near(t, "limit", distuv.UnitNormal.Quantile(1-levels[i]/2), want, 2e-3)
	}
	one, err := Levels([]int{5}, []float64{0.05})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "one look", one[0], 0.05, 1e-9)
	if _, err := Levels([]int{5, 5}, []float64{0.01, 0.05}); err == nil {
		t.Error("a look without new data")
	}
}

// Borenstein, Hedges, Higgins and Rothstein (2009), chapter 4: means 103 and
// 100, standard deviations 5.5 and 4.5, 50 values each: g = 0.5924.
func TestPublishedHedges(t *testing.T) {
	sample := func(mean, sd float64) []float64 {
		xs := make([]float64, 50)
		for i := range xs {
			xs[i] = float64(i)
		}
		m, s := stat.MeanStdDev(xs, nil)
		for i := range xs {
			xs[i] = mean + (xs[i]-m)/s*sd
		}
		return xs
	}
	near(t, "g", Hedges(sample(100, 4.5), sample(103, 5.5)), 0.5924, 1e-4)
}

// Efron and Tibshirani (1993), table 2.1, survival of mice: the difference of
// means is 30.63 with a bootstrap standard error of 26.85, that of medians 48
// with one of 40.
func TestPublishedMice(t *testing.T) {
	treated := []float64{94, 197, 16, 38, 99, 141, 23}
	control := []float64{52, 104, 146, 10, 51, 30, 40, 27, 46}
	c := MeanContrast(control, treated, 0.95, 0)
	near(t, "mean", c.Diff, 30.63, 0.01)
	if c.Excludes0() || c.P < 0.1 || c.Hi-c.Lo < 2*1.96*26.85 || c.Hi-c.Lo > 2*3*28.93 {
		t.Errorf("means: %+v", c)
	}
	m := MedianContrast(control, treated, 0.95, 0)
	near(t, "median", m.Diff, 48, 1e-9)
	if m.Excludes0() || m.P < 0.1 {
		t.Errorf("medians: %+v", m)
	}
	// Mann and Whitney's U of these is 26 for the controls of 63 pairs.
	near(t, "Cliff", Cliff(control, treated), (63-2*26)/63.0, 0.1)
}

// With many values the studentised bootstrap gives Student's interval.
func TestMeanContrastLargeSample(t *testing.T) {
	a, b := make([]float64, 200), make([]float64, 200)
	for i := range a {
		a[i] = distuv.UnitNormal.Quantile((float64(i) + 0.5) / 200)
		b[i] = a[i] + 0.3
	}
	c := MeanContrast(a, b, 0.95, 9999)
	half := 1.966 * math.Sqrt(2*stat.Variance(a, nil)/200)
	near(t, "half width", (c.Hi-c.Lo)/2, half, half/30)
	e := MedianContrast(a, b, 0.95, 9999)
	near(t, "median's half width", (e.Hi-e.Lo)/2, half*math.Sqrt(math.Pi/2), half/4)
}

// crossing gives the chance that a random walk without drift is ever outside
// ±c[i] at look i: the total error of a plan with these limits.
func crossing(n []int, c []float64) float64 {
	w := newWalk()
	var sum float64
	for i := range n {
		sum += w.crossing(float64(n[i]), c[i])
		w.step(float64(n[i]), c[i])
	}
	return sum
}
