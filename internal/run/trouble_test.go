// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/cache"
	"patchcheck/internal/runfolder"
	"patchcheck/internal/view"
	"patchcheck/testplans"
	"patchcheck/vm"
)

// Troubles of ours: each ends as INFRA or in the right verdict, with a message
// that says what to do, and never as the series' fault.

// edit changes a file of a bed's tree.
func (b *bed) edit(t *testing.T, name, old, new string) {
	t.Helper()
	path := filepath.Join(b.Dir, "linux", name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := strings.Replace(string(text), old, new, 1)
	if s == string(text) {
		t.Fatalf("%s has no %q", name, old)
	}
	if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestCompilerKilled(t *testing.T) {
	const compile = "\t@gcc -Wp,"
	for _, c := range []struct {
		name, hook string
		verdict    checks.Verdict
		reason     string
	}{
		{"once", "\t@if [ ! -e once ]; then touch once; kill -KILL $$$$; fi\n", checks.Fail, "finding"},
		{"each time", "\t@kill -KILL $$$$\n", checks.Infra, "twice, the second time with 1 job: a program of the build was killed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			b.edit(t, "Makefile", compile, c.hook+compile)
			r, err := b.run(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict != c.verdict || !strings.Contains(r.Reason, c.reason) {
				t.Errorf("verdict %s: %s", r.Verdict, r.Reason)
			}
			if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "was killed") || !strings.Contains(r.Notes[0], "building once more with 1 job") {
				t.Errorf("notes %q", r.Notes)
			}
		})
	}
}

func TestNoRoom(t *testing.T) {
	defer func(a, b int64) { roomFirst, roomLater = a, b }(roomFirst, roomLater)
	roomFirst, roomLater = 1<<60, 1<<60
	r, err := newBed(t).run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != checks.Infra || !strings.Contains(r.Reason, "a build needs about") || !strings.Contains(r.Reason, "patchcheck gc") {
		t.Errorf("verdict %s: %s", r.Verdict, r.Reason)
	}
}

// within runs a bed's process in a mount namespace after a script has had its
// way with it there.
func (b *bed) within(t *testing.T, script string) (string, error) {
	t.Helper()
	argv := []string{"unshare", "--mount", "--propagation", "private"}
	if os.Getuid() != 0 {
		argv = append(argv, "--user", "--map-root-user")
	}
	if out, err := exec.Command(argv[0], append(argv[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("no mount namespace on this host: %v: %s", err, out)
	}
	s, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	argv = append(argv, "sh", "-ec", script+"\nexec \"$0\" -test.run='^TestBedProcess$'", os.Args[0])
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = b.Dir
	cmd.Env = append(os.Environ(), bedEnv+"="+string(s), "TMPDIR="+filepath.Join(b.Dir, "tmp"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (b *bed) newest(t *testing.T) *runfolder.Run {
	t.Helper()
	dirs, err := runfolder.List(filepath.Join(b.Dir, "runs"))
	if err != nil || len(dirs) == 0 {
		t.Fatal(dirs, err)
	}
	r, err := runfolder.Open(dirs[0])
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const readOnly = "mount --bind cache cache; mount -o remount,bind,ro cache; ! touch cache/x 2>/dev/null"

func TestReadOnlyCacheWarm(t *testing.T) {
	b := newBed(t)
	want, err := b.run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	os.Rename(filepath.Join(b.Dir, "runs"), filepath.Join(b.Dir, "runs-before"))
	out, err := b.within(t, readOnly)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := b.newest(t)
	if got.Verdict != want.Verdict || got.Reason != want.Reason || !got.Kernels[testplans.RoleBase].Reused {
		t.Errorf("verdict %s: %s; want %s: %s", got.Verdict, got.Reason, want.Verdict, want.Reason)
	}
}

func TestReadOnlyCacheCold(t *testing.T) {
	b := newBed(t)
	os.Mkdir(filepath.Join(b.Dir, "cache"), 0o755)
	out, err := b.within(t, readOnly)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if r := b.newest(t); r.Verdict != checks.Infra || !strings.Contains(r.Reason, "cannot be written") || !strings.Contains(r.Reason, "PATCHCHECK_CACHE") {
		t.Errorf("verdict %s: %s", r.Verdict, r.Reason)
	}
}

// The cache's disk is too small for a build: said before it is started.
func TestFullDisk(t *testing.T) {
	b := newBed(t)
	os.Mkdir(filepath.Join(b.Dir, "cache"), 0o755)
	out, err := b.within(t, "mount -t tmpfs -o size=200k none cache")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if r := b.newest(t); r.Verdict != checks.Infra || !strings.Contains(r.Reason, "cache") || !strings.Contains(r.Reason, "patchcheck gc") {
		t.Errorf("verdict %s: %s", r.Verdict, r.Reason)
	}
}

// The disk of the run folders is full.
func TestFullRunFolder(t *testing.T) {
	b := newBed(t)
	os.Mkdir(filepath.Join(b.Dir, "runs"), 0o755)
	out, err := b.within(t, "mount -t tmpfs -o size=20k none runs")
	if err == nil || !strings.Contains(out, "no space left") || !strings.Contains(out, "--out") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A limit on the size of files ends no process and is said as what it is.
func TestFileSizeLimit(t *testing.T) {
	b := newBed(t)
	out, err := b.within(t, "ulimit -f 4") // in blocks of 512 bytes
	if err == nil {
		r := b.newest(t)
		if r.Verdict != checks.Infra {
			t.Errorf("verdict %s: %s", r.Verdict, r.Reason)
		}
		out = r.Reason
	}
	if strings.Contains(out, "goroutine ") || strings.Contains(out, "SIGXFSZ") || !strings.Contains(out, "cannot write the run folder") && !strings.Contains(out, "ulimit -f") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Two runs at once on one cache: the second waits, says for whom, and both
// come to the same end.
func TestTwoRunsAtOnce(t *testing.T) {
	b := newBed(t)
	b.edit(t, "Makefile", "\t@gcc -Wp,", "\t@sleep 0.3\n\t@gcc -Wp,")
	var said [2]strings.Builder
	var got [2]*runfolder.Run
	var errs [2]error
	var wg sync.WaitGroup
	for i := range got {
		wg.Add(1)
		go func() {
			defer wg.Done()
			o := b.options()
			o.View = view.New(&said[i])
			got[i], errs[i] = Run(context.Background(), o)
		}()
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	if got[0].Verdict != checks.Fail || got[1].Verdict != got[0].Verdict || got[0].Reason != got[1].Reason {
		t.Errorf("%s: %s\n%s: %s", got[0].Verdict, got[0].Reason, got[1].Verdict, got[1].Reason)
	}
	all := said[0].String() + said[1].String()
	if !strings.Contains(all, "waiting for patchcheck with process id ") || !strings.Contains(all, " (since ") {
		t.Errorf("nobody said that it waits:\n%s", all)
	}
}

func TestDamagedAnswer(t *testing.T) {
	c, err := cache.Open(filepath.Join(t.TempDir(), "cache"))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := runfolder.Create(t.TempDir(), time.Now(), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	newRunner := func() *runner { return &runner{o: Options{View: view.New(nil)}, cache: c, rec: rec} }
	cell := func(id, guest string, v checks.Verdict) *runfolder.Cell {
		return &runfolder.Cell{ID: id, Key: "key-" + id, Verdict: v, Final: true, Attempts: []runfolder.Attempt{{Guest: guest, Token: "done"}}}
	}
	cells := []*runfolder.Cell{cell("a", "1", checks.Pass), cell("b", "1", checks.Pass), cell("c", "2", checks.Pass), cell("d", "2", checks.Fail)}
	if err := newRunner().remember(cells); err != nil {
		t.Fatal(err)
	}
	r := newRunner()
	if x := r.known("key-a"); x == nil || x.ID != "a" || x.Reused != rec.ID {
		t.Errorf("got %+v", x)
	}
	// c shared its guest with d, to which a leak of both would be charged.
	if r.known("key-c") != nil || r.known("key-d") != nil {
		t.Error("an answer was kept that is none")
	}
	path := c.Path("cells", "key-a.json")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var old storedAnswer
	if err := json.Unmarshal(whole, &old); err != nil {
		t.Fatal(err)
	}
	for _, d := range []struct {
		name string
		data []byte
		told bool
	}{
		{"one letter", []byte(strings.Replace(string(whole), `"token":"done"`, `"token":"dome"`, 1)), true},
		{"cut off", whole[:len(whole)/2], true},
		{"empty, after a power cut", nil, true},
		{"of a version without hashes", old.Cell, false},
	} {
		if err := os.WriteFile(path, d.data, 0o644); err != nil {
			t.Fatal(err)
		}
		r := newRunner()
		if x := r.known("key-a"); x != nil {
			t.Errorf("%s: believed", d.name)
		}
		if told := len(r.noted.lines) == 1 && strings.Contains(r.noted.lines[0], "is damaged; the cell runs again"); told != d.told {
			t.Errorf("%s: told %q", d.name, r.noted.lines)
		}
	}
}

// A kernel in the cache that a power cut damaged is built again and said so.
func TestDamagedKernel(t *testing.T) {
	b := newBed(t)
	want, err := b.run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	images, err := filepath.Glob(filepath.Join(b.Dir, "cache/kernels/*/bzImage"))
	if err != nil || len(images) == 0 {
		t.Fatal(images, err)
	}
	for _, f := range images {
		os.Truncate(f, 0)
	}
	got, err := b.run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got.Verdict != want.Verdict || got.Kernels[testplans.RoleBase].Reused || got.Kernels[testplans.RoleBase].Image != want.Kernels[testplans.RoleBase].Image {
		t.Errorf("got %+v", got.Kernels)
	}
	if len(got.Notes) != len(images) || !strings.Contains(got.Notes[0], "is damaged: bzImage differs from what was written; it is made again") {
		t.Errorf("notes %q", got.Notes)
	}
}

// B53: a guest that cannot even be started is told at once, for every cell, as
// the infrastructure's failure.
func TestGuestCannotStart(t *testing.T) {
	p, err := testplans.Load("svcrdma-inline")
	if err != nil {
		t.Fatal(err)
	}
	rec, err := runfolder.Create(t.TempDir(), time.Now(), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	m := &matrix{run: rec, plan: p, accel: vm.TCG, step: view.New(nil).Start("matrix")}
	k := &guestKernel{role: testplans.RolePatched, image: filepath.Join(t.TempDir(), "bzImage")}
	cells := p.Cells()[2:5]
	out, err := m.runAll(context.Background(), k, cells)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		a := out[c.ID()]
		if a == nil || a.Verdict != checks.Infra || len(a.Findings) != 1 || a.Findings[0].ID != "infra" {
			t.Errorf("%s: %+v", c.ID(), a)
		}
	}
}

// gc leaves alone what another process works in, and locks, whose files must
// not go while somebody is about to take them.
func TestGCLeavesWhatIsInUse(t *testing.T) {
	b := newBed(t)
	if _, err := b.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	o := b.options()
	c, err := cache.Open(o.CacheDir)
	if err != nil {
		t.Fatal(err)
	}
	ents, err := os.ReadDir(c.Path("work"))
	if err != nil || len(ents) != 1 {
		t.Fatal(ents, err)
	}
	name := ents[0].Name()
	l, err := c.TryLock("work-" + name)
	if err != nil {
		t.Fatal(err)
	}
	gc := func() string {
		lines, err := GC(context.Background(), GCOptions{CacheDir: o.CacheDir, RunsDir: o.RunsDir, All: true})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines, "\n")
	}
	if out := gc(); !strings.Contains(out, "1 in use by another process") {
		t.Errorf("gc says\n%s", out)
	}
	if _, err := os.Stat(c.Path("work", name, "src")); err != nil {
		t.Error("a workspace in use was removed")
	}
	if left, _ := filepath.Glob(c.Path("kernels", "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	l.Close()
	gc()
	if _, err := os.Stat(c.Path("work", name)); err == nil {
		t.Error("the workspace is still there")
	}
	if _, err := os.Stat(c.Path("locks", "work-"+name+".lock")); err != nil {
		t.Error("the lock's file was removed")
	}
}

func TestTemporaryFolder(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	dead := filepath.Join(tmp, tempPrefix+"dead")
	alien := filepath.Join(tmp, "notes")
	for _, d := range []string{dead, alien} {
		if err := os.MkdirAll(filepath.Join(d, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	living, held, err := cache.TempDir(tmp, tempPrefix)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	leave, err := (&runner{}).enter()
	if err != nil {
		t.Fatal(err)
	}
	again, err := (&runner{}).enter() // another run of this process
	if err != nil {
		t.Fatal(err)
	}
	own := os.TempDir()
	if filepath.Dir(own) != tmp {
		t.Errorf("temporary files go to %s", own)
	}
	leave()
	if os.TempDir() != own {
		t.Error("the folder is gone while a run uses it")
	}
	again()
	for p, want := range map[string]bool{dead: false, alien: true, living: true, own: false} {
		if _, err := os.Stat(p); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", p, err == nil, want)
		}
	}
	if os.TempDir() != tmp {
		t.Errorf("TMPDIR is %s afterwards", os.TempDir())
	}
}
