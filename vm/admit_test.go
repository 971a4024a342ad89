// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// host writes a /proc and /sys for readCapacity.
func host(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	if _, ok := files["proc/meminfo"]; !ok {
		files["proc/meminfo"] = "MemTotal: 4194304 kB\nMemFree: 100 kB\nMemAvailable: 3145728 kB\nSwapFree: 9999999 kB\n"
	}
	for n, text := range files {
		p := filepath.Join(root, n)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestCapacity(t *testing.T) {
	const gib = "1073741824"
	for _, c := range []struct {
		name        string
		files       map[string]string
		total, free int64
		of          string
	}{
		{"no control group", map[string]string{}, 4096, 3072, "the host"},
		{"v2 without a limit", map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, 4096, 3072, "the host"},
		{"v2, limit on the parent, cache counts as free", map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n",
			"sys/fs/cgroup/a/memory.max": gib + "\n", "sys/fs/cgroup/a/memory.current": "805306368\n", "sys/fs/cgroup/a/memory.stat": "anon 1\ninactive_file 268435456\n"}, 1024, 512, "the control group /a"},
		{"v2, in a container", map[string]string{"proc/self/cgroup": "0::/../../docker/x\n", "sys/fs/cgroup/memory.max": gib, "sys/fs/cgroup/memory.current": gib}, 1024, 0, "the control group /"},
		{"v1", map[string]string{"proc/self/cgroup": "4:cpu:/c\n3:memory:/m\n", "sys/fs/cgroup/memory/m/memory.limit_in_bytes": gib, "sys/fs/cgroup/memory/m/memory.usage_in_bytes": "0"}, 1024, 1024, "the control group /m"},
		{"v1 without a limit", map[string]string{"proc/self/cgroup": "3:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}, 4096, 3072, "the host"},
		{"a limit larger than the host", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "109951162777600"}, 4096, 3072, "the host"},
		{"a host that does not tell", map[string]string{"proc/meminfo": ""}, 0, 0, "the host"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := readCapacity(host(t, c.files))
			if got.total != c.total || got.free != c.free || got.of != c.of {
				t.Errorf("got %+v", got)
			}
		})
	}
	if got := readCapacity(host(t, map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "100000 100000\n"})); got.cpus != 1 {
		t.Errorf("cpu.max of one CPU: %d", got.cpus)
	}
}

func TestShortage(t *testing.T) {
	h := capacity{total: 8192, free: 4096, of: "the host", cpus: 2}
	for _, c := range []struct {
		name    string
		want    claim
		others  []claim
		anyCPUs bool
		say     string // "": admitted
	}{
		{name: "room", want: claim{mib: 2048, cpus: 2}},
		{name: "memory is short", want: claim{mib: 5000, cpus: 2}, say: "the guest needs 5000 MiB of memory, the host has 4096 of 8192 MiB available"},
		{name: "memory is promised", want: claim{mib: 2048, cpus: 2}, others: []claim{{mib: 3000, cpus: 1}}, say: "and 3000 of them are promised to another guest"},
		{name: "memory is promised to several", want: claim{mib: 2048, cpus: 1}, others: []claim{{mib: 1500, cpus: 1}, {mib: 1500, cpus: 1}}, say: "promised to other guests"},
		{name: "CPUs are promised", want: claim{mib: 128, cpus: 2}, others: []claim{{cpus: 2}, {cpus: 1}}, say: "the guest needs 2 CPUs, the host has 2 and other guests have 3"},
		{name: "no more waiting for CPUs", want: claim{mib: 128, cpus: 2}, others: []claim{{cpus: 2}, {cpus: 1}}, anyCPUs: true},
		{name: "more CPUs than the host, alone", want: claim{mib: 128, cpus: 8}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := h.shortage(c.want, c.others, c.anyCPUs)
			if c.say == "" && got != "" || !strings.Contains(got, c.say) {
				t.Errorf("got %q", got)
			}
		})
	}
	err := h.ever(claim{mib: 9000})
	var ie *InfraError
	if !errors.As(err, &ie) || !strings.Contains(err.Error(), "needs 9000 MiB") || !strings.Contains(err.Error(), "the host has 8192 in all") {
		t.Errorf("a guest larger than the host: %v", err)
	}
}

