// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"patchcheck/checks"
)

const whole = `# SPDX-License-Identifier: Apache-2.0
tree: nfsd-testing
plan: svcrdma-inline
trees:
  mine: /home/ann/linux
lint:
  strict: true
  profiles: [nfsd]
  silence:
    - id: subject.length
      paths: [drivers/staging/, "*.rst"]
      reason: they are like that
    - id: checkpatch.*
      trees: [nfsd-testing]
  severity:
    message.wrap: warning
`

func TestParse(t *testing.T) {
	c, err := Parse("x.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	if c.Tree != "nfsd-testing" || c.Plan != "svcrdma-inline" || c.Trees["mine"] == "" || !*c.Lint.Strict || len(c.Lint.Silence) != 2 || c.Lint.Severity["message.wrap"] != "warning" {
		t.Errorf("%+v", c)
	}
	if c, err := Parse("x.yaml", []byte(" \n")); err != nil || c.Tree != "" {
		t.Errorf("empty file: %+v, %v", c, err)
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"unknown key", "tree: x\nlint:\n  silense: []\n", []string{"x.yaml", "[3:3]", "silense", "allowed here: strict, profiles, silence, severity"}},
		{"unknown key at the top", "treee: x\n", []string{"[1:1]", "allowed here: tree, plan, trees, lint"}},
		{"wrong type", "lint:\n  strict: maybe\n", []string{"[2:11]"}},
		{"no yaml", "a: [\n", []string{"x.yaml"}},
		{"silence without id", "lint:\n  silence:\n    - paths: [a]\n", []string{"[3:", "needs an id"}},
		{"path outside", "lint:\n  silence:\n    - id: a.b\n      paths: [../x]\n", []string{"no path within the tree"}},
		{"bad pattern", "lint:\n  silence:\n    - id: \"a[\"\n", []string{"no pattern"}},
		{"severity", "lint:\n  severity:\n    a.b: fatal\n", []string{"fatal", "error, warning, note"}},
		{"tree name", "trees:\n  a/b: x\n", []string{"a/b"}},
	} {
		_, err := Parse("x.yaml", []byte(c.text))
		if err == nil {
			t.Errorf("%s: taken", c.name)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: no %q in:\n%v", c.name, w, err)
			}
		}
	}
}

func TestLoad(t *testing.T) {
	tree, home := t.TempDir(), t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	if c, err := Load(tree); err != nil || len(c.Files) != 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(tree, TreeFile), "plan: a\nlint:\n  silence: [{id: a.b}]\n  severity: {x.y: note}\n")
	write(filepath.Join(home, "patchcheck", "config.yaml"), "plan: b\ntree: t\nlint:\n  strict: true\n  silence: [{id: c.d}]\n  severity: {x.y: error, z.z: note}\n")
	c, err := Load(tree)
	if err != nil {
		t.Fatal(err)
	}
	if c.Plan != "a" || c.Tree != "t" || c.Lint.Strict == nil || len(c.Lint.Silence) != 2 || c.Lint.Severity["x.y"] != "note" || c.Lint.Severity["z.z"] != "note" || len(c.Files) != 2 {
		t.Errorf("%+v", c)
	}
	if err := c.Validate(func(id string) bool { return id != "c.d" }, nil); err == nil || !strings.Contains(err.Error(), "c.d") {
		t.Errorf("Validate: %v", err)
	}
}

func TestApply(t *testing.T) {
	f := func(id, file string, patch int) checks.Finding {
		return checks.Finding{ID: id, Severity: checks.Warning, Where: checks.Where{File: file, Patch: patch}}
	}
	touched := func(patch int) []string {
		return map[int][]string{1: {"drivers/staging/a.c", "drivers/staging/b.c"}, 2: {"drivers/staging/a.c", "fs/nfsd/b.c"}}[patch]
	}
	for _, c := range []struct {
		name    string
		s       Silence
		f       checks.Finding
		covered bool
	}{
		{"by id", Silence{ID: "a.b"}, f("a.b", "", 1), true},
		{"other id", Silence{ID: "a.b"}, f("a.bc", "", 1), false},
		{"pattern", Silence{ID: "a.*"}, f("a.bc", "", 1), true},
		{"folder", Silence{ID: "a.b", Paths: []string{"fs/nfsd/"}}, f("a.b", "fs/nfsd/x.c", 1), true},
		{"other folder", Silence{ID: "a.b", Paths: []string{"fs/nfsd/"}}, f("a.b", "fs/nfs/x.c", 1), false},
		{"last element", Silence{ID: "a.b", Paths: []string{"*.rst"}}, f("a.b", "Documentation/a/b.rst", 1), true},
		{"any folders", Silence{ID: "a.b", Paths: []string{"fs/**/trace.h"}}, f("a.b", "fs/a/b/trace.h", 1), true},
		{"any folders, none", Silence{ID: "a.b", Paths: []string{"fs/**/trace.h"}}, f("a.b", "fs/trace.h", 1), true},
		{"one folder", Silence{ID: "a.b", Paths: []string{"fs/*/trace.h"}}, f("a.b", "fs/a/b/trace.h", 1), false},
		{"message of a patch within", Silence{ID: "a.b", Paths: []string{"drivers/staging/"}}, f("a.b", "", 1), true},
		{"message of a patch partly within", Silence{ID: "a.b", Paths: []string{"drivers/staging/"}}, f("a.b", "", 2), false},
		{"nothing touched", Silence{ID: "a.b", Paths: []string{"drivers/staging/"}}, f("a.b", "", 3), false},
		{"tree", Silence{ID: "a.b", Trees: []string{"/home/*/linux"}}, f("a.b", "", 1), true},
		{"other tree", Silence{ID: "a.b", Trees: []string{"nfsd-testing"}}, f("a.b", "", 1), false},
	} {
		cfg := &Config{Lint: Lint{Silence: []Silence{c.s}}}
		kept, silenced := cfg.Apply([]checks.Finding{c.f}, []string{"/home/ann/linux"}, touched)
		if (len(silenced) == 1) != c.covered || len(kept)+len(silenced) != 1 {
			t.Errorf("%s: silenced %v", c.name, silenced)
		}
	}
	cfg := &Config{Lint: Lint{Severity: map[string]string{"a.*": "note", "a.c": "error"}}}
	kept, _ := cfg.Apply([]checks.Finding{f("a.b", "", 1), f("a.c", "", 1), f("b.c", "", 1)}, nil, nil)
	var got []checks.Severity
	for _, f := range kept {
		got = append(got, f.Severity)
	}
	if !reflect.DeepEqual(got, []checks.Severity{checks.Note, checks.Error, checks.Warning}) {
		t.Errorf("severities %v", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4096 {
			return
		}
		if _, err := Parse("x.yaml", b); err != nil && err.Error() == "" {
			t.Error("an error without text")
		}
	})
}
