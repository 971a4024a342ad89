// SPDX-License-Identifier: Apache-2.0

package mail

import (
	"bytes"
	"fmt"
	"html"
	"mime"
	"strings"
)

// Bounds on MIME structure. A list mail has at most a handful of parts.
const (
	maxParts = 200
	maxDepth = 12
)

// Part describes one leaf of a MIME mail.
type Part struct {
	Type     string `json:"type"` // "text/plain"
	Name     string `json:"name,omitempty"`
	Charset  string `json:"charset,omitempty"`
	Encoding string `json:"encoding,omitempty"` // Content-Transfer-Encoding as declared, lower case
	Size     int    `json:"size"`               // decoded, in bytes
	Used     bool   `json:"used,omitempty"`     // its text is part of the mail's text
}

// segment is a run of the mail's text that came from one part.
type segment struct {
	end     int // offset in text after its last byte
	charset string
	part    int // index in Parts
}

// walker collects the text of a mail from its parts.
type walker struct {
	m        *Message
	text     []byte
	segs     []segment
	attached [][]byte
	parts    int
	boundary int // multipart containers opened
	htmlText []byte
}

func (w *walker) problem(id, format string, args ...any) { w.m.problem(id, format, args...) }

// params is a lenient mime.ParseMediaType: it never fails.
func mediaType(v string) (typ string, params map[string]string) {
	v = strings.TrimSpace(v)
	if typ, params, err := mime.ParseMediaType(v); err == nil {
		return typ, params
	}
	head, tail, _ := strings.Cut(v, ";")
	typ = strings.ToLower(strings.TrimSpace(head))
	params = map[string]string{}
	for tail != "" && len(params) < 20 {
		var kv string
		q := false
		end := len(tail)
		for i := 0; i < len(tail); i++ {
			if tail[i] == '"' {
				q = !q
			} else if tail[i] == ';' && !q {
				end = i
				break
			}
		}
		kv, tail = tail[:end], tail[min(end+1, len(tail)):]
		k, val, ok := strings.Cut(kv, "=")
		if !ok {
			continue
		}
		val = strings.TrimSpace(val)
		if strings.HasPrefix(val, `"`) {
			val = strings.Trim(val, `"`)
		} else if f := strings.Fields(val); len(f) > 0 {
			val = f[0]
		}
		params[strings.ToLower(strings.TrimSpace(k))] = val
	}
	return typ, params
}

// walk reads one entity. It returns the number of problems it could not fix.
func (w *walker) walk(h Header, body []byte, depth int) {
	ct := h.Raw("Content-Type")
	typ, params := "text/plain", map[string]string{}
	if ct != "" {
		typ, params = mediaType(ct)
	}
	if depth > maxDepth {
		w.problem("mail.mime-depth", "the mail nests more than %d MIME parts in each other; the inner ones are not read", maxDepth)
		return
	}
	switch {
	case strings.HasPrefix(typ, "multipart/"):
		b := params["boundary"]
		var parts [][]byte
		closed := false
		if b != "" && hasBoundary(body, b) {
			parts, closed = splitParts(body, b)
		}
		if len(parts) == 0 {
			if depth == 0 {
				w.m.Facts.MIMEWrong = fmt.Sprintf("Content-Type says %s, but the body has no such parts", typ)
				w.problem("mail.mime-wrong", "the mail header says %s, but the body is not divided into parts; it is read as plain text, and git am may refuse it", typ)
			}
			w.leaf(h, body, "text/plain", params)
			return
		}
		w.boundary++
		if !closed {
			w.problem("mail.mime-truncated", "the last MIME part has no closing boundary: the mail may have been cut short")
		}
		if w.m.Facts.Multipart == "" {
			w.m.Facts.Multipart = typ
		}
		w.container(typ, params, parts, depth)
	case typ == "message/rfc822":
		if w.count() {
			w.attached = append(w.attached, decodeTransfer(h, body))
		}
	default:
		w.leaf(h, body, typ, params)
	}
}

