// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"patchcheck/checks"
	"patchcheck/patches"
)

// line is one line of a commit message.
type line struct {
	n    int // 1-based, in Patch.Message
	text string
}

// lineBytes is how much of one line of a message is looked at. People's lines
// are shorter; others must not cost time.
const lineBytes = 8 << 10

// bodyLines are the lines of the commit message that belong to no trailer.
func bodyLines(p *patches.Patch) []line {
	tag := map[int]bool{}
	for _, t := range p.Trailers {
		tag[t.Line] = true
	}
	var out []line
	inTag := false
	for i, t := range strings.Split(p.Message, "\n") {
		switch {
		case tag[i+1]:
			inTag = true
			continue
		case inTag && t != "" && (t[0] == ' ' || t[0] == '\t'):
			continue // continuation
		}
		inTag = false
		if len(t) > lineBytes {
			t = t[:lineBytes]
		}
		out = append(out, line{i + 1, t})
	}
	return out
}

// quoted says that a message line is not the author's prose: indented or
// quoted text, logs, tables, links.
func quoted(t string) bool {
	if t == "" {
		return false
	}
	if t[0] == ' ' || t[0] == '\t' || t[0] == '>' || t[0] == '|' || t[0] == '#' || t[0] == '$' {
		return true
	}
	return logLine.MatchString(t) || strings.Contains(t, "://") || strings.Contains(t, " | ") || strings.Contains(t, "\t") ||
		strings.Contains(t, "   ")
}

// logLine is what kernels, compilers and tools print.
var logLine = regexp.MustCompile(strings.Join([]string{
	`^<?\d*>?\[ *\d+\.\d+`,       // [   12.345678] of dmesg
	`^\S+\.[chSo](?:\.\w+)?:\d+`, // file.c:12: of compilers
	`^(?:WARNING|ERROR|BUG|KASAN|error|warning|Call Trace|RIP|Code|make\[?\d*)[:\s]`,
	`^(?:[A-Z]{2,3}: ?[0-9a-f]{4})|\+0x[0-9a-f]+/0x[0-9a-f]+`,
	`^[-+=*_~]{4,}`,
	`\b[0-9a-f]{12,16}\b`, // addresses
	`^[\w.+-]+: [A-Z]+\b`, // tool: WORD
	`^(?:CC|LD|AR|MODPOST) `,
	`^\S*[/\\]\S*$`, // a path alone
	`^(?:\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d)`,
}, "|"))

var (
	revert      = regexp.MustCompile(`^(?:Revert|Reapply|Revive) "`)
	subjectForm = regexp.MustCompile(`^(?:\[[^\]]*\] ?)*[A-Za-z0-9_][^:]{0,80}?:(?: |$)`)
	quotedForm  = regexp.MustCompile(`^[a-zA-Z0-9_./+\-]+(?:, ?[a-zA-Z0-9_./+\-]+)*:\S`)
	fixupForm   = regexp.MustCompile(`(?i)^(?:fixup!|squash!|amend!|wip\b|tmp\b|temp\b ?(?:commit|:)|do ?not ?merge|dnm\b|\[?hack\]?\b)`)
)

// subject applies the rules about the subject line.
func (l *linter) subject() {
	p := l.p
	title := strings.TrimSpace(p.Subject)
	raw := p.RawSubject
	if m := p.Mail; m != nil && raw != "" && !m.Subject.Patch && !l.o.Mailless && !m.Subject.Reply {
		l.add("subject.no-patch-tag", []string{raw}, "the subject %q has no [PATCH] in front", raw)
	}
	if title == "" {
		return
	}
	if fixupForm.MatchString(title) {
		l.add("subject.fixup", []string{title}, "%q is a commit that is not finished", title)
		return
	}
	isRevert := revert.MatchString(title)
	switch {
	case isRevert:
	case subjectForm.MatchString(title), quotedForm.MatchString(title):
		if !l.subjectKnown(title) {
			break
		}
	default:
		l.add("subject.no-prefix", []string{title}, "%q names no subsystem", title)
	}
	if n := utf8.RuneCountInString(title); n > columns && !isRevert {
		l.add("subject.length", []string{title}, "the subject has %d characters; 75 are the most", n)
	}
	if strings.HasSuffix(title, ".") && !strings.HasSuffix(title, "..") && !strings.HasSuffix(title, "etc.") {
		l.add("subject.period", []string{title}, "the subject ends with a period")
	}
	prefix, summary := splitSubject(title)
	if w, base := notImperative(summary); w != "" && !isRevert {
		l.add("subject.imperative", []string{title}, "%q is not in the imperative: %q", w, base)
	}
	if name := lastPart(prefix); strings.ContainsRune(name, '.') && (path.Ext(name) == ".c" || path.Ext(name) == ".h") {
		l.add("subject.file-name", []string{title}, "%q is a file, not a subsystem", prefix)
	}
	if r, _ := utf8.DecodeRuneInString(summary); prefix != "" && unicode.IsLower(r) && !codeWord(summary) {
		l.add("subject.capital", []string{title}, "the summary %q starts with a small letter", summary)
	}
	l.treeTag()
}

