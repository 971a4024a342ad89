// SPDX-License-Identifier: Apache-2.0

package nightly

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// holder is what a lock file says of who holds it.
type holder struct {
	PID    int       `json:"pid"`
	Since  time.Time `json:"since"`
	Config string    `json:"config"`
}

// BusyError is a nightly job that another process is running already.
type BusyError struct {
	File string
	Who  holder
}

func (e *BusyError) Error() string {
	if e.Who.PID == 0 {
		return fmt.Sprintf("another nightly run is going on (it holds %s)", e.File)
	}
	return fmt.Sprintf("another nightly run is going on: process %d, since %s, with %s", e.Who.PID, e.Who.Since.Local().Format("2006-01-02 15:04"), e.Who.Config)
}

// lock keeps a second nightly run with the same history out. The kernel drops
// the lock when its holder dies, whatever way.
func lock(file, config string, now time.Time) (io.Closer, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, fmt.Errorf("cannot lock: %w", err)
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		defer f.Close()
		e := &BusyError{File: file}
		json.NewDecoder(f).Decode(&e.Who) // what cannot be read is not told
		return nil, e
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot lock %s: %w", file, err)
	}
	b, err := json.Marshal(holder{os.Getpid(), now, config})
	if err == nil {
		err = errors.Join(f.Truncate(0), func() error { _, err := f.WriteAt(append(b, '\n'), 0); return err }())
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot lock %s: %w", file, err)
	}
	return f, nil
}
