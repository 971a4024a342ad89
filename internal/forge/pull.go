// SPDX-License-Identifier: Apache-2.0

package forge

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"patchcheck/patches"
)

// PullRequest is a pull request as it was when it was looked at.
type PullRequest struct {
	Repo   Repo   `json:"repo"`
	Number int    `json:"number"`
	URL    string `json:"url"`
	Title  string `json:"title"` // untrusted text
	Body   string `json:"body"`  // untrusted text
	Author string `json:"author"`
	State  string `json:"state"` // open, closed or merged
	Draft  bool   `json:"draft,omitempty"`
	Fork   bool   `json:"fork,omitempty"` // the commits come from another repository

	Head     string `json:"head"`      // commit id
	HeadRepo string `json:"head_repo"` // OWNER/NAME, "" when it was deleted
	Base     string `json:"base"`      // branch
	BaseSHA  string `json:"base_sha"`  // the branch's commit as the pull request knows it
	CloneURL string `json:"clone_url"` // of the base repository

	Commits int       `json:"commits,omitempty"` // 0 in lists
	Labels  []string  `json:"labels,omitempty"`
	Updated time.Time `json:"updated"`
}

func (p *PullRequest) String() string { return fmt.Sprintf("%s#%d", p.Repo, p.Number) }

// Limits of pull requests as a series.
const (
	maxCommits = 250 // more are not listed by the API
	maxPulls   = 30  // pages of 100 that PullRequests reads
)

var rePull = regexp.MustCompile(`^([^/#\s]+)/([^/#\s]+)#([0-9]{1,9})$`)

// ParsePull reads OWNER/REPO#N or the address of a pull request's page. host
// is that of a page, "" for the short form.
func ParsePull(s string) (repo Repo, number int, host string, err error) {
	bad := fmt.Errorf("%q is no pull request: write OWNER/REPO#N or https://github.com/OWNER/REPO/pull/N", s)
	owner, name, num := "", "", ""
	if m := rePull.FindStringSubmatch(s); m != nil {
		owner, name, num = m[1], m[2], m[3]
	} else {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return Repo{}, 0, "", bad
		}
		parts := strings.Split(strings.Trim(u.Path, "/"), "/")
		if len(parts) < 4 || parts[2] != "pull" {
			return Repo{}, 0, "", bad
		}
		owner, name, num, host = parts[0], parts[1], parts[3], u.Host
	}
	n, cerr := strconv.Atoi(num)
	if cerr != nil || n <= 0 || !goodName(owner) || !goodName(name) {
		return Repo{}, 0, "", bad
	}
	return Repo{owner, name}, n, host, nil
}

// HostFits reports whether pages of host belong to the API at api: github.com
// and api.github.com, or one Enterprise server for both.
func HostFits(host, api string) bool {
	if api == "" {
		api = DefaultAPI
	}
	u, err := url.Parse(api)
	if err != nil {
		return false
	}
	host = strings.TrimPrefix(strings.ToLower(host), "www.")
	switch h := strings.ToLower(u.Host); {
	case h == "api.github.com":
		return host == "github.com"
	case strings.HasPrefix(h, "api.") && strings.HasSuffix(h, ".ghe.com"):
		return host == strings.TrimPrefix(h, "api.")
	default:
		return host == h
	}
}

// PullRequest asks for one pull request.
func (c *Client) PullRequest(ctx context.Context, repo Repo, number int) (*PullRequest, error) {
	p, _, err := c.gh.PullRequests.Get(ctx, repo.Owner, repo.Name, number)
	if err != nil {
		return nil, c.explain(fmt.Sprintf("cannot read pull request %s#%d", repo, number), err)
	}
	pr := convert(repo, p)
	if pr.Number != number || !GoodSHA(pr.Head) || !GoodSHA(pr.BaseSHA) {
		return nil, fmt.Errorf("the answer about %s#%d makes no sense: number %d, head %q, base %q", repo, number, pr.Number, pr.Head, pr.BaseSHA)
	}
	return pr, nil
}

