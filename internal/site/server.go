// SPDX-License-Identifier: Apache-2.0

package site

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/history"
	"patchcheck/internal/page"
	"patchcheck/internal/runfolder"
)

// maxWatchers bounds the connections that follow runs.
const maxWatchers = 64

// Server shows the history, the runs and what runs now. It answers GET and
// HEAD only and changes nothing.
type Server struct {
	DB   *history.DB
	Runs string // folder of run folders
	Tool string
	Rule func(id string) (checks.Rule, bool)
	// Hosts are the names under which the server may be asked, with port, or
	// without for any; a name that some web page had resolved to this address
	// is refused. Empty:
	// any, for a unix socket, which no web page reaches.
	Hosts []string
	// AnyIP also takes IP addresses as Host: no name was resolved then.
	AnyIP bool
	// Interval is how often a running job's progress is looked at.
	Interval time.Duration
	Log      func(line string) // of what went wrong; may be nil

	mu       sync.Mutex
	data     *Data
	dataKey  string
	watchers chan struct{}
	once     sync.Once
}

// Loopback says whether a TCP address can be reached from this machine only.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// HostsFor are the names under which a server at a TCP address may be asked.
func HostsFor(addr string) []string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil
	}
	hosts := []string{net.JoinHostPort(host, port)}
	if Loopback(addr) {
		hosts = append(hosts, "localhost:"+port, "127.0.0.1:"+port, "[::1]:"+port)
	}
	return hosts
}

// statusError is an answer that is not the page that was asked for.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }

