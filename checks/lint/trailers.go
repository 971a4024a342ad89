// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"patchcheck/patches"
	"patchcheck/patches/mail"
)

// fixesTag is one Fixes: line as written.
type fixesTag struct {
	id, title string
	line      int
	raw       string // the whole line
	value     string // all behind the colon
	rest      string // behind the id
	commit    bool   // the word "commit" stands before the id
	url       bool
	wrapped   bool // goes on in the next line
}

var (
	fixesLine = regexp.MustCompile(`^(?i:fixes):?[ \t]+(.*?)[ \t]*$`)
	fixesID   = regexp.MustCompile(`^((?i:commit:?)[ \t]+)?<?([0-9a-fA-F]{5,64})\b>?[ \t]*(.*)$`)
	fixesRest = regexp.MustCompile(`^\("(.*)"\)$`)
)

// fixesOf finds the Fixes: lines of a message, whatever paragraph they stand
// in, when something follows that is meant as a commit or an address.
func fixesOf(p *patches.Patch) []fixesTag {
	tag := map[int]bool{}
	for _, t := range p.Trailers {
		tag[t.Line] = true
	}
	lines := strings.Split(p.Message, "\n")
	var out []fixesTag
	for i, t := range lines {
		if len(t) < 6 || t[0]|0x20 != 'f' {
			continue
		}
		m := fixesLine.FindStringSubmatch(t)
		if m == nil {
			continue
		}
		f := fixesTag{line: i + 1, raw: t, value: m[1], url: isURL(m[1])}
		if id := fixesID.FindStringSubmatch(m[1]); id != nil && strings.ContainsAny(id[2], "0123456789") {
			f.commit, f.id, f.rest = id[1] != "", id[2], id[3]
		}
		colon := strings.Contains(t[:min(len(t), 7)], ":")
		if f.id == "" && !f.url && !(tag[i+1] && colon) || f.id != "" && !colon && f.rest == "" {
			continue // prose that begins with "Fixes"
		}
		if !colon && !strings.HasPrefix(f.rest, "(") {
			continue
		}
		if strings.HasPrefix(f.rest, "(") && !strings.Contains(f.rest, ")") && i+1 < len(lines) && strings.Contains(lines[i+1], ")") {
			f.wrapped = true
			f.rest += " " + strings.TrimSpace(lines[i+1])
		} else if f.id != "" && f.rest == "" && i+1 < len(lines) && strings.HasPrefix(strings.TrimSpace(lines[i+1]), "(") {
			f.wrapped = true
			f.rest = strings.TrimSpace(lines[i+1])
		}
		if m := fixesRest.FindStringSubmatch(f.rest); m != nil {
			f.title = strings.TrimSpace(m[1])
		} else {
			f.title = strings.Trim(f.rest, "()\"'“”‘’. \t")
		}
		out = append(out, f)
	}
	return out
}

// wellKnown are the tags that the kernel's documents and history use.
var wellKnown = []string{
	"Signed-off-by", "Co-developed-by", "Reviewed-by", "Acked-by", "Tested-by", "Reported-by", "Suggested-by", "Fixes", "Closes", "Link",
	"Cc", "Assisted-by", "Originally-by", "Requested-by", "Debugged-by", "Inspired-by", "Based-on", "Depends-on", "Cover-letter", "Verified-by",
	"Message-ID", "Message-Id", "Analyzed-by", "Diagnosed-by", "Bisected-by", "Reported-and-tested-by", "Reviewed-and-tested-by", "Tested-and-reported-by",
	"Tested-and-reviewed-by", "Acked-and-tested-by", "Acked-and-reviewed-by", "Noticed-by", "Found-by", "Nacked-by", "Co-authored-by", "Generated-by",
	"Addresses-Coverity", "Addresses-Coverity-ID", "Addresses-KSPP-ID", "Datasheet", "Fixed-by", "Helped-by", "Pointed-out-by", "Improvements-by",
	"From", "To", "Subject", "Date", "Change-Id", "CC", "Base-commit", "Prerequisite-patch-id", "Stable-dep-of", "Upstream", "BugLink", "Buglink",
	"Discussed-with", "Discussed-on", "Translated-by", "Proposed-by", "Submitted-by", "Sponsored-by", "Supported-by", "Recommended-by", "Enhanced-by",
	"Reported-and-bisected-by", "Reported-and-reviewed-by", "Reported-and-suggested-by", "Suggested-and-reviewed-by", "Tested-by-and", "Assigned-by",
	"Confirmed-by", "Cherry-picked-from", "Cherry-picked-for", "References", "Bug", "Bugzilla", "CVE", "Origin", "See-also", "Explained-by", "Hinted-by",
}

