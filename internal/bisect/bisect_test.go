// SPDX-License-Identifier: Apache-2.0

package bisect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSeries(t *testing.T) {
	title := func(n int) string { return fmt.Sprintf("patch %d", n) }
	for name, tc := range map[string]struct {
		good, bad int
		culprit   int // true one; 0: none
		skip      []int
		want      string // Culprit, or the candidates
		tests     int    // at most
	}{
		"one patch":           {0, 1, 1, nil, "1", 0},
		"first of two":        {0, 2, 1, nil, "1", 1},
		"last of two":         {0, 2, 2, nil, "2", 1},
		"many":                {0, 30, 17, nil, "17", 5},
		"a known beginning":   {5, 8, 7, nil, "7", 2},
		"skipped beside it":   {0, 3, 3, []int{1}, "3", 2},
		"skipped below it":    {0, 4, 3, []int{2}, "2: patch 2 3: patch 3", 3},
		"nothing can be told": {0, 3, 2, []int{1, 2}, "1: patch 1 2: patch 2 3: patch 3", 2},
	} {
		asked := 0
		r, err := Series(t.Context(), tc.good, tc.bad, title, func(_ context.Context, n int) (Answer, error) {
			asked++
			if n <= tc.good || n >= tc.bad {
				t.Errorf("%s: asked for %d, which is known", name, n)
			}
			switch {
			case slices.Contains(tc.skip, n):
				return Answer{Outcome: Skip}, nil
			case n >= tc.culprit:
				return Answer{Outcome: Bad}, nil
			}
			return Answer{Outcome: Good}, nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := r.Culprit
		if got == "" {
			got = strings.Join(r.Candidates, " ")
		}
		if got != tc.want || asked > tc.tests || len(r.Steps) != asked {
			t.Errorf("%s: %s after %d tests, want %s after at most %d\n%s", name, got, asked, tc.want, tc.tests, r.Text("patch"))
		}
	}
	if _, err := Series(t.Context(), 2, 2, title, nil); err == nil {
		t.Error("no range is no error")
	}
	broken := errors.New("no room")
	if _, err := Series(t.Context(), 0, 4, title, func(context.Context, int) (Answer, error) { return Answer{}, broken }); !errors.Is(err, broken) {
		t.Errorf("a failed test: %v", err)
	}
}

// repo makes a repository of n commits, c1 to cn, and returns their ids.
func repo(t *testing.T, dir string, n int) []string {
	t.Helper()
	mustGit(t, dir, "init", "-q", "-b", "main", ".")
	var in strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&in, "commit refs/heads/main\nmark :%d\ncommitter a <a@example.org> %d +0000\ndata <<E\nc%d\nE\nM 100644 inline f\ndata <<E\n%d\nE\n\n", i, 1700000000+i, i, i)
	}
	cmd := exec.Command("git", "fast-import", "--quiet")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(in.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ids := strings.Fields(mustGit(t, dir, "rev-list", "--reverse", "main"))
	return ids
}

func mustGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// snapshot lists all files of a folder with size and time.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			fi, _ := d.Info()
			fmt.Fprintln(&b, p, fi.Size(), fi.ModTime().UnixNano())
		}
		return err
	})
	return b.String()
}

