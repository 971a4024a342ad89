// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"patchcheck/internal/kernel"
	"patchcheck/internal/run"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

// what adds the options that say what to run: they go into the spec of a shard.
func (f *runFlags) what(fl *pflag.FlagSet) {
	fl.StringVar(&f.o.Plan, "plan", defaultPlan, "test plan: a file, or a bundled plan's name (patchcheck plan list)")
	fl.BoolVar(&f.o.Debug, "debug", false, "use a debug kernel (lockdep, KASAN, kmemleak) and the plan's smaller workload")
	fl.BoolVar(&f.o.Incomplete, "incomplete", false, "try a series that lacks parts")
	fl.StringSliceVar(&f.o.Device, "device", nil, "only these devices of the plan")
	fl.StringSliceVar(&f.o.NFS, "nfs", nil, "these NFS versions instead of the plan's: 3, 4.0, 4.1, 4.2")
	fl.IntVar(&f.o.Repeat, "repeat", 1, "passes of the whole matrix")
	fl.BoolVar(&f.o.Variants, "variants", false, "also compile each patch in the other configurations that fit the touched paths (minutes)")
	fl.StringVar(&f.o.Accel, "accel", "auto", "how guests run: auto (found out by a boot), kvm, tcg")
}

// how adds the options that belong to the machine.
func (f *runFlags) how(fl *pflag.FlagSet) {
	fl.BoolVar(&f.o.Fresh, "fresh", false, "run every cell again, also those whose answers are known")
	fl.BoolVar(&f.o.NoSandbox, "no-sandbox", false, "build without bubblewrap: a stranger's Makefile can then read your files")
	fl.IntVarP(&f.o.Jobs, "jobs", "j", 0, "make jobs (default: the number of CPUs)")
}

// options are those of a run of the series in args, as "patchcheck run" takes
// them.
func (a *app) options(ctx context.Context, f *runFlags, args []string) (run.Options, error) {
	o := f.o
	var err error
	if o.CacheDir, err = a.cacheDir(); err != nil {
		return o, err
	}
	if o.RunsDir, err = a.runsDir(); err != nil {
		return o, err
	}
	conf, err := a.config(configTree(f.tree))
	if err != nil {
		return o, err
	}
	o.Config, o.Tool = conf, version()
	if o.Plan == defaultPlan && conf.Plan != "" {
		o.Plan = conf.Plan
	}
	o.Tree = cmp.Or(configured(conf, f.tree, kernelTreeHere()), kernel.DefaultTree)
	o.Base, o.Sources, o.Stdin = f.base, args, a.stdin
	if fi, err := os.Stat(o.Tree); err == nil && fi.IsDir() {
		o.Repo = o.Tree
	}
	if len(args) == 0 && kernelTreeHere() != "" && f.tree == "" {
		if o.Sources, err = unpublished(ctx, o.Repo); err != nil {
			return o, err
		}
	}
	a.sayTerminal(args)
	return o, nil
}

// shardEntry is one job of a CI system's matrix.
type shardEntry struct {
	Shard int    `json:"shard"`
	Of    int    `json:"of"`
	Name  string `json:"name"`
	Spec  string `json:"spec"`  // its file name with --write
	Cells string `json:"cells"` // ids, separated by spaces
}

