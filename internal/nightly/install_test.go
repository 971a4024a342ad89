// SPDX-License-Identifier: Apache-2.0

package nightly

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
)

var update = flag.Bool("update", false, "write the golden files")

func TestInstall(t *testing.T) {
	for name, i := range map[string]Install{
		"plain": {Exe: "/usr/local/bin/patchcheck", Config: "/etc/patchcheck/nightly.yaml", At: "01:30"},
		"odd":   {Exe: "/home/ann/go bin/patchcheck", Config: "/home/ann/it's 100%.yaml", User: "ann", At: "23:05"},
	} {
		got := i.Text()
		file := filepath.Join("testdata", "install-"+name+".txt")
		if *update {
			os.MkdirAll("testdata", 0o755)
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs from %s (-update writes it):\n%s", name, file, got)
		}
	}
}

// TestUnitsVerify asks systemd itself, where it is.
func TestUnitsVerify(t *testing.T) {
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not here")
	}
	dir := t.TempDir()
	// The programs named must exist, and the file name must be odd.
	exe := filepath.Join(dir, "patch check")
	if err := os.WriteFile(exe, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	i := Install{Exe: exe, Config: filepath.Join(dir, "100% nightly.yaml"), At: "01:30"}
	var files []string
	for _, u := range i.Units()[:2] {
		f := filepath.Join(dir, filepath.Base(u.Path))
		// man pages are looked for, and this one is installed elsewhere
		text := strings.ReplaceAll(u.Text, "Documentation=man:patchcheck(1)\n", "")
		if err := os.WriteFile(f, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	out, err := exec.Command(tool, append([]string{"verify"}, files...)...).CombinedOutput()
	for _, l := range strings.Split(string(out), "\n") {
		if strings.Contains(l, dir) {
			t.Errorf("systemd-analyze: %s", l)
		}
	}
	if err != nil && strings.Contains(string(out), "patchcheck-nightly") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// What verify only ignores: unknown keys are warnings about our files.
	broken := strings.Replace(i.service(), "ProtectClock=", "ProtectClok=", 1)
	if err := os.WriteFile(files[0], []byte(broken), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, _ := exec.Command(tool, "verify", files[0]).CombinedOutput(); !strings.Contains(string(out), "ProtectClok") {
		t.Errorf("a wrong key goes unnoticed, so this test tells nothing:\n%s", out)
	}
}

func TestWorkflowLints(t *testing.T) {
	i := Install{Exe: "/home/ann/go bin/patchcheck", Config: "/home/ann/it's 100%.yaml", At: "01:30"}
	l, err := actionlint.NewLinter(os.Stderr, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for text, bad := range map[string]bool{i.workflow(): false, strings.Replace(i.workflow(), "runs-on", "run-on", 1): true} {
		errs, err := l.Lint("patchcheck-nightly.yml", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		if (len(errs) > 0) != bad {
			t.Errorf("actionlint: %v\n%s", errs, text)
		}
	}
}

func TestCronRuns(t *testing.T) {
	dir := t.TempDir()
	exe := filepath.Join(dir, "it's 100% odd")
	if err := os.WriteFile(exe, []byte("#!/bin/sh\nprintf '%s|' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	i := Install{Exe: exe, Config: "/a b/$c.yaml", At: "01:30"}
	line, ok := strings.CutPrefix(i.cron(), "30 1 * * * ")
	if !ok {
		t.Fatalf("cron line %q", i.cron())
	}
	out, err := exec.Command("/bin/sh", "-c", strings.ReplaceAll(line, `\%`, "%")).CombinedOutput()
	if err != nil || string(out) != "nightly|--config|/a b/$c.yaml|" {
		t.Errorf("%q runs %q, %v", line, out, err)
	}
}
