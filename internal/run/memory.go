// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"patchcheck/checks"
	"patchcheck/checks/console"
	"patchcheck/internal/guestproto"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

// Limits of what a patched kernel may gain more than the base kernel from the
// boot to the end of the same cell at the same place in its guest. (What they
// hold at boot differs for other reasons: the histograms have other keys.)
// Active objects of one cache differ
// by up to about 130 between two boots of the same kernel, because free ones
// stay in per-CPU lists. Free memory, with the pages on such lists, differs by
// less than 1 MiB.
const (
	excessObjects = 500
	excessPages   = 4 << 10 // KiB of free memory
)

// excess words what p gained more than b, or "" when that is within the limits
// or the two cannot be compared.
func excess(plan *testplans.Plan, b, p *runfolder.Attempt) string {
	limit := int64(plan.Memory.Growth) >> 10
	if limit == 0 || b == nil || p == nil || b.Nth == 0 || b.Nth != p.Nth || b.Before == nil || p.Before == nil {
		return ""
	}
	type more struct {
		name string
		n    int64
	}
	var caches []more
	for name, n := range p.Slabs {
		if d := n - p.Before.Slabs[name] - (b.Slabs[name] - b.Before.Slabs[name]); d > excessObjects {
			caches = append(caches, more{name, d})
		}
	}
	sort.Slice(caches, func(i, j int) bool { return caches[i].n > caches[j].n })
	slab := p.SUnreclaim - p.Before.SUnreclaim - (b.SUnreclaim - b.Before.SUnreclaim)
	used := p.Before.FreeKiB - p.FreeKiB - (b.Before.FreeKiB - b.FreeKiB)
	var parts []string
	if slab > limit {
		parts = append(parts, fmt.Sprintf("%d KiB of unreclaimable slab memory (limit %d)", slab, limit))
	}
	for i, c := range caches {
		if i == 4 {
			break
		}
		parts = append(parts, fmt.Sprintf("%d objects of %s", c.n, c.name))
	}
	if used > excessPages {
		parts = append(parts, fmt.Sprintf("%d KiB of memory (limit %d)", used, excessPages))
	}
	return strings.Join(parts, ", ")
}

// checkMemory compares what a passing cell left in memory with the same cell
// on the base kernel. A leak per call shows there; one per connection is too
// small, and kmemleak on a debug kernel finds it.
func (m *matrix) checkMemory(ctx context.Context, c testplans.Cell, cell *runfolder.Cell) error {
	base := m.base[place(c)]
	if c.Kernel != testplans.RolePatched || base == nil || base.Verdict != checks.Pass || excess(m.plan, base, cell.Last()) == "" {
		return nil
	}
	var said string
	_, p, err := m.confirm(ctx, c, cell, func() string { return "left more memory behind than on base" }, func(b, p *runfolder.Attempt) bool {
		said = excess(m.plan, b, p)
		return said != ""
	})
	if p == nil {
		return err
	}
	f := ruleMemory.New(checks.Where{Cell: c.ID()}, "the cell leaves more memory in use than on the base kernel, in 3 of 3 comparisons: %s", said)
	cell.Findings = append(cell.Findings, f)
	cell.Verdict, cell.Reason = checks.Fail, f.Message
	return nil
}

// confirm repeats a passing cell that differs from the base kernel's, twice on
// both kernels in turn, and gives the last pair if each of them differs, too; the
// patched one goes on the cell's record. p is nil where one does not, and where
// the cell got another verdict by a repetition that did not pass. say words the
// difference, which may change from one repetition to the next.
func (m *matrix) confirm(ctx context.Context, c testplans.Cell, cell *runfolder.Cell, say func() string, differs func(b, p *runfolder.Attempt) bool) (b, p *runfolder.Attempt, err error) {
	for range 2 {
		m.step.Update("%s: %s, again", c.ID(), say())
		if b, p, err = m.pair(ctx, c); err != nil {
			return nil, nil, err
		}
		if b.Verdict != checks.Pass || p.Verdict != checks.Pass {
			m.unstable(cell, b, p)
			return nil, nil, nil
		}
		if !differs(b, p) {
			return nil, nil, nil
		}
	}
	cell.Attempts = append(cell.Attempts, *p)
	return b, p, nil
}

// pair runs a patched cell and its counterpart on the base kernel, each alone
// in a fresh guest, one after the other.
func (m *matrix) pair(ctx context.Context, c testplans.Cell) (b, p *runfolder.Attempt, err error) {
	bc := c
	bc.Kernel = testplans.RoleBase
	if b, err = m.fresh(ctx, m.kernels[testplans.RoleBase], bc); err != nil {
		return nil, nil, err
	}
	p, err = m.fresh(ctx, m.kernels[testplans.RolePatched], c)
	return b, p, err
}

