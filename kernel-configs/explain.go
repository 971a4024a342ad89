// SPDX-License-Identifier: Apache-2.0

package kernelconfigs

import (
	"fmt"
	"path"
	"regexp"
	"sort"
	"strings"
)

// Explain fills in why symbols could not be had, from the tree's Kconfig files
// (kernel Documentation/kbuild/kconfig-language.rst). srcArch is the folder
// below arch/. read returns a file of the tree.
func Explain(miss []Missing, c Config, srcArch string, read func(string) ([]byte, error)) {
	k := &kconfig{read: read, arch: srcArch, defs: map[string][]*entry{}, selects: map[string][]selection{}, files: map[string]bool{}}
	k.file("Kconfig", nil)
	for i := range miss {
		miss[i].Reason = k.reason(&miss[i], c)
	}
}

// kconfig is what the tree's Kconfig files say, as far as reasons need it.
type kconfig struct {
	read    func(string) ([]byte, error)
	arch    string
	defs    map[string][]*entry
	selects map[string][]selection
	files   map[string]bool
}

// entry is one definition of a symbol.
type entry struct {
	file    string
	line    int
	depends []string // expressions: its own and those of the menus and ifs around it
	prompt  bool
	visible []string // conditions of the prompt alone
}

type selection struct{ by, cond string }

// block is an if, menu or choice around entries.
type block struct {
	depends []string
}

var (
	reSource   = regexp.MustCompile(`^(?:o|r|or)?source\s+"([^"]+)"`)
	reEntry    = regexp.MustCompile(`^(?:menu)?config\s+([A-Za-z0-9_]+)`)
	reTypeLine = regexp.MustCompile(`^(?:bool|tristate|string|hex|int|prompt)\s+"(?:[^"\\]|\\.)*"(?:\s+if\s+(.*))?$`)
	reSelect   = regexp.MustCompile(`^(?:select)\s+([A-Za-z0-9_]+)(?:\s+if\s+(.*))?$`)
)

// maxKconfigFiles bounds the walk over a hostile tree.
const maxKconfigFiles = 10000

func (k *kconfig) file(name string, outer []string) {
	name = strings.NewReplacer("$(SRCARCH)", k.arch, "$(srctree)/", "", "$SRCARCH", k.arch).Replace(name)
	if path.Clean(name) != name || k.files[name] || len(k.files) >= maxKconfigFiles {
		return
	}
	k.files[name] = true
	b, err := k.read(name)
	if err != nil {
		return
	}
	lines := strings.Split(string(b), "\n")
	var stack []block
	var cur *entry
	curName := ""
	menu := false // depends lines go with the innermost block
	around := func() []string {
		d := append([]string(nil), outer...)
		for _, s := range stack {
			d = append(d, s.depends...)
		}
		return d
	}
	for i := 0; i < len(lines); i++ {
		n := i + 1
		raw := lines[i]
		for strings.HasSuffix(raw, "\\") && i+1 < len(lines) {
			i++
			raw = strings.TrimSuffix(raw, "\\") + " " + lines[i]
		}
		line := strings.TrimSpace(stripComment(raw))
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "":
		case word == "help" || line == "---help---":
			i = skipHelp(lines, i)
		case reEntry.MatchString(line):
			curName = reEntry.FindStringSubmatch(line)[1]
			cur, menu = &entry{file: name, line: n, depends: around()}, false
			k.defs[curName] = append(k.defs[curName], cur)
		case reSource.MatchString(line):
			cur = nil
			k.file(reSource.FindStringSubmatch(line)[1], around())
		case word == "if":
			stack = append(stack, block{depends: []string{strings.TrimSpace(rest)}})
			cur, menu = nil, false
		case word == "menu" || word == "choice":
			stack = append(stack, block{})
			cur, menu = nil, true
		case word == "endif" || word == "endmenu" || word == "endchoice":
			if len(stack) > 0 {
				stack = stack[:len(stack)-1]
			}
			cur, menu = nil, false
		case word == "comment" || word == "mainmenu":
			cur, menu = nil, false
		case strings.HasPrefix(line, "depends on "):
			expr := strings.TrimSpace(strings.TrimPrefix(line, "depends on "))
			if cur != nil {
				cur.depends = append(cur.depends, expr)
			} else if menu && len(stack) > 0 {
				stack[len(stack)-1].depends = append(stack[len(stack)-1].depends, expr)
			}
		case cur != nil && reTypeLine.MatchString(line):
			cur.prompt = true
			if cond := reTypeLine.FindStringSubmatch(line)[1]; cond != "" {
				cur.visible = append(cur.visible, cond)
			}
		case cur != nil && reSelect.MatchString(line):
			m := reSelect.FindStringSubmatch(line)
			k.selects[m[1]] = append(k.selects[m[1]], selection{curName, m[2]})
		}
	}
}

