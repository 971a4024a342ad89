// SPDX-License-Identifier: Apache-2.0

package mail

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand"
	"mime"
	"mime/quotedprintable"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"

	"patchcheck/internal/sharedtest"
)

// gitMail is what git makes of one mail.
type gitMail struct {
	author, email, subject, date string
	log, patch                   string
	failed                       bool
}

// gitSplit runs git mailsplit over data and git mailinfo over each mail.
func gitSplit(t *testing.T, data []byte, scissors bool) []gitMail {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	run := func(stdin []byte, args ...string) ([]byte, error) {
		c := exec.Command("git", args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_DIR="+filepath.Join(dir, "none"), "LC_ALL=C.UTF-8")
		c.Stdin = bytes.NewReader(stdin)
		return c.Output()
	}
	if err := os.WriteFile(filepath.Join(dir, "mbox"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	split := []string{"mailsplit", "-b", "-o" + filepath.Join(dir, "out")}
	if IsMbox(data) {
		split = append(split, "--mboxrd")
	}
	if _, err := run(nil, append(split, filepath.Join(dir, "mbox"))...); err != nil {
		return nil
	}
	names, _ := filepath.Glob(filepath.Join(dir, "out", "*"))
	sort.Strings(names)
	var out []gitMail
	for _, n := range names {
		raw, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"mailinfo", "msg", "patch"}
		if scissors {
			args = []string{"mailinfo", "--scissors", "msg", "patch"}
		}
		info, err := run(raw, args...)
		g := gitMail{failed: err != nil}
		for _, l := range strings.Split(string(info), "\n") {
			k, v, _ := strings.Cut(l, ": ")
			switch k {
			case "Author":
				g.author = v
			case "Email":
				g.email = v
			case "Subject":
				g.subject = v
			case "Date":
				g.date = v
			}
		}
		msg, _ := os.ReadFile(filepath.Join(dir, "msg"))
		patch, _ := os.ReadFile(filepath.Join(dir, "patch"))
		g.log, g.patch = string(msg), string(patch)
		out = append(out, g)
	}
	return out
}

// sameAsGit compares every mail of data with git, except where the package
// comment says that they differ. It returns how many mails were compared.
func sameAsGit(t *testing.T, name string, data []byte) int {
	t.Helper()
	raws := Split(data)
	var ms []*Message
	scissors := false
	for _, r := range raws {
		m := Parse(r, Options{})
		ms = append(ms, m)
		scissors = scissors || m.Facts.Scissors
	}
	gs := gitSplit(t, data, scissors)
	if len(gs) != len(ms) {
		t.Errorf("%s: %d mails, git has %d", name, len(ms), len(gs))
		return 0
	}
	n := 0
	for i, m := range ms {
		g := gs[i]
		f := m.Facts
		if g.failed || g.patch == "" || f.GitCut != "" || f.MIMEWrong != "" || f.FlowedIgnored || len(m.Diff) == 0 || len(m.Attached) > 0 {
			continue
		}
		n++
		where := name
		if len(ms) > 1 {
			where = fmt.Sprintf("%s, mail %d", name, i+1)
		}
		check := func(what, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s\n got %q\ngit  %q", where, what, clip(got, 400), clip(want, 400))
			}
		}
		if g.author != "" || g.email != "" {
			check("author", m.Author.Name, g.author)
			check("email", m.Author.Addr, g.email)
		}
		check("subject", m.Title, g.subject)
		check("date", m.RawDate, strings.TrimSpace(g.date))
		noCR := func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }
		if f.Multipart != "" {
			check("message", strings.TrimRight(m.Log, "\n"), strings.TrimRight(noCR(g.log), "\n"))
			if !strings.Contains(noCR(g.patch), string(m.Diff)) {
				t.Errorf("%s: the diff is not in git's patch\n got %q\ngit  %q", where, m.Diff, g.patch)
			}
			continue
		}
		if f.CharsetWrong == "" {
			check("message", m.Log, noCR(g.log))
		}
		patch := string(m.PatchText)
		if len(f.ListFooter) > 0 {
			patch += strings.Join(f.ListFooter, "\n")
			check("patch", strings.TrimRight(patch, "\n"), strings.TrimRight(noCR(g.patch), "\n"))
			continue
		}
		if f.QuotedCRLF || f.ContentCR {
			check("patch", noCR(patch), noCR(g.patch))
			continue
		}
		// git leaves out the newline that the mail leaves out.
		if !strings.HasSuffix(g.patch, "\n") {
			g.patch += "\n"
		}
		check("patch", patch, g.patch)
	}
	return n
}

