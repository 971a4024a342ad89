// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"patchcheck/vm/initramfs"
)

func TestMerged(t *testing.T) {
	for in, want := range map[string]string{
		"./bin/busybox":               "usr/bin/busybox",
		"/lib64/ld-linux-x86-64.so.2": "usr/lib64/ld-linux-x86-64.so.2",
		"usr/sbin/rpc.nfsd":           "usr/sbin/rpc.nfsd",
		"etc/rpc":                     "etc/rpc",
		"library/x":                   "library/x",
		"../../etc/passwd":            "etc/passwd",
	} {
		if got := merged(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// packages makes the unpacked form of two packages.
func packages(t *testing.T) *source {
	t.Helper()
	root := t.TempDir()
	put := func(name, text string, mode fs.FileMode) {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	put("tool/bin/tool", "#!/bin/sh\n", 0o4755)
	put("tool/usr/share/doc/x", "doc", 0o644)
	put("lib/lib/x86_64-linux-gnu/libx.so.1.2", "data", 0o600)
	for link, target := range map[string]string{
		"tool/sbin/alias":                        "../bin/tool",
		"tool/usr/bin/absolute":                  "/bin/tool",
		"tool/usr/bin/dangling":                  "gone",
		"lib/usr/lib/x86_64-linux-gnu/libx.so.1": "/lib/x86_64-linux-gnu/libx.so.1.2",
	} {
		p := filepath.Join(root, link)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, p); err != nil {
			t.Fatal(err)
		}
	}
	src := newSource(root)
	for _, pkg := range []string{"tool", "lib"} {
		if err := src.add(pkg, filepath.Join(root, pkg)); err != nil {
			t.Fatal(err)
		}
	}
	return src
}

func TestPick(t *testing.T) {
	src := packages(t)
	p := picker{src: src, tree: initramfs.Tree{}, have: map[string]bool{"usr/bin/have": true}, used: map[string]bool{}}
	for _, f := range []string{"sbin/alias", "usr/bin/absolute", "usr/lib/x86_64-linux-gnu/libx*", "bin/have"} {
		if err := p.glob(f); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"usr/sbin/alias":                       "-> ../bin/tool",
		"usr/bin/absolute":                     "-> /bin/tool",
		"usr/bin/tool":                         "#!/bin/sh\n",
		"usr/lib/x86_64-linux-gnu/libx.so.1":   "-> /lib/x86_64-linux-gnu/libx.so.1.2",
		"usr/lib/x86_64-linux-gnu/libx.so.1.2": "data",
	} {
		e, ok := p.tree[name]
		got := string(e.Data)
		if e.Target != "" {
			got = "-> " + e.Target
		}
		if !ok || got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if len(p.tree) != 5 {
		t.Errorf("%d files: %v", len(p.tree), p.tree)
	}
	if m := p.tree["usr/bin/tool"].Mode; m != 0o755 {
		t.Errorf("mode %v: set-uid has no business here", m)
	}
	if m := p.tree["usr/lib/x86_64-linux-gnu/libx.so.1.2"].Mode; m&0o444 != 0o444 {
		t.Errorf("mode %v: nobody but root could read it", m)
	}
	if !p.used["tool"] || !p.used["lib"] {
		t.Errorf("used %v", p.used)
	}
	for _, bad := range []string{"usr/bin/dangling", "usr/bin/none", "usr/none*"} {
		if err := p.glob(bad); err == nil || !strings.Contains(err.Error(), "no package holds") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A program's libraries come along; one that is missing is named.
func TestLibraries(t *testing.T) {
	sh, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	e, err := elf.Open(sh)
	if err != nil {
		t.Skip(err)
	}
	libs, _ := e.ImportedLibraries()
	e.Close()
	if len(libs) == 0 {
		t.Skip("the host's shell is static")
	}
	data, err := os.ReadFile(sh)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	put := func(name string, b []byte) {
		p := filepath.Join(root, "p", name)
		os.MkdirAll(filepath.Dir(p), 0o755)
		if err := os.WriteFile(p, b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put("bin/sh", data)
	put("lib64/ld-linux-x86-64.so.2", []byte("linker"))
	take := func() (picker, error) {
		src := newSource(root)
		if err := src.add("p", filepath.Join(root, "p")); err != nil {
			t.Fatal(err)
		}
		p := picker{src: src, tree: initramfs.Tree{}, have: map[string]bool{}, used: map[string]bool{}}
		return p, p.glob("bin/sh")
	}
	if _, err := take(); err == nil || !strings.Contains(err.Error(), libs[0]) || !strings.Contains(err.Error(), "/usr/bin/sh needs") {
		t.Errorf("a missing library: %v", err)
	}
	for _, l := range libs {
		put("usr/lib/x86_64-linux-gnu/"+l, []byte("library"))
	}
	p, err := take()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range append(libs, "../../lib64/ld-linux-x86-64.so.2") {
		if _, ok := p.tree[merged("usr/lib/x86_64-linux-gnu/"+l)]; !ok && !strings.Contains(l, "ld-linux") {
			t.Errorf("%s is missing", l)
		}
	}
	if _, ok := p.tree["usr/lib64/ld-linux-x86-64.so.2"]; !ok {
		t.Error("the dynamic linker is missing")
	}
}

func TestFindAgent(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(AgentEnv, filepath.Join(dir, "none"))
	_, err := FindAgent()
	var na *NoAgentError
	if !errors.As(err, &na) || !strings.Contains(err.Error(), AgentEnv) {
		t.Errorf("got %v", err)
	}
	script := filepath.Join(dir, "script")
	os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755)
	t.Setenv(AgentEnv, script)
	if _, err := FindAgent(); err == nil || !strings.Contains(err.Error(), "is no ELF program") {
		t.Errorf("got %v", err)
	}
	// Not beside the test binary, and said so with the way out.
	t.Setenv(AgentEnv, "")
	if _, err := FindAgent(); err == nil || !strings.Contains(err.Error(), "go build ./cmd/patchcheck-guest") {
		t.Errorf("got %v", err)
	}
	if sh, err := exec.LookPath("sh"); err == nil {
		if e, err := elf.Open(sh); err == nil {
			if libs, _ := e.ImportedLibraries(); len(libs) > 0 {
				t.Setenv(AgentEnv, sh)
				if _, err := FindAgent(); err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
					t.Errorf("a dynamic program: %v", err)
				}
			}
			e.Close()
		}
	}
}

func TestUnknownLayer(t *testing.T) {
	_, err := Build(context.Background(), Options{CacheDir: t.TempDir(), Layers: []string{"doom"}})
	if err == nil || !strings.Contains(err.Error(), "there are fio, rdma") {
		t.Errorf("got %v", err)
	}
}

func TestLayerKey(t *testing.T) {
	r := base
	if r.key(nil) != base.key(nil) {
		t.Error("the key of one recipe differs")
	}
	r.Settings = map[string]string{"etc/x": "y"}
	if r.key(nil) == base.key(nil) || base.key([]layer{{SHA256: "a"}}) == base.key(nil) {
		t.Error("the key does not tell recipes or what lies below apart")
	}
}
