// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"patchcheck/internal/site"
)

func (a *app) siteCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "site", Short: "Pages over many runs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.siteBuildCmd())
	return cmd
}

func (a *app) siteBuildCmd() *cobra.Command {
	var h historyFlag
	var nights int
	cmd := &cobra.Command{
		Use:   "build DIR",
		Short: "Write the history as static pages",
		Long: `Write an index of nights by cells, a page for each cell and one for each run
into DIR, which is made if absent: files that any web server, or a browser
without one, shows. DIR must be empty or such a site; what did not change is
not written again.

Run pages are made for the newest nights and for the runs that show a failure
first; pages that are there stay, also when their run folder is gone.
"patchcheck serve" shows the same without files, with what runs now.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			db, err := h.read(cmd.Context())
			if err != nil {
				return err
			}
			if db == nil {
				p, _ := h.path()
				return usageError("there is no history at %s: patchcheck history import makes one from the run folders", p)
			}
			defer db.Close()
			if nights < 1 {
				return usageError("--nights must be at least 1")
			}
			res, err := site.Build(cmd.Context(), db, site.Config{Dir: args[0], Tool: version(), Now: time.Now(), Rule: ruleByID, Nights: nights,
				Warn: func(l string) { fmt.Fprintln(a.stderr, "patchcheck: "+l) }})
			var foreign *site.ForeignError
			if errors.As(err, &foreign) {
				return usageError("%v", err)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "%s: %d nights, %d cells, %d runs; %d files written, %d as they were (%v)\n",
				args[0], res.Nights, res.Cells, res.Runs, res.Written, res.Unchanged, res.Total.Round(time.Millisecond))
			return nil
		},
	}
	h.add(cmd)
	cmd.Flags().IntVar(&nights, "nights", 60, "make run pages for this many of the newest nights")
	return cmd
}
