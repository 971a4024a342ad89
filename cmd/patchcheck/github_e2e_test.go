// SPDX-License-Identifier: Apache-2.0

//go:build integration

package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchcheck/internal/forge"
	"patchcheck/internal/forge/githubtest"
	"patchcheck/patches/bundled"
)

// The bundled series as a pull request, built on the real kernel and published.
func TestGitHubBuild(t *testing.T) {
	mails, err := bundled.Series(bundled.Example)
	if err != nil {
		t.Fatal(err)
	}
	var mbox []byte
	var commits []githubtest.Commit
	re := regexp.MustCompile(`(?m)^From ([0-9a-f]{40}) `)
	for i, m := range mails {
		if regexp.MustCompile(`(?m)^Subject: .*\b0/`).Match(m) {
			continue // a pull request's cover letter is its text
		}
		sha := strings.Repeat(string(rune('1'+i)), 40)
		m = re.ReplaceAll(m, []byte("From "+sha+" "))
		if !bytes.HasPrefix(m, []byte("From ")) {
			m = append([]byte("From "+sha+" Mon Sep 17 00:00:00 2001\n"), m...)
		}
		mbox = append(mbox, append(bytes.TrimRight(m, "\n"), "\n\n"...)...)
		commits = append(commits, githubtest.Commit{SHA: sha})
	}
	head := commits[len(commits)-1].SHA
	s := githubtest.New()
	defer s.Close()
	repo := s.Repo("octo", "linux")
	repo.MergeBase = strings.Repeat("c", 40)
	repo.Add(&githubtest.Pull{Number: 7, Title: "svcrdma: Post small Replies inline", Body: "Words.", Author: "ann", Head: head, Base: "main", BaseSHA: repo.MergeBase,
		Commits: commits, Mbox: mbox, Files: 3, Updated: time.Now()})
	s.Token("secret", githubtest.Account{Login: "ci[bot]", Kind: githubtest.App})
	for _, v := range forge.TokenVars() {
		t.Setenv(v, "")
	}
	t.Setenv("GITHUB_API_URL", s.URL)
	t.Setenv("GITHUB_TOKEN", "secret")
	summary := t.TempDir() + "/summary.md"
	t.Setenv("GITHUB_STEP_SUMMARY", summary)
	var out, errs bytes.Buffer
	code := Main(t.Context(), []string{"--out", t.TempDir(), "github", "pr", "octo/linux#7", "--tree", "debian:linux-source-7.3", "--build-only", "--post"}, strings.NewReader(""), &out, &errs)
	t.Logf("%s\n%s", errs.String(), out.String())
	if code != exitReady {
		t.Errorf("exit code %d", code)
	}
	cs := s.CheckRuns(repo)
	if len(cs) != 1 || cs[0].SHA != head || cs[0].Conclusion != "success" || !strings.HasPrefix(cs[0].Title, "PASS") {
		t.Errorf("check runs %+v", cs)
	}
	if b, err := os.ReadFile(summary); err != nil || !strings.Contains(string(b), "each of 2 patches with W=1, no new warnings") {
		t.Errorf("job summary %q, %v", b, err)
	}
	if strings.Contains(out.String()+errs.String(), "secret") {
		t.Error("the token shows")
	}
}
