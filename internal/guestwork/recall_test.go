// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchcheck/internal/guestproto"
)

// What only a kernel can do, waiting for a delegation, is tested in a guest.
func TestRecall(t *testing.T) {
	const states = `- 0x1: { type: open, access: r-, filename: "w/recall000" }
- 0x2: { type: deleg, access: r, filename: "w/recall001" }
- 0x3: { type: deleg, access: r, filename: "w/recall0010" }
`
	for _, c := range []struct {
		name   string
		files  map[string]string
		export string // "": the folder itself, as if the mount were the export
		held   int
		want   string // part of the error
	}{
		{"one of two held", map[string]string{"/proc/sys/fs/leases-enable": "0\n", "/proc/fs/nfsd/clients/3/states": states}, "", 1, ""},
		{"nobody knows delegations", map[string]string{"/proc/sys/fs/leases-enable": "0\n"}, "", 0, "no NFSv4 client"},
		{"no leases", nil, "", 0, "cannot switch delegations on"},
		{"another folder", map[string]string{"/proc/sys/fs/leases-enable": "0\n", "/proc/fs/nfsd/clients/3/states": states}, t.TempDir(), 0, "cannot open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := fakeRoot(t, c.files)
			dir := filepath.Join(t.TempDir(), "w")
			r := &guestproto.Recall{Dir: dir, Export: c.export, Count: 2}
			if c.export == "" {
				r.Export = dir
			}
			res, err := w.recall(context.Background(), r, func(s string) { t.Error(s) })
			if c.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if err == nil && (res.Count != 2 || res.Delegated != c.held) {
				t.Errorf("%+v, want 2 files, %d held", res, c.held)
			}
			if c.files != nil {
				if b, _ := os.ReadFile(w.path("/proc/sys/fs/leases-enable")); string(b) != "0\n" {
					t.Errorf("leases-enable is left as %q", b)
				}
			}
		})
	}
}

// A client that reads from its cache what the server has changed is found out.
func TestRecallStale(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var ge *guestproto.Error
	if err := reads(f, path, "after"); !errors.As(err, &ge) || ge.Class != guestproto.ClassData {
		t.Errorf("%v is no error about data", err)
	}
}
