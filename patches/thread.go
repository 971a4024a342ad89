// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"patchcheck/patches/diff"
	"patchcheck/patches/mail"
)

// part is a mail that belongs to a series: a patch or a cover letter.
type part struct {
	*item
	index    int // 0 is the cover; -1 when the subject has no number
	total    int // 0 when not given
	version  int
	explicit bool // the subject says the version
	parent   *part
	group    *group
}

// group is the parts of one series while it is being put together.
type group struct {
	version  int
	explicit bool
	total    int
	anchor   string // message id that its parts hang below; "" when they are not threaded
	parts    []*part
	numbered map[int]*part // by index; parts without a number are not in it
	first    *part         // of the lowest index
	unsent   bool          // a part has no message id
	threaded bool          // a part answers a mail
	gone     bool          // joined to another group
	problems []Problem
	series   *Series
}

func (g *group) has(index int) *part { return g.numbered[index] }

func (g *group) cover() *part { return g.has(0) }

// add takes p in; replace is for a number that is there already.
func (g *group) add(p *part) {
	g.parts = append(g.parts, p)
	g.take(p)
}

func (g *group) replace(old, p *part) {
	g.parts[slices.Index(g.parts, old)] = p
	g.take(p)
}

func (g *group) take(p *part) {
	p.group = g
	if p.index >= 0 {
		if g.numbered == nil {
			g.numbered = map[int]*part{}
		}
		g.numbered[p.index] = p
	}
	if g.first == nil || p.index <= g.first.index {
		g.first = p
	}
	g.unsent = g.unsent || p.m.MessageID == ""
	g.threaded = g.threaded || p.m.InReplyTo != ""
}

// disjoint reports whether no number is in both.
func (g *group) disjoint(o *group) bool {
	if g.first.index >= 0 && g.first.index == o.first.index {
		return false
	}
	if len(g.parts) < len(o.parts) {
		g, o = o, g
	}
	for n := range o.numbered {
		if g.numbered[n] != nil {
			return false
		}
	}
	return true
}

// mailed reports whether the parts have message ids, that is were sent.
func (g *group) mailed() bool { return !g.unsent }

func (g *group) problem(id, format string, args ...any) {
	g.problems = append(g.problems, Problem{ID: id, Message: fmt.Sprintf(format, args...)})
}

func (g *group) fatal(id, format string, args ...any) {
	g.problems = append(g.problems, Problem{ID: id, Message: fmt.Sprintf(format, args...), Fatal: true})
}

// threads puts mails into series.
type threads struct {
	in     *input
	parts  []*part
	byID   map[string]*item
	partOf map[*item]*part
	groups []*group
}

// maxWalk bounds how far a thread is followed upwards.
const maxWalk = 200

func newThreads(in *input) *threads {
	t := &threads{in: in, byID: map[string]*item{}, partOf: map[*item]*part{}}
	t.expandAttachments()
	seen := map[string]*part{}
	for _, it := range in.items {
		id := it.m.MessageID
		if id != "" && t.byID[id] == nil {
			t.byID[id] = it
		}
		if it.m.Kind != mail.KindPatch && it.m.Kind != mail.KindCover {
			continue
		}
		p := newPart(it)
		// The same mail by way of several lists counts once.
		if key := it.m.MessageID; key != "" {
			if old := seen[key]; old != nil && old.index == p.index && sameContent(old.m, p.m) {
				continue
			}
			seen[key] = p
		}
		t.parts = append(t.parts, p)
		t.partOf[it] = p
	}
	if len(t.parts) == 0 {
		// A patch may have been sent as a reply.
		for _, it := range in.items {
			if len(it.m.Diff) > 0 && it.m.Kind != mail.KindRobot {
				p := newPart(it)
				t.parts = append(t.parts, p)
				t.partOf[it] = p
			}
		}
	}
	t.group()
	return t
}

