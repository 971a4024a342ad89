// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// manyCells is how many cells of one kind are listed one by one.
const manyCells = 12

// Text writes a diff for people: one line when nothing changed.
func (d *Diff) Text(w io.Writer) {
	fmt.Fprintf(w, "%s (%s) -> %s (%s)", d.Old.ID, verdictWord(d.Old), d.New.ID, verdictWord(d.New))
	if d.Nothing() {
		fmt.Fprintln(w, ": nothing changed")
		return
	}
	fmt.Fprintln(w)
	d.Lines(func(l string) { fmt.Fprintln(w, "  "+l) })
	if len(d.Environment) > 0 {
		fmt.Fprintln(w, "around the run:")
		pk := 0
		for _, e := range d.Environment {
			if strings.HasPrefix(e.What, "image.") {
				if pk++; pk > manyCells {
					continue
				}
			}
			fmt.Fprintf(w, "  %-14s %s -> %s\n", e.What, orNone(e.Was), orNone(e.Now))
		}
		if pk > manyCells {
			fmt.Fprintf(w, "  and %d more packages of the image\n", pk-manyCells)
		}
	}
}

// Lines gives what changed in the results, a line each.
func (d *Diff) Lines(say func(string)) {
	p := func(format string, args ...any) { say(fmt.Sprintf(format, args...)) }
	if d.Old.Verdict != d.New.Verdict {
		l := fmt.Sprintf("verdict      %s, was %s", verdictWord(d.New), verdictWord(d.Old))
		if d.New.Reason != "" {
			l += ": " + first(d.New.Reason)
		}
		p("%s", l)
	}
	cells := func(head string, cs []CellChange, tail func(CellChange) string) {
		for i, c := range cs {
			if i == manyCells {
				p("%-12s and %d more cells", head, len(cs)-i)
				break
			}
			q := ""
			if c.Quarantined {
				q = " (in quarantine)"
			}
			p("%-12s %s%s%s", head, c.Cell, q, tail(c))
		}
	}
	cells("NEW FAILURE", d.Failing, func(c CellChange) string {
		return fmt.Sprintf(": %s%s", c.Now, because(c))
	})
	cells("FIXED", d.Fixed, func(c CellChange) string {
		if c.WasSignature != "" {
			return ", was " + string(c.Was) + ": " + c.WasSignature
		}
		return ", was " + string(c.Was)
	})
	cells("still fails", d.Still, func(c CellChange) string {
		s := ": " + string(c.Now)
		if c.Was != c.Now {
			s += ", was " + string(c.Was)
		}
		if c.WasSignature != c.Signature {
			s += fmt.Sprintf(", in another way (%s, was %s)", orNone(c.Signature), orNone(c.WasSignature))
		}
		if c.Since != "" {
			s += ", since " + c.Since
		}
		return s
	})
	cells("no answer", d.Unknown, func(c CellChange) string {
		return fmt.Sprintf(": %s, was %s%s", c.Now, c.Was, because(c))
	})
	cells("answered", d.Answered, func(c CellChange) string { return fmt.Sprintf(": %s, was %s", c.Now, c.Was) })
	for _, f := range d.FindingsNew {
		mark := "new finding"
		if f.Gates() {
			mark = "NEW FINDING"
		}
		p("%-12s %s: %s", mark, f.ID, located(f.Where.String(), f.Message))
	}
	for _, f := range d.FindingsGone {
		p("%-12s %s: %s", "gone finding", f.ID, located(f.Where.String(), f.Message))
	}
	times := func(head string, ts []TimeChange) {
		for i, t := range ts {
			if i == manyCells {
				p("%-12s and %d more cells", head, len(ts)-i)
				break
			}
			p("%-12s %s: %v, was %v", head, t.Cell, t.Now.Round(10*time.Millisecond), t.Was.Round(10*time.Millisecond))
		}
	}
	times("SLOWER", d.Slower)
	times("faster", d.Faster)
	for i, c := range d.Counts {
		if i == manyCells {
			p("%-12s and %d more", "count", len(d.Counts)-i)
			break
		}
		p("%-12s %s: %s %d, was %d", "count", c.Cell, c.Name, c.Now, c.Was)
	}
	list := func(head string, ids []string) {
		if n := len(ids); n > manyCells {
			p("%-12s %d cells: %s ... %s", head, n, ids[0], ids[n-1])
		} else if n > 0 {
			p("%-12s %s", head, strings.Join(ids, " "))
		}
	}
	list("new cell", d.Appeared)
	list("not run now", d.Vanished)
	if d.NoTiming != "" {
		p("%-12s times are not compared: %s", "note", d.NoTiming)
	}
}

func verdictWord(r Run) string {
	if r.Verdict == "" {
		return "unfinished"
	}
	return string(r.Verdict)
}

func because(c CellChange) string {
	if c.Reason != "" {
		return " (" + clip(first(c.Reason)) + ")"
	}
	if c.Signature != "" {
		return " (" + c.Signature + ")"
	}
	return ""
}

func located(where, msg string) string {
	if where == "" {
		return first(msg)
	}
	return where + ": " + first(msg)
}

func first(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// clip shortens what a cell says of its failure; the run has the whole.
func clip(s string) string {
	const longest = 160
	if r := []rune(s); len(r) > longest {
		return string(r[:longest-3]) + "..."
	}
	return s
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
