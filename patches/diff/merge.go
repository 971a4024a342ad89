// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"patchcheck/internal/proc"
)

// threeway merges a file that the hunks do not fit: from the blob that the
// diff was made against, the tree's file and the patched blob. It fills in
// fr.ThreeWay and, when the merge has no conflict, out.
func (a *applier) threeway(f *File, fr *FileResult, ours []byte, out *outcome) bool {
	fr.ThreeWay = "no blob"
	if f.OldOID == "" || nullOID(f.OldOID) {
		return false
	}
	base, err := a.opts.Blob(f.OldOID)
	if err != nil || !oidMatches(f.OldOID, base) {
		return false
	}
	lo := newLocator(base, splitLines(base), true, a.budget)
	lo.byGit = true
	for i := range f.Hunks {
		if pl := lo.put(&f.Hunks[i], newPattern(&f.Hunks[i], false)); !pl.ok || pl.offset != 0 {
			fr.ThreeWay = "conflict"
			fr.Notes = append(fr.Notes, "the diff does not fit the blob of its own index line: it was edited by hand")
			return false
		}
	}
	theirs, err := lo.result()
	if err != nil {
		fr.Notes = append(fr.Notes, err.Error())
		return false
	}
	ctx := a.opts.Context
	if ctx == nil {
		ctx = context.Background()
	}
	merged, conflicts, err := mergeFile(ctx, ours, base, theirs)
	switch {
	case err != nil:
		fr.Notes = append(fr.Notes, "three-way merge: "+err.Error())
		return false
	case conflicts > 0:
		fr.ThreeWay = "conflict"
		fr.Notes = append(fr.Notes, fmt.Sprintf("three-way merge: %d %s", conflicts, plural(conflicts, "conflict")))
		return false
	}
	fr.ThreeWay = "clean"
	out.content = merged
	return true
}

// mergeFile is git merge-file, which git am -3 uses too, on contents. It runs
// in an empty folder of its own, away from every repository.
func mergeFile(ctx context.Context, ours, base, theirs []byte) (merged []byte, conflicts int, err error) {
	dir, err := os.MkdirTemp("", "patchcheck-merge-")
	if err != nil {
		return nil, 0, err
	}
	defer os.RemoveAll(dir)
	for name, b := range map[string][]byte{"tree": ours, "base": base, "patch": theirs} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return nil, 0, err
		}
	}
	res, err := proc.Run(ctx, proc.Cmd{
		Argv: []string{"git", "merge-file", "-p", "tree", "base", "patch"},
		Dir:  dir,
		Env:  append(gitEnv(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_DIR="+filepath.Join(dir, "none")),
	})
	var pe *proc.Error
	switch {
	case err == nil:
		return bytes.Clone(res.Stdout), 0, nil
	case errors.As(err, &pe) && pe.Signal == 0 && res.Exit > 0 && res.Exit <= 127:
		return bytes.Clone(res.Stdout), res.Exit, nil
	}
	return nil, 0, err
}
