// SPDX-License-Identifier: Apache-2.0

// Package run owns the job from a series to a verdict: the order of steps,
// the run folder, cells, repetition and attribution. What each step does is
// the business of the packages it calls.
package run

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/cache"
	"patchcheck/internal/config"
	"patchcheck/internal/host"
	"patchcheck/internal/kernel"
	"patchcheck/internal/proc"
	"patchcheck/internal/quarantine"
	"patchcheck/internal/runfolder"
	"patchcheck/internal/view"
	kernelconfigs "patchcheck/kernel-configs"
	"patchcheck/patches"
	"patchcheck/patches/bundled"
	"patchcheck/patches/diff"
	"patchcheck/testplans"
	"patchcheck/vm"
	"patchcheck/vm/image"
)

// Options say what to run.
type Options struct {
	Sources    []string  // of the series; empty: the bundled example
	Stdin      io.Reader // for the source "-"
	Repo       string    // repository of git ranges
	Incomplete bool      // try a series that lacks parts

	Tree string // tree spec; "" means kernel.DefaultTree
	Base string // --base REV

	Plan   string // path or name
	Debug  bool   // apply the plan's debug section
	Device []string
	NFS    []string

	CacheDir  string
	RunsDir   string
	Accel     string // auto, kvm, tcg
	Fresh     bool   // run cells again although their answers are known
	NoSandbox bool
	Jobs      int
	Repeat    int // passes of each cell; 0 and 1 mean one
	BuildOnly bool
	Variants  bool           // also compile in the configurations that fit the touched paths
	Config    *config.Config // silences and grades findings; may be nil

	View    *view.View
	Tool    string // version
	Command []string
	Agent   string // path of patchcheck-guest; "" finds it

	// Hook, for tests of the oracles, runs before each step of a cell.
	Hook func(ctx context.Context, g *vm.Guest, cell, step string) error
	// Series, for callers that have it already.
	Series *patches.Series
	// PlanText is the plan itself when it is no file here; Plan is then its name
	// in messages. Kept are the sources as they were read elsewhere, and Sources
	// their names.
	PlanText []byte
	Kept     []patches.Kept
	// Shard restricts the run to some of the plan's cells.
	Shard *runfolder.Shard

	// Alone tests the tree itself, without a series, and judges it like the kernel
	// of this role: testplans.RolePatched or RoleBase. "" for a run of a series.
	Alone string
	// Target names what is tested in the history; empty: names follow from the rest.
	Target runfolder.Target
	// Quarantine lists cells that do not decide the verdict; may be nil.
	Quarantine *quarantine.List

	// hurry, for tests that wait for hangs, multiplies every deadline of the
	// guest; 0 means 1.
	hurry float64
}

// runner holds the state of one run.
type runner struct {
	o     Options
	cache *cache.Cache
	rec   *runfolder.Run
	plan  *testplans.Plan
	ser   *patches.Series
	tree  *kernel.Tree
	cfg   kernel.Config
	store *kernel.Store
	step  *view.Step

	base     *diff.Overlay   // tree + companions
	overlays []*diff.Overlay // after patch 1..n

	images chan imageResult

	kept  []patches.Kept             // what the series was read from
	asked string                     // what the run folder said of the tree when it was resumed; "" else
	prior map[string]*runfolder.Cell // cells of the run that is resumed, by id
	ended int                        // steps of the view that belong to earlier runs
	noted struct {                   // for the record, not yet in it
		sync.Mutex
		lines []string
	}
}

type imageResult struct {
	img     image.Image
	err     error
	elapsed time.Duration
}

// stop ends the run early with a verdict; it is no failure of Run.
type stop struct {
	verdict checks.Verdict
	reason  string
}

func (e *stop) Error() string { return e.reason }

// Run does the whole job. The error is for input that cannot be used and for
// interruption; every other outcome is a verdict in the run folder. An
// interrupted run comes with its record: Resume goes on with it.
func Run(ctx context.Context, o Options) (*runfolder.Run, error) {
	if o.View == nil {
		o.View = view.New(nil)
	}
	defer o.View.Close()
	r := &runner{o: o}
	leave, err := r.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := r.prepare(ctx); err != nil {
		if r.rec != nil {
			r.rec.Close()
			os.RemoveAll(r.rec.Dir())
		}
		return nil, err
	}
	return r.work(ctx)
}

