// SPDX-License-Identifier: Apache-2.0

package fio

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"patchcheck/checks"
	"patchcheck/checks/stats"
)

// Pooled is one data direction of one job over one or more runs. Jobs of the
// same name within a run (numjobs) ran side by side and are one; runs follow
// each other.
type Pooled struct {
	Job   string    `json:"job"`
	Dir   string    `json:"dir"`  // read, write, trim, mixed
	Kind  string    `json:"kind"` // clat, or lat when fio kept no clat
	Runs  int       `json:"runs"`
	Bytes int64     `json:"bytes"`
	IOs   int64     `json:"ios"`
	BW    float64   `json:"bw"`   // bytes per second
	IOPS  float64   `json:"iops"` // per second
	N     int64     `json:"n"`    // latencies; 0 when fio kept none
	Min   float64   `json:"min"`  // nanoseconds
	Max   float64   `json:"max"`
	Mean  float64   `json:"mean"`
	Cells []Cell    `json:"cells,omitempty"`
	parts []Lat     // that N, Min, Max and Mean are of
	secs  []float64 // of each run
}

// Cell is one quantile: a value, or why there is none.
type Cell struct {
	Q    float64 `json:"q"`              // 0.99
	NS   float64 `json:"ns"`             // only when OK
	OK   bool    `json:"ok"`             //
	Text string  `json:"text,omitempty"` // "n/a (n=20)" when not OK
}

// Pool puts runs together. A run that did not pass, and a direction without
// I/O, gives nothing.
func Pool(runs ...Output) []Pooled {
	var out []Pooled
	at := map[string]int{}
	for _, o := range runs {
		if o.Verdict() != checks.Pass {
			continue
		}
		for _, p := range o.pooled() {
			k := p.Job + "\x00" + p.Dir
			i, ok := at[k]
			if !ok {
				at[k] = len(out)
				out = append(out, p)
				continue
			}
			q := &out[i]
			q.Runs++
			q.Bytes += p.Bytes
			q.IOs += p.IOs
			// Rates are over the time of all runs.
			a, b := sum(q.secs), p.secs[0]
			if a+b > 0 {
				q.BW, q.IOPS = (q.BW*a+p.BW*b)/(a+b), (q.IOPS*a+p.IOPS*b)/(a+b)
			}
			q.secs = append(q.secs, b)
			if q.Kind == p.Kind {
				q.parts = append(q.parts, p.parts...)
			} else {
				q.parts = nil // clat of one run and lat of another are two quantities
			}
			q.latencies()
		}
	}
	return out
}

func sum(xs []float64) (s float64) {
	for _, x := range xs {
		s += x
	}
	return s
}

// pooled is one run's directions.
func (o Output) pooled() []Pooled {
	var out []Pooled
	at := map[string]int{}
	for _, j := range o.Jobs {
		for _, d := range j.dirs() {
			if !j.did(d.dir) {
				continue
			}
			kind, l := "clat", d.dir.Clat
			if l.N <= 0 { // disable_clat=1
				kind, l = "lat", d.dir.Lat
			}
			k := j.Name + "\x00" + d.name
			i, ok := at[k]
			if !ok {
				i = len(out)
				at[k] = i
				out = append(out, Pooled{Job: j.Name, Dir: d.name, Kind: kind, Runs: 1, secs: []float64{0}})
			}
			p := &out[i]
			p.Bytes += d.dir.Bytes
			p.IOs += d.dir.IOs
			p.BW += float64(d.dir.BW)
			p.IOPS += d.dir.IOPS
			p.secs[0] = math.Max(p.secs[0], float64(d.dir.Millis)/1000)
			if l.N > 0 && p.Kind == kind {
				p.parts = append(p.parts, l)
			}
		}
	}
	for i := range out {
		out[i].latencies()
	}
	return out
}

// latencies makes N, Min, Max and Mean from the parts.
func (p *Pooled) latencies() {
	p.N, p.Min, p.Max, p.Mean = 0, 0, 0, 0
	var s float64
	for i, l := range p.parts {
		if i == 0 {
			p.Min, p.Max = l.Min, l.Max
		}
		p.N += l.N
		p.Min, p.Max = math.Min(p.Min, l.Min), math.Max(p.Max, l.Max)
		s += l.Mean * float64(l.N)
	}
	if p.N > 0 {
		p.Mean = s / float64(p.N)
	}
}

