// SPDX-License-Identifier: Apache-2.0

// Package host owns what patchcheck needs from the machine it runs on: which
// programs, headers, space and rights, how to see that they are there, and
// which Debian package brings them. It installs only when told to.
package host

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"patchcheck/internal/proc"
)

// Need is one thing that a host must or should have.
type Need struct {
	Name    string
	Why     string
	Package string // Debian package that brings it
	// Optional things are reported and do not fail.
	Optional bool
	found    func() string // what was found; "" when missing
}

// Result is one line of the doctor's answer.
type Result struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Optional bool   `json:"optional,omitempty"`
	Found    string `json:"found,omitempty"`
	Why      string `json:"why"`
	Package  string `json:"package,omitempty"`
}

func program(names ...string) func() string {
	return func() string {
		for _, n := range names {
			if p, err := exec.LookPath(n); err == nil {
				return p
			}
		}
		return ""
	}
}

func file(patterns ...string) func() string {
	return func() string {
		for _, p := range patterns {
			if m, _ := filepath.Glob(p); len(m) > 0 {
				return m[0]
			}
		}
		return ""
	}
}

// Needs lists everything, in the order in which a run uses it.
func Needs() []Need {
	return []Need{
		{Name: "git", Package: "git", Why: "git ranges and git trees", found: program("git")},
		{Name: "make", Package: "make", Why: "kernel builds", found: program("make")},
		{Name: "gcc", Package: "gcc", Why: "kernel builds", found: program("gcc")},
		{Name: "flex", Package: "flex", Why: "kernel configuration", found: program("flex")},
		{Name: "bison", Package: "bison", Why: "kernel configuration", found: program("bison")},
		{Name: "bc", Package: "bc", Why: "kernel builds", found: program("bc")},
		{Name: "perl", Package: "perl", Why: "checkpatch.pl and get_maintainer.pl", found: program("perl")},
		{Name: "python3", Package: "python3", Why: "kernel-doc checks of W=1", found: program("/usr/bin/python3", "python3")},
		{Name: "libelf headers", Package: "libelf-dev", Why: "objtool", found: file("/usr/include/libelf.h")},
		{Name: "openssl headers", Package: "libssl-dev", Why: "the kernel's signing tools", found: file("/usr/include/openssl/ssl.h")},
		{Name: "libc headers", Package: "libc6-dev", Why: "the kernel's host tools", found: file("/usr/include/stdio.h")},
		{Name: "apt-get", Package: "apt", Why: "the default kernel tree and the guest's packages", found: program("apt-get")},
		{Name: "dpkg-deb", Package: "dpkg", Why: "unpacking packages", found: program("dpkg-deb")},
		{Name: "xz", Package: "xz-utils", Why: "unpacking kernel sources", found: program("xz")},
		{Name: "Debian keyring", Package: "debian-archive-keyring", Why: "packages are verified", found: file("/usr/share/keyrings/debian-archive-keyring.*", "/usr/share/keyrings/debian-archive-*-automatic.*")},
		{Name: "QEMU", Package: "qemu-system-x86", Why: "guests", found: program("qemu-system-x86_64")},
		{Name: "bubblewrap", Package: "bubblewrap", Why: "builds of a stranger's series without network, home and secrets", found: program("bwrap")},
		{Name: "sparse", Package: "sparse", Why: "C=1 checks", Optional: true, found: program("sparse")},
		{Name: "clang", Package: "clang", Why: "a second compiler's warnings", Optional: true, found: program("clang")},
		{Name: "codespell", Package: "codespell", Why: "spelling in messages and comments", Optional: true, found: program("codespell")},
	}
}

// MinFree is the disk space that a first run needs in the cache: sources,
// objects, kernels and images.
const MinFree = 8 << 30

// Check looks at the host. cache is the folder whose file system must have room.
func Check(cache string) []Result {
	var out []Result
	for _, n := range Needs() {
		f := n.found()
		out = append(out, Result{Name: n.Name, OK: f != "", Optional: n.Optional, Found: f, Why: n.Why, Package: n.Package})
	}
	dir := cache
	for dir != "/" && dir != "." {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err == nil {
		free := int64(st.Bavail) * st.Bsize
		used := int64(0)
		if fi, err := os.Stat(filepath.Join(cache, "trees")); err == nil && fi.IsDir() {
			used = MinFree / 2 // sources and objects are there already
		}
		out = append(out, Result{Name: "disk space", OK: free >= MinFree-used,
			Found: fmt.Sprintf("%.1f GiB free below %s", float64(free)/(1<<30), dir), Why: fmt.Sprintf("%d GiB for sources, objects and images", int64(MinFree)>>30)})
	}
	_, mem := CPUMem()
	out = append(out, Result{Name: "memory", OK: mem >= 3<<10, Found: fmt.Sprintf("%d MiB", mem), Why: "3 GiB for compilers and a guest"})
	kvm := "no /dev/kvm: guests run under TCG, about 5 times slower"
	if f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0); err == nil {
		f.Close()
		kvm = "/dev/kvm opens; the first run finds out by a boot whether it works"
	} else if os.IsPermission(err) {
		kvm = "/dev/kvm may not be opened by this user (join group kvm): guests run under TCG"
	}
	out = append(out, Result{Name: "KVM", OK: strings.HasPrefix(kvm, "/dev/kvm opens"), Optional: true, Found: kvm, Why: "speed"})
	return out
}

// Missing gives the packages of what is missing and not optional.
func Missing(rs []Result) (packages []string, other []Result) {
	for _, r := range rs {
		if r.OK || r.Optional {
			continue
		}
		if r.Package == "" {
			other = append(other, r)
		} else {
			packages = append(packages, r.Package)
		}
	}
	return packages, other
}

// Install installs Debian packages; the caller has asked for it. progress
// gets apt's output.
func Install(ctx context.Context, packages []string, progress io.Writer) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("not root: run  sudo apt-get install --no-install-recommends %s", strings.Join(packages, " "))
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("no apt-get on this host: install by its own means: %s", strings.Join(packages, " "))
	}
	env := append(proc.MinimalEnv(), "DEBIAN_FRONTEND=noninteractive")
	if _, err := proc.Run(ctx, proc.Cmd{Argv: []string{"apt-get", "-q", "update"}, Env: env, Stdout: progress, Stderr: progress}); err != nil {
		return err
	}
	argv := append([]string{"apt-get", "-q", "-y", "--no-install-recommends", "install"}, packages...)
	_, err := proc.Run(ctx, proc.Cmd{Argv: argv, Env: env, Stdout: progress, Stderr: progress})
	return err
}

// CPUMem gives the processor's name and the memory in MiB.
func CPUMem() (cpu string, mem int64) {
	cpu = runtime.GOARCH
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		sc := bufio.NewScanner(f)
		for sc.Scan() {
			if k, v, ok := strings.Cut(sc.Text(), ":"); ok && strings.TrimSpace(k) == "model name" {
				cpu = strings.TrimSpace(v)
				break
			}
		}
		f.Close()
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		if f := strings.Fields(string(b)); len(f) > 1 {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				mem = n >> 10
			}
		}
	}
	return cpu, mem
}

// OS is the host's name for itself: "Debian GNU/Linux 12 (bookworm)".
func OS() string {
	b, _ := os.ReadFile("/etc/os-release")
	for _, l := range strings.Split(string(b), "\n") {
		if v, ok := strings.CutPrefix(l, "PRETTY_NAME="); ok {
			return strings.Trim(v, `"`)
		}
	}
	return runtime.GOOS
}
