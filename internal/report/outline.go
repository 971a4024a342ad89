// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/runfolder"
	"patchcheck/patches/mail"
	"patchcheck/testplans"
)

// An outcome is what test formats can say of one case. docs/formats.md has the
// table of verdicts and outcomes.
type outcome string

const (
	outcomePass  outcome = "pass"
	outcomeFail  outcome = "fail"  // the series is at fault, or it cannot be told
	outcomeError outcome = "error" // ours: says nothing about the series
	outcomeSkip  outcome = "skip"  // says nothing about the series, with a reason
)

// A testCase is one leaf of a run seen as a tree of tests. All its text is fit
// for printing: control characters of mails and guests are visible.
type testCase struct {
	path    []string // from the suite's name down to the case's own: never empty
	outcome outcome
	kind    string // verdict or severity behind the outcome
	reason  string // one line
	detail  []string
	out     []string // what is worth knowing of any outcome: counts, timings
	elapsed time.Duration
	timeout bool // a step did not end within its deadline
}

// name is the case's own name.
func (c *testCase) name() string { return c.path[len(c.path)-1] }

// outline is the run as a list of test cases, cases of one suite side by side:
// the run's verdict, lint's findings, applying, building, and each cell. The
// verdict's case passes if and only if the run's verdict is PASS, so a consumer
// that only looks for failures says what patchcheck's exit code says.
func outline(r *runfolder.Run) []testCase {
	var out []testCase
	out = append(out, verdictCase(r))
	out = append(out, findingCases(r)...)
	out = append(out, applyCases(r)...)
	out = append(out, buildCases(r)...)
	out = append(out, cellCases(r)...)
	unique(out)
	return out
}

// outcomeOf maps the verdict of a cell.
func outcomeOf(v checks.Verdict) outcome {
	switch v {
	case checks.Pass:
		return outcomePass
	case checks.Fail, checks.Unstable:
		return outcomeFail
	case checks.BaseFails, checks.Skip:
		return outcomeSkip
	}
	return outcomeError // INFRA, and a verdict that is not there
}

func verdictCase(r *runfolder.Run) testCase {
	c := testCase{path: []string{"run", "verdict"}, kind: line(string(r.Verdict)), reason: line(r.Reason), elapsed: r.Ended.Sub(r.Started)}
	if r.Ended.IsZero() {
		c.elapsed = 0
	}
	switch r.Verdict {
	case checks.Pass:
		c.outcome = outcomePass
	case checks.Infra:
		c.outcome = outcomeError
	case "":
		c.outcome, c.kind, c.reason = outcomeError, "UNFINISHED", "the run did not come to an end"
	default: // also BASE-FAILS and SKIP of the whole run: readiness was not shown
		c.outcome = outcomeFail
	}
	for _, s := range r.Steps {
		c.out = append(c.out, line(fmt.Sprintf("%-10s %9.3f s  %-7s  %s", s.Name, s.Elapsed.Seconds(), s.Status, s.Detail)))
	}
	return c
}

