// SPDX-License-Identifier: Apache-2.0

package run

import (
	"sync"
	"time"

	"patchcheck/checks"
	"patchcheck/checks/console"
)

// watch runs the console checker on a guest's console while it lives. Its
// methods may be called from any goroutine.
type watch struct {
	mu     sync.Mutex
	det    *console.Detector
	lines  int
	opened bool
	closed bool
	alarm  chan struct{} // closed at the first report that gates
	fatal  bool
	crash  chan struct{} // closed at the first report after which the kernel is not whole
}

func newWatch(slow string) *watch {
	return &watch{det: console.NewDetector(console.Options{Slow: slow}), alarm: make(chan struct{}), crash: make(chan struct{})}
}

// Write takes console bytes from power-on.
func (w *watch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return len(p), nil
	}
	w.det.Write(p)
	for _, b := range p {
		if b == '\n' {
			w.lines++
		}
	}
	for _, n := range w.det.Notices() {
		if !w.opened && n.Crash.Suspect == "" {
			w.opened = true
			close(w.alarm)
		}
		if !w.fatal && broken(n.Crash.Class) {
			w.fatal = true
			close(w.crash)
		}
	}
	return len(p), nil
}

// broken says that a task died in the kernel, so that what waits for it may
// wait for ever.
func broken(c console.Class) bool {
	return c == console.Oops || c == console.Bug || c == console.Panic
}

// line is the number of console lines so far.
func (w *watch) line() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines
}

// raised waits up to grace for the console to show a report that began
// already: the serial line lags a little behind the guest's answers.
func (w *watch) raised(grace time.Duration) bool {
	select {
	case <-w.alarm:
		return true
	default:
	}
	if grace <= 0 {
		return false
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-w.alarm:
		return true
	case <-t.C:
		return false
	}
}

// finish ends the stream and sums it up.
func (w *watch) finish() console.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		w.det.Close()
	}
	return w.det.Report()
}

// gates says whether a console finding decides a verdict. A report that may be
// the host's fault does, until the cell's repeats say more; what only limits
// what the log can prove does not.
func gates(f checks.Finding) bool {
	return f.Severity != checks.Note && f.ID != console.Dropped && f.ID != console.Truncated
}
