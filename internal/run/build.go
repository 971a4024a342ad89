// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/cache"
	"patchcheck/internal/kernel"
	"patchcheck/internal/runfolder"
	"patchcheck/internal/view"
	kernelconfigs "patchcheck/kernel-configs"
	"patchcheck/testplans"
)

var (
	ruleBuild = checks.Rule{ID: "build.fails", Severity: checks.Error,
		Title:  "the kernel does not build after this patch",
		Source: "Documentation/process/submitting-patches.rst: each patch must build, for git bisect",
		Fix:    "mend the patch, or move the change that it needs before it"}
	ruleBaseBuild = checks.Rule{ID: "build.base-fails", Severity: checks.Error,
		Title:  "the base does not build, without the series",
		Source: "-", Fix: "use another base, or another compiler"}
	ruleConfig = checks.Rule{ID: "config.missing", Severity: checks.Error,
		Title:  "a configuration symbol that the plan asks for cannot be had",
		Source: "the plan's kernel.configs", Fix: "see the unmet dependency, or change the fragment"}
)

func cpus() int { return runtime.NumCPU() }

// fetches lists the member paths that the plan's counts read.
func fetches(p *testplans.Plan) []kernel.FetchExpr {
	var out []kernel.FetchExpr
	for _, c := range p.Count {
		for _, f := range sortedKeys(c.Fields) {
			if path := c.Fields[f]; !testplans.RawFetch(path) {
				out = append(out, fetchExpr(c, path))
			}
		}
	}
	return out
}

func fetchExpr(c testplans.Count, path string) kernel.FetchExpr {
	return kernel.FetchExpr{Object: c.Object, Struct: c.Arg, Expr: path, Arg: max(1, c.ArgIndex)}
}

// build makes the base kernel and the kernel after each patch, and compares
// their warnings.
func (r *runner) build(ctx context.Context) (map[string]*guestKernel, error) {
	req := func(o kernel.Overlay, role kernel.Role) kernel.Request {
		return kernel.Request{Tree: r.tree, Config: r.cfg, Overlay: o, Role: role, W: "1"}
	}
	s := r.begin("base")
	r.follow(s)
	baseReq := req(kernel.FromDiff(r.base), kernel.Base)
	baseReq.Fetch = fetches(r.plan)
	start := time.Now()
	base, err := r.kernel(ctx, baseReq)
	if err != nil {
		return nil, r.buildFailed(s, 0, err)
	}
	r.kernelRecord(testplans.RoleBase, base, time.Since(start))
	r.rec.Builds = append(r.rec.Builds, r.buildRecord(0, base, time.Since(start)))
	status := view.OK
	if base.Reused {
		status = view.Reused
	}
	s.End(status, "linux %s, %s, W=1 (%s)", base.Release, base.Toolchain.Version, built(base))
	if role := r.o.Alone; role != "" {
		if r.o.BuildOnly {
			return nil, nil
		}
		r.kernelRecord(role, base, time.Since(start))
		gk, err := r.guestKernel(ctx, role, baseReq, base)
		return map[string]*guestKernel{role: gk}, err
	}

	s = r.begin("build")
	r.follow(s)
	prev, err := base.Ledger()
	if err != nil {
		return nil, err
	}
	var last *kernel.Kernel
	lastReq := baseReq
	earlier := []kernel.Overlay{}
	total, reused := 0, 0
	before := r.base
	for i, o := range r.overlays {
		p := r.ser.Patches[i]
		s.Update("patch %d of %d: %s", i+1, len(r.overlays), p.Subject)
		q := req(kernel.FromDiff(o), kernel.Patched)
		q.Earlier, q.Ground = slices.Clone(earlier), baseReq.Overlay
		earlier = append(earlier, q.Overlay)
		if i == len(r.overlays)-1 {
			q.Fetch = fetches(r.plan)
		}
		// The documentation checker needs no build; it runs beside make.
		docs := make(chan docResult, 1)
		go func() {
			fs, err := r.newKernelDoc(ctx, p, before, o)
			docs <- docResult{fs, err}
		}()
		start := time.Now()
		k, err := r.kernel(ctx, q)
		doc := <-docs
		if err != nil {
			return nil, r.buildFailed(s, p.Index, err)
		}
		led, err := k.Ledger()
		if err != nil {
			return nil, err
		}
		b := r.buildRecord(p.Index, k, time.Since(start))
		res := append(newWarnings(prev, led, before, o, touched(r.ser)), doc.findings...)
		if doc.err != nil {
			r.o.View.Print("kernel-doc could not be checked for patch %d: %v", p.Index, doc.err)
			r.rec.NotRun = append(r.rec.NotRun, fmt.Sprintf("kernel-doc of patch %d", p.Index))
		}
		before = o
		for _, f := range res {
			f.Where.Patch = p.Index
			f.Source = sourceAround(o, f.Where)
			r.rec.Findings = append(r.rec.Findings, f)
			if f.Severity != checks.Note {
				b.New++
				total++
			}
		}
		r.rec.Builds = append(r.rec.Builds, b)
		if k.Reused {
			reused++
		}
		prev, last, lastReq = led, k, q
	}
	r.kernelRecord(testplans.RolePatched, last, last.Elapsed)
	if err := r.save(); err != nil {
		return nil, err
	}
	objects := 0
	for _, b := range r.rec.Builds {
		if b.Patch > 0 {
			objects += b.Objects
		}
	}
	status, detail := view.OK, fmt.Sprintf("%d patches build with W=1, %d objects compiled, ", len(r.overlays), objects)
	if len(r.overlays) == 1 {
		detail = fmt.Sprintf("the patch builds with W=1, %d objects compiled, ", objects)
	}
	if total == 0 {
		detail += "no new warnings"
	} else {
		detail += fmt.Sprintf("%d new warnings", total)
		status = view.Failed
	}
	if reused == len(r.overlays) && status == view.OK {
		status = view.Reused
	}
	s.End(status, "%s", detail)
	if r.o.BuildOnly {
		return nil, nil
	}
	out := map[string]*guestKernel{}
	for role, x := range map[string]struct {
		k *kernel.Kernel
		q kernel.Request
	}{testplans.RoleBase: {base, baseReq}, testplans.RolePatched: {last, lastReq}} {
		gk, err := r.guestKernel(ctx, role, x.q, x.k)
		if err != nil {
			return nil, err
		}
		out[role] = gk
	}
	return out, nil
}

