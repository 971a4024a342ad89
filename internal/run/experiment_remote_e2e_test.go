// SPDX-License-Identifier: Apache-2.0

//go:build integration

package run

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	measure "patchcheck/internal/bench"
	"patchcheck/internal/guestproto"
	"patchcheck/internal/remote"
	"patchcheck/internal/view"
	"patchcheck/testplans"
	"patchcheck/vm"
	"patchcheck/vm/guestssh"
)

// TestBenchRemote measures on a guest that plays both machines, through its
// shell alone, as on machines that have none of our programs.
func TestBenchRemote(t *testing.T) {
	ctx := context.Background()
	o := options(t)
	o.Plan = benchPlan(t, "nfs-latency", "companions: [rxe-device]", "companions: [rxe-device, xprtrdma-inline]",
		"number_ios=2000", "number_ios=100", "runs: 3", "runs: 1", "boots: 5", "boots: 1")
	rn := &runner{o: o}
	rn.o.View = view.New(nil)
	g, err := rn.shellGuest(ctx, true)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	p, err := testplans.Load(o.Plan)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{g: g, plan: p}
	if err := b.start(ctx); err != nil {
		t.Fatal(err)
	}
	e := overShells(t, o, g, g)
	// Before there is a link, what is missing is said and nothing is done.
	_, _, err = e.Look(ctx)
	if err == nil || !strings.Contains(err.Error(), "no RDMA device") || !strings.Contains(err.Error(), "nfsd has no rdma listener (20049 wanted)") {
		t.Errorf("not ready: %v", err)
	}
	f := p.Fabric
	if err := g.Call(ctx, guestproto.VerbLinkSet, guestproto.LinkSet{Name: f.Link, Type: f.Type, Netdev: f.Netdev, Module: f.Module}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := g.Call(ctx, guestproto.VerbNFSListen, guestproto.NFSListen{Proto: f.Proto, Port: f.Port}, nil, nil); err != nil {
		t.Fatal(err)
	}
	sf, _, err := e.Look(ctx)
	if err != nil || sf.Threads == nil || *sf.Threads != p.Server.Threads || !strings.Contains(sf.Versions, "+3") || sf.Transport == nil || !*sf.Transport {
		t.Errorf("facts of a ready server: %v, %+v", err, sf)
	}
	got := firstBoot(t, e)
	if len(got.Boots) != 1 || got.Boots[0].Rejected != "" || len(got.Boots[0].Runs) != 2 {
		t.Fatalf("boots: %+v", got.Boots)
	}
	h := got.Hosts
	if len(h) != 2 || !strings.HasPrefix(h[0].Kernel, "7.") || !strings.Contains(h[0].Link, "rxe0/1") || !strings.HasPrefix(got.Versions["fio"], "fio-") || !strings.Contains(got.Mount, "proto=rdma") {
		t.Errorf("hosts %+v, fio %v, mount %q", h, got.Versions, got.Mount)
	}
	nothingLeft(t, g)

	// nfsd without NFSv3 is asked for NFSv3: mount.nfs has one message for
	// several causes, and the facts tell which it is.
	var out bytes.Buffer
	st, err := g.Exec(ctx, "PATH=$PATH:/usr/sbin:/sbin; rpc.nfsd 0 && rpc.nfsd --no-nfs-version 3 2 && echo 'rdma 20049' > /proc/fs/nfsd/portlist", guestssh.IO{Stderr: &out})
	if err != nil || !st.OK() {
		t.Fatalf("restart of nfsd: %v %v: %s", err, st, out.String())
	}
	e = overShells(t, o, g, g)
	rec := e.Record()
	if err := rec.Prepare(e.Folder(), rec.Design); err != nil {
		t.Fatal(err)
	}
	err = e.Conduct(ctx, follower{t})
	var me *remote.MountError
	if !errors.As(err, &me) || !strings.Contains(err.Error(), "version: the server does not serve NFSv3 (it has ") || !strings.Contains(err.Error(), "mount.nfs: ") {
		t.Errorf("a mount of a version that is off: %v", err)
	}
	t.Log(err)
	if err := e.End(ctx, err); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, g)
}

// overShells prepares a measurement on guests that are reached through their
// shells alone, as machines are that have none of our programs.
func overShells(t *testing.T, o Options, server, client *vm.Guest) *RemoteExperiment {
	t.Helper()
	e, err := NewRemote(context.Background(), o, RemoteOptions{Server: "ssh://root@server", Client: "ssh://root@client", Address: "192.0.2.1", Arm: measure.Base})
	if err != nil {
		t.Fatal(err)
	}
	e.b.Dial = func(_ context.Context, target remote.Target, _ remote.Options) (*remote.Host, error) {
		g := map[string]*vm.Guest{"server": server, "client": client}[target.Host]
		return remote.NewHost(target, func(ctx context.Context, stdin, command string) (string, string, int, error) {
			var out, errout bytes.Buffer
			st, err := g.Exec(ctx, command, guestssh.IO{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errout})
			return out.String(), errout.String(), st.Exit, err
		}), nil
	}
	return e
}

// firstBoot measures the boot that runs, up to where another kernel is needed,
// and reads the record back.
func firstBoot(t *testing.T, e *RemoteExperiment) *measure.Experiment {
	t.Helper()
	ctx := context.Background()
	rec := e.Record()
	if err := rec.Prepare(e.Folder(), rec.Design); err != nil {
		t.Fatal(err)
	}
	err := e.Conduct(ctx, follower{t})
	var nb *remote.NeedsBootError
	if !errors.As(err, &nb) || nb.Arm != measure.Patched {
		t.Fatalf("the boot of the other arm is not asked for: %v", err)
	}
	if err := e.End(ctx, err); err != nil {
		t.Fatal(err)
	}
	got, err := measure.Open(e.Folder())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// nothingLeft looks for what a measurement made on a machine and did not take
// back.
func nothingLeft(t *testing.T, g *vm.Guest) {
	t.Helper()
	var out bytes.Buffer
	if _, err := g.Exec(context.Background(), "ls /run; exportfs -s; cat /proc/self/mounts", guestssh.IO{Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "patchcheck-") {
			t.Errorf("left behind: %s", line)
		}
	}
}
