// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"strings"
	"testing"
)

// reports are crashes as several kernels and architectures word them, without
// any prefix; each is ours, after the format strings of the kernel.
var reports = []struct {
	name, class, title, text string
}{
	{"oops x86", "oops", "general protection fault in svc_rdma_sendto", `Oops: general protection fault, probably for non-canonical address 0xdead000000000108: 0000 [#1] SMP KASAN NOPTI
CPU: 1 UID: 0 PID: 871 Comm: nfsd Not tainted 7.3.4 #1 PREEMPT(full)
Hardware name: QEMU Standard PC (Q35 + ICH9, 2009), BIOS 1.16.2 04/01/2014
RIP: 0010:svc_rdma_sendto+0x1a4/0x610 [rpcrdma]
Code: 48 8b 45 00 48 89 c7 e8 aa bb cc dd <48> 8b 40 08 c3
RSP: 0018:ffffc900008bfd80 EFLAGS: 00010246
Call Trace:
 <TASK>
 svc_send+0x6c/0x180
 nfsd+0x9c/0x160
 </TASK>
---[ end trace 0000000000000000 ]---`},
	{"null x86", "oops", "BUG: unable to handle kernel NULL pointer dereference in svc_rdma_accept", `BUG: kernel NULL pointer dereference, address: 0000000000000018
#PF: supervisor read access in kernel mode
#PF: error_code(0x0000) - not-present page
PGD 0 P4D 0
Oops: Oops: 0000 [#1] SMP NOPTI
CPU: 0 UID: 0 PID: 64 Comm: kworker/0:2 Not tainted 7.3.4 #1
Workqueue: rpcrdma_cm svc_rdma_work
RIP: 0010:svc_rdma_accept.isra.0+0x44/0x7a0
Call Trace:
 <TASK>
 svc_handle_xprt+0x11/0x300
 </TASK>
---[ end trace 0000000000000000 ]---`},
	{"null arm64", "oops", "BUG: unable to handle kernel NULL pointer dereference in svc_rdma_accept", `Unable to handle kernel NULL pointer dereference at virtual address 0000000000000018
Mem abort info:
  ESR = 0x0000000096000004
Internal error: Oops: 0000000096000004 [#1]  SMP
Modules linked in:
CPU: 2 UID: 0 PID: 87 Comm: nfsd Not tainted 7.3.4 #1 PREEMPT
pstate: 60400005 (nZCv daif +PAN -UAO -TCO -DIT -SSBS BTYPE=--)
pc : svc_rdma_accept+0x44/0x7a0
lr : svc_handle_xprt+0x40/0x300
sp : ffff800080b03d20
Call trace:
 svc_rdma_accept+0x44/0x7a0 (P)
 svc_handle_xprt+0x40/0x300 (L)
 kthread+0x10c/0x110
Code: aa0003f3 f9400c00 (f9400c01) d2800000
---[ end trace 0000000000000000 ]---`},
	{"null riscv", "oops", "BUG: unable to handle kernel NULL pointer dereference in svc_rdma_accept", `Unable to handle kernel NULL pointer dereference at virtual address 0000000000000018
Oops [#1]
Modules linked in:
CPU: 0 UID: 0 PID: 87 Comm: nfsd Not tainted 7.3.4 #1
Hardware name: riscv-virtio,qemu (DT)
epc : svc_rdma_accept+0x44/0x7a0
 ra : svc_handle_xprt+0x40/0x300
epc : ffffffff80a0e0f4 ra : ffffffff80a0e2aa sp : ff2000000021bd20
status: 0000000200000120 badaddr: 0000000000000018 cause: 000000000000000d
[<ffffffff80a0e0f4>] svc_rdma_accept+0x44/0x7a0
[<ffffffff80a0e2aa>] svc_handle_xprt+0x40/0x300
Code: 0113 fe01 ec06
---[ end trace 0000000000000000 ]---`},
	{"warn old", "warning", "WARNING in svc_rdma_post_send", `------------[ cut here ]------------
WARNING: CPU: 1 PID: 871 at net/sunrpc/xprtrdma/svc_rdma_sendto.c:412 svc_rdma_post_send+0x1a4/0x610
Modules linked in:
CPU: 1 PID: 871 Comm: nfsd Not tainted 6.6.1 #1
RIP: 0010:svc_rdma_post_send+0x1a4/0x610
Call Trace:
 <TASK>
 ? __warn+0x81/0x130
 svc_rdma_sendto+0x6c/0x180
 </TASK>
---[ end trace 0000000000000000 ]---`},
	{"warn new", "warning", "WARNING in svc_rdma_post_send", `------------[ cut here ]------------
WARNING: net/sunrpc/xprtrdma/svc_rdma_sendto.c:412 at svc_rdma_post_send.constprop.0+0x1a4/0x610, CPU#1: nfsd/871
Modules linked in:
CPU: 1 UID: 0 PID: 871 Comm: nfsd Not tainted 7.3.4 #1
RIP: 0010:svc_rdma_post_send.constprop.0+0x1a4/0x610
Call Trace:
 <TASK>
 svc_rdma_sendto+0x6c/0x180
 </TASK>
---[ end trace 0000000000000000 ]---`},
	{"bug", "bug", "kernel BUG in svc_rdma_post_send", `------------[ cut here ]------------
kernel BUG at net/sunrpc/xprtrdma/svc_rdma_sendto.c:412!
Oops: invalid opcode: 0000 [#1] SMP NOPTI
CPU: 1 UID: 0 PID: 871 Comm: nfsd Not tainted 7.3.4 #1
RIP: 0010:svc_rdma_post_send+0x1a4/0x610
Call Trace:
 <TASK>
 svc_rdma_sendto+0x6c/0x180
 </TASK>
---[ end trace 0000000000000000 ]---`},
	{"bug arm64", "bug", "kernel BUG in svc_rdma_post_send", `------------[ cut here ]------------
kernel BUG at net/sunrpc/xprtrdma/svc_rdma_sendto.c:412!
Internal error: Oops - BUG: 00000000f2000800 [#1]  SMP
CPU: 1 UID: 0 PID: 871 Comm: nfsd Not tainted 7.3.4 #1
pc : svc_rdma_post_send+0x1a4/0x610
lr : svc_rdma_sendto+0x6c/0x180
Call trace:
 svc_rdma_post_send+0x1a4/0x610 (P)
 svc_rdma_sendto+0x6c/0x180
---[ end trace 0000000000000000 ]---`},
	{"kasan", "kasan", "KASAN: slab-use-after-free Read in svc_rdma_send_ctxt_put", `==================================================================
BUG: KASAN: slab-use-after-free in svc_rdma_send_ctxt_put+0x1a4/0x610
Read of size 8 at addr ffff88800a1b2c08 by task nfsd/871

CPU: 1 UID: 0 PID: 871 Comm: nfsd Not tainted 7.3.4 #1
Call Trace:
 <TASK>
 dump_stack_lvl+0x4e/0x80
 print_report+0xcf/0x600
 kasan_report+0xb1/0xe0
 svc_rdma_send_ctxt_put+0x1a4/0x610
 svc_rdma_wc_send+0x6c/0x180
 </TASK>

Allocated by task 870:
 kasan_save_stack+0x20/0x40
 svc_rdma_send_ctxt_alloc+0x44/0x200
==================================================================`},
	{"kasan ptrval", "kasan", "KASAN: slab-out-of-bounds Write in svc_rdma_encode", `==================================================================
BUG: KASAN: slab-out-of-bounds in svc_rdma_encode.part.0+0x1a4/0x610
Write of size 4 at addr (____ptrval____) by task nfsd/871

CPU: 1 PID: 871 Comm: nfsd Not tainted 6.1.1 #1
Call Trace:
 <TASK>
 kasan_report+0xb1/0xe0
 svc_rdma_encode.part.0+0x1a4/0x610
 </TASK>
==================================================================`},
	{"kfence", "kfence", "KFENCE: use-after-free read in svc_rdma_send_ctxt_put", `==================================================================
BUG: KFENCE: use-after-free read in svc_rdma_send_ctxt_put+0x1a4/0x610

Use-after-free read at 0x00000000a1b2c3d4 (in kfence-#27):
 svc_rdma_send_ctxt_put+0x1a4/0x610
 svc_rdma_wc_send+0x6c/0x180

kfence-#27: 0x00000000a1b2c3d4-0x00000000a1b2c4d3, size=256, cache=kmalloc-256
==================================================================`},
	{"ubsan", "ubsan", "UBSAN: array-index-out-of-bounds in svc_rdma_limit", `------------[ cut here ]------------
UBSAN: array-index-out-of-bounds in net/sunrpc/xprtrdma/svc_rdma_transport.c:77:12
index 7 is out of range for type 'u32 [6]'
CPU: 1 UID: 0 PID: 871 Comm: nfsd Not tainted 7.3.4 #1
Call Trace:
 <TASK>
 dump_stack_lvl+0x4e/0x80
 ubsan_epilogue+0x5/0x40
 __ubsan_handle_out_of_bounds+0xcb/0x110
 svc_rdma_limit+0x30/0x40
 svc_rdma_accept+0x6c/0x180
 </TASK>
---[ end trace ]---`},
	{"lockdep", "lockdep", "possible deadlock in svc_rdma_send_ctxt_put", `============================================
WARNING: possible recursive locking detected
7.3.4 #1 Not tainted
--------------------------------------------
nfsd/871 is trying to acquire lock:
ffff88800a1b2c08 (&rdma->sc_lock){+.+.}-{3:3}, at: svc_rdma_send_ctxt_put+0x30/0x40

but task is already holding lock:
ffff88800a1b2c08 (&rdma->sc_lock){+.+.}-{3:3}, at: svc_rdma_sendto+0x6c/0x180

stack backtrace:
CPU: 1 UID: 0 PID: 871 Comm: nfsd Not tainted 7.3.4 #1
Call Trace:
 <TASK>
 __lock_acquire+0x1/0x2
 lock_acquire+0xbd/0x2d0
 _raw_spin_lock+0x2b/0x40
 svc_rdma_send_ctxt_put+0x30/0x40
 </TASK>`},
	{"hung task", "hung_task", "INFO: task hung in svc_rdma_wait", `INFO: task umount:912 blocked for more than 120 seconds.
      Not tainted 7.3.4 #1
"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.
task:umount          state:D stack:0     pid:912   tgid:912   ppid:1      task_flags:0x400100 flags:0x00004002
Call Trace:
 <TASK>
 __schedule+0x3f1/0xd00
 schedule+0x27/0xa0
 schedule_timeout+0x14d/0x160
 wait_for_completion+0x8a/0x140
 svc_rdma_wait+0x30/0x40
 </TASK>`},
	{"soft lockup", "lockup", "BUG: soft lockup in svc_rdma_spin", `watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [nfsd:871]
Modules linked in:
CPU: 1 UID: 0 PID: 871 Comm: nfsd Not tainted 7.3.4 #1
RIP: 0010:svc_rdma_spin+0x1a4/0x610
Call Trace:
 <TASK>
 svc_rdma_sendto+0x6c/0x180
 </TASK>`},
	{"rcu stall", "rcu_stall", "INFO: rcu detected stall in svc_rdma_spin", `rcu: INFO: rcu_sched self-detected stall on CPU
rcu: 	1-....: (20999 ticks this GP) idle=4a14/1/0x4000000000000000 softirq=1033/1033 fqs=5249
rcu: 	(t=21000 jiffies g=1369 q=37 ncpus=2)
CPU: 1 UID: 0 PID: 871 Comm: nfsd Not tainted 7.3.4 #1
RIP: 0010:svc_rdma_spin+0x1a4/0x610
Call Trace:
 <TASK>
 svc_rdma_sendto+0x6c/0x180
 </TASK>`},
	{"refcount", "refcount", "WARNING: refcount bug in svc_rdma_put", `------------[ cut here ]------------
refcount_t: underflow; use-after-free.
WARNING: lib/refcount.c:28 at refcount_warn_saturate+0xba/0x110, CPU#1: nfsd/871
CPU: 1 UID: 0 PID: 871 Comm: nfsd Not tainted 7.3.4 #1
RIP: 0010:refcount_warn_saturate+0xba/0x110
Call Trace:
 <TASK>
 svc_rdma_put+0x30/0x40
 svc_xprt_free+0x6c/0x180
 </TASK>
---[ end trace 0000000000000000 ]---`},
	{"atomic sleep", "atomic_sleep", "BUG: sleeping function called from invalid context in svc_rdma_send_ctxt_get", `BUG: sleeping function called from invalid context at ./include/linux/sched/mm.h:321
in_atomic(): 1, irqs_disabled(): 0, non_block: 0, pid: 871, name: nfsd
preempt_count: 1, expected: 0
CPU: 1 UID: 0 PID: 871 Comm: nfsd Not tainted 7.3.4 #1
Call Trace:
 <TASK>
 dump_stack_lvl+0x4e/0x80
 __might_resched+0x1a2/0x2b0
 __kmalloc_noprof+0x10/0x20
 svc_rdma_send_ctxt_get+0x30/0x40
 </TASK>`},
	{"panic", "panic", "kernel panic: VFS: Unable to mount root fs on unknown-block(NUM,NUM)", `Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)
CPU: 0 UID: 0 PID: 1 Comm: swapper/0 Not tainted 7.3.4 #1
Call Trace:
 <TASK>
 panic+0x31d/0x340
 mount_root_generic+0x1c4/0x2f0
 </TASK>
---[ end Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0) ]---`},
	{"leak", "leak", "memory leak in svc_rdma_send_ctxt_alloc", `unreferenced object 0xffff88800a1b2c00 (size 256):
  comm "nfsd", pid 871, jiffies 4294942000
  hex dump (first 32 bytes):
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  ................
  backtrace (crc a1b2c3d4):
    __kmalloc_noprof+0x2c9/0x3f0
    svc_rdma_send_ctxt_alloc+0x44/0x200
    svc_rdma_send_ctxt_get+0x30/0x40`},
}

