// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"patchcheck/internal/history"
	"patchcheck/internal/runfolder"
)

func (a *app) diffCmd() *cobra.Command {
	h := &historyFlag{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Say what changed between two runs",
		Long: `Say what changed from the run OLD to the run NEW: new failures, fixed ones, cells
that still fail, slower and faster ones, counts, cells that came or went,
findings, and what changed around the run. A run is named by its id or the
beginning of it, its folder, latest, or latest~N for the Nth before it; only
runs that ended count.

Exit code: 0, or 1 when something got worse. One line when nothing changed.`,
		Example: "  patchcheck diff latest~1 latest",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			db, err := h.read(ctx)
			if err != nil {
				return err
			}
			if db != nil {
				defer db.Close()
			}
			var f [2]*history.Facts
			for i, name := range args {
				if f[i], err = a.facts(ctx, db, name); err != nil {
					return err
				}
			}
			var d *history.Diff
			if db == nil {
				d = history.Compare(f[0], f[1], nil)
			} else if d, err = db.Diff(ctx, f[0], f[1]); err != nil {
				return historyError(err)
			}
			if asJSON {
				err = a.printJSON(struct {
					Worse bool `json:"worse"`
					Same  bool `json:"nothing_changed"`
					*history.Diff
				}{d.Worse(), d.Nothing(), d})
				if err != nil {
					return err
				}
			} else {
				d.Text(a.stdout)
			}
			if d.Worse() {
				return &exitError{code: exitFindings}
			}
			return nil
		},
	}
	h.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// facts finds a run by folder, id, beginning of an id, latest or latest~N, in
// the run folders first, then in the history, which may be nil.
func (a *app) facts(ctx context.Context, db *history.DB, name string) (*history.Facts, error) {
	if strings.Contains(name, "/") || name == "." {
		r, err := runfolder.Open(name)
		if err != nil {
			return nil, usageError("%v", err)
		}
		return history.FromRun(r), nil
	}
	parent, err := a.runsDir()
	if err != nil {
		return nil, err
	}
	ids, folder, err := a.runIDs(ctx, db, parent)
	if err != nil {
		return nil, err
	}
	open := func(id string) (*history.Facts, error) {
		if folder[id] {
			r, err := runfolder.Open(filepath.Join(parent, id))
			if err == nil {
				return history.FromRun(r), nil
			}
			if db == nil {
				return nil, usageError("%v", err)
			}
		}
		f, err := db.Facts(ctx, id)
		if err != nil {
			return nil, historyError(err)
		}
		return f, nil
	}
	if n, ok := strings.CutPrefix(name, "latest"); ok {
		back := 0
		if n != "" {
			if back, err = strconv.Atoi(strings.TrimPrefix(n, "~")); err != nil || n[0] != '~' || back < 0 {
				return nil, usageError("%q names no run: write latest or latest~1", name)
			}
		}
		seen := 0
		for _, id := range ids {
			f, err := open(id)
			if err != nil || f.Ended.IsZero() {
				continue // unreadable or unfinished
			}
			if seen == back {
				return f, nil
			}
			seen++
		}
		return nil, usageError("there is no %s: %d finished runs are known", name, seen)
	}
	if slices.Contains(ids, name) {
		return open(name)
	}
	var match []string
	for _, id := range ids {
		if strings.HasPrefix(id, name) {
			match = append(match, id)
		}
	}
	switch len(match) {
	case 0:
		return nil, usageError("no run is called %s: patchcheck runs lists the run folders, patchcheck history what is known of others", name)
	case 1:
		return open(match[0])
	}
	return nil, usageError("%s is the beginning of %d runs: %s", name, len(match), strings.Join(match[:min(len(match), 5)], " "))
}

// runIDs lists the ids of all runs, newest first, and which have a folder.
func (a *app) runIDs(ctx context.Context, db *history.DB, parent string) ([]string, map[string]bool, error) {
	folder := map[string]bool{}
	dirs, err := runfolder.List(parent)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, err
	}
	var ids []string
	for _, d := range dirs {
		ids = append(ids, filepath.Base(d))
		folder[filepath.Base(d)] = true
	}
	if db != nil {
		rs, err := db.Runs(ctx, history.Filter{})
		if err != nil {
			return nil, nil, historyError(err)
		}
		for _, r := range rs {
			if !folder[r.ID] {
				ids = append(ids, r.ID)
			}
		}
	}
	// Ids begin with the time, to the second.
	slices.SortFunc(ids, func(a, b string) int { return strings.Compare(b, a) })
	if len(ids) == 0 {
		return nil, nil, usageError("no runs yet in %s: patchcheck run makes one", parent)
	}
	return ids, folder, nil
}
