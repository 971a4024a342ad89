// SPDX-License-Identifier: Apache-2.0

package mail

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func parse1(s string) *Message { return Parse(Split([]byte(s))[0], Options{}) }

func TestFacts(t *testing.T) {
	d := fmt.Sprintf(testDiff, "x")
	body := "Text.\n\nSigned-off-by: Ann Dev <ann@example.org>\n---\n" + d + "-- \n2.43.0\n"
	crlf := strings.ReplaceAll(body, "\n", "\r\n")
	contentCR := "Text.\n---\n" + strings.ReplaceAll(strings.ReplaceAll(d, ";\n", ";\r\n"), "*/\n", "*/\r\n")
	foot := "_______________________________________________\nlinux-nfs mailing list\nhttps://lists.example.org/listinfo/linux-nfs\n"
	tests := []struct {
		name    string
		extra   []string
		body    string
		want    func(f Facts) bool
		problem string
		diff    string // d when empty
	}{
		{name: "plain", body: body, want: func(f Facts) bool { return f.TransferEncoding == "" && !f.CRLF && f.LongestLine == 40 }},
		{name: "base64", extra: []string{"Content-Transfer-Encoding: base64"}, body: transfer("base64", body), want: func(f Facts) bool { return f.TransferEncoding == "base64" && !f.QuotedCRLF }},
		{name: "base64 upper case with blanks", extra: []string{"Content-Transfer-Encoding:  BASE64 "}, body: transfer("base64", body), want: func(f Facts) bool { return f.TransferEncoding == "base64" }},
		{name: "base64 with CRLF", extra: []string{"Content-Transfer-Encoding: base64"}, body: transfer("base64", crlf), want: func(f Facts) bool { return f.QuotedCRLF && !f.CRLF }, problem: "mail.quoted-crlf"},
		{name: "quoted-printable with CRLF", extra: []string{"Content-Transfer-Encoding: quoted-printable"}, body: strings.ReplaceAll(body, "\n", "=0D\n"), want: func(f Facts) bool { return f.QuotedCRLF }, problem: "mail.quoted-crlf"},
		{name: "base64 with a footer", extra: []string{"Content-Transfer-Encoding: base64"}, body: transfer("base64", body) + foot, want: func(f Facts) bool { return true }, problem: "mail.transfer-encoding"},
		{name: "base64 cut", extra: []string{"Content-Transfer-Encoding: base64"}, body: transfer("base64", body)[:200], want: func(f Facts) bool { return f.DamagedHunks == 0 }, diff: "-"},
		{name: "base64 declared, plain body", extra: []string{"Content-Transfer-Encoding: base64"}, body: body, want: func(f Facts) bool { return f.MIMEWrong != "" }, problem: "mail.transfer-encoding"},
		{name: "base64 body, not declared", body: transfer("base64", body), want: func(f Facts) bool { return f.MIMEWrong != "" }, problem: "mail.transfer-encoding"},
		{name: "quoted-printable declared, plain body", extra: []string{"Content-Transfer-Encoding: quoted-printable"}, body: "a = b;\n" + body, want: func(f Facts) bool { return f.MIMEWrong != "" }, problem: "mail.transfer-encoding"},
		{name: "CRLF", body: crlf, want: func(f Facts) bool { return f.CRLF && !f.QuotedCRLF && !f.ContentCR }},
		{name: "CR in content", body: contentCR, want: func(f Facts) bool { return f.ContentCR && !f.CRLF }, diff: contentCR[10:]},
		{name: "mode line with CR", body: "Text.\n---\n" + strings.ReplaceAll(d, "\n", "\r\n"), want: func(f Facts) bool { return f.CRLF && !f.ContentCR }},
		{name: "multipart header, plain body", extra: []string{`Content-Type: multipart/signed; boundary="x"`}, body: body, want: func(f Facts) bool { return f.MIMEWrong != "" }, problem: "mail.mime-wrong"},
		{name: "multipart header without boundary", extra: []string{`Content-Type: multipart/mixed`}, body: body, want: func(f Facts) bool { return f.MIMEWrong != "" }, problem: "mail.mime-wrong"},
		{name: "multipart without end", extra: []string{`Content-Type: multipart/mixed; boundary=x`}, body: "--x\n\n" + body, want: func(f Facts) bool { return f.Multipart == "multipart/mixed" }, problem: "mail.mime-truncated"},
		{name: "inline PGP", body: "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n" + strings.ReplaceAll("\n"+body, "\n-", "\n- -")[1:] + "-----BEGIN PGP SIGNATURE-----\n\nabcd\n-----END PGP SIGNATURE-----\n", want: func(f Facts) bool { return f.Signed == "inline-pgp" }},
		{name: "attachment", extra: []string{`Content-Type: multipart/mixed; boundary=x`}, body: "--x\n\nText.\n--x\nContent-Type: application/octet-stream; name=\"a.diff\"\nContent-Transfer-Encoding: base64\n\n" + transfer("base64", d) + "--x--\n", want: func(f Facts) bool { return f.Attachment && f.TransferEncoding == "base64" }},
		{name: "text and HTML", extra: []string{`Content-Type: multipart/alternative; boundary=x`}, body: "--x\n\n" + body + "--x\nContent-Type: text/html\n\n<p>x</p>\n--x--\n", want: func(f Facts) bool { return f.HTML }},
		{name: "HTML only", extra: []string{`Content-Type: text/html`}, body: "<html><body><p>Text</p></body></html>\n", want: func(f Facts) bool { return f.HTML }, problem: "mail.html-only", diff: "-"},
		{name: "unknown charset", extra: []string{"Content-Type: text/plain; charset=x-nope"}, body: "\xc3\xa9\n" + body, want: func(f Facts) bool { return f.CharsetWrong != "" }, problem: "mail.charset-unknown"},
		{name: "wrong charset", extra: []string{"Content-Type: text/plain; charset=us-ascii"}, body: "\xc3\xa9\n" + body, want: func(f Facts) bool { return f.CharsetWrong != "" }, problem: "mail.charset-wrong"},
		{name: "no charset, latin1", body: "\xe9\n" + body, want: func(f Facts) bool { return f.CharsetWrong != "" }, problem: "mail.charset-missing"},
		{name: "no charset, UTF-8", body: "\xc3\xa9\n" + body, want: func(f Facts) bool { return f.CharsetWrong == "" }},
		{name: "list footer", body: body + "\n" + foot, want: func(f Facts) bool { return len(f.ListFooter) == 3 }},
		{name: "list footer behind the diff", body: strings.TrimSuffix(body, "-- \n2.43.0\n") + foot, want: func(f Facts) bool { return len(f.ListFooter) == 3 && f.DamagedHunks == 0 }},
		{name: "U+00A0", body: strings.Replace(body, " int a", "\u00a0int a", 1), want: func(f Facts) bool { return f.DamagedHunks == 1 }, diff: "-"},
		{name: "U+00A0 in the indent", body: strings.Replace(body, " int a", " \u00a0\u00a0int a", 1), want: func(f Facts) bool { return f.NBSP == 1 && f.NBSPIndent == 1 }, diff: strings.Replace(d, " int a", " \u00a0\u00a0int a", 1)},
		{name: "cut message", body: "Text.\n--- a rule\n" + body, want: func(f Facts) bool { return f.GitCut == "--- a rule" }, problem: "mail.message-cut"},
		{name: "cut by diff word", body: "The\ndiff -u output was wrong.\n\n" + body, want: func(f Facts) bool { return strings.HasPrefix(f.GitCut, "diff -u") }, problem: "mail.message-cut"},
		{name: "quoted headless diff", body: "Like\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n\n" + body, want: func(f Facts) bool { return f.GitCut == "diff --git a/x b/x" }, problem: "mail.message-cut"},
		{name: "scissors", body: "Chat.\n\n-- >8 --\n" + body, want: func(f Facts) bool { return f.Scissors }},
		{name: "in-body headers", body: "From: Bob <bob@example.org>\nDate: Tue, 5 Mar 2024 10:00:01 +0000\n\n" + body, want: func(f Facts) bool { return slices.Equal(f.InBody, []string{"From", "Date"}) }},
		{name: "damaged", body: strings.Replace(body, " int a;\n", "", 1), want: func(f Facts) bool { return f.DamagedHunks == 1 && f.DamagedLine > 5 }, diff: "-"},
		{name: "boundary of another name", extra: []string{`Content-Type: multipart/mixed; boundary=x`}, body: "--xy\n" + body, want: func(f Facts) bool { return f.MIMEWrong != "" }, problem: "mail.mime-wrong"},
		{name: "unknown charset in the header", extra: []string{"Subject: [PATCH] =?x-nope?q?=E9?="}, body: body, want: func(f Facts) bool { return f.CharsetWrong != "" }, problem: "mail.charset-unknown"},
		{name: "latin1 in the header", extra: []string{"Subject: [PATCH] \xe9"}, body: body, want: func(f Facts) bool { return f.CharsetWrong != "" && f.RawHeader8Bit }, problem: "mail.charset-missing"},
		{name: "8 bit header", extra: []string{"X-Note: caf\xc3\xa9"}, body: body, want: func(f Facts) bool { return f.RawHeader8Bit }},
		{name: "flowed declared only", extra: []string{"Content-Type: text/plain; format=flowed"}, body: body, want: func(f Facts) bool { return f.FlowedIgnored }},
		{name: "unknown transfer encoding", extra: []string{"Content-Transfer-Encoding: x-odd"}, body: body, want: func(f Facts) bool { return f.TransferEncoding == "x-odd" }, problem: "mail.transfer-encoding"},
	}
	for _, tt := range tests {
		m := plainMail()
		m.extra, m.body = tt.extra, tt.body
		p := parse1(m.String())
		if !tt.want(p.Facts) {
			t.Errorf("%s: facts %+v", tt.name, p.Facts)
		}
		var ids []string
		for _, x := range p.Problems {
			ids = append(ids, x.ID)
		}
		if tt.problem == "" && len(ids) > 0 && tt.diff != "-" || tt.problem != "" && !slices.Contains(ids, tt.problem) {
			t.Errorf("%s: problems %v", tt.name, p.Problems)
		}
		want := tt.diff
		if want == "" {
			want = d
		}
		if want != "-" && string(p.Diff) != want {
			t.Errorf("%s: diff %q\nwant %q", tt.name, p.Diff, want)
		}
		if want == d && !strings.Contains(p.Log, "igned-off-by") && !strings.Contains(p.Log, "Text") {
			t.Errorf("%s: log %q", tt.name, p.Log)
		}
	}
}