func notFound(format string, args ...any) error {
	return &statusError{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.once.Do(func() { s.watchers = make(chan struct{}, maxWatchers) })
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	err := s.serve(w, r)
	if err == nil {
		return
	}
	var se *statusError
	if !errors.As(err, &se) {
		if r.Context().Err() != nil {
			return // the reader went away
		}
		if s.Log != nil {
			s.Log(fmt.Sprintf("%s: %v", clean(r.URL.Path), err))
		}
		// What went wrong may name files of this machine.
		se = &statusError{http.StatusInternalServerError, "the page cannot be made; the terminal of patchcheck serve says why"}
	}
	if se.code == http.StatusMethodNotAllowed {
		h.Set("Allow", "GET, HEAD")
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Del("ETag")
	w.WriteHeader(se.code)
	if r.Method != http.MethodHead {
		fmt.Fprintln(w, se.text)
	}
}

// allowed says whether the request names us by a name of ours.
func (s *Server) allowed(host string) bool {
	if len(s.Hosts) == 0 {
		return true
	}
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	for _, h := range s.Hosts {
		if strings.EqualFold(h, host) || !strings.Contains(h, ":") && strings.EqualFold(h, name) {
			return true
		}
	}
	if s.AnyIP {
		_, err = netip.ParseAddr(name)
		return err == nil
	}
	return false
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) error {
	if !s.allowed(r.Host) {
		return &statusError{http.StatusMisdirectedRequest, "this server does not answer to that name: ask it by the address that patchcheck serve printed"}
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return &statusError{http.StatusMethodNotAllowed, "nothing can be changed here"}
	}
	p := r.URL.Path
	if p != path.Clean(p) && p != path.Clean(p)+"/" {
		return notFound("there is no such page")
	}
	first, rest, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	switch {
	case p == "/" || p == "/index.html":
		return s.index(w, r)
	case first == "cells" && rest != "":
		return s.cell(w, r, p[1:])
	case first == "runs" && strings.HasSuffix(rest, ".html") && !strings.Contains(rest, "/"):
		return s.run(w, r, strings.TrimSuffix(rest, ".html"))
	case first == "runs":
		id, file, ok := strings.Cut(rest, "/")
		if !ok || file == "" {
			return notFound("there is no such page")
		}
		return s.file(w, r, id, file)
	case first == "live":
		id, tail, _ := strings.Cut(rest, "/")
		switch tail {
		case "":
			return s.live(w, r, id)
		case "events":
			return s.events(w, r, id)
		}
	}
	return notFound("there is no such page")
}

// reply sends a page. csp takes the place of the policy that allows nothing.
func reply(w http.ResponseWriter, r *http.Request, body []byte, csp string) error {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", csp+"; frame-ancestors 'none'")
	h.Set("ETag", etag(body))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	return nil
}

// load gives the history's data; it is read anew only when the file changed.
func (s *Server) load(ctx context.Context) (*Data, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := ""
	for _, suffix := range []string{"", "-wal"} {
		if fi, err := os.Stat(s.DB.Path() + suffix); err == nil {
			key += fmt.Sprintf("%d %d;", fi.Size(), fi.ModTime().UnixNano())
		}
	}
	if s.data != nil && key == s.dataKey {
		return s.data, nil
	}
	// Another reader may wait for the same: that this one leaves must not spoil
	// the work for it.
	d, err := Load(context.WithoutCancel(ctx), s.DB, time.Now())
	if err != nil {
		return nil, err
	}
	s.data, s.dataKey = d, key
	return d, nil
}

func (s *Server) options() Options {
	return Options{Tool: s.Tool, Rule: s.Rule, Page: func(id string) bool {
		_, err := os.Stat(filepath.Join(s.Runs, id, "run.json"))
		return err == nil
	}}
}

func (s *Server) index(w http.ResponseWriter, r *http.Request) error {
	d, err := s.load(r.Context())
	if err != nil {
		return err
	}
	o := s.options()
	if o.Live, err = s.running(); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := d.index(&b, o); err != nil {
		return err
	}
	return reply(w, r, b.Bytes(), page.Policy(css, themeJS+indexJS, ""))
}

func (s *Server) cell(w http.ResponseWriter, r *http.Request, name string) error {
	d, err := s.load(r.Context())
	if err != nil {
		return err
	}
	for _, g := range d.Groups {
		for _, c := range g.Cells {
			if cellPath(g.Target, c.ID) != name {
				continue
			}
			var b bytes.Buffer
			if err := d.cell(&b, g, c, s.options()); err != nil {
				return err
			}
			return reply(w, r, b.Bytes(), page.Policy(css, themeJS, ""))
		}
	}
	return notFound("there is no such cell")
}

// open opens a run of ours by its id.
func (s *Server) open(id string) (*runfolder.Run, error) {
	if !validRun(id) {
		return nil, notFound("there is no such run")
	}
	r, err := runfolder.Open(filepath.Join(s.Runs, id))
	if err != nil {
		if _, serr := os.Stat(filepath.Join(s.Runs, id, "run.json")); errors.Is(serr, fs.ErrNotExist) {
			return nil, notFound("there is no such run")
		}
		return nil, err
	}
	return r, nil
}

func (s *Server) run(w http.ResponseWriter, r *http.Request, id string) error {
	rec, err := s.open(id)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := page.Write(&b, rec, page.Options{Rule: s.Rule}); err != nil {
		return err
	}
	// The page itself names its one script and style by their hashes; both
	// policies hold.
	return reply(w, r, b.Bytes(), "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'")
}

// shownFiles are the parts of a run folder that may be read as text.
var shownFiles = map[string]bool{"console": true, "logs": true, "cells": true, "series": true, "run.json": true, "commands.sh": true, "report.txt": true, runfolder.ProgressName: true}

// file sends a file of a run folder as plain text. Symbolic links and names
// that lead out of the folder are refused by os.Root.
func (s *Server) file(w http.ResponseWriter, r *http.Request, id, name string) error {
	top, _, _ := strings.Cut(name, "/")
	if !validRun(id) || !shownFiles[top] || !filepath.IsLocal(filepath.FromSlash(name)) {
		return notFound("there is no such file")
	}
	runs, err := os.OpenRoot(s.Runs)
	if err != nil {
		return notFound("there is no such file")
	}
	defer runs.Close()
	root, err := runs.OpenRoot(id)
	if err != nil {
		return notFound("there is no such file")
	}
	defer root.Close()
	// Asked before it is opened: opening a pipe would wait for its writer.
	if fi, err := root.Lstat(filepath.FromSlash(name)); err != nil || !fi.Mode().IsRegular() {
		return notFound("there is no such file")
	}
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return notFound("there is no such file")
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return notFound("there is no such file")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	http.ServeContent(w, r, "", fi.ModTime(), f)
	return nil
}

// running lists the runs that a process works on.
func (s *Server) running() ([]Running, error) {
	ents, err := os.ReadDir(s.Runs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []Running
	for _, e := range ents {
		if !e.IsDir() || !validRun(e.Name()) || !runfolder.Working(filepath.Join(s.Runs, e.Name())) {
			continue
		}
		r, err := runfolder.Open(filepath.Join(s.Runs, e.Name()))
		if err != nil || r.Finished() {
			continue
		}
		out = append(out, Running{ID: r.ID, Title: r.Series.Title, Started: r.Started})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Started.After(out[j].Started) })
	return out, nil
}

func (s *Server) live(w http.ResponseWriter, r *http.Request, id string) error {
	rec, err := s.open(id)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := live(&b, rec, s.options(), time.Now()); err != nil {
		return err
	}
	return reply(w, r, b.Bytes(), page.Policy(css, themeJS+liveJS, "; connect-src 'self'"))
}

// events sends the progress of a run as server-sent events, from its beginning
// on, as the browser's EventSource reads them. After a lost connection it
// begins again: the first event says so. The last is "close", when the run
// ended or its process is gone.
func (s *Server) events(w http.ResponseWriter, r *http.Request, id string) error {
	if !validRun(id) {
		return notFound("there is no such run")
	}
	dir := filepath.Join(s.Runs, id)
	if _, err := os.Stat(filepath.Join(dir, "run.json")); err != nil {
		return notFound("there is no such run")
	}
	select {
	case s.watchers <- struct{}{}:
		defer func() { <-s.watchers }()
	default:
		return &statusError{http.StatusServiceUnavailable, "too many are watching"}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return nil
	}
	rc := http.NewResponseController(w)
	rc.SetWriteDeadline(time.Time{})
	var mu sync.Mutex // the heart-beat writes, too
	send := func(text string) error {
		mu.Lock()
		defer mu.Unlock()
		rc.SetWriteDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
		return rc.Flush()
	}
	if err := send("retry: 2000\n\nevent: reset\ndata: {}\n\n"); err != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	var beat sync.WaitGroup
	beat.Go(func() {
		t := time.NewTicker(15 * time.Second)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				if send(": here\n\n") != nil {
					cancel()
					return
				}
			}
		}
	})
	interval := s.Interval
	if interval <= 0 {
		interval = 500 * time.Millisecond
	}
	err := runfolder.Follow(ctx, dir, interval, func(e runfolder.Event) error {
		e.Detail, e.Reason, e.Step, e.Cell = clean(e.Detail), clean(e.Reason), clean(e.Step), clean(e.Cell)
		j, err := json.Marshal(e) // one line: JSON has no raw line ends
		if err != nil {
			return err
		}
		return send("data: " + string(j) + "\n\n")
	})
	if err == nil {
		err = send("event: close\ndata: {}\n\n")
	}
	cancel()
	beat.Wait()
	return nil // the answer has begun: nothing more can be said of an error
}
