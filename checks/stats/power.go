// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	rank "github.com/aclements/go-moremath/stats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Power is the chance with which Detectable's difference would have been
// found.
const Power = 0.95

// Detectable is the smallest difference of means, in the unit of the samples,
// that this comparison would have found with the chance Power, given the
// spread that the samples show. It is what "no difference shown" is worth.
// level is that of the interval, alpha that of the rank test. NaN with fewer
// than two values a side, infinite where the rank test can never answer.
func Detectable(base, patched []float64, level, alpha float64) float64 {
	na, nb := len(base), len(patched)
	if na < 2 || nb < 2 {
		return math.NaN()
	}
	df := float64(na + nb - 2)
	pooled := math.Sqrt((float64(na-1)*stat.Variance(base, nil) + float64(nb-1)*stat.Variance(patched, nil)) / df)
	return pooled * shiftNeeded(na, nb, level, alpha)
}

type powerKey struct {
	na, nb       int
	level, alpha float64
}

var (
	powerMu    sync.Mutex
	powerCache = map[powerKey]float64{}
)

// shiftNeeded is the shift, in standard deviations, at which normal samples
// pass both the interval and the rank test in Power of 2000 simulated
// comparisons. A formula would do for the interval alone; that both must agree
// matters with few values, where the rank test is coarse.
func shiftNeeded(na, nb int, level, alpha float64) float64 {
	key := powerKey{na, nb, level, alpha}
	powerMu.Lock()
	defer powerMu.Unlock()
	if v, ok := powerCache[key]; ok {
		return v
	}
	rnd := rand.New(rand.NewPCG(3, 5))
	// The studentised bootstrap is a little wider than Student's interval with
	// few values.
	wider := 1 + 1.2/math.Pow(float64(min(na, nb)-1), 1.6)
	crit := wider * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(na + nb - 2)}.Quantile((1+level)/2)
	rank := rankLimit(na, nb, alpha)
	if rank < 0 {
		powerCache[key] = math.Inf(1)
		return powerCache[key]
	}
	// Each simulated comparison is found from some shift on, or nearly so.
	const sims = 2000
	need := make([]float64, sims)
	a, b := make([]float64, na), make([]float64, nb)
	for s := range need {
		for i := range a {
			a[i] = rnd.NormFloat64()
		}
		for i := range b {
			b[i] = rnd.NormFloat64()
		}
		se := math.Sqrt(stat.Variance(a, nil)/float64(na) + stat.Variance(b, nil)/float64(nb))
		need[s] = math.Max(crit*se-(stat.Mean(b, nil)-stat.Mean(a, nil)), rankShift(a, b, rank))
	}
	v, _ := Percentile(need, Power)
	powerCache[key] = v
	return v
}

// rankLimit is the largest U of the Mann-Whitney test that is significant at
// alpha, -1 when none is.
func rankLimit(na, nb int, alpha float64) int {
	// Above this size the normal approximation is as good.
	if na*nb > 900 {
		n := float64(na * nb)
		return int(n/2 + distuv.UnitNormal.Quantile(alpha/2)*math.Sqrt(n*float64(na+nb+1)/12) - 0.5)
	}
	d := rank.UDist{N1: na, N2: nb}
	u := -1
	for u < na*nb && 2*d.CDF(float64(u+1)) <= alpha {
		u++
	}
	return u
}

// rankShift is the shift of b at which at most limit pairs have a above b.
func rankShift(a, b []float64, limit int) float64 {
	ds := make([]float64, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			ds = append(ds, x-y)
		}
	}
	slices.Sort(ds)
	return ds[len(ds)-1-min(limit, len(ds)-1)]
}
