// SPDX-License-Identifier: Apache-2.0

package mail

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func fuzzSeeds() [][]byte {
	plain := plainMail().String()
	flowed := plainMail()
	flowed.extra = []string{"Content-Type: text/plain; charset=iso-8859-1; format=flowed; delsp=yes", "Content-Transfer-Encoding: quoted-printable"}
	multi := plainMail()
	multi.extra = []string{`Content-Type: multipart/mixed; boundary="b"`}
	multi.body = "--b\n\ntext\n--b\nContent-Type: message/rfc822\n\n" + plain + "\n--b--\n"
	return [][]byte{
		[]byte(plain), []byte(strings.ReplaceAll(plain, "\n", "\r\n")), []byte(flowed.String()), []byte(multi.String()),
		[]byte("From x@y Mon Mar  4 10:00:01 2024\n" + plain + "\nFrom x@y Mon Mar  4 10:00:01 2024\n" + plain),
		[]byte("Content-Type: text/plain; charset=utf-16\n\n\xff\xfea\x00"), []byte("Subject: =?utf-8?q?=?=\n\n-- >8 --\n---\n"),
		[]byte("Content-Transfer-Encoding: base64\n\nZGlmZiAtLWdpdCBhL3ggYi94Cg==\nfooter\n"),
	}
}

// checkMessage tests what must hold for every Message.
func checkMessage(t *testing.T, m *Message) {
	t.Helper()
	if !utf8.ValidString(m.Title) && utf8.ValidString(m.RawSubject) {
		t.Errorf("title %q is not UTF-8", m.Title)
	}
	if len(m.Problems) > maxProblems || len(m.Attached) > maxAttached {
		t.Errorf("%d problems, %d attached", len(m.Problems), len(m.Attached))
	}
	if len(m.Diff) > len(m.PatchText) {
		t.Errorf("diff of %d bytes in a patch of %d", len(m.Diff), len(m.PatchText))
	}
	lines := strings.Split(m.Log, "\n")
	for _, tr := range Trailers(m.Log) {
		if tr.Line < 1 || tr.Line > len(lines) || !strings.HasPrefix(lines[tr.Line-1], tr.Key) {
			t.Errorf("trailer %q is not on line %d", tr.Key, tr.Line)
		}
	}
	for _, a := range m.Attached {
		checkMessage(t, a)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range fuzzSeeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		start := time.Now()
		for _, r := range Split(data) {
			checkMessage(t, Parse(r, Options{}))
		}
		checkMessage(t, ParseText(nil, data, 0, Options{}))
		// Generous: the bound is one second per megabyte.
		if d := time.Since(start); d > 5*time.Second+time.Duration(len(data))*time.Microsecond {
			t.Errorf("%d bytes took %v", len(data), d)
		}
	})
}

func FuzzSplit(f *testing.F) {
	for _, s := range fuzzSeeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		raws := Split(data)
		n, quoted := 0, 0
		last := -1
		for _, r := range raws {
			n += len(r.Data)
			quoted += r.Unquoted
			if r.Offset <= last {
				t.Errorf("offset %d after %d", r.Offset, last)
			}
			last = r.Offset
		}
		if n > len(data) {
			t.Errorf("%d bytes became %d", len(data), n)
		}
	})
}

func FuzzSubject(f *testing.F) {
	for _, s := range []string{"[PATCH v2 1/3] a: b", "Re: [bug#1] [PATCH RFC,v2,01/03] x [ver #2]", "[PATCH 1 of 2]", "[[PATCH] x]", "[v1.2/3]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := ParseSubject(s)
		if p.Version < 0 || len(p.Title) > len(s) {
			t.Errorf("%q: %+v", s, p)
		}
		if p.Total != nil && p.Index == nil {
			t.Errorf("%q has a total and no index", s)
		}
		ParseAddress(s)
		ParseAddressList(s)
		ParseDate(s)
		decodeWords(s)
		if out := Printable(s); strings.ContainsFunc(out, func(r rune) bool { return r < 0x20 && r != '\n' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 }) {
			t.Errorf("Printable(%q) = %q", s, out)
		}
	})
}

