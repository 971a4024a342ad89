// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"patchcheck/checks/warnings"
	"patchcheck/patches"
	"patchcheck/patches/diff"
	"patchcheck/patches/mail"
)

func (a *app) print(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// read gives a file's bytes, or standard input's for "-".
func (a *app) read(name string) ([]byte, error) {
	var b []byte
	var err error
	if name == "-" {
		b, err = io.ReadAll(a.stdin)
	} else {
		b, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, usageError("%v", err)
	}
	return b, nil
}

func (a *app) applyCmd() *cobra.Command {
	var tree string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "apply --tree DIR PATCH...",
		Short: "Say how each hunk of a patch applies to a folder; write nothing",
		Long: `Decide as git apply does (offsets yes, fuzz no) and say for each file and hunk
what became of it. Nothing is written. Exit code 1 when a patch does not apply.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if fi, err := os.Stat(tree); err != nil || !fi.IsDir() {
				return usageError("--tree %q is no folder", tree)
			}
			o := diff.NewOverlay(diff.DirTree(tree))
			failed := false
			show := func(name string, next *diff.Overlay, res *diff.Result) error {
				if next != nil && res.Applies {
					o = next
				}
				failed = failed || !res.Applies
				if asJSON {
					return a.print(res)
				}
				var b strings.Builder
				res.Explain(&b)
				fmt.Fprintf(a.stdout, "%s: %s", name, mail.Printable(b.String()))
				return nil
			}
			for _, name := range args {
				b, err := a.read(name)
				if err != nil {
					return err
				}
				if !mail.IsMbox(b) && !mail.LooksLikeMail(b) {
					next, res, err := diff.Check(o, b, diff.Options{})
					if err == nil {
						err = show(name, next, res)
					}
					if err != nil {
						return fmt.Errorf("%s: %w", name, err)
					}
					continue
				}
				s, err := patches.Load(cmd.Context(), []string{"-"}, patches.LoadOptions{Stdin: bytes.NewReader(b)})
				if err != nil {
					return err
				}
				if len(s.Patches) == 1 {
					next, res, err := diff.Check(o, s.Patches[0].Diff, diff.Options{})
					if err == nil {
						err = show(name, next, res)
					}
					if err != nil {
						return fmt.Errorf("%s: %w", name, err)
					}
					continue
				}
				var files [][]*diff.File
				var errs []error
				var names []string
				for _, p := range s.Patches {
					f, err := diff.Parse(p.Diff)
					files, errs = append(files, f), append(errs, err)
					names = append(names, p.Subject)
				}
				next, res, err := diff.ApplySeries(o, files, diff.Options{}, errs...)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				o, failed = next, failed || !res.OK
				if asJSON {
					if err := a.print(res); err != nil {
						return err
					}
					continue
				}
				var text strings.Builder
				res.Explain(&text, names...)
				fmt.Fprint(a.stdout, mail.Printable(text.String()))
			}
			if failed {
				return &exitError{code: exitFindings}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&tree, "tree", ".", "folder to apply to")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) warningsCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "warnings BEFORE.log AFTER.log",
		Short: "List the diagnostics of a build log that an earlier log does not have",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			logs := make([]warnings.Log, 2)
			for i, n := range args {
				f, err := os.Open(n)
				if err != nil {
					return usageError("%v", err)
				}
				logs[i], err = warnings.Parse(f)
				f.Close()
				if err != nil {
					return fmt.Errorf("%s: %w", n, err)
				}
			}
			res := warnings.DiffLogs(logs[0], logs[1], warnings.Options{})
			if asJSON {
				return a.print(res)
			}
			fs := warnings.Findings(res)
			for _, f := range fs {
				fmt.Fprintf(a.stdout, "%s: %s: %s [%s]\n", f.Severity, f.Where, mail.Printable(f.Message), f.ID)
			}
			if len(fs) > 0 {
				return &exitError{code: exitFindings}
			}
			fmt.Fprintln(a.stdout, "no new diagnostics")
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) subjectCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "subject SUBJECT",
		Short: "Show how a subject line is understood, as JSON",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.print(mail.ParseSubject(args[0]))
		},
	}
}

func (a *app) seriesCmd() *cobra.Command {
	var asJSON, trailers, all bool
	var repo string
	cmd := &cobra.Command{
		Use:     "series SERIES...",
		Aliases: []string{"parse"},
		Short:   "Show what was understood of a series",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if repo == "" {
				repo = kernelTreeHere()
			}
			opts := patches.LoadOptions{Stdin: a.stdin, Repo: repo, WithTrailers: trailers}
			if all {
				ss, err := patches.LoadAll(cmd.Context(), args, opts)
				if err != nil {
					return err
				}
				if asJSON {
					return a.print(ss)
				}
				for _, s := range ss {
					a.showSeries(s)
				}
				return nil
			}
			s, err := patches.Load(cmd.Context(), args, opts)
			if err != nil {
				return err
			}
			if asJSON {
				err = a.print(s)
			} else {
				a.showSeries(s)
			}
			if err == nil && len(s.Missing) > 0 {
				err = &exitError{code: exitFindings}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	cmd.Flags().BoolVar(&all, "all", false, "show every series found, not only the newest")
	cmd.Flags().BoolVar(&trailers, "with-trailers", false, "collect trailers from replies")
	cmd.Flags().StringVar(&repo, "repo", "", "repository of git ranges (default: the kernel tree you are in)")
	return cmd
}

func (a *app) showSeries(s *patches.Series) {
	w := a.stdout
	fmt.Fprintf(w, "%s (v%d, %d of %d patches", mail.Printable(s.Title), s.Version, len(s.Patches), s.Total)
	if s.Cover != nil {
		fmt.Fprint(w, ", cover letter")
	}
	fmt.Fprintln(w, ")")
	if s.BaseCommit != "" {
		fmt.Fprintf(w, "  base-commit %s\n", mail.Printable(s.BaseCommit))
	}
	for _, p := range s.Patches {
		add, del := 0, 0
		for _, f := range p.Files {
			add += f.Added
			del += f.Deleted
		}
		fmt.Fprintf(w, "  %d/%d  %s (%d files, +%d -%d)\n", p.Index, p.Total, mail.Printable(p.Subject), len(p.Files), add, del)
	}
	for _, p := range s.Problems {
		at := ""
		if p.Patch > 0 {
			at = fmt.Sprintf("patch %d: ", p.Patch)
		}
		fmt.Fprintf(w, "  problem: %s%s [%s]\n", at, mail.Printable(p.Message), p.ID)
	}
}