func TestBinaryDiff(t *testing.T) {
	bin := "diff --git a/x.bin b/x.bin\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..f76dd238ade08917e6712764a16a22005a50573d\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n\nliteral 0\nHcmV?d00001\n\n"
	m := plainMail()
	m.body = "Text.\n---\n" + bin + "-- \n2.43.0\n"
	if p := parse1(m.String()); string(p.Diff) != bin {
		t.Errorf("%q", p.Diff)
	}
}

func TestCharsetOfText(t *testing.T) {
	d := fmt.Sprintf(testDiff, "é")
	m := plainMail()
	text := "Text é.\n---\n" + d
	var u16 []byte
	for _, r := range text {
		u16 = append(u16, byte(r), byte(r>>8))
	}
	m.extra = []string{"Content-Type: text/plain; charset=utf-16le", "Content-Transfer-Encoding: base64"}
	m.body = transfer("base64", string(u16))
	if p := parse1(m.String()); p.Log != "Text é.\n" || string(p.Diff) != d {
		t.Errorf("UTF-16: %q %q %v", p.Log, p.Diff, p.Problems)
	}
	// The diff keeps the bytes of the file, whatever the mail declares.
	m.extra = []string{"Content-Type: text/plain; charset=iso-8859-1"}
	m.body = "Text \xe9.\n---\n" + strings.ReplaceAll(d, "é", "\xe9")
	if p := parse1(m.String()); p.Log != "Text é.\n" || !bytes.Contains(p.Diff, []byte("/* \xe9 */")) {
		t.Errorf("latin1: %q %q", p.Log, p.Diff)
	}
}

