// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"patchcheck/internal/proc"
)

// Host is a machine that we are logged in to.
type Host struct {
	Target Target
	c      *ssh.Client // nil with Exec
	exec   Exec
	root   []string          // what precedes commands that need root: nothing, or sudo -n
	note   func(line string) // is told each command that changes something
}

// Exec runs a shell command on a machine: a way in other than Dial's.
type Exec func(ctx context.Context, stdin, command string) (stdout, stderr string, exit int, err error)

// NewHost is a machine that is reached by exec.
func NewHost(t Target, exec Exec) *Host { return &Host{Target: t, exec: exec} }

// Close logs out.
func (h *Host) Close() error {
	if h.c == nil {
		return nil
	}
	return h.c.Close()
}

// CommandError is a command that failed on a machine.
type CommandError struct {
	Target Target
	Argv   []string
	Exit   int
	Stderr string
}

func (e *CommandError) Error() string {
	s := fmt.Sprintf("%s: %s ended with %d", e.Target, proc.Quote(e.Argv), e.Exit)
	if t := strings.TrimSpace(e.Stderr); t != "" {
		s += ": " + t
	}
	return s
}

// maxOutput bounds what is kept of a command's output, in bytes.
const maxOutput = 32 << 20

// Run runs a command and gives its standard output. Words reach it as they
// are; no shell of the user's splits them.
func (h *Host) Run(ctx context.Context, stdin string, argv ...string) (string, error) {
	run := h.session
	if h.exec != nil {
		run = h.exec
	}
	out, errout, exit, err := run(ctx, stdin, proc.Quote(argv))
	if err != nil {
		return out, fmt.Errorf("%s: %s: %w", h.Target, argv[0], err)
	}
	if exit != 0 {
		return out, &CommandError{Target: h.Target, Argv: argv, Exit: exit, Stderr: errout}
	}
	return out, nil
}

// rootPath is where programs for root are; a login over SSH may not have them
// in its path.
const rootPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Root runs a command as root and records it.
func (h *Host) Root(ctx context.Context, stdin string, argv ...string) (string, error) {
	argv = append(append(append([]string{}, h.root...), "env", rootPath), argv...)
	if h.note != nil {
		h.note(fmt.Sprintf("%s: %s", h.Target.Host, proc.Quote(argv)))
	}
	return h.Run(ctx, stdin, argv...)
}

func (h *Host) session(ctx context.Context, stdin, command string) (stdout, stderr string, exit int, err error) {
	s, err := h.c.NewSession()
	if err != nil {
		return "", "", -1, fmt.Errorf("the connection is gone: %w", err)
	}
	defer s.Close()
	var out, errout limited
	s.Stdout, s.Stderr = &out, &errout
	s.Stdin = strings.NewReader(stdin)
	done := make(chan error, 1)
	go func() { done <- s.Run(command) }()
	select {
	case err = <-done:
	case <-ctx.Done():
		go func() {
			s.Signal(ssh.SIGTERM)
			s.Close()
		}()
		return "", "", -1, context.Cause(ctx)
	}
	var ee *ssh.ExitError
	switch {
	case err == nil:
		return out.String(), errout.String(), 0, nil
	case errors.As(err, &ee):
		return out.String(), errout.String(), ee.ExitStatus(), nil
	}
	return out.String(), errout.String(), -1, fmt.Errorf("the machine ended the session: %w", err)
}

type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if room := maxOutput - l.Len(); room < len(p) {
		l.Buffer.Write(p[:max(room, 0)])
		return len(p), nil
	}
	return l.Buffer.Write(p)
}

var _ io.Writer = (*limited)(nil)

// Facts are what a machine says of itself.
type Facts struct {
	Release  string            `json:"release"`            // uname -r
	Version  string            `json:"version"`            // uname -v
	Arch     string            `json:"arch"`               // uname -m
	BuildID  string            `json:"build_id,omitempty"` // of the running kernel, GNU build id
	Config   string            `json:"config,omitempty"`   // SHA-256 of its configuration, when readable
	BootID   string            `json:"boot_id"`            // another one after each boot
	CPU      string            `json:"cpu"`
	CPUs     int               `json:"cpus"`
	MemMiB   int64             `json:"mem_mib"`
	OS       string            `json:"os,omitempty"`
	Governor string            `json:"governor,omitempty"`
	Root     bool              `json:"root"`
	Sudo     bool              `json:"sudo,omitempty"` // sudo -n works
	Links    []Link            `json:"links,omitempty"`
	Tools    map[string]string `json:"tools,omitempty"`    // program -> path
	Fio      string            `json:"fio,omitempty"`      // fio --version
	Threads  *int              `json:"threads,omitempty"`  // of nfsd; nil: not to be read
	Portlist []string          `json:"portlist,omitempty"` // of nfsd, "rdma 20049"; nil: not to be read
	Versions string            `json:"versions,omitempty"` // of nfsd, "+3 -4.0 +4.1"; "": not to be read
	// Transport says whether the kernel has RPC-over-RDMA, loaded or built in;
	// nil: the machine does not show it.
	Transport *bool   `json:"rpcrdma,omitempty"`
	Load      float64 `json:"load"` // one minute
}

