// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"bytes"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// maxLineNumber bounds the numbers of hunk headers: larger ones are nonsense
// (git parses them with strtoul and then fails in other ways).
const maxLineNumber = 1 << 30

// Parse reads all file changes of b, a unified diff that may have text before,
// between and behind the files, as a mail has. What is a file header and where
// a hunk ends is decided as in git apply; the package comment lists where
// Parse is stricter. The error is a *ParseError; the files read before it are
// returned with it. Text without any change gives no files and no error.
func Parse(b []byte) ([]*File, error) {
	p := &parser{s: string(b), line: 1}
	var files []*File
	for {
		f, err := p.nextHeader()
		if err != nil {
			return files, err
		}
		if f == nil {
			break
		}
		if err := p.body(f); err != nil {
			return files, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		if p.gitHeaders > 0 {
			return nil, &ParseError{Line: p.gitHeaderLine, Class: Corrupt,
				Reason: "there is a \"diff --git\" line, but no file change could be read behind it"}
		}
		if e := unreadable(p.s); e != nil {
			return nil, e
		}
	}
	return files, nil
}

// unreadable tells text that holds a change in a form that cannot be read from
// text that holds none.
func unreadable(s string) *ParseError {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return &ParseError{Line: 1 + strings.Count(s[:i], "\n"), Class: Corrupt, Reason: "this is binary data, not a diff"}
	}
	line, before := 0, ""
	for l := range strings.Lines(s) {
		line++
		if q := strings.TrimLeft(l, ">| "); len(q) < len(l) && strings.ContainsAny(l[:len(l)-len(q)], ">|") &&
			(strings.HasPrefix(q, "diff --git ") || strings.HasPrefix(q, "+++ ") && strings.HasPrefix(strings.TrimLeft(before, ">| "), "--- ")) {
			return &ParseError{Line: line, Class: Corrupt, Reason: "the diff is quoted, as in an answer to a mail", Hint: "get the mail that it quotes"}
		}
		if (strings.HasPrefix(l, "< ") || strings.HasPrefix(l, "> ")) && normalDiff(before) {
			return &ParseError{Line: line - 1, Class: Corrupt, Reason: "a diff without context and file names, not a unified one", Hint: "make it again with diff -u or git diff"}
		}
		before = l
	}
	return nil
}

// normalDiff recognises the command line of a plain diff: "12,14c12".
func normalDiff(l string) bool {
	l = strings.TrimRight(l, "\r\n")
	i := strings.IndexAny(l, "acd")
	if i <= 0 || i == len(l)-1 {
		return false
	}
	return strings.Trim(l[:i], "0123456789,") == "" && strings.Trim(l[i+1:], "0123456789,") == ""
}

// parser is a position in the text. Invariant: pos is the start of a line and
// line its number.
type parser struct {
	s    string
	pos  int
	line int

	gitHeaders    int    // "diff --git" lines seen
	gitHeaderLine int    // line of the first
	lone          string // name of a "diff --git" line just skipped because nothing of a header followed
	loneLine      int
}

// peek returns the line at byte offset at with its newline, or "" at the end.
func (p *parser) peek(at int) string {
	if at >= len(p.s) {
		return ""
	}
	if i := strings.IndexByte(p.s[at:], '\n'); i >= 0 {
		return p.s[at : at+i+1]
	}
	return p.s[at:]
}

func (p *parser) advance(l string) {
	p.pos += len(l)
	p.line++
}

func (p *parser) errorf(f *File, class Class, format string, args ...any) *ParseError {
	e := &ParseError{Line: p.line, Class: class, Reason: fmt.Sprintf(format, args...)}
	if f != nil {
		e.File = f.Path()
	}
	return e
}

