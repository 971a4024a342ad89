// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"patchcheck/checks"
	"patchcheck/internal/report"
	"patchcheck/internal/runfolder"
	"patchcheck/patches/diff"
)

// Findings are all of a run: of the series and its builds, then of cells that
// did not pass, then of the prediction.
type Findings struct {
	List     []finding
	Errors   int
	Warnings int
	Notes    int
}

// finding is one finding as it is shown.
type finding struct {
	ID       string
	Severity string
	Sign     string
	Where    string
	Message  string
	Evidence []string
	Fix      string
	Title    string // of its rule
	Law      string // the rule's source
	Source   *source
	Verdict  *verdict // of the cells it was found in
	Cells    []cellRef
	Open     bool // the evidence is short enough to be shown at once
}

type cellRef struct{ Anchor, ID string }

// source is a piece of a file with the finding's line marked.
type source struct {
	File  string
	Lines []sourceLine
	From  string // where the lines come from, when it is not the file as it was compiled
}

type sourceLine struct {
	Number int
	Sign   string // "+" for a line that the patch adds, where that is known
	Text   string
	Here   bool
}

var severitySigns = map[checks.Severity]string{checks.Error: "✗", checks.Warning: "!", checks.Note: "i"}

func findingOf(r *runfolder.Run, f checks.Finding, rule func(string) (checks.Rule, bool)) finding {
	out := finding{ID: f.ID, Severity: string(f.Severity), Sign: severitySigns[f.Severity], Where: clean(f.Where.String()), Message: clean(f.Message), Fix: clean(f.Fix)}
	for _, e := range f.Evidence {
		out.Evidence = append(out.Evidence, clean(e))
	}
	out.Open = len(out.Evidence) <= 14
	if rule != nil {
		if x, ok := rule(f.ID); ok {
			out.Title, out.Law = x.Title, x.Source
			if out.Law == "-" {
				out.Law = ""
			}
			if out.Fix == "" {
				out.Fix = x.Fix
			}
		}
	}
	out.Source = sourceOf(r, f)
	return out
}

func findings(r *runfolder.Run, rep *report.Report, v *view, o Options) Findings {
	var out Findings
	add := func(f finding) { out.List = append(out.List, f) }
	for _, f := range r.Findings {
		add(findingOf(r, f, o.Rule))
	}
	byID := map[string]*runfolder.Cell{}
	anchors := map[string]string{}
	for _, c := range r.Cells {
		byID[c.ID] = c
	}
	for _, c := range v.Cells {
		anchors[c.ID] = c.Anchor
	}
	for _, g := range rep.Bad {
		var refs []cellRef
		for _, id := range g.Cells {
			refs = append(refs, cellRef{anchors[id], id})
		}
		vd := verdictOf(g.Verdict)
		first := byID[g.Cells[0]]
		if first == nil {
			continue
		}
		list := first.Findings
		if len(list) == 0 {
			// A cell that did not pass and has no finding says why in its reason.
			reason := first.Reason
			if reason == "" {
				reason = "the cell did not pass and recorded no reason"
			}
			sev := checks.Error
			if g.Verdict == checks.Skip {
				sev = checks.Note
			}
			f := findingOf(r, checks.Finding{ID: "cell." + strings.ToLower(string(g.Verdict)), Severity: sev, Message: reason, Where: checks.Where{Cell: first.ID}}, nil)
			f.Verdict, f.Cells = &vd, refs
			add(f)
		}
		for _, x := range list {
			f := findingOf(r, x, o.Rule)
			f.Verdict, f.Cells = &vd, refs
			add(f)
		}
	}
	for _, c := range r.Cells {
		if c.Verdict != checks.Pass {
			continue
		}
		for _, x := range c.Findings {
			f := findingOf(r, x, o.Rule)
			f.Cells = []cellRef{{anchors[c.ID], c.ID}}
			add(f)
		}
	}
	if v.Predict != nil {
		for _, x := range v.Predict.findings {
			f := findingOf(r, x, o.Rule)
			f.Cells = []cellRef{{anchors[x.Where.Cell], x.Where.Cell}}
			add(f)
		}
	}
	// Errors first; the order is kept otherwise.
	rank := map[string]int{string(checks.Error): 0, string(checks.Warning): 1, string(checks.Note): 2}
	slices.SortStableFunc(out.List, func(a, b finding) int { return rank[a.Severity] - rank[b.Severity] })
	for _, f := range out.List {
		switch checks.Severity(f.Severity) {
		case checks.Error:
			out.Errors++
		case checks.Warning:
			out.Warnings++
		default:
			out.Notes++
		}
	}
	return out
}

// Summary says how many there are.
func (f Findings) Summary() string {
	if len(f.List) == 0 {
		return "none"
	}
	var parts []string
	for _, x := range []struct {
		n    int
		name string
	}{{f.Errors, "error"}, {f.Warnings, "warning"}, {f.Notes, "note"}} {
		if x.n > 0 {
			parts = append(parts, plural(x.n, x.name, x.name+"s"))
		}
	}
	return strings.Join(parts, ", ")
}

// sourceOf shows a finding in its source: as the run kept it, else from the
// hunk of the patch that has the line.
func sourceOf(r *runfolder.Run, f checks.Finding) *source {
	if f.Where.File == "" || f.Where.Line < 1 {
		return nil
	}
	out := &source{File: clean(f.Where.File)}
	if s := f.Source; s != nil {
		for i, l := range s.Lines {
			out.Lines = append(out.Lines, sourceLine{Number: s.From + i, Text: clean(l), Here: s.From+i == f.Where.Line})
		}
		return out
	}
	if f.Where.Patch < 1 {
		return nil
	}
	b, err := os.ReadFile(r.Path("series", fmt.Sprintf("%04d.diff", f.Where.Patch)))
	if err != nil {
		return nil
	}
	files, err := diff.Parse(b)
	if err != nil {
		return nil
	}
	const around = 3
	for _, file := range files {
		if file.Path() != f.Where.File {
			continue
		}
		for _, h := range file.Hunks {
			if f.Where.Line < h.NewStart || f.Where.Line >= h.NewStart+h.NewLines {
				continue
			}
			n := h.NewStart
			for _, l := range h.Lines {
				if l.Op == diff.Delete {
					continue
				}
				if n >= f.Where.Line-around && n <= f.Where.Line+around {
					sign := ""
					if l.Op == diff.Add {
						sign = "+"
					}
					out.Lines = append(out.Lines, sourceLine{n, sign, clean(l.Text), n == f.Where.Line})
				}
				n++
			}
			out.From = fmt.Sprintf("the hunk of patch %d", f.Where.Patch)
			return out
		}
	}
	return nil
}