func stripComment(s string) string {
	inQuote := false
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			inQuote = !inQuote
		case '#':
			if !inQuote {
				return s[:i]
			}
		}
	}
	return s
}

func indent(s string) int {
	n := 0
	for _, r := range s {
		switch r {
		case ' ':
			n++
		case '\t':
			n = n/8*8 + 8
		default:
			return n
		}
	}
	return n
}

// skipHelp returns the index of the last line of the help text that begins
// after line i: it ends where the indentation falls below its first line's.
func skipHelp(lines []string, i int) int {
	depth := -1
	for j := i + 1; j < len(lines); j++ {
		if strings.TrimSpace(lines[j]) == "" {
			continue
		}
		in := indent(lines[j])
		if depth < 0 {
			if in == 0 {
				return j - 1
			}
			depth = in
		}
		if in < depth {
			return j - 1
		}
	}
	return len(lines)
}

// reason explains one symbol.
func (k *kconfig) reason(m *Missing, c Config) string {
	defs := k.defs[m.Name]
	if len(defs) == 0 {
		return "this tree has no symbol of that name"
	}
	val := func(n string) string { return c[n] }
	if m.Value == "n" || m.Got != "n" {
		var by []string
		for _, s := range k.selects[m.Name] {
			if c[s.by] == "y" || c[s.by] == "m" {
				if s.cond == "" || eval(s.cond, val) != no {
					by = append(by, s.by)
				}
			}
		}
		sort.Strings(by)
		if len(by) > 0 && m.Value == "n" {
			return "selected by " + strings.Join(by[:min(3, len(by))], ", ")
		}
	}
	type verdict struct {
		unmet []string
		e     *entry
	}
	var best *verdict
	prompt := false
	for _, e := range defs {
		prompt = prompt || e.prompt
		v := verdict{e: e}
		for _, d := range append(append([]string(nil), e.depends...), e.visible...) {
			v.unmet = append(v.unmet, unmet(d, val)...)
		}
		if best == nil || len(v.unmet) < len(best.unmet) {
			best = &v
		}
	}
	if len(best.unmet) > 0 {
		return fmt.Sprintf("depends on %s, which does not hold (%s:%d)", strings.Join(unique(best.unmet), " and "), best.e.file, best.e.line)
	}
	if !prompt {
		var by []string
		for _, s := range k.selects[m.Name] {
			by = append(by, s.by)
		}
		by = unique(by)
		s := fmt.Sprintf("it cannot be set by hand (%s:%d)", best.e.file, best.e.line)
		if len(by) > 0 {
			s += "; selected by " + strings.Join(by[:min(4, len(by))], ", ")
		}
		return s
	}
	return fmt.Sprintf("its dependencies hold (%s:%d); another symbol of the same choice may have won, or the value is out of range", best.e.file, best.e.line)
}

func unique(s []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, x := range s {
		if !seen[x] {
			seen[x] = true
			out = append(out, x)
		}
	}
	return out
}

// unmet lists the parts of a conjunction that do not hold.
func unmet(expr string, val func(string) string) []string {
	var out []string
	for _, part := range splitAnd(expr) {
		if eval(part, val) == no {
			out = append(out, part)
		}
	}
	return out
}

