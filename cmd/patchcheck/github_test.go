// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"patchcheck/checks"
	"patchcheck/internal/forge"
	"patchcheck/internal/forge/githubtest"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

// TestGitHubScript runs the commands that talk to GitHub against a server on
// loopback; each script has one of its own.
func TestGitHubScript(t *testing.T) {
	// Scripts are set up and run side by side.
	var mu sync.Mutex
	servers := map[string]*githubtest.Server{}
	repos := map[string]*githubtest.Repo{}
	of := func(ts *testscript.TestScript) (*githubtest.Server, *githubtest.Repo) {
		mu.Lock()
		defer mu.Unlock()
		id := ts.Getenv("FORGE")
		return servers[id], repos[id]
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/github",
		UpdateScripts:       *updateScripts,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			s := githubtest.New()
			env.Defer(s.Close)
			r := s.Repo("octo", "linux")
			r.MergeBase = strings.Repeat("c", 40)
			mbox, err := os.ReadFile(filepath.Join(env.WorkDir, "pull.mbox"))
			if err == nil {
				r.Add(&githubtest.Pull{Number: 7, Title: "net: three things", Body: "Words.", Author: "ann", Head: strings.Repeat("a", 40), HeadRepo: "ann/linux", Base: "main",
					BaseSHA: strings.Repeat("c", 40), Updated: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Files: 1, Mbox: mbox,
					Commits: []githubtest.Commit{{SHA: strings.Repeat("b", 40)}, {SHA: strings.Repeat("a", 40)}}})
			}
			s.Token("app-token-secret", githubtest.Account{Login: "ci[bot]", Kind: githubtest.App})
			s.Token("user-token-secret", githubtest.Account{Login: "ann", Kind: githubtest.User})
			s.Token("fork-token-secret", githubtest.Account{Login: "github-actions[bot]", Kind: githubtest.ReadOnly})
			mu.Lock()
			id := strconv.Itoa(len(servers))
			servers[id], repos[id] = s, r
			mu.Unlock()
			home := filepath.Join(env.WorkDir, "home")
			for k, v := range map[string]string{"FORGE": id, "GITHUB_API_URL": s.URL, "HOME": home, "XDG_CONFIG_HOME": home + "/config", "XDG_STATE_HOME": home + "/state",
				"PATCHCHECK_CACHE": home + "/cache", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GITHUB_ACTIONS": "", "GITHUB_STEP_SUMMARY": "",
				"GITHUB_TOKEN": "", "GH_TOKEN": "", "GITHUB_REPOSITORY": "", "HEAD": strings.Repeat("a", 40),
				"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org"} {
				env.Setenv(k, v)
			}
			if err := os.MkdirAll(home, 0o755); err != nil {
				return err
			}
			return recorded(filepath.Join(env.WorkDir, "runs"))
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"code": exitCode,
			// seen FILE: write what the server keeps.
			"seen": func(ts *testscript.TestScript, neg bool, args []string) {
				s, r := of(ts)
				b, err := json.MarshalIndent(map[string]any{"checks": s.CheckRuns(r), "statuses": s.Statuses(r), "comments": s.Comments(r), "writes": s.Writes()}, "", " ")
				ts.Check(err)
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o644))
			},
			// fault METHOD STATUS TIMES [RETRY-AFTER]
			"fault": func(ts *testscript.TestScript, neg bool, args []string) {
				s, _ := of(ts)
				f := githubtest.Fault{Method: args[0], Header: map[string]string{}}
				f.Status, _ = strconv.Atoi(args[1])
				f.Times, _ = strconv.Atoi(args[2])
				if len(args) > 3 {
					f.Header["Retry-After"] = args[3]
				}
				s.Fail(f)
			},
			"pull": func(ts *testscript.TestScript, neg bool, args []string) {
				_, r := of(ts)
				switch args[0] {
				case "draft":
					r.Pulls[7].Draft = true
				case "closed":
					r.Pulls[7].State = "closed"
				case "large":
					r.Pulls[7].Files = 400
				case "pushed":
					r.Pulls[7].Head = strings.Repeat("d", 40)
				case "private":
					r.Private = true
				case "branchpoint": // FILE with a commit id
					r.MergeBase = strings.TrimSpace(ts.ReadFile(args[1]))
				}
			},
		},
	})
}

