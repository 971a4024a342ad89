// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"patchcheck/internal/quarantine"
	"patchcheck/testplans"
)

func (a *app) quarantineCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "quarantine", Short: "Cells that are known to be flaky", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.quarantineCheckCmd())
	return cmd
}

func (a *app) quarantineCheckCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a quarantine file, and name entries that have expired",
		Long: `Check a quarantine file: a list of cells that are run and shown, but do not
decide a run's verdict until a day that each entry names.

    quarantine:
      - cell: patched/intel-*/v4.1     # a cell, or a pattern
        plan: svcrdma-inline           # a plan's name, or a pattern
        owner: ann@example.org
        reason: umount sometimes takes longer than its deadline
        expires: 2027-01-31            # the last day, UTC

Exit code: 0; 1 when an entry has expired, or matches no cell of its plan; 2 when
the file cannot be used.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := quarantine.Load(args[0])
			if err != nil {
				return usageError("%v", err)
			}
			type row struct {
				quarantine.Entry
				State string `json:"state"` // holds, expired, matches nothing
			}
			rows := []row{}
			bad := 0
			now := time.Now()
			for _, e := range l.Entries {
				r := row{Entry: e, State: "holds"}
				switch {
				case e.Expired(now):
					r.State = "expired"
				case matchesNothing(e):
					r.State = "matches nothing"
				}
				if r.State != "holds" {
					bad++
				}
				rows = append(rows, r)
			}
			if asJSON {
				if err := a.printJSON(rows); err != nil {
					return err
				}
			} else {
				if len(rows) == 0 {
					fmt.Fprintf(a.stdout, "%s: nothing is in quarantine\n", args[0])
				}
				for _, r := range rows {
					fmt.Fprintf(a.stdout, "%-16s %s of %s, until %s, %s: %s\n", r.State, r.Cell, r.Plan, r.Expires, r.Owner, r.Reason)
				}
			}
			if bad > 0 {
				return &exitError{code: exitFindings}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// matchesNothing says that an entry names a bundled plan, and no cell that it
// has. Of other plans nothing is known here.
func matchesNothing(e quarantine.Entry) bool {
	if strings.ContainsAny(e.Plan, "*?[/") {
		return false
	}
	p, err := testplans.Load(e.Plan)
	if err != nil {
		return false
	}
	for _, c := range p.Cells() {
		if e.Matches(p.Name, c.ID()) {
			return false
		}
	}
	return true
}
