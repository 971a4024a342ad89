// SPDX-License-Identifier: Apache-2.0

// Package bench measures kernels against each other: the design of the
// experiment, its record, the rule that ends it, the analysis and its
// renderings. It boots nothing; a Booter does.
//
// The unit of replication is the boot, not the I/O: one boot of a kernel gives
// one value of each metric. Boots of the arms alternate in random order within
// blocks (one boot of each arm a block), so that a host that drifts does so for
// all arms alike.
//
// Everything the analysis uses is in the run folder: bench.json (Experiment)
// and the raw output of fio beside it. A report can be made again from these.
package bench

import (
	"context"
	"time"

	"patchcheck/checks/fio"
	"patchcheck/checks/stats"
)

// Schema is the version of bench.json; readers refuse a newer one.
const Schema = 1

// File is the experiment's file in a run folder, and RawDir the folder of the
// raw outputs beside it.
const (
	File   = "bench.json"
	RawDir = "bench"
)

// Names of the usual arms. The first arm of an experiment is the one that the
// others are compared with.
const (
	Base          = "base"
	Patched       = "patched"
	WithCompanion = "patched+companion"
)

// Experiment is the record of one measurement, planned and done.
type Experiment struct {
	Schema  int       `json:"schema"`
	ID      string    `json:"id"`    // of its run folder
	Tool    string    `json:"tool"`  // patchcheck's version
	Title   string    `json:"title"` // of the series, for people
	Command []string  `json:"command,omitempty"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`

	Plan   string `json:"plan"`    // name
	PlanID string `json:"plan_id"` // hash of the plan as used

	Design Design `json:"design"`
	Jobs   []Job  `json:"jobs"`
	Arms   []Arm  `json:"arms"`

	// Order is the order in which boots were asked for, made from Design.Seed
	// before the first boot; repeats are appended as they come.
	Order []Place `json:"order"`
	Boots []Boot  `json:"boots"`
	Looks []Look  `json:"looks,omitempty"`
	Stop  Stop    `json:"stop"`

	Hosts    []Host            `json:"hosts"`
	Accel    Accel             `json:"accel"`
	Guest    Guest             `json:"guest"`
	Fabric   string            `json:"fabric,omitempty"`   // "rxe on dummy0, client and server in one guest"
	Mount    string            `json:"mount,omitempty"`    // mount options as the client's kernel reports them
	Versions map[string]string `json:"versions,omitempty"` // fio, qemu, compiler: version line
	Limits   []string          `json:"limits,omitempty"`   // what this experiment cannot show, in words

	// Differs says how the sides are not alike, when the user compared them all
	// the same.
	Differs []string `json:"differs,omitempty"`

	dir    string // run folder; "" for an experiment that is not on disk
	across bool   // made of two experiments by Across
	rounds int    // of bootstraps, for tests; 0 is the default
}

// Design is what was decided before the first boot.
type Design struct {
	Seed   uint64 `json:"seed"`   // of the order
	Boots  int    `json:"boots"`  // of each arm at the first look; with neither Precision nor Budget also the last
	Max    int    `json:"max"`    // boots of each arm at most
	Runs   int    `json:"runs"`   // measured runs of each job in a boot
	Warmup int    `json:"warmup"` // runs of each job before them, which are recorded and not used

	// Primary is the metric that the stopping rule watches and that claims are
	// made about first; "" is the first one found. Metric names are
	// "JOB/NAME", such as "randwrite-qd1/write clat mean".
	Primary string `json:"primary,omitempty"`

	// Precision ends the experiment when half the primary's interval is no
	// wider: a quantity in PrecisionUnit ("ns"), or a share of the base's
	// value for "%". 0: not asked.
	Precision     float64       `json:"precision,omitempty"`
	PrecisionUnit string        `json:"precision_unit,omitempty"`
	Budget        time.Duration `json:"budget_ns,omitempty"` // 0: none
	Alpha         float64       `json:"alpha"`               // chance of a false claim over the whole experiment
	Interval      float64       `json:"interval,omitempty"`  // error of the intervals over the whole experiment; 0: Alpha
	Floor         float64       `json:"floor,omitempty"`     // smallest share of the base's value worth naming

	// Schedule is the number of boots of each arm at which the data are looked
	// at. Its last entry is Max.
	Schedule []int       `json:"schedule,omitempty"`
	Noise    NoiseLimits `json:"noise"`
}

