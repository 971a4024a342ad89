// SPDX-License-Identifier: Apache-2.0

package githubtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// route finds the repository and the method.
func (s *Server) route(a *Account, r *http.Request, path string, body []byte) *reply {
	if path == "user" {
		switch {
		case a == &s.anon:
			return fail(401, "Requires authentication", "/users/users#get-the-authenticated-user")
		case a.Kind != User:
			return fail(403, "Resource not accessible by integration", "/users/users#get-the-authenticated-user")
		}
		return &reply{status: 200, body: map[string]any{"login": a.Login, "id": 1, "type": "User"}}
	}
	p := strings.Split(path, "/")
	if len(p) < 3 || p[0] != "repos" {
		return notFound()
	}
	full := strings.ToLower(p[1] + "/" + p[2])
	if to, ok := s.moved[full]; ok {
		loc := s.URL + "repos/" + to + "/" + strings.Join(p[3:], "/")
		if r.URL.RawQuery != "" {
			loc += "?" + r.URL.RawQuery
		}
		code, msg := 301, "Moved Permanently"
		if r.Method != http.MethodGet {
			code, msg = 307, "Temporary Redirect"
		}
		return &reply{status: code, header: map[string]string{"Location": loc},
			body: map[string]any{"message": msg, "url": loc, "documentation_url": "https://docs.github.com/rest/guides/best-practices-for-using-the-rest-api#follow-redirects"}}
	}
	repo := s.repos[full]
	if repo == nil || repo.Private && !slices.Contains(a.Repos, repo.FullName()) {
		return notFound()
	}
	rest := p[3:]
	get, post, patch := r.Method == http.MethodGet, r.Method == http.MethodPost, r.Method == http.MethodPatch
	match := func(pat ...string) bool {
		if len(pat) != len(rest) {
			return false
		}
		for i, x := range pat {
			if x != "*" && x != rest[i] {
				return false
			}
		}
		return true
	}
	switch {
	case get && match("pulls"):
		return s.listPulls(r, repo)
	case get && match("pulls", "*"):
		return s.getPull(r, repo, rest[1])
	case get && match("pulls", "*", "commits"):
		return s.listCommits(r, repo, rest[1])
	case get && match("compare", "*"):
		return s.compare(repo, rest[1])
	case get && match("commits", "*", "check-runs"):
		return s.listChecks(r, repo, rest[1])
	case get && match("commits", "*", "statuses"):
		return s.listStatuses(r, repo, rest[1])
	case post && match("statuses", "*"):
		return s.createStatus(a, repo, rest[1], body)
	case post && match("check-runs"):
		return s.createCheck(a, repo, body)
	case patch && match("check-runs", "*"):
		return s.updateCheck(a, repo, rest[1], body)
	case get && match("check-runs", "*", "annotations"):
		return s.listAnnotations(r, repo, rest[1])
	case get && match("issues", "*", "comments"):
		return s.listComments(r, repo, rest[1])
	case post && match("issues", "*", "comments"):
		return s.createComment(a, repo, rest[1], body)
	case r.Method == http.MethodDelete && match("issues", "comments", "*"):
		return s.deleteComment(a, repo, rest[2])
	case patch && match("issues", "comments", "*"):
		return s.editComment(a, repo, rest[2], body)
	}
	return notFound()
}

func (s *Server) pullJSON(repo *Repo, p *Pull, whole bool) map[string]any {
	labels := []map[string]any{}
	for i, l := range p.Labels {
		labels = append(labels, map[string]any{"id": i, "name": l})
	}
	var headRepo any
	if p.HeadRepo != "deleted" {
		headRepo = map[string]any{"full_name": p.HeadRepo, "fork": p.HeadRepo != repo.FullName()}
	}
	m := map[string]any{
		"number": p.Number, "state": p.State, "title": p.Title, "body": p.Body, "draft": p.Draft, "labels": labels,
		"html_url": fmt.Sprintf("https://github.com/%s/pull/%d", repo.FullName(), p.Number), "user": map[string]any{"login": p.Author, "type": "User"},
		"updated_at": p.Updated.UTC().Format(time.RFC3339),
		"head":       map[string]any{"ref": p.HeadRef, "sha": p.Head, "repo": headRepo},
		"base": map[string]any{"ref": p.Base, "sha": p.BaseSHA, "repo": map[string]any{"full_name": repo.FullName(),
			"clone_url": "https://github.com/" + repo.FullName() + ".git"}},
	}
	if p.Merged {
		m["merged_at"] = p.Updated.UTC().Format(time.RFC3339)
	}
	if whole {
		m["commits"], m["merged"], m["changed_files"] = len(p.Commits), p.Merged, p.Files
	}
	return m
}