// Guests that wait are told why once, get in when another ends, and are
// refused with the numbers in the end. A dead patchcheck's place is free.
func TestAdmission(t *testing.T) {
	oldDir, oldRoot, oldMem, oldCPU := admitDir, admitRoot, waitMemory, waitCPUs
	admitDir, admitRoot, waitCPUs = filepath.Join(t.TempDir(), "guests"), host(t, map[string]string{}), time.Hour
	defer func() { admitDir, admitRoot, waitMemory, waitCPUs = oldDir, oldRoot, oldMem, oldCPU }()
	hog := Config{MemMiB: 2048, CPUs: 1, Accel: TCG} // of 3072 available
	small := Config{MemMiB: 512, CPUs: 1, Accel: TCG}
	a, err := admit(context.Background(), hog, func(s string) { t.Error(s) })
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 10)
	done := make(chan error, 1)
	go func() {
		b, err := admit(context.Background(), small, func(s string) { said <- s })
		b.release()
		done <- err
	}()
	if s := <-said; !strings.Contains(s, "waiting: the guest needs 896 MiB") || !strings.Contains(s, "promised to another guest") {
		t.Errorf("said %q", s)
	}
	a.release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(said) > 0 {
		t.Error("said more than once")
	}

	// A file that nobody holds is of the dead.
	if err := os.WriteFile(filepath.Join(admitDir, "guest-dead"), []byte("999999999 9 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a, err = admit(context.Background(), hog, func(s string) { t.Error(s) }); err != nil {
		t.Fatal(err)
	}
	defer a.release()
	waitMemory = 0
	_, err = admit(context.Background(), small, func(string) {})
	var ie *InfraError
	if !errors.As(err, &ie) || !strings.Contains(err.Error(), "MiB available") {
		t.Errorf("not refused: %v", err)
	}
	waitMemory = time.Hour
	ctx, cancel := context.WithCancel(context.Background())
	_, err = admit(ctx, small, func(string) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("not cancelled: %v", err)
	}
}

func TestOOMEvidence(t *testing.T) {
	log := filepath.Join(t.TempDir(), "kmsg")
	os.WriteFile(log, []byte("3,1,100,-;Out of memory: Killed process 41 (cc1) total-vm:1kB\n3,2,200,-;Out of memory: Killed process 42 (qemu-system-x86) total-vm:2000kB, oom_score_adj:800\n"), 0o644)
	if got := oomRecord(log, 42); !strings.HasPrefix(got, "Out of memory: Killed process 42 (qemu-system-x86)") {
		t.Errorf("got %q", got)
	}
	if got := oomRecord(log, 4); got != "" {
		t.Errorf("got %q", got)
	}
	if got := oomRecord(log+".none", 42); got != "" {
		t.Errorf("got %q", got)
	}
	root := host(t, map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.events": "low 0\noom 2\noom_kill 3\n"})
	if n := oomKills(root); n != 3 {
		t.Errorf("oom_kill %d", n)
	}
}

// A QEMU that somebody kills, as the OOM killer does, is the host's trouble.
func TestKilledFromOutside(t *testing.T) {
	g := bootFake(t, "linger")
	score, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(g.PID()), "oom_score_adj"))
	if err != nil || strings.TrimSpace(string(score)) != strconv.Itoa(oomScore) {
		t.Errorf("oom_score_adj %q, %v", score, err)
	}
	if err := exec.Command("kill", "-KILL", strconv.Itoa(g.PID())).Run(); err != nil {
		t.Fatal(err)
	}
	<-g.Died()
	if d := g.Death(); d.Cause != DeathQEMU || !d.Infra() || !strings.Contains(d.Reason, "kill") || !strings.Contains(d.Reason, "guest memory 64 MiB") {
		t.Errorf("death: %+v", d)
	}
}
