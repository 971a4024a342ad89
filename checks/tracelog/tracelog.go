// SPDX-License-Identifier: Apache-2.0

// Package tracelog reads ftrace's text: the ring buffer's statistics and the
// trace itself. Its one rule: what lost events gives no number. A count is
// valid only when every per-CPU buffer says that nothing was overwritten or
// dropped and the text has no gap.
//
// Sources: kernel/trace/trace.c (tracing_stats_read, print_event_info,
// s_show), kernel/trace/trace_output.c.
package tracelog

import (
	"bufio"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"patchcheck/checks"
)

// Rules of this package.
var Rules = []checks.Rule{ruleLost, ruleBuffer}

var (
	ruleLost = checks.Rule{ID: "trace.lost", Severity: checks.Error, Title: "the trace lost events, so counts from it are INVALID",
		Source: "Documentation/trace/ftrace.rst (per_cpu/cpuN/stats)", Fix: "count in the kernel with a hist trigger, or raise buffer_size_kb of the instance that is read"}
	ruleBuffer = checks.Rule{ID: "trace.buffer-size", Severity: checks.Warning, Title: "a trace buffer is smaller than was asked for",
		Source: "Documentation/trace/ftrace.rst (buffer_size_kb)", Fix: "set buffer_size_kb of this instance; instances do not take over the size of the top level"}
)

// RingStats is one per_cpu/cpuN/stats file.
type RingStats struct {
	CPU           int   `json:"cpu"`
	Entries       int64 `json:"entries"` // events in the buffer
	Overrun       int64 `json:"overrun"` // overwritten, the buffer was full
	CommitOverrun int64 `json:"commit_overrun"`
	Bytes         int64 `json:"bytes"`
	Dropped       int64 `json:"dropped"` // not written, overwrite mode off
	Read          int64 `json:"read"`    // taken by trace_pipe
}

// Lost is how many events of this CPU nobody will see.
func (s RingStats) Lost() int64 { return s.Overrun + s.CommitOverrun + s.Dropped }

// ParseRingStats reads the text of one stats file. A file that lacks a counter
// of lost events is an error: its absence would read as zero.
func ParseRingStats(cpu int, text string) (RingStats, error) {
	s := RingStats{CPU: cpu}
	want := map[string]*int64{"entries": &s.Entries, "overrun": &s.Overrun, "commit overrun": &s.CommitOverrun, "bytes": &s.Bytes, "dropped events": &s.Dropped, "read events": &s.Read}
	for _, l := range strings.Split(text, "\n") {
		k, v, ok := strings.Cut(l, ":")
		if !ok {
			continue
		}
		k = strings.TrimSpace(k)
		p := want[k]
		if p == nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		if err != nil || n < 0 {
			return s, fmt.Errorf("trace statistics of CPU %d: %q is no count: %q", cpu, k, clip(v))
		}
		*p = n
		delete(want, k)
	}
	for _, k := range []string{"entries", "overrun", "commit overrun", "dropped events"} {
		if want[k] != nil {
			return s, fmt.Errorf("trace statistics of CPU %d: no line %q; is this per_cpu/cpu%d/stats?", cpu, k, cpu)
		}
	}
	return s, nil
}

// Event is one line of the trace.
type Event struct {
	Task  string  `json:"task"`
	PID   int     `json:"pid"`
	CPU   int     `json:"cpu"`
	Time  float64 `json:"time"` // seconds of the trace clock
	Name  string  `json:"name"`
	Text  string  `json:"text"`            // fields as printed
	Epoch int     `json:"epoch,omitempty"` // gaps of any CPU before this line
}

// Trace is the text of a trace file.
type Trace struct {
	Events  []Event       `json:"events"`
	Lost    map[int]int64 `json:"lost,omitempty"` // CPU -> events lost in gaps; -1 unknown number
	InBuf   int64         `json:"in_buffer"`      // header: entries-in-buffer, -1 no header
	Written int64         `json:"written"`        // header: entries-written
	Gaps    int           `json:"gaps"`
	Unread  int           `json:"unread,omitempty"` // lines that are neither event nor comment
}