func (s *Server) listPulls(r *http.Request, repo *Repo) *reply {
	q := r.URL.Query()
	state := q.Get("state")
	if state == "" {
		state = "open"
	}
	var ps []*Pull
	for _, p := range repo.Pulls {
		if state == "all" || p.State == state {
			ps = append(ps, p)
		}
	}
	sort.Slice(ps, func(i, j int) bool {
		less := ps[i].Number < ps[j].Number
		if q.Get("sort") == "updated" && !ps[i].Updated.Equal(ps[j].Updated) {
			less = ps[i].Updated.Before(ps[j].Updated)
		}
		return less == (q.Get("direction") == "asc")
	})
	ps, h := page(s, r, ps)
	out := []any{}
	for _, p := range ps {
		out = append(out, s.pullJSON(repo, p, false))
	}
	return &reply{200, out, h}
}

func (repo *Repo) pull(num string) *Pull {
	n, _ := strconv.Atoi(num)
	return repo.Pulls[n]
}

func (s *Server) getPull(r *http.Request, repo *Repo, num string) *reply {
	p := repo.pull(num)
	if p == nil {
		return notFound()
	}
	accept := r.Header.Get("Accept")
	if !strings.Contains(accept, ".patch") && !strings.Contains(accept, ".diff") {
		return &reply{status: 200, body: s.pullJSON(repo, p, true)}
	}
	tooLarge := map[string]string{"resource": "PullRequest", "field": "diff", "code": "too_large"}
	switch {
	case p.Files > 300:
		return fail(406, "Sorry, the diff exceeded the maximum number of files (300). Consider using 'List pull requests files' API or locally cloning the repository instead.", "/pulls/pulls#list-pull-requests-files", tooLarge)
	case p.Lines > 20000:
		return fail(406, "Sorry, the diff exceeded the maximum number of lines (20000)", "/pulls/pulls#get-a-pull-request", tooLarge)
	}
	return &reply{200, p.Mbox, map[string]string{"Content-Type": "application/vnd.github.v3.patch; charset=utf-8"}}
}

func (s *Server) listCommits(r *http.Request, repo *Repo, num string) *reply {
	p := repo.pull(num)
	if p == nil {
		return notFound()
	}
	cs, h := page(s, r, p.Commits[:min(len(p.Commits), 250)])
	out := []any{}
	for _, c := range cs {
		parents := []any{}
		for range max(1, c.Parents) {
			parents = append(parents, map[string]any{"sha": strings.Repeat("0", 40)})
		}
		out = append(out, map[string]any{"sha": c.SHA, "parents": parents, "commit": map[string]any{"message": "a commit"}})
	}
	return &reply{200, out, h}
}

func (s *Server) compare(repo *Repo, span string) *reply {
	base, head, ok := strings.Cut(span, "...")
	if !ok || repo.MergeBase == "" || !repo.Commits[head] {
		return notFound()
	}
	return &reply{status: 200, body: map[string]any{"status": "ahead", "base_commit": map[string]any{"sha": base}, "merge_base_commit": map[string]any{"sha": repo.MergeBase}, "commits": []any{}}}
}

// mayWrite says whether the account has write access to the repository.
func mayWrite(a *Account, checks bool, doc string) *reply {
	switch {
	case a.Login == "":
		return fail(401, "Requires authentication", doc)
	case a.Kind == ReadOnly:
		return fail(403, "Resource not accessible by integration", doc)
	case checks && a.Kind == User:
		return fail(403, "You must authenticate via a GitHub App.", doc)
	}
	return nil
}