func newPart(it *item) *part {
	s := it.m.Subject
	p := &part{item: it, index: -1, version: s.Version, explicit: s.Explicit}
	if s.Index != nil {
		p.index = *s.Index
	} else if it.m.Kind == mail.KindCover {
		p.index = 0
	}
	if s.Total != nil {
		p.total = *s.Total
	}
	if !s.Explicit && s.Trailing > 0 {
		p.version, p.explicit = s.Trailing, true
	}
	return p
}

// expandAttachments replaces a mail that only carries others by these.
func (t *threads) expandAttachments() {
	var out []*item
	for _, it := range t.in.items {
		if len(it.m.Diff) == 0 && len(it.m.Attached) > 0 && it.m.Kind != mail.KindReply && it.m.Kind != mail.KindRobot {
			var inner []*mail.Message
			collectAttached(it.m, &inner, 0)
			if len(inner) > 0 {
				if it.m.Kind == mail.KindCover {
					out = append(out, it)
				}
				for _, m := range inner {
					if m.MessageID == "" && m.InReplyTo == "" {
						m.InReplyTo = it.m.MessageID
					}
					m.Facts.Attachment = true
					if m.To == nil && m.Cc == nil {
						m.To, m.Cc = it.m.To, it.m.Cc
					}
					out = append(out, &item{m: m, source: it.source})
				}
				continue
			}
		}
		out = append(out, it)
	}
	for i, it := range out {
		it.seq = i
	}
	t.in.items = out
}

func collectAttached(m *mail.Message, out *[]*mail.Message, depth int) {
	for _, a := range m.Attached {
		if a.Kind == mail.KindPatch && len(a.Diff) > 0 || a.Kind == mail.KindCover {
			*out = append(*out, a)
		} else if depth < 5 {
			collectAttached(a, out, depth+1)
		}
	}
}

func sameContent(a, b *mail.Message) bool {
	return a.Title == b.Title && bytes.Equal(a.Diff, b.Diff) && strings.TrimSpace(a.Log) == strings.TrimSpace(b.Log)
}

// findParent returns the part that p answers to, or nil.
func (t *threads) findParent(it *item) *part {
	if id := it.m.InReplyTo; id != "" {
		if q := t.byID[id]; q != nil && q != it {
			if p := t.partOf[q]; p != nil {
				return p
			}
		}
	}
	for i := len(it.m.References) - 1; i >= 0 && i >= len(it.m.References)-maxWalk; i-- {
		if q := t.byID[it.m.References[i]]; q != nil && q != it {
			if p := t.partOf[q]; p != nil {
				return p
			}
		}
	}
	return nil
}

// anchor returns the message id under which all parts of p's series hang: the
// cover letter's, or what the first patch answers to, or the first patch's own.
func (t *threads) anchor(p *part) string {
	cur := p
	for range maxWalk {
		if cur.index == 0 {
			return cur.m.MessageID
		}
		par := cur.parent
		if par == nil {
			if cur.m.InReplyTo != "" {
				if len(cur.m.References) > 0 {
					// All parts name the same root, however deep they hang.
					if r := cur.m.References[0]; t.byID[r] == nil && cur.m.References[len(cur.m.References)-1] != r {
						return r
					}
				}
				return cur.m.InReplyTo
			}
			return cur.m.MessageID
		}
		if par.index == 0 {
			return par.m.MessageID
		}
		if par.total != p.total || par.version != p.version || par.index < 0 {
			return par.m.MessageID
		}
		if par.index >= cur.index {
			return cur.m.MessageID // an earlier posting of the same patches
		}
		cur = par
	}
	return cur.m.MessageID
}

