// SPDX-License-Identifier: Apache-2.0

// Package view owns what a person sees while a job runs: named steps with
// elapsed times. On a terminal the running step is one line that is updated in
// place; on a pipe each step is one line when it ends, so logs stay readable.
package view

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"patchcheck/patches/mail"
)

// Status is how a step ended.
type Status string

const (
	OK      Status = "ok"
	Failed  Status = "failed"
	Reused  Status = "reused"
	Skipped Status = "skipped"
)

// View shows steps on one writer. The zero value shows nothing.
type View struct {
	w     io.Writer
	tty   bool
	color bool
	width int

	mu      sync.Mutex
	running *Step
	drawn   bool
	stop    chan struct{}
	done    []*Step
	observe func(Step)
}

// New makes a view on w. It is live when w is a terminal; colour is off with
// NO_COLOR (https://no-color.org) or on a pipe.
func New(w io.Writer) *View {
	v := &View{w: w, width: 80}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		v.tty = true
		v.color = os.Getenv("NO_COLOR") == ""
		if c, _, err := term.GetSize(int(f.Fd())); err == nil && c > 20 {
			v.width = c
		}
	}
	return v
}

// Step is one phase.
type Step struct {
	Name    string
	Started time.Time
	Elapsed time.Duration
	Status  Status
	Detail  string

	v *View
}

// Observe has f told of every step from now on: when it begins, when its detail
// changes, when it ends. f takes the place of an earlier one; nil ends it. f
// must be quick and must not use the view.
func (v *View) Observe(f func(Step)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.observe = f
}

func (v *View) told(s *Step) {
	if v.observe != nil {
		v.observe(s.public())
	}
}

// public is a copy of what may be seen of a step.
func (s *Step) public() Step {
	return Step{Name: s.Name, Started: s.Started, Elapsed: s.Elapsed, Status: s.Status, Detail: s.Detail}
}

// Start begins a step. Steps do not nest: a running one is shown as ended.
func (v *View) Start(name string) *Step {
	s := &Step{Name: name, Started: time.Now(), v: v}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.running = s
	if v.tty && v.stop == nil {
		v.stop = make(chan struct{})
		go v.tick(v.stop)
	}
	v.told(s)
	v.draw()
	return s
}

// Update changes the detail of a running step.
func (s *Step) Update(format string, args ...any) {
	if s == nil || s.v == nil {
		return
	}
	s.v.mu.Lock()
	defer s.v.mu.Unlock()
	s.Detail = fmt.Sprintf(format, args...)
	s.v.told(s)
	s.v.draw()
}

// End closes the step; an empty detail keeps the last one.
func (s *Step) End(status Status, format string, args ...any) {
	if s.Status != "" {
		return
	}
	v := s.v
	v.mu.Lock()
	defer v.mu.Unlock()
	s.Elapsed, s.Status = time.Since(s.Started), status
	if d := fmt.Sprintf(format, args...); d != "" {
		s.Detail = d
	}
	v.done = append(v.done, s)
	v.told(s)
	if v.running == s {
		v.running = nil
	}
	v.clear()
	if v.w != nil {
		io.WriteString(v.w, v.line(s)+"\n")
	}
}

// Steps gives the ended steps in order.
func (v *View) Steps() []*Step {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]*Step{}, v.done...)
}

// Print writes a line between steps.
func (v *View) Print(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clear()
	if v.w != nil {
		fmt.Fprintf(v.w, "%s\n", mail.Printable(fmt.Sprintf(format, args...)))
	}
	v.draw()
}

// Close ends the live display.
func (v *View) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clear()
	v.running = nil
	if v.stop != nil {
		close(v.stop)
		v.stop = nil
	}
}

func (v *View) tick(stop chan struct{}) {
	t := time.NewTicker(250 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			v.mu.Lock()
			v.draw()
			v.mu.Unlock()
		}
	}
}

func (v *View) clear() {
	if v.drawn {
		io.WriteString(v.w, "\r\x1b[K")
		v.drawn = false
	}
}

func (v *View) draw() {
	if !v.tty || v.running == nil {
		return
	}
	v.clear()
	io.WriteString(v.w, v.line(v.running))
	v.drawn = true
}

func (v *View) line(s *Step) string {
	el, mark := s.Elapsed, string(s.Status)
	if s.Status == "" {
		el, mark = time.Since(s.Started), "..."
	}
	head := fmt.Sprintf("%-10s %7s  ", s.Name, elapsed(el))
	text := mail.Printable(s.Detail)
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	if s.Status == "" || v.tty {
		room := v.width - utf8.RuneCountInString(head) - 10
		if r := []rune(text); room > 3 && len(r) > room {
			text = string(r[:room-3]) + "..."
		}
	}
	if v.color {
		c := map[Status]string{OK: "32", Failed: "31", Reused: "36", Skipped: "33", "": "2"}[s.Status]
		mark = "\x1b[" + c + "m" + mark + "\x1b[0m" + strings.Repeat(" ", max(0, 8-len(mark)))
	} else {
		mark = fmt.Sprintf("%-8s", mark)
	}
	return strings.TrimRight(head+mark+" "+text, " ")
}

func elapsed(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}
