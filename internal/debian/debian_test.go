// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchcheck/internal/cache"
)

func TestPickMirrors(t *testing.T) {
	for name, c := range map[string]struct{ in, main, security string }{
		"plain":            {"http://m.example/debian|Debian|bookworm\nhttp://m.example/debian|Debian|bookworm-updates\nhttp://s.example/debian-security|Debian|bookworm-security\n", "http://m.example/debian", "http://s.example/debian-security"},
		"other vendors":    {"https://packages.example|Docker|bookworm\nhttp://m.example/debian|Debian|bookworm\n", "http://m.example/debian", ""},
		"security first":   {"http://s.example/debian-security|Debian|bookworm-security\nhttp://m.example/debian|Debian|bookworm\n", "http://m.example/debian", "http://s.example/debian-security"},
		"before update":    {"http://m.example/debian||bookworm\n", "http://m.example/debian", ""},
		"not Debian":       {"http://archive.example/ubuntu|Ubuntu|noble\n", "", ""},
		"nothing at all":   {"", "", ""},
		"unknown, no hint": {"http://m.example/apt||x\n", "", ""},
	} {
		main, sec := pickMirrors(c.in)
		if main != c.main || sec != c.security {
			t.Errorf("%s: got %q and %q", name, main, sec)
		}
	}
}

func TestParseURIs(t *testing.T) {
	out := "Reading package lists...\n'http://m/a_1%3a2.3-1_amd64.deb' a_1%3a2.3-1_amd64.deb 123 SHA256:" + strings.Repeat("ab", 32) + "\n'http://m/b' b_1_all.deb 5 MD5Sum:x\n"
	got, err := parseURIs(out)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Version != "1:2.3-1" || got[0].Size != 123 || got[0].SHA256 == "" || got[1].SHA256 != "" || got[0].file() != "a_1%3a2.3-1_amd64.deb" {
		t.Errorf("got %+v", got)
	}
	if _, err := parseURIs("nothing\n"); err == nil {
		t.Error("an empty answer was accepted")
	}
	if _, err := parseURIs("'http://m/x' ../../etc/passwd 5\n"); err == nil {
		t.Error("a file name that is a path was accepted")
	}
}

