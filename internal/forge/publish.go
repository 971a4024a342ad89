// SPDX-License-Identifier: Apache-2.0

package forge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"
)

// Conclusion is what a check comes to.
type Conclusion string

// The conclusions. Neutral is for results that say nothing about the patches:
// it neither blocks nor recommends.
const (
	Success Conclusion = "success"
	Failure Conclusion = "failure"
	Neutral Conclusion = "neutral"
)

// CommentMode says when the pull request gets a comment.
type CommentMode string

// The modes. CommentAuto comments only where no check run could be written,
// which has room for the report, and keeps a comment current that is there
// already.
const (
	CommentAuto   CommentMode = "auto"
	CommentNever  CommentMode = "never"
	CommentAlways CommentMode = "always"
)

// Publication is a result for one commit. Its texts are markdown in which
// strangers' words are already harmless (Text, FromRun, FromLint).
type Publication struct {
	Repo Repo
	SHA  string // commit that was tested
	PR   int    // for the comment; 0 for none
	Name string // of the check run and the status: "patchcheck"
	// Key says what was done ("run svcrdma-inline", "lint"): a later
	// publication with the same name, commit and key takes the place of this one.
	Key         string
	Conclusion  Conclusion
	Title       string // one line: verdict and reason
	Summary     string // verdict, table
	Text        string // findings and details
	Annotations []Annotation
	DetailsURL  string
	Started     time.Time
	Ended       time.Time
	Comment     CommentMode // "" means CommentAuto
}

// Annotation is a remark at lines of a file in the commit.
type Annotation struct {
	Path  string `json:"path"`
	Line  int    `json:"line"`
	Level string `json:"level"` // failure, warning or notice
	Title string `json:"title"`
	Text  string `json:"text"` // plain text
	Raw   string `json:"raw"`  // evidence, plain text
}

// Published says where a publication went.
type Published struct {
	CheckRun   int64  `json:"check_run,omitempty"`
	CheckURL   string `json:"check_url,omitempty"`
	Updated    bool   `json:"updated,omitempty"` // the check run was there already
	Status     string `json:"status,omitempty"`  // state of the commit status, "" for none
	Comment    int64  `json:"comment,omitempty"`
	CommentURL string `json:"comment_url,omitempty"`
	// Notes say what could not be done, and what was done instead.
	Notes []string `json:"notes,omitempty"`
}

// notAllowed is a write that the token may not make.
type notAllowed struct{ err error }

func (e *notAllowed) Error() string { return e.err.Error() }
func (e *notAllowed) Unwrap() error { return e.err }

// looks bounds how often a write with a lost answer is looked after.
const looks = 4

// Publish writes the result: as a check run where the token may, else as a
// commit status, and as a comment as p.Comment says. It can be called again
// with the same or a newer result: what is there is changed in place. The
// error is nil when at least one place took the whole result.
func (c *Client) Publish(ctx context.Context, p Publication) (Published, error) {
	var out Published
	if err := p.check(); err != nil {
		return out, err
	}
	err := c.checkRun(ctx, &p, &out)
	var na *notAllowed
	switch {
	case err == nil:
	case errors.As(err, &na):
		out.Notes = append(out.Notes, fmt.Sprintf("no check run: %v; only tokens of GitHub Apps, and those of Actions with \"checks: write\", can write them", err))
		if serr := c.status(ctx, &p, &out); serr != nil {
			if !errors.As(serr, &na) {
				return out, serr
			}
			out.Notes = append(out.Notes, fmt.Sprintf("no commit status: %v", serr))
		}
	default:
		return out, err
	}
	if cerr := c.comment(ctx, &p, &out); cerr != nil {
		if !errors.As(cerr, &na) {
			return out, cerr
		}
		out.Notes = append(out.Notes, fmt.Sprintf("no comment: %v", cerr))
	}
	if out.CheckRun == 0 && out.Status == "" && out.Comment == 0 {
		return out, fmt.Errorf("nothing could be published at %s:\n  %s", p.Repo, strings.Join(out.Notes, "\n  "))
	}
	return out, nil
}

