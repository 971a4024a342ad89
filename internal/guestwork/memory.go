// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"patchcheck/internal/guestproto"
)

// memory serves VerbMemory.
func (w *work) memory(ctx context.Context, r *guestproto.MemoryRequest, log func(string)) (*guestproto.Memory, error) {
	if r.Settle {
		if err := w.settle(ctx); err != nil {
			return nil, err
		}
	}
	b, err := os.ReadFile(w.path("/proc/meminfo"))
	if err != nil {
		return nil, withErrno(setupf("", "cannot read /proc/meminfo"), err)
	}
	kib := parseMeminfo(string(b))
	m := &guestproto.Memory{FreeKiB: kib["MemFree"], AvailableKiB: kib["MemAvailable"], SUnreclaim: kib["SUnreclaim"]}
	// A CPU keeps freed pages on a list of its own, by the tens of MiB, and gives
	// them back over seconds. MemFree leaves them out.
	if b, err := os.ReadFile(w.path("/proc/zoneinfo")); err == nil {
		m.FreeKiB += parsePagesets(string(b)) * int64(os.Getpagesize()) >> 10
	}
	if b, err := os.ReadFile(w.path(nfsdDir + "/reply_cache_stats")); err == nil {
		m.ReplyCacheKiB = parseReplyCache(string(b)) >> 10
	}
	// Without CONFIG_SLUB_DEBUG there is no slabinfo; the totals still count.
	if b, err := os.ReadFile(w.path("/proc/slabinfo")); err == nil {
		m.Slabs = parseSlabinfo(string(b))
	}
	return m, nil
}

// settle frees what is only cached: page cache, dentries and inodes, then,
// after an RCU grace period for those that are freed by RCU, empty slabs.
func (w *work) settle(ctx context.Context) error {
	if _, err := w.drop(ctx, nil, nil); err != nil {
		return err
	}
	rcuGracePeriod()
	const dir = "/sys/kernel/slab"
	caches, _ := os.ReadDir(w.path(dir))
	for _, c := range caches {
		// Caches that were merged into another are links to it.
		if c.IsDir() {
			writeOnce(w.path(filepath.Join(dir, c.Name(), "shrink")), "1\n")
		}
	}
	return nil
}

// membarrierGlobal is MEMBARRIER_CMD_GLOBAL of include/uapi/linux/membarrier.h:
// it returns after an RCU grace period.
const membarrierGlobal = 1

func rcuGracePeriod() {
	if _, _, no := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0); no != 0 {
		time.Sleep(20 * time.Millisecond)
	}
}

// parseMeminfo reads "Name:   123 kB" lines.
func parseMeminfo(s string) map[string]int64 {
	m := map[string]int64{}
	for line := range strings.Lines(s) {
		k, v, ok := strings.Cut(line, ":")
		f := strings.Fields(v)
		if !ok || len(f) == 0 {
			continue
		}
		if n, err := strconv.ParseInt(f[0], 10, 64); err == nil {
			m[k] = n
		}
	}
	return m
}

// parsePagesets adds up the pages on the lists of all CPUs and zones ("count:"
// of the pagesets in /proc/zoneinfo, see zoneinfo_show_print() in mm/vmstat.c).
func parsePagesets(s string) (pages int64) {
	for line := range strings.Lines(s) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "count:" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			pages += n
		}
	}
	return pages
}

// parseReplyCache gives the "mem usage" of nfsd's reply_cache_stats, in bytes.
func parseReplyCache(s string) int64 {
	for line := range strings.Lines(s) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "mem usage" {
			n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return n
		}
	}
	return 0
}

// parseSlabinfo gives the active objects of each cache (slabinfo(5)).
func parseSlabinfo(s string) map[string]int64 {
	m := map[string]int64{}
	for line := range strings.Lines(s) {
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "slabinfo") {
			continue
		}
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
			m[f[0]] += n
		}
	}
	return m
}

