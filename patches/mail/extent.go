// SPDX-License-Identifier: Apache-2.0

package mail

import (
	"bytes"
)

// extent is what a pass over a diff text says, without parsing it: where the
// last line that belongs to it ends, and what is wrong with its shape.
type extent struct {
	end        int // offset after the last line of the diff
	damaged    int // hunks whose lines do not match their header
	badLine    int // 1-based line in the diff of the first damage
	crHead     int // header lines that end in CR
	crBody     int // content lines that end in CR
	nbsp       int // lines with U+00A0
	nbspIndent int // of these, lines where it stands in the indent
	tabs       int // content lines indented by a tab
	spaces     int // content lines indented by eight or more blanks
	hunks      int
}

var nbsp = []byte("\u00a0")

// measure walks a diff that begins at b[0].
func measure(b []byte) extent {
	var e extent
	var oldLeft, newLeft int
	inBinary := false
	after := false // directly behind a finished hunk
	line := 0
	broken := func() {
		e.damaged++
		if e.badLine == 0 {
			e.badLine = line
		}
	}
	pos := 0
	for pos < len(b) {
		next := len(b)
		if i := bytes.IndexByte(b[pos:], '\n'); i >= 0 {
			next = pos + i + 1
		}
		l := bytes.TrimSuffix(b[pos:next], []byte("\n"))
		line++
		cr := len(l) > 0 && l[len(l)-1] == '\r'
		if oldLeft > 0 || newLeft > 0 {
			c := byte(' ')
			if len(l) > 0 && l[0] != '\r' {
				c = l[0]
			}
			ok := true
			switch c {
			case ' ', '\t': // some mailers eat the blank before a tab
				ok = c == ' '
				oldLeft--
				newLeft--
			case '-':
				oldLeft--
			case '+':
				newLeft--
			case '\\':
			default:
				ok = false
			}
			if !ok || oldLeft < 0 || newLeft < 0 {
				broken()
				oldLeft, newLeft = 0, 0
				if ok || !headLine(l) {
					if ok {
						e.end = next
					}
					pos = next
					continue
				}
				continue // this line begins the next file: look at it again
			}
			if cr {
				e.crBody++
			}
			if bytes.Contains(l, nbsp) {
				e.nbsp++
				if t := bytes.TrimLeft(l[min(1, len(l)):], " \t"); bytes.HasPrefix(t, nbsp) || bytes.HasPrefix(l, nbsp) {
					e.nbspIndent++
				}
			}
			if len(l) > 1 {
				if l[1] == '\t' {
					e.tabs++
				} else if bytes.HasPrefix(l[1:], []byte("        ")) {
					e.spaces++
				}
			}
			e.end = next
			after = oldLeft == 0 && newLeft == 0
			pos = next
			continue
		}
		switch {
		case inBinary:
			// The empty line behind the data belongs to it.
			inBinary = len(trimCR(l)) > 0
			e.end = next
		case bytes.HasPrefix(l, []byte("@@ -")):
			var ok bool
			if oldLeft, newLeft, ok = hunkCounts(l); !ok {
				broken()
			}
			e.hunks++
			e.end = next
			after = false
		case bytes.HasPrefix(l, []byte("\\ ")):
			e.end = next
		case bytes.HasPrefix(l, []byte("GIT binary patch")), bytes.HasPrefix(l, []byte("literal ")), bytes.HasPrefix(l, []byte("delta ")):
			inBinary = true
			e.end = next
		case bytes.HasPrefix(l, []byte("-- ")) && len(trimCR(l)) == 3, string(trimCR(l)) == "--":
			// The signature. Nothing that follows is diff, unless parts were joined.
			if i := findDiff(b, next); i >= 0 {
				line += bytes.Count(b[next:i], []byte("\n"))
				pos = i
				after = false
				continue
			}
			pos = len(b)
			continue
		case headLine(l):
			if cr {
				e.crHead++
			}
			e.end = next
			after = false
		case after && len(l) > 0 && (l[0] == ' ' || l[0] == '+' || l[0] == '-') && len(bytes.TrimSpace(l)) > 0:
			// More lines than the hunk header said.
			broken()
			e.end = next
			after = false
		case len(trimCR(l)) > 0:
			after = false
		}
		pos = next
	}
	if oldLeft > 0 || newLeft > 0 {
		broken()
	}
	return e
}

