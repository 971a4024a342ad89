// SPDX-License-Identifier: Apache-2.0

// Package forge owns the conversation with GitHub: pull requests as series,
// and results as check runs, commit statuses, comments and job summaries. It
// is the only importer of go-github.
//
// Three rules hold everywhere. The token goes to the API's own origin and
// nowhere else: not to a host that a redirect names, not into an error, not to
// a child process. A write that may or may not have happened is never repeated
// blindly: the forge is looked at first. Text that comes from a patch or a
// pull request is untrusted and cannot ping people, link to issues or give
// commands to a workflow.
package forge

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"
)

// DefaultAPI is the API of github.com.
const DefaultAPI = "https://api.github.com/"

// Options configure a Client. Only the zero values of the test hooks at the
// end are useful in production.
type Options struct {
	API   string // base URL of the REST API; "" means DefaultAPI
	Token Token  // may be empty: public repositories can be read
	Tool  string // patchcheck's version, for the User-Agent
	// Login is the account that the token writes as. It is looked up when
	// empty; an App's installation token cannot look it up.
	Login string
	// Actions says that this is a job of GitHub Actions, whose own token writes
	// as github-actions[bot].
	Actions bool
	// CacheDir keeps answers to conditional requests, which GitHub does not
	// count against the rate limit; "" keeps them in memory only.
	CacheDir string
	// Log receives one line about each wait and fallback; may be nil.
	Log func(string)

	MaxWait  time.Duration // longest wait for a rate limit, in total; 0 means 2 min
	Attempts int           // tries of one request; 0 means 5
	Timeout  time.Duration // of one request with its answer; 0 means 30 s
	WriteGap time.Duration // least time between two writes; 0 means 1 s, as GitHub asks

	Now    func() time.Time
	Sleep  func(context.Context, time.Duration) error
	Jitter func() float64 // from [0,1)
	Base   http.RoundTripper
}

// Client talks to one GitHub, as one account.
type Client struct {
	gh *github.Client
	o  Options
	tr *transport
}

// New makes a client. It does not talk to anybody yet.
func New(o Options) (*Client, error) {
	if o.API == "" {
		o.API = DefaultAPI
	}
	u, err := url.Parse(o.API)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("the API address %q is no URL: give something like https://github.example.org/api/v3/", o.API)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("the API address must be a plain URL, without user, query or fragment; the token comes from the environment")
	}
	if u.Scheme == "http" && !loopback(u.Hostname()) {
		return nil, fmt.Errorf("the API address %s is not encrypted, and the token would be readable on the way: use https", o.API)
	}
	// go-github needs the slash, and would drop the last path element without.
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	if o.MaxWait == 0 {
		o.MaxWait = 2 * time.Minute
	}
	if o.Attempts == 0 {
		o.Attempts = 5
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.WriteGap == 0 {
		o.WriteGap = time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	if o.Base == nil {
		b := http.DefaultTransport.(*http.Transport).Clone()
		b.DialContext = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
		o.Base = b
	}
	tr := &transport{api: u, o: &o, cache: newAnswers(o.CacheDir, o.Token)}
	gh := github.NewClient(&http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the transport follows them, with its own rules
	}})
	gh.BaseURL = u
	gh.UserAgent = "patchcheck/" + orUnknown(o.Tool)
	return &Client{gh: gh, o: o, tr: tr}, nil
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '-'
		}
		return r
	}, s)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Repo names a repository.
type Repo struct {
	Owner string `json:"owner"`
	Name  string `json:"name"`
}

func (r Repo) String() string { return r.Owner + "/" + r.Name }

// ParseRepo reads "OWNER/NAME".
func ParseRepo(s string) (Repo, error) {
	owner, name, ok := strings.Cut(s, "/")
	if !ok || !goodName(owner) || !goodName(name) {
		return Repo{}, fmt.Errorf("%q is no repository: write OWNER/REPO", s)
	}
	return Repo{owner, name}, nil
}

// goodName tells what GitHub allows in names of owners and repositories; more
// importantly, nothing of it can leave its place in a URL.
func goodName(s string) bool {
	if s == "" || len(s) > 100 || s == "." || s == ".." {
		return false
	}
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
		default:
			return false
		}
	}
	return true
}

// GoodSHA tells a full commit id.
func GoodSHA(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	return strings.Trim(s, "0123456789abcdef") == ""
}
