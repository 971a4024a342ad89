// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"patchcheck/internal/history"
	"patchcheck/internal/runfolder"
)

// historyFlag is shared by the commands that use the history.
type historyFlag struct{ file string }

func (h *historyFlag) add(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&h.file, "history", "", "history file (default ~/.local/state/patchcheck/history.db)")
}

func (h *historyFlag) path() (string, error) {
	if h.file != "" {
		return filepath.Abs(h.file)
	}
	p, err := history.DefaultPath()
	if err != nil {
		return "", usageError("%v", err)
	}
	return p, nil
}

// read opens the history for questions; nil when there is none yet.
func (h *historyFlag) read(ctx context.Context) (*history.DB, error) {
	p, err := h.path()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(p); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	db, err := history.Open(ctx, p)
	if err != nil {
		return nil, historyError(err)
	}
	return db, nil
}

// write opens the history, making it if need be.
func (h *historyFlag) write(ctx context.Context) (*history.DB, error) {
	p, err := h.path()
	if err != nil {
		return nil, err
	}
	db, err := history.Open(ctx, p)
	if err != nil {
		return nil, historyError(err)
	}
	if !db.Writable() {
		db.Close()
		return nil, usageError("the history %s may not be written by you; name another with --history", p)
	}
	return db, nil
}

// historyError tells a file that cannot be used from a failure of ours.
func historyError(err error) error {
	var damaged *history.DamagedError
	var foreign *history.ForeignError
	var newer *history.NewerError
	if errors.As(err, &damaged) || errors.As(err, &foreign) || errors.As(err, &newer) {
		return usageError("%v", err)
	}
	return err
}

// record puts a run into the history. A failure is a warning: it says nothing
// about the series.
func (a *app) record(ctx context.Context, h *historyFlag, r *runfolder.Run) {
	if h == nil {
		return
	}
	db, err := h.write(ctx)
	if err == nil {
		err = db.Record(ctx, r)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		fmt.Fprintf(a.stderr, "patchcheck: warning: %v; the run itself is complete in %s\n", err, r.Dir())
	}
}

func (a *app) historyCmd() *cobra.Command {
	h := &historyFlag{}
	var cell, plan, tree, series string
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "history",
		Short: "What past runs answered: runs, cells over time, failures and since when",
		Long: `List what the history knows, newest first: runs, or with --cell one cell over
time with its timings and counts. The history is one SQLite file that each run
enters itself into; docs/history.md describes it.`,
		Example: `  patchcheck history --cell patched/intel-216/v3 --limit 30
  patchcheck history failures`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			db, err := h.read(cmd.Context())
			if err != nil {
				return err
			}
			if db == nil {
				p, _ := h.path()
				return usageError("there is no history yet (%s): patchcheck run begins it, patchcheck history import takes in the runs there are", p)
			}
			defer db.Close()
			f := history.Filter{Target: history.Target{Tree: tree, Series: series, Plan: plan}, Cell: cell, Limit: limit}
			return a.showHistory(cmd.Context(), db, f, asJSON)
		},
	}
	h.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&cell, "cell", "", "one cell over time, such as patched/intel-216/v3")
	fl.StringVar(&plan, "plan", "", "only this plan")
	fl.StringVar(&tree, "tree", "", "only this tree, as the runs called it")
	fl.StringVar(&series, "series", "", "only this series, by title or nightly name")
	fl.IntVar(&limit, "limit", 20, "how many; 0 for all")
	cmd.PersistentFlags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.AddCommand(a.historyImportCmd(h), a.historyFailuresCmd(h, &asJSON), a.historyCheckCmd(h), a.historyResetCmd(h))
	return cmd
}

func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetIndent("", " ")
	return e.Encode(v)
}

