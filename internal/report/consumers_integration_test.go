// SPDX-License-Identifier: Apache-2.0

//go:build integration

package report

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// consumers builds testdata/consumers: libraries of others that read JUnit and
// SARIF. They come from the module proxy, so without a network the test skips.
func consumers(t *testing.T) func(format, doc string) (map[string]any, error) {
	bin := filepath.Join(t.TempDir(), "consumers")
	cmd := exec.Command("go", "build", "-o", bin, ".")
	cmd.Dir = filepath.Join("testdata", "consumers")
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	if out, err := cmd.CombinedOutput(); err != nil {
		if bytes.Contains(out, []byte("dial tcp")) || bytes.Contains(out, []byte("no such host")) || bytes.Contains(out, []byte("disabled")) {
			t.Skipf("the modules of testdata/consumers cannot be had: %s", out)
		}
		t.Fatalf("%v\n%s", err, out)
	}
	return func(format, doc string) (map[string]any, error) {
		cmd := exec.Command(bin, format)
		cmd.Dir = filepath.Join("testdata", "consumers")
		cmd.Stdin = strings.NewReader(doc)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			return nil, &exec.Error{Name: errs.String(), Err: err}
		}
		var got map[string]any
		return got, json.Unmarshal(out, &got)
	}
}

func TestConsumers(t *testing.T) {
	read := consumers(t)
	for name, mk := range samples {
		t.Run(name, func(t *testing.T) {
			r := mk(t)
			n := map[outcome]int{}
			cases := outline(r)
			for _, c := range cases {
				n[c.outcome]++
			}
			got, err := read("junit", render(t, r, "junit"))
			if err != nil {
				t.Fatal(err)
			}
			for k, want := range map[string]int{"Tests": len(cases), "Passed": n[outcomePass], "Failed": n[outcomeFail], "Errors": n[outcomeError], "Skipped": n[outcomeSkip]} {
				if got[k] != float64(want) {
					t.Errorf("%s: the library counts %v, the run has %d", k, got[k], want)
				}
			}
			doc := render(t, r, "sarif")
			if _, err := read("sarif", doc); err != nil {
				t.Errorf("%v\n%s", err, doc)
			}
		})
	}
	// The validator does refuse.
	doc := render(t, hostile(t), "sarif")
	if _, err := read("sarif", strings.Replace(doc, `"level": "error"`, `"level": "grave"`, 1)); err == nil {
		t.Error("an unknown level is taken")
	}
	got, err := read("sarif", doc)
	if err != nil || got["Results"].(float64) == 0 || got["Suppressed"].(float64) == 0 || got["Notifications"].(float64) == 0 {
		t.Errorf("%v %v", got, err)
	}
	// Lint's findings go the same way.
	for _, name := range []string{"some", "none"} {
		b, err := os.ReadFile(filepath.Join("..", "findings", "testdata", name+".sarif"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := read("sarif", string(b)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// benchstat is what the lines are for.
func TestBenchstat(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "benchstat")
	if out, err := exec.Command("go", "build", "-o", bin, "golang.org/x/perf/cmd/benchstat").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	a, b := sample(t), sample(t)
	for i := range 6 {
		for _, c := range b.Cells {
			c.Attempts = append(c.Attempts, c.Attempts[0])
			c.Attempts[len(c.Attempts)-1].Elapsed = 2000 + 10*c.Attempts[0].Elapsed
		}
		for _, c := range a.Cells {
			c.Attempts = append(c.Attempts, c.Attempts[0])
			c.Attempts[len(c.Attempts)-1].Elapsed = 1000
		}
		_ = i
	}
	b.Cells[2].Attempts[3].Values = map[string]int64{"inline": 1}
	for name, r := range map[string]string{"old": render(t, a, "bench"), "new": render(t, b, "bench")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(r), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(bin, "old", "new")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"Cell/plan=svcrdma-inline/kernel=patched/device=intel-216/nfs=3", "sec/op", "inline", "accel: tcg", "vs base"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("benchstat's table lacks %q:\n%s", want, out)
		}
	}
	// An exact unit whose values differ is pointed out.
	if !bytes.Contains(out, []byte("exact distribution expected, but values range")) {
		t.Errorf("a count that varies is not pointed out:\n%s", out)
	}
	cmd = exec.Command(bin, "-col", "/kernel", "-ignore", "/plan", "new")
	cmd.Dir = dir
	if out, err = cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("patched")) {
		t.Errorf("%v\n%s", err, out)
	}
}
