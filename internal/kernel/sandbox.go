// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"patchcheck/internal/proc"
)

// Sandbox says how programs that run a series' code are confined.
//
// Within it there is the system's software read-only, the sources read-only,
// the one folder to write to, an empty /tmp and /home, a /proc of its own and
// no network. The environment holds what the build needs and nothing else. No
// process in it has a privilege or can gain one, not even when patchcheck runs
// as root: root in a namespace could make the read-only mounts writable again.
type Sandbox struct {
	Enabled bool   `json:"enabled"`
	Reason  string `json:"reason,omitempty"` // why not, for the report
	args    []string
}

// Limits on what one confined process may use. What all of them use together is
// bounded by watch.
const (
	limitMemory = 16 << 30 // bytes of address space; a compiler that needs more does not compile a kernel
	limitFile   = 8 << 30  // bytes of one file
	limitTmp    = 4 << 30  // bytes of each of /tmp, /var/tmp, /dev/shm
	limitProcs  = 8192     // processes of the user; the kernel does not apply it to root
)

var sandboxes struct {
	sync.Mutex
	found *Sandbox
}

// FindSandbox tries bubblewrap as the builds will use it. The answer is kept
// for the life of the process.
func FindSandbox(ctx context.Context) Sandbox {
	sandboxes.Lock()
	defer sandboxes.Unlock()
	if sandboxes.found == nil {
		s := probeSandbox(ctx)
		if ctx.Err() != nil {
			return s // an interrupted trial proves nothing
		}
		sandboxes.found = &s
	}
	return *sandboxes.found
}

func probeSandbox(ctx context.Context) Sandbox {
	path := lookTool("bwrap")
	if path == "" {
		return Sandbox{Reason: "bubblewrap is not installed (Debian package bubblewrap)"}
	}
	var err error
	// With a user namespace of its own a build owns nothing outside. Some hosts
	// forbid them to everybody, and root can do without; bubblewrap before 0.8
	// cannot forbid further ones inside, which the system call filter does too.
	const drop, as = "--cap-drop ALL", "--uid 1000 --gid 1000"
	for _, ns := range []string{"--unshare-user --unshare-all --disable-userns " + as, "--unshare-user --unshare-all " + as, "--unshare-all"} {
		s := Sandbox{Enabled: true, args: append([]string{path}, strings.Fields(ns+" "+drop)...)}
		// The trial has to show that nothing was left to it.
		if _, err = s.run(ctx, nil, nil, nil, proc.Cmd{Argv: []string{"/bin/sh", "-c", "! grep -Eq '^Cap(Prm|Eff|Bnd):.*[1-9a-f]' /proc/self/status"}}); err == nil {
			return s
		}
	}
	return Sandbox{Reason: "bubblewrap does not work on this host: " + lastLine(err.Error())}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// wrap builds the command line that runs argv confined. ro and rw are folders
// that are visible besides the system's; env is the whole environment.
func (s Sandbox) wrap(ro, rw []string, dir string, env, argv []string) []string {
	var out []string
	// A host that runs out of memory takes it from here first.
	if p, err := exec.LookPath("choom"); err == nil {
		out = append(out, p, "-n", "600", "--")
	}
	if p, err := exec.LookPath("prlimit"); err == nil {
		out = append(out, p, "--core=0", fmt.Sprintf("--as=%d", int64(limitMemory)), fmt.Sprintf("--fsize=%d", int64(limitFile)), fmt.Sprintf("--nproc=%d", limitProcs), "--")
	}
	if !s.Enabled {
		return append(append(append(out, "env", "-i"), env...), argv...)
	}
	out = append(out, s.args...)
	out = append(out, "--die-with-parent", "--new-session", "--clearenv", "--hostname", "patchcheck")
	out = append(out, "--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev")
	for _, d := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		fi, err := os.Lstat(d)
		if err != nil {
			continue
		}
		if fi.Mode()&os.ModeSymlink != 0 {
			if target, err := os.Readlink(d); err == nil {
				out = append(out, "--symlink", target, d)
			}
			continue
		}
		out = append(out, "--ro-bind", d, d)
	}
	for _, f := range []string{"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"} {
		out = append(out, "--ro-bind-try", f, f)
	}
	for _, d := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		out = append(out, "--size", fmt.Sprint(int64(limitTmp)), "--tmpfs", d)
	}
	// Outer folders first, or an outer one would hide an inner one.
	type bind struct {
		opt, path string
	}
	var binds []bind
	for _, p := range ro {
		binds = append(binds, bind{"--ro-bind", p})
	}
	for _, p := range rw {
		binds = append(binds, bind{"--bind", p})
	}
	sort.SliceStable(binds, func(i, j int) bool { return binds[i].path < binds[j].path })
	for _, b := range binds {
		out = append(out, b.opt, b.path, b.path)
	}
	// What the mount points above had to make (a home folder that holds the
	// cache, say) stays empty and cannot be written.
	// Settings of the kernel below /proc/sys belong to the user who is root
	// outside, and a build of root's is that user.
	out = append(out, "--remount-ro", "/", "--remount-ro", "/dev", "--remount-ro", "/proc")
	for _, e := range env {
		k, v, _ := strings.Cut(e, "=")
		out = append(out, "--setenv", k, v)
	}
	return append(append(out, "--chdir", dir, "--"), argv...)
}

