// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchunit"

	"patchcheck/checks/fio"
	"patchcheck/checks/stats"
)

// Formats of Write. "sentence" and "table" are for a commit message, "rows" and
// "sweep" for a cover letter, all at most 72 columns wide.
var Formats = []string{"rows", "sentence", "table", "sweep", "json", "bench", "html"}

// width of everything that goes into a mail.
const width = 72

// Write renders an analysis.
func Write(w io.Writer, a *Analysis, format string) error {
	var b bytes.Buffer
	var err error
	switch format {
	case "rows", "":
		a.rows(&b)
	case "sentence":
		err = a.sentence(&b)
	case "table":
		err = a.table(&b)
	case "sweep":
		err = a.sweep(&b)
	case "json":
		err = a.json(&b)
	case "bench":
		err = a.bench(&b)
	case "html":
		err = a.page(&b)
	default:
		return fmt.Errorf("no format %q: there are %s", format, strings.Join(Formats, ", "))
	}
	if err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

// preamble is what stands before all numbers: that they are emulated, that the
// sides are not alike.
func (a *Analysis) preamble(b *bytes.Buffer) {
	for _, n := range a.Notes {
		if n == TCGNote {
			fill(b, "", "", n)
		}
	}
	if len(a.Differs) > 0 {
		fill(b, "", "  ", "NOT ALIKE, compared because --force-unlike asked for it: "+strings.Join(a.Differs, "; "))
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
}

// notes are the rest of what a reader must know.
func (a *Analysis) notes(b *bytes.Buffer) {
	for _, n := range a.Notes {
		if n != TCGNote {
			fill(b, "Note: ", "  ", n)
		}
	}
}

// fill writes text in lines of at most width columns.
func fill(b *bytes.Buffer, first, next, text string) {
	line, start := first, true
	for _, w := range strings.Fields(text) {
		switch {
		case start:
			line += w
			start = false
		case len([]rune(line))+1+len([]rune(w)) > width:
			b.WriteString(line + "\n")
			line = next + w
		default:
			line += " " + w
		}
	}
	b.WriteString(line + "\n")
}

// count is "n=5+5 boots".
func (a *Analysis) count(r Row) string { return fmt.Sprintf("n=%d+%d %s", r.NBase, r.NPatched, a.Unit) }

// confidence is "95".
func (a *Analysis) confidence() string {
	e := DefaultInterval
	if a.Experiment != nil {
		e = a.Experiment.Design.errors().interval
	}
	return fmt.Sprintf("%g", math.Round((1-e)*1e6)/1e4)
}

// setting says in a few words what was measured where.
func (a *Analysis) setting() string {
	e := a.Experiment
	var on []string
	if m := mountOptions(e.Mount, "vers", "proto", "sec", "nconnect"); m != "" {
		on = append(on, "mount "+m)
	}
	if e.Fabric != "" {
		on = append(on, e.Fabric)
	}
	var where []string
	if e.Accel.Name != "" {
		where = append(where, strings.ToUpper(e.Accel.Name))
	}
	for _, h := range e.Hosts {
		c := h.CPU
		if h.Role != "" {
			c = h.Role + " " + c
		}
		if h.Link != "" {
			c += ", " + h.Link
		}
		where = append(where, c)
	}
	if e.Accel.Name != "none" && e.Guest.CPUs > 0 {
		where = append(where, fmt.Sprintf("guest of %d CPUs", e.Guest.CPUs))
	}
	return strings.Join(append(on, where...), ", ")
}

var ordinals = map[string]string{"p50": "median", "p90": "90th percentile", "p99": "99th percentile", "p99.9": "99.9th percentile", "p99.99": "99.99th percentile"}

// words names a metric in a sentence: "mean completion latency of writes".
func (r Row) words() string {
	f := strings.Fields(r.Metric)
	if len(f) < 2 || !slices.Contains([]string{"read", "write", "trim", "mixed"}, f[0]) {
		return r.Metric
	}
	of := map[string]string{"read": "reads", "write": "writes", "trim": "trims", "mixed": "reads and writes"}[f[0]]
	kind := map[string]string{"clat": "completion latency", "lat": "latency"}[f[1]]
	switch {
	case f[1] == "iops":
		return "rate of " + of + " (IOPS)"
	case f[1] == "bw":
		return "throughput of " + of
	case kind != "" && len(f) == 3 && f[2] == "mean":
		return "mean " + kind + " of " + of
	case kind != "" && len(f) == 3 && ordinals[f[2]] != "":
		return ordinals[f[2]] + " of the " + kind + " of " + of
	}
	return r.Metric
}

// side says which direction is better.
func (r Row) side() string {
	switch r.Better {
	case Lower, Higher:
		return string(r.Better) + " is better"
	}
	return "neither side is better"
}

// work describes a fio job: "rw=randwrite bs=4k iodepth=1".
func (e *Experiment) work(job string) string {
	o := e.options(job)
	var s []string
	for _, k := range []string{"rw", "readwrite", "bs", "blocksize", "rwmixread", "iodepth", "numjobs", "direct"} {
		if v := o[k]; v != "" {
			s = append(s, k+"="+v)
		}
	}
	return strings.Join(s, " ")
}

// options of a job: from fio's output when there is one, else from the text.
func (e *Experiment) options(job string) map[string]string {
	for _, b := range e.Boots {
		for _, r := range b.Runs {
			if r.out == nil {
				continue
			}
			for _, j := range r.out.Jobs {
				if r.Job == job && r.Job != "" || metricJob(r.Job, j.Name, true) == job || j.Name == job && r.Job == "" {
					return j.Options
				}
			}
		}
	}
	o := map[string]string{}
	for _, j := range e.Jobs {
		if j.Name != job {
			continue
		}
		for _, l := range strings.Split(j.Text, "\n") {
			if k, v, ok := strings.Cut(strings.TrimSpace(l), "="); ok && !strings.HasPrefix(k, "#") && !strings.HasPrefix(k, ";") {
				o[strings.TrimSpace(k)] = strings.TrimSpace(v)
			}
		}
	}
	return o
}

// primary is the row that a pair is summed up by: the primary metric, else the
// first row with an answer.
func (p Pair) primary() (Row, bool) {
	for _, r := range p.Rows {
		if r.Primary {
			return r, true
		}
	}
	for _, r := range p.Rows {
		if r.NA == "" && r.Outcome.Answers() {
			return r, true
		}
	}
	if len(p.Rows) > 0 {
		return p.Rows[0], true
	}
	return Row{}, false
}

// interval is "0.2634 us (95% CI 0.1923 to 0.3384)" for the size of a change;
// lo and hi are turned so that they follow the words "lower by".
func (a *Analysis) interval(r Row, down, ci bool) string {
	c := r.Location()
	s := scaleFor(r.Unit, math.Max(math.Abs(c.Diff), math.Max(math.Abs(c.Lo), math.Abs(c.Hi))))
	n := r.places(s)
	d, lo, hi := c.Diff, c.Lo, c.Hi
	if down {
		d, lo, hi = -d, -hi, -lo
	}
	label := ""
	if ci {
		label = a.confidence() + "% CI "
	}
	return fmt.Sprintf("%s%s (%s%s to %s)", s.show(d, n), sep(s.name)+s.name, label, s.show(lo, n), s.show(hi, n))
}

// amount is a value with its unit.
func (r Row) amount(v float64) string {
	s := scaleFor(r.Unit, v)
	return s.show(v, r.places(s)) + sep(s.name) + s.name
}

// sentence is the claim of a commit message.
func (a *Analysis) sentence(b *bytes.Buffer) error {
	if len(a.Contrasts) == 0 {
		return errors.New("nothing was compared")
	}
	a.preamble(b)
	e := a.Experiment
	var t []string
	for k, p := range a.Contrasts {
		r, ok := p.primary()
		if !ok {
			return errors.New("nothing was measured")
		}
		if k == 0 {
			t = append(t, a.lead(r))
		}
		t = append(t, a.claim(p, r, k))
	}
	if e.Design.Grows() && !e.loose() {
		t = append(t, "The number of boots was not fixed beforehand; the intervals hold all the same (repeated confidence intervals, Lan-DeMets spending).")
	}
	for _, p := range a.Contrasts {
		var also []string
		rows := slices.Clone(p.Rows)
		slices.SortStableFunc(rows, func(x, y Row) int {
			switch {
			case x.Exact == y.Exact:
				return 0
			case x.Exact:
				return -1
			}
			return 1
		})
		for _, r := range rows {
			if r.Outcome.Claims() && !r.Primary && !isPrimary(p, r) {
				also = append(also, fmt.Sprintf("%s %s", strings.TrimPrefix(r.Name, singleJob(p)), short(r)))
			}
		}
		// Counts first: they are what this subsystem argues with.
		const most = 4
		if len(also) > most {
			also = append(also[:most], fmt.Sprintf("and %d more", len(also)-most))
		}
		if len(also) > 0 {
			t = append(t, fmt.Sprintf("Also shown for %s, corrected for the number of comparisons: %s.", p.Patched, strings.Join(also, "; ")))
		}
	}
	fill(b, "", "", strings.Join(t, " "))
	a.notes(b)
	return nil
}

func isPrimary(p Pair, r Row) bool {
	x, _ := p.primary()
	return x.Name == r.Name
}

// singleJob is the prefix of all names when there is but one job.
func singleJob(p Pair) string {
	for _, r := range p.Rows {
		if r.Job == "" || r.Job != p.Rows[0].Job {
			return ""
		}
	}
	if len(p.Rows) == 0 {
		return ""
	}
	return p.Rows[0].Job + "/"
}

// lead says what ran, where and how often.
func (a *Analysis) lead(r Row) string {
	e := a.Experiment
	var s string
	if w := e.work(r.Job); w != "" {
		s = fmt.Sprintf("fio ran %s", w)
		if m := a.setting(); m != "" {
			s += " (" + m + ")"
		}
	} else if m := a.setting(); m != "" {
		s = fmt.Sprintf("Measured: %s (%s)", orNone(r.Job), m)
	}
	if r.NBase > 0 {
		n := fmt.Sprintf("%d+%d %s", r.NBase, r.NPatched, a.Unit)
		if r.NBase == r.NPatched && !e.loose() {
			n = fmt.Sprintf("%d boots of each kernel in random order", r.NBase)
			if e.Design.Runs > 1 {
				n += fmt.Sprintf(", %d runs a boot", e.Design.Runs)
			}
		}
		if s != "" {
			s += ", "
		}
		s += n
	}
	if s == "" {
		return ""
	}
	return s + "."
}

// claim is one sentence about one arm.
func (a *Analysis) claim(p Pair, r Row, k int) string {
	with := p.Patched
	if x := a.arm(p.Patched); x.Label != "" {
		with = x.Label
	}
	what := r.words()
	if k > 0 {
		what = "it"
	}
	subject := "The " + what
	switch {
	case k > 0:
		subject = "With " + with + ", it"
	case with != Patched:
		subject = "With " + with + ", the " + what
	}
	c := r.Location()
	switch {
	case r.NA != "":
		return fmt.Sprintf("%s cannot be given: %s.", subject, r.NA)
	case r.Outcome == stats.Same:
		return fmt.Sprintf("%s is the same in each run: %s.", subject, r.amount(c.Base))
	case r.Exact && !r.Varies:
		return fmt.Sprintf("%s went from %s to %s, the same in each run (%s).", subject, r.amount(c.Base), r.amount(c.Patched), r.side())
	case !r.Outcome.Answers():
		return fmt.Sprintf("%s allows no claim: %s (n=%d+%d).", subject, r.Outcome, r.NBase, r.NPatched)
	case r.Outcome == stats.NoDifference:
		s := fmt.Sprintf("%s shows no difference", subject)
		var in []string
		if r.Uncorrected > 0 {
			in = append(in, fmt.Sprintf("not significant among %d comparisons", r.Uncorrected))
		} else if r.Weak() {
			in = append(in, r.weak())
		} else if x, ok := r.SeenShare(); ok {
			in = append(in, fmt.Sprintf("would have seen %s %%", stats.Figures(x*100, 2)))
		}
		in = append(in, "the difference is "+a.interval(r, false, true), r.side())
		return s + " (" + strings.Join(in, "; ") + ")."
	}
	verb := "rose"
	if c.Diff < 0 {
		verb = "fell"
	}
	s := fmt.Sprintf("%s %s by %s", subject, verb, a.interval(r, c.Diff < 0, k == 0))
	if c == r.Median && c != r.Mean {
		s += " in the median of " + a.Unit
	}
	if k == 0 {
		s += fmt.Sprintf(", from %s; %s", r.amount(c.Base), r.side())
	}
	return s + "."
}

func (a *Analysis) arm(name string) Arm {
	for _, x := range a.Experiment.Arms {
		if x.Name == name {
			return x
		}
	}
	return Arm{Name: name}
}

// short is "-3.1% (95% CI -4.0 to -2.2)".
func short(r Row) string {
	c := r.Location()
	d, lo, hi, ok := c.Relative()
	if r.Exact && !r.Varies {
		return fmt.Sprintf("%s -> %s", r.amount(c.Base), r.amount(c.Patched))
	}
	if !ok {
		return fmt.Sprintf("%s -> %s", r.amount(c.Base), r.amount(c.Patched))
	}
	n := shareDecimals(lo, hi)
	return fmt.Sprintf("%s%% (%s to %s)", signed(d*100, n), signed(lo*100, n), signed(hi*100, n))
}

// shareDecimals are those of percentages with such an interval: one is
// the habit, and more only where the interval is narrower than half a percent.
func shareDecimals(lo, hi float64) int {
	switch half := (hi - lo) * 50; {
	case half >= 10:
		return 0
	case half >= 0.5 || half <= 0:
		return 1
	}
	return 2
}

// table lists percentiles as fio prints them, a block for each kernel.
func (a *Analysis) table(b *bytes.Buffer) error {
	type line struct {
		p   Pair
		row Row
	}
	var lines []line
	for _, p := range a.Contrasts {
		for _, r := range p.Rows {
			f := strings.Fields(r.Metric)
			if len(f) >= 2 && ordinals[f[len(f)-1]] != "" {
				lines = append(lines, line{p, r})
			}
		}
	}
	if len(lines) == 0 {
		return errors.New("no percentiles were measured: the table has nothing to show, try the format rows")
	}
	a.preamble(b)
	jobs := []string{}
	for _, l := range lines {
		if !slices.Contains(jobs, l.row.Job) {
			jobs = append(jobs, l.row.Job)
		}
	}
	for _, job := range jobs {
		title := strings.TrimSpace("fio " + a.Experiment.work(job))
		if title == "fio" {
			title = job
		}
		s := scale{"us", 1e3}
		var rows []line
		for _, l := range lines {
			if l.row.Job == job {
				rows = append(rows, l)
			}
		}
		if rows[0].row.Unit != "ns" {
			s = scale{rows[0].row.Unit, 1}
		}
		fill(b, "", "  ", fmt.Sprintf("%s, smaller numbers are better, %s:", title, a.count(rows[0].row)))
		unit := map[string]string{"us": "usec", "": "count"}[s.name]
		if unit == "" {
			unit = s.name
		}
		fmt.Fprintf(b, "\n    percentiles (%s), %s%% CI of the change:\n", unit, a.confidence())
		for k, p := range a.Contrasts {
			if k == 0 {
				fmt.Fprintf(b, "\n%s:\n", p.Base)
				for _, l := range rows {
					if l.p.Patched == p.Patched {
						b.WriteString(a.rung(l.row, s, true))
					}
				}
			}
			fmt.Fprintf(b, "\n%s:\n", p.Patched)
			for _, l := range rows {
				if l.p.Patched == p.Patched {
					b.WriteString(a.rung(l.row, s, false))
				}
			}
		}
		b.WriteByte('\n')
	}
	a.notes(b)
	return nil
}

// rung is one line of the table.
func (a *Analysis) rung(r Row, s scale, base bool) string {
	f := strings.Fields(r.Metric)
	dir := f[0]
	if len(dir) > 1 && slices.Contains([]string{"read", "write", "trim", "mixed"}, dir) {
		dir = dir[:1]
	} else {
		dir = strings.Join(f[:len(f)-1], " ")
	}
	pct := strings.TrimPrefix(f[len(f)-1], "p") + "th"
	c := r.Mean
	v := c.Base
	if !base {
		v = c.Patched
	}
	head := fmt.Sprintf("%-4s | %7s=", dir, pct)
	if r.NA != "" {
		return head + r.NA + "\n"
	}
	n := 1
	if v/s.div >= 1000 {
		n = 0
	}
	t := fmt.Sprintf("%s[%*s]", head, 9, number(v/s.div, n))
	if !base {
		switch {
		case !r.Outcome.Answers():
			t += "  " + string(r.Outcome)
		default:
			if d, lo, hi, ok := c.Relative(); ok {
				p := shareDecimals(lo, hi)
				t += fmt.Sprintf("  %s%% (%s to %s)", signed(d*100, p), signed(lo*100, p), signed(hi*100, p))
			}
			if r.Outcome.Claims() {
				t += " " + string(r.Outcome)
			} else {
				t += " not shown"
			}
		}
	}
	return t + "\n"
}

// rowFormat is name, base, patched, change, interval.
const rowFormat = "  %-28s %8s %8s %7s  %s"

// rows is the table of metrics, before and after.
func (a *Analysis) rows(b *bytes.Buffer) {
	a.preamble(b)
	if s := a.setting(); s != "" {
		fill(b, "", "  ", s)
	}
	for _, p := range a.Contrasts {
		job := "\x00"
		for _, r := range p.Rows {
			if r.Job != job {
				job = r.Job
				name := cmpOr(job, "results")
				if w := a.Experiment.work(job); w != "" {
					name += " (" + w + ")"
				}
				n := a.count(firstCounted(p, job))
				if t := b.Bytes(); len(t) > 0 && !bytes.HasSuffix(t, []byte("\n\n")) {
					b.WriteByte('\n')
				}
				fill(b, "", "  ", name+", "+n+":")
				head := [2]string{p.Base, p.Patched}
				if len(p.Base) > 8 || len(p.Patched) > 8 {
					fill(b, "  ", "  ", fmt.Sprintf("A is %s, B is %s", p.Base, p.Patched))
					head = [2]string{"A", "B"}
				}
				fmt.Fprintf(b, rowFormat+"\n", "", head[0], head[1], "change", a.confidence()+"% CI")
			}
			a.row(b, r)
		}
	}
	b.WriteByte('\n')
	if c := a.callouts(); c != "" {
		b.WriteString(c)
	}
	for _, p := range a.Contrasts {
		if slices.ContainsFunc(p.Rows, func(r Row) bool { return r.Outcome == stats.TooFew }) {
			fill(b, "", "  ", "n/a (n=...): at least 5 "+a.Unit+" of each are needed for an answer.")
			break
		}
	}
	if !a.measured() {
		a.notes(b)
		return
	}
	fill(b, "", "  ", "better/worse: the difference is shown ("+a.Method+"; Mann-Whitney rank test and bootstrap intervals over "+a.Unit+", Holm). Otherwise: no difference shown, and the change that would have been seen with a chance of 95 %.")
	a.notes(b)
}

// firstCounted is a row of the job that has an n.
func firstCounted(p Pair, job string) Row {
	var first Row
	for _, r := range p.Rows {
		if r.Job == job {
			if r.NBase > 0 {
				return r
			}
			first = r
			first.NBase, first.NPatched = len(r.Values[0]), len(r.Values[1])
		}
	}
	return first
}

// row writes one metric, in two lines when there is no difference to show.
func (a *Analysis) row(b *bytes.Buffer, r Row) {
	c := r.Location()
	s := scaleFor(r.Unit, math.Max(math.Abs(c.Base), math.Abs(c.Patched)))
	name := r.Metric
	var in []string
	if s.name != "" {
		in = append(in, s.name)
	}
	if r.Better != None {
		in = append(in, string(r.Better))
	}
	if len(in) > 0 {
		name += " (" + strings.Join(in, ", ") + ")"
	}
	if r.NA != "" {
		b.WriteString(fmt.Sprintf("  %-28s %s\n", r.Metric, r.NA))
		return
	}
	// What does not fit beside its name goes below it.
	put := func(args ...any) {
		line := fmt.Sprintf(rowFormat, append([]any{name}, args...)...)
		if len(name) > 28 || len(strings.TrimRight(line, " ")) > width {
			fmt.Fprintf(b, "  %s\n", name)
			line = strings.TrimLeft(fmt.Sprintf(rowFormat, append([]any{""}, args...)...), " ")
			line = strings.Repeat(" ", max(4, min(width-len(line), 31))) + line
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	n := min(r.places(s), decimals(math.Max(math.Abs(c.Base), math.Abs(c.Patched))/s.div, 5))
	x, y := s.show(c.Base, n), s.show(c.Patched, n)
	change, ci := "", ""
	d, lo, hi, ok := c.Relative()
	p := shareDecimals(lo, hi)
	switch {
	case r.Outcome == stats.Same:
		change, ci = "same", "exact"
	case r.Exact && !r.Varies:
		if change, ci = signed(c.Diff/s.div, n), "exact"; ok {
			change = signed(d*100, 1) + "%"
		}
	case !r.Outcome.Answers():
		ci = fmt.Sprintf("n/a (n=%d)", min(r.NBase, r.NPatched))
	case ok:
		change, ci = signed(d*100, p)+"%", fmt.Sprintf("[%s, %s]", signed(lo*100, p), signed(hi*100, p))
	default:
		change, ci = signed(c.Diff/s.div, n), fmt.Sprintf("[%s, %s]", signed(c.Lo/s.div, n), signed(c.Hi/s.div, n))
	}
	put(x, y, change, ci)
	var say string
	switch {
	case r.Outcome.Claims():
		say = string(r.Outcome)
		if c == r.Median && c != r.Mean {
			say += ", by the medians (an outlier hides the means)"
		}
		if !r.Exact || r.Varies {
			say += ", " + pValue(r.RankP)
		}
	case r.Outcome == stats.NoDifference:
		say = "no difference shown"
		if r.Uncorrected > 0 {
			say += fmt.Sprintf(": %s is not significant among %d comparisons", pValue(r.RankP), r.Uncorrected)
		} else if r.Weak() {
			say += ": " + r.weak()
		} else if v, ok := r.SeenShare(); ok {
			say += fmt.Sprintf(" (would have seen %s %%)", stats.Figures(v*100, 2))
		}
	}
	if say != "" {
		fill(b, "    ", "      ", say)
	}
	for _, w := range r.Warnings {
		if !strings.HasPrefix(w, "n=") && !strings.HasPrefix(w, "all samples") {
			fill(b, "    ", "      ", w)
		}
	}
}

func pValue(p float64) string {
	if p < 0.001 {
		return "p<0.001"
	}
	return fmt.Sprintf("p=%.3f", p)
}

// weak says why a difference is not claimed whose interval leaves out zero. The
// nominal errors of looks are not round: three digits behind the point are kept.
func (r Row) weak() string {
	return fmt.Sprintf("%s, and a claim needs less than %g", pValue(r.RankP), math.Round(r.Alpha*1e3)/1e3)
}

// callouts name what got worse, for a reader who stops at the first line.
func (a *Analysis) callouts() string {
	var b bytes.Buffer
	worse := a.Worse()
	for i, r := range worse {
		if i == 5 {
			fmt.Fprintf(&b, "WORSE: %d more\n", len(worse)-i)
			break
		}
		fill(&b, "WORSE: ", "  ", r.Name+" "+short(r))
	}
	return b.String()
}

// measured tells whether any row was compared by statistics.
func (a *Analysis) measured() bool {
	for _, p := range a.Contrasts {
		for _, r := range p.Rows {
			if r.NA == "" && r.Outcome.Answers() && (!r.Exact || r.Varies) {
				return true
			}
		}
	}
	return false
}

// mountOptions picks options of a mount, as the kernel shows it, by name; all
// that are the same at each mount when none is named.
func mountOptions(m string, names ...string) string {
	var out []string
	for _, o := range strings.FieldsFunc(m, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
		k, v, has := strings.Cut(o, "=")
		switch {
		case len(names) > 0:
			if !slices.Contains(names, k) || k == "sec" && v == "sys" {
				continue
			}
		case strings.Trim(k, "0123456789") == "" || k == "mountport" || k == "addr" || k == "clientaddr" || k == "mountaddr":
			continue // counters of the transport, ports and addresses
		}
		if !has && len(names) > 0 || slices.Contains(out, o) {
			continue
		}
		out = append(out, o)
	}
	return strings.Join(out, ",")
}

// Worse are the rows that got worse.
func (a *Analysis) Worse() (out []Row) {
	for _, p := range a.Contrasts {
		for _, r := range p.Rows {
			if r.Outcome == stats.Worse {
				out = append(out, r)
			}
		}
	}
	return out
}

// Comparable tells whether any row gives an answer.
func (a *Analysis) Comparable() bool {
	for _, p := range a.Contrasts {
		for _, r := range p.Rows {
			if r.NA == "" && r.Outcome.Answers() {
				return true
			}
		}
	}
	return false
}

// Sweep is the option that jobs of an experiment differ by.
type Sweep struct {
	Option string
	Jobs   []string
	Values []string
}

// swept finds the one option whose value differs between jobs.
func (e *Experiment) swept(jobs []string) (Sweep, bool) {
	if len(jobs) < 2 {
		return Sweep{}, false
	}
	var opts []map[string]string
	keys := map[string]bool{}
	for _, j := range jobs {
		o := e.options(j)
		opts = append(opts, o)
		for k := range o {
			keys[k] = true
		}
	}
	var found []string
	for k := range keys {
		if slices.Contains([]string{"name", "filename", "directory", "description", "randseed", "filename_format"}, k) {
			continue
		}
		for _, o := range opts[1:] {
			if o[k] != opts[0][k] {
				found = append(found, k)
				break
			}
		}
	}
	if len(found) != 1 {
		return Sweep{}, false
	}
	s := Sweep{Option: found[0], Jobs: jobs}
	for _, o := range opts {
		s.Values = append(s.Values, cmpOr(o[found[0]], "-"))
	}
	return s, true
}

// sweep shows one metric over a swept option, the kernels below each other.
func (a *Analysis) sweep(b *bytes.Buffer) error {
	if len(a.Contrasts) == 0 || len(a.Contrasts[0].Rows) == 0 {
		return errors.New("nothing was compared")
	}
	var jobs []string
	for _, r := range a.Contrasts[0].Rows {
		if len(a.Experiment.options(r.Job)) > 0 && !slices.Contains(jobs, r.Job) {
			jobs = append(jobs, r.Job)
		}
	}
	sw, ok := a.Experiment.swept(jobs)
	if !ok {
		return fmt.Errorf("the jobs (%s) do not sweep one option: they must differ by exactly one", strings.Join(jobs, ", "))
	}
	a.preamble(b)
	var metrics []string
	has := map[string]int{}
	for _, r := range a.Contrasts[0].Rows {
		if !slices.Contains(jobs, r.Job) || r.NA != "" {
			continue
		}
		if has[r.Metric]++; has[r.Metric] == 2 {
			metrics = append(metrics, r.Metric)
		}
	}
	if len(metrics) == 0 {
		return errors.New("no metric was measured at two values of " + sw.Option)
	}
	name := 16
	for _, p := range a.Contrasts {
		name = min(26, max(name, len(p.Patched)+4))
	}
	find := func(p Pair, job, metric string) (Row, bool) {
		for _, r := range p.Rows {
			if r.Job == job && r.Metric == metric {
				return r, true
			}
		}
		return Row{}, false
	}
	for _, m := range metrics {
		var s scale
		var largest float64
		var head Row
		for _, p := range a.Contrasts {
			for _, j := range jobs {
				if r, ok := find(p, j, m); ok && r.NA == "" {
					if largest = math.Max(largest, math.Max(math.Abs(r.Mean.Base), math.Abs(r.Mean.Patched))); head.Metric == "" {
						head = r
					}
				}
			}
		}
		if head.Metric == "" {
			continue
		}
		s = scaleFor(head.Unit, largest)
		unit := ""
		if s.name != "" {
			unit = s.name + ", "
		}
		fill(b, "", "  ", fmt.Sprintf("%s (%s%s), %s, by %s:", head.words(), unit, head.side(), a.count(head), sw.Option))
		// As many values as fit beside each other.
		const cell = 9
		per := (width - name) / cell
		for from := 0; from < len(jobs); from += per {
			to := min(len(jobs), from+per)
			put := func(label string, of func(i int) string) {
				t := fmt.Sprintf("  %-*s", name-2, clip(label, name-3))
				for i := from; i < to; i++ {
					t += fmt.Sprintf("%*s", cell, of(i))
				}
				b.WriteString(strings.TrimRight(t, " ") + "\n")
			}
			put(sw.Option, func(i int) string { return sw.Values[i] })
			n := decimals(largest/s.div, 4)
			put(a.Contrasts[0].Base, func(i int) string {
				if r, ok := find(a.Contrasts[0], jobs[i], m); ok && r.NA == "" {
					return s.show(r.Mean.Base, n)
				}
				return "n/a"
			})
			for _, p := range a.Contrasts {
				put(p.Patched, func(i int) string {
					if r, ok := find(p, jobs[i], m); ok && r.NA == "" {
						return s.show(r.Mean.Patched, n)
					}
					return "n/a"
				})
				put("  ratio", func(i int) string {
					r, ok := find(p, jobs[i], m)
					if !ok || r.NA != "" || r.Mean.Base == 0 {
						return "n/a"
					}
					t := number(r.Mean.Patched/r.Mean.Base, 2) + "x"
					if !r.Outcome.Claims() {
						t = "(" + t + ")"
					}
					return t
				})
				for k, l := range []string{"  CI low", "  CI high"} {
					put(l, func(i int) string {
						r, ok := find(p, jobs[i], m)
						if !ok || r.NA != "" || r.Mean.Base == 0 || !r.Outcome.Answers() {
							return "n/a"
						}
						return number(1+[2]float64{r.Mean.Lo, r.Mean.Hi}[k]/r.Mean.Base, 2) + "x"
					})
				}
			}
		}
		b.WriteByte('\n')
	}
	fill(b, "", "  ", fmt.Sprintf("A ratio in brackets: no difference shown. CI: %s%% interval of the ratio.", a.confidence()))
	a.notes(b)
	return nil
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n-1] + "~"
}

// SchemaID identifies the JSON that format json writes.
const SchemaID = "urn:patchcheck:bench:1"

// Document is what format json writes: the analysis and the facts that its
// numbers need beside them.
type Document struct {
	Schema   string            `json:"$schema"`
	Design   Design            `json:"design"`
	Stop     Stop              `json:"stop"`
	Looks    []Look            `json:"looks,omitempty"`
	Arms     []Arm             `json:"arms"`
	Jobs     []Job             `json:"jobs,omitempty"`
	Hosts    []Host            `json:"hosts,omitempty"`
	Accel    Accel             `json:"accel"`
	Guest    Guest             `json:"guest"`
	Fabric   string            `json:"fabric,omitempty"`
	Mount    string            `json:"mount,omitempty"`
	Versions map[string]string `json:"versions,omitempty"`
	Emulated bool              `json:"emulated"` // absolute figures mean nothing
	*Analysis
}

func (a *Analysis) json(b *bytes.Buffer) error {
	e := a.Experiment
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	return enc.Encode(Document{SchemaID, e.Design, e.Stop, e.Looks, e.Arms, e.Jobs, e.Hosts, e.Accel, e.Guest, e.Fabric, e.Mount, e.Versions, e.Accel.Name == "tcg", a})
}

// notInNames are bytes that the benchmark format does not allow in a name or a
// unit.
var notInNames = regexp.MustCompile(`[^A-Za-z0-9.%+_-]+`)

// bench writes lines that benchstat reads: one for each boot and job, with
// the boot's values; "benchstat -col /arm FILE" compares the arms.
func (a *Analysis) bench(b *bytes.Buffer) error {
	e := a.Experiment
	w := benchfmt.NewWriter(b)
	for _, n := range a.Notes {
		fmt.Fprintf(b, "# %s\n", strings.ReplaceAll(n, "\n", " "))
	}
	for _, d := range a.Differs {
		fmt.Fprintf(b, "# not alike: %s\n", strings.ReplaceAll(d, "\n", " "))
	}
	var cfg []benchfmt.Config
	set := func(k, v string) {
		if v = strings.Join(strings.Fields(v), " "); v != "" {
			cfg = append(cfg, benchfmt.Config{Key: k, Value: []byte(v), File: true})
		}
	}
	set("run", a.ID)
	set("accel", e.Accel.Name)
	if len(e.Hosts) > 0 {
		set("cpu", e.Hosts[0].CPU)
	}
	set("plan", e.Plan)
	ss := e.collect()
	units := map[string]bool{}
	var jobs []string
	for _, s := range ss {
		if !slices.Contains(jobs, s.job) {
			jobs = append(jobs, s.job)
		}
		u := unitName(s)
		if s.better == None || units[u] {
			continue
		}
		units[u] = true
		if err := w.Write(&benchfmt.UnitMetadata{UnitMetadataKey: benchfmt.UnitMetadataKey{Unit: tidyUnit(u), Key: "better"}, OrigUnit: u, Value: string(s.better)}); err != nil {
			return err
		}
	}
	for _, job := range jobs {
		for _, arm := range e.Arms {
			for n := 0; ; n++ {
				res := &benchfmt.Result{Config: cfg, Iters: 1,
					Name: benchfmt.Name(fmt.Sprintf("%s/arm=%s", benchName(cmpOr(job, "result")), notInNames.ReplaceAllString(arm.Name, "_")))}
				more := false
				for _, s := range ss {
					v := s.arms[arm.Name]
					if s.job != job || v == nil {
						continue
					}
					more = more || n < len(v.values)
					if n >= len(v.values) || math.IsNaN(v.values[n]) {
						continue
					}
					if s.q > 0 && v.ios/int64(max(1, len(v.values))) < int64(stats.Needed(s.q)) {
						continue // this boot alone has too few I/Os
					}
					res.Values = append(res.Values, benchfmt.Value{Value: v.values[n], Unit: unitName(s)})
				}
				if !more {
					break
				}
				if len(res.Values) == 0 {
					continue
				}
				if err := w.Write(res); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// benchName is "Randwrite-qd1": a benchmark's name begins with a capital.
func benchName(s string) string {
	s = strings.ReplaceAll(notInNames.ReplaceAllString(s, "_"), "-", "_")
	if s != "" && s[0] >= 'a' && s[0] <= 'z' {
		s = string(s[0]-'a'+'A') + s[1:]
	}
	return s
}

// unitName is the unit with the metric in front: "write-clat-mean-ns".
func unitName(s *series) string {
	n := strings.ReplaceAll(notInNames.ReplaceAllString(s.metric, "-"), "_", "-")
	if s.unit == "" || s.unit == "1/s" {
		return n
	}
	return n + "-" + notInNames.ReplaceAllString(strings.ReplaceAll(s.unit, "B/s", "bytes-per-s"), "-")
}

// tidyUnit is the unit as the reader of the format knows it.
func tidyUnit(u string) string {
	_, t := benchunit.Tidy(1, u)
	return t
}

// FioText says what can be said of one fio output: its verdict, what is wrong,
// and a row of latencies for each direction.
func FioText(w io.Writer, name string, o fio.Output, verdict string, findings []string) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s: %s", name, verdict)
	if o.Version != "" {
		fmt.Fprintf(&b, " (%s)", o.Version)
	}
	b.WriteByte('\n')
	for _, f := range findings {
		fill(&b, "  ", "    ", f)
	}
	rows := o.Latency(Quantiles...)
	if len(rows) > 0 {
		fmt.Fprintf(&b, "  %-18s %9s %9s %9s", "us", "n", "min", "mean")
		for _, q := range Quantiles {
			fmt.Fprintf(&b, " %12s", quantileName(q))
		}
		fmt.Fprintf(&b, " %10s\n", "max")
	}
	us := func(ns float64) string { return number(ns/1000, decimals(ns/1000, 4)) }
	for _, r := range rows {
		if r.N == 0 {
			fmt.Fprintf(&b, "  %-18s %9d n/a: fio kept no latencies\n", clip(r.Job+" "+r.Dir, 18), r.IOs)
			continue
		}
		fmt.Fprintf(&b, "  %-18s %9d %9s %9s", clip(r.Job+" "+r.Dir+" "+r.Kind, 18), r.N, us(r.Min), us(r.Mean))
		for _, c := range r.Cells {
			t := c.Text
			if c.OK {
				t = us(c.NS)
			}
			fmt.Fprintf(&b, " %12s", t)
		}
		fmt.Fprintf(&b, " %10s\n", us(r.Max))
	}
	for _, r := range rows {
		s := scaleFor("B/s", r.BW)
		fmt.Fprintf(&b, "  %s %s: %s IOPS, %s %s, %d I/Os\n", r.Job, r.Dir, number(r.IOPS, decimals(r.IOPS, 4)), s.show(r.BW, decimals(r.BW/s.div, 4)), s.name, r.IOs)
	}
	w.Write(b.Bytes())
}
