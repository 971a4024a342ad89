// SPDX-License-Identifier: Apache-2.0

package nightly

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"patchcheck/checks"
	"patchcheck/internal/bisect"
	"patchcheck/internal/history"
	"patchcheck/internal/run"
	"patchcheck/patches"
	"patchcheck/testplans"
)

// Repetitions of a test whose answer does not stand.
const (
	infraTries    = 3 // runs that failed by our own fault, before the search is given up
	unstableTries = 3 // further runs of a cell that failed once and passed once
)

// CellTest asks one cell of a plan about states of the code: the first patches
// of a series, or commits of a tree. It is the test of a bisection.
type CellTest struct {
	Engine Engine
	DB     *history.DB // answers that are known are taken from it, new ones recorded; may be nil
	Base   run.Options // tree, plan and folders
	Cell   string      // id
	// Signature of the failure that is looked for; "" for any. A failure without
	// anything in common with it is no answer.
	Signature string
	Night     string
	Say       func(string)
}

// cellOf finds the cell of the plan that the options describe.
func cellOf(o run.Options, id string) (testplans.Cell, error) {
	role, rest, ok := strings.Cut(id, "/")
	i := strings.LastIndexByte(rest, '/')
	if !ok || i < 0 || !strings.HasPrefix(rest[i+1:], "v") || role != testplans.RolePatched && role != testplans.RoleBase {
		return testplans.Cell{}, &testplans.Error{Name: o.Plan, Msgs: []string{fmt.Sprintf("  %q is no cell; write KERNEL/DEVICE/vNFS, such as patched/intel-216/v3 (patchcheck plan show lists them)", id)}}
	}
	return testplans.Cell{Kernel: role, Device: testplans.Device{Name: rest[:i]}, NFS: rest[i+2:]}, nil
}

// narrowed gives options that run only the cell (and what it is compared with).
func (t *CellTest) narrowed() (run.Options, error) {
	o := t.Base
	c, err := cellOf(o, t.Cell)
	if err != nil {
		return o, err
	}
	o.Device, o.NFS = []string{c.Device.Name}, []string{c.NFS}
	o.Quarantine = nil // the cell was asked for
	return o, nil
}

// Series looks for the patch that brought the failure among patches good+1 to
// bad, by position. The patch before the culprit is always one that was tested,
// or the base.
func (t *CellTest) Series(ctx context.Context, s *patches.Series, good, bad int) (*bisect.Result, error) {
	answers := map[int]bisect.Answer{}
	test := func(ctx context.Context, n int) (bisect.Answer, error) {
		if a, ok := answers[n]; ok {
			return a, nil
		}
		a, err := t.Prefix(ctx, s, n)
		if err == nil {
			answers[n] = a
		}
		return a, err
	}
	title := func(n int) string { return s.Patches[n-1].Subject }
	res, err := bisect.Series(ctx, good, bad, title, test)
	if err != nil || good == 0 || res.Culprit != fmt.Sprint(good+1) {
		return res, err
	}
	// That the first patches are right was taken over from another version.
	a, err := test(ctx, good)
	if err != nil {
		return res, err
	}
	res.Steps = append(res.Steps, bisect.Step{State: fmt.Sprintf("first %d", good), Title: title(good), Answer: a})
	if a.Outcome != bisect.Bad {
		return res, nil
	}
	more, err := bisect.Series(ctx, 0, good, title, test)
	if more != nil {
		more.Steps = append(res.Steps, more.Steps...)
	}
	return more, err
}

// Commit asks about a commit of the tree, without a series.
func (t *CellTest) Commit(ctx context.Context, commit string) (bisect.Answer, error) {
	o, err := t.narrowed()
	if err != nil {
		return bisect.Answer{}, err
	}
	o.Base = commit
	o.Alone, _, _ = strings.Cut(t.Cell, "/")
	return t.ask(ctx, o, fmt.Sprintf("%s at %.12s", t.Cell, commit))
}