var headPrefixes = [][]byte{
	[]byte("diff -"), []byte("index "), []byte("--- "), []byte("+++ "), []byte("old mode "), []byte("new mode "),
	[]byte("deleted file mode "), []byte("new file mode "), []byte("copy from "), []byte("copy to "),
	[]byte("rename from "), []byte("rename to "), []byte("rename old "), []byte("rename new "),
	[]byte("similarity index "), []byte("dissimilarity index "), []byte("Index: "), []byte("======"),
	[]byte("Binary files "), []byte("GIT binary patch"), []byte("Only in "), []byte("@@ -"),
}

// headLine reports whether l can stand in the header of one file's diff.
func headLine(l []byte) bool {
	if len(l) < 6 {
		return false
	}
	for _, p := range headPrefixes {
		if bytes.HasPrefix(l, p) {
			return true
		}
	}
	return false
}

// hunkCounts reads "@@ -a,b +c,d @@".
func hunkCounts(l []byte) (oldN, newN int, ok bool) {
	l = l[len("@@ -"):]
	if _, oldN, l, ok = rangeOf(l); !ok || !bytes.HasPrefix(l, []byte(" +")) {
		return 0, 0, false
	}
	if _, newN, l, ok = rangeOf(l[2:]); !ok || !bytes.HasPrefix(l, []byte(" @@")) {
		return 0, 0, false
	}
	return oldN, newN, true
}

func rangeOf(l []byte) (start, n int, rest []byte, ok bool) {
	start, l, ok = number(l)
	if !ok {
		return
	}
	n = 1
	if len(l) > 0 && l[0] == ',' {
		n, l, ok = number(l[1:])
	}
	return start, n, l, ok
}

func number(l []byte) (n int, rest []byte, ok bool) {
	i := 0
	for i < len(l) && l[i] >= '0' && l[i] <= '9' && i < 9 {
		n = n*10 + int(l[i]-'0')
		i++
	}
	return n, l[i:], i > 0
}

// findDiff returns the offset of the first line at or after from that begins
// a diff, or -1. from must be the start of a line.
func findDiff(b []byte, from int) int {
	for pos := from; pos < len(b); {
		if startsDiff(b[pos:]) {
			return pos
		}
		// Jump to the next line that can be one.
		next := -1
		for i := pos; ; {
			j := bytes.IndexByte(b[i:], '\n')
			if j < 0 || i+j+1 >= len(b) {
				break
			}
			i += j + 1
			if c := b[i]; c == 'd' || c == '-' || c == 'I' {
				next = i
				break
			}
		}
		if next < 0 {
			return -1
		}
		pos = next
	}
	return -1
}

// startsDiff reports whether the line at the start of b begins a diff: it must
// look like the first line of one and be followed by what such a line needs,
// since commit messages quote and talk about diffs.
func startsDiff(b []byte) bool {
	l, rest := cutLine(b)
	switch {
	case bytes.HasPrefix(l, []byte("diff -")):
		for range 6 {
			var n []byte
			if n, rest = cutLine(rest); rest == nil && len(n) == 0 {
				return false
			}
			n = trimCR(n)
			switch {
			case bytes.HasPrefix(n, []byte("--- ")):
				return minusPlus(n, rest)
			case bytes.HasPrefix(n, []byte("index ")):
				// An index line alone is an empty new file or binary data.
				return true
			case bytes.HasPrefix(n, []byte("diff -")):
				// A file of which only the mode or nothing shown here changed.
			case headLine(n):
				return true
			}
		}
	case bytes.HasPrefix(l, []byte("Index: ")):
		for range 4 {
			var n []byte
			if n, rest = cutLine(rest); len(n) > 0 && (bytes.HasPrefix(n, []byte("=====")) || bytes.HasPrefix(n, []byte("diff -")) || bytes.HasPrefix(n, []byte("--- "))) {
				return true
			}
		}
	case bytes.HasPrefix(l, []byte("--- ")) && len(trimCR(l)) > 4 && !isSpace(l[4]):
		return minusPlus(l, rest)
	}
	return false
}

// minusPlus reports whether a "--- name" line is followed by "+++ name" and a
// hunk. Long lines may have been wrapped by a mailer, so a line in between is
// tolerated: the diff is damaged then, but it is one.
func minusPlus(_, rest []byte) bool {
	plus := false
	for range 5 {
		var n []byte
		n, rest = cutLine(rest)
		switch {
		case !plus && bytes.HasPrefix(n, []byte("+++ ")):
			plus = true
		case plus && bytes.HasPrefix(n, []byte("@@ -")):
			return true
		case len(trimCR(n)) == 0:
			return false
		}
	}
	return false
}
