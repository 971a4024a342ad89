// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/runfolder"
	"patchcheck/patches"
	"patchcheck/testplans"
)

// ruleShard tells what is wrong with the answers of shards. Like every finding
// whose id ends in "infra" it says nothing about the series.
var ruleShard = checks.Rule{ID: "shard.infra", Severity: checks.Error,
	Title:  "an answer of a shard is missing or contradicts another",
	Source: "patchcheck merge",
	Fix:    "run the shard again and merge once more"}

// Merge makes one run of the shards in the folders dirs, below parent. It has
// the verdict, the table and the report that the whole run would have had.
// Cells that no shard answered for are INFRA, never left out. Notes tell what
// was odd. Shards that do not belong together are refused.
func Merge(dirs []string, parent, tool string, command []string, now time.Time) (*runfolder.Run, []string, error) {
	runs, notes, err := openShards(dirs)
	if err != nil {
		return nil, nil, err
	}
	if err := together(runs); err != nil {
		return nil, nil, err
	}
	first := leader(runs)
	rec, err := runfolder.Create(parent, now, first.Series.Title)
	if err != nil {
		return nil, nil, err
	}
	defer rec.Close()
	keep := first
	rec.Tool, rec.Command = keep.Tool, command
	rec.Series, rec.Tree, rec.Companions, rec.Plan, rec.PlanID = keep.Series, keep.Tree, keep.Companions, keep.Plan, keep.PlanID
	rec.Host, rec.Tools, rec.Accel, rec.Kernels, rec.Image, rec.Sandbox = keep.Host, keep.Tools, keep.Accel, keep.Kernels, keep.Image, keep.Sandbox
	rec.Apply, rec.Builds, rec.Repeat, rec.Variants = keep.Apply, keep.Builds, keep.Repeat, keep.Variants
	if tool != keep.Tool {
		notes = append(notes, fmt.Sprintf("the shards are by patchcheck %s, and this is %s", keep.Tool, tool))
	}

	rec.Started, rec.Ended = first.Started, first.Ended
	for _, r := range runs {
		if r.Started.Before(rec.Started) {
			rec.Started = r.Started
		}
		if r.Ended.After(rec.Ended) {
			rec.Ended = r.Ended
		}
		for _, n := range r.NotRun {
			if !slices.Contains(rec.NotRun, n) {
				rec.NotRun = append(rec.NotRun, n)
			}
		}
		for _, n := range r.Notes {
			rec.Notes = append(rec.Notes, r.ID+": "+n)
		}
	}
	rec.Findings = union(runs)
	m := merger{rec: rec, runs: runs, notes: notes}
	if err := m.cells(); err != nil {
		os.RemoveAll(rec.Dir())
		return nil, nil, err
	}
	if err := m.files(); err != nil {
		os.RemoveAll(rec.Dir())
		return nil, nil, err
	}
	m.verdict()
	rec.Steps = slices.Clone(first.Steps)
	rec.Steps = append(rec.Steps, runfolder.Step{Name: "merge", Started: now, Status: "ok", Detail: fmt.Sprintf("%s, %d of %d cells answered", plural(len(runs), "run", "runs"), m.answered, len(rec.Cells))})
	rec.Notes = append(rec.Notes, m.notes...)
	return rec, m.notes, rec.Save()
}

// openShards reads the runs; one that is named twice counts once.
func openShards(dirs []string) (runs []*runfolder.Run, notes []string, err error) {
	seen := map[string]string{}
	for _, d := range dirs {
		found, err := FindRuns(d)
		if err != nil {
			return nil, nil, err
		}
		for _, f := range found {
			r, err := runfolder.Open(f)
			if err != nil {
				return nil, nil, &patches.InputError{Source: f, Reason: "is damaged", Err: err}
			}
			if r.Shards != nil {
				return nil, nil, input(f, "is a merged run already: name the runs of the shards")
			}
			key := r.ID + " " + r.Started.String()
			if other, ok := seen[key]; ok {
				notes = append(notes, fmt.Sprintf("%s is the same run as %s and counts once", f, other))
				continue
			}
			seen[key] = f
			runs = append(runs, r)
		}
	}
	slices.SortStableFunc(runs, func(a, b *runfolder.Run) int {
		return cmp.Or(cmp.Compare(shardIndex(a), shardIndex(b)), a.Started.Compare(b.Started))
	})
	return runs, notes, nil
}

