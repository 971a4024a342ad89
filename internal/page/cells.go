// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/expr-lang/expr"

	"patchcheck/checks"
	"patchcheck/checks/counts"
	"patchcheck/internal/guestproto"
	"patchcheck/internal/plot"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

// cell is one cell's evidence.
type cell struct {
	ID       string // of the cell
	Anchor   string // id in the page
	Kernel   string
	NFS      string
	Device   string
	Label    string // the device's labels: "vendor Intel, limit 216"
	Verdict  verdict
	Raw      checks.Verdict
	Reason   string
	Elapsed  time.Duration
	Numbers  string // the table's sums: "2956 / 2760"
	Reused   string
	Findings []finding
	Attempts []attempt
	Rerun    string
}

type attempt struct {
	Title    string
	Aside    bool // not the one that decides
	Verdict  verdict
	Facts    []fact
	Steps    []step
	Values   []value
	Hasrest  bool
	Holds    []hold
	Hists    []hist
	Invalid  bool
	Console  *console
	Findings []finding
	Commands []command
}

type step struct {
	Name    string
	Elapsed time.Duration
	Width   float64 // of 100
	Text    string
	Bad     bool
}

type value struct{ Name, Counted, Whole string }

// hold is a condition of the plan on one attempt.
type hold struct {
	ID, That, Why string
	State         string // holds, fails, does not apply, cannot be told
	Sign          string
	Class         string
	Seen          string
}

type hist struct {
	Name, Note string
	Head       []string
	Rows       [][]string
}

func cellOf(r *runfolder.Run, c *runfolder.Cell, cmds commands, consoles map[string]string, ids map[string]bool) *cell {
	out := &cell{ID: c.ID, Kernel: c.Spec.Kernel, NFS: c.Spec.NFS, Device: c.Spec.Device.Name, Raw: c.Verdict, Verdict: verdictOf(c.Verdict),
		Reason: clean(c.Reason), Reused: c.Reused, Rerun: rerun(r, c)}
	out.Anchor = anchor("cell", c.ID, ids)
	var labels []string
	for _, k := range slices.Sorted(maps.Keys(c.Spec.Device.Label)) {
		labels = append(labels, k+" "+c.Spec.Device.Label[k])
	}
	// "vendor" before "limit" reads better than the alphabet's order, whatever
	// the labels are called: the longest first letter order has no meaning, so
	// the table's columns give the order where they name labels.
	if cols := r.Plan.Table.Columns; len(cols) > 0 {
		var inOrder []string
		for _, col := range cols {
			if s, ok := c.Spec.Device.Label[col.Value]; ok {
				inOrder = append(inOrder, col.Head+" "+s)
			}
		}
		if len(inOrder) > 0 {
			labels = inOrder
		}
	}
	if c.Spec.Device.Aside != "" {
		labels = append(labels, c.Spec.Device.Aside)
	}
	out.Label = clean(strings.Join(labels, ", "))
	last := c.Last()
	out.Elapsed = last.Elapsed
	var nums []string
	for _, col := range r.Plan.Table.Columns {
		if !col.Sum {
			continue
		}
		if n, ok := last.Values[col.Value]; ok && !last.Invalid {
			nums = append(nums, fmt.Sprint(n))
		} else {
			nums = append(nums, "?")
		}
	}
	if len(last.Values) > 0 || last.Invalid {
		out.Numbers = strings.Join(nums, " / ")
	}
	for _, f := range c.Findings {
		out.Findings = append(out.Findings, findingOf(r, f, nil))
	}
	for i := range c.Attempts {
		out.Attempts = append(out.Attempts, attemptOf(r, c, i, cmds, consoles))
	}
	return out
}

// anchor makes an id of the page that is not taken.
func anchor(kind, name string, ids map[string]bool) string {
	s := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return '-'
	}, name)
	s = kind + "-" + strings.ReplaceAll(s, ".", "-")
	for n := 2; ids[s]; n++ {
		s = fmt.Sprintf("%s-%d", strings.TrimSuffix(s, fmt.Sprintf("-%d", n-1)), n)
	}
	ids[s] = true
	return s
}