func (a *app) matrixCmd() *cobra.Command {
	f := &runFlags{}
	var format, write string
	var shards int
	cmd := &cobra.Command{
		Use:   "matrix [SERIES...]",
		Short: "Deal a plan's cells out to several machines",
		Long: `Print a plan's cells as jobs for a CI system, and with --write also write what
each job needs: one file that "patchcheck cell run" takes anywhere, with plan
and series inside. "patchcheck merge" makes one run of the answers.

Cells that are compared with each other stay in one job. There is one job for
each device and NFS version, at most 256 (GitHub's limit), or as many as
--shards says; fewer jobs share more of the building and booting, and with less
than five cells in a job the growth of memory over cells is not judged.

--format github prints one line for strategy.matrix: objects with shard, of,
name, spec and cells under "include". --format json prints plan, cells and
shards. SERIES is as for run; it is read only with --write.`,
		Example: `  echo "matrix=$(patchcheck matrix --plan svcrdma-inline --format github)" >> "$GITHUB_OUTPUT"
  patchcheck matrix --shards 4 --write specs nfsd-testing..HEAD
  patchcheck --out answers cell run specs/shard-001.json
  patchcheck merge answers`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if write == "" && len(args) > 0 {
				return usageError("the series goes into the jobs' files: say where with --write DIR")
			}
			return a.printMatrix(cmd.Context(), f, args, format, write, shards)
		},
	}
	f.add(cmd)
	fl := cmd.Flags()
	f.what(fl)
	fl.StringVar(&format, "format", "json", "output: github (for strategy.matrix), json")
	fl.IntVar(&shards, "shards", 0, "number of jobs (default: as many as there can be, at most 256)")
	fl.StringVar(&write, "write", "", "folder to write the jobs' files to")
	cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]cobra.Completion{"github", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) printMatrix(ctx context.Context, f *runFlags, args []string, format, write string, n int) error {
	if format != "github" && format != "json" {
		return usageError("--format %q is not known; there are: github, json", format)
	}
	if n < 0 || n > run.MaxShards {
		return usageError("--shards must be 1 to %d", run.MaxShards)
	}
	var parts []runfolder.Shard
	var p *testplans.Plan
	if write == "" {
		o := f.o
		if o.Plan == defaultPlan {
			conf, err := a.config(configTree(f.tree))
			if err != nil {
				return err
			}
			o.Plan = cmp.Or(conf.Plan, o.Plan)
		}
		var err error
		if p, err = run.PlanOf(o); err != nil {
			return err
		}
		if parts, err = run.Shards(p, n); err != nil {
			return err
		}
	} else {
		o, err := a.options(ctx, f, args)
		if err != nil {
			return err
		}
		specs, err := run.Specs(ctx, o, n)
		if err != nil {
			return err
		}
		if p, err = run.PlanOf(o); err != nil {
			return err
		}
		if err := writeSpecs(write, specs); err != nil {
			return err
		}
		if fi, err := os.Stat(o.Tree); err == nil && fi.IsDir() {
			fmt.Fprintf(a.stderr, "patchcheck: the tree %s is a folder of this machine; elsewhere, name one with cell run --tree\n", o.Tree)
		}
		for _, s := range specs {
			parts = append(parts, s.Shard)
		}
	}
	entries := make([]shardEntry, len(parts))
	for i, s := range parts {
		entries[i] = shardEntry{Shard: s.Index, Of: s.Of, Name: shardTitle(p, s), Spec: specName(s.Index), Cells: strings.Join(s.Cells, " ")}
	}
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	if format == "github" {
		// One line: it goes into a file of NAME=VALUE lines.
		return enc.Encode(map[string]any{"include": entries})
	}
	enc.SetIndent("", " ")
	var ids []string
	for _, c := range p.Cells() {
		ids = append(ids, c.ID())
	}
	return enc.Encode(struct {
		Plan   string       `json:"plan"`
		Cells  []string     `json:"cells"`
		Shards []shardEntry `json:"shards"`
	}{p.Name, ids, entries})
}

func specName(i int) string { return fmt.Sprintf("shard-%03d.json", i) }

// shardTitle names a job for people.
func shardTitle(p *testplans.Plan, s runfolder.Shard) string {
	var names []string
	for _, c := range p.Cells() {
		n := c.Device.Name + " v" + c.NFS
		for _, id := range s.Cells {
			if id == c.ID() && (len(names) == 0 || names[len(names)-1] != n) {
				names = append(names, n)
			}
		}
	}
	// Base cells come behind the patched ones and repeat their names.
	last := names[0]
	for _, n := range names {
		if n == names[0] && last != names[0] {
			break
		}
		last = n
	}
	if last == names[0] {
		return names[0]
	}
	return names[0] + " to " + last
}

// writeSpecs puts the specs into dir, which must be new or empty: files of an
// earlier matrix among them would be run, too.
func writeSpecs(dir string, specs []run.Spec) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return usageError("%v", err)
	}
	old, err := filepath.Glob(filepath.Join(dir, "shard-*.json"))
	if err != nil {
		return err
	}
	if len(old) > 0 {
		return usageError("%s holds %s of another matrix: remove it, or name another folder", dir, filepath.Base(old[0]))
	}
	for _, s := range specs {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", " ")
		if err := errors.Join(enc.Encode(s), os.WriteFile(filepath.Join(dir, specName(s.Shard.Index)), b.Bytes(), 0o644)); err != nil {
			return fmt.Errorf("cannot write the jobs' files: %w", err)
		}
	}
	return nil
}