var wellKnownLower = func() map[string]string {
	m := map[string]string{}
	for _, k := range wellKnown {
		m[strings.ToLower(k)] = k
	}
	return m
}()

// roleKeys name a person; their value needs an address.
var roleKeys = []string{"signed-off-by", "co-developed-by", "reviewed-by", "acked-by", "tested-by"}

// assistants are coding tools that turn up where people belong.
var assistants = regexp.MustCompile(`(?i)\b(?:claude|copilot|chatgpt|gpt-?[0-9]|openai codex|codex|gemini|devin|cursor agent|cursoragent|llm|ai assistant|aider|windsurf|deepseek|qwen|grok)\b`)

// toolAddress is an address that no person reads.
var toolAddress = regexp.MustCompile(`(?i)^(?:noreply|no-reply|bot)@|@(?:anthropic|openai|cursor)\.com$|copilot@|\bcopilot\b.*@users\.noreply\.github\.com$|cursoragent@`)

// isAssistant says that a role is given to a program. A person may be named
// Claude: an ordinary address speaks for a person.
func isAssistant(t mail.Trailer) bool {
	a, _ := t.Address()
	if toolAddress.MatchString(a.Addr) {
		return assistants.MatchString(t.Value) || strings.Contains(strings.ToLower(a.Addr), "copilot")
	}
	return !strings.Contains(t.Value, "@") && assistants.MatchString(t.Value)
}

// stableAddress finds what is meant for the stable team.
var stableAddress = regexp.MustCompile(`(?i)\bstable@(?:vger\.)?kernel\.org\b`)

// trailers applies the rules about the tags at the end of the message.
func (l *linter) trailers() {
	p := l.p
	if p.Subject == "" && p.Message == "" {
		return // a bare diff
	}
	l.fixes()
	l.signOffs()
	l.tagForms()
	l.tagOrder()
	l.reports()
	l.stable()
	l.assistance()
	l.fromReplies()
}

func (l *linter) fixes() {
	p := l.p
	tags := fixesOf(p)
	for _, f := range tags {
		ev := []string{"Fixes: " + f.value}
		switch {
		case f.url:
			l.add("trailer.fixes-format", ev, "Fixes: names a link; it is for a commit, and Closes: for a report")
			continue
		case f.id == "":
			l.add("trailer.fixes-format", ev, "Fixes: names no commit: %q", f.value)
			continue
		}
		if len(f.id) < 12 {
			l.add("trailer.fixes-sha-short", ev, "FIXES_SHA_SHORT: the commit id %s has %d digits; 12 are the least", f.id, len(f.id))
		}
		switch {
		case f.wrapped:
			l.add("trailer.fixes-wrapped", ev, "Fixes: %s goes over more than one line", f.id)
		case f.commit:
			l.add("trailer.fixes-format", ev, "the word \"commit\" does not belong into Fixes:")
		case f.rest == "":
			l.add("trailer.fixes-format", ev, "Fixes: %s lacks the commit's title in (\"...\")", f.id)
		case !fixesRest.MatchString(f.rest):
			l.add("trailer.fixes-format", ev, "the title is not written as (\"title\") and nothing behind it: %s", f.rest)
		case !strings.Contains(f.raw[:6], ":"):
			l.add("trailer.fixes-format", []string{f.raw}, "Fixes has no colon, so tools do not see it")
		}
		l.fixesCommit(f, ev)
	}
	l.fixesWanted(tags)
}

