// SPDX-License-Identifier: Apache-2.0

package warnings

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// maxLine bounds one line of a log, in bytes. A longer one is cut: no tool
// prints a diagnostic of that length.
const maxLine = 64 << 10

// Parser reads build logs. The zero value works.
type Parser struct {
	// Roots are folders whose paths are cut off: the source tree, the object
	// folder. Without them the source folder is guessed from the log.
	Roots []string
}

// Parse reads a build log with a zero Parser.
func Parse(r io.Reader) (Log, error) { return (&Parser{}).Parse(r) }

// Parse reads a build log. The only errors are those of r; a log that is cut
// off or damaged gives what can be read from it.
func (p *Parser) Parse(r io.Reader) (Log, error) {
	s := &scanner{
		log: Log{
			Objects: map[string]bool{}, Steps: map[string]bool{}, Checked: map[string]bool{},
			Flags: map[string][]string{}, MakeVars: map[string]string{},
		},
		fn: map[string]string{}, unread: map[string]bool{}, unitOf: map[string]string{}, checked: map[string]bool{},
		kdoc: map[string]bool{}, last: -1,
	}
	for _, root := range p.Roots {
		if root = strings.TrimRight(root, "/"); root != "" {
			s.roots = append(s.roots, root)
		}
	}
	br := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := br.ReadSlice('\n')
		text := string(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = br.ReadSlice('\n')
		}
		if len(text) > 0 {
			s.log.Truncated = text[len(text)-1] != '\n'
			for _, l := range cleanLines(text) {
				s.line(l)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return s.log, fmt.Errorf("cannot read the build log: %w", err)
		}
	}
	s.finish()
	return s.log, nil
}

// ParseString is Parse for a log in memory.
func ParseString(text string) Log {
	l, _ := Parse(strings.NewReader(text)) // a strings.Reader does not fail
	return l
}

var (
	reANSI  = regexp.MustCompile("\x1b(?:\\[[0-9;?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[@-Z\\\\-_])")
	reStamp = regexp.MustCompile(`^(?:\[ *\d+\.\d+\] |\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)? )`)
	reGlued = regexp.MustCompile(`  (?:CC|AS|LD|AR|CHECK|HOSTCC)(?: \[M\])? +[\w./+-]+\.(?:o|c|S|a|ko)$`)
)

// cleanLines takes colour, carriage returns, CI time stamps and foreign
// quotes off a line, and splits off a kbuild step that another job's output
// was glued to. What stays is valid to compare and to show.
func cleanLines(l string) []string {
	l = strings.TrimRight(l, "\r\n")
	if strings.IndexByte(l, 0x1b) >= 0 {
		l = reANSI.ReplaceAllString(l, "")
	}
	if i := strings.LastIndexByte(l, '\r'); i >= 0 {
		l = l[i+1:]
	}
	ascii := true
	for i := 0; i < len(l); i++ {
		if c := l[i]; c >= 0x80 || c < ' ' && c != '\t' || c == 0x7f {
			ascii = false
			break
		}
	}
	if !ascii {
		l = strings.ToValidUTF8(l, "?")
		l = quotes.Replace(l)
		l = strings.Map(func(r rune) rune {
			if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 {
				return -1
			}
			return r
		}, l)
	}
	if len(l) > 12 && (l[0] == '[' || l[0] == '2') {
		if m := reStamp.FindString(l); m != "" {
			l = l[len(m):]
		}
	}
	l = strings.TrimPrefix(l, ">> ")
	if i := strings.Index(l, "  "); i > 0 && !strings.HasPrefix(l, " ") {
		if m := reGlued.FindStringIndex(l); m != nil && m[0] > 0 {
			return []string{l[:m[0]], l[m[0]:]}
		}
	}
	return []string{l}
}

var quotes = strings.NewReplacer("\u2018", "'", "\u2019", "'", "\u201c", `"`, "\u201d", `"`)

// scanner is the state of one Parse.
type scanner struct {
	log   Log
	roots []string
	abs   map[string]int // absolute paths seen, for guessRoots

	chain     []string          // "In file included from" lines not yet used
	chainOpen bool              // the last of them ended in a comma
	inFunc    place             // the latest "In function" line
	fn        map[string]string // file -> function of its latest "In function"
	unread    map[string]bool   // file -> that line has had no diagnostic yet
	unitOf    map[string]string // header -> unit of its latest include chain
	checked   map[string]bool   // sources that CHECK was printed for since their CC
	kdoc      map[string]bool   // kernel-doc lines seen: each comes twice
	object    string            // of the latest CC line
	step      string            // latest MODPOST or LD vmlinux
	last      int               // index of the latest diagnostic, -1: none
	lastNote  bool              // the latest item was a note of it
	ldCtx     place             // "ld: a.o: in function `f':"
	rust      *Diagnostic       // rustc message waiting for its "-->" line
	unmet     bool              // Kconfig details follow
	gcc       int               // evidence for gcc, clang
	clang     int
	built     string // "The kernel was built by:" line
}

type place struct{ file, name string }

