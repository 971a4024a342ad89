// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

func TestParseErrors(t *testing.T) {
	head := gitPatch("f", "f", "--- a/f", "+++ b/f")
	tests := []struct {
		name, text string
		line       int
		class      Class
		reason     string
	}{
		{"cut in a hunk", head + change5[:strings.Index(change5, " 6")], 10, Corrupt, "3 old and 3 new lines are missing"},
		{"next file too early", head + change5[:strings.Index(change5, " 7")] + head + change5, 11, Corrupt, "ends too early"},
		{"cut in a line", head + change5[:len(change5)-2], 12, Corrupt, "middle of a line"},
		{"more old lines than counted", head + strings.Replace(change5, "2,7 +2,7", "2,4 +2,7", 1), 10, Corrupt, "more old lines"},
		{"surplus added line", head + change5 + "+x\n", 13, Corrupt, "behind the end of the hunk"},
		{"surplus removed line", head + change5 + "-x\n", 13, Corrupt, "behind the end of the hunk"},
		{"number too large", head + "@@ -98765432109876543210 +1 @@\n-a\n+b\n", 4, Corrupt, "cannot read the hunk header"},
		{"hunk without its end mark", head + "@@ -1,1 +1,1\n-a\n+b\n", 4, Corrupt, "cannot read the hunk header"},
		{"hunk alone", "words\n@@ -1 +1 @@\n-a\n+b\n", 2, Corrupt, "without a file header"},
		{"only context", head + "@@ -1 +1 @@\n a\n", 4, Corrupt, "changes nothing"},
		{"merge diff", "diff --cc f\nindex 1,2..3\n--- a/f\n+++ b/f\n@@@ -1 -1 +1 @@@\n", 1, Corrupt, "merge diff"},
		{"context diff", "*** a/f\t2024\n--- b/f\t2024\n***************\n*** 1 ****\n", 1, Corrupt, "context diff"},
		{"normal diff", "3c3\n< a\n---\n> b\n", 1, Corrupt, "without context"},
		{"quoted", "On Monday, x wrote:\n> diff --git a/f b/f\n> --- a/f\n", 2, Corrupt, "quoted"},
		{"binary junk", "\x7fELF\x00\x01\n", 1, Corrupt, "binary data"},
		{"header at the end", "--- a/f\n+++ b/f\n", 1, Corrupt, "not followed by a hunk"},
		{"git header at the end", head, 4, Corrupt, "not followed by a hunk"},
		{"nothing in the header", gitPatch("f", "f", "index 1111111..2222222 100644"), 3, Empty, "no change"},
		{"prose", "diff --git is what git prints\n", 1, Corrupt, "no file change"},
		{"wrapped", head + strings.Replace(change5, "+five", "+five long\nwords", 1), 10, WhitespaceDamage, "wrapped"},
		{"wrapped twice", head + strings.Replace(change5, "+five", "+five\nlong\nwords", 1), 10, WhitespaceDamage, "wrapped"},
		{"spaces eaten", head + strings.ReplaceAll(change5, "\n ", "\n"), 5, WhitespaceDamage, "context line is gone"},
		{"both", head + strings.Replace(strings.ReplaceAll(change5, "\n 2", "\n2"), "+five", "+five\nwords", 1), 5, WhitespaceDamage, "wrapped and leading spaces"},
		{"other text in the hunk", head + strings.Replace(change5, " 6\n 7\n", "Hello\n", 1), 10, Corrupt, "must begin with"},
		{"truncated binary", gitPatch("f", "f", "index 0000000000000000000000000000000000000000..1111111111111111111111111111111111111111", "GIT binary patch", "literal 4"), 5, Corrupt, "binary"},
		{"bad binary data", gitPatch("f", "f", "new file mode 100644", "GIT binary patch", "literal 4", "D00000", "", ""), 1, Corrupt, "decoded"},
		{"binary of another kind", gitPatch("f", "f", "new file mode 100644", "GIT binary patch", "zip 4", ""), 4, Corrupt, "literal"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.text))
			var pe *ParseError
			if !errors.As(err, &pe) {
				t.Fatalf("error %v", err)
			}
			if pe.Line != tt.line || pe.Class != tt.class || !strings.Contains(pe.Reason, tt.reason) {
				t.Errorf("line %d, %s, %q; want line %d, %s, %q", pe.Line, pe.Class, pe.Reason, tt.line, tt.class, tt.reason)
			}
		})
	}
}

