// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"

	"patchcheck/internal/proc"
)

// Sandbox says how programs that run a series' code are confined.
//
// Within it there is the system's software read-only, the sources read-only,
// the one folder to write to, an empty /tmp and /home, a /proc of its own and
// no network. The environment holds what the build needs and nothing else.
type Sandbox struct {
	Enabled bool   `json:"enabled"`
	Reason  string `json:"reason,omitempty"` // why not, for the report
	args    []string
}

// Limits on what a confined process may use. Memory is per process; a compiler
// that needs more than this does not compile a kernel.
const (
	limitMemory   = 16 << 30 // bytes of address space
	limitFile     = 8 << 30  // bytes of one file
	limitTmp      = 4 << 30  // bytes of /tmp
	limitProcs    = 8192
	limitLogBytes = 512 << 20
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
	// With a user namespace even root's builds own nothing outside; some hosts
	// forbid it to everybody, and root can do without.
	for _, ns := range [][]string{{"--unshare-user", "--unshare-all"}, {"--unshare-all"}} {
		s := Sandbox{Enabled: true, args: append([]string{path}, ns...)}
		if _, err = proc.Run(ctx, proc.Cmd{Argv: s.wrap(nil, nil, "/", nil, []string{"/usr/bin/true"})}); err == nil {
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
	for _, d := range []string{"/tmp", "/var/tmp"} {
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
	out = append(out, "--remount-ro", "/")
	for _, e := range env {
		k, v, _ := strings.Cut(e, "=")
		out = append(out, "--setenv", k, v)
	}
	return append(append(out, "--chdir", dir, "--"), argv...)
}

// run executes argv confined.
func (s Sandbox) run(ctx context.Context, ro, rw []string, env []string, c proc.Cmd) (proc.Result, error) {
	dir := c.Dir
	if dir == "" {
		dir = "/"
	}
	c.Argv = s.wrap(ro, rw, dir, env, c.Argv)
	c.Env = []string{"PATH=" + systemPath}
	if s.Enabled {
		c.Dir = "/"
	}
	return proc.Run(ctx, c)
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
