// SPDX-License-Identifier: Apache-2.0

// Package report owns every rendering of a run. It reads a run folder and
// nothing else, so table, JSON and cover letter can only say the same. Each
// sentence it prints names the cells or builds of the run that it stands on;
// what no cell shows is not said.
package report

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"patchcheck/checks"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

// Line is one statement with what it stands on.
type Line struct {
	Label string   `json:"label"` // build, apply, matrix, contents, ...
	Text  string   `json:"text"`
	Cells []string `json:"cells,omitempty"` // cell ids, or "build/N", "apply/N"
}

// Table is the plan's table over the patched kernel.
type Table struct {
	Head []string   `json:"head"`
	Rows [][]string `json:"rows"`
	// Right marks columns of numbers.
	Right []bool `json:"right"`
}

// Report is what a run says, before it is laid out.
type Report struct {
	RunID   string         `json:"run"`
	Verdict checks.Verdict `json:"verdict"`
	Reason  string         `json:"reason,omitempty"`
	Title   string         `json:"title"`
	Setting string         `json:"setting"` // tree, architecture, accelerator, compiler, date
	Lines   []Line         `json:"lines"`
	Table   Table          `json:"table"`
	Below   []Line         `json:"below,omitempty"` // statements that belong under the table
	Bad     []Group        `json:"bad,omitempty"`
	run     *runfolder.Run
}

// Build derives the report from a run.
func Build(r *runfolder.Run) *Report {
	p := &Report{RunID: r.ID, Verdict: r.Verdict, Reason: r.Reason, Title: r.Series.Title, run: r}
	p.Setting = setting(r)
	p.applyLine()
	p.buildLine()
	p.Bad = groups(r.Cells)
	p.matrixLines()
	p.table()
	p.notRun()
	return p
}

// tree names the base: version, and commit or package.
func tree(r *runfolder.Run) string {
	switch {
	case r.Tree.Commit != "":
		return fmt.Sprintf("linux %s (%s at %s)", r.Tree.Version, r.Tree.Spec, short(r.Tree.Commit))
	case r.Tree.PackageVersion != "":
		return fmt.Sprintf("linux %s (%s %s)", r.Tree.Version, strings.TrimPrefix(r.Tree.Spec, "debian:"), r.Tree.PackageVersion)
	}
	return "linux " + r.Tree.Version
}

func setting(r *runfolder.Run) string {
	parts := []string{tree(r), "x86_64"}
	if r.Accel.Name != "" {
		parts = append(parts, "QEMU "+strings.ToUpper(r.Accel.Name))
	}
	if len(r.Plan.Kernel.Configs) > 0 && len(r.Kernels) > 0 {
		parts = append(parts, "config "+strings.Join(r.Plan.Kernel.Configs, "+"))
	}
	if k, ok := r.Kernels[testplans.RolePatched]; ok && k.Compiler != "" {
		parts = append(parts, compiler(k.Compiler))
	}
	parts = append(parts, r.Started.Format("2 January 2006"))
	return strings.Join(parts, ", ")
}

func compiler(v string) string {
	f := strings.Fields(v)
	if len(f) > 1 {
		return strings.TrimSuffix(f[0], ":") + " " + f[len(f)-1]
	}
	return v
}

func short(id string) string {
	if len(id) > 12 {
		return id[:12]
	}
	return id
}

func (p *Report) add(label, text string, cells ...string) {
	p.Lines = append(p.Lines, Line{label, text, cells})
}

func (p *Report) applyLine() {
	r := p.run
	if len(r.Apply) == 0 {
		return
	}
	n, clean, offs := 0, 0, 0
	var ids []string
	for _, a := range r.Apply {
		ids = append(ids, fmt.Sprintf("apply/%d", a.Patch))
		switch a.Class {
		case "clean":
			n++
			clean++
		case "offset":
			n++
			offs++
		}
	}
	text := fmt.Sprintf("%d of %s", n, plural(len(r.Series.Patches), "patch", "patches"))
	switch {
	case n < len(r.Series.Patches):
		text += "; the rest does not apply"
	case offs > 0:
		text += ", with offsets and no fuzz"
	default:
		text += ", exactly"
	}
	if r.Tree.Exact == "not exact" {
		text += "; the base is not the exact one (blob ids differ)"
	}
	p.add("apply", text, ids...)
}

