// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/guestproto"
	"patchcheck/internal/runfolder"
	"patchcheck/patches"
	"patchcheck/testplans"
	"patchcheck/vm"
)

// fakeGuest answers as a right kernel would; tests replace single answers.
type fakeGuest struct {
	over map[string]func(req any) (any, error)
	sent []string
}

func (g *fakeGuest) Call(ctx context.Context, verb string, req, resp any, onLog func(string)) error {
	g.sent = append(g.sent, verb)
	var out any = struct{}{}
	var err error
	if f := g.over[verb]; f != nil {
		out, err = f(req)
	} else {
		out = answer(verb, req)
	}
	if err != nil {
		return err
	}
	b, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, resp)
}

func answer(verb string, req any) any {
	switch verb {
	case guestproto.VerbNFSListen:
		return guestproto.Portlist{Lines: []string{"rdma 20049", "tcp 2049"}}
	case guestproto.VerbMount:
		v := req.(guestproto.Mount).Version
		return guestproto.Mounted{Options: "rw,vers=" + v + ",proto=rdma", Xprt: "rdma 0 0 1 0"}
	case guestproto.VerbWrite, guestproto.VerbRead, guestproto.VerbHash:
		return ioResult(req.(guestproto.IO))
	case guestproto.VerbFiles:
		f := req.(guestproto.Files)
		return guestproto.FilesResult{Count: f.Count, Bytes: 1000, SHA256: "x", Want: "x"}
	case guestproto.VerbRecall:
		return guestproto.RecallResult{Count: req.(guestproto.Recall).Count, Delegated: 1, SlowestUS: 20000}
	case guestproto.VerbTraceRead:
		hit := func(n int64, keys map[string]string) guestproto.Hist {
			return guestproto.Hist{Hits: n, Entries: 1, Rows: []guestproto.HistRow{{Keys: keys, Hits: n}}}
		}
		s := hit(3000, map[string]string{"flags": "10", "len": "180", "granted": "216"})
		ref := guestproto.HistRow{Keys: map[string]string{"flags": "2", "len": "300", "granted": "216"}, Hits: 2500}
		s.Rows, s.Hits = append(s.Rows, ref), s.Hits+ref.Hits
		return guestproto.TraceResult{Hists: map[string]guestproto.Hist{
			"sends": s, "shapes": hit(5500, map[string]string{"wrs": "1", "sges": "1", "len": "180"}), "replies": hit(5500, map[string]string{"len": "180", "opcode": "2"}), "completions": hit(5500, nil), "completions_flush": {}, "completions_err": {},
			"qp_create": hit(1, map[string]string{"ret": "0", "execname": "nfsd"}),
		}}
	case guestproto.VerbUmount:
		return guestproto.Umounted{}
	case guestproto.VerbMemory:
		return guestproto.Memory{SUnreclaim: 1000}
	}
	return struct{}{}
}

func ioResult(io guestproto.IO) guestproto.IOResult {
	return guestproto.IOResult{Bytes: io.Size, Calls: 1, SHA256: "s", Want: "s", FirstDiff: -1}
}

func fails(err error) func(any) (any, error) {
	return func(any) (any, error) { return nil, err }
}

