// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchcheck/checks"
	"patchcheck/checks/counts"
	"patchcheck/internal/guestproto"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
	"patchcheck/vm"
)

// caller is the part of a guest that a cell needs.
type caller interface {
	Call(ctx context.Context, verb string, req, resp any, onLog func(string)) error
}

// Rules of the guest's steps.
var Rules = []checks.Rule{ruleContents, ruleStep, ruleHang, ruleDied, ruleSlowCall, ruleBoot, ruleMemory, ruleTime, ruleCallback, ruleTransport, ruleLeft, ruleLogCut, ruleEmulator, ruleNoMemory, ruleInfra, ruleApply, ruleBuild, ruleBaseBuild, ruleConfig, ruleQuarantine, ruleQuarantineOver}

var (
	ruleContents = checks.Rule{ID: "contents.differ", Severity: checks.Error,
		Title:  "data read back differs from what was written",
		Source: "the plan's workload; content is a function of seed and offset",
		Fix:    "the first differing offset and the bytes around it are in the evidence; which side was read is in the message"}
	ruleStep = checks.Rule{ID: "guest.step", Severity: checks.Error,
		Title:  "a step in the guest failed",
		Source: "the plan's workload", Fix: "the console and the step's own output are in the run folder"}
	ruleHang = checks.Rule{ID: "guest.hang", Severity: checks.Error,
		Title:  "a step did not finish before its deadline",
		Source: "the plan's workload", Fix: "the tasks' stacks are in the console log"}
	ruleDied = checks.Rule{ID: "guest.died", Severity: checks.Error,
		Title:  "the guest ended during a step",
		Source: "the plan's workload", Fix: "the console's last lines say why"}
	ruleSlowCall = checks.Rule{ID: "guest.slow-call", Severity: checks.Error,
		Title:  "one I/O call took as long as a retransmission",
		Source: "RFC 8166 3.3; the client retransmits after 60 s",
		Fix:    "an RPC had no Reply: data is right in the end, time is not"}
	ruleBoot = checks.Rule{ID: "guest.boot", Severity: checks.Error,
		Title:  "the kernel did not boot",
		Source: "the guest's console", Fix: "the console's last lines say how far it came"}
	ruleMemory = checks.Rule{ID: "memory.growth", Severity: checks.Error,
		Title:  "kernel memory grows from cell to cell",
		Source: "/proc/meminfo SUnreclaim, /proc/slabinfo",
		Fix:    "run with --debug: kmemleak names the allocation"}
	ruleTime = checks.Rule{ID: "time.slower", Severity: checks.Error,
		Title:  "the same workload takes much longer than on the base kernel",
		Source: "the same cell on both kernels, repeated",
		Fix:    "patchcheck bench measures how much"}
	ruleCallback = checks.Rule{ID: "guest.callback", Severity: checks.Error,
		Title:  "the server cannot call the client back",
		Source: "RFC 8881, section 20.2 (CB_RECALL); /proc/fs/nfsd/clients/*/states",
		Fix:    "look at what the series does to Calls of the backchannel, which are Sends of the server, too"}
	ruleTransport = checks.Rule{ID: "guest.transport", Severity: checks.Error,
		Title:  "the mount does not use the transport or version of the plan",
		Source: "/proc/self/mountstats", Fix: "a workload over TCP proves nothing about RDMA"}
	ruleLeft = checks.Rule{ID: "guest.left-behind", Severity: checks.Error,
		Title:  "a closed connection left RDMA resources behind",
		Source: "rdma resource show (rdma-resource(8)), before the mount and after the umount",
		Fix:    "a reference is not dropped, or a queue pair not destroyed"}
	ruleLogCut = checks.Rule{ID: "guest.log-cut", Severity: checks.Note,
		Title:  "the console's log in the run folder is not whole",
		Source: "the guest's console; what was shown was judged all the same",
		Fix:    "a kernel that floods its console, or a full disk"}
	ruleEmulator = checks.Rule{ID: "emulator.infra", Severity: checks.Error,
		Title:  "the guest died of a fault of its emulator; this says nothing about the series",
		Source: "QEMU before 8.1, TCG with several CPUs: code that the kernel patches may be executed as it was",
		Fix:    "the cell runs again by itself; a newer QEMU, or KVM, does not do this"}
	ruleNoMemory = checks.Rule{ID: "guest.memory", Severity: checks.Error,
		Title:  "the guest ran out of memory",
		Source: "the OOM killer's first line on the guest's console",
		Fix:    "give it more (guest.memory in the plan); where the base kernel has enough, look for a leak"}
	ruleInfra = checks.Rule{ID: "infra", Severity: checks.Error,
		Title:  "patchcheck, the host or the guest image failed; this says nothing about the series",
		Source: "-", Fix: "see the message; patchcheck doctor checks the host"}
)

