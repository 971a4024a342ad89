// SPDX-License-Identifier: Apache-2.0

// Package bundled holds the kernel patches that come with patchcheck, as data:
// the companions that a guest kernel carries, and the example series that is
// checked when no other is given. The patches apply to Linux 7.3 and are
// GPL-2.0-only; README.md in this folder says what each of them does.
package bundled

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed rxe-device/*.patch xprtrdma-inline/*.patch svcrdma-inline/*.patch
var files embed.FS

// Example is the name of the series that is checked when none is given.
const Example = "svcrdma-inline"

// A role says what a set of patches is for.
type role string

const (
	companion role = "companion" // in the base kernel and in the patched one
	series    role = "series"    // under test
)

// sets lists the folders in the order in which their patches are applied:
// companions first.
var sets = []struct {
	name string
	role role
}{
	{"rxe-device", companion},
	{"xprtrdma-inline", companion},
	{Example, series},
}

// Names returns the names of all bundled sets, companions and series, in the
// order in which they are applied.
func Names() []string {
	var names []string
	for _, s := range sets {
		names = append(names, s.name)
	}
	return names
}

// Companion returns the patches of the named companion in the order in which
// they are applied, each as one mail in git format-patch form. The error names
// the companions there are.
func Companion(name string) ([][]byte, error) { return read(name, companion) }

// Series returns the mails of the named example series: its cover letter
// first, then its patches in order.
func Series(name string) ([][]byte, error) { return read(name, series) }

func named(r role) []string {
	var names []string
	for _, s := range sets {
		if s.role == r {
			names = append(names, s.name)
		}
	}
	return names
}

func read(name string, want role) ([][]byte, error) {
	for _, s := range sets {
		if s.name != name {
			continue
		}
		if s.role != want {
			return nil, fmt.Errorf("bundled %s %q is no %s (there is: %s)",
				s.role, name, want, strings.Join(named(want), ", "))
		}
		return mails(name)
	}
	return nil, fmt.Errorf("no bundled %s is called %q (there is: %s)",
		want, name, strings.Join(named(want), ", "))
}

// mails reads the files of one folder. They are numbered, so that the order of
// their names is the order of the series.
func mails(folder string) ([][]byte, error) {
	entries, err := fs.ReadDir(files, folder)
	if err != nil {
		return nil, fmt.Errorf("bundled patches of %s: %w", folder, err)
	}
	var out [][]byte
	for _, e := range entries {
		b, err := files.ReadFile(path.Join(folder, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("bundled patches of %s: %w", folder, err)
		}
		out = append(out, b)
	}
	return out, nil
}
