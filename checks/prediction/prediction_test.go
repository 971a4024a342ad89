// SPDX-License-Identifier: Apache-2.0

package prediction

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"patchcheck/checks/counts"
	"patchcheck/internal/guestproto"
	"patchcheck/testplans"
)

// replies are sizes of a made-up workload: how many, and whether such a Reply
// stands alone in its chain.
var replies = []struct {
	size  int64
	alone bool
	n     int64
}{{28, false, 40}, {52, true, 1}, {112, true, 30}, {164, true, 500}, {180, false, 480}, {216, true, 20}, {256, true, 60}, {300, true, 7}}

// cell makes a cell in which fits decides what goes inline.
func cell(p *testplans.Plan, role, device, nfs string, limit int64, fits func(size int64, alone bool) bool) Cell {
	c := Cell{Spec: testplans.Cell{Kernel: role, Device: testplans.Device{Name: device}, NFS: nfs}}
	var h guestproto.Hist
	for _, r := range replies {
		flags := "2"
		if fits(r.size, r.alone) {
			flags = "10"
		}
		keys := map[string]string{"flags": flags, "len": fmt.Sprint(r.size), "wrs": "2"}
		if r.alone {
			keys["wrs"] = "1"
		}
		if role == testplans.RolePatched {
			keys["granted"] = fmt.Sprint(limit)
		} else {
			c.Absent = []string{"sends.granted"}
		}
		h.Rows = append(h.Rows, guestproto.HistRow{Keys: keys, Hits: r.n})
		h.Hits += r.n
	}
	// The same Sends by shape only: what a plan can record for any kernel.
	shapes := guestproto.Hist{Hits: h.Hits}
	for _, row := range h.Rows {
		shapes.Rows = append(shapes.Rows, guestproto.HistRow{Keys: map[string]string{"len": row.Keys["len"], "wrs": row.Keys["wrs"]}, Hits: row.Hits})
	}
	c.Hists = map[string]guestproto.Hist{"sends": h, "shapes": shapes}
	c.Values = counts.Values(p, c.Spec, c.Hists, c.Absent)
	return c
}

func plan(t *testing.T) *testplans.Plan {
	t.Helper()
	p, err := testplans.Load("svcrdma-inline")
	if err != nil {
		t.Fatal(err)
	}
	p.Axes.NFS = []string{"3"}
	p.Predict = &testplans.Predict{Value: "inline", Count: "sends", Size: "len", Limit: "granted", UpTo: 1024}
	return p
}

func upTo(limit int64) func(int64, bool) bool {
	return func(size int64, alone bool) bool { return alone && size <= limit }
}

func TestPredictFromLargestLimit(t *testing.T) {
	p := plan(t)
	r := Predict(p, []Cell{
		cell(p, "patched", "none", "3", 256, upTo(256)),
		cell(p, "patched", "intel-216", "3", 216, upTo(216)),
		cell(p, "patched", "intel-101", "3", 101, upTo(101)),
		cell(p, "patched", "rxe-8", "3", 0, upTo(0)),
		cell(p, "base", "none", "3", 0, func(int64, bool) bool { return false }),
	})
	if len(r.Curves) != 1 || r.Curves[0].From != "patched/none/v3" || r.Curves[0].Exact != 256 {
		t.Fatalf("curves: %+v (%s)", r.Curves, r.Missing)
	}
	for limit, want := range map[int64][2]int64{0: {0, 0}, 51: {0, 0}, 52: {1, 1}, 163: {31, 31}, 164: {531, 531}, 255: {551, 551}, 256: {611, 611}, 299: {611, 611}, 300: {611, 618}, 1024: {611, 618}} {
		if s := r.Curves[0].At(limit); s.Low != want[0] || s.High != want[1] {
			t.Errorf("at %d: %d to %d, want %v", limit, s.Low, s.High, want)
		}
	}
	var got []string
	for _, m := range r.Measured {
		got = append(got, fmt.Sprintf("%s@%d=%d %v", m.Device, m.Limit, m.Value, m.Agrees))
	}
	want := []string{"none@256=611 true", "intel-216@216=551 true", "intel-101@101=1 true", "rxe-8@0=0 true"}
	if !reflect.DeepEqual(got, want) || len(r.Findings) != 0 {
		t.Errorf("measured %v, want %v; findings %v", got, want, r.Findings)
	}
}

