// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"patchcheck/checks"
	"patchcheck/internal/runfolder"
	"patchcheck/patches/mail"
	"patchcheck/schemas"
)

// Width is the longest line of text meant for a mail.
const Width = 72

// Formats lists what Write knows.
var Formats = []string{"text", "cover", "patch", "markdown", "json", "junit", "ktap", "sarif", "bench"}

// Write renders the run in one of Formats.
func Write(w io.Writer, r *runfolder.Run, format string) error {
	var b bytes.Buffer
	if err := write(&b, r, format); err != nil {
		return err
	}
	// A safety net over all fields: what came through unseen becomes visible.
	out := b.Bytes()
	switch format {
	case "json", "sarif":
		out = mail.PrintableJSON(out)
	default:
		out = []byte(mail.Printable(b.String()))
	}
	_, err := w.Write(out)
	return err
}

func write(w io.Writer, r *runfolder.Run, format string) error {
	p := Build(r)
	switch format {
	case "text":
		return p.text(w)
	case "cover":
		_, err := io.WriteString(w, p.Cover())
		return err
	case "patch":
		_, err := io.WriteString(w, p.patch())
		return err
	case "markdown":
		return p.markdown(w)
	case "json":
		return p.json(w)
	case "junit":
		return junit(w, r)
	case "ktap":
		return ktap(w, r)
	case "sarif":
		return SARIF(w, r, nil)
	case "bench":
		return bench(w, r)
	}
	return fmt.Errorf("unknown report format %q: use one of %s", format, strings.Join(Formats, ", "))
}

// wrap breaks text into lines of at most width columns; the first line is
// preceded by head, the others by as many spaces.
func wrap(head, text string, width int) string {
	pad := strings.Repeat(" ", utf8.RuneCountInString(head))
	var b strings.Builder
	line, empty := head, true
	for _, w := range breakWords(strings.Fields(text), width-utf8.RuneCountInString(head)) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(w) > width {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line, empty = pad, true
		}
		if !empty {
			line += " "
		}
		line += w
		empty = false
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
	return b.String()
}

// breakWords cuts words that no line of n columns can hold.
func breakWords(words []string, n int) (out []string) {
	for _, w := range words {
		r := []rune(w)
		for n > 0 && len(r) > n {
			out = append(out, string(r[:n]))
			r = r[n:]
		}
		out = append(out, string(r))
	}
	return out
}