type output struct {
	Title       *string       `json:"title"`
	Summary     *string       `json:"summary"`
	Text        *string       `json:"text"`
	Annotations []annotationP `json:"annotations"`
}

type annotationP struct {
	Path       *string `json:"path"`
	Start      *int    `json:"start_line"`
	End        *int    `json:"end_line"`
	StartCol   *int    `json:"start_column"`
	Level      *string `json:"annotation_level"`
	Message    *string `json:"message"`
	Title      *string `json:"title"`
	RawDetails *string `json:"raw_details"`
}

type checkP struct {
	Name        *string `json:"name"`
	HeadSHA     *string `json:"head_sha"`
	Status      *string `json:"status"`
	Conclusion  *string `json:"conclusion"`
	ExternalID  *string `json:"external_id"`
	DetailsURL  *string `json:"details_url"`
	StartedAt   *string `json:"started_at"`
	CompletedAt *string `json:"completed_at"`
	Output      *output `json:"output"`
}

var conclusions = []string{"success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required"}

// invalid is GitHub's answer to a body that does not fit its schema.
func invalid(doc, format string, args ...any) *reply {
	return fail(422, "Invalid request.\n\n"+fmt.Sprintf(format, args...), doc)
}

// validCheck holds what is common to creation and update.
func validCheck(c *checkP, doc string) *reply {
	quoted := func(ss []string) string { b, _ := json.Marshal(ss); return string(b) }
	if c.Status != nil && !slices.Contains([]string{"queued", "in_progress", "completed"}, *c.Status) {
		return invalid(doc, "%q is not a member of %s.", *c.Status, quoted([]string{"queued", "in_progress", "completed"}))
	}
	if c.Conclusion != nil && !slices.Contains(conclusions, *c.Conclusion) {
		return invalid(doc, "%q is not a member of %s.", *c.Conclusion, quoted(conclusions))
	}
	if c.Status != nil && *c.Status == "completed" && c.Conclusion == nil {
		return invalid(doc, "\"conclusion\" wasn't supplied.")
	}
	for _, at := range []*string{c.StartedAt, c.CompletedAt} {
		if at != nil {
			if _, err := time.Parse(time.RFC3339, *at); err != nil {
				return invalid(doc, "%q is not a valid date-time.", *at)
			}
		}
	}
	if c.DetailsURL != nil && !strings.HasPrefix(*c.DetailsURL, "http://") && !strings.HasPrefix(*c.DetailsURL, "https://") {
		return fail(422, "Validation Failed", doc, map[string]string{"resource": "CheckRun", "code": "custom", "field": "details_url", "message": "details_url must use http or https scheme"})
	}
	if c.Output == nil {
		return nil
	}
	o := c.Output
	if o.Summary == nil {
		return invalid(doc, "For 'properties/output', \"summary\" wasn't supplied.")
	}
	for _, x := range []*string{o.Summary, o.Text} {
		if x != nil && utf8.RuneCountInString(*x) > 65535 {
			return invalid(doc, "Only 65535 characters are allowed; %d were supplied.", utf8.RuneCountInString(*x))
		}
	}
	if n := len(o.Annotations); n > 50 {
		return invalid(doc, "No more than 50 items are allowed; %d were supplied.", n)
	}
	for _, an := range o.Annotations {
		switch {
		case an.Path == nil:
			return invalid(doc, "For 'items', \"path\" wasn't supplied.")
		case an.Start == nil:
			return invalid(doc, "For 'items', \"start_line\" wasn't supplied.")
		case an.End == nil:
			return invalid(doc, "For 'items', \"end_line\" wasn't supplied.")
		case an.Message == nil:
			return invalid(doc, "For 'items', \"message\" wasn't supplied.")
		case an.Level == nil:
			return invalid(doc, "For 'items', \"annotation_level\" wasn't supplied.")
		case !slices.Contains([]string{"notice", "warning", "failure"}, *an.Level):
			return invalid(doc, "%q is not a member of [\"notice\", \"warning\", \"failure\"].", *an.Level)
		case *an.Message == "" || *an.Path == "" || strings.HasPrefix(*an.Path, "/") || *an.Start < 1 || *an.End < *an.Start:
			return fail(422, "Validation Failed", doc, map[string]string{"resource": "CheckRun", "code": "invalid", "field": "annotations"})
		case an.StartCol != nil && *an.Start != *an.End:
			return fail(422, "Validation Failed", doc, map[string]string{"resource": "CheckRun", "code": "invalid", "field": "annotations"})
		case len(*an.Message) > 64<<10, an.RawDetails != nil && len(*an.RawDetails) > 64<<10, an.Title != nil && utf8.RuneCountInString(*an.Title) > 255:
			return fail(422, "Validation Failed", doc, map[string]string{"resource": "CheckRun", "code": "custom", "field": "annotations", "message": "annotations is too large"})
		}
	}
	return nil
}

