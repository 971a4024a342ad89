// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchcheck/internal/cache"
	"patchcheck/internal/proc"
	kernelconfigs "patchcheck/kernel-configs"
	"patchcheck/patches/diff"
)

// mapOverlay is an overlay in memory; "\x00" as content removes a file.
type mapOverlay map[string]string

const gone = "\x00"

func (m mapOverlay) overlay(t *Tree) Overlay {
	o := diff.NewOverlay(t)
	for p, c := range m {
		if c == gone {
			o = o.With(diff.Change{Path: p, Deleted: true})
		} else {
			o = o.With(diff.Change{Path: p, Content: []byte(c), Mode: 0o644})
		}
	}
	return FromDiff(o)
}

// copyTree makes a fake kernel tree that a test may change.
func copyTree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "linux")
	if err := os.CopyFS(dir, os.DirFS("testdata/tree")); err != nil {
		t.Fatal(err)
	}
	return dir
}

type fake struct {
	*Store
	tree  *Tree
	dir   string
	notes []string
}

func newFake(t *testing.T) *fake {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c, err := cache.Open(filepath.Join(root, "cache"))
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{dir: copyTree(t)}
	f.Store = &Store{Cache: c, Jobs: 2, Notify: func(s string) { f.notes = append(f.notes, s) }}
	f.resolve(t)
	return f
}

func (f *fake) resolve(t *testing.T) {
	t.Helper()
	var err error
	if f.tree, err = Resolve(context.Background(), f.Cache, f.dir, TreeOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.tree.Close)
}

func wanted(t *testing.T, text string) Config {
	t.Helper()
	fr, err := kernelconfigs.Parse("test", text)
	if err != nil {
		t.Fatal(err)
	}
	m, err := kernelconfigs.Merge(fr)
	if err != nil {
		t.Fatal(err)
	}
	return Config{Fragments: m}
}

func (f *fake) request(t *testing.T, role Role, o mapOverlay) Request {
	return Request{Tree: f.tree, Config: wanted(t, "CONFIG_WANTED=y\n"), Overlay: o.overlay(f.tree), Role: role, W: "1"}
}

