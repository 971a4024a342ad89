// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"patchcheck/internal/bench"
	"patchcheck/internal/proc"
	"patchcheck/internal/remote"
	"patchcheck/internal/run"
)

// hostFlags are those of a measurement on two machines of the user's.
type hostFlags struct {
	o run.RemoteOptions
}

func (h *hostFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&h.o.Server, "server", "", "measure on real machines: the NFS server, ssh://[USER@]HOST[:PORT]; kernels are yours to boot")
	fl.StringVar(&h.o.Client, "client", "", "with --server: the NFS client")
	fl.StringVar(&h.o.Address, "server-address", "", "with --server: its address on the fabric (default: the name that SSH uses)")
	fl.StringVar(&h.o.Arm, "arm", "", "with --server: whose kernel runs now (base, patched), when nobody is there to be asked")
	fl.BoolVar(&h.o.SameBoot, "same-boot", false, "with --server: measurements of one boot count as boots; their interval is too narrow")
	fl.StringSliceVar(&h.o.SSH.Identities, "identity", nil, "with --server: private keys (default: ssh-agent and those in ~/.ssh)")
	fl.StringSliceVar(&h.o.SSH.KnownHosts, "known-hosts", nil, "with --server: files of known host keys (default: ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts)")
}

// asked says whether real machines are meant.
func (h *hostFlags) asked() (bool, error) {
	if h.o.Server == "" && h.o.Client == "" {
		if h.o.Arm != "" || h.o.Address != "" || h.o.SameBoot {
			return false, usageError("--arm, --server-address and --same-boot are for --server and --client")
		}
		return false, nil
	}
	if h.o.Server == "" || h.o.Client == "" {
		return false, usageError("--server and --client go together")
	}
	return true, nil
}

// benchHosts measures on two machines; what is not said on the command line is
// the plan's.
func (a *app) benchHosts(ctx context.Context, f *benchFlags, h *hostFlags, o run.Options) error {
	ro := h.o
	ro.AA, ro.Arms = f.aa, f.arms
	if file, ok := a.stdin.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		ro.Ask = a.askForBoot
	}
	if f.resume != "" {
		old, err := a.openBench(f.resume)
		if err != nil {
			return err
		}
		ro.Resume = old.Dir()
	}
	e, err := run.NewRemote(ctx, o, ro)
	if err != nil {
		return err
	}
	rec := e.Record()
	if ro.Resume == "" {
		err = f.prepare(rec, e.Folder(), nil)
	}
	if err == nil {
		follow := &benchView{w: a.stderr, arms: len(rec.Arms), budget: rec.Design.Budget}
		follow.begin(rec)
		err = e.Conduct(ctx, follow)
	}
	if eerr := e.End(ctx, err); eerr != nil && err == nil {
		err = eerr
	}
	var nb *remote.NeedsBootError
	waits := errors.As(err, &nb)
	if waits {
		fmt.Fprintln(a.stderr, nb.Text)
	}
	if remote.ForUser(err) || ctx.Err() != nil {
		line := []string{"patchcheck", "bench", "--server", ro.Server, "--client", ro.Client, "--resume", rec.ID}
		if waits {
			line = append(line, "--arm", nb.Arm)
		} else if ro.Arm != "" {
			line = append(line, "--arm", ro.Arm)
		}
		if a.runs != "" {
			line = append(line, "--out", a.runs)
		}
		fmt.Fprintf(a.stderr, "To go on from there:  %s\n", proc.Quote(line))
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case waits:
		return &exitError{exitInfra, "nothing can be said yet: the measurement waits for a boot"}
	case err != nil:
		return &exitError{exitInfra, err.Error()}
	}
	an, err := bench.Analyse(rec)
	if err != nil {
		return err
	}
	if err := a.keepReports(e.Folder(), an); err != nil {
		return err
	}
	if err := bench.Write(a.stdout, an, f.format.format); err != nil {
		return err
	}
	return benchExit(an)
}

// askForBoot waits until the user has booted a machine.
func (a *app) askForBoot(ctx context.Context, text string) error {
	fmt.Fprintf(a.stderr, "%s.\nPress Enter when it runs; Ctrl-C ends, to go on later. ", text)
	line := make(chan error, 1)
	go func() {
		_, err := bufio.NewReader(a.stdin).ReadString('\n')
		line <- err
	}()
	select {
	case err := <-line:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
