// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"patchcheck/internal/sharedtest"
)

func TestConsoleState(t *testing.T) {
	tests := map[string]struct {
		text  string
		panic string
		oom   bool
		check func(consoleState) bool
	}{
		"plain":           {text: "[    0.0] x\r\n[    1.0] WARNING: y\r\n"},
		"panic":           {text: "[   11.256674][    T1] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100\r\n", panic: "Attempted to kill init! exitcode=0x00000100"},
		"cut":             {text: "[    1.600000] Kernel panic - not syncing: Fatal exc", panic: "Fatal exc"},
		"no message":      {text: "[    1.600000] Kernel panic - not syncing: ", panic: "(no message)"},
		"first of two":    {text: "[    1.6] Kernel panic - not syncing: A\n[    1.7] Kernel panic - not syncing: B\n", panic: "A"},
		"end marker":      {text: "[    1.6] ---[ end Kernel panic - not syncing: A ]---\n"},
		"user text":       {text: "Kernel panic - not syncing: typed\n# echo Kernel panic - not syncing: x\n"},
		"quoted":          {text: "[    3.0] test: Kernel panic - not syncing: quoted\n"},
		"oom":             {text: "[   61.790] Out of memory: Killed process 412 (fio) total-vm:812340kB\n", oom: true},
		"oom invocation":  {text: "[   61.730] fio invoked oom-killer: gfp_mask=0x140cca\n", oom: true},
		"oom in a string": {text: "Out of memory: Killed process 1\n"},
		"agent":           {text: "[    1.0] patchcheck: init started\n", check: func(s consoleState) bool { return s.agent && s.fatal == "" }},
		"fatal":           {text: "[    1.0] patchcheck: fatal: no port\n", check: func(s consoleState) bool { return s.fatal == "no port" }},
		"initramfs":       {text: "[    1.0] Initramfs unpacking failed: write error\n", check: func(s consoleState) bool { return s.noinit }},
	}
	for name, tc := range tests {
		// However the bytes are cut, the outcome is the same.
		for _, step := range []int{1, 7, 1 << 20} {
			c := newConsole()
			for b := []byte(tc.text); len(b) > 0; {
				n := min(step, len(b))
				c.add(b[:n])
				b = b[n:]
			}
			s := c.state()
			if s.panic != tc.panic || (s.oom != "") != tc.oom || tc.check != nil && !tc.check(s) {
				t.Errorf("%s, in steps of %d: %+v", name, step, s)
			}
		}
	}
}

func TestConsoleTailAndSinks(t *testing.T) {
	c := newConsole()
	var seen strings.Builder
	cancel := c.subscribe(&seen)
	c.subscribe(writerFunc(func([]byte) (int, error) { return 0, errors.New("gave up") }))
	for i := range tailLines + 10 {
		c.add([]byte(strings.Repeat("x", i%5) + "\r\n"))
	}
	c.add([]byte("unfinished"))
	cancel()
	c.add([]byte(" line"))
	if got := c.tail(2); !slices.Equal(got, []string{strings.Repeat("x", (tailLines+9)%5), "unfinished line"}) {
		t.Errorf("tail %q", got)
	}
	if n := len(c.tail(1 << 20)); n != tailLines+1 {
		t.Errorf("%d lines kept", n)
	}
	if !strings.HasSuffix(seen.String(), "unfinished") {
		t.Errorf("after cancel something came: %q", seen.String()[len(seen.String())-20:])
	}
	if len(c.sinks) != 0 {
		t.Error("a reader that gave up is still asked")
	}
}

type failingLog struct{}

func (failingLog) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }
func (failingLog) Close() error              { return nil }

func TestConsoleLogFull(t *testing.T) {
	c := newConsole()
	c.follow(io.NopCloser(strings.NewReader("[    1.0] x\n")), failingLog{})
	if s := c.state(); s.logErr == nil || s.total != 12 {
		t.Errorf("%+v", s)
	}
}

// Console samples of the shared cases: how a guest that ends so is judged.
func TestSharedSamples(t *testing.T) {
	dir := sharedtest.Path(t, "cases", "samples")
	tests := []struct {
		file  string
		check func(consoleState) bool
	}{
		{"B47-panic-init.log", func(s consoleState) bool { return strings.HasPrefix(s.panic, "Attempted to kill init!") }},
		{"B54-no9p.log", func(s consoleState) bool {
			return strings.HasPrefix(s.panic, "Requested init") && panicHint(s.panic, s.agent) != ""
		}},
		{"B56-oom.log", func(s consoleState) bool { return s.oom != "" && s.panic == "" }},
		{"B65-echo.log", func(s consoleState) bool { return s.panic == "" }},
	}
	for _, tc := range tests {
		b, err := os.ReadFile(filepath.Join(dir, tc.file))
		if err != nil {
			t.Error(err)
			continue
		}
		c := newConsole()
		c.add(b)
		if s := c.state(); !tc.check(s) {
			t.Errorf("%s: %+v", tc.file, s)
		}
	}
	for file, want := range map[string]string{
		"B51-kvm-broken.log":   "failed to initialize kvm: Permission denied",
		"B51-kvm-internal.log": "KVM internal error. Suberror: 3",
	} {
		b, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Error(err)
			continue
		}
		if got := explainKVM(string(b), &process{exit: 1}); !strings.Contains(got, want) {
			t.Errorf("%s: %s", file, got)
		}
	}
}

func FuzzConsole(f *testing.F) {
	f.Add([]byte("[    1.6] Kernel panic - not syncing: A\r\n\x1b[2J[  "), 3)
	f.Add([]byte(strings.Repeat("y", maxPartial+10)), 100)
	f.Fuzz(func(t *testing.T, b []byte, step int) {
		if step < 1 {
			step = 1
		}
		whole, parts := newConsole(), newConsole()
		if len(b) > 0 {
			whole.add(b)
		}
		for rest := b; len(rest) > 0; {
			n := min(step, len(rest))
			parts.add(rest[:n])
			rest = rest[n:]
		}
		if !slices.Equal(whole.tail(50), parts.tail(50)) {
			t.Errorf("lines depend on how the bytes came: %q %q", whole.tail(50), parts.tail(50))
		}
		if len(parts.partial) > maxPartial {
			t.Errorf("%d bytes of one line kept", len(parts.partial))
		}
	})
}

func TestPrintable(t *testing.T) {
	if got := printable("a\x1b[31mred\x07\tb\u009bc\u202ed\x7f"); got != `a\x1b[31mred\x07\tb\u009bc\u202ed\x7f` {
		t.Errorf("%q", got)
	}
}