// Whatever goes wrong in a step ends as the right verdict with a finding that
// names it; a wrong answer is not believed even when the guest says done.
func TestCellVerdicts(t *testing.T) {
	p, err := testplans.Load("svcrdma-inline")
	if err != nil {
		t.Fatal(err)
	}
	cell := p.Cells()[2] // patched/intel-216/v3
	bad := func(change func(*guestproto.IOResult)) func(any) (any, error) {
		return func(req any) (any, error) {
			r := ioResult(req.(guestproto.IO))
			change(&r)
			return r, nil
		}
	}
	for _, c := range []struct {
		name    string
		verb    string
		answer  func(any) (any, error)
		verdict checks.Verdict
		id      string
		text    string
	}{
		{name: "right", verdict: checks.Pass},
		{"data differs", guestproto.VerbRead, fails(&guestproto.Error{Class: guestproto.ClassData, Message: "first difference at 12"}), checks.Fail, "contents.differ", "first difference at 12"},
		{"digest differs though done", guestproto.VerbRead, bad(func(r *guestproto.IOResult) { r.SHA256 = "other" }), checks.Fail, "contents.differ", "direct: read"},
		{"short read though done", guestproto.VerbRead, bad(func(r *guestproto.IOResult) { r.Bytes-- }), checks.Fail, "contents.differ", "8388607 of 8388608"},
		{"no digest at all", guestproto.VerbHash, bad(func(r *guestproto.IOResult) { r.SHA256, r.Want = "", "" }), checks.Fail, "contents.differ", "exported file"},
		{"small file differs", guestproto.VerbFiles, func(req any) (any, error) {
			f := req.(guestproto.Files)
			return guestproto.FilesResult{Count: f.Count, SHA256: "x", Want: "y", WrongN: 1, Wrong: []string{"f017"}}, nil
		}, checks.Fail, "contents.differ", "1 of 200 files differ"},
		{"a file is missing", guestproto.VerbFiles, func(req any) (any, error) {
			return guestproto.FilesResult{Count: 199, SHA256: "x", Want: "x"}, nil
		}, checks.Fail, "contents.differ", "199 seen"},
		{"kernel error", guestproto.VerbMount, fails(&guestproto.Error{Class: guestproto.ClassKernel, Message: "EPROTO"}), checks.Fail, "guest.step", "mount failed: EPROTO"},
		{"tool missing", guestproto.VerbLinkSet, fails(&guestproto.Error{Class: guestproto.ClassSetup, Message: "no rxe"}), checks.Infra, "infra", "no rxe"},
		{"guest full", guestproto.VerbWrite, fails(&guestproto.Error{Class: guestproto.ClassResource, Message: "ENOSPC"}), checks.Infra, "infra", "ENOSPC"},
		{"hang", guestproto.VerbUmount, fails(&vm.NoAnswer{Verb: "nfs.umount", After: time.Minute}), checks.Fail, "guest.hang", "umount did not finish within 1m0s"},
		{"panic", guestproto.VerbWrite, fails(&vm.GuestDied{Cause: vm.DeathPanic, Reason: "kernel panic"}), checks.Fail, "guest.died", "during direct: write: kernel panic"},
		{"QEMU died", guestproto.VerbWrite, fails(&vm.GuestDied{Cause: vm.DeathQEMU, Reason: "killed"}), checks.Infra, "guest.died", "killed"},
		{"nonsense from the guest", guestproto.VerbWrite, fails(&vm.InfraError{What: "no JSON"}), checks.Infra, "infra", "no JSON"},
		{"mounted over TCP", guestproto.VerbMount, func(req any) (any, error) {
			return guestproto.Mounted{Options: "rw,vers=3,proto=tcp", Xprt: "tcp 0 0"}, nil
		}, checks.Infra, "guest.transport", "asked for NFSv3 over rdma"},
		{"another version", guestproto.VerbMount, func(req any) (any, error) {
			return guestproto.Mounted{Options: "rw,vers=4.1,proto=rdma", Xprt: "rdma 0 0"}, nil
		}, checks.Infra, "guest.transport", "vers=4.1"},
		{"no listener", guestproto.VerbNFSListen, func(req any) (any, error) { return guestproto.Portlist{Lines: []string{"tcp 2049"}}, nil }, checks.Infra, "infra", "does not listen"},
		{"one call waited for a retransmission", guestproto.VerbRead, bad(func(r *guestproto.IOResult) { r.SlowestUS = 61e6 }), checks.Fail, "guest.slow-call", "1m1s"},
		{"queue pair left", guestproto.VerbUmount, func(any) (any, error) { return guestproto.Umounted{Left: map[string]int64{"qp": 1}}, nil }, checks.Fail, "guest.left-behind", "1 qp"},
		{"events lost", guestproto.VerbTraceRead, func(any) (any, error) {
			r := answer(guestproto.VerbTraceRead, nil).(guestproto.TraceResult)
			h := r.Hists["sends"]
			h.Dropped = 2
			r.Hists["sends"] = h
			return r, nil
		}, checks.Infra, "count.invalid", "dropped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &fakeGuest{over: map[string]func(any) (any, error){c.verb: c.answer}}
			if c.answer == nil {
				g.over = nil
			}
			b := &bench{g: g, plan: p, guest: "01-patched"}
			a, err := b.cell(context.Background(), cell)
			if err != nil {
				t.Fatal(err)
			}
			if a.Verdict != c.verdict {
				t.Errorf("verdict %s, want %s: %+v", a.Verdict, c.verdict, a.Findings)
			}
			if c.verdict == checks.Pass {
				if a.Token == "" || len(a.Findings) > 0 || a.Values["inline"] != 3000 {
					t.Errorf("%+v", a)
				}
				return
			}
			if len(a.Findings) == 0 || a.Findings[0].ID != c.id || !strings.Contains(a.Findings[0].Message, c.text) {
				t.Errorf("want %s with %q, got %+v", c.id, c.text, a.Findings)
			}
			for _, f := range a.Findings {
				if f.Where.Cell != cell.ID() {
					t.Errorf("finding without its cell: %+v", f)
				}
			}
		})
	}
}

