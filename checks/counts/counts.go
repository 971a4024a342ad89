// SPDX-License-Identifier: Apache-2.0

// Package counts turns a cell's histograms into the plan's values and checks
// the plan's hold conditions on them. Counts that lost events are INVALID:
// they give no number and no PASS.
package counts

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"

	"patchcheck/checks"
	"patchcheck/internal/guestproto"
	"patchcheck/testplans"
)

// Rules of this package.
var Rules = []checks.Rule{ruleHold, ruleLost, ruleValue, ruleSame}

var (
	ruleHold = checks.Rule{ID: "count.hold", Severity: checks.Error,
		Title:  "a condition of the plan does not hold",
		Source: "the plan's hold section (docs/plans.md)",
		Fix:    "compare the histogram in the cell's evidence with what the series promises"}
	ruleLost = checks.Rule{ID: "count.invalid", Severity: checks.Error,
		Title:  "events were lost, so the counts prove nothing",
		Source: "kernel Documentation/trace/histogram.rst (Dropped), Documentation/trace/kprobetrace.rst (missed)",
		Fix:    "run the cell again; if it stays, give the count fewer keys or more entries"}
	ruleValue = checks.Rule{ID: "count.value", Severity: checks.Error,
		Title:  "a value of the plan has no single answer",
		Source: "the plan's values section (docs/plans.md)",
		Fix:    "look at the histogram: several connections got different answers, or the event never fired"}
)

// Result is what a cell's histograms say.
type Result struct {
	// Values by name. A value that this kernel cannot have (a field that the
	// base lacks) is absent.
	Values   map[string]int64
	Findings []checks.Finding
	// Invalid is set when events were lost: the numbers must not be used.
	Invalid bool
}

// Evaluate derives the plan's values from hists for cell and checks its
// conditions. absent names count fields that this kernel does not have, as
// "count.field".
func Evaluate(p *testplans.Plan, cell testplans.Cell, hists map[string]guestproto.Hist, absent []string) Result {
	r := Result{Values: map[string]int64{}}
	where := checks.Where{Cell: cell.ID()}
	for _, c := range p.Count {
		h, ok := hists[c.Name]
		switch {
		case !ok:
			r.Invalid = true
			r.Findings = append(r.Findings, ruleLost.New(where, "the guest gave no histogram for %s", c.Name))
		case h.Dropped != 0:
			r.Invalid = true
			r.Findings = append(r.Findings, ruleLost.New(where, "histogram %s dropped %d events", c.Name, h.Dropped))
		case h.Missed != 0:
			r.Invalid = true
			r.Findings = append(r.Findings, ruleLost.New(where, "the probe of %s missed %d events", c.Name, h.Missed))
		case sum(h.Rows) != h.Hits:
			r.Invalid = true
			r.Findings = append(r.Findings, ruleLost.New(where, "histogram %s lists %d events of %d", c.Name, sum(h.Rows), h.Hits))
		}
	}
	if r.Invalid {
		return r
	}
	var missing map[string]string
	r.Values, missing = values(p, cell, hists, absent)
	env := map[string]any{"nfs": cell.NFS, "kernel": cell.Kernel}
	dev := map[string]any{"name": cell.Device.Name}
	for k, n := range cell.Device.Facts {
		dev[k] = int(n)
	}
	env["device"] = dev
	for k, n := range r.Values {
		env[k] = int(n)
	}
	for _, h := range p.Hold {
		if h.On != "" && h.On != cell.Kernel {
			continue
		}
		if h.When != "" {
			ok, err := eval(h.When, env, missing)
			if err != nil {
				r.Findings = append(r.Findings, ruleValue.New(where, "%s: cannot tell whether it applies (%s): %v", h.ID, h.When, err))
				continue
			}
			if !ok {
				continue
			}
		}
		ok, err := eval(h.That, env, missing)
		switch {
		case err != nil:
			r.Findings = append(r.Findings, withEvidence(ruleValue.New(where, "%s: cannot tell whether %s: %v", h.ID, h.That, err), hists))
		case !ok:
			f := ruleHold.New(where, "%s: expected %s, but %s (%s)", h.ID, h.That, shown(h.That, env), h.Why)
			r.Findings = append(r.Findings, withEvidence(f, hists))
		}
	}
	return r
}

// SoFar checks the conditions that hold at any moment on what was counted
// until a workload stopped short. Counts that cannot be judged are no findings
// here: the failed step is one already.
func SoFar(p *testplans.Plan, cell testplans.Cell, hists map[string]guestproto.Hist, absent []string) []checks.Finding {
	q := *p
	q.Hold = slices.DeleteFunc(slices.Clone(p.Hold), func(h testplans.Hold) bool { return !h.Always })
	var out []checks.Finding
	for _, f := range Evaluate(&q, cell, hists, absent).Findings {
		if f.ID == ruleHold.ID {
			out = append(out, f)
		}
	}
	return out
}

// Values derives the plan's values without judging them.
func Values(p *testplans.Plan, cell testplans.Cell, hists map[string]guestproto.Hist, absent []string) map[string]int64 {
	v, _ := values(p, cell, hists, absent)
	return v
}

