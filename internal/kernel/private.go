// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"patchcheck/internal/cache"
)

// A series' Makefiles and host programs run while it is built, and can leave
// anything in the object folder: an object, a command file, another fixdep, a
// time in the future. What a series ran in is therefore never built in again
// for anybody else. Before the first code of a series runs, the object folder,
// in which only the tree and companions were built, is copied beside; that
// copy is in no sandbox. It comes back before anything else is built.
//
// The folder in use stays at one path, since commands record it, and states of
// one series follow each other in it, so that each compiles only what differs.

// keptMeta describes the copy.
type keptMeta struct {
	State  wsState `json:"state"`
	Ledger Ledger  `json:"ledger"`
}

const keptName = "kept.json"

func (w *Workspace) keptDir() string { return filepath.Join(w.Dir, "base") }

// Trust tells whose code the next makes run. chain is nil for the tree and its
// companions; for a series it holds the hashes (OverlayHash) of its states up
// to the one that Sync made, in order. It holds until the next Sync; without
// it, what Sync made counts as a series of its own unless it is the tree.
//
// The object folder is brought to a state in which no other code has run.
func (w *Workspace) Trust(ctx context.Context, chain []string) error {
	w.follow()
	if err := w.guard(ctx, chain); err != nil {
		return explainFull(err, w.cache)
	}
	w.trusted = w.state.Synced
	w.trustSet = true
	return nil
}

// guardDefault is Trust for those who did not say.
func (w *Workspace) guardDefault(ctx context.Context) error {
	w.follow()
	if w.trustSet && w.trusted == w.state.Synced {
		return nil
	}
	var chain []string
	if len(w.state.Overlay) > 0 {
		chain = []string{w.state.Synced}
	}
	return w.Trust(ctx, chain)
}

func (w *Workspace) guard(ctx context.Context, chain []string) error {
	if len(chain) == 0 {
		if len(w.state.Ran) > 0 {
			if err := w.bringBack(ctx); err != nil {
				return err
			}
		}
		// The make that follows changes the folder.
		if w.state.Kept {
			w.state.Kept = false
			return w.save()
		}
		return nil
	}
	last := chain[len(chain)-1]
	own := len(w.state.Ran) > 0
	for _, h := range w.state.Ran {
		own = own && slices.Contains(chain, h)
	}
	if own {
		if slices.Contains(w.state.Ran, last) {
			return nil
		}
		w.state.Ran = append(w.state.Ran, last)
		return w.save()
	}
	if len(w.state.Ran) > 0 {
		if err := w.bringBack(ctx); err != nil {
			return err
		}
	}
	if !w.state.Kept {
		if err := w.keep(ctx); err != nil {
			return err
		}
	}
	w.state.Ran = []string{last}
	return w.save()
}

// keep copies the object folder beside.
func (w *Workspace) keep(ctx context.Context) error {
	tmp := w.keptDir() + ".new"
	if err := errors.Join(cache.RemoveAll(tmp), cache.RemoveAll(w.keptDir())); err != nil {
		return err
	}
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return err
	}
	if err := copyObjects(ctx, w.Obj, filepath.Join(tmp, "obj")); err != nil {
		return err
	}
	b, err := json.Marshal(keptMeta{w.state, w.led})
	if err != nil {
		return err
	}
	if err := cache.WriteFile(filepath.Join(tmp, keptName), b, 0o644); err != nil {
		return err
	}
	if err := os.Rename(tmp, w.keptDir()); err != nil {
		return err
	}
	w.state.Kept = true
	return w.save()
}

// bringBack replaces the object folder by the copy. A folder without one goes
// back to empty.
func (w *Workspace) bringBack(ctx context.Context) error {
	if len(w.state.Ran) > 0 {
		w.progress("taking back the objects of the base")
	}
	// All that ran in the folder stays in the journal until it is gone.
	if err := os.Remove(filepath.Join(w.Dir, "ledger.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Nothing of a make may still be writing.
	if err := unix.Flock(int(w.busy.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("cannot lock the workspace: %w", err)
	}
	err := cache.RemoveAll(w.Obj)
	unix.Flock(int(w.busy.Fd()), unix.LOCK_UN)
	if err != nil {
		return err
	}
	var kept keptMeta
	b, err := os.ReadFile(filepath.Join(w.keptDir(), keptName))
	if err == nil {
		err = json.Unmarshal(b, &kept)
	}
	if !w.state.Kept || err != nil || kept.State.Version != wsVersion || kept.State.Lineage != w.state.Lineage {
		if err := cache.RemoveAll(w.keptDir()); err != nil {
			return err
		}
		kept = keptMeta{Ledger: Ledger{}}
		if err := os.MkdirAll(w.Obj, 0o755); err != nil {
			return err
		}
	} else if err := copyObjects(ctx, filepath.Join(w.keptDir(), "obj"), w.Obj); err != nil {
		return err
	} else {
		kept.State.Kept = true
	}
	if err := kept.Ledger.write(filepath.Join(w.Dir, "ledger.json")); err != nil {
		return err
	}
	w.led = kept.Ledger
	// The sources are where they are; the clock only goes forward.
	s := &w.state
	s.Building, s.ConfigFor, s.Kept, s.Ran = false, kept.State.ConfigFor, kept.State.Kept, nil
	if kept.State.TreeID != s.TreeID {
		s.ConfigFor = ""
	}
	return w.save()
}

// grounded tells whether the tree was built here without a series.
func (w *Workspace) grounded() bool {
	dir := w.Obj
	if len(w.state.Ran) > 0 {
		if !w.state.Kept {
			return false
		}
		if _, err := os.Lstat(filepath.Join(w.keptDir(), keptName)); err != nil {
			return false
		}
		dir = filepath.Join(w.keptDir(), "obj")
	}
	_, err := os.Lstat(filepath.Join(dir, ".config"))
	return err == nil
}

// linked tells the files of the last link of a kernel: half of the folder's
// size, and made anew by every build of another state.
func linked(name string, size int64) bool {
	return size > 1<<20 && (strings.HasPrefix(name, "vmlinux") || strings.HasPrefix(name, ".tmp_vmlinux"))
}

// copyObjects copies an object folder, which untrusted code may have written,
// without following a link, times included. Files share no block with the
// original that a write could reach; where the file system can, they are
// cloned.
func copyObjects(ctx context.Context, from, to string) error {
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	type stamp struct {
		path string
		fi   fs.FileInfo
	}
	var folders []stamp
	err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		dest := filepath.Join(to, rel)
		switch {
		case fi.IsDir():
			folders = append(folders, stamp{dest, fi})
			if rel == "." {
				return nil
			}
			return os.Mkdir(dest, fi.Mode().Perm()|0o700)
		case fi.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(target, dest)
		case !fi.Mode().IsRegular() || linked(d.Name(), fi.Size()):
			return nil
		}
		if err := cloneFile(p, dest, fi); err != nil {
			return err
		}
		return os.Chtimes(dest, fi.ModTime(), fi.ModTime())
	})
	if err != nil {
		return err
	}
	for _, f := range slices.Backward(folders) {
		if err := os.Chtimes(f.path, f.fi.ModTime(), f.fi.ModTime()); err != nil {
			return err
		}
	}
	return nil
}

func cloneFile(from, to string, fi fs.FileInfo) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fi.Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	if unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) != nil {
		_, err = io.Copy(out, in)
	}
	return errors.Join(err, out.Close())
}

// chainHash identifies the states of a series that were built before another
// one: what those left in the object folder may be in it.
func chainHash(earlier []string) string {
	if len(earlier) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(earlier, "\n")))
	return hex.EncodeToString(sum[:])
}
