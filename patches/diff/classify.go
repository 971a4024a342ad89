// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"fmt"
	"strings"
	"unicode"
)

// text applies the hunks of f to old. It returns false when git apply would
// refuse them, with the reasons in fr.
func (a *applier) text(f *File, fr *FileResult, old []byte, out *outcome) bool {
	fr.Class, fr.Applies = Clean, true
	if len(f.Hunks) == 0 {
		out.content = old
		return true
	}
	lines := splitLines(old)
	places, result, err := a.locate(f, old, lines, a.opts.UnidiffZero, true)
	fr.Hunks = make([]HunkResult, len(f.Hunks))
	used := map[int]bool{}
	for _, pl := range places {
		if pl.ok {
			used[pl.orig] = true
		}
	}
	for i, pl := range places {
		h := &fr.Hunks[i]
		h.Header, h.Class, h.Applies, h.Offset = f.Hunks[i].Header, Clean, pl.ok, pl.offset
		if !pl.ok {
			fr.Applies = false
			continue
		}
		h.FoundLine = pl.orig + 1
		if pl.offset != 0 {
			h.Class = Offset
		}
		for _, o := range pl.others {
			// Where another hunk of the patch went, this one cannot belong.
			if !used[o] {
				h.Others = append(h.Others, o+1)
			}
		}
	}
	zero := zeroContext(f, lines)
	if err != nil {
		fr.Class, fr.Applies, fr.Reason = Conflict, false, err.Error()
		return false
	}
	if fr.Applies {
		a.ambiguity(f, fr, lines)
		for i := range fr.Hunks {
			fr.Class = worse(fr.Class, fr.Hunks[i].Class)
		}
		if zero {
			fr.Class = ZeroContext
			fr.Reason = "made without context (-U0): nothing shows that the hunks land where they belong"
		}
		out.content = result
		return true
	}
	if zero {
		if pl, _, err := a.locate(f, old, lines, true, false); err == nil && allOK(pl) {
			fr.Class = ZeroContext
			fr.Reason = "made without context (-U0), which git apply refuses without --unidiff-zero; make it again with three lines of context"
			for i := range fr.Hunks {
				if !fr.Hunks[i].Applies {
					fr.Hunks[i].Class, fr.Hunks[i].FoundLine = ZeroContext, pl[i].orig+1
				}
			}
			return false
		}
	}
	a.diagnose(f, fr, lines, places)
	return false
}

func allOK(places []place) bool {
	for _, p := range places {
		if !p.ok {
			return false
		}
	}
	return true
}

// locate places all hunks of f, going on behind one that does not fit. The
// result is nil unless all fit and it is wanted.
func (a *applier) locate(f *File, content []byte, lines []string, zero, want bool) ([]place, []byte, error) {
	lo := newLocator(content, lines, zero, a.budget)
	lo.byGit = want
	places := make([]place, len(f.Hunks))
	ok := true
	for i := range f.Hunks {
		places[i] = lo.put(&f.Hunks[i], newPattern(&f.Hunks[i], false))
		if places[i].err != nil {
			return places, nil, places[i].err
		}
		if !places[i].ok {
			ok, lo.byGit = false, false
		}
	}
	if !ok || !want {
		return places, nil, nil
	}
	result, err := lo.result()
	return places, result, err
}

// zeroContext says whether a hunk of f was made without context lines. A hunk
// that spans its whole file has none to show.
func zeroContext(f *File, lines []string) bool {
	if f.IsNew || f.IsDelete {
		return false
	}
	for i := range f.Hunks {
		h := &f.Hunks[i]
		if l, t := h.context(); l+t > 0 {
			continue
		}
		if h.OldStart <= 1 && h.OldLines == len(lines) && len(f.Hunks) == 1 {
			continue
		}
		if h.OldStart == 0 && h.OldLines == 0 && len(lines) == 0 {
			continue
		}
		// Replacing the whole of a one-line or short file that has since
		// grown looks the same as -U0 at its start; the index line cannot
		// tell either, so the name stays.
		return true
	}
	return false
}

