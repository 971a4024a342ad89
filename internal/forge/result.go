// SPDX-License-Identifier: Apache-2.0

package forge

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"patchcheck/checks"
	"patchcheck/checks/warnings"
	"patchcheck/internal/findings"
	"patchcheck/internal/report"
	"patchcheck/internal/runfolder"
	"patchcheck/patches"
	"patchcheck/patches/bundled"
	"patchcheck/patches/diff"
	"patchcheck/patches/mail"
)

// Target says where a result belongs.
type Target struct {
	Repo       Repo
	SHA        string
	PR         int
	Name       string // "" means "patchcheck"
	DetailsURL string
	Comment    CommentMode
}

func (t Target) publication() Publication {
	return Publication{Repo: t.Repo, SHA: t.SHA, PR: t.PR, Name: cmp.Or(t.Name, "patchcheck"), DetailsURL: t.DetailsURL, Comment: t.Comment}
}

// Conclude maps a verdict. Only FAIL is the patches' fault.
func Conclude(v checks.Verdict) Conclusion {
	switch v {
	case checks.Pass:
		return Success
	case checks.Fail:
		return Failure
	}
	return Neutral
}

// meaning words a verdict that says nothing about the patches.
var meaning = map[checks.Verdict]string{
	checks.Infra:     "our infrastructure failed; this says nothing about the patches",
	checks.BaseFails: "the kernel without the patches fails the same way",
	checks.Unstable:  "repetitions give different results",
	checks.Skip:      "not run",
	"":               "the run did not finish",
}

// FromRun makes a publication of a run folder. Only what the folder records is
// said. Findings that lie in lines of the commit become annotations, the rest
// stands in the text.
func FromRun(r *runfolder.Run, t Target) (Publication, error) {
	p := t.publication()
	p.Key = "run " + r.Plan.Name
	p.Started, p.Ended = r.Started, r.Ended
	if p.Ended.IsZero() {
		p.Ended = p.Started
	}
	p.Conclusion = Conclude(r.Verdict)
	p.Title = title(r)
	var md bytes.Buffer
	if err := report.Write(&md, r, "markdown"); err != nil {
		return p, err
	}
	p.Summary = inert(md.String())
	if m, ok := meaning[r.Verdict]; ok {
		p.Summary = fmt.Sprintf("**%s: %s.**\n\n", cmp.Or(string(r.Verdict), "UNFINISHED"), m) + p.Summary
	}
	p.Summary += fmt.Sprintf("\n<sub>patchcheck %s, run %s</sub>\n", Text(r.Tool), Text(r.ID))

	pl, err := placesOfRun(r)
	if err != nil {
		return p, err
	}
	var b strings.Builder
	rest, placed := pl.annotate(&p, r.Findings)
	writeFindings(&b, "Findings", rest)
	writeFindings(&b, "Findings in the files", placed)
	cells := map[string]*runfolder.Cell{}
	for _, c := range r.Cells {
		cells[c.ID] = c
	}
	for _, g := range report.Build(r).Bad {
		fmt.Fprintf(&b, "### %s: %s\n\n", Text(string(g.Verdict)), Text(g.Cells[0]))
		if g.Reason != "" {
			fmt.Fprintf(&b, "%s\n\n", Text(g.Reason))
		}
		if rest := g.Cells[1:]; len(rest) > 0 {
			fmt.Fprintf(&b, "The same in %s.\n\n", Text(strings.Join(rest, ", ")))
		}
		if c := cells[g.Cells[0]]; c != nil {
			writeList(&b, c.Findings)
			if guest := c.Last().Guest; guest != "" {
				fmt.Fprintf(&b, "\nConsole: console/%s/console.log in the run folder.\n", Text(guest))
			}
		}
		b.WriteString("\n")
	}
	p.Text = b.String()
	return p, nil
}

