// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// objectFiles reads a folder: what each file holds and when it was written.
func objectFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	m := map[string]string{}
	err := filepath.Walk(dir, func(p string, fi os.FileInfo, err error) error {
		if err != nil || fi.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		if fi.Mode()&os.ModeSymlink != 0 {
			m[rel], err = os.Readlink(p)
			return err
		}
		if !fi.Mode().IsRegular() {
			m[rel] = fi.Mode().String()
			return nil
		}
		b, err := os.ReadFile(p)
		m[rel] = fi.ModTime().String() + "\n" + string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// hostileMake is put in front of the tree's Makefile. It runs whenever make
// reads it.
const hostileMake = `
$(shell cd $(O) && printf 'int evil;\n' | gcc -x c -c -o net/a.o - 2>/dev/null)
$(shell cd $(O) && touch -d 2099-01-01 net/a.o net/.a.o.cmd)
$(shell cd $(O) && rm -f host && printf '#!/bin/sh\nexit 0\n' > host && chmod 755 host)
$(shell cd $(O) && printf 'CONFIG_EVIL=y\n' >> .config)
$(shell cd $(O) && cp -p net/b.o time && printf Z | dd of=net/b.o bs=1 seek=200 conv=notrunc 2>/dev/null && touch -r time net/b.o)
$(shell cd $(O) && rm -rf include && ln -s /usr/include include && chmod 0 arch)
$(shell cd $(O) && ln -s /etc/passwd net/link && mkfifo fifo)
`

// TestHostileObjects: a series that alters what it can reach of the objects
// changes nothing for the next series and for the base.
func TestHostileObjects(t *testing.T) {
	clean, dirty := newFake(t), newFake(t)
	needSandbox(t)
	series := mapOverlay{"net/b.c": warns}
	want := [2]*Kernel{clean.build(t, Base, nil), clean.build(t, Patched, series)}

	dirty.build(t, Base, nil)
	mk, err := os.ReadFile("testdata/tree/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	evil := mapOverlay{"Makefile": hostileMake + string(mk), "net/c.c": "int c_alone(void) { return 5; }\n"}
	dirty.Kernel(context.Background(), dirty.request(t, Patched, evil)) // may build or not
	work := workDir(t, dirty)
	if got := objectFiles(t, filepath.Join(work, "obj")); !strings.HasPrefix(got["host"], "2") || !strings.Contains(got[".config"], "EVIL") {
		t.Fatal("the hostile Makefile did nothing; the test shows nothing")
	}
	for _, fresh := range []bool{false, true} {
		req := [2]Request{dirty.request(t, Base, nil), dirty.request(t, Patched, series)}
		for i := range req {
			req[i].Fresh = fresh
			got, err := dirty.Kernel(context.Background(), req[i])
			if err != nil {
				t.Fatal(err)
			}
			if got.ImageSHA != want[i].ImageSHA || got.ConfigSHA != want[i].ConfigSHA {
				t.Errorf("kernel %d after a hostile series differs (fresh %v)", i, fresh)
			}
			a, b := words(t, got), words(t, want[i])
			if a != b {
				t.Errorf("diagnostics of kernel %d after a hostile series: %q, want %q", i, a, b)
			}
			if got.Reused {
				continue // nothing was built
			}
			objs := objectFiles(t, filepath.Join(work, "obj"))
			for name, c := range objs {
				if strings.HasPrefix(c, "2099-") || strings.Contains(c, "EVIL") || name == "fifo" || name == "net/link" {
					t.Errorf("%s is still that of the hostile series", name)
				}
			}
		}
	}
}

// TestHostileState: a state that a hostile series shares with another one, by
// taking back its own first patch, is no kernel of that other one.
func TestHostileState(t *testing.T) {
	f := newFake(t)
	f.build(t, Base, nil)
	mine := mapOverlay{"net/b.c": warns}
	evil := mapOverlay{"net/a.c": "int a = 9;\n"}
	out, err := f.Series(context.Background(), []Request{f.request(t, Patched, evil), f.request(t, Patched, mine)})
	if err != nil || out[1].Err != nil {
		t.Fatal(err, out)
	}
	if k := f.build(t, Patched, mine); k.Reused || k.Key == out[1].Kernel.Key {
		t.Error("the kernel of another series was taken")
	}
	// A state that only reverts is not the base either.
	out, err = f.Series(context.Background(), []Request{f.request(t, Patched, evil), f.request(t, Patched, mapOverlay{})})
	if err != nil || out[1].Err != nil {
		t.Fatal(err, out)
	}
	if k := f.build(t, Base, nil); k.Key == out[1].Kernel.Key {
		t.Error("a series' kernel was taken for the base")
	}
}

// TestPrivateObjects: patches of a series follow each other in one folder, and
// each series starts from the base's objects, compiling only what differs.
func TestPrivateObjects(t *testing.T) {
	f := newFake(t)
	ctx := context.Background()
	base := f.request(t, Base, nil)
	if _, err := f.Kernel(ctx, base); err != nil {
		t.Fatal(err)
	}
	first := mapOverlay{"net/a.c": "int a = 1;\n"}
	second := mapOverlay{"net/a.c": "int a = 1;\n", "net/b.c": warns}
	edited := mapOverlay{"net/a.c": "int a = 1;\n", "net/b.c": warns + "int more;\n"}
	next := func(o mapOverlay, earlier ...mapOverlay) string {
		t.Helper()
		r := f.request(t, Patched, o)
		for _, e := range earlier {
			r.Earlier = append(r.Earlier, e.overlay(f.tree))
		}
		r.Ground = NoOverlay{}
		k, err := f.Kernel(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		if k.Reused {
			return "reused"
		}
		return objects(k)
	}
	for i, c := range []struct {
		got, want string
	}{
		{next(first), "net/a.o"},
		{next(second, first), "net/b.o"},
		{next(first), "reused"},
		// Another version of patch 2 must not run where the old one ran.
		{next(edited, first), "net/a.o net/b.o"},
		// Nothing but this very state ran there since.
		{next(edited), ""},
	} {
		got := strings.Fields(c.got)
		slices.Sort(got) // two of them are compiled at a time
		if strings.Join(got, " ") != c.want {
			t.Errorf("step %d compiled %q, want %q", i, c.got, c.want)
		}
	}
	// A workspace that was lost is filled from the base first, for the series
	// after this one.
	if err := f.Cache.Remove("work", filepath.Base(workDir(t, f))); err != nil {
		t.Fatal(err)
	}
	if got := next(mapOverlay{"net/c.c": "int c_alone(void) { return 6; }\n"}); got != "net/c.o" {
		t.Errorf("after the loss of the workspace the series compiled %q", got)
	}
	if got := next(mapOverlay{"net/c.c": "int c_alone(void) { return 7; }\n"}); got != "net/c.o" {
		t.Errorf("the next series compiled %q", got)
	}
}

// TestBringBackKilled: whatever step a run was killed at while it changed the
// object folder, the next one starts from the base's objects.
func TestBringBackKilled(t *testing.T) {
	f := newFake(t)
	f.build(t, Base, nil)
	want := f.build(t, Patched, mapOverlay{"net/b.c": warns})
	work := workDir(t, f)
	for name, harm := range map[string]func(){
		"the ledger is gone":       func() { os.Remove(filepath.Join(work, "ledger.json")) },
		"the objects are half":     func() { os.Remove(filepath.Join(work, "ledger.json")); os.RemoveAll(filepath.Join(work, "obj", "net")) },
		"a copy was half made":     func() { os.Mkdir(filepath.Join(work, "base.new"), 0o755) },
		"the copy is without mark": func() { os.Remove(filepath.Join(work, "base", keptName)) },
		"the copy is gone":         func() { os.RemoveAll(filepath.Join(work, "base")) },
	} {
		// Another series ran, then a run was killed.
		if _, err := f.Kernel(context.Background(), f.request(t, Patched, mapOverlay{"net/c.c": "int c_alone(void) { return 8; }\n"})); err != nil {
			t.Fatal(err)
		}
		harm()
		r := f.request(t, Patched, mapOverlay{"net/b.c": warns})
		r.Fresh, r.Ground = true, NoOverlay{}
		got, err := f.Kernel(context.Background(), r)
		if err != nil {
			t.Fatal(name, err)
		}
		if got.ImageSHA != want.ImageSHA || objects(got) != "net/b.o" && objects(got) != "net/b.o net/c.o" && objects(got) != "net/c.o net/b.o" {
			t.Errorf("%s: compiled %q", name, objects(got))
		}
		r = f.request(t, Patched, mapOverlay{"net/c.c": "int c_alone(void) { return 8; }\n"})
		if err := f.Cache.Remove("kernels", mustKey(t, f, r)); err != nil {
			t.Fatal(err)
		}
	}
}

func mustKey(t *testing.T, f *fake, r Request) string {
	t.Helper()
	tc, err := FindToolchain(context.Background(), r.CC)
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := r.key(context.Background(), tc)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func needSandbox(t *testing.T) {
	t.Helper()
	if sb := FindSandbox(t.Context()); !sb.Enabled {
		t.Skip("no sandbox here: " + sb.Reason)
	}
}