// A server that cannot call its client back, or that is answered too late, fails
// cells of NFSv4; those of NFSv3 have no callbacks.
func TestCallback(t *testing.T) {
	p, err := testplans.Load("svcrdma-inline")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		nfs     string
		answer  guestproto.RecallResult
		verdict checks.Verdict
		text    string
	}{
		{"4.1", guestproto.RecallResult{Count: 4, Delegated: 3, SlowestUS: 50000}, checks.Pass, ""},
		{"4.1", guestproto.RecallResult{Count: 4, SlowestUS: 50000}, checks.Fail, "a delegation of 0 of 4 files"},
		{"4.1", guestproto.RecallResult{Count: 3, Delegated: 3}, checks.Fail, "of 3 of 3 files"},
		{"4.1", guestproto.RecallResult{Count: 4, Delegated: 4, SlowestUS: 11.3e6}, checks.Fail, "waited 11.3s"},
		{"3", guestproto.RecallResult{}, checks.Pass, ""},
	} {
		cells := p.Cells()
		cell := cells[slices.IndexFunc(cells, func(x testplans.Cell) bool {
			return x.Kernel == testplans.RolePatched && x.NFS == c.nfs && x.Device.Name == "intel-216"
		})]
		g := &fakeGuest{over: map[string]func(any) (any, error){guestproto.VerbRecall: func(any) (any, error) { return c.answer, nil }}}
		a, err := (&bench{g: g, plan: p, guest: "01-patched"}).cell(t.Context(), cell)
		if err != nil {
			t.Fatal(err)
		}
		if a.Verdict != c.verdict || c.text != "" && (len(a.Findings) == 0 || a.Findings[0].ID != ruleCallback.ID || !strings.Contains(a.Findings[0].Message, c.text)) {
			t.Errorf("NFSv%s, %+v: %s, %+v", c.nfs, c.answer, a.Verdict, a.Findings)
		}
	}
}