// Link is an RDMA port.
type Link struct {
	Device string `json:"device"` // mlx5_0
	Port   string `json:"port"`
	State  string `json:"state"` // "4: ACTIVE"
	Rate   string `json:"rate"`  // "100 Gb/sec (4X EDR)"
	Layer  string `json:"layer"` // Ethernet, InfiniBand
	Netdev string `json:"netdev,omitempty"`
}

func (l Link) String() string {
	s := fmt.Sprintf("%s/%s %s", l.Device, l.Port, strings.TrimSpace(l.Rate))
	if l.Netdev != "" {
		s += " on " + l.Netdev
	}
	return s
}

// Active says whether the port can carry traffic.
func (l Link) Active() bool { return strings.Contains(l.State, "ACTIVE") }

// programs are what a role needs, and the packages that bring them on Debian
// and on Fedora.
var programs = map[string][][3]string{
	"server": {{"exportfs", "nfs-kernel-server", "nfs-utils"}, {"rpc.nfsd", "nfs-kernel-server", "nfs-utils"}},
	"client": {{"mount.nfs", "nfs-common", "nfs-utils"}, {"fio", "fio", "fio"}},
}

// factsScript prints one "key value" line for each fact; it needs no root and
// changes nothing. sbin is not in everybody's path. threads and versions of
// nfsd are for root to read (fs/nfsd/nfsctl.c). Client and server transport are
// one module, whose sysctls are there also when it is built in; mounting loads
// it.
const factsScript = `
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
p() { printf '%s %s\n' "$1" "$2"; }
p release "$(uname -r)"
p version "$(uname -v)"
p arch "$(uname -m)"
p notes "$( (base64 /sys/kernel/notes || busybox base64 /sys/kernel/notes) 2>/dev/null | tr -d '\n')"
if [ -r /proc/config.gz ]; then c=$(zcat /proc/config.gz 2>/dev/null | sha256sum); else c=$(sha256sum < "/boot/config-$(uname -r)" 2>/dev/null); fi
p config "${c%% *}"
p boot_id "$(cat /proc/sys/kernel/random/boot_id)"
p cpu "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
p cpus "$(grep -c ^processor /proc/cpuinfo)"
p mem "$(sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo)"
p os "$(sed -n 's/^PRETTY_NAME=//p' /etc/os-release 2>/dev/null | tr -d '"')"
p governor "$(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null)"
p load "$(cut -d' ' -f1 /proc/loadavg)"
p uid "$(id -u)"
S=
if [ "$(id -u)" != 0 ] && sudo -n true 2>/dev/null; then p sudo yes; S='sudo -n'; fi
for d in /sys/class/infiniband/*/ports/*; do
  [ -d "$d" ] || continue
  n=${d#/sys/class/infiniband/}
  p link "${n%%/*}|${d##*/}|$(cat "$d/state")|$(cat "$d/rate")|$(cat "$d/link_layer")|$(cat "$d/gid_attrs/ndevs/0" 2>/dev/null)"
done
for t in exportfs rpc.nfsd mount.nfs fio rdma; do
  f=$(command -v $t 2>/dev/null) && p tool "$t $f"
done
p fio "$(fio --version 2>/dev/null)"
N=/proc/fs/nfsd
if [ -e $N/threads ]; then p threads "$($S cat $N/threads 2>/dev/null)"; else p threads 0; fi
if l=$($S cat $N/portlist 2>/dev/null); then
  p portlist read
  printf '%s\n' "$l" | while read -r l; do [ -z "$l" ] || p port "$l"; done
fi
p versions "$($S cat $N/versions 2>/dev/null)"
if [ -d /proc/sys/sunrpc/svc_rdma ] || [ -d /sys/module/rpcrdma ] || [ -d /sys/module/xprtrdma ]; then p rpcrdma yes
elif [ -d /proc/sys/sunrpc ] && [ -d /sys/module ]; then p rpcrdma no; fi
exit 0
`

// Facts asks the machine.
func (h *Host) Facts(ctx context.Context) (Facts, error) {
	out, err := h.Run(ctx, factsScript, "sh", "-s")
	if err != nil {
		return Facts{}, err
	}
	f, err := parseFacts(out)
	if err != nil {
		return f, fmt.Errorf("%s: %w", h.Target, err)
	}
	h.root = nil
	if !f.Root {
		h.root = []string{"sudo", "-n"}
	}
	return f, nil
}

