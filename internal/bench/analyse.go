// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"patchcheck/checks"
	"patchcheck/checks/fio"
	"patchcheck/checks/stats"
)

// Quantiles are the rungs of the percentile ladder.
var Quantiles = []float64{0.5, 0.9, 0.99, 0.999, 0.9999}

// Analysis is what can be said from an experiment. It is made from the record
// alone, and always the same.
type Analysis struct {
	Experiment *Experiment `json:"-"`
	ID         string      `json:"id"`
	Title      string      `json:"title,omitempty"`
	Plan       string      `json:"plan,omitempty"`
	Unit       string      `json:"unit"`  // what n counts: "boots", or "runs" of results whose boots nobody recorded
	Level      float64     `json:"level"` // error of the intervals, nominal at this look
	Method     string      `json:"method"`
	Notes      []string    `json:"notes,omitempty"`   // that a reader must know, the first one first
	Differs    []string    `json:"differs,omitempty"` // why the sides are not alike, when the user forced it
	Contrasts  []Pair      `json:"contrasts"`
}

// Pair is the comparison of one arm with the first.
type Pair struct {
	Base    string `json:"base"`
	Patched string `json:"patched"`
	Rows    []Row  `json:"rows"`
}

// Row is one metric of one comparison.
type Row struct {
	Job     string    `json:"job"`
	Metric  string    `json:"metric"` // "write clat p99"
	Name    string    `json:"name"`   // JOB/METRIC, unique
	Unit    string    `json:"unit,omitempty"`
	Better  Direction `json:"better"`
	Exact   bool      `json:"exact,omitempty"`
	Varies  bool      `json:"varies,omitempty"` // an exact count that was not the same in each run
	Merged  bool      `json:"merged,omitempty"` // base and patched are quantiles of merged histograms
	Primary bool      `json:"primary,omitempty"`
	IOs     [2]int64  `json:"ios,omitempty"`  // samples behind the value, base and patched
	Runs    [2]int    `json:"runs,omitempty"` // measured runs, base and patched
	NA      string    `json:"na,omitempty"`   // why there is no number
	stats.Result

	// Values are those of the units, in the order of the boots.
	Values [2][]float64 `json:"values"`

	quantile bool
}

// series is one metric over all arms.
type series struct {
	job, metric, unit string
	better            Direction
	exact             bool
	q                 float64 // of a quantile; 0 for other metrics
	arms              map[string]*armValues
}

type armValues struct {
	values []float64 // one for each boot; NaN where that boot has none
	na     string
	ios    int64
	runs   int
	hists  [][]stats.Hist // boot, run; nil where there are no bins
	all    []float64      // of exact counts: each run's value
}

// boots are those of an arm that count, of blocks that all arms completed.
func (e *Experiment) boots(arm string) (out []*Boot) {
	for i := range e.Boots {
		b := &e.Boots[i]
		if b.Arm != arm || b.Rejected != "" {
			continue
		}
		whole := true
		for _, a := range e.Arms {
			whole = whole && (e.loose() || e.used(b.Block, a.Name) != nil)
		}
		if whole {
			out = append(out, b)
		}
	}
	return out
}

// loose tells whether the values come from files rather than from an
// experiment of ours: nobody knows their order.
func (e *Experiment) loose() bool { return e.Design.Seed == 0 }

// metricName joins the job of the plan with fio's own job name when they
// differ.
func metricJob(job, own string, many bool) string {
	switch {
	case job == "":
		return own
	case many && own != "" && own != job:
		return job + "." + own
	}
	return job
}

