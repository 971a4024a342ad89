// SPDX-License-Identifier: Apache-2.0

package warnings

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func FuzzParse(f *testing.F) {
	for _, s := range []string{firstBuild, "ld: a.o: in function `f':\na.c:(.text+0x10): undefined reference to `g'\n",
		"WARNING: unmet direct dependencies detected for X\n  Selected by [y]:\n  - Y\n", "\x1b[31mfs/a.c:1:1: error: x\r\n", "make[1]: make: make: \n",
		"error: x\n --> a.rs:1:2\n", "In file included from a.h:1,\n                 from a.c:2:\n", "fs/x.c: note: in included file (through a, b):\n", "a.o:: undefined reference to `'\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range l.Diagnostics {
			if d.Severity == "" || d.Tool == "" || d.Raw == "" {
				t.Fatalf("incomplete diagnostic %+v", d)
			}
			if strings.ContainsAny(d.Raw, "\n\r\x1b") {
				t.Fatalf("control characters in %q", d.Raw)
			}
		}
		// A log does not differ from itself.
		if r := DiffLogs(l, l, Options{}); len(r.New)+len(r.Fixed)+len(r.Moved)+len(r.Changed)+len(r.Notes) != 0 || !r.Comparable() {
			t.Fatalf("%q differs from itself: %+v", text, r)
		}
		led := Ledger{}
		led.Update(l)
		Findings(DiffLedgers(Ledger{}, led, Options{}))
	})
}

func FuzzDiffLines(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nc\nb\n")
	f.Add("}\n}\nx\n", "}\nx\n}\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		old, new := bytes.SplitAfter([]byte(a), []byte{'\n'}), bytes.SplitAfter([]byte(b), []byte{'\n'})
		edits := DiffLines([]byte(a), []byte(b))
		m := MapEdits([]FileChange{{"f", "f", edits}})
		for i := range old {
			if _, n, ok := m("f", i+1); ok && (n < 1 || n > len(new) || !bytes.Equal(old[i], new[n-1])) {
				t.Fatalf("line %d of %q maps to %d of %q", i+1, a, n, b)
			}
		}
	})
}

// bigLog makes a log like those of a W=1 build: mostly kbuild steps, here and
// there a diagnostic with its include chain, notes and excerpt.
func bigLog(bytesWanted int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < bytesWanted; i++ {
		fmt.Fprintf(&b, "  CC      drivers/demo/unit%d.o\n", i)
		if i%4 != 0 {
			continue
		}
		fmt.Fprintf(&b, `In file included from include/linux/demo.h:5,
                 from include/linux/deeper.h:10,
                 from drivers/demo/unit%d.c:3:
drivers/demo/unit%d.c: In function 'demo_%d':
include/linux/demo.h:57:2: warning: value computed is not used [-Wunused-value]
   57 |  ((__typeof__(*(ptr))) __xchg((unsigned long) (x), (ptr), sizeof(*(ptr))))
      |  ~^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
drivers/demo/unit%d.c:%d:5: note: in expansion of macro 'xchg'
  %3d |     xchg(&req->error, error);
      |     ^~~~
`, i, i, i, i, i%900, i%900)
	}
	return b.Bytes()
}

func BenchmarkParse(b *testing.B) {
	log := bigLog(10 << 20)
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(bytes.NewReader(log)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDiffLogs(b *testing.B) {
	base := ParseString(string(bigLog(10 << 20)))
	patched := ParseString(strings.ReplaceAll(string(bigLog(10<<20)), ".h:57:", ".h:59:"))
	b.ReportAllocs()
	for b.Loop() {
		DiffLogs(base, patched, Options{})
	}
}
