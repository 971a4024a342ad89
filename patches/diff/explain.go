// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"fmt"
	"io"
	"strings"
)

// headline says what a class means to the reader of a result.
var headline = map[Class]string{
	Clean:            "applies, every hunk where its header says",
	Offset:           "applies, with hunks that moved",
	Ambiguous:        "applies, but a moved hunk fits in several places: check it by hand",
	Binary:           "applies, with binary changes",
	Fuzz:             "does not apply; patch(1) would force it by ignoring context",
	Conflict:         "does not apply: the tree differs where the patch changes it",
	AlreadyApplied:   "is in the tree already",
	PartiallyApplied: "is in the tree in part",
	Reversed:         "is reversed (or in the tree already)",
	MissingFile:      "does not apply: a file that it changes is not in the tree",
	Corrupt:          "is damaged and cannot be read",
	Empty:            "holds no change",
	WhitespaceDamage: "does not apply: white space or line breaks were damaged on its way",
	CRLF:             "does not apply: its line endings are not those of the tree",
	ZeroContext:      "was made without context (-U0)",
	BinaryNoData:     "has a binary change without its data",
	Submodule:        "changes a submodule",
	UnsafePath:       "is refused: it names a place outside the tree",
}

// Headline is the class in a few words, to stand behind "the patch".
func (c Class) Headline() string {
	if h := headline[c]; h != "" {
		return h
	}
	return string(c)
}

// Explain writes the result for a person: the class, each file that is not
// plainly fine, each hunk with what was expected and what was found, and the
// command to do it by hand. It is plain text with LF, and may hold bytes of
// the patch and the tree as they are: the caller makes it safe for a terminal.
func (r *Result) Explain(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "the patch %s (%s)\n", r.Class.Headline(), r.Class)
	if r.Reason != "" {
		fmt.Fprintf(&b, "  %s\n", r.Reason)
	}
	if r.Hint != "" && !strings.Contains(r.Reason, r.Hint) {
		fmt.Fprintf(&b, "  %s\n", r.Hint)
	}
	for i := range r.Files {
		r.Files[i].explain(&b)
	}
	if r.LooksMerged() {
		all, apply, present, overtaken := r.HunkCounts()
		fmt.Fprintf(&b, "looks like an old patch that the tree holds already: of %d hunks %d stand as they were, %d were overtaken by later changes, %d would still apply\n", all, present, overtaken, apply)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	switch r.ThreeWay {
	case "":
	case "clean":
		b.WriteString("three-way merge: clean\n")
	default:
		fmt.Fprintf(&b, "three-way merge: %s\n", r.ThreeWay)
	}
	if c := r.Redo(); c != "" {
		fmt.Fprintf(&b, "by hand: %s\n", c)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Redo is the command, to be run in the tree with PATCH in place of the
// file's name, that shows the failure again or goes on by hand. It is empty
// when there is nothing to do.
func (r *Result) Redo() string {
	switch r.Class {
	case Clean, Offset, Binary, Empty, Submodule, BinaryNoData, UnsafePath, AlreadyApplied:
		return ""
	case Ambiguous:
		return "git apply --check -v PATCH"
	case Reversed:
		return "git apply -R --check -v PATCH"
	case Fuzz:
		return "patch -p1 --dry-run < PATCH"
	case CRLF:
		return "tr -d '\\r' < PATCH | git apply --check -v -"
	case WhitespaceDamage:
		if r.Line > 0 {
			return "git apply --check -v PATCH"
		}
		return "git apply --check -v --ignore-whitespace PATCH"
	case ZeroContext:
		return "git apply --check -v --unidiff-zero PATCH"
	case Corrupt:
		return "git apply --check -v --recount PATCH"
	}
	return "git apply --reject -v PATCH   (in a copy of the tree; leaves .rej files) or git am -3 PATCH"
}

func (fr *FileResult) explain(b *strings.Builder) {
	name := fr.Path
	if fr.OldPath != "" {
		name = fr.OldPath + " -> " + fr.Path
	}
	fmt.Fprintf(b, "%s: %s", name, fr.Class)
	if fr.Reason != "" {
		b.WriteString(", " + fr.Reason)
	}
	if fr.Base == BaseDiffers {
		fmt.Fprintf(b, " (made for blob %.12s, the tree has %.12s)", fr.WantOID, fr.TreeOID)
	}
	b.WriteByte('\n')
	for i := range fr.Hunks {
		fr.Hunks[i].explain(b, i+1)
	}
	for _, n := range fr.Notes {
		fmt.Fprintf(b, "  note: %s\n", n)
	}
}

func (h *HunkResult) explain(b *strings.Builder, n int) {
	fmt.Fprintf(b, "  hunk %d %s: %s\n", n, h.Header, h.Short())
	if len(h.Expected) == 0 && len(h.Found) == 0 {
		return
	}
	fmt.Fprintf(b, "    expected (-) and found at line %d (+):\n", h.FoundLine)
	for _, l := range compareLines(h.Expected, h.Found) {
		fmt.Fprintf(b, "    %s\n", l)
	}
}

// Short is the hunk's fate in a few words.
func (h *HunkResult) Short() string {
	var s string
	switch {
	case h.Present && h.Applies:
		s = fmt.Sprintf("fits at line %d, but its new side stands at line %d already", h.FoundLine, h.PresentLine)
	case h.Present:
		s = fmt.Sprintf("already in the tree, at line %d", h.PresentLine)
	case h.Class == Offset, h.Class == Ambiguous:
		s = fmt.Sprintf("fits at line %d (offset %+d %s)", h.FoundLine, h.Offset, plural(abs(h.Offset), "line"))
	case h.Class == Clean:
		s = "fits"
	case h.Class == Conflict:
		s = "CONFLICT"
	default:
		s = string(h.Class)
	}
	if h.Note != "" && !(h.Present && h.Applies) {
		s += "; " + h.Note
	}
	return s
}

// compareLines shows two short lists of lines as a diff by their longest
// common subsequence.
func compareLines(a, b []string) []string {
	const limit = 400
	a, b = a[:min(len(a), limit)], b[:min(len(b), limit)]
	lcs := make([][]int, len(a)+1)
	for i := range lcs {
		lcs[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				lcs[i][j] = lcs[i+1][j+1] + 1
			} else {
				lcs[i][j] = max(lcs[i+1][j], lcs[i][j+1])
			}
		}
	}
	var out []string
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, " "+a[i])
			i++
			j++
		case i < len(a) && (j == len(b) || lcs[i+1][j] >= lcs[i][j+1]):
			out = append(out, "-"+a[i])
			i++
		default:
			out = append(out, "+"+b[j])
			j++
		}
	}
	return out
}
