// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"patchcheck/internal/run"
	"patchcheck/internal/view"
)

func (a *app) cellCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cell", Short: "Run one part of a plan's cells", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	f := &runFlags{}
	sub := &cobra.Command{
		Use:   "run SPEC.json",
		Short: "Run what a file of \"patchcheck matrix --write\" says",
		Long: `Run one shard: some cells of a plan for a series. SPEC.json holds plan, series
and cell ids; "-" reads it from standard input. The answer is a run folder, as
of any run; "patchcheck merge" makes one run of all of them.

A spec can also be written by hand: "series": {"sources": [...]} names files of
this machine instead of carrying their bytes.

Exit codes are those of run.`,
		Example: `  patchcheck --out answers cell run specs/shard-001.json
  patchcheck --out answers cell run --tree ~/linux --json -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.runCell(cmd.Context(), f, args[0]) },
	}
	fl := sub.Flags()
	f.how(fl)
	fl.StringVar(&f.o.Accel, "accel", "auto", "how guests run: auto (as the spec says), kvm, tcg")
	fl.StringVar(&f.tree, "tree", "", "kernel tree instead of the spec's, for one that lies elsewhere here")
	fl.BoolVar(&f.json, "json", false, "print the result as JSON")
	cmd.AddCommand(sub)
	return cmd
}

// maxSpec bounds a spec, in bytes: a series with its encoding.
const maxSpec = 128 << 20

func (a *app) runCell(ctx context.Context, f *runFlags, name string) error {
	var in io.Reader = a.stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return usageError("%v", err)
		}
		defer file.Close()
		in = file
	}
	b, err := io.ReadAll(io.LimitReader(in, maxSpec+1))
	if err != nil {
		return usageError("%s: %v", name, err)
	}
	if len(b) > maxSpec {
		return usageError("%s is larger than %d MiB", name, maxSpec>>20)
	}
	spec, err := run.ReadSpec(name, bytes.NewReader(b))
	if err != nil {
		return err
	}
	o := f.o
	if o.CacheDir, err = a.cacheDir(); err != nil {
		return err
	}
	if o.RunsDir, err = a.runsDir(); err != nil {
		return err
	}
	o.Tool, o.Tree = version(), f.tree
	o.Command = []string{"patchcheck", "cell", "run", name}
	if o, err = spec.Options(o); err != nil {
		return err
	}
	o.View = view.New(a.stderr)
	rec, err := run.Run(ctx, o)
	return a.ended(rec, err, f.json)
}
