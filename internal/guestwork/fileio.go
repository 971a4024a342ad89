// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"patchcheck/internal/guestproto"
)

// maxBlock bounds the size of one call, in bytes, so that a typing error in a
// plan cannot take all of the guest's memory.
const maxBlock = 64 << 20

// maxParallel bounds the threads of one verb.
const maxParallel = 64

// maxLatencies is how many calls of one thread count for the median.
const maxLatencies = 1 << 16

// dumpBytes is how much of a difference is shown, in bytes.
const dumpBytes = 32

// checkIO refuses what cannot be meant.
func checkIO(r *guestproto.IO) error {
	switch {
	case !filepath.IsAbs(r.Path):
		return usagef("the path %q is not absolute", r.Path)
	case r.Size < 0 || r.Offset < 0:
		return usagef("%s: size %d or offset %d is negative", r.Path, r.Size, r.Offset)
	case r.Block <= 0 || r.Block > maxBlock:
		return usagef("%s: a block of %d bytes is not between 1 and %d", r.Path, r.Block, maxBlock)
	case r.Parallel < 0 || r.Parallel > maxParallel:
		return usagef("%s: %d threads are not between 0 and %d", r.Path, r.Parallel, maxParallel)
	}
	return nil
}

// aligned is a page-aligned buffer, as O_DIRECT wants it.
func aligned(n int) ([]byte, func(), error) {
	b, err := unix.Mmap(-1, 0, max(n, 1), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, nil, withErrno(&guestproto.Error{
			Class:   guestproto.ClassResource,
			Message: fmt.Sprintf("cannot allocate a buffer of %d bytes", n),
		}, err)
	}
	return b[:n], func() { unix.Munmap(b) }, nil
}

// part is what one thread of a verb did.
type part struct {
	bytes, calls int64
	slowest      time.Duration
	latencies    []time.Duration
	// The difference with the lowest offset; firstDiff is -1 without one.
	firstDiff     int64
	diagnosis     string
	dumpAt        int64
	got, expected string
}

// timed runs one call.
func (p *part) timed(f func() (int, error)) (int, error) {
	t := time.Now()
	n, err := f()
	d := time.Since(t)
	p.calls++
	p.slowest = max(p.slowest, d)
	if len(p.latencies) < maxLatencies {
		p.latencies = append(p.latencies, d)
	}
	return n, err
}

// differs notes a difference at index i of got, which stands at offset at.
// With no got the file ends there.
func (p *part) differs(c content, at int64, got []byte, i int, limit int64) {
	off := at + int64(i)
	if p.firstDiff >= 0 && off >= p.firstDiff {
		return // in random order an earlier one may come later
	}
	p.firstDiff, p.got, p.expected = off, "", ""
	if got == nil {
		p.diagnosis = "end of file"
		return
	}
	p.diagnosis = c.diagnose(got, at, i, limit)
	from := i - i%16
	to := min(from+dumpBytes, len(got))
	want := make([]byte, to-from)
	c.fill(want, at+int64(from))
	p.dumpAt = at + int64(from)
	p.got, p.expected = hex.EncodeToString(got[from:to]), hex.EncodeToString(want)
}

// errEOF ends the reading of a file that is shorter than expected; the
// difference is noted already.
var errEOF = errors.New("end of file")

// eachBlock calls f for each block of [r.Offset, r.Offset+r.Size), in ascending
// order or in a permutation that is a function of the seed, from r.Parallel
// threads. buf is as long as the block and page-aligned. The first error ends
// all threads.
func eachBlock(ctx context.Context, r *guestproto.IO, f func(p *part, buf []byte, off int64) error) (part, error) {
	count := (r.Size + int64(r.Block) - 1) / int64(r.Block)
	threads := int(max(1, min(int64(r.Parallel), count)))
	index := func(i int64) int64 { return i }
	if r.Random {
		perm := rand.New(rand.NewPCG(r.Seed, gamma)).Perm(int(count))
		index = func(i int64) int64 { return int64(perm[i]) }
	}
	parts := make([]part, threads)
	errs := make([]error, threads)
	var stop atomic.Bool
	work := func(k int) error {
		p := &parts[k]
		p.firstDiff = -1
		buf, free, err := aligned(r.Block)
		if err != nil {
			return err
		}
		defer free()
		for i := int64(k); i < count && !stop.Load(); i += int64(threads) {
			if err := ctx.Err(); err != nil {
				return err
			}
			start := index(i) * int64(r.Block)
			if err := f(p, buf[:min(int64(r.Block), r.Size-start)], r.Offset+start); err != nil {
				return err
			}
		}
		return nil
	}
	var wg sync.WaitGroup
	for k := 1; k < threads; k++ {
		wg.Go(func() {
			if errs[k] = work(k); errs[k] != nil {
				stop.Store(true)
			}
		})
	}
	if errs[0] = work(0); errs[0] != nil {
		stop.Store(true)
	}
	wg.Wait()
	all := parts[0]
	for _, p := range parts[1:] {
		all.bytes += p.bytes
		all.calls += p.calls
		all.slowest = max(all.slowest, p.slowest)
		all.latencies = append(all.latencies, p.latencies...)
		if p.firstDiff >= 0 && (all.firstDiff < 0 || p.firstDiff < all.firstDiff) {
			all.firstDiff, all.diagnosis, all.dumpAt, all.got, all.expected = p.firstDiff, p.diagnosis, p.dumpAt, p.got, p.expected
		}
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, errEOF) {
			return all, err
		}
	}
	return all, nil
}

