// SPDX-License-Identifier: Apache-2.0

package site

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/history"
	"patchcheck/internal/page"
	"patchcheck/internal/plot"
	"patchcheck/internal/runfolder"
	"patchcheck/patches/mail"
)

var (
	//go:embed site.css
	cssText string
	//go:embed index.tmpl
	indexText string
	//go:embed cell.tmpl
	cellText string
	//go:embed live.tmpl
	liveText string
	//go:embed index.js
	indexJS string
	//go:embed live.js
	liveJS string
	//go:embed theme.js
	themeJS string
)

// css is the style of every page here.
var css = cssText + plot.CSS

// shownNights is how many of the newest nights a page shows at first.
const shownNights = 30

// fewCells is up to how many cells the index shows all of them at first.
const fewCells = 40

// mark is a verdict as it is shown: never by colour alone.
type mark struct{ Word, Sign, Class string }

func markOf(v checks.Verdict) mark {
	switch sign := v.Sign(); {
	case sign != "":
		return mark{string(v), sign, strings.ToLower(string(v))}
	case v == "":
		return mark{"no answer", "…", "skip"}
	}
	return mark{clean(string(v)), "?", "skip"}
}

// Options of pages.
type Options struct {
	Tool string                // version
	Page func(run string) bool // says whether a run has a page; nil: none has
	Live []Running             // runs that go on now; for a served index only
	Rule func(string) (checks.Rule, bool)
}

// Running is a run that a process works on.
type Running struct {
	ID, Title string
	Started   time.Time
}

func (o Options) page(run string) string {
	if o.Page == nil || !validRun(run) || !o.Page(run) {
		return ""
	}
	return runPath(run)
}

// base is what the templates of all pages have.
type base struct {
	CSS  template.CSS
	JS   template.JS
	CSP  string
	Tool string
	Made string
	Root string // "" or "../", in front of links within the site
}

func newBase(o Options, script, more, root string, made time.Time) base {
	return base{template.CSS(css), template.JS(script), page.Policy(css, script, more), o.Tool, made.UTC().Format("2 January 2006, 15:04 UTC"), root}
}

type indexView struct {
	base
	Empty    bool
	Lead     string // the newest night in a sentence
	Night    string
	Summary  string // the nightly job's own words
	Verdicts []verdictCount
	Changes  []change
	Stopped  []jobRow // targets that did not pass, for another reason than a cell
	ShowAll  bool     // few cells: the steady ones are shown, too
	Jobs     []jobRow
	Trees    []treeRow
	Open     []failureRow
	Past     []failureRow
	PastMore int
	Groups   []groupView
	Many     bool // groups
	Cells    int
	Steady   int
	First    string // shown nights
	Last     string
	Nights   int
	Shown    int
	Window   window
	Figures  []template.HTML
	Counts   []countRow
	Constant []constant
	Times    []countRow
	Live     []Running
	Data     template.JS
}

type verdictCount struct {
	mark
	N int
}

type change struct {
	Kind  string // failing, fixed, different
	Cell  link
	Group string
	Mark  mark
	What  string
	Run   string
}

type link struct{ Text, Href string }

// cellLink leads to a cell's page.
func cellLink(g *Group, id string) link { return link{clean(id), cellPath(g.Target, id)} }

type jobRow struct {
	Target  string
	State   string
	Mark    mark
	Detail  string
	Culprit string
	Run     string
}

type treeRow struct{ Tree, State, Detail string }

type failureRow struct {
	Cell     link
	Group    string
	Mark     mark
	What     string
	First    link // night, and the run's page
	Last     link
	Nights   int
	LastGood string
	FixedIn  string
	Culprit  string
}

type groupView struct {
	Index  int
	Name   string
	Sub    string
	Mark   mark
	Night  string // of the newest answer, when it is not the newest night
	Strip  template.HTML
	Code   string
	Rows   []rowView
	Steady int
	Passed int
	Counts string
}

type rowView struct {
	Cell   link
	Mark   mark
	Quar   bool
	Since  string
	Bad    string
	Strip  template.HTML
	Code   string
	Steady bool
}

type countRow struct {
	Group  string
	Name   string
	Last   string
	Before string
	Since  string
	Spark  template.HTML
}

type constant struct {
	Group string
	Text  string
}

// window is the part of the nights that strips show at first.
type window struct{ From, N int }

func clean(s string) string { return mail.PrintableLine(s) }

