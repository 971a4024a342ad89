// SPDX-License-Identifier: Apache-2.0

//go:build integration

package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchcheck/checks"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

// scene is where the real patchcheck is killed: a cache of its own with the
// base kernel, its objects and the image in it, but without the patched
// kernels, so that a run lints, applies, builds, boots and runs two cells.
type scene struct {
	t     *testing.T
	dir   string
	cache string   // as patchcheck sees it
	files string   // where its files are
	wrap  []string // what runs patchcheck there
	keep  map[string]bool
}

func command(t *testing.T, argv ...string) {
	t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
}

// newScene makes the cache. Objects record the path they were made at, so the
// copy has to be seen at the path of the original: in a mount namespace. Where
// that cannot be had, the patched kernels stay and nothing is compiled.
func newScene(t *testing.T) *scene {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(e2eCache), "patchcheck-kill-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { command(t, "rm", "-rf", dir) })
	s := &scene{t: t, dir: dir, files: filepath.Join(dir, "cache"), keep: map[string]bool{}}
	for _, d := range []string{"cache/work", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command(t, "go", "build", "-o", filepath.Join(dir, "patchcheck"), "../../cmd/patchcheck")
	command(t, "cp", e2eAgent, filepath.Join(dir, "patchcheck-guest"))

	// The base kernel and its workspace, by a run that only builds. In the real
	// cache: a first build takes long, and it is what every other test needs, too.
	o := options(t)
	o.BuildOnly = true
	ref := mustRun(t, o)
	for _, d := range []string{"kernels", "images", "trees"} {
		command(t, "cp", "-al", filepath.Join(e2eCache, d), s.files)
	}
	for _, d := range []string{"debian", "scripts", "kerneldoc", "accel.json", "layout"} {
		if _, err := os.Stat(filepath.Join(e2eCache, d)); err == nil {
			command(t, "cp", "-a", filepath.Join(e2eCache, d), s.files)
		}
	}
	ns := []string{"unshare", "--mount", "--propagation", "private"}
	if os.Getuid() != 0 {
		ns = append(ns, "--user", "--map-root-user")
	}
	ns = append(ns, "sh", "-c", `mount --bind "$0" "$1" && shift && exec "$@"`, s.files, e2eCache)
	if out, err := exec.Command(ns[0], append(ns[1:], "true")...).CombinedOutput(); err != nil {
		t.Logf("no mount namespace on this host (%v: %s): kills while something is compiled are left to TestKillAnywhere", err, bytes.TrimSpace(out))
		s.cache = s.files
	} else {
		s.cache, s.wrap = e2eCache, ns
		b, err := os.ReadFile(filepath.Join(e2eCache, "kernels", ref.Kernels[testplans.RoleBase].Key, "kernel.json"))
		if err != nil {
			t.Fatal(err)
		}
		var k struct{ Argv []string }
		if err := json.Unmarshal(b, &k); err != nil {
			t.Fatal(err)
		}
		for _, a := range k.Argv {
			obj, ok := strings.CutPrefix(a, "O=")
			if !ok {
				continue
			}
			from := filepath.Dir(obj)
			to := filepath.Join(s.files, "work", filepath.Base(from))
			if err := os.Mkdir(to, 0o755); err != nil {
				t.Fatal(err)
			}
			ents, err := os.ReadDir(from)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range ents {
				how := "-a"
				if e.Name() == "src" {
					how = "-al" // its files are only ever replaced
				}
				command(t, "cp", how, filepath.Join(from, e.Name()), to)
			}
		}
		// Patched kernels go, so that they are built.
		ents, err := os.ReadDir(filepath.Join(s.files, "kernels"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range ents {
			if e.Name() != ref.Kernels[testplans.RoleBase].Key {
				command(t, "rm", "-rf", filepath.Join(s.files, "kernels", e.Name()))
			}
		}
	}
	ents, err := os.ReadDir(filepath.Join(s.files, "kernels"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range ents {
		s.keep[e.Name()] = true
	}
	return s
}

// reset takes away what runs have added.
func (s *scene) reset() {
	s.t.Helper()
	ents, err := os.ReadDir(filepath.Join(s.files, "kernels"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range ents {
		if !s.keep[e.Name()] {
			command(s.t, "rm", "-rf", filepath.Join(s.files, "kernels", e.Name()))
		}
	}
	command(s.t, "rm", "-rf", filepath.Join(s.files, "cells"))
}

// start runs patchcheck with a command line.
func (s *scene) start(out *bytes.Buffer, args ...string) *exec.Cmd {
	s.t.Helper()
	argv := append(append([]string{}, s.wrap...), filepath.Join(s.dir, "patchcheck"))
	argv = append(append(argv, args...), "--cache", s.cache)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Join(s.dir, "tmp"))
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	return cmd
}

// living lists the processes below this one that are no zombies. This process
// is a subreaper, so whoever patchcheck left behind is below it.
func living(pid int) (out []string) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range tasks {
		b, _ := os.ReadFile(f)
		for _, w := range strings.Fields(string(b)) {
			n, _ := strconv.Atoi(w)
			st, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n))
			if err != nil {
				continue
			}
			if i := strings.LastIndex(string(st), ") "); i >= 0 && st[i+2] != 'Z' {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", n))
				out = append(out, fmt.Sprintf("%d %s", n, bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
			}
			out = append(out, living(n)...)
		}
	}
	return out
}

func mounts(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// table is what a run answers with: verdicts and figures of cells.
func table(r *runfolder.Run) map[string]string {
	out := map[string]string{}
	for _, c := range r.Cells {
		b, _ := json.Marshal(c.Last().Values)
		out[c.ID] = fmt.Sprintf("%s final=%v %s", c.Verdict, c.Final, b)
	}
	return out
}

// TestKillTheRealOne kills the real patchcheck at random points of real runs,
// one in each part of a run's time; nothing that it started may be left, and
// the resumed run must say what an undisturbed one says.
//
// PATCHCHECK_KILLS is the number of points (default 3), PATCHCHECK_TEST_SEED
// repeats a test.
func TestKillTheRealOne(t *testing.T) {
	points := 3
	if s := os.Getenv("PATCHCHECK_KILLS"); s != "" {
		var err error
		if points, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	rnd := killSeed(t)
	s := newScene(t)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	own := len(living(os.Getpid())) // the guard of this process
	args := func(runs string) []string {
		return []string{"run", "--tree", "debian:linux-source-7.3", "--device", "none", "--nfs", "3", "--out", runs}
	}

	var out bytes.Buffer
	calm := filepath.Join(s.dir, "runs-calm")
	begin := time.Now()
	if err := s.start(&out, args(calm)...).Wait(); err != nil {
		t.Fatalf("the undisturbed run: %v\n%s", err, out.String())
	}
	whole := time.Since(begin)
	t.Logf("undisturbed, %v:\n%s", whole.Round(time.Second), out.String())
	ref := onlyRun(t, calm)
	if ref.Verdict != checks.Pass {
		t.Fatalf("verdict %s: %s", ref.Verdict, ref.Reason)
	}
	want, wantTable := outcomeOf(ref), table(ref)
	before := mounts(t)

	for i := range points {
		s.reset()
		runs := filepath.Join(s.dir, fmt.Sprintf("runs-%d", i))
		at := time.Duration((float64(i) + rnd.Float64()) / float64(points) * float64(whole))
		out.Reset()
		cmd := s.start(&out, args(runs)...)
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		ended := false
		select {
		case <-time.After(at):
			cmd.Process.Kill()
			<-done
		case <-done:
			ended = true // faster than the reference
		}
		where := strings.TrimSpace(out.String())
		if j := strings.LastIndexByte(where, '\n'); j >= 0 {
			where = where[j+1:]
		}
		t.Logf("point %d: killed after %v, behind %.60q", i, at.Round(time.Millisecond), where)
		deadline := time.Now().Add(30 * time.Second)
		for len(living(os.Getpid())) > own && time.Now().Before(deadline) {
			time.Sleep(50 * time.Millisecond)
		}
		if left := living(os.Getpid()); len(left) > own {
			t.Errorf("point %d: still there after the kill:\n%s", i, strings.Join(left, "\n"))
		}
		if after := mounts(t); after != before {
			t.Errorf("point %d: mounts after the kill:\n%s\nbefore:\n%s", i, after, before)
		}
		if !ended {
			again := []string{"run", "--resume", "--out", runs}
			if dirs, _ := runfolder.List(runs); len(dirs) == 0 {
				again = args(runs) // killed before there was anything to go on with
			} else if r, err := runfolder.Open(dirs[0]); err == nil && r.Finished() {
				again = nil
			}
			out.Reset()
			if again != nil {
				if err := s.start(&out, again...).Wait(); err != nil {
					t.Errorf("point %d: resumed: %v\n%s", i, err, out.String())
					continue
				}
			}
		}
		got := onlyRun(t, runs)
		if o := outcomeOf(got); !reflect.DeepEqual(o, want) {
			t.Errorf("point %d: got\n%+v\nwant\n%+v", i, o, want)
		}
		if tab := table(got); !reflect.DeepEqual(tab, wantTable) {
			t.Errorf("point %d: the table is\n%v\nwant\n%v", i, tab, wantTable)
		}
		for _, pattern := range []string{"tmp/*", "cache/*/.tmp-*", "cache/.new-*", "cache/*/.new-*", "cache/*/*/.new-*", "runs-*/*/.new-*", "runs-*/*/*/.new-*"} {
			if left, _ := filepath.Glob(filepath.Join(s.dir, pattern)); len(left) > 0 {
				t.Errorf("point %d: left over: %v", i, left)
			}
		}
		os.RemoveAll(runs)
	}
}

// onlyRun opens the one run folder below parent that has a record.
func onlyRun(t *testing.T, parent string) *runfolder.Run {
	t.Helper()
	dirs, err := runfolder.List(parent)
	if err != nil || len(dirs) != 1 {
		t.Fatalf("%v, %v: want one run", dirs, err)
	}
	r, err := runfolder.Open(dirs[0])
	if err != nil {
		t.Fatal(err)
	}
	return r
}
