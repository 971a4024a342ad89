// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"patchcheck/internal/guestproto"
)

// dmesg serves VerbDmesg: the whole kernel log, one line per message as
// dmesg(1) shows it, whatever the console's level was.
func (w *work) dmesg(ctx context.Context, _ *struct{}, log func(string)) (*guestproto.Dmesg, error) {
	s, err := w.readDmesg()
	if err != nil {
		return nil, withErrno(setupf("the kernel needs CONFIG_PRINTK", "cannot read the kernel log"), err)
	}
	return &guestproto.Dmesg{Text: s}, nil
}

func (w *work) readDmesg() (string, error) {
	size, err := unix.Klogctl(unix.SYSLOG_ACTION_SIZE_BUFFER, nil)
	if err != nil {
		return "", err
	}
	buf := make([]byte, size+4096)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, buf)
	if err != nil {
		return "", err
	}
	return stripLevels(string(buf[:n])), nil
}

// stripLevels takes the "<6>" off each line.
func stripLevels(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for line := range strings.Lines(s) {
		if rest, ok := strings.CutPrefix(line, "<"); ok {
			if level, text, ok := strings.Cut(rest, ">"); ok && len(level) <= 3 {
				if _, err := strconv.Atoi(level); err == nil {
					line = text
				}
			}
		}
		b.WriteString(line)
	}
	return b.String()
}

// mark serves VerbMark. The kernel log then tells which step a message
// belongs to.
func (w *work) mark(ctx context.Context, r *guestproto.Mark, log func(string)) (any, error) {
	text := strings.TrimPrefix(strings.Join(strings.Fields(r.Text), " "), "patchcheck: ")
	if len(text) > 900 { // a record of /dev/kmsg holds about 1000 bytes
		text = text[:900]
	}
	if err := writeOnce(w.path("/dev/kmsg"), "<6>patchcheck: "+text+"\n"); err != nil {
		return nil, withErrno(setupf("the kernel needs CONFIG_PRINTK and a mounted /dev", "cannot write to /dev/kmsg"), err)
	}
	return nil, nil
}

// sysrq serves VerbSysrq (kernel Documentation/admin-guide/sysrq.rst).
func (w *work) sysrq(ctx context.Context, r *guestproto.Sysrq, log func(string)) (any, error) {
	for _, k := range r.Keys {
		if !(k >= 'a' && k <= 'z' || k >= '0' && k <= '9') {
			return nil, usagef("%q is no sysrq key", k)
		}
	}
	for _, k := range r.Keys {
		if err := writeOnce(w.path("/proc/sysrq-trigger"), string(k)); err != nil {
			return nil, withErrno(setupf("the kernel needs CONFIG_MAGIC_SYSRQ", "cannot trigger sysrq %c", k), err)
		}
	}
	return nil, nil
}

// stacks serves VerbStacks.
func (w *work) stacks(ctx context.Context, r *guestproto.Stacks, log func(string)) (*guestproto.StacksResult, error) {
	states := r.States
	if states == "" {
		states = "D"
	}
	dirs, _ := filepath.Glob(w.path("/proc/[0-9]*/task/[0-9]*"))
	res := &guestproto.StacksResult{}
	for _, d := range dirs {
		b, err := os.ReadFile(filepath.Join(d, "stat"))
		if err != nil {
			continue // it ended
		}
		comm, state, ok := parseStat(string(b))
		if !ok || !strings.Contains(states, state) {
			continue
		}
		id, _ := strconv.Atoi(filepath.Base(d))
		stack, _ := os.ReadFile(filepath.Join(d, "stack"))
		res.Tasks = append(res.Tasks, guestproto.TaskStack{ID: id, Comm: comm, State: state, Stack: strings.TrimRight(string(stack), "\n")})
	}
	slices.SortFunc(res.Tasks, func(a, b guestproto.TaskStack) int { return a.ID - b.ID })
	return res, nil
}

// parseStat gives name and state of /proc/PID/stat. The name is in
// parentheses and may hold any character.
func parseStat(s string) (comm, state string, ok bool) {
	i, j := strings.IndexByte(s, '('), strings.LastIndexByte(s, ')')
	if i < 0 || j < i {
		return "", "", false
	}
	f := strings.Fields(s[j+1:])
	if len(f) == 0 {
		return "", "", false
	}
	return s[i+1 : j], f[0], true
}
