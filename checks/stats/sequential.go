// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/stat/distuv"
)

// A group-sequential plan looks at growing data several times and may stop at
// any look. Tested at 5 % each time, five looks would claim a difference that
// is not there in 14 % of experiments. So the 5 % are spent over the looks in
// proportion to the data seen (Lan and DeMets 1983, spending function of Kim
// and DeMets 1987 with exponent 1). The interval at a look is made at the
// look's nominal level; together these repeated intervals (Jennison and
// Turnbull 1989) hold with 95 % whichever rule stops the experiment, also a
// rule on their width, a clock or a person.

// Levels gives the nominal two-sided level for each look. n is the amount of
// data at each look (boots of an arm, ascending) and spent the part of the
// error that may be used up to and with it (ascending). Levels come from the
// joint normal distribution of the looks, by numerical integration; a look
// with a t statistic uses the same level with its own quantile (Jennison and
// Turnbull 2000, section 3.8).
func Levels(n []int, spent []float64) ([]float64, error) {
	if len(n) != len(spent) || len(n) == 0 {
		return nil, fmt.Errorf("%d looks with %d errors to spend", len(n), len(spent))
	}
	for i := range n {
		if n[i] <= 0 || spent[i] <= 0 || spent[i] >= 1 || i > 0 && (n[i] <= n[i-1] || spent[i] < spent[i-1]) {
			return nil, fmt.Errorf("look %d: data and error spent must grow: %v, %v", i+1, n, spent)
		}
	}
	key := fmt.Sprint(n, spent)
	if v, ok := levelsKnown.Load(key); ok {
		return slices.Clone(v.([]float64)), nil
	}
	levels := make([]float64, len(n))
	w := newWalk()
	for i := range n {
		left := spent[i]
		if i > 0 {
			left -= spent[i-1]
		}
		lo, hi := 0.0, 12.0
		for range 60 {
			if c := (lo + hi) / 2; w.crossing(float64(n[i]), c) > left {
				lo = c
			} else {
				hi = c
			}
		}
		c := (lo + hi) / 2
		levels[i] = 2 * distuv.UnitNormal.CDF(-c)
		w.step(float64(n[i]), c)
	}
	levelsKnown.Store(key, slices.Clone(levels))
	return levels, nil
}

// levelsKnown keeps results by arguments: an experiment asks again for each
// report.
var levelsKnown sync.Map

// walk carries the density of the score at the latest look, for walks that
// have not crossed: Armitage, McPherson and Rowe 1969.
type walk struct {
	n  float64
	at []float64 // grid; a single point of mass before the first look
	w  []float64 // density times the weight of Simpson's rule
}

func newWalk() *walk { return &walk{at: []float64{0}, w: []float64{1}} }

// crossing is the chance to be beyond ±c at n for the first time.
func (k *walk) crossing(n, c float64) float64 {
	b, sd := c*math.Sqrt(n), math.Sqrt(n-k.n)
	var sum float64
	for i, u := range k.at {
		sum += k.w[i] * (distuv.UnitNormal.CDF((u-b)/sd) + distuv.UnitNormal.CDF((-b-u)/sd))
	}
	return sum
}

// step goes on to n with the walks within ±c.
func (k *walk) step(n, c float64) {
	const points = 401 // odd, for Simpson's rule
	b, sd := c*math.Sqrt(n), math.Sqrt(n-k.n)
	// Nothing is left beyond eight standard deviations.
	b = math.Min(b, 8*math.Sqrt(n))
	h := 2 * b / (points - 1)
	at, w := make([]float64, points), make([]float64, points)
	for j := range at {
		at[j] = -b + float64(j)*h
		var f float64
		for i, u := range k.at {
			z := (at[j] - u) / sd
			f += k.w[i] * math.Exp(-z*z/2)
		}
		f /= sd * math.Sqrt(2*math.Pi)
		switch {
		case j == 0 || j == points-1:
			w[j] = f * h / 3
		case j%2 == 1:
			w[j] = f * 4 * h / 3
		default:
			w[j] = f * 2 * h / 3
		}
	}
	k.n, k.at, k.w = n, at, w
}
