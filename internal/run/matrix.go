// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"patchcheck/checks"
	"patchcheck/checks/console"
	"patchcheck/checks/counts"
	"patchcheck/checks/guestlog"
	"patchcheck/internal/guestproto"
	"patchcheck/internal/runfolder"
	"patchcheck/internal/view"
	"patchcheck/testplans"
	"patchcheck/vm"
)

// guestKernel is a built kernel as the matrix needs it.
type guestKernel struct {
	role    string
	key     string
	release string
	image   string // path of the boot image
	config  string // path of its .config
	probes  []guestproto.Probe
	absent  []string
	lines   lines    // of its addresses; nil without debug info
	touched []string // files that the series changes
	source  func(checks.Where) *checks.Source
}

// matrix runs cells in guests and attributes their failures.
type matrix struct {
	run     *runfolder.Run
	plan    *testplans.Plan
	kernels map[string]*guestKernel
	initrd  string
	accel   vm.Accel
	seed    uint64
	hurry   float64 // see Options
	step    *view.Step
	hook    func(ctx context.Context, g *vm.Guest, cell, step string) error
	guests  int
	done    int
	total   int
	base    map[string]*runfolder.Attempt // attempts on the base kernel, by device/nfs
	earlier map[string][]testplans.Cell   // cells that a guest ran before one, by guest and cell id
	changed map[string]string             // id of a plan's same that was confirmed to differ: in which cell
	// kept are attempts of a run that is resumed, which its first sweep takes
	// over; draft puts a cell on record before its answer is final.
	kept  map[string]*runfolder.Attempt
	draft func(*runfolder.Cell) error
	// seen is told of each cell of the first sweep, and whether its guest can go
	// on.
	seen func(c testplans.Cell, a *runfolder.Attempt, usable bool) error
	note func(string)                     // tells the user what happened to us, and keeps it
	tell func(format string, args ...any) // tells the user what the record will say better
}

// session is one guest with its console under watch.
type session struct {
	g      *vm.Guest
	b      *bench
	con    *watch
	name   string
	kernel *guestKernel
	// decode puts file and line to the frames of a report, see decoding; nil in
	// tests.
	decode func(*console.Report) *checks.Finding
	// judged is how many console lines earlier cells have answered for; the
	// first cell answers for the boot, too.
	judged int
}

// Deadlines for collecting evidence from a guest that hangs.
const interrogation = 20 * time.Second

// boot starts a guest of k, brings the server up and sets the counts. The
// returned error is a *cellError when it says something about the kernel or
// the infrastructure.
func (m *matrix) boot(ctx context.Context, k *guestKernel) (*session, error) {
	s, err := m.power(ctx, k)
	if err != nil {
		return nil, err
	}
	g := s.g
	if err := s.b.call(ctx, &runfolder.Attempt{}, "", "set counts", guestproto.VerbTrace, deadlineStart, guestproto.Trace{Probes: k.probes}, nil); err != nil {
		m.post(ctx, s, err)
		g.Close()
		return nil, err
	}
	if err := m.leakBase(ctx, s); err != nil {
		m.post(ctx, s, err)
		g.Close()
		return nil, err
	}
	before, err := s.b.memory(ctx, &runfolder.Attempt{}, "")
	if err != nil {
		m.post(ctx, s, err)
		g.Close()
		return nil, err
	}
	s.b.before = &before
	return s, nil
}