// collect makes the series of all metrics, in the order in which they are met.
func (e *Experiment) collect() []*series {
	var out []*series
	at := map[string]*series{}
	get := func(job, metric, unit string, better Direction) *series {
		k := job + "\x00" + metric
		s := at[k]
		if s == nil {
			s = &series{job: job, metric: metric, unit: unit, better: better, arms: map[string]*armValues{}}
			at[k] = s
			out = append(out, s)
		}
		return s
	}
	for _, arm := range e.Arms {
		bs := e.boots(arm.Name)
		for n, b := range bs {
			set := func(s *series) *armValues {
				v := s.arms[arm.Name]
				if v == nil {
					v = &armValues{}
					s.arms[arm.Name] = v
				}
				for len(v.values) <= n {
					v.values = append(v.values, math.NaN())
				}
				return v
			}
			for _, job := range jobsOf(b) {
				var outs []fio.Output
				var runs []*Run
				for i := range b.Runs {
					if r := &b.Runs[i]; r.Job == job && !r.Warmup && r.Invalid == "" {
						runs = append(runs, r)
						if r.out != nil {
							outs = append(outs, *r.out)
						}
					}
				}
				if !e.counted(job) {
					e.fromFio(job, outs, get, set, n)
				}
				fromMetrics(job, runs, get, set, n)
				fromHists(job, runs, get, set, n)
			}
		}
	}
	return out
}

// counted tells whether probes were active while the job ran: then fio's times
// are those of the probes too, and only what was counted is of use.
func (e *Experiment) counted(job string) bool {
	for _, j := range e.Jobs {
		if j.Name == job {
			return strings.HasSuffix(j.Kind, Counted)
		}
	}
	return false
}

func jobsOf(b *Boot) (jobs []string) {
	for _, r := range b.Runs {
		if !slices.Contains(jobs, r.Job) {
			jobs = append(jobs, r.Job)
		}
	}
	return jobs
}

type getter func(job, metric, unit string, better Direction) *series

func (e *Experiment) fromFio(job string, outs []fio.Output, get getter, set func(*series) *armValues, n int) {
	pooled := fio.Pool(outs...)
	own := map[string]bool{}
	for _, p := range pooled {
		own[p.Job] = true
	}
	for _, p := range pooled {
		j := metricJob(job, p.Job, len(own) > 1)
		scalar := func(metric, unit string, better Direction, v float64) {
			a := set(get(j, p.Dir+" "+metric, unit, better))
			a.values[n] = v
			a.ios += p.IOs
			a.runs += p.Runs
		}
		if p.N > 0 {
			scalar(p.Kind+" mean", "ns", Lower, p.Mean)
		}
		scalar("iops", "1/s", Higher, p.IOPS)
		if p.Bytes > 0 {
			scalar("bw", "B/s", Higher, p.BW)
		}

		// Per run, so that runs can be resampled within their boot.
		var hists []stats.Hist
		for _, o := range outs {
			for _, r := range fio.Pool(o) {
				if r.Job == p.Job && r.Dir == p.Dir {
					if h, ok := r.Hist(); ok {
						hists = append(hists, h)
					}
				}
			}
		}
		binned := len(hists) == p.Runs && p.N > 0
		merged := stats.Merge(hists...)
		for _, c := range p.Quantiles(Quantiles...) {
			s := get(j, fmt.Sprintf("%s %s %s", p.Dir, p.Kind, quantileName(c.Q)), "ns", Lower)
			s.q = c.Q
			a := set(s)
			a.ios += p.N
			a.runs += p.Runs
			switch {
			case binned:
				// A boot's own percentile may rest on few I/Os: it serves the rank
				// test, which may order any statistic, and is not shown.
				a.values[n] = merged.Rough(c.Q)
				for len(a.hists) < n {
					a.hists = append(a.hists, nil)
				}
				a.hists = append(a.hists, hists)
			case c.OK:
				a.values[n] = c.NS
			default:
				a.na = c.Text
			}
		}
	}
}

// quantileName is "p99.99" for 0.9999.
func quantileName(q float64) string { return fmt.Sprintf("p%g", math.Round(q*1e6)/1e4) }

