// SPDX-License-Identifier: Apache-2.0

// Package fio reads fio's JSON output and says what of it may be used: it
// finds the document among the lines that fio prints around it, keeps those
// lines as evidence, names errors, and gives a percentile only where enough
// I/Os stand behind it.
package fio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"patchcheck/checks"
	"patchcheck/checks/stats"
)

// Rules of this package.
var Rules = []checks.Rule{ruleError, ruleAlign, ruleNoIO, ruleNoise}

var (
	ruleError = checks.Rule{ID: "fio.error", Severity: checks.Error, Title: "a fio job ended with an error",
		Source: "job field \"error\" of fio's JSON output", Fix: "the errno says what failed; numbers of this run are not used"}
	ruleAlign = checks.Rule{ID: "fio.alignment", Severity: checks.Error, Title: "direct I/O with a block size that the file system refuses",
		Source: "open(2), O_DIRECT", Fix: "make bs a multiple of 512 or 4096, or take direct=1 away"}
	ruleNoIO = checks.Rule{ID: "fio.no-io", Severity: checks.Error, Title: "a fio job did no I/O",
		Source: "fields \"total_ios\" and \"io_bytes\"", Fix: "check the job: size, runtime, rw and the file"}
	ruleNoise = checks.Rule{ID: "fio.noise", Severity: checks.Warning, Title: "fio printed messages beside its result",
		Source: "fio's stderr and notices", Fix: "read them: an I/O error may not end a job (continue_on_error)"}
)

// Output is what one fio run left.
type Output struct {
	Version string   `json:"version"`
	Jobs    []Job    `json:"jobs"`
	Noise   []string `json:"noise,omitempty"` // lines around the document
}

// Job is one job, or one group with group_reporting.
type Job struct {
	Name    string            `json:"name"`
	Error   int               `json:"error"` // errno, 0 none
	Options map[string]string `json:"options,omitempty"`
	Read    Dir               `json:"read"`
	Write   Dir               `json:"write"`
	Trim    Dir               `json:"trim"`
}

// Dir is one data direction.
type Dir struct {
	Bytes  int64   `json:"bytes"`
	IOs    int64   `json:"ios"`
	BW     int64   `json:"bw"` // bytes per second
	IOPS   float64 `json:"iops"`
	Clat   Lat     `json:"clat"` // submission to completion
	Lat    Lat     `json:"lat"`  // creation to completion
	Millis int64   `json:"millis"`
}

// Lat is a latency distribution in nanoseconds.
type Lat struct {
	Min, Max float64
	Mean     float64
	N        int64
	Percents []Percent // ascending, as fio gave them
}

// Percent is one entry of fio's percentile map.
type Percent struct {
	P  float64 // 0 < P <= 100
	NS float64
}

// UnmarshalJSON reads the map in order: fio fills unused places of its
// percentile list with the key "0.00", several times, which are no results.
func (l *Lat) UnmarshalJSON(b []byte) error {
	var raw struct {
		Min        float64         `json:"min"`
		Max        float64         `json:"max"`
		Mean       float64         `json:"mean"`
		N          *int64          `json:"N"`
		Percentile json.RawMessage `json:"percentile"`
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*l = Lat{Min: raw.Min, Max: raw.Max, Mean: raw.Mean, N: -1}
	if raw.N != nil {
		l.N = *raw.N
	}
	if len(raw.Percentile) == 0 || raw.Percentile[0] != '{' {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw.Percentile))
	if _, err := d.Token(); err != nil {
		return err
	}
	seen := map[float64]bool{}
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return err
		}
		var v float64
		if err := d.Decode(&v); err != nil {
			return fmt.Errorf("percentile %v: %w", k, err)
		}
		p, err := strconv.ParseFloat(fmt.Sprint(k), 64)
		if err != nil || !(p > 0) || p > 100 || seen[p] {
			continue
		}
		seen[p] = true
		l.Percents = append(l.Percents, Percent{p, v})
	}
	sort.Slice(l.Percents, func(i, j int) bool { return l.Percents[i].P < l.Percents[j].P })
	return nil
}

type rawDir struct {
	Bytes  int64   `json:"io_bytes"`
	IOs    int64   `json:"total_ios"`
	BW     int64   `json:"bw_bytes"`
	IOPS   float64 `json:"iops"`
	Millis int64   `json:"runtime"`
	Clat   Lat     `json:"clat_ns"`
	Lat    Lat     `json:"lat_ns"`
}

