// SPDX-License-Identifier: Apache-2.0

package site

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchcheck/checks"
	"patchcheck/internal/runfolder"
)

// served is a server over a history of two nights.
func served(t *testing.T) (*Server, *runfolder.Run) {
	db, runs := openHistory(t), t.TempDir()
	record(t, db, runs, 0, pass, pass)
	r := record(t, db, runs, 1, pass, fail)
	for name, text := range map[string]string{"console/01-patched/console.log": "<b>boot</b>\n", "commands.sh": "make\n", "secret": "x", "lock": "1 2\n"} {
		p := r.Path(name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &Server{DB: db, Runs: runs, Tool: "v1", Hosts: []string{"127.0.0.1:8080", "localhost:8080"}, Interval: time.Millisecond}, r
}

func ask(s http.Handler, method, host, path string) *http.Response {
	req := httptest.NewRequest(method, "http://x/", nil)
	req.Host = host
	req.URL.Path, req.URL.RawPath = path, ""
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, req)
	return rec.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPages(t *testing.T) {
	s, r := served(t)
	cell := cellPath(s.mustLoad(t).Groups[0].Target, "patched/dev-1/v3")
	for path, want := range map[string]string{
		"/":                           "1 of 2 cells pass",
		"/index.html":                 "1 of 2 cells pass",
		"/" + cell:                    "Does not pass since 2026-01-02",
		"/runs/" + r.ID + ".html":     "small &lt;series&gt;",
		"/live/" + r.ID:               "small &lt;series&gt;",
		"/runs/" + r.ID + "/run.json": `"verdict": "FAIL"`,
		"/runs/" + r.ID + "/console/01-patched/console.log": "<b>boot</b>",
	} {
		res := ask(s, "GET", "localhost:8080", path)
		got := body(t, res)
		if res.StatusCode != 200 || !strings.Contains(got, want) {
			t.Errorf("%s: %d, lacks %q:\n%.300s", path, res.StatusCode, want, got)
		}
		csp := res.Header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || res.Header.Get("X-Content-Type-Options") != "nosniff" || res.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: headers %v", path, res.Header)
		}
		if strings.HasSuffix(path, ".log") || strings.HasSuffix(path, ".json") {
			if ct := res.Header.Get("Content-Type"); ct != "text/plain; charset=utf-8" {
				t.Errorf("%s is %s", path, ct)
			}
		}
		if res := ask(s, "HEAD", "localhost:8080", path); res.StatusCode != 200 || body(t, res) != "" {
			t.Errorf("HEAD %s: %d", path, res.StatusCode)
		}
	}
}

func (s *Server) mustLoad(t *testing.T) *Data {
	t.Helper()
	d, err := s.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestRefusals(t *testing.T) {
	s, r := served(t)
	outside := filepath.Join(filepath.Dir(s.Runs), "outside")
	if err := os.WriteFile(outside, []byte("outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, r.Path("logs", "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../..", r.Path("logs", "up")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(s.Runs), filepath.Join(s.Runs, "out")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(r.Path("logs", "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{
		"/nothing", "/runs", "/runs/", "/runs/x", "/cells/", "/cells/nothing.html", "/live/", "/live/nothing", "/live/" + r.ID + "/x", "/live/nothing/events",
		"/runs/nothing.html", "/runs/.html", "/runs/..html", "/runs/../run.json", "/runs/../../etc/passwd", "/../x", "//etc/passwd", "/runs//" + r.ID + ".html",
		"/runs/" + r.ID + "/", "/runs/" + r.ID + "/console", "/runs/" + r.ID + "/console/", "/runs/" + r.ID + "/secret", "/runs/" + r.ID + "/lock",
		"/runs/" + r.ID + "/logs/link", "/runs/" + r.ID + "/logs/up/outside", "/runs/" + r.ID + "/logs/pipe", "/runs/" + r.ID + "/logs/../secret", "/runs/" + r.ID + "/console/../../../outside",
		"/runs/" + r.ID + "/console/..\x00", "/runs/out/logs/x", "/runs/./" + r.ID + "/run.json", "/runs/" + r.ID + "/logs\\..\\secret",
	} {
		res := ask(s, "GET", "localhost:8080", p)
		if got := body(t, res); res.StatusCode != 404 || strings.Contains(got, "outside") || strings.Contains(got, s.Runs) {
			t.Errorf("%q: %d %.100s", p, res.StatusCode, got)
		}
	}
	// Names that a web page of somebody else may have resolved to us.
	for _, host := range []string{"evil.example", "evil.example:8080", "localhost", "localhost:9", "127.0.0.1", "", "192.0.2.1:8080", "localhost:8080.evil.example"} {
		if res := ask(s, "GET", host, "/"); res.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("host %q: %d", host, res.StatusCode)
		}
	}
	if res := ask(s, "GET", "LOCALHOST:8080", "/"); res.StatusCode != 200 {
		t.Errorf("a name in capitals: %d", res.StatusCode)
	}
	open := &Server{DB: s.DB, Runs: s.Runs, Hosts: []string{"0.0.0.0:1", "ci.example.org"}, AnyIP: true}
	for host, code := range map[string]int{"192.0.2.1:8080": 200, "[2001:db8::1]:80": 200, "[::1]": 200, "ci.example.org": 200, "CI.example.org:443": 200, "x.ci.example.org": 421, "evil.example": 421, "192.0.2.1.evil.example": 421} {
		if res := ask(open, "GET", host, "/"); res.StatusCode != code {
			t.Errorf("any IP, host %q: %d, want %d", host, res.StatusCode, code)
		}
	}
	for _, m := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"} {
		if res := ask(s, m, "localhost:8080", "/"); res.StatusCode != 405 || res.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d", m, res.StatusCode)
		}
	}
	// What breaks is told to the terminal, not to the reader.
	var said []string
	s.Log = func(l string) { said = append(said, l) }
	if err := os.WriteFile(r.Path("run.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	res := ask(s, "GET", "localhost:8080", "/runs/"+r.ID+".html")
	if got := body(t, res); res.StatusCode != 500 || strings.Contains(got, s.Runs) || len(said) != 1 || !strings.Contains(said[0], "damaged") {
		t.Errorf("%d %s, %q", res.StatusCode, got, said)
	}
}

// The index shows new runs as soon as the history has them, and is not made
// anew without need.
func TestIndexIsFresh(t *testing.T) {
	s, _ := served(t)
	a := s.mustLoad(t)
	if b := s.mustLoad(t); a != b {
		t.Error("read again without need")
	}
	record(t, s.DB, s.Runs, 2, pass, pass)
	if got := body(t, ask(s, "GET", "localhost:8080", "/")); !strings.Contains(got, "Night of 2026-01-03") {
		t.Errorf("%.500s", got)
	}
}

func TestLive(t *testing.T) {
	s, _ := served(t)
	r, err := runfolder.Create(s.Runs, firstNight.AddDate(0, 0, 9), "now running")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.Series.Title = "now running"
	if err := r.Save(); err != nil {
		t.Fatal(err)
	}
	if err := r.BeginProgress(time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := body(t, ask(s, "GET", "localhost:8080", "/")); !strings.Contains(got, `href="live/`+r.ID) {
		t.Error("the index does not show what runs")
	}
	srv := httptest.NewServer(s)
	defer srv.Close()
	s.Hosts = HostsFor(strings.TrimPrefix(srv.URL, "http://"))
	res, err := http.Get(srv.URL + "/live/" + r.ID + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if ct := res.Header.Get("Content-Type"); res.StatusCode != 200 || ct != "text/event-stream" {
		t.Fatalf("%d %s", res.StatusCode, ct)
	}
	sc := bufio.NewScanner(res.Body)
	next := func() (name string, e runfolder.Event) {
		t.Helper()
		name = "message"
		for sc.Scan() {
			switch l := sc.Text(); {
			case strings.HasPrefix(l, "event: "):
				name = l[7:]
			case strings.HasPrefix(l, "data: "):
				if err := json.Unmarshal([]byte(l[6:]), &e); err != nil {
					t.Fatal(err)
				}
				return name, e
			}
		}
		t.Fatalf("the events end: %v", sc.Err())
		return
	}
	if name, _ := next(); name != "reset" {
		t.Errorf("first: %s", name)
	}
	if _, e := next(); e.Kind != runfolder.EventBegin {
		t.Errorf("%+v", e)
	}
	// What a series says cannot break out of its line.
	r.Progress(runfolder.Event{Kind: runfolder.EventStep, Step: "series", Detail: "evil\r\n\r\ndata: {\"kind\":\"end\"}\x1b[31m\u2028"})
	if _, e := next(); e.Kind != runfolder.EventStep || strings.ContainsAny(e.Detail, "\n\r\x1b\u2028") {
		t.Errorf("%+v", e)
	}
	r.SaveCell(&runfolder.Cell{ID: "patched/a/v3", Verdict: checks.Pass})
	if _, e := next(); e.Kind != runfolder.EventCell || e.Verdict != checks.Pass {
		t.Errorf("%+v", e)
	}
	r.Verdict = checks.Pass
	if err := r.Save(); err != nil {
		t.Fatal(err)
	}
	if _, e := next(); e.Kind != runfolder.EventEnd {
		t.Errorf("%+v", e)
	}
	r.Close()
	if name, _ := next(); name != "close" {
		t.Errorf("last: %s", name)
	}
	// A reader who leaves frees his place.
	for range 3 * maxWatchers {
		res := ask(s, "GET", s.Hosts[0], "/live/"+r.ID+"/events")
		if res.StatusCode != 200 {
			t.Fatalf("%d", res.StatusCode)
		}
	}
}

func TestTooManyWatchers(t *testing.T) {
	s, r := served(t)
	s.once.Do(func() { s.watchers = make(chan struct{}) }) // no place at all
	if res := ask(s, "GET", "localhost:8080", "/live/"+r.ID+"/events"); res.StatusCode != 503 {
		t.Errorf("%d", res.StatusCode)
	}
}

func TestLoopback(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:0": true, "localhost:80": true, "[::1]:8": true, "127.9.9.9:1": true, "[::ffff:127.0.0.1]:1": true,
		"0.0.0.0:1": false, ":8080": false, "[::]:1": false, "192.0.2.1:1": false, "example.org:1": false, "localhost.example.org:1": false, "127.0.0.1": false, "": false} {
		if Loopback(addr) != want {
			t.Errorf("%q: %v", addr, !want)
		}
	}
}
