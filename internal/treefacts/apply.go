// SPDX-License-Identifier: Apache-2.0

package treefacts

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"patchcheck/checks"
	"patchcheck/patches/diff"
)

const srcApply = "git-apply(1): offsets are accepted, fuzz is not"

// The findings of applying.
var (
	RuleFails = checks.Rule{ID: "apply.fails", Severity: checks.Error,
		Title:  "the patch does not apply",
		Source: srcApply,
		Fix:    "rebase on the tree you mean it for, or name that tree with --tree and --base"}
	RuleNotTried = checks.Rule{ID: "apply.not-tried", Severity: checks.Note,
		Title:  "the patch was not tried, since one before it does not apply",
		Source: srcApply,
		Fix:    "mend the first patch that fails"}
	RuleApplied = checks.Rule{ID: "apply.already-applied", Severity: checks.Error,
		Title:  "the tree holds the patch already",
		Source: "patchcheck: the new side of every hunk stands in the tree",
		Fix:    "drop the patch, or name the tree that it is meant for"}
	RuleMerged = checks.Rule{ID: "apply.old-merged", Severity: checks.Warning,
		Title:  "it looks like an old patch that was merged long ago",
		Source: "patchcheck: nothing of it is new, some of it stands in the tree, and later changes went over the rest",
		Fix:    "check whether this is the mail you meant; --base names the tree of its time"}
	RuleAmbiguous = checks.Rule{ID: "apply.ambiguous", Severity: checks.Warning,
		Title:  "a hunk fits in several places",
		Source: srcApply,
		Fix:    "make the patch again from a current tree, so that it says where it belongs"}
	RuleMoved = checks.Rule{ID: "apply.offset", Severity: checks.Note, Strict: true,
		Title:  "hunks apply at other lines than they name",
		Source: srcApply,
		Fix:    "rebase before mailing"}
	RuleInexact = checks.Rule{ID: "apply.base-inexact", Severity: checks.Note,
		Title:  "touched files are not those that the patch was made against",
		Source: "git-format-patch(1), index lines",
		Fix:    "name the base with base-commit:, or rebase"}
	RuleBetterTree = checks.Rule{ID: "apply.better-tree", Severity: checks.Note,
		Title:  "another tree fits the series better",
		Source: "patchcheck: base-commit, then blob ids, then patches that apply, then paths",
		Fix:    "name that tree with --tree"}
)

// Rules lists the findings that this package makes itself.
func Rules() []checks.Rule {
	return []checks.Rule{RuleFails, RuleNotTried, RuleApplied, RuleMerged, RuleAmbiguous, RuleMoved, RuleInexact, RuleBetterTree,
		RuleOutputAlone, RuleSourceAlone, RuleRegenerated}
}

// diffs gives the file lists of the patches, and the errors of those that
// cannot be read.
func (g *gatherer) diffs() (files [][]*diff.File, errs []error) {
	for _, p := range g.s.Patches {
		fs, err := diff.Parse(p.Diff)
		if err != nil {
			fs = nil
		}
		files, errs = append(files, fs), append(errs, err)
	}
	return files, errs
}

// apply tries the series, patch by patch.
func (g *gatherer) apply() error {
	files, errs := g.diffs()
	o := diff.NewOverlay(g.t)
	g.res.Base = o
	_, res, err := diff.ApplySeries(o, files, diff.Options{}, errs...)
	if err != nil {
		return fmt.Errorf("%s cannot be read: %w", g.t, err)
	}
	g.res.Apply = res
	for i := range res.Patches {
		if res.Patches[i].Status != diff.OK {
			break
		}
		next, _, err := diff.Apply(o, files[i], diff.Options{})
		if err != nil {
			return err
		}
		o = next
		g.res.States = append(g.res.States, o)
	}
	return nil
}

// explain is the result in lines.
func explain(r *diff.Result) []string {
	var b strings.Builder
	if r.Explain(&b) != nil {
		return nil
	}
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	if n := len(lines) - maxExplain; n > 0 {
		lines = append(lines[:maxExplain:maxExplain], fmt.Sprintf("... %d more lines: patchcheck apply shows all of it", n))
	}
	return lines
}