// What was counted until a step hung says why: here the kernel took a size that
// the device had not granted. What only holds for the whole workload is not
// held against it.
func TestHangWithItsCause(t *testing.T) {
	p, err := testplans.Load("svcrdma-inline")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		granted string
		want    []string
	}{
		{"256", []string{"count.hold", "guest.hang"}},
		{"216", []string{"guest.hang"}},
	} {
		g := &fakeGuest{over: map[string]func(any) (any, error){
			guestproto.VerbMount: fails(&vm.NoAnswer{Verb: "nfs.mount", After: time.Minute}),
			guestproto.VerbTraceRead: func(any) (any, error) {
				return guestproto.TraceResult{Hists: map[string]guestproto.Hist{
					"sends":       {Hits: 1, Entries: 1, Rows: []guestproto.HistRow{{Keys: map[string]string{"flags": "10", "len": "180", "granted": c.granted}, Hits: 1}}},
					"shapes":      {},
					"replies":     {},
					"completions": {}, "completions_flush": {}, "completions_err": {},
					"qp_create": {Hits: 1, Entries: 1, Rows: []guestproto.HistRow{{Keys: map[string]string{"ret": "0", "execname": "nfsd"}, Hits: 1}}},
				}}, nil
			},
		}}
		b := &bench{g: g, plan: p, guest: "01-patched"}
		a, err := b.cell(t.Context(), p.Cells()[2]) // patched/intel-216/v3
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range a.Findings {
			got = append(got, f.ID)
		}
		if !slices.Equal(got, c.want) || a.Verdict != checks.Fail {
			t.Errorf("granted %s: %s %v, want %v", c.granted, a.Verdict, got, c.want)
		}
	}
}

// The client's cache must be dropped before each read, and the counts cleared
// before the mount.
func TestCellOrder(t *testing.T) {
	p, _ := testplans.Load("svcrdma-inline")
	g := &fakeGuest{}
	b := &bench{g: g, plan: p}
	if _, err := b.cell(context.Background(), p.Cells()[2]); err != nil {
		t.Fatal(err)
	}
	at := func(v string) int {
		for i, s := range g.sent {
			if s == v {
				return i
			}
		}
		return -1
	}
	if at(guestproto.VerbTraceRead) > at(guestproto.VerbMount) {
		t.Error("counts were not cleared before the mount")
	}
	for i, v := range g.sent {
		if v == guestproto.VerbRead && g.sent[i-1] != guestproto.VerbDrop {
			t.Errorf("read without dropping the cache: %v", g.sent[i-3:i+1])
		}
	}
	if at(guestproto.VerbUmount) > at(guestproto.VerbLinkDel) {
		t.Error("the link goes before the mount")
	}
}

func TestInterruptedCellHasNoVerdictOfItsOwn(t *testing.T) {
	p, _ := testplans.Load("svcrdma-inline")
	ctx, cancel := context.WithCancel(context.Background())
	g := &fakeGuest{over: map[string]func(any) (any, error){guestproto.VerbWrite: func(any) (any, error) {
		cancel()
		return nil, ctx.Err()
	}}}
	b := &bench{g: g, plan: p}
	if _, err := b.cell(ctx, p.Cells()[2]); err == nil {
		t.Error("an interruption became a verdict")
	}
}

func attempts(kib ...int64) (out []*runfolder.Attempt) {
	for i, k := range kib {
		out = append(out, &runfolder.Attempt{SUnreclaim: k, Slabs: map[string]int64{"kmalloc-4k": int64(i * 10), "dentry": 5}})
	}
	return out
}

func TestGrowth(t *testing.T) {
	p := &testplans.Plan{Memory: testplans.Memory{Growth: 256 << 10}}
	if got := growth(p, attempts(1000, 3000, 3100, 3150, 3160)); len(got) != 0 {
		t.Errorf("caches that warm up are called a leak: %v", got)
	}
	if got := growth(p, attempts(1000, 2000, 2600, 3200, 3800)); len(got) != 1 || !strings.Contains(got[0], "600 KiB") || !strings.Contains(got[0], "kmalloc-4k by 10") {
		t.Errorf("a leak of 600 KiB a cell: %v", got)
	}
	if got := growth(p, attempts(1000, 2000, 2600)); len(got) != 0 {
		t.Errorf("too few cells to tell, and yet: %v", got)
	}
}

