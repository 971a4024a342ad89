// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"patchcheck/checks"
	"patchcheck/patches"
)

// Input is a patch as checkpatch.pl gets it: a mail made from the series as it
// was understood, so that the form in which it came does not matter.
type Input struct {
	Name string // of the file to give to checkpatch: "0003.patch"
	Text []byte

	patch    *patches.Patch
	msgLine  int // 1-based line of Text where the message begins
	diffLine int // that where the diff begins
	lines    []diffLine
	text     []string        // lines of Text
	removed  map[string]bool // trimmed texts of removed lines
	words    map[string]bool // of lines that are not new
}

// diffLine is what one line of the diff stands for.
type diffLine struct {
	file string
	line int    // in the patched file; of a removed line, the one that follows
	op   byte   // '+', '-', ' ', '@', or 0 outside of hunks
	hunk string // header
	text string // without op
}

var reHunk = regexp.MustCompile(`^@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

// NewInput makes the input for one patch.
func NewInput(p *patches.Patch) *Input {
	in := &Input{Name: fmt.Sprintf("%04d.patch", p.Index), patch: p}
	var b bytes.Buffer
	author := p.Author.String()
	if p.Author.Addr != "" {
		author = fmt.Sprintf("%s <%s>", p.Author.Name, p.Author.Addr)
	}
	date := p.Date
	if date.IsZero() {
		date = time.Unix(0, 0).UTC()
	}
	one := func(s string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(s) }
	fmt.Fprintf(&b, "From: %s\nDate: %s\nSubject: [PATCH] %s\n\n", one(author), date.Format(time.RFC1123Z), one(p.Subject))
	in.msgLine = bytes.Count(b.Bytes(), []byte("\n")) + 1
	b.WriteString(strings.TrimRight(p.Message, "\n"))
	b.WriteString("\n---\n\n")
	in.diffLine = bytes.Count(b.Bytes(), []byte("\n")) + 1
	b.Write(p.Diff)
	if n := len(p.Diff); n > 0 && p.Diff[n-1] != '\n' {
		b.WriteByte('\n')
	}
	in.Text = b.Bytes()
	in.lines = walkDiff(p)
	return in
}

// walkDiff says for each line of the diff which line of which file it is.
func walkDiff(p *patches.Patch) []diffLine {
	raw := strings.Split(strings.TrimSuffix(string(p.Diff), "\n"), "\n")
	out := make([]diffLine, len(raw))
	files := p.Files
	cur, old, now, next := "", 0, 0, 0
	hunk := ""
	for i, l := range raw {
		for len(files) > 0 && files[0].Line <= i+1 {
			cur, old, now, hunk = files[0].Path(), 0, 0, ""
			files = files[1:]
		}
		d := &out[i]
		d.file, d.hunk = cur, hunk
		if old > 0 || now > 0 {
			op := byte(' ')
			if l != "" {
				op = l[0]
				d.text = l[1:]
			}
			switch op {
			case '+':
				d.op, d.line = '+', next
				next, now = next+1, now-1
				continue
			case '-':
				d.op, d.line = '-', next
				old--
				continue
			case ' ', '\t':
				d.op, d.line = ' ', next
				next, old, now = next+1, old-1, now-1
				continue
			case '\\':
				d.op, d.line = ' ', next-1
				continue
			}
			old, now = 0, 0 // damaged: the rest of the hunk counts as none
		}
		if m := reHunk.FindStringSubmatch(l); m != nil {
			old, now = count(m[1]), count(m[3])
			next, _ = strconv.Atoi(m[2])
			hunk = l
			d.op, d.line, d.hunk = '@', next, l
		}
	}
	return out
}

func count(s string) int {
	if s == "" {
		return 1
	}
	n, _ := strconv.Atoi(s)
	return n
}

// CheckpatchArgs are checkpatch.pl's arguments before the names of the inputs.
// It runs without a tree: what it looks up there (get_maintainer for each
// file, every header below include/) takes seconds, and only --strict types
// depend on it.
func CheckpatchArgs() []string {
	return []string{"--no-tree", "--strict", "--terse", "--show-types", "--no-summary", "--color=never"}
}

// Level is how checkpatch grades a complaint.
type Level string

// The levels.
const (
	LevelError   Level = "ERROR"
	LevelWarning Level = "WARNING"
	LevelCheck   Level = "CHECK"
)

// Options of Checkpatch.
type Options struct {
	// Strict keeps CHECK and the types that the quiet list holds back, and
	// lists every line.
	Strict bool
	// Known tells whether a word stands in the file already, for names in
	// capitals and small letters; nil: no word is known.
	Known func(file, word string) bool
	// Generated tells files that a program wrote: their style is not the
	// series'.
	Generated func(file string) bool
}

var (
	reTerse   = regexp.MustCompile(`^(.+?):(\d+): (ERROR|WARNING|CHECK):([A-Z][A-Z0-9_]*): (.*)$`)
	reNoLine  = regexp.MustCompile(`^(?:(.+?): ?)?(ERROR|WARNING|CHECK):([A-Z][A-Z0-9_]*): (.*)$`)
	reWord    = regexp.MustCompile(`<(\w+)>`)
	reFixHint = regexp.MustCompile(` - (?:see|use|consider|try) |[;,] (?:consider|use|prefer) `)
)

// Checkpatch turns the output of checkpatch.pl, called with CheckpatchArgs,
// into findings. ok is false when out is nothing that checkpatch prints.
func Checkpatch(inputs []*Input, out []byte, o Options) (findings []checks.Finding, ok bool) {
	byName := map[string]*Input{}
	for _, in := range inputs {
		byName[in.Name] = in
	}
	type group struct {
		id    string
		patch int
		file  string
	}
	at := map[group]int{}
	more := map[int]int{}
	ok = true
	for _, l := range strings.Split(string(out), "\n") {
		if strings.TrimSpace(l) == "" || strings.HasPrefix(l, "total: ") {
			continue
		}
		var name, msg, typ string
		var level Level
		line := 0
		if m := reTerse.FindStringSubmatch(l); m != nil {
			name, level, typ, msg = m[1], Level(m[3]), m[4], m[5]
			line, _ = strconv.Atoi(m[2])
		} else if m := reNoLine.FindStringSubmatch(l); m != nil {
			name, level, typ, msg = m[1], Level(m[2]), m[3], m[4]
		} else {
			ok = false
			continue
		}
		in := byName[path.Base(name)]
		if in == nil && len(inputs) == 1 {
			in = inputs[0]
		}
		if in == nil {
			continue
		}
		f, keep := in.finding(level, typ, msg, line, o)
		if !keep {
			continue
		}
		g := group{f.ID, f.Where.Patch, f.Where.File}
		if i, seen := at[g]; seen && !o.Strict {
			more[i]++
			if len(findings[i].Evidence) < 10 {
				findings[i].Evidence = append(findings[i].Evidence, f.Evidence...)
			}
			continue
		}
		at[g] = len(findings)
		findings = append(findings, f)
	}
	for i, n := range more {
		findings[i].Message += fmt.Sprintf(" (and %d more in this patch)", n)
	}
	return findings, ok
}

// finding decides about one complaint.
func (in *Input) finding(level Level, typ, msg string, line int, o Options) (checks.Finding, bool) {
	p := PolicyOf(typ)
	if p.Drop {
		return checks.Finding{}, false
	}
	w := checks.Where{Patch: in.patch.Index}
	var d *diffLine
	if i := line - in.diffLine; line > 0 && i >= 0 && i < len(in.lines) {
		d = &in.lines[i]
	}
	evidence := ""
	switch {
	case d != nil && p.Message:
		// A rule about the commit message that fires on a line of the diff.
		return checks.Finding{}, false
	case d != nil:
		w.File, w.Hunk = d.file, d.hunk
		if d.op == 0 || d.op == '@' {
			w.Line = max(d.line, 0)
			break
		}
		w.Line = d.line
		evidence = fmt.Sprintf("%s:%d: %s", d.file, d.line, strings.TrimRight(d.text, "\r"))
		if d.op != '+' {
			return checks.Finding{}, false // somebody else's line
		}
		if !o.Strict && in.moved(d.text) {
			return checks.Finding{}, false
		}
	case p.Code:
		return checks.Finding{}, false
	case line >= in.msgLine:
		evidence = in.line(line)
	}
	if w.File != "" && p.Style {
		if o.Generated != nil && o.Generated(w.File) || foreignStyle(w.File, typ) {
			return checks.Finding{}, false
		}
	}
	if typ == "CAMELCASE" {
		if m := reWord.FindStringSubmatch(msg); m != nil && (in.mentions(m[1]) || o.Known != nil && o.Known(w.File, m[1])) {
			return checks.Finding{}, false
		}
	}
	if (level == LevelCheck || p.Strict) && !o.Strict {
		return checks.Finding{}, false
	}
	r := RuleOf(typ, level)
	f := r.New(w, "%s", strings.TrimSpace(clip(msg, 400)))
	if evidence != "" {
		f.Evidence = []string{clip(evidence, 200)}
	}
	if reFixHint.MatchString(msg) {
		f.Fix = "do what the message says"
	}
	return f, true
}

// line returns a line of the input.
func (in *Input) line(n int) string {
	if in.text == nil {
		in.text = strings.Split(string(in.Text), "\n")
	}
	if n < 1 || n > len(in.text) {
		return ""
	}
	return in.text[n-1]
}

// moved tells a line that the patch only moves: it removes the same text.
func (in *Input) moved(text string) bool {
	if in.removed == nil {
		in.removed = map[string]bool{}
		for _, d := range in.lines {
			if t := strings.TrimSpace(d.text); d.op == '-' && t != "" {
				in.removed[t] = true
			}
		}
	}
	return in.removed[strings.TrimSpace(text)]
}

var reIdent = regexp.MustCompile(`\w+`)

// mentions tells whether a word stands in a line that is not new.
func (in *Input) mentions(word string) bool {
	if in.words == nil {
		in.words = map[string]bool{}
		for _, d := range in.lines {
			if d.op == '-' || d.op == ' ' {
				for _, w := range reIdent.FindAllString(d.text, -1) {
					in.words[w] = true
				}
			}
		}
	}
	return in.words[word]
}

// foreignStyle tells files with rules of their own.
func foreignStyle(file, typ string) bool {
	base := path.Base(file)
	switch {
	case strings.HasPrefix(file, "include/trace/"), strings.Contains(base, "trace") && strings.HasSuffix(base, ".h"):
		// TRACE_EVENT() is a language of its own.
		return true
	case strings.HasPrefix(file, "tools/testing/selftests/"), strings.HasPrefix(file, "Documentation/"):
		return typ != "TRAILING_WHITESPACE"
	}
	return false
}

// RuleOf is the rule that a complaint of checkpatch becomes.
func RuleOf(typ string, level Level) checks.Rule {
	p := PolicyOf(typ)
	r := checks.Rule{
		ID: IDOf(typ), Severity: checks.Warning, Strict: p.Strict,
		Title:  "checkpatch.pl: " + strings.ToLower(strings.ReplaceAll(typ, "_", " ")),
		Source: "scripts/checkpatch.pl " + typ + " (" + srcCheckpatch + ")",
		Fix:    "change the line as checkpatch.pl asks, or silence the id where it is wrong",
	}
	switch {
	case level == LevelCheck:
		r.Severity, r.Strict = checks.Note, true
	case p.Note || p.Strict:
		r.Severity = checks.Note
	case level == LevelError:
		r.Severity = checks.Error
	}
	if p.Reason != "" {
		r.Source += "; " + p.Reason
	}
	return r
}

// IDOf is the finding id of a type: "checkpatch.trailing-whitespace".
func IDOf(typ string) string {
	return "checkpatch." + strings.ToLower(strings.ReplaceAll(typ, "_", "-"))
}

// RuleByID gives the rule of an id that this package can make, also of a
// checkpatch type that it has never seen.
func RuleByID(id string) (checks.Rule, bool) {
	for _, r := range Rules() {
		if r.ID == id {
			return r, true
		}
	}
	typ, ok := strings.CutPrefix(id, "checkpatch.")
	if !ok || typ == "" {
		return checks.Rule{}, false
	}
	typ = strings.ToUpper(strings.ReplaceAll(typ, "-", "_"))
	return RuleOf(typ, LevelWarning), true
}
