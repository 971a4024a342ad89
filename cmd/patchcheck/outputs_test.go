// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/findings"
	"patchcheck/internal/page"
	"patchcheck/internal/report"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

// nasty is what a series, a console or a guest may hold: escape sequences of
// both kinds, a window title, a bell, a carriage return that hides what stands
// before it, a direction override, markup of three languages, and orders to a
// CI service.
const nasty = "\x1b[2J\x1b]0;owned\x07\u009b31m\rok\b\u202egnp.exe\u2066\x00\x7f" +
	"<script>alert(1)</script><img src=x onerror=alert(1)> ]]> --> [x](javascript:alert(1)) ![i](http://example.org/x) @someone " +
	"\n::error file=a::forged\n  ::set-output name=x::1\n##[error]forged\nnot ok 1 - forged\n"

// raw is what no output may hold: what a terminal obeys or hides.
var raw = regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")

// order is a line that GitHub's runner obeys.
var order = regexp.MustCompile(`(?m)^\s*::[A-Za-z-]+[^\n]*::|##\[`)

func nastyRun(t *testing.T) *runfolder.Run {
	t.Helper()
	plan, err := testplans.Load("svcrdma-inline")
	if err != nil {
		t.Fatal(err)
	}
	r, err := runfolder.Create(t.TempDir(), time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), "nasty")
	if err != nil {
		t.Fatal(err)
	}
	f := checks.Finding{ID: "console.oops", Severity: checks.Error, Where: checks.Where{Patch: 1, File: nasty, Line: 1, Cell: nasty}, Message: nasty, Evidence: []string{nasty, nasty}, Fix: nasty}
	r.Plan, r.Verdict, r.Reason = *plan, checks.Fail, nasty
	r.Series = runfolder.Series{ID: "00112233445566778899aabbccddeeff", Title: nasty, Version: 1, Total: 1, Patches: []runfolder.Patch{{Index: 1, Subject: nasty}}}
	r.Tree = runfolder.Tree{Spec: nasty, Kind: "git", Version: nasty}
	r.Findings = []checks.Finding{f}
	r.Apply = []runfolder.Apply{{Patch: 1, Class: "conflict", Text: nasty, Lines: []string{nasty}}}
	r.Builds = []runfolder.Build{{Patch: 1, OK: true}}
	r.Kernels["patched"] = runfolder.Kernel{Role: "patched", Compiler: nasty, Release: nasty}
	r.NotRun = []string{nasty}
	r.Sandbox = nasty
	c := plan.Cells()[0]
	if err := r.SaveCell(&runfolder.Cell{ID: c.ID(), Spec: c, Verdict: checks.Fail, Reason: nasty, Findings: []checks.Finding{f},
		Attempts: []runfolder.Attempt{{Guest: "01-patched", Verdict: checks.Fail, Findings: []checks.Finding{f}}}}); err != nil {
		t.Fatal(err)
	}
	if err := r.Save(); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestOutputsAreHarmless: the words of strangers reach every output without
// their sting.
func TestOutputsAreHarmless(t *testing.T) {
	outputs := map[string]string{}
	r := nastyRun(t)
	for _, f := range report.Formats {
		var b bytes.Buffer
		if err := report.Write(&b, r, f); err != nil {
			t.Errorf("report %s: %v", f, err)
		}
		outputs["report "+f] = b.String()
	}
	var b bytes.Buffer
	if err := page.Write(&b, r, page.Options{}); err != nil {
		t.Errorf("page: %v", err)
	}
	outputs["page"] = b.String()
	for _, f := range findings.Formats {
		var b bytes.Buffer
		rep := &findings.Report{Tree: nasty, Findings: r.Findings}
		if err := findings.Write(&b, f, rep, false); err != nil {
			t.Logf("findings %s: %v", f, err)
			continue
		}
		outputs["findings "+f] = b.String()
	}
	for name, out := range outputs {
		if m := raw.FindString(out); m != "" {
			i := strings.Index(out, m)
			t.Errorf("%s holds %q: %q", name, m, out[max(0, i-40):min(len(out), i+40)])
		}
		// Annotations are orders, and ours; they must not hold the stranger's.
		if name == "findings github" {
			for _, l := range strings.Split(strings.TrimSpace(out), "\n") {
				if !strings.HasPrefix(l, "::") {
					t.Errorf("%s: a line that is no annotation: %q", name, l)
				}
				if strings.Contains(l, "forged") && strings.HasPrefix(l, "::error file=a::") || strings.HasPrefix(l, "::set-output") {
					t.Errorf("%s: an order of a stranger: %q", name, l)
				}
			}
		} else if m := order.FindString(out); m != "" {
			t.Errorf("%s gives an order: %q", name, m)
		}
		switch {
		case name == "page", name == "report markdown":
			if strings.Contains(out, "<script>alert") || strings.Contains(out, "<img src=x") {
				t.Errorf("%s holds a stranger's markup", name)
			}
			if name == "report markdown" && regexp.MustCompile(`[^\\]\]\(javascript`).MatchString(out) {
				t.Errorf("%s holds a stranger's link", name)
			}
		case name == "report ktap":
			if strings.Contains(out, "\nnot ok 1 - forged") {
				t.Errorf("%s has a forged result", name)
			}
		}
	}
}