// group makes the groups: first by exact version, total and anchor, then
// groups that belong together although a mark is missing are joined.
func (t *threads) group() {
	for _, p := range t.parts {
		p.parent = t.findParent(p.item)
	}
	type key struct {
		version, total int
		anchor, own    string
		single         *part
		run            int // later postings that nothing else tells apart
	}
	byKey := map[key]*group{}
	for _, p := range t.bySending() {
		k := key{version: p.version, total: p.total, anchor: t.anchor(p)}
		if p.index < 0 && p.m.MessageID != "" {
			k.single = p // an unnumbered mail stands alone
		}
		if p.index < 0 && p.m.MessageID == "" {
			k.version = 0
		}
		g := byKey[k]
		for g != nil && p.index >= 0 {
			old := g.has(p.index)
			if old == nil {
				break
			}
			if sameContent(old.m, p.m) && p.m.MessageID == "" {
				g.problem("series.duplicate-part", "patch %d/%d is given twice", p.index, p.total)
				break
			}
			k.run++ // the next posting begins
			g = byKey[k]
		}
		if g != nil && p.index >= 0 && g.has(p.index) != nil {
			continue
		}
		if g == nil {
			g = &group{version: p.version, explicit: p.explicit, total: p.total, anchor: k.anchor}
			byKey[k] = g
			t.groups = append(t.groups, g)
		}
		t.put(g, p)
	}
	t.joinThreaded()
	t.joinLoose()
	t.rerolls()
}

// bySending returns the parts in the order they were sent, or as given when
// some were not sent.
func (t *threads) bySending() []*part {
	parts := slices.Clone(t.parts)
	for _, p := range parts {
		if p.m.MessageID == "" || p.m.Date.IsZero() {
			return parts
		}
	}
	slices.SortStableFunc(parts, func(a, b *part) int { return a.m.Date.Compare(b.m.Date) })
	return parts
}

func (t *threads) put(g *group, p *part) {
	if p.index >= 0 {
		if old := g.has(p.index); old != nil {
			what := fmt.Sprintf("patch %d/%d", p.index, p.total)
			if p.index == 0 {
				what = "the cover letter"
			}
			if sameContent(old.m, p.m) {
				g.problem("series.duplicate-part", "%s is there twice", what)
				return
			}
			if p.m.MessageID == "" || old.m.MessageID == "" {
				g.fatal("series.duplicate-part", "%s is there twice with different content", what)
				return
			}
			keep, drop := p, old
			if p.m.Date.Before(old.m.Date) {
				keep, drop = old, p
			}
			g.fatal("series.duplicate-part", "%s is there twice with different content; <%s> is used, <%s> is left out", what,
				mail.PrintableLine(clip(keep.m.MessageID, 100)), mail.PrintableLine(clip(drop.m.MessageID, 100)))
			if keep != old {
				g.replace(old, p)
			}
			return
		}
	}
	g.add(p)
}

// merge moves b's parts into a.
func (t *threads) merge(a, b *group) {
	if a.version != b.version {
		a.mixed(b)
	}
	if a.total != b.total {
		if a.total != 0 && b.total != 0 {
			a.fatal("series.total-mismatch", "some parts say that there are %d patches, others %d", a.total, b.total)
		}
		a.total = max(a.total, b.total)
	}
	for _, p := range b.parts {
		a.add(p)
	}
	a.problems = append(a.problems, b.problems...)
	b.gone = true
}

// mixed notes that parts of one series carry different versions.
func (g *group) mixed(o *group) {
	v := g.version
	if o.explicit && (!g.explicit || o.version > g.version) {
		v = o.version
	}
	lacks, has := "some patches", "others"
	for _, x := range []*group{g, o} {
		if x.explicit {
			continue
		}
		if lacks = "patches"; x.cover() != nil {
			lacks = "cover letter"
		}
		if has = "patches"; lacks == "patches" {
			has = "cover letter"
		}
	}
	switch lacks {
	case "patches":
		g.problem("series.version-mixed", "patches lack v%d, which the %s has", v, has)
	case "cover letter":
		g.problem("series.version-mixed", "the cover letter lacks v%d, which the patches have", v)
	default:
		g.problem("series.version-mixed", "parts carry v%d and v%d", g.version, o.version)
	}
	g.version, g.explicit = v, true
}

// join merges groups of one bucket as long as two of them match.
func (t *threads) join(bucket []*group, match func(a, b *group) bool) {
	for i, a := range bucket {
		for again := true; again && !a.gone; {
			again = false
			for _, b := range bucket[i+1:] {
				if !b.gone && match(a, b) {
					t.merge(a, b)
					again = true // what did not match before may match now
				}
			}
		}
	}
}

