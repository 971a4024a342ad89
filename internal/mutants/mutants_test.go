// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"patchcheck/internal/proc"
	"patchcheck/patches/bundled"
)

const bank = "../../testdata/mutants"

func load(t *testing.T) []Mutant {
	t.Helper()
	all, err := Load(bank)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The bank must have what the project promises: faults of every plan, and
// harmless variants, without which a tool that fails everything would do well.
func TestBank(t *testing.T) {
	faulty, harmless := 0, 0
	plans := map[Plan]int{}
	listed := map[string]bool{}
	for _, m := range load(t) {
		plans[m.Plan]++
		if m.Expect == Pass {
			harmless++
		} else {
			faulty++
		}
		for _, f := range m.Patches {
			listed[f] = true
		}
	}
	if faulty < 24 || harmless < 4 {
		t.Errorf("%d faulty and %d harmless variants; want at least 24 and 4", faulty, harmless)
	}
	for _, p := range []Plan{Default, Debug, Variants} {
		if plans[p] == 0 {
			t.Errorf("no mutant needs plan %s", p)
		}
	}
	files, err := filepath.Glob(filepath.Join(bank, "*.patch"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !listed[filepath.Base(f)] {
			t.Errorf("%s is in no entry of the manifest", f)
		}
	}
	if len(files) != len(listed) {
		t.Errorf("%d patch files, %d in the manifest", len(files), len(listed))
	}
}

func TestLoadRefuses(t *testing.T) {
	const good = `
- name: a
  mistake: "x"
  patches: [a.patch]
  plan: default
  expect: FAIL
  by: [count]
`
	for _, tt := range []struct{ name, text, want string }{
		{"unknown key", good + "  bye: [count]\n", "bye"},
		{"plan", strings.Replace(good, "default", "fast", 1), `plan "fast"`},
		{"expect", strings.Replace(good, "FAIL", "fail", 1), `expect "fail"`},
		{"oracle", strings.Replace(good, "[count]", "[luck]", 1), `"luck"`},
		{"console without class", strings.Replace(good, "[count]", "[console.]", 1), `"console."`},
		{"no oracle", strings.Replace(good, "  by: [count]\n", "", 1), "nothing is named"},
		{"harmless with oracle", strings.Replace(good, "FAIL", "PASS", 1), "must pass"},
		{"no patch", strings.Replace(good, "[a.patch]", "[]", 1), "no patch"},
		{"other folder", strings.Replace(good, "a.patch", "../a.patch", 1), "same folder"},
		{"NFS version", good + "  nfs: [\"2\"]\n", "no NFS version"},
		{"twice", good + good, "two entries"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, Manifest), []byte(tt.text), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := Load(dir)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that says %s", err, tt.want)
			}
		})
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("a folder without a manifest was accepted")
	}
}

func TestSeriesIsNumbered(t *testing.T) {
	base, err := bundled.Series(bundled.Example)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range load(t) {
		mails, err := m.Series(base)
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		if want := len(base) - 1 + len(m.Patches); len(mails) != want {
			t.Errorf("%s: %d mails, want %d", m.Name, len(mails), want)
		}
		for i, b := range mails {
			if want := fmt.Sprintf("\nSubject: [PATCH %d/%d] ", i+1, len(mails)); !bytes.Contains(b, []byte(want)) {
				t.Errorf("%s: mail %d has no %q", m.Name, i+1, want)
			}
		}
	}
	bad := Mutant{Name: "x", Patches: []string{"missing.patch"}, dir: t.TempDir()}
	if _, err := bad.Series(base); err == nil {
		t.Error("a missing patch was accepted")
	}
	if _, err := bad.Series([][]byte{[]byte("Subject: hello\n")}); err == nil {
		t.Error("a mail that is no patch was accepted")
	}
}

// Every mutant must apply exactly where the series does: a mutant that does
// not is caught for the wrong reason.
func TestMutantsApply(t *testing.T) {
	tree := os.Getenv("PATCHCHECK_TREE")
	if tree == "" {
		t.Skip("no kernel tree: set PATCHCHECK_TREE to an unpacked Linux 7.3")
	}
	base, err := bundled.Series(bundled.Example)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range load(t) {
		mails, err := m.Series(base)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		for i, b := range mails {
			for _, f := range regexp.MustCompile(`(?m)^--- a/(\S+)$`).FindAllSubmatch(b, -1) {
				copyOnce(t, tree, dir, string(f[1]))
			}
			res, err := proc.Run(t.Context(), proc.Cmd{
				Argv: []string{"git", "apply", "--verbose", "-"},
				Dir:  dir,
				Env: append(proc.MinimalEnv(),
					"GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "LC_ALL=C"),
				Stdin: bytes.NewReader(b),
				Merge: true,
			})
			if err != nil {
				t.Errorf("%s: patch %d does not apply: %v\n%s", m.Name, i+1, err, res.Stdout)
				break
			}
			if regexp.MustCompile(`offset|fuzz`).Match(res.Stdout) {
				t.Errorf("%s: patch %d does not apply exactly:\n%s", m.Name, i+1, res.Stdout)
			}
		}
	}
}

func copyOnce(t *testing.T, tree, dir, name string) {
	t.Helper()
	to := filepath.Join(dir, filepath.FromSlash(name))
	if _, err := os.Stat(to); err == nil {
		return
	}
	b, err := os.ReadFile(filepath.Join(tree, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o644); err != nil {
		t.Fatal(err)
	}
}
