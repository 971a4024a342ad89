// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchcheck/internal/sharedtest"
)

// TestApplyMatrix runs the public cases: class, decision and resulting tree.
func TestApplyMatrix(t *testing.T) {
	root := sharedtest.Path(t, "cases", "suites", "apply-matrix")
	cases, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name(), func(t *testing.T) {
			dir := filepath.Join(root, c.Name())
			var want struct {
				Class   Class `json:"cls"`
				Applies any   `json:"applies"`
			}
			b, err := os.ReadFile(filepath.Join(dir, "expect.json"))
			if err == nil {
				err = json.Unmarshal(b, &want)
			}
			if err != nil {
				t.Fatal(err)
			}
			patch, err := os.ReadFile(filepath.Join(dir, "patch"))
			if err != nil {
				t.Fatal(err)
			}
			o, r, err := Check(NewOverlay(DirTree(filepath.Join(dir, "pre"))), patch, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Class != want.Class || want.Applies != nil && r.Applies != (want.Applies == true) {
				t.Errorf("%s, applies=%t (%s); want %s, %v", r.Class, r.Applies, r.Reason, want.Class, want.Applies)
			}
			post := filepath.Join(dir, "post")
			if _, err := os.Stat(post); err != nil {
				return
			}
			err = filepath.WalkDir(post, func(p string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				rel, _ := filepath.Rel(post, p)
				want, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				if got, _, err := o.ReadFile(filepath.ToSlash(rel)); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: %v\n got %q\nwant %q", rel, err, got, want)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range o.Changed() {
				_, err := os.Lstat(filepath.Join(post, c.Path))
				if c.Deleted != errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: deleted=%t, but in the expected tree: %v", c.Path, c.Deleted, err)
				}
			}
		})
	}
}

func TestBinary(t *testing.T) {
	dir := t.TempDir()
	old := bytes.Repeat([]byte("some\x00binary\xffdata, long enough for a delta\n"), 40)
	changed := append(bytes.Clone(old), "more\x00"...)
	changed[100] = '!'
	writeFile(t, filepath.Join(dir, "a", "f"), string(old), 0o644)
	writeFile(t, filepath.Join(dir, "b", "f"), string(changed), 0o644)
	writeFile(t, filepath.Join(dir, "b", "new"), "\x00\x01\x02", 0o644)
	writeFile(t, filepath.Join(dir, "a", "gone"), "\x00\x03", 0o644)
	text, _, _ := gitTest(t, dir, nil, "diff", "--no-index", "--no-prefix", "--binary", "a", "b")
	if !strings.Contains(text, "delta ") || !strings.Contains(text, "literal ") {
		t.Fatalf("git made no delta and literal:\n%s", text)
	}
	tree := MapTree{"f": old, "gone": []byte("\x00\x03")}
	o, r, err := Check(NewOverlay(tree), []byte(text), Options{})
	if err != nil || r.Class != Binary || !r.Applies {
		t.Fatalf("%+v, %v", r, err)
	}
	if got, _, _ := o.ReadFile("f"); !bytes.Equal(got, changed) {
		t.Errorf("f is %q", got)
	}
	if got, _, _ := o.ReadFile("new"); string(got) != "\x00\x01\x02" {
		t.Errorf("new is %q", got)
	}
	if _, _, err := o.ReadFile("gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("gone: %v", err)
	}
	if _, r, err = Check(o, []byte(text), Options{}); err != nil || r.Class != AlreadyApplied {
		t.Errorf("applied twice: %+v, %v", r, err)
	}
	if _, r, err = Check(NewOverlay(MapTree{"f": []byte("other\x00"), "gone": tree["gone"]}), []byte(text), Options{}); err != nil || r.Class != Conflict || r.Applies {
		t.Errorf("another file: %+v, %v", r, err)
	}
	lines := strings.SplitAfter(text, "\n")
	for i, l := range lines {
		if binaryLine(l) && len(l) > 12 {
			swapped := []byte(l)
			swapped[5], swapped[6] = swapped[6], swapped[5]
			lines[i] = string(swapped)
			break
		}
	}
	if _, r, err = Check(NewOverlay(tree), []byte(strings.Join(lines, "")), Options{}); err != nil || r.Applies || r.Class != Corrupt {
		t.Errorf("damaged data: %+v, %v", r, err)
	}
}

