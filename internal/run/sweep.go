// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"

	"patchcheck/internal/cache"
	"patchcheck/internal/runfolder"
	"patchcheck/vm"
)

// tempPrefix begins the names of the folders that hold all temporary files of
// a running patchcheck and of what it starts.
const tempPrefix = "pc-run-"

// ownTemp is shared by the runs of one process.
var ownTemp struct {
	sync.Mutex
	users int
	dir   string
	held  *cache.Lock
	old   string
	had   bool
}

// enter prepares the process for a run: what dead ones left is swept up, and
// temporary files go to a folder of our own that the next run removes should
// this one be killed. leave undoes it.
func (r *runner) enter() (leave func(), err error) {
	// A limit on file sizes (ulimit -f) is to be an error of the write, not the
	// end of the process. Programs that are started do not inherit this.
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, unix.SIGXFSZ)
	ownTemp.Lock()
	defer ownTemp.Unlock()
	if ownTemp.users == 0 {
		ownTemp.old, ownTemp.had = os.LookupEnv("TMPDIR")
		cache.SweepTemp(os.TempDir(), tempPrefix)
		vm.Sweep()
		dir, held, err := cache.TempDir("", tempPrefix)
		if err != nil {
			signal.Stop(sig)
			return nil, &vm.InfraError{What: fmt.Sprintf("cannot make a folder for temporary files (%s)", cache.Free(os.TempDir())), Err: err}
		}
		ownTemp.dir, ownTemp.held = dir, held
		os.Setenv("TMPDIR", dir)
	}
	ownTemp.users++
	if r.o.RunsDir != "" {
		runfolder.Sweep(r.o.RunsDir)
	}
	return func() {
		signal.Stop(sig)
		ownTemp.Lock()
		defer ownTemp.Unlock()
		if ownTemp.users--; ownTemp.users > 0 {
			return
		}
		if os.Getenv("TMPDIR") == ownTemp.dir {
			if os.Unsetenv("TMPDIR"); ownTemp.had {
				os.Setenv("TMPDIR", ownTemp.old)
			}
		}
		cache.RemoveAll(ownTemp.dir)
		ownTemp.held.Close()
	}, nil
}
