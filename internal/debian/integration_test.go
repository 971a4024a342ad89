// SPDX-License-Identifier: Apache-2.0

//go:build integration

package debian

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"patchcheck/internal/cache"
)

// TestDownload needs a Debian mirror.
func TestDownload(t *testing.T) {
	c, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	r, err := Open(ctx, c, Options{Suites: []string{"bookworm"}, Progress: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	one, err := r.Download(ctx, false, "busybox-static")
	if err != nil {
		t.Fatal(err)
	}
	if len(one) != 1 || one[0].Name != "busybox-static" {
		t.Fatalf("got %+v, want busybox-static alone", one)
	}
	dir := t.TempDir()
	if err := Extract(ctx, one[0], dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "bin/busybox")); err != nil {
		t.Error(err)
	}
	all, err := r.Download(ctx, true, "kmod", "iproute2")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, p := range all {
		names[p.Name] = true
	}
	for _, n := range []string{"kmod", "iproute2", "libc6", "libkmod2"} {
		if !names[n] {
			t.Errorf("closure of kmod and iproute2 lacks %s: %v", n, names)
		}
	}
	// A damaged file is fetched again.
	if err := os.WriteFile(one[0].Path, []byte("junk"), 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := r.Download(ctx, false, "busybox-static")
	if err != nil {
		t.Fatal(err)
	}
	if err := again[0].verify(); err != nil {
		t.Error(err)
	}
	_, err = r.Download(ctx, false, "no-such-package-at-all")
	if _, ok := err.(*NotFoundError); !ok {
		t.Errorf("got %v (%T), want a NotFoundError", err, err)
	}
	t.Log(err)
	_, err = r.Download(ctx, true, "no-such-package-at-all")
	if _, ok := err.(*NotFoundError); !ok {
		t.Errorf("got %v (%T), want a NotFoundError", err, err)
	}
}