var (
	gapRE   = regexp.MustCompile(`^\s*CPU:(\d+) \[LOST (?:(\d+) )?EVENTS\]`)
	headRE  = regexp.MustCompile(`^# entries-in-buffer/entries-written: (\d+)/(\d+)`)
	eventRE = regexp.MustCompile(`^\s*(.+)-(\d+)\s+(?:\([^)]*\)\s+)?\[(\d+)\]\s+(?:\S{1,8}\s+)?(\d+\.\d+): ([\w:]+): ?(.*)$`)
	startRE = regexp.MustCompile(`^##### CPU \d+ buffer started ####`)
)

// maxLines bounds what is kept of a trace, in lines.
const maxLines = 4 << 20

// Parse reads a trace.
func Parse(text string) (Trace, error) {
	t := Trace{Lost: map[int]int64{}, InBuf: -1, Written: -1}
	sc := bufio.NewScanner(strings.NewReader(text))
	sc.Buffer(nil, 1<<20)
	n := 0
	for sc.Scan() {
		if n++; n > maxLines {
			return t, fmt.Errorf("the trace has more than %d lines: count in the kernel with a hist trigger instead", maxLines)
		}
		l := sc.Text()
		switch {
		case strings.HasPrefix(l, "#"):
			if m := headRE.FindStringSubmatch(l); m != nil {
				t.InBuf, _ = strconv.ParseInt(m[1], 10, 64)
				t.Written, _ = strconv.ParseInt(m[2], 10, 64)
			}
			if startRE.MatchString(l) {
				t.Gaps++ // what this CPU did before is not in the text
			}
		case strings.TrimSpace(l) == "":
		case strings.Contains(l, "[LOST "):
			m := gapRE.FindStringSubmatch(l)
			if m == nil {
				t.Unread++
				continue
			}
			t.Gaps++
			cpu, _ := strconv.Atoi(m[1])
			lost, err := strconv.ParseInt(m[2], 10, 64)
			if err != nil {
				t.Lost[cpu] = -1 // the kernel does not know how many
			} else if t.Lost[cpu] >= 0 {
				t.Lost[cpu] += lost
			}
		default:
			m := eventRE.FindStringSubmatch(l)
			if m == nil {
				t.Unread++
				continue
			}
			e := Event{Task: strings.TrimSpace(m[1]), Name: m[5], Text: m[6], Epoch: t.Gaps}
			e.PID, _ = strconv.Atoi(m[2])
			e.CPU, _ = strconv.Atoi(m[3])
			e.Time, _ = strconv.ParseFloat(m[4], 64)
			t.Events = append(t.Events, e)
		}
	}
	if err := sc.Err(); err != nil {
		return t, fmt.Errorf("reading the trace after line %d: %w", n, err)
	}
	return t, nil
}

// Count is how often events occurred, or why that cannot be said.
type Count struct {
	ByEvent map[string]int64 `json:"by_event"`
	Lost    int64            `json:"lost"` // events known to be lost
	ByCPU   map[int]int64    `json:"lost_by_cpu,omitempty"`
	Valid   bool             `json:"valid"`
	Reasons []string         `json:"reasons,omitempty"` // why it is not valid
}

// Evaluate counts the trace's events by name. stats are those of all CPUs of
// the instance that was read; without them a count is not valid, since the
// text shows only gaps that were read over.
func Evaluate(t Trace, stats []RingStats) Count {
	c := Count{ByEvent: map[string]int64{}, ByCPU: map[int]int64{}}
	for _, e := range t.Events {
		c.ByEvent[e.Name]++
	}
	for _, s := range stats {
		if n := s.Lost(); n > 0 {
			c.ByCPU[s.CPU] = n
			c.Reasons = append(c.Reasons, fmt.Sprintf("CPU %d: LOST %d (overrun %d, commit overrun %d, dropped %d)", s.CPU, n, s.Overrun, s.CommitOverrun, s.Dropped))
		}
	}
	if len(stats) == 0 {
		c.Reasons = append(c.Reasons, "the buffers' statistics were not read")
	}
	var cpus []int
	for cpu := range t.Lost {
		cpus = append(cpus, cpu)
	}
	sort.Ints(cpus)
	for _, cpu := range cpus {
		n := t.Lost[cpu]
		if n < 0 {
			c.Reasons = append(c.Reasons, fmt.Sprintf("CPU %d: LOST an unknown number of events within the trace", cpu))
			continue
		}
		c.Reasons = append(c.Reasons, fmt.Sprintf("CPU %d: LOST %d within the trace", cpu, n))
		c.ByCPU[cpu] = max(c.ByCPU[cpu], n)
	}
	if t.InBuf >= 0 && t.InBuf < t.Written {
		c.Reasons = append(c.Reasons, fmt.Sprintf("the trace holds %d of %d events written", t.InBuf, t.Written))
	}
	if t.Unread > 0 {
		c.Reasons = append(c.Reasons, fmt.Sprintf("%d lines of the trace could not be read", t.Unread))
	}
	for _, n := range c.ByCPU {
		c.Lost += n
	}
	if t.InBuf >= 0 {
		c.Lost = max(c.Lost, t.Written-t.InBuf)
	}
	c.Valid = len(c.Reasons) == 0
	return c
}

