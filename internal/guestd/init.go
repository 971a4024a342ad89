// SPDX-License-Identifier: Apache-2.0

// Package guestd owns PID 1 of the guest: it mounts what the kernel offers,
// finds the two virtio-serial ports, tells the host that it is ready, and
// serves SSH: verbs of internal/guestproto, shell commands, a terminal. It
// adopts and reaps orphans, and ends the guest when the host is gone.
//
// What a verb does is the business of whoever registered it; the agent itself
// serves only facts and poweroff.
package guestd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"patchcheck/internal/guestproto"
)

// Where the host puts the keys of this run.
const (
	hostKeyFile    = "/etc/patchcheck/host_key"
	authorizedFile = "/etc/patchcheck/authorized_key"
)

// portPatience is how long the ports may take to appear after PID 1 has
// started; the kernel adds them from a work queue.
const portPatience = 10 * time.Second

// Main is PID 1. It does not return.
func Main(register func(*Registry)) {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "patchcheck-guest is the init of patchcheck's guests; it does nothing on a host")
		os.Exit(2)
	}
	// A bug of ours must not look like a bug of the kernel: PID 1 never ends
	// by itself, it ends the guest.
	defer func() {
		if p := recover(); p != nil {
			fatal(fmt.Errorf("the agent panicked: %v\n%s", p, debug.Stack()))
		}
	}()
	err := run(register)
	fatal(err)
}

func run(register func(*Registry)) error {
	if err := mountAll(); err != nil {
		return err
	}
	logf("init started")
	os.Setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
	os.Setenv("HOME", "/home")
	os.Setenv("SHELL", "/bin/sh")
	os.Setenv("LC_ALL", "C")
	syscall.Umask(0o022)
	unix.Sethostname([]byte("patchcheck"))
	go reapOrphans()
	ignoreSignals()
	if err := loopbackUp(); err != nil {
		logf("loopback: %v", err)
	}
	holdConsole()

	host, err := os.ReadFile(hostKeyFile)
	if errors.Is(err, os.ErrNotExist) {
		return consoleShell()
	}
	if err != nil {
		return err
	}
	authorized, err := os.ReadFile(authorizedFile)
	if err != nil {
		return err
	}
	// Nothing in the guest needs to read them again.
	os.RemoveAll(filepath.Dir(hostKeyFile))

	reg := &Registry{}
	reg.Register(guestproto.VerbFacts, facts)
	reg.Register(guestproto.VerbPoweroff, poweroff)
	if register != nil {
		register(reg)
	}
	srv, err := NewServer(host, authorized, reg)
	if err != nil {
		return err
	}
	srv.Env = os.Environ()
	srv.Dir = "/home"
	srv.SetClock = func(n int64) error {
		ts := unix.NsecToTimespec(n)
		return unix.ClockSettime(unix.CLOCK_REALTIME, &ts)
	}

	ssh, err := openPort(guestproto.PortSSH)
	if err != nil {
		return err
	}
	events, err := openPort(guestproto.PortEvents)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(portConn{ssh}) }()
	if err := sayReady(events); err != nil {
		return fmt.Errorf("port %s: %w", guestproto.PortEvents, err)
	}
	err = <-served
	// The host has closed the connection or died: nobody will ever use this
	// guest again.
	logf("the host is gone (%v)", err)
	restart()
	return nil
}

func sayReady(events io.Writer) error {
	var uts unix.Utsname
	unix.Uname(&uts)
	var up unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &up)
	b, err := json.Marshal(guestproto.Ready{
		Event:    "ready",
		Release:  unix.ByteSliceToString(uts.Release[:]),
		UptimeMS: up.Nano() / int64(time.Millisecond),
		UnixNano: time.Now().UnixNano(),
	})
	if err != nil {
		return err
	}
	_, err = events.Write(append(b, '\n'))
	return err
}

