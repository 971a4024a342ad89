// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// Notice tells a live reader what happened.
type Notice struct {
	// Opened: a report's header was seen; Class is right, Title is not known
	// yet. A step may be given up now, after a grace for the rest to arrive.
	// Closed: the report is complete. Repeated: an earlier one came again.
	State string `json:"state"`
	Crash Crash  `json:"crash"`
}

// States of a Notice.
const (
	Opened   = "opened"
	Closed   = "closed"
	Repeated = "repeated"
)

// Limits of what a detector remembers, in lines and reports.
const (
	keepLines    = 300  // of one report
	maxReport    = 1200 // lines of one report that are looked at
	maxIdle      = 120  // foreign lines after a trace that end a report
	proofLines   = 14   // a loose header's trace must begin within these
	maxReports   = 200  // different titles
	lookback     = 10   // lines before a header that may explain it
	maxContexts  = 64   // open reports of different printing contexts
	maxEventText = 300
)

// Detector finds crashes in a console stream. It is an io.Writer and takes
// the stream in any pieces; the result does not depend on how it was cut. It
// is not safe for concurrent use.
type Detector struct {
	opt     Options
	buf     []byte // unfinished physical line
	lineNo  int
	open    []*crash
	recent  []line
	reports []*Crash
	byTitle map[string]*Crash
	events  []Event
	notices []Notice

	dropped   int64
	boots     int
	bootFail  string
	lastUsec  int64
	stamped   int // lines with a printk time
	truncated bool
	fatal     bool // a report of a fatal class was seen
	panicked  bool
	userSeen  bool // a program of user space wrote something
	booting   bool // a boot loader's line was seen, the banner not yet
	expect    bool // the kernel or a user asked for a restart
	cutHere   int  // line of the last "cut here"
	closed    bool
}

// NewDetector makes an empty detector.
func NewDetector(o Options) *Detector {
	if o.KeepLines <= 0 {
		o.KeepLines = keepLines
	}
	return &Detector{opt: o, byTitle: map[string]*Crash{}, lastUsec: -1}
}

// Write takes a piece of the stream. It never fails.
func (d *Detector) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			d.buf = append(d.buf, p...)
			for len(d.buf) > maxLine {
				d.physical(string(d.buf[:maxLine]))
				d.buf = append(d.buf[:0], d.buf[maxLine:]...)
			}
			break
		}
		if len(d.buf) > 0 {
			d.buf = append(d.buf, p[:i]...)
			for len(d.buf) > maxLine {
				d.physical(string(d.buf[:maxLine]))
				d.buf = append(d.buf[:0], d.buf[maxLine:]...)
			}
			d.physical(string(d.buf))
			d.buf = d.buf[:0]
		} else {
			q := p[:i]
			for len(q) > maxLine {
				d.physical(string(q[:maxLine]))
				q = q[maxLine:]
			}
			d.physical(string(q))
		}
		p = p[i+1:]
	}
	return n, nil
}

// Line feeds one line without its newline.
func (d *Detector) Line(s string) {
	d.Write([]byte(s))
	d.Write([]byte{'\n'})
}

// Notices returns and forgets what happened since the last call.
func (d *Detector) Notices() []Notice {
	n := d.notices
	d.notices = nil
	return n
}

// Close ends the stream: the unfinished line and open reports are completed
// as they are.
func (d *Detector) Close() {
	if d.closed {
		return
	}
	d.closed = true
	if len(d.buf) > 0 {
		s := string(d.buf)
		d.buf = nil
		before := len(d.open)
		d.physical(s)
		if len(d.open) > before {
			d.open[len(d.open)-1].partial = true
		} else if before == len(d.open) && before > 0 {
			// The line may have been the rest of the open report.
			d.open[before-1].partial = true
		}
	}
	for len(d.open) > 0 {
		d.close(d.open[0], true)
	}
}

// Report sums up what was seen so far. Open reports are not in it; call Close
// first at the end of a stream.
func (d *Detector) Report() Report {
	r := Report{Class: None, Events: d.events, Dropped: d.dropped, Boots: d.boots, Lines: d.lineNo, Truncated: d.truncated, BootFail: d.bootFail, Reports: []Crash{}}
	for _, c := range d.reports {
		r.Reports = append(r.Reports, *c)
	}
	// Contexts close in any order; the cause is what began first.
	sortByLine(r.Reports)
	if len(r.Reports) > 0 {
		r.Crash = true
		r.Class = r.Reports[0].Class
		r.Title = r.Reports[0].Title
	}
	return r
}

