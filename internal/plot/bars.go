// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"fmt"
	"math"
	"strings"
)

// Bar is one horizontal bar of stacked parts.
type Bar struct {
	Label string
	Parts []float64 // one per name of the legend, none negative; NaN is not known and drawn as nothing
	// From is where the bar begins: a span of a timeline, say.
	From float64
	Note string // stands behind the bar instead of its total
	Bad  bool   // Note is about something wrong
}

// StackedBars draws bars whose parts add up, one below the other. names are
// the parts' names, in order; one name makes plain bars. X is the value axis.
func StackedBars(f Frame, names []string, bars []Bar) Figure {
	total := func(b Bar) float64 {
		t := b.From
		for _, p := range b.Parts {
			if !math.IsNaN(p) {
				t += p
			}
		}
		return t
	}
	var all []float64
	for _, b := range bars {
		all = append(all, total(b))
	}
	f.X.Free = false
	note := func(b Bar) string {
		if b.Note != "" {
			return b.Note
		}
		return f.X.format(total(b) - b.From)
	}
	fig := Figure{Title: f.Title, Desc: f.Desc}
	fig.Wide, fig.Narrow = draw(f, func(c *canvas) {
		styles := barStyles(len(names))
		c.hatch(styles)
		labels, notes := 0.0, 0.0
		for _, b := range bars {
			labels = math.Max(labels, textWidth(b.Label))
			notes = math.Max(notes, textWidth(note(b)))
		}
		c.left = math.Min(labels+10, c.width*.4)
		row := 22.0
		if c.narrow {
			c.left, row = 2, 38
		}
		notes = math.Min(notes, c.width*.35)
		c.right = c.width - notes - 10
		c.top = c.legend(names, 0, func(i int, x, y float64) { c.box(styles[i], x, y-5, 22, 10) })
		c.top += 4
		c.bottom = c.top + row*float64(len(bars))
		n := 6
		if c.narrow {
			n = 3
		}
		lo, hi, ticks := bounds(f.X, all, true, n)
		s := scale{min: lo, max: hi, from: c.left, to: c.right}
		c.xAxis(f.X, s, ticks)
		for i, b := range bars {
			y := c.top + row*float64(i)
			if c.narrow {
				c.text("", c.left, y+12, "start", fit(b.Label, c.width-4))
				y += 15
			} else {
				c.text("", c.left-8, y+15, "end", fit(b.Label, c.left-8))
			}
			v := b.From
			for k, p := range b.Parts {
				if math.IsNaN(p) || p <= 0 {
					continue
				}
				c.box(styles[k%len(styles)], s.at(v), y+4, math.Max(s.at(v+p)-s.at(v), .8), 14)
				v += p
			}
			class := "dim"
			if b.Bad {
				class = "bad"
				c.cross(s.at(v)+9, y+11, 4)
				v += (hi - lo) * 14 / math.Max(1, c.right-c.left)
			}
			text := fit(note(b), c.width*.35)
			c.text(class, math.Max(0, math.Min(s.at(v)+6, c.width-textWidth(text)-1)), y+15, "start", text)
		}
	})
	head := []string{rowKind(f)}
	head = append(head, names...)
	if len(names) > 1 {
		head = append(head, "total")
	}
	t := Table{Head: head}
	for _, b := range bars {
		row := []string{b.Label}
		for k := range names {
			v := math.NaN()
			if k < len(b.Parts) {
				v = b.Parts[k]
			}
			row = append(row, f.X.format(v))
		}
		if len(names) > 1 {
			row = append(row, f.X.format(total(b)-b.From))
		}
		t.Rows = append(t.Rows, row)
	}
	fig.Tables = []Table{t}
	return fig
}

// Interval is an estimate with its confidence interval, or a single value
// when Low and High equal it.
type Interval struct {
	Label     string
	Value     float64
	Low, High float64
	Note      string // behind the interval; "" prints value and bounds
	Summary   bool   // the combined estimate: drawn as a diamond, below a rule
	Bad       bool   // stands out, with a cross
}

// rowKind names the first column of a table: what the rows are.
func rowKind(f Frame) string {
	if f.Y.Label != "" {
		return f.Y.Label
	}
	return "what"
}

