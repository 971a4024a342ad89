// SPDX-License-Identifier: Apache-2.0

package forge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchcheck/internal/forge/githubtest"
	"patchcheck/patches"
)

const secret = "ghs_0123456789abcdefghij"

var (
	shaHead = strings.Repeat("a", 40)
	shaOne  = strings.Repeat("b", 40)
	shaBase = strings.Repeat("c", 40)
	shaFork = strings.Repeat("d", 40)
)

const mbox = `From bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb Mon Sep 17 00:00:00 2001
From: Ann Author <ann@example.org>
Date: Mon, 30 Nov 2026 10:00:00 +0000
Subject: [PATCH 1/2] net: one

First.

Signed-off-by: Ann Author <ann@example.org>
---
 net/a.c | 1 +
 1 file changed, 1 insertion(+)

diff --git a/net/a.c b/net/a.c
index 1111111..2222222 100644
--- a/net/a.c
+++ b/net/a.c
@@ -10,3 +10,4 @@ int a(void)
 	one();
 	two();
+	three();
 	four();

From aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa Mon Sep 17 00:00:00 2001
From: Ann Author <ann@example.org>
Date: Mon, 30 Nov 2026 10:01:00 +0000
Subject: [PATCH 2/2] net: two

Second.

Signed-off-by: Ann Author <ann@example.org>
---
 net/a.c | 2 ++
 1 file changed, 2 insertions(+)

diff --git a/net/a.c b/net/a.c
index 2222222..3333333 100644
--- a/net/a.c
+++ b/net/a.c
@@ -1,3 +1,5 @@
+/* one */
+/* two */
 x
 y
 z
`

type bed struct {
	*githubtest.Server
	repo *githubtest.Repo
	pull *githubtest.Pull
	log  []string
}

func newBed(t *testing.T) *bed {
	t.Helper()
	s := githubtest.New()
	t.Cleanup(s.Close)
	b := &bed{Server: s, repo: s.Repo("octo", "linux")}
	b.repo.MergeBase = shaFork
	b.pull = b.repo.Add(&githubtest.Pull{Number: 7, Title: "net: three", Body: "Why @everyone should care.", Author: "ann", Head: shaHead, HeadRef: "topic",
		HeadRepo: "ann/linux", Base: "main", BaseSHA: shaBase, Updated: s.Clock.Now(), Labels: []string{"Nightly"}, Files: 1,
		Commits: []githubtest.Commit{{SHA: shaOne}, {SHA: shaHead}}, Mbox: []byte(mbox)})
	s.Token(secret, githubtest.Account{Login: "ci[bot]", Kind: githubtest.App})
	return b
}

