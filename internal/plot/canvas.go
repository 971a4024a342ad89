// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Widths of the two drawings, in px of their own coordinates.
const (
	wideWidth   = 720
	narrowWidth = 340
	lineHeight  = 16.0
	charWidth   = 7.2 // of a 12 px system font, rather too much than too little
)

// canvas is one drawing in the making. The plot area lies between the four
// borders.
type canvas struct {
	b                        strings.Builder
	width                    float64
	height                   float64
	narrow                   bool
	left, right, top, bottom float64
	prefix                   string // of ids
}

// draw makes both drawings of a figure.
func draw(f Frame, paint func(c *canvas)) (wide, narrow template.HTML) {
	one := func(width float64, kind string) template.HTML {
		c := &canvas{width: width, narrow: kind == "narrow", prefix: ident(f.ID) + "-" + kind}
		paint(c)
		label := f.Title
		return template.HTML(fmt.Sprintf("<svg class=\"%s\" viewBox=\"0 0 %s %s\" role=\"img\" aria-labelledby=\"%s-t %s-d\">\n<title id=\"%s-t\">%s</title><desc id=\"%s-d\">%s</desc>\n%s</svg>\n",
			kind, num(c.width), num(c.height), c.prefix, c.prefix, c.prefix, esc(label), c.prefix, esc(f.Desc), c.b.String()))
	}
	return one(wideWidth, "wide"), one(narrowWidth, "narrow")
}

// ident keeps what an id may consist of.
func ident(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, s)
	if s == "" || s[0] >= '0' && s[0] <= '9' || s[0] == '-' {
		s = "p" + s
	}
	return s
}

// num formats a coordinate.
func num(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = 0
	}
	s := strconv.FormatFloat(v, 'f', 1, 64)
	s = strings.TrimSuffix(s, ".0")
	if s == "-0" {
		s = "0"
	}
	return s
}

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&c.b, "<line class=\"%s\" x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\"/>\n", class, num(x1), num(y1), num(x2), num(y2))
}

// text writes s; anchor is start, middle or end.
func (c *canvas) text(class string, x, y float64, anchor, s string) {
	attr := ""
	if class != "" {
		attr += " class=\"" + class + "\""
	}
	if anchor != "start" {
		attr += " text-anchor=\"" + anchor + "\""
	}
	fmt.Fprintf(&c.b, "<text%s x=\"%s\" y=\"%s\">%s</text>\n", attr, num(x), num(y), esc(s))
}

