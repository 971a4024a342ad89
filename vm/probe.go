// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"patchcheck/internal/cache"
	"patchcheck/internal/proc"
)

// kvmDevice is what a working KVM needs, and what alone proves nothing: there
// are hosts on which it opens, makes a machine, and every guest hangs.
const kvmDevice = "/dev/kvm"

// probePatience is how long a tiny guest may take under KVM to say something.
// A working one takes a second.
const probePatience = 8 * time.Second

const probeMessage = "patchcheck: a guest answers\n"

// AccelChoice is the outcome of a probe.
type AccelChoice struct {
	Accel  Accel  `json:"accel"`
	Reason string `json:"reason"` // a sentence for the report
	Host   string `json:"host"`   // what the answer holds for
	Cached bool   `json:"-"`
}

// ProbeOptions say what to probe with.
type ProbeOptions struct {
	Want      Accel  // Auto probes; KVM and TCG are taken as given
	Kernel    string // bzImage for the tiny guest
	QEMU      string // DefaultQEMU
	CacheFile string // accel.json; "" does not cache
	// TempDir holds the tiny guest's files while it runs; "" is the default.
	TempDir string

	device   string        // kvmDevice; tests
	patience time.Duration // probePatience; tests
}

// Probe decides how guests are to be run: KVM if a guest under KVM answers,
// else TCG. An answer is kept in CacheFile for this host, QEMU and CPU. Only
// an interrupted probe, or a QEMU that cannot be run, is an error.
func Probe(ctx context.Context, o ProbeOptions) (AccelChoice, error) {
	if o.QEMU == "" {
		o.QEMU = DefaultQEMU
	}
	if o.device == "" {
		o.device = kvmDevice
	}
	if o.patience == 0 {
		o.patience = probePatience
	}
	switch o.Want {
	case TCG:
		return AccelChoice{Accel: TCG, Reason: "TCG, as asked for"}, nil
	case KVM:
		return AccelChoice{Accel: KVM, Reason: "KVM, as asked for"}, nil
	case Auto, "":
	default:
		_, err := ParseAccel(string(o.Want))
		return AccelChoice{}, err
	}
	// Whether we may use the device changes from call to call, and costs
	// nothing to see.
	f, err := os.OpenFile(o.device, os.O_RDWR, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return AccelChoice{Accel: TCG, Reason: "TCG: this host has no " + o.device}, nil
	case errors.Is(err, os.ErrPermission):
		return AccelChoice{Accel: TCG, Reason: "TCG: no permission for " + o.device + " (be in the group kvm to use it)"}, nil
	case err != nil:
		return AccelChoice{Accel: TCG, Reason: "TCG: " + err.Error()}, nil
	}
	f.Close()

	host, err := hostIdentity(ctx, o.QEMU)
	if err != nil {
		return AccelChoice{}, err
	}
	if c, ok := readChoice(o.CacheFile, host); ok {
		return c, nil
	}
	c := AccelChoice{Accel: KVM, Host: host}
	why, err := tryKVM(ctx, o)
	if err != nil {
		return AccelChoice{}, err
	}
	if why == "" {
		c.Reason = "KVM: a guest under it answered"
	} else {
		c.Accel, c.Reason = TCG, "TCG: "+o.device+" is there, but "+why
	}
	if o.CacheFile != "" {
		b, err := json.MarshalIndent(c, "", " ")
		if err == nil {
			// A cache that cannot be written costs a probe next time.
			if os.MkdirAll(filepath.Dir(o.CacheFile), 0o755) == nil {
				cache.WriteFile(o.CacheFile, append(b, '\n'), 0o644)
			}
		}
	}
	return c, nil
}

func readChoice(path, host string) (AccelChoice, bool) {
	if path == "" {
		return AccelChoice{}, false
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return AccelChoice{}, false
	}
	var c AccelChoice
	if json.Unmarshal(b, &c) != nil || c.Host != host || c.Accel != TCG && c.Accel != KVM {
		return AccelChoice{}, false
	}
	c.Cached = true
	return c, true
}

// hostIdentity is what the answer depends on: the host's kernel, its boot (a
// module may have been loaded with other parameters), CPU, and QEMU.
func hostIdentity(ctx context.Context, qemu string) (string, error) {
	path, err := exec.LookPath(qemu)
	if err != nil {
		return "", &InfraError{What: fmt.Sprintf("cannot run %s (on Debian it is in the package qemu-system-x86)", qemu), Err: err}
	}
	res, err := proc.Run(ctx, proc.Cmd{Argv: []string{path, "--version"}})
	if err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", &InfraError{What: qemu + " does not run", Err: err}
	}
	version, _, _ := strings.Cut(string(res.Stdout), "\n")
	var uts unix.Utsname
	unix.Uname(&uts)
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.Join([]string{
		"kernel " + unix.ByteSliceToString(uts.Release[:]),
		"boot " + strings.TrimSpace(string(boot)),
		"cpu " + cpuModel(),
		strings.TrimSpace(version),
	}, "; "), nil
}

