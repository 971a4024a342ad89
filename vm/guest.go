// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"patchcheck/internal/guestproto"
	"patchcheck/internal/proc"
	"patchcheck/vm/guestssh"
	"patchcheck/vm/initramfs"
	"patchcheck/vm/qmpctl"
)

// Guest is a booted guest whose agent answers. It must be closed.
type Guest struct {
	cfg    Config
	limits Limits
	dir    string   // state
	tmp    bool     // dir is ours to remove
	sock   string   // folder of sockets and initramfs
	held   *os.File // lock on it
	place  *admission
	start  time.Time
	// stolenAtStart is what the host had lost to its own hypervisor by then.
	stolenAtStart time.Duration
	oomAtStart    int64 // see oomKills
	qemu          *process
	con           *console
	repro         string

	conIn *os.File // to the serial console
	conns map[string]net.Conn
	qmp   *qmpctl.Monitor
	ssh   *guestssh.Client
	ready guestproto.Ready
	skew  time.Duration
	// clockSet: the guest took over our clock.
	clockSet bool
	booted   time.Duration

	mu       sync.Mutex
	events   []qmpctl.Event
	panicked chan struct{} // closed at GUEST_PANICKED
	stopped  chan struct{} // closed when the machine stops by itself (KVM internal error)
	closing  bool
	killed   string // why we ended QEMU ourselves

	nmi   atomic.Bool
	died  chan struct{}
	death *GuestDied

	closeOnce sync.Once
	closeErr  error
}

// Boot starts a guest and returns when its agent answers. Errors are
// *BootError, *InfraError or wrap ctx's; whatever was started is gone then.
func Boot(ctx context.Context, cfg Config) (_ *Guest, err error) {
	cfg = cfg.withDefaults()
	if err := preflight(cfg); err != nil {
		return nil, err
	}
	g := &Guest{
		cfg: cfg, limits: cfg.limits(), dir: cfg.StateDir, con: newConsole(),
		conns: make(map[string]net.Conn), died: make(chan struct{}),
		panicked: make(chan struct{}), stopped: make(chan struct{}),
	}
	ok := false
	defer func() {
		if !ok {
			g.Close()
		}
	}()
	if g.place, err = admit(ctx, cfg, g.info); err != nil {
		return nil, err
	}
	if err := g.prepare(); err != nil {
		return nil, err
	}
	keys, err := guestssh.NewKeys()
	if err != nil {
		return nil, &InfraError{What: "cannot make the guest's SSH keys", Err: err}
	}
	run := &plumbing{sockDir: g.sock}
	if len(cfg.Initrds) > 0 {
		run.initrd = filepath.Join(g.sock, "initrd")
		if err := joinInitrds(run.initrd, cfg.Initrds, keys); err != nil {
			return nil, &InfraError{What: "cannot write the guest's initramfs", Err: err}
		}
	}
	if g.cfg.Accel == TCG && g.cfg.TSCKHz == 0 {
		g.cfg.TSCKHz = hostTSC()
	}
	line, err := Cmdline(g.cfg)
	if err != nil {
		return nil, err
	}
	g.repro = proc.Quote(line)
	g.cfg.run = run
	argv, err := Cmdline(g.cfg)
	if err != nil {
		return nil, err
	}
	os.WriteFile(filepath.Join(g.dir, "qemu.cmd"), []byte(proc.Quote(argv)+"\n# by hand:\n"+g.repro+"\n"), 0o644)

	if cfg.Console != nil {
		g.con.subscribe(cfg.Console)
	}
	socks, err := listen(g.sock)
	if err != nil {
		return nil, &InfraError{What: "cannot make the guest's sockets in " + g.sock, Err: err}
	}
	defer socks.close()
	logFile, err := os.Create(g.Console())
	if err != nil {
		return nil, &InfraError{What: "cannot make the console's log", Err: err}
	}
	conOut, qemuOut, err := os.Pipe()
	if err != nil {
		logFile.Close()
		return nil, &InfraError{What: "cannot make the console's pipe", Err: err}
	}
	qemuIn, conIn, err := os.Pipe()
	if err != nil {
		logFile.Close()
		conOut.Close()
		qemuOut.Close()
		return nil, &InfraError{What: "cannot make the console's pipe", Err: err}
	}
	g.conIn = conIn
	g.start, g.stolenAtStart, g.oomAtStart = time.Now(), stolen("/proc"), oomKills("/")
	g.qemu, err = startQEMU(argv, filepath.Join(g.dir, "qemu.log"), qemuIn, qemuOut)
	if err == nil {
		g.place.started(cfg, g.qemu.pid)
	}
	// Ends when QEMU's end of the pipe is closed, also if it never started.
	go g.con.follow(conOut, logFile)
	if err != nil {
		return nil, &InfraError{What: "cannot start " + cfg.QEMU, Err: err, Evidence: g.evidence(0)}
	}
	go g.reap()
	if err := g.connect(ctx, socks); err != nil {
		return nil, err
	}
	if err := g.awaitReady(ctx); err != nil {
		return nil, err
	}
	sctx, cancel := context.WithTimeout(ctx, g.limits.SSH)
	defer cancel()
	g.ssh, err = guestssh.Dial(sctx, g.conns[chanSSH], keys)
	if err != nil {
		if ctx.Err() != nil {
			return nil, g.cancelled(ctx)
		}
		if g.gone(g.limits.Death) {
			return nil, g.bootFailure()
		}
		return nil, &BootError{Kind: BootMute, What: fmt.Sprintf("PID 1 said it was ready, but its SSH server did not answer: %v", err), After: time.Since(g.start), Evidence: g.evidence(40)}
	}
	if g.skew.Abs() > MaxSkew {
		g.info(fmt.Sprintf("the guest's clock is %v off; set to the host's", g.skew.Round(time.Second)))
	}
	// An agent that cannot set it is no reason not to go on: durations are
	// taken from monotonic clocks.
	if ok, err := g.ssh.SetClock(sctx); err == nil && ok {
		g.clockSet = true
	}
	g.booted = time.Since(g.start)
	go g.watch()
	ok = true
	return g, nil
}

