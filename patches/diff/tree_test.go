// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestDirTree(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tree")
	writeFile(t, filepath.Join(dir, "d", "f"), "f\n", 0o755)
	writeFile(t, filepath.Join(dir, "out"), filepath.Dir(dir), fs.ModeSymlink)
	writeFile(t, filepath.Join(dir, "in"), "d", fs.ModeSymlink)
	writeFile(t, filepath.Join(filepath.Dir(dir), "secret"), "s\n", 0o644)
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	tree := DirTree(dir)
	b, mode, err := tree.ReadFile("d/f")
	if string(b) != "f\n" || mode != 0o755 || err != nil {
		t.Errorf("d/f: %q %v %v", b, mode, err)
	}
	b, mode, err = tree.ReadFile("in")
	if string(b) != "d" || mode&fs.ModeSymlink == 0 || err != nil {
		t.Errorf("in: %q %v %v", b, mode, err)
	}
	if _, mode, err := tree.ReadFile("d"); err != nil || !mode.IsDir() {
		t.Errorf("d: %v %v", mode, err)
	}
	for name, want := range map[string]error{
		"x": fs.ErrNotExist, "d/x": fs.ErrNotExist, "d/f/x": fs.ErrNotExist, "x/y/z": fs.ErrNotExist,
		"in/f": ErrSymlink, "out/secret": ErrSymlink, "out/tree/d/f": ErrSymlink,
	} {
		if _, _, err := tree.ReadFile(name); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	for _, name := range []string{"../secret", "/etc/hostname", "fifo", "d/../d/f", ""} {
		if b, _, err := tree.ReadFile(name); err == nil {
			t.Errorf("%q was read: %q", name, b)
		}
	}
	for _, patch := range []string{gitPatch("fifo", "fifo", "--- a/fifo", "+++ b/fifo") + change5,
		gitPatch("fifo", "fifo", "new file mode 100644", "--- /dev/null", "+++ b/fifo", "@@ -0,0 +1 @@", "+a")} {
		if _, r, err := Check(NewOverlay(tree), []byte(patch), Options{}); err != nil || r.Class != Conflict {
			t.Errorf("a patch of a pipe: %+v, %v", r, err)
		}
	}
	if _, _, err := DirTree(filepath.Join(dir, "nowhere")).ReadFile("f"); err == nil || errors.Is(err, fs.ErrNotExist) && !strings.Contains(err.Error(), "tree") {
		t.Errorf("absent tree: %v", err)
	}
}