// splitSubject cuts a title into its prefix ("net/mlx5: E-Switch") and the
// summary behind it.
func splitSubject(title string) (prefix, summary string) {
	if i := strings.LastIndex(title, ": "); i >= 0 && i < 60 && !strings.ContainsAny(title[:i], "\"(") {
		return title[:i], strings.TrimSpace(title[i+2:])
	}
	if i := strings.Index(title, ": "); i >= 0 {
		return title[:i], strings.TrimSpace(title[i+2:])
	}
	return "", title
}

func lastPart(prefix string) string {
	f := strings.FieldsFunc(prefix, func(r rune) bool { return r == ':' || r == ' ' || r == '/' })
	if len(f) == 0 {
		return ""
	}
	return f[len(f)-1]
}

// codeWord says that a summary begins with an identifier, which keeps its
// spelling.
func codeWord(summary string) bool {
	w, _, _ := strings.Cut(summary, " ")
	return strings.ContainsAny(w, "_()./0123456789:-'\"") || strings.ToLower(w) != w
}

// subjectKnown compares the prefix with those that the history of the touched
// files uses. It says nothing of files without enough history.
func (l *linter) subjectKnown(title string) bool {
	if len(l.f.Prefixes) == 0 {
		return true
	}
	lower := strings.ToLower(title)
	var best []string
	total, looked := 0, 0
	for _, f := range l.p.Files {
		for _, name := range []string{f.Old, f.New} {
			px, ok := l.f.Prefixes[name]
			if !ok || name == "" {
				continue
			}
			looked++
			for i, pr := range px {
				total += pr.Count
				head := strings.ToLower(pr.Text)
				if strings.HasPrefix(lower, head+":") || strings.HasPrefix(lower, head+" ") || strings.HasPrefix(lower, head+"/") ||
					strings.HasPrefix(head, strings.SplitN(lower, ":", 2)[0]) {
					return true
				}
				if i < 3 && !slices.Contains(best, pr.Text) {
					best = append(best, pr.Text)
				}
			}
		}
	}
	// A few commits say little about the customs of a file, and a patch of
	// many files rightly has the prefix of none of them.
	if total < 10 || looked == 0 || len(l.p.Files) > 4 || len(best) == 0 {
		return true
	}
	prefix, _ := splitSubject(title)
	r, on := l.rule("subject.prefix-unusual")
	if on {
		f := r.New(checks.Where{Patch: l.p.Index}, "%q is not a prefix that the history of the files uses: %s", prefix, strings.Join(best[:min(len(best), 3)], ", "))
		f.Evidence = shorten([]string{title})
		l.out = append(l.out, f)
	}
	return false
}

// treeTag asks for the word in the brackets that names the tree.
func (l *linter) treeTag() {
	if l.o.Mailless || l.p.Mail == nil || l.s.RFC || l.p != l.s.Patches[0] {
		return // said once, of the first patch
	}
	for _, pr := range l.use {
		if len(pr.TreeTags) == 0 {
			continue
		}
		for _, t := range l.p.Mail.Subject.Tags {
			if slices.ContainsFunc(pr.TreeTags, func(tag string) bool {
				return strings.EqualFold(t, tag) || strings.HasPrefix(strings.ToLower(t), tag+"-") || strings.HasPrefix(strings.ToLower(t), tag+".")
			}) {
				return
			}
		}
		l.add("subject.tree-tag", []string{l.p.RawSubject}, "the subject does not say which tree the patch is for: %s", strings.Join(pr.TreeTags[:min(len(pr.TreeTags), 2)], " or "))
		return
	}
}

// notImperative finds a first word in the past, the third person or the
// -ing form. It knows the verbs that patches begin with and no others: most
// words that end in s, ed or ing are nouns or names.
func notImperative(summary string) (word, base string) {
	w, rest, _ := strings.Cut(summary, " ")
	lower := strings.ToLower(w)
	base, ok := verbForms[lower]
	if !ok {
		return "", ""
	}
	next, _, _ := strings.Cut(rest, " ")
	switch strings.ToLower(next) {
	case "", "for", "of", "to", "in", "from", "on", "with", "and", "is", "are", "path", "-":
		return "", "" // "fixes for ...", "cleanups": a noun
	}
	return w, base
}

