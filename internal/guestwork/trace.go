// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"patchcheck/internal/guestproto"
)

const (
	traceDir   = "/sys/kernel/tracing"
	traceGroup = "patchcheck"
	// defaultHistSize is a histogram's size in entries; those that do not fit
	// are dropped, and the count is then INVALID.
	defaultHistSize = 4096
	minHistSize     = 1 << 7  // TRACING_MAP_BITS_MIN
	maxHistSize     = 1 << 17 // TRACING_MAP_BITS_MAX
)

// probe is an installed probe.
type probe struct {
	name    string // the plan's
	point   string // tracepoint that the event sits on, if any
	event   string // group/name below events/
	own     string // the line that defines our dynamic event; empty: an event of the kernel
	keys    []histKey
	filter  string
	trigger string // "hist:keys=...:size=..."
	nmissed int64  // of the kernel's count when the probe was set
}

// newProbe makes the definition and trigger of a probe; it is pure.
func newProbe(p *guestproto.Probe) (probe, error) {
	if p.Name == "" {
		return probe{}, usagef("a probe has no name")
	}
	sources := 0
	for _, s := range []string{p.Tracepoint, p.Event, p.Function, p.Return} {
		if s != "" {
			sources++
		}
	}
	if sources != 1 {
		return probe{}, usagef("the probe %s needs exactly one of tracepoint, event, function and return", p.Name)
	}
	event := eventName(p.Name)
	if !isIdentifier(event) {
		return probe{}, usagef("the probe name %q is no name for an event: use letters, digits, - and _, beginning with a letter", p.Name)
	}
	out := probe{name: p.Name, event: traceGroup + "/" + event, filter: strings.TrimSpace(p.Filter)}
	if strings.ContainsAny(out.filter, "\n\x00") {
		return probe{}, usagef("the filter of the probe %s has more than one line", p.Name)
	}
	define := func(kind, target string) error {
		if strings.ContainsAny(target, " \t\n") {
			return usagef("the probe %s: %q is no name of a %s", p.Name, target, kind)
		}
		b := new(strings.Builder)
		prefix := "f"
		if kind == "tracepoint" {
			prefix = "t"
		}
		fmt.Fprintf(b, "%s:%s/%s %s", prefix, traceGroup, event, target)
		for _, f := range p.Fields {
			if !isIdentifier(f.Name) {
				return usagef("the probe %s: %q is no name of a field", p.Name, f.Name)
			}
			if f.Fetch == "" || strings.ContainsAny(f.Fetch, " \t\n") {
				return usagef("the probe %s: field %s has the malformed fetch argument %q", p.Name, f.Name, f.Fetch)
			}
			fmt.Fprintf(b, " %s=%s", f.Name, f.Fetch)
		}
		out.own = b.String()
		return nil
	}
	var err error
	switch {
	case p.Tracepoint != "":
		out.point = p.Tracepoint
		err = define("tracepoint", p.Tracepoint)
	case p.Function != "":
		err = define("function", p.Function)
	case p.Return != "":
		err = define("function", strings.TrimSuffix(p.Return, "%return")+"%return")
	default:
		group, name, ok := strings.Cut(p.Event, "/")
		if !ok || strings.ContainsAny(p.Event, " \t\n.") || group == "" || name == "" {
			return probe{}, usagef("the probe %s: the event %q is not GROUP/NAME", p.Name, p.Event)
		}
		if len(p.Fields) > 0 {
			return probe{}, usagef("the probe %s: an existing event has its own fields", p.Name)
		}
		out.event = p.Event
	}
	if err != nil {
		return probe{}, err
	}
	if out.keys, err = parseKeys(p.Keys); err != nil {
		return probe{}, err
	}
	size := p.Size
	if size == 0 {
		size = defaultHistSize
	}
	if size < minHistSize || size > maxHistSize || size&(size-1) != 0 {
		return probe{}, usagef("the probe %s: a histogram of %d entries is no power of two between %d and %d", p.Name, size, minHistSize, maxHistSize)
	}
	var specs []string
	for _, k := range out.keys {
		specs = append(specs, k.spec)
	}
	out.trigger = fmt.Sprintf("hist:keys=%s:size=%d", strings.Join(specs, ","), size)
	return out, nil
}

// eventName makes the name of a dynamic event.
func eventName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '.' || r == ' ' {
			return '_'
		}
		return r
	}, name)
}

