// SPDX-License-Identifier: Apache-2.0

package page

import (
	"os"
	"strings"

	"patchcheck/checks"
	"patchcheck/internal/runfolder"
)

// How many lines of a console the page holds per attempt. The whole is in the
// run folder.
const (
	linesPass = 20
	linesBad  = 150
)

// console is the end of what a guest's kernel said during a cell.
type console struct {
	File    string
	Text    string
	Lines   int // in Text
	Omitted int // before Text, of this cell
	Whole   bool
}

// consoleOf finds the part of a guest's console that belongs to a cell: from
// the cell's mark in the kernel log to the next one. Without a mark it is the
// console's end.
func consoleOf(r *runfolder.Run, c *runfolder.Cell, a *runfolder.Attempt, cache map[string]string) *console {
	text, ok := cache[a.Guest]
	if !ok {
		b, err := os.ReadFile(r.Path("console", a.Guest, "console.log"))
		if err == nil {
			text = strings.ReplaceAll(string(b), "\r\n", "\n")
		}
		cache[a.Guest] = text
	}
	if text == "" {
		return nil
	}
	n := linesPass
	if a.Verdict != checks.Pass {
		n = linesBad
	}
	out := cut(text, c.ID, n)
	out.File = "console/" + a.Guest + "/console.log"
	return out
}

const markWords = "patchcheck: cell "

func cut(text, id string, n int) *console {
	out := &console{Whole: true}
	for from := 0; ; {
		i := strings.Index(text[from:], markWords+id)
		if i < 0 {
			break
		}
		i += from
		end := i + len(markWords) + len(id)
		if end == len(text) || text[end] == '\n' || text[end] == '\r' || text[end] == ' ' {
			text = text[strings.LastIndex(text[:i], "\n")+1:]
			out.Whole = false
			// The next mark ends it; this one stands in the first line.
			first := strings.Index(text, markWords) + len(markWords)
			if j := strings.Index(text[first:], markWords); j >= 0 {
				text = text[:strings.LastIndex(text[:first+j], "\n")+1]
			}
			break
		}
		from = end
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > n {
		out.Omitted = len(lines) - n
		lines = lines[len(lines)-n:]
	}
	out.Lines = len(lines)
	for i, l := range lines {
		if len(l) > 1000 {
			lines[i] = strings.ToValidUTF8(l[:1000], "") + " ..."
		}
	}
	out.Text = clean(strings.Join(lines, "\n"))
	return out
}