// Forest draws a difference per repetition (per boot, per night) with its
// interval, and the combined estimates below. zero is the value of "no
// difference", drawn as a line.
func Forest(f Frame, zero float64, rows []Interval) Figure {
	all := []float64{zero}
	for _, r := range rows {
		all = append(all, r.Value, r.Low, r.High)
	}
	note := func(r Interval) string {
		if r.Note != "" {
			return r.Note
		}
		if r.Low == r.High {
			return f.X.format(r.Value)
		}
		return fmt.Sprintf("%s [%s, %s]", f.X.format(r.Value), f.X.format(r.Low), f.X.format(r.High))
	}
	fig := Figure{Title: f.Title, Desc: f.Desc}
	fig.Wide, fig.Narrow = draw(f, func(c *canvas) {
		labels, notes := 0.0, 0.0
		for _, r := range rows {
			labels = math.Max(labels, textWidth(r.Label))
			notes = math.Max(notes, textWidth(note(r)))
		}
		row := 22.0
		c.left, c.right = math.Min(labels+12, c.width*.35), c.width-math.Min(notes+12, c.width*.4)
		if c.narrow {
			c.left, c.right, row = 6, c.width-6, 40
		}
		c.top = 6
		c.bottom = c.top + row*float64(len(rows)) + 4
		n := 6
		if c.narrow {
			n = 4
		}
		lo, hi, ticks := bounds(f.X, all, false, n)
		s := scale{min: lo, max: hi, from: c.left, to: c.right, log: f.X.Log}
		c.xAxis(f.X, s, ticks)
		c.line("axis", s.at(zero), c.top, s.at(zero), c.bottom)
		for i, r := range rows {
			y := c.top + row*float64(i)
			if r.Summary && (i == 0 || !rows[i-1].Summary) {
				c.line("axis", 0, y, c.width, y)
			}
			class := ""
			if r.Bad {
				class = "bad"
			}
			mid := y + 13
			if c.narrow {
				c.text(class, 2, y+13, "start", fit(r.Label, c.width-textWidth(note(r))-10))
				c.text("dim", c.width-2, y+13, "end", note(r))
				mid = y + 26
			} else {
				c.text(class, 2, y+17, "start", fit(r.Label, c.left-8))
				c.text("dim", c.width-2, y+17, "end", fit(note(r), c.width-c.right))
			}
			if math.IsNaN(r.Value) {
				continue
			}
			low, high := clampRange(s, r.Low), clampRange(s, r.High)
			if r.Summary {
				x := s.at(r.Value)
				fmt.Fprintf(&c.b, "<polygon class=\"f1 k1\" points=\"%s,%s %s,%s %s,%s %s,%s\"/>\n", num(low), num(mid), num(x), num(mid-6), num(math.Max(high, low+1)), num(mid), num(x), num(mid+6))
			} else {
				c.path(0, fmt.Sprintf("M%s %sH%s", num(low), num(mid), num(high)))
				c.line("line k1", low, mid-4, low, mid+4)
				c.line("line k1", high, mid-4, high, mid+4)
				c.marker(1, s.at(r.Value), mid, 3.6, false)
			}
			if r.Bad {
				c.cross(s.at(r.Value), mid, 6)
			}
		}
	})
	t := Table{Head: []string{rowKind(f), "estimate", "low", "high"}}
	for _, r := range rows {
		t.Rows = append(t.Rows, []string{r.Label, f.X.format(r.Value), f.X.format(r.Low), f.X.format(r.High)})
	}
	fig.Tables = []Table{t}
	return fig
}

// clampRange gives the coordinate of v, kept inside the axis.
func clampRange(s scale, v float64) float64 {
	return math.Min(math.Max(s.at(v), math.Min(s.from, s.to)), math.Max(s.from, s.to))
}

// Rung is one percentile of two or more sides: of the base and the patched
// kernel, say.
type Rung struct {
	Label  string    // "p99.9"
	Values []float64 // one per name; NaN is not known
	// Low and High bound each value (confidence interval of the quantile);
	// nil when not known.
	Low, High []float64
	Note      string // behind the rung: "+3.1%"
	Bad       bool
}

