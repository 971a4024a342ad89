// SPDX-License-Identifier: Apache-2.0

// Package guestproto owns the language between the host and PID 1 of the
// guest: verbs, their requests and results as plain values. It has no code
// that acts on either side.
package guestproto

import "encoding/json"

// VerbPrefix marks an SSH exec command that is a verb, not a shell command.
const VerbPrefix = "pc:"

// Names of the virtio-serial ports (udev-less: the guest finds them by
// /sys/class/virtio-ports/*/name).
const (
	PortSSH    = "patchcheck.ssh"
	PortEvents = "patchcheck.events"
)

// Message is one JSON line on a verb's stdout. The last one has Done set.
type Message struct {
	Log    string          `json:"log,omitempty"` // progress, for the run log
	Done   bool            `json:"done,omitempty"`
	Error  *Error          `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// Error classes say whom a failed verb speaks about.
const (
	ClassSetup    = "setup"    // the guest lacks something: INFRA
	ClassResource = "resource" // guest out of memory, disk: INFRA
	ClassKernel   = "kernel"   // the kernel under test answered wrongly: FAIL
	ClassData     = "data"     // contents differ: FAIL
	ClassUsage    = "usage"    // malformed request: our bug, INFRA
)

// Error is why a verb failed.
type Error struct {
	Class   string `json:"class"`
	Message string `json:"message"`
	Detail  string `json:"detail,omitempty"` // output of the tool that failed, verbatim
	Hint    string `json:"hint,omitempty"`   // what to do next
	Errno   string `json:"errno,omitempty"`  // symbolic: "EIO"
}

func (e *Error) Error() string {
	s := e.Message
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Ready is the first line on the events port.
type Ready struct {
	Event    string `json:"event"` // "ready"
	Release  string `json:"release"`
	UptimeMS int64  `json:"uptime_ms"`           // guest monotonic time since power-on
	UnixNano int64  `json:"unix_nano,omitempty"` // guest's idea of the time, for skew
	HostKey  string `json:"host_key,omitempty"`
}

// Verbs.
const (
	VerbFacts     = "facts"       // -> Facts
	VerbNFSStart  = "nfs.start"   // NFSStart -> NFSStarted: rpcbind, nfsdcld, mountd, exports, nfsd threads
	VerbNFSListen = "nfs.listen"  // NFSListen -> Portlist: add the rdma listener, read portlist back
	VerbLinkSet   = "rdma.link"   // LinkSet -> Link: delete, set parameters, add
	VerbLinkDel   = "rdma.unlink" // LinkDel -> nothing
	VerbMount     = "nfs.mount"   // Mount -> Mounted
	VerbUmount    = "nfs.umount"  // Umount -> Umounted
	VerbWrite     = "io.write"    // IO -> IOResult: write generated content, make missing folders above; folders are made
	VerbRead      = "io.read"     // IO -> IOResult: read and compare with generated content
	VerbHash      = "io.hash"     // IO -> IOResult: read a server-side file through no NFS, compare
	VerbFiles     = "io.files"    // Files -> FilesResult: many small files, write or check
	VerbRecall    = "io.recall"   // Recall -> RecallResult: files whose delegations the server wants back
	VerbRemove    = "io.remove"   // Remove -> nothing: delete below a folder
	VerbDrop      = "cache.drop"  // -> nothing: sync, drop page cache, dentries, inodes
	VerbFlip      = "io.flip"     // Flip -> nothing: corrupt one byte of a server-side file (tests of the oracle)
	VerbTrace     = "trace.set"   // Trace -> nothing: install probes and histograms, cleared
	VerbTraceRead = "trace.read"  // -> TraceResult: read all histograms, then clear them
	VerbTraceOff  = "trace.off"   // -> nothing
	VerbMemory    = "mem"         // -> Memory
	VerbDmesg     = "dmesg"       // -> Dmesg: whole kernel log
	VerbMark      = "mark"        // Mark -> nothing: a line into the kernel log
	VerbSysrq     = "sysrq"       // Sysrq -> nothing: for hung guests: w, l, m
	VerbPoweroff  = "poweroff"    // -> nothing: sync, then end the guest
	VerbStacks    = "stacks"      // Stacks -> StacksResult: kernel stacks of stuck tasks
	VerbCounters  = "counters"    // -> Counters: what NFS, SunRPC and RDMA count by themselves
	VerbFio       = "io.fio"      // Fio -> FioResult: run a fio job
	VerbLeaks     = "leaks"       // LeaksRequest -> Leaks: scan with kmemleak, read its report
	VerbSample    = "sample"      // SampleRequest -> Sample: CPU time and the mount's counters
)

// Facts describe the guest.
type Facts struct {
	Release  string            `json:"release"`
	Version  string            `json:"version"`
	Cmdline  string            `json:"cmdline"`
	CPUs     int               `json:"cpus"`
	MemKiB   int64             `json:"mem_kib"`
	UnixNano int64             `json:"unix_nano"`       // guest's idea of the time, for skew
	Tools    map[string]string `json:"tools,omitempty"` // tool -> version line
	RootFS   string            `json:"root_fs"`
}

// NFSStart brings the server up, without an RDMA listener.
type NFSStart struct {
	Export   string   `json:"export"`    // folder to export, made if absent
	ExportFS string   `json:"export_fs"` // "tmpfs"
	SizeMiB  int      `json:"size_mib"`
	Versions []string `json:"versions"` // "3", "4.0", "4.1", "4.2"
	Threads  int      `json:"threads"`
	Address  string   `json:"address"` // IPv4 of the dummy netdev, with prefix length
	Netdev   string   `json:"netdev"`
	// Delegations lets nfsd hand out NFSv4 delegations. Without them (the
	// default) the number of RPCs of a workload is the same each time: whether
	// a delegation is granted depends on lockd's grace period, on the server's
	// memory, and for a minute on earlier conflicts with accesses on the server.
	Delegations bool `json:"delegations,omitempty"`
}

// NFSStarted says what runs.
type NFSStarted struct {
	Versions string   `json:"versions"` // /proc/fs/nfsd/versions
	Threads  int      `json:"threads"`
	Portlist []string `json:"portlist"`
}

// NFSListen adds a listener.
type NFSListen struct {
	Proto string `json:"proto"` // "rdma"
	Port  int    `json:"port"`  // 20049
}

// Portlist is /proc/fs/nfsd/portlist after the change.
type Portlist struct {
	Lines []string `json:"lines"`
}

// LinkSet makes a soft RDMA device on a netdev. Params are written to
// /sys/module/MODULE/parameters first, so that the new link reads them.
type LinkSet struct {
	Name   string            `json:"name"`   // rxe0
	Type   string            `json:"type"`   // rxe
	Netdev string            `json:"netdev"` // dummy0
	Module string            `json:"module"` // rdma_rxe
	Params map[string]string `json:"params"`
}

// Link is the device as the kernel shows it after the change.
type Link struct {
	Name     string `json:"name"`
	State    string `json:"state"`               // ACTIVE
	VendorID string `json:"vendor_id,omitempty"` // as sysfs or ibv shows it, if it does
	// Facts are sysfs attributes of the device (node_type, node_guid, fw_ver,
	// rate, link_layer) and the module's parameters as read back ("param.NAME").
	Facts map[string]string `json:"facts,omitempty"`
}

// LinkDel removes a device.
type LinkDel struct {
	Name string `json:"name"`
}

// Mount is an NFS mount by the guest's client.
type Mount struct {
	Server  string   `json:"server"`
	Path    string   `json:"path"`
	At      string   `json:"at"`
	Version string   `json:"version"` // "3", "4.1"
	Proto   string   `json:"proto"`   // rdma, tcp
	Port    int      `json:"port"`
	Options []string `json:"options,omitempty"`
}

// Mounted is what the kernel says of the mount: the proof of version and
// transport.
type Mounted struct {
	Options string `json:"options"` // from /proc/self/mountinfo or mounts
	Xprt    string `json:"xprt"`    // "xprt:" line of /proc/self/mountstats: "rdma ..."
}

// Umount undoes a Mount. Force and Lazy are for cleaning up after a failure:
// a plain unmount is itself a test.
type Umount struct {
	At    string `json:"at"`
	Force bool   `json:"force,omitempty"` // MNT_FORCE: pending RPCs fail with EIO
	Lazy  bool   `json:"lazy,omitempty"`  // MNT_DETACH
}

// Umounted tells what of a mount over RDMA stayed behind. Connections end some
// time after the unmount returns, and their last Sends complete only then, so
// the verb waits for that, at most 5 s.
type Umounted struct {
	// Left counts RDMA resources by kind (qp, cq, mr, pd, cm_id) beyond those
	// that were there before the mount. Empty: the connection is gone on both
	// sides. With other mounts open it says nothing.
	Left     map[string]int64 `json:"left,omitempty"`
	WaitedUS int64            `json:"waited_us"`
}

// IO is a read or write of one file whose content is a pure function of Seed
// and offset, so that any reader can check it with no copy.
type IO struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`  // bytes
	Block  int    `json:"block"` // bytes per call; need not be aligned for reads
	Direct bool   `json:"direct"`
	Seed   uint64 `json:"seed"`
	Offset int64  `json:"offset,omitempty"` // start of the range
	Random bool   `json:"random,omitempty"` // blocks in a seeded random order
	Sync   bool   `json:"sync,omitempty"`   // fsync at the end of a write
	// Parallel is how many threads share the blocks, each with one call at a
	// time; 0 means 1. More than one keeps several RPCs, and so several
	// contexts of a connection, in flight. VerbHash uses one.
	Parallel int `json:"parallel,omitempty"`
	// Export is the same file on the server's own file system. With it,
	// VerbRead compares attributes, too.
	Export string `json:"export,omitempty"`
}