// work runs the steps of a prepared run and records how they end.
func (r *runner) work(ctx context.Context) (*runfolder.Run, error) {
	defer r.rec.Close()
	// Only the monotonic clock tells a duration: others are set while a run is
	// going on.
	begun := time.Now()
	since := begun
	if len(r.rec.Resumed) == 0 {
		since = r.rec.Started
	}
	r.ended = len(r.o.View.Steps())
	r.tell()
	err := r.steps(ctx)
	r.rec.Ended = since.Add(time.Since(begun))
	var st *stop
	switch {
	case err == nil:
		r.verdict()
	case errors.As(err, &st):
		r.rec.Verdict, r.rec.Reason = st.verdict, st.reason
	case ctx.Err() != nil:
		r.fail(view.Failed, "interrupted")
		return r.rec, errors.Join(ctx.Err(), r.save())
	default:
		r.fail(view.Failed, firstLine(err))
		if IsInput(err) && len(r.rec.Resumed) == 0 {
			// Nothing was tested: there is nothing to record.
			os.RemoveAll(r.rec.Dir())
			return nil, err
		}
		if IsInput(err) {
			return r.rec, errors.Join(err, r.save())
		}
		r.rec.Verdict, r.rec.Reason = checks.Infra, err.Error()
	}
	// Cells that this run did not come to are no part of its answer.
	for id := range r.prior {
		if !slices.ContainsFunc(r.rec.Cells, func(c *runfolder.Cell) bool { return c.ID == id }) {
			if err := r.rec.DropCell(id); err != nil {
				return r.rec, err
			}
		}
	}
	return r.rec, r.save()
}

// save writes the record with the steps that have ended.
func (r *runner) save() error {
	r.noted.Lock()
	r.rec.Notes = append(r.rec.Notes, r.noted.lines...)
	r.noted.lines = nil
	r.noted.Unlock()
	r.rec.Steps = nil
	for _, s := range r.o.View.Steps()[r.ended:] {
		r.rec.Steps = append(r.rec.Steps, runfolder.Step{Name: s.Name, Started: s.Started, Elapsed: s.Elapsed, Status: string(s.Status), Detail: s.Detail})
	}
	return r.rec.Save()
}

// note records what happened to us on the way, and shows it.
func (r *runner) note(line string) {
	r.o.View.Print("%s", line)
	r.noted.Lock()
	defer r.noted.Unlock()
	r.noted.lines = append(r.noted.lines, line)
}

// IsInput tells errors that the user can mend in the command line.
func IsInput(err error) bool {
	var te *kernel.TreeError
	var pe *testplans.Error
	var ie *patches.InputError
	var re *ResumeError
	switch {
	case errors.As(err, &te):
		return !te.Infra
	case errors.As(err, &pe), errors.As(err, &ie), errors.As(err, &re):
		return true
	}
	return false
}

// begin starts the next step; end closes it.
func (r *runner) begin(name string) *view.Step {
	r.step = r.o.View.Start(name)
	return r.step
}

func (r *runner) fail(s view.Status, msg string) {
	if r.step != nil {
		r.step.End(s, "%s", msg)
	}
}

// readPlan loads the plan and restricts it to what the user asked for.
func (r *runner) readPlan() error {
	p, err := loadPlan(r.o)
	if err != nil {
		return err
	}
	if r.o.Debug {
		if p, err = p.WithDebug(); err != nil {
			return &testplans.Error{Name: r.o.Plan, Msgs: []string{"  " + err.Error()}}
		}
	}
	if r.o.Alone != "" {
		if err := onlyRole(p, r.o.Alone); err != nil {
			return err
		}
	}
	if err := narrow(p, r.o.Device, r.o.NFS); err != nil {
		return err
	}
	r.plan = p
	return nil
}

// readSeries loads the series, unless the caller has it already.
func (r *runner) readSeries(ctx context.Context) error {
	if r.ser = r.o.Series; r.ser != nil {
		return nil
	}
	if r.o.Alone != "" {
		r.ser = alone()
		return nil
	}
	if len(r.o.Kept) > 0 {
		return r.readKept()
	}
	s, err := loadSeries(ctx, r.o.Sources, r.o.Stdin, r.o.Repo, func(k patches.Kept) { r.kept = append(r.kept, k) })
	r.ser = s
	return err
}