// Ladder compares percentiles of two or more samples rung by rung; X is the
// value axis (often Log).
func Ladder(f Frame, names []string, rungs []Rung) Figure {
	var all []float64
	for _, r := range rungs {
		all = append(all, r.Values...)
		all = append(all, r.Low...)
		all = append(all, r.High...)
	}
	fig := Figure{Title: f.Title, Desc: f.Desc}
	fig.Wide, fig.Narrow = draw(f, func(c *canvas) {
		labels, notes := 0.0, 0.0
		for _, r := range rungs {
			labels = math.Max(labels, textWidth(r.Label))
			notes = math.Max(notes, textWidth(r.Note))
		}
		c.left, c.right = labels+14, c.width-math.Max(notes+12, 8)
		c.top = c.legend(names, 0, func(i int, x, y float64) { c.marker(i, x+11, y, 4, false) }) + 4
		row := 12 + 10*float64(max(1, len(names)))
		c.bottom = c.top + row*float64(len(rungs)) + 2
		n := 7
		if c.narrow {
			n = 3
		}
		lo, hi, ticks := bounds(f.X, all, true, n)
		s := scale{min: lo, max: hi, from: c.left, to: c.right, log: f.X.Log}
		c.xAxis(f.X, s, ticks)
		for i, r := range rungs {
			y := c.top + row*float64(i)
			c.line("grid", c.left, y, c.right, y)
			c.text("", c.left-8, y+row/2+4, "end", r.Label)
			for k, v := range r.Values {
				if math.IsNaN(v) {
					continue
				}
				my := y + 11 + 10*float64(k)
				if k < len(r.Low) && k < len(r.High) && !math.IsNaN(r.Low[k]) && !math.IsNaN(r.High[k]) {
					c.path(k, fmt.Sprintf("M%s %sH%s", num(clampRange(s, r.Low[k])), num(my), num(clampRange(s, r.High[k]))))
				}
				c.marker(k, s.at(v), my, 4, false)
			}
			if r.Note != "" {
				class := "dim"
				if r.Bad {
					class = "bad"
				}
				c.text(class, c.width-2, y+row/2+4, "end", r.Note)
			}
		}
	})
	t := Table{Head: []string{rowKind(f)}}
	bounded := false
	for _, r := range rungs {
		bounded = bounded || len(r.Low) > 0
	}
	t.Head = append(t.Head, names...)
	notes := false
	for _, r := range rungs {
		row := []string{r.Label}
		for k := range names {
			s := "-"
			if k < len(r.Values) {
				s = f.X.format(r.Values[k])
			}
			if bounded && k < len(r.Low) && k < len(r.High) {
				s += fmt.Sprintf(" [%s, %s]", f.X.format(r.Low[k]), f.X.format(r.High[k]))
			}
			row = append(row, s)
		}
		row = append(row, r.Note)
		notes = notes || r.Note != ""
		t.Rows = append(t.Rows, row)
	}
	if notes {
		t.Head = append(t.Head, "change")
	} else {
		for i, row := range t.Rows {
			t.Rows[i] = row[:len(row)-1]
		}
	}
	fig.Tables = []Table{t}
	return fig
}

// Spark draws a small line with no axes for a table cell: one value per
// night, say. NaN leaves a gap. label is what it is read out as. It is decoration beside
// numbers and has no table of its own.
func Spark(label string, values []float64) string {
	const w, h = 96.0, 20.0
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if !math.IsNaN(v) {
			lo, hi = math.Min(lo, v), math.Max(hi, v)
		}
	}
	s := scale{min: lo, max: hi, from: h - 2, to: 2}
	var d strings.Builder
	pen := false
	for i, v := range values {
		if math.IsNaN(v) {
			pen = false
			continue
		}
		op := "L"
		if !pen {
			op = "M"
		}
		fmt.Fprintf(&d, "%s%s %s", op, num(2+(w-4)*float64(i)/math.Max(1, float64(len(values)-1))), num(s.at(v)))
		if !pen && (i+1 == len(values) || math.IsNaN(values[i+1])) {
			d.WriteString("h.5") // a single value between gaps
		}
		pen = true
	}
	return fmt.Sprintf("<svg class=\"plot spark\" width=\"%s\" height=\"%s\" viewBox=\"0 0 %s %s\" role=\"img\" aria-label=\"%s\"><path class=\"line k1\" d=\"%s\"/></svg>",
		num(w), num(h), num(w), num(h), esc(label), d.String())
}
