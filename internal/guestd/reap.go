// SPDX-License-Identifier: Apache-2.0

package guestd

import (
	"bytes"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// orphanAge is how long a process stays a zombie before it is taken for an
// orphan. Children of our own are waited for by whoever started them, within
// moments; taking their status away would break that.
const orphanAge = 10 * time.Second

// reapOrphans buries what processes of the guest left behind for PID 1. It
// wakes up by SIGCHLD only.
func reapOrphans() {
	child := make(chan os.Signal, 1)
	signal.Notify(child, syscall.SIGCHLD)
	seen := map[int]time.Time{}
	for range child {
		for {
			seen = reapOnce("/proc", seen, time.Now())
			if len(seen) == 0 {
				break
			}
			time.Sleep(orphanAge)
		}
	}
}

// reapOnce reaps zombie children that were there at least orphanAge ago and
// returns the others with the time when they were first seen.
func reapOnce(proc string, seen map[int]time.Time, now time.Time) map[int]time.Time {
	next := map[int]time.Time{}
	for _, pid := range zombies(proc, os.Getpid()) {
		first, ok := seen[pid]
		if !ok {
			first = now
		}
		if now.Sub(first) >= orphanAge {
			var ws syscall.WaitStatus
			if _, err := syscall.Wait4(pid, &ws, syscall.WNOHANG, nil); err == nil {
				continue
			}
		}
		next[pid] = first
	}
	return next
}

// zombies lists the dead children of parent (proc_pid_stat(5)).
func zombies(proc string, parent int) []int {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil
	}
	var dead []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(proc + "/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// The name in parentheses may hold anything, also parentheses.
		f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		if len(f) < 2 || string(f[0]) != "Z" {
			continue
		}
		if ppid, _ := strconv.Atoi(string(f[1])); ppid == parent {
			dead = append(dead, pid)
		}
	}
	return dead
}
