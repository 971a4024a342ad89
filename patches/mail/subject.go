// SPDX-License-Identifier: Apache-2.0

package mail

import (
	"regexp"
	"strconv"
	"strings"
)

// Subject is what a subject line says about the place of a mail in a series.
type Subject struct {
	// Index and Total are n and m of "n/m"; nil when not given. "02/" gives
	// an Index without a Total.
	Index *int `json:"index"`
	Total *int `json:"total"`
	// Version is the revision, 1 when none is given. Explicit says that one is.
	Version  int  `json:"version"`
	Explicit bool `json:"version_explicit,omitempty"`
	// Trailing is n of a "[ver #n]" at the end of the title, the mark of some
	// mailers; 0 when absent. It is part of the title.
	Trailing int      `json:"version_trailing,omitempty"`
	RFC      bool     `json:"rfc"`
	Resend   bool     `json:"resend"`
	Tags     []string `json:"tags,omitempty"` // other words of the prefix, as written: "PATCH", "net-next", "bug#12"
	Title    string   `json:"title"`          // as git am takes it: without prefixes and "Re:"
	Prefix   string   `json:"prefix,omitempty"`
	Patch    bool     `json:"patch"`           // the prefix says that this is (part of) a patch series
	Pull     bool     `json:"pull,omitempty"`  // "[GIT PULL]", "[PULL REQUEST]"
	Reply    bool     `json:"reply,omitempty"` // "Re:" and its kin in other languages
	Forward  bool     `json:"forward,omitempty"`
}

var (
	reCount    = regexp.MustCompile(`^#?(\d{1,5})/(\d{1,5})$`)
	reCountOpn = regexp.MustCompile(`^#?(\d{1,5})/0?(?:[nNxXmMyY?]{0,2})$`)
	// "v3", "V3", "v4a", "v14-plus", "v4-fix", "ver3", "vers2", "version3", "rev2", "v.3", "v#3", "-v2";
	// not "v4l" (a subsystem) nor "v6-next".
	reVersion = regexp.MustCompile(`(?i)^-?(?:v|ver|vers|version|rev|revision)[.#]?(\d{1,4})(?:[a-k]|[-_.]?plus|\+|-(?:fix|fixed|fixup|update|updated|final|take\d))?$`)
	// "v14.5": a revision of a revision, or a kernel.
	reVersionDot = regexp.MustCompile(`(?i)^v(\d{1,4})\.(\d{1,3})$`)
	// "PATCHv3", "RFCv2", "PATCH-v2", "RESEND_v2", "patchset-v4"
	reGluedVersion = regexp.MustCompile(`(?i)^(PATCH(?:ES|SET)?|RFC|RESEND|REPOST|RFT)[-_.:/]?(?:v|ver|rev)(\d{1,4})$`)
	reGluedCount   = regexp.MustCompile(`(?i)^(PATCH(?:ES|SET)?)[-_:#]?(\d{1,5}/\d{1,5})$`)
	// "1/2v3", "1/2-v3"
	reCountVersion = regexp.MustCompile(`(?i)^(\d{1,5}/\d{1,5})[-_:]?(?:v|ver|rev)(\d{1,4})$`)
	reResend       = regexp.MustCompile(`(?i)^(?:re-?){1,3}(?:send|sent|post)(?:ed|ing)?#?\d*$`)
	reRFC          = regexp.MustCompile(`(?i)^RFC(?:v?\d{0,3})$`)
	rePatchWord    = regexp.MustCompile(`(?i)^PATCH(?:ES|SET|-SET)?(?:v\d+)?$`)
	reTrailingVer  = regexp.MustCompile(`(?i)\[ver[ .]?#?(\d{1,4})\]\s*$`)
	rePull         = regexp.MustCompile(`(?i)\bgit[ -]pull\b|\bpull[ -]?request\b|^\s*\[?PULL\b`)
	reReply        = regexp.MustCompile(`(?i)^(?:re|aw|sv|vs|antw|antwort|rv|res|odp|回复|答复|回覆)(?:\s?\[\d+\]|\^\d+)?\s?[:：]\s*`)
	reForward      = regexp.MustCompile(`(?i)^(?:fwd?|wg|tr|enc|i|转发)\s?[:：]\s*`)
)

