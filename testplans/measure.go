// SPDX-License-Identifier: Apache-2.0

package testplans

import (
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
)

// Measure is what `patchcheck bench` measures. docs/measure.md is the manual.
//
// One boot of a kernel does every job Warmup times, then Runs times, and gives
// one value of each metric: the boot, not the I/O, is what is repeated.
type Measure struct {
	Device string `yaml:"device" json:"device,omitempty"` // of axes.device; default the first
	NFS    string `yaml:"nfs" json:"nfs,omitempty"`       // of axes.nfs; default the first
	// Warmup is the number of runs of each job that are recorded and not used;
	// default 1, and -1 for none. The first run lays out the files.
	Warmup int `yaml:"warmup" json:"warmup,omitempty"`
	Runs   int `yaml:"runs" json:"runs,omitempty"`   // measured runs of each job in a boot; default 3
	Boots  int `yaml:"boots" json:"boots,omitempty"` // of each arm; default 5
	// Primary is the metric that claims are about first and that a stopping
	// rule watches: "JOB/NAME". Default: the first of the first job.
	Primary string `yaml:"primary" json:"primary,omitempty"`
	// With lists companions of a third arm: the patched kernel with these too.
	With []string       `yaml:"with" json:"with,omitempty"`
	Jobs []MeasureJob   `yaml:"jobs" json:"jobs"`
	Also []Metric       `yaml:"metrics" json:"metrics,omitempty"`
	Dist []Distribution `yaml:"distributions" json:"distributions,omitempty"`
	// Limits are what the experiment cannot show, in words.
	Limits []string `yaml:"limits" json:"limits,omitempty"`
}

// MeasureJob is one piece of work; exactly one of Fio and Files is set.
type MeasureJob struct {
	Name  string     `yaml:"name" json:"name"`
	Fio   string     `yaml:"fio" json:"fio,omitempty"`     // text of a job file; it runs in a folder of the mount
	Files *FilesWork `yaml:"files" json:"files,omitempty"` // written, then read back
	// Counted installs the plan's counts while the job runs. Probes cost time,
	// so times come from jobs that are not counted.
	Counted bool `yaml:"counted" json:"counted,omitempty"`
}

// Metric is a number per run computed from what was counted and sampled
// around it. Env lists the names that Is may use.
type Metric struct {
	Name   string   `yaml:"name" json:"name"`
	Jobs   []string `yaml:"jobs" json:"jobs,omitempty"` // default: every job that has what Is needs
	Is     string   `yaml:"is" json:"is"`
	Unit   string   `yaml:"unit" json:"unit,omitempty"`     // "ns", "s", "%", "1/s"; "" for a plain number
	Better string   `yaml:"better" json:"better,omitempty"` // lower, higher; default none
	Exact  bool     `yaml:"exact" json:"exact,omitempty"`   // the same in each run of one kernel
}

// Distribution is a histogram of one of the plan's counts, a number per event.
type Distribution struct {
	Name  string  `yaml:"name" json:"name"`
	From  string  `yaml:"from" json:"from"`                 // count
	Key   string  `yaml:"key" json:"key"`                   // of its keys, the one that is measured
	Where string  `yaml:"where" json:"where,omitempty"`     // expression over the row's keys
	Unit  string  `yaml:"unit" json:"unit,omitempty"`       // of Key times Scale
	Scale float64 `yaml:"scale" json:"scale,omitempty"`     // default 1
	Round float64 `yaml:"rounded" json:"rounded,omitempty"` // the kernel rounded Key down to a multiple of this; default 1
}

// OpSample is what the client counted of one NFS operation during a run, as
// mountstats shows it. Times are summed over all operations, in ns.
type OpSample struct {
	Ops      float64 `expr:"ops"`
	Sent     float64 `expr:"sent"` // transmissions
	Timeouts float64 `expr:"timeouts"`
	Errors   float64 `expr:"errors"`
	Queue    float64 `expr:"queue"`   // from the task's start to its transmission
	RTT      float64 `expr:"rtt"`     // from the transmission to the Reply
	Execute  float64 `expr:"execute"` // from the task's start to its end
}

// Env is what a metric's expression may use, for a plan: counted says whether
// the job is counted, that is, whether values and Hits are there.
func (p *Plan) Env(counted bool) map[string]any {
	env := map[string]any{
		"seconds": 0.0,                   // the job took
		"ios":     0.0,                   // I/Os that fio did, or files that a files job wrote and read
		"ops":     0.0,                   // NFS operations of the mount
		"op":      map[string]OpSample{}, // by NFS operation: op.WRITE.ops
		"xprt":    map[string]float64{},  // the transport's counters in mountstats: xprt.sends
		"cpu":     map[string]float64{},  // ns of CPU time: busy, user, system, irq, softirq, idle, steal, and by kind of task: cpu["nfsd"]
		"server":  map[string]float64{},  // nfsd's counters: server["rpc.calls"]
		"abs":     func(float64) float64 { return 0 },
		"percent": func(part, whole float64) float64 { return 0 },
	}
	if counted {
		for _, c := range p.Count {
			env["hits_"+c.Name] = 0.0
		}
		for _, v := range p.Values {
			env[v.Name] = 0.0
		}
	}
	return env
}

// NeedsCounts says whether a metric can be had from counted jobs only.
func (p *Plan) NeedsCounts(m Metric) bool {
	_, err := expr.Compile(m.Is, expr.Env(p.Env(false)), expr.AsFloat64())
	return err != nil
}

// In says whether the metric is computed for a job.
func (p *Plan) In(m Metric, j MeasureJob) bool {
	if len(m.Jobs) > 0 {
		return slices.Contains(m.Jobs, j.Name)
	}
	// Sampled metrics are about times, which probes would distort.
	return p.NeedsCounts(m) == j.Counted
}

