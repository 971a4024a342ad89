// SPDX-License-Identifier: Apache-2.0

// Package lint runs the mail-time checks on a series: it gathers the facts,
// calls the rules of checks/lint and applies the user's configuration. Both
// `patchcheck lint` and `patchcheck run` use it.
package lint

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"patchcheck/checks"
	"patchcheck/checks/lint"
	"patchcheck/internal/cache"
	"patchcheck/internal/config"
	"patchcheck/internal/kernel"
	"patchcheck/internal/treefacts"
	"patchcheck/patches"
)

// Options say what to check and with which knowledge.
type Options struct {
	Series *patches.Series
	// Tree is the tree to hold the series against; nil looks at the mails
	// alone.
	Tree *kernel.Tree
	// Config silences and grades; nil: nothing is configured.
	Config *config.Config
	Strict bool
	// Part says that the input is one mail of a series, as git's and b4's
	// hooks give it: the other parts are not missed.
	Part bool
	// Runs are ids of recorded runs of exactly these patches that passed.
	Runs []string
	// Cache keeps results about the tree; nil leaves kernel-doc out.
	Cache *cache.Cache
	// NoScripts leaves out the tree's scripts, NoApply the findings of
	// applying, for a caller that has its own.
	NoScripts, NoApply, NoSandbox bool
	// Others are further trees that the series may be meant for.
	Others []*kernel.Tree
	// Build compiles each patch under the configurations that fit; nil: no.
	// Tree, Series, states and cache are filled in.
	Build *BuildOptions
}

// Result is what Run found.
type Result struct {
	Findings []checks.Finding
	Silenced []checks.Finding // by the configuration
	Notes    []string         // what was not looked at, and why
	// Tree is all that the tree told; nil without one.
	Tree *treefacts.Result
	// Costs is what each configuration compiled and took.
	Costs []VariantCost
}

// Run checks the series. An error is ours or the tree's, never the series':
// that is a finding.
func Run(ctx context.Context, o Options) (*Result, error) {
	res := &Result{}
	var facts lint.Facts
	var more []checks.Finding
	if o.Tree != nil {
		t, err := treefacts.Gather(ctx, o.Tree, o.Series, treefacts.Options{Strict: o.strict(), Cache: o.Cache, NoScripts: o.NoScripts,
			// One mail of a series stands on those before it, and when a hook
			// asks, the tree may hold them all.
			NoApply: o.NoApply || o.Part, NoSandbox: o.NoSandbox, Others: o.Others})
		if err != nil {
			return nil, err
		}
		res.Tree, facts, more, res.Notes = t, t.Facts, t.Findings, t.NotRun
		if facts.Tree == "" {
			facts.Tree = o.Tree.String()
		}
		built, err := o.build(ctx, res)
		if err != nil {
			return nil, err
		}
		more = append(more, built...)
	}
	facts.Runs = append(facts.Runs, o.Runs...)
	if facts.Previous == nil && !o.Part {
		facts.Previous = previous(ctx, o.Series)
	}
	lo := lint.Options{Strict: o.strict(), Mailless: Mailless(o.Series), Part: o.Part}
	names := []string{}
	if o.Tree != nil {
		names = append(names, o.Tree.Spec, o.Tree.Dir)
	}
	if c := o.Config; c != nil {
		lo.Profiles = c.Lint.Profiles
	}
	fs := slices.Concat(lint.Check(o.Series, facts, lo), more)
	if o.Config == nil {
		res.Findings = fs
		return res, nil
	}
	res.Findings, res.Silenced = o.Config.Apply(fs, names, func(patch int) []string {
		if patch == 0 {
			return lint.TouchedPaths(o.Series)
		}
		for _, p := range o.Series.Patches {
			if p.Index == patch {
				return lint.TouchedPaths(&patches.Series{Patches: []*patches.Patch{p}})
			}
		}
		return nil
	})
	return res, nil
}

// build compiles what applies.
func (o *Options) build(ctx context.Context, res *Result) ([]checks.Finding, error) {
	if o.Build == nil {
		return nil, nil
	}
	if n := len(res.Tree.States); n < len(o.Series.Patches) {
		res.Notes = append(res.Notes, fmt.Sprintf("only %d of %d patches apply, and only those were compiled", n, len(o.Series.Patches)))
	}
	b := *o.Build
	b.Tree, b.Series, b.Base, b.States, b.Cache, b.NoSandbox = o.Tree, o.Series, res.Tree.Base, res.Tree.States, o.Cache, o.NoSandbox
	fs, costs, err := Variants(ctx, b)
	if err != nil {
		return nil, err
	}
	res.Costs = costs
	for _, c := range costs {
		res.Notes = append(res.Notes, "compiled "+c.String())
	}
	return fs, nil
}

// strict is what the command line or the configuration asks for.
func (o *Options) strict() bool {
	return o.Strict || o.Config != nil && o.Config.Lint.Strict != nil && *o.Config.Lint.Strict
}

// Mailless says that a series comes from git ranges only, so that no mails
// have been made yet.
func Mailless(s *patches.Series) bool {
	if len(s.Sources) == 0 {
		return false
	}
	for _, src := range s.Sources {
		if src == "-" || strings.HasPrefix(src, "bundled:") {
			return false
		}
		if _, err := os.Stat(src); err == nil {
			return false
		}
	}
	return true
}

// previous finds the version before this one when the same input holds it.
func previous(ctx context.Context, s *patches.Series) *lint.Previous {
	several := slices.ContainsFunc(s.Problems, func(p patches.Problem) bool { return p.ID == "series.several" })
	if !several || slices.Contains(s.Sources, "-") {
		return nil
	}
	all, err := patches.LoadAll(ctx, s.Sources, patches.LoadOptions{})
	if err != nil {
		return nil
	}
	var best *lint.Previous
	for _, o := range all {
		if o.Title != s.Title || o.Version >= s.Version || best != nil && o.Version <= best.Version {
			continue
		}
		p := &lint.Previous{Version: o.Version}
		switch {
		case o.Cover != nil:
			p.Date, p.MessageID = o.Cover.Date, o.Cover.MessageID
		case len(o.Patches) > 0 && o.Patches[0].Mail != nil:
			p.Date, p.MessageID = o.Patches[0].Mail.Date, o.Patches[0].MessageID
		}
		best = p
	}
	return best
}