// buckets sorts groups by a key that only groups which can match share.
func buckets[K comparable](groups []*group, key func(*group) K) [][]*group {
	at := map[K]int{}
	var out [][]*group
	for _, g := range groups {
		k := key(g)
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], g)
	}
	return out
}

func (t *threads) sweep() {
	t.groups = slices.DeleteFunc(t.groups, func(g *group) bool { return g.gone })
}

// joinThreaded joins groups that hang below the same mail but differ in a mark.
func (t *threads) joinThreaded() {
	for _, bucket := range buckets(t.groups, func(g *group) string { return g.anchor }) {
		if bucket[0].anchor == "" {
			continue
		}
		t.join(bucket, func(a, b *group) bool {
			if a.first.index < 0 || b.first.index < 0 {
				return false
			}
			if a.version != b.version && (a.explicit && b.explicit || a.total != b.total) {
				return false
			}
			// v2 of some patches only is a re-roll unless the cover is v2 too.
			if a.version != b.version && a.cover() == nil && b.cover() == nil {
				return false
			}
			return a.disjoint(b)
		})
	}
	t.sweep()
}

// joinLoose joins groups that are not threaded: files of git format-patch, and
// mails sent without --thread.
func (t *threads) joinLoose() {
	for _, bucket := range buckets(t.groups, func(g *group) int { return g.total }) {
		if bucket[0].total > 0 {
			t.join(bucket, t.looseMatch)
		}
	}
	t.sweep()
	t.joinRuns()
}

// joinRuns takes odd parts that could have been a second posting for what they
// are when a whole posting is there: parts that are there twice.
func (t *threads) joinRuns() {
	type key struct {
		total, version int
		anchor         string
	}
	for _, bucket := range buckets(t.groups, func(g *group) key { return key{g.total, g.version, g.anchor} }) {
		for i, a := range bucket {
			if a.gone || a.total == 0 || len(a.parts) < 2 {
				continue
			}
			for _, b := range bucket[i+1:] {
				if b.gone || a.mailed() != b.mailed() || len(b.parts) >= len(a.parts) || len(b.numbered) >= b.total {
					continue
				}
				for _, p := range b.parts {
					t.put(a, p)
				}
				a.problems = append(a.problems, b.problems...)
				b.gone = true
			}
		}
	}
	t.sweep()
}

func (t *threads) looseMatch(a, b *group) bool {
	if a.first.index < 0 || b.first.index < 0 || !a.disjoint(b) {
		return false
	}
	if a.version != b.version {
		// Only the cover letter may be marked otherwise, and only when there
		// is exactly one.
		if a.explicit && b.explicit || (len(a.parts) != 1 || a.cover() == nil) && (len(b.parts) != 1 || b.cover() == nil) {
			return false
		}
	}
	if a.mailed() != b.mailed() {
		return a.anchor == "" || b.anchor == ""
	}
	if !a.mailed() {
		return true
	}
	// Mails: both must begin a thread or hang below a mail that is not here.
	fa, fb := a.first.m, b.first.m
	if !strings.EqualFold(fa.From.Addr, fb.From.Addr) || fa.Date.Sub(fb.Date).Abs() > 24*time.Hour {
		return false
	}
	loose := func(g *group) bool {
		return !g.threaded || g.cover() == nil && g.anchor == g.first.m.MessageID || g.cover() != nil && len(g.parts) == 1
	}
	return loose(a) && loose(b) || stem(fa.MessageID) != "" && stem(fa.MessageID) == stem(fb.MessageID)
}

var reStem = regexp.MustCompile(`^(\d{14}\.\d+|\d{8}-.+-v\d+)-\d+-(.+)$`)

// stem is the part of a message id that git send-email gives to all mails of
// one run.
func stem(id string) string {
	if m := reStem.FindStringSubmatch(id); m != nil {
		return m[1] + m[2]
	}
	return ""
}

