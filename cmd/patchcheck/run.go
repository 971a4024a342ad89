// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"patchcheck/checks"
	"patchcheck/internal/kernel"
	"patchcheck/internal/page"
	"patchcheck/internal/proc"
	"patchcheck/internal/quarantine"
	"patchcheck/internal/report"
	"patchcheck/internal/run"
	"patchcheck/internal/runfolder"
	"patchcheck/internal/view"
)

const defaultPlan = "svcrdma-inline"

// treeFlags are shared by the commands that need a kernel tree.
type treeFlags struct {
	tree, base string
}

func (t *treeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.tree, "tree", "", "kernel tree: a folder, a git repository, git+URL#branch, debian:linux-source-X.Y, or a name ("+strings.Join(treeNames(), ", ")+"); default: the kernel tree you are in, else "+kernel.DefaultTree)
	cmd.Flags().StringVar(&t.base, "base", "", "base revision in a git tree (default: the series' base-commit, else HEAD)")
}

func treeNames() (out []string) {
	for n := range kernel.NamedTrees() {
		out = append(out, n)
	}
	return out
}

// resolve gives the tree's spec: the kernel tree around the working directory
// when none was named.
func (t *treeFlags) resolve() string {
	if t.tree != "" {
		return t.tree
	}
	if d := kernelTreeHere(); d != "" {
		return d
	}
	return kernel.DefaultTree
}

// kernelTreeHere is the top of the kernel tree that the working directory lies
// in, or "".
func kernelTreeHere() string {
	d, err := os.Getwd()
	if err != nil {
		return ""
	}
	for {
		ok := true
		for _, f := range []string{"Kbuild", "Kconfig", "MAINTAINERS", "scripts/checkpatch.pl"} {
			if _, err := os.Stat(filepath.Join(d, f)); err != nil {
				ok = false
				break
			}
		}
		if ok {
			return d
		}
		if d == "/" {
			return ""
		}
		d = filepath.Dir(d)
	}
}

type runFlags struct {
	treeFlags
	o          run.Options
	hist       historyFlag
	noHistory  bool
	quarantine string
	json       bool
	resume     string // run to go on with; newestRun for the newest unfinished one; "" for none
}

// newestRun is the value of --resume without one. No run has that name.
const newestRun = "newest"

func (a *app) runCmd() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [SERIES...]",
		Short: "Lint, apply, build, boot and test a series; print the cover letter's table",
		Long: `Check a series from mail to table. SERIES is any mix of git format-patch files,
a folder of them, an mbox, one mail, "-" for standard input, or a git range of
the tree (A..B). Without SERIES: inside a kernel git tree the unpublished
commits of HEAD, elsewhere the bundled example series.

A run that was killed or interrupted goes on with --resume, from its run folder
alone: finished steps and the cells that passed are taken over, the rest is
done, and the verdict is that of an undisturbed run. Options other than --json,
--jobs and --out are then the run's own.

The user's tree is never written. Exit code: 0 PASS, 1 findings or a verdict
other than PASS, 2 bad input, 3 our infrastructure failed, 130 interrupted.`,
		Example: `  patchcheck run 0000-cover-letter.patch 0001-*.patch
  patchcheck run --tree ~/linux nfsd-testing..HEAD
  b4 am -o - ID | patchcheck run --tree ~/linux -
  patchcheck run --resume`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("resume") {
				return a.resume(cmd, f, args)
			}
			return a.doRun(cmd.Context(), f, args)
		},
	}
	f.add(cmd)
	f.hist.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.quarantine, "quarantine", "", "file of flaky cells, which do not decide the verdict (patchcheck quarantine check)")
	fl.BoolVar(&f.noHistory, "no-history", false, "do not enter the run into the history")
	f.what(fl)
	f.how(fl)
	fl.BoolVar(&f.o.BuildOnly, "build-only", false, "stop after the builds; boot nothing")
	fl.BoolVar(&f.json, "json", false, "print the result as JSON")
	fl.StringVar(&f.resume, "resume", "", "go on with a run that was killed or interrupted: its name or folder (default: the newest such run)")
	fl.Lookup("resume").NoOptDefVal = newestRun
	return cmd
}

