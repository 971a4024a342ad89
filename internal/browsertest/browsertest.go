// SPDX-License-Identifier: Apache-2.0

// Package browsertest opens pages of ours in a real browser, for tests only:
// Chromium over its debugging protocol, with what a page may not do (console
// errors, requests to anywhere) recorded, and accessibility judged by
// axe-core. A missing Chromium or axe-core fails the test: a page that was not
// looked at has not passed. `make deps-test` brings both.
package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Environment variables.
const (
	// AxeVar names axe-core's axe.min.js.
	AxeVar = "PATCHCHECK_AXE"
	// ShotsVar names a folder for screenshots; without it none are kept.
	ShotsVar = "PATCHCHECK_SHOTS"
)

// limit ends a test whose browser hangs; it measures nothing.
const limit = 15 * time.Minute

// Browser is one running Chromium.
type Browser struct {
	ctx context.Context
}

// Start runs a Chromium that ends with the test.
func Start(t testing.TB) *Browser {
	t.Helper()
	path := ""
	for _, n := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(n); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Fatal("no Chromium on this machine, so the page cannot be looked at: run make deps-test (Debian: apt-get install chromium)")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WSURLReadTimeout(limit),
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-gpu", true))
	if os.Geteuid() == 0 {
		// Chromium's sandbox refuses root.
		opts = append(opts, chromedp.NoSandbox)
	}
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(func() { chromedp.Cancel(ctx); cancel(); stop() })
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("Chromium (%s) does not start: %v", path, err)
	}
	return &Browser{ctx}
}

// Look is how a page is looked at.
type Look struct {
	Width, Height int // of the window, px; 0 is 1200 x 900
	Dark          bool
	NoScripts     bool
	CalmMotion    bool // the reader wants no motion
	Print         bool // as on paper
}

// Page is an open page.
type Page struct {
	Ctx  context.Context
	t    testing.TB
	look Look

	mu     sync.Mutex
	said   []string
	asked  []string
	failed []string
}

// Open loads a page in a tab of its own.
func (b *Browser) Open(t testing.TB, url string, look Look) *Page {
	t.Helper()
	if look.Width == 0 {
		look.Width, look.Height = 1200, 900
	}
	ctx, cancel := chromedp.NewContext(b.ctx)
	ctx, stop := context.WithTimeout(ctx, limit)
	t.Cleanup(func() { stop(); cancel() })
	p := &Page{Ctx: ctx, t: t, look: look}
	if err := chromedp.Listen(ctx, p.listen); err != nil {
		t.Fatalf("cannot open a tab: %v", err)
	}
	scheme, motion, media := "light", "no-preference", ""
	if look.Dark {
		scheme = "dark"
	}
	if look.CalmMotion {
		motion = "reduce"
	}
	if look.Print {
		media = "print"
	}
	for _, enable := range []cdp.Command[cdp.Empty, cdp.Empty]{log.Enable, runtime.Enable} {
		call(p, enable, cdp.Empty{})
	}
	call(p, network.Enable, network.EnableParams{})
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: int64(look.Width), Height: int64(look.Height), DeviceScaleFactor: 1, Mobile: look.Width < 500})
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: media, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion}}})
	call(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: look.NoScripts})
	p.Do(chromedp.Navigate(url))
	return p
}

// call runs a command of the debugging protocol.
func call[P, R any](p *Page, cmd cdp.Command[P, R], params P) {
	p.t.Helper()
	if _, err := chromedp.Call(p.Ctx, cmd, params); err != nil {
		p.t.Fatalf("in the browser: %v", err)
	}
}

func (p *Page) listen(ev any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := ev.(type) {
	case *runtime.EventConsoleAPICalled:
		var words []string
		for _, a := range e.Args {
			words = append(words, string(a.Value))
		}
		p.said = append(p.said, fmt.Sprintf("console.%s: %s", e.Type, strings.Join(words, " ")))
	case *runtime.EventExceptionThrown:
		p.said = append(p.said, "exception: "+e.ExceptionDetails.Text+" "+describe(e.ExceptionDetails.Exception))
	case *log.EventEntryAdded:
		p.said = append(p.said, fmt.Sprintf("%s %s: %s", e.Entry.Source, e.Entry.Level, e.Entry.Text))
	case *network.EventRequestWillBeSent:
		p.asked = append(p.asked, e.Request.URL)
	case *network.EventLoadingFailed:
		// What the page gave up itself did not fail: an event source that it
		// closed at the end of the events, for one.
		if !e.Canceled || e.BlockedReason != "" {
			p.failed = append(p.failed, e.ErrorText)
		}
	}
}