// rerolls completes a new version of some patches by the others of the
// version whose patches it answers.
func (t *threads) rerolls() {
	for _, g := range t.groups {
		if g.cover() != nil || g.total == 0 || len(g.parts) >= g.total || g.first.index < 1 || !g.explicit {
			continue
		}
		var old *group
		for _, p := range g.parts {
			for q := p.parent; q != nil; q = q.parent {
				if q.group != g && q.group.total == g.total && q.group.version < g.version && (q.index == p.index || q.index == 0) {
					if old == nil || q.group.version > old.version {
						old = q.group
					}
					break
				}
			}
		}
		if old == nil {
			continue
		}
		var nums []string
		var taken []*part
		for _, q := range old.parts {
			if g.has(q.index) == nil {
				cp := *q
				taken = append(taken, &cp)
			}
		}
		for _, p := range g.parts {
			nums = append(nums, fmt.Sprintf("%d/%d", p.index, p.total))
		}
		g.parts = append(g.parts, taken...) // they stay parts of the old group too
		g.problem("series.partial-reroll", "v%d has only %s; the other parts are those of v%d", g.version, strings.Join(nums, ", "), old.version)
	}
}

// find returns the series that the mail with the given id belongs to, itself
// or by what it answers; several when it begins a thread of several versions
// without being part of one.
func (t *threads) find(id string) []*Series {
	it := t.byID[id]
	if it == nil {
		// The mail itself may be missing while others hang below it.
		var out []*Series
		for _, g := range t.groups {
			if g.anchor == id && g.series != nil {
				out = append(out, g.series)
			}
		}
		return out
	}
	for range maxWalk {
		if p := t.partOf[it]; p != nil {
			if p.group == nil || p.group.series == nil {
				return nil
			}
			return []*Series{p.group.series}
		}
		if p := t.findParent(it); p != nil && p.group != nil && p.group.series != nil {
			return []*Series{p.group.series}
		}
		next := t.byID[it.m.InReplyTo]
		if next == nil || next == it {
			break
		}
		it = next
	}
	// A mail above the series: the one that answers it.
	var out []*Series
	for _, g := range t.groups {
		if g.anchor == id && g.series != nil {
			out = append(out, g.series)
		}
	}
	return out
}

// series makes the Series of all groups, oldest first.
func (t *threads) series(opts LoadOptions) []*Series {
	var out []*Series
	for _, g := range t.groups {
		g.series = t.build(g)
		out = append(out, g.series)
	}
	if opts.WithTrailers {
		t.replies()
	}
	slices.SortStableFunc(out, func(a, b *Series) int {
		if a.mailed() && b.mailed() {
			return a.date().Compare(b.date())
		}
		return 0
	})
	return out
}

func (s *Series) mailed() bool {
	for _, p := range s.Patches {
		if p.MessageID == "" {
			return false
		}
	}
	return s.Cover == nil || s.Cover.MessageID != ""
}

// date is when the series was sent: the date in the header of its first mail.
func (s *Series) date() time.Time {
	if s.Cover != nil {
		return s.Cover.Mail.Date
	}
	var d time.Time
	for _, p := range s.Patches {
		if d.IsZero() || !p.Mail.Date.IsZero() && p.Mail.Date.Before(d) {
			d = p.Mail.Date
		}
	}
	return d
}

