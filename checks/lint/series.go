// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchcheck/patches"
	"patchcheck/patches/diff"
)

// longSeries is the number of patches that submitting-patches.rst and the
// profiles give as the most to post at once.
const longSeries = 15

// series applies the rules about the series as a whole.
func (l *linter) series() {
	s := l.s
	if !l.o.Part || s.Cover != nil {
		l.cover()
	}
	l.changelog()
	l.base()
	for _, p := range s.Patches {
		l.p = p
		l.use = l.profilesOf(p)
		l.patchDiffstat()
	}
	l.p = nil
	l.coverDiffstat()
	if n := max(s.Total, len(s.Patches)); n > longSeries {
		l.add("series.too-long", nil, "the series has %d patches; reviewers ask for %d or fewer at a time", n, longSeries)
	}
	l.subjects()
	l.threading()
	l.recipients()
	l.sides()
	l.subsystems()
}

func (l *linter) cover() {
	s := l.s
	if s.Cover == nil {
		if l.o.Mailless || len(s.Problems) > 0 && slices.ContainsFunc(s.Problems, func(p patches.Problem) bool { return p.Fatal }) {
			return
		}
		from := 3
		for _, pr := range l.profiles {
			if pr.CoverFrom > 0 {
				from = min(from, pr.CoverFrom)
			}
		}
		if l.o.Strict {
			from = 2
		}
		if s.Total >= from && len(s.Patches) > 1 {
			l.add("series.cover-wanted", nil, "%d patches have no cover letter that says what they are for together", s.Total)
		}
		return
	}
	var why []string
	if strings.Contains(s.Cover.Subject, "*** SUBJECT HERE ***") {
		why = append(why, s.Cover.Subject)
	}
	if strings.Contains(s.Cover.Body, "*** BLURB HERE ***") {
		why = append(why, "*** BLURB HERE ***")
	}
	if len(why) > 0 {
		l.add("series.cover-empty", why, "the cover letter is git's template")
		return
	}
	if strings.TrimSpace(strings.Join(coverProse(s.Cover.Body), "")) == "" {
		l.add("series.cover-empty", nil, "the cover letter has no text of its own, only lists that git makes")
	}
}

var (
	shortlogHead = regexp.MustCompile(`^\S.*\(\d+\):$`)
	statLine     = regexp.MustCompile(`^ \S.* \| +(?:\d+( [+-]*)?|Bin.*)$`)
	statSum      = regexp.MustCompile(`^ (\d+) files? changed(?:, (\d+) insertions?\(\+\))?(?:, (\d+) deletions?\(-\))?$`)
	statOther    = regexp.MustCompile(`^ (?:create|delete|mode|rename|copy|rewrite) (?:mode|change|\S+ =>|.*\(\d+%\))`)
	baseLine     = regexp.MustCompile(`^(?:base-commit|prerequisite-[a-z-]+|change-id|prerequisite-patch-id|base-branch|base-tree): `)
)

// coverProse is the cover letter without what git and b4 write: shortlog,
// diffstat, base information, signature.
func coverProse(body string) []string {
	var out []string
	inLog := false
	for _, t := range strings.Split(body, "\n") {
		switch {
		case t == "-- ":
			return out
		case shortlogHead.MatchString(t):
			inLog = true
			continue
		case inLog && strings.HasPrefix(t, "  "):
			continue
		case statLine.MatchString(t), statSum.MatchString(t), statOther.MatchString(t), baseLine.MatchString(t), t == "---":
			continue
		}
		inLog = false
		out = append(out, t)
	}
	return out
}