func (t Table) text(indent string) string {
	if len(t.Rows) == 0 {
		return ""
	}
	width := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		line := indent
		for i, c := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			if t.Right[i] {
				line += pad + c
			} else {
				line += c + pad
			}
			line += "   "
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// Cover is the block for a cover letter: at most 72 columns, the matrix
// collapsed to one row unless a cell did not pass.
func (p *Report) Cover() string {
	var b strings.Builder
	b.WriteString(wrap("", "Tested with patchcheck on "+p.Setting+":", Width))
	b.WriteString("\n")
	for _, l := range p.Lines {
		b.WriteString(wrap(fmt.Sprintf("  %-10s ", l.Label), mail.Printable(l.Text), Width))
	}
	if t := p.Table.text("  "); t != "" {
		b.WriteString("\n" + t)
	}
	if len(p.Below) > 0 {
		b.WriteString("\n")
	}
	for _, l := range p.Below {
		b.WriteString(wrap(fmt.Sprintf("  %-10s ", l.Label), mail.Printable(l.Text), Width))
	}
	return b.String()
}

// patch is the short form for a commit message: three lines.
func (p *Report) patch() string {
	r := p.run
	var parts []string
	for _, l := range p.Lines {
		switch l.Label {
		case "build":
			parts = append(parts, "builds: "+l.Text)
		case "matrix":
			parts = append(parts, l.Text)
		case "contents":
			if len(p.Bad) == 0 {
				parts = append(parts, "contents equal")
			}
		case "console":
			parts = append(parts, "console clean")
		}
	}
	tree := "linux " + r.Tree.Version
	if r.Tree.Commit != "" {
		tree += " at " + short(r.Tree.Commit)
	}
	text := fmt.Sprintf("Tested on %s (%s, %s): %s.", tree, fabricName(r.Plan.Fabric), strings.ToUpper(r.Accel.Name), strings.Join(parts, "; "))
	lines := strings.SplitAfter(strings.TrimRight(wrap("", text, Width), "\n"), "\n")
	if len(lines) > 3 {
		lines = lines[:3]
		lines[2] = strings.TrimRight(lines[2], "\n;,") + " ..."
	}
	return strings.Join(lines, "") + "\n"
}

func (p *Report) text(w io.Writer) error {
	var b strings.Builder
	r := p.run
	fmt.Fprintf(&b, "%s  %s\n", p.Verdict, mail.Printable(p.Title))
	if p.Reason != "" {
		b.WriteString(wrap("      ", mail.Printable(p.Reason), Width))
	}
	b.WriteString("\n")
	if fs := r.Findings; len(fs) > 0 {
		writeFindings(&b, fs)
		b.WriteString("\n")
	}
	for _, g := range p.Bad {
		fmt.Fprintf(&b, "%s  %s\n", g.Verdict, g.first.ID)
		if g.first.Quarantine != nil {
			b.WriteString("  in quarantine: it does not decide the verdict\n")
		}
		if len(g.Cells) > 1 {
			b.WriteString(wrap("  the same in ", strings.Join(g.Cells[1:], ", "), Width))
		}
		writeFindings(&b, g.first.Findings)
		if guest := g.first.Last().Guest; guest != "" {
			fmt.Fprintf(&b, "    console: %s\n", r.Path("console", guest, "console.log"))
		}
		b.WriteString("\n")
	}
	if text := p.Paragraph(); text != "" {
		b.WriteString(wrap("", mail.Printable(text), Width))
		b.WriteString("\n")
	}
	if t := p.Table.text("  "); t != "" {
		b.WriteString(t + "\n")
	}
	reused := 0
	for _, c := range r.Cells {
		if c.Reused != "" {
			reused++
		}
	}
	if reused > 0 {
		fmt.Fprintf(&b, "%d of %d cells reused from earlier runs (nothing they depend on has changed; --fresh runs them again)\n", reused, len(r.Cells))
	}
	took := "not at its end"
	if !r.Ended.IsZero() {
		took = r.Ended.Sub(r.Started).Round(time.Second).String()
	}
	fmt.Fprintf(&b, "run %s (%s): %s\n", r.ID, took, r.Dir())
	_, err := io.WriteString(w, b.String())
	return err
}

func writeFindings(b *strings.Builder, fs []checks.Finding) {
	for _, f := range fs {
		at := f.Where.String()
		if at != "" {
			at += ": "
		}
		fmt.Fprintf(b, "  %s: %s%s [%s]\n", f.Severity, mail.Printable(at), mail.Printable(f.Message), f.ID)
		for i, e := range f.Evidence {
			if i == 12 {
				fmt.Fprintf(b, "      ... %d more lines\n", len(f.Evidence)-i)
				break
			}
			fmt.Fprintf(b, "      %s\n", mail.Printable(e))
		}
	}
}

func (p *Report) markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s %s\n\n", p.Verdict, escapeMarkdown(p.Title))
	if p.Reason != "" {
		fmt.Fprintf(&b, "%s\n\n", escapeMarkdown(p.Reason))
	}
	fmt.Fprintf(&b, "Tested with patchcheck on %s.\n\n", escapeMarkdown(p.Setting))
	for _, l := range p.Lines {
		fmt.Fprintf(&b, "- **%s**: %s\n", l.Label, escapeMarkdown(l.Text))
	}
	if len(p.Table.Rows) > 0 {
		b.WriteString("\n| " + strings.Join(p.Table.Head, " | ") + " |\n|")
		for i := range p.Table.Head {
			if p.Table.Right[i] {
				b.WriteString("---:|")
			} else {
				b.WriteString("---|")
			}
		}
		b.WriteString("\n")
		for _, row := range p.Table.Rows {
			b.WriteString("|")
			for _, c := range row {
				b.WriteString(" " + escapeMarkdown(c) + " |")
			}
			b.WriteString("\n")
		}
	}
	if len(p.Below) > 0 {
		b.WriteString("\n")
	}
	for _, l := range p.Below {
		fmt.Fprintf(&b, "- **%s**: %s\n", l.Label, escapeMarkdown(l.Text))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func escapeMarkdown(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;", "*", `\*`, "_", `\_`, "`", "'", "[", `\[`, "]", `\]`).Replace(mail.Printable(s))
}

func (p *Report) json(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	cells := p.run.Cells
	if cells == nil {
		cells = []*runfolder.Cell{}
	}
	return enc.Encode(Document{schemas.RunID, runfolder.Schema, p, p.run, cells})
}

// Document is the json format. schemas/run.schema.json describes it.
type Document struct {
	SchemaID string            `json:"$schema"` // names the JSON Schema
	Schema   int               `json:"schema"`  // its version, and that of the run folder's files
	Report   *Report           `json:"report"`  // what the run says, as the other formats say it
	Run      *runfolder.Run    `json:"run"`     // run.json
	Cells    []*runfolder.Cell `json:"cells"`   // cells/*.json, in the plan's order
}
