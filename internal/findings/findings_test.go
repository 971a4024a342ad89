// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchcheck/checks"
	"patchcheck/patches"
)

var update = flag.Bool("update", false, "write the golden files")

const mbox = "From 0 Mon Sep 17 00:00:00 2001\nFrom: Ann Author <ann@example.org>\nSubject: [PATCH 1/2] nfsd: count\x1b[31m a\n\nText.\n\nSigned-off-by: Ann Author <ann@example.org>\n---\n" +
	"diff --git a/fs/nfsd/a.c b/fs/nfsd/a.c\nindex 1111111..2222222 100644\n--- a/fs/nfsd/a.c\n+++ b/fs/nfsd/a.c\n@@ -10,3 +10,3 @@\n \tint a;\n-\tint b;\n+\tint c;\n \tint d;\n-- \n2.47.0\n\n" +
	"From 0 Mon Sep 17 00:00:00 2001\nFrom: Ann Author <ann@example.org>\nSubject: [PATCH 2/2] nfsd: count b\n\nText.\n\nSigned-off-by: Ann Author <ann@example.org>\n---\n" +
	"diff --git a/fs/nfsd/b.c b/fs/nfsd/b.c\nindex 1111111..2222222 100644\n--- a/fs/nfsd/b.c\n+++ b/fs/nfsd/b.c\n@@ -10,3 +10,3 @@\n \tint a;\n-\tint b;\n+\tint c;\n \tint d;\n-- \n2.47.0\n\n"

var rules = []checks.Rule{
	{ID: "style.a", Severity: checks.Warning, Title: "a thing", Source: "Documentation/a.rst", Fix: "mend it"},
	{ID: "trailer.fixes-sha-short", Severity: checks.Error, Title: "short", Source: "Documentation/b.rst", Fix: "12 digits"},
	{ID: "series.cover-wanted", Severity: checks.Note, Title: "no cover", Source: "Documentation/c.rst", Fix: "write one"},
}

func report(t *testing.T, fs ...checks.Finding) *Report {
	s, err := patches.Load(context.Background(), []string{"-"}, patches.LoadOptions{Stdin: strings.NewReader(mbox)})
	if err != nil {
		t.Fatal(err)
	}
	return &Report{Tool: "v0.1", Series: s, Tree: "linux 7.3", Findings: fs, Rule: func(id string) (checks.Rule, bool) {
		for _, r := range rules {
			if r.ID == id {
				return r, true
			}
		}
		return checks.Rule{}, false
	}}
}

// hostile text comes from a mail: an escape sequence, a workflow command.
func sample(t *testing.T) *Report {
	a := rules[0].New(checks.Where{Patch: 2, File: "fs/nfsd/b.c", Line: 11, Hunk: "@@ -10,3 +10,3 @@"}, "a thing: 100%%, b")
	a.Evidence = []string{"+\tint c; \x1b]0;title\x07", "::error::made up\n::stop"}
	b := rules[1].New(checks.Where{Patch: 1}, "short id \x1b[2J")
	c := rules[2].New(checks.Where{}, "no cover letter")
	r := report(t, a, b, c)
	r.Notes = []string{"checkpatch.pl was not run"}
	r.Silenced = []checks.Finding{rules[2].New(checks.Where{Patch: 2}, "silenced one")}
	return r
}

func TestFormats(t *testing.T) {
	for _, format := range append([]string{"colour"}, Formats...) {
		for name, r := range map[string]*Report{"some": sample(t), "none": report(t)} {
			t.Run(format+"/"+name, func(t *testing.T) {
				var b bytes.Buffer
				f := format
				if f == "colour" {
					f = "text"
				}
				if err := Write(&b, f, r, format == "colour"); err != nil {
					t.Fatal(err)
				}
				golden := filepath.Join("testdata", name+"."+format)
				if *update {
					if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(b.Bytes(), want) {
					t.Errorf("got:\n%s\nwant:\n%s", b.Bytes(), want)
				}
				if format != "colour" && bytes.ContainsAny(b.Bytes(), "\x1b\x07") {
					t.Error("control characters of the mail got through")
				}
			})
		}
	}
	if err := Write(&bytes.Buffer{}, "html", report(t), false); err == nil {
		t.Error("an unknown format is taken")
	}
}

// What a mail says must not become a command of its own in a workflow's log.
func TestGitHubLines(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, "github", sample(t), false); err != nil {
		t.Fatal(err)
	}
	for _, l := range strings.Split(strings.TrimSpace(b.String()), "\n") {
		if !strings.HasPrefix(l, "::error title=trailer") && !strings.HasPrefix(l, "::warning file=fs/nfsd/b.c,line=11,title=style") && !strings.HasPrefix(l, "::notice title=series") {
			t.Errorf("a line of its own: %s", l)
		}
	}
}

func TestB4Status(t *testing.T) {
	for _, c := range []struct {
		f    []checks.Finding
		want string
	}{
		{nil, "pass"},
		{[]checks.Finding{{ID: "a", Severity: checks.Note}}, "pass"},
		{[]checks.Finding{{ID: "a", Severity: checks.Note}, {ID: "b", Severity: checks.Warning}}, "warn"},
		{[]checks.Finding{{ID: "a", Severity: checks.Warning}, {ID: "b", Severity: checks.Error}}, "fail"},
	} {
		var b bytes.Buffer
		if err := Write(&b, "b4", report(t, c.f...), false); err != nil {
			t.Fatal(err)
		}
		var got []map[string]string
		if err := json.Unmarshal(b.Bytes(), &got); err != nil || len(got) != 1 || got[0]["status"] != c.want {
			t.Errorf("%v: %v %v, want %s", c.f, got, err, c.want)
		}
	}
}

func TestOutcome(t *testing.T) {
	for _, c := range []struct {
		ids  []checks.Finding
		want Outcome
	}{
		{nil, Ready},
		{[]checks.Finding{{ID: "a.b", Severity: checks.Note}}, Ready},
		{[]checks.Finding{{ID: "a.b", Severity: checks.Warning}}, Findings},
		{[]checks.Finding{{ID: "series.missing-part", Severity: checks.Error}, {ID: "a.b", Severity: checks.Warning}}, Incomplete},
		{[]checks.Finding{{ID: "a.b", Severity: checks.Error}, {ID: "script.infra", Severity: checks.Error}}, Infra},
	} {
		if got := report(t, c.ids...).Outcome(); got != c.want {
			t.Errorf("%v: %s, want %s", c.ids, got, c.want)
		}
	}
}
