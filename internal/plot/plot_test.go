// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	update  = flag.Bool("update", false, "rewrite the golden files")
	gallery = flag.String("gallery", "", "write a page with all figures to this file")
)

// nasty is what a patch's subject or a console may try.
const nasty = "</text><script>alert(1)</script>\" onload='x' \x1b[31m\x00 &amp; \u202e"

func samples() (names []string, figs map[string]Figure) {
	figs = map[string]Figure{}
	add := func(n string, f Figure) { names = append(names, n); figs[n] = f }
	add("bars", StackedBars(Frame{ID: "bars", Title: "Sends per device", Desc: "Inline and by reference.", X: Axis{Label: "Sends"}},
		[]string{"inline", "by reference"}, []Bar{
			{Label: "rxe none", Parts: []float64{5908, 5734}},
			{Label: "Intel 216", Parts: []float64{5700, 5942}},
			{Label: "Alibaba 96", Parts: []float64{3, 11639}},
			{Label: "Intel 48", Parts: []float64{0, 11642}},
			{Label: "broken", Parts: []float64{math.NaN(), 100}, Note: "counts invalid", Bad: true},
		}))
	add("spans", StackedBars(Frame{ID: "spans", Title: "Steps", X: Axis{Label: "time", Duration: true}}, []string{"time"}, []Bar{
		{Label: "lint", Parts: []float64{.4}}, {Label: "base", Parts: []float64{61}, From: .4}, {Label: "matrix", Parts: []float64{142}, From: 61.4}}))
	add("steps", Steps(Frame{ID: "steps", Title: "Replies inline at each limit", Desc: "Predicted from sizes; measured points on it.",
		X: Axis{Label: "limit, bytes", Min: 0, Max: 1024}, Y: Axis{Label: "Replies inline"}},
		[]Line{
			{Name: "NFSv3", X: []float64{0, 52, 112, 164, 256, 288}, Y: []float64{0, 1, 214, 2748, 2956, 3160}, Low: []float64{0, 1, 214, 2748, 2956, 2956}, High: []float64{0, 1, 214, 2748, 2956, 3160}},
			{Name: "NFSv4.1", X: []float64{0, 140, 188, 216}, Y: []float64{0, 2116, 2330, 2952}},
		},
		[]Mark{{48, "Intel 48"}, {96, "Alibaba 96"}, {101, "Intel 101"}, {216, "Intel 216"}, {256, "asked 256"}},
		[]Point{{X: 216, Y: 2748, Series: 0, Label: "patched/intel-216/v3"}, {X: 101, Y: 900, Series: 1, Label: "patched/intel-101/v4.1", Bad: true}}))
	day := func(n int) time.Time { return time.Date(2026, 11, 1+n, 2, 0, 0, 0, time.UTC) }
	tr := Trend{Name: "inline"}
	tr2 := Trend{Name: "by reference"}
	for i := range 30 {
		v := 5700 + 10*math.Sin(float64(i))
		if i == 12 {
			v = math.NaN()
		}
		tr.At, tr.Values = append(tr.At, day(i)), append(tr.Values, v)
		tr2.At, tr2.Values = append(tr2.At, day(i)), append(tr2.Values, 5900-float64(i*3))
	}
	add("trend", TimeSeries(Frame{ID: "trend", Title: "Sends over the nights", Y: Axis{Label: "Sends"}}, []Trend{tr, tr2}, []Event{{day(12), "first bad night"}, {day(14), "fixed"}}))
	rng := rand.New(rand.NewPCG(1, 2))
	var a, b Sample
	a.Name, b.Name = "base", "patched"
	for range 3000 {
		a.Values = append(a.Values, math.Exp(rng.NormFloat64()*.4+4))
		b.Values = append(b.Values, math.Exp(rng.NormFloat64()*.4+3.9))
	}
	add("cdf", CDF(Frame{ID: "cdf", Title: "Latency of a READ", X: Axis{Label: "µs"}}, []Sample{a, b}))
	add("forest", Forest(Frame{ID: "forest", Title: "Change per boot", X: Axis{Label: "change of the median", Format: Percent}}, 0, []Interval{
		{Label: "boot 1", Value: -.021, Low: -.04, High: -.002}, {Label: "boot 2", Value: -.03, Low: -.06, High: 0},
		{Label: "boot 3", Value: .01, Low: -.02, High: .04, Bad: true}, {Label: "all boots", Value: -.02, Low: -.031, High: -.008, Summary: true}}))
	add("ladder", Ladder(Frame{ID: "ladder", Title: "Percentiles", X: Axis{Label: "µs", Log: true}}, []string{"base", "patched"}, []Rung{
		{Label: "p50", Values: []float64{54, 49}, Low: []float64{53, 48}, High: []float64{55, 50}, Note: "−9%"},
		{Label: "p99", Values: []float64{140, 133}, Low: []float64{132, 120}, High: []float64{150, 145}, Note: "~"},
		{Label: "p99.9", Values: []float64{410, 900}, Note: "+119%", Bad: true}}))
	add("empty", TimeSeries(Frame{ID: "empty", Title: "Nothing yet"}, nil, nil))
	add("nasty", StackedBars(Frame{ID: "x\"y", Title: nasty, Desc: nasty, X: Axis{Label: nasty}}, []string{nasty, nasty}, []Bar{{Label: nasty, Parts: []float64{1, 2}, Note: nasty}}))
	return names, figs
}

