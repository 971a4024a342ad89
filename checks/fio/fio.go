// SPDX-License-Identifier: Apache-2.0

// Package fio reads fio's JSON output and says what of it may be used: it
// finds the document among the lines that fio prints around it, keeps those
// lines as evidence, names errors, and gives a percentile only where enough
// I/Os stand behind it.
package fio

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
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
	Error   int               `json:"error"`            // errno, 0 none
	Errors  int64             `json:"errors,omitempty"` // I/O errors that continue_on_error let pass
	Options map[string]string `json:"options,omitempty"`
	Read    Dir               `json:"read"`
	Write   Dir               `json:"write"`
	Trim    Dir               `json:"trim"`
	Mixed   Dir               `json:"mixed"` // of unified_rw_reporting, which has no others
}

// dirs are the directions by name, in the order of reports.
func (j Job) dirs() []namedDir {
	return []namedDir{{"read", j.Read}, {"write", j.Write}, {"trim", j.Trim}, {"mixed", j.Mixed}}
}

type namedDir struct {
	name string
	dir  Dir
}

// idle tells whether the job did nothing.
func (j Job) idle() bool {
	for _, d := range j.dirs() {
		if j.did(d.dir) {
			return false
		}
	}
	return true
}

// did tells whether I/O happened. Engines that create, stat and delete files
// or folders move no bytes; all others must.
func (j Job) did(d Dir) bool {
	e := j.Options["ioengine"]
	return d.IOs > 0 && (d.Bytes > 0 || strings.HasPrefix(e, "file") || strings.HasPrefix(e, "dir"))
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
	Percents []Percent   // ascending, as fio gave them
	Bins     []stats.Bin // of json+, ascending; none in plain json
}

// Hist is the distribution; ok is false when fio wrote no bins.
func (l Lat) Hist() (h stats.Hist, ok bool) {
	h = stats.Hist{Unit: "ns", Bins: l.Bins, Min: l.Min, Max: l.Max, Known: l.Max >= l.Min && l.Max > 0}
	n := h.N()
	h.Sum = l.Mean * float64(n)
	// Bins that do not hold the I/Os that fio counted are of no use.
	return h, n > 0 && n == l.N
}

// bin is the range of values that fio keeps in the bin that it names mid:
// values below 128 ns each have their own, above that a bin is a 64th of the
// power of two it lies in (fio's stat.h, FIO_IO_U_PLAT_BITS 6).
func bin(mid float64, n int64) stats.Bin {
	if mid < 128 {
		return stats.Bin{Lo: mid, Hi: mid + 1, N: n}
	}
	half := math.Exp2(math.Floor(math.Log2(mid))-6) / 2
	return stats.Bin{Lo: mid - half, Hi: mid + half, N: n}
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
		Min        float64          `json:"min"`
		Max        float64          `json:"max"`
		Mean       float64          `json:"mean"`
		N          *int64           `json:"N"`
		Percentile json.RawMessage  `json:"percentile"`
		Bins       map[string]int64 `json:"bins"`
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*l = Lat{Min: raw.Min, Max: raw.Max, Mean: raw.Mean, N: -1}
	if raw.N != nil {
		l.N = *raw.N
	}
	for k, n := range raw.Bins {
		if mid, err := strconv.ParseFloat(k, 64); err == nil && n > 0 && mid >= 0 && mid < 1e18 {
			l.Bins = append(l.Bins, bin(mid, n))
		}
	}
	slices.SortFunc(l.Bins, func(a, b stats.Bin) int { return cmp.Compare(a.Lo, b.Lo) })
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
	KBW    float64 `json:"bw"` // KiB per second
	IOPS   float64 `json:"iops"`
	Millis int64   `json:"runtime"`
	Clat   Lat     `json:"clat_ns"`
	Lat    Lat     `json:"lat_ns"`
	// Of fio before 3.0, in microseconds; its io_bytes are KiB.
	OldClat *Lat `json:"clat"`
	OldLat  *Lat `json:"lat"`
}