// prepare makes the guest's folders.
func (g *Guest) prepare() error {
	Sweep()
	var err error
	if g.sock, g.held, err = makeSockDir(); err != nil {
		return &InfraError{What: "cannot make a folder for the guest's sockets", Err: err}
	}
	if g.dir == "" {
		g.dir, g.tmp = filepath.Join(g.sock, "state"), true
	}
	if err := os.MkdirAll(g.dir, 0o755); err != nil {
		return &InfraError{What: "cannot make the guest's state folder", Err: err}
	}
	// QEMU runs with our working directory, but a log path that is pasted
	// somewhere else should still be right.
	if g.dir, err = filepath.Abs(g.dir); err != nil {
		return &InfraError{What: "guest's state folder", Err: err}
	}
	return nil
}

// Where the agent finds its keys.
const (
	guestHostKey    = "etc/patchcheck/host_key"
	guestAuthorized = "etc/patchcheck/authorized_key"
)

// joinInitrds writes the archives one after the other, then the keys.
func joinInitrds(dst string, parts []string, keys guestssh.Keys) (err error) {
	// The private host key is inside.
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := out.Close(); err == nil {
			err = cerr
		}
	}()
	for _, p := range parts {
		in, err := os.Open(p)
		if err != nil {
			return err
		}
		n, err := io.Copy(out, in)
		in.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		if _, err := out.Write(make([]byte, initramfs.Padding(n))); err != nil {
			return err
		}
	}
	t := initramfs.Tree{}
	t.File(guestHostKey, 0o600, keys.HostPrivatePEM)
	t.File(guestAuthorized, 0o600, keys.AuthorizedKey)
	b, err := t.Bytes()
	if err != nil {
		return err
	}
	_, err = out.Write(b)
	return err
}

// connect takes QEMU's three connections and greets it.
func (g *Guest) connect(ctx context.Context, socks *sockets) error {
	timer := time.NewTimer(g.limits.QEMUStart)
	defer timer.Stop()
	for range socks.ids {
		select {
		case c := <-socks.accepted:
			if c.err != nil {
				return &InfraError{What: "QEMU's connection to patchcheck failed", Err: c.err, Evidence: g.evidence(20)}
			}
			g.conns[c.id] = c.conn
		case <-g.qemu.done:
			return g.bootFailure()
		case <-timer.C:
			return &InfraError{What: fmt.Sprintf("QEMU did not come up within %v", g.limits.QEMUStart), Evidence: g.evidence(20)}
		case <-ctx.Done():
			return g.cancelled(ctx)
		}
	}
	socks.close()
	monitor, err := qmpctl.New(ctx, g.conns[chanQMP], g.onEvent)
	if err != nil {
		if ctx.Err() != nil {
			return g.cancelled(ctx)
		}
		if g.gone(time.Second) {
			return g.bootFailure()
		}
		return &InfraError{What: "QEMU's control connection", Err: err, Evidence: g.evidence(20)}
	}
	g.mu.Lock()
	g.qmp = monitor
	g.mu.Unlock()
	return nil
}

