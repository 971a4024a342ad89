// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// maxStretch bounds how much longer a guest may take because the host gives it
// too little CPU; beyond it, no deadline means anything.
const maxStretch = 5.0

// Hold is what kept a guest from running.
type Hold struct {
	Waited time.Duration // its most delayed thread was ready and had no CPU, or the host itself had none
	Frozen bool          // QEMU is stopped by a signal
}

// Hold reads how long the host has kept the guest waiting since QEMU started:
// the run queue delay of its threads (kernel Documentation/scheduler/
// sched-stats.rst, schedstat of a task) and the time stolen from the host
// itself (proc(5), /proc/stat). Zero where the host does not tell.
func (g *Guest) Hold() Hold {
	h := readHold("/proc", g.qemu.pid)
	h.Waited -= g.stolenAtStart
	return h
}

func readHold(proc string, pid int) Hold {
	var h Hold
	dir := filepath.Join(proc, strconv.Itoa(pid))
	tasks, _ := os.ReadDir(filepath.Join(dir, "task"))
	for _, t := range tasks {
		b, err := os.ReadFile(filepath.Join(dir, "task", t.Name(), "schedstat"))
		if err != nil {
			continue
		}
		if f := strings.Fields(string(b)); len(f) >= 2 {
			if ns, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				h.Waited = max(h.Waited, time.Duration(ns))
			}
		}
	}
	h.Waited += stolen(proc)
	if b, err := os.ReadFile(filepath.Join(dir, "stat")); err == nil {
		// The name is in parentheses and may hold anything.
		if i := strings.LastIndexByte(string(b), ')'); i >= 0 && i+2 < len(b) {
			h.Frozen = b[i+2] == 'T' || b[i+2] == 't'
		}
	}
	return h
}

// stolen is the time that a hypervisor below has taken from each of the host's
// CPUs on average.
func stolen(proc string) time.Duration {
	b, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(b), "\n")
	f := strings.Fields(line)
	if len(f) < 9 {
		return 0
	}
	const userHZ = 100 // of every Linux architecture that Go runs on but alpha
	ticks, _ := strconv.ParseInt(f[8], 10, 64)
	return time.Duration(ticks) * time.Second / userHZ / time.Duration(runtime.NumCPU())
}

// Stretch is the factor by which a deadline of something that took wall so far
// is to be lengthened when the guest waited for the host meanwhile: 1 for an
// idle host, 2 when it ran half of the time, at most maxStretch.
func Stretch(wall, waited time.Duration) float64 {
	if wall <= 0 || waited <= 0 {
		return 1
	}
	if waited >= wall {
		return maxStretch
	}
	return min(maxStretch, float64(wall)/float64(wall-waited))
}

// Starved reports whether the stretched deadline is not to be relied on.
func Starved(stretch float64) bool { return stretch >= maxStretch }
