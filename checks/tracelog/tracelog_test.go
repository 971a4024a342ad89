// SPDX-License-Identifier: Apache-2.0

package tracelog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchcheck/checks"
	"patchcheck/internal/sharedtest"
)

const clean = "entries: 10\noverrun: 0\ncommit overrun: 0\nbytes: 400\noldest event ts:  1.5\nnow ts:  2.5\ndropped events: 0\nread events: 10\n"

func stats(t *testing.T, cpu int, text string) RingStats {
	s, err := ParseRingStats(cpu, text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParseRingStats(t *testing.T) {
	s := stats(t, 1, strings.NewReplacer("overrun: 0\nc", "overrun: 7\nc", "dropped events: 0", "dropped events: 3").Replace(clean))
	if s.Lost() != 10 || s.Entries != 10 || s.Read != 10 || s.CPU != 1 {
		t.Errorf("%+v", s)
	}
	for _, bad := range []string{"", "entries: 1\n", strings.Replace(clean, "dropped events: 0\n", "", 1), strings.Replace(clean, "overrun: 0", "overrun: many", 1), strings.Replace(clean, "overrun: 0", "overrun: -1", 1)} {
		if _, err := ParseRingStats(0, bad); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

const head = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 4/4   #P:2\n#\n"
const lines = `            nfsd-1423    [001] ..... 5129.310022: svcrdma_post_send: cq.id=1 cid=7
 kworker/1:2-xp-88       [000] d.h1. 5129.310031: xprtrdma_reply: xid=0x1
           <...>-12      (-------) [001] ..... 5129.310040: demo:other: a b
            nfsd-1423    [001]  5129.310050: svcrdma_post_send: cq.id=1 cid=8
`

func TestEvaluate(t *testing.T) {
	ok := []RingStats{stats(t, 0, clean), stats(t, 1, clean)}
	lossy := stats(t, 1, strings.Replace(clean, "overrun: 0", "overrun: 5321", 1))
	for _, c := range []struct {
		name, text string
		stats      []RingStats
		valid      bool
		shown      string
		lost       int64
	}{
		{"whole", head + lines, ok, true, "2", 0},
		{"overrun of one CPU", head + lines, []RingStats{ok[0], lossy}, false, "INVALID (LOST 5321)", 5321},
		{"gap in the text", head + " CPU:1 [LOST 17 EVENTS]\n" + lines, ok, false, "INVALID (LOST 17)", 17},
		{"gap of unknown size", head + "CPU:1 [LOST EVENTS]\n" + lines, ok, false, "INVALID (LOST 0)", 0},
		{"header tells of more", strings.Replace(head, "4/4", "4/90", 1) + lines, ok, false, "INVALID (LOST 86)", 86},
		{"no statistics", head + lines, nil, false, "INVALID (LOST 0)", 0},
		{"garbage line", head + lines + "half a li", ok, false, "INVALID (LOST 0)", 0},
	} {
		tr, err := Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		got := Evaluate(tr, c.stats)
		if got.Valid != c.valid || got.String("svcrdma_post_send") != c.shown || got.Lost != c.lost {
			t.Errorf("%s: %+v %s", c.name, got, got.String("svcrdma_post_send"))
		}
		if fs := got.Findings(checks.Where{}); (len(fs) == 0) != c.valid {
			t.Errorf("%s: findings %+v", c.name, fs)
		}
	}
}

func TestEventFields(t *testing.T) {
	tr, _ := Parse(head + lines)
	if len(tr.Events) != 4 || tr.Unread != 0 {
		t.Fatalf("%+v", tr)
	}
	e := tr.Events[1]
	if e.Task != "kworker/1:2-xp" || e.PID != 88 || e.CPU != 0 || e.Name != "xprtrdma_reply" || e.Text != "xid=0x1" || e.Time != 5129.310031 {
		t.Errorf("%+v", e)
	}
}

func TestPairs(t *testing.T) {
	text := head + `   c-1 [000] ..... 1.000000: req: x=1
   c-1 [000] ..... 1.100000: rep: x=1
   c-1 [000] ..... 1.200000: req: x=2
 CPU:1 [LOST 3 EVENTS]
   c-1 [001] ..... 1.300000: rep: x=2
   c-1 [001] ..... 1.400000: rep: x=9
   c-1 [001] ..... 1.500000: req: x=3
`
	tr, _ := Parse(text)
	key := func(name string) func(Event) string {
		return func(e Event) string {
			if e.Name == name {
				return e.Text
			}
			return ""
		}
	}
	ps, discarded, open := Pairs(tr, key("req"), key("rep"))
	if len(ps) != 1 || ps[0].Request.Text != "x=1" || discarded != 2 || open != 1 {
		t.Errorf("%+v discarded %d open %d", ps, discarded, open)
	}
}

func TestCheckBufferSize(t *testing.T) {
	for _, c := range []struct {
		read string
		bad  bool
	}{{"8195\n", false}, {"8192", false}, {"1408", true}, {"7 (expanded: 1408)\n", true}, {"X", true}} {
		if f, bad := CheckBufferSize("patchcheck", 8192, c.read); bad != c.bad {
			t.Errorf("%q: %v %+v", c.read, bad, f)
		}
	}
}

// The public samples, when they are there.
func TestSamples(t *testing.T) {
	dir := sharedtest.Path(t, "cases", "samples")
	read := func(n string) string {
		b, err := os.ReadFile(filepath.Join(dir, n))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	tr, err := Parse(read("B80-trace.txt"))
	if err != nil {
		t.Fatal(err)
	}
	c := Evaluate(tr, []RingStats{stats(t, 0, read("B80-cpu0-stats.txt")), stats(t, 1, read("B80-cpu1-stats.txt"))})
	if c.Valid || c.Lost < 5321 || len(tr.Events) != 3 || tr.Unread != 0 {
		t.Errorf("%+v", c)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(head + lines)
	f.Add("CPU:1 [LOST 99999999999999999999 EVENTS]\n")
	f.Fuzz(func(t *testing.T, s string) {
		tr, err := Parse(s)
		if err == nil {
			Evaluate(tr, nil)
		}
		ParseRingStats(0, s)
	})
}

func TestKey(t *testing.T) {
	k := Key("demo_send", "cq.id", "cid")
	for text, want := range map[string]string{
		"cq.id=1 cid=7: success":      "1 7",
		"peer (cid=0x2a, cq.id=3) ok": "3 0x2a",
		"cq.id=1 status=ok":           "",
		"acq.id=1 lucid=7":            "",
		"":                            "",
	} {
		if got := k(Event{Name: "demo_send", Text: text}); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := k(Event{Name: "demo_recv", Text: "cq.id=1 cid=7"}); got != "" {
		t.Errorf("another event: %q", got)
	}
}
