// SPDX-License-Identifier: Apache-2.0

package lint_test

import (
	"context"
	"os"
	"path/filepath"
	"sort"
	"testing"

	"patchcheck/checks/lint"
	"patchcheck/patches"
)

// TestAcceptedPatches counts what the default profile says about patches that
// maintainers took. PATCHCHECK_CORPUS is a folder of such patches, one file
// each, as git format-patch writes them from a kernel tree's history.
func TestAcceptedPatches(t *testing.T) {
	dir := os.Getenv("PATCHCHECK_CORPUS")
	if dir == "" {
		t.Skip("PATCHCHECK_CORPUS is not set")
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.patch"))
	count := map[string]int{}
	patchesSeen, findings := 0, 0
	show := os.Getenv("PATCHCHECK_SHOW")
	for _, name := range files {
		s, err := patches.Load(context.Background(), []string{name}, patches.LoadOptions{})
		if err != nil {
			t.Log(name, err)
			continue
		}
		patchesSeen += len(s.Patches)
		for _, f := range lint.Check(s, lint.Facts{}, lint.Options{Strict: os.Getenv("PATCHCHECK_STRICT") != ""}) {
			count[f.ID]++
			findings++
			if f.ID == show || show == "all" {
				t.Logf("%s: %s: %s\n\t%q", filepath.Base(name), f.ID, f.Message, f.Evidence)
			}
		}
	}
	if patchesSeen == 0 {
		t.Fatal("no patches in ", dir)
	}
	ids := []string{}
	for id := range count {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return count[ids[i]] > count[ids[j]] })
	for _, id := range ids {
		t.Logf("%5d  %s", count[id], id)
	}
	mean := float64(findings) / float64(patchesSeen)
	t.Logf("%d findings on %d patches: %.2f each", findings, patchesSeen, mean)
	if mean > 1 {
		t.Errorf("more than one finding on each patch that was taken")
	}
}