// changelogMark finds the ways in which people head a list of changes between
// versions.
var changelogMark = regexp.MustCompile(`(?im)` + strings.Join([]string{
	`\bchange(?:s|d|log|[ -]log)?\b[^\n]{0,40}\bv(?:er(?:sion)?)?\.? ?\d`, // Changes in v2, changed since V1
	`\bv\d+ ?(?:-+>|=+>|→|\.\.\.?|–|to) ?v?\d+\b`,                         // v1 -> v2
	`^[ \t*#/-]*(?:patch )?v(?:ersion ?)?\d+(?:\.\d+)?(?: ?\([^)\n]*\))? ?[:,-]`,
	`^[ \t*#/=-]*v\d+[ \t=]*$`,
	`\b(?:since|from|over|vs\.?|against|to|in|between|after) (?:the )?(?:(?:last|previous|prior|earlier|first|second|original|rfc)(?: \w+)? (?:version|revision|posting|series|round|submission|iteration|patch|set)s?|rfc\b|v\d)`,
	`\b(?:changelog|change log|change history|revision history|version history|range-?diff|interdiff)\b`,
	`^[ \t*#/=-]*(?:history|changes|revisions?|delta|differences?)[ \t]*[:=-]`,
	`\bno (?:functional |code )?changes?\b|\bunchanged\b|\brebased?\b|\bresend\b|\bcollect(?:ed)? (?:tags|acks|reviews|r-?b)`,
	`^[ \t*-]*\(?(?:new|introduced|added|dropped|split|reworked|updated) in v\d`,
}, "|"))

// versionHead is the head of a list of changes within a commit message.
var versionHead = regexp.MustCompile(`(?i)^(?:v\d+(?: ?(?:->|=>|-) ?v?\d+)?|changes (?:in|since|from) v\d+|v\d+ changes)\s*:`)

func (l *linter) changelog() {
	s := l.s
	for _, p := range s.Patches {
		var ev []string
		for _, ln := range bodyLines(p) {
			if versionHead.MatchString(strings.TrimSpace(ln.text)) {
				ev = append(ev, ln.text)
			}
		}
		if len(ev) > 0 {
			l.p, l.use = p, l.profilesOf(p)
			l.add("series.changelog-in-message", ev, "the changes between versions are part of the commit message")
			l.p = nil
		}
	}
	if s.Version < 2 || s.Resend || l.o.Mailless || l.o.Part || len(s.Patches) == 0 {
		return
	}
	var texts []string
	if s.Cover != nil {
		texts = append(texts, s.Cover.Body)
	} else if slices.Contains(s.Missing, 0) {
		return
	}
	for _, p := range s.Patches {
		texts = append(texts, p.Appendix, p.Message, p.Tail)
		if p.Mail != nil {
			texts = append(texts, p.Mail.Appendix)
		}
	}
	for _, t := range texts {
		if changelogMark.MatchString(t[:min(len(t), 256<<10)]) {
			return
		}
	}
	if s.Cover == nil && len(s.Missing) > 0 {
		return // it may be in what is missing
	}
	l.add("series.changelog-missing", nil, "this is v%d, and neither the cover letter nor the text below the --- of a patch says what changed since v%d", s.Version, s.Version-1)
}

var fullID = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)

func (l *linter) base() {
	s := l.s
	switch {
	case s.BaseCommit == "":
		if !l.o.Mailless && !l.o.Part {
			l.add("series.base-missing", nil, "the series does not say which commit it is based on")
		}
	case !fullID.MatchString(strings.ToLower(s.BaseCommit)):
		l.add("series.base-malformed", []string{"base-commit: " + s.BaseCommit}, "base-commit %q is not a full commit id", s.BaseCommit)
	case l.f.Base != nil && !l.f.Base.Found && !l.f.HistoryCut:
		l.add("series.base-unknown", []string{"base-commit: " + s.BaseCommit}, "base-commit %.12s is not in %s", s.BaseCommit, l.tree())
	case l.f.Base != nil && !l.f.Base.Exact:
		why := "the series was tried on another commit"
		if !l.f.Base.Found {
			why = "that commit cannot be looked up there"
		}
		l.add("series.base-inexact", []string{"base-commit: " + s.BaseCommit}, "%s is not at base-commit %.12s: %s", l.tree(), s.BaseCommit, why)
	}
	if len(l.f.Prerequisites) == 0 && len(s.Prerequisites) > 0 {
		var ev []string
		for _, pr := range s.Prerequisites {
			ev = append(ev, "prerequisite-"+pr.Kind+": "+pr.Value)
		}
		l.add("series.prerequisite", ev, "the series needs %s, not looked up", plural(len(ev), "prerequisite"))
	}
	for _, pr := range s.Prerequisites {
		if found, looked := l.f.Prerequisites[pr.Value]; looked && !found {
			l.add("series.prerequisite-unknown", []string{"prerequisite-" + pr.Kind + ": " + pr.Value}, "prerequisite %s %.40s was not found in %s", pr.Kind, pr.Value, l.tree())
		}
	}
}

