// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inNamespace runs the calling test again in a mount namespace of its own,
// where it may mount what it likes, and returns true there. The mounts end with
// the process.
func inNamespace(t *testing.T) bool {
	t.Helper()
	const env = "PATCHCHECK_TEST_NAMESPACE"
	if os.Getenv(env) == t.Name() {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), env+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Skipf("this host lets us have no mount namespace: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "--- PASS: "+t.Name()) {
		t.Fatalf("the test did not run:\n%s", out.String())
	}
	return false
}

func TestFullDisk(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	root := filepath.Join(t.TempDir(), "c")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(root, unix.MNT_DETACH)
	c, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put("kernels", "small", fill("f", "text")); err != nil {
		t.Fatal(err)
	}
	var full *FullError
	_, err = c.Put("kernels", "big", fill("f", strings.Repeat("x", 1<<20)))
	if !errors.As(err, &full) || !strings.Contains(err.Error(), "no space left for the cache in "+root) || !strings.Contains(err.Error(), "patchcheck gc") {
		t.Errorf("got %v", err)
	}
	if err := WriteFile(c.Path("accel.json"), make([]byte, 1<<20), 0o644); !errors.As(err, &full) {
		t.Errorf("got %v", err)
	}
	// Nothing of the failed ones is left, and what was there is whole.
	for _, pattern := range []string{".new-*", "kernels/.tmp-*", "kernels/big"} {
		if left, _ := filepath.Glob(c.Path(pattern)); len(left) > 0 {
			t.Errorf("left over: %v", left)
		}
	}
	if _, err := c.Lookup("kernels", "small"); err != nil {
		t.Error(err)
	}
}

