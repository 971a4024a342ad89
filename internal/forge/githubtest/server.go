// SPDX-License-Identifier: Apache-2.0

// Package githubtest is a GitHub for tests: a server on loopback that keeps
// repositories, pull requests, check runs, statuses and comments, and that is
// as strict as the real API where a client can go wrong: required headers,
// tokens and their rights, validation with GitHub's words, pages, entity tags,
// rate limits of both kinds, redirects of renamed repositories, and answers
// that are late, lost or broken. It does not try to be complete.
//
// Sources of shapes and words: GitHub's REST documentation, API version
// 2022-11-28, and error texts as users report them.
package githubtest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Kind says what a token may do.
type Kind int

// The kinds of tokens.
const (
	User     Kind = iota // personal token: statuses and comments, no check runs
	App                  // installation token of a GitHub App: everything, but it cannot ask who it is
	Actions              // GITHUB_TOKEN with checks, statuses and pull-requests: write
	ReadOnly             // GITHUB_TOKEN of a pull request from a fork
)

// Account is one token with its rights and limits.
type Account struct {
	Login string
	Kind  Kind
	// Repos are the private repositories that it sees, "OWNER/NAME".
	Repos []string
	Limit int // requests per hour; 0 means 5000
	used  int
	reset time.Time
}

// Clock is a time that stands still until somebody sleeps.
type Clock struct {
	mu    sync.Mutex
	now   time.Time
	Slept []time.Duration
}

// NewClock starts at t.
func NewClock(t time.Time) *Clock { return &Clock{now: t} }

// Now is the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Sleep moves the clock on by d at once.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.Slept = append(c.Slept, d)
	return ctx.Err()
}

// Total is the time slept.
func (c *Clock) Total() (d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.Slept {
		d += x
	}
	return d
}

// Fault is something that goes wrong with requests that match.
type Fault struct {
	Method string // "" for any
	Path   string // part of the path; "" for any
	Times  int    // how often; 0 means once
	Skip   int    // so many requests are let through first

	Status int // answer with this status ...
	Header map[string]string
	Body   string
	After  bool          // ... but only after the request was carried out
	Drop   bool          // break the connection instead of an answer
	Delay  time.Duration // real time before the answer
}

// Request is one request that the server saw.
type Request struct {
	Method, Path, Query string
	Header              http.Header
	Body                string
	Status              int
}

// Repo is one repository.
type Repo struct {
	Owner, Name string
	Private     bool
	Pulls       map[int]*Pull
	Commits     map[string]bool // known commit ids
	MergeBase   string          // the answer to every comparison

	checks   []*check
	statuses []*commitStatus
	comments []*comment
	Locked   bool // no comments
}

// FullName is "OWNER/NAME".
func (r *Repo) FullName() string { return r.Owner + "/" + r.Name }

// Pull is one pull request.
type Pull struct {
	Number                  int
	Title, Body, Author     string
	State                   string // open or closed
	Merged, Draft           bool
	Head, HeadRepo, HeadRef string
	Base, BaseSHA           string
	Labels                  []string
	Updated                 time.Time
	Commits                 []Commit
	Mbox                    []byte
	Files, Lines            int // for the limits of the diff
}

// Commit is one commit of a pull request.
type Commit struct {
	SHA     string
	Parents int
}

// Annotation as stored.
type Annotation struct {
	Path            string `json:"path"`
	StartLine       int    `json:"start_line"`
	EndLine         int    `json:"end_line"`
	AnnotationLevel string `json:"annotation_level"`
	Message         string `json:"message"`
	Title           string `json:"title"`
	RawDetails      string `json:"raw_details"`
}

// CheckRun as the tests look at it.
type CheckRun struct {
	ID                               int64
	Name, SHA, ExternalID            string
	Status, Conclusion               string
	Title, Summary, Text, DetailsURL string
	Annotations                      []Annotation
	Updates                          int // PATCH requests
	app                              string
}

type check struct {
	CheckRun
	created time.Time
}

// Status as the tests look at it.
type Status struct {
	SHA, State, Context, Description, TargetURL, Creator string
}

type commitStatus struct {
	Status
	id int64
}

// Comment as the tests look at it.
type Comment struct {
	ID     int64
	PR     int
	Author string
	Body   string
	Edits  int
}

type comment struct{ Comment }

// Server is the fake GitHub.
type Server struct {
	URL   string // of the API, with the trailing slash
	Clock *Clock
	// CommentGap is the least time between two comments of an account; faster
	// ones meet the secondary limit. 0 means 1 s.
	CommentGap time.Duration

	mu       sync.Mutex
	http     *httptest.Server
	tokens   map[string]*Account
	repos    map[string]*Repo
	moved    map[string]string
	faults   []*Fault
	requests []Request
	nextID   int64
	lastPost map[string]time.Time
	anon     Account
}

