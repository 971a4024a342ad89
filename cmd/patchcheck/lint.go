// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"patchcheck/checks"
	"patchcheck/checks/lint"
	"patchcheck/internal/cache"
	"patchcheck/internal/config"
	"patchcheck/internal/findings"
	"patchcheck/internal/kernel"
	lintrun "patchcheck/internal/lint"
	"patchcheck/internal/run"
	"patchcheck/internal/runfolder"
	"patchcheck/patches"
)

type lintFlags struct {
	treeFlags
	strict, asJSON, trailers, noScripts, part bool

	build, clang, noSandbox bool
	jobs                    int

	format  string
	root    string
	version int
}

func (a *app) lintCmd() *cobra.Command {
	f := &lintFlags{}
	cmd := &cobra.Command{
		Use:   "lint [SERIES...]",
		Short: "Say what a maintainer would send back, before mailing",
		Long: `Check a series as mail: numbering, cover letter, messages, tags, the text of
the diff, and the rules of the maintainers of the touched files. With a kernel
tree (--tree, or the one you are in) also whether it applies, whether commits
named exist, and what the tree's own scripts say.

SERIES is as for run. Without a tree nothing is looked up and nothing is
downloaded. Notes never change the exit code.

Exit code: 0 ready, 1 errors or warnings, 2 bad input, 3 our infrastructure
failed.

Rules are listed and explained by "patchcheck explain", and silenced in
.patchcheck.yaml at the top of the tree or in the user's config.yaml
(~/.config/patchcheck).

As b4's check commands:
  git config b4.prep-perpatch-check-cmd 'patchcheck lint --part --format terse -'
  git config b4.review-perpatch-check-cmd 'patchcheck lint --format b4 -'`,
		Example: `  patchcheck lint outgoing/
  patchcheck lint nfsd-testing..HEAD
  b4 am -o - ID | patchcheck lint -
  patchcheck lint --format github --tree . HEAD~3..`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.doLint(cmd.Context(), f, args) },
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.BoolVar(&f.strict, "strict", false, "also apply the rules that accepted patches often break")
	fl.StringVar(&f.format, "format", "text", "output: "+strings.Join(findings.Formats, ", "))
	fl.BoolVar(&f.asJSON, "json", false, "print the result as JSON (--format json)")
	fl.BoolVar(&f.trailers, "with-trailers", false, "collect tags from replies in the input")
	fl.BoolVar(&f.noScripts, "no-scripts", false, "do not run the scripts of the tree")
	fl.BoolVar(&f.build, "build", false, "also build each patch in the configurations that fit the touched paths")
	fl.BoolVar(&f.clang, "clang", false, "with --build: compile with clang, too")
	fl.BoolVar(&f.noSandbox, "no-sandbox", false, "build without bubblewrap: a stranger's Makefile can then read your files")
	fl.IntVarP(&f.jobs, "jobs", "j", 0, "with --build: compilers at a time (default: the number of CPUs)")
	fl.BoolVar(&f.part, "part", false, "the input is one mail of a series: do not miss the other parts")
	fl.StringVar(&f.root, "root", "", "message id of any mail of the wanted series, when the input holds several")
	fl.IntVar(&f.version, "series-version", 0, "version of the wanted series (default: the latest)")
	return cmd
}

func (a *app) doLint(ctx context.Context, f *lintFlags, args []string) error {
	if f.asJSON {
		f.format = "json"
	}
	if !slices.Contains(findings.Formats, f.format) {
		return usageError("--format %q is not known; there are: %s", f.format, strings.Join(findings.Formats, ", "))
	}
	rep, err := a.lintReport(ctx, f, args)
	if err != nil {
		return err
	}
	return a.showLint(rep, f.format)
}

// showLint prints a report and turns its outcome into an exit code.
func (a *app) showLint(rep *findings.Report, format string) error {
	if err := findings.Write(a.stdout, format, rep, a.colour()); err != nil {
		return err
	}
	switch rep.Outcome() {
	case findings.Ready:
		return nil
	case findings.Infra:
		return &exitError{code: exitInfra}
	}
	return &exitError{code: exitFindings}
}

// lintReport checks a series and gives what was found.
func (a *app) lintReport(ctx context.Context, f *lintFlags, args []string) (*findings.Report, error) {
	here := kernelTreeHere()
	conf, err := a.config(configTree(f.tree))
	if err != nil {
		return nil, err
	}
	spec := configured(conf, f.tree, here)
	repo := ""
	if fi, err := os.Stat(spec); err == nil && fi.IsDir() {
		repo = spec
	}
	s, err := a.lintSeries(ctx, f, args, here, repo)
	if err != nil {
		return nil, err
	}
	o := lintrun.Options{Series: s, Config: conf, Strict: f.strict, Part: f.part || f.format == "b4" && len(s.Patches) < 2, Runs: a.passed(s)}
	rep := &findings.Report{Tool: version(), Series: s, Rule: ruleByID}
	if spec != "" {
		dir, err := a.cacheDir()
		if err != nil {
			return nil, err
		}
		c, err := cache.Open(dir)
		if err != nil {
			return nil, &exitError{exitInfra, err.Error()}
		}
		t, err := kernel.Resolve(ctx, c, spec, kernel.TreeOptions{Base: f.base, SeriesBase: s.BaseCommit,
			Progress: func(msg string) { fmt.Fprintln(a.stderr, "patchcheck: "+msg) }})
		if err != nil {
			return nil, err
		}
		defer t.Close()
		o.Tree, o.Cache, o.NoScripts, rep.Tree = t, c, f.noScripts, t.String()
		o.Others = otherTrees(ctx, c, conf, t, s.BaseCommit)
		defer func() {
			for _, t := range o.Others {
				t.Close()
			}
		}()
		if f.build {
			o.NoSandbox = f.noSandbox
			o.Build = &lintrun.BuildOptions{Jobs: f.jobs, Clang: f.clang, Progress: func(msg string) { fmt.Fprintln(a.stderr, "patchcheck: "+msg) }}
		}
	} else if f.build {
		return nil, usageError("--build needs a kernel tree: name it with --tree")
	}
	res, err := lintrun.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	rep.Findings, rep.Silenced, rep.Notes = res.Findings, res.Silenced, res.Notes
	if len(args) == 0 && len(s.Sources) == 1 && strings.HasPrefix(s.Sources[0], "bundled:") {
		rep.Notes = append(rep.Notes, "no series was named and this is no kernel tree, so this is the bundled example")
	}
	return rep, nil
}

