// SPDX-License-Identifier: Apache-2.0

package run

import (
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/guestproto"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

func TestSameFault(t *testing.T) {
	f := func(id, msg string) checks.Finding {
		return checks.Finding{ID: id, Severity: checks.Error, Message: msg}
	}
	for _, tt := range []struct {
		name          string
		base, patched []checks.Finding
		want          bool
	}{
		{"same step", []checks.Finding{f("guest.step", "mount failed: a")}, []checks.Finding{f("guest.step", "mount failed: b")}, true},
		{"other step", []checks.Finding{f("guest.hang", "x")}, []checks.Finding{f("guest.step", "x")}, false},
		{"same report, more often", []checks.Finding{f("console.leak", "memory leak in a")}, []checks.Finding{f("console.leak", "memory leak in a (3 times)")}, true},
		{"other leak", []checks.Finding{f("console.leak", "memory leak in a")}, []checks.Finding{f("console.leak", "memory leak in b")}, false},
		{"one more leak", []checks.Finding{f("console.leak", "memory leak in a")}, []checks.Finding{f("console.leak", "memory leak in a"), f("console.leak", "memory leak in b")}, false},
		{"infrastructure", []checks.Finding{f("infra", "x")}, []checks.Finding{f("infra", "x")}, false},
	} {
		if got := sameFault(&runfolder.Attempt{Findings: tt.base}, &runfolder.Attempt{Findings: tt.patched}); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestExcess(t *testing.T) {
	plan := &testplans.Plan{}
	plan.Memory.Growth = 256 << 10
	at := func(nth int, slab, free int64, objects int64) *runfolder.Attempt {
		return &runfolder.Attempt{Nth: nth, SUnreclaim: slab, FreeKiB: free, Slabs: map[string]int64{"kmalloc-192": objects},
			Before: &runfolder.Memory{SUnreclaim: 9000, FreeKiB: 850000, Slabs: map[string]int64{"kmalloc-192": 50}}}
	}
	base := at(1, 10000, 800000, 2000)
	for _, tt := range []struct {
		name string
		p    *runfolder.Attempt
		want string // part of the words; "" means no excess
	}{
		{"same", at(1, 10100, 797000, 2100), ""},
		{"slab", at(1, 10400, 800000, 2000), "400 KiB of unreclaimable slab memory"},
		{"small objects", at(1, 10100, 800000, 3000), "1000 objects of kmalloc-192"},
		{"pages", at(1, 10000, 795000, 2000), "5000 KiB of memory"},
		{"less", at(1, 9000, 900000, 100), ""},
		{"another place in its guest", at(2, 20000, 500000, 9000), ""},
		{"more before the cell", func() *runfolder.Attempt {
			a := at(1, 20000, 600000, 9000)
			a.Before = &runfolder.Memory{SUnreclaim: 19000, FreeKiB: 650000, Slabs: map[string]int64{"kmalloc-192": 7050}}
			return a
		}(), ""},
		{"not measured", &runfolder.Attempt{Nth: 1}, ""},
	} {
		got := excess(plan, base, tt.p)
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := excess(plan, nil, base); got != "" {
		t.Errorf("without a base: %q", got)
	}
}

func TestLeakFindings(t *testing.T) {
	const report = `unreferenced object 0xffff888004a1c300 (size 192):
  comm "nfsd", pid 71, jiffies 4294901234
  hex dump (first 32 bytes):
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  ................
  backtrace (crc 0):
    kmemleak_alloc+0x4a/0x90
    __kmalloc_cache_noprof+0x2a9/0x3b0
    svc_rdma_accept+0x120/0x900
    svc_handle_xprt+0x2d0/0x600
    svc_recv+0x1f0/0x700
    nfsd+0x90/0xf0
`
	fs := (&session{}).leakFindings(guestproto.Leaks{Text: report, Count: 1})
	if len(fs) != 1 || fs[0].ID != "console.leak" || !strings.Contains(fs[0].Message, "svc_rdma_accept") {
		t.Errorf("got %+v", fs)
	}
	if fs := (&session{}).leakFindings(guestproto.Leaks{Text: "something new", Count: 2}); len(fs) != 1 || !strings.Contains(fs[0].Message, "2 unreferenced") {
		t.Errorf("an unknown form of report gave %+v", fs)
	}
	if fs := (&session{}).leakFindings(guestproto.Leaks{}); fs != nil {
		t.Errorf("no leak gave %+v", fs)
	}
}

// Only a report of kmemleak alone is worth a third guest.
func TestOnlyLeaks(t *testing.T) {
	f := func(id string, sev checks.Severity) checks.Finding { return checks.Finding{ID: id, Severity: sev} }
	leak := f("console.leak", checks.Error)
	for _, c := range []struct {
		name string
		in   []checks.Finding
		want bool
	}{
		{"nothing", nil, false},
		{"leaks", []checks.Finding{leak, leak}, true},
		{"a note beside", []checks.Finding{leak, f("console.notice", checks.Note)}, true},
		{"a crash beside", []checks.Finding{leak, f("console.oops", checks.Error)}, false},
		{"another", []checks.Finding{f("contents.differ", checks.Error)}, false},
	} {
		if got := onlyLeaks(&runfolder.Attempt{Findings: c.in}); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// A step that is a little slow is no finding; one that takes seconds more is.
func TestSpans(t *testing.T) {
	steps := func(work, mount time.Duration) *runfolder.Attempt {
		return &runfolder.Attempt{Steps: []runfolder.CellStep{{Name: "mount", Elapsed: mount}, {Name: "direct: write", Elapsed: work / 2}, {Name: "direct: compare the exported file", Elapsed: time.Hour}, {Name: "direct: read in calls of 4 KiB", Elapsed: work / 2}}}
	}
	base := steps(4*time.Second, 100*time.Millisecond)
	for _, c := range []struct {
		name string
		p    *runfolder.Attempt
		slow float64
		want string
	}{
		{"the same", base, 1, ""},
		{"a busy host", steps(6*time.Second, 900*time.Millisecond), 1, ""},
		{"slow I/O", steps(7*time.Second, 100*time.Millisecond), 1, "reads and writes"},
		{"slow mount", steps(4*time.Second, 3100*time.Millisecond), 1, "the mount"},
		{"slow mount of a kernel that is slow anyway", steps(4*time.Second, 3100*time.Millisecond), 10, ""},
		{"nothing recorded", &runfolder.Attempt{}, 1, ""},
	} {
		var got []string
		for _, s := range spans {
			if s.ratio(c.p, base, c.slow) > 0 {
				got = append(got, s.what)
			}
		}
		if g := strings.Join(got, ", "); g != c.want {
			t.Errorf("%s: %q, want %q", c.name, g, c.want)
		}
	}
}

// Cells without an answer are grouped by how they failed; others are left alone.
func TestUnanswered(t *testing.T) {
	results := map[string]*runfolder.Cell{}
	var cells []testplans.Cell
	add := func(dev string, v checks.Verdict, id string) {
		c := testplans.Cell{Kernel: testplans.RolePatched, Device: testplans.Device{Name: dev}, NFS: "3"}
		cells = append(cells, c)
		results[c.ID()] = &runfolder.Cell{ID: c.ID(), Verdict: v, Attempts: []runfolder.Attempt{{Verdict: v, Findings: []checks.Finding{{ID: id, Severity: checks.Error}}}}}
	}
	add("a", checks.Infra, "infra")
	add("b", checks.Pass, "")
	add("c", checks.Infra, "emulator.infra")
	add("d", checks.Fail, "contents.differ")
	add("e", checks.Infra, "infra")
	cells = append(cells, testplans.Cell{Kernel: testplans.RolePatched, Device: testplans.Device{Name: "not run"}, NFS: "3"})
	var got []string
	for _, g := range unanswered(cells, results) {
		var names []string
		for _, c := range g {
			names = append(names, c.Device.Name)
		}
		got = append(got, strings.Join(names, " "))
	}
	if s := strings.Join(got, "; "); s != "a e; c" {
		t.Errorf("%q", s)
	}
}

// A cell that never finds enough memory is the series' fault only if each guest
// was short of it, the last one from its first cell on.
func TestTakesTooMuch(t *testing.T) {
	short := func(nth int) runfolder.Attempt {
		return runfolder.Attempt{Verdict: checks.Infra, Nth: nth, Findings: []checks.Finding{
			ruleNoMemory.New(checks.Where{}, "the guest ran out of memory; give it more than 1GiB (guest.memory in the plan)"),
			{ID: "console.oom", Severity: checks.Error, Message: "Out of memory"},
		}}
	}
	died := runfolder.Attempt{Verdict: checks.Infra, Nth: 1, Findings: []checks.Finding{{ID: "infra", Severity: checks.Error, Message: "QEMU was killed"}}}
	for _, tt := range []struct {
		name     string
		attempts []runfolder.Attempt
		want     bool
	}{
		{"once", []runfolder.Attempt{short(1)}, false},
		{"after other cells only", []runfolder.Attempt{short(9), short(4)}, false},
		{"another failure between", []runfolder.Attempt{short(9), died, short(1)}, false},
		{"the last for another reason", []runfolder.Attempt{short(9), died}, false},
		{"alone, too", []runfolder.Attempt{short(9), short(1)}, true},
	} {
		if got := alwaysStarved(&runfolder.Cell{Attempts: tt.attempts}); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	c := &runfolder.Cell{ID: "patched/none/v3", Attempts: []runfolder.Attempt{short(9), short(1)}}
	c.Findings = c.Last().Findings
	takesTooMuch(c, &runfolder.Attempt{Verdict: checks.Pass}, 1<<30)
	if c.Verdict != checks.Fail || !strings.Contains(c.Reason, "2 guests of 1 GiB") || len(c.Attempts) != 3 {
		t.Errorf("%s, %q, %d attempts", c.Verdict, c.Reason, len(c.Attempts))
	}
	if len(c.Findings) != 2 || c.Findings[0].Message != c.Reason || c.Findings[1].ID != "console.oom" {
		t.Errorf("findings: %+v", c.Findings)
	}
}

// Cells whose first wrong count is the same fail alike, whatever follows from
// it; another first count, another kind of finding or another step do not.
func TestSignature(t *testing.T) {
	at := func(step string, ids ...string) *runfolder.Attempt {
		a := &runfolder.Attempt{Steps: []runfolder.CellStep{{Name: step, Error: "x"}}}
		for _, id := range ids {
			id, msg, _ := strings.Cut(id, " ")
			a.Findings = append(a.Findings, checks.Finding{ID: id, Message: msg})
		}
		return a
	}
	ref := signature(at("umount", "count.hold granted: 80 is not 216", "count.hold inline-some: 0"))
	for _, tt := range []struct {
		name string
		a    *runfolder.Attempt
		same bool
	}{
		{"other numbers", at("umount", "count.hold granted: 80 is not 101"), true},
		{"other consequences", at("umount", "count.hold granted: 80", "count.hold refused: 3", "count.same replies: x"), true},
		{"other cause", at("umount", "count.hold refused: 3", "count.hold granted: 80"), false},
		{"a crash as well", at("umount", "console.oops Oops in f", "count.hold granted: 80"), false},
		{"other step", at("mount", "count.hold granted: 80"), false},
	} {
		if got := signature(tt.a); (got == ref) != tt.same {
			t.Errorf("%s: %q, the first is %q", tt.name, got, ref)
		}
	}
}
