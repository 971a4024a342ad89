// SPDX-License-Identifier: Apache-2.0

package lint_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"patchcheck/checks"
	"patchcheck/checks/lint"
	"patchcheck/internal/sharedtest"
	"patchcheck/patches"
)

var update = flag.Bool("update", false, "write the expected findings of testdata")

// TestRules runs the archives of testdata. An archive holds mails (*.eml; a
// line "MAIL k: v" in front of a body stands for a whole mail header, see
// mailOf), optional facts.json and options.json, and "want": the findings, one
// a line. The comment says what the case shows.
func TestRules(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no testdata: ", err)
	}
	for _, name := range files {
		ar, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		changed := false
		// One archive holds several cases: the folder of a file is the case.
		cases := map[string][]int{}
		var order []string
		for i, f := range ar.Files {
			c, _, ok := strings.Cut(f.Name, "/")
			if !ok {
				t.Fatalf("%s: file %s is in no case folder", name, f.Name)
			}
			if cases[c] == nil {
				order = append(order, c)
			}
			cases[c] = append(cases[c], i)
		}
		for _, c := range order {
			t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar")+"/"+c, func(t *testing.T) {
				var mails []byte
				var facts lint.Facts
				var opts lint.Options
				want, wantAt := "", -1
				for _, i := range cases[c] {
					f := ar.Files[i]
					switch base := filepath.Base(f.Name); {
					case strings.HasSuffix(base, ".eml"):
						mails = append(mails, mailOf(string(f.Data))...)
					case strings.HasSuffix(base, ".diff"): // a bare diff, with DOS line ends
						mails = append(mails, strings.ReplaceAll(string(f.Data), "\n", "\r\n")...)
					case base == "facts.json":
						if err := json.Unmarshal(f.Data, &facts); err != nil {
							t.Fatal(err)
						}
					case base == "options.json":
						if err := json.Unmarshal(f.Data, &opts); err != nil {
							t.Fatal(err)
						}
					case base == "want":
						want, wantAt = string(f.Data), i
					}
				}
				s, err := patches.Load(context.Background(), []string{"-"}, patches.LoadOptions{Stdin: strings.NewReader(string(mails)), WithTrailers: true})
				if err != nil {
					t.Fatal(err)
				}
				var lines []string
				for _, f := range lint.Check(s, facts, opts) {
					lines = append(lines, fmt.Sprintf("%s %s: %s", f.Severity, f.ID, strings.TrimPrefix(f.Where.String()+": "+f.Message, ": ")))
				}
				got := strings.Join(lines, "\n")
				if got != "" {
					got += "\n"
				}
				if *update {
					if wantAt >= 0 {
						ar.Files[wantAt].Data = []byte(got)
						changed = true
					}
					return
				}
				if got != want {
					t.Errorf("got:\n%swant:\n%s", got, want)
				}
			})
		}
		if *update && changed {
			if err := os.WriteFile(name, txtar.Format(ar), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// mailOf makes a mail of a short form, so that the cases stay readable:
//
//	[PATCH v2 1/2] nfsd: do something
//	To: someone@example.org
//
//	message
//	DIFF fs/nfsd/a.c
//
// The first line is the subject, header fields may follow. DIFF stands for a
// diffstat and a small diff of that file. A mail that begins with "From " is
// taken as it is.
func mailOf(s string) []byte {
	if strings.HasPrefix(s, "From ") {
		return []byte(s)
	}
	head, body, _ := strings.Cut(s, "\n\n")
	subject, fields, _ := strings.Cut(head, "\n")
	id := 0
	for _, r := range s {
		id = (id*31 + int(r)) % 1_000_003
	}
	var sb strings.Builder
	sb.WriteString("From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n")
	if !strings.Contains(fields, "From:") {
		sb.WriteString("From: Ann Author <ann@example.org>\n")
	}
	if !strings.Contains(fields, "Date:") {
		sb.WriteString("Date: Mon, 2 Mar 2026 10:00:00 +0000\n")
	}
	if !strings.Contains(fields, "Message-ID:") {
		fmt.Fprintf(&sb, "Message-ID: <%d@example.org>\n", id)
	}
	sb.WriteString("Subject: " + subject + "\n")
	if fields != "" {
		sb.WriteString(fields + "\n")
	}
	sb.WriteString("\n")
	for _, l := range strings.SplitAfter(body, "\n") {
		name, ok := strings.CutPrefix(l, "DIFF ")
		if !ok {
			sb.WriteString(l)
			continue
		}
		name = strings.TrimSpace(name)
		fmt.Fprintf(&sb, "---\n %s | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n\n", name)
		fmt.Fprintf(&sb, "diff --git a/%s b/%s\nindex 1111111..2222222 100644\n--- a/%s\n+++ b/%s\n@@ -10,3 +10,3 @@\n \tint a;\n-\tint b;\n+\tint c;\n \tint d;\n", name, name, name, name)
	}
	sb.WriteString("-- \n2.47.0\n\n")
	return []byte(sb.String())
}

// Every rule is made by some case; a rule that nothing can trigger is dead.
func TestEveryRuleFires(t *testing.T) {
	seen := map[string]bool{}
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, name := range files {
		ar, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range ar.Files {
			if filepath.Base(f.Name) != "want" {
				continue
			}
			for _, l := range strings.Split(string(f.Data), "\n") {
				if w := strings.Fields(l); len(w) > 1 {
					seen[strings.TrimSuffix(w[1], ":")] = true
				}
			}
		}
	}
	var dead []string
	for _, r := range lint.Rules {
		if !seen[r.ID] {
			dead = append(dead, r.ID)
		}
	}
	if len(dead) > 0 {
		t.Errorf("no case of testdata makes: %s", strings.Join(dead, " "))
	}
}

func TestRulesAreWhole(t *testing.T) {
	ids := map[string]bool{}
	for _, r := range lint.Rules {
		if ids[r.ID] {
			t.Errorf("%s is there twice", r.ID)
		}
		ids[r.ID] = true
		if r.Title == "" || r.Source == "" || r.Fix == "" || r.ID != strings.ToLower(r.ID) || !strings.Contains(r.ID, ".") {
			t.Errorf("rule %+v lacks something", r)
		}
		if !slices.Contains([]checks.Severity{checks.Error, checks.Warning, checks.Note}, r.Severity) {
			t.Errorf("%s: severity %q", r.ID, r.Severity)
		}
	}
	for _, r := range patches.Rules {
		if ids[r.ID] {
			t.Errorf("%s is also a rule of patches", r.ID)
		}
	}
}

// The first seed is clean as a mail; the second lacks six parts.
func TestSeeds(t *testing.T) {
	for _, c := range []struct {
		name string
		want []string // errors and warnings
	}{
		{"svcrdma-inline-cover-and-patch.txt", nil},
		{"xpt-mutex-v1-2of7.eml", []string{"series.missing-part"}},
	} {
		s, err := patches.Load(context.Background(), []string{sharedtest.Path(t, "seeds", c.name)}, patches.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range lint.Check(s, lint.Facts{}, lint.Options{}) {
			if f.Severity != checks.Note {
				got = append(got, f.ID)
			}
		}
		sort.Strings(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The public mail samples do what their table says of lint.
func TestSamples(t *testing.T) {
	dir := sharedtest.Path(t, "cases", "samples")
	for _, c := range []struct{ prefix, has, hasNot string }{
		{"B01", "", "series.missing-part"},
		{"B02", "series.missing-part", ""},
		{"B04", "", "trailer.stable-form trailer.address trailer.misspelt"},
		{"B08", "", "patch.damaged message.debris"},
		{"B12", "mail.mime-wrong", ""},
		{"B14", "mail.quoted-crlf", "diff.added-cr"},
		{"B16", "", "patch.no-files"},
		{"B17", "message.empty", "series.missing-part"},
		{"B18", "", "series.missing-part"},
		{"B19", "", "patch.damaged"},
		{"B22", "", "patch.damaged"},
		{"B28", "series.prerequisite", ""},
		{"B29", "", "trailer.closes-missing message.link-form"},
		{"B30", "", "trailer.address trailer.misspelt trailer.sob-missing"},
		{"B95", "", "trailer.author-sob trailer.address"},
		{"B96", "", "trailer.from-replies"},
		{"B97", "", "series.version-mixed"},
	} {
		m, _ := filepath.Glob(filepath.Join(dir, c.prefix+"-*"))
		if len(m) != 1 {
			t.Fatalf("%s: %v", c.prefix, m)
		}
		s, err := patches.Load(context.Background(), m, patches.LoadOptions{WithTrailers: true})
		if err != nil {
			t.Errorf("%s: %v", c.prefix, err)
			continue
		}
		got := map[string]bool{}
		for _, f := range lint.Check(s, lint.Facts{}, lint.Options{}) {
			got[f.ID] = true
		}
		if c.has != "" && !got[c.has] {
			t.Errorf("%s: no %s in %v", c.prefix, c.has, got)
		}
		for _, id := range strings.Fields(c.hasNot) {
			if got[id] {
				t.Errorf("%s: %s is a false alarm", c.prefix, id)
			}
		}
	}
}

func TestReferences(t *testing.T) {
	mail := mailOf("[PATCH] nfsd: fix a\n\nCommit 0123456789ab (\"nfsd: add a title that\ngoes on\") broke it, and commit 89abcdef0123 too.\n\nFixes: 0123456789ab (\"nfsd: add a title that goes on\")\nSigned-off-by: Ann Author <ann@example.org>\nDIFF fs/nfsd/a.c\n")
	s, err := patches.Load(context.Background(), []string{"-"}, patches.LoadOptions{Stdin: strings.NewReader(string(mail))})
	if err != nil {
		t.Fatal(err)
	}
	want := []lint.Reference{
		{Patch: 1, ID: "0123456789ab", Title: "nfsd: add a title that goes on", Fixes: true, Line: 4},
		{Patch: 1, ID: "0123456789ab", Title: "nfsd: add a title that goes on", Line: 1},
		{Patch: 1, ID: "89abcdef0123", Line: 2},
	}
	if got := lint.References(s); !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
	if got := lint.TouchedPaths(s); !slices.Equal(got, []string{"fs/nfsd/a.c"}) {
		t.Errorf("touched %v", got)
	}
}

// A mail made to flood its reader gets a bounded answer.
func TestFlood(t *testing.T) {
	for name, body := range map[string]string{
		"fixes":     strings.Repeat("Fixes: 0123 (\"x\")\nFixes: 01234567 (\"x\")\n", 3000),
		"co-author": strings.Repeat("Co-developed-by: A <a@example.org>\n", 5000),
		"one line":  strings.Repeat("commit 01234567 tested ", 50000),
		"tags":      strings.Repeat("Reviwed-by: A <a@example.org>\nSigned-off-by: nobody\n", 3000),
	} {
		s, err := patches.Load(context.Background(), []string{"-"}, patches.LoadOptions{Stdin: strings.NewReader(string(mailOf("[PATCH] nfsd: count\n\nText.\n\n" + body + "Signed-off-by: Ann Author <ann@example.org>\nDIFF fs/nfsd/a.c\n")))})
		if err != nil {
			t.Fatal(err)
		}
		fs := lint.Check(s, lint.Facts{}, lint.Options{Strict: true})
		size := 0
		for _, f := range fs {
			size += len(f.Message) + len(strings.Join(f.Evidence, ""))
		}
		if len(fs) > 150 || size > 100_000 {
			t.Errorf("%s: %d findings of %d bytes", name, len(fs), size)
		}
	}
}

func benchSeries(b *testing.B, n int, body string) *patches.Series {
	var mbox strings.Builder
	for i := range n {
		m := string(mailOf(fmt.Sprintf("[PATCH %d/%d] nfsd: do thing number %d\n\n%s\nSigned-off-by: Ann Author <ann@example.org>\nDIFF fs/nfsd/f%d.c\n", i+1, n, i, body, i)))
		mbox.WriteString(m)
	}
	s, err := patches.Load(context.Background(), []string{"-"}, patches.LoadOptions{Stdin: strings.NewReader(mbox.String())})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkThousandMails is Check alone, on 1,000 patches in one series.
func BenchmarkThousandMails(b *testing.B) {
	s := benchSeries(b, 1000, strings.Repeat("The server forgets the state of a client that comes back in time.\n", 8))
	start := time.Now()
	for b.Loop() {
		lint.Check(s, lint.Facts{}, lint.Options{Strict: true})
	}
	b.ReportMetric(float64(time.Since(start).Microseconds())/float64(b.N)/1000, "us/mail")
}

// BenchmarkTenMegabytes is reading and checking a diff of 10 MB.
func BenchmarkTenMegabytes(b *testing.B) {
	line := "+\tstatus = nfsd4_do_something_with(argument, &result, sizeof(result));\n"
	n := 10 << 20 / len(line)
	mail := "From 0 Mon Sep 17 00:00:00 2001\nFrom: Ann Author <ann@example.org>\nSubject: [PATCH] nfsd: add much\n\nText.\n\nSigned-off-by: Ann Author <ann@example.org>\n---\n" +
		"diff --git a/fs/nfsd/big.c b/fs/nfsd/big.c\nnew file mode 100644\nindex 0000000..1111111\n--- /dev/null\n+++ b/fs/nfsd/big.c\n" + fmt.Sprintf("@@ -0,0 +1,%d @@\n", n) + strings.Repeat(line, n) + "-- \n2.47.0\n"
	b.SetBytes(int64(len(mail)))
	for b.Loop() {
		s, err := patches.Load(context.Background(), []string{"-"}, patches.LoadOptions{Stdin: strings.NewReader(mail)})
		if err != nil || len(s.Problems) > 0 {
			b.Fatal(err, s.Problems)
		}
		lint.Check(s, lint.Facts{}, lint.Options{Strict: true})
	}
}

// FuzzCheck wants no panic, no finding without a rule, and a bounded number of
// them, whatever the mail.
func FuzzCheck(f *testing.F) {
	for _, name := range []string{"trailers", "diff", "style", "message"} {
		ar, err := txtar.ParseFile("testdata/" + name + ".txtar")
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range ar.Files {
			if strings.HasSuffix(file.Name, ".eml") {
				f.Add(mailOf(string(file.Data)))
			}
		}
	}
	known := map[string]bool{}
	for _, r := range slices.Concat(lint.Rules, patches.Rules) {
		known[r.ID] = true
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<16 {
			return
		}
		s, err := patches.Load(context.Background(), []string{"-"}, patches.LoadOptions{Stdin: strings.NewReader(string(b)), WithTrailers: true})
		if err != nil {
			return
		}
		fs := lint.Check(s, lint.Facts{}, lint.Options{Strict: true})
		if len(fs) > 100+len(b)/10 {
			t.Errorf("%d findings on %d bytes", len(fs), len(b))
		}
		for _, f := range fs {
			if !known[f.ID] {
				t.Errorf("no rule %s", f.ID)
			}
		}
	})
}
