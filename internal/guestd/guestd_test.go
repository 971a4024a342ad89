// SPDX-License-Identifier: Apache-2.0

package guestd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"patchcheck/internal/guestproto"
)

func TestServe(t *testing.T) {
	reg := &Registry{}
	var late func(string)
	reg.Register("ok", func(_ context.Context, req json.RawMessage, log func(string)) (any, error) {
		log("one")
		late = log
		return map[string]string{"got": string(req)}, nil
	})
	reg.Register("nothing", func(context.Context, json.RawMessage, func(string)) (any, error) { return nil, nil })
	reg.Register("kernel", func(context.Context, json.RawMessage, func(string)) (any, error) {
		return 5, fmt.Errorf("wrapped: %w", &guestproto.Error{Class: guestproto.ClassKernel, Message: "EIO from write", Errno: "EIO"})
	})
	reg.Register("plain", func(context.Context, json.RawMessage, func(string)) (any, error) {
		return nil, errors.New("no such tool")
	})
	reg.Register("panic", func(context.Context, json.RawMessage, func(string)) (any, error) {
		var m map[string]int
		m["x"] = 1
		return nil, nil
	})
	reg.Register("unencodable", func(context.Context, json.RawMessage, func(string)) (any, error) { return make(chan int), nil })

	tests := []struct {
		verb  string
		ok    bool
		class string
		want  string // in the output
		lines int
	}{
		{"ok", true, "", `{"got":"[1]"}`, 2},
		{"nothing", true, "", `"done":true`, 1},
		{"kernel", false, guestproto.ClassKernel, `"result":5`, 1},
		{"plain", false, guestproto.ClassSetup, "no such tool", 1},
		{"panic", false, guestproto.ClassUsage, "assignment to entry in nil map", 1},
		{"unencodable", false, guestproto.ClassUsage, "cannot be encoded", 1},
		{"unknown", false, guestproto.ClassUsage, "knows no verb", 1},
	}
	for _, tc := range tests {
		t.Run(tc.verb, func(t *testing.T) {
			var out bytes.Buffer
			ok := reg.serve(context.Background(), tc.verb, strings.NewReader("[1]"), &out)
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if ok != tc.ok || len(lines) != tc.lines || !strings.Contains(strings.ReplaceAll(out.String(), `\"`, `"`), tc.want) {
				t.Fatalf("%v: %s", ok, out.String())
			}
			var m guestproto.Message
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &m); err != nil || !m.Done {
				t.Fatalf("last line: %v %+v", err, m)
			}
			class := ""
			if m.Error != nil {
				class = m.Error.Class
			}
			if class != tc.class {
				t.Errorf("class %q, want %q", class, tc.class)
			}
			if late != nil {
				n := out.Len()
				late("too late")
				if out.Len() != n {
					t.Error("a log line follows the result")
				}
			}
		})
	}
}

func TestRegisterTwice(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a verb was registered twice")
		}
	}()
	reg := &Registry{}
	reg.Register("a", nil)
	reg.Register("a", nil)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestZombies(t *testing.T) {
	proc := t.TempDir()
	write(t, proc+"/10/stat", "10 (a) Z 1 10 10 0 -1\n")
	write(t, proc+"/11/stat", "11 (b (x) Z) S 1 11 11 0 -1\n")
	write(t, proc+"/12/stat", "12 (c) Z 7 12 12 0 -1\n")
	write(t, proc+"/13/stat", "13 (d) x) Z 1 13 13 0 -1\n")
	write(t, proc+"/14/stat", "14 (cut")
	write(t, proc+"/self/stat", "9 (e) Z 1\n")
	if got := zombies(proc, 1); !slices.Equal(got, []int{10, 13}) {
		t.Errorf("got %v", got)
	}
}

// A child of our own keeps its exit status for whoever waits for it soon; one
// that nobody waits for is reaped in the end.
func TestReapOnce(t *testing.T) {
	start := func() *exec.Cmd {
		cmd := exec.Command("sh", "-c", "exit 3")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	dead := func(pid int) bool { return slices.Contains(zombies("/proc", os.Getpid()), pid) }
	a := start()
	for !dead(a.Process.Pid) {
		time.Sleep(time.Millisecond)
	}
	now := time.Now()
	seen := reapOnce("/proc", nil, now)
	if _, ok := seen[a.Process.Pid]; !ok {
		t.Fatalf("not seen: %v", seen)
	}
	seen = reapOnce("/proc", seen, now.Add(orphanAge/2))
	if err := a.Wait(); err == nil || a.ProcessState.ExitCode() != 3 {
		t.Errorf("a child that is waited for lost its status: %v", err)
	}
	b := start()
	for !dead(b.Process.Pid) {
		time.Sleep(time.Millisecond)
	}
	seen = reapOnce("/proc", seen, now)
	reapOnce("/proc", seen, now.Add(2*orphanAge))
	if dead(b.Process.Pid) {
		t.Error("an orphan is not reaped")
	}
}

func TestFindPort(t *testing.T) {
	class := t.TempDir()
	write(t, class+"/vport1p1/name", "patchcheck.events\n")
	write(t, class+"/vport1p2/name", "patchcheck.ssh\n")
	if err := os.MkdirAll(class+"/vport1p3", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{guestproto.PortSSH: "vport1p2", guestproto.PortEvents: "vport1p1", "other": ""} {
		if got := findPort(class, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := findPort(class+"/none", "x"); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestProcFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/mounts", "rootfs / rootfs rw 0 0\nproc /proc proc rw 0 0\noverlay / overlay rw 0 0\n")
	write(t, dir+"/meminfo", "MemTotal:        1009516 kB\nMemFree: 1 kB\n")
	if got := rootType(dir + "/mounts"); got != "overlay" {
		t.Errorf("root %q", got)
	}
	if got := memTotal(dir + "/meminfo"); got != 1009516 {
		t.Errorf("memory %d", got)
	}
}
