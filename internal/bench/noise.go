// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sample is what /proc and /sys say at one moment.
type sample struct {
	at          time.Time
	busy, total float64 // CPU seconds of the whole host since its boot
	steal       float64
	ours        float64 // CPU seconds of this process and its children that ended
	psi, psiIO  float64 // seconds in which some task waited; -1 unknown
	load, mhz   float64
	throttled   int64
	qemus       int
	err         error
}

// watch begins to observe the host; the function that it gives ends it. It
// reads /proc twice and does nothing in between, so it disturbs nothing. Our
// own guest has ended by then and its CPU time is known.
func watch() func() Noise {
	a := look("/proc", "/sys")
	return func() Noise { return between(a, look("/proc", "/sys")) }
}

func between(a, b sample) Noise {
	n := Noise{Load: b.load, MHz: b.mhz, Throttled: max(0, b.throttled-a.throttled), QEMUs: max(a.qemus, b.qemus), PSI: -1, PSIIO: -1}
	if a.err != nil || b.err != nil {
		n.Unknown = fmt.Sprint(firstErr(a.err, b.err))
		return n
	}
	if t := b.total - a.total; t > 0 {
		n.Others = min(1, max(0, (b.busy-a.busy-(b.ours-a.ours))/t))
		n.Steal = min(1, max(0, (b.steal-a.steal)/t))
	}
	if t := b.at.Sub(a.at).Seconds(); t > 0 {
		if a.psi >= 0 && b.psi >= 0 {
			n.PSI = min(1, (b.psi-a.psi)/t)
		}
		if a.psiIO >= 0 && b.psiIO >= 0 {
			n.PSIIO = min(1, (b.psiIO-a.psiIO)/t)
		}
	}
	return n
}

func firstErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// look reads one sample; proc and sys are /proc and /sys but for tests.
func look(proc, sys string) sample {
	s := sample{at: time.Now(), psi: -1, psiIO: -1}
	b, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		s.err = err
		return s
	}
	// "cpu  user nice system idle iowait irq softirq steal guest guest_nice" in
	// hundredths of a second; guest is part of user: proc(5).
	line, _, _ := strings.Cut(string(b), "\n")
	f := strings.Fields(line)
	if len(f) < 8 || f[0] != "cpu" {
		s.err = fmt.Errorf("%s/stat does not begin with the CPU's times", proc)
		return s
	}
	for i, x := range f[1:min(9, len(f))] {
		v, _ := strconv.ParseFloat(x, 64)
		v /= 100
		s.total += v
		switch i {
		case 3, 4: // idle, waiting for I/O
		case 7:
			s.steal = v
		default:
			s.busy += v
		}
	}
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if unix.Getrusage(who, &u) == nil {
			s.ours += time.Duration(unix.TimevalToNsec(u.Utime) + unix.TimevalToNsec(u.Stime)).Seconds()
		}
	}
	s.psi, s.psiIO = pressure(filepath.Join(proc, "pressure/cpu")), pressure(filepath.Join(proc, "pressure/io"))
	if b, err := os.ReadFile(filepath.Join(proc, "loadavg")); err == nil {
		first, _, _ := strings.Cut(string(b), " ")
		s.load, _ = strconv.ParseFloat(first, 64)
	}
	s.mhz = clock(filepath.Join(proc, "cpuinfo"))
	counts, _ := filepath.Glob(filepath.Join(sys, "devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count"))
	for _, c := range counts {
		if b, err := os.ReadFile(c); err == nil {
			n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
			s.throttled += n
		}
	}
	comms, _ := filepath.Glob(filepath.Join(proc, "[0-9]*/comm"))
	for _, c := range comms {
		if b, err := os.ReadFile(c); err == nil && strings.HasPrefix(string(b), "qemu-system") {
			s.qemus++
		}
	}
	return s
}

// pressure is the time in seconds that some task has waited, -1 where the
// kernel does not tell.
func pressure(file string) float64 {
	b, err := os.ReadFile(file)
	if err != nil {
		return -1
	}
	for _, l := range strings.Split(string(b), "\n") {
		if _, v, ok := strings.Cut(l, "total="); ok && strings.HasPrefix(l, "some ") {
			if us, err := strconv.ParseFloat(v, 64); err == nil {
				return us / 1e6
			}
		}
	}
	return -1
}

// clock is the mean of the cores' clocks in MHz.
func clock(file string) float64 {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	var s float64
	n := 0
	for _, l := range strings.Split(string(b), "\n") {
		if k, v, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(k) == "cpu MHz" {
			if x, err := strconv.ParseFloat(strings.TrimSpace(v), 64); err == nil {
				s += x
				n++
			}
		}
	}
	if n == 0 {
		return 0
	}
	return s / float64(n)
}

// broken names the limits that n is beyond.
func (l NoiseLimits) broken(n Noise) (why []string) {
	if n.Others > l.Others {
		why = append(why, fmt.Sprintf("%.0f %% of the CPUs used by others", n.Others*100))
	}
	if n.Steal > l.Steal {
		why = append(why, fmt.Sprintf("%.0f %% of CPU time stolen", n.Steal*100))
	}
	if n.QEMUs > l.QEMUs {
		why = append(why, fmt.Sprintf("%d other QEMU", n.QEMUs))
	}
	if n.Throttled > 0 {
		why = append(why, fmt.Sprintf("the CPU was throttled %d times", n.Throttled))
	}
	return why
}

// ThisHost describes the machine that we run on.
func ThisHost() Host { return hostAt("/proc", "/sys", "/etc/os-release") }

func hostAt(proc, sys, osRelease string) Host {
	h := Host{CPUs: runtime.NumCPU(), Arch: machine()}
	if b, err := os.ReadFile(filepath.Join(proc, "cpuinfo")); err == nil {
		for _, l := range strings.Split(string(b), "\n") {
			k, v, _ := strings.Cut(l, ":")
			switch strings.TrimSpace(k) {
			case "model name":
				h.CPU = strings.Join(strings.Fields(v), " ")
			case "flags":
				if strings.Contains(" "+v+" ", " hypervisor ") {
					h.Virtual = "hypervisor"
				}
			}
		}
	}
	if b, err := os.ReadFile(filepath.Join(proc, "meminfo")); err == nil {
		if f := strings.Fields(string(b)); len(f) > 1 && f[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			h.MemMiB = kib >> 10
		}
	}
	h.Kernel = word(filepath.Join(proc, "sys/kernel/osrelease"))
	h.Governor = word(filepath.Join(sys, "devices/system/cpu/cpu0/cpufreq/scaling_governor"))
	if v := word(filepath.Join(sys, "class/dmi/id/sys_vendor")); h.Virtual != "" && v != "" {
		h.Virtual = v
	}
	if b, err := os.ReadFile(osRelease); err == nil {
		for _, l := range strings.Split(string(b), "\n") {
			if v, ok := strings.CutPrefix(l, "PRETTY_NAME="); ok {
				h.OS = strings.Trim(v, `"'`)
			}
		}
	}
	return h
}

func word(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// machine is the architecture as the kernel names it.
func machine() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return runtime.GOARCH
	}
	return unix.ByteSliceToString(u.Machine[:])
}
