// SPDX-License-Identifier: Apache-2.0

//go:build integration

package run

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	measure "patchcheck/internal/bench"
	"patchcheck/internal/guestproto"
	"patchcheck/internal/kernel"
	"patchcheck/internal/remote"
	"patchcheck/vm"
	"patchcheck/vm/guestssh"
)

// TestBenchTwoGuests measures between two guests that a socket joins, with rxe
// on virtio-net: a server and a client that share nothing but a wire. Their
// kernel has one symbol more than the others', so it is built once, from
// nothing.
func TestBenchTwoGuests(t *testing.T) {
	if os.Getenv("PATCHCHECK_TWO_GUESTS") == "" {
		t.Skip("set PATCHCHECK_TWO_GUESTS=1; a kernel of its own is built, which takes 10 minutes on an idle machine")
	}
	ctx := context.Background()
	fragment := filepath.Join(t.TempDir(), "virtio-net.config")
	if err := os.WriteFile(fragment, []byte("# SPDX-License-Identifier: GPL-2.0-only\nCONFIG_VIRTIO_NET=y\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := options(t)
	o.Plan = benchPlan(t, "nfs-latency", "configs: [guest, nfs-rdma]", "configs: [guest, nfs-rdma, "+fragment+"]", "netdev: dummy0", "netdev: eth0",
		"number_ios=2000", "number_ios=200", "runs: 3", "runs: 1", "boots: 5", "boots: 1")
	r := &runner{o: o}
	for _, step := range []func() error{r.readPlan, func() error { return r.readSeries(ctx) }, r.openStores, func() error { return r.resolveTree(ctx, nil) },
		func() error { _, err := r.stack(ctx, true); return err }} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	defer r.tree.Close()
	k, err := r.kernel(ctx, kernel.Request{Tree: r.tree, Config: r.cfg, Overlay: kernel.FromDiff(r.base), Role: kernel.Base, W: "1"})
	if err != nil {
		t.Fatal(err)
	}
	img, err := r.buildImage(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	acc, err := vm.Probe(ctx, vm.ProbeOptions{Want: vm.Auto, Kernel: k.Image(), CacheFile: r.cache.Path("accel.json")})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "wire") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	p, f := r.plan, r.plan.Fabric
	guest := func(n int, server string) *vm.Guest {
		g, err := vm.Boot(ctx, vm.Config{Kernel: k.Image(), KernelConfig: k.ConfigPath(), Initrds: []string{img.Path}, CPUs: 1, MemMiB: 768, Accel: acc.Accel,
			Args: []string{"-netdev", "stream,id=wire,server=" + server + ",addr.type=unix,addr.path=" + filepath.Join(dir, "s"),
				"-device", fmt.Sprintf("virtio-net-pci,netdev=wire,mac=52:54:00:00:00:%02x", n)}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { g.Close() })
		return g
	}
	call := func(g *vm.Guest, verb string, req any) {
		t.Helper()
		if err := g.Call(ctx, verb, req, nil, nil); err != nil {
			t.Fatalf("%s: %v", verb, err)
		}
	}
	shell := func(g *vm.Guest, command string) string {
		t.Helper()
		var out bytes.Buffer
		st, err := g.Exec(ctx, command, guestssh.IO{Stdout: &out, Stderr: &out})
		if err != nil || !st.OK() {
			t.Fatalf("%s: %v %v\n%s", command, st, err, out.String())
		}
		return out.String()
	}
	server, client := guest(1, "on"), guest(2, "off")
	call(server, guestproto.VerbNFSStart, guestproto.NFSStart{Export: p.Server.Export, ExportFS: p.Server.FS, SizeMiB: 16, Versions: p.Axes.NFS, Threads: p.Server.Threads,
		Address: f.Address, Netdev: f.Netdev})
	shell(client, "ip link set lo up && ip addr add 192.0.2.2/24 dev eth0 && ip link set eth0 up && ping -c 1 -W 10 192.0.2.1")
	for _, g := range []*vm.Guest{server, client} {
		call(g, guestproto.VerbLinkSet, guestproto.LinkSet{Name: f.Link, Type: f.Type, Netdev: f.Netdev})
	}
	call(server, guestproto.VerbNFSListen, guestproto.NFSListen{Proto: f.Proto, Port: f.Port})

	e, err := NewRemote(ctx, o, RemoteOptions{Server: "ssh://root@server", Client: "ssh://root@client", Address: "192.0.2.1", Arm: measure.Base})
	if err != nil {
		t.Fatal(err)
	}
	e.b.Dial = func(ctx context.Context, target remote.Target, _ remote.Options) (*remote.Host, error) {
		g := map[string]*vm.Guest{"server": server, "client": client}[target.Host]
		return remote.NewHost(target, func(ctx context.Context, stdin, command string) (string, string, int, error) {
			var out, errout bytes.Buffer
			st, err := g.Exec(ctx, command, guestssh.IO{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errout})
			return out.String(), errout.String(), st.Exit, err
		}), nil
	}
	rec := e.Record()
	if err := rec.Prepare(e.Folder(), rec.Design); err != nil {
		t.Fatal(err)
	}
	err = e.Conduct(ctx, follower{t})
	if !strings.Contains(errText(err), `the next boot is one of the arm "patched"`) {
		t.Fatalf("%v", err)
	}
	if err := e.End(ctx, err); err != nil {
		t.Fatal(err)
	}
	if n := len(rec.Boots); n != 1 || rec.Boots[0].Rejected != "" || !strings.Contains(rec.Mount, "proto=rdma") {
		t.Errorf("boots %+v, mount %q", rec.Boots, rec.Mount)
	}
	if left := shell(server, "ls /run; exportfs -s") + shell(client, "ls /run"); strings.Contains(left, "patchcheck-") {
		t.Errorf("left behind: %s", left)
	}
}
