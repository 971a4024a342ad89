// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"testing"
	"time"

	"patchcheck/checks/console"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

// deaf never answers.
type deaf struct{}

func (deaf) Call(ctx context.Context, _ string, _, _ any, _ func(string)) error {
	<-ctx.Done()
	return ctx.Err()
}

// A step of a kernel that has crashed is not waited for until its deadline.
func TestCrashEndsStep(t *testing.T) {
	w := newWatch("")
	b := &bench{g: deaf{}, plan: &testplans.Plan{}, hurry: 0.001, crash: w.crash}
	w.Write([]byte("[    9.1] ------------[ cut here ]------------\n[    9.1] WARNING: net/sunrpc/svc.c:100 at svc_example+0x10/0x20, CPU#0: nfsd/77\n"))
	select {
	case <-w.crash:
		t.Fatal("a WARN was taken for a crash")
	default:
	}
	w.Write([]byte("[    9.2] BUG: kernel NULL pointer dereference, address: 0000000000000010\n[    9.2] #PF: supervisor read access in kernel mode\n[    9.2] Oops: Oops: 0000 [#1] SMP\n"))
	err := b.call(t.Context(), &runfolder.Attempt{}, "c", "mount", "nfs.mount", time.Hour, nil, nil)
	var ce *cellError
	if !errors.As(err, &ce) || ce.finding.ID != "guest.died" {
		t.Errorf("got %v", err)
	}
}

// Lost lines and a log that ends too soon limit what is known; they are no
// fault of the kernel. A crash is one, also when the host may be to blame.
func TestWhatGates(t *testing.T) {
	finish := func(slow, log string) console.Report {
		w := newWatch(slow)
		w.Write([]byte(log))
		return w.finish()
	}
	for _, c := range []struct {
		name, slow, log string
		want            bool
	}{
		{"quiet", "", "[    1.0] eth0: link up\n", false},
		{"lost lines", "", "** 214 printk messages dropped **\n[   33.2] eth0: link up\n", false},
		{"out of memory", "", "[   61.7] fio invoked oom-killer: gfp_mask=0x140cca\n[   61.8] Out of memory: Killed process 412 (fio)\n", false},
		{"panic", "", "[    1.0] Kernel panic - not syncing: demo\n", true},
		{"lockup of a slow guest", "emulated", "[   22.5] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [demo:9]\n", true},
	} {
		got := false
		for _, f := range console.Findings(finish(c.slow, c.log)) {
			got = got || gates(f)
		}
		if got != c.want {
			t.Errorf("%s: gates %v", c.name, got)
		}
	}
}

// What crashed before memory ran out is not excused by it.
func TestCrashedBefore(t *testing.T) {
	const oom = "[   61.8] Out of memory: Killed process 412 (fio)\n"
	const crash = "[    9.2] BUG: kernel NULL pointer dereference, address: 0000000000000010\n[    9.2] Oops: Oops: 0000 [#1] SMP\n"
	for log, want := range map[string]bool{"": false, crash: false, oom: false, oom + crash: false, crash + oom: true} {
		w := newWatch("")
		w.Write([]byte(log))
		if got := crashedBefore(w.finish(), console.KindOOM); got != want {
			t.Errorf("%q: %v", log, got)
		}
	}
}

// A breakpoint that nobody set, in the first report, is the emulator's doing;
// a trap for another reason is the kernel's.
func TestStaleBreakpoint(t *testing.T) {
	const regs = "[    3.0] CPU: 1 UID: 0 PID: 0 Comm: swapper/1 Not tainted 7.3.4 #1\n[    3.0] RIP: 0010:__schedule+0x1c3/0x370\n[    3.0] Call Trace:\n[    3.0]  schedule+0x10/0x20\n[    3.0] ---[ end trace 0000000000000000 ]---\n"
	const int3, ud2, null = "[    3.0] Oops: int3: 0000 [#1] SMP\n", "[    3.0] Oops: invalid opcode: 0000 [#1] SMP\n", "[    2.0] BUG: kernel NULL pointer dereference, address: 0000000000000010\n[    2.0] Oops: Oops: 0000 [#1] SMP\n[    2.0] RIP: 0010:demo+0x1/0x2\n[    2.0] ---[ end trace 0000000000000000 ]---\n"
	for log, want := range map[string]bool{"": false, int3 + regs: true, ud2 + regs: false, null + int3 + regs: false} {
		w := newWatch("emulated")
		w.Write([]byte(log))
		if got := staleBreakpoint(w.finish()); got != want {
			t.Errorf("%q: %v, %+v", log, got, w.finish().Reports)
		}
	}
}
