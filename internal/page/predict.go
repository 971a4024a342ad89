// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"html/template"
	"slices"
	"sort"
	"strings"

	"patchcheck/checks"
	"patchcheck/checks/prediction"
	"patchcheck/internal/plot"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

// predicted is the figure of a plan's prediction with what it stands on.
type predicted struct {
	Title    string
	Figure   template.HTML
	Text     []string
	Rows     []predictedRow
	findings []checks.Finding
}

type predictedRow struct {
	Anchor, Cell, Limit, Predicted, Measured string
	Agrees, Self                             bool
}

// planOf is the run's plan; what a run recorded before plans could predict
// takes the section from the bundled plan of the same name, if its names fit.
func planOf(r *runfolder.Run) *testplans.Plan {
	p := r.Plan
	if p.Predict != nil {
		return &p
	}
	now, err := testplans.Load(p.Name)
	if err != nil || now.Predict == nil || strings.ContainsAny(p.Name, "/.") {
		return &p
	}
	q := *now.Predict
	have := 0
	for _, v := range p.Values {
		if v.Name == q.Value || v.Name == q.Limit {
			have++
		}
	}
	for _, c := range p.Count {
		if _, ok := c.Fields[q.Size]; ok && c.Name == q.Count {
			have++
		}
	}
	if have == 3 {
		p.Predict = &q
	}
	return &p
}

// Predict says what the run's sizes predict, and compares it with its cells.
func Predict(r *runfolder.Run) prediction.Result {
	var cells []prediction.Cell
	for _, c := range r.Cells {
		a := c.Last()
		if a.Invalid || len(a.Hists) == 0 || roleOf(c, a) != c.Spec.Kernel {
			continue
		}
		cells = append(cells, prediction.Cell{Spec: c.Spec, Hists: a.Hists, Values: a.Values, Absent: r.Kernels[c.Spec.Kernel].Absent})
	}
	return prediction.Predict(planOf(r), cells)
}

func predict(r *runfolder.Run) *predicted {
	res := Predict(r)
	q := res.Predict
	if q.Value == "" || len(r.Cells) == 0 {
		return nil
	}
	name := q.About
	if name == "" {
		name = q.Value
	}
	out := &predicted{Title: clean(fmt.Sprintf("%s at each limit from 0 to %d bytes", name, q.UpTo)), findings: res.Findings}
	if len(res.Curves) == 0 {
		out.Text = []string{sentence("No prediction: " + clean(res.Missing))}
		return out
	}
	var lines []plot.Line
	series := map[string]int{}
	open := false
	for i, c := range res.Curves {
		l := plot.Line{Name: "NFSv" + c.NFS}
		for _, s := range c.Steps {
			l.X = append(l.X, float64(s.Limit))
			l.Y = append(l.Y, float64(s.Low))
			l.Low = append(l.Low, float64(s.Low))
			l.High = append(l.High, float64(s.High))
		}
		if c.Exact < q.UpTo {
			open = true
		} else {
			l.Low, l.High = nil, nil
		}
		series[c.NFS] = i
		lines = append(lines, l)
	}
	at := map[int64][]string{}
	var points []plot.Point
	agree, self, others := 0, 0, 0
	anchors := map[string]string{}
	ids := map[string]bool{}
	for _, c := range r.Cells {
		anchors[c.ID] = anchor("cell", c.ID, ids)
	}
	for _, m := range res.Measured {
		if n := at[m.Limit]; !slices.Contains(n, m.Device) {
			at[m.Limit] = append(n, m.Device)
		}
		switch {
		case m.Self && m.Agrees:
			self++
		case m.Agrees:
			agree++
			others++
		default:
			others++
		}
		points = append(points, plot.Point{X: float64(m.Limit), Y: float64(m.Value), Series: series[m.NFS], Label: clean(m.Cell), Bad: !m.Agrees})
		want := plot.Number(float64(m.Low))
		if m.High != m.Low {
			want += " to " + plot.Number(float64(m.High))
		}
		out.Rows = append(out.Rows, predictedRow{anchors[m.Cell], m.Cell, fmt.Sprint(m.Limit), want, plot.Number(float64(m.Value)), m.Agrees, m.Self})
	}
	var marks []plot.Mark
	for limit, devices := range at {
		marks = append(marks, plot.Mark{X: float64(limit), Label: clean(fmt.Sprintf("%d %s", limit, strings.Join(devices, ", ")))})
	}
	sort.Slice(marks, func(i, j int) bool { return marks[i].X < marks[j].X })
	var ticks []float64
	for i := int64(0); i <= 8; i++ {
		ticks = append(ticks, float64(q.UpTo*i/8))
	}
	var from []string
	for _, c := range res.Curves {
		from = append(from, c.From)
	}
	kernel := "the sizes that the base kernel sent"
	if q.Where == "" {
		kernel = "the sizes in the cell with the largest limit"
	}
	fig := plot.Steps(plot.Frame{ID: "predict", Title: out.Title,
		Desc: clean(fmt.Sprintf("Lines: predicted from %s (%s). Points: measured. Dotted: the limits that cells were granted.", kernel, strings.Join(from, ", "))),
		X:    plot.Axis{Label: "limit, bytes", Max: float64(q.UpTo), Ticks: ticks}, Y: plot.Axis{Label: q.Value}}, lines, marks, points)
	out.Figure = fig.HTML()
	switch {
	case len(res.Measured) == 0:
		out.Text = append(out.Text, "No cell of the patched kernel measured it.")
	case others == 0:
		out.Text = append(out.Text, "Only the cells that the prediction comes from measured it, so it is not confirmed by another.")
	case agree == others:
		s := fmt.Sprintf("Prediction and measurement agree in %s", map[bool]string{true: "the one cell", false: fmt.Sprintf("all %d cells", agree)}[agree == 1])
		if self > 0 {
			s += fmt.Sprintf(" (not counting %s that the prediction comes from)", plural(self, "cell", "cells"))
		}
		out.Text = append(out.Text, s+".")
	default:
		out.Text = append(out.Text, fmt.Sprintf("Prediction and measurement differ in %d of %s: see the findings.", others-agree, plural(others, "cell", "cells")))
	}
	if open {
		limits := map[int64]bool{}
		var exact []string
		for _, c := range res.Curves {
			if !limits[c.Exact] {
				limits[c.Exact] = true
				exact = append(exact, fmt.Sprint(c.Exact))
			}
		}
		out.Text = append(out.Text, fmt.Sprintf("Above %s bytes, the largest limit measured, the recorded sizes do not tell which of the larger events could be %s; the line is the least and the shaded area the most that is possible.", strings.Join(exact, " and "), q.Value))
	}
	return out
}