func (c *check) apply(p *checkP) {
	set := func(to *string, from *string) {
		if from != nil {
			*to = *from
		}
	}
	set(&c.Name, p.Name)
	set(&c.Status, p.Status)
	set(&c.ExternalID, p.ExternalID)
	set(&c.DetailsURL, p.DetailsURL)
	if p.Conclusion != nil {
		c.Conclusion, c.Status = *p.Conclusion, "completed"
	}
	if o := p.Output; o != nil {
		set(&c.Title, o.Title)
		set(&c.Summary, o.Summary)
		set(&c.Text, o.Text)
		for _, a := range o.Annotations {
			x := Annotation{Path: *a.Path, StartLine: *a.Start, EndLine: *a.End, AnnotationLevel: *a.Level, Message: *a.Message}
			set(&x.Title, a.Title)
			set(&x.RawDetails, a.RawDetails)
			c.Annotations = append(c.Annotations, x) // appended, never replaced
		}
	}
}

func (c *check) json(repo *Repo) map[string]any {
	m := map[string]any{"id": c.ID, "name": c.Name, "head_sha": c.SHA, "external_id": c.ExternalID, "status": c.Status, "details_url": c.DetailsURL,
		"html_url": fmt.Sprintf("https://github.com/%s/runs/%d", repo.FullName(), c.ID),
		"output":   map[string]any{"title": c.Title, "summary": c.Summary, "text": c.Text, "annotations_count": len(c.Annotations)}, "app": map[string]any{"slug": c.app}}
	if c.Conclusion != "" {
		m["conclusion"] = c.Conclusion
	}
	return m
}

func (s *Server) createCheck(a *Account, repo *Repo, body []byte) *reply {
	const doc = "/checks/runs#create-a-check-run"
	if out := mayWrite(a, true, doc); out != nil {
		return out
	}
	var p checkP
	if err := json.Unmarshal(body, &p); err != nil {
		return invalid(doc, "%v", err)
	}
	switch {
	case p.Name == nil || *p.Name == "":
		return invalid(doc, "\"name\" wasn't supplied.")
	case p.HeadSHA == nil:
		return invalid(doc, "\"head_sha\" wasn't supplied.")
	}
	if out := validCheck(&p, doc); out != nil {
		return out
	}
	if !repo.Commits[*p.HeadSHA] {
		return fail(422, "No commit found for SHA: "+*p.HeadSHA, doc)
	}
	s.nextID++
	c := &check{CheckRun{ID: s.nextID, SHA: *p.HeadSHA, Status: "queued", app: a.Login}, s.Clock.Now()}
	c.apply(&p)
	repo.checks = append(repo.checks, c)
	return &reply{status: 201, body: c.json(repo)}
}

func (repo *Repo) check(id string) *check {
	n, _ := strconv.ParseInt(id, 10, 64)
	for _, c := range repo.checks {
		if c.ID == n {
			return c
		}
	}
	return nil
}

