// SPDX-License-Identifier: Apache-2.0

// Package plot draws figures as inline SVG. Every function is pure: the same
// input gives the same bytes, so figures are tested as golden files and a page
// can be made again from a run folder.
//
// A Figure carries its data as tables too: they are what a screen reader and a
// person who wants the numbers read, and they come from the same values as the
// drawing. Text is text (SVG <text>), never outlines. Colours are CSS variables
// (see CSS), so light, dark and print need no second drawing; nothing is told
// by colour alone: series also differ in dash, marker or hatching, and bad
// points have a cross and words.
//
// Each figure is drawn twice, for a wide page and for a phone, because text of
// a scaled drawing would be unreadable there; CSS shows one of the two.
//
// All strings may come from people and machines that are not trusted: they are
// escaped here, and characters that XML forbids are replaced.
package plot

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// CSS is the style that a page with figures needs, once. Pages that switch
// themes set data-theme on the root element ("light" or "dark"); without it
// the reader's preference decides. The variables can be overridden.
const CSS = `
:root{--plot-ink:#1b1f24;--plot-dim:#59636e;--plot-grid:#e2e5e9;--plot-bg:#ffffff;--plot-bad:#b3261e;
--plot-1:#1d5fa8;--plot-2:#b4520a;--plot-3:#1f7a4a;--plot-4:#7a4a9e;--plot-5:#7a6200;--plot-6:#5b6774}
@media (prefers-color-scheme:dark){:root:not([data-theme=light]){--plot-ink:#e6e9ed;--plot-dim:#9aa5b1;--plot-grid:#30363d;--plot-bg:#14171b;--plot-bad:#ff8a80;
--plot-1:#79b4ff;--plot-2:#ffa263;--plot-3:#6fcf9b;--plot-4:#c9a4ee;--plot-5:#dcc35a;--plot-6:#9aa7b4}}
:root[data-theme=dark]{--plot-ink:#e6e9ed;--plot-dim:#9aa5b1;--plot-grid:#30363d;--plot-bg:#14171b;--plot-bad:#ff8a80;
--plot-1:#79b4ff;--plot-2:#ffa263;--plot-3:#6fcf9b;--plot-4:#c9a4ee;--plot-5:#dcc35a;--plot-6:#9aa7b4}
.vh{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
figure.plot{margin:0 0 1rem;max-width:720px}
figure.plot figcaption{font-weight:600;margin:0 0 .25rem}
figure.plot figcaption span{display:block;font-weight:400;color:var(--plot-dim)}
figure.plot svg{display:block;width:100%;height:auto;font:12px/1.2 system-ui,sans-serif;font-variant-numeric:tabular-nums}
figure.plot svg.narrow{display:none}
@media (max-width:560px){figure.plot svg.wide{display:none}figure.plot svg.narrow{display:block}}
figure.plot details{margin:.25rem 0 0}
figure.plot table{border-collapse:collapse;margin:.25rem 0 .75rem}
figure.plot table caption{text-align:left;color:var(--plot-dim);padding:.25rem 0}
figure.plot th,figure.plot td{padding:.1rem .9rem .1rem 0;text-align:right;font-variant-numeric:tabular-nums}
figure.plot th:first-child,figure.plot td:first-child{text-align:left}
figure.plot .scroll{overflow-x:auto;position:relative}
.plot text{fill:var(--plot-ink)}.plot text.dim{fill:var(--plot-dim)}.plot text.bad{fill:var(--plot-bad);font-weight:600}
.plot .grid{stroke:var(--plot-grid);fill:none}.plot .axis{stroke:var(--plot-dim);fill:none}.plot .mark{stroke:var(--plot-dim);fill:none;stroke-dasharray:2 3}
.plot .line{fill:none;stroke-width:1.75;stroke-linejoin:round}.plot .band{stroke:none;fill-opacity:.2}.plot .point{stroke-width:1.75}.plot .hollow{fill:none}
.plot .badmark{stroke:var(--plot-bad);fill:none;stroke-width:2.5}
.plot .f1{fill:var(--plot-1)}.plot .f2{fill:var(--plot-2)}.plot .f3{fill:var(--plot-3)}.plot .f4{fill:var(--plot-4)}.plot .f5{fill:var(--plot-5)}.plot .f6{fill:var(--plot-6)}
.plot .k1{stroke:var(--plot-1)}.plot .k2{stroke:var(--plot-2)}.plot .k3{stroke:var(--plot-3)}.plot .k4{stroke:var(--plot-4)}.plot .k5{stroke:var(--plot-5)}.plot .k6{stroke:var(--plot-6)}
@media print{:root,:root[data-theme=dark]{--plot-ink:#000;--plot-dim:#444;--plot-grid:#ccc;--plot-bg:#fff;--plot-bad:#900;
--plot-1:#1d5fa8;--plot-2:#b4520a;--plot-3:#1f7a4a;--plot-4:#7a4a9e;--plot-5:#7a6200;--plot-6:#5b6774}
figure.plot{break-inside:avoid}figure.plot svg.wide{display:block}figure.plot svg.narrow{display:none}}
`

// palette is the number of series that look different; more repeat.
const palette = 6

// dashes tell the lines of series apart without colour.
var dashes = [palette]string{"", "6 3", "2 2.5", "9 3 2 3", "1.5 4", "12 4"}

