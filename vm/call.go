// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"patchcheck/internal/guestproto"
	"patchcheck/patches/mail"
	"patchcheck/vm/guestssh"
)

// maxMessage bounds one JSON line of the guest, in bytes; the largest is the
// kernel log.
const maxMessage = 64 << 20

// maxAnswer bounds all that a guest says in answer to one verb, in bytes: its
// kernel is a stranger's, and may say anything.
var maxAnswer = 4 * maxMessage

// Call sends a verb and waits for its result. resp, if not nil, is a pointer
// that gets the result; onLog, if not nil, gets progress lines.
//
// Errors are *guestproto.Error when the guest answered that the verb failed,
// *GuestDied when no answer will ever come, *NoAnswer when ctx ended first,
// and *InfraError when the answer makes no sense.
func (g *Guest) Call(ctx context.Context, verb string, req, resp any, onLog func(string)) error {
	body := []byte("null")
	if req != nil {
		var err error
		if body, err = json.Marshal(req); err != nil {
			return &InfraError{What: "request of " + verb, Err: err}
		}
	}
	var (
		final  *guestproto.Message
		broken error
		stderr bytes.Buffer
		out    = &lineWriter{max: maxMessage, left: maxAnswer}
	)
	rctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out.over = stop
	out.line = func(b []byte) {
		var m guestproto.Message
		switch err := json.Unmarshal(b, &m); {
		case err != nil:
			if broken == nil {
				broken = fmt.Errorf("line %.120q: %w", b, err)
			}
		case m.Done:
			final = &m
		case m.Log != "" && onLog != nil:
			onLog(m.Log)
		}
	}
	start := time.Now()
	_, err := g.ssh.Run(rctx, guestproto.VerbPrefix+verb, guestssh.IO{
		Stdin: bytes.NewReader(body), Stdout: out, Stderr: &limitedBuffer{buf: &stderr, max: 64 << 10},
	})
	var over *overlongError
	if errors.As(context.Cause(rctx), &over) {
		return &InfraError{What: "the guest's answer to " + verb + " makes no sense", Err: over, Evidence: g.evidence(10)}
	}
	if err != nil && ctx.Err() != nil {
		// The session is not waited for: its writer may still be at work, so
		// nothing that it writes is read here.
		return g.endedEarly(ctx, verb, start)
	}
	switch {
	case final != nil:
		// A failed verb may tell what it found until then.
		if resp != nil && len(final.Result) > 0 {
			if err := json.Unmarshal(final.Result, resp); err != nil && final.Error == nil {
				return &InfraError{What: fmt.Sprintf("the guest's answer to %s is not of the expected form", verb), Err: err}
			}
		}
		if e := final.Error; e != nil {
			e.Class, e.Errno = printable(e.Class), printable(e.Errno)
			e.Message, e.Detail = mail.Printable(e.Message), mail.Printable(e.Detail)
			return e
		}
		return nil
	case broken != nil && err == nil:
		return &InfraError{What: "the guest's answer to " + verb + " is no JSON", Err: broken, Evidence: g.evidence(10)}
	}
	return g.lost(verb, err, stderr.String())
}

// endedEarly is the error for a deadline or an interruption.
func (g *Guest) endedEarly(ctx context.Context, verb string, start time.Time) error {
	// A panic that is just being printed is the better answer.
	if g.con.state().panic != "" && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		g.gone(g.limits.Death + time.Second)
	}
	if d := g.Death(); d != nil {
		return g.diedDuring(verb)
	}
	return &NoAnswer{Verb: verb, After: time.Since(start), Err: context.Cause(ctx), Evidence: g.evidence(40)}
}

// lost is the error for a session that ended without a result: the guest is
// dead or about to be.
func (g *Guest) lost(verb string, err error, stderr string) error {
	// QEMU ends a moment after the connection; its reason is the better one.
	wait := g.limits.Death + time.Second
	if g.con.state().panic == "" {
		wait = time.Second
	}
	if g.gone(wait) {
		return g.diedDuring(verb)
	}
	reason := "PID 1 ended the session without a result"
	if err != nil {
		reason += ": " + err.Error()
	}
	if stderr != "" {
		reason += ": " + stderr
	}
	return &GuestDied{Cause: DeathSession, Reason: reason, Verb: verb, Evidence: g.evidence(40)}
}

func (g *Guest) diedDuring(verb string) error {
	d := *g.death
	d.Verb = verb
	return &d
}

// Exec runs a shell command line in the guest under /bin/sh. A command that
// fails is a Status, not an error.
func (g *Guest) Exec(ctx context.Context, command string, std guestssh.IO) (guestssh.Status, error) {
	start := time.Now()
	st, err := g.ssh.Run(ctx, command, std)
	return st, g.execError(ctx, "command "+fmt.Sprintf("%.60q", command), start, err)
}