func TestGolden(t *testing.T) {
	names, figs := samples()
	var page strings.Builder
	page.WriteString("<!doctype html><meta charset=utf-8><title>gallery</title><meta name=viewport content='width=device-width'><style>body{font:14px system-ui;background:var(--plot-bg);color:var(--plot-ink)}" + CSS + "</style><h1>Figures</h1>\n")
	for _, n := range names {
		html := string(figs[n].HTML())
		page.WriteString(html)
		file := filepath.Join("testdata", n+".html")
		if *update {
			if err := os.WriteFile(file, []byte(html), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(want) != html {
			t.Errorf("%s differs from %s; look at it (-gallery FILE) and rewrite with -update", n, file)
		}
	}
	fmt.Fprintf(&page, "<p>Spark: %s</p>", Spark("five nights", []float64{1, 2, math.NaN(), 4, 3}))
	if *gallery != "" {
		if err := os.WriteFile(*gallery, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Every figure is well-formed XML, so that no string broke out, and holds
// nothing that runs or loads.
func TestSafe(t *testing.T) {
	names, figs := samples()
	for _, n := range names {
		html := string(figs[n].HTML())
		dec := xml.NewDecoder(strings.NewReader(strings.ReplaceAll(html, ` tabindex="0"`, "")))
		ids := map[string]bool{}
		for {
			tok, err := dec.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", n, err)
			}
			el, ok := tok.(xml.StartElement)
			if !ok {
				continue
			}
			switch el.Name.Local {
			case "script", "image", "use", "foreignObject", "a", "style":
				t.Errorf("%s has a <%s>", n, el.Name.Local)
			}
			for _, a := range el.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "href" || a.Name.Local == "style" {
					t.Errorf("%s has an attribute %s", n, a.Name.Local)
				}
				if a.Name.Local == "id" {
					if ids[a.Value] {
						t.Errorf("%s has the id %s twice", n, a.Value)
					}
					ids[a.Value] = true
				}
			}
		}
	}
}

// All coordinates lie in the drawing: nothing is cut off.
func TestInside(t *testing.T) {
	re := regexp.MustCompile(`viewBox="0 0 ([\d.]+) ([\d.]+)"`)
	coord := regexp.MustCompile(` (x|y|x1|x2|y1|y2|cx|cy)="(-?[\d.]+)"`)
	names, figs := samples()
	for _, n := range names {
		for _, svg := range []string{string(figs[n].Wide), string(figs[n].Narrow)} {
			var w, h float64
			m := re.FindStringSubmatch(svg)
			fmt.Sscan(m[1], &w)
			fmt.Sscan(m[2], &h)
			for _, c := range coord.FindAllStringSubmatch(svg, -1) {
				var v float64
				fmt.Sscan(c[2], &v)
				limit := w
				if strings.Contains(c[1], "y") {
					limit = h
				}
				if v < -1 || v > limit+1 {
					t.Errorf("%s: %s=%v is outside of %v", n, c[1], v, limit)
				}
			}
		}
	}
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		v    float64
		want string
	}{{0, "0"}, {-0.0, "0"}, {5, "5"}, {1234, "1234"}, {12345, "12\u2009345"}, {1234567, "1\u2009234\u2009567"}, {.25, "0.25"}, {1.5, "1.5"}, {.1234567, "0.123"},
		{99.996, "100"}, {-3.25, "\u22123.25"}, {math.NaN(), "-"}, {1e-7, "1e-07"}} {
		if got := Number(c.v); got != c.want {
			t.Errorf("Number(%v) = %q, want %q", c.v, got, c.want)
		}
	}
	for _, c := range []struct {
		v    float64
		want string
	}{{0, "0"}, {4e-6, "4 µs"}, {.0404, "40.4 ms"}, {1.5, "1.5 s"}, {142.6, "2.38 min"}, {9000, "2.5 h"}} {
		if got := Seconds(c.v); got != c.want {
			t.Errorf("Seconds(%v) = %q, want %q", c.v, got, c.want)
		}
	}
}

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		a      Axis
		vs     []float64
		zero   bool
		lo, hi float64
		n      int
	}{
		{Axis{}, nil, true, 0, 1, 6},
		{Axis{}, []float64{3, 98}, true, 0, 100, 6},
		{Axis{}, []float64{5, 5}, false, 4.4, 5.6, 7},
		{Axis{Log: true}, []float64{3, 700}, false, 2, 1000, 6},
		{Axis{Min: 0, Max: 1024}, nil, false, 0, 1024, 6},
		{Axis{Free: true}, []float64{90, 100}, true, 90, 100, 6},
		{Axis{Duration: true}, []float64{203}, true, 0, 240, 5},
		{Axis{Log: true}, []float64{0, -1}, false, 1, 10, 4},
	} {
		lo, hi, ticks := bounds(c.a, c.vs, c.zero, 5)
		if math.Abs(lo-c.lo) > 1e-9 || math.Abs(hi-c.hi) > 1e-9 || len(ticks) != c.n {
			t.Errorf("bounds(%v) = %v, %v, %v; want %v to %v with %d ticks", c.vs, lo, hi, ticks, c.lo, c.hi, c.n)
		}
	}
}

func BenchmarkYear(b *testing.B) {
	var t Trend
	for i := range 365 {
		t.At, t.Values = append(t.At, time.Unix(int64(i)*86400, 0)), append(t.Values, float64(i%17))
	}
	for b.Loop() {
		TimeSeries(Frame{ID: "y", Title: "year"}, []Trend{t}, nil)
	}
}
