// SPDX-License-Identifier: Apache-2.0

package mail

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// Kind is what a mail is for.
type Kind string

const (
	KindPatch Kind = "patch" // a commit to apply
	KindCover Kind = "cover" // cover letter of a series
	KindReply Kind = "reply" // answer to another mail, whatever it quotes
	KindPull  Kind = "pull"  // request to pull from a git tree
	KindRobot Kind = "robot" // report or notice written by a program
	KindOther Kind = "other"
)

// Message is one decoded mail. A damaged mail is a Message with Problems.
type Message struct {
	Kind   Kind   `json:"kind"`
	Header Header `json:"-"`
	Commit string `json:"commit,omitempty"` // from the separator line of git format-patch
	Offset int    `json:"offset"`           // in its source, in bytes

	MessageID  string    `json:"message_id,omitempty"` // ids are without angle brackets
	InReplyTo  string    `json:"in_reply_to,omitempty"`
	References []string  `json:"references,omitempty"`
	From       Address   `json:"from"` // of the mail header
	ReplyTo    Address   `json:"reply_to,omitzero"`
	To         []Address `json:"to,omitempty"`
	Cc         []Address `json:"cc,omitempty"`
	Date       time.Time `json:"date,omitzero"` // of the mail header; zero when unreadable

	RawSubject string  `json:"raw_subject"` // of the mail header, decoded
	Subject    Subject `json:"subject"`     // of the mail header, parsed

	// The commit as git am would make it: headers in the body win.
	Author     Address   `json:"author"`
	AuthorDate time.Time `json:"author_date,omitzero"`
	RawDate    string    `json:"raw_date,omitempty"` // as written
	Title      string    `json:"title"`
	Log        string    `json:"log"`                // message below the title, UTF-8, LF
	Appendix   string    `json:"appendix,omitempty"` // between "---" and the diff, or the end
	Diff       []byte    `json:"-"`                  // bytes of the diff, charset not converted, LF line ends
	Tail       string    `json:"tail,omitempty"`     // behind the diff: base-commit, signature
	// PatchText is what git mailinfo writes as the patch: Appendix with its
	// "---" line, Diff and Tail as they stand.
	PatchText []byte `json:"-"`

	Parts    []Part     `json:"parts,omitempty"`
	Attached []*Message `json:"attached,omitempty"` // whole mails in attachments, one per patch
	Facts    Facts      `json:"facts"`
	Problems []Problem  `json:"problems,omitempty"`

	text      []byte
	segs      []segment
	rawBody   []byte // as sent
	bodyStart int    // offset of rawBody in the source, -1 when not known
	diffStart int    // offset of Diff in PatchText
	cutText   bool   // a text was longer than maxText
}