// PullRequests lists the open pull requests of repo that carry label ("" for
// all), the least recently updated first, so that a caller that runs out of
// time has served those that wait longest.
func (c *Client) PullRequests(ctx context.Context, repo Repo, label string) ([]PullRequest, error) {
	var out []PullRequest
	opt := &github.PullRequestListOptions{State: "open", Sort: "updated", Direction: "asc", ListOptions: github.ListOptions{PerPage: 100}}
	seen := map[int]bool{}
	for range maxPulls {
		ps, resp, err := c.gh.PullRequests.List(ctx, repo.Owner, repo.Name, opt)
		if err != nil {
			return nil, c.explain(fmt.Sprintf("cannot list the pull requests of %s", repo), err)
		}
		for _, p := range ps {
			pr := convert(repo, p)
			// Pages shift when a pull request is updated meanwhile.
			if seen[pr.Number] || !GoodSHA(pr.Head) || !GoodSHA(pr.BaseSHA) {
				continue
			}
			seen[pr.Number] = true
			if label == "" || slices.ContainsFunc(pr.Labels, func(l string) bool { return strings.EqualFold(l, label) }) {
				out = append(out, *pr)
			}
		}
		if resp.NextPage == 0 {
			return out, nil
		}
		opt.Page = resp.NextPage
	}
	return nil, fmt.Errorf("%s has more than %d open pull requests, which is more than can be looked through", repo, maxPulls*100)
}

func convert(repo Repo, p *github.PullRequest) *PullRequest {
	pr := &PullRequest{Repo: repo, Number: p.GetNumber(), URL: p.GetHTMLURL(), Title: p.GetTitle(), Body: p.GetBody(),
		Author: p.GetUser().GetLogin(), State: p.GetState(), Draft: p.GetDraft(), Head: p.GetHead().GetSHA(),
		HeadRepo: p.GetHead().GetRepo().GetFullName(), Base: p.GetBase().GetRef(), BaseSHA: p.GetBase().GetSHA(),
		CloneURL: p.GetBase().GetRepo().GetCloneURL(), Commits: p.GetCommits(), Updated: p.GetUpdatedAt().Time}
	// A renamed repository answers under its new name: use that from here on.
	if r, err := ParseRepo(p.GetBase().GetRepo().GetFullName()); err == nil {
		pr.Repo = r
	}
	if p.GetMerged() || p.MergedAt != nil {
		pr.State = "merged"
	}
	pr.Fork = !strings.EqualFold(pr.HeadRepo, pr.Repo.String())
	for _, l := range p.Labels {
		pr.Labels = append(pr.Labels, l.GetName())
	}
	return pr
}

// MergeBase is the commit that the pull request's patches start from: the base
// branch may have moved on since.
func (c *Client) MergeBase(ctx context.Context, pr *PullRequest) (string, error) {
	// Commits of forks are known to the base repository, too.
	cmp, _, err := c.gh.Repositories.CompareCommits(ctx, pr.Repo.Owner, pr.Repo.Name, pr.BaseSHA, pr.Head, &github.ListOptions{PerPage: 1})
	if err != nil {
		return "", c.explain(fmt.Sprintf("cannot tell where %s branches off %s", pr, pr.Base), err)
	}
	sha := cmp.GetMergeBaseCommit().GetSHA()
	if !GoodSHA(sha) {
		return "", fmt.Errorf("%s and its base branch %s have no commit in common", pr, pr.Base)
	}
	return sha, nil
}