// Deadlines of steps under TCG with a plain kernel. They exist to end a hang,
// not to measure: each is many times what the step takes there.
const (
	deadlineQuick = 30 * time.Second
	deadlineMount = 60 * time.Second
	deadlineStart = 90 * time.Second
	// An unanswered RPC is sent again after 60 s, so a workload must be
	// given longer than that for the difference to show.
	deadlineIO = 150 * time.Second
	// A guest that hangs whole is not waited for once more.
	deadlineSoFar = 10 * time.Second
	// A scan reads all memory; a debug kernel's factor comes on top.
	deadlineLeaks = 30 * time.Second
	// afterCrash is how long a step goes on when the console shows a crash:
	// long enough for the report to be whole, or for a step that has nothing
	// to do with it to end.
	afterCrash = 5 * time.Second
	// slowCall is far above any call in a healthy guest and below the
	// retransmission interval.
	slowCall = 45 * time.Second
	// slowRecall is a hundred times what a recall takes. Where nobody answers,
	// nfsd takes the delegation away after its lease time, which the guest's
	// server has set to ten seconds.
	slowRecall = 5 * time.Second
	revokes    = 10 * time.Second
)

// A kernel that hangs in one cell mostly hangs in all, and a matrix of hangs, or
// of calls that take their minute, takes half an hour. When so many cells have
// hung or met such a call, those after them get a part of the time for each
// step: the verdict rests on the first ones, which are confirmed with all of it.
const (
	hungBefore = 2
	hungShare  = 4
)

// bench drives cells in one guest.
type bench struct {
	g      caller
	plan   *testplans.Plan
	kernel string   // release
	absent []string // count fields that this kernel lacks
	guest  string   // name of its console log
	seed   uint64
	crash  <-chan struct{}         // closed when the console shows a crash; nil without a console
	hurry  float64                 // see Options
	hung   map[string]bool         // cells that hung, or met a slow call, in this and earlier guests; nil: nobody counts
	before *runfolder.Memory       // of the guest, before its first cell
	hook   func(step string) error // for tests of the oracles: runs in the guest before the named step
	say    func(string)
}

// cellError is a step that failed, with the finding it makes.
type cellError struct {
	finding checks.Finding
	verdict checks.Verdict
	err     error
}

func (e *cellError) Error() string { return e.finding.Message }
func (e *cellError) Unwrap() error { return e.err }

// slowness is the factor of every deadline of a guest.
func slowness(p *testplans.Plan, hurry float64) float64 {
	f := float64(max(1, p.Slow))
	if hurry > 0 {
		f *= hurry
	}
	return f
}

func (b *bench) scale(d time.Duration) time.Duration {
	return time.Duration(float64(d) * slowness(b.plan, b.hurry))
}

