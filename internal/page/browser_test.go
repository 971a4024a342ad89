// SPDX-License-Identifier: Apache-2.0

//go:build integration

package page

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"patchcheck/checks"
	"patchcheck/internal/browsertest"
	"patchcheck/internal/report"
	"patchcheck/internal/runfolder"
)

// badRun is the real run with all that a bad one can have: findings with and
// without source lines, each verdict, lost counts, a disagreement with the
// prediction, hostile text.
func badRun(t testing.TB) *runfolder.Run {
	r := realRun(t)
	tamper(t, r)
	r.Verdict, r.Reason = checks.Fail, "4 of 15 cells FAIL, patch 2 brings a new warning"
	r.Findings = []checks.Finding{
		{ID: "warning.new", Severity: checks.Error, Where: checks.Where{Patch: 2, File: "net/sunrpc/xprtrdma/svc_rdma_sendto.c", Line: 489, Col: 13},
			Message:  "unused variable 'unused' [-Wunused-variable]",
			Evidence: []string{"net/sunrpc/xprtrdma/svc_rdma_sendto.c:489:13: warning: unused variable 'unused' [-Wunused-variable]", "  489 |         int unused;", "      |             ^~~~~~"},
			Source:   &checks.Source{From: 486, Lines: []string{"static bool svc_rdma_send_is_inline(const struct svcxprt_rdma *rdma,", "\t\t\t\t    const struct svc_rdma_send_ctxt *ctxt)", "{", "\tint unused;", "", "\treturn ctxt->sc_wr_chain == &ctxt->sc_send_wr &&", "\t       ctxt->sc_send_wr.num_sge == 1 &&"}}},
		{ID: "series.cover-wanted", Severity: checks.Note, Message: nastyStrings[1] + nastyStrings[4], Fix: "git format-patch --cover-letter"},
		{ID: "trailer.fixes-short", Severity: checks.Warning, Where: checks.Where{Patch: 1}, Message: "the Fixes: tag has 8 digits, 12 are wanted", Evidence: []string{"Fixes: 01234567 (\"svcrdma: x\")"}, Fix: "write at least 12 digits"},
	}
	for i := range r.Builds {
		if r.Builds[i].Patch == 2 {
			r.Builds[i].New = 1
		}
	}
	hang := checks.Finding{ID: "guest.hang", Severity: checks.Error, Message: "mount did not finish within 42s", Fix: "the tasks' stacks are in the console log"}
	for i := range 40 {
		hang.Evidence = append(hang.Evidence, fmt.Sprintf("[   25.%06d] rpc_wait_bit_killable+0x%x/0x90", i, i))
	}
	for i, c := range r.Cells {
		if c.Spec.Kernel != "patched" {
			continue
		}
		v := []checks.Verdict{checks.Fail, checks.Fail, "", "", checks.BaseFails, checks.Unstable, checks.Infra, checks.Skip, "", "", "", ""}[i%12]
		if v == "" {
			continue
		}
		c.Verdict, c.Reason = v, "mount did not finish within 42s"
		f := hang
		f.Where.Cell = c.ID
		c.Findings = []checks.Finding{f}
		a := c.Attempts[0]
		b := a
		b.Verdict, b.Fresh = v, true
		b.Findings = c.Findings
		b.Steps = append([]runfolder.CellStep{}, a.Steps[:5]...)
		b.Steps[4].Error = "no answer"
		if v == checks.Infra {
			b.Invalid = true
		}
		a.Guest = "01-base"
		c.Attempts = []runfolder.Attempt{a, b}
	}
	return r
}

// file writes a page to a place of its own and gives its address.
func file(t testing.TB, r *runfolder.Run) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "page.html")
	html := render(t, r, Options{Rule: func(id string) (checks.Rule, bool) {
		return checks.Rule{ID: id, Title: "what is wrong, in one line", Source: "kernel document"}, id != "cell.skip"
	}})
	if err := os.WriteFile(name, []byte(html), 0o644); err != nil {
		t.Fatal(err)
	}
	return "file://" + name
}