func fromMetrics(job string, runs []*Run, get getter, set func(*series) *armValues, n int) {
	sums := map[string][]float64{}
	for _, r := range runs {
		for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
			m := r.Metrics[name]
			s := get(job, name, m.Unit, cmp.Or(m.Better, None))
			s.exact = s.exact || m.Exact
			a := set(s)
			if m.Invalid != "" {
				a.na = m.Invalid
				continue
			}
			a.runs++
			a.all = append(a.all, m.Value)
			sums[name] = append(sums[name], m.Value)
			var t float64
			for _, v := range sums[name] {
				t += v
			}
			a.values[n] = t / float64(len(sums[name]))
		}
	}
}

func fromHists(job string, runs []*Run, get getter, set func(*series) *armValues, n int) {
	byName := map[string][]stats.Hist{}
	for _, r := range runs {
		for name, h := range r.Hists {
			byName[name] = append(byName[name], h)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		hs := byName[name]
		m := stats.Merge(hs...)
		if m.N() == 0 {
			continue
		}
		a := set(get(job, name+" mean", m.Unit, Lower))
		a.values[n], a.ios, a.runs = m.Mean(), a.ios+m.N(), a.runs+len(hs)
		for _, q := range Quantiles {
			s := get(job, name+" "+quantileName(q), m.Unit, Lower)
			s.q = q
			a := set(s)
			a.values[n], a.ios, a.runs = m.Rough(q), a.ios+m.N(), a.runs+len(hs)
			for len(a.hists) < n {
				a.hists = append(a.hists, nil)
			}
			a.hists = append(a.hists, hs)
		}
	}
}

// name of the series, JOB/METRIC.
func (s *series) name() string {
	if s.job == "" {
		return s.metric
	}
	return s.job + "/" + s.metric
}

// row compares an arm with the base.
func (s *series) row(base, patched string, lim stats.Limits, measure bool) Row {
	r := Row{Job: s.job, Metric: s.metric, Name: s.name(), Unit: s.unit, Better: s.better, Exact: s.exact, quantile: s.q > 0}
	a, b := s.arms[base], s.arms[patched]
	if a == nil || b == nil {
		missing := base
		if a != nil {
			missing = patched
		}
		r.NA, r.Outcome = "not measured on "+missing, stats.NotUsable
		return r
	}
	x, y := present(a.values), present(b.values)
	r.Values = [2][]float64{x, y}
	r.IOs, r.Runs = [2]int64{a.ios, b.ios}, [2]int{a.runs, b.runs}
	if na := cmp.Or(a.na, b.na); na != "" {
		r.NA, r.Outcome = na, stats.NotUsable
		return r
	}
	if s.exact {
		if r.exactly(a, b, s.better) {
			return r
		}
		r.Varies = true
	}
	if s.q > 0 {
		if k := min(a.ios, b.ios); k < int64(stats.Needed(s.q)) {
			r.NA, r.Outcome = stats.NA(int(k)), stats.NotUsable
			return r
		}
	}
	if !measure {
		return r
	}
	r.Result = stats.Measure(x, y, direction(s.better), lim)
	if s.q > 0 && !whole(a) {
		// Percentiles are never averaged; the middle one of several is one.
		r.Mean = r.Median
	}
	if r.Varies {
		r.Warnings = append(r.Warnings, varies(base, a.all, patched, b.all))
	}
	return r
}

// varies says which kernel's runs differ in a count that the plan calls exact,
// and by how much.
func varies(base string, a []float64, patched string, b []float64) string {
	arm, x := base, a
	if len(a) == 0 || slices.Min(a) == slices.Max(a) {
		arm, x = patched, b
	}
	if len(x) == 0 {
		return "the plan calls this count exact, but no run gave it: compared as a measurement"
	}
	return fmt.Sprintf("the plan calls this count exact, but runs of one and the same kernel (%s) gave %.6g to %.6g, so it is compared as a measurement: the job does not do the same work each time", arm, slices.Min(x), slices.Max(x))
}

func present(xs []float64) (out []float64) {
	for _, x := range xs {
		if !math.IsNaN(x) {
			out = append(out, x)
		}
	}
	return out
}

func direction(d Direction) stats.Better {
	switch d {
	case Lower:
		return stats.LowerIsBetter
	case Higher:
		return stats.HigherIsBetter
	}
	return stats.NeitherIsBetter
}

// exactly compares counts that are the same in each run; false when they are
// not.
func (r *Row) exactly(a, b *armValues, better Direction) bool {
	if len(a.all) == 0 || len(b.all) == 0 || slices.Min(a.all) != slices.Max(a.all) || slices.Min(b.all) != slices.Max(b.all) {
		return false
	}
	x, y := a.all[0], b.all[0]
	c := stats.Contrast{Base: x, Patched: y, Diff: y - x, Lo: y - x, Hi: y - x, P: 1}
	r.Result = stats.Result{NBase: len(r.Values[0]), NPatched: len(r.Values[1]), Mean: c, Median: c, RankP: 1, WelchP: 1, PAdj: 1, Better: direction(better)}
	switch {
	case x == y:
		r.Outcome = stats.Same
	case better == None:
		r.Outcome = stats.Differs
	case (y > x) == (better == Higher):
		r.Outcome = stats.Improved
	default:
		r.Outcome = stats.Worse
	}
	return true
}

// merge replaces the contrast of means by that of merged histograms for the
// quantiles of one distribution. With too few boots for an answer there is no
// interval, but the value is that of the merged histograms all the same.
func merge(rows []*Row, ss []*series, base, patched string, lim stats.Limits) {
	var qs []float64
	var at []int
	for i, s := range ss {
		if s.q > 0 && rows[i].Outcome != stats.NotUsable && rows[i].NA == "" && whole(s.arms[base]) && whole(s.arms[patched]) {
			qs, at = append(qs, s.q), append(at, i)
		}
	}
	if len(qs) == 0 {
		return
	}
	cs, ok := stats.MergedContrasts(ss[at[0]].arms[base].hists, ss[at[0]].arms[patched].hists, qs, 1-cmp.Or(lim.Level, 0.05), lim.Rounds)
	for k, i := range at {
		if !ok[k] {
			continue
		}
		r := rows[i]
		if !r.Outcome.Answers() {
			cs[k].Lo, cs[k].Hi, cs[k].P = r.Mean.Lo, r.Mean.Hi, r.Mean.P
		}
		r.Mean, r.Merged = cs[k], true
		// A single boot's percentile may rest on too few I/Os to be shown.
		if n := int64(stats.Needed(qs[k])) * int64(max(r.NBase, r.NPatched)); min(r.IOs[0], r.IOs[1]) < n {
			r.Median = stats.Contrast{P: 1}
		}
	}
}

func whole(a *armValues) bool {
	if a == nil || len(a.hists) != len(a.values) || len(a.hists) == 0 {
		return false
	}
	return !slices.ContainsFunc(a.hists, func(h []stats.Hist) bool { return len(h) == 0 })
}

// limits of the comparisons at a look.
func (e *Experiment) limits(l levels) stats.Limits {
	return stats.Limits{MinRuns: 5, Alpha: l.claim, Level: l.interval, Floor: e.Design.Floor, Rounds: e.rounds}
}

// primaryOf is the index of the metric that the experiment was made for, -1
// when there is none.
func (e *Experiment) primaryOf(ss []*series) int {
	if e.loose() && e.Design.Primary == "" {
		if len(ss) == 1 {
			return 0
		}
		return -1
	}
	for i, s := range ss {
		if e.Design.Primary == "" || s.name() == e.Design.Primary || s.metric == e.Design.Primary {
			return i
		}
	}
	return -1
}

// primary is the primary metric of the first two arms alone, for a look.
func (e *Experiment) primary(at levels) (Row, bool) {
	ss := e.collect()
	p := e.primaryOf(ss)
	if p < 0 {
		return Row{}, false
	}
	s := ss[p]
	r := s.row(e.Arms[0].Name, e.Arms[1].Name, e.limits(at), true)
	r.Primary = true
	merge([]*Row{&r}, []*series{s}, e.Arms[0].Name, e.Arms[1].Name, e.limits(at))
	if r.NA == "" && r.Outcome.Answers() && (!r.Exact || r.Varies) {
		// The others are not looked at here, but they have their part of the
		// error.
		rs := []stats.Result{r.Result}
		if len(ss) > 1 || len(e.Arms) > 2 {
			rs = append(rs, stats.Result{RankP: 1, WelchP: 1, PAdj: 1, Level: at.interval, Alpha: at.claim, Mean: stats.Contrast{P: 1}, Median: stats.Contrast{P: 1}})
		}
		stats.Decide(rs, 0)
		r.Result = rs[0]
	}
	return r, true
}

// Analyse compares each arm with the first.
func Analyse(e *Experiment) (*Analysis, error) {
	at, err := e.finalLevels()
	if err != nil {
		return nil, err
	}
	a := &Analysis{Experiment: e, ID: e.ID, Title: e.Title, Plan: e.Plan, Unit: "boots", Level: at.interval, Method: e.Design.Method(), Differs: e.Differs}
	lim := e.limits(at)
	if e.loose() {
		a.Unit = "runs"
		a.Method = "results of unknown order, compared once"
		if e.across {
			a.Unit, a.Method = "boots", "boots of two experiments, compared once"
		}
		if lim.Floor > 0 {
			a.Method += fmt.Sprintf("; changes below %g %% are not claimed", lim.Floor*100)
		}
	}
	ss := e.collect()
	if len(ss) == 0 {
		return nil, fmt.Errorf("nothing was measured%s", e.whyNothing())
	}
	prim := e.primaryOf(ss)
	var rows []*Row
	var cells []stats.Result // that are decided together
	var cellOf []*Row
	first := -1
	for k, arm := range e.Arms[1:] {
		p := Pair{Base: e.Arms[0].Name, Patched: arm.Name}
		p.Rows = make([]Row, len(ss))
		group := map[string][]int{}
		var order []string
		for i, s := range ss {
			p.Rows[i] = s.row(p.Base, arm.Name, lim, true)
			p.Rows[i].Primary = i == prim
			if s.q > 0 {
				g := s.job + "\x00" + s.metric[:strings.LastIndexByte(s.metric, ' ')]
				if group[g] == nil {
					order = append(order, g)
				}
				group[g] = append(group[g], i)
			}
		}
		for _, g := range order {
			var rs []*Row
			var gs []*series
			for _, i := range group[g] {
				rs, gs = append(rs, &p.Rows[i]), append(gs, ss[i])
			}
			merge(rs, gs, p.Base, arm.Name, lim)
		}
		a.Contrasts = append(a.Contrasts, p)
		for i := range p.Rows {
			r := &a.Contrasts[k].Rows[i]
			rows = append(rows, r)
			if r.NA != "" || r.Exact && !r.Varies {
				continue
			}
			if k == 0 && i == prim {
				first = len(cells)
			}
			cells, cellOf = append(cells, r.Result), append(cellOf, r)
		}
	}
	stats.Decide(cells, first)
	for i, r := range cellOf {
		r.Result = cells[i]
	}
	for _, r := range rows {
		r.tidy()
	}
	a.Notes = e.notes()
	for _, r := range rows {
		if r.NA == "" && r.quantile && !r.Merged && max(r.NBase, r.NPatched) > 1 {
			a.Notes = append(a.Notes, "percentiles are the median over "+a.Unit+" of each one's own, because fio wrote no bins to merge (--output-format=json+ does)")
			break
		}
	}
	return a, nil
}

// tidy makes the row fit for JSON, which has no infinite numbers.
func (r *Row) tidy() {
	for _, c := range []*stats.Contrast{&r.Mean, &r.Median} {
		c.Lo, c.Hi = finite(c.Lo), finite(c.Hi)
	}
}

func finite(x float64) float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return 0
	}
	return x
}