// power starts a guest of k and brings the server up; errors are as boot's.
func (m *matrix) power(ctx context.Context, k *guestKernel) (*session, error) {
	m.guests++
	name := fmt.Sprintf("%02d-%s", m.guests, k.role)
	slow := ""
	if m.accel == vm.TCG {
		slow = "the guest was emulated (TCG)"
	}
	con := newWatch(slow)
	s := &session{con: con, name: name, kernel: k, decode: decoding(ctx, k.lines, k.touched)}
	cfg := vm.Config{
		Kernel: k.image, KernelConfig: k.config, Initrds: []string{m.initrd},
		Append: m.plan.Guest.Append, CPUs: m.plan.Guest.CPUs, MemMiB: int(m.plan.Guest.Memory >> 20),
		Accel: m.accel, StateDir: m.run.Path("console", name), Console: con, Slow: slowness(m.plan, m.hurry),
		InfoLog: m.inform,
	}
	if argv, err := vm.Cmdline(cfg); err == nil {
		m.run.Note(fmt.Sprintf("# guest %s", name))
		m.run.Note(quote(argv))
	}
	g, err := vm.Boot(ctx, cfg)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var be *vm.BootError
		if errors.As(err, &be) {
			f := ruleBoot.New(checks.Where{}, "%s kernel: %s (after %.1f s)", k.role, be.What, be.After.Seconds())
			f.Evidence = be.ConsoleTail
			fs := s.findings(con.finish())
			for _, cf := range fs {
				if gates(cf) {
					f.Evidence = append(cf.Evidence, f.Evidence...)
					f.Message += "; " + cf.Message
					if cf.Where.File != "" {
						f.Where.File, f.Where.Line, f.Source = cf.Where.File, cf.Where.Line, cf.Source
					}
					break
				}
			}
			if n := len(fs); n > 0 && fs[n-1].ID == console.Undecoded {
				f.Evidence = append(append(f.Evidence, fs[n-1].Message), fs[n-1].Evidence...)
			}
			if m.accel == vm.TCG && staleBreakpoint(con.finish()) {
				f.ID, f.Severity = ruleEmulator.ID, ruleEmulator.Severity
				return nil, &cellError{f, checks.Infra, err}
			}
			return nil, &cellError{f, checks.Fail, err}
		}
		var ie *vm.InfraError
		f := ruleInfra.New(checks.Where{}, "the guest could not be started: %v", firstLine(err))
		if errors.As(err, &ie) {
			f.Evidence = append(strings.Split(strings.TrimSpace(ie.QEMUStderr), "\n"), ie.ConsoleTail...)
		}
		return nil, &cellError{f, checks.Infra, err}
	}
	s.g = g
	s.b = &bench{g: g, plan: m.plan, kernel: k.release, absent: k.absent, guest: name, seed: m.seed, hurry: m.hurry, crash: con.crash}
	if err := s.b.start(ctx); err != nil {
		m.post(ctx, s, err)
		g.Close()
		return nil, err
	}
	return s, nil
}

// inform passes on what booting a guest has to say: that it waits for memory,
// that clocks differ.
func (m *matrix) inform(line string) {
	if m.note != nil {
		m.note(line)
	}
}

// post collects what a hung guest can still tell, before it is killed.
func (m *matrix) post(ctx context.Context, s *session, err error) {
	var mute *vm.NoAnswer
	if !errors.As(err, &mute) || ctx.Err() != nil {
		return
	}
	ictx, cancel := context.WithTimeout(ctx, interrogation)
	defer cancel()
	s.g.Interrogate(ictx) // its output is on the console; a guest too dead to answer is no error
}

// consoleGrace is how long the console may lag behind the guest's answers.
const consoleGrace = 200 * time.Millisecond

// exec runs one cell in s and adds what the console showed meanwhile. usable
// says whether the guest can take another cell; if not, it is closed.
func (m *matrix) exec(ctx context.Context, s *session, c testplans.Cell) (a runfolder.Attempt, usable bool, err error) {
	s.b.hook = nil
	if m.hook != nil {
		s.b.hook = func(step string) error { return m.hook(ctx, s.g, c.ID(), step) }
	}
	s.b.say = func(step string) {
		// Cells that are run once more to decide are not known beforehand.
		m.step.Update("%d/%d  %s: %s", m.done+1, max(m.total, m.done+1), c.ID(), step)
	}
	from := s.judged
	a, err = s.b.cell(ctx, c)
	a.Accel = string(m.accel)
	if err != nil {
		return a, false, err
	}
	if !s.con.raised(consoleGrace) && a.Verdict == checks.Pass {
		s.judged = s.con.line()
		return a, true, nil
	}
	if n := len(a.Steps); a.Token == "" && n > 0 && strings.Contains(a.Steps[n-1].Error, "did not finish") {
		m.post(ctx, s, &vm.NoAnswer{})
	}
	s.g.Close() // so that the console is whole
	m.consoleFindings(s, c, &a, from)
	m.diagnose(s, c, &a, from)
	return a, false, nil
}

