// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"patchcheck/internal/plot"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

// patch is a row of the table of patches.
type patch struct {
	Index   int
	Subject string
	Author  string
	Size    string
	Apply   mark
	Lines   []string // per file and hunk
	Text    string   // of a conflict
	Build   mark
	Objects string
	New     string
	Fixed   string
	Time    string
	Log     string
}

// mark is a word with a sign.
type mark struct{ Word, Sign, Class string }

func patchRows(r *runfolder.Run) []patch {
	var out []patch
	for _, p := range r.Series.Patches {
		row := patch{Index: p.Index, Subject: clean(p.Subject), Author: clean(p.Author), Size: fmt.Sprintf("%s, +%d −%d", plural(p.Files, "file", "files"), p.Added, p.Deleted),
			Apply: mark{"not tried", "–", "skip"}, Build: mark{"not built", "–", "skip"}}
		for _, a := range r.Apply {
			if a.Patch != p.Index {
				continue
			}
			switch a.Class {
			case "clean":
				row.Apply = mark{"exactly", "✓", "pass"}
			case "offset":
				row.Apply = mark{"with offsets", "✓", "pass"}
			default:
				row.Apply = mark{clean(a.Class), "✗", "fail"}
			}
			for _, l := range a.Lines {
				row.Lines = append(row.Lines, clean(l))
			}
			row.Text = clean(a.Text)
		}
		for _, b := range r.Builds {
			if b.Patch == p.Index {
				row.build(b)
			}
		}
		out = append(out, row)
	}
	for _, b := range r.Builds {
		if b.Patch == 0 {
			base := patch{Subject: "base kernel with companions", Apply: mark{"", "", ""}}
			base.build(b)
			out = append([]patch{base}, out...)
			break
		}
	}
	return out
}

func (p *patch) build(b runfolder.Build) {
	p.Build = mark{"builds", "✓", "pass"}
	if !b.OK {
		p.Build = mark{"does not build", "✗", "fail"}
	}
	p.Objects, p.New, p.Fixed = fmt.Sprint(b.Objects), fmt.Sprint(b.New), fmt.Sprint(b.Fixed)
	p.Time = plot.Seconds(b.Elapsed.Seconds())
	if b.Reused {
		p.Time = fmt.Sprintf("reused (%s in make)", plot.Seconds(b.Make.Seconds()))
	}
	p.Log = b.Log
}

// environment lists what the run ran on.
func environment(r *runfolder.Run) (env, packages []fact) {
	add := func(label, format string, args ...any) {
		env = append(env, fact{label, clean(fmt.Sprintf(format, args...))})
	}
	add("run", "%s", r.ID)
	add("patchcheck", "%s", r.Tool)
	if len(r.Command) > 0 {
		var words []string
		for i, w := range r.Command {
			if i == 0 {
				w = "patchcheck"
			}
			words = append(words, quote(w))
		}
		add("command", "%s", strings.Join(words, " "))
	}
	add("series", "%s, version %d, %s, id %s", r.Series.Title, max(1, r.Series.Version), plural(len(r.Series.Patches), "patch", "patches"), short(r.Series.ID))
	if len(r.Series.Sources) > 0 {
		add("read from", "%s", strings.Join(r.Series.Sources, " "))
	}
	tree := r.Tree.Spec + ", version " + r.Tree.Version
	if r.Tree.PackageVersion != "" {
		tree += ", package " + r.Tree.PackageVersion
	}
	if r.Tree.Commit != "" {
		tree += ", commit " + r.Tree.Commit
	}
	if r.Tree.Spec != "" {
		add("tree", "%s", tree)
	}
	if r.Tree.Exact != "" {
		add("base", "%s", map[string]string{"exact": "the exact one: blob ids agree", "not exact": "not the exact one: blob ids differ"}[r.Tree.Exact]+map[bool]string{true: r.Tree.Exact}[r.Tree.Exact != "exact" && r.Tree.Exact != "not exact"])
	}
	for _, c := range r.Companions {
		add("companion", "%s", c.Subject)
	}
	if r.Plan.Name != "" {
		add("plan", "%s: %s (%s)", r.Plan.Name, r.Plan.About, short(r.PlanID))
		add("config", "%s", strings.Join(r.Plan.Kernel.Configs, ", "))
	}
	for _, role := range []string{testplans.RoleBase, testplans.RolePatched} {
		k, ok := r.Kernels[role]
		if !ok {
			continue
		}
		s := fmt.Sprintf("%s, config %s, image %s", k.Release, short(k.Config), short(k.Image))
		if len(k.Absent) > 0 {
			s += ", without " + strings.Join(k.Absent, ", ")
		}
		add(role+" kernel", "%s", s)
	}
	for _, n := range slices.Sorted(maps.Keys(r.Tools)) {
		add(n, "%s", r.Tools[n])
	}
	if r.Host.OS != "" {
		add("host", "%s, %s, %s, %s MiB", r.Host.OS, r.Host.CPU, plural(r.Host.CPUs, "CPU", "CPUs"), plot.Number(float64(r.Host.MemMiB)))
	}
	if r.Accel.Name != "" {
		s := strings.ToUpper(r.Accel.Name)
		if r.Accel.Reason != "" {
			s += " (" + r.Accel.Reason + ")"
		}
		add("accelerator", "%s", s)
	}
	if r.Plan.Guest.CPUs > 0 {
		add("guest", "%s, %v of memory", plural(r.Plan.Guest.CPUs, "CPU", "CPUs"), r.Plan.Guest.Memory)
	}
	if r.Image.Key != "" {
		add("guest image", "%s, %s bytes, %s compressed", short(r.Image.Key), plot.Number(float64(r.Image.Bytes)), plot.Number(float64(r.Image.Compressed)))
	}
	if r.Sandbox != "" {
		add("builds confined by", "%s", r.Sandbox)
	}
	for _, n := range r.Notes {
		add("note", "%s", n)
	}
	for _, x := range r.Resumed {
		add("resumed", "%s by %s, %s taken over%s", x.At.UTC().Format("2006-01-02 15:04 UTC"), x.Tool, plural(x.Reused, "cell", "cells"), strings.Join(append([]string{""}, x.Notes...), "; "))
	}
	for _, n := range slices.Sorted(maps.Keys(r.Image.Packages)) {
		packages = append(packages, fact{clean(n), clean(r.Image.Packages[n])})
	}
	return env, packages
}