// Each page is clean in each look: nothing on the console, no request, nothing
// wider than the window. Accessibility is judged where the looks differ for it,
// with evidence open: judging every rule on every node takes its time.
func TestBrowserLooks(t *testing.T) {
	b := browsertest.Start(t)
	for name, r := range map[string]*runfolder.Run{"pass": realRun(t), "bad": badRun(t)} {
		url := file(t, r)
		for _, x := range []struct {
			look string
			l    browsertest.Look
			axe  bool
		}{
			{"light", browsertest.Look{}, true},
			{"dark", browsertest.Look{Dark: true}, name == "bad"},
			{"phone", browsertest.Look{Width: 360, Height: 740}, name == "bad"},
			{"phone-dark", browsertest.Look{Width: 360, Height: 740, Dark: true}, false},
			{"print", browsertest.Look{Width: 800, Height: 1100, Print: true}, false},
		} {
			t.Run(name+"/"+x.look, func(t *testing.T) {
				p := b.Open(t, url, x.l)
				p.Shot(name + "-" + x.look)
				open := func(sel string) {
					browsertest.Eval[bool](p, fmt.Sprintf(`document.querySelectorAll(%q).forEach(d => { d.open = true; }), true`, sel))
				}
				open("article details, #counts details, #timings details, #patches details")
				for _, id := range []string{"patched-none-v3", "patched-intel-101-v3", "base-none-v3"} {
					open("#cell-" + id + ", #cell-" + id + " details")
				}
				if x.axe {
					p.Axe("details.cell:not([open])")
				}
				open("details")
				if w := browsertest.Eval[int](p, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); w > 0 {
					wide := browsertest.Eval[string](p, `Array.from(document.querySelectorAll('body *')).filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !e.closest('.scroll, pre')).slice(0, 3).map(e => e.tagName + '.' + e.className + ' ' + e.id).join('; ')`)
					t.Errorf("the page is %d px wider than the window: %s", w, wide)
				}
				p.Clean(func(u string) bool { return u == url })
			})
		}
	}
}

func visible(p *browsertest.Page, sel string) int {
	return browsertest.Eval[int](p, fmt.Sprintf(`Array.from(document.querySelectorAll(%q)).filter(e => e.checkVisibility()).length`, sel))
}

func TestBrowserFilter(t *testing.T) {
	b := browsertest.Start(t)
	url := file(t, badRun(t))
	p := b.Open(t, url, browsertest.Look{})
	findings, cells := visible(p, "article.finding"), visible(p, "details.cell")
	if findings < 6 || cells != 15 {
		t.Fatalf("%d findings and %d cells before any filter", findings, cells)
	}
	typed := func(text string) {
		browsertest.Eval[bool](p, `(q => { q.value = ''; q.focus(); return true; })(document.getElementById('q'))`)
		if text == "" {
			browsertest.Eval[bool](p, `document.getElementById('q').dispatchEvent(new Event('input'))`)
			return
		}
		p.Do(chromedp.KeyEvent(text))
	}
	typed("unused variable")
	if n := visible(p, "article.finding"); n != 1 {
		t.Errorf("%d findings fit \"unused variable\", want 1", n)
	}
	if n := visible(p, "details.cell"); n != 0 || visible(p, "#nocell") != 1 {
		t.Errorf("%d cells fit, and the page does not say that none does", n)
	}
	if s := browsertest.Eval[string](p, `document.getElementById('shown').textContent`); !strings.HasPrefix(s, "1 of ") {
		t.Errorf("the filter says %q", s)
	}
	typed("INTEL-216")
	if n, rows := visible(p, "details.cell"), visible(p, "#grid tbody tr"); n != 2 || rows != 1 {
		t.Errorf("intel-216: %d cells, %d rows of the matrix; want 2 and 1", n, rows)
	}
	typed("")
	if n := visible(p, "details.cell"); n != cells {
		t.Errorf("%d cells after the filter was cleared, want %d", n, cells)
	}
	p.Do(chromedp.Click("#kind-pass"))
	if n := visible(p, `details.cell[data-kind="PASS"]`); n != 0 {
		t.Errorf("%d passing cells are shown though they are switched off", n)
	}
	if n := visible(p, `details.cell[data-kind="FAIL"]`); n == 0 {
		t.Error("the failing cells went, too")
	}
	if n := browsertest.Eval[int](p, `document.querySelectorAll('#grid td.off').length`); n == 0 {
		t.Error("the matrix does not show which cells are filtered out")
	}
	// A filtered cell opens all the same when a link leads to it.
	browsertest.Eval[bool](p, `(location.hash = '#cell-base-none-v3', true)`)
	p.Do(chromedp.WaitVisible("#cell-base-none-v3 .body"))
	p.Clean(func(u string) bool { return u == url || strings.HasPrefix(u, url+"#") })
}

