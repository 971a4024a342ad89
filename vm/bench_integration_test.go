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
	for b.Loop() {
		cmd := exec.Command("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
			"-machine", "q35,accel=tcg", "-cpu", "max", "-smp", strconv.Itoa(vm.DefaultCPUs), "-m", "1024", "-no-reboot",
			"-serial", "file:"+filepath.Join(dir, "log"), "-kernel", kernel(b), "-initrd", initrd,
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
	for b.Loop() {
		g, err := vm.Boot(ctx, vm.Config{Kernel: kernel(b), Initrds: []string{img}})
		if err != nil {
			b.Fatal(err)
		}
		st, err := g.Exec(ctx, "uname -r", guestssh.IO{})
		if err != nil || !st.OK() {
			b.Fatal(st, err)
		}
		b.ReportMetric(g.BootTime().Seconds(), "boot-s")
		if err := g.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
