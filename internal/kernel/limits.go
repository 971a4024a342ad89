// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// LimitError is a confined program that was ended because it used more than a
// build may.
type LimitError struct {
	What string // "wrote more than 64 GiB"
	// Host tells that the host may be too small, so that the program need not be
	// at fault.
	Host bool
}

func (e *LimitError) Error() string { return "it was ended because it " + e.What }

// Limits on what all processes of one confined program use together. They are
// far above what the largest configuration takes.
var limits = struct {
	procs  int   // processes at once
	output int64 // bytes printed
	disk   int64 // bytes that the folder grows by
	inodes int64 // files that the folder grows by
	spare  int64 // bytes that have to stay free on the file system
	memory int64 // bytes of resident memory; 0 means nine tenths of the host's
	every  time.Duration
}{procs: 4096, output: 128 << 20, disk: 64 << 30, inodes: 4 << 20, spare: 512 << 20, every: 250 * time.Millisecond}

// outputLimit ends a program that prints without end.
type outputLimit struct {
	mu   sync.Mutex
	left int64
	over context.CancelCauseFunc
}

func (l *outputLimit) tee(to io.Writer) io.Writer { return limitedTee{l, to} }

type limitedTee struct {
	*outputLimit
	to io.Writer
}

func (t limitedTee) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.left -= int64(len(p))
	over := t.left < 0
	t.mu.Unlock()
	if over {
		err := &LimitError{What: fmt.Sprintf("printed more than %d MiB", limits.output>>20)}
		t.over(err)
		return 0, err
	}
	if t.to == nil {
		return len(p), nil
	}
	return t.to.Write(p)
}

// watch bounds what no limit of the kernel bounds without privilege: the
// processes, memory and disk space of all of a program together. It samples
// until done is closed, and calls over with a *LimitError.
//
// info gives bubblewrap's --info-fd; it is nil without a sandbox, and then only
// the disk is watched. refused tells of processes that the kernel did not
// allow.
func watch(info io.Reader, rw []string, refused func() bool, over context.CancelCauseFunc, done <-chan struct{}) {
	start := make([]unix.Statfs_t, len(rw))
	ok := make([]bool, len(rw))
	for i, d := range rw {
		ok[i] = unix.Statfs(d, &start[i]) == nil
	}
	memory := limits.memory
	if memory == 0 {
		var si unix.Sysinfo_t
		if unix.Sysinfo(&si) == nil {
			memory = int64(si.Totalram) * int64(si.Unit) / 10 * 9
		}
	}
	var inside namespace
	tick := time.NewTicker(limits.every)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		if refused() {
			over(tooManyProcesses())
			return
		}
		for i, d := range rw {
			if !ok[i] {
				continue
			}
			if e := diskOver(d, &start[i]); e != nil {
				over(e)
				return
			}
		}
		if inside.pid == "" && info != nil {
			inside = readNamespace(info)
		}
		if inside.pid == "" {
			continue
		}
		n, rss := inside.usage()
		var e *LimitError
		switch {
		case n > limits.procs:
			e = &LimitError{What: fmt.Sprintf("ran more than %d processes at once", limits.procs)}
		case memory > 0 && rss > memory:
			e = &LimitError{What: fmt.Sprintf("used more than %d MiB of memory", memory>>20), Host: true}
		default:
			continue
		}
		// With the first process of a namespace the kernel ends all others: no
		// time is lost to a machine that is short of it.
		if inside.isIn(inside.first) {
			syscall.Kill(inside.first, syscall.SIGKILL)
		}
		over(e)
		return
	}
}

func tooManyProcesses() *LimitError {
	return &LimitError{What: fmt.Sprintf("ran more than %d processes at once", limits.procs)}
}

// diskOver judges one folder. Only when its file system lost as much as the
// limit is the folder measured, since others write there too.
func diskOver(dir string, start *unix.Statfs_t) *LimitError {
	var now unix.Statfs_t
	if unix.Statfs(dir, &now) != nil {
		return nil
	}
	size := int64(now.Bsize)
	lost := (int64(start.Bavail) - int64(now.Bavail)) * size
	files := int64(start.Ffree) - int64(now.Ffree)
	full := int64(now.Bavail)*size < limits.spare && lost > 0
	if lost <= limits.disk && files <= limits.inodes && !full {
		return nil
	}
	bytes, count := usage(dir)
	switch {
	case bytes > limits.disk || full && bytes > lost/2 && lost > limits.disk/4:
		return &LimitError{What: fmt.Sprintf("wrote %.1f GiB", float64(bytes)/(1<<30))}
	case count > limits.inodes:
		return &LimitError{What: fmt.Sprintf("made %d files", count)}
	case full:
		return &LimitError{What: fmt.Sprintf("left less than %d MiB on the file system of %s", limits.spare>>20, dir), Host: true}
	}
	return nil
}

// usage is what a folder takes on disk, in bytes and files.
func usage(dir string) (bytes, files int64) {
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone meanwhile
		}
		fi, err := d.Info()
		if err != nil {
			return nil
		}
		files++
		if st, ok := fi.Sys().(*syscall.Stat_t); ok {
			bytes += st.Blocks * 512
		}
		return nil
	})
	return bytes, files
}

// namespace is a PID namespace that bubblewrap made.
type namespace struct {
	pid   string // "pid:[4026532567]", as in /proc/PID/ns
	first int    // its first process, by our number
}

// readNamespace reads what --info-fd says; it is empty when nothing was said
// yet.
func readNamespace(info io.Reader) namespace {
	if s, ok := info.(io.Seeker); ok {
		s.Seek(0, io.SeekStart)
	}
	var v struct {
		Child int    `json:"child-pid"`
		NS    uint64 `json:"pid-namespace"`
	}
	if json.NewDecoder(info).Decode(&v) != nil || v.Child <= 0 {
		return namespace{}
	}
	n := namespace{first: v.Child}
	if v.NS != 0 {
		n.pid = fmt.Sprintf("pid:[%d]", v.NS)
	} else {
		n.pid, _ = os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", v.Child)) // bubblewrap before 0.5
	}
	return n
}

func (n namespace) isIn(pid int) bool {
	l, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	return err == nil && l == n.pid
}

// usage counts the namespace's processes and their resident memory, without
// the pages of files, which they share. It stops counting beyond the limit.
func (n namespace) usage() (procs int, rss int64) {
	d, err := os.Open("/proc")
	if err != nil {
		return 0, 0
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	page := int64(os.Getpagesize())
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || !n.isIn(pid) {
			continue
		}
		if procs++; procs > limits.procs {
			return procs, rss
		}
		b, err := os.ReadFile("/proc/" + name + "/statm")
		if f := strings.Fields(string(b)); err == nil && len(f) > 2 {
			all, _ := strconv.ParseInt(f[1], 10, 64)
			shared, _ := strconv.ParseInt(f[2], 10, 64)
			rss += (all - shared) * page
		}
	}
	return procs, rss
}
