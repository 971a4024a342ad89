// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchcheck/internal/guestproto"
	"patchcheck/vm/guestssh"
)

func bootFake(t *testing.T, scenario string, edit ...func(*Config)) *Guest {
	t.Helper()
	cfg := fakeConfig(t, scenario)
	for _, f := range edit {
		f(&cfg)
	}
	g, err := Boot(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func TestBootFailures(t *testing.T) {
	tests := []struct {
		scenario string
		kind     BootKind // of a BootError; "" wants an InfraError
		want     string   // in the message
		evidence string   // in the message, too
	}{
		{"bad-option", "", "QEMU ended with exit status 1", "'nonsense' is not a valid device model name"},
		{"no-memory", "", "the host has no 64 MiB for the guest", "Cannot allocate memory"},
		{"killed", "", "QEMU was killed from outside", ""},
		{"no-connect", "", "QEMU did not come up within", ""},
		{"silent", BootSilent, "not a byte on the console", ""},
		{"stuck", BootStuck, "PID 1 was never reached", "Linux version 7.3.4"},
		{"stuck-late", BootStuck, "PID 1 was never reached", "Linux version 7.3.4"},
		{"panic-exit", BootPanic, "Unable to mount root fs", "CONFIG_BLK_DEV_INITRD"},
		{"panic-hang", BootPanic, "Attempted to kill init! exitcode=0x0000", "Linux version 7.3.4"},
		{"oom-boot", "", "did not fit into its 64 MiB of memory", "deadlocked"},
		{"reset", BootReset, "without a panic", "Linux version"},
		{"agent-fatal", "", "PID 1 gave up: no virtio-serial port", ""},
		{"bad-ready", "", `first event is "hello`, ""},
		{"endless-ready", "", "first event has no end", ""},
		{"mute", BootMute, "SSH server did not answer", ""},
	}
	for _, tc := range tests {
		t.Run(tc.scenario, func(t *testing.T) {
			t.Parallel()
			cfg := fakeConfig(t, tc.scenario)
			g, err := Boot(context.Background(), cfg)
			if err == nil {
				g.Close()
				t.Fatal("booted")
			}
			var be *BootError
			var ie *InfraError
			switch {
			case errors.As(err, &be):
				if be.Kind != tc.kind {
					t.Errorf("kind %q, want %q: %v", be.Kind, tc.kind, err)
				}
			case errors.As(err, &ie):
				if tc.kind != "" {
					t.Errorf("infrastructure is blamed: %v", err)
				}
			default:
				t.Errorf("untyped error %T: %v", err, err)
			}
			for _, want := range []string{tc.want, tc.evidence} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("message lacks %q:\n%v", want, err)
				}
			}
			if !strings.Contains(err.Error(), "-kernel "+cfg.Kernel) {
				t.Errorf("message has no line to see it again:\n%v", err)
			}
		})
	}
}

func TestBootRefusesEarly(t *testing.T) {
	good := fakeConfig(t, "silent")
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte("CONFIG_64BIT=y\nCONFIG_VIRTIO_CONSOLE=m\n# CONFIG_PCI is not set\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		edit func(*Config)
		want string
	}{
		{"no QEMU", func(c *Config) { c.QEMU = "qemu-that-does-not-exist" }, "qemu-system-x86"},
		{"no kernel", func(c *Config) { c.Kernel += ".gone" }, "bzImage.gone does not exist"},
		{"kernel is a folder", func(c *Config) { c.Kernel = filepath.Dir(c.Kernel) }, "is not a file"},
		{"no image", func(c *Config) { c.Initrds = []string{"/nonexistent/initrd"} }, "guest image /nonexistent/initrd does not exist"},
		{"too much memory", func(c *Config) { c.MemMiB = 1 << 30 }, "in all; give it less"},
		{"config", func(c *Config) { c.KernelConfig = config }, "CONFIG_VIRTIO_CONSOLE=y (it is a module)"},
		{"auto", func(c *Config) { c.Accel = Auto }, "must be resolved"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			cfg := good
			tc.edit(&cfg)
			g, err := Boot(context.Background(), cfg)
			if err == nil {
				g.Close()
				t.Fatal("booted")
			}
			var ie *InfraError
			if !errors.As(err, &ie) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %T %v, want an InfraError with %q", err, err, tc.want)
			}
		})
	}
}

