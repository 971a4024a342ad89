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
	"patchcheck/vm"
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
	leave, err := r.enter()
	if err != nil {
		return 0, err
	}
	defer leave()
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
	if err := r.readPlan(); err != nil {
		return nil, err
	}
	if err := r.readSeries(ctx); err != nil {
		return nil, err
	}
	if err := r.openStores(); err != nil {
		return nil, err
	}
	if err := r.resolveTree(ctx, nil); err != nil {
		return nil, err
	}
	defer r.tree.Close()
	all, err := r.stack(ctx, base)
	if err != nil {
		return nil, err
	}
	for _, x := range all {
		switch {
		case x.res.Applies:
		case x.companion != "":
			return nil, r.misfit(x)
		default:
			return nil, &stop{checks.Fail, fmt.Sprintf("patch %d does not apply to %s: %s", x.patch.Index, r.tree, strings.TrimSpace(x.res.Reason))}
		}
	}
	o, role := r.base, kernel.Base
	if n := len(r.overlays); !base && n > 0 {
		o, role = r.overlays[n-1], kernel.Patched
	}
	req := kernel.Request{Tree: r.tree, Config: r.cfg, Overlay: kernel.FromDiff(o), Role: role, W: "1"}
	k, err := r.store.Lookup(ctx, req)
	if err != nil {
		s := r.begin("build")
		r.follow(s)
		if k, err = r.kernel(ctx, req); err != nil {
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
		return nil, err
	}
	acc, err := vm.Probe(ctx, vm.ProbeOptions{Want: want, Kernel: k.Image(), CacheFile: r.cache.Path("accel.json")})
	if err != nil {
		return nil, err
	}
	p := r.plan
	return vm.Boot(ctx, vm.Config{Kernel: k.Image(), KernelConfig: k.ConfigPath(), Initrds: []string{img.Path}, Append: p.Guest.Append,
		CPUs: p.Guest.CPUs, MemMiB: int(p.Guest.Memory >> 20), Accel: acc.Accel, Slow: float64(max(1, p.Slow)), InfoLog: func(l string) { r.o.View.Print("%s", l) }})
}