func (b *bed) client(t *testing.T, change ...func(*Options)) *Client {
	t.Helper()
	o := Options{API: b.URL, Token: NewToken(secret, "GITHUB_TOKEN"), Tool: "test", Login: "ci[bot]", Now: b.Clock.Now, Sleep: b.Clock.Sleep,
		Jitter: func() float64 { return 0 }, Log: func(s string) { b.log = append(b.log, s) }}
	for _, f := range change {
		f(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func as(b *bed, login string, kind githubtest.Kind) func(*Options) {
	tok := "tok_" + login + fmt.Sprint(kind)
	b.Token(tok, githubtest.Account{Login: login, Kind: kind})
	return func(o *Options) { o.Token, o.Login = NewToken(tok, "GH_TOKEN"), "" }
}

var ctx = context.Background()

func TestNewRefuses(t *testing.T) {
	for api, want := range map[string]string{
		"github.example.org":         "is no URL",
		"http://github.example.org/": "not encrypted",
		"https://me:x@example.org/":  "plain URL",
		"ftp://example.org/":         "is no URL",
		"https://example.org/api?q":  "plain URL",
	} {
		if _, err := New(Options{API: api}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", api, err, want)
		}
	}
	c, err := New(Options{API: "https://github.example.org/api/v3"})
	if err != nil || c.gh.BaseURL.String() != "https://github.example.org/api/v3/" {
		t.Errorf("the trailing slash is missing: %v %v", c.gh.BaseURL, err)
	}
}

func TestFromEnv(t *testing.T) {
	all := map[string]string{"GITHUB_TOKEN": "a", "GH_TOKEN": "b", "GH_ENTERPRISE_TOKEN": "e"}
	tests := []struct {
		name, api string
		env       map[string]string
		wantAPI   string
		token     string
	}{
		{"github.com", "", all, DefaultAPI, "a"},
		{"second name", "", map[string]string{"GH_TOKEN": "b"}, DefaultAPI, "b"},
		{"no token", "", nil, DefaultAPI, ""},
		{"another host gets no token of github.com", "https://evil.example.org/", map[string]string{"GITHUB_TOKEN": "a", "GH_TOKEN": "b"}, "https://evil.example.org/", ""},
		{"enterprise token for another host", "https://ghe.example.org/api/v3/", all, "https://ghe.example.org/api/v3/", "e"},
		{"enterprise token not for github.com", "", map[string]string{"GH_ENTERPRISE_TOKEN": "e"}, DefaultAPI, ""},
		{"Actions on an Enterprise server", "", map[string]string{"GITHUB_API_URL": "https://ghe.example.org/api/v3", "GITHUB_TOKEN": "a"}, "https://ghe.example.org/api/v3", "a"},
		{"github.com asked for on an Enterprise runner", "https://api.github.com/", map[string]string{"GITHUB_API_URL": "https://ghe.example.org/api/v3", "GITHUB_TOKEN": "a"}, "https://api.github.com/", ""},
	}
	for _, x := range tests {
		api, tok := FromEnv(x.api, func(k string) string { return x.env[k] })
		if api != x.wantAPI || tok.text != x.token {
			t.Errorf("%s: %s %q, want %s %q", x.name, api, tok.text, x.wantAPI, x.token)
		}
	}
}

func TestTokenStaysHidden(t *testing.T) {
	tok := NewToken(secret, "GITHUB_TOKEN")
	js, _ := json.Marshal(map[string]any{"t": tok})
	for _, s := range []string{fmt.Sprint(tok), fmt.Sprintf("%v %+v %#v %s %q", tok, tok, tok, tok, tok), string(js), fmt.Sprintf("%+v", Options{Token: tok})} {
		if strings.Contains(s, secret) {
			t.Errorf("the token shows: %s", s)
		}
	}
	// A server that echoes the header must not get it into an error.
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(400)
		fmt.Fprintf(w, `{"message":"bad header %s"}`, r.Header.Get("Authorization"))
	}))
	defer srv.Close()
	c, err := New(Options{API: srv.URL, Token: tok})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.PullRequest(ctx, Repo{"o", "r"}, 1)
	if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), hidden) {
		t.Errorf("got %v", err)
	}
}

