// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"
)

// Line is one series over X, in rising order of X. NaN in Y breaks the line.
type Line struct {
	Name string
	X, Y []float64
	// Low and High are the edges of a band around the line, of the same length
	// as X; nil for none.
	Low, High []float64
}

// Point is a value drawn on top of the lines: a measurement.
type Point struct {
	X, Y   float64
	Series int    // index of the line whose colour and marker it has
	Label  string // where it was measured; in the table and, when Bad, in the drawing
	Bad    bool   // does not fit: a cross and its label are drawn
}

// Mark is a labelled position on the X axis.
type Mark struct {
	X     float64
	Label string
}

// Steps draws functions that hold their value from one X to the next and, in
// the end, to the end of the axis, with marked positions and measured points.
func Steps(f Frame, lines []Line, marks []Mark, points []Point) Figure {
	fig := lineFigure(f, lines, marks, points, true)
	// The tables: the lines over all their steps, then what was measured.
	t := stepTable(f, lines)
	fig.Tables = []Table{t}
	if len(points) > 0 {
		m := Table{Caption: "Measured", Head: []string{"at", f.X.Label, orY(f)}}
		for _, p := range points {
			label := p.Label
			if p.Bad {
				label += " (does not fit)"
			}
			m.Rows = append(m.Rows, []string{label, f.X.format(p.X), f.Y.format(p.Y)})
		}
		fig.Tables = append(fig.Tables, m)
	}
	return fig
}

func orY(f Frame) string {
	if f.Y.Label != "" {
		return f.Y.Label
	}
	return "value"
}

func stepTable(f Frame, lines []Line) Table {
	t := Table{Head: []string{"from " + f.X.Label}}
	var xs []float64
	for _, l := range lines {
		t.Head = append(t.Head, l.Name)
		xs = append(xs, l.X...)
	}
	sort.Float64s(xs)
	xs = slices.Compact(xs)
	var before []string
	for _, x := range xs {
		var row []string
		for _, l := range lines {
			i := sort.SearchFloat64s(l.X, x)
			if i == len(l.X) || l.X[i] > x {
				i--
			}
			if i < 0 {
				row = append(row, "-")
				continue
			}
			s := f.Y.format(l.Y[i])
			if l.Low != nil && l.Low[i] != l.High[i] {
				s = f.Y.format(l.Low[i]) + " to " + f.Y.format(l.High[i])
			}
			row = append(row, s)
		}
		if slices.Equal(row, before) {
			continue
		}
		before = row
		t.Rows = append(t.Rows, append([]string{f.X.format(x)}, row...))
	}
	return t
}

// Event is something that happened at a time: a first bad night, a new kernel.
type Event struct {
	At    time.Time
	Label string
}

// Trend is one series over time, in rising order. NaN is a gap: a night
// without an answer.
type Trend struct {
	Name   string
	At     []time.Time
	Values []float64
}

// TimeSeries draws trends over time with marked events. X needs no ticks or
// format: they are chosen from the span.
func TimeSeries(f Frame, trends []Trend, events []Event) Figure {
	var lines []Line
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, t := range trends {
		l := Line{Name: t.Name, Y: t.Values}
		for _, at := range t.At {
			x := float64(at.Unix())
			l.X = append(l.X, x)
			lo, hi = math.Min(lo, x), math.Max(hi, x)
		}
		lines = append(lines, l)
	}
	var marks []Mark
	for _, e := range events {
		marks = append(marks, Mark{float64(e.At.Unix()), e.Label})
	}
	if lo > hi {
		lo, hi = 0, 86400
	}
	if lo == hi {
		lo, hi = lo-43200, hi+43200
	}
	ticks, layout := timeTicks(time.Unix(int64(lo), 0).UTC(), time.Unix(int64(hi), 0).UTC(), 8)
	f.X.Min, f.X.Max, f.X.Ticks = lo, hi, ticks
	f.X.Format = func(v float64) string { return time.Unix(int64(v), 0).UTC().Format(layout) }
	fig := lineFigure(f, lines, marks, nil, false)
	// The table has one row per time that any trend has.
	t := Table{Head: []string{"time"}}
	rows := map[int64][]string{}
	var order []int64
	for i, tr := range trends {
		t.Head = append(t.Head, tr.Name)
		for k, at := range tr.At {
			u := at.Unix()
			if rows[u] == nil {
				rows[u] = slices.Repeat([]string{"-"}, len(trends))
				order = append(order, u)
			}
			rows[u][i] = f.Y.format(tr.Values[k])
		}
	}
	slices.Sort(order)
	for _, u := range order {
		t.Rows = append(t.Rows, append([]string{time.Unix(u, 0).UTC().Format("2006-01-02 15:04")}, rows[u]...))
	}
	fig.Tables = []Table{t}
	if len(events) > 0 {
		e := Table{Caption: "Events", Head: []string{"time", "what"}}
		for _, ev := range events {
			e.Rows = append(e.Rows, []string{ev.At.UTC().Format("2006-01-02 15:04"), ev.Label})
		}
		fig.Tables = append(fig.Tables, e)
	}
	return fig
}

