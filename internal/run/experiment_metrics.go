// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"

	"patchcheck/checks/counts"
	"patchcheck/checks/stats"
	measure "patchcheck/internal/bench"
	"patchcheck/internal/guestproto"
	"patchcheck/testplans"
)

// observed is what was seen around one run of a job.
type observed struct {
	plan          *testplans.Plan
	cell          testplans.Cell
	absent        []string // count fields that this kernel lacks
	counted       bool
	hists         map[string]guestproto.Hist
	before, after *guestproto.Sample
	ios           float64
	seconds       float64
}

// sampled is the time between two samples, in seconds.
func sampled(before, after *guestproto.Sample) (float64, bool) {
	if before == nil || after == nil || after.MonotonicNS <= before.MonotonicNS {
		return 0, false
	}
	return float64(after.MonotonicNS-before.MonotonicNS) / 1e9, true
}

// metrics computes the plan's metrics and distributions for one run of j. A
// number that rests on lost events is no number: its Metric is Invalid.
func (o observed) metrics(j testplans.MeasureJob) (map[string]measure.Metric, map[string]stats.Hist) {
	out, hists := map[string]measure.Metric{}, map[string]stats.Hist{}
	env := o.env()
	invalid := ""
	if o.counted {
		r := counts.Evaluate(o.plan, o.cell, o.hists, o.absent)
		if r.Invalid && len(r.Findings) > 0 {
			invalid = "LOST: " + r.Findings[0].Message
		}
		for name, n := range counts.Values(o.plan, o.cell, o.hists, o.absent) {
			env[name] = float64(n)
		}
		for name, h := range o.hists {
			env["hits_"+name] = float64(h.Hits)
		}
	}
	for _, m := range o.plan.Measure.Also {
		if !o.plan.In(m, j) {
			continue
		}
		x := measure.Metric{Unit: m.Unit, Better: measure.Direction(m.Better), Exact: m.Exact}
		switch {
		case invalid != "" && o.plan.NeedsCounts(m):
			x.Invalid = invalid
		default:
			v, err := number(m.Is, env)
			if err != nil {
				x.Invalid = err.Error()
			} else {
				x.Value = v
			}
		}
		out[m.Name] = x
	}
	if !o.counted || invalid != "" {
		return out, nil
	}
	for _, d := range o.plan.Measure.Dist {
		h, err := distribution(d, o.hists[d.From])
		if err != nil {
			out[d.Name] = measure.Metric{Unit: d.Unit, Better: measure.None, Invalid: err.Error()}
			continue
		}
		if h.N() > 0 {
			hists[d.Name] = h
		}
	}
	return out, hists
}

// env gives the values of the names of testplans.Plan.Env, but for counts.
func (o observed) env() map[string]any {
	ops := map[string]testplans.OpSample{}
	all := 0.0
	cpu, xprt, server := map[string]float64{}, map[string]float64{}, map[string]float64{}
	if o.before != nil && o.after != nil {
		for name, a := range o.after.Ops {
			b := o.before.Ops[name]
			const ms = 1e6
			d := testplans.OpSample{Ops: float64(a.Ops - b.Ops), Sent: float64(a.Sent - b.Sent), Timeouts: float64(a.Timeouts - b.Timeouts), Errors: float64(a.Errors - b.Errors),
				Queue: float64(a.QueueMS-b.QueueMS) * ms, RTT: float64(a.RTTMS-b.RTTMS) * ms, Execute: float64(a.ExecuteMS-b.ExecuteMS) * ms}
			ops[name] = d
			all += d.Ops
		}
		sub := func(into map[string]float64, a, b map[string]int64) {
			for k, v := range a {
				into[k] = float64(v - b[k])
			}
		}
		sub(cpu, o.after.Tasks, o.before.Tasks)
		sub(cpu, o.after.CPU, o.before.CPU) // states are not names of tasks
		cpu["busy"] = cpu["user"] + cpu["nice"] + cpu["system"] + cpu["irq"] + cpu["softirq"]
		sub(xprt, o.after.Xprt, o.before.Xprt)
		sub(server, o.after.Nfsd, o.before.Nfsd)
	}
	return map[string]any{
		"seconds": o.seconds, "ios": o.ios, "ops": all, "op": ops, "cpu": cpu, "xprt": xprt, "server": server,
		"abs":     math.Abs,
		"percent": func(part, whole float64) float64 { return 100 * part / whole },
	}
}

// number evaluates an expression to a finite number.
func number(src string, env map[string]any) (float64, error) {
	out, err := expr.Eval(src, env)
	if err != nil {
		msg, _, _ := strings.Cut(err.Error(), "\n")
		return 0, fmt.Errorf("not known on this kernel: %s", msg)
	}
	var v float64
	switch x := out.(type) {
	case float64:
		v = x
	case int:
		v = float64(x)
	default:
		return 0, fmt.Errorf("%s is no number", src)
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%s: nothing was counted to divide by", src)
	}
	return v, nil
}

// distribution makes the histogram of one key of a count.
func distribution(d testplans.Distribution, h guestproto.Hist) (stats.Hist, error) {
	out := stats.Hist{Unit: d.Unit}
	bins := map[float64]int64{}
	for _, row := range h.Rows {
		if d.Where != "" {
			env := map[string]any{}
			for k, s := range row.Keys {
				if n, err := strconv.ParseInt(s, 0, 64); err == nil {
					env[k] = int(n)
				} else {
					env[k] = s
				}
			}
			ok, err := expr.Eval(d.Where, env)
			if err != nil {
				return out, fmt.Errorf("distribution %s: %w", d.Name, err)
			}
			if b, _ := ok.(bool); !b {
				continue
			}
		}
		v, err := strconv.ParseFloat(row.Keys[d.Key], 64)
		if err != nil {
			return out, fmt.Errorf("distribution %s: %q of %s is no number", d.Name, row.Keys[d.Key], d.Key)
		}
		bins[v] += row.Hits
	}
	// The kernel rounds down: a value of 12 stands for 12 up to 13.
	for v, n := range bins {
		out.Bins = append(out.Bins, stats.Bin{Lo: v * d.Scale, Hi: (v + d.Round) * d.Scale, N: n})
	}
	slices.SortFunc(out.Bins, func(a, b stats.Bin) int {
		if a.Lo < b.Lo {
			return -1
		}
		return 1
	})
	return out, nil
}
