// SPDX-License-Identifier: Apache-2.0

// Package kernelconfigs owns kernel configuration fragments: the embedded
// ones, reading a user's own, merging them without silent conflicts, and the
// proof that every symbol asked for is what the finished .config holds. It
// runs nothing: make is the business of internal/kernel.
package kernelconfigs

import (
	"bufio"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

//go:embed *.config
var embedded embed.FS

// Fragment is a piece of configuration in the format of .config.
type Fragment struct {
	Name    string // "guest", or the path of a user's file
	Text    string
	Symbols []Symbol // in the order written
}

// Symbol is one wish. Name has no CONFIG_ prefix. Value is as written in a
// .config: "y", "n", "m", a number, or a quoted string; "n" also stands for
// "# CONFIG_X is not set".
type Symbol struct {
	Name     string
	Value    string
	Fragment string // where it was asked for
	Line     int    // 1-based
	Override bool   // may replace what an earlier fragment says
}

// Names lists the embedded fragments.
func Names() []string {
	ents, err := embedded.ReadDir(".")
	if err != nil {
		panic(err) // cannot be: the folder is part of the program
	}
	var names []string
	for _, e := range ents {
		names = append(names, strings.TrimSuffix(e.Name(), ".config"))
	}
	return names
}

// Load returns the embedded fragment of that name, or reads the file when
// nameOrPath holds a slash or ends in .config.
func Load(nameOrPath string) (*Fragment, error) {
	if !strings.ContainsRune(nameOrPath, filepath.Separator) && !strings.HasSuffix(nameOrPath, ".config") {
		b, err := embedded.ReadFile(nameOrPath + ".config")
		if err != nil {
			return nil, fmt.Errorf("there is no kernel configuration fragment %q; built in are %s; a file of your own is named by its path, such as ./%s.config",
				nameOrPath, strings.Join(Names(), ", "), nameOrPath)
		}
		return Parse(nameOrPath, string(b))
	}
	b, err := os.ReadFile(nameOrPath)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration fragment: %w", err)
	}
	return Parse(nameOrPath, string(b))
}

// LoadAll loads and merges.
func LoadAll(namesOrPaths ...string) (*Merged, error) {
	var frags []*Fragment
	for _, n := range namesOrPaths {
		f, err := Load(n)
		if err != nil {
			return nil, err
		}
		frags = append(frags, f)
	}
	return Merge(frags...)
}

var (
	reSet      = regexp.MustCompile(`^CONFIG_([A-Za-z0-9_]+)=(.*)$`)
	reNotSet   = regexp.MustCompile(`^# CONFIG_([A-Za-z0-9_]+) is not set$`)
	reOverride = regexp.MustCompile(`^# patchcheck: override$`)
	reValue    = regexp.MustCompile(`^(?:[ymn]|-?[0-9]+|0[xX][0-9a-fA-F]+|"(?:[^"\\]|\\.)*")$`)
)

// Parse reads a fragment. A line that is neither blank, a comment nor a
// setting is an error: kconfig would drop it with a warning few people see.
func Parse(name, text string) (*Fragment, error) {
	f := &Fragment{Name: name, Text: text}
	sc := bufio.NewScanner(strings.NewReader(text))
	sc.Buffer(nil, 1<<20)
	override := false
	seen := map[string]Symbol{}
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimRight(sc.Text(), " \t\r")
		s := Symbol{Fragment: name, Line: n}
		switch m := reSet.FindStringSubmatch(line); {
		case m != nil:
			s.Name, s.Value = m[1], m[2]
			if !reValue.MatchString(s.Value) {
				return nil, fmt.Errorf("%s:%d: %s is no value of a kernel configuration symbol; y, m, n, a number or a \"quoted\" string is", name, n, s.Value)
			}
		case reNotSet.MatchString(line):
			s.Name, s.Value = reNotSet.FindStringSubmatch(line)[1], "n"
		case reOverride.MatchString(line):
			override = true
			continue
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		default:
			return nil, fmt.Errorf("%s:%d: %q is not a kernel configuration line; expected CONFIG_NAME=value or \"# CONFIG_NAME is not set\"", name, n, line)
		}
		s.Override, override = override, false
		if old, dup := seen[s.Name]; dup && old.Value != s.Value {
			return nil, fmt.Errorf("%s:%d: CONFIG_%s=%s contradicts CONFIG_%s=%s in line %d", name, n, s.Name, s.Value, s.Name, old.Value, old.Line)
		}
		seen[s.Name] = s
		f.Symbols = append(f.Symbols, s)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(f.Symbols) == 0 {
		return nil, fmt.Errorf("%s sets no symbol; is it a kernel configuration fragment?", name)
	}
	return f, nil
}

// Merged is what several fragments ask for together.
type Merged struct {
	Fragments []string // names, in order
	Symbols   []Symbol // one for each name, sorted by name
}

// ConflictError is two fragments that want different values.
type ConflictError struct{ A, B Symbol }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s:%d wants CONFIG_%s=%s and %s:%d wants CONFIG_%s=%s; a line \"# patchcheck: override\" above the latter lets it win",
		e.A.Fragment, e.A.Line, e.A.Name, e.A.Value, e.B.Fragment, e.B.Line, e.B.Name, e.B.Value)
}

// Merge joins fragments. Two values for a symbol are a *ConflictError unless
// the later one is marked as an override.
func Merge(frags ...*Fragment) (*Merged, error) {
	m := &Merged{}
	at := map[string]int{}
	for _, f := range frags {
		m.Fragments = append(m.Fragments, f.Name)
		for _, s := range f.Symbols {
			i, have := at[s.Name]
			switch {
			case !have:
				at[s.Name] = len(m.Symbols)
				m.Symbols = append(m.Symbols, s)
			case m.Symbols[i].Value == s.Value:
			case s.Override:
				m.Symbols[i] = s
			default:
				return nil, &ConflictError{m.Symbols[i], s}
			}
		}
	}
	sort.Slice(m.Symbols, func(i, j int) bool { return m.Symbols[i].Name < m.Symbols[j].Name })
	return m, nil
}

// Text is the merged fragment in the format of .config, sorted by name.
func (m *Merged) Text() string {
	var b strings.Builder
	for _, s := range m.Symbols {
		if s.Value == "n" {
			fmt.Fprintf(&b, "# CONFIG_%s is not set\n", s.Name)
		} else {
			fmt.Fprintf(&b, "CONFIG_%s=%s\n", s.Name, s.Value)
		}
	}
	return b.String()
}

// Hash identifies what is asked for, whatever fragments it came from.
func (m *Merged) Hash() string {
	sum := sha256.Sum256([]byte(m.Text()))
	return hex.EncodeToString(sum[:])
}