// Space that a build needs in the cache. A first one copies the sources and
// compiles everything; later ones replace objects.
var (
	roomFirst int64 = 3 << 30
	roomLater int64 = 1 << 30
)

// kernel takes a kernel from the cache or builds it. Room is looked at before
// anything is started, and a build that was killed for want of memory is tried
// once more with half the jobs.
func (r *runner) kernel(ctx context.Context, q kernel.Request) (*kernel.Kernel, error) {
	if _, err := r.store.Lookup(ctx, q); err == nil {
		return r.store.Kernel(ctx, q)
	}
	if err := r.room(); err != nil {
		return nil, err
	}
	k, err := r.store.Kernel(ctx, q)
	jobs := cmp.Or(r.store.Jobs, runtime.NumCPU())
	if !killed(err) || ctx.Err() != nil {
		return k, err
	}
	r.store.Jobs = max(1, jobs/2)
	r.note(fmt.Sprintf("%s; building once more with %s", firstLine(err), plural(r.store.Jobs, "job", "jobs")))
	k, err = r.store.Kernel(ctx, q)
	if killed(err) && ctx.Err() == nil {
		err = fmt.Errorf("twice, the second time with %s: %w", plural(r.store.Jobs, "job", "jobs"), err)
	}
	return k, err
}

// room says that the cache's file system has too little space for a build.
func (r *runner) room() error {
	need := roomLater
	if ws, err := os.ReadDir(r.cache.Path("work")); err != nil || len(ws) == 0 {
		need = roomFirst
	}
	free, err := cache.FreeBytes(r.cache.Root())
	if err != nil || free >= need {
		return nil // what cannot be told is found out by trying
	}
	return &stop{checks.Infra, fmt.Sprintf("a build needs about %.1f GiB in %s and there are %.1f GiB; free some, or run `patchcheck gc`, or set PATCHCHECK_CACHE to a folder elsewhere",
		float64(need)/(1<<30), r.cache.Root(), float64(free)/(1<<30))}
}

// killed says that a build ended because one of its programs was killed or got
// no memory.
func killed(err error) bool {
	var ie *kernel.InfraError
	return errors.As(err, &ie) && strings.Contains(ie.What, "was killed")
}

// progress shows lines in a step. That this run waits for another one is said
// on a pipe, too, where a running step shows nothing.
func (r *runner) progress(s *view.Step) func(string) {
	return func(l string) {
		if strings.HasPrefix(l, "waiting for ") {
			r.o.View.Print("%s", l)
		}
		s.Update("%s", l)
	}
}

// follow shows make's progress in a step.
func (r *runner) follow(s *view.Step) {
	r.store.Notify = r.progress(s)
	r.store.Progress = func(p kernel.Progress) {
		if p.Expected > 0 {
			s.Update("%d%%  %s", min(99, p.Steps*100/p.Expected), p.Line)
		} else {
			s.Update("%d steps  %s", p.Steps, p.Line)
		}
	}
}