// diagnose names what the guest's log says of troubles that are no crash.
func (m *matrix) diagnose(s *session, c testplans.Cell, a *runfolder.Attempt, from int) {
	ds := m.scan(s, from)
	if m.exhausted(s, c, a, ds) {
		return
	}
	for _, d := range ds {
		if !d.Note {
			a.Findings = append(a.Findings, of(c, d.Finding()))
		}
	}
}

// exhausted says that the guest ran out of memory or space, which says nothing
// about the series, unless the kernel had crashed before. ds is what its log
// says.
func (m *matrix) exhausted(s *session, c testplans.Cell, a *runfolder.Attempt, ds []guestlog.Diagnosis) bool {
	if crashedBefore(s.con.finish(), console.KindOOM) {
		return false
	}
	var found []checks.Finding
	if l := s.g.OutOfMemory(); l != "" {
		f := ruleNoMemory.New(checks.Where{Cell: c.ID()}, "the guest ran out of memory; give it more than %v (guest.memory in the plan)", m.plan.Guest.Memory)
		f.Evidence = []string{l}
		found = append(found, f)
	} else {
		for _, d := range ds {
			if d.Class == guestlog.GuestOOM || d.Class == guestlog.GuestFull {
				found = append(found, of(c, d.Finding()))
			}
		}
	}
	if found == nil {
		return false
	}
	a.Findings = append(found, a.Findings...)
	a.Verdict, a.Token = checks.Infra, ""
	return true
}

// crashedBefore tells whether a report stands before the first event of a kind.
func crashedBefore(rep console.Report, kind string) bool {
	for _, e := range rep.Events {
		if e.Kind == kind {
			return len(rep.Reports) > 0 && rep.Reports[0].Line < e.Line
		}
	}
	return false
}

// scan reads the console's log from a line on. The guest must be closed.
func (m *matrix) scan(s *session, from int) []guestlog.Diagnosis {
	b, err := os.ReadFile(m.run.Path("console", s.name, "console.log"))
	if err != nil {
		return nil
	}
	lines := strings.SplitAfter(string(b), "\n")
	ds, _ := guestlog.Scan(strings.NewReader(strings.Join(lines[min(from, len(lines)):], ""))) // a string has no read errors
	return ds
}

// of says which cell a finding is of.
func of(c testplans.Cell, f checks.Finding) checks.Finding {
	f.Where.Cell = c.ID()
	return f
}

// findings are those of a console report, with its frames decoded where the
// kernel has debug info. What says that they could not be comes last.
func (s *session) findings(rep console.Report) []checks.Finding {
	// The watch keeps the reports that it gave.
	rep.Reports = slices.Clone(rep.Reports)
	var note *checks.Finding
	if s.decode != nil {
		note = s.decode(&rep)
	}
	fs := console.Findings(rep)
	for i := range fs {
		if s.kernel != nil && s.kernel.source != nil {
			fs[i].Source = s.kernel.source(fs[i].Where)
		}
	}
	if note != nil {
		fs = append(fs, *note)
	}
	return fs
}

// consoleFindings gives the cell the reports that the console showed from the
// given line on. The guest must be closed.
func (m *matrix) consoleFindings(s *session, c testplans.Cell, a *runfolder.Attempt, from int) {
	rep := s.con.finish()
	late := console.Report{Events: rep.Events, Truncated: rep.Truncated, Dropped: rep.Dropped, Boots: rep.Boots, Lines: rep.Lines}
	for _, r := range rep.Reports {
		if s.g.NMISent() && r.Class == console.Panic {
			continue // by our own NMI, to get the stacks of a guest that hangs
		}
		if r.Line >= from {
			late.Reports = append(late.Reports, r)
			late.Crash = true
		}
	}
	var found []checks.Finding
	if err := s.g.ConsoleErr(); err != nil {
		found = append(found, ruleLogCut.New(checks.Where{Cell: c.ID()}, "the console's log was cut: %v", err))
	}
	emulator := m.accel == vm.TCG && staleBreakpoint(late)
	for _, f := range s.findings(late) {
		f.Where.Cell = c.ID()
		if emulator {
			f.Severity = checks.Note
		}
		if gates(f) {
			a.Verdict = worst(a.Verdict, checks.Fail)
			a.Token = ""
		}
		found = append(found, f)
	}
	if emulator {
		found = append([]checks.Finding{ruleEmulator.New(checks.Where{Cell: c.ID()}, "the guest died of a fault of its emulator (%s); that says nothing about the kernel", late.Reports[0].Title)}, found...)
		a.Verdict, a.Token = checks.Infra, ""
	}
	// The cause stands before its consequence.
	a.Findings = append(found, a.Findings...)
}

