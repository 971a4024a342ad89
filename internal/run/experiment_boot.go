// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"patchcheck/checks"
	"patchcheck/checks/fio"
	measure "patchcheck/internal/bench"
	"patchcheck/internal/guestproto"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

// mountpoint is where a measured guest mounts the export, and where the text
// of a fio job may say that its files are.
const mountpoint = "/mnt"

// attributesKept keeps the client from asking again for attributes because
// some seconds passed (nfs(5): 3 to 60 by default). How many such GETATTRs a
// job sends depends on how fast it went and not on the kernel, and one of them
// among 500 WRITEs is enough to make a count per RPC another one in each run.
// What open and close ask for (close-to-open) stays.
const attributesKept = "actimeo=86400"

// Boot boots an arm once, with a fresh guest, and does every job of the plan
// in it. It is bench.Booter's.
func (e *Experiment) Boot(ctx context.Context, arm string, n int) (measure.Boot, error) {
	b := measure.Boot{Arm: arm, Started: time.Now()}
	k := e.kernels[arm]
	if k == nil {
		return b, fmt.Errorf("there is no kernel for the arm %q", arm)
	}
	e.m.guests = n - 1
	s, err := e.m.power(ctx, k)
	if err != nil {
		return b, e.blame(arm, nil, err)
	}
	defer s.g.Close()
	b.Guest = s.name
	role := testplans.RolePatched
	if arm == e.record.Arms[0].Name || arm == SameArm {
		role = testplans.RoleBase
	}
	c := e.r.plan.Measure.Cell(e.r.plan, role)
	a := &runfolder.Attempt{Guest: s.name, Kernel: k.release, Verdict: checks.Pass}
	err = e.work(ctx, s, k, c, a, &b)
	b.Elapsed = time.Since(b.Started)
	if err != nil {
		if ctx.Err() != nil {
			return b, ctx.Err()
		}
		e.m.post(ctx, s, err)
		s.g.Close() // so that the console is whole
		var ce *cellError
		if errors.As(err, &ce) {
			a.Verdict, a.Findings = ce.verdict, append(a.Findings, ce.finding)
		} else {
			a.Verdict, a.Findings = checks.Infra, append(a.Findings, ruleInfra.New(checks.Where{Cell: c.ID()}, "%v", err))
		}
		e.m.consoleFindings(s, c, a, 0)
		e.m.diagnose(s, c, a, 0)
		return b, e.blame(arm, a, err)
	}
	if s.con.raised(consoleGrace) {
		s.g.Close()
		e.m.consoleFindings(s, c, a, 0)
		e.m.diagnose(s, c, a, 0)
		if a.Verdict != checks.Pass {
			return b, e.blame(arm, a, nil)
		}
	}
	return b, nil
}

// blame turns a failed boot into an error for Conduct: the kernel's fault is a
// finding of the run.
func (e *Experiment) blame(arm string, a *runfolder.Attempt, err error) error {
	var ce *cellError
	if a == nil {
		if !errors.As(err, &ce) {
			return err
		}
		a = &runfolder.Attempt{Verdict: ce.verdict, Findings: []checks.Finding{ce.finding}}
	}
	if a.Verdict != checks.Fail {
		return fmt.Errorf("arm %s: %s", arm, reason(a))
	}
	for i := range a.Findings {
		if !strings.Contains(a.Findings[i].Message, arm) {
			a.Findings[i].Message = "arm " + arm + ": " + a.Findings[i].Message
		}
	}
	e.r.rec.Findings = append(e.r.rec.Findings, a.Findings...)
	if serr := e.r.rec.Save(); serr != nil {
		return serr
	}
	return &measure.KernelError{Arm: arm, Text: strings.TrimPrefix(reason(a), "arm "+arm+": ")}
}

// work links, mounts, runs the jobs and unmounts.
func (e *Experiment) work(ctx context.Context, s *session, k *guestKernel, c testplans.Cell, a *runfolder.Attempt, boot *measure.Boot) error {
	p, d, id := e.r.plan, e.record.Design, c.ID()
	if err := s.b.link(ctx, c, a); err != nil {
		return err
	}
	if err := s.b.mount(ctx, c, a, mountpoint, attributesKept); err != nil {
		return err
	}
	if e.record.Mount == "" {
		// Behind the options stand the transport's counters.
		e.record.Mount, _, _ = strings.Cut(a.Mounted, " ")
	}
	for i := range d.Warmup + d.Runs {
		for _, j := range p.Measure.Jobs {
			run, err := e.job(ctx, s, k, c, a, j, i+1)
			run.Warmup = i < d.Warmup
			boot.Runs = append(boot.Runs, run)
			if err != nil {
				return err
			}
		}
	}
	if err := s.b.call(ctx, a, id, "umount", guestproto.VerbUmount, deadlineMount, guestproto.Umount{At: mountpoint}, nil); err != nil {
		return err
	}
	if p.Fabric.Proto == "rdma" {
		return s.b.call(ctx, a, id, "remove link", guestproto.VerbLinkDel, deadlineMount, guestproto.LinkDel{Name: p.Fabric.Link}, nil)
	}
	return nil
}

