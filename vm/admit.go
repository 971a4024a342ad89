// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A guest is admitted before it starts: its memory must be there without
// swapping, also after the guests of other patchchecks have touched all of
// theirs, and the host's CPUs must not be promised too often. Else it waits,
// and is refused when waiting does not help.

const (
	// qemuMiB is what QEMU itself takes beside the guest's memory; under TCG it
	// keeps translated code. Measured: 60 to 330 MiB.
	qemuMiB    = 128
	qemuTCGMiB = 384
	// cpuShare is how many guest CPUs one CPU of the host carries.
	cpuShare = 2
)

// admitDir holds a file for each guest that is up, locked by its patchcheck.
// Not in TMPDIR, which differs between those that share the host.
var admitDir = fmt.Sprintf("/tmp/patchcheck-guests-%d", os.Getuid())

// admitRoot is where /proc and /sys are; tests have hosts of their own.
var admitRoot = "/"

// How long a guest waits for memory before it is refused, and for CPUs before
// it is started all the same, as a slow guest is better than none.
var (
	waitMemory = 10 * time.Minute
	waitCPUs   = time.Minute
)

// claim is what one guest takes, in MiB and CPUs.
type claim struct {
	mib  int64
	cpus int
	pid  int // QEMU's, 0 before its start
}

// capacity is what this process may use.
type capacity struct {
	total, free int64  // MiB; 0: not known
	of          string // what the numbers are of: "the host", "the control group /x"
	cpus        int
}

// admission is a guest's place among the guests of the host.
type admission struct{ f *os.File }

// started tells the others which process uses the memory that was promised.
func (a *admission) started(c Config, pid int) {
	if a != nil && a.f != nil {
		a.write(claim{needMiB(c), c.CPUs, pid})
	}
}

func (a *admission) write(c claim) {
	a.f.Truncate(0)
	a.f.WriteAt(fmt.Appendf(nil, "%d %d %d\n", c.mib, c.cpus, c.pid), 0)
}

// release gives the place up.
func (a *admission) release() {
	if a != nil && a.f != nil {
		os.Remove(a.f.Name())
		a.f.Close()
		a.f = nil
	}
}

func needMiB(c Config) int64 {
	if c.Accel == KVM {
		return int64(c.MemMiB) + qemuMiB
	}
	return int64(c.MemMiB) + qemuTCGMiB
}

// admit waits until there is room for the guest. The error is an *InfraError
// with the numbers, or ctx's.
func admit(ctx context.Context, c Config, say func(string)) (*admission, error) {
	want := claim{mib: needMiB(c), cpus: c.CPUs}
	start := time.Now()
	said := false
	// Nothing tells of memory that becomes free; a look each second costs a few
	// file reads.
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		a, shortage, err := tryAdmit(admitRoot, want, time.Since(start) >= waitCPUs)
		if err != nil || a != nil {
			return a, err
		}
		if waited := time.Since(start); waited >= waitMemory {
			return nil, &InfraError{What: fmt.Sprintf("%s; waited %.0f s for it", shortage, waited.Seconds())}
		}
		if !said {
			said = true
			say("waiting: " + shortage)
		}
		select {
		case <-ctx.Done():
			return nil, &InfraError{What: "waiting to start the guest was cancelled (" + shortage + ")", Err: context.Cause(ctx)}
		case <-tick.C:
		}
	}
}

// tryAdmit gives a place, or says what is short. The error is for a guest that
// no waiting can help.
func tryAdmit(root string, want claim, anyCPUs bool) (*admission, string, error) {
	have := readCapacity(root)
	if err := have.ever(want); err != nil {
		return nil, "", err
	}
	gate, err := openGate(admitDir)
	if err != nil {
		// Without the others' word there is still what the host says.
		return &admission{}, "", nil
	}
	defer gate.Close()
	others := claims(admitDir)
	if shortage := have.shortage(want, others, anyCPUs); shortage != "" {
		return nil, shortage, nil
	}
	f, err := os.CreateTemp(admitDir, "guest-")
	if err != nil {
		return &admission{}, "", nil
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		os.Remove(f.Name())
		f.Close()
		return &admission{}, "", nil
	}
	a := &admission{f}
	a.write(want)
	return a, "", nil
}