func (p *Report) buildLine() {
	r := p.run
	var ids []string
	ok, total, objects, nw := 0, 0, 0, 0
	for _, b := range r.Builds {
		if b.Patch == 0 {
			continue
		}
		total++
		ids = append(ids, fmt.Sprintf("build/%d", b.Patch))
		if b.OK {
			ok++
		}
		objects += b.Objects
		nw += b.New
	}
	if total == 0 {
		return
	}
	text := fmt.Sprintf("each of %s with W=1", plural(total, "patch", "patches"))
	if total == 1 {
		text = "the patch with W=1"
	}
	if ok < total {
		text = fmt.Sprintf("%d of %s with W=1", ok, plural(total, "patch", "patches"))
	}
	if nw == 0 {
		text += ", no new warnings"
	} else {
		text += ", " + plural(nw, "new warning", "new warnings")
	}
	if n := len(r.Variants); n > 0 {
		text += fmt.Sprintf("; compiled in %s", plural(n, "other configuration", "other configurations"))
	}
	p.add("build", text, ids...)
}

func (p *Report) matrixLines() {
	r := p.run
	var patched, base, table, aside []*runfolder.Cell
	for _, c := range r.Cells {
		switch {
		case c.Spec.Kernel != testplans.RolePatched:
			base = append(base, c)
			continue
		case c.Spec.Device.Aside != "":
			aside = append(aside, c)
		default:
			table = append(table, c)
		}
		patched = append(patched, c)
	}
	if len(patched) > 0 {
		f := r.Plan.Fabric
		p.add("guest", fmt.Sprintf("NFS client and server in one guest, %s on a %s netdev, export on %s",
			fabricName(f), strings.TrimRight(f.Netdev, "0123456789"), r.Plan.Server.FS), ids(patched)...)
		if len(table) > 0 {
			p.add("matrix", fmt.Sprintf("%s x %s: %s", plural(len(devices(table)), "device", "devices"), versions(table), passed(table)), ids(table)...)
		}
		for _, d := range devices(aside) {
			var of []*runfolder.Cell
			for _, c := range aside {
				if c.Spec.Device.Name == d.Name {
					of = append(of, c)
				}
			}
			p.add("also", fmt.Sprintf("%s, %s: %s", d.Aside, versions(of), passed(of)), ids(of)...)
		}
	}
	if ok := passing(patched); len(ok) > 0 {
		text := workload(r.Plan.Workload)
		if len(ok) == len(patched) {
			text += ": equal when read back by the client and in the exported files"
		} else {
			text += fmt.Sprintf(": equal in %d of %d cells", len(ok), len(patched))
		}
		p.add("contents", text, ids(ok)...)
		if text, of := callbacks(r.Plan.Workload, ok); text != "" {
			p.add("callback", text, ids(of)...)
		}
		clean := 0
		for _, c := range patched {
			if !hasConsole(c) {
				clean++
			}
		}
		if clean == len(patched) {
			p.add("console", "clean at full log level, from power-on to the end", ids(patched)...)
		}
	}
	for _, g := range p.Bad {
		p.add(strings.ToLower(string(g.Verdict)), g.name()+": "+clip(g.Reason, 200), g.Cells...)
	}
	if len(passing(base)) == len(base) && len(base) > 0 {
		var sums []string
		for _, col := range r.Plan.Table.Columns {
			if !col.Sum {
				continue
			}
			var n int64
			for _, c := range base {
				n += c.Last().Values[col.Value]
			}
			sums = append(sums, fmt.Sprintf("%d %s", n, strings.ToLower(col.Head)))
		}
		p.Below = append(p.Below, Line{"base", fmt.Sprintf("base kernel, %s: %s", versions(base), strings.Join(sums, ", ")), ids(base)})
	}
}

func fabricName(f testplans.Fabric) string {
	if f.Proto == "rdma" {
		return f.Module
	}
	return f.Proto
}

func hasConsole(c *runfolder.Cell) bool {
	for _, f := range c.Findings {
		if strings.HasPrefix(f.ID, "console.") {
			return true
		}
	}
	return false
}

func ids(cells []*runfolder.Cell) (out []string) {
	for _, c := range cells {
		out = append(out, c.ID)
	}
	return out
}

func passing(cells []*runfolder.Cell) (out []*runfolder.Cell) {
	for _, c := range cells {
		if c.Verdict == checks.Pass {
			out = append(out, c)
		}
	}
	return out
}

func passed(cells []*runfolder.Cell) string {
	ok := len(passing(cells))
	if ok == len(cells) && ok == 1 {
		return "passes"
	}
	if ok == len(cells) {
		return fmt.Sprintf("%d of %d cells pass", ok, len(cells))
	}
	by := map[checks.Verdict]int{}
	for _, c := range cells {
		by[c.Verdict]++
	}
	var rest []string
	for _, v := range []checks.Verdict{checks.Fail, checks.BaseFails, checks.Unstable, checks.Infra, checks.Skip} {
		if by[v] > 0 {
			rest = append(rest, fmt.Sprintf("%d %s", by[v], v))
		}
	}
	return fmt.Sprintf("%d of %d cells pass (%s)", ok, len(cells), strings.Join(rest, ", "))
}

