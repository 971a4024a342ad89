// SPDX-License-Identifier: Apache-2.0

// Package treefacts finds out what a kernel tree knows of a series: whether
// and where it applies, what the tree's scripts say, what its history holds.
// It gathers facts and makes the findings that need the tree; the rules that
// only need the facts are in checks/lint and checks/scripts.
//
// Nothing is written to the tree, nothing is compiled and no network is used.
// Everything that can, runs at the same time; what takes too long is given up
// and named in Result.NotRun.
package treefacts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"sync"
	"time"

	"patchcheck/checks"
	"patchcheck/checks/lint"
	"patchcheck/checks/scripts"
	"patchcheck/checks/warnings"
	"patchcheck/internal/cache"
	"patchcheck/internal/kernel"
	"patchcheck/patches"
	"patchcheck/patches/diff"
)

// Options say how much is looked at.
type Options struct {
	Strict bool
	// Cache keeps kernel-doc results; nil leaves kernel-doc out.
	Cache *cache.Cache
	// NoScripts leaves out the tree's scripts.
	NoScripts bool
	NoSandbox bool
	// NoApply leaves out the findings of applying, for a caller that has its
	// own. The series is applied all the same.
	NoApply bool
	// Others are further trees that the series may be meant for.
	Others []*kernel.Tree
	// Previous and Runs are passed on as facts.
	Previous *lint.Previous
	Runs     []string
	// HistoryTime bounds each look into the history; 0 means 3 s.
	HistoryTime time.Duration
	// ScriptTime bounds each script; 0 means a minute, and one more for each
	// megabyte of the series.
	ScriptTime time.Duration
}

// Result is what was found.
type Result struct {
	Facts lint.Facts
	// Findings are those of applying and of generated code. What the scripts
	// say is in Facts.Scripts.
	Findings []checks.Finding
	// Apply is what became of each patch, in the order of Series.Patches.
	Apply *diff.SeriesResult
	// Base and States are the tree before the series and after each patch that
	// applies.
	Base   *diff.Overlay
	States []*diff.Overlay
	// Candidates are the trees that were tried, the best first; nil when there
	// was only one.
	Candidates []diff.Candidate
	// NotRun says what was left out and why.
	NotRun []string
	// Took is what each part cost, by its name.
	Took map[string]time.Duration
}

// gatherer is the state of one Gather.
type gatherer struct {
	t    *kernel.Tree
	s    *patches.Series
	o    Options
	res  *Result
	mu   sync.Mutex // res, from several parts at once
	repo *history   // nil when the tree is no repository

	maintainers     scripts.Maintainers // of the base
	maintainersText []byte
	mailmap         scripts.Mailmap
	mailmapText     []byte
}

// Gather looks at a series in the light of a tree. The error is for a tree
// that cannot be read; a script that breaks is a finding.
func Gather(ctx context.Context, t *kernel.Tree, s *patches.Series, o Options) (*Result, error) {
	if o.HistoryTime == 0 {
		o.HistoryTime = 3 * time.Second
	}
	if o.ScriptTime == 0 {
		o.ScriptTime = time.Minute
		for _, p := range s.Patches {
			// checkpatch.pl reads about a megabyte in half a minute.
			o.ScriptTime += time.Duration(len(p.Diff)) * time.Minute / (1 << 20)
		}
	}
	g := &gatherer{t: t, s: s, o: o, res: &Result{Took: map[string]time.Duration{}}}
	g.res.Facts = lint.Facts{Tree: t.Spec, HistoryCut: true, Previous: o.Previous, Runs: o.Runs}
	if t.Kind == kernel.KindGit && t.Repo != "" {
		h, err := openHistory(ctx, t, o.HistoryTime)
		if err != nil {
			g.notRun("history: %v", err)
		} else {
			g.repo = h
			defer h.close()
			g.res.Facts.HistoryCut = h.cut
		}
	}
	if err := g.readTables(); err != nil {
		return nil, err
	}
	if err := g.timed("apply", func() error { return g.apply() }); err != nil {
		return nil, err
	}
	parts := []struct {
		name string
		run  func(context.Context) error
	}{
		{"history", g.history}, {"applied by", g.appliedBy}, {"other trees", g.candidates}, {"generated code", g.generated},
	}
	if !o.NoScripts {
		if sb := kernel.FindSandbox(ctx); !sb.Enabled && !o.NoSandbox {
			g.notRun("the tree's scripts ran unconfined: %s", sb.Reason)
		}
		parts = append(parts, []struct {
			name string
			run  func(context.Context) error
		}{{"checkpatch", g.checkpatch}, {"get_maintainer", g.recipients}, {"kernel-doc", g.kernelDoc}}...)
	}
	g.documents()
	g.files()
	var wg sync.WaitGroup
	errs := make([]error, len(parts))
	for i, p := range parts {
		wg.Go(func() { errs[i] = g.timed(p.name, func() error { return p.run(ctx) }) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	sortFindings(g.res.Facts.Scripts)
	sortFindings(g.res.Findings)
	slices.Sort(g.res.NotRun)
	return g.res, nil
}

func sortFindings(fs []checks.Finding) {
	slices.SortStableFunc(fs, func(a, b checks.Finding) int {
		switch {
		case a.Where.Patch != b.Where.Patch:
			return a.Where.Patch - b.Where.Patch
		case a.Where.File != b.Where.File && a.Where.File < b.Where.File, a.Where.File == b.Where.File && a.Where.Line < b.Where.Line:
			return -1
		case a.Where.File == b.Where.File && a.Where.Line == b.Where.Line:
			return 0
		}
		return 1
	})
}

func (g *gatherer) timed(name string, run func() error) error {
	start := time.Now()
	err := run()
	g.mu.Lock()
	g.res.Took[name] = time.Since(start)
	g.mu.Unlock()
	return err
}

func (g *gatherer) notRun(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.res.NotRun = append(g.res.NotRun, fmt.Sprintf(format, args...))
}

func (g *gatherer) found(fs ...checks.Finding) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.res.Findings = append(g.res.Findings, fs...)
}

func (g *gatherer) said(fs ...checks.Finding) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.res.Facts.Scripts = append(g.res.Facts.Scripts, fs...)
}

// read returns a file of the tree; nil when there is none.
func (g *gatherer) read(name string) ([]byte, error) {
	b, mode, err := g.t.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, diff.ErrSymlink):
		return nil, nil
	case err != nil:
		return nil, err
	case mode&(fs.ModeDir|fs.ModeSymlink) != 0:
		return nil, nil
	}
	return b, nil
}