// fixesCommit compares a Fixes: tag with the tree's history.
func (l *linter) fixesCommit(f fixesTag, ev []string) {
	c, ok := l.f.Commits[strings.ToLower(f.id)]
	if !ok {
		return
	}
	switch {
	case !c.Found:
		if !l.f.HistoryCut {
			l.add("trailer.fixes-unknown", ev, "commit %s is not in %s", f.id, l.tree())
		}
		return
	case c.Ambiguous:
		l.add("trailer.fixes-sha-short", ev, "FIXES_SHA_SHORT: the commit id %s fits more than one commit of %s", f.id, l.tree())
		return
	case f.title != "" && !sameTitle(f.title, c.Title):
		l.add("trailer.fixes-subject-mismatch", append(ev, fmt.Sprintf("%.12s (\"%s\")", c.ID, c.Title)), "FIXES_SUBJECT_MISMATCH: the title of commit %.12s is %q", c.ID, c.Title)
	case c.BaseKnown && !c.InBase:
		l.add("trailer.fixes-not-in-base", ev, "commit %.12s is in %s, but not below the base", c.ID, l.tree())
	}
	if d := l.p.Date; !d.IsZero() && !c.Date.IsZero() && c.Date.After(d) && !(c.BaseKnown && c.InBase) {
		l.add("trailer.fixes-newer", ev, "commit %.12s is of %s, the patch of %s", c.ID, c.Date.Format("2006-01-02"), d.Format("2006-01-02"))
	}
}

var (
	fixTitle   = regexp.MustCompile(`(?i)\bfix(?:e[sd])?\b`)
	trivialFix = regexp.MustCompile(`(?i)\b(?:typos?|spelling|grammar|comments?|kernel-?doc|kdoc|doc(?:s|umentation)?|whitespace|indent\w*|style|checkpatch|sparse|smatch|coccinelle|clang|gcc|warnings?|build|compil\w+|lockdep annotation|formatting|naming|white space|alignment)\b`)
	fixReason  = regexp.MustCompile(`(?i)\bfixes:? (?:tag|line)|\bno fixes\b|\blts\b|\bstable\b|\bbackport|day one|since (?:the )?(?:beginning|initial|introduction|inception|day)|(?:initial|first) (?:git )?(?:import|commit|release)|history|cannot be determined|introduced (?:in|by)|pre-?git`)
)

// fixesWanted asks for Fixes: or a reason, where the maintainers do.
func (l *linter) fixesWanted(tags []fixesTag) {
	p := l.p
	if len(tags) > 0 || !l.on("trailer.fixes-missing") || revert.MatchString(p.Subject) {
		return
	}
	_, summary := splitSubject(p.Subject)
	if !fixTitle.MatchString(summary) || trivialFix.MatchString(summary) || fixReason.MatchString(p.Message) {
		return
	}
	if slices.ContainsFunc(commitRefs(p), func(r commitRef) bool { return r.title != "" }) {
		return
	}
	l.add("trailer.fixes-missing", []string{p.Subject}, "the subject promises a fix, and neither a Fixes: tag nor the message says since when it is needed")
}

func (l *linter) signOffs() {
	p := l.p
	var sobs []mail.Trailer
	for _, t := range p.Trailers {
		if strings.EqualFold(t.Key, "Signed-off-by") {
			sobs = append(sobs, t)
		}
	}
	if len(sobs) == 0 {
		ev := []string(nil)
		for i, t := range strings.Split(p.Message, "\n") {
			if strings.HasPrefix(strings.ToLower(strings.TrimSpace(t)), "signed-off-by") {
				ev = append(ev, fmt.Sprintf("line %d of the message: %s", i+1, t))
			}
		}
		if len(ev) > 0 {
			l.add("trailer.detached", ev, "the Signed-off-by does not stand among the tags at the end of the message, where git looks for it")
			return
		}
		l.add("trailer.sob-missing", nil, "the message has no Signed-off-by")
		return
	}
	signers := peopleOf(sobs)
	if p.Author.Addr != "" && !signers.has(p.Author) {
		l.add("trailer.author-sob", sobLines(sobs), "the author %s is in no Signed-off-by", p.Author)
	}
	if m := p.Mail; m != nil && m.From.Addr != "" && !samePerson(m.From, p.Author) && !relay(m.From) && !signers.has(m.From) {
		l.add("trailer.sender-sob", sobLines(sobs), "%s sends a patch of %s and is in no Signed-off-by", m.From, p.Author)
	}
	l.coDevelopers(signers)
}