// leaks serves VerbLeaks (kernel Documentation/dev-tools/kmemleak.rst). Two
// scans, because an object that changed between them is not taken for a leak.
func (w *work) leaks(ctx context.Context, r *guestproto.LeaksRequest, log func(string)) (*guestproto.Leaks, error) {
	if err := ensureMount("debugfs", "/sys/kernel/debug", "debugfs", "", "CONFIG_DEBUG_FS"); err != nil {
		return nil, err
	}
	const file = "/sys/kernel/debug/kmemleak"
	if _, err := os.Stat(file); err != nil {
		return nil, setupf("it needs the debug config (CONFIG_DEBUG_KMEMLEAK) and no kmemleak=off", "this kernel has no kmemleak")
	}
	for range 2 {
		if err := writeOnce(file, "scan\n"); err != nil {
			return nil, withErrno(setupf("", "kmemleak cannot scan"), err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, withErrno(setupf("", "cannot read %s", file), err)
	}
	if r.Clear {
		if err := writeOnce(file, "clear\n"); err != nil {
			return nil, withErrno(setupf("", "kmemleak cannot forget its report"), err)
		}
	}
	return &guestproto.Leaks{Text: string(b), Count: strings.Count(string(b), "unreferenced object ")}, nil
}

// counters serves VerbCounters. What a kernel does not have is left out.
func (w *work) counters(ctx context.Context, _ *struct{}, log func(string)) (*guestproto.Counters, error) {
	c := &guestproto.Counters{
		Server: w.numberFiles("/proc/sys/sunrpc/svc_rdma/*", func(p string) string { return filepath.Base(p) }),
		Ports: w.numberFiles("/sys/class/infiniband/*/ports/*/hw_counters/*", func(p string) string {
			f := strings.Split(p, "/")
			n := len(f)
			return f[n-5] + "/" + f[n-3] + "/" + f[n-1]
		}),
	}
	if b, err := os.ReadFile(w.path("/proc/net/rpc/nfs")); err == nil {
		c.Client = parseRPCStats(string(b))
	}
	if b, err := os.ReadFile(w.path("/proc/net/rpc/nfsd")); err == nil {
		c.Nfsd = parseRPCStats(string(b))
	}
	if b, err := os.ReadFile(w.path("/proc/self/mountstats")); err == nil {
		for _, m := range parseMountstats(string(b)) {
			mc := guestproto.MountCounters{At: m.at, Ops: m.ops}
			mc.Proto, mc.Xprt = xprtCounters(m.xprts)
			c.Mounts = append(c.Mounts, mc)
		}
	}
	return c, nil
}

// numberFiles reads the files of a glob pattern that hold one number.
func (w *work) numberFiles(pattern string, name func(path string) string) map[string]int64 {
	paths, _ := filepath.Glob(w.path(pattern))
	m := map[string]int64{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
			m[name(p)] = n
		}
	}
	return m
}

// rpcFields names the numbers of the lines in /proc/net/rpc/nfs and nfsd that
// are not per operation (net/sunrpc/stats.c, fs/nfsd/stats.c).
var rpcFields = map[string][]string{
	"rpc": {"calls", "retrans", "authrefresh"},
	"net": {"packets", "udp", "tcp", "tcp_connections"},
	"rc":  {"hits", "misses", "nocache"},
	"fh":  {"stale"},
	"io":  {"read_bytes", "written_bytes"},
	"th":  {"threads"},
}

// parseRPCStats names the numbers of /proc/net/rpc/nfs or nfsd. A server's
// "rpc" line means calls, bad calls and their kinds.
func parseRPCStats(s string) map[string]int64 {
	m := map[string]int64{}
	server := strings.Contains(s, "\nth ") || strings.HasPrefix(s, "rc ")
	for line := range strings.Lines(s) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		names := rpcFields[f[0]]
		if f[0] == "rpc" && server {
			names = []string{"calls", "bad_calls", "bad_fmt", "bad_auth", "bad_client"}
		}
		n := ints(f[1:])
		for i, name := range names {
			if i < len(n) {
				m[f[0]+"."+name] = n[i]
			}
		}
		if strings.HasPrefix(f[0], "proc") && len(n) > 1 {
			// The first number is the count of operations.
			sum := int64(0)
			for _, v := range n[1:] {
				sum += v
			}
			m[f[0]] = sum
		}
	}
	return m
}
