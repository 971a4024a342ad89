// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/cache"
	"patchcheck/internal/kernel"
	"patchcheck/internal/sharedtest"
	"patchcheck/internal/treefacts"
	"patchcheck/patches"
	"patchcheck/patches/diff"
)

func showFindings(fs []checks.Finding) string {
	var b strings.Builder
	for _, f := range fs {
		fmt.Fprintf(&b, "%s %s [%s] %s\n", f.ID, f.Severity, f.Where, f.Message)
		for _, e := range f.Evidence {
			fmt.Fprintf(&b, "    %s\n", e)
		}
	}
	return b.String()
}

// TestSeedVariants compiles the public seed under every variant: as it is, and
// with a fault that only some configurations show. The times are printed.
func TestSeedVariants(t *testing.T) {
	if os.Getenv("PATCHCHECK_INTEGRATION") == "" {
		t.Skip("set PATCHCHECK_INTEGRATION=1 to compile a real kernel's objects: minutes the first time")
	}
	c, err := cache.Open("")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := kernel.Resolve(t.Context(), c, kernel.DefaultTree, kernel.TreeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	s, err := patches.Load(t.Context(), []string{sharedtest.Path(t, "seeds", "svcrdma-inline-cover-and-patch.txt")}, patches.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	facts, err := treefacts.Gather(t.Context(), tree, s, treefacts.Options{NoScripts: true})
	if err != nil {
		t.Fatal(err)
	}
	run := func(what string, states []*diff.Overlay) []checks.Finding {
		start := time.Now()
		fs, costs, err := Variants(t.Context(), BuildOptions{Tree: tree, Series: s, Base: facts.Base, States: states, Cache: c,
			Progress: func(l string) { t.Logf("%6.1f %s", time.Since(start).Seconds(), l) }})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range costs {
			t.Log(c)
		}
		t.Logf("%s: %v\n%s", what, time.Since(start), showFindings(fs))
		return fs
	}
	if fs := run("the seed", facts.States); len(fs) != 0 {
		t.Error("the seed has findings")
	}
	run("the seed again", facts.States)
	const file = "net/sunrpc/xprtrdma/svc_rdma_sendto.c"
	b, mode, err := facts.States[0].ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	edit := fmt.Sprintf("\nsize_t edited_%d(long n);\nsize_t edited_%d(long n)\n{\n\tint unused;\n\tpr_info(\"%%lu\\n\", sizeof(n));\n\treturn n;\n}\n", time.Now().Unix(), time.Now().Unix())
	edited := facts.States[0].With(diff.Change{Path: file, Content: append(bytes.Clone(b), edit...), Mode: mode})
	fs := run("with a fault", []*diff.Overlay{edited})
	if !strings.Contains(showFindings(fs), "unused variable") {
		t.Error("the unused variable is not found")
	}
}