// run executes argv confined. What goes beyond a limit ends it with a
// *LimitError.
func (s Sandbox) run(ctx context.Context, ro, rw []string, env []string, c proc.Cmd) (proc.Result, error) {
	dir := c.Dir
	if dir == "" {
		dir = "/"
	}
	c.Env = []string{"PATH=" + systemPath}
	inner := s
	var ns io.Reader
	if s.Enabled {
		c.Dir = "/"
		c.Inherit = slices.Clone(c.Inherit)
		give := func(option string, f *os.File) {
			inner.args = append(slices.Clip(inner.args), option, strconv.Itoa(3+len(c.Inherit)))
			c.Inherit = append(c.Inherit, f)
		}
		if filter := seccompFilter(); len(filter) > 0 {
			f, err := memoryFile("seccomp", filter)
			if err != nil {
				return proc.Result{Exit: -1}, fmt.Errorf("cannot hand over the system call filter: %w", err)
			}
			defer f.Close()
			give("--seccomp", f)
		}
		f, err := memoryFile("info", nil)
		if err != nil {
			return proc.Result{Exit: -1}, fmt.Errorf("cannot follow confined processes: %w", err)
		}
		defer f.Close()
		give("--info-fd", f)
		ns = io.NewSectionReader(f, 0, 4<<10)
	}
	grouped, refused, ungroup := pidGroup(2 * limits.procs)
	defer ungroup()
	c.Argv = append(grouped, inner.wrap(ro, rw, dir, env, c.Argv)...)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := &outputLimit{left: limits.output, over: stop}
	c.Stdout, c.Stderr = out.tee(c.Stdout), out.tee(c.Stderr)
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { watch(ns, rw, refused, stop, done) })
	res, err := proc.Run(ctx, c)
	close(done)
	watching.Wait()
	var over *LimitError
	if errors.As(context.Cause(ctx), &over) {
		return res, over
	}
	if refused() {
		return res, tooManyProcesses()
	}
	return res, err
}

// memoryFile is a file without a name.
func memoryFile(name string, data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(data)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// outside returns the folders that have to be made visible for a program that
// lives outside the system's folders.
func outside(paths ...string) []string {
	seen := map[string]bool{}
	var out []string
	for _, p := range paths {
		if p == "" {
			continue
		}
		real, err := filepath.EvalSymlinks(p)
		if err != nil {
			continue
		}
		for _, f := range []string{p, real} {
			if strings.HasPrefix(f, "/usr/") || strings.HasPrefix(f, "/bin/") || strings.HasPrefix(f, "/sbin/") || strings.HasPrefix(f, "/lib") {
				continue
			}
			// .../prefix/bin/gcc needs .../prefix.
			dir := filepath.Dir(f)
			if filepath.Base(dir) == "bin" {
				dir = filepath.Dir(dir)
			}
			if dir != "/" && !seen[dir] {
				seen[dir] = true
				out = append(out, dir)
			}
		}
	}
	return out
}