func TestOverlay(t *testing.T) {
	base := NewOverlay(MapTree{"a": []byte("a"), "b": []byte("b"), "d/e": []byte("e")})
	one := base.With(Change{Path: "a", Content: []byte("A"), Mode: 0o644}, Change{Path: "n", Content: []byte("N"), Mode: 0o644})
	two := one.With(Change{Path: "a", Content: []byte("a"), Mode: 0o644}, Change{Path: "b", Deleted: true}, Change{Path: "n", Deleted: true},
		Change{Path: "l", Content: []byte("d"), Mode: fs.ModeSymlink | 0o777})
	list := func(o *Overlay) string {
		var s []string
		for _, c := range o.Changed() {
			s = append(s, map[bool]string{true: "-", false: "+"}[c.Deleted]+c.Path)
		}
		return strings.Join(s, " ")
	}
	for _, c := range []struct {
		o    *Overlay
		want string
	}{{base, ""}, {one, "+a +n"}, {two, "-b +l"}} {
		if got := list(c.o); got != c.want {
			t.Errorf("changed: %q, want %q", got, c.want)
		}
	}
	many := base
	for i := range 3 * maxDepth {
		many = many.With(Change{Path: fmt.Sprint("x", i%5), Content: []byte{byte(i)}, Mode: 0o644}, Change{Path: "b", Deleted: i%2 == 0, Content: []byte("B"), Mode: 0o644})
	}
	if got := list(many); got != "+b +x0 +x1 +x2 +x3 +x4" {
		t.Errorf("after many changes: %q", got)
	}
	if b, _, err := many.ReadFile("x2"); err != nil || b[0] != 3*maxDepth-1 {
		t.Errorf("x2 is %v, %v", b, err)
	}
	if _, _, err := two.ReadFile("l/e"); !errors.Is(err, ErrSymlink) {
		t.Errorf("through a new link: %v", err)
	}
	if _, _, err := two.ReadFile("n"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("deleted again: %v", err)
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tree")
	other := filepath.Join(filepath.Dir(dir), "other")
	writeFile(t, filepath.Join(dir, "f"), ten, 0o640)
	writeFile(t, filepath.Join(dir, "d", "e", "g"), "g\n", 0o644)
	writeFile(t, filepath.Join(dir, "same"), "s\n", 0o644)
	if err := os.Link(filepath.Join(dir, "f"), other); err != nil {
		t.Fatal(err)
	}
	st, _ := os.Stat(filepath.Join(dir, "same"))
	o := NewOverlay(DirTree(dir)).With(
		Change{Path: "f", Content: []byte("new\n"), Mode: 0o640},
		Change{Path: "same", Content: []byte("s\n"), Mode: 0o644},
		Change{Path: "d/e/g", Deleted: true},
		Change{Path: "x/y/z", Content: []byte("z\n"), Mode: 0o755},
		Change{Path: "l", Content: []byte("f"), Mode: fs.ModeSymlink | 0o777},
	)
	if err := Write(dir, o); err != nil {
		t.Fatal(err)
	}
	want := "f false \"new\\n\"\nl -> f\nsame false \"s\\n\"\nx/y/z true \"z\\n\""
	if got := snapshot(t, dir); got != want {
		t.Errorf("tree:\n%s\nwant:\n%s", got, want)
	}
	if b, _ := os.ReadFile(other); string(b) != ten {
		t.Errorf("the hard link outside was written to: %q", b)
	}
	if st2, _ := os.Stat(filepath.Join(dir, "f")); st2.Mode().Perm() != 0o640 {
		t.Errorf("mode %v", st2.Mode())
	}
	if st2, _ := os.Stat(filepath.Join(dir, "same")); !os.SameFile(st, st2) || !st.ModTime().Equal(st2.ModTime()) {
		t.Error("a file that does not differ was written")
	}
	if _, err := os.Stat(filepath.Join(dir, "d")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty folder stays: %v", err)
	}

	writeFile(t, filepath.Join(dir, "esc"), filepath.Dir(dir), fs.ModeSymlink)
	for _, p := range []string{"esc/x", "../x", ".git/config"} {
		o := &Overlay{base: MapTree{}, files: map[string]Change{p: {Path: p, Content: []byte("x"), Mode: 0o644}}}
		if err := Write(dir, o); err == nil {
			t.Errorf("%s was written", p)
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "x")); err == nil {
		t.Error("a file outside was written")
	}
}

func TestCheckPath(t *testing.T) {
	good := []string{"f", "a/b", "a b", "\u00e4/\u00f6", ".gitignore", "d/.gitattributes", ".github/x", "a..b", "..a", "xy:z", "dev-x\\x2dy.swap", "a~", "git~2", ":x"}
	bad := []string{"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", ".git", "a/.git/b", ".GIT/x", ".git./x", ".git /x", "git~1", "GIT~1/x",
		".git::$INDEX_ALLOCATION/x", ".g\u200dit", "a\x00b", "C:/x", "c:x", "x:y/z", "\\x", "a\\..\\b", ".git\\config", "~/x", "a\nb", "\x1b[31m", strings.Repeat("a", 300)}
	for _, n := range good {
		if err := CheckPath(n); err != nil {
			t.Errorf("%q: %v", n, err)
		}
	}
	for _, n := range bad {
		if CheckPath(n) == nil {
			t.Errorf("%q was accepted", n)
		}
	}
}
