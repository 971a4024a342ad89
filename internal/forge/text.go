// SPDX-License-Identifier: Apache-2.0

package forge

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"patchcheck/patches/mail"
)

// Limits of GitHub's API. Lengths are in characters there; counting bytes
// stays below in every case.
const (
	maxSummary     = 65535 // output.summary and output.text of a check run
	maxComment     = 65536 // body of a comment
	maxDescription = 140   // of a commit status
	maxTitle       = 255   // of an annotation
	maxMessage     = 64 << 10
	maxBatch       = 50          // annotations per request
	maxStepSummary = 1024 * 1024 // of one step's job summary, in bytes
)

// breaker is a zero-width space. Behind "@", "#" and in "://" it keeps GitHub
// from seeing a mention, a reference or a link: a stranger's patch must not
// ping people nor leave marks in other projects' issues.
const breaker = "\u200b"

var rePing = regexp.MustCompile(`(?i)[@#][0-9a-z]|\bgh-[0-9]|://|\bwww\.`)

// inert makes markdown text harmless that may hold words of a stranger.
// Evidence belongs into a fence instead, where nothing is interpreted.
func inert(s string) string {
	return rePing.ReplaceAllStringFunc(s, func(m string) string {
		switch {
		case m == "://":
			return ":" + breaker + "//"
		case m[0] == '@' || m[0] == '#':
			return m[:1] + breaker + m[1:]
		}
		return m[:2] + breaker + m[2:]
	})
}

// Text is a stranger's words inside markdown: one line, nothing interpreted.
func Text(s string) string {
	s = strings.Join(strings.Fields(mail.Printable(s)), " ")
	s = strings.NewReplacer("\\", "\\\\", "|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "*", `\*`, "_", `\_`, "`", "'", "[", `\[`, "]", `\]`, "~", `\~`, "$", `\$`).Replace(s)
	return inert(s)
}

// fence puts lines into a code block that they cannot end.
func fence(lines []string) string {
	text := make([]string, len(lines))
	longest := 2
	for i, l := range lines {
		text[i] = mail.Printable(strings.TrimRight(l, "\r\n"))
		for _, run := range reTicks.FindAllString(text[i], -1) {
			longest = max(longest, len(run))
		}
	}
	f := strings.Repeat("`", longest+1)
	return f + "text\n" + strings.Join(text, "\n") + "\n" + f + "\n"
}

var reTicks = regexp.MustCompile("`+")

// clipLine shortens a text of one line to n bytes and says so with dots.
func clipLine(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= n {
		return s
	}
	const dots = "..."
	return strings.TrimSpace(cutUTF8(s, n-len(dots))) + dots
}

func cutUTF8(s string, n int) string {
	if n < 0 {
		return ""
	}
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// clipText shortens plain text of many lines to n bytes.
func clipText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	note := fmt.Sprintf("\n... shortened: %d bytes in all", len(s))
	return cutUTF8(s, n-len(note)) + note
}

// clipMarkdown shortens markdown to n bytes at a line's end, closes a code
// block that it cuts open, and says what it did.
func clipMarkdown(s string, n int) string {
	if len(s) <= n {
		return s
	}
	note := fmt.Sprintf("\n\n_Shortened: this text has %d bytes and GitHub takes %d. The whole report is in the run folder._\n", len(s), n)
	room := n - len(note)
	cut := ""
	for {
		cut = cutUTF8(s, room)
		if i := strings.LastIndexByte(cut, '\n'); i >= 0 {
			cut = cut[:i]
		}
		open := ""
		for _, l := range strings.Split(cut, "\n") {
			if t := reTicks.FindString(l); len(t) >= 3 && strings.HasPrefix(l, t) {
				switch {
				case open == "":
					open = t
				case len(t) >= len(open) && strings.TrimSpace(l) == t:
					open = ""
				}
			}
		}
		if open != "" {
			open = "\n" + open
		}
		if len(cut)+len(open) <= room || room <= 0 {
			return cut + open + note
		}
		room -= len(open)
	}
}

// Guard returns a writer for what a program prints inside a GitHub Actions
// job. The runner obeys lines that begin with "::" and text with "##["; in the
// words of a patch both are broken up.
func Guard(w io.Writer) io.Writer { return &guard{w: w} }

type guard struct {
	w    io.Writer
	seen string // of the line so far: what decides whether it begins with "::"
	body bool   // the line has begun with something else
	hash int    // "#" signs just before, as far as "##[" needs them
}

// Write breaks commands up, also those that come in several writes.
func (g *guard) Write(p []byte) (int, error) {
	var out []byte
	for _, b := range p {
		if b == '\n' || b == '\r' {
			g.seen, g.body, g.hash = "", false, 0
			out = append(out, b)
			continue
		}
		if g.hash == 2 && b == '[' {
			out = append(out, breaker...)
		}
		if b == '#' {
			g.hash = min(2, g.hash+1)
		} else {
			g.hash = 0
		}
		if !g.body {
			switch {
			case b == ':' && g.seen == ":":
				out = append(out, breaker...)
				g.body = true
			case b == ':':
				g.seen = ":"
			case g.seen == "" && (b == ' ' || b == '\t' || b == '\v' || b == '\f'):
			case g.seen == "" && b >= 0x80:
				// Part of a character that may be white space to the runner.
			default:
				g.body = true
			}
		}
		out = append(out, b)
	}
	if _, err := g.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