// title names a target for people; sub is what tells it from others.
func title(t history.Target) (name, sub string) {
	return clean(orNone(t.Series)), clean(orNone(t.Tree)) + ", plan " + clean(orNone(t.Plan))
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}

// index renders the index.
func (d *Data) index(w io.Writer, o Options) error {
	v := d.indexView(o)
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "index", v); err != nil {
		return fmt.Errorf("cannot render the index: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (d *Data) indexView(o Options) *indexView {
	v := &indexView{base: newBase(o, themeJS+indexJS, "", "", d.Made), Live: o.Live, Nights: len(d.Nights), Many: len(d.Groups) > 1}
	if len(d.Nights) == 0 {
		v.Empty = true
		return v
	}
	last := len(d.Nights) - 1
	v.Night = d.Nights[last]
	v.Window = window{max(0, len(d.Nights)-shownNights), min(shownNights, len(d.Nights))}
	v.First, v.Last, v.Shown = d.Nights[v.Window.From], v.Night, v.Window.N
	by := map[checks.Verdict]int{}
	answered := 0
	for gi, g := range d.Groups {
		gv := g.view(d, gi, v.Window)
		gv.Rows = make([]rowView, 0, len(g.Cells))
		for _, c := range g.Cells {
			row := d.row(g, c, v.Window)
			if row.Steady {
				gv.Steady++
			}
			now := c.Now()
			if now.At == last {
				answered++
				by[now.Verdict]++
			}
			if now.Verdict == checks.Pass {
				gv.Passed++
			}
			gv.Rows = append(gv.Rows, row)
		}
		gv.Counts = fmt.Sprintf("%d of %d cells pass", gv.Passed, len(g.Cells))
		v.Cells += len(g.Cells)
		v.Steady += gv.Steady
		v.Groups = append(v.Groups, gv)
		for _, f := range g.Failures {
			switch {
			case f.FixedIn == "":
				v.Open = append(v.Open, d.failure(g, f, o))
			case len(v.Past) < 50:
				v.Past = append(v.Past, d.failure(g, f, o))
			default:
				v.PastMore++
			}
		}
		v.Changes = append(v.Changes, d.changes(g, last, o)...)
		if col := g.Columns[last]; col.Night != "" && col.Verdict != checks.Pass && !slices.ContainsFunc(g.Cells, func(c *Cell) bool { return c.Squares[last] != nil && c.Squares[last].Verdict != checks.Pass }) {
			r := jobRow{Target: gv.Name + ", " + gv.Sub, Mark: markOf(col.Verdict), Detail: clean(col.Detail), Run: o.page(col.Run)}
			if col.Run == "" {
				r.Mark = mark{clean(string(col.State)), "…", "skip"}
			}
			v.Stopped = append(v.Stopped, r)
		}
		d.counts(v, g)
	}
	for _, x := range []checks.Verdict{checks.Fail, checks.BaseFails, checks.Unstable, checks.Infra, checks.Skip, checks.Pass} {
		if by[x] > 0 {
			v.Verdicts = append(v.Verdicts, verdictCount{markOf(x), by[x]})
		}
	}
	v.Lead = lead(by, answered, v.Cells, v.Changes)
	if n := len(v.Stopped); n > 0 {
		v.Lead += fmt.Sprintf(" %s did not pass for another reason than a cell.", plural(n, "target", "targets"))
	}
	v.ShowAll = v.Cells <= fewCells
	d.latest(v, o)
	v.Figures = d.figures()
	js, err := json.Marshal(d.script(o))
	if err == nil {
		v.Data = template.JS(js)
	}
	return v
}

// lead says how the newest night went.
func lead(by map[checks.Verdict]int, answered, cells int, changes []change) string {
	var s string
	switch {
	case answered == 0:
		s = "No cell was answered for."
	case by[checks.Pass] == answered && answered == cells:
		if s = fmt.Sprintf("All %d cells pass.", cells); cells == 1 {
			s = "The cell passes."
		}
	default:
		s = fmt.Sprintf("%d of %d cells pass", by[checks.Pass], answered)
		if answered < cells {
			s += fmt.Sprintf("; %d have no answer", cells-answered)
		}
		s += "."
	}
	n := map[string]int{}
	for _, c := range changes {
		n[c.Kind]++
	}
	var parts []string
	for _, k := range []struct{ kind, text string }{{"failing", "newly failing"}, {"different", "failing in another way"}, {"fixed", "fixed"}} {
		if n[k.kind] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[k.kind], k.text))
		}
	}
	if len(parts) == 0 {
		return s + " Nothing changed since the night before."
	}
	return s + " Since the night before: " + strings.Join(parts, ", ") + "."
}