// staleBreakpoint tells a kernel that died of a breakpoint which nobody had set.
// Linux puts one on code that it patches (static keys, tracepoints) for as long
// as that takes, see text_poke_bp() in arch/x86/kernel/alternative.c. QEMU
// before 8.1 emulating several CPUs may execute a translation of it that is out
// of date.
func staleBreakpoint(rep console.Report) bool {
	return len(rep.Reports) > 0 && rep.Reports[0].Class == console.Oops && strings.HasPrefix(rep.Reports[0].Title, "int3 in ")
}

// sweep is runAll with the attempts that were taken over; each cell that
// passes is on record at once, for a run that is killed meanwhile.
func (m *matrix) sweep(ctx context.Context, k *guestKernel, cells []testplans.Cell) (map[string]*runfolder.Attempt, error) {
	var todo []testplans.Cell
	for _, c := range cells {
		if m.kept[c.ID()] == nil {
			todo = append(todo, c)
		}
	}
	told := map[string]bool{}
	m.seen = func(c testplans.Cell, a *runfolder.Attempt, usable bool) error {
		// The verdict is minutes away, and whoever reads this can end the run.
		if sig := signature(a); a.Verdict != checks.Pass && !told[sig] {
			told[sig] = true
			m.tell("%s: %s so far, to be confirmed after the other cells: %s", c.ID(), a.Verdict, reason(a))
		}
		if !usable {
			return nil
		}
		return m.draft(&runfolder.Cell{ID: c.ID(), Spec: c, Attempts: []runfolder.Attempt{*a}, Verdict: a.Verdict, Findings: a.Findings})
	}
	out, err := m.runAll(ctx, k, todo)
	m.seen = nil
	for _, c := range cells {
		if a := m.kept[c.ID()]; a != nil {
			out[c.ID()] = a
			m.done++
		}
	}
	return out, err
}

// runAll executes cells of one kernel in as few guests as their failures
// allow.
func (m *matrix) runAll(ctx context.Context, k *guestKernel, cells []testplans.Cell) (map[string]*runfolder.Attempt, error) {
	out := map[string]*runfolder.Attempt{}
	var s *session
	var inGuest []*runfolder.Attempt // passed in the guest that is up
	var ran []testplans.Cell         // all of them in it
	defer func() {
		if s != nil {
			s.g.Close()
		}
	}()
	boots := 0
	hung := map[string]bool{}
	for _, c := range cells {
		if s == nil {
			var err error
			boots++
			s, err = m.boot(ctx, k)
			if err != nil {
				var ce *cellError
				if !errors.As(err, &ce) {
					return out, err
				}
				// A guest that does not come up answers for all cells left.
				for _, rest := range cells {
					if out[rest.ID()] == nil {
						f := ce.finding
						f.Where.Cell = rest.ID()
						out[rest.ID()] = &runfolder.Attempt{Guest: fmt.Sprintf("%02d-%s", m.guests, k.role), Kernel: k.release, Started: time.Now(), Accel: string(m.accel),
							Verdict: ce.verdict, Findings: []checks.Finding{f}, Steps: []runfolder.CellStep{{Name: "boot", Error: firstLine(ce.err)}}}
					}
				}
				return out, nil
			}
			inGuest, ran = nil, nil
			s.b.hung = hung
		}
		if m.earlier != nil {
			m.earlier[s.name+" "+c.ID()] = ran
		}
		a, usable, err := m.exec(ctx, s, c)
		if err != nil {
			return out, err
		}
		ran = append(slices.Clip(ran), c)
		a.Fresh, a.Nth = len(inGuest) == 0 && len(cells) == 1, len(inGuest)+1
		out[c.ID()] = &a
		m.done++
		if m.seen != nil {
			if err := m.seen(c, &a, usable); err != nil {
				return out, err
			}
		}
		if usable {
			inGuest = append(inGuest, &a)
		} else {
			// What a failed cell left behind must not be blamed on the next.
			s = nil
		}
	}
	if s != nil && len(inGuest) > 0 {
		last := inGuest[len(inGuest)-1]
		m.farewell(ctx, s, cells[len(cells)-1], last)
		for _, msg := range growth(m.plan, inGuest) {
			last.Findings = append(last.Findings, ruleMemory.New(checks.Where{Cell: cells[len(cells)-1].ID()}, "%s", msg))
			last.Verdict = worst(last.Verdict, checks.Fail)
		}
	}
	return out, nil
}

