// SPDX-License-Identifier: Apache-2.0

package mail

import (
	"bytes"
	"strings"
)

// cut is a mail's text divided as git mailinfo does it.
type cut struct {
	inBody   map[string]string // "From", "Subject", "Date" found at the start of the text
	scissors bool
	logStart int
	logEnd   int // where the patch part begins ("---" line or diff)
	appendix int // offset after the "---" line, or the same as diff
	diff     int // offset of the diff, -1 without one
	diffEnd  int
	gitCut   string // line at which git would have ended the message earlier
	ext      extent
}

// maxInBody bounds one header in the body, in bytes.
const maxInBody = 16 << 10

// cutText finds message, appendix and diff. convert turns raw text at an
// offset into UTF-8.
func cutText(text []byte, scissors bool, convert func(from, to int) string) cut {
	c := cut{inBody: map[string]string{}, diff: -1}
	header := true
	acc := "" // in-body header collected so far
	flush := func() {
		if acc == "" {
			return
		}
		name, val, _ := strings.Cut(acc, ":")
		c.inBody[canonical(name)] = decodeWords(strings.TrimSpace(val))
		acc = ""
	}
	pos := 0
	c.logEnd = len(text)
	for pos < len(text) {
		next := len(text)
		if i := bytes.IndexByte(text[pos:], '\n'); i >= 0 {
			next = pos + i + 1
		}
		l := bytes.TrimSuffix(text[pos:next], []byte("\n"))
		if header {
			if len(l) == 0 {
				if acc != "" {
					flush()
					header = false
				}
				pos = next
				c.logStart = pos
				continue
			}
			switch {
			case acc != "" && (l[0] == ' ' || l[0] == '\t') && !(scissors && isScissors(l)):
				if len(acc) < maxInBody {
					acc += convert(pos, pos+len(l))
				}
				pos = next
				c.logStart = pos
				continue
			}
			flush()
			took := true
			switch {
			case separatorCommit(strings.TrimPrefix(string(l[:min(len(l), 120)]), ">")) != "":
			case bytes.HasPrefix(l, []byte("[PATCH]")) && len(l) > 7 && isSpace(l[7]):
				c.inBody["Subject"] = decodeWords(convert(pos, pos+len(l)))
			case inBodyName(l) != "" && c.inBody[inBodyName(l)] == "" && len(l) < 2000:
				acc = convert(pos, pos+len(l))
			default:
				took = false
			}
			if took {
				pos = next
				c.logStart = pos
				continue
			}
			header = false
			c.logStart = pos
		}
		if scissors && isScissors(l) {
			c.scissors = true
			c.inBody = map[string]string{}
			header = true
			pos = next
			c.logStart = pos
			continue
		}
		if len(l) > 2 && (l[0] == '-' || l[0] == 'd' || l[0] == 'I') {
			if onlyDashes(l) {
				c.logEnd, c.appendix = pos, next
				c.diff = findDiff(text, next)
				break
			}
			if patchBreak(l) {
				if startsDiff(text[pos:]) {
					c.logEnd, c.appendix, c.diff = pos, pos, pos
					break
				}
				if c.gitCut == "" {
					c.gitCut = convert(pos, pos+len(l))
				}
			}
		}
		pos = next
	}
	flush()
	if c.logEnd == len(text) {
		c.appendix = len(text)
	}
	if c.logStart > c.logEnd {
		c.logStart = c.logEnd
	}
	if c.diff >= 0 {
		c.ext = measure(text[c.diff:])
		c.diffEnd = c.diff + c.ext.end
	}
	return c
}

func canonical(name string) string {
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "from":
		return "From"
	case "subject":
		return "Subject"
	case "date":
		return "Date"
	}
	return ""
}

// inBodyName returns which of the three headers that git takes from the body
// line l begins, or "".
func inBodyName(l []byte) string {
	i := bytes.IndexByte(l[:min(len(l), 10)], ':')
	if i < 4 {
		return ""
	}
	n := string(l[:i])
	if strings.TrimSpace(n) != n {
		return ""
	}
	return canonical(n)
}

// onlyDashes is the manual separator: "---" and white space.
func onlyDashes(l []byte) bool {
	return bytes.HasPrefix(l, []byte("---")) && len(bytes.TrimSpace(l[3:])) == 0
}

// patchBreak is git mailinfo's rule for the first line of the patch, without
// the "---" separator.
func patchBreak(l []byte) bool {
	return bytes.HasPrefix(l, []byte("diff -")) || bytes.HasPrefix(l, []byte("Index: ")) ||
		bytes.HasPrefix(l, []byte("--- ")) && len(l) > 4 && !isSpace(l[4])
}

// isScissors is git's rule: a perforation of dashes and scissors that is at
// least 8 characters and a third of the line, and half of it no gaps.
func isScissors(l []byte) bool {
	if len(l) > 1000 || !bytes.ContainsAny(l, "8%") {
		return false
	}
	scissors, gap, perforation := 0, 0, 0
	first, last := -1, -1
	in := false
	for i := 0; i < len(l); i++ {
		c := l[i]
		if isSpace(c) {
			if in {
				perforation++
				gap++
			}
			continue
		}
		last = i
		if first < 0 {
			first = i
		}
		if c == '-' {
			in = true
			perforation++
			continue
		}
		if i+1 < len(l) {
			switch string(l[i : i+2]) {
			case ">8", "8<", ">%", "%<":
				in = true
				perforation += 2
				scissors += 2
				i++
				continue
			}
		}
		in = false
	}
	if first < 0 || scissors == 0 {
		return false
	}
	visible := last - first + 1
	return visible >= 8 && visible < perforation*3 && gap*2 < perforation
}

// normalizeCR strips the CR of lines that end in CRLF, as package comment 5
// says. encoded tells that the text was base64 or quoted-printable.
func normalizeCR(text []byte, encoded bool, f *Facts) []byte {
	if bytes.IndexByte(text, '\r') < 0 {
		return text
	}
	i := findDiff(text, 0)
	head, diff := text, []byte(nil)
	if i >= 0 {
		head, diff = text[:i], text[i:]
	}
	headCR := bytes.Contains(head, []byte("\r\n"))
	diffCR := false
	if diff != nil {
		e := measure(diff)
		diffCR = e.crHead > 0
		f.ContentCR = !diffCR && e.crBody > 0
	}
	if !headCR && !diffCR {
		return text
	}
	if encoded {
		f.QuotedCRLF = true
	} else {
		f.CRLF = true
	}
	out := make([]byte, 0, len(text))
	strip := func(b []byte) {
		for len(b) > 0 {
			j := bytes.IndexByte(b, '\n')
			if j < 0 {
				out = append(out, trimCR(b)...)
				return
			}
			out = append(out, trimCR(b[:j])...)
			out = append(out, '\n')
			b = b[j+1:]
		}
	}
	strip(head)
	switch {
	case diffCR:
		strip(diff)
	default:
		out = append(out, diff...)
	}
	return out
}
