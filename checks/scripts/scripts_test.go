// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchcheck/checks"
	"patchcheck/patches"
	"patchcheck/patches/mail"
)

var update = flag.Bool("update", false, "write the golden files anew")

// load reads a series from the text of a mail.
func load(t testing.TB, text string) *patches.Series {
	t.Helper()
	s, err := patches.Load(context.Background(), []string{"-"}, patches.LoadOptions{Stdin: strings.NewReader(text)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func show(fs []checks.Finding) string {
	var b strings.Builder
	for _, f := range fs {
		fmt.Fprintf(&b, "%s %s [%s] %s\n", f.ID, f.Severity, f.Where, f.Message)
		for _, e := range f.Evidence {
			fmt.Fprintf(&b, "    %s\n", e)
		}
	}
	return b.String()
}

const demoMail = `From: Ada Person <ada@example.org>
To: keeper@example.org
Subject: [PATCH] demo: add a ring
Date: Mon, 3 Nov 2025 10:00:00 +0000
Message-ID: <1@example.org>

The ring holds what teh queue cannot.

Signed-off-by: Ada Person <ada@example.org>
---
 net/demo/ring.c | 8 +++++---
 1 file changed, 5 insertions(+), 2 deletions(-)

diff --git a/net/demo/ring.c b/net/demo/ring.c
index 1111111..2222222 100644
--- a/net/demo/ring.c
+++ b/net/demo/ring.c
@@ -10,8 +10,10 @@ int ring_init(struct ring *r)
 {
 	int n;
-	if(r == 0)
+	if(r->next == 0)
+		return -EINVAL; 
+	n = SomeCall(oldName);
+	foo( n );
 	bar( n );
-	foo( n );
 	return oldName;
 }
 
@@ -40,3 +42,4 @@ void ring_free(struct ring *r)
 	free(r);
 	r = 0;
+	Signed-off-by:	nobody
 }
`

// at is the line of the input with this text.
func at(t *testing.T, in *Input, text string) int {
	t.Helper()
	for i, l := range strings.Split(string(in.Text), "\n") {
		if strings.Contains(l, text) {
			return i + 1
		}
	}
	t.Fatalf("no line with %q", text)
	return 0
}

func TestInput(t *testing.T) {
	s := load(t, demoMail)
	in := NewInput(s.Patches[0])
	for _, c := range []struct {
		text string
		line int
		op   byte
	}{
		{"+	if(r->next", 12, '+'}, {"+	n = Some", 14, '+'}, {" 	bar(", 16, ' '}, {"-	foo(", 17, '-'}, {"+	Signed-off", 44, '+'}, {"+++ b/net", 0, 0}, {"@@ -40,3", 42, '@'},
	} {
		d := in.lines[at(t, in, c.text)-in.diffLine]
		if d.line != c.line || d.op != c.op || d.file != "net/demo/ring.c" {
			t.Errorf("%q is %s:%d %q, want line %d %q", c.text, d.file, d.line, d.op, c.line, c.op)
		}
	}
	if got := in.line(in.msgLine); got != "The ring holds what teh queue cannot." {
		t.Errorf("the message begins with %q", got)
	}
}

func TestCheckpatch(t *testing.T) {
	s := load(t, demoMail)
	in := NewInput(s.Patches[0])
	var out strings.Builder
	say := func(text, level, typ, msg string) {
		fmt.Fprintf(&out, "%s:%d: %s:%s: %s\n", in.Name, at(t, in, text), level, typ, msg)
	}
	say("+	if(r->next", "ERROR", "SPACING", "space required before the open parenthesis '('")
	say("-EINVAL; ", "ERROR", "TRAILING_WHITESPACE", "trailing whitespace")
	say("-EINVAL; ", "WARNING", "TABSTOP", "Statements should start on a tabstop")
	say("+	n = Some", "CHECK", "CAMELCASE", "Avoid CamelCase: <SomeCall>")
	say("+	n = Some", "CHECK", "CAMELCASE", "Avoid CamelCase: <oldName>")
	say("+	foo(", "ERROR", "SPACING", "space prohibited after that open parenthesis '('") // moved
	say(" 	bar(", "ERROR", "SPACING", "space prohibited after that open parenthesis '('") // context
	say("+	Signed-off", "WARNING", "BAD_SIGN_OFF", "Use a single space after Signed-off-by:")
	say("+	Signed-off", "WARNING", "COMMIT_COMMENT_SYMBOL", "a rule for messages")
	say("teh queue", "WARNING", "TYPO_SPELLING", "'teh' may be misspelled - perhaps 'the'?")
	say("teh queue", "ERROR", "CODE_INDENT", "a rule for code")
	say("teh queue", "WARNING", "BAD_REPORTED_BY_LINK", "Reported-by: should be immediately followed by Link:")
	say("+	if(r->next", "WARNING", "COMPLEX_MACRO", "held back")
	say("+	n = Some", "WARNING", "BRAND_NEW_TYPE", "a type of a later checkpatch")
	fmt.Fprintf(&out, "%s: WARNING:FILE_PATH_CHANGES: added, moved or deleted file(s)\n", in.Name)
	for _, strict := range []bool{false, true} {
		fs, ok := Checkpatch([]*Input{in}, []byte(out.String()), Options{Strict: strict})
		if !ok {
			t.Error("the output was not understood")
		}
		golden(t, fmt.Sprintf("checkpatch-strict-%v", strict), show(fs))
	}
	if _, ok := Checkpatch([]*Input{in}, []byte("Can't locate Foo.pm in @INC\n"), Options{}); ok {
		t.Error("words of perl passed for checkpatch's")
	}
	fs, _ := Checkpatch([]*Input{in}, []byte(out.String()), Options{Generated: func(string) bool { return true }})
	if strings.Contains(show(fs), "spacing") {
		t.Errorf("style of a generated file is reported:\n%s", show(fs))
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

func TestPolicy(t *testing.T) {
	for _, p := range CheckpatchPolicy() {
		if (p.Drop || p.Strict) && p.Reason == "" {
			t.Errorf("%s is held back without a reason", p.Type)
		}
	}
	for _, r := range append(Rules(), RuleOf("SPACING", LevelError)) {
		if r.ID == "" || r.Title == "" || r.Source == "" || r.Fix == "" || strings.ToLower(r.ID) != r.ID {
			t.Errorf("rule %+v is not complete", r)
		}
		if got, ok := RuleByID(r.ID); !ok || got.ID != r.ID {
			t.Errorf("%s is not found", r.ID)
		}
	}
	if _, ok := RuleByID("series.missing-part"); ok {
		t.Error("somebody else's rule is found")
	}
}

const maintainersText = `List of maintainers

Descriptions of section entries and preferred order
---------------------------------------------------

	M: *Mail* patches to: FullName <address@domain>
	F: *Files* and directories wildcard patterns.

Maintainers List
----------------

DEMO CORE
M:	Kim Keeper <kim@example.org>
R:	Rae Reader <rae@example.org>
L:	demo@lists.example.org
S:	Maintained
F:	include/linux/demo*
F:	net/demo/
X:	net/demo/rdma/

DEMO OVER RDMA
M:	Ron Dma <ron@example.org>
L:	rdma@lists.example.org (moderated for non-subscribers)
F:	net/demo/rdma
F:	net/demo/ring.c

KEYED
M:	Key <key@example.org>
N:	[^a-z]demokey

THE REST
M:	Lin <lin@example.org>
L:	linux-kernel@vger.kernel.org
F:	*
F:	*/
`

func TestMaintainers(t *testing.T) {
	m := ParseMaintainers([]byte(maintainersText))
	if len(m) != 4 {
		t.Fatalf("got %d sections: %+v", len(m), m)
	}
	for file, want := range map[string]string{
		"net/demo/a.c": "DEMO CORE", "net/demo/deep/er/b.c": "DEMO CORE", "net/demo/rdma/x.c": "DEMO OVER RDMA",
		"net/demo/ring.c": "DEMO OVER RDMA,DEMO CORE", "include/linux/demo_ring.h": "DEMO CORE", "include/linux/demo/x.h": "",
		"include/linux/other.h": "", "net/demonic.c": "", "lib/x_demokey.c": "KEYED", "Makefile": "",
	} {
		var got []string
		for _, s := range m.Covering(file) {
			got = append(got, s.Title)
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%s belongs to %q, want %q", file, got, want)
		}
	}
	if n := m.Naming("net/demo/ring.c"); len(n) != 1 || n[0].Title != "DEMO OVER RDMA" || len(m.Naming("net/demo/a.c")) != 0 {
		t.Errorf("named by %v", n)
	}
}

func TestMailmap(t *testing.T) {
	mm := ParseMailmap([]byte(`# comment <no@example.org>
Ada Person <ada@example.org>
Kim Keeper <kim@example.org> <kim@old.example.org>
<solo@example.org> <solo@old.example.org>
Two A <a@example.org> Two A <shared@example.org>
Two B <b@example.org> Two B <shared@example.org>
broken line
`))
	for _, c := range [][3]string{
		{"", "KIM@old.example.org", "kim@example.org"}, {"", "ada@example.org", "ada@example.org"}, {"", "solo@old.example.org", "solo@example.org"},
		{"two b", "shared@example.org", "b@example.org"}, {"Nobody", "shared@example.org", "shared@example.org"}, {"", "x@y", "x@y"}, {"", "no@example.org", "no@example.org"},
	} {
		if got := mm.Current(c[0], c[1]); got != c[2] {
			t.Errorf("%s <%s> is now %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

const getMaintainer = `Kim Keeper <kim@example.org> (maintainer:DEMO CORE,reviewer:DEMO, AND OTHERS,commit_signer:3/4=75%)
"Rae R. Reader" <rae@example.org> (reviewer:DEMO CORE)
Once Here <once@example.org> (commit_signer:1/9=11%,authored:1/9=11%)
Odd Fix <odd@example.org> (odd fixer:DEMO (OLD), RINGS, AND MORE)
demo@lists.example.org (open list:DEMO CORE)
rdma@lists.example.org (moderated list:DEMO OVER RDMA)
linux-kernel@vger.kernel.org (open list)
`

func TestRecipients(t *testing.T) {
	want, ok := ParseMaintainerOutput([]byte(getMaintainer))
	if !ok || len(want) != 6 {
		t.Fatalf("got %v %+v", ok, want)
	}
	if w := want[1]; w.Name != "Rae R. Reader" || w.Role != "reviewer" || w.Section != "DEMO CORE" {
		t.Errorf("got %+v", w)
	}
	if w := want[2]; w.Section != "DEMO (OLD), RINGS, AND MORE" || w.Role != "maintainer" {
		t.Errorf("got %+v", w)
	}
	if w := want[0]; w.Section != "DEMO CORE" || w.Role != "maintainer" {
		t.Errorf("got %+v", w)
	}
	if _, ok := ParseMaintainerOutput([]byte("scripts/get_maintainer.pl: file '-' not found\n")); ok {
		t.Error("an error message passed for the script's output")
	}
	mm := ParseMailmap([]byte("<kim@example.org> <kim@old.example.org>\n"))
	series := func(to string) *patches.Series {
		return load(t, strings.Replace(demoMail, "To: keeper@example.org\n", to, 1))
	}
	for _, c := range []struct{ name, to, want string }{
		{"nobody", "To: else@example.org\n", "maintainer.missing warning [] not addressed: Kim Keeper, Rae R. Reader, Odd Fix; demo@lists.example.org, rdma@lists.example.org"},
		{"some", "To: kim@example.org, demo@lists.example.org\n", "maintainer.missing note [] not addressed: Rae R. Reader, Odd Fix; rdma@lists.example.org"},
		{"old address", "To: Kim <kim@old.example.org>, demo@lists.example.org,\n rae@example.org, odd@example.org, rdma@lists.example.org\n", "maintainer.stale-address note [] replaced by their owners: kim@old.example.org"},
		{"no headers", "", ""},
	} {
		fs := Recipients(series(c.to), want, mm)
		got := ""
		for _, f := range fs {
			got += fmt.Sprintf("%s %s [%s] %s\n", f.ID, f.Severity, f.Where, f.Message)
		}
		if strings.TrimSpace(got) != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestSPDX(t *testing.T) {
	held := map[string]bool{"GPL-2.0": true, "GPL-2.0-only": true, "MIT": true, "Linux-syscall-note": true}
	for _, c := range []struct{ file, text, want string }{
		{"fs/a.c", "// SPDX-License-Identifier: GPL-2.0\n", ""},
		{"fs/a.c", "/* SPDX-License-Identifier: GPL-2.0 */\n", "spdx.style"},
		{"fs/a.c", "/*\n * A file\n * SPDX-License-Identifier: GPL-2.0\n */\n", "spdx.style"},
		{"fs/a.c", "int a;\n", "spdx.missing"},
		{"fs/a.c", "// SPDX-License-Identifier:\n", "spdx.missing"},
		{"fs/a.c", "", ""},
		{"fs/a.h", "/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */\n", ""},
		{"fs/a.h", "// SPDX-License-Identifier: GPL-2.0\n", "spdx.style"},
		{"fs/a.h", "/* SPDX-License-Identifier: GPL-9 */\n", "spdx.unknown"},
		{"include/uapi/linux/a.h", "/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */\n", ""},
		{"include/uapi/linux/a.h", "/* SPDX-License-Identifier: GPL-2.0 */\n", "spdx.uapi"},
		{"scripts/x.py", "#!/usr/bin/env python3\n# SPDX-License-Identifier: MIT\n", ""},
		{"scripts/x.py", "#!/usr/bin/env python3\n\n# SPDX-License-Identifier: MIT\n", "spdx.style"},
		{"Documentation/x.rst", ".. SPDX-License-Identifier: GPL-2.0\n", ""},
		{"fs/Makefile", "# SPDX-License-Identifier: GPL-2.0\n", ""},
		{"fs/data.bin", "\x00\x01", ""},
		{"fs/notes.txt", "words\n", ""},
	} {
		var ids []string
		for _, f := range SPDX(1, c.file, []byte(c.text), func(id string) bool { return held[id] }) {
			ids = append(ids, f.ID)
		}
		if got := strings.Join(ids, ","); got != c.want {
			t.Errorf("%s %q: got %q, want %q", c.file, c.text, got, c.want)
		}
	}
	if f := LicenseFiles("GPL-2.0-or-later"); f[0] != "LICENSES/preferred/GPL-2.0" || len(LicenseFiles("../x")) != 0 {
		t.Errorf("got %q", f)
	}
	text := []byte("Valid-License-Identifier: GPL-2.0\nValid-License-Identifier: GPL-2.0-only\nSPDX-URL: x\n")
	if !HoldsLicense(text, "GPL-2.0-only") || HoldsLicense(text, "GPL-2.0-or-later") || HoldsLicense(text, "x") {
		t.Error("licenses of a file are misread")
	}
}

func TestTargets(t *testing.T) {
	if fs := Targets(load(t, demoMail)); len(fs) != 0 {
		t.Errorf("got %s", show(fs))
	}
	fs := Targets(load(t, strings.ReplaceAll(demoMail, "net/demo/ring.c", "Documentation/demo/ring.rst")))
	if len(fs) != 1 || !strings.Contains(fs[0].Message, "make htmldocs") || fs[0].Severity != checks.Note {
		t.Errorf("got %s", show(fs))
	}
}

func TestKernelDoc(t *testing.T) {
	before := map[string][]string{"net/a.c": {"Warning: net/a.c:10 function parameter 'x' not described in 'a'"}}
	after := map[string][]string{"net/a.c": {"Warning: net/a.c:10 function parameter 'x' not described in 'a'", "Warning: net/a.c:30 function parameter 'y' not described in 'b'"}}
	fs := KernelDoc(2, before, after, nil)
	if len(fs) != 1 || fs[0].ID != "kerneldoc.new" || fs[0].Where.Patch != 2 || fs[0].Where.File != "net/a.c" || fs[0].Where.Line != 30 {
		t.Errorf("got %s", show(fs))
	}
	if fs := KernelDoc(2, after, before, nil); len(fs) != 0 {
		t.Errorf("a complaint that went is reported: %s", show(fs))
	}
}

func TestBroken(t *testing.T) {
	f := Broken("scripts/checkpatch.pl", "ended with status 2", []byte("a\nb\nCan't locate X.pm\n"))
	if f.ID != "script.infra" || f.Severity != checks.Error || !strings.Contains(strings.Join(f.Evidence, "|"), "X.pm") {
		t.Errorf("got %+v", f)
	}
}

func FuzzCheckpatch(f *testing.F) {
	f.Add([]byte(demoMail), []byte("0001.patch:12: ERROR:SPACING: x\n"))
	f.Add([]byte(demoMail), []byte("ERROR:SPACING: x\n:3: WARNING:A: <b>"))
	f.Fuzz(func(t *testing.T, text, out []byte) {
		s, err := patches.Load(context.Background(), []string{"-"}, patches.LoadOptions{Stdin: bytes.NewReader(text)})
		if err != nil {
			return
		}
		var ins []*Input
		for _, p := range s.Patches {
			ins = append(ins, NewInput(p))
		}
		Checkpatch(ins, out, Options{})
		Checkpatch(ins, out, Options{Strict: true})
	})
}

func FuzzTables(f *testing.F) {
	f.Add([]byte(maintainersText), []byte(getMaintainer), "net/demo/a.c")
	f.Fuzz(func(t *testing.T, table, out []byte, file string) {
		m := ParseMaintainers(table)
		m.Covering(file)
		m.Naming(file)
		mm := ParseMailmap(table)
		rs, _ := ParseMaintainerOutput(out)
		for _, r := range rs {
			mm.Current(r.Name, r.Addr)
		}
		Recipients(&patches.Series{Patches: []*patches.Patch{{Mail: &mail.Message{To: []mail.Address{{Addr: "x@y"}}}}}}, rs, mm)
		SPDX(1, file, table, nil)
	})
}
