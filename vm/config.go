// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"patchcheck/internal/guestproto"
)

// Accel is how QEMU runs the guest's instructions.
type Accel string

const (
	TCG  Accel = "tcg"  // emulation; works everywhere
	KVM  Accel = "kvm"  // hardware virtualization
	Auto Accel = "auto" // to be resolved by Probe; Boot refuses it
)

// ParseAccel checks a user's choice.
func ParseAccel(s string) (Accel, error) {
	switch a := Accel(s); a {
	case TCG, KVM, Auto:
		return a, nil
	}
	return "", fmt.Errorf("unknown accelerator %q: it is one of auto, kvm, tcg", s)
}

// Defaults of a Config.
const (
	DefaultQEMU    = "qemu-system-x86_64"
	DefaultMachine = "q35" // as fast to boot as pc and microvm, and has PCI for pvpanic
	DefaultMemMiB  = 1024
	DefaultCPUs    = 2
)

// Config describes one guest. The zero value of every field but Kernel is
// usable.
type Config struct {
	QEMU     string   // program; DefaultQEMU
	Kernel   string   // bzImage
	Initrds  []string // archives joined in this order; the guest image first
	Append   []string // kernel command line words after our own
	CPUs     int      // DefaultCPUs
	MemMiB   int      // DefaultMemMiB
	Accel    Accel    // TCG (default) or KVM
	Machine  string   // DefaultMachine
	CPUModel string   // QEMU -cpu; "max" without la57 for TCG, "host" for KVM
	Devices  []string // further -device arguments
	Args     []string // further QEMU arguments, verbatim

	// LogLevel is the console's level: messages below it are printed. 7, the
	// default, prints all but debug messages; a boot costs about a tenth of a
	// second more than a quiet one under TCG. WARN is 4 and must be seen, so
	// values under 5 are refused.
	LogLevel int

	// TSCKHz tells a TCG guest the frequency of its time stamp counter, which
	// is the host's. 0: Boot measures it; the guest's clock is dependable only
	// with it.
	TSCKHz int

	// Watchdog adds an i6300esb device. The guest's kernel needs its driver.
	Watchdog bool

	// KernelConfig, if set, is the kernel's .config: it is checked against
	// RequiredOptions before anything is started.
	KernelConfig string

	// StateDir keeps console.log, qemu.log (stderr) and qemu.cmd. It is made
	// if absent. Empty: a temporary folder, removed by Close.
	StateDir string

	// Console gets every byte of the serial console as it comes, from
	// power-on, in one goroutine. It must not block for long: the guest waits.
	Console io.Writer

	// Slow multiplies every limit: 1 is a plain kernel, a debug kernel
	// (lockdep, KASAN) needs about 8. The accelerator is counted separately.
	Slow float64
	// Limits of the boot; zero fields get defaults scaled by accelerator.
	Limits Limits

	// InfoLog, if set, is told what happens, a line at a time.
	InfoLog func(string)

	// run is what Boot adds: sockets, and the joined initramfs. Without it
	// Cmdline gives the line that a person can paste into a shell, with the
	// console on the terminal.
	run *plumbing
}

// plumbing is where a guest that Boot runs is connected.
type plumbing struct {
	sockDir string // short: a unix socket's path has at most 107 bytes
	initrd  string
}

// Names of QEMU's character devices, and of the sockets below sockDir.
const (
	chanConsole = "console"
	chanQMP     = "qmp"
	chanSSH     = "ssh"
	chanEvents  = "events"
)

// Limits bound the phases of a boot. A phase that exceeds its limit ends with
// a BootError or an InfraError that shows the console.
type Limits struct {
	QEMUStart time.Duration // QEMU connects to us
	FirstByte time.Duration // power-on to first console byte
	Silence   time.Duration // no console byte, no sign of life, while booting
	Boot      time.Duration // power-on to ready
	SSH       time.Duration // ready to session
	Death     time.Duration // GUEST_PANICKED or a console panic to QEMU's end
}

// tcgFactor is how much slower than KVM a boot may be under TCG before it is
// called stuck. Measured ratios are 4 to 6; hosts are shared.
const tcgFactor = 5

