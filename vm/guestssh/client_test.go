// SPDX-License-Identifier: Apache-2.0

package guestssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"patchcheck/internal/guestd"
)

func pair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// guest is a client of the real agent's server.
func guest(t *testing.T) (*Client, net.Conn) {
	t.Helper()
	keys, err := NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	srv, err := guestd.NewServer(keys.HostPrivatePEM, keys.AuthorizedKey, &guestd.Registry{})
	if err != nil {
		t.Fatal(err)
	}
	c, s := pair(t)
	go srv.Serve(s)
	cl, err := Dial(context.Background(), c, keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	return cl, s
}

func TestKeysAreChecked(t *testing.T) {
	a, err := NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	dial := func(server, client Keys) error {
		srv, err := guestd.NewServer(server.HostPrivatePEM, server.AuthorizedKey, &guestd.Registry{})
		if err != nil {
			t.Fatal(err)
		}
		c, s := pair(t)
		go srv.Serve(s)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		cl, err := Dial(ctx, c, client)
		if err == nil {
			cl.Close()
		}
		return err
	}
	if err := dial(a, a); err != nil {
		t.Errorf("right keys: %v", err)
	}
	wrongHost := a
	wrongHost.Host = b.Host
	if err := dial(a, wrongHost); err == nil || !strings.Contains(err.Error(), "host key mismatch") {
		t.Errorf("wrong host key: %v", err)
	}
	wrongClient := a
	wrongClient.Client = b.Client
	if err := dial(a, wrongClient); err == nil || !strings.Contains(err.Error(), "unable to authenticate") {
		t.Errorf("wrong client key: %v", err)
	}
}

func TestMuteGuest(t *testing.T) {
	keys, err := NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	c, _ := pair(t)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, c, keys); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestStaleBytes(t *testing.T) {
	keys, err := NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	c, s := pair(t)
	s.Write(bytes.Repeat([]byte{0xff}, 4096))
	s.Close()
	if _, err := Dial(context.Background(), c, keys); err == nil {
		t.Error("connected to rubbish")
	}
}

func TestPingAndClock(t *testing.T) {
	cl, _ := guest(t)
	if err := cl.Ping(context.Background()); err != nil {
		t.Error(err)
	}
	// This server was given no way to set a clock.
	if ok, err := cl.SetClock(context.Background()); ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
}

func TestOneWriterForBothStreams(t *testing.T) {
	cl, _ := guest(t)
	var out bytes.Buffer
	st, err := cl.Run(context.Background(), "for i in 1 2 3 4 5; do echo out; echo err >&2; done", IO{Stdout: &out, Stderr: &out})
	if err != nil || !st.OK() || strings.Count(out.String(), "out\n") != 5 || strings.Count(out.String(), "err\n") != 5 {
		t.Errorf("%v %v %q", st, err, out.String())
	}
}

func TestLost(t *testing.T) {
	cl, s := guest(t)
	done := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		_, err := cl.Run(context.Background(), "echo up; sleep 60", IO{Stdout: notify(started)})
		done <- err
	}()
	<-started
	s.Close()
	if err := <-done; !errors.Is(err, ErrLost) {
		t.Errorf("got %v", err)
	}
	if _, err := cl.Run(context.Background(), "true", IO{}); !errors.Is(err, ErrLost) {
		t.Errorf("a session on a dead connection: %v", err)
	}
	if err := cl.Ping(context.Background()); err == nil {
		t.Error("a dead guest answers")
	}
}

// Cancelling a command kills it with all its children in the guest.
func TestCancelKills(t *testing.T) {
	cl, _ := guest(t)
	pipe := filepath.Join(t.TempDir(), "alive")
	ctx, cancel := context.WithCancel(context.Background())
	started := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := cl.Run(ctx, "mkfifo "+pipe+"; echo up; (exec 3<>"+pipe+"; sleep 1000) & wait", IO{Stdout: notify(started)})
		done <- err
	}()
	<-started
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	// With its users gone nobody is left to find by that name.
	out := &bytes.Buffer{}
	for range 100 {
		out.Reset()
		if _, err := cl.Run(context.Background(), `for p in /proc/[0-9]*/fd/3; do [ "$(readlink $p)" = `+pipe+` ] && echo found; done; true`, IO{Stdout: out}); err != nil {
			t.Fatal(err)
		}
		if out.Len() == 0 {
			return
		}
	}
	t.Error("the command's child lives on")
}

type notify chan struct{}

func (n notify) Write(p []byte) (int, error) {
	select {
	case <-n:
	default:
		close(n)
	}
	return len(p), nil
}

// go-qemu's module graph would pick an x/crypto of 2019 if go.mod did not say
// otherwise.
func TestCryptoVersion(t *testing.T) {
	bi, ok := debug.ReadBuildInfo()
	if !ok {
		t.Skip("no build information")
	}
	for _, d := range bi.Deps {
		if d.Path == "golang.org/x/crypto" {
			var major, minor int
			if _, err := fmt.Sscanf(d.Version, "v%d.%d.", &major, &minor); err != nil || major == 0 && minor < 59 {
				t.Errorf("golang.org/x/crypto %s is too old (%v)", d.Version, err)
			}
			return
		}
	}
}