// timeTicks chooses at most about n calendar positions.
func timeTicks(lo, hi time.Time, n int) ([]float64, string) {
	span := hi.Sub(lo)
	const day = 24 * time.Hour
	var out []float64
	steps := []struct {
		d      time.Duration
		layout string
	}{{time.Minute, "15:04"}, {5 * time.Minute, "15:04"}, {15 * time.Minute, "15:04"}, {time.Hour, "15:04"}, {3 * time.Hour, "2 Jan 15:04"}, {12 * time.Hour, "2 Jan 15:04"}, {day, "2 Jan"}, {2 * day, "2 Jan"}, {7 * day, "2 Jan"}, {14 * day, "2 Jan"}}
	for _, s := range steps {
		if span <= s.d*time.Duration(n) {
			for t := lo.Truncate(s.d); !t.After(hi); t = t.Add(s.d) {
				if !t.Before(lo) {
					out = append(out, float64(t.Unix()))
				}
			}
			return out, s.layout
		}
	}
	months := 1
	for _, m := range []int{1, 2, 3, 6, 12, 24, 60} {
		months = m
		if span <= time.Duration(m*n)*30*day {
			break
		}
	}
	for t := time.Date(lo.Year(), 1, 1, 0, 0, 0, 0, time.UTC); !t.After(hi); t = t.AddDate(0, months, 0) {
		if !t.Before(lo) {
			out = append(out, float64(t.Unix()))
		}
	}
	return out, "Jan 2006"
}

// Sample is a named set of values.
type Sample struct {
	Name   string
	Values []float64 // in any order
	// Weights count how often each value occurred; nil: once each.
	Weights []float64
}

// CDF draws the share of values at or below each value. X is logarithmic
// unless the frame says X.Min or X.Max with Log unset; Y is 0 to 100 %.
func CDF(f Frame, samples []Sample) Figure {
	if f.X.Min == 0 && f.X.Max == 0 {
		f.X.Log = true
	}
	f.Y.Min, f.Y.Max = 0, 1
	if f.Y.Label == "" {
		f.Y.Label = "share at or below"
	}
	f.Y.Ticks = []float64{0, .25, .5, .75, 1}
	f.Y.Format = func(v float64) string { return Number(v*100) + "%" }
	var lines []Line
	t := Table{Head: []string{"sample", "n", "min", "p50", "p90", "p99", "p99.9", "max"}}
	for _, s := range samples {
		l, row := ecdf(s, f.X)
		lines = append(lines, l)
		t.Rows = append(t.Rows, row)
	}
	fig := lineFigure(f, lines, nil, nil, true)
	fig.Tables = []Table{t}
	return fig
}