func TestReadOnlyCache(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	c := open(t)
	if _, err := c.Put("kernels", "k", fill("f", "text")); err != nil {
		t.Fatal(err)
	}
	root := c.Root()
	for _, flags := range []uintptr{unix.MS_BIND, unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY} {
		if err := unix.Mount(root, root, "", flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	defer unix.Unmount(root, unix.MNT_DETACH)
	c, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Lookup("kernels", "k"); err != nil {
		t.Errorf("what is there cannot be used: %v", err)
	}
	var ro *ReadOnlyError
	for what, err := range map[string]error{
		"Put":       func() error { _, err := c.Put("kernels", "other", fill("f", "x")); return err }(),
		"WriteFile": WriteFile(c.Path("accel.json"), nil, 0o644),
		"TryLock":   func() error { _, err := c.TryLock("l"); return err }(),
	} {
		if !errors.As(err, &ro) || !strings.Contains(err.Error(), "cannot be written") || !strings.Contains(err.Error(), "PATCHCHECK_CACHE") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// A limit on file sizes (ulimit -f) is an error like a full disk, no crash.
func TestFileSizeLimit(t *testing.T) {
	const env = "PATCHCHECK_TEST_FSIZE"
	if dir := os.Getenv(env); dir != "" {
		signal.Notify(make(chan os.Signal, 1), unix.SIGXFSZ)
		c, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 4096, Max: 4096}); err != nil {
			t.Fatal(err)
		}
		_, err = c.Put("kernels", "k", fill("f", strings.Repeat("x", 100<<10)))
		var full *FullError
		if !errors.As(err, &full) || !strings.Contains(err.Error(), "ulimit -f") {
			t.Fatalf("got %v", err)
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFileSizeLimit$")
	cmd.Env = append(os.Environ(), env+"="+filepath.Join(t.TempDir(), "c"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestLayout(t *testing.T) {
	newCache := func(t *testing.T) *Cache {
		c := open(t)
		if _, err := c.Put("kernels", "k", fill("f", "text")); err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Run("from before there were versions", func(t *testing.T) {
		c := newCache(t)
		os.Remove(c.Path(layoutName))
		c, err := Open(c.Root())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Lookup("kernels", "k"); err != nil {
			t.Error(err)
		}
		if n, err := c.layout(); n != layoutVersion || err != nil {
			t.Errorf("layout %d, %v", n, err)
		}
	})
	t.Run("older", func(t *testing.T) {
		c := newCache(t)
		os.WriteFile(c.Path("mine"), []byte("x"), 0o644)
		if err := c.checkLayout(layoutVersion + 1); err != nil {
			t.Fatal(err)
		}
		if n := c.Notices(); len(n) != 1 || !strings.Contains(n[0], "older layout 1") || !strings.Contains(n[0], "made anew") {
			t.Errorf("notices %q", n)
		}
		if _, err := c.Lookup("kernels", "k"); !errors.Is(err, ErrAbsent) {
			t.Errorf("an entry of the older layout is still used: %v", err)
		}
		if _, err := os.Stat(c.Path("mine")); err != nil {
			t.Error("what is not ours was removed")
		}
	})
	t.Run("newer", func(t *testing.T) {
		c := newCache(t)
		os.WriteFile(c.Path(layoutName), fmt.Appendf(nil, "%s%d\n", layoutHead, layoutVersion+1), 0o644)
		if _, err := Open(c.Root()); err == nil || !strings.Contains(err.Error(), "a newer patchcheck made it") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no cache at all", func(t *testing.T) {
		dir := t.TempDir()
		os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o644)
		os.MkdirAll(filepath.Join(dir, "work", tmpPrefix+"mine"), 0o755)
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "thesis.tex") {
			t.Errorf("got %v", err)
		}
		if _, err := os.Stat(filepath.Join(dir, "work", tmpPrefix+"mine")); err != nil {
			t.Error("a folder was swept in a place that is not ours")
		}
	})
	t.Run("nonsense", func(t *testing.T) {
		c := newCache(t)
		os.WriteFile(c.Path(layoutName), []byte("what"), 0o644)
		if _, err := Open(c.Root()); err == nil || !strings.Contains(err.Error(), "no layout") {
			t.Errorf("got %v", err)
		}
	})
}

// A power cut loses the content of files whose names are there already.
func TestLightEntryAfterPowerCut(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(dir string) error
	}{
		{"a file is gone", func(dir string) error { return os.Remove(filepath.Join(dir, "sub/f")) }},
		{"a file is empty", func(dir string) error { return os.Truncate(filepath.Join(dir, "sub/f"), 0) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			ca := open(t)
			dir, err := ca.Put("trees", "k", fill("f", "text"), Light)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ca.Lookup("trees", "k"); err != nil {
				t.Fatal(err)
			}
			// Another boot than the one in which it was checked.
			os.WriteFile(filepath.Join(dir, checkedName), []byte("an earlier boot\n"), 0o644)
			if _, err := ca.Lookup("trees", "k"); err != nil {
				t.Fatalf("a whole entry: %v", err)
			}
			os.WriteFile(filepath.Join(dir, checkedName), []byte("an earlier boot\n"), 0o644)
			if err := c.damage(dir); err != nil {
				t.Fatal(err)
			}
			said := ""
			ca.Notice = func(l string) { said = l }
			var damaged *DamagedError
			if _, err := ca.Lookup("trees", "k"); !errors.As(err, &damaged) {
				t.Errorf("got %v", err)
			}
			if !strings.Contains(said, dir+" is damaged") || !strings.Contains(said, "made again") {
				t.Errorf("said %q", said)
			}
			if _, err := ca.Put("trees", "k", fill("f", "text"), Light); err != nil {
				t.Fatal(err)
			}
			if _, err := ca.Lookup("trees", "k"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSweepKnowsTheLiving(t *testing.T) {
	c := open(t)
	for _, d := range []string{"cells", "work/x", "tmp/image-dead"} {
		os.MkdirAll(c.Path(d), 0o755)
	}
	// Of the dead.
	dead := []string{".new-1", "cells/.new-1", "work/x/.new-1", "tmp/image-dead"}
	for _, f := range dead[:3] {
		os.WriteFile(c.Path(f), []byte("half"), 0o644)
	}
	old := time.Now().Add(-time.Hour)
	os.Chtimes(c.Path("tmp/image-dead"), old, old)
	// Of the living: this process.
	f, err := os.Create(c.Path("cells/.new-2"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := flock(f, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	dir, held, err := TempDir(c.Path("cells"), tmpPrefix)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	builder, err := c.TryLock("image-base")
	if err != nil {
		t.Fatal(err)
	}
	c.Sweep()
	for _, p := range dead[:3] {
		if _, err := os.Lstat(c.Path(p)); err == nil {
			t.Errorf("%s is still there", p)
		}
	}
	for _, p := range []string{c.Path("cells/.new-2"), dir, c.Path("tmp/image-dead")} {
		if _, err := os.Lstat(p); err != nil {
			t.Errorf("%s of a living process was swept up", p)
		}
	}
	builder.Close()
	c.Sweep()
	if _, err := os.Lstat(c.Path("tmp/image-dead")); err == nil {
		t.Error("what a dead image builder left is still there")
	}
}

// Two that write one file while a third sweeps: every write succeeds.
func TestWriteFileAgainstSweep(t *testing.T) {
	c := open(t)
	stop, swept := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(swept)
		for {
			select {
			case <-stop:
				return
			default:
				c.Sweep()
			}
		}
	}()
	for i := range 200 {
		if err := WriteFile(c.Path("accel.json"), fmt.Append(nil, i), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-swept
}

func TestHolder(t *testing.T) {
	now := time.Now()
	for s, want := range map[string]string{
		"":                                 "another patchcheck",
		"12\n":                             "patchcheck with process id 12",
		fmt.Sprintf("12 %d\n", now.Unix()): "patchcheck with process id 12 (since " + now.Format("15:04:05") + ")",
		"12 86400\n":                       "patchcheck with process id 12 (since " + time.Unix(86400, 0).Format("2006-01-02 15:04") + ")",
	} {
		if got := holder(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}