func (p *Publication) check() error {
	switch {
	case !goodName(p.Repo.Owner) || !goodName(p.Repo.Name):
		return fmt.Errorf("%q is no repository", p.Repo)
	case !GoodSHA(p.SHA):
		return fmt.Errorf("%q is no full commit id (40 hexadecimal digits)", p.SHA)
	case p.Name == "" || len(p.Name) > 100:
		return errors.New("a check needs a name of at most 100 bytes")
	case p.Conclusion != Success && p.Conclusion != Failure && p.Conclusion != Neutral:
		return fmt.Errorf("%q is no conclusion", p.Conclusion)
	}
	if p.Comment == "" {
		p.Comment = CommentAuto
	}
	return nil
}

// externalID marks our check runs. It is the same for every run of the same
// check on a commit.
func (p *Publication) externalID() string { return clipLine("patchcheck "+p.Key, 200) }

// forbidden turns an answer into notAllowed when the token lacks the right.
// Without write access GitHub says 404 rather than that there is something.
func (c *Client) forbidden(what string, err error) error {
	code, _ := status(err)
	e := c.explain(what, err)
	if code == http.StatusForbidden || code == http.StatusNotFound || code == http.StatusUnauthorized && !c.o.Token.Set() {
		return &notAllowed{e}
	}
	return e
}

// lost waits as a LostAnswer asks, and reports whether err was one.
func (c *Client) lost(ctx context.Context, err error, n int) (bool, error) {
	var la *LostAnswer
	if !errors.As(err, &la) {
		return false, nil
	}
	c.o.Log(fmt.Sprintf("%v; looking what became of it", la))
	return true, c.o.Sleep(ctx, max(la.Wait, time.Second<<n))
}

// checkRun writes the check run. GitHub appends the annotations of each
// request to those that are there, so a run that is there is changed only when
// none of its annotations is out of date; otherwise a new one of the same name
// takes its place, which is how GitHub shows a repetition.
func (c *Client) checkRun(ctx context.Context, p *Publication, out *Published) error {
	what := fmt.Sprintf("cannot write the check run %q at %s", p.Name, p.Repo)
	var id int64
	var url string
	var there []Annotation
	want := p.fit()
	var foreign int64 // a run of another App with our name and key
again:
	for n := 0; id == 0; n++ {
		old, err := c.findCheck(ctx, p, foreign)
		if err != nil {
			return c.forbidden(what, err)
		}
		if old != nil {
			if there, err = c.annotations(ctx, p.Repo, old.GetID()); err != nil {
				return c.forbidden(what, err)
			}
			if stale(there, want) == 0 {
				id, url, out.Updated = old.GetID(), old.GetHTMLURL(), true
				break
			}
		}
		there = nil
		made, _, err := c.gh.Checks.CreateCheckRun(ctx, p.Repo.Owner, p.Repo.Name, github.CreateCheckRunOptions{
			Name: p.Name, HeadSHA: p.SHA, ExternalID: github.String(p.externalID()), DetailsURL: optional(p.DetailsURL),
			Status: github.String("in_progress"), StartedAt: stamp(p.Started), Output: p.output(nil)})
		if err == nil {
			id, url = made.GetID(), made.GetHTMLURL()
			break
		}
		isLost, serr := c.lost(ctx, err, n)
		if serr != nil {
			return serr
		}
		if !isLost || n+1 >= looks {
			return c.forbidden(what, err)
		}
	}
	// The verdict comes with the last annotations: until then the run is in
	// progress, and nobody takes a part for the whole.
	for n := 0; ; {
		missing := lacking(there, want)
		batch := missing[:min(len(missing), maxBatch)]
		opt := github.UpdateCheckRunOptions{Name: p.Name, ExternalID: github.String(p.externalID()), DetailsURL: optional(p.DetailsURL), Output: p.output(batch)}
		done := len(batch) == len(missing)
		if done {
			opt.Status, opt.Conclusion, opt.CompletedAt = github.String("completed"), github.String(string(p.Conclusion)), stamp(p.Ended)
		} else {
			opt.Status = github.String("in_progress")
		}
		wctx := ctx
		if len(batch) == 0 {
			wctx = repeatable(ctx)
		}
		_, _, err := c.gh.Checks.UpdateCheckRun(wctx, p.Repo.Owner, p.Repo.Name, id, opt)
		if err == nil {
			if done {
				break
			}
			there = append(there, batch...)
			continue
		}
		isLost, serr := c.lost(ctx, err, n)
		if serr != nil {
			return serr
		}
		if code, _ := status(err); code == http.StatusForbidden && out.Updated && foreign == 0 {
			foreign, id, out.Updated = id, 0, false
			goto again
		}
		if n++; !isLost || n >= looks {
			return c.forbidden(what, err)
		}
		if there, err = c.annotations(ctx, p.Repo, id); err != nil {
			return c.forbidden(what, err)
		}
	}
	out.CheckRun, out.CheckURL = id, url
	return nil
}