// ask runs a state as often as it takes to know.
func (t *CellTest) ask(ctx context.Context, o run.Options, what string) (bisect.Answer, error) {
	say := t.Say
	if say == nil {
		say = func(string) {}
	}
	failed, passed := 0, 0
	infra := 0
	for {
		f, err := t.facts(ctx, o, say, what)
		if err != nil {
			return bisect.Answer{}, err
		}
		a, v := t.judge(f)
		switch v {
		case checks.Infra:
			if infra++; infra >= infraTries {
				return bisect.Answer{}, fmt.Errorf("%s could not be tested in %d runs (%s): mend that, then call again to go on", what, infra, a.Detail)
			}
			o.Fresh = true
			continue
		case checks.Unstable:
			// Once each way in this run.
			failed, passed = failed+1, passed+1
		case checks.Fail:
			failed++
		case checks.Pass:
			passed++
		}
		if v != checks.Unstable && (failed == 0 || passed == 0) {
			return a, nil
		}
		if n := failed + passed; n < unstableTries+2 && n > 0 {
			say(fmt.Sprintf("%s: failed %d times, passed %d times; again", what, failed, passed))
			o.Fresh = true
			continue
		}
		a = bisect.Answer{Outcome: bisect.Skip, Run: f.ID, Detail: fmt.Sprintf("unstable: failed %d of %d times", failed, failed+passed)}
		if failed > passed {
			a.Outcome = bisect.Bad
		}
		return a, nil
	}
}

// facts gives the answer for a state: known, or run now.
func (t *CellTest) facts(ctx context.Context, o run.Options, say func(string), what string) (*history.Facts, error) {
	if t.DB != nil && !o.Fresh {
		j, err := t.Engine.Key(ctx, o)
		if err != nil {
			return nil, err
		}
		r, err := t.DB.ByKey(ctx, j.Key)
		if err == nil {
			say(what + ": known from run " + r.ID)
			return t.DB.Facts(ctx, r.ID)
		}
		if !errors.Is(err, history.ErrUnknown) {
			return nil, err
		}
	}
	say("testing " + what)
	rec, err := t.Engine.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	if t.DB != nil {
		if err := t.DB.RecordIn(ctx, rec, t.Night); err != nil {
			return nil, err
		}
	}
	return history.FromRun(rec), nil
}

// judge turns the run of a state into an answer. The verdict is that of the
// cell, INFRA when our own failure kept it from one.
func (t *CellTest) judge(f *history.Facts) (bisect.Answer, checks.Verdict) {
	a := bisect.Answer{Outcome: bisect.Skip, Run: f.ID}
	for _, x := range f.Findings {
		switch x.ID {
		case "build.fails", "build.base-fails", "config.missing", "apply.fails":
			a.Detail = strings.SplitN(x.Message, "\n", 2)[0]
			if x.ID != "apply.fails" {
				a.Detail = "does not build: " + a.Detail
			}
			return a, checks.Skip
		}
	}
	c := f.Cell(t.Cell)
	if c == nil {
		if f.Verdict == checks.Infra {
			a.Detail = f.Reason
			return a, checks.Infra
		}
		a.Detail = "the cell was not run: " + f.Reason
		return a, checks.Skip
	}
	switch c.Verdict {
	case checks.Pass:
		a.Outcome, a.Detail = bisect.Good, "passes"
		return a, checks.Pass
	case checks.Infra:
		a.Detail = c.Reason
		return a, checks.Infra
	case checks.Unstable:
		a.Detail = c.Reason
		return a, checks.Unstable
	case checks.Fail, checks.BaseFails:
		if !alike(t.Signature, c.Signature) {
			// Conditions on counts are judged after everything was done, so the
			// failure that is looked for would have been seen.
			if judgedLast(c.Signature) {
				a.Outcome, a.Detail = bisect.Good, fmt.Sprintf("does not fail so (%s)", c.Signature)
				return a, checks.Pass
			}
			a.Detail = fmt.Sprintf("fails in another way: %s", c.Signature)
			return a, checks.Skip
		}
		a.Outcome, a.Detail = bisect.Bad, "fails: "+c.Signature
		return a, checks.Fail
	}
	a.Detail = fmt.Sprintf("%s: %s", c.Verdict, c.Reason)
	return a, checks.Skip
}

// judgedLast says whether a failure is one of conditions on counts alone.
func judgedLast(signature string) bool {
	for _, id := range strings.Fields(signature) {
		if !strings.HasPrefix(id, "count.") {
			return false
		}
	}
	return signature != ""
}

// alike says whether two failures have something in common.
func alike(want, got string) bool {
	if want == "" {
		return true
	}
	for _, w := range strings.Fields(want) {
		for _, g := range strings.Fields(got) {
			if w == g {
				return true
			}
		}
	}
	return false
}
