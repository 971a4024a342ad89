// SPDX-License-Identifier: Apache-2.0

package mail

import (
	"bytes"
	"net/mail"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds on a mail header. Real headers stay under 100 KiB even with hundreds
// of recipients.
const (
	maxHeaderBytes  = 1 << 20
	maxHeaderFields = 2000
	maxAddresses    = 5000
)

// Field is one header field, unfolded. Raw is as sent, encoded words and all.
type Field struct {
	Name string // as written
	Raw  string
}

// Value is the decoded content of the field.
func (f Field) Value() string { return decodeWords(f.Raw) }

// Header is the header of a mail in the order written.
type Header []Field

// Get returns the decoded value of the last field of that name, or "". The
// last one, because git mailinfo does so.
func (h Header) Get(name string) string {
	f, _ := h.last(name)
	return strings.TrimSpace(decodeWords(f.Raw))
}

// Raw returns the value of the last field of that name as sent.
func (h Header) Raw(name string) string {
	f, _ := h.last(name)
	return strings.TrimSpace(f.Raw)
}

// Has reports whether a field of that name is there.
func (h Header) Has(name string) bool {
	_, ok := h.last(name)
	return ok
}

func (h Header) last(name string) (Field, bool) {
	for i := len(h) - 1; i >= 0; i-- {
		if strings.EqualFold(h[i].Name, name) {
			return h[i], true
		}
	}
	return Field{}, false
}

// Address is a mail address. Like git, an address without a usable name has
// the address itself as its name.
type Address struct {
	Name string `json:"name"`
	Addr string `json:"email"`
}

// String is the usual "Name <addr>" form, for people to read.
func (a Address) String() string {
	switch {
	case a.Addr == "":
		return a.Name
	case a.Name == "" || a.Name == a.Addr:
		return a.Addr
	}
	return a.Name + " <" + a.Addr + ">"
}

// IsZero reports whether there is no address at all.
func (a Address) IsZero() bool { return a == Address{} }

// headerName returns the field name when line begins a header field.
func headerName(line []byte) string {
	for i, c := range line {
		if c == ':' {
			if i == 0 {
				return ""
			}
			return string(line[:i])
		}
		if c < 33 || c > 126 || i > 200 {
			break
		}
	}
	return ""
}

// parseHeader reads header fields up to the first empty line, or up to the
// first line that is no field.
func parseHeader(b []byte) (h Header, body []byte, cut bool) {
	total := 0
	for len(b) > 0 {
		line, rest := cutLine(b)
		t := trimCR(line)
		if len(t) == 0 {
			return h, rest, cut
		}
		name := headerName(t)
		if name == "" {
			// A second mbox separator in front is no field, but harmless.
			if bytes.HasPrefix(t, []byte("From ")) || bytes.HasPrefix(t, []byte(">From ")) {
				b = rest
				continue
			}
			return h, b, cut
		}
		raw := t[len(name)+1:]
		var folded []byte
		size := len(raw)
		for len(rest) > 0 && (rest[0] == ' ' || rest[0] == '\t') {
			cont, r := cutLine(rest)
			rest = r
			cont = bytes.TrimRight(cont, " \t\r\v\f")
			size += len(cont)
			if total+size > maxHeaderBytes {
				cut = true
				continue
			}
			if folded == nil {
				folded = append([]byte(nil), raw...)
			}
			folded = append(folded, ' ')
			if len(cont) > 1 {
				folded = append(folded, cont[1:]...)
			}
		}
		if folded != nil {
			raw = folded
		}
		total += size
		if total > maxHeaderBytes || len(h) >= maxHeaderFields {
			cut = true
			if room := maxHeaderBytes - (total - size); room > 0 && len(h) < maxHeaderFields && room < len(raw) {
				h = append(h, Field{name, string(raw[:min(room, 4096)])})
			}
		} else {
			h = append(h, Field{name, string(raw)})
		}
		b = rest
	}
	return h, nil, cut
}

// decodeWords decodes RFC 2047 encoded words wherever they stand, also where
// the RFC does not allow them (inside quotes, glued to other text, with
// blanks), since mailers write them there. Neighbouring words of one charset
// are joined before conversion: some mailers cut within a character.
func decodeWords(s string) string {
	t, _, _ := decodeWordsIn(s)
	return t
}

// decodeWordsIn also tells about the first charset that is not what it says.
func decodeWordsIn(s string) (text string, verdict charsetVerdict, charset string) {
	note := func(v charsetVerdict, name string) {
		if verdict == charsetOK {
			verdict, charset = v, name
		}
	}
	if !utf8.ValidString(s) {
		note(charsetGuessed, "")
	}
	if !strings.Contains(s, "=?") {
		return guessString(s), verdict, charset
	}
	var out strings.Builder
	var pend []byte
	pendCharset := ""
	flush := func() {
		if pend != nil {
			t, v := toUTF8(pend, pendCharset)
			note(v, pendCharset)
			out.WriteString(t)
			pend = nil
		}
	}
	for s != "" {
		i := strings.Index(s, "=?")
		if i < 0 {
			break
		}
		text, charset, n, ok := encodedWord(s[i:])
		if !ok {
			flush()
			out.WriteString(guessString(s[:i+2]))
			s = s[i+2:]
			continue
		}
		if pend == nil || strings.TrimSpace(s[:i]) != "" {
			flush()
			out.WriteString(guessString(s[:i]))
		}
		if pend != nil && charset != pendCharset {
			flush()
		}
		pendCharset = charset
		pend = append(pend, text...)
		if pend == nil {
			pend = []byte{}
		}
		s = s[i+n:]
	}
	flush()
	out.WriteString(guessString(s))
	return out.String(), verdict, charset
}

func guessString(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return latin1([]byte(s))
}

// encodedWord decodes the word at the start of s; n is its length.
func encodedWord(s string) (text []byte, charset string, n int, ok bool) {
	q1 := strings.IndexByte(s[2:], '?')
	if q1 < 1 || q1 > 60 {
		return nil, "", 0, false
	}
	charset = s[2 : 2+q1]
	if strings.ContainsAny(charset, " \t=") {
		return nil, "", 0, false
	}
	rest := s[2+q1+1:]
	if len(rest) < 2 || rest[1] != '?' {
		return nil, "", 0, false
	}
	enc := rest[0] | 0x20
	end := strings.Index(rest[2:], "?=")
	if end < 0 {
		return nil, "", 0, false
	}
	body := rest[2 : 2+end]
	if enc == 'q' && end == 0 && len(rest) > 4 && isHexPair(rest[4:]) {
		// "?Q?=3F...": the "=" after the second "?" is content.
		if e := strings.Index(rest[3:], "?="); e >= 0 {
			end = e + 1
			body = rest[2 : 2+end]
		}
	}
	n = 2 + q1 + 1 + 2 + end + 2
	if i := strings.IndexByte(charset, '*'); i > 0 { // RFC 2231 language
		charset = charset[:i]
	}
	switch enc {
	case 'b':
		text, _ = decodeBase64([]byte(strings.Map(func(r rune) rune {
			if r < 0x80 && (base64Value[byte(r)] >= 0 || r == '=') {
				return r
			}
			return -1
		}, body)))
	case 'q':
		text = decodeQWord(body)
	default:
		return nil, "", 0, false
	}
	return text, charsetName(charset), n, true
}

func isHexPair(s string) bool { return len(s) >= 2 && unhex(s[0]) >= 0 && unhex(s[1]) >= 0 }

func decodeQWord(s string) []byte {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '_':
			out = append(out, ' ')
		case c == '=' && isHexPair(s[i+1:]):
			out = append(out, byte(unhex(s[i+1])<<4|unhex(s[i+2])))
			i += 2
		default:
			out = append(out, c)
		}
	}
	return out
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// collapse trims s and turns each run of white space into one blank.
func collapse(s string) string {
	clean := true
	for i := 0; i < len(s); i++ {
		c := s[i]
		if isSpace(c) && (c != ' ' || i == 0 || i == len(s)-1 || s[i+1] == ' ') {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	space := false
	for i := 0; i < len(s); i++ {
		if isSpace(s[i]) {
			space = true
			continue
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		b.WriteByte(s[i])
	}
	return b.String()
}

// isSpace is C's isspace for ASCII, as git uses it.
func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// ParseAddress reads one decoded "From:" value by the rules of git mailinfo:
// the word around the "@" is the address, what remains is the name. A comma
// in an unquoted name does no harm.
func ParseAddress(s string) Address {
	s = collapse(s)
	f := unquotePairs(s)
	at := strings.IndexByte(f, '@')
	if at < 0 {
		bra := strings.IndexByte(s, '<')
		if bra < 0 {
			return Address{Name: strings.Trim(f, " ")}
		}
		ket := strings.IndexByte(s[bra:], '>')
		if ket < 0 {
			return Address{Name: f}
		}
		addr := s[bra+1 : bra+ket]
		return Address{saneName(strings.TrimSpace(s[:bra]), addr), addr}
	}
	start := at
	b := []byte(f)
	for start > 0 {
		c := b[start-1]
		if isSpace(c) {
			break
		}
		if c == '<' {
			b[start-1] = ' '
			break
		}
		start--
	}
	end := start
	for end < len(b) && !isSpace(b[end]) && b[end] != '>' {
		end++
	}
	addr := string(b[start:end])
	if end < len(b) {
		end++
	}
	name := collapse(string(b[:start]) + string(b[end:]))
	if len(name) >= 2 && name[0] == '(' && name[len(name)-1] == ')' {
		name = name[1 : len(name)-1]
	}
	return Address{saneName(name, addr), addr}
}

// saneName is git's: a name that is empty, over 60 bytes or looks like an
// address gives way to the address.
func saneName(name, addr string) string {
	if name == "" || len(name) > 60 || strings.ContainsAny(name, "@<>") {
		return addr
	}
	return name
}

// unquotePairs removes RFC 822 quoting; comments keep their parentheses.
func unquotePairs(s string) string {
	if !strings.ContainsAny(s, "\"(") {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	depth, quoted, literal := 0, false, false
	for i := 0; i < len(s); i++ {
		c := s[i]
		if literal {
			literal = false
			b.WriteByte(c)
			continue
		}
		switch {
		case c == '\\' && (quoted || depth > 0):
			literal = true
			continue
		case c == '"' && depth == 0:
			quoted = !quoted
			continue
		case c == '(' && !quoted:
			depth++
		case c == ')' && !quoted && depth > 0:
			depth--
		}
		b.WriteByte(c)
	}
	return b.String()
}

// ParseAddressList reads a To or Cc value as sent. It splits before it
// decodes, so an encoded comma does not split, and joins a piece without "@"
// to the next, so an unquoted "Last, First <a@b>" does not either.
func ParseAddressList(raw string) []Address {
	var out []Address
	piece := func(s string) {
		if s = strings.Trim(s, " \t,"); s == "" || len(out) >= maxAddresses {
			return
		}
		out = append(out, ParseAddress(decodeWords(s)))
	}
	start, depth, quoted, angle, at := 0, 0, false, false, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '\\':
			i++
		case quoted:
			quoted = c != '"'
		case c == '"':
			quoted = true
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		case depth > 0:
		case c == '<':
			angle = true
		case c == '>':
			angle = false
		case c == '@':
			at = true
		case c == ':' && !angle && !at: // group name
			start = i + 1
		case c == ';' && !angle, c == ',' && !angle && at:
			piece(raw[start:i])
			start, at = i+1, false
		}
	}
	if start < len(raw) {
		piece(raw[start:])
	}
	return out
}

// messageIDs returns the ids in a Message-ID, In-Reply-To or References value.
func messageIDs(s string) []string {
	var ids []string
	for len(ids) < 1000 {
		i := strings.IndexByte(s, '<')
		if i < 0 {
			break
		}
		j := strings.IndexByte(s[i:], '>')
		if j < 0 {
			break
		}
		if id := CleanID(s[i+1 : i+j]); id != "" {
			ids = append(ids, id)
		}
		s = s[i+j+1:]
	}
	if len(ids) == 0 {
		if id := CleanID(s); id != "" && strings.Contains(id, "@") && !strings.ContainsAny(id, " \t") {
			ids = append(ids, id)
		}
	}
	return ids
}

// CleanID returns a message id without blanks and angle brackets. It also
// takes the form of archive links (https://lore.kernel.org/r/ID/).
func CleanID(s string) string {
	s = strings.Trim(strings.TrimSpace(s), "<>")
	if strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") {
		for _, part := range strings.Split(s, "/") {
			if strings.Contains(part, "@") || strings.Contains(part, "%40") {
				s = strings.ReplaceAll(part, "%40", "@")
			}
		}
	}
	s = strings.TrimPrefix(s, "id:")
	if strings.ContainsAny(s, " \t\r\n") {
		s = strings.Join(strings.Fields(s), "")
	}
	return s
}

var dateLayouts = []string{
	time.RFC1123Z, "Mon, 2 Jan 2006 15:04:05 -0700", "2 Jan 2006 15:04:05 -0700",
	"Mon, 2 Jan 2006 15:04 -0700", "2 Jan 2006 15:04 -0700",
	"Mon, 2 Jan 06 15:04:05 -0700", "Mon Jan 2 15:04:05 2006 -0700", "Mon Jan 2 15:04:05 -0700 2006",
	"Mon, 2 Jan 2006 15:04:05", "2 Jan 2006 15:04:05", "Mon Jan 2 15:04:05 2006", "Mon, Jan 2 2006 15:04:05 -0700",
	time.RFC3339, "2006-01-02 15:04:05 -0700", "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02",
}

var zones = map[string]string{
	"UT": "+0000", "UTC": "+0000", "GMT": "+0000", "Z": "+0000", "EST": "-0500", "EDT": "-0400", "CST": "-0600",
	"CDT": "-0500", "MST": "-0700", "MDT": "-0600", "PST": "-0800", "PDT": "-0700",
	"CET": "+0100", "CEST": "+0200", "BST": "+0100", "MSK": "+0300", "JST": "+0900", "IST": "+0530",
}

// ParseDate reads a mail date, also the malformed ones in use. The zero time
// means that it is none.
func ParseDate(s string) time.Time {
	s = collapse(s)
	if s == "" || len(s) > 200 {
		return time.Time{}
	}
	// Drop a trailing comment, and give the zone as a number: package mail
	// takes names of zones for UTC.
	if i := strings.IndexByte(s, '('); i > 0 {
		s = strings.TrimSpace(s[:i])
	}
	if i := strings.LastIndexByte(s, ' '); i > 0 {
		if z, ok := zones[strings.ToUpper(s[i+1:])]; ok {
			s = s[:i+1] + z
		}
	}
	if strings.HasPrefix(s, "@") {
		if sec, err := strconv.ParseInt(strings.Fields(s)[0][1:], 10, 48); err == nil {
			return time.Unix(sec, 0).UTC()
		}
	}
	try := []string{s}
	if i := strings.Index(s, ", "); i > 0 { // the weekday may be wrong
		try = append(try, s[i+2:])
	}
	for _, s := range try {
		if t, err := mail.ParseDate(s); err == nil {
			return t
		}
		for _, l := range dateLayouts {
			if t, err := time.Parse(l, s); err == nil {
				return t
			}
		}
	}
	return time.Time{}
}