func (l *linter) tree() string {
	if l.f.Tree != "" {
		return l.f.Tree
	}
	return "the tree"
}

// stat is the summary line of a diffstat.
type stat struct {
	files, added, deleted int
	line                  string
}

// lastStat finds the last diffstat summary of a text.
func lastStat(text string) (stat, bool) {
	var st stat
	found := false
	for _, t := range strings.Split(text, "\n") {
		m := statSum.FindStringSubmatch(strings.TrimRight(t, " \t\r"))
		if m == nil {
			continue
		}
		n := func(s string) int { v, _ := strconv.Atoi(s); return v }
		st, found = stat{n(m[1]), n(m[2]), n(m[3]), strings.TrimSpace(t)}, true
	}
	return st, found
}

func (st stat) String() string {
	return fmt.Sprintf("%d files, +%d -%d", st.files, st.added, st.deleted)
}

func (l *linter) patchDiffstat() {
	p := l.p
	st, ok := lastStat(p.Appendix)
	if !ok || len(p.Files) == 0 || l.damaged(p.Index) {
		return
	}
	real, exact := sum(p.Files)
	if !exact {
		return
	}
	real.line = st.line
	if st != real {
		l.add("series.diffstat", []string{st.line}, "the diffstat says %s, the diff has %s", st, real)
	}
}

// sum counts a diff. It is not exact where a diffstat counts in another way.
func sum(files []*diff.File) (st stat, exact bool) {
	names := map[string]bool{}
	for _, f := range files {
		if f.IsBinary || f.IsCopy || names[f.Path()] {
			return st, false
		}
		names[f.Path()] = true
		st.files++
		st.added += f.Added
		st.deleted += f.Deleted
	}
	return st, true
}

// damaged says that the patch's diff could not be read whole.
func (l *linter) damaged(index int) bool {
	return slices.ContainsFunc(l.s.Problems, func(p patches.Problem) bool {
		return p.Patch == index && strings.HasPrefix(p.ID, "patch.")
	})
}

// coverDiffstat compares what holds whatever order the patches are in: the
// files, and how many lines the whole adds on balance.
func (l *linter) coverDiffstat() {
	s := l.s
	if s.Cover == nil || len(s.Missing) > 0 || len(s.Patches) != s.Total {
		return
	}
	st, ok := lastStat(s.Cover.Body)
	if !ok {
		return
	}
	touched, created := map[string]bool{}, map[string]bool{}
	var total stat
	for _, p := range s.Patches {
		if l.damaged(p.Index) {
			return
		}
		for _, f := range p.Files {
			if f.IsBinary || f.IsRename || f.IsCopy {
				return
			}
			touched[f.Path()] = true
			if f.IsNew {
				created[f.Path()] = true
			}
			if f.IsDelete && created[f.Path()] {
				return
			}
			total.added += f.Added
			total.deleted += f.Deleted
		}
	}
	total.files = len(touched)
	one := len(s.Patches) == 1
	switch {
	case one && (st.files != total.files || st.added != total.added || st.deleted != total.deleted):
	case !one && (st.files > total.files || st.added > total.added || st.deleted > total.deleted ||
		st.added-st.deleted != total.added-total.deleted):
	default:
		return
	}
	l.add("series.diffstat", []string{st.line}, "the cover letter's diffstat says %s, the patches have %s in sum", st, total)
}

// subjects finds patches that cannot be told apart.
func (l *linter) subjects() {
	first := map[string]int{}
	for _, p := range l.s.Patches {
		key := strings.ToLower(strings.Join(strings.Fields(p.Subject), " "))
		if key == "" {
			continue
		}
		if n, ok := first[key]; ok {
			l.p, l.use = p, l.profilesOf(p)
			l.add("subject.duplicate", []string{p.Subject}, "patch %d has the same subject", n)
			l.p = nil
			continue
		}
		first[key] = p.Index
	}
}

