// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Two object folders over the same sources: one built, one copied from it;
// each has its own ledger, and what a killed run leaves harms neither.
func TestSub(t *testing.T) {
	f := newFake(t)
	ctx := context.Background()
	tc, err := FindToolchain(ctx, "")
	if err != nil {
		t.Skip(err)
	}
	opt := BuildOptions{Targets: []string{"net/a.o", "net/b.o"}, W: "1", Jobs: 1, KeepGoing: true}
	cfgA, cfgB := wanted(t, "CONFIG_WANTED=y\n"), wanted(t, "CONFIG_WANTED=y\nCONFIG_MORE=y\n")
	open := func() (*Workspace, *Workspace, *Workspace) {
		t.Helper()
		w, err := OpenWorkspace(ctx, f.Cache, f.tree, "variants", nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := w.Sub(ctx, "a-1")
		if err != nil {
			t.Fatal(err)
		}
		b, err := w.Sub(ctx, "b-1")
		if err != nil {
			t.Fatal(err)
		}
		return w, a, b
	}
	build := func(s *Workspace, cfg Config) *BuildResult {
		t.Helper()
		if err := s.Configure(ctx, tc, cfg, opt); err != nil {
			t.Fatal(err)
		}
		r, err := s.Build(ctx, tc, cfg, opt)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	w, a, b := open()
	if !a.Fresh() || !b.Fresh() {
		t.Error("a new folder is not fresh")
	}
	if r := build(a, cfgA); strings.Join(r.Objects, " ") != "net/a.o net/b.o" {
		t.Errorf("compiled %q", r.Objects)
	}
	if err := b.CopyObjects(a); err != nil {
		t.Fatal(err)
	}
	if b.Fresh() {
		t.Error("a copy is fresh")
	}
	if len(b.led) != len(a.led) {
		t.Errorf("the copy's ledger is %v", b.led)
	}
	if v, err := a.ConfigValues(); err != nil || v["WANTED"] != "y" || v["MORE"] != "" {
		t.Errorf("configuration %v %v", v, err)
	}
	build(b, cfgB)
	if v, err := b.ConfigValues(); err != nil || v["MORE"] != "y" {
		t.Errorf("configuration %v %v", v, err)
	}
	// A change is seen by both, which build at the same time.
	if _, err := w.Sync(ctx, mapOverlay{"net/b.c": warns}.overlay(f.tree)); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var ra, rb *BuildResult
	wg.Go(func() { ra = build(a, cfgA) })
	wg.Go(func() { rb = build(b, cfgB) })
	wg.Wait()
	for _, r := range []*BuildResult{ra, rb} {
		if strings.Join(r.Objects, " ") != "net/b.o" || !strings.Contains(strings.Join(r.Ledger["net/b.o"], "\n"), "unused variable") {
			t.Errorf("compiled %q: %v", r.Objects, r.Ledger)
		}
	}
	for _, c := range []*Workspace{a, b, w} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	// A ledger that is lost costs the objects, never the sources.
	os.Remove(filepath.Join(a.Dir, "ledger.json"))
	os.WriteFile(filepath.Join(b.Dir, "state.json"), []byte("{"), 0o644)
	w, a, b = open()
	defer w.Close()
	if !a.Fresh() || !b.Fresh() {
		t.Error("objects without a ledger were kept")
	}
	if _, err := os.Stat(filepath.Join(w.Src, "net/b.c")); err != nil {
		t.Error(err)
	}
	if r := build(a, cfgA); len(r.Objects) != 2 {
		t.Errorf("compiled %q", r.Objects)
	}
	for _, name := range []string{"", "../x", "A"} {
		if _, err := w.Sub(ctx, name); err == nil {
			t.Errorf("the name %q was taken", name)
		}
	}
	if err := w.CopyObjects(a); err == nil {
		t.Error("a workspace became a copy of its own part")
	}
}
