// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestListener(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		listen string
		expose bool
		want   string // of the error
	}{
		{"127.0.0.1:0", false, ""},
		{"localhost:0", false, ""},
		{"0.0.0.0:0", false, "--expose"},
		{":0", false, "--expose"},
		{"0.0.0.0:0", true, ""},
		{"127.0.0.1", false, "HOST:PORT"},
		{"unix:", false, "needs a path"},
		{"unix:" + file, false, "no socket"},
		{"unix:" + filepath.Join(dir, "sock"), false, ""},
		{"unix:" + filepath.Join(dir, "no", "sock"), false, "cannot listen"},
	} {
		l, name, err := listener(c.listen, c.expose)
		if c.want == "" {
			if err != nil || name == "" {
				t.Errorf("%s: %v", c.listen, err)
				continue
			}
			if c.listen[:4] == "unix" {
				if fi, err := os.Stat(c.listen[5:]); err != nil || fi.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v %v", c.listen, fi.Mode(), err)
				}
				if _, _, err := listener(c.listen, false); err == nil || !strings.Contains(err.Error(), "another process") {
					t.Errorf("a socket in use: %v", err)
				}
			}
			l.Close()
			continue
		}
		var ee *exitError
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, &ee) || ee.code != exitUsage {
			t.Errorf("%s: %v, want %q", c.listen, err, c.want)
		}
	}
	// The socket of a process that was killed is replaced.
	path := filepath.Join(dir, "old")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	l2, _, err := listener("unix:"+path, false)
	if err != nil {
		t.Fatal(err)
	}
	l2.Close()
}

// Who follows a run does not keep the server from ending.
func TestServeEnds(t *testing.T) {
	l, name, err := listener("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "here\n")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
	}()
	res, err := http.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("does not end")
	}
}
