// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"patchcheck/internal/cache"
	kernelconfigs "patchcheck/kernel-configs"
	"patchcheck/patches/diff"
)

// realStore is the user's own cache: a kernel tree and its objects are too
// large to make for each test.
func realStore(t *testing.T) (*Store, *Tree) {
	t.Helper()
	c, err := cache.Open("")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	last := time.Time{}
	s := &Store{Cache: c,
		Notify: func(m string) { t.Logf("%6.1fs %s", time.Since(start).Seconds(), m) },
		Progress: func(p Progress) {
			if time.Since(last) > 30*time.Second {
				last = time.Now()
				t.Logf("%6.1fs %d/%d %s", time.Since(start).Seconds(), p.Steps, p.Expected, p.Line)
			}
		}}
	tree, err := Resolve(context.Background(), c, DefaultTree, TreeOptions{Progress: s.Notify})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tree.Close)
	t.Logf("%v: %+v", tree, tree.Notes)
	return s, tree
}

func fragments(t *testing.T, names ...string) *kernelconfigs.Merged {
	t.Helper()
	m, err := kernelconfigs.LoadAll(names...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestBuildBase builds the default tree, cold or warm.
func TestBuildBase(t *testing.T) {
	s, tree := realStore(t)
	k, err := s.Kernel(context.Background(), Request{Tree: tree, Config: Config{Fragments: fragments(t, "guest", "nfs-rdma")}, Role: Base, W: "1"})
	if err != nil {
		t.Fatal(err)
	}
	led, err := k.Ledger()
	if err != nil {
		t.Fatal(err)
	}
	words := 0
	for o, l := range led {
		if len(l) > 0 {
			words++
			t.Log(o, l)
		}
	}
	t.Logf("%s %s reused=%v objects=%d ledger=%d elapsed=%v sandbox=%+v", k.Release, k.Image(), k.Reused, len(k.Objects), len(led), k.Elapsed, k.Sandbox)
	if k.Release == "" || k.Image() == "" || len(led) < 1000 {
		t.Errorf("incomplete kernel: %+v", k)
	}
}

// TestConfigs proves that every embedded combination can be had.
func TestConfigs(t *testing.T) {
	s, tree := realStore(t)
	ctx := context.Background()
	tc, err := FindToolchain(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{{"guest", "nfs-rdma"}, {"guest", "nfs-rdma", "debug"}} {
		t.Run(strings.Join(names, "+"), func(t *testing.T) {
			// A cache of its own, so that nothing waits for a build.
			c, err := cache.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			cfg := Config{Fragments: fragments(t, names...)}
			w, err := OpenWorkspace(ctx, c, tree, cfg.Hash(), s.Notify)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if err := w.Configure(ctx, tc, cfg, BuildOptions{}); err != nil {
				t.Fatal(err)
			}
			if b, err := w.readObj(".config", 1<<20); err == nil && os.Getenv("PATCHCHECK_SHOW_CONFIG") != "" {
				t.Logf("%s", b)
			}
		})
	}
}

// TestPatched changes one file of the default tree: only that one is compiled,
// offsets are found, and kernel-doc speaks of it.
func TestPatched(t *testing.T) {
	s, tree := realStore(t)
	ctx := context.Background()
	const file = "net/sunrpc/xprtrdma/svc_rdma_sendto.c"
	const obj = "net/sunrpc/xprtrdma/svc_rdma_sendto.o"
	b, _, err := tree.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// No earlier run left an object of this very text.
	text := string(b) + fmt.Sprintf("\n/* %d */\n", time.Now().UnixNano()) + "\n/**\n * patchcheck_probe - a function with an undocumented parameter\n *\n * Return: nothing of use.\n */\nint patchcheck_probe(int value);\nint patchcheck_probe(int value)\n{\n\tint unused;\n\n\treturn value;\n}\n"
	o := FromDiff(diff.NewOverlay(tree).With(diff.Change{Path: file, Content: []byte(text), Mode: 0o644}))
	cfg := Config{Fragments: fragments(t, "guest", "nfs-rdma")}
	base := Request{Tree: tree, Config: cfg, Role: Base, W: "1"}
	patched := Request{Tree: tree, Config: cfg, Overlay: o, Role: Patched, W: "1", Fresh: true}
	kb, err := s.Kernel(ctx, base)
	if err != nil {
		t.Fatal(err)
	}
	kp, err := s.Kernel(ctx, patched)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("compiled %q in %v", kp.Objects, kp.Elapsed)
	// The first build also brought the workspace here from wherever it was.
	again := patched
	again.Overlay = FromDiff(diff.NewOverlay(tree).With(diff.Change{Path: file, Content: []byte(text + "\n/* another end */\n"), Mode: 0o644}))
	ka, err := s.Kernel(ctx, again)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("compiled %q in %v", ka.Objects, ka.Elapsed)
	// Where the workspace holds another base, what tells the two apart is
	// compiled, too, but no more for the second version than for the first.
	if !slices.Contains(ka.Objects, obj) || len(ka.Objects) > len(kp.Objects) {
		t.Errorf("%q were compiled for one source file", ka.Objects)
	}
	led, err := kp.Ledger()
	if err != nil {
		t.Fatal(err)
	}
	if w := strings.Join(led["net/sunrpc/xprtrdma/svc_rdma_sendto.o"], "\n"); !strings.Contains(w, file+":") || !strings.Contains(w, "unused variable") {
		t.Errorf("ledger: %q", w)
	}
	const ctxt = "struct svc_rdma_send_ctxt"
	exprs := []FetchExpr{
		{Object: obj, Struct: ctxt, Expr: "sc_send_wr.send_flags:x32", Arg: 1},
		{Object: obj, Struct: ctxt, Expr: "sc_send_wr.sg_list->length", Arg: 1},
		{Object: obj, Struct: ctxt, Expr: "sc_rdma->sc_max_send_sges", Arg: 1},
		{Object: obj, Struct: ctxt, Expr: "sc_rdma->sc_no_such_member", Arg: 1},
	}
	for _, x := range []struct {
		r Request
		k *Kernel
	}{{patched, kp}, {base, kb}} {
		got, err := s.Fetch(ctx, x.r, x.k, exprs)
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range got {
			t.Logf("%s %s: %s %v", x.r.Role, g.Expr.Expr, g.Fetch, g.Err)
			var nm *NoMemberError
			if (i == 3) != errors.As(g.Err, &nm) || (i < 3) != (g.Fetch != "") {
				t.Errorf("%v: %q %v", g.Expr, g.Fetch, g.Err)
			}
		}
	}
	doc, err := s.CheckKernelDoc(ctx, tree, o, []string{file, "net/sunrpc/Makefile"})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("kernel-doc: %q", doc)
	if !strings.Contains(strings.Join(doc[file], "\n"), "'value' not described in 'patchcheck_probe'") {
		t.Errorf("kernel-doc does not name the parameter: %q", doc)
	}
	if doc, err = s.CheckKernelDoc(ctx, tree, nil, []string{file}); err != nil || len(doc[file]) != 0 {
		t.Errorf("kernel-doc on the base: %q %v", doc, err)
	}
}