func devices(cells []*runfolder.Cell) (out []testplans.Device) {
	seen := map[string]bool{}
	for _, c := range cells {
		if !seen[c.Spec.Device.Name] {
			seen[c.Spec.Device.Name] = true
			out = append(out, c.Spec.Device)
		}
	}
	return out
}

func versions(cells []*runfolder.Cell) string {
	var out []string
	seen := map[string]bool{}
	for _, c := range cells {
		if !seen[c.Spec.NFS] {
			seen[c.Spec.NFS] = true
			out = append(out, "NFSv"+c.Spec.NFS)
		}
	}
	sort.Strings(out)
	return strings.Join(out, ", ")
}

func workload(works []testplans.Work) string {
	var parts []string
	for _, w := range works {
		switch {
		case w.File != nil:
			how := ""
			if w.File.Direct {
				how = " O_DIRECT"
			}
			var reads []string
			for _, n := range w.File.Read {
				reads = append(reads, n.String())
			}
			if w.File.Parallel > 1 {
				how += fmt.Sprintf(" (%d in flight)", w.File.Parallel)
			}
			if len(reads) == 1 && w.File.Read[0] == w.File.Write {
				parts = append(parts, fmt.Sprintf("%v of %v%s writes and reads", w.File.Size, w.File.Write, how))
			} else {
				parts = append(parts, fmt.Sprintf("%v read%s in calls of %s", w.File.Size, how, strings.Join(reads, " and ")))
			}
		case w.Files != nil:
			parts = append(parts, fmt.Sprintf("%d small files", w.Files.Count))
		}
	}
	return strings.Join(parts, ", ")
}

// callbacks says what cells of NFSv4 showed of the server's own Calls, "" when
// none did.
func callbacks(works []testplans.Work, passed []*runfolder.Cell) (string, []*runfolder.Cell) {
	if !slices.ContainsFunc(works, func(w testplans.Work) bool { return w.Recall != nil }) {
		return "", nil
	}
	var of []*runfolder.Cell
	for _, c := range passed {
		if c.Spec.V4() {
			of = append(of, c)
		}
	}
	if len(of) == 0 {
		return "", nil
	}
	return versions(of) + " delegations recalled", of
}

func (p *Report) table() {
	r := p.run
	cols := r.Plan.Table.Columns
	if len(cols) == 0 {
		return
	}
	byDevice := map[string][]*runfolder.Cell{}
	for _, c := range r.Cells {
		if c.Spec.Kernel == testplans.RolePatched && len(c.Last().Values) > 0 {
			byDevice[c.Spec.Device.Name] = append(byDevice[c.Spec.Device.Name], c)
		}
	}
	if len(byDevice) == 0 {
		return
	}
	for _, c := range cols {
		p.Table.Head = append(p.Table.Head, c.Head)
		p.Table.Right = append(p.Table.Right, c.Sum)
	}
	for _, d := range r.Plan.Axes.Device {
		cells := byDevice[d.Name]
		if len(cells) == 0 || d.Aside != "" {
			continue
		}
		var row []string
		for _, col := range cols {
			if l, ok := d.Label[col.Value]; ok {
				row = append(row, l)
				continue
			}
			row = append(row, cellValue(col, cells))
		}
		p.Table.Rows = append(p.Table.Rows, row)
	}
}

func cellValue(col testplans.Column, cells []*runfolder.Cell) string {
	var sum int64
	var each []string
	for _, c := range cells {
		n, ok := c.Last().Values[col.Value]
		if !ok {
			return "?"
		}
		sum += n
		if s := fmt.Sprint(n); len(each) == 0 || each[len(each)-1] != s {
			each = append(each, s)
		}
	}
	s := strings.Join(each, "/")
	if col.Sum {
		s = fmt.Sprint(sum)
	}
	if col.Unit != "" {
		s += " " + col.Unit
	}
	return s
}

func (p *Report) notRun() {
	if out := NotRun(p.run); len(out) > 0 {
		p.Below = append(p.Below, Line{Label: "not run", Text: strings.Join(out, "; ")})
	}
}

