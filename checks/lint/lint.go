// SPDX-License-Identifier: Apache-2.0

// Package lint owns the mail-time rules: what a maintainer would send back
// about a series before running any of it. It looks at the decoded mails and
// at Facts handed in; it reads no files, runs no programs and knows no
// network. What the tree's own scripts say comes in as Facts.Scripts.
//
// The default profile is quiet: a rule that is often broken by patches that
// maintainers took is Strict, or gives one note for a whole patch. The rules
// that only some maintainers have are in profiles/, one data file each, chosen
// by the touched paths.
package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"patchcheck/checks"
	"patchcheck/patches"
)

// Options choose which rules speak.
type Options struct {
	// Strict adds the rules that are off by default, and tightens limits.
	Strict bool
	// Profiles names the maintainer profiles to use whatever the paths; nil
	// chooses them by the touched paths, a list with "none" uses none.
	Profiles []string
	// Mailless says that the series comes from a git range: what only exists
	// once mails are made (cover letter, base-commit, recipients) is not
	// missed.
	Mailless bool
	// Part says that the input is one mail of a series, as hooks give it: the
	// other parts and what they say are not missed.
	Part bool
}

// Check applies every rule to the series. Findings come in the order of the
// series: the whole first, then patch by patch.
func Check(s *patches.Series, f Facts, o Options) []checks.Finding {
	l := &linter{s: s, f: f, o: o, profiles: profilesFor(s, o.Profiles)}
	l.problems()
	l.series()
	l.claims()
	for _, p := range s.Patches {
		l.p = p
		l.use = l.profilesOf(p)
		l.subject()
		l.message()
		l.trailers()
		l.diffText()
		l.style()
	}
	l.scripts()
	slices.SortStableFunc(l.out, func(a, b checks.Finding) int { return cmp.Compare(a.Where.Patch, b.Where.Patch) })
	return l.out
}

// linter is the state of one Check.
type linter struct {
	s        *patches.Series
	f        Facts
	o        Options
	profiles []*Profile // that fit the series

	p   *patches.Patch // looked at; nil for the series as a whole
	use []*Profile     // that fit p; those of the series while p is nil
	out []checks.Finding
	// same counts findings by patch and rule, to bound them.
	same map[sameKey]int
}

type sameKey struct {
	patch int
	id    string
}

// mostSame is how often one rule may speak about one patch: a mail made to
// flood its reader gets no further.
const mostSame = 20

// rule gives the rule as it holds for the patch looked at, with the severity
// and source of the first profile that names it.
func (l *linter) rule(id string) (r checks.Rule, on bool) {
	r, ok := ruleByID[id]
	if !ok {
		panic("checks/lint: no rule " + id)
	}
	use := l.use
	if l.p == nil {
		use = l.profiles
	}
	for _, pr := range use {
		if sev, ok := pr.Rules[id]; ok {
			r.Severity, r.Source = checks.Severity(sev), pr.Source
			return r, true
		}
	}
	return r, !r.Strict || l.o.Strict && !ProfileOnly(id)
}

// ProfileOnly reports whether a rule is a custom of some maintainers: it
// speaks only where a profile names it, not with Options.Strict.
func ProfileOnly(id string) bool { return slices.Contains(customs, id) }

var customs = []string{"subject.capital", "subject.tree-tag", "trailer.order", "trailer.combined", "trailer.stable-unwanted", "series.list-missing",
	"series.one-side", "series.reposted-early", "style.variable-order", "style.kernel-doc", "style.function-name", "style.errno-on-wire"}

// on reports whether a rule is wanted, for callers that save work.
func (l *linter) on(id string) bool { _, on := l.rule(id); return on }

// add reports a finding about the patch looked at, with the lines that prove
// it.
func (l *linter) add(id string, evidence []string, format string, args ...any) {
	l.at(id, checks.Where{}, evidence, format, args...)
}

// at is add with a place.
func (l *linter) at(id string, w checks.Where, evidence []string, format string, args ...any) {
	r, on := l.rule(id)
	if !on {
		return
	}
	if l.p != nil {
		w.Patch = l.p.Index
	}
	k := sameKey{w.Patch, id}
	if l.same == nil {
		l.same = map[sameKey]int{}
	}
	if l.same[k]++; l.same[k] > mostSame {
		return
	}
	f := r.New(w, format, args...)
	if len(f.Message) > 1000 {
		f.Message = strings.ToValidUTF8(f.Message[:1000], "") + "..."
	}
	f.Evidence = shorten(evidence)
	l.out = append(l.out, f)
}

// shorten keeps evidence readable: a few lines, none of them endless.
func shorten(lines []string) []string {
	const most, width = 5, 200
	var out []string
	for i, s := range lines {
		if i == most {
			out = append(out, fmt.Sprintf("... and %d more", len(lines)-most))
			break
		}
		if len(s) > 4*width {
			s = strings.ToValidUTF8(s[:4*width], "")
		}
		if r := []rune(s); len(r) > width {
			s = string(r[:width]) + "..."
		}
		out = append(out, s)
	}
	return out
}

// problems passes on what reading the series showed.
func (l *linter) problems() {
	for _, pr := range l.s.Problems {
		if l.o.Part && partOnly[pr.ID] {
			continue
		}
		w := checks.Where{Patch: pr.Patch}
		r, ok := problemRules[pr.ID]
		if !ok {
			r = checks.Rule{ID: pr.ID, Severity: checks.Warning, Title: pr.ID}
		}
		f := r.New(w, "%s", pr.Message)
		l.out = append(l.out, f)
	}
}

// partOnly are the problems that every single mail of a series has.
var partOnly = map[string]bool{"series.missing-part": true, "series.total-unknown": true, "series.partial-reroll": true, "series.extra-part": true}

var problemRules = func() map[string]checks.Rule {
	m := map[string]checks.Rule{}
	for _, r := range patches.Rules {
		m[r.ID] = r
	}
	return m
}()

// scripts adds the findings of the tree's scripts, and takes out our own ones
// that they repeat with more knowledge.
func (l *linter) scripts() {
	type key struct {
		id    string
		patch int
	}
	told := map[key]bool{}
	for _, f := range l.f.Scripts {
		for suffix, ids := range toldByScripts {
			if strings.HasSuffix(f.ID, suffix) {
				for _, id := range ids {
					told[key{id, f.Where.Patch}] = true
				}
			}
		}
	}
	l.out = slices.DeleteFunc(l.out, func(f checks.Finding) bool { return told[key{f.ID, f.Where.Patch}] })
	l.out = append(l.out, l.f.Scripts...)
}

// toldByScripts maps the end of a script finding's id (checkpatch's type in
// our spelling) to the rules of ours that say the same.
var toldByScripts = map[string][]string{
	"trailing-whitespace": {"diff.trailing-space"},
	"dos-line-endings":    {"diff.added-cr"},
	"missing-eof-newline": {"diff.no-newline"},
	"execute-permissions": {"diff.mode"},
	"avoid-bug":           {"style.new-bug"},
	"maintainer.missing":  {"series.list-missing"},
}
