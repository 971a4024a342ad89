// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchcheck/checks"
	measure "patchcheck/internal/bench"
	"patchcheck/internal/kernel"
	"patchcheck/internal/runfolder"
	"patchcheck/internal/view"
	"patchcheck/patches/diff"
	"patchcheck/testplans"
	"patchcheck/vm/image"
)

// MeasureOptions say how an experiment differs from its plan.
type MeasureOptions struct {
	Arms []string // names of the arms, the first is what others are compared with
	// AA measures the base kernel against itself: whatever differs is noise.
	AA bool
	// Resume is the run folder of an experiment to go on with. Series, plan and
	// options are read from there, and arms, unless others are named; Record is
	// a new one, and the boots on record are the caller's to take over.
	Resume string
}

// SameArm is the second arm of a measurement of the base against itself.
const SameArm = "base again"

// Experiment is a measurement that is ready to boot: kernels and image are
// built. It is the Booter of bench.Conduct.
type Experiment struct {
	r       *runner
	m       *matrix
	kernels map[string]*guestKernel // by arm
	record  *measure.Experiment
	leave   func()
}

// arm is a kernel to be built.
type arm struct {
	name    string
	overlay *diff.Overlay
	role    kernel.Role
	patches []string
}

// NewExperiment prepares the measurement of a plan: it reads the series, puts
// it on the tree, builds a kernel for each arm and the guest image, and makes
// the record. Errors are as Run's, and *StoppedError when the series does not
// apply or build; the run folder then says so. Who gets an Experiment must End
// it.
func NewExperiment(ctx context.Context, o Options, mo MeasureOptions) (*Experiment, error) {
	if o.View == nil {
		o.View = view.New(nil)
	}
	if mo.Resume != "" && len(mo.Arms) == 0 && !mo.AA {
		// The arms are those that it began with.
		if old, err := measure.Open(mo.Resume); err == nil {
			for _, a := range old.Arms {
				mo.Arms = append(mo.Arms, a.Name)
				mo.AA = mo.AA || a.Name == SameArm
			}
		}
	}
	r := &runner{o: o}
	leave, err := r.enter()
	if err != nil {
		return nil, err
	}
	if err := r.prepareMeasure(ctx, mo); err != nil {
		if r.rec != nil {
			r.rec.Close()
		}
		leave()
		return nil, err
	}
	r.ended = len(o.View.Steps())
	e, err := r.experiment(ctx, mo)
	if err == nil {
		e.leave = leave
		return e, nil
	}
	defer leave()
	r.fail(view.Failed, firstLine(err))
	if IsInput(err) && len(r.rec.Resumed) == 0 {
		r.rec.Close()
		os.RemoveAll(r.rec.Dir()) // nothing was measured: there is nothing to record
		return nil, err
	}
	if serr := r.endMeasure(ctx, err); serr != nil {
		return nil, serr
	}
	var st *stop
	if errors.As(err, &st) {
		return nil, &StoppedError{Verdict: st.verdict, Reason: st.reason, Run: r.rec.ID}
	}
	return nil, err
}

// StoppedError says that there is nothing to measure, and whose fault it is.
type StoppedError struct {
	Verdict checks.Verdict
	Reason  string
	Run     string // id of the run folder
}

func (e *StoppedError) Error() string { return e.Reason }

// Record is the experiment's record; Conduct fills it.
func (e *Experiment) Record() *measure.Experiment { return e.record }

// Run is the run folder of the experiment.
func (e *Experiment) Run() *runfolder.Run { return e.r.rec }

// End writes the verdict of the run folder and gives it up: err is what
// Conduct returned. An experiment that was interrupted has no verdict and can
// be resumed.
func (e *Experiment) End(ctx context.Context, err error) error {
	defer e.leave()
	return e.r.endMeasure(ctx, err)
}

func (r *runner) endMeasure(ctx context.Context, err error) error {
	defer r.rec.Close()
	var st *stop
	var ke *measure.KernelError
	switch {
	case err == nil:
		r.rec.Verdict, r.rec.Reason = checks.Pass, ""
	case errors.As(err, &st):
		r.rec.Verdict, r.rec.Reason = st.verdict, st.reason
	case errors.As(err, &ke):
		r.rec.Verdict, r.rec.Reason = checks.Fail, ke.Error()
		if ke.Arm == measure.Base || ke.Arm == SameArm {
			r.rec.Verdict = checks.BaseFails
		}
	case ctx.Err() != nil:
		return r.save()
	default:
		r.rec.Verdict, r.rec.Reason = checks.Infra, err.Error()
	}
	r.rec.Ended = time.Now()
	return r.save()
}

