// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"patchcheck/internal/guestproto"
	"patchcheck/internal/proc"
)

// toolDirs are where Debian puts the programs; PID 1 may have no PATH.
var toolDirs = []string{"/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/local/bin"}

// tool finds a program of the guest's image. pkg is the Debian package that
// holds it.
func (w *work) tool(name, pkg string) (string, error) {
	for _, d := range toolDirs {
		p := filepath.Join(d, name)
		if st, err := os.Stat(w.path(p)); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	return "", setupf("the guest's image lacks a program of Debian's package "+pkg+": make the image again",
		"the guest has no %s in %s", name, strings.Join(toolDirs, ":"))
}

// toolEnv is the environment of every program started here.
func toolEnv() []string {
	return []string{"PATH=" + strings.Join(toolDirs, ":"), "HOME=/", "LC_ALL=C"}
}

// runTool runs a program to its end. A failure is a setup error with its
// output.
func runTool(ctx context.Context, hint string, argv ...string) (string, error) {
	res, err := proc.Run(ctx, proc.Cmd{Argv: argv, Dir: "/", Env: toolEnv(), Merge: true, MaxOutput: 64 << 10})
	out := strings.TrimSpace(string(res.Stdout))
	if err == nil {
		return out, nil
	}
	e := setupf(hint, "%s failed with exit status %d", proc.Quote(argv), res.Exit)
	if res.Exit < 0 {
		e.Message = fmt.Sprintf("cannot start %s: %v", argv[0], err)
	}
	e.Detail = out
	return out, e
}

// daemon is a program that runs for as long as the guest does, as a child of
// this process.
type daemon struct {
	name string
	argv []string
	out  tail
	done chan struct{} // closed when it has ended
	err  error         // why; valid after done
	stop context.CancelFunc
}

// start starts a daemon once; a second call with a live one does nothing.
func (w *work) start(name, pkg string, args ...string) (*daemon, error) {
	if d := w.daemons[name]; d != nil {
		select {
		case <-d.done:
		default:
			return d, nil
		}
	}
	path, err := w.tool(name, pkg)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	d := &daemon{name: name, argv: append([]string{path}, args...), done: make(chan struct{}), stop: stop}
	go func() {
		// proc.Run also ties the daemon's life to ours.
		res, err := proc.Run(ctx, proc.Cmd{Argv: d.argv, Dir: "/", Env: toolEnv(), Stdout: &d.out, Merge: true, MaxOutput: 1})
		switch {
		case res.Exit < 0:
			d.err = err
		case res.Signal != 0:
			d.err = fmt.Errorf("ended by signal %d (%v)", res.Signal, res.Signal)
		default:
			d.err = fmt.Errorf("ended with exit status %d", res.Exit)
		}
		close(d.done)
	}()
	w.daemons[name] = d
	return d, nil
}

// await waits until ready reports true. ready speaks the daemon's protocol or
// looks at what only a daemon that is ready leaves behind; it is asked at
// growing intervals from 1 to 20 ms, because none of these programs tells when
// it is ready. The daemon's end, ctx's end and the limit end the wait.
func (d *daemon) await(ctx context.Context, limit time.Duration, what, hint string, ready func() bool) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if ready() {
			return nil
		}
		select {
		case <-d.done:
			return d.failed(hint, "%s ended before this was true: %s", d.name, what)
		case <-ctx.Done():
			return d.failed(hint, "interrupted while waiting for %s: %s", d.name, what)
		case <-deadline.C:
			return d.failed(hint, "%s runs, but after %v this is not true: %s", d.name, limit, what)
		case <-time.After(pause):
		}
	}
}

func (d *daemon) failed(hint, format string, a ...any) *guestproto.Error {
	e := setupf(hint, format, a...)
	e.Detail = proc.Quote(d.argv)
	select {
	case <-d.done:
		e.Detail += " " + d.err.Error()
	default:
	}
	e.Detail = strings.TrimSpace(e.Detail + "\n" + d.out.String())
	return e
}

// tail keeps the end of a program's output.
type tail struct {
	mu sync.Mutex
	b  []byte
}

// tailBytes is how much of a daemon's output is kept.
const tailBytes = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > 2*tailBytes {
		t.b = append([]byte(nil), t.b[len(t.b)-tailBytes:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
