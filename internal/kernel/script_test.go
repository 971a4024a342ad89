// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchcheck/internal/proc"
)

func TestRunScript(t *testing.T) {
	if sb := FindSandbox(t.Context()); !sb.Enabled {
		t.Skip("no sandbox here: " + sb.Reason)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(script string) (proc.Result, error) {
		return RunScript(context.Background(), Script{
			Files:   map[string][]byte{"scripts/s.sh": []byte(script), "data/in": []byte("words\n")},
			Folders: []string{"include"},
			Argv:    []string{"sh", "scripts/s.sh", secret},
		})
	}
	res, err := run("cat data/in; test -d include && echo folder; pwd")
	if err != nil {
		t.Fatal(err)
	}
	if out := string(res.Stdout); !strings.HasPrefix(out, "words\nfolder\n") {
		t.Errorf("the script sees %q", out)
	}
	for name, script := range map[string]string{
		"a file outside": "cat \"$1\"",
		"its own folder": "echo x > data/in",
		"the network":    "cat /sys/class/net/*/address",
	} {
		if res, err := run(script); err == nil {
			t.Errorf("a script reaches %s: %q", name, res.Stdout)
		}
	}
	res, err = run("echo said; echo why >&2; exit 3")
	var pe *proc.Error
	if !errors.As(err, &pe) || pe.Exit != 3 || string(res.Stdout) != "said\n" || string(res.Stderr) != "why\n" {
		t.Errorf("exit status 3 gives %v, %q, %q", err, res.Stdout, res.Stderr)
	}
	var te *ToolError
	if _, err := RunScript(context.Background(), Script{Argv: []string{"no-such-interpreter"}}); !errors.As(err, &te) {
		t.Errorf("a missing interpreter gives %v", err)
	}
	if _, err := RunScript(context.Background(), Script{Files: map[string][]byte{"../x": nil}, Argv: []string{"sh"}}); err == nil {
		t.Error("a path out of the folder was taken")
	}
}

// Without a sandbox the tree's own script still runs; nothing of the user's
// environment reaches it.
func TestScriptWithoutSandbox(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "x")
	res, err := RunScript(context.Background(), Script{Files: map[string][]byte{"in": []byte("words\n")}, Argv: []string{"sh", "-c", "cat in; env"}, NoSandbox: true})
	if err != nil || !strings.HasPrefix(string(res.Stdout), "words\n") || strings.Contains(string(res.Stdout), "SECRET") {
		t.Errorf("%v: %q", err, res.Stdout)
	}
}

// A git tree gives its kernel-doc checker without being written out whole.
func TestKernelDocOfGitTree(t *testing.T) {
	f := newFake(t)
	script := "import sys\nfor n in sys.argv[2:]:\n    print('Warning: ' + n + ':1 said', file=sys.stderr)\n"
	for _, d := range []string{"tools/docs", "net/demo"} {
		if err := os.MkdirAll(filepath.Join(f.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for p, text := range map[string]string{"tools/docs/kernel-doc": script, "net/demo/a.c": "int a;\n"} {
		if err := os.WriteFile(filepath.Join(f.dir, p), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	gitRun(t, f.dir, "init", "-q")
	gitRun(t, f.dir, "add", "-A")
	gitRun(t, f.dir, "commit", "-q", "-m", "base")
	f.resolve(t)
	got, err := f.CheckKernelDoc(context.Background(), f.tree, nil, []string{"net/demo/a.c"})
	if err != nil {
		t.Fatal(err)
	}
	if len(got["net/demo/a.c"]) != 1 || !strings.Contains(got["net/demo/a.c"][0], "net/demo/a.c:1 said") {
		t.Errorf("got %q", got)
	}
	if f.tree.Dir != "" {
		t.Error("the whole tree was written out")
	}
}