func (g *Guest) execError(ctx context.Context, what string, start time.Time, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return g.endedEarly(ctx, what, start)
	case errors.Is(err, guestssh.ErrLost):
		return g.lost(what, nil, "")
	}
	return &InfraError{What: what + " in the guest", Err: err}
}

// Interrogate makes a guest that hangs say on its console what it is doing:
// blocked tasks and the stack of every CPU. It asks PID 1 for a sysrq; if that
// brings nothing, the serial console, by a break (the kernel needs
// CONFIG_MAGIC_SYSRQ_SERIAL); and at last the CPUs, by a non-maskable
// interrupt, which ends the guest with a panic. It returns when the console
// has been quiet for a moment, or with ctx.
func (g *Guest) Interrogate(ctx context.Context) error {
	before := g.con.state().total
	if g.ssh != nil {
		sctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := g.Call(sctx, guestproto.VerbSysrq, guestproto.Sysrq{Keys: "wl"}, nil, nil)
		cancel()
		if g.awaitQuiet(ctx, before, g.limits.Death) && err == nil {
			return nil
		}
		if g.Death() != nil {
			return g.death
		}
	}
	for _, key := range []byte("wl") {
		if err := g.Sysrq(ctx, key); err != nil {
			return err
		}
	}
	if g.awaitQuiet(ctx, before, g.limits.Death) {
		return nil
	}
	if err := g.NMI(ctx); err != nil {
		return err
	}
	g.awaitQuiet(ctx, before, g.limits.Death)
	return nil
}

// awaitQuiet waits up to patience for the console to go beyond before, then
// until it has been quiet for half a second. It says whether anything came.
func (g *Guest) awaitQuiet(ctx context.Context, before int64, patience time.Duration) bool {
	const quiet = 500 * time.Millisecond
	more := make(chan struct{}, 1)
	cancel := g.con.subscribe(writerFunc(func(p []byte) (int, error) {
		select {
		case more <- struct{}{}:
		default:
		}
		return len(p), nil
	}))
	defer cancel()
	wait := patience
	if g.con.state().total > before {
		wait = quiet
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		select {
		case <-more:
			t.Reset(quiet)
		case <-t.C:
			return g.con.state().total > before
		case <-g.died:
			return g.con.state().total > before
		case <-ctx.Done():
			return g.con.state().total > before
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Sysrq sends a magic sysrq key (kernel Documentation/admin-guide/sysrq.rst)
// from outside, as a serial break and a character: it works while interrupts
// do, whatever has become of user space.
func (g *Guest) Sysrq(ctx context.Context, key byte) error {
	if g.qmp == nil {
		return errors.New("QEMU's control connection is not up")
	}
	if err := g.qmp.SendBreak(ctx, chanConsole); err != nil {
		return err
	}
	g.conIn.SetWriteDeadline(time.Now().Add(time.Second))
	_, err := g.conIn.Write([]byte{key})
	return err
}

// NMI sends a non-maskable interrupt, which our command line makes a panic.
func (g *Guest) NMI(ctx context.Context) error {
	if g.qmp == nil {
		return errors.New("QEMU's control connection is not up")
	}
	g.nmi.Store(true)
	return g.qmp.InjectNMI(ctx)
}

// lineWriter calls line for every complete line, and for the rest at no time:
// a result that was cut off is no result.
//
// What is longer than max bytes in a line or left in all goes to over.
type lineWriter struct {
	buf  bytes.Buffer
	max  int
	left int
	line func([]byte)
	over func(error)
}

// overlongError is an answer that is too long to be one.
type overlongError struct{ what string }

func (e *overlongError) Error() string { return e.what }

func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	if w.left -= n; w.left < 0 {
		err := &overlongError{"it is longer than any answer"}
		w.over(err)
		return 0, err
	}
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			if w.buf.Len()+len(p) > w.max {
				err := &overlongError{fmt.Sprintf("it has a line of more than %d bytes", w.max)}
				w.over(err)
				return 0, err
			}
			w.buf.Write(p)
			return n, nil
		}
		w.buf.Write(p[:i])
		if b := bytes.TrimSpace(w.buf.Bytes()); len(b) > 0 {
			w.line(b)
		}
		w.buf.Reset()
		p = p[i+1:]
	}
}

// limitedBuffer keeps the beginning.
type limitedBuffer struct {
	buf *bytes.Buffer
	max int
}

func (w *limitedBuffer) Write(p []byte) (int, error) {
	if room := w.max - w.buf.Len(); room > 0 {
		w.buf.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

var _ io.Writer = (*limitedBuffer)(nil)