func (g *Guest) cancelled(ctx context.Context) error {
	return &InfraError{What: "booting the guest was cancelled", Err: context.Cause(ctx), Evidence: g.evidence(10)}
}

// awaitReady waits for the agent's first line, or for a sign that it will
// never come.
func (g *Guest) awaitReady(ctx context.Context) error {
	type line struct {
		text []byte
		err  error
	}
	got := make(chan line, 1)
	events := g.conns[chanEvents]
	go func() {
		// A line that does not end within the buffer is an error, not memory.
		b, err := bufio.NewReaderSize(events, 64<<10).ReadSlice('\n')
		got <- line{b, err}
	}()
	// One timer that is set to the earliest limit, but for no longer than look:
	// the first byte brings another limit into force, and the host that kept the
	// guest waiting when a limit was worked out may not do so any more.
	const look = time.Second
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case l := <-got:
			if errors.Is(l.err, bufio.ErrBufferFull) {
				return &InfraError{What: "the guest's first event has no end: the guest image does not fit this patchcheck", Evidence: g.evidence(20)}
			}
			if l.err != nil {
				if g.gone(g.limits.Death) {
					return g.bootFailure()
				}
				return &InfraError{What: "guest's event port closed before it was ready", Err: l.err, Evidence: g.evidence(40)}
			}
			if err := json.Unmarshal(l.text, &g.ready); err != nil || g.ready.Event != "ready" {
				return &InfraError{What: fmt.Sprintf("guest's first event is %.80q, not \"ready\": the guest image does not fit this patchcheck", l.text), Evidence: g.evidence(20)}
			}
			if g.ready.UnixNano != 0 {
				g.skew = time.Unix(0, g.ready.UnixNano).Sub(time.Now())
			}
			return nil
		case <-g.died:
			return g.bootFailure()
		case <-g.con.paniced:
			if !g.settle(ctx) {
				g.kill("it had panicked and did not end")
			}
			return g.bootFailure()
		case <-g.stopped:
			g.kill("the machine stopped by itself")
			<-g.died
			return g.bootFailure()
		case <-ctx.Done():
			return g.cancelled(ctx)
		case <-timer.C:
		}
		st := g.con.state()
		up := time.Since(g.start)
		hold := g.Hold()
		stretch := Stretch(up, hold.Waited)
		stretched := func(d time.Duration) time.Duration { return time.Duration(float64(d) * stretch) }
		boot, first, silence := stretched(g.limits.Boot), stretched(g.limits.FirstByte), stretched(g.limits.Silence)
		late := up >= boot || st.total == 0 && up >= first || st.total > 0 && st.quiet >= silence
		var left time.Duration
		switch {
		case late && (hold.Frozen || Starved(stretch)):
			return g.kept(hold, up)
		case up >= boot:
			return g.stuck(ctx, BootStuck, fmt.Sprintf("it was not ready within %.0f s", boot.Seconds()))
		case st.total == 0 && up >= first:
			return g.stuck(ctx, BootSilent, fmt.Sprintf("not a byte on the console within %.0f s", first.Seconds()))
		case st.total > 0 && st.quiet >= silence:
			return g.stuck(ctx, BootStuck, fmt.Sprintf("the console went silent for %.0f s before PID 1 was ready", silence.Seconds()))
		case st.total == 0:
			left = first - up
		default:
			left = silence - st.quiet
		}
		timer.Reset(max(min(left, boot-up, look), time.Millisecond))
	}
}

// kept is the error for a guest that the host did not let run.
func (g *Guest) kept(h Hold, after time.Duration) error {
	what := fmt.Sprintf("the host gave the guest's CPUs no time for %.0f of %.0f s: it is overloaded; end other work, or run fewer guests at once", h.Waited.Seconds(), after.Seconds())
	if h.Frozen {
		what = "QEMU was stopped by a signal (kill -CONT goes on)"
	}
	return &InfraError{What: what, Evidence: g.evidence(20)}
}

