// SPDX-License-Identifier: Apache-2.0

package nightly

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"patchcheck/internal/history"
	"patchcheck/internal/kernel"
)

// TestTreeMoves follows a tree that goes on, is rewritten and vanishes, with
// the real engine on a repository that is fetched.
func TestTreeMoves(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	origin := filepath.Join(dir, "origin")
	if err := os.Mkdir(origin, 0o755); err != nil {
		t.Fatal(err)
	}
	git := func(in string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin = origin, strings.NewReader(in)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	// chain puts n commits on from ("" for none), days apart.
	chain := func(from string, first, n int) {
		t.Helper()
		var in strings.Builder
		for i := first; i < first+n; i++ {
			fmt.Fprintf(&in, "commit refs/heads/main\ncommitter a <a@example.org> %d +0000\ndata <<E\nc%d\nE\n", 1700000000+i*5*86400, i)
			if from != "" && i == first {
				fmt.Fprintf(&in, "from %s\n", from)
			}
			for name, text := range map[string]string{"Makefile": "VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 0\nEXTRAVERSION =\n", "Kconfig": "x\n", "scripts/Kbuild.include": "x\n", "f": fmt.Sprint(i)} {
				fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", name, len(text), text)
			}
			in.WriteByte('\n')
		}
		git(in.String(), "fast-import", "--quiet", "--force")
	}
	git("", "init", "-q", "-b", "main", ".")
	chain("", 1, 4)
	e := NewEngine(filepath.Join(dir, "cache"), filepath.Join(dir, "runs"))
	spec := "git+file://" + origin + "#main"
	fetch := func() string {
		t.Helper()
		tip, err := e.Fetch(ctx, spec, "")
		if err != nil {
			t.Fatal(err)
		}
		if tip.Commit != git("", "rev-parse", "main") || tip.ID == "" || tip.Version != "7.3.0" {
			t.Errorf("tip %+v", tip)
		}
		return tip.Commit
	}
	first := fetch()
	chain("refs/heads/main^0", 5, 20)
	second := fetch()
	if yes, known := e.Contains(ctx, spec, "", first); !yes || !known {
		t.Errorf("a tree that went on: %v %v", yes, known)
	}
	chain(first, 40, 3) // forced update: what came after the first is gone
	fetch()
	if yes, known := e.Contains(ctx, spec, "", second); yes || !known {
		t.Errorf("a tree that was rewritten: %v %v", yes, known)
	}
	if yes, known := e.Contains(ctx, spec, "", first); !yes || !known {
		t.Errorf("the commit that the new branch begins at: %v %v", yes, known)
	}
	if _, known := e.Contains(ctx, spec, "", strings.Repeat("1", 40)); known {
		t.Error("a commit that nobody has is said to be known")
	}
	// A local repository is asked directly, and not changed.
	if yes, known := e.Contains(ctx, origin, "", second); yes || !known {
		t.Errorf("local repository: %v %v", yes, known)
	}
	// The network is down: no older state is taken instead.
	if err := os.Rename(origin, origin+".away"); err != nil {
		t.Fatal(err)
	}
	_, err := e.Fetch(ctx, spec, "")
	var te *kernel.TreeError
	if !errors.As(err, &te) || stateOf(err) != history.FetchFailed || strings.Contains(brief(err), "--git-dir") {
		t.Errorf("network down: %v (%s)", brief(err), stateOf(err))
	}
	if _, err := e.Fetch(ctx, filepath.Join(dir, "nowhere"), ""); stateOf(err) != history.BadInput {
		t.Errorf("no such folder: %v", err)
	}
}
