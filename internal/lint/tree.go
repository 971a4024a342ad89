// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"context"

	"patchcheck/checks"
	"patchcheck/checks/lint"
	"patchcheck/internal/kernel"
	"patchcheck/internal/treefacts"
	"patchcheck/patches"
)

// TreeFacts makes Options.Facts for a tree: how the series applies, what the
// tree's scripts say and what its history knows. got, when not nil, receives
// everything that was found before the rules run: the states of the tree after
// each patch for Variants, the candidates, the times.
func TreeFacts(t *kernel.Tree, s *patches.Series, o treefacts.Options, got func(*treefacts.Result)) func(context.Context) (lint.Facts, []checks.Finding, []string, error) {
	return func(ctx context.Context) (lint.Facts, []checks.Finding, []string, error) {
		r, err := treefacts.Gather(ctx, t, s, o)
		if err != nil {
			return lint.Facts{}, nil, nil, err
		}
		if got != nil {
			got(r)
		}
		return r.Facts, r.Findings, r.NotRun, nil
	}
}