// unstable gives a cell that passed its verdict when its repetition on the
// patched kernel did not pass.
func (m *matrix) unstable(cell *runfolder.Cell, b, p *runfolder.Attempt) {
	if p.Verdict == checks.Pass || p.Verdict == checks.Infra {
		return
	}
	cell.Attempts = append(cell.Attempts, *p)
	cell.Findings = append(cell.Findings, p.Findings...)
	cell.Verdict, cell.Reason = checks.Unstable, "passed, then failed alone in a fresh guest: "+reason(p)
}

// checkShortage decides about a cell that found no memory in one guest after the
// other, the last time alone in a fresh one: where the base kernel has enough in
// a guest of the same size, the series takes too much.
func (m *matrix) checkShortage(ctx context.Context, c testplans.Cell, cell *runfolder.Cell) error {
	if c.Kernel != testplans.RolePatched || m.kernels[testplans.RoleBase] == nil || !alwaysStarved(cell) {
		return nil
	}
	base, err := m.onBase(ctx, c)
	if err != nil {
		return err
	}
	if base.Verdict == checks.Pass {
		takesTooMuch(cell, base, m.plan.Guest.Memory)
	}
	return nil
}

// alwaysStarved tells whether the cell found no memory in each of several
// guests, the last time as the first cell of its guest.
func alwaysStarved(cell *runfolder.Cell) bool {
	return len(cell.Attempts) > 1 && cell.Last().Nth == 1 && !slices.ContainsFunc(cell.Attempts, func(a runfolder.Attempt) bool { return !starved(&a) })
}

// takesTooMuch makes a cell that is always starved FAIL, as base, which passed
// in a guest of memory, proves.
func takesTooMuch(cell *runfolder.Cell, base *runfolder.Attempt, memory testplans.Size) {
	f := ruleNoMemory.New(checks.Where{Cell: cell.ID}, "ran out of memory in %d guests of %v; the base kernel has enough in one", len(cell.Attempts), memory)
	f.Evidence = cell.Last().Findings[0].Evidence
	cell.Attempts = append([]runfolder.Attempt{*base}, cell.Attempts...)
	// What the guest said itself, that it wants more memory, is no advice now.
	cell.Findings = append([]checks.Finding{f}, slices.DeleteFunc(slices.Clone(cell.Findings), func(g checks.Finding) bool { return g.ID == f.ID })...)
	cell.Verdict, cell.Reason = checks.Fail, f.Message
}

// starved tells whether an attempt ended as the guest had no memory left.
func starved(a *runfolder.Attempt) bool {
	return a.Verdict == checks.Infra && slices.ContainsFunc(a.Findings, func(f checks.Finding) bool { return f.ID == ruleNoMemory.ID })
}

// kmemleakAge is how old an unreferenced object must be before kmemleak
// reports it (mm/kmemleak.c, MSECS_MIN_AGE), and a little more.
const kmemleakAge = 6 * time.Second

// leakBase makes kmemleak forget what the boot left: the series is judged by
// what its cells leave.
func (m *matrix) leakBase(ctx context.Context, s *session) error {
	if !m.plan.Debugged {
		return nil
	}
	return s.b.call(ctx, &runfolder.Attempt{}, "", "clear kmemleak", guestproto.VerbLeaks, deadlineLeaks, guestproto.LeaksRequest{Clear: true}, nil)
}

// leaks asks kmemleak at the end of a guest of a debug kernel.
func (m *matrix) leaks(ctx context.Context, s *session, c testplans.Cell, a *runfolder.Attempt) error {
	if !m.plan.Debugged {
		return nil
	}
	t := time.NewTimer(kmemleakAge)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	var l guestproto.Leaks
	if err := s.b.call(ctx, a, c.ID(), "scan for leaks", guestproto.VerbLeaks, deadlineLeaks, guestproto.LeaksRequest{}, &l); err != nil {
		return err
	}
	for _, f := range s.leakFindings(l) {
		f.Where.Cell = c.ID()
		a.Findings = append(a.Findings, f)
		a.Verdict = worst(a.Verdict, checks.Fail)
	}
	return nil
}

// leakFindings reads kmemleak's report, one finding for each allocating
// function.
func (s *session) leakFindings(l guestproto.Leaks) []checks.Finding {
	if l.Count == 0 {
		return nil
	}
	rep, err := console.Parse(strings.NewReader(l.Text), console.Options{})
	var out []checks.Finding
	if err == nil {
		for _, f := range s.findings(rep) {
			if f.ID == "console."+string(console.Leak) || f.ID == console.Undecoded {
				out = append(out, f)
			}
		}
	}
	if len(out) == 0 || out[0].ID == console.Undecoded {
		// Whatever its form, a report is a report.
		f := ruleMemory.New(checks.Where{}, "kmemleak reports %d unreferenced objects", l.Count)
		f.Evidence = strings.Split(strings.TrimRight(l.Text, "\n"), "\n")
		out = append(out, f)
	}
	return out
}
