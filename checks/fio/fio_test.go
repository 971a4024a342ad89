// SPDX-License-Identifier: Apache-2.0

package fio

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchcheck/checks"
	"patchcheck/checks/stats"
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
		{"noise before", "fio: io_u error on file /mnt/x: Input/output error: read offset=0, buflen=4096\n" + doc(0, 10, "", ""), checks.Fail, "fio.noise: fio printed 1 messages: fio: io_u error"},
		{"normal report before and after", "j: (g=0): rw=read, bs=4096B\nfio-3.33\nStarting 1 process\n" + doc(0, 10, "", "") + "\nRun status group 0 (all jobs):\n   READ: bw=1MiB/s\n", checks.Pass, ""},
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
		if c.verdict != checks.Pass && o.Metrics(0.5) != nil {
			t.Errorf("%s: metrics of a run that is no result", c.name)
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

func TestCompare(t *testing.T) {
	runs := func(opts string, ns ...int) (os []Output) {
		for _, n := range ns {
			os = append(os, parse(t, doc(0, n, opts, "")))
		}
		return os
	}
	a := runs(`"bs": "4k"`, 1000, 1010, 990, 1005, 1001)
	if _, differs := Compare(a, runs(`"bs": "16k"`, 1, 2, 3, 4, 5), stats.Limits{}); len(differs) != 1 || !strings.Contains(differs[0], `bs="4k" and "16k"`) {
		t.Errorf("other work: %v", differs)
	}
	cs, differs := Compare(a, runs(`"bs": "4k"`, 700, 710, 690, 705, 701), stats.Limits{}, 0.5)
	if differs != nil {
		t.Fatal(differs)
	}
	for _, c := range cs {
		want := stats.NoDifference
		if c.Metric.Name == "j read bw" {
			want = stats.Worse
		}
		if c.Outcome != want {
			t.Errorf("%s: %s", c.Metric.Name, c.Result)
		}
	}
	if cs, _ := Compare(a[:3], a[:3], stats.Limits{}); cs[0].Outcome != stats.TooFew {
		t.Errorf("three runs: %s", cs[0].Result)
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
	dir, _ := os.Getwd()
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "shared/cases/samples")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Skip("no shared/cases folder beside the checkout")
		}
	}
	load := func(n string) Output {
		b, err := os.ReadFile(filepath.Join(dir, "shared/cases/samples", n))
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
	group := func(g string) (os []Output) {
		for i := 1; i <= 5; i++ {
			os = append(os, load(fmt.Sprintf("B90-%s-%d.json", g, i)))
		}
		return os
	}
	cs, differs := Compare(group("A"), group("AA"), stats.Limits{}, 0.5, 0.9, 0.99, 0.999)
	if differs != nil || len(cs) < 8 {
		t.Fatal(differs, len(cs))
	}
	for _, c := range cs {
		if c.Outcome != stats.NoDifference {
			t.Errorf("same job twice: %s: %s", c.Metric.Name, c.Result)
		}
	}
	cs, differs = Compare(group("A"), group("B"), stats.Limits{}, 0.5)
	if len(differs) != 1 {
		t.Errorf("options: %q", differs)
	}
	for _, c := range cs {
		if c.Outcome == stats.NoDifference {
			t.Errorf("another block size: %s: %s", c.Metric.Name, c.Result)
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
		o.Metrics(0.5)
	})
}