// splitAnd cuts at && outside parentheses.
func splitAnd(s string) []string {
	depth, start := 0, 0
	var out []string
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth--
		case '|':
			if depth == 0 {
				return []string{strings.TrimSpace(s)} // || binds weaker: one part
			}
		case '&':
			if depth == 0 && i+1 < len(s) && s[i+1] == '&' {
				out = append(out, strings.TrimSpace(s[start:i]))
				start = i + 2
				i++
			}
		}
	}
	return append(out, strings.TrimSpace(s[start:]))
}

// tristate is a value of the Kconfig language. What make would have to find
// out, such as
// $(cc-option,...), counts as met, so that the blame goes elsewhere.
type tristate int

const (
	no tristate = iota
	mod
	yes
)

// eval computes an expression of the Kconfig language.
func eval(expr string, val func(string) string) tristate {
	p := &exprParser{toks: reToken.FindAllString(expr, -1), val: val}
	return p.or(0)
}

var reToken = regexp.MustCompile(`\$\((?:[^()]|\([^()]*\))*\)|&&|\|\||!=|<=|>=|[!=<>()]|"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_.-]+`)

type exprParser struct {
	toks []string
	pos  int
	val  func(string) string
}

func (p *exprParser) peek() string {
	if p.pos < len(p.toks) {
		return p.toks[p.pos]
	}
	return ""
}

func (p *exprParser) or(depth int) tristate {
	v := p.and(depth)
	for p.peek() == "||" {
		p.pos++
		v = max(v, p.and(depth))
	}
	return v
}

func (p *exprParser) and(depth int) tristate {
	v := p.not(depth)
	for p.peek() == "&&" {
		p.pos++
		v = min(v, p.not(depth))
	}
	return v
}

func (p *exprParser) not(depth int) tristate {
	if depth > 200 {
		p.pos = len(p.toks)
		return yes
	}
	switch t := p.peek(); t {
	case "!":
		p.pos++
		return yes - p.not(depth+1)
	case "(":
		p.pos++
		v := p.or(depth + 1)
		if p.peek() == ")" {
			p.pos++
		}
		return v
	case "":
		return yes
	default:
		p.pos++
		op := p.peek()
		switch op {
		case "=", "!=", "<", ">", "<=", ">=":
			p.pos++
			right := p.peek()
			p.pos++
			if strings.HasPrefix(t, "$") || strings.HasPrefix(right, "$") {
				return yes
			}
			return compare(p.text(t), op, p.text(right))
		}
		switch {
		case strings.HasPrefix(t, "$"):
			return yes
		case p.text(t) == "y":
			return yes
		case p.text(t) == "m":
			return mod
		}
		return no
	}
}

// text is the value of a word: a constant or a symbol.
func (p *exprParser) text(t string) string {
	switch {
	case strings.HasPrefix(t, `"`), strings.HasPrefix(t, "'"):
		return strings.Trim(t, `"'`)
	case t == "y", t == "m", t == "n":
		return t
	case strings.Trim(t, "-0123456789") == "" || strings.HasPrefix(t, "0x"):
		return t
	}
	v := strings.Trim(p.val(t), `"`)
	if v == "" {
		return "n"
	}
	return v
}

func compare(a, op, b string) tristate {
	var ok bool
	var x, y int64
	_, e1 := fmt.Sscan(a, &x)
	_, e2 := fmt.Sscan(b, &y)
	if e1 == nil && e2 == nil {
		switch op {
		case "<":
			ok = x < y
		case ">":
			ok = x > y
		case "<=":
			ok = x <= y
		case ">=":
			ok = x >= y
		case "=":
			ok = x == y
		case "!=":
			ok = x != y
		}
	} else {
		switch op {
		case "=":
			ok = a == b
		case "!=":
			ok = a != b
		case "<":
			ok = a < b
		case ">":
			ok = a > b
		case "<=":
			ok = a <= b
		case ">=":
			ok = a >= b
		}
	}
	if ok {
		return yes
	}
	return no
}