const testDiff = `diff --git a/fs/a.c b/fs/a.c
index 1111111111aa..2222222222bb 100644
--- a/fs/a.c
+++ b/fs/a.c
@@ -1,4 +1,4 @@ int f(void)
 int a;
-int b;
+int c; /* %s */

 int d;
`

// mailText is a mail under construction.
type mailText struct {
	from, subject, date string
	extra               []string
	body                string
}

func (m mailText) String() string {
	var b strings.Builder
	if m.from != "" {
		b.WriteString("From: " + m.from + "\n")
	}
	b.WriteString("To: list@example.org\nSubject: " + m.subject + "\nDate: " + m.date + "\nMessage-ID: <x@example.org>\n")
	for _, e := range m.extra {
		b.WriteString(e + "\n")
	}
	return b.String() + "\n" + m.body
}

func plainMail() mailText {
	return mailText{
		from: "Ann Dev <ann@example.org>", subject: "[PATCH v2 1/3] a: b", date: "Mon, 4 Mar 2024 10:00:01 +0000",
		body: "The message.\n\nSigned-off-by: Ann Dev <ann@example.org>\n---\n fs/a.c | 2 +-\n 1 file changed\n\n" + fmt.Sprintf(testDiff, "new") + "-- \n2.43.0\n\n",
	}
}

func TestHeadersAsGit(t *testing.T) {
	n := 0
	for _, from := range []string{
		"Ann Dev <ann@example.org>", "ann@example.org", "<ann@example.org>", "ann@example.org (Ann Dev)", `"Dev, Ann" <ann@example.org>`,
		"Dev, Ann <ann@example.org>", `"Ann \"The\" Dev" <ann@example.org>`, "Ann (comment) Dev <ann@example.org> (more)",
		"=?UTF-8?q?Cs=C3=B3k=C3=A1s=2C_Bence?= <b@example.org>", "=?utf-8?B?Q3PDs2vDoXMsIEJlbmNl?= <b@example.org>",
		"=?iso-8859-1?q?Uwe_Kleine-K=F6nig?= <uwe@example.org>", "=?UTF-8?q?Uwe?= =?UTF-8?q?_K=C3=B6nig?= <uwe@example.org>",
		"=?UTF-8?q?Uwe?=\n =?UTF-8?q?_K=C3=B6nig?=\n <uwe@example.org>", "Jos\xc3\xa9 <jose@example.org>",
		"  Ann   Dev   <ann@example.org>  ", "Ann Dev <ann at example.org>", "A <a@example.org>", "ann@example.org <ann@example.org>",
		strings.Repeat("x", 61) + " <x@example.org>", "Ann Dev", `"=?UTF-8?q?Uwe?=" <u@example.org>`, "Ann\tDev <ann@example.org>",
		"Ann Dev <ann@example.org>, Bob <bob@example.org>", "'Ann Dev' via group <group@example.org>",
		"=?gb2312?B?1cXI/Q==?= <z@example.org>", "=?iso-2022-jp?B?GyRCOzNFRBsoQg==?= <y@example.org>", "=?koi8-r?Q?=E9=D7=C1=CE?= <i@example.org>",
		"=?utf-8?q?a=5Fb?= <ab@example.org>", "=?utf-8?Q?=3Fx=3F?= <q@example.org>",
	} {
		m := plainMail()
		m.from = from
		n += sameAsGit(t, "From: "+from, []byte(m.String()))
	}
	for _, s := range []string{
		"[PATCH] a: b", "[PATCH]a: b", "a: b", "Re: a: b", "[PATCH 1/2] a: b, c and d", "[PATCH 1/2] a:\n b", "[PATCH 1/2]\n\ta: b\n   c",
		"=?UTF-8?q?[PATCH]=20a:=20=C3=BC?=", "[PATCH] =?UTF-8?q?=C3=BC?= =?UTF-8?q?x?=", "=?utf-8?b?W1BBVENIXSBhOiDDvA==?=",
		"[PATCH] =?utf-8?b?w7w=?= plain =?utf-8?b?w7w=?=", "[bug#1] [PATCH v2 1/2] x", "[PATCH] [RFC]: x", "[PATCH] re: x", "[PATCH] x [y]",
		"[PATCH] r: x", "[PATCH] read: x", ": [PATCH] : x", "[PATCH] sv: x", "[PATCH] fwd: x", "[PATCH", "[PATCH] a\xc3\xbc",
		"  [PATCH]   many    blanks ", "[PATCH] a=?b?c", "[PATCH] =?utf-8?q?only_half", "[PATCH] tab\there", "[PATCH v3\n 2/3] folded in prefix",
	} {
		m := plainMail()
		m.subject = s
		n += sameAsGit(t, "Subject: "+s, []byte(m.String()))
	}
	for _, d := range []string{"Mon, 4 Mar 2024 10:00:01 +0000", "Mon, 4 Mar 2024 10:00:01 +0000 (UTC)", "4 Mar 2024 10:00:01 GMT", " Mon,  4 Mar 2024\n 10:00:01 -0500", "nonsense", "=?utf-8?q?Mon?="} {
		m := plainMail()
		m.date = d
		n += sameAsGit(t, "Date: "+d, []byte(m.String()))
	}
	if n < 55 {
		t.Errorf("only %d mails compared", n)
	}
}