// ParseSubject reads a decoded, unfolded subject.
func ParseSubject(subject string) Subject {
	s := Subject{Version: 1}
	if len(subject) > 4096 {
		// Nothing after that can be read by a person either.
		subject = strings.ToValidUTF8(subject[:4096], "")
	}
	rest := collapse(subject)
	prefixStart := rest
	var words []string
	for {
		switch {
		case rest == "":
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == ':':
			rest = rest[1:]
			continue
		case rest[0] == '[':
			end := closing(rest)
			if end < 0 {
				break
			}
			words = append(words, splitWords(rest[1:end])...)
			rest = rest[end+1:]
			continue
		default:
			// After a bracket only "Re:" is a reply mark, as for git: "sv: fix"
			// may be a driver. After [PATCH] it marks no reply.
			if m := reReply.FindString(rest); m != "" &&
				(strings.HasPrefix(strings.ToLower(m), "re") && !strings.HasPrefix(strings.ToLower(m), "res") ||
					len(words) == 0 && strings.HasPrefix(rest[len(m):], "[")) {
				s.Reply = s.Reply || !containsFold(words, "PATCH")
				rest = rest[len(m):]
				continue
			}
			if m := reForward.FindString(rest); m != "" && strings.HasPrefix(strings.TrimSpace(rest[len(m):]), "[") {
				s.Forward = true
				rest = rest[len(m):]
				continue
			}
		}
		break
	}
	s.Title = strings.Trim(rest, " \t")
	s.Prefix = strings.TrimSpace(prefixStart[:len(prefixStart)-len(rest)])
	s.Pull = rePull.MatchString(strings.Join(words, " ")) || strings.HasPrefix(strings.ToUpper(s.Title), "GIT PULL")
	if m := reTrailingVer.FindStringSubmatch(s.Title); m != nil {
		s.Trailing, _ = strconv.Atoi(m[1])
	}
	s.read(words)
	return s
}

// closing returns the place of the bracket that closes the one at the start
// of s, counting inner pairs, or -1. Without a balanced one the first closing
// bracket counts, as for git.
func closing(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return strings.IndexByte(s, ']')
}

func splitWords(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool {
		return r == ' ' || r == '\t' || r == ',' || r == ';' || r == '[' || r == ']'
	})
}