func (f *fake) build(t *testing.T, role Role, o mapOverlay) *Kernel {
	t.Helper()
	k, err := f.Kernel(context.Background(), f.request(t, role, o))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func objects(k *Kernel) string { return strings.Join(k.Objects, " ") }

func words(t *testing.T, k *Kernel) string {
	t.Helper()
	l, err := k.Ledger()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for o, lines := range l {
		for _, s := range lines {
			if strings.Contains(s, "warning:") {
				out = append(out, o+" "+s)
			}
		}
	}
	return strings.Join(out, "\n")
}

const (
	warns  = "#include \"shared.h\"\nunsigned int b_limit(struct outer *o) { int unused; return o->in->limit; }\n"
	header = "struct inner { unsigned int first; unsigned int limit; };\nstruct outer { long head; long more; struct inner *in; };\nstatic int helper(void) { return 1; }\n"
)

// TestIncremental checks that only what differs is compiled, in both
// directions, and that ledgers describe everything nonetheless.
func TestIncremental(t *testing.T) {
	f := newFake(t)
	base := f.build(t, Base, nil)
	if got := len(base.Objects); got != 3 {
		t.Fatalf("cold build compiled %q, want three objects", objects(base))
	}
	if base.Release != "7.3.4-fake" || base.Image() == "" {
		t.Errorf("release %q, image %q", base.Release, base.Image())
	}
	if again := f.build(t, Base, nil); !again.Reused || again.Key != base.Key {
		t.Error("the same kernel was built twice")
	}
	one := f.build(t, Patched, mapOverlay{"net/b.c": warns})
	if objects(one) != "net/b.o" {
		t.Errorf("patch of b.c compiled %q", objects(one))
	}
	if w := words(t, one); !strings.Contains(w, "net/b.c:2:") || strings.Count(w, "\n") != 0 {
		t.Errorf("ledger has %q, want the one warning of net/b.c with a path relative to the tree", w)
	}
	if words(t, base) != "" {
		t.Errorf("ledger of the base has %q", words(t, base))
	}
	two := f.build(t, Patched, mapOverlay{"net/b.c": warns, "include/shared.h": header})
	if objects(two) != "net/a.o net/b.o" && objects(two) != "net/b.o net/a.o" {
		t.Errorf("patch of the header compiled %q, want a.o and b.o", objects(two))
	}
	if w := words(t, two); strings.Count(w, "helper") < 2 || !strings.Contains(w, "unused") {
		t.Errorf("a warning in a header belongs to both objects: %q", w)
	}
	// Back to the base: the overlay's files are reverted and compiled again.
	r := f.request(t, Base, nil)
	r.Fresh = true
	back, err := f.Kernel(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(back.Objects); got != 2 || words(t, back) != "" {
		t.Errorf("going back compiled %q with %q", objects(back), words(t, back))
	}
	// All three are in the cache: no workspace is needed, so none may be locked.
	l, err := f.Cache.Lock(context.Background(), "work-"+filepath.Base(workDir(t, f)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out, err := f.Series(context.Background(), []Request{f.request(t, Base, nil), f.request(t, Patched, mapOverlay{"net/b.c": warns})})
	if err != nil || !out[0].Kernel.Reused || !out[1].Kernel.Reused {
		t.Errorf("cached kernels were not reused: %v", err)
	}
}

func workDir(t *testing.T, f *fake) string {
	t.Helper()
	dirs, _ := filepath.Glob(f.Cache.Path("work", "*"))
	if len(dirs) != 1 {
		t.Fatalf("workspaces: %v, want one", dirs)
	}
	return dirs[0]
}

// TestSeriesGoesOnAfterAFailure: patch 2 of 3 does not build, 3 does.
func TestSeriesGoesOnAfterAFailure(t *testing.T) {
	f := newFake(t)
	bad := "int c_alone(void) { return missing; }\n"
	out, err := f.Series(context.Background(), []Request{
		f.request(t, Patched, mapOverlay{"net/a.c": "int a;\n"}),
		f.request(t, Patched, mapOverlay{"net/a.c": "int a;\n", "net/c.c": bad}),
		f.request(t, Patched, mapOverlay{"net/a.c": "int a;\n", "net/c.c": "int c_alone(void) { return 4; }\n"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	var be *BuildError
	if out[0].Err != nil || !errors.As(out[1].Err, &be) || out[2].Err != nil {
		t.Fatalf("got %v, %v, %v", out[0].Err, out[1].Err, out[2].Err)
	}
	if len(be.Lines) == 0 || !strings.Contains(be.Lines[0], "net/c.c:1:") || !strings.Contains(strings.Join(be.Targets, " "), "net/c.o") {
		t.Errorf("lines %q, targets %q", be.Lines, be.Targets)
	}
	if objects(out[2].Kernel) != "net/c.o" {
		t.Errorf("patch 3 compiled %q", objects(out[2].Kernel))
	}
}

// TestFilesComeAndGo: added, removed, and folder in place of a file.
func TestFilesComeAndGo(t *testing.T) {
	f := newFake(t)
	ctx := context.Background()
	w, err := OpenWorkspace(ctx, f.Cache, f.tree, "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i, m := range []mapOverlay{
		{"net/new/x.c": "1\n", "net/a.c": gone},
		{"net/new/x.c": "2\n"},
		{"net/c.c": gone, "net/c.c/inside.c": "3\n"},
		{"net/a.c": gone, "net/b.c": gone, "net/c.c": gone, "net": "a file\n"},
		{"net/new": "a file\n"},
		{},
	} {
		if _, err := w.Sync(ctx, m.overlay(f.tree)); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		want := t.TempDir()
		if err := os.CopyFS(want, os.DirFS("testdata/tree")); err != nil {
			t.Fatal(err)
		}
		for p, c := range m {
			if c == gone {
				os.Remove(filepath.Join(want, p))
			}
		}
		os.Remove(filepath.Join(want, "net")) // only when empty
		for p, c := range m {
			if c != gone {
				os.MkdirAll(filepath.Dir(filepath.Join(want, p)), 0o755)
				if err := os.WriteFile(filepath.Join(want, p), []byte(c), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got, w := listing(t, w.Src), listing(t, want); got != w {
			t.Fatalf("step %d: workspace has\n%s\nwant\n%s", i, got, w)
		}
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		c, err := os.ReadFile(p)
		b.WriteString(rel + " " + strings.ReplaceAll(string(c), "\n", "|") + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestHostilePaths: nothing is written outside, whatever an overlay says.
func TestHostilePaths(t *testing.T) {
	f := newFake(t)
	ctx := context.Background()
	w, err := OpenWorkspace(ctx, f.Cache, f.tree, "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, p := range []string{"../x", "/etc/x", "net/../../x", ".git/config", "net/.GIT/hooks/x", "./x", "net//x", ".", "a\nb"} {
		if _, err := w.Sync(ctx, rawOverlay{p: {data: "x"}}); err == nil {
			t.Errorf("%q was accepted", p)
		}
	}
	outside := t.TempDir()
	_, err = w.Sync(ctx, rawOverlay{"net/l": {data: outside, mode: fs.ModeSymlink}, "net/l/x": {data: "x"}})
	if err == nil {
		t.Error("a path beyond a symbolic link was accepted")
	}
	if e, _ := os.ReadDir(outside); len(e) != 0 {
		t.Error("something was written outside the workspace")
	}
	if _, err := w.Sync(ctx, NoOverlay{}); err != nil {
		t.Fatal(err)
	}
	if got, want := listing(t, w.Src), listing(t, "testdata/tree"); got != want {
		t.Errorf("workspace is not clean afterwards:\n%s", got)
	}
}

type rawFile struct {
	data string
	mode fs.FileMode
}
type rawOverlay map[string]rawFile

func (o rawOverlay) Paths() []string {
	var p []string
	for k := range o {
		p = append(p, k)
	}
	if len(p) > 1 && p[0] > p[1] {
		p[0], p[1] = p[1], p[0]
	}
	return p
}

func (o rawOverlay) ReadFile(p string) ([]byte, fs.FileMode, error) {
	f, ok := o[p]
	if !ok {
		return nil, 0, fs.ErrNotExist
	}
	return []byte(f.data), f.mode | 0o644, nil
}

// dead opens the workspace of r as Build leaves it when it dies in the middle of
// make, with what make had printed until then.
func (f *fake) dead(t *testing.T, r Request, log string) *Workspace {
	t.Helper()
	w, err := OpenWorkspace(t.Context(), f.Cache, f.tree, r.workspaceKey(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Sync(t.Context(), r.Overlay); err != nil {
		t.Fatal(err)
	}
	w.state.Building, w.state.BuildStart, w.state.Log = true, time.Now().UnixNano(), "logs/dead.log"
	if err := w.save(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.Dir, "logs/dead.log"), []byte(log), 0o644); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestKilledRunIsRepaired stands in for kill -9 in the middle of make and of
// Sync: the state says "building", an object is half-written, another has no
// line in the log, and the sources are between two overlays.
func TestKilledRunIsRepaired(t *testing.T) {
	f := newFake(t)
	ctx := context.Background()
	f.build(t, Base, nil)
	r := f.request(t, Patched, mapOverlay{"net/b.c": warns})
	w := f.dead(t, r, "  CC      net/a.o\n  AR      net/built-in.a\n")
	// b.o: written, its command file not yet. c.o: complete, never printed.
	later := time.Now().Add(2 * time.Second)
	if err := os.WriteFile(filepath.Join(w.Obj, "net/b.o"), []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	os.Chtimes(filepath.Join(w.Obj, "net/b.o"), later, later)
	for _, n := range []string{"net/c.o", "net/.c.o.cmd"} {
		os.Chtimes(filepath.Join(w.Obj, n), later, later)
	}
	// A file that Sync was about to revert.
	if err := os.WriteFile(filepath.Join(w.Src, "net/b.c"), []byte("half a fi"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.Close()

	k, err := f.Kernel(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(objects(k), "net/b.o") || !strings.Contains(objects(k), "net/c.o") || strings.Contains(objects(k), "net/a.o") {
		t.Errorf("compiled %q, want b.o and c.o", objects(k))
	}
	if w := words(t, k); !strings.Contains(w, "unused") {
		t.Errorf("the warning of b.c is lost: %q", w)
	}
	l, _ := k.Ledger()
	if len(l) != 3 {
		t.Errorf("ledger has %d objects, want 3: %v", len(l), l)
	}
}

// TestCutLog: the object is whole and its step is in the log, but we died
// before we had read what the compiler said about it.
func TestCutLog(t *testing.T) {
	f := newFake(t)
	ctx := context.Background()
	f.build(t, Base, nil)
	r := f.request(t, Patched, mapOverlay{"net/b.c": warns})
	for _, log := range []string{
		"  CC      net/a.o\n  CC      net/b.o\n",
		"  CC      net/b.o\n  CHECK   net/b.c\n",
	} {
		w := f.dead(t, r, log)
		later := time.Now().Add(2 * time.Second)
		for _, n := range []string{"net/b.o", "net/.b.o.cmd"} {
			if err := os.Chtimes(filepath.Join(w.Obj, n), later, later); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		w, err := OpenWorkspace(ctx, f.Cache, f.tree, r.workspaceKey(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(w.Obj, "net/b.o")); err == nil {
			t.Errorf("log %q: an object is trusted whose diagnostics may be lost", log)
		}
		w.Close()
		k, err := f.Kernel(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		if got := words(t, k); !strings.Contains(got, "unused") {
			t.Errorf("log %q: the warning of b.c is lost: %q", log, got)
		}
		if err := f.Cache.Remove("kernels", filepath.Base(k.Dir)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestInterrupt: Ctrl-C during make, then again: the result is complete.
func TestInterrupt(t *testing.T) {
	f := newFake(t)
	slow(t, f.dir, "a", "sleep 60;")
	f.resolve(t)
	ctx, cancel := context.WithCancel(context.Background())
	f.Progress = func(p Progress) {
		if strings.Contains(p.Line, "net/") {
			cancel()
		}
	}
	start := time.Now()
	_, err := f.Kernel(ctx, f.request(t, Base, nil))
	var ie *InfraError
	if !errors.As(err, &ie) || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want an InfraError that says canceled", err)
	}
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("took %v to stop", d)
	}
	f.Progress = nil
	slow(t, f.dir, "a", "")
	f.resolve(t)
	k := f.build(t, Base, nil)
	l, _ := k.Ledger()
	if len(l) != 3 {
		t.Errorf("ledger after the interrupt: %v", l)
	}
}

// slow puts a command before a compile in the fake tree's Makefile.
func slow(t *testing.T, dir, object, cmd string) {
	t.Helper()
	p := filepath.Join(dir, "Makefile")
	b, err := os.ReadFile(filepath.Join("testdata/tree/Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	s := strings.Replace(string(b), "objs :=", "HOOK_"+object+" = "+cmd+"\nobjs :=", 1)
	if err := os.WriteFile(p, []byte(s), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestInfraIsNotTheCode: failures that say nothing about the series.
func TestInfraIsNotTheCode(t *testing.T) {
	for name, c := range map[string]struct {
		hook  string
		check func(error) bool
	}{
		"compiler killed": {`sh -c 'kill -9 $$$$' &&`, func(err error) bool {
			var e *InfraError
			return errors.As(err, &e) && strings.Contains(err.Error(), "killed")
		}},
		"cc1 killed": {`echo 'gcc: fatal error: Killed signal terminated program cc1' >&2; exit 1;`, func(err error) bool {
			var e *InfraError
			return errors.As(err, &e)
		}},
		"disk full": {`echo 'net/a.c:1: fatal error: error writing to /tmp/x.s: No space left on device' >&2; exit 1;`, func(err error) bool {
			var e *cache.FullError
			return errors.As(err, &e)
		}},
		"no such tool": {`/nonexistent-tool-of-the-host &&`, func(err error) bool {
			var e *ToolError
			return errors.As(err, &e) && strings.Contains(err.Error(), "nonexistent-tool")
		}},
		"plain error": {`echo 'net/a.c:1:5: error: something' >&2; exit 1;`, func(err error) bool {
			var e *BuildError
			return errors.As(err, &e) && strings.Contains(err.Error(), "something")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			slow(t, f.dir, "a", c.hook)
			f.resolve(t)
			_, err := f.Kernel(context.Background(), f.request(t, Base, nil))
			if err == nil || !c.check(err) {
				t.Errorf("got %T: %v", err, err)
			}
			if ents, _ := os.ReadDir(f.Cache.Path("kernels")); len(ents) != 0 {
				t.Errorf("something was put into the cache: %v", ents)
			}
		})
	}
}

// TestDamagedEntryIsBuiltAgain: a flipped byte in the image, a missing file.
func TestDamagedEntryIsBuiltAgain(t *testing.T) {
	for name, harm := range map[string]func(*Kernel) error{
		"changed": func(k *Kernel) error {
			b, err := os.ReadFile(k.Image())
			if err != nil {
				return err
			}
			b[len(b)/2] ^= 1
			return os.WriteFile(k.Image(), b, 0o644)
		},
		"missing": func(k *Kernel) error { return os.Remove(k.SystemMap()) },
		"no mark": func(k *Kernel) error { return os.Remove(filepath.Join(k.Dir, cache.MarkName)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			k := f.build(t, Base, nil)
			if err := harm(k); err != nil {
				t.Fatal(err)
			}
			again := f.build(t, Base, nil)
			if again.Reused {
				t.Error("a damaged kernel was used")
			}
			if again.ImageSHA != k.ImageSHA {
				t.Error("the kernel built again differs")
			}
			if _, err := f.Lookup(context.Background(), f.request(t, Base, nil)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMissingSymbol: the configuration is proved, and the reason named.
func TestMissingSymbol(t *testing.T) {
	f := newFake(t)
	r := f.request(t, Base, nil)
	r.Config = wanted(t, "CONFIG_WANTED=y\nCONFIG_LOST=y\n")
	_, err := f.Kernel(context.Background(), r)
	var me *kernelconfigs.MissingError
	if !errors.As(err, &me) || !strings.Contains(err.Error(), "CONFIG_LOST") || !strings.Contains(err.Error(), "depends on ABSENT") {
		t.Errorf("got %v", err)
	}
}

// TestMovingBase: a folder that was edited, and a repository whose HEAD moved,
// use the objects they have.
func TestMovingBase(t *testing.T) {
	f := newFake(t)
	base := f.build(t, Base, nil)
	if err := os.WriteFile(filepath.Join(f.dir, "net/c.c"), []byte("int c_alone(void) { return 5; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	old := f.tree.ID
	f.resolve(t)
	k := f.build(t, Base, nil)
	if k.Key == base.Key || f.tree.ID == old {
		t.Error("an edited folder counts as the same tree")
	}
	if objects(k) != "net/c.o" {
		t.Errorf("compiled %q, want c.o alone", objects(k))
	}
}

// TestFolderChangedDuringRun: the base of a revert must be what was copied.
func TestFolderChangedDuringRun(t *testing.T) {
	f := newFake(t)
	f.build(t, Patched, mapOverlay{"net/b.c": warns})
	if err := os.WriteFile(filepath.Join(f.dir, "net/b.c"), []byte("int edited;\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := f.Kernel(context.Background(), f.request(t, Base, nil))
	if err == nil || !strings.Contains(err.Error(), "changed while the run was using it") {
		t.Errorf("got %v", err)
	}
}

func gitRun(t *testing.T, dir string, args ...string) string {
	t.Helper()
	env := append(proc.MinimalEnv(), "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org", "GIT_CONFIG_GLOBAL=/dev/null")
	res, err := proc.Run(context.Background(), proc.Cmd{Argv: append([]string{"git", "-C", dir}, args...), Env: env})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(res.Stdout))
}

// TestGitTree: base choice, unreachable commits, reading without export, and
// the user's repository left as it was.
func TestGitTree(t *testing.T) {
	f := newFake(t)
	ctx := context.Background()
	gitRun(t, f.dir, "init", "-q", "-b", "main")
	os.Symlink("net", filepath.Join(f.dir, "link"))
	gitRun(t, f.dir, "add", ".")
	gitRun(t, f.dir, "commit", "-q", "-m", "one")
	first := gitRun(t, f.dir, "rev-parse", "HEAD")
	os.WriteFile(filepath.Join(f.dir, "net/c.c"), []byte("int c_alone(void) { return 7; }\n"), 0o644)
	gitRun(t, f.dir, "commit", "-q", "-a", "-m", "two")
	second := gitRun(t, f.dir, "rev-parse", "HEAD")
	gitRun(t, f.dir, "reset", "-q", "--hard", first) // "two" is unreachable now
	os.WriteFile(filepath.Join(f.dir, "net/c.c"), []byte("dirty\n"), 0o644)
	before := snapshot(t, f.dir)

	for _, c := range []struct {
		opt  TreeOptions
		want string
		note string
	}{
		{TreeOptions{}, first, ""},
		{TreeOptions{Base: second[:12]}, second, ""},
		{TreeOptions{SeriesBase: second}, second, ""},
		{TreeOptions{Base: "main", SeriesBase: second}, first, ""},
		{TreeOptions{SeriesBase: strings.Repeat("a", 40)}, first, "is not in the repository"},
	} {
		tr, err := Resolve(ctx, f.Cache, f.dir, c.opt)
		if err != nil {
			t.Fatal(err)
		}
		if tr.Commit != c.want || tr.Version != "7.3.4" || !strings.Contains(strings.Join(tr.Notes, " "), c.note) {
			t.Errorf("%+v: got %s %s %v", c.opt, tr.Commit, tr.Version, tr.Notes)
		}
		tr.Close()
	}
	if _, err := Resolve(ctx, f.Cache, f.dir, TreeOptions{Base: "nope"}); err == nil || !strings.Contains(err.Error(), "--base nope names no commit") {
		t.Errorf("got %v", err)
	}
	tr, err := Resolve(ctx, f.Cache, f.dir, TreeOptions{Base: second})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	for _, read := range []string{"before", "after"} {
		b, mode, err := tr.ReadFile("net/c.c")
		if err != nil || string(b) != "int c_alone(void) { return 7; }\n" || !mode.IsRegular() {
			t.Errorf("%s export: %q %v %v", read, b, mode, err)
		}
		if b, mode, err := tr.ReadFile("link"); err != nil || string(b) != "net" || mode&fs.ModeSymlink == 0 {
			t.Errorf("%s export: link %q %v %v", read, b, mode, err)
		}
		if _, mode, err := tr.ReadFile("net"); err != nil || !mode.IsDir() {
			t.Errorf("%s export: folder %v %v", read, mode, err)
		}
		if _, _, err := tr.ReadFile("net/none.c"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s export: absent file %v", read, err)
		}
		if _, _, err := tr.ReadFile("net/c.c/x"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s export: below a file %v", read, err)
		}
		if _, _, err := tr.ReadFile("link/c.c"); !errors.Is(err, diff.ErrSymlink) {
			t.Errorf("%s export: through a link %v", read, err)
		}
		if read == "before" {
			if _, err := tr.Export(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.tree = tr
	f.build(t, Base, nil)
	f.tree, err = Resolve(ctx, f.Cache, f.dir, TreeOptions{Base: first})
	if err != nil {
		t.Fatal(err)
	}
	defer f.tree.Close()
	if k := f.build(t, Base, nil); objects(k) != "net/c.o" {
		t.Errorf("another base of the same repository compiled %q, want c.o alone", objects(k))
	}
	if after := snapshot(t, f.dir); after != before {
		t.Errorf("the user's repository changed:\n%s\nwas\n%s", after, before)
	}
	bare := filepath.Join(t.TempDir(), "bare.git")
	gitRun(t, f.dir, "clone", "-q", "--bare", ".", bare)
	if tr, err := Resolve(ctx, f.Cache, bare, TreeOptions{}); err != nil || tr.Commit != first {
		t.Errorf("bare repository: %v", err)
	}
}

// snapshot lists every file of a folder with its time and size.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			t.Fatal(err)
		}
		fi, _ := d.Info()
		b.WriteString(p + " " + fi.ModTime().String() + " " + fi.Mode().String() + "\n")
		return nil
	})
	return b.String()
}

func TestResolveErrors(t *testing.T) {
	f := newFake(t)
	empty := t.TempDir()
	file := filepath.Join(empty, "f")
	os.WriteFile(file, nil, 0o644)
	half := copyTree(t)
	os.Remove(filepath.Join(half, "Kconfig"))
	for _, c := range []struct{ spec, base, want string }{
		{"/nonexistent/linux", "", "there is no such folder"},
		{"nfsd-testin", "", "known names are"},
		{empty, "", "no Makefile"},
		{file, "", "is a file"},
		{half, "", "it has no Kconfig"},
		{f.dir, "v6.1", "not a git repository"},
		{"debian:linux", "", "expected debian:linux-source-VERSION"},
		{"debian:linux-source-7.3", "x", "has no revisions"},
		{"git+", "", "expected git+URL#branch"},
		{"git+--upload-pack=x#y", "", "expected git+URL#branch"},
		{"git+ext::sh#y", "", "expected git+URL#branch"},
		{"git+https://user:sesame@example.org/linux.git#y", "", "credential helper"},
		{"git+https://sesame@example.org/linux.git", "", "credential helper"},
	} {
		_, err := Resolve(context.Background(), f.Cache, c.spec, TreeOptions{Base: c.base})
		var te *TreeError
		if !errors.As(err, &te) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.spec, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: the error tells a secret: %v", c.spec, err)
		}
	}
}

// TestRemoteTree fetches from a repository on this machine.
func TestRemoteTree(t *testing.T) {
	f := newFake(t)
	ctx := context.Background()
	gitRun(t, f.dir, "init", "-q", "-b", "testing")
	gitRun(t, f.dir, "add", ".")
	gitRun(t, f.dir, "commit", "-q", "-m", "one")
	first := gitRun(t, f.dir, "rev-parse", "HEAD")
	spec := "git+file://" + f.dir + "#testing"
	tr, err := Resolve(ctx, f.Cache, spec, TreeOptions{})
	if err != nil || tr.Commit != first {
		t.Fatalf("got %v", err)
	}
	tr.Close()
	os.WriteFile(filepath.Join(f.dir, "net/c.c"), []byte("int x;\n"), 0o644)
	gitRun(t, f.dir, "commit", "-q", "-a", "-m", "two")
	second := gitRun(t, f.dir, "rev-parse", "HEAD")
	if tr, err = Resolve(ctx, f.Cache, spec, TreeOptions{}); err != nil || tr.Commit != first {
		t.Errorf("the network was used though the cache had the branch: %v %v", tr, err)
	}
	tr.Close()
	if tr, err = Resolve(ctx, f.Cache, spec, TreeOptions{Refresh: true}); err != nil || tr.Commit != second {
		t.Errorf("Refresh did not fetch: %v %v", tr, err)
	}
	tr.Close()
	if _, err := Resolve(ctx, f.Cache, "git+file:///nonexistent/x#y", TreeOptions{}); err == nil || !strings.Contains(err.Error(), "cannot fetch") {
		t.Errorf("got %v", err)
	}
}

// TestFetch resolves members for kernels with different layouts, kept with
// each of them.
func TestFetch(t *testing.T) {
	f := newFake(t)
	ctx := context.Background()
	exprs := []FetchExpr{
		{Object: "net/a.o", Struct: "struct outer", Expr: "in->limit", Arg: 1},
		{Object: "net/a.o", Struct: "struct outer", Expr: "more", Arg: 2},
		{Object: "net/a.o", Struct: "struct nowhere", Expr: "x", Arg: 1},
		{Object: "net/a.o", Struct: "struct outer", Expr: "in->limit:x32", Arg: 1},
	}
	rb := f.request(t, Base, nil)
	rb.Fetch = exprs[:1]
	base, err := f.Kernel(ctx, rb)
	if err != nil {
		t.Fatal(err)
	}
	rp := f.request(t, Patched, mapOverlay{"include/shared.h": header})
	patched, err := f.Kernel(ctx, rp)
	if err != nil {
		t.Fatal(err)
	}
	// The workspace is at the patched state; the base's answers must not be.
	got, err := f.Fetch(ctx, rb, base, exprs)
	if err != nil {
		t.Fatal(err)
	}
	var nm *NoMemberError
	if got[0].Fetch != "+4(+8($arg1)):u32" || !errors.As(got[1].Err, &nm) || nm.Member != "more" || !errors.As(got[2].Err, &nm) || nm.Member != "" || got[3].Fetch != "+4(+8($arg1)):x32" {
		t.Errorf("base: %+v", got)
	}
	if got, err = f.Fetch(ctx, rp, patched, exprs[:2]); err != nil || got[0].Fetch != "+4(+16($arg1)):u32" || got[1].Fetch != "+8($arg2):s64" {
		t.Errorf("patched: %+v %v", got, err)
	}
	// Kept: no workspace is needed any more.
	if err := cache.RemoveAll(f.Cache.Path("work")); err != nil {
		t.Fatal(err)
	}
	if got, err = f.Fetch(ctx, rb, base, exprs); err != nil || got[0].Fetch != "+4(+8($arg1)):u32" {
		t.Errorf("kept answers: %+v %v", got, err)
	}
	if k := f.build(t, Base, nil); !k.Reused {
		t.Error("keeping answers made the kernel's entry invalid")
	}
	bad := []FetchExpr{{Object: "../x.o", Struct: "struct a", Expr: "b", Arg: 1}, {Object: "net/a.o", Struct: "struct outer", Expr: "in.limit..", Arg: 1}}
	got, err = f.Fetch(ctx, rb, base, bad)
	if err != nil || got[0].Err == nil || got[1].Err == nil {
		t.Errorf("malformed expressions: %+v %v", got, err)
	}
}

// TestHostileMakefile: a build cannot read the home folder, reach the network
// or leave something outside its own folder, and a link it leaves in place of
// the image is not followed.
func TestHostileMakefile(t *testing.T) {
	if sb := FindSandbox(context.Background()); !sb.Enabled {
		t.Fatalf("no sandbox on this host: %s", sb.Reason)
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("SECRET_TOKEN", "s3cret")
	secret := filepath.Join(home, "id_rsa")
	if err := os.WriteFile(secret, []byte("private key"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFake(t)
	hook := "cat " + secret + " > stolen-file; env > stolen-env; echo x > " + filepath.Join(home, "planted") +
		"; echo x > /tmp/patchcheck-planted; echo x > $(srctree)/planted; cat /etc/passwd > stolen-passwd; ls /sys/class/net /proc/net/dev > /dev/null 2>&1; cat /proc/net/route /proc/net/dev > stolen-net; ls /proc > stolen-proc;"
	slow(t, f.dir, "a", "("+hook+") 2>/dev/null;")
	f.resolve(t)
	k := f.build(t, Base, nil)
	if !k.Sandbox.Enabled {
		t.Errorf("built without a sandbox: %+v", k.Sandbox)
	}
	obj := filepath.Join(workDir(t, f), "obj")
	for name, bad := range map[string]string{"stolen-file": "private", "stolen-env": "s3cret", "stolen-passwd": "root:", "stolen-net": "eth"} {
		b, err := os.ReadFile(filepath.Join(obj, name))
		if err != nil {
			t.Errorf("%s: the hostile command did not run: %v", name, err)
		}
		if strings.Contains(string(b), bad) {
			t.Errorf("%s holds %q", name, b)
		}
	}
	for _, p := range []string{filepath.Join(home, "planted"), "/tmp/patchcheck-planted", filepath.Join(workDir(t, f), "src/planted")} {
		if _, err := os.Lstat(p); err == nil {
			t.Errorf("%s was written", p)
			os.Remove(p)
		}
	}
	// A link instead of the image.
	mk := mapOverlay{"Makefile": strings.Replace(readFile(t, filepath.Join(f.dir, "Makefile")), "echo map > System.map && mv $@.new $@", "ln -sf "+secret+" $@", 1)}
	_, err := f.Kernel(context.Background(), f.request(t, Patched, mk))
	if err == nil {
		t.Error("a link in place of the image was accepted")
	}
}

func readFile(t *testing.T, p string) string {
	t.Helper()
	b, err := os.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestNoSandboxIsSaid: the way a kernel was built is part of its record.
func TestNoSandboxIsSaid(t *testing.T) {
	f := newFake(t)
	f.NoSandbox = true
	k := f.build(t, Base, nil)
	if k.Sandbox.Enabled || k.Sandbox.Reason == "" {
		t.Errorf("got %+v", k.Sandbox)
	}
}

// TestClockSetBack: files written after the clock was set back are still newer
// than the objects.
func TestClockSetBack(t *testing.T) {
	f := newFake(t)
	f.build(t, Base, nil)
	r := f.request(t, Patched, mapOverlay{"net/b.c": warns})
	w, err := OpenWorkspace(context.Background(), f.Cache, f.tree, r.workspaceKey(), nil)
	if err != nil {
		t.Fatal(err)
	}
	// The build ended in what is now the future.
	ahead := time.Now().Add(time.Hour)
	w.state.BuildEnd = ahead.UnixNano()
	os.Chtimes(filepath.Join(w.Obj, "net/b.o"), ahead, ahead)
	if err := w.save(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	k, err := f.Kernel(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(objects(k), "net/b.o") {
		t.Errorf("compiled %q, want b.o", objects(k))
	}
}

// TestGC: parts in use stay.
func TestGC(t *testing.T) {
	f := newFake(t)
	f.build(t, Base, nil)
	l, err := f.Cache.Lock(context.Background(), "work-"+filepath.Base(workDir(t, f)), nil)
	if err != nil {
		t.Fatal(err)
	}
	freed, err := Clean(f.Cache, func(Part) bool { return true })
	if err != nil || freed == 0 {
		t.Errorf("freed %d, %v", freed, err)
	}
	if left, _ := filepath.Glob(f.Cache.Path("kernels", "*")); len(left) != 0 {
		t.Errorf("kernels are left: %v", left)
	}
	workDir(t, f) // still there
	l.Close()
	if _, err := Clean(f.Cache, func(Part) bool { return true }); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(f.Cache.Path("work", "*")); len(left) != 0 {
		t.Errorf("workspaces are left: %v", left)
	}
	f.build(t, Base, nil)
}

func TestNextSeries(t *testing.T) {
	names := []string{"linux-source-6.12", "linux-source", "linux-source-7.10", "linux-source-7.4", "linux-source-7.3", "linux-source-8.0", "linux-source-7.4-x"}
	for name, want := range map[string]string{
		"linux-source-7.3": "linux-source-7.4", "linux-source-7.4": "linux-source-7.10", "linux-source-7.10": "linux-source-8.0", "linux-source-8.0": "",
	} {
		if got := nextSeries(name, names); got != want {
			t.Errorf("after %s: got %q, want %q", name, got, want)
		}
	}
}

func TestDebugCommand(t *testing.T) {
	saved := `gcc -Wp,-MMD,net/.a.o.d -DX='"a"' -DY='$(pound)' -DZ=$$1 -g -femit-struct-debug-baseonly -c -o net/a.o /src/net/a.c   ; ./tools/objtool/objtool --orc net/a.o`
	got, err := debugCommand(saved, "net/a.o", "/tmp/x.o")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`-DX='"a"'`, `-DY='#'`, "-DZ=$1", " -o /tmp/x.o ", "/src/net/a.c", " -g "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	for _, bad := range []string{"-MMD", "objtool", "net/a.o", "-femit-struct"} {
		if strings.Contains(got, bad) {
			t.Errorf("%q holds %q", got, bad)
		}
	}
	if _, err := debugCommand("ld -r -o net/a.o net/b.o", "net/a.o", "/tmp/x.o"); err == nil {
		t.Error("a link was taken for a compile")
	}
}

// TestLogs: what the parser makes of logs that real builds print.
func TestLogs(t *testing.T) {
	log := strings.Join([]string{
		"make[1]: Entering directory '/w/obj'",
		"  SYNC    include/config/auto.conf.cmd",
		"  HOSTCC  scripts/kallsyms",
		"/w/src/scripts/kallsyms.c:3:1: warning: host [-Wx]",
		"  CC      net/a.o",
		"/w/src/net/a.c: In function 'f':",
		"/w/src/net/a.c:1:2: warning: unused variable 'x' [-Wunused-variable]",
		"    1 | int x;",
		"  CC [M]  net/m.o",
		"  AS      arch/x86/entry.o",
		"  CHECK   /w/src/net/a.c",
		"/w/src/net/a.c:4:5: warning: symbol 'f' was not declared",
		"  LD      vmlinux.o",
		"vmlinux.o: warning: objtool: f+0x1: no",
		"  CC      net/bad.o",
		"/w/src/net/bad.c:1:1: error: no",
		"make[3]: *** [/w/src/scripts/Makefile.build:289: net/bad.o] Error 1",
		"make[2]: *** [/w/src/Makefile:2000: .] Error 2",
		"Kernel: arch/x86/boot/bzImage is ready  (#1)",
	}, "\n")
	p, err := parseLog(strings.NewReader(log), "/w/src", Ledger{"net/old.o": {"kept"}, "net/a.o": {"replaced"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(p.objects, " "); got != "net/a.o net/m.o arch/x86/entry.o net/bad.o" {
		t.Errorf("objects %q", got)
	}
	if got := strings.Join(p.led["net/a.o"], "|"); got != "net/a.c: In function 'f':|net/a.c:1:2: warning: unused variable 'x' [-Wunused-variable]|    1 | int x;" {
		t.Errorf("a.o: %q", got)
	}
	if len(p.led["net/a.c"]) != 1 || len(p.led["vmlinux.o"]) != 1 || len(p.led["net/old.o"]) != 1 || len(p.led["net/m.o"]) != 0 {
		t.Errorf("ledger %v", p.led)
	}
	if len(p.failed) == 0 || p.failed[0] != "net/bad.o" {
		t.Errorf("failed %q", p.failed)
	}
	if text := p.led.Text(); !strings.Contains(text, "  CC      net/a.o\nnet/a.c: In function") || !strings.Contains(text, "  CHECK   net/a.c\n") {
		t.Errorf("text:\n%s", text)
	}
}

// FuzzLog: no log makes the parser fail.
func FuzzLog(f *testing.F) {
	f.Add("  CC      a.o\nx.c:1: warning: y\nmake: *** [x] Error 1\n")
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := parseLog(strings.NewReader(s), "/w/src", Ledger{}); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzPath: expressions are refused or have at least one step.
func FuzzPath(f *testing.F) {
	f.Add("a.b->c[2]:x32")
	f.Fuzz(func(t *testing.T, s string) {
		if steps, _, err := parsePath(s); err == nil && (len(steps) == 0 || steps[0].name == "") {
			t.Fatalf("%q gives %v", s, steps)
		}
	})
}

// FuzzDWARF: a damaged object is an error.
func FuzzDWARF(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if d, err := readDWARF(b); err == nil {
			resolveFetch(d, FetchExpr{Object: "a.o", Struct: "struct outer", Expr: "in->limit", Arg: 1})
		}
	})
}
