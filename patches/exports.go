// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"bytes"
	"regexp"
	"strings"

	"patchcheck/patches/mail"
)

var (
	reShowCommit = regexp.MustCompile(`^commit ([0-9a-f]{40}|[0-9a-f]{64})(?: \(.*\))?\s*$`)
	reShowHeader = regexp.MustCompile(`^(Author|AuthorDate|Date|Commit|CommitDate|Merge|Notes[^:]*):\s*(.*)$`)
)

// gitShow reads the output of git show and git log -p.
func gitShow(data []byte, mo mail.Options) []*mail.Message {
	trimmed := bytes.TrimLeft(data, "\r\n")
	first, _ := lineAt(trimmed, 0)
	if !reShowCommit.Match(bytes.TrimRight(first, "\r")) {
		return nil
	}
	data = toLF(trimmed)
	var starts []int
	for pos := 0; pos < len(data); {
		line, next := lineAt(data, pos)
		if bytes.HasPrefix(line, []byte("commit ")) && len(line) < 300 && reShowCommit.Match(line) {
			l, _ := lineAt(data, next)
			if reShowHeader.Match(l) {
				starts = append(starts, pos)
			}
		}
		pos = next
	}
	var out []*mail.Message
	for i, pos := range starts {
		end := len(data)
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		line, next := lineAt(data, pos)
		commit := reShowCommit.FindSubmatch(line)[1]
		h := mail.Header{}
		for next < end {
			line, n := lineAt(data, next)
			m := reShowHeader.FindSubmatch(line)
			if m == nil {
				break
			}
			switch string(m[1]) {
			case "Author":
				h = append(h, mail.Field{Name: "From", Raw: string(m[2])})
			case "Date", "AuthorDate":
				h = append(h, mail.Field{Name: "Date", Raw: string(m[2])})
			}
			next = n
		}
		// The message is indented by four blanks, up to the diff.
		var msg []string
		for next < end {
			line, n := lineAt(data, next)
			if len(line) > 0 && !bytes.HasPrefix(line, []byte("    ")) {
				break
			}
			msg = append(msg, strings.TrimPrefix(string(line), "    "))
			next = n
		}
		text := strings.TrimSpace(strings.Join(msg, "\n"))
		title, body, _ := strings.Cut(text, "\n\n")
		h = append(h, mail.Field{Name: "Subject", Raw: "[PATCH] " + strings.ReplaceAll(title, "\n", " ")})
		var buf bytes.Buffer
		buf.WriteString(strings.TrimSpace(body))
		buf.WriteString("\n---\n\n")
		buf.Write(data[next:end])
		m := mail.ParseText(h, buf.Bytes(), pos, mo)
		m.Commit = string(commit)
		out = append(out, m)
	}
	// git log shows the newest commit first.
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

var reHgHeader = regexp.MustCompile(`^# ?(User|Date|Node ID)\s+(.*)$`)

const hgMark = "# HG changeset patch"

// hgExport reads the output of hg export.
func hgExport(data []byte, mo mail.Options) []*mail.Message {
	data = toLF(bytes.TrimLeft(data, "\r\n"))
	if !bytes.HasPrefix(data, []byte(hgMark)) {
		return nil
	}
	var out []*mail.Message
	for pos := 0; pos < len(data); {
		end := len(data)
		if i := bytes.Index(data[pos+1:], []byte("\n"+hgMark+"\n")); i >= 0 {
			end = pos + 1 + i + 1
		}
		h := mail.Header{}
		commit := ""
		_, next := lineAt(data, pos)
		for next < end {
			line, n := lineAt(data, next)
			if len(line) == 0 || line[0] != '#' {
				break
			}
			if m := reHgHeader.FindSubmatch(line); m != nil {
				switch v := string(m[2]); string(m[1]) {
				case "User":
					h = append(h, mail.Field{Name: "From", Raw: v})
				case "Date":
					h = append(h, mail.Field{Name: "Date", Raw: "@" + v})
				case "Node ID":
					commit = v
				}
			}
			next = n
		}
		title, after := lineAt(data, next)
		h = append(h, mail.Field{Name: "Subject", Raw: "[PATCH] " + string(title)})
		m := mail.ParseText(h, data[min(after, end):end:end], pos, mo)
		m.Commit = commit
		out = append(out, m)
		pos = end
	}
	return out
}

// plainDiff reads a diff that no mail carries. Text above it is a message, as
// in a folder of quilt, and its first line, when it stands alone, the title.
func plainDiff(data []byte, mo mail.Options) *mail.Message {
	m := mail.ParseText(nil, data, 0, mo)
	if len(m.Diff) == 0 {
		return nil
	}
	if m.Title != "" || !m.Author.IsZero() {
		return m
	}
	title, rest, _ := strings.Cut(strings.TrimLeft(m.Log, "\n"), "\n")
	switch {
	case title == "" || len(title) > 150 || strings.TrimSpace(title) != title || !strings.HasPrefix(rest, "\n") && rest != "":
	case strings.ContainsAny(title[:1], "#?=-+*!/") || strings.HasPrefix(title, "Only in ") || strings.HasPrefix(title, "Binary files "):
	default:
		m.Title, m.Log = title, strings.TrimLeft(rest, "\n")
	}
	return m
}
