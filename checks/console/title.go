// SPDX-License-Identifier: Apache-2.0

package console

import (
	"regexp"
	"strings"
)

// unknownFunc stands for a function that the log does not show.
const unknownFunc = "corrupted"

// crash is a report while its lines come in.
type crash struct {
	hit
	Crash
	marks   []mark
	before  []string // a few lines of the same context before the header
	text    []string // lines of the report without prefixes, header first
	raw     []string // with prefixes
	ctx     string
	later   bool // another report was seen before
	pending bool // loose header without proof yet
	traces  int
	lockAt  bool // the last line ended in "at:", the next names the function
	idle    int  // lines since the last one that belonged to a report
	ended   bool
	partial bool // header was the unfinished last line
}

func (c *crash) group(i int) string {
	if i < len(c.groups) {
		return c.groups[i]
	}
	return ""
}

// contains reports whether any line from the header on has s.
func (c *crash) contains(s string) bool {
	for _, l := range c.text {
		if strings.Contains(l, s) {
			return true
		}
	}
	return false
}

// said reports whether s stands in the report or shortly before it.
func (c *crash) said(s string) bool {
	for _, l := range c.before {
		if strings.Contains(l, s) {
			return true
		}
	}
	return c.contains(s)
}

// finish chooses class, function and title.
func (c *crash) finish() {
	c.Class = c.h.class
	if c.h.pick != pickNone {
		f := c.choose(c.h.pick, nil)
		c.Func = f
	}
	if c.h.title != "" {
		c.Title = c.expand(c.h.title)
	}
	if c.h.build != nil {
		c.h.build(c)
	}
	if c.Title == "" {
		c.Title = masked(c.text[0])
	}
	c.Frames = c.trace()
	var fp []string
	for _, f := range c.Frames {
		if len(fp) < 5 && (strings.HasPrefix(f.Func, "<") || !strings.Contains(f.Func, ".")) {
			fp = append(fp, f.Func)
		}
	}
	c.Fingerprint = strings.Join(fp, ":")
}

func (c *crash) expand(t string) string {
	f := c.Func
	if f == "" {
		f = unknownFunc
	}
	t = strings.ReplaceAll(t, "{f}", f)
	for i := 1; i <= 3; i++ {
		if p := "{" + string(rune('0'+i)) + "}"; strings.Contains(t, p) {
			t = strings.ReplaceAll(t, p, c.group(i))
		}
	}
	return t
}

// choose names the function at fault, "" if the report does not show it.
func (c *crash) choose(p pick, more *names) string {
	skip := skipCommon
	switch p {
	case pickNone:
		return ""
	case pickFixed:
		return canonical(c.f)
	case pickHeader:
		if f := canonical(c.f); f != "" && !skip.has(f) && !more.has(f) {
			return f
		}
		if f := firstGood(c.marks, skip, more, false); f != "" || more != nil {
			return f
		}
		return canonical(c.f)
	case pickIP:
		return c.fromIP(skip, more)
	case pickTrace:
		// "Preemption disabled at:" and held locks stand before the trace.
		if f := firstGood(fromSection(c.marks), skip, more, false); f != "" {
			return f
		}
		return firstGood(c.marks, skip, more, false)
	case pickFirst:
		return firstGood(c.marks, skipLocks, more, false)
	case pickLock:
		for _, m := range c.marks {
			if m.kind == markLockAt {
				if f := canonical(m.fr.Func); !skipLocks.has(f) && !more.has(f) {
					return f
				}
				break
			}
			if m.kind == markFrame {
				break
			}
		}
		return firstGood(lastTrace(c.marks), skipLocks, more, false)
	case pickHung:
		f := firstGood(c.marks, skipWaiting, more, true)
		if strings.HasPrefix(f, "synchronize_rcu") {
			return "synchronize_rcu"
		}
		return f
	case pickStall:
		return c.stalled()
	case pickLeak:
		return firstGood(c.marks, skipLeak, more, true)
	}
	return ""
}