// IOResult tells what was moved and whether it was right.
type IOResult struct {
	Bytes     int64   `json:"bytes"`
	Calls     int64   `json:"calls"`
	SHA256    string  `json:"sha256"`
	Want      string  `json:"want"`                // SHA-256 of the generated content
	FirstDiff int64   `json:"first_diff"`          // offset of the first wrong byte; -1 none
	Got       string  `json:"got,omitempty"`       // hex around FirstDiff
	Expected  string  `json:"expected,omitempty"`  // hex around FirstDiff
	DumpAt    int64   `json:"dump_at,omitempty"`   // offset of the first byte of Got and Expected
	Diagnosis string  `json:"diagnosis,omitempty"` // what stands at FirstDiff: zeros, the content of another offset, a short file
	FileSize  int64   `json:"file_size"`           // as fstat shows it afterwards
	FS        string  `json:"fs,omitempty"`        // file system that was used: "nfs" is the client\'s side, "tmpfs" the server\'s
	ElapsedUS int64   `json:"elapsed_us"`
	SlowestUS int64   `json:"slowest_us"` // one call
	MedianUS  float64 `json:"median_us"`  // of all calls but fsync and close
}

// Files is a workload of many small files below Dir: file i has a size
// between MinSize and MaxSize (a function of i) and content generated from Seed.
type Files struct {
	Dir      string `json:"dir"`
	Count    int    `json:"count"`
	MinSize  int64  `json:"min_size"`
	MaxSize  int64  `json:"max_size"`
	Seed     uint64 `json:"seed"`
	Check    bool   `json:"check"`              // false: write; true: read and compare
	Parallel int    `json:"parallel,omitempty"` // threads that share the files; 0 means 1
	Export   string `json:"export,omitempty"`   // Dir on the server's own file system: checking compares attributes, too
}

