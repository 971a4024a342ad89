// SPDX-License-Identifier: Apache-2.0

package mail

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable returns s fit for a terminal or a report: escape sequences and
// other control characters, invisible direction marks and bytes that are not
// UTF-8 become visible (\x1b, \u202e). Tab and LF stay. So do all other words
// but those that a CI service takes for orders: GitHub's runner obeys a line
// "::error::text", whichever program of a step prints it.
func Printable(s string) string { return noOrders(visible(s)) }

// order is GitHub's form of today (actions/runner, ActionCommand.cs); that of
// yesterday, "##[error]text", counts anywhere in a line.
var order = regexp.MustCompile(`(?m)^([ \t]*):(:[A-Za-z][^\n]*::)`)

func noOrders(s string) string {
	if strings.Contains(s, "::") {
		s = order.ReplaceAllString(s, `$1\x3a$2`)
	}
	return strings.ReplaceAll(s, "##[", `\x23#[`)
}

// visible shows what a terminal would obey or hide.
func visible(s string) string {
	clean := true
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 && c != '\n' && c != '\t' || c >= 0x7f {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n <= 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r >= 0x80 && r < 0xa0, // C1: CSI and its like
			r == 0x061c, r >= 0x200b && r <= 0x200f, // marks without width
			r == 0x2028 || r == 0x2029,
			r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f, // bidi overrides and isolates
			r == 0xfeff, r >= 0xfff9 && r <= 0xfffb:
			fmt.Fprintf(&b, `\u%04x`, r)
		case r >= 0xe0000 && r <= 0xe007f: // tag characters
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// PrintableLine is Printable for a string that must stay on one line: LF and
// tab become visible too.
func PrintableLine(s string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(Printable(s))
}

// PrintableJSON makes a JSON document fit to be printed: what the encoder
// leaves as it is and a terminal obeys or hides is escaped. Such characters
// occur in strings only, so the document means the same.
func PrintableJSON(doc []byte) []byte {
	if !strings.Contains(string(doc), "##[") && !strings.ContainsFunc(string(doc), func(r rune) bool { return r >= 0x7f }) {
		return doc
	}
	var b strings.Builder
	b.Grow(len(doc) + 64)
	for _, r := range strings.ReplaceAll(string(doc), "##[", `\u0023#[`) {
		switch {
		case r < 0x7f || r != 0x7f && visible(string(r)) == string(r):
			b.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return []byte(b.String())
}