// median gives the median in microseconds, 0 for none. It sorts d.
func median(d []time.Duration) float64 {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	m := d[len(d)/2]
	if len(d)%2 == 0 {
		m = (m + d[len(d)/2-1]) / 2
	}
	return float64(m.Nanoseconds()) / 1000
}

// sumKey names a range of generated content.
type sumKey struct {
	seed      uint64
	off, size int64
}

// sums remembers the SHA-256 of generated ranges: each is asked for several
// times (write, read back, server side) and hashing is what costs most in an
// emulated guest.
type sums struct {
	mu    sync.Mutex
	m     map[sumKey]string
	files map[guestproto.Files]string
}

// of gives the SHA-256 of the content of seed in [off, off+size).
func (s *sums) of(seed uint64, off, size int64) string {
	k := sumKey{seed, off, size}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.m[k]; ok {
		return v
	}
	h, c := sha256.New(), newContent(seed)
	buf := make([]byte, 64<<10)
	for done := int64(0); done < size; {
		b := buf[:min(int64(len(buf)), size-done)]
		c.fill(b, off+done)
		h.Write(b)
		done += int64(len(b))
	}
	v := hex.EncodeToString(h.Sum(nil))
	if s.m == nil || len(s.m) > 256 {
		s.m = map[sumKey]string{}
	}
	s.m[k] = v
	return v
}

// fsNames are the file systems that a workload meets, by their magic numbers
// (include/uapi/linux/magic.h).
var fsNames = map[int64]string{
	unix.NFS_SUPER_MAGIC:   "nfs",
	unix.TMPFS_MAGIC:       "tmpfs",
	unix.EXT4_SUPER_MAGIC:  "ext4",
	unix.XFS_SUPER_MAGIC:   "xfs",
	unix.BTRFS_SUPER_MAGIC: "btrfs",
	0x858458f6:             "rootfs", // RAMFS_MAGIC
}

func fsName(st *unix.Statfs_t) string {
	if n, ok := fsNames[int64(st.Type)]; ok {
		return n
	}
	return fmt.Sprintf("%#x", st.Type)
}

// fileFS names the file system of an open file.
func fileFS(f *os.File) string {
	var st unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &st) != nil {
		return ""
	}
	return fsName(&st)
}

// onNFS tells whether f is on an NFS mount.
func onNFS(f *os.File) bool { return fileFS(f) == "nfs" }

// pathOnNFS tells whether path, or the nearest folder above it that exists, is
// on an NFS mount: an error on opening it is then the kernel's answer.
func pathOnNFS(path string) bool {
	for {
		var st unix.Statfs_t
		err := unix.Statfs(path, &st)
		if err == nil {
			return fsName(&st) == "nfs"
		}
		up := filepath.Dir(path)
		if err != unix.ENOENT || up == path {
			return err != unix.ENOENT
		}
		path = up
	}
}

// checkOwner reports a new file that belongs to nobody although root made it:
// the export squashes root, or the two sides do not agree on names (idmap).
// That is no data corruption, yet every owner in the test would be wrong.
func checkOwner(f *os.File) error {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || int(st.Uid) == os.Geteuid() {
		return nil
	}
	if st.Uid == 65534 || st.Uid == 4294967294 {
		return setupf("export with no_root_squash; for NFSv4 check that nfs4_disable_idmapping is Y on both sides, or that rpc.idmapd knows the domain (restart it after the host name was set)",
			"%s was made by uid %d and belongs to nobody (uid %d): identities are not mapped (idmap or root squash)", f.Name(), os.Geteuid(), st.Uid)
	}
	return nil
}

