// SPDX-License-Identifier: Apache-2.0

//go:build integration

package vm_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchcheck/vm"
	"patchcheck/vm/guestssh"
	"patchcheck/vm/image"
	"patchcheck/vm/initramfs"
)

// fullImage is the guest image that users get, from the cache named by
// PATCHCHECK_CACHE or the default one.
func fullImage(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	agent, err := image.BuildAgent(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	img, err := image.Build(ctx, image.Options{AgentPath: agent})
	if err != nil {
		t.Fatal(err)
	}
	return img.Path
}

// cpu is the CPU time of children that have ended and of this process, which
// tells more than the wall on a busy host.
func cpu() time.Duration {
	var sum time.Duration
	for _, who := range []int{unix.RUSAGE_CHILDREN, unix.RUSAGE_SELF} {
		var ru unix.Rusage
		unix.Getrusage(who, &ru)
		sum += time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
	}
	return sum
}

// BenchmarkBare is the yardstick: QEMU boots the same kernel with an init that
// prints a line and restarts, the whole process.
func BenchmarkBare(b *testing.B) {
	dir := b.TempDir()
	t := initramfs.Tree{}
	t.File("init", 0o755, vm.TinyInit("7.3.4\n"))
	img, err := t.Bytes()
	if err != nil {
		b.Fatal(err)
	}
	initrd := filepath.Join(dir, "initrd")
	if err := os.WriteFile(initrd, img, 0o644); err != nil {
		b.Fatal(err)
	}
	kernel := kernel(b)
	used := cpu()
	defer func() { b.ReportMetric((cpu()-used).Seconds()/float64(b.N), "cpu-s/op") }()
	for b.Loop() {
		cmd := exec.Command("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
			"-machine", "q35,accel=tcg", "-cpu", "max", "-smp", strconv.Itoa(vm.DefaultCPUs), "-m", "1024", "-no-reboot",
			"-serial", "file:"+filepath.Join(dir, "log"), "-kernel", kernel, "-initrd", initrd,
			"-append", "console=ttyS0 panic=-1 quiet")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
}

// BenchmarkShell is `shell -- uname -r`: boot, command, end.
func BenchmarkShell(b *testing.B) {
	img := fullImage(b)
	ctx := context.Background()
	kernel := kernel(b)
	used := cpu()
	defer func() { b.ReportMetric((cpu()-used).Seconds()/float64(b.N), "cpu-s/op") }()
	for b.Loop() {
		g, err := vm.Boot(ctx, vm.Config{Kernel: kernel, Initrds: []string{img}})
		if err != nil {
			b.Fatal(err)
		}
		st, err := g.Exec(ctx, "uname -r", guestssh.IO{})
		if err != nil || !st.OK() {
			b.Fatal(st, err)
		}
		if err := g.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
