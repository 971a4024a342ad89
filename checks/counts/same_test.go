// SPDX-License-Identifier: Apache-2.0

package counts

import (
	"strings"
	"testing"

	"patchcheck/checks"
	"patchcheck/internal/guestproto"
	"patchcheck/testplans"
)

func TestSame(t *testing.T) {
	hist := func(pairs ...any) guestproto.Hist {
		var h guestproto.Hist
		for i := 0; i < len(pairs); i += 2 {
			n := int64(pairs[i+1].(int))
			// A row for each number of WRs: kinds are made of the plan's keys alone.
			h.Rows = append(h.Rows, guestproto.HistRow{Keys: map[string]string{"len": pairs[i].(string), "wrs": "1"}, Hits: n - 1},
				guestproto.HistRow{Keys: map[string]string{"len": pairs[i].(string), "wrs": "2"}, Hits: 1})
			h.Hits += n
		}
		return h
	}
	x := testplans.Same{ID: "replies", Count: "replies", Keys: []string{"len"}, Why: "contents stay"}
	base := hist("100", 500, "132", 1000, "212", 500)
	for _, c := range []struct {
		name    string
		patched guestproto.Hist
		want    string // part of the evidence; "" for the same
	}{
		{"the same", base, ""},
		{"a few more by the clock", hist("100", 510, "132", 1000, "212", 500, "88", 3), ""},
		{"another length", hist("112", 500, "132", 1000, "212", 500), "len 100: 500 on base, 0 patched\nlen 112: 0 on base, 500 patched"},
		{"some of them", hist("100", 480, "132", 1000, "212", 500, "104", 20), "len 100: 500 on base, 480 patched"},
		{"nothing", guestproto.Hist{}, "len 132: 1000 on base, 0 patched"},
	} {
		f, differ := Same(x, checks.Where{Cell: "c"}, base, c.patched)
		if differ != (c.want != "") || !strings.Contains(strings.Join(f.Evidence, "\n"), c.want) {
			t.Errorf("%s: %v %+v", c.name, differ, f)
		}
		if differ && (f.ID != "count.same" || !strings.Contains(f.Message, "of 2000: contents stay")) {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
}