// nextHeader skips text up to the next file header and reads it. It returns
// nil at the end of the text.
func (p *parser) nextHeader() (*File, error) {
	for p.pos < len(p.s) {
		l := p.peek(p.pos)
		switch {
		case strings.HasPrefix(l, "@@ -"):
			if _, ok := parseHunkHeader(l); ok {
				e := p.errorf(nil, Corrupt, "a hunk without a file header: %s", strings.TrimSpace(l))
				e.Hunk = strings.TrimSpace(l)
				e.Hint = "the \"---\" and \"+++\" lines before it are missing"
				return nil, e
			}
		case strings.HasPrefix(l, "diff --git "):
			p.gitHeaders++
			if p.gitHeaders == 1 {
				p.gitHeaderLine = p.line
			}
			f, err := p.gitHeader(l)
			if f != nil || err != nil {
				return f, err
			}
			continue
		case strings.HasPrefix(l, "diff --cc "), strings.HasPrefix(l, "diff --combined "):
			if next := p.peek(p.pos + len(l)); strings.HasPrefix(next, "index ") && strings.Contains(next, ",") || strings.HasPrefix(next, "mode ") {
				e := p.errorf(nil, Corrupt, "a merge diff (%s), which has several old sides and cannot be applied", strings.TrimSpace(l))
				e.Hint = "make the patch from a commit that is no merge, or with git show -m --first-parent"
				return nil, e
			}
		case strings.HasPrefix(l, "*** ") && strings.HasPrefix(p.peek(p.pos+len(l)), "--- "):
			if strings.HasPrefix(p.peek(p.pos+len(l)+len(p.peek(p.pos+len(l)))), "***************") {
				e := p.errorf(nil, Corrupt, "a context diff, not a unified one")
				e.Hint = "make it again with diff -u or git diff"
				return nil, e
			}
		case strings.HasPrefix(l, "--- "):
			next := p.peek(p.pos + len(l))
			if !strings.HasPrefix(next, "+++ ") {
				break
			}
			third := p.peek(p.pos + len(l) + len(next))
			if third == "" || strings.HasPrefix(third, "diff ") || strings.HasPrefix(third, "--- ") {
				f := p.plainHeader(l, next)
				e := p.errorf(f, Corrupt, "the header of a file is not followed by a hunk")
				e.Hint = "the diff looks cut off"
				return nil, e
			}
			if !strings.HasPrefix(third, "@@ -") {
				break
			}
			f := p.plainHeader(l, next)
			if f.Old == "" && f.New == "" {
				return nil, p.errorf(nil, Corrupt, "no file name in the \"---\" and \"+++\" lines")
			}
			p.advance(l)
			p.advance(next)
			p.lone = ""
			return f, nil
		case strings.HasPrefix(l, "Binary files "):
			// "diff -r" prints this line alone; git apply skips it in silence
			// and so loses the change.
			f := &File{IsBinary: true, Line: p.line, traditional: true}
			names, ok := strings.CutSuffix(strings.TrimRight(l, "\r\n"), " differ")
			f.rawOld, f.rawNew, _ = strings.Cut(strings.TrimPrefix(names, "Binary files "), " and ")
			f.setPlainNames(guessStrip(f.rawOld, f.rawNew))
			if !ok || f.Path() == "" || path.Base(f.rawOld) != path.Base(f.rawNew) {
				break // prose
			}
			p.advance(l)
			return f, nil
		}
		p.advance(l)
	}
	return nil, nil
}

func binaryDiffer(l string) bool {
	return strings.HasSuffix(strings.TrimRight(l, "\r\n"), " differ") &&
		(strings.HasPrefix(l, "Binary files ") || strings.HasPrefix(l, "Files ")) && strings.Contains(l, " and ")
}

// plainHeader reads the two lines of a header that git did not write.
func (p *parser) plainHeader(oldLine, newLine string) *File {
	f := &File{Line: p.line, traditional: true, headerCR: strings.HasSuffix(newLine, "\r\n")}
	f.rawOld, f.rawNew = plainName(oldLine[4:]), plainName(newLine[4:])
	switch {
	case f.rawOld == devNull || epoch(oldLine) && f.rawNew != devNull:
		f.IsNew = true
	case f.rawNew == devNull || epoch(newLine):
		f.IsDelete = true
	}
	f.setPlainNames(guessStrip(f.rawOld, f.rawNew))
	return f
}

// setPlainNames derives Old and New of a traditional header from the raw names
// with n leading folders taken away.
func (f *File) setPlainNames(n int) {
	oldName, newName := stripName(f.rawOld, n), stripName(f.rawNew, n)
	if f.rawOld == devNull {
		oldName = newName
	}
	if f.rawNew == devNull {
		newName = oldName
	}
	// "x.orig" and "x~" beside "x": the shorter name is meant.
	name := newName
	if oldName != "" && len(oldName) < len(newName) && strings.HasPrefix(newName, oldName) {
		name = oldName
	}
	f.Old, f.New = name, name
	if f.IsNew {
		f.Old = ""
	}
	if f.IsDelete {
		f.New = ""
	}
}