var (
	reStep    = regexp.MustCompile(`^(?:  |# )([A-Z][A-Z0-9_]+)(?: \[[A-Z]+\])? +([\w./+~@-]+)`)
	reMake    = regexp.MustCompile(`^g?make(?:\[\d+\])?: +(.*)$`)
	reMakeErr = regexp.MustCompile(`^\*\*\* \[(?:[^\]]*: )?([^\]:]+)\] (?:Error \d+|Killed|Terminated|Segmentation fault|Interrupt).*$`)
	reGeneric = regexp.MustCompile(`^([^\s:()'"` + "`" + `]+|<[a-z -]+>|\{standard input\}):(\d+)(?::(\d+))?: ?(fatal error|error|warning|note|Error|Warning|Fatal error|sorry, unimplemented|internal compiler error|syntax error|WARNING|ERROR|CRITICAL|SEVERE): ?(.*)$`)
	reNoPlace = regexp.MustCompile(`^((?:[\w.+-]*/)*[\w.+-]+): (fatal error|error|warning|note|internal compiler error): (.*)$`)
	reObjtool = regexp.MustCompile(`^(\S+\.k?o): (?:(warning|error): )?objtool: (.*)$`)
	reObjFn   = regexp.MustCompile(`^([\w.$]+)(?:\(\))?(?:\+0x[0-9a-f]+)?(?:\(\))?: (.*)$`)
	reInFunc  = regexp.MustCompile(`^(\S+?): In (?:member |static member )?(?:function|constructor|destructor|instantiation of) '([^']*)'([:,])$`)
	reInlined = regexp.MustCompile(`^ +inlined from '([^']*)' at ([^:\s]+):\d+(?::\d+)?([:,])$`)
	reAtTop   = regexp.MustCompile(`^(?:(\S+?): )?At top level:$`)
	reInclude = regexp.MustCompile(`^(?:In file included from| {4,}from) ([^\s:]+|<[a-z -]+>)(?::(\d+))?(?::\d+)?([:,]?)$`)
	reSparseI = regexp.MustCompile(`^(\S+): (?:sparse: )*note: in included file(?: \(through ([^)]*)\))?:?`)
	reDetail  = regexp.MustCompile(`^([^\s:]+):(\d+):(\d+): (?:sparse: )* *(\S.*)$`)
	reSparse  = regexp.MustCompile(`^([^\s:]+):(\d+):(\d+): (?:sparse: )+(?:(warning|error): (?:sparse: )*)?(\S.*)$`)
	reKdoc    = regexp.MustCompile(`^(Warning|Error): ([^\s:]+):(\d+):? (.*)$`)
	reModpost = regexp.MustCompile(`^(WARNING|ERROR|FATAL): modpost: (.*)$`)
	reOldPost = regexp.MustCompile(`^(WARNING|ERROR): ((?:\S+\.k?o)?\([.\w+]+\): Section mismatch.*|\S+: Section mismatch.*|\S+\(.*\): Section mismatch.*|"[^"]+" \[\S+\] .*|module \S+ uses symbol .*)$`)
	reMismFn  = regexp.MustCompile(`(?:mismatch in reference: |reference from the (?:function|variable) )([\w.$]+)`)
	reUndef   = regexp.MustCompile("undefined reference to [`']([^']*)'|multiple definition of [`']([^']*)'|dangerous relocation|relocation truncated to fit|discarded (?:section|in section)")
	reLdIn    = regexp.MustCompile("^(?:(?:\\S*/)?\\S*ld(?:\\.\\w+)?: )?(\\S+?\\.(?:o|a|ko)(?:\\([^)]*\\))?): in function [`']([^']*)':$")
	reLd      = regexp.MustCompile(`^((?:\S*/)?(?:[\w.+-]+-)?ld(?:\.\w+)?(?:-\d+)?): (.*)$`)
	reSphinx  = regexp.MustCompile(`^(?:(\S+):(\d+): )?([^\s:]+)(?::(\d*))?: (WARNING|ERROR|CRITICAL|SEVERE): (.*)$`)
	reCocci   = regexp.MustCompile(`^([^\s:]+):(\d+):(\d+)-\d+: (WARNING|ERROR|alert)(?::| ) ?(.*)$`)
	reSmatch  = regexp.MustCompile(`^([^\s:]+):(\d+) ([\w.]+)\(\) (warn|error|warning): (.*)$`)
	reDTC     = regexp.MustCompile(`^([^\s:]+\.dtsi?):(\d+)\.(\d+)(?:-[\d.]+)?: (Warning|Error|ERROR)(?: \((\w+)\))?:? ?(.*)$`)
	reDTB     = regexp.MustCompile(`^([^\s:]+\.dtbo?): (Warning|ERROR) \((\w+)\): (.*)$`)
	reDTErr   = regexp.MustCompile(`^Error: ([^\s:]+\.dtsi?):(\d+)\.(\d+)(?:-[\d.]+)? (.*)$`)
	reSchema  = regexp.MustCompile(`^([^\s:]+\.(?:dtbo?|dts|yaml)): (\S+: \S.*)$`)
	reTwice   = regexp.MustCompile(`^([^\s:]+\.[chS]): (?:\d+ )?(\S+ (?:is included more than once|not needed)\.?)$`)
	reOther   = regexp.MustCompile(`^(WARNING|ERROR|Warning|Error|WARN|FAILED):? (\S.*)$`)
	reKconf   = regexp.MustCompile(`^([\w./+-]*(?:Kconfig[\w./+-]*|config[\w./+-]*)):(\d+): ?(warning|error|syntax error): ?(.*)$`)
	reKUnmet  = regexp.MustCompile(`^(?:WARNING|warning): ((?:unmet direct dependencies detected for \w+)|\(.*\) selects \w+ which has unmet direct dependencies .*)$`)
	reRust    = regexp.MustCompile(`^(warning|error)(?:\[(E\d+)\])?: (.*)$`)
	reArrow   = regexp.MustCompile(`^ *--> ([^\s:]+):(\d+):(\d+)$`)
	reRustEq  = regexp.MustCompile("^ *= note: `#\\[(?:warn|deny)\\(([\\w:-]+)\\)\\]`")
	reSource  = regexp.MustCompile(`^ *(\d+) \| ?(.*)$`)
	reTail    = regexp.MustCompile(`^\d+ (?:warning|error)s?(?: and \d+ errors?)? generated\.$`)
	reVersion = regexp.MustCompile(`(?:^|[\s"':])((?:[\w.+-]+-)?(?:gcc|clang|cc)(?:-\d+)? \([^)]*\) \d+\.\d+[^"]*|(?:[A-Za-z]+ )?clang version \d+[^"]*|gcc version \d+[^"]*|(?:[\w.+-]+-)?gcc(?:-\d+)? \(.*\) \d+\.\d+(?:\.\d+)?)"?$`)
	reCompile = regexp.MustCompile(`(?:^|[\s;])(?:ccache |distcc )?((?:\S*/)?(?:[\w.]+-)*(?:gcc|clang|cc)(?:-\d+)?) (-.*)$`)
	reOutObj  = regexp.MustCompile(` -o (\S+\.o)\b`)
	reMakeCmd = regexp.MustCompile(`^(?:[+$#>] ?)?(?:\S*/)?make((?: [^|;&]*)?)$`)
)