func (s *Server) updateCheck(a *Account, repo *Repo, id string, body []byte) *reply {
	const doc = "/checks/runs#update-a-check-run"
	if out := mayWrite(a, true, doc); out != nil {
		return out
	}
	c := repo.check(id)
	if c == nil {
		return notFound()
	}
	if c.app != a.Login {
		return fail(403, "Invalid app_id `1` - check run can only be modified by the GitHub App that created it.", doc)
	}
	var p checkP
	if err := json.Unmarshal(body, &p); err != nil {
		return invalid(doc, "%v", err)
	}
	if out := validCheck(&p, doc); out != nil {
		return out
	}
	c.Updates++
	c.apply(&p)
	return &reply{status: 200, body: c.json(repo)}
}

func (s *Server) listChecks(r *http.Request, repo *Repo, sha string) *reply {
	if !repo.Commits[sha] {
		return fail(422, "No commit found for SHA: "+sha, "/checks/runs#list-check-runs-for-a-git-reference")
	}
	q := r.URL.Query()
	var cs []*check
	for i := len(repo.checks) - 1; i >= 0; i-- {
		c := repo.checks[i]
		if c.SHA != sha || q.Get("check_name") != "" && c.Name != q.Get("check_name") {
			continue
		}
		// "latest" shows one per name and app.
		if q.Get("filter") != "all" && slices.ContainsFunc(cs, func(x *check) bool { return x.Name == c.Name && x.app == c.app }) {
			continue
		}
		cs = append(cs, c)
	}
	total := len(cs)
	cs, h := page(s, r, cs)
	out := []any{}
	for _, c := range cs {
		out = append(out, c.json(repo))
	}
	return &reply{200, map[string]any{"total_count": total, "check_runs": out}, h}
}

func (s *Server) listAnnotations(r *http.Request, repo *Repo, id string) *reply {
	c := repo.check(id)
	if c == nil {
		return notFound()
	}
	as, h := page(s, r, c.Annotations)
	return &reply{200, as, h}
}

func (s *Server) createStatus(a *Account, repo *Repo, sha string, body []byte) *reply {
	const doc = "/commits/statuses#create-a-commit-status"
	if out := mayWrite(a, false, doc); out != nil {
		return out
	}
	var p struct{ State, Context, Description, Target_URL *string }
	if err := json.Unmarshal(body, &p); err != nil {
		return invalid(doc, "%v", err)
	}
	bad := func(field, msg string) *reply {
		return fail(422, "Validation Failed", doc, map[string]string{"resource": "Status", "code": "custom", "field": field, "message": msg})
	}
	switch {
	case p.State == nil || !slices.Contains([]string{"error", "failure", "pending", "success"}, *p.State):
		return fail(422, "Validation Failed", doc, map[string]string{"resource": "Status", "code": "missing_field", "field": "state"})
	case p.Description != nil && utf8.RuneCountInString(*p.Description) > 140:
		return bad("description", "description is too long (maximum is 140 characters)")
	case p.Context != nil && utf8.RuneCountInString(*p.Context) > 255:
		return bad("context", "context is too long (maximum is 255 characters)")
	case p.Target_URL != nil && !strings.HasPrefix(*p.Target_URL, "http"):
		return bad("target_url", "target_url must use http(s) scheme")
	case !repo.Commits[sha]:
		return fail(422, "No commit found for SHA: "+sha, doc)
	}
	st := Status{SHA: sha, State: *p.State, Context: "default", Creator: a.Login}
	if p.Context != nil {
		st.Context = *p.Context
	}
	if p.Description != nil {
		st.Description = *p.Description
	}
	if p.Target_URL != nil {
		st.TargetURL = *p.Target_URL
	}
	n := 0
	for _, x := range repo.statuses {
		if x.SHA == sha && x.Context == st.Context {
			n++
		}
	}
	if n >= 1000 {
		return bad("base", "This SHA and context has reached the maximum number of statuses.")
	}
	s.nextID++
	c := &commitStatus{st, s.nextID}
	repo.statuses = append(repo.statuses, c)
	return &reply{status: 201, body: c.json()}
}

func (c *commitStatus) json() map[string]any {
	return map[string]any{"id": c.id, "state": c.State, "context": c.Context, "description": c.Description, "target_url": c.TargetURL, "creator": map[string]any{"login": c.Creator}}
}