// ambiguity decides which moved hunks could just as well belong elsewhere. A
// hunk that moved by as much as an unmistakable neighbour is at its place.
func (a *applier) ambiguity(f *File, fr *FileResult, lines []string) {
	sure := map[int]int{} // unmistakable hunks by how far they moved
	for i := range fr.Hunks {
		if h := &fr.Hunks[i]; len(h.Others) == 0 && h.Applies {
			sure[h.Offset]++
		}
	}
	var im *image
	for i := range fr.Hunks {
		h := &fr.Hunks[i]
		if h.Class != Offset {
			continue
		}
		if len(h.Others) > 0 {
			if sure[h.Offset] > 0 {
				h.Note = "fits elsewhere too, but moved as the hunks beside it"
				continue
			}
			h.Class = Ambiguous
			h.Note = fmt.Sprintf("fits just as well at %s %s", plural(len(h.Others), "line"), joinInts(h.Others))
			continue
		}
		if sure[h.Offset] > 1 {
			continue // a neighbour moved by as much
		}
		// Moved past a place that only lacks some outer context?
		p := newPattern(&f.Hunks[i], false)
		if at := nearly(&p, lines, h.FoundLine-1-h.Offset, abs(h.Offset), a.budget); at >= 0 {
			h.Class = Ambiguous
			h.Note = fmt.Sprintf("line %d is nearer and differs only in outer context", at+1)
			continue
		}
		// Applied before, and now about to be applied to a twin of the place?
		if p := newPattern(&f.Hunks[i], true); evidence(&f.Hunks[i]) {
			p.start = max(f.Hunks[i].NewStart-1, 0)
			if im == nil {
				im = newImage(lines)
			}
			if at, _, err := p.search(im, false, false, abs(h.Offset)-1, a.budget); err == nil && at >= 0 {
				h.Class, h.Present, h.PresentLine = Ambiguous, true, at+1
				h.Note = fmt.Sprintf("its new side stands at line %d already, nearer than the place found", at+1)
			}
		}
	}
}

// nearly looks less than dist lines from want for a place where the pattern
// fits but for one or two outer lines of its context, as GNU patch would take
// it. It returns -1 when there is none.
func nearly(p *pattern, lines []string, want, dist int, b *budget) int {
	if p.leading < 2 || p.trailing < 2 {
		return -1 // too little would be left to say anything
	}
	proof := [3]bool{}
	for fuzz := 1; fuzz <= 2; fuzz++ {
		n := 0
		for _, l := range p.pre[fuzz : len(p.pre)-fuzz] {
			if telling(l) {
				n++
			}
		}
		proof[fuzz] = n >= 2
	}
	for d := 0; d < dist && b.left > 0; d++ {
		for _, at := range [2]int{want + d, want - d} {
			for fuzz := 1; fuzz <= 2; fuzz++ {
				ok := proof[fuzz] && at >= 0 && at+len(p.pre) <= len(lines)
				for j := fuzz; ok && j < len(p.pre)-fuzz; j++ {
					b.left--
					ok = lines[at+j] == p.pre[j]
				}
				if ok {
					return at
				}
			}
		}
	}
	return -1
}

func plural(n int, s string) string {
	if n == 1 {
		return s
	}
	return s + "s"
}

func joinInts(n []int) string {
	s := make([]string, len(n))
	for i, v := range n {
		s[i] = fmt.Sprint(v)
	}
	return strings.Join(s, ", ")
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}

// evidence says whether the new side of a hunk, found in a file, proves
// anything: it adds a line that says something, or has enough context around
// what it removes.
func evidence(h *Hunk) bool {
	context, around := 0, 0
	lead, trail := h.context()
	if lead > 0 && trail > 0 {
		around = 1
	}
	for _, l := range h.Lines {
		if !telling(l.Text) {
			continue
		}
		if l.Op == Add {
			return true
		}
		if l.Op == Context {
			context++
		}
	}
	return context >= 3 || context >= 2 && around > 0
}

