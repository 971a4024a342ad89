// SPDX-License-Identifier: Apache-2.0

package console

import (
	"regexp"
	"strings"
)

// pick says how a report names the function at fault.
type pick uint8

const (
	pickNone   pick = iota // the title has no function
	pickHeader             // the header's, if it is not a helper; else the first good frame
	pickIP                 // the instruction pointer's, else the first good frame after it
	pickTrace              // first good frame of the first trace
	pickLock               // "at: f" of the first lock named, else as pickTrace
	pickFirst              // first good frame of any trace, locking left out
	pickHung               // first good frame of the blocked task
	pickStall              // the entry point of the subsystem that was running
	pickLeak               // first frame that is no allocator
	pickFixed              // the header's, whatever it is
)

// header is the first line of one kind of report.
type header struct {
	needle string         // must be in the line: cheap filter
	re     *regexp.Regexp // must match; group "f" is a function
	class  Class
	title  string // "{f}" function, "{1}" group 1; "" means the line itself with numbers masked
	pick   pick

	loose  bool // counts only from the kernel, or with a stack trace behind it
	second bool // continues a report that has no trace yet: "Oops: 0002 [#1]"
	spare  bool // does not open a report while another one is open
	noData bool // complete as one line: no trace belongs to it
	long   bool // prints several traces and pauses between them
	build  func(*crash)
}

// fn is a symbol with offset, also when the log stops within it.
const fn = `(?P<f><[^+]+>[\w:]*|[A-Za-z_][\w.$]*)(?:\+0x[0-9a-f/x]*|\b)`

func rx(s string) *regexp.Regexp {
	return regexp.MustCompile(strings.ReplaceAll(s, "FN", `(?:\[<[0-9a-f(ptrval)]+>\] )?`+fn))
}

