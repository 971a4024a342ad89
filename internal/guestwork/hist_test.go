// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchcheck/internal/guestproto"
)

const histFlags = `# event histogram
#
# trigger info: hist:keys=flags,granted,len:vals=hitcount:sort=hitcount:size=4096 [active]
#

{ flags:          2, granted:        256, len:        144 } hitcount:          2
{ flags:         10, granted:        256, len:         36 } hitcount:         41
{ flags:         10, granted:        256, len:        124 } hitcount:       2048

Totals:
    Hits: 2091
    Entries: 3
    Dropped: 0
`

// Two processes of one name, a name with a bracket, and a negative number.
const histExec = `# event histogram
#
# trigger info: hist:keys=ret,common_pid.execname:vals=hitcount:sort=hitcount:size=4096 [active]
#

{ ret: 18446744073709551594, common_pid: nfsd            [        71] } hitcount:          9
{ ret: 18446744073709551594, common_pid: nfsd            [        72] } hitcount:          1
{ ret:          0, common_pid: kworker/u4:[x]  [        12] } hitcount:          1
{ ret:          0, common_pid: nfsd            [        72] } hitcount:          1

Totals:
    Hits: 12
    Entries: 4
    Dropped: 3
`

// Two triggers on one event, the second with a filter.
const histTwo = `# event histogram
#
# trigger info: hist:keys=common_type:vals=hitcount:sort=hitcount:size=4096 [active]
#

{ common_type:        812 } hitcount:       5903

Totals:
    Hits: 5903
    Entries: 1
    Dropped: 0


# event histogram
#
# trigger info: hist:keys=cq_id:vals=hitcount:sort=hitcount:size=2048 if status != 0 && cq_id > 1 [active]
#


Totals:
    Hits: 0
    Entries: 0
    Dropped: 0
`

const histStrings = `# event histogram
#
# trigger info: hist:keys=device,port.hex:vals=hitcount:sort=hitcount:size=2048 [active]
#

{ device: rxe0, port: 1 } x                                 , port: 4e51 } hitcount:          7

Totals:
    Hits: 7
    Entries: 1
    Dropped: 0
`

func keysOf(t *testing.T, signed string, specs ...string) []histKey {
	t.Helper()
	keys, err := parseKeys(specs)
	if err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		keys[i].signed = keys[i].field == signed
	}
	return keys
}

func TestParseHist(t *testing.T) {
	row := func(hits int64, kv ...string) guestproto.HistRow {
		r := guestproto.HistRow{Keys: map[string]string{}, Hits: hits}
		for i := 0; i < len(kv); i += 2 {
			r.Keys[kv[i]] = kv[i+1]
		}
		return r
	}
	for _, tt := range []struct {
		name, text, filter string
		keys               []histKey
		want               guestproto.Hist
	}{
		{"numbers", histFlags, "", keysOf(t, "", "flags", "granted", "len"), guestproto.Hist{
			Rows: []guestproto.HistRow{
				row(41, "flags", "10", "granted", "256", "len", "36"),
				row(2048, "flags", "10", "granted", "256", "len", "124"),
				row(2, "flags", "2", "granted", "256", "len", "144"),
			}, Hits: 2091, Entries: 3}},
		{"execname summed, signed, dropped", histExec, "", keysOf(t, "ret", "ret", "common_pid.execname"), guestproto.Hist{
			Rows: []guestproto.HistRow{
				row(1, "ret", "0", "execname", "nfsd"),
				row(10, "ret", "-22", "execname", "nfsd"),
				row(1, "ret", "0", "execname", "kworker/u4:[x]"),
			}, Hits: 12, Entries: 4, Dropped: 3}},
		{"no key", histTwo, "", keysOf(t, ""), guestproto.Hist{Rows: []guestproto.HistRow{row(5903)}, Hits: 5903, Entries: 1}},
		{"second trigger, empty", histTwo, "status != 0 && cq_id > 1", keysOf(t, "", "cq_id"), guestproto.Hist{Rows: []guestproto.HistRow{}}},
		{"string with separators, hex", histStrings, "", keysOf(t, "", "device", "port.hex"), guestproto.Hist{
			Rows: []guestproto.HistRow{row(7, "device", "rxe0, port: 1 } x", "port", "20049")}, Hits: 7, Entries: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseHist(tt.text, tt.keys, tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			less := func(h guestproto.Hist) map[string]int64 {
				m := map[string]int64{}
				for _, r := range h.Rows {
					m[rowID(r.Keys)] += r.Hits
				}
				return m
			}
			if d := cmp.Diff(less(tt.want), less(got)); d != "" || len(got.Rows) != len(tt.want.Rows) {
				t.Errorf("rows (-want +got):\n%s", d)
			}
			got.Rows, tt.want.Rows = nil, nil
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("totals (-want +got):\n%s", d)
			}
		})
	}
}