// Hist is the merged distribution; ok is false when a part has no bins.
func (p Pooled) Hist() (stats.Hist, bool) {
	if len(p.parts) == 0 {
		return stats.Hist{}, false
	}
	hs := make([]stats.Hist, len(p.parts))
	for i, l := range p.parts {
		h, ok := l.Hist()
		if !ok {
			return stats.Hist{}, false
		}
		hs[i] = h
	}
	return stats.Merge(hs...), true
}

// Quantiles gives the quantiles asked for, ascending and within [Min, Max].
// They come from the bins (json+), or from fio's own list when there is but
// one part; percentiles of several parts cannot be put together.
func (p Pooled) Quantiles(qs ...float64) []Cell {
	qs = slices.Clone(qs)
	slices.Sort(qs)
	h, binned := p.Hist()
	last := p.Min
	var out []Cell
	for _, q := range qs {
		c := Cell{Q: q}
		listed, found := 0.0, false
		if len(p.parts) == 1 {
			listed, found = p.parts[0].at(q)
		}
		switch {
		case p.N <= 0, !binned && len(p.parts) == 1 && !found:
			c.Text = "n/a"
		case p.N < int64(stats.Needed(q)):
			c.Text = stats.NA(int(p.N))
		case binned:
			c.NS, c.OK = h.Quantile(q)
		case found:
			c.NS, c.OK = listed, true
		default:
			c.Text = "n/a (no bins)"
		}
		if c.OK {
			// Values of fio are middles of bins: the last one may lie above the
			// largest sample.
			c.NS = math.Max(last, math.Min(math.Max(c.NS, p.Min), p.Max))
			last = c.NS
		}
		out = append(out, c)
	}
	return out
}

func (l Lat) at(q float64) (float64, bool) {
	for _, p := range l.Percents {
		if math.Abs(p.P-q*100) < 1e-6 {
			return p.NS, true
		}
	}
	return 0, false
}

// Latency gives a row for each job and direction that did I/O, with the
// quantiles asked for. Jobs of a run that failed give none.
func (o Output) Latency(qs ...float64) []Pooled {
	if o.Verdict() != checks.Pass {
		return nil
	}
	rows := o.pooled()
	for i := range rows {
		rows[i].Cells = rows[i].Quantiles(qs...)
	}
	return rows
}

// notPart are options that may differ between runs that are compared.
var notPart = map[string]bool{"filename": true, "directory": true, "name": true, "randseed": true, "output": true,
	"description": true, "write_bw_log": true, "write_lat_log": true, "write_hist_log": true, "write_iops_log": true}

// Comparable says whether two runs did the same work; why names what differs.
func Comparable(a, b Output) (ok bool, why []string) {
	if a.Version != b.Version {
		why = append(why, fmt.Sprintf("%s and %s", cmp.Or(a.Version, "an unknown fio"), cmp.Or(b.Version, "an unknown fio")))
	}
	if len(a.Jobs) != len(b.Jobs) {
		return false, append(why, fmt.Sprintf("%d and %d jobs", len(a.Jobs), len(b.Jobs)))
	}
	for i := range a.Jobs {
		x, y := a.Jobs[i], b.Jobs[i]
		if x.Name != y.Name {
			why = append(why, fmt.Sprintf("job %q and job %q", x.Name, y.Name))
		}
		keys := map[string]bool{}
		for k := range x.Options {
			keys[k] = true
		}
		for k := range y.Options {
			keys[k] = true
		}
		var diff []string
		for k := range keys {
			if !notPart[k] && !sameOption(x.Options[k], y.Options[k]) {
				diff = append(diff, fmt.Sprintf("job %q: %s=%q and %q", x.Name, k, x.Options[k], y.Options[k]))
			}
		}
		slices.Sort(diff)
		why = append(why, diff...)
	}
	return len(why) == 0, why
}

// sameOption compares "4k", "4K" and "4096" as equal.
func sameOption(a, b string) bool {
	if a == b || strings.EqualFold(a, b) {
		return true
	}
	m, okM := size(a)
	n, okN := size(b)
	return okM && okN && m == n
}