// otherTrees are the trees of the configuration that are here already: the
// series may fit one of them better. Nothing is fetched for a guess.
func otherTrees(ctx context.Context, c *cache.Cache, conf *config.Config, used *kernel.Tree, base string) []*kernel.Tree {
	var out []*kernel.Tree
	for _, name := range sortedKeys(conf.Trees) {
		spec := conf.Trees[name]
		if fi, err := os.Stat(spec); err != nil || !fi.IsDir() || spec == used.Spec {
			continue
		}
		if t, err := kernel.Resolve(ctx, c, spec, kernel.TreeOptions{SeriesBase: base}); err == nil {
			out = append(out, t)
		}
	}
	return out
}

// lintSeries reads the series by the same rules as run.
func (a *app) lintSeries(ctx context.Context, f *lintFlags, args []string, here, repo string) (*patches.Series, error) {
	if len(args) == 0 && here != "" && f.tree == "" {
		var err error
		if args, err = unpublished(ctx, here); err != nil {
			return nil, err
		}
	}
	if len(args) == 0 {
		return run.LoadSeries(ctx, nil, a.stdin, repo)
	}
	a.sayTerminal(args)
	if repo == "" {
		repo = cmp.Or(here, gitHere())
	}
	opts := patches.LoadOptions{Stdin: a.stdin, Repo: repo, WithTrailers: f.trailers, Root: f.root, Version: f.version}
	return patches.Load(ctx, args, opts)
}

// gitHere is the top of the git repository that the working directory lies
// in, whatever it holds, or "": ranges of a repository that is no kernel, such
// as that of nfs-utils, can be looked at as mails.
func gitHere() string {
	d, err := os.Getwd()
	if err != nil {
		return ""
	}
	for ; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, ".git")); err == nil {
			return d
		}
		if d == filepath.Dir(d) {
			return ""
		}
	}
}

// sayTerminal tells a person who gave "-" what is waited for.
func (a *app) sayTerminal(args []string) {
	if file, ok := a.stdin.(*os.File); ok && slices.Contains(args, "-") && term.IsTerminal(int(file.Fd())) {
		fmt.Fprintln(a.stderr, "patchcheck: reading the series from the terminal; end with Ctrl-D")
	}
}

// colour says whether the output is a terminal that wants colours.
func (a *app) colour() bool { return colourOf(a.stdout) }

func colourOf(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// configTree is the folder whose .patchcheck.yaml counts: the tree named when
// it is a folder, else the one around the working directory.
func configTree(named string) string {
	if fi, err := os.Stat(named); named != "" && err == nil && fi.IsDir() {
		return named
	}
	return kernelTreeHere()
}

// config reads the configuration of a tree and of the user.
func (a *app) config(tree string) (*config.Config, error) {
	c, err := config.Load(tree)
	if err == nil {
		var names []string
		for _, p := range lint.Profiles {
			names = append(names, p.Name)
		}
		err = c.Validate(func(id string) bool { _, ok := ruleByID(id); return ok }, names)
	}
	var ce *config.Error
	if errors.As(err, &ce) {
		return nil, usageError("%v", err)
	}
	return c, err
}

// configured is the tree spec to use: the one named, else the tree around the
// working directory, else that of the configuration, which may also give names
// to specs.
func configured(c *config.Config, named, here string) string {
	spec := cmp.Or(named, here, c.Tree)
	if s, ok := c.Trees[spec]; ok {
		return s
	}
	return spec
}

// passed lists recorded runs of exactly these patches that passed.
func (a *app) passed(s *patches.Series) []string {
	dir, err := a.runsDir()
	if err != nil {
		return nil
	}
	runs, err := runfolder.List(dir)
	if err != nil || len(runs) == 0 || len(s.Patches) == 0 {
		return nil
	}
	// Only run.json is read, and decoded only when it names the series: lint
	// must stay quick however many runs there are.
	id := run.SeriesID(s)
	var out []string
	for _, r := range runs[:min(len(runs), 200)] {
		b, err := os.ReadFile(filepath.Join(r, "run.json"))
		if err != nil || !bytes.Contains(b, []byte(id)) {
			continue
		}
		var rec struct {
			ID      string
			Series  struct{ ID string }
			Verdict checks.Verdict
		}
		if json.Unmarshal(b, &rec) == nil && rec.Series.ID == id && rec.Verdict == checks.Pass {
			out = append(out, rec.ID)
		}
	}
	return out
}
