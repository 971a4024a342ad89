// SPDX-License-Identifier: Apache-2.0

package runfolder

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"patchcheck/internal/cache"
)

func TestLock(t *testing.T) {
	r, err := Create(t.TempDir(), time.Now(), "a series")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Save(); err != nil {
		t.Fatal(err)
	}
	if !Working(r.Dir()) {
		t.Error("nobody works on a run that was just made")
	}
	if _, err := Resume(r.Dir()); !errors.Is(err, cache.ErrBusy) {
		t.Errorf("resumed while somebody works on it: %v", err)
	}
	r.Close()
	if Working(r.Dir()) {
		t.Error("somebody works on a run that was given up")
	}
	again, err := Resume(r.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.ID != r.ID || !Working(r.Dir()) {
		t.Errorf("got %s, working %v", again.ID, Working(r.Dir()))
	}
}

func TestCells(t *testing.T) {
	r, err := Create(t.TempDir(), time.Now(), "a series")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Save(); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"base/none/v3", "patched/none/v3"} {
		if err := r.SaveCell(&Cell{ID: id, Final: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.DropCell("base/none/v3"); err != nil {
		t.Fatal(err)
	}
	if err := r.DropCell("base/none/v3"); err != nil {
		t.Errorf("a cell that is gone: %v", err)
	}
	got, err := Open(r.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Cells) != 1 || got.Cells[0].ID != "patched/none/v3" || !got.Cells[0].Final || len(r.Cells) != 1 {
		t.Errorf("cells %+v", got.Cells)
	}
}

func TestSweep(t *testing.T) {
	parent := t.TempDir()
	mk := func(name string) *Run {
		r, err := Create(parent, time.Now(), name)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	old := time.Now().Add(-time.Hour)
	future := time.Now().Add(time.Hour) // the clock was set back
	half := mk("half")                  // killed before it had a record
	ahead := mk("ahead")
	fresh := mk("fresh") // another process is about to lock it
	living := mk("living")
	defer living.Close()
	whole := mk("whole")
	for _, r := range []*Run{half, ahead, fresh, whole} {
		r.Close()
	}
	if err := whole.Save(); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(whole.Path("cells", ".new-1"), []byte("half"), 0o644)
	alien := filepath.Join(parent, "notes")
	os.Mkdir(alien, 0o755)
	for d, at := range map[string]time.Time{half.Dir(): old, ahead.Dir(): future, living.Dir(): old, alien: old} {
		os.Chtimes(d, at, at)
	}
	Sweep(parent)
	for p, want := range map[string]bool{half.Dir(): false, ahead.Dir(): false, fresh.Dir(): true, living.Dir(): true, whole.Path("run.json"): true, whole.Path("cells", ".new-1"): false, alien: true} {
		if _, err := os.Stat(p); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", p, err == nil, want)
		}
	}
}
