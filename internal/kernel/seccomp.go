// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package kernel

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// denied are the system calls that no compiler, linker or script of a kernel
// build makes and that reach what namespaces do not divide (the keys of the
// user's session, the kernel's log, the clock) or that holes in the host's
// kernel were found behind. They answer EPERM.
var denied = append([]uintptr{
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	unix.SYS_SYSLOG, unix.SYS_ACCT, unix.SYS_QUOTACTL,
	unix.SYS_CLOCK_SETTIME, unix.SYS_SETTIMEOFDAY, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_SETNS, unix.SYS_UNSHARE, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD,
	unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
}, deniedHere...)

// seccompFilter is the program of denied calls as bubblewrap's --seccomp reads
// it: struct sock_filter one after the other (kernel
// Documentation/userspace-api/seccomp_filter.rst).
//
// Calls in the way of another architecture, such as 32-bit ones, have other
// numbers; they answer ENOSYS, all of them.
func seccompFilter() []byte {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		set   = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		ge    = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
		// Offsets in struct seccomp_data.
		number, arch, arg0 = 0, 4, 16
		// x86's third set of numbers; no other processor has numbers this high.
		x32 = 0x40000000
	)
	errno := func(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }
	p := []unix.SockFilter{
		{Code: load, K: arch},
		{Code: equal, K: auditArch, Jt: 1},
		{Code: ret, K: errno(unix.ENOSYS)},
		{Code: load, K: number},
		{Code: ge, K: x32, Jf: 1},
		{Code: ret, K: errno(unix.ENOSYS)},
		// glibc goes back to clone, whose flags can be looked at.
		{Code: equal, K: uint32(unix.SYS_CLONE3), Jf: 1},
		{Code: ret, K: errno(unix.ENOSYS)},
	}
	for _, nr := range denied {
		p = append(p, unix.SockFilter{Code: equal, K: uint32(nr), Jf: 1}, unix.SockFilter{Code: ret, K: errno(unix.EPERM)})
	}
	// With a user namespace of its own a process could mount and open much of
	// what is closed to it here.
	p = append(p,
		unix.SockFilter{Code: equal, K: uint32(unix.SYS_CLONE), Jf: 3},
		unix.SockFilter{Code: load, K: arg0},
		unix.SockFilter{Code: set, K: unix.CLONE_NEWUSER, Jf: 1},
		unix.SockFilter{Code: ret, K: errno(unix.EPERM)},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	)
	var b bytes.Buffer
	binary.Write(&b, binary.NativeEndian, p)
	return b.Bytes()
}
