// SPDX-License-Identifier: Apache-2.0

package run

import (
	"strings"

	"patchcheck/checks"
	"patchcheck/patches/diff"
)

// contextLines is how many lines before and after a warning the run keeps, and
// longestLine how much of each.
const (
	contextLines = 3
	longestLine  = 300
)

// sourceAround gives the lines around a finding as they were compiled, so that
// a report can show a warning in its source without the tree. nil when the
// finding names no line, or none that the file has.
func sourceAround(o *diff.Overlay, w checks.Where) *checks.Source {
	if w.File == "" || w.Line < 1 {
		return nil
	}
	b, _, err := o.ReadFile(w.File)
	if err != nil {
		return nil
	}
	return linesAround(b, w)
}

// linesAround is sourceAround for a file's content.
func linesAround(b []byte, w checks.Where) *checks.Source {
	lines := strings.Split(string(b), "\n")
	if w.Line > len(lines) {
		return nil
	}
	s := &checks.Source{From: max(1, w.Line-contextLines)}
	for _, l := range lines[s.From-1 : min(len(lines), w.Line+contextLines)] {
		if len(l) > longestLine {
			l = l[:longestLine]
		}
		s.Lines = append(s.Lines, strings.ToValidUTF8(l, "\ufffd"))
	}
	return s
}
