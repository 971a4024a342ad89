// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"testing"

	"patchcheck/internal/sharedtest"
)

// TestPublicFaults gives the command line what went wrong with other tools:
// logs of guests, traces, measurements. The rows are those of the public cases
// that have an input of their own and need no kernel; what needs one is tested
// where it is done.
func TestPublicFaults(t *testing.T) {
	t.Chdir(sharedtest.Path(t, "cases", "samples"))
	for _, c := range []struct {
		id   string
		args []string // "*" is expanded
		code int
		want []string // each matches the output
		not  []string
	}{
		// The guest does not come up, or its host is not right.
		{"B47", []string{"console", "B47-*"}, 1, []string{`kernel panic: Attempted to kill init`, `BOOT_FAIL: init ended`}, []string{`TIMEOUT`}},
		{"B51", []string{"console", "B51-kvm-broken.log"}, 0, []string{`ACCEL_BROKEN: KVM does not work here`, `--accel tcg`, `no crash`}, nil},
		{"B51", []string{"console", "B51-kvm-internal.log"}, 0, []string{`ACCEL_BROKEN: .*Suberror: 3`, `no crash`}, nil},
		{"B52", []string{"console", "B52-*"}, 0, []string{`HARNESS_ERROR: the host's port 2222 is taken`, `ss -ltnp`}, nil},
		{"B54", []string{"console", "B54-*"}, 1, []string{`SETUP: .*9p`, `CONFIG_NET_9P`, `BOOT_FAIL: the kernel lacks 9p`}, nil},
		{"B56", []string{"console", "B56-*"}, 0, []string{`GUEST_OOM: the kernel killed fio`, `more memory`, `no crash`}, []string{`invoked`}},
		{"B58", []string{"console", "B58-*"}, 0, []string{`CLOCK_SKEW`}, nil},
		// Crashes, and what looks like one.
		{"B59", []string{"console", "B59-*"}, 0, []string{`^no crash in 3 lines\n$`}, nil},
		{"B60", []string{"console", "B60-*"}, 0, []string{`^no crash in 4 lines\n$`}, nil},
		{"B62", []string{"console", "B62-*"}, 1, []string{`KFENCE: use-after-free read in rpc_release_client; TRUNCATED`, `note: .*panic_on_warn set: probably a consequence`, `console.truncated`}, nil},
		{"B63", []string{"console", "B63-*"}, 1, []string{`general protection fault in write_special_inodes \[`}, nil},
		{"B64", []string{"console", "B64-*"}, 0, []string{`214 printk messages never reached the console`}, nil},
		{"B65", []string{"console", "B65-*"}, 0, []string{`^no crash`}, nil},
		{"B66", []string{"console", "B66-*"}, 1, []string{`soft lockup.*\(6 times\)`}, []string{`(?s)lockup\].*lockup\]`}},
		{"B98", []string{"console", "--json", "B98-*"}, 1, []string{`"class": "leak"`, `kmalloc_trace_noprof:tcp_ao_alloc_info:do_tcp_setsockopt:do_sock_setsockopt:__sys_setsockopt`}, nil},
		// NFS and RDMA set up wrongly.
		{"B67", []string{"console", "B67-*"}, 0, []string{`SETUP: .*no "link add"`, `rdma_rxe`}, nil},
		{"B74", []string{"console", "B74-*"}, 0, []string{`SETUP: .*client module, server portlist, server versions`, `/proc/fs/nfsd/portlist`}, nil},
		{"B75", []string{"console", "B75-*"}, 0, []string{`SETUP: nfsd waits 90 s`}, nil},
		{"B76", []string{"console", "B76-*"}, 0, []string{`SETUP: .*rpc.statd`, `nolock`}, nil},
		// Traces and fio.
		{"B80", []string{"trace", "B80-trace.txt", "B80-cpu0-stats.txt", "B80-cpu1-stats.txt"}, 3, []string{`INVALID \(LOST \d+\)  xprtrdma_wc_send`, `CPU 1: LOST 5338`}, []string{`(?m)^ +\d+  `}},
		{"B81", []string{"trace", "--pair", "xprtrdma_wc_send,svcrdma_wc_recv", "--key", "cid", "B80-trace.txt", "B80-cpu0-stats.txt"}, 3, []string{`0 pairs, 1 left out`, `CPU 1: LOST 5321 within the trace`}, nil},
		{"B85", []string{"bench", "fio", "B85-prefixed.json"}, 1, []string{`FAIL`, `ENOSPC`, `fio.noise: .*io_u error`}, nil},
		{"B85", []string{"bench", "fio", "B85-normal-plus-json.txt"}, 0, []string{`PASS`, `506543`}, nil},
		{"B87", []string{"bench", "fio", "B87-*"}, 3, []string{`SETUP\(alignment\)`, `EINVAL`}, []string{`clat`}},
		{"B88", []string{"bench", "fio", "B88-*"}, 1, []string{`FAIL`, `ENOSPC`}, nil},
		// Statistics.
		{"B89", []string{"bench", "fio", "B89-*"}, 0, []string{`n/a \(n=20\)`, `1\.688`}, nil},
		{"B90", []string{"bench", "compare", "B90-A-*", "--", "B90-AA-*"}, 0, []string{`no difference shown`}, []string{`(?m)^ +(better|worse)`, `WORSE`}},
		{"B90", []string{"bench", "compare", "--force-unlike", "B90-A-*", "--", "B90-B-*"}, 1, []string{`WORSE`}, nil},
		{"B92", []string{"bench", "fio", "B92-dupkeys.json"}, 0, []string{`PASS`, `1\.688`}, nil},
		{"B92", []string{"bench", "fio", "B92-noclat.json"}, 0, []string{`PASS`, `n/a`}, nil},
		{"B94", []string{"bench", "compare", "B94-*"}, 1, []string{`worse, by the medians`, `\+20\.0%`}, nil},
	} {
		var args []string
		for _, a := range c.args {
			if m, err := filepath.Glob(a); err == nil && m != nil {
				args = append(args, m...)
				continue
			}
			args = append(args, a)
		}
		var out, errout bytes.Buffer
		code := Main(t.Context(), append([]string{"--cache", t.TempDir()}, args...), bytes.NewReader(nil), &out, &errout)
		if code != c.code {
			t.Errorf("%s %v: exit code %d, want %d\n%s%s", c.id, c.args, code, c.code, out.String(), errout.String())
			continue
		}
		for _, w := range c.want {
			if !regexp.MustCompile(w).Match(out.Bytes()) {
				t.Errorf("%s %v: no %q in\n%s", c.id, c.args, w, out.String())
			}
		}
		for _, n := range c.not {
			if regexp.MustCompile(n).Match(out.Bytes()) {
				t.Errorf("%s %v: %q in\n%s", c.id, c.args, n, out.String())
			}
		}
	}
}