var verbForms = func() map[string]string {
	m := map[string]string{}
	// Verbs whose forms are not also nouns or adjectives in a title.
	for _, v := range strings.Fields("add remove replace convert introduce implement rename allow avoid ensure prevent refactor simplify delete drop enable disable handle improve convert correct create extend export factor initialize increase reduce switch make") {
		third, past, ing := v+"s", v+"ed", v+"ing"
		switch {
		case strings.HasSuffix(v, "e"):
			past, ing = v+"d", v[:len(v)-1]+"ing"
		case strings.HasSuffix(v, "y"):
			third, past = v[:len(v)-1]+"ies", v[:len(v)-1]+"ied"
		case strings.HasSuffix(v, "ch"):
			third = v + "es"
		}
		switch v {
		case "drop":
			past, ing = "dropped", "dropping"
		case "make":
			past = "made"
		}
		for _, f := range []string{third, past, ing} {
			m[f] = v
		}
	}
	m["fixed"], m["fixing"], m["fixes"] = "fix", "fix", "fix"
	m["updated"], m["updating"] = "update", "update"
	m["changed"], m["changing"] = "change", "change"
	m["moved"], m["moving"] = "move", "move"
	for _, noun := range []string{"exports", "switches", "handles", "handling", "factors", "increases", "creates", "reduced", "improved", "corrects", "extended", "delete", "renames", "drops"} {
		delete(m, noun)
	}
	return m
}()

var (
	commitWord = regexp.MustCompile(`(?i)\b(commits?)(\s+)([0-9a-f]{7,40})\b`)
	titleAfter = regexp.MustCompile(`^\s*(?:upstream)?[,:;]?\s*\(?\s*["'“‘]`)
	firstWords = regexp.MustCompile(`(?i)^(?:this patch|this commit|this change|in this patch|i (?:have |had )?(?:added|changed|fixed|removed|made|think)|we (?:add|fix|change|remove))\b`)
	changeID   = regexp.MustCompile(`^\s*Change-Id:\s*I[0-9a-f]{6,}`)
	debris     = regexp.MustCompile(`^(?:# (?:Please enter the commit|Conflicts:|On branch|Changes to be committed|Your branch)|Conflicts:\s*$|#\s+(?:modified|new file|deleted):\s|(?:<{7}|>{7}) \S)`)
	toolFooter = regexp.MustCompile(`(?i)(?:generated|created|written) (?:with|by) \[[^\]]+\]\(https?://|^🤖|^Generated (?:with|by) (?:Claude|Copilot|ChatGPT|Cursor|Gemini|Codex)\b`)
	archives   = regexp.MustCompile(`(?i)https?://(?:www\.)?(?:lkml\.org/|marc\.info/|(?:www\.)?spinics\.net/|(?:www\.)?mail-archive\.com/|lists\.infradead\.org/pipermail/|patchwork\.kernel\.org/|patchwork\.ozlabs\.org/)\S*`)
)

// commitRef is a commit that the text of a message names.
type commitRef struct {
	id, title string
	line      int
	whole     string // "commit 0123456"
	upstream  bool   // names where a backport comes from
	reverts   bool
}

// commitRefs finds "commit ID" in the prose of a message, with the title that
// stands behind it, also when a line break lies between.
func commitRefs(p *patches.Patch) []commitRef {
	var sb strings.Builder
	var starts []line // n: message line; text unused; by offset in sb
	var offs []int
	for _, ln := range bodyLines(p) {
		offs = append(offs, sb.Len())
		starts = append(starts, ln)
		t := ln.text
		if t != "" && (t[0] == '>' || strings.HasPrefix(t, "    ") || t[0] == '\t') && !strings.Contains(t, `("`) {
			t = "" // quoted text is not the author's
		}
		sb.WriteString(t)
		sb.WriteByte('\n')
	}
	text := sb.String()
	var out []commitRef
	for _, m := range commitWord.FindAllStringSubmatchIndex(text, -1) {
		id := text[m[6]:m[7]]
		if !strings.ContainsAny(id, "0123456789") {
			continue // a word of the letters a to f
		}
		i := sort.SearchInts(offs, m[0]+1) - 1 // the last line that begins at or before the match
		r := commitRef{id: id, line: starts[i].n, whole: strings.Join(strings.Fields(text[m[0]:m[1]]), " ")}
		rest := text[m[1]:]
		if loc := titleAfter.FindStringIndex(rest); loc != nil {
			r.title = titleIn(rest[loc[1]-1:])
		}
		next := strings.ToLower(strings.TrimSpace(rest[:min(len(rest), 12)]))
		r.upstream = strings.HasPrefix(next, "upstream") || strings.HasPrefix(next, "]")
		before := strings.ToLower(text[max(0, m[0]-16):m[0]])
		r.reverts = strings.HasSuffix(before, "reverts ") || strings.HasSuffix(before, "reverts\n") || strings.HasSuffix(before, "upstream ") ||
			strings.HasSuffix(before, "from ")
		out = append(out, r)
	}
	return out
}