func (w *walker) count() bool {
	w.parts++
	if w.parts == maxParts+1 {
		w.problem("mail.mime-parts", "the mail has more than %d MIME parts; the rest is not read", maxParts)
	}
	return w.parts <= maxParts
}

func (w *walker) container(typ string, params map[string]string, parts [][]byte, depth int) {
	type entity struct {
		h    Header
		body []byte
		typ  string
	}
	var es []entity
	for _, p := range parts {
		if len(es) > maxParts {
			w.count()
			break
		}
		h, body, _ := parseHeader(p)
		t := "text/plain"
		if v := h.Raw("Content-Type"); v != "" {
			t, _ = mediaType(v)
		}
		es = append(es, entity{h, body, t})
	}
	switch typ {
	case "multipart/signed":
		w.m.Facts.Signed = strings.TrimPrefix(params["protocol"], "application/")
		if w.m.Facts.Signed == "" {
			w.m.Facts.Signed = "yes"
		}
		if len(es) > 1 {
			es = es[:1]
		}
	case "multipart/alternative":
		// Take the plain text, else the first that can be read.
		best := -1
		for i, e := range es {
			if e.typ == "text/plain" {
				best = i
				break
			}
			if best < 0 && (strings.HasPrefix(e.typ, "multipart/") || strings.HasPrefix(e.typ, "text/")) {
				best = i
			}
		}
		for _, e := range es {
			if e.typ == "text/html" {
				w.m.Facts.HTML = true
			}
		}
		if best >= 0 {
			es = es[best : best+1]
		}
	}
	for _, e := range es {
		if w.parts > maxParts {
			return
		}
		w.walk(e.h, e.body, depth+1)
	}
}

func (w *walker) leaf(h Header, body []byte, typ string, params map[string]string) {
	if !w.count() {
		return
	}
	enc := transferEncoding(h)
	_, disp := mediaType(h.Raw("Content-Disposition"))
	name := disp["filename"]
	if name == "" {
		name = params["name"]
	}
	name = decodeWords(name)
	text, problem := decodeBody(enc, body)
	part := Part{Type: typ, Name: name, Charset: charsetName(params["charset"]), Encoding: enc}
	if problem != "" {
		if strings.HasPrefix(problem, "the ") && w.m.Facts.MIMEWrong == "" {
			w.m.Facts.MIMEWrong = problem
		}
		w.problem("mail.transfer-encoding", "%s", problem)
	}
	if i := bytes.IndexByte(text, 0); i >= 0 && strings.HasPrefix(typ, "text/") && asciiSuperset(part.Charset) {
		w.problem("mail.nul-byte", "the text holds NUL bytes; git am refuses such a mail")
	}
	lowName := strings.ToLower(name)
	patchName := strings.HasSuffix(lowName, ".patch") || strings.HasSuffix(lowName, ".diff") || strings.HasSuffix(lowName, ".mbox") || strings.HasSuffix(lowName, ".eml")
	patchType := typ == "text/x-patch" || typ == "text/x-diff" || typ == "application/x-patch" || typ == "application/mbox" || typ == "text/patch"
	attachment := strings.HasPrefix(strings.ToLower(strings.TrimSpace(h.Raw("Content-Disposition"))), "attachment")
	switch {
	case typ == "text/html":
		w.m.Facts.HTML = true
		if w.boundary == 0 || len(w.text) == 0 {
			w.htmlText = htmlToText(text)
		}
	case patchName, patchType, strings.HasPrefix(typ, "text/") && attachment:
		if looksLikeMail(text) {
			w.attached = append(w.attached, text)
		} else if patchName || patchType || looksLikeDiff(text) {
			w.add(text, &part, params)
			w.m.Facts.Attachment = true
		}
	case strings.HasPrefix(typ, "text/") || w.boundary == 0:
		if !strings.HasPrefix(typ, "text/") && w.boundary == 0 && ctKnown(typ) {
			w.m.Facts.MIMEWrong = "Content-Type says " + typ
			w.problem("mail.mime-wrong", "the mail header says that the body is %s; it is read as plain text", typ)
		}
		w.add(text, &part, params)
	}
	part.Size = len(text)
	w.m.Parts = append(w.m.Parts, part)
}

