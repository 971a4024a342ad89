// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// orphanEnv makes the test binary the patchcheck that gets killed; untoldEnv one
// that is killed before it told its guard of what it started.
const (
	orphanEnv = "PATCHCHECK_TEST_ORPHAN"
	untoldEnv = "PATCHCHECK_TEST_UNTOLD"
)

func TestMain(m *testing.M) {
	if script := os.Getenv(untoldEnv); script != "" {
		awake()
		c := exec.Command("/bin/sh", "-c", script)
		c.Env, c.Stdout = []string{"PATH=/usr/bin:/bin", mark}, os.Stdout
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		c.Run()
		os.Exit(0)
	}
	if script := os.Getenv(orphanEnv); script != "" {
		Run(context.Background(), Cmd{Argv: []string{"/bin/sh", "-c", script}, Stdout: os.Stdout})
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A program's children, and theirs, end with a patchcheck that gets SIGKILL,
// whatever signals they ignore.
func TestNothingOutlivesSIGKILL(t *testing.T) {
	for _, mode := range []string{orphanEnv, untoldEnv} {
		t.Run(mode, func(t *testing.T) { outliving(t, mode) })
	}
}

func outliving(t *testing.T, mode string) {
	cmd := exec.Command(os.Args[0])
	script := `trap '' TERM HUP INT; (trap '' TERM HUP INT; (sleep 1000; :) & sleep 1000; :) & echo up; wait`
	cmd.Env = append(os.Environ(), mode+"="+script)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if l, err := bufio.NewReader(out).ReadString('\n'); err != nil || l != "up\n" {
		t.Fatalf("the program said %q, %v", l, err)
	}
	kids := descendants(t, cmd.Process.Pid)
	if len(kids) < 3 {
		t.Fatalf("only %v were started", kids)
	}
	cmd.Process.Kill()
	cmd.Wait()
	deadline := time.Now().Add(20 * time.Second)
	for {
		var left []string
		for _, p := range kids {
			if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p)); err == nil && !strings.Contains(string(b), ") Z ") {
				left = append(left, string(b))
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still there:\n%s", strings.Join(left, ""))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// descendants lists the processes below pid but for the guard, which ends by
// itself.
func descendants(t *testing.T, pid int) (out []int) {
	t.Helper()
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range tasks {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Skip("this kernel does not list the children of a task: ", err)
		}
		for _, w := range strings.Fields(string(b)) {
			var n int
			fmt.Sscan(w, &n)
			out = append(out, n)
			out = append(out, descendants(t, n)...)
		}
	}
	return out
}

func TestCancelKillsTheGroup(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	// B50 of a harness: the child ignores SIGTERM and keeps stdout open.
	pr, pw := io.Pipe()
	go func() {
		bufio.NewReader(pr).ReadString('\n')
		cancel()
		io.Copy(io.Discard, pr)
	}()
	_, err := Run(ctx, Cmd{Argv: []string{"/bin/sh", "-c", `trap '' TERM; (trap '' TERM; sleep 1000) & echo up; wait; sleep 1000`}, Stdout: pw})
	var pe *Error
	if !errors.As(err, &pe) || !errors.Is(err, context.Canceled) || pe.Signal != syscall.SIGKILL {
		t.Fatalf("err = %v", err)
	}
}

// A program that ends, or is killed, takes what it left in the background with
// it, and nobody waits for the output that this holds open.
func TestNothingIsLeftBehind(t *testing.T) {
	for _, script := range []string{`sleep 1000 & echo $!`, `sleep 1000 & echo $!; kill -KILL $$`} {
		start := time.Now()
		res, _ := Run(context.Background(), Cmd{Argv: []string{"/bin/sh", "-c", script}})
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(res.Stdout)) + "/stat")
		for err == nil && !strings.Contains(string(stat), ") Z ") && time.Since(start) < 20*time.Second {
			time.Sleep(10 * time.Millisecond)
			stat, err = os.ReadFile("/proc/" + strings.TrimSpace(string(res.Stdout)) + "/stat")
		}
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			t.Errorf("%s: still there: %s", script, stat)
		}
	}
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name, script string
		exit         int
		want         string // in the error
	}{
		{"right", "exit 0", 0, ""},
		{"exit status", "echo no luck >&2; exit 7", 7, "failed with exit status 7:\n  no luck"},
		{"by signal", "kill -9 $$", 137, "was killed by signal 9"},
		{"stdout when stderr is empty", "echo here; exit 1", 1, "here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, err := Run(context.Background(), Cmd{Argv: []string{"/bin/sh", "-c", c.script}})
			if res.Exit != c.exit {
				t.Errorf("exit %d, want %d", res.Exit, c.exit)
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("err = %v, want %q", err, c.want)
			}
		})
	}
	if _, err := Run(context.Background(), Cmd{Argv: []string{"/nonexistent/program"}}); err == nil || !strings.Contains(err.Error(), "cannot start") {
		t.Errorf("err = %v", err)
	}
}

func TestOOMScore(t *testing.T) {
	// Read a moment later: the score is set right after the start.
	const script = "sleep 0.3; cat /proc/self/oom_score_adj"
	for _, c := range []struct{ set, want int }{{0, OOMScore}, {700, 700}} {
		res, err := Run(context.Background(), Cmd{Argv: []string{"/bin/sh", "-c", script}, OOMScore: c.set})
		if err != nil || strings.TrimSpace(string(res.Stdout)) != fmt.Sprint(c.want) {
			t.Errorf("score %q, %v; want %d", res.Stdout, err, c.want)
		}
	}
}

// A guard that was killed is replaced.
func TestGuardRestarts(t *testing.T) {
	guard.Lock()
	if guard.in != nil {
		guard.in.Close()
	}
	r, w, _ := os.Pipe()
	r.Close()
	guard.in = w // writing to it fails
	guard.Unlock()
	if err := tell("+ 99999999"); err != nil {
		t.Fatal(err)
	}
	if err := tell("- 99999999"); err != nil {
		t.Fatal(err)
	}
}
