// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"patchcheck/checks"
	"patchcheck/checks/console"
	"patchcheck/checks/counts"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

// judge evaluates the counts of an attempt whose steps all succeeded.
func (b *bench) judge(c testplans.Cell, a *runfolder.Attempt) {
	// Conditions are about the whole connection, to its end; the table is
	// about the counted part, whose figures are the same each time.
	a.Values = counts.Values(b.plan, c, a.Hists, b.absent)
	r := counts.Evaluate(b.plan, c, counts.Sum(a.Hists, a.Rest), b.absent)
	a.Invalid = r.Invalid
	a.Findings = append(a.Findings, r.Findings...)
	if a.Compared.ClientBytes == 0 || a.Compared.ServerBytes == 0 {
		a.Findings = append(a.Findings, ruleInfra.New(checks.Where{Cell: c.ID()}, "nothing was compared"))
		a.Verdict = worst(a.Verdict, checks.Infra)
	}
	switch {
	case r.Invalid:
		a.Verdict = worst(a.Verdict, checks.Infra)
	case len(r.Findings) > 0:
		a.Verdict = worst(a.Verdict, checks.Fail)
	}
}

var order = []checks.Verdict{checks.Pass, checks.Skip, checks.BaseFails, checks.Infra, checks.Unstable, checks.Fail}

// worst gives the graver of two verdicts.
func worst(a, b checks.Verdict) checks.Verdict {
	rank := func(v checks.Verdict) int {
		for i, o := range order {
			if o == v {
				return i
			}
		}
		return len(order)
	}
	if rank(a) >= rank(b) {
		return a
	}
	return b
}

// signature groups failures that look the same: finding ids and the failed
// step, without numbers, so that one confirmation can serve several cells. Of
// the counts that fail only the first is the cause: what else is off follows
// from it, in each device row another set.
func signature(a *runfolder.Attempt) string {
	var ids []string
	counts := 0
	for _, f := range a.Findings {
		if f.ID == console.Undecoded {
			continue // says nothing about the kernel
		}
		s := f.ID
		if name, _, ok := strings.Cut(f.Message, ":"); ok && strings.HasPrefix(f.ID, "count.") {
			if counts++; counts > 1 {
				continue
			}
			s += " " + name
		}
		ids = append(ids, s)
	}
	sort.Strings(ids)
	step := ""
	if n := len(a.Steps); n > 0 && a.Steps[n-1].Error != "" {
		step = a.Steps[n-1].Name
	}
	return strings.Join(ids, ",") + "@" + step
}

// sameFault reports whether the base kernel fails the way the patched one
// does: they have a finding in common, and every console report of the patched
// kernel is also one of the base's. A report of its own is the series' fault,
// whatever else the base does.
func sameFault(base, patched *runfolder.Attempt) bool {
	common := false
	for _, f := range patched.Findings {
		if f.Severity == checks.Note || f.ID == "infra" {
			continue
		}
		onConsole := strings.HasPrefix(f.ID, "console.")
		match := false
		for _, g := range base.Findings {
			if f.ID == g.ID && (!onConsole || consoleTitle(f) == consoleTitle(g)) {
				match = true
			}
		}
		if onConsole && !match {
			return false
		}
		common = common || match
	}
	return common
}

// consoleTitle is a console finding's message without what varies: how often,
// and doubts.
func consoleTitle(f checks.Finding) string {
	s, _, _ := strings.Cut(f.Message, "; ")
	s, _, _ = strings.Cut(s, " (")
	return s
}

// growth judges the kernel memory left behind by the successive cells of one
// guest. The first cells warm caches up, so only a growth that every later
// cell adds counts.
func growth(p *testplans.Plan, attempts []*runfolder.Attempt) []string {
	const warm, need = 2, 3
	if p.Memory.Growth == 0 || len(attempts) < warm+need {
		return nil
	}
	tail := attempts[warm-1:]
	var out []string
	least := int64(1 << 62)
	for i := 1; i < len(tail); i++ {
		least = min(least, tail[i].SUnreclaim-tail[i-1].SUnreclaim)
	}
	if limit := int64(p.Memory.Growth) >> 10; least > limit {
		msg := fmt.Sprintf("unreclaimable slab memory grew by at least %d KiB in each of %d cells (limit %d KiB)", least, len(tail)-1, limit)
		if s := growing(tail); s != "" {
			msg += ": " + s
		}
		out = append(out, msg)
	}
	return out
}

// growing names the slab caches whose active objects rose in every cell, the
// largest first.
func growing(tail []*runfolder.Attempt) string {
	type g struct {
		name string
		n    int64
	}
	var gs []g
	for name := range tail[len(tail)-1].Slabs {
		least := int64(1 << 62)
		for i := 1; i < len(tail); i++ {
			least = min(least, tail[i].Slabs[name]-tail[i-1].Slabs[name])
		}
		if least > 0 {
			gs = append(gs, g{name, least})
		}
	}
	sort.Slice(gs, func(i, j int) bool { return gs[i].n > gs[j].n })
	var parts []string
	for i, x := range gs {
		if i == 4 {
			break
		}
		parts = append(parts, fmt.Sprintf("%s by %d objects or more", x.name, x.n))
	}
	return strings.Join(parts, ", ")
}

// span is a part of a cell whose time is compared with the same cell on the
// base kernel. Under TCG on a shared host only a large factor means anything,
// and one short step may wait a second for a CPU; fresh guests confirm it
// before it is a finding.
type span struct {
	what   string
	of     func(*runfolder.Attempt) time.Duration
	factor float64       // times as long
	more   time.Duration // and at least this much longer
}

var spans = []span{
	{"reads and writes", (*runfolder.Attempt).WorkTime, 1.6, 0},
	{"the mount", stepTime("mount"), 3, time.Second},
	{"the umount", stepTime("umount"), 3, time.Second},
	{"removing files", stepTime("remove"), 3, time.Second},
	{"adding the link", stepTime("add link"), 3, time.Second},
	{"removing the link", stepTime("remove link"), 3, time.Second},
}

func stepTime(name string) func(*runfolder.Attempt) time.Duration {
	return func(a *runfolder.Attempt) (d time.Duration) {
		for _, s := range a.Steps {
			if s.Name == name {
				d += s.Elapsed
			}
		}
		return d
	}
}

// ratio is how many times as long the span took in p as in b, 0 where that is
// too little to be worth a word. slow stretches the least difference, as it
// does deadlines.
func (s span) ratio(p, b *runfolder.Attempt, slow float64) float64 {
	dp, db := s.of(p), s.of(b)
	r := float64(dp) / float64(max(1, db))
	if r < s.factor || float64(dp-db) < slow*float64(s.more) {
		return 0
	}
	return r
}