func (t *threads) build(g *group) *Series {
	s := &Series{Version: max(g.version, 1), Total: g.total, Problems: g.problems, thread: t.root(g), Patches: []*Patch{}}
	slices.SortStableFunc(g.parts, func(a, b *part) int {
		if a.index != b.index && a.index >= 0 && b.index >= 0 {
			return a.index - b.index
		}
		return a.seq - b.seq
	})
	var marks *mail.Subject
	for _, p := range g.parts {
		m := p.m
		s.RFC = s.RFC || m.Subject.RFC
		s.Resend = s.Resend || m.Subject.Resend
		if marks == nil {
			marks = &m.Subject
			s.Tags = otherTags(m.Subject.Tags)
		}
		if p.source != "" && !slices.Contains(s.sources, p.source) {
			s.sources = append(s.sources, p.source)
		}
		if m.Kind == mail.KindReply || m.Kind == mail.KindOther && m.Subject.Reply {
			s.Problems = append(s.Problems, Problem{ID: "series.reply-used", Message: "the patch was taken from a reply; the text above it may belong to the discussion"})
		}
		if p.index == 0 && p.total <= 1 && len(m.Diff) > 0 && len(g.parts) == 1 {
			p.index = 1 // numbered 0/1 and yet the patch itself
			s.Total = 1
		}
		if p.index == 0 {
			s.Cover = &Cover{Subject: m.Title, Author: m.Author, Date: m.AuthorDate, MessageID: m.MessageID, Body: m.Body(), Mail: m}
			s.mailProblems(0, m)
			continue
		}
		s.addPatch(p)
	}
	s.number(g)
	if s.Cover != nil {
		s.Title = s.Cover.Subject
	} else if len(s.Patches) > 0 {
		s.Title = s.Patches[0].Subject
	}
	s.baseInfo(t.in.base)
	return s
}

// root is the topmost mail known of a group's thread.
func (t *threads) root(g *group) string {
	id := g.anchor
	for range maxWalk {
		it := t.byID[id]
		if it == nil || it.m.InReplyTo == "" {
			break
		}
		id = it.m.InReplyTo
	}
	return id
}

// otherTags drops the words that have fields of their own.
func otherTags(tags []string) []string {
	var out []string
	for _, tag := range tags {
		words := strings.FieldsFunc(tag, func(r rune) bool { return r == '/' || r == '-' })
		own := len(words) > 0
		for _, w := range words {
			switch strings.ToUpper(w) {
			case "PATCH", "PATCHES", "PATCHSET", "RFC", "RESEND", "RESENT", "REPOST":
			default:
				own = false
			}
		}
		if !own {
			out = append(out, tag)
		}
	}
	return out
}

func (s *Series) mailProblems(patch int, m *mail.Message) {
	for _, p := range m.Problems {
		s.Problems = append(s.Problems, Problem{ID: p.ID, Patch: patch, Message: p.Message, Fatal: p.ID == "mail.no-diff" || p.ID == "mail.html-only"})
	}
}

func (s *Series) addPatch(p *part) {
	m := p.m
	pt := &Patch{
		Index: p.index, Total: p.total, Subject: m.Title, RawSubject: m.RawSubject, Author: m.Author, Date: m.AuthorDate,
		Commit: m.Commit, MessageID: m.MessageID, Message: strings.Trim(m.Log, "\n"), Appendix: m.Appendix, Tail: m.Tail,
		Diff: m.Diff, Mail: m, Files: []*diff.File{},
	}
	pt.Trailers = mail.Trailers(pt.Message)
	s.Patches = append(s.Patches, pt)
}

// maxMissing bounds the list of missing parts: a subject may say 1/99999.
const maxMissing = 1000