func TestParseNone(t *testing.T) {
	for _, text := range []string{"", "words\n", "Subject: [PATCH 0/2] x\n\n f | 2 +-\n 1 file changed\n-- \n2.39\n",
		"an indented diff:\n\n    diff --git a/f b/f\n    --- a/f\n    +++ b/f\n    @@ -1 +1 @@\n"} {
		files, err := Parse([]byte(text))
		if len(files) != 0 || err != nil {
			t.Errorf("%q: %d files, %v", text, len(files), err)
		}
	}
}

func TestParseNames(t *testing.T) {
	tests := []struct{ text, old, new string }{
		{"--- a/d/f\n+++ b/d/f\n", "d/f", "d/f"},
		{"--- d/f\t2024-01-01 00:00:00 +0000\n+++ d/f\t2024-01-01 00:00:00 +0000\n", "d/f", "d/f"},
		{"--- linux.orig/d/f\n+++ linux/d/f\n", "d/f", "d/f"},
		{"--- ./d/f\n+++ ./d/f\n", "d/f", "d/f"},
		{"--- /dev/null\n+++ b/d/f\n", "", "d/f"},
		{"--- a/d/f\n+++ /dev/null\n", "d/f", ""},
		{"--- f.orig\n+++ f\n", "f", "f"},
		{"diff --git d/f d/f\n--- d/f\n+++ d/f\n", "d/f", "d/f"},
		{"diff --git i/d/f w/d/f\n--- i/d/f\n+++ w/d/f\n", "d/f", "d/f"},
		{"diff --git a/d/f b/e/g\nrename from d/f\nrename to e/g\n--- a/d/f\n+++ b/e/g\n", "d/f", "e/g"},
		{"diff --git d/f e/g\nrename from d/f\nrename to e/g\n--- d/f\n+++ e/g\n", "d/f", "e/g"},
		{"diff --git a/a b b/a b\n--- a/a b\t\n+++ b/a b\t\n", "a b", "a b"},
		{"diff --git \"a/\\303\\244\" \"b/\\303\\244\"\n--- \"a/\\303\\244\"\n+++ \"b/\\303\\244\"\n", "\u00e4", "\u00e4"},
		{"diff --git \"a/q\\\\\\\"\" \"b/q\\\\\\\"\"\n--- \"a/q\\\\\\\"\"\n+++ \"b/q\\\\\\\"\"\n", "q\\\"", "q\\\""},
	}
	for _, tt := range tests {
		hunk := "@@ -1 +1 @@\n-a\n+b\n"
		switch {
		case tt.old == "":
			hunk = "@@ -0,0 +1 @@\n+b\n"
		case tt.new == "":
			hunk = "@@ -1 +0,0 @@\n-a\n"
		}
		files, err := Parse([]byte(tt.text + hunk))
		if err != nil || len(files) != 1 {
			t.Errorf("%q: %v", tt.text, err)
			continue
		}
		if f := files[0]; f.Old != tt.old || f.New != tt.new {
			t.Errorf("%q: %q -> %q, want %q -> %q", tt.text, f.Old, f.New, tt.old, tt.new)
		}
	}
}