// firstGood returns the first trusted frame that skip does not name. Unless
// one is set, it goes on in later traces when the first has none.
func firstGood(ms []mark, skip, more *names, one bool) string {
	seen := false
	for _, m := range ms {
		switch m.kind {
		case markSection:
			if seen && one {
				return ""
			}
		case markFrame:
			seen = true
			f := canonical(m.fr.Func)
			if !skip.has(f) && !more.has(f) && !entryPoints.has(f) {
				return f
			}
		}
	}
	return ""
}

// fromSection drops what stands before the first trace.
func fromSection(ms []mark) []mark {
	for i, m := range ms {
		if m.kind == markSection {
			return ms[i:]
		}
	}
	return ms
}

// lastTrace drops the traces of a lockdep report that show how locks were
// taken before; the last one, after "stack backtrace:", is where it struck.
func lastTrace(ms []mark) []mark {
	at := -1
	for i, m := range ms {
		if m.kind == markSection {
			at = i
		}
	}
	if at >= 0 {
		return ms[at:]
	}
	return nil
}

// fromIP takes the function of the instruction pointer, or of the frame that
// called it when that is a helper.
func (c *crash) fromIP(skip, more *names) string {
	for i, m := range c.marks {
		if m.kind != markIP {
			continue
		}
		if f := canonical(m.fr.Func); f != "" && !skip.has(f) && !more.has(f) {
			return f
		}
		// Old kernels print RIP after the trace begins; newer ones before.
		// Frames of the trap's own handling precede it either way.
		if f := firstGood(c.marks[i+1:], skip, more, false); f != "" {
			return f
		}
		if f := firstGood(c.marks[:i], skip, more, false); f != "" {
			return f
		}
		break
	}
	if f := firstGood(c.marks, skip, more, false); f != "" {
		return f
	}
	for _, m := range c.marks {
		// Nothing but entry code: a jump to nowhere.
		if f := canonical(m.fr.Func); m.kind == markFrame && !skip.has(f) {
			return f
		}
	}
	for _, m := range c.marks {
		// The unwinder could not even begin, as after a call through a pointer
		// in freed memory; the newest word on the stack is where that was.
		if f := canonical(m.fr.Func); m.kind == markGuess && !skip.has(f) && !more.has(f) && !entryPoints.has(f) {
			return f
		}
	}
	return ""
}

var (
	// anchors dispatch to a subsystem; the function that they call names it
	// and stays the same wherever below it the CPU was when the stall was
	// noticed.
	anchors = newNames(`do_syscall_64 do_syscall_32 do_fast_syscall_32 do_int80_syscall_32 entry_SYSCALL_* entry_SYSENTER_* entry_INT80* int_ret_from_sys_call
		system_call_fastpath tracesys* sysenter_* invoke_syscall el0_svc* __invoke_syscall do_el0_svc ret_fast_syscall x64_sys_call ia32_sys_call do_trap_ecall_u __do_syscall
		do_vfs_ioctl vfs_ioctl ksys_ioctl sys_ioctl SyS_ioctl SYSC_ioctl compat_SyS_ioctl compat_sys_ioctl
		vfs_read vfs_write __vfs_read __vfs_write new_sync_read new_sync_write do_iter_read do_iter_write do_iter_readv_writev call_read_iter call_write_iter vfs_iter_write vfs_iter_read do_readv do_writev kernel_read kernel_write
		sock_sendmsg sock_recvmsg __sock_sendmsg sock_sendmsg_nosec sock_recvmsg_nosec sock_write_iter sock_read_iter ____sys_sendmsg
		nfnetlink_rcv_msg task_work_run process_one_work process_scheduled_works kthread call_timer_fn expire_timers __run_timers __hrtimer_run_queues
		net_rx_action __napi_poll napi_poll netif_receive_skb* __netif_receive_skb* tasklet_action* run_ksoftirqd smpboot_thread_fn do_softirq __do_softirq handle_softirqs rcu_do_batch rcu_core
		do_one_initcall do_init_module notifier_call_chain __fput ret_from_fork* vfs_open do_dentry_open`)
	// entryPoints end every trace and name nothing.
	entryPoints = newNames(`entry_SYSCALL_* entry_SYSENTER_* entry_INT80* do_syscall_64 do_syscall_32 do_fast_syscall_32 __do_fast_syscall_32 do_int80_syscall_32 int_ret_from_sys_call system_call_fastpath x64_sys_call ret_from_fork* kernel_thread_starter
		invoke_syscall el0_svc* do_el0_svc el0t_64_sync* el0_sync* ret_fast_syscall secondary_startup_64* ret_from_exception handle_exception kthread worker_thread process_one_work process_scheduled_works`)
	// tick frames: the watchdog's own way to the CPU it looks at.
	tick     = newNames(tickFrames)
	skipLeak = newNames(reporting, helpers, `dup_user kmemdup_nul getname_kernel bpf_map_area_* bpf_map_kmalloc* array_map_alloc htab_map_alloc sk_prot_alloc sk_alloc alloc_skb* __alloc_skb* alloc_skb_with_frags sock_alloc_send_* skb_clone __build_skb* build_skb* napi_alloc_skb* __netdev_alloc_* netdev_alloc_* kobject_set_name* kobj_* copy_mount_options strndup_user kasprintf kvasprintf* devm_k* devres_alloc* __devres_alloc* sg_alloc_* sg_kmalloc mempool_* idr_* radix_tree_* xas_* xa_* __xa_* alloc_inode alloc_file* alloc_empty_file mm_alloc nla_memdup nla_strdup kobject_get prealloc* d_alloc* __d_alloc new_inode* genl_* nlmsg_new
		alloc_netdev_mqs alloc_workqueue* alloc_bprm`)
)

