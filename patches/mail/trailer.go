// SPDX-License-Identifier: Apache-2.0

package mail

import (
	"regexp"
	"strings"
)

// Trailer is one "Key: value" line of a commit message.
type Trailer struct {
	Key   string `json:"key"`
	Value string `json:"value"` // all behind the colon, continuation lines joined by a blank
	Line  int    `json:"line"`  // 1-based line in the text given to Trailers
	// Loose is set when git interpret-trailers would not see it, because it
	// stands above the last paragraph.
	Loose bool `json:"loose,omitempty"`
}

// Address returns the person a trailer names and what stands behind the
// address ("# 5.15+", "(Documentation)").
func (t Trailer) Address() (a Address, note string) {
	v := t.Value
	if i := strings.IndexByte(v, '<'); i >= 0 {
		if j := strings.IndexByte(v[i:], '>'); j > 0 {
			return Address{strings.Trim(strings.TrimSpace(v[:i]), `"`), strings.TrimSpace(v[i+1 : i+j])}, strings.TrimSpace(v[i+j+1:])
		}
	}
	word, rest, _ := strings.Cut(v, " ")
	if strings.Contains(word, "@") {
		return Address{word, word}, strings.TrimSpace(rest)
	}
	return Address{Name: v}, ""
}

var (
	reTrailer = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9-]*)[ \t]*:(.*)$`)
	// Keys that are a trailer wherever a line begins with them.
	reKnownKey = regexp.MustCompile(`(?i)^(?:[a-z0-9]+(?:-[a-z0-9]+)*-by|cc|fixes|link|closes|bugzilla|buglink|reported-and-[a-z-]+|acked|reviewed|tested|change-id|message-id|in-reply-to|base-commit|stable-dep-of|depends-on|references|addresses-coverity(?:-id)?|debian-bug)$`)
)

// Trailers finds the trailers at the end of a commit message, as git
// interpret-trailers does: the last paragraph, when all of its lines are
// trailers, or when it has a Signed-off-by and at least a quarter are.
// Paragraphs directly above that consist of well-known trailers only are
// taken too, marked Loose; kernel messages often have an empty line between.
func Trailers(message string) []Trailer {
	skipped := 0 // lines
	if cut := len(message) - maxTrailerText; cut > 0 {
		if i := strings.IndexByte(message[cut:], '\n'); i >= 0 {
			cut += i + 1
		}
		skipped = strings.Count(message[:cut], "\n")
		message = message[cut:]
	}
	out := trailers(message)
	for i := range out {
		out[i].Line += skipped
	}
	return out
}

// maxTrailerText is how much of a message, from its end, is searched for
// trailers, in bytes; maxTrailerValue bounds one value.
const (
	maxTrailerText  = 128 << 10
	maxTrailerValue = 8 << 10
	maxTrailers     = 500
)

func trailers(message string) []Trailer {
	lines := strings.Split(message, "\n")
	var out []Trailer
	end := len(lines)
	first := true
	for end > 0 && len(out) < maxTrailers {
		for end > 0 && strings.TrimSpace(lines[end-1]) == "" {
			end--
		}
		start := end
		for start > 0 && strings.TrimSpace(lines[start-1]) != "" {
			start--
		}
		if start == end {
			break
		}
		ts, others, known, signed := block(lines[start:end], start)
		switch {
		case first && len(ts) > 0 && (others == 0 || (signed && len(ts)*3 >= others)):
		case len(ts) > 0 && signed && len(ts)*3 >= others, !first && len(ts) > 0 && others == 0 && known == len(ts):
			for i := range ts {
				ts[i].Loose = true
			}
		case first:
			// Text below the trailers: look one paragraph further up.
			if ts == nil && !strings.Contains(message, "igned-off-by") {
				return nil
			}
			first = false
			end = start
			if len(out) == 0 {
				continue
			}
			return out
		default:
			if len(out) > 0 {
				return out
			}
			end = start
			continue
		}
		out = append(ts, out...)
		first = false
		end = start
	}
	return out
}

// block reads one paragraph.
func block(lines []string, offset int) (ts []Trailer, others, known int, signed bool) {
	inNote := false
	for i, l := range lines {
		if strings.HasPrefix(l, "(cherry picked from commit ") {
			signed = true
			known++
			continue
		}
		if (l[0] == ' ' || l[0] == '\t') && len(ts) > 0 && !inNote {
			if t := &ts[len(ts)-1]; len(t.Value) < maxTrailerValue {
				t.Value = strings.TrimSpace(t.Value + " " + strings.TrimSpace(l))
			}
			continue
		}
		// "[ann: fixed the build]" between trailers, maybe over several lines.
		if l[0] == '[' {
			inNote = !strings.HasSuffix(strings.TrimSpace(l), "]")
			others++
			continue
		}
		if inNote {
			inNote = !strings.HasSuffix(strings.TrimSpace(l), "]")
			others++
			continue
		}
		m := reTrailer.FindStringSubmatch(strings.TrimRight(l, " \t\r"))
		if m == nil || strings.HasPrefix(m[2], "//") {
			others++
			continue
		}
		ts = append(ts, Trailer{Key: m[1], Value: strings.TrimSpace(m[2]), Line: offset + i + 1})
		if reKnownKey.MatchString(m[1]) {
			known++
		}
		if strings.EqualFold(m[1], "Signed-off-by") {
			signed = true
		}
	}
	return ts, others, known, signed
}

// ReplyTrailers returns the trailers that a reply gives: lines of the form
// "Something-by: Name <addr>" in its own, unquoted text, above the signature.
func ReplyTrailers(body string) []Trailer {
	var out []Trailer
	body = body[:min(len(body), maxTrailerText)]
	for i, l := range strings.Split(body, "\n") {
		l = strings.TrimRight(l, " \t\r")
		if l == "--" || strings.HasPrefix(l, "diff --git ") || len(out) >= 50 {
			break
		}
		m := reReplyTrailer.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		out = append(out, Trailer{Key: m[1], Value: m[2], Line: i + 1})
	}
	return out
}

var reReplyTrailer = regexp.MustCompile(`^((?i:[A-Za-z]+(?:-[A-Za-z]+)*-by)):[ \t]*(\S.*[<]?[^\s<>@]+@[^\s<>@]+.*)$`)
