// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
)

// console follows the serial console as it comes: every byte goes to the log
// file and to whoever listens.
type console struct {
	mu        sync.Mutex
	sinks     map[int]io.Writer
	nextID    int
	total     int64
	last      time.Time // of the latest byte
	partial   []byte    // the line that has not ended yet
	lines     []string  // ring of the latest tailLines lines
	panicked  bool      // a panic line was seen
	panicOpen bool      // and it has not ended yet
	panicMsg  string    // its message
	oom       string    // first OOM killer line
	noinit    bool      // initramfs could not be unpacked
	agent     bool      // PID 1 has spoken
	fatal     string    // PID 1 gave up, for this reason
	crash     string    // PID 1 may have crashed by itself
	logErr    error     // the log file is incomplete

	first   chan struct{} // closed at the first byte
	paniced chan struct{} // closed at the first panic line
	eof     chan struct{} // closed when the stream has ended
}

const (
	tailLines  = 400     // kept for errors
	maxPartial = 8 << 10 // a line longer than this is cut: the guest may be hostile
	// maxPanicLine bounds the looking at lines that are still growing, which
	// may come a byte at a time.
	maxPanicLine = 1 << 10
)

var panicStart = []byte("Kernel panic - not syncing")

// Lines of the kernel, with its time stamp: text that a program wrote to the
// console by itself has none. The optional second bracket is
// CONFIG_PRINTK_CALLER's.
var (
	kernelLine = regexp.MustCompile(`^(?:<\d+>)?\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? (.*)`)
	panicText  = regexp.MustCompile(`^Kernel panic - not syncing: ?(.*)`)
	oomText    = regexp.MustCompile(`^(?:Out of memory: Killed process|Memory cgroup out of memory|Out of memory and no killable processes|.* invoked oom-killer:)`)
	unpackText = regexp.MustCompile(`^Initramfs unpacking failed: (?:write error|incomplete write)`)
	agentText  = regexp.MustCompile(`^patchcheck: (fatal: )?(.*)`)
	// A Go program that crashes says so on its stderr, which for PID 1 is the
	// console, without a time stamp.
	crashText = regexp.MustCompile(`^(?:panic: |fatal error: |unexpected fault address |SIG[A-Z]+: |runtime: )`)
	initPanic = "Attempted to kill init!"
	memPanic  = regexp.MustCompile(`(?i)^(?:System is deadlocked on memory|Out of memory|.*panic_on_oom)`)
)

func newConsole() *console {
	return &console{
		sinks:   make(map[int]io.Writer),
		first:   make(chan struct{}),
		paniced: make(chan struct{}),
		eof:     make(chan struct{}),
	}
}

// maxConsoleLog bounds the log file, in bytes: a guest must not be able to fill
// the disk.
const maxConsoleLog = 256 << 20

// follow copies r to log until it ends, and closes both. A log that cannot be
// written (a full disk) is noted, and does not stop the guest.
func (c *console) follow(r io.ReadCloser, log io.WriteCloser) {
	defer r.Close()
	defer log.Close()
	buf := make([]byte, 64<<10)
	var logged int64
	for {
		n, err := r.Read(buf)
		if n > 0 {
			var werr error
			if logged < maxConsoleLog {
				var w int
				w, werr = log.Write(buf[:n])
				logged += int64(w)
			} else {
				werr = fmt.Errorf("the console's log ends after %d MiB, the guest has said more", maxConsoleLog>>20)
			}
			if werr != nil {
				c.mu.Lock()
				if c.logErr == nil {
					c.logErr = werr
				}
				c.mu.Unlock()
			}
			c.add(buf[:n])
		}
		if err != nil {
			close(c.eof)
			return
		}
	}
}

func (c *console) add(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.total == 0 {
		close(c.first)
	}
	c.total += int64(len(p))
	c.last = time.Now()
	for id, w := range c.sinks {
		if _, err := w.Write(p); err != nil {
			delete(c.sinks, id) // a reader that gave up must not stop the guest
		}
	}
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			if room := maxPartial - len(c.partial); room > 0 {
				c.partial = append(c.partial, p[:min(room, len(p))]...)
			}
			// A panic may be the last thing ever said, without a newline.
			if len(c.partial) < maxPanicLine && bytes.Contains(c.partial, panicStart) {
				c.classify(string(c.partial), false)
			}
			return
		}
		if room := maxPartial - len(c.partial); room > 0 {
			c.partial = append(c.partial, p[:min(room, i)]...)
		}
		p = p[i+1:]
		line := strings.TrimRight(string(c.partial), "\r")
		c.partial = c.partial[:0]
		c.classify(line, true)
		if len(c.lines) == tailLines {
			copy(c.lines, c.lines[1:])
			c.lines = c.lines[:tailLines-1]
		}
		c.lines = append(c.lines, line)
	}
}

// classify looks for the few lines that change what the host does; what the
// console means is the business of checks/console. A line that is not complete
// counts only if it is a panic, and is looked at again as it grows.
func (c *console) classify(line string, complete bool) {
	m := kernelLine.FindStringSubmatch(line)
	if m == nil {
		if complete && c.crash == "" && crashText.MatchString(line) {
			c.crash = line
		}
		return
	}
	text := m[1]
	if p := panicText.FindStringSubmatch(text); p != nil {
		if !c.panicked {
			c.panicked, c.panicOpen = true, true
			close(c.paniced)
		}
		if c.panicOpen {
			c.panicMsg = strings.TrimSpace(p[1])
			c.panicOpen = !complete
		}
		return
	}
	if !complete {
		return
	}
	switch {
	case c.oom == "" && oomText.MatchString(text):
		c.oom = text
	case unpackText.MatchString(text):
		c.noinit = true
	default:
		if m := agentText.FindStringSubmatch(text); m != nil {
			c.agent = true
			if m[1] != "" && c.fatal == "" {
				c.fatal = m[2]
			}
		}
	}
}

// subscribe adds a reader of everything from now on.
func (c *console) subscribe(w io.Writer) (cancel func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.nextID
	c.nextID++
	c.sinks[id] = w
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.sinks, id)
	}
}

// tail is the last n lines, the unfinished one included.
func (c *console) tail(n int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := append([]string(nil), c.lines...)
	if len(c.partial) > 0 {
		lines = append(lines, strings.TrimRight(string(c.partial), "\r"))
	}
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return lines
}

type consoleState struct {
	total  int64
	quiet  time.Duration // since the latest byte
	panic  string        // "" none
	oom    string
	noinit bool
	agent  bool
	fatal  string
	crash  string
	logErr error
}

func (c *console) state() consoleState {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := consoleState{total: c.total, oom: c.oom, noinit: c.noinit, agent: c.agent, fatal: c.fatal, crash: c.crash, logErr: c.logErr}
	if c.panicked {
		s.panic = c.panicMsg
		if s.panic == "" {
			s.panic = "(no message)"
		}
	}
	if c.total > 0 {
		s.quiet = time.Since(c.last)
	}
	return s
}

// fileTail is the end of a text file, for QEMU's stderr.
func fileTail(path string, max int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > max {
		f.Seek(-max, io.SeekEnd)
	}
	b, _ := io.ReadAll(io.LimitReader(f, max))
	return string(b)
}
