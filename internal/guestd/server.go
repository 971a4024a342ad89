// SPDX-License-Identifier: Apache-2.0

package guestd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"patchcheck/internal/guestproto"
)

// Server is the SSH end in the guest. It serves one connection: the port that
// carries it cannot be reopened cleanly.
type Server struct {
	Registry *Registry
	Shell    string   // /bin/sh
	Env      []string // of commands
	Dir      string   // they start in

	// SetClock, if set, sets the system's clock to the host's.
	SetClock func(unixNano int64) error

	config *ssh.ServerConfig
}

// NewServer makes a server that has the given host key (PEM) and lets in the
// holder of the one authorized key, by whatever name.
func NewServer(hostKeyPEM, authorizedKey []byte, reg *Registry) (*Server, error) {
	host, err := ssh.ParsePrivateKey(hostKeyPEM)
	if err != nil {
		return nil, fmt.Errorf("host key: %w", err)
	}
	want, _, _, _, err := ssh.ParseAuthorizedKey(authorizedKey)
	if err != nil {
		return nil, fmt.Errorf("authorized key: %w", err)
	}
	config := &ssh.ServerConfig{
		ServerVersion: "SSH-2.0-patchcheck",
		PublicKeyCallback: func(_ ssh.ConnMetadata, got ssh.PublicKey) (*ssh.Permissions, error) {
			if !bytes.Equal(got.Marshal(), want.Marshal()) {
				return nil, errors.New("not the key of this run")
			}
			return nil, nil
		},
	}
	config.AddHostKey(host)
	return &Server{Registry: reg, Shell: "/bin/sh", Env: os.Environ(), Dir: "/", config: config}, nil
}

// Serve runs the handshake and then sessions until the connection ends.
func (s *Server) Serve(conn net.Conn) error {
	sc, chans, reqs, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		return fmt.Errorf("SSH handshake: %w", err)
	}
	go s.global(reqs)
	for nc := range chans {
		if nc.ChannelType() != "session" {
			nc.Reject(ssh.UnknownChannelType, "only sessions")
			continue
		}
		ch, reqs, err := nc.Accept()
		if err != nil {
			continue
		}
		go (&session{server: s, ch: ch}).run(reqs)
	}
	return sc.Wait()
}

// global serves requests that belong to no session. Unknown ones are answered
// with a refusal, which is all that a keepalive asks for.
func (s *Server) global(reqs <-chan *ssh.Request) {
	for req := range reqs {
		ok := false
		if req.Type == guestproto.RequestClock && s.SetClock != nil {
			var p struct{ UnixNano uint64 }
			ok = ssh.Unmarshal(req.Payload, &p) == nil && s.SetClock(int64(p.UnixNano)) == nil
		}
		if req.WantReply {
			req.Reply(ok, nil)
		}
	}
}

// session is one exec or shell.
type session struct {
	server *Server
	ch     ssh.Channel
	env    []string

	mu      sync.Mutex
	pty     *os.File // master
	tty     *os.File
	pgrp    int
	started bool
}

// run serves the requests of one channel. Their end is the end of the
// session on the host's side.
func (s *session) run(reqs <-chan *ssh.Request) {
	ctx, cancel := context.WithCancel(context.Background())
	defer func() {
		cancel()
		s.signal(syscall.SIGKILL)
	}()
	for req := range reqs {
		ok := s.request(ctx, req)
		if req.WantReply {
			req.Reply(ok, nil)
		}
	}
}

func (s *session) request(ctx context.Context, req *ssh.Request) bool {
	switch req.Type {
	case "env":
		var kv struct{ Name, Value string }
		if ssh.Unmarshal(req.Payload, &kv) != nil {
			return false
		}
		s.env = append(s.env, kv.Name+"="+kv.Value)
		return true
	case "pty-req":
		var p struct {
			Term          string
			Cols, Rows    uint32
			Width, Height uint32
			Modes         string
		}
		if ssh.Unmarshal(req.Payload, &p) != nil {
			return false
		}
		if err := s.openPTY(p.Term, p.Cols, p.Rows); err != nil {
			logf("no terminal: %v", err)
			return false
		}
		return true
	case "window-change":
		var p struct{ Cols, Rows, Width, Height uint32 }
		if ssh.Unmarshal(req.Payload, &p) != nil {
			return false
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.pty != nil {
			setSize(s.pty, p.Cols, p.Rows)
		}
		return true
	case "signal":
		var p struct{ Name string }
		if ssh.Unmarshal(req.Payload, &p) != nil {
			return false
		}
		sig := unix.SignalNum("SIG" + p.Name)
		if sig == 0 {
			return false
		}
		s.signal(sig)
		return true
	case "exec", "shell":
		var p struct{ Command string }
		if req.Type == "exec" && ssh.Unmarshal(req.Payload, &p) != nil {
			return false
		}
		s.mu.Lock()
		again := s.started
		s.started = true
		s.mu.Unlock()
		if again {
			return false
		}
		// The reply to the request comes first, as the host expects it.
		go s.execute(ctx, p.Command)
		return true
	}
	return false
}

// signal reaches the whole process group of the session's command.
func (s *session) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pgrp > 0 {
		syscall.Kill(-s.pgrp, sig)
	}
}

func (s *session) execute(ctx context.Context, command string) {
	defer s.ch.Close()
	if verb, ok := strings.CutPrefix(command, guestproto.VerbPrefix); ok {
		exit := uint32(1)
		if s.server.Registry.serve(ctx, verb, s.ch, s.ch) {
			exit = 0
		}
		s.exitStatus(exit)
		return
	}
	args := []string{"-c", command}
	if command == "" {
		args = []string{"-l"}
	}
	cmd := exec.Command(s.server.Shell, args...)
	cmd.Dir = s.server.Dir
	cmd.Env = append(append([]string(nil), s.server.Env...), s.env...)
	// A command that left something behind with its output open has ended all
	// the same.
	cmd.WaitDelay = time.Second
	s.mu.Lock()
	pty, tty := s.pty, s.tty
	s.mu.Unlock()
	if pty != nil {
		s.terminal(cmd, pty, tty)
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stdout, cmd.Stderr = s.ch, s.ch.Stderr()
	// exec's own copying of stdin would make Wait wait for the host's end of
	// it; a pipe of ours does not.
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = s.start(cmd)
	}
	if err != nil {
		fmt.Fprintf(s.ch.Stderr(), "patchcheck: %v\n", err)
		s.exitStatus(127)
		return
	}
	go func() {
		io.Copy(stdin, s.ch)
		stdin.Close()
	}()
	s.finish(cmd.Wait(), cmd)
}

func (s *session) start(cmd *exec.Cmd) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	s.pgrp = cmd.Process.Pid
	return nil
}

// finish reports how a command ended.
func (s *session) finish(err error, cmd *exec.Cmd) {
	s.mu.Lock()
	s.pgrp = 0
	s.mu.Unlock()
	if cmd.ProcessState == nil {
		fmt.Fprintf(s.ch.Stderr(), "patchcheck: %v\n", err)
		s.exitStatus(126)
		return
	}
	ws, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		s.ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Signal  string
			Core    bool
			Message string
			Lang    string
		}{strings.TrimPrefix(unix.SignalName(ws.Signal()), "SIG"), ws.CoreDump(), ws.Signal().String(), ""}))
		return
	}
	s.exitStatus(uint32(ws.ExitStatus()))
}

func (s *session) exitStatus(n uint32) {
	s.ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{n}))
}
