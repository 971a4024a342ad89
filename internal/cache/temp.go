// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// newPrefix begins the names of files that WriteFile is writing.
const newPrefix = ".new-"

// TempDir makes a folder below parent that is held by a lock for as long as
// this process lives and the lock is not closed. Sweep and SweepTemp of other
// processes remove it afterwards.
func TempDir(parent, prefix string) (string, *Lock, error) {
	for try := 0; ; try++ {
		dir, err := os.MkdirTemp(parent, prefix)
		if err != nil {
			return "", nil, err
		}
		held, err := lockDir(dir, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			// A sweep may have got hold of it before the lock was taken.
			if _, err = os.Lstat(dir); err == nil {
				return dir, held, nil
			}
			held.Close()
		}
		if try == 10 {
			return "", nil, err
		}
	}
}

// SweepTemp removes the folders of that name prefix below parent which this
// user owns and no living process holds.
func SweepTemp(parent, prefix string) {
	left, _ := filepath.Glob(filepath.Join(parent, prefix+"*"))
	for _, p := range left {
		fi, err := os.Lstat(p)
		if err != nil || !fi.IsDir() {
			continue
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Getuid() {
			continue
		}
		sweepDir(p)
	}
}

func sweepDir(p string) {
	l, err := lockDir(p, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return
	}
	defer l.Close()
	RemoveAll(p)
}

// Sweep removes what killed processes left in the cache: temporary folders and
// files that no living process holds, and the folders of image builders when
// none is at work.
func (c *Cache) Sweep() {
	left, _ := filepath.Glob(c.Path("*", tmpPrefix+"*"))
	for _, p := range left {
		sweepDir(p)
	}
	for _, pattern := range []string{c.Path(newPrefix + "*"), c.Path("*", newPrefix+"*"), c.Path("*", "*", newPrefix+"*")} {
		files, _ := filepath.Glob(pattern)
		for _, p := range files {
			SweepFile(p)
		}
	}
	c.sweepImages()
}

// SweepFile removes a file of WriteFile whose writer is dead.
func SweepFile(p string) {
	f, err := os.OpenFile(p, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return
	}
	if flock(f, unix.LOCK_EX|unix.LOCK_NB) == nil {
		os.Remove(p)
	}
}

// sweepImages removes tmp/image-*: builders of images work there under locks
// of theirs ("image-NAME").
func (c *Cache) sweepImages() {
	left, _ := filepath.Glob(c.Path("tmp", "image-*"))
	if len(left) == 0 {
		return
	}
	names, _ := filepath.Glob(c.Path("locks", "image-*.lock"))
	for _, n := range names {
		l, err := c.TryLock(strings.TrimSuffix(filepath.Base(n), ".lock"))
		if err != nil {
			return
		}
		defer l.Close()
	}
	for _, p := range left {
		// A builder of a new kind may have begun after the locks were listed.
		if fi, err := os.Lstat(p); err == nil && !recent(fi.ModTime()) {
			RemoveAll(p)
		}
	}
}

// recent says that t is less than a minute ago. A time in the future is not:
// the clock was set back since.
func recent(t time.Time) bool {
	age := time.Since(t)
	return age >= 0 && age < time.Minute
}

// WriteFile replaces path by data: temporary name, sync, rename. The temporary
// file is locked while it is written, so that a sweep can tell it from one that
// a killed process left.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	for try := 0; ; try++ {
		err := writeFile(path, data, mode)
		if !errors.Is(err, errSwept) || try == 10 {
			return explain(err, filepath.Dir(path))
		}
	}
}

// errSwept: a sweep removed the file before its lock was taken.
var errSwept = errors.New("the temporary file was removed")

func writeFile(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), newPrefix+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err != nil && !errors.Is(err, unix.ENOTSUP) && !errors.Is(err, unix.ENOLCK) {
		return errSwept
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	err = os.Rename(f.Name(), path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, serr := os.Lstat(filepath.Dir(path)); serr == nil {
			return errSwept
		}
	}
	return err
}

// FullError is a full disk, a quota used up or a limit on file sizes.
type FullError struct {
	Path string
	Err  error
}

func (e *FullError) Error() string {
	switch {
	case errors.Is(e.Err, unix.EFBIG):
		return fmt.Sprintf("a file in %s is larger than this process may write; raise the limit (ulimit -f)", e.Path)
	case errors.Is(e.Err, unix.EDQUOT):
		return fmt.Sprintf("the disk quota is used up for %s; free some, or run `patchcheck gc`, or set PATCHCHECK_CACHE to a folder elsewhere", e.Path)
	}
	return fmt.Sprintf("no space left for the cache in %s (%s); free some, or run `patchcheck gc`, or set PATCHCHECK_CACHE to a folder elsewhere", e.Path, Free(e.Path))
}

func (e *FullError) Unwrap() error { return e.Err }

// ReadOnlyError is a cache that this user cannot write to.
type ReadOnlyError struct {
	Path string
	Err  error
}

func (e *ReadOnlyError) Error() string {
	return fmt.Sprintf("%s cannot be written (%v): what is in it can be used, nothing can be added; set PATCHCHECK_CACHE to a folder that can", e.Path, e.Err)
}

func (e *ReadOnlyError) Unwrap() error { return e.Err }

// ReadOnly says that an error comes from a place that cannot be written to.
func ReadOnly(err error) bool {
	return errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrPermission)
}

// explain gives errors of a full or read-only place their words.
func explain(err error, path string) error {
	var full *FullError
	var ro *ReadOnlyError
	switch {
	case err == nil || errors.As(err, &full) || errors.As(err, &ro):
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		return &FullError{path, err}
	case ReadOnly(err):
		return &ReadOnlyError{path, err}
	}
	return err
}