// line takes in one cleaned line.
func (s *scanner) line(l string) {
	if l == "" {
		s.rust = nil
		return
	}
	if s.kbuildStep(l) || s.makeLine(l) {
		return
	}
	// Almost every line left that matters holds a colon.
	colon := strings.IndexByte(l, ':') >= 0
	if s.chainLine(l) {
		return
	}
	if s.unmet && s.unmetDetail(l) {
		return
	}
	if colon {
		if s.rustLine(l) || s.kconfigLine(l) {
			return
		}
		if machineFailed(l) {
			s.log.Infra = append(s.log.Infra, l)
		}
		if reTail.MatchString(l) {
			s.clang++
			return
		}
		// Mails of robots indent the log.
		t := l
		if t[0] == ' ' && (strings.Contains(t, ": warning:") || strings.Contains(t, ": error:") || strings.Contains(t, ": note:") || strings.Contains(t, ": sparse:")) {
			t = strings.TrimLeft(t, " ")
		}
		if s.diagnostic(t) {
			return
		}
	} else if reTail.MatchString(l) {
		s.clang++
		return
	}
	s.identity(l)
	s.context(l)
}

// machineFailed tells a line that blames the build machine: no memory, no
// disk, a compiler that crashed, a clock that is wrong.
func machineFailed(l string) bool {
	for _, s := range []string{"Killed signal terminated program", "virtual memory exhausted", "No space left on device", "internal compiler error",
		"Cannot allocate memory", "out of memory allocating", "Clock skew detected", "signal 9", "Input/output error", "Read-only file system", "PLEASE submit a bug report"} {
		if strings.Contains(l, s) {
			return true
		}
	}
	return false
}

// kbuildStep takes "  CC [M]  fs/nfs/dir.o" and the "# CC ..." of V=1.
func (s *scanner) kbuildStep(l string) bool {
	if len(l) < 6 || !(l[0] == ' ' && l[1] == ' ' && l[2] >= 'A' && l[2] <= 'Z' || l[0] == '#' && l[1] == ' ') {
		return false
	}
	m := reStep.FindStringSubmatch(l)
	if m == nil {
		return false
	}
	target := cleanPath(m[2], s.roots)
	switch m[1] {
	case "CC", "AS", "RUSTC":
		if m[1] == "RUSTC" {
			if f := strings.Fields(l); len(f) > 0 {
				target = cleanPath(f[len(f)-1], s.roots)
			}
		}
		if !strings.HasSuffix(target, ".o") || path.IsAbs(target) {
			return true // a tool of the host, bounds.s, a preprocessed file
		}
		s.object = target
		s.log.Objects[target] = true
		stem := strings.TrimSuffix(target, ".o")
		for _, ext := range []string{".c", ".S", ".rs"} {
			delete(s.checked, stem+ext)
			delete(s.fn, stem+ext)
		}
		if f, _, _ := strings.Cut(s.inFunc.file, "."); f == stem {
			s.inFunc = place{}
		}
	case "CHECK":
		src := target
		s.checked[src] = true
		if obj := objectOf(src); obj != "" {
			s.log.Checked[obj] = true
			s.object = obj
		}
		s.inFunc = place{}
	case "MODPOST", "OBJTOOL":
		s.step = target
		s.log.Steps[target] = true
	case "LD":
		s.step = target
		s.log.Steps[target] = true
	case "HOSTCC", "HOSTLD", "AR", "CALL", "DESC", "DESCEND", "GEN", "UPD", "SYNC", "LINK", "LDS", "WRAP", "SYSHDR",
		"SYSTBL", "HYPERCALLS", "OBJCOPY", "EXPORTS", "NM", "SORTTAB", "KSYMS", "KSYM", "BTF", "BTFIDS", "VDSO",
		"RELOCS", "CPUSTR", "MKPIGGY", "ZOFFSET", "VOFFSET", "BUILD", "INSTALL", "SYMLINK", "XZ", "GZIP", "DTC",
		"DTCO", "COPY", "ASN", "PERLASM", "TABLE", "UNROLL", "CPP", "MKCAP", "POLICY", "HEADER", "TEST", "HDRTEST",
		"CHK", "CONMK", "SHIPPED", "EXTRACT_CERTS", "MKREGTABLE", "INTERACTIVE", "SVGPDF", "SPHINX", "PARSE":
	default:
		return false
	}
	return true
}

