// SPDX-License-Identifier: Apache-2.0

package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/config"
	"patchcheck/internal/quarantine"
	"patchcheck/internal/runfolder"
	"patchcheck/patches"
	"patchcheck/testplans"
)

// littleTree is a folder that passes for a kernel tree.
func littleTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"Makefile": "VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\nEXTRAVERSION =\n", "Kconfig": "", "scripts/Kbuild.include": "", "a.c": "int a;\n"} {
		p := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(p), 0o755)
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestJobKey(t *testing.T) {
	tree, cacheDir := littleTree(t), t.TempDir()
	series := func(message string) *patches.Series {
		mail := "From: A <a@example.org>\nDate: Mon, 30 Nov 2026 10:00:00 +0000\nSubject: [PATCH] a: change\n\n" + message + "\n\nSigned-off-by: A <a@example.org>\n---\n" +
			"diff --git a/a.c b/a.c\n--- a/a.c\n+++ b/a.c\n@@ -1 +1 @@\n-int a;\n+int b;\n"
		s, err := patches.Load(t.Context(), []string{"-"}, patches.LoadOptions{Stdin: strings.NewReader(mail)})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	key := func(change func(*Options)) string {
		t.Helper()
		o := Options{Tree: tree, Plan: "svcrdma-inline", CacheDir: cacheDir, Series: series("one")}
		change(&o)
		j, err := JobKey(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if j.Key == "" || j.Tree.ID == "" || j.PlanID == "" || j.Compiler == "" {
			t.Errorf("job: %+v", j)
		}
		return j.Key
	}
	same := func(o *Options) {}
	first := key(same)
	later := time.Now().AddDate(0, 0, 7).UTC().Format(time.DateOnly)
	entry := func(cell, day string) func(o *Options) {
		return func(o *Options) {
			o.Quarantine = &quarantine.List{Entries: []quarantine.Entry{{Cell: cell, Plan: "*", Owner: "o", Reason: "r", Expires: day}}}
		}
	}
	// What does not matter leaves the key alone.
	for name, f := range map[string]func(*Options){
		"again":             same,
		"same series again": func(o *Options) { o.Series = series("one") },
		"other folders":     func(o *Options) { o.RunsDir, o.Jobs, o.Fresh = t.TempDir(), 7, true },
		"empty settings":    func(o *Options) { o.Config = &config.Config{Plan: "x"} },
		"name in history":   func(o *Options) { o.Target.Tree = "x" },
		"expired entry":     entry("patched/*/v3", "2020-01-01"),
		"entry elsewhere":   entry("patched/nobody/v3", later),
	} {
		if k := key(f); k != first {
			t.Errorf("%s: another key", name)
		}
	}
	seen := map[string]string{first: "first"}
	for name, f := range map[string]func(*Options){
		"message":     func(o *Options) { o.Series = series("two") },
		"device":      func(o *Options) { o.Device = []string{"intel-216"} },
		"nfs":         func(o *Options) { o.NFS = []string{"3"} },
		"debug":       func(o *Options) { o.Debug = true },
		"accelerator": func(o *Options) { o.Accel = "tcg" },
		"repeat":      func(o *Options) { o.Repeat = 2 },
		"build only":  func(o *Options) { o.BuildOnly = true },
		"settings": func(o *Options) {
			o.Config = &config.Config{Lint: config.Lint{Severity: map[string]string{"x": "note"}}}
		},
		"quarantine":  entry("patched/*/v3", later),
		"alone":       func(o *Options) { o.Series, o.Alone = nil, testplans.RolePatched },
		"alone, base": func(o *Options) { o.Series, o.Alone = nil, testplans.RoleBase },
	} {
		k := key(f)
		if was, ok := seen[k]; ok {
			t.Errorf("%s has the key of %s", name, was)
		}
		seen[k] = name
	}
	if err := os.WriteFile(filepath.Join(tree, "a.c"), []byte("int c; /* longer */\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if key(same) == first {
		t.Error("another tree has the same key")
	}
	for name, f := range map[string]func(*Options){
		"no such plan": func(o *Options) { o.Plan = "nope" },
		"no such tree": func(o *Options) { o.Tree = "/nowhere" },
		"empty series": func(o *Options) { o.Series = &patches.Series{} },
		"bad role":     func(o *Options) { o.Series, o.Alone = nil, "control" },
	} {
		o := Options{Tree: tree, Plan: "svcrdma-inline", CacheDir: cacheDir, Series: series("one")}
		f(&o)
		if _, err := JobKey(t.Context(), o); err == nil || !IsInput(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestQuarantine(t *testing.T) {
	list := &quarantine.List{Entries: []quarantine.Entry{
		{Cell: "patched/a/v3", Plan: "p", Owner: "o", Reason: "r", Expires: "2026-12-31"},
		{Cell: "patched/b/v3", Plan: "p", Owner: "o", Reason: "r", Expires: "2026-01-31"},
	}}
	for _, tt := range []struct {
		name    string
		cells   map[string]checks.Verdict
		list    *quarantine.List
		want    checks.Verdict
		finding string // ids
	}{
		{"flaky cell fails", map[string]checks.Verdict{"a": checks.Fail, "c": checks.Pass}, list, checks.Pass, "quarantine.holds"},
		{"another fails, too", map[string]checks.Verdict{"a": checks.Fail, "c": checks.Fail}, list, checks.Fail, "quarantine.holds"},
		{"expired entry gates again", map[string]checks.Verdict{"b": checks.Fail, "c": checks.Pass}, list, checks.Fail, "quarantine.expired"},
		{"expired entry of a cell that passes", map[string]checks.Verdict{"b": checks.Pass, "c": checks.Pass}, list, checks.Pass, ""},
		{"nothing else is no pass", map[string]checks.Verdict{"a": checks.Pass}, list, checks.Skip, "quarantine.holds"},
		{"no list", map[string]checks.Verdict{"a": checks.Fail, "c": checks.Pass}, nil, checks.Fail, ""},
	} {
		rec, err := runfolder.Create(t.TempDir(), time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC), "q")
		if err != nil {
			t.Fatal(err)
		}
		rec.Plan.Name = "p"
		for _, d := range sortedKeys(tt.cells) {
			c := testplans.Cell{Kernel: "patched", Device: testplans.Device{Name: d}, NFS: "3"}
			if err := rec.SaveCell(&runfolder.Cell{ID: c.ID(), Spec: c, Verdict: tt.cells[d], Attempts: []runfolder.Attempt{{Verdict: tt.cells[d], Token: "x"}}}); err != nil {
				t.Fatal(err)
			}
		}
		r := &runner{o: Options{Quarantine: tt.list}, rec: rec}
		r.verdict()
		if rec.Verdict != tt.want {
			t.Errorf("%s: %s (%s), want %s", tt.name, rec.Verdict, rec.Reason, tt.want)
		}
		var ids []string
		for _, f := range rec.Findings {
			ids = append(ids, f.ID)
		}
		if got := strings.Join(ids, " "); got != tt.finding {
			t.Errorf("%s: findings %q, want %q", tt.name, got, tt.finding)
		}
	}
}
