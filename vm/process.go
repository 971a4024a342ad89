// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"patchcheck/internal/proc"
)

// oomScore makes QEMU the host's first choice when memory runs out: a lost
// guest is started again, a lost compiler or session is not.
const oomScore = 800

// maxQEMULog bounds qemu.log, in bytes.
const maxQEMULog = 64 << 20

// process is a running QEMU.
type process struct {
	pid  int
	done chan struct{} // closed once it has been reaped
	// Valid after done.
	exit   int
	signal string
}

// startQEMU starts argv with its own process group. in and out are its ends of
// the console's pipes, and are closed here. Its stderr goes to the file at
// logPath, not through a pipe.
//
// QEMU dies with us even if we get SIGKILL: the kernel sends it our death
// signal, and the agent ends the guest when its connection is gone.
func startQEMU(argv []string, logPath string, in, out *os.File) (*process, error) {
	defer in.Close()
	defer out.Close()
	log, err := os.OpenFile(logPath, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The death signal is sent when the thread that forked ends, so it
		// stays ours until QEMU is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, log
		cmd.Env = proc.MinimalEnv()
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		// Raising the score needs no privilege; if it fails all the same,
		// that is no reason not to run.
		os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", p.pid), []byte(strconv.Itoa(oomScore)), 0)
		// Its log is the only file that it writes, and a guest may bring it to
		// complain without end.
		unix.Prlimit(p.pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: maxQEMULog, Max: maxQEMULog}, nil)
		release := proc.Guard(p.pid)
		started <- nil
		proc.AwaitExit(p.pid)
		release()
		cmd.Wait()
		if ps := cmd.ProcessState; ps != nil {
			p.exit = ps.ExitCode()
			if ws, ok := ps.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
				p.signal = ws.Signal().String()
			}
		}
		// Whatever else it may have started.
		syscall.Kill(-p.pid, syscall.SIGKILL)
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// kill ends the process group at once.
func (p *process) kill() {
	select {
	case <-p.done:
		// The number may already be someone else's.
	default:
		syscall.Kill(-p.pid, syscall.SIGKILL)
	}
}

// sockets are the listening ends for one QEMU.
type sockets struct {
	ids       []string
	listeners []net.Listener
	accepted  chan acceptedConn
	once      sync.Once
}

type acceptedConn struct {
	id   string
	conn net.Conn
	err  error
}

func listen(dir string) (*sockets, error) {
	s := &sockets{ids: []string{chanQMP, chanEvents, chanSSH}, accepted: make(chan acceptedConn, 3)}
	for _, id := range s.ids {
		l, err := net.Listen("unix", filepath.Join(dir, id))
		if err != nil {
			s.close()
			return nil, err
		}
		s.listeners = append(s.listeners, l)
		go func() {
			c, err := l.Accept()
			s.accepted <- acceptedConn{id, c, err}
		}()
	}
	return s, nil
}

// close stops listening; nobody else can connect from then on. Connections
// that nobody took are closed.
func (s *sockets) close() {
	s.once.Do(func() {
		for _, l := range s.listeners {
			l.Close()
		}
		for {
			select {
			case c := <-s.accepted:
				if c.conn != nil {
					c.conn.Close()
				}
			default:
				return
			}
		}
	})
}

const (
	sockPrefix = "pc-vm-"
	// maxSockDir leaves room for a socket's name below the kernel's limit of
	// 107 bytes for the whole path (unix(7)).
	maxSockDir = 90
)

// makeSockDir makes a private folder with a short path, and holds a lock on it
// that ends with this process.
func makeSockDir() (dir string, held *os.File, err error) {
	pattern := sockPrefix + strconv.Itoa(os.Getpid()) + "-"
	dir, err = os.MkdirTemp("", pattern)
	if err == nil && len(dir) > maxSockDir {
		os.Remove(dir)
		dir, err = os.MkdirTemp("/tmp", pattern)
	}
	if err != nil {
		return "", nil, err
	}
	if len(dir) > maxSockDir {
		os.Remove(dir)
		return "", nil, fmt.Errorf("path %s is too long for a socket: set TMPDIR to a shorter one", dir)
	}
	if held, err = os.Open(dir); err == nil {
		err = unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		os.Remove(dir)
		return "", nil, err
	}
	return dir, held, nil
}