// openStores reads the plan's configuration and opens the cache.
func (r *runner) openStores() error {
	m, err := kernelconfigs.LoadAll(r.plan.Kernel.Configs...)
	if err != nil {
		return &testplans.Error{Name: r.o.Plan, Msgs: []string{"  " + err.Error()}}
	}
	r.cfg = kernel.Config{Fragments: m}
	if r.cache, err = cache.Open(r.o.CacheDir); err != nil {
		return err
	}
	for _, l := range r.cache.Notices() {
		r.note(l)
	}
	var told sync.Map // a damaged entry may be looked at more than once before it is replaced
	r.cache.Notice = func(l string) {
		if _, again := told.LoadOrStore(l, true); !again {
			r.note(l)
		}
	}
	r.store = &kernel.Store{Cache: r.cache, Jobs: r.o.Jobs, NoSandbox: r.o.NoSandbox}
	if _, err := vm.ParseAccel(r.accel()); err != nil {
		return &testplans.Error{Name: "--accel", Msgs: []string{"  " + err.Error()}}
	}
	return nil
}

// prepare reads what the user gave: a mistake there ends before a run folder
// is made.
func (r *runner) prepare(ctx context.Context) error {
	if err := r.readPlan(); err != nil {
		return err
	}
	if err := r.readSeries(ctx); err != nil {
		return err
	}
	if err := r.runnable(); err != nil {
		return err
	}
	if err := r.openStores(); err != nil {
		return err
	}
	if u := unfinished(r.o.RunsDir); u != nil && u.Series.ID == SeriesID(r.ser) && u.PlanID == planID(r.plan) {
		r.o.View.Print("run %s of this series was not finished; this is a new one (to go on with that one: patchcheck run --resume %s)", u.ID, u.ID)
	}
	rec, err := runfolder.Create(r.o.RunsDir, time.Now(), r.ser.Title)
	if err != nil {
		return err
	}
	r.rec = rec
	rec.Tool, rec.Command, rec.Plan = r.o.Tool, r.o.Command, *r.plan
	rec.PlanID = planID(r.plan)
	rec.Series = seriesRecord(r.ser)
	rec.Series.Bundled = len(r.o.Sources) == 0 && r.o.Series == nil && r.o.Alone == ""
	rec.Target = r.o.Target
	rec.Repeat, rec.Shard = r.o.Repeat, r.o.Shard
	cpu, mem := host.CPUMem()
	rec.Host = runfolder.Host{OS: host.OS(), CPU: cpu, CPUs: cpus(), MemMiB: mem}
	for _, pt := range r.ser.Patches {
		if err := rec.WriteFile(pt.Diff, "series", fmt.Sprintf("%04d.diff", pt.Index)); err != nil {
			return err
		}
	}
	if err := r.keepInputs(); err != nil {
		return err
	}
	return rec.Save()
}

// LoadSeries reads the series, or the bundled example when there are no
// sources.
func LoadSeries(ctx context.Context, sources []string, stdin io.Reader, repo string) (*patches.Series, error) {
	return loadSeries(ctx, sources, stdin, repo, nil)
}

func loadSeries(ctx context.Context, sources []string, stdin io.Reader, repo string, keep func(patches.Kept)) (*patches.Series, error) {
	if len(sources) > 0 {
		return patches.Load(ctx, sources, patches.LoadOptions{Stdin: stdin, Repo: repo, Keep: keep})
	}
	mails, err := bundled.Series(bundled.Example)
	if err != nil {
		return nil, err
	}
	s, err := patches.Load(ctx, []string{"-"}, patches.LoadOptions{Stdin: bytes.NewReader(joinMails(mails)), Keep: keep})
	if err != nil {
		return nil, fmt.Errorf("the bundled series cannot be read: %w", err)
	}
	s.Sources = []string{"bundled:" + bundled.Example}
	return s, nil
}

func joinMails(mails [][]byte) []byte {
	var b []byte
	for _, m := range mails {
		b = append(b, m...)
		if len(m) > 0 && m[len(m)-1] != '\n' {
			b = append(b, '\n')
		}
	}
	return b
}