// findCheck looks for our latest check run of this name and key at the commit.
func (c *Client) findCheck(ctx context.Context, p *Publication, but int64) (*github.CheckRun, error) {
	opt := &github.ListCheckRunsOptions{CheckName: github.String(p.Name), Filter: github.String("latest"), ListOptions: github.ListOptions{PerPage: 100}}
	var best *github.CheckRun
	for range 10 {
		l, resp, err := c.gh.Checks.ListCheckRunsForRef(ctx, p.Repo.Owner, p.Repo.Name, p.SHA, opt)
		if err != nil {
			return nil, err
		}
		for _, r := range l.CheckRuns {
			if r.GetName() == p.Name && r.GetHeadSHA() == p.SHA && r.GetExternalID() == p.externalID() && r.GetID() != but && (best == nil || r.GetID() > best.GetID()) {
				best = r
			}
		}
		if resp.NextPage == 0 {
			break
		}
		opt.Page = resp.NextPage
	}
	return best, nil
}

func (c *Client) annotations(ctx context.Context, repo Repo, id int64) ([]Annotation, error) {
	var out []Annotation
	opt := &github.ListOptions{PerPage: 100}
	for {
		as, resp, err := c.gh.Checks.ListCheckRunAnnotations(ctx, repo.Owner, repo.Name, id, opt)
		if err != nil {
			return nil, err
		}
		for _, a := range as {
			out = append(out, Annotation{Path: a.GetPath(), Line: a.GetStartLine(), Level: a.GetAnnotationLevel(), Title: a.GetTitle(), Text: a.GetMessage(), Raw: a.GetRawDetails()})
		}
		if resp.NextPage == 0 {
			return out, nil
		}
		opt.Page = resp.NextPage
	}
}

// lacking gives what is wanted and not there, counting repetitions.
func lacking(there, want []Annotation) []Annotation {
	n := map[Annotation]int{}
	for _, a := range there {
		n[a]++
	}
	var out []Annotation
	for _, a := range want {
		if n[a] > 0 {
			n[a]--
			continue
		}
		out = append(out, a)
	}
	return out
}

// stale counts what is there and not wanted.
func stale(there, want []Annotation) int { return len(lacking(want, there)) }

// maxAnnotations bounds the annotations of one check run: nobody reads more,
// and each 50 cost a request.
const maxAnnotations = 500

// fit cuts the annotations to what the API takes.
func (p *Publication) fit() []Annotation {
	var out []Annotation
	for _, a := range p.Annotations[:min(len(p.Annotations), maxAnnotations)] {
		a.Title, a.Text, a.Raw = clipLine(a.Title, maxTitle), clipText(a.Text, maxMessage), clipText(a.Raw, maxMessage)
		a.Line = max(a.Line, 1)
		if strings.TrimSpace(a.Text) == "" {
			a.Text = a.Title
		}
		out = append(out, a)
	}
	return out
}