func (c *canvas) rect(class string, x, y, w, h float64, extra string) {
	fmt.Fprintf(&c.b, "<rect class=\"%s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"%s/>\n", class, num(x), num(y), num(max(0, w)), num(max(0, h)), extra)
}

// path draws a series' line with its colour and dash.
func (c *canvas) path(series int, d string) {
	dash := ""
	if s := dashes[mod(series)]; s != "" {
		dash = " stroke-dasharray=\"" + s + "\""
	}
	fmt.Fprintf(&c.b, "<path class=\"line k%d\"%s d=\"%s\"/>\n", mod(series)+1, dash, d)
}

func mod(i int) int { return ((i % palette) + palette) % palette }

// marker draws the sign of a series: circle, square, triangle, diamond, plus,
// inverted triangle.
func (c *canvas) marker(series int, x, y, r float64, hollow bool) {
	n := mod(series)
	class := fmt.Sprintf("point k%d f%d", n+1, n+1)
	if hollow {
		class = fmt.Sprintf("point hollow k%d", n+1)
	}
	poly := func(pts ...float64) {
		var p []string
		for i := 0; i+1 < len(pts); i += 2 {
			p = append(p, num(x+pts[i]*r)+","+num(y+pts[i+1]*r))
		}
		fmt.Fprintf(&c.b, "<polygon class=\"%s\" points=\"%s\"/>\n", class, strings.Join(p, " "))
	}
	switch n {
	case 0:
		fmt.Fprintf(&c.b, "<circle class=\"%s\" cx=\"%s\" cy=\"%s\" r=\"%s\"/>\n", class, num(x), num(y), num(r))
	case 1:
		c.rect(class, x-r*.9, y-r*.9, r*1.8, r*1.8, "")
	case 2:
		poly(0, -1.15, 1.1, .85, -1.1, .85)
	case 3:
		poly(0, -1.25, 1.25, 0, 0, 1.25, -1.25, 0)
	case 4:
		fmt.Fprintf(&c.b, "<path class=\"point k%d\" d=\"M%s %sh%sM%s %sv%s\"/>\n", n+1, num(x-r), num(y), num(2*r), num(x), num(y-r), num(2*r))
	default:
		poly(0, 1.15, 1.1, -.85, -1.1, -.85)
	}
}

// cross marks a point that does not fit.
func (c *canvas) cross(x, y, r float64) {
	fmt.Fprintf(&c.b, "<path class=\"badmark\" d=\"M%s %sL%s %sM%s %sL%s %s\"/>\n",
		num(x-r), num(y-r), num(x+r), num(y+r), num(x-r), num(y+r), num(x+r), num(y-r))
}

// barStyles are the palette's entries for the parts of a bar: of two, the
// second is the quiet one.
func barStyles(n int) []int {
	if n == 2 {
		return []int{0, palette - 1}
	}
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// hatch defines the fill patterns for the styles; the first one of the
// palette stays plain.
func (c *canvas) hatch(styles []int) {
	if len(styles) < 2 {
		return
	}
	c.b.WriteString("<defs>")
	for _, i := range styles[1:min(len(styles), palette)] {
		turn := []int{0, 45, -45, 90, 0, 45}[i]
		fmt.Fprintf(&c.b, "<pattern id=\"%s-h%d\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(%d)\"><rect class=\"f%d\" width=\"5\" height=\"5\" fill-opacity=\".28\"/><rect class=\"f%d\" width=\"1.5\" height=\"5\"/></pattern>", c.prefix, i+1, turn, i+1, i+1)
	}
	c.b.WriteString("</defs>\n")
}

// box draws a filled part of a bar in the colour and hatching of a series.
func (c *canvas) box(series int, x, y, w, h float64) {
	n := mod(series)
	if n == 0 {
		c.rect("f1 k1", x, y, w, h, "")
		return
	}
	c.rect(fmt.Sprintf("k%d", n+1), x, y, w, h, fmt.Sprintf(" fill=\"url(#%s-h%d)\"", c.prefix, n+1))
}

func textWidth(s string) float64 { return charWidth * float64(utf8.RuneCountInString(s)) }

// fit shortens s to about w px.
func fit(s string, w float64) string {
	n := max(2, int(w/charWidth))
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// legend writes the names of the series in rows from y on and returns the y
// below it. One series needs no legend.
func (c *canvas) legend(names []string, y float64, swatch func(i int, x, y float64)) float64 {
	if len(names) < 2 {
		return y
	}
	x := 2.0
	y += 12
	for i, n := range names {
		n = fit(n, c.width-34)
		w := 28 + textWidth(n) + 14
		if x > 2 && x+w-14 > c.width {
			x = 2
			y += lineHeight
		}
		swatch(i, x, y-4)
		c.text("", x+28, y, "start", n)
		x += w
	}
	return y + 8
}

func lineSwatch(c *canvas, markers bool) func(i int, x, y float64) {
	return func(i int, x, y float64) {
		c.path(i, fmt.Sprintf("M%s %sh22", num(x), num(y)))
		if markers {
			c.marker(i, x+11, y, 3.2, false)
		}
	}
}

// scale maps values to coordinates.
type scale struct {
	min, max float64
	from, to float64
	log      bool
}

func (s scale) at(v float64) float64 {
	lo, hi := s.min, s.max
	if s.log {
		lo, hi, v = math.Log10(lo), math.Log10(hi), math.Log10(math.Max(v, s.min))
	}
	if hi == lo {
		return (s.from + s.to) / 2
	}
	return s.from + (v-lo)/(hi-lo)*(s.to-s.from)
}

// bounds finds the range of an axis and its ticks. zero makes a linear axis
// start at 0 when all values are positive.
func bounds(a Axis, values []float64, zero bool, ticks int) (lo, hi float64, at []float64) {
	lo, hi = a.Min, a.Max
	chosen := lo == 0 && hi == 0
	if chosen {
		lo, hi = math.Inf(1), math.Inf(-1)
		for _, v := range values {
			if math.IsNaN(v) || math.IsInf(v, 0) || a.Log && v <= 0 {
				continue
			}
			lo, hi = math.Min(lo, v), math.Max(hi, v)
		}
		if lo > hi {
			lo, hi = 0, 1
			if a.Log {
				lo, hi = 1, 10
			}
		}
		zero = zero && !a.Free
		if zero && !a.Log && lo > 0 {
			lo = 0
		}
		if zero && !a.Log && hi < 0 {
			hi = 0
		}
	}
	if a.Log {
		if lo <= 0 {
			lo = hi / 1000
		}
		if chosen {
			lo = nice125(lo, false)
			hi = nice125(hi, true)
		}
		if lo >= hi {
			hi = lo * 10
		}
		if a.Ticks != nil {
			return lo, hi, a.Ticks
		}
		return lo, hi, logTicks(lo, hi, ticks)
	}
	if lo == hi {
		if lo == 0 {
			hi = 1
		} else {
			lo, hi = lo-math.Abs(lo)*.1, hi+math.Abs(hi)*.1
		}
	}
	step := niceStep(hi-lo, ticks)
	if a.Duration {
		step = timeStep(hi-lo, ticks)
	}
	if chosen {
		lo, hi = math.Floor(lo/step+1e-9)*step, math.Ceil(hi/step-1e-9)*step
	}
	if a.Ticks != nil {
		return lo, hi, a.Ticks
	}
	for v := math.Ceil(lo/step-1e-9) * step; v <= hi+step*1e-6; v += step {
		at = append(at, round(v, 12)+0) // no negative zero
	}
	return lo, hi, at
}

// niceStep is 1, 2 or 5 times a power of ten, with about n steps in span.
func niceStep(span float64, n int) float64 {
	raw := span / float64(max(1, n))
	p := math.Pow(10, math.Floor(math.Log10(raw)))
	switch r := raw / p; {
	case r < 1.42:
		return p
	case r < 3.17:
		return 2 * p
	case r < 7.08:
		return 5 * p
	}
	return 10 * p
}

// timeStep is like niceStep for seconds that people read as minutes and hours.
func timeStep(span float64, n int) float64 {
	if span/float64(max(1, n)) < 5 {
		return niceStep(span, n)
	}
	for _, s := range []float64{10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 4 * 3600, 6 * 3600, 12 * 3600} {
		if span/s <= float64(n) {
			return s
		}
	}
	return niceStep(span/86400, n) * 86400
}

// nice125 rounds to 1, 2 or 5 times a power of ten.
func nice125(v float64, up bool) float64 {
	p := math.Pow(10, math.Floor(math.Log10(v)))
	steps := []float64{1, 2, 5, 10}
	for i, s := range steps {
		if up && v <= s*p*(1+1e-9) {
			return s * p
		}
		if !up && i+1 < len(steps) && v < steps[i+1]*p*(1-1e-9) {
			return s * p
		}
	}
	return v
}

func logTicks(lo, hi float64, n int) (out []float64) {
	for _, set := range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
		out = out[:0]
		for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
			for _, m := range set {
				if v := round(m*math.Pow(10, e), 6); v >= lo*(1-1e-9) && v <= hi*(1+1e-9) {
					out = append(out, v)
				}
			}
		}
		if len(out) <= n+1 {
			return out
		}
	}
	for len(out) > n+1 { // whole decades: every second one
		var thin []float64
		for i, v := range out {
			if i%2 == 0 {
				thin = append(thin, v)
			}
		}
		out = thin
	}
	return out
}

// xAxis draws ticks, grid lines and the label below the plot area. Labels
// that would touch the one before are left out.
func (c *canvas) xAxis(a Axis, s scale, ticks []float64) {
	end := math.Inf(-1)
	for _, t := range ticks {
		x := s.at(t)
		c.line("grid", x, c.top, x, c.bottom)
		label := a.format(t)
		w := textWidth(label)
		lx := math.Min(math.Max(x, w/2), c.width-w/2)
		if lx-w/2 < end+6 {
			continue
		}
		c.text("dim", lx, c.bottom+15, "middle", label)
		end = lx + w/2
	}
	c.line("axis", c.left, c.bottom, c.right, c.bottom)
	c.height = c.bottom + 22
	if a.Label != "" {
		c.text("dim", c.right, c.bottom+31, "end", fit(a.Label, c.right))
		c.height = c.bottom + 38
	}
}

// yAxis draws ticks and grid lines; its label stands above the plot area.
func (c *canvas) yAxis(a Axis, s scale, ticks []float64) {
	for _, t := range ticks {
		y := s.at(t)
		c.line("grid", c.left, y, c.right, y)
		c.text("dim", c.left-6, y+4, "end", a.format(t))
	}
}

// yWidth is the room that the labels of the y axis need.
func yWidth(a Axis, ticks []float64) float64 {
	w := 0.0
	for _, t := range ticks {
		w = math.Max(w, textWidth(a.format(t)))
	}
	return w + 8
}