// Facts is what reading the mail showed, for checks. None is a fault by
// itself.
type Facts struct {
	TransferEncoding string   `json:"transfer_encoding,omitempty"` // as declared, lower case
	Charset          string   `json:"charset,omitempty"`           // as declared, lower case
	CharsetWrong     string   `json:"charset_wrong,omitempty"`     // how text and declaration disagree
	RawHeader8Bit    bool     `json:"raw_header_8bit,omitempty"`   // header fields with bytes above 127
	CRLF             bool     `json:"crlf,omitempty"`              // the mail's lines ended in CRLF
	QuotedCRLF       bool     `json:"quoted_crlf,omitempty"`       // they did within base64 or quoted-printable
	ContentCR        bool     `json:"content_cr,omitempty"`        // only lines of file content end in CR
	Flowed           bool     `json:"flowed,omitempty"`            // format=flowed
	DelSp            bool     `json:"delsp,omitempty"`
	FlowedIgnored    bool     `json:"flowed_ignored,omitempty"` // declared, but joining would have damaged the diff
	NBSP             int      `json:"nbsp,omitempty"`           // diff lines with U+00A0
	NBSPIndent       int      `json:"nbsp_indent,omitempty"`    // of these, in the indent
	TabIndent        int      `json:"tab_indent,omitempty"`     // diff lines indented by tabs
	SpaceIndent      int      `json:"space_indent,omitempty"`   // diff lines indented by eight or more blanks
	Scissors         bool     `json:"scissors,omitempty"`       // text above a scissors line was dropped
	InBody           []string `json:"in_body,omitempty"`        // "From", "Subject", "Date" found in the body
	GitCut           string   `json:"git_cut,omitempty"`        // message line at which git am would end the message
	Multipart        string   `json:"multipart,omitempty"`      // "multipart/mixed"
	Attachment       bool     `json:"attachment,omitempty"`     // the patch came as an attachment
	HTML             bool     `json:"html,omitempty"`
	Signed           string   `json:"signed,omitempty"` // "pgp-signature"
	MIMEWrong        string   `json:"mime_wrong,omitempty"`
	MboxUnquoted     int      `json:"mbox_unquoted,omitempty"` // ">From " lines undone
	ListFooter       []string `json:"list_footer,omitempty"`   // lines a mailing list added, left out
	LongestLine      int      `json:"longest_line"`            // bytes
	DamagedHunks     int      `json:"damaged_hunks,omitempty"` // hunks that do not match their header
	DamagedLine      int      `json:"damaged_line,omitempty"`  // 1-based line of Diff of the first
	Robot            string   `json:"robot,omitempty"`         // why the sender is taken for a program
	PullURL          string   `json:"pull_url,omitempty"`      // of a pull request: repository and ref
	PullBase         string   `json:"pull_base,omitempty"`     // of a pull request: "since commit"
}

// Problem is something wrong with one mail. ID is that of a rule in Rules.
type Problem struct {
	ID      string `json:"id"`
	Message string `json:"message"`
}

// Options bounds and steers Parse. The zero value is the default.
type Options struct {
	NoScissors bool // keep the text above a scissors line
	depth      int
}

// Bounds on one mail.
const (
	maxLine     = 1 << 20 // longest line that is no problem, in bytes
	maxText     = 2 << 20 // longest message, appendix or tail, in bytes; diffs have no bound of their own
	maxAttached = 500
	maxProblems = 50
)

func (m *Message) problem(id, format string, args ...any) {
	if len(m.Problems) < maxProblems {
		m.Problems = append(m.Problems, Problem{id, fmt.Sprintf(format, args...)})
	}
}

func (m *Message) charset(v charsetVerdict, declared string) {
	if v == charsetOK || m.Facts.CharsetWrong != "" {
		return
	}
	declared = PrintableLine(clip(declared, 40))
	switch v {
	case charsetGuessed:
		m.Facts.CharsetWrong = "no charset declared, text is not UTF-8"
		m.problem("mail.charset-missing", "text or header of the mail declare no charset and are not UTF-8; they are read as ISO-8859-1")
	case charsetUnknown:
		m.Facts.CharsetWrong = "unknown charset " + declared
		m.problem("mail.charset-unknown", "the mail declares the charset %q, which is not known; git am refuses it", declared)
	case charsetWrong:
		m.Facts.CharsetWrong = "text is not " + declared
		m.problem("mail.charset-wrong", "the mail declares the charset %s, but its text is not in it", declared)
	}
}

// Parse decodes one mail. It never fails: what cannot be read is a Problem.
func Parse(r Raw, opts Options) *Message {
	m := &Message{Commit: r.Commit, Offset: r.Offset}
	m.Facts.MboxUnquoted = r.Unquoted
	h, body, cut := parseHeader(skipLeading(r.Data))
	m.rawBody = body
	m.read(h, body, cut, opts)
	m.bodyStart = -1
	if r.Unquoted == 0 {
		m.bodyStart = r.Offset + len(r.Data) - len(body)
		if r.Envelope != "" {
			m.bodyStart += r.envelope
		}
	}
	return m
}

