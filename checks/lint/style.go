// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"patchcheck/checks"
	"patchcheck/patches/diff"
)

// What is longer than people write is not looked at, so that a diff made to
// cost time costs none.
const (
	signatureLines = 30
	commentLines   = 300
	mostDecls      = 60
)

// newLine is a line of the new side of a hunk.
type newLine struct {
	n    int // 1-based line of the new file
	text string
	add  bool
}

func newSide(h *diff.Hunk) []newLine {
	out := make([]newLine, 0, len(h.Lines))
	n := h.NewStart
	for _, ln := range h.Lines {
		if ln.Op == diff.Delete {
			continue
		}
		out = append(out, newLine{n, ln.Text, ln.Op == diff.Add})
		n++
	}
	return out
}

var (
	bugCall   = regexp.MustCompile(`\bBUG(?:_ON)?\s*\(`)
	comment   = regexp.MustCompile(`^\s*(?:\*|/\*|//)`)
	signature = regexp.MustCompile(`^[A-Za-z_][\w \t*]*\(|^[A-Za-z_][\w \t*]*$`)
	funcName  = regexp.MustCompile(`([A-Za-z_]\w*)\s*\(`)
	// decl is a declaration of local variables on one line, as coding-style.rst
	// has it: one tab, type, names.
	decl     = regexp.MustCompile(`^\t(?:(?:static|const|volatile|register|unsigned|signed|__maybe_unused)\s+)*(?:(?:struct|union|enum)\s+\w+|unsigned|signed|int|long|short|char|bool|float|double|void|size_t|ssize_t|loff_t|pgoff_t|gfp_t|umode_t|dev_t|sector_t|dma_addr_t|phys_addr_t|s?u?int\d+_t|[su]\d+|__[bl]e\d+|__[su]\d+|__be32|[a-z]\w*_t)\b(?:\s+(?:long|int|short|char|const|unsigned))*[\s*]+\w[^;(]*(?:=.*)?;\s*$`)
	declName = regexp.MustCompile(`(\w+)\s*(?:\[[^\]]*\]\s*)?(?:=|,|;)`)
	returnE  = regexp.MustCompile(`\breturn\s+-E[A-Z0-9]+\s*;`)
)

// style applies the rules about added code. Only what the diff shows whole is
// judged.
func (l *linter) style() {
	l.bugs()
	for _, f := range l.p.Files {
		ext := path.Ext(f.Path())
		if ext != ".c" && ext != ".h" || strings.Contains(f.Path(), "_gen.") {
			continue // generated code follows its generator
		}
		var mine []*Profile
		for _, pr := range l.profiles {
			if pr.match(f.Path()) {
				mine = append(mine, pr)
			}
		}
		use := l.use
		l.use = mine
		for i := range f.Hunks {
			h := &f.Hunks[i]
			lines := newSide(h)
			l.functions(f, lines)
			l.variableOrder(f, lines)
			l.errnoOnWire(f, h, lines)
		}
		l.use = use
	}
}

// bugs counts BUG() on both sides: moving one is no new one.
func (l *linter) bugs() {
	balance := 0
	var w checks.Where
	var ev []string
	for _, f := range l.p.Files {
		if path.Ext(f.Path()) != ".c" && path.Ext(f.Path()) != ".h" || strings.HasPrefix(f.Path(), "tools/") {
			continue
		}
		for i := range f.Hunks {
			n := f.Hunks[i].NewStart
			for _, ln := range f.Hunks[i].Lines {
				if bugCall.MatchString(ln.Text) && !comment.MatchString(ln.Text) && !strings.Contains(ln.Text, "define BUG") {
					switch ln.Op {
					case diff.Add:
						balance++
						if w.File == "" {
							w = checks.Where{File: f.Path(), Line: n}
						}
						ev = append(ev, fmt.Sprintf("%s:%d: %s", f.Path(), n, strings.TrimSpace(ln.Text)))
					case diff.Delete:
						balance--
					}
				}
				if ln.Op != diff.Delete {
					n++
				}
			}
		}
	}
	if balance > 0 {
		l.at("style.new-bug", w, ev, "the patch adds %s that can bring the whole machine down", plural(balance, "BUG"))
	}
}

// functions looks at functions that the patch adds.
func (l *linter) functions(f *diff.File, lines []newLine) {
	doc, names := l.on("style.kernel-doc"), l.on("style.function-name")
	if !doc && !names || path.Ext(f.Path()) != ".c" {
		return
	}
	for i, ln := range lines {
		if ln.text != "{" || !ln.add || i == 0 || !lines[i-1].add || !strings.Contains(lines[i-1].text, ")") {
			continue
		}
		start := i - 1
		for start > 0 && i-start < signatureLines && lines[start-1].add && lines[start-1].text != "" && !strings.HasPrefix(lines[start-1].text, "}") &&
			!strings.HasPrefix(lines[start-1].text, "#") && !strings.HasSuffix(lines[start-1].text, "*/") && !strings.HasSuffix(lines[start-1].text, ";") && !strings.HasSuffix(lines[start-1].text, "\\") {
			start--
		}
		var sig strings.Builder
		for _, s := range lines[start:i] {
			sig.WriteString(strings.TrimSpace(s.text) + " ")
		}
		text := sig.String()
		m := funcName.FindStringSubmatch(text)
		if m == nil || !signature.MatchString(lines[start].text) {
			continue
		}
		name := m[1]
		if strings.ToUpper(name) == name { // SYSCALL_DEFINE3(...), TRACE_EVENT(...)
			continue
		}
		static := strings.Contains(" "+text[:strings.Index(text, name)], " static ")
		w := checks.Where{File: f.Path(), Line: lines[start].n}
		if doc && !static && !strings.Contains(text, "__init") && !strings.Contains(text, "__exit") && !documented(lines, start) {
			l.at("style.kernel-doc", w, []string{strings.TrimSpace(text)}, "%s() is not static and has no kernel-doc comment", name)
		}
		if names && !static {
			l.functionName(f, w, name)
		}
	}
}

