// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"fmt"
	"html/template"
	"math"
	"strings"

	"patchcheck/checks/stats"
	"patchcheck/internal/plot"
)

// Section renders an analysis as a part of a page: the text, and figures of
// each comparison. The page needs plot.CSS once. id makes ids unique in it.
func Section(a *Analysis, id string) (template.HTML, error) {
	var b strings.Builder
	var text bytes.Buffer
	a.rows(&text)
	v := struct {
		Title, Text, Method string
		Sentences           []string
		Figures             []template.HTML
		Facts               [][2]string
	}{Title: "Measurement", Text: text.String(), Method: a.Method, Facts: a.facts()}
	if a.Plan != "" {
		v.Title += ": " + a.Plan
	}
	var s bytes.Buffer
	if err := a.sentence(&s); err == nil {
		for _, p := range strings.Split(strings.ReplaceAll(s.String(), "\nNote: ", "\n\nNote: "), "\n\n") {
			v.Sentences = append(v.Sentences, strings.Join(strings.Fields(p), " "))
		}
	}
	for _, f := range a.Figures(id) {
		v.Figures = append(v.Figures, f.HTML())
	}
	if err := section.Execute(&b, v); err != nil {
		return "", err
	}
	return template.HTML(b.String()), nil
}

var section = template.Must(template.New("section").Parse(`<section class="bench">
<h2>{{.Title}}</h2>
{{range .Sentences}}<p>{{.}}</p>
{{end}}{{range .Figures}}{{.}}
{{end}}<details open><summary>All metrics</summary><pre style="overflow-x:auto">{{.Text}}</pre></details>
<details><summary>How it was measured</summary><p>{{.Method}}</p><table>
{{range .Facts}}<tr><th style="text-align:left;padding-right:1em">{{index . 0}}</th><td>{{index . 1}}</td></tr>
{{end}}</table></details>
</section>
`))

// page is a whole self-contained page.
func (a *Analysis) page(b *bytes.Buffer) error {
	s, err := Section(a, "bench")
	if err != nil {
		return err
	}
	return pageT.Execute(b, struct {
		Title string
		CSS   template.CSS
		Body  template.HTML
	}{cmpOr(a.Title, "patchcheck bench") + " - measurement", template.CSS(plot.CSS), s})
}

