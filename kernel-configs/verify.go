// SPDX-License-Identifier: Apache-2.0

package kernelconfigs

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Config is a parsed .config: symbol name without CONFIG_ to value. Symbols
// that are not set are absent.
type Config map[string]string

// ParseConfig reads a .config as kconfig writes it.
func ParseConfig(r io.Reader) (Config, error) {
	c := Config{}
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		if m := reSet.FindStringSubmatch(sc.Text()); m != nil {
			c[m[1]] = m[2]
		}
	}
	return c, sc.Err()
}

// Missing is a symbol that did not become what was asked for.
type Missing struct {
	Symbol
	Got    string // value in the finished .config; "n" when it is absent
	Reason string // from the tree's Kconfig: "depends on X, which is not set"
}

// Verify compares a finished .config with what was asked for.
func (m *Merged) Verify(c Config) []Missing {
	var miss []Missing
	for _, s := range m.Symbols {
		got, ok := c[s.Name]
		if !ok {
			got = "n"
		}
		if !sameValue(s.Value, got) {
			miss = append(miss, Missing{Symbol: s, Got: got})
		}
	}
	return miss
}

// sameValue compares as kconfig does: numbers by value, "" as not set.
func sameValue(want, got string) bool {
	if want == got || want == `""` && got == "n" {
		return true
	}
	a, errA := strconv.ParseInt(want, 0, 64)
	b, errB := strconv.ParseInt(got, 0, 64)
	return errA == nil && errB == nil && a == b
}

// MissingError is a configuration that cannot be had in this tree.
type MissingError struct {
	Tree    string // what the tree calls itself, for the message
	Missing []Missing
}

func (e *MissingError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d kernel configuration %s asked for cannot be had in %s:", len(e.Missing), plural(len(e.Missing), "symbol", "symbols"), e.Tree)
	for _, m := range e.Missing {
		got := "it is " + m.Got
		if m.Got == "n" {
			got = "it is not set"
		}
		fmt.Fprintf(&b, "\n  CONFIG_%s=%s (%s:%d): %s", m.Name, m.Value, m.Fragment, m.Line, got)
		if m.Reason != "" {
			b.WriteString("; " + m.Reason)
		}
	}
	return b.String()
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