// A strip level other than git's -p1 is found by what is in the tree.
func TestStripLevel(t *testing.T) {
	for _, text := range []string{
		"--- d/f\n+++ d/f\n", "diff --git d/f d/f\n--- d/f\n+++ d/f\n", "--- x/y/d/f\n+++ x/y/d/f\n",
		"--- old/x/d/f\n+++ new/x/d/f\n", "--- a/d/f\n+++ a/d/f\n", "diff --git a/d/f a/d/f\n--- a/d/f\n+++ a/d/f\n",
	} {
		tree := NewOverlay(MapTree{"d/f": []byte(ten)})
		_, r, err := Check(tree, []byte(text+change5), Options{})
		if err != nil || r.Class != Clean || r.Files[0].Path != "d/f" {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
	}
}

func TestParseFields(t *testing.T) {
	files := mustParse(t, "text\n"+gitPatch("f", "g", "old mode 100644", "new mode 100755", "similarity index 88%", "rename from f", "rename to g", "index ABCDEF1..2345678", "--- a/f", "+++ b/g")+
		strings.Replace(change5, "@@\n", "@@ int main(void)\n", 1)+"\\ No newline at end of file\n")
	f := files[0]
	h := f.Hunks[0]
	got := strings.TrimSpace(fmt.Sprintln(f.Line, f.OldMode, f.NewMode, f.Score, f.IsRename, f.OldOID, f.NewOID, f.Added, f.Deleted, h.Line, h.OldStart, h.OldLines, h.NewStart, h.NewLines, h.Section, len(h.Lines), h.Lines[7].NoEOL))
	if want := "2 33188 33261 88 true abcdef1 2345678 1 1 11 2 7 2 7 int main(void) 8 true"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestParseAgainstGitdiff compares hunks with those of the library, on diffs
// that git made.
func TestParseAgainstGitdiff(t *testing.T) {
	dir := t.TempDir()
	g := generator{rand.New(rand.NewPCG(1, 2))}
	for i := range 200 {
		a := g.lines(g.IntN(60), 10)
		name := fmt.Sprintf("f%d", i)
		writeFile(t, filepath.Join(dir, "a", name), g.join(a, g.IntN(5) == 0, g.IntN(9) == 0), 0o644)
		if g.IntN(10) > 0 {
			writeFile(t, filepath.Join(dir, "b", name), g.join(g.edit(a, 1+g.IntN(6), 10), g.IntN(5) == 0, false), 0o644)
		}
	}
	out, _, _ := gitTest(t, dir, nil, "diff", "--no-index", "--no-prefix", "a", "b")
	ours := mustParse(t, out)
	theirs, _, err := gitdiff.Parse(strings.NewReader(out))
	if err != nil || len(ours) != len(theirs) {
		t.Fatalf("%d and %d files, %v", len(ours), len(theirs), err)
	}
	for i, f := range ours {
		if len(f.Hunks) != len(theirs[i].TextFragments) {
			t.Errorf("%s: %d and %d hunks", f.Path(), len(f.Hunks), len(theirs[i].TextFragments))
			continue
		}
		for j, h := range f.Hunks {
			tf := theirs[i].TextFragments[j]
			var a, b bytes.Buffer
			for _, l := range h.Lines {
				fmt.Fprintf(&a, "%c%s", l.Op, l.full())
			}
			for _, l := range tf.Lines {
				b.WriteString(l.String())
			}
			lead, trail := h.context()
			if a.String() != b.String() || int64(h.OldStart) != tf.OldPosition || int64(h.OldLines) != tf.OldLines ||
				int64(h.NewStart) != tf.NewPosition || int64(h.NewLines) != tf.NewLines || h.Section != tf.Comment || int64(lead) != tf.LeadingContext || int64(trail) != tf.TrailingContext {
				t.Errorf("%s hunk %d differs:\n%q\n%q", f.Path(), j, a.String(), b.String())
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range oddCases {
		f.Add([]byte(c.patch))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		files, err := Parse(b)
		if err != nil {
			var pe *ParseError
			if !errors.As(err, &pe) || pe.Class == "" || pe.Reason == "" || pe.Line < 1 || pe.Line > bytes.Count(b, []byte("\n"))+2 {
				t.Errorf("error %#v", err)
			}
		}
		for _, f := range files {
			if f.Path() == "" {
				t.Error("a file without a name")
			}
			for _, h := range f.Hunks {
				if o, n := len(h.side(Delete)), len(h.side(Add)); o != h.OldLines || n != h.NewLines {
					t.Errorf("%s: %d old and %d new lines", h.Header, o, n)
				}
			}
		}
	})
}

func FuzzApply(f *testing.F) {
	for _, c := range oddCases {
		for _, content := range c.tree {
			f.Add([]byte(content), []byte(c.patch))
			break
		}
	}
	f.Fuzz(func(t *testing.T, content, patch []byte) {
		if len(content)+len(patch) > 1<<16 {
			return
		}
		tree := NewOverlay(MapTree{"f": content, "d/g": []byte(ten)})
		for _, opts := range []Options{{}, {UnidiffZero: true}} {
			o, r, err := Check(tree, patch, opts)
			if err != nil {
				t.Fatal(err)
			}
			if r.Class == "" {
				t.Error("no class")
			}
			if !r.Applies && o != tree {
				t.Error("a refused patch changed the overlay")
			}
			for i := range r.Files {
				if strings.Contains(r.Files[i].Reason, "internal error") || strings.Contains(r.Files[i].Reason, "go-gitdiff refuses") {
					t.Error(r.Files[i].Reason)
				}
			}
			for _, c := range o.Changed() {
				if err := CheckPath(c.Path); err != nil {
					t.Error(err)
				}
			}
			if err := r.Explain(&strings.Builder{}); err != nil {
				t.Error(err)
			}
		}
	})
}
