// SPDX-License-Identifier: Apache-2.0

// Package guestlog names what a guest, its QEMU and its tools said when
// nothing crashed: a server without a listener, a transport that floods
// errors, a guest out of memory, a broken KVM. It keeps such things from being
// booked as faults of the series, or as passes. Crashes belong to package
// console.
//
// It is pure: text and facts in, diagnoses out.
package guestlog

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"patchcheck/checks"
)

// Class says whom a diagnosis speaks about.
type Class string

const (
	Setup      Class = "SETUP"           // the guest lacks something or was set up wrongly
	Transport  Class = "TRANSPORT_ERROR" // the RPC transport fails though it was set up
	Stall      Class = "NFS_STALL"       // the server did not answer for long
	GuestOOM   Class = "GUEST_OOM"       // too little memory in the guest
	GuestFull  Class = "GUEST_FULL"      // no space in the guest
	Harness    Class = "HARNESS_ERROR"   // QEMU could not be started as asked
	Accel      Class = "ACCEL_BROKEN"    // hardware virtualisation does not work here
	ClockSkew  Class = "CLOCK_SKEW"      // host and guest disagree on the time
	Overloaded Class = "OVERLOADED"      // the guest runs too slowly for its watchdogs
	Lost       Class = "INVALID"         // events were lost, counts prove nothing
)

// Verdict is what a cell gets when this is all that is known about it.
func (c Class) Verdict() checks.Verdict {
	switch c {
	case Transport, Stall:
		return checks.Fail // to be attributed by a run on the base kernel
	}
	return checks.Infra
}

// Severity of findings of this class.
func (c Class) severity() checks.Severity {
	switch c {
	case ClockSkew, Overloaded:
		return checks.Warning
	}
	return checks.Error
}

// Diagnosis is one named condition; repeats are folded.
type Diagnosis struct {
	ID       string   `json:"id"` // "guest.rpcrdma-completion"
	Class    Class    `json:"class"`
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"`
	Count    int      `json:"count"`
	Line     int      `json:"line,omitempty"`      // first
	LastLine int      `json:"last_line,omitempty"` // last, when repeated
	Evidence []string `json:"evidence,omitempty"`
	// Seconds is how long the condition lasted by printk time, for conditions
	// that begin and end (a grace period, a server that does not answer).
	Seconds float64 `json:"seconds,omitempty"`
	// Over says that the condition ended by itself.
	Over bool `json:"over,omitempty"`

	// Note says that the condition is expected and only worth a note.
	Note bool `json:"note,omitempty"`

	since float64
}

// shortGrace is a grace period that a harness asked for, in seconds; 10 is
// the least that nfsd takes.
const shortGrace = 20

// Finding turns a diagnosis into a finding.
func (d Diagnosis) Finding() checks.Finding {
	msg := fmt.Sprintf("%s: %s", d.Class, d.Message)
	if d.Count > 1 {
		msg += fmt.Sprintf(" (%d times)", d.Count)
	}
	sev := d.Class.severity()
	if d.Over || d.Note {
		sev = checks.Note
	}
	return checks.Finding{ID: d.ID, Severity: sev, Where: checks.Where{Line: d.Line}, Message: msg, Evidence: d.Evidence, Fix: d.Hint}
}

// pattern is one line of text that names a condition.
type pattern struct {
	id     string
	needle string // literal that the line must hold
	re     *regexp.Regexp
	class  Class
	msg    string // "{1}" is group 1
	hint   string
	source string
	ends   string // id of the condition that this line ends
	begins bool   // the condition lasts until another line ends it
}

func re(s string) *regexp.Regexp { return regexp.MustCompile(s) }