func sobLines(ts []mail.Trailer) (out []string) {
	for _, t := range ts {
		out = append(out, t.Key+": "+t.Value)
	}
	return out
}

// relay says that a sender only passes mails on, as b4's web endpoint and
// mailing lists that rewrite From: do.
func relay(a mail.Address) bool {
	n, addr := strings.ToLower(a.Name), strings.ToLower(a.Addr)
	return strings.Contains(n, " via ") || strings.HasPrefix(addr, "devnull+") || strings.HasPrefix(addr, "noreply") || strings.HasPrefix(addr, "no-reply") ||
		strings.Contains(addr, "+") && strings.Contains(addr, "=")
}

// people is a set of persons by address and by name.
type people map[string]bool

func peopleOf(ts []mail.Trailer) people {
	set := people{}
	for _, t := range ts {
		if strings.EqualFold(t.Key, "Signed-off-by") {
			a, _ := t.Address()
			set[strings.ToLower(plainAddr(a.Addr))] = true
			if a.Name != "" {
				set["\x00"+nameKey(a.Name)] = true
			}
		}
	}
	return set
}

// has is generous as samePerson is.
func (p people) has(a mail.Address) bool {
	return p[strings.ToLower(plainAddr(a.Addr))] || a.Name != "" && p["\x00"+nameKey(a.Name)]
}

// samePerson is generous: a second address or another spelling of the name
// is no reason to suspect anyone.
func samePerson(a, b mail.Address) bool {
	if strings.EqualFold(plainAddr(a.Addr), plainAddr(b.Addr)) {
		return true
	}
	return a.Name != "" && b.Name != "" && nameKey(a.Name) == nameKey(b.Name)
}

// plainAddr takes the "+tag" out of an address.
func plainAddr(addr string) string {
	local, domain, ok := strings.Cut(addr, "@")
	if !ok {
		return addr
	}
	if l, _, ok := strings.Cut(local, "+"); ok && l != "" {
		local = l
	}
	return local + "@" + domain
}

// nameKey is a name without order, case, points, company in brackets.
func nameKey(name string) string {
	if i := strings.IndexAny(name, "(["); i > 0 {
		name = name[:i]
	}
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return r == ' ' || r == ',' || r == '.' || r == '"' || r == '\'' || r == '-' || r == '_' || r == '\t'
	})
	words = slices.DeleteFunc(words, func(w string) bool { return len(w) == 1 })
	slices.Sort(words)
	return strings.Join(words, " ")
}

func (l *linter) coDevelopers(signers people) {
	p := l.p
	ts := p.Trailers
	var apart, without []string
	for i, t := range ts {
		if !strings.EqualFold(t.Key, "Co-developed-by") || isAssistant(t) {
			continue
		}
		who, _ := t.Address()
		if i+1 < len(ts) && strings.EqualFold(ts[i+1].Key, "Signed-off-by") {
			if next, _ := ts[i+1].Address(); samePerson(next, who) {
				continue
			}
		}
		if signers.has(who) {
			apart = append(apart, t.Key+": "+t.Value)
			continue
		}
		without = append(without, t.Key+": "+t.Value)
	}
	if len(without) > 0 {
		l.add("trailer.co-developed", without, "%s has no Signed-off-by of the same person", without[0])
	}
	if len(apart) > 0 {
		l.add("trailer.co-developed", apart, "%s is not directly followed by its Signed-off-by", apart[0])
	}
}

// loneTag is a line that was meant as a tag and is none.
var loneTag = regexp.MustCompile(`^(?i)((?:signed[ -]?off|reviewed|acked|tested|reported|suggested|co-developed)[ -]?by)(\s*:|\s+)\s*(\S.*@\S+>?)\s*$`)