// gitHeader reads a "diff --git" header, first line l. It returns nil when
// the line is followed by nothing that belongs to a header, with the position
// behind the line.
func (p *parser) gitHeader(l string) (*File, error) {
	f := &File{Line: p.line, headerCR: strings.HasSuffix(l, "\r\n")}
	strip := 1
	def := gitHeaderName(l, 1)
	if n := gitHeaderName(l, 0); n != "" {
		// Both names are the same with nothing stripped: made with
		// --no-prefix, where git apply would need -p0.
		strip, def = 0, n
		f.rawOld, f.rawNew = n, n
	}
	p.advance(l)
	kinds, names := 0, false
	kind := func(flag *bool) {
		if !*flag {
			kinds++
		}
		*flag = true
	}
	// verify checks a ---/+++ name against the one known already.
	verify := func(field *string, raw string, null bool, side string) error {
		if *field == "" && !null {
			*field = stripName(raw, strip)
			return nil
		}
		if null {
			if raw != devNull {
				return p.errorf(f, Corrupt, "the %s name should be /dev/null, but is %q", side, raw)
			}
			return nil
		}
		if stripName(raw, strip) != *field && raw != *field {
			return p.errorf(f, Corrupt, "the %s name %q does not agree with %q in the header before", side, stripName(raw, strip), *field)
		}
		return nil
	}
	dashes := false
header:
	for p.pos < len(p.s) {
		h := p.peek(p.pos)
		if h[len(h)-1] != '\n' {
			break
		}
		var err error
		value := func(prefix string) (string, bool) {
			return strings.TrimRight(strings.TrimPrefix(h, prefix), "\r\n"), strings.HasPrefix(h, prefix)
		}
		switch {
		case strings.HasPrefix(h, "@@ -"):
			break header
		case strings.HasPrefix(h, "--- "):
			dashes = true
			raw := gitName(h[4:], '\t')
			f.rawOld = raw
			err = verify(&f.Old, raw, f.IsNew, "old")
		case strings.HasPrefix(h, "+++ "):
			dashes = true
			raw := gitName(h[4:], '\t')
			f.rawNew = raw
			err = verify(&f.New, raw, f.IsDelete, "new")
		default:
			if v, ok := value("old mode "); ok {
				f.OldMode, err = p.mode(f, v)
			} else if v, ok := value("new mode "); ok {
				f.NewMode, err = p.mode(f, v)
			} else if v, ok := value("deleted file mode "); ok {
				kind(&f.IsDelete)
				f.Old = def
				f.OldMode, err = p.mode(f, v)
			} else if v, ok := value("new file mode "); ok {
				kind(&f.IsNew)
				f.New = def
				f.NewMode, err = p.mode(f, v)
			} else if _, ok := value("copy from "); ok {
				kind(&f.IsCopy)
				f.Old, names = gitName(h[len("copy from "):], 0), true
			} else if _, ok := value("copy to "); ok {
				kind(&f.IsCopy)
				f.New, names = gitName(h[len("copy to "):], 0), true
			} else if _, ok := value("rename from "); ok {
				kind(&f.IsRename)
				f.Old, names = gitName(h[len("rename from "):], 0), true
			} else if _, ok := value("rename to "); ok {
				kind(&f.IsRename)
				f.New, names = gitName(h[len("rename to "):], 0), true
			} else if _, ok := value("rename old "); ok {
				kind(&f.IsRename)
				f.Old, names = gitName(h[len("rename old "):], 0), true
			} else if _, ok := value("rename new "); ok {
				kind(&f.IsRename)
				f.New, names = gitName(h[len("rename new "):], 0), true
			} else if v, ok := value("similarity index "); ok {
				f.Score = score(v)
			} else if v, ok := value("dissimilarity index "); ok {
				f.Score = score(v)
			} else if v, ok := value("index "); ok {
				err = p.indexLine(f, v)
			} else {
				break header
			}
		}
		if err != nil {
			return nil, err
		}
		if kinds > 1 {
			return nil, p.errorf(f, Corrupt, "the header lines contradict each other: a file cannot be new, deleted, renamed or copied at the same time")
		}
		p.advance(h)
	}
	if f.Old == "" && f.New == "" {
		if def == "" {
			if p.line == f.Line+1 {
				return nil, nil // a line of prose that begins with "diff --git"
			}
			return nil, p.errorf(f, Corrupt, "no file name in the header that begins on line %d", f.Line)
		}
		f.Old, f.New = def, def
	}
	if f.New == "" && !f.IsDelete || f.Old == "" && !f.IsNew {
		e := p.errorf(f, Corrupt, "the header lacks the %s file name", map[bool]string{true: "new", false: "old"}[f.New == ""])
		if dashes {
			e.Hint = "one of the \"---\" and \"+++\" lines is missing"
		}
		return nil, e
	}
	if f.IsNew && !names {
		f.Old = ""
	}
	if f.IsDelete && !names {
		f.New = ""
	}
	// git_header_len <= len of the first line: not a header after all.
	if p.line == f.Line+1 && p.pos < len(p.s) {
		p.lone, p.loneLine = f.Path(), f.Line
		return nil, nil
	}
	if p.lone != "" && p.lone != f.Path() && p.lone != f.Old && !f.IsRename && !f.IsCopy {
		// git mixes the two headers up and refuses, too.
		e := p.errorf(f, Corrupt, "the header of %s on line %d is followed by no change", p.lone, p.loneLine)
		e.Line, e.File, e.Hint = p.loneLine, p.lone, "lines were lost"
		return nil, e
	}
	p.lone = ""
	if !binaryStart(p.peek(p.pos)) && !strings.HasPrefix(p.peek(p.pos), "@@ -") && !f.metadata() {
		if dashes {
			e := p.errorf(f, Corrupt, "the header of the file is not followed by a hunk")
			e.Hint = "the diff looks cut off"
			return nil, e
		}
		e := p.errorf(f, Empty, "the header of the file is followed by no change")
		if rest := p.s[p.pos:]; f.Line > 1 && strings.Contains(p.s[:p.pos], "\n@@ -") || strings.Contains(rest, "diff --git ") || strings.Contains(rest, "@@ -") {
			// Not the whole patch is empty: something was lost.
			e.Class = Corrupt
		}
		return nil, e
	}
	return f, nil
}