// ParseText makes a Message of text that has no mail header of its own, such
// as an archive page or a bare diff; h is what else is known of it.
func ParseText(h Header, text []byte, offset int, opts Options) *Message {
	m := &Message{Offset: offset}
	m.rawBody = text
	m.read(h, text, false, opts)
	m.bodyStart = offset
	m.Facts.RawHeader8Bit = false
	return m
}

// LooksLikeMail reports whether data begins with a mail header, as opposed to
// other text with a colon in its first line.
func LooksLikeMail(data []byte) bool {
	data = skipLeading(data)
	h, _, _ := parseHeader(data[:min(len(data), maxHeaderBytes)])
	if len(h) < 2 {
		return false
	}
	for _, name := range []string{"From", "Subject", "Date", "Message-ID", "Received", "Return-Path", "Delivered-To"} {
		if h.Has(name) {
			return true
		}
	}
	return false
}

func (m *Message) read(h Header, body []byte, cut bool, opts Options) {
	m.Header = h
	if cut {
		m.problem("mail.header-size", "the mail header is larger than %d KiB or has more than %d fields; the rest of it is not read", maxHeaderBytes>>10, maxHeaderFields)
	}
	m.readHeader()
	if n := longestLine(body); n > 0 {
		m.Facts.LongestLine = n
		if n > maxLine {
			m.problem("mail.line-length", "a line of the mail is %d bytes long; no mailer sends such a line whole", n)
		}
	}

	w := &walker{m: m}
	w.walk(h, body, opts.depth)
	m.text, m.segs = w.text, w.segs
	if t, ok := clearText(m.text); ok {
		m.Facts.Signed = "inline-pgp"
		m.replaceText(t)
	}
	if len(bytes.TrimSpace(m.text)) == 0 && m.Facts.HTML {
		m.text = w.htmlText
		m.segs = []segment{{len(m.text), "", 0}}
		m.problem("mail.html-only", "the mail has no plain text, only HTML; a patch in it cannot be applied")
	}
	// git, too, ends the last line when the mail does not.
	if n := len(m.text); n > 0 && m.text[n-1] != '\n' {
		m.text = append(m.text[:n:n], '\n')
		if k := len(m.segs); k > 0 {
			m.segs[k-1].end = n + 1
		}
	}
	encoded := m.Facts.TransferEncoding == "base64" || m.Facts.TransferEncoding == "quoted-printable"
	before := len(m.text)
	if t := normalizeCR(m.text, encoded, &m.Facts); len(t) != before {
		m.replaceText(t)
	}
	if m.Facts.QuotedCRLF {
		m.problem("mail.quoted-crlf", "the lines of the %s body end in CRLF (quoted CRLF): a relay has re-encoded the mail; git am keeps the CR and then fails to apply", m.Facts.TransferEncoding)
	}
	for i, a := range w.attached {
		if opts.depth >= maxDepth || i >= maxAttached {
			m.problem("mail.mime-parts", "the mail has more attached mails than are read")
			break
		}
		o := opts
		o.depth++
		for _, raw := range Split(a) {
			if len(m.Attached) >= maxAttached {
				break
			}
			m.Attached = append(m.Attached, Parse(raw, o))
		}
	}
	m.readText(opts)
}

// replaceText puts in a text that lines or line ends were taken out of. Only
// mails of one charset keep exact bounds of their parts; others are rare
// enough to be read in the charset of the first.
func (m *Message) replaceText(t []byte) {
	m.text = t
	if len(m.segs) > 1 {
		m.segs = m.segs[:1]
	}
	if len(m.segs) == 1 {
		m.segs[0].end = len(t)
	}
}

const (
	pgpSigned    = "-----BEGIN PGP SIGNED MESSAGE-----"
	pgpSignature = "-----BEGIN PGP SIGNATURE-----"
)