// makeLine takes lines of make itself, and takes its prefix off others.
func (s *scanner) makeLine(l string) bool {
	if l[0] != 'm' && l[0] != 'g' && l[0] != '+' && l[0] != '$' && l[0] != '#' && l[0] != '>' {
		return false
	}
	if m := reMake.FindStringSubmatch(l); m != nil {
		rest := m[1]
		switch {
		case strings.HasPrefix(rest, "Entering directory"), strings.HasPrefix(rest, "Leaving directory"),
			strings.HasPrefix(rest, "Nothing to be done"), strings.Contains(rest, " is up to date."):
		case strings.HasPrefix(rest, "*** "):
			if e := reMakeErr.FindStringSubmatch(rest); e != nil {
				s.log.Failed = append(s.log.Failed, cleanPath(e[1], s.roots))
				if strings.Contains(rest, "Killed") || strings.HasSuffix(rest, "Error 137") {
					s.log.Infra = append(s.log.Infra, l)
				}
			} else if msg := strings.TrimPrefix(rest, "*** "); !strings.HasPrefix(msg, "Waiting for unfinished") && !strings.HasPrefix(msg, "Deleting file") && !strings.HasPrefix(msg, "[") {
				s.add(Diagnostic{Severity: SevError, Tool: Make, Message: msg, Raw: l})
			}
		case strings.HasPrefix(rest, "warning:"):
			if machineFailed(rest) {
				s.log.Infra = append(s.log.Infra, l)
			}
		default:
			s.line(rest)
		}
		return true
	}
	if m := reMakeCmd.FindStringSubmatch(l); m != nil && strings.Contains(l, "make ") {
		for _, w := range strings.Fields(m[1]) {
			if k, v, ok := strings.Cut(w, "="); ok && k == strings.ToUpper(k) && k != "" && k[0] != '-' {
				s.log.MakeVars[k] = strings.Trim(v, `"'`)
			}
		}
		return true
	}
	return false
}

// chainLine takes "In file included from", "In function" and their
// continuations.
func (s *scanner) chainLine(l string) bool {
	switch {
	case strings.HasPrefix(l, "In file included from "), s.chainOpen && strings.HasPrefix(l, "    "):
		m := reInclude.FindStringSubmatch(l)
		if m == nil {
			return false
		}
		// gcc puts a chain in one sentence, innermost file first; clang gives
		// each level a line of its own, outermost first.
		if l[0] == 'I' && m[3] != ":" {
			s.chain = nil
		}
		at := cleanPath(m[1], s.roots)
		s.sawPath(m[1])
		if m[2] != "" {
			at += ":" + m[2]
		}
		s.chain = append(s.chain, at)
		s.chainOpen = m[3] != ":"
		return true
	case strings.HasSuffix(l, ":") || strings.HasSuffix(l, ","):
		if m := reInlined.FindStringSubmatch(l); m != nil {
			// The function that the others were inlined into is where the
			// user looks; it is also what tells two call sites apart.
			s.inFunc = place{cleanPath(m[2], s.roots), normalFunction(functionName(m[1]))}
			s.fn[s.inFunc.file] = s.inFunc.name
			s.gcc++
			return true
		}
		if m := reInFunc.FindStringSubmatch(l); m != nil {
			s.gcc++
			s.inFunc = place{cleanPath(m[1], s.roots), normalFunction(functionName(m[2]))}
			s.fn[s.inFunc.file] = s.inFunc.name
			s.unread[s.inFunc.file] = true
			s.ldCtx = place{}
			return true
		}
		if m := reAtTop.FindStringSubmatch(l); m != nil {
			s.gcc++
			f := s.inFunc.file
			if m[1] != "" {
				f = cleanPath(m[1], s.roots)
			}
			s.inFunc = place{f, ""}
			delete(s.fn, f)
			return true
		}
		if m := reLdIn.FindStringSubmatch(l); m != nil {
			s.ldCtx = place{cleanPath(m[1], s.roots), normalFunction(m[2])}
			return true
		}
		if strings.HasSuffix(l, ": Assembler messages:") {
			return true
		}
	}
	if m := reSparseI; strings.Contains(l, "note: in included file") {
		if g := m.FindStringSubmatch(l); g != nil {
			s.chain = nil
			if g[2] != "" {
				for _, f := range strings.Split(g[2], ", ") {
					s.chain = append(s.chain, cleanPath(f, s.roots))
				}
			}
			s.chain = append(s.chain, cleanPath(g[1], s.roots))
			s.chainOpen = false
			s.inFunc = place{}
			return true
		}
	}
	return false
}

func functionName(f string) string {
	// g++ and clang print the whole signature.
	if i := strings.IndexByte(f, '('); i > 0 {
		f = f[:i]
		if j := strings.LastIndexAny(f, " *&"); j >= 0 {
			f = f[j+1:]
		}
	}
	return f
}

func (s *scanner) kconfigLine(l string) bool {
	if l[0] == 'W' || l[0] == 'w' {
		if m := reKUnmet.FindStringSubmatch(l); m != nil {
			s.add(Diagnostic{Severity: SevWarning, Tool: Kconfig, Message: m[1], Raw: l})
			s.unmet = true
			return true
		}
	}
	if strings.Contains(l, "onfig") {
		if m := reKconf.FindStringSubmatch(l); m != nil {
			sev := SevError
			if m[3] == "warning" {
				sev = SevWarning
			}
			d := Diagnostic{File: m[1], Severity: sev, Tool: Kconfig, Message: m[4], Raw: l, plain: m[3] != "syntax error" && strings.Contains(l, ": "+m[3])}
			if m[4] == "" {
				d.Message = m[3]
			}
			d.Line, _ = strconv.Atoi(m[2])
			s.add(d)
			return true
		}
	}
	return false
}

// unmetDetail takes the lines below "unmet direct dependencies".
func (s *scanner) unmetDetail(l string) bool {
	t := strings.TrimSpace(l)
	if strings.HasPrefix(t, "Depends on [") || strings.HasPrefix(t, "Selected by [") || strings.HasPrefix(t, "Implied by [") || strings.HasPrefix(t, "- ") {
		d := &s.log.Diagnostics[s.last]
		d.Notes = append(d.Notes, Note{Message: t, Raw: l})
		return true
	}
	s.unmet = false
	return false
}