// stuck makes the error for a guest that is there but does not get on, after
// asking it where it stands.
func (g *Guest) stuck(ctx context.Context, kind BootKind, what string) error {
	st := g.con.state()
	if kind == BootSilent && g.cfg.Accel == KVM {
		return &InfraError{What: what + " under KVM. KVM may be broken on this host: try --accel tcg, or --accel auto to have it probed", Evidence: g.evidence(20)}
	}
	if st.total > 0 {
		dctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		g.Interrogate(dctx)
		cancel()
	}
	if kind == BootStuck {
		if st.agent {
			what += " (PID 1 had started)"
		} else {
			what += " (PID 1 was never reached)"
		}
	}
	return &BootError{Kind: kind, What: what, After: time.Since(g.start), Evidence: g.evidence(60)}
}

// settle waits for QEMU to end after a panic, as long as the console still
// says something new within the limit.
func (g *Guest) settle(ctx context.Context) bool {
	for {
		wait := g.limits.Death - g.con.state().quiet
		if wait <= 0 {
			return false
		}
		t := time.NewTimer(wait)
		select {
		case <-g.died:
			t.Stop()
			return true
		case <-ctx.Done():
			t.Stop()
			return false
		case <-t.C:
		}
	}
}

// gone waits up to d for the guest to be dead.
func (g *Guest) gone(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-g.died:
		return true
	case <-t.C:
		return false
	}
}

// bootFailure turns the death of a guest that never got ready into the error
// that says whose fault it is.
func (g *Guest) bootFailure() error {
	<-g.died
	d := g.death
	up := time.Since(g.start)
	st := g.con.state()
	ev := g.evidence(60)
	switch {
	case st.noinit:
		return &InfraError{What: fmt.Sprintf("the guest's initramfs did not fit into its %d MiB of memory: give it more", g.cfg.MemMiB), Evidence: ev}
	case d.Cause == DeathMemory:
		return &InfraError{What: d.Reason, Evidence: ev}
	case st.fatal != "" && d.Cause != DeathPanic:
		return &InfraError{What: "the guest's PID 1 gave up: " + st.fatal, Evidence: ev}
	case d.Cause == DeathPanic:
		what := fmt.Sprintf("the kernel panicked %.1f s after power-on: %s", up.Seconds(), st.panic)
		if st.panic == "" {
			what = fmt.Sprintf("the kernel panicked %.1f s after power-on", up.Seconds())
		}
		if hint := panicHint(st.panic, st.agent); hint != "" {
			what += " (" + hint + ")"
		}
		return &BootError{Kind: BootPanic, What: what, After: up, Evidence: ev}
	case d.Cause == DeathReset || d.Cause == DeathShutdown:
		what := fmt.Sprintf("the guest stopped by itself %.1f s after power-on, without a panic: %s", up.Seconds(), d.Reason)
		if st.total == 0 && g.cfg.Accel == KVM {
			return &InfraError{What: what + ". KVM may be broken on this host: try --accel tcg", Evidence: ev}
		}
		return &BootError{Kind: BootReset, What: what, After: up, Evidence: ev}
	}
	return &InfraError{What: d.Reason, Evidence: ev}
}

// panicHint names what usually is behind a panic before init.
func panicHint(msg string, agent bool) string {
	switch {
	case agent:
		return ""
	case strings.Contains(msg, "Unable to mount root fs"):
		return "it found no initramfs: does its config have " + options("BLK_DEV_INITRD", "RD_GZIP") + "?"
	case strings.HasPrefix(msg, "Requested init"), strings.HasPrefix(msg, "No working init"):
		return "it could not run /init: does its config have " + options("BLK_DEV_INITRD", "RD_GZIP", "BINFMT_ELF", "64BIT") + "?"
	}
	return ""
}

func options(names ...string) string {
	for i := range names {
		names[i] = "CONFIG_" + names[i]
	}
	return strings.Join(names, ", ")
}

// onEvent runs in the control connection's reader.
func (g *Guest) onEvent(ev qmpctl.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.events = append(g.events, ev)
	once := func(ch chan struct{}) {
		select {
		case <-ch:
		default:
			close(ch)
		}
	}
	switch ev.Event {
	case qmpctl.EventGuestPanicked:
		once(g.panicked)
	case qmpctl.EventStop:
		// We never stop the machine: it did so itself.
		once(g.stopped)
	}
}

// reap waits for QEMU's end and says why the guest died.
func (g *Guest) reap() {
	<-g.qemu.done
	// What was on its way still counts.
	grace := time.NewTimer(time.Second)
	defer grace.Stop()
	g.mu.Lock()
	monitor := g.qmp
	g.mu.Unlock()
	var qmpDone <-chan struct{}
	if monitor != nil {
		qmpDone = monitor.Done()
	}
	select {
	case <-g.con.eof:
	case <-grace.C:
	}
	if qmpDone != nil {
		select {
		case <-qmpDone:
		case <-grace.C:
		}
	}
	g.mu.Lock()
	g.death = g.autopsy()
	g.mu.Unlock()
	close(g.died)
}

