// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/runfolder"
)

// Target names what is tested night after night.
type Target = runfolder.Target

// Run is one run, without its cells.
type Run struct {
	ID      string         `json:"id"`
	Dir     string         `json:"dir"`   // of its run folder, which may be gone
	Night   string         `json:"night"` // the nightly run it belongs to, else the UTC day it began
	Started time.Time      `json:"started"`
	Ended   time.Time      `json:"ended,omitzero"` // zero: it did not end
	Target  Target         `json:"target"`
	JobKey  string         `json:"job_key,omitempty"`
	Verdict checks.Verdict `json:"verdict"` // "" when it did not end
	Reason  string         `json:"reason,omitempty"`

	TreeID        string `json:"tree_id"`
	TreeVersion   string `json:"tree_version"`
	TreeCommit    string `json:"tree_commit,omitempty"`
	SeriesID      string `json:"series_id"`
	SeriesTitle   string `json:"series_title"`
	SeriesVersion int    `json:"series_version"`
	PlanID        string `json:"plan_id"`
	KernelBase    string `json:"kernel_base,omitempty"` // key of the built kernel
	KernelPatched string `json:"kernel_patched,omitempty"`

	Built    int `json:"built"`    // kernels compiled by this run
	Executed int `json:"executed"` // executions of cells in a guest, repetitions included
}

// Cell is one cell's answer.
type Cell struct {
	ID          string           `json:"id"` // "patched/intel-216/v4.1"
	Verdict     checks.Verdict   `json:"verdict"`
	Signature   string           `json:"signature,omitempty"` // see Signature
	Reason      string           `json:"reason,omitempty"`
	Key         string           `json:"key,omitempty"`
	Reused      string           `json:"reused,omitempty"` // id of the run that the answer comes from
	Attempts    int              `json:"attempts"`
	Work        time.Duration    `json:"work_ns"`    // of the deciding attempt: its reads and writes
	Elapsed     time.Duration    `json:"elapsed_ns"` // of the deciding attempt, set-up included
	Quarantined bool             `json:"quarantined,omitempty"`
	Values      map[string]int64 `json:"values,omitempty"` // counts by the plan's names
}

// Failing tells a verdict that speaks against what was tested. INFRA and SKIP
// say nothing about it.
func Failing(v checks.Verdict) bool {
	return v == checks.Fail || v == checks.BaseFails || v == checks.Unstable
}

// Facts are what the history knows of one run.
type Facts struct {
	Run
	Cells    []Cell            `json:"cells"`
	Findings []checks.Finding  `json:"findings,omitempty"` // of the run and of its cells; without evidence
	Patches  []runfolder.Patch `json:"patches,omitempty"`  // index, id and subject
	Builds   []runfolder.Build `json:"builds,omitempty"`
	Steps    []runfolder.Step  `json:"steps,omitempty"`
	Versions map[string]string `json:"versions,omitempty"` // see Versions of a run in docs/history.md

	attempts map[string][]runfolder.Attempt // by cell; only on the way into the file
}

// Cell finds a cell by id; nil when the run has none of that id.
func (f *Facts) Cell(id string) *Cell {
	for i := range f.Cells {
		if f.Cells[i].ID == id {
			return &f.Cells[i]
		}
	}
	return nil
}

// FromRun takes the facts from a run folder.
func FromRun(r *runfolder.Run) *Facts {
	f := &Facts{
		Run: Run{
			ID: r.ID, Dir: r.Dir(), Night: r.Started.UTC().Format(time.DateOnly), Started: r.Started, Ended: r.Ended,
			Target: TargetOf(r), JobKey: r.JobKey, Verdict: r.Verdict, Reason: r.Reason,
			TreeID: r.Tree.ID, TreeVersion: r.Tree.Version, TreeCommit: r.Tree.Commit,
			SeriesID: r.Series.ID, SeriesTitle: r.Series.Title, SeriesVersion: r.Series.Version, PlanID: r.PlanID,
			KernelBase: r.Kernels["base"].Key, KernelPatched: r.Kernels["patched"].Key,
		},
		Patches:  r.Series.Patches,
		Builds:   r.Builds,
		Steps:    r.Steps,
		Versions: versions(r),
		attempts: map[string][]runfolder.Attempt{},
	}
	for _, b := range r.Builds {
		if !b.Reused {
			f.Built++
		}
	}
	keep := func(cell string, fs []checks.Finding) {
		for _, x := range fs {
			if x.Where.Cell == "" {
				x.Where.Cell = cell
			}
			x.Evidence, x.Fix = nil, ""
			f.Findings = append(f.Findings, x)
		}
	}
	keep("", r.Findings)
	for _, c := range r.Cells {
		last := c.Last()
		f.Cells = append(f.Cells, Cell{ID: c.ID, Verdict: c.Verdict, Signature: Signature(c.Findings), Reason: c.Reason, Key: c.Key, Reused: c.Reused,
			Attempts: len(c.Attempts), Work: last.WorkTime(), Elapsed: last.Elapsed, Quarantined: c.Quarantine != nil, Values: last.Values})
		f.attempts[c.ID] = c.Attempts
		if c.Reused == "" {
			f.Executed += len(c.Attempts)
		}
		keep(c.ID, c.Findings)
	}
	return f
}

// TargetOf names the target of a run: what its nightly configuration called it,
// else tree spec, series title and plan name.
func TargetOf(r *runfolder.Run) Target {
	plan := r.Plan.Name
	if r.Plan.Debugged {
		plan += " (debug)"
	}
	return Target{Tree: cmp.Or(r.Target.Tree, r.Tree.Spec), Series: cmp.Or(r.Target.Series, r.Series.Title), Plan: cmp.Or(r.Target.Plan, plan)}
}

// Signature says in a few words how something failed, so that the failure of
// one night can be told from that of another: the ids of its error findings,
// sorted, each once, with the condition's name where a finding is about a named
// condition ("count.hold:granted"). Messages, with their numbers and addresses,
// do not count. It is "" when there is no error.
func Signature(fs []checks.Finding) string {
	var ids []string
	for _, f := range fs {
		if f.Severity != checks.Error {
			continue
		}
		id := f.ID
		if name, _, ok := strings.Cut(f.Message, ": "); ok && strings.HasPrefix(id, "count.") && !strings.ContainsAny(name, " \t\n") {
			id += ":" + name
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

// versions lists what a run's answer may depend on beside tree, series and
// plan. Keys are stable: docs/history.md lists them.
func versions(r *runfolder.Run) map[string]string {
	v := map[string]string{}
	set := func(k, s string) {
		if s != "" {
			v[k] = s
		}
	}
	set("patchcheck", r.Tool)
	for k, s := range r.Tools {
		set(k, s)
	}
	set("accel", r.Accel.Name)
	set("host.os", r.Host.OS)
	set("host.cpu", r.Host.CPU)
	if r.Host.CPUs > 0 {
		set("host.cpus", fmt.Sprint(r.Host.CPUs))
	}
	set("sandbox", r.Sandbox)
	set("image", r.Image.Key)
	for k, s := range r.Image.Packages {
		set("image."+k, s)
	}
	for role, k := range r.Kernels {
		set("config."+role, k.Config)
		set("release."+role, k.Release)
	}
	return v
}