// telling says whether a line means something: braces, blank lines and comment
// frames are everywhere.
func telling(s string) bool {
	n := 0
	for _, r := range s {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			if n++; n >= 3 {
				return true
			}
		}
	}
	return false
}

// presentAt finds the new side of each hunk, as git apply -R would, but
// without holding hunks to the ends of the file: others may have added there
// since. -1 marks a hunk that was not found or whose new side proves nothing.
func (a *applier) presentAt(f *File, lines []string) []int {
	im := newImage(lines)
	index := newLineIndex(lines)
	out := make([]int, len(f.Hunks))
	drift := 0
	for i := range f.Hunks {
		h := &f.Hunks[i]
		out[i] = -1
		p := newPattern(h, true)
		p.start = max(h.NewStart-1+drift, 0)
		at, _, err := p.search(im, p.oldStart <= 1, p.trailing == 0, 0, a.budget)
		if err != nil || at < 0 {
			if at = p.anywhere(lines, im, index, a.budget); at < 0 {
				continue
			}
		}
		if !evidence(h) && at != p.start {
			continue
		}
		if len(p.pre) == 0 && len(lines) > 0 {
			continue
		}
		out[i] = at
		drift = at - max(h.NewStart-1, 0)
		// Keep the lines from being taken for another hunk as well.
		for j := range p.pre {
			im.at(at + j).patched = true
		}
	}
	return out
}

// diagnose says for people what is wrong with hunks that git refuses.
func (a *applier) diagnose(f *File, fr *FileResult, lines []string, places []place) {
	present := a.presentAt(f, lines)
	crlf := a.normalised(f, lines, stripLineCR, "\r")
	white := a.normalised(f, lines, squeeze, "")
	gnu := gnuPlaces(f, lines, a.budget)
	index := newLineIndex(lines)
	nPresent := 0
	drift := 0
	var class Class
	for i := range f.Hunks {
		h, hr := &f.Hunks[i], &fr.Hunks[i]
		if present[i] >= 0 && (!hr.Applies || hr.Offset != 0) {
			hr.Present, hr.PresentLine = true, present[i]+1
			nPresent++
		}
		if hr.Applies {
			drift = hr.FoundLine - max(h.OldStart, 1)
			continue
		}
		switch {
		case hr.Present:
			hr.Class, hr.FoundLine = AlreadyApplied, hr.PresentLine
			continue
		case crlf != nil && crlf[i].ok:
			hr.Class, hr.FoundLine, hr.Offset = CRLF, crlf[i].orig+1, crlf[i].offset
			hr.Note = crlfNote(h)
		case white != nil && white[i].ok:
			hr.Class, hr.FoundLine, hr.Offset = WhitespaceDamage, white[i].orig+1, white[i].offset
			hr.Note = whiteNote(h, lines, white[i].orig)
		case gnu[i].ok:
			hr.Class, hr.FoundLine, hr.Fuzz, hr.Offset = Fuzz, gnu[i].at+1, gnu[i].fuzz, gnu[i].offset
			hr.Note = fmt.Sprintf("GNU patch would take it with fuzz %d, git does not", hr.Fuzz)
			if hr.Fuzz == 0 {
				hr.Note = "GNU patch would take it; git insists that it fits at the start or the end of the file, and lets no two hunks share lines"
			}
		default:
			hr.Class = Conflict
			hr.FoundLine = index.nearest(h, max(h.OldStart-1, 0)+drift) + 1
			p := newPattern(h, false)
			if at := p.anywhere(lines, newImage(lines), index, a.budget); at >= 0 && len(p.pre) > 0 && !f.IsDelete {
				hr.FoundLine = at + 1
				hr.Note = fmt.Sprintf("its old lines are at line %d, but ", at+1)
				switch {
				case p.trailing == 0 && at+len(p.pre) != len(lines):
					hr.Note += "without context behind them git takes them only at the end of the file"
				case p.oldStart <= 1 && at != 0:
					hr.Note += "a hunk for line 1 must fit at the start of the file"
				default:
					hr.Note += "another hunk of the patch uses some of them"
				}
			} else {
				a.overtaken(h, hr, lines, index)
			}
			if hr.Note == "" {
				hr.Note = encodingNote(h, index)
			}
		}
		hr.Expected = texts(h.side(Delete))
		hr.Found = chomp(window(lines, hr.FoundLine-1, len(hr.Expected)))
		class = worse(class, hr.Class)
	}
	failing := 0
	first := -1
	for i := range fr.Hunks {
		if !fr.Hunks[i].Applies && !fr.Hunks[i].Present {
			if failing++; first < 0 {
				first = i
			}
		}
	}
	// A hunk that fits and whose new side is also there decides nothing.
	switch {
	case nPresent > 0 && failing == 0 && nPresent == len(f.Hunks):
		fr.Class = AlreadyApplied
		fr.Reason = "the new side of every hunk is in the file already"
	case nPresent > 0:
		fr.Class = PartiallyApplied
		fr.Reason = fmt.Sprintf("the new side of %d of %d hunks is in the file already", nPresent, len(f.Hunks))
		if failing > 0 {
			fr.Reason += fmt.Sprintf("; %d %s with what the file has now", failing, map[bool]string{true: "conflicts", false: "conflict"}[failing == 1])
		}
	default:
		fr.Class = class
		hr := &fr.Hunks[first]
		fr.Reason = fmt.Sprintf("hunk %d of %d (%s) does not fit", first+1, len(f.Hunks), hr.Header)
		if hr.Note != "" {
			fr.Reason += ": " + hr.Note
		}
	}
}

