// SPDX-License-Identifier: Apache-2.0

// Package checks owns the vocabulary shared by every check: findings, rules
// and verdicts. Its sub-packages turn facts into findings; they are pure: no
// QEMU, no make, no network. A sub-package that needs the tree's own scripts
// gets their output handed in.
package checks

import (
	"fmt"
	"strings"
)

// Severity grades a finding. Errors gate (exit code 1), warnings are shown
// and gate unless the profile says otherwise, notes never gate.
type Severity string

const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Rule is the static description of one kind of finding; `patchcheck explain
// ID` prints it.
type Rule struct {
	ID       string   `json:"id"` // stable, lower case, dotted by family: "trailer.fixes-short"
	Severity Severity `json:"severity"`
	Title    string   `json:"title"`            // one line, what is wrong
	Source   string   `json:"source"`           // kernel document, RFC or man page that states the rule
	Fix      string   `json:"fix"`              // what to do about it
	Strict   bool     `json:"strict,omitempty"` // off in the default profile, on with --strict
}

// Where locates a finding. All fields are optional; Patch is 1-based, 0 means
// the series as a whole or its cover letter.
type Where struct {
	Patch int    `json:"patch,omitempty"`
	File  string `json:"file,omitempty"`
	Line  int    `json:"line,omitempty"`
	Col   int    `json:"col,omitempty"`
	Hunk  string `json:"hunk,omitempty"` // "@@ -1,2 +3,4 @@ func"
	Cell  string `json:"cell,omitempty"` // cell id of a run
}

func (w Where) String() string {
	var parts []string
	if w.Cell != "" {
		parts = append(parts, w.Cell)
	}
	if w.Patch > 0 {
		parts = append(parts, fmt.Sprintf("patch %d", w.Patch))
	}
	if w.File != "" {
		s := w.File
		if w.Line > 0 {
			s += fmt.Sprintf(":%d", w.Line)
			if w.Col > 0 {
				s += fmt.Sprintf(":%d", w.Col)
			}
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ": ")
}

// Finding is one fact that a person should know before mailing the series.
type Finding struct {
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	Where    Where    `json:"where"`
	Message  string   `json:"message"`            // one sentence, specific to this input
	Evidence []string `json:"evidence,omitempty"` // verbatim lines that prove it
	Fix      string   `json:"fix,omitempty"`      // overrides the rule's Fix
	Source   *Source  `json:"source,omitempty"`   // the lines around Where.Line, where they were at hand
}

// Source is a piece of a file as it was checked.
type Source struct {
	From  int      `json:"from"` // number of the first line, from 1
	Lines []string `json:"lines"`
}

// New makes a finding of rule r.
func (r Rule) New(w Where, format string, args ...any) Finding {
	return Finding{ID: r.ID, Severity: r.Severity, Where: w, Message: fmt.Sprintf(format, args...), Fix: r.Fix}
}

// Verdict is the outcome of a cell or of a run.
type Verdict string

const (
	Pass      Verdict = "PASS"       // positive proof was seen
	Fail      Verdict = "FAIL"       // the series' fault
	BaseFails Verdict = "BASE-FAILS" // the base kernel does it too
	Infra     Verdict = "INFRA"      // host, tool or image failed; says nothing about the series
	Unstable  Verdict = "UNSTABLE"   // repeats differ
	Skip      Verdict = "SKIP"       // not run, with a reason
)

// Sign is the mark that stands beside a verdict's word on a page, so that it is
// never told by colour alone; "" for what is no verdict.
func (v Verdict) Sign() string {
	switch v {
	case Pass:
		return "✓"
	case Fail:
		return "✗"
	case BaseFails:
		return "◑"
	case Unstable:
		return "≈"
	case Infra:
		return "!"
	case Skip:
		return "–"
	}
	return ""
}

// Gates reports whether the finding alone keeps a run from passing: an error,
// or a warning that the series brings into a build that had none of it.
func (f Finding) Gates() bool {
	if f.Severity == Warning {
		for _, family := range []string{"warning.", "kerneldoc.", "variant."} {
			if strings.HasPrefix(f.ID, family) {
				return true
			}
		}
	}
	return f.Severity == Error
}
