// SPDX-License-Identifier: Apache-2.0

// Package page renders a run as one HTML page that needs nothing else: styles,
// script and figures are inside, and a content security policy forbids it to
// load or send anything. It reads a run folder and nothing else, and takes
// every sentence and number from where the other reports take them
// (internal/report), so that the page cannot say anything else than they do.
//
// All text of series, consoles and guests is untrusted: it reaches the page
// only through html/template's contextual escaping, after control characters
// and direction marks were made visible.
//
// The page works without scripts; with them it also filters, copies, switches
// the theme, and moves through the matrix by arrow keys.
package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/plot"
	"patchcheck/internal/report"
	"patchcheck/internal/runfolder"
	"patchcheck/patches/mail"
	"patchcheck/testplans"
)

// Name is the page's file in a run folder.
const Name = "page.html"

//go:embed page.tmpl
var tmplText string

//go:embed page.css
var cssText string

//go:embed page.js
var jsText string

// Options of a page.
type Options struct {
	// Rule finds a finding's rule, for its title and source; nil shows the
	// finding's own words only.
	Rule func(id string) (checks.Rule, bool)
}

// Write renders the run.
func Write(w io.Writer, r *runfolder.Run, o Options) error {
	p := build(r, o)
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return fmt.Errorf("cannot render run %s: %w", r.ID, err)
	}
	// A safety net over all fields: a control character or direction mark that
	// came through unseen becomes visible here.
	_, err := io.WriteString(w, clean(b.String()))
	return err
}

// WriteFile puts the page of a run into its folder, as a whole or not at all.
func WriteFile(r *runfolder.Run, o Options) error {
	var b bytes.Buffer
	if err := Write(&b, r, o); err != nil {
		return err
	}
	return r.WriteFile(b.Bytes(), Name)
}

// view is what the template sees.
type view struct {
	CSS     template.CSS
	JS      template.JS
	CSP     string
	Run     *runfolder.Run
	Report  *report.Report
	Verdict verdict
	Why     string
	Facts   []fact
	Findings
	Grid     grid
	Cells    []*cell
	Counts   []template.HTML
	Predict  *predicted
	Timings  []template.HTML
	Patches  []patch
	Cover    string
	Env      []fact
	Packages []fact
	Guests   []guest
	NotRun   []string
}

// fact is a label with its text.
type fact struct{ Label, Text string }

// verdict is a verdict as it is shown: never by colour alone.
type verdict struct {
	Word  string
	Sign  string
	Class string
}

func verdictOf(v checks.Verdict) verdict {
	out := verdict{Word: string(v), Sign: v.Sign(), Class: strings.ToLower(string(v))}
	if out.Sign == "" {
		out = verdict{Word: "UNFINISHED", Sign: "…", Class: "skip"}
		if v != "" {
			out.Word = string(v)
		}
	}
	return out
}

func build(r *runfolder.Run, o Options) *view {
	css := cssText + plot.CSS
	rep := report.Build(r)
	v := &view{
		CSS:     template.CSS(css),
		JS:      template.JS(jsText),
		CSP:     Policy(css, jsText, ""),
		Run:     r,
		Report:  rep,
		Verdict: verdictOf(r.Verdict),
		Why:     why(r),
		Cover:   mail.Printable(rep.Cover()),
	}
	for _, l := range rep.Lines {
		v.Facts = append(v.Facts, fact{l.Label, clean(l.Text)})
	}
	for _, l := range rep.Below {
		if l.Label != "not run" {
			v.Facts = append(v.Facts, fact{l.Label, clean(l.Text)})
		}
	}
	v.NotRun = report.NotRun(r)
	cmds := recordedCommands(r)
	consoles := map[string]string{}
	ids := map[string]bool{}
	for _, c := range r.Cells {
		v.Cells = append(v.Cells, cellOf(r, c, cmds, consoles, ids))
	}
	v.Grid = gridOf(r, v.Cells)
	v.Predict = predict(r)
	v.Findings = findings(r, rep, v, o)
	v.Why = withFirst(v.Why, v.Findings.List, r.Verdict)
	v.Counts = countFigures(r)
	v.Timings = timingFigures(r)
	v.Patches = patchRows(r)
	v.Env, v.Packages = environment(r)
	v.Guests = guests(r, cmds)
	return v
}

// Policy is the content security policy of a page that has one style and one
// script inside and loads nothing. more are further directives, each with a
// semicolon before it.
func Policy(style, script, more string) string {
	sum := func(s string) string {
		h := sha256.Sum256([]byte(s))
		return "sha256-" + base64.StdEncoding.EncodeToString(h[:])
	}
	return fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; img-src data:; base-uri 'none'; form-action 'none'%s", sum(style), sum(script), more)
}

// clean makes what cannot be seen visible. Escaping is the template's.
func clean(s string) string { return mail.Printable(s) }

// why is the verdict's reason in a sentence.
func why(r *runfolder.Run) string {
	if r.Reason != "" {
		return sentence(clean(r.Reason))
	}
	patched, base := 0, 0
	for _, c := range r.Cells {
		if c.Spec.Kernel == testplans.RolePatched {
			patched++
		} else {
			base++
		}
	}
	patches := "The patch builds"
	if n := len(r.Series.Patches); n > 1 {
		patches = fmt.Sprintf("Each of the %d patches builds", n)
	}
	switch {
	case r.Verdict == checks.Pass && patched > 0:
		return fmt.Sprintf("%s without new warnings; %s of the patched kernel %s, with equal contents on both sides and a clean console.", patches, plural(patched, "cell", "cells"), map[bool]string{true: "passes", false: "pass"}[patched == 1])
	case r.Verdict == checks.Pass && len(r.Builds) > 0:
		return patches + " without new warnings. Nothing was booted."
	case r.Verdict == checks.Pass:
		return "Nothing was found."
	case r.Verdict == "":
		return "The run did not finish: it still runs, or it was interrupted."
	}
	bad := 0
	for _, c := range r.Cells {
		if c.Verdict != checks.Pass {
			bad++
		}
	}
	if bad > 0 {
		return fmt.Sprintf("%d of %s did not pass.", bad, plural(len(r.Cells), "cell", "cells"))
	}
	return "The run recorded no reason."
}

// withFirst adds to a reason that only counts what the most severe finding is,
// so that the verdict is told with its cause.
func withFirst(why string, list []finding, v checks.Verdict) string {
	if v == checks.Pass || v == "" || len(list) == 0 || list[0].Severity == string(checks.Note) {
		return why
	}
	f := list[0]
	if strings.Contains(why, f.Message) {
		return why
	}
	out := strings.TrimSuffix(why, ".") + ": " + f.Message
	if f.Where != "" && !strings.Contains(f.Message, f.Where) {
		out += " (" + f.Where + ")"
	}
	return sentence(out)
}

// sentence ends s with a full stop.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s != "" && !strings.ContainsAny(s[len(s)-1:], ".!?:") {
		s += "."
	}
	return s
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func short(id string) string {
	if len(id) > 12 {
		return id[:12]
	}
	return id
}

func seconds(d time.Duration) string { return plot.Seconds(d.Seconds()) }

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"seconds": seconds,
	"took":    func(d time.Duration) string { return d.Round(time.Second).String() },
	"clean":   clean,
	"verdict": verdictOf,
	"plural":  plural,
	"short":   short,
	"date":    func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") },
	"join":    strings.Join,
}).Parse(tmplText))