func texts(lines []Line) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l.Text
	}
	return out
}

func window(lines []string, at, n int) []string {
	at = min(max(at, 0), len(lines))
	return lines[at:min(at+n, len(lines))]
}

// normalised places the hunks after norm was used on every line of both
// sides. It returns nil when neither side holds sign.
func (a *applier) normalised(f *File, lines []string, norm func(string) string, sign string) []place {
	if sign != "" {
		found := false
		for _, l := range lines {
			found = found || strings.Contains(l, sign)
		}
		for i := range f.Hunks {
			for _, l := range f.Hunks[i].Lines {
				found = found || strings.Contains(l.Text, sign)
			}
		}
		if !found {
			return nil
		}
	}
	n := make([]string, len(lines))
	for i, l := range lines {
		n[i] = norm(l)
	}
	lo := newLocator(nil, n, false, a.budget)
	places := make([]place, len(f.Hunks))
	for i := range f.Hunks {
		p := newPattern(&f.Hunks[i], false)
		for _, s := range [][]string{p.pre, p.post} {
			for j := range s {
				s[j] = norm(s[j])
			}
		}
		places[i] = lo.put(&f.Hunks[i], p)
	}
	return places
}

// stripLineCR takes the carriage return before the newline away.
func stripLineCR(l string) string {
	if strings.HasSuffix(l, "\r\n") {
		return l[:len(l)-2] + "\n"
	}
	return strings.TrimSuffix(l, "\r")
}

func stripCR(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), "\r\n", "\n")) }

// squeeze takes all white space out of a line, also the kinds that mail and
// web programs put in the place of a plain space.
func squeeze(l string) string {
	var b strings.Builder
	for _, r := range l {
		if unicode.IsSpace(r) || r == 0x200b || r == 0xfeff || r == 0x2060 {
			continue
		}
		b.WriteRune(r)
	}
	if strings.HasSuffix(l, "\n") {
		b.WriteByte('\n')
	}
	return b.String()
}

func crlfNote(h *Hunk) string {
	for _, l := range h.Lines {
		if strings.HasSuffix(l.Text, "\r") {
			return "the patch has CRLF line endings, the file has LF; convert the patch (dos2unix), it was damaged on its way"
		}
	}
	return "the file has CRLF line endings, the patch has LF; git am --keep-cr keeps them"
}