// titleIn reads a quoted title that may go over two lines; text begins with
// the quotation mark.
func titleIn(text string) string {
	open, n := utf8.DecodeRuneInString(text)
	end := map[rune]string{'"': `"`, '\'': `'`, '“': "”", '‘': "’"}[open]
	body := text[n:]
	if len(body) > 400 {
		body = body[:400]
	}
	// A title may hold quotation marks itself: the closing one stands before
	// the bracket.
	i := strings.Index(body, end+")")
	if j := strings.Index(body, end); i < 0 || strings.Count(body[:i], "\n") > 2 {
		i = j
	}
	if i < 0 {
		return strings.Join(strings.Fields(strings.SplitN(body, "\n\n", 2)[0]), " ")
	}
	return strings.Join(strings.Fields(body[:i]), " ")
}

// message applies the rules about the commit message and the mail around it.
func (l *linter) message() {
	p := l.p
	body := bodyLines(p)
	l.mailForm()
	empty := true
	for _, ln := range body {
		if strings.TrimSpace(ln.text) != "" {
			empty = false
			break
		}
	}
	if empty && p.Subject != "" {
		l.add("message.empty", nil, "the message has nothing but its subject")
	}
	l.wrap(body)

	var debrisEv, footers, firsts, foreign []string
	for i, ln := range body {
		t := ln.text
		if changeID.MatchString(t) {
			l.add("message.change-id", []string{t}, "a Gerrit Change-Id is left in the message")
		}
		if debris.MatchString(t) {
			debrisEv = append(debrisEv, t)
		}
		if toolFooter.MatchString(t) {
			footers = append(footers, t)
		}
		if firstWords.MatchString(t) && (i == 0 || strings.TrimSpace(body[i-1].text) == "") {
			firsts = append(firsts, t)
		}
		if strings.Contains(t, "://") {
			foreign = append(foreign, archives.FindAllString(t, -1)...)
		}
	}
	for _, t := range p.Trailers {
		if strings.EqualFold(t.Key, "Change-Id") {
			l.add("message.change-id", []string{t.Key + ": " + t.Value}, "a Gerrit Change-Id is left in the message")
		}
		foreign = append(foreign, archives.FindAllString(t.Value, -1)...)
		if toolFooter.MatchString(t.Key + ": " + t.Value) {
			footers = append(footers, t.Key+": "+t.Value)
		}
		if linkKey(t.Key) && isURL(t.Value) {
			l.add("message.link-form", []string{t.Key + ": " + t.Value}, "%s: holds a link; Link: and Closes: are the tags for that", t.Key)
		}
	}
	if len(debrisEv) > 0 {
		l.add("message.debris", debrisEv, "leftovers of git in the message: %q", strings.TrimSpace(debrisEv[0]))
	}
	if len(footers) > 0 {
		l.add("message.tool-footer", footers, "the message has the footer of a coding assistant")
	}
	if len(firsts) > 0 {
		l.add("message.first-person", firsts, "the message says %q instead of giving orders to the code", firstWords.FindString(firsts[0]))
	}
	if len(foreign) > 0 {
		l.add("message.archive", foreign, "a link goes to another archive than lore.kernel.org: %s", foreign[0])
	}
	if len(body) > 0 && p.Subject != "" {
		if t := strings.TrimSpace(body[0].text); strings.EqualFold(t, p.Subject) || strings.EqualFold(strings.TrimPrefix(t, "Subject: "), p.Subject) {
			l.add("message.subject-repeated", []string{t}, "the first line of the message is the subject again")
		}
	}
	l.commitRefs()
}