func shardIndex(r *runfolder.Run) int {
	if r.Shard == nil {
		return 0
	}
	return r.Shard.Index
}

func shardName(r *runfolder.Run) string {
	if r.Shard == nil {
		return "run " + r.ID
	}
	return fmt.Sprintf("shard %d of %d", r.Shard.Index, r.Shard.Of)
}

// leader is the run that got furthest, for what all have in common.
func leader(runs []*runfolder.Run) *runfolder.Run {
	far := func(r *runfolder.Run) int {
		return 100*min(len(r.Kernels), 2) + 10*min(1, len(r.Cells)) + min(1, len(r.Builds)) + min(1, len(r.Apply))
	}
	best := runs[0]
	for _, r := range runs[1:] {
		if far(r) > far(best) {
			best = r
		}
	}
	return best
}

// together refuses runs that were not parts of one: their answers would be
// about different things.
func together(runs []*runfolder.Run) error {
	type fact struct{ what, value string }
	facts := func(r *runfolder.Run) []fact {
		fs := []fact{
			{"series", r.Series.ID}, {"tree", r.Tree.ID}, {"plan", r.PlanID}, {"version of patchcheck", r.Tool},
			{"number of passes (--repeat)", fmt.Sprint(max(1, r.Repeat))}, {"accelerator", r.Accel.Name}, {"guest image", r.Image.Key},
		}
		for _, role := range []string{testplans.RoleBase, testplans.RolePatched} {
			fs = append(fs, fact{role + " kernel (compiler, configuration)", r.Kernels[role].Key})
		}
		if r.Shard != nil {
			fs = append(fs, fact{"number of shards", fmt.Sprint(r.Shard.Of)})
		}
		return fs
	}
	seen := map[string]string{}
	by := map[string]*runfolder.Run{}
	var bad []string
	for _, r := range runs {
		for _, f := range facts(r) {
			if f.value == "" {
				continue // the run ended before it came to that
			}
			if v, ok := seen[f.what]; ok && v != f.value {
				bad = append(bad, fmt.Sprintf("the %s: %.16s in %s, %.16s in %s", f.what, v, by[f.what].Dir(), f.value, r.Dir()))
				continue
			}
			seen[f.what], by[f.what] = f.value, r
		}
	}
	if len(bad) > 0 {
		return &patches.InputError{Source: "merge", Reason: "the runs are not parts of one, they differ in\n  " + strings.Join(bad, "\n  "),
			Hint: "give shards of one `patchcheck matrix`, on machines with the same compiler and accelerator"}
	}
	return nil
}

// union gives the findings of all runs that are not about a cell, each once.
func union(runs []*runfolder.Run) []checks.Finding {
	seen := map[string]bool{}
	var out []checks.Finding
	for _, r := range runs {
		for _, f := range r.Findings {
			b, _ := json.Marshal(f)
			if !seen[string(b)] {
				seen[string(b)] = true
				out = append(out, f)
			}
		}
	}
	return out
}

type merger struct {
	rec      *runfolder.Run
	runs     []*runfolder.Run
	notes    []string
	answered int
	used     map[*runfolder.Run][]string // cells taken from a run
	missing  []string
}

// usable says why a cell's answer in r is none.
func usable(r *runfolder.Run, c *runfolder.Cell) string {
	switch {
	case c.Verdict == "":
		return "was not finished"
	case c.Final || c.Verdict != checks.Pass:
		return ""
	case !r.Finished():
		return "was not compared with base when the run ended"
	}
	for _, b := range r.Cells {
		if b.Spec.Kernel == testplans.RoleBase && place(b.Spec) == place(c.Spec) && b.Verdict != checks.Pass {
			return "" // there was nothing to compare it with, and that is on record
		}
	}
	if r.Verdict == checks.Infra {
		return "was not compared with base when the run ended"
	}
	return ""
}