// logf writes a line into the kernel's log, and so on the console, in one
// write: it cannot be torn by kernel messages.
func logf(format string, args ...any) {
	f, err := os.OpenFile("/dev/kmsg", os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	for _, line := range strings.Split(fmt.Sprintf(format, args...), "\n") {
		fmt.Fprintf(f, "<6>patchcheck: %s\n", line)
	}
}

// fatal says why there will be no guest, in a form that the host knows, and
// ends it.
func fatal(err error) {
	logf("fatal: %v", err)
	restart()
}

// restart resets the machine, which QEMU's -no-reboot turns into its end. It
// needs no ACPI, unlike a power-off.
func restart() {
	unix.Sync()
	for {
		unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
		// Not reached, unless the kernel refuses.
		os.WriteFile("/proc/sysrq-trigger", []byte("b"), 0)
		time.Sleep(time.Second)
	}
}

type mount struct {
	fs, at string
	flags  uintptr
	data   string
	must   bool // PID 1 cannot do without
}

var mounts = []mount{
	{"proc", "/proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "", true},
	{"sysfs", "/sys", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "", true},
	{"devtmpfs", "/dev", unix.MS_NOSUID, "mode=0755", true},
	{"devpts", "/dev/pts", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=0620,ptmxmode=0666", false},
	{"tmpfs", "/dev/shm", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777", false},
	{"tmpfs", "/run", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755", false},
	// Work of tests happens on tmpfs, never on a shared folder of the host.
	{"tmpfs", "/tmp", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777", false},
	{"debugfs", "/sys/kernel/debug", 0, "", false},
	{"tracefs", "/sys/kernel/tracing", 0, "", false},
}

func mountAll() error {
	var errs []error
	for _, m := range mounts {
		os.MkdirAll(m.at, 0o755)
		err := unix.Mount(m.fs, m.at, m.fs, m.flags, m.data)
		if err != nil && !errors.Is(err, unix.EBUSY) && m.must {
			errs = append(errs, fmt.Errorf("mount %s on %s: %w", m.fs, m.at, err))
		}
	}
	// What the image needs below the fresh /run.
	for _, d := range []string{"/run/rpcbind", "/run/lock", "/home"} {
		os.MkdirAll(d, 0o755)
	}
	return errors.Join(errs...)
}

// ignoreSignals keeps the signals that the kernel or a tool might send to
// init from ending it.
func ignoreSignals() {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGPWR)
}

// holdConsole keeps the serial console open for the guest's life: its driver
// listens to sysrq keys only while somebody has it open.
func holdConsole() {
	f, err := os.OpenFile("/dev/console", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		logf("console: %v", err)
		return
	}
	heldConsole = f
}

var heldConsole *os.File

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return err
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// openPort finds a virtio-serial port by its name and opens it.
func openPort(name string) (*os.File, error) {
	deadline := time.Now().Add(portPatience)
	for {
		if dev := findPort("/sys/class/virtio-ports", name); dev != "" {
			f, err := os.OpenFile(filepath.Join("/dev", dev), os.O_RDWR, 0)
			if err == nil {
				return f, nil
			}
			// The node follows the sysfs entry.
			if !errors.Is(err, os.ErrNotExist) || time.Now().After(deadline) {
				return nil, err
			}
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("no virtio-serial port %s: the kernel needs CONFIG_VIRTIO_PCI and CONFIG_VIRTIO_CONSOLE built in", name)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// findPort looks below class for the port with the given name and returns its
// device's name.
func findPort(class, name string) string {
	entries, err := os.ReadDir(class)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(class, e.Name(), "name"))
		if err == nil && strings.TrimSpace(string(b)) == name {
			return e.Name()
		}
	}
	return ""
}

// portConn lends a port the shape of a network connection.
type portConn struct{ *os.File }

func (p portConn) LocalAddr() net.Addr  { return portAddr{} }
func (p portConn) RemoteAddr() net.Addr { return portAddr{} }

type portAddr struct{}

func (portAddr) Network() string { return "virtio-serial" }
func (portAddr) String() string  { return guestproto.PortSSH }

// consoleShell serves a person who booted the guest by hand: a shell on the
// console, and the end of the guest after it.
func consoleShell() error {
	logf("no key of a run: a shell on the console, for whoever booted this by hand")
	name := "/dev/ttyS0"
	tty, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	cmd := exec.Command("/bin/sh", "-l")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.Dir = "/home"
	cmd.Env = append(os.Environ(), "TERM=linux")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Run(); err != nil {
		logf("shell: %v", err)
	}
	restart()
	return nil
}
