// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"patchcheck/internal/cache"
	"patchcheck/internal/proc"
)

// Script is a run of one of the tree's scripts on data of ours.
type Script struct {
	// Files is what the script finds in its folder, which is made for it and
	// removed afterwards: itself, its data and its input, by path. Those below
	// scripts/ are executable.
	Files map[string][]byte
	// Folders are made besides those of Files.
	Folders []string
	// Argv is run in that folder: "perl scripts/checkpatch.pl 0001.patch".
	Argv      []string
	Stdin     []byte
	NoSandbox bool
	MaxOutput int // bytes of each stream; 0 means 16 MiB
	// Reads are files and folders of this host, by absolute path, that it may
	// read besides.
	Reads []string
	// Hostile says that what it reads was made by a series: then it does not run
	// unconfined unless NoSandbox says so.
	Hostile bool
}

// scriptSandbox is how a script of the tree is confined. The script is the
// tree's and never the series', whose text it only reads, so a host without
// bubblewrap runs it as its user would, where a build is refused.
func scriptSandbox(ctx context.Context, off bool) (Sandbox, error) {
	if off {
		return Sandbox{Reason: "switched off by --no-sandbox"}, nil
	}
	sb := FindSandbox(ctx)
	return sb, ctx.Err()
}

// RunScript runs a script confined, as far as this host can: it sees the
// system's software and its own folder, and no network. The error of a script that
// exits with another status than 0 is a *proc.Error, and the result is valid
// then. A program that the host lacks is a *ToolError.
func RunScript(ctx context.Context, s Script) (proc.Result, error) {
	none := proc.Result{Exit: -1}
	if len(s.Argv) == 0 {
		return none, errors.New("a script without a command")
	}
	tool := lookTool(s.Argv[0])
	if s.Argv[0] == "python3" {
		tool = findPython(ctx)
	}
	if tool == "" {
		return none, &ToolError{Tool: s.Argv[0], Package: s.Argv[0]}
	}
	sb, err := scriptSandbox(ctx, s.NoSandbox)
	if err != nil {
		return none, err
	}
	if s.Hostile && !sb.Enabled && !s.NoSandbox {
		return none, &InfraError{What: fmt.Sprintf("what a series made is not given to %s unconfined, and %s", s.Argv[0], sb.Reason)}
	}
	dir, err := os.MkdirTemp("", "patchcheck-script-")
	if err != nil {
		return none, err
	}
	defer cache.RemoveAll(dir)
	for _, d := range s.Folders {
		if err := checkSourcePath(d); err != nil {
			return none, err
		}
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return none, err
		}
	}
	for name, b := range s.Files {
		if err := checkSourcePath(name); err != nil {
			return none, err
		}
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return none, err
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(name, "scripts/") {
			mode = 0o755
		}
		if err := os.WriteFile(p, b, mode); err != nil {
			return none, err
		}
	}
	env := []string{"PATH=" + systemPath, "LC_ALL=C.UTF-8", "HOME=/nonexistent", "PYTHONDONTWRITEBYTECODE=1", "GIT_CEILING_DIRECTORIES=/"}
	most := s.MaxOutput
	if most == 0 {
		most = 16 << 20
	}
	res, err := sb.run(ctx, append(append([]string{dir}, outside(tool)...), s.Reads...), nil, env,
		proc.Cmd{Argv: append([]string{tool}, s.Argv[1:]...), Dir: dir, MaxOutput: most, Stdin: bytes.NewReader(s.Stdin)})
	res.Stdout = bytes.ReplaceAll(res.Stdout, []byte(dir+"/"), nil)
	res.Stderr = bytes.ReplaceAll(res.Stderr, []byte(dir+"/"), nil)
	return res, err
}

// kernelDocParts are the paths that hold the kernel-doc checker and what it is
// made of, over the years.
var kernelDocParts = append([]string{"tools/lib/python", "scripts/lib/kdoc"}, kernelDocScripts...)

// docDir is a folder with the tree's kernel-doc checker. Of a git tree only
// the checker is written out, since all of it takes half a minute.
func (t *Tree) docDir(ctx context.Context) (string, error) {
	if t.Dir != "" || t.cache == nil {
		return t.Export(ctx)
	}
	key := "doc-" + strings.ReplaceAll(t.ID, ":", "-")
	if dir, err := t.cache.Lookup("scripts", key); err == nil {
		t.cache.Touch("scripts", key)
		return dir, nil
	}
	out, err := git(ctx, t.Repo, append([]string{"ls-tree", "--name-only", t.Commit, "--"}, kernelDocParts...)...)
	if err != nil {
		return "", err
	}
	have := strings.Fields(out)
	if len(have) == 0 {
		return "", &InfraError{What: "the tree has no kernel-doc checker (" + kernelDocScripts[0] + ")"}
	}
	dir, err := t.cache.Put("scripts", key, func(dir string) error {
		return pipe(ctx, append(gitArgv(t.Repo), append([]string{"archive", "--format=tar", t.Commit, "--"}, have...)...), []string{"tar", "-x", "-f", "-", "-C", dir, "--no-same-owner"})
	})
	if err != nil {
		return "", &TreeError{Spec: t.Spec, Infra: true, Msg: fmt.Sprintf("cannot write out the kernel-doc checker of commit %.12s", t.Commit), Err: err}
	}
	return dir, nil
}
