// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/checks/counts"
	"patchcheck/internal/guestproto"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

// runs is for looking at and checking real runs beside the one in testdata.
var runs = flag.String("runs", "", "also render all run folders in this folder")

// realRun is a run of the bundled series, made by patchcheck run and trimmed.
func realRun(t testing.TB) *runfolder.Run {
	t.Helper()
	r, err := runfolder.Open(filepath.Join("testdata", "run"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func render(t testing.TB, r *runfolder.Run, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

type element struct {
	name string
	attr map[string]string
}

// elements parses a page, whose markup is well-formed but for its void
// elements, and fails when it is not.
func elements(t testing.TB, html string) []element {
	t.Helper()
	for _, tag := range []string{"script", "style"} {
		a, b := strings.Index(html, "<"+tag+">"), strings.Index(html, "</"+tag+">")
		html = html[:a+len(tag)+2] + html[b:]
	}
	dec := xml.NewDecoder(strings.NewReader(html))
	dec.Strict = false
	dec.AutoClose = xml.HTMLAutoClose
	dec.Entity = xml.HTMLEntity
	var out []element
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
		if s, ok := tok.(xml.StartElement); ok {
			e := element{s.Name.Local, map[string]string{}}
			for _, a := range s.Attr {
				e.attr[a.Name.Local] = a.Value
			}
			out = append(out, e)
		}
	}
}

// wellMade checks what holds for every page, whatever is in it.
func wellMade(t testing.TB, html string) {
	t.Helper()
	ids := map[string]int{}
	h1, last := 0, 1
	els := elements(t, html)
	for _, e := range els {
		if id, ok := e.attr["id"]; ok {
			ids[id]++
		}
		for k, v := range e.attr {
			if strings.HasPrefix(k, "on") || k == "style" || k == "src" || k == "srcset" || k == "action" {
				t.Errorf("<%s> has %s=%q: nothing may run, load or be styled outside of the hashed blocks", e.name, k, v)
			}
			if k == "href" && !strings.HasPrefix(v, "#") && v != "data:," {
				t.Errorf("<%s> leads out of the page: %s", e.name, v)
			}
		}
		switch e.name {
		case "h1", "h2", "h3", "h4":
			level := int(e.name[1] - '0')
			if level == 1 {
				h1++
			}
			if level > last+1 {
				t.Errorf("<%s> follows a heading of level %d", e.name, last)
			}
			last = level
		case "iframe", "object", "embed", "img", "video", "audio", "base":
			t.Errorf("the page has a <%s>", e.name)
		case "link":
			if e.attr["href"] != "data:," {
				t.Errorf("the page links %v", e.attr)
			}
		}
	}
	if h1 != 1 {
		t.Errorf("%d h1 headings", h1)
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("the id %q is used %d times", id, n)
		}
	}
	for _, e := range els {
		for _, k := range []string{"href", "aria-labelledby", "for", "data-copy", "data-cell"} {
			for _, ref := range strings.Fields(e.attr[k]) {
				if ref = strings.TrimPrefix(ref, "#"); ref != "data:," && ids[ref] == 0 {
					t.Errorf("<%s %s> names %q, which is not in the page", e.name, k, ref)
				}
			}
		}
	}
	if regexp.MustCompile(`(?i)(src|href)\s*=\s*["']?(https?:)?//|url\([^#]|@import`).MatchString(html) {
		t.Error("the page names an outside resource")
	}
	// The policy allows exactly the style and the script that are there.
	for _, tag := range []string{"style", "script"} {
		if n := strings.Count(html, "<"+tag); n != 1 {
			t.Errorf("%d <%s> elements", n, tag)
		}
		_, rest, _ := strings.Cut(html, "<"+tag+">")
		text, _, _ := strings.Cut(rest, "</"+tag+">")
		h := sha256.Sum256([]byte(text))
		want := tag + "-src &#39;sha256-" + strings.ReplaceAll(base64.StdEncoding.EncodeToString(h[:]), "+", "&#43;") + "&#39;"
		if !strings.Contains(html, want) {
			t.Errorf("the policy does not have %s", want)
		}
	}
	if !strings.Contains(html, "default-src &#39;none&#39;") {
		t.Error("the policy does not forbid everything else")
	}
}

func TestRealRun(t *testing.T) {
	r := realRun(t)
	html := render(t, r, Options{})
	wellMade(t, html)
	// Verdict first, then findings, then the rest in this order.
	at := 0
	for _, s := range []string{"PASS</span> svcrdma: Post small Replies inline</h1>", "Each of the 2 patches builds without new warnings; 13 cells of the patched kernel pass",
		`id="h-findings"`, "Nothing was found.", `id="h-matrix"`, `href="#cell-patched-intel-216-v4-1"`, "2952 / 2974", `id="cell-patched-none-v3"`, "too_long_inline == 0",
		"patchcheck: cell patched/none/v3", "Command: start the guest", "qemu-system-x86_64 ", "patchcheck run --fresh --device none --nfs 3",
		"Sends inline and by reference per device", "Replies that would go inline at each limit from 0 to 1024 bytes", "agree in all 11 cells (not counting 2 cells that the prediction comes from)",
		`id="h-timings"`, "Steps of the run", `id="h-patches"`, "1. svcrdma: Ask for inline data when creating a QP", `id="covertext"`, "Tested with patchcheck on linux 7.3.4",
		`id="h-environment"`, "AMD EPYC", "nfs-kernel-server", `id="h-notrun"`, "real RDMA hardware"} {
		i := strings.Index(html[at:], s)
		if i < 0 {
			t.Fatalf("the page lacks %q, or has it in another place", s)
		}
		at += i
	}
	if again := render(t, realRun(t), Options{}); again != html {
		t.Error("the same run folder gives another page")
	}
}

// The prediction from sizes and the counts of the cells agree on a real run;
// where a cell is made to disagree, the page says so as a finding.
func TestPredictionOfRealRun(t *testing.T) {
	r := realRun(t)
	res := Predict(r)
	if len(res.Curves) != 2 || len(res.Measured) != 13 || len(res.Findings) != 0 {
		t.Fatalf("%d curves, %d measured, findings %v (%s)", len(res.Curves), len(res.Measured), res.Findings, res.Missing)
	}
	for _, m := range res.Measured {
		if !m.Agrees {
			t.Errorf("%s: %d to %d predicted, %d measured", m.Cell, m.Low, m.High, m.Value)
		}
	}
	// The base kernel's Sends are the same in number: the series adds none.
	for _, c := range r.Cells {
		if c.Spec.Kernel == testplans.RoleBase {
			for _, curve := range res.Curves {
				if curve.NFS == c.Spec.NFS && curve.Total != c.Last().Values["all"] {
					t.Errorf("NFSv%s: %d Sends, %d on the base kernel", curve.NFS, curve.Total, c.Last().Values["all"])
				}
			}
		}
	}
	tamper(t, r)
	html := render(t, r, Options{})
	wellMade(t, html)
	for _, want := range []string{"prediction and measurement differ at 216 bytes: 2952 predicted from the sizes in patched/none/v4.1, 2749 measured", "prediction.differs", "differ in 1 of 11 cells: see the findings", ">patched/intel-216/v4.1</text>", "patched/intel-216/v4.1 (does not fit)"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// tamper makes a cell look as if the series compared with "<" instead of "<=".
func tamper(t testing.TB, r *runfolder.Run) {
	t.Helper()
	for _, c := range r.Cells {
		if c.ID != "patched/intel-216/v4.1" {
			continue
		}
		a := c.Last()
		for i, row := range a.Hists["sends"].Rows {
			if row.Keys["len"] == "216" {
				a.Hists["sends"].Rows[i].Keys["flags"] = "2"
				a.Values["inline"] -= row.Hits
				a.Values["by_reference"] += row.Hits
			}
		}
		return
	}
	t.Fatal("no such cell")
}

// What the page says of a condition is what checks/counts judged.
func TestConditionsAgreeWithJudge(t *testing.T) {
	r := realRun(t)
	n := 0
	for _, c := range r.Cells {
		a := c.Last()
		for _, change := range []func(map[string]guestproto.Hist){func(map[string]guestproto.Hist) {}, func(h map[string]guestproto.Hist) {
			s := h["sends"]
			s.Rows = slices.Clone(s.Rows)
			s.Rows[0].Keys = map[string]string{"flags": "8", "granted": "300", "len": "4000"}
			h["sends"] = s
		}} {
			hists := map[string]guestproto.Hist{}
			for k, h := range a.Hists {
				hists[k] = h
			}
			change(hists)
			sum := counts.Sum(hists, a.Rest)
			absent := r.Kernels[c.Spec.Kernel].Absent
			judged := counts.Evaluate(&r.Plan, c.Spec, sum, absent)
			values := counts.Values(&r.Plan, c.Spec, sum, absent)
			for _, h := range r.Plan.Hold {
				if h.On != "" && h.On != c.Spec.Kernel {
					continue
				}
				got := holdOf(h, c.Spec, values).State
				want := "holds"
				for _, f := range judged.Findings {
					if strings.HasPrefix(f.Message, h.ID+":") {
						want = map[string]string{"count.hold": "fails", "count.value": "cannot be told"}[f.ID]
					}
				}
				if got == "does not apply" {
					got = "holds"
				}
				if got != want {
					t.Errorf("%s, %s: the page says %q, the judge %q", c.ID, h.ID, got, want)
				}
				n++
			}
		}
	}
	if n < 200 {
		t.Errorf("only %d conditions compared", n)
	}
}

// nastyStrings are what a mail, a console or a guest may try.
var nastyStrings = []string{
	`</title></style></script><script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	`' onmouseover='alert(1)`,
	"{{.Run}} ${1} javascript:alert(1)",
	"\x1b[31mred\x1b[0m \x00\x07\x08 \u202eevil\u202c \ufeff \xff\xfe",
	"]]> <!-- --!> <![CDATA[ &lt; &#x3c;script&#x3e; \u2028 \u2029",
}

// nastyRun has them in every string that does not come from us.
func nastyRun(t testing.TB, n string) *runfolder.Run {
	t.Helper()
	r, err := runfolder.Create(t.TempDir(), time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), "nasty")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	p, err := testplans.Load("svcrdma-inline")
	if err != nil {
		t.Fatal(err)
	}
	p.Axes.Device = p.Axes.Device[:3]
	for i := range p.Axes.Device {
		p.Axes.Device[i].Name = fmt.Sprintf("%s%d", n, i)
		p.Axes.Device[i].Label = map[string]string{"vendor": n, "limit": n}
		p.Axes.Device[i].Aside = n
	}
	p.Kernels = map[string]testplans.Selection{"patched": {}, "base": {}}
	p.Axes.NFS = []string{"3", n}
	p.About, p.NotTested, p.Name = n, []string{n}, n
	p.Table.Columns[3].Head = n
	p.Predict.About = n
	for i := range p.Hold {
		p.Hold[i].ID, p.Hold[i].Why = n, n
	}
	r.Plan = *p
	r.Command = []string{"patchcheck", "run", n}
	r.Tool, r.Sandbox, r.Reason, r.NotRun, r.Notes = n, n, n, []string{n}, []string{n}
	r.Series = runfolder.Series{Title: n, ID: n, Sources: []string{n}, Patches: []runfolder.Patch{{Index: 1, Subject: n, Author: n}}}
	r.Tree = runfolder.Tree{Spec: n, Version: n, Commit: n, Exact: n}
	r.Companions = r.Series.Patches
	r.Host.OS, r.Host.CPU = n, n
	r.Tools[n] = n
	r.Accel = runfolder.Accel{Name: n, Reason: n}
	r.Kernels["patched"] = runfolder.Kernel{Release: n, Compiler: n, Config: n, Absent: []string{n}}
	r.Image = runfolder.Image{Key: n, Packages: map[string]string{n: n}}
	f := checks.Finding{ID: n, Severity: checks.Error, Message: n, Where: checks.Where{Patch: 1, File: n, Line: 2, Cell: n}, Evidence: []string{n, n}, Fix: n, Source: &checks.Source{From: 1, Lines: []string{n, n, n}}}
	r.Findings = []checks.Finding{f, {ID: n, Severity: checks.Severity(n), Message: n}}
	r.Apply = []runfolder.Apply{{Patch: 1, Class: n, Lines: []string{n}, Text: n}}
	r.Builds = []runfolder.Build{{Patch: 0, OK: true}, {Patch: 1, Log: n}}
	r.Steps = []runfolder.Step{{Name: n, Status: n, Detail: n}}
	r.Verdict = checks.Fail
	guest := "01-patched"
	if err := os.MkdirAll(r.Path("console", guest), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"console.log": n + "\r\n" + n, "qemu.cmd": n} {
		if err := os.WriteFile(r.Path("console", guest, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(r.Path("commands.sh"), []byte("# patched kernel\n"+n+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for i, c := range p.Cells() {
		h := map[string]guestproto.Hist{n: {Rows: []guestproto.HistRow{{Keys: map[string]string{n: n}, Hits: 1}}, Hits: 1}, "sends": {Rows: []guestproto.HistRow{{Keys: map[string]string{"len": n, "flags": n}, Hits: 1}}, Hits: 1}}
		v := []checks.Verdict{checks.Fail, checks.Infra, checks.Unstable, checks.Skip, checks.BaseFails, checks.Verdict(n), ""}[i%7]
		a := runfolder.Attempt{Guest: guest, Kernel: n, Accel: n, Verdict: v, Mounted: n, Token: n, Steps: []runfolder.CellStep{{Name: n, Error: n}}, Hists: h, Values: map[string]int64{n: 1, "inline": 3, "granted": 5}, Findings: []checks.Finding{f}}
		r.Cells = append(r.Cells, &runfolder.Cell{ID: c.ID(), Spec: c, Verdict: v, Reason: n, Findings: []checks.Finding{f}, Attempts: []runfolder.Attempt{a, a}, Reused: n})
	}
	return r
}

func TestUntrustedText(t *testing.T) {
	rule := func(string) (checks.Rule, bool) { return checks.Rule{}, false }
	for _, n := range nastyStrings {
		html := render(t, nastyRun(t, n), Options{Rule: rule})
		wellMade(t, html)
		for _, e := range elements(t, html) {
			switch e.name {
			case "html", "head", "meta", "link", "title", "style", "script", "body", "a", "header", "p", "code", "h1", "h2", "h3", "h4", "span", "nav", "ul", "li", "button", "main", "dl", "div", "dt", "dd",
				"form", "label", "input", "fieldset", "legend", "output", "section", "article", "details", "summary", "pre", "b", "table", "caption", "thead", "tbody", "tr", "th", "td", "small", "footer",
				"figure", "figcaption", "svg", "desc", "rect", "line", "text", "path", "circle", "polygon", "defs", "pattern":
			default:
				t.Errorf("%q made a <%s>", n, e.name)
			}
		}
		for _, bad := range []string{"\x1b", "\x00", "\x07", "\x08", "\u202e", "\u202c", "\ufeff", "\u2028", "\xff"} {
			if strings.Contains(html, bad) {
				t.Errorf("%q is in the page as it came", bad)
			}
		}
	}
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *runfolder.Run)
		want   []string
	}{
		{"unfinished", func(r *runfolder.Run) { r.Verdict, r.Cells = "", nil }, []string{"UNFINISHED", "The run did not finish"}},
		{"build only", func(r *runfolder.Run) { r.Cells = nil }, []string{"Nothing was booted.", "boot and workload (build only)"}},
		{"fail", func(r *runfolder.Run) {
			r.Verdict, r.Reason = checks.Fail, "2 of 15 cells FAIL"
			for _, c := range r.Cells[:2] {
				c.Verdict, c.Reason = checks.Fail, "mount did not finish"
				c.Findings = []checks.Finding{{ID: "guest.hang", Severity: checks.Error, Message: "mount did not finish within 42s", Where: checks.Where{Cell: c.ID}, Evidence: []string{"task nfsd"}, Fix: "look at the stacks"}}
				a := c.Attempts[0]
				a.Guest, a.Fresh = "03-base", true
				c.Attempts = append([]runfolder.Attempt{a}, c.Attempts...)
			}
		}, []string{"2 of 15 cells FAIL: mount did not finish within 42s (patched/none/v3).", "mount did not finish within 42s", "guest.hang", "task nfsd", "What to do:</b> look at the stacks", `Seen in <a href="#cell-patched-none-v3">patched/none/v3</a>, <a href="#cell-patched-none-v4-1">patched/none/v4.1</a>`,
			"Attempt 1 of 2, alone in a fresh guest, on the base kernel", "patchcheck explain guest.hang", "the plan says"}},
		{"invalid counts", func(r *runfolder.Run) {
			r.Verdict = checks.Infra
			r.Cells[0].Verdict = checks.Infra
			r.Cells[0].Attempts[0].Invalid = true
		}, []string{"1 of 15 cells did not pass: the cell did not pass and recorded no reason (patched/none/v3).", "INVALID", "the cell did not pass and recorded no reason", "1 of 2 cells"}},
		{"no reason", func(r *runfolder.Run) { r.Verdict, r.Cells = checks.Skip, nil }, []string{"The run recorded no reason."}},
	} {
		r := realRun(t)
		c.change(r)
		html := render(t, r, Options{Rule: func(id string) (checks.Rule, bool) {
			return checks.Rule{ID: id, Title: "a title", Source: "the plan says"}, id == "guest.hang"
		}})
		wellMade(t, html)
		for _, w := range c.want {
			if !strings.Contains(html, w) {
				t.Errorf("%s: the page lacks %q", c.name, w)
			}
		}
	}
}

// A warning is shown in its source: from the run's own record, else from the
// patch, else not at all.
func TestSource(t *testing.T) {
	r, err := runfolder.Create(t.TempDir(), time.Now(), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	diffText := "diff --git a/a.c b/a.c\n--- a/a.c\n+++ b/a.c\n@@ -10,3 +10,4 @@ int f(void)\n one\n-two\n+TWO\n+new\n three\n"
	if err := os.WriteFile(r.Path("series", "0001.diff"), []byte(diffText), 0o644); err != nil {
		t.Fatal(err)
	}
	f := checks.Finding{Where: checks.Where{Patch: 1, File: "a.c", Line: 12}}
	s := sourceOf(r, f)
	want := []sourceLine{{10, "", "one", false}, {11, "+", "TWO", false}, {12, "+", "new", true}, {13, "", "three", false}}
	if s == nil || !slices.Equal(s.Lines, want) {
		t.Errorf("from the patch: %+v, want %+v", s, want)
	}
	f.Source = &checks.Source{From: 11, Lines: []string{"a", "b"}}
	if s := sourceOf(r, f); s == nil || !slices.Equal(s.Lines, []sourceLine{{11, "", "a", false}, {12, "", "b", true}}) {
		t.Errorf("from the record: %+v", s)
	}
	for _, w := range []checks.Where{{}, {Patch: 1, File: "a.c"}, {Patch: 1, File: "a.c", Line: 99}, {Patch: 2, File: "a.c", Line: 12}, {File: "a.c", Line: 12}, {Patch: 1, File: "b.c", Line: 12}} {
		if s := sourceOf(r, checks.Finding{Where: w}); s != nil {
			t.Errorf("%v: %+v, want nothing", w, s)
		}
	}
}

func TestConsoleCut(t *testing.T) {
	text := "boot\n[1] patchcheck: cell patched/a/v4\none\ntwo\n[2] patchcheck: cell patched/a/v4.1\nthree\nfour\nfive\n"
	for _, c := range []struct {
		id            string
		n             int
		want          string
		omitted       int
		whole         bool
		alternateText string
	}{
		{"patched/a/v4", 10, "[1] patchcheck: cell patched/a/v4\none\ntwo", 0, false, ""},
		{"patched/a/v4.1", 10, "[2] patchcheck: cell patched/a/v4.1\nthree\nfour\nfive", 0, false, ""},
		{"patched/a/v4.1", 2, "four\nfive", 2, false, ""},
		{"patched/b/v3", 2, "four\nfive", 6, true, ""},
		{"x", 5, "boot\\x1b[0m", 0, true, "boot\x1b[0m\n"},
	} {
		in := text
		if c.alternateText != "" {
			in = c.alternateText
		}
		got := cut(in, c.id, c.n)
		if got.Text != c.want || got.Omitted != c.omitted || got.Whole != c.whole {
			t.Errorf("%s, %d lines: %+v, want %q", c.id, c.n, got, c.want)
		}
	}
}

func TestRerun(t *testing.T) {
	c := &runfolder.Cell{Spec: testplans.Cell{Kernel: "patched", Device: testplans.Device{Name: "intel-216"}, NFS: "4.1"}}
	for _, x := range []struct {
		command []string
		want    string
	}{
		{nil, "patchcheck run --fresh --device intel-216 --nfs 4.1"},
		{[]string{"/home/dev/bin/patchcheck"}, "patchcheck run --fresh --device intel-216 --nfs 4.1"},
		{[]string{"pc", "run", "--device", "a,b", "--nfs=3", "--fresh", "--tree", "/home/dev/my linux", "0001-it's.patch"}, `patchcheck run --tree '/home/dev/my linux' '0001-it'\''s.patch' --fresh --device intel-216 --nfs 4.1`},
	} {
		if got := rerun(&runfolder.Run{Command: x.command}, c); got != x.want {
			t.Errorf("%q: %s, want %s", x.command, got, x.want)
		}
	}
}

func TestWriteFile(t *testing.T) {
	r := nastyRun(t, "plain")
	if err := WriteFile(r, Options{}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(r.Path(Name))
	if err != nil || !bytes.HasPrefix(b, []byte("<!doctype html>")) {
		t.Errorf("%v: %.40q", err, b)
	}
}

// TestAllRuns renders real run folders: go test ./internal/page -runs DIR.
func TestAllRuns(t *testing.T) {
	if *runs == "" {
		t.Skip("no -runs given")
	}
	names, err := filepath.Glob(filepath.Join(*runs, "*", "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		r, err := runfolder.Open(filepath.Dir(n))
		if err != nil {
			t.Logf("%v", err)
			continue
		}
		html := render(t, r, Options{})
		wellMade(t, html)
		res := Predict(r)
		t.Logf("%s: %s, %d KiB, %d measured, %d findings of the prediction", r.ID, r.Verdict, len(html)>>10, len(res.Measured), len(res.Findings))
		for _, f := range res.Findings {
			t.Logf("  %s", f.Message)
		}
	}
}

func BenchmarkPage(b *testing.B) {
	r := realRun(b)
	for b.Loop() {
		if err := Write(io.Discard, r, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