func FuzzTrailers(f *testing.F) {
	for _, s := range []string{"a\n\nSigned-off-by: A <a@b>\n", "Cc: x\n y\n[z: w]\nSigned-off-by: b\n\n---", "(cherry picked from commit x)\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		lines := strings.Split(s, "\n")
		for _, tr := range Trailers(s) {
			if tr.Line < 1 || tr.Line > len(lines) || !strings.HasPrefix(lines[tr.Line-1], tr.Key) {
				t.Errorf("trailer %q is not on line %d of %q", tr.Key, tr.Line, s)
			}
		}
		ReplyTrailers(s)
	})
}

// TestHostile reads mails made to hurt a parser. Each must end as a Message,
// within memory and time that a broken bound would exceed by far.
func TestHostile(t *testing.T) {
	head := "From: a@b\nSubject: [PATCH] x\n"
	deep := func(n int) string {
		var b strings.Builder
		b.WriteString(head)
		for i := range n {
			fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n", i, i)
		}
		return b.String() + "\ntext\n"
	}
	deepMail := func(n int) string {
		return head + strings.Repeat("Content-Type: message/rfc822\n\n"+head, n) + "\nx\n"
	}
	d := fmt.Sprintf(testDiff, "x")
	tests := []struct {
		name, mail, problem string
	}{
		{"nested multipart", deep(5000), "mail.mime-depth"},
		{"nested mails", deepMail(5000), ""},
		{"many parts", head + "Content-Type: multipart/mixed; boundary=b\n\n" + strings.Repeat("--b\n\nx\n", 20000), "mail.mime-parts"},
		{"same boundary nested", head + strings.Repeat("Content-Type: multipart/mixed; boundary=b\n\n--b\n", 3000), ""},
		{"many header fields", strings.Repeat("X-A: b\n", 200000) + head + "\n" + d, "mail.header-size"},
		{"long header field", head + "X-A: " + strings.Repeat("x", 4<<20) + "\n\n" + d, "mail.header-size"},
		{"endless folding", head + "X-A: b\n" + strings.Repeat(" x\n", 1<<20) + "\n" + d, "mail.header-size"},
		{"many references", head + "References: " + strings.Repeat("<a@b> ", 150000) + "\n\n" + d, ""},
		{"many recipients", head + "Cc: " + strings.Repeat("a@b, ", 200000) + "\n\n" + d, ""},
		{"encoded words", "Subject: " + strings.Repeat("=?utf-8?q?=41?= ", 60000) + "\n\n" + d, ""},
		{"half encoded words", "Subject: " + strings.Repeat("=?", 500000) + "\n\n" + d, ""},
		{"nested brackets", "Subject: " + strings.Repeat("[", 500000) + "\n\n" + d, ""},
		{"open brackets", "Subject: " + strings.Repeat("[a", 250000) + "]\n\n" + d, ""},
		{"long text", head + "\n" + strings.Repeat("x\n", 4<<20) + "\n---\n" + d, "mail.text-size"},
		{"long line", head + "\n" + strings.Repeat("x", 8<<20) + "\n---\n" + d, "mail.line-length"},
		{"NUL bytes", head + "\na\x00b\n---\n" + d, "mail.nul-byte"},
		{"diff starts", head + "\n" + strings.Repeat("diff --git a/x b/x\n", 300000), ""},
		{"index lines", head + "\n" + strings.Repeat("Index: x\n", 300000), ""},
		{"minus lines", head + "\n" + strings.Repeat("--- x\n", 500000), ""},
		{"signatures", head + "\n---\n" + d + strings.Repeat("-- \n", 500000), ""},
		{"signatures and diffs", head + "\n---\n" + strings.Repeat(d+"-- \n", 5000), ""},
		{"separators", head + "\n" + strings.Repeat("From x@y Mon Mar  4 10:00:01 2024\n", 100000), ""},
		{"scissors", head + "\n" + strings.Repeat("-- >8 --\n", 300000), ""},
		{"in-body headers", head + "\n" + strings.Repeat("From: a\n x\n", 300000), ""},
		{"endless in-body header", head + "\nSubject: a\n" + strings.Repeat(" x\n", 300000), ""},
		{"html", head + "Content-Type: text/html\n\n" + strings.Repeat("<b", 1<<20), "mail.html-only"},
		{"html scripts", head + "Content-Type: text/html\n\n" + strings.Repeat("<script ", 200000), ""},
		{"flowed", head + "Content-Type: text/plain; format=flowed\n\n" + strings.Repeat("a \n", 1<<20), ""},
		{"quotes", head + "Content-Type: text/plain; format=flowed\n\n" + strings.Repeat(strings.Repeat(">", 100)+" \n", 20000), ""},
		{"charset name", head + "Content-Type: text/plain; charset=" + strings.Repeat("x", 100000) + "\n\n\xff\n---\n" + d, "mail.charset-unknown"},
		{"escape sequences", "From: a\x1b[31m@b\nSubject: [PATCH] \x1b]0;title\x07x\n\n\x1b[2J\n---\n" + d, ""},
		{"empty", "", ""},
		{"only newlines", strings.Repeat("\n", 1<<20), ""},
		{"trailer lines", head + "\n" + strings.Repeat("A-by: b <c@d>\n", 200000) + "---\n" + d, ""},
		{"trailer paragraphs", head + "\n" + strings.Repeat("A-by: b <c@d>\n\n", 200000) + "---\n" + d, ""},
		{"footers", head + "\n" + strings.Repeat(strings.Repeat("_", 40)+"\n", 100000) + "mailing list\n", ""},
		{"base64 junk", head + "Content-Transfer-Encoding: base64\n\nAAAA\n" + strings.Repeat("a b\n", 300000), "mail.transfer-encoding"},
		{"equal signs", head + "Content-Transfer-Encoding: quoted-printable\n\n=41" + strings.Repeat("=", 1<<20), "mail.transfer-encoding"},
		{"equal signs and blanks", head + "Content-Transfer-Encoding: quoted-printable\n\n=41" + strings.Repeat("= ", 1<<19) + strings.Repeat(" ", 1<<19), "mail.transfer-encoding"},
		{"equal sign and a long run of blanks", head + "Content-Transfer-Encoding: quoted-printable\n\n" + strings.Repeat("="+strings.Repeat(" ", 2000), 1000), ""},
	}
	for _, tt := range tests {
		start := time.Now()
		found := tt.problem == ""
		for i, r := range Split([]byte(tt.mail)) {
			m := Parse(r, Options{})
			if i > 20 {
				break // the splitter's work is done by now
			}
			checkMessage(t, m)
			m.Body()
			for _, p := range m.Problems {
				found = found || p.ID == tt.problem
				if strings.ContainsAny(p.Message, "\x1b\x07") {
					t.Errorf("%s: control characters in %q", tt.name, p.Message)
				}
			}
		}
		if !found {
			t.Errorf("%s: no problem %s", tt.name, tt.problem)
		}
		if d := time.Since(start); testing.Verbose() {
			t.Logf("%-30s %7d KiB %v", tt.name, len(tt.mail)>>10, d.Round(time.Millisecond))
		}
	}
}

