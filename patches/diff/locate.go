// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// errTooCostly ends a search that a hostile patch made quadratic.
var errTooCostly = errors.New("gave up: the file repeats itself so much that the search for the hunk takes too long")

// maxCompares bounds the line comparisons of one search budget.
const maxCompares = 1 << 28

// budget counts line comparisons over one Apply.
type budget struct{ left int }

func newBudget() *budget { return &budget{left: maxCompares} }

// imageLine is a line of the file while hunks are put into it.
type imageLine struct {
	text    string // with its newline, if it has one
	orig    int32  // index in the content that gitdiff is to be applied to next; -1 for a line of a pending hunk
	tree    int32  // index in the file before the patch; -1 for a line of a hunk
	patched bool   // a hunk put it there: no later hunk may use it
}

// image is a file as lines with a gap at the place of the latest change, so
// that thousands of hunks in order cost one pass over the file.
type image struct {
	buf              []imageLine
	gapStart, gapEnd int
}

func newImage(lines []string) *image {
	im := &image{buf: make([]imageLine, len(lines))}
	for i, l := range lines {
		im.buf[i] = imageLine{text: l, orig: int32(i), tree: int32(i)}
	}
	im.gapStart, im.gapEnd = len(im.buf), len(im.buf)
	return im
}

func (im *image) len() int { return len(im.buf) - (im.gapEnd - im.gapStart) }

func (im *image) at(i int) *imageLine {
	if i >= im.gapStart {
		i += im.gapEnd - im.gapStart
	}
	return &im.buf[i]
}

func (im *image) moveGap(to int) {
	switch {
	case to < im.gapStart:
		n := im.gapStart - to
		copy(im.buf[im.gapEnd-n:im.gapEnd], im.buf[to:im.gapStart])
		im.gapStart, im.gapEnd = to, im.gapEnd-n
	case to > im.gapStart:
		n := to - im.gapStart
		copy(im.buf[im.gapStart:], im.buf[im.gapEnd:im.gapEnd+n])
		im.gapStart, im.gapEnd = to, im.gapEnd+n
	}
}

// replace puts the new lines in the place of n lines at p.
func (im *image) replace(p, n int, post []string) {
	im.moveGap(p)
	im.gapEnd += n
	if short := len(post) - (im.gapEnd - im.gapStart); short > 0 {
		grow := short + len(im.buf)/8 + 16
		nb := make([]imageLine, len(im.buf)+grow)
		copy(nb, im.buf[:im.gapStart])
		copy(nb[im.gapEnd+grow:], im.buf[im.gapEnd:])
		im.buf, im.gapEnd = nb, im.gapEnd+grow
	}
	for i, l := range post {
		im.buf[im.gapStart+i] = imageLine{text: l, orig: -1, tree: -1, patched: true}
	}
	im.gapStart += len(post)
}

// renumber makes the image the content that gitdiff will be applied to next.
func (im *image) renumber() {
	for i := 0; i < im.len(); i++ {
		im.at(i).orig = int32(i)
	}
}

// splitLines cuts content into lines that keep their newline.
func splitLines(content []byte) []string {
	s := string(content)
	lines := make([]string, 0, strings.Count(s, "\n")+1)
	for len(s) > 0 {
		i := strings.IndexByte(s, '\n') + 1
		if i == 0 {
			i = len(s)
		}
		lines = append(lines, s[:i])
		s = s[i:]
	}
	return lines
}

// pattern is a hunk as the locator sees it: what must be there and what comes
// in its place, with newlines.
type pattern struct {
	pre, post         []string
	leading, trailing int // context lines
	oldStart          int
	start             int // 0-based line to begin the search at, in the file as patched so far
}

func newPattern(h *Hunk, reverse bool) pattern {
	p := pattern{
		pre:  make([]string, 0, h.OldLines),
		post: make([]string, 0, h.NewLines),
	}
	p.leading, p.trailing = h.context()
	for _, l := range h.Lines {
		t := l.full()
		if l.Op != Add {
			p.pre = append(p.pre, t)
		}
		if l.Op != Delete {
			p.post = append(p.post, t)
		}
	}
	p.oldStart, p.start = h.OldStart, max(h.NewStart-1, 0)
	if reverse {
		p.pre, p.post = p.post, p.pre
		p.oldStart, p.start = h.NewStart, max(h.OldStart-1, 0)
	}
	return p
}