// NotRun lists what a run did not do and what its plan cannot test.
func NotRun(r *runfolder.Run) []string {
	var out []string
	if len(r.Cells) == 0 && len(r.Builds) > 0 {
		what := "boot and workload"
		if r.Verdict == checks.Pass {
			what += " (build only)"
		}
		out = append(out, what)
	}
	out = append(out, r.NotRun...)
	return append(out, r.Plan.NotTested...)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Group is a set of cells that failed in the same way.
type Group struct {
	Verdict checks.Verdict `json:"verdict"`
	Reason  string         `json:"reason"` // of the first
	Cells   []string       `json:"cells"`
	first   *runfolder.Cell
}

// name lists the cells, or the first and how many more.
func (g Group) name() string {
	if len(g.Cells) <= 2 {
		return strings.Join(g.Cells, ", ")
	}
	return fmt.Sprintf("%s and %d more cells", g.Cells[0], len(g.Cells)-1)
}

// groups collects the cells that did not pass by what was found in them, so
// that one fault is told once and not for every cell.
func groups(cells []*runfolder.Cell) []Group {
	var out []Group
	at := map[string]int{}
	for _, c := range cells {
		if c.Verdict == checks.Pass {
			continue
		}
		key := string(c.Verdict) + c.Spec.Kernel
		if c.Quarantine != nil {
			key += " in quarantine"
		}
		var ids []string
		for _, f := range c.Findings {
			id := f.ID
			if head, _, ok := strings.Cut(f.Message, ":"); ok && strings.HasPrefix(id, "count.") {
				id += " " + head
			}
			ids = append(ids, id)
		}
		sort.Strings(ids)
		key += strings.Join(slices.Compact(ids), ",")
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, Group{Verdict: c.Verdict, Reason: c.Reason, first: c})
			if q := c.Quarantine; q != nil {
				out[i].Reason = fmt.Sprintf("in quarantine until %s (%s), does not gate: %s", q.Expires, q.Owner, c.Reason)
			}
		}
		out[i].Cells = append(out[i].Cells, c.ID)
	}
	return out
}

// clip shortens text for a line of a letter; the whole stands in the run
// folder.
func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-3]) + "..."
	}
	return s
}

// Paragraph is the run in sentences, for the end of a run on the terminal and
// for those who prefer prose in a letter. A sentence is there only when builds
// or cells of the run show what it says.
func (p *Report) Paragraph() string {
	r := p.run
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	many := len(r.Series.Patches) != 1
	subject := map[bool]string{true: "The series", false: "The patch"}[many]
	if n := len(r.Apply); n > 0 {
		how, failed := "exactly", 0
		for _, a := range r.Apply {
			switch a.Class {
			case "clean":
			case "offset":
				how = "with offsets and no fuzz"
			default:
				if failed == 0 {
					failed = a.Patch
				}
			}
		}
		switch {
		case failed > 0 && many:
			say("Patch %d of %d does not apply to %s.", failed, len(r.Series.Patches), tree(r))
		case failed > 0:
			say("The patch does not apply to %s.", tree(r))
		case n == len(r.Series.Patches):
			say("%s applies to %s %s.", subject, tree(r), how)
		}
	}
	ok, total, fresh := 0, 0, 0
	for _, b := range r.Builds {
		if b.Patch > 0 {
			total++
			fresh += b.New
			if b.OK {
				ok++
			}
		}
	}
	if total > 0 {
		what := "It builds"
		switch {
		case many && ok == total:
			what = fmt.Sprintf("Each of the %d patches builds", total)
		case ok < total:
			what = fmt.Sprintf("%d of %d patches build", ok, total)
		}
		with := "without new warnings"
		if fresh > 0 {
			with = "with " + plural(fresh, "new warning", "new warnings")
		}
		say("%s with W=1 %s (%s, config %s).", what, with, compiler(r.Kernels[testplans.RolePatched].Compiler), strings.Join(r.Plan.Kernel.Configs, " and "))
	}
	var patched, base []*runfolder.Cell
	for _, c := range r.Cells {
		if c.Spec.Kernel == testplans.RolePatched {
			patched = append(patched, c)
		} else {
			base = append(base, c)
		}
	}
	if len(patched) == 0 {
		for _, l := range p.Below {
			if l.Label == "not run" && len(out) > 0 {
				say("Not run: %s.", l.Text)
			}
		}
		return strings.Join(out, " ")
	}
	f := r.Plan.Fabric
	say("On %s, a QEMU guest (%s) ran both the NFS client and the server, over %s on a %s netdev, with %s: %s.",
		r.Started.Format("2 January 2006"), strings.ToUpper(r.Accel.Name), fabricName(f), strings.TrimRight(f.Netdev, "0123456789"), strings.ReplaceAll(versions(patched), ", ", " and "), passed(patched))
	if eq := passing(patched); len(eq) == len(patched) {
		say("What was written (%s) was equal when the client read it back and in the exported files.", workload(r.Plan.Workload))
		if text, _ := callbacks(r.Plan.Workload, eq); text != "" {
			say("The server called the client back (%s).", text)
		}
	} else if len(eq) > 0 {
		say("What was written was equal on both sides in %d of %d cells.", len(eq), len(patched))
	}
	if len(p.Bad) == 0 {
		say("The console stayed clean.")
	}
	for _, l := range p.Below {
		if l.Label == "base" {
			say("On the %s.", strings.Replace(strings.ReplaceAll(l.Text, "base kernel, ", "base kernel, with "), ", NFSv", " and NFSv", 1))
		}
	}
	for _, l := range p.Below {
		if l.Label == "not run" {
			say("Not run: %s.", l.Text)
		}
	}
	return strings.Join(out, " ")
}
