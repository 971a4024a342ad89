// SPDX-License-Identifier: Apache-2.0

package qmpctl

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/digitalocean/go-qemu/qmp"
)

const greeting = `{"QMP":{"version":{"qemu":{"micro":22,"minor":2,"major":7},"package":""},"capabilities":["oob"]}}`

// pair is a connected pair of unix sockets.
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

type request struct {
	Execute   string          `json:"execute"`
	Arguments json.RawMessage `json:"arguments"`
	ID        string          `json:"id"`
}

// serve answers each command with what handle writes.
func serve(c net.Conn, handle func(r request, say func(string))) {
	var mu sync.Mutex
	say := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(c, s)
	}
	say(greeting)
	go func() {
		sc := bufio.NewScanner(c)
		for sc.Scan() {
			var r request
			if json.Unmarshal(sc.Bytes(), &r) == nil {
				handle(r, say)
			}
		}
	}()
}

func ok(r request, say func(string)) { say(fmt.Sprintf(`{"return":{},"id":%q}`, r.ID)) }

func connect(t *testing.T, handle func(request, func(string)), onEvent func(Event)) *Monitor {
	t.Helper()
	c, s := pair(t)
	serve(s, handle)
	m, err := New(context.Background(), c, onEvent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// An event in the middle of the handshake must not be taken for its reply,
// nor shift later replies by one.
func TestEventDuringHandshake(t *testing.T) {
	var mu sync.Mutex
	var events []string
	m := connect(t, func(r request, say func(string)) {
		say(`{"event":"RESUME","data":{},"timestamp":{"seconds":1,"microseconds":2}}`)
		if r.Execute == "query-status" {
			say(fmt.Sprintf(`{"return":{"status":"running","running":true},"id":%q}`, r.ID))
			return
		}
		ok(r, say)
	}, func(e Event) { mu.Lock(); events = append(events, e.Event); mu.Unlock() })
	if m.Version() != "7.2.22" {
		t.Errorf("version %s", m.Version())
	}
	if s, err := m.Status(context.Background()); err != nil || s != "running" {
		t.Errorf("status %q %v", s, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(events) != 2 {
		t.Errorf("events %q", events)
	}
}

// Replies stay what they were, also when many follow and when they are large.
func TestRepliesAreKept(t *testing.T) {
	m := connect(t, func(r request, say func(string)) {
		if r.Execute == "big" {
			say(fmt.Sprintf(`{"return":%q,"id":%q}`, strings.Repeat("x", 300<<10), r.ID))
			return
		}
		say(fmt.Sprintf(`{"return":%q,"id":%q}`, r.Execute, r.ID))
	}, nil)
	ctx := context.Background()
	kept := map[string]json.RawMessage{}
	for i := range 100 {
		name := fmt.Sprintf("command-%03d", i)
		ret, err := m.Execute(ctx, qmp.Command{Execute: name})
		if err != nil {
			t.Fatal(err)
		}
		kept[name] = ret
	}
	if ret, err := m.Execute(ctx, qmp.Command{Execute: "big"}); err != nil || len(ret) != 300<<10+2 {
		t.Errorf("a large reply: %d bytes, %v", len(ret), err)
	}
	for name, ret := range kept {
		if string(ret) != `"`+name+`"` {
			t.Errorf("%s has become %s", name, ret)
		}
	}
}

// Replies in another order than the commands find their callers.
func TestRepliesOutOfOrder(t *testing.T) {
	var mu sync.Mutex
	var held func()
	m := connect(t, func(r request, say func(string)) {
		mu.Lock()
		defer mu.Unlock()
		answer := func() { say(fmt.Sprintf(`{"return":%q,"id":%q}`, r.Execute, r.ID)) }
		switch {
		case r.Execute == "qmp_capabilities":
			answer()
		case held == nil:
			held = answer
		default:
			answer()
			held()
		}
	}, nil)
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if ret, err := m.Execute(context.Background(), qmp.Command{Execute: name}); err != nil || string(ret) != `"`+name+`"` {
				t.Errorf("%s: %s %v", name, ret, err)
			}
		}()
	}
	wg.Wait()
}

func TestContextEndsACommand(t *testing.T) {
	m := connect(t, func(r request, say func(string)) {
		if r.Execute != "mute" {
			ok(r, say)
		}
	}, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := m.Execute(ctx, qmp.Command{Execute: "mute"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	// The connection is still good.
	if _, err := m.Execute(context.Background(), qmp.Command{Execute: "query-x"}); err != nil {
		t.Error(err)
	}
}

func TestErrorsKeepTheirClass(t *testing.T) {
	m := connect(t, func(r request, say func(string)) {
		if r.Execute == "qmp_capabilities" {
			ok(r, say)
			return
		}
		say(fmt.Sprintf(`{"error":{"class":"CommandNotFound","desc":"The command x has not been found"},"id":%q}`, r.ID))
	}, nil)
	err := m.InjectNMI(context.Background())
	var ce *CommandError
	if !errors.As(err, &ce) || ce.Class != "CommandNotFound" || ce.Command != "inject-nmi" {
		t.Errorf("got %#v", err)
	}
}

// The typed commands of go-qemu reach QEMU in the form of the protocol.
func TestTypedCommands(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	m := connect(t, func(r request, say func(string)) {
		mu.Lock()
		seen = append(seen, r.Execute+string(r.Arguments))
		mu.Unlock()
		ok(r, say)
	}, nil)
	ctx := context.Background()
	if err := errors.Join(m.InjectNMI(ctx), m.SendBreak(ctx, "console"), m.Quit(ctx)); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	want := `qmp_capabilities inject-nmi{} chardev-send-break{"id":"console"} quit{}`
	if got := strings.Join(seen, " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestQEMUGoes(t *testing.T) {
	c, s := pair(t)
	serve(s, func(r request, say func(string)) {
		ok(r, say)
		if r.Execute == "quit" {
			s.Close()
		}
	})
	m, err := New(context.Background(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The reply that comes just before the end counts.
	if err := m.Quit(context.Background()); err != nil {
		t.Error(err)
	}
	<-m.Done()
	if _, err := m.Execute(context.Background(), qmp.Command{Execute: "x"}); !errors.Is(err, ErrGone) {
		t.Errorf("got %v", err)
	}
}

func TestBadPeers(t *testing.T) {
	tests := map[string]func(net.Conn){
		"says nothing":     func(net.Conn) {},
		"closes at once":   func(c net.Conn) { c.Close() },
		"is no QEMU":       func(c net.Conn) { fmt.Fprintln(c, "SSH-2.0-hello") },
		"never negotiates": func(c net.Conn) { fmt.Fprintln(c, greeting) },
	}
	for name, peer := range tests {
		t.Run(name, func(t *testing.T) {
			c, s := pair(t)
			peer(s)
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			if m, err := New(ctx, c, nil); err == nil {
				m.Close()
				t.Error("connected")
			}
		})
	}
}

func TestReason(t *testing.T) {
	for data, want := range map[string]string{
		`{"guest":true,"reason":"guest-reset"}`: "guest-reset",
		`{"action":"pause"}`:                    "pause",
		`{}`:                                    "",
	} {
		var ev Event
		if err := json.Unmarshal([]byte(`{"event":"X","data":`+data+`}`), &ev); err != nil {
			t.Fatal(err)
		}
		if got := Reason(ev); got != want {
			t.Errorf("%s: %q", data, got)
		}
	}
}