// Counted ends the Kind of jobs that ran with probes: their times are not
// compared, only what was counted and fio's work is.
const Counted = ", counted"

// Job is one piece of work that each boot does.
type Job struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // "fio", or the plan's workload kind; ends in Counted when probes were active
	Text string `json:"text"` // fio's job file, or the workload as YAML
	Hash string `json:"hash"` // SHA-256 of Text
}

// Arm is one of the kernels compared.
type Arm struct {
	Name     string   `json:"name"`
	Label    string   `json:"label,omitempty"` // in sentences: "without xpt_mutex"
	Release  string   `json:"release,omitempty"`
	Arch     string   `json:"arch,omitempty"` // x86_64
	Key      string   `json:"key,omitempty"`  // of the kernel store
	Config   string   `json:"config,omitempty"`
	Compiler string   `json:"compiler,omitempty"`
	Patches  []string `json:"patches,omitempty"` // subjects: what this arm carries and base does not
}

// Place is one entry of the order.
type Place struct {
	Block int    `json:"block"` // from 1
	Arm   string `json:"arm"`
	Try   int    `json:"try"` // 1, more for a repeat
}

// Boot is one boot of one arm and everything measured in it.
type Boot struct {
	Arm     string        `json:"arm"`
	Index   int           `json:"index"` // over all boots, from 1, in the order of time
	Block   int           `json:"block"`
	Try     int           `json:"try"`
	Guest   string        `json:"guest,omitempty"` // console/GUEST/console.log
	Started time.Time     `json:"started"`
	Elapsed time.Duration `json:"elapsed_ns"`
	Noise   Noise         `json:"noise"`           // of the host while it ran
	Noisy   []string      `json:"noisy,omitempty"` // limits that Noise broke

	// Rejected says why this boot is not used: it was noisy and repeated, or it
	// failed. It never depends on what was measured.
	Rejected string `json:"rejected,omitempty"`
	Runs     []Run  `json:"runs"`
}

// Run is one execution of one job.
type Run struct {
	Job     string        `json:"job"`
	Index   int           `json:"index"` // within its boot and job, from 1; warm-up runs count
	Warmup  bool          `json:"warmup,omitempty"`
	Started time.Time     `json:"started,omitzero"`
	Elapsed time.Duration `json:"elapsed_ns"`

	// Fio is the path of fio's raw output, relative to the run folder. A
	// Booter leaves it empty and sets Raw; Conduct writes the file.
	Fio string `json:"fio,omitempty"`
	Raw []byte `json:"-"`

	// Metrics are what was measured beside fio, by name: "enqueues per RPC".
	Metrics map[string]Metric `json:"metrics,omitempty"`
	// Hists are distributions from tracepoints, by name: "rpc latency".
	Hists map[string]stats.Hist `json:"hists,omitempty"`
	// Invalid says why nothing of this run may be used: "LOST 12 events".
	Invalid string `json:"invalid,omitempty"`

	out *fio.Output // parsed Fio, loaded with the experiment
}

// Direction of a metric.
type Direction string

// Directions. None is for a value without a better side: it is compared and
// never judged.
const (
	Lower  Direction = "lower"
	Higher Direction = "higher"
	None   Direction = "none"
)

// Metric is one measured value of one run.
type Metric struct {
	Value  float64   `json:"value"`
	Unit   string    `json:"unit,omitempty"` // "ns", "B/s", "1/s", "s", "%"; "" for a plain count
	Better Direction `json:"better"`
	// Exact marks a count that is the same in each run of one kernel: it is
	// compared exactly, and emulation does not change it.
	Exact bool `json:"exact,omitempty"`
	// Invalid says why there is no number: "LOST 12 events".
	Invalid string `json:"invalid,omitempty"`
}

// Noise is what the host did beside the experiment during one boot.
type Noise struct {
	Load      float64 `json:"load"`              // one-minute load average at the end
	Others    float64 `json:"others"`            // share of all CPU time used by processes that are not ours, 0 to 1
	Steal     float64 `json:"steal"`             // share of CPU time taken by the hypervisor below us, 0 to 1
	PSI       float64 `json:"psi"`               // share of time in which some task waited for a CPU, 0 to 1; -1 unknown
	PSIIO     float64 `json:"psi_io"`            // the same for I/O
	MHz       float64 `json:"mhz,omitempty"`     // mean clock of the cores at the end, 0 unknown
	Throttled int64   `json:"throttled"`         // thermal throttle events
	QEMUs     int     `json:"qemus"`             // other QEMU processes, the most seen
	Unknown   string  `json:"unknown,omitempty"` // why nothing is known
}