func (s *scanner) rustLine(l string) bool {
	if s.rust != nil {
		if m := reArrow.FindStringSubmatch(l); m != nil {
			d := *s.rust
			d.File = m[1]
			d.Line, _ = strconv.Atoi(m[2])
			d.Col, _ = strconv.Atoi(m[3])
			s.rust = nil
			s.add(d)
			return true
		}
	}
	if s.last >= 0 && s.log.Diagnostics[s.last].Tool == Rustc {
		if m := reRustEq.FindStringSubmatch(l); m != nil {
			if d := &s.log.Diagnostics[s.last]; d.Flag == "" {
				d.Flag = m[1]
			}
			return true
		}
	}
	if l[0] != 'w' && l[0] != 'e' {
		return false
	}
	m := reRust.FindStringSubmatch(l)
	if m == nil || reKUnmet.MatchString(l) {
		return false
	}
	if strings.Contains(m[3], "generated ") || strings.Contains(m[3], "warnings emitted") || strings.Contains(m[3], "warning emitted") ||
		strings.HasPrefix(m[3], "aborting due to") || strings.HasPrefix(m[3], "could not compile") {
		return true
	}
	s.rust = &Diagnostic{Severity: Severity(m[1]), Tool: Rustc, Flag: m[2], Message: m[3], Raw: l}
	return true
}

// diagnostic takes a line that is a diagnostic or a note.
func (s *scanner) diagnostic(l string) bool {
	switch l[0] {
	case 'W', 'E', 'F':
		if strings.HasPrefix(l, "WARNING: ") && strings.HasSuffix(l, " is missing.") {
			return true // modpost without vmlinux.o
		}
		if m := reKdoc.FindStringSubmatch(l); m != nil {
			d := Diagnostic{File: m[2], Severity: SevWarning, Tool: KernelDoc, Message: m[4], Raw: l}
			if m[1] == "Error" {
				d.Severity = SevError
				if dt := reDTErr.FindStringSubmatch(l); dt != nil {
					d.Tool = DTC
				}
			}
			d.Line, _ = strconv.Atoi(m[3])
			s.add(d)
			return true
		}
		if m := reModpost.FindStringSubmatch(l); m != nil {
			d := Diagnostic{Severity: SevError, Tool: Modpost, Message: m[2], Raw: l}
			if m[1] == "WARNING" {
				d.Severity = SevWarning
			}
			if f := reMismFn.FindStringSubmatch(m[2]); f != nil {
				d.Function = normalFunction(f[1])
			}
			s.add(d)
			return true
		}
		if m := reOldPost.FindStringSubmatch(l); m != nil {
			d := Diagnostic{Severity: SevWarning, Tool: Modpost, Message: m[2], Raw: l}
			if m[1] == "ERROR" {
				d.Severity = SevError
			}
			if f := reMismFn.FindStringSubmatch(m[2]); f != nil {
				d.Function = normalFunction(f[1])
			}
			s.add(d)
			return true
		}
		if m := reDTErr.FindStringSubmatch(l); m != nil {
			d := Diagnostic{File: m[1], Severity: SevError, Tool: DTC, Message: m[4], Raw: l}
			d.Line, _ = strconv.Atoi(m[2])
			d.Col, _ = strconv.Atoi(m[3])
			s.add(d)
			return true
		}
	}
	if strings.Contains(l, "objtool:") {
		if m := reObjtool.FindStringSubmatch(l); m != nil {
			d := Diagnostic{File: m[1], Severity: SevWarning, Tool: Objtool, Message: m[3], Raw: l, Object: cleanPath(m[1], s.roots)}
			if m[2] == "error" {
				d.Severity = SevError
			}
			if f := reObjFn.FindStringSubmatch(m[3]); f != nil {
				d.Function = normalFunction(f[1])
				d.Message = m[3]
			}
			s.add(d)
			return true
		}
	}
	if strings.Contains(l, ": sparse: ") {
		// The robot's own form; it leaves the severity out as a rule.
		if m := reSparse.FindStringSubmatch(l); m != nil {
			d := Diagnostic{File: m[1], Severity: SevWarning, Tool: Sparse, Message: m[5], Raw: l}
			if m[4] == "error" {
				d.Severity = SevError
			}
			d.Line, _ = strconv.Atoi(m[2])
			d.Col, _ = strconv.Atoi(m[3])
			s.add(d)
			return true
		}
	}
	if m := reGeneric.FindStringSubmatch(l); m != nil {
		if m[4] == "WARNING" || m[4] == "ERROR" || m[4] == "CRITICAL" || m[4] == "SEVERE" {
			if g := reSphinx.FindStringSubmatch(l); g != nil {
				return s.sphinx(g, l)
			}
		}
		return s.generic(m, l)
	}
	if s.linker(l) {
		return true
	}
	if strings.Contains(l, ": WARNING") || strings.Contains(l, ": ERROR") || strings.Contains(l, ": CRITICAL") || strings.Contains(l, ": SEVERE") || strings.Contains(l, ": alert") {
		if m := reCocci.FindStringSubmatch(l); m != nil {
			d := Diagnostic{File: m[1], Severity: SevWarning, Tool: Cocci, Message: m[5], Raw: l}
			if m[4] == "ERROR" {
				d.Severity = SevError
			}
			d.Line, _ = strconv.Atoi(m[2])
			d.Col, _ = strconv.Atoi(m[3])
			s.add(d)
			return true
		}
		if m := reSphinx.FindStringSubmatch(l); m != nil {
			return s.sphinx(m, l)
		}
	}
	if strings.Contains(l, "() ") {
		if m := reSmatch.FindStringSubmatch(l); m != nil {
			d := Diagnostic{File: m[1], Severity: SevWarning, Tool: Smatch, Message: m[5], Function: normalFunction(m[3]), Raw: l}
			if m[4] == "error" {
				d.Severity = SevError
			}
			d.Line, _ = strconv.Atoi(m[2])
			s.add(d)
			return true
		}
	}
	if strings.Contains(l, ".dts") || strings.Contains(l, ".dtb") {
		if m := reDTC.FindStringSubmatch(l); m != nil {
			d := Diagnostic{File: m[1], Severity: SevWarning, Tool: DTC, Flag: m[5], Message: m[6], Raw: l}
			if m[4] != "Warning" {
				d.Severity = SevError
			}
			d.Line, _ = strconv.Atoi(m[2])
			d.Col, _ = strconv.Atoi(m[3])
			s.add(d)
			return true
		}
		if m := reDTB.FindStringSubmatch(l); m != nil {
			d := Diagnostic{File: m[1], Severity: SevWarning, Tool: DTC, Flag: m[3], Message: m[4], Raw: l}
			if m[2] != "Warning" {
				d.Severity = SevError
			}
			s.add(d)
			return true
		}
	}
	if strings.Contains(l, ".dt") || strings.Contains(l, ".yaml: ") {
		if m := reSchema.FindStringSubmatch(l); m != nil && !strings.HasPrefix(m[2], "warning:") && !strings.HasPrefix(m[2], "error:") {
			s.add(Diagnostic{File: m[1], Severity: SevWarning, Tool: DTC, Message: m[2], Raw: l})
			return true
		}
	}
	if m := reNoPlace.FindStringSubmatch(l); m != nil {
		return s.noPlace(m, l)
	}
	if strings.HasSuffix(strings.TrimSuffix(l, "."), "included more than once") || strings.HasSuffix(l, "not needed.") {
		if m := reTwice.FindStringSubmatch(l); m != nil {
			s.add(Diagnostic{File: m[1], Severity: SevWarning, Tool: Script, Message: m[2], Raw: l})
			return true
		}
	}
	if l[0] == 'W' || l[0] == 'E' || l[0] == 'F' {
		// The many scripts of a build: "ERROR: Kernel configuration is
		// invalid.", "WARN: resolve_btfids: unresolved symbol x".
		if m := reOther.FindStringSubmatch(l); m != nil {
			d := Diagnostic{Severity: SevWarning, Tool: Script, Message: m[2], Raw: l}
			if m[1] == "ERROR" || m[1] == "Error" || m[1] == "FAILED" {
				d.Severity = SevError
			}
			s.add(d)
			return true
		}
	}
	// sparse repeats the place in front of what it expected and got.
	if m := reDetail.FindStringSubmatch(l); m != nil {
		for i := s.last; i >= 0 && i > s.last-8; i-- {
			d := &s.log.Diagnostics[i]
			if m[1] != d.File || m[2] != strconv.Itoa(d.Line) || m[3] != strconv.Itoa(d.Col) {
				continue
			}
			d.Notes = append(d.Notes, Note{File: m[1], Path: d.Path, Line: d.Line, Message: strings.Join(strings.Fields(m[4]), " "), Raw: l})
			d.Tool = Sparse
			d.Function = ""
			return true
		}
	}
	return false
}