func (g *gatherer) readTables() error {
	var err error
	if g.maintainersText, err = g.read("MAINTAINERS"); err != nil {
		return err
	}
	if g.mailmapText, err = g.read(".mailmap"); err != nil {
		return err
	}
	g.maintainers = scripts.ParseMaintainers(g.maintainersText)
	g.mailmap = scripts.ParseMailmap(g.mailmapText)
	return nil
}

// last is the tree after the last patch that applies.
func (g *gatherer) last() *diff.Overlay {
	if n := len(g.res.States); n > 0 {
		return g.res.States[n-1]
	}
	return g.res.Base
}

// files judges what needs no script: the license lines of new files, and what
// MAINTAINERS has to say of files that come and go.
func (g *gatherer) files() {
	table := g.maintainers
	for _, c := range g.last().Changed() {
		if c.Path == "MAINTAINERS" && !c.Deleted {
			table = scripts.ParseMaintainers(c.Content)
		}
	}
	gone := map[string]bool{}
	come := map[string]bool{}
	for _, p := range g.s.Patches {
		for _, f := range p.Files {
			if f.IsNew && f.New != "" && f.NewMode != 0o120000 && f.NewMode != 0o160000 && !f.IsBinary {
				come[f.New] = true
				g.said(scripts.SPDX(p.Index, f.New, added(f), g.licensed)...)
				if len(table) > 0 && len(table.Covering(f.New)) == 0 {
					g.said(scripts.RuleUncovered.New(checks.Where{Patch: p.Index, File: f.New}, "no entry of MAINTAINERS covers the new file %s", f.New))
				}
			}
			if f.IsRename || f.IsDelete {
				if f.Old != "" && !gone[f.Old] {
					gone[f.Old] = true
					for _, s := range table.Naming(f.Old) {
						fd := scripts.RuleStalePath.New(checks.Where{Patch: p.Index, File: f.Old}, "the entry %s still names %s", s.Title, f.Old)
						fd.Evidence = []string{"F:\t" + f.Old}
						g.said(fd)
					}
				}
			}
		}
	}
	g.res.Facts.Subsystems = map[string][]string{}
	for _, n := range lint.TouchedPaths(g.s) {
		for _, s := range table.Covering(n) {
			g.res.Facts.Subsystems[n] = append(g.res.Facts.Subsystems[n], s.Title)
		}
	}
	g.said(scripts.Targets(g.s)...)
}

// added is the content of a new file.
func added(f *diff.File) []byte {
	var b []byte
	for _, h := range f.Hunks {
		for _, l := range h.Lines {
			b = append(append(b, l.Text...), '\n')
		}
	}
	return b
}

// licensed looks a license up in the tree. A tree without LICENSES/ knows all.
func (g *gatherer) licensed(id string) bool {
	if _, mode, err := g.t.ReadFile("LICENSES"); err != nil || !mode.IsDir() {
		return true
	}
	for _, n := range scripts.LicenseFiles(id) {
		if b, err := g.read(n); err == nil && b != nil && scripts.HoldsLicense(b, id) {
			return true
		}
	}
	return false
}