// clearText undoes an OpenPGP cleartext signature (RFC 9580 7): armor headers
// and signature go, and the "- " before lines that begin with a dash.
func clearText(b []byte) ([]byte, bool) {
	s := skipLeading(b)
	if !bytes.HasPrefix(s, []byte(pgpSigned)) {
		return b, false
	}
	for len(s) > 0 { // armor headers, up to an empty line
		var l []byte
		l, s = cutLine(s)
		if len(bytes.TrimSpace(l)) == 0 {
			break
		}
	}
	out := make([]byte, 0, len(s))
	for len(s) > 0 {
		l, rest := cutLine(s)
		if bytes.HasPrefix(l, []byte(pgpSignature)) {
			break
		}
		out = append(out, bytes.TrimPrefix(l, []byte("- "))...)
		out = append(out, '\n')
		s = rest
	}
	return out, true
}

// RawOffset returns the offset in the mail's source, in bytes, of the byte at
// offset pos of Diff, or -1 when it is not known because the mail has several
// parts or its text was rewritten.
func (m *Message) RawOffset(pos int) int {
	if len(m.Diff) == 0 || m.bodyStart < 0 || len(m.segs) != 1 || m.Facts.Multipart != "" || m.Facts.Signed != "" ||
		m.Facts.Flowed && !m.Facts.FlowedIgnored || m.Facts.MboxUnquoted > 0 || pos < 0 || pos > len(m.Diff) {
		return -1
	}
	target := len(m.text) - len(m.PatchText) + m.diffStart + pos
	if m.Facts.CRLF || m.Facts.QuotedCRLF {
		target += bytes.Count(m.text[:min(target, len(m.text))], []byte("\n"))
	}
	return m.bodyStart + rawOffset(m.rawBody, m.Facts.TransferEncoding, target)
}

// rawOffset returns the offset in an encoded body at which its decoded text
// has the given length.
func rawOffset(b []byte, enc string, target int) int {
	n, i := 0, 0
	switch enc {
	case "base64":
		for bits := 0; i < len(b) && n < target; i++ {
			if base64Value[b[i]] >= 0 {
				if bits += 6; bits >= 8 {
					bits -= 8
					n++
				}
			}
		}
	case "quoted-printable":
		for i < len(b) && n < target {
			out, _, _, _ := decodeQP(b[i:min(i+3, len(b))])
			switch {
			case b[i] != '=':
				i, n = i+1, n+1
			case len(out) == 1 && i+2 < len(b) && isHexPair(string(b[i+1:i+3])):
				i, n = i+3, n+1
			default: // soft line break
				j := bytes.IndexByte(b[i:], '\n')
				if j < 0 || len(bytes.TrimSpace(b[i+1:i+j])) > 0 {
					i, n = i+1, n+1
					continue
				}
				i += j + 1
			}
		}
	default:
		i = target
	}
	return min(i, len(b))
}

func (m *Message) readHeader() {
	h := m.Header
	for _, f := range h {
		for i := 0; i < len(f.Raw); i++ {
			if f.Raw[i] >= 0x80 {
				m.Facts.RawHeader8Bit = true
				break
			}
		}
	}
	for _, name := range []string{"Subject", "From"} {
		if _, v, charset := decodeWordsIn(clip(h.Raw(name), 8192)); v != charsetOK {
			m.charset(v, charset)
		}
	}
	m.RawSubject = collapse(h.Get("Subject"))
	m.Subject = ParseSubject(m.RawSubject)
	m.From = ParseAddress(clip(h.Get("From"), 4096))
	if v := h.Raw("Reply-To"); v != "" {
		m.ReplyTo = ParseAddress(clip(decodeWords(v), 4096))
	}
	for _, f := range h {
		switch strings.ToLower(f.Name) {
		case "to":
			m.To = append(m.To, ParseAddressList(f.Raw)...)
		case "cc":
			m.Cc = append(m.Cc, ParseAddressList(f.Raw)...)
		}
	}
	m.RawDate = collapse(h.Get("Date"))
	m.Date = ParseDate(m.RawDate)
	if ids := messageIDs(h.Raw("Message-ID")); len(ids) > 0 {
		m.MessageID = ids[0]
	}
	m.References = messageIDs(h.Raw("References"))
	if ids := messageIDs(h.Raw("In-Reply-To")); len(ids) > 0 {
		m.InReplyTo = ids[0]
	} else if n := len(m.References); n > 0 {
		m.InReplyTo = m.References[n-1]
	}
}