// Sweep removes what patchchecks that were killed left behind: our folders
// that nobody holds a lock on. Process ids would not tell, they differ between
// containers that share a /tmp.
func Sweep() {
	for _, base := range []string{os.TempDir(), "/tmp"} {
		found, _ := filepath.Glob(filepath.Join(base, sockPrefix+"*"))
		for _, dir := range found {
			st, err := os.Lstat(dir)
			// A folder that was just made may not be locked yet.
			if err != nil || !st.IsDir() {
				continue
			}
			// A time in the future is no recent one: the clock was set back.
			if age := time.Since(st.ModTime()); age >= 0 && age < sweepAge {
				continue
			}
			if sys, ok := st.Sys().(*syscall.Stat_t); !ok || int(sys.Uid) != os.Getuid() {
				continue
			}
			f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
			if err != nil {
				continue
			}
			if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
				os.RemoveAll(dir)
			}
			f.Close()
		}
	}
}

// sweepAge spares folders younger than this.
var sweepAge = 5 * time.Second

// preflight finds, before anything is started, what would make QEMU fail.
func preflight(c Config) error {
	if err := c.validate(); err != nil {
		return err
	}
	if _, err := exec.LookPath(c.QEMU); err != nil {
		return &InfraError{What: fmt.Sprintf("cannot run %s (on Debian it is in the package qemu-system-x86)", c.QEMU), Err: err}
	}
	for _, f := range append([]string{c.Kernel}, c.Initrds...) {
		what := "guest image"
		if f == c.Kernel {
			what = "kernel image"
		}
		st, err := os.Stat(f)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return &InfraError{What: fmt.Sprintf("%s %s does not exist", what, f)}
		case err != nil:
			return &InfraError{What: "cannot use " + what, Err: err}
		case !st.Mode().IsRegular():
			return &InfraError{What: fmt.Sprintf("%s %s is not a file", what, f)}
		}
		r, err := os.Open(f)
		if err != nil {
			return &InfraError{What: "cannot read " + what, Err: err}
		}
		r.Close()
	}
	if c.KernelConfig != "" {
		f, err := os.Open(c.KernelConfig)
		if err != nil {
			return &InfraError{What: "cannot check the kernel's configuration", Err: err}
		}
		defer f.Close()
		missing, err := MissingOptions(f)
		if err != nil {
			return &InfraError{What: "cannot check the kernel's configuration " + c.KernelConfig, Err: err}
		}
		if len(missing) > 0 {
			return &InfraError{What: fmt.Sprintf("the kernel cannot be a guest of patchcheck, its configuration lacks %s (%s)", strings.Join(missing, ", "), c.KernelConfig)}
		}
	}
	return nil
}

// RequiredOptions are what a kernel must have built in to be a guest: without
// them it does not reach PID 1, or PID 1 cannot talk to us. There is no 9p, no
// disk and no network among them: the root is an initramfs.
var RequiredOptions = []string{
	"64BIT", "PRINTK", "BLK_DEV_INITRD", "BINFMT_ELF", "PROC_FS", "SYSFS",
	"TMPFS", "DEVTMPFS", "FUTEX", "EPOLL", "UNIX98_PTYS", "SERIAL_8250",
	"SERIAL_8250_CONSOLE", "PCI", "VIRTIO_PCI", "VIRTIO_CONSOLE",
}

// MissingOptions reads a .config and lists the required options that it does
// not build in, with what it says of them.
func MissingOptions(config io.Reader) ([]string, error) {
	have := make(map[string]string)
	sc := bufio.NewScanner(config)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		if k, v, ok := strings.Cut(sc.Text(), "="); ok && strings.HasPrefix(k, "CONFIG_") {
			have[strings.TrimPrefix(k, "CONFIG_")] = v
		}
	}
	if err := sc.Err(); err != nil {
		return nil, err
	}
	var missing []string
	for _, o := range RequiredOptions {
		switch have[o] {
		case "y":
		case "m":
			missing = append(missing, "CONFIG_"+o+"=y (it is a module)")
		default:
			missing = append(missing, "CONFIG_"+o)
		}
	}
	return missing, nil
}
