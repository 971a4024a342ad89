// SPDX-License-Identifier: Apache-2.0

package mail

import (
	"bytes"
)

// Raw is one mail as found in its source, not yet decoded.
type Raw struct {
	Envelope string // mbox separator line without its line end; "" when there was none
	Commit   string // commit id, from the separator that git format-patch writes
	Data     []byte // header, empty line, body; mbox quoting undone
	Offset   int    // of Data, or of the separator when there was one, in the source, in bytes
	Unquoted int    // ">From " lines that were undone

	envelope int // bytes of the separator line
}

// IsMbox reports whether data begins with an mbox separator, after empty
// lines and a byte order mark.
func IsMbox(data []byte) bool {
	data = skipLeading(data)
	line, rest := cutLine(data)
	return isSeparator(line, rest)
}

// Split cuts an mbox into its mails. Data without a separator at its start is
// one mail. A line is a separator when git's is_from_line says so and a mail
// header follows. ">From " quoting (mboxrd and mboxo) is undone once.
func Split(data []byte) []Raw {
	body := skipLeading(data)
	base := len(data) - len(body)
	line, rest := cutLine(body)
	if !isSeparator(line, rest) {
		if len(body) == 0 {
			return nil
		}
		return []Raw{{Data: body, Offset: base}}
	}
	var out []Raw
	start := 0 // of the current separator in body
	pos := 0
	for pos < len(body) {
		// Jump from one line that begins with "From " to the next.
		next := nextFrom(body, pos+1)
		for next >= 0 {
			l, r := cutLine(body[next:])
			if isSeparator(l, r) {
				break
			}
			next = nextFrom(body, next+1)
		}
		end := len(body)
		if next >= 0 {
			end = next
		}
		out = append(out, makeRaw(body[start:end], base+start))
		if next < 0 {
			break
		}
		start, pos = next, next
	}
	return out
}

// nextFrom returns the offset of the next line at or after pos that begins
// with "From ", or -1. pos must not be the start of a line that counts.
func nextFrom(b []byte, pos int) int {
	i := bytes.Index(b[min(pos-1, len(b)):], []byte("\nFrom "))
	if i < 0 {
		return -1
	}
	return pos - 1 + i + 1
}

func makeRaw(chunk []byte, off int) Raw {
	line, rest := cutLine(chunk)
	r := Raw{Envelope: string(trimCR(line)), Data: rest, Offset: off, envelope: len(chunk) - len(rest)}
	r.Commit = separatorCommit(r.Envelope)
	if bytes.HasPrefix(rest, []byte(">From ")) || bytes.Contains(rest, []byte("\n>From ")) ||
		bytes.Contains(rest, []byte("\n>>")) {
		r.Data, r.Unquoted = unquoteFrom(rest)
	}
	return r
}

// unquoteFrom removes one ">" from every line of the form ">+From ".
func unquoteFrom(b []byte) ([]byte, int) {
	out := make([]byte, 0, len(b))
	n := 0
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		line := b
		if i >= 0 {
			line = b[:i+1]
		}
		b = b[len(line):]
		if line[0] == '>' && bytes.HasPrefix(bytes.TrimLeft(line, ">"), []byte("From ")) {
			line = line[1:]
			n++
		}
		out = append(out, line...)
	}
	return out, n
}

// isSeparator reports whether line is an mbox separator and rest, the text
// after it, begins like a mail header.
func isSeparator(line, rest []byte) bool {
	if !isFromLine(line) {
		return false
	}
	next, _ := cutLine(rest)
	next = trimCR(next)
	return headerName(next) != "" || bytes.HasPrefix(next, []byte(">From "))
}

// isFromLine is the rule of git mailsplit: "From ", something, and a time of
// day followed by a year.
func isFromLine(line []byte) bool {
	line = trimCR(line)
	if len(line) < 19 || len(line) > 1000 || !bytes.HasPrefix(line, []byte("From ")) {
		return false
	}
	c := bytes.LastIndexByte(line[5:len(line)-1], ':')
	if c < 0 {
		return false
	}
	c += 5
	if c < 9 || c+2 >= len(line) {
		return false
	}
	for _, i := range []int{-4, -2, -1, 1, 2} {
		if d := line[c+i]; d < '0' || d > '9' {
			return false
		}
	}
	year, digits := 0, 0
	for _, d := range bytes.TrimLeft(line[c+3:], " \t") {
		if d < '0' || d > '9' || digits > 8 {
			break
		}
		year = year*10 + int(d-'0')
		digits++
	}
	return year > 90
}

const formatPatchTail = " Mon Sep 17 00:00:00 2001"

// separatorCommit returns the commit id of the separator line that git
// format-patch writes, or "".
func separatorCommit(line string) string {
	const head = "From "
	for _, n := range []int{40, 64} {
		if len(line) == len(head)+n+len(formatPatchTail) && line[:len(head)] == head &&
			line[len(head)+n:] == formatPatchTail && isHex(line[len(head):len(head)+n]) {
			return line[len(head) : len(head)+n]
		}
	}
	return ""
}

func isHex(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return s != ""
}

// skipLeading drops a UTF-8 byte order mark and empty lines, as git does.
func skipLeading(b []byte) []byte {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	for len(b) > 0 && (b[0] == '\n' || b[0] == '\r' || b[0] == ' ' || b[0] == '\t') {
		// Only whole blank lines go: an indented first line is text.
		i := bytes.IndexByte(b, '\n')
		if i < 0 || len(bytes.TrimSpace(b[:i])) > 0 {
			break
		}
		b = b[i+1:]
	}
	return b
}

// cutLine returns the first line without its LF, and what follows.
func cutLine(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

func trimCR(b []byte) []byte { return bytes.TrimSuffix(b, []byte("\r")) }
