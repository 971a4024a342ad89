// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"os"
	"strings"
	"sync"
	"time"
)

// rdtsc reads the CPU's time stamp counter.
func rdtsc() uint64

// hostTSC is the frequency of this host's time stamp counter in kHz, or 0
// where it does not tick evenly. Measured once; the error is some 10 ppm.
//
// A TCG guest sees the host's counter as it is, but has no dependable way to
// find its frequency: without ACPI there is nothing but the PIT to compare it
// with, which fails on a busy host. The guest's clock then falls back to
// counting ticks, 4 ms each, and loses some.
var hostTSC = sync.OnceValue(func() int {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || !strings.Contains(string(b), "constant_tsc") || !strings.Contains(string(b), "nonstop_tsc") {
		return 0
	}
	// The reading between the two closest clock readings out of a few: a
	// process that is scheduled away in between would spoil it.
	sample := func() (at time.Time, ticks uint64) {
		best := time.Hour
		for range 5 {
			a := time.Now()
			t := rdtsc()
			if d := time.Since(a); d < best {
				best, at, ticks = d, a.Add(d/2), t
			}
		}
		return at, ticks
	}
	t0, c0 := sample()
	time.Sleep(10 * time.Millisecond)
	t1, c1 := sample()
	khz := float64(c1-c0) / t1.Sub(t0).Seconds() / 1000
	if khz < 100e3 || khz > 20e6 {
		return 0
	}
	return int(khz + 0.5)
})
