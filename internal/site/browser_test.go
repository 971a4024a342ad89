// SPDX-License-Identifier: Apache-2.0

//go:build integration

package site

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"patchcheck/checks"
	"patchcheck/internal/browsertest"
	"patchcheck/internal/history"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

// static writes the pages of d and gives the index' address.
func static(t testing.TB, d *Data) string {
	t.Helper()
	dir := t.TempDir()
	for _, sub := range []string{"cells", "runs"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Tool: "v1", Page: func(string) bool { return true }}
	var b bytes.Buffer
	if err := d.index(&b, o); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "index.html"), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, g := range d.Groups {
		for _, c := range g.Cells[:min(3, len(g.Cells))] {
			b.Reset()
			if err := d.cell(&b, g, c, o); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, cellPath(g.Target, c.ID)), b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range g.Columns[len(g.Columns)-1:] {
			if c.Run != "" {
				if err := os.WriteFile(filepath.Join(dir, runPath(c.Run)), []byte("<!doctype html><html lang=en><title>run "+c.Run+"</title><h1>run</h1>"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return "file://" + filepath.Join(dir, "index.html")
}

func local(url string) bool { return strings.HasPrefix(url, "file://") }

// year is an index as a maintainer would have it: with a nightly job, a failed
// fetch, culprits.
func year(t testing.TB, groups int) *Data {
	d := made(365, groups, 200)
	g := d.Groups[0]
	last := d.Nights[len(d.Nights)-1]
	d.Latest = Latest{Night: history.Night{ID: last, State: history.Done, Summary: "12 jobs: 10 known, 2 ran."}, Trees: []history.TreeState{{Tree: "nfsd-testing", State: history.TreeRewritten, Detail: "0123456789ab was replaced by ba9876543210"}}}
	for i, s := range []history.State{history.Done, history.Known, history.Conflict} {
		j := history.Job{Night: last, Target: g.Target, State: s}
		if i < 2 {
			j.Verdict, j.Run = checks.Fail, g.Columns[len(d.Nights)-1].Run
		} else {
			j.Detail = "patch 2 of 3 no longer applies"
		}
		d.Latest.Jobs = append(d.Latest.Jobs, j)
	}
	return d
}

// opened opens the page at url in a tab that is there already, and gives the
// time until it was drawn and its main thread's processor time, in ms: on a
// machine that does other things too, wall time says little.
func opened(t testing.TB, b *browsertest.Browser, empty, url string) (p *browsertest.Page, wall, processor float64) {
	t.Helper()
	p = b.Open(t, empty, browsertest.Look{})
	if _, err := chromedp.Call(p.Ctx, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}); err != nil {
		t.Fatal(err)
	}
	p.Do(chromedp.Navigate(url))
	// The first frame after the page's own script has run.
	wall = browsertest.Eval[float64](p, `new Promise(r => requestAnimationFrame(() => setTimeout(() => {
		const n = performance.getEntriesByType('navigation')[0];
		r(Math.max(n.loadEventEnd, n.domComplete));
	})))`)
	res, err := chromedp.Call(p.Ctx, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range res.Metrics {
		if m.Name == "ThreadTime" {
			processor = m.Value * 1000
		}
	}
	return p, wall, processor
}

// What it takes to open the index of a year; the goal is under a second. An
// empty page beside it says what the browser and the machine take.
func TestIndexOpens(t *testing.T) {
	b := browsertest.Start(t)
	empty := filepath.Join(t.TempDir(), "empty.html")
	if err := os.WriteFile(empty, []byte("<!doctype html><html lang=en><title>empty</title><p>empty"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first starts processes
		_, ms, cpu := opened(t, b, "file://"+empty, "file://"+empty)
		t.Logf("an empty page: open after %.0f ms, %.0f ms of processor", ms, cpu)
	}
	for _, groups := range []int{1, 20} {
		p, ms, cpu := opened(t, b, "file://"+empty, static(t, year(t, groups)))
		t.Logf("%d groups: open after %.0f ms, %.0f ms of processor, %d elements", groups, ms, cpu, browsertest.Eval[int](p, "document.querySelectorAll('*').length"))
		for _, v := range []string{"all", "30"} {
			ms := browsertest.Eval[float64](p, `new Promise(r => {
				const e = document.getElementById('range'), t = performance.now();
				document.getElementById('steady').checked = true;
				e.value = '`+v+`'; e.dispatchEvent(new Event('input', {bubbles: true}));
				requestAnimationFrame(() => setTimeout(() => r(performance.now() - t)));
			})`)
			t.Logf("%d groups: range %s drawn after %.0f ms", groups, v, ms)
		}
		p.Clean(local)
	}
}

func TestIndexInBrowser(t *testing.T) {
	b := browsertest.Start(t)
	for _, c := range []struct {
		name   string
		groups int
		look   browsertest.Look
	}{
		{"index-light", 1, browsertest.Look{}},
		{"index-dark", 1, browsertest.Look{Dark: true}},
		{"index-phone", 1, browsertest.Look{Width: 390, Height: 844}},
		{"index-phone-dark", 20, browsertest.Look{Width: 390, Height: 844, Dark: true}},
		{"index-noscript", 20, browsertest.Look{NoScripts: true}},
		{"index-groups", 20, browsertest.Look{}},
		{"index-print", 1, browsertest.Look{Print: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := b.Open(t, static(t, year(t, c.groups)), c.look)
			if !c.look.NoScripts {
				// As after scrolling: what was not laid out yet is neither in a
				// picture nor judged.
				browsertest.Eval[bool](p, "['nights', 'trends'].forEach(i => document.getElementById(i).style.contentVisibility = 'visible'), true")
			}
			p.Shot(c.name)
			if !c.look.NoScripts && !c.look.Print {
				p.Axe()
				if w := browsertest.Eval[int](p, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); w > 0 {
					t.Errorf("the page is %d px wider than the window", w)
				}
			}
			p.Clean(local)
		})
	}
	d := year(t, 1)
	url := static(t, d)
	cell := strings.TrimSuffix(url, "index.html") + cellPath(d.Groups[0].Target, d.Groups[0].Cells[0].ID)
	for name, look := range map[string]browsertest.Look{"cell-light": {}, "cell-dark": {Dark: true}, "cell-phone": {Width: 390, Height: 844}} {
		t.Run(name, func(t *testing.T) {
			p := b.Open(t, cell, look)
			p.Shot(name)
			p.Axe()
			if w := browsertest.Eval[int](p, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); w > 0 {
				t.Errorf("the page is %d px wider than the window", w)
			}
			p.Clean(local)
		})
	}
}

func TestIndexWorks(t *testing.T) {
	b := browsertest.Start(t)
	d := year(t, 2)
	p := b.Open(t, static(t, d), browsertest.Look{})
	visible := func() int {
		return browsertest.Eval[int](p, "Array.from(document.querySelectorAll('#grid tr.cell')).filter(e => e.offsetParent !== null).length")
	}
	set := func(id, value string) {
		browsertest.Eval[bool](p, `(() => { const e = document.getElementById('`+id+`'); if (e.type === 'checkbox') e.checked = `+map[bool]string{true: "true", false: "false"}[value == "on"]+`; else e.value = '`+value+`'; e.dispatchEvent(new Event('input', {bubbles: true})); return true; })()`)
	}
	steady := 0
	for _, g := range d.Groups {
		for _, c := range g.Cells {
			if d.row(g, c, window{len(d.Nights) - shownNights, shownNights}).Steady {
				steady++
			}
		}
	}
	if n := visible(); n != 200-steady || steady == 0 {
		t.Errorf("%d cells to be seen, want %d", n, 200-steady)
	}
	set("steady", "on")
	if n := visible(); n != 200 {
		t.Errorf("all: %d", n)
	}
	set("q", "device-24 v4.1")
	if n := visible(); n != 2 {
		t.Errorf("filter: %d", n)
	}
	set("target", "1")
	if n := visible(); n != 1 {
		t.Errorf("target: %d", n)
	}
	set("target", "")
	set("q", "")
	bad := 0
	for _, g := range d.Groups {
		for _, c := range g.Cells {
			if c.Now().Verdict != checks.Pass {
				bad++
			}
		}
	}
	set("verdict", "bad")
	if n := visible(); n != bad || bad == 0 {
		t.Errorf("not passing: %d, want %d", n, bad)
	}
	if s := browsertest.Eval[string](p, "document.getElementById('shown').textContent"); !strings.HasPrefix(s, itoa(bad)+" of 200") {
		t.Errorf("said %q", s)
	}
	set("verdict", "")
	set("range", "all")
	if box := browsertest.Eval[string](p, "document.querySelector('tr.cell svg').getAttribute('viewBox')"); box != "0 0 365 10" {
		t.Errorf("view box %s", box)
	}
	if s := browsertest.Eval[string](p, "document.querySelector('.from').textContent"); s != d.Nights[0] {
		t.Errorf("from %s", s)
	}
	// The keyboard: "/" goes to the filter, arrows over the cells.
	browsertest.Eval[bool](p, "document.body.focus(), true")
	p.Key("/")
	if s := browsertest.Eval[string](p, "document.activeElement.id"); s != "q" {
		t.Errorf("the slash leads to %q", s)
	}
	browsertest.Eval[bool](p, "document.querySelector('tr.cell:not([hidden]) th a').focus(), true")
	p.Key(kb.ArrowDown, kb.ArrowDown)
	if i := browsertest.Eval[int](p, "Array.from(document.querySelectorAll('tr.cell:not([hidden]) th a')).indexOf(document.activeElement)"); i != 2 {
		t.Errorf("two arrows lead to cell %d", i)
	}
	// Pointing names the night, a click opens its run.
	set("range", "30")
	browsertest.Eval[bool](p, `(() => { const s = document.querySelector('tr.cell:not([hidden]) svg'), r = s.getBoundingClientRect();
		s.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: r.right - 2, clientY: r.top + 3})); return true; })()`)
	if s := browsertest.Eval[string](p, "document.getElementById('tip').textContent"); !strings.HasPrefix(s, d.Nights[364]) {
		t.Errorf("the tip says %q", s)
	}
	p.Clean(local)
	p.Leave(`const s = document.querySelector('tr.cell:not([hidden]) svg'), r = s.getBoundingClientRect();
		s.dispatchEvent(new MouseEvent('click', {bubbles: true, clientX: r.right - 2, clientY: r.top + 3}))`)
	p.Wait("the run's page", fmt.Sprintf("document.title.includes('run %s')", d.Groups[0].Columns[364].Run))
}

func itoa(n int) string { return plural(n, "", "")[:len(plural(n, "", ""))-1] }

// The server's pages in a browser: its policy lets the pages work, and a
// running job is followed to its end.
func TestServedInBrowser(t *testing.T) {
	s, done := served(t)
	r, err := runfolder.Create(s.Runs, firstNight.AddDate(0, 0, 9), "now running")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.Series.Title = "svcrdma: <b>now</b> running"
	r.Plan.Axes = testplans.Axes{Device: []testplans.Device{{Name: "intel-216"}, {Name: "none"}}, NFS: []string{"3", "4.1"}}
	r.Plan.Kernels = map[string]testplans.Selection{"patched": {}}
	if err := r.Save(); err != nil {
		t.Fatal(err)
	}
	if err := r.BeginProgress(time.Now()); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(s.ServeHTTP))
	defer srv.Close()
	s.Hosts = HostsFor(strings.TrimPrefix(srv.URL, "http://"))
	ours := func(url string) bool { return strings.HasPrefix(url, srv.URL) }

	b := browsertest.Start(t)
	for _, path := range []string{"/", "/" + cellPath(s.mustLoad(t).Groups[0].Target, "patched/dev-1/v3"), "/runs/" + done.ID + ".html"} {
		p := b.Open(t, srv.URL+path, browsertest.Look{})
		p.Axe()
		p.Clean(ours)
	}
	p := b.Open(t, srv.URL+"/live/"+r.ID, browsertest.Look{})
	begun := time.Now().Add(-70 * time.Second)
	r.Progress(runfolder.Event{At: time.Now(), Kind: runfolder.EventStep, Step: "apply", Status: "ok", Detail: "exactly", Started: begun, Elapsed: 12 * time.Millisecond})
	r.Progress(runfolder.Event{At: time.Now(), Kind: runfolder.EventStep, Step: "build", Detail: "40%  net/sunrpc/xprtrdma/<svc>.o", Started: begun})
	p.Wait("a step", "document.getElementById('steps').innerText.includes('40%  net/sunrpc/xprtrdma/<svc>.o') || document.getElementById('steps').innerText.includes('40% net/sunrpc/xprtrdma/<svc>.o')")
	if n := browsertest.Eval[int](p, "document.getElementById('steps').rows.length"); n != 2 {
		t.Errorf("%d steps", n)
	}
	if err := r.SaveCell(&runfolder.Cell{ID: "patched/intel-216/v3", Verdict: checks.Fail, Reason: "contents differ"}); err != nil {
		t.Fatal(err)
	}
	p.Wait("a cell", "document.querySelector('[data-cell=\"patched/intel-216/v3\"]').innerText.includes('FAIL')")
	if v := browsertest.Eval[int](p, "document.getElementById('bar').value"); v != 1 {
		t.Errorf("the bar is at %d", v)
	}
	p.Shot("live")
	p.Axe()
	r.Verdict, r.Reason, r.Ended = checks.Fail, "1 of 4 cells FAIL", time.Now()
	if err := r.Save(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	p.Wait("the end", "document.getElementById('state').textContent === 'Ended: FAIL' && !document.getElementById('page').hidden")
	p.Shot("live-ended")
	p.Clean(ours)
	p.Leave("document.querySelector('#page a').click()")
	p.Wait("the run's page", "document.title.startsWith('FAIL')")
}
