// SPDX-License-Identifier: Apache-2.0

package forge

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"patchcheck/internal/forge/githubtest"
)

// publication has n annotations.
func publication(n int) Publication {
	p := Publication{Repo: Repo{"octo", "linux"}, SHA: shaHead, PR: 7, Name: "patchcheck", Key: "run svcrdma-inline", Conclusion: Failure,
		Title: "FAIL: 2 of 12 cells FAIL", Summary: "### FAIL\n\nbecause", Text: "details", DetailsURL: "https://ci.example.org/1",
		Started: time.Date(2026, 11, 30, 12, 0, 0, 5e8, time.UTC), Ended: time.Date(2026, 11, 30, 12, 5, 0, 0, time.UTC)}
	for i := range n {
		p.Annotations = append(p.Annotations, Annotation{Path: "net/a.c", Line: i + 1, Level: "warning", Title: "style.x", Text: fmt.Sprintf("remark %d", i), Raw: "+x"})
	}
	return p
}

// marks are the annotations of a check run as "line:text".
func marks(c githubtest.CheckRun) map[string]int {
	m := map[string]int{}
	for _, a := range c.Annotations {
		m[fmt.Sprintf("%d:%s", a.StartLine, a.Message)]++
	}
	return m
}

func wantRun(t *testing.T, b *bed, n int) githubtest.CheckRun {
	t.Helper()
	runs := b.CheckRuns(b.repo)
	if len(runs) == 0 {
		t.Fatal("no check run")
	}
	r := runs[len(runs)-1]
	m := marks(r)
	if len(m) != n || len(r.Annotations) != n {
		t.Errorf("%d annotations, %d different ones, want %d", len(r.Annotations), len(m), n)
	}
	if r.Status != "completed" || r.Conclusion != "failure" {
		t.Errorf("status %s, conclusion %q", r.Status, r.Conclusion)
	}
	return r
}

func TestCheckRun(t *testing.T) {
	for _, x := range []struct{ n, patches int }{{0, 1}, {1, 1}, {50, 1}, {51, 2}, {120, 3}} {
		b := newBed(t)
		out, err := b.client(t).Publish(ctx, publication(x.n))
		if err != nil {
			t.Fatal(x.n, err)
		}
		r := wantRun(t, b, x.n)
		if r.Updates != x.patches || out.CheckRun != r.ID || len(b.Statuses(b.repo))+len(b.Comments(b.repo)) != 0 {
			t.Errorf("%d: %d updates, want %d; %+v", x.n, r.Updates, x.patches, out)
		}
		if r.Title != "FAIL: 2 of 12 cells FAIL" || r.ExternalID != "patchcheck run svcrdma-inline" || r.DetailsURL == "" {
			t.Errorf("got %+v", r)
		}
	}
	b := newBed(t)
	if _, err := b.client(t).Publish(ctx, publication(maxAnnotations+7)); err != nil {
		t.Fatal(err)
	}
	if r := wantRun(t, b, maxAnnotations); !strings.Contains(r.Summary, "7 more annotations are not shown") {
		t.Errorf("summary %q", r.Summary)
	}
}

