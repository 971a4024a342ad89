// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"patchcheck/internal/cache"
	kernelconfigs "patchcheck/kernel-configs"
)

// killEnv makes the test binary build one state of a fake tree and exit:
// "CACHE TREE STATE".
const killEnv = "PATCHCHECK_TEST_BUILD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(killEnv); spec != "" {
		f := strings.Fields(spec)
		if err := buildState(f[0], f[1], f[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// states are overlays that a killed run may be switching between.
var states = map[string]mapOverlay{
	"base":   nil,
	"warns":  {"net/b.c": warns, "net/new.c": "static int nobody;\nint new_one;\n"},
	"header": {"include/shared.h": header, "net/c.c": gone},
}

func stateRequest(c *cache.Cache, dir, state string) (Request, error) {
	tree, err := Resolve(context.Background(), c, dir, TreeOptions{})
	if err != nil {
		return Request{}, err
	}
	fr, err := kernelconfigs.Parse("test", "CONFIG_WANTED=y\n")
	if err != nil {
		return Request{}, err
	}
	m, err := kernelconfigs.Merge(fr)
	if err != nil {
		return Request{}, err
	}
	return Request{Tree: tree, Config: Config{Fragments: m}, Overlay: states[state].overlay(tree), Role: Patched, W: "1", Fresh: true}, nil
}

func buildState(root, dir, state string) error {
	c, err := cache.Open(root)
	if err != nil {
		return err
	}
	r, err := stateRequest(c, dir, state)
	if err != nil {
		return err
	}
	_, err = (&Store{Cache: c, Jobs: 2}).Kernel(context.Background(), r)
	return err
}

// TestKillNine kills a process that builds, with SIGKILL and at many points,
// while it switches between states; the next build that is left alone gives
// the very ledger and image of a clean one.
func TestKillNine(t *testing.T) {
	dir := copyTree(t)
	root := filepath.Join(t.TempDir(), "cache")
	want := map[string]*Kernel{}
	wantLed := map[string]Ledger{}
	for s := range states {
		c, err := cache.Open(filepath.Join(t.TempDir(), "clean"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := stateRequest(c, dir, s)
		if err != nil {
			t.Fatal(err)
		}
		k, err := (&Store{Cache: c, Jobs: 2}).Kernel(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		want[s] = k
		if wantLed[s], err = k.Ledger(); err != nil {
			t.Fatal(err)
		}
	}
	order := []string{"base", "warns", "header"}
	for i := range 12 {
		state := order[i%len(order)]
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", killEnv, root, dir, state))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Spread over the whole of a build, which takes a few tenths of a second.
		time.Sleep(time.Duration(20+i*45) * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
		if i%4 != 3 {
			continue
		}
		check := order[(i/4)%len(order)]
		if err := buildState(root, dir, check); err != nil {
			t.Fatalf("after %d kills: %v", i+1, err)
		}
		c, err := cache.Open(root)
		if err != nil {
			t.Fatal(err)
		}
		r, err := stateRequest(c, dir, check)
		if err != nil {
			t.Fatal(err)
		}
		k, err := (&Store{Cache: c}).Lookup(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		led, err := k.Ledger()
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(led, wantLed[check]) {
			t.Errorf("after %d kills the ledger of %s is\n%v\nwant\n%v", i+1, check, led, wantLed[check])
		}
		if k.ImageSHA != want[check].ImageSHA {
			t.Errorf("after %d kills the image of %s differs from a clean build's", i+1, check)
		}
		if left, _ := filepath.Glob(filepath.Join(root, "*", ".tmp-*")); len(left) != 0 {
			t.Errorf("left over: %v", left)
		}
	}
}

// BenchmarkReuse is what a kernel costs that is in the cache.
func BenchmarkReuse(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "linux")
	if err := os.CopyFS(dir, os.DirFS("testdata/tree")); err != nil {
		b.Fatal(err)
	}
	root := filepath.Join(b.TempDir(), "cache")
	if err := buildState(root, dir, "base"); err != nil {
		b.Fatal(err)
	}
	c, err := cache.Open(root)
	if err != nil {
		b.Fatal(err)
	}
	r, err := stateRequest(c, dir, "base")
	if err != nil {
		b.Fatal(err)
	}
	r.Fresh = false
	s := &Store{Cache: c}
	for b.Loop() {
		if k, err := s.Kernel(context.Background(), r); err != nil || !k.Reused {
			b.Fatal("not reused", err)
		}
	}
}
