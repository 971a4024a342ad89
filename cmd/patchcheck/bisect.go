// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"patchcheck/internal/bisect"
	"patchcheck/internal/cache"
	"patchcheck/internal/history"
	"patchcheck/internal/kernel"
	"patchcheck/internal/nightly"
	"patchcheck/internal/run"
)

type bisectFlags struct {
	treeFlags
	hist      historyFlag
	o         run.Options
	good, bad string
	series    []string
	paths     []string
	trust     bool
	json      bool
}

func (a *app) bisectCmd() *cobra.Command {
	f := &bisectFlags{}
	cmd := &cobra.Command{
		Use:   "bisect PLAN CELL (--good REV --bad REV | --series SERIES)",
		Short: "Find the commit, or the patch of a series, that made a cell fail",
		Long: `Find the commit of a tree between --good and --bad that made a cell of a plan
fail: git bisect with the cell as the test. It works in a repository of its own
that borrows the tree's objects; the tree is only read. Commits that do not
build, or that fail in another way, are skipped; a cell that fails once and
passes once is asked again, up to three times.

With --series: find the patch of a series, on --tree, that made it fail.

Both ends are tested first (not with --trust). What was tested is kept: called
again after an interruption, it goes on. Answers come from the history where
they are known.

CELL is a cell's id, such as patched/intel-216/v3. patched means that the tree is
judged as one that has the series; base, as one that has not.

Exit code: 0 when the culprit was found, 1 when only candidates were, 2 bad
input, 3 our infrastructure failed, 130 interrupted.`,
		Example: `  patchcheck bisect svcrdma-inline patched/intel-216/v3 --tree ~/linux --good v7.3 --bad HEAD
  patchcheck bisect svcrdma-inline patched/intel-216/v3 --series mails/`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return a.doBisect(cmd.Context(), f, args[0], args[1]) },
	}
	f.add(cmd)
	f.hist.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.good, "good", "", "revision that is known to be right")
	fl.StringVar(&f.bad, "bad", "", "revision that is known to fail")
	fl.StringSliceVar(&f.series, "series", nil, "series instead of commits: files, a folder, an mbox, or a range of the tree")
	fl.StringSliceVar(&f.paths, "paths", nil, "only commits that touch these paths")
	fl.BoolVar(&f.trust, "trust", false, "do not test the two ends first; any failure of the cell counts then")
	fl.StringVar(&f.o.Accel, "accel", "auto", "how guests run: auto, kvm, tcg")
	fl.BoolVar(&f.o.Debug, "debug", false, "use a debug kernel and the plan's smaller workload")
	fl.IntVar(&f.o.Repeat, "repeat", 1, "passes that a commit needs to count as good")
	fl.IntVarP(&f.o.Jobs, "jobs", "j", 0, "make jobs (default: the number of CPUs)")
	fl.BoolVar(&f.json, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) doBisect(ctx context.Context, f *bisectFlags, plan, cell string) error {
	inSeries := len(f.series) > 0
	if inSeries == (f.good != "" || f.bad != "") || !inSeries && (f.good == "" || f.bad == "") {
		return usageError("say either --good REV and --bad REV, or --series SERIES")
	}
	o := f.o
	var err error
	if o.CacheDir, err = a.cacheDir(); err != nil {
		return err
	}
	if o.RunsDir, err = a.runsDir(); err != nil {
		return err
	}
	conf, err := a.config(configTree(f.tree))
	if err != nil {
		return err
	}
	o.Config, o.Plan, o.Tool = conf, plan, version()
	o.Tree = cmp.Or(configured(conf, f.tree, kernelTreeHere()), kernel.DefaultTree)
	o.Command = []string{"patchcheck", "bisect", plan, cell}
	db, err := f.hist.write(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	t := &nightly.CellTest{Engine: nightly.NewEngine(o.CacheDir, o.RunsDir), DB: db, Cell: cell, Say: func(l string) { fmt.Fprintln(a.stderr, l) }}
	var res *bisect.Result
	what := "commit"
	if inSeries {
		what = "patch"
		o.Base = f.base
		s, err := run.LoadSeries(ctx, f.series, a.stdin, repoOf(o.Tree))
		if err != nil {
			return err
		}
		if len(s.Patches) == 0 {
			return usageError("there is no patch in %s", strings.Join(f.series, " "))
		}
		o.Target = history.Target{Tree: o.Tree, Series: s.Title + ", bisected", Plan: plan}
		t.Base = o
		res, err = nightly.BisectSeries(ctx, s, t)
		if err != nil {
			return a.bisectError(err)
		}
	} else {
		if f.base != "" {
			return usageError("--base means nothing here: give --good and --bad")
		}
		c, err := cache.Open(o.CacheDir)
		if err != nil {
			return err
		}
		if strings.HasPrefix(o.Tree, "git+") || kernel.NamedTrees()[o.Tree] != "" {
			return usageError("a bisection needs the tree's history, and %s is kept here without it: clone it, and give the clone with --tree", o.Tree)
		}
		tree, err := kernel.Resolve(ctx, c, o.Tree, kernel.TreeOptions{Base: f.bad})
		if err != nil {
			return err
		}
		tree.Close()
		if tree.Repo == "" {
			return usageError("a bisection needs a git repository, and %s is none: give one with --tree", o.Tree)
		}
		o.Target = history.Target{Tree: o.Tree, Series: "bisected", Plan: plan}
		t.Base = o
		dir, err := bisectDir(db.Path(), tree.Repo, plan, cell, f)
		if err != nil {
			return err
		}
		g := &bisect.Git{Dir: dir, Repo: tree.Repo, Good: f.good, Bad: f.bad, Paths: f.paths, Say: t.Say}
		res, err = nightly.BisectTree(ctx, g, t, f.trust)
		if err != nil {
			if ctx.Err() != nil {
				fmt.Fprintln(a.stderr, "To go on from here, give the same command again.")
			}
			return a.bisectError(err)
		}
	}
	if f.json {
		err = a.printJSON(res)
	} else {
		_, err = fmt.Fprint(a.stdout, res.Text(what))
		if res.Log != "" {
			fmt.Fprintf(a.stdout, "git's log of it:\n  %s\n", strings.ReplaceAll(strings.TrimSpace(res.Log), "\n", "\n  "))
		}
	}
	if err != nil {
		return err
	}
	if res.Culprit == "" {
		return &exitError{code: exitFindings}
	}
	return nil
}

func (a *app) bisectError(err error) error {
	var ie *bisect.InputError
	if errors.As(err, &ie) {
		return usageError("%v", err)
	}
	return historyError(err)
}

// repoOf is the tree when it is a folder, for git ranges of it.
func repoOf(tree string) string {
	if fi, err := os.Stat(tree); err == nil && fi.IsDir() {
		return tree
	}
	return ""
}

// bisectDir is where the state of a bisection is kept: beside the history, by
// what is asked. The ends are no part of it: git.go notices when they change.
func bisectDir(hist, repo, plan, cell string, f *bisectFlags) (string, error) {
	if fi, err := os.Stat(plan); err == nil && !fi.IsDir() {
		b, err := os.ReadFile(plan)
		if err != nil {
			return "", usageError("%v", err)
		}
		plan = string(b)
	}
	h := sha256.New()
	for _, s := range []string{repo, plan, cell, f.good, f.bad, fmt.Sprint(f.o.Debug, f.o.Repeat, f.trust)} {
		fmt.Fprintf(h, "%d %s\n", len(s), s)
	}
	return filepath.Join(filepath.Dir(hist), "bisect", hex.EncodeToString(h.Sum(nil)[:8])), nil
}