// farewell ends a guest in order and reads its kernel log as a second witness
// beside the console.
func (m *matrix) farewell(ctx context.Context, s *session, c testplans.Cell, a *runfolder.Attempt) {
	from := s.judged
	if err := m.leaks(ctx, s, c, a); err != nil {
		var ce *cellError
		if errors.As(err, &ce) {
			a.Findings = append(a.Findings, ce.finding)
			a.Verdict = worst(a.Verdict, ce.verdict)
		}
	}
	var d guestproto.Dmesg
	derr := s.b.call(ctx, &runfolder.Attempt{}, c.ID(), "dmesg", guestproto.VerbDmesg, deadlineQuick, nil, &d)
	s.g.Close()
	m.consoleFindings(s, c, a, from)
	if m.exhausted(s, c, a, m.scan(s, from)) || derr != nil || s.con.finish().Crash {
		return
	}
	rep, _ := console.Parse(strings.NewReader(d.Text), console.Options{})
	for _, f := range s.findings(rep) {
		if gates(f) {
			f.Where.Cell = c.ID()
			f.Message += " (in the kernel log only, not on the console)"
			a.Findings = append(a.Findings, f)
			a.Verdict = worst(a.Verdict, checks.Fail)
		}
	}
}

// fresh runs one cell alone in a new guest, in another one where our
// infrastructure fails.
func (m *matrix) fresh(ctx context.Context, k *guestKernel, c testplans.Cell) (*runfolder.Attempt, error) {
	for n := 0; ; n++ {
		out, err := m.runAll(ctx, k, []testplans.Cell{c})
		if err != nil {
			return nil, err
		}
		a := out[c.ID()]
		a.Fresh = true
		if a.Verdict != checks.Infra || n == infraRetries {
			return a, nil
		}
		m.inform(fmt.Sprintf("%s: guest %s gave no answer (%s); again", c.ID(), a.Guest, reason(a)))
	}
}

// inTurn runs a cell after others in one new guest; nil when one of those does
// not let the guest come that far.
func (m *matrix) inTurn(ctx context.Context, k *guestKernel, earlier []testplans.Cell, c testplans.Cell) (*runfolder.Attempt, error) {
	cells := make([]testplans.Cell, 0, len(earlier)+1)
	for _, e := range append(slices.Clip(earlier), c) {
		e.Kernel = k.role
		cells = append(cells, e)
	}
	out, err := m.runAll(ctx, k, cells)
	if err != nil {
		return nil, err
	}
	a := out[cells[len(cells)-1].ID()]
	if a.Nth != len(cells) {
		return nil, nil
	}
	return a, nil
}

// Limits of repetition: an infrastructure failure is tried again this often,
// and so many cells of one failure signature are confirmed one by one; the
// others rest on them.
const (
	infraRetries  = 2
	confirmations = 2
)