// changes are what the newest night brought: it names failures that began in
// it, that ended in it, and cells that now fail in another way.
func (d *Data) changes(g *Group, last int, o Options) []change {
	night := d.Nights[last]
	name, sub := title(g.Target)
	begun := map[string]bool{}
	var out []change
	for _, f := range g.Failures {
		if f.FirstBad == night {
			begun[f.Cell] = true
			kind := "failing"
			for _, x := range g.Failures {
				if x.Cell == f.Cell && x.FixedIn == night {
					kind = "different"
				}
			}
			out = append(out, change{kind, cellLink(g, f.Cell), name + ", " + sub, markOf(f.Verdict), clean(f.Signature), o.page(f.LastRun)})
		}
	}
	for _, f := range g.Failures {
		if f.FixedIn == night && !begun[f.Cell] {
			out = append(out, change{"fixed", cellLink(g, f.Cell), name + ", " + sub, markOf(checks.Pass), clean(f.Signature), o.page(g.Columns[last].Run)})
		}
	}
	return out
}

func (d *Data) failure(g *Group, f history.Failure, o Options) failureRow {
	name, sub := title(g.Target)
	r := failureRow{Cell: cellLink(g, f.Cell), Group: name + ", " + sub, Mark: markOf(f.Verdict), What: clean(f.Signature),
		First: link{f.FirstBad, o.page(f.FirstRun)}, Last: link{f.LastBad, o.page(f.LastRun)}, Nights: f.Nights, LastGood: f.LastGood, FixedIn: f.FixedIn}
	if c, ok := g.Culprits[f.FirstBad+"\n"+f.Cell]; ok {
		r.Culprit = culprit(c)
	}
	return r
}

func culprit(c history.Culprit) string {
	if c.Patch <= 0 {
		return ""
	}
	return fmt.Sprintf("patch %d: %s", c.Patch, clean(c.Subject))
}

// latest is the newest nightly job, with what did not go its usual way first.
func (d *Data) latest(v *indexView, o Options) {
	if d.Latest.Night.ID != v.Night {
		return // runs by hand came later
	}
	v.Summary = clean(d.Latest.Night.Summary)
	if d.Latest.Night.State != history.Done {
		v.Summary = strings.TrimSpace(v.Summary + " The night is " + clean(string(d.Latest.Night.State)) + ".")
	}
	for _, j := range d.Latest.Jobs {
		name, sub := title(j.Target)
		r := jobRow{Target: name + ", " + sub, State: clean(string(j.State)), Detail: clean(j.Detail), Culprit: culprit(j.Culprit), Run: o.page(j.Run)}
		if j.Verdict != "" {
			r.Mark = markOf(j.Verdict)
		}
		v.Jobs = append(v.Jobs, r)
	}
	for _, t := range d.Latest.Trees {
		if t.State != history.TreeSame {
			v.Trees = append(v.Trees, treeRow{clean(t.Tree), clean(string(t.State)), clean(t.Detail)})
		}
	}
}

func (g *Group) view(d *Data, i int, w window) groupView {
	gv := groupView{Index: i, Code: rle(g.strip())}
	gv.Name, gv.Sub = title(g.Target)
	for n := len(g.Columns) - 1; n >= 0; n-- {
		if c := g.Columns[n]; c.Night != "" {
			if gv.Mark = markOf(c.Verdict); c.Run == "" {
				gv.Mark = mark{clean(string(c.State)), "…", "skip"}
			}
			if n != len(g.Columns)-1 {
				gv.Night = c.Night
			}
			break
		}
	}
	gv.Strip = stripSVG(g.strip(), w, "all of "+gv.Name+", "+gv.Sub, d)
	return gv
}

func (d *Data) row(g *Group, c *Cell, w window) rowView {
	s := c.strip()
	now := c.Now()
	r := rowView{Cell: cellLink(g, c.ID), Mark: markOf(now.Verdict), Quar: now.Quarantined && now.Verdict != checks.Pass, Code: rle(s)}
	bad, answers := 0, 0
	for i, x := range []byte(s) {
		if i < w.From || x == '.' {
			continue
		}
		answers++
		if x != 'P' {
			bad++
		}
	}
	r.Steady = now.Verdict == checks.Pass && bad == 0
	if now.Verdict != "" {
		r.Since = d.Nights[now.Since]
	}
	r.Bad = fmt.Sprintf("%d of %d", bad, answers)
	r.Strip = stripSVG(s, w, c.ID, d)
	return r
}