func attemptOf(r *runfolder.Run, c *runfolder.Cell, i int, cmds commands, consoles map[string]string) attempt {
	a := &c.Attempts[i]
	role := roleOf(c, a)
	spec := c.Spec
	spec.Kernel = role
	out := attempt{Verdict: verdictOf(a.Verdict), Invalid: a.Invalid, Aside: i+1 < len(c.Attempts)}
	if len(c.Attempts) > 1 {
		out.Title = fmt.Sprintf("Attempt %d of %d", i+1, len(c.Attempts))
		if a.Fresh {
			out.Title += ", alone in a fresh guest"
		}
		if role != c.Spec.Kernel {
			out.Title += ", on the " + role + " kernel"
		}
	}
	add := func(label, text string) {
		if text != "" {
			out.Facts = append(out.Facts, fact{label, clean(text)})
		}
	}
	add("guest", a.Guest)
	add("kernel", strings.TrimSpace(a.Kernel+" "+strings.ToUpper(a.Accel)))
	add("time", fmt.Sprintf("%s, from %s", seconds(a.Elapsed), a.Started.UTC().Format("15:04:05 UTC")))
	add("mounted", a.Mounted)
	if a.Compared.ClientBytes+a.Compared.ServerBytes > 0 {
		add("compared", fmt.Sprintf("%s bytes read back by the client, %s bytes in the exported files, %s", plot.Number(float64(a.Compared.ClientBytes)), plot.Number(float64(a.Compared.ServerBytes)), plural(a.Compared.Files, "file", "files")))
	}
	add("proof", a.Token)
	slowest := time.Duration(1)
	for _, s := range a.Steps {
		slowest = max(slowest, s.Elapsed)
	}
	for _, s := range a.Steps {
		out.Steps = append(out.Steps, step{Name: clean(s.Name), Elapsed: s.Elapsed, Width: 100 * float64(s.Elapsed) / float64(slowest), Text: clean(s.Error), Bad: s.Error != ""})
	}
	if !a.Invalid && len(a.Hists) > 0 {
		absent := r.Kernels[role].Absent
		whole := counts.Values(&r.Plan, spec, counts.Sum(a.Hists, a.Rest), absent)
		for _, v := range r.Plan.Values {
			n, ok := a.Values[v.Name]
			w, ok2 := whole[v.Name]
			if !ok && !ok2 {
				continue
			}
			out.Values = append(out.Values, value{v.Name, number(n, ok), number(w, ok2)})
		}
		for _, h := range r.Plan.Hold {
			if h.On == "" || h.On == role {
				out.Holds = append(out.Holds, holdOf(h, spec, whole))
			}
		}
	}
	for _, n := range slices.Sorted(maps.Keys(a.Hists)) {
		out.Hists = append(out.Hists, histOf(n, a.Hists[n], a.Rest[n]))
	}
	for _, f := range a.Findings {
		if i+1 < len(c.Attempts) || !slices.ContainsFunc(c.Findings, func(x checks.Finding) bool { return x.ID == f.ID && x.Message == f.Message }) {
			out.Findings = append(out.Findings, findingOf(r, f, nil))
		}
	}
	if a.Guest != "" {
		out.Console = consoleOf(r, c, a, consoles)
	}
	out.Commands = cmds.of(a.Guest, role)
	return out
}

// roleOf is the kernel that an attempt ran on: a cell that fails is tried on
// the base kernel too, in a guest that is named for it.
func roleOf(c *runfolder.Cell, a *runfolder.Attempt) string {
	for _, role := range []string{testplans.RolePatched, testplans.RoleBase} {
		if strings.HasSuffix(a.Guest, "-"+role) {
			return role
		}
	}
	return c.Spec.Kernel
}

func number(n int64, ok bool) string {
	if !ok {
		return "not known"
	}
	return plot.Number(float64(n))
}