var patterns = []pattern{
	// net/sunrpc/xprtrdma/, net/sunrpc/clnt.c
	{id: "guest.rpcrdma-completion", needle: "rpcrdma: ", re: re(`rpcrdma: (\w+): ([a-zA-Z ]+?) ?\((\d+)/0x([0-9a-f]+)\)`), class: Transport,
		msg: "RPC over RDMA completions fail: {1}: {2} (status {3}, vendor code 0x{4})", hint: "the two ends disagree on a size or a key: compare the inline thresholds and what the peer granted; run the cell on the base kernel", source: "ib_wc_status in include/rdma/ib_verbs.h"},
	{id: "guest.rpcrdma-device", needle: "rpcrdma: ", re: re(`rpcrdma: ('\w+' mode is not supported by device \S+|HCA provides only \d+ send SGEs)`), class: Setup,
		msg: "the client's transport refuses the device: {1}", hint: "use a device with fast registration and enough Send SGEs", source: "net/sunrpc/xprtrdma/frwr_ops.c"},
	{id: "guest.nfs-not-responding", needle: "not responding", re: re(`\bserver (\S+) not responding(?:, (still trying|timed out))?`), class: Stall, begins: true,
		msg: "the NFS server {1} does not answer", hint: "look at the server's threads (sysrq w) and at lost Replies; each unreplied RPC costs a retransmit timeout", source: "net/sunrpc/clnt.c"},
	{id: "guest.nfs-responding", needle: "server ", re: re(`\bserver (\S+) OK\s*$`), ends: "guest.nfs-not-responding"},
	{id: "guest.rdma-backchannel", needle: "RPC/RDMA backchannel overflow", re: re(`RPC/RDMA backchannel overflow`), class: Transport,
		msg: "the server sent more callbacks than the client had granted", hint: "look at the backchannel's credits", source: "net/sunrpc/xprtrdma/backchannel.c"},

	// fs/nfsd/nfs4state.c, nfs4recover.c
	{id: "guest.nfsd-grace", needle: "-second grace period", re: re(`NFSD: starting (\d+)-second grace period`), class: Setup, begins: true,
		msg: "nfsd waits {1} s for clients to reclaim state; opens hang until it ends", hint: "write 10 to /proc/fs/nfsd/nfsv4gracetime and nfsv4leasetime before the threads start, and run nfsdcld; the wait belongs to set-up, never to a latency", source: "fs/nfsd/nfs4state.c"},
	{id: "guest.nfsd-grace-end", needle: "grace", re: re(`NFSD: (?:end of grace period|all clients done reclaiming|no clients to reclaim, skipping)`), ends: "guest.nfsd-grace"},
	{id: "guest.nfsd-tracking", needle: "client recovery tracking", re: re(`NFSD: Unable to initialize client recovery tracking! \((-?\d+)\)`), class: Setup,
		msg: "nfsd has nobody to keep its clients' records (error {1})", hint: "start nfsdcld, with rpc_pipefs mounted, before nfsd", source: "fs/nfsd/nfs4recover.c"},
	{id: "guest.rpcbind", needle: "RPC service", re: re(`svc: failed to register (\S+) RPC service \(errno (\d+)\)`), class: Setup,
		msg: "rpcbind does not take the service {1} (errno {2})", hint: "start rpcbind before nfsd; it needs its user and /run/rpcbind", source: "net/sunrpc/svc.c"},

	// nfs-utils: utils/mount
	{id: "guest.statd", needle: "rpc.statd is not running", re: re(`rpc\.statd is not running but is required for remote locking`), class: Setup,
		msg: "an NFSv3 mount with locks needs rpc.statd, which does not run", hint: "mount with nolock, or start rpc.statd", source: "nfs-utils, mount.nfs(8)"},
	{id: "guest.idmap", needle: "does not map into domain", re: re(`name '([^']*)' does not map into domain '([^']*)'`), class: Setup,
		msg: "the owner {1} is unknown in the NFSv4 domain {2}", hint: "set the domain of idmapd on both ends and start it after the host's name is set; or use numeric IDs (nfs4_disable_idmapping)", source: "nfs-utils, idmapd(8)"},

	// iproute2, modprobe
	{id: "guest.rdma-link-add", needle: "Unknown parameter", re: re(`Unknown parameter "(add|del|delete)"`), class: Setup,
		msg: "the guest's rdma tool has no \"link {1}\"", hint: "iproute2 5.0 or later is needed for rdma link add; load the module rdma_rxe or siw first", source: "iproute2, rdma-link(8)"},
	{id: "guest.module", needle: "odule ", re: re(`(?:FATAL: )?[Mm]odule ['"]?([\w-]+)['"]? not found`), class: Setup,
		msg: "the guest's kernel has no module {1}", hint: "set its symbol in the config to y or m and put it into the image", source: "modprobe(8)"},
	{id: "guest.rdma-netdev", needle: "rdma", re: re(`error: (Operation not supported|Invalid argument).*rdma|rdma.*error: (?:Operation not supported)`), class: Setup,
		msg: "the RDMA driver refuses the network device", hint: "siw takes no tunnels, and loopback only with its loopback_enabled parameter; use a dummy or ethernet device, or the other driver", source: "drivers/infiniband/sw/siw/siw_main.c"},
	{id: "guest.roce-blocked", needle: "rping", re: re(`rping.*(?:cma event RDMA_CM_EVENT_(?:UNREACHABLE|ADDR_ERROR|ROUTE_ERROR)|timed out|error -?110)`), class: Setup,
		msg: "the RDMA link is up but RDMA-CM gets no answer", hint: "RoCE needs udp/4791 open in both directions; check nft and the loopback route", source: "rping(1)"},

	// init, mount(8)
	{id: "guest.9p", needle: "unknown filesystem type", re: re(`unknown filesystem type '9p'`), class: Setup,
		msg: "the guest's kernel lacks the file system 9p, on which its tools are", hint: "set CONFIG_NET_9P, CONFIG_NET_9P_VIRTIO and CONFIG_9P_FS", source: "fs/9p/Kconfig, net/9p/Kconfig"},
	{id: "guest.filesystem", needle: "unknown filesystem type", re: re(`unknown filesystem type '([^9']\w*|9[^p']\w*)'`), class: Setup,
		msg: "the guest's kernel lacks the file system {1}", source: "mount(8)"},

	// mm/oom_kill.c, fs
	{id: "guest.oom", needle: "ut of memory", re: re(`(?:Out of memory|Memory cgroup out of memory): Kill(?:ed)? process \d+ \(([^)]*)\)`), class: GuestOOM,
		msg: "the kernel killed {1} for lack of memory", hint: "give the guest more memory; a tmpfs export counts as memory too", source: "mm/oom_kill.c"},
	{id: "guest.oom-invoked", needle: " invoked oom-killer", re: re(`(\S+) invoked oom-killer`), class: GuestOOM,
		msg: "{1} found no free memory", hint: "give the guest more memory; a tmpfs export counts as memory too", source: "mm/oom_kill.c"},
	{id: "guest.full", needle: "No space left on device", re: re(`No space left on device`), class: GuestFull,
		msg: "a file system of the guest is full", hint: "make the export larger than the workload", source: "errno(3)"},
	{id: "guest.quota", needle: "Disk quota exceeded", re: re(`Disk quota exceeded`), class: GuestFull,
		msg: "a quota of the guest is used up", source: "errno(3)"},

	// host: QEMU and KVM
	{id: "host.kvm", needle: "", re: re(`(?i)(failed to initialize kvm|could not access kvm kernel module|KVM internal error\. Suberror: \d+|kvm_init_vcpu.*failed|KVM_CREATE_VM.*failed|KVM: entry failed, hardware error \S+)`), class: Accel,
		msg: "KVM does not work here: {1}", hint: "run under TCG with longer limits (--accel tcg), or mend /dev/kvm; the kernel under test is not to blame", source: "QEMU accel/kvm"},
	{id: "host.tcg-fallback", needle: "falling back to tcg", re: re(`falling back to tcg`), class: Accel,
		msg: "QEMU fell back to emulation", hint: "time limits must be scaled for TCG", source: "QEMU"},
	{id: "host.hostfwd", needle: "host forwarding rule", re: re(`[Cc]ould not set up host forwarding rule '?(?:tcp|udp):([\d.]*):(\d+)`), class: Harness,
		msg: "the host's port {2} is taken", hint: "another guest or server holds it (ss -ltnp 'sport = :{2}'); let the system choose a port (0) instead", source: "QEMU net/slirp.c"},
	{id: "host.qemu", needle: "qemu-system-", re: re(`qemu-system-\w+: (.*(?:could not load kernel|not a valid device model name|invalid option|Invalid parameter|Could not open|No such file or directory|Cannot allocate memory|unable to map backing store|Failed to get .*lock).*)`), class: Harness,
		msg: "QEMU did not start: {1}", hint: "check the path or option that it names", source: "QEMU"},

	// time
	{id: "host.clock-skew", needle: "", re: re(`(?:[Cc]lock skew detected|has modification time (\d+(?:\.\d+)?) s in the future)`), class: ClockSkew,
		msg: "file times lie in the future: host and guest clocks differ", hint: "give the guest the host's time (-rtc base=utc), build on the host, and take durations from monotonic clocks", source: "make(1)"},
	{id: "guest.slow-clock", needle: "clocksource", re: re(`clocksource: (?:timekeeping watchdog on CPU\d+: .*|Long readout interval.*|Marking clocksource '\S+' as unstable)`), class: Overloaded,
		msg: "the guest was held up for long: its clock watchdog fired", hint: "run fewer guests at once; time-outs of this run are suspect", source: "kernel/time/clocksource.c"},
}