// halfMerged is a patch of three files of which the tree holds parts.
func TestPartlyThere(t *testing.T) {
	change := func(name string) string { return gitPatch(name, name, "--- a/"+name, "+++ b/"+name) + longChange }
	newFile := gitPatch("n", "n", "new file mode 100644", "--- /dev/null", "+++ b/n", "@@ -0,0 +1 @@", "+content")
	done := strings.Replace(long, "line five", "line fuenf", 1)
	patch := change("a") + change("b") + newFile + change("c")
	tree := MapTree{
		"a": []byte("moved\n" + long),
		"b": []byte(done),
		"n": []byte("content\n"),
		"c": []byte(strings.Replace(long, "line five", "line 5", 1)),
	}
	_, r, err := Check(NewOverlay(tree), []byte(patch), Options{})
	if err != nil || r.Class != PartiallyApplied || r.Applies {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, want := range []Class{Offset, AlreadyApplied, AlreadyApplied, Conflict} {
		if got := r.Files[i].Class; got != want {
			t.Errorf("%s: %s, want %s", r.Files[i].Path, got, want)
		}
	}
	all, apply, present, overtaken := r.HunkCounts()
	if all != 4 || apply != 1 || present != 2 || overtaken != 0 {
		t.Errorf("hunks: %d, %d apply, %d present, %d overtaken", all, apply, present, overtaken)
	}
	h := r.Files[3].Hunks[0]
	if h.FoundLine != 2 || len(h.Expected) != 7 || h.Found[3] != "line 5" || h.Expected[3] != "line five" {
		t.Errorf("conflict: %+v", h)
	}
	var b strings.Builder
	if err := r.Explain(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"-line five", "+line 5", "offset +1 line", "already in the tree, at line 2", "by hand: git apply --reject", "@@ -2,7 +2,7 @@"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the explanation lacks %q:\n%s", want, b.String())
		}
	}
}

