// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// pty is a terminal of the test's own, with the person's side in master.
func pty(t *testing.T) (master, tty *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	rc, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n uint32
	rc.Control(func(fd uintptr) {
		unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
		n, err = unix.IoctlGetUint32(int(fd), unix.TIOCGPTN)
		unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: 97, Row: 31})
	})
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { tty.Close() })
	return master, tty
}

func TestShellOnTerminal(t *testing.T) {
	g := bootFake(t, "ok")
	master, tty := pty(t)
	before, err := term.GetState(int(tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	screen := make(chan string, 1)
	go func() {
		var b bytes.Buffer
		buf := make([]byte, 1024)
		for !strings.Contains(b.String(), "end of test") {
			n, err := master.Read(buf)
			b.Write(buf[:n])
			if err != nil {
				break
			}
		}
		screen <- b.String()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	st, err := g.Shell(ctx, ShellOptions{Command: "stty size; test -t 0 && echo a terminal; echo end of test; exit 5", Stdin: tty, Stdout: tty, Stderr: tty})
	if err != nil || st.Exit != 5 {
		t.Errorf("%v %v", st, err)
	}
	got := <-screen
	for _, want := range []string{"31 97", "a terminal"} {
		if !strings.Contains(got, want) {
			t.Errorf("screen lacks %q: %q", want, got)
		}
	}
	after, err := term.GetState(int(tty.Fd()))
	if err != nil || *before != *after {
		t.Errorf("the terminal is not as it was: %v", err)
	}
}
