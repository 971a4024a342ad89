// SPDX-License-Identifier: Apache-2.0

// Package qmpctl owns the control connection to QEMU (the QEMU Machine
// Protocol, qemu docs/interop/qmp-spec.rst). It speaks go-qemu's types and is
// the only importer of that library, but brings its own transport: go-qemu's
// socket monitor hands out replies that are overwritten later, gives up on
// replies above 64 KiB, ignores contexts, hangs when nobody reads its events,
// and takes an event during the handshake for a reply.
//
// It does not start or stop QEMU; package vm does.
package qmpctl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/digitalocean/go-qemu/qmp"
	"github.com/digitalocean/go-qemu/qmp/raw"
)

// Event is an asynchronous message of QEMU, such as GUEST_PANICKED.
type Event = qmp.Event

// Names of the events that tell how a guest ends.
const (
	EventGuestPanicked   = "GUEST_PANICKED"
	EventGuestCrashload  = "GUEST_CRASHLOADED"
	EventShutdown        = "SHUTDOWN"
	EventReset           = "RESET"
	EventWatchdog        = "WATCHDOG"
	EventStop            = "STOP"
	EventMemoryFailure   = "MEMORY_FAILURE"
	maxReply             = 16 << 20 // bytes; query-qmp-schema is 200 KiB
	greetingAllowance    = 10 * time.Second
	capabilitiesID       = "capabilities"
	closedBeforeGreeting = "QEMU closed its control connection before the greeting"
)

// ErrGone is returned when QEMU has closed the connection: the process has
// ended or is about to.
var ErrGone = errors.New("QEMU has closed its control connection")

// CommandError is QEMU's refusal of a command.
type CommandError struct {
	Command string
	Class   string // "GenericError", "CommandNotFound", ...
	Desc    string
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("QEMU refused %s: %s (%s)", e.Command, e.Desc, e.Class)
}

// Monitor is one control connection. Its methods may be called concurrently.
type Monitor struct {
	conn    net.Conn
	version qmp.Version
	onEvent func(Event)

	mu      sync.Mutex
	next    int
	waiting map[string]chan reply
	err     error // set once the reader has ended
	done    chan struct{}
}

// The transport is a drop-in for go-qemu's own.
var _ qmp.Monitor = (*bound)(nil)

type reply struct {
	data json.RawMessage
	err  error
}