func (s *Server) listStatuses(r *http.Request, repo *Repo, sha string) *reply {
	var cs []*commitStatus
	for i := len(repo.statuses) - 1; i >= 0; i-- {
		if repo.statuses[i].SHA == sha {
			cs = append(cs, repo.statuses[i])
		}
	}
	cs, h := page(s, r, cs)
	out := []any{}
	for _, c := range cs {
		out = append(out, c.json())
	}
	return &reply{200, out, h}
}

func (c *comment) json(repo *Repo) map[string]any {
	return map[string]any{"id": c.ID, "body": c.Body, "user": map[string]any{"login": c.Author},
		"html_url": fmt.Sprintf("https://github.com/%s/pull/%d#issuecomment-%d", repo.FullName(), c.PR, c.ID)}
}

func (s *Server) listComments(r *http.Request, repo *Repo, num string) *reply {
	n, _ := strconv.Atoi(num)
	if repo.Pulls[n] == nil {
		return notFound()
	}
	var cs []*comment
	for _, c := range repo.comments {
		if c.PR == n {
			cs = append(cs, c)
		}
	}
	cs, h := page(s, r, cs)
	out := []any{}
	for _, c := range cs {
		out = append(out, c.json(repo))
	}
	return &reply{200, out, h}
}

func validComment(body []byte, doc string) (string, *reply) {
	var p struct{ Body *string }
	if err := json.Unmarshal(body, &p); err != nil || p.Body == nil {
		return "", invalid(doc, "\"body\" wasn't supplied.")
	}
	field := map[string]string{"resource": "IssueComment", "code": "unprocessable", "field": "data"}
	switch {
	case strings.TrimSpace(*p.Body) == "":
		field["message"] = "Body cannot be blank"
	case utf8.RuneCountInString(*p.Body) > 65536:
		field["message"] = "Body is too long (maximum is 65536 characters)"
	default:
		return *p.Body, nil
	}
	return "", fail(422, "Validation Failed", doc, field)
}

func (s *Server) createComment(a *Account, repo *Repo, num string, body []byte) *reply {
	const doc = "/issues/comments#create-an-issue-comment"
	if out := mayWrite(a, false, doc); out != nil {
		return out
	}
	n, _ := strconv.Atoi(num)
	if repo.Pulls[n] == nil {
		return notFound()
	}
	if repo.Locked {
		return fail(403, "Unable to create comment because issue is locked.", doc)
	}
	text, out := validComment(body, doc)
	if out != nil {
		return out
	}
	gap := s.CommentGap
	if gap == 0 {
		gap = time.Second
	}
	now := s.Clock.Now()
	if last := s.lastPost[a.Login]; !last.IsZero() && now.Sub(last) < gap {
		return &reply{status: 403, body: SecondaryBody, header: map[string]string{"Retry-After": "60"}}
	}
	s.lastPost[a.Login] = now
	s.nextID++
	c := &comment{Comment{ID: s.nextID, PR: n, Author: a.Login, Body: text}}
	repo.comments = append(repo.comments, c)
	return &reply{status: 201, body: c.json(repo)}
}

func (s *Server) editComment(a *Account, repo *Repo, id string, body []byte) *reply {
	const doc = "/issues/comments#update-an-issue-comment"
	if out := mayWrite(a, false, doc); out != nil {
		return out
	}
	text, out := validComment(body, doc)
	if out != nil {
		return out
	}
	n, _ := strconv.ParseInt(id, 10, 64)
	for _, c := range repo.comments {
		if c.ID == n {
			// Whoever may write to the repository may change anybody's comment.
			c.Body = text
			c.Edits++
			return &reply{status: 200, body: c.json(repo)}
		}
	}
	return notFound()
}

func (s *Server) deleteComment(a *Account, repo *Repo, id string) *reply {
	if out := mayWrite(a, false, "/issues/comments#delete-an-issue-comment"); out != nil {
		return out
	}
	n, _ := strconv.ParseInt(id, 10, 64)
	for i, c := range repo.comments {
		if c.ID == n {
			repo.comments = slices.Delete(repo.comments, i, i+1)
			return &reply{status: 204}
		}
	}
	return notFound()
}