func TestBodiesAsGit(t *testing.T) {
	d := fmt.Sprintf(testDiff, "x")
	n := 0
	for i, body := range []string{
		"\n\n\nLeading empty lines.\n---\n" + d,
		"From: Bob <bob@example.org>\n\nText.\n---\n" + d,
		"From: Bob <bob@example.org>\nText without empty line.\n---\n" + d,
		"From: =?UTF-8?q?J=C3=BCrgen?= <j@example.org>\nSubject: [PATCH] other title\nDate: Tue, 5 Mar 2024 10:00:01 +0000\n\nText.\n---\n" + d,
		"Subject: long\n folded title\nFrom: Bob <bob@example.org>\n\nText.\n---\n" + d,
		"Subject: one\nSubject: two\n\nText.\n---\n" + d,
		"From:Bob <bob@example.org>\n\nText.\n---\n" + d,
		"[PATCH] title in the body\n\nText.\n---\n" + d,
		">From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\nFrom: Bob <bob@example.org>\nSubject: x\n\nText.\n---\n" + d,
		"Text.\nFrom: Bob <bob@example.org>\n---\n" + d,
		"Text.\n--- \n" + d, "Text.\n---\t\n" + d, "Text.\n----\nmore\n---\n" + d,
		"Text.\n" + d, "Text.\n\n" + d, d, "---\n" + d, "\n" + d,
		"Text.\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
		"Text.\n---\nNotes of the author.\n---\nmore\n" + d,
		"Text.\nIndex: x\n===================================================================\n--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b\n",
		"Text.\ndiff -u x y\n--- x\n+++ y\n@@ -1 +1 @@\n-a\n+b\n",
		"Text.\ndiff -urN x y\n--- x\t2024-01-01\n+++ y\t2024-01-01\n@@ -1 +1 @@\n-a\n+b\n",
		"Text.\n---\ndiff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n",
		"Text.\n---\ndiff --git a/x b/x\nold mode 100644\nnew mode 100755\n",
		"Text.\n\n-- >8 --\nKept.\n---\n" + d,
		"Subject: wrong\n\nText.\n-------- 8< --------\nSubject: right\n\nKept.\n---\n" + d,
		"Text.\n------------[ cut here ]------------\nWARNING\n---\n" + d,
		"Text with a trailing blank \nand\ttabs\t\n---\n" + d,
		"Indented\n  --- a/x\n  diff --git a/x b/x\n---\n" + d,
		"Text.\n\nCc: Bob <bob@example.org>\nTo: x\n---\n" + d,
		"Text without final newline\n---\n" + strings.TrimSuffix(d, "\n"),
		"From somewhere.\nText.\n---\n" + d,
		"From: \n\nEmpty in-body From.\n---\n" + d,
		"from: Bob <bob@example.org>\nDATE: now\n\nText.\n---\n" + d,
		" From: indented\n\nText.\n---\n" + d,
		"Text.\n---\n" + d + "-- \n2.43.0\n\n_______________________________________________\nx mailing list\nhttps://example.org/listinfo/x\n",
		"Text.\n---\n\n" + d + "\nbase-commit: 0123456789012345678901234567890123456789\n-- \n2.43.0\n",
	} {
		m := plainMail()
		m.body = body
		name := fmt.Sprintf("body %d", i)
		k := sameAsGit(t, name, []byte(m.String()))
		if k == 0 {
			t.Logf("%s: not compared", name)
		}
		n += k
		crlf := strings.ReplaceAll(m.String(), "\n", "\r\n")
		n += sameAsGit(t, name+" CRLF", []byte(crlf))
		m.extra = []string{"Content-Type: text/plain; charset=utf-8; format=flowed"}
		n += sameAsGit(t, name+" declared flowed", []byte(m.String()))
	}
	if n < 80 {
		t.Errorf("only %d mails compared", n)
	}
}