// prepareMeasure is prepare for a plan that measures, with the run folder of
// an earlier invocation if that is to be continued.
func (r *runner) prepareMeasure(ctx context.Context, mo MeasureOptions) error {
	if mo.Resume != "" {
		rec, err := runfolder.Resume(mo.Resume)
		if err != nil {
			return &ResumeError{Reason: err.Error()}
		}
		r.rec = rec
		if rec.Plan.Measure == nil {
			return &ResumeError{rec.ID, "it is no measurement; go on with it by patchcheck run --resume"}
		}
		return r.reopen()
	}
	p, err := testplans.Load(r.o.Plan)
	if err != nil {
		return err
	}
	if p.Measure == nil {
		return &testplans.Error{Name: r.o.Plan, Msgs: []string{"  the plan has no measure section, so there is nothing to measure; see docs/measure.md, or use one of the bundled plans " + strings.Join(measuring(), ", ")}}
	}
	return r.prepare(ctx)
}

// measuring lists the bundled plans that measure.
func measuring() (names []string) {
	for _, n := range testplans.Names() {
		if p, err := testplans.Load(n); err == nil && p.Measure != nil {
			names = append(names, n)
		}
	}
	return names
}

// experiment does all that comes before the first boot.
func (r *runner) experiment(ctx context.Context, mo MeasureOptions) (*Experiment, error) {
	s := r.begin("series")
	s.End(view.OK, "%s", describe(r.ser))
	if err := r.findTree(ctx); err != nil {
		return nil, err
	}
	defer r.tree.Close()
	if err := r.apply(ctx); err != nil {
		return nil, err
	}
	r.startImage(ctx)
	arms, err := r.arms(ctx, mo)
	if err != nil {
		return nil, err
	}
	e := &Experiment{r: r, kernels: map[string]*guestKernel{}}
	rec := &measure.Experiment{Schema: measure.Schema, ID: r.rec.ID, Tool: r.o.Tool, Title: r.ser.Title, Command: r.o.Command, Started: r.rec.Started,
		Plan: r.plan.Name, PlanID: r.rec.PlanID, Versions: map[string]string{}}
	e.record = rec
	compiler := ""
	for _, a := range arms {
		k, gk, err := r.buildArm(ctx, a)
		if err != nil {
			return nil, err
		}
		if compiler == "" {
			compiler = k.Toolchain.Version
		} else if compiler != k.Toolchain.Version {
			return nil, fmt.Errorf("the compiler changed from %q to %q between two arms: start again", compiler, k.Toolchain.Version)
		}
		e.kernels[a.name] = gk
		rec.Arms = append(rec.Arms, measure.Arm{Name: a.name, Release: k.Release, Arch: "x86_64", Key: k.Key, Config: k.ConfigSHA, Compiler: k.Toolchain.Version, Patches: a.patches})
	}
	img, err := r.awaitImage(ctx)
	if err != nil {
		return nil, err
	}
	accel, err := r.probe(ctx, e.kernels[arms[0].name])
	if err != nil {
		return nil, err
	}
	e.m = &matrix{run: r.rec, plan: r.plan, kernels: e.kernels, initrd: img.Path, accel: accel, seed: hash(r.plan.Name), hurry: r.o.hurry}
	r.describeMeasure(rec, img)
	if err := r.rec.Save(); err != nil {
		return nil, err
	}
	return e, nil
}

// arms lists the kernels that are compared. Companions of the plan are part of
// all of them; those of measure.with only of the last.
func (r *runner) arms(ctx context.Context, mo MeasureOptions) ([]arm, error) {
	base := arm{name: measure.Base, overlay: r.base, role: kernel.Base}
	if mo.AA {
		again := base
		again.name = SameArm
		return []arm{base, again}, nil
	}
	var subjects []string
	for _, p := range r.ser.Patches {
		subjects = append(subjects, p.Subject)
	}
	last := r.base
	if n := len(r.overlays); n > 0 {
		last = r.overlays[n-1]
	}
	all := []arm{base, {name: measure.Patched, overlay: last, role: kernel.Patched, patches: subjects}}
	if with := r.plan.Measure.With; len(with) > 0 && (len(mo.Arms) == 0 || slices.Contains(mo.Arms, measure.WithCompanion)) {
		o := last
		more := slices.Clone(subjects)
		for _, name := range with {
			ps, err := companion(ctx, name)
			if err != nil {
				return nil, &testplans.Error{Name: r.o.Plan, Msgs: []string{"  " + err.Error()}}
			}
			for _, p := range ps {
				next, res, err := diff.Apply(o, p.Files, diff.Options{})
				if err != nil {
					return nil, fmt.Errorf("companion %s: %w", name, err)
				}
				if !res.Applies {
					return nil, &stop{checks.Infra, fmt.Sprintf("companion %q (%s) does not apply on the series: %s; leave measure.with out of the plan, or choose arms with --arms %s,%s", name, p.Subject, res.Reason, measure.Base, measure.Patched)}
				}
				o, more = next, append(more, p.Subject)
			}
		}
		all = append(all, arm{name: measure.WithCompanion, overlay: o, role: kernel.Patched, patches: more})
	}
	if len(mo.Arms) == 0 {
		return all, nil
	}
	var chosen []arm
	for _, n := range mo.Arms {
		i := slices.IndexFunc(all, func(a arm) bool { return a.name == n })
		if i < 0 {
			var names []string
			for _, a := range all {
				names = append(names, a.name)
			}
			return nil, &testplans.Error{Name: "--arms", Msgs: []string{fmt.Sprintf("  there is no arm %q; there are %s", n, strings.Join(names, ", "))}}
		}
		chosen = append(chosen, all[i])
	}
	if len(chosen) < 2 {
		return nil, &testplans.Error{Name: "--arms", Msgs: []string{"  a comparison needs two arms"}}
	}
	return chosen, nil
}