// documented says that a function has a kernel-doc comment directly above, or
// that the diff does not show what is above.
func documented(lines []newLine, start int) bool {
	i := start - 1
	if i < 0 {
		return true
	}
	if !strings.HasSuffix(strings.TrimSpace(lines[i].text), "*/") {
		return false
	}
	for top := max(i-commentLines, 0); i >= top; i-- {
		t := strings.TrimSpace(lines[i].text)
		if strings.HasPrefix(t, "/*") {
			return strings.HasPrefix(t, "/**")
		}
	}
	return true
}

func (l *linter) functionName(f *diff.File, w checks.Where, name string) {
	for _, pr := range l.use {
		for _, n := range pr.FunctionNames {
			if !n.match(f.Path()) {
				continue
			}
			if n.re == nil || n.re.MatchString(name) {
				return
			}
			l.at("style.function-name", w, []string{name}, "%s() does not begin with %s", name, n.Say)
			return
		}
	}
}

// variableOrder looks at the declarations at the head of a function: an added
// one must not be longer than the one above it.
func (l *linter) variableOrder(f *diff.File, lines []newLine) {
	if !l.on("style.variable-order") {
		return
	}
	for i, ln := range lines {
		if ln.text != "{" {
			continue
		}
		var block []newLine
		for _, d := range lines[i+1:] {
			if len(block) == mostDecls || len(d.text) > 200 || !decl.MatchString(d.text) {
				break
			}
			block = append(block, d)
		}
		if len(block) < 2 {
			continue
		}
		if bad := outOfOrder(block); bad > 0 {
			l.at("style.variable-order", checks.Where{File: f.Path(), Line: block[bad].n},
				[]string{block[bad-1].text, block[bad].text}, "the declaration is longer than the one above it (reverse Christmas tree order)")
		}
	}
}

// outOfOrder gives the index of the first added declaration that breaks the
// order, or 0. A block whose old lines are not in order has another custom,
// and an initialiser that needs an earlier variable is a reason.
func outOfOrder(block []newLine) int {
	old := 1 << 20
	oldOrdered := true
	for _, d := range block {
		if d.add {
			continue
		}
		w := width(d.text)
		if w > old {
			oldOrdered = false
		}
		old = w
	}
	if !oldOrdered {
		return 0
	}
	for i := 1; i < len(block); i++ {
		if !block[i].add && !block[i-1].add || width(block[i].text) <= width(block[i-1].text) {
			continue
		}
		if !block[i].add { // the added one above is too short for its place
			if needs(block, i) || needs(block, i-1) {
				continue
			}
			return i
		}
		if needs(block, i) {
			continue
		}
		return i
	}
	return 0
}

// needs says that the initialiser of a declaration uses a variable declared
// above it.
func needs(block []newLine, i int) bool {
	_, init, ok := strings.Cut(block[i].text, "=")
	if !ok {
		return false
	}
	for _, d := range block[:i] {
		head, _, _ := strings.Cut(d.text, "=")
		for _, m := range declName.FindAllStringSubmatch(strings.TrimRight(head, "; \t")+";", -1) {
			if regexp.MustCompile(`\b` + m[1] + `\b`).MatchString(init) {
				return true
			}
		}
	}
	return false
}

// width is the column that a line reaches, tabs at 8.
func width(s string) int {
	n := 0
	for _, r := range s {
		if r == '\t' {
			n += 8 - n%8
			continue
		}
		n++
	}
	return n
}

// errnoOnWire finds "return -EINVAL" in a function that returns a protocol
// status. The function is known by the hunk's section or by its own lines.
func (l *linter) errnoOnWire(f *diff.File, h *diff.Hunk, lines []newLine) {
	if !l.on("style.errno-on-wire") {
		return
	}
	be := strings.Contains(h.Section, "__be32") && strings.Contains(h.Section, "(")
	fn := h.Section
	for i, ln := range lines {
		t := ln.text
		if t != "" && t[0] != ' ' && t[0] != '\t' && t[0] != '{' && t[0] != '}' && t[0] != '#' && t[0] != '/' && t[0] != '*' && !strings.HasSuffix(t, ":") {
			whole := t
			if i > 0 && !strings.Contains(t[:max(strings.IndexByte(t, '('), 0)], " ") {
				whole = lines[i-1].text + " " + t // the type stands on a line of its own
			}
			if strings.Contains(t, "(") {
				head, _, _ := strings.Cut(whole, "(")
				be, fn = strings.Contains(head, "__be32"), whole
			}
			continue
		}
		if be && ln.add && returnE.MatchString(t) {
			l.at("style.errno-on-wire", checks.Where{File: f.Path(), Line: ln.n}, []string{fn, t}, "a function that returns a protocol status returns a local error code: %s", strings.TrimSpace(t))
		}
	}
}