// rle is a strip with runs of letters counted: "P3F.2".
func rle(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && s[j] == s[i] {
			j++
		}
		b.WriteByte(s[i])
		if j-i > 1 {
			b.WriteString(strconv.Itoa(j - i))
		}
		i = j
	}
	return b.String()
}

// heights say a verdict by its shape as well as by its colour: where a bar
// begins, and how high it is, of ten.
var heights = map[byte][2]int{
	'P': {7, 3}, 'F': {0, 10}, 'B': {3, 7}, 'U': {2, 5}, 'I': {4, 2}, 'S': {9, 1}, 'N': {0, 2}, 'q': {4, 6},
}

// stripSVG draws the nights side by side, merging equal ones. All nights are
// in it; the view box shows some.
func stripSVG(s string, w window, name string, d *Data) template.HTML {
	paths := map[byte]*strings.Builder{}
	n := map[byte]int{}
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && s[j] == s[i] {
			j++
		}
		c := s[i]
		if i >= w.From {
			n[c] += j - i
		} else if j > w.From {
			n[c] += j - w.From
		}
		if c >= 'a' && c <= 'z' {
			c = 'q'
		}
		if h, ok := heights[c]; ok {
			p := paths[c]
			if p == nil {
				p = &strings.Builder{}
				paths[c] = p
			}
			fmt.Fprintf(p, "M%d %dh%dv%dh-%dz", i, h[0], j-i, h[1], j-i)
		}
		i = j
	}
	var words []string
	for _, c := range []byte("PFBUISNfbuisn") {
		if n[c] > 0 {
			words = append(words, fmt.Sprintf("%d %s", n[c], codeWord(c)))
		}
	}
	label := fmt.Sprintf("%s: last %d nights: %s", clean(name), w.N, strings.Join(words, ", "))
	if len(words) == 0 {
		label = fmt.Sprintf("%s: last %d nights: no answers", clean(name), w.N)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="strip" viewBox="%d 0 %d 10" preserveAspectRatio="none" role="img" aria-label="%s">`, w.From, w.N, template.HTMLEscapeString(label))
	for _, c := range []byte("PFBUISNq") {
		if p := paths[c]; p != nil {
			fmt.Fprintf(&b, `<path class="s%c" d="%s"/>`, c, p)
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

func codeWord(c byte) string {
	q := ""
	if c >= 'a' && c <= 'z' {
		c -= 'a' - 'A'
		q = " in quarantine"
	}
	return map[byte]string{'P': "PASS", 'F': "FAIL", 'B': "BASE-FAILS", 'U': "UNSTABLE", 'I': "INFRA", 'S': "SKIP", 'N': "without verdict"}[c] + q
}

// script is what the index' script knows beyond the page itself.
func (d *Data) script(o Options) any {
	type group struct {
		Runs []string `json:"runs"` // pages, by night; "" where there is none
	}
	var groups []group
	for _, g := range d.Groups {
		x := group{make([]string, len(g.Columns))}
		for i, c := range g.Columns {
			if o.page(c.Run) != "" {
				x.Runs[i] = c.Run
			}
		}
		groups = append(groups, x)
	}
	return map[string]any{"nights": d.Nights, "groups": groups, "shown": shownNights}
}

// counts adds the counts of a group to the table of those that changed, or to
// the list of those that did not.
func (d *Data) counts(v *indexView, g *Group) {
	name, sub := title(g.Target)
	group := name + ", " + sub
	var same []string
	for _, c := range g.Counts {
		r, changed := d.countRow(c, plot.Number)
		if !changed {
			same = append(same, fmt.Sprintf("%s %s", clean(c.Name), r.Last))
			continue
		}
		r.Group = group
		v.Counts = append(v.Counts, r)
	}
	if len(same) > 0 {
		v.Constant = append(v.Constant, constant{group, strings.Join(same, ", ")})
	}
	// The time of a group is that of its cells' reads and writes, per cell that
	// was measured: a night in which some answers were reused is comparable.
	t := Count{"time per cell", gaps(len(d.Nights))}
	for n := range d.Nights {
		sum, cells := 0.0, 0
		for _, c := range g.Cells {
			if s := c.Squares[n]; s != nil && !s.Reused && s.Verdict == checks.Pass && s.Work > 0 {
				sum += s.Work.Seconds()
				cells++
			}
		}
		if cells > 0 {
			t.Values[n] = sum / float64(cells)
		}
	}
	if r, _ := d.countRow(t, plot.Seconds); r.Last != "" {
		r.Group = group
		v.Times = append(v.Times, r)
	}
}

// countRow is a count's newest value, the one before it that differed, and
// since when it is what it is. changed says that it ever differed.
func (d *Data) countRow(c Count, format func(float64) string) (r countRow, changed bool) {
	r.Name = clean(c.Name)
	last := math.NaN()
	for n := len(c.Values) - 1; n >= 0; n-- {
		x := c.Values[n]
		switch {
		case math.IsNaN(x):
			continue
		case math.IsNaN(last):
			last = x
		case x != last:
			r.Before, changed = format(x), true
		}
		if changed {
			break
		}
		r.Since = d.Nights[n]
	}
	if !math.IsNaN(last) {
		r.Last = format(last)
	}
	from := max(0, len(c.Values)-90)
	r.Spark = template.HTML(plot.Spark(fmt.Sprintf("%s over the last %d nights", r.Name, len(c.Values)-from), c.Values[from:]))
	return r, changed
}

// figures are the trends of the whole.
func (d *Data) figures() []template.HTML {
	if len(d.Nights) < 2 {
		return nil
	}
	at := make([]time.Time, len(d.Nights))
	for i, n := range d.Nights {
		at[i] = nightTime(n)
	}
	var trends []plot.Trend
	for _, x := range []struct {
		name string
		v    []checks.Verdict
	}{{"FAIL", []checks.Verdict{checks.Fail}}, {"UNSTABLE", []checks.Verdict{checks.Unstable}}, {"BASE-FAILS", []checks.Verdict{checks.BaseFails}}, {"INFRA", []checks.Verdict{checks.Infra}}} {
		t := plot.Trend{Name: x.name, At: at, Values: gaps(len(d.Nights))}
		some := false
		for n := range d.Nights {
			for _, g := range d.Groups {
				for _, c := range g.Cells {
					s := c.Squares[n]
					if s == nil {
						continue
					}
					if math.IsNaN(t.Values[n]) {
						t.Values[n] = 0
					}
					for _, want := range x.v {
						if s.Verdict == want {
							t.Values[n]++
							some = true
						}
					}
				}
			}
		}
		if some || x.name == "FAIL" {
			trends = append(trends, t)
		}
	}
	fig := plot.TimeSeries(plot.Frame{ID: "bad", Title: "Cells that did not pass", Desc: "Over all trees, series and plans, by verdict.", Y: plot.Axis{Label: "cells"}}, trends, nil)
	fig.Tables = thin(fig.Tables)
	return []template.HTML{fig.HTML()}
}

// thin leaves out the rows of a trend's table that say what the row before
// said: a year is 365 rows, and few of them are news.
func thin(tables []plot.Table) []plot.Table {
	for i, t := range tables {
		var rows [][]string
		for n, r := range t.Rows {
			if n > 0 && n < len(t.Rows)-1 && len(r) > 0 && slices.Equal(r[1:], t.Rows[n-1][1:]) {
				continue
			}
			rows = append(rows, r)
		}
		if len(rows) < len(t.Rows) {
			tables[i].Rows = rows
			tables[i].Caption = strings.TrimSpace(t.Caption + " Nights that say the same as the one before are left out.")
		}
	}
	return tables
}

type cellView struct {
	base
	Cell     string
	Name     string
	Sub      string
	Mark     mark
	Lead     string
	Quar     bool
	Strip    template.HTML
	Code     string
	First    string
	Last     string
	Nights   int
	Spans    []spanRow
	Figures  []template.HTML
	Constant string
	Data     template.JS
}

type spanRow struct {
	Mark    mark
	Quar    bool
	From    link
	To      link
	Nights  int
	What    string
	Culprit string
}

// cell renders the page of one cell.
func (d *Data) cell(w io.Writer, g *Group, c *Cell, o Options) error {
	v := &cellView{base: newBase(o, themeJS, "", "../", d.Made), Cell: clean(c.ID), Nights: len(d.Nights), First: d.Nights[0], Last: d.Nights[len(d.Nights)-1]}
	v.Made = "" // a page whose cell did not change stays as it is
	v.Name, v.Sub = title(g.Target)
	now := c.Now()
	v.Mark, v.Quar = markOf(now.Verdict), now.Quarantined && now.Verdict != checks.Pass
	switch {
	case now.Verdict == "":
		v.Lead = "It never had an answer."
	case now.Verdict == checks.Pass:
		v.Lead = fmt.Sprintf("Passes since %s, %s.", d.Nights[now.Since], plural(now.Nights, "night", "nights"))
	default:
		v.Lead = fmt.Sprintf("Does not pass since %s, %s.", d.Nights[now.Since], plural(now.Nights, "night", "nights"))
	}
	w2 := window{0, len(d.Nights)}
	v.Strip = stripSVG(c.strip(), w2, c.ID, d)
	page := func(n int) link {
		l := link{Text: d.Nights[n]}
		if p := o.page(g.Columns[n].Run); p != "" {
			l.Href = v.Root + p
		}
		return l
	}
	spans := c.Spans()
	var events []plot.Event
	for i := len(spans) - 1; i >= 0; i-- {
		s := spans[i]
		r := spanRow{Mark: markOf(s.Verdict), Quar: s.Quarantined && s.Verdict != checks.Pass, From: page(s.From), To: page(s.To), Nights: s.Nights(), What: clean(s.Signature)}
		if cu, ok := g.Culprits[d.Nights[s.From]+"\n"+c.ID]; ok {
			r.Culprit = culprit(cu)
		}
		v.Spans = append(v.Spans, r)
		// What lies between two answers is said, too.
		if i > 0 && spans[i-1].To < s.From-1 {
			v.Spans = append(v.Spans, g.silence(d, spans[i-1].To+1, s.From-1))
		}
		if history.Failing(s.Verdict) && len(events) < 4 {
			events = append(events, plot.Event{At: nightTime(d.Nights[s.From]), Label: "first bad"})
		}
	}
	at := make([]time.Time, len(d.Nights))
	for i, n := range d.Nights {
		at[i] = nightTime(n)
	}
	if t := c.Work(); some(t) > 1 {
		f := plot.TimeSeries(plot.Frame{ID: "time", Title: "Time of the cell's reads and writes", Desc: "Where it was measured and passed; answers that were reused are left out.", Y: plot.Axis{Duration: true, Free: true}},
			[]plot.Trend{{Name: "time", At: at, Values: t}}, events)
		v.Figures = append(v.Figures, f.HTML())
	}
	var same []string
	for i, x := range c.Counts {
		r, changed := d.countRow(x, plot.Number)
		if !changed {
			same = append(same, r.Name+" "+r.Last)
			continue
		}
		f := plot.TimeSeries(plot.Frame{ID: fmt.Sprintf("count-%d", i), Title: r.Name, Desc: fmt.Sprintf("%s since %s, %s before.", r.Last, r.Since, r.Before), Y: plot.Axis{Free: true}},
			[]plot.Trend{{Name: r.Name, At: at, Values: x.Values}}, events)
		f.Tables = thin(f.Tables)
		v.Figures = append(v.Figures, f.HTML())
	}
	v.Constant = strings.Join(same, ", ")
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "cell", v); err != nil {
		return fmt.Errorf("cannot render the page of %s: %w", c.ID, err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// silence is a row of nights without an answer, with the state of the first
// that has one.
func (g *Group) silence(d *Data, from, to int) spanRow {
	r := spanRow{Mark: markOf(""), From: link{Text: d.Nights[from]}, To: link{Text: d.Nights[to]}, Nights: to - from + 1}
	for n := from; n <= to; n++ {
		if c := g.Columns[n]; c.State != "" && c.State != history.Done {
			r.What = clean(string(c.State))
			break
		}
	}
	return r
}

func some(v []float64) (n int) {
	for _, x := range v {
		if !math.IsNaN(x) {
			n++
		}
	}
	return n
}

type liveView struct {
	base
	ID      string
	Title   string
	Started string
	Cells   []string // as the events name them
	Page    string
}

// live renders the page that follows a run.
func live(w io.Writer, r *runfolder.Run, o Options, now time.Time) error {
	v := &liveView{base: newBase(o, themeJS+liveJS, "; connect-src 'self'", "../", now), ID: r.ID, Title: clean(r.Series.Title), Started: r.Started.UTC().Format("2 January 2006, 15:04:05 UTC"), Page: runPath(r.ID)}
	for _, c := range r.Plan.Cells() {
		v.Cells = append(v.Cells, clean(c.ID()))
	}
	return templates.ExecuteTemplate(w, "live", v)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

var templates = func() *template.Template {
	t := template.New("").Funcs(template.FuncMap{"clean": clean, "plural": plural})
	template.Must(t.New("index").Parse(indexText))
	template.Must(t.New("cell").Parse(cellText))
	template.Must(t.New("live").Parse(liveText))
	return t
}()
