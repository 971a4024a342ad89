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

	"patchcheck/internal/guestproto"
	"patchcheck/internal/kernel"
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

	got := firstBoot(t, overShells(t, o, server, client))
	if len(got.Boots) != 1 || got.Boots[0].Rejected != "" || len(got.Boots[0].Runs) != 2 || !strings.Contains(got.Mount, "proto=rdma") {
		t.Errorf("boots %+v, mount %q", got.Boots, got.Mount)
	}
	nothingLeft(t, server)
	nothingLeft(t, client)
}
