// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchcheck/internal/guestproto"
)

// class gives the class of a verb's error, or "".
func class(err error) string {
	var e *guestproto.Error
	if errors.As(err, &e) {
		return e.Class
	}
	return ""
}

func TestWriteReadHash(t *testing.T) {
	for _, tt := range []struct {
		name string
		io   guestproto.IO
	}{
		{"blocks", guestproto.IO{Size: 1 << 20, Block: 4096, Seed: 1, Sync: true}},
		{"unaligned block", guestproto.IO{Size: 100_001, Block: 1000, Seed: 2}},
		{"larger than a threshold", guestproto.IO{Size: 256 << 10, Block: 6000, Seed: 3}},
		{"random order", guestproto.IO{Size: 1 << 20, Block: 4096, Seed: 4, Random: true}},
		{"parallel", guestproto.IO{Size: 1<<20 + 17, Block: 4096, Seed: 7, Parallel: 5}},
		{"parallel, random", guestproto.IO{Size: 1 << 20, Block: 6000, Seed: 8, Parallel: 3, Random: true}},
		{"more threads than blocks", guestproto.IO{Size: 5000, Block: 4096, Seed: 9, Parallel: 64}},
		{"one block", guestproto.IO{Size: 10, Block: 4096, Seed: 5}},
		{"empty", guestproto.IO{Size: 0, Block: 4096, Seed: 6}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, ctx := &work{}, context.Background()
			r := tt.io
			r.Path = filepath.Join(t.TempDir(), "new", "folder", "f")
			res, err := w.write(ctx, &r, nil)
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(r.Path)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(b)
			want := hex.EncodeToString(sum[:])
			if res.Bytes != r.Size || res.SHA256 != want || res.Want != want || res.FileSize != r.Size {
				t.Errorf("write: %+v, the file's SHA-256 is %s", res, want)
			}
			for _, block := range []int{r.Block, 1000, 6000, 4096} {
				rd := r
				rd.Block = block
				res, err := w.read(ctx, &rd, nil)
				if err != nil || res.SHA256 != want || res.FirstDiff != -1 || res.Bytes != r.Size {
					t.Errorf("read by %d: %+v, %v", block, res, err)
				}
			}
			rd := r
			rd.Block, rd.Random = 0, false
			if res, err := w.hash(ctx, &rd, nil); err != nil || res.SHA256 != want {
				t.Errorf("hash: %+v, %v", res, err)
			}
		})
	}
}