// maxExplain is how many lines a finding shows of a patch that does not apply.
const maxExplain = 60

// appliedBy makes the findings of applying, with what the history knows of
// patches that do not.
func (g *gatherer) appliedBy(ctx context.Context) error {
	if g.o.NoApply {
		return nil
	}
	failed := 0
	inexact, known := []string{}, 0
	seen := map[string]bool{}
	for i := range g.res.Apply.Patches {
		pr := &g.res.Apply.Patches[i]
		p := g.s.Patches[i]
		w := checks.Where{Patch: p.Index}
		r := pr.Result
		switch pr.Status {
		case diff.OK:
			g.placed(w, r)
			for _, f := range r.Files {
				if seen[f.Path] {
					continue // an earlier patch of the series changed it
				}
				seen[f.Path] = true
				switch f.Base {
				case diff.BaseDiffers:
					known++
					inexact = append(inexact, fmt.Sprintf("%s: made against %.12s, the tree has %.12s", f.Path, f.WantOID, f.TreeOID))
				case diff.BaseMatch:
					known++
				}
			}
		case diff.Failed:
			failed = p.Index
			g.failed(ctx, i, w, r)
		case diff.NotTried:
			what := "it would apply alone"
			if !pr.Alone {
				what = "alone, " + r.Class.Headline()
			}
			g.found(RuleNotTried.New(w, "not tried, since patch %d does not apply; %s", failed, what))
		}
	}
	// The rule for base-commit says it when the series has one.
	if len(inexact) > 0 && g.s.BaseCommit == "" {
		f := RuleInexact.New(checks.Where{}, "%d of %d touched files of %s are not those that the series was made against", len(inexact), known, g.t.Spec)
		f.Evidence = inexact
		if g.repo != nil {
			if c := g.repo.base(ctx, g.s); c != "" {
				f.Evidence = append(f.Evidence, c)
			}
		}
		g.found(f)
	}
	return nil
}

// placed reports hunks that were taken elsewhere than they say.
func (g *gatherer) placed(w checks.Where, r *diff.Result) {
	for _, f := range r.Files {
		off, first := 0, 0
		for _, h := range f.Hunks {
			at := checks.Where{Patch: w.Patch, File: f.Path, Line: h.FoundLine, Hunk: h.Header}
			if h.Class == diff.Ambiguous {
				fd := RuleAmbiguous.New(at, "a hunk was taken at line %d, and fits as well at %s", h.FoundLine, numbers(h.Others))
				g.found(fd)
			}
			if h.Offset != 0 {
				if off == 0 {
					first = h.Offset
				}
				off++
			}
		}
		if off > 0 && g.o.Strict {
			g.found(RuleMoved.New(checks.Where{Patch: w.Patch, File: f.Path}, "%d of %d hunks apply at an offset, the first %+d lines", off, len(f.Hunks), first))
		}
	}
}

func numbers(ns []int) string {
	var out []string
	for _, n := range ns[:min(len(ns), 5)] {
		out = append(out, fmt.Sprintf("line %d", n))
	}
	if len(out) == 0 {
		return "another place"
	}
	return strings.Join(out, ", ")
}