func whiteNote(h *Hunk, lines []string, at int) string {
	for _, l := range h.side(Delete) {
		if at < len(lines) && l.full() != lines[at] {
			switch {
			case strings.ContainsAny(l.Text, "\u00a0\u2007\u202f\u200b\ufeff"):
				return "the patch has no-break spaces where the file has plain ones: it came through a mail or web program"
			case strings.Contains(lines[at], "\t") && !strings.Contains(l.Text, "\t"):
				return "the patch has spaces where the file has tabs: it was pasted or came through a mail program"
			}
		}
		at++
	}
	return "the patch fits only when white space is ignored"
}

// encodingNote recognises lines that only differ from the file because a mail
// or web encoding was not undone.
func encodingNote(h *Hunk, index *lineIndex) string {
	quoted := strings.NewReplacer("=3D", "=", "=09", "\t", "=20", " ")
	html := strings.NewReplacer("&lt;", "<", "&gt;", ">", "&quot;", "\"", "&#39;", "'", "&amp;", "&")
	for _, l := range h.side(Delete) {
		t := l.full()
		if len(index.at[t]) > 0 {
			continue
		}
		if d := quoted.Replace(t); d != t && len(index.at[d]) > 0 {
			return "the quoted-printable encoding of the mail was not undone (=3D for =)"
		}
		if d := html.Replace(t); d != t && len(index.at[d]) > 0 {
			return "the patch comes from a web page: &lt; and &amp; stand for < and &"
		}
	}
	return ""
}

// overtaken looks how much of a hunk that fits neither way is in the file.
func (a *applier) overtaken(h *Hunk, hr *HunkResult, lines []string, index *lineIndex) {
	near := map[string]bool{}
	lo := max(hr.FoundLine-1-20, 0)
	for _, l := range window(lines, lo, len(h.Lines)+40) {
		near[strings.TrimSpace(l)] = true
	}
	for _, l := range h.Lines {
		t := strings.TrimSpace(l.Text)
		if !telling(t) {
			continue
		}
		switch l.Op {
		case Add:
			hr.AddedTotal++
			if index.has(t) {
				hr.AddedFound++
			}
		case Delete:
			hr.RemovedTotal++
			if near[t] {
				hr.RemovedFound++
			}
		}
	}
	mostAdded := hr.AddedTotal > 0 && 2*hr.AddedFound >= hr.AddedTotal
	gone := hr.RemovedTotal > 0 && hr.RemovedFound == 0
	switch {
	case hr.RemovedTotal == 0:
		hr.Overtaken = mostAdded
	default:
		hr.Overtaken = mostAdded && 2*hr.RemovedFound <= hr.RemovedTotal || gone && (hr.RemovedTotal >= 3 || hr.AddedTotal == 0 || hr.AddedFound > 0)
	}
	if hr.Overtaken {
		var parts []string
		if hr.AddedTotal > 0 {
			parts = append(parts, fmt.Sprintf("%d of %d added lines are in the file", hr.AddedFound, hr.AddedTotal))
		}
		if hr.RemovedTotal > 0 {
			parts = append(parts, fmt.Sprintf("%d of %d removed lines are still there", hr.RemovedFound, hr.RemovedTotal))
		}
		hr.Note = "overtaken by later changes: " + strings.Join(parts, ", ")
	}
}

// lineIndex finds lines of a file by their text.
type lineIndex struct {
	lines   []string
	at      map[string][]int32 // the first 64 places of each line
	trimmed map[string]bool    // lines without the space around them; made when needed
}

// has says whether a line is in the file, however it is indented.
func (x *lineIndex) has(trimmed string) bool {
	if x.trimmed == nil {
		x.trimmed = make(map[string]bool, len(x.lines))
		for _, l := range x.lines {
			x.trimmed[strings.TrimSpace(l)] = true
		}
	}
	return x.trimmed[trimmed]
}

func newLineIndex(lines []string) *lineIndex {
	x := &lineIndex{lines: lines, at: make(map[string][]int32, len(lines))}
	for i, l := range lines {
		if p := x.at[l]; len(p) < 64 {
			x.at[l] = append(p, int32(i))
		}
	}
	return x
}

