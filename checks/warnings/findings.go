// SPDX-License-Identifier: Apache-2.0

package warnings

import (
	"fmt"
	"slices"
	"strings"

	"patchcheck/checks"
)

// The findings of a comparison.
var (
	RuleError = checks.Rule{
		ID: "warning.error", Severity: checks.Error,
		Title:  "the patched tree does not build",
		Source: "Documentation/process/submitting-patches.rst, Separate your changes",
		Fix:    "fix the error; every patch of a series has to build by itself, or git bisect stops there",
	}
	RuleNew = checks.Rule{
		ID: "warning.new", Severity: checks.Warning,
		Title:  "a diagnostic of the build that the base does not have",
		Source: "Documentation/process/submit-checklist.rst, Build your code",
		Fix:    "fix what the tool complains about, or say in the commit message why it is wrong",
	}
	RuleKernelDoc = checks.Rule{
		ID: "kerneldoc.new", Severity: checks.Warning,
		Title:  "a kernel-doc complaint that the base does not have",
		Source: "Documentation/doc-guide/kernel-doc.rst",
		Fix:    "make the comment and the declaration agree",
	}
	RuleModpost = checks.Rule{
		ID: "warning.modpost", Severity: checks.Error,
		Title:  "a symbol or section that modpost or the linker rejects",
		Source: "Documentation/kbuild/modules.rst, Symbols From the Kernel",
		Fix:    "export the symbol, add the dependency in Kconfig, or provide the stub for the option that is off",
	}
	RuleKconfig = checks.Rule{
		ID: "warning.kconfig", Severity: checks.Warning,
		Title:  "a Kconfig complaint that the base does not have",
		Source: "Documentation/kbuild/kconfig-language.rst, reverse dependencies",
		Fix:    "select only symbols without dependencies, or depend on what the symbol needs",
	}
	RuleExpansion = checks.Rule{
		ID: "warning.expansion", Severity: checks.Note,
		Title:  "an old warning now also comes from another expansion of its macro",
		Source: "gcc(1), -ftrack-macro-expansion",
		Fix:    "look at the line that expands the macro",
	}
	RuleFixed = checks.Rule{
		ID: "warning.fixed", Severity: checks.Note,
		Title:  "a diagnostic of the base is gone",
		Source: "comparison of base and patched build",
		Fix:    "nothing to do; worth a line in the commit message when that was the purpose",
	}
	RuleChanged = checks.Rule{
		ID: "warning.changed", Severity: checks.Note,
		Title:  "a diagnostic of the base has other words",
		Source: "comparison of base and patched build",
		Fix:    "nothing to do unless the number in it got worse",
	}
	RuleNotComparable = checks.Rule{
		ID: "warning.not-comparable", Severity: checks.Error,
		Title:  "base and patched build cannot be compared",
		Source: "docs/design.md, Ledger",
		Fix:    "build both sides with the same compiler, flags and objects",
	}
	RulePartial = checks.Rule{
		ID: "warning.partial", Severity: checks.Note,
		Title:  "the comparison does not cover everything",
		Source: "comparison of base and patched build",
		Fix:    "fix the error first, then build again",
	}
	RuleBaseFails = checks.Rule{
		ID: "warning.base-fails", Severity: checks.Note,
		Title:  "the base does not build either",
		Source: "comparison of base and patched build",
		Fix:    "choose a base that builds; the series is not to blame for it",
	}
	RuleInfra = checks.Rule{
		ID: "warning.infra", Severity: checks.Error,
		Title:  "the build machine failed, not the source",
		Source: "the build log",
		Fix:    "give the build more memory or disk and run it again",
	}
)

// Rules lists every kind of finding of this package.
func Rules() []checks.Rule {
	return []checks.Rule{RuleError, RuleNew, RuleKernelDoc, RuleModpost, RuleKconfig, RuleExpansion, RuleFixed,
		RuleChanged, RuleNotComparable, RulePartial, RuleBaseFails, RuleInfra}
}

