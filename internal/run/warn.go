// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"patchcheck/checks"
	"patchcheck/checks/warnings"
	"patchcheck/internal/kernel"
	"patchcheck/patches"
	"patchcheck/patches/diff"
)

// parseLedger reads the diagnostics of every object that compiled with words.
func parseLedger(l kernel.Ledger) warnings.Ledger {
	out := make(warnings.Ledger, len(l))
	for obj, lines := range l {
		out[obj] = nil
		if len(lines) == 0 {
			continue
		}
		log := warnings.ParseString(strings.Join(lines, "\n") + "\n")
		for i := range log.Diagnostics {
			log.Diagnostics[i].Object = obj
		}
		out[obj] = log.Diagnostics
	}
	return out
}

// lineChanges tells how the lines of each file moved from one overlay to the
// next.
func lineChanges(before, after *diff.Overlay) []warnings.FileChange {
	seen := map[string]bool{}
	var out []warnings.FileChange
	for _, o := range []*diff.Overlay{before, after} {
		for _, c := range o.Changed() {
			if seen[c.Path] {
				continue
			}
			seen[c.Path] = true
			old, _, err1 := before.ReadFile(c.Path)
			now, _, err2 := after.ReadFile(c.Path)
			if errors.Is(err1, fs.ErrNotExist) || errors.Is(err2, fs.ErrNotExist) || err1 != nil || err2 != nil {
				continue
			}
			if e := warnings.DiffLines(old, now); len(e) > 0 {
				out = append(out, warnings.FileChange{OldPath: c.Path, NewPath: c.Path, Edits: e})
			}
		}
	}
	return out
}

// newWarnings compares two states of the object folder.
func newWarnings(before, after kernel.Ledger, from, to *diff.Overlay, paths []string) []checks.Finding {
	t := map[string]bool{}
	for _, p := range paths {
		t[p] = true
	}
	res := warnings.DiffLedgers(parseLedger(before), parseLedger(after), warnings.Options{Map: warnings.MapEdits(lineChanges(from, to)), Touched: t})
	return warnings.Findings(res)
}

// newKernelDoc compares what the tree's kernel-doc checker says of the files
// that one patch changes, before and after it.
func (r *runner) newKernelDoc(ctx context.Context, p *patches.Patch, from, to *diff.Overlay) ([]checks.Finding, error) {
	var files []string
	for _, f := range p.Files {
		if n := f.Path(); !f.IsDelete && (strings.HasSuffix(n, ".c") || strings.HasSuffix(n, ".h")) {
			files = append(files, n)
		}
	}
	if len(files) == 0 {
		return nil, nil
	}
	side := func(o *diff.Overlay) ([]warnings.Diagnostic, error) {
		var have []string
		for _, f := range files {
			if _, _, err := o.ReadFile(f); err == nil {
				have = append(have, f)
			}
		}
		said, err := r.store.CheckKernelDoc(ctx, r.tree, kernel.FromDiff(o), have)
		if err != nil {
			return nil, err
		}
		var all []string
		for _, f := range have {
			all = append(all, said[f]...)
		}
		return warnings.ParseString(strings.Join(all, "\n") + "\n").Diagnostics, nil
	}
	before, err := side(from)
	if err != nil {
		return nil, err
	}
	after, err := side(to)
	if err != nil {
		return nil, err
	}
	return warnings.Findings(warnings.Diff(before, after, warnings.Options{Map: warnings.MapEdits(lineChanges(from, to))})), nil
}
