// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"patchcheck/internal/run"
)

func (a *app) mergeCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "merge DIR...",
		Short: "Make one run of the shards that several machines ran",
		Long: `Put the answers of "patchcheck cell run" together. DIR is a run folder, or a
folder with run folders below, as a CI system lays artifacts out. The new run
folder goes where --out says; verdict, table and report are those of a run in
one piece.

Runs of another series, tree, plan, version of patchcheck, compiler or
accelerator are refused. Cells without an answer are INFRA, never a pass. Cells
with two answers are named: a failure of the infrastructure gives way to a real
answer, and PASS against FAIL makes UNSTABLE.

Exit codes are those of run.`,
		Example: `  patchcheck --out runs merge answers
  patchcheck merge --json shard-1 shard-2`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			parent, err := a.runsDir()
			if err != nil {
				return err
			}
			rec, notes, err := run.Merge(args, parent, version(), append([]string{"patchcheck", "merge"}, args...), time.Now())
			if err != nil {
				return err
			}
			for _, n := range notes {
				fmt.Fprintln(a.stderr, "patchcheck: "+n)
			}
			return a.finish(rec, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}