func TestMissingParts(t *testing.T) {
	for want, n := range map[string][]int{"1 and 3-7 are": {1, 3, 4, 5, 6, 7}, "3 is": {3}, "2-3 are": {2, 3}, "1, 3 and 5 are": {1, 3, 5}} {
		if got := missingParts(n); got != want {
			t.Errorf("%v: %q, want %q", n, got, want)
		}
	}
}

func TestVerdict(t *testing.T) {
	cell := func(v checks.Verdict, token string) *runfolder.Cell {
		return &runfolder.Cell{ID: fmt.Sprint(v), Verdict: v, Attempts: []runfolder.Attempt{{Token: token}}}
	}
	for _, c := range []struct {
		name     string
		cells    []*runfolder.Cell
		findings []checks.Finding
		want     checks.Verdict
	}{
		{"all pass", []*runfolder.Cell{cell(checks.Pass, "done")}, nil, checks.Pass},
		{"a pass without the guest's word", []*runfolder.Cell{cell(checks.Pass, "")}, nil, checks.Infra},
		{"no cell", nil, nil, checks.Infra},
		{"one fails", []*runfolder.Cell{cell(checks.Pass, "done"), cell(checks.Fail, "")}, nil, checks.Fail},
		{"base fails", []*runfolder.Cell{cell(checks.Pass, "done"), cell(checks.BaseFails, "")}, nil, checks.BaseFails},
		{"new warning", []*runfolder.Cell{cell(checks.Pass, "done")}, []checks.Finding{{ID: "warning.new", Severity: checks.Warning}}, checks.Fail},
		{"lint warning", []*runfolder.Cell{cell(checks.Pass, "done")}, []checks.Finding{{ID: "subject.long", Severity: checks.Warning}}, checks.Pass},
		{"lint error", []*runfolder.Cell{cell(checks.Pass, "done")}, []checks.Finding{{ID: "trailer.no-sob", Severity: checks.Error}}, checks.Fail},
		{"broken tool", []*runfolder.Cell{cell(checks.Pass, "done")}, []checks.Finding{{ID: "scripts.infra", Severity: checks.Error, Message: "perl died"}}, checks.Infra},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &runner{rec: &runfolder.Run{Cells: c.cells, Findings: c.findings}}
			r.verdict()
			if r.rec.Verdict != c.want {
				t.Errorf("%s (%s), want %s", r.rec.Verdict, r.rec.Reason, c.want)
			}
			if r.rec.Verdict != checks.Pass && r.rec.Reason == "" {
				t.Error("no reason")
			}
		})
	}
}

func TestNarrow(t *testing.T) {
	p, _ := testplans.Load("svcrdma-inline")
	if err := narrow(p, []string{"intel-48"}, []string{"4.2"}); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range p.Cells() {
		ids = append(ids, c.ID())
	}
	if got := strings.Join(ids, " "); got != "patched/intel-48/v4.2 base/intel-48/v4.2" {
		t.Errorf("cells: %s", got)
	}
	for _, bad := range [][2][]string{{{"intel"}, nil}, {nil, {"5"}}} {
		p, _ := testplans.Load("svcrdma-inline")
		if err := narrow(p, bad[0], bad[1]); err == nil || !IsInput(err) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestSeriesID(t *testing.T) {
	a, err := LoadSeries(context.Background(), nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := LoadSeries(context.Background(), nil, nil, "")
	if SeriesID(a) != SeriesID(b) {
		t.Error("the same series has two ids")
	}
	b.Cover = nil
	if SeriesID(a) != SeriesID(b) {
		t.Error("the cover letter changes the id, so the block would outdate itself")
	}
	b.Patches = append([]*patches.Patch{}, b.Patches...)
	p := *b.Patches[1]
	p.Diff = append(append([]byte{}, p.Diff...), '\n')
	b.Patches[1] = &p
	if SeriesID(a) == SeriesID(b) {
		t.Error("a changed diff keeps the id")
	}
}
