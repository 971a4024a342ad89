// SPDX-License-Identifier: Apache-2.0

// Patchcheck says with evidence whether a Linux kernel patch series is ready
// to mail: it lints, applies, builds, boots, runs and counts, and writes the
// cover letter's test table from what it recorded.
//
// Exit codes: 0 ready, 1 findings or a verdict other than PASS, 2 usage or bad
// input, 3 our infrastructure failed, 130 interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"patchcheck/internal/run"
)

// Exit codes.
const (
	exitReady       = 0
	exitFindings    = 1
	exitUsage       = 2
	exitInfra       = 3
	exitInterrupted = 130
)

func main() { os.Exit(realMain()) }

func realMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// exitError carries an exit code; an empty message prints nothing, because
// the command has said it already.
type exitError struct {
	code int
	msg  string
}

func (e *exitError) Error() string { return e.msg }

func usageError(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Sprintf(format, args...)}
}

// app is what subcommands share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	cache          string
	runs           string
	hist           *historyFlag // where runs are entered; nil: nowhere
	json           bool
}

// Main runs one command line. It is main without the process, for tests.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	return a.exit(ctx, err)
}

// exit prints the error once and chooses the exit code from its type.
func (a *app) exit(ctx context.Context, err error) int {
	if err == nil {
		return exitReady
	}
	if ctx.Err() != nil {
		fmt.Fprintln(a.stderr, "patchcheck: interrupted")
		return exitInterrupted
	}
	var ee *exitError
	if errors.As(err, &ee) {
		if ee.msg != "" {
			fmt.Fprintln(a.stderr, "patchcheck: "+ee.msg)
		}
		return ee.code
	}
	fmt.Fprintln(a.stderr, "patchcheck: "+err.Error())
	if run.IsInput(err) {
		return exitUsage
	}
	if strings.HasPrefix(err.Error(), "unknown ") || strings.Contains(err.Error(), "arg(s)") || strings.Contains(err.Error(), "flag") {
		return exitUsage
	}
	return exitInfra
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "patchcheck",
		Short: "Is this kernel patch series ready to mail?",
		Long: `patchcheck takes a kernel patch series as people have it (mails, mbox, git
format-patch files, a git range) and answers with evidence whether it is ready
to mail: lint, apply, build every patch with W=1, boot, run NFS over RDMA over a
matrix of device limits, count, compare, and write the cover letter's test
table from what was recorded.

Without a subcommand, patchcheck lints and checks the unpublished commits of
the kernel tree it is called in ("patchcheck run").`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runHere(cmd)
		},
	}
	root.PersistentFlags().StringVar(&a.cache, "cache", "", "cache folder (default $PATCHCHECK_CACHE, else ~/.cache/patchcheck)")
	root.PersistentFlags().StringVar(&a.runs, "out", "", "folder for run folders (default ~/.local/state/patchcheck/runs)")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError("%v\nSee: %s --help", err, c.CommandPath())
	})
	root.AddCommand(
		a.runCmd(), a.planCmd(), a.reportCmd(), a.coverCmd(), a.runsCmd(), a.doctorCmd(),
		a.shellCmd(), a.gcCmd(), a.treeCmd(), a.manCmd(), a.seriesCmd(), a.applyCmd(), a.consoleCmd(), a.traceCmd(), a.warningsCmd(), a.subjectCmd(),
		a.lintCmd(), a.explainCmd(), a.hookCmd(),
		a.historyCmd(), a.diffCmd(),
		a.nightlyCmd(), a.bisectCmd(), a.quarantineCmd(),
		a.matrixCmd(), a.cellCmd(), a.mergeCmd(), a.githubCmd(),
		a.siteCmd(), a.serveCmd(),
		a.benchCmd(),
	)
	return root
}

// cacheDir is where trees, kernels and images are kept between runs.
func (a *app) cacheDir() (string, error) {
	for _, d := range []string{a.cache, os.Getenv("PATCHCHECK_CACHE")} {
		if d != "" {
			return filepath.Abs(d)
		}
	}
	d, err := os.UserCacheDir()
	if err != nil {
		return "", usageError("cannot tell where to keep the cache: %v; give --cache DIR", err)
	}
	return filepath.Join(d, "patchcheck"), nil
}

// runsDir is where run folders are kept.
func (a *app) runsDir() (string, error) {
	if a.runs != "" {
		return filepath.Abs(a.runs)
	}
	if d := os.Getenv("XDG_STATE_HOME"); d != "" {
		return filepath.Join(d, "patchcheck", "runs"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", usageError("cannot tell where to keep runs: %v; give --out DIR", err)
	}
	return filepath.Join(home, ".local", "state", "patchcheck", "runs"), nil
}

// buildVersion is set by the Makefile (git describe).
var buildVersion string

// version is what the Makefile says, else the module's version, or the commit
// it was built from.
func version() string {
	if buildVersion != "" {
		return buildVersion
	}
	bi, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := bi.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range bi.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}
