// SPDX-License-Identifier: Apache-2.0

//go:build integration

package run

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/guestproto"
	"patchcheck/internal/runfolder"
	"patchcheck/internal/view"
	"patchcheck/patches"
	"patchcheck/patches/bundled"
	"patchcheck/testplans"
)

// variant is the bundled series with a comment that no run has seen, so that
// its kernel has to be built.
func variant(b *testing.B) *patches.Series {
	b.Helper()
	mails, err := bundled.Series(bundled.Example)
	if err != nil {
		b.Fatal(err)
	}
	mark := fmt.Sprintf("/* bytes, per Send WR %d */", time.Now().UnixNano())
	text := strings.ReplaceAll(string(joinMails(mails)), "/* bytes, per Send WR */", mark)
	if !strings.Contains(text, mark) {
		b.Fatal("the bundled series no longer has the comment that this benchmark changes")
	}
	s, err := patches.Load(context.Background(), []string{"-"}, patches.LoadOptions{Stdin: strings.NewReader(text)})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkWarm compares a whole run, from command to table, with what nobody
// could avoid: make alone for each patch, and a guest that does the same I/O
// with no probes, no checks and no report. The base is in the cache. It prints
// the ratio.
func BenchmarkWarm(b *testing.B) {
	for range b.N {
		o := Options{Plan: "svcrdma-inline", Tree: "debian:linux-source-7.3", CacheDir: e2eCache, RunsDir: b.TempDir(), Agent: e2eAgent,
			Accel: "auto", Tool: "bench", View: view.New(nil), Series: variant(b)}
		start := time.Now()
		r, err := Run(context.Background(), o)
		if err != nil {
			b.Fatal(err)
		}
		whole := time.Since(start)
		if r.Verdict != checks.Pass {
			b.Fatalf("%s: %s", r.Verdict, r.Reason)
		}
		var mk time.Duration
		for _, x := range r.Builds {
			if x.Patch > 0 && !x.Reused {
				mk += x.Make
			}
		}
		bare := bareGuest(b, o, r)
		b.ReportMetric(whole.Seconds(), "s/run")
		b.ReportMetric(mk.Seconds(), "s/make")
		b.ReportMetric(bare.Seconds(), "s/bare-guest")
		b.ReportMetric(whole.Seconds()/(mk+bare).Seconds(), "ratio")
	}
}

// bareGuest boots the same kernel and does the I/O of the cells that the run
// had to run.
func bareGuest(b *testing.B, o Options, r *runfolder.Run) time.Duration {
	b.Helper()
	ctx := context.Background()
	o.View = view.New(nil)
	rn := &runner{o: o}
	start := time.Now()
	g, err := rn.shellGuest(ctx, false)
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	p, err := testplans.Load(o.Plan)
	if err != nil {
		b.Fatal(err)
	}
	call := func(verb string, req any) {
		b.Helper()
		if err := g.Call(ctx, verb, req, nil, nil); err != nil {
			b.Fatalf("%s: %v", verb, err)
		}
	}
	call(guestproto.VerbNFSStart, guestproto.NFSStart{Export: p.Server.Export, ExportFS: p.Server.FS, SizeMiB: int(p.Server.Size >> 20),
		Versions: p.Axes.NFS, Threads: p.Server.Threads, Address: p.Fabric.Address, Netdev: p.Fabric.Netdev})
	for _, c := range r.Cells {
		if c.Reused != "" {
			continue
		}
		params := map[string]string{}
		for k, v := range c.Spec.Device.Params {
			params[k] = fmt.Sprint(int64(v))
		}
		call(guestproto.VerbLinkSet, guestproto.LinkSet{Name: p.Fabric.Link, Type: p.Fabric.Type, Netdev: p.Fabric.Netdev, Module: p.Fabric.Module, Params: params})
		call(guestproto.VerbNFSListen, guestproto.NFSListen{Proto: p.Fabric.Proto, Port: p.Fabric.Port})
		m := guestproto.Mount{Server: "192.0.2.1", Path: "/", At: "/mnt", Version: c.Spec.NFS, Proto: p.Fabric.Proto, Port: p.Fabric.Port}
		if c.Spec.NFS == "3" {
			m.Path, m.Options = p.Server.Export, []string{"nolock"}
		}
		call(guestproto.VerbMount, m)
		for _, w := range p.Workload {
			if f := w.File; f != nil {
				io := guestproto.IO{Path: "/mnt/bare/" + w.Name, Size: int64(f.Size), Block: int(f.Write), Direct: f.Direct, Parallel: f.Parallel, Sync: true}
				call(guestproto.VerbWrite, io)
				for _, bs := range f.Read {
					call(guestproto.VerbDrop, nil)
					io.Block = int(bs)
					call(guestproto.VerbRead, io)
				}
				continue
			}
			fs := guestproto.Files{Dir: "/mnt/bare/" + w.Name, Count: w.Files.Count, MinSize: int64(w.Files.Min), MaxSize: int64(w.Files.Max)}
			call(guestproto.VerbFiles, fs)
			call(guestproto.VerbDrop, nil)
			fs.Check = true
			call(guestproto.VerbFiles, fs)
		}
		call(guestproto.VerbRemove, guestproto.Remove{Dir: "/mnt/bare"})
		call(guestproto.VerbUmount, guestproto.Umount{At: "/mnt"})
		call(guestproto.VerbLinkDel, guestproto.LinkDel{Name: p.Fabric.Link})
	}
	g.Close()
	return time.Since(start)
}

// BenchmarkShell compares `patchcheck shell -- uname -r` with a bare boot of
// the same kernel; package vm has the finer ones.
func BenchmarkShell(b *testing.B) {
	for range b.N {
		o := Options{Plan: "svcrdma-inline", Tree: "debian:linux-source-7.3", CacheDir: e2eCache, RunsDir: b.TempDir(), Agent: e2eAgent, Accel: "auto", View: view.New(nil)}
		start := time.Now()
		var out bytes.Buffer
		if _, err := Shell(context.Background(), o, ShellOptions{Command: "uname -r", Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out}); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(start).Seconds(), "s/shell")
	}
}