// metadata says whether the header alone is a change.
func (f *File) metadata() bool {
	return f.IsNew || f.IsDelete || f.IsRename || f.IsCopy ||
		f.OldMode != 0 && f.NewMode != 0 && f.OldMode != f.NewMode
}

func (p *parser) mode(f *File, v string) (uint32, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(v), 8, 32)
	if err != nil {
		return 0, p.errorf(f, Corrupt, "%q is not a file mode", v)
	}
	return uint32(n), nil
}

func score(v string) int {
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(v), "%"))
	if err != nil || n < 0 || n > 100 {
		return 0
	}
	return n
}

// indexLine reads "old..new[ mode]". As in git an index line of another shape
// is no error: it only cannot be used.
func (p *parser) indexLine(f *File, v string) error {
	ids, mode, hasMode := strings.Cut(strings.TrimSpace(v), " ")
	oldID, newID, ok := strings.Cut(ids, "..")
	if !ok || !isHex(oldID) || !isHex(newID) {
		return nil
	}
	f.OldOID, f.NewOID = strings.ToLower(oldID), strings.ToLower(newID)
	if hasMode {
		var err error
		f.OldMode, err = p.mode(f, mode)
		return err
	}
	return nil
}

func isHex(s string) bool {
	if len(s) == 0 || len(s) > 64 {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			return false
		}
	}
	return true
}