// Cancelling a boot in each of its phases leaves nothing running.
func TestBootCancelled(t *testing.T) {
	for _, scenario := range []string{"no-connect", "silent", "stuck", "mute"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			cfg := fakeConfig(t, scenario)
			cfg.Limits = Limits{QEMUStart: time.Hour, FirstByte: time.Hour, Silence: time.Hour, Boot: time.Hour, SSH: time.Hour, Death: time.Hour}
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(300*time.Millisecond, cancel)
			g, err := Boot(ctx, cfg)
			if err == nil {
				g.Close()
				t.Fatal("booted")
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			left, _ := filepath.Glob(filepath.Join(os.TempDir(), sockPrefix+strconv.Itoa(os.Getpid())+"-*", "initrd"))
			for _, l := range left {
				if b, err := os.ReadFile(filepath.Join(cfg.StateDir, "qemu.cmd")); err == nil && bytes.Contains(b, []byte(l)) {
					t.Errorf("%s is left behind", l)
				}
			}
		})
	}
}

func TestCall(t *testing.T) {
	g := bootFake(t, "ok")
	ctx := context.Background()
	var resp struct{ A int }
	var logs []string
	if err := g.Call(ctx, "echo", map[string]int{"A": 7}, &resp, func(s string) { logs = append(logs, s) }); err != nil {
		t.Fatal(err)
	}
	if resp.A != 7 || len(logs) != 1 || logs[0] != "echoing" {
		t.Errorf("got %+v, logs %q", resp, logs)
	}

	var part struct{ N int }
	err := g.Call(ctx, "fail", nil, &part, nil)
	var ge *guestproto.Error
	if !errors.As(err, &ge) || ge.Class != guestproto.ClassKernel || ge.Errno != "EIO" || part.N != 3 {
		t.Errorf("got %#v, part %+v", err, part)
	}
	err = g.Call(ctx, "crash", nil, nil, nil)
	if !errors.As(err, &ge) || ge.Class != guestproto.ClassUsage || !strings.Contains(ge.Message, "a bug") {
		t.Errorf("a panic of the agent gave %v", err)
	}
	if err := g.Call(ctx, "nonsense", nil, nil, nil); !errors.As(err, &ge) {
		t.Errorf("an unknown verb gave %v", err)
	}
	// Many at once on the one connection.
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var r struct{ A int }
			if err := g.Call(ctx, "echo", map[string]int{"A": i}, &r, nil); err != nil || r.A != i {
				t.Errorf("call %d: %+v %v", i, r, err)
			}
		}()
	}
	wg.Wait()
	if d := g.Death(); d != nil {
		t.Errorf("died: %v", d)
	}
	con, err := os.ReadFile(g.Console())
	if err != nil || !bytes.HasPrefix(con, []byte("[    0.100000] Linux version 7.3.4\r\n")) {
		t.Errorf("console log: %q %v", con, err)
	}
}

func TestCallEndings(t *testing.T) {
	tests := []struct {
		verb  string
		cause DeathCause
		want  string
	}{
		{"die", DeathReset, "no panic message"},
		{"oops", DeathPanic, "Fatal exception"},
		{"oops-hang", DeathPanic, "Fatal exception in interrupt"},
		{"oom", DeathMemory, "ran out of its 64 MiB"},
		{"agent-crash", DeathAgent, "PID 1 crashed, which ends a guest: panic: assignment"},
		{"close", DeathSession, "without a result"},
	}
	for _, tc := range tests {
		t.Run(tc.verb, func(t *testing.T) {
			t.Parallel()
			scenario := "ok"
			if tc.verb == "close" {
				scenario = "linger" // QEMU goes on, only PID 1 is gone
			}
			g := bootFake(t, scenario)
			err := g.Call(context.Background(), tc.verb, nil, nil, nil)
			var gd *GuestDied
			if !errors.As(err, &gd) {
				t.Fatalf("got %T %v", err, err)
			}
			if gd.Cause != tc.cause || !strings.Contains(gd.Error(), tc.want) || gd.Verb != tc.verb {
				t.Errorf("cause %s, want %s with %q: %v", gd.Cause, tc.cause, tc.want, gd)
			}
			if tc.cause != DeathSession {
				select {
				case <-g.Died():
				case <-time.After(10 * time.Second):
					t.Error("Died is not closed")
				}
			}
		})
	}
}

func TestCallDeadline(t *testing.T) {
	g := bootFake(t, "ok")
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	err := g.Call(ctx, "hang", nil, nil, nil)
	var na *NoAnswer
	if !errors.As(err, &na) || !errors.Is(err, context.DeadlineExceeded) || len(na.ConsoleTail) == 0 {
		t.Errorf("got %T %v", err, err)
	}
	// The guest is still usable, and can be made to talk.
	if err := g.Call(context.Background(), "echo", 1, nil, nil); err != nil {
		t.Error(err)
	}
	said := make(chan struct{})
	var text []byte
	g.Subscribe(writerFunc(func(p []byte) (int, error) {
		text = append(text, p...)
		if bytes.Contains(text, []byte("NMI backtrace")) {
			close(said)
			return 0, io.EOF
		}
		return len(p), nil
	}))
	if err := g.Interrogate(context.Background()); err != nil {
		t.Error(err)
	}
	if !g.NMISent() {
		t.Error("the last resort was not tried")
	}
	select {
	case <-said:
	case <-time.After(30 * time.Second):
		t.Error("nothing from the guest")
	}
}