// resume goes on with a run. Its name may also follow the option as an
// argument: an option with a default takes a value only behind "=".
func (a *app) resume(cmd *cobra.Command, f *runFlags, args []string) error {
	name := f.resume
	if name == newestRun && len(args) == 1 {
		name, args = args[0], nil
	}
	if len(args) > 0 {
		return usageError("--resume takes one run, and its series from there: leave out %s", strings.Join(args, " "))
	}
	var alien []string
	cmd.Flags().Visit(func(fl *pflag.Flag) {
		switch {
		case cmd.InheritedFlags().Lookup(fl.Name) != nil, fl.Name == "resume", fl.Name == "json", fl.Name == "jobs", fl.Name == "no-history", fl.Name == "history":
		default:
			alien = append(alien, "--"+fl.Name)
		}
	})
	if len(alien) > 0 {
		return usageError("a run that is resumed keeps its own options: leave out %s, or start a new run", strings.Join(alien, ", "))
	}
	runs, err := a.runsDir()
	if err != nil {
		return err
	}
	dir := name
	switch {
	case name == newestRun:
		if dir, err = run.FindUnfinished(runs); err != nil {
			return err
		}
	case !strings.ContainsRune(name, filepath.Separator):
		if _, err := os.Stat(filepath.Join(runs, name)); err == nil {
			dir = filepath.Join(runs, name)
		} else if _, err := os.Stat(name); err != nil {
			return usageError("there is no run %s in %s (patchcheck runs lists them)", name, runs)
		}
	}
	o := run.Options{RunsDir: runs, Jobs: f.o.Jobs, Tool: version(), View: view.New(a.stderr)}
	if conf, err := a.config(""); !f.noHistory && (err != nil || conf.History == nil || *conf.History) {
		a.hist = &f.hist
	}
	rec, err := run.Resume(cmd.Context(), o, dir)
	return a.ended(rec, err, f.json)
}

// ended reports on a run, or says how to go on with one that was interrupted.
func (a *app) ended(rec *runfolder.Run, err error, asJSON bool) error {
	if err == nil {
		return a.finish(rec, asJSON)
	}
	if rec != nil && !rec.Finished() {
		if _, serr := os.Stat(rec.Path("run.json")); serr == nil {
			line := []string{"patchcheck", "run", "--resume", rec.ID}
			if a.runs != "" {
				line = append(line, "--out", a.runs)
			}
			fmt.Fprintf(a.stderr, "To go on from here:  %s\n", proc.Quote(line))
		}
	}
	return err
}

// runHere is patchcheck without a subcommand.
func (a *app) runHere(cmd *cobra.Command) error {
	if kernelTreeHere() == "" {
		return cmd.Help()
	}
	return a.doRun(cmd.Context(), &runFlags{o: run.Options{Plan: defaultPlan, Accel: "auto", Repeat: 1}}, nil)
}

func (a *app) doRun(ctx context.Context, f *runFlags, args []string) error {
	o, err := a.options(ctx, f, args)
	if err != nil {
		return err
	}
	if f.quarantine != "" {
		if o.Quarantine, err = quarantine.Load(f.quarantine); err != nil {
			return usageError("%v", err)
		}
	}
	if !f.noHistory && (o.Config.History == nil || *o.Config.History) {
		a.hist = &f.hist
	}
	o.Command = append([]string{"patchcheck", "run"}, args...)
	o.View = view.New(a.stderr)
	rec, err := run.Run(ctx, o)
	return a.ended(rec, err, f.json)
}

// finish prints the report and turns the verdict into an exit code.
func (a *app) finish(rec *runfolder.Run, asJSON bool) error {
	format := "text"
	if asJSON {
		format = "json"
	} else {
		fmt.Fprintln(a.stdout)
	}
	if err := report.Write(a.stdout, rec, format); err != nil {
		return err
	}
	a.record(context.Background(), a.hist, rec)
	var text bytes.Buffer
	if err := report.Write(&text, rec, "text"); err != nil {
		return err
	}
	if err := rec.WriteFile(text.Bytes(), "report.txt"); err != nil {
		return err
	}
	if err := page.WriteFile(rec, page.Options{Rule: ruleByID}); err != nil {
		return err
	}
	switch rec.Verdict {
	case checks.Pass:
		return nil
	case checks.Infra:
		return &exitError{code: exitInfra}
	}
	return &exitError{code: exitFindings}
}

// unpublished is the range of HEAD's commits that no remote branch has.
func unpublished(ctx context.Context, repo string) ([]string, error) {
	git := func(args ...string) (string, error) {
		res, err := proc.Run(ctx, proc.Cmd{Argv: append([]string{"git", "-C", repo}, args...)})
		return strings.TrimSpace(string(res.Stdout)), err
	}
	up, err := git("rev-parse", "--verify", "-q", "@{upstream}")
	if err != nil {
		out, err2 := git("rev-list", "--max-count=200", "HEAD", "--not", "--remotes")
		if err2 != nil {
			return nil, usageError("%s is no git repository with commits: name the series (patchcheck run --help)", repo)
		}
		ids := strings.Fields(out)
		rooted := false // the first one has no parent: nothing is published at all
		if n := len(ids); n > 0 {
			_, err := git("rev-parse", "--verify", "-q", ids[n-1]+"^")
			rooted = err != nil
		}
		if len(ids) == 0 || len(ids) >= 200 || rooted {
			return nil, usageError("cannot tell which commits of %s are yours: HEAD has no upstream; name the range, e.g. patchcheck run origin/master..HEAD", repo)
		}
		return []string{ids[len(ids)-1] + "^..HEAD"}, nil
	}
	n, err := git("rev-list", "--count", up+"..HEAD")
	if err != nil {
		return nil, err
	}
	if n == "0" {
		return nil, usageError("HEAD has no commits beyond its upstream: name the series (patchcheck run --help)")
	}
	return []string{"@{upstream}..HEAD"}, nil
}
