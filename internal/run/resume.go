// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/cache"
	"patchcheck/internal/config"
	"patchcheck/internal/kernel"
	"patchcheck/internal/runfolder"
	"patchcheck/internal/view"
	"patchcheck/patches"
	"patchcheck/patches/bundled"
	"patchcheck/testplans"
)

// A run that was killed or interrupted goes on from its folder. What was asked
// is read from there (inputs.json, series/input.N, the plan in run.json), so
// that files, branches and configuration that went on meanwhile do not matter.
// Steps are gone through again in order: kernels and images come from the
// cache, lint's findings from steps/lint.json, cells that passed from cells/.
// All but the cells is found by what it depends on, so that a change is
// noticed where it matters.

const inputsName = "inputs.json"

// inputs is what a run was asked, as far as its record does not say it.
type inputs struct {
	Tool    string         `json:"tool"`    // version that began the run
	Answers int            `json:"answers"` // its answerVersion
	Dir     string         `json:"dir"`     // working directory, for names in the plan
	Sources []string       `json:"sources"`
	Kept    []patches.Kept `json:"kept"` // data: series/input.N
	Config  string         `json:"config"`
	Plan    string         `json:"plan"` // its name, for messages

	Tree       string         `json:"tree"`
	Base       string         `json:"base,omitempty"`
	Incomplete bool           `json:"incomplete,omitempty"`
	CacheDir   string         `json:"cache_dir"`
	Accel      string         `json:"accel,omitempty"`
	Fresh      bool           `json:"fresh,omitempty"`
	NoSandbox  bool           `json:"no_sandbox,omitempty"`
	Jobs       int            `json:"jobs,omitempty"`
	BuildOnly  bool           `json:"build_only,omitempty"`
	Variants   bool           `json:"variants,omitempty"`
	Settings   *config.Config `json:"settings,omitempty"` // of .patchcheck.yaml and the user
}

func inputName(n int) string { return fmt.Sprintf("input.%d", n) }