// Rules of this package; each pattern is one, and those of other files.
var Rules = func() []checks.Rule {
	var rs []checks.Rule
	for _, p := range patterns {
		if p.class != "" {
			rs = append(rs, checks.Rule{ID: p.id, Severity: p.class.severity(), Title: strings.NewReplacer("{1}", "...", "{2}", "...", "{3}", "...", "{4}", "...").Replace(p.msg), Source: p.source, Fix: p.hint})
		}
	}
	rs = append(rs, moreRules...)
	sort.Slice(rs, func(i, j int) bool { return rs[i].ID < rs[j].ID })
	return rs
}()

// Scanner reads lines of a console, of dmesg, of QEMU's stderr or of a tool.
type Scanner struct {
	no    int
	byKey map[string]*Diagnosis
	order []*Diagnosis
	last  float64
	mount []string // lines of mount.nfs that stand together
	// mountLine is the first of them.
	mountLine int
}

// NewScanner makes an empty scanner.
func NewScanner() *Scanner { return &Scanner{byKey: map[string]*Diagnosis{}} }

var stampRE = regexp.MustCompile(`^(?:<\d+>)?\[ *(\d+\.\d+)\]`)

// maxDiagnoses and maxLine bound what hostile output can make us keep.
const (
	maxDiagnoses = 200
	maxLine      = 4 << 10
)