// The whole page can be walked with the keyboard, in order, and one always
// sees where one is.
func TestBrowserKeyboard(t *testing.T) {
	b := browsertest.Start(t)
	p := b.Open(t, file(t, badRun(t)), browsertest.Look{})
	const where = `(e => e === document.body ? 'body' : (e.id ? '#' + e.id : e.tagName.toLowerCase() + (e.closest('#grid') ? '@grid' : e.closest('nav') ? '@nav' : e.closest('article') ? '@finding' : e.closest('details.cell') ? '@cell' : '')))(document.activeElement)`
	const seen = `(e => { const s = getComputedStyle(e); return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 1; })(document.activeElement)`
	var path []string
	grid := 0
	for range 400 {
		p.Key(kb.Tab)
		at := browsertest.Eval[string](p, where)
		if at == "body" || len(path) > 1 && at == path[0] {
			break
		}
		if !browsertest.Eval[bool](p, seen) {
			t.Errorf("no focus is to be seen at %s", at)
		}
		if strings.HasSuffix(at, "@grid") {
			grid++
		}
		path = append(path, at)
	}
	if path[0] != "a" {
		t.Errorf("the first stop is %s, want the link that skips the head", path[0])
	}
	last := -1
	for _, want := range []string{"a@nav", "#theme", "#q", "summary@finding", "a@grid", "summary@cell", "button"} {
		i := -1
		for k, at := range path {
			if k > last && at == want {
				i = k
				break
			}
		}
		if i < 0 {
			t.Errorf("the Tab key never reaches %s after stop %d of %d: %s", want, last, len(path), strings.Join(path, " "))
			continue
		}
		last = i
	}
	if grid != 1 {
		t.Errorf("the matrix takes %d Tab stops, want 1: arrows move in it", grid)
	}
	// In the matrix: arrows, Home and End; Enter opens the evidence.
	browsertest.Eval[bool](p, `(document.querySelector('#grid td a[tabindex="0"]').focus(), true)`)
	cell := `document.activeElement.getAttribute('href')`
	for _, k := range []struct{ key, want string }{
		{kb.ArrowRight, "#cell-patched-none-v4-1"}, {kb.ArrowDown, "#cell-patched-intel-216-v4-1"}, {kb.ArrowLeft, "#cell-patched-intel-216-v3"}, {kb.ArrowLeft, "#cell-patched-intel-216-v3"},
		{kb.ArrowUp, "#cell-patched-none-v3"}, {kb.End, "#cell-base-none-v4-1"}, {kb.Home, "#cell-patched-none-v3"}, {kb.ArrowDown, "#cell-patched-intel-216-v3"},
	} {
		p.Key(k.key)
		if got := browsertest.Eval[string](p, cell); got != k.want {
			t.Errorf("at %s, want %s", got, k.want)
		}
	}
	p.Key(kb.Enter)
	p.Do(chromedp.WaitVisible("#cell-patched-intel-216-v3 .body"))
	if got := browsertest.Eval[string](p, `document.activeElement.closest('details').id`); got != "cell-patched-intel-216-v3" {
		t.Errorf("after Enter the focus is in %q", got)
	}
	p.Key(kb.Enter)
	if browsertest.Eval[bool](p, `document.getElementById('cell-patched-intel-216-v3').open`) {
		t.Error("Enter does not close the evidence again")
	}
	p.Clean(func(string) bool { return true })
}