// threading looks at what the first mail answers to.
func (l *linter) threading() {
	s := l.s
	if s.Version < 2 && l.f.Previous == nil {
		return
	}
	var id string
	var when time.Time
	own := map[string]bool{}
	for _, p := range s.Patches {
		own[p.MessageID] = true
	}
	switch {
	case s.Cover != nil:
		own[s.Cover.MessageID] = true
		when = s.Cover.Date
		if s.Cover.Mail != nil {
			id = s.Cover.Mail.InReplyTo
		}
	case len(s.Patches) > 0:
		when = s.Patches[0].Date
		if m := s.Patches[0].Mail; m != nil {
			id = m.InReplyTo
			if !m.Date.IsZero() {
				when = m.Date
			}
		}
	}
	if s.Version >= 2 && id != "" && !own[id] && s.Total > 1 && (s.Cover != nil || len(s.Missing) == 0) {
		l.add("series.in-reply-to", []string{"In-Reply-To: <" + id + ">"}, "v%d answers an older mail instead of starting a thread", s.Version)
	}
	if prev := l.f.Previous; prev != nil && !prev.Date.IsZero() && !when.IsZero() {
		if d := when.Sub(prev.Date); d >= 0 && d < 24*time.Hour && !s.Resend {
			l.add("series.reposted-early", nil, "v%d was posted only %s before", prev.Version, d.Round(time.Minute))
		}
	}
}

// recipients checks the lists that the profiles name. Without any recipient
// the mails were never meant to show them: git send-email adds them later.
func (l *linter) recipients() {
	if l.o.Mailless {
		return
	}
	have := map[string]bool{}
	any := false
	note := func(addr string) { have[strings.ToLower(addr)] = true; any = true }
	for _, p := range l.s.Patches {
		if p.Mail == nil {
			continue
		}
		for _, a := range p.Mail.To {
			note(a.Addr)
		}
		for _, a := range p.Mail.Cc {
			note(a.Addr)
		}
	}
	if m := l.s.Cover; m != nil && m.Mail != nil {
		for _, a := range append(slices.Clone(m.Mail.To), m.Mail.Cc...) {
			note(a.Addr)
		}
	}
	if !any {
		return
	}
	for _, pr := range l.profiles {
		for _, list := range pr.Lists {
			if !have[list] {
				l.add("series.list-missing", nil, "%s is in neither To nor Cc, and %s patches go there", list, pr.Title)
			}
		}
	}
}

// sides finds series that change both sides of a protocol that have separate
// maintainers.
func (l *linter) sides() {
	for _, pr := range l.profiles {
		if len(pr.Sides) < 2 {
			continue
		}
		seen := make([][]string, len(pr.Sides))
		for _, path := range TouchedPaths(l.s) {
			for i, side := range pr.Sides {
				if side.match(path) {
					seen[i] = append(seen[i], path)
				}
			}
		}
		var names, ev []string
		for i, paths := range seen {
			if len(paths) > 0 {
				names = append(names, pr.Sides[i].Name)
				ev = append(ev, pr.Sides[i].Name+": "+strings.Join(paths[:min(len(paths), 3)], " "))
			}
		}
		if len(names) > 1 {
			l.add("series.one-side", ev, "the series changes %s, which have separate maintainers", strings.Join(names, " and "))
		}
	}
}

// subsystems finds patches of more than one subsystem by the tree's
// MAINTAINERS.
func (l *linter) subsystems() {
	if len(l.f.Subsystems) == 0 || !l.on("series.mixed-subsystems") {
		return
	}
	for _, p := range l.s.Patches {
		var common []string
		var all []string
		first := true
		for _, f := range p.Files {
			subs, ok := l.f.Subsystems[f.Path()]
			if !ok || len(subs) == 0 {
				continue
			}
			all = append(all, subs[0])
			if first {
				common, first = slices.Clone(subs), false
				continue
			}
			common = slices.DeleteFunc(common, func(s string) bool { return !slices.Contains(subs, s) })
		}
		slices.Sort(all)
		all = slices.Compact(all)
		if !first && len(common) == 0 && len(all) > 1 && len(all) <= 4 {
			l.p, l.use = p, l.profilesOf(p)
			l.add("series.mixed-subsystems", all, "the patch changes files of %d subsystems that have no maintainer entry in common", len(all))
			l.p = nil
		}
	}
}