func (l *linter) tagForms() {
	p := l.p
	seen := map[string]int{}
	var unknown, oddCase []string
	var prev string
	for _, t := range p.Trailers {
		lower := strings.ToLower(t.Key)
		ev := []string{t.Key + ": " + t.Value}
		right, known := wellKnownLower[lower]
		switch {
		case !known && !l.inVocabulary(t.Key):
			if k := closest(t.Key); k != "" {
				l.add("trailer.misspelt", ev, "%q looks like a misspelt %q", t.Key, k)
			} else {
				unknown = append(unknown, ev...)
			}
		case known && t.Key != right && lower != "cc" && lower != "message-id" && !strings.Contains(lower, "link") && slices.Contains(append(roleKeys, "reported-by", "suggested-by", "fixes", "closes"), lower):
			oddCase = append(oddCase, ev...)
		}
		if slices.Contains(roleKeys, lower) && !isAssistant(t) {
			a, _ := t.Address()
			switch {
			case !strings.Contains(t.Value, "@"):
				l.add("trailer.address", ev, "%s names no address", t.Key)
			case strings.Count(t.Value, "<") != strings.Count(t.Value, ">") || !plausible(a.Addr):
				l.add("trailer.address", ev, "%s has no usable address: %q", t.Key, t.Value)
			}
		}
		same := lower + "\x00" + strings.ToLower(strings.Join(strings.Fields(t.Value), " "))
		if seen[same]++; seen[same] == 2 && (lower != "signed-off-by" || prev == same) {
			l.add("trailer.duplicate", ev, "%s: %s is there twice", t.Key, t.Value)
		}
		prev = same
		if strings.Contains(lower, "-and-") && strings.HasSuffix(lower, "-by") {
			l.add("trailer.combined", ev, "%s puts several roles into one tag", t.Key)
		}
	}
	for _, ln := range bodyLines(p) {
		if !strings.Contains(ln.text, "@") {
			continue
		}
		if m := loneTag.FindStringSubmatch(ln.text); m != nil {
			want := cmpOr(wellKnownLower[strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")], closest(strings.ReplaceAll(m[1], " ", "-")))
			if m[2] != ":" && want != "" {
				l.add("trailer.misspelt", []string{ln.text}, "%q is not written as a tag: %s: Name <address>", ln.text, want)
			}
		}
	}
	if len(unknown) > 0 {
		l.add("trailer.unknown", unknown, "the kernel's documents do not know %q", unknown[0])
	}
	if len(oddCase) > 0 {
		l.add("trailer.case", oddCase, "%q is usually written %q", strings.SplitN(oddCase[0], ":", 2)[0], wellKnownLower[strings.ToLower(strings.SplitN(oddCase[0], ":", 2)[0])])
	}
	l.detached()
}

func plausible(addr string) bool {
	local, domain, ok := strings.Cut(addr, "@")
	return ok && local != "" && strings.ContainsAny(domain, ".") && !strings.ContainsAny(addr, " \t<>,;")
}

func (l *linter) inVocabulary(key string) bool {
	return slices.ContainsFunc(l.f.TrailerKeys, func(k string) bool { return strings.EqualFold(k, key) })
}

// closest gives the well-known role that a key is a misspelling of: one or
// two letters off, never a word of its own.
func closest(key string) string {
	k := strings.ToLower(key)
	if len(k) < 5 {
		return ""
	}
	for _, word := range []string{"-on", "-with", "-in", "-at", "-to", "-for", "-as", "-from"} {
		if strings.HasSuffix(k, word) {
			return "" // "Tested-on: board"
		}
	}
	best, bestD := "", 3
	for _, w := range []string{"Signed-off-by", "Co-developed-by", "Reviewed-by", "Acked-by", "Tested-by", "Reported-by", "Suggested-by", "Assisted-by", "Fixes", "Closes"} {
		lw := strings.ToLower(w)
		limit := 2
		if len(w) < 8 {
			limit = 1
		}
		if d := distance(k, lw); d > 0 && d <= limit && d < bestD {
			best, bestD = w, d
		}
	}
	if best != "" {
		return best
	}
	if strings.HasPrefix(k, "sign") && strings.HasSuffix(k, "off-by") || k == "signoff-by" || k == "signed-by" || k == "signed-of" {
		return "Signed-off-by"
	}
	return ""
}

// distance is the number of insertions, deletions and replacements between
// two short words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		prev := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cur := row[j+1]
			d := prev
			if a[i] != b[j] {
				d = min(prev, row[j], cur) + 1
			}
			row[j+1], prev = d, cur
		}
	}
	return row[len(b)]
}