func sortByLine(cs []Crash) {
	for i := 1; i < len(cs); i++ {
		for j := i; j > 0 && cs[j].Line < cs[j-1].Line; j-- {
			cs[j], cs[j-1] = cs[j-1], cs[j]
		}
	}
}

func (d *Detector) physical(s string) {
	d.lineNo++
	// "\r\n", and "\r" used to write over a line: what stood there counts.
	for {
		i := strings.IndexByte(s, '\r')
		if i < 0 {
			break
		}
		if i > 0 {
			split(d.lineNo, s[:i], d.line, d.drop)
		}
		s = s[i+1:]
		if s == "" {
			return
		}
	}
	split(d.lineNo, s, d.line, d.drop)
}

func (d *Detector) drop(n int64) { d.dropped += n }

// report finds the open report that lines of this context belong to.
func (d *Detector) report(ctx string) *crash {
	for _, c := range d.open {
		if c.ctx == ctx {
			return c
		}
	}
	return nil
}

var cpuRE = regexp.MustCompile(`CPU: (\d+)(?: UID: \d+)? PID: (\d+) Comm: (.+?)(?: Kdump: \w+)? (Not tainted|Tainted: [A-Z ]+)`)

// line handles one kernel or user-space line.
func (d *Detector) line(l line) {
	if l.usec >= 0 {
		d.stamped++
	}
	text := l.text
	c := d.report(l.ctx)

	if d.facts(l) {
		return
	}
	if h, ok := d.header(l); ok {
		if c = d.startReport(c, h, l); c == nil {
			return
		}
	} else if c != nil {
		d.extend(c, l)
	}
	if c != nil {
		c.marks = scanMarksOnce(c, text)
		if c.pending && (c.traces > 0 || cpuLine(text)) {
			c.pending = false
			d.opened(c)
		}
		if strings.Contains(text, "PID: ") && c.PID == "" {
			if m := cpuRE.FindStringSubmatch(text); m != nil {
				c.CPU, c.PID, c.Comm = m[1], m[2], m[3]
				if t, ok := strings.CutPrefix(m[4], "Tainted: "); ok {
					c.Tainted = strings.Join(strings.Fields(t), "")
				}
			}
		}
		d.maybeEnd(c, text)
	}
	d.remember(l)
}

func cpuLine(t string) bool {
	return strings.Contains(t, "Call Trace:") || strings.Contains(t, "Call trace:") || strings.Contains(t, "PID: ") && strings.Contains(t, "Comm: ")
}

func scanMarksOnce(c *crash, text string) []mark {
	n := len(c.marks)
	if n >= 2000 {
		return c.marks
	}
	ms := scanMarks(c.marks, text)
	if c.lockAt && len(ms) > n && ms[n].kind == markFrame {
		ms[n].kind = markLockAt
	}
	c.lockAt = strings.HasSuffix(strings.TrimRight(text, " "), ") at:")
	for _, m := range ms[n:] {
		if m.kind == markFrame || m.kind == markIP {
			c.traces++
		}
	}
	if len(ms) > n {
		c.idle = 0
	}
	return ms
}

func (d *Detector) remember(l line) {
	if len(d.recent) >= lookback*2 {
		d.recent = append(d.recent[:0], d.recent[len(d.recent)-lookback:]...)
	}
	d.recent = append(d.recent, l)
}