// A histogram that was cut short, or that is not the one asked for, must never
// become a number.
func TestParseHistRefuses(t *testing.T) {
	keys := keysOf(t, "", "flags", "granted", "len")
	for name, text := range map[string]string{
		"empty":          "",
		"other keys":     strings.Replace(histFlags, "keys=flags,granted,len", "keys=flags", 1),
		"other filter":   strings.Replace(histFlags, " [active]", " if len > 3 [active]", 1),
		"no totals":      histFlags[:strings.Index(histFlags, "Totals")],
		"cut in totals":  histFlags[:strings.Index(histFlags, "    Dropped")],
		"row is missing": strings.Replace(histFlags, "{ flags:          2, granted:        256, len:        144 } hitcount:          2\n", "", 1),
		"no such key":    strings.Replace(histFlags, "granted:        256, len:         36", "grant:        256, len:         36", 1),
		"no count":       strings.Replace(histFlags, "hitcount:         41", "hitcount:", 1),
		"more than all":  strings.Replace(histFlags, "Hits: 2091", "Hits: 2090", 1),
		"noise":          strings.Replace(histFlags, "\nTotals", "[LOST 3 EVENTS]\nTotals", 1),
		"bad total":      strings.Replace(histFlags, "Dropped: 0", "Dropped: x", 1),
	} {
		if h, err := parseHist(text, keys, ""); err == nil {
			t.Errorf("%s: gave %+v and no error", name, h)
		}
	}
}

func FuzzParseHist(f *testing.F) {
	for _, s := range []string{histFlags, histExec, histTwo, histStrings} {
		f.Add(s, "flags", "common_pid.execname")
	}
	f.Fuzz(func(t *testing.T, text, k1, k2 string) {
		keys, err := parseKeys([]string{k1, k2})
		if err != nil {
			return
		}
		h, err := parseHist(text, keys, "")
		if err == nil && h.Entries < int64(len(h.Rows)) {
			t.Errorf("%d rows of %d entries", len(h.Rows), h.Entries)
		}
	})
}

func TestParseFormat(t *testing.T) {
	const format = `name: qp_create
ID: 812
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:unsigned long __probe_func;	offset:8;	size:8;	signed:0;
	field:s32 ret;	offset:24;	size:4;	signed:1;
	field:char comm[16];	offset:28;	size:16;	signed:0;
	field:const char * name;	offset:44;	size:8;	signed:0;

print fmt: "(%lx <- %lx) ret=%d", REC->__probe_func, REC->__probe_ret_ip, REC->ret
`
	got := parseFormat(format)
	want := map[string]bool{"common_type": false, "common_pid": true, "__probe_func": false, "ret": true, "comm": false, "name": false}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestNewProbe(t *testing.T) {
	for _, tt := range []struct {
		name    string
		probe   guestproto.Probe
		own     string
		event   string
		command string
	}{
		{"tracepoint", guestproto.Probe{Name: "sends", Tracepoint: "svcrdma_post_send",
			Fields: []guestproto.Field{{Name: "flags", Fetch: "+56($arg1):x32"}, {Name: "len", Fetch: "+8(+40($arg1)):u32"}}, Keys: []string{"flags", "len"}},
			"t:patchcheck/sends svcrdma_post_send flags=+56($arg1):x32 len=+8(+40($arg1)):u32", "patchcheck/sends", "hist:keys=flags,len:size=4096"},
		{"return", guestproto.Probe{Name: "qp-create", Return: "rdma_create_qp", Fields: []guestproto.Field{{Name: "ret", Fetch: "$retval:s32"}}, Keys: []string{"ret", "common_pid.execname"}, Filter: "ret != 0", Size: 512},
			"f:patchcheck/qp_create rdma_create_qp%return ret=$retval:s32", "patchcheck/qp_create", "hist:keys=ret,common_pid.execname:size=512 if ret != 0"},
		{"function", guestproto.Probe{Name: "f", Function: "svc_rdma_sendto"}, "f:patchcheck/f svc_rdma_sendto", "patchcheck/f", "hist:keys=common_type:size=4096"},
		{"event", guestproto.Probe{Name: "done", Event: "rpcrdma/svcrdma_wc_send"}, "", "rpcrdma/svcrdma_wc_send", "hist:keys=common_type:size=4096"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := newProbe(&tt.probe)
			if err != nil {
				t.Fatal(err)
			}
			if p.own != tt.own || p.event != tt.event || p.command("") != tt.command {
				t.Errorf("own %q, event %q, command %q", p.own, p.event, p.command(""))
			}
			if c := p.command("clear"); !strings.Contains(c, ":clear") || strings.Contains(tt.command, " if ") && !strings.HasSuffix(c, ":clear if ret != 0") {
				t.Errorf("clear command %q", c)
			}
		})
	}
}