func TestOvertaken(t *testing.T) {
	patch := gitPatch("f", "f", "--- a/f", "+++ b/f") + `@@ -2,7 +2,9 @@
 line two
 line three
 line four
-line five
+first new line
+second new line
+third new line
 line six
 line seven
 line eight
`
	later := strings.Replace(long, "line five\n", "first new line\nsecond new line\nsomething else\n", 1)
	_, r, err := Check(NewOverlay(MapTree{"f": []byte(later)}), []byte(patch), Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := r.Files[0].Hunks[0]
	if r.Class != Conflict || !h.Overtaken || h.AddedFound != 2 || h.AddedTotal != 3 || h.RemovedFound != 0 || h.RemovedTotal != 1 {
		t.Errorf("%s %+v", r.Class, h)
	}
	// The same place, changed to something that the patch knows nothing of.
	_, r, err = Check(NewOverlay(MapTree{"f": []byte(strings.Replace(long, "five", "5", 1))}), []byte(patch), Options{})
	if err != nil || r.Class != Conflict || r.Files[0].Hunks[0].Overtaken {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestEncodingNotes(t *testing.T) {
	tree := NewOverlay(MapTree{"f": []byte(strings.Replace(ten, "4\n", "if (a <= b && c)\n", 1))})
	for line, want := range map[string]string{"if (a <=3D b && c)": "quoted-printable", "if (a &lt;= b &amp;&amp; c)": "web page", "if (a < b && c)": ""} {
		patch := gitPatch("f", "f", "--- a/f", "+++ b/f") + strings.Replace(change5, " 4", " "+line, 1)
		_, r, err := Check(tree, []byte(patch), Options{})
		if err != nil || r.Class != Conflict {
			t.Fatalf("%+v, %v", r, err)
		}
		if note := r.Files[0].Hunks[0].Note; !strings.Contains(note, want) || want == "" && note != "" {
			t.Errorf("%q: note %q, want %q", line, note, want)
		}
	}
}

func TestFileJSON(t *testing.T) {
	files := mustParse(t, gitPatch("f", "f", "--- a/f", "+++ b/f")+change5)
	b, err := json.Marshal(files)
	if err != nil {
		t.Fatal(err)
	}
	var back []*File
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), `{"op":"-","text":"5"}`) || back[0].Hunks[0].Lines[4].Op != Add {
		t.Errorf("%s", b)
	}
}

func TestBase(t *testing.T) {
	id := BlobID([]byte(ten), 40)
	if id != "f00c965d8307308469e537302baa73048488f162" {
		t.Errorf("blob id of ten lines is %s", id)
	}
	for oid, want := range map[string]Base{id: BaseMatch, id[:7]: BaseMatch, strings.ToUpper(id[:12]): BaseMatch, "1234567": BaseDiffers, "": BaseUnknown, BlobID([]byte(ten), 64): BaseMatch} {
		var extra []string
		if oid != "" {
			extra = append(extra, "index "+oid+".."+strings.Repeat("2", len(oid))+" 100644")
		}
		patch := gitPatch("f", "f", append(extra, "--- a/f", "+++ b/f")...) + change5
		_, r, err := Check(NewOverlay(MapTree{"f": []byte(ten)}), []byte(patch), Options{})
		if err != nil || r.Files[0].Base != want || !r.Applies {
			t.Errorf("index %q: base %s, want %s, %v", oid, r.Files[0].Base, want, err)
		}
	}
}

func TestReversedSigns(t *testing.T) {
	after := strings.Replace(ten, "5\n", "five\n", 1)
	shrink := "@@ -2,7 +2,6 @@\n 2\n 3\n 4\n-5\n 6\n 7\n 8\n"
	small := strings.Replace(ten, "5\n", "", 1)
	tests := []struct {
		name, tree, patch string
		class             Class
	}{
		{"no sign", after, gitPatch("f", "f", "--- a/f", "+++ b/f") + change5, AlreadyApplied},
		{"prefixes swapped", after, gitPatch("f", "f", "--- b/f", "+++ a/f") + change5, Reversed},
		{"new file named .orig", after, "--- f\n+++ f.orig\n" + change5, Reversed},
		{"removes lines, no index line", small, gitPatch("f", "f", "--- a/f", "+++ b/f") + shrink, AlreadyApplied},
		{"removes lines, tree is the new side", small, gitPatch("f", "f", "index 1111111.."+BlobID([]byte(small), 7)+" 100644", "--- a/f", "+++ b/f") + shrink, Reversed},
		{"removes lines, tree has moved on", small + "11\n", gitPatch("f", "f", "index 1111111.."+BlobID([]byte(small), 7)+" 100644", "--- a/f", "+++ b/f") + shrink, AlreadyApplied},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, r, err := Check(NewOverlay(MapTree{"f": []byte(tt.tree)}), []byte(tt.patch), Options{})
			if err != nil || r.Class != tt.class || r.Applies {
				t.Errorf("%s (%s), want %s, %v", r.Class, r.Reason, tt.class, err)
			}
		})
	}
}