const tickFrames = `dump_stack* nmi_* lapic_can_* arch_trigger_* trigger_* rcu_* check_cpu_stall* print_cpu_stall* print_other_cpu_stall* sched_show_task* _sched_show_task* show_stack walk_stackframe dump_cpu_task dump_backtrace* update_process_times tick_* __hrtimer_run_queues hrtimer_* local_apic_timer_interrupt watchdog_* __switch_to __schedule panic
		arch_timer_handler_* __run_hrtimer __sysvec_* sysvec_* asm_sysvec_* smp_apic_timer_interrupt* apic_timer_interrupt reschedule_interrupt smp_reschedule_interrupt call_on_irq_stack do_interrupt_handler el1_interrupt el1h_64_irq* el1_irq* gic_handle_irq handle_percpu_* generic_handle_* handle_domain_irq __handle_domain_irq asm_call_on_stack asm_call_irq_on_stack irq_exit* restore_regs_and_iret trace_hardirqs_* retint_* preempt_schedule_irq irqentry_exit el1h_64_irq_handler do_trap_irq handle_riscv_irq riscv_* __do_softirq interrupt_entry idtentry_* exc_nmi asm_exc_nmi end_repeat_nmi default_do_nmi do_nmi`

// skipStall names what says nothing about a CPU that does not come back.
var skipStall = newNames(reporting, helpers, tickFrames, "rcu_gp_kthread rcu_gp_fqs_loop do_idle cpu_startup_entry rest_init default_idle* arch_cpu_idle cpuidle_* native_safe_halt start_kernel start_secondary")

// stalled names what a CPU that does not come back was doing.
func (c *crash) stalled() string {
	// Traces of RCU's own kthread and of idle CPUs say nothing about it.
	for start := 0; start < len(c.marks); {
		end := start + 1
		for end < len(c.marks) && c.marks[end].kind != markSection {
			end++
		}
		if f := stalledIn(c.marks[start:end]); f != "" {
			return f
		}
		start = end
	}
	// A trace that stops short of what called it.
	return c.fromIP(skipStall, nil)
}