// ctKnown is false for the values that old mailers write for plain text.
func ctKnown(typ string) bool { return strings.Contains(typ, "/") }

func (w *walker) add(text []byte, part *Part, params map[string]string) {
	if !asciiSuperset(part.Charset) {
		s, v := toUTF8(text, part.Charset)
		w.m.charset(v, part.Charset)
		text = []byte(s)
	}
	f := &w.m.Facts
	if strings.EqualFold(params["format"], "flowed") {
		f.Flowed, f.DelSp = true, strings.EqualFold(params["delsp"], "yes")
		joined := unflow(text, f.DelSp)
		switch {
		case bytes.Equal(joined, text):
		case diffDamage(joined) > diffDamage(text):
			f.FlowedIgnored = true
		default:
			text = joined
		}
	}
	part.Used = true
	if len(w.text) == 0 && len(w.segs) == 0 {
		w.text = text // no copy for the usual mail of one part
	} else {
		if n := len(w.text); n > 0 && w.text[n-1] != '\n' {
			w.text = append(w.text[:n:n], '\n')
		}
		w.text = append(w.text[:len(w.text):len(w.text)], text...)
	}
	w.segs = append(w.segs, segment{len(w.text), part.Charset, len(w.m.Parts)})
	if part.Encoding == "base64" || part.Encoding == "quoted-printable" || f.TransferEncoding == "" {
		f.TransferEncoding = part.Encoding
	}
	if f.Charset == "" {
		f.Charset = part.Charset
	}
}

// diffDamage counts what is wrong with the diff in a text: 0 when it is whole
// or when there is none.
func diffDamage(text []byte) int {
	i := findDiff(text, 0)
	if i < 0 {
		return 0
	}
	e := measure(text[i:])
	return e.damaged
}

func transferEncoding(h Header) string {
	v := strings.ToLower(strings.TrimSpace(h.Raw("Content-Transfer-Encoding")))
	if i := strings.IndexAny(v, " ;\t("); i >= 0 {
		v = v[:i]
	}
	return strings.Trim(v, `"'`)
}

func decodeTransfer(h Header, body []byte) []byte {
	b, _ := decodeBody(transferEncoding(h), body)
	return b
}

// decodeBody undoes a Content-Transfer-Encoding. A body that is not in that
// encoding is returned as it is. problem is a sentence, or "".
func decodeBody(enc string, body []byte) (text []byte, problem string) {
	switch enc {
	case "base64":
		if !looksBase64(body) {
			if len(bytes.TrimSpace(body)) == 0 {
				return body, ""
			}
			return body, "the mail header says base64, but the body is plain text; it is read as plain text"
		}
		out, junk := decodeBase64(body)
		if junk > 0 {
			return out, fmt.Sprintf("%d lines in the base64 text are not base64 (a list footer?); they are left out", junk)
		}
		return out, ""
	case "quoted-printable":
		out, bad, soft, escapes := decodeQP(body)
		if bad > 0 && soft == 0 && escapes == 0 {
			return body, "the mail header says quoted-printable, but the body is plain text; it is read as plain text"
		}
		if bad > 0 {
			return out, fmt.Sprintf(`%d "=" signs in the quoted-printable text are not followed by two hex digits; they are kept as they are`, bad)
		}
		return out, ""
	case "", "7bit", "8bit", "binary", "7-bit", "8-bit":
		if enc == "" || enc == "7bit" {
			if bareBase64(body) {
				out, _ := decodeBase64(body)
				if looksLikeDiff(out) && !bytes.ContainsRune(out, 0) {
					return out, "the body is base64, but the mail header does not say so; it is decoded"
				}
			}
		}
		return body, ""
	case "x-uuencode", "uuencode":
		return body, "the body is uuencoded, which is not read"
	}
	return body, fmt.Sprintf("unknown Content-Transfer-Encoding %q; the body is read as it is", PrintableLine(clip(enc, 40)))
}

func clip(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "..."
	}
	return s
}

