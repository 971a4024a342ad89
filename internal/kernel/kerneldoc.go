// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"

	"patchcheck/internal/cache"
	"patchcheck/internal/proc"
)

// kernelDocScripts are where the tree keeps the checker, newest place first.
var kernelDocScripts = []string{"tools/docs/kernel-doc", "scripts/kernel-doc.py", "scripts/kernel-doc"}

// CheckKernelDoc runs the tree's kernel-doc checker, as W=1 would, on files of
// tree with o on top: the C sources and headers among files that exist there.
// The answer maps each file to its lines, repeats folded, paths relative to
// the tree. It needs no workspace; results are kept by content.
//
// The checker is always the tree's own, never one that a series brings.
func (s *Store) CheckKernelDoc(ctx context.Context, t *Tree, o Overlay, files []string) (map[string][]string, error) {
	if o == nil {
		o = NoOverlay{}
	}
	changed := map[string]bool{}
	for _, p := range o.Paths() {
		changed[p] = true
	}
	in := map[string][]byte{}
	for _, f := range files {
		if ext := path.Ext(f); ext != ".c" && ext != ".h" {
			continue
		}
		if err := checkSourcePath(f); err != nil {
			return nil, err
		}
		var b []byte
		var mode fs.FileMode
		var err error
		if changed[f] {
			b, mode, err = o.ReadFile(f)
		} else {
			b, mode, err = t.ReadFile(f)
		}
		if errors.Is(err, fs.ErrNotExist) || err == nil && mode&fs.ModeSymlink != 0 {
			continue
		}
		if err != nil {
			return nil, err
		}
		in[f] = b
	}
	out := map[string][]string{}
	if len(in) == 0 {
		return out, nil
	}
	dir, err := t.docDir(ctx)
	if err != nil {
		return nil, err
	}
	script := ""
	for _, p := range kernelDocScripts {
		if fi, err := os.Stat(filepath.Join(dir, p)); err == nil && fi.Mode().IsRegular() {
			script = filepath.Join(dir, p)
			break
		}
	}
	if script == "" {
		return nil, &InfraError{What: "the tree has no kernel-doc checker (" + kernelDocScripts[0] + ")"}
	}
	tool := script
	if b, err := os.ReadFile(script); err == nil && strings.HasPrefix(string(b), "#!/usr/bin/env perl") {
		tool = "perl"
	} else if tool = findPython(ctx); tool == "" {
		return nil, &ToolError{Tool: "python3", Package: "python3"}
	}
	names := make([]string, 0, len(in))
	for n := range in {
		names = append(names, n)
	}
	sort.Strings(names)
	h := sha256.New()
	if err := t.Identify(ctx); err != nil {
		return nil, err
	}
	fmt.Fprintf(h, "%s\x00%s\x00%s\n", t.ID, tool, script)
	for _, n := range names {
		fmt.Fprintf(h, "%s\x00%x\n", n, sha256.Sum256(in[n]))
	}
	key := hex.EncodeToString(h.Sum(nil))[:32]
	const result = "kernel-doc.json"
	if d, err := s.Cache.Lookup("kerneldoc", key); err == nil {
		if b, err := os.ReadFile(filepath.Join(d, result)); err == nil && json.Unmarshal(b, &out) == nil {
			s.Cache.Touch("kerneldoc", key)
			return out, nil
		}
	}
	tmp, err := os.MkdirTemp("", "patchcheck-doc-")
	if err != nil {
		return nil, explainFull(err, s.Cache)
	}
	defer cache.RemoveAll(tmp)
	for n, b := range in {
		p := filepath.Join(tmp, n)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(p, b, 0o644); err != nil {
			return nil, explainFull(err, s.Cache)
		}
	}
	sb, err := scriptSandbox(ctx, s.NoSandbox)
	if err != nil {
		return nil, err
	}
	env := []string{"PATH=" + systemPath, "LC_ALL=C.UTF-8", "HOME=/nonexistent", "PYTHONDONTWRITEBYTECODE=1", "KBUILD_BUILD_USER=patchcheck"}
	res, err := sb.run(ctx, append([]string{dir, tmp}, outside(tool)...), nil, env, proc.Cmd{Argv: append([]string{tool, script, "-none"}, names...), Dir: tmp, Merge: true, MaxOutput: 16 << 20})
	var pe *proc.Error
	if err != nil && !(errors.As(err, &pe) && pe.Exit > 0 && pe.Exit < 126 && pe.Signal == 0 && docSaid(string(res.Stdout))) {
		return nil, &InfraError{What: "the tree's kernel-doc checker does not work", Err: err}
	}
	seen := map[string]bool{}
	for _, line := range strings.Split(string(res.Stdout), "\n") {
		line = strings.ReplaceAll(strings.TrimRight(line, " \r"), tmp+"/", "")
		if line == "" || seen[line] {
			continue
		}
		seen[line] = true
		for _, n := range names {
			if strings.Contains(line, n+":") {
				out[n] = append(out[n], line)
				break
			}
		}
	}
	_, err = s.Cache.Put("kerneldoc", key, func(d string) error {
		b, err := json.MarshalIndent(out, "", " ")
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(d, result), b, 0o644)
	})
	return out, err
}

// docSaid tells a checker that found something, and says so by its exit
// status, from one that broke.
func docSaid(out string) bool {
	return strings.Contains(out, "Warning: ") || strings.Contains(out, "warning: ") || strings.Contains(out, "Error: ") || strings.Contains(out, "error: ")
}
