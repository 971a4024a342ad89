// SPDX-License-Identifier: Apache-2.0

package forge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxBody bounds an answer, in bytes.
const maxBody = 64 << 20

// maxHops bounds redirects of one request.
const maxHops = 5

// LimitError says that GitHub wants fewer requests, and for longer than the
// client is ready to wait.
type LimitError struct {
	Secondary bool      // too many at a time, rather than per hour
	Until     time.Time // when GitHub answers again
	Token     bool      // the requests were made with a token
}

func (e *LimitError) Error() string {
	at := e.Until.UTC().Format("15:04:05 UTC")
	switch {
	case e.Secondary:
		return "GitHub asks for fewer requests at a time (secondary rate limit) and will answer again at " + at + ": try again then"
	case !e.Token:
		return "the hourly limit for requests without a token is used up until " + at + ": set GITHUB_TOKEN, or try again then"
	}
	return "the hourly limit of requests of this token is used up until " + at + ": try again then"
}

// LostAnswer is a write whose outcome is unknown: it was sent, and no answer
// or the answer of a broken server came back. Look before it is repeated.
type LostAnswer struct {
	Method string
	Wait   time.Duration // at least this long, when the server said so
	Err    error
}

func (e *LostAnswer) Error() string {
	return fmt.Sprintf("the answer to a %s was lost: %v", e.Method, e.Err)
}
func (e *LostAnswer) Unwrap() error { return e.Err }

// Unavailable is a read that failed each time.
type Unavailable struct {
	Host  string
	Tries int
	Err   error
}

func (e *Unavailable) Error() string {
	return fmt.Sprintf("%s does not answer properly (%d tries): %v", e.Host, e.Tries, e.Err)
}
func (e *Unavailable) Unwrap() error { return e.Err }

type retryKey struct{}

// repeatable marks a write that can be made twice without harm.
func repeatable(ctx context.Context) context.Context { return context.WithValue(ctx, retryKey{}, true) }

// transport adds the token, follows redirects, waits for rate limits, repeats
// what can be repeated and answers from the cache what has not changed.
type transport struct {
	api   *url.URL
	o     *Options
	cache *answers

	mu        sync.Mutex
	lastWrite time.Time
	waited    time.Duration // for rate limits
}

// answer is a response whose body was read.
type answer struct {
	resp *http.Response
	body []byte
}

func (a *answer) response(req *http.Request) *http.Response {
	a.resp.Body = io.NopCloser(bytes.NewReader(a.body))
	a.resp.ContentLength = int64(len(a.body))
	a.resp.Request = req
	// go-github would refuse the next request by itself, without a wait; limits
	// are this transport's business.
	for _, h := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
		a.resp.Header.Del(h)
	}
	return a.resp
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	read := req.Method == http.MethodGet || req.Method == http.MethodHead
	again := read || ctx.Value(retryKey{}) != nil
	var last error
	var limited *LimitError
	for n := 0; n < t.o.Attempts; n++ {
		if !read {
			if err := t.gap(ctx); err != nil {
				return nil, err
			}
		}
		a, err := t.follow(ctx, req, body)
		if cerr := ctx.Err(); cerr != nil {
			return nil, cerr
		}
		var refuse *redirectError
		if errors.As(err, &refuse) {
			return nil, err
		}
		if err != nil {
			last, limited = err, nil
			if !again && !unsent(err) {
				return nil, &LostAnswer{Method: req.Method, Err: err}
			}
			if err := t.backoff(ctx, n, 0, firstWords(err)); err != nil {
				return nil, err
			}
			continue
		}
		switch code := a.resp.StatusCode; {
		case code == http.StatusTooManyRequests || code == http.StatusForbidden:
			lim, wait := t.limit(a, n)
			if lim == nil {
				return a.response(req), nil
			}
			// A request that was refused has done nothing: it can be repeated,
			// whatever its method.
			limited = lim
			if err := t.wait(ctx, lim, wait); err != nil {
				return nil, err
			}
		case code >= 500 && code != http.StatusNotImplemented:
			last, limited = fmt.Errorf("status %s", a.resp.Status), nil
			wait, _ := retryAfter(a.resp.Header, t.o.Now())
			if wait > t.o.MaxWait {
				return nil, &Unavailable{Host: t.api.Host, Tries: n + 1, Err: fmt.Errorf("status %s; it asks to come back in %v", a.resp.Status, wait)}
			}
			if !again {
				return nil, &LostAnswer{Method: req.Method, Wait: wait, Err: last}
			}
			if err := t.backoff(ctx, n, wait, a.resp.Status); err != nil {
				return nil, err
			}
		default:
			return a.response(req), nil
		}
	}
	if limited != nil {
		return nil, limited
	}
	if !again {
		// Only requests that were never sent come here.
		return nil, &Unavailable{Host: t.api.Host, Tries: t.o.Attempts, Err: last}
	}
	return nil, &Unavailable{Host: t.api.Host, Tries: t.o.Attempts, Err: last}
}