// all runs every cell and gives each a verdict.
func (m *matrix) all(ctx context.Context, cells []testplans.Cell, save func(*runfolder.Cell) error) error {
	m.total = len(cells)
	byRole := map[string][]testplans.Cell{}
	for _, c := range cells {
		byRole[c.Kernel] = append(byRole[c.Kernel], c)
	}
	results := map[string]*runfolder.Cell{}
	for _, role := range []string{testplans.RoleBase, testplans.RolePatched} {
		if len(byRole[role]) == 0 {
			continue
		}
		first, err := m.sweep(ctx, m.kernels[role], byRole[role])
		for _, c := range byRole[role] {
			a := first[c.ID()]
			if a == nil {
				continue
			}
			if role == testplans.RoleBase {
				m.base[place(c)] = a
			}
			cell := &runfolder.Cell{ID: c.ID(), Spec: c, Attempts: []runfolder.Attempt{*a}, Verdict: a.Verdict, Findings: a.Findings}
			results[c.ID()] = cell
			// On record, for whoever looks on, but not yet an answer to be
			// reused: the comparison with the base kernel is still to come.
			// (On the base itself there is nothing to be compared with.)
			if a.Verdict == checks.Pass {
				put := m.draft
				if role == testplans.RoleBase && err == nil {
					put = save
				}
				if err := put(cell); err != nil {
					return err
				}
			}
		}
		if err != nil {
			return err
		}
		if err := m.retry(ctx, role, byRole[role], results); err != nil {
			return err
		}
	}
	confirmed := map[string]*runfolder.Cell{}
	count := map[string]int{}
	for _, c := range cells {
		cell := results[c.ID()]
		switch cell.Verdict {
		case checks.Infra:
			cell.Reason = reason(cell.Last())
			if err := m.checkShortage(ctx, c, cell); err != nil {
				return err
			}
		case checks.Pass:
			if err := m.checkTime(ctx, c, cell); err != nil {
				return err
			}
			if cell.Verdict == checks.Pass {
				if err := m.checkMemory(ctx, c, cell); err != nil {
					return err
				}
			}
			if cell.Verdict == checks.Pass {
				if err := m.checkSame(ctx, c, cell); err != nil {
					return err
				}
			}
			if b := m.base[place(c)]; cell.Verdict == checks.Pass && b != nil && b.Verdict != checks.Pass {
				// It could not be compared, so it is no answer for later.
				if err := m.draft(cell); err != nil {
					return err
				}
				continue
			}
		default:
			sig := c.Kernel + " " + signature(cell.Last())
			if count[sig] >= confirmations {
				like := confirmed[sig]
				cell.Verdict, cell.Reason = like.Verdict, fmt.Sprintf("same failure as %s: %s", like.ID, like.Reason)
			} else {
				if err := m.attribute(ctx, c, cell); err != nil {
					return err
				}
				count[sig]++
				confirmed[sig] = cell
			}
		}
		if err := save(cell); err != nil {
			return err
		}
	}
	return nil
}

