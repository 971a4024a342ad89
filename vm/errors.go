// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"
	"strings"
	"time"

	"patchcheck/patches/mail"
)

// Evidence is what every error about a guest carries, so that nobody has to
// go and look for it.
type Evidence struct {
	ConsoleTail []string // last lines of the serial console, as they came
	QEMUStderr  string   // all QEMU said, usually nothing
	Command     string   // a line that can be pasted into a shell to see it again
	StateDir    string   // where the whole console is, if kept
}

// render appends the evidence below a headline.
func (e Evidence) render(headline string) string {
	var b strings.Builder
	b.WriteString(headline)
	if s := strings.TrimSpace(e.QEMUStderr); s != "" {
		b.WriteString("\n  QEMU says:")
		for _, l := range strings.Split(s, "\n") {
			b.WriteString("\n    " + printable(l))
		}
	}
	if len(e.ConsoleTail) > 0 {
		fmt.Fprintf(&b, "\n  last %d lines of the console:", len(e.ConsoleTail))
		for _, l := range e.ConsoleTail {
			b.WriteString("\n    " + printable(l))
		}
	}
	if e.Command != "" {
		b.WriteString("\n  to see it again:\n    " + e.Command)
	}
	return b.String()
}

// printable takes the sting out of what a guest wrote: it ends on a terminal.
func printable(s string) string { return mail.PrintableLine(s) }

// BootKind says how a boot failed.
type BootKind string

const (
	BootPanic  BootKind = "panic"  // the kernel gave up before the guest was ready
	BootReset  BootKind = "reset"  // the guest restarted or stopped without a panic
	BootSilent BootKind = "silent" // not one byte on the console
	BootStuck  BootKind = "stuck"  // it said something, then nothing, or never got ready in time
	BootMute   BootKind = "mute"   // ready, but SSH was not answered
)

// BootError is a boot that failed by the kernel's fault: nothing else changed
// between a guest that boots and this one.
type BootError struct {
	Kind  BootKind
	What  string        // one sentence
	After time.Duration // since power-on
	Evidence
}

func (e *BootError) Error() string { return e.render("guest did not boot: " + e.What) }

// InfraError is a failure of the host, of QEMU or of our own image. It says
// nothing about the kernel.
type InfraError struct {
	What string // one sentence, with the way out where there is one
	Err  error
	Evidence
}

func (e *InfraError) Error() string {
	s := e.What
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return e.render(s)
}

func (e *InfraError) Unwrap() error { return e.Err }

// DeathCause says how a running guest ended.
type DeathCause string

const (
	DeathPanic    DeathCause = "panic"    // pvpanic or a panic on the console
	DeathMemory   DeathCause = "memory"   // the guest ran out of memory: a resource, not a bug
	DeathAgent    DeathCause = "agent"    // our PID 1 crashed, and the kernel panics without one
	DeathReset    DeathCause = "reset"    // it restarted without a panic, as after a triple fault
	DeathShutdown DeathCause = "shutdown" // it was asked to
	DeathQEMU     DeathCause = "qemu"     // QEMU ended, not the guest
	DeathSession  DeathCause = "session"  // PID 1 stopped talking while QEMU goes on
	DeathClosed   DeathCause = "closed"   // we closed it
)

// GuestDied is a guest that ended while it was in use.
type GuestDied struct {
	Cause  DeathCause
	Reason string // one sentence
	Verb   string // what was going on, or ""
	Evidence
}

func (e *GuestDied) Error() string {
	s := "guest died"
	if e.Verb != "" {
		s += " during " + e.Verb
	}
	return e.render(s + ": " + e.Reason)
}

// Infra says that the death tells nothing about the kernel under test.
func (e *GuestDied) Infra() bool {
	switch e.Cause {
	case DeathQEMU, DeathClosed, DeathMemory, DeathAgent:
		return true
	}
	return false
}

// NoAnswer is a verb whose deadline struck while the guest is, as far as the
// host can see, still there.
type NoAnswer struct {
	Verb  string
	After time.Duration
	Err   error // the context's
	Evidence
}

func (e *NoAnswer) Error() string {
	return e.render(fmt.Sprintf("guest did not finish %s within %.1f s (%v)", e.Verb, e.After.Seconds(), e.Err))
}

func (e *NoAnswer) Unwrap() error { return e.Err }