// narrow restricts the axes to what the user named.
func narrow(p *testplans.Plan, devices, nfs []string) error {
	if len(devices) > 0 {
		var keep []testplans.Device
		var known []string
		for _, d := range p.Axes.Device {
			known = append(known, d.Name)
			if slices.Contains(devices, d.Name) {
				keep = append(keep, d)
			}
		}
		for _, d := range devices {
			if !slices.Contains(known, d) {
				return &testplans.Error{Name: p.Name, Msgs: []string{fmt.Sprintf("  --device %s: the plan has no such device; it has %s", d, strings.Join(known, ", "))}}
			}
		}
		p.Axes.Device = keep
	}
	if len(nfs) > 0 {
		for _, n := range nfs {
			if !slices.Contains([]string{"3", "4.0", "4.1", "4.2"}, n) {
				return &testplans.Error{Name: p.Name, Msgs: []string{fmt.Sprintf("  --nfs %s: NFS versions are 3, 4.0, 4.1, 4.2", n)}}
			}
		}
		p.Axes.NFS = nfs
		var keep []testplans.Device
		for _, d := range p.Axes.Device {
			if len(d.NFS) > 0 {
				if d.NFS = slices.DeleteFunc(slices.Clone(d.NFS), func(n string) bool { return !slices.Contains(nfs, n) }); len(d.NFS) == 0 {
					continue
				}
			}
			keep = append(keep, d)
		}
		p.Axes.Device = keep
	}
	for k, s := range p.Kernels {
		if len(s.Device) > 0 && len(devices) > 0 {
			var d []string
			for _, x := range s.Device {
				if slices.Contains(devices, x) {
					d = append(d, x)
				}
			}
			if len(d) == 0 {
				// The base control moves to the first device that is left.
				d = []string{p.Axes.Device[0].Name}
			}
			s.Device = d
		}
		p.Kernels[k] = s
	}
	return nil
}

// runnable refuses a series that cannot be tested as a whole.
func runnable(s *patches.Series, incomplete bool) error {
	if len(s.Patches) == 0 {
		return &patches.InputError{Source: strings.Join(s.Sources, " "), Reason: "there is no patch in it"}
	}
	var fatal []string
	for _, p := range s.Problems {
		if p.Fatal {
			fatal = append(fatal, p.Message)
		}
	}
	if len(s.Missing) > 0 && !incomplete {
		return &patches.InputError{Source: strings.Join(s.Sources, " "),
			Reason: fmt.Sprintf("the series has %d patches and %s missing", s.Total, missingParts(s.Missing)),
			Hint:   "give the rest too, or try what there is with --incomplete"}
	}
	if len(fatal) > 0 && !incomplete {
		return &patches.InputError{Source: strings.Join(s.Sources, " "), Reason: strings.Join(fatal, "; "), Hint: "mend the series, or try it as it is with --incomplete"}
	}
	return nil
}

// missingParts words a list of numbers: "1 and 3-7 are".
func missingParts(n []int) string {
	var parts []string
	for i := 0; i < len(n); {
		j := i
		for j+1 < len(n) && n[j+1] == n[j]+1 {
			j++
		}
		if j > i {
			parts = append(parts, fmt.Sprintf("%d-%d", n[i], n[j]))
		} else {
			parts = append(parts, fmt.Sprint(n[i]))
		}
		i = j + 1
	}
	verb := "are"
	if len(n) == 1 {
		verb = "is"
	}
	if len(parts) == 1 {
		return parts[0] + " " + verb
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1] + " " + verb
}