// command gives what to write to the trigger file; op is "", "clear".
func (p *probe) command(op string) string {
	s := p.trigger
	if op != "" {
		s += ":" + op
	}
	if p.filter != "" {
		s += " if " + p.filter
	}
	return s
}

// traceSet serves VerbTrace. Probes of an earlier call go first.
func (w *work) traceSet(ctx context.Context, r *guestproto.Trace, log func(string)) (any, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var probes []probe
	names, events := map[string]bool{}, map[string]bool{}
	for i := range r.Probes {
		p, err := newProbe(&r.Probes[i])
		if err != nil {
			return nil, err
		}
		if names[p.name] || p.own != "" && events[p.event] {
			return nil, usagef("two probes are called %s", p.name)
		}
		names[p.name], events[p.event] = true, true
		probes = append(probes, p)
	}
	if err := ensureMount("tracefs", w.path(traceDir), "tracefs", "", "CONFIG_FTRACE"); err != nil && w.root == "" {
		return nil, err
	}
	if err := w.removeProbes(); err != nil {
		return nil, err
	}
	// Otherwise the first event also puts a probe into __schedule(), to record
	// names of tasks. Under emulation, patching code that runs all the time is
	// what kills a guest now and then.
	if err := w.traceWrite(filepath.Join(traceDir, "options", "record-cmd"), "0"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, withErrno(setupf("", "cannot switch off %s/options/record-cmd", traceDir), err)
	}
	for _, p := range probes {
		if err := w.install(&p); err != nil {
			w.removeProbes()
			return nil, err
		}
		w.probes = append(w.probes, p)
	}
	return nil, nil
}

// install makes the event and its trigger.
func (w *work) install(p *probe) error {
	if p.own != "" {
		file := filepath.Join(traceDir, "dynamic_events")
		if _, err := os.Stat(w.path(file)); err != nil {
			return setupf("the kernel needs CONFIG_FPROBE_EVENTS (with CONFIG_FPROBE and CONFIG_FUNCTION_TRACER)", "there is no %s", file)
		}
		if p.point != "" && !w.hasTracepoint(p.point) {
			return setupf("it may have another name in this kernel: see available_events", "the probe %s: this kernel has no tracepoint %s", p.name, p.point)
		}
		if err := w.traceWrite(file, p.own); err != nil {
			hint := "the function may be inlined, static in another unit or not traceable: see available_filter_functions"
			if p.point != "" {
				hint = "a fetch argument does not fit the tracepoint; offsets must be those of this very build"
			}
			return w.traceError(p, "cannot make the event", p.own, hint, err)
		}
	}
	dir := filepath.Join(traceDir, "events", p.event)
	b, err := os.ReadFile(w.path(filepath.Join(dir, "format")))
	if err != nil {
		hint := "this kernel has no such trace event"
		if p.own != "" {
			hint = ""
		}
		return withErrno(setupf(hint, "the probe %s: there is no %s", p.name, dir), err)
	}
	fields := parseFormat(string(b))
	for i := range p.keys {
		p.keys[i].signed = fields[p.keys[i].field]
	}
	trigger := filepath.Join(dir, "trigger")
	if _, err := os.Stat(w.path(filepath.Join(dir, "hist"))); err != nil {
		return setupf("the kernel needs CONFIG_HIST_TRIGGERS", "the probe %s: there is no %s", p.name, filepath.Join(dir, "hist"))
	}
	if err := w.traceWrite(trigger, p.command("")); err != nil {
		e := w.traceError(p, "cannot set the histogram", p.command(""), "keys and filter must name fields of the event", err)
		if p.own != "" {
			w.traceWrite(filepath.Join(traceDir, "dynamic_events"), "-:"+p.event)
		}
		return e
	}
	p.nmissed = w.nmissed(p)
	return nil
}

// hasTracepoint tells whether the kernel has a tracepoint. The kernel takes a
// probe on one that it does not have, in case that a module brings it later,
// and such a probe counts nothing for ever. Most tracepoints have a trace
// event of their name; those that have none have a symbol.
func (w *work) hasTracepoint(name string) bool {
	if found, _ := filepath.Glob(w.path(filepath.Join(traceDir, "events", "*", name))); len(found) > 0 {
		return true
	}
	f, err := os.Open(w.path("/proc/kallsyms"))
	if err != nil {
		return false
	}
	defer f.Close()
	symbol := " __tracepoint_" + name
	for s := bufio.NewScanner(f); s.Scan(); {
		// "ffffffff81234560 D __tracepoint_NAME" and, in a module, "\t[rpcrdma]"
		line, _, _ := strings.Cut(s.Text(), "\t")
		if strings.HasSuffix(line, symbol) {
			return true
		}
	}
	return false
}

