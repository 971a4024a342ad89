// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Section is an entry of MAINTAINERS.
type Section struct {
	Title   string
	Status  string   // S:
	People  []string // M: and R:, as written
	Lists   []string // L:, addresses
	Files   []string // F:
	Exclude []string // X:
	Regexps []*regexp.Regexp
}

// Maintainers is a parsed MAINTAINERS.
type Maintainers []Section

// ParseMaintainers reads MAINTAINERS: the entries behind its introduction.
func ParseMaintainers(b []byte) Maintainers {
	var out Maintainers
	var title string
	var cur *Section
	for l := range strings.Lines(string(b)) {
		l = strings.TrimRight(l, " \t\r\n")
		if len(l) < 2 || l[1] != ':' || l[0] < 'A' || l[0] > 'Z' {
			title, cur = l, nil
			continue
		}
		if title == "" && cur == nil {
			continue
		}
		if cur == nil {
			out = append(out, Section{Title: title})
			cur = &out[len(out)-1]
		}
		v := strings.TrimLeft(l[2:], " \t")
		switch l[0] {
		case 'S':
			cur.Status = v
		case 'M', 'R':
			cur.People = append(cur.People, v)
		case 'L':
			if f := strings.Fields(v); len(f) > 0 {
				cur.Lists = append(cur.Lists, strings.ToLower(f[0]))
			}
		case 'F':
			cur.Files = append(cur.Files, v)
		case 'X':
			cur.Exclude = append(cur.Exclude, v)
		case 'N':
			if re, err := regexp.Compile(v); err == nil { // Perl's syntax; what Go cannot read is rare
				cur.Regexps = append(cur.Regexps, re)
			}
		}
	}
	// The introduction explains the fields with lines that look like fields.
	return slices.DeleteFunc(out, func(s Section) bool {
		return len(s.Files) == 0 && len(s.Regexps) == 0 || strings.HasPrefix(s.Title, "\t") || strings.HasPrefix(s.Title, " ")
	})
}

// depth is how closely a pattern of an F: or X: line names a file: the number
// of its path elements, 0 when it does not match. A folder takes in everything
// below it when it ends in a slash, otherwise wildcards do not cross slashes
// (MAINTAINERS, "F: Files and directories wildcard patterns").
func depth(pattern, file string) int {
	pattern = strings.TrimPrefix(pattern, "./")
	// Nearly all patterns are ruled out by the folders before a wildcard.
	fixed := pattern
	if i := strings.IndexAny(pattern, "*?[\\"); i >= 0 {
		fixed = pattern[:i]
	}
	if !strings.HasPrefix(file, strings.TrimSuffix(fixed, "/")) {
		return 0
	}
	n := strings.Count(strings.TrimSuffix(pattern, "/"), "/") + 1
	folder := strings.HasSuffix(pattern, "/")
	p := strings.TrimSuffix(pattern, "/")
	if pattern == "*/" || pattern == "*" {
		if pattern == "*/" || !strings.Contains(file, "/") {
			return 1
		}
		return 0
	}
	if ok, _ := path.Match(p, file); ok {
		return n
	}
	// A folder named without a slash counts as one, as in get_maintainer.pl.
	parts := strings.Split(file, "/")
	if (folder || !strings.ContainsAny(p, "*?[")) && len(parts) > n {
		if ok, _ := path.Match(p, strings.Join(parts[:n], "/")); ok {
			return n
		}
	}
	return 0
}

// match is how closely the section names the file, 0 when it does not.
func (s *Section) match(file string) int {
	for _, x := range s.Exclude {
		if depth(x, file) > 0 {
			return 0
		}
	}
	best := 0
	for _, f := range s.Files {
		best = max(best, depth(f, file))
	}
	if best == 0 {
		for _, re := range s.Regexps {
			if re.MatchString(file) {
				return 1
			}
		}
	}
	return best
}

// rest tells the section that takes in everything.
func (s *Section) rest() bool { return slices.Contains(s.Files, "*/") }

// Covering lists the sections that a file belongs to, the closest first, and
// not the one that takes in everything.
func (m Maintainers) Covering(file string) []*Section {
	type hit struct {
		s *Section
		n int
	}
	var hits []hit
	for i := range m {
		if n := m[i].match(file); n > 0 && !m[i].rest() {
			hits = append(hits, hit{&m[i], n})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.n, a.n) })
	out := make([]*Section, len(hits))
	for i, h := range hits {
		out[i] = h.s
	}
	return out
}

// Naming lists the sections with an F: or X: line that is exactly this path.
func (m Maintainers) Naming(file string) []*Section {
	var out []*Section
	for i := range m {
		if slices.Contains(m[i].Files, file) || slices.Contains(m[i].Exclude, file) {
			out = append(out, &m[i])
		}
	}
	return out
}

// Mailmap maps addresses to those that their owners use now (gitmailmap(5)).
type Mailmap struct {
	byAddr map[string][]mapping
}

type mapping struct {
	oldName          string // lower case; "" for any
	newName, newAddr string
}

var reMailmap = regexp.MustCompile(`^\s*([^<>#]*?)\s*<([^<>]+)>(?:\s*([^<>#]*?)\s*<([^<>]+)>)?`)

// ParseMailmap reads a .mailmap.
func ParseMailmap(b []byte) Mailmap {
	mm := Mailmap{map[string][]mapping{}}
	for l := range strings.Lines(string(b)) {
		if strings.HasPrefix(strings.TrimSpace(l), "#") {
			continue
		}
		m := reMailmap.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		to := mapping{newName: m[1], newAddr: m[2]}
		old := m[4]
		if old == "" {
			old, to.newAddr = m[2], "" // only the name is set right
		}
		to.oldName = strings.ToLower(m[3])
		key := strings.ToLower(old)
		mm.byAddr[key] = append(mm.byAddr[key], to)
	}
	return mm
}

// Current is the address that stands for addr now; name decides where several
// people shared one. It is addr itself when the map says nothing.
func (m Mailmap) Current(name, addr string) string {
	var hit *mapping
	for i, t := range m.byAddr[strings.ToLower(addr)] {
		if t.newAddr == "" {
			continue
		}
		if t.oldName == "" && hit == nil || t.oldName != "" && t.oldName == strings.ToLower(name) {
			hit = &m.byAddr[strings.ToLower(addr)][i]
		}
	}
	if hit == nil {
		return addr
	}
	return hit.newAddr
}