// NoiseLimits are what a boot's Noise may reach before the boot is repeated.
// Zero values take the defaults of DefaultNoise.
type NoiseLimits struct {
	Others  float64 `json:"others"`
	Steal   float64 `json:"steal"`
	QEMUs   int     `json:"qemus"`
	Repeats int     `json:"repeats"` // of one place, and no more than one for three boots that count; after them a boot is used and stays marked noisy
}

// Host is one machine of the experiment.
type Host struct {
	Role     string `json:"role,omitempty"` // "" for the only one, else server, client
	CPU      string `json:"cpu"`
	CPUs     int    `json:"cpus"`
	Arch     string `json:"arch"`
	MemMiB   int64  `json:"mem_mib"`
	OS       string `json:"os,omitempty"`
	Kernel   string `json:"kernel,omitempty"` // release of the host's own kernel
	Governor string `json:"governor,omitempty"`
	Virtual  string `json:"virtual,omitempty"` // hypervisor below, "" none or unknown
	Link     string `json:"link,omitempty"`    // RDMA device and speed, for real hosts
}

// Accel is how the guests ran.
type Accel struct {
	Name   string `json:"name"` // kvm, tcg, or none on real machines
	Reason string `json:"reason,omitempty"`
}

// Guest is the virtual machine's size.
type Guest struct {
	CPUs   int    `json:"cpus,omitempty"`
	MemMiB int64  `json:"mem_mib,omitempty"`
	Image  string `json:"image,omitempty"` // key
}

// Look is one interim analysis, as the stopping rule saw it.
type Look struct {
	At     time.Time `json:"at"`
	Boots  int       `json:"boots"`           // of each arm
	Level  float64   `json:"level"`           // nominal error of the intervals at this look
	Claim  float64   `json:"claim,omitempty"` // nominal error of a claim at this look; 0: Level
	Spent  float64   `json:"spent"`           // of Design.Alpha so far; intervals have used as large a share of theirs
	Metric string    `json:"metric"`
	Diff   float64   `json:"diff"`
	Lo     float64   `json:"lo"`
	Hi     float64   `json:"hi"`
	Unit   string    `json:"unit,omitempty"`
	Stop   string    `json:"stop,omitempty"` // reason, "" to go on
}

// Reasons to stop.
const (
	StopBoots     = "boots"     // the number of boots asked for
	StopPrecision = "precision" // the interval is narrow enough
	StopClear     = "clear"     // the primary's difference is shown
	StopBudget    = "budget"    // the time is used up
	StopMax       = "max"       // as many boots as allowed
	StopFailed    = "failed"    // an arm cannot be measured
	StopCanceled  = "canceled"  // the user ended it
)

// Stop is why the experiment ended.
type Stop struct {
	Reason string `json:"reason,omitempty"`
	Text   string `json:"text,omitempty"`
}

// Booter boots an arm once and runs all jobs in it: Design.Warmup runs of each
// job that are marked Warmup, then Design.Runs of each, jobs alternating. n
// counts boots from 1 and makes names of guests. It fills Arm, Guest, Started,
// Elapsed and Runs; Conduct fills the rest.
//
// An error of type *KernelError says that the kernel under test failed, which
// ends the experiment; any other error is ours, and the boot is tried again.
type Booter interface {
	Boot(ctx context.Context, arm string, n int) (Boot, error)
}

// KernelError says that the kernel of an arm crashed or could not do the job.
type KernelError struct {
	Arm  string
	Text string // title of the crash, or what failed
}

func (e *KernelError) Error() string { return "the " + e.Arm + " kernel failed: " + e.Text }

// Observer follows an experiment. Calls come from one goroutine.
type Observer interface {
	// Booting says which boot starts, and how many boots are planned so far.
	Booting(p Place, n, planned int)
	// Booted comes when the boot's record is complete.
	Booted(b Boot)
	// Looked comes after each look at the data.
	Looked(l Look)
}
