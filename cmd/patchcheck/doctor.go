// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"patchcheck/internal/host"
)

func (a *app) doctorCmd() *cobra.Command {
	var install, asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this host lacks and how to get it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			cache, err := a.cacheDir()
			if err != nil {
				return err
			}
			rs := host.Check(cache)
			pkgs, _ := host.Missing(rs)
			if install && len(pkgs) > 0 {
				fmt.Fprintf(a.stderr, "missing: %s\n", strings.Join(pkgs, " "))
				if err := host.Install(cmd.Context(), pkgs, a.stderr); err != nil {
					return &exitError{exitInfra, "cannot install what is missing: " + err.Error()}
				}
				rs = host.Check(cache)
			}
			if asJSON {
				enc := json.NewEncoder(a.stdout)
				enc.SetIndent("", " ")
				if err := enc.Encode(rs); err != nil {
					return err
				}
			} else {
				printDoctor(a, rs)
			}
			pkgs, other := host.Missing(rs)
			if len(pkgs)+len(other) > 0 {
				msg := "this host lacks something"
				if len(pkgs) > 0 {
					msg += fmt.Sprintf("\n  to install: apt-get install --no-install-recommends %s\n  (or, as root: patchcheck doctor --install)", strings.Join(pkgs, " "))
				}
				return &exitError{exitInfra, msg}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&install, "install", false, "install missing Debian packages (needs root)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

func printDoctor(a *app, rs []host.Result) {
	for _, r := range rs {
		mark := "ok"
		switch {
		case !r.OK && r.Optional:
			mark = "-"
		case !r.OK:
			mark = "MISSING"
		}
		found := r.Found
		if found == "" {
			found = "not found; package " + r.Package
		}
		fmt.Fprintf(a.stdout, "%-8s %-16s %s (%s)\n", mark, r.Name, found, r.Why)
	}
}
