// SPDX-License-Identifier: Apache-2.0

package bundled

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"patchcheck/internal/cache"
	"patchcheck/internal/proc"
)

// exactVersion is the kernel that the patches were made for: there they must
// apply with no offset. On any other tree they only have to apply.
const exactVersion = "7.3.4"

func TestSets(t *testing.T) {
	if got, want := Names(), []string{"rxe-device", "xprtrdma-inline", "svcrdma-inline"}; !slices.Equal(got, want) {
		t.Errorf("Names() = %q, want %q", got, want)
	}
	for _, tt := range []struct {
		name  string
		read  func(string) ([][]byte, error)
		mails int
		err   string
	}{
		{"rxe-device", Companion, 1, ""},
		{"xprtrdma-inline", Companion, 1, ""},
		{"svcrdma-inline", Series, 3, ""},
		{"svcrdma-inline", Companion, 0, "is no companion"},
		{"rxe-device", Series, 0, "is no series"},
		{"no-such", Companion, 0, "rxe-device, xprtrdma-inline"},
		{"../bundled", Series, 0, "no bundled series"},
	} {
		mails, err := tt.read(tt.name)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: error %v, want one that says %q", tt.name, err, tt.err)
			}
			continue
		}
		if err != nil || len(mails) != tt.mails {
			t.Errorf("%s: %d mails, error %v; want %d mails", tt.name, len(mails), err, tt.mails)
		}
	}
}

// all returns every patch by file name, without cover letters.
func all(t *testing.T) map[string][]byte {
	t.Helper()
	patches := map[string][]byte{}
	for _, name := range Names() {
		names, err := files.ReadDir(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range names {
			p := name + "/" + e.Name()
			if strings.HasPrefix(e.Name(), "0000-") {
				continue
			}
			b, err := files.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			patches[p] = b
		}
	}
	return patches
}

func TestPatchesAreMarked(t *testing.T) {
	for name, b := range all(t) {
		for _, want := range []string{
			"\nSubject: [PATCH",
			"\nSigned-off-by: patchcheck example <example@patchcheck.example>\n",
			"\n---\nSPDX-License-Identifier: GPL-2.0-only\n",
		} {
			if !bytes.Contains(b, []byte(want)) {
				t.Errorf("%s has no %q", name, want)
			}
		}
		if bytes.Contains(b, []byte("base-commit:")) {
			t.Errorf("%s names a base commit; a Debian tree has none", name)
		}
	}
}

// The cover letter must promise what the patches do.
func TestCoverLetter(t *testing.T) {
	mails, err := Series(Example)
	if err != nil {
		t.Fatal(err)
	}
	cover, rest := string(mails[0]), mails[1:]
	if !strings.Contains(cover, fmt.Sprintf("Subject: [PATCH 0/%d]", len(rest))) {
		t.Errorf("the cover letter does not announce %d patches", len(rest))
	}
	for _, p := range rest {
		m := regexp.MustCompile(`(?m)^Subject: \[PATCH \d/\d\] (.*)$`).FindSubmatch(p)
		if m == nil {
			t.Errorf("a patch has no numbered subject: %.80q", p)
			continue
		}
		if !strings.Contains(cover, "\n  "+string(m[1])+"\n") {
			t.Errorf("the cover letter does not list %q", m[1])
		}
	}
	if strings.Contains(cover, "***") {
		t.Error("the cover letter still has one of git's place holders")
	}
}

func TestPatchesApply(t *testing.T) {
	tree := kernelTree(t)
	dir := t.TempDir()
	patches := all(t)
	for _, b := range patches {
		copyTouched(t, tree, dir, b)
	}
	version := kernelVersion(t, tree)
	for _, name := range inOrder(patches) {
		res, err := proc.Run(t.Context(), proc.Cmd{
			Argv: []string{"git", "apply", "--verbose", "-"},
			Dir:  dir,
			Env: append(proc.MinimalEnv(),
				"GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "LC_ALL=C"),
			Stdin: bytes.NewReader(patches[name]),
			Merge: true,
		})
		if err != nil {
			t.Fatalf("%s does not apply to %s: %v\n%s", name, version, err, res.Stdout)
		}
		if version == exactVersion && regexp.MustCompile(`offset|fuzz`).Match(res.Stdout) {
			t.Errorf("%s does not apply exactly to %s:\n%s", name, version, res.Stdout)
		}
	}
}

func TestCheckpatch(t *testing.T) {
	tree := kernelTree(t)
	script := filepath.Join(tree, "scripts/checkpatch.pl")
	if _, err := os.Stat(script); err != nil {
		t.Skipf("no checkpatch: %v", err)
	}
	patches := all(t)
	for _, name := range inOrder(patches) {
		file := filepath.Join(t.TempDir(), filepath.Base(name))
		if err := os.WriteFile(file, patches[name], 0o644); err != nil {
			t.Fatal(err)
		}
		res, err := proc.Run(t.Context(), proc.Cmd{
			Argv:  []string{script, "--strict", "--terse", "--no-summary", file},
			Dir:   tree,
			Merge: true,
		})
		if err != nil || len(bytes.TrimSpace(res.Stdout)) > 0 {
			t.Errorf("checkpatch --strict on %s: %v\n%s", name, err, res.Stdout)
		}
	}
}

// inOrder lists the patches as they are applied: set by set, then by number.
func inOrder(patches map[string][]byte) []string {
	var names []string
	for _, set := range Names() {
		var of []string
		for name := range patches {
			if strings.HasPrefix(name, set+"/") {
				of = append(of, name)
			}
		}
		slices.Sort(of)
		names = append(names, of...)
	}
	return names
}

// kernelTree finds an unpacked kernel: the folder that PATCHCHECK_TREE names,
// else one in the cache. The test is skipped when there is none.
func kernelTree(t *testing.T) string {
	t.Helper()
	if tree := os.Getenv("PATCHCHECK_TREE"); tree != "" {
		return tree
	}
	root, err := cache.DefaultRoot()
	if err == nil {
		for _, pattern := range []string{"trees/*/MAINTAINERS", "trees/*/*/MAINTAINERS"} {
			found, _ := filepath.Glob(filepath.Join(root, pattern))
			for _, f := range found {
				if strings.HasPrefix(kernelVersion(t, filepath.Dir(f)), "7.3.") {
					return filepath.Dir(f)
				}
			}
		}
	}
	t.Skip("no kernel tree: set PATCHCHECK_TREE to an unpacked Linux 7.3, or run patchcheck once so that the cache has it")
	return ""
}

var versionLine = regexp.MustCompile(`(?m)^(VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$`)

func kernelVersion(t *testing.T, tree string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(tree, "Makefile"))
	if err != nil {
		t.Fatalf("the kernel tree has no top Makefile: %v", err)
	}
	var parts []string
	for _, m := range versionLine.FindAllSubmatch(b, -1) {
		parts = append(parts, string(m[2]))
	}
	return strings.Join(parts, ".")
}

var touched = regexp.MustCompile(`(?m)^--- a/(\S+)$`)

func copyTouched(t *testing.T, tree, dir string, patch []byte) {
	t.Helper()
	for _, m := range touched.FindAllSubmatch(patch, -1) {
		name := filepath.FromSlash(string(m[1]))
		b, err := os.ReadFile(filepath.Join(tree, name))
		if err != nil {
			t.Fatalf("the patched file is not in the tree: %v", err)
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
