// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// pidGroup makes a control group that bounds the number of processes, for
// root, to whom the kernel does not apply RLIMIT_NPROC. It returns the words
// that start a program in it, and what removes it. Both are empty for others,
// and where control groups cannot be made, as in most containers; watch bounds
// processes there too, if later. hit tells whether a process was refused.
//
// (kernel Documentation/admin-guide/cgroup-v1/pids.rst and cgroup-v2.rst)
func pidGroup(most int) (start []string, hit func() bool, remove func()) {
	hit, remove = func() bool { return false }, func() {}
	if os.Geteuid() != 0 {
		return nil, hit, remove
	}
	for _, root := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup"} {
		// What killed runs left is empty, and goes; that of a living one may be
		// empty as well, just before it is used.
		old, _ := filepath.Glob(filepath.Join(root, "patchcheck-*"))
		for _, d := range old {
			pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(d), "patchcheck-"), "-")
			if _, err := os.Stat("/proc/" + pid); err != nil {
				os.Remove(d)
			}
		}
		dir := filepath.Join(root, fmt.Sprintf("patchcheck-%d-%d", os.Getpid(), pidGroups.Add(1)))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		// Without the controller there is no such file.
		f, err := os.OpenFile(filepath.Join(dir, "pids.max"), os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString(strconv.Itoa(most))
			f.Close()
		}
		if err != nil {
			os.Remove(dir)
			continue
		}
		return []string{"/bin/sh", "-c", `(echo $$ > "$0") 2>/dev/null; exec "$@"`, filepath.Join(dir, "cgroup.procs")}, func() bool {
				b, err := os.ReadFile(filepath.Join(dir, "pids.events"))
				refused, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "max ")
				return err == nil && ok && refused != "0"
			}, func() {
				for range 50 { // its last processes are being reaped
					if os.Remove(dir) == nil {
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			}
	}
	return nil, hit, remove
}

var pidGroups atomic.Int64
