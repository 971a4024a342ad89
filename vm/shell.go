// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"patchcheck/vm/guestssh"
)

// ShellOptions say what Shell runs and what it is connected to.
type ShellOptions struct {
	Command string // for /bin/sh; empty: an interactive shell
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	// NoTerminal keeps plain streams even if Stdin and Stdout are terminals.
	NoTerminal bool
}

// Shell runs a command or an interactive shell for a person. If stdin and
// stdout are terminals the guest gives it a terminal too, with ours in raw
// mode and its size followed; otherwise the streams stay apart and are passed
// through byte for byte.
func (g *Guest) Shell(ctx context.Context, o ShellOptions) (guestssh.Status, error) {
	start := time.Now()
	std := guestssh.IO{Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr}
	in, inOK := o.Stdin.(*os.File)
	out, outOK := o.Stdout.(*os.File)
	if o.NoTerminal || !inOK || !outOK || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		command := o.Command
		if command == "" {
			command = "exec /bin/sh"
		}
		st, err := g.ssh.Run(ctx, command, std)
		return st, g.execError(ctx, "shell", start, err)
	}
	cols, rows, err := term.GetSize(int(out.Fd()))
	if err != nil {
		cols, rows = 80, 24
	}
	name := os.Getenv("TERM")
	if name == "" {
		name = "vt100"
	}
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return guestssh.Status{Exit: -1}, &InfraError{What: "cannot put the terminal into raw mode", Err: err}
	}
	defer term.Restore(int(in.Fd()), state)

	winch := make(chan os.Signal, 1)
	signal.Notify(winch, syscall.SIGWINCH)
	resize := make(chan [2]int)
	stop := make(chan struct{})
	defer close(stop)
	defer signal.Stop(winch)
	go func() {
		defer close(resize)
		for {
			select {
			case <-stop:
				return
			case <-winch:
			}
			if c, r, err := term.GetSize(int(out.Fd())); err == nil {
				select {
				case resize <- [2]int{c, r}:
				case <-stop:
					return
				}
			}
		}
	}()
	st, err := g.ssh.RunTerminal(ctx, o.Command, std, guestssh.Terminal{Term: name, Cols: cols, Rows: rows, Resize: resize})
	return st, g.execError(ctx, "shell", start, err)
}