// looksBase64 reports whether at least the first text line can be base64.
func looksBase64(b []byte) bool {
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		return base64Line(line)
	}
	return false
}

// bareBase64 reports whether b consists of base64 lines only, long ones.
func bareBase64(b []byte) bool {
	n, long := 0, 0
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if !base64Line(line) {
			return false
		}
		n++
		if len(line) >= 60 {
			long++
		}
	}
	return long >= 2 && n-long <= 1
}

func base64Line(line []byte) bool {
	for _, c := range line {
		if !(c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '=') {
			return false
		}
	}
	return true
}

var base64Value = func() (t [256]int8) {
	for i := range t {
		t[i] = -1
	}
	for i, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/" {
		t[c] = int8(i)
	}
	return t
}()

// decodeBase64 decodes what it can: lines that are not base64 are skipped and
// counted, padding may stand in the middle (joined bodies), and a cut end
// gives the bytes that are complete.
func decodeBase64(b []byte) (out []byte, junk int) {
	out = make([]byte, 0, len(b)/4*3+3)
	var acc uint32
	n := 0
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		line = bytes.TrimSpace(line)
		if !base64Line(line) {
			junk++
			continue
		}
		for _, c := range line {
			v := base64Value[c]
			if v < 0 { // "=": the quantum ends here
				switch n {
				case 2:
					out = append(out, byte(acc>>4))
				case 3:
					out = append(out, byte(acc>>10), byte(acc>>2))
				}
				acc, n = 0, 0
				continue
			}
			acc = acc<<6 | uint32(v)
			if n++; n == 4 {
				out = append(out, byte(acc>>16), byte(acc>>8), byte(acc))
				acc, n = 0, 0
			}
		}
	}
	switch n {
	case 2:
		out = append(out, byte(acc>>4))
	case 3:
		out = append(out, byte(acc>>10), byte(acc>>2))
	}
	return out, junk
}

// decodeQP decodes quoted-printable text. bad counts "=" signs that begin no
// escape and no soft line break; they stay as they are.
func decodeQP(b []byte) (out []byte, bad, soft, escapes int) {
	out = make([]byte, 0, len(b))
	for len(b) > 0 {
		i := bytes.IndexByte(b, '=')
		if i < 0 {
			out = append(out, b...)
			break
		}
		out = append(out, b[:i]...)
		b = b[i:]
		if len(b) >= 3 && unhex(b[1]) >= 0 && unhex(b[2]) >= 0 {
			out = append(out, byte(unhex(b[1])<<4|unhex(b[2])))
			b = b[3:]
			escapes++
			continue
		}
		// Soft break; relays may have added blanks behind the "=".
		j := 1
		for j < len(b) && (b[j] == ' ' || b[j] == '\t' || b[j] == '\r') {
			j++
		}
		if j == len(b) || b[j] == '\n' {
			b = b[min(j+1, len(b)):]
			soft++
			continue
		}
		out = append(out, '=')
		b = b[1:]
		bad++
	}
	return out, bad, soft, escapes
}

// hasBoundary reports whether body has a delimiter line of boundary.
func hasBoundary(body []byte, boundary string) bool {
	d := []byte("--" + boundary)
	return bytes.HasPrefix(body, d) || bytes.Contains(body, append([]byte("\n"), d...))
}

// splitParts cuts a multipart body at its delimiter lines. closed tells
// whether the end delimiter was there.
func splitParts(body []byte, boundary string) (parts [][]byte, closed bool) {
	d := []byte("--" + boundary)
	nd := append([]byte("\n"), d...)
	start := -1
	pos := 0
	for {
		var at int
		if pos == 0 && bytes.HasPrefix(body, d) {
			at = 0
		} else {
			i := bytes.Index(body[max(pos-1, 0):], nd)
			if i < 0 {
				break
			}
			at = max(pos-1, 0) + i + 1
		}
		line, rest := cutLine(body[at:])
		tail := bytes.TrimRight(line[len(d):], " \t\r")
		next := len(body) - len(rest)
		if len(tail) > 0 && !bytes.Equal(tail, []byte("--")) {
			// Another boundary that begins like ours.
			if len(rest) == 0 {
				break
			}
			pos = next
			continue
		}
		if start >= 0 {
			parts = append(parts, body[start:at])
		}
		start = next
		if len(tail) > 0 {
			return parts, true
		}
		if len(parts) > maxParts+1 || len(rest) == 0 {
			break
		}
		pos = next
	}
	if start >= 0 && start < len(body) {
		parts = append(parts, body[start:])
	}
	return parts, false
}