// Publishing again changes what is there; annotations, which the API can only
// append, neither double nor stay when they are out of date.
func TestAgain(t *testing.T) {
	b := newBed(t)
	c := b.client(t)
	for range 3 {
		if _, err := c.Publish(ctx, publication(60)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(b.CheckRuns(b.repo)); n != 1 {
		t.Fatalf("%d check runs", n)
	}
	wantRun(t, b, 60)
	out, err := c.Publish(ctx, publication(61)) // one more
	if err != nil || !out.Updated {
		t.Errorf("%+v %v", out, err)
	}
	wantRun(t, b, 61)
	if n := len(b.CheckRuns(b.repo)); n != 1 {
		t.Errorf("%d check runs", n)
	}
	if out, err = c.Publish(ctx, publication(2)); err != nil || out.Updated { // many fewer
		t.Errorf("%+v %v", out, err)
	}
	wantRun(t, b, 2)
	if n := len(b.CheckRuns(b.repo)); n != 2 {
		t.Errorf("%d check runs", n)
	}
	other := publication(0)
	other.Key = "lint"
	if _, err := c.Publish(ctx, other); err != nil || len(b.CheckRuns(b.repo)) != 3 {
		t.Errorf("another key must not take the place of this one: %v", err)
	}
}

// Another App's check run of the same name and key cannot be changed; ours
// stands beside it.
func TestAnotherApp(t *testing.T) {
	b := newBed(t)
	if _, err := b.client(t, as(b, "other[bot]", githubtest.App)).Publish(ctx, publication(1)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if out, err := b.client(t).Publish(ctx, publication(1)); err != nil || len(out.Notes) > 0 {
			t.Fatal(out, err)
		}
	}
	if n := len(b.CheckRuns(b.repo)); n != 2 {
		t.Errorf("%d check runs", n)
	}
}

// Each write may be lost on the way there, or its answer on the way back.
func TestLostAnswers(t *testing.T) {
	for _, method := range []string{"POST", "PATCH"} {
		for skip := range 3 {
			for _, f := range []githubtest.Fault{{Drop: true}, {Drop: true, After: true}, {Status: 502}, {Status: 500, After: true}, {Status: 503, After: true, Header: map[string]string{"Retry-After": "5"}},
				{Status: 429, Header: map[string]string{"Retry-After": "5"}}} {
				f.Method, f.Skip = method, skip
				t.Run(fmt.Sprintf("%s %d %+v", method, skip, f), func(t *testing.T) {
					b := newBed(t)
					b.Fail(f)
					p := publication(120)
					p.Comment = CommentAlways
					if _, err := b.client(t).Publish(ctx, p); err != nil {
						t.Fatal(err)
					}
					wantRun(t, b, 120)
					if n, m := len(b.CheckRuns(b.repo)), len(b.Comments(b.repo)); n != 1 || m != 1 {
						t.Errorf("%d check runs, %d comments", n, m)
					}
				})
			}
		}
	}
	b := newBed(t)
	b.Fail(githubtest.Fault{Method: "POST", Times: 100, Drop: true})
	if out, err := b.client(t).Publish(ctx, publication(1)); err == nil || !strings.Contains(err.Error(), "answer to a POST was lost") {
		t.Errorf("got %+v, %v", out, err)
	}
	if n := b.Writes(); n > looks {
		t.Errorf("%d writes", n)
	}
}

func TestFallback(t *testing.T) {
	tests := []struct {
		name      string
		kind      githubtest.Kind
		change    func(*bed)
		opt       func(*Options)
		mode      CommentMode
		concl     Conclusion
		state     string
		comments  int
		note, err string
	}{
		{"a user's token", githubtest.User, nil, nil, CommentAuto, Failure, "failure", 1, "You must authenticate via a GitHub App", ""},
		{"neutral is not red", githubtest.User, nil, nil, CommentNever, Neutral, "pending", 0, "no check run", ""},
		{"success", githubtest.User, nil, nil, CommentNever, Success, "success", 0, "no check run", ""},
		{"a fork's token", githubtest.ReadOnly, nil, func(o *Options) { o.Login = "github-actions[bot]" }, CommentAuto, Failure, "", 0, "", "nothing could be published"},
		{"locked", githubtest.User, func(b *bed) { b.repo.Locked = true }, nil, CommentAuto, Failure, "failure", 0, "no comment", ""},
		{"no token", githubtest.User, nil, func(o *Options) { o.Token = Token{} }, CommentAuto, Failure, "", 0, "", "no token was given"},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			b := newBed(t)
			if x.change != nil {
				x.change(b)
			}
			opts := []func(*Options){as(b, "ann", x.kind)}
			if x.opt != nil {
				opts = append(opts, x.opt)
			}
			p := publication(3)
			p.Comment, p.Conclusion = x.mode, x.concl
			p.Title = strings.Repeat("é long ", 40)
			c := b.client(t, opts...)
			out, err := c.Publish(ctx, p)
			if x.err != "" {
				if err == nil || !strings.Contains(err.Error(), x.err) {
					t.Fatalf("got %v, want %q", err, x.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			// Again: nothing is added.
			if _, err := c.Publish(ctx, p); err != nil {
				t.Fatal(err)
			}
			st := b.Statuses(b.repo)
			if len(st) != 1 || st[0].State != x.state || !utf8.ValidString(st[0].Description) {
				t.Errorf("statuses %+v", st)
			}
			if n := len(b.Comments(b.repo)); n != x.comments {
				t.Errorf("%d comments, want %d", n, x.comments)
			}
			if !strings.Contains(strings.Join(out.Notes, "\n"), x.note) {
				t.Errorf("notes %q", out.Notes)
			}
		})
	}
}

// One comment, however long the thread, and never somebody else's.
func TestComment(t *testing.T) {
	b := newBed(t)
	p := publication(0)
	p.Comment = CommentAlways
	b.Comment(b.repo, 7, "mallory", p.marker()+"\nall is well")
	for i := range 250 {
		b.Comment(b.repo, 7, "ann", fmt.Sprintf("remark %d", i))
	}
	c := b.client(t)
	for i := range 5 {
		p.Summary = fmt.Sprintf("result %d", i)
		p.Started = p.Started.Add(time.Minute)
		if _, err := c.Publish(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	var ours []githubtest.Comment
	for _, x := range b.Comments(b.repo) {
		if x.Author == "mallory" && x.Edits > 0 {
			t.Error("another's comment was changed")
		}
		if x.Author == "ci[bot]" {
			ours = append(ours, x)
		}
	}
	if len(ours) != 1 || ours[0].Edits != 4 || !strings.Contains(ours[0].Body, "result 4") || !strings.Contains(ours[0].Body, shaHead) {
		t.Fatalf("got %+v", ours)
	}
	// An older run that comes late does not write over it.
	p.Started = p.Started.Add(-time.Hour)
	p.Summary = "old"
	out, err := c.Publish(ctx, p)
	if err != nil || !strings.Contains(strings.Join(out.Notes, ""), "newer result") || b.Comments(b.repo)[251].Edits != 4 {
		t.Errorf("%+v %v", out, err)
	}
	// Another check's comment is another comment.
	p.Name = "patchcheck debug -->"
	if _, err := c.Publish(ctx, p); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish(ctx, p); err != nil {
		t.Fatal(err)
	}
	if n := len(b.Comments(b.repo)); n != 253 {
		t.Errorf("%d comments", n)
	}
}

func TestLoginUnknown(t *testing.T) {
	b := newBed(t)
	p := publication(0)
	p.Comment = CommentAlways
	out, err := b.client(t, func(o *Options) { o.Login = "" }).Publish(ctx, p)
	if err != nil || out.Comment != 0 || !strings.Contains(strings.Join(out.Notes, ""), "--login") {
		t.Errorf("%+v %v", out, err)
	}
}

// In Actions the token is usually that of github-actions[bot], but not always.
func TestLoginInActions(t *testing.T) {
	for _, account := range []string{"github-actions[bot]", "our-app[bot]"} {
		b := newBed(t)
		p := publication(0)
		p.Comment = CommentAlways
		for i := range 3 {
			p.Summary = fmt.Sprint("result ", i)
			p.Started = p.Started.Add(time.Minute)
			if _, err := b.client(t, as(b, account, githubtest.App), func(o *Options) { o.Actions = true }).Publish(ctx, p); err != nil {
				t.Fatal(err)
			}
		}
		cs := b.Comments(b.repo)
		if len(cs) != 1 || cs[0].Author != account || !strings.Contains(cs[0].Body, "result 2") {
			t.Errorf("%s: %+v", account, cs)
		}
	}
}

// Comments that come too fast meet the secondary limit, which the client waits
// for.
func TestTooFast(t *testing.T) {
	b := newBed(t)
	b.CommentGap = 10 * time.Second
	c := b.client(t)
	for i := range 2 {
		p := publication(0)
		p.Comment, p.Name = CommentAlways, fmt.Sprintf("check %d", i)
		if _, err := c.Publish(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.Comments(b.repo)) != 2 || b.Clock.Total() < time.Minute {
		t.Errorf("%d comments, slept %v", len(b.Comments(b.repo)), b.Clock.Total())
	}
}

func TestLongTexts(t *testing.T) {
	b := newBed(t)
	p := publication(0)
	p.Comment = CommentAlways
	p.Title = strings.Repeat("t", 1000)
	p.Summary = strings.Repeat("é ein Satz\n", 20000)
	p.Text = "```text\n" + strings.Repeat("evidence\n", 20000) + "```\n"
	p.Annotations = []Annotation{{Path: "a.c", Line: 1, Level: "notice", Title: strings.Repeat("x", 300), Text: strings.Repeat("y", 70000), Raw: strings.Repeat("z\n", 70000)}}
	if _, err := b.client(t).Publish(ctx, p); err != nil {
		t.Fatal(err)
	}
	r := b.CheckRuns(b.repo)[0]
	for name, s := range map[string]string{"summary": r.Summary, "text": r.Text, "comment": b.Comments(b.repo)[0].Body} {
		if !strings.Contains(s, "Shortened: this text has") || !utf8.ValidString(s) || len(s) > 65536 {
			t.Errorf("%s: %d bytes, ends %q", name, len(s), s[len(s)-120:])
		}
	}
	if strings.Count(r.Text, "```") != 2 {
		t.Error("the code block was left open")
	}
	if a := r.Annotations[0]; !strings.Contains(a.Message, "... shortened") || !strings.HasSuffix(a.Title, "...") {
		t.Errorf("annotation %q", a.Title)
	}
}

func TestPublicationChecks(t *testing.T) {
	for name, f := range map[string]func(*Publication){
		"no full commit id": func(p *Publication) { p.SHA = "HEAD" }, "is no repository": func(p *Publication) { p.Repo.Owner = "../x" },
		"is no conclusion": func(p *Publication) { p.Conclusion = "great" }, "needs a name": func(p *Publication) { p.Name = "" },
	} {
		b := newBed(t)
		p := publication(0)
		f(&p)
		if _, err := b.client(t).Publish(ctx, p); err == nil || !strings.Contains(err.Error(), name) || len(b.Requests()) > 0 {
			t.Errorf("want %q, got %v", name, err)
		}
	}
	b := newBed(t)
	p := publication(0)
	p.SHA = shaFork // not known to the repository
	if _, err := b.client(t).Publish(ctx, p); err == nil || !strings.Contains(err.Error(), "No commit found for SHA") {
		t.Errorf("got %v", err)
	}
}

func TestAppendSummary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "summary")
	if err := os.WriteFile(path, []byte("before\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := AppendSummary(path, "### ours"); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "before\n### ours\n" {
		t.Errorf("got %q", b)
	}
	if err := AppendSummary(path, strings.Repeat("line\n", 1<<20)); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(path)
	if len(b) > maxStepSummary || !strings.Contains(string(b), "_Shortened") {
		t.Errorf("%d bytes", len(b))
	}
	if err := AppendSummary(path, "more"); err == nil || !strings.Contains(err.Error(), "is full") {
		t.Errorf("got %v", err)
	}
}
