// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"bytes"
	"regexp"
	"strings"

	"patchcheck/patches/mail"
)

var (
	// "[Ann Author]", "[Ann Author <ann@example.org>]", "From: Ann Author <..>"
	rePageAuthor = regexp.MustCompile(`^(?:\[([^\[\]]{2,100})\]|(?i:from|author|by):?\s+(.{2,150}))$`)
	// "From: Ann @ 2024-03-04 10:00 UTC (permalink / raw)", as public-inbox shows it
	rePermalink = regexp.MustCompile(`^From: (.+?) @ (\d{4}-\d\d-\d\d \d\d:\d\d)(?::\d\d)? UTC\b`)
	reNextPrev  = regexp.MustCompile(`^\^ (?:permalink|raw|related)\b|^\[flat\|nested\]|^Thread overview:|^-- links below`)
)

// archivePage reads the text of an archive's web page: mails that run into
// each other, without header. A mail begins with its subject on a line of its
// own, "[PATCH n/m] title", maybe twice, followed by a line that names its
// author. Text that has no such mail gives nothing.
func archivePage(data []byte, mo mail.Options) []*mail.Message {
	if !bytes.Contains(bytes.ToUpper(data[:min(len(data), 1<<20)]), []byte("PATCH")) && !bytes.Contains(data, []byte("permalink")) {
		return nil
	}
	data = toLF(data)
	if ms := publicInboxPage(data, mo); ms != nil {
		return ms
	}
	type start struct{ pos, body int }
	type found struct {
		start
		subject, author string
	}
	var mails []found
	blank := true
	for pos := 0; pos < len(data); {
		line, next := lineAt(data, pos)
		if blank && len(line) > 0 && len(line) < 500 && line[0] == '[' {
			if author, body, ok := pageMail(data, next, line); ok {
				mails = append(mails, found{start{pos, body}, string(bytes.TrimSpace(line)), author})
				pos, blank = body, true
				continue
			}
		}
		blank = len(bytes.TrimSpace(line)) == 0
		pos = next
	}
	if len(mails) == 0 || len(bytes.TrimSpace(data[:mails[0].pos])) > 2000 {
		return nil
	}
	var out []*mail.Message
	for i, f := range mails {
		end := len(data)
		if i+1 < len(mails) {
			end = mails[i+1].pos
		}
		h := mail.Header{{Name: "Subject", Raw: f.subject}}
		if f.author != "" {
			h = append(h, mail.Field{Name: "From", Raw: f.author})
		}
		body := f.body
		for body < end && (data[body] == '\n') {
			body++
		}
		m := mail.ParseText(h, data[body:end:end], body, mo)
		nameByTrailer(m)
		out = append(out, m)
	}
	nameByOthers(out)
	return out
}

// nameByOthers completes the authors whose address is known from another mail
// of the page, as that of a cover letter is from the patches.
func nameByOthers(ms []*mail.Message) {
	addr := map[string]string{}
	for _, m := range ms {
		if m.Author.Addr != "" {
			addr[m.Author.Name] = m.Author.Addr
		}
	}
	for _, m := range ms {
		if m.Author.Addr == "" {
			m.Author.Addr = addr[m.Author.Name]
		}
	}
}

// pageMail looks at what follows a line "[PATCH ...] title": the same line
// again or a line with the author, each after optional empty lines. body is
// where the text of the mail begins.
func pageMail(data []byte, pos int, title []byte) (author string, body int, ok bool) {
	t := strings.TrimSpace(string(title))
	if s := mail.ParseSubject(t); !s.Patch || s.Title == "" {
		return "", 0, false
	}
	body = pos
	for range 3 {
		p := pos
		var line []byte
		var next int
		for skipped := 0; ; skipped++ {
			if p >= len(data) || skipped > 3 {
				return author, body, ok
			}
			line, next = lineAt(data, p)
			if len(bytes.TrimSpace(line)) > 0 {
				break
			}
			p = next
		}
		l := strings.TrimSpace(string(line[:min(len(line), 600)]))
		if l == t {
			ok, body, pos = true, next, next
			continue
		}
		if m := rePageAuthor.FindStringSubmatch(l); m != nil && author == "" && !mail.ParseSubject(l).Patch {
			author = strings.TrimSpace(m[1] + m[2])
			return author, next, true
		}
		break
	}
	return author, body, ok
}

// publicInboxPage reads the text of a public-inbox thread page.
func publicInboxPage(data []byte, mo mail.Options) []*mail.Message {
	if !bytes.Contains(data, []byte(" UTC (permalink")) {
		return nil
	}
	var out []*mail.Message
	var h mail.Header
	subject := ""
	start, off := -1, 0
	flush := func(end int) {
		if start >= 0 {
			m := mail.ParseText(h, data[start:end:end], off, mo)
			nameByTrailer(m)
			out = append(out, m)
		}
		start = -1
	}
	for pos := 0; pos < len(data); {
		line, next := lineAt(data, pos)
		l := string(line[:min(len(line), 1000)])
		switch {
		case strings.HasPrefix(l, "* ") || strings.HasPrefix(l, "` ") || reNextPrev.MatchString(l):
			// Subject of the next mail, or the page's own lines.
			if start >= 0 {
				_, after := lineAt(data, next)
				if strings.HasPrefix(l, "^ ") || reNextPrev.MatchString(l) || bytes.HasPrefix(data[next:], []byte("@ ")) ||
					bytes.HasPrefix(data[next:], []byte("From: ")) && after > next {
					flush(pos)
				}
			}
			if strings.HasPrefix(l, "* ") || strings.HasPrefix(l, "` ") {
				subject = strings.TrimSpace(l[2:])
			}
		case rePermalink.MatchString(l):
			flush(pos)
			m := rePermalink.FindStringSubmatch(l)
			h = mail.Header{{Name: "Subject", Raw: subject}, {Name: "From", Raw: m[1]}, {Name: "Date", Raw: m[2] + ":00 +0000"}}
			off = pos
			// "  To: ..; +Cc: .." and the empty line belong to the page.
			for next < len(data) {
				line, n := lineAt(data, next)
				if len(bytes.TrimSpace(line)) > 0 && !bytes.HasPrefix(line, []byte("  To:")) && !bytes.HasPrefix(line, []byte("  Cc:")) &&
					!bytes.HasPrefix(line, []byte("  +Cc:")) {
					break
				}
				next = n
				if len(bytes.TrimSpace(line)) == 0 {
					break
				}
			}
			start = next
		}
		pos = next
	}
	flush(len(data))
	nameByOthers(out)
	return out
}

// nameByTrailer completes an author of whom only the name is known by the
// address of the Signed-off-by of that name.
func nameByTrailer(m *mail.Message) {
	if m.Author.Addr != "" || m.Author.Name == "" {
		return
	}
	for _, t := range mail.Trailers(m.Log) {
		if a, _ := t.Address(); strings.EqualFold(t.Key, "Signed-off-by") && strings.EqualFold(a.Name, m.Author.Name) {
			m.Author.Addr = a.Addr
		}
	}
}

func lineAt(b []byte, pos int) (line []byte, next int) {
	if i := bytes.IndexByte(b[pos:], '\n'); i >= 0 {
		return b[pos : pos+i], pos + i + 1
	}
	return b[pos:], len(b)
}

func toLF(b []byte) []byte {
	if bytes.Contains(b[:min(len(b), 4096)], []byte("\r\n")) {
		return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	}
	return b
}
