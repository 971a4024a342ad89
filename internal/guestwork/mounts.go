// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"patchcheck/internal/guestproto"
)

// mountInfo is one line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
type mountInfo struct {
	at, fstype, source string
	options            string // of the mount and, after a comma, of the file system
}

func readMountinfo(path string) ([]mountInfo, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseMountinfo(string(b)), nil
}

// parseMountinfo skips lines that it does not understand.
func parseMountinfo(s string) []mountInfo {
	var all []mountInfo
	for line := range strings.Lines(s) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 3 {
			continue
		}
		all = append(all, mountInfo{at: unescape(l[4]), fstype: r[0], source: unescape(r[1]), options: l[5] + "," + strings.Join(r[2:], " ")})
	}
	return all
}

// mountAt gives the topmost mount at a place.
func mountAt(all []mountInfo, at string) (mountInfo, bool) {
	for _, m := range slices.Backward(all) {
		if m.at == at {
			return m, true
		}
	}
	return mountInfo{}, false
}

// unescape undoes the octal escapes of mount tables: \040 for a space.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mountStats is one NFS mount of /proc/self/mountstats.
type mountStats struct {
	at, fstype string
	opts       string
	xprts      []string // each "rdma 0 0 1 ...": one per connection
	ops        map[string]guestproto.Op
	times      map[string][3]int64 // ms in the queue, to the Reply, in all
}

// parseMountstats reads the text of /proc/self/mountstats
// (fs/nfs/super.c nfs_show_stats, net/sunrpc/stats.c).
func parseMountstats(s string) []mountStats {
	var all []mountStats
	var cur *mountStats
	inOps := false
	for line := range strings.Lines(s) {
		f := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "device "):
			cur, inOps = nil, false
			// "device SRC mounted on AT with fstype TYPE statvers=1.1"
			i, j := slices.Index(f, "on"), slices.Index(f, "fstype")
			if i < 0 || j < 0 || i+1 >= len(f) || j+1 >= len(f) || !strings.HasPrefix(f[j+1], "nfs") || f[j+1] == "nfsd" {
				continue
			}
			all = append(all, mountStats{at: unescape(f[i+1]), fstype: f[j+1], ops: map[string]guestproto.Op{}, times: map[string][3]int64{}})
			cur = &all[len(all)-1]
		case cur == nil || len(f) == 0:
		case f[0] == "opts:":
			cur.opts = strings.Join(f[1:], " ")
		case f[0] == "xprt:":
			cur.xprts = append(cur.xprts, strings.Join(f[1:], " "))
		case f[0] == "per-op":
			inOps = true
		case inOps && strings.HasSuffix(f[0], ":"):
			// ops, transmissions, major timeouts, bytes sent, bytes
			// received, queue, response and total time, errors.
			n := ints(f[1:])
			if len(n) < 3 || n[0] == 0 && n[1] == 0 {
				continue
			}
			op := guestproto.Op{Ops: n[0], Sent: n[1], Timeouts: n[2]}
			if len(n) > 8 {
				op.Errors = n[8]
			}
			if len(n) > 7 {
				cur.times[strings.TrimSuffix(f[0], ":")] = [3]int64{n[5], n[6], n[7]}
			}
			cur.ops[strings.TrimSuffix(f[0], ":")] = op
		}
	}
	return all
}

// ints converts numbers up to the first word that is none.
func ints(f []string) []int64 {
	var n []int64
	for _, s := range f {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			break
		}
		n = append(n, v)
	}
	return n
}

// xprtFields names the numbers of an xprt line in order
// (net/sunrpc/xprtsock.c, net/sunrpc/xprtrdma/transport.c).
var xprtFields = map[string][]string{
	"tcp": {"port", "bind_count", "connect_count", "connect_time", "idle_time", "sends", "recvs", "bad_xids", "req_u", "bklog_u", "max_slots", "sending_u", "pending_u"},
	"udp": {"port", "bind_count", "sends", "recvs", "bad_xids", "req_u", "bklog_u", "max_slots", "sending_u", "pending_u"},
	"rdma": {"port", "bind_count", "connect_count", "connect_time", "idle_time", "sends", "recvs", "bad_xids", "req_u", "bklog_u",
		"read_chunks", "write_chunks", "reply_chunks", "total_rdma_request", "total_rdma_reply", "pullup_copies", "fixup_copies",
		"hardway_registers", "failed_marshals", "bad_replies", "nomsg_calls", "mrs_recycled", "mrs_orphaned", "mrs_allocated",
		"local_invalidates", "empty_sendctx_q", "reply_waits_for_send"},
}

// xprtCounters names the numbers of xprt lines and sums them over the
// connections of a mount. Numbers beyond those known are named by position.
func xprtCounters(xprts []string) (proto string, c map[string]int64) {
	c = map[string]int64{}
	for _, x := range xprts {
		f := strings.Fields(x)
		if len(f) == 0 {
			continue
		}
		proto = f[0]
		names := xprtFields[proto]
		for i, v := range ints(f[1:]) {
			name := fmt.Sprintf("field%d", i)
			if i < len(names) {
				name = names[i]
			}
			c[name] += v
		}
	}
	return proto, c
}