// dresses are the ways in which a kernel's lines reach a file.
var dresses = []struct {
	name string
	line func(i int, s string) string
}{
	{"printk", func(i int, s string) string { return fmt.Sprintf("[%5d.%06d] %s\n", 12+i/100, i*997%1000000, s) }},
	{"caller id", func(i int, s string) string { return fmt.Sprintf("[%5d.%06d][  T871] %s\n", 12, i*997%1000000, s) }},
	{"caller id, CPU", func(i int, s string) string { return fmt.Sprintf("[%5d.%06d][    C1] %s\n", 12, i*997%1000000, s) }},
	{"no time", func(i int, s string) string { return s + "\n" }},
	{"level", func(i int, s string) string { return fmt.Sprintf("<4>[%5d.%06d] %s\n", 12, i*997%1000000, s) }},
	{"level, no time", func(i int, s string) string { return "<4>" + s + "\n" }},
	{"syslog", func(i int, s string) string {
		return fmt.Sprintf("Nov 30 13:00:%02d host kernel: [%5d.%06d] %s\n", i%60, 12, i*997%1000000, s)
	}},
	{"journal", func(i int, s string) string { return fmt.Sprintf("Nov 30 13:00:%02d host kernel: %s\n", i%60, s) }},
	{"journal, ISO", func(i int, s string) string {
		return fmt.Sprintf("2026-11-30T13:00:%02d.123456+00:00 host kernel: %s\n", i%60, s)
	}},
	{"dmesg -x", func(i int, s string) string {
		return fmt.Sprintf("kern  :warn  : [%5d.%06d] %s\n", 12, i*997%1000000, s)
	}},
	{"dmesg -T", func(i int, s string) string { return fmt.Sprintf("[Mon Nov 30 13:00:%02d 2026] %s\n", i%60, s) }},
	{"dmesg --time-format iso", func(i int, s string) string {
		return fmt.Sprintf("2026-11-30T13:00:%02d,123456+00:00 %s\n", i%60, s)
	}},
	{"kmsg", func(i int, s string) string { return fmt.Sprintf("4,%d,%d,-;%s\n", 800+i, 12000000+i, s) }},
	{"CRLF", func(i int, s string) string { return fmt.Sprintf("[%5d.%06d] %s\r\n", 12, i*997%1000000, s) }},
	{"CR CR LF", func(i int, s string) string { return fmt.Sprintf("[%5d.%06d] %s\r\r\n", 12, i*997%1000000, s) }},
	{"colour", func(i int, s string) string {
		return fmt.Sprintf("\x1b[32m[%5d.%06d] \x1b[0m\x1b[31m%s\x1b[0m\n", 12, i*997%1000000, s)
	}},
	{"runner's time", func(i int, s string) string {
		return fmt.Sprintf("2026-11-30T13:00:%02d.1234567Z [%5d.%06d] %s\n", i%60, 12, i*997%1000000, s)
	}},
}