var pageT = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{.Title}}</title><style>{{.CSS}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--plot-ink);background:var(--plot-bg);max-width:800px;margin:1rem auto;padding:0 1rem}
pre{font-size:.85rem}</style></head><body>
{{.Body}}</body></html>
`))

// facts are the experiment's circumstances, as a table.
func (a *Analysis) facts() (out [][2]string) {
	e := a.Experiment
	add := func(k, v string) {
		if v != "" {
			out = append(out, [2]string{k, v})
		}
	}
	for _, x := range e.Arms {
		t := strings.TrimSpace(x.Release + " " + x.Compiler)
		if len(x.Patches) > 0 {
			t += ": " + strings.Join(x.Patches, "; ")
		}
		add("arm "+x.Name, t)
	}
	for _, h := range e.Hosts {
		add(strings.TrimSpace("host "+h.Role), fmt.Sprintf("%s, %d CPUs, %d MiB, Linux %s %s", h.CPU, h.CPUs, h.MemMiB, h.Kernel, h.Link))
	}
	add("accelerator", strings.TrimSpace(e.Accel.Name+" "+e.Accel.Reason))
	if e.Guest.CPUs > 0 {
		add("guest", fmt.Sprintf("%d CPUs, %d MiB", e.Guest.CPUs, e.Guest.MemMiB))
	}
	add("fabric", e.Fabric)
	add("mount", e.Mount)
	for _, k := range []string{"fio", "qemu", "compiler"} {
		add(k, e.Versions[k])
	}
	if !e.loose() {
		add("order", fmt.Sprintf("random in blocks, seed %d", e.Design.Seed))
		add("boots", fmt.Sprintf("%d made, %d runs and %d warm-up runs in each", len(e.Boots), e.Design.Runs, e.Design.Warmup))
		add("ended", strings.TrimSpace(e.Stop.Reason+": "+e.Stop.Text))
		for _, b := range e.Boots {
			if b.Rejected != "" {
				add(fmt.Sprintf("boot %d, %s", b.Index, b.Arm), b.Rejected)
			}
		}
	}
	for _, j := range e.Jobs {
		add("job "+j.Name, strings.Join(strings.Fields(j.Text), " "))
	}
	return out
}

// Figures of each comparison: the distributions of latency with all arms, the
// difference of the primary metric with its interval boot by boot, and the
// ladder of percentiles.
func (a *Analysis) Figures(id string) (out []plot.Figure) {
	e := a.Experiment
	note := ""
	if e.Accel.Name == "tcg" {
		note = TCGNote + " "
	}
	us := func(v float64) string { return number(v, decimals(v, 3)) }
	ss := e.collect()
	seen := map[string]bool{}
	n := 0
	next := func() string { n++; return fmt.Sprintf("%s-%d", id, n) }
	for i, s := range ss {
		if s.q == 0 || s.unit != "ns" {
			continue
		}
		group := s.name()[:strings.LastIndexByte(s.name(), ' ')]
		if seen[group] {
			continue
		}
		seen[group] = true
		var samples []plot.Sample
		for _, arm := range e.Arms {
			v := s.arms[arm.Name]
			if !whole(v) {
				samples = nil
				break
			}
			var all []stats.Hist
			for _, h := range v.hists {
				all = append(all, h...)
			}
			m := stats.Merge(all...)
			x := plot.Sample{Name: arm.Name}
			for _, b := range m.Bins {
				at := (b.Lo + b.Hi) / 2
				if m.Known {
					at = math.Min(math.Max(at, m.Min), m.Max)
				}
				x.Values, x.Weights = append(x.Values, at/1000), append(x.Weights, float64(b.N))
			}
			samples = append(samples, x)
		}
		if len(samples) > 0 {
			out = append(out, plot.CDF(plot.Frame{ID: next(), Title: "Latency of " + group, Desc: note + "Share of I/Os done within a time; all boots of an arm together.",
				X: plot.Axis{Label: "us", Log: true, Format: us}}, samples))
		}
		if f, ok := a.ladder(ss[i:], group, next(), note); ok {
			out = append(out, f)
		}
	}
	for _, p := range a.Contrasts {
		if r, ok := p.primary(); ok && r.NA == "" && len(r.Values[0]) > 0 {
			out = append(out, a.forest(p, r, next(), note))
		}
	}
	return out
}

// ladder compares the percentiles of one distribution.
func (a *Analysis) ladder(ss []*series, group, id, note string) (plot.Figure, bool) {
	var rungs []plot.Rung
	names := []string{a.Contrasts[0].Base}
	for _, p := range a.Contrasts {
		names = append(names, p.Patched)
	}
	for _, s := range ss {
		if s.q == 0 || s.name()[:strings.LastIndexByte(s.name(), ' ')] != group {
			continue
		}
		g := plot.Rung{Label: quantileName(s.q)}
		for k, p := range a.Contrasts {
			for _, r := range p.Rows {
				if r.Name != s.name() {
					continue
				}
				if r.NA != "" || !r.Outcome.Answers() {
					g.Values, g.Note = nil, cmpOr(r.NA, string(r.Outcome))
					continue
				}
				if k == 0 {
					g.Values = append(g.Values, r.Mean.Base/1000)
				}
				g.Values = append(g.Values, r.Mean.Patched/1000)
				if g.Note != "" {
					g.Note += "; "
				}
				g.Note += short(r)
				if r.Outcome == stats.NoDifference {
					g.Note += ", not shown"
				}
				g.Bad = g.Bad || r.Outcome == stats.Worse
			}
		}
		if len(g.Values) == len(names) {
			rungs = append(rungs, g)
		}
	}
	if len(rungs) == 0 {
		return plot.Figure{}, false
	}
	return plot.Ladder(plot.Frame{ID: id, Title: "Percentiles of " + group, Desc: note + "Lower is better; only percentiles with enough I/Os behind them.",
		X: plot.Axis{Label: "us", Log: true, Format: func(v float64) string { return number(v, decimals(v, 4)) }}}, names, rungs), true
}

// forest shows the primary metric boot by boot, each boot of the patched arm
// less the base's of its block, and the difference with its interval.
func (a *Analysis) forest(p Pair, r Row, id, note string) plot.Figure {
	c := r.Location()
	s := scaleFor(r.Unit, math.Max(math.Abs(c.Lo), math.Abs(c.Hi)))
	n := r.places(s)
	var rows []plot.Interval
	x, y := r.Values[0], r.Values[1]
	for i := 0; i < min(len(x), len(y)); i++ {
		d := (y[i] - x[i]) / s.div
		rows = append(rows, plot.Interval{Label: fmt.Sprintf("%s %d", strings.TrimSuffix(a.Unit, "s"), i+1), Value: d, Low: d, High: d})
	}
	if r.Outcome.Answers() && c.Hi >= c.Lo {
		rows = append(rows, plot.Interval{Label: "all", Value: c.Diff / s.div, Low: c.Lo / s.div, High: c.Hi / s.div, Summary: true,
			Note: fmt.Sprintf("%s (%s to %s): %s", signed(c.Diff/s.div, n), signed(c.Lo/s.div, n), signed(c.Hi/s.div, n), r.Outcome), Bad: r.Outcome == stats.Worse})
	}
	return plot.Forest(plot.Frame{ID: id, Title: fmt.Sprintf("%s, %s less %s", r.Name, p.Patched, p.Base),
		Desc: note + fmt.Sprintf("%s; the interval is over %s.", strings.ToUpper(r.side()[:1])+r.side()[1:], a.Unit),
		X:    plot.Axis{Label: s.name, Format: func(v float64) string { return plot.Number(math.Round(v*1e9) / 1e9) }}}, 0, rows)
}
