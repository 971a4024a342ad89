// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// guardScript is a shell that remembers process groups, one line for each that
// begins ("+ N") or ends ("- N"), and kills what is left when its input ends:
// then patchcheck is gone, whatever way it went. What was started and not told
// of yet is known by its environment, $1. The signals of a terminal do not
// concern it.
const guardScript = `trap '' INT TERM HUP QUIT
l=' '
while read -r op g; do
	case $op in
	+) l="$l$g " ;;
	-) case $l in *" $g "*) l="${l%%" $g "*} ${l#*" $g "}" ;; esac ;;
	esac
done
for g in $l; do kill -KILL "-$g" 2>/dev/null; done
for i in 1 2 3 4 5 6 7 8; do
	ps=$(grep -laF -e "$1" /proc/[0-9]*/environ 2>/dev/null)
	[ -n "$ps" ] || exit 0
	for p in $ps; do p=${p#/proc/} && kill -KILL "${p%/environ}" 2>/dev/null; done
done
exit 0`

// mark is in the environment of all that this process starts, and of what they
// start.
var mark = "PATCHCHECK_GUARD=" + rand.Text()

var guard struct {
	sync.Mutex
	in  io.WriteCloser
	off bool // it cannot be started on this host
}

// Guard has the process group pgid killed when this process ends without
// having called release, also by SIGKILL. The kernel's death signal reaches
// only the one program that was started; a make whose compilers outlive it, or
// git's helpers, need this. release must be called before the group's leader
// is waited for, as its number may belong to somebody else from then on.
//
// Between the start of a program and its Guard, its death signal and the mark in
// the environment of what Run starts hold.
func Guard(pgid int) (release func()) {
	if tell("+ "+strconv.Itoa(pgid)) != nil {
		return func() {}
	}
	return func() { tell("- " + strconv.Itoa(pgid)) }
}

// awake has the guard run before there is anything to guard.
func awake() { tell("") }

func tell(line string) error {
	guard.Lock()
	defer guard.Unlock()
	if guard.off {
		return errors.New("no guard")
	}
	for range 2 {
		if guard.in == nil {
			if err := startGuard(); err != nil {
				guard.off = true
				return err
			}
		}
		_, err := io.WriteString(guard.in, line+"\n")
		if err == nil {
			return nil
		}
		// Somebody killed it; what it knew is lost, what comes is not.
		guard.in.Close()
		guard.in = nil
	}
	guard.off = true
	return errors.New("the guard does not stay alive")
}

// startGuard needs guard's lock. The shell gets a session of its own, so that
// whoever kills ours as a whole leaves it to do its work.
func startGuard() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := exec.Command("/bin/sh", "-c", guardScript, "sh", mark)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin"}
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		w.Close()
		return err
	}
	go cmd.Wait()
	guard.in = w
	return nil
}

// AwaitExit waits for a child to end without reaping it: its number stays its
// own until it has been waited for.
func AwaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// setOOMScore raises a program's score, and that of what it will start. It
// needs no privilege; where it fails all the same, that is no reason not to run.
func setOOMScore(pid, score int) {
	os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(strconv.Itoa(score)), 0)
}