type message struct {
	QMP *struct {
		Version qmp.Version `json:"version"`
	} `json:"QMP"`
	ID     json.RawMessage `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
	Event string `json:"event"`
}

// New greets QEMU over conn and leaves the negotiation mode. onEvent, if not
// nil, gets every event in order, from one goroutine; it must not block and
// must not call the Monitor. The Monitor owns conn, also when New fails.
func New(ctx context.Context, conn net.Conn, onEvent func(Event)) (*Monitor, error) {
	m := &Monitor{conn: conn, onEvent: onEvent, waiting: make(map[string]chan reply), done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(ctx, greetingAllowance)
	defer cancel()
	greeted := make(chan struct{})
	go m.read(greeted)
	select {
	case <-greeted:
	case <-m.done:
		conn.Close()
		return nil, fmt.Errorf("%s: %w", closedBeforeGreeting, m.reason())
	case <-ctx.Done():
		conn.Close()
		return nil, fmt.Errorf("QEMU sent no greeting on its control connection: %w", context.Cause(ctx))
	}
	if _, err := m.run(ctx, capabilitiesID, []byte(`{"execute":"qmp_capabilities","id":"`+capabilitiesID+`"}`), "qmp_capabilities"); err != nil {
		conn.Close()
		return nil, err
	}
	return m, nil
}

// Version is QEMU's version as in its greeting, such as "7.2.22".
func (m *Monitor) Version() string { return m.version.String() }

// Done is closed when the connection has ended.
func (m *Monitor) Done() <-chan struct{} { return m.done }

// Close drops the connection. QEMU goes on running.
func (m *Monitor) Close() error { return m.conn.Close() }

func (m *Monitor) reason() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		return ErrGone
	}
	return m.err
}

// read delivers everything QEMU says until the connection ends. It never
// waits for a reader: replies go to buffered channels, events to a function
// that must not block.
func (m *Monitor) read(greeted chan struct{}) {
	sc := bufio.NewScanner(m.conn)
	sc.Buffer(make([]byte, 0, 64<<10), maxReply)
	first := true
	var err error
	for sc.Scan() {
		line := bytes.Clone(sc.Bytes()) // replies outlive the scanner's buffer
		var msg message
		if err = json.Unmarshal(line, &msg); err != nil {
			err = fmt.Errorf("QEMU sent something that is no JSON on its control connection: %w", err)
			break
		}
		switch {
		case msg.QMP != nil:
			m.version = msg.QMP.Version
			if first {
				close(greeted)
				first = false
			}
		case msg.Event != "":
			var ev Event
			if json.Unmarshal(line, &ev) == nil && m.onEvent != nil {
				m.onEvent(ev)
			}
		default:
			m.deliver(msg)
		}
	}
	if err == nil {
		err = sc.Err()
	}
	m.mu.Lock()
	if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
		m.err = fmt.Errorf("%w: %w", ErrGone, err)
	} else {
		m.err = ErrGone
	}
	m.mu.Unlock()
	close(m.done)
}

func (m *Monitor) deliver(msg message) {
	var id string
	if json.Unmarshal(msg.ID, &id) != nil {
		return // not ours: every command of ours carries a string id
	}
	m.mu.Lock()
	ch := m.waiting[id]
	delete(m.waiting, id)
	m.mu.Unlock()
	if ch == nil {
		return // its caller gave up
	}
	if msg.Error != nil {
		ch <- reply{err: &CommandError{Class: msg.Error.Class, Desc: msg.Error.Desc}}
		return
	}
	ch <- reply{data: msg.Return}
}

// Execute runs one command and returns the value of its "return". It ends
// with ctx, whatever QEMU does; the connection stays usable.
func (m *Monitor) Execute(ctx context.Context, cmd qmp.Command) (json.RawMessage, error) {
	m.mu.Lock()
	m.next++
	id := "pc-" + strconv.Itoa(m.next)
	m.mu.Unlock()
	line, err := json.Marshal(struct {
		Execute string `json:"execute"`
		Args    any    `json:"arguments,omitempty"`
		ID      string `json:"id"`
	}{cmd.Execute, cmd.Args, id})
	if err != nil {
		return nil, fmt.Errorf("QMP command %s: %w", cmd.Execute, err)
	}
	return m.run(ctx, id, line, cmd.Execute)
}

func (m *Monitor) run(ctx context.Context, id string, line []byte, name string) (json.RawMessage, error) {
	ch := make(chan reply, 1)
	m.mu.Lock()
	if m.err != nil {
		defer m.mu.Unlock()
		return nil, fmt.Errorf("%s: %w", name, m.err)
	}
	m.waiting[id] = ch
	m.mu.Unlock()
	forget := func() {
		m.mu.Lock()
		delete(m.waiting, id)
		m.mu.Unlock()
	}
	// A QEMU that does not read leaves the write hanging: the deadline ends
	// it, and a half-written command makes the connection useless anyway.
	if d, ok := ctx.Deadline(); ok {
		m.conn.SetWriteDeadline(d)
	} else {
		m.conn.SetWriteDeadline(time.Now().Add(greetingAllowance))
	}
	if _, err := m.conn.Write(append(line, '\n')); err != nil {
		forget()
		return nil, fmt.Errorf("%s: %w: %w", name, ErrGone, err)
	}
	select {
	case r := <-ch:
		var ce *CommandError
		if errors.As(r.err, &ce) {
			ce.Command = name
		}
		return r.data, r.err
	case <-m.done:
		// The reply may have come just before the end ("quit" does so).
		select {
		case r := <-ch:
			return r.data, r.err
		default:
		}
		return nil, fmt.Errorf("%s: %w", name, m.reason())
	case <-ctx.Done():
		forget()
		return nil, fmt.Errorf("QEMU did not answer %s: %w", name, context.Cause(ctx))
	}
}

// bound ties the Monitor to one context so that go-qemu's typed commands can
// be used with it.
type bound struct {
	ctx context.Context
	m   *Monitor
}

func (b *bound) Connect() error    { return nil }
func (b *bound) Disconnect() error { return b.m.Close() }

func (b *bound) Run(command []byte) ([]byte, error) {
	var cmd struct {
		Execute string          `json:"execute"`
		Args    json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(command, &cmd); err != nil {
		return nil, err
	}
	c := qmp.Command{Execute: cmd.Execute}
	if len(cmd.Args) > 0 {
		c.Args = cmd.Args
	}
	ret, err := b.m.Execute(b.ctx, c)
	if err != nil {
		return nil, err
	}
	// The typed commands expect the whole reply.
	return json.Marshal(map[string]json.RawMessage{"return": ret})
}

func (b *bound) Events(context.Context) (<-chan qmp.Event, error) {
	return nil, qmp.ErrEventsNotSupported
}

func (m *Monitor) typed(ctx context.Context) *raw.Monitor {
	return raw.NewMonitor(&bound{ctx: ctx, m: m})
}

// Quit ends QEMU at once, without asking the guest.
func (m *Monitor) Quit(ctx context.Context) error { return m.typed(ctx).Quit() }

// InjectNMI sends a non-maskable interrupt to the guest's CPUs: the only way
// in when interrupts are off for good.
func (m *Monitor) InjectNMI(ctx context.Context) error { return m.typed(ctx).InjectNmi() }

// SendBreak signals a serial break on a character device; on a serial console
// it introduces a sysrq key.
func (m *Monitor) SendBreak(ctx context.Context, chardev string) error {
	return m.typed(ctx).ChardevSendBreak(chardev)
}

// Status is the run state of the machine: "running", "paused",
// "guest-panicked", "internal-error" (KVM gave up), ...
func (m *Monitor) Status(ctx context.Context) (string, error) {
	// Decoded here, not by go-qemu: its list of states is that of QEMU 2.11.
	ret, err := m.Execute(ctx, qmp.Command{Execute: "query-status"})
	if err != nil {
		return "", err
	}
	var s struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal(ret, &s); err != nil {
		return "", fmt.Errorf("query-status: %w", err)
	}
	return s.Status, nil
}

// Reason is the "reason" (SHUTDOWN, RESET) or "action" (GUEST_PANICKED,
// WATCHDOG) of an event, or "".
func Reason(ev Event) string {
	for _, key := range []string{"reason", "action"} {
		if s, ok := ev.Data[key].(string); ok {
			return s
		}
	}
	return ""
}
