// SPDX-License-Identifier: Apache-2.0

// Package guestssh owns the host's end of the SSH connection to a guest, and
// the keys of both ends. One connection carries many sessions; there is no
// second connection, because a virtio-serial port keeps stale bytes of the
// first. It is the only importer of golang.org/x/crypto/ssh on the host.
//
// It does not know verbs; package vm speaks those.
package guestssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"patchcheck/internal/guestproto"
)

// ErrLost means that the connection or a session on it ended without an exit
// status: the guest's PID 1 or the whole guest is gone.
var ErrLost = errors.New("the guest ended the session without an exit status")

// User is the name that is sent; the guest checks keys, not names.
const User = "root"

// Status is how a command in the guest ended.
type Status struct {
	Exit   int    // exit status; 128+n after a signal
	Signal string // "KILL", "SEGV", ... without SIG; "" when it exited
}

// OK says that the command exited with 0.
func (s Status) OK() bool { return s.Exit == 0 && s.Signal == "" }

func (s Status) String() string {
	if s.Signal != "" {
		return "killed by signal " + s.Signal
	}
	return fmt.Sprintf("exit status %d", s.Exit)
}

// Client is one authenticated connection.
type Client struct {
	c *ssh.Client
}

// Dial runs the handshake over conn, which it owns from now on. It ends with
// ctx even if the guest never says a word.
func Dial(ctx context.Context, conn net.Conn, keys Keys) (*Client, error) {
	// The handshake knows no context; a deadline in the past ends its reads.
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	cc, chans, reqs, err := ssh.NewClientConn(conn, "guest", &ssh.ClientConfig{
		User:              User,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(keys.Client)},
		HostKeyCallback:   ssh.FixedHostKey(keys.Host),
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
	})
	if !stop() {
		// ctx ended: the deadline may have been set after the handshake.
		if err == nil {
			cc.Close()
		}
		conn.Close()
		return nil, fmt.Errorf("SSH handshake with the guest: %w", context.Cause(ctx))
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("SSH handshake with the guest: %w", err)
	}
	return &Client{c: ssh.NewClient(cc, chans, reqs)}, nil
}

// Close drops the connection and every session on it.
func (c *Client) Close() error { return c.c.Close() }

// Wait blocks until the connection has ended.
func (c *Client) Wait() error { return c.c.Wait() }

// Ping asks the guest for a sign of life. Any answer will do.
func (c *Client) Ping(ctx context.Context) error {
	done := make(chan error, 1)
	go func() {
		// A refusal is an answer too.
		_, _, err := c.c.SendRequest("keepalive@openssh.com", true, nil)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("guest does not answer SSH keepalives: %w", context.Cause(ctx))
	}
}

// SetClock makes the guest's clock ours. It says whether the guest did.
func (c *Client) SetClock(ctx context.Context) (bool, error) {
	type answer struct {
		ok  bool
		err error
	}
	done := make(chan answer, 1)
	go func() {
		ok, _, err := c.c.SendRequest(guestproto.RequestClock, true, ssh.Marshal(struct{ UnixNano uint64 }{uint64(time.Now().UnixNano())}))
		done <- answer{ok, err}
	}()
	select {
	case a := <-done:
		return a.ok, a.err
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// IO is what a session is connected to. Nil streams are empty or discarded.
type IO struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Run runs one exec request. A command that fails is a Status, not an error;
// errors are ErrLost (wrapped), ctx's, or a refusal by the guest.
//
// Run does not wait for Stdin to reach its end once the command has ended.
func (c *Client) Run(ctx context.Context, command string, std IO) (Status, error) {
	return c.session(ctx, std, func(s *ssh.Session) error { return s.Start(command) })
}

// Terminal is a terminal on our side: its kind and size, and a channel of
// sizes as the user changes them.
type Terminal struct {
	Term       string // $TERM
	Cols, Rows int
	Resize     <-chan [2]int // cols, rows; may be nil
}

// RunTerminal runs command, or a login shell when it is empty, on a pty in the
// guest.
func (c *Client) RunTerminal(ctx context.Context, command string, std IO, t Terminal) (Status, error) {
	return c.session(ctx, std, func(s *ssh.Session) error {
		if err := s.RequestPty(t.Term, t.Rows, t.Cols, ssh.TerminalModes{}); err != nil {
			return fmt.Errorf("guest gives no terminal: %w", err)
		}
		if t.Resize != nil {
			go func() {
				for size := range t.Resize {
					if s.WindowChange(size[1], size[0]) != nil {
						return
					}
				}
			}()
		}
		if command == "" {
			return s.Shell()
		}
		return s.Start(command)
	})
}

func (c *Client) session(ctx context.Context, std IO, start func(*ssh.Session) error) (Status, error) {
	type opened struct {
		s   *ssh.Session
		err error
	}
	ch := make(chan opened, 1)
	go func() {
		s, err := c.c.NewSession()
		ch <- opened{s, err}
	}()
	var s *ssh.Session
	select {
	case o := <-ch:
		if o.err != nil {
			var refused *ssh.OpenChannelError
			if errors.As(o.err, &refused) {
				return Status{Exit: -1}, fmt.Errorf("guest opens no session: %w", o.err)
			}
			return Status{Exit: -1}, fmt.Errorf("%w: %w", ErrLost, o.err)
		}
		s = o.s
	case <-ctx.Done():
		go func() {
			if o := <-ch; o.err == nil {
				o.s.Close()
			}
		}()
		return Status{Exit: -1}, context.Cause(ctx)
	}
	s.Stdout, s.Stderr = std.Stdout, std.Stderr
	if std.Stdout != nil && same(std.Stdout, std.Stderr) {
		// The two streams are copied by a goroutine each.
		w := &lockedWriter{w: std.Stdout}
		s.Stdout, s.Stderr = w, w
	}
	// The session's own copying of stdin makes Wait wait for it: a terminal
	// that nobody types at would keep it for ever.
	stdin, err := s.StdinPipe()
	if err != nil {
		s.Close()
		return Status{Exit: -1}, err
	}
	// A session knows no context. Close only asks the guest to close, so a
	// guest that is mute would keep Wait; hence the goroutine.
	done := make(chan error, 1)
	go func() {
		if err := start(s); err != nil {
			done <- err
			return
		}
		go func() {
			if std.Stdin != nil {
				io.Copy(stdin, std.Stdin)
			}
			stdin.Close()
		}()
		done <- s.Wait()
	}()
	select {
	case err = <-done:
		s.Close()
	case <-ctx.Done():
		// Writing to a guest that has stopped may block until the whole
		// connection is closed.
		go func() {
			s.Signal(ssh.SIGKILL)
			s.Close()
		}()
		return Status{Exit: -1}, context.Cause(ctx)
	}
	var exit *ssh.ExitError
	var missing *ssh.ExitMissingError
	switch {
	case err == nil:
		return Status{}, nil
	case errors.As(err, &exit):
		st := Status{Exit: exit.ExitStatus(), Signal: exit.Signal()}
		return st, nil
	case errors.As(err, &missing), errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrClosed):
		return Status{Exit: -1}, fmt.Errorf("%w: %w", ErrLost, err)
	}
	return Status{Exit: -1}, err
}

// same says whether both streams go to one writer, as os/exec sees it.
func same(a, b io.Writer) (eq bool) {
	defer func() { recover() }() // types that cannot be compared are not equal
	return a == b
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