// A guest whose clock is an hour ahead is told of; what took how long is taken
// from the host's monotonic clock.
func TestSkewIsTold(t *testing.T) {
	told := make(chan string, 10)
	start := time.Now()
	g := bootFake(t, "skewed", func(c *Config) { c.InfoLog = func(s string) { told <- s } })
	if s := <-told; !strings.Contains(s, "clock is 1h0m0s off") {
		t.Errorf("told %q", s)
	}
	if took := time.Since(start); g.BootTime() > took {
		t.Errorf("the boot took %v of %v", g.BootTime(), took)
	}
}

func TestPanicTextOfUserSpace(t *testing.T) {
	told := make(chan string, 10)
	g := bootFake(t, "ok", func(c *Config) {
		c.Limits.Death = time.Second
		c.InfoLog = func(s string) { told <- s }
	})
	if err := g.Call(context.Background(), "fake-panic-text", nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.Died():
		t.Errorf("a text killed the guest: %v", g.Death())
	case s := <-told:
		if !strings.Contains(s, "text of user space") {
			t.Error(s)
		}
	}
	if err := g.Call(context.Background(), "echo", 1, nil, nil); err != nil {
		t.Error(err)
	}
}

func TestExec(t *testing.T) {
	g := bootFake(t, "ok")
	tests := []struct {
		command, stdin string
		want           guestssh.Status
		stdout, stderr string
	}{
		{command: "exit 7", want: guestssh.Status{Exit: 7}},
		{command: "kill -SEGV $$", want: guestssh.Status{Exit: 139, Signal: "SEGV"}},
		{command: "echo out; echo err >&2", stdout: "out\n", stderr: "err\n"},
		{command: "cat", stdin: "through\n", stdout: "through\n"},
		// Something in the background keeps the output open.
		{command: "sleep 100 & echo done", stdout: "done\n"},
	}
	for _, tc := range tests {
		t.Run(tc.command, func(t *testing.T) {
			var out, errb bytes.Buffer
			st, err := g.Exec(context.Background(), tc.command, guestssh.IO{Stdin: strings.NewReader(tc.stdin), Stdout: &out, Stderr: &errb})
			if err != nil || st != tc.want || out.String() != tc.stdout || errb.String() != tc.stderr {
				t.Errorf("got %v %v, %q, %q", st, err, out.String(), errb.String())
			}
		})
	}
	// A shell without a terminal takes commands from stdin.
	var out bytes.Buffer
	st, err := g.Shell(context.Background(), ShellOptions{Stdin: strings.NewReader("echo in shell\nexit 3\n"), Stdout: &out})
	if err != nil || st.Exit != 3 || out.String() != "in shell\n" {
		t.Errorf("shell: %v %v %q", st, err, out.String())
	}
	// Stdin that never ends does not keep a command.
	r, w := io.Pipe()
	defer w.Close()
	if st, err := g.Exec(context.Background(), "exit 4", guestssh.IO{Stdin: r}); err != nil || st.Exit != 4 {
		t.Errorf("open stdin: %v %v", st, err)
	}
}

func TestCloseStubborn(t *testing.T) {
	g := bootFake(t, "stubborn")
	done := make(chan error)
	go func() { done <- g.Call(context.Background(), "hang", nil, nil, nil) }()
	time.Sleep(50 * time.Millisecond)
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if err := g.Close(); err != nil {
		t.Error("second Close:", err)
	}
	var gd *GuestDied
	if err := <-done; !errors.As(err, &gd) || gd.Cause != DeathClosed || !gd.Infra() {
		t.Errorf("the call ended with %v", err)
	}
	if _, err := os.Stat(g.sock); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", g.sock, err)
	}
}

// QEMU must not outlive a patchcheck that gets kill -9.
func TestQEMUDiesWithParent(t *testing.T) {
	cmd := exec.Command(os.Args[0], "boot-and-wait", t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		cmd.Wait()
		t.Fatalf("no process id: %q", line)
	}
	if b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/oom_score_adj"); err != nil || strings.TrimSpace(string(b)) != strconv.Itoa(oomScore) {
		t.Errorf("oom_score_adj: %q %v", b, err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	cmd.Process.Kill()
	cmd.Wait()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10000)
	if err != nil || n != 1 {
		unix.Kill(pid, unix.SIGKILL)
		t.Errorf("QEMU (process %d) lives on: %d %v", pid, n, err)
	}
	// The next run removes what was left.
	left := func() int {
		m, _ := filepath.Glob(filepath.Join(os.TempDir(), sockPrefix+strconv.Itoa(cmd.Process.Pid)+"-*"))
		return len(m)
	}
	if left() == 0 {
		t.Error("nothing was left; the test tests nothing")
	}
	sweepAge = 0
	defer func() { sweepAge = 5 * time.Second }()
	Sweep()
	if left() != 0 {
		t.Error("left-overs of the killed run are still there")
	}
}