// values also says why a value is not known.
func values(p *testplans.Plan, cell testplans.Cell, hists map[string]guestproto.Hist, absent []string) (map[string]int64, map[string]string) {
	known, missing := map[string]int64{}, map[string]string{}
	for _, v := range p.Values {
		if v.On != "" && v.On != cell.Kernel {
			missing[v.Name] = "it is for " + v.On + " only"
			continue
		}
		n, err := value(v, hists, absent)
		if err != nil {
			missing[v.Name] = err.Error()
			continue
		}
		known[v.Name] = n
	}
	return known, missing
}

// Sum adds histograms that were read one after the other, each since the last.
func Sum(parts ...map[string]guestproto.Hist) map[string]guestproto.Hist {
	out := map[string]guestproto.Hist{}
	for _, part := range parts {
		for name, h := range part {
			s := out[name]
			s.Hits += h.Hits
			s.Dropped += h.Dropped
			s.Missed = max(s.Missed, h.Missed) // counts since the probe was set
			for _, row := range h.Rows {
				i := slices.IndexFunc(s.Rows, func(r guestproto.HistRow) bool { return maps.Equal(r.Keys, row.Keys) })
				if i < 0 {
					s.Rows = append(s.Rows, row)
				} else {
					s.Rows[i].Hits += row.Hits
				}
			}
			s.Entries = int64(len(s.Rows))
			out[name] = s
		}
	}
	return out
}

func sum(rows []guestproto.HistRow) (n int64) {
	for _, r := range rows {
		n += r.Hits
	}
	return n
}

func value(v testplans.Value, hists map[string]guestproto.Hist, absent []string) (int64, error) {
	for _, from := range v.From {
		for _, a := range absent {
			count, field, _ := strings.Cut(a, ".")
			if count == from && (v.Only == field || mentions(v.Where, field)) {
				return 0, fmt.Errorf("this kernel has no %s", field)
			}
		}
	}
	var total int64
	only := map[int64]int64{}
	for _, from := range v.From {
		for _, row := range hists[from].Rows {
			env := map[string]any{}
			for k, s := range row.Keys {
				if k == "common_pid.execname" || strings.HasSuffix(k, ".execname") {
					env["execname"] = s
				} else if n, err := strconv.ParseInt(s, 0, 64); err == nil {
					env[k] = int(n)
				} else {
					env[k] = s
				}
			}
			if v.Where != "" {
				out, err := expr.Eval(v.Where, env)
				if err != nil {
					return 0, err
				}
				if b, ok := out.(bool); !ok || !b {
					continue
				}
			}
			total += row.Hits
			if v.Only != "" {
				n, _ := env[v.Only].(int)
				only[int64(n)] += row.Hits
			}
		}
	}
	if v.Only == "" {
		return total, nil
	}
	if len(only) == 1 {
		for n := range only {
			return n, nil
		}
	}
	var seen []string
	for n, hits := range only {
		seen = append(seen, fmt.Sprintf("%d (%d times)", n, hits))
	}
	sort.Strings(seen)
	if len(seen) == 0 {
		return 0, fmt.Errorf("%s was never seen", v.Only)
	}
	return 0, fmt.Errorf("%s had several values: %s", v.Only, strings.Join(seen, ", "))
}

func eval(src string, env map[string]any, missing map[string]string) (bool, error) {
	for name, why := range missing {
		if mentions(src, name) {
			return false, fmt.Errorf("%s is not known: %s", name, why)
		}
	}
	out, err := expr.Eval(src, env)
	if err != nil {
		return false, err
	}
	b, ok := out.(bool)
	if !ok {
		return false, fmt.Errorf("gives %v, not true or false", out)
	}
	return b, nil
}

// mentions reports whether the expression uses the identifier name.
func mentions(src, name string) bool {
	for i := 0; ; {
		j := strings.Index(src[i:], name)
		if j < 0 {
			return false
		}
		j += i
		before := j == 0 || !word(src[j-1]) && src[j-1] != '.'
		after := j+len(name) == len(src) || !word(src[j+len(name)])
		if before && after {
			return true
		}
		i = j + 1
	}
}

func word(b byte) bool {
	return b == '_' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}

// shown lists the names used in an expression with what they were.
func shown(src string, env map[string]any) string {
	var out []string
	for k, v := range env {
		if k == "device" {
			for dk, dv := range v.(map[string]any) {
				if strings.Contains(src, "device."+dk) {
					out = append(out, fmt.Sprintf("device.%s is %v", dk, dv))
				}
			}
			continue
		}
		if mentions(src, k) {
			out = append(out, fmt.Sprintf("%s is %v", k, v))
		}
	}
	sort.Strings(out)
	return strings.Join(out, ", ")
}

// withEvidence adds the histograms' largest rows.
func withEvidence(f checks.Finding, hists map[string]guestproto.Hist) checks.Finding {
	names := make([]string, 0, len(hists))
	for n := range hists {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		rows := append([]guestproto.HistRow{}, hists[n].Rows...)
		sort.Slice(rows, func(i, j int) bool { return rows[i].Hits > rows[j].Hits })
		for i, r := range rows {
			if i == 6 {
				f.Evidence = append(f.Evidence, fmt.Sprintf("%s: %d more rows", n, len(rows)-i))
				break
			}
			keys := make([]string, 0, len(r.Keys))
			for k, v := range r.Keys {
				keys = append(keys, k+"="+v)
			}
			sort.Strings(keys)
			f.Evidence = append(f.Evidence, strings.TrimSpace(fmt.Sprintf("%s: %s hits=%d", n, strings.Join(keys, " "), r.Hits)))
		}
	}
	return f
}
