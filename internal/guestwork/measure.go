// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"patchcheck/internal/guestproto"
)

// userTick is one unit of the times in /proc/stat and /proc/PID/stat: USER_HZ
// is 100 on every architecture that guests run on.
const userTick = 10_000_000 // ns

// sample serves VerbSample.
func (w *work) sample(ctx context.Context, r *guestproto.SampleRequest, log func(string)) (*guestproto.Sample, error) {
	s := &guestproto.Sample{}
	if r.Mount != "" {
		b, err := os.ReadFile(w.path("/proc/self/mountstats"))
		if err != nil {
			return nil, withErrno(setupf("", "cannot read /proc/self/mountstats"), err)
		}
		found := false
		for _, m := range parseMountstats(string(b)) {
			if m.at != r.Mount {
				continue
			}
			found = true
			s.Ops = map[string]guestproto.OpSample{}
			for name, op := range m.ops {
				t := m.times[name]
				s.Ops[name] = guestproto.OpSample{Op: op, QueueMS: t[0], RTTMS: t[1], ExecuteMS: t[2]}
			}
			_, s.Xprt = xprtCounters(m.xprts)
		}
		if !found {
			return nil, usagef("no NFS is mounted at %s", r.Mount)
		}
	}
	if b, err := os.ReadFile(w.path("/proc/net/rpc/nfsd")); err == nil {
		s.Nfsd = parseRPCStats(string(b))
	}
	stats, _ := filepath.Glob(w.path("/proc/[0-9]*/stat"))
	s.Tasks = map[string]int64{}
	for _, p := range stats {
		b, err := os.ReadFile(p)
		if err != nil {
			continue // it has ended
		}
		if kind, ns, ok := parseTaskStat(string(b)); ok && ns > 0 {
			s.Tasks[kind] += ns
		}
	}
	b, err := os.ReadFile(w.path("/proc/stat"))
	if err != nil {
		return nil, withErrno(setupf("", "cannot read /proc/stat"), err)
	}
	s.CPU = parseCPUStat(string(b))
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err == nil {
		s.MonotonicNS = ts.Nano()
	}
	return s, nil
}

// parseCPUStat reads the first line of /proc/stat.
func parseCPUStat(s string) map[string]int64 {
	m := map[string]int64{}
	line, _, _ := strings.Cut(s, "\n")
	f := strings.Fields(line)
	if len(f) == 0 || f[0] != "cpu" {
		return m
	}
	n := ints(f[1:])
	for i, name := range []string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"} {
		if i < len(n) {
			m[name] = n[i] * userTick
		}
	}
	return m
}

// parseTaskStat gives a task's kind and its CPU time from /proc/PID/stat. The
// name stands in parentheses and may hold any character.
func parseTaskStat(s string) (kind string, ns int64, ok bool) {
	i, j := strings.IndexByte(s, '('), strings.LastIndexByte(s, ')')
	if i < 0 || j < i {
		return "", 0, false
	}
	// After the name: state is field 3, utime 14, stime 15 (proc_pid_stat(5)).
	f := strings.Fields(s[j+1:])
	if len(f) < 13 {
		return "", 0, false
	}
	u, err1 := strconv.ParseInt(f[11], 10, 64)
	k, err2 := strconv.ParseInt(f[12], 10, 64)
	if err1 != nil || err2 != nil {
		return "", 0, false
	}
	return taskKind(s[i+1 : j]), (u + k) * userTick, true
}

// taskKind groups tasks: "kworker/u10:0-rxe_wq" is a worker that serves the
// workqueue rxe_wq now, "ksoftirqd/1" one of several.
func taskKind(comm string) string {
	if rest, ok := strings.CutPrefix(comm, "kworker/"); ok {
		if _, queue, ok := strings.Cut(rest, "-"); ok {
			return "kworker " + queue
		}
		if _, queue, ok := strings.Cut(rest, "+"); ok {
			return "kworker " + queue
		}
		return "kworker"
	}
	name, _, _ := strings.Cut(comm, "/")
	return name
}
