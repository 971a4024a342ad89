// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"strings"
	"testing"

	"patchcheck/checks"
	"patchcheck/checks/console"
	"patchcheck/internal/guestproto"
	"patchcheck/internal/kernel"
	"patchcheck/internal/runfolder"
)

const demoOops = `[    9.2] BUG: kernel NULL pointer dereference, address: 000000000000000c
[    9.2] #PF: supervisor read access in kernel mode
[    9.2] Oops: Oops: 0000 [#1] SMP
[    9.2] RIP: 0010:demo_get+0x10/0x20
[    9.2] Call Trace:
[    9.2]  demo_accept+0x1c/0x2f0
[    9.3] ---[ end trace 0000000000000000 ]---
`

// fakeLines knows the lines of some names.
type fakeLines struct {
	at  map[string]console.Position
	err error
	n   int
}

func (f *fakeLines) Decode(_ context.Context, syms []console.Symbol) (console.Positions, error) {
	f.n += len(syms)
	out := console.Positions{}
	for _, s := range syms {
		if p, ok := f.at[s.Name]; ok {
			out[s] = []console.Position{p}
		}
	}
	return out, f.err
}

func parsed(t *testing.T, text string) console.Report {
	t.Helper()
	rep, err := console.Parse(strings.NewReader(text), console.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func TestCrashIsDecoded(t *testing.T) {
	all := map[string]console.Position{"demo_get": {File: "lib/demo.c", Line: 12}, "demo_accept": {File: "net/demo.c", Line: 210}}
	broken := &kernel.DecodeError{Why: "1 of 2 frames were decoded: it failed", Said: []string{"addr2line: \x1b[1mno"}}
	for name, c := range map[string]struct {
		lines   *fakeLines
		touched []string
		file    string // of the finding
		line    int
		note    string
	}{
		"in a touched file":    {&fakeLines{at: all}, []string{"net/demo.c"}, "net/demo.c", 210, ""},
		"where it struck":      {&fakeLines{at: all}, []string{"fs/x.c"}, "lib/demo.c", 12, ""},
		"a script that failed": {&fakeLines{at: map[string]console.Position{"demo_get": all["demo_get"]}, err: broken}, nil, "lib/demo.c", 12, "1 of 2 frames"},
		"another error":        {&fakeLines{err: errors.New("a disk is full")}, nil, "", 1, "the frames were not decoded: a disk is full"},
		"no debug info":        {nil, nil, "", 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := &guestKernel{touched: c.touched, source: func(w checks.Where) *checks.Source {
				if w.File == "" {
					return nil
				}
				return &checks.Source{From: w.Line, Lines: []string{w.File}}
			}}
			if c.lines != nil {
				k.lines = c.lines
			}
			s := &session{kernel: k, decode: decoding(t.Context(), k.lines, k.touched)}
			rep := parsed(t, demoOops)
			fs := s.findings(rep)
			f := fs[0]
			if f.ID != "console.oops" || f.Where.File != c.file || f.Where.Line != c.line {
				t.Errorf("%s at %+v", f.ID, f.Where)
			}
			if (f.Source != nil) != (c.file != "") {
				t.Errorf("its source is %+v", f.Source)
			}
			if got := strings.Contains(strings.Join(f.Evidence, "\n"), "demo_get+0x10/0x20 (lib/demo.c:12)"); got != (c.file != "") {
				t.Errorf("its evidence is %q", f.Evidence)
			}
			last := fs[len(fs)-1]
			if c.note == "" {
				if last.ID == console.Undecoded {
					t.Errorf("it says %+v", last)
				}
			} else if last.ID != console.Undecoded || !strings.Contains(last.Message, c.note) || last.Gates() || strings.Contains(strings.Join(last.Evidence, ""), "\x1b") {
				t.Errorf("it says %+v", last)
			}
			if strings.Contains(strings.Join(rep.Reports[0].Text, "\n"), "demo.c") {
				t.Error("the console's own report was changed")
			}
		})
	}
}

// A run that is interrupted decodes nothing more, and one without crash asks
// for nothing.
func TestNothingToDecode(t *testing.T) {
	f := &fakeLines{}
	ctx, cancel := context.WithCancel(t.Context())
	rep := parsed(t, "[    1.0] all is well\n")
	if n := decoding(ctx, f, nil)(&rep); n != nil || f.n > 0 {
		t.Errorf("%+v, %d addresses", n, f.n)
	}
	cancel()
	rep = parsed(t, demoOops)
	if n := decoding(ctx, f, nil)(&rep); n != nil || f.n > 0 {
		t.Errorf("interrupted: %+v, %d addresses", n, f.n)
	}
}

// kmemleak's report comes from a file of the guest's and is decoded, too.
func TestLeakIsDecoded(t *testing.T) {
	f := &fakeLines{at: map[string]console.Position{"demo_alloc": {File: "net/demo.c", Line: 7}}, err: &kernel.DecodeError{Why: "1 of 2 frames were decoded"}}
	s := &session{kernel: &guestKernel{}, decode: decoding(t.Context(), f, nil)}
	fs := s.leakFindings(guestproto.Leaks{Count: 1, Text: "unreferenced object 0xffff888001234500 (size 64):\n  comm \"nfsd\", pid 77, jiffies 4294900000\n  backtrace (crc 0):\n    demo_alloc+0x10/0x20\n    demo_accept+0x10/0x20\n"})
	if len(fs) != 2 || fs[0].ID != "console.leak" || fs[0].Where.File != "net/demo.c" || fs[1].ID != console.Undecoded {
		t.Errorf("%+v", fs)
	}
}

// How frames were decoded says nothing about whether two failures are the same.
func TestUndecodedIsNoSignature(t *testing.T) {
	oops := checks.Finding{ID: "console.oops", Severity: checks.Error, Message: "an oops"}
	a, b := &runfolder.Attempt{Findings: []checks.Finding{oops}}, &runfolder.Attempt{Findings: []checks.Finding{oops}}
	b.Findings = append(b.Findings, console.NotDecoded("no addr2line", nil))
	if signature(a) != signature(b) || !sameFault(a, b) {
		t.Errorf("%q and %q", signature(a), signature(b))
	}
}