// looksLikeMail reports whether an attachment is a mail of its own, as git
// format-patch writes it.
func looksLikeMail(b []byte) bool {
	b = skipLeading(b)
	line, rest := cutLine(b)
	if isSeparator(line, rest) {
		return true
	}
	h, _, _ := parseHeader(b[:min(len(b), 32<<10)])
	return h.Has("From") && h.Has("Subject")
}

func looksLikeDiff(b []byte) bool { return findDiff(b, 0) >= 0 }

// maxHTML is how much of an HTML body is looked at, in bytes.
const maxHTML = 256 << 10

// htmlToText makes an HTML body readable enough to say what it is. A patch
// sent as HTML is damaged in any case.
func htmlToText(b []byte) []byte {
	b = b[:min(len(b), maxHTML)]
	var out []byte
	skip := ""
	for len(b) > 0 {
		i := bytes.IndexByte(b, '<')
		if i < 0 {
			i = len(b)
		}
		if skip == "" {
			out = append(out, b[:i]...)
		}
		if b = b[i:]; len(b) == 0 {
			break
		}
		end := bytes.IndexByte(b, '>')
		if end < 0 {
			break
		}
		tag := strings.ToLower(string(b[1:min(end, 20)]))
		b = b[end+1:]
		name := strings.TrimLeft(tag, "/")
		if k := strings.IndexAny(name, " \t\r\n/"); k >= 0 {
			name = name[:k]
		}
		closing := strings.HasPrefix(tag, "/")
		switch name {
		case "script", "style", "head":
			if closing && skip == name {
				skip = ""
			} else if !closing && skip == "" {
				skip = name
			}
		case "br":
			out = append(out, '\n')
		case "p", "div", "pre", "tr", "li", "h1", "h2", "h3":
			if closing {
				out = append(out, '\n')
			}
		}
	}
	return []byte(html.UnescapeString(string(out)))
}

// unflow undoes format=flowed (RFC 3676): stuffed blanks go, a line that ends
// in a blank is joined to the next of the same quote depth.
func unflow(b []byte, delsp bool) []byte {
	out := make([]byte, 0, len(b))
	flowing, depth := false, 0
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		line, nl := b, []byte(nil)
		if i >= 0 {
			line, nl = b[:i], b[i:i+1]
		}
		b = b[len(line)+len(nl):]
		if bytes.HasSuffix(line, []byte("\r")) {
			nl = append([]byte("\r"), nl...)
			line = line[:len(line)-1]
		}
		if string(line) == "-- " { // a signature mark is never flowed
			if flowing {
				out = append(out, '\n')
				flowing = false
			}
			out = append(append(out, line...), nl...)
			continue
		}
		d := 0
		for d < len(line) && line[d] == '>' {
			d++
		}
		content := line[d:]
		if len(content) > 0 && content[0] == ' ' {
			content = content[1:]
		}
		soft := len(content) > 0 && content[len(content)-1] == ' '
		if flowing && d != depth {
			out = append(out, '\n')
			flowing = false
		}
		if !flowing {
			out = append(out, line[:d]...)
			if d > 0 && len(content) < len(line)-d {
				out = append(out, ' ') // "> text": the blank belongs to the quote
			}
		}
		if soft {
			if delsp {
				content = content[:len(content)-1]
			}
			out = append(out, content...)
			flowing, depth = true, d
			continue
		}
		out = append(append(out, content...), nl...)
		flowing = false
	}
	if flowing {
		out = append(out, '\n')
	}
	return out
}
