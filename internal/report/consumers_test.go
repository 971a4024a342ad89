// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// kunitTree finds a kernel tree that has the KTAP parser: PATCHCHECK_TREE, else
// one in the cache.
func kunitTree(t *testing.T) string {
	cache := os.Getenv("PATCHCHECK_CACHE")
	if d, err := os.UserCacheDir(); cache == "" && err == nil {
		cache = filepath.Join(d, "patchcheck")
	}
	trees, _ := filepath.Glob(filepath.Join(cache, "trees", "*", "*"))
	for _, tree := range append([]string{os.Getenv("PATCHCHECK_TREE")}, trees...) {
		if _, err := os.Stat(filepath.Join(tree, "tools", "testing", "kunit", "kunit.py")); err == nil && tree != "" {
			return tree
		}
	}
	t.Skip("no kernel tree with tools/testing/kunit/kunit.py: PATCHCHECK_TREE names one")
	return ""
}

// kunit.py is what kernel developers read KTAP with. It must find every test,
// and no error of format.
func TestKTAPIsReadByKunit(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3, which kunit.py is written in")
	}
	tree := kunitTree(t)
	type group struct {
		Name  string  `json:"name"`
		Sub   []group `json:"sub_groups"`
		Cases []struct {
			Name, Status string
		} `json:"test_cases"`
	}
	for name, mk := range samples {
		t.Run(name, func(t *testing.T) {
			r := mk(t)
			dir := t.TempDir()
			ktap, js := filepath.Join(dir, "k"), filepath.Join(dir, "json")
			if err := os.WriteFile(ktap, []byte(render(t, r, "ktap")), 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(python, "-B", filepath.Join(tree, "tools/testing/kunit/kunit.py"), "parse", "--json="+js, ktap)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if bytes.Contains(out, []byte("[ERROR]")) || bytes.Contains(out, []byte("Errors:")) || bytes.Contains(out, []byte("errors:")) {
				t.Errorf("format errors:\n%s", out)
			}
			b, rerr := os.ReadFile(js)
			if rerr != nil {
				t.Fatalf("%v\n%s", rerr, out)
			}
			_ = err // its exit code says whether tests failed
			var all group
			if err := json.Unmarshal(b, &all); err != nil {
				t.Fatal(err)
			}
			got := map[string]int{}
			var walk func(g group)
			walk = func(g group) {
				for _, c := range g.Cases {
					got[c.Status]++
				}
				for _, s := range g.Sub {
					walk(s)
				}
			}
			walk(all)
			want := map[string]int{}
			for _, c := range outline(r) {
				want[map[outcome]string{outcomePass: "PASS", outcomeFail: "FAIL", outcomeError: "FAIL", outcomeSkip: "SKIP"}[c.outcome]]++
			}
			for _, k := range []string{"PASS", "FAIL", "SKIP", "ERROR"} {
				if got[k] != want[k] {
					t.Errorf("%s: kunit.py counts %d, the run has %d\n%s", k, got[k], want[k], out)
				}
			}
		})
	}
}