func (r rawDir) dir() Dir {
	d := Dir{Bytes: r.Bytes, IOs: r.IOs, BW: r.BW, IOPS: r.IOPS, Millis: r.Millis, Clat: r.Clat, Lat: r.Lat}
	for _, l := range []*Lat{&d.Clat, &d.Lat} {
		if l.N < 0 { // fio before 3.0 has no N
			l.N = r.IOs
		}
	}
	return d
}

// maxOutput bounds one output file, in bytes; bins of latencies make them
// large, but not so large.
const maxOutput = 64 << 20

// Parse reads the output of fio --output-format=json, json+ or normal,json.
func Parse(r io.Reader) (Output, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxOutput+1))
	if err != nil {
		return Output{}, fmt.Errorf("reading fio's output: %w", err)
	}
	if len(b) > maxOutput {
		return Output{}, fmt.Errorf("fio's output is larger than %d MiB", maxOutput>>20)
	}
	var lastErr error
	for start := docStart(b, 0); start >= 0; start = docStart(b, start+1) {
		var raw struct {
			Version string `json:"fio version"`
			Jobs    []struct {
				Name    string                     `json:"jobname"`
				Error   int                        `json:"error"`
				Options map[string]json.RawMessage `json:"job options"`
				Read    rawDir                     `json:"read"`
				Write   rawDir                     `json:"write"`
				Trim    rawDir                     `json:"trim"`
			} `json:"jobs"`
			Global map[string]json.RawMessage `json:"global options"`
		}
		d := json.NewDecoder(bytes.NewReader(b[start:]))
		if err := d.Decode(&raw); err != nil {
			lastErr = err
			continue
		}
		if raw.Version == "" && raw.Jobs == nil {
			continue
		}
		o := Output{Version: raw.Version}
		o.Noise = append(noise(b[:start]), noise(b[start+int(d.InputOffset()):])...)
		for _, j := range raw.Jobs {
			job := Job{Name: j.Name, Error: j.Error, Options: map[string]string{}, Read: j.Read.dir(), Write: j.Write.dir(), Trim: j.Trim.dir()}
			for _, m := range []map[string]json.RawMessage{raw.Global, j.Options} {
				for k, v := range m {
					var s string
					if json.Unmarshal(v, &s) != nil {
						s = string(v)
					}
					job.Options[k] = s
				}
			}
			o.Jobs = append(o.Jobs, job)
		}
		if len(o.Jobs) == 0 {
			return o, errors.New("fio's JSON has no jobs")
		}
		return o, nil
	}
	if lastErr != nil {
		if errors.Is(lastErr, io.ErrUnexpectedEOF) {
			return Output{}, errors.New("fio's JSON is cut off: fio was killed, or its file system is full")
		}
		return Output{}, fmt.Errorf("fio's JSON cannot be read: %w", lastErr)
	}
	return Output{}, errors.New("no JSON document in fio's output: run it with --output-format=json")
}

// docStart finds the next "{" that begins a line.
func docStart(b []byte, from int) int {
	for i := from; i < len(b); i++ {
		j := bytes.IndexByte(b[i:], '{')
		if j < 0 {
			return -1
		}
		i += j
		if i == 0 || b[i-1] == '\n' {
			return i
		}
	}
	return -1
}

// noise keeps lines that are messages, not the human-readable report.
func noise(b []byte) []string {
	var out []string
	for _, l := range strings.Split(string(b), "\n") {
		l = strings.Map(func(r rune) rune {
			if r == '\t' || r >= 0x20 && r < 0x7f || r >= 0xa0 {
				return r
			}
			return -1
		}, l)
		t := strings.TrimSpace(l)
		if t == "" || len(out) >= 100 {
			continue
		}
		if noiseRE.MatchString(t) {
			out = append(out, t)
		}
	}
	return out
}

var noiseRE = regexp.MustCompile(`^fio: |^fio-\S+: |^note: |^warning: |(?i)\berr(?:or)?[=:]\s*(?:\d|[A-Z])|error=|verify: bad|Input/output error|No space left`)

// ErrnoName is "ENOSPC" for 28; the number for what has no name.
func ErrnoName(n int) string {
	if s := unix.ErrnoName(unix.Errno(n)); s != "" {
		return s
	}
	return strconv.Itoa(n)
}

// Misaligned tells whether the job asked for direct I/O in blocks that no
// common file system or device takes.
func (j Job) Misaligned() bool {
	if v := j.Options["direct"]; v != "1" && v != "true" || j.Error != int(unix.EINVAL) {
		return false
	}
	for _, k := range []string{"bs", "blocksize", "bsrange"} {
		for _, p := range strings.FieldsFunc(j.Options[k], func(r rune) bool { return r == ',' || r == '-' }) {
			if n, ok := size(p); ok && n%512 != 0 {
				return true
			}
		}
	}
	return false
}