// traceError adds what the kernel logged about a refused line: the caret of
// tracefs' error_log.
func (w *work) traceError(p *probe, what, line, hint string, err error) *guestproto.Error {
	e := withErrno(setupf(hint, "the probe %s: %s %q", p.name, what, line), err)
	if errnoOf(err) == unix.ENOMEM {
		e.Class = guestproto.ClassResource
	}
	b, rerr := os.ReadFile(w.path(filepath.Join(traceDir, "error_log")))
	if rerr == nil {
		e.Detail = lastTraceError(string(b))
	}
	return e
}

// lastTraceError gives the last entry of tracefs' error_log; each begins with
// a time in brackets.
func lastTraceError(s string) string {
	if i := strings.LastIndex("\n"+s, "\n["); i >= 0 {
		return strings.TrimRight(s[i:], "\n")
	}
	return strings.TrimSpace(s)
}

// traceWrite appends a command to a file of tracefs: truncation would remove
// all that is there.
func (w *work) traceWrite(file, line string) error {
	f, err := openFile(w.path(file), unix.O_WRONLY|unix.O_APPEND)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// nmissed gives how many hits a kprobe-based event missed. Events on
// tracepoints and by fprobe have no such count, nor a way to miss while
// tracing is on.
func (w *work) nmissed(p *probe) int64 {
	if p.own == "" {
		return 0
	}
	b, err := os.ReadFile(w.path(filepath.Join(traceDir, "kprobe_profile")))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		// "  NAME      HITS     MISSED"
		if f := strings.Fields(line); len(f) == 3 && f[0] == filepath.Base(p.event) {
			n, _ := strconv.ParseInt(f[2], 10, 64)
			return n
		}
	}
	return 0
}

// traceRead serves VerbTraceRead. Events between reading and clearing would
// be lost, so the caller reads when nothing runs.
func (w *work) traceRead(ctx context.Context, _ *struct{}, log func(string)) (*guestproto.TraceResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.probes) == 0 {
		return nil, usagef("no probe is installed (trace.set)")
	}
	res := &guestproto.TraceResult{Hists: map[string]guestproto.Hist{}}
	for i := range w.probes {
		p := &w.probes[i]
		file := filepath.Join(traceDir, "events", p.event, "hist")
		b, err := os.ReadFile(w.path(file))
		if err != nil {
			return nil, withErrno(setupf("", "the probe %s: cannot read %s", p.name, file), err)
		}
		h, err := parseHist(string(b), p.keys, p.filter)
		if err != nil {
			e := setupf("", "the probe %s: %v", p.name, err)
			e.Detail = head(string(b), 2000)
			return nil, e
		}
		n := w.nmissed(p)
		h.Missed, p.nmissed = n-p.nmissed, n
		res.Hists[p.name] = h
	}
	for i := range w.probes {
		p := &w.probes[i]
		if err := w.traceWrite(filepath.Join(traceDir, "events", p.event, "trigger"), p.command("clear")); err != nil {
			return nil, w.traceError(p, "cannot clear the histogram", p.command("clear"), "", err)
		}
	}
	return res, nil
}

func head(s string, n int) string {
	if len(s) > n {
		return s[:n] + "\n[...]"
	}
	return s
}

// traceOff serves VerbTraceOff.
func (w *work) traceOff(ctx context.Context, _ *struct{}, log func(string)) (any, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return nil, w.removeProbes()
}

// removeProbes takes triggers away first, because an event with a trigger is
// busy, then the events. It goes on after a failure and reports all.
func (w *work) removeProbes() error {
	var errs []error
	for i := len(w.probes) - 1; i >= 0; i-- {
		p := &w.probes[i]
		if err := w.traceWrite(filepath.Join(traceDir, "events", p.event, "trigger"), "!"+p.command("")); err != nil {
			errs = append(errs, fmt.Errorf("trigger of %s: %w", p.name, err))
		}
		if p.own != "" {
			if err := w.traceWrite(filepath.Join(traceDir, "dynamic_events"), "-:"+p.event); err != nil {
				errs = append(errs, fmt.Errorf("event %s: %w", p.name, err))
			}
		}
	}
	w.probes = nil
	if err := errors.Join(errs...); err != nil {
		e := withErrno(setupf("", "cannot remove the probes"), errs[0])
		e.Detail = err.Error()
		return e
	}
	return nil
}