// Line takes one line.
func (s *Scanner) Line(l string) {
	s.no++
	if len(l) > maxLine {
		l = l[:maxLine]
	}
	if m := stampRE.FindStringSubmatch(l); m != nil {
		s.last, _ = strconv.ParseFloat(m[1], 64)
	}
	if typed(l) {
		return
	}
	s.mounting(l)
	for i := range patterns {
		p := &patterns[i]
		if p.needle != "" && !strings.Contains(l, p.needle) {
			continue
		}
		if p.needle == "" && !strings.Contains(l, "kvm") && !strings.Contains(l, "KVM") && !strings.Contains(l, "lock skew") && !strings.Contains(l, "in the future") {
			continue
		}
		m := p.re.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		if p.ends != "" {
			s.end(p.ends, m)
			continue
		}
		s.add(p, m, l)
	}
}

// mountRE is a line of mount.nfs; its messages often take several.
var mountRE = regexp.MustCompile(`^mount(?:\.nfs4?)?: `)

// maxMount bounds the lines kept of one failed mount.
const maxMount = 50

// mounting collects what mount.nfs said in one go.
func (s *Scanner) mounting(l string) {
	if !mountRE.MatchString(l) {
		s.mounted()
		return
	}
	if s.mount == nil {
		s.mountLine = s.no
	}
	if len(s.mount) < maxMount {
		s.mount = append(s.mount, l)
	}
}