func TestNewProbeRefuses(t *testing.T) {
	for name, p := range map[string]guestproto.Probe{
		"no name":        {Tracepoint: "x"},
		"no source":      {Name: "a"},
		"two sources":    {Name: "a", Tracepoint: "x", Function: "y"},
		"bad name":       {Name: "1/a", Tracepoint: "x"},
		"spaces":         {Name: "a", Function: "x y"},
		"bad field":      {Name: "a", Function: "x", Fields: []guestproto.Field{{Name: "a b", Fetch: "$arg1"}}},
		"bad fetch":      {Name: "a", Function: "x", Fields: []guestproto.Field{{Name: "a", Fetch: "$arg1 +0($stack)"}}},
		"event form":     {Name: "a", Event: "noslash"},
		"event fields":   {Name: "a", Event: "g/e", Fields: []guestproto.Field{{Name: "a", Fetch: "$arg1"}}},
		"event escape":   {Name: "a", Event: "../../x"},
		"four keys":      {Name: "a", Function: "x", Keys: []string{"a", "b", "c", "d"}},
		"bad key":        {Name: "a", Function: "x", Keys: []string{"a:clear"}},
		"bad modifier":   {Name: "a", Function: "x", Keys: []string{"a.buckets"}},
		"execname":       {Name: "a", Function: "x", Keys: []string{"a.execname"}},
		"stack trace":    {Name: "a", Function: "x", Keys: []string{"common_stacktrace"}},
		"size":           {Name: "a", Function: "x", Size: 3000},
		"size too small": {Name: "a", Function: "x", Size: 64},
		"filter":         {Name: "a", Function: "x", Filter: "a > 1\n!hist"},
	} {
		if got, err := newProbe(&p); class(err) != guestproto.ClassUsage {
			t.Errorf("%s: %+v, %v; want a usage error", name, got, err)
		}
	}
}

func TestLastTraceError(t *testing.T) {
	const log = `[   12.034] trace_fprobe: error: Failed to find symbol
  Command: f:patchcheck/a nosuch
                          ^
[   13.001] hist:patchcheck:b: error: Couldn't find field
  Command: hist:keys=nofield:size=4096
                     ^
`
	got := lastTraceError(log)
	if !strings.HasPrefix(got, "[   13.001]") || !strings.HasSuffix(got, "^") {
		t.Errorf("got %q", got)
	}
	if lastTraceError("") != "" {
		t.Error("an empty log gives something")
	}
}

// A probe on a tracepoint that is not there would count 0 and look right.
func TestHasTracepoint(t *testing.T) {
	w := fakeRoot(t, map[string]string{
		"/sys/kernel/tracing/events/rpcrdma/svcrdma_post_send/format": "",
		"/proc/kallsyms": "0000000000000000 D __tracepoint_sched_util_est_se_tp\n0000000000000000 d __tracepoint_in_module\t[rpcrdma]\n",
	})
	for name, want := range map[string]bool{
		"svcrdma_post_send": true, "sched_util_est_se_tp": true, "in_module": true,
		"nosuch": false, "util_est_se_tp": false, "svcrdma_post": false,
	} {
		if got := w.hasTracepoint(name); got != want {
			t.Errorf("hasTracepoint(%s) = %t", name, got)
		}
	}
}