// cells takes each cell's answer from its shard.
func (m *merger) cells() error {
	m.used = map[*runfolder.Run][]string{}
	type answer struct {
		r *runfolder.Run
		c *runfolder.Cell
	}
	all := map[string][]answer{}
	why := map[string]string{}
	ran := 0
	for _, r := range m.runs {
		ran += len(r.Cells)
		for _, c := range r.Cells {
			if u := usable(r, c); u != "" {
				why[c.ID] = fmt.Sprintf("%s: it %s", shardName(r), u)
				continue
			}
			all[c.ID] = append(all[c.ID], answer{r, c})
		}
		if r.Shard == nil {
			continue
		}
		for _, id := range r.Shard.Cells {
			if !slices.ContainsFunc(r.Cells, func(c *runfolder.Cell) bool { return c.ID == id }) && why[id] == "" {
				why[id] = fmt.Sprintf("%s ended before it (%s)", shardName(r), cmp.Or(clipReason(r.Reason), "no verdict"))
			}
		}
	}
	if ran == 0 && slices.ContainsFunc(m.runs, func(r *runfolder.Run) bool { return r.Verdict == checks.Fail }) {
		return nil // it does not apply or build: nobody came to the cells
	}
	specs := map[string]testplans.Cell{}
	var order []string
	base := map[string]string{}
	for _, c := range m.rec.Plan.Cells() {
		specs[c.ID()] = c
		order = append(order, c.ID())
		if c.Kernel == testplans.RoleBase {
			base[place(c)] = c.ID()
		}
	}
	for id := range all {
		if _, ok := specs[id]; !ok {
			return input("merge", "the cell %s of %s is none of the plan's", id, all[id][0].r.Dir())
		}
	}
	for _, id := range order {
		as := all[id]
		if len(as) == 0 {
			m.missing = append(m.missing, id)
			reason := cmp.Or(why[id], "no shard answered for it")
			f := ruleShard.New(checks.Where{Cell: id}, "no answer: %s", reason)
			if err := m.save(&runfolder.Cell{ID: id, Spec: specs[id], Verdict: checks.Infra, Reason: "no answer: " + reason, Findings: []checks.Finding{f}}); err != nil {
				return err
			}
			continue
		}
		best := as[0]
		for _, a := range as[1:] {
			next := best
			var odd string
			switch {
			case best.c.Verdict == a.c.Verdict:
				odd = "the first counts"
			case best.c.Verdict == checks.Infra:
				next, odd = a, "the one that is no failure of the infrastructure counts"
			case a.c.Verdict == checks.Infra:
				odd = "the one that is no failure of the infrastructure counts"
			default:
				// They contradict each other, as repetitions in one run can.
				u := *best.c
				u.Verdict = checks.Unstable
				u.Reason = fmt.Sprintf("%s in %s, %s in %s", best.c.Verdict, shardName(best.r), a.c.Verdict, shardName(a.r))
				u.Findings = append(slices.Clone(best.c.Findings), a.c.Findings...)
				next, odd = answer{best.r, &u}, "they contradict each other"
			}
			m.notes = append(m.notes, fmt.Sprintf("%s was answered twice, %s in %s and %s in %s: %s", id, best.c.Verdict, best.r.ID, a.c.Verdict, a.r.ID, odd))
			best = next
		}
		c := *best.c
		// The shard's base cell is the one that it was compared with.
		if b := base[place(c.Spec)]; c.Verdict == checks.Pass && b != "" && b != id &&
			!slices.ContainsFunc(best.r.Cells, func(x *runfolder.Cell) bool { return x.ID == b }) {
			f := ruleShard.New(checks.Where{Cell: id}, "it was not compared with %s, which its run does not have", b)
			c.Verdict, c.Reason, c.Findings = checks.Infra, f.Message, append(slices.Clone(c.Findings), f)
		}
		c.Attempts = slices.Clone(c.Attempts)
		for i := range c.Attempts {
			if c.Reused == "" && c.Attempts[i].Guest != "" {
				c.Attempts[i].Guest = m.guest(best.r, c.Attempts[i].Guest)
			}
		}
		m.used[best.r] = append(m.used[best.r], id)
		m.answered++
		if err := m.save(&c); err != nil {
			return err
		}
	}
	if n := len(m.missing); n > 0 {
		m.notes = append(m.notes, fmt.Sprintf("no answer for %s: %s", plural(n, "cell", "cells"), strings.Join(m.missing, ", ")))
	}
	m.growthNote()
	return nil
}

func (m *merger) save(c *runfolder.Cell) error { return m.rec.SaveCell(c) }