func (e *Experiment) whyNothing() string {
	for _, b := range e.Boots {
		if b.Rejected != "" {
			return ": boot " + fmt.Sprint(b.Index) + " " + b.Rejected
		}
		for _, r := range b.Runs {
			if r.Invalid != "" {
				return ": " + r.Invalid
			}
			if r.out != nil && r.out.Verdict() != checks.Pass {
				for _, f := range r.out.Findings(checks.Where{}) {
					return ": " + f.Message
				}
			}
		}
	}
	return ""
}

// finalLevels are the nominal errors over the data as they are.
func (e *Experiment) finalLevels() (levels, error) {
	if e.loose() || !e.Design.Grows() {
		return e.Design.errors(), nil
	}
	n := len(e.boots(e.Arms[0].Name))
	for _, l := range e.Looks {
		if l.Boots == n {
			return levels{l.Level, cmp.Or(l.Claim, l.Level)}, nil
		}
	}
	if n == 0 {
		return e.Design.errors(), nil
	}
	at, _, err := e.Design.levels(e.Looks, n, false)
	return at, err
}

// notes says what a reader must know beside the numbers, most important first.
func (e *Experiment) notes() (out []string) {
	if e.Accel.Name == "tcg" {
		out = append(out, TCGNote)
	}
	var noisy, repeated, failed int
	for _, b := range e.Boots {
		switch {
		case strings.HasPrefix(b.Rejected, "noisy"):
			repeated++
		case b.Rejected != "":
			failed++
		case len(b.Noisy) > 0:
			noisy++
		}
	}
	if repeated > 0 {
		out = append(out, fmt.Sprintf("boots repeated because the host was noisy: %d (both are recorded)", repeated))
	}
	if noisy > 0 {
		out = append(out, fmt.Sprintf("boots that are used although the host was noisy: %d of %d", noisy, len(e.Boots)-repeated-failed))
	}
	if failed > 0 {
		out = append(out, fmt.Sprintf("boots that failed for reasons of ours and were made again: %d", failed))
	}
	switch e.Stop.Reason {
	case StopCanceled, StopFailed, "":
		if !e.loose() {
			out = append(out, "the experiment did not come to its end: "+cmp.Or(e.Stop.Text, "interrupted"))
		}
	}
	if d := e.drift(); d != "" {
		out = append(out, d)
	}
	if len(e.Limits) > 0 {
		out = append(out, "limits of this measurement: "+strings.Join(e.Limits, "; "))
	}
	return out
}