// ecdf gives the steps of an empirical distribution, thinned to what a drawing
// can show, and its row of quantiles (the smallest value whose share is at
// least q).
func ecdf(s Sample, x Axis) (Line, []string) {
	type vw struct{ v, w float64 }
	var vs []vw
	total := 0.0
	for i, v := range s.Values {
		w := 1.0
		if s.Weights != nil {
			w = s.Weights[i]
		}
		if math.IsNaN(v) || w <= 0 {
			continue
		}
		vs = append(vs, vw{v, w})
		total += w
	}
	sort.Slice(vs, func(i, j int) bool { return vs[i].v < vs[j].v })
	l := Line{Name: s.Name}
	row := []string{s.Name, Number(total)}
	if len(vs) == 0 {
		return l, append(row, "-", "-", "-", "-", "-", "-")
	}
	quantile := func(q float64) float64 {
		sum := 0.0
		for _, e := range vs {
			sum += e.w
			if sum >= q*total*(1-1e-12) {
				return e.v
			}
		}
		return vs[len(vs)-1].v
	}
	row = append(row, x.format(vs[0].v))
	for _, q := range []float64{.5, .9, .99, .999} {
		row = append(row, x.format(quantile(q)))
	}
	row = append(row, x.format(vs[len(vs)-1].v))
	sum, drawn := 0.0, -1.0
	l.X, l.Y = append(l.X, vs[0].v), append(l.Y, 0)
	for i, e := range vs {
		sum += e.w
		if i+1 < len(vs) && vs[i+1].v == e.v {
			continue
		}
		if share := sum / total; share-drawn > 1.0/500 || i+1 == len(vs) {
			l.X, l.Y = append(l.X, e.v), append(l.Y, share)
			drawn = share
		}
	}
	return l, row
}

// lineFigure draws lines, marks and points; steps holds each value to the next.
func lineFigure(f Frame, lines []Line, marks []Mark, points []Point, steps bool) Figure {
	var xs, ys []float64
	var names []string
	for _, l := range lines {
		xs, ys = append(xs, l.X...), append(ys, l.Y...)
		ys = append(append(ys, l.Low...), l.High...)
		names = append(names, l.Name)
	}
	for _, p := range points {
		xs, ys = append(xs, p.X), append(ys, p.Y)
	}
	for _, m := range marks {
		xs = append(xs, m.X)
	}
	fig := Figure{Title: f.Title, Desc: f.Desc}
	fig.Wide, fig.Narrow = draw(f, func(c *canvas) {
		nx, ny := 8, 5
		if c.narrow {
			nx, ny = 4, 4
		}
		xlo, xhi, xt := bounds(f.X, xs, false, nx)
		ylo, yhi, yt := bounds(f.Y, ys, true, ny)
		c.left, c.right = yWidth(f.Y, yt), c.width-8
		y := c.legend(names, 0, lineSwatch(c, len(points) > 0))
		if f.Y.Label != "" {
			c.text("dim", 2, y+12, "start", f.Y.Label)
			y += lineHeight
		}
		sx := scale{min: xlo, max: xhi, from: c.left, to: c.right, log: f.X.Log}
		lanes, rows := markLanes(c, sx, marks)
		c.top = y + 6 + float64(rows)*14
		c.bottom = c.top + 220
		if c.narrow {
			c.bottom = c.top + 180
		}
		if len(xs) == 0 {
			c.text("dim", (c.left+c.right)/2, (c.top+c.bottom)/2, "middle", "no data")
		}
		sy := scale{min: ylo, max: yhi, from: c.bottom, to: c.top, log: f.Y.Log}
		c.yAxis(f.Y, sy, yt)
		c.xAxis(f.X, sx, xt)
		for i, m := range marks {
			x := sx.at(m.X)
			if x < c.left-1 || x > c.right+1 {
				continue
			}
			ly := y + 4 + float64(lanes[i].row+1)*14
			c.line("mark", x, ly+2, x, c.bottom)
			c.text("dim", lanes[i].x, ly-2, lanes[i].anchor, lanes[i].text)
		}
		for i, l := range lines {
			if l.Low != nil {
				fmt.Fprintf(&c.b, "<path class=\"band f%d\" d=\"%s\"/>\n", mod(i)+1, bandPath(l, sx, sy, steps))
			}
		}
		for i, l := range lines {
			if d := linePath(l, sx, sy, steps); d != "" {
				c.path(i, d)
			}
		}
		for _, p := range points {
			c.marker(p.Series, sx.at(p.X), sy.at(p.Y), 4.2, true)
			if p.Bad {
				c.cross(sx.at(p.X), sy.at(p.Y), 7)
				anchor, dx, room := "start", 10.0, c.width-sx.at(p.X)-12
				if sx.at(p.X) > c.width*.6 {
					anchor, dx, room = "end", -10, sx.at(p.X)-12
				}
				c.text("bad", sx.at(p.X)+dx, sy.at(p.Y)-8, anchor, fit(p.Label, room))
			}
		}
	})
	return fig
}

