// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"patchcheck/internal/site"
)

func (a *app) serveCmd() *cobra.Command {
	var h historyFlag
	var listen string
	var expose bool
	var hosts []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Show the history, the runs and what runs now in a browser",
		Long: `Serve the pages of "patchcheck site build" from the history and the run
folders, always current, and follow running jobs as they go. Nothing can be
changed through it.

It listens on this machine only (--listen 127.0.0.1:0 picks a free port and
prints it), or on a unix socket (--listen unix:PATH, mode 0600), for example
behind ssh -L or a web server that asks for a password. An address that other
machines reach needs --expose, because there is no password here; requests
must then name the server by an IP address or by a --host.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := h.path()
			if err != nil {
				return err
			}
			open := h.read
			if _, err := os.Stat(p); errors.Is(err, fs.ErrNotExist) {
				open = h.write // the first run is yet to come
			}
			db, err := open(cmd.Context())
			if err != nil {
				return err
			}
			defer db.Close()
			runs, err := a.runsDir()
			if err != nil {
				return err
			}
			l, name, err := listener(listen, expose)
			if err != nil {
				return err
			}
			s := &site.Server{DB: db, Runs: runs, Tool: version(), Rule: ruleByID, Hosts: hosts, AnyIP: expose,
				Log: func(line string) { fmt.Fprintln(a.stderr, "patchcheck: "+line) }}
			if l.Addr().Network() != "unix" {
				s.Hosts = append(s.Hosts, site.HostsFor(l.Addr().String())...)
			} else if len(hosts) == 0 {
				s.Hosts = nil // no web page reaches a socket
			}
			fmt.Fprintf(a.stderr, "patchcheck: serving %s (Ctrl-C ends it)\n", name)
			return serve(cmd.Context(), l, s)
		},
	}
	h.add(cmd)
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address, or unix:PATH")
	cmd.Flags().BoolVar(&expose, "expose", false, "allow an address that other machines reach")
	cmd.Flags().StringArrayVar(&hosts, "host", nil, "a further NAME[:PORT] under which the server may be asked")
	return cmd
}

// listener opens what --listen names, and gives it a name for people.
func listener(listen string, expose bool) (net.Listener, string, error) {
	if path, ok := strings.CutPrefix(listen, "unix:"); ok {
		if path == "" {
			return nil, "", usageError("--listen unix: needs a path")
		}
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, "", err
		}
		if fi, err := os.Lstat(path); err == nil {
			if fi.Mode().Type() != fs.ModeSocket {
				return nil, "", usageError("%s is there and no socket", path)
			}
			if c, err := net.Dial("unix", path); err == nil {
				c.Close()
				return nil, "", usageError("another process serves on %s", path)
			}
			if err := os.Remove(path); err != nil { // of a process that was killed
				return nil, "", usageError("cannot replace the old socket: %v", err)
			}
		}
		// Nobody else may connect, from the first moment on.
		old := unix.Umask(0o177)
		l, err := net.Listen("unix", path)
		unix.Umask(old)
		if err != nil {
			return nil, "", usageError("cannot listen on %s: %v", path, err)
		}
		return l, listen, nil
	}
	if _, _, err := net.SplitHostPort(listen); err != nil {
		return nil, "", usageError("--listen %s is no address: write HOST:PORT or unix:PATH", listen)
	}
	if !site.Loopback(listen) && !expose {
		return nil, "", usageError("other machines can reach %s, and there is no password here: listen on 127.0.0.1:0 or unix:PATH, or say --expose", listen)
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, "", usageError("cannot listen on %s: %v", listen, err)
	}
	return l, "http://" + l.Addr().String() + "/", nil
}

// serve answers until ctx is done. Readers that follow a run are let go then.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    log.New(io.Discard, "", 0)}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := srv.Shutdown(end)
	if serr := <-done; serr != nil && !errors.Is(serr, http.ErrServerClosed) {
		return serr
	}
	return err
}