// run calls a script of the tree.
func (g *gatherer) run(ctx context.Context, s kernel.Script) (stdout, stderr []byte, exit int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, g.o.ScriptTime, fmt.Errorf("it took longer than %v", g.o.ScriptTime))
	defer cancel()
	s.NoSandbox = g.o.NoSandbox
	res, err := kernel.RunScript(ctx, s)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return res.Stdout, res.Stderr, res.Exit, err
}

// scriptFiles reads files of the tree for a script; those that the tree has
// not are left out.
func (g *gatherer) scriptFiles(names ...string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, n := range names {
		b, err := g.read(n)
		if err != nil {
			return nil, err
		}
		if b != nil {
			out[n] = b
		}
	}
	return out, nil
}

// maxCheckpatch is the largest patch, in bytes, that checkpatch.pl is given: it
// reads some 30 kB in a second.
const maxCheckpatch = 1 << 20

// checkpatch runs the tree's checkpatch.pl on each patch.
func (g *gatherer) checkpatch(ctx context.Context) error {
	const script = "scripts/checkpatch.pl"
	files, err := g.scriptFiles(script, "scripts/spelling.txt", "scripts/const_structs.checkpatch")
	if err != nil {
		return err
	}
	if files[script] == nil {
		g.notRun("checkpatch: the tree has no %s", script)
		return nil
	}
	if conf, err := g.read(".checkpatch.conf"); err != nil {
		return err
	} else if conf != nil {
		g.notRun("checkpatch: the tree's .checkpatch.conf is not used")
	}
	var ins []*scripts.Input
	for _, p := range g.s.Patches {
		switch {
		case len(p.Diff)+len(p.Message) > maxCheckpatch:
			g.notRun("checkpatch: patch %d has more than %d kB, which would take it minutes", p.Index, maxCheckpatch>>10)
		case len(p.Diff) > 0 || p.Message != "":
			ins = append(ins, scripts.NewInput(p))
		}
	}
	if len(ins) == 0 {
		return nil
	}
	// The script takes a quarter of a second to start, so a long series goes
	// into as many runs as there are processors.
	n := min(len(ins), runtime.NumCPU(), max(1, (len(ins)+3)/4))
	type answer struct {
		findings []checks.Finding
	}
	answers := make([]answer, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var mine []*scripts.Input
			s := kernel.Script{Files: map[string][]byte{}, Argv: append([]string{"perl", script}, scripts.CheckpatchArgs()...)}
			for name, b := range files {
				s.Files[name] = b
			}
			for j := i; j < len(ins); j += n {
				mine = append(mine, ins[j])
				s.Files[ins[j].Name] = ins[j].Text
				s.Argv = append(s.Argv, ins[j].Name)
			}
			stdout, stderr, exit, err := g.run(ctx, s)
			fs, ok := scripts.Checkpatch(mine, stdout, scripts.Options{Strict: g.o.Strict, Known: g.known, Generated: g.isGenerated})
			// It exits with 1 when it complains.
			switch {
			case err != nil && exit != 1:
				answers[i].findings = append(fs, scripts.Broken(script, fmt.Sprintf("broke (%v)", brief(err)), stderr))
			case !ok, err != nil && len(stdout) == 0:
				answers[i].findings = append(fs, scripts.Broken(script, "printed something that is no report of it", append(stderr, stdout...)))
			default:
				answers[i].findings = fs
			}
		})
	}
	wg.Wait()
	told := false
	for _, a := range answers {
		for _, f := range a.findings {
			if f.ID == scripts.RuleInfra.ID {
				if told {
					continue
				}
				told = true
			}
			g.said(f)
		}
	}
	return nil
}

// known tells whether a word stands in a file of the base.
func (g *gatherer) known(file, word string) bool {
	b, err := g.read(file)
	return err == nil && containsWord(b, word)
}