// size reads "4k", "1000", "1m".
func size(s string) (int64, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	mul := int64(1)
	for suf, m := range map[string]int64{"k": 1 << 10, "ki": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mi": 1 << 20, "mib": 1 << 20, "b": 1} {
		if strings.HasSuffix(s, suf) && len(s) > len(suf) && s[len(s)-len(suf)-1] >= '0' && s[len(s)-len(suf)-1] <= '9' {
			mul, s = m, strings.TrimSuffix(s, suf)
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/mul {
		return 0, false
	}
	return n * mul, true
}

// Findings say why the run is no result, and what fio printed beside it.
func (o Output) Findings(where checks.Where) []checks.Finding {
	var out []checks.Finding
	for _, j := range o.Jobs {
		switch {
		case j.Misaligned():
			f := ruleAlign.New(where, "SETUP(alignment): job %q does direct I/O with bs=%s: EINVAL", j.Name, j.Options["bs"])
			out = append(out, f)
		case j.Error != 0:
			f := ruleError.New(where, "job %q failed: %s (%s)", j.Name, ErrnoName(j.Error), unix.Errno(j.Error).Error())
			f.Evidence = o.Noise
			out = append(out, f)
		case j.Read.Bytes+j.Write.Bytes == 0 && j.Trim.IOs == 0:
			out = append(out, ruleNoIO.New(where, "job %q moved no data", j.Name))
		}
	}
	if len(o.Noise) > 0 {
		f := ruleNoise.New(where, "fio printed %d messages: %s", len(o.Noise), o.Noise[0])
		f.Evidence = o.Noise
		out = append(out, f)
	}
	return out
}

// Verdict of the run: FAIL when a job reports an error, INFRA when it was set
// up wrongly.
func (o Output) Verdict() checks.Verdict {
	v := checks.Pass
	for _, j := range o.Jobs {
		switch {
		case j.Misaligned(), j.Error == 0 && j.Read.Bytes+j.Write.Bytes == 0 && j.Trim.IOs == 0:
			if v == checks.Pass {
				v = checks.Infra
			}
		case j.Error != 0:
			v = checks.Fail
		}
	}
	for _, n := range o.Noise {
		if v == checks.Pass && (strings.Contains(n, "io_u error") || strings.Contains(n, "verify: bad")) {
			v = checks.Fail
		}
	}
	return v
}

// Row is one line of a latency table.
type Row struct {
	Job   string  `json:"job"`
	Dir   string  `json:"dir"`  // read, write
	Kind  string  `json:"kind"` // clat, or lat when fio kept no clat
	N     int64   `json:"n"`
	Min   float64 `json:"min"` // nanoseconds
	Max   float64 `json:"max"`
	Mean  float64 `json:"mean"`
	Cells []Cell  `json:"cells"`
}

// Cell is one quantile: a value, or why there is none.
type Cell struct {
	Q    float64 `json:"q"`              // 0.99
	NS   float64 `json:"ns"`             // only when OK
	OK   bool    `json:"ok"`             //
	Text string  `json:"text,omitempty"` // "n/a (n=20)" when not OK
}

// Latency gives a row for each job and direction that did I/O, with the
// quantiles asked for. A job that failed gives none. Values of fio come from
// the middle of histogram buckets, so they are brought into [min, max] and
// into order.
func (o Output) Latency(qs ...float64) []Row {
	qs = append([]float64(nil), qs...)
	sort.Float64s(qs)
	var rows []Row
	for _, j := range o.Jobs {
		if j.Error != 0 {
			continue
		}
		for _, d := range []struct {
			name string
			dir  Dir
		}{{"read", j.Read}, {"write", j.Write}} {
			if d.dir.IOs == 0 || d.dir.Bytes == 0 {
				continue
			}
			r := Row{Job: j.Name, Dir: d.name, Kind: "clat"}
			l := d.dir.Clat
			if l.N <= 0 { // disable_clat=1
				r.Kind, l = "lat", d.dir.Lat
			}
			r.N, r.Min, r.Max, r.Mean = l.N, l.Min, l.Max, l.Mean
			last := l.Min
			for _, q := range qs {
				c := Cell{Q: q}
				p, found := l.at(q)
				switch {
				case l.N <= 0 || !found:
					c.Text = "n/a"
				case l.N < int64(stats.Needed(q)):
					c.Text = stats.NA(int(l.N))
				default:
					c.OK = true
					c.NS = math.Max(last, math.Min(math.Max(p, l.Min), l.Max))
					last = c.NS
				}
				r.Cells = append(r.Cells, c)
			}
			rows = append(rows, r)
		}
	}
	return rows
}

func (l Lat) at(q float64) (float64, bool) {
	for _, p := range l.Percents {
		if math.Abs(p.P-q*100) < 1e-6 {
			return p.NS, true
		}
	}
	return 0, false
}

// Metric is one number of a run that may be compared over repeats.
type Metric struct {
	Name   string // "nfs read bw"
	Value  float64
	Unit   string // "B/s", "1/s", "ns"
	Better stats.Better
}

// Metrics of a run that passed; none of one that did not.
func (o Output) Metrics(qs ...float64) []Metric {
	if o.Verdict() != checks.Pass {
		return nil
	}
	var ms []Metric
	for _, j := range o.Jobs {
		for _, d := range []struct {
			name string
			dir  Dir
		}{{"read", j.Read}, {"write", j.Write}} {
			if d.dir.IOs == 0 || d.dir.Bytes == 0 {
				continue
			}
			p := j.Name + " " + d.name + " "
			ms = append(ms,
				Metric{p + "bw", float64(d.dir.BW), "B/s", stats.HigherIsBetter},
				Metric{p + "iops", d.dir.IOPS, "1/s", stats.HigherIsBetter})
		}
	}
	for _, r := range o.Latency(qs...) {
		for _, c := range r.Cells {
			if c.OK {
				ms = append(ms, Metric{fmt.Sprintf("%s %s %s p%g", r.Job, r.Dir, r.Kind, math.Round(c.Q*1e6)/1e4), c.NS, "ns", stats.LowerIsBetter})
			}
		}
	}
	return ms
}

// notPart are options that may differ between runs that are compared.
var notPart = map[string]bool{"filename": true, "directory": true, "name": true, "randseed": true, "output": true}

// Comparable says whether two runs did the same work; why names the options
// that differ.
func Comparable(a, b Output) (ok bool, why []string) {
	if a.Version != b.Version {
		why = append(why, fmt.Sprintf("fio %s and %s", a.Version, b.Version))
	}
	if len(a.Jobs) != len(b.Jobs) {
		return false, append(why, fmt.Sprintf("%d and %d jobs", len(a.Jobs), len(b.Jobs)))
	}
	for i := range a.Jobs {
		x, y := a.Jobs[i].Options, b.Jobs[i].Options
		keys := map[string]bool{}
		for k := range x {
			keys[k] = true
		}
		for k := range y {
			keys[k] = true
		}
		var diff []string
		for k := range keys {
			if !notPart[k] && x[k] != y[k] {
				diff = append(diff, fmt.Sprintf("job %q: %s=%q and %q", a.Jobs[i].Name, k, x[k], y[k]))
			}
		}
		sort.Strings(diff)
		why = append(why, diff...)
	}
	return len(why) == 0, why
}

// Compared is one metric over two groups of runs.
type Compared struct {
	Metric Metric
	stats.Result
}

// Compare compares groups of repeats, metric by metric, with the correction
// for many comparisons. When the groups did not do the same work, differs
// names the options: then the numbers compare the jobs, not the kernels, and
// no gate may use them.
func Compare(base, patched []Output, lim stats.Limits, qs ...float64) (cs []Compared, differs []string) {
	all := append(append([]Output(nil), base...), patched...)
	named := map[string]bool{}
	for i := range all {
		_, why := Comparable(all[0], all[i])
		for _, w := range why {
			if !named[w] {
				named[w] = true
				differs = append(differs, w)
			}
		}
	}
	collect := func(runs []Output) map[string][]float64 {
		m := map[string][]float64{}
		for _, r := range runs {
			for _, x := range r.Metrics(qs...) {
				m[x.Name] = append(m[x.Name], x.Value)
			}
		}
		return m
	}
	var names []Metric
	seen := map[string]bool{}
	for _, r := range all {
		for _, m := range r.Metrics(qs...) {
			if !seen[m.Name] {
				seen[m.Name] = true
				names = append(names, m)
			}
		}
	}
	a, b := collect(base), collect(patched)
	rs := make([]stats.Result, len(names))
	for i, m := range names {
		rs[i] = stats.Compare(a[m.Name], b[m.Name], m.Better, lim)
	}
	stats.Holm(rs, lim.Alpha)
	out := make([]Compared, len(names))
	for i := range names {
		out[i] = Compared{names[i], rs[i]}
	}
	return out, differs
}