func TestNames(t *testing.T) {
	for _, bad := range []string{"", "-o", "a b", "../x", "A", "a;b", "a=--x y"} {
		if checkNames([]string{bad}) == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	for _, good := range []string{"linux-source-7.3", "libc6:amd64=2.36-9+deb12u4", "libstdc++6", "kmod/bookworm"} {
		if err := checkNames([]string{good}); err != nil {
			t.Error(err)
		}
	}
}

// mirror is a Debian mirror on this machine, so that everything but the
// signature is real.
type mirror struct {
	dir   string
	debs  map[string]bool // files of pool/ that the index names
	short bool            // cut downloads of packages short, once
	hits  []string
	tick  int // apt goes by the index's time, in seconds
}

func newMirror(t *testing.T, pkgs ...string) (*mirror, *Root) {
	t.Helper()
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("this test needs %s", tool)
		}
	}
	m := &mirror{dir: t.TempDir(), debs: map[string]bool{}}
	for _, p := range pkgs {
		m.add(t, p)
	}
	m.index(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.hits = append(m.hits, r.URL.Path)
		if m.short && strings.HasSuffix(r.URL.Path, ".deb") {
			m.short = false
			b, err := os.ReadFile(filepath.Join(m.dir, r.URL.Path))
			if err != nil {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(b)))
			w.Write(b[:len(b)/2])
			panic(http.ErrAbortHandler)
		}
		http.FileServer(http.Dir(m.dir)).ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	c, err := cache.Open(filepath.Join(t.TempDir(), "cache"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(MirrorEnv, srv.URL)
	r, err := Open(context.Background(), c, Options{Suites: []string{"test"}, Progress: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	r.trusted = true
	return m, r
}

// add builds "name_version[_dependency]" into the pool.
func (m *mirror) add(t *testing.T, spec string) {
	t.Helper()
	f := strings.Split(spec, "_")
	dir := t.TempDir()
	control := "Package: " + f[0] + "\nVersion: " + f[1] + "\nArchitecture: all\nMaintainer: T <t@example.org>\nDescription: test\n"
	if len(f) > 2 {
		control += "Depends: " + f[2] + "\n"
	}
	for name, text := range map[string]string{"DEBIAN/control": control, "usr/share/" + f[0] + "/file": f[1] + "\n"} {
		os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	os.MkdirAll(filepath.Join(m.dir, "pool"), 0o755)
	deb := f[0] + "_" + f[1] + "_all.deb"
	if out, err := exec.Command("dpkg-deb", "--root-owner-group", "-b", dir, filepath.Join(m.dir, "pool", deb)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m.debs[deb] = true
}

// index writes Packages and Release.
func (m *mirror) index(t *testing.T) {
	t.Helper()
	var b strings.Builder
	for deb := range m.debs {
		p := filepath.Join(m.dir, "pool", deb)
		control, err := exec.Command("dpkg-deb", "-f", p).Output()
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%sFilename: pool/%s\nSize: %d\nSHA256: %x\n\n", control, deb, len(data), sha256.Sum256(data))
	}
	dir := filepath.Join(m.dir, "dists/test")
	os.MkdirAll(filepath.Join(dir, "main/binary-amd64"), 0o755)
	pk := b.String()
	m.tick++
	when := time.Now().UTC().Add(time.Duration(m.tick-100) * time.Second)
	rel := fmt.Sprintf("Origin: Debian\nSuite: test\nCodename: test\nArchitectures: amd64 all\nComponents: main\nDate: %s\nSHA256:\n %x %d main/binary-amd64/Packages\n",
		when.Format(time.RFC1123), sha256.Sum256([]byte(pk)), len(pk))
	for name, text := range map[string]string{"main/binary-amd64/Packages": pk, "Release": rel} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		os.Chtimes(filepath.Join(dir, name), when, when)
	}
}

func names(ps []Package) string {
	var s []string
	for _, p := range ps {
		s = append(s, p.Name+"="+p.Version)
	}
	return strings.Join(s, " ")
}

func TestMirror(t *testing.T) {
	m, r := newMirror(t, "tool_1.0_lib", "lib_2:3-1", "other_1")
	ctx := context.Background()
	one, err := r.Download(ctx, false, "tool")
	if err != nil {
		t.Fatal(err)
	}
	if names(one) != "tool=1.0" {
		t.Errorf("without closure: %s", names(one))
	}
	all, err := r.Download(ctx, true, "tool")
	if err != nil {
		t.Fatal(err)
	}
	if names(all) != "lib=2:3-1 tool=1.0" {
		t.Errorf("with closure: %s", names(all))
	}
	dir := t.TempDir()
	for _, p := range all {
		if err := Extract(ctx, p, dir); err != nil {
			t.Fatal(err)
		}
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "usr/share/lib/file")); string(b) != "2:3-1\n" {
		t.Errorf("extracted %q", b)
	}
	// Everything is there: the mirror is not asked for anything.
	before := len(m.hits)
	if _, err := r.Download(ctx, true, "tool"); err != nil {
		t.Fatal(err)
	}
	if len(m.hits) != before {
		t.Errorf("the mirror was asked for %v", m.hits[before:])
	}
	// A damaged file is fetched again.
	if err := os.WriteFile(all[0].Path, []byte("junk"), 0o644); err != nil {
		t.Fatal(err)
	}
	if all, err = r.Download(ctx, true, "tool"); err != nil || all[0].verify() != nil {
		t.Errorf("damaged file: %v", err)
	}
	// A package that came after the index was read.
	m.add(t, "late_1")
	m.index(t)
	if got, err := r.Download(ctx, false, "late"); err != nil || names(got) != "late=1" {
		t.Errorf("late package: %v", err)
	}
	// One that the mirror replaced by a newer version.
	delete(m.debs, "other_1_all.deb")
	os.Remove(filepath.Join(m.dir, "pool/other_1_all.deb"))
	m.add(t, "other_2")
	m.index(t)
	if got, err := r.Download(ctx, false, "other"); err != nil || names(got) != "other=2" {
		t.Errorf("replaced package: %s %v", names(got), err)
	}
	// One that is cut short on the way.
	m.add(t, "cut_1")
	m.index(t)
	m.short = true
	if got, err := r.Download(ctx, false, "cut"); err != nil || got[0].verify() != nil {
		t.Errorf("download cut short: %v", err)
	}
	var nf *NotFoundError
	if _, err := r.Download(ctx, false, "nothing-of-the-kind"); !errors.As(err, &nf) || nf.Name != "nothing-of-the-kind" {
		t.Errorf("unknown package: %v", err)
	}
	m.add(t, "broken_1_absent")
	m.index(t)
	if _, err := r.Download(ctx, true, "broken"); !errors.As(err, &nf) || !strings.Contains(err.Error(), "absent") {
		t.Errorf("dependency that is not there: %v", err)
	}
	// Content that the index does not vouch for.
	m.add(t, "forged_1")
	m.index(t)
	os.WriteFile(filepath.Join(m.dir, "pool/forged_1_all.deb"), []byte("forged"), 0o644)
	if _, err := r.Download(ctx, false, "forged"); err == nil {
		t.Error("a forged package was accepted")
	}
	if got, err := r.Names(ctx, "to"); err != nil || strings.Join(got, " ") != "tool" {
		t.Errorf("names: %v %v", got, err)
	}
}

func TestOpenErrors(t *testing.T) {
	c, err := cache.Open(filepath.Join(t.TempDir(), "c"))
	if err != nil {
		t.Fatal(err)
	}
	for _, suites := range [][]string{nil, {"a b"}, {"../x"}, {"-o"}} {
		if _, err := Open(context.Background(), c, Options{Suites: suites}); err == nil {
			t.Errorf("%q was accepted", suites)
		}
	}
	t.Setenv("PATH", t.TempDir())
	_, err = Open(context.Background(), c, Options{Suites: []string{"bookworm"}})
	var ua *UnavailableError
	if !errors.As(err, &ua) || !strings.Contains(err.Error(), "apt-get") {
		t.Errorf("a host without apt: %v", err)
	}
}

// TestNoNetwork: a mirror that cannot be reached is the mirror's problem, and
// the message says so.
func TestNoNetwork(t *testing.T) {
	c, err := cache.Open(filepath.Join(t.TempDir(), "c"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(MirrorEnv, "http://127.0.0.1:1/debian")
	r, err := Open(context.Background(), c, Options{Suites: []string{"bookworm"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Download(context.Background(), false, "busybox-static")
	var ua *UnavailableError
	if !errors.As(err, &ua) || !strings.Contains(err.Error(), "is there a network?") {
		t.Errorf("got %v", err)
	}
}