func (c Config) limits() Limits {
	f := c.Slow
	if f <= 0 {
		f = 1
	}
	if c.Accel != KVM {
		f *= tcgFactor
	}
	scale := func(set *time.Duration, def time.Duration) {
		if *set == 0 {
			*set = time.Duration(float64(def) * f)
		}
	}
	l := c.Limits
	// QEMU's own start does not depend on the guest.
	if l.QEMUStart == 0 {
		l.QEMUStart = 30 * time.Second
	}
	if l.Death == 0 {
		l.Death = 2 * time.Second
	}
	scale(&l.FirstByte, 6*time.Second)
	scale(&l.Silence, 8*time.Second)
	scale(&l.Boot, 30*time.Second)
	scale(&l.SSH, 5*time.Second)
	return l
}

// withDefaults fills the zero fields in.
func (c Config) withDefaults() Config {
	if c.QEMU == "" {
		c.QEMU = DefaultQEMU
	}
	if c.Machine == "" {
		c.Machine = DefaultMachine
	}
	if c.CPUs == 0 {
		c.CPUs = DefaultCPUs
	}
	if c.MemMiB == 0 {
		c.MemMiB = DefaultMemMiB
	}
	if c.Accel == "" {
		c.Accel = TCG
	}
	if c.CPUModel == "" {
		// An interrupt in identify_cpu(), which clears and sets the features of
		// the boot CPU, finds five-level paging off that is in use: KASAN then
		// reports a wild access in a healthy kernel (seen with 7.3 on a busy host).
		c.CPUModel = "max,la57=off"
		if c.Accel == KVM {
			c.CPUModel = "host"
		}
	}
	if c.LogLevel == 0 {
		c.LogLevel = 7
	}
	return c
}

// validate refuses what QEMU or the kernel would misunderstand.
func (c Config) validate() error {
	bad := func(format string, args ...any) error {
		return &InfraError{What: "bad guest configuration: " + fmt.Sprintf(format, args...)}
	}
	switch {
	case runtime.GOARCH != "amd64":
		return bad("guests are x86-64, this host is %s", runtime.GOARCH)
	case c.Kernel == "":
		return bad("no kernel image given")
	case c.Accel != TCG && c.Accel != KVM:
		return bad("accelerator %q must be resolved to kvm or tcg first", c.Accel)
	case strings.HasPrefix(c.Machine, "microvm"):
		return bad("machine %s has no PCI bus that a kernel without ACPI finds", c.Machine)
	case c.CPUs < 1 || c.CPUs > 255:
		return bad("%d CPUs; give 1 to 255", c.CPUs)
	case c.MemMiB < 64:
		return bad("%d MiB of memory; a guest needs at least 64", c.MemMiB)
	case c.LogLevel < 5 || c.LogLevel > 8:
		return bad("console log level %d; below 5 warnings would be hidden, 8 is everything", c.LogLevel)
	}
	for _, w := range c.Append {
		if w == "quiet" {
			return bad("kernel option \"quiet\" would hide warnings from the console")
		}
		if strings.ContainsAny(w, "\n\x00") {
			return bad("kernel option %q holds a control character", w)
		}
	}
	for _, p := range append([]string{c.Kernel}, c.Initrds...) {
		// QEMU takes a comma in a path of an option list for a separator,
		// but -kernel and -initrd are paths as they are.
		if strings.ContainsAny(p, "\n\x00") {
			return bad("path %q holds a control character", p)
		}
	}
	return nil
}

