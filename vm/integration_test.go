// SPDX-License-Identifier: Apache-2.0

//go:build integration

package vm_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"patchcheck/internal/guestproto"
	"patchcheck/vm"
	"patchcheck/vm/initramfs"
)

// kernel is the image under test, from PATCHCHECK_TEST_KERNEL.
func kernel(t testing.TB) string {
	k := os.Getenv("PATCHCHECK_TEST_KERNEL")
	if k == "" {
		t.Fatal("PATCHCHECK_TEST_KERNEL must name a bzImage built with kernel-configs/*.config")
	}
	return k
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

func TestBootAndCall(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	g, err := vm.Boot(ctx, vm.Config{Kernel: kernel(t), Initrds: []string{agentImage(t)}, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	t.Logf("boot %v, guest %d ms, skew %v, QEMU %s", g.BootTime(), g.Ready().UptimeMS, g.Skew(), g.QEMUVersion())
	var f guestproto.Facts
	start := time.Now()
	if err := g.Call(ctx, guestproto.VerbFacts, nil, &f, nil); err != nil {
		t.Fatal(err)
	}
	t.Logf("facts in %v: %+v", time.Since(start), f)
	start = time.Now()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("close %v", time.Since(start))
	if d := g.Death(); d == nil || d.Cause != vm.DeathClosed {
		t.Errorf("death %+v", d)
	}
	con, _ := os.ReadFile(g.Console())
	t.Logf("console %d bytes", len(con))
	os.WriteFile("/tmp/vmwork/console.log", con, 0o644)
}
