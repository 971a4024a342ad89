// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"patchcheck/checks"
	"patchcheck/patches/mail"
)

// clean makes a string of the patch fit for one line of a terminal.
func clean(s string) string { return mail.PrintableLine(s) }

type paint bool

func (p paint) do(code, s string) string {
	if !p {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p paint) severity(s checks.Severity) string {
	switch s {
	case checks.Error:
		return p.do("1;31", "error")
	case checks.Warning:
		return p.do("1;33", "warning")
	}
	return p.do("36", string(s))
}

func (p paint) outcome(o Outcome) string {
	if o == Ready {
		return p.do("1;32", string(o))
	}
	return p.do("1;31", string(o))
}

// evidenceLines bounds what is printed of one finding's evidence.
const evidenceLines = 60

// text groups the findings by patch.
func (r *Report) text(out io.Writer, colour bool) error {
	w := bufio.NewWriter(out)
	p := paint(colour)
	if s := r.Series; s != nil {
		cover := ""
		if s.Cover != nil {
			cover = ", cover letter"
		}
		fmt.Fprintf(w, "%s\n", p.do("1", clean(s.Title)))
		fmt.Fprintf(w, "  v%d, %d of %d patches%s", s.Version, len(s.Patches), max(s.Total, len(s.Patches)), cover)
		if r.Tree != "" {
			fmt.Fprintf(w, "; tree %s", clean(r.Tree))
		}
		fmt.Fprintln(w)
	}
	last := -1
	for _, f := range r.sorted() {
		if f.Where.Patch != last {
			last = f.Where.Patch
			fmt.Fprintln(w)
			if pa := r.patch(last); pa != nil {
				fmt.Fprintln(w, p.do("1", clean(fmt.Sprintf("%d/%d %s", pa.Index, max(pa.Total, pa.Index), pa.Subject))))
			} else if last > 0 {
				fmt.Fprintln(w, p.do("1", fmt.Sprintf("patch %d", last)))
			} else {
				fmt.Fprintln(w, p.do("1", "the series"))
			}
		}
		at := f.Where
		at.Patch = 0
		place := at.String()
		if place != "" {
			place = clean(place) + ": "
		}
		fmt.Fprintf(w, "  %s: %s%s [%s]\n", p.severity(f.Severity), place, clean(f.Message), clean(f.ID))
		for i, e := range f.Evidence {
			if i == evidenceLines {
				fmt.Fprintf(w, "      | ... %d more lines; --json has them all\n", len(f.Evidence)-i)
				break
			}
			fmt.Fprintf(w, "      | %s\n", strings.ReplaceAll(mail.Printable(e), "\n", "\n      | "))
		}
		if why := r.why(f.ID); why != "" {
			fmt.Fprintf(w, "      why: %s\n", clean(why))
		}
		if f.Fix != "" {
			fmt.Fprintf(w, "      fix: %s\n", clean(f.Fix))
		}
	}
	fmt.Fprintln(w)
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", clean(n))
	}
	fmt.Fprintf(w, "%s: %s", p.outcome(r.Outcome()), r.Summary())
	if n := len(r.Silenced); n > 0 {
		fmt.Fprintf(w, " (%d silenced by the configuration)", n)
	}
	fmt.Fprintln(w)
	return w.Flush()
}

// word is checkpatch's name of a severity.
func word(s checks.Severity) string {
	switch s {
	case checks.Error:
		return "ERROR"
	case checks.Warning:
		return "WARNING"
	}
	return "CHECK"
}

// checkpatch writes the findings as scripts/checkpatch.pl does: one line each
// in the terse form that editors and b4 prep --check read, or with the place
// in the patch and the lines below it.
func (r *Report) checkpatch(out io.Writer, whole bool) error {
	w := bufio.NewWriter(out)
	for _, f := range r.sorted() {
		file, line := f.Where.File, f.Where.Line
		if file == "" {
			file, line = r.source(f.Where.Patch), 0
		}
		at := clean(file)
		if line > 0 {
			at += fmt.Sprintf(":%d", line)
		} else if f.Where.File == "" && !whole {
			at += ":1" // editors want a line
		}
		about := ""
		if pa := r.patch(f.Where.Patch); pa != nil && len(r.Series.Patches) > 1 {
			about = fmt.Sprintf("patch %d: ", pa.Index)
		}
		fmt.Fprintf(w, "%s: %s: %s%s [%s]\n", at, word(f.Severity), about, clean(f.Message), clean(f.ID))
		if !whole {
			continue
		}
		if n := r.lineInPatch(f); n > 0 {
			fmt.Fprintf(w, "#%d: FILE: %s:%d:\n", n, clean(f.Where.File), max(f.Where.Line, 1))
		}
		for _, e := range f.Evidence {
			fmt.Fprintln(w, "  "+strings.ReplaceAll(strings.TrimRight(mail.Printable(e), "\n"), "\n", "\n  "))
		}
		fmt.Fprintln(w)
	}
	if whole {
		fmt.Fprintf(w, "total: %d errors, %d warnings, %d checks\n", r.Count(checks.Error), r.Count(checks.Warning), r.Count(checks.Note))
	}
	return w.Flush()
}

// lineInPatch is the line of the finding's place in the text of the mail,
// header not counted; 0 when it is not known.
func (r *Report) lineInPatch(f checks.Finding) int {
	pa := r.patch(f.Where.Patch)
	if pa == nil || f.Where.File == "" {
		return 0
	}
	before := 0
	if pa.Mail != nil {
		body := pa.Mail.Body()
		if i := strings.Index(body, string(pa.Diff[:min(len(pa.Diff), 200)])); i >= 0 && len(pa.Diff) > 0 {
			before = strings.Count(body[:i], "\n")
		}
	}
	for _, fi := range pa.Files {
		if fi.Path() != f.Where.File {
			continue
		}
		for _, h := range fi.Hunks {
			n := h.NewStart
			for i, ln := range h.Lines {
				if ln.Op == '-' {
					continue
				}
				if n == f.Where.Line {
					return before + h.Line + 1 + i
				}
				n++
			}
		}
		return before + fi.Line
	}
	return 0
}