func built(k *kernel.Kernel) string {
	if k.Reused {
		return "built " + k.Built.Format("2006-01-02 15:04")
	}
	return fmt.Sprintf("%d objects", len(k.Objects))
}

func (r *runner) kernelRecord(role string, k *kernel.Kernel, d time.Duration) {
	r.rec.Kernels[role] = runfolder.Kernel{Role: role, Key: k.Key, Release: k.Release, Compiler: k.Toolchain.Version,
		Config: k.ConfigSHA, Image: k.ImageSHA, Reused: k.Reused, Elapsed: d, Objects: len(k.Objects)}
	r.rec.Tools["compiler"] = k.Toolchain.Version
	r.rec.Sandbox = confinement(k.Sandbox)
	r.rec.Note(fmt.Sprintf("# %s kernel", role))
	r.rec.Note(quote(k.Argv))
}

func (r *runner) buildRecord(patch int, k *kernel.Kernel, d time.Duration) runfolder.Build {
	b := runfolder.Build{Patch: patch, OK: true, Reused: k.Reused, Elapsed: d, Make: k.Elapsed}
	if !k.Reused {
		b.Objects = len(k.Objects)
	}
	name := filepath.Join("logs", fmt.Sprintf("build-%d.log", patch))
	if copyFile(k.LogPath(), r.rec.Path(name)) == nil {
		b.Log = name
	}
	return b
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return cache.WriteFile(to, b, 0o644)
}

// buildFailed turns a failed build into findings and a verdict.
func (r *runner) buildFailed(s *view.Step, patch int, err error) error {
	var be *kernel.BuildError
	var me *kernelconfigs.MissingError
	switch {
	case errors.As(err, &be):
		rule, v := ruleBuild, checks.Fail
		if patch == 0 {
			rule, v = ruleBaseBuild, checks.BaseFails
		}
		f := rule.New(checks.Where{Patch: patch}, "%s", firstLine(be))
		f.Evidence = be.Lines
		r.rec.Findings = append(r.rec.Findings, f)
		b := runfolder.Build{Patch: patch, Objects: len(be.Objects), Elapsed: be.Elapsed}
		name := filepath.Join("logs", fmt.Sprintf("build-%d.log", patch))
		if copyFile(be.Log, r.rec.Path(name)) == nil {
			b.Log = name
		}
		r.rec.Builds = append(r.rec.Builds, b)
		what := fmt.Sprintf("patch %d does not build", patch)
		if patch == 0 {
			what = "the base does not build"
		}
		s.End(view.Failed, "%s: %s", what, firstLine(be))
		return &stop{v, what + ": " + firstLine(be)}
	case errors.As(err, &me):
		f := ruleConfig.New(checks.Where{Patch: patch}, "%s", firstLine(me))
		f.Evidence = strings.Split(me.Error(), "\n")
		r.rec.Findings = append(r.rec.Findings, f)
		s.End(view.Failed, "%s", firstLine(me))
		if patch == 0 {
			return &stop{checks.Infra, me.Error()}
		}
		return &stop{checks.Fail, fmt.Sprintf("patch %d: %v", patch, me)}
	}
	return err
}

// guestKernel resolves the plan's probes for a built kernel.
func (r *runner) guestKernel(ctx context.Context, role string, q kernel.Request, k *kernel.Kernel) (*guestKernel, error) {
	if k.Image() == "" {
		return nil, fmt.Errorf("the %s kernel has no boot image", role)
	}
	results, err := r.store.Fetch(ctx, q, k, fetches(r.plan))
	if err != nil {
		return nil, err
	}
	pr, absent, err := probes(r.plan, func(c testplans.Count, path string) (string, error) {
		want := fetchExpr(c, path)
		for _, res := range results {
			if res.Expr == want {
				return res.Fetch, res.Err
			}
		}
		return "", fmt.Errorf("no answer for %v", want)
	})
	if err != nil {
		return nil, &stop{checks.Infra, fmt.Sprintf("%s kernel: %v", role, err)}
	}
	rec := r.rec.Kernels[role]
	rec.Absent = absent
	r.rec.Kernels[role] = rec
	return &guestKernel{role: role, key: k.Key, release: k.Release, image: k.Image(), config: k.ConfigPath(), probes: pr, absent: absent, lines: r.linesOf(k), source: r.sourceOf(q), touched: touched(r.ser)}, nil
}

// noMember says that a kernel lacks a struct member, which a plan may allow.
func noMember(err error) bool {
	var nm *kernel.NoMemberError
	return errors.As(err, &nm)
}

// docResult is what the documentation checker gave for one patch.
type docResult struct {
	findings []checks.Finding
	err      error
}

// confinement words how a build was confined.
func confinement(s kernel.Sandbox) string {
	if s.Enabled {
		return "bubblewrap"
	}
	return "none: " + s.Reason
}