// FilesResult sums a Files verb up.
type FilesResult struct {
	Count     int      `json:"count"`
	Bytes     int64    `json:"bytes"`
	SHA256    string   `json:"sha256"` // over the name and the SHA-256 of the content of each file, in order
	Want      string   `json:"want"`
	Wrong     []string `json:"wrong,omitempty"` // first few: "f017: first differs at byte 12"
	WrongN    int      `json:"wrong_n"`
	FS        string   `json:"fs,omitempty"` // as in IOResult
	ElapsedUS int64    `json:"elapsed_us"`
	SlowestUS int64    `json:"slowest_us"`
}

// Recall asks for files that the client has open, with a delegation, while the
// server writes to them (RFC 8881, sections 10.2 and 20.2).
type Recall struct {
	Dir    string `json:"dir"`    // on the client's mount
	Export string `json:"export"` // the same folder on the server's own file system
	Count  int    `json:"count"`
}

// RecallResult sums a Recall verb up. That contents were right is said by the
// absence of an error.
type RecallResult struct {
	Count     int   `json:"count"`
	Delegated int   `json:"delegated"`  // files of which the client held a delegation
	SlowestUS int64 `json:"slowest_us"` // longest write of the server, which waits for the delegation
}

// Remove deletes everything below Dir.
type Remove struct {
	Dir string `json:"dir"`
}