func TestWriteReadDirect(t *testing.T) {
	dir := t.TempDir()
	fd, err := unix.Open(filepath.Join(dir, "probe"), unix.O_CREAT|unix.O_RDWR|unix.O_DIRECT, 0o600)
	if err != nil {
		t.Skipf("the file system of %s takes no O_DIRECT: %v", dir, err)
	}
	unix.Close(fd)
	w, ctx := &work{}, context.Background()
	r := guestproto.IO{Path: filepath.Join(dir, "f"), Size: 1 << 20, Block: 4096, Direct: true, Seed: 9, Sync: true}
	if _, err := w.write(ctx, &r, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := w.read(ctx, &r, nil); err != nil {
		t.Fatal(err)
	}
	// On a local file system an unaligned block is the request's fault, never
	// the kernel's; some file systems fall back to the page cache.
	r.Block = 1000
	if _, err := w.read(ctx, &r, nil); err != nil && class(err) != guestproto.ClassSetup {
		t.Errorf("an unaligned O_DIRECT read gives class %q: %v", class(err), err)
	}
}

func TestPartOfAFile(t *testing.T) {
	w, ctx := &work{}, context.Background()
	r := guestproto.IO{Path: filepath.Join(t.TempDir(), "f"), Size: 64 << 10, Block: 4096, Seed: 1}
	if _, err := w.write(ctx, &r, nil); err != nil {
		t.Fatal(err)
	}
	part := guestproto.IO{Path: r.Path, Offset: 5000, Size: 3000, Block: 700, Seed: 2}
	if _, err := w.write(ctx, &part, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := w.read(ctx, &part, nil); err != nil {
		t.Error(err)
	}
	res, err := w.read(ctx, &r, nil)
	if class(err) != guestproto.ClassData || res.FirstDiff < 5000 || res.FirstDiff > 5002 {
		t.Errorf("a part overwritten from 5000 on: first difference %+v, %v", res, err)
	}
}

func TestDifferences(t *testing.T) {
	const size = 64 << 10
	for _, tt := range []struct {
		name   string
		change func(b []byte) []byte
		at     int64
		diag   string
		onlyOn string // "hash": a client that reads a part cannot see it
	}{
		{"flipped byte", func(b []byte) []byte { b[12345] ^= 0xff; return b }, 12345, "single wrong byte", ""},
		{"last byte", func(b []byte) []byte { b[size-1] ^= 1; return b }, size - 1, "flipped bit", ""},
		{"hole", func(b []byte) []byte { clear(b[8192:12288]); return b }, 8192, "zero bytes", ""},
		{"swapped blocks", func(b []byte) []byte {
			x := append([]byte(nil), b[4096:8192]...)
			copy(b[4096:8192], b[8192:12288])
			copy(b[8192:12288], x)
			return b
		}, 4096, "offset 8192 of this file", ""},
		{"short", func(b []byte) []byte { return b[:5000] }, 5000, "end of file", ""},
		{"too long", func(b []byte) []byte { return append(b, 0) }, size, "longer", "hash"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, ctx := &work{}, context.Background()
			r := guestproto.IO{Path: filepath.Join(t.TempDir(), "f"), Size: size, Block: 4096, Seed: 1}
			if _, err := w.write(ctx, &r, nil); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(r.Path)
			if err != nil {
				t.Fatal(err)
			}
			b = tt.change(b)
			if err := os.WriteFile(r.Path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(b)
			for name, f := range map[string]func(context.Context, *guestproto.IO, func(string)) (*guestproto.IOResult, error){"read": w.read, "hash": w.hash} {
				if tt.onlyOn != "" && tt.onlyOn != name {
					continue
				}
				res, err := f(ctx, &r, nil)
				if class(err) != guestproto.ClassData {
					t.Fatalf("%s: %v is no data error", name, err)
				}
				if res.FirstDiff != tt.at || !strings.Contains(res.Diagnosis, tt.diag) || res.SHA256 == res.Want {
					t.Errorf("%s: %+v, want a difference at %d with %q", name, res, tt.at, tt.diag)
				}
				if name == "read" && tt.at >= 5000 && len(b) == size && res.SHA256 != hex.EncodeToString(sum[:]) {
					t.Errorf("%s: SHA-256 is not that of the file", name)
				}
			}
			// In random order, and with threads, it is the lowest one too.
			for i := range 2 {
				if tt.onlyOn != "" {
					break
				}
				r.Random, r.Parallel = i == 0, 4*i
				if res, err := w.read(ctx, &r, nil); class(err) != guestproto.ClassData || (tt.name != "short" && res.FirstDiff != tt.at) {
					t.Errorf("random %t, %d threads: %+v, %v", r.Random, r.Parallel, res, err)
				}
			}
		})
	}
}

func TestFlip(t *testing.T) {
	w, ctx := &work{}, context.Background()
	r := guestproto.IO{Path: filepath.Join(t.TempDir(), "f"), Size: 4096, Block: 4096, Seed: 1}
	if _, err := w.write(ctx, &r, nil); err != nil {
		t.Fatal(err)
	}
	f := guestproto.Flip{Path: r.Path, Offset: 77}
	for i, want := range []string{guestproto.ClassData, ""} {
		if _, err := w.flip(ctx, &f, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := w.hash(ctx, &r, nil); class(err) != want {
			t.Errorf("after %d flips: %v, want class %q", i+1, err, want)
		}
	}
	if _, err := w.flip(ctx, &guestproto.Flip{Path: r.Path, Offset: 5000}, nil); class(err) != guestproto.ClassUsage {
		t.Errorf("flip beyond the end: %v", err)
	}
}

func TestIOUsage(t *testing.T) {
	w := &work{}
	for name, r := range map[string]guestproto.IO{
		"relative path": {Path: "f", Size: 1, Block: 1},
		"no block":      {Path: "/tmp/f", Size: 1},
		"huge block":    {Path: "/tmp/f", Size: 1, Block: 1 << 40},
		"negative size": {Path: "/tmp/f", Size: -1, Block: 1},
		"negative at":   {Path: "/tmp/f", Size: 1, Block: 1, Offset: -1},
	} {
		if _, err := w.write(context.Background(), &r, nil); class(err) != guestproto.ClassUsage {
			t.Errorf("%s: %v, want a usage error", name, err)
		}
	}
}

func TestIOErrorClasses(t *testing.T) {
	for _, tt := range []struct {
		err          error
		nfs          bool
		class, errno string
	}{
		{unix.ENOSPC, true, guestproto.ClassResource, "ENOSPC"},
		{unix.EDQUOT, true, guestproto.ClassResource, "EDQUOT"},
		{unix.ENOMEM, true, guestproto.ClassResource, "ENOMEM"},
		{unix.EIO, true, guestproto.ClassKernel, "EIO"},
		{unix.ESTALE, true, guestproto.ClassKernel, "ESTALE"},
		{unix.EINVAL, false, guestproto.ClassSetup, "EINVAL"},
		{unix.EINVAL, true, guestproto.ClassKernel, "EINVAL"},
		{unix.Errno(524), true, guestproto.ClassKernel, "ENOTSUPP"},
	} {
		e := ioError(&os.PathError{Op: "write", Path: "/x", Err: tt.err}, tt.nfs, "writing failed")
		if e.Class != tt.class || e.Errno != tt.errno || !strings.Contains(e.Message, tt.errno) {
			t.Errorf("%v (NFS %t): %+v, want class %s and %s", tt.err, tt.nfs, e, tt.class, tt.errno)
		}
	}
}

func TestFullFileSystem(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	_, err := (&work{}).write(context.Background(), &guestproto.IO{Path: "/dev/full", Size: 8192, Block: 4096, Seed: 1}, nil)
	var e *guestproto.Error
	if !errors.As(err, &e) || e.Class != guestproto.ClassResource || e.Errno != "ENOSPC" {
		t.Errorf("writing to a full device: %v", err)
	}
}

func TestFiles(t *testing.T) {
	w, ctx := &work{}, context.Background()
	dir := filepath.Join(t.TempDir(), "files")
	r := guestproto.Files{Dir: dir, Count: 50, MinSize: 0, MaxSize: 3000, Seed: 11}
	wrote, err := w.files(ctx, &r, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Check = true
	check := func(wantWrong int, text string) {
		t.Helper()
		res, err := w.files(ctx, &r, nil)
		if wantWrong == 0 {
			if err != nil || res.SHA256 != wrote.SHA256 || res.Bytes != wrote.Bytes || res.Count != 50 {
				t.Errorf("check: %+v, %v; written %+v", res, err, wrote)
			}
			return
		}
		if class(err) != guestproto.ClassData || res.WrongN != wantWrong || !strings.Contains(strings.Join(res.Wrong, "\n"), text) {
			t.Errorf("check: %+v, %v; want %d wrong with %q", res, err, wantWrong, text)
		}
	}
	check(0, "")
	f := filepath.Join(dir, "f00017")
	b, err := os.ReadFile(f)
	if err != nil || len(b) < 12 {
		t.Fatal(len(b), err)
	}
	bad := append([]byte(nil), b...)
	bad[11] ^= 0xff
	os.WriteFile(f, bad, 0o600)
	check(1, "f00017: first differs at byte 11")
	os.WriteFile(f, append(b[:len(b):len(b)], 0), 0o600)
	check(1, "f00017: longer than")
	os.WriteFile(f, b[:3], 0o600)
	check(1, "f00017: has 3 of")
	os.Remove(f)
	check(1, "f00017: missing")
	os.WriteFile(f, b, 0o600)
	os.WriteFile(filepath.Join(dir, "other"), nil, 0o600)
	check(1, "other: in the folder, but never written")
	if _, err := w.remove(ctx, &guestproto.Remove{Dir: dir}, nil); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("remove left %v, %v", left, err)
	}
	check(50, "f00000: missing")
	r.Check, r.Parallel = false, 8
	if p, err := w.files(ctx, &r, nil); err != nil || p.SHA256 != wrote.SHA256 || p.Bytes != wrote.Bytes {
		t.Errorf("by 8 threads: %+v, %v", p, err)
	}
	r.Check = true
	check(0, "")
	os.WriteFile(filepath.Join(dir, "f00040"), nil, 0o600)
	check(1, "f00040: has 0 of")
	// Another seed is another content.
	r.Check, r.Seed = false, 12
	if other, err := w.files(ctx, &r, nil); err != nil || other.SHA256 == wrote.SHA256 {
		t.Errorf("another seed: %+v, %v", other, err)
	}
}

func TestMedian(t *testing.T) {
	us := time.Microsecond
	for _, tt := range []struct {
		d    []time.Duration
		want float64
	}{{nil, 0}, {[]time.Duration{3 * us}, 3}, {[]time.Duration{9 * us, 1 * us, 2 * us}, 2}, {[]time.Duration{4 * us, 1 * us, 90 * us, 2 * us}, 3}} {
		if got := median(tt.d); got != tt.want {
			t.Errorf("median(%v) = %v, want %v", tt.d, got, tt.want)
		}
	}
}

func TestRemoveRefuses(t *testing.T) {
	for _, d := range []string{"", "/", "/proc", "/usr/", "/mnt/../sys", "x"} {
		if _, err := (&work{}).remove(context.Background(), &guestproto.Remove{Dir: d}, nil); class(err) != guestproto.ClassUsage {
			t.Errorf("remove %q: %v, want a usage error", d, err)
		}
	}
}

func TestVerbsAreComplete(t *testing.T) {
	verbs := Verbs()
	for _, v := range []string{guestproto.VerbNFSStart, guestproto.VerbTraceRead, guestproto.VerbLeaks} {
		if verbs[v] == nil {
			t.Errorf("no handler for %s", v)
		}
	}
	for name, h := range verbs {
		if _, err := h(context.Background(), []byte(`{"no_such_field":1}`), nil); class(err) != guestproto.ClassUsage {
			t.Errorf("%s takes an unknown field: %v", name, err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	w, ctx := &work{}, context.Background()
	r := guestproto.IO{Path: filepath.Join(b.TempDir(), "f"), Size: 8 << 20, Block: 4096, Seed: 1}
	if _, err := w.write(ctx, &r, nil); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(r.Size)
	for b.Loop() {
		if _, err := w.read(ctx, &r, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// What the client sees of a file is compared with the exported one.
func TestAttributes(t *testing.T) {
	w, ctx := &work{}, context.Background()
	dir := t.TempDir()
	client, export := filepath.Join(dir, "client"), filepath.Join(dir, "export")
	io := guestproto.IO{Path: client, Size: 5000, Block: 4096, Seed: 1}
	if _, err := w.write(ctx, &io, nil); err != nil {
		t.Fatal(err)
	}
	// A hard link is the same file.
	if err := os.Link(client, export); err != nil {
		t.Fatal(err)
	}
	io.Export = export
	if _, err := w.read(ctx, &io, nil); err != nil {
		t.Error(err)
	}
	b, err := os.ReadFile(client)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(export), os.WriteFile(export, append(b, 'x'), 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err = w.read(ctx, &io, nil)
	if class(err) != guestproto.ClassData {
		t.Fatalf("other attributes: %v", err)
	}
	for _, want := range []string{"mode 0100644, not 0100600", "size 5000, not 5001", "file number"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	io.Export = filepath.Join(dir, "absent")
	if _, err := w.read(ctx, &io, nil); err == nil || class(err) == guestproto.ClassData {
		t.Errorf("no exported file: %v", err)
	}

	fs := guestproto.Files{Dir: filepath.Join(dir, "c"), Count: 3, MinSize: 1, MaxSize: 100, Seed: 2}
	if _, err := w.files(ctx, &fs, nil); err != nil {
		t.Fatal(err)
	}
	fs.Check, fs.Export = true, fs.Dir
	if res, err := w.files(ctx, &fs, nil); err != nil || res.WrongN != 0 {
		t.Errorf("%+v, %v", res, err)
	}
	fs.Export = filepath.Join(dir, "e")
	if err := os.CopyFS(fs.Export, os.DirFS(fs.Dir)); err != nil {
		t.Fatal(err)
	}
	res, err := w.files(ctx, &fs, nil)
	if class(err) != guestproto.ClassData || res.WrongN != 3 || !strings.Contains(res.Wrong[0], "other attributes") {
		t.Errorf("%+v, %v", res, err)
	}
}