// body reads the hunks or the binary data behind a header.
func (p *parser) body(f *File) error {
	for strings.HasPrefix(p.peek(p.pos), "@@ -") && len(p.s)-p.pos > 4 {
		if err := p.hunk(f); err != nil {
			return err
		}
	}
	if len(f.Hunks) == 0 {
		return p.binaryBody(f)
	}
	oldLines, newLines := 0, 0
	for _, h := range f.Hunks {
		oldLines += h.OldLines
		newLines += h.NewLines
	}
	if f.IsNew && oldLines > 0 {
		if f.traditional && f.rawOld != devNull {
			// The time stamp alone said "new"; git refuses, we do too.
			return p.errorf(f, Corrupt, "the time stamp says that the file is new, but its hunk has old lines")
		}
		return p.errorf(f, Corrupt, "the file is new, but its hunk has old lines")
	}
	if f.IsDelete && newLines > 0 {
		return p.errorf(f, Corrupt, "the file is deleted, but its hunk leaves lines in it")
	}
	if !f.IsDelete && newLines == 0 && !f.traditional {
		for i := range f.Hunks {
			if l, t := f.Hunks[i].context(); l+t > 0 {
				f.Notes = append(f.Notes, "the file becomes empty, but is not deleted")
				break
			}
		}
	}
	p.surplus(f)
	return p.surplusError(f)
}

// hunk reads one hunk, header included.
func (p *parser) hunk(f *File) error {
	head := p.peek(p.pos)
	h, ok := parseHunkHeader(head)
	if !ok {
		e := p.errorf(f, Corrupt, "cannot read the hunk header %q", strings.TrimSpace(head))
		e.Hint = "it should look like @@ -12,7 +12,8 @@"
		return e
	}
	h.Line = p.line
	startPos, startLine := p.pos, p.line
	p.advance(head)
	oldLeft, newLeft := h.OldLines, h.NewLines
	h.Lines = make([]Line, 0, min(h.OldLines+h.NewLines, 64))
	added, deleted := 0, 0
	for oldLeft > 0 || newLeft > 0 {
		l := p.peek(p.pos)
		if l == "" || l[len(l)-1] != '\n' {
			return p.brokenHunk(f, &h, startPos, startLine, oldLeft, newLeft)
		}
		text := l[:len(l)-1]
		switch l[0] {
		case '\n':
			oldLeft--
			newLeft--
			h.Lines = append(h.Lines, Line{Op: Context})
		case ' ':
			oldLeft--
			newLeft--
			h.Lines = append(h.Lines, Line{Op: Context, Text: text[1:]})
		case '-':
			oldLeft--
			deleted++
			h.Lines = append(h.Lines, Line{Op: Delete, Text: text[1:]})
		case '+':
			newLeft--
			added++
			h.Lines = append(h.Lines, Line{Op: Add, Text: text[1:]})
		case '\\':
			if !noNewline(l) || len(l) < 12 {
				return p.brokenHunk(f, &h, startPos, startLine, oldLeft, newLeft)
			}
			if n := len(h.Lines); n > 0 {
				h.Lines[n-1].NoEOL = true
			}
		default:
			return p.brokenHunk(f, &h, startPos, startLine, oldLeft, newLeft)
		}
		if oldLeft < 0 || newLeft < 0 {
			return p.brokenHunk(f, &h, startPos, startLine, oldLeft, newLeft)
		}
		p.advance(l)
	}
	if added == 0 && deleted == 0 {
		p.line = startLine
		e := p.errorf(f, Corrupt, "the hunk changes nothing")
		e.Hunk = h.Header
		return e
	}
	// The mark of an incomplete last line stands behind the counted lines.
	if l := p.peek(p.pos); noNewline(l) && len(p.s)-p.pos > 12 {
		if n := len(h.Lines); n > 0 {
			h.Lines[n-1].NoEOL = true
		}
		p.advance(l)
	}
	f.Added += added
	f.Deleted += deleted
	f.Hunks = append(f.Hunks, h)
	return nil
}

// noNewline recognises the "\ No newline at end of file" line, which is
// translated in some diffs.
func noNewline(l string) bool { return strings.HasPrefix(l, "\\ ") }

// parseHunkHeader reads "@@ -a,b +c,d @@ section".
func parseHunkHeader(l string) (Hunk, bool) {
	var h Hunk
	if len(l) == 0 || l[len(l)-1] != '\n' {
		return h, false
	}
	rest, ok := strings.CutPrefix(l, "@@ -")
	if !ok {
		return h, false
	}
	if h.OldStart, h.OldLines, rest, ok = parseRange(rest, " +"); !ok {
		return h, false
	}
	if h.NewStart, h.NewLines, rest, ok = parseRange(rest, " @@"); !ok {
		return h, false
	}
	h.Header = strings.TrimRight(l, "\r\n")
	h.Section = strings.TrimSpace(rest)
	return h, true
}