func TestParsePull(t *testing.T) {
	for in, want := range map[string]string{
		"octo/linux#7":                                 "octo/linux#7 ",
		"https://github.com/octo/linux/pull/7":         "octo/linux#7 github.com",
		"https://github.com/octo/linux/pull/7/files#x": "octo/linux#7 github.com",
		"octo/linux":                                   "error",
		"octo/linux#0":                                 "error",
		"../linux#7":                                   "error",
		"octo/linux#7 x":                               "error",
		"https://github.com/octo/linux/issues/7":       "error",
		"https://github.com/octo/../pull/7":            "error",
		"octo/a b#7":                                   "error",
	} {
		r, n, h, err := ParsePull(in)
		got := fmt.Sprintf("%s#%d %s", r, n, h)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	for _, x := range []struct {
		host, api string
		want      bool
	}{{"github.com", "", true}, {"www.github.com", DefaultAPI, true}, {"ghe.example.org", DefaultAPI, false}, {"ghe.example.org", "https://ghe.example.org/api/v3/", true},
		{"acme.ghe.com", "https://api.acme.ghe.com/", true}, {"github.com", "https://ghe.example.org/api/v3/", false}} {
		if HostFits(x.host, x.api) != x.want {
			t.Errorf("HostFits(%s, %s) is not %v", x.host, x.api, x.want)
		}
	}
}

func TestSeries(t *testing.T) {
	b := newBed(t)
	c := b.client(t)
	pr, err := c.PullRequest(ctx, Repo{"octo", "linux"}, 7)
	if err != nil {
		t.Fatal(err)
	}
	if !pr.Fork || pr.State != "open" || pr.Head != shaHead || pr.Base != "main" || pr.HeadRepo != "ann/linux" || pr.CloneURL != "https://github.com/octo/linux.git" {
		t.Errorf("got %+v", pr)
	}
	if sha, err := c.MergeBase(ctx, pr); err != nil || sha != shaFork {
		t.Errorf("merge base %s, %v", sha, err)
	}
	s, err := c.Series(ctx, pr)
	if err != nil {
		t.Fatal(err)
	}
	if s.Title != "net: three" || len(s.Patches) != 2 || s.Total != 2 || len(s.Missing) > 0 || s.Cover == nil || !strings.Contains(s.Cover.Body, "@everyone") || s.Patches[1].Commit != shaHead {
		t.Errorf("got title %q, %d patches, missing %v, cover %+v", s.Title, len(s.Patches), s.Missing, s.Cover)
	}
	for _, r := range b.Requests() {
		if r.Header.Get("Authorization") != "Bearer "+secret || r.Header.Get("X-Github-Api-Version") != "2022-11-28" {
			t.Errorf("%s %s: headers %v", r.Method, r.Path, r.Header)
		}
	}
}

func TestBaseCommit(t *testing.T) {
	one := mbox[:strings.Index(mbox, "From aaaa")]
	for name, text := range map[string]string{"cover": mbox, "one patch": strings.Replace(one, "[PATCH 1/2]", "[PATCH]", 1)} {
		b := WithCover(&PullRequest{Title: "t", Author: "ann", Body: "words\n\nbase-commit: " + shaOne + "\n  Base-Commit: " + shaOne + "\n"}, []byte(text), shaFork)
		s, err := patches.Load(ctx, []string{"-"}, patches.LoadOptions{Stdin: bytes.NewReader(b)})
		if err != nil || s.BaseCommit != shaFork {
			t.Errorf("%s: base %q, %v", name, s.BaseCommit, err)
		}
	}
}

func TestCoverSubject(t *testing.T) {
	for in, want := range map[string]string{"net: x": "net: x", "[PATCH v2 0/3] net: x": "net: x", "[RFC] [v3] net: [y] x": "net: [y] x", "Re: [PATCH] x": "x", " [open": "", "\nx\n y": "x y"} {
		if got := coverSubject(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// The words of a pull request can add no mail to its series.
func TestHostileCover(t *testing.T) {
	pr := &PullRequest{Repo: Repo{"o", "r"}, Number: 1, Author: "x\nSubject: y", Title: "t\nFrom: evil\n\nFrom 0 Mon Sep 17 00:00:00 2001 \xff é " + strings.Repeat("long ", 40),
		Body: "\n\nFrom bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb Mon Sep 17 00:00:00 2001\nFrom: E <e@x>\nSubject: [PATCH 3/2] evil\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"}
	b := newBed(t)
	b.pull.Title, b.pull.Body = pr.Title, pr.Body
	c := b.client(t)
	p, err := c.PullRequest(ctx, Repo{"octo", "linux"}, 7)
	if err != nil {
		t.Fatal(err)
	}
	p.Author = pr.Author
	s, err := c.Series(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Patches) != 2 || s.Total != 2 {
		t.Errorf("%d patches of %d", len(s.Patches), s.Total)
		for _, x := range s.Patches {
			t.Errorf("%d/%d %s", x.Index, x.Total, x.Subject)
		}
	}
}

func TestPullTroubles(t *testing.T) {
	many := make([]githubtest.Commit, 251)
	for i := range many {
		many[i].SHA = fmt.Sprintf("%040x", i)
	}
	tests := []struct {
		name   string
		change func(*bed)
		opts   []func(*Options)
		want   string
	}{
		{"too many commits", func(b *bed) { b.pull.Commits = many }, nil, "251 commits, and GitHub lists 250"},
		{"too many files", func(b *bed) { b.pull.Files = 301 }, nil, "maximum number of files (300)"},
		{"too many lines", func(b *bed) { b.pull.Lines = 20001 }, nil, "git fetch origin pull/7/head"},
		{"a merge", func(b *bed) { b.pull.Commits[0].Parents = 2 }, nil, "merge commit bbbbbbbbbbbb"},
		{"pushed meanwhile", func(b *bed) { b.pull.Commits[1].SHA = shaFork }, nil, "was pushed to while"},
		{"no commits", func(b *bed) { b.pull.Commits = nil }, nil, "holds no commits"},
		{"no such one", func(b *bed) { delete(b.repo.Pulls, 7) }, nil, "there is none, or the token of GITHUB_TOKEN may not see it"},
		{"private", func(b *bed) { b.repo.Private = true }, []func(*Options){func(o *Options) { o.Token = Token{} }}, "no token was given"},
		{"wrong token", nil, []func(*Options){func(o *Options) { o.Token = NewToken("nonsense-token", "GH_TOKEN") }}, "does not accept the token of GH_TOKEN"},
		{"an answer that is no JSON", func(b *bed) { b.Fail(githubtest.Fault{Status: 200, Body: "<html>"}) }, nil, "invalid character"},
		{"another number", func(b *bed) { b.pull.Number = 8 }, nil, "makes no sense"},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			b := newBed(t)
			if x.change != nil {
				x.change(b)
			}
			c := b.client(t, x.opts...)
			pr, err := c.PullRequest(ctx, Repo{"octo", "linux"}, 7)
			if err == nil {
				_, err = c.Mails(ctx, pr)
			}
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("got %v, want %q", err, x.want)
			}
		})
	}
}

func TestStates(t *testing.T) {
	b := newBed(t)
	c := b.client(t)
	for _, x := range []struct {
		change func()
		state  string
		draft  bool
	}{{func() { b.pull.Draft = true }, "open", true}, {func() { b.pull.State, b.pull.Draft = "closed", false }, "closed", false}, {func() { b.pull.Merged = true }, "merged", false}} {
		x.change()
		pr, err := c.PullRequest(ctx, Repo{"octo", "linux"}, 7)
		if err != nil || pr.State != x.state || pr.Draft != x.draft {
			t.Errorf("got %+v, %v", pr, err)
		}
	}
	b.pull.HeadRepo = "deleted"
	if pr, err := c.PullRequest(ctx, Repo{"octo", "linux"}, 7); err != nil || pr.HeadRepo != "" || !pr.Fork {
		t.Errorf("deleted fork: %+v, %v", pr, err)
	}
}

func TestPullRequests(t *testing.T) {
	b := newBed(t)
	for n := 100; n < 330; n++ {
		p := b.repo.Add(&githubtest.Pull{Number: n, Head: shaHead, BaseSHA: shaBase, Base: "main", Updated: b.Clock.Now().Add(time.Duration(-n) * time.Hour)})
		if n%100 == 0 {
			p.Labels = []string{"nightly"}
		}
		if n == 200 {
			p.State = "closed"
		}
	}
	c := b.client(t)
	got, err := c.PullRequests(ctx, Repo{"octo", "linux"}, "nightly")
	if err != nil {
		t.Fatal(err)
	}
	var ns []int
	for _, p := range got {
		ns = append(ns, p.Number)
	}
	if fmt.Sprint(ns) != "[300 100 7]" {
		t.Errorf("got %v", ns)
	}
	if n := len(b.Requests()); n != 3 {
		t.Errorf("%d requests for 230 pull requests in pages of 100", n)
	}
}

func TestEntityTags(t *testing.T) {
	b := newBed(t)
	dir := t.TempDir()
	with := func(o *Options) { o.CacheDir = dir }
	for i := range 3 {
		if _, err := b.client(t, with).PullRequests(ctx, Repo{"octo", "linux"}, ""); err != nil {
			t.Fatal(i, err)
		}
	}
	reqs := b.Requests()
	if reqs[0].Header.Get("If-None-Match") != "" || reqs[2].Header.Get("If-None-Match") == "" {
		t.Error("later requests must be conditional")
	}
	b.pull.Labels = nil
	got, err := b.client(t, with).PullRequests(ctx, Repo{"octo", "linux"}, "nightly")
	if err != nil || len(got) != 0 {
		t.Errorf("an old answer was used: %v %v", got, err)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, n := range names {
		txt, _ := os.ReadFile(n)
		fi, _ := os.Stat(n)
		if bytes.Contains(txt, []byte(secret)) || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, or the token is in it", n, fi.Mode())
		}
	}
	// Old answers go.
	old := filepath.Join(dir, "old.json")
	os.WriteFile(old, nil, 0o600)
	os.Chtimes(old, time.Time{}, time.Now().Add(-2*maxAge))
	b.pull.Title = "changed"
	if _, err := b.client(t, with).PullRequests(ctx, Repo{"octo", "linux"}, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("an old answer was kept")
	}
	// Another account does not see what this one saw.
	b.Token("other-token", githubtest.Account{Login: "o", Kind: githubtest.User})
	n := len(b.Requests())
	if _, err := b.client(t, with, func(o *Options) { o.Token = NewToken("other-token", "X") }).PullRequests(ctx, Repo{"octo", "linux"}, ""); err != nil {
		t.Fatal(err)
	}
	if h := b.Requests()[n].Header.Get("If-None-Match"); h != "" {
		t.Errorf("another account asks with the tag %s", h)
	}
}

func TestLimits(t *testing.T) {
	tests := []struct {
		name   string
		change func(*bed)
		slept  time.Duration // at least
		want   string        // error
		tries  int
	}{
		{"primary, soon over", func(b *bed) { b.UseUp(secret, 0, 90*time.Second) }, 91 * time.Second, "", 2},
		{"primary, long", func(b *bed) { b.UseUp(secret, 0, 30*time.Minute) }, 0, "used up until", 1},
		{"secondary with Retry-After", func(b *bed) {
			b.Fail(githubtest.Fault{Status: 403, Body: githubtest.SecondaryBody, Header: map[string]string{"Retry-After": "60"}})
		}, time.Minute, "", 2},
		{"secondary without", func(b *bed) { b.Fail(githubtest.Fault{Status: 403, Body: githubtest.SecondaryBody}) }, time.Minute, "", 2},
		{"429 with Retry-After", func(b *bed) { b.Fail(githubtest.Fault{Status: 429, Header: map[string]string{"Retry-After": "7"}}) }, 7 * time.Second, "", 2},
		{"429 with a date", func(b *bed) {
			b.Fail(githubtest.Fault{Status: 429, Header: map[string]string{"Retry-After": b.Clock.Now().Add(9 * time.Second).Format(http.TimeFormat)}})
		}, 9 * time.Second, "", 2},
		{"429 without", func(b *bed) { b.Fail(githubtest.Fault{Status: 429}) }, time.Minute, "", 2},
		{"429 asks for an hour", func(b *bed) { b.Fail(githubtest.Fault{Status: 429, Header: map[string]string{"Retry-After": "3600"}}) }, 0, "asks for fewer requests", 1},
		{"limits without end", func(b *bed) {
			b.Fail(githubtest.Fault{Status: 429, Times: 100, Header: map[string]string{"Retry-After": "1"}})
		}, 5 * time.Second, "asks for fewer requests", 5},
		{"a storm of 5xx", func(b *bed) {
			b.Fail(githubtest.Fault{Status: 502, Times: 2, Body: "<html>"})
			b.Fail(githubtest.Fault{Status: 503, Header: map[string]string{"Retry-After": "20"}})
		}, 20 * time.Second, "", 4},
		{"5xx without end", func(b *bed) { b.Fail(githubtest.Fault{Status: 500, Times: 100}) }, 3 * time.Second, "does not answer properly (5 tries)", 5},
		{"broken connections", func(b *bed) { b.Fail(githubtest.Fault{Drop: true, Times: 2}) }, time.Second, "", 3},
		{"no limit, just forbidden", func(b *bed) {
			b.Fail(githubtest.Fault{Status: 403, Body: `{"message":"Resource protected by organization SAML enforcement."}`})
		}, 0, "SAML", 1},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			b := newBed(t)
			x.change(b)
			_, err := b.client(t).PullRequest(ctx, Repo{"octo", "linux"}, 7)
			if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
				t.Errorf("got %v, want %q", err, x.want)
			}
			if got := b.Clock.Total(); got < x.slept || got > x.slept+3*time.Minute {
				t.Errorf("slept %v, want %v", got, x.slept)
			}
			if n := len(b.Requests()); n != x.tries {
				t.Errorf("%d requests, want %d", n, x.tries)
			}
			if x.slept > 0 && len(b.log) == 0 {
				t.Error("nothing was said about the wait")
			}
		})
	}
}