// Do runs actions and ends the test when one fails.
func (p *Page) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.Ctx, actions...); err != nil {
		p.t.Fatalf("in the browser: %v", err)
	}
}

// Eval evaluates an expression, or the promise that it gives, in the page.
func Eval[T any](p *Page, expr string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.Ctx, chromedp.Evaluate[T](expr, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("in the browser, %.80s: %v", expr, err)
	}
	return v
}

// Wait waits until an expression is true, also when the page is being left for
// another one, in which nothing can be asked of either.
func (p *Page) Wait(what, expr string) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		ok, err := chromedp.Run(p.Ctx, chromedp.Evaluate[bool](expr))
		if err == nil && ok {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s: not seen within a minute (%v) in\n%s", what, err, Eval[string](p, "document.title + '\\n' + document.body.innerText"))
		}
	}
}

// Leave evaluates an expression that makes the browser go to another page.
// Doing so after the answer keeps the answer from going with the page.
func (p *Page) Leave(expr string) {
	p.t.Helper()
	Eval[bool](p, "setTimeout(() => { "+expr+" }), true")
}

// Clean fails the test when the page wrote anything to the console, or asked
// for anything else than what allowed permits (the page itself, data: URLs).
func (p *Page) Clean(allowed func(url string) bool) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.said {
		p.t.Errorf("the page said: %s", s)
	}
	for _, f := range p.failed {
		p.t.Errorf("the page failed to load something: %s", f)
	}
	if len(p.asked) == 0 {
		p.t.Error("no request was seen, not even for the page: nothing was recorded")
	}
	for _, u := range p.asked {
		if !allowed(u) && !strings.HasPrefix(u, "data:") {
			p.t.Errorf("the page asked for %s", u)
		}
	}
}

// Blocked counts what the page's security policy refused so far.
func (p *Page) Blocked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, s := range p.said {
		if strings.HasPrefix(s, "security ") {
			n++
		}
	}
	return n
}

// Shot keeps a picture of the whole page as NAME.png in the folder that
// ShotsVar names.
func (p *Page) Shot(name string) {
	p.t.Helper()
	dir := os.Getenv(ShotsVar)
	if dir == "" {
		return
	}
	png, err := chromedp.Run(p.Ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.t.Fatalf("no screenshot: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// Key presses and releases keys, each as the kb package names it.
func (p *Page) Key(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		p.Do(chromedp.KeyEvent(k))
	}
}

// Axe fails the test for each violation of WCAG 2.0, 2.1 and 2.2, levels A and
// AA, and of axe-core's best practices, in the page as it is shown now. Parts
// that match except (selectors) are left out: many of one kind say no more than
// one of them, and each node costs time.
func (p *Page) Axe(except ...string) {
	p.t.Helper()
	file := os.Getenv(AxeVar)
	if file == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			p.t.Fatal(err)
		}
		file = filepath.Join(cache, "patchcheck-test", "axe-core", "axe.min.js")
	}
	src, err := os.ReadFile(file)
	if err != nil {
		p.t.Fatalf("axe-core is not there, so accessibility cannot be judged: run make deps-test, or set %s to its axe.min.js: %v", AxeVar, err)
	}
	if Eval[string](p, string(src)+"; typeof axe.run") != "function" {
		p.t.Fatalf("%s is not axe-core", file)
	}
	skip, err := json.Marshal(append([]string{}, except...))
	if err != nil {
		p.t.Fatal(err)
	}
	out := Eval[string](p, `axe.run({include: [document], exclude: `+string(skip)+`}, {runOnly: {type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}, resultTypes: ['violations', 'passes']})
		.then(r => JSON.stringify({passes: r.passes.length, violations: r.violations.map(v => ({id: v.id, help: v.help, n: v.nodes.length, at: v.nodes.slice(0, 4).map(n => n.target.join(' ') + ': ' + n.failureSummary.replace(/\s+/g, ' '))}))}))`)
	var res struct {
		Passes     int
		Violations []struct {
			ID, Help string
			N        int
			At       []string
		}
	}
	if err := json.Unmarshal([]byte(out), &res); err != nil {
		p.t.Fatalf("axe-core's answer: %v", err)
	}
	if res.Passes < 10 {
		p.t.Errorf("axe-core applied only %d rules: it did not see the page", res.Passes)
	}
	for _, v := range res.Violations {
		p.t.Errorf("accessibility, %s: %s (%d places)\n  %s", v.ID, v.Help, v.N, strings.Join(v.At, "\n  "))
	}
}

func describe(o *runtime.RemoteObject) string {
	if o == nil {
		return ""
	}
	return o.Description
}