// number gives every patch its number and finds what is missing.
func (s *Series) number(g *group) {
	unnumbered := 0
	highest := 0
	for _, p := range s.Patches {
		if p.Index < 0 {
			unnumbered++
		}
		highest = max(highest, p.Index)
	}
	if unnumbered > 0 {
		// Files in the order given, or a single patch.
		for i, p := range s.Patches {
			p.Index = i + 1
		}
		s.Total = len(s.Patches)
		if len(s.Patches) > 1 {
			named := false
			for _, p := range s.Patches {
				named = named || p.Subject != ""
			}
			if named {
				s.Problems = append(s.Problems, Problem{ID: "series.unnumbered", Message: fmt.Sprintf("%d patches without numbers, taken in the order given", len(s.Patches))})
			}
		}
	} else if s.Total == 0 && len(s.Patches) > 0 {
		s.Total = highest
		s.Problems = append(s.Problems, Problem{ID: "series.total-unknown", Message: "the subjects do not say how many patches there are"})
	}
	have := map[int]bool{}
	for _, p := range s.Patches {
		have[p.Index] = true
		p.Total = s.Total
		if p.Index > s.Total {
			s.Problems = append(s.Problems, Problem{ID: "series.extra-part", Patch: p.Index, Message: fmt.Sprintf("patch %d is numbered beyond the %d that the subject announces", p.Index, s.Total)})
		}
	}
	n := 0
	for i := 1; i <= s.Total; i++ {
		if have[i] {
			continue
		}
		if n++; n <= maxMissing {
			s.Missing = append(s.Missing, i)
		}
	}
	if n > 0 {
		verb := "are"
		if n == 1 {
			verb = "is"
		}
		s.Problems = append(s.Problems, Problem{ID: "series.missing-part", Fatal: true,
			Message: fmt.Sprintf("%d of %d parts %s missing: %s", n, s.Total, verb, missingNames(s))})
	}
	for _, p := range s.Patches {
		s.mailProblems(p.Index, p.Mail)
		s.parseDiff(p)
		if p.Subject == "" && p.Mail.RawSubject == "" {
			s.Problems = append(s.Problems, Problem{ID: "series.nameless", Patch: p.Index, Message: "a diff without subject, author and message"})
		}
	}
}

// missingNames lists the missing parts as subjects name them.
func missingNames(s *Series) string {
	var out []string
	for i := 0; i < len(s.Missing); {
		j := i
		for j+1 < len(s.Missing) && s.Missing[j+1] == s.Missing[j]+1 {
			j++
		}
		switch {
		case len(out) == 10:
			return strings.Join(append(out, "..."), ", ")
		case j-i > 5: // a long run is named by its ends
			out = append(out, fmt.Sprintf("%d/%d to %d/%d", s.Missing[i], s.Total, s.Missing[j], s.Total))
		default:
			j = i
			out = append(out, fmt.Sprintf("%d/%d", s.Missing[i], s.Total))
		}
		i = j + 1
	}
	return strings.Join(out, ", ")
}

func (s *Series) parseDiff(p *Patch) {
	if len(p.Diff) == 0 {
		return
	}
	files, err := diff.Parse(p.Diff)
	if files != nil {
		p.Files = files
	}
	switch {
	case err != nil:
		s.Problems = append(s.Problems, Problem{ID: "patch.damaged", Patch: p.Index, Fatal: true, Message: damage(p, err)})
	case len(files) == 0:
		s.Problems = append(s.Problems, Problem{ID: "patch.no-files", Patch: p.Index, Fatal: true, Message: "the diff changes no file"})
	}
}

// damage says what is wrong with a diff and what most likely did it.
func damage(p *Patch, err error) string {
	msg := "the diff is damaged: " + mail.PrintableLine(clip(err.Error(), 300))
	// Where it is in the file as sent, which an encoding may have changed.
	var pe *diff.ParseError
	if errors.As(err, &pe) && pe.Line > 0 {
		pos := 0
		for range pe.Line - 1 {
			i := bytes.IndexByte(p.Diff[pos:], '\n')
			if i < 0 {
				break
			}
			pos += i + 1
		}
		if off := p.Mail.RawOffset(pos); off >= 0 {
			msg += fmt.Sprintf(" (byte %d of the input)", off)
		}
	}
	f := p.Mail.Facts
	switch {
	case f.NBSPIndent > 0:
		msg += "; blanks were turned into U+00A0"
	case f.FlowedIgnored, f.Flowed:
		msg += "; the mail was sent as format=flowed, which wraps lines"
	}
	return msg
}

var reBase = regexp.MustCompile(`(?m)^[ \t]*(base-commit|change-id|prerequisite-patch-id|prerequisite-change-id|prerequisite-message-id):[ \t]*(\S[^\r\n]*)$`)