// Resolve fills defaults in.
func (m *Measure) resolve(p *Plan) {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&m.Warmup, 1)
	m.Warmup = max(m.Warmup, 0)
	def(&m.Runs, 3)
	def(&m.Boots, 5)
	if m.Device == "" && len(p.Axes.Device) > 0 {
		m.Device = p.Axes.Device[0].Name
	}
	if m.NFS == "" && len(p.Axes.NFS) > 0 {
		m.NFS = p.Axes.NFS[0]
	}
	for i := range m.Also {
		if m.Also[i].Better == "" {
			m.Also[i].Better = "none"
		}
	}
	for i := range m.Dist {
		d := &m.Dist[i]
		if d.Scale == 0 {
			d.Scale = 1
		}
		if d.Round == 0 {
			d.Round = 1
		}
	}
}

// Cell is the point of the axes that is measured, for a role.
func (m *Measure) Cell(p *Plan, role string) Cell {
	c := Cell{Kernel: role, NFS: m.NFS}
	for _, d := range p.Axes.Device {
		if d.Name == m.Device {
			c.Device = d
		}
	}
	return c
}

func (v *validator) measure(p *Plan) {
	m := p.Measure
	var devices, jobs []string
	for _, d := range p.Axes.Device {
		devices = append(devices, d.Name)
	}
	m.resolve(p)
	const at = "$.measure"
	v.oneOf(at, "device", m.Device, devices)
	v.oneOf(at, "NFS version", m.NFS, p.Axes.NFS)
	if m.Warmup > 20 || m.Runs < 1 || m.Runs > 100 || m.Boots < 1 || m.Boots > 1000 {
		v.bad(at, "warmup is -1 to 20, runs 1 to 100, boots 1 to 1000")
	}
	if len(m.Jobs) == 0 {
		v.bad(at, "measure.jobs is empty: there is nothing to measure")
	}
	counted := false
	for i, j := range m.Jobs {
		at := fmt.Sprintf("%s.jobs[%d]", at, i)
		if j.Name == "" || strings.ContainsAny(j.Name, "/ \t") || slices.Contains(jobs, j.Name) {
			v.bad(at, "each job needs a name of its own, without spaces or slashes")
		}
		jobs = append(jobs, j.Name)
		counted = counted || j.Counted
		if !one(j.Fio != "", j.Files != nil) {
			v.bad(at, "job %q must have exactly one of fio and files", j.Name)
			continue
		}
		if j.Fio != "" && !fioSection(j.Fio) {
			v.bad(at, "job %q: the text of a fio job has a [section]", j.Name)
		}
		if f := j.Files; f != nil && (f.Count <= 0 || f.Count > 100000 || f.Min < 0 || f.Max < f.Min || f.Max > 64<<20) {
			v.bad(at, "files needs count 1 to 100000 and min <= max <= 64MiB")
		}
		if j.Counted && len(p.Count) == 0 {
			v.bad(at, "job %q is counted and the plan has no count section", j.Name)
		}
	}
	names := map[string]bool{}
	for i, x := range m.Also {
		at := fmt.Sprintf("%s.metrics[%d]", at, i)
		if x.Name == "" || names[x.Name] || strings.Contains(x.Name, "/") {
			v.bad(at, "each metric needs a name of its own, without slashes")
		}
		names[x.Name] = true
		v.oneOf(at, "better", x.Better, []string{"lower", "higher", "none"})
		for _, j := range x.Jobs {
			v.oneOf(at, "job", j, jobs)
		}
		if _, err := expr.Compile(x.Is, expr.Env(p.Env(true)), expr.AsFloat64()); err != nil {
			v.bad(at+".is", "%v", err)
			continue
		}
		if p.NeedsCounts(x) {
			if !counted {
				v.bad(at, "metric %q needs counts and no job is counted", x.Name)
			}
			for _, n := range x.Jobs {
				if i := slices.Index(jobs, n); i >= 0 && !m.Jobs[i].Counted {
					v.bad(at, "metric %q needs counts and job %q is not counted", x.Name, n)
				}
			}
		}
	}
	for i, d := range m.Dist {
		at := fmt.Sprintf("%s.distributions[%d]", at, i)
		if d.Name == "" || names[d.Name] || strings.Contains(d.Name, "/") {
			v.bad(at, "each distribution needs a name of its own, without slashes")
		}
		names[d.Name] = true
		k := slices.IndexFunc(p.Count, func(c Count) bool { return c.Name == d.From })
		if k < 0 {
			v.bad(at, "distribution %q comes from %q, which is no count", d.Name, d.From)
			continue
		}
		if !slices.Contains(p.Count[k].HistKeys(), d.Key) {
			v.bad(at, "distribution %q wants %q, which is no key of %s", d.Name, d.Key, d.From)
		}
		if d.Scale <= 0 || d.Round < 0 {
			v.bad(at, "scale and rounded are above 0")
		}
		if d.Where != "" {
			if _, err := expr.Compile(d.Where, expr.AllowUndefinedVariables(), expr.AsBool()); err != nil {
				v.bad(at+".where", "%v", err)
			}
		}
		if !counted {
			v.bad(at, "distribution %q needs counts and no job is counted", d.Name)
		}
	}
	if m.Primary != "" {
		if job, _, ok := strings.Cut(m.Primary, "/"); !ok || !slices.Contains(jobs, job) {
			v.bad(at, "primary %q is JOB/METRIC with one of the jobs %s", m.Primary, strings.Join(jobs, ", "))
		}
	}
}

// fioSection says whether a text has the head of a section other than
// [global].
func fioSection(s string) bool {
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") && line != "[global]" {
			return true
		}
	}
	return false
}
