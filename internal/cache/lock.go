// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrBusy is a lock that another process holds.
var ErrBusy = errors.New("in use by another patchcheck")

// Lock is an advisory lock (flock(2)). The kernel drops it when its holder
// dies, whatever way that happens, so no lock is ever left over.
type Lock struct{ f *os.File }

// Close gives the lock up.
func (l *Lock) Close() error {
	if l == nil || l.f == nil {
		return nil
	}
	f := l.f
	l.f = nil
	return f.Close()
}

// Lock takes the lock of that name, waiting for it as long as ctx allows.
// waiting, when not nil, is called once with what is known of the holder
// before the wait begins.
func (c *Cache) Lock(ctx context.Context, name string, waiting func(holder string)) (*Lock, error) {
	return LockFile(ctx, c.Path("locks", strings.ReplaceAll(name, "/", "_")+".lock"), waiting)
}

// TryLock is Lock without the wait: ErrBusy when another process holds it.
func (c *Cache) TryLock(name string) (*Lock, error) {
	return TryLockFile(c.Path("locks", strings.ReplaceAll(name, "/", "_")+".lock"))
}

// TryLockFile is LockFile without the wait: an error that matches ErrBusy, and
// names the holder, when another process holds it.
func TryLockFile(path string) (*Lock, error) {
	f, err := openLock(path)
	if err != nil {
		return nil, err
	}
	if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		b := make([]byte, 64)
		n, _ := f.ReadAt(b, 0)
		f.Close()
		return nil, fmt.Errorf("%w: %s", err, holder(string(b[:n])))
	}
	f.Truncate(0)
	f.WriteAt(fmt.Appendf(nil, "%d %d\n", os.Getpid(), time.Now().Unix()), 0)
	return &Lock{f}, nil
}

// Held says whether a process holds the lock on the file path.
func Held(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(flock(f, unix.LOCK_SH|unix.LOCK_NB), ErrBusy)
}

// LockFile takes a lock on the file path, which is made if absent.
func LockFile(ctx context.Context, path string, waiting func(holder string)) (*Lock, error) {
	f, err := openLock(path)
	if err != nil {
		return nil, err
	}
	told := false
	// flock has no wait that can be cancelled; the holder works for minutes, so
	// a look five times a second costs nothing that matters.
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := flock(f, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			f.Truncate(0)
			f.WriteAt(fmt.Appendf(nil, "%d %d\n", os.Getpid(), time.Now().Unix()), 0)
			return &Lock{f}, nil
		}
		if !errors.Is(err, ErrBusy) {
			f.Close()
			return nil, fmt.Errorf("cannot lock %s: %w", path, err)
		}
		if !told && waiting != nil {
			told = true
			b := make([]byte, 64)
			n, _ := f.ReadAt(b, 0)
			waiting(holder(string(b[:n])))
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("waiting for the lock %s: %w", path, ctx.Err())
		case <-tick.C:
		}
	}
}

// holder words what a lock file says: process id and Unix time of the taking.
func holder(s string) string {
	f := strings.Fields(s)
	if len(f) == 0 {
		return "another patchcheck"
	}
	out := "patchcheck with process id " + f[0]
	if len(f) > 1 {
		if sec, err := strconv.ParseInt(f[1], 10, 64); err == nil {
			since := time.Unix(sec, 0)
			layout := "15:04:05"
			if time.Since(since).Abs() > 12*time.Hour {
				layout = "2006-01-02 15:04"
			}
			out += " (since " + since.Format(layout) + ")"
		}
	}
	return out
}

func openLock(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, explain(fmt.Errorf("cannot lock: %w", err), filepath.Dir(path))
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, explain(fmt.Errorf("cannot lock: %w", err), filepath.Dir(path))
	}
	return f, nil
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrBusy
		}
		return err
	}
}

// lockDir locks a folder itself.
func lockDir(dir string, how int) (*Lock, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := flock(f, how); err != nil {
		f.Close()
		return nil, err
	}
	return &Lock{f}, nil
}
