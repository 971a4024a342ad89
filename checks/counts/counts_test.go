// SPDX-License-Identifier: Apache-2.0

package counts

import (
	"strings"
	"testing"

	"patchcheck/internal/guestproto"
	"patchcheck/testplans"
)

func row(hits int64, kv ...string) guestproto.HistRow {
	m := map[string]string{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return guestproto.HistRow{Keys: m, Hits: hits}
}

func hist(rows ...guestproto.HistRow) guestproto.Hist {
	h := guestproto.Hist{Rows: rows, Entries: int64(len(rows))}
	for _, r := range rows {
		h.Hits += r.Hits
	}
	return h
}

// good is what a right kernel gives on the device with a limit of 216.
func good() map[string]guestproto.Hist {
	return map[string]guestproto.Hist{
		"sends": hist(
			row(2500, "flags", "10", "len", "180", "granted", "216"),
			row(2300, "flags", "2", "len", "144", "granted", "216"),
			row(5, "flags", "2", "len", "300", "granted", "216")),
		"shapes":            hist(row(4805, "wrs", "1", "sges", "1", "len", "180")),
		"replies":           hist(row(4805, "len", "180", "opcode", "2")),
		"completions":       hist(row(4805)),
		"completions_flush": {},
		"completions_err":   {},
		"qp_create": hist(
			row(1, "ret", "0", "common_pid.execname", "nfsd"),
			row(1, "ret", "0", "common_pid.execname", "kworker/u8:1")),
	}
}

// Each mutation of the facts must be caught by the named condition; the
// unchanged facts pass.
func TestEvaluate(t *testing.T) {
	p, err := testplans.Load("svcrdma-inline")
	if err != nil {
		t.Fatal(err)
	}
	cell := p.Cells()[2] // patched/intel-216/v3
	for _, c := range []struct {
		name    string
		mutate  func(map[string]guestproto.Hist)
		want    string
		invalid bool
	}{
		{name: "right", mutate: func(map[string]guestproto.Hist) {}},
		{name: "an event was dropped", want: "dropped 1", invalid: true, mutate: func(h map[string]guestproto.Hist) {
			s := h["sends"]
			s.Dropped = 1
			h["sends"] = s
		}},
		{name: "a probe was missed", want: "missed 3", invalid: true, mutate: func(h map[string]guestproto.Hist) {
			s := h["sends"]
			s.Missed = 3
			h["sends"] = s
		}},
		{name: "no histogram", want: "gave no histogram", invalid: true, mutate: func(h map[string]guestproto.Hist) { delete(h, "completions") }},
		{name: "rows do not add up", want: "lists 4805 events of 4806", invalid: true, mutate: func(h map[string]guestproto.Hist) {
			s := h["sends"]
			s.Hits++
			h["sends"] = s
		}},
		{name: "a completion is missing", want: "completed: expected", mutate: func(h map[string]guestproto.Hist) { h["completions"] = hist(row(4804)) }},
		{name: "device grants too much", want: "granted: expected granted == device.got, but device.got is 216, granted is 256", mutate: func(h map[string]guestproto.Hist) {
			for i := range h["sends"].Rows {
				h["sends"].Rows[i].Keys["granted"] = "256"
			}
		}},
		{name: "two grants", want: "several values", mutate: func(h map[string]guestproto.Hist) { h["sends"].Rows[2].Keys["granted"] = "96" }},
		{name: "needless refusals", want: "refused: expected", mutate: func(h map[string]guestproto.Hist) {
			h["qp_create"] = hist(append(h["qp_create"].Rows, row(2, "ret", "-22", "common_pid.execname", "nfsd"))...)
		}},
		{name: "nothing inline", want: "inline-some: expected", mutate: func(h map[string]guestproto.Hist) { h["sends"].Rows[0].Keys["flags"] = "2" }},
		{name: "inline above the limit", want: "inline-limit: expected", mutate: func(h map[string]guestproto.Hist) { h["sends"].Rows[2].Keys["flags"] = "10" }},
		{name: "odd flag", want: "flags: expected", mutate: func(h map[string]guestproto.Hist) { h["sends"].Rows[1].Keys["flags"] = "6" }},
		{name: "not signaled", want: "flags: expected", mutate: func(h map[string]guestproto.Hist) { h["sends"].Rows[1].Keys["flags"] = "0" }},
		{name: "no Sends at all", want: "granted was never seen", mutate: func(h map[string]guestproto.Hist) {
			h["sends"] = guestproto.Hist{}
			h["completions"] = guestproto.Hist{}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := good()
			c.mutate(h)
			r := Evaluate(p, cell, h, nil)
			var all []string
			for _, f := range r.Findings {
				all = append(all, f.Message)
			}
			text := strings.Join(all, "\n")
			if c.want == "" && text != "" {
				t.Errorf("false alarm:\n%s", text)
			}
			if !strings.Contains(text, c.want) || r.Invalid != c.invalid {
				t.Errorf("want %q (invalid %v), got (invalid %v):\n%s", c.want, c.invalid, r.Invalid, text)
			}
		})
	}
}

func TestBaseKernelLacksField(t *testing.T) {
	p, _ := testplans.Load("svcrdma-inline")
	cells := p.Cells()
	cell := cells[len(cells)-1]
	h := good()
	h["sends"] = hist(row(4805, "flags", "2", "len", "180"))
	r := Evaluate(p, cell, h, []string{"sends.granted"})
	if len(r.Findings) != 0 {
		t.Errorf("false alarm on base: %+v", r.Findings)
	}
	if _, ok := r.Values["granted"]; ok || r.Values["by_reference"] != 4805 {
		t.Errorf("values: %v", r.Values)
	}
	// A base that posts inline is not the base we think it is.
	h["sends"] = hist(row(2400, "flags", "10", "len", "180"), row(2405, "flags", "2", "len", "180"))
	if r := Evaluate(p, cell, h, []string{"sends.granted"}); len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Message, "inline-none") {
		t.Errorf("inline Sends on base went unnoticed: %+v", r.Findings)
	}
}

func TestMentions(t *testing.T) {
	for _, c := range []struct {
		src, name string
		want      bool
	}{
		{"granted == device.got", "granted", true},
		{"granted == device.got", "got", false},
		{"inline_x > 1", "inline", false},
		{"a+inline>1", "inline", true},
	} {
		if got := mentions(c.src, c.name); got != c.want {
			t.Errorf("mentions(%q, %q) = %v", c.src, c.name, got)
		}
	}
}

func TestSum(t *testing.T) {
	a := map[string]guestproto.Hist{"x": hist(row(2, "k", "1"), row(3, "k", "2"))}
	b := map[string]guestproto.Hist{"x": hist(row(5, "k", "2"), row(7, "k", "3")), "y": hist(row(1))}
	s := Sum(a, b)
	if s["x"].Hits != 17 || s["x"].Entries != 3 || s["x"].Rows[1].Hits != 8 || s["y"].Hits != 1 {
		t.Errorf("%+v", s)
	}
	if a["x"].Rows[1].Hits != 3 {
		t.Error("the summands changed")
	}
}