// detached finds tags above an empty line, which git does not see.
func (l *linter) detached() {
	var ev []string
	for _, t := range l.p.Trailers {
		if _, known := wellKnownLower[strings.ToLower(t.Key)]; known && t.Loose && t.Value != "" && !strings.EqualFold(t.Key, "Link") && !isURL(t.Value) {
			ev = append(ev, t.Key+": "+t.Value)
		}
	}
	if len(ev) > 0 {
		l.add("trailer.detached", ev, "%s above the last paragraph, where git does not look for tags", plural(len(ev), "tag"))
	}
}

// tagRank is the order of maintainer-tip.rst.
var tagRank = map[string]int{"fixes": 1, "reported-by": 2, "closes": 2, "originally-by": 3, "suggested-by": 3, "co-developed-by": 4, "signed-off-by": 4,
	"tested-by": 5, "reviewed-by": 5, "acked-by": 5, "cc": 6, "link": 7}

func (l *linter) tagOrder() {
	if !l.on("trailer.order") {
		return
	}
	last, lastKey := 0, ""
	for _, t := range l.p.Trailers {
		r, ok := tagRank[strings.ToLower(t.Key)]
		if !ok || t.Loose {
			continue
		}
		if r < last && !(r == 4 && last >= 5) { // a handler signs off behind reviews
			l.add("trailer.order", []string{t.Key + ": " + t.Value}, "%s stands behind %s", t.Key, lastKey)
			return
		}
		last, lastKey = max(r, last), t.Key
	}
}

func (l *linter) reports() {
	var reported, links, closes []mail.Trailer
	for _, t := range l.p.Trailers {
		switch k := strings.ToLower(t.Key); {
		case strings.HasPrefix(k, "reported-") && strings.HasSuffix(k, "by"):
			reported = append(reported, t)
		case k == "closes":
			closes = append(closes, t)
			links = append(links, t)
		case isURL(t.Value), k == "link":
			links = append(links, t)
		}
	}
	switch {
	case len(reported) > 0 && len(links) == 0 && !archivesReport(l.p):
		l.add("trailer.closes-missing", sobLines(reported), "%s: %s has no Closes: or Link: to the report", reported[0].Key, reported[0].Value)
	case len(closes) > 0 && len(reported) == 0:
		l.add("trailer.closes-alone", sobLines(closes), "Closes: stands without a Reported-by")
	}
	for _, t := range closes {
		if !isURL(t.Value) && !strings.Contains(t.Value, "@") {
			l.add("trailer.closes-missing", sobLines([]mail.Trailer{t}), "Closes: %s is no address of a report", t.Value)
		}
	}
}

// archivesReport says that the report can be found without a tag: the message
// links it, or the reporter is one whose reports carry their address
// (syzbot) or are no mails (Coverity).
func archivesReport(p *patches.Patch) bool {
	for _, ln := range bodyLines(p) {
		if strings.Contains(ln.text, "://") {
			return true
		}
	}
	return slices.ContainsFunc(p.Trailers, func(t mail.Trailer) bool {
		v := strings.ToLower(t.Value)
		return strings.HasPrefix(strings.ToLower(t.Key), "reported-") && (strings.Contains(v, "syzbot+") || !strings.Contains(v, "@") || strings.Contains(v, "http"))
	})
}

func (l *linter) stable() {
	p := l.p
	for _, t := range p.Trailers {
		v := strings.ToLower(t.Value)
		ev := []string{t.Key + ": " + t.Value}
		isCc := strings.EqualFold(t.Key, "Cc")
		switch {
		case isCc && stableAddress.MatchString(v) && !strings.Contains(v, "linux-stable"):
			l.add("trailer.stable-unwanted", ev, "the maintainers add Cc: stable themselves, after public discussion")
		case isCc && (strings.Contains(v, "linux-stable") || strings.HasPrefix(v, "stable@") || strings.HasPrefix(v, "<stable@") || strings.HasPrefix(v, "stable ") || v == "stable"):
			if strings.Contains(v, "stable@dpdk") || strings.Contains(v, "stable+noautosel") {
				continue
			}
			l.add("trailer.stable-form", ev, "%q does not reach the stable team: stable@vger.kernel.org does", t.Value)
		case !isCc && strings.EqualFold(t.Key, "stable"), !isCc && stableAddress.MatchString(v) && !strings.EqualFold(t.Key, "To"):
			l.add("trailer.stable-form", ev, "%s: is not the tag for the stable team; Cc: stable@vger.kernel.org is", t.Key)
		}
	}
	for _, ln := range bodyLines(p) {
		if t := strings.TrimSpace(ln.text); strings.Contains(t, "stable@") && stableAddress.MatchString(t) && len(strings.Fields(t)) <= 2 && !strings.HasPrefix(strings.ToLower(t), "cc:") {
			l.add("trailer.stable-form", []string{ln.text}, "%q is no tag: write Cc: stable@vger.kernel.org", t)
		}
	}
}

