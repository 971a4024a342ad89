// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Symbol is an address as the kernel prints it with %pS: "name+offset/size
// [module]".
type Symbol struct {
	Name         string
	Offset, Size uint64 // bytes
	Module       string // "" for the kernel's own image
	// Trap says that the address is where a trap struck. All others are taken
	// for return addresses: the call is the instruction before them.
	Trap bool
}

func (s Symbol) String() string {
	t := fmt.Sprintf("%s+%#x/%#x", s.Name, s.Offset, s.Size)
	if s.Module != "" {
		t += " [" + s.Module + "]"
	}
	return t
}

// Position is a line of a kernel source.
type Position struct {
	File string `json:"file"` // relative to the tree, where it is in the tree
	Line int    `json:"line"` // 1-based
}

func (p Position) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// Positions holds the lines of each address, innermost first: what comes after
// the first one are the places that it was inlined into.
type Positions map[Symbol][]Position

var (
	// Only what the kernel prints itself, so that a log cannot hand anything
	// else to the shell script that decodes it.
	symbolRE = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_.]{0,199}\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8}(?: \[([A-Za-z0-9_-]{1,64})(?: [0-9a-f]{8,64})?\])?`)
	trapRE   = regexp.MustCompile(`(?:^|[ \]])(?:E?IP: |RIP: |EIP is at |PC is at |pc : |epc : |era[ :]|NIP |WARNING: )`)
)

// place is an address within a line of text.
type place struct {
	sym     Symbol
	at, end int  // bytes
	guess   bool // "? foo+0x1/0x2": a stale word on the stack
}

func placesIn(text string) []place {
	var out []place
	for _, m := range symbolRE.FindAllStringSubmatchIndex(text, -1) {
		if at := m[0]; at > 0 && (!strings.ContainsRune(" \t:(<{", rune(text[at-1])) || strings.HasSuffix(text[:at], "::")) {
			continue // the end of a name that is no C name
		}
		// A frame that somebody decoded before keeps what it has.
		if rest := text[m[1]:]; rest != "" && !strings.ContainsRune(" \t)>}.,:;", rune(rest[0])) || strings.HasPrefix(rest, " (") && sourceAt(rest[2:]) != "" {
			continue
		}
		head, _, _ := strings.Cut(text[m[0]:m[1]], " ")
		name, numbers, _ := strings.Cut(head, "+0x")
		off, size, _ := strings.Cut(numbers, "/0x")
		p := place{at: m[0], end: m[1], sym: Symbol{Name: name}}
		p.sym.Offset, _ = strconv.ParseUint(off, 16, 64) // eight digits at most
		p.sym.Size, _ = strconv.ParseUint(size, 16, 64)
		if m[2] >= 0 {
			p.sym.Module = text[m[2]:m[3]]
		}
		p.sym.Trap = trapRE.MatchString(text[:m[0]])
		p.guess = strings.HasSuffix(text[:m[0]], "? ")
		out = append(out, p)
	}
	return out
}

// Symbols lists the addresses in the first n lines of each report, each once,
// in the order of the log; n <= 0 means all lines.
func (r *Report) Symbols(n int) []Symbol {
	var out []Symbol
	seen := map[Symbol]bool{}
	for _, c := range r.Reports {
		for i, l := range c.Text {
			if n > 0 && i >= n {
				break
			}
			for _, p := range placesIn(l) {
				if !seen[p.sym] {
					seen[p.sym] = true
					out = append(out, p.sym)
				}
			}
		}
	}
	return out
}

// Decode puts file and line behind the addresses in the text of each report,
// and finds the line to look at first: the first frame in a file that prefer
// names, else where the trap struck. prefer may be nil. Reports that share
// their text with r keep theirs.
func (r *Report) Decode(at Positions, prefer func(file string) bool) {
	for i := range r.Reports {
		c := &r.Reports[i]
		c.At = c.site(at, prefer)
		c.Text, c.Last = decodeLines(c.Text, at), decodeLines(c.Last, at)
	}
}

func decodeLines(text []string, at Positions) []string {
	var out []string
	for i, l := range text {
		ps := placesIn(l)
		for j := len(ps) - 1; j >= 0; j-- {
			lines := at[ps[j].sym]
			if len(lines) == 0 {
				continue
			}
			var b strings.Builder
			for k, p := range lines {
				if k > 0 {
					b.WriteByte(' ')
				}
				b.WriteString(p.String())
			}
			l = l[:ps[j].end] + " (" + visible(b.String()) + ")" + l[ps[j].end:]
		}
		if out == nil && l != text[i] {
			out = append(make([]string, 0, len(text)), text[:i]...)
		}
		if out != nil {
			out = append(out, l)
		}
	}
	if out == nil {
		return text
	}
	return out
}

// site chooses the line to look at first, nil when none is known.
func (c *Crash) site(at Positions, prefer func(string) bool) *Position {
	var trap, blamed, first *Position
	for _, l := range c.Text {
		for _, p := range placesIn(l) {
			chain := at[p.sym]
			if len(chain) == 0 || p.guess {
				continue
			}
			if prefer != nil {
				for _, pos := range chain {
					if inTree(pos.File) && prefer(pos.File) {
						return &pos
					}
				}
			}
			pos := outOfHeader(chain)
			if pos == nil {
				continue
			}
			name, _, _ := strings.Cut(p.sym.Name, ".")
			if p.sym.Trap && trap == nil {
				trap = pos
			}
			if name == c.Func && blamed == nil {
				blamed = pos
			}
			if first == nil {
				first = pos
			}
		}
	}
	for _, pos := range []*Position{trap, blamed, first} {
		if pos != nil {
			return pos
		}
	}
	return nil
}

// outOfHeader is the innermost line that is no inline helper's, else the
// innermost one, of those in the tree.
func outOfHeader(chain []Position) *Position {
	var first *Position
	for i := range chain {
		p := chain[i]
		if !inTree(p.File) {
			continue
		}
		if !strings.HasSuffix(p.File, ".h") {
			return &p
		}
		if first == nil {
			first = &p
		}
	}
	return first
}

// inTree reports whether a name from debug info is one of a file in the tree:
// a source can claim any name.
func inTree(file string) bool {
	return file != "" && path.Clean(file) == file && !path.IsAbs(file) && file != ".." && !strings.HasPrefix(file, "../")
}