func stalledIn(ms []mark) string {
	var fs []string
	for _, m := range ms {
		if m.kind == markFrame {
			fs = append(fs, m.fr.Func)
		}
	}
	for _, f := range fs {
		switch canonical(f) {
		case "rcu_gp_kthread", "rcu_gp_fqs_loop", "do_idle", "cpu_startup_entry", "rest_init":
			return ""
		}
	}
	// Start below the last interrupt of the watchdog.
	i := 0
	for i < len(fs) && tick.has(canonical(fs[i])) {
		i++
	}
	if i == len(fs) {
		return ""
	}
	fs = fs[i:]
	for i, f := range fs {
		name := canonical(f)
		if strings.HasPrefix(name, "smp_call_function") {
			return "smp_call_function" // waits for another CPU, whoever asked
		}
		next := ""
		if i+1 < len(fs) {
			next = fs[i+1]
		}
		cn := canonical(next)
		if next == "" || !(anchors.has(cn) || strings.HasSuffix(cn, "_compat_ioctl")) {
			continue
		}
		if anchors.has(name) || strings.HasSuffix(name, "_compat_ioctl") || entryPoints.has(name) || tick.has(name) {
			continue
		}
		if r, ok := strings.CutPrefix(name, "compat_SyS_"); ok {
			return r
		}
		if r, ok := strings.CutPrefix(name, "SyS_"); ok {
			return "sys_" + r
		}
		if skipWaiting.has(name) || skipReport.has(name) {
			continue
		}
		return name
	}
	return ""
}

// trace is the stack of the report that a reader wants: the first one with
// frames, without the reporting machinery on top.
func (c *crash) trace() []Frame {
	var out []Frame
	for _, m := range c.marks {
		switch m.kind {
		case markSection:
			if len(out) > 0 {
				return out
			}
		case markFrame:
			if len(out) == 0 && skipReport.has(canonical(m.fr.Func)) {
				continue
			}
			if len(out) < 64 {
				out = append(out, m.fr)
			}
		}
	}
	return out
}

var (
	maskAddr = regexp.MustCompile(`\b(?:0x)?[0-9a-f]{8,}\b|\b0x[0-9a-f]+\b`)
	maskOff  = regexp.MustCompile(`\+0x[0-9a-f]+(?:/0x[0-9a-f]+)?`)
	maskNum  = regexp.MustCompile(`\b\d+\b`)
	maskTask = regexp.MustCompile(`\bsyz[\w.-]*|\bsyzkaller\d+`)
)

// masked is the line with what differs from run to run replaced.
func masked(s string) string {
	s = strings.TrimSpace(strings.Trim(strings.TrimSpace(s), "[]"))
	s = maskOff.ReplaceAllString(s, "")
	s = maskAddr.ReplaceAllString(s, "ADDR")
	s = maskNum.ReplaceAllString(s, "NUM")
	if len(s) > 120 {
		s = s[:120]
	}
	return strings.TrimSpace(s)
}

func (c *crash) or(f string) string {
	if f == "" {
		return unknownFunc
	}
	return f
}

func buildKASAN(c *crash) {
	kind := strings.ReplaceAll(c.group(1), " ", "-")
	switch kind {
	case "double-free-or-invalid-free", "double-free":
		// One check, whose name changed between kernels.
		kind = "invalid-free"
	case "out-of-bounds-access", "out-of-bounds-on-stack":
		kind = "out-of-bounds"
	}
	access := ""
	for _, l := range c.text[1:] {
		t := strings.TrimLeft(l, " ")
		switch {
		case strings.HasPrefix(t, "Read of size"), strings.HasPrefix(t, "Read at addr"), strings.HasPrefix(t, "Async-read"):
			access = "Read"
		case strings.HasPrefix(t, "Write of size"), strings.HasPrefix(t, "Write at addr"):
			access = "Write"
		case strings.HasPrefix(t, "BUG: KASAN"):
		default:
			continue
		}
		break
	}
	if access == "" {
		if strings.Contains(kind, "free") && !strings.HasSuffix(kind, "after-free") || kind == "invalid-access" {
			c.Title = "KASAN: " + kind + " in " + c.or(c.Func)
			return
		}
		// Nothing is known but the header.
		if c.f != "" {
			c.Func = canonical(c.f)
		}
		c.Title = "KASAN: " + kind + " in " + c.or(c.Func)
		if strings.Contains(c.text[0], " at addr ") {
			c.Title += " at addr ADDR"
		}
		return
	}
	c.Title = "KASAN: " + kind + " " + access + " in " + c.or(c.Func)
}

// buildUnable completes a header that another writer or the end of the log
// cut off.
func buildUnable(c *crash) {
	what := c.group(1)
	for _, full := range []string{"kernel paging request", "kernel NULL pointer dereference"} {
		if strings.HasPrefix(full, what) {
			what = full
			break
		}
	}
	c.Title = "BUG: unable to handle " + what + " in " + c.or(c.Func)
}