// openRetry opens without Go's poller in the way: O_DIRECT files and NFS have
// no use for it.
func openFile(path string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
		return os.NewFile(uintptr(fd), path), nil
	}
}

// pread and pwrite repeat interrupted calls. The runtime signals its threads
// for preemption; a kernel that lets such a signal end a call is right to.
func pread(f *os.File, b []byte, off int64) (int, error) {
	for {
		n, err := unix.Pread(int(f.Fd()), b, off)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

func pwrite(f *os.File, b []byte, off int64) (int, error) {
	for {
		n, err := unix.Pwrite(int(f.Fd()), b, off)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// write serves VerbWrite. Missing folders above the file are made; the file is
// truncated first when the range starts at 0.
func (w *work) write(ctx context.Context, r *guestproto.IO, log func(string)) (*guestproto.IOResult, error) {
	if err := checkIO(r); err != nil {
		return nil, err
	}
	flags := unix.O_WRONLY | unix.O_CREAT
	if r.Offset == 0 {
		flags |= unix.O_TRUNC
	}
	if r.Direct {
		flags |= unix.O_DIRECT
	}
	if dir := filepath.Dir(r.Path); r.Offset == 0 {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, ioError(err, pathOnNFS(dir), "cannot make the folder %s", dir)
		}
	}
	dir := filepath.Dir(r.Path)
	if _, err := os.Stat(dir); errnoOf(err) == unix.ENOENT {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, ioError(err, pathOnNFS(dir), "cannot make the folder %s", dir)
		}
	}
	f, err := openFile(r.Path, flags)
	if err != nil {
		return nil, ioError(err, pathOnNFS(r.Path), "cannot open %s for writing%s", r.Path, direct(r.Direct))
	}
	closed := false
	defer func() {
		if !closed {
			f.Close()
		}
	}()
	nfs := onNFS(f)
	if nfs {
		if err := checkOwner(f); err != nil {
			return nil, err
		}
	}
	c := newContent(r.Seed)
	res := &guestproto.IOResult{FirstDiff: -1, FS: fileFS(f)}
	start := time.Now()
	all, err := eachBlock(ctx, r, func(p *part, buf []byte, off int64) error {
		c.fill(buf, off)
		for len(buf) > 0 {
			m, err := p.timed(func() (int, error) { return pwrite(f, buf, off) })
			if err != nil {
				return ioError(err, nfs, "%s: writing %d bytes at offset %d%s failed", r.Path, len(buf), off, direct(r.Direct))
			}
			if m == 0 {
				return kernelf("%s: writing %d bytes at offset %d wrote none and gave no error", r.Path, len(buf), off)
			}
			buf, off = buf[m:], off+int64(m)
			p.bytes += int64(m)
		}
		return nil
	})
	res.Bytes, res.Calls, res.MedianUS = all.bytes, all.calls, median(all.latencies)
	if err != nil {
		return res, err
	}
	if r.Sync {
		if _, err := all.timed(func() (int, error) { return 0, f.Sync() }); err != nil {
			return res, ioError(err, nfs, "%s: fsync after %d bytes failed", r.Path, res.Bytes)
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return res, ioError(err, nfs, "%s: fstat after writing failed", r.Path)
	}
	res.FileSize = st.Size
	closed = true
	if _, err := all.timed(func() (int, error) { return 0, f.Close() }); err != nil {
		// NFS tells of failed write-back here.
		return res, ioError(err, nfs, "%s: close after %d bytes failed", r.Path, res.Bytes)
	}
	slowest := all.slowest
	res.ElapsedUS, res.SlowestUS = time.Since(start).Microseconds(), slowest.Microseconds()
	res.Want = w.sums.of(r.Seed, r.Offset, r.Size)
	res.SHA256 = res.Want
	if r.Size > 0 && res.FileSize < r.Offset+r.Size {
		res.FirstDiff = res.FileSize
		res.Diagnosis = "short file"
		return res, &guestproto.Error{Class: guestproto.ClassData,
			Message: fmt.Sprintf("%s: %d bytes were written up to offset %d, but the file has only %d bytes", r.Path, res.Bytes, r.Offset+r.Size, res.FileSize)}
	}
	return res, nil
}

func direct(d bool) string {
	if d {
		return " with O_DIRECT"
	}
	return ""
}

// read serves VerbRead: the client's view. The caller has dropped the caches.
func (w *work) read(ctx context.Context, r *guestproto.IO, log func(string)) (*guestproto.IOResult, error) {
	return w.compare(ctx, r, false)
}

// hash serves VerbHash: the file on the server's own file system. The whole
// file must be what was written, so its size counts too, and SHA256 is really
// computed from the bytes read.
func (w *work) hash(ctx context.Context, r *guestproto.IO, log func(string)) (*guestproto.IOResult, error) {
	if r.Block == 0 {
		r.Block = 1 << 20
	}
	if f, err := os.Open(r.Path); err == nil {
		nfs := onNFS(f)
		f.Close()
		if nfs {
			return nil, usagef("%s is on an NFS mount: the server's side has to be read on its own file system", r.Path)
		}
	}
	return w.compare(ctx, r, true)
}

// compare reads the range block by block and compares it with the generated
// content. With server set the file may not be longer than the range, and
// SHA256 is computed from what was read. Without it, equal content has the
// SHA-256 of the generated content, which saves half of the hashing; content
// that differs is hashed when it was read in order.
func (w *work) compare(ctx context.Context, r *guestproto.IO, server bool) (*guestproto.IOResult, error) {
	if err := checkIO(r); err != nil {
		return nil, err
	}
	flags := unix.O_RDONLY
	if r.Direct {
		flags |= unix.O_DIRECT
	}
	f, err := openFile(r.Path, flags)
	if err != nil {
		return nil, ioError(err, pathOnNFS(r.Path), "cannot open %s for reading%s", r.Path, direct(r.Direct))
	}
	defer f.Close()
	nfs := onNFS(f)
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, ioError(err, nfs, "%s: fstat failed", r.Path)
	}
	if r.Export != "" {
		diff, err := otherAttributes(f, r.Export)
		if err != nil {
			return nil, err
		}
		if diff != "" {
			return nil, &guestproto.Error{Class: guestproto.ClassData, Message: fmt.Sprintf("%s: the client sees other attributes than the exported file has: %s", r.Path, diff)}
		}
	}
	if server {
		one := *r
		one.Parallel = 1
		r = &one
	}
	inOrder := !r.Random && r.Parallel <= 1
	c := newContent(r.Seed)
	res := &guestproto.IOResult{FirstDiff: -1, FileSize: st.Size, FS: fileFS(f)}
	var h hash.Hash // of what is read in order; nil as long as all is equal
	if server && inOrder {
		h = sha256.New()
	}
	limit := max(r.Offset+r.Size, st.Size)
	start := time.Now()
	all, err := eachBlock(ctx, r, func(p *part, buf []byte, off int64) error {
		for len(buf) > 0 {
			m, err := p.timed(func() (int, error) { return pread(f, buf, off) })
			if err != nil {
				return ioError(err, nfs, "%s: reading %d bytes at offset %d%s failed", r.Path, len(buf), off, direct(r.Direct))
			}
			if m == 0 {
				p.differs(c, off, nil, 0, limit)
				return errEOF
			}
			got := buf[:m]
			if i := c.diff(got, off); i >= 0 {
				if h == nil && inOrder {
					// All before was equal, so the hash can still start now.
					h = sha256.New()
					hashContent(h, c, r.Offset, off-r.Offset)
				}
				p.differs(c, off, got, i, limit)
			}
			if h != nil {
				h.Write(got)
			}
			buf, off = buf[m:], off+int64(m)
			p.bytes += int64(m)
		}
		return nil
	})
	res.Bytes, res.Calls, res.MedianUS = all.bytes, all.calls, median(all.latencies)
	res.ElapsedUS, res.SlowestUS = time.Since(start).Microseconds(), all.slowest.Microseconds()
	res.FirstDiff, res.Diagnosis, res.DumpAt, res.Got, res.Expected = all.firstDiff, all.diagnosis, all.dumpAt, all.got, all.expected
	if err != nil {
		return res, err
	}
	res.Want = w.sums.of(r.Seed, r.Offset, r.Size)
	switch {
	case h != nil:
		res.SHA256 = hex.EncodeToString(h.Sum(nil))
	case res.FirstDiff < 0:
		res.SHA256 = res.Want
	}
	if server && res.FirstDiff < 0 && st.Size > r.Offset+r.Size {
		res.FirstDiff = r.Offset + r.Size
		res.Diagnosis = "the file is longer than what was written"
		res.SHA256 = "" // of the range only, which is equal
	}
	if res.FirstDiff >= 0 {
		return res, dataError(r, res, server)
	}
	if h != nil && res.SHA256 != res.Want {
		// Cannot happen unless this program is broken; never report it as equal.
		return res, &guestproto.Error{Class: guestproto.ClassData, Message: r.Path + ": equal word by word, yet the SHA-256 differs"}
	}
	return res, nil
}

// otherAttributes says in what the attributes that a client sees of a file
// differ from those on the server's own file system, "" if in nothing. They are
// asked for anew: a GETATTR of NFS. Reading changes the access time, so that is
// left out.
func otherAttributes(f *os.File, export string) (string, error) {
	const want = unix.STATX_BASIC_STATS &^ (unix.STATX_ATIME | unix.STATX_BLOCKS)
	var client, server unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_STATX_FORCE_SYNC, want, &client); err != nil {
		return "", ioError(&os.PathError{Op: "statx", Path: f.Name(), Err: err}, onNFS(f), "%s has no attributes", f.Name())
	}
	if err := unix.Statx(unix.AT_FDCWD, export, 0, want, &server); err != nil {
		return "", ioError(&os.PathError{Op: "statx", Path: export, Err: err}, false, "the exported file has no attributes")
	}
	var diffs []string
	for _, a := range []struct {
		name           string
		client, server any
	}{
		{"mode", fmt.Sprintf("%#o", client.Mode), fmt.Sprintf("%#o", server.Mode)},
		{"links", client.Nlink, server.Nlink},
		{"owner", fmt.Sprintf("%d:%d", client.Uid, client.Gid), fmt.Sprintf("%d:%d", server.Uid, server.Gid)},
		{"size", client.Size, server.Size},
		{"file number", client.Ino, server.Ino},
		{"modified", stamp(client.Mtime), stamp(server.Mtime)},
		{"changed", stamp(client.Ctime), stamp(server.Ctime)},
	} {
		if a.client != a.server {
			diffs = append(diffs, fmt.Sprintf("%s %v, not %v", a.name, a.client, a.server))
		}
	}
	return strings.Join(diffs, "; "), nil
}

func stamp(t unix.StatxTimestamp) string { return fmt.Sprintf("%d.%09d", t.Sec, t.Nsec) }

// hashContent adds the generated content of [off, off+size) to h.
func hashContent(h hash.Hash, c content, off, size int64) {
	buf := make([]byte, 64<<10)
	for done := int64(0); done < size; {
		b := buf[:min(int64(len(buf)), size-done)]
		c.fill(b, off+done)
		h.Write(b)
		done += int64(len(b))
	}
}

// dataError words a difference. The side that was read is part of it.
func dataError(r *guestproto.IO, res *guestproto.IOResult, server bool) *guestproto.Error {
	side := "read by the client"
	if server {
		side = "in the server's file"
	}
	e := &guestproto.Error{Class: guestproto.ClassData,
		Message: fmt.Sprintf("%s: %s, content first differs at offset %d of %d (%s)", r.Path, side, res.FirstDiff, r.Offset+r.Size, res.Diagnosis)}
	if res.Got != "" {
		e.Detail = fmt.Sprintf("at offset %d\ngot      %s\nexpected %s", res.DumpAt, res.Got, res.Expected)
	}
	return e
}

// flip serves VerbFlip.
func (w *work) flip(ctx context.Context, r *guestproto.Flip, log func(string)) (any, error) {
	f, err := openFile(r.Path, unix.O_RDWR)
	if err != nil {
		return nil, ioError(err, false, "cannot open %s", r.Path)
	}
	defer f.Close()
	b := []byte{0}
	n, err := pread(f, b, r.Offset)
	if err != nil {
		return nil, ioError(err, false, "%s: reading the byte at offset %d failed", r.Path, r.Offset)
	}
	if n == 0 {
		return nil, usagef("%s has no byte at offset %d", r.Path, r.Offset)
	}
	b[0] ^= 0xff
	if _, err := pwrite(f, b, r.Offset); err != nil {
		return nil, ioError(err, false, "%s: writing the byte at offset %d failed", r.Path, r.Offset)
	}
	if err := f.Sync(); err != nil {
		return nil, ioError(err, false, "%s: fsync failed", r.Path)
	}
	return nil, nil
}

// drop serves VerbDrop: what was written reaches the server, and what is read
// next comes from it.
func (w *work) drop(ctx context.Context, _ *struct{}, log func(string)) (any, error) {
	unix.Sync()
	if err := os.WriteFile(w.path("/proc/sys/vm/drop_caches"), []byte("3\n"), 0); err != nil {
		return nil, withErrno(setupf("the guest's kernel needs CONFIG_SYSCTL and a mounted /proc", "cannot drop the page cache"), err)
	}
	return nil, nil
}