// facts takes lines that are events of their own. It returns true when the
// line can be nothing else.
func (d *Detector) facts(l line) bool {
	t := l.text
	switch {
	case strings.Contains(t, "Linux version ") && strings.HasPrefix(strings.TrimSpace(t), "Linux version "),
		strings.HasPrefix(t, "Booting the kernel.") && d.lineNo > 1:
		if strings.HasPrefix(t, "Booting") {
			if d.boots == 0 && d.lastUsec < 1000000 && !d.userSeen {
				return true
			}
			d.rebooted(l)
			d.booting = true // the banner that follows is the same boot
			return true
		}
		if !l.kernel && d.stamped > 0 {
			return false // /proc/version, printed by somebody
		}
		if !d.booting && (d.boots > 0 || d.userSeen || d.lastUsec > 5000000 && l.usec >= 0 && l.usec < d.lastUsec) {
			d.rebooted(l)
		}
		d.booting = false
		d.boots++
		d.lastUsec = 0
		d.event(KindBoot, l)
		return true
	case strings.Contains(t, " invoked oom-killer:"), strings.HasPrefix(t, "Out of memory: Kill"), strings.HasPrefix(t, "Memory cgroup out of memory"):
		if l.kernel || strings.Contains(t, "gfp_mask=") || strings.Contains(t, "process ") {
			d.event(KindOOM, l)
		}
	case strings.Contains(t, ": page allocation failure:"):
		d.event(KindAllocFail, l)
	case l.kernel && strings.HasPrefix(strings.TrimLeft(t, " "), "not ok ") && !strings.Contains(t, "# SKIP"):
		d.event(KindTestFail, l)
	case strings.HasPrefix(t, "kmemleak: ") && strings.Contains(t, "new suspected memory leaks"):
		d.event(KindLeakNotice, l)
	case !l.kernel && (strings.HasSuffix(t, "login: ") || strings.HasSuffix(t, "executing program:")):
		d.userSeen = true
	case strings.HasPrefix(t, "reboot: "), strings.HasPrefix(t, "kexec_core: Starting new kernel"), strings.HasPrefix(t, "Restarting system"):
		d.expect = true
		if strings.Contains(t, "Power down") || strings.Contains(t, "System halted") {
			d.event(KindPowerDown, l)
		}
	case strings.HasPrefix(t, "mount: unknown filesystem type"), strings.Contains(t, "Failed to mount real root"):
		d.event(KindBootFail, l)
		if strings.Contains(t, "9p") {
			d.bootFail = "the kernel lacks 9p: set CONFIG_NET_9P, CONFIG_NET_9P_VIRTIO and CONFIG_9P_FS"
		}
	}
	if l.usec >= 0 {
		d.lastUsec = l.usec
	}
	return false
}

func (d *Detector) event(kind string, l line) {
	for i := range d.events {
		if d.events[i].Kind == kind && kind != KindBoot {
			d.events[i].Count++
			return
		}
	}
	t := l.raw
	if len(t) > maxEventText {
		t = t[:maxEventText]
	}
	if len(d.events) < 1000 {
		d.events = append(d.events, Event{Kind: kind, Line: l.no, Count: 1, Text: t})
	}
}

// rebooted records that the kernel started anew without having been asked.
func (d *Detector) rebooted(l line) {
	for len(d.open) > 0 {
		d.close(d.open[0], false)
	}
	was := d.expect
	d.expect, d.userSeen = false, false
	d.lastUsec = 0
	if was {
		return
	}
	c := &Crash{Class: Reboot, Title: "unexpected kernel reboot", Line: l.no, Count: 1, Consequence: d.panicked, Text: []string{l.raw}}
	for i := max(0, len(d.recent)-lookback); i < len(d.recent); i++ {
		c.Text = append(c.Text[:len(c.Text)-1], d.recent[i].raw, l.raw)
	}
	d.add(c, Closed)
	d.panicked = false
}

// header decides whether a line starts a report.
func (d *Detector) header(l line) (hit, bool) {
	h, ok := matchHeader(l.text)
	if !ok {
		// The stream may end within "Kernel panic - not syncing".
		if d.closed && l.kernel && len(l.text) >= 12 && strings.HasPrefix("Kernel panic - not syncing", strings.TrimSpace(l.text)) {
			for _, k := range headers {
				if k.class == Panic {
					return hit{h: k, groups: []string{l.text, ""}, strict: true}, true
				}
			}
		}
		return h, false
	}
	if l.user {
		return h, false // another program's tag
	}
	if !l.kernel {
		if n := prompt(l.text); n > 0 {
			// A command echoed by the terminal names reports; only a
			// report that begins right after the prompt is one.
			h2, ok := matchHeader(l.text[n:])
			if !ok || !h2.strict || h2.h.loose {
				return h, false
			}
			h = h2
		}
	}
	if !l.kernel && !h.strict && (h.h.loose || quoted(l.text, h)) {
		return h, false
	}
	return h, true
}