func TestBrowserCopyThemeMotion(t *testing.T) {
	b := browsertest.Start(t)
	r := realRun(t)
	url := file(t, r)
	p := b.Open(t, url, browsertest.Look{CalmMotion: true})
	// Without the clipboard's permission the copy is done the old way; what was
	// copied is what is selected and sent to the copy event.
	browsertest.Eval[bool](p, `(window.got = '', document.addEventListener('copy', () => { window.got = String(document.activeElement.value || getSelection()); }), Object.defineProperty(navigator, 'clipboard', {value: undefined}), true)`)
	p.Do(chromedp.Click(`button[data-copy="covertext"]`))
	p.Do(chromedp.Sleep(150 * time.Millisecond))
	if got := browsertest.Eval[string](p, `window.got`); got != report.Build(r).Cover() {
		t.Errorf("copied:\n%s\nwant the text for the cover letter", got)
	}
	if got := browsertest.Eval[string](p, `document.querySelector('button[data-copy="covertext"]').textContent`); got != "Copied" {
		t.Errorf("the button says %q", got)
	}
	if got := browsertest.Eval[string](p, `document.getElementById('said').textContent`); got != "Copied" {
		t.Errorf("a screen reader hears %q", got)
	}
	bg := `getComputedStyle(document.body).backgroundColor`
	light := browsertest.Eval[string](p, bg)
	p.Do(chromedp.Click("#theme"), chromedp.Click("#theme"))
	if got := browsertest.Eval[string](p, `document.getElementById('theme').textContent`); got != "Theme: dark" {
		t.Errorf("the button says %q", got)
	}
	if dark := browsertest.Eval[string](p, bg); dark == light {
		t.Errorf("dark and light have the same background %s", dark)
	}
	if got := browsertest.Eval[string](p, `getComputedStyle(document.documentElement).scrollBehavior`); got != "auto" {
		t.Errorf("scrolling is %s for a reader who wants no motion", got)
	}
	p.Clean(func(u string) bool { return u == url })
}

// Without scripts everything is there but the filter and the copy buttons.
func TestBrowserWithoutScripts(t *testing.T) {
	b := browsertest.Start(t)
	url := file(t, badRun(t))
	p := b.Open(t, url, browsertest.Look{NoScripts: true})
	p.Shot("bad-noscript")
	if n := visible(p, "#filter") + visible(p, "button"); n != 0 {
		t.Errorf("%d controls are shown that do nothing without scripts", n)
	}
	if f, c := visible(p, "article.finding"), visible(p, "details.cell"); f < 6 || c != 15 {
		t.Errorf("%d findings and %d cells", f, c)
	}
	p.Do(chromedp.Click("#cell-patched-none-v3 > summary"), chromedp.WaitVisible("#cell-patched-none-v3 .body"))
	p.Clean(func(u string) bool { return u == url })
}

// The policy holds: what a hole in the escaping would do is blocked.
func TestBrowserPolicy(t *testing.T) {
	html := render(t, realRun(t), Options{})
	html = strings.Replace(html, "<main>", `<main><script>document.title = 'owned'</script><img src="http://127.0.0.1:9/x.png" onerror="document.title='owned'"><p style="color:red">x</p>`, 1)
	name := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(name, []byte(html), 0o644); err != nil {
		t.Fatal(err)
	}
	p := browsertest.Start(t).Open(t, "file://"+name, browsertest.Look{})
	if got := browsertest.Eval[string](p, `document.title`); strings.Contains(got, "owned") {
		t.Error("a script that is not the page's own ran")
	}
	if n := p.Blocked(); n < 3 {
		t.Errorf("%d violations of the policy were reported, want 3 (script, image, style)", n)
	}
}