func TestUnidiffZero(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a", "f"), ten, 0o644)
	writeFile(t, filepath.Join(dir, "b", "f"), "0\n1\n2\nx\n3\n4\nfive\n6\n8\n9\n10\n11\n", 0o644)
	text, _, _ := gitTest(t, dir, nil, "diff", "--no-index", "--no-prefix", "-U0", "a", "b")
	tree := NewOverlay(MapTree{"f": []byte(ten)})
	if _, r, err := Check(tree, []byte(text), Options{}); err != nil || r.Class != ZeroContext || r.Applies {
		t.Errorf("%+v, %v", r, err)
	}
	o, r, err := Check(tree, []byte(text), Options{UnidiffZero: true})
	if err != nil || r.Class != ZeroContext || !r.Applies {
		t.Fatalf("%+v, %v", r, err)
	}
	want, err := os.ReadFile(filepath.Join(dir, "b", "f"))
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := o.ReadFile("f"); !bytes.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestApplySeries(t *testing.T) {
	one := mustParse(t, gitPatch("f", "f", "--- a/f", "+++ b/f")+longChange)
	two := mustParse(t, gitPatch("f", "f", "--- a/f", "+++ b/f")+strings.ReplaceAll(strings.Replace(longChange, "@@\n", "@@ some_function\n", 1), "fuenf", "cinq"))
	three := mustParse(t, gitPatch("n", "n", "new file mode 100644", "--- /dev/null", "+++ b/n", "@@ -0,0 +1 @@", "+content"))
	four := mustParse(t, gitPatch("x", "x", "--- a/x", "+++ b/x")+change5)
	tree := NewOverlay(MapTree{"f": []byte(long)})
	o, s, err := ApplySeries(tree, [][]*File{one, two, three, four}, Options{})
	if err != nil || s.OK || len(s.Patches) != 4 {
		t.Fatalf("%+v, %v", s, err)
	}
	var got []string
	for _, p := range s.Patches {
		got = append(got, string(p.Status)+map[bool]string{true: "+", false: ""}[p.Alone])
	}
	if g, want := strings.Join(got, ", "), "ok, FAILED, NOT TRIED+, NOT TRIED"; g != want {
		t.Errorf("%s, want %s", g, want)
	}
	if b, _, _ := o.ReadFile("f"); !strings.Contains(string(b), "fuenf") {
		t.Error("the good patch is not in the overlay")
	}
	if _, _, err := o.ReadFile("n"); err == nil {
		t.Error("a patch that was not tried is in the overlay")
	}
	var b strings.Builder
	if err := s.Explain(&b, "first", "second", "third", "fourth"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1/4 ok  first\n", "2/4 FAILED  second (conflict)", "3/4 NOT TRIED  third (would apply alone)", "4/4 NOT TRIED  fourth (alone: missing_file)", "some_function"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the explanation lacks %q:\n%s", want, b.String())
		}
	}
	_, perr := Parse([]byte("@@ -1 +1 @@\n-a\n+b\n"))
	if _, s, err = ApplySeries(tree, [][]*File{nil, one}, Options{}, perr); err != nil || s.Patches[0].Result.Class != Corrupt || s.Patches[1].Status != NotTried {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestSeeds needs a kernel tree, named by PATCHCHECK_TREE; the figures
// are those of 7.3.4.
func TestSeeds(t *testing.T) {
	tree := os.Getenv("PATCHCHECK_TREE")
	if tree == "" {
		t.Skip("PATCHCHECK_TREE names no kernel tree")
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(sharedtest.Path(t, "seeds", name))
		if err != nil {
			t.Fatal(err)
		}
		return append(bytes.TrimRight(b, "\n"), '\n')
	}
	_, r, err := Check(NewOverlay(DirTree(tree)), read("svcrdma-inline-cover-and-patch.txt"), Options{})
	if err != nil || r.Class != Offset || !r.Applies {
		t.Fatalf("%+v, %v", r, err)
	}
	var got []int
	for _, f := range r.Files {
		for _, h := range f.Hunks {
			got = append(got, h.Offset)
		}
	}
	if g, want := joinInts(got), "0, -2, 0, -20, -21, -21, 0, 0, -2, -2"; g != want {
		t.Errorf("offsets %s, want %s", g, want)
	}
	if exact, known := r.BaseExact(); exact || !known {
		t.Errorf("exact=%t, known=%t", exact, known)
	}
	_, r, err = Check(NewOverlay(DirTree(tree)), read("xpt-mutex-v1-2of7.eml"), Options{})
	if err != nil || r.Class != PartiallyApplied || !r.LooksMerged() {
		t.Fatalf("%+v, %v", r, err)
	}
	all, apply, present, overtaken := r.HunkCounts()
	if all != 11 || apply != 0 || present != 4 || overtaken != 7 {
		t.Errorf("hunks: %d, %d apply, %d present, %d overtaken", all, apply, present, overtaken)
	}
}
