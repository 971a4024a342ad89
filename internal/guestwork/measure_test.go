// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"patchcheck/internal/guestproto"
)

func TestParseTaskStat(t *testing.T) {
	for _, c := range []struct {
		in, kind string
		ns       int64
		ok       bool
	}{
		{"77 (nfsd) I 2 0 0 0 -1 2129984 0 0 0 0 1 4 0 0 20 0 1 0 88 0", "nfsd", 50_000_000, true},
		{"9 (kworker/u10:0-rxe_wq) I 2 0 0 0 -1 69238880 0 0 0 0 0 207 0 0 20", "kworker rxe_wq", 2_070_000_000, true},
		{"9 (kworker/1:2+events) I 2 0 0 0 -1 69238880 0 0 0 0 0 1 0 0 20", "kworker events", 10_000_000, true},
		{"9 (kworker/R-rpciod) I 2 0 0 0 -1 69238880 0 0 0 0 0 0 0 0 20", "kworker rpciod", 0, true},
		{"9 (kworker/u11:0) I 2 0 0 0 -1 69238880 0 0 0 0 0 1 0 0 20", "kworker", 10_000_000, true},
		{"3 (ksoftirqd/1) S 2 0 0 0 -1 69238880 0 0 0 0 0 1 0 0 20", "ksoftirqd", 10_000_000, true},
		{"5 (a) b (c) S 2 0 0 0 -1 69238880 0 0 0 0 2 1 0 0 20", "a) b (c", 30_000_000, true},
		{"5 (short) S 2 0", "", 0, false},
		{"", "", 0, false},
	} {
		kind, ns, ok := parseTaskStat(c.in)
		if kind != c.kind || ns != c.ns || ok != c.ok {
			t.Errorf("%q: %q %d %v", c.in, kind, ns, ok)
		}
	}
}

func TestSample(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("proc/stat", "cpu  756 0 842 1502 3 0 48 7 0 0\ncpu0 418 0 531 878 0 0 27 0 0 0\n")
	put("proc/12/stat", "12 (nfsd) I 2 0 0 0 -1 2129984 0 0 0 0 0 4 0 0 20 0 1 0 88 0")
	put("proc/13/stat", "13 (nfsd) I 2 0 0 0 -1 2129984 0 0 0 0 0 5 0 0 20 0 1 0 88 0")
	put("proc/self/mountstats", "device 192.0.2.1:/export mounted on /mnt with fstype nfs statvers=1.1\n"+
		"\topts:\trw,vers=3\n\txprt:\trdma 0 0 1 0 0 8195 8195 0 24395\n\tper-op statistics\n"+
		"\t       WRITE: 6750 6751 0 47231640 918000 2293 67460 70515 2\n\t      COMMIT: 0 0 0 0 0 0 0 0 0\n")
	w := &work{root: root}
	s, err := w.sample(context.Background(), &guestproto.SampleRequest{Mount: "/mnt"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.CPU["user"] != 7_560_000_000 || s.CPU["steal"] != 70_000_000 || s.Tasks["nfsd"] != 90_000_000 {
		t.Errorf("CPU %v, tasks %v", s.CPU, s.Tasks)
	}
	op := s.Ops["WRITE"]
	if op.Ops != 6750 || op.Sent != 6751 || op.Errors != 2 || op.QueueMS != 2293 || op.RTTMS != 67460 || op.ExecuteMS != 70515 {
		t.Errorf("WRITE: %+v", op)
	}
	if s.Xprt["sends"] != 8195 || s.MonotonicNS == 0 {
		t.Errorf("xprt %v, clock %d", s.Xprt, s.MonotonicNS)
	}
	if _, err := w.sample(context.Background(), &guestproto.SampleRequest{Mount: "/other"}, nil); err == nil {
		t.Error("a place without a mount must be refused")
	}
}

func FuzzParseTaskStat(f *testing.F) {
	f.Add("77 (nfsd) I 2 0 0 0 -1 2129984 0 0 0 0 1 4 0 0 20 0 1 0 88 0")
	f.Add("9 (kworker/u10:0-rxe_wq) I 2")
	f.Fuzz(func(t *testing.T, s string) {
		if kind, _, ok := parseTaskStat(s); ok && len(kind) > len(s)+len("kworker ") {
			t.Errorf("%q: kind %q", s, kind)
		}
		parseCPUStat(s)
	})
}