// call runs one verb with its own deadline.
func (b *bench) call(ctx context.Context, a *runfolder.Attempt, cell, name, verb string, limit time.Duration, req, resp any) error {
	if b.say != nil {
		b.say(name)
	}
	if b.hook != nil {
		if err := b.hook(name); err != nil {
			return err
		}
	}
	limit = b.scale(limit)
	hung := len(b.hung)
	if b.hung[cell] {
		hung-- // it may go on as it began
	}
	if hung >= hungBefore {
		limit /= hungShare
	}
	start := time.Now()
	sctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go b.expire(sctx, cancel, limit)
	var raw json.RawMessage
	err := b.g.Call(sctx, verb, req, &raw, nil)
	st := runfolder.CellStep{Name: name, Elapsed: time.Since(start), Result: raw}
	if err != nil {
		st.Error = err.Error()
	}
	if verb == guestproto.VerbTraceRead || verb == guestproto.VerbMemory || verb == guestproto.VerbDmesg {
		st.Result = nil // kept in fields of their own
	}
	a.Steps = append(a.Steps, st)
	if err == nil {
		if resp != nil {
			if err := json.Unmarshal(raw, resp); err != nil {
				return b.fail(cell, name, fmt.Errorf("the guest's answer cannot be read: %w", err))
			}
		}
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var he *heldError
	switch cause := context.Cause(sctx); {
	case errors.As(cause, &he):
		return &cellError{ruleInfra.New(checks.Where{Cell: cell}, "%s did not finish within %v, %v", name, time.Since(start).Round(time.Second), he), checks.Infra, err}
	case errors.Is(cause, context.DeadlineExceeded):
		b.sluggish(cell)
		err := b.fail(cell, name, err)
		if ce := (*cellError)(nil); hung >= hungBefore && errors.As(err, &ce) {
			ce.finding.Message += fmt.Sprintf(", which had to do as %d cells before had hung or stalled", hung)
		}
		return err
	case errors.Is(cause, errCrashed):
		return &cellError{ruleDied.New(checks.Where{Cell: cell}, "%s was given up, because the kernel had crashed", name), checks.Fail, err}
	}
	return b.fail(cell, name, err)
}

// sluggish counts a cell among those that hung or met a slow call.
func (b *bench) sluggish(cell string) {
	if b.hung != nil && cell != "" {
		b.hung[cell] = true
	}
}

// errCrashed ends a step because the console showed a crash.
var errCrashed = errors.New("the kernel had crashed")

// heldError ends a step because the host did not let the guest run.
type heldError struct{ hold vm.Hold }

func (e *heldError) Error() string {
	if e.hold.Frozen {
		return "because QEMU was stopped by a signal"
	}
	return fmt.Sprintf("because the host is overloaded: the guest waited %v of it for a CPU", e.hold.Waited.Round(time.Second))
}

// holder is a guest that knows what the host kept from it.
type holder interface{ Hold() vm.Hold }

// expire ends a step that takes longer than limit, not counting what the host
// kept from the guest, or that the kernel crashed under.
func (b *bench) expire(ctx context.Context, end context.CancelCauseFunc, limit time.Duration) {
	hold := func() (h vm.Hold) {
		if g, ok := b.g.(holder); ok {
			h = g.Hold()
		}
		return h
	}
	start, before := time.Now(), hold()
	t := time.NewTimer(limit)
	defer t.Stop()
	crash := b.crash // nil without a console
	for {
		select {
		case <-ctx.Done():
			return
		case <-crash:
			crash = nil
			late := time.AfterFunc(b.scale(afterCrash), func() { end(errCrashed) })
			defer late.Stop()
		case <-t.C:
			h, wall := hold(), time.Since(start)
			h.Waited -= before.Waited
			stretch := vm.Stretch(wall, h.Waited)
			switch left := time.Duration(float64(limit)*stretch) - wall; {
			case h.Frozen, vm.Starved(stretch) && left <= 0:
				end(&heldError{h})
				return
			case left <= 0:
				end(context.DeadlineExceeded)
				return
			default:
				// No longer than limit: the host may give more time from now on.
				t.Reset(max(min(left, limit), 10*time.Millisecond))
			}
		}
	}
}

// fail turns a step's error into a finding and a first verdict. Attribution
// comes later: FAIL here means "not our infrastructure".
func (b *bench) fail(cell, name string, err error) error {
	w := checks.Where{Cell: cell}
	var ge *guestproto.Error
	var died *vm.GuestDied
	var mute *vm.NoAnswer
	switch {
	case errors.As(err, &ge):
		f := ruleStep.New(w, "%s failed: %s", name, ge.Message)
		v := checks.Fail
		switch ge.Class {
		case guestproto.ClassData:
			f = ruleContents.New(w, "%s: %s", name, ge.Message)
		case guestproto.ClassSetup, guestproto.ClassResource, guestproto.ClassUsage:
			f = ruleInfra.New(w, "%s failed in the guest: %s", name, ge.Message)
			v = checks.Infra
		}
		if ge.Detail != "" {
			f.Evidence = strings.Split(strings.TrimRight(ge.Detail, "\n"), "\n")
		}
		if ge.Hint != "" {
			f.Fix = ge.Hint
		}
		return &cellError{f, v, err}
	case errors.As(err, &mute):
		f := ruleHang.New(w, "%s did not finish within %v", name, mute.After.Round(time.Second))
		f.Evidence = mute.ConsoleTail
		return &cellError{f, checks.Fail, err}
	case errors.As(err, &died):
		f := ruleDied.New(w, "the guest died during %s: %s", name, died.Reason)
		f.Evidence = died.ConsoleTail
		v := checks.Fail
		if died.Infra() {
			v = checks.Infra
		}
		return &cellError{f, v, err}
	}
	return &cellError{ruleInfra.New(w, "%s: %v", name, err), checks.Infra, err}
}

// start brings the server up; once per guest.
func (b *bench) start(ctx context.Context) error {
	p := b.plan
	a := &runfolder.Attempt{}
	if err := b.call(ctx, a, "", "start nfsd", guestproto.VerbNFSStart, deadlineStart, guestproto.NFSStart{
		Export: p.Server.Export, ExportFS: p.Server.FS, SizeMiB: int(p.Server.Size >> 20),
		Versions: p.Axes.NFS, Threads: p.Server.Threads, Address: p.Fabric.Address, Netdev: p.Fabric.Netdev,
	}, nil); err != nil {
		return err
	}
	return nil
}

// probes translates the plan's counts; fetch gives the fetch argument of a
// member path.
func probes(p *testplans.Plan, fetch func(c testplans.Count, path string) (string, error)) (probes []guestproto.Probe, absent []string, err error) {
	for _, c := range p.Count {
		pr := guestproto.Probe{Name: c.Name, Tracepoint: c.Tracepoint, Event: c.Event, Function: c.Function, Return: c.Return, Filter: c.Filter, Size: c.Entries}
		gone := map[string]bool{}
		for _, f := range sortedKeys(c.Fields) {
			path := c.Fields[f]
			if !testplans.RawFetch(path) {
				got, err := fetch(c, path)
				if err != nil {
					if slices.Contains(c.Optional, f) && noMember(err) {
						gone[f] = true
						absent = append(absent, c.Name+"."+f)
						continue
					}
					return nil, nil, fmt.Errorf("count %s, field %s: %w", c.Name, f, err)
				}
				path = got
			}
			pr.Fields = append(pr.Fields, guestproto.Field{Name: f, Fetch: path})
		}
		for _, k := range c.HistKeys() {
			if !gone[k] {
				pr.Keys = append(pr.Keys, k)
			}
		}
		probes = append(probes, pr)
	}
	return probes, absent, nil
}

// listen adds the listener once a link exists on the netdev.
func (b *bench) listen(ctx context.Context, a *runfolder.Attempt, cell string) error {
	var pl guestproto.Portlist
	if err := b.call(ctx, a, cell, "listen", guestproto.VerbNFSListen, deadlineQuick, guestproto.NFSListen{Proto: b.plan.Fabric.Proto, Port: b.plan.Fabric.Port}, &pl); err != nil {
		return err
	}
	want := fmt.Sprintf("%s %d", b.plan.Fabric.Proto, b.plan.Fabric.Port)
	for _, l := range pl.Lines {
		if strings.TrimSpace(l) == want {
			return nil
		}
	}
	return &cellError{ruleInfra.New(checks.Where{Cell: cell}, "nfsd does not listen on %q; its portlist is %q", want, pl.Lines), checks.Infra, nil}
}

// cell runs one cell and judges all but the console, which the guest's owner
// judges over the whole guest. The error is non-nil only when ctx ended.
func (b *bench) cell(ctx context.Context, c testplans.Cell) (runfolder.Attempt, error) {
	a := runfolder.Attempt{Guest: b.guest, Kernel: b.kernel, Started: time.Now(), Verdict: checks.Pass}
	err := b.steps(ctx, c, &a)
	a.Elapsed = time.Since(a.Started)
	var ce *cellError
	switch {
	case err == nil:
		a.Token = "done"
	case errors.As(err, &ce):
		a.Verdict = ce.verdict
		if ce.finding.ID == ruleHang.ID || ce.finding.ID == ruleStep.ID {
			// What the kernel did wrong stands before what came of it.
			a.Findings = append(a.Findings, b.soFar(ctx, c, &a)...)
		}
		a.Findings = append(a.Findings, ce.finding)
	case ctx.Err() != nil:
		return a, ctx.Err()
	default:
		a.Verdict = checks.Infra
		a.Findings = append(a.Findings, ruleInfra.New(checks.Where{Cell: c.ID()}, "%v", err))
	}
	return a, nil
}

// soFar judges what was counted until a step failed, by the conditions that
// hold at any moment: a hang is often the consequence of a wrong count.
func (b *bench) soFar(ctx context.Context, c testplans.Cell, a *runfolder.Attempt) []checks.Finding {
	rest := a.Rest
	if rest == nil {
		var r guestproto.TraceResult
		if b.call(ctx, a, c.ID(), "read counts so far", guestproto.VerbTraceRead, deadlineSoFar, nil, &r) != nil {
			return nil // the failed step is the finding; this one would only repeat it
		}
		rest = r.Hists
	}
	return counts.SoFar(b.plan, c, counts.Sum(a.Hists, rest), b.absent)
}

func (b *bench) steps(ctx context.Context, c testplans.Cell, a *runfolder.Attempt) error {
	p, id := b.plan, c.ID()
	f := p.Fabric
	const mountpoint = "/mnt"
	if err := b.call(ctx, a, id, "mark", guestproto.VerbMark, deadlineQuick, guestproto.Mark{Text: "patchcheck: cell " + id}, nil); err != nil {
		return err
	}
	if err := b.link(ctx, c, a); err != nil {
		return err
	}
	if err := b.call(ctx, a, id, "clear counts", guestproto.VerbTraceRead, deadlineQuick, nil, nil); err != nil {
		return err
	}
	if err := b.mount(ctx, c, a, mountpoint); err != nil {
		return err
	}
	// Everything below happens in folders of this cell, so that no stale
	// file can be taken for a fresh one.
	dir := strings.ReplaceAll(id, "/", ".")
	var slow []checks.Finding
	works := func(counted bool) error {
		for i, w := range p.Workload {
			if w.Uncounted == counted {
				continue
			}
			seed := b.seed ^ hash(id, w.Name, strconv.Itoa(i))
			run := b.files
			switch {
			case w.File != nil:
				run = b.file
			case w.Recall != nil && !c.V4():
				continue
			case w.Recall != nil:
				run = b.recall
			}
			if err := run(ctx, a, id, mountpoint+"/"+dir, p.Server.Export+"/"+dir, w, seed, &slow); err != nil {
				return err
			}
		}
		return nil
	}
	if err := works(true); err != nil {
		return err
	}
	var counted, rest guestproto.TraceResult
	if err := b.call(ctx, a, id, "read counts", guestproto.VerbTraceRead, deadlineQuick, nil, &counted); err != nil {
		return err
	}
	a.Hists = counted.Hists
	if err := works(false); err != nil {
		return err
	}
	if err := b.call(ctx, a, id, "remove", guestproto.VerbRemove, deadlineIO, guestproto.Remove{Dir: mountpoint + "/" + dir}, nil); err != nil {
		return err
	}
	for range p.Reconnects {
		if err := b.umount(ctx, a, id, mountpoint); err != nil {
			return err
		}
		if err := b.mount(ctx, c, a, mountpoint); err != nil {
			return err
		}
	}
	if err := b.umount(ctx, a, id, mountpoint); err != nil {
		return err
	}
	if err := b.call(ctx, a, id, "read the rest of the counts", guestproto.VerbTraceRead, deadlineQuick, nil, &rest); err != nil {
		return err
	}
	a.Rest = rest.Hists
	if f.Proto == "rdma" {
		if err := b.call(ctx, a, id, "remove link", guestproto.VerbLinkDel, deadlineMount, guestproto.LinkDel{Name: f.Link}, nil); err != nil {
			return err
		}
	}
	mem, err := b.memory(ctx, a, id)
	if err != nil {
		return err
	}
	a.SUnreclaim, a.FreeKiB, a.Slabs, a.Before = mem.SUnreclaim, mem.FreeKiB, mem.Slabs, b.before
	a.Findings = append(a.Findings, slow...)
	if len(slow) > 0 {
		a.Verdict = checks.Fail
	}
	b.judge(c, a)
	return nil
}

// link makes the cell's device and the listener on it.
func (b *bench) link(ctx context.Context, c testplans.Cell, a *runfolder.Attempt) error {
	f, id := b.plan.Fabric, c.ID()
	if f.Proto == "rdma" {
		params := map[string]string{}
		for k, v := range c.Device.Params {
			params[k] = strconv.FormatInt(int64(v), 10)
		}
		if err := b.call(ctx, a, id, "add link", guestproto.VerbLinkSet, deadlineQuick, guestproto.LinkSet{Name: f.Link, Type: f.Type, Netdev: f.Netdev, Module: f.Module, Params: params}, nil); err != nil {
			return err
		}
	}
	return b.listen(ctx, a, id)
}

// mount mounts the export with the cell's version, and checks that the kernel
// did so.
func (b *bench) mount(ctx context.Context, c testplans.Cell, a *runfolder.Attempt, mountpoint string, options ...string) error {
	p, id := b.plan, c.ID()
	f := p.Fabric
	server, _, _ := strings.Cut(f.Address, "/")
	mount := guestproto.Mount{Server: server, Path: p.Server.Export, At: mountpoint, Version: c.NFS, Proto: f.Proto, Port: f.Port}
	if c.NFS != "3" {
		mount.Path = "/"
	} else {
		mount.Options = []string{"nolock"}
	}
	mount.Options = append(mount.Options, options...)
	var m guestproto.Mounted
	if err := b.call(ctx, a, id, "mount", guestproto.VerbMount, deadlineMount, mount, &m); err != nil {
		return err
	}
	a.Mounted = strings.TrimSpace(m.Options + " " + m.Xprt)
	if !strings.HasPrefix(m.Xprt, f.Proto+" ") || !slices.Contains(strings.Split(m.Options, ","), "vers="+c.NFS) {
		return &cellError{ruleTransport.New(checks.Where{Cell: id}, "asked for NFSv%s over %s, got %q", c.NFS, f.Proto, a.Mounted), checks.Infra, nil}
	}
	return nil
}

// umount ends the connection, which may leave nothing behind.
func (b *bench) umount(ctx context.Context, a *runfolder.Attempt, id, mountpoint string) error {
	var um guestproto.Umounted
	if err := b.call(ctx, a, id, "umount", guestproto.VerbUmount, deadlineMount, guestproto.Umount{At: mountpoint}, &um); err != nil {
		return err
	}
	if len(um.Left) > 0 && a.Verdict == checks.Pass {
		var left []string
		for _, k := range sortedKeys(um.Left) {
			left = append(left, fmt.Sprintf("%d %s", um.Left[k], k))
		}
		a.Findings = append(a.Findings, ruleLeft.New(checks.Where{Cell: id}, "after umount the connection left RDMA resources behind: %s", strings.Join(left, ", ")))
		a.Verdict = checks.Fail
	}
	return nil
}

// memory samples what the kernel holds once it has freed what is only cached.
func (b *bench) memory(ctx context.Context, a *runfolder.Attempt, id string) (runfolder.Memory, error) {
	var m guestproto.Memory
	if err := b.call(ctx, a, id, "memory", guestproto.VerbMemory, deadlineQuick, guestproto.MemoryRequest{Settle: true}, &m); err != nil {
		return runfolder.Memory{}, err
	}
	// The reply cache holds entries for two minutes, whatever the series does.
	return runfolder.Memory{SUnreclaim: m.SUnreclaim - m.ReplyCacheKiB, FreeKiB: m.FreeKiB + m.ReplyCacheKiB, Slabs: m.Slabs}, nil
}

// file is one FileWork: write, compare in the exported file, drop the
// client's cache, read back by each size.
func (b *bench) file(ctx context.Context, a *runfolder.Attempt, id, client, server string, w testplans.Work, seed uint64, slow *[]checks.Finding) error {
	io := guestproto.IO{Path: client + "/" + w.Name, Size: int64(w.File.Size), Block: int(w.File.Write), Direct: w.File.Direct, Parallel: w.File.Parallel, Seed: seed, Sync: true}
	var r guestproto.IOResult
	if err := b.io(ctx, a, id, w.Name+": write", guestproto.VerbWrite, io, &r, slow); err != nil {
		return err
	}
	onServer := io
	onServer.Path, onServer.Direct, onServer.Block, onServer.Parallel = server+"/"+w.Name, false, 1<<20, 0
	if err := b.io(ctx, a, id, w.Name+": compare the exported file", guestproto.VerbHash, onServer, &r, slow); err != nil {
		return err
	}
	a.Compared.ServerBytes += r.Bytes
	for _, bs := range w.File.Read {
		if err := b.call(ctx, a, id, w.Name+": drop the client's cache", guestproto.VerbDrop, deadlineMount, nil, nil); err != nil {
			return err
		}
		rd := io
		rd.Block, rd.Export = int(bs), onServer.Path
		if err := b.io(ctx, a, id, fmt.Sprintf("%s: read in calls of %v", w.Name, bs), guestproto.VerbRead, rd, &r, slow); err != nil {
			return err
		}
		a.Compared.ClientBytes += r.Bytes
	}
	return nil
}

func (b *bench) io(ctx context.Context, a *runfolder.Attempt, id, name, verb string, io guestproto.IO, r *guestproto.IOResult, slow *[]checks.Finding) error {
	if err := b.call(ctx, a, id, name, verb, deadlineIO, io, r); err != nil {
		return err
	}
	// The guest reports a mismatch as an error; the result is checked again
	// here so that a wrong PASS takes two failures.
	if r.FirstDiff >= 0 || r.Bytes != io.Size || r.SHA256 != r.Want || r.Want == "" {
		f := ruleContents.New(checks.Where{Cell: id}, "%s: %d of %d bytes, first difference at offset %d", name, r.Bytes, io.Size, r.FirstDiff)
		f.Evidence = []string{"got      " + r.Got, "expected " + r.Expected, "sha256 got  " + r.SHA256, "sha256 want " + r.Want}
		return &cellError{f, checks.Fail, nil}
	}
	b.slow(id, name, r.SlowestUS, slow)
	return nil
}

func (b *bench) slow(id, name string, us int64, slow *[]checks.Finding) {
	if d := time.Duration(us) * time.Microsecond; d > slowCall {
		b.sluggish(id)
		*slow = append(*slow, ruleSlowCall.New(checks.Where{Cell: id}, "%s: one call took %v", name, d.Round(time.Millisecond)))
	}
}

// files is one FilesWork.
func (b *bench) files(ctx context.Context, a *runfolder.Attempt, id, client, server string, w testplans.Work, seed uint64, slow *[]checks.Finding) error {
	fs := guestproto.Files{Dir: client + "/" + w.Name, Count: w.Files.Count, MinSize: int64(w.Files.Min), MaxSize: int64(w.Files.Max), Seed: seed}
	for _, s := range []struct {
		name, dir string
		check     bool
	}{
		{"write", fs.Dir, false},
		{"compare the exported files", server + "/" + w.Name, true},
		{"read", fs.Dir, true},
	} {
		if s.name == "read" {
			if err := b.call(ctx, a, id, w.Name+": drop the client's cache", guestproto.VerbDrop, deadlineMount, nil, nil); err != nil {
				return err
			}
		}
		fs.Dir, fs.Check = s.dir, s.check
		if s.name == "read" {
			fs.Export = server + "/" + w.Name
		}
		name := w.Name + ": " + s.name
		var r guestproto.FilesResult
		if err := b.call(ctx, a, id, name, guestproto.VerbFiles, deadlineIO, fs, &r); err != nil {
			return err
		}
		if r.Count != fs.Count || s.check && (r.WrongN > 0 || r.SHA256 != r.Want || r.Want == "") {
			f := ruleContents.New(checks.Where{Cell: id}, "%s: %d of %d files differ (%d seen)", name, r.WrongN, fs.Count, r.Count)
			f.Evidence = r.Wrong
			return &cellError{f, checks.Fail, nil}
		}
		b.slow(id, name, r.SlowestUS, slow)
		if s.check {
			if s.name == "read" {
				a.Compared.ClientBytes += r.Bytes
			} else {
				a.Compared.ServerBytes += r.Bytes
			}
			a.Compared.Files = r.Count
		}
	}
	return nil
}

// recall is one RecallWork.
func (b *bench) recall(ctx context.Context, a *runfolder.Attempt, id, client, server string, w testplans.Work, _ uint64, slow *[]checks.Finding) error {
	var r guestproto.RecallResult
	name := w.Name + ": recall delegations"
	if err := b.call(ctx, a, id, name, guestproto.VerbRecall, deadlineIO, guestproto.Recall{Dir: client + "/" + w.Name, Export: server + "/" + w.Name, Count: w.Recall.Count}, &r); err != nil {
		return err
	}
	// One that is not granted says little; if none is, no Call went over the
	// backchannel.
	if r.Count != w.Recall.Count || r.Delegated == 0 {
		f := ruleCallback.New(checks.Where{Cell: id}, "%s: the client got a delegation of %d of %d files", name, r.Delegated, r.Count)
		return &cellError{f, checks.Fail, nil}
	}
	if d := time.Duration(r.SlowestUS) * time.Microsecond; d > min(b.scale(slowRecall), revokes*9/10) {
		f := ruleCallback.New(checks.Where{Cell: id}, "%s: the server waited %v for a delegation", name, d.Round(time.Millisecond))
		return &cellError{f, checks.Fail, nil}
	}
	return nil
}

func hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return h.Sum64()
}