// flow makes format=flowed text (RFC 3676) of lines.
func flow(s string, delsp bool) string {
	var out strings.Builder
	for _, l := range strings.SplitAfter(s, "\n") {
		if l == "" {
			continue
		}
		if l == "-- \n" {
			out.WriteString(l)
			continue
		}
		l = strings.TrimRight(l, " \n")
		first := true
		for first || l != "" {
			w := l
			if i := strings.LastIndexByte(l[:min(len(l), 60)], ' '); len(l) > 60 && i > 0 {
				w = l[:i+1]
			}
			l = l[len(w):]
			if strings.HasPrefix(w, " ") || strings.HasPrefix(w, ">") || strings.HasPrefix(w, "From ") {
				out.WriteString(" ")
			}
			out.WriteString(w)
			if delsp && l != "" {
				out.WriteString(" ")
			}
			out.WriteString("\n")
			first = false
		}
	}
	return out.String()
}

func TestFlowedAsGit(t *testing.T) {
	body := "A paragraph that is long enough to be broken into more than one line by a mailer that sends flowed text.\n\n" +
		"Signed-off-by: Ann Dev <ann@example.org>\n---\n" + strings.Replace(fmt.Sprintf(testDiff, strings.Repeat("word ", 30)+"end"), "\n\n int d", "\n \n int d", 1) + "-- \n2.43.0\n"
	for _, delsp := range []bool{false, true} {
		m := plainMail()
		m.body = flow(body, delsp)
		m.extra = []string{"Content-Type: text/plain; charset=utf-8; format=flowed"}
		if delsp {
			m.extra[0] += "; DelSp=yes"
		}
		if sameAsGit(t, fmt.Sprintf("flowed, delsp %v", delsp), []byte(m.String())) != 1 {
			t.Error("not compared")
		}
		p := Parse(Split([]byte(m.String()))[0], Options{})
		if !strings.Contains(p.Log, "flowed text.\n\nSigned") || p.Facts.DamagedHunks != 0 || !p.Facts.Flowed {
			t.Errorf("delsp %v: log %q, diff %q", delsp, p.Log, p.Diff)
		}
	}
}