func (a *app) showHistory(ctx context.Context, db *history.DB, f history.Filter, asJSON bool) error {
	runs, err := db.Runs(ctx, f)
	if err != nil {
		return historyError(err)
	}
	if f.Cell == "" {
		if asJSON {
			return a.printJSON(nonNil(runs))
		}
		w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
		for _, r := range runs {
			v := string(r.Verdict)
			if v == "" {
				v = "unfinished"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.ID, v, r.Target.Plan, r.Target.Series+" on "+r.Target.Tree)
		}
		return w.Flush()
	}
	type point struct {
		Target history.Target `json:"target"`
		history.Point
	}
	points := []point{}
	have := map[history.Target]map[string]history.Point{}
	for _, r := range runs {
		if r.Ended.IsZero() {
			continue
		}
		if have[r.Target] == nil {
			ps, err := db.Trend(ctx, r.Target, f.Cell)
			if err != nil {
				return historyError(err)
			}
			have[r.Target] = map[string]history.Point{}
			for _, p := range ps {
				have[r.Target][p.Run] = p
			}
		}
		points = append(points, point{r.Target, have[r.Target][r.ID]})
	}
	if asJSON {
		return a.printJSON(points)
	}
	if len(points) == 0 {
		return usageError("no run in the history has a cell %s", f.Cell)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, p := range points {
		t := p.Work.Round(10 * time.Millisecond).String()
		if p.Reused {
			t = "known"
		}
		var vs []string
		for _, k := range slices.Sorted(maps.Keys(p.Values)) {
			vs = append(vs, fmt.Sprintf("%s=%d", k, p.Values[k]))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", p.Night, p.Run, p.Verdict, t, strings.Join(vs, " "))
	}
	return w.Flush()
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func (a *app) historyFailuresCmd(h *historyFlag, asJSON *bool) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "failures",
		Short: "List what fails, and the first bad night of each failure",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			db, err := h.read(cmd.Context())
			if err != nil {
				return err
			}
			fs := []history.Failure{}
			if db != nil {
				defer db.Close()
				ts, err := db.Targets(cmd.Context())
				if err != nil {
					return historyError(err)
				}
				for _, t := range ts {
					g, err := db.Grid(cmd.Context(), t.Target, 0)
					if err != nil {
						return historyError(err)
					}
					for _, f := range g.Failures() {
						if all || f.FixedIn == "" {
							fs = append(fs, f)
						}
					}
				}
			}
			if *asJSON {
				return a.printJSON(fs)
			}
			if len(fs) == 0 {
				fmt.Fprintln(a.stdout, "nothing fails")
				return nil
			}
			for _, f := range fs {
				state := fmt.Sprintf("since %s, %d nights", f.FirstBad, f.Nights)
				if f.Nights == 1 {
					state = "since " + f.FirstBad
				}
				if f.FixedIn != "" {
					state = fmt.Sprintf("%s to %s, gone in %s", f.FirstBad, f.LastBad, f.FixedIn)
				}
				good := "never passed before"
				if f.LastGood != "" {
					good = "passed last in " + f.LastGood
				}
				fmt.Fprintf(a.stdout, "%-10s %s: %s (%s; %s)\n           %s with %s on %s; first seen by %s\n",
					f.Verdict, f.Cell, f.Signature, state, good, f.Target.Series, f.Target.Plan, f.Target.Tree, f.FirstRun)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also those that are gone")
	return cmd
}

func (a *app) historyImportCmd(h *historyFlag) *cobra.Command {
	var again bool
	cmd := &cobra.Command{
		Use:   "import [FOLDER...]",
		Short: "Take in the run folders that the history lacks",
		Long: `Take in run folders below FOLDER (default: where runs are kept) that the history
lacks. Importing twice is the same as once. Folders that cannot be read are
named and left out; the exit code is then 1.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				d, err := a.runsDir()
				if err != nil {
					return err
				}
				args = []string{d}
			}
			for _, d := range args {
				if fi, err := os.Stat(d); err != nil || !fi.IsDir() {
					return usageError("%s is no folder of run folders", d)
				}
			}
			db, err := h.write(cmd.Context())
			if err != nil {
				return err
			}
			defer db.Close()
			bad := 0
			for _, d := range args {
				im, err := db.Import(cmd.Context(), d, again)
				for _, e := range im.Skipped {
					fmt.Fprintf(a.stderr, "patchcheck: left out: %v\n", e)
				}
				if err != nil {
					return historyError(err)
				}
				bad += len(im.Skipped)
				fmt.Fprintf(a.stdout, "%s: %d runs taken in, %d known already\n", d, im.New, im.Known)
			}
			if bad > 0 {
				return &exitError{code: exitFindings}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&again, "again", false, "also runs that are known already")
	return cmd
}

func (a *app) historyCheckCmd(h *historyFlag) *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Read the whole history file for damage", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			db, err := h.read(cmd.Context())
			if err != nil {
				return err
			}
			if db == nil {
				return usageError("there is no history yet")
			}
			defer db.Close()
			if err := db.Check(cmd.Context()); err != nil {
				return &exitError{exitFindings, err.Error()}
			}
			fmt.Fprintf(a.stdout, "%s is whole (schema %d)\n", db.Path(), history.SchemaVersion)
			return nil
		},
	}
}

func (a *app) historyResetCmd(h *historyFlag) *cobra.Command {
	return &cobra.Command{
		Use:   "reset",
		Short: "Move the history file aside, so that the next run begins a new one",
		Long: `Move the history file aside, so that the next run begins a new one. Nothing is
deleted. patchcheck history import fills the new file from the run folders; the
states of past nights stay in the old one.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := h.path()
			if err != nil {
				return err
			}
			to, err := history.MoveAside(p, time.Now())
			if errors.Is(err, fs.ErrNotExist) {
				return usageError("there is no history at %s", p)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "%s is now %s\n", p, to)
			return nil
		},
	}
}