type lane struct {
	row    int
	x      float64
	anchor string
	text   string
}

// markLanes places the labels of marks above the plot in rows, so that none
// covers another, and says how many rows that takes.
func markLanes(c *canvas, s scale, marks []Mark) ([]lane, int) {
	out := make([]lane, len(marks))
	order := make([]int, len(marks))
	for i := range order {
		order[i] = i
	}
	// From the right: a label hangs to the right of its line, and the line of
	// one further left must not cross it.
	sort.SliceStable(order, func(a, b int) bool { return marks[order[a]].X > marks[order[b]].X })
	var starts []float64 // leftmost x used in each row
	for _, i := range order {
		x := s.at(marks[i].X)
		text := fit(marks[i].Label, c.width/2)
		w := textWidth(text)
		l := lane{x: x, anchor: "start", text: text}
		if x+w > c.width-2 {
			l.x = c.width - 2 - w
		}
		for j, o := range out { // lines that come down through this label
			if o.text != "" && j != i && s.at(marks[j].X) < l.x+w+4 {
				l.row = max(l.row, o.row+1)
			}
		}
		for l.row < len(starts) && l.x+w+8 > starts[l.row] {
			l.row++
		}
		for l.row >= len(starts) {
			starts = append(starts, c.width)
		}
		starts[l.row] = l.x
		out[i] = l
	}
	// Row 0 is the one nearest to the plot for the rightmost mark; turn the
	// order around so that lines further left have their labels further up and
	// run down free of text.
	for i := range out {
		out[i].row = len(starts) - 1 - out[i].row
	}
	return out, len(starts)
}

func linePath(l Line, sx, sy scale, steps bool) string {
	var d strings.Builder
	pen := false
	for i, y := range l.Y {
		if math.IsNaN(y) {
			pen = false
			continue
		}
		x, py := num(sx.at(l.X[i])), num(sy.at(y))
		switch {
		case !pen:
			fmt.Fprintf(&d, "M%s %s", x, py)
		case steps:
			fmt.Fprintf(&d, "H%sV%s", x, py)
		default:
			fmt.Fprintf(&d, "L%s %s", x, py)
		}
		if !pen && !steps && (i+1 == len(l.Y) || math.IsNaN(l.Y[i+1])) {
			d.WriteString("h.5") // a single value between gaps
		}
		pen = true
	}
	if steps && pen {
		fmt.Fprintf(&d, "H%s", num(sx.to))
	}
	return d.String()
}

func bandPath(l Line, sx, sy scale, steps bool) string {
	var d strings.Builder
	at := func(i int) float64 { return sx.at(l.X[i]) }
	end := func(i int) float64 {
		if i+1 < len(l.X) {
			return at(i + 1)
		}
		return sx.to
	}
	for i := range l.X {
		if math.IsNaN(l.Low[i]) || math.IsNaN(l.High[i]) || l.Low[i] == l.High[i] && steps {
			continue
		}
		if steps {
			fmt.Fprintf(&d, "M%s %sH%sV%sH%sZ", num(at(i)), num(sy.at(l.High[i])), num(end(i)), num(sy.at(l.Low[i])), num(at(i)))
		} else if i+1 < len(l.X) && !math.IsNaN(l.Low[i+1]) && !math.IsNaN(l.High[i+1]) {
			fmt.Fprintf(&d, "M%s %sL%s %sV%sL%s %sZ", num(at(i)), num(sy.at(l.High[i])), num(at(i+1)), num(sy.at(l.High[i+1])), num(sy.at(l.Low[i+1])), num(at(i)), num(sy.at(l.Low[i])))
		}
	}
	return d.String()
}