// holdOf evaluates a condition the way that checks/counts judges it: over the
// whole connection. It only shows; the verdict is the run's.
func holdOf(h testplans.Hold, spec testplans.Cell, values map[string]int64) hold {
	out := hold{ID: h.ID, That: h.That, Why: h.Why}
	if h.When != "" {
		out.That = h.That + ", when " + h.When
	}
	env := map[string]any{"nfs": spec.NFS, "kernel": spec.Kernel}
	dev := map[string]any{"name": spec.Device.Name}
	for k, n := range spec.Device.Facts {
		dev[k] = int(n)
	}
	env["device"] = dev
	for k, n := range values {
		env[k] = int(n)
	}
	eval := func(src string) (bool, bool) {
		prog, err := expr.Compile(src, expr.Env(env), expr.AsBool())
		if err != nil {
			return false, false
		}
		v, err := expr.Run(prog, env)
		b, ok := v.(bool)
		return b, ok && err == nil
	}
	set := func(state, sign, class string) hold {
		out.State, out.Sign, out.Class = state, sign, class
		return out
	}
	var seen []string
	for _, k := range slices.Sorted(maps.Keys(values)) {
		if names(h.That, k) {
			seen = append(seen, fmt.Sprintf("%s is %d", k, values[k]))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(spec.Device.Facts)) {
		if strings.Contains(h.That+h.When, "device."+k) {
			seen = append(seen, fmt.Sprintf("device.%s is %d", k, spec.Device.Facts[k]))
		}
	}
	out.Seen = strings.Join(seen, ", ")
	if h.When != "" {
		applies, ok := eval(h.When)
		if !ok {
			return set("cannot be told", "?", "infra")
		}
		if !applies {
			return set("does not apply", "–", "skip")
		}
	}
	ok, known := eval(h.That)
	switch {
	case !known:
		return set("cannot be told", "?", "infra")
	case ok:
		return set("holds", "✓", "pass")
	}
	return set("fails", "✗", "fail")
}

// names tells whether an expression uses a name as a whole word.
func names(src, name string) bool {
	for _, f := range strings.FieldsFunc(src, func(r rune) bool {
		return !(r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}) {
		if f == name {
			return true
		}
	}
	return false
}

func histOf(name string, h, rest guestproto.Hist) hist {
	out := hist{Name: name}
	keys := map[string]bool{}
	for _, row := range h.Rows {
		for k := range row.Keys {
			keys[k] = true
		}
	}
	cols := slices.Sorted(maps.Keys(keys))
	out.Head = append(slices.Clone(cols), "hits")
	rows := slices.Clone(h.Rows)
	less := func(a, b string) bool {
		if len(a) != len(b) && isNumber(a) && isNumber(b) {
			return len(a) < len(b)
		}
		return a < b
	}
	sort.SliceStable(rows, func(i, j int) bool {
		for _, k := range cols {
			if a, b := rows[i].Keys[k], rows[j].Keys[k]; a != b {
				return less(a, b)
			}
		}
		return false
	})
	for _, row := range rows {
		var line []string
		for _, k := range cols {
			line = append(line, clean(row.Keys[k]))
		}
		out.Rows = append(out.Rows, append(line, fmt.Sprint(row.Hits)))
	}
	out.Note = fmt.Sprintf("%d events, %d dropped, %d missed; %d more until the umount", h.Hits, h.Dropped, h.Missed, rest.Hits)
	return out
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// grid is the matrix: a row per device, a column per kernel and NFS version.
type grid struct {
	Kernels []gridKernel
	Rows    []gridRow
	Legend  string // what the numbers in a cell are
}

type gridKernel struct {
	Name string
	NFS  []string
}

type gridRow struct {
	Device, Label string
	Cells         []*cell // nil: the plan has no such cell
}

func gridOf(r *runfolder.Run, cells []*cell) grid {
	var g grid
	byID := map[string]*cell{}
	for _, c := range cells {
		byID[c.ID] = c
	}
	var heads []string
	for _, col := range r.Plan.Table.Columns {
		if col.Sum {
			heads = append(heads, strings.ToLower(col.Head))
		}
	}
	g.Legend = clean(strings.Join(heads, " / "))
	nfs := slices.Clone(r.Plan.Axes.NFS)
	var devices []testplans.Device
	devices = append(devices, r.Plan.Axes.Device...)
	// Cells that the plan as recorded does not name are shown all the same.
	for _, c := range r.Cells {
		if !slices.Contains(nfs, c.Spec.NFS) {
			nfs = append(nfs, c.Spec.NFS)
		}
		if !slices.ContainsFunc(devices, func(d testplans.Device) bool { return d.Name == c.Spec.Device.Name }) {
			devices = append(devices, c.Spec.Device)
		}
	}
	for _, k := range []string{testplans.RolePatched, testplans.RoleBase} {
		var have []string
		for _, v := range nfs {
			if slices.ContainsFunc(cells, func(c *cell) bool { return c.Kernel == k && c.NFS == v }) {
				have = append(have, v)
			}
		}
		if len(have) > 0 {
			g.Kernels = append(g.Kernels, gridKernel{k, have})
		}
	}
	for _, d := range devices {
		row := gridRow{Device: d.Name}
		any := false
		for _, k := range g.Kernels {
			for _, v := range k.NFS {
				c := byID[testplans.Cell{Kernel: k.Name, Device: d, NFS: v}.ID()]
				row.Cells = append(row.Cells, c)
				if c != nil {
					any = true
					row.Label = c.Label
				}
			}
		}
		if any {
			g.Rows = append(g.Rows, row)
		}
	}
	return g
}