func TestProblemsHaveRules(t *testing.T) {
	ids := map[string]bool{}
	for _, r := range Rules {
		if ids[r.ID] || r.Title == "" || r.Source == "" || r.Fix == "" {
			t.Errorf("rule %q is incomplete or there twice", r.ID)
		}
		ids[r.ID] = true
	}
}

var benchMails = func() []byte {
	var b bytes.Buffer
	for i := range 1000 {
		m := plainMail()
		m.subject = fmt.Sprintf("[PATCH %d/1000] a: change %d", i+1, i+1)
		if i%10 == 0 {
			m.extra = []string{"Content-Type: text/plain; charset=utf-8", "Content-Transfer-Encoding: base64"}
			m.body = transfer("base64", m.body)
		}
		fmt.Fprintf(&b, "From x@y Mon Mar  4 10:00:01 2024\n%s", m)
	}
	return b.Bytes()
}()

// BenchmarkParse1000 reads 1,000 mails, one in ten base64. One git mailinfo
// process each takes some 3 to 5 seconds: BenchmarkGit20.
func BenchmarkParse1000(b *testing.B) {
	b.SetBytes(int64(len(benchMails)))
	b.ReportAllocs()
	for b.Loop() {
		for _, r := range Split(benchMails) {
			Parse(r, Options{})
		}
	}
}

// BenchmarkGit20 is git mailinfo, one process for each of 20 mails, to compare
// BenchmarkParse1000 with: 50 of these are as many mails.
func BenchmarkGit20(b *testing.B) {
	git, err := exec.LookPath("git")
	if err != nil {
		b.Skip("git is not installed")
	}
	dir := b.TempDir()
	raws := Split(benchMails)[:20]
	for b.Loop() {
		for _, r := range raws {
			c := exec.Command(git, "mailinfo", "msg", "patch")
			c.Dir, c.Stdin = dir, bytes.NewReader(r.Data)
			if err := c.Run(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