func (p *Publication) output(batch []Annotation) *github.CheckRunOutput {
	summary := p.Summary
	if n := len(p.Annotations) - maxAnnotations; n > 0 {
		summary += fmt.Sprintf("\n_%d more annotations are not shown._\n", n)
	}
	o := &github.CheckRunOutput{Title: github.String(clipLine(p.Title, maxTitle)), Summary: github.String(clipMarkdown(summary, maxSummary))}
	if p.Text != "" {
		o.Text = github.String(clipMarkdown(p.Text, maxSummary))
	}
	for _, a := range batch {
		x := &github.CheckRunAnnotation{Path: github.String(a.Path), StartLine: github.Int(a.Line), EndLine: github.Int(a.Line),
			AnnotationLevel: github.String(a.Level), Message: github.String(a.Text), Title: optional(a.Title), RawDetails: optional(a.Raw)}
		o.Annotations = append(o.Annotations, x)
	}
	return o
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func stamp(t time.Time) *github.Timestamp {
	if t.IsZero() {
		return nil
	}
	return &github.Timestamp{Time: t.UTC().Truncate(time.Second)}
}

// state is the commit status for a conclusion. Statuses have no neutral one:
// "error" and "failure" both turn the commit red, and "success" would be a
// lie, so a result that says nothing stays pending, and its text says why.
func (c Conclusion) state() string {
	switch c {
	case Success:
		return "success"
	case Failure:
		return "failure"
	}
	return "pending"
}

// status writes the commit status unless it is there already.
func (c *Client) status(ctx context.Context, p *Publication, out *Published) error {
	what := fmt.Sprintf("cannot write the commit status %q at %s", p.Name, p.Repo)
	st := &github.RepoStatus{State: github.String(p.Conclusion.state()), Context: github.String(p.Name),
		Description: github.String(clipLine(p.Title, maxDescription)), TargetURL: optional(p.DetailsURL)}
	// The newest come first; a commit takes 1000 of one context.
	old, _, err := c.gh.Repositories.ListStatuses(ctx, p.Repo.Owner, p.Repo.Name, p.SHA, &github.ListOptions{PerPage: 100})
	if err != nil {
		return c.forbidden(what, err)
	}
	for _, s := range old {
		if s.GetContext() == p.Name {
			if s.GetState() == st.GetState() && s.GetDescription() == st.GetDescription() && s.GetTargetURL() == st.GetTargetURL() {
				out.Status = st.GetState()
				return nil
			}
			break
		}
	}
	// The newest status of a context counts, so writing it twice does no harm.
	if _, _, err := c.gh.Repositories.CreateStatus(repeatable(ctx), p.Repo.Owner, p.Repo.Name, p.SHA, st); err != nil {
		return c.forbidden(what, err)
	}
	out.Status = st.GetState()
	return nil
}

// Comments.

// marker is the invisible first line of our comment. It says whose it is and
// which result it shows, so that a slow older run does not write over a newer.
func (p *Publication) marker() string {
	return fmt.Sprintf("<!-- patchcheck comment name=%q started=%s sha=%s -->", commentName(p.Name), p.Started.UTC().Format(time.RFC3339), p.SHA)
}

// commentName keeps a name from ending the marker.
func commentName(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '<' || r == '>' || r == '-' || r == '\\' {
			return '_'
		}
		return r
	}, s)
}

var reMarker = regexp.MustCompile(`\A<!-- patchcheck comment name=("[^"\n]*") started=(\S+) sha=([0-9a-f]+) -->`)

// comment writes or changes the one comment.
func (c *Client) comment(ctx context.Context, p *Publication, out *Published) error {
	if p.PR == 0 || p.Comment == CommentNever {
		return nil
	}
	create := p.Comment == CommentAlways || out.CheckRun == 0
	what := fmt.Sprintf("cannot comment on %s#%d", p.Repo, p.PR)
	login, err := c.login(ctx)
	if err != nil {
		if !create {
			return nil // nothing was asked for
		}
		return err
	}
	body := p.marker() + "\n" + p.Summary
	if out.CheckURL != "" {
		body += fmt.Sprintf("\n[Details](%s)\n", out.CheckURL)
	} else if p.Text != "" {
		body += "\n<details><summary>Details</summary>\n\n" + clipMarkdown(p.Text, 40000) + "\n\n</details>\n"
	}
	body += fmt.Sprintf("\n<sub>Commit %s. This comment is changed in place.</sub>\n", p.SHA)
	body = clipMarkdown(body, maxComment)
	for n := 0; ; n++ {
		old, newer, err := c.findComment(ctx, p, login)
		if code, _ := status(err); !create && (code == http.StatusForbidden || code == http.StatusNotFound) {
			return nil // there was only something to keep current, if it is there
		}
		if err != nil {
			return c.forbidden(what, err)
		}
		if newer {
			out.Notes = append(out.Notes, "the comment already shows a newer result and stays as it is")
			out.Comment, out.CommentURL = old.GetID(), old.GetHTMLURL()
			return nil
		}
		var got *github.IssueComment
		switch {
		case old != nil && old.GetBody() == body:
			got = old
		case old != nil:
			got, _, err = c.gh.Issues.EditComment(repeatable(ctx), p.Repo.Owner, p.Repo.Name, old.GetID(), &github.IssueComment{Body: &body})
		case !create:
			return nil
		default:
			got, _, err = c.gh.Issues.CreateComment(ctx, p.Repo.Owner, p.Repo.Name, p.PR, &github.IssueComment{Body: &body})
		}
		if me := got.GetUser().GetLogin(); err == nil && old == nil && !strings.EqualFold(me, login) && me != "" {
			// We were wrong about who we are. If there is an older comment of ours
			// under the right name, that one is kept, else there would be one more
			// each time.
			c.o.Login = me
			other, _, ferr := c.findComment(ctx, p, me)
			if ferr == nil && other != nil && other.GetID() != got.GetID() {
				_, derr := c.gh.Issues.DeleteComment(repeatable(ctx), p.Repo.Owner, p.Repo.Name, got.GetID())
				if code, _ := status(derr); derr == nil || code == http.StatusNotFound {
					login = me
					continue
				}
			}
		}
		if err == nil {
			out.Comment, out.CommentURL = got.GetID(), got.GetHTMLURL()
			return nil
		}
		isLost, serr := c.lost(ctx, err, n)
		if serr != nil {
			return serr
		}
		if !isLost || n+1 >= looks {
			return c.forbidden(what, err)
		}
	}
}

