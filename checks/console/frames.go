// SPDX-License-Identifier: Apache-2.0

package console

import (
	"regexp"
	"strings"
)

// Frame is one entry of a stack trace that the unwinder trusts.
type Frame struct {
	Func   string `json:"func"`             // as printed, without offset: "foo.isra.0"
	Where  string `json:"where,omitempty"`  // "fs/foo.c:12" of a decoded log
	Module string `json:"module,omitempty"` // "[nfsd]" without brackets
	Inline bool   `json:"inline,omitempty"`
}

// mark is a piece of a report that choosing a function needs, in log order.
type mark struct {
	kind markKind
	fr   Frame
}

type markKind uint8

const (
	markFrame   markKind = iota // a frame of a stack trace
	markGuess                   // "? foo+0x1/0x2": a stale word on the stack
	markIP                      // RIP, EIP, PC, epc, NIP: where the trap struck
	markSection                 // "Call Trace:" and the like
	markLockAt                  // "(&lock){....}, at: foo+0x1/0x2"
)

// isSym reports whether s is a kernel symbol: C names with compiler suffixes,
// and Rust paths as %pS prints them.
func isSym(s string) bool {
	if s == "" || len(s) > 200 {
		return false
	}
	c := s[0]
	if !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '<') {
		return false
	}
	for i := 1; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '_' || c == '.' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9':
		case s[0] == '<' || strings.Contains(s, "::"):
			if !strings.ContainsRune("<>:{}#, &*[]()-' =", rune(c)) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// symbol parses "foo.isra.0+0x12/0x34 [mod]" at the start of s and returns