// failed reports the patch that does not apply.
func (g *gatherer) failed(ctx context.Context, i int, w checks.Where, r *diff.Result) {
	p := g.s.Patches[i]
	all, apply, present, overtaken := r.HunkCounts()
	by := ""
	var evidence []string
	if g.repo != nil {
		if c := g.repo.appliedBy(ctx, p); c != "" {
			by = c
			evidence = append(evidence, "the same change is commit "+c)
		}
	}
	counts := ""
	if all > 0 {
		counts = fmt.Sprintf(": of %d hunks, %d stand in the tree, %d were overtaken by later changes, %d would still apply", all, present, overtaken, apply)
	}
	var newer []string
	if g.repo != nil && overtaken > 0 {
		newer = g.repo.overtakenBy(ctx, r)
	}
	merge := ""
	if g.repo != nil && by == "" {
		merge = g.threeWay(ctx, i)
	}
	if merge != "" {
		evidence = append(evidence, "three-way merge with the blobs of the index lines: "+merge)
	}
	evidence = append(append(evidence, newer...), explain(r)...)
	switch {
	case r.Class == diff.AlreadyApplied || by != "":
		f := RuleApplied.New(w, "%s holds the patch already", g.t.Spec)
		if by != "" {
			f.Message += ", as commit " + by
		}
		f.Evidence = evidence
		g.found(f)
	default:
		reason := r.Reason
		if reason == "" {
			reason = r.Class.Headline()
		}
		class := strings.ReplaceAll(string(r.Class), "_", " ")
		f := RuleFails.New(w, "does not apply to %s: %s (%s)", g.t.Spec, strings.TrimSuffix(reason, "."), class)
		if present+overtaken > 0 {
			f.Message = fmt.Sprintf("does not apply to %s (%s)%s", g.t.Spec, class, counts)
		}
		switch {
		case merge == mergesClean:
			f.Message += "; git am -3 merges it without a conflict"
			f.Fix = "rebase: git am -3, then check what the merge made of it"
		case r.Hint != "":
			f.Fix = r.Hint
		}
		for _, fr := range r.Files {
			if fr.Applies || fr.Class == diff.AlreadyApplied && f.Where.File == "" && len(r.Files) > 1 {
				continue
			}
			f.Where.File = fr.Path
			if i := slices.IndexFunc(fr.Hunks, func(h diff.HunkResult) bool { return !h.Applies && !h.Present }); i >= 0 {
				f.Where.Line, f.Where.Hunk = fr.Hunks[i].FoundLine, fr.Hunks[i].Header
			}
			break
		}
		f.Evidence = evidence
		g.found(f)
	}
	if r.LooksMerged() {
		f := RuleMerged.New(w, "this looks like an old patch that %s holds in a later form: %d of %d hunks stand in the tree, %d were overtaken", g.t.Spec, present, all, overtaken)
		if !p.Date.IsZero() {
			f.Evidence = append(f.Evidence, "the mail is of "+p.Date.Format("2006-01-02"))
		}
		f.Evidence = append(f.Evidence, newer...)
		for _, fr := range r.Files {
			for i, h := range fr.Hunks {
				f.Evidence = append(f.Evidence, fmt.Sprintf("%s, hunk %d of %d: %s", fr.Path, i+1, len(fr.Hunks), h.Short()))
			}
		}
		g.found(f)
	}
}

const mergesClean = "clean"

// threeWay says what git am -3 would make of a patch that does not apply:
// "clean", "conflict", or why it cannot be tried; "" when nothing is known.
func (g *gatherer) threeWay(ctx context.Context, i int) string {
	files, err := diff.Parse(g.s.Patches[i].Diff)
	if err != nil {
		return ""
	}
	ctx, cancel := g.repo.bounded(ctx)
	defer cancel()
	_, r, err := diff.Apply(g.last(), files, diff.Options{Blob: g.repo.repo.Blob, Context: ctx})
	if err != nil {
		return ""
	}
	return r.ThreeWay
}

// candidates tries the series on the other trees, too.
func (g *gatherer) candidates(ctx context.Context) error {
	if len(g.o.Others) == 0 {
		return nil
	}
	files, _ := g.diffs()
	trees := []diff.NamedTree{{Name: g.t.Spec, Tree: g.t, Commit: g.t.Commit}}
	for _, t := range g.o.Others {
		trees = append(trees, diff.NamedTree{Name: t.Spec, Tree: t, Commit: t.Commit})
	}
	cs := diff.Candidates(trees, files, g.s.BaseCommit, diff.Options{Context: ctx})
	g.res.Candidates = cs
	mine := slices.IndexFunc(cs, func(c diff.Candidate) bool { return c.Name == g.t.Spec })
	if mine <= 0 || g.o.NoApply {
		return nil
	}
	a, b := cs[0], cs[mine]
	if a.BaseCommit == b.BaseCommit && a.BlobsMatched == b.BlobsMatched && a.Applied == b.Applied && a.PathsPresent == b.PathsPresent {
		return nil // equal; the order is the user's
	}
	f := RuleBetterTree.New(checks.Where{}, "%s fits the series better than %s", a.Name, b.Name)
	var out strings.Builder
	if diff.ExplainCandidates(&out, cs) == nil {
		f.Evidence = strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	}
	g.found(f)
	return nil
}
