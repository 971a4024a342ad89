// SPDX-License-Identifier: Apache-2.0

package forge

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/rhysd/actionlint"
)

const top = "../../.github"

// lintWorkflow is actionlint's library: no network, no shellcheck, so that the
// result is the same everywhere.
func lintWorkflow(t *testing.T, name string, b []byte) []*actionlint.Error {
	t.Helper()
	l, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	errs, err := l.Lint(name, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	return errs
}

func workflows(t *testing.T) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(top + "/workflow-templates/*.yml")
	if err != nil || len(names) < 2 {
		t.Fatalf("found %v, %v", names, err)
	}
	out := map[string][]byte{}
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(n)] = b
	}
	return out
}

func TestWorkflows(t *testing.T) {
	for name, b := range workflows(t) {
		for _, e := range lintWorkflow(t, name, b) {
			t.Errorf("%v", e)
		}
	}
	// The linter does find what it is there for.
	bad := "on: pull_request\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    steps:\n      - run: echo ${{ github.event.pull_request.title }}\n"
	if len(lintWorkflow(t, "bad.yml", []byte(bad))) == 0 {
		t.Error("a script injection was not found")
	}
}

// step is what these tests look at of a step.
type step struct {
	Name, Uses, Run, Shell string
	With, Env              map[string]string
}

// TestAction holds the composite action to what actionlint checks in
// workflows: it does not read actions by itself, so the steps are put into a
// workflow, where composite actions and jobs have the same syntax.
func TestAction(t *testing.T) {
	b, err := os.ReadFile(top + "/actions/patchcheck/action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var a struct {
		Name, Description string
		Inputs            map[string]struct{ Description, Default string }
		Outputs           map[string]struct{ Description, Value string }
		Runs              struct {
			Using string
			Steps []step
		}
	}
	if err := yaml.UnmarshalWithOptions(b, &a, yaml.AllowDuplicateMapKey()); err != nil {
		t.Fatal(err)
	}
	if a.Runs.Using != "composite" || a.Name == "" || a.Description == "" || len(a.Runs.Steps) == 0 {
		t.Errorf("got %+v", a)
	}
	for _, s := range a.Runs.Steps {
		if s.Run != "" && s.Shell == "" {
			t.Errorf("step %q: a step of a composite action needs a shell", s.Name)
		}
		if regexp.MustCompile(`\$\{\{`).MatchString(s.Run) {
			t.Errorf("step %q: an expression in a script is a way to inject one; use env", s.Name)
		}
	}
	for n, i := range a.Inputs {
		if i.Description == "" || !bytes.Contains(b, []byte("inputs."+n)) {
			t.Errorf("input %s is not described or not used", n)
		}
	}
	// The steps, as a job.
	var wf bytes.Buffer
	wf.WriteString("on:\n  workflow_call:\n    inputs:\n")
	var names []string
	for n := range a.Inputs {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		fmt.Fprintf(&wf, "      %s:\n        type: string\n", n)
	}
	wf.WriteString("jobs:\n  a:\n    runs-on: ubuntu-24.04\n")
	_, steps, ok := strings.Cut(string(b), "\n  steps:\n")
	if !ok {
		t.Fatal("no steps")
	}
	wf.WriteString("    steps:\n")
	for _, l := range strings.SplitAfter(steps, "\n") {
		if strings.TrimSpace(l) != "" {
			wf.WriteString("  ")
		}
		wf.WriteString(l)
	}
	for _, e := range lintWorkflow(t, "action.yml", wf.Bytes()) {
		t.Errorf("%v", e)
	}
}

var (
	reUses   = regexp.MustCompile(`(?m)^\s*(?:- )?uses: (\S+)(.*)$`)
	rePinned = regexp.MustCompile(`^[A-Za-z0-9_.-]+/[A-Za-z0-9_./-]+@[0-9a-f]{40}$`)
)

// Actions of others are pinned by commit, with the version in words; ours is
// named by the user.
func TestPinned(t *testing.T) {
	all := workflows(t)
	b, err := os.ReadFile(top + "/actions/patchcheck/action.yml")
	if err != nil {
		t.Fatal(err)
	}
	all["action.yml"] = b
	for name, b := range all {
		m := reUses.FindAllStringSubmatch(string(b), -1)
		if len(m) == 0 {
			t.Errorf("%s uses nothing", name)
		}
		for _, u := range m {
			if strings.HasPrefix(u[1], "example/patchcheck/") {
				continue
			}
			if !rePinned.MatchString(u[1]) || !regexp.MustCompile(`^ # v\d+\.\d+\.\d+$`).MatchString(u[2]) {
				t.Errorf("%s: %s%s is not pinned by commit with its version", name, u[1], u[2])
			}
		}
	}
}

