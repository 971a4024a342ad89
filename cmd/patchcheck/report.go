// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"patchcheck/internal/page"
	"patchcheck/internal/report"
	"patchcheck/internal/run"
	"patchcheck/internal/runfolder"
	"patchcheck/patches"
	"patchcheck/schemas"
)

// openRun finds a run by folder, by id, or the newest for "" and "latest".
func (a *app) openRun(name string) (*runfolder.Run, error) {
	parent, err := a.runsDir()
	if err != nil {
		return nil, err
	}
	if name == "" || name == "latest" {
		dirs, err := runfolder.List(parent)
		if err != nil {
			return nil, err
		}
		if len(dirs) == 0 {
			return nil, usageError("no runs yet in %s: patchcheck run makes one", parent)
		}
		name = dirs[0]
	} else if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) && !strings.Contains(name, "/") {
		name = filepath.Join(parent, name)
	}
	r, err := runfolder.Open(name)
	if err != nil {
		return nil, usageError("%v", err)
	}
	return r, nil
}

func (a *app) reportCmd() *cobra.Command {
	var format, output string
	var schema bool
	formats := append(slices.Clone(report.Formats), "html")
	cmd := &cobra.Command{
		Use:   "report [RUN]",
		Short: "Print what a run recorded, in one of several forms",
		Long: `Print what a run recorded. RUN is a run folder or a run's id; default is the
newest. Formats: text (for a terminal), cover (a block for the cover letter),
patch (three lines for a commit message), markdown, json, junit (for Jenkins,
GitLab and others), ktap (the kernel's test format), sarif (for code forges),
bench (lines that benchstat compares), html (one page that needs nothing else;
each run folder has it as page.html). --schema prints the JSON Schema of the
json format.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if schema {
				_, err := a.stdout.Write(schemas.Run)
				return err
			}
			r, err := a.openRun(strings.Join(args, ""))
			if err != nil {
				return err
			}
			if !slices.Contains(formats, format) {
				return usageError("unknown report format %q: use one of %s", format, strings.Join(formats, ", "))
			}
			var b bytes.Buffer
			switch format {
			case "sarif":
				err = report.SARIF(&b, r, ruleByID)
			case "html":
				err = page.Write(&b, r, page.Options{Rule: ruleByID})
			default:
				err = report.Write(&b, r, format)
			}
			if err != nil {
				return err
			}
			if output != "" && output != "-" {
				if err := os.WriteFile(output, b.Bytes(), 0o644); err != nil {
					return usageError("cannot write the report: %v", err)
				}
				return nil
			}
			_, err = a.stdout.Write(b.Bytes())
			return err
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", strings.Join(formats, ", "))
	cmd.Flags().StringVarP(&output, "output", "o", "", "file to write to instead of standard output")
	cmd.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of the json format")
	cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(toAny(formats), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func toAny(ss []string) (out []cobra.Completion) { return append(out, ss...) }

func (a *app) runsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "runs", Short: "List the recorded runs, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			parent, err := a.runsDir()
			if err != nil {
				return err
			}
			dirs, err := runfolder.List(parent)
			if err != nil {
				return err
			}
			for _, d := range dirs {
				r, err := runfolder.Open(d)
				if err != nil {
					fmt.Fprintf(a.stdout, "%-48s unreadable: %v\n", filepath.Base(d), err)
					continue
				}
				v := string(r.Verdict)
				if v == "" {
					v = "unfinished"
				}
				fmt.Fprintf(a.stdout, "%-48s %-10s %s\n", r.ID, v, r.Series.Title)
			}
			return nil
		},
	}
}

func (a *app) coverCmd() *cobra.Command {
	var update, verify string
	cmd := &cobra.Command{
		Use:   "cover (--update LETTER [RUN] | --verify LETTER)",
		Short: "Write a run's test block into a cover letter, or check that it is current",
		Long: `--update writes the run's block between two marker lines of the cover letter:
in place of an older block, else before the shortlog. All other bytes stay as
they are. RUN is a run folder or id; default is the newest.

--verify says (exit 1) when the block was edited by hand, when the patches
beside the letter are no longer those that were tested, or when the block does
not say what its run recorded.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case update != "" && verify == "":
				r, err := a.openRun(strings.Join(args, ""))
				if err != nil {
					return err
				}
				return a.updateCover(update, r)
			case verify != "" && update == "" && len(args) == 0:
				return a.verifyCover(cmd.Context(), verify)
			}
			return usageError("say either --update LETTER [RUN] or --verify LETTER")
		},
	}
	cmd.Flags().StringVar(&update, "update", "", "cover letter to write the block into")
	cmd.Flags().StringVar(&verify, "verify", "", "cover letter to check")
	return cmd
}

func (a *app) updateCover(letter string, r *runfolder.Run) error {
	b, err := os.ReadFile(letter)
	if err != nil {
		return usageError("%v", err)
	}
	out, err := report.UpdateCover(b, r)
	if err != nil {
		return usageError("%s: %v", letter, err)
	}
	fi, err := os.Stat(letter)
	if err != nil {
		return err
	}
	// The letter is the user's: it is replaced as a whole or not at all.
	tmp, err := os.CreateTemp(filepath.Dir(letter), ".patchcheck-cover-")
	if err != nil {
		return err
	}
	_, err = tmp.Write(out)
	err = errors.Join(err, tmp.Chmod(fi.Mode().Perm()), tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), letter)
	}
	if err != nil {
		os.Remove(tmp.Name())
		return fmt.Errorf("cannot write %s: %w", letter, err)
	}
	fmt.Fprintf(a.stdout, "%s now carries the block of run %s\n", letter, r.ID)
	return nil
}

func (a *app) verifyCover(ctx context.Context, letter string) error {
	b, err := os.ReadFile(letter)
	if err != nil {
		return usageError("%v", err)
	}
	id := ""
	s, err := patches.Load(ctx, coverSeries(letter), patches.LoadOptions{})
	if err == nil && len(s.Patches) > 0 {
		id = run.SeriesID(s)
	}
	bad, err := report.VerifyCover(b, id, a.openRun)
	if err != nil {
		return &exitError{exitFindings, letter + ": " + err.Error()}
	}
	if id == "" {
		bad = append(bad, "no patches lie beside the letter, so it cannot be told whether they are those that were tested")
	}
	if len(bad) > 0 {
		return &exitError{exitFindings, letter + ":\n  " + strings.Join(bad, "\n  ")}
	}
	fmt.Fprintf(a.stdout, "%s: the block is current\n", letter)
	return nil
}

// coverSeries names the files of the series that a cover letter belongs to:
// those of its folder that share its version prefix, or the letter itself
// when it is an mbox of everything.
func coverSeries(letter string) []string {
	dir, base := filepath.Dir(letter), filepath.Base(letter)
	prefix, _, ok := strings.Cut(base, "0000-")
	if !ok {
		return []string{letter}
	}
	m, _ := filepath.Glob(filepath.Join(dir, prefix+"[0-9][0-9][0-9][0-9]-*.patch"))
	return m
}
