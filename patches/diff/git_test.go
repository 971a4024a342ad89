// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
)

// gitTest runs git away from the user's configuration and repositories.
func gitTest(t testing.TB, dir string, stdin []byte, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir),
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.org", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.org",
		"GIT_AUTHOR_DATE=2020-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2020-01-01T00:00:00Z", "LC_ALL=C")
	cmd.Stdin = bytes.NewReader(stdin)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err = cmd.Run()
	return o.String(), e.String(), err
}

func writeFile(t testing.TB, name string, content string, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if mode&fs.ModeSymlink != 0 {
		if err := os.Symlink(content, name); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.WriteFile(name, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

// snapshot describes every file below dir, one line each.
func snapshot(t testing.TB, dir string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		st, err := os.Lstat(p)
		if err != nil {
			return err
		}
		if st.Mode()&fs.ModeSymlink != 0 {
			target, _ := os.Readlink(p)
			out = append(out, fmt.Sprintf("%s -> %s", rel, target))
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		out = append(out, fmt.Sprintf("%s %t %q", rel, st.Mode()&0o100 != 0, b))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(out)
	return strings.Join(out, "\n")
}

// generator makes files of few distinct lines, so that hunks are easily
// mistaken for each other.
type generator struct{ *rand.Rand }

func (g generator) lines(n, distinct int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = string(rune('a'+g.IntN(distinct))) + "\n"
	}
	return out
}

func (g generator) edit(in []string, edits, distinct int) []string {
	out := slices.Clone(in)
	for range edits {
		at := 0
		if len(out) > 0 {
			at = g.IntN(len(out) + 1)
		}
		n := min(g.IntN(3), len(out)-at)
		switch g.IntN(3) {
		case 0:
			out = slices.Insert(out, at, g.lines(1+g.IntN(3), distinct)...)
		case 1:
			out = slices.Delete(out, at, at+n)
		default:
			out = slices.Replace(out, at, at+n, g.lines(1+g.IntN(2), distinct)...)
		}
	}
	return out
}

// drift makes the tree's file from the one the diff was made against.
func (g generator) drift(in []string, distinct int) []string {
	out := slices.Clone(in)
	switch g.IntN(8) {
	case 0: // unchanged
	case 1: // moved down
		out = slices.Insert(out, 0, g.lines(1+g.IntN(12), distinct)...)
	case 2: // moved up
		out = slices.Delete(out, 0, min(g.IntN(5), len(out)))
	case 3: // a block twice
		if len(out) > 2 {
			a := g.IntN(len(out) - 1)
			b := a + 1 + g.IntN(len(out)-a-1)
			out = slices.Insert(out, g.IntN(len(out)), slices.Clone(out[a:b])...)
		}
	case 4: // more at the end
		out = append(out, g.lines(1+g.IntN(5), distinct)...)
	case 5:
		out = g.edit(out, 1, distinct)
	case 6:
		out = g.edit(out, 3, distinct)
	case 7: // several changes far apart
		out = slices.Insert(out, 0, g.lines(3, distinct)...)
		out = g.edit(out, 1, distinct)
		out = append(out, g.lines(3, distinct)...)
	}
	return out
}

func (g generator) join(lines []string, noEOL, crlf bool) string {
	s := strings.Join(lines, "")
	if noEOL {
		s = strings.TrimSuffix(s, "\n")
	}
	if crlf {
		s = strings.ReplaceAll(s, "\n", "\r\n")
	}
	return s
}

var failedFile = regexp.MustCompile(`(?m)^error: (?:patch failed: )?(?:[^ ]* )?(?:')?(f[0-9]+)[: ]`)

// TestApplyAgainstGit compares decision, offsets and result with git apply
// over generated cases. One git process judges a whole batch of files.
func TestApplyAgainstGit(t *testing.T) {
	const perBatch = 250
	batches := 16
	if testing.Short() {
		batches = 3
	}
	total, taken, moved, joined := 0, 0, 0, 0
	for batch := range batches {
		g := generator{rand.New(rand.NewPCG(uint64(batch), 7))}
		context := []int{3, 1, 3, 1, 2, 0}[batch%6]
		distinct := []int{4, 8, 26}[batch%3]
		dir := t.TempDir()
		for i := range perBatch {
			a := g.lines(g.IntN(40), distinct)
			b := g.edit(a, 1+g.IntN(4), distinct)
			crlf := g.IntN(12) == 0
			name := fmt.Sprintf("f%d", i)
			writeFile(t, filepath.Join(dir, "a", name), g.join(a, g.IntN(8) == 0, crlf), 0o644)
			writeFile(t, filepath.Join(dir, "b", name), g.join(b, g.IntN(8) == 0, crlf), 0o644)
			writeFile(t, filepath.Join(dir, "tree", name), g.join(g.drift(a, distinct), g.IntN(10) == 0, crlf != (g.IntN(40) == 0)), 0o644)
		}
		out, _, _ := gitTest(t, dir, nil, "diff", "--no-index", "--no-prefix", fmt.Sprintf("-U%d", context), "a", "b")
		files, err := Parse([]byte(out))
		if err != nil {
			t.Fatalf("batch %d: %v", batch, err)
		}
		tree := filepath.Join(dir, "tree")
		_, stderr, _ := gitTest(t, tree, []byte(out), "apply", "--check", "-v", "-")
		refused := map[string]bool{}
		for _, m := range failedFile.FindAllStringSubmatch(stderr, -1) {
			refused[m[1]] = true
		}
		offsets := gitOffsets(stderr)
		overlay := NewOverlay(DirTree(tree))
		var kept []byte
		var results []*Overlay
		for i, f := range files {
			total++
			next, r, err := Apply(overlay, []*File{f}, Options{})
			if err != nil {
				t.Fatalf("%s: %v", f.Path(), err)
			}
			end := len(out)
			if i+1 < len(files) {
				end = lineOffset(out, files[i+1].Line)
			}
			text := out[lineOffset(out, f.Line):end]
			if r.Applies == refused[f.Path()] {
				cur, _, _ := overlay.ReadFile(f.Path())
				if !r.Applies && joinsLines(f, cur) {
					joined++
					continue
				}
				t.Errorf("batch %d -U%d: we say applies=%t (%s), git the opposite\n%s\ntree:\n%q\ngit: %s", batch, context, r.Applies, r.Class, text, cur, grepLines(stderr, f.Path()))
				continue
			}
			if !r.Applies {
				continue
			}
			taken++
			for j, h := range r.Files[0].Hunks {
				if want := offsets[fmt.Sprintf("%s#%d", f.Path(), j+1)]; h.Offset != want {
					t.Errorf("batch %d: %s hunk %d: offset %d, git says %d", batch, f.Path(), j+1, h.Offset, want)
				}
				if h.Offset != 0 {
					moved++
				}
			}
			kept = append(kept, text...)
			results = append(results, next)
		}
		if _, stderr, err := gitTest(t, tree, kept, "apply", "-"); err != nil {
			t.Fatalf("git apply of the files that it took before: %v\n%s", err, stderr)
		}
		for _, o := range results {
			for _, c := range o.Changed() {
				got, err := os.ReadFile(filepath.Join(tree, c.Path))
				if c.Deleted != errors.Is(err, fs.ErrNotExist) || !c.Deleted && !bytes.Equal(got, c.Content) {
					t.Errorf("batch %d: %s differs from git's result\n got %q\nwant %q", batch, c.Path, c.Content, got)
				}
			}
		}
	}
	t.Logf("%d cases, %d taken, %d hunks moved, in %d git joins lines", total, taken, moved, joined)
	if taken < total/10 || total-taken < total/10 || moved == 0 {
		t.Errorf("the cases are one-sided: %d of %d taken, %d hunks moved", taken, total, moved)
	}
}

// joinsLines recognises what git apply takes wrongly: a hunk that ends in an
// unterminated context line, and an insertion behind an unterminated last
// line. Its result has two lines in one (see the package comment).
func joinsLines(f *File, tree []byte) bool {
	for i := range f.Hunks {
		h := &f.Hunks[i]
		if last := h.Lines[len(h.Lines)-1]; last.Op == Context && last.NoEOL && bytes.HasSuffix(tree, []byte("\n")) {
			return true
		}
		if h.OldLines == 0 && len(tree) > 0 && !bytes.HasSuffix(tree, []byte("\n")) {
			return true
		}
	}
	return false
}

var gitHunkAt = regexp.MustCompile(`Checking patch (\S+?)\.\.\.|Hunk #(\d+) succeeded at \d+ \(offset (-?\d+) lines?\)`)

func gitOffsets(stderr string) map[string]int {
	out := map[string]int{}
	file := ""
	for _, m := range gitHunkAt.FindAllStringSubmatch(stderr, -1) {
		if m[1] != "" {
			file = m[1]
			continue
		}
		n := 0
		fmt.Sscan(m[3], &n)
		out[file+"#"+m[2]] = n
	}
	return out
}

func lineOffset(s string, line int) int {
	at := 0
	for ; line > 1; line-- {
		at += strings.IndexByte(s[at:], '\n') + 1
	}
	return at
}

func grepLines(s, word string) string {
	var out []string
	for _, l := range strings.Split(s, "\n") {
		if strings.Contains(l, " "+word+":") {
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}

// oddCase is one patch whose headers, modes or names are unusual.
type oddCase struct {
	name  string
	tree  map[string]string // "name" or "name*" executable or "name@" link
	patch string
	// class is what we say; our decision must be git's unless stricter is
	// set, which names the difference in the package comment.
	class    Class
	stricter string
}

func oddTree(t testing.TB, dir string, files map[string]string) {
	for n, c := range files {
		switch {
		case strings.HasSuffix(n, "*"):
			writeFile(t, filepath.Join(dir, n[:len(n)-1]), c, 0o755)
		case strings.HasSuffix(n, "@"):
			writeFile(t, filepath.Join(dir, n[:len(n)-1]), c, fs.ModeSymlink)
		default:
			writeFile(t, filepath.Join(dir, n), c, 0o644)
		}
	}
}

// TestOddPatchesAgainstGit runs whole patches through git apply and through
// Check and Write, and compares decision and resulting tree.
func TestOddPatchesAgainstGit(t *testing.T) {
	for _, c := range oddCases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			ours, theirs := filepath.Join(dir, "x", "ours"), filepath.Join(dir, "x", "theirs")
			for _, d := range []string{ours, theirs} {
				if err := os.MkdirAll(d, 0o755); err != nil {
					t.Fatal(err)
				}
				oddTree(t, d, c.tree)
			}
			before := snapshot(t, ours)
			o, r, err := Check(NewOverlay(DirTree(ours)), []byte(c.patch), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Class != c.class {
				t.Errorf("class %s, want %s (%s)", r.Class, c.class, r.Reason)
			}
			if after := snapshot(t, ours); after != before {
				t.Errorf("Check changed the tree:\n%s", after)
			}
			_, stderr, gitErr := gitTest(t, theirs, []byte(c.patch), "apply", "-")
			if r.Applies != (gitErr == nil) {
				if c.stricter == "" || r.Applies {
					t.Fatalf("applies=%t (%s: %s), git: %v %s", r.Applies, r.Class, r.Reason, gitErr, stderr)
				}
				return
			}
			if c.stricter != "" {
				t.Errorf("git agrees, so this is no difference: %s", c.stricter)
			}
			if err := Write(ours, o); err != nil {
				t.Fatal(err)
			}
			if got, want := snapshot(t, ours), snapshot(t, theirs); got != want {
				t.Errorf("tree after us:\n%s\nafter git:\n%s", got, want)
			}
			if outside := snapshot(t, dir); strings.Count(outside, "\n") > strings.Count(before, "\n")*2+20 {
				t.Errorf("files outside the tree:\n%s", outside)
			}
		})
	}
}

// TestTreesAgainstGit compares whole patches of several files (renames,
// copies, modes, links, new and deleted files) with git apply, on trees that
// differ from the one the patch was made against.
func TestTreesAgainstGit(t *testing.T) {
	n := 80
	if testing.Short() {
		n = 25
	}
	taken := 0
	for seed := range n {
		g := generator{rand.New(rand.NewPCG(uint64(seed), 99))}
		dir := t.TempDir()
		names := []string{"f", "g", "d/h", "d/i", "e/j", "e/k/l", "m"}
		tree := map[string][]string{}
		modes := map[string]fs.FileMode{}
		for _, name := range names[:3+g.IntN(5)] {
			tree[name] = g.lines(5+g.IntN(25), 20)
			modes[name] = []fs.FileMode{0o644, 0o755}[g.IntN(2)]
		}
		write := func(to string, tree map[string][]string, modes map[string]fs.FileMode) {
			if err := os.MkdirAll(filepath.Join(dir, to), 0o755); err != nil {
				t.Fatal(err)
			}
			for name, lines := range tree {
				if modes[name] == fs.ModeSymlink {
					writeFile(t, filepath.Join(dir, to, name), "target"+strings.TrimSpace(strings.Join(lines, "")), fs.ModeSymlink)
					continue
				}
				writeFile(t, filepath.Join(dir, to, name), strings.Join(lines, ""), modes[name])
			}
		}
		write("repo", tree, modes)
		repo := filepath.Join(dir, "repo")
		git := func(args ...string) string {
			out, stderr, err := gitTest(t, repo, nil, args...)
			if err != nil {
				t.Fatalf("git %v: %v %s", args, err, stderr)
			}
			return out
		}
		git("init", "-q")
		git("add", "-A")
		git("commit", "-qm", "old")

		next, nextModes := map[string][]string{}, map[string]fs.FileMode{}
		for name, lines := range tree {
			next[name], nextModes[name] = lines, modes[name]
		}
		for range 1 + g.IntN(4) {
			var have []string
			for name := range next {
				have = append(have, name)
			}
			if len(have) == 0 {
				break
			}
			sort.Strings(have)
			a, b := have[g.IntN(len(have))], names[g.IntN(len(names))]
			switch g.IntN(7) {
			case 0:
				next[a] = g.edit(next[a], 1, 20)
			case 1:
				nextModes[a] = []fs.FileMode{0o644, 0o755, fs.ModeSymlink}[g.IntN(3)]
			case 2:
				delete(next, a)
			case 3: // rename
				lines, mode := next[a], nextModes[a]
				delete(next, a)
				next[b], nextModes[b] = g.edit(lines, g.IntN(2), 20), mode
			case 4: // copy, with a change of the source so that git sees it
				next[b], nextModes[b] = g.edit(next[a], g.IntN(2), 20), 0o644
				next[a] = g.edit(next[a], 1, 20)
			case 5:
				next[b], nextModes[b] = g.lines(10, 20), 0o755
			case 6: // swap
				if _, ok := next[b]; ok {
					next[a], next[b] = next[b], next[a]
				}
			}
		}
		for name := range tree {
			os.Remove(filepath.Join(repo, name))
		}
		write("repo", next, nextModes)
		git("add", "-A")
		text := git("diff", "--cached", "-M", "-C", "-B", "--binary", "HEAD")
		if text == "" {
			continue
		}
		// The tree to apply it to: often the old one, else a little different.
		for name, lines := range tree {
			switch g.IntN(12) {
			case 0:
				tree[name] = g.edit(lines, 1, 20)
			case 1:
				tree[name] = append(g.lines(3, 20), lines...)
			case 2:
				if g.IntN(3) == 0 {
					delete(tree, name)
				}
			case 3:
				modes[name] = []fs.FileMode{0o644, 0o755}[g.IntN(2)]
			case 4:
				if l, ok := next[names[g.IntN(len(names))]]; ok && g.IntN(3) == 0 {
					tree[name] = l
				}
			}
		}
		write("x/ours", tree, modes)
		write("x/theirs", tree, modes)
		ours, theirs := filepath.Join(dir, "x/ours"), filepath.Join(dir, "x/theirs")
		o, r, err := Check(NewOverlay(DirTree(ours)), []byte(text), Options{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		_, stderr, gitErr := gitTest(t, theirs, []byte(text), "apply", "-")
		if r.Applies != (gitErr == nil) {
			t.Errorf("seed %d: applies=%t (%s: %s), git: %s\n%s\ntree:\n%s", seed, r.Applies, r.Class, r.Reason, stderr, text, snapshot(t, ours))
			continue
		}
		if !r.Applies {
			continue
		}
		taken++
		if err := Write(ours, o); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got, want := snapshot(t, ours), snapshot(t, theirs); got != want {
			t.Errorf("seed %d:\n%s\ngives\n%s\ngit makes\n%s", seed, text, got, want)
		}
	}
	t.Logf("%d patches, %d taken", n, taken)
	if taken < n/4 {
		t.Errorf("only %d of %d patches were taken", taken, n)
	}
}

// TestDamagedAgainstGit damages diffs line by line and compares the decision
// and the result with git apply.
func TestDamagedAgainstGit(t *testing.T) {
	n := 250
	if testing.Short() {
		n = 60
	}
	counts := map[Class]int{}
	for seed := range n {
		g := generator{rand.New(rand.NewPCG(uint64(seed), 6))}
		dir := t.TempDir()
		for i := range 2 {
			a := g.lines(10+g.IntN(30), 12)
			name := fmt.Sprintf("f%d", i)
			writeFile(t, filepath.Join(dir, "a", name), g.join(a, g.IntN(9) == 0, false), 0o644)
			writeFile(t, filepath.Join(dir, "b", name), g.join(g.edit(a, 1+g.IntN(3), 12), g.IntN(9) == 0, false), 0o644)
		}
		out, _, _ := gitTest(t, dir, nil, "diff", "--no-index", "--no-prefix", "a", "b")
		lines := strings.SplitAfter(out, "\n")
		if seed%3 == 0 { // as diff -u writes it
			lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "diff --git") || strings.HasPrefix(l, "index ") })
		}
		for range 1 + g.IntN(2) {
			if len(lines) < 2 {
				break
			}
			i := g.IntN(len(lines) - 1)
			switch g.IntN(8) {
			case 0:
				lines = slices.Delete(lines, i, i+1)
			case 1:
				lines = slices.Insert(lines, i, lines[i])
			case 2:
				lines[i] = []string{" ", "+", "-", "\\", "@", "x"}[g.IntN(6)] + strings.TrimLeft(lines[i], " +-")
			case 3:
				lines = slices.Insert(lines, i, []string{"\n", "text\n", "-- \n", "\\ No newline at end of file\n", "@@ -1 +1 @@\n", "--- a/f0\n", "+++ b/f0\n", "diff --git a/f0 b/f0\n"}[g.IntN(8)])
			case 4:
				lines[i] = strings.TrimSuffix(lines[i], "\n")
			case 5:
				lines = lines[:i]
			case 6: // a digit of a hunk header, if there is one
				if at := strings.IndexAny(lines[i], "123456789"); at >= 0 && strings.HasPrefix(lines[i], "@@") {
					b := []byte(lines[i])
					b[at] = byte('0' + g.IntN(10))
					lines[i] = string(b)
				}
			case 7:
				j := g.IntN(len(lines) - 1)
				lines[i], lines[j] = lines[j], lines[i]
			}
		}
		text := strings.Join(lines, "")
		theirs := filepath.Join(dir, "a")
		o, r, err := Check(NewOverlay(DirTree(theirs)), []byte(text), Options{})
		if err != nil {
			t.Fatal(err)
		}
		counts[r.Class]++
		var changed []Change
		for _, c := range o.Changed() {
			changed = append(changed, c) // before git changes the tree
		}
		joins := false
		files, _ := Parse([]byte(text))
		for _, f := range files {
			if b, err := os.ReadFile(filepath.Join(theirs, f.Old)); err == nil {
				joins = joins || joinsLines(f, b)
			}
		}
		_, stderr, gitErr := gitTest(t, theirs, []byte(text), "apply", "-")
		if r.Applies != (gitErr == nil) {
			stricter := joins || strings.Contains(r.Reason, "behind the end of the hunk") || strings.Contains(r.Reason, "not followed by a hunk") ||
				strings.Contains(r.Reason, "followed by no change") && strings.HasPrefix(lines[len(lines)-1]+lines[max(len(lines)-2, 0)], "diff --git ")
			if r.Applies || !stricter {
				t.Errorf("seed %d: applies=%t (%s: %s), git: %s\n%s", seed, r.Applies, r.Class, r.Reason, stderr, text)
			}
			continue
		}
		for _, c := range changed {
			got, err := os.ReadFile(filepath.Join(theirs, c.Path))
			if c.Deleted != errors.Is(err, fs.ErrNotExist) || !c.Deleted && !bytes.Equal(got, c.Content) {
				t.Errorf("seed %d: %s is %q, git makes %q\n%s", seed, c.Path, c.Content, got, text)
			}
		}
	}
	t.Log(counts)
}
