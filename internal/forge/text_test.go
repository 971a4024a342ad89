// SPDX-License-Identifier: Apache-2.0

package forge

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestInert(t *testing.T) {
	for in, bad := range map[string]string{
		"Cc: @torvalds please":              "@torvalds",
		"mail ann@example.org":              "@example",
		"fixes #12 and octo/linux#12":       "#12",
		"see GH-12":                         "GH-12",
		"https://github.com/o/r/issues/1":   "https://",
		"www.example.org":                   "www.e",
		"[x](javascript:alert(1)) <b>y</b>": "<b>",
		"![img](//evil)":                    "![img]",
		"a | b":                             " | ",
		"x\n# heading":                      "\n",
		"`code` ~~no~~":                     "`",
		"\x1b[31mred":                       "\x1b",
	} {
		if got := Text(in); strings.Contains(got, bad) {
			t.Errorf("%q becomes %q", in, got)
		}
	}
	if got := fence([]string{"a", "```", "@x", "````"}); !strings.HasPrefix(got, "`````text\n") || !strings.HasSuffix(got, "\n`````\n") {
		t.Errorf("got %q", got)
	}
}

var reCommand = regexp.MustCompile(`(?m)^\s*::|##\[`)

func TestGuard(t *testing.T) {
	for _, in := range []string{"::set-output name=x::y\n", "ok\n  ::add-mask::x\n", "\t::error::z", "##[command]x", "a ##[error]", "###[x]", "\u00a0::stop-commands::x", "a\r::x", "::", "plain text: a::b #[x]\n"} {
		for split := range len(in) + 1 {
			var b bytes.Buffer
			g := Guard(&b)
			g.Write([]byte(in[:split]))
			g.Write([]byte(in[split:]))
			if reCommand.MatchString(b.String()) {
				t.Errorf("%q becomes %q", in, b.String())
			}
			if got := strings.ReplaceAll(b.String(), breaker, ""); got != in {
				t.Errorf("%q becomes %q", in, got)
			}
		}
	}
	var b bytes.Buffer
	Guard(&b).Write([]byte("plain text: a::b #[x]\nx"))
	if strings.Contains(b.String(), breaker) {
		t.Errorf("harmless text was changed: %q", b.String())
	}
}

func FuzzClipMarkdown(f *testing.F) {
	f.Add("```\ncode\n```\ntext", 300)
	f.Add("a\n````text\n```\n", 200)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < 200 || n > 1<<16 || !utf8.ValidString(s) {
			return
		}
		s = strings.Repeat(s+"\n", 1+2*n/(len(s)+1))
		if got := clipMarkdown(s, n); len(got) > n || !utf8.ValidString(got) {
			t.Errorf("%d bytes of %d", len(got), n)
		}
	})
}

func FuzzGuard(f *testing.F) {
	f.Add([]byte("::x"), 1)
	f.Fuzz(func(t *testing.T, in []byte, at int) {
		at = min(max(at, 0), len(in))
		var b bytes.Buffer
		g := Guard(&b)
		g.Write(in[:at])
		g.Write(in[at:])
		if reCommand.Match(b.Bytes()) {
			t.Errorf("%q becomes %q", in, b.Bytes())
		}
	})
}
