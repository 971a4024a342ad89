// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"strings"
	"testing"
)

const oopsToDecode = `[    9.2] BUG: kernel NULL pointer dereference, address: 000000000000000c
[    9.2] #PF: supervisor read access in kernel mode
[    9.2] Oops: Oops: 0000 [#1] SMP
[    9.2] CPU: 0 UID: 0 PID: 77 Comm: nfsd Not tainted 7.3.4 #1
[    9.2] RIP: 0010:demo_get+0x10/0x20
[    9.2] Code: 00 00 demo_code+0x1/0x2
[    9.2] Call Trace:
[    9.2]  ? demo_stale+0x1/0x2
[    9.2]  demo_accept.isra.0+0x1c/0x2f0 [demo 0123456789abcdef]
[    9.2]  demo_thread+0x5/0x10
[    9.2]  demo_thread+0x5/0x10
[    9.3] ---[ end trace 0000000000000000 ]---
`

func parseToDecode(t *testing.T, text string) Report {
	t.Helper()
	rep, err := Parse(strings.NewReader(text), Options{})
	if err != nil || len(rep.Reports) == 0 {
		t.Fatalf("%d reports, %v", len(rep.Reports), err)
	}
	return rep
}

func TestSymbols(t *testing.T) {
	rep := parseToDecode(t, oopsToDecode)
	want := []Symbol{
		{Name: "demo_get", Offset: 0x10, Size: 0x20, Trap: true},
		{Name: "demo_code", Offset: 1, Size: 2},
		{Name: "demo_stale", Offset: 1, Size: 2},
		{Name: "demo_accept.isra.0", Offset: 0x1c, Size: 0x2f0, Module: "demo"},
		{Name: "demo_thread", Offset: 5, Size: 0x10},
	}
	if got := rep.Symbols(0); fmt.Sprint(got) != fmt.Sprint(want) || !got[0].Trap || got[1].Trap {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := rep.Symbols(5); len(got) != 1 || got[0] != want[0] {
		t.Errorf("of five lines: %+v", got)
	}
}

// Nothing of a log reaches a shell but what the kernel itself prints.
func TestSymbolsOfHostileText(t *testing.T) {
	for text, want := range map[string]string{
		` foo+0x1/0x2`:                              "foo+0x1/0x2",
		` ? foo.cold+0x1/0x2 (P)`:                   "foo.cold+0x1/0x2",
		` [<ffffffff81000000>] foo+0x1/0x2`:         "foo+0x1/0x2",
		` (foo+0x1/0x2) from bar+0x3/0x4`:           "foo+0x1/0x2 bar+0x3/0x4",
		` foo+0x1/0x2 [nfsd]`:                       "foo+0x1/0x2 [nfsd]",
		` foo+0x1/0x2 [nfsd 0123456789abcdef0123]`:  "foo+0x1/0x2 [nfsd]",
		` foo+0x1/0x2 [$(id)]`:                      "foo+0x1/0x2",
		` foo"||system("id")||"+0x1/0x2`:            "",
		` $(id)+0x1/0x2`:                            "",
		` a[$(id)]+0x1/0x2`:                         "",
		` foo+a[$(id)]/0x2`:                         "",
		` foo+0x1/a[0]`:                             "",
		` foo+0x1/0x2+0x3/0x4`:                      "",
		` foo+0x123456789/0x2`:                      "",
		` foo+0x1/0x2/../../x`:                      "",
		` <demo::Thing as Drop>::drop+0x1/0x2`:      "",
		` foo+0x1/0x2 (net/a.c:3)`:                  "",
		" foo\\+0x1/0x2":                            "",
		` ` + strings.Repeat("a", 300) + `+0x1/0x2`: "",
	} {
		var got []string
		for _, p := range placesIn(text) {
			got = append(got, p.sym.String())
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q holds %q, want %q", text, s, want)
		}
	}
}

func TestDecode(t *testing.T) {
	get, accept := Symbol{Name: "demo_get", Offset: 0x10, Size: 0x20, Trap: true}, Symbol{Name: "demo_accept.isra.0", Offset: 0x1c, Size: 0x2f0, Module: "demo"}
	stale := Symbol{Name: "demo_stale", Offset: 1, Size: 2}
	at := Positions{
		get:    {{"include/linux/demo.h", 37}, {"lib/get.c", 12}},
		accept: {{"net/demo/accept.c", 210}},
		stale:  {{"net/demo/stale.c", 1}},
	}
	touched := func(names ...string) func(string) bool {
		return func(f string) bool { return strings.Contains(strings.Join(names, " "), f) }
	}
	for name, c := range map[string]struct {
		prefer func(string) bool
		at     Positions
		want   string
	}{
		"where the trap struck":           {nil, at, "lib/get.c:12"},
		"the first touched file":          {touched("net/demo/accept.c"), at, "net/demo/accept.c:210"},
		"a touched header":                {touched("net/demo/accept.c include/linux/demo.h"), at, "include/linux/demo.h:37"},
		"not what is left on the stack":   {touched("net/demo/stale.c"), at, "lib/get.c:12"},
		"no touched file":                 {touched("fs/x.c"), at, "lib/get.c:12"},
		"headers only":                    {nil, Positions{get: {{"include/linux/demo.h", 37}}}, "include/linux/demo.h:37"},
		"no trap":                         {nil, Positions{accept: at[accept]}, "net/demo/accept.c:210"},
		"a name that leads out":           {touched("../../etc/passwd"), Positions{get: {{"../../etc/passwd", 1}}, accept: at[accept]}, "net/demo/accept.c:210"},
		"a name from the root":            {touched("/etc/passwd"), Positions{get: {{"/etc/passwd", 1}}}, ""},
		"nothing is known":                {nil, Positions{}, ""},
		"not cleaned, so not of the tree": {nil, Positions{get: {{"net/../x.c", 1}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rep := parseToDecode(t, oopsToDecode)
			rep.Decode(c.at, c.prefer)
			got := ""
			if p := rep.Reports[0].At; p != nil {
				got = p.String()
			}
			if got != c.want {
				t.Errorf("points at %q, want %q", got, c.want)
			}
			f := Findings(rep)[0]
			if c.want != "" && fmt.Sprintf("%s:%d", f.Where.File, f.Where.Line) != c.want || c.want == "" && (f.Where.File != "" || f.Where.Line != 1) {
				t.Errorf("the finding is at %+v", f.Where)
			}
		})
	}
	rep := parseToDecode(t, oopsToDecode)
	old := rep.Reports[0].Text
	rep.Decode(at, nil)
	text := strings.Join(rep.Reports[0].Text, "\n")
	for _, want := range []string{
		"RIP: 0010:demo_get+0x10/0x20 (include/linux/demo.h:37 lib/get.c:12)\n",
		" ? demo_stale+0x1/0x2 (net/demo/stale.c:1)\n",
		" demo_accept.isra.0+0x1c/0x2f0 [demo 0123456789abcdef] (net/demo/accept.c:210)\n",
		" demo_thread+0x5/0x10\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(strings.Join(old, "\n"), "accept.c") {
		t.Error("the text that the report shared was changed")
	}
	// Decoding again finds nothing left to do.
	if left := rep.Symbols(0); len(left) != 2 {
		t.Errorf("left to decode: %v", left)
	}
	rep.Decode(at, nil)
	if again := strings.Join(rep.Reports[0].Text, "\n"); again != text {
		t.Errorf("decoded twice:\n%s", again)
	}
	rep = parseToDecode(t, oopsToDecode)
	rep.Decode(Positions{get: {{"lib/\x1b[31mget.c", 12}}}, nil)
	if text := strings.Join(rep.Reports[0].Text, "\n"); strings.Contains(text, "\x1b") {
		t.Errorf("an escape came through: %q", text)
	}
}

func TestNotDecoded(t *testing.T) {
	f := NotDecoded("no \x1b[1maddr2line", []string{"a\x1b]0;b\x07c"})
	if f.ID != Undecoded || f.Gates() || strings.Contains(f.Message+f.Evidence[0], "\x1b") {
		t.Errorf("%+v", f)
	}
}

func FuzzPlaces(f *testing.F) {
	for l := range strings.SplitSeq(oopsToDecode, "\n") {
		f.Add(l)
	}
	f.Fuzz(func(t *testing.T, l string) {
		for _, p := range placesIn(l) {
			if s := p.sym.String(); strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+/ []-") != "" {
				t.Errorf("%q gives %q", l, s)
			}
		}
		decodeLines([]string{l}, Positions{{Name: "a", Offset: 1, Size: 1}: {{"a.c", 1}}})
	})
}