// findingCases makes a case of each rule that found something outside of the
// cells. Warnings and notes that do not gate are shown as skipped: no consumer
// knows a case that neither passes nor fails.
func findingCases(r *runfolder.Run) []testCase {
	by := map[string][]checks.Finding{}
	for _, f := range r.Findings {
		by[f.ID] = append(by[f.ID], f)
	}
	var out []testCase
	for _, id := range sortedKeys(by) {
		fs := by[id]
		worst := fs[0]
		for _, f := range fs {
			if severityRank(f.Severity) < severityRank(worst.Severity) {
				worst = f
			}
		}
		c := testCase{path: []string{"findings", label(id)}, kind: line(string(worst.Severity)), outcome: outcomeSkip, reason: line(said(worst))}
		if len(fs) > 1 {
			c.reason += fmt.Sprintf(" (and %d more)", len(fs)-1)
		}
		switch {
		case strings.HasSuffix(id, "infra"):
			c.outcome, c.kind = outcomeError, string(checks.Infra)
		case slices.ContainsFunc(fs, checks.Finding.Gates):
			c.outcome = outcomeFail
		}
		for _, f := range fs {
			c.detail = append(c.detail, findingLines(f)...)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		for _, s := range r.Steps {
			if s.Name == "lint" && s.Status == "ok" {
				return []testCase{{path: []string{"findings", "lint"}, outcome: outcomePass, out: []string{line(s.Detail)}, elapsed: s.Elapsed}}
			}
		}
	}
	return out
}

func severityRank(s checks.Severity) int {
	return slices.Index([]checks.Severity{checks.Error, checks.Warning, checks.Note}, s)
}

// said is a finding as one sentence with its place.
func said(f checks.Finding) string {
	at := f.Where
	at.Cell = "" // the case has its name
	if at := at.String(); at != "" {
		return at + ": " + f.Message
	}
	return f.Message
}

func findingLines(f checks.Finding) []string {
	out := []string{line(fmt.Sprintf("%s: %s [%s]", f.Severity, said(f), f.ID))}
	for _, e := range f.Evidence {
		out = append(out, textLines("    ", e)...)
	}
	if f.Fix != "" {
		out = append(out, "  fix: "+line(f.Fix))
	}
	return out
}

func applyCases(r *runfolder.Run) (out []testCase) {
	for _, a := range r.Apply {
		c := testCase{path: []string{"apply", patchName(r, a.Patch)}, outcome: outcomePass, kind: line(a.Class)}
		for _, l := range a.Lines {
			c.out = append(c.out, textLines("", l)...)
		}
		if a.Class != "clean" && a.Class != "offset" {
			c.outcome, c.reason = outcomeFail, line("does not apply: "+a.Class)
			c.detail = textLines("", a.Text)
		}
		out = append(out, c)
	}
	return out
}

func buildCases(r *runfolder.Run) (out []testCase) {
	for _, b := range r.Builds {
		name := "base"
		if b.Patch > 0 {
			name = patchName(r, b.Patch)
		}
		c := testCase{path: []string{"build", name}, outcome: outcomePass, elapsed: b.Elapsed,
			out: []string{fmt.Sprintf("objects %d, new warnings %d, warnings gone %d, in make %.3f s", b.Objects, b.New, b.Fixed, b.Make.Seconds())}}
		if b.Reused {
			c.out = append(c.out, "reused: it was built before")
		}
		if b.Log != "" {
			c.out = append(c.out, "log: "+line(b.Log))
		}
		if !b.OK {
			c.outcome, c.kind, c.reason = outcomeFail, string(checks.Fail), "does not build: see the findings and the log"
			switch { // the base alone cannot be the series' fault
			case r.Verdict == checks.Infra:
				c.outcome, c.kind = outcomeError, string(checks.Infra)
			case b.Patch == 0:
				c.outcome, c.kind, c.reason = outcomeSkip, string(checks.BaseFails), "the base does not build"
			}
		}
		out = append(out, c)
	}
	return out
}

// patchName names a patch by number and subject: "2 svcrdma: Post ...".
func patchName(r *runfolder.Run, index int) string {
	for _, p := range r.Series.Patches {
		if p.Index == index {
			return fmt.Sprintf("%d %s", index, label(p.Subject))
		}
	}
	return fmt.Sprint(index)
}

// cellCases gives every cell of the plan: those without an answer are skipped
// and say why.
func cellCases(r *runfolder.Run) (out []testCase) {
	have := map[string]*runfolder.Cell{}
	cells := r.Plan.Cells()
	for _, c := range cells {
		have[c.ID()] = nil
	}
	for _, c := range r.Cells {
		if _, ok := have[c.ID]; !ok {
			cells = append(cells, c.Spec)
		}
		have[c.ID] = c
	}
	for _, spec := range cells {
		id := spec.ID()
		kernel := spec.Kernel
		if kernel == testplans.RolePatched || kernel == testplans.RoleBase {
			kernel += " kernel"
		}
		c := testCase{path: []string{label(kernel), label(spec.Device.Name), label("v" + spec.NFS)}}
		cell := have[id]
		if cell == nil {
			c.outcome, c.kind, c.reason = outcomeSkip, string(checks.Skip), "not run"
			if r.Verdict != checks.Pass && r.Reason != "" {
				c.reason += ": the run ended before it: " + line(r.Reason)
			}
			out = append(out, c)
			continue
		}
		c.outcome, c.kind, c.reason = outcomeOf(cell.Verdict), line(string(cell.Verdict)), line(cell.Reason)
		if c.outcome == outcomePass && cell.Last().Token == "" {
			c.outcome, c.kind, c.reason = outcomeError, string(checks.Infra), "the guest did not say that it is done"
		}
		if c.kind == "" {
			c.kind = "UNFINISHED"
		}
		if q := cell.Quarantine; q != nil && c.outcome != outcomePass {
			// Its verdict stands, and the run's does not count it.
			c.outcome, c.reason = outcomeSkip, line(fmt.Sprintf("in quarantine until %s (%s, %s): %s", q.Expires, q.Owner, q.Reason, cell.Reason))
		}
		if c.outcome != outcomePass {
			for _, f := range cell.Findings {
				c.detail = append(c.detail, findingLines(f)...)
				c.timeout = c.timeout || f.ID == "guest.hang"
			}
			for _, a := range cell.Attempts {
				if a.Guest != "" {
					c.detail = append(c.detail, line(fmt.Sprintf("console of this %s: console/%s/console.log", strings.ToLower(string(a.Verdict)), a.Guest)))
				}
			}
		}
		if cell.Reused != "" {
			c.out = append(c.out, "reused from run "+line(cell.Reused))
		} else {
			for _, a := range cell.Attempts {
				c.elapsed += a.Elapsed
			}
		}
		c.out = append(c.out, cellLines(cell)...)
		out = append(out, c)
	}
	return out
}

// cellLines are the figures of the deciding attempt.
func cellLines(cell *runfolder.Cell) (out []string) {
	a := cell.Last()
	if a.Invalid {
		out = append(out, "the counts are not valid: events were lost")
	}
	for _, k := range sortedKeys(a.Values) {
		out = append(out, fmt.Sprintf("%s = %d", line(k), a.Values[k]))
	}
	if a.Compared.Files > 0 {
		out = append(out, fmt.Sprintf("compared: %d files, %d bytes by the client, %d bytes in the exported files", a.Compared.Files, a.Compared.ClientBytes, a.Compared.ServerBytes))
	}
	for _, s := range a.Steps {
		text := fmt.Sprintf("%9.3f s  %s", s.Elapsed.Seconds(), s.Name)
		if s.Error != "" {
			text += ": " + s.Error
		}
		out = append(out, line(text))
	}
	return out
}

// textLines makes printable lines of s, each behind indent.
func textLines(indent, s string) (out []string) {
	for _, l := range strings.Split(strings.TrimRight(s, "\n"), "\n") {
		out = append(out, indent+mail.Printable(l))
	}
	return out
}

// line makes one printable line of s.
func line(s string) string {
	return strings.Join(strings.Fields(mail.Printable(s)), " ")
}

// label makes a name of a test out of s. '#' begins a directive in KTAP, and a
// name must not be empty.
func label(s string) string {
	s = line(strings.ReplaceAll(s, "#", "/"))
	if s == "" {
		return "unnamed"
	}
	if r := []rune(s); len(r) > 120 {
		s = string(r[:119]) + "\u2026"
	}
	return s
}

// unique makes the path of each case differ from the others': consumers add up
// cases of one name.
func unique(cases []testCase) {
	seen := map[string]bool{}
	for i := range cases {
		p := slices.Clone(cases[i].path)
		name := p[len(p)-1]
		for n := 2; seen[strings.Join(p, "\x00")]; n++ {
			p[len(p)-1] = fmt.Sprintf("%s (%d)", name, n)
		}
		seen[strings.Join(p, "\x00")] = true
		cases[i].path = p
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