// TCGNote begins every report of an emulated experiment.
const TCGNote = "Emulated (TCG): absolute figures mean nothing here, only differences and exact counts."

// drift says when the primary metric moved with time more than between boots
// of one moment.
func (e *Experiment) drift() string {
	if e.loose() {
		return ""
	}
	ss := e.collect()
	p := e.primaryOf(ss)
	if p < 0 {
		return ""
	}
	// Means of blocks, first half against second.
	var blocks []float64
	for i := range e.boots(e.Arms[0].Name) {
		var s float64
		for _, a := range e.Arms {
			v := ss[p].arms[a.Name]
			if v == nil || i >= len(v.values) || math.IsNaN(v.values[i]) {
				return ""
			}
			s += v.values[i]
		}
		blocks = append(blocks, s/float64(len(e.Arms)))
	}
	h := len(blocks) / 2
	if h < 2 {
		return ""
	}
	early, late := blocks[:h], blocks[len(blocks)-h:]
	apart := slices.Max(early) < slices.Min(late) || slices.Min(early) > slices.Max(late)
	d := stats.Median(late)/stats.Median(early) - 1
	if !apart || !(math.Abs(d) >= 0.02) || math.IsInf(d, 0) {
		return ""
	}
	return fmt.Sprintf("%s drifted by %+.1f %% from the first half of the experiment to the second, for all arms alike; the intervals hold and are wider for it", ss[p].name(), d*100)
}

func cmpOr(a, b string) string { return cmp.Or(a, b) }
