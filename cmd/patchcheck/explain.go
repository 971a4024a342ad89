// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"patchcheck/checks"
	"patchcheck/checks/console"
	"patchcheck/checks/counts"
	"patchcheck/checks/fio"
	"patchcheck/checks/guestlog"
	"patchcheck/checks/lint"
	"patchcheck/checks/prediction"
	"patchcheck/checks/scripts"
	"patchcheck/checks/stats"
	"patchcheck/checks/tracelog"
	"patchcheck/checks/warnings"
	lintrun "patchcheck/internal/lint"
	"patchcheck/internal/run"
	"patchcheck/internal/treefacts"
	"patchcheck/patches"
)

// allRules lists the rules of every check, by id.
func allRules() []checks.Rule {
	rs := slices.Concat(patches.Rules, lint.Rules, scripts.Rules(), warnings.Rules(), console.Rules, counts.Rules, fio.Rules, prediction.Rules,
		guestlog.Rules, stats.Rules, tracelog.Rules, treefacts.Rules(), run.Rules, []checks.Rule{lintrun.RuleVariantInfra})
	slices.SortFunc(rs, func(a, b checks.Rule) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(rs, func(a, b checks.Rule) bool { return a.ID == b.ID })
}

// ruleByID finds a rule, also those of checkpatch, which nobody lists.
func ruleByID(id string) (checks.Rule, bool) {
	for _, r := range allRules() {
		if r.ID == id {
			return r, true
		}
	}
	if name, ok := strings.CutPrefix(id, "variant."); ok && name != "" {
		return lintrun.VariantRule(name), true
	}
	return scripts.RuleByID(id)
}

func (a *app) explainCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain [ID]",
		Short: "Print a rule, where it is written and what to do; without ID list all",
		Example: `  patchcheck explain trailer.fixes-sha-short
  patchcheck explain FIXES_SHA_SHORT`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listRules(asJSON)
			}
			r, err := findRule(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return a.print(r)
			}
			a.explain(r)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func (a *app) listRules(asJSON bool) error {
	rs := allRules()
	if asJSON {
		return a.print(rs)
	}
	for _, r := range rs {
		strict := ""
		switch {
		case lint.ProfileOnly(r.ID):
			strict = " (some maintainers)"
		case r.Strict:
			strict = " (strict)"
		}
		fmt.Fprintf(a.stdout, "%-32s %-8s %s%s\n", r.ID, r.Severity, r.Title, strict)
	}
	fmt.Fprintln(a.stdout, "\nTypes of checkpatch.pl that are not passed on as they are, and why:")
	for _, p := range scripts.CheckpatchPolicy() {
		if p.Reason == "" {
			continue
		}
		becomes := "note"
		switch {
		case p.Drop:
			becomes = "left out"
		case p.Strict:
			becomes = "strict"
		}
		fmt.Fprintf(a.stdout, "%-32s %-8s %s\n", scripts.IDOf(p.Type), becomes, p.Reason)
	}
	return nil
}

func (a *app) explain(r checks.Rule) {
	fmt.Fprintf(a.stdout, "%s: %s\n\n  severity  %s\n", r.ID, r.Title, r.Severity)
	var profiles []string
	for _, p := range lint.Profiles {
		if sev, ok := p.Rules[r.ID]; ok {
			profiles = append(profiles, fmt.Sprintf("%s (%s)", p.Name, sev))
		}
	}
	switch {
	case lint.ProfileOnly(r.ID):
		fmt.Fprintf(a.stdout, "  applied   by the profiles %s\n", strings.Join(profiles, ", "))
	case r.Strict && len(profiles) > 0:
		fmt.Fprintf(a.stdout, "  applied   with --strict, and by the profiles %s\n", strings.Join(profiles, ", "))
	case r.Strict:
		fmt.Fprintln(a.stdout, "  applied   with --strict")
	case len(profiles) > 0:
		fmt.Fprintf(a.stdout, "  profiles  %s\n", strings.Join(profiles, ", "))
	}
	fmt.Fprintf(a.stdout, "  source    %s\n  fix       %s\n\nSilence it in .patchcheck.yaml:\n  lint:\n    silence:\n      - id: %s\n", r.Source, r.Fix, r.ID)
}

// findRule takes an id, its last part, or that in checkpatch's spelling.
func findRule(id string) (checks.Rule, error) {
	if r, ok := ruleByID(id); ok {
		return r, nil
	}
	want := strings.ReplaceAll(strings.ToLower(id), "_", "-")
	var near []string
	var hits []checks.Rule
	for _, r := range allRules() {
		_, last, _ := strings.Cut(r.ID, ".")
		switch {
		case r.ID == want || last == want:
			hits = append(hits, r)
		case strings.Contains(r.ID, want) || last != "" && strings.Contains(want, last):
			near = append(near, r.ID)
		}
	}
	switch {
	case len(hits) == 1:
		return hits[0], nil
	case len(hits) > 1:
		near = nil
		for _, r := range hits {
			near = append(near, r.ID)
		}
	case strings.ToUpper(id) == id && !strings.Contains(id, "."):
		if r, ok := ruleByID("checkpatch." + want); ok && strings.Contains(id, "_") {
			return r, nil
		}
	}
	if len(near) > 0 {
		return checks.Rule{}, usageError("no rule has the id %q; near it: %s", id, strings.Join(near[:min(len(near), 8)], ", "))
	}
	return checks.Rule{}, usageError("no rule has the id %q (patchcheck explain lists them)", id)
}
