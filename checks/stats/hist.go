// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// Bin counts the samples x with Lo <= x < Hi; Lo == Hi is a bin of one exact
// value.
type Bin struct {
	Lo float64 `json:"lo"`
	Hi float64 `json:"hi"`
	N  int64   `json:"n"`
}

// Hist is a distribution as counts in bins, such as fio's latency bins or a
// histogram of a kernel tracepoint. Bins ascend and do not overlap.
type Hist struct {
	Unit string `json:"unit,omitempty"` // "ns"
	Bins []Bin  `json:"bins"`
	// Min and Max of the samples, when Known: a bin's edge may lie beyond them.
	Min   float64 `json:"min,omitempty"`
	Max   float64 `json:"max,omitempty"`
	Known bool    `json:"known,omitempty"`
	// Sum of the samples, 0 when unknown: bins give the mean only roughly.
	Sum float64 `json:"sum,omitempty"`
}

// N is the number of samples.
func (h Hist) N() (n int64) {
	for _, b := range h.Bins {
		n += b.N
	}
	return n
}

// Merge adds histograms of the same quantity, bin by bin. Percentiles of
// several runs come from the merged histogram; averaging percentiles would give
// a number that belongs to no distribution. Bins that overlap in part are kept
// side by side and spread evenly when a quantile falls into them.
func Merge(hs ...Hist) Hist {
	type edge struct{ lo, hi float64 }
	var out Hist
	counts := map[edge]int64{}
	known, summed, any := true, true, false
	for _, h := range hs {
		n := h.N()
		if n == 0 {
			continue
		}
		for _, b := range h.Bins {
			if b.N > 0 {
				counts[edge{b.Lo, b.Hi}] += b.N
			}
		}
		if !any {
			out.Unit, out.Min, out.Max = h.Unit, h.Min, h.Max
		}
		out.Min, out.Max = math.Min(out.Min, h.Min), math.Max(out.Max, h.Max)
		out.Sum += h.Sum
		known, summed, any = known && h.Known, summed && h.Sum != 0, true
	}
	if out.Known = known && any; !out.Known {
		out.Min, out.Max = 0, 0
	}
	if !summed {
		out.Sum = 0
	}
	for e, n := range counts {
		out.Bins = append(out.Bins, Bin{e.lo, e.hi, n})
	}
	slices.SortFunc(out.Bins, func(a, b Bin) int {
		return cmp.Or(cmp.Compare(a.Lo, b.Lo), cmp.Compare(a.Hi, b.Hi))
	})
	return out
}

// Mean of the samples: exact when Sum is known, else from the middles of the
// bins. NaN without samples.
func (h Hist) Mean() float64 {
	n := h.N()
	if n == 0 {
		return math.NaN()
	}
	if h.Sum != 0 {
		return h.Sum / float64(n)
	}
	var s float64
	for _, b := range h.Bins {
		s += float64(b.N) * (b.Lo + b.Hi) / 2
	}
	return s / float64(n)
}

// Quantile gives the value below which the share q of the samples lies, by
// linear interpolation in the bin, kept within Min and Max. ok is false when
// fewer than Needed(q) samples stand behind it.
func (h Hist) Quantile(q float64) (v float64, ok bool) {
	n := h.N()
	if n == 0 || q < 0 || n < int64(Needed(q)) {
		return 0, false
	}
	return h.quantile(q, n), true
}

// Rough is Quantile without the demand for enough samples, for plots.
func (h Hist) Rough(q float64) float64 {
	n := h.N()
	if n == 0 {
		return math.NaN()
	}
	return h.quantile(math.Min(1, math.Max(0, q)), n)
}

func (h Hist) quantile(q float64, n int64) float64 {
	target := q * float64(n)
	var below float64
	v := math.NaN()
	for _, b := range h.Bins {
		if b.N == 0 {
			continue
		}
		if c := float64(b.N); below+c >= target {
			v = b.Lo + (b.Hi-b.Lo)*math.Max(0, target-below)/c
			break
		} else {
			below, v = below+c, b.Hi
		}
	}
	if h.Known {
		v = math.Min(math.Max(v, h.Min), h.Max)
	}
	return v
}

// Point of a cumulative distribution.
type Point struct {
	X float64 // value
	Q float64 // share of the samples that are at most X
}

// CDF gives the cumulative distribution at the upper edges of the bins.
func (h Hist) CDF() []Point {
	n := float64(h.N())
	var out []Point
	var below int64
	for _, b := range h.Bins {
		if b.N == 0 {
			continue
		}
		below += b.N
		x := b.Hi
		if h.Known {
			x = math.Min(math.Max(x, h.Min), h.Max)
		}
		out = append(out, Point{x, float64(below) / n})
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].X < out[j].X })
	return out
}