// With a condition on rows the base kernel, which inlines nothing, predicts
// the whole range.
func TestPredictFromBase(t *testing.T) {
	p := plan(t)
	p.Predict.Where = "wrs == 1"
	never := func(int64, bool) bool { return false }
	r := Predict(p, []Cell{cell(p, "patched", "none", "3", 256, upTo(256)), cell(p, "base", "none", "3", 0, never)})
	c := r.Curves[0]
	if c.From != "base/none/v3" || c.Exact != 1024 || c.At(300) != (Step{300, 618, 618}) || len(r.Findings) != 0 || !r.Measured[0].Agrees {
		t.Errorf("%+v %+v %v", c, r.Measured, r.Findings)
	}
	// From a count of its own that does not know what was inline.
	p.Predict.Count = "shapes"
	r = Predict(p, []Cell{cell(p, "patched", "none", "3", 256, upTo(255)), cell(p, "base", "none", "3", 0, never)})
	if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Message, "611 predicted from the sizes in base/none/v3, 551 measured") || !strings.Contains(r.Findings[0].Evidence[0], "164: 500, 180: 480") {
		t.Errorf("%+v", r.Findings)
	}
	p.Predict.Where = "nosuch == 1"
	if r := Predict(p, []Cell{cell(p, "base", "none", "3", 0, never)}); r.Missing == "" {
		t.Errorf("a condition on a key that the rows lack: %+v", r)
	}
}

func TestDisagreement(t *testing.T) {
	p := plan(t)
	good := cell(p, "patched", "none", "3", 256, upTo(256))
	for _, c := range []struct {
		name string
		cell Cell
		want string
	}{
		{"less than instead of at most", cell(p, "patched", "intel-216", "3", 216, upTo(215)), "differ at 216 bytes: 551 predicted from the sizes in patched/none/v3, 531 measured"},
		{"READ Replies inline too", cell(p, "patched", "intel-216", "3", 216, func(size int64, _ bool) bool { return size <= 216 }), "551 predicted from the sizes in patched/none/v3, 1071 measured"},
		{"limit ignored", cell(p, "patched", "intel-48", "3", 48, upTo(256)), "0 predicted from the sizes in patched/none/v3, 611 measured"},
	} {
		r := Predict(p, []Cell{good, c.cell})
		if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Message, c.want) || r.Measured[1].Agrees || len(r.Findings[0].Evidence) == 0 {
			t.Errorf("%s: %+v, want %s", c.name, r.Findings, c.want)
		}
	}
	// Of a cell that did other work nothing is claimed.
	more := cell(p, "patched", "intel-216", "3", 216, upTo(215))
	h := more.Hists["sends"]
	h.Hits++
	more.Hists["sends"] = h
	if r := Predict(p, []Cell{good, more}); len(r.Findings) != 1 || r.Findings[0].ID != "prediction.workload" {
		t.Errorf("other workload: %+v", r.Findings)
	}
	// A reference that exceeds its own limit contradicts itself.
	if r := Predict(p, []Cell{cell(p, "patched", "none", "3", 256, upTo(1000))}); len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Message, "differ at 256 bytes: of 618 that were inline, only 611 are no larger") {
		t.Errorf("too long inline: %+v", r.Findings)
	}
}

func TestNothingToPredict(t *testing.T) {
	p := plan(t)
	if r := Predict(p, nil); r.Missing == "" {
		t.Error("no cells, but no reason")
	}
	p.Predict = nil
	if r := Predict(p, nil); r.Missing == "" {
		t.Error("no predict section, but no reason")
	}
}