// headers in order of precedence. Sources: the format strings of the kernel
// files named beside them; forms of older kernels stay, since stable trees
// print them.
var headers = []*header{
	// mm/kasan/report.c, mm/kasan/report_*tags.c
	{needle: "BUG: KAS", re: rx(`BUG: KAS[Aa][Nn]: ([a-z][a-z -]*[a-z])(?: (?:in|on) (?:FN)?| on address|$)`), class: KASAN, pick: pickHeader, build: buildKASAN},
	// mm/kmsan/report.c
	{needle: "BUG: KMSAN:", re: rx(`BUG: KMSAN: ([a-z][a-z -]*[a-z])(?: in (?:FN)?|$)`), class: KMSAN, title: "KMSAN: {1} in {f}", pick: pickHeader},
	// kernel/kcsan/report.c
	{needle: "BUG: KCSAN:", re: rx(`BUG: KCSAN: ([a-z][a-z: -]*[a-z]) in ([\w.<>:]+)(?:\+0x\S*)?(?: / ([\w.<>:]+))?`), class: KCSAN, build: buildKCSAN},
	// mm/kfence/report.c
	{needle: "BUG: KFENCE:", re: rx(`BUG: KFENCE: ([a-z][a-z -]*[a-z])(?: in (?:FN)?|$)`), class: KFENCE, title: "KFENCE: {1} in {f}", pick: pickHeader},
	// lib/ubsan.c
	{needle: "UBSAN: ", re: rx(`UBSAN: (Undefined behaviour|[a-z][a-z-]+) in (\S+)`), class: UBSAN, pick: pickTrace, build: buildUBSAN},

	// arch/x86/mm/fault.c
	{needle: "BUG: ", re: rx(`BUG: (?:unable to handle )?[kK]ernel NULL pointer dereference`), class: Oops, title: "BUG: unable to handle kernel NULL pointer dereference in {f}", pick: pickIP},
	{needle: "BUG: unable to handle", re: rx(`BUG: unable to handle (?:kernel paging request|page fault)`), class: Oops, title: "BUG: unable to handle kernel paging request in {f}", pick: pickIP},
	{needle: "BUG: ", re: rx(`BUG: [uU]nable to handle (kernel [a-z ]+?)(?: at |$)`), class: Oops, pick: pickIP, build: buildUnable},
	{needle: "stack guard page was hit", re: rx(`BUG: (?:\w+ )?stack guard page was hit`), class: Bug, title: "BUG: stack guard page was hit in {f}", pick: pickIP},
	{needle: "BUG: ", re: rx(`BUG: invalid or fatal FRED event`), class: Oops, title: "BUG: invalid or fatal FRED event in {f}", pick: pickIP},

	// kernel/sched/core.c, lib/smp_processor_id.c
	{needle: "BUG: ", re: rx(`BUG: sleeping function called from (?:invalid|illegal) context`), class: AtomicSleep, title: "BUG: sleeping function called from invalid context in {f}", pick: pickTrace},
	{needle: "BUG: ", re: rx(`BUG: (scheduling while atomic|scheduling in a non-blocking section)`), class: AtomicSleep, title: "BUG: {1} in {f}", pick: pickHung},
	{needle: "BUG: ", re: rx(`BUG: assuming (atomic|non-atomic|non migratable) context`), class: AtomicSleep, title: "BUG: assuming {1} context in {f}", pick: pickTrace},
	{needle: "BUG: using", re: rx(`BUG: using ([\w ]+\(\)) in preemptible`), class: Lockdep, title: "BUG: using {1} in preemptible code in {f}", pick: pickTrace},

	// kernel/locking/spinlock_debug.c
	{needle: "BUG: ", re: rx(`BUG: (spinlock|rwlock)([a-z -]+?)(?: on|,|$)`), class: Lockdep, title: "BUG: {1}{2} in {f}", pick: pickTrace},

	// kernel/watchdog.c
	{needle: "soft lockup", re: rx(`BUG: soft lockup`), class: Lockup, title: "BUG: soft lockup in {f}", pick: pickStall, long: true},
	{needle: "LOCKUP", re: rx(`(?:[Ww]atchdog detected (?:hard )?LOCKUP on cpu|self-detected hard LOCKUP|detected hard LOCKUP on other CPUs)`), class: Lockup, title: "BUG: hard lockup in {f}", pick: pickStall, long: true},
	{needle: "BUG: workqueue lockup", re: rx(`BUG: workqueue lockup`), class: Lockup, title: "BUG: workqueue lockup", long: true},
	// kernel/workqueue.c
	{needle: "BUG: workqueue leaked", re: rx(`BUG: workqueue leaked ([a-zA-Z, ]+?):`), class: Bug, build: buildWorkqueueLeak},

	// kernel/locking/lockdep.c
	{needle: "detected", re: rx(`(?:WARNING|INFO): possible (?:circular locking|recursive locking|irq lock inversion)`), class: Lockdep, title: "possible deadlock in {f}", pick: pickLock},
	{needle: "-unsafe lock order detected", re: rx(`(?:WARNING|INFO): [\w-]+-safe -> [\w-]+-unsafe lock order detected`), class: Lockdep, title: "possible deadlock in {f}", pick: pickFirst},
	{needle: "inconsistent lock state", re: rx(`(?:WARNING|INFO): inconsistent lock state`), class: Lockdep, title: "inconsistent lock state in {f}", pick: pickLock},
	{needle: "nvalid wait context", re: rx(`(?:BUG|WARNING): [Ii]nvalid wait context`), class: Lockdep, title: "WARNING: locking bug in {f}", pick: pickTrace},
	{needle: "bad unlock balance", re: rx(`(BUG|WARNING): bad unlock balance`), class: Lockdep, title: "{1}: bad unlock balance in {f}", pick: pickLock},
	{needle: "bad contention", re: rx(`(BUG|WARNING): bad contention detected`), class: Lockdep, title: "{1}: bad contention in {f}", pick: pickLock},
	{needle: "still has locks held", re: rx(`(BUG|WARNING): .{1,40}still has locks held`), class: Lockdep, title: "{1}: still has locks held in {f}", pick: pickLock},
	{needle: "held lock freed", re: rx(`(BUG|WARNING): held lock freed`), class: Lockdep, title: "{1}: held lock freed in {f}", pick: pickLock},
	{needle: "lock held", re: rx(`(BUG|WARNING): (lock held when returning to user space|lock held at task exit time)`), class: Lockdep, title: "{1}: {2} in {f}", pick: pickLock},
	{needle: "ested lock was not taken", re: rx(`(?:BUG|WARNING): [Nn]ested lock was not taken`), class: Lockdep, title: "WARNING: nested lock was not taken in {f}", pick: pickTrace},
	{needle: "suspicious RCU usage", re: rx(`(WARNING|INFO): suspicious RCU usage`), class: Lockdep, title: "{1}: suspicious RCU usage in {f}", pick: pickTrace},
	{needle: "suspicious rcu_dereference", re: rx(`(WARNING|INFO): suspicious rcu_dereference_check\(\) usage`), class: Lockdep, title: "{1}: suspicious RCU usage in {f}", pick: pickTrace},
	{needle: "INFO: trying to register non-static key", re: rx(`INFO: trying to register non-static key`), class: Lockdep, title: "INFO: trying to register non-static key in {f}", pick: pickTrace},
	{needle: "BUG: key", re: rx(`BUG: key \S+ (?:has not been registered|not in \.data)`), class: Lockdep, title: "BUG: key has not been registered in {f}", pick: pickTrace},
	{needle: "BUG: looking up", re: rx(`BUG: looking up invalid subclass`), class: Lockdep, title: "BUG: looking up invalid subclass in {f}", pick: pickTrace},
	{needle: "BUG: MAX_", re: rx(`BUG: (MAX_\w+ too low!)`), class: Bug, title: "BUG: {1}", pick: pickNone},
	{needle: "chain_key collision", re: rx(`WARNING: chain_key collision`), class: Lockdep, title: "WARNING: chain_key collision in {f}", pick: pickTrace},

	// mm/, fs/dcache.c, fs/super.c, kernel/fork.c
	{needle: "BUG: Bad page", re: rx(`BUG: (Bad page (?:state|map|cache))`), class: Bug, title: "BUG: {1}"},
	{needle: "BUG: Bad rss-counter", re: rx(`BUG: Bad rss-counter state`), class: Bug, title: "BUG: Bad rss-counter state"},
	{needle: "BUG: non-zero", re: rx(`BUG: non-zero (\w+) on freeing mm`), class: Bug, title: "BUG: non-zero {1} on freeing mm: NUM"},
	{needle: "BUG: Dentry", re: rx(`BUG: Dentry .*still in use`), class: Bug, title: "BUG: Dentry still in use in unmount", noData: true},
	{needle: "Busy inodes after unmount", re: rx(`VFS: Busy inodes after unmount`), class: Other, title: "VFS: Busy inodes after unmount (use-after-free)", noData: true},
	{needle: "BUG: failure at", re: rx(`BUG: failure at \S+/(\w+)\(\)`), class: Bug, title: "kernel BUG in {1}"},
	// lib/bug.c
	{needle: "kernel BUG at", re: rx(`kernel BUG at (\S+)`), class: Bug, title: "kernel BUG in {f}", pick: pickIP, build: buildKernelBUG},
	{needle: "CFI failure at", re: rx(`CFI failure at FN`), class: Bug, title: "CFI failure in {f}", pick: pickHeader},

	// kernel/panic.c: WARN. A WARN names a place; other "WARNING:" lines are
	// messages of drivers and programs.
	{needle: "WARNING: ", re: rx(`WARNING: (?:CPU: \d+ PID: \d+ )?at (?:(\S+\.\w+):\d+ )?(?:at )?(?:FN)?`), class: Warn, pick: pickHeader, build: buildWARN},
	{needle: "WARNING: ", re: rx(`WARNING: (\S+\.(?:[chS]|rs)):\d+ at (?:FN)?`), class: Warn, pick: pickHeader, build: buildWARN},
	{needle: "WARNING: CPU: ", re: rx(`WARNING: CPU: \d+ PID: \d+`), class: Warn, pick: pickTrace, build: buildWARN},
	{needle: "WARNING: kernel stack", re: rx(`WARNING: kernel stack (regs|frame pointer) .*has bad (?:'(\w+)' )?value`), class: Warn, build: buildBadStack},

	// arch/x86/kernel/unwind_orc.c, unwind_frame.c
	{needle: "WARNING: ", re: rx(`^\s*WARNING: (can't (?:access|dereference) [a-z ]*registers|stack recursion|stack going in the wrong direction)`), class: Warn, title: "WARNING: {1}", loose: true},

	// kernel/rcu/tree_stall.h, tree_exp.h, tasks.h, update.c
	{needle: "INFO: rcu", re: rx(`INFO: rcu\w* (?:self-)?detected .*(?:stall|CPU|$)`), class: RCUStall, title: "INFO: rcu detected stall in {f}", pick: pickStall, long: true},
	// kernel/hung_task.c
	{needle: "INFO: task", re: rx(`INFO: task .+ (?:blocked|is in I/O wait).* for more than \d+ seconds`), class: HungTask, title: "INFO: task hung in {f}", pick: pickHung, long: true},
	{needle: "INFO: task", re: rx(`INFO: task .+ can't die for more than \d+ seconds`), class: HungTask, title: "INFO: task can't die in {f}", pick: pickHung, long: true},
	// fs/fs-writeback.c
	{needle: "INFO: The task", re: rx(`INFO: The task .+ has been waiting for writeback .*more than \d+ seconds`), class: HungTask, title: "INFO: task hung in {f}", pick: pickHung, long: true},
	// mm/slub.c, before 5.14 with "INFO: "
	{needle: "INFO: ", re: rx(`INFO: (?:Allocated|Freed) in FN`), class: Other, spare: true, loose: true},
	{needle: "INFO: ", re: rx(`INFO: (?:Slab|Object) 0x`), class: Other, spare: true, loose: true},
	{needle: "BUG ", re: rx(`^\s*BUG ([\w:.,@-]+) \((?:Not tainted|Tainted:[^)]*)\): (.+)`), class: Bug, build: buildSLUB},
	{needle: "BUG ", re: rx(`^\s*BUG ([\w:.,@-]+): (.*(?:[Oo]verwritten|[Aa]lready free|corrupt|[Ii]nvalid|[Rr]emaining|[Ww]rong|[Mm]issing|[Ff]reepointer|[Ff]reechain).*)`), class: Bug, build: buildSLUB, loose: true},

	// arch/x86/kernel/traps.c: trap names of DEFINE_IDTENTRY and die()
	{needle: "general protection fault", re: rx(`general protection fault(?:,[^:]*)?: [0-9a-f]{4}\b|(?:^|\W)general protection fault(?:\s*$|, (?:probably|maybe))`), class: Oops, title: "general protection fault in {f}", pick: pickIP},
	{needle: ": ", re: rx(`(?:^|Oops: |traps: )(divide error|invalid opcode|stack segment|double fault|alignment check|overflow|bounds|bounds check|int3|coprocessor segment overrun|invalid TSS|segment not present|control protection|simd exception|kernel stack overflow \([a-z-]+\)|Bad pagetable|spurious interrupt bug)(?:: |, error_code: 0x)[0-9a-f]+(?: \[#\d+\]|$)`), class: Oops, title: "{1} in {f}", pick: pickIP, second: true},
	{needle: "PANIC: ", re: rx(`^(?:traps: )?PANIC: (double fault|early exception \w+)`), class: Oops, title: "PANIC: {1} in {f}", pick: pickIP, second: true},
	{needle: "Internal error: ", re: rx(`Internal error: .*\[#\d+\]`), class: Oops, title: "Internal error in {f}", pick: pickIP, second: true},
	{needle: "Oops", re: rx(`Oops(?: - [^:]+|: [^:\[]+)?: [0-9a-f]+ \[#\d+\]|Oops \[#\d+\]|Oops: [^\[]{1,80}, sig: \d+ \[#\d+\]`), class: Oops, title: "Oops in {f}", pick: pickIP, second: true},
	// arch/arm64/mm/fault.c, arch/riscv/mm/fault.c, arch/powerpc, arch/s390
	{needle: "nable to handle kernel", re: rx(`Unable to handle kernel paging request`), class: Oops, title: "BUG: unable to handle kernel paging request in {f}", pick: pickIP},
	{needle: "nable to handle kernel", re: rx(`Unable to handle kernel NULL pointer dereference`), class: Oops, title: "BUG: unable to handle kernel NULL pointer dereference in {f}", pick: pickIP},
	{needle: "nable to handle kernel", re: rx(`Unable to handle kernel ([a-zA-Z -]+?)(?: at |$|,|\.)`), class: Oops, title: "BUG: unable to handle kernel {1} in {f}", pick: pickIP},
	{needle: "Unhandled ", re: rx(`^Unhandled (fault|prefetch abort|exception)(?:: |\b)`), class: Other, title: "Unhandled {1} in {f}", pick: pickIP, loose: true},
	{needle: "Bad mode in ", re: rx(`^Bad mode in (.+?) handler detected`), class: Oops, title: "Bad mode in {f}", pick: pickIP},
	{needle: "nsufficient stack space", re: rx(`Insufficient stack space to handle exception`), class: Oops, title: "kernel stack overflow in {f}", pick: pickIP},
	{needle: "nhandled kernel unaligned access", re: rx(`Unhandled kernel unaligned access`), class: Oops, title: "Unhandled kernel unaligned access in {f}", pick: pickIP},

	// mm/kmemleak.c: the file, or syzkaller's copy of it on the console
	{needle: "BUG: memory leak", re: rx(`BUG: memory leak`), class: Leak, title: "memory leak in {f}", pick: pickLeak},
	{needle: "unreferenced object 0x", re: rx(`^unreferenced object 0x[0-9a-f]+(?: \((?:size|percpu)|$)`), class: Leak, title: "memory leak in {f}", pick: pickLeak, second: true},
	// lib/ref_tracker.c
	{needle: "ref_tracker: ", re: rx(`^ref_tracker: (?:leaked reference|.*has \d+/\d+ users at)`), class: Leak, title: "reference leak in {f}", pick: pickLeak},

	// rust/kernel, drivers outside the tree, net/core/dev.c
	{needle: "rust_kernel: panicked at", re: rx(`rust_kernel: panicked at`), class: Other, pick: pickTrace, build: buildRust},
	{needle: "trusty: panic", re: rx(`trusty: panic `), class: Other, title: "trusty: ASSERT FAILED:", pick: pickNone, noData: true},
	{needle: "unregister_netdevice: waiting for", re: rx(`unregister_netdevice: waiting for \S+ to become free`), class: Other, title: "unregister_netdevice: waiting for DEV to become free", noData: true},
	{needle: "SYZF", re: rx(`^(?:.*\s)?(SYZFAIL|SYZFATAL): (.+)`), class: Fuzzer, build: buildSyz, noData: true},

	// crypto/krb5/selftest.c
	{needle: "!!! TEST", re: rx(`!!! (TESTFAIL|TESTINVAL)`), class: Other, loose: true, noData: true},

	// kernel/panic.c
	{needle: "Kernel panic", re: rx(`Kernel panic - not syncing(?:: ?(.*))?`), class: Panic, pick: pickNone, build: buildPanic},
	// Forms that no rule above knows.
	{needle: "BUG: ", re: rx(`(?:^|[^A-Za-z_])BUG: (.+)`), class: Bug, loose: true},
}

