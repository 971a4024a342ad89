// SPDX-License-Identifier: Apache-2.0

package fio

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchcheck/checks"
	"patchcheck/internal/sharedtest"
)

// doc makes a small fio document: one job that reads n blocks.
func doc(errno, n int, opts, clat string) string {
	if clat == "" {
		clat = fmt.Sprintf(`{"min": 900, "max": 5000, "mean": 1500.5, "N": %d, "percentile": {"50.000000": 1400, "90.000000": 2000, "99.000000": 5100, "99.900000": 4900}}`, n)
	}
	return fmt.Sprintf(`{
  "fio version" : "fio-3.33",
  "jobs" : [ { "jobname" : "j", "error" : %d, "job options" : {%s},
    "read" : { "io_bytes" : %d, "bw_bytes" : %d, "iops" : 10.5, "runtime" : 1000, "total_ios" : %d, "clat_ns" : %s,
      "lat_ns": {"min": 950, "max": 5100, "mean": 1600, "N": %d} },
    "write" : { "io_bytes" : 0, "bw_bytes" : 0, "iops" : 0, "runtime" : 0, "total_ios" : 0 } } ]
}
`, errno, opts, n*4096, n*4096, n, clat, n)
}

func parse(t *testing.T, s string) Output {
	t.Helper()
	o, err := Parse(strings.NewReader(s))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func row(o Output, qs ...float64) string {
	var s []string
	for _, r := range o.Latency(qs...) {
		s = append(s, r.Dir+" "+r.Kind)
		for _, c := range r.Cells {
			if c.OK {
				s = append(s, fmt.Sprint(c.NS))
			} else {
				s = append(s, c.Text)
			}
		}
	}
	return strings.Join(s, ", ")
}

func TestLatency(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
	}{
		{"20 I/Os", doc(0, 20, "", ""), "read clat, 1400, n/a (n=20), n/a (n=20), n/a (n=20)"},
		{"100 I/Os", doc(0, 100, "", ""), "read clat, 1400, 2000, n/a (n=100), n/a (n=100)"},
		{"bucket above max, out of order", doc(0, 20000, "", ""), "read clat, 1400, 2000, 5000, 5000"},
		{"duplicate fillers", doc(0, 1000, "", `{"min": 1, "max": 9000, "N": 1000, "percentile": {"0.00": 0, "0.00": 0, "50.000000": 7, "99.000000": 70, "0.00": 0}}`), "read clat, 7, n/a, 70, n/a"},
		{"no clat", doc(0, 1000, "", `{"min": 0, "max": 0, "mean": 0, "N": 0}`), "read lat, n/a, n/a, n/a, n/a"},
		{"failed job", doc(5, 1000, "", ""), ""},
		{"no I/O", doc(0, 0, "", ""), ""},
	} {
		if got := row(parse(t, c.in), 0.5, 0.9, 0.99, 0.999); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestVerdictAndFindings(t *testing.T) {
	for _, c := range []struct {
		name, in string
		verdict  checks.Verdict
		finding  string
	}{
		{"good", doc(0, 100, "", ""), checks.Pass, ""},
		{"ENOSPC", doc(28, 10, "", ""), checks.Fail, "fio.error: job \"j\" failed: ENOSPC"},
		{"EDQUOT", doc(122, 10, "", ""), checks.Fail, "fio.error: job \"j\" failed: EDQUOT"},
		{"alignment", doc(22, 0, `"direct": "1", "bs": "1000"`, ""), checks.Infra, "fio.alignment: SETUP(alignment)"},
		{"EINVAL of something else", doc(22, 0, `"direct": "1", "bs": "4k"`, ""), checks.Fail, "fio.error: job \"j\" failed: EINVAL"},
		{"no I/O", doc(0, 0, "", ""), checks.Infra, "fio.no-io"},
		{"normal report of an error", "j: (groupid=0, jobs=1): err= 5 (file:x.c:1, func=y, error=Input/output error): pid=64\n" + doc(5, 0, "", ""), checks.Fail, "fio.error: job \"j\" failed: EIO"},
		{"noise before", "fio: io_u error on file /mnt/x: Input/output error: read offset=0, buflen=4096\n" + doc(0, 10, "", ""), checks.Fail, "fio.noise: fio printed 1 messages: fio: io_u error"},
		{"normal report before and after", "j: (g=0): rw=read, bs=4096B\nfio-3.33\nStarting 1 process\nj: (groupid=0, jobs=1): err= 0: pid=64: Mon Nov 30\n" + doc(0, 10, "", "") + "\nRun status group 0 (all jobs):\n   READ: bw=1MiB/s\n", checks.Pass, ""},
	} {
		o := parse(t, c.in)
		if o.Verdict() != c.verdict {
			t.Errorf("%s: %s, want %s", c.name, o.Verdict(), c.verdict)
		}
		var got string
		for _, f := range o.Findings(checks.Where{}) {
			got += f.ID + ": " + f.Message + "\n"
		}
		if !strings.HasPrefix(got, c.finding) || c.finding == "" && got != "" {
			t.Errorf("%s: %q", c.name, got)
		}
		if c.verdict != checks.Pass && (Pool(o) != nil || o.Latency(0.5) != nil) {
			t.Errorf("%s: numbers of a run that is no result", c.name)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "no JSON document",
		"fio: pid=0, err=2/file:x\n":    "no JSON document",
		doc(0, 1, "", "")[:200]:         "cut off",
		"{\n \"fio version\": \"x\"\n}": "no jobs",
		"{ broken\n":                    "cannot be read",
	} {
		if _, err := Parse(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", in, err, want)
		}
	}
}

func TestComparable(t *testing.T) {
	a := parse(t, doc(0, 100, `"bs": "4k", "filename": "a"`, ""))
	for _, c := range []struct{ opts, why string }{
		{`"bs": "4k", "filename": "b"`, ""},
		{`"bs": "4096", "filename": "b"`, ""},
		{`"bs": "16k"`, `job "j": bs="4k" and "16k"`},
		{`"bs": "4k", "iodepth": "8"`, `job "j": iodepth="" and "8"`},
	} {
		ok, why := Comparable(a, parse(t, doc(0, 100, c.opts, "")))
		if ok != (c.why == "") || strings.Join(why, "; ") != c.why {
			t.Errorf("%s: %v %q", c.opts, ok, why)
		}
	}
	b := a
	b.Version = "fio-3.36"
	if _, why := Comparable(a, b); len(why) != 1 || why[0] != "fio-3.33 and fio-3.36" {
		t.Errorf("versions: %q", why)
	}
}

// binned makes a document of json+ with n I/Os in one bin of each value.
func binned(millis int, bins map[int]int) string {
	n, sum := 0, 0
	lo, hi := 1<<30, 0
	var text []string
	for v, k := range bins {
		n, sum, lo, hi = n+k, sum+v*k, min(lo, v), max(hi, v)
		text = append(text, fmt.Sprintf(`"%d": %d`, v, k))
	}
	d := doc(0, n, `"bs": "4k"`, fmt.Sprintf(`{"min": %d, "max": %d, "mean": %g, "N": %d, "bins": {%s}}`, lo, hi, float64(sum)/float64(n), n, strings.Join(text, ", ")))
	d = strings.ReplaceAll(d, `"bw_bytes" : `+fmt.Sprint(n*4096), `"bw_bytes" : `+fmt.Sprint(n*4096*1000/millis))
	return strings.ReplaceAll(d, `"runtime" : 1000`, fmt.Sprintf(`"runtime" : %d`, millis))
}

func TestPool(t *testing.T) {
	a := parse(t, binned(1000, map[int]int{1000: 990, 2000: 10}))
	b := parse(t, binned(3000, map[int]int{1000: 100, 3000: 900}))
	ps := Pool(a, b)
	if len(ps) != 1 || ps[0].Runs != 2 || ps[0].N != 2000 || ps[0].IOs != 2000 || ps[0].Min != 1000 || ps[0].Max != 3000 {
		t.Fatalf("%+v", ps)
	}
	p := ps[0]
	if want := (1010.0*1000 + 2800*1000) / 2000; p.Mean != want {
		t.Errorf("mean %g, want %g", p.Mean, want)
	}
	if math.Abs(p.BW-2000*4096/4.0) > 1 { // fio's own rates are whole numbers
		t.Errorf("bytes per second over all of the time: %g", p.BW)
	}
	// 1090 of 2000 values lie near 1000 and 900 near 3000. The mean of the two
	// runs' medians would be 2000, where hardly anything is.
	cs := p.Quantiles(0.5, 0.9, 0.99, 0.9999)
	if c := cs[0]; !c.OK || c.NS < 990 || c.NS > 1010 {
		t.Errorf("p50 %+v", c)
	}
	if c := cs[2]; !c.OK || c.NS < 2950 || c.NS > 3000 {
		t.Errorf("p99 %+v", c)
	}
	if c := cs[3]; c.OK || c.Text != "n/a (n=2000)" {
		t.Errorf("p99.99 %+v", c)
	}
	// Without bins, percentiles of two runs cannot be put together.
	plain := parse(t, doc(0, 1000, `"bs": "4k"`, ""))
	if c := Pool(plain, plain)[0].Quantiles(0.5)[0]; c.OK || c.Text != "n/a (no bins)" {
		t.Errorf("plain: %+v", c)
	}
	// numjobs without group_reporting: side by side, so the rates add up.
	two := plain
	two.Jobs = append(append([]Job(nil), plain.Jobs...), plain.Jobs...)
	if p := Pool(two); len(p) != 1 || p[0].Runs != 1 || p[0].BW != 2*1000*4096 || p[0].N != 2000 {
		t.Errorf("numjobs: %+v", p)
	}
	// Bins that do not hold all I/Os are not used.
	bad := parse(t, strings.Replace(binned(1000, map[int]int{1000: 100}), `"1000": 100`, `"1000": 7`, 1))
	if _, ok := Pool(bad)[0].Hist(); ok {
		t.Error("bins that lack I/Os were used")
	}
	if Pool(parse(t, doc(5, 10, "", ""))) != nil {
		t.Error("a failed run gave numbers")
	}
}

// The middle of fio's last bin may lie above the largest sample, and those of
// two runs' bins need not be in order with the smallest.
func TestWithinRange(t *testing.T) {
	d := strings.Replace(binned(1000, map[int]int{1096: 1000, 2064: 200}), `"min": 1096, "max": 2064`, `"min": 1094, "max": 2050`, 1)
	o := parse(t, d)
	last := 0.0
	for _, c := range Pool(o, o)[0].Quantiles(0.5, 0.9, 0.99) {
		if !c.OK || c.NS < last || c.NS < 1094 || c.NS > 2050 {
			t.Errorf("%+v after %g", c, last)
		}
		last = c.NS
	}
}

func TestBin(t *testing.T) {
	// Neighbours of fio's own list of bin values touch.
	for _, c := range []struct{ mid, lo, hi float64 }{{5, 5, 6}, {127, 127, 128}, {129, 128, 130}, {131, 130, 132}, {1096, 1088, 1104}, {1112, 1104, 1120}} {
		if b := bin(c.mid, 1); b.Lo != c.lo || b.Hi != c.hi {
			t.Errorf("%g: %+v, want %g to %g", c.mid, b, c.lo, c.hi)
		}
	}
}

func TestForms(t *testing.T) {
	// Several documents, as --status-interval writes them: the last is the result.
	o := parse(t, doc(0, 10, "", "")+doc(0, 30, "", ""))
	if o.Jobs[0].Read.IOs != 30 {
		t.Errorf("%+v", o.Jobs[0].Read)
	}
	if _, err := Parse(strings.NewReader(doc(0, 10, "", "") + doc(0, 30, "", "")[:300])); err == nil {
		t.Error("the last document is cut off")
	}
	// C's nan and inf.
	o = parse(t, strings.Replace(doc(0, 1000, "", ""), `"iops" : 10.5`, `"bw_dev" : -nan, "x" : inf, "iops" : 10.5`, 1)+"fio: trailing, err=5\n")
	if o.Jobs[0].Read.IOPS != 10.5 || len(o.Noise) != 1 {
		t.Errorf("%+v", o)
	}
	// continue_on_error: the job's own error stays 0.
	o = parse(t, strings.Replace(doc(0, 1000, "", ""), `"error" : 0,`, `"error" : 0, "total_err" : 3,`, 1))
	if o.Verdict() != checks.Fail {
		t.Error(o.Verdict())
	}
	// fio 2: microseconds and KiB.
	o = parse(t, `{"fio version": "fio-2.21", "jobs": [{"jobname": "j", "error": 0, "read": {"io_bytes": 4000, "bw": 1000, "iops": 250, "runtime": 4000, "total_ios": 1000,
		"clat": {"min": 1, "max": 50, "mean": 2.5, "stddev": 1, "percentile": {"50.000000": 2}}}, "write": {"io_bytes": 0, "total_ios": 0}}]}`)
	if p := Pool(o)[0]; p.Bytes != 4000<<10 || p.BW != 1024000 || p.Mean != 2500 || p.N != 1000 || p.Quantiles(0.5)[0].NS != 2000 {
		t.Errorf("%+v", p)
	}
	// unified_rw_reporting
	o = parse(t, strings.Replace(doc(0, 1000, "", ""), `"read" :`, `"mixed" :`, 1))
	if p := Pool(o); len(p) != 1 || p[0].Dir != "mixed" || o.Verdict() != checks.Pass {
		t.Errorf("%+v", p)
	}
}

func TestSize(t *testing.T) {
	for in, want := range map[string]int64{"1000": 1000, "4k": 4096, "1M": 1 << 20, "64KiB": 65536, "512b": 512} {
		if n, ok := size(in); !ok || n != want {
			t.Errorf("%s: %d %v", in, n, ok)
		}
	}
	if _, ok := size("big"); ok {
		t.Error("big")
	}
}

// The public samples, when they are there.
func TestSamples(t *testing.T) {
	dir := sharedtest.Path(t, "cases", "samples")
	load := func(n string) Output {
		b, err := os.ReadFile(filepath.Join(dir, n))
		if err != nil {
			t.Fatal(err)
		}
		return parse(t, string(b))
	}
	for file, want := range map[string]checks.Verdict{
		"B85-normal-plus-json.txt": checks.Pass, "B85-prefixed.json": checks.Fail, "B87-unaligned.json": checks.Infra,
		"B88-enospc.json": checks.Fail, "B89-few20.json": checks.Pass, "B92-dupkeys.json": checks.Pass, "B92-noclat.json": checks.Pass,
	} {
		if got := load(file).Verdict(); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
	if got := row(load("B89-few20.json"), 0.9, 0.99, 0.999); got != "read clat, n/a (n=20), n/a (n=20), n/a (n=20)" {
		t.Errorf("few: %s", got)
	}
	if got := row(load("B92-noclat.json"), 0.5); got != "write lat, n/a" {
		t.Errorf("no clat: %s", got)
	}
	for i := 1; i <= 5; i++ {
		a, aa, b := load(fmt.Sprintf("B90-A-%d.json", i)), load(fmt.Sprintf("B90-AA-%d.json", i)), load(fmt.Sprintf("B90-B-%d.json", i))
		if ok, why := Comparable(a, aa); !ok {
			t.Errorf("the same job: %q", why)
		}
		if ok, why := Comparable(a, b); ok || len(why) != 1 {
			t.Errorf("another block size: %q", why)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(doc(0, 20, "", ""))
	f.Add("fio: x\n" + doc(28, 1, `"bs": "4k"`, ""))
	f.Fuzz(func(t *testing.T, s string) {
		o, err := Parse(strings.NewReader(s))
		if err != nil {
			return
		}
		o.Findings(checks.Where{})
		for _, r := range o.Latency(0.5, 0.9, 0.99) {
			last := 0.0
			for i, c := range r.Cells {
				if !c.OK {
					continue
				}
				if i > 0 && last > c.NS && r.Min <= r.Max {
					t.Fatalf("not in order: %+v", r)
				}
				last = c.NS
			}
		}
		Pool(o, o)
	})
}