func TestAttachedMails(t *testing.T) {
	m := plainMail()
	m.subject = "[PATCH 0/2] both"
	m.extra = []string{"Content-Type: multipart/mixed; boundary=x"}
	inner := plainMail()
	m.body = "--x\n\nHere they are.\n"
	for i := range 2 {
		inner.subject = fmt.Sprintf("[PATCH %d/2] a: b", i+1)
		m.body += "--x\nContent-Type: text/x-patch; name=a.patch\nContent-Disposition: attachment\n\nFrom 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n" + inner.String()
	}
	m.body += "--x\nContent-Type: message/rfc822\n\n" + inner.String() + "--x--\n"
	p := parse1(m.String())
	if p.Kind != KindCover || len(p.Attached) != 3 || p.Attached[0].Kind != KindPatch || p.Attached[0].Commit == "" || *p.Attached[1].Subject.Index != 2 {
		t.Errorf("%s, %d attached", p.Kind, len(p.Attached))
	}
}

func TestKind(t *testing.T) {
	d := "Text.\n---\n" + fmt.Sprintf(testDiff, "x")
	pull := "The following changes since commit 0123456789012345678901234567890123456789:\n\n  x\n\nare available in the Git repository at:\n\n  https://example.org/x.git tags/y\n\nfor you to fetch\n"
	tests := []struct {
		from, subject, body string
		want                Kind
	}{
		{"", "[PATCH] a", d, KindPatch},
		{"", "[PATCH 0/3] a", "x\n", KindCover},
		{"", "[RFC 0/3] a", "x\n", KindCover},
		{"", "[PATCHSET v2] a", "x\n", KindCover},
		{"", "[PATCH 0/3] a", pull, KindCover},
		{"", "Re: [PATCH] a", "x\n", KindReply},
		{"", "Re: [PATCH] a", d, KindReply},
		{"", "Re: bug", "x\n-- >8 --\n" + d, KindPatch},
		{"", "[GIT PULL] a", pull, KindPull},
		{"", "[GIT PULL] a", "please\n", KindPull},
		{"", "[PULL REQUEST] a", "please\n", KindPull},
		{"", "nfsd changes for 6.9", pull, KindPull},
		{"", "[git pull] a", pull + d, KindPull},
		{"", "Re: [GIT PULL] a", pull, KindReply},
		{"", "a fix", d, KindPatch},
		{"", "lunch?", "x\n", KindOther},
		{"kernel test robot <lkp@example.org>", "[tree:branch 1/2] fs/a.c:1: warning", "x\n", KindPatch},
		{"kernel test robot <lkp@example.org>", "Re: [PATCH] a", "warning\n", KindRobot},
		{"kernel test robot <lkp@example.org>", "[RFC PATCH linux-next] a: can be static", d, KindPatch},
		{"syzbot <syzbot+0123@example.org>", "[syzbot] [nfs?] KASAN: x", "x\n", KindRobot},
		{"tip-bot2 for Ann <tip-bot2@example.org>", "[tip: x86/urgent] a", d, KindRobot},
		{"Greg <greg@example.org>", `Patch "a: b" has been added to the 6.6-stable tree`, d, KindRobot},
		{"Andrew <a@example.org>", "+ mm-fix-it.patch added to mm-unstable branch", d, KindRobot},
		{"Abbot Smith <abbot@example.org>", "hello", "x\n", KindOther},
	}
	for _, tt := range tests {
		m := plainMail()
		m.subject, m.body = tt.subject, tt.body
		if tt.from != "" {
			m.from = tt.from
		}
		if p := parse1(m.String()); p.Kind != tt.want {
			t.Errorf("%q from %q: %s, want %s (%s)", tt.subject, m.from, p.Kind, tt.want, p.Facts.Robot)
		}
	}
}