// benign lines hold the words of a header without being one.
var benign = []string{
	"INFO: lockdep is turned off", "INFO: Stall ended", "INFO: NMI handler", "INFO: recovery required",
	"INFO: task hung", "INFO: lockdep", "stall warnings", "stall_warn", "softlockup_panic",
	"messages suppressed", "] general protection", "] trap ", "BUG: program execution failed",
	"WARNING: the mand mount option", "kasan: bad access detected", "Command line:", "Kernel command line:",
	"unexpected failures (out of",
}

// triggers: a line without any of these words is no header. Ordered by how
// often they decide.
var triggers = []string{
	"BUG", "WARNING", "INFO: ", "nic - not syncing", "fault", "UBSAN", "Oops", "Unable to handle", "Internal error", "unreferenced object",
	"[#", "LOCKUP", "CFI failure", "PANIC: ", "double fault", "Bad mode", "Unhandled ", "nsufficient stack", "ref_tracker: ", "panicked at", "trusty: panic",
	"waiting for ", "SYZF", "Busy inodes", "nhandled kernel", "!!! TEST",
}

// hit is a header that matched.
type hit struct {
	h      *header
	groups []string
	f      string // function of group "f"
	strict bool   // matched at the start of the message
}

// matchHeader finds what report, if any, starts with this text.
func matchHeader(text string) (hit, bool) {
	found := false
	for _, t := range triggers {
		if strings.Contains(text, t) {
			found = true
			break
		}
	}
	if !found {
		return hit{}, false
	}
	if len(text) > 1024 {
		text = text[:1024]
	}
	for _, b := range benign {
		if strings.Contains(text, b) {
			return hit{}, false
		}
	}
	for _, h := range headers {
		if !strings.Contains(text, h.needle) {
			continue
		}
		m := h.re.FindStringSubmatchIndex(text)
		if m == nil {
			continue
		}
		r := hit{h: h, strict: m[0] <= headStart(text)}
		for i := 0; i+1 < len(m); i += 2 {
			g := ""
			if m[i] >= 0 {
				g = text[m[i]:m[i+1]]
			}
			r.groups = append(r.groups, g)
			if h.re.SubexpNames()[i/2] == "f" && g != "" && g != "address" && g != "at" && g != "range" &&
				!strings.HasPrefix(text[m[i+1]:], "/") && !strings.HasSuffix(g, ".c") {
				r.f = g
			}
		}
		return r, true
	}
	return hit{}, false
}

// headStart is where a report's text may begin: after "watchdog: ", "rcu: ",
// "NMI watchdog: ", "[ ", "Oops: ".
func headStart(text string) int {
	t := text
	n := 0
	for {
		trimmed := strings.TrimLeft(t, " \t[")
		n += len(t) - len(trimmed)
		t = trimmed
		moved := false
		for _, p := range []string{"watchdog: ", "NMI watchdog: ", "rcu: ", "Oops: ", "traps: ", "kasan: ", "8<--- cut here ---"} {
			if strings.HasPrefix(t, p) {
				t, n, moved = t[len(p):], n+len(p), true
			}
		}
		if !moved {
			return n
		}
	}
}