// quoted tells whether a program shows a report's words in quotes.
func quoted(text string, h hit) bool {
	i := strings.Index(text, h.groups[0])
	return i > 0 && strings.IndexByte("'\"`", text[i-1]) >= 0
}

// startReport opens a report for a header, or lets it continue the open one.
func (d *Detector) startReport(c *crash, h hit, l line) *crash {
	if c != nil && d.continues(c, h, l) {
		d.extend(c, l)
		return c
	}
	if c != nil && h.h.spare {
		d.extend(c, l)
		return c
	}
	if c != nil && c.h.needle == "ref_tracker: " && h.h.class == Warn {
		// lib/ref_tracker.c lists the leaks and then warns: the WARN is
		// what people search for.
		d.forget(c)
		c = nil
	}
	if c != nil && c.pending && !h.h.loose {
		d.forget(c)
		c = nil
	}
	if c != nil {
		d.close(c, false)
	}
	if len(d.open) >= maxContexts {
		d.close(d.open[0], false)
	}
	n := &crash{hit: h, ctx: l.ctx}
	n.Crash = Crash{Class: h.h.class, Line: l.no, Count: 1}
	if l.usec >= 0 {
		n.Time = fmt.Sprintf("%d.%06d", l.usec/1000000, l.usec%1000000)
	}
	n.Consequence = d.fatal || d.panicked
	n.later = len(d.reports) > 0
	if h.h.class == Warn || h.h.class == Bug {
		// The WARN or BUG that carries a message reported above.
		for _, r := range d.reports {
			if r.Line < l.no && l.no-r.Line <= 12 && len(r.Text) == 1 && r.Class != Panic {
				n.Consequence = true
			}
		}
	}
	n.text = []string{l.text}
	n.raw = []string{l.raw}
	for i := max(0, len(d.recent)-lookback); i < len(d.recent); i++ {
		if r := d.recent[i]; r.ctx == l.ctx {
			n.before = append(n.before, r.text)
		}
	}
	// A header that no printk prefix marks, in a log whose kernel lines have
	// one, may be a program's text: wait for a trace. So must forms that no
	// rule knows.
	n.pending = h.h.loose && !h.h.noData && (!l.kernel || !h.strict) || !l.kernel && d.stamped > 3 && h.h.class != Leak && h.h.class != Fuzzer && !h.h.noData
	if !n.pending && h.h.class == Panic {
		d.panicked, d.expect = true, true
	}
	d.open = append(d.open, n)
	if !n.pending {
		d.opened(n)
	}
	return n
}

// opened tells a live reader of a new report.
func (d *Detector) opened(c *crash) {
	if d.opt.Slow != "" && c.h.class.timing() {
		c.Suspect = d.opt.Slow
	}
	d.notice(Opened, c.Crash)
}

// maxNotices bounds what waits for a reader who may never come.
const maxNotices = 1000

func (d *Detector) notice(state string, c Crash) {
	if len(d.notices) < maxNotices {
		d.notices = append(d.notices, Notice{state, c})
	}
}

// continues tells whether header h belongs to the open report c.
func (d *Detector) continues(c *crash, h hit, l line) bool {
	n := len(c.text)
	switch {
	case c.pending:
		return false
	case h.h.loose && h.h.class == Bug && !h.strict:
		return true
	case h.h.class == Panic:
		// Old kernels panic between a WARN's header and its trace.
		if c.h.class == Panic {
			return true
		}
		if c.traces == 0 && n < 12 && !c.h.noData {
			d.consequence(l, h)
			return true
		}
		return false
	case h.h.second && c.h.class == Leak:
		return n < 3 && c.traces == 0 // "BUG: memory leak", "unreferenced object"
	case h.h.second:
		// "Oops: 0002 [#1]" after "BUG: unable to handle ...".
		return n < 60 && (c.h.pick == pickIP || c.h.class == Other) && !c.ended && !c.contains("[#") || c.h.class == Panic
	case h.h == c.h && c.h.class == Lockdep && c.traces == 0 && n < 4:
		return true
	case c.h.class == Other && c.h.build != nil && h.h.class == Bug && n < 60 && c.traces == 0:
		return true // a Rust panic ends in BUG()
	case c.h.title != "" && strings.HasPrefix(c.h.title, "CFI failure") && (h.h.class == Warn || h.h.class == Oops):
		return n < 30 && c.traces <= 1
	case c.h.long && h.h == c.h && c.traces == 0 && h.h.class != HungTask:
		// A storm of headers with the traces switched off or lost.
		c.Count++
		c.LastLine = l.no
		return true
	case h.h.class == KASAN && strings.Contains(l.text, "maybe wild"):
		return true
	}
	return false
}