// openGate locks the folder for the time of one decision. It must be ours: in
// /tmp anybody may have made it.
func openGate(dir string) (*os.File, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil {
		if sys, ok := st.Sys().(*syscall.Stat_t); !ok || int(sys.Uid) != os.Getuid() {
			err = fmt.Errorf("%s belongs to somebody else", dir)
		}
	}
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX) // decisions take milliseconds
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// claims reads what the guests that are up take, and removes the files of dead
// patchchecks.
func claims(dir string) []claim {
	names, _ := filepath.Glob(filepath.Join(dir, "guest-*"))
	var out []claim
	for _, n := range names {
		f, err := os.OpenFile(n, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
			os.Remove(n)
			f.Close()
			continue
		}
		b := make([]byte, 64)
		k, _ := f.ReadAt(b, 0)
		f.Close()
		var c claim
		if _, err := fmt.Sscan(string(b[:k]), &c.mib, &c.cpus, &c.pid); err == nil {
			out = append(out, c)
		}
	}
	return out
}

// ever refuses a guest that this host can never carry.
func (h capacity) ever(want claim) error {
	if h.total > 0 && want.mib > h.total {
		return &InfraError{What: fmt.Sprintf("the guest needs %d MiB of memory with what QEMU takes for itself, and %s has %d in all; give it less (guest.memory in the plan) or use a larger host", want.mib, h.of, h.total)}
	}
	return nil
}

// shortage words what is missing for the guest now, or "".
func (h capacity) shortage(want claim, others []claim, anyCPUs bool) string {
	var promised int64
	cpus := 0
	for _, o := range others {
		promised += max(0, o.mib-resident("/proc", o.pid))
		cpus += o.cpus
	}
	guests := "other guests"
	if len(others) == 1 {
		guests = "another guest"
	}
	switch {
	case h.free > 0 && want.mib > h.free-promised:
		s := fmt.Sprintf("the guest needs %d MiB of memory, %s has %d of %d MiB available", want.mib, h.of, h.free, h.total)
		if promised > 0 {
			s += fmt.Sprintf(", and %d of them are promised to %s", promised, guests)
		}
		return s
	case !anyCPUs && len(others) > 0 && cpus+want.cpus > cpuShare*h.cpus:
		return fmt.Sprintf("the guest needs %d CPUs, the host has %d and %s have %d", want.cpus, h.cpus, guests, cpus)
	}
	return ""
}

// resident is how much memory of its own a QEMU has touched, in MiB; 0 when
// the process is gone or no QEMU.
func resident(proc string, pid int) int64 {
	dir := filepath.Join(proc, strconv.Itoa(pid))
	comm, err := os.ReadFile(filepath.Join(dir, "comm"))
	if pid == 0 || err != nil || !strings.HasPrefix(string(comm), "qemu") {
		return 0
	}
	b, err := os.ReadFile(filepath.Join(dir, "statm"))
	if err != nil {
		return 0
	}
	var size, rss int64
	fmt.Sscan(string(b), &size, &rss)
	return rss * int64(os.Getpagesize()) >> 20
}