// convert turns text[from:to] into UTF-8, each part from its own charset. What
// is longer than a message can sensibly be is cut.
func (m *Message) convert(from, to int) string {
	if to-from > maxText {
		to = from + maxText
		if !m.cutText {
			m.cutText = true
			m.problem("mail.text-size", "the text of the mail is longer than %d MiB; the rest of it is not read", maxText>>20)
		}
	}
	if len(m.segs) <= 1 {
		cs := ""
		if len(m.segs) == 1 {
			cs = m.segs[0].charset
		}
		return m.convertOne(m.text[from:to], cs)
	}
	var b strings.Builder
	pos := from
	for _, s := range m.segs {
		if pos >= to {
			break
		}
		if s.end <= pos {
			continue
		}
		e := min(s.end, to)
		b.WriteString(m.convertOne(m.text[pos:e], s.charset))
		pos = e
	}
	if pos < to {
		b.WriteString(m.convertOne(m.text[pos:to], ""))
	}
	return b.String()
}

func (m *Message) convertOne(b []byte, charset string) string {
	if !asciiSuperset(charset) {
		charset = "utf-8" // converted when the part was read
	}
	if charset == "" && !utf8.Valid(b) {
		// Like git, line by line: one bad line does not spoil the others.
		var out strings.Builder
		for len(b) > 0 {
			n := len(b)
			if i := bytes.IndexByte(b, '\n'); i >= 0 {
				n = i + 1
			}
			out.WriteString(guess(b[:n]))
			b = b[n:]
		}
		m.charset(charsetGuessed, "")
		return out.String()
	}
	s, v := toUTF8(b, charset)
	m.charset(v, charset)
	return s
}

// Body returns the decoded text of the mail, UTF-8, LF, without list footers,
// at most 2 MiB of it.
func (m *Message) Body() string { return m.convert(0, min(len(m.text), maxText)) }

func (m *Message) readText(opts Options) {
	m.dropFooter()
	isReply := m.Subject.Reply
	c := cutText(m.text, !opts.NoScissors, m.convert)
	m.Author, m.AuthorDate, m.Title = m.From, m.Date, m.Subject.Title
	m.Facts.Robot = robot(m)
	m.readPull()
	m.Kind = m.classify(c, isReply)
	if m.Kind == KindPatch || m.Kind == KindCover {
		m.applyInBody(c)
	}
	m.Facts.Scissors = c.scissors && (m.Kind == KindPatch || m.Kind == KindCover)
	if m.Kind == KindReply || m.Kind == KindRobot || m.Kind == KindOther || m.Kind == KindPull {
		// Their text is not divided, but an unquoted diff is offered, since
		// a reply may be all there is of a patch.
		m.Log = m.Body()
		if c.diff >= 0 {
			m.applyInBody(c)
			m.Log = m.convert(c.logStart, c.logEnd)
			m.setDiff(c)
		}
		return
	}
	m.Facts.GitCut = c.gitCut
	m.Log = m.convert(c.logStart, c.logEnd)
	m.setDiff(c)
	if m.Kind == KindPatch && c.diff < 0 && len(m.Attached) == 0 {
		m.problem("mail.no-diff", "the subject announces a patch, but the mail has no diff")
	}
	if c.gitCut != "" && c.diff >= 0 {
		m.problem("mail.message-cut", "git am ends the commit message at the line %q, since it looks like the start of a diff", PrintableLine(clip(c.gitCut, 80)))
	}
}