func parseFacts(out string) (Facts, error) {
	f := Facts{Tools: map[string]string{}}
	for line := range strings.Lines(out) {
		k, v, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		v = strings.TrimSpace(v)
		switch k {
		case "release":
			f.Release = v
		case "version":
			f.Version = v
		case "arch":
			f.Arch = v
		case "notes":
			if b, err := base64.StdEncoding.DecodeString(v); err == nil {
				f.BuildID = buildID(b)
			}
		case "config":
			// Of nothing, when there was none to read.
			if hash.MatchString(v) && v != "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" {
				f.Config = v
			}
		case "boot_id":
			f.BootID = v
		case "cpu":
			f.CPU = strings.Join(strings.Fields(v), " ")
		case "cpus":
			f.CPUs, _ = strconv.Atoi(v)
		case "mem":
			kib, _ := strconv.ParseInt(v, 10, 64)
			f.MemMiB = kib >> 10
		case "os":
			f.OS = v
		case "governor":
			f.Governor = v
		case "load":
			f.Load, _ = strconv.ParseFloat(v, 64)
		case "uid":
			f.Root = v == "0"
		case "sudo":
			f.Sudo = v == "yes"
		case "link":
			if p := strings.Split(v, "|"); len(p) == 6 {
				f.Links = append(f.Links, Link{p[0], p[1], p[2], p[3], p[4], p[5]})
			}
		case "tool":
			if n, path, ok := strings.Cut(v, " "); ok {
				f.Tools[n] = path
			}
		case "fio":
			f.Fio = v
		case "threads":
			if n, err := strconv.Atoi(v); err == nil {
				f.Threads = &n
			}
		case "portlist":
			f.Portlist = []string{}
		case "port":
			f.Portlist = append(f.Portlist, v)
		case "versions":
			f.Versions = v
		case "rpcrdma":
			yes := v == "yes"
			f.Transport = &yes
		}
	}
	if f.Release == "" || f.BootID == "" {
		return f, errors.New("the machine does not say which kernel it runs; is it Linux, with a POSIX shell?")
	}
	return f, nil
}

var hash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// buildID finds the GNU build id among ELF notes (elf(5), Nhdr).
func buildID(b []byte) string {
	align := func(n uint32) int { return int(n+3) &^ 3 }
	for len(b) >= 12 {
		name, desc, typ := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
		b = b[12:]
		if name > uint32(len(b)) || desc > uint32(len(b)) || align(name)+align(desc) > len(b) {
			return ""
		}
		const gnuBuildID = 3
		if typ == gnuBuildID && string(b[:name]) == "GNU\x00" {
			return hex.EncodeToString(b[align(name):][:desc])
		}
		b = b[align(name)+align(desc):]
	}
	return ""
}

// Kernel identifies the running kernel for people and for comparison: two
// builds of one release have different build ids.
func (f Facts) Kernel() string {
	s := f.Release
	switch {
	case len(f.BuildID) >= 12:
		s += " build " + f.BuildID[:12]
	default:
		s += " " + f.Version
	}
	return s
}

// MissingError lists what machines lack for a measurement.
type MissingError struct{ Lines []string }

func (e *MissingError) Error() string {
	return "the machines are not ready, and nothing was changed on them:\n  " + strings.Join(e.Lines, "\n  ")
}

// missing says what a machine lacks for its role.
func (f Facts) missing(role string, t Target, proto string) (lines []string) {
	for _, p := range programs[role] {
		if f.Tools[p[0]] == "" {
			lines = append(lines, fmt.Sprintf("%s has no %s, which the %s needs: Debian and Ubuntu have it in %s, Fedora in %s", t.Host, p[0], role, p[1], p[2]))
		}
	}
	if !f.Root && !f.Sudo {
		lines = append(lines, fmt.Sprintf("%s: mounting and exporting need root, and sudo asks %s for a password: log in as root, or allow sudo without one", t.Host, t.User))
	}
	if proto != "rdma" {
		return lines
	}
	if len(f.Links) == 0 {
		lines = append(lines, fmt.Sprintf("%s has no RDMA device (/sys/class/infiniband is empty): load its driver, or for a soft one  rdma link add rxe0 type rxe netdev NETDEV  (rdma is in iproute2)", t.Host))
		return lines
	}
	for _, l := range f.Links {
		if l.Active() {
			return lines
		}
	}
	return append(lines, fmt.Sprintf("%s: no RDMA port is active (%s is %s)", t.Host, f.Links[0].Device, f.Links[0].State))
}