// exitCode runs patchcheck; the exit code must be the first argument.
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N ARG...")
	}
	got := "0"
	if err := ts.Exec("patchcheck", args[1:]...); err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// recorded writes run folders that scripts publish and merge.
func recorded(parent string) error {
	p, err := testplans.Load("svcrdma-inline")
	if err != nil {
		return err
	}
	for i, v := range []checks.Verdict{checks.Fail, checks.Infra} {
		r, err := runfolder.Create(parent, time.Date(2026, 11, 30, 12, i, 0, 0, time.UTC), strings.ToLower(string(v)))
		if err != nil {
			return err
		}
		r.Plan, r.PlanID, r.Tool, r.Verdict, r.Reason, r.Ended = *p, "p", "test", v, "1 finding", r.Started.Add(time.Minute)
		r.Series = runfolder.Series{ID: "s", Title: "net: three things", Total: 2}
		for n, subject := range []string{"net: one", "net: two"} {
			r.Series.Patches = append(r.Series.Patches, runfolder.Patch{Index: n + 1, Subject: subject, Files: 1})
			if err := r.WriteFile(nil, "series", fmt.Sprintf("%04d.diff", n+1)); err != nil {
				return err
			}
		}
		r.Findings = []checks.Finding{{ID: "style.x", Severity: checks.Warning, Where: checks.Where{Patch: 2, File: "net/a.c", Line: 2}, Message: "not so"}}
		if err := r.Save(); err != nil {
			return err
		}
		r.Close()
	}
	return nil
}

// A night reads pull requests by label and reports on them.
func TestNightForge(t *testing.T) {
	s := githubtest.New()
	defer s.Close()
	repo := s.Repo("octo", "linux")
	sha := strings.Repeat("a", 40)
	mail := "From " + sha + " Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\nSubject: [PATCH] net: one\n\nWords.\n---\ndiff --git a/a.c b/a.c\n--- a/a.c\n+++ b/a.c\n@@ -1 +1 @@\n-a\n+b\n"
	for n, files := range map[int]int{1: 1, 2: 400} {
		repo.Add(&githubtest.Pull{Number: n, Head: sha, Base: "main", BaseSHA: sha, Labels: []string{"nightly"}, Files: files, Commits: []githubtest.Commit{{SHA: sha}}, Mbox: []byte(mail),
			Updated: time.Date(2026, 11, n, 0, 0, 0, 0, time.UTC)})
	}
	t.Setenv("GITHUB_API_URL", s.URL)
	t.Setenv("PATCHCHECK_CACHE", t.TempDir())
	for _, v := range forge.TokenVars() {
		t.Setenv(v, "")
	}
	a := &app{stderr: os.Stderr}
	if f, err := a.newNightForge(); f != nil || err != nil {
		t.Errorf("without a token: %v %v", f, err)
	}
	s.Token("secret", githubtest.Account{Login: "ci[bot]", Kind: githubtest.App})
	t.Setenv("GITHUB_TOKEN", "secret")
	f, err := a.newNightForge()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("GITHUB_TOKEN") != "" {
		t.Error("children would see the token")
	}
	prs, err := f.PullRequests(t.Context(), "octo/linux", "nightly")
	if err != nil || len(prs) != 2 || prs[0].Err != nil || len(prs[0].Series.Patches) != 1 || prs[1].Err == nil || prs[1].Series != nil {
		t.Fatalf("got %+v, %v", prs, err)
	}
	runs := t.TempDir()
	if err := recorded(runs); err != nil {
		t.Fatal(err)
	}
	dirs, _ := runfolder.List(runs)
	r, err := runfolder.Open(dirs[0])
	if err != nil {
		t.Fatal(err)
	}
	r.Tree.Spec = "nfsd-testing"
	for range 2 {
		if err := f.Report(t.Context(), prs[0], r); err != nil {
			t.Fatal(err)
		}
	}
	cs := s.CheckRuns(repo)
	if len(cs) != 1 || cs[0].Name != "patchcheck svcrdma-inline on nfsd-testing" || cs[0].SHA != sha || len(s.Comments(repo)) > 0 {
		t.Errorf("got %+v", cs)
	}
}
