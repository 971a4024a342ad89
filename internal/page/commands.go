// SPDX-License-Identifier: Apache-2.0

package page

import (
	"os"
	"slices"
	"strings"

	"patchcheck/internal/runfolder"
)

// command is a line that a person can paste.
type command struct {
	What string
	ID   string // in the page
	Line string
}

// commands are the external commands that a run recorded.
type commands struct {
	sections map[string]string // "base kernel" -> lines
	guests   map[string]string // guest -> its QEMU command
}

// recordedCommands reads commands.sh, whose sections begin with a comment, and
// each guest's qemu.cmd.
func recordedCommands(r *runfolder.Run) commands {
	c := commands{map[string]string{}, map[string]string{}}
	b, err := os.ReadFile(r.Path("commands.sh"))
	if err == nil {
		name := ""
		for _, line := range strings.Split(string(b), "\n") {
			if head, ok := strings.CutPrefix(line, "# "); ok {
				name = head
				continue
			}
			if strings.TrimSpace(line) != "" {
				c.sections[name] += line + "\n"
			}
		}
	}
	for _, cell := range r.Cells {
		for _, a := range cell.Attempts {
			if _, ok := c.guests[a.Guest]; ok || a.Guest == "" {
				continue
			}
			if b, err := os.ReadFile(r.Path("console", a.Guest, "qemu.cmd")); err == nil {
				text := string(b)
				// The second line is for people: no sockets of ours.
				if _, hand, ok := strings.Cut(text, "# by hand:\n"); ok {
					text = hand
				}
				c.guests[a.Guest] = clean(strings.TrimSpace(text))
			} else if s := c.sections["guest "+a.Guest]; s != "" {
				c.guests[a.Guest] = clean(strings.TrimSpace(s))
			}
		}
	}
	return c
}

// of gives the commands behind an attempt: how its kernel was built and its
// guest started.
func (c commands) of(guest, kernel string) []command {
	var out []command
	if s := c.sections[kernel+" kernel"]; s != "" {
		out = append(out, command{What: "build the " + kernel + " kernel", Line: clean(strings.TrimSpace(s))})
	}
	if s := c.guests[guest]; s != "" {
		out = append(out, command{What: "start the guest", Line: s})
	}
	return out
}

// rerun is the command that runs a cell again: the run's own, restricted.
func rerun(r *runfolder.Run, c *runfolder.Cell) string {
	words := slices.Clone(r.Command)
	if len(words) == 0 {
		words = []string{"patchcheck", "run"}
	}
	var out []string
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "--device" || w == "--nfs":
			i++
			continue
		case strings.HasPrefix(w, "--device=") || strings.HasPrefix(w, "--nfs=") || w == "--fresh":
			continue
		}
		out = append(out, quote(w))
	}
	if len(out) > 0 {
		out[0] = "patchcheck"
	}
	if len(out) == 1 {
		out = append(out, "run")
	}
	out = append(out, "--fresh", "--device", quote(c.Spec.Device.Name), "--nfs", quote(c.Spec.NFS))
	return clean(strings.Join(out, " "))
}

// quote makes a word safe for a shell.
func quote(w string) string {
	if w != "" && strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%_+=:,./-") == "" {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// guest is one guest of the run with its commands.
type guest struct {
	Name  string
	Line  string
	Cells int
}

func guests(r *runfolder.Run, cmds commands) []guest {
	var out []guest
	at := map[string]int{}
	for _, c := range r.Cells {
		for _, a := range c.Attempts {
			if a.Guest == "" {
				continue
			}
			i, ok := at[a.Guest]
			if !ok {
				i = len(out)
				at[a.Guest] = i
				out = append(out, guest{Name: a.Guest, Line: cmds.guests[a.Guest]})
			}
			out[i].Cells++
		}
	}
	return out
}