// keepInputs writes what the run was asked. A series that a caller made itself
// cannot be read again, so such a run cannot be resumed.
func (r *runner) keepInputs() error {
	if len(r.kept) == 0 {
		return nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	for i, k := range r.kept {
		if err := r.rec.WriteFile(k.Data, "series", inputName(i)); err != nil {
			return err
		}
	}
	tree := r.o.Tree
	if fi, err := os.Stat(tree); err == nil && fi.IsDir() {
		if tree, err = filepath.Abs(tree); err != nil {
			return err
		}
	}
	return r.rec.WriteJSON(inputs{Tool: r.o.Tool, Answers: answerVersion, Dir: dir, Sources: r.o.Sources, Kept: r.kept, Config: r.cfg.Hash(), Plan: r.o.Plan,
		Tree: tree, Base: r.o.Base, Incomplete: r.o.Incomplete, CacheDir: r.cache.Root(), Accel: r.o.Accel, Fresh: r.o.Fresh, NoSandbox: r.o.NoSandbox,
		Jobs: r.o.Jobs, BuildOnly: r.o.BuildOnly, Variants: r.o.Variants, Settings: r.o.Config}, inputsName)
}

// ResumeError is a run that cannot be gone on with.
type ResumeError struct {
	Run    string
	Reason string
}

func (e *ResumeError) Error() string {
	if e.Run == "" {
		return e.Reason
	}
	return fmt.Sprintf("run %s cannot be resumed: %s", e.Run, e.Reason)
}

// FindUnfinished gives the folder of the newest run below parent that ended
// without a verdict and that nobody works on.
func FindUnfinished(parent string) (string, error) {
	dirs, err := runfolder.List(parent)
	if err != nil {
		return "", err
	}
	working := ""
	for _, d := range dirs {
		r, err := runfolder.Open(d)
		if err != nil || r.Finished() {
			continue // a damaged record is no reason not to find others
		}
		if _, err := os.Stat(r.Path(inputsName)); err != nil {
			continue
		}
		if runfolder.Working(d) {
			working = cmp.Or(working, r.ID)
			continue
		}
		return d, nil
	}
	reason := fmt.Sprintf("there is no unfinished run in %s", parent)
	if working != "" {
		reason += fmt.Sprintf(" but %s, which another process is working on", working)
	}
	return "", &ResumeError{Reason: reason}
}

// Unfinished tells of the newest run below parent that it ended without a
// verdict, or "".
func unfinished(parent string) *runfolder.Run {
	dirs, err := runfolder.List(parent)
	if err != nil || len(dirs) == 0 || runfolder.Working(dirs[0]) {
		return nil
	}
	r, err := runfolder.Open(dirs[0])
	if err != nil || r.Finished() {
		return nil
	}
	if _, err := os.Stat(r.Path(inputsName)); err != nil {
		return nil
	}
	return r
}

// Resume goes on with the run in dir and reaches the verdict that it would have
// reached undisturbed. Of o, only View, Stdin, Tool, RunsDir, Jobs, Agent and
// the test hooks count; the rest is the run's own. Errors are as those of Run.
func Resume(ctx context.Context, o Options, dir string) (*runfolder.Run, error) {
	if o.View == nil {
		o.View = view.New(nil)
	}
	defer o.View.Close()
	rec, err := runfolder.Resume(dir)
	if errors.Is(err, cache.ErrBusy) {
		return nil, &ResumeError{filepath.Base(dir), strings.TrimPrefix(err.Error(), "run "+filepath.Base(dir)+": ")}
	}
	if err != nil {
		return nil, &ResumeError{Reason: err.Error()}
	}
	r := &runner{o: o, rec: rec}
	leave, err := r.enter()
	if err != nil {
		rec.Close()
		return nil, err
	}
	defer leave()
	if err := r.reopen(); err != nil {
		rec.Close()
		return nil, err
	}
	return r.work(ctx)
}

// reopen brings a runner to where prepare leaves one, from the run folder.
func (r *runner) reopen() error {
	rec := r.rec
	refuse := func(format string, args ...any) error { return &ResumeError{rec.ID, fmt.Sprintf(format, args...)} }
	if rec.Finished() && rec.Verdict != checks.Infra {
		return refuse("it is finished, its verdict is %s; start a new run, which takes over kernels and passing cells by itself", rec.Verdict)
	}
	var in inputs
	b, err := os.ReadFile(rec.Path(inputsName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse("it does not hold its inputs (it was begun by an older patchcheck, %s, or by another program); start a new run", rec.Tool)
	case err == nil:
		err = json.Unmarshal(b, &in)
	}
	if err != nil {
		return refuse("its inputs cannot be read: %v; start a new run", err)
	}
	for i := range in.Kept {
		if in.Kept[i].Data, err = os.ReadFile(rec.Path("series", inputName(i))); err != nil {
			return refuse("its series cannot be read: %v; start a new run", err)
		}
	}
	o := &r.o
	o.Sources, o.Plan, o.Tree, o.Base, o.Incomplete = in.Sources, in.Plan, in.Tree, in.Base, in.Incomplete
	o.CacheDir, o.Accel, o.Fresh, o.NoSandbox = in.CacheDir, in.Accel, in.Fresh, in.NoSandbox
	o.Jobs, o.BuildOnly, o.Variants, o.Config, o.Repeat = cmp.Or(o.Jobs, in.Jobs), in.BuildOnly, in.Variants, in.Settings, rec.Repeat
	if rec.Tree.Kind == string(kernel.KindGit) {
		o.Base = rec.Tree.Commit // a branch may have gone on
	}
	r.asked, r.kept = rec.Tree.ID, in.Kept

	rec.Resumed = append(rec.Resumed, runfolder.Resumption{At: time.Now(), Tool: o.Tool})
	r.prior = map[string]*runfolder.Cell{}
	for _, c := range rec.Cells {
		r.prior[c.ID] = c
	}
	rec.Cells, rec.Steps = nil, nil
	rec.Apply, rec.Builds, rec.Findings, rec.Companions = nil, nil, nil, nil
	rec.NotRun, rec.Variants, rec.Kernels = nil, nil, map[string]runfolder.Kernel{}
	rec.Verdict, rec.Reason, rec.Ended = "", "", time.Time{}

	p := rec.Plan
	r.plan = &p
	sources := in.Sources
	if rec.Series.Bundled {
		sources = []string{"-"}
	}
	if r.ser, err = patches.Reload(in.Kept, sources, patches.LoadOptions{}); err != nil {
		return refuse("its series cannot be read again: %v; start a new run", err)
	}
	if rec.Series.Bundled {
		r.ser.Sources = []string{"bundled:" + bundled.Example}
	}
	if id := SeriesID(r.ser); id != rec.Series.ID {
		return refuse("its series reads differently now (%.12s, it was %.12s): the files in %s were changed, or this patchcheck reads it another way; start a new run", id, rec.Series.ID, rec.Path("series"))
	}
	if in.Dir != "" {
		r.absolutePlan(in.Dir)
	}
	if err := r.openStores(); err != nil {
		return err
	}
	switch {
	case in.Tool != o.Tool || in.Answers != answerVersion:
		r.changed(fmt.Sprintf("the run was begun by patchcheck %s and this is %s: lint and cells are done again", in.Tool, o.Tool))
		rec.Tool = o.Tool
	case planID(r.plan) != rec.PlanID:
		r.changed("the plan in the run folder is not the one that the run began with: lint and cells are done again")
	case r.cfg.Hash() != in.Config:
		r.changed("a configuration fragment of the plan was changed since the run began: kernels and cells are made again")
	}
	in.Tool, in.Answers, in.Config = o.Tool, answerVersion, r.cfg.Hash()
	rec.PlanID = planID(r.plan)
	if err := rec.WriteJSON(in, inputsName); err != nil {
		return err
	}
	r.o.View.Print("going on with run %s of %s", rec.ID, rec.Started.Format("2006-01-02 15:04"))
	return r.save()
}

// absolutePlan makes names of files in the plan independent of the working
// directory that this process happens to have.
func (r *runner) absolutePlan(dir string) {
	if here, err := os.Getwd(); err == nil && here == dir {
		return
	}
	abs := func(names []string) []string {
		out := slices.Clone(names)
		for i, n := range out {
			if strings.ContainsRune(n, filepath.Separator) && !filepath.IsAbs(n) {
				out[i] = filepath.Join(dir, n)
			}
		}
		return out
	}
	r.plan.Kernel.Companions = abs(r.plan.Kernel.Companions)
	r.plan.Kernel.Configs = abs(r.plan.Kernel.Configs)
}

// changed says that something the run rests on is another now, and forgets
// what it had found.
func (r *runner) changed(line string) {
	r.o.View.Print("%s", line)
	last := &r.rec.Resumed[len(r.rec.Resumed)-1]
	last.Notes = append(last.Notes, line)
	for id := range r.prior {
		r.rec.DropCell(id)
	}
	r.prior, r.rec.Passes = nil, 0
	os.Remove(r.rec.Path("steps", "lint.json"))
}

// lintStep is what the lint step found.
type lintStep struct {
	ID       string           `json:"id"` // of what it depends on
	Findings []checks.Finding `json:"findings"`
	NotRun   []string         `json:"not_run,omitempty"`
	Variants []string         `json:"variants,omitempty"`
	Detail   string           `json:"detail"`
}

func (r *runner) lintID() string {
	h := sha256.New()
	json.NewEncoder(h).Encode([]any{r.o.Tool, r.rec.Series.ID, r.tree.ID, r.tree.Commit, r.o.Variants, r.o.Config})
	return hex.EncodeToString(h.Sum(nil))
}

// lintOnce runs the lint step, unless the run that is resumed has done so.
func (r *runner) lintOnce(ctx context.Context) error {
	id := r.lintID()
	if len(r.rec.Resumed) > 0 {
		var l lintStep
		if b, err := os.ReadFile(r.rec.Path("steps", "lint.json")); err == nil && json.Unmarshal(b, &l) == nil && l.ID == id {
			s := r.begin("lint")
			r.rec.Findings = append(r.rec.Findings, l.Findings...)
			r.rec.NotRun = append(r.rec.NotRun, l.NotRun...)
			r.rec.Variants = append(r.rec.Variants, l.Variants...)
			s.End(view.Reused, "%s", l.Detail)
			return r.save()
		}
	}
	f, n, v := len(r.rec.Findings), len(r.rec.NotRun), len(r.rec.Variants)
	if err := r.lint(ctx); err != nil {
		return err
	}
	l := lintStep{ID: id, Findings: r.rec.Findings[f:], NotRun: r.rec.NotRun[n:], Variants: r.rec.Variants[v:], Detail: r.step.Detail}
	for _, x := range l.Findings {
		if strings.HasSuffix(x.ID, "infra") {
			return r.save() // a tool that broke is worth another try
		}
	}
	if err := r.rec.WriteJSON(l, "steps", "lint.json"); err != nil {
		return err
	}
	return r.save()
}

// growthCells is how many cells of one guest growth looks at, at least.
const growthCells = 5

// carry says which cells of the run that is resumed need not run again in the
// pass of the matrix that is next: final answers, and the attempts that a guest
// had finished when it was killed. keys gives each cell's key.
//
// The verdict must be the one that an undisturbed run would have reached. What
// is judged over all cells of a guest (growth, comparison with the base at the
// same place in its guest, leaks, the kernel log at its end) is therefore still
// judged over them, or the cells run again:
//   - all cells of a kernel are final: those that passed count, the others run
//     again;
//   - else the first ones that passed, when every cell that is compared with
//     the base is among them, growth can still be seen in one of the two parts,
//     and at least one cell is left for the end of a guest;
//   - none on a debug kernel, whose leaks are looked for when a guest ends.
func carry(p *testplans.Plan, prior map[string]*runfolder.Cell, keys map[string]string, pass int) (final map[string]*runfolder.Cell, kept map[string]*runfolder.Attempt) {
	final, kept = map[string]*runfolder.Cell{}, map[string]*runfolder.Attempt{}
	byRole := map[string][]testplans.Cell{}
	onBase := map[string]bool{}
	for _, c := range p.Cells() {
		if _, ours := keys[c.ID()]; !ours {
			continue // another shard's
		}
		byRole[c.Kernel] = append(byRole[c.Kernel], c)
		if c.Kernel == testplans.RoleBase {
			onBase[place(c)] = true
		}
	}
	passed := func(c testplans.Cell) *runfolder.Cell {
		x := prior[c.ID()]
		if x == nil || x.Key != keys[c.ID()] || x.Pass != pass || x.Verdict != checks.Pass || x.Last().Token == "" {
			return nil
		}
		return x
	}
	for role, cells := range byRole {
		whole := true
		for _, c := range cells {
			x := prior[c.ID()]
			whole = whole && x != nil && x.Final && x.Key == keys[c.ID()] && x.Pass == pass
		}
		if whole {
			for _, c := range cells {
				if x := passed(c); x != nil {
					final[c.ID()] = x
				}
			}
			continue
		}
		if p.Debugged {
			continue
		}
		var first []*runfolder.Attempt
		for _, c := range cells[:len(cells)-1] {
			x := passed(c)
			if x == nil || len(x.Attempts) != 1 {
				break
			}
			first = append(first, x.Last())
		}
		rest := cells[len(first):]
		switch {
		case slices.ContainsFunc(rest, func(c testplans.Cell) bool { return role == testplans.RoleBase || onBase[place(c)] }),
			len(cells) >= growthCells && len(first) < growthCells && len(rest) < growthCells,
			len(growth(p, first)) > 0:
			continue
		}
		for i, a := range first {
			kept[cells[i].ID()] = a
		}
	}
	return final, kept
}

// place is where a cell is compared with the base kernel.
func place(c testplans.Cell) string { return c.Device.Name + "/" + c.NFS }

// afterFailure gives a cell that passes now its verdict when it had failed
// before the run was interrupted.
func afterFailure(old, now *runfolder.Cell) {
	if old == nil || !old.Final || old.Key != now.Key || old.Pass != now.Pass || now.Verdict != checks.Pass {
		return
	}
	switch old.Verdict {
	case checks.Fail, checks.Unstable, checks.BaseFails:
		now.Verdict = checks.Unstable
		now.Reason = "failed before the run was interrupted, passed when it was resumed: " + old.Reason
		now.Attempts = append(slices.Clone(old.Attempts), now.Attempts...)
		now.Findings = append(slices.Clone(old.Findings), now.Findings...)
	}
}

// lastGuest is the highest number of a guest in the run folder, so that the
// consoles of a run that is resumed are not overwritten.
func lastGuest(rec *runfolder.Run) int {
	ents, _ := os.ReadDir(rec.Path("console"))
	last := 0
	for _, e := range ents {
		var n int
		if _, err := fmt.Sscanf(e.Name(), "%d-", &n); err == nil {
			last = max(last, n)
		}
	}
	return last
}