// nearest returns the 0-based line at which the old side of h has most lines
// in common with the file, rare lines counting more; want, where the hunk
// should be, decides between equals and when nothing is alike.
func (x *lineIndex) nearest(h *Hunk, want int) int {
	votes := map[int]float64{}
	for j, l := range h.side(Delete) {
		at := x.at[l.full()]
		for _, k := range at {
			w := 1 / float64(len(at))
			if !telling(l.Text) {
				w /= 10
			}
			votes[int(k)-j] += w
		}
	}
	best, bestVotes := -1, 0.0
	for pos, v := range votes {
		if pos < 0 {
			continue
		}
		if v > bestVotes || v == bestVotes && (abs(pos-want) < abs(best-want) || abs(pos-want) == abs(best-want) && pos < best) {
			best, bestVotes = pos, v
		}
	}
	if best < 0 {
		return min(max(want, 0), max(len(x.lines)-1, 0))
	}
	return best
}

// gnuPlace is where GNU patch would put a hunk.
type gnuPlace struct {
	ok     bool
	at     int // 0-based line in the file before the patch
	fuzz   int
	offset int
}

// gnuPlaces follows the search of GNU patch (1) with its default of fuzz 2: at
// the line expected from the hunks before, then ever further away, first with
// all context, then with one and with two outer lines of the longer side
// ignored. A hunk with less context on one side is held to that end of the
// file until fuzz makes up the difference.
func gnuPlaces(f *File, lines []string, b *budget) []gnuPlace {
	out := make([]gnuPlace, len(f.Hunks))
	if f.IsDelete {
		return out // it keeps a file with other content
	}
	shift, frozen := 0, 0
	for i := range f.Hunks {
		h := &f.Hunks[i]
		p := newPattern(h, false)
		context := max(p.leading, p.trailing)
		for fuzz := 0; fuzz <= min(2, context); fuzz++ {
			at := gnuLocate(&p, lines, h.OldStart+shift, fuzz, frozen, b)
			if at < 0 {
				continue
			}
			expected := max(h.OldStart, 1) - 1
			out[i] = gnuPlace{ok: true, at: at, fuzz: fuzz, offset: at - expected}
			shift = at - expected
			// Trailing context is only compared, so the next hunk may use it.
			frozen = at + len(p.pre) - p.trailing
			break
		}
	}
	return out
}

func gnuLocate(p *pattern, lines []string, first, fuzz, frozen int, b *budget) int {
	if len(p.pre) == 0 {
		return -1 // "matches always": says nothing
	}
	context := max(p.leading, p.trailing)
	prefix := fuzz + p.leading - context
	suffix := fuzz + p.trailing - context
	match := func(at, pre, suf int) bool { // at is where the whole pattern would begin
		for j := pre; j < len(p.pre)-suf; j++ {
			b.left--
			if at+j < 0 || at+j >= len(lines) || lines[at+j] != p.pre[j] {
				return false
			}
		}
		return b.left > 0
	}
	if prefix < 0 && p.oldStart <= 1 {
		if frozen > 0 {
			return -1
		}
		if suffix < 0 && len(p.pre) != len(lines) {
			return -1
		}
		if match(0, 0, max(suffix, 0)) {
			return 0
		}
		return -1
	}
	prefix = max(prefix, 0)
	if suffix < 0 {
		at := len(lines) - len(p.pre)
		if at >= frozen && match(at, prefix, 0) {
			return at
		}
		return -1
	}
	lo, hi := frozen, len(lines)-(len(p.pre)-suffix)
	if lo > hi {
		return -1
	}
	from := min(max(first-1, lo), hi)
	for d := 0; from-d >= lo || from+d <= hi; d++ {
		if at := from + d; at >= lo && at <= hi && match(at, prefix, suffix) {
			return at
		}
		if at := from - d; d > 0 && at >= lo && at <= hi && match(at, prefix, suffix) {
			return at
		}
		if b.left < 0 {
			return -1
		}
	}
	return -1
}