// Mails gives the commits of a pull request as an mbox, as git format-patch
// would. Its problems (too large, merges) are errors, since what is left out
// would not be tested.
func (c *Client) Mails(ctx context.Context, pr *PullRequest) ([]byte, error) {
	what := fmt.Sprintf("cannot read the commits of %s", pr)
	if pr.Commits > maxCommits {
		return nil, c.tooLarge(pr, fmt.Sprintf("it has %d commits, and GitHub lists %d at most", pr.Commits, maxCommits))
	}
	var commits []string
	opt := &github.ListOptions{PerPage: 100}
	for {
		cs, resp, err := c.gh.PullRequests.ListCommits(ctx, pr.Repo.Owner, pr.Repo.Name, pr.Number, opt)
		if err != nil {
			return nil, c.explain(what, err)
		}
		for _, x := range cs {
			if len(x.Parents) > 1 {
				return nil, fmt.Errorf("%s contains the merge commit %.12s, which cannot be mailed as a patch: rebase the branch on %s", pr, x.GetSHA(), pr.Base)
			}
			commits = append(commits, x.GetSHA())
		}
		if resp.NextPage == 0 || len(commits) > maxCommits {
			break
		}
		opt.Page = resp.NextPage
	}
	if len(commits) == 0 {
		return nil, fmt.Errorf("%s holds no commits", pr)
	}
	if last := commits[len(commits)-1]; len(commits) >= maxCommits && last != pr.Head {
		return nil, c.tooLarge(pr, fmt.Sprintf("it has more than %d commits, and GitHub lists no more", maxCommits))
	} else if last != pr.Head {
		return nil, fmt.Errorf("%s was pushed to while it was read (head %.12s, now %.12s): try again", pr, pr.Head, last)
	}
	text, _, err := c.gh.PullRequests.GetRaw(ctx, pr.Repo.Owner, pr.Repo.Name, pr.Number, github.RawOptions{Type: github.Patch})
	if err != nil {
		var er *github.ErrorResponse
		if errors.As(err, &er) && er.Response != nil && er.Response.StatusCode == http.StatusNotAcceptable {
			return nil, c.tooLarge(pr, clipLine(er.Message, 300))
		}
		return nil, c.explain(what, err)
	}
	if !bytes.HasPrefix([]byte(text), []byte("From ")) {
		return nil, fmt.Errorf("%s: the answer holds no patches", what)
	}
	return []byte(text), nil
}

func (c *Client) tooLarge(pr *PullRequest, why string) error {
	return fmt.Errorf("%s is too large for GitHub's API: %s\nIn a clone: git fetch origin pull/%d/head && patchcheck run --tree . %.12s..FETCH_HEAD", pr, why, pr.Number, pr.BaseSHA)
}

// Series reads a pull request as a series. Title and text of a pull request
// with several commits are its cover letter. The text is a stranger's; it
// goes through the same parser as any mail.
func (c *Client) Series(ctx context.Context, pr *PullRequest) (*patches.Series, error) {
	mbox, err := c.Mails(ctx, pr)
	if err != nil {
		return nil, err
	}
	s, err := patches.Load(ctx, []string{"-"}, patches.LoadOptions{Stdin: bytes.NewReader(WithCover(pr, mbox, ""))})
	if err != nil {
		return nil, err
	}
	s.Sources = []string{"https://" + c.page() + "/" + pr.Repo.String() + "/pull/" + strconv.Itoa(pr.Number)}
	return s, nil
}

// page is the host of the pages that belong to the API.
func (c *Client) page() string {
	h := c.gh.BaseURL.Host
	if h == "api.github.com" {
		return "github.com"
	}
	return strings.TrimPrefix(h, "api.")
}

var rePart = regexp.MustCompile(`(?m)^Subject: \[PATCH [0-9]+/([0-9]+)\]`)

var reDiff = regexp.MustCompile(`(?mi)^(diff |Index: |--- |\+\+\+ |@@ |From [0-9a-f]{40} |[ \t]*base-commit:)`)

// reTag is what stands before a subject in mails. In a title ("[PATCH v2 0/3]
// ...") it would make another series of the cover letter.
var reTag = regexp.MustCompile(`(?i)^(\s*(\[[^\]]*\]?|(re|aw|sv|fwd?|wg)(\[[0-9]+\])?:))+`)

func coverSubject(title string) string {
	return strings.TrimSpace(reTag.ReplaceAllString(strings.Join(strings.Fields(title), " "), ""))
}