// Findings turns a comparison into findings: what gates first, then notes.
// When the sides cannot be compared, nothing is called new or fixed but the
// errors, which need no comparison to stop a build.
func Findings(r Result) []checks.Finding {
	var out []checks.Finding
	for _, why := range r.Incomparable {
		out = append(out, RuleNotComparable.New(checks.Where{}, "base and patched build cannot be compared: %s", why))
	}
	for _, l := range r.Infra {
		f := RuleInfra.New(checks.Where{}, "the build was stopped by the machine, not by the source")
		f.Evidence = []string{l}
		out = append(out, f)
	}
	cause := slices.ContainsFunc(r.New, func(e Entry) bool { return e.stops() && !e.follows() })
	for i := range r.New {
		e := &r.New[i]
		if cause && e.follows() {
			continue
		}
		if r.Comparable() || e.stops() {
			out = append(out, e.finding(ruleOf(e), ""))
		}
	}
	if r.PatchedFailed && !r.BaseFailed && !hasNewError(&r) && len(r.Infra) == 0 {
		// make gave up, and the log does not say why.
		f := RuleError.New(checks.Where{}, "make gave up on %s and printed no error that is known here", orUnknown(r.Failed))
		out = append(out, f)
	}
	if r.BaseFailed {
		out = append(out, RuleBaseFails.New(checks.Where{}, "the base does not build without errors; only what the patched build adds is listed"))
	}
	if !r.Comparable() {
		return out
	}
	for _, n := range r.Notes {
		f := RuleExpansion.New(checks.Where{File: n.Path, Line: n.Line, Col: n.Col}, "%s: %s", n.Message, n.Under.Message)
		f.Evidence = []string{n.Under.Raw, n.Raw}
		out = append(out, f)
	}
	for _, c := range r.Changed {
		f := c.Patched.finding(RuleChanged, "")
		f.Evidence = []string{"- " + c.Base.Raw, "+ " + c.Patched.Raw}
		out = append(out, f)
	}
	for i := range r.Fixed {
		out = append(out, r.Fixed[i].finding(RuleFixed, "fixed: "))
	}
	for _, p := range r.Partial {
		out = append(out, RulePartial.New(checks.Where{}, "%s", p))
	}
	return out
}

func ruleOf(e *Entry) checks.Rule {
	switch e.Tool {
	case KernelDoc:
		return RuleKernelDoc
	case Modpost:
		return RuleModpost
	case Linker:
		if e.Severity == SevError {
			return RuleModpost
		}
	case Kconfig:
		return RuleKconfig
	}
	if e.stops() {
		return RuleError
	}
	return RuleNew
}

// follows tells of an error in a name that the kernel's macros made up, such as
// the copies of min() and clamp(). gcc reports those before the argument that
// is wrong, which has an error of its own.
func (e *Entry) follows() bool { return e.stops() && strings.Contains(e.Message, "__UNIQUE_ID_") }

// finding keeps the message to one sentence; function, objects and the lines
// of the log are the evidence.
func (e *Entry) finding(r checks.Rule, prefix string) checks.Finding {
	msg := prefix + e.Message
	if e.Function != "" && !strings.Contains(msg, e.Function) {
		msg += fmt.Sprintf(" (in %s)", e.Function)
	}
	if n := len(e.Objects); n > 1 {
		msg += fmt.Sprintf(" (seen while compiling %d objects: %s)", n, sample(e.Objects))
	} else if n == 1 && e.Unit != "" && e.Path != e.Unit {
		msg += fmt.Sprintf(" (seen while compiling %s)", e.Unit)
	}
	f := r.New(checks.Where{File: e.Path, Line: e.Line, Col: e.Col}, "%s", msg)
	if e.Tool == Modpost && e.Severity == SevWarning {
		f.Severity = checks.Warning
	}
	f.Evidence = append(f.Evidence, e.Raw)
	if e.Source != "" {
		f.Evidence = append(f.Evidence, "    "+e.Source)
	}
	const most = 6 // a macro of the tracing headers expands through dozens
	for i, n := range e.Notes {
		if i == most {
			f.Evidence = append(f.Evidence, fmt.Sprintf("(%d more notes)", len(e.Notes)-most))
			break
		}
		f.Evidence = append(f.Evidence, n.Raw)
	}
	return f
}

func hasNewError(r *Result) bool {
	for i := range r.New {
		if r.New[i].stops() {
			return true
		}
	}
	return false
}

func orUnknown(l []string) string {
	if len(l) == 0 {
		return "an unknown target"
	}
	return sample(l)
}