func (s *Subject) read(words []string) {
	var dotted []string // version or kernel: decided when all words are known
	setVersion := func(n string) {
		if v, err := strconv.Atoi(n); err == nil && v < 10000 {
			s.Version, s.Explicit = v, true
		}
	}
	setCount := func(a, b string) {
		i, err1 := strconv.Atoi(a)
		s.Index = &i
		if t, err := strconv.Atoi(b); err == nil && err1 == nil {
			s.Total = &t
		} else {
			s.Total = nil
		}
	}
	for k := 0; k < len(words); k++ {
		w := words[k]
		t := strings.Trim(w, "().:")
		if t == "" {
			t = w
		}
		// "1 of 3" and "v 2", "ver #2" are several words.
		if k+2 < len(words) && (strings.EqualFold(words[k+1], "of") || words[k+1] == "/") && isNumber(t) && isNumber(strings.Trim(words[k+2], "()")) {
			setCount(t, strings.Trim(words[k+2], "()"))
			k += 2
			continue
		}
		if k+1 < len(words) {
			switch strings.ToLower(t) {
			case "v", "ver", "vers", "version", "rev":
				if n := strings.TrimPrefix(words[k+1], "#"); isNumber(n) {
					setVersion(n)
					k++
					continue
				}
			}
		}
		if m := reCount.FindStringSubmatch(t); m != nil {
			setCount(m[1], m[2])
			continue
		}
		if m := reCountVersion.FindStringSubmatch(t); m != nil {
			a, b, _ := strings.Cut(m[1], "/")
			setCount(a, b)
			setVersion(m[2])
			continue
		}
		if m := reCountOpn.FindStringSubmatch(t); m != nil {
			if s.Index == nil {
				setCount(m[1], "")
			}
			s.Tags = append(s.Tags, w)
			continue
		}
		if m := reVersion.FindStringSubmatch(t); m != nil {
			setVersion(m[1])
			continue
		}
		if reVersionDot.MatchString(t) {
			dotted = append(dotted, t)
			continue
		}
		if m := reGluedCount.FindStringSubmatch(t); m != nil {
			a, b, _ := strings.Cut(m[2], "/")
			setCount(a, b)
			w, t = m[1], m[1]
		} else if m := reGluedVersion.FindStringSubmatch(t); m != nil {
			setVersion(m[2])
			w, t = m[1], m[1]
		}
		tag := strings.Trim(w, "()") != "" && strings.Trim(w, "-_:|#*") != ""
		for _, part := range strings.FieldsFunc(t, func(r rune) bool {
			return r == '/' || r == '-' || r == '_' || r == '+' || r == '|' || r == ':' || r == '&' || r == '(' || r == ')'
		}) {
			switch {
			case reRFC.MatchString(part):
				s.RFC, s.Patch = true, true
			case rePatchWord.MatchString(part):
				s.Patch = true
			case reResend.MatchString(part):
				s.Resend = true
			}
			if part != t {
				// "RESEND/v2", "v2-RESEND", "PATCH/RFC-v3"
				if m := reVersion.FindStringSubmatch(part); m != nil && !s.Explicit && hasWord(t) {
					setVersion(m[1])
				} else if m := reGluedVersion.FindStringSubmatch(part); m != nil {
					setVersion(m[2])
					s.RFC = s.RFC || strings.EqualFold(m[1], "RFC")
				}
			}
		}
		if whole := strings.ReplaceAll(t, "-", ""); reResend.MatchString(whole) {
			s.Resend = true // "RE-SEND"
		}
		if tag {
			s.Tags = append(s.Tags, w)
		}
	}
	for _, d := range dotted {
		m := reVersionDot.FindStringSubmatch(d)
		if s.Explicit || kernelRelease(m[1], m[2]) {
			s.Tags = append(s.Tags, d)
			continue
		}
		setVersion(m[1])
	}
	if s.Index != nil && s.Total != nil {
		s.Patch = true
	}
	if s.Pull && s.Index == nil && !containsFold(s.Tags, "patch") {
		s.Patch = false
	}
}

// hasWord reports whether a compound such as "RESEND/v2" holds a word that
// belongs to patch prefixes, so that its "v2" is a revision and not, as in
// "for-v6", a kernel.
func hasWord(t string) bool {
	u := strings.ToUpper(t)
	return strings.Contains(u, "PATCH") || strings.Contains(u, "RFC") || strings.Contains(u, "RESEND") || strings.Contains(u, "REPOST")
}

// kernelRelease reports whether vA.B is more likely the kernel that a
// backport is for than a revision: the long-term kernels, and minor numbers
// no revision reaches.
func kernelRelease(a, b string) bool {
	switch a + "." + b {
	case "3.10", "3.16", "3.18", "4.1", "4.4", "4.9", "4.14", "4.19", "5.4", "5.10", "5.15", "6.1", "6.6", "6.12", "6.18":
		return true
	}
	major, _ := strconv.Atoi(a)
	minor, _ := strconv.Atoi(b)
	return major >= 2 && major <= 9 && minor >= 8
}

func isNumber(s string) bool {
	if s == "" || len(s) > 5 {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

func containsFold(list []string, s string) bool {
	for _, x := range list {
		if strings.EqualFold(x, s) {
			return true
		}
	}
	return false
}
