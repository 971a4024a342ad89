// SPDX-License-Identifier: Apache-2.0

package nightly

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/history"
	"patchcheck/internal/runfolder"
	"patchcheck/patches"
	"patchcheck/testplans"
)

// culprit finds the patch of a failed series that brought the failure, and
// records it with the job. A failure of a build or a warning names its patch
// itself; for a cell, the kernels after each patch are there already, and the
// cell is run on as few of them as it takes.
func (x *night) culprit(ctx context.Context, w *work, rec *runfolder.Run) error {
	j := &w.job
	subject := func(n int) string {
		if n >= 1 && n <= len(w.series.Patches) {
			return w.series.Patches[n-1].Subject
		}
		return "the base"
	}
	var cell *runfolder.Cell
	for _, c := range rec.Cells {
		if c.Verdict == checks.Fail && c.Quarantine == nil && c.Spec.Kernel == testplans.RolePatched {
			cell = c
			break
		}
	}
	if cell == nil {
		for _, f := range rec.Findings {
			if f.Gates() && f.Where.Patch > 0 {
				j.Culprit = history.Culprit{Patch: f.Where.Patch, Subject: subject(place(w, f.Where.Patch))}
				return x.DB.SaveJob(ctx, *j)
			}
		}
		return nil
	}
	sig := history.Signature(cell.Findings)
	good, err := x.commonGood(ctx, w, cell.ID, rec)
	if err != nil {
		return err
	}
	t := &CellTest{Engine: x.Engine, DB: x.DB, Base: w.opts, Cell: cell.ID, Signature: sig, Night: x.n.ID, Say: x.Log}
	ctx2, cancel := context.WithTimeout(ctx, time.Duration(x.Config.Deadline))
	defer cancel()
	if !x.deadline.IsZero() {
		ctx2, cancel = context.WithTimeout(ctx2, x.deadline.Sub(x.Now()))
		defer cancel()
	}
	res, err := t.Series(ctx2, w.series, good, len(w.series.Patches))
	switch {
	case ctx.Err() != nil:
		return nil // the job itself is recorded
	case err != nil && ctx2.Err() != nil:
		x.trouble("%s: the time was used up while looking for the culprit", words(j.Target))
		return nil
	case err != nil:
		x.trouble("%s: the culprit could not be looked for: %v", words(j.Target), brief(err))
		return nil
	}
	if res.Culprit == "" {
		j.Detail += fmt.Sprintf("; the culprit is one of patches %s", strings.Join(res.Candidates, " | "))
		return x.DB.SaveJob(ctx, *j)
	}
	n := 0
	fmt.Sscan(res.Culprit, &n)
	j.Culprit = history.Culprit{Patch: w.series.Patches[n-1].Index, Subject: subject(n), Cell: cell.ID}
	x.Log(fmt.Sprintf("%s: the culprit is patch %d: %s", words(j.Target), j.Culprit.Patch, j.Culprit.Subject))
	return x.DB.SaveJob(ctx, *j)
}

// place gives the position of a patch number: they differ when parts of the
// series are missing.
func place(w *work, index int) int {
	return 1 + slices.IndexFunc(w.series.Patches, func(p *patches.Patch) bool { return p.Index == index })
}

// commonGood is how many patches at the series' beginning are those of a run of
// the same target, on the same tree, that passed the cell. 0 when there is none.
func (x *night) commonGood(ctx context.Context, w *work, cell string, rec *runfolder.Run) (int, error) {
	rs, err := x.DB.Runs(ctx, history.Filter{Target: w.job.Target, Cell: cell, Finished: true, Limit: 20})
	if err != nil {
		return 0, err
	}
	for _, r := range rs {
		if r.ID == rec.ID || r.TreeID != rec.Tree.ID {
			continue
		}
		f, err := x.DB.Facts(ctx, r.ID)
		if errors.Is(err, history.ErrUnknown) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if c := f.Cell(cell); c == nil || c.Verdict != checks.Pass {
			continue
		}
		n := 0
		for n < len(f.Patches) && n < len(rec.Series.Patches)-1 && f.Patches[n].ID == rec.Series.Patches[n].ID {
			n++
		}
		return n, nil
	}
	return 0, nil
}
