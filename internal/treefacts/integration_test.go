// SPDX-License-Identifier: Apache-2.0

package treefacts

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/cache"
	"patchcheck/internal/kernel"
	"patchcheck/internal/sharedtest"
	"patchcheck/patches"
	"patchcheck/patches/diff"
)

// realTree is Debian's kernel, when the cache has it or may fetch it.
func realTree(t testing.TB) (*kernel.Tree, *cache.Cache) {
	t.Helper()
	if os.Getenv("PATCHCHECK_INTEGRATION") == "" {
		t.Skip("set PATCHCHECK_INTEGRATION=1 to look at a real kernel tree; the first time it is downloaded")
	}
	c, err := cache.Open("")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := kernel.Resolve(t.Context(), c, kernel.DefaultTree, kernel.TreeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tree.Close)
	return tree, c
}

// seed loads a public series from the folder beside the project.
func seed(t testing.TB, name string) *patches.Series {
	t.Helper()
	s, err := patches.Load(t.Context(), []string{sharedtest.Path(t, "seeds", name)}, patches.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func show(fs []checks.Finding) string {
	var b strings.Builder
	for _, f := range fs {
		fmt.Fprintf(&b, "%s %s [%s] %s\n", f.ID, f.Severity, f.Where, f.Message)
		for _, e := range f.Evidence {
			fmt.Fprintf(&b, "    %s\n", e)
		}
	}
	return b.String()
}

func TestSeeds(t *testing.T) {
	tree, c := realTree(t)
	for _, name := range []string{"svcrdma-inline-cover-and-patch.txt", "xpt-mutex-v1-2of7.eml"} {
		s := seed(t, name)
		start := time.Now()
		r, err := Gather(t.Context(), tree, s, Options{Cache: c, Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %v %v\n%s%s%q", name, time.Since(start), r.Took, show(r.Findings), show(r.Facts.Scripts), r.NotRun)
		if r.Facts.AssistedBy == nil || !strings.HasPrefix(r.Facts.AssistedBy.Format, "LLM") {
			t.Errorf("Assisted-by: %+v", r.Facts.AssistedBy)
		}
		if strings.HasPrefix(name, "svcrdma") {
			if len(r.Facts.Scripts) != 0 || !r.Apply.OK {
				t.Errorf("the clean series has findings: %s", show(r.Facts.Scripts))
			}
			continue
		}
		all := show(r.Findings)
		if !strings.Contains(all, "apply.old-merged") || !strings.Contains(all, "11 hunks, 4 stand in the tree, 7 were overtaken") {
			t.Errorf("got %s", all)
		}
	}
}

func BenchmarkGather(b *testing.B) {
	tree, c := realTree(b)
	s := seed(b, "svcrdma-inline-cover-and-patch.txt")
	for b.Loop() {
		if _, err := Gather(b.Context(), tree, s, Options{Cache: c}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestRegenerateReal lets the tree's own generator write what the tree holds.
func TestRegenerateReal(t *testing.T) {
	tree, _ := realTree(t)
	for _, name := range []string{"fs/nfsd/netlink.c", "fs/nfsd/netlink.h", "include/uapi/linux/nfsd_netlink.h", "fs/lockd/netlink.c", "net/sunrpc/netlink.c"} {
		g := &gatherer{t: tree, s: &patches.Series{}, o: Options{ScriptTime: time.Minute}, res: &Result{Base: diff.NewOverlay(tree)}}
		g.regenerate(t.Context(), name, 1)
		if len(g.res.NotRun) > 0 {
			t.Skip(g.res.NotRun[0])
		}
		if len(g.res.Findings) > 0 {
			t.Errorf("%s", show(g.res.Findings))
		}
	}
}
