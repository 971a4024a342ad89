// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"patchcheck/internal/debian"
	"patchcheck/internal/proc"
)

// compile says how a program is built from its Debian source, statically, for
// guests in which Debian's own build of it cannot run.
type compile struct {
	Source    string   // name of the source package
	Configure []string // arguments of its configure script
	Target    string   // of make, and the program's path below the source folder
	As        string   // path in the guest
}

// program builds c in dir and returns the stripped program's path and its
// origin. The source is that of the signed archive index; upstream's, without
// Debian's changes. Nothing is installed.
func (c compile) program(ctx context.Context, root *debian.Root, opt Options, dir string) (string, Package, error) {
	for _, tool := range []string{"gcc", "make", "strip", "tar"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", Package{}, fmt.Errorf("%s is built from source for the guest and the host has no %s; install gcc, make, binutils and libc6-dev", c.Source, tool)
		}
	}
	src, err := root.Source(ctx, c.Source)
	if err != nil {
		return "", Package{}, err
	}
	archive, err := src.Upstream()
	if err != nil {
		return "", Package{}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", Package{}, err
	}
	if _, err := proc.Run(ctx, proc.Cmd{Argv: []string{"tar", "-xf", archive, "--strip-components=1", "--no-same-owner", "-C", dir}}); err != nil {
		return "", Package{}, err
	}
	opt.Progress("building " + c.Source + " " + src.Version + " for the guest, once")
	env := []string{"LC_ALL=C", "HOME=/nonexistent", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir}
	for _, argv := range [][]string{
		append([]string{"./configure"}, c.Configure...),
		{"make", fmt.Sprintf("-j%d", runtime.NumCPU()), c.Target},
		{"strip", c.Target},
	} {
		if _, err := proc.Run(ctx, proc.Cmd{Argv: argv, Dir: dir, Env: env, MaxOutput: 1 << 20}); err != nil {
			if ctx.Err() != nil {
				return "", Package{}, ctx.Err()
			}
			return "", Package{}, fmt.Errorf("%s cannot be built for the guest (it needs gcc, make and the static C library of libc6-dev): %w", c.Source, err)
		}
	}
	p := filepath.Join(dir, filepath.FromSlash(c.Target))
	if err := checkAgent(p); err != nil { // static and for x86-64, as the agent
		return "", Package{}, fmt.Errorf("%s was built and cannot run in a guest: %w", c.Source, err)
	}
	return p, Package{Name: c.Source + " (built from source)", Version: strings.TrimSpace(src.Version)}, nil
}