func buildKCSAN(c *crash) {
	a, b := canonical(c.group(2)), canonical(c.group(3))
	c.Func = a
	c.Title = "KCSAN: " + c.group(1) + " in " + a
	if b != "" {
		c.Title += " / " + b
	}
}

func buildUBSAN(c *crash) {
	kind := c.group(1)
	if kind == "Undefined behaviour" {
		kind = "undefined-behaviour"
	}
	c.Title = "UBSAN: " + kind + " in " + c.or(c.Func)
}

func buildWorkqueueLeak(c *crash) {
	for _, l := range c.text {
		if _, f, ok := strings.Cut(l, "last function: "); ok {
			f, _, _ = strings.Cut(strings.TrimSpace(f), "+")
			c.Func = canonical(f)
			break
		}
	}
	c.Title = "BUG: workqueue leaked lock or atomic in " + c.or(c.Func)
}

func buildKernelBUG(c *crash) {
	switch {
	case c.said("list_add corruption"), c.said("list_del corruption"), c.said("list_add double add"), strings.HasPrefix(c.group(1), "lib/list_debug.c"):
		c.Title = c.expand("BUG: corrupted list in {f}")
	case c.said("usercopy: ") || strings.HasPrefix(c.group(1), "mm/usercopy.c"):
		c.Title = c.expand("BUG: bad usercopy in {f}")
	case strings.HasPrefix(c.group(1), "fs/reiserfs/prints.c"), strings.HasPrefix(c.group(1), "fs/ext4/super.c"):
		c.Func = c.choose(pickIP, newNames("__reiserfs_panic __ext4_* ext4_handle_error"))
		c.Title = c.expand("kernel BUG in {f}")
	}
}

func buildWARN(c *crash) {
	file := c.group(1)
	head := canonical(c.f)
	more := (*names)(nil)
	title := "WARNING in {f}"
	p := pickHeader
	switch {
	case strings.HasPrefix(head, "refcount_") || strings.HasSuffix(file, "lib/refcount.c"):
		c.Class = Refcount
		title = "WARNING: refcount bug in {f}"
		more = newNames("kobject_get kobject_put sock_put sock_hold dev_put dev_hold")
	case strings.HasSuffix(file, "lib/debugobjects.c"):
		title = "WARNING: ODEBUG bug in {f}"
	case strings.HasSuffix(file, "lib/kobject.c"):
		title = "WARNING: kobject bug in {f}"
		more = newNames("kobject_* kobj_* device_* put_device get_device")
	case strings.HasSuffix(file, "lib/list_debug.c"):
		c.Class = Bug
		title = "BUG: corrupted list in {f}"
	case strings.HasSuffix(file, "kernel/locking/lockdep.c"):
		c.Class = Lockdep
		title = "WARNING: locking bug in {f}"
		more = skipLocks
	case strings.HasSuffix(file, "kernel/dma/debug.c"), strings.HasSuffix(file, "lib/dma-debug.c"):
		title = "WARNING: DMA-API bug in {f}"
		more = newNames("dma_* debug_dma_*")
	case strings.HasSuffix(file, "lib/usercopy.c"), strings.HasSuffix(file, "mm/usercopy.c"), strings.HasSuffix(file, "include/linux/thread_info.h"):
		title = "WARNING: bad usercopy in {f}"
	case strings.HasPrefix(head, "kmalloc_slab"), strings.HasPrefix(head, "kvmalloc_node"), strings.HasPrefix(head, "__kvmalloc_node"), head == "__do_kmalloc_node", strings.HasPrefix(head, "kvmalloc"):
		title = "WARNING: kmalloc bug in {f}"
	case strings.HasPrefix(head, "__vmalloc_node_range"):
		title = "WARNING: zero-size vmalloc in {f}"
	case strings.HasPrefix(head, "proc_register"), strings.HasPrefix(head, "__proc_create"), head == "remove_proc_entry", head == "proc_create_data":
		title = "WARNING: proc registration bug in {f}"
		more = newNames("proc_* __proc_* remove_proc_*")
	case head == "usb_submit_urb":
		c.Func = firstGood(c.marks, skipCommon, newNames("usb_submit_urb"), false)
		c.Title = c.expand("WARNING in {f}/usb_submit_urb")
		return
	case head == "sysfs_warn_dup", head == "sysfs_remove_group", head == "sysfs_remove_link":
		p = pickHeader
	}
	c.Func = c.choose(p, more)
	c.Title = c.expand(title)
}