// job runs one job once, with the counts set if it is counted.
func (e *Experiment) job(ctx context.Context, s *session, k *guestKernel, c testplans.Cell, a *runfolder.Attempt, j testplans.MeasureJob, index int) (measure.Run, error) {
	p, id := e.r.plan, c.ID()
	run := measure.Run{Job: j.Name, Index: index, Started: time.Now()}
	name := fmt.Sprintf("%s, run %d", j.Name, index)
	dir := path.Join(mountpoint, j.Name)
	if j.Counted {
		if err := s.b.call(ctx, a, id, name+": set counts", guestproto.VerbTrace, deadlineStart, guestproto.Trace{Probes: k.probes}, nil); err != nil {
			return run, err
		}
	}
	in := observed{plan: p, cell: c, absent: k.absent, counted: j.Counted}
	var err error
	if j.Files != nil {
		err = e.files(ctx, s, a, c, j, name, path.Join(dir, strconv.Itoa(index)), &run, &in)
	} else {
		err = e.fio(ctx, s, a, c, j, name, dir, &run, &in)
	}
	run.Elapsed = time.Since(run.Started)
	if err != nil {
		return run, err
	}
	if j.Counted {
		var counted guestproto.TraceResult
		if err := s.b.call(ctx, a, id, name+": read counts", guestproto.VerbTraceRead, deadlineQuick, nil, &counted); err != nil {
			return run, err
		}
		in.hists = counted.Hists
		if err := s.b.call(ctx, a, id, name+": remove counts", guestproto.VerbTraceOff, deadlineQuick, nil, nil); err != nil {
			return run, err
		}
	}
	more, hists := in.metrics(j)
	if run.Metrics == nil {
		run.Metrics = map[string]measure.Metric{}
	}
	maps.Copy(run.Metrics, more)
	run.Hists = hists
	return run, nil
}

// fio runs a fio job. Its document is for the analysis; what is wrong with it
// is looked at here, because an I/O error is the kernel's.
func (e *Experiment) fio(ctx context.Context, s *session, a *runfolder.Attempt, c testplans.Cell, j testplans.MeasureJob, name, dir string, run *measure.Run, in *observed) error {
	var r guestproto.FioResult
	req := guestproto.Fio{Job: j.Fio, Dir: dir, Mount: mountpoint}
	if err := s.b.call(ctx, a, c.ID(), name, guestproto.VerbFio, deadlineIO+2*runtimes(j.Fio), req, &r); err != nil {
		return err
	}
	a.Steps[len(a.Steps)-1].Result = nil // kept in a file of its own
	run.Raw = []byte(r.Output)
	if r.Version != "" {
		e.record.Versions["fio"] = strings.TrimSpace(r.Version) + " " + fioOrigin(e.record.Versions["fio"])
	}
	in.before, in.after, in.seconds = r.Before, r.After, float64(r.ElapsedUS)/1e6
	if b, ok := sampled(r.Before, r.After); ok {
		in.seconds = b
	}
	out, err := fio.Parse(strings.NewReader(r.Output))
	if err != nil {
		// fio says what it dislikes about a job on stderr, and exits with 1.
		msg := strings.TrimSpace(r.Stderr)
		if msg == "" {
			msg = err.Error()
		}
		f := ruleInfra.New(checks.Where{Cell: c.ID()}, "%s: fio gave no result (exit status %d): %s", name, r.Exit, firstLine(errors.New(msg)))
		f.Evidence = strings.Split(strings.TrimSpace(r.Output+"\n"+msg), "\n")
		f.Fix = "check the job in the plan; the guest's fio has the engines psync, pvsync, sync, mmap, io_uring, filecreate, filestat and filedelete"
		return &cellError{f, checks.Infra, err}
	}
	for _, job := range out.Jobs {
		in.ios += float64(job.Read.IOs + job.Write.IOs + job.Trim.IOs)
		if job.Error == 0 {
			continue
		}
		no := unix.ErrnoName(unix.Errno(job.Error))
		f := ruleStep.New(checks.Where{Cell: c.ID()}, "%s: fio's job %s ended with %s", name, job.Name, no)
		v := checks.Fail
		switch unix.Errno(job.Error) {
		case unix.ENOSPC, unix.EDQUOT, unix.EFBIG, unix.ENOMEM, unix.EINVAL, unix.EOPNOTSUPP, unix.ENOSYS, unix.ENOENT:
			f = ruleInfra.New(checks.Where{Cell: c.ID()}, "%s: fio's job %s ended with %s: check the job's sizes and alignment and server.size in the plan", name, job.Name, no)
			v = checks.Infra
		}
		f.Evidence = append(slices.Clone(out.Noise), strings.Split(strings.TrimSpace(r.Stderr), "\n")...)
		return &cellError{f, v, nil}
	}
	return nil
}