func (m *Message) setDiff(c cut) {
	m.PatchText = m.text[c.logEnd:]
	if c.diff < 0 {
		m.Appendix = m.convert(c.appendix, len(m.text))
		return
	}
	m.Appendix = m.convert(c.appendix, c.diff)
	m.Diff = m.text[c.diff:c.diffEnd:c.diffEnd]
	m.diffStart = c.diff - c.logEnd
	m.Tail = m.convert(c.diffEnd, len(m.text))
	f := &m.Facts
	f.NBSP, f.NBSPIndent, f.TabIndent, f.SpaceIndent = c.ext.nbsp, c.ext.nbspIndent, c.ext.tabs, c.ext.spaces
	f.DamagedHunks, f.DamagedLine = c.ext.damaged, c.ext.badLine
	if !utf8.Valid(m.Diff) && (f.Charset == "utf-8" || f.Charset == "utf8") {
		m.charset(charsetWrong, f.Charset)
	}
}

func (m *Message) applyInBody(c cut) {
	for _, n := range []string{"From", "Subject", "Date"} {
		v, ok := c.inBody[n]
		if !ok {
			continue
		}
		m.Facts.InBody = append(m.Facts.InBody, n)
		switch n {
		case "From":
			if a := ParseAddress(v); a.Addr != "" {
				m.Author = a
			}
		case "Subject":
			s := ParseSubject(v)
			m.Title = s.Title
			if s.Patch { // "[PATCH 2/3] title": it has the say about the place too
				m.Subject = s
			}
		case "Date":
			m.RawDate = collapse(v)
			m.AuthorDate = ParseDate(v)
		}
	}
}

func (m *Message) classify(c cut, isReply bool) Kind {
	s := m.Subject
	hasDiff := c.diff >= 0
	switch {
	// A reply that ends in a patch meant to be applied says so: by scissors or
	// by a subject in the body.
	case isReply && !(hasDiff && (c.scissors || c.inBody["Subject"] != "")):
		if m.Facts.Robot != "" {
			return KindRobot
		}
		return KindReply
	case s.Pull && s.Index == nil && (!hasDiff || m.Facts.PullURL != ""):
		return KindPull
	case s.Patch && s.Index != nil && *s.Index == 0:
		return KindCover
	case m.Facts.PullURL != "" && !hasDiff:
		return KindPull
	case m.Facts.Robot != "" && !s.Patch:
		return KindRobot
	case s.Patch && !hasDiff && s.Index == nil && len(m.Attached) == 0 && (containsFold(s.Tags, "PATCHSET") || containsFold(s.Tags, "PATCHES")):
		return KindCover
	case s.Patch, hasDiff, len(m.Attached) > 0 && m.Attached[0].Kind == KindPatch:
		return KindPatch
	}
	return KindOther
}

var (
	rePullSince = regexp.MustCompile(`(?m)^The following changes since commit ([0-9a-f]{7,64})`)
	rePullRepo  = regexp.MustCompile(`(?m)^are available in the [Gg]it [Rr]epository at:?\s*\n+\s*(\S+(?:[ \t]+\S+)?)`)
)

func (m *Message) readPull() {
	head := m.text[:min(len(m.text), 64<<10)]
	if !bytes.Contains(head, []byte("following changes since commit")) {
		return
	}
	if s := rePullSince.FindSubmatch(head); s != nil {
		m.Facts.PullBase = string(s[1])
		if r := rePullRepo.FindSubmatch(head); r != nil {
			m.Facts.PullURL = string(r[1])
		}
	}
}

var (
	// Local parts and names of programs that write to kernel lists.
	reRobotAddr = regexp.MustCompile(`(?i)^(lkp|oliver\.sang|syzbot|patchwork-bot|patchwork|tip-bot2?|kernelci|bot|cki-project|buildbot|builder|jenkins|robot|autobuild|noreply|no-reply|do-not-reply|mailer-daemon|postmaster|ci[_-]notify|pr-tracker-bot|bugzilla-daemon|zuul)\b|[-_.+](bot|robot|ci)$`)
	reRobotName = regexp.MustCompile(`(?i)\b(robot|syzbot|bot|patchwork-bot|kernelci|buildbot|autobuilder|mailer-daemon)\b`)
)

