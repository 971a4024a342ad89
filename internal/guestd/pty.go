// SPDX-License-Identifier: Apache-2.0

package guestd

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// openPTY makes the session's terminal (pts(4)).
func (s *session) openPTY(term string, cols, rows uint32) error {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var n uint32
	err = control(master, func(fd int) error {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		n, err = unix.IoctlGetUint32(fd, unix.TIOCGPTN)
		return err
	})
	if err != nil {
		master.Close()
		return fmt.Errorf("/dev/ptmx: %w", err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		master.Close()
		return err
	}
	setSize(master, cols, rows)
	s.mu.Lock()
	s.pty, s.tty = master, tty
	s.mu.Unlock()
	s.env = append(s.env, "TERM="+term)
	return nil
}

func setSize(f *os.File, cols, rows uint32) {
	control(f, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(cols), Row: uint16(rows)})
	})
}

// control runs fn on the descriptor without taking the file out of the
// poller, as Fd would.
func control(f *os.File, fn func(fd int) error) error {
	rc, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	if err := rc.Control(func(fd uintptr) { ferr = fn(int(fd)) }); err != nil {
		return err
	}
	return ferr
}

// terminal runs cmd on the session's terminal.
func (s *session) terminal(cmd *exec.Cmd, master, tty *os.File) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	err := s.start(cmd)
	tty.Close()
	if err != nil {
		fmt.Fprintf(s.ch, "patchcheck: %v\r\n", err)
		s.exitStatus(127)
		master.Close()
		return
	}
	go io.Copy(master, s.ch)
	copied := make(chan struct{})
	go func() {
		// Ends with EIO once the last user of the terminal is gone.
		io.Copy(s.ch, master)
		close(copied)
	}()
	err = cmd.Wait()
	select {
	case <-copied:
	case <-time.After(time.Second): // something in the background keeps it
	}
	s.mu.Lock()
	s.pty = nil
	s.mu.Unlock()
	master.Close()
	s.finish(err, cmd)
}