// fioOrigin keeps where the program came from when its own version is added.
func fioOrigin(known string) string {
	if i := strings.Index(known, "("); i >= 0 {
		return known[i:]
	}
	if known == "" {
		return ""
	}
	return "(Debian's source " + known + ")"
}

// runtimeLine finds how long a fio job runs by the clock.
var runtimeLine = regexp.MustCompile(`(?m)^\s*(?:runtime|ramp_time)\s*=\s*([0-9]+)\s*(s|m|h)?\s*$`)

// runtimes adds up the times that a job asks for, for its deadline.
func runtimes(job string) time.Duration {
	var d time.Duration
	for _, m := range runtimeLine.FindAllStringSubmatch(job, -1) {
		n, _ := strconv.Atoi(m[1])
		unit := map[string]time.Duration{"": time.Second, "s": time.Second, "m": time.Minute, "h": time.Hour}[m[2]]
		d += time.Duration(n) * unit
	}
	return d
}

// files writes many small files and reads them back after dropping the
// client's cache; the contents are compared.
func (e *Experiment) files(ctx context.Context, s *session, a *runfolder.Attempt, c testplans.Cell, j testplans.MeasureJob, name, dir string, run *measure.Run, in *observed) error {
	id, f := c.ID(), j.Files
	req := guestproto.Files{Dir: dir, Count: f.Count, MinSize: int64(f.Min), MaxSize: int64(f.Max), Seed: e.m.seed}
	var w, r guestproto.FilesResult
	var before, after guestproto.Sample
	sample := func(into *guestproto.Sample) error {
		return s.b.call(ctx, a, id, name+": sample", guestproto.VerbSample, deadlineQuick, guestproto.SampleRequest{Mount: mountpoint}, into)
	}
	if err := sample(&before); err != nil {
		return err
	}
	if err := s.b.call(ctx, a, id, name+": write", guestproto.VerbFiles, deadlineIO, req, &w); err != nil {
		return err
	}
	if err := s.b.call(ctx, a, id, name+": drop the client's cache", guestproto.VerbDrop, deadlineMount, nil, nil); err != nil {
		return err
	}
	req.Check = true
	if err := s.b.call(ctx, a, id, name+": read", guestproto.VerbFiles, deadlineIO, req, &r); err != nil {
		return err
	}
	if err := sample(&after); err != nil {
		return err
	}
	if r.WrongN > 0 || r.Count != f.Count {
		fd := ruleContents.New(checks.Where{Cell: id}, "%s: %d of %d files differ", name, r.WrongN, f.Count)
		fd.Evidence = r.Wrong
		return &cellError{fd, checks.Fail, nil}
	}
	in.before, in.after = &before, &after
	in.ios, in.seconds = float64(2*f.Count), float64(w.ElapsedUS+r.ElapsedUS)/1e6
	if !j.Counted {
		rate := func(us int64) measure.Metric {
			if us <= 0 {
				return measure.Metric{Unit: "1/s", Better: measure.Higher, Invalid: "it took no time"}
			}
			return measure.Metric{Value: float64(f.Count) / (float64(us) / 1e6), Unit: "1/s", Better: measure.Higher}
		}
		run.Metrics = map[string]measure.Metric{"files written": rate(w.ElapsedUS), "files read": rate(r.ElapsedUS)}
	}
	return s.b.call(ctx, a, id, name+": remove", guestproto.VerbRemove, deadlineIO, guestproto.Remove{Dir: dir}, nil)
}