// gap keeps writes apart: GitHub takes faster ones for abuse.
func (t *transport) gap(ctx context.Context) error {
	t.mu.Lock()
	now := t.o.Now()
	wait := t.lastWrite.Add(t.o.WriteGap).Sub(now)
	if t.lastWrite.IsZero() || wait < 0 {
		wait = 0
	}
	t.lastWrite = now.Add(wait)
	t.mu.Unlock()
	if wait == 0 {
		return nil
	}
	return t.o.Sleep(ctx, wait)
}

// backoff waits after failure n (from 0): twice as long each time, up to a
// minute, with jitter so that many clients do not come back at once.
func (t *transport) backoff(ctx context.Context, n int, least time.Duration, why string) error {
	if n+1 >= t.o.Attempts {
		return nil // there is no next try to wait for
	}
	d := min(time.Second<<n, time.Minute)
	d = d/2 + time.Duration(t.o.Jitter()*float64(d/2))
	d = max(d, least)
	t.o.Log(fmt.Sprintf("%s: %s; trying again in %v", t.api.Host, t.o.Token.redact(why), d.Round(100*time.Millisecond)))
	return t.o.Sleep(ctx, d)
}

// limit tells a refusal because of a rate limit from others, and how long to
// wait. Sources: GitHub's REST documentation, "Rate limits" and "Best
// practices": Retry-After counts, then x-ratelimit-reset when nothing remains,
// then a minute and more.
func (t *transport) limit(a *answer, n int) (*LimitError, time.Duration) {
	now := t.o.Now()
	h := a.resp.Header
	lim := &LimitError{Token: t.o.Token.Set()}
	text := strings.ToLower(string(a.body))
	secondary := strings.Contains(text, "secondary rate limit") || strings.Contains(text, "abuse detection")
	var wait time.Duration
	if w, ok := retryAfter(h, now); ok {
		wait, lim.Secondary = w, true
	} else if h.Get("X-RateLimit-Remaining") == "0" && !secondary && (a.resp.StatusCode == http.StatusTooManyRequests || strings.Contains(text, "rate limit")) {
		reset, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64)
		if err != nil {
			reset = now.Add(time.Minute).Unix()
		}
		// A second more, because clocks differ and resets are whole seconds.
		wait = max(0, time.Unix(reset, 0).Sub(now)) + time.Second
	} else if secondary || a.resp.StatusCode == http.StatusTooManyRequests {
		wait, lim.Secondary = time.Minute<<n, true
	} else {
		return nil, 0
	}
	lim.Until = now.Add(wait)
	return lim, wait
}

// wait sleeps until a limit is over, if that is short enough.
func (t *transport) wait(ctx context.Context, lim *LimitError, d time.Duration) error {
	t.mu.Lock()
	t.waited += d
	long := t.waited > t.o.MaxWait
	t.mu.Unlock()
	if long {
		return lim
	}
	t.o.Log(fmt.Sprintf("%s: rate limit reached; waiting %v", t.api.Host, d.Round(time.Second)))
	return t.o.Sleep(ctx, d)
}

func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	s := h.Get("Retry-After")
	if s == "" {
		return 0, false
	}
	if n, err := strconv.Atoi(s); err == nil && n >= 0 {
		return time.Duration(n) * time.Second, true
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(0, at.Sub(now)), true
	}
	return time.Minute, true
}

// unsent tells errors that come before a byte was sent.
func unsent(err error) bool {
	var oe *net.OpError
	return errors.As(err, &oe) && oe.Op == "dial"
}

type redirectError struct{ msg string }

func (e *redirectError) Error() string { return e.msg }

// follow makes one request and follows redirects: GitHub answers so for
// renamed and moved repositories. Method and body stay the same, also for 301
// and 302, where net/http would turn a POST into a GET: a write that became a
// read would look like a success. A write does not leave the API's origin; a
// read may, without the token.
func (t *transport) follow(ctx context.Context, req *http.Request, body []byte) (*answer, error) {
	u := req.URL
	for hop := 0; ; hop++ {
		a, err := t.once(ctx, req, u, body)
		if err != nil {
			return nil, err
		}
		switch a.resp.StatusCode {
		case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		default:
			return a, nil
		}
		loc, err := a.resp.Location()
		if err != nil {
			return nil, &redirectError{fmt.Sprintf("%s answers with a redirect to nowhere", u.Host)}
		}
		switch {
		case hop+1 >= maxHops:
			return nil, &redirectError{fmt.Sprintf("%s redirects in circles", u.Host)}
		case origin(loc) == origin(t.api):
		case req.Method != http.MethodGet && req.Method != http.MethodHead:
			return nil, &redirectError{fmt.Sprintf("%s redirects a %s to another host (%s), which is refused: set --api to where the repository is now", u.Host, req.Method, loc.Host)}
		case loc.Scheme != "https" && !loopback(loc.Hostname()):
			return nil, &redirectError{fmt.Sprintf("%s redirects to %s without encryption, which is refused", u.Host, loc.Host)}
		}
		u = loc
	}
}