// mailForm looks at how the patch travelled.
func (l *linter) mailForm() {
	m := l.p.Mail
	if m == nil {
		return
	}
	if m.Facts.Attachment {
		l.add("message.attachment", nil, "the patch came as an attachment, so nobody can answer to its lines")
	}
	if m.Facts.Flowed && (m.Facts.FlowedIgnored || l.o.Strict || m.Facts.DamagedHunks > 0) {
		l.add("message.flowed", nil, "the mail is declared as format=flowed, which joins and eats lines and blanks of a diff")
	}
}

func isURL(s string) bool {
	s = strings.ToLower(strings.TrimLeft(strings.TrimSpace(s), "<["))
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}

// linkKey says that a trailer key is a home-made name for Link: or Closes:.
func linkKey(key string) bool {
	switch strings.ToLower(key) {
	case "see", "url", "ref", "refs", "reference", "references", "bug", "bugs", "bugzilla", "bug-url", "bug-link", "buglink", "lore", "issue", "ticket", "discussion", "report", "thread", "website", "web", "source", "fixes-bug", "links", "resolves", "fix":
		return true
	}
	return false
}

// columns is the most that submitting-patches.rst allows a subject and a line
// of text.
const columns = 75

// wrap finds prose that is wider than that.
func (l *linter) wrap(body []line) {
	var ev []string
	widest := 0
	for _, ln := range body {
		n := utf8.RuneCountInString(ln.text)
		if n <= columns || quoted(ln.text) || strings.Count(ln.text, " ") < 6 || strings.Contains(ln.text, `("`) && n < 110 {
			continue
		}
		ev = append(ev, ln.text)
		widest = max(widest, n)
	}
	if len(ev) == 0 || !l.o.Strict && len(ev) < 3 && widest <= columns+5 {
		return // a word too long is not worth a maintainer's time
	}
	l.add("message.wrap", ev, "%s in the message beyond %d columns, the widest has %d", plural(len(ev), "line"), columns, widest)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// commitRefs checks the form of commit references, and with the tree's
// history also what they say.
func (l *linter) commitRefs() {
	p := l.p
	// Ids that stand somewhere with a title, by their first digits: every
	// later mention may be short.
	full := map[string][]string{}
	const digits = 7
	note := func(id string) {
		if id = strings.ToLower(id); len(id) >= digits && !slices.Contains(full[id[:digits]], id) && len(full[id[:digits]]) < 8 {
			full[id[:digits]] = append(full[id[:digits]], id)
		}
	}
	refs := commitRefs(p)
	for _, f := range fixesOf(p) {
		note(f.id)
	}
	for _, r := range refs {
		if r.title != "" {
			note(r.id)
		}
	}
	known := func(id string) bool {
		id = strings.ToLower(id)
		return slices.ContainsFunc(full[id[:digits]], func(k string) bool { return strings.HasPrefix(k, id) || strings.HasPrefix(id, k) })
	}
	var ev []string
	var first string
	for _, r := range refs {
		if r.upstream || r.reverts && len(r.id) == 40 {
			continue
		}
		switch {
		case len(r.id) < 12 && !(r.title != "" && len(r.id) >= 11 && !l.o.Strict):
			if r.title == "" && known(r.id) && !l.o.Strict {
				continue
			}
			ev = append(ev, r.whole)
			first = cmpOr(first, fmt.Sprintf("%q has %d digits; 12 are the least", r.whole, len(r.id)))
		case r.title == "" && !known(r.id):
			ev = append(ev, r.whole)
			first = cmpOr(first, fmt.Sprintf("%q stands without the commit's title", r.whole))
		}
		c, ok := l.f.Commits[strings.ToLower(r.id)]
		if !ok {
			continue
		}
		switch {
		case !c.Found && !l.f.HistoryCut:
			l.add("message.commit-unknown", []string{r.whole}, "commit %s is not in %s", r.id, l.tree())
		case c.Found && r.title != "" && !sameTitle(r.title, c.Title):
			l.add("message.commit-title", []string{r.whole + " (\"" + r.title + "\")", c.ID + " (\"" + c.Title + "\")"}, "the title of commit %.12s is %q", c.ID, c.Title)
		}
	}
	if len(ev) > 0 {
		l.add("message.commit-ref", ev, "%s", first)
	}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// sameTitle compares titles without regard to blanks; a title cut short with
// dots is the same.
func sameTitle(given, real string) bool {
	g, r := strings.Join(strings.Fields(given), " "), strings.Join(strings.Fields(real), " ")
	if g == r {
		return true
	}
	if cut, ok := strings.CutSuffix(g, "..."); ok && len(cut) > 10 {
		return strings.HasPrefix(r, strings.TrimSpace(cut))
	}
	return false
}
