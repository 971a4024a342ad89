// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var updateScripts = flag.Bool("update", false, "write the expected output of the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"patchcheck": func() { os.Exit(realMain()) }})
}

// TestScript runs the command line on inputs that need neither a kernel nor a
// network. Each script has a home of its own, so nothing of the host's
// configuration or cache is seen.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *updateScripts,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("HOME", home)
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
			env.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
			env.Setenv("PATCHCHECK_CACHE", filepath.Join(home, "cache"))
			env.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
			env.Setenv("GIT_CONFIG_SYSTEM", "/dev/null")
			env.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(env.WorkDir))
			env.Setenv("GIT_AUTHOR_NAME", "Ann Author")
			env.Setenv("GIT_AUTHOR_EMAIL", "ann@example.org")
			env.Setenv("GIT_COMMITTER_NAME", "Ann Author")
			env.Setenv("GIT_COMMITTER_EMAIL", "ann@example.org")
			return os.MkdirAll(home, 0o755)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			// code N ARG...: run patchcheck; the exit code must be N.
			"code": exitCode,
		},
	})
}