// Frame is what every figure has around its data.
type Frame struct {
	// ID starts the ids inside the figure: letters, digits and "-", unique
	// within the page.
	ID    string
	Title string // one line: what is drawn
	Desc  string // what it says, in a sentence or two; shown under the title and read out
	X, Y  Axis
}

// Axis is one direction. The zero value takes its range from the data.
type Axis struct {
	Label string
	// Min and Max bound the axis; when both are 0, the data does. A linear axis
	// of counts starts at 0 then.
	Min, Max float64
	Log      bool
	// Free lets a linear axis begin elsewhere than at 0 where 0 says nothing.
	// Bars always begin at 0.
	Free     bool
	Duration bool                 // values are seconds: ticks at round times, Format is Seconds
	Ticks    []float64            // positions; nil: chosen
	Format   func(float64) string // of ticks and of the tables; nil: Number
}

func (a Axis) format(v float64) string {
	if a.Format != nil {
		return a.Format(v)
	}
	if a.Duration {
		return Seconds(v)
	}
	return Number(v)
}

// Table is data of a figure, to be read.
type Table struct {
	Caption string
	Head    []string
	Rows    [][]string
}

// Figure is a finished drawing.
type Figure struct {
	Title, Desc  string
	Wide, Narrow template.HTML // <svg> elements; Narrow for up to 560 px
	Tables       []Table
}

// HTML is the <figure>: caption, drawings, and the data behind a disclosure.
func (f Figure) HTML() template.HTML {
	var b strings.Builder
	b.WriteString(`<figure class="plot"><figcaption>` + esc(f.Title))
	if f.Desc != "" {
		b.WriteString("<span>" + esc(f.Desc) + "</span>")
	}
	b.WriteString("</figcaption>\n")
	b.WriteString(string(f.Wide))
	b.WriteString(string(f.Narrow))
	if len(f.Tables) > 0 {
		fmt.Fprintf(&b, "<details><summary>Data<span class=\"vh\"> of: %s</span></summary>", esc(f.Title))
		for i, t := range f.Tables {
			label := t.Caption
			if label == "" {
				label = f.Title
			}
			if i > 0 && t.Caption == "" {
				label = fmt.Sprintf("%s (%d)", f.Title, i+1)
			}
			fmt.Fprintf(&b, "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"%s\"><table>", esc("Data: "+label))
			if t.Caption != "" {
				b.WriteString("<caption>" + esc(t.Caption) + "</caption>")
			}
			b.WriteString("<thead><tr>")
			for _, h := range t.Head {
				b.WriteString(`<th scope="col">` + esc(h) + "</th>")
			}
			b.WriteString("</tr></thead><tbody>")
			for _, row := range t.Rows {
				b.WriteString("<tr>")
				for i, c := range row {
					if i == 0 {
						b.WriteString(`<th scope="row">` + esc(c) + "</th>")
					} else {
						b.WriteString("<td>" + esc(c) + "</td>")
					}
				}
				b.WriteString("</tr>")
			}
			b.WriteString("</tbody></table></div>")
		}
		b.WriteString("</details>")
	}
	b.WriteString("</figure>\n")
	return template.HTML(b.String())
}

// esc makes a string safe as text and as attribute value of HTML and SVG.
func esc(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError, r < 0x20 && r != '\t' && r != '\n', r >= 0x7f && r < 0xa0, r == 0xfffe, r == 0xffff:
			return utf8.RuneError
		}
		return r
	}, s)
	return html.EscapeString(s)
}

// Number formats a value for an axis or table: three significant
// digits of what is no whole number, thousands kept apart by a thin space.
func Number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case math.IsInf(v, 0):
		return strconv.FormatFloat(v, 'g', -1, 64)
	case v != 0 && (math.Abs(v) < 1e-4 || math.Abs(v) >= 1e15):
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	digits := 0
	if a := math.Abs(v); a < 1000 && v != math.Trunc(v) {
		digits = max(0, 3-int(math.Floor(math.Log10(a)))-1)
		digits = min(digits, 6)
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		s = "0"
	}
	whole, frac, _ := strings.Cut(s, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "\u2212", whole[1:]
	}
	if len(whole) > 4 {
		var parts []string
		for len(whole) > 3 {
			parts = append([]string{whole[len(whole)-3:]}, parts...)
			whole = whole[:len(whole)-3]
		}
		whole = strings.Join(append([]string{whole}, parts...), "\u2009")
	}
	if frac != "" {
		whole += "." + frac
	}
	return sign + whole
}

// Percent formats a ratio, 0.05 as "+5%"; for differences.
func Percent(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	v = math.Round(v*1000) / 10
	s := Number(v) + "%"
	if v > 0 {
		s = "+" + s
	}
	return s
}

// Seconds formats a duration given in seconds with a fitting unit.
func Seconds(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case a == 0:
		return "0"
	case a < 1e-3:
		return Number(round(v*1e6, 3)) + " µs"
	case a < 1:
		return Number(round(v*1e3, 3)) + " ms"
	case a <= 90:
		return Number(round(v, 3)) + " s"
	case a < 2*3600:
		return Number(round(v/60, 3)) + " min"
	}
	return Number(round(v/3600, 3)) + " h"
}

// round keeps n significant digits.
func round(v float64, n int) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return v
	}
	p := math.Pow(10, float64(n-1)-math.Floor(math.Log10(math.Abs(v))))
	if p == 0 || math.IsInf(p, 0) {
		return v
	}
	return math.Round(v*p) / p
}
