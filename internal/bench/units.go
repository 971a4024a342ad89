// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"math"
	"strconv"
	"strings"
)

// scale shows a quantity in a unit that suits its size.
type scale struct {
	name string  // "us"; "" for plain numbers
	div  float64 // value / div is what is shown
}

// scales are the steps of a unit, each with the value from which it is used.
var scales = map[string][]struct {
	scale
	from float64
}{
	// Microseconds are the habit for latencies, also for large ones.
	"ns":  {{scale{"ns", 1}, 0}, {scale{"us", 1e3}, 1e3}, {scale{"ms", 1e6}, 1e8}, {scale{"s", 1e9}, 1e10}},
	"s":   {{scale{"us", 1e-6}, 0}, {scale{"ms", 1e-3}, 1e-3}, {scale{"s", 1}, 1}},
	"B/s": {{scale{"B/s", 1}, 0}, {scale{"kB/s", 1e3}, 1e3}, {scale{"MB/s", 1e6}, 1e6}},
	"1/s": {{scale{"/s", 1}, 0}},
}

// scaleFor chooses by the size of v.
func scaleFor(unit string, v float64) scale {
	s := scale{unit, 1}
	for _, x := range scales[unit] {
		if math.Abs(v) >= x.from {
			s = x.scale
		}
	}
	return s
}

// show prints v with so many decimals.
func (s scale) show(v float64, decimals int) string {
	return number(v/s.div, decimals)
}

// number prints without exponent and without "-0".
func number(v float64, decimals int) string {
	t := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Trim(t, "-0.") == "" {
		t = strings.TrimPrefix(t, "-")
	}
	return t
}

// signed prints with a sign.
func signed(v float64, decimals int) string {
	t := number(v, decimals)
	if v > 0 && !strings.HasPrefix(t, "-") && strings.Trim(t, "0.") != "" {
		t = "+" + t
	}
	return t
}

// decimals are those that show x with so many significant digits.
func decimals(x float64, digits int) int {
	x = math.Abs(x)
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return 0
	}
	return min(9, max(0, digits-1-int(math.Floor(math.Log10(x)))))
}

// places are the decimals for a value with an interval: two significant digits
// of half its width, all there is to know; four digits of the value when there
// is no interval.
func (r Row) places(s scale) int {
	c := r.Location()
	d, larger := s.div, math.Max(math.Abs(c.Base), math.Abs(c.Patched))
	if half := (c.Hi - c.Lo) / 2; half > 0 {
		return min(decimals(half/d, 2), decimals(larger/d, 6))
	}
	if c.Base == math.Trunc(c.Base) && c.Patched == math.Trunc(c.Patched) && d == 1 {
		return 0
	}
	return decimals(larger/d, 4)
}

// String is the primary metric's difference as far as it is known.
func (l Look) String() string {
	s := scaleFor(l.Unit, math.Max(math.Abs(l.Diff), math.Max(math.Abs(l.Lo), math.Abs(l.Hi))))
	half := (l.Hi - l.Lo) / 2
	n := decimals(l.Diff/s.div, 4)
	if half > 0 {
		n = decimals(half/s.div, 2)
	}
	text := l.Metric + " " + signed(l.Diff/s.div, n)
	if half > 0 {
		text += " (" + signed(l.Lo/s.div, n) + " to " + signed(l.Hi/s.div, n) + ")"
	}
	return text + sep(s.name) + s.name
}

// precise prints an amount as the user gave it.
func precise(v float64, unit string) string {
	s := scaleFor(unit, v)
	d := v / s.div
	return strconv.FormatFloat(d, 'g', -1, 64) + sep(s.name) + s.name
}

func sep(unit string) string {
	if unit == "" || unit[0] == '/' {
		return ""
	}
	return " "
}