func TestGit(t *testing.T) {
	user := t.TempDir()
	ids := repo(t, user, 12)
	num := func(commit string) int { return slices.Index(ids, commit) + 1 }
	before := snapshot(t, user)
	type fake struct {
		culprit int
		skip    []int
		stop    int // fail after so many tests
		asked   []int
	}
	search := func(dir string, f *fake, good, bad string) (*Result, error) {
		g := &Git{Dir: dir, Repo: filepath.Join(user, ".git"), Good: good, Bad: bad, Test: func(_ context.Context, c string) (Answer, error) {
			n := num(c)
			if n == 0 {
				t.Errorf("asked for %s, which is no commit", c)
			}
			if f.stop > 0 && len(f.asked) == f.stop {
				return Answer{}, errors.New("killed")
			}
			f.asked = append(f.asked, n)
			switch {
			case slices.Contains(f.skip, n):
				return Answer{Outcome: Skip, Detail: "does not build"}, nil
			case n >= f.culprit:
				return Answer{Outcome: Bad, Detail: "fails"}, nil
			}
			return Answer{Outcome: Good, Detail: "passes"}, nil
		}}
		return g.Run(t.Context())
	}
	t.Run("culprit", func(t *testing.T) {
		f := &fake{culprit: 8}
		r, err := search(t.TempDir(), f, ids[0], "main")
		if err != nil {
			t.Fatal(err)
		}
		if r.Culprit != ids[7] || r.Title != "c8" || len(f.asked) > 4 || len(r.Steps) != len(f.asked) || !strings.Contains(r.Log, "git bisect bad") {
			t.Errorf("%+v after %v", r, f.asked)
		}
		if s := r.Text("commit"); !strings.HasPrefix(s, "culprit: commit "+ids[7]+": c8\ntested:\n  ") {
			t.Error(s)
		}
	})
	t.Run("skips", func(t *testing.T) {
		f := &fake{culprit: 8, skip: []int{5, 6, 7}}
		r, err := search(t.TempDir(), f, ids[0], ids[11])
		if err != nil {
			t.Fatal(err)
		}
		if r.Culprit != "" || len(r.Candidates) != 4 || !strings.Contains(r.Text("commit"), "one of 4") || !strings.Contains(r.Text("commit"), "does not build") {
			t.Errorf("%+v after %v", r, f.asked)
		}
	})
	t.Run("resume", func(t *testing.T) {
		dir := t.TempDir()
		f := &fake{culprit: 3, stop: 2}
		if _, err := search(dir, f, ids[0], ids[11]); err == nil {
			t.Fatal("a test that cannot be made is no error")
		}
		first := slices.Clone(f.asked)
		f.stop = 0
		r, err := search(dir, f, ids[0], ids[11])
		if err != nil || r.Culprit != ids[2] {
			t.Fatalf("%+v, %v", r, err)
		}
		seen := map[int]bool{}
		for _, n := range f.asked {
			if seen[n] {
				t.Errorf("c%d was tested twice: %v, then %v", n, first, f.asked)
			}
			seen[n] = true
		}
		if len(r.Steps) != len(f.asked) {
			t.Errorf("steps of both parts: %d, want %d", len(r.Steps), len(f.asked))
		}
		// Asked again, the answer is there; another range begins anew.
		n := len(f.asked)
		if r, err = search(dir, f, ids[0], ids[11]); err != nil || r.Culprit != ids[2] || len(f.asked) != n {
			t.Errorf("again: %+v, %v", r, err)
		}
		f.culprit = 11
		if r, err = search(dir, f, ids[9], ids[11]); err != nil || r.Culprit != ids[10] {
			t.Errorf("another range: %+v, %v", r, err)
		}
	})
	t.Run("bad input", func(t *testing.T) {
		var ie *InputError
		for _, r := range [][2]string{{"nope", "main"}, {"main", "main"}, {"--all", "main"}, {ids[11], ids[0]}} {
			if _, err := search(t.TempDir(), &fake{}, r[0], r[1]); !errors.As(err, &ie) {
				t.Errorf("%v: %v", r, err)
			}
		}
	})
	t.Run("linked work tree and shallow clone", func(t *testing.T) {
		clone := filepath.Join(t.TempDir(), "clone")
		mustGit(t, user, "clone", "-q", "--depth=6", "file://"+user, clone)
		g := &Git{Dir: t.TempDir(), Repo: filepath.Join(clone, ".git"), Good: ids[6], Bad: "main", Test: func(_ context.Context, c string) (Answer, error) {
			if num(c) >= 9 {
				return Answer{Outcome: Bad}, nil
			}
			return Answer{Outcome: Good}, nil
		}}
		if r, err := g.Run(t.Context()); err != nil || r.Culprit != ids[8] {
			t.Errorf("shallow: %+v, %v", r, err)
		}
		wt := filepath.Join(t.TempDir(), "wt")
		mustGit(t, clone, "worktree", "add", "-q", "--detach", wt)
		g.Dir, g.Repo = t.TempDir(), mustGit(t, wt, "rev-parse", "--absolute-git-dir")
		if r, err := g.Run(t.Context()); err != nil || r.Culprit != ids[8] {
			t.Errorf("work tree: %+v, %v", r, err)
		}
	})
	if after := snapshot(t, user); after != before {
		t.Errorf("the user's repository was changed:\n%s\nwas\n%s", after, before)
	}
}