// readCapacity asks the host and each control group that this process is in;
// the tightest counts.
func readCapacity(root string) capacity {
	c := capacity{of: "the host", cpus: runtime.NumCPU()}
	mem := keyed(filepath.Join(root, "proc/meminfo"))
	c.total, c.free = mem["MemTotal:"]>>10, mem["MemAvailable:"]>>10
	b, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return c
	}
	tighten := func(name string, limit, used, cache int64) {
		total, free := limit>>20, max(0, limit-used+cache)>>20
		if total < c.total || free < c.free {
			c.of = "the control group " + name
			c.total, c.free = min(total, c.total), min(free, c.free)
		}
	}
	for _, l := range strings.Split(string(b), "\n") {
		f := strings.SplitN(l, ":", 3)
		if len(f) != 3 {
			continue
		}
		v2 := f[1] == ""
		if !v2 && f[1] != "memory" {
			continue
		}
		top := filepath.Join(root, "sys/fs/cgroup")
		if !v2 {
			top = filepath.Join(top, "memory")
		}
		// In a container the path is of the host, and its top is our mount.
		for dir := filepath.Clean("/" + f[2]); ; dir = filepath.Dir(dir) {
			at := filepath.Join(top, dir)
			if v2 {
				if limit, ok := number(filepath.Join(at, "memory.max")); ok {
					used, _ := number(filepath.Join(at, "memory.current"))
					tighten(dir, limit, used, keyed(filepath.Join(at, "memory.stat"))["inactive_file"])
				}
				if q, p, ok := quota(filepath.Join(at, "cpu.max")); ok {
					c.cpus = min(c.cpus, max(1, int((q+p-1)/p)))
				}
			} else if limit, ok := number(filepath.Join(at, "memory.limit_in_bytes")); ok {
				used, _ := number(filepath.Join(at, "memory.usage_in_bytes"))
				tighten(dir, limit, used, keyed(filepath.Join(at, "memory.stat"))["total_inactive_file"])
			}
			if dir == "/" {
				break
			}
		}
	}
	return c
}

// keyed reads lines of "name number".
func keyed(path string) map[string]int64 {
	out := map[string]int64{}
	b, _ := os.ReadFile(path)
	for _, l := range strings.Split(string(b), "\n") {
		if f := strings.Fields(l); len(f) >= 2 {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				out[f[0]] = n
			}
		}
	}
	return out
}

// number reads a file of one number; "max" and absurd ones are no limit.
func number(path string) (int64, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil && n < 1<<60
}

// quota reads cpu.max: "QUOTA PERIOD" in microseconds.
func quota(path string) (q, period int64, ok bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, false
	}
	if _, err := fmt.Sscan(string(b), &q, &period); err != nil || period <= 0 {
		return 0, 0, false
	}
	return q, period, true
}

// oomKills counts the processes that the kernel's OOM killer ended in the
// control groups of this process.
func oomKills(root string) int64 {
	b, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0
	}
	var n int64
	for _, l := range strings.Split(string(b), "\n") {
		if p, ok := strings.CutPrefix(l, "0::"); ok {
			n += keyed(filepath.Join(root, "sys/fs/cgroup", p, "memory.events"))["oom_kill"]
		}
	}
	return n
}

// oomRecord looks in the host's kernel log for the OOM killer's word on a
// process; "" when there is none or the log may not be read.
func oomRecord(path string, pid int) string {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	want := fmt.Sprintf("Killed process %d ", pid)
	last := ""
	buf := make([]byte, 16<<10)
	for range 1 << 20 {
		// One record for each read of /dev/kmsg; EPIPE tells of records that were
		// overwritten meanwhile.
		n, err := unix.Read(int(f.Fd()), buf)
		if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			break
		}
		for _, l := range strings.Split(string(buf[:n]), "\n") {
			if strings.Contains(l, want) {
				_, msg, ok := strings.Cut(l, ";")
				if !ok {
					msg = l
				}
				last = printable(strings.TrimSpace(msg))
			}
		}
	}
	return last
}

// whoKilled says what is known of a SIGKILL that was not ours.
func (g *Guest) whoKilled() string {
	tail := fmt.Sprintf("guest memory %d MiB", g.cfg.MemMiB)
	if rec := oomRecord("/dev/kmsg", g.qemu.pid); rec != "" {
		return fmt.Sprintf("the host ran out of memory and its kernel killed QEMU (%s; %s)", rec, tail)
	}
	if n := oomKills("/"); n > g.oomAtStart {
		return fmt.Sprintf("the control group ran out of memory and the kernel killed QEMU (its oom_kill count went from %d to %d; %s)", g.oomAtStart, n, tail)
	}
	return fmt.Sprintf("QEMU was killed from outside, perhaps by the host's out-of-memory killer (%s; see dmesg)", tail)
}
