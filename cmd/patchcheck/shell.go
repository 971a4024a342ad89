// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"patchcheck/internal/run"
	"patchcheck/internal/view"
)

func (a *app) shellCmd() *cobra.Command {
	f := &runFlags{}
	var series []string
	var base bool
	cmd := &cobra.Command{
		Use:   "shell [-- COMMAND...]",
		Short: "Boot a guest of the patched kernel and give it a terminal, or run one command in it",
		Long: `Boot the kernel of the series (--series, default as for run), built already or
now, and connect the terminal to a shell in it. With COMMAND, run that in the
guest and exit with its exit code. The guest has no network and ends with the
shell.`,
		Example: `  patchcheck shell
  patchcheck shell --series 0001-fix.patch -- uname -r`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o := f.o
			var err error
			if o.CacheDir, err = a.cacheDir(); err != nil {
				return err
			}
			o.Tree, o.Base, o.Sources, o.Stdin = f.resolve(), f.base, series, a.stdin
			o.Repo = kernelTreeHere()
			o.View = view.New(a.stderr)
			code, err := run.Shell(cmd.Context(), o, run.ShellOptions{Base: base, Command: strings.Join(args, " "), Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr})
			if err != nil {
				return err
			}
			if code != 0 {
				return &exitError{code: code}
			}
			return nil
		},
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.StringSliceVar(&series, "series", nil, "series whose kernel is booted (as for run)")
	fl.BoolVar(&base, "base-kernel", false, "boot the base kernel instead")
	fl.StringVar(&f.o.Plan, "plan", defaultPlan, "test plan that says how the kernel is configured")
	fl.BoolVar(&f.o.Debug, "debug", false, "the plan's debug kernel")
	fl.StringVar(&f.o.Accel, "accel", "auto", "how the guest runs: auto, kvm, tcg")
	fl.BoolVar(&f.o.NoSandbox, "no-sandbox", false, "build without bubblewrap")
	return cmd
}

func (a *app) gcCmd() *cobra.Command {
	var all, dry bool
	var keep int
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Show the cache's size and remove what is old",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := a.cacheDir()
			if err != nil {
				return err
			}
			runs, err := a.runsDir()
			if err != nil {
				return err
			}
			rep, err := run.GC(cmd.Context(), run.GCOptions{CacheDir: dir, RunsDir: runs, All: all, DryRun: dry, KeepDays: keep})
			for _, l := range rep {
				fmt.Fprintln(a.stdout, l)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove the whole cache (run folders stay)")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be removed")
	cmd.Flags().IntVar(&keep, "keep-days", 30, "keep what was used in this many days")
	return cmd
}