// Notices that tree maintainers' scripts send under a person's name; they
// carry a patch that was taken elsewhere.
var reNotice = regexp.MustCompile(`(?i)^(?:patch "[^"]*" has been (?:added|queued|removed)|failed: patch ")|^[+-] \S+\.patch (?:added to|removed from)|^\S+\.patch (?:added to|removed from)|^\[(?:merged|folded|to-be-updated|obsolete|withdrawn|nacked)[^\]]*\] \S+\.patch`)

// robot says why a mail is taken to be written by a program, or "".
func robot(m *Message) string {
	local, _, _ := strings.Cut(m.From.Addr, "@")
	switch {
	case reRobotAddr.MatchString(local):
		return "sender " + m.From.Addr
	case len(m.From.Name) < 200 && m.From.Name != m.From.Addr && reRobotName.MatchString(m.From.Name):
		return "sender " + m.From.Name
	}
	if !m.Subject.Patch && reNotice.MatchString(m.RawSubject) {
		return "notice of a tree: " + clip(m.RawSubject, 60)
	}
	if v := strings.ToLower(m.Header.Raw("Auto-Submitted")); strings.HasPrefix(v, "auto-") {
		return "Auto-Submitted: " + clip(v, 60)
	}
	return ""
}

// dropFooter cuts what mailing lists append below the text. Only the end of
// the mail is looked at.
func (m *Message) dropFooter() {
	from := max(0, len(m.text)-4096)
	tail := m.text[from:]
	at := -1
	for i := 0; i >= 0 && i < len(tail); {
		if from == 0 && i == 0 || i > 0 && tail[i-1] == '\n' || from > 0 && i == 0 && m.text[from-1] == '\n' {
			if isFooter(tail[i:]) {
				at = from + i
				break
			}
		}
		j := bytes.IndexByte(tail[i:], '\n')
		if j < 0 {
			break
		}
		i += j + 1
	}
	if at < 0 {
		return
	}
	footer := strings.TrimRight(m.convert(at, len(m.text)), "\n")
	m.Facts.ListFooter = strings.Split(footer, "\n")
	m.text = m.text[:at]
	for i := range m.segs {
		m.segs[i].end = min(m.segs[i].end, at)
	}
}

var footerWords = [][]byte{
	[]byte("mailing list"), []byte("unsubscribe"), []byte("You received this message because you are subscribed"),
	[]byte("majordomo"), []byte("listinfo"), []byte("lists.infradead.org/mailman"),
}

// isFooter reports whether b is nothing but a list footer: a rule of
// underscores or a signature mark, and then at most twelve lines that speak
// of the list.
func isFooter(b []byte) bool {
	line, rest := cutLine(b)
	line = bytes.TrimRight(line, " \t\r")
	switch {
	case len(line) >= 20 && len(bytes.Trim(line, "_")) == 0:
	case len(line) >= 10 && bytes.HasPrefix(line, []byte("-=-=-=")):
	case string(line) == "-":
	case string(line) == "--":
		// The version of git is a signature, and the footer follows it.
		next, _ := cutLine(rest)
		if bytes.Contains(rest, []byte("\n________")) || len(next) > 0 && next[0] >= '0' && next[0] <= '9' {
			return false
		}
	default:
		return false
	}
	if bytes.Count(bytes.TrimSpace(rest), []byte("\n")) > 12 || findDiff(rest, 0) >= 0 || bytes.Contains(rest, []byte("\n@@ -")) {
		return false
	}
	low := bytes.ToLower(rest)
	for _, w := range footerWords {
		if bytes.Contains(low, bytes.ToLower(w)) {
			return true
		}
	}
	return false
}

func longestLine(b []byte) int {
	n := 0
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			return max(n, len(b))
		}
		n = max(n, i)
		b = b[i+1:]
	}
	return n
}
