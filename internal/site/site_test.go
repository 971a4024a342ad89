// SPDX-License-Identifier: Apache-2.0

package site

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchcheck/checks"
	"patchcheck/internal/history"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

var firstNight = time.Date(2026, 1, 1, 2, 0, 0, 0, time.UTC)

// made makes data as Load would: groups of cells over nights, some of which
// fail for a while.
func made(nights, groups, cells int) *Data {
	rng := rand.New(rand.NewPCG(1, 2))
	d := &Data{Made: firstNight.AddDate(0, 0, nights)}
	for n := range nights {
		d.Nights = append(d.Nights, firstNight.AddDate(0, 0, n).Format(time.DateOnly))
	}
	for gi := range groups {
		hg := &history.Grid{Target: history.Target{Tree: "nfsd-testing", Series: fmt.Sprintf("svcrdma series %d", gi+1), Plan: "svcrdma-inline"}}
		g := &Group{Target: hg.Target, Culprits: map[string]history.Culprit{}}
		for n, night := range d.Nights {
			hg.Columns = append(hg.Columns, history.Column{Night: night, Run: fmt.Sprintf("%s-020000-series-%d", strings.ReplaceAll(night, "-", ""), gi+1), Verdict: checks.Pass})
			if n%97 == 50 {
				hg.Columns[n].Run, hg.Columns[n].Verdict, hg.Columns[n].State = "", "", history.Conflict
			}
		}
		for c := range cells / groups {
			kernel := "patched"
			if c%20 == 19 {
				kernel = "base"
			}
			id := fmt.Sprintf("%s/device-%d/v%s", kernel, 16+8*(c/4), []string{"3", "4.0", "4.1", "4.2"}[c%4])
			hg.Cells = append(hg.Cells, id)
			row := make([]*history.Square, nights)
			v, sig := checks.Pass, ""
			for n := range nights {
				switch p := rng.Float64(); {
				case v == checks.Pass && p < 0.006:
					v, sig = checks.Fail, "console.oops@direct: read"
				case v == checks.Pass && p < 0.008:
					v, sig = checks.Unstable, "contents.differ"
				case v == checks.Pass && p < 0.009:
					v, sig = checks.BaseFails, "guest.transport@mount"
				case v == checks.Pass && p < 0.010:
					v, sig = checks.Infra, "infra"
				case v != checks.Pass && p < 0.3:
					v, sig = checks.Pass, ""
				}
				if hg.Columns[n].Run == "" {
					continue
				}
				row[n] = &history.Square{Verdict: v, Signature: sig, Work: time.Duration(900+100*rng.Float64()) * time.Millisecond, Quarantined: c == 5}
				if v != checks.Pass {
					hg.Columns[n].Verdict = checks.Fail
				}
			}
			hg.Squares = append(hg.Squares, row)
			cell := &Cell{ID: id, Squares: row}
			for _, name := range []string{"all", "inline", "by_reference", "granted"} {
				x := Count{name, gaps(nights)}
				for n := range nights {
					if row[n] != nil {
						x.Values[n] = 5924
						if name == "inline" && n > nights/2 {
							x.Values[n] = 6001
						}
					}
				}
				cell.Counts = append(cell.Counts, x)
			}
			g.Cells = append(g.Cells, cell)
		}
		g.Columns = hg.Columns
		g.Failures = hg.Failures()
		for _, name := range []string{"all", "inline"} {
			x := Count{name, gaps(nights)}
			for n := range nights {
				if x.Values[n] = 59240; name == "inline" && n > nights/2 {
					x.Values[n] = 60010
				}
			}
			g.Counts = append(g.Counts, x)
		}
		for _, f := range g.Failures[:min(1, len(g.Failures))] {
			g.Culprits[f.FirstBad+"\n"+f.Cell] = history.Culprit{Patch: 2, Subject: "svcrdma: Post small Replies inline", Cell: f.Cell}
		}
		d.Groups = append(d.Groups, g)
	}
	return d
}

