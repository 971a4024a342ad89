// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	measure "patchcheck/internal/bench"
	"patchcheck/internal/remote"
	"patchcheck/internal/runfolder"
	"patchcheck/internal/view"
	"patchcheck/testplans"
)

// RemoteOptions name two machines of the user's and how they are reached.
type RemoteOptions struct {
	Server, Client string // "ssh://[USER@]HOST[:PORT]"
	Address        string // of the server on the fabric; default its name
	SSH            remote.Options

	Arm      string   // whose kernel runs now; see remote.Booter
	Arms     []string // default base and patched
	AA       bool     // the same kernel is measured against itself
	SameBoot bool
	Ask      func(ctx context.Context, text string) error // nil: nobody is there
	Resume   string                                       // run folder to go on with
}

// RemoteExperiment is a measurement on two machines. Kernels are the user's to
// build and boot, so nothing is built.
type RemoteExperiment struct {
	r *runner
	b *remote.Booter
}

// hostsFile is what the machines of one boot said of themselves.
type hostsFile struct {
	Arm    string       `json:"arm"`
	Server remote.Facts `json:"server"`
	Client remote.Facts `json:"client"`
}

// NewRemote reads plan and series and makes, or reopens, the run folder. It
// connects to nothing. The series is for the record's title; without sources
// there is none.
func NewRemote(ctx context.Context, o Options, ro RemoteOptions) (*RemoteExperiment, error) {
	if o.View == nil {
		o.View = view.New(nil)
	}
	server, err := remote.ParseTarget(ro.Server)
	if err != nil {
		return nil, &testplans.Error{Name: "--server", Msgs: []string{"  " + err.Error()}}
	}
	client, err := remote.ParseTarget(ro.Client)
	if err != nil {
		return nil, &testplans.Error{Name: "--client", Msgs: []string{"  " + err.Error()}}
	}
	e := &RemoteExperiment{r: &runner{o: o}, b: &remote.Booter{Server: server, Client: client, Options: ro.SSH, Address: ro.Address, Arm: ro.Arm, Ask: ro.Ask, SameBoot: ro.SameBoot, AA: ro.AA}}
	if ro.Resume != "" {
		err = e.reopen(ro.Resume)
	} else {
		err = e.create(ctx, ro)
	}
	if err != nil {
		if e.r.rec != nil {
			e.r.rec.Close()
		}
		return nil, err
	}
	rec := e.r.rec
	e.b.Note = func(line string) { rec.Note("# " + line) }
	e.b.Keep = func(n int, arm string, server, client remote.Facts) error {
		if err := os.MkdirAll(rec.Path(measure.RawDir), 0o755); err != nil {
			return err
		}
		return rec.WriteJSON(hostsFile{arm, server, client}, measure.RawDir, fmt.Sprintf("%03d-hosts.json", n))
	}
	return e, nil
}

func (e *RemoteExperiment) create(ctx context.Context, ro RemoteOptions) error {
	r := e.r
	if err := r.readPlan(); err != nil {
		return err
	}
	if r.plan.Measure == nil {
		return &testplans.Error{Name: r.o.Plan, Msgs: []string{"  the plan has no measure section, so there is nothing to measure; see docs/measure.md"}}
	}
	title := "two machines"
	if len(r.o.Sources) > 0 || r.o.Series != nil {
		if err := r.readSeries(ctx); err != nil {
			return err
		}
		title = r.ser.Title
	}
	rec, err := runfolder.Create(r.o.RunsDir, time.Now(), title)
	if err != nil {
		return err
	}
	r.rec = rec
	rec.Tool, rec.Command, rec.Plan, rec.PlanID = r.o.Tool, r.o.Command, *r.plan, planID(r.plan)
	if r.ser != nil {
		rec.Series = seriesRecord(r.ser)
	} else {
		rec.Series.Title = title
	}
	rec.Accel = runfolder.Accel{Name: "none", Reason: "real machines"}
	m := r.plan.Measure
	x := &measure.Experiment{Schema: measure.Schema, ID: rec.ID, Tool: r.o.Tool, Title: rec.Series.Title, Command: r.o.Command, Plan: r.plan.Name, PlanID: rec.PlanID,
		Versions: map[string]string{}, Jobs: Jobs(r.plan), Limits: m.Limits}
	x.Design.Boots, x.Design.Runs, x.Design.Warmup, x.Design.Primary, x.Design.Noise = m.Boots, m.Runs, m.Warmup, m.Primary, remote.Quiet
	names := ro.Arms
	if len(names) == 0 {
		names = []string{measure.Base, measure.Patched}
	}
	if ro.AA {
		names = []string{measure.Base, SameArm}
	}
	for _, n := range names {
		x.Arms = append(x.Arms, measure.Arm{Name: n})
	}
	e.b.Plan, e.b.Record = r.plan, x
	e.b.Describe()
	return rec.Save()
}

func (e *RemoteExperiment) reopen(dir string) error {
	rec, err := runfolder.Resume(dir)
	if err != nil {
		return &ResumeError{Reason: err.Error()}
	}
	e.r.rec = rec
	p := rec.Plan
	if p.Measure == nil {
		return &ResumeError{rec.ID, "it is no measurement"}
	}
	x, err := measure.Open(dir)
	if err != nil {
		return &ResumeError{rec.ID, err.Error()}
	}
	if x.Accel.Name != "none" {
		return &ResumeError{rec.ID, "it was measured in guests and not on two machines"}
	}
	e.r.plan, e.b.Plan, e.b.Record = &p, &p, x
	files, err := filepath.Glob(rec.Path(measure.RawDir, "*-hosts.json"))
	if err != nil {
		return err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		var h hostsFile
		if err := json.Unmarshal(b, &h); err != nil {
			return &ResumeError{rec.ID, fmt.Sprintf("%s is damaged: %v", f, err)}
		}
		e.b.Measured(h.Server.BootID)
	}
	rec.Resumed = append(rec.Resumed, runfolder.Resumption{At: time.Now(), Tool: e.r.o.Tool})
	rec.Verdict, rec.Reason, rec.Ended = "", "", time.Time{}
	return rec.Save()
}

// Record is the experiment's record. One that was resumed is planned already.
func (e *RemoteExperiment) Record() *measure.Experiment { return e.b.Record }

// Folder is the run folder's path.
func (e *RemoteExperiment) Folder() string { return e.r.rec.Dir() }

// Look says what the machines are and what they lack (*remote.MissingError);
// it changes nothing there.
func (e *RemoteExperiment) Look(ctx context.Context) (server, client remote.Facts, err error) {
	return e.b.Look(ctx)
}

// Conduct measures until the design is fulfilled or the user has to boot
// (*remote.NeedsBootError).
func (e *RemoteExperiment) Conduct(ctx context.Context, o measure.Observer) error {
	return e.b.Conduct(ctx, o)
}

// End writes the verdict and gives the run folder up. A measurement that waits
// for the user has none yet.
func (e *RemoteExperiment) End(ctx context.Context, err error) error {
	if remote.ForUser(err) {
		defer e.r.rec.Close()
		return e.r.save()
	}
	return e.r.endMeasure(ctx, err)
}
