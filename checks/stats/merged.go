// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// MergedContrasts gives the differences of quantiles between two kernels whose
// boots each left some runs' histograms: base[boot][run]. The value of a side
// is the quantile of all its histograms merged. Intervals come from resampling
// boots and, within each, its runs (Davison and Hinkley 1997, section 3.8),
// merging what was drawn, and Expanded. A quantile with too few samples on
// either side has ok false.
func MergedContrasts(base, patched [][]Hist, qs []float64, level float64, asked int) (cs []Contrast, ok []bool) {
	d := newDense(base, patched)
	cs, ok = make([]Contrast, len(qs)), make([]bool, len(qs))
	all := func(s [][]run) []float64 {
		sum := make([]float64, len(d.bins))
		for _, boot := range s {
			for _, r := range boot {
				r.add(sum, 1)
			}
		}
		return sum
	}
	a, b := all(d.base), all(d.patched)
	na, nb := total(a), total(b)
	any := false
	for i, q := range qs {
		ok[i] = na >= float64(Needed(q)) && nb >= float64(Needed(q))
		any = any || ok[i]
		if ok[i] {
			cs[i] = Contrast{Base: d.quantile(a, na, q), Patched: d.quantile(b, nb, q), P: 1}
			cs[i].Diff = cs[i].Patched - cs[i].Base
		}
	}
	if !any || len(base) < 2 || len(patched) < 2 {
		for i := range cs {
			cs[i].Lo, cs[i].Hi = math.Inf(-1), math.Inf(1)
		}
		return cs, ok
	}
	n := rounds(asked, min(len(base), len(patched)))
	ds := make([][]float64, len(qs))
	for i := range ds {
		ds[i] = make([]float64, n)
	}
	rnd := source()
	for k := range n {
		clear(a)
		clear(b)
		draw(rnd, d.base, a)
		draw(rnd, d.patched, b)
		na, nb := total(a), total(b)
		for i, q := range qs {
			if ok[i] {
				ds[i][k] = d.quantile(b, nb, q) - d.quantile(a, na, q)
			}
		}
	}
	for i := range qs {
		if ok[i] {
			cs[i].Lo, cs[i].Hi, cs[i].P = Expanded(ds[i], len(base), len(patched), level)
		}
	}
	return cs, ok
}

// dense holds histograms over one list of bins, so that merging is adding.
type dense struct {
	bins          []Bin // N unused
	base, patched [][]run
	min, max      float64
	known         bool
}

// run is one histogram: counts n[i] in bins at[i].
type run struct {
	at []int32
	n  []float64
}

func (r run) add(to []float64, times float64) {
	for i, at := range r.at {
		to[at] += times * r.n[i]
	}
}

func newDense(sides ...[][]Hist) *dense {
	d := &dense{known: true, min: math.Inf(1), max: math.Inf(-1)}
	type edge struct{ lo, hi float64 }
	at := map[edge]int32{}
	for _, s := range sides {
		for _, boot := range s {
			for _, h := range boot {
				d.known = d.known && h.Known
				d.min, d.max = math.Min(d.min, h.Min), math.Max(d.max, h.Max)
				for _, b := range h.Bins {
					at[edge{b.Lo, b.Hi}] = 0
				}
			}
		}
	}
	for e := range at {
		d.bins = append(d.bins, Bin{Lo: e.lo, Hi: e.hi})
	}
	slices.SortFunc(d.bins, func(a, b Bin) int { return cmp.Or(cmp.Compare(a.Lo, b.Lo), cmp.Compare(a.Hi, b.Hi)) })
	for i, b := range d.bins {
		at[edge{b.Lo, b.Hi}] = int32(i)
	}
	for k, s := range sides {
		out := make([][]run, len(s))
		for i, boot := range s {
			for _, h := range boot {
				var r run
				for _, b := range h.Bins {
					r.at, r.n = append(r.at, at[edge{b.Lo, b.Hi}]), append(r.n, float64(b.N))
				}
				out[i] = append(out[i], r)
			}
		}
		if k == 0 {
			d.base = out
		} else {
			d.patched = out
		}
	}
	return d
}

// draw adds a resample of boots and of runs within them.
func draw(rnd *rand.Rand, boots [][]run, to []float64) {
	for range boots {
		b := boots[rnd.IntN(len(boots))]
		for range b {
			b[rnd.IntN(len(b))].add(to, 1)
		}
	}
}

func total(ns []float64) (s float64) {
	for _, n := range ns {
		s += n
	}
	return s
}

func (d *dense) quantile(ns []float64, total, q float64) float64 {
	// From the nearer end: most quantiles of interest are high.
	v := math.NaN()
	if q > 0.5 {
		above, target := 0.0, (1-q)*total
		for i := len(ns) - 1; i >= 0; i-- {
			if ns[i] == 0 {
				continue
			}
			b := d.bins[i]
			if v = b.Lo; above+ns[i] >= target {
				v = b.Hi - (b.Hi-b.Lo)*math.Max(0, target-above)/ns[i]
				break
			}
			above += ns[i]
		}
	} else {
		below, target := 0.0, q*total
		for i, n := range ns {
			if n == 0 {
				continue
			}
			b := d.bins[i]
			if v = b.Hi; below+n >= target {
				v = b.Lo + (b.Hi-b.Lo)*math.Max(0, target-below)/n
				break
			}
			below += n
		}
	}
	if d.known {
		v = math.Min(math.Max(v, d.min), d.max)
	}
	return v
}
