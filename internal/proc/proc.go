// SPDX-License-Identifier: Apache-2.0

// Package proc owns the running of external programs. Every program that
// patchcheck starts, other than QEMU, goes through Run: its own process group,
// killed as a whole when the context ends or patchcheck dies (see Guard), its
// output kept so that an error can always show it.
package proc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Cmd describes one program to run.
type Cmd struct {
	Argv   []string
	Dir    string
	Env    []string // complete environment; nil means MinimalEnv()
	Stdin  io.Reader
	Stdout io.Writer // also receives the output as it comes; may be nil
	Stderr io.Writer
	// Merge sends stderr to Stdout too, in the order written.
	Merge bool
	// Inherit are files that the program and its children keep open, from
	// descriptor 3 on: a lock held through them lasts as long as any of them.
	Inherit []*os.File
	// MaxOutput bounds what Result keeps of each stream, in bytes; 0 means 64 MiB.
	MaxOutput int
	// OOMScore is the program's and its children's oom_score_adj (proc(5));
	// 0 means OOMScore.
	OOMScore int
}

// OOMScore makes what patchcheck starts the kernel's choice when the host runs
// out of memory, before the user's own programs and before patchcheck: a
// compiler that is killed is noticed and started again.
const OOMScore = 500

// Result is what a finished program left behind.
type Result struct {
	Stdout, Stderr []byte // with Merge all is in Stdout
	Exit           int    // exit status, or 128+signal
	Signal         syscall.Signal
	Elapsed        time.Duration
	UserCPU        time.Duration
	SysCPU         time.Duration
	MaxRSS         int64 // bytes
}

// Error is a program that could not be started or did not exit with 0.
type Error struct {
	Argv   []string
	Dir    string
	Exit   int // -1 when it did not start
	Signal syscall.Signal
	Tail   string // end of its stderr, or of stdout when stderr was empty
	Err    error
}

func (e *Error) Error() string {
	var b strings.Builder
	switch {
	case e.Exit < 0:
		fmt.Fprintf(&b, "cannot start %s: %v", e.Argv[0], e.Err)
	case e.Signal != 0:
		fmt.Fprintf(&b, "%s was killed by signal %d (%v)", Quote(e.Argv), e.Signal, e.Signal)
	default:
		fmt.Fprintf(&b, "%s failed with exit status %d", Quote(e.Argv), e.Exit)
	}
	if errors.Is(e.Err, context.Canceled) || errors.Is(e.Err, context.DeadlineExceeded) {
		fmt.Fprintf(&b, " (%v)", e.Err)
	}
	if t := strings.TrimRight(e.Tail, "\n"); t != "" {
		b.WriteString(":\n  " + strings.ReplaceAll(t, "\n", "\n  "))
	}
	return Mask(b.String())
}

func (e *Error) Unwrap() error { return e.Err }

// MinimalEnv is the environment given to programs by default: enough to run
// tools, nothing that carries a secret.
func MinimalEnv() []string {
	env := []string{"LC_ALL=C.UTF-8", "LANG=C.UTF-8"}
	for _, k := range []string{"PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if v, ok := os.LookupEnv(k); ok {
			env = append(env, k+"="+v)
		}
	}
	return env
}

// Run starts c and waits for it. A non-zero exit is an *Error; the Result is
// valid in that case too. When ctx ends the whole process group gets SIGTERM,
// then SIGKILL after two seconds. What is left of the group when the program
// ends by itself is killed.
func Run(ctx context.Context, c Cmd) (Result, error) {
	if len(c.Argv) == 0 {
		return Result{Exit: -1}, errors.New("proc: empty command")
	}
	max := c.MaxOutput
	if max == 0 {
		max = 64 << 20
	}
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = c.Env
	if cmd.Env == nil {
		cmd.Env = MinimalEnv()
	}
	cmd.Stdin = c.Stdin
	cmd.ExtraFiles = c.Inherit
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 3 * time.Second
	out, errb := &capped{max: max, tee: c.Stdout}, &capped{max: max, tee: c.Stderr}
	cmd.Stdout, cmd.Stderr = out, errb
	if c.Merge {
		cmd.Stderr = out
	}
	// Pdeathsig fires when the starting thread ends, so hold it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.Env = append(slices.Clip(cmd.Env), mark)
	awake()
	start := time.Now()
	if err := ctx.Err(); err != nil {
		return Result{Exit: -1}, &Error{Argv: c.Argv, Dir: c.Dir, Exit: -1, Err: err}
	}
	if err := cmd.Start(); err != nil {
		return Result{Exit: -1}, &Error{Argv: c.Argv, Dir: c.Dir, Exit: -1, Err: err}
	}
	setOOMScore(cmd.Process.Pid, cmp.Or(c.OOMScore, OOMScore))
	release := Guard(cmd.Process.Pid)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-done:
		case <-time.After(2 * time.Second):
		}
		// Grandchildren that ignored SIGTERM must not outlive the step.
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}()
	// The number stays ours until the program has been waited for.
	AwaitExit(cmd.Process.Pid)
	// What it left running would keep our end of its output open, and write where
	// the next step reads: a make that the kernel killed leaves its compilers.
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	release()
	err := cmd.Wait()
	close(done)
	wg.Wait()
	res := Result{Stdout: out.buf.Bytes(), Stderr: errb.buf.Bytes(), Elapsed: time.Since(start)}
	if ps := cmd.ProcessState; ps != nil {
		res.Exit = ps.ExitCode()
		res.UserCPU, res.SysCPU = ps.UserTime(), ps.SystemTime()
		if ws, ok := ps.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			res.Signal = ws.Signal()
			res.Exit = 128 + int(ws.Signal())
		}
		if ru, ok := ps.SysUsage().(*syscall.Rusage); ok {
			res.MaxRSS = ru.Maxrss << 10
		}
	}
	if cerr := ctx.Err(); cerr != nil && err != nil {
		err = cerr
	}
	if err == nil && res.Exit == 0 {
		return res, nil
	}
	tail := tailLines(res.Stderr, 20)
	if tail == "" {
		tail = tailLines(res.Stdout, 20)
	}
	return res, &Error{Argv: c.Argv, Dir: c.Dir, Exit: res.Exit, Signal: res.Signal, Tail: tail, Err: err}
}

type capped struct {
	mu  sync.Mutex
	buf bytes.Buffer
	max int
	tee io.Writer
}

func (w *capped) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if room := w.max - w.buf.Len(); room > 0 {
		w.buf.Write(p[:min(room, len(p))])
	}
	if w.tee != nil {
		if _, err := w.tee.Write(p); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func tailLines(b []byte, n int) string {
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}

// Quote renders argv as a line that can be pasted into a POSIX shell.
func Quote(argv []string) string {
	q := make([]string, len(argv))
	for i, a := range argv {
		if a != "" && strings.IndexFunc(a, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:,+@%^", r))
		}) < 0 {
			q[i] = a
			continue
		}
		q[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(q, " ")
}

// Record is Quote for a record: secrets are masked in it.
func Record(argv []string) string { return Mask(Quote(argv)) }