func (s *scanner) sphinx(m []string, l string) bool {
	d := Diagnostic{File: m[3], Severity: SevWarning, Tool: Sphinx, Message: m[6], Raw: l}
	if m[5] != "WARNING" {
		d.Severity = SevError
	}
	d.Line, _ = strconv.Atoi(m[4])
	s.add(d)
	return true
}

var kdocPhrases = []string{
	"expecting prototype for ", "unction parameter or ", "Excess function parameter", "unction parameter '", "Excess struct member", "Excess enum value",
	"This comment starts with '/**'", "No description found", "missing initial short description", "contents before sections", "duplicate section name",
	"ncorrect use of kernel-doc", "wrong kernel-doc identifier", "cannot understand function prototype", "cannot understand prototype", "Cannot understand ", "' not described in ", "bad line:",
	"Cannot parse ", "description in '", "No description found for return value",
}

// generic takes FILE:LINE[:COL]: SEVERITY: MESSAGE.
func (s *scanner) generic(m []string, l string) bool {
	d := Diagnostic{File: m[1], Tool: Compiler, Message: m[5], Raw: l}
	d.Line, _ = strconv.Atoi(m[2])
	d.Col, _ = strconv.Atoi(m[3])
	switch m[4] {
	case "note":
		s.note(Note{File: m[1], Line: d.Line, Col: d.Col, Message: m[5], Raw: l})
		return true
	case "warning":
		d.Severity, d.plain = SevWarning, true
	case "error", "fatal error":
		d.Severity, d.plain = SevError, true
	case "Warning":
		d.Severity, d.Tool = SevWarning, Assembler
	case "Error", "Fatal error":
		d.Severity, d.Tool = SevError, Assembler
	case "WARNING":
		d.Severity = SevWarning
	default:
		d.Severity = SevError
	}
	if rest, ok := strings.CutPrefix(d.Message, "sparse: "); ok {
		d.Tool, d.Message, d.plain = Sparse, rest, false
	}
	if isDetail(d.Message) {
		return true
	}
	if d.Col == 0 && d.Tool == Compiler && !strings.HasSuffix(d.Message, "]") {
		for _, p := range kdocPhrases {
			if strings.Contains(d.Message, p) {
				d.Tool = KernelDoc
				break
			}
		}
	}
	s.add(d)
	return true
}

// isDetail tells the summary lines that some front ends print as diagnostics.
func isDetail(msg string) bool {
	return strings.HasPrefix(msg, "(Each undeclared identifier") || strings.HasPrefix(msg, "for each function it appears in")
}