// Flip inverts one byte.
type Flip struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
}

// Probe is one dynamic event with an in-kernel histogram (kernel
// Documentation/trace/histogram.rst, fprobetrace.rst).
type Probe struct {
	Name string `json:"name"`
	// Exactly one of these.
	Tracepoint string `json:"tracepoint,omitempty"` // existing tracepoint name, probed by "t:" with Fields
	Event      string `json:"event,omitempty"`      // existing trace event "group/name"; Fields unused
	Function   string `json:"function,omitempty"`   // "f:" at entry
	Return     string `json:"return,omitempty"`     // "f:" at return of this function

	Fields []Field `json:"fields,omitempty"`
	// Keys are the histogram's keys, at most three: field names, or
	// "common_pid.execname", whose rows have the key "execname" and are summed
	// over all processes of one name. Empty: one row with no keys.
	Keys   []string `json:"keys"`
	Filter string   `json:"filter,omitempty"` // trace event filter
	Size   int      `json:"size,omitempty"`   // hist entries, power of two; default 4096
}

// Field is a named fetch argument: "+56($arg1):x32".
type Field struct {
	Name  string `json:"name"`
	Fetch string `json:"fetch"`
}

// Trace installs probes.
type Trace struct {
	Probes []Probe `json:"probes"`
}

// TraceResult holds all histograms.
type TraceResult struct {
	Hists map[string]Hist `json:"hists"`
}

// MaxHistKeys is how many keys a histogram can have: TRACING_MAP_KEYS_MAX of
// kernel/trace/tracing_map.h.
const MaxHistKeys = 3

// Hist is a histogram read from the kernel.
type Hist struct {
	Rows    []HistRow `json:"rows"`
	Hits    int64     `json:"hits"`
	Entries int64     `json:"entries"`
	Dropped int64     `json:"dropped"` // not 0: counts are INVALID
	Missed  int64     `json:"missed"`  // probe misses (nmissed) since set, where the kernel tells
}

// HistRow is one bucket. Number keys are decimal here whatever the trigger
// file shows; string keys (execname) are as shown without the pid.
type HistRow struct {
	Keys map[string]string `json:"keys"`
	Hits int64             `json:"hits"`
}

// Memory is a sample of the guest's memory.
type Memory struct {
	FreeKiB      int64 `json:"free_kib"` // in no use at all: MemFree, and the free pages that CPUs keep
	AvailableKiB int64 `json:"available_kib"`
	SUnreclaim   int64 `json:"sunreclaim_kib"`
	// ReplyCacheKiB is what nfsd's duplicate reply cache holds, a part of
	// SUnreclaim. Entries live for 120 s and nothing empties it earlier, so a
	// comparison of samples subtracts it.
	ReplyCacheKiB int64            `json:"reply_cache_kib,omitempty"`
	Slabs         map[string]int64 `json:"slabs,omitempty"` // active objects by cache
}

// Dmesg is the kernel's own log.
type Dmesg struct {
	Text string `json:"text"`
}

// Mark writes Text into the kernel log.
type Mark struct {
	Text string `json:"text"`
}

// Sysrq triggers keys, one after the other.
type Sysrq struct {
	Keys string `json:"keys"`
}

// MemoryRequest says how a Memory sample is taken.
type MemoryRequest struct {
	// Settle frees what the kernel only caches (page cache, dentries, empty
	// slabs) first, so that samples can be compared with each other.
	Settle bool `json:"settle,omitempty"`
}

// Stacks chooses tasks by their state as in /proc/PID/stat; default "D".
type Stacks struct {
	States string `json:"states,omitempty"` // "D", "DRS"
}

// StacksResult lists tasks, threads included, in the order of their ids.
type StacksResult struct {
	Tasks []TaskStack `json:"tasks"`
}

// TaskStack is one task.
type TaskStack struct {
	ID    int    `json:"id"` // thread id
	Comm  string `json:"comm"`
	State string `json:"state"`
	Stack string `json:"stack"` // /proc/PID/stack; empty without CONFIG_STACKTRACE
}