// TestDresses: class and title are the same however the lines are dressed.
func TestDresses(t *testing.T) {
	for _, r := range reports {
		for _, d := range dresses {
			var b strings.Builder
			b.WriteString(d.line(0, "Linux version 7.3.4 (patchcheck@patchcheck) #1 SMP"))
			for i, l := range strings.Split(r.text, "\n") {
				b.WriteString(d.line(i+1, l))
			}
			b.WriteString(d.line(99, "eth0: link becomes ready"))
			got, err := Parse(strings.NewReader(b.String()), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if !got.Crash || string(got.Class) != r.class || got.Title != r.title {
				t.Errorf("%s, %s: %v %s %q, want %s %q", r.name, d.name, got.Crash, got.Class, got.Title, r.class, r.title)
			}
		}
	}
}

// TestTwoReports: the first is the cause, the second is kept; also in the midst
// of the first, and after a reboot.
func TestTwoReports(t *testing.T) {
	dress := dresses[0].line
	lines := func(texts ...string) string {
		var b strings.Builder
		for i, l := range strings.Split(strings.Join(texts, "\n"), "\n") {
			b.WriteString(dress(i, l))
		}
		return b.String()
	}
	for i, a := range reports {
		b := reports[(i+5)%len(reports)]
		for name, log := range map[string]string{
			"one after the other": lines("Linux version 7.3.4", a.text, b.text),
			"after a reboot":      lines("Linux version 7.3.4", a.text, "Linux version 7.3.4", "Command line: x", b.text),
		} {
			got, err := Parse(strings.NewReader(log), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if !got.Crash || string(got.Class) != a.class || got.Title != a.title {
				t.Errorf("%s then %s, %s: %s %q, want %q first", a.name, b.name, name, got.Class, got.Title, a.title)
			}
		}
		// Cut in the middle: the report's kind is known from its first lines.
		all := strings.Split(a.text, "\n")
		got, err := Parse(strings.NewReader(lines("Linux version 7.3.4", strings.Join(all[:len(all)*2/3], "\n"))), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !got.Crash || string(got.Class) != a.class {
			t.Errorf("%s cut off: %v %s %q", a.name, got.Crash, got.Class, got.Title)
		}
	}
}

// TestMerelyMentioned: lines of sound systems that use the words of crashes.
func TestMerelyMentioned(t *testing.T) {
	for _, l := range strings.Split(`kasan: KernelAddressSanitizer initialized
kasan: KernelAddressSanitizer initialized (sw-tags, stacktrace=on)
kfence: initialized - using 2097152 bytes for 255 objects at 0x(____ptrval____)-0x(____ptrval____)
kcsan: enabled early
kcsan: strict mode configured
KMSAN: enabled
INFO: lockdep is turned off.
Lock dependency validator: Copyright (c) 2006 Red Hat, Inc., Ingo Molnar
... MAX_LOCKDEP_SUBCLASSES:  8
debug: unmapping init [mem 0x0000000000000000]
UBSAN: instrumentation enabled
rcu: 	RCU lockdep checking is enabled.
rcu: RCU calculated value of scheduler-enlistment delay is 25 jiffies.
rcu: 	CONFIG_RCU_CPU_STALL_TIMEOUT is 21
NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.
watchdog: Delayed init of the lockup detector failed: -19
softdog: initialized. soft_noboot=0 soft_margin=60 sec soft_panic=0
hung_task: timeout is 120 seconds
pstore: Using crash dump compression: deflate
crashkernel reserved: 0x0000000077000000 - 0x000000007f000000 (128 MB)
Kernel command line: panic=-1 oops=panic panic_on_warn=1 softlockup_panic=1 hung_task_panic=1
pvpanic-pci 0000:00:02.0: registered
BUG_ON test module not loaded
bug: module crash_test loaded
kmemleak: Kernel memory leak detector initialized (mem pool available: 15770)
kmemleak: Automatic memory scanning thread started
ACPI BIOS Warning (bug): 32/64X length mismatch in FADT/Gpe0Block: 128/32
ACPI BIOS Error (bug): Could not resolve symbol [\_SB.PCI0], AE_NOT_FOUND
MDS CPU bug present and SMT on, data leak possible. See https://docs.kernel.org/admin-guide/hw-vuln/mds.html for more details.
Spectre V2 : WARNING: Unprivileged eBPF is enabled with eIBRS on, data leaks possible via Spectre v2 BHB attacks!
RETBleed: WARNING: Spectre v2 mitigation leaves CPU vulnerable to RETBleed attacks, data leaks possible!
process '/usr/bin/oops' started with executable stack
tsc: Fast TSC calibration failed
clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable because the skew is too large
workqueue: drm_fb_helper_damage_work hogged CPU for >10000us 4 times, consider switching to WQ_UNBOUND
sched: DL replenish lagged too much
perf: interrupt took too long (2516 > 2500), lowering kernel.perf_event_max_sample_rate to 79500
warning: 'mount.nfs' uses wireless extensions which will stop working for Wi-Fi 7 hardware
nfsd: last server has exited, flushing export cache
random: crng init done
audit: type=1701 audit(1): auid=0 uid=0 comm="crash" exe="/usr/bin/panic" sig=11 res=1
traps: test[912] general protection fault ip:55d0 sp:7ffc error:0 in test[55d0+1000]
test[912]: segfault at 0 ip 000055d0 sp 00007ffc error 4 in test[55d0+1000] likely on CPU 1 (core 1, socket 1)
Unknown kernel command line parameters "panic_test", will be passed to user space.
rdma_rxe: loaded
memory leak test: PASS
systemd[1]: Starting Kernel panic recorder...
systemd[1]: Finished Automatically restore "WARNING: at" rules`, "\n") {
		for _, d := range dresses {
			got, err := Parse(strings.NewReader(d.line(1, "Linux version 7.3.4")+d.line(2, l)+d.line(3, "eth0: link becomes ready")), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got.Crash {
				t.Errorf("%s: %q counts as %s %q", d.name, l, got.Class, got.Title)
			}
		}
	}
}