// retry runs cells again that our infrastructure failed, in fresh guests: they
// have no answer yet. Of those that failed alike one goes first; where it has no
// answer again, the others would have none either.
func (m *matrix) retry(ctx context.Context, role string, cells []testplans.Cell, results map[string]*runfolder.Cell) error {
	run := func(todo []testplans.Cell) error {
		m.step.Update("%s again, after a failure of the infrastructure", plural(len(todo), "cell", "cells"))
		m.total += len(todo)
		out, err := m.runAll(ctx, m.kernels[role], todo)
		for _, c := range todo {
			a := out[c.ID()]
			if a == nil {
				continue
			}
			cell := results[c.ID()]
			cell.Attempts = append(cell.Attempts, *a)
			cell.Verdict, cell.Findings = a.Verdict, a.Findings
			if role == testplans.RoleBase {
				m.base[place(c)] = a
			}
		}
		return err
	}
	for range infraRetries {
		for _, todo := range unanswered(cells, results) {
			if err := run(todo[:1]); err != nil {
				return err
			}
			if len(todo) > 1 && results[todo[0].ID()].Verdict != checks.Infra {
				if err := run(todo[1:]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// unanswered groups the cells that our infrastructure failed by how it did.
func unanswered(cells []testplans.Cell, results map[string]*runfolder.Cell) (groups [][]testplans.Cell) {
	at := map[string]int{}
	for _, c := range cells {
		r := results[c.ID()]
		if r == nil || r.Verdict != checks.Infra {
			continue
		}
		sig := signature(r.Last())
		i, known := at[sig]
		if !known {
			i = len(groups)
			at[sig], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], c)
	}
	return groups
}

// attribute decides whose fault a failed cell is.
func (m *matrix) attribute(ctx context.Context, c testplans.Cell, cell *runfolder.Cell) error {
	again := func(k *guestKernel, c testplans.Cell, why string) (*runfolder.Attempt, error) {
		m.step.Update("%s: %s", c.ID(), why)
		return m.fresh(ctx, k, c)
	}
	first := *cell.Last()
	k := m.kernels[c.Kernel]
	second, err := again(k, c, "again alone in a fresh guest")
	if err != nil {
		return err
	}
	cell.Attempts = append(cell.Attempts, *second)
	if second.Verdict == checks.Infra {
		cell.Verdict, cell.Findings, cell.Reason = checks.Infra, second.Findings, reason(second)
		return nil
	}
	if second.Verdict == checks.Pass && onlyLeaks(&first) {
		// kmemleak misses an object for as long as a stale pointer to it is
		// left somewhere, and its second scan leaves no false alarms: that one
		// of two guests shows nothing is weak evidence. A third one decides.
		third, err := again(k, c, "once more, as kmemleak may miss a leak")
		if err != nil {
			return err
		}
		cell.Attempts = append(cell.Attempts, *third)
		if third.Verdict == checks.Fail {
			second = third
		}
	}
	earlier := m.earlier[first.Guest+" "+c.ID()]
	if second.Verdict == checks.Pass && len(earlier) > 0 {
		// Something that an earlier cell left in the kernel may be what it takes.
		m.step.Update("%s: passed alone, again after the %s before it", c.ID(), plural(len(earlier), "cell", "cells"))
		third, err := m.inTurn(ctx, k, earlier, c)
		if err != nil {
			return err
		}
		if third != nil {
			cell.Attempts = append(cell.Attempts, *third)
			if third.Verdict == checks.Fail && sameFault(&first, third) {
				second = third
			}
		}
	}
	if second.Verdict == checks.Pass {
		cell.Verdict, cell.Findings = checks.Unstable, first.Findings
		cell.Reason = fmt.Sprintf("failed among other cells (%s), passed alone in a fresh guest", reason(&first))
		return nil
	}
	cell.Findings = second.Findings
	cell.Reason = reason(second)
	if second.Nth == 1 {
		earlier = nil
	} else if n := len(earlier); n > 0 {
		cell.Reason += fmt.Sprintf(", only after other cells in the same guest (%s last)", earlier[n-1].ID())
	}
	if c.Kernel == testplans.RoleBase {
		cell.Verdict = checks.BaseFails
		return nil
	}
	bk := m.kernels[testplans.RoleBase]
	if bk == nil {
		cell.Verdict = checks.Fail
		return nil
	}
	var base *runfolder.Attempt
	switch {
	case len(earlier) > 0:
		m.step.Update("%s: the same cells on the base kernel", c.ID())
		if base, err = m.inTurn(ctx, bk, earlier, c); err != nil {
			return err
		}
		if base == nil {
			cell.Verdict = checks.Fail
			cell.Reason += " (the base kernel does not come that far)"
			return nil
		}
	default:
		if base, err = m.onBase(ctx, c); err != nil {
			return err
		}
	}
	cell.Attempts = append([]runfolder.Attempt{*base}, cell.Attempts...)
	switch {
	case base.Verdict == checks.Infra:
		cell.Verdict = checks.Fail
		cell.Reason += " (the base kernel could not be tried: " + reason(base) + ")"
	case base.Verdict != checks.Pass && sameFault(base, second):
		cell.Verdict = checks.BaseFails
		cell.Reason += " (the base kernel fails the same way)"
	default:
		cell.Verdict = checks.Fail
		cell.Reason += " (the base kernel does not do this)"
	}
	return nil
}

// onBase gives what the base kernel does in the place of a patched cell. The
// control cell of this run is as good an answer as another boot, if it passed.
func (m *matrix) onBase(ctx context.Context, c testplans.Cell) (*runfolder.Attempt, error) {
	if base := m.base[place(c)]; base != nil && base.Verdict == checks.Pass {
		return base, nil
	}
	c.Kernel = testplans.RoleBase
	m.step.Update("%s: the same cell on the base kernel", c.ID())
	return m.fresh(ctx, m.kernels[testplans.RoleBase], c)
}

// onlyLeaks reports whether an attempt failed by nothing but kmemleak's report.
func onlyLeaks(a *runfolder.Attempt) bool {
	n := 0
	for _, f := range a.Findings {
		switch {
		case f.ID == "console.leak":
			n++
		case gates(f):
			return false
		}
	}
	return n > 0
}

// checkTime compares a passing cell with the same cell on the base kernel.
func (m *matrix) checkTime(ctx context.Context, c testplans.Cell, cell *runfolder.Cell) error {
	base := m.base[place(c)]
	if c.Kernel != testplans.RolePatched || base == nil || base.Verdict != checks.Pass {
		return nil
	}
	for _, t := range spans {
		if err := m.checkSpan(ctx, c, cell, base, t); err != nil || cell.Verdict != checks.Pass {
			return err
		}
	}
	return nil
}

func (m *matrix) checkSpan(ctx context.Context, c testplans.Cell, cell *runfolder.Cell, base *runfolder.Attempt, t span) error {
	slow := slowness(m.plan, 0)
	least := t.ratio(cell.Last(), base, slow)
	if least == 0 {
		return nil
	}
	// One slow stretch of the host looks the same: both again, in turn.
	b, p, err := m.confirm(ctx, c, cell, func() string { return fmt.Sprintf("%s took %.1f times as long as on base", t.what, least) },
		func(b, p *runfolder.Attempt) bool {
			least = min(least, t.ratio(p, b, slow))
			return least != 0
		})
	if p == nil {
		return err
	}
	f := ruleTime.New(checks.Where{Cell: c.ID()}, "%s took %.1f times as long as on the base kernel, in 3 of 3 comparisons (last: %v against %v)",
		t.what, least, t.of(p).Round(time.Millisecond), t.of(b).Round(time.Millisecond))
	cell.Findings = append(cell.Findings, f)
	cell.Verdict, cell.Reason = checks.Fail, f.Message
	return nil
}

// checkSame compares what the plan says the series must not change with the
// base kernel's cell of the same NFS version. One cell that differs is tried
// again on both kernels; others that differ in the same rest on it.
func (m *matrix) checkSame(ctx context.Context, c testplans.Cell, cell *runfolder.Cell) error {
	base := m.control(c)
	if c.Kernel != testplans.RolePatched || base == nil {
		return nil
	}
	differ := func(b, p *runfolder.Attempt, x testplans.Same) (checks.Finding, bool) {
		return counts.Same(x, checks.Where{Cell: c.ID()}, b.Hists[x.Count], p.Hists[x.Count])
	}
	for _, x := range m.plan.Same {
		f, differs := differ(base, cell.Last(), x)
		if !differs {
			continue
		}
		if like := m.changed[x.ID]; like != "" {
			f.Message += " (confirmed in fresh guests for " + like + ")"
		} else {
			m.step.Update("%s: %s are not those of the base kernel, again", c.ID(), x.Count)
			b, p, err := m.pair(ctx, c)
			if err != nil {
				return err
			}
			if b.Verdict != checks.Pass || p.Verdict != checks.Pass {
				m.unstable(cell, b, p)
				return nil
			}
			if f, differs = differ(b, p, x); !differs {
				continue
			}
			cell.Attempts = append(cell.Attempts, *p)
			m.changed[x.ID] = c.ID()
		}
		cell.Findings = append(cell.Findings, f)
		cell.Verdict, cell.Reason = checks.Fail, f.Message
	}
	return nil
}

// control is a passing attempt on the base kernel with the cell's NFS version,
// on the cell's device if there is one.
func (m *matrix) control(c testplans.Cell) *runfolder.Attempt {
	if a := m.base[place(c)]; a != nil && a.Verdict == checks.Pass {
		return a
	}
	for _, at := range slices.Sorted(maps.Keys(m.base)) {
		if a := m.base[at]; strings.HasSuffix(at, "/"+c.NFS) && a.Verdict == checks.Pass {
			return a
		}
	}
	return nil
}

func reason(a *runfolder.Attempt) string {
	for _, f := range a.Findings {
		if f.Severity == checks.Error {
			return f.Message
		}
	}
	for _, f := range a.Findings {
		return f.Message
	}
	return "no reason was recorded"
}

func firstLine(err error) string {
	if err == nil {
		return ""
	}
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}