// String gives a number only when it is valid.
func (c Count) String(event string) string {
	if !c.Valid {
		return fmt.Sprintf("INVALID (LOST %d)", c.Lost)
	}
	return strconv.FormatInt(c.ByEvent[event], 10)
}

// Findings of a count.
func (c Count) Findings(where checks.Where) []checks.Finding {
	if c.Valid {
		return nil
	}
	f := ruleLost.New(where, "INVALID: the trace lost %d events", c.Lost)
	if c.Lost == 0 {
		f.Message = "INVALID: whether the trace lost events cannot be told"
	}
	f.Evidence = c.Reasons
	return []checks.Finding{f}
}

// Pair is a request and its reply.
type Pair struct{ Request, Reply Event }

// Pairs matches requests with replies by key; a key of "" leaves an event
// out. Pairs that span a gap are discarded: the reply may belong to a request
// that was lost. discarded counts them; open are requests without a reply.
func Pairs(t Trace, request, reply func(Event) string) (pairs []Pair, discarded, open int) {
	waiting := map[string]Event{}
	for _, e := range t.Events {
		if k := request(e); k != "" {
			if _, again := waiting[k]; again {
				open++ // the key was used again: the first never got its reply
			}
			waiting[k] = e
			continue
		}
		k := reply(e)
		if k == "" {
			continue
		}
		q, ok := waiting[k]
		if !ok {
			discarded++
			continue
		}
		delete(waiting, k)
		if q.Epoch != e.Epoch {
			discarded++
			continue
		}
		pairs = append(pairs, Pair{q, e})
	}
	return pairs, discarded, open + len(waiting)
}

// CheckBufferSize compares what buffer_size_kb says after it was written with
// what was asked. The kernel rounds up to whole sub-buffers (8192 becomes
// 8195), so more is right.
func CheckBufferSize(instance string, askedKB int64, readBack string) (checks.Finding, bool) {
	s := strings.TrimSpace(readBack)
	first, _, _ := strings.Cut(s, " ") // "7 (expanded: 1408)" before first use
	n, err := strconv.ParseInt(first, 10, 64)
	if err == nil && n >= askedKB {
		return checks.Finding{}, false
	}
	if err != nil {
		return ruleBuffer.New(checks.Where{}, "trace instance %q: buffer_size_kb reads %q: the CPUs differ or it is no number", instance, clip(s)), true
	}
	return ruleBuffer.New(checks.Where{}, "trace instance %q has %d KiB for each CPU, %d were asked for", instance, n, askedKB), true
}

func clip(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > 60 {
		s = s[:60] + "..."
	}
	return s
}

// Key makes a function for Pairs: the values of the named fields ("xid",
// "cq.id") of events with the given name; "" for other events and for those
// that lack one of the fields.
func Key(event string, fields ...string) func(Event) string {
	var res []*regexp.Regexp
	for _, f := range fields {
		res = append(res, regexp.MustCompile(`(?:^|[\s,(])`+regexp.QuoteMeta(f)+`=([^\s,)]+)`))
	}
	return func(e Event) string {
		if e.Name != event {
			return ""
		}
		var vals []string
		for _, re := range res {
			m := re.FindStringSubmatch(e.Text)
			if m == nil {
				return ""
			}
			vals = append(vals, strings.TrimRight(m[1], ":;"))
		}
		return strings.Join(vals, " ")
	}
}