func TestProbe(t *testing.T) {
	dir := t.TempDir()
	kernel := filepath.Join(dir, "bzImage")
	device := filepath.Join(dir, "kvm")
	for _, f := range []string{kernel, device} {
		if err := os.WriteFile(f, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// The scenario cannot be passed as an argument here; a wrapper does.
	qemu := func(scenario string) string {
		p := filepath.Join(dir, "qemu-"+scenario)
		script := "#!/bin/sh\nexec " + os.Args[0] + ` "$@" ` + scenarioArg + " " + scenario + "\n"
		if err := os.WriteFile(p, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		return p
	}
	tests := []struct {
		name, scenario string
		want           Accel
		device         Accel // Want
		dev            string
		reason         string
	}{
		{"answers", "probe-answers", KVM, Auto, device, "answered"},
		{"silent", "probe-silent", TCG, Auto, device, "said nothing within"},
		{"internal error", "kvm-internal", TCG, Auto, device, "KVM internal error. Suberror: 3"},
		{"permission", "kvm-permission", TCG, Auto, device, "failed to initialize kvm: Permission denied"},
		{"no device", "probe-answers", TCG, Auto, filepath.Join(dir, "none"), "has no"},
		{"asked for TCG", "probe-answers", TCG, TCG, device, "as asked for"},
		{"asked for KVM", "probe-silent", KVM, KVM, device, "as asked for"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			cacheFile := filepath.Join(t.TempDir(), "accel.json")
			o := ProbeOptions{Want: tc.device, Kernel: kernel, QEMU: qemu(tc.scenario), CacheFile: cacheFile, device: tc.dev, patience: 20 * time.Second}
			if tc.scenario == "probe-silent" {
				o.patience = 200 * time.Millisecond
			}
			c, err := Probe(context.Background(), o)
			if err != nil || c.Accel != tc.want || !strings.Contains(c.Reason, tc.reason) || c.Cached {
				t.Fatalf("got %+v %v", c, err)
			}
			if c.Host == "" {
				return
			}
			again, err := Probe(context.Background(), o)
			if err != nil || !again.Cached || again.Accel != c.Accel || again.Reason != c.Reason {
				t.Errorf("from the cache: %+v %v", again, err)
			}
			// An answer of another host is none.
			b, _ := os.ReadFile(cacheFile)
			os.WriteFile(cacheFile, bytes.Replace(b, []byte("kernel "), []byte("kernel 0"), 1), 0o644)
			if c, err := Probe(context.Background(), o); err != nil || c.Cached {
				t.Errorf("another host's answer was taken: %+v %v", c, err)
			}
		})
	}
}

// TestHostileAnswers: a guest runs a stranger's kernel. Whatever it says, the
// host uses bounded memory and says what is wrong.
func TestHostileAnswers(t *testing.T) {
	defer func(n int) { maxAnswer = n }(maxAnswer)
	maxAnswer = 4 << 20
	g := bootFake(t, "ok")
	var ie *InfraError
	err := g.Call(context.Background(), "flood", nil, nil, func(string) {})
	if !errors.As(err, &ie) || !strings.Contains(err.Error(), "longer than any answer") {
		t.Errorf("an endless answer gives %v", err)
	}
	var resp struct {
		N int `json:"n"`
	}
	if err := g.Call(context.Background(), "wrong-type", nil, &resp, nil); !errors.As(err, &ie) {
		t.Errorf("a string for a number gives %v", err)
	}
	err = g.Call(context.Background(), "nasty", nil, nil, nil)
	var ge *guestproto.Error
	if !errors.As(err, &ge) {
		t.Fatalf("an error of the guest gives %v", err)
	}
	if strings.ContainsAny(err.Error(), "\x1b\x07\u202e") || strings.Contains(err.Error(), "::error::") {
		t.Errorf("the guest's error reaches the output as it is: %q", err)
	}
	// The connection is still good for the next verb.
	var echo string
	if err := g.Call(context.Background(), "echo", "x", &echo, nil); err != nil || echo != "x" {
		t.Errorf("after that, echo gives %q, %v", echo, err)
	}
}
