// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"patchcheck/patches/bundled"
)

// What was kept gives the very series again when the sources are gone.
func TestReload(t *testing.T) {
	mails, err := bundled.Series(bundled.Example)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var mbox strings.Builder
	folder := filepath.Join(dir, "folder")
	os.Mkdir(folder, 0o755)
	for i, m := range mails {
		mbox.Write(m)
		mbox.WriteString("\n")
		os.WriteFile(filepath.Join(folder, string(rune('0'+i))+".patch"), m, 0o644)
	}
	os.WriteFile(filepath.Join(folder, "notes"), []byte("no patch"), 0o644)
	repo := filepath.Join(dir, "repo")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=A", "-c", "user.email=a@example.org"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	os.Mkdir(repo, 0o755)
	git("init", "-q", "-b", "main")
	for _, s := range []string{"one", "two", "three"} {
		os.WriteFile(filepath.Join(repo, "f.c"), []byte("int "+s+";\n"), 0o644)
		git("add", "f.c")
		git("commit", "-q", "-m", "f: "+s)
	}
	git("checkout", "-q", "-b", "side", "HEAD~1")
	os.WriteFile(filepath.Join(repo, "g.c"), []byte("int g;\n"), 0o644)
	git("add", "g.c")
	git("commit", "-q", "-m", "g: new")
	git("checkout", "-q", "main")
	git("merge", "-q", "--no-edit", "side")

	for _, c := range []struct {
		name    string
		sources []string
	}{
		{"standard input", []string{"-"}},
		{"folder", []string{folder}},
		{"git range with a merge", []string{"HEAD~2..HEAD"}},
		{"git range and a file", []string{"HEAD~2..HEAD~1", filepath.Join(folder, "1.patch")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var kept []Kept
			want, werr := Load(context.Background(), c.sources, LoadOptions{Stdin: strings.NewReader(mbox.String()), Repo: repo, Keep: func(k Kept) { kept = append(kept, k) }})
			got, gerr := Reload(kept, c.sources, LoadOptions{})
			if werr != nil || gerr != nil {
				if werr == nil || gerr == nil || werr.Error() != gerr.Error() {
					t.Fatalf("Load: %v\nReload: %v", werr, gerr)
				}
				return
			}
			a, _ := json.Marshal(want)
			b, _ := json.Marshal(got)
			if string(a) != string(b) {
				t.Errorf("got  %s\nwant %s", b, a)
			}
			for i := range want.Patches {
				if !reflect.DeepEqual(want.Patches[i].Diff, got.Patches[i].Diff) {
					t.Errorf("the diff of patch %d differs", i+1)
				}
			}
		})
	}
}