// autopsy needs g.mu.
func (g *Guest) autopsy() *GuestDied {
	st := g.con.state()
	d := &GuestDied{Evidence: g.evidence(60)}
	var shutdown string
	panicEvent := false
	for _, ev := range g.events {
		switch ev.Event {
		case qmpctl.EventShutdown:
			shutdown = qmpctl.Reason(ev)
		case qmpctl.EventGuestPanicked:
			panicEvent = true
		}
	}
	exit, sig := g.qemu.exit, g.qemu.signal
	switch {
	case g.closing:
		d.Cause, d.Reason = DeathClosed, "patchcheck ended it"
	case st.panic != "" && memPanic.MatchString(st.panic), (st.panic != "" || panicEvent) && st.oom != "" && strings.Contains(st.panic, "kill init"):
		d.Cause, d.Reason = DeathMemory, fmt.Sprintf("the guest ran out of its %d MiB of memory; give it more", g.cfg.MemMiB)
	case strings.HasPrefix(st.panic, initPanic) && st.crash != "":
		d.Cause, d.Reason = DeathAgent, "patchcheck's PID 1 crashed, which ends a guest: "+printable(st.crash)
	case st.panic != "":
		d.Cause, d.Reason = DeathPanic, "Kernel panic: "+st.panic
	case panicEvent:
		d.Cause, d.Reason = DeathPanic, "the kernel panicked (pvpanic), with nothing on the console"
	case g.killed != "":
		d.Cause, d.Reason = DeathQEMU, "patchcheck killed QEMU: "+g.killed
	case sig == "killed":
		d.Cause, d.Reason = DeathQEMU, g.whoKilled()
	case sig != "":
		d.Cause, d.Reason = DeathQEMU, "QEMU ended by signal: "+sig
	case exit != 0:
		d.Cause, d.Reason = DeathQEMU, fmt.Sprintf("QEMU ended with exit status %d", exit)
		if strings.Contains(d.QEMUStderr, "Cannot allocate memory") {
			d.Reason += fmt.Sprintf(": the host has no %d MiB for the guest", g.cfg.MemMiB)
		}
	case g.qmp == nil && st.total == 0:
		d.Cause, d.Reason = DeathQEMU, "QEMU ended at once, with exit status 0"
	case shutdown == "guest-reset", shutdown == "":
		d.Cause, d.Reason = DeathReset, "it reset itself with no panic message (a triple fault, or a reboot)"
	case shutdown == "guest-shutdown":
		d.Cause, d.Reason = DeathShutdown, "it powered itself off"
	case strings.HasPrefix(shutdown, "host"):
		d.Cause, d.Reason = DeathQEMU, "QEMU was told to end by someone else ("+shutdown+")"
	default:
		d.Cause, d.Reason = DeathReset, "QEMU ended the guest: "+shutdown
	}
	return d
}

// watch looks after a guest in use: one that has panicked is ended soon even
// if its kernel does not get to its reset.
func (g *Guest) watch() {
	select {
	case <-g.died:
		return
	case <-g.con.paniced:
	case <-g.panicked:
	case <-g.stopped:
		g.kill("the machine stopped by itself (KVM internal error?)")
		return
	}
	if g.settle(context.Background()) {
		return
	}
	// The text may have come from user space.
	select {
	case <-g.panicked:
	default:
		ctx, cancel := context.WithTimeout(context.Background(), max(g.limits.Death, 2*time.Second))
		defer cancel()
		if g.ssh.Ping(ctx) == nil {
			g.info("the console shows a panic, but the guest goes on: taken as text of user space")
			return
		}
	}
	g.kill("it had panicked and did not end")
}

// kill ends QEMU now and waits for the autopsy.
func (g *Guest) kill(why string) {
	g.mu.Lock()
	if g.killed == "" {
		g.killed = why
	}
	g.mu.Unlock()
	g.qemu.kill()
	<-g.died
}

func (g *Guest) info(s string) {
	if g.cfg.InfoLog != nil {
		g.cfg.InfoLog(s)
	}
}