// noPlace takes PROGRAM: SEVERITY: MESSAGE and FILE: SEVERITY: MESSAGE.
func (s *scanner) noPlace(m []string, l string) bool {
	prog := path.Base(m[1])
	if m[2] == "note" {
		s.note(Note{Message: m[3], Raw: l})
		return true
	}
	if strings.HasPrefix(m[3], "linker command failed") || strings.HasPrefix(m[3], "ld returned") {
		return true
	}
	d := Diagnostic{Severity: SevError, Tool: Compiler, Message: m[3], Raw: l}
	if m[2] == "warning" {
		d.Severity = SevWarning
	}
	switch {
	case reLd.MatchString(prog + ": x"):
		d.Tool = Linker
	case strings.ContainsRune(m[1], '/') || strings.HasSuffix(m[1], ".c") || strings.HasSuffix(m[1], ".o"):
		d.File = m[1]
	case strings.HasSuffix(prog, "modpost"):
		d.Tool = Modpost
	case prog == "as" || strings.HasSuffix(prog, "-as"):
		d.Tool = Assembler
	case prog == "dtc":
		d.Tool = DTC
	}
	s.add(d)
	return true
}

// linker takes the forms of GNU ld and lld that have no severity.
func (s *scanner) linker(l string) bool {
	if strings.Contains(l, "more undefined references to") {
		return true // how many more depends on what was printed before
	}
	if u := reUndef.FindStringSubmatch(l); u != nil {
		// Object, function and symbol are what is wrong; the section offset
		// and the cross compiler's prefix are not.
		d := Diagnostic{Severity: SevError, Tool: Linker, Raw: l}
		d.Message = u[0]
		rest := l[:strings.Index(l, u[0])]
		if m := reLd.FindStringSubmatch(strings.TrimRight(rest, " ")); m != nil {
			rest = m[2]
		}
		rest = strings.TrimSuffix(strings.TrimSpace(rest), ":")
		obj, fn := s.ldCtx.file, s.ldCtx.name
		if i := strings.Index(rest, ".o:"); i > 0 {
			// "a.o:(.rodata+0x84)" names its object itself.
			if o := cleanPath(rest[:i+2], s.roots); o != obj {
				obj, fn = o, ""
			}
			rest = rest[i+3:]
		}
		if f, n, ok := strings.Cut(rest, ":"); ok && f != "" {
			d.File = f
			if n, err := strconv.Atoi(n); err == nil {
				d.Line = n
			}
		}
		if d.Line == 0 {
			if i := strings.IndexByte(rest, '('); i >= 0 {
				sec, _, _ := strings.Cut(rest[i+1:], "+")
				d.Message += " in " + strings.TrimSuffix(sec, ")")
			}
			d.File = ""
		}
		d.Object, d.Function = obj, fn
		s.add(d)
		return true
	}
	if strings.HasPrefix(l, ">>> ") {
		s.note(Note{Message: l, Raw: l})
		return true
	}
	m := reLd.FindStringSubmatch(l)
	if m == nil {
		return false
	}
	d := Diagnostic{Severity: SevError, Tool: Linker, Message: m[2], Raw: l, Object: s.ldCtx.file}
	if w, ok := strings.CutPrefix(m[2], "warning: "); ok {
		d.Severity, d.Message = SevWarning, w
	} else if e, ok := strings.CutPrefix(m[2], "error: "); ok {
		d.Message = e
	} else if strings.HasPrefix(m[2], "NOTE:") || strings.HasPrefix(m[2], "note:") || strings.Contains(m[2], "in function") {
		return true
	}
	d.Object = ""
	s.add(d)
	return true
}

// note adds n to the diagnostic above it.
func (s *scanner) note(n Note) {
	s.chain, s.chainOpen = nil, false
	switch {
	case strings.HasPrefix(n.Message, "expanded from"):
		s.clang++
	case strings.HasPrefix(n.Message, "in expansion of macro"), strings.HasPrefix(n.Message, "in definition of macro"):
		s.gcc++
	}
	if s.last < 0 {
		return // its diagnostic is not in this log
	}
	s.sawPath(n.File)
	n.Path = cleanPath(n.File, s.roots)
	s.log.Diagnostics[s.last].Notes = append(s.log.Diagnostics[s.last].Notes, n)
	s.lastNote = true
}

// add completes d with what came before it and appends it.
func (s *scanner) add(d Diagnostic) {
	s.sawPath(d.File)
	d.Path = cleanPath(d.File, s.roots)
	if d.Flag == "" {
		_, d.Flag = splitFlag(d.Message)
	}
	if d.Tool == KernelDoc {
		// kbuild runs the checker twice for one object.
		k := d.Path + "\x00" + strconv.Itoa(d.Line) + "\x00" + d.Message
		if s.kdoc[k] {
			s.last = -1
			s.chain, s.chainOpen = nil, false
			return
		}
		s.kdoc[k] = true
	}
	switch d.Tool {
	case Compiler, Sparse, Assembler, KernelDoc:
		s.placeInUnit(&d)
	case Modpost:
		d.Object = s.step
		if d.Object == "" {
			d.Object = "Module.symvers"
		}
	case Linker:
		if d.Object == "" {
			d.Object = s.step
		}
	case Rustc:
		d.Object = objectOf(d.Path)
	}
	s.chain, s.chainOpen = nil, false
	s.log.Diagnostics = append(s.log.Diagnostics, d)
	s.last, s.lastNote = len(s.log.Diagnostics)-1, false
}

