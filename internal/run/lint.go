// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"strings"

	"patchcheck/checks"
	"patchcheck/internal/lint"
	"patchcheck/internal/view"
)

// lint runs the mail-time checks and the tree's own scripts. What it finds is
// part of the record; only errors decide the verdict. How the series applies
// is the next step's business.
func (r *runner) lint(ctx context.Context) error {
	s := r.begin("lint")
	o := lint.Options{Series: r.ser, Tree: r.tree, Config: r.o.Config, NoApply: true, NoSandbox: r.o.NoSandbox}
	if r.o.Variants {
		o.Cache = r.cache
		o.Build = &lint.BuildOptions{Jobs: r.o.Jobs, NoSandbox: r.o.NoSandbox, Progress: func(l string) { s.Update("%s", l) }}
	} else {
		r.rec.NotRun = append(r.rec.NotRun, "other configurations (--variants)")
	}
	res, err := lint.Run(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("lint: %w", err)
	}
	r.rec.Findings = append(r.rec.Findings, res.Findings...)
	for _, c := range res.Costs {
		r.rec.Variants = append(r.rec.Variants, c.Name)
	}
	n := map[checks.Severity]int{}
	for _, f := range res.Findings {
		n[f.Severity]++
	}
	detail := "nothing to say"
	if len(res.Findings) > 0 {
		var parts []string
		for _, x := range []checks.Severity{checks.Error, checks.Warning, checks.Note} {
			if n[x] > 0 {
				parts = append(parts, plural(n[x], string(x), string(x)+"s"))
			}
		}
		detail = strings.Join(parts, ", ")
	}
	for _, note := range res.Notes {
		detail += "; " + note
	}
	status := view.OK
	if n[checks.Error] > 0 {
		status = view.Failed
	}
	s.End(status, "%s", detail)
	return r.rec.Save()
}
