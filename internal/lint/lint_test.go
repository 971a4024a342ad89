// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"patchcheck/checks"
	"patchcheck/internal/config"
	"patchcheck/patches"
)

func mail(subject, id, date, more string) string {
	return "From 0 Mon Sep 17 00:00:00 2001\nFrom: Ann Author <ann@example.org>\nDate: " + date + "\nMessage-ID: <" + id + ">\nSubject: " + subject + "\n" + more +
		"\nText.\n\nSigned-off-by: Ann Author <ann@example.org>\n---\nv1: rename c\n\ndiff --git a/fs/nfsd/a.c b/fs/nfsd/a.c\nindex 1111111..2222222 100644\n--- a/fs/nfsd/a.c\n+++ b/fs/nfsd/a.c\n@@ -1,3 +1,3 @@\n int a;\n-int b;\n+int c; \n int d;\n-- \n2.47.0\n\n"
}

func load(t *testing.T, name, text string) *patches.Series {
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := patches.Load(context.Background(), []string{file}, patches.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ids(fs []checks.Finding) (out []string) {
	for _, f := range fs {
		out = append(out, string(f.Severity)+" "+f.ID)
	}
	return out
}

func TestRunConfig(t *testing.T) {
	s := load(t, "a.patch", mail("[PATCH] nfsd: count a.", "a@example.org", "Mon, 2 Mar 2026 10:00:00 +0000", ""))
	yes := true
	for _, c := range []struct {
		name           string
		o              Options
		want, silenced []string
	}{
		{"nothing configured", Options{}, []string{"note subject.period", "warning diff.trailing-space"}, nil},
		{"by path", Options{Config: &config.Config{Lint: config.Lint{Silence: []config.Silence{{ID: "*", Paths: []string{"fs/nfsd/"}}}}}}, nil, []string{"note subject.period", "warning diff.trailing-space"}},
		{"severity", Options{Config: &config.Config{Lint: config.Lint{Severity: map[string]string{"subject.*": "error"}}}}, []string{"error subject.period", "warning diff.trailing-space"}, nil},
		{"strict by file", Options{Config: &config.Config{Lint: config.Lint{Strict: &yes}}}, []string{"note series.base-missing", "note subject.period", "warning diff.trailing-space"}, nil},
	} {
		c.o.Series = s
		res, err := Run(context.Background(), c.o)
		if err != nil {
			t.Fatal(err)
		}
		if got := ids(res.Findings); !slices.Equal(got, c.want) || !slices.Equal(ids(res.Silenced), c.silenced) {
			t.Errorf("%s: %v, silenced %v; want %v, %v", c.name, got, ids(res.Silenced), c.want, c.silenced)
		}
	}
}

// The version before in the same mbox tells when it was posted.
func TestPreviousVersion(t *testing.T) {
	s := load(t, "a.mbox", mail("[PATCH] nfsd: count a", "a1@example.org", "Mon, 2 Mar 2026 10:00:00 +0000", "")+
		mail("[PATCH v2] nfsd: count a", "a2@example.org", "Mon, 2 Mar 2026 14:00:00 +0000", ""))
	res, err := Run(context.Background(), Options{Series: s})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(ids(res.Findings), "note series.reposted-early") {
		t.Errorf("findings %v of v%d, problems %v", ids(res.Findings), s.Version, s.Problems)
	}
}

func TestMailless(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.patch")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for src, want := range map[string]bool{"-": false, file: false, "bundled:x": false, "main..HEAD": true, "-3": true} {
		if got := Mailless(&patches.Series{Sources: strings.Fields(src)}); got != want {
			t.Errorf("%s: %v", src, got)
		}
	}
	if Mailless(&patches.Series{}) {
		t.Error("a series of no source has no range")
	}
}