// Counters are monotonic since boot or mount; the caller subtracts two samples.
type Counters struct {
	// Server is /proc/sys/sunrpc/svc_rdma (rdma_stat_read, ...); Client and
	// Nfsd are the named values of /proc/net/rpc/nfs and /proc/net/rpc/nfsd
	// ("rpc.calls", "rpc.retrans", ...); Ports the counters of each RDMA port
	// ("rxe0/1/sent_pkts").
	Server map[string]int64 `json:"server,omitempty"`
	Client map[string]int64 `json:"client,omitempty"`
	Nfsd   map[string]int64 `json:"nfsd,omitempty"`
	Ports  map[string]int64 `json:"ports,omitempty"`
	Mounts []MountCounters  `json:"mounts,omitempty"`
}

// MountCounters is one NFS mount of /proc/self/mountstats.
type MountCounters struct {
	At    string           `json:"at"`
	Proto string           `json:"proto"` // of the xprt line: rdma, tcp
	Xprt  map[string]int64 `json:"xprt"`  // sends, recvs, bad_xids, and for rdma its own counters
	Ops   map[string]Op    `json:"ops,omitempty"`
}

// Op counts one NFS operation of a mount.
type Op struct {
	Ops      int64 `json:"ops"`
	Sent     int64 `json:"sent"` // transmissions; more than Ops means retransmits
	Timeouts int64 `json:"timeouts"`
	Errors   int64 `json:"errors"`
}

// LeaksRequest is for taking a base line: with Clear, what is found now is
// forgotten and not reported again.
type LeaksRequest struct {
	Clear bool `json:"clear,omitempty"`
}

// Leaks is what kmemleak reports: objects of at least 5 s of age that nothing
// refers to.
type Leaks struct {
	Text  string `json:"text"`
	Count int    `json:"count"`
}

// Fio runs fio(1), which needs an image with the fio layer.
type Fio struct {
	Job  string   `json:"job"`            // text of a job file
	Args []string `json:"args,omitempty"` // further options, before the job file
	Dir  string   `json:"dir,omitempty"`  // where it runs and makes its files, made if absent; default /tmp
	// Mount asks for samples of the mount there, right before and after.
	Mount string `json:"mount,omitempty"`
}

// FioResult is what fio left, for checks/fio to judge: fio may fail with a
// document and succeed without one.
type FioResult struct {
	Output    string `json:"output"` // stdout: notices, then a json+ document
	Stderr    string `json:"stderr,omitempty"`
	Exit      int    `json:"exit"` // status, or 128 + signal
	Version   string `json:"version"`
	ElapsedUS int64  `json:"elapsed_us"`
	// Before and After are samples, when asked for.
	Before *Sample `json:"before,omitempty"`
	After  *Sample `json:"after,omitempty"`
}

// SampleRequest names the mount whose counters are read; "" reads none.
type SampleRequest struct {
	Mount string `json:"mount,omitempty"`
}

// Sample is what the guest has counted since its boot, or since the mount, for
// the difference of two.
type Sample struct {
	MonotonicNS int64 `json:"monotonic_ns"`
	// CPU is the time of all CPUs by state, in ns: user, nice, system, idle,
	// iowait, irq, softirq, steal (proc_stat(5)), in steps of a clock tick.
	CPU map[string]int64 `json:"cpu"`
	// Tasks is the CPU time of living tasks by kind, in ns, in steps of a
	// clock tick for each task: "nfsd" for all threads of that name,
	// "kworker rxe_wq" for the workers of one workqueue at the moment.
	Tasks map[string]int64    `json:"tasks,omitempty"`
	Ops   map[string]OpSample `json:"ops,omitempty"`  // of the mount, by NFS operation
	Xprt  map[string]int64    `json:"xprt,omitempty"` // of the mount's transport
	Nfsd  map[string]int64    `json:"nfsd,omitempty"` // of /proc/net/rpc/nfsd
}

// OpSample is one line of mountstats. Times are sums over all operations, in
// ms, from the task's start to its transmission, from there to the Reply, and
// from the start to the end.
type OpSample struct {
	Op
	QueueMS   int64 `json:"queue_ms"`
	RTTMS     int64 `json:"rtt_ms"`
	ExecuteMS int64 `json:"execute_ms"`
}