// maxCommentPages bounds the search: 100 comments each.
const maxCommentPages = 30

// findComment looks for our comment on the pull request. A marker alone proves
// nothing, because anyone can copy it; the author must be ourselves.
func (c *Client) findComment(ctx context.Context, p *Publication, login string) (found *github.IssueComment, newer bool, err error) {
	opt := &github.IssueListCommentsOptions{ListOptions: github.ListOptions{PerPage: 100}}
	for range maxCommentPages {
		cs, resp, err := c.gh.Issues.ListComments(ctx, p.Repo.Owner, p.Repo.Name, p.PR, opt)
		if err != nil {
			return nil, false, err
		}
		for _, x := range cs {
			m := reMarker.FindStringSubmatch(x.GetBody())
			if m == nil || !strings.EqualFold(x.GetUser().GetLogin(), login) || m[1] != strconv.Quote(commentName(p.Name)) {
				continue
			}
			at, terr := time.Parse(time.RFC3339, m[2])
			return x, terr == nil && at.After(p.Started.UTC().Truncate(time.Second)), nil
		}
		if resp.NextPage == 0 {
			return nil, false, nil
		}
		opt.Page = resp.NextPage
	}
	return nil, false, fmt.Errorf("the pull request has more than %d comments, too many to look for ours", maxCommentPages*100)
}

// login is the account that the token writes as.
func (c *Client) login(ctx context.Context) (string, error) {
	if c.o.Login != "" {
		return c.o.Login, nil
	}
	if !c.o.Token.Set() {
		return "", &notAllowed{errors.New("no token was given: set GITHUB_TOKEN")}
	}
	u, _, err := c.gh.Users.Get(ctx, "")
	if err != nil {
		if code, _ := status(err); code == http.StatusForbidden {
			if c.o.Actions {
				c.o.Login = "github-actions[bot]" // unless the token is another App's, which the first comment tells
				return c.o.Login, nil
			}
			return "", &notAllowed{errors.New("this token cannot say whose it is, so our own comments could not be told from others': name the App's account with --login 'NAME[bot]'")}
		}
		return "", c.forbidden("cannot tell whose token it is", err)
	}
	c.o.Login = u.GetLogin()
	return c.o.Login, nil
}

// AppendSummary adds markdown to the job summary of a step of GitHub Actions,
// which has no API: it is the file that $GITHUB_STEP_SUMMARY names. GitHub
// drops a summary of more than 1 MiB as a whole, so text is cut to what is
// left of it.
func AppendSummary(path, markdown string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("cannot write the job summary: %w", err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return fmt.Errorf("cannot write the job summary: %w", err)
	}
	room := maxStepSummary - int(min(fi.Size(), maxStepSummary)) - 1
	if room < 1024 {
		return errors.New("the job summary of this step is full (1 MiB): nothing was added")
	}
	if _, err := f.WriteString(clipMarkdown(markdown, room) + "\n"); err != nil {
		return fmt.Errorf("cannot write the job summary: %w", err)
	}
	return f.Close()
}
