// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kernel

import (
	"context"
	"testing"
	"time"

	"patchcheck/internal/cache"
	kernelconfigs "patchcheck/kernel-configs"
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