// mounted names why the mount failed, as far as words alone tell; mount(8)
// itself is left to the patterns.
func (s *Scanner) mounted() {
	said := strings.Join(s.mount, "\n")
	s.mount = nil
	if !strings.Contains(said, "mount.nfs") {
		return
	}
	d, ok := DiagnoseMount(MountTry{Output: said})
	if !ok || d.ID != "guest.mount" && s.has(d.ID) {
		return // a pattern has it
	}
	d.Line = s.mountLine
	s.record(&d)
}

// has tells whether a diagnosis was made.
func (s *Scanner) has(id string) bool {
	return slices.ContainsFunc(s.order, func(d *Diagnosis) bool { return d.ID == id })
}

// typed tells whether the line is a command at a prompt, which may hold any
// words.
func typed(l string) bool {
	for i := 0; i < len(l) && i < 64; i++ {
		switch l[i] {
		case '#', '$', '>':
			return i+1 < len(l) && l[i+1] == ' '
		case ' ', '[', '\t':
			return false
		}
	}
	return false
}

func (s *Scanner) add(p *pattern, m []string, l string) {
	msg, hint := p.msg, p.hint
	for i := 1; i < len(m) && i < 10; i++ {
		h := "{" + strconv.Itoa(i) + "}"
		msg = strings.ReplaceAll(msg, h, clean(m[i]))
		hint = strings.ReplaceAll(hint, h, clean(m[i]))
	}
	d := &Diagnosis{ID: p.id, Class: p.class, Message: msg, Hint: hint, Count: 1, Line: s.no, Evidence: []string{clean(l)}, since: s.last}
	if p.id == "guest.nfsd-grace" {
		n, err := strconv.Atoi(m[1])
		d.Note = err == nil && n <= shortGrace
	}
	s.record(d)
}

// record keeps a diagnosis, or counts one more of its kind.
func (s *Scanner) record(d *Diagnosis) {
	key := d.ID + "\x00" + d.Message
	if old := s.byKey[key]; old != nil {
		old.Count++
		old.LastLine = d.Line
		if old.Over { // it began again
			old.Over, old.since = false, s.last
		}
		return
	}
	if len(s.order) < maxDiagnoses {
		s.byKey[key] = d
		s.order = append(s.order, d)
	}
}

func (s *Scanner) end(id string, m []string) {
	for _, d := range s.order {
		if d.ID != id || d.Over {
			continue
		}
		if len(m) > 1 && m[1] != "" && !strings.Contains(d.Message, m[1]) {
			continue // another server
		}
		d.Over = true
		if s.last > d.since {
			d.Seconds += s.last - d.since
		}
	}
}

// Diagnoses returns what was found, in order of first appearance. Conditions
// that did not end have run up to the last time stamp seen.
func (s *Scanner) Diagnoses() []Diagnosis {
	s.mounted()
	var out []Diagnosis
	for _, d := range s.order {
		c := *d
		if c.ID == "guest.oom-invoked" && s.has("guest.oom") {
			continue // how the kill that is told of began
		}
		if !c.Over && c.since > 0 && s.last > c.since && (c.ID == "guest.nfsd-grace" || c.ID == "guest.nfs-not-responding") {
			c.Seconds += s.last - c.since
		}
		out = append(out, c)
	}
	return out
}

// Scan reads text to its end.
func Scan(r io.Reader) ([]Diagnosis, error) {
	s := NewScanner()
	br := bufio.NewReaderSize(r, 64<<10)
	for {
		l, err := br.ReadSlice('\n')
		if len(l) > 0 {
			s.Line(strings.TrimRight(string(l), "\r\n"))
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err == io.EOF {
			return s.Diagnoses(), nil
		}
		if err != nil {
			return s.Diagnoses(), err
		}
	}
}

// clean makes guest text safe to print.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r >= 0x20 && r < 0x7f || r >= 0xa0 && !(r >= 0x202a && r <= 0x202e) && !(r >= 0x2066 && r <= 0x2069) && r != 0xfffd {
			return r
		}
		return '?'
	}, s)
}
