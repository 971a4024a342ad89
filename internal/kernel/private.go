// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/gob"
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
	"syscall"
	"time"

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
	index := w.objectIndex()
	// Without its mark a half-made copy is none.
	if err := errors.Join(w.forget(), os.MkdirAll(w.keptDir(), 0o755)); err != nil {
		return err
	}
	copied := filepath.Join(w.keptDir(), "obj")
	err := mirror(ctx, w.Obj, copied, func(rel string, fi fs.FileInfo) bool {
		_, err := os.Lstat(filepath.Join(copied, rel))
		return err == nil && index.unchanged(rel, fi)
	})
	if err != nil {
		return err
	}
	b, err := json.Marshal(keptMeta{w.state, w.led})
	if err != nil {
		return err
	}
	if err := cache.WriteFile(filepath.Join(w.keptDir(), keptName), b, 0o644); err != nil {
		return err
	}
	w.state.Kept = true
	return errors.Join(w.saveIndex(), w.save())
}

// forget drops what says that the copy and the folder belong together.
func (w *Workspace) forget() error {
	for _, p := range []string{w.indexPath(), filepath.Join(w.keptDir(), keptName)} {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// bringBack makes the object folder the copy again. A folder without one goes
// back to empty.
func (w *Workspace) bringBack(ctx context.Context) error {
	w.progress("taking back the objects of the base")
	// All that ran in the folder stays in the journal until it is gone.
	if err := os.Remove(filepath.Join(w.Dir, "ledger.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Nothing of a make may still be writing.
	if err := unix.Flock(int(w.busy.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("cannot lock the workspace: %w", err)
	}
	defer unix.Flock(int(w.busy.Fd()), unix.LOCK_UN)
	var kept keptMeta
	b, err := os.ReadFile(filepath.Join(w.keptDir(), keptName))
	if err == nil {
		err = json.Unmarshal(b, &kept)
	}
	if !w.state.Kept || err != nil || kept.State.Version != wsVersion || kept.State.Lineage != w.state.Lineage {
		if err := errors.Join(w.forget(), cache.RemoveAll(w.keptDir()), cache.RemoveAll(w.Obj)); err != nil {
			return err
		}
		kept = keptMeta{Ledger: Ledger{}}
		if err := os.MkdirAll(w.Obj, 0o755); err != nil {
			return err
		}
	} else {
		index := w.objectIndex()
		if err := os.Remove(w.indexPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		err := mirror(ctx, filepath.Join(w.keptDir(), "obj"), w.Obj, func(rel string, _ fs.FileInfo) bool {
			fi, err := os.Lstat(filepath.Join(w.Obj, rel))
			return err == nil && index.unchanged(rel, fi)
		})
		if err != nil {
			return err
		}
		if err := w.saveIndex(); err != nil {
			return err
		}
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

// objectIndex tells by path how the files of the object folder were when they
// were the same as those of the copy.
//
// A file whose inode and times are still those was not written to since: the
// kernel sets the time of change at every write, and no call sets it back
// (inode(7)). That saves copying thousands of files for the few that a series
// compiles.
type objectIndex map[string]fileMark

type fileMark struct {
	Dev, Ino     uint64
	Size         int64
	Mode         uint32
	Mtime, Ctime int64 // nanoseconds
}

func markOf(fi fs.FileInfo) (fileMark, bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || !fi.Mode().IsRegular() {
		return fileMark{}, false
	}
	return fileMark{uint64(st.Dev), st.Ino, st.Size, uint32(st.Mode), st.Mtim.Nano(), st.Ctim.Nano()}, true
}

func (x objectIndex) unchanged(rel string, fi fs.FileInfo) bool {
	m, ok := markOf(fi)
	return ok && x[rel] == m
}

func (w *Workspace) indexPath() string { return filepath.Join(w.Dir, "obj.index") }

// objectIndex reads the index; it is empty where none can be relied on.
func (w *Workspace) objectIndex() objectIndex {
	x := objectIndex{}
	b, err := os.ReadFile(w.indexPath())
	if err != nil || gob.NewDecoder(bytes.NewReader(b)).Decode(&x) != nil || !marksWrites(w.Obj) {
		return nil
	}
	return x
}

// marksWrites tells file systems that note the time of a write through a
// mapping too, which tmpfs and some network file systems do not.
func marksWrites(dir string) bool {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC:
		return true
	}
	return false
}

// saveIndex notes the object folder, which is that of the copy now.
func (w *Workspace) saveIndex() error {
	x := objectIndex{}
	err := filepath.WalkDir(w.Obj, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(w.Obj, p)
		if m, ok := markOf(fi); ok {
			x[rel] = m
		}
		return err
	})
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(x); err != nil {
		return err
	}
	if err := cache.WriteFile(w.indexPath(), b.Bytes(), 0o644); err != nil {
		return err
	}
	// The kernel counts these times in ticks of up to 10 ms: what is written
	// from here on gets another one.
	time.Sleep(20 * time.Millisecond)
	return nil
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

// mirror makes the folder to the same as from, times included, but for the
// files of a link. Files for which same says so are taken to be equal already.
// Untrusted code may have written in either folder, so no link is followed.
// The files share no block that a write could reach; where the file system
// can, they are cloned.
func mirror(ctx context.Context, from, to string, same func(rel string, fi fs.FileInfo) bool) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	// What is there: a folder may be closed, and is opened for us first.
	want := map[string]fs.FileInfo{}
	var paths []string
	err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		if t := fi.Mode().Type(); t != 0 && t != fs.ModeDir && t != fs.ModeSymlink || t == 0 && linked(d.Name(), fi.Size()) {
			return nil
		}
		want[rel] = fi
		paths = append(paths, rel)
		return nil
	})
	if err != nil {
		return err
	}
	var gone []string
	var clear func(rel string) error
	clear = func(rel string) error {
		dir := filepath.Join(to, rel)
		if err := os.Chmod(dir, want[rel].Mode().Perm()|0o700); err != nil {
			return err
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			sub := filepath.Join(rel, e.Name())
			fi, known := want[sub]
			if !known || fi.Mode().Type() != e.Type() {
				gone = append(gone, sub)
			} else if e.IsDir() {
				if err := clear(sub); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := clear("."); err != nil {
		return err
	}
	for _, rel := range gone {
		if err := cache.RemoveAll(filepath.Join(to, rel)); err != nil {
			return err
		}
	}
	for _, rel := range paths {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		fi, src, dest := want[rel], filepath.Join(from, rel), filepath.Join(to, rel)
		switch {
		case fi.IsDir():
			if err := os.MkdirAll(dest, fi.Mode().Perm()|0o700); err != nil {
				return err
			}
			continue
		case fi.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(src)
			if err != nil {
				return err
			}
			if have, err := os.Readlink(dest); err == nil && have == target {
				continue
			}
			if err := errors.Join(cache.RemoveAll(dest), os.Symlink(target, dest)); err != nil {
				return err
			}
			continue
		case same(rel, fi):
			continue
		}
		if err := cache.RemoveAll(dest); err != nil {
			return err
		}
		if err := cloneFile(src, dest, fi); err != nil {
			return err
		}
		if err := os.Chtimes(dest, fi.ModTime(), fi.ModTime()); err != nil {
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