// title is verdict and reason in one line.
func title(r *runfolder.Run) string {
	s := cmp.Or(string(r.Verdict), "UNFINISHED")
	if r.Verdict == checks.Pass {
		if n := len(r.Cells); n > 0 {
			return fmt.Sprintf("%s: %s pass", s, count(n, "cell", "cells"))
		}
		return s + ": built, nothing was booted"
	}
	if r.Reason != "" {
		s += ": " + inert(mail.PrintableLine(r.Reason))
	}
	if m := meaning[r.Verdict]; m != "" {
		if r.Reason != "" {
			return s + " (" + m + ")"
		}
		return s + ": " + m
	}
	return s
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// FromLint makes a publication of what lint found.
func FromLint(rep *findings.Report, t Target, started, ended time.Time) Publication {
	p := t.publication()
	p.Key = "lint"
	p.Started, p.Ended = started, ended
	switch rep.Outcome() {
	case findings.Ready:
		p.Conclusion = Success
	case findings.Infra:
		p.Conclusion = Neutral
	default:
		p.Conclusion = Failure
	}
	p.Title = fmt.Sprintf("%s: %s", rep.Outcome(), rep.Summary())
	pl := &places{}
	if rep.Series != nil {
		pl.add(rep.Series)
	}
	rest, placed := pl.annotate(&p, rep.Findings)
	var b, text strings.Builder
	writeFindings(&text, "Findings in the files", placed)
	p.Text = text.String()
	name := ""
	if rep.Series != nil {
		name = rep.Series.Title
	}
	fmt.Fprintf(&b, "### %s %s\n\n%s", rep.Outcome(), Text(name), rep.Summary())
	if rep.Tree != "" {
		fmt.Fprintf(&b, ", against %s", Text(rep.Tree))
	}
	b.WriteString(".\n\n")
	if rep.Outcome() == findings.Infra {
		fmt.Fprintf(&b, "**INFRA: %s.**\n\n", meaning[checks.Infra])
	}
	if n := len(placed); n > 0 {
		fmt.Fprintf(&b, "%s about lines of the files.\n\n", count(n, "finding is", "findings are"))
	}
	writeList(&b, rest)
	for _, n := range rep.Notes {
		fmt.Fprintf(&b, "- note: %s\n", Text(n))
	}
	if n := len(rep.Silenced); n > 0 {
		fmt.Fprintf(&b, "- note: %s silenced by the configuration\n", count(n, "finding is", "findings are"))
	}
	fmt.Fprintf(&b, "\n<sub>patchcheck %s lint</sub>\n", Text(rep.Tool))
	p.Summary = b.String()
	return p
}

func writeFindings(b *strings.Builder, head string, fs []checks.Finding) {
	if len(fs) == 0 {
		return
	}
	fmt.Fprintf(b, "### %s\n\n", head)
	writeList(b, fs)
	b.WriteString("\n")
}

// maxEvidence bounds the lines of evidence shown for one finding.
const maxEvidence = 30

func writeList(b *strings.Builder, fs []checks.Finding) {
	for _, f := range ordered(fs) {
		at := Text(f.Where.String())
		if at != "" {
			at += ": "
		}
		fmt.Fprintf(b, "- **%s** %s%s [%s]\n", f.Severity, at, Text(f.Message), Text(f.ID))
		if ev := f.Evidence; len(ev) > 0 {
			if n := len(ev) - maxEvidence; n > 0 {
				ev = append(slices.Clone(ev[:maxEvidence]), fmt.Sprintf("... %d more lines", n))
			}
			b.WriteString("\n" + fence(ev) + "\n")
		}
	}
}

// ordered gives errors first, otherwise the order as found.
func ordered(fs []checks.Finding) []checks.Finding {
	rank := map[checks.Severity]int{checks.Error: 0, checks.Warning: 1, checks.Note: 2}
	out := slices.Clone(fs)
	slices.SortStableFunc(out, func(a, b checks.Finding) int { return cmp.Compare(rank[a.Severity], rank[b.Severity]) })
	return out
}

// places knows where lines of a patch stand in the last commit of the series.
type places struct {
	patches []stage
	total   int
	// loose files have other lines in the tree that was built than in the
	// commit, so lines of build findings in them are not known.
	loose    map[string]bool
	allLoose bool
}

// stage is the series up to one of its patches.
type stage struct {
	index   int
	mapper  warnings.LineMapper
	touched map[string]bool
}

func (pl *places) add(s *patches.Series) {
	for _, p := range s.Patches {
		pl.patch(p.Index, p.Files)
	}
	pl.total = s.Total
}

func (pl *places) patch(index int, files []*diff.File) {
	x := stage{index: index, touched: map[string]bool{}}
	var cs []warnings.FileChange
	for _, f := range files {
		if f.New != "" {
			x.touched[f.New] = true
		}
		if f.Old == "" || f.IsCopy {
			continue
		}
		c := warnings.FileChange{OldPath: f.Old, NewPath: f.New}
		for _, h := range f.Hunks {
			c.Edits = append(c.Edits, edits(h)...)
		}
		cs = append(cs, c)
	}
	x.mapper = warnings.MapEdits(cs)
	pl.patches = append(pl.patches, x)
	slices.SortStableFunc(pl.patches, func(a, b stage) int { return cmp.Compare(a.index, b.index) })
}

// edits gives the runs of removed and added lines of a hunk.
func edits(h diff.Hunk) []warnings.Edit {
	var out []warnings.Edit
	line := h.OldStart
	if h.OldLines == 0 {
		line++ // a hunk without old lines names the line before it
	}
	var cur *warnings.Edit
	for _, l := range h.Lines {
		switch l.Op {
		case diff.Context:
			cur = nil
			line++
			continue
		}
		if cur == nil {
			out = append(out, warnings.Edit{OldLine: line})
			cur = &out[len(out)-1]
		}
		if l.Op == diff.Delete {
			cur.OldCount++
			line++
		} else {
			cur.NewCount++
		}
	}
	return out
}

func placesOfRun(r *runfolder.Run) (*places, error) {
	pl := &places{loose: map[string]bool{}, total: r.Series.Total}
	for _, p := range r.Series.Patches {
		b, err := os.ReadFile(r.Path("series", fmt.Sprintf("%04d.diff", p.Index)))
		if err != nil {
			return nil, fmt.Errorf("the run folder lacks a patch: %w", err)
		}
		files, _ := diff.Parse(b) // a damaged diff gives no places; the run's findings name it
		pl.patch(p.Index, files)
	}
	for _, a := range r.Apply {
		for _, l := range a.Lines { // hunks that were not where the patch says
			if f, _, ok := strings.Cut(l, ": "); ok {
				pl.loose[f] = true
			}
		}
	}
	for _, name := range r.Plan.Kernel.Companions {
		mails, err := bundled.Companion(name)
		if err != nil {
			pl.allLoose = true // the user's own: its files are not on record
			continue
		}
		for _, m := range mails {
			files, _ := diff.Parse(m)
			for _, f := range files {
				pl.loose[f.Path()] = true
			}
		}
	}
	return pl, nil
}

// fromBuild tells findings whose lines are those of the tree that was built.
func fromBuild(id string) bool {
	for _, p := range []string{"warning.", "kerneldoc.", "variant."} {
		if strings.HasPrefix(id, p) {
			return true
		}
	}
	return false
}

// head maps a finding's place to the last commit; ok is false when the line is
// not there any more, or its place is not known.
func (pl *places) head(f checks.Finding) (string, int, bool) {
	file, line := f.Where.File, f.Where.Line
	if line < 1 || file == "" || path.IsAbs(file) || path.Clean(file) != file || strings.HasPrefix(file, "../") || strings.ContainsAny(file, "\x00\n\r\\") {
		return "", 0, false
	}
	if fromBuild(f.ID) && (pl.allLoose || pl.loose[file]) {
		return "", 0, false
	}
	known := f.Where.Patch == 0
	for _, p := range pl.patches {
		known = known || p.index == f.Where.Patch
		if f.Where.Patch == 0 || p.index <= f.Where.Patch {
			continue
		}
		ok := false
		if file, line, ok = p.mapper(file, line); !ok {
			return "", 0, false
		}
	}
	return file, line, known
}

// annotate makes annotations of the findings that have a place, and returns
// the others and those. The latter stand in the text, too: where no check run
// can be written there are no annotations.
func (pl *places) annotate(p *Publication, fs []checks.Finding) (rest, placed []checks.Finding) {
	for _, f := range ordered(fs) {
		file, line, ok := pl.head(f)
		if !ok {
			rest = append(rest, f)
			continue
		}
		level := map[checks.Severity]string{checks.Error: "failure", checks.Warning: "warning", checks.Note: "notice"}[f.Severity]
		if level == "" {
			level = "notice"
		}
		a := Annotation{Path: file, Line: line, Level: level, Title: inert(mail.PrintableLine(f.ID)), Text: inert(mail.Printable(f.Message))}
		if f.Where.Patch > 0 && len(pl.patches) > 1 {
			a.Title = fmt.Sprintf("%d/%d %s", f.Where.Patch, max(pl.total, len(pl.patches)), a.Title)
		}
		if f.Fix != "" {
			a.Text += "\nFix: " + inert(mail.Printable(f.Fix))
		}
		var ev []string
		for _, l := range f.Evidence {
			ev = append(ev, mail.Printable(l))
		}
		a.Raw = strings.Join(ev, "\n")
		p.Annotations = append(p.Annotations, a)
		placed = append(placed, f)
	}
	return rest, placed
}
