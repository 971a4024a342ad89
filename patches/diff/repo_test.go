// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testRepo is a repository with a few commits of two files and returns it
// with the commits' ids, oldest first.
func testRepo(t *testing.T, states ...map[string]string) (dir string, commits []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "repo")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) string {
		out, stderr, err := gitTest(t, dir, nil, args...)
		if err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, stderr)
		}
		return strings.TrimSpace(out)
	}
	git("init", "-q", "-b", "main")
	for i, s := range states {
		for name, c := range s {
			writeFile(t, filepath.Join(dir, name), c, 0o644)
		}
		git("add", "-A")
		git("commit", "-q", "--allow-empty", "-m", fmt.Sprintf("state %d", i))
		commits = append(commits, git("rev-parse", "HEAD"))
	}
	return dir, commits
}

func openTestRepo(t *testing.T, dir string) *Repo {
	t.Helper()
	r, err := OpenRepo(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func mustParse(t testing.TB, text string) []*File {
	t.Helper()
	files, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func gitDiff(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, stderr, err := gitTest(t, dir, nil, append([]string{"diff"}, args...)...)
	if err != nil {
		t.Fatalf("git diff: %v %s", err, stderr)
	}
	return out
}

var repoStates = []map[string]string{
	{"a": ten, "d/b": "b0\n"},
	{"a": strings.Replace(ten, "1\n", "one\n", 1)},
	{"d/b": "b2\n"},
	{"a": strings.Replace(ten, "1\n", "eins\n", 1)},
	{"c": "unrelated\n"},
}

func TestRepoTree(t *testing.T) {
	dir, commits := testRepo(t, repoStates...)
	r := openTestRepo(t, filepath.Join(dir, "d"))
	for i, want := range []string{"b0\n", "b0\n", "b2\n", "b2\n"} {
		tree, err := r.Tree(commits[i])
		if err != nil {
			t.Fatal(err)
		}
		got, mode, err := tree.ReadFile("d/b")
		if err != nil || string(got) != want || mode != 0o644 {
			t.Errorf("d/b of commit %d is %q, %v, %v", i, got, mode, err)
		}
		if _, mode, err := tree.ReadFile("d"); err != nil || !mode.IsDir() {
			t.Errorf("d is %v, %v", mode, err)
		}
		for _, name := range []string{"d/x", "a/x", "x", "x/y"} {
			if _, _, err := tree.ReadFile(name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if _, err := r.Tree("0123456789012345678901234567890123456789"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("tree of an absent commit: %v", err)
	}
	if _, err := r.Blob("--help"); err == nil {
		t.Error("Blob took an option")
	}
	if _, err := OpenRepo(context.Background(), t.TempDir()); err == nil {
		t.Error("a folder outside any repository was opened")
	}
}

// A base-commit may be known only as an object: nothing points to it.
func TestUnreachableBaseCommit(t *testing.T) {
	dir, commits := testRepo(t, repoStates...)
	if _, stderr, err := gitTest(t, dir, nil, "reset", "-q", "--hard", commits[1]); err != nil {
		t.Fatal(stderr)
	}
	gitTest(t, dir, nil, "reflog", "expire", "--expire=now", "--all")
	r := openTestRepo(t, dir)
	tree, err := r.Tree(commits[3])
	if err != nil {
		t.Fatal(err)
	}
	if b, _, err := tree.ReadFile("a"); err != nil || !strings.HasPrefix(string(b), "eins\n") {
		t.Errorf("a is %q, %v", b, err)
	}
}

func TestFindBase(t *testing.T) {
	dir, commits := testRepo(t, repoStates...)
	// A state of a and of d/b that began with commit 2.
	text := gitDiff(t, dir, commits[0], commits[2])
	text = strings.ReplaceAll(text, "\r", "")
	rev := gitDiff(t, dir, commits[2], commits[0])
	r := openTestRepo(t, dir)
	got, err := r.FindBase(context.Background(), [][]*File{mustParse(t, rev)}, 100)
	if err != nil || got.Commit != commits[2] || got.Matched != 2 || got.Total != 2 {
		t.Errorf("base of a patch for commit 2: %+v, %v", got, err)
	}
	got, err = r.FindBase(context.Background(), [][]*File{mustParse(t, text)}, 100, "HEAD")
	if err != nil || got.Commit != commits[0] || got.Matched != 2 {
		t.Errorf("base of a patch for commit 0: %+v, %v", got, err)
	}
	got, err = r.FindBase(context.Background(), [][]*File{mustParse(t, gitDiff(t, dir, commits[4], commits[2]))}, 100, "HEAD")
	if err != nil || got.Commit != commits[4] {
		t.Errorf("base of a patch for HEAD: %+v, %v", got, err)
	}
}

func TestAppliedBy(t *testing.T) {
	dir, commits := testRepo(t, repoStates...)
	text := gitDiff(t, dir, commits[0], commits[1])
	r := openTestRepo(t, dir)
	got, err := r.AppliedBy(context.Background(), []byte(text), mustParse(t, text), "HEAD", 100)
	if err != nil || got != commits[1] {
		t.Errorf("AppliedBy = %q, %v, want %s", got, err, commits[1])
	}
	other := gitDiff(t, dir, commits[1], commits[0])
	if got, err := r.AppliedBy(context.Background(), []byte(other), mustParse(t, other), "HEAD", 100); got != "" || err != nil {
		t.Errorf("AppliedBy of a change that was never made = %q, %v", got, err)
	}
}

func TestLinesBy(t *testing.T) {
	dir, commits := testRepo(t, repoStates...)
	r := openTestRepo(t, dir)
	got, err := r.LinesBy(context.Background(), "HEAD", "a", 1, 3)
	if err != nil || len(got) != 2 || got[0] != (Author{commits[0], "state 0", 2}) || got[1] != (Author{commits[3], "state 3", 1}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := r.LinesBy(context.Background(), "HEAD", "nowhere", 1, 3); err == nil {
		t.Error("lines of an absent file")
	}
}

// Reading must not touch the repository, also when an operation of the user
// is under way and the index is stale.
func TestRepoIsLeftAlone(t *testing.T) {
	dir, commits := testRepo(t, repoStates...)
	if err := os.MkdirAll(filepath.Join(dir, ".git", "rebase-apply"), 0o755); err != nil {
		t.Fatal(err)
	}
	hook := filepath.Join(dir, "ran")
	for _, h := range []string{"post-index-change", "reference-transaction", "post-checkout"} {
		writeFile(t, filepath.Join(dir, ".git", "hooks", h), "#!/bin/sh\ntouch "+hook+"\n", 0o755)
	}
	gitTest(t, dir, nil, "config", "core.fsmonitor", "touch "+hook)
	gitTest(t, dir, nil, "config", "diff.external", "touch "+hook)
	os.Remove(hook)
	before := snapshot(t, dir)
	r := openTestRepo(t, dir)
	text := gitDiff(t, dir, "--no-ext-diff", commits[0], commits[1])
	os.Remove(hook)
	if _, err := r.FindBase(context.Background(), [][]*File{mustParse(t, text)}, 100, "HEAD"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.AppliedBy(context.Background(), []byte(text), mustParse(t, text), "HEAD", 100); err != nil {
		t.Fatal(err)
	}
	if after := snapshot(t, dir); after != before {
		t.Errorf("the repository changed\nbefore:\n%s\nafter:\n%s", before, after)
	}
}

func TestThreeWay(t *testing.T) {
	base := ten + "a\nb\nc\nd\n"
	ours := strings.Replace(base, "3\n", "three\n", 1) // changed context
	dir, commits := testRepo(t, map[string]string{"f": base}, map[string]string{"f": strings.Replace(base, "5\n", "five\n", 1)})
	text := gitDiff(t, dir, commits[0], commits[1])
	files := mustParse(t, text)
	r := openTestRepo(t, dir)
	tree := NewOverlay(MapTree{"f": []byte(ours)})

	o, res, err := Apply(tree, files, Options{})
	if err != nil || res.Applies || res.ThreeWay != "" || o != tree {
		t.Fatalf("without being asked for: %+v, %v", res, err)
	}
	o, res, err = Apply(tree, files, Options{Blob: r.Blob})
	if err != nil || res.ThreeWay != "clean" || res.Applies || res.Class != Fuzz {
		t.Fatalf("with blobs: %+v, %v", res, err)
	}
	got, _, _ := o.ReadFile("f")
	if want := strings.Replace(ours, "5\n", "five\n", 1); string(got) != want {
		t.Errorf("merged: %q, want %q", got, want)
	}
	clash := NewOverlay(MapTree{"f": []byte(strings.Replace(base, "5\n", "V\n", 1))})
	if o, res, err = Apply(clash, files, Options{Blob: r.Blob}); err != nil || res.ThreeWay != "conflict" || o != clash {
		t.Errorf("real conflict: %+v, %v", res, err)
	}
	none := func(string) ([]byte, error) { return nil, fs.ErrNotExist }
	if o, res, err = Apply(tree, files, Options{Blob: none}); err != nil || res.ThreeWay != "no base blobs for 3-way" || o != tree {
		t.Errorf("no blobs: %+v, %v", res, err)
	}
	wrong := func(string) ([]byte, error) { return []byte("x\n"), nil }
	if _, res, err = Apply(tree, files, Options{Blob: wrong}); err != nil || res.ThreeWay != "no base blobs for 3-way" {
		t.Errorf("a blob with another id: %+v, %v", res, err)
	}
}

func TestCandidates(t *testing.T) {
	dir, commits := testRepo(t, repoStates...)
	r := openTestRepo(t, dir)
	var trees []NamedTree
	for i, c := range commits {
		tree, err := r.Tree(c)
		if err != nil {
			t.Fatal(err)
		}
		trees = append(trees, NamedTree{Name: fmt.Sprint(i), Tree: tree, Commit: c})
	}
	trees = append(trees, NamedTree{Name: "empty", Tree: MapTree{}}, NamedTree{Name: "absent", Tree: DirTree(filepath.Join(dir, "nowhere"))})
	patch := mustParse(t, gitDiff(t, dir, commits[2], commits[0]))
	names := func(cs []Candidate) string {
		var s []string
		for _, c := range cs {
			s = append(s, c.Name)
		}
		return strings.Join(s, " ")
	}
	cs := Candidates(trees, [][]*File{patch}, "", Options{})
	if got, want := names(cs), "2 1 3 4 0 empty absent"; got != want {
		t.Errorf("by blobs: %s, want %s", got, want)
	}
	if !cs[0].Series.OK || cs[0].BlobsMatched != 2 || cs[len(cs)-1].Error == "" {
		t.Errorf("%+v", cs)
	}
	cs = Candidates(trees, [][]*File{patch}, commits[4][:12], Options{})
	if cs[0].Name != "4" || !cs[0].BaseCommit {
		t.Errorf("by base-commit: %s", names(cs))
	}
	var b strings.Builder
	if err := ExplainCandidates(&b, cs); err != nil || strings.Count(b.String(), "\n") != len(trees) {
		t.Errorf("%v\n%s", err, b.String())
	}
}