// basicTools need no credit (coding-assistants.rst).
var basicTools = []string{"git", "gcc", "make", "vim", "emacs", "vscode", "clang", "editor"}

func (l *linter) assistance() {
	for _, t := range l.p.Trailers {
		key := strings.ToLower(t.Key)
		ev := []string{t.Key + ": " + t.Value}
		switch key {
		case "signed-off-by":
			if isAssistant(t) {
				l.add("trailer.assistant-sob", ev, "%s is a program; only a person can sign off", t.Value)
			}
		case "co-developed-by", "co-authored-by":
			if isAssistant(t) {
				l.add("trailer.assistant-form", ev, "%s is a program: credit it with Assisted-by: instead of %s", t.Value, t.Key)
			}
		case "assisted-by":
			l.assistedBy(t, ev)
		}
	}
}

// assistedBy compares Assisted-by: with the form that the tree's document
// asks for. Without a document any name of a tool will do.
func (l *linter) assistedBy(t mail.Trailer, ev []string) {
	v := strings.TrimSpace(t.Value)
	words := strings.Fields(v)
	switch {
	case len(words) == 0:
		l.add("trailer.assistant-form", ev, "Assisted-by: names no tool")
		return
	case strings.Contains(v, "@"):
		if isAssistant(t) || l.f.AssistedBy != nil {
			l.add("trailer.assistant-form", ev, "Assisted-by: names tools, without a mail address%s", l.assistedFormat())
		}
		return
	}
	for _, w := range words[1:] {
		if slices.Contains(basicTools[:6], strings.ToLower(strings.Trim(w, ",;[]"))) {
			l.add("trailer.assistant-form", ev, "%s is a basic tool that needs no credit in Assisted-by:", w)
			return
		}
	}
	if l.f.AssistedBy == nil {
		return
	}
	want, _, _ := strings.Cut(l.f.AssistedBy.Format, " ")
	switch {
	case want == "":
	case strings.Contains(want, ":"): // AGENT_NAME:MODEL_VERSION
		if !strings.Contains(words[0], ":") {
			l.add("trailer.assistant-form", ev, "Assisted-by: is not of the form that the tree's document asks for%s", l.assistedFormat())
		}
	case want == strings.ToUpper(want) && !strings.ContainsAny(want, "_[<"): // a fixed word such as LLM
		if !strings.EqualFold(words[0], want) {
			l.add("trailer.assistant-form", ev, "Assisted-by: is not of the form that the tree's document asks for%s", l.assistedFormat())
		}
	}
}

func (l *linter) assistedFormat() string {
	if l.f.AssistedBy == nil || l.f.AssistedBy.Format == "" {
		return ""
	}
	return ": Assisted-by: " + l.f.AssistedBy.Format
}

// fromReplies lists what replies in the input gave.
func (l *linter) fromReplies() {
	var ev []string
	for _, r := range l.p.FromReplies {
		has := slices.ContainsFunc(l.p.Trailers, func(t mail.Trailer) bool {
			return strings.EqualFold(t.Key, r.Key) && strings.EqualFold(strings.Join(strings.Fields(t.Value), " "), strings.Join(strings.Fields(r.Value), " "))
		})
		if !has {
			ev = append(ev, r.Key+": "+r.Value)
		}
	}
	if len(ev) > 0 {
		l.add("trailer.from-replies", ev, "%s from replies that the message does not have", plural(len(ev), "tag"))
	}
}