func TestEncodingsAsGit(t *testing.T) {
	charsets := []struct {
		name string
		enc  encoding.Encoding
		text string
	}{
		{"utf-8", nil, "naïve — “quotes” 漢字 кириллица"},
		{"UTF8", nil, "naïve"},
		{"us-ascii", nil, "plain"},
		{"iso-8859-1", charmap.ISO8859_1, "naïve Käse"},
		{"ISO-8859-15", charmap.ISO8859_15, "naïve 10 €"},
		{"iso-8859-2", charmap.ISO8859_2, "Zażółć gęślą jaźń"},
		{"windows-1252", charmap.Windows1252, "naïve “quotes” €"},
		{"windows-1251", charmap.Windows1251, "кириллица"},
		{"koi8-r", charmap.KOI8R, "кириллица"},
		{"gb2312", simplifiedchinese.GBK, "汉字"},
		{"gbk", simplifiedchinese.GBK, "汉字"},
		{"gb18030", simplifiedchinese.GB18030, "汉字 €"},
		{"big5", traditionalchinese.Big5, "漢字"},
		{"shift_jis", japanese.ShiftJIS, "日本語"},
		{"euc-jp", japanese.EUCJP, "日本語"},
		{"iso-2022-jp", japanese.ISO2022JP, "日本語"},
		{"euc-kr", korean.EUCKR, "한국어"},
	}
	n := 0
	for _, c := range charsets {
		for _, cte := range []string{"8bit", "quoted-printable", "base64", ""} {
			for i, shape := range []string{"single", "mixed", "attached", "signed", "nested"} {
				if i > 0 && c.name != "utf-8" && c.name != "iso-8859-1" && c.name != "iso-2022-jp" {
					continue // the shape does not depend on the charset
				}
				m := plainMail()
				text := strings.Replace(m.body, "The message.", "The message: "+c.text, 1)
				text = strings.Replace(text, "new", c.text, 1)
				if c.enc != nil {
					s, err := c.enc.NewEncoder().String(text)
					if err != nil {
						t.Fatalf("%s: %v", c.name, err)
					}
					text = s
					m.from = mime.QEncoding.Encode("utf-8", "Jörg Dev") + " <j@example.org>"
				}
				ct := "Content-Type: text/plain; charset=" + c.name
				head := ct + "\nContent-Transfer-Encoding: " + cte
				if cte == "" {
					head = ct
				}
				log, rest, _ := strings.Cut(text, "---\n")
				switch shape {
				case "single":
					m.extra = strings.Split("MIME-Version: 1.0\n"+head, "\n")
					m.body = transfer(cte, text)
				case "mixed":
					m.extra = []string{"MIME-Version: 1.0", `Content-Type: multipart/mixed; boundary="=-x"`}
					m.body = "preamble\n--=-x\n" + head + "\n\n" + transfer(cte, text) + "\n--=-x--\nepilogue\n"
				case "attached":
					m.extra = []string{"MIME-Version: 1.0", `Content-Type: multipart/mixed; boundary=bb`}
					m.body = "--bb\n" + head + "\n\n" + transfer(cte, log+"---\n") + "\n--bb\nContent-Type: text/x-patch; charset=" + c.name + "; name=\"a.patch\"\nContent-Disposition: attachment; filename=a.patch\nContent-Transfer-Encoding: base64\n\n" + transfer("base64", rest) + "\n--bb--\n"
				case "signed":
					m.extra = []string{"MIME-Version: 1.0", `Content-Type: multipart/signed; micalg="pgp-sha256"; protocol="application/pgp-signature";` + "\n\tboundary=\"sig\""}
					m.body = "--sig\n" + head + "\n\n" + transfer(cte, text) + "\n--sig\nContent-Type: application/pgp-signature; name=\"signature.asc\"\n\n-----BEGIN PGP SIGNATURE-----\n\nabcd\n-----END PGP SIGNATURE-----\n\n--sig--\n"
				case "nested":
					m.extra = []string{"MIME-Version: 1.0", `Content-Type: multipart/mixed; boundary=o`}
					m.body = "--o\nContent-Type: multipart/alternative; boundary=i\n\n\n--i\n" + head + "\n\n" + transfer(cte, text) + "\n--i--\n\n--o--\n"
				}
				name := c.name + " " + cte + " " + shape
				n += sameAsGit(t, name, []byte(m.String()))
				p := Parse(Split([]byte(m.String()))[0], Options{})
				if !strings.Contains(p.Log, c.text) || p.Facts.DamagedHunks > 0 || len(p.Diff) == 0 || len(p.Problems) > 0 {
					t.Errorf("%s: log %q, diff %q, problems %v", name, p.Log, p.Diff, p.Problems)
				}
			}
		}
	}
	t.Logf("%d mails compared with git", n)
	if n < 110 {
		t.Errorf("only %d mails compared", n)
	}
}