// search looks for the pattern as git apply does: at the line that the header
// names, then one line further, one before, two further, and so on, but not
// further than reach lines. A hunk that begins at line 1 must fit at the start
// of the file and one without trailing context at its end, unless git is told
// --unidiff-zero. No line that an earlier hunk put there is used. It returns
// -1 when nothing fits, and whether there is more of the file to search.
func (p *pattern) search(im *image, atStart, atEnd bool, reach int, b *budget) (at int, more bool, err error) {
	last := im.len() - len(p.pre)
	if last < 0 {
		return -1, false, nil
	}
	lo, hi := 0, last
	if atStart {
		hi = 0
	}
	if atEnd {
		lo = last
	}
	if lo > hi {
		return -1, false, nil
	}
	from := min(max(p.start, lo), hi)
	for d := 0; from-d >= lo || from+d <= hi; d++ {
		if d > reach {
			return -1, true, nil
		}
		if from+d <= hi && p.fits(im, from+d, b) {
			return from + d, false, nil
		}
		if d > 0 && from-d >= lo && p.fits(im, from-d, b) {
			return from - d, false, nil
		}
		if b.left < 0 {
			return -1, false, errTooCostly
		}
	}
	return -1, false, nil
}

// anywhere looks for the pattern in the whole file, not held to its ends.
func (p *pattern) anywhere(lines []string, im *image, index *lineIndex, b *budget) int {
	for _, l := range p.pre {
		if len(index.at[l]) == 0 {
			return -1
		}
	}
	at, _, err := p.search(im, false, false, len(lines), b)
	if err != nil {
		return -1
	}
	return at
}

// fits compares the old lines with the image at line i.
func (p *pattern) fits(im *image, i int, b *budget) bool {
	for j, want := range p.pre {
		l := im.at(i + j)
		b.left--
		if l.patched || len(l.text) != len(want) {
			return false
		}
		b.left -= len(want) >> 6
		if l.text != want {
			return false
		}
	}
	return true
}

// place is where a hunk was found.
type place struct {
	ok     bool
	at     int   // 0-based line in the file as patched by the hunks before; -1 when not found
	orig   int   // 0-based line in the file before the patch
	offset int   // at minus the line that the header names
	n      int   // old lines
	others []int // further places where it fits just as well, 0-based, in the file before the patch
	err    error
}

// locator puts hunks into one file.
type locator struct {
	im      *image
	zero    bool // as git apply --unidiff-zero
	budget  *budget
	lines   []string   // of the file before the patch
	index   *lineIndex // of lines; made when a hunk is not where it should be
	taken   []bool     // lines that a hunk has used; likewise
	places  []place    // so far
	counted int        // of places, those that are in taken
	scans   int        // looks at the whole file for other places

	// Offsets by which an unmistakable hunk moved; a further hunk that moved
	// by as much is at its place.
	sure map[int]bool

	// Only with byGit, that is when the result is wanted and not just the
	// places.
	byGit   bool
	content []byte // the file with all but the pending fragments applied
	pending []*gitdiff.TextFragment
	err     error
}

func newLocator(content []byte, lines []string, zero bool, b *budget) *locator {
	return &locator{im: newImage(lines), zero: zero, budget: b, content: content, lines: lines}
}

// put finds h and puts it into the image.
func (lo *locator) put(h *Hunk, p pattern) place {
	pl := lo.find(&p)
	lo.places = append(lo.places, pl)
	if !pl.ok {
		return pl
	}
	at := pl.at
	if lo.byGit {
		lo.queue(h, at, len(p.pre))
	}
	lo.im.replace(at, len(p.pre), p.post)
	if lo.byGit && len(p.pre) == 0 {
		lo.flush()
	}
	return pl
}

// find looks for the pattern and for other places where it fits.
func (lo *locator) find(p *pattern) place {
	atStart := p.oldStart == 0 || p.oldStart == 1 && !lo.zero
	atEnd := !lo.zero && p.trailing == 0
	// Most hunks are near their line. Only when one is not, an index tells
	// whether a look at the whole file is worth it.
	const near = 200
	at, more, err := p.search(lo.im, atStart, atEnd, near, lo.budget)
	if more && lo.possible(p) {
		at, _, err = p.search(lo.im, atStart, atEnd, lo.im.len(), lo.budget)
	}
	if n := lo.im.len(); at < 0 || len(p.pre) == 0 && at == n && n > 0 && !strings.HasSuffix(lo.im.at(n-1).text, "\n") {
		// The latter git takes, and joins the last line with the first new
		// one.
		return place{at: -1, orig: -1, err: err}
	}
	pl := place{ok: true, at: at, offset: at - p.start, orig: len(lo.lines), n: len(p.pre)}
	for i := at; i < lo.im.len(); i++ {
		if l := lo.im.at(i); l.tree >= 0 {
			pl.orig = int(l.tree)
			break
		}
	}
	if pl.offset != 0 && len(p.pre) > 0 && !atStart && !atEnd && !lo.sure[pl.offset] {
		if pl.others = lo.others(p, pl.orig); len(pl.others) == 0 {
			if lo.sure == nil {
				lo.sure = map[int]bool{}
			}
			lo.sure[pl.offset] = true
		}
	}
	return pl
}

func (lo *locator) prepare() {
	if lo.index == nil {
		lo.index = newLineIndex(lo.lines)
	}
}

