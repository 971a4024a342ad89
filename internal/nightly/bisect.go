// SPDX-License-Identifier: Apache-2.0

package nightly

import (
	"context"
	"fmt"

	"patchcheck/checks"
	"patchcheck/internal/bisect"
	"patchcheck/internal/history"
	"patchcheck/patches"
)

// BisectTree finds the commit that made the test's cell fail. Unless trust is
// set both ends are tested first, and only the failure of the bad end counts.
func BisectTree(ctx context.Context, g *bisect.Git, t *CellTest, trust bool) (*bisect.Result, error) {
	good, err := g.Resolve(ctx, g.Good)
	if err != nil {
		return nil, err
	}
	bad, err := g.Resolve(ctx, g.Bad)
	if err != nil {
		return nil, err
	}
	g.Test = t.Commit
	if !trust {
		a, err := t.Commit(ctx, bad)
		if err != nil {
			return nil, err
		}
		if a.Outcome != bisect.Bad {
			return nil, &bisect.InputError{Msg: fmt.Sprintf("%s does not fail at --bad %s (%.12s): %s (run %s)", t.Cell, g.Bad, bad, a.Detail, a.Run)}
		}
		if _, t.Signature, err = t.last(ctx, a.Run); err != nil {
			return nil, err
		}
		if a, err = t.Commit(ctx, good); err != nil {
			return nil, err
		}
		if a.Outcome != bisect.Good {
			return nil, &bisect.InputError{Msg: fmt.Sprintf("%s does not pass at --good %s (%.12s): %s (run %s)", t.Cell, g.Good, good, a.Detail, a.Run)}
		}
	}
	return g.Run(ctx)
}

// BisectSeries finds the patch of a series that made the test's cell fail.
func BisectSeries(ctx context.Context, s *patches.Series, t *CellTest) (*bisect.Result, error) {
	n := len(s.Patches)
	a, err := t.Prefix(ctx, s, n)
	if err != nil {
		return nil, err
	}
	if a.Outcome != bisect.Bad {
		return nil, &bisect.InputError{Msg: fmt.Sprintf("%s does not fail with the whole series: %s (run %s)", t.Cell, a.Detail, a.Run)}
	}
	v, sig, err := t.last(ctx, a.Run)
	if err != nil {
		return nil, err
	}
	if v == checks.BaseFails {
		return nil, &bisect.InputError{Msg: fmt.Sprintf("%s fails the same way without the series, so no patch of it is the culprit (run %s)", t.Cell, a.Run)}
	}
	t.Signature = sig
	return t.Series(ctx, s, 0, n)
}

// last is what the test's cell answered in a run.
func (t *CellTest) last(ctx context.Context, id string) (checks.Verdict, string, error) {
	f, err := t.DB.Facts(ctx, id)
	if err != nil {
		return "", "", err
	}
	c := f.Cell(t.Cell)
	if c == nil {
		return "", "", fmt.Errorf("run %s has no cell %s", id, t.Cell)
	}
	return c.Verdict, c.Signature, nil
}

// Prefix asks about the first n patches of a series.
func (t *CellTest) Prefix(ctx context.Context, s *patches.Series, n int) (bisect.Answer, error) {
	o, err := t.narrowed()
	if err != nil {
		return bisect.Answer{}, err
	}
	part := *s
	part.Patches = s.Patches[:n]
	part.Total, part.Missing, part.Problems = n, nil, nil
	o.Series, o.Incomplete = &part, true
	o.Target = history.Target{Tree: t.Base.Target.Tree, Series: fmt.Sprintf("%s (first %d)", t.Base.Target.Series, n), Plan: t.Base.Target.Plan}
	return t.ask(ctx, o, fmt.Sprintf("%s on the first %d of %d patches", t.Cell, n, len(s.Patches)))
}
