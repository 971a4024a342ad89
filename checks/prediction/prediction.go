// SPDX-License-Identifier: Apache-2.0

// Package prediction tells from the sizes of events how many of them a limit
// of any size would let through, and compares that with what cells with known
// limits measured: how many Replies go inline at each inline limit, say. It
// judges no cell; a disagreement is a finding for people to look at.
package prediction

import (
	"fmt"
	"slices"
	"sort"
	"strconv"

	"github.com/expr-lang/expr"

	"patchcheck/checks"
	"patchcheck/checks/counts"
	"patchcheck/internal/guestproto"
	"patchcheck/testplans"
)

// Rules of this package.
var Rules = []checks.Rule{ruleDiffer, ruleLoad}

var (
	ruleDiffer = checks.Rule{ID: "prediction.differs", Severity: checks.Warning,
		Title:  "a cell measured another number than the sizes predict for its limit",
		Source: "the plan's predict section (docs/plans.md)",
		Fix:    "compare the sizes in the evidence with the limit: the series may compare another size, or with another limit, than it says"}
	ruleLoad = checks.Rule{ID: "prediction.workload", Severity: checks.Note,
		Title:  "a cell had another number of events than the one that predicts it, so the two cannot be compared",
		Source: "the plan's predict section (docs/plans.md)",
		Fix:    "look for retransmissions or errors in the cell, or mark parts of the workload that vary as uncounted"}
)

// Cell is what one cell recorded.
type Cell struct {
	Spec   testplans.Cell
	Hists  map[string]guestproto.Hist
	Values map[string]int64
	Absent []string // count fields that its kernel lacks, as "count.field"
}

// Step is how many events of the kind there are from a limit on. Low and High
// differ where the recorded sizes do not tell.
type Step struct {
	Limit     int64
	Low, High int64
}

// Curve is the prediction for one NFS version.
type Curve struct {
	NFS   string
	From  string // id of the cell whose sizes it comes from
	Steps []Step // by rising limit, the first one at 0
	Exact int64  // up to this limit Low and High are known to be equal
	Total int64  // events in all
}

// At is the prediction for a limit.
func (c Curve) At(limit int64) Step {
	i := sort.Search(len(c.Steps), func(i int) bool { return c.Steps[i].Limit > limit })
	if i == 0 {
		return Step{Limit: limit}
	}
	s := c.Steps[i-1]
	s.Limit = limit
	return s
}

// Measured is a cell's own answer beside the prediction.
type Measured struct {
	Cell      string
	Device    string
	NFS       string
	Limit     int64
	Value     int64
	Low, High int64 // predicted
	Agrees    bool
	Self      bool // the prediction comes from this very cell, so agreeing says little
}

// Result is all that can be told.
type Result struct {
	Predict  testplans.Predict
	Curves   []Curve
	Measured []Measured
	Findings []checks.Finding
	Missing  string // why there is no curve; empty if there is one
}

// Predict derives a curve for each NFS version and compares it with each cell.
// Cells without valid counts are left out by the caller.
func Predict(p *testplans.Plan, cells []Cell) Result {
	q := p.Predict
	if q == nil {
		return Result{Missing: "the plan predicts nothing"}
	}
	r := Result{Predict: *q}
	for _, nfs := range p.Axes.NFS {
		var of []Cell
		for _, c := range cells {
			if c.Spec.NFS == nfs && len(c.Hists[q.Count].Rows) > 0 {
				of = append(of, c)
			}
		}
		from, ok := reference(q, of)
		if !ok {
			continue
		}
		curve, err := curveOf(p, from)
		if err != nil {
			r.Missing = err.Error()
			continue
		}
		r.Curves = append(r.Curves, curve)
		for _, c := range of {
			limit, ok := c.Values[q.Limit]
			value, ok2 := c.Values[q.Value]
			if !ok || !ok2 || c.Spec.Kernel != testplans.RolePatched {
				continue
			}
			at := curve.At(limit)
			m := Measured{Cell: c.Spec.ID(), Device: c.Spec.Device.Name, NFS: nfs, Limit: limit, Value: value, Low: at.Low, High: at.High, Self: c.Spec.ID() == curve.From}
			m.Agrees = value >= at.Low && value <= at.High
			r.Measured = append(r.Measured, m)
			if m.Agrees {
				continue
			}
			where := checks.Where{Cell: m.Cell}
			if n := c.Hists[q.Count].Hits; n != curve.Total {
				r.Findings = append(r.Findings, ruleLoad.New(where, "prediction and measurement cannot be compared at %d bytes: the cell had %d %s, %s had %d", limit, n, q.Count, curve.From, curve.Total))
				continue
			}
			if m.Self {
				// More than its own limit lets through: larger ones went, too.
				f := ruleDiffer.New(where, "prediction and measurement differ at %d bytes: of %d that were %s, only %s are no larger than that", limit, value, q.Value, span(at))
				f.Evidence = []string{"sizes, and how many of each were " + q.Value + ": " + sizesOf(p, c)}
				r.Findings = append(r.Findings, f)
				continue
			}
			f := ruleDiffer.New(where, "prediction and measurement differ at %d bytes: %s predicted from the sizes in %s, %d measured", limit, span(at), curve.From, value)
			f.Evidence = append(f.Evidence, "sizes, and how many of each were "+q.Value+": "+sizesOf(p, c))
			f.Evidence = append(f.Evidence, "in "+curve.From+": "+sizesOf(p, from))
			r.Findings = append(r.Findings, f)
		}
	}
	if len(r.Curves) == 0 && r.Missing == "" {
		r.Missing = fmt.Sprintf("no cell recorded sizes of %s that tell which of them can be %s", q.Count, q.Value)
	}
	return r
}

