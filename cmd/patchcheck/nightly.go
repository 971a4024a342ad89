// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"patchcheck/internal/nightly"
	"patchcheck/internal/run"
	"patchcheck/internal/site"
)

func (a *app) nightlyCmd() *cobra.Command {
	var file string
	var verbose, asJSON bool
	cmd := &cobra.Command{
		Use:   "nightly --config FILE",
		Short: "Run what is new since last night, and say what changed",
		Long: `For each tree, series and plan of the configuration: fetch, run what is new, keep
going after a failure, and say what changed since last night; one line when
nothing did. What has the same tree, patches, plan, settings and compiler as an
earlier run is known and not run again.

A night that was killed is gone on with by the next call. A second instance says
who holds the lock. docs/nightly.md describes the configuration, the states of a
job and the order in which jobs run.

Exit code: 0, 1 when something got worse, 2 for a configuration that cannot be
used, 3 for trouble of our own, 130 interrupted.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return usageError("which configuration? give --config FILE (docs/nightly.md has an example)")
			}
			return a.doNightly(cmd.Context(), file, verbose, asJSON)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration of the night")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "say on standard error what is being done")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	cmd.AddCommand(a.nightlyInstallCmd())
	return cmd
}

func (a *app) doNightly(ctx context.Context, file string, verbose, asJSON bool) error {
	c, err := nightly.LoadConfig(file)
	if err != nil {
		return usageError("%v", err)
	}
	o := run.Options{Tool: version(), Command: []string{"patchcheck", "nightly", "--config", file}, Accel: "auto"}
	if a.cache == "" {
		a.cache = c.Cache
	}
	if a.runs == "" {
		a.runs = c.Runs
	}
	if o.CacheDir, err = a.cacheDir(); err != nil {
		return err
	}
	if o.RunsDir, err = a.runsDir(); err != nil {
		return err
	}
	if o.Config, err = a.config(""); err != nil {
		return err
	}
	h := historyFlag{c.History}
	db, err := h.write(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	n := &nightly.Nightly{Config: c, DB: db, Engine: nightly.NewEngine(o.CacheDir, o.RunsDir), Base: o}
	if verbose {
		n.Log = func(l string) { fmt.Fprintf(a.stderr, "%s %s\n", time.Now().Format("15:04:05"), l) }
	}
	n.Site = func(ctx context.Context, dir string) error {
		_, err := site.Build(ctx, db, site.Config{Dir: dir, Tool: version(), Now: time.Now(), Rule: ruleByID, Nights: 60, Warn: func(l string) { fmt.Fprintln(a.stderr, "patchcheck: "+l) }})
		return err
	}
	for _, s := range c.Series {
		if s.GitHub != nil {
			if n.Forge, err = a.newNightForge(); err != nil {
				return usageError("%v", err)
			}
			break
		}
	}
	res, err := n.Run(ctx)
	var busy *nightly.BusyError
	switch {
	case errors.As(err, &busy):
		return &exitError{exitInfra, err.Error()}
	case ctx.Err() != nil:
		fmt.Fprintln(a.stderr, "patchcheck: the next call goes on with this night")
		return err
	case err != nil:
		return historyError(err)
	}
	if asJSON {
		if err := a.printJSON(res); err != nil {
			return err
		}
	} else {
		fmt.Fprint(a.stdout, res.Text())
	}
	switch {
	case res.Worse():
		return &exitError{code: exitFindings}
	case len(res.Trouble) > 0:
		return &exitError{code: exitInfra}
	}
	return nil
}

var reTimeOfDay = regexp.MustCompile(`^([01]?[0-9]|2[0-3]):[0-5][0-9]$`)

func (a *app) nightlyInstallCmd() *cobra.Command {
	var file, at string
	var show bool
	cmd := &cobra.Command{
		Use:   "install --config FILE --print",
		Short: "Print a systemd service and timer, a GitHub Actions workflow and a cron line",
		Long: `Print what starts patchcheck nightly every night: a systemd service with its
timer, a GitHub Actions workflow and a crontab line, each with this program's
path and the configuration's. Take one of them. Nothing is installed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !show {
				return usageError("nothing is installed by itself: --print shows what to install, and where")
			}
			if !reTimeOfDay.MatchString(at) {
				return usageError("%q is no time of day: write 01:30", at)
			}
			i := nightly.Install{At: at, Config: cmp.Or(file, "/etc/patchcheck/nightly.yaml")}
			if len(at) == 4 {
				i.At = "0" + at
			}
			var err error
			if i.Config, err = filepath.Abs(i.Config); err != nil {
				return err
			}
			if i.Exe, err = os.Executable(); err != nil {
				return err
			}
			if strings.ContainsAny(i.Config+i.Exe, "\n\r") {
				return usageError("a path with a line break cannot be written into a unit")
			}
			if u, err := user.Current(); err == nil {
				i.Home = u.HomeDir
				if u.Uid != "0" {
					i.User = u.Username
				}
			}
			fmt.Fprint(a.stdout, i.Text())
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration of the night (default /etc/patchcheck/nightly.yaml)")
	cmd.Flags().StringVar(&at, "at", "01:30", "when to start")
	cmd.Flags().BoolVar(&show, "print", false, "print the files")
	return cmd
}
