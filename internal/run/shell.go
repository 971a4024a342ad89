// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"patchcheck/checks"
	"patchcheck/internal/kernel"
	"patchcheck/internal/view"
	kernelconfigs "patchcheck/kernel-configs"
	"patchcheck/patches/diff"
	"patchcheck/testplans"
	"patchcheck/vm"

	"patchcheck/internal/cache"
)

// ShellOptions say what runs in the guest.
type ShellOptions struct {
	Base           bool   // the base kernel instead of the patched one
	Command        string // for /bin/sh; empty: an interactive shell
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Shell boots one guest of the series' kernel, runs a command or a shell in it
// and returns its exit code. Kernel and image come from the cache or are
// built now.
func Shell(ctx context.Context, o Options, so ShellOptions) (int, error) {
	r := &runner{o: o}
	if r.o.View == nil {
		r.o.View = view.New(nil)
	}
	defer r.o.View.Close()
	g, err := r.shellGuest(ctx, so.Base)
	if err != nil {
		var st *stop
		if errors.As(err, &st) && st.verdict == checks.Infra {
			return 0, &vm.InfraError{What: st.reason}
		}
		return 0, err
	}
	defer g.Close()
	r.o.View.Close()
	st, err := g.Shell(ctx, vm.ShellOptions{Command: so.Command, Stdin: so.Stdin, Stdout: so.Stdout, Stderr: so.Stderr})
	if err != nil {
		return 0, err
	}
	return st.Exit, nil
}

func (r *runner) shellGuest(ctx context.Context, base bool) (*vm.Guest, error) {
	p, err := testplans.Load(r.o.Plan)
	if err != nil {
		return nil, err
	}
	if r.o.Debug {
		if p, err = p.WithDebug(); err != nil {
			return nil, &testplans.Error{Name: r.o.Plan, Msgs: []string{"  " + err.Error()}}
		}
	}
	r.plan = p
	if r.ser, err = LoadSeries(ctx, r.o.Sources, r.o.Stdin, r.o.Repo); err != nil {
		return nil, err
	}
	m, err := kernelconfigs.LoadAll(p.Kernel.Configs...)
	if err != nil {
		return nil, err
	}
	r.cfg = kernel.Config{Fragments: m}
	if r.cache, err = cache.Open(r.o.CacheDir); err != nil {
		return nil, err
	}
	r.store = &kernel.Store{Cache: r.cache, NoSandbox: r.o.NoSandbox}
	if r.tree, err = kernel.Resolve(ctx, r.cache, r.o.Tree, kernel.TreeOptions{Base: r.o.Base, SeriesBase: r.ser.BaseCommit}); err != nil {
		return nil, err
	}
	defer r.tree.Close()
	o, err := r.overlay(ctx, base)
	if err != nil {
		return nil, err
	}
	role := kernel.Patched
	if base {
		role = kernel.Base
	}
	req := kernel.Request{Tree: r.tree, Config: r.cfg, Overlay: kernel.FromDiff(o), Role: role, W: "1"}
	k, err := r.store.Lookup(ctx, req)
	if err != nil {
		s := r.begin("build")
		r.follow(s)
		if k, err = r.store.Kernel(ctx, req); err != nil {
			s.End(view.Failed, "%s", firstLine(err))
			return nil, err
		}
		s.End(view.OK, "linux %s", k.Release)
	}
	img, err := r.buildImage(ctx, nil)
	if err != nil {
		return nil, err
	}
	want, err := vm.ParseAccel(r.accel())
	if err != nil {
		return nil, &testplans.Error{Name: "--accel", Msgs: []string{"  " + err.Error()}}
	}
	acc, err := vm.Probe(ctx, vm.ProbeOptions{Want: want, Kernel: k.Image(), CacheFile: r.cache.Path("accel.json")})
	if err != nil {
		return nil, err
	}
	return vm.Boot(ctx, vm.Config{Kernel: k.Image(), KernelConfig: k.ConfigPath(), Initrds: []string{img.Path}, Append: p.Guest.Append,
		CPUs: p.Guest.CPUs, MemMiB: int(p.Guest.Memory >> 20), Accel: acc.Accel, Slow: float64(max(1, p.Slow))})
}

// overlay applies companions and, unless base, the series.
func (r *runner) overlay(ctx context.Context, base bool) (*diff.Overlay, error) {
	o := diff.NewOverlay(r.tree)
	put := func(files []*diff.File, what string) error {
		next, res, err := diff.Apply(o, files, diff.Options{})
		if err != nil {
			return err
		}
		if !res.Applies {
			return &stop{checks.Fail, fmt.Sprintf("%s does not apply to %s: %s", what, r.tree, strings.TrimSpace(res.Reason))}
		}
		o = next
		return nil
	}
	for _, name := range r.plan.Kernel.Companions {
		ps, err := companion(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, p := range ps {
			if err := put(p.Files, "companion "+name); err != nil {
				return nil, err
			}
		}
	}
	if base {
		return o, nil
	}
	for _, p := range r.ser.Patches {
		if err := put(p.Files, fmt.Sprintf("patch %d", p.Index)); err != nil {
			return nil, err
		}
	}
	return o, nil
}
