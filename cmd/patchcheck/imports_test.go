// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// docs/design.md says who may import what; this holds it.
func TestImportRules(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", "patchcheck/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	type pkg struct {
		ImportPath    string
		Imports, Deps []string
	}
	only := map[string][]string{ // library -> packages that may import it
		"github.com/bluekeyes/go-gitdiff": {"patchcheck/patches/diff"},
		"github.com/digitalocean/go-qemu": {"patchcheck/vm/qmpctl"},
		"golang.org/x/crypto/ssh":         {"patchcheck/vm/guestssh", "patchcheck/internal/guestd", "patchcheck/internal/remote"},
		"github.com/google/go-github":     {"patchcheck/internal/forge"},
		"github.com/emersion/go-message":  {"patchcheck/patches/mail"},
		"github.com/vishvananda/netlink":  {"patchcheck/internal/guestwork", "patchcheck/internal/guestd"},
		"github.com/cavaliergopher/cpio":  {"patchcheck/vm/initramfs"},
		"modernc.org/sqlite":              {"patchcheck/internal/history"},
	}
	never := map[string][]string{ // package prefix -> what it may not depend on, even indirectly
		"patchcheck/internal/report":      {"patchcheck/vm", "patchcheck/internal/kernel", "patchcheck/internal/run"},
		"patchcheck/internal/history":     {"patchcheck/vm", "patchcheck/internal/kernel", "patchcheck/internal/run"},
		"patchcheck/checks":               {"patchcheck/vm", "patchcheck/internal/kernel", "patchcheck/internal/run"},
		"patchcheck/cmd/patchcheck-guest": {"patchcheck/vm", "patchcheck/internal/kernel", "patchcheck/patches", "patchcheck/internal/run"},
		"patchcheck/testplans":            {"patchcheck/vm", "patchcheck/internal/kernel", "patchcheck/internal/run"},
	}
	under := func(p, prefix string) bool { return p == prefix || strings.HasPrefix(p, prefix+"/") }
	seen := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		seen++
		for _, imp := range p.Imports {
			for lib, owners := range only {
				if !under(imp, lib) {
					continue
				}
				ok := false
				for _, o := range owners {
					ok = ok || p.ImportPath == o
				}
				if !ok {
					t.Errorf("%s imports %s; only %s may", p.ImportPath, imp, strings.Join(owners, ", "))
				}
			}
		}
		for pre, bad := range never {
			if !under(p.ImportPath, pre) {
				continue
			}
			for _, d := range p.Deps {
				for _, b := range bad {
					if under(d, b) {
						t.Errorf("%s depends on %s, which docs/design.md rules out", p.ImportPath, d)
					}
				}
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d packages seen", seen)
	}
}