// KernelArgs is the kernel command line, word by word.
func (c Config) KernelArgs() []string {
	c = c.withDefaults()
	args := []string{
		// The console, from the first line on: earlyprintk covers a kernel
		// that dies before its serial driver.
		"earlyprintk=serial,ttyS0,115200", "console=ttyS0,115200",
		"loglevel=" + strconv.Itoa(c.LogLevel),
		// User-space lines into /dev/kmsg are ours: no rate limit.
		"printk.devkmsg=on",
		// A panic reboots at once, which -no-reboot turns into QEMU's end.
		"panic=-1",
		// Sysrq and NMI are how a guest that hangs is made to talk.
		"sysrq_always_enabled", "unknown_nmi_panic",
		"rdinit=/init",
	}
	if c.Accel == TCG {
		// An emulated timer that ticks late on a busy host is no broken board:
		// without this a kernel panics at boot ("IO-APIC + timer doesn't work").
		args = append(args, "no_timer_check")
	}
	if c.Accel == TCG && c.TSCKHz > 0 {
		args = append(args, "tsc_early_khz="+strconv.Itoa(c.TSCKHz), "tsc=reliable")
	}
	return append(args, c.Append...)
}

// Cmdline is QEMU's argument vector, program first. It is a pure function: it
// looks at no file and starts nothing.
func Cmdline(c Config) ([]string, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	machine := c.Machine
	if machine == "q35" || machine == "pc" {
		// Board devices that no guest of ours uses. The firmware would set
		// them up, which is a tenth of a boot under TCG, and each is a door.
		machine += ",smm=off,sata=off,smbus=off,usb=off,vmport=off"
	}
	argv := []string{
		c.QEMU,
		"-name", "patchcheck",
		// Nothing that was not asked for: no network, no display, no disk.
		// (-nographic would make the firmware write to the serial console.)
		"-nodefaults", "-no-user-config", "-display", "none",
		"-machine", machine + ",accel=" + string(c.Accel),
		"-cpu", c.CPUModel,
		// A package each: without ACPI the kernel finds its CPUs in a table
		// that lists one per package.
		"-smp", fmt.Sprintf("%d,sockets=%d,cores=1,threads=1", c.CPUs, c.CPUs),
		"-m", strconv.Itoa(c.MemMiB) + "M",
		// seccomp: no new processes, no privileges, for a guest that runs
		// code from a mailing list.
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-no-reboot",
		// A panicking kernel has more to say after it told pvpanic.
		"-action", "panic=none",
		"-device", "pvpanic-pci",
		"-kernel", c.Kernel,
	}
	if c.Watchdog {
		argv = append(argv, "-device", "i6300esb", "-action", "watchdog=inject-nmi")
	}
	if c.run == nil {
		// To be pasted: the console is the terminal, ^C ends it. QEMU takes
		// one initramfs only, and it is the guest image.
		if len(c.Initrds) > 0 {
			argv = append(argv, "-initrd", c.Initrds[0])
		}
		argv = append(argv, "-chardev", "stdio,id="+chanConsole+",signal=on", "-serial", "chardev:"+chanConsole)
	} else {
		if c.run.initrd != "" {
			argv = append(argv, "-initrd", c.run.initrd)
		}
		// QEMU is the client everywhere: we listen before it starts, so
		// nobody polls, and a bad path shows before a guest runs.
		sock := func(id string) string {
			return "socket,id=" + id + ",path=" + escape(filepath.Join(c.run.sockDir, id)) + ",server=off"
		}
		argv = append(argv,
			// The console is a pipe: a unix socket is full after some 280
			// single bytes, and QEMU's own log of a character device then
			// holds bytes twice.
			"-chardev", "stdio,id="+chanConsole+",signal=off", "-serial", "chardev:"+chanConsole,
			"-chardev", sock(chanQMP), "-mon", "chardev="+chanQMP+",mode=control",
			"-device", "virtio-serial-pci,max_ports=4",
			"-chardev", sock(chanEvents), "-device", "virtserialport,nr=1,chardev="+chanEvents+",name="+guestproto.PortEvents,
			"-chardev", sock(chanSSH), "-device", "virtserialport,nr=2,chardev="+chanSSH+",name="+guestproto.PortSSH,
		)
	}
	for _, d := range c.Devices {
		argv = append(argv, "-device", d)
	}
	argv = append(argv, c.Args...)
	return append(argv, "-append", strings.Join(c.KernelArgs(), " ")), nil
}

// escape doubles commas, which separate the options of one QEMU argument.
func escape(s string) string { return strings.ReplaceAll(s, ",", ",,") }
