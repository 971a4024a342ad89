// SPDX-License-Identifier: Apache-2.0

package treefacts

import (
	"bytes"
	"errors"
	"path"
	"regexp"
	"strconv"
	"strings"

	"patchcheck/internal/proc"
	"patchcheck/patches"
)

// brief is an error in a line: of a program, its status and not its command.
func brief(err error) error {
	var pe *proc.Error
	if !errors.As(err, &pe) {
		return err
	}
	switch {
	case pe.Signal != 0:
		return errors.New("killed by " + pe.Signal.String())
	case pe.Exit > 0:
		return errors.New("exit status " + strconv.Itoa(pe.Exit))
	}
	return err
}

func containsWord(b []byte, word string) bool {
	if !bytes.Contains(b, []byte(word)) {
		return false
	}
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `\b`).Match(b)
}

// parents lists the folders above a path of a patch; none for a path that
// leads out of the tree.
func parents(name string) []string {
	if name == "" || path.IsAbs(name) || path.Clean(name) != name || strings.HasPrefix(name, "..") || strings.ContainsAny(name, "\x00\n") {
		return nil
	}
	var out []string
	for d := path.Dir(name); d != "."; d = path.Dir(d) {
		if strings.EqualFold(path.Base(d), ".git") {
			return nil
		}
		out = append(out, d)
	}
	return out
}

// sources lists the C sources and headers that a patch leaves behind.
func sources(p *patches.Patch) []string {
	var out []string
	for _, f := range p.Files {
		if n := f.Path(); !f.IsDelete && (path.Ext(n) == ".c" || path.Ext(n) == ".h") {
			out = append(out, n)
		}
	}
	return out
}