// Who runs a stranger's code has no right to write and no secret; who has the
// right to write runs none of it.
func TestPrivileges(t *testing.T) {
	type job struct {
		Permissions map[string]string
		Steps       []step
	}
	for name, b := range workflows(t) {
		var w struct {
			On          map[string]any
			Permissions map[string]string
			Jobs        map[string]job
		}
		if err := yaml.Unmarshal(b, &w); err != nil {
			t.Fatal(err)
		}
		if w.Permissions == nil || len(w.Permissions) > 0 {
			t.Errorf("%s: permissions must be given job by job: %v", name, w.Permissions)
		}
		if w.On["pull_request_target"] != nil || bytes.Contains(b, []byte("secrets.")) {
			t.Errorf("%s: pull_request_target or a secret", name)
		}
		_, privileged := w.On["workflow_run"]
		for id, j := range w.Jobs {
			if j.Permissions == nil {
				t.Errorf("%s: job %s says nothing of its permissions", name, id)
			}
			for p, v := range j.Permissions {
				if v == "write" && !privileged {
					t.Errorf("%s: job %s may write %s", name, id, p)
				}
			}
			for _, s := range j.Steps {
				token := s.With["token"] != ""
				args := s.With["args"]
				if regexp.MustCompile(`patchcheck (run|lint|cell|merge|github)\b`).MatchString(s.Run) {
					t.Errorf("%s: job %s prints a stranger's text where the runner obeys commands: use the action", name, id)
				}
				if token && (strings.Contains(args, "cell run") || strings.Contains(args, " run ")) {
					t.Errorf("%s: job %s gives a token to what builds and boots", name, id)
				}
				if privileged && (strings.Contains(s.Uses, "checkout") || strings.Contains(s.Uses, "cache") || strings.Contains(args, "run") && !strings.Contains(args, "github post") || s.With["boot"] == "true") {
					t.Errorf("%s: job %s may write and takes code or a cache in: %+v", name, id, s)
				}
			}
		}
	}
}

// TestActionScript runs the step that runs patchcheck, with a stand-in.
func TestActionScript(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here, which runners have")
	}
	b, err := os.ReadFile(top + "/actions/patchcheck/action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var a struct{ Runs struct{ Steps []step } }
	if err := yaml.Unmarshal(b, &a); err != nil {
		t.Fatal(err)
	}
	script := ""
	for _, s := range a.Runs.Steps {
		if s.Name == "Run patchcheck" {
			script = s.Run
		}
	}
	dir := t.TempDir()
	stub := "#!/bin/sh\nfor a; do echo \"arg<$a>\"; done\necho ::set-output name=evil::x\nexit $STUB\n"
	if err := os.WriteFile(filepath.Join(dir, "patchcheck"), []byte(stub), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		args, accept, stub, want string
		code                     int
	}{
		{"--out a  cell run\nspecs/1.json\n", "0 1 3", "1", "arg<--out>arg<a>arg<cell>arg<run>arg<specs/1.json>", 0},
		{"lint *", "0", "0", "arg<lint>arg<*>", 0},
		{"lint $(id) `id` ;id", "0", "1", "arg<lint>arg<$(id)>arg<`id`>arg<;id>", 1},
		{"x", "0 1", "3", "arg<x>", 3},
	} {
		outputs := filepath.Join(t.TempDir(), "out")
		cmd := exec.Command(bash, "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
		cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "ARGS=" + x.args, "ACCEPT=" + x.accept, "STUB=" + x.stub, "GITHUB_OUTPUT=" + outputs}
		out, err := cmd.Output()
		code := 0
		if err != nil {
			code = cmd.ProcessState.ExitCode()
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		var args string
		for _, l := range lines {
			if strings.HasPrefix(l, "arg<") {
				args += l
			}
		}
		stop, ok := strings.CutPrefix(lines[0], "::stop-commands::")
		if code != x.code || args != x.want || !ok || len(stop) != 32 || lines[len(lines)-1] != "::"+stop+"::" {
			t.Errorf("%q: exit %d, want %d; output\n%s", x.args, code, x.code, out)
		}
		if o, _ := os.ReadFile(outputs); string(o) != "code="+x.stub+"\n" {
			t.Errorf("%q: outputs %q", x.args, o)
		}
	}
}
