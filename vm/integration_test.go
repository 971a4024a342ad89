// SPDX-License-Identifier: Apache-2.0

//go:build integration

package vm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"patchcheck/internal/cache"
	"patchcheck/internal/guestproto"
	"patchcheck/vm"
	"patchcheck/vm/guestssh"
	"patchcheck/vm/image"
	"patchcheck/vm/initramfs"
)

// kernel is the image under test: PATCHCHECK_TEST_KERNEL, else the newest one
// in the kernel cache that no series has changed and that is no debug kernel.
func kernel(t testing.TB) string {
	t.Helper()
	if k := os.Getenv("PATCHCHECK_TEST_KERNEL"); k != "" {
		return k
	}
	root, err := cache.DefaultRoot()
	if err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(root, "kernels", "*", "bzImage"))
	var newest string
	var when time.Time
	for _, k := range found {
		var made struct {
			Role      string   `json:"role"`
			Fragments []string `json:"fragments"`
		}
		b, err := os.ReadFile(filepath.Join(filepath.Dir(k), "kernel.json"))
		if err != nil || json.Unmarshal(b, &made) != nil || made.Role != "base" || !slices.Equal(made.Fragments, []string{"guest", "nfs-rdma"}) {
			continue
		}
		st, err := os.Stat(k)
		if _, merr := os.Stat(filepath.Join(filepath.Dir(k), cache.MarkName)); err == nil && merr == nil && st.ModTime().After(when) {
			newest, when = k, st.ModTime()
		}
	}
	if newest == "" {
		t.Fatalf("no kernel to boot: set PATCHCHECK_TEST_KERNEL to a bzImage built with kernel-configs/*.config, or let patchcheck build one (none in %s)", filepath.Join(root, "kernels"))
	}
	return newest
}

// agentImage is an initramfs with nothing but the agent.
func agentImage(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	agent := filepath.Join(dir, "patchcheck-guest")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", agent, "patchcheck/cmd/patchcheck-guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the agent: %v\n%s", err, out)
	}
	data, err := os.ReadFile(agent)
	if err != nil {
		t.Fatal(err)
	}
	tree := initramfs.Tree{}
	tree.File("init", 0o755, data)
	b, err := tree.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	img := filepath.Join(dir, "agent.cpio")
	if err := os.WriteFile(img, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return img
}

func boot(t *testing.T, edit func(*vm.Config)) (*vm.Guest, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	cfg := vm.Config{Kernel: kernel(t), StateDir: t.TempDir()}
	if edit != nil {
		edit(&cfg)
	}
	g, err := vm.Boot(ctx, cfg)
	if err == nil {
		t.Cleanup(func() { g.Close() })
		t.Logf("boot %v, guest %d ms, skew %v, QEMU %s", g.BootTime(), g.Ready().UptimeMS, g.Skew(), g.QEMUVersion())
	}
	return g, err
}

// A real guest: facts, commands, streams, an end without a person.
func TestGuest(t *testing.T) {
	img := fullImage(t)
	var live bytes.Buffer
	g, err := boot(t, func(c *vm.Config) {
		c.Initrds = []string{img}
		c.Console = &live
		// An hour ahead: found, said and put right.
		c.Args = []string{"-rtc", "base=" + time.Now().UTC().Add(time.Hour).Format("2006-01-02T15:04:05")}
	})
	if err != nil {
		t.Fatal(err)
	}
	if s := g.Skew(); s < 50*time.Minute || s > 70*time.Minute {
		t.Errorf("skew %v, want an hour", s)
	}
	ctx := context.Background()
	var f guestproto.Facts
	if err := g.Call(ctx, guestproto.VerbFacts, nil, &f, nil); err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", f)
	if f.CPUs != vm.DefaultCPUs || f.RootFS != "rootfs" || f.Release == "" || f.Tools["rdma"] == "" {
		t.Errorf("facts: %+v", f)
	}
	if s := time.Until(time.Unix(0, f.UnixNano)); s.Abs() > vm.MaxSkew || !g.ClockSet() {
		t.Errorf("clocks are %v apart", s)
	}
	for _, tc := range []struct {
		command string
		status  guestssh.Status
		out     string
	}{
		{"uname -r", guestssh.Status{}, f.Release + "\n"},
		{"exit 7", guestssh.Status{Exit: 7}, ""},
		{"kill -KILL $$", guestssh.Status{Exit: 137, Signal: "KILL"}, ""},
		// The clock must be finer than a tick, and not lose any.
		{"cat /sys/devices/system/clocksource/clocksource0/current_clocksource", guestssh.Status{}, "tsc\n"},
		// Work happens on a file system that keeps an unlinked file.
		{"cd /tmp && exec 3>f && rm f && echo x >&3 && echo kept", guestssh.Status{}, "kept\n"},
		{"cat /proc/sys/kernel/printk | cut -f1", guestssh.Status{}, "7\n"},
		{"ls /etc/patchcheck 2>/dev/null", guestssh.Status{Exit: 1}, ""},
		// Every program finds its libraries.
		{`for p in /usr/bin/* /usr/sbin/*; do [ -L $p ] || [ $p = /usr/bin/busybox ] || /lib64/ld-linux-x86-64.so.2 --list $p >/dev/null 2>&1 || echo $p; done`, guestssh.Status{}, ""},
	} {
		var out bytes.Buffer
		st, err := g.Exec(ctx, tc.command, guestssh.IO{Stdout: &out})
		if err != nil || st != tc.status || out.String() != tc.out {
			t.Errorf("%s: %v %v %q", tc.command, st, err, out.String())
		}
	}
	// A megabyte each way, byte for byte.
	big := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	var back bytes.Buffer
	start := time.Now()
	if st, err := g.Exec(ctx, "cat", guestssh.IO{Stdin: bytes.NewReader(big), Stdout: &back}); err != nil || !st.OK() || !bytes.Equal(back.Bytes(), big) {
		t.Errorf("cat: %v %v, %d bytes back", st, err, back.Len())
	}
	t.Logf("1 MiB there and back in %v", time.Since(start))

	if err := g.Call(ctx, guestproto.VerbPoweroff, nil, nil, nil); err != nil {
		t.Error(err)
	}
	select {
	case <-g.Died():
	case <-time.After(20 * time.Second):
		t.Fatal("the guest does not end")
	}
	file, err := os.ReadFile(g.Console())
	if err != nil || !bytes.Equal(file, live.Bytes()) {
		t.Errorf("console file of %d bytes and stream of %d differ (%v)", len(file), live.Len(), err)
	}
}

