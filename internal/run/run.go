// SPDX-License-Identifier: Apache-2.0

// Package run owns the job from a series to a verdict: the order of steps,
// the run folder, cells, repetition and attribution. What each step does is
// the business of the packages it calls.
package run

import (
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
	"time"

	"patchcheck/checks"
	"patchcheck/internal/cache"
	"patchcheck/internal/config"
	"patchcheck/internal/host"
	"patchcheck/internal/kernel"
	"patchcheck/internal/proc"
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
// interruption; every other outcome is a verdict in the run folder.
func Run(ctx context.Context, o Options) (*runfolder.Run, error) {
	if o.View == nil {
		o.View = view.New(nil)
	}
	defer o.View.Close()
	r := &runner{o: o}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	err := r.steps(ctx)
	r.rec.Ended = time.Now()
	for _, s := range o.View.Steps() {
		r.rec.Steps = append(r.rec.Steps, runfolder.Step{Name: s.Name, Started: s.Started, Elapsed: s.Elapsed, Status: string(s.Status), Detail: s.Detail})
	}
	var st *stop
	switch {
	case err == nil:
		r.verdict()
	case errors.As(err, &st):
		r.rec.Verdict, r.rec.Reason = st.verdict, st.reason
	case ctx.Err() != nil:
		r.fail(view.Failed, "interrupted")
		r.rec.Save()
		return r.rec, ctx.Err()
	default:
		r.fail(view.Failed, firstLine(err))
		if IsInput(err) {
			// Nothing was tested: there is nothing to record.
			os.RemoveAll(r.rec.Dir())
			return nil, err
		}
		r.rec.Verdict, r.rec.Reason = checks.Infra, err.Error()
	}
	if err := r.rec.Save(); err != nil {
		return r.rec, err
	}
	return r.rec, nil
}

// IsInput tells errors that the user can mend in the command line.
func IsInput(err error) bool {
	var te *kernel.TreeError
	var pe *testplans.Error
	var ie *patches.InputError
	switch {
	case errors.As(err, &te):
		return !te.Infra
	case errors.As(err, &pe), errors.As(err, &ie):
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

// prepare reads what the user gave: a mistake there ends before a run folder
// is made.
func (r *runner) prepare(ctx context.Context) error {
	p, err := testplans.Load(r.o.Plan)
	if err != nil {
		return err
	}
	if r.o.Debug {
		if p, err = p.WithDebug(); err != nil {
			return &testplans.Error{Name: r.o.Plan, Msgs: []string{"  " + err.Error()}}
		}
	}
	if err := narrow(p, r.o.Device, r.o.NFS); err != nil {
		return err
	}
	r.plan = p
	r.ser = r.o.Series
	if r.ser == nil {
		if r.ser, err = LoadSeries(ctx, r.o.Sources, r.o.Stdin, r.o.Repo); err != nil {
			return err
		}
	}
	if err := runnable(r.ser, r.o.Incomplete); err != nil {
		return err
	}
	m, err := kernelconfigs.LoadAll(p.Kernel.Configs...)
	if err != nil {
		return &testplans.Error{Name: r.o.Plan, Msgs: []string{"  " + err.Error()}}
	}
	r.cfg = kernel.Config{Fragments: m}
	if r.cache, err = cache.Open(r.o.CacheDir); err != nil {
		return err
	}
	r.store = &kernel.Store{Cache: r.cache, Jobs: r.o.Jobs, NoSandbox: r.o.NoSandbox}
	if _, err := vm.ParseAccel(r.accel()); err != nil {
		return &testplans.Error{Name: "--accel", Msgs: []string{"  " + err.Error()}}
	}
	rec, err := runfolder.Create(r.o.RunsDir, time.Now(), r.ser.Title)
	if err != nil {
		return err
	}
	r.rec = rec
	rec.Tool, rec.Command, rec.Plan = r.o.Tool, r.o.Command, *p
	rec.PlanID = planID(p)
	rec.Series = seriesRecord(r.ser)
	rec.Series.Bundled = len(r.o.Sources) == 0 && r.o.Series == nil
	rec.Repeat = r.o.Repeat
	cpu, mem := host.CPUMem()
	rec.Host = runfolder.Host{OS: host.OS(), CPU: cpu, CPUs: cpus(), MemMiB: mem}
	for _, pt := range r.ser.Patches {
		if err := os.WriteFile(rec.Path("series", fmt.Sprintf("%04d.diff", pt.Index)), pt.Diff, 0o644); err != nil {
			return fmt.Errorf("cannot write the run folder: %w", err)
		}
	}
	return rec.Save()
}

// LoadSeries reads the series, or the bundled example when there are no
// sources.
func LoadSeries(ctx context.Context, sources []string, stdin io.Reader, repo string) (*patches.Series, error) {
	if len(sources) > 0 {
		return patches.Load(ctx, sources, patches.LoadOptions{Stdin: stdin, Repo: repo})
	}
	mails, err := bundled.Series(bundled.Example)
	if err != nil {
		return nil, err
	}
	s, err := patches.Load(ctx, []string{"-"}, patches.LoadOptions{Stdin: strings.NewReader(string(joinMails(mails)))})
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
	s := r.begin("series")
	s.End(view.OK, "%s", describe(r.ser))
	if err := r.findTree(ctx); err != nil {
		return err
	}
	defer r.tree.Close()
	if err := r.lint(ctx); err != nil {
		return err
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

func (r *runner) findTree(ctx context.Context) error {
	s := r.begin("tree")
	spec := r.o.Tree
	if spec == "" {
		spec = kernel.DefaultTree
	}
	t, err := kernel.Resolve(ctx, r.cache, spec, kernel.TreeOptions{Base: r.o.Base, SeriesBase: r.ser.BaseCommit, Progress: func(l string) { s.Update("%s", l) }})
	if err != nil {
		return err
	}
	r.tree = t
	if err := t.Identify(ctx); err != nil {
		return err
	}
	r.rec.Tree = runfolder.Tree{Spec: t.Spec, Kind: string(t.Kind), Version: t.Version, Commit: t.Commit, PackageVersion: t.PackageVersion, ID: t.ID}
	detail := t.String()
	for _, n := range t.Notes {
		detail += "; " + n
	}
	s.End(view.OK, "%s", detail)
	return r.rec.Save()
}

// apply puts the companions, then the series, on the tree.
func (r *runner) apply(ctx context.Context) error {
	s := r.begin("apply")
	o := diff.NewOverlay(r.tree)
	for _, name := range r.plan.Kernel.Companions {
		ps, err := companion(ctx, name)
		if err != nil {
			return &testplans.Error{Name: r.o.Plan, Msgs: []string{"  " + err.Error()}}
		}
		for _, p := range ps {
			next, res, err := diff.Apply(o, p.Files, diff.Options{})
			if err != nil {
				return fmt.Errorf("companion %s: %w", name, err)
			}
			if !res.Applies {
				return &stop{checks.Infra, fmt.Sprintf("companion %q (%s) does not apply to %s: %s; leave it out of the plan or use a tree that it fits", name, p.Subject, r.tree, res.Reason)}
			}
			o = next
			rec := patchRecord(p)
			rec.Subject = name + ": " + p.Subject
			r.rec.Companions = append(r.rec.Companions, rec)
		}
	}
	r.base = o
	var results []*diff.Result
	var failed *runfolder.Apply
	for _, p := range r.ser.Patches {
		next, res, err := diff.Apply(o, p.Files, diff.Options{})
		if err != nil {
			return err
		}
		a := applyRecord(p.Index, res)
		if !res.Applies {
			a.Text = r.explainSeries(res)
			r.rec.Apply = append(r.rec.Apply, a)
			failed = &r.rec.Apply[len(r.rec.Apply)-1]
			f := ruleApply.New(checks.Where{Patch: p.Index}, "does not apply to %s: %s (%s)", r.tree, res.Reason, strings.ReplaceAll(string(res.Class), "_", " "))
			f.Evidence = strings.Split(strings.TrimRight(a.Text, "\n"), "\n")
			r.rec.Findings = append(r.rec.Findings, f)
			break
		}
		r.rec.Apply = append(r.rec.Apply, a)
		results = append(results, res)
		o = next
		r.overlays = append(r.overlays, o)
	}
	r.rec.Tree.Exact = exactness(results)
	if err := r.rec.Save(); err != nil {
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
		img, err := r.buildImage(ctx, nil)
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
	return image.Build(ctx, image.Options{CacheDir: r.cache.Root(), Layers: r.plan.Guest.Layers, AgentPath: agent, Progress: progress})
}

func (r *runner) accel() string {
	if r.o.Accel == "" {
		return string(vm.Auto)
	}
	return r.o.Accel
}

func quote(argv []string) string { return proc.Quote(argv) }