func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	var vendor, name, stepping string
	for _, l := range strings.Split(string(b), "\n") {
		k, v, ok := strings.Cut(l, ":")
		if !ok {
			if name != "" {
				break
			}
			continue
		}
		switch strings.TrimSpace(k) {
		case "vendor_id":
			vendor = strings.TrimSpace(v)
		case "model name":
			name = strings.TrimSpace(v)
		case "stepping":
			stepping = strings.TrimSpace(v)
		}
	}
	return strings.TrimSpace(vendor + " " + name + " " + stepping)
}

// tryKVM boots a kernel and a tiny init under KVM and waits for its line. It
// returns why KVM cannot be used, or "".
func tryKVM(ctx context.Context, o ProbeOptions) (string, error) {
	dir, err := os.MkdirTemp(o.TempDir, "pc-probe-")
	if err != nil {
		return "", &InfraError{What: "cannot make a folder for the probe of KVM", Err: err}
	}
	defer os.RemoveAll(dir)
	img, err := tinyImage(probeMessage)
	if err != nil {
		return "", err
	}
	initrd := filepath.Join(dir, "initrd")
	if err := os.WriteFile(initrd, img, 0o644); err != nil {
		return "", &InfraError{What: "cannot write the probe of KVM", Err: err}
	}
	cfg := Config{QEMU: o.QEMU, Kernel: o.Kernel, Initrds: []string{initrd}, Accel: KVM, CPUs: 1, MemMiB: 256}
	if err := preflight(cfg.withDefaults()); err != nil {
		return "", err
	}
	argv, err := Cmdline(cfg)
	if err != nil {
		return "", err
	}
	in, conIn, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer conIn.Close()
	conOut, out, err := os.Pipe()
	if err != nil {
		in.Close()
		return "", err
	}
	errLog := filepath.Join(dir, "qemu.log")
	p, err := startQEMU(argv, errLog, in, out)
	if err != nil {
		conOut.Close()
		return "", &InfraError{What: "cannot start " + o.QEMU, Err: err}
	}
	defer func() {
		p.kill()
		<-p.done
	}()
	answered := make(chan struct{})
	var said lockedBuffer
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer conOut.Close()
		buf := make([]byte, 4096)
		found := false
		for {
			n, err := conOut.Read(buf)
			said.Write(buf[:n])
			if !found && bytes.Contains(said.Bytes(), []byte(strings.TrimSpace(probeMessage))) {
				found = true
				close(answered)
			}
			if err != nil {
				return
			}
		}
	}()
	timer := time.NewTimer(o.patience)
	defer timer.Stop()
	select {
	case <-answered:
		return "", nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-timer.C:
		if n := len(bytes.TrimSpace(said.Bytes())); n > 0 {
			return fmt.Sprintf("a guest under it did not get to its init within %.0f s", o.patience.Seconds()), nil
		}
		return fmt.Sprintf("a guest under it said nothing within %.0f s", o.patience.Seconds()), nil
	case <-p.done:
	}
	<-ended
	if s := said.Bytes(); bytes.Contains(s, []byte(strings.TrimSpace(probeMessage))) || bytes.Contains(s, []byte("Kernel panic - not syncing")) {
		// A kernel that panics by its own fault has run, too.
		return "", nil
	}
	return explainKVM(fileTail(errLog, 8<<10), p), nil
}

// explainKVM picks what QEMU says about a KVM that failed.
func explainKVM(stderr string, p *process) string {
	for _, l := range strings.Split(stderr, "\n") {
		l = strings.TrimSpace(l)
		// QEMU's own messages begin with its name; register dumps do not.
		if _, msg, ok := strings.Cut(l, "qemu-system-x86_64: "); ok && !strings.HasPrefix(msg, "warning:") {
			return "QEMU gives up: " + printable(msg)
		}
		if strings.HasPrefix(l, "KVM internal error") {
			return "it fails: " + printable(l)
		}
	}
	if p.signal != "" {
		return "QEMU ended under it by signal: " + p.signal
	}
	return fmt.Sprintf("QEMU ended under it with exit status %d", p.exit)
}

// lockedBuffer is a buffer for one writer and one reader.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) Bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.b.Bytes())
}