func parseRange(s, behind string) (start, lines int, rest string, ok bool) {
	number := func() (int, bool) {
		n, i := 0, 0
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			if n = n*10 + int(s[i]-'0'); n > maxLineNumber {
				return 0, false
			}
			i++
		}
		s = s[i:]
		return n, i > 0
	}
	if start, ok = number(); !ok {
		return 0, 0, "", false
	}
	lines = 1
	if strings.HasPrefix(s, ",") {
		s = s[1:]
		if lines, ok = number(); !ok {
			return 0, 0, "", false
		}
	}
	rest, ok = strings.CutPrefix(s, behind)
	return start, lines, rest, ok
}

// hunkBoundary says whether a line cannot belong to a hunk any more.
func hunkBoundary(l string) bool {
	for _, p := range []string{"diff --git ", "diff -", "@@ -", "Index: ", "-- \n", "--\n", "___", "From "} {
		if strings.HasPrefix(l, p) {
			return true
		}
	}
	return l == ""
}

// brokenHunk explains a hunk whose lines do not agree with its header. p is at
// the first line that does not fit.
func (p *parser) brokenHunk(f *File, h *Hunk, startPos, startLine, oldLeft, newLeft int) error {
	at := p.peek(p.pos)
	e := p.errorf(f, Corrupt, "")
	e.Hunk = h.Header

	// Mail programs wrap long lines and eat the leading space of context
	// lines. With k odd lines up to some point, j of them wrapped and the rest
	// context without its space, the header's counts tell whether that
	// explains the hunk.
	oldN, newN, odd, firstOdd := 0, 0, 0, 0
	pos, line := startPos, startLine
	head := p.peek(pos)
	pos += len(head)
	line++
	for n := 0; n < h.OldLines+h.NewLines+1000; n++ {
		l := p.peek(pos)
		if hunkBoundary(l) || strings.HasPrefix(l, "--- ") && strings.HasPrefix(p.peek(pos+len(l)), "+++ ") {
			break
		}
		switch l[0] {
		case ' ', '\n':
			oldN++
			newN++
		case '-':
			oldN++
		case '+':
			newN++
		default:
			if noNewline(l) {
				break
			}
			if odd++; odd == 1 {
				firstOdd = line
			}
		}
		pos += len(l)
		line++
		eaten := h.OldLines - oldN
		if odd > 0 && eaten >= 0 && eaten == h.NewLines-newN && eaten <= odd {
			// Do not stop while odd lines follow: they may be wrapped too.
			next := p.peek(pos)
			if next != "" && !hunkBoundary(next) && next[0] != '\n' && !strings.HasPrefix(next, "--- ") {
				continue
			}
			e.Class, e.Line = WhitespaceDamage, firstOdd
			switch eaten {
			case 0:
				e.Reason = "a long line was wrapped on its way (by a mail program)"
			case odd:
				e.Reason = "the space that begins each context line is gone (format=flowed or a pasted mail)"
			default:
				e.Reason = "lines were wrapped and leading spaces are gone (by a mail program)"
			}
			e.Hint = "send with git send-email, or attach nothing and paste nothing"
			return e
		}
	}

	switch {
	case at == "":
		e.Reason = fmt.Sprintf("the diff ends in the middle of a hunk: %s missing", missing(oldLeft, newLeft))
		e.Hint = "the mail was cut off, or the counts in " + h.Header + " were edited by hand (git apply --recount takes those)"
	case at[len(at)-1] != '\n':
		e.Reason = "the diff ends in the middle of a line"
		e.Hint = "the text was cut off, or its last newline was lost when it was copied"
	case oldLeft < 0 || newLeft < 0:
		e.Reason = fmt.Sprintf("the hunk has more %s lines than its header %s says", map[bool]string{true: "old", false: "new"}[oldLeft < 0], h.Header)
		e.Hint = "the counts were edited by hand; git apply --recount takes those"
	case hunkBoundary(at):
		e.Reason = fmt.Sprintf("the hunk ends too early: %s missing", missing(oldLeft, newLeft))
		e.Hint = "lines were lost, or the counts in " + h.Header + " were edited by hand (git apply --recount takes those)"
	default:
		e.Reason = fmt.Sprintf("a hunk line must begin with a space, '+' or '-', this one is %q", clip(strings.TrimRight(at, "\n"), 60))
	}
	return e
}

