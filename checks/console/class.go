// SPDX-License-Identifier: Apache-2.0

package console

// Class is the kind of a crash. The set is closed; tools key on it.
type Class string

const (
	None        Class = "none"
	Oops        Class = "oops"    // a trap in kernel mode: page fault, general protection, ...
	Bug         Class = "bug"     // BUG(), list corruption, bad page state, slab corruption
	Warn        Class = "warning" // WARN()
	KASAN       Class = "kasan"
	KMSAN       Class = "kmsan"
	KCSAN       Class = "kcsan"
	KFENCE      Class = "kfence"
	UBSAN       Class = "ubsan"
	Lockdep     Class = "lockdep"      // lock and preemption rules, RCU usage
	HungTask    Class = "hung_task"    // khungtaskd
	Lockup      Class = "lockup"       // soft and hard lockup watchdogs
	RCUStall    Class = "rcu_stall"    //
	HangOther   Class = "hang_other"   // another watchdog
	Refcount    Class = "refcount"     // refcount_t saturation
	AtomicSleep Class = "atomic_sleep" // sleeping or scheduling in atomic context
	Leak        Class = "leak"         // kmemleak, ref_tracker
	Panic       Class = "panic"        // a panic with no report before it
	Reboot      Class = "reboot"       // the kernel started a second time
	Other       Class = "other"        // a report of the kernel that fits none of the above
	Fuzzer      Class = "syz_internal" // syzkaller says that it failed itself
)

// timing tells whether a class depends on how fast the guest runs: under
// emulation or on an overloaded host it may be false.
func (c Class) timing() bool {
	switch c {
	case HungTask, Lockup, RCUStall, HangOther:
		return true
	}
	return false
}

// fatal tells whether the kernel's state is damaged after a report of this
// class, so that later reports are probably consequences.
func (c Class) fatal() bool {
	switch c {
	case Oops, Bug, KASAN, KFENCE, Panic:
		return true
	}
	return false
}