// WithCover puts the pull request's own words before a series of several
// patches, as its cover letter. A base commit is noted as git format-patch
// --base does, unless it is "".
func WithCover(pr *PullRequest, mbox []byte, base string) []byte {
	note := ""
	if GoodSHA(base) {
		note = "\nbase-commit: " + base + "\n"
	}
	m := rePart.FindSubmatch(mbox)
	if m == nil || strings.TrimSpace(pr.Title) == "" {
		return append(bytes.TrimRight(slices.Clone(mbox), "\n"), "\n"+note...)
	}
	total := string(m[1])
	subject := coverSubject(pr.Title)
	if subject == "" {
		return append(bytes.TrimRight(slices.Clone(mbox), "\n"), "\n"+note...)
	}
	// Encoded, the text can neither end the mail nor begin another.
	body := strings.ReplaceAll(pr.Body, "\r\n", "\n")
	// A diff that is quoted in the text is no patch of the series, and the base
	// is where the branch begins, not what the text says.
	body = reDiff.ReplaceAllString(body, "> $0")
	enc := base64.StdEncoding.EncodeToString([]byte(body + "\n" + note))
	var b bytes.Buffer
	zeros := strings.Repeat("0", len(total))
	at := pr.Updated
	if at.IsZero() {
		at = time.Unix(0, 0)
	}
	login := pr.Author
	if !goodName(strings.TrimSuffix(login, "[bot]")) {
		login = "unknown"
	}
	fmt.Fprintf(&b, "From %s Mon Sep 17 00:00:00 2001\n", strings.Repeat("0", 40))
	fmt.Fprintf(&b, "From: %s <%s@users.noreply.github.com>\n", strings.TrimSuffix(login, "[bot]"), strings.TrimSuffix(login, "[bot]"))
	fmt.Fprintf(&b, "Date: %s\n", at.UTC().Format(time.RFC1123Z))
	fmt.Fprintf(&b, "Subject: [PATCH %s/%s] %s\n", zeros, total, mime.QEncoding.Encode("utf-8", subject))
	fmt.Fprintf(&b, "MIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: base64\n\n")
	for len(enc) > 76 {
		b.WriteString(enc[:76] + "\n")
		enc = enc[76:]
	}
	b.WriteString(enc + "\n\n")
	b.Write(mbox)
	return b.Bytes()
}

// explain words an error of the API for a person.
func (c *Client) explain(what string, err error) error {
	var lim *LimitError
	var rd *redirectError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &lim):
		return fmt.Errorf("%s: %w", what, lim)
	case errors.As(err, &rd):
		return fmt.Errorf("%s: %w", what, rd)
	}
	tok := "no token was given: set GITHUB_TOKEN"
	if c.o.Token.Set() {
		tok = "the token of " + c.o.Token.Source
	}
	code, msg := status(err)
	switch code {
	case http.StatusUnauthorized:
		if c.o.Token.Set() {
			return fmt.Errorf("%s: GitHub does not accept %s (wrong, expired or revoked)", what, tok)
		}
		return fmt.Errorf("%s: %s", what, tok)
	case http.StatusNotFound:
		if c.o.Token.Set() {
			return fmt.Errorf("%s: there is none, or %s may not see it", what, tok)
		}
		return fmt.Errorf("%s: there is none, or it is private and %s", what, tok)
	case http.StatusForbidden:
		return fmt.Errorf("%s: GitHub refuses it (%s); %s lacks the right", what, msg, tok)
	case 0:
		return fmt.Errorf("%s: %s", what, c.o.Token.redact(plainNet(err)))
	}
	return fmt.Errorf("%s: GitHub answers %d: %s", what, code, msg)
}

// plainNet is a network error without go-github's and net/http's wrapping.
func plainNet(err error) string {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	return err.Error()
}

// status is the status code and the words of an API error, 0 for others.
func status(err error) (int, string) {
	var er *github.ErrorResponse
	if !errors.As(err, &er) || er.Response == nil {
		return 0, ""
	}
	msg := er.Message
	for _, e := range er.Errors {
		if m := strings.TrimSpace(e.Resource + " " + e.Field + " " + e.Code + " " + e.Message); m != "" {
			msg += "; " + m
		}
	}
	if msg == "" {
		msg = http.StatusText(er.Response.StatusCode)
	}
	return er.Response.StatusCode, clipLine(msg, 400)
}