func missing(oldLeft, newLeft int) string {
	return fmt.Sprintf("%d old and %d new lines are", max(oldLeft, 0), max(newLeft, 0))
}

// clip shortens s to about n bytes for a message.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// surplus notes what follows the last hunk directly and looks like part of it.
func (p *parser) surplus(f *File) {
	l := p.peek(p.pos)
	if l == "" || l[0] != ' ' || strings.TrimSpace(l) == "" {
		return
	}
	f.Notes = append(f.Notes, fmt.Sprintf("line %d looks like a context line, but the header %s does not count it", p.line, f.Hunks[len(f.Hunks)-1].Header))
}

// surplusError refuses changed lines behind the end of a hunk: git apply skips
// them as text and so loses a part of the change without a word.
func (p *parser) surplusError(f *File) error {
	l := p.peek(p.pos)
	if l == "" || l[0] != '+' && l[0] != '-' || strings.HasPrefix(l, "+++ ") {
		return nil
	}
	if strings.HasPrefix(l, "--- ") || strings.HasPrefix(l, "-- ") || strings.TrimRight(l, "-\r\n ") == "" ||
		strings.HasPrefix(l, "-----") {
		return nil
	}
	last := f.Hunks[len(f.Hunks)-1]
	e := p.errorf(f, Corrupt, "a changed line behind the end of the hunk %s, which its header does not count: %q", last.Header, clip(strings.TrimRight(l, "\n"), 60))
	e.Hunk = last.Header
	e.Hint = "the counts were edited by hand; git apply would drop the line silently, git apply --recount takes it"
	return e
}

// gitHeaderName finds the name that both halves of a "diff --git" line agree
// on after n leading folders are taken away, or "".
func gitHeaderName(l string, n int) string {
	s := strings.TrimRight(l[len("diff --git "):], "\r\n")
	strip := func(s string) (string, bool) {
		for i := 0; i < n; i++ {
			j := strings.IndexByte(s, '/')
			if j < 0 || i == 0 && j == 0 {
				return "", false
			}
			s = s[j+1:]
		}
		return s, s != ""
	}
	if strings.HasPrefix(s, `"`) {
		first, rest, ok := unquote(s)
		if !ok {
			return ""
		}
		rest = strings.TrimLeft(rest, " \t")
		if strings.HasPrefix(rest, `"`) {
			if rest, _, ok = unquote(rest); !ok {
				return ""
			}
		}
		a, okA := strip(first)
		b, okB := strip(rest)
		if okA && okB && a == b {
			return a
		}
		return ""
	}
	if i := strings.IndexByte(s, '"'); i > 0 {
		second, _, ok := unquote(s[i:])
		if !ok {
			return ""
		}
		a, okA := strip(strings.TrimRight(s[:i], " \t"))
		b, okB := strip(second)
		if okA && okB && a == b {
			return a
		}
		return ""
	}
	// Names may hold spaces: the right one is where both halves agree.
	for i := 0; i < len(s); i++ {
		if s[i] != ' ' && s[i] != '\t' {
			continue
		}
		a, okA := strip(s[:i])
		b, okB := strip(s[i+1:])
		if okA && okB && a == b {
			return a
		}
	}
	return ""
}

const devNull = "/dev/null"

// gitName reads a name of a git header line, up to term, carriage return or
// the end of the line, or quoted.
func gitName(s string, term byte) string {
	if strings.HasPrefix(s, `"`) {
		if n, _, ok := unquote(s); ok {
			return n
		}
	}
	if i := strings.IndexFunc(s, func(r rune) bool {
		return r == '\n' || r == '\r' || r == '\v' || r == '\f' || term != 0 && r == rune(term)
	}); i >= 0 {
		s = s[:i]
	}
	return s
}

// plainName reads a name of a "---" or "+++" line that diff(1) wrote: up to a
// tab, or up to a time stamp set off by spaces.
func plainName(s string) string {
	if strings.HasPrefix(s, `"`) {
		if n, _, ok := unquote(s); ok {
			return n
		}
	}
	n := gitName(s, '\t')
	if f := strings.Fields(n); len(f) > 2 && !strings.Contains(s, "\t") {
		for i := 1; i < len(f)-1; i++ {
			if isDate(f[i]) && len(f[i+1]) >= 8 && f[i+1][2] == ':' {
				return strings.TrimRight(n[:strings.LastIndex(n, f[i]+" ")], " ")
			}
		}
	}
	return n
}

