// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"patchcheck/testplans"
)

func (a *app) planCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "plan", Short: "Show and check test plans", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	var asJSON bool
	show := &cobra.Command{
		Use:   "show [PLAN]",
		Short: "Print a plan's cells and conditions (a file, or a bundled plan's name)",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := defaultPlan
			if len(args) == 1 {
				name = args[0]
			}
			p, err := testplans.Load(name)
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(a.stdout)
				enc.SetIndent("", " ")
				return enc.Encode(struct {
					Plan  *testplans.Plan  `json:"plan"`
					Cells []testplans.Cell `json:"cells"`
				}{p, p.Cells()})
			}
			a.showPlan(p)
			return nil
		},
	}
	show.Flags().BoolVar(&asJSON, "json", false, "print the plan and its cells as JSON")
	list := &cobra.Command{
		Use: "list", Short: "List the bundled plans", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, n := range testplans.Names() {
				p, err := testplans.Load(n)
				if err != nil {
					return err
				}
				what := fmt.Sprintf("%d cells", len(p.Cells()))
				if p.Measure != nil && len(p.Cells()) == 0 {
					what = "for patchcheck bench"
				}
				fmt.Fprintf(a.stdout, "%-20s %s (%s)\n", n, p.About, what)
			}
			return nil
		},
	}
	cmd.AddCommand(show, list)
	return cmd
}

func (a *app) showPlan(p *testplans.Plan) {
	w := a.stdout
	fmt.Fprintf(w, "%s: %s\n\n", p.Name, p.About)
	fmt.Fprintf(w, "kernel    %s; companions: %s\n", strings.Join(p.Kernel.Configs, " + "), strings.Join(p.Kernel.Companions, ", "))
	fmt.Fprintf(w, "guest     %d CPUs, %v\n", p.Guest.CPUs, p.Guest.Memory)
	for _, x := range p.Workload {
		switch {
		case x.File != nil:
			var r []string
			for _, s := range x.File.Read {
				r = append(r, s.String())
			}
			d := ""
			if x.File.Direct {
				d = ", O_DIRECT"
			}
			fmt.Fprintf(w, "workload  %s: %v written in calls of %v, read in calls of %s%s\n", x.Name, x.File.Size, x.File.Write, strings.Join(r, ", "), d)
		case x.Files != nil:
			fmt.Fprintf(w, "workload  %s: %d files of %v to %v\n", x.Name, x.Files.Count, x.Files.Min, x.Files.Max)
		}
	}
	for _, h := range p.Hold {
		when := ""
		if h.On != "" {
			when = " on " + h.On
		}
		if h.When != "" {
			when += " when " + h.When
		}
		fmt.Fprintf(w, "hold      %s:%s %s\n", h.ID, when, h.That)
	}
	for _, x := range p.Same {
		fmt.Fprintf(w, "same      %s: %s by %s, as on base\n", x.ID, x.Count, strings.Join(x.Keys, ", "))
	}
	if m := p.Measure; m != nil {
		arms := "base, patched"
		if len(m.With) > 0 {
			arms += ", patched with " + strings.Join(m.With, ", ")
		}
		fmt.Fprintf(w, "measure   %s; device %s, NFSv%s; %d boots of each, %d + %d runs of each job\n", arms, m.Device, m.NFS, m.Boots, m.Warmup, m.Runs)
		for _, j := range m.Jobs {
			kind := "fio"
			if j.Files != nil {
				kind = fmt.Sprintf("%d files of %v to %v", j.Files.Count, j.Files.Min, j.Files.Max)
			}
			if j.Counted {
				kind += ", counted"
			}
			fmt.Fprintf(w, "job       %s: %s\n", j.Name, kind)
		}
		for _, x := range m.Also {
			fmt.Fprintf(w, "metric    %s = %s\n", x.Name, x.Is)
		}
	}
	cells := p.Cells()
	if len(cells) == 0 && p.Measure != nil {
		return
	}
	fmt.Fprintf(w, "\n%d cells:\n", len(cells))
	for _, c := range cells {
		var params []string
		for _, k := range sortedKeys(c.Device.Params) {
			params = append(params, fmt.Sprintf("%s=%d", k, c.Device.Params[k]))
		}
		fmt.Fprintf(w, "  %-28s %s\n", c.ID(), strings.Join(params, " "))
	}
}