// evidence gathers what errors show. It takes no lock of g.
func (g *Guest) evidence(lines int) Evidence {
	e := Evidence{Command: g.repro, QEMUStderr: fileTail(filepath.Join(g.dir, "qemu.log"), 8<<10)}
	if lines > 0 {
		e.ConsoleTail = g.con.tail(lines)
	}
	if !g.tmp {
		e.StateDir = g.dir
	}
	return e
}

// Died is closed when the guest has ended, for whatever reason.
func (g *Guest) Died() <-chan struct{} { return g.died }

// Death says why the guest ended; nil while it lives.
func (g *Guest) Death() *GuestDied {
	select {
	case <-g.died:
		return g.death
	default:
		return nil
	}
}

// Console is the path of the console's log: every byte from power-on.
func (g *Guest) Console() string { return filepath.Join(g.dir, "console.log") }

// ConsoleTail is the console's last n lines.
func (g *Guest) ConsoleTail(n int) []string { return g.con.tail(n) }

// OutOfMemory is the first line of the kernel's OOM killer on the console, ""
// if it never ran. A verb that fails after it says nothing about the series:
// the guest needs more memory.
func (g *Guest) OutOfMemory() string { return g.con.state().oom }

// NMISent says that Interrogate or NMI ended the guest: the panic at the end
// of its console ("NMI: Not continuing") is our doing.
func (g *Guest) NMISent() bool { return g.nmi.Load() }

// ConsoleErr tells that the console's log file could not be written in full,
// for instance because the disk was full.
func (g *Guest) ConsoleErr() error { return g.con.state().logErr }

// Subscribe copies the console to w from now on, until cancel is called or w
// returns an error. Config.Console sees it from power-on.
func (g *Guest) Subscribe(w io.Writer) (cancel func()) { return g.con.subscribe(w) }

// Ready is what the agent said of itself.
func (g *Guest) Ready() guestproto.Ready { return g.ready }

// BootTime is from QEMU's start to the SSH session.
func (g *Guest) BootTime() time.Duration { return g.booted }

// Skew is how much the guest's clock was ahead of the host's when it got
// ready: its clock chip tells whole seconds, and ticks get lost while it boots
// on a busy host. Boot then sets the guest's clock; ClockSet tells whether that
// worked. Durations are best taken on the host or from the guest's monotonic
// clock all the same.
func (g *Guest) Skew() time.Duration { return g.skew }

// ClockSet says that the guest's clock was set to the host's.
func (g *Guest) ClockSet() bool { return g.clockSet }

// MaxSkew is the difference of clocks that may be ignored. Facts carry the
// guest's time; a larger difference there deserves a warning.
const MaxSkew = 5 * time.Second

// QEMUVersion is the running QEMU's version.
func (g *Guest) QEMUVersion() string { return g.qmp.Version() }

// Command is the line that starts the same guest by hand, with its console on
// the terminal.
func (g *Guest) Command() string { return g.repro }

// PID is QEMU's process id.
func (g *Guest) PID() int { return g.qemu.pid }

// Events are the control events so far (SHUTDOWN, GUEST_PANICKED, WATCHDOG,
// ...).
func (g *Guest) Events() []qmpctl.Event {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]qmpctl.Event(nil), g.events...)
}

// Close ends the guest and removes what only it needed. It may be called more
// than once, also while a call is going on, which then ends with GuestDied.
func (g *Guest) Close() error {
	g.closeOnce.Do(func() { g.closeErr = g.close() })
	return g.closeErr
}

func (g *Guest) close() error {
	var err error
	if g.qemu != nil {
		select {
		case <-g.qemu.done:
		default:
			g.mu.Lock()
			g.closing = g.killed == ""
			monitor := g.qmp
			g.mu.Unlock()
			if monitor != nil {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				monitor.Quit(ctx)
				cancel()
				g.gone(time.Second)
			}
			g.qemu.kill()
		}
		// Killed processes are reaped at once unless the kernel is in trouble
		// with them; nobody should wait for that.
		if g.gone(5*time.Second) == false {
			err = fmt.Errorf("QEMU (process %d) does not end although it was killed", g.qemu.pid)
		}
	}
	if g.ssh != nil {
		// May block on a guest that does not read; the connection below ends it.
		go g.ssh.Close()
	}
	for _, c := range g.conns {
		c.Close()
	}
	if g.conIn != nil {
		g.conIn.Close()
	}
	g.place.release()
	if g.sock != "" {
		err = errors.Join(err, os.RemoveAll(g.sock))
		g.held.Close()
	}
	return err
}