func TestTrailers(t *testing.T) {
	tests := []struct {
		name, message string
		want          []Trailer
	}{
		{"plain", "Text.\n\nFixes: 0123456789ab (\"a: b\")\nSigned-off-by: A <a@b>", []Trailer{{"Fixes", `0123456789ab ("a: b")`, 3, false}, {"Signed-off-by", "A <a@b>", 4, false}}},
		{"only trailers", "Signed-off-by: A <a@b>", []Trailer{{"Signed-off-by", "A <a@b>", 1, false}}},
		{"suffixes", "x\n\nAcked-by: J <j@d> (Documentation)\nCc: <stable@x> # 5.15+\n", []Trailer{{"Acked-by", "J <j@d> (Documentation)", 3, false}, {"Cc", "<stable@x> # 5.15+", 4, false}}},
		{"comma in a name", "Signed-off-by: Last, First <a@b>", []Trailer{{"Signed-off-by", "Last, First <a@b>", 1, false}}},
		{"continuation", "Link: https://example.org/\n  more\nSigned-off-by: A <a@b>", []Trailer{{"Link", "https://example.org/ more", 1, false}, {"Signed-off-by", "A <a@b>", 3, false}}},
		{"note between", "Reported-by: B <b@c>\n[ann: made it\n build]\nSigned-off-by: A <a@b>", []Trailer{{"Reported-by", "B <b@c>", 1, false}, {"Signed-off-by", "A <a@b>", 4, false}}},
		{"wrapped without indent", "Fixes: 0123456789ab (\"a:\nb\")\nSigned-off-by: A <a@b>", []Trailer{{"Fixes", `0123456789ab ("a:`, 1, false}, {"Signed-off-by", "A <a@b>", 3, false}}},
		{"empty line between", "Text.\n\nLink: https://example.org\n\nSigned-off-by: A <a@b>", []Trailer{{"Link", "https://example.org", 3, true}, {"Signed-off-by", "A <a@b>", 5, false}}},
		{"text below", "Text.\n\nSigned-off-by: A <a@b>\n\nChanged it in v2.", []Trailer{{"Signed-off-by", "A <a@b>", 3, true}}},
		{"no trailers", "Text: with a colon\nand another line\n\nhttps://example.org", nil},
		{"prose with colons", "Note: this\nis prose", nil},
		{"all lines with colons", "Text.\n\nA: b\nC: d", []Trailer{{"A", "b", 3, false}, {"C", "d", 4, false}}},
		{"empty", "", nil},
		{"cherry pick", "Text.\n\n(cherry picked from commit 0123)\nSigned-off-by: A <a@b>", []Trailer{{"Signed-off-by", "A <a@b>", 4, false}}},
	}
	for _, tt := range tests {
		if got := Trailers(tt.message); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
	for v, want := range map[string][3]string{
		"Ann Dev <a@b> # 5.15+": {"Ann Dev", "a@b", "# 5.15+"}, `"Dev, Ann" <a@b>`: {"Dev, Ann", "a@b", ""}, "a@b (x)": {"a@b", "a@b", "(x)"}, "LLM": {"LLM", "", ""}, "<a@b>": {"", "a@b", ""},
	} {
		a, note := Trailer{Value: v}.Address()
		if a.Name != want[0] || a.Addr != want[1] || note != want[2] {
			t.Errorf("%q: %+v, %q", v, a, note)
		}
	}
}

func TestReplyTrailers(t *testing.T) {
	body := "On Monday Ann wrote:\n> Reviewed-by: Quoted <q@b>\nFine with me:\n\nReviewed-by: Rev <r@b>\nTested-by: T <t@b> # arm64\nNo-trailer: x\nAcked-by: nobody\n-- \nAcked-by: In Signature <s@b>\n"
	var got []string
	for _, tr := range ReplyTrailers(body) {
		got = append(got, tr.Key+": "+tr.Value)
	}
	if want := []string{"Reviewed-by: Rev <r@b>", "Tested-by: T <t@b> # arm64"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestAddressList(t *testing.T) {
	var got []string
	for _, a := range ParseAddressList(`Ann Dev <ann@example.org>, "Last, First" <l@example.org>, Last, First <u@example.org>, =?utf-8?q?A=2C_B?= <e@example.org>, x@example.org (Ex, Y), list: a@b, c@d;, <z@example.org>,`) {
		got = append(got, a.Name+"|"+a.Addr)
	}
	want := []string{"Ann Dev|ann@example.org", "Last, First|l@example.org", "Last, First|u@example.org", "A, B|e@example.org", "Ex, Y|x@example.org", "a@b|a@b", "c@d|c@d", "z@example.org|z@example.org"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestParseDate(t *testing.T) {
	want := time.Date(2024, 3, 4, 10, 0, 1, 0, time.UTC)
	for _, s := range []string{"Mon, 4 Mar 2024 10:00:01 +0000", "Mon, 4 Mar 2024 10:00:01 +0000 (UTC)", "4 Mar 2024 10:00:01 GMT", "Mon, 04 Mar 2024 05:00:01 EST", "Mon Mar 4 10:00:01 2024 +0000",
		"Tue, 4 Mar 2024 10:00:01 +0000", "2024-03-04 10:00:01 +0000", "2024-03-04T10:00:01Z", "@1709546401 +0000", "  Mon,  4 Mar 2024 15:30:01 +0530 ", "Mon, 4 Mar 2024 11:00:01 CET"} {
		if got := ParseDate(s); !got.Equal(want) {
			t.Errorf("%q: %v", s, got)
		}
	}
	if !ParseDate("yesterday").IsZero() || !ParseDate("").IsZero() {
		t.Error("nonsense is a date")
	}
}

func TestSplit(t *testing.T) {
	m := plainMail().String()
	sep := "From mboxrd@z Thu Jan  1 00:00:00 1970\n"
	tests := []struct {
		name, data string
		n          int
		unquoted   int
	}{
		{"one mail", m, 1, 0},
		{"two", sep + m + sep + m, 2, 0},
		{"format-patch", "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n" + m + "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n" + m, 2, 0},
		{"From in the body", sep + m + "From here on\nFrom 10:20:30 on 2024\n" + sep + m, 2, 0},
		{"separator quoted in a body", sep + m + "see\nFrom ann@example.org Mon Mar  4 10:00:01 2024\nnot a header\n", 1, 0},
		{"mboxrd", sep + m + ">From here\n>>From there\n>>>From far\n> From no\n", 1, 3},
		{"CRLF", strings.ReplaceAll(sep+m+sep+m, "\n", "\r\n"), 2, 0},
		{"BOM and empty lines", "\xef\xbb\xbf\n\n" + sep + m, 1, 0},
		{"empty", "", 0, 0},
		{"leading text is one mail", "x\n" + sep + m, 1, 0},
	}
	for _, tt := range tests {
		raws := Split([]byte(tt.data))
		n := 0
		for _, r := range raws {
			n += r.Unquoted
			if r.Offset >= len(tt.data) {
				t.Errorf("%s: offset %d", tt.name, r.Offset)
			}
		}
		if len(raws) != tt.n || n != tt.unquoted {
			t.Errorf("%s: %d mails, %d unquoted", tt.name, len(raws), n)
		}
	}
	r := Split([]byte(sep + m + ">From here\n>>From there\n"))[0]
	if !bytes.Contains(r.Data, []byte("\nFrom here\n>From there\n")) {
		t.Errorf("%q", r.Data)
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain é\n\t": "plain é\n\t", "\x1b[31m": `\x1b[31m`, "a\rb": `a\x0db`, "\u202e": `\u202e`, "\u009b": `\u009b`, "\xff": `\xff`, "\u200b": `\u200b`, "\x7f": `\x7f`, "漢字": "漢字", "\U000e0041": `\U000e0041`,
		// A CI service's orders, and what only looks like them.
		"a\n ::error file=x::y": `a` + "\n " + `\x3a:error file=x::y`, "##[error]x": `\x23#[error]x`, "a::b::c": "a::b::c", "::": "::", "\n::\n\n  text": "\n::\n\n  text",
	} {
		if got := Printable(in); got != want {
			t.Errorf("Printable(%q) = %q, want %q", in, got, want)
		}
	}
	if got := PrintableLine("a\nb\tc"); got != `a\nb\tc` {
		t.Error(got)
	}
}

func TestPrintableJSON(t *testing.T) {
	in := "a\u009b\u202e\x7f\u200b é漢😀 \U000e0041 ##[error]x ::"
	doc, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	got := PrintableJSON(doc)
	var back string
	if err := json.Unmarshal(got, &back); err != nil || back != in {
		t.Errorf("%q came back from %s, %v", back, got, err)
	}
	if s := string(got); s != Printable(s) || !strings.Contains(s, "é漢😀") {
		t.Errorf("%s is not printable", got)
	}
}

func TestRawOffset(t *testing.T) {
	d := fmt.Sprintf(testDiff, "caf\xc3\xa9 = 1 "+strings.Repeat("long ", 20))
	for _, cte := range []string{"8bit", "quoted-printable", "base64"} {
		for _, crlf := range []bool{false, true} {
			m := plainMail()
			m.extra = []string{"Content-Type: text/plain; charset=utf-8", "Content-Transfer-Encoding: " + cte}
			m.body = transfer(cte, "Text \xc3\xa9.\n---\n"+d)
			data := "From mboxrd@z Thu Jan  1 00:00:00 1970\n" + m.String()
			if crlf {
				if cte != "8bit" {
					continue
				}
				data = strings.ReplaceAll(data, "\n", "\r\n")
			}
			p := parse1(data)
			i := bytes.Index(p.Diff, []byte("int b"))
			off := p.RawOffset(i)
			if off < 0 {
				t.Fatalf("%s: offset %d", cte, off)
			}
			want := strings.Index(data, "int b")
			if cte == "base64" {
				head, _ := decodeBase64([]byte(data[len(data)-len(m.body) : off]))
				if !bytes.HasSuffix(head, p.Diff[i-8:i]) {
					t.Errorf("%s: offset %d is behind %q", cte, off, head[len(head)-8:])
				}
				continue
			}
			if off != want {
				t.Errorf("%s, CRLF %v: offset %d, want %d", cte, crlf, off, want)
			}
		}
	}
}