func span(s Step) string {
	if s.Low == s.High {
		return strconv.FormatInt(s.Low, 10)
	}
	return fmt.Sprintf("%d to %d", s.Low, s.High)
}

// reference is the cell to predict from: with a condition on rows any kernel's
// sizes will do, and those of the base say nothing about the series; without
// it the cell in which the largest limit let the most through.
func reference(q *testplans.Predict, cells []Cell) (Cell, bool) {
	best, ok := Cell{}, false
	for _, c := range cells {
		if q.Where != "" {
			if !ok || c.Spec.Kernel == testplans.RoleBase && best.Spec.Kernel != testplans.RoleBase {
				best, ok = c, true
			}
			continue
		}
		limit, has := c.Values[q.Limit]
		if !has || c.Spec.Kernel != testplans.RolePatched || limit <= 0 {
			continue
		}
		if !ok || limit > best.Values[q.Limit] {
			best, ok = c, true
		}
	}
	return best, ok
}

// curveOf adds up the rows of the reference cell by size.
func curveOf(p *testplans.Plan, c Cell) (Curve, error) {
	q := p.Predict
	curve := Curve{NFS: c.Spec.NFS, From: c.Spec.ID(), Exact: q.UpTo, Total: c.Hists[q.Count].Hits}
	reach := c.Values[q.Limit]
	if q.Where == "" {
		curve.Exact = reach
	}
	sure, maybe := map[int64]int64{}, map[int64]int64{}
	for _, row := range c.Hists[q.Count].Rows {
		size, err := strconv.ParseInt(row.Keys[q.Size], 0, 64)
		if err != nil {
			return curve, fmt.Errorf("%s: the rows of %s have no size %q", curve.From, q.Count, q.Size)
		}
		if q.Where != "" {
			yes, err := rowIs(q.Where, row)
			if err != nil {
				return curve, fmt.Errorf("%s: cannot tell whether %s: %w", curve.From, q.Where, err)
			}
			if yes {
				sure[size] += row.Hits
			}
			continue
		}
		n := kind(p, c, row)
		sure[size] += n
		// A larger event that was not of the kind may be so only for its size.
		if size > reach {
			maybe[size] += row.Hits - n
		}
	}
	sizes := []int64{0}
	for _, m := range []map[int64]int64{sure, maybe} {
		for s, n := range m {
			if n > 0 && s > 0 && s <= q.UpTo {
				sizes = append(sizes, s)
			}
		}
	}
	sort.Slice(sizes, func(i, j int) bool { return sizes[i] < sizes[j] })
	low, high := int64(0), int64(0)
	for i, s := range sizes {
		if i > 0 && s == sizes[i-1] {
			continue
		}
		low += sure[s]
		high += sure[s] + maybe[s]
		curve.Steps = append(curve.Steps, Step{Limit: s, Low: low, High: high})
	}
	if low == high { // nothing left open
		curve.Exact = q.UpTo
	}
	return curve, nil
}

// kind says how many events of a row the plan's value counts.
func kind(p *testplans.Plan, c Cell, row guestproto.HistRow) int64 {
	one := testplans.Plan{}
	for _, v := range p.Values {
		if v.Name == p.Predict.Value {
			one.Values = []testplans.Value{v}
		}
	}
	hist := map[string]guestproto.Hist{p.Predict.Count: {Rows: []guestproto.HistRow{row}, Hits: row.Hits}}
	return counts.Values(&one, c.Spec, hist, c.Absent)[p.Predict.Value]
}

func rowIs(where string, row guestproto.HistRow) (bool, error) {
	env := map[string]any{}
	for k, s := range row.Keys {
		if n, err := strconv.ParseInt(s, 0, 64); err == nil {
			env[k] = int(n)
		} else {
			env[k] = s
		}
	}
	// Compiled with the row's keys, so that a key that was not recorded is an
	// error and not "no".
	prog, err := expr.Compile(where, expr.Env(env), expr.AsBool())
	if err != nil {
		return false, err
	}
	out, err := expr.Run(prog, env)
	if err != nil {
		return false, err
	}
	b, ok := out.(bool)
	if !ok {
		return false, fmt.Errorf("it gives %v, not true or false", out)
	}
	return b, nil
}

// sizesOf lists the sizes of a cell with how many there were, and how many of
// them were of the kind where the rows tell: "164: 2312 of 2312, 180: 0 of 2292".
func sizesOf(p *testplans.Plan, c Cell) string {
	q := p.Predict
	tells := slices.ContainsFunc(p.Values, func(v testplans.Value) bool { return v.Name == q.Value && slices.Contains(v.From, q.Count) })
	all, of := map[int64]int64{}, map[int64]int64{}
	for _, row := range c.Hists[q.Count].Rows {
		size, _ := strconv.ParseInt(row.Keys[q.Size], 0, 64)
		all[size] += row.Hits
		of[size] += kind(p, c, row)
	}
	var sizes []int64
	for s := range all {
		sizes = append(sizes, s)
	}
	sort.Slice(sizes, func(i, j int) bool { return sizes[i] < sizes[j] })
	out := ""
	for i, s := range sizes {
		if i > 0 {
			out += ", "
		}
		if tells {
			out += fmt.Sprintf("%d: %d of %d", s, of[s], all[s])
		} else {
			out += fmt.Sprintf("%d: %d", s, all[s])
		}
	}
	return out
}