// New starts a server whose API is at /api/v3/, as on an Enterprise server.
func New() *Server {
	s := &Server{Clock: NewClock(time.Now().UTC().Truncate(time.Second)), tokens: map[string]*Account{}, repos: map[string]*Repo{}, moved: map[string]string{},
		lastPost: map[string]time.Time{}, nextID: 1000, anon: Account{Limit: 60}}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = s.http.URL + "/api/v3/"
	return s
}

// Close ends the server.
func (s *Server) Close() { s.http.CloseClientConnections(); s.http.Close() }

// Token makes a token known.
func (s *Server) Token(text string, a Account) { s.tokens[text] = &a }

// Repo adds a repository.
func (s *Server) Repo(owner, name string) *Repo {
	r := &Repo{Owner: owner, Name: name, Pulls: map[int]*Pull{}, Commits: map[string]bool{}}
	s.repos[strings.ToLower(r.FullName())] = r
	return r
}

// Rename moves a repository: requests under the old name are redirected.
func (s *Server) Rename(old, new string) {
	r := s.repos[strings.ToLower(old)]
	delete(s.repos, strings.ToLower(old))
	r.Owner, r.Name, _ = strings.Cut(new, "/")
	s.repos[strings.ToLower(new)] = r
	s.moved[strings.ToLower(old)] = new
}

// Add puts a pull request into the repository with its commits.
func (r *Repo) Add(p *Pull) *Pull {
	if p.State == "" {
		p.State = "open"
	}
	if p.HeadRepo == "" {
		p.HeadRepo = r.FullName()
	}
	for _, c := range p.Commits {
		r.Commits[c.SHA] = true
	}
	r.Commits[p.Head] = true
	r.Pulls[p.Number] = p
	return p
}

// Fail adds a fault.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Times == 0 {
		f.Times = 1
	}
	s.faults = append(s.faults, &f)
}

// UseUp leaves n requests of a token until the clock has moved on by d.
func (s *Server) UseUp(token string, n int, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.tokens[token]
	a.used, a.reset = a.limit()-n, s.Clock.Now().Add(d)
}

// Requests are those seen so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request{}, s.requests...)
}

// Writes counts requests that were not reads.
func (s *Server) Writes() (n int) {
	for _, r := range s.Requests() {
		if r.Method != http.MethodGet {
			n++
		}
	}
	return n
}

// CheckRuns of a repository, the oldest first.
func (s *Server) CheckRuns(r *Repo) (out []CheckRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range r.checks {
		out = append(out, c.CheckRun)
	}
	return out
}

// Statuses of a repository, the oldest first.
func (s *Server) Statuses(r *Repo) (out []Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range r.statuses {
		out = append(out, c.Status)
	}
	return out
}

// Comments of a repository, the oldest first.
func (s *Server) Comments(r *Repo) (out []Comment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range r.comments {
		out = append(out, c.Comment)
	}
	return out
}

// Comment adds one by somebody.
func (s *Server) Comment(r *Repo, pr int, author, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextID++
	r.comments = append(r.comments, &comment{Comment{ID: s.nextID, PR: pr, Author: author, Body: body}})
}

func (a *Account) limit() int {
	if a.Limit == 0 {
		return 5000
	}
	return a.Limit
}

// reply is an answer before it is sent.
type reply struct {
	status int
	body   any // marshalled, unless string or []byte
	header map[string]string
}

func fail(status int, msg, doc string, errs ...map[string]string) *reply {
	b := map[string]any{"message": msg, "documentation_url": "https://docs.github.com/rest" + doc, "status": strconv.Itoa(status)}
	if len(errs) > 0 {
		b["errors"] = errs
	}
	return &reply{status: status, body: b}
}

func notFound() *reply { return fail(404, "Not Found", "") }

// serve is every request: faults, headers, account, limits, then the route.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	rec := Request{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone(), Body: string(body)}
	f := s.fault(r)
	var out *reply
	h := w.Header()
	if f == nil || f.After {
		out = s.answer(r, body, h)
	}
	if f != nil && !f.Drop && f.Status != 0 {
		out = &reply{status: f.Status, body: f.Body, header: f.Header}
		if f.Body == "" {
			out.body = map[string]string{"message": http.StatusText(f.Status)}
		}
	}
	if out != nil {
		rec.Status = out.status
	}
	s.requests = append(s.requests, rec)
	s.mu.Unlock()

	if f != nil && f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-r.Context().Done():
		}
	}
	if f != nil && f.Drop {
		panic(http.ErrAbortHandler)
	}
	if out == nil {
		return
	}
	s.send(w, r, out)
}