// record puts one night into a history: a run with cells of the given verdicts.
func record(t testing.TB, db *history.DB, runs string, day int, verdicts ...checks.Verdict) *runfolder.Run {
	t.Helper()
	at := firstNight.AddDate(0, 0, day)
	r, err := runfolder.Create(runs, at, "small series")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.Ended = at.Add(10 * time.Minute)
	r.Tree = runfolder.Tree{Spec: "nfsd-testing", ID: "git:1", Version: "7.3.4", Commit: strings.Repeat("a", 40)}
	r.Series = runfolder.Series{ID: "s", Title: "small <series>", Version: 1, Patches: []runfolder.Patch{{Index: 1, Subject: "one", ID: "p1"}}}
	r.Plan = testplans.Plan{Name: "plan", Axes: testplans.Axes{NFS: []string{"3"}}, Kernels: map[string]testplans.Selection{"patched": {}}}
	r.Verdict = checks.Pass
	for i, v := range verdicts {
		dev := testplans.Device{Name: fmt.Sprintf("dev-%d", i)}
		r.Plan.Axes.Device = append(r.Plan.Axes.Device, dev)
		c := testplans.Cell{Kernel: "patched", Device: dev, NFS: "3"}
		a := runfolder.Attempt{Guest: "01-patched", Verdict: v, Elapsed: time.Second, Token: "done", Started: at,
			Steps: []runfolder.CellStep{{Name: "direct: write", Elapsed: time.Duration(500+day) * time.Millisecond}}, Values: map[string]int64{"inline": int64(100 + day/2), "all": 200}}
		cell := &runfolder.Cell{ID: c.ID(), Spec: c, Key: fmt.Sprint(i), Verdict: v, Attempts: []runfolder.Attempt{a}}
		if v != checks.Pass {
			r.Verdict = checks.Fail
			cell.Findings = []checks.Finding{{ID: "contents.differ", Severity: checks.Error, Message: "differs"}}
		}
		if err := r.SaveCell(cell); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Save(); err != nil {
		t.Fatal(err)
	}
	if err := db.RecordIn(t.Context(), r, at.Format(time.DateOnly)); err != nil {
		t.Fatal(err)
	}
	return r
}

func openHistory(t testing.TB) *history.DB {
	t.Helper()
	db, err := history.Open(context.Background(), filepath.Join(t.TempDir(), "h.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

const (
	pass = checks.Pass
	fail = checks.Fail
)

func TestIndexOfHistory(t *testing.T) {
	db, runs := openHistory(t), t.TempDir()
	record(t, db, runs, 0, pass, pass, fail)
	record(t, db, runs, 1, pass, pass, pass)
	record(t, db, runs, 2, pass, fail, pass)
	d, err := Load(t.Context(), db, firstNight)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Nights) != 3 || len(d.Groups) != 1 || len(d.Groups[0].Cells) != 3 {
		t.Fatalf("%+v", d)
	}
	g := d.Groups[0]
	if got := g.Cells[1].strip(); got != "PPF" {
		t.Errorf("strip %q", got)
	}
	if n := g.Cells[1].Now(); n.Verdict != fail || n.Since != 2 || n.Nights != 1 {
		t.Errorf("%+v", n)
	}
	var inline Count
	for _, c := range g.Counts {
		if c.Name == "inline" {
			inline = c
		}
	}
	if !slices.Equal(inline.Values, []float64{300, 300, 303}) {
		t.Errorf("sums %v", inline.Values)
	}
	for _, c := range g.Cells[0].Counts {
		if c.Name == "inline" && !slices.Equal(c.Values, []float64{100, 100, 101}) {
			t.Errorf("counts of a cell: %v", c.Values)
		}
	}
	if w := g.Cells[0].Work(); w[2] != 0.502 || !math.IsNaN(g.Cells[1].Work()[2]) {
		t.Errorf("work %v %v", w, g.Cells[1].Work())
	}
	var b bytes.Buffer
	if err := d.index(&b, Options{Tool: "v1", Page: func(string) bool { return true }}); err != nil {
		t.Fatal(err)
	}
	balanced(t, b.String())
	text := plain(b.String())
	for _, want := range []string{"Night of 2026-01-03", "2 of 3 cells pass. Since the night before: 1 newly failing.", "patched/dev-1/v3", "contents.differ", "2026-01-03 1 2026-01-02", "300", "all 600"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q in:\n%s", want, text)
		}
	}
	if !strings.Contains(b.String(), `href="runs/20260103-020000-small-series.html"`) {
		t.Error("no link to the first bad night's run")
	}
	b.Reset()
	if err := d.cell(&b, g, g.Cells[2], Options{}); err != nil {
		t.Fatal(err)
	}
	balanced(t, b.String())
	if text := plain(b.String()); !strings.Contains(text, "Passes since 2026-01-02, 2 nights.") || !strings.Contains(text, "✗ FAIL 2026-01-01 2026-01-01 1 contents.differ") {
		t.Errorf("cell:\n%s", text)
	}
}

// Nights without an answer are said on a cell's page, with what kept it.
func TestSilence(t *testing.T) {
	d := made(6, 1, 1)
	g := d.Groups[0]
	g.Cells[0].Squares = square("PP..PF")
	for _, n := range []int{2, 3} {
		g.Columns[n].Run, g.Columns[n].State = "", history.Conflict
	}
	var b bytes.Buffer
	if err := d.cell(&b, g, g.Cells[0], Options{}); err != nil {
		t.Fatal(err)
	}
	if text := plain(b.String()); !strings.Contains(text, "… no answer 2026-01-03 2026-01-04 2 conflict ✓ PASS 2026-01-01 2026-01-02 2") {
		t.Errorf("%s", text)
	}
}

// A target whose run ended before any cell is not lost among cells that pass.
func TestTargetsWithoutCells(t *testing.T) {
	db, runs := openHistory(t), t.TempDir()
	record(t, db, runs, 0, pass)
	r, err := runfolder.Create(runs, firstNight.Add(time.Hour), "other")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.Ended, r.Verdict, r.Reason = firstNight.Add(2*time.Hour), fail, "patch 1 does not apply"
	r.Tree, r.Series, r.Plan = runfolder.Tree{Spec: "t"}, runfolder.Series{Title: "other series"}, testplans.Plan{Name: "plan"}
	if err := r.Save(); err != nil {
		t.Fatal(err)
	}
	if err := db.RecordIn(t.Context(), r, "2026-01-01"); err != nil {
		t.Fatal(err)
	}
	d, err := Load(t.Context(), db, firstNight)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := d.index(&b, Options{}); err != nil {
		t.Fatal(err)
	}
	text := plain(b.String())
	for _, want := range []string{"The cell passes.", "1 target did not pass for another reason than a cell.", "✗ FAIL other series, t, plan plan patch 1 does not apply", "0 cells"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q in:\n%s", want, text)
		}
	}
	balanced(t, b.String())
}

func TestEmpty(t *testing.T) {
	d, err := Load(t.Context(), openHistory(t), firstNight)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := d.index(&b, Options{}); err != nil || !strings.Contains(b.String(), "No nights yet") {
		t.Errorf("%v\n%s", err, b.String())
	}
	balanced(t, b.String())
}

func square(s string) (out []*history.Square) {
	for _, c := range []byte(s) {
		if c == '.' {
			out = append(out, nil)
			continue
		}
		q := c >= 'a'
		if q {
			c -= 'a' - 'A'
		}
		out = append(out, &history.Square{Verdict: map[byte]checks.Verdict{'P': pass, 'F': fail, 'U': checks.Unstable, 'I': checks.Infra, 'S': checks.Skip, 'B': checks.BaseFails}[c], Quarantined: q})
	}
	return out
}

func TestSpansAndNow(t *testing.T) {
	for _, c := range []struct {
		strip string
		spans string
		now   string
	}{
		{"PPP", "PASS 0-2", "PASS 0 3"},
		{"PPFFP", "PASS 0-1, FAIL 2-3, PASS 4-4", "PASS 4 1"},
		{"PF.F", "PASS 0-0, FAIL 1-1, FAIL 3-3", "FAIL 1 2"},
		{"PFUI", "PASS 0-0, FAIL 1-1, UNSTABLE 2-2, INFRA 3-3", "INFRA 1 3"},
		{"FP..", "FAIL 0-0, PASS 1-1", "PASS 1 1"},
		{"...", "", " 0 0"},
		{"", "", " 0 0"},
		{"Ff", "FAIL 0-0, FAIL 1-1", "FAIL 0 2"},
	} {
		cell := &Cell{ID: "x", Squares: square(c.strip)}
		var parts []string
		for _, s := range cell.Spans() {
			parts = append(parts, fmt.Sprintf("%s %d-%d", s.Verdict, s.From, s.To))
		}
		if got := strings.Join(parts, ", "); got != c.spans {
			t.Errorf("%s: %s, want %s", c.strip, got, c.spans)
		}
		n := cell.Now()
		if got := fmt.Sprintf("%s %d %d", n.Verdict, n.Since, n.Nights); got != c.now {
			t.Errorf("%s: now %s, want %s", c.strip, got, c.now)
		}
		if got := cell.strip(); got != c.strip {
			t.Errorf("%s: strip %s", c.strip, got)
		}
	}
}

// unpack is what index.js does.
func unpack(s string) string {
	return regexp.MustCompile(`([A-Za-z.])(\d+)`).ReplaceAllStringFunc(s, func(m string) string {
		var n int
		fmt.Sscanf(m[1:], "%d", &n)
		return strings.Repeat(m[:1], n)
	})
}

func TestStrip(t *testing.T) {
	d := made(12, 1, 4)
	for _, s := range []string{"", "P", "PPPPPPPPPPPP", "PFP", "..FFFBBUIS.Nf", strings.Repeat("P", 365) + "F"} {
		if got := unpack(rle(s)); got != s {
			t.Errorf("%q became %q became %q", s, rle(s), got)
		}
	}
	svg := string(stripSVG("PPFFf.P", window{2, 5}, `a"<b`, d))
	for _, want := range []string{`viewBox="2 0 5 10"`, `<path class="sF" d="M2 0h2v10h-2z"/>`, `<path class="sq" d="M4 4h1v6h-1z"/>`, `d="M0 7h2v3h-2zM6 7h1v3h-1z"`, "a&#34;&lt;b: last 5 nights: 1 PASS, 2 FAIL, 1 FAIL in quarantine"} {
		if !strings.Contains(svg, want) {
			t.Errorf("lacks %s: %s", want, svg)
		}
	}
	balanced(t, svg)
}

func TestNightTime(t *testing.T) {
	if got := nightTime("2026-12-01.03"); !got.Equal(time.Date(2026, 12, 1, 2, 0, 0, 0, time.UTC)) {
		t.Error(got)
	}
	if got := nightTime("nonsense"); !got.IsZero() {
		t.Error(got)
	}
}

func TestPathNames(t *testing.T) {
	seen := map[string]bool{}
	re := regexp.MustCompile(`^cells/[a-z0-9.-]+\.html$`)
	for _, w := range []string{"", "a", "A", "a/b", "a-b", "../../etc/passwd", "..", strings.Repeat("x", 300), "ü\x00<", "patched/intel-216/v4.1"} {
		for _, u := range []string{"", "s", "a"} {
			p := cellPath(history.Target{Series: u}, w)
			if !re.MatchString(p) || strings.Contains(p, "..") || strings.HasPrefix(p, "cells/.") || seen[p] || len(p) > 100 {
				t.Errorf("%q %q: %q", w, u, p)
			}
			seen[p] = true
		}
	}
	for id, ok := range map[string]bool{"20261130-144203-svcrdma-post.1": true, "": false, "../x": false, ".x": false, "a/b": false, "a..b": false, "a\x00": false, "ü": false} {
		if validRun(id) != ok {
			t.Errorf("%q", id)
		}
	}
}

// Nothing of a name may become markup, script or style.
func TestHostileNames(t *testing.T) {
	evil := `</script></style><script>alert(1)</script><img src=x onerror="alert(2)">'"&` + "\x00\x1b[31m\u202e"
	d := made(3, 1, 2)
	g := d.Groups[0]
	g.Target = history.Target{Tree: evil, Series: evil, Plan: evil}
	g.Cells[0].ID = "patched/" + evil + "/v3"
	g.Cells[0].Squares = square("PPF")
	g.Cells[0].Squares[2].Signature = evil
	g.Columns[2].Run = evil
	g.Counts[0].Name, g.Cells[0].Counts[1].Name = evil, evil
	g.Failures = []history.Failure{{Target: g.Target, Cell: g.Cells[0].ID, Verdict: checks.Verdict(evil), Signature: evil, FirstBad: d.Nights[2], LastBad: d.Nights[2], FirstRun: evil, LastRun: evil}}
	d.Latest = Latest{Night: history.Night{ID: d.Nights[2], Summary: evil, State: history.State(evil)}, Jobs: []history.Job{{Target: g.Target, State: history.State(evil), Detail: evil, Run: evil, Culprit: history.Culprit{Patch: 1, Subject: evil}}}, Trees: []history.TreeState{{Tree: evil, State: "new", Detail: evil}}}
	o := Options{Tool: evil, Page: func(string) bool { return true }, Live: []Running{{ID: "x", Title: evil}}}
	var pages []string
	var b bytes.Buffer
	if err := d.index(&b, o); err != nil {
		t.Fatal(err)
	}
	pages = append(pages, b.String())
	b.Reset()
	if err := d.cell(&b, g, g.Cells[0], o); err != nil {
		t.Fatal(err)
	}
	pages = append(pages, b.String())
	b.Reset()
	r := &runfolder.Run{ID: "x", Series: runfolder.Series{Title: evil}}
	r.Plan.Axes = testplans.Axes{Device: []testplans.Device{{Name: evil}}, NFS: []string{evil}}
	r.Plan.Kernels = map[string]testplans.Selection{"patched": {}}
	if err := live(&b, r, o, firstNight); err != nil {
		t.Fatal(err)
	}
	pages = append(pages, b.String())
	for i, p := range pages {
		balanced(t, p)
		for _, bad := range []string{"<img", "<script>alert", "onerror=\"", "\x00", "\x1b", "\u202e"} {
			if strings.Contains(p, bad) {
				t.Errorf("page %d has %q", i, bad)
			}
		}
	}
}

var tag = regexp.MustCompile(`<(/?)([a-zA-Z][a-zA-Z0-9]*)((?:[^>"']|"[^"]*"|'[^']*')*)>`)

// balanced fails the test when elements are not closed in order. Scripts and
// styles are taken out first: they are text.
func balanced(t testing.TB, doc string) {
	t.Helper()
	doc = regexp.MustCompile(`(?s)<(script|style)[^>]*>.*?</(script|style)>`).ReplaceAllString(doc, "")
	void := map[string]bool{"meta": true, "link": true, "input": true, "br": true}
	var stack []string
	for _, m := range tag.FindAllStringSubmatch(doc, -1) {
		name := strings.ToLower(m[2])
		switch {
		case void[name] || strings.HasSuffix(m[3], "/"):
		case m[1] == "":
			stack = append(stack, name)
		case len(stack) == 0 || stack[len(stack)-1] != name:
			t.Fatalf("</%s> in %v", name, stack)
		default:
			stack = stack[:len(stack)-1]
		}
	}
	if len(stack) != 0 {
		t.Errorf("not closed: %v", stack)
	}
}

// plain is a page's text.
func plain(doc string) string {
	doc = regexp.MustCompile(`(?s)<(script|style)[^>]*>.*?</(script|style)>`).ReplaceAllString(doc, "")
	return strings.Join(strings.Fields(tag.ReplaceAllString(doc, " ")), " ")
}

func files(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	out := map[string]time.Time{}
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		fi, err := e.Info()
		rel, _ := filepath.Rel(dir, p)
		out[filepath.ToSlash(rel)] = fi.ModTime()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestBuild(t *testing.T) {
	db, runs, dir := openHistory(t), t.TempDir(), filepath.Join(t.TempDir(), "site")
	a := record(t, db, runs, 0, pass, fail)
	b := record(t, db, runs, 1, pass, pass)
	rendered := 0
	var warned []string
	conf := Config{Dir: dir, Tool: "v1", Now: firstNight, Warn: func(s string) { warned = append(warned, s) }, page: func(w io.Writer, r *runfolder.Run) error {
		rendered++
		_, err := io.WriteString(w, "<p>"+r.ID)
		return err
	}}
	build := func() *Result {
		t.Helper()
		rendered = 0
		res, err := Build(t.Context(), db, conf)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	res := build()
	if rendered != 2 || res.RunsMade != 2 || res.Cells != 2 || res.Written != 5 {
		t.Errorf("first: %d rendered, %+v", rendered, res)
	}
	before := files(t, dir)
	// Nothing new: nothing is written, even later.
	conf.Now = firstNight.AddDate(0, 0, 1)
	time.Sleep(10 * time.Millisecond) // a file written again has another time
	res = build()
	after := files(t, dir)
	if rendered != 0 || res.Written != 0 || res.Unchanged != 5 {
		t.Errorf("again: %d rendered, %+v", rendered, res)
	}
	for f, at := range before {
		if f != stateName && !after[f].Equal(at) {
			t.Errorf("%s was written again", f)
		}
	}
	// A run that changed, a run whose folder is gone, a new one.
	if err := os.RemoveAll(b.Dir()); err != nil {
		t.Fatal(err)
	}
	a.Reason = "another reason"
	if err := a.Save(); err != nil {
		t.Fatal(err)
	}
	c := record(t, db, runs, 2, fail, pass)
	res = build()
	if rendered != 2 || res.Runs != 3 {
		t.Errorf("changed: %d rendered, %+v", rendered, res)
	}
	index, err := os.ReadFile(filepath.Join(dir, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*runfolder.Run{a, b, c} {
		if _, err := os.Stat(filepath.Join(dir, "runs", r.ID+".html")); err != nil {
			t.Error(err)
		}
		if !bytes.Contains(index, []byte(r.ID)) {
			t.Errorf("the index does not know %s", r.ID)
		}
	}
	// Another version of the tool makes pages anew where it can.
	conf.Tool = "v2"
	if build(); rendered != 2 {
		t.Errorf("another version: %d rendered", rendered)
	}
	// What the history forgot goes.
	for _, r := range []*runfolder.Run{a, b, c} {
		if err := db.Forget(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
	}
	record(t, db, runs, 3, pass)
	if res = build(); res.Cells != 1 || res.Runs != 1 {
		t.Errorf("forgotten: %+v", res)
	}
	if n := len(files(t, dir)); n != 4 {
		t.Errorf("%v", files(t, dir))
	}
	// A damaged state and a half-written file do not stop it.
	if err := os.WriteFile(filepath.Join(dir, stateName), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cells", "x.html.tmp"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if build(); rendered != 1 || len(files(t, dir)) != 4 {
		t.Errorf("%d rendered, %v", rendered, files(t, dir))
	}
	if len(warned) != 0 {
		t.Errorf("%v", warned)
	}
	// A page that cannot be made is said, and the rest is.
	conf.Tool = "v3"
	conf.page = func(io.Writer, *runfolder.Run) error { return fmt.Errorf("no page today") }
	build()
	if len(warned) != 1 || !strings.Contains(warned[0], "no page today") {
		t.Errorf("%v", warned)
	}
}

func TestBuildRefusesForeignFolders(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.txt"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Build(t.Context(), openHistory(t), Config{Dir: dir})
	if _, ok := err.(*ForeignError); !ok {
		t.Errorf("%v", err)
	}
	if n := len(files(t, dir)); n != 1 {
		t.Errorf("%d files", n)
	}
}

func TestWanted(t *testing.T) {
	d := made(100, 1, 200)
	w := d.wanted(10)
	if len(w) < 10 || len(w) > 60 {
		t.Errorf("%d runs", len(w))
	}
	for _, f := range d.Groups[0].Failures {
		if f.FixedIn == "" && !w[f.FirstRun] {
			t.Errorf("%s, the first bad one, has no page", f.FirstRun)
		}
	}
}

// BenchmarkIndex renders the index of a year: 365 nights, 200 cells.
func BenchmarkIndex(b *testing.B) {
	for _, groups := range []int{1, 20} {
		d := made(365, groups, 200)
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			var n int64
			cpu(b, func() {
				var c counter
				if err := d.index(&c, Options{Tool: "v1", Page: func(string) bool { return true }}); err != nil {
					b.Fatal(err)
				}
				n = int64(c)
			})
			b.ReportMetric(float64(n), "bytes")
		})
	}
}

// cpu reports the processor time of what was measured beside its wall time,
// which says little on a machine that does other things, too.
func cpu(b *testing.B, f func()) {
	used := func() int64 {
		var u unix.Rusage
		if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
			return 0
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	n, from := 0, used()
	for b.Loop() {
		f()
		n++
	}
	b.ReportMetric(float64(used()-from)/float64(n), "cpu-ns/op")
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// BenchmarkCellPages renders the pages of 200 cells over a year.
func BenchmarkCellPages(b *testing.B) {
	d := made(365, 1, 200)
	for b.Loop() {
		for _, c := range d.Groups[0].Cells {
			if err := d.cell(io.Discard, d.Groups[0], c, Options{}); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkBuild is the whole build of a year's site from the history, cold
// and with nothing new. Recording the year takes longer than that; it is not
// measured.
func BenchmarkBuild(b *testing.B) {
	path := os.Getenv("PATCHCHECK_YEAR") // a history with a year in it, made when absent
	if path == "" {
		path = filepath.Join(b.TempDir(), "year.db")
	}
	db, err := history.Open(context.Background(), path)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	if n, _ := db.Nights(context.Background(), "", 1); len(n) == 0 {
		if rs, _ := db.Runs(context.Background(), history.Filter{Limit: 1}); len(rs) == 0 {
			recordYear(b, db)
		}
	}
	conf := Config{Tool: "v1", Now: firstNight, page: func(w io.Writer, r *runfolder.Run) error { return nil }}
	b.Run("load and index", func(b *testing.B) {
		cpu(b, func() {
			d, err := Load(context.Background(), db, firstNight)
			if err != nil {
				b.Fatal(err)
			}
			if len(d.Nights) != 365 || len(d.Groups[0].Cells) != 200 {
				b.Fatalf("%d nights", len(d.Nights))
			}
			if err := d.index(io.Discard, Options{}); err != nil {
				b.Fatal(err)
			}
		})
	})
	dir := filepath.Join(b.TempDir(), "site")
	b.Run("cold", func(b *testing.B) {
		cpu(b, func() {
			os.RemoveAll(dir)
			conf.Dir = dir
			if _, err := Build(context.Background(), db, conf); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("nothing new", func(b *testing.B) {
		cpu(b, func() {
			res, err := Build(context.Background(), db, conf)
			if err != nil || res.Written != 0 {
				b.Fatalf("%+v %v", res, err)
			}
		})
	})
}

func recordYear(b *testing.B, db *history.DB) {
	d := made(365, 1, 200)
	g := d.Groups[0]
	for n := range d.Nights {
		at := firstNight.AddDate(0, 0, n)
		r := &runfolder.Run{ID: g.Columns[n].Run, Started: at, Ended: at.Add(time.Hour), Verdict: checks.Pass, Tree: runfolder.Tree{Spec: "t"}, Series: runfolder.Series{Title: "s"}, Plan: testplans.Plan{Name: "p"}}
		if r.ID == "" {
			r.ID = at.Format("20060102-150405") + "-x"
		}
		for _, c := range g.Cells {
			p := strings.Split(c.ID, "/")
			s := c.Squares[n]
			if s == nil {
				s = &history.Square{Verdict: checks.Pass}
			}
			cell := &runfolder.Cell{ID: c.ID, Spec: testplans.Cell{Kernel: p[0], Device: testplans.Device{Name: p[1]}, NFS: p[2][1:]}, Key: "k", Verdict: s.Verdict}
			a := runfolder.Attempt{Verdict: s.Verdict, Token: "x", Elapsed: time.Second, Started: at, Values: map[string]int64{}, Steps: []runfolder.CellStep{{Name: "w: write", Elapsed: s.Work}}}
			for _, x := range c.Counts {
				if !math.IsNaN(x.Values[n]) {
					a.Values[x.Name] = int64(x.Values[n])
				}
			}
			if s.Verdict != checks.Pass {
				cell.Findings = []checks.Finding{{ID: "contents.differ", Severity: checks.Error, Message: "m"}}
			}
			cell.Attempts = []runfolder.Attempt{a}
			r.Cells = append(r.Cells, cell)
		}
		if err := db.RecordIn(context.Background(), r, d.Nights[n]); err != nil {
			b.Fatal(err)
		}
	}
}