func isDate(s string) bool {
	return len(s) == 10 && s[4] == '-' && s[7] == '-' && strings.Trim(s, "0123456789-") == ""
}

// epoch says whether the header line carries the time stamp 0, with which
// diff -N marks a file that does not exist.
func epoch(l string) bool {
	_, ts, ok := strings.Cut(strings.TrimRight(l, "\r\n"), "\t")
	if !ok {
		return false
	}
	f := strings.Fields(ts)
	if len(f) < 2 {
		return false
	}
	clock, frac, _ := strings.Cut(f[1], ".")
	if strings.Trim(frac, "0") != "" {
		return false
	}
	zone := 0
	if len(f) > 2 {
		z := strings.Replace(f[2], ":", "", 1)
		if len(z) != 5 || z[0] != '+' && z[0] != '-' {
			return false
		}
		hh, err1 := strconv.Atoi(z[1:3])
		mm, err2 := strconv.Atoi(z[3:5])
		if err1 != nil || err2 != nil {
			return false
		}
		zone = hh*60 + mm
		if z[0] == '-' {
			zone = -zone
		}
	}
	if len(clock) != 8 || clock[2] != ':' || clock[5] != ':' {
		return false
	}
	hh, err1 := strconv.Atoi(clock[:2])
	mm, err2 := strconv.Atoi(clock[3:5])
	if err1 != nil || err2 != nil || clock[6:] != "00" {
		return false
	}
	minutes := hh*60 + mm - zone
	switch f[0] {
	case "1970-01-01":
		return minutes == 0
	case "1969-12-31":
		return minutes == 24*60
	}
	return false
}

// stripName takes n leading folders from a name and squeezes double slashes,
// as git does. A name with fewer folders gives "".
func stripName(raw string, n int) string {
	if raw == devNull {
		return raw
	}
	s := raw
	for i := 0; i < n; i++ {
		j := strings.IndexByte(s, '/')
		if j < 0 {
			return ""
		}
		s = s[j+1:]
	}
	for strings.Contains(s, "//") {
		s = strings.ReplaceAll(s, "//", "/")
	}
	return s
}

// guessStrip tells how many leading folders the names of a header without
// "diff --git" carry: one for a/ and b/ and for two folders beside each other
// (linux.orig/ and linux/), none for equal names.
func guessStrip(oldRaw, newRaw string) int {
	first := func(s string) (string, bool) { a, _, ok := strings.Cut(s, "/"); return a, ok }
	known := func(s string) bool { return len(s) == 1 && strings.Contains("abciow", s) }
	if oldRaw == devNull || newRaw == devNull {
		name := newRaw
		if newRaw == devNull {
			name = oldRaw
		}
		if d, ok := first(name); ok && known(d) {
			return 1
		}
		return 0
	}
	a, okA := first(oldRaw)
	b, okB := first(newRaw)
	if okA && okB && (a != b || a == ".") {
		return 1
	}
	return 0
}

// unquote reads a C-quoted name at the start of s, as git writes names with
// control or non-ASCII characters, and returns what follows it.
func unquote(s string) (name, rest string, ok bool) {
	var b bytes.Buffer
	for i := 1; i < len(s); i++ {
		c := s[i]
		switch c {
		case '"':
			return b.String(), s[i+1:], true
		case '\n':
			return "", "", false
		case '\\':
			i++
			if i >= len(s) {
				return "", "", false
			}
			if j := strings.IndexByte(`abfnrtv"\`, s[i]); j >= 0 {
				b.WriteByte("\a\b\f\n\r\t\v\"\\"[j])
				continue
			}
			if i+2 < len(s) && s[i] >= '0' && s[i] <= '3' && s[i+1] >= '0' && s[i+1] <= '7' && s[i+2] >= '0' && s[i+2] <= '7' {
				b.WriteByte((s[i]-'0')<<6 | (s[i+1]-'0')<<3 | (s[i+2] - '0'))
				i += 2
				continue
			}
			return "", "", false
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}
