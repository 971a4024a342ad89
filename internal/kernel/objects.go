// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"patchcheck/internal/cache"
	kernelconfigs "patchcheck/kernel-configs"
	"patchcheck/kernel-configs/variants"
)

var reSubName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,80}$`)

// Sub opens a further object folder of the workspace, with a configuration and
// a ledger of its own and the same sources: Sync is the workspace's alone, and
// must not run while a Sub builds. Several of them may build at the same time.
// The workspace's lock holds for them; close them before it.
func (w *Workspace) Sub(ctx context.Context, name string) (_ *Workspace, err error) {
	if !reSubName.MatchString(name) {
		return nil, fmt.Errorf("%q is no name for an object folder", name)
	}
	s := &Workspace{Dir: filepath.Join(w.Dir, "sub", name), Src: w.Src, tree: w.tree, cache: w.cache, parent: w, progress: func(string) {}}
	s.Obj = filepath.Join(s.Dir, "obj")
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return nil, explainFull(err, w.cache)
	}
	if err := s.waitForMake(ctx); err != nil {
		return nil, explainFull(err, w.cache)
	}
	ok := false
	defer func() {
		if !ok {
			s.Close()
		}
	}()
	s.load()
	s.tellEnd()
	if s.state.TreeID != w.state.TreeID {
		// What was compiled stays useful, since the sources' times tell make what
		// to do; what it was configured from does not.
		s.state.ConfigFor = ""
	}
	s.follow()
	if err := os.MkdirAll(s.Obj, 0o755); err != nil {
		return nil, explainFull(err, w.cache)
	}
	if err := s.repair(); err != nil {
		return nil, explainFull(err, w.cache)
	}
	ok = true
	return s, nil
}

// tellEnd lets the workspace know of a build, so that what it writes to the
// sources afterwards is newer.
func (w *Workspace) tellEnd() {
	for w.parent != nil {
		old := w.parent.subEnd.Load()
		if old >= w.state.BuildEnd || w.parent.subEnd.CompareAndSwap(old, w.state.BuildEnd) {
			return
		}
	}
}

// follow takes over what the workspace's sources are now.
func (w *Workspace) follow() {
	if p := w.parent; p != nil {
		w.state.TreeID, w.state.Overlay, w.state.Synced, w.state.Populated = p.state.TreeID, p.state.Overlay, p.state.Synced, true
	}
}

// Fresh tells an object folder in which nothing was built yet.
func (w *Workspace) Fresh() bool {
	_, err := os.Lstat(filepath.Join(w.Obj, ".config"))
	return errors.Is(err, fs.ErrNotExist)
}

// CopyObjects makes the object folder a copy of another Sub's, with its ledger:
// configured anew, only what differs is compiled. It has to be done before
// anything is built here.
func (w *Workspace) CopyObjects(from *Workspace) error {
	if w.parent == nil || w.parent != from.parent || w == from {
		return errors.New("object folders of different workspaces cannot be copied")
	}
	// Without a ledger, what a killed copy leaves is thrown away.
	if err := os.Remove(filepath.Join(w.Dir, "ledger.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := errors.Join(cache.RemoveAll(w.Obj), cache.RemoveAll(w.keptDir())); err != nil {
		return err
	}
	if err := variants.CopyBuild(from.Obj, w.Obj); err != nil {
		return explainFull(err, w.cache)
	}
	w.led = from.led.clone()
	w.state = wsState{Version: wsVersion, Lineage: w.tree.lineage, BuildEnd: from.state.BuildEnd, Ran: slices.Clone(from.state.Ran), Steps: map[string]int{}}
	w.follow()
	if err := w.led.write(filepath.Join(w.Dir, "ledger.json")); err != nil {
		return explainFull(err, w.cache)
	}
	return w.save()
}

// ConfigValues reads the finished configuration.
func (w *Workspace) ConfigValues() (kernelconfigs.Config, error) {
	b, err := w.readObj(".config", 16<<20)
	if err != nil {
		return nil, fmt.Errorf("the object folder has no configuration: %w", err)
	}
	return kernelconfigs.ParseConfig(bytes.NewReader(b))
}
