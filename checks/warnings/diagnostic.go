// SPDX-License-Identifier: Apache-2.0

package warnings

import "strings"

// Severity of a diagnostic as its tool gave it.
type Severity string

const (
	SevError   Severity = "error"
	SevWarning Severity = "warning"
	SevNote    Severity = "note"
)

// Tool that printed a diagnostic. Compilers are one tool, since a log does not
// always tell gcc from clang; Log.Dialect does where it can.
type Tool string

const (
	Compiler  Tool = "cc"
	Sparse    Tool = "sparse"
	Smatch    Tool = "smatch"
	Cocci     Tool = "coccinelle"
	KernelDoc Tool = "kernel-doc"
	Sphinx    Tool = "sphinx"
	Modpost   Tool = "modpost"
	Objtool   Tool = "objtool"
	Linker    Tool = "ld"
	Assembler Tool = "as"
	Kconfig   Tool = "kconfig"
	DTC       Tool = "dtc"
	Rustc     Tool = "rustc"
	Make      Tool = "make"
	Script    Tool = "script" // one of the tree's many scripts
)

// Diagnostic is one complaint about the source.
type Diagnostic struct {
	File     string   `json:"file,omitempty"` // as printed
	Path     string   `json:"path,omitempty"` // relative to the source tree, cleaned
	Line     int      `json:"line,omitempty"` // 0: none
	Col      int      `json:"col,omitempty"`
	Severity Severity `json:"severity"`
	Flag     string   `json:"flag,omitempty"` // "-Wunused-variable", also when -Werror made it an error
	Message  string   `json:"message"`        // as printed, with the flag in brackets
	Function string   `json:"function,omitempty"`
	Tool     Tool     `json:"tool"`
	Unit     string   `json:"unit,omitempty"`    // source file that was being compiled, from the include chain
	Object   string   `json:"object,omitempty"`  // object file, "" when the log does not tell
	Include  []string `json:"include,omitempty"` // "file:line" of each #include, innermost first
	Notes    []Note   `json:"notes,omitempty"`
	Source   string   `json:"source,omitempty"` // the source line that the tool quoted
	Raw      string   `json:"raw"`              // the line of the log, cleaned

	plain bool // Raw has the form FILE:LINE[:COL]: SEVERITY: MESSAGE
}

// Note is a line that explains the diagnostic above it: "in expansion of
// macro", "previous definition is here".
type Note struct {
	File    string `json:"file,omitempty"`
	Path    string `json:"path,omitempty"`
	Line    int    `json:"line,omitempty"`
	Col     int    `json:"col,omitempty"`
	Message string `json:"message"`
	Raw     string `json:"raw"`
}

// key is what makes two diagnostics the same complaint, but for the function.
func (d *Diagnostic) key(path string) string {
	return strings.Join([]string{path, string(d.Severity), d.Flag, normalMessage(d)}, "\x00")
}

func (n *Note) key() string { return n.Path + "\x00" + normalText(n.Message) }

// expansion tells a note that says where the complaint comes from, not what to
// do about it.
func (n *Note) expansion() bool {
	return strings.HasPrefix(n.Message, "in expansion of macro") || strings.HasPrefix(n.Message, "expanded from macro")
}

// Log is what one build said.
type Log struct {
	Diagnostics []Diagnostic
	// Objects are the object files that were compiled or assembled for the
	// target, by their path in the object folder.
	Objects map[string]bool
	// Steps are the other targets whose diagnostics the log replaces:
	// "vmlinux.o", "Module.symvers".
	Steps map[string]bool
	// Checked are the objects whose source a checker (sparse) looked at.
	Checked map[string]bool
	// Failed are the targets that make gave up on.
	Failed []string
	// Infra are lines that say the machine failed, not the source: a compiler
	// killed, a full disk, an internal compiler error.
	Infra []string
	// Compiler is the compiler's version line, "" when the log has none.
	Compiler string
	// Dialect is "gcc" or "clang" where the form of the diagnostics tells.
	Dialect string
	// Flags are the warning flags of each object's command line; only logs of
	// V=1 have them.
	Flags map[string][]string
	// MakeVars are the assignments of a make command line that the log shows,
	// such as W=1.
	MakeVars map[string]string
	// Truncated says that the log ends in the middle of a line.
	Truncated bool
}

// stops tells a diagnostic that stops a build. Checkers have errors too, which
// stop nothing.
func (d *Diagnostic) stops() bool {
	if d.Severity != SevError {
		return false
	}
	switch d.Tool {
	case Sparse, Smatch, Cocci, KernelDoc, Sphinx:
		return false
	}
	return true
}

// Errors counts the diagnostics that stop a build.
func (l *Log) Errors() int { return countErrors(l.Diagnostics) }

func countErrors(ds []Diagnostic) int {
	n := 0
	for i := range ds {
		if ds[i].stops() {
			n++
		}
	}
	return n
}