func (r rawDir) dir() Dir {
	d := Dir{Bytes: r.Bytes, IOs: r.IOs, BW: r.BW, IOPS: r.IOPS, Millis: r.Millis, Clat: r.Clat, Lat: r.Lat}
	if r.OldClat != nil || r.OldLat != nil {
		d.Bytes <<= 10
		d.BW = int64(r.KBW * 1024)
		for _, x := range []struct {
			from *Lat
			to   *Lat
		}{{r.OldClat, &d.Clat}, {r.OldLat, &d.Lat}} {
			if x.from == nil {
				continue
			}
			l := Lat{Min: x.from.Min * 1000, Max: x.from.Max * 1000, Mean: x.from.Mean * 1000, N: x.from.N}
			for _, p := range x.from.Percents {
				l.Percents = append(l.Percents, Percent{p.P, p.NS * 1000})
			}
			*x.to = l
		}
	}
	for _, l := range []*Lat{&d.Clat, &d.Lat} {
		if l.N < 0 { // fio before 3.0 has no N
			if l.N = r.IOs; l.Mean == 0 && l.Max == 0 {
				l.N = 0
			}
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
	// With --status-interval there is one document after the other; the last
	// one is the result.
	var last *Output
	var lastErr error
	end := 0
	for start := docStart(b, 0); start >= 0; start = docStart(b, max(start+1, end)) {
		o, n, err := document(b[start:])
		if err != nil {
			lastErr = err
			continue
		}
		if o == nil {
			continue
		}
		o.Noise = noise(b[end:start])
		if last != nil {
			o.Noise = append(last.Noise, o.Noise...)
		}
		last, end = o, start+n
	}
	switch {
	case last != nil && len(last.Jobs) == 0:
		return *last, errors.New("fio's JSON has no jobs")
	case last != nil && (lastErr == nil || !errors.Is(lastErr, io.ErrUnexpectedEOF)):
		last.Noise = append(last.Noise, noise(b[end:])...)
		return *last, nil
	case lastErr != nil && errors.Is(lastErr, io.ErrUnexpectedEOF):
		return Output{}, errors.New("fio's JSON is cut off: fio was killed, or its file system is full")
	case lastErr != nil:
		return Output{}, fmt.Errorf("fio's JSON cannot be read: %w", lastErr)
	}
	return Output{}, errors.New("no JSON document in fio's output: run it with --output-format=json+")
}

// notJSON are the numbers that C prints and JSON does not know; fio writes
// them as deviations of nothing.
var notJSON = regexp.MustCompile(`(:\s*)-?(?:nan|inf)\b`)

// document reads the JSON document that b begins with; nil when it is not
// fio's. n is its length.
func document(b []byte) (o *Output, n int, err error) {
	var raw struct {
		Version string `json:"fio version"`
		Jobs    []struct {
			Name    string                     `json:"jobname"`
			Error   int                        `json:"error"`
			Errors  int64                      `json:"total_err"`
			Options map[string]json.RawMessage `json:"job options"`
			Read    rawDir                     `json:"read"`
			Write   rawDir                     `json:"write"`
			Trim    rawDir                     `json:"trim"`
			Mixed   rawDir                     `json:"mixed"`
		} `json:"jobs"`
		Global map[string]json.RawMessage `json:"global options"`
	}
	d := json.NewDecoder(bytes.NewReader(b))
	err = d.Decode(&raw)
	if err != nil && notJSON.Match(b) {
		// As many bytes as before, so that the length still holds.
		fixed := notJSON.ReplaceAllFunc(b, func(m []byte) []byte {
			i := bytes.IndexFunc(m[1:], func(r rune) bool { return r == '-' || r == 'n' || r == 'i' }) + 1
			return append(append(slices.Clone(m[:i]), '0'), bytes.Repeat([]byte(" "), len(m)-i-1)...)
		})
		d = json.NewDecoder(bytes.NewReader(fixed))
		err = d.Decode(&raw)
	}
	if err != nil {
		return nil, 0, err
	}
	if raw.Version == "" && raw.Jobs == nil {
		return nil, 0, nil
	}
	o = &Output{Version: raw.Version}
	for _, j := range raw.Jobs {
		job := Job{Name: j.Name, Error: j.Error, Errors: j.Errors, Options: map[string]string{},
			Read: j.Read.dir(), Write: j.Write.dir(), Trim: j.Trim.dir(), Mixed: j.Mixed.dir()}
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
	return o, int(d.InputOffset()), nil
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

var noiseRE = regexp.MustCompile(`^fio: |^fio-\S+: |^note: |^warning: |(?i)\berr(?:or)?[=:]\s*(?:[1-9]|[A-Z])|error=[^0]|verify: bad|Input/output error|No space left`)

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
		case j.Errors != 0:
			f := ruleError.New(where, "job %q went on after %d I/O errors", j.Name, j.Errors)
			f.Evidence = o.Noise
			out = append(out, f)
		case j.idle():
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
		case j.Error != 0 && !j.Misaligned(), j.Errors != 0:
			v = checks.Fail
		case j.Misaligned(), j.idle():
			if v == checks.Pass {
				v = checks.Infra
			}
		}
	}
	for _, n := range o.Noise {
		if v == checks.Pass && (strings.Contains(n, "io_u error") || strings.Contains(n, "verify: bad")) {
			v = checks.Fail
		}
	}
	return v
}