func transfer(cte, s string) string {
	var b bytes.Buffer
	switch cte {
	case "quoted-printable":
		w := quotedprintable.NewWriter(&b)
		w.Write([]byte(s))
		w.Close()
		return strings.ReplaceAll(b.String(), "\r\n", "\n")
	case "base64":
		e := base64.StdEncoding.EncodeToString([]byte(s))
		for len(e) > 76 {
			b.WriteString(e[:76] + "\n")
			e = e[76:]
		}
		b.WriteString(e + "\n")
		return b.String()
	}
	return s
}

// TestRandomAsGit puts together mails of lines that matter to a mail parser.
func TestRandomAsGit(t *testing.T) {
	pool := []string{
		"Text.", "", "", "---", "--- ", "From: Bob <bob@example.org>", "Subject: in body", "Date: Tue, 5 Mar 2024 10:00:01 +0000", " continuation",
		"Signed-off-by: Ann Dev <ann@example.org>", "-- >8 --", "[PATCH] in body", "diff output is wrong", "Index: of things", "--- is a rule", "> quoted ",
		"From here on", ">From quoted", "\tindented", "-- ", "2.43.0", "caf\xc3\xa9", "caf\xe9", "trailing ", "@@ -1 +1 @@", "+added", "-removed", "cc: Bob",
		"diff --git a/q b/q", "=20", "=3D", "a=", "----", "(cherry picked from commit 0123456789)",
	}
	rnd := rand.New(rand.NewSource(1))
	n := 0
	for i := range 12 {
		var box strings.Builder
		for range 8 {
			m := plainMail()
			var lines []string
			for range rnd.Intn(9) {
				lines = append(lines, pool[rnd.Intn(len(pool))])
			}
			body := strings.Join(lines, "\n") + "\n"
			if rnd.Intn(3) > 0 {
				body += "---\n stat\n\n"
			}
			body += fmt.Sprintf(testDiff, "x") + "-- \n2.43.0\n\n"
			cte := []string{"", "8bit", "quoted-printable", "base64"}[rnd.Intn(4)]
			if cte != "" {
				m.extra = append(m.extra, "Content-Transfer-Encoding: "+cte)
			}
			if rnd.Intn(2) == 0 {
				m.extra = append(m.extra, "Content-Type: text/plain; charset="+[]string{"utf-8", "iso-8859-1"}[rnd.Intn(2)])
			}
			// mboxrd quoting
			text := transfer(cte, body)
			for _, l := range strings.SplitAfter(text, "\n") {
				if strings.HasPrefix(strings.TrimLeft(l, ">"), "From ") {
					text = strings.Replace(text, l, ">"+l, 1)
				}
			}
			m.body = text
			box.WriteString("From x@y Mon Mar  4 10:00:01 2024\n" + m.String())
		}
		n += sameAsGit(t, fmt.Sprintf("random %d", i), []byte(box.String()))
		if t.Failed() {
			t.Logf("%s", box.String())
			return
		}
	}
	t.Logf("%d mails compared with git", n)
}

// TestSamplesAsGit compares the shared samples with git.
func TestSamplesAsGit(t *testing.T) {
	dir := sharedtest.Path(t, "cases", "samples")
	n := 0
	for _, pat := range []string{"*.mbox", "*.eml", "*.patch"} {
		names, _ := filepath.Glob(filepath.Join(dir, pat))
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			n += sameAsGit(t, filepath.Base(name), data)
		}
	}
	seeds, _ := filepath.Glob(filepath.Join(sharedtest.Path(t, "seeds"), "*.eml"))
	for _, name := range seeds {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n += sameAsGit(t, filepath.Base(name), data)
	}
	t.Logf("%d mails compared with git", n)
}

// TestFolderAsGit compares all mails in the folder that PATCHCHECK_MAILS names,
// for those who have a collection.
func TestFolderAsGit(t *testing.T) {
	dir := os.Getenv("PATCHCHECK_MAILS")
	if dir == "" {
		t.Skip("PATCHCHECK_MAILS names no folder of mails")
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	n := 0
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n += sameAsGit(t, filepath.Base(name), data)
	}
	t.Logf("%d mails compared with git", n)
}