// baseInfo reads the base tree information that git format-patch --base and
// b4 write, from the cover letter, else from the patches.
func (s *Series) baseInfo(rangeBase string) {
	texts := []string{}
	if s.Cover != nil {
		texts = append(texts, s.Cover.Body)
	}
	for _, p := range s.Patches {
		texts = append(texts, p.Appendix, p.Tail)
	}
	bases := []string{}
	for _, text := range texts {
		if !strings.Contains(text, "-id:") && !strings.Contains(text, "base-commit:") {
			continue
		}
		for _, m := range reBase.FindAllStringSubmatch(text, 2000) {
			v := strings.TrimSpace(m[2])
			switch m[1] {
			case "base-commit":
				if !slices.Contains(bases, v) {
					bases = append(bases, v)
				}
			case "change-id":
				if s.ChangeID == "" {
					s.ChangeID = v
				}
			default:
				kind := strings.TrimPrefix(m[1], "prerequisite-")
				if kind == "message-id" {
					v = mail.CleanID(v)
				}
				if q := (Prerequisite{kind, v}); !slices.Contains(s.Prerequisites, q) {
					s.Prerequisites = append(s.Prerequisites, q)
				}
			}
		}
	}
	if len(bases) == 0 && rangeBase != "" {
		bases = append(bases, rangeBase)
	}
	if len(bases) > 0 {
		s.BaseCommit = bases[0]
	}
	if len(bases) > 1 {
		s.Problems = append(s.Problems, Problem{ID: "series.base-mixed", Message: fmt.Sprintf("the mails name %d base commits: %s", len(bases), mail.PrintableLine(clip(strings.Join(bases, ", "), 300)))})
	}
}

// Trailers that a reply does not give to someone else's patch.
var ownTrailers = regexp.MustCompile(`(?i)^(signed-off|co-developed|co-authored|committed|from|reported|suggested|requested|originally|written|sent|posted|cherry-picked)-`)

// replies gives each patch the trailers of the replies to it and to its cover
// letter. A reply counts for the part it hangs below, so that trailers of one
// version never reach another.
func (t *threads) replies() {
	for _, it := range t.in.items {
		if it.m.Kind != mail.KindReply {
			continue
		}
		p := t.answered(it)
		if p == nil || p.group == nil || p.group.series == nil {
			continue
		}
		s := p.group.series
		for _, tr := range mail.ReplyTrailers(it.m.Body()) {
			if ownTrailers.MatchString(tr.Key) {
				continue
			}
			if strings.HasPrefix(strings.ToLower(tr.Key), "nack") {
				s.Problems = append(s.Problems, Problem{ID: "series.nacked", Patch: max(p.index, 0), Message: mail.PrintableLine(clip(tr.Key+": "+tr.Value, 200))})
				continue
			}
			if a, _ := tr.Address(); !strings.EqualFold(a.Addr, it.m.From.Addr) {
				s.Problems = append(s.Problems, Problem{ID: "series.reply-sender", Patch: max(p.index, 0),
					Message: mail.PrintableLine(clip(fmt.Sprintf("%s: %s was sent by %s", tr.Key, tr.Value, it.m.From), 300))})
			}
			rt := ReplyTrailer{Key: tr.Key, Value: tr.Value, From: it.m.From, MessageID: it.m.MessageID, ToCover: p.index == 0}
			for _, pt := range s.Patches {
				if p.index == 0 || pt.Mail == p.m {
					pt.addReply(rt)
				}
			}
		}
	}
}

// answered returns the part that a reply hangs below.
func (t *threads) answered(it *item) *part {
	for range maxWalk {
		up := t.byID[it.m.InReplyTo]
		if up == nil || up == it {
			return t.findParent(it)
		}
		if p := t.partOf[up]; p != nil {
			return p
		}
		it = up
	}
	return nil
}

func (p *Patch) addReply(rt ReplyTrailer) {
	for _, x := range p.FromReplies {
		if strings.EqualFold(x.Key, rt.Key) && x.Value == rt.Value {
			return
		}
	}
	for _, x := range p.Trailers {
		if strings.EqualFold(x.Key, rt.Key) && x.Value == rt.Value {
			return
		}
	}
	p.FromReplies = append(p.FromReplies, rt)
}
