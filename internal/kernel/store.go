// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchcheck/internal/cache"
	kernelconfigs "patchcheck/kernel-configs"
)

// Role says what a kernel stands for in a run.
type Role string

const (
	Base    Role = "base"    // tree and companions
	Patched Role = "patched" // with the series, or the first n patches of it, on top
)

// Files of a kernel's cache entry.
const (
	imageName  = "bzImage"
	debugName  = "vmlinux"
	configName = "config"
	mapName    = "System.map"
	ledgerName = "ledger.json"
	logName    = "build.log"
	metaName   = "kernel.json"
)

// entryVersion is part of every key: raise it when what an entry holds, or how
// a kernel is built, changes.
const entryVersion = 1

// Kernel is a built kernel in the cache.
type Kernel struct {
	Key       string        `json:"key"`
	Role      Role          `json:"role"`
	Tree      Tree          `json:"tree"`
	Overlay   string        `json:"overlay"` // hash of what was applied to the tree
	Config    string        `json:"config"`  // hash of what was asked for
	Fragments []string      `json:"fragments"`
	Arch      string        `json:"arch"`
	Targets   []string      `json:"targets"`
	W         string        `json:"w"`
	Toolchain Toolchain     `json:"toolchain"`
	Release   string        `json:"release"` // uname -r
	Objects   []string      `json:"objects"` // compiled by the make that gave this kernel
	Elapsed   time.Duration `json:"elapsed"` // of that make
	Argv      []string      `json:"argv"`    // make's command line
	Sandbox   Sandbox       `json:"sandbox"`
	Built     time.Time     `json:"built"`
	ImageSHA  string        `json:"image_sha256,omitempty"`
	ConfigSHA string        `json:"config_sha256"`
	// DebugSHA is the hash of vmlinux, which a kernel with CONFIG_DEBUG_INFO
	// keeps; Source is where the sources lay whose names are in it.
	DebugSHA string `json:"vmlinux_sha256,omitempty"`
	Source   string `json:"source,omitempty"`

	Dir    string `json:"-"` // of the cache entry
	Reused bool   `json:"-"` // was in the cache already
}

// Image is the path of the bootable image; "" when the targets had none.
func (k *Kernel) Image() string {
	if k.ImageSHA == "" {
		return ""
	}
	return filepath.Join(k.Dir, imageName)
}

// Vmlinux is the path of the kernel with its debug info; "" when it has none.
func (k *Kernel) Vmlinux() string {
	if k.DebugSHA == "" {
		return ""
	}
	return filepath.Join(k.Dir, debugName)
}

// ConfigPath, SystemMap, LogPath are paths of the entry's files.
func (k *Kernel) ConfigPath() string { return filepath.Join(k.Dir, configName) }
func (k *Kernel) SystemMap() string  { return filepath.Join(k.Dir, mapName) }
func (k *Kernel) LogPath() string    { return filepath.Join(k.Dir, logName) }

// Ledger is the diagnostics of every object of the kernel.
func (k *Kernel) Ledger() (Ledger, error) { return readLedger(filepath.Join(k.Dir, ledgerName)) }

// Store builds kernels and keeps them.
type Store struct {
	Cache     *cache.Cache
	Jobs      int
	NoSandbox bool
	Timeout   time.Duration  // of one make; 0 means three hours
	Notify    func(string)   // told what is being done, in a line; may be nil
	Progress  func(Progress) // state of the running make; may be nil
}

// Request names a kernel.
type Request struct {
	Tree    *Tree
	Config  Config
	Overlay Overlay // nil means the tree itself
	// Earlier are the states of the same series that come before this one, in
	// order: after patch 1, after patch 2. Their code may have run in the object
	// folder, so they are part of what identifies the kernel. Unused for Base.
	Earlier []Overlay
	// Ground is what the series stands on, the tree with companions. Where the
	// tree has not been built yet it is built first, so that the next series has
	// objects to start from; nil leaves that out.
	Ground  Overlay
	Role    Role
	CC      string      // "" means gcc
	W       string      // "" means no extra warnings; "1" is what a run uses
	C       string      // sparse
	Targets []string    // nil means bzImage; object folders such as "fs/nfsd/" give no image
	Fetch   []FetchExpr // to be resolved right after the build, while the workspace is there
	// KeepGoing compiles the rest after an error, to report all errors at once.
	KeepGoing bool
	// Fresh builds although the cache has the kernel.
	Fresh bool
}