// what follows. The offset is required; its size may be cut off.
func symbol(s string) (fr Frame, rest string, ok bool) {
	i := strings.Index(s, "+0x")
	if i <= 0 || !isSym(s[:i]) {
		return fr, s, false
	}
	fr.Func = s[:i]
	j := i + 3
	for j < len(s) && (isHex(s[j]) || s[j] == '/' || s[j] == 'x') {
		j++
	}
	rest = s[j:]
	t := strings.TrimLeft(rest, " ")
	if strings.HasPrefix(t, "[") {
		if k := strings.IndexByte(t, ']'); k > 1 && t[1:k] != "inline" {
			fr.Module = strings.Fields(t[1:k] + " ")[0]
			t = strings.TrimLeft(t[k+1:], " ")
		}
	}
	fr.Where = sourceAt(t)
	return fr, rest, true
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// sourceAt returns "dir/file.c:123" at the start of s, "" if there is none.
func sourceAt(s string) string {
	f, _, _ := strings.Cut(s, " ")
	i := strings.LastIndexByte(f, ':')
	if i < 3 || i+1 >= len(f) || f[i+1] < '0' || f[i+1] > '9' || !strings.Contains(f[:i], ".") {
		return ""
	}
	return f
}

// address skips "[<ffffffff81234567>] " or ppc's "[c0000000]" at the start.
func address(s string) (string, bool) {
	if !strings.HasPrefix(s, "[") {
		return s, false
	}
	j := strings.IndexByte(s, ']')
	if j < 0 || j > 24 {
		return s, false
	}
	in := strings.Trim(s[1:j], "<>")
	if len(in) < 6 {
		return s, false
	}
	for i := 0; i < len(in); i++ {
		if !isHex(in[i]) && in[i] != '(' && in[i] != ')' && in[i] != 'p' && in[i] != 't' && in[i] != 'r' && in[i] != 'v' && in[i] != 'l' {
			return s, false
		}
	}
	return strings.TrimLeft(s[j+1:], " "), true
}

var (
	// The register line that names where the trap struck, of the
	// architectures in arch/*/kernel/{process,traps,ptrace}*.c.
	ipRE    = regexp.MustCompile(`^\s*(?:R?IP|EIP|IP)(?: is at|:)\s*(?:([0-9a-fx]{2,6}):)?(.*)`)
	pcRE    = regexp.MustCompile(`^\s*(?:PC is at|pc\s*:|epc\s*:|era\s*:|NIP|epc is at|Krnl PSW :[^(]*\()\s*(.*)`)
	armFrom = regexp.MustCompile(`^\s*(?:\[<[0-9a-f]+>\] )?\(?([A-Za-z_][\w.]*)\)? from (?:\[<[0-9a-f]+>\] )?\(?\s*(\S.*)`)
	lockAt  = regexp.MustCompile(`at: (?:\[<[^>]*>\])?\s*([A-Za-z_][\w.]*)(?:\+0x|\s*$| )`)
	srcTail = regexp.MustCompile(`^([A-Za-z_][\w.]*) (\S+\.(?:[chS]|rs):\d+)(?::\d+)?(?: (?:\(discriminator \d+\) ?)?\[inline\])?`)
)

// scanMarks appends what text contributes to choosing a function.
func scanMarks(ms []mark, text string) []mark {
	t := strings.TrimLeft(text, " \t")
	if t == "" {
		return ms
	}
	switch t[0] {
	case 'C', 'B', 'b', 's', 'T', 'U', 'w', 'r', 'a', 'E':
		if isTraceHead(t) {
			return append(ms, mark{kind: markSection})
		}
	}
	switch {
	case strings.HasPrefix(t, "RIP:"), strings.HasPrefix(t, "EIP"), strings.HasPrefix(t, "IP:"), strings.HasPrefix(t, "IP is"):
		if m := ipRE.FindStringSubmatch(t); m != nil {
			if m[1] == "0033" || m[1] == "0023" || m[1] == "33" || m[1] == "23" || m[1] == "001b" {
				return ms // user mode: the system call's caller
			}
			rest := strings.TrimSpace(m[2])
			for {
				r, ok := address(rest)
				if !ok {
					break
				}
				rest = r
			}
			if fr, _, ok := symbol(rest); ok {
				return append(ms, mark{markIP, fr})
			}
			return append(ms, mark{kind: markIP})
		}
	case strings.HasPrefix(t, "PC is"), strings.HasPrefix(t, "pc :"), strings.HasPrefix(t, "epc"), strings.HasPrefix(t, "NIP"), strings.HasPrefix(t, "era"), strings.HasPrefix(t, "Krnl PSW"):
		if m := pcRE.FindStringSubmatch(t); m != nil {
			rest := m[1]
			for {
				r, ok := address(rest)
				if !ok {
					break
				}
				rest = r
			}
			if i := strings.IndexByte(rest, ' '); i == 16 || i == 8 { // s390, loongarch: address first
				if r := strings.TrimLeft(rest[i:], " ("); strings.Contains(r, "+0x") && !strings.Contains(rest[:i], "+") {
					rest = r
				}
			}
			if fr, _, ok := symbol(rest); ok {
				return append(ms, mark{markIP, fr})
			}
			if strings.HasPrefix(rest, "0x") || strings.HasPrefix(t, "PC is") {
				return append(ms, mark{kind: markIP})
			}
			return ms
		}
	case strings.HasPrefix(t, "LR is"), strings.HasPrefix(t, "lr :"), strings.HasPrefix(t, "ra :"), strings.HasPrefix(t, "LR ["), strings.HasPrefix(t, "Code:"):
		return ms
	}
	if strings.Contains(t, "at: ") && strings.ContainsAny(t, "{(") {
		if m := lockAt.FindStringSubmatch(t); m != nil {
			return append(ms, mark{markLockAt, Frame{Func: m[1]}})
		}
	}
	if strings.Contains(t, " from ") {
		if m := armFrom.FindStringSubmatch(t); m != nil {
			// "(foo) from [<addr>] (bar+0x1/0x2)": both are frames; bar
			// may come again as the next line's left side.
			if n := len(ms); n == 0 || ms[n-1].kind != markFrame || ms[n-1].fr.Func != m[1] {
				ms = append(ms, mark{markFrame, Frame{Func: m[1]}})
			}
			if fr, _, ok := symbol(m[2]); ok {
				ms = append(ms, mark{markFrame, fr})
			}
			return ms
		}
	}
	return scanFrame(ms, t)
}

func scanFrame(ms []mark, t string) []mark {
	for {
		r, ok := address(t)
		if !ok {
			break
		}
		t = r
	}
	for _, p := range []string{"<IRQ>", "</IRQ>", "<NMI>", "<EOI>", "<TASK>", "<#DF>", "<<EOE>>", "([", "(["} {
		if strings.HasPrefix(t, p) {
			t = strings.TrimLeft(t[len(p):], " ")
			if r, ok := address(t); ok {
				t = r
			}
		}
	}
	kind := markFrame
	if strings.HasPrefix(t, "? ") {
		kind = markGuess
		t = strings.TrimLeft(t[2:], " ")
	}
	t = strings.TrimPrefix(t, "(")
	if fr, rest, ok := symbol(t); ok {
		rest = strings.TrimSpace(rest)
		if strings.Contains(rest, "(unreliable)") || strings.HasPrefix(rest, "(P)") {
			kind = markGuess
		}
		// A sentence that mentions a symbol is no frame.
		if rest != "" && fr.Where == "" && fr.Module == "" && !strings.ContainsAny(rest[:1], "()[]:{") && len(rest) > 30 {
			return ms
		}
		return append(ms, mark{kind, fr})
	}
	if strings.Contains(t, ".c:") || strings.Contains(t, ".h:") || strings.Contains(t, ".rs:") || strings.Contains(t, ".S:") {
		if m := srcTail.FindStringSubmatch(t); m != nil && (len(m[0]) == len(strings.TrimRight(t, " ")) || strings.HasSuffix(m[0], "[inline]")) {
			return append(ms, mark{kind, Frame{Func: m[1], Where: m[2], Inline: strings.HasSuffix(m[0], "[inline]")}})
		}
	}
	return ms
}

func isTraceHead(t string) bool {
	for _, h := range []string{"Call Trace:", "Call trace:", "Backtrace:", "Backtrace for", "backtrace:", "backtrace (", "stack backtrace:", "Trace:", "Uninit was", "Local variable", "write to 0x", "read to 0x", "read-write to 0x", "write (marked) to", "read (marked) to", "race at unknown", "Allocated by", "Allocated in", "allocated by", "Freed by", "Freed in", "freed by", "Last potentially", "Second to last", "Call Trace (", "EXC "} {
		if strings.HasPrefix(t, h) {
			return true
		}
	}
	return false
}

// canonical takes off what differs between compilers and architectures:
// ".isra.0", ".constprop.1", ".part.2", ".cold.3", ".llvm.4" and the
// prefixes of system call stubs.
func canonical(fn string) string {
	if strings.HasPrefix(fn, "_R") {
		if name, ok := rustName(fn); ok {
			return name
		}
	}
	fn = strings.TrimPrefix(fn, "__pi_") // arm64: same code, another alias
	if !strings.HasPrefix(fn, "<") {
		if i := strings.IndexByte(fn, '.'); i > 0 {
			fn = fn[:i]
		}
	}
	for _, p := range []string{"__x64_sys_", "__ia32_sys_", "__arm64_sys_", "__riscv_sys_", "__s390x_sys_", "__se_sys_", "__do_sys_", "__loongarch_sys_"} {
		if rest, ok := strings.CutPrefix(fn, p); ok && rest != "" {
			return "sys_" + rest
		}
	}
	for _, p := range []string{"__x64_compat_sys_", "__ia32_compat_sys_", "__arm64_compat_sys_", "__se_compat_sys_", "__do_compat_sys_"} {
		if rest, ok := strings.CutPrefix(fn, p); ok && rest != "" {
			return "compat_sys_" + rest
		}
	}
	return fn
}

// names matches function names: whole words, and prefixes marked by "*".
type names struct {
	exact  map[string]bool
	prefix []string
}

func newNames(lists ...string) *names {
	n := &names{exact: map[string]bool{}}
	for _, l := range lists {
		for _, w := range strings.Fields(l) {
			if p, ok := strings.CutSuffix(w, "*"); ok {
				n.prefix = append(n.prefix, p)
			} else {
				n.exact[w] = true
			}
		}
	}
	return n
}

func (n *names) has(fn string) bool {
	if n == nil {
		return false
	}
	if n.exact[fn] {
		return true
	}
	for _, p := range n.prefix {
		if strings.HasPrefix(fn, p) {
			return true
		}
	}
	return false
}

// Functions that are never at fault: they report, trap, check, or do what
// their caller asked (copy, count, lock, allocate).
const (
	reporting = `
dump_stack* __dump_stack show_stack show_trace* dump_backtrace* dump_trace dump_header panic vpanic nmi_panic die __die die_* oops_* no_context
__warn* warn_slowpath* warn_bogus* report_bug* __report_bug fixup_bug* handle_bug bug_handler* call_break_hook brk_handler
do_trap do_trap_* do_error_trap do_invalid_op invalid_op exc_* asm_exc_* asm_* error_entry error_code invalid_op_*
general_protection do_general_protection page_fault do_page_fault __do_page_fault trace_page_fault do_user_addr_fault
do_kern_addr_fault bad_area* __bad_area* async_page_fault do_async_page_fault trace_do_page_fault page_fault_oops kernelmode_fixup_or_oops
do_kernel_fault __do_kernel_fault do_translation_fault do_mem_abort do_tag_check_fault do_DataAbort do_bad_area do_tag_recovery do_alignment_fault do_sp_pc_abort do_undefinstr do_debug_exception
el0t_* el1_* el1h_* el1t_* __dabt_usr __pabt_usr __irq_svc __und_svc notify_die arm_notify_die arm64_notify_die __exception_*
handle_exception ret_from_exception do_trap_break
kasan_* __kasan_* asan_* __asan_* __hwasan_* hwasan_* __hwsan* kmsan_* __kmsan_* __msan_* msan_* kcsan_* __kcsan_* __tsan_* kfence_* __kfence_* ubsan_* __ubsan_* handle_overflow* val_to_string*
print_address_description* print_report* end_report* check_memory_region* memory_is_* memory_is_poisoned* check_region_inline check_inlined* quarantine_put
unwind_* __unwind_* save_stack* save_trace* stack_trace_save* arch_stack_walk walk_stackframe __save_stack_trace stack_depot_* set_track* init_object check_object alloc_debug_processing free_debug_processing object_err print_trailer* slab_err* slab_pad_check check_bytes_and_report* on_freelist
__sanitizer_cov_* write_comp_data sanitizer_cov_* fortify_panic __fortify_* __fortify_panic ftrace_* trace_hardirqs_* arch_ftrace_* __do_trace*
rust_helper_BUG rust_begin_unwind rust_panic* __rust_* core::panicking* <core::panicking* _RNvNtCs*panic*
stack_segment divide_error machine_check double_fault int3 debug __cfi_* cfi_* handle_cfi_failure report_cfi_failure __stack_chk_fail
skb_panic skb_over_panic skb_under_panic usercopy_abort __check_object_size check_heap_object* check_stack_object __check_heap_object check_page_span report_usercopy check_copy_size copy_overflow __copy_overflow
printk* _printk vprintk* console_unlock console_flush* console_trylock* __down_trylock_console_sem __printk_* dev_vprintk_emit dev_printk_emit __x86_indirect_thunk* __x86_return_thunk srso_*
perf_trace_* perf_tp_* perf_try_init_event perf_init_event perf_event_alloc trace_event_raw_event_* __bpf_trace_* bpf_trace_run* trace_call_bpf do_trace_* assertfail* btrfs_assertfail assfail asswarn
nmi_cpu_backtrace* nmi_trigger_* nmi_trigger_cpumask_backtrace arch_trigger_* trigger_*`

	helpers = `
memcpy* memset* memmove* memcmp* memchr* memscan __memcpy* __memset* __memmove* __memcmp memzero* __memzero memcpy_and_pad
strlen strnlen strcpy strncpy strcmp strncmp strcat strncat strlcpy strlcat strscpy* sized_strscpy strchr strrchr strstr strsep strcasecmp* strnchr strncasecmp string string_nocheck sized_strscpy
_copy_from_user _copy_to_user __copy_from_user* __copy_to_user* copy_user_* copy_to_user* copy_from_user* raw_copy_* __arch_copy_* __copy_user* arch_copy_* __clear_user __put_user* __get_user* copy_in_user rep_movs_alternative rep_stos_alternative csum_partial* clear_page* copy_page* __copy_tofrom_user* _copy_to_iter copyout* copyin* instrument_copy_*
atomic_* atomic64_* atomic_long_* arch_atomic* raw_atomic* __atomic_* generic_atomic* instrument_* __read_once* __write_once* __xchg* xchg* cmpxchg* test_bit* set_bit* clear_bit* __set_bit* __clear_bit* test_and_* __test_and_* arch_test_* arch_set_* arch_clear_* variable_test_bit constant_test_bit test_and_set_bit* change_bit __raw_readb __raw_readw __raw_readl __raw_readq __raw_writeb __raw_writew __raw_writel __raw_writeq
find_first_bit find_next_bit* _find_next_bit* _find_first_* bitmap_* __bitmap_* hweight* __sw_hweight*
list_* __list_* hlist_* __hlist_* INIT_LIST_HEAD klist_* plist_*
refcount_* __refcount_* kref_get* kref_put* kref_sub ref_tracker_* lockref_* fast_dput dput
xas_* xa_* __xa_* radix_tree_* __radix_tree_* idr_* ida_* __rb_* rb_insert_color* rb_erase* rb_next rb_prev rb_first* rb_last rb_replace_node* interval_tree_* mas_* mtree_*
find_get_* find_lock_* filemap_get_* truncate_inode_pages* truncate_pagecache*
vsnprintf vsprintf snprintf sprintf scnprintf vscnprintf pointer number format_decode kasprintf kvasprintf* simple_strto* kstrto* strnstr strim skip_spaces strspn strcspn strpbrk
lock_timer_base* __mod_timer mod_timer* add_timer* del_timer* try_to_del_timer* __try_to_del_timer* timer_delete* __timer_delete* timer_shutdown* detach_if_pending detach_timer init_timer_key timer_init_key enqueue_timer internal_add_timer
__flush_work* flush_work flush_delayed_work cancel_work* cancel_delayed_work* __cancel_work* __cancel_delayed_work* call_rcu* __call_rcu* kvfree_call_rcu kfree_call_rcu kthread_stop kthread_stop_put
kobject_* kobj_* device_add device_del device_register device_unregister device_destroy device_create* device_initialize get_device_parent* add_uevent_var put_device get_device klist_* bus_add_device bus_probe_device rollback_registered* unregister_netdevice_many* unregister_netdevice_queue* register_netdevice
skb_put skb_push skb_pull skb_put_data __skb_put __skb_pull __skb_push pskb_expand_head skb_over_panic
logic_in* logic_out* inb inw inl outb outw outl readb readw readl readq writeb writew writel writeq ioread8 ioread16 ioread32 iowrite8 iowrite16 iowrite32
__task_rq_lock task_rq_lock raw_spin_rq_lock* rq_lock* warn_alloc* pcpu_* free_large_kmalloc free_kmem_* __kfree_rcu bit_clear_unless
rcu_read_lock* rcu_read_unlock* rcu_lock_* rcu_is_watching rcu_dereference* __rcu_read_* srcu_*
debug_print_object* debug_check_no_obj* __debug_check_no_obj* debug_object_* __debug_object_* debug_timer_* debug_rcu_*
kmalloc* __kmalloc* kzalloc* kcalloc* kmem_cache_* __kmem_cache_* slab_* ___slab_* __slab_* do_slab_free slub_* kfree kfree_sensitive kzfree kvfree* vfree vfree_atomic kvmalloc* kvzalloc* kvcalloc* kmem_* ksize __ksize krealloc* __do_krealloc __do_kmalloc* kmemdup* kstrdup* __kmemdup* kmalloc_array* cache_alloc* __cache_alloc* ____cache_alloc* cache_free* __cache_free* ___cache_free cache_grow* fallback_alloc new_slab* allocate_slab alloc_slab_page* deactivate_slab memdup_user* vmemdup_user setup_object* post_alloc_hook prep_new_page __do_cache_alloc
alloc_pages* __alloc_pages* ___alloc_pages* __alloc_frozen_pages* alloc_frozen_pages* __get_free_pages get_zeroed_page get_page_from_freelist free_pages* __free_pages* free_unref_page* __free_page* alloc_page_interleave folio_alloc* __folio_alloc* get_free_pages* vmalloc* __vmalloc* vzalloc* vmap_* __vmap* alloc_vmap_area* __get_vm_area_node
kmemleak_* percpu_counter_* __percpu_counter_* pcpu_alloc* __alloc_percpu* alloc_percpu*
debug_dma_* check_unmap check_sync check_for_* add_dma_entry err_printk dma_entry_*
might_alloc fs_reclaim_* __fs_reclaim_* might_fault __might_fault should_fail* __should_fail* should_failslab fail_dump`

	locking = `
lock_acquire* __lock_acquire* lock_release* __lock_release* lock_is_held* lock_downgrade lockdep_* __lockdep_* lock_pin* lock_contended lock_acquired lock_stat* look_up_lock_class register_lock_class* assign_lock_key
print_* mark_lock* __mark_lock* check_prev* check_noncircular* check_deadlock* check_usage* check_irq_usage* check_lock* check_wait_context* check_flags* valid_state validate_chain* add_lock_to_list* alloc_list_entry graph_lock lookup_chain_cache* debug_check_no_lock* debug_locks_off* debug_show_* match_held_lock find_held_lock __bfs* reacquire_held_locks
spin_lock* spin_unlock* spin_trylock* __spin_* spin_bug spin_dump rwlock_bug read_lock* read_unlock* write_lock* write_unlock* _raw_spin_* _raw_read_* _raw_write_* __raw_spin_* __raw_read_* __raw_write_* raw_spin_* do_raw_spin_* do_raw_read_* do_raw_write_* _spin_* queued_spin_* queued_read_* queued_write_* native_queued_* pv_queued_* kvm_wait pv_wait pv_kick* __pv_* hybrid_* debug_spin_* __spin_lock_debug ticket_spin_* arch_spin_* virt_spin_lock rt_spin_* rt_write_* rt_read_* rt_mutex_* __rt_mutex* rtlock_*
mutex_* __mutex_* _mutex_* ww_mutex_* __ww_mutex_* osq_lock down_read* down_write* down_interruptible down_killable down_timeout down_trylock down __down __down_* up_read* up_write* up rwsem_* __rwsem_* percpu_down_* percpu_up_* __percpu_down_* percpu_rwsem_* call_rwsem_* bit_spin_* hlist_bl_lock rwbase_*
local_bh_* __local_bh_* _local_bh_* local_lock* local_irq_* lock_sock_nested reiserfs_write_lock* trace_hardirqs* trace_softirqs* lockdep_sys_exit* console_trylock* seqcount_* read_seqbegin write_seqlock*
___might_sleep __might_sleep might_sleep* __might_resched __cant_sleep __cant_migrate might_resched check_preemption_disabled debug_smp_processor_id __this_cpu_preempt_check preempt_count_* preempt_schedule* ___preempt_schedule* preempt_latency_* __preempt_* check_preempt_*
suspicious_* rcu_sleep_check rcu_lockdep_* rcu_check_*`

	waiting = `
schedule schedule_* __schedule* _schedule* io_schedule* cond_resched* __cond_resched* _cond_resched context_switch* __switch_to* switch_to* finish_task_switch* schedule_timeout* wait_for_completion* __wait_for_* do_wait_for_common wait_for_common* wait_on_bit* __wait_on_bit* out_of_line_wait_* bit_wait* bit_wait_io wait_on_page_bit* __lock_page* wait_on_page_* folio_wait_* __folio_lock* folio_lock* folio_put_wait* wait_woken wait_event* wait_rcu_gp __wait_rcu_gp usleep_range* msleep* ssleep schedule_hrtimeout* freezable_* do_nanosleep hrtimer_nanosleep flush_work __flush_work* start_flush_work flush_workqueue __flush_workqueue drain_workqueue cancel_work_sync __cancel_work* cancel_delayed_work_sync sync_inode* wait_transaction* congestion_wait swait_* prepare_to_* do_wait_intr* percpu_ref_* kthread_park rcu_barrier* _rcu_barrier* do_read_cache_folio do_read_cache_page* lock_page lock_buffer __lock_buffer wait_on_buffer __wait_on_buffer`

	interrupts = `
apic_timer_interrupt smp_apic_timer_interrupt asm_sysvec_* sysvec_* __sysvec_* asm_common_interrupt common_interrupt ret_from_intr do_IRQ retint_* restore_regs_and_iret idtentry_* irqentry_* irq_exit* __irq_exit* irq_enter* __do_softirq do_softirq* invoke_softirq handle_softirqs asm_call_on_stack asm_call_irq_on_stack run_sysvec_on_irqstack* interrupt_entry trace_hardirqs_o* call_on_irq_stack gic_handle_irq do_interrupt_handler handle_percpu_* generic_handle_* handle_domain_irq entry_SYSCALL* do_syscall_64 x64_sys_call do_fast_syscall_32 instr_sysvec_* run_on_irqstack*`
)

var (
	skipCommon  = newNames(reporting, helpers, locking)
	skipLocks   = newNames(reporting, helpers, locking, waiting, interrupts)
	skipWaiting = newNames(reporting, helpers, locking, waiting, interrupts, "synchronize_rcu_expedited_wait*")
	skipReport  = newNames(reporting)
)