// once makes one request and reads its whole answer.
func (t *transport) once(ctx context.Context, req *http.Request, u *url.URL, body []byte) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.Timeout)
	defer cancel()
	r := req.Clone(ctx)
	r.URL, r.Host = u, ""
	r.Body = nil
	if body != nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.ContentLength = int64(len(body))
	}
	r.Header.Del("Authorization")
	ours := origin(u) == origin(t.api)
	if ours && t.o.Token.Set() {
		r.Header.Set("Authorization", "Bearer "+t.o.Token.text)
	}
	key := ""
	var old *kept
	if ours && r.Method == http.MethodGet {
		key = u.String() + "\n" + r.Header.Get("Accept")
		if old = t.cache.get(key); old != nil {
			r.Header.Set("If-None-Match", old.ETag)
		}
	}
	resp, err := t.o.Base.RoundTrip(r)
	if err != nil {
		if ctx.Err() == context.DeadlineExceeded {
			err = fmt.Errorf("no answer within %v", t.o.Timeout)
		}
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		if ctx.Err() == context.DeadlineExceeded {
			err = fmt.Errorf("the answer was not whole within %v", t.o.Timeout)
		}
		return nil, fmt.Errorf("the answer broke off: %w", err)
	}
	if len(b) > maxBody {
		return nil, fmt.Errorf("the answer is larger than %d MiB", maxBody>>20)
	}
	if resp.StatusCode == http.StatusNotModified && old != nil {
		resp.StatusCode, resp.Status = old.Status, fmt.Sprintf("%d %s", old.Status, http.StatusText(old.Status))
		for k, v := range old.Header {
			resp.Header[k] = v
		}
		return &answer{resp, old.Body}, nil
	}
	if resp.StatusCode >= 400 {
		b = []byte(t.o.Token.redact(string(b)))
	}
	if key != "" && resp.StatusCode == http.StatusOK && resp.Header.Get("ETag") != "" {
		t.cache.put(key, resp, b)
	}
	return &answer{resp, b}, nil
}

func firstWords(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

// answers keeps what GitHub answered, with the tag that tells whether it still
// holds. Keys contain a hash of the token: another account may see other
// things under the same address.
type answers struct {
	dir, account string
	mu           sync.Mutex
	mem          map[string]*kept
	swept        sync.Once
}

// Bounds of what is kept on disk: the size of one answer in bytes, and how
// long since it was last new.
const (
	maxKept = 256 << 10
	maxAge  = 30 * 24 * time.Hour
)

// sweep removes old answers.
func (c *answers) sweep() {
	ents, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	for _, e := range ents {
		if fi, err := e.Info(); err == nil && fi.Mode().IsRegular() && time.Since(fi.ModTime()) > maxAge {
			os.Remove(filepath.Join(c.dir, e.Name()))
		}
	}
}

type kept struct {
	Key    string
	ETag   string
	Status int
	Header http.Header // those that matter: Content-Type, Link, ETag
	Body   []byte
}

func newAnswers(dir string, tok Token) *answers {
	h := sha256.Sum256([]byte("account\n" + tok.text))
	return &answers{dir: dir, account: hex.EncodeToString(h[:8]), mem: map[string]*kept{}}
}

func (c *answers) path(key string) string {
	h := sha256.Sum256([]byte(c.account + "\n" + key))
	return filepath.Join(c.dir, hex.EncodeToString(h[:16])+".json")
}

func (c *answers) get(key string) *kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.mem[key]; k != nil || c.dir == "" {
		return k
	}
	b, err := os.ReadFile(c.path(key))
	k := &kept{}
	if err != nil || json.Unmarshal(b, k) != nil || k.Key != c.account+"\n"+key {
		return nil
	}
	c.mem[key] = k
	return k
}

func (c *answers) put(key string, resp *http.Response, body []byte) {
	k := &kept{Key: c.account + "\n" + key, ETag: resp.Header.Get("ETag"), Status: resp.StatusCode, Header: http.Header{}, Body: body}
	for _, h := range []string{"Content-Type", "Link", "Etag"} {
		if v := resp.Header.Values(h); len(v) > 0 {
			k.Header[h] = v
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mem[key] = k
	if c.dir == "" || len(body) > maxKept {
		return
	}
	c.swept.Do(c.sweep)
	// A cache that cannot be written costs requests, nothing else.
	b, err := json.Marshal(k)
	if err != nil || os.MkdirAll(c.dir, 0o700) != nil {
		return
	}
	tmp, err := os.CreateTemp(c.dir, ".tmp-")
	if err != nil {
		return
	}
	_, err = tmp.Write(b)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), c.path(key))
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
}