func buildBadStack(c *crash) {
	if c.group(1) == "regs" {
		c.Title = "WARNING: kernel stack regs has bad '" + c.group(2) + "' value"
		return
	}
	c.Title = "WARNING: kernel stack frame pointer has bad value"
}

// buildSLUB names slab_debug reports by cache and kind; the function is the
// one that freed the object, or that allocated it.
func buildSLUB(c *crash) {
	kind := strings.TrimSpace(c.group(2))
	kind = masked(kind)
	for _, who := range []string{"Freed in ", "Allocated in "} {
		for _, l := range c.text {
			if i := strings.Index(l, who); i >= 0 && c.Func == "" {
				if fr, _, ok := symbol(l[i+len(who):]); ok && !skipCommon.has(canonical(fr.Func)) {
					c.Func = canonical(fr.Func)
				}
			}
		}
	}
	if c.Func == "" {
		c.Func = firstGood(c.marks, skipCommon, nil, false)
	}
	c.Title = "BUG " + c.group(1) + ": " + kind
	if c.Func != "" {
		c.Title += " in " + c.Func
	}
}

func buildRust(c *crash) {
	// The message is the next line that is not another program's.
	msg := ""
	for _, l := range c.text[1:] {
		t := strings.TrimSpace(l)
		if t != "" && !strings.HasPrefix(t, "audit:") {
			msg = masked(t)
			break
		}
	}
	c.Func = firstGood(c.marks, skipCommon, newNames("rust_* __rustc::* core::* <core::* _R*"), false)
	if msg == "" {
		msg = "Rust panic"
	}
	c.Title = msg + " in " + c.or(c.Func)
}

func buildSyz(c *crash) {
	t := c.group(1) + ": " + strings.TrimSpace(c.group(2))
	t = regexp.MustCompile(`\d+`).ReplaceAllString(t, "NUM")
	if i := strings.Index(t, " (errno"); i > 0 {
		t = t[:i]
	}
	c.Title = t
}

func buildPanic(c *crash) {
	why := strings.TrimPrefix(strings.TrimSpace(c.group(1)), "kernel: ")
	for _, w := range []string{"panic_on_", "Fatal exception", "hung_task:", "softlockup:", "hard LOCKUP", "RCU Stall", "Hard LOCKUP"} {
		// The kernel was told to panic when it reports something else.
		if strings.Contains(why, w) && c.later {
			c.Consequence = true
		}
	}
	switch {
	case strings.HasPrefix(why, "stack-protector"):
		_, f, _ := strings.Cut(why, "in: ")
		if fr, _, ok := symbol(f); ok {
			f = fr.Func
		}
		f = canonical(strings.TrimSpace(f))
		if !isSym(f) || skipCommon.has(f) {
			f = firstGood(c.marks, skipCommon, newNames("__stack_chk_fail"), false)
		}
		c.Func = f
		c.Title = "kernel panic: stack is corrupted in " + c.or(f)
	case strings.HasPrefix(why, "corrupted stack end"):
		c.Func = c.stalled()
		if c.Func == "" {
			c.Func = firstGood(c.marks, skipWaiting, nil, false)
		}
		c.Title = "kernel panic: corrupted stack end in " + c.or(c.Func)
	case strings.HasPrefix(why, "Attempted to kill init"):
		c.Title = "kernel panic: Attempted to kill init!"
	case strings.HasPrefix(why, "Fatal exception"):
		c.Title = "kernel panic: Fatal exception"
	case why == "":
		c.Title = "kernel panic"
	default:
		why = strings.TrimRight(why, " .")
		c.Title = "kernel panic: " + masked(why)
	}
	c.Boot = bootFailure(why)
}
