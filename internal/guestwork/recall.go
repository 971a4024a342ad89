// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"patchcheck/internal/guestproto"
)

// recall serves VerbRecall: for each file the server's own file system makes
// it, the client opens and reads it, and the server writes to it while the
// client still has it open. A client that holds a delegation must give it back
// first, as CB_RECALL on the backchannel tells it, and must then read what the
// server wrote.
func (w *work) recall(ctx context.Context, r *guestproto.Recall, log func(string)) (*guestproto.RecallResult, error) {
	switch {
	case !filepath.IsAbs(r.Dir) || !filepath.IsAbs(r.Export):
		return nil, usagef("the folders %q and %q are not both absolute", r.Dir, r.Export)
	case r.Count < 1 || r.Count > 1000:
		return nil, usagef("%d files are not between 1 and 1000", r.Count)
	}
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return nil, ioError(err, pathOnNFS(r.Dir), "cannot make the folder %s", r.Dir)
	}
	// Granted for as long as this takes: see NFSStart.Delegations.
	leases := w.path("/proc/sys/fs/leases-enable")
	was, err := os.ReadFile(leases)
	if err == nil {
		err = writeOnce(leases, "1\n")
	}
	if err != nil {
		return nil, withErrno(setupf("the guest's kernel needs CONFIG_FILE_LOCKING", "cannot switch delegations on"), err)
	}
	defer func() {
		if err := writeOnce(leases, string(was)); err != nil {
			log(fmt.Sprintf("delegations stay switched on: %v", plain(err)))
		}
	}()
	res := &guestproto.RecallResult{}
	for i := range r.Count {
		if err := ctx.Err(); err != nil {
			return res, err
		}
		if err := w.recallOne(r, fmt.Sprintf("recall%03d", i), res); err != nil {
			return res, err
		}
		res.Count++
	}
	return res, nil
}

func (w *work) recallOne(r *guestproto.Recall, name string, res *guestproto.RecallResult) error {
	onServer, path := filepath.Join(r.Export, name), filepath.Join(r.Dir, name)
	// The server's file, not one that the client wrote: nfsd keeps a file that
	// was open for writing for some seconds, and gives no delegation meanwhile.
	before, after := "before "+name, "written on the server after "+name
	if err := os.WriteFile(onServer, []byte(before), 0o644); err != nil {
		return ioError(err, false, "cannot write %s on the server's file system", onServer)
	}
	f, err := os.Open(path)
	if err != nil {
		return ioError(err, true, "cannot open %s", path)
	}
	defer f.Close()
	if err := reads(f, path, before); err != nil {
		return err
	}
	held, err := w.delegated(name)
	if err != nil {
		return err
	}
	if held {
		res.Delegated++
	}
	// The open of the server waits until the delegation is back, and if nobody
	// answers until nfsd takes it away after its lease time.
	start := time.Now()
	err = os.WriteFile(onServer, []byte(after), 0o644)
	res.SlowestUS = max(res.SlowestUS, time.Since(start).Microseconds())
	if err != nil {
		return ioError(err, false, "cannot write %s on the server's file system while the client has it open", onServer)
	}
	if err := f.Close(); err != nil {
		return ioError(err, true, "cannot close %s", path)
	}
	again, err := os.Open(path)
	if err != nil {
		return ioError(err, true, "cannot open %s again", path)
	}
	defer again.Close()
	return reads(again, path, after)
}

// reads compares a file of the mount with what it must hold.
func reads(f *os.File, path, want string) error {
	b, err := io.ReadAll(f)
	if err != nil {
		return ioError(err, true, "cannot read %s", path)
	}
	if string(b) != want {
		return &guestproto.Error{Class: guestproto.ClassData, Message: fmt.Sprintf("%s holds %.60q, not %q", path, b, want)}
	}
	return nil
}

// delegated looks among the states of nfsd's clients for a delegation of the
// file (fs/nfsd/nfs4state.c, nfs4_show_deleg).
func (w *work) delegated(name string) (bool, error) {
	files, err := filepath.Glob(w.path("/proc/fs/nfsd/clients") + "/*/states")
	if err != nil || len(files) == 0 {
		return false, setupf("does this kernel have NFSv4 (CONFIG_NFSD_V4)?", "nfsd lists no NFSv4 client in /proc/fs/nfsd/clients")
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a client that just went
		}
		if err != nil {
			return false, setupf("", "cannot read the states of an NFSv4 client: %v", err)
		}
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, "type: deleg") && strings.Contains(line, name+`"`) {
				return true, nil
			}
		}
	}
	return false, nil
}
