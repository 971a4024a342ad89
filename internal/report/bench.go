// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"patchcheck/internal/runfolder"
)

// bench writes what the run measured in Go's benchmark format
// (golang.org/design/14313-benchmark-format), which benchstat compares.
//
// benchstat makes a table of its own for every set of configuration lines, so
// only what forbids a comparison is one (plan, accelerator, CPU); the rest is
// in comments. Repeats of a cell are lines of one name, and so samples. What
// was reused from an earlier run is left out: it was not measured here.
func bench(out io.Writer, r *runfolder.Run) error {
	w := bufio.NewWriter(out)
	for _, f := range facts(r) {
		switch f.Name {
		case "plan", "accel", "cpu":
			fmt.Fprintf(w, "%s: %s\n", f.Name, f.Value)
		}
	}
	for _, f := range facts(r) {
		switch f.Name {
		case "plan", "accel", "cpu":
		default:
			fmt.Fprintf(w, "# %s: %s\n", f.Name, f.Value)
		}
	}
	units := map[string]bool{}
	reused := 0
	var lines []string
	for _, c := range r.Cells {
		if c.Reused != "" {
			reused++
			continue
		}
		// The version comes last: "-216" at the end of a name would be read
		// as the number of CPUs.
		name := func(kind string, step string) string {
			s := fmt.Sprintf("Benchmark%s/plan=%s/kernel=%s/device=%s", kind, benchWord(r.Plan.Name), benchWord(c.Spec.Kernel), benchWord(c.Spec.Device.Name))
			if step != "" {
				s += "/step=" + benchWord(step)
			}
			return s + "/nfs=" + benchWord(c.Spec.NFS)
		}
		for _, a := range c.Attempts {
			if a.Token == "" { // it did not come to its end: its times mean nothing
				continue
			}
			l := fmt.Sprintf("%s 1 %d ns/op", name("Cell", ""), a.Elapsed.Nanoseconds())
			if !a.Invalid {
				for _, k := range sortedKeys(a.Values) {
					u := benchWord(k)
					units[u] = true
					l += fmt.Sprintf(" %d %s", a.Values[k], u)
				}
			}
			lines = append(lines, l)
			for _, s := range a.Steps {
				if l := benchIO(s); l != "" {
					lines = append(lines, name("IO", s.Name)+l)
				}
			}
		}
	}
	for _, b := range r.Builds {
		if b.OK && !b.Reused {
			lines = append(lines, fmt.Sprintf("BenchmarkMake/patch=%d 1 %d ns/op %d objects", b.Patch, b.Make.Nanoseconds(), b.Objects))
			units["objects"] = true
		}
	}
	for _, s := range r.Steps {
		if s.Status == "ok" {
			lines = append(lines, fmt.Sprintf("BenchmarkStep/step=%s/plan=%s 1 %d ns/op", benchWord(s.Name), benchWord(r.Plan.Name), s.Elapsed.Nanoseconds()))
		}
	}
	for _, u := range sortedKeys(units) {
		fmt.Fprintf(w, "Unit %s assume=exact\n", u)
	}
	if reused > 0 {
		fmt.Fprintf(w, "# %d cells were reused from earlier runs and are not measured here\n", reused)
	}
	for _, l := range lines {
		fmt.Fprintln(w, l)
	}
	return w.Flush()
}

// benchIO gives the figures of a step that moved data, "" for others.
func benchIO(s runfolder.CellStep) string {
	var v struct {
		Bytes   int64   `json:"bytes"`
		Calls   int64   `json:"calls"`
		Count   int64   `json:"count"` // files
		Elapsed int64   `json:"elapsed_us"`
		Slowest int64   `json:"slowest_us"`
		Median  float64 `json:"median_us"`
	}
	if s.Error != "" || len(s.Result) == 0 || json.Unmarshal(s.Result, &v) != nil {
		return ""
	}
	n := max(v.Calls, v.Count)
	if n <= 0 || v.Elapsed <= 0 || v.Bytes <= 0 {
		return ""
	}
	l := fmt.Sprintf(" %d %.1f ns/op %.3f MB/s", n, float64(v.Elapsed)*1e3/float64(n), float64(v.Bytes)/float64(v.Elapsed))
	if v.Median > 0 {
		l += fmt.Sprintf(" %.0f p50-ns", v.Median*1e3)
	}
	if v.Slowest > 0 {
		l += fmt.Sprintf(" %d max-ns", v.Slowest*1000)
	}
	return l
}

// benchWord makes one part of a benchmark's name or a unit out of s.
func benchWord(s string) string {
	s = strings.ReplaceAll(line(s), ": ", ":")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == ' ', r == '/', r == '=':
			return '-'
		case r < ' ':
			return -1
		}
		return r
	}, s)
	if s == "" {
		return "unnamed"
	}
	return s
}