func (s *Store) notify(format string, args ...any) {
	if s.Notify != nil {
		s.Notify(fmt.Sprintf(format, args...))
	}
}

func (r *Request) targets() []string {
	if len(r.Targets) == 0 {
		return []string{"bzImage"}
	}
	return r.Targets
}

func (r *Request) overlay() Overlay {
	if r.Overlay == nil {
		return NoOverlay{}
	}
	return r.Overlay
}

// key identifies a kernel by everything it is made from.
func (r *Request) key(ctx context.Context, tc *Toolchain) (string, string, error) {
	if r.Config.Fragments == nil {
		return "", "", errors.New("kernel: no configuration given")
	}
	if err := r.Tree.Identify(ctx); err != nil {
		return "", "", err
	}
	oh, err := OverlayHash(r.overlay())
	if err != nil {
		return "", "", err
	}
	parts := []any{entryVersion, r.Tree.ID, r.Config.Hash(), oh, tc, r.W, r.C, r.targets(), pinned}
	chain, err := r.chain(oh)
	if err != nil {
		return "", "", err
	}
	if len(chain) > 1 {
		parts = append(parts, chainHash(chain[:len(chain)-1]))
	}
	if r.wantsDebugInfo() && bootable(r.targets()) {
		// Entries of earlier versions have no vmlinux.
		parts = append(parts, debugName)
	}
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, v := range parts {
		if err := enc.Encode(v); err != nil {
			return "", "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:32], oh, nil
}

// wantsDebugInfo says that the fragments ask for debug info. A base target such
// as allyesconfig may bring it without being asked.
func (r *Request) wantsDebugInfo() bool {
	for _, s := range r.Config.Fragments.Symbols {
		if strings.HasPrefix(s.Name, "DEBUG_INFO") && s.Name != "DEBUG_INFO_NONE" && s.Value == "y" {
			return true
		}
	}
	return false
}

// bootable says whether the targets make a kernel that boots.
func bootable(targets []string) bool {
	return slices.Contains(targets, "bzImage") || slices.Contains(targets, "all")
}

// chain lists the states that may run before and for this kernel, as Trust
// takes them; oh is the hash of its own.
func (r *Request) chain(oh string) ([]string, error) {
	if r.Role == Base {
		return nil, nil
	}
	var c []string
	for _, e := range r.Earlier {
		h, err := OverlayHash(e)
		if err != nil {
			return nil, err
		}
		c = append(c, h)
	}
	return append(c, oh), nil
}

// Lookup returns the kernel from the cache, checked, or cache.ErrAbsent. It
// needs no workspace and no lock.
func (s *Store) Lookup(ctx context.Context, r Request) (*Kernel, error) {
	tc, err := FindToolchain(ctx, r.CC)
	if err != nil {
		return nil, err
	}
	key, _, err := r.key(ctx, tc)
	if err != nil {
		return nil, err
	}
	return s.open(key, r.Role)
}

func (s *Store) open(key string, role Role) (*Kernel, error) {
	dir, err := s.Cache.Lookup("kernels", key)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(dir, metaName))
	if err != nil {
		return nil, err
	}
	k := &Kernel{}
	if err := json.Unmarshal(b, k); err != nil {
		return nil, err
	}
	s.Cache.Touch("kernels", key)
	k.Dir, k.Reused, k.Role = dir, true, role
	return k, nil
}

// Kernel returns the kernel that r names, from the cache or built now.
//
// Errors: *BuildError when the code does not compile,
// *kernelconfigs.MissingError when a configuration symbol cannot be had,
// *InfraError, *ToolError, *cache.FullError and *TreeError for what is not the
// code's fault.
func (s *Store) Kernel(ctx context.Context, r Request) (*Kernel, error) {
	ks, err := s.Series(ctx, []Request{r})
	if err != nil {
		return nil, err
	}
	return ks[0].Kernel, ks[0].Err
}

// Outcome is what became of one request of Series.
type Outcome struct {
	Kernel *Kernel
	Err    error // *BuildError or *kernelconfigs.MissingError: this state does not build; the others were tried
}

// Series builds several states of one tree in the same workspace, one after
// the other: the states after patch 1, 2, ... n. Only what differs is compiled.
// Requests that do not say so themselves count as the states of one series.
// States in the cache are taken from there; when all are, no workspace is
// touched. The error is one that says nothing about the code and ends it all.
func (s *Store) Series(ctx context.Context, rs []Request) ([]Outcome, error) {
	out := make([]Outcome, len(rs))
	var ws *Workspace
	var wsFor string
	defer func() {
		if ws != nil {
			ws.Close()
		}
	}()
	var earlier []Overlay
	for i := range rs {
		r := &rs[i]
		if r.Role != Base {
			if r.Earlier == nil {
				r.Earlier = earlier
			}
			earlier = append(slices.Clip(earlier), r.overlay())
		}
		tc, err := FindToolchain(ctx, r.CC)
		if err != nil {
			return out, err
		}
		key, oh, err := r.key(ctx, tc)
		if err != nil {
			return out, err
		}
		k, err := s.open(key, r.Role)
		if err == nil && !r.Fresh {
			out[i].Kernel = k
			continue
		}
		var damaged *cache.DamagedError
		if errors.As(err, &damaged) {
			s.notify("%v; it is built again", damaged)
		}
		if miss := MissingTools(r.CC); len(miss) > 0 {
			errs := make([]error, len(miss))
			for i, m := range miss {
				errs[i] = m
			}
			return out, errors.Join(errs...)
		}
		wsKey := r.workspaceKey()
		if ws == nil || wsFor != wsKey+r.Tree.ID {
			if ws != nil {
				ws.Close()
				ws = nil
			}
			if ws, err = OpenWorkspace(ctx, s.Cache, r.Tree, wsKey, s.Notify); err != nil {
				return out, err
			}
			wsFor = wsKey + r.Tree.ID
			// Another process may have built it while we waited for the lock.
			if k, err := s.open(key, r.Role); err == nil && !r.Fresh {
				out[i].Kernel = k
				continue
			}
		}
		k, err = s.build(ctx, ws, tc, r, key, oh)
		if err != nil && !codeFault(err) {
			return out, err
		}
		out[i] = Outcome{k, err}
	}
	return out, nil
}

// codeFault tells errors that speak about the code from those about the host.
func codeFault(err error) bool {
	var be *BuildError
	return errors.As(err, &be) || isConfigFault(err)
}

// workspaceKey keeps object folders apart that make could not turn into each
// other without compiling everything again.
func (r *Request) workspaceKey() string {
	return strings.Join([]string{r.Config.Hash(), r.CC, r.W, r.C}, "\x00")
}

func (s *Store) build(ctx context.Context, w *Workspace, tc *Toolchain, r *Request, key, oh string) (*Kernel, error) {
	opt := BuildOptions{Targets: r.targets(), W: r.W, C: r.C, Jobs: s.Jobs, KeepGoing: r.KeepGoing, NoSandbox: s.NoSandbox, Timeout: s.Timeout, Progress: s.Progress}
	if r.Role != Base && r.Ground != nil && !w.grounded() {
		if err := s.buildGround(ctx, w, tc, r, opt); err != nil {
			return nil, err
		}
	}
	if err := w.enter(ctx, r, oh); err != nil {
		return nil, err
	}
	if err := w.Configure(ctx, tc, r.Config, opt); err != nil {
		return nil, err
	}
	s.notify("building the %s kernel (%s)", r.Role, strings.Join(opt.Targets, " "))
	res, err := w.Build(ctx, tc, r.Config, opt)
	if err != nil {
		return nil, err
	}
	k := &Kernel{
		Key: key, Role: r.Role, Tree: *r.Tree, Overlay: oh, Config: r.Config.Hash(), Fragments: r.Config.Fragments.Fragments, Arch: r.Config.arch(),
		Targets: opt.Targets, W: r.W, Toolchain: *tc, Release: res.Release, Objects: res.Objects, Elapsed: res.Elapsed,
		Argv: res.Argv, Sandbox: res.Sandbox, Built: time.Now().UTC().Truncate(time.Second),
	}
	if r.Fresh {
		if err := s.Cache.Remove("kernels", key); err != nil {
			return nil, err
		}
	}
	_, err = s.Cache.Put("kernels", key, func(dir string) error {
		if err := w.take(".config", filepath.Join(dir, configName), &k.ConfigSHA); err != nil {
			return err
		}
		if bootable(opt.Targets) {
			image := filepath.Join("arch", srcArch(r.Config.arch()), "boot", "bzImage")
			if err := w.take(image, filepath.Join(dir, imageName), &k.ImageSHA); err != nil {
				return err
			}
			if err := s.takeDebugInfo(w, dir, k); err != nil {
				return err
			}
		}
		// Object-only builds have none.
		if err := w.take("System.map", filepath.Join(dir, mapName), nil); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := res.Ledger.write(filepath.Join(dir, ledgerName)); err != nil {
			return err
		}
		if err := copyFile(res.Log, filepath.Join(dir, logName)); err != nil {
			return err
		}
		b, err := json.MarshalIndent(k, "", " ")
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, metaName), append(b, '\n'), 0o644)
	})
	if err != nil {
		return nil, err
	}
	if k, err = s.open(key, r.Role); err != nil {
		return nil, err
	}
	k.Reused = false
	if len(r.Fetch) > 0 {
		if err := s.fetchIn(ctx, w, tc, k, r.Fetch); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// mostDebugInfo bounds the vmlinux that is kept, in bytes. One of allyesconfig
// has 1 GiB.
const mostDebugInfo = 4 << 30

// takeDebugInfo keeps vmlinux of a kernel with debug info. It is kept as it was
// linked: nm and addr2line run once for each frame of a crash, and would
// inflate a compressed one each time.
func (s *Store) takeDebugInfo(w *Workspace, dir string, k *Kernel) error {
	f, err := os.Open(filepath.Join(dir, configName))
	if err != nil {
		return err
	}
	defer f.Close()
	c, err := kernelconfigs.ParseConfig(f)
	if err != nil || c["DEBUG_INFO"] != "y" {
		return err
	}
	v, err := w.openObj(debugName)
	if err != nil {
		return err
	}
	defer v.Close()
	fi, err := v.Stat()
	if err != nil {
		return err
	}
	if fi.Size() > mostDebugInfo {
		s.notify("vmlinux has %d MiB and is not kept; crashes of this kernel are not decoded to file and line", fi.Size()>>20)
		return nil
	}
	k.Source = w.Src
	return w.take(debugName, filepath.Join(dir, debugName), &k.DebugSHA)
}

// enter brings the sources and the object folder to a request's state.
func (w *Workspace) enter(ctx context.Context, r *Request, oh string) error {
	if _, err := w.Sync(ctx, r.overlay()); err != nil {
		return explainFull(err, w.cache)
	}
	chain, err := r.chain(oh)
	if err != nil {
		return err
	}
	return w.Trust(ctx, chain)
}

// buildGround fills the object folder from the tree and its companions. Code
// that does not build is told where its kernel is asked for.
func (s *Store) buildGround(ctx context.Context, w *Workspace, tc *Toolchain, r *Request, opt BuildOptions) error {
	s.notify("building the base's objects")
	if _, err := w.Sync(ctx, r.Ground); err != nil {
		return explainFull(err, s.Cache)
	}
	err := w.Trust(ctx, nil)
	if err == nil {
		err = w.Configure(ctx, tc, r.Config, opt)
	}
	if err == nil {
		_, err = w.Build(ctx, tc, r.Config, opt)
	}
	if err != nil && !codeFault(err) {
		return err
	}
	return nil
}

// take copies a file out of the object folder without following links.
func (w *Workspace) take(rel, dest string, sum *string) error {
	f, err := w.openObj(rel)
	if err != nil {
		return err
	}
	defer f.Close()
	o, err := os.Create(dest)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(o, h), f)
	if cerr := o.Close(); err == nil {
		err = cerr
	}
	if sum != nil {
		*sum = hex.EncodeToString(h.Sum(nil))
	}
	return err
}

func copyFile(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	o, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(o, f)
	if cerr := o.Close(); err == nil {
		err = cerr
	}
	return err
}