// recipients runs get_maintainer.pl on the whole series.
func (g *gatherer) recipients(ctx context.Context) error {
	if _, known := scripts.Addressed(g.s); !known {
		return nil // nothing to compare with
	}
	const script = "scripts/get_maintainer.pl"
	files, err := g.scriptFiles(script, "MAINTAINERS", ".mailmap", ".get_maintainer.ignore")
	if err != nil {
		return err
	}
	if files[script] == nil || files["MAINTAINERS"] == nil {
		g.notRun("get_maintainer: the tree has no %s or no MAINTAINERS", script)
		return nil
	}
	// The script wants to see that it stands at the top of a kernel tree, and
	// asks which patterns of MAINTAINERS are folders.
	s := kernel.Script{Files: files, Folders: []string{"Documentation", "arch", "include", "drivers", "fs", "init", "ipc", "kernel", "lib"}}
	for _, n := range []string{"COPYING", "CREDITS", "Kbuild", "Makefile", "README"} {
		files[n] = nil
	}
	var text []byte
	for _, p := range g.s.Patches {
		text = append(append(text, p.Diff...), '\n')
		for _, f := range p.Files {
			for _, n := range []string{f.Old, f.New} {
				s.Folders = append(s.Folders, parents(n)...)
			}
		}
	}
	if len(text) == 0 {
		return nil
	}
	files["series.patch"] = text
	s.Argv = append(append([]string{"perl", script}, scripts.MaintainerArgs()...), "series.patch")
	stdout, stderr, exit, err := g.run(ctx, s)
	rs, ok := scripts.ParseMaintainerOutput(stdout)
	switch {
	case err != nil:
		g.said(scripts.Broken(script, fmt.Sprintf("broke (%v)", brief(err)), stderr))
	case !ok || exit != 0 || len(rs) == 0 && len(stderr) > 0:
		g.said(scripts.Broken(script, "printed something that is no list of recipients", append(stderr, stdout...)))
	}
	g.said(scripts.Recipients(g.s, rs, g.mailmap)...)
	return nil
}

// kernelDoc compares the checker's words about the touched files.
func (g *gatherer) kernelDoc(ctx context.Context) error {
	if g.o.Cache == nil || len(g.res.States) == 0 {
		return nil
	}
	var files []string
	for _, p := range g.s.Patches {
		files = append(files, sources(p)...)
	}
	slices.Sort(files)
	if files = slices.Compact(files); len(files) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, g.o.ScriptTime, fmt.Errorf("it took longer than %v", g.o.ScriptTime))
	defer cancel()
	store := &kernel.Store{Cache: g.o.Cache, NoSandbox: g.o.NoSandbox}
	check := func(o *diff.Overlay, files []string) (map[string][]string, error) {
		return store.CheckKernelDoc(ctx, g.t, kernel.FromDiff(o), files)
	}
	var before, after map[string][]string
	var errBefore, errAfter error
	var wg sync.WaitGroup
	if g.t.ID == "" {
		if err := g.t.Identify(ctx); err != nil { // once, as both sides need it
			g.said(scripts.Broken("kernel-doc", fmt.Sprintf("cannot run (%v)", brief(err)), nil))
			return nil
		}
	}
	wg.Go(func() { before, errBefore = check(g.res.Base, files) })
	wg.Go(func() { after, errAfter = check(g.last(), files) })
	wg.Wait()
	if err := cmpErr(errBefore, errAfter); err != nil {
		g.said(scripts.Broken("kernel-doc", fmt.Sprintf("broke (%v)", brief(err)), nil))
		return nil
	}
	whole := scripts.KernelDoc(0, before, after, moved(g.res.Base, g.last()))
	if len(whole) == 0 {
		return nil
	}
	if len(g.res.States) == 1 {
		for i := range whole {
			whole[i].Where.Patch = g.s.Patches[0].Index
		}
		g.said(whole...)
		return nil
	}
	// Which patch is it? Only now is each of them worth a run.
	from := g.res.Base
	for i, to := range g.res.States {
		p := g.s.Patches[i]
		names := sources(p)
		if len(names) > 0 {
			b, err1 := check(from, names)
			a, err2 := check(to, names)
			if err := cmpErr(err1, err2); err != nil {
				g.said(scripts.Broken("kernel-doc", fmt.Sprintf("broke (%v)", brief(err)), nil))
				return nil
			}
			for _, f := range scripts.KernelDoc(p.Index, b, a, moved(from, to)) {
				// What a later patch mends is nothing to send back.
				if slices.ContainsFunc(whole, func(w checks.Finding) bool { return w.Message == f.Message && w.Where.File == f.Where.File }) || g.o.Strict {
					g.said(f)
				}
			}
		}
		from = to
	}
	return nil
}

func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func moved(from, to *diff.Overlay) warnings.LineMapper {
	return warnings.MapEdits(LineChanges(from, to))
}

// LineChanges tells how the lines of each file moved from one state to another.
func LineChanges(from, to *diff.Overlay) []warnings.FileChange {
	seen := map[string]bool{}
	var out []warnings.FileChange
	for _, o := range []*diff.Overlay{from, to} {
		for _, c := range o.Changed() {
			if seen[c.Path] {
				continue
			}
			seen[c.Path] = true
			old, _, err1 := from.ReadFile(c.Path)
			now, _, err2 := to.ReadFile(c.Path)
			if err1 != nil || err2 != nil {
				continue
			}
			if e := warnings.DiffLines(old, now); len(e) > 0 {
				out = append(out, warnings.FileChange{OldPath: c.Path, NewPath: c.Path, Edits: e})
			}
		}
	}
	return out
}