// consequence records a panic that stands inside another report.
func (d *Detector) consequence(l line, h hit) {
	c := &crash{hit: h}
	c.Crash = Crash{Class: Panic, Line: l.no, Count: 1, Consequence: true}
	c.text, c.raw = []string{l.text}, []string{l.raw}
	c.finish()
	c.Text = c.raw
	d.panicked, d.expect = true, true
	cc := c.Crash
	d.add(&cc, "")
}

// extend appends a line to an open report.
func (d *Detector) extend(c *crash, l line) {
	c.idle++
	if len(c.text) < maxReport {
		c.text = append(c.text, l.text)
		if len(c.raw) < d.opt.KeepLines {
			c.raw = append(c.raw, l.raw)
		}
	}
}

// maybeEnd closes a report at its end marks, or when nothing of it came for
// long.
func (d *Detector) maybeEnd(c *crash, t string) {
	if len(c.text) == 1 {
		if c.h.noData {
			d.close(c, false)
		}
		return
	}
	if c.pending && len(c.text) > proofLines {
		d.forget(c)
		return
	}
	s := strings.TrimSpace(t)
	switch {
	case strings.HasPrefix(s, "---[ end trace"), strings.HasPrefix(s, "---[ end Kernel panic"), strings.HasPrefix(s, "Rebooting in "):
		c.ended = true
		if c.h.class == Oops || c.h.class == Bug || c.h.class == Warn || c.h.class == Panic || c.h.class == Other || c.h.class == Refcount {
			d.close(c, false)
		} else if strings.HasPrefix(s, "---[ end Kernel") || strings.HasPrefix(s, "Rebooting") {
			d.close(c, false)
		}
	case strings.HasPrefix(s, "=====") && strings.Trim(s, "=") == "":
		switch c.h.class {
		case KASAN, KMSAN, KCSAN, KFENCE, UBSAN:
			c.ended = true
			d.close(c, false)
		default:
			if c.traces > 0 && !c.h.long {
				c.ended = true
				d.close(c, false)
			}
		}
	case strings.HasPrefix(s, "------------[ cut here"):
		if c.traces > 1 && !c.h.long && len(c.text) > 10 {
			d.close(c, false)
		}
	case len(c.text) >= maxReport, c.idle > maxIdle:
		c.ended = c.traces > 0
		d.close(c, false)
	}
}

func (d *Detector) forget(c *crash) {
	for i := range d.open {
		if d.open[i] == c {
			d.open = append(d.open[:i], d.open[i+1:]...)
			return
		}
	}
}

// close completes a report and folds it into an earlier one of its title.
func (d *Detector) close(c *crash, eof bool) {
	d.forget(c)
	if c.pending {
		return
	}
	c.finish()
	if eof && !c.ended && !c.h.noData && (c.partial || c.traces == 0 && c.h.pick != pickNone && c.Count == 1 || len(c.text) == 1 && !c.Consequence) {
		c.Truncated = true
		d.truncated = true
	}
	c.Text = c.raw
	if d.opt.Slow != "" && c.Class.timing() {
		c.Suspect = d.opt.Slow
	}
	if c.Boot != "" && d.bootFail == "" && !d.fatal {
		d.bootFail = c.Boot
	}
	cc := c.Crash
	d.add(&cc, Closed)
}

// add stores a complete report.
func (d *Detector) add(c *Crash, state string) {
	if c.Class.fatal() {
		d.fatal = true
	}
	if old := d.byTitle[c.Title]; old != nil {
		old.Count += c.Count
		old.LastLine = c.Line
		old.Last = c.Text
		d.notice(Repeated, *old)
		return
	}
	if len(d.reports) >= maxReports {
		return
	}
	d.byTitle[c.Title] = c
	d.reports = append(d.reports, c)
	if state != "" {
		d.notice(state, *c)
	}
}