// buildArm builds the kernel of an arm with the requests that a run makes, so
// that each uses what the other built.
func (r *runner) buildArm(ctx context.Context, a arm) (*kernel.Kernel, *guestKernel, error) {
	name := "kernel " + a.name
	s := r.begin(name)
	r.follow(s)
	q := kernel.Request{Tree: r.tree, Config: r.cfg, Overlay: kernel.FromDiff(a.overlay), Role: a.role, W: "1", Fetch: fetches(r.plan)}
	start := time.Now()
	k, err := r.kernel(ctx, q)
	if err != nil {
		patch := 0
		if a.role == kernel.Patched {
			patch = len(r.ser.Patches)
		}
		return nil, nil, r.buildFailed(s, patch, err)
	}
	r.kernelRecord(a.name, k, time.Since(start))
	status := view.OK
	if k.Reused {
		status = view.Reused
	}
	s.End(status, "linux %s, %s (%s)", k.Release, k.Toolchain.Version, built(k))
	gk, err := r.guestKernel(ctx, a.name, q, k)
	return k, gk, err
}

// awaitImage waits for the image that startImage began.
func (r *runner) awaitImage(ctx context.Context) (image.Image, error) {
	s := r.begin("image")
	var img imageResult
	select {
	case img = <-r.images:
	case <-ctx.Done():
		return image.Image{}, ctx.Err()
	}
	if img.err != nil {
		return image.Image{}, fmt.Errorf("the guest image cannot be made: %w", img.err)
	}
	r.rec.Image = runfolder.Image{Key: img.img.Key, Bytes: img.img.Bytes, Compressed: img.img.CompressedBytes, Packages: packages(img.img)}
	s.End(view.OK, "%.1f MB, %.1f MB compressed", float64(img.img.Bytes)/1e6, float64(img.img.CompressedBytes)/1e6)
	return img.img, nil
}

// describeMeasure fills what the record says of the plan and the machine.
func (r *runner) describeMeasure(rec *measure.Experiment, img image.Image) {
	p, m := r.plan, r.plan.Measure
	rec.Design.Boots, rec.Design.Runs, rec.Design.Warmup, rec.Design.Primary = m.Boots, m.Runs, m.Warmup, m.Primary
	rec.Jobs = Jobs(p)
	rec.Hosts = []measure.Host{measure.ThisHost()}
	rec.Accel = measure.Accel{Name: r.rec.Accel.Name, Reason: r.rec.Accel.Reason}
	rec.Guest = measure.Guest{CPUs: p.Guest.CPUs, MemMiB: int64(p.Guest.Memory >> 20), Image: img.Key}
	f := p.Fabric
	rec.Fabric = f.Proto
	if f.Proto == "rdma" {
		rec.Fabric = fmt.Sprintf("%s on %s, client and server in one guest", f.Type, f.Netdev)
		if d := m.Cell(p, testplans.RoleBase).Device; len(d.Params) > 0 {
			rec.Fabric += ", device " + d.Name
		}
	} else {
		rec.Fabric += " in one guest"
	}
	rec.Versions["qemu"] = r.rec.Tools["qemu"]
	rec.Versions["compiler"] = r.rec.Tools["compiler"]
	for _, pkg := range img.Packages {
		if strings.HasPrefix(pkg.Name, "fio") {
			rec.Versions["fio"] = pkg.Version
		}
	}
	rec.Limits = slices.Clone(m.Limits)
	for _, n := range p.NotTested {
		rec.Limits = append(rec.Limits, "not measured: "+n)
	}
}

// Jobs are a plan's jobs as the record keeps them.
func Jobs(p *testplans.Plan) []measure.Job {
	var jobs []measure.Job
	for _, j := range p.Measure.Jobs {
		x := measure.Job{Name: j.Name, Kind: "fio", Text: j.Fio}
		if f := j.Files; f != nil {
			x.Kind, x.Text = "files", fmt.Sprintf("files: {count: %d, min: %d, max: %d}\n", f.Count, f.Min, f.Max)
		}
		if j.Counted {
			x.Kind += measure.Counted
		}
		sum := sha256.Sum256([]byte(x.Kind + "\x00" + x.Text))
		x.Hash = hex.EncodeToString(sum[:])
		jobs = append(jobs, x)
	}
	return jobs
}

// Folder is the run folder's path.
func (e *Experiment) Folder() string { return filepath.Clean(e.r.rec.Dir()) }