func (s *Server) send(w http.ResponseWriter, r *http.Request, out *reply) {
	var b []byte
	switch v := out.body.(type) {
	case nil:
	case []byte:
		b = v
	case string:
		b = []byte(v)
	default:
		b, _ = json.Marshal(v)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	for k, v := range out.header {
		h.Set(k, v)
	}
	if r.Method == http.MethodGet && out.status == 200 {
		sum := sha256.Sum256(append([]byte(r.Header.Get("Authorization")), b...))
		tag := fmt.Sprintf(`W/"%x"`, sum[:16])
		h.Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	w.WriteHeader(out.status)
	w.Write(b)
}

// fault finds and uses up the first fault that matches.
func (s *Server) fault(r *http.Request) *Fault {
	for _, f := range s.faults {
		if f.Times == 0 || f.Method != "" && f.Method != r.Method || !strings.Contains(r.URL.Path, f.Path) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		f.Times--
		return f
	}
	return nil
}

// answer checks what every request must have, and routes it.
func (s *Server) answer(r *http.Request, body []byte, h http.Header) *reply {
	if strings.TrimSpace(r.UserAgent()) == "" || strings.HasPrefix(r.UserAgent(), "Go-http-client") {
		return &reply{status: 403, body: "Request forbidden by administrative rules. Please make sure your request has a User-Agent header (https://docs.github.com/en/rest/overview/resources-in-the-rest-api#user-agent-required). Check https://developer.github.com for other possible causes."}
	}
	if v := r.Header.Get("X-GitHub-Api-Version"); v != "" && v != "2022-11-28" {
		return fail(400, fmt.Sprintf("The requested API version '%s' is not supported.", v), "/about-the-rest-api/api-versions")
	}
	acc, bad := s.account(r)
	if bad != nil {
		return bad
	}
	if out := s.rate(acc, h); out != nil {
		return out
	}
	if len(body) > 0 {
		var any any
		if err := json.Unmarshal(body, &any); err != nil {
			return fail(400, "Problems parsing JSON", "")
		}
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/api/v3/")
	if !ok {
		return notFound()
	}
	return s.route(acc, r, path, body)
}

func (s *Server) account(r *http.Request) (*Account, *reply) {
	auth := r.Header.Get("Authorization")
	if auth == "" {
		return &s.anon, nil
	}
	scheme, tok, _ := strings.Cut(auth, " ")
	a := s.tokens[tok]
	if !strings.EqualFold(scheme, "bearer") && !strings.EqualFold(scheme, "token") || a == nil {
		return nil, fail(401, "Bad credentials", "")
	}
	return a, nil
}

// rate counts the request and refuses it above the hourly limit. Conditional
// requests that hit are not given back here; the real API does so.
func (s *Server) rate(a *Account, h http.Header) *reply {
	now := s.Clock.Now()
	if a.reset.IsZero() || !now.Before(a.reset) {
		a.used, a.reset = 0, now.Add(time.Hour)
	}
	a.used++
	left := max(0, a.limit()-a.used)
	h.Set("X-RateLimit-Limit", strconv.Itoa(a.limit()))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(left))
	h.Set("X-RateLimit-Used", strconv.Itoa(min(a.used, a.limit())))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(a.reset.Unix(), 10))
	h.Set("X-RateLimit-Resource", "core")
	h.Set("X-GitHub-Media-Type", "github.v3; format=json")
	if a.used <= a.limit() {
		return nil
	}
	who := "user ID 1"
	if a == &s.anon {
		who = "127.0.0.1"
	}
	return fail(403, "API rate limit exceeded for "+who+".", "/overview/rate-limits-for-the-rest-api")
}

// SecondaryBody is the answer to requests that come too fast.
const SecondaryBody = `{"documentation_url":"https://docs.github.com/free-pro-team@latest/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits","message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}`

// page cuts a list and sets the Link header as GitHub does.
func page[T any](s *Server, r *http.Request, all []T) ([]T, map[string]string) {
	q := r.URL.Query()
	per, n := 30, 1
	if v, err := strconv.Atoi(q.Get("per_page")); err == nil && v > 0 {
		per = min(v, 100)
	}
	if v, err := strconv.Atoi(q.Get("page")); err == nil && v > 0 {
		n = v
	}
	last := max(1, (len(all)+per-1)/per)
	link := func(p int, rel string) string {
		q.Set("page", strconv.Itoa(p))
		return fmt.Sprintf(`<%s%s?%s>; rel="%s"`, s.http.URL, r.URL.Path, q.Encode(), rel)
	}
	var links []string
	if n > 1 {
		links = append(links, link(n-1, "prev"))
	}
	if n < last {
		links = append(links, link(n+1, "next"), link(last, "last"))
	}
	if n > 1 {
		links = append(links, link(1, "first"))
	}
	h := map[string]string{}
	if len(links) > 0 {
		h["Link"] = strings.Join(links, ", ")
	}
	lo := min((n-1)*per, len(all))
	out := all[lo:min(lo+per, len(all))]
	if out == nil {
		out = []T{}
	}
	return out, h
}