// The answer that takes the last request of the hour is still an answer, and
// the next request waits instead of being refused without asking.
func TestLastRequestOfTheHour(t *testing.T) {
	b := newBed(t)
	b.UseUp(secret, 1, 30*time.Second)
	c := b.client(t)
	for range 2 {
		if _, err := c.PullRequest(ctx, Repo{"octo", "linux"}, 7); err != nil {
			t.Fatal(err)
		}
	}
	if b.Clock.Total() < 30*time.Second {
		t.Errorf("slept %v", b.Clock.Total())
	}
}

func TestTimeoutAndCancel(t *testing.T) {
	b := newBed(t)
	b.Fail(githubtest.Fault{Delay: 5 * time.Second, Times: 9})
	_, err := b.client(t, func(o *Options) { o.Timeout, o.Attempts = 20*time.Millisecond, 2 }).PullRequest(ctx, Repo{"octo", "linux"}, 7)
	if err == nil || !strings.Contains(err.Error(), "no answer within 20ms") {
		t.Errorf("got %v", err)
	}
	cctx, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := b.client(t).PullRequest(cctx, Repo{"octo", "linux"}, 7); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	// Cancelled during a wait.
	b = newBed(t)
	b.Fail(githubtest.Fault{Status: 429, Header: map[string]string{"Retry-After": "60"}})
	cctx, cancel = context.WithCancel(ctx)
	_, err = b.client(t, func(o *Options) {
		o.Sleep = func(c context.Context, d time.Duration) error { cancel(); return c.Err() }
	}).PullRequest(cctx, Repo{"octo", "linux"}, 7)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestRedirects(t *testing.T) {
	b := newBed(t)
	b.Rename("octo/linux", "octo/kernel")
	c := b.client(t)
	pr, err := c.PullRequest(ctx, Repo{"octo", "linux"}, 7)
	if err != nil || pr.Repo.Name != "kernel" {
		t.Fatalf("got %+v, %v", pr, err)
	}
	// A write is redirected, too, and stays a write.
	out, err := c.Publish(ctx, publication(3))
	if err != nil || len(b.CheckRuns(b.repo)) != 1 || out.CheckRun == 0 {
		t.Errorf("got %+v, %v", out, err)
	}

	// To another host.
	var seen []*http.Request
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r)
		w.Write([]byte(`{"number":7}`))
	}))
	defer other.Close()
	for _, x := range []struct{ name, method, want string }{{"read", "GET", "makes no sense"}, {"write", "POST", "to another host"}} {
		seen = nil
		b := newBed(t)
		b.Fail(githubtest.Fault{Method: x.method, Status: 307, Header: map[string]string{"Location": other.URL + "/repos/octo/linux/pulls/7"}})
		c := b.client(t)
		var err error
		if x.method == "GET" {
			_, err = c.PullRequest(ctx, Repo{"octo", "linux"}, 7)
		} else {
			_, err = c.Publish(ctx, publication(0))
		}
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", x.name, err, x.want)
		}
		for _, r := range seen {
			if r.Header.Get("Authorization") != "" || r.Method != "GET" {
				t.Errorf("%s: %s reached another host with %v", x.name, r.Method, r.Header)
			}
		}
	}
	// In circles.
	b = newBed(t)
	b.Fail(githubtest.Fault{Times: 99, Status: 301, Header: map[string]string{"Location": b.URL + "repos/octo/linux/pulls/7"}})
	if _, err := b.client(t).PullRequest(ctx, Repo{"octo", "linux"}, 7); err == nil || !strings.Contains(err.Error(), "in circles") {
		t.Errorf("got %v", err)
	}
}
