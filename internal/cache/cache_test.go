// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func open(t *testing.T) *Cache {
	t.Helper()
	c, err := Open(filepath.Join(t.TempDir(), "c"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func fill(name, text string) func(string) error {
	return func(dir string) error {
		if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "sub", name), []byte(text), 0o644)
	}
}

func TestPutAndLookup(t *testing.T) {
	c := open(t)
	if _, err := c.Lookup("kernels", "k"); !errors.Is(err, ErrAbsent) {
		t.Errorf("got %v, want ErrAbsent", err)
	}
	dir, err := c.Put("kernels", "k", fill("f", "text"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Lookup("kernels", "k")
	if err != nil || got != dir {
		t.Fatalf("got %q, %v", got, err)
	}
	// A second writer finds the entry of the first and keeps it.
	if _, err := c.Put("kernels", "k", fill("f", "other")); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "sub/f")); string(b) != "text" {
		t.Errorf("a valid entry was replaced: %q", b)
	}
	// Files that come later are not part of what is checked.
	os.WriteFile(filepath.Join(dir, "extra"), nil, 0o644)
	if _, err := c.Lookup("kernels", "k"); err != nil {
		t.Error(err)
	}
}

func TestDamage(t *testing.T) {
	for name, harm := range map[string]func(string){
		"byte flipped": func(d string) { os.WriteFile(filepath.Join(d, "sub/f"), []byte("tExt"), 0o644) },
		"cut short":    func(d string) { os.Truncate(filepath.Join(d, "sub/f"), 1) },
		"emptied":      func(d string) { os.Truncate(filepath.Join(d, "sub/f"), 0) },
		"removed":      func(d string) { os.Remove(filepath.Join(d, "sub/f")) },
		"mark emptied": func(d string) { os.Truncate(filepath.Join(d, MarkName), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t)
			dir, err := c.Put("kernels", "k", fill("f", "text"))
			if err != nil {
				t.Fatal(err)
			}
			harm(dir)
			var de *DamagedError
			if _, err := c.Lookup("kernels", "k"); !errors.As(err, &de) {
				t.Errorf("got %v, want a DamagedError", err)
			}
			if _, err := c.Put("kernels", "k", fill("f", "text")); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Lookup("kernels", "k"); err != nil {
				t.Errorf("after it was put again: %v", err)
			}
		})
	}
}

func TestFailedFillLeavesNothing(t *testing.T) {
	c := open(t)
	boom := errors.New("boom")
	_, err := c.Put("kernels", "k", func(dir string) error {
		os.WriteFile(filepath.Join(dir, "half"), []byte("x"), 0o644)
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	if ents, _ := os.ReadDir(c.Path("kernels")); len(ents) != 0 {
		t.Errorf("left: %v", ents)
	}
	_, err = c.Put("kernels", "k", func(string) error { return &os.PathError{Op: "write", Path: "x", Err: unix.ENOSPC} })
	var full *FullError
	if !errors.As(err, &full) || !strings.Contains(err.Error(), "patchcheck gc") {
		t.Errorf("got %v, want a FullError that says what to do", err)
	}
}

func TestOtherVersionIsAbsent(t *testing.T) {
	c := open(t)
	dir, err := c.Put("kernels", "k", fill("f", "text"))
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(dir, MarkName), []byte(`{"version": 99}`), 0o644)
	if _, err := c.Lookup("kernels", "k"); !errors.Is(err, ErrAbsent) {
		t.Errorf("got %v, want ErrAbsent", err)
	}
}

// TestMain lets the tests start a second process that holds a lock or an
// unfinished entry, and can be killed.
func TestMain(m *testing.M) {
	if root := os.Getenv("PATCHCHECK_TEST_HOLD"); root != "" {
		c, err := Open(root)
		if err != nil {
			os.Exit(1)
		}
		l, err := c.Lock(context.Background(), "l", nil)
		if err != nil {
			os.Exit(1)
		}
		c.Put("kernels", "half", func(dir string) error {
			os.WriteFile(filepath.Join(dir, "x"), []byte("x"), 0o644)
			os.Stdout.WriteString("ready\n")
			// Until killed: a wait for nothing would be found to be a deadlock.
			_, err := os.Stdin.Read(make([]byte, 1))
			return err
		})
		l.Close() // a lock that nobody mentions any more is collected
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestKilledHolder(t *testing.T) {
	c := open(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PATCHCHECK_TEST_HOLD="+c.Root())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe() // stays open, so that the child waits
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 6)
	if _, err := out.Read(b); err != nil {
		t.Fatal(err)
	}
	if _, err := c.TryLock("l"); !errors.Is(err, ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
	told := ""
	ctx, cancel := context.WithCancel(context.Background())
	_, err = c.Lock(ctx, "l", func(h string) { told = h; cancel() })
	if !errors.Is(err, context.Canceled) || !strings.Contains(told, "process id") {
		t.Errorf("got %v, holder %q", err, told)
	}
	c.Sweep()
	if left, _ := filepath.Glob(c.Path("kernels", ".tmp-*")); len(left) != 1 {
		t.Errorf("an entry that is being written was swept up: %v", left)
	}
	cmd.Process.Kill()
	cmd.Wait()
	l, err := c.TryLock("l")
	if err != nil {
		t.Errorf("the lock outlived its holder: %v", err)
	}
	l.Close()
	c.Sweep()
	if left, _ := filepath.Glob(c.Path("kernels", ".tmp-*")); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestRemoveAndHold(t *testing.T) {
	c := open(t)
	if _, err := c.Put("kernels", "k", fill("f", "text")); err != nil {
		t.Fatal(err)
	}
	h, err := c.Hold("kernels", "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Remove("kernels", "k"); !errors.Is(err, ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
	h.Close()
	if err := c.Remove("kernels", "k"); err != nil {
		t.Error(err)
	}
	if err := c.Remove("kernels", "k"); err != nil {
		t.Errorf("removing what is not there: %v", err)
	}
}

func TestUsageCountsLinksOnce(t *testing.T) {
	c := open(t)
	big := strings.Repeat("x", 1<<20)
	a, err := c.Put("trees", "a", fill("f", big))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Put("trees", "b", func(dir string) error { return os.Link(filepath.Join(a, "sub/f"), filepath.Join(dir, "f")) })
	if err != nil {
		t.Fatal(err)
	}
	us, err := c.Usage()
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, u := range us {
		sum += u.Bytes
	}
	if len(us) != 2 || sum < 1<<20 || sum > 3<<19 {
		t.Errorf("got %d bytes in %v, want about one MiB", sum, us)
	}
}

func TestRootThatMakeCannotUse(t *testing.T) {
	for _, bad := range []string{"/tmp/a b", "/tmp/a:b", "/tmp/a#b", "/tmp/a$b"} {
		if _, err := Open(bad); err == nil || !strings.Contains(err.Error(), "PATCHCHECK_CACHE") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func TestReadOnlyCacheCanBeRead(t *testing.T) {
	c := open(t)
	if _, err := c.Put("kernels", "k", fill("f", "text")); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{c.Path("kernels"), c.Root()} {
		os.Chmod(d, 0o555)
		defer os.Chmod(d, 0o755)
	}
	ro, err := Open(c.Root())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ro.Lookup("kernels", "k"); err != nil {
		t.Error(err)
	}
}