func clipReason(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "..."
	}
	return s
}

// guest names a guest of a shard in the merged run.
func (m *merger) guest(r *runfolder.Run, name string) string {
	return fmt.Sprintf("s%03d-%s", slices.Index(m.runs, r)+1, name)
}

// growthNote says that a check over the cells of one guest was not made,
// because no shard had enough of them.
func (m *merger) growthNote() {
	if m.rec.Plan.Memory.Growth == 0 {
		return
	}
	most, whole := 0, 0
	count := func(cells []testplans.Cell) int {
		n := 0
		for _, c := range cells {
			if c.Kernel == testplans.RolePatched {
				n++
			}
		}
		return n
	}
	whole = count(m.rec.Plan.Cells())
	for _, r := range m.runs {
		var cs []testplans.Cell
		for _, c := range r.Cells {
			cs = append(cs, c.Spec)
		}
		most = max(most, count(cs))
	}
	if whole >= growthCells && most < growthCells {
		m.rec.NotRun = append(m.rec.NotRun, fmt.Sprintf("growth of memory over successive cells of one guest (it takes %d cells in a shard)", growthCells))
	}
}

// verdict sums up. What a shard came to by itself counts, too, unless it is a
// failure of the infrastructure whose cells another run answered for.
func (m *merger) verdict() {
	r := &runner{rec: m.rec}
	if ran := len(m.rec.Cells) > 0; ran {
		r.verdict()
	} else {
		m.rec.Verdict = checks.Pass
	}
	var why []string
	if m.rec.Reason != "" {
		why = append(why, m.rec.Reason)
	}
	for _, s := range m.runs {
		entry := runfolder.ShardRun{Run: s.ID, Verdict: s.Verdict, Reason: s.Reason, Host: s.Host, Cells: m.used[s]}
		if s.Shard != nil {
			entry.Shard = fmt.Sprintf("%d of %d", s.Shard.Index, s.Shard.Of)
		}
		m.rec.Shards = append(m.rec.Shards, entry)
		v := cmp.Or(s.Verdict, checks.Infra)
		if replaced := v == checks.Infra && len(m.used[s]) == 0 && s.Shard != nil && len(s.Shard.Cells) > 0 && !m.lacks(s.Shard.Cells); replaced {
			continue
		}
		if w := worst(m.rec.Verdict, v); w != m.rec.Verdict {
			m.rec.Verdict = w
			switch reason := clipReason(s.Reason); {
			case len(m.rec.Cells) == 0:
				why = append(why, reason)
			case reason != "":
				why = append(why, shardName(s)+": "+reason)
			default:
				why = append(why, shardName(s)+" did not finish")
			}
		}
	}
	m.rec.Reason = strings.Join(why, ", ")
}

// lacks reports whether one of the cells has no answer.
func (m *merger) lacks(ids []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(m.missing, id) })
}

// files copies the patches, the consoles, the logs and the commands.
func (m *merger) files() error {
	first := leader(m.runs)
	for _, dir := range []string{"series", "logs"} {
		if err := copyFiles(first.Path(dir), m.rec.Path(dir)); err != nil {
			return err
		}
	}
	for i, r := range m.runs {
		ents, err := os.ReadDir(r.Path("console"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range ents {
			if e.IsDir() {
				if err := copyFiles(r.Path("console", e.Name()), m.rec.Path("console", m.guest(r, e.Name()))); err != nil {
					return err
				}
			}
		}
		b, err := os.ReadFile(r.Path("commands.sh"))
		if err != nil {
			continue
		}
		if err := m.rec.Note(fmt.Sprintf("# %s (%s), on its own machine; guests are s%03d-NAME here\n%s", shardName(r), r.ID, i+1, strings.TrimRight(string(b), "\n"))); err != nil {
			return err
		}
	}
	return nil
}

// copyFiles copies the regular files below from. Sockets and links are left
// out: a run folder that came from elsewhere is not trusted to name files
// outside of itself.
func copyFiles(from, to string) error {
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	root, err := os.OpenRoot(from)
	if err != nil {
		return fmt.Errorf("cannot read the shard: %w", err)
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		in, err := root.Open(name)
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := os.Create(filepath.Join(to, name))
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		return errors.Join(err, out.Close())
	})
}