// placeInUnit finds the source file being compiled, the object and the
// function. With -j the lines of several compilers mix, so what is remembered
// is remembered by file.
func (s *scanner) placeInUnit(d *Diagnostic) {
	if len(s.chain) > 0 {
		d.Include = s.chain
		d.Unit, _, _ = strings.Cut(s.chain[len(s.chain)-1], ":")
		if !isUnit(d.Unit) {
			// clang's order is outermost first.
			if first, _, _ := strings.Cut(s.chain[0], ":"); isUnit(first) {
				d.Unit = first
				slices.Reverse(d.Include)
			}
		}
		if !isUnit(d.Unit) {
			d.Unit = ""
		}
		if d.Unit != "" && d.Unit != d.Path {
			s.unitOf[d.Path] = d.Unit
		}
	}
	if d.Unit == "" {
		switch {
		case isUnit(d.Path):
			d.Unit = d.Path
		case s.unitOf[d.Path] != "":
			d.Unit = s.unitOf[d.Path]
		}
	}
	d.Object = objectOf(d.Unit)
	if s.object != "" && (d.Object == "" || !s.log.Objects[d.Object] && path.Base(d.Object) == path.Base(s.object)) {
		// No include chain; or the object lies in another folder than its
		// source.
		d.Object = s.object
	}
	if d.Tool == Compiler && d.Flag == "" && s.checked[d.Unit] {
		d.Tool = Sparse
	}
	if d.Tool != Compiler {
		return
	}
	unread := s.unread[d.Path]
	delete(s.unread, d.Path)
	switch {
	case s.inFunc.file == d.Path:
		d.Function = s.inFunc.name
	case isUnit(d.Path), unread:
		d.Function = s.fn[d.Path]
	case s.inFunc.file != "" && (d.Unit == "" || s.inFunc.file == d.Unit || !isUnit(s.inFunc.file)):
		d.Function = s.inFunc.name
	case s.fn[d.Path] != "":
		d.Function = s.fn[d.Path]
	default:
		d.Function = s.fn[d.Unit]
	}
}

// isUnit tells a file that is compiled by itself from one that is included.
func isUnit(p string) bool {
	return strings.HasSuffix(p, ".c") || strings.HasSuffix(p, ".S") || strings.HasSuffix(p, ".rs")
}

func objectOf(src string) string {
	if !isUnit(src) {
		return ""
	}
	return strings.TrimSuffix(src, path.Ext(src)) + ".o"
}

func (s *scanner) sawPath(p string) {
	if path.IsAbs(p) {
		if s.abs == nil {
			s.abs = map[string]int{}
		}
		s.abs[p]++
	}
}

// context takes the source lines and carets below a diagnostic.
func (s *scanner) context(l string) {
	if s.last < 0 {
		return
	}
	if m := reSource.FindStringSubmatch(l); m != nil {
		n, _ := strconv.Atoi(m[1])
		// With -j the excerpt may come after another compiler's diagnostic.
		for i := s.last; i >= 0 && i > s.last-8; i-- {
			if d := &s.log.Diagnostics[i]; d.Line == n && d.Source == "" {
				d.Source = strings.TrimSpace(m[2])
				return
			}
		}
		return
	}
	d := &s.log.Diagnostics[s.last]
	if s.lastNote || d.Source != "" || len(d.Notes) > 0 || d.Tool != Compiler {
		return
	}
	t := strings.TrimSpace(l)
	if strings.HasPrefix(t, "cc1") || strings.HasPrefix(t, "compilation terminated") || strings.HasPrefix(t, "collect2") {
		return
	}
	if t == "" || strings.Trim(t, "^~| ") == "" {
		return
	}
	d.Source = t
}

// identity looks for the compiler, its flags and the make command line.
func (s *scanner) identity(l string) {
	if strings.Contains(l, "The kernel was built by:") || strings.Contains(l, "You are using:") {
		_, v, _ := strings.Cut(l, ":")
		if strings.Contains(l, "You are using:") || s.log.Compiler == "" {
			s.log.Compiler = strings.TrimSpace(v)
		}
		return
	}
	if s.log.Compiler == "" && (strings.Contains(l, "gcc") || strings.Contains(l, "clang")) && !strings.Contains(l, " -c ") {
		if m := reVersion.FindStringSubmatch(l); m != nil {
			s.log.Compiler = strings.TrimSpace(m[1])
			return
		}
	}
	if strings.Contains(l, " -c ") || strings.Contains(l, " -Wp,") {
		m := reCompile.FindStringSubmatch(l)
		o := reOutObj.FindStringSubmatch(l)
		if m == nil || o == nil {
			return
		}
		obj := cleanPath(o[1], s.roots)
		if path.IsAbs(obj) {
			return
		}
		s.log.Objects[obj] = true
		s.object = obj
		var flags []string
		for _, f := range strings.Fields(m[2]) {
			if strings.HasPrefix(f, "-W") && !strings.HasPrefix(f, "-Wp,") && !strings.HasPrefix(f, "-Wa,") && !strings.HasPrefix(f, "-Wl,") {
				flags = append(flags, f)
			}
		}
		s.log.Flags[obj] = flags
		if s.log.Dialect == "" {
			s.log.Dialect = "gcc"
			if strings.Contains(m[1], "clang") {
				s.log.Dialect = "clang"
			}
		}
	}
}

// finish cuts a guessed source folder off the absolute paths.
func (s *scanner) finish() {
	if s.log.Dialect == "" {
		switch {
		case s.clang > 0 && s.gcc == 0:
			s.log.Dialect = "clang"
		case s.gcc > 0 && s.clang == 0:
			s.log.Dialect = "gcc"
		}
	}
	roots := s.roots
	if len(s.abs) > 0 {
		roots = append(roots, guessRoots(s.abs)...)
		sort.Slice(roots, func(i, j int) bool { return len(roots[i]) > len(roots[j]) })
		for i := range s.log.Diagnostics {
			d := &s.log.Diagnostics[i]
			d.Path = cleanPath(d.File, roots)
			d.Unit = cleanPath(d.Unit, roots)
			d.Object = cleanPath(d.Object, roots)
			for j := range d.Include {
				d.Include[j] = cleanPath(d.Include[j], roots)
			}
			for j := range d.Notes {
				d.Notes[j].Path = cleanPath(d.Notes[j].File, roots)
			}
		}
	}
}