func planID(p *testplans.Plan) string {
	b, _ := json.Marshal(p)
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func (r *runner) steps(ctx context.Context) error {
	if len(r.plan.Cells()) == 0 && r.plan.Measure != nil {
		return &testplans.Error{Name: r.o.Plan, Msgs: []string{"  the plan has no cells, it only measures: use patchcheck bench --plan " + r.o.Plan}}
	}
	s := r.begin("series")
	s.End(view.OK, "%s", describe(r.ser))
	if err := r.findTree(ctx); err != nil {
		return err
	}
	defer r.tree.Close()
	if r.o.Alone == "" {
		if err := r.lintOnce(ctx); err != nil {
			return err
		}
	}
	if err := r.apply(ctx); err != nil {
		return err
	}
	if !r.o.BuildOnly {
		r.startImage(ctx)
	}
	kernels, err := r.build(ctx)
	if err != nil {
		return err
	}
	if r.o.BuildOnly {
		return nil
	}
	return r.matrix(ctx, kernels)
}

func describe(s *patches.Series) string {
	n := "1 patch"
	if len(s.Patches) != 1 {
		n = fmt.Sprintf("%d patches", len(s.Patches))
	}
	c := ""
	if s.Cover != nil {
		c = " and a cover letter"
	}
	v := ""
	if s.Version > 1 {
		v = fmt.Sprintf(" v%d", s.Version)
	}
	return fmt.Sprintf("%s (%s%s)%s", s.Title, n, c, v)
}

// resolveTree finds the tree and what identifies its content.
func (r *runner) resolveTree(ctx context.Context, progress func(string)) error {
	spec := cmp.Or(r.o.Tree, kernel.DefaultTree)
	t, err := kernel.Resolve(ctx, r.cache, spec, kernel.TreeOptions{Base: r.o.Base, SeriesBase: r.ser.BaseCommit, Progress: progress})
	if err != nil {
		return err
	}
	r.tree = t
	return t.Identify(ctx)
}

func (r *runner) findTree(ctx context.Context) error {
	s := r.begin("tree")
	if err := r.resolveTree(ctx, r.progress(s)); err != nil {
		return err
	}
	t := r.tree
	if r.asked != "" && r.asked != t.ID {
		r.changed(fmt.Sprintf("the tree %s is not what it was when the run began: all that rests on it is done again, for the tree as it is now", t))
	}
	r.rec.Tree = runfolder.Tree{Spec: t.Spec, Kind: string(t.Kind), Version: t.Version, Commit: t.Commit, PackageVersion: t.PackageVersion, ID: t.ID}
	if key, _, err := r.jobKey(ctx, r.rec.Started); err == nil {
		r.rec.JobKey = key // what fails here fails the build, too, and is said there
	}
	detail := t.String()
	for _, n := range t.Notes {
		detail += "; " + n
	}
	s.End(view.OK, "%s", detail)
	return r.save()
}

// stacked is what became of one patch that was put on the tree.
type stacked struct {
	companion string // its name; "" for a patch of the series
	patch     *patches.Patch
	res       *diff.Result
}

// stack puts the companions, then, unless onlyBase, the series on the tree. It
// sets base and overlays, and ends at the first patch that does not apply.
func (r *runner) stack(ctx context.Context, onlyBase bool) ([]stacked, error) {
	var out []stacked
	o := diff.NewOverlay(r.tree)
	put := func(name string, p *patches.Patch) (bool, error) {
		next, res, err := diff.Apply(o, p.Files, diff.Options{})
		if err != nil {
			if name != "" {
				err = fmt.Errorf("companion %s: %w", name, err)
			}
			return false, err
		}
		out = append(out, stacked{name, p, res})
		o = next
		return res.Applies, nil
	}
	for _, name := range r.plan.Kernel.Companions {
		ps, err := companion(ctx, name)
		if err != nil {
			return nil, &testplans.Error{Name: r.o.Plan, Msgs: []string{"  " + err.Error()}}
		}
		for _, p := range ps {
			if ok, err := put(name, p); err != nil || !ok {
				return out, err
			}
		}
	}
	r.base = o
	if onlyBase {
		return out, nil
	}
	for _, p := range r.ser.Patches {
		if ok, err := put("", p); err != nil || !ok {
			return out, err
		}
		r.overlays = append(r.overlays, o)
	}
	return out, nil
}

// misfit words a companion that does not apply.
func (r *runner) misfit(x stacked) *stop {
	return &stop{checks.Infra, fmt.Sprintf("companion %q (%s) does not apply to %s: %s; leave it out of the plan or use a tree that it fits", x.companion, x.patch.Subject, r.tree, x.res.Reason)}
}

// apply puts the companions, then the series, on the tree.
func (r *runner) apply(ctx context.Context) error {
	s := r.begin("apply")
	all, err := r.stack(ctx, false)
	if err != nil {
		return err
	}
	var results []*diff.Result
	var failed *runfolder.Apply
	for _, x := range all {
		if x.companion != "" {
			if !x.res.Applies {
				return r.misfit(x)
			}
			rec := patchRecord(x.patch)
			rec.Subject = x.companion + ": " + x.patch.Subject
			r.rec.Companions = append(r.rec.Companions, rec)
			continue
		}
		a := applyRecord(x.patch.Index, x.res)
		if x.res.Applies {
			r.rec.Apply = append(r.rec.Apply, a)
			results = append(results, x.res)
			continue
		}
		a.Text = r.explainSeries(x.res)
		r.rec.Apply = append(r.rec.Apply, a)
		failed = &r.rec.Apply[len(r.rec.Apply)-1]
		f := ruleApply.New(checks.Where{Patch: x.patch.Index}, "does not apply to %s: %s (%s)", r.tree, x.res.Reason, strings.ReplaceAll(string(x.res.Class), "_", " "))
		f.Evidence = strings.Split(strings.TrimRight(a.Text, "\n"), "\n")
		r.rec.Findings = append(r.rec.Findings, f)
	}
	r.rec.Tree.Exact = exactness(results)
	if err := r.save(); err != nil {
		return err
	}
	if failed != nil {
		s.End(view.Failed, "patch %d of %d does not apply", failed.Patch, len(r.ser.Patches))
		return &stop{checks.Fail, fmt.Sprintf("patch %d does not apply to %s", failed.Patch, r.tree)}
	}
	detail := "exactly"
	offs := 0
	for _, a := range r.rec.Apply {
		offs += len(a.Lines)
	}
	if offs > 0 {
		detail = fmt.Sprintf("%d hunks with offsets, no fuzz", offs)
	}
	if r.rec.Tree.Exact == "not exact" {
		detail += "; the base is not exact (blob ids differ)"
	}
	s.End(view.OK, "%s", detail)
	return nil
}

var ruleApply = checks.Rule{ID: "apply.fails", Severity: checks.Error,
	Title:  "the patch does not apply",
	Source: "git-apply(1): offsets are accepted, fuzz is not",
	Fix:    "rebase on the tree you mean it for, or name that tree with --tree and --base"}

// explainSeries says for each patch whether it applies, fails, or was not
// tried and would apply alone, and for the one that fails why.
func (r *runner) explainSeries(res *diff.Result) string {
	var b strings.Builder
	if len(r.ser.Patches) == 1 {
		res.Explain(&b)
		return b.String()
	}
	var files [][]*diff.File
	var names []string
	for _, p := range r.ser.Patches {
		files, names = append(files, p.Files), append(names, p.Subject)
	}
	_, all, err := diff.ApplySeries(r.base, files, diff.Options{})
	if err != nil {
		res.Explain(&b)
		return b.String()
	}
	all.Explain(&b, names...)
	return b.String()
}

// companion reads a bundled companion, or a folder or file of the user's.
func companion(ctx context.Context, name string) ([]*patches.Patch, error) {
	var s *patches.Series
	if strings.ContainsRune(name, filepath.Separator) {
		var err error
		if s, err = patches.Load(ctx, []string{name}, patches.LoadOptions{}); err != nil {
			return nil, err
		}
		return s.Patches, nil
	}
	mails, err := bundled.Companion(name)
	if err != nil {
		return nil, err
	}
	s, err = patches.Load(ctx, []string{"-"}, patches.LoadOptions{Stdin: strings.NewReader(string(joinMails(mails)))})
	if err != nil {
		return nil, fmt.Errorf("bundled companion %s: %w", name, err)
	}
	return s.Patches, nil
}

func (r *runner) startImage(ctx context.Context) {
	r.images = make(chan imageResult, 1)
	go func() {
		start := time.Now()
		img, err := r.buildImage(ctx, r.progress(nil))
		r.images <- imageResult{img, err, time.Since(start)}
	}()
}

func (r *runner) buildImage(ctx context.Context, progress func(string)) (image.Image, error) {
	agent := r.o.Agent
	if agent == "" {
		var err error
		if agent, err = image.FindAgent(); err != nil {
			return image.Image{}, err
		}
	}
	return image.Build(ctx, image.Options{Cache: r.cache, Layers: r.plan.Guest.Layers, AgentPath: agent, Progress: progress})
}

func (r *runner) accel() string {
	if r.o.Accel == "" {
		return string(vm.Auto)
	}
	return r.o.Accel
}

func quote(argv []string) string { return proc.Record(argv) }
