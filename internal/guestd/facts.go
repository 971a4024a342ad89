// SPDX-License-Identifier: Apache-2.0

package guestd

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"patchcheck/internal/guestproto"
)

// toolVersions are the commands that tell a tool's version, by tool.
var toolVersions = map[string][]string{
	"rpc.nfsd":  {"rpc.nfsd", "--version"},
	"mount.nfs": {"mount.nfs", "-V"},
	"rdma":      {"rdma", "-V"},
	"busybox":   {"busybox"},
	"fio":       {"fio", "--version"},
}

// facts serves guestproto.VerbFacts.
func facts(ctx context.Context, _ json.RawMessage, _ func(string)) (any, error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return nil, err
	}
	f := guestproto.Facts{
		Release:  unix.ByteSliceToString(uts.Release[:]),
		Version:  unix.ByteSliceToString(uts.Version[:]),
		CPUs:     runtime.NumCPU(),
		UnixNano: time.Now().UnixNano(),
		Tools:    make(map[string]string),
	}
	if b, err := os.ReadFile("/proc/cmdline"); err == nil {
		f.Cmdline = strings.TrimSpace(string(b))
	}
	f.MemKiB = memTotal("/proc/meminfo")
	f.RootFS = rootType("/proc/mounts")
	for tool, argv := range toolVersions {
		if _, err := exec.LookPath(argv[0]); err != nil {
			continue
		}
		tctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		out, _ := exec.CommandContext(tctx, argv[0], argv[1:]...).CombinedOutput()
		cancel()
		line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		f.Tools[tool] = strings.TrimSpace(line)
	}
	return f, nil
}

func memTotal(path string) int64 {
	fh, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer fh.Close()
	for sc := bufio.NewScanner(fh); sc.Scan(); {
		if rest, ok := strings.CutPrefix(sc.Text(), "MemTotal:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			return n
		}
	}
	return 0
}

// rootType is the type of the file system at /, from a mounts file
// (proc_pid_mounts(5)); the last entry counts, it lies on top.
func rootType(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	kind := ""
	for _, l := range strings.Split(string(b), "\n") {
		if f := strings.Fields(l); len(f) > 2 && f[1] == "/" {
			kind = f[2]
		}
	}
	return kind
}

// poweroff serves guestproto.VerbPoweroff: the answer leaves first.
func poweroff(context.Context, json.RawMessage, func(string)) (any, error) {
	time.AfterFunc(50*time.Millisecond, restart)
	return nil, nil
}
