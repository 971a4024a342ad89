// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"fmt"
	"strings"
)

// Op is the first character of a hunk line.
type Op byte

// The three kinds of hunk lines.
const (
	Context Op = ' '
	Delete  Op = '-'
	Add     Op = '+'
)

// MarshalText makes an Op readable in JSON.
func (o Op) MarshalText() ([]byte, error) { return []byte{byte(o)}, nil }

// UnmarshalText is the inverse of MarshalText.
func (o *Op) UnmarshalText(b []byte) error {
	if len(b) != 1 || (b[0] != ' ' && b[0] != '-' && b[0] != '+') {
		return fmt.Errorf("hunk line operation %q is not one of ' ', '-' and '+'", b)
	}
	*o = Op(b[0])
	return nil
}

// Line is one line of a hunk.
type Line struct {
	Op    Op     `json:"op"`
	Text  string `json:"text"`             // without the operation and the final newline; a carriage return stays
	NoEOL bool   `json:"no_eol,omitempty"` // the line is the last of its file and has no newline
}

// full is the line as it stands in the file.
func (l Line) full() string {
	if l.NoEOL {
		return l.Text
	}
	return l.Text + "\n"
}

func (l Line) String() string { return string(rune(l.Op)) + l.Text }

// Hunk is one "@@" block.
type Hunk struct {
	Header   string `json:"header"`    // the "@@ -a,b +c,d @@ section" line as written
	OldStart int    `json:"old_start"` // 1-based line of the old file; 0 when it has no lines
	OldLines int    `json:"old_lines"`
	NewStart int    `json:"new_start"`
	NewLines int    `json:"new_lines"`
	Section  string `json:"section,omitempty"` // function name behind the second @@
	Lines    []Line `json:"lines,omitempty"`
	Line     int    `json:"line"` // 1-based line of the header in the text given to Parse
}

// context counts the unchanged lines before the first and after the last change.
func (h *Hunk) context() (leading, trailing int) {
	for leading < len(h.Lines) && h.Lines[leading].Op == Context {
		leading++
	}
	for trailing < len(h.Lines)-leading && h.Lines[len(h.Lines)-1-trailing].Op == Context {
		trailing++
	}
	return leading, trailing
}

// side returns the lines of the old (Delete) or the new (Add) side.
func (h *Hunk) side(op Op) []Line {
	out := make([]Line, 0, len(h.Lines))
	for _, l := range h.Lines {
		if l.Op == Context || l.Op == op {
			out = append(out, l)
		}
	}
	return out
}

// File is the change of one file. Modes are git's: octal 100644, 100755,
// 120000 (symbolic link), 160000 (submodule); 0 when the diff does not say.
type File struct {
	Old      string `json:"old,omitempty"` // name without a/ prefix; "" when the file is new
	New      string `json:"new,omitempty"` // name without b/ prefix; "" when the file is deleted
	OldMode  uint32 `json:"old_mode,omitempty"`
	NewMode  uint32 `json:"new_mode,omitempty"`
	IsNew    bool   `json:"is_new,omitempty"`
	IsDelete bool   `json:"is_delete,omitempty"`
	IsRename bool   `json:"is_rename,omitempty"`
	IsCopy   bool   `json:"is_copy,omitempty"`
	IsBinary bool   `json:"is_binary,omitempty"`
	Added    int    `json:"added"`             // lines
	Deleted  int    `json:"deleted"`           // lines
	OldOID   string `json:"old_oid,omitempty"` // blob id of the index line, often abbreviated
	NewOID   string `json:"new_oid,omitempty"`
	Score    int    `json:"score,omitempty"` // similarity of a rename or copy, percent
	Hunks    []Hunk `json:"hunks,omitempty"`
	Line     int    `json:"line"` // 1-based line of the file's header in the text given to Parse

	// Notes are oddities that do not keep the diff from being read.
	Notes []string `json:"notes,omitempty"`

	binary      *binaryPatch // nil without data
	traditional bool         // "---"/"+++" only: creation and deletion are guessed, as git does
	headerCR    bool         // the header lines end in CRLF
	rawOld      string       // names as written, before any strip level
	rawNew      string
}

// Path is the name to show for the file: the new one, or the old one of a
// deleted file.
func (f *File) Path() string {
	if f.New != "" {
		return f.New
	}
	return f.Old
}

// ParseError is a diff that cannot be read. Class is Corrupt, or
// WhitespaceDamage when the damage is of the kind that mail programs do.
type ParseError struct {
	Line   int    // 1-based line of the text given to Parse
	File   string // file whose diff is damaged; "" when unknown
	Hunk   string // header of the damaged hunk; "" when it is not in a hunk
	Reason string // what is wrong
	Hint   string // what to do about it; may be ""
	Class  Class
}

func (e *ParseError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "line %d of the diff", e.Line)
	if e.File != "" {
		fmt.Fprintf(&b, " (%s)", e.File)
	}
	b.WriteString(": " + e.Reason)
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}