// The optional layers' programs run.
func TestLayers(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	agent, err := image.BuildAgent(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	img, err := image.Build(ctx, image.Options{AgentPath: agent, Layers: image.Layers()})
	if err != nil {
		t.Fatal(err)
	}
	g, err := boot(t, func(c *vm.Config) { c.Initrds = []string{img.Path} })
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	st, err := g.Exec(ctx, "fio --version && ip link add dummy1 type dummy && ip addr add 192.0.2.1/24 dev dummy1 && ip link set dummy1 up && rdma link add rxe0 type rxe netdev dummy1 && ibv_devices", guestssh.IO{Stdout: &out, Stderr: &out})
	if err != nil || !st.OK() || !strings.Contains(out.String(), "fio-") || !strings.Contains(out.String(), "rxe0") {
		t.Errorf("%v %v %s", st, err, out.String())
	}
}

// A kernel without an initramfs panics before init: an answer in seconds, by
// the right type.
func TestNoInit(t *testing.T) {
	_, err := boot(t, nil)
	var be *vm.BootError
	if !errors.As(err, &be) || be.Kind != vm.BootPanic || !strings.Contains(err.Error(), "CONFIG_BLK_DEV_INITRD") {
		t.Errorf("got %T %v", err, err)
	}
}

func TestTooLittleMemory(t *testing.T) {
	img := fullImage(t)
	_, err := boot(t, func(c *vm.Config) { c.Initrds = []string{img}; c.MemMiB = 64 })
	var ie *vm.InfraError
	if !errors.As(err, &ie) || !strings.Contains(err.Error(), "memory") {
		t.Errorf("got %T %v", err, err)
	}
}

// A kernel that dies in use ends the call with the reason, and pvpanic tells.
func TestPanicInUse(t *testing.T) {
	img := agentImage(t)
	g, err := boot(t, func(c *vm.Config) { c.Initrds = []string{img} })
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	err = g.Call(context.Background(), guestproto.VerbSysrq, guestproto.Sysrq{Keys: "c"}, nil, nil)
	var gd *vm.GuestDied
	if !errors.As(err, &gd) || gd.Cause != vm.DeathPanic || !strings.Contains(err.Error(), "sysrq triggered crash") {
		t.Errorf("got %T %v", err, err)
	}
	t.Logf("known after %v", time.Since(start))
	told := false
	for _, ev := range g.Events() {
		told = told || ev.Event == "GUEST_PANICKED"
	}
	if !told {
		t.Errorf("no GUEST_PANICKED among %v", g.Events())
	}
}

// PID 1 that crashes is our fault, not the kernel's.
func TestAgentCrash(t *testing.T) {
	img := fullImage(t)
	g, err := boot(t, func(c *vm.Config) { c.Initrds = []string{img} })
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Exec(context.Background(), "kill -ABRT 1; sleep 60", guestssh.IO{})
	var gd *vm.GuestDied
	if !errors.As(err, &gd) || gd.Cause != vm.DeathAgent || !gd.Infra() {
		t.Errorf("got %T %v", err, err)
	}
}

// The last resort makes a guest talk from which nobody else gets an answer.
func TestNMI(t *testing.T) {
	img := agentImage(t)
	g, err := boot(t, func(c *vm.Config) { c.Initrds = []string{img} })
	if err != nil {
		t.Fatal(err)
	}
	if err := g.NMI(context.Background()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.Died():
	case <-time.After(30 * time.Second):
		t.Fatal("nothing happened")
	}
	if d := g.Death(); d.Cause != vm.DeathPanic {
		t.Errorf("died of %v", d)
	}
}

// When patchcheck dies the agent ends the guest even if QEMU does not get the
// signal: here only the connection is cut.
func TestGuestEndsWithoutHost(t *testing.T) {
	img := agentImage(t)
	g, err := boot(t, func(c *vm.Config) { c.Initrds = []string{img} })
	if err != nil {
		t.Fatal(err)
	}
	g.CutSSH()
	select {
	case <-g.Died():
		t.Log(g.Death())
	case <-time.After(30 * time.Second):
		t.Fatal("the guest goes on")
	}
}

// The probe finds the truth about KVM on this host, and quickly.
func TestProbeReal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "accel.json")
	for _, cached := range []bool{false, true} {
		start := time.Now()
		c, err := vm.Probe(context.Background(), vm.ProbeOptions{Want: vm.Auto, Kernel: kernel(t), CacheFile: file})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%v: %+v", time.Since(start), c)
		if c.Host != "" && c.Cached != cached {
			t.Errorf("cached: %v", c.Cached)
		}
	}
}