// possible says whether every old line is somewhere in the file.
func (lo *locator) possible(p *pattern) bool {
	lo.prepare()
	for _, l := range p.pre {
		if len(lo.index.at[l]) == 0 {
			return false
		}
	}
	return true
}

// others returns up to 8 further places, as lines of the file before the
// patch, where the pattern fits and that no hunk has used.
func (lo *locator) others(p *pattern, orig int) []int {
	if lo.taken == nil {
		lo.taken = make([]bool, len(lo.lines))
	}
	for _, q := range lo.places[lo.counted:] {
		for i := q.orig; q.ok && i < min(q.orig+q.n, len(lo.taken)); i++ {
			lo.taken[i] = true
		}
	}
	lo.counted = len(lo.places)
	var out []int
	try := func(at int) (more bool) {
		if at == orig {
			return true
		}
		for j, l := range p.pre {
			lo.budget.left--
			if lo.taken[at+j] || lo.lines[at+j] != l {
				return true
			}
		}
		out = append(out, at)
		return len(out) < 8
	}
	last := len(lo.lines) - len(p.pre)
	if lo.index == nil {
		// An index is large; a few looks at the whole file are cheaper.
		const scans = 16
		if lo.scans++; lo.scans <= scans {
			for at := 0; at <= last && try(at); at++ {
			}
			return out
		}
		lo.prepare()
	}
	rare := 0
	for j, l := range p.pre {
		if len(lo.index.at[l]) < len(lo.index.at[p.pre[rare]]) {
			rare = j
		}
	}
	for _, k := range lo.index.at[p.pre[rare]] {
		if at := int(k) - rare; at >= 0 && at <= last && !try(at) {
			break
		}
	}
	return out
}

// queue makes a gitdiff fragment of h for the n lines at the place found.
// gitdiff is strict: a fragment must name its exact place in the content, and
// each must have lines of its own. A fragment that cannot be described so
// beside the pending ones (an insertion without context, or old lines that
// became neighbours only by a deletion) is applied after them.
func (lo *locator) queue(h *Hunk, at, n int) {
	if n == 0 {
		lo.flush()
	} else {
		first := lo.im.at(at).orig
		for i := 0; i < n; i++ {
			if o := lo.im.at(at + i).orig; o < 0 || o != first+int32(i) {
				lo.flush()
				break
			}
		}
	}
	pos := int64(at) + 1
	if n > 0 {
		pos = int64(lo.im.at(at).orig) + 1
	}
	// NewPosition only matters to gitdiff when it is 0, which asks it to check
	// that nothing is left; Apply checks that itself.
	f := &gitdiff.TextFragment{OldPosition: pos, OldLines: int64(h.OldLines), NewPosition: pos, NewLines: int64(h.NewLines)}
	if n == 0 && len(lo.content) == 0 {
		f.OldPosition = 0
	}
	f.Lines = make([]gitdiff.Line, len(h.Lines))
	for i, l := range h.Lines {
		op := gitdiff.OpContext
		switch l.Op {
		case Add:
			op = gitdiff.OpAdd
			f.LinesAdded++
		case Delete:
			op = gitdiff.OpDelete
			f.LinesDeleted++
		}
		f.Lines[i] = gitdiff.Line{Op: op, Line: l.full()}
	}
	lead, trail := h.context()
	f.LeadingContext, f.TrailingContext = int64(lead), int64(trail)
	lo.pending = append(lo.pending, f)
}

// flush applies the pending fragments with gitdiff.
func (lo *locator) flush() {
	if len(lo.pending) == 0 || lo.err != nil {
		return
	}
	var out bytes.Buffer
	out.Grow(len(lo.content))
	if err := gitdiff.Apply(&out, bytes.NewReader(lo.content), &gitdiff.File{TextFragments: lo.pending}); err != nil {
		lo.err = fmt.Errorf("go-gitdiff refuses what the locator found: %w", err)
		return
	}
	lo.content, lo.pending = out.Bytes(), nil
	lo.im.renumber()
}

// result is the file with all hunks in it.
func (lo *locator) result() ([]byte, error) {
	lo.flush()
	if lo.err != nil {
		return nil, lo.err
	}
	// Two ways lead to the new content; a difference would be a bug in one of
	// them, and a wrong file must never leave here.
	at := 0
	for i := 0; i < lo.im.len(); i++ {
		t := lo.im.at(i).text
		if len(lo.content)-at < len(t) || string(lo.content[at:at+len(t)]) != t {
			return nil, fmt.Errorf("internal error: go-gitdiff and the hunk locator disagree about line %d of the result", i+1)
		}
		at += len(t)
	}
	if at != len(lo.content) {
		return nil, errors.New("internal error: go-gitdiff and the hunk locator disagree about the end of the result")
	}
	return lo.content, nil
}
