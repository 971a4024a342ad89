// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/config"
	"patchcheck/internal/kernel"
	"patchcheck/internal/runfolder"
	"patchcheck/internal/view"
	"patchcheck/patches"
	"patchcheck/testplans"
)

var (
	ruleQuarantine = checks.Rule{ID: "quarantine.holds", Severity: checks.Note,
		Title:  "a cell is in quarantine",
		Source: "the quarantine file", Fix: "mend what makes the cell flaky, then take it out of the file"}
	ruleQuarantineOver = checks.Rule{ID: "quarantine.expired", Severity: checks.Note,
		Title:  "the quarantine of a cell that does not pass has ended",
		Source: "the quarantine file", Fix: "mend what makes the cell flaky, or agree on a later day with its owner"}
)

// Job is what the answer of a run depends on, as far as it is known before
// anything is built.
type Job struct {
	// Key is equal for two runs when tree, patches, plan, settings, compiler and
	// the version of the answers are. The guest's image is no part of it: its
	// packages come from a fixed snapshot of the tool.
	Key      string
	Tree     runfolder.Tree
	Notes    []string // of how the tree was found
	SeriesID string
	Plan     *testplans.Plan // as narrowed by the options
	PlanID   string
	Compiler string
}

// JobKey finds out what a run with these options would be about. Nothing is
// built, no run folder is made; trees that have to be fetched are. Errors are
// those that Run would give.
func JobKey(ctx context.Context, o Options) (*Job, error) {
	if o.View == nil {
		o.View = view.New(nil)
		defer o.View.Close()
	}
	r := &runner{o: o}
	if err := r.readPlan(); err != nil {
		return nil, err
	}
	if err := r.readSeries(ctx); err != nil {
		return nil, err
	}
	if err := r.runnable(); err != nil {
		return nil, err
	}
	if err := r.openStores(); err != nil {
		return nil, err
	}
	if err := r.resolveTree(ctx, func(string) {}); err != nil {
		return nil, err
	}
	defer r.tree.Close()
	key, tc, err := r.jobKey(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	t := r.tree
	return &Job{Key: key, Tree: runfolder.Tree{Spec: t.Spec, Kind: string(t.Kind), Version: t.Version, Commit: t.Commit, PackageVersion: t.PackageVersion, ID: t.ID},
		Notes: t.Notes, SeriesID: SeriesID(r.ser), Plan: r.plan, PlanID: planID(r.plan), Compiler: tc.Version}, nil
}

// jobKey needs the plan, the series, the stores and the tree.
func (r *runner) jobKey(ctx context.Context, now time.Time) (string, *kernel.Toolchain, error) {
	tc, err := kernel.FindToolchain(ctx, "")
	if err != nil {
		return "", nil, err
	}
	var companions []string
	for _, name := range r.plan.Kernel.Companions {
		ps, err := companion(ctx, name)
		if err != nil {
			return "", nil, &testplans.Error{Name: r.o.Plan, Msgs: []string{"  " + err.Error()}}
		}
		for _, p := range ps {
			companions = append(companions, patchID(p))
		}
	}
	var lint config.Lint
	if r.o.Config != nil {
		lint = r.o.Config.Lint
	}
	// Cells that come into quarantine, or out of it, change the verdict.
	var quarantined []string
	for _, c := range r.plan.Cells() {
		if e, _ := r.o.Quarantine.Find(r.plan.Name, c.ID(), now); e != nil {
			quarantined = append(quarantined, c.ID())
		}
	}
	shard := r.o.Shard
	if r.rec != nil {
		shard = r.rec.Shard
	}
	b, err := json.Marshal([]any{"job", answerVersion, r.tree.ID, SeriesID(r.ser), planID(r.plan), r.cfg.Hash(), companions, tc, r.accel(),
		r.o.Alone, r.o.Incomplete, r.o.BuildOnly, r.o.Variants, max(1, r.o.Repeat), lint, quarantined, shard})
	if err != nil {
		return "", nil, fmt.Errorf("job key: %w", err)
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:16]), tc, nil
}

// alone is the series of a run that tests the tree itself.
func alone() *patches.Series { return &patches.Series{Title: "the tree alone", Version: 1} }

// onlyRole leaves the cells of one kernel, over the whole matrix of the
// patched one.
func onlyRole(p *testplans.Plan, role string) error {
	sel := p.Kernels[testplans.RolePatched]
	if role != testplans.RolePatched && role != testplans.RoleBase {
		return &testplans.Error{Name: p.Name, Msgs: []string{fmt.Sprintf("  a tree alone is tested as %s or as %s, not as %q", testplans.RolePatched, testplans.RoleBase, role)}}
	}
	p.Kernels = map[string]testplans.Selection{role: sel}
	return nil
}

// quarantine marks the cells that do not decide the verdict, and says so. An
// entry that has expired is named where it would have mattered.
func (r *runner) quarantine(now time.Time) {
	if r.o.Quarantine == nil {
		return // what a record says already stays
	}
	for _, c := range r.rec.Cells {
		c.Quarantine = nil
		holds, expired := r.o.Quarantine.Find(r.rec.Plan.Name, c.ID, now)
		where := checks.Where{Cell: c.ID}
		switch {
		case holds != nil:
			c.Quarantine = holds.Record()
			r.rec.Findings = append(r.rec.Findings, ruleQuarantine.New(where, "%s is in quarantine until %s and does not decide the verdict; its own is %s (%s: %s)",
				c.ID, holds.Expires, c.Verdict, holds.Owner, holds.Reason))
			if err := r.rec.SaveCell(c); err != nil {
				r.note(fmt.Sprintf("the quarantine of %s could not be recorded: %v", c.ID, err))
			}
		case expired != nil && c.Verdict != checks.Pass:
			r.rec.Findings = append(r.rec.Findings, ruleQuarantineOver.New(where, "the quarantine of %s ended on %s; it decides the verdict again (%s: %s)",
				c.ID, expired.Expires, expired.Owner, expired.Reason))
		}
	}
}

// runnable refuses a series that cannot be tested as a whole.
func (r *runner) runnable() error {
	if r.o.Alone != "" {
		return nil
	}
	return runnable(r.ser, r.o.Incomplete)
}
