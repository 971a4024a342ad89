// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"unicode"

	"patchcheck/checks"
	"patchcheck/internal/plot"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

// countFigures draws the summed columns of the plan's table, per device over
// all NFS versions: Sends inline and by reference, say.
func countFigures(r *runfolder.Run) []template.HTML {
	var cols []testplans.Column
	var names []string
	for _, c := range r.Plan.Table.Columns {
		if c.Sum {
			cols = append(cols, c)
			names = append(names, clean(c.Head))
		}
	}
	if len(cols) == 0 {
		return nil
	}
	var bars []plot.Bar
	bar := func(name string, cells []*runfolder.Cell) {
		if len(cells) == 0 {
			return
		}
		b := plot.Bar{Label: clean(name), Parts: make([]float64, len(cols))}
		unknown := 0
		var bad []string
		for _, c := range cells {
			a := c.Last()
			if a.Invalid || len(a.Values) == 0 {
				unknown++
				continue
			}
			if c.Verdict != checks.Pass {
				bad = append(bad, string(c.Verdict))
			}
			for i, col := range cols {
				b.Parts[i] += float64(a.Values[col.Value])
			}
		}
		switch {
		case unknown == len(cells):
			b.Bad, b.Note = true, "no valid counts"
		case unknown > 0:
			b.Bad, b.Note = true, fmt.Sprintf("%d of %d cells", len(cells)-unknown, len(cells))
		case len(bad) > 0:
			slices.Sort(bad)
			b.Bad, b.Note = true, strings.Join(slices.Compact(bad), ", ")
		}
		bars = append(bars, b)
	}
	for _, role := range []string{testplans.RolePatched, testplans.RoleBase} {
		var order []string
		of := map[string][]*runfolder.Cell{}
		for _, c := range r.Cells {
			if c.Spec.Kernel != role {
				continue
			}
			n := c.Spec.Device.Name
			if of[n] == nil {
				order = append(order, n)
			}
			of[n] = append(of[n], c)
		}
		for _, n := range order {
			name := n
			if role == testplans.RoleBase {
				name = "base kernel, " + n
			}
			bar(name, of[n])
		}
	}
	if len(bars) == 0 {
		return nil
	}
	var versions []string
	for _, v := range r.Plan.Axes.NFS {
		versions = append(versions, "NFSv"+v)
	}
	events := onlySource(r, cols)
	title := []rune(clean(events + " " + strings.ToLower(strings.Join(names, " and ")) + " per device"))
	title = []rune(strings.TrimSpace(string(title)))
	title[0] = unicode.ToUpper(title[0])
	if events == "" {
		events = "events"
	}
	fig := plot.StackedBars(plot.Frame{ID: "sums", Title: string(title),
		Desc: clean("Added over " + strings.Join(versions, " and ") + "; the counted parts of the workload."), X: plot.Axis{Label: clean(events)}, Y: plot.Axis{Label: "device"}}, names, bars)
	return []template.HTML{fig.HTML()}
}

// onlySource is the one count that all columns come from, or "".
func onlySource(r *runfolder.Run, cols []testplans.Column) string {
	from := map[string]bool{}
	name := ""
	for _, c := range cols {
		for _, v := range r.Plan.Values {
			if v.Name != c.Value {
				continue
			}
			for _, f := range v.From {
				from[f], name = true, f
			}
		}
	}
	if len(from) != 1 {
		return ""
	}
	return name
}

// timingFigures draws when each step of the run ran, and what each cell spent
// its time on.
func timingFigures(r *runfolder.Run) []template.HTML {
	var out []template.HTML
	var bars []plot.Bar
	for _, s := range r.Steps {
		b := plot.Bar{Label: clean(s.Name), From: math.Max(0, s.Started.Sub(r.Started).Seconds()), Parts: []float64{s.Elapsed.Seconds()}, Note: plot.Seconds(s.Elapsed.Seconds())}
		if s.Status != "" && s.Status != "ok" {
			b.Note += ", " + clean(s.Status)
		}
		b.Bad = s.Status == "failed"
		bars = append(bars, b)
	}
	if len(bars) > 0 {
		out = append(out, plot.StackedBars(plot.Frame{ID: "steps", Title: "Steps of the run", Desc: "Each from when it began.", X: plot.Axis{Label: "since the start", Duration: true}, Y: plot.Axis{Label: "step"}}, []string{"time"}, bars).HTML())
	}
	// The parts of a cell's time: the workload's parts, and the rest.
	var names []string
	for _, w := range r.Plan.Workload {
		names = append(names, w.Name)
	}
	const most = 5 // hatchings that can be told apart, with the rest
	if len(names) > most {
		names = names[:most]
	}
	bars = nil
	for _, c := range r.Cells {
		a := c.Last()
		if len(a.Steps) == 0 {
			continue
		}
		b := plot.Bar{Label: clean(c.ID), Parts: make([]float64, len(names)+1), Note: plot.Seconds(a.Elapsed.Seconds())}
		for _, s := range a.Steps {
			part, _, _ := strings.Cut(s.Name, ":")
			i := slices.Index(names, part)
			if i < 0 {
				i = len(names)
			}
			b.Parts[i] += s.Elapsed.Seconds()
			if s.Error != "" {
				b.Bad, b.Note = true, clean(s.Name)+" failed"
			}
		}
		if c.Reused != "" {
			b.Note += ", reused"
		}
		bars = append(bars, b)
	}
	if len(bars) > 0 {
		parts := make([]string, 0, len(names)+1)
		for _, n := range names {
			parts = append(parts, clean(n))
		}
		out = append(out, plot.StackedBars(plot.Frame{ID: "celltime", Title: "What each cell spent its time on", Desc: "The deciding attempt. Times are of " + strings.ToUpper(r.Accel.Name) + " guests and of no use to compare kernels.",
			X: plot.Axis{Label: "time", Duration: true}, Y: plot.Axis{Label: "cell"}}, append(parts, "set-up and rest"), bars).HTML())
	}
	return out
}
