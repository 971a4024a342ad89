// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
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

// maxSmallFile bounds one file of VerbFiles, in bytes.
const maxSmallFile = 64 << 20

// maxWrong is how many wrong files are named.
const maxWrong = 8

// smallFile is file i of a workload: name, size and seed of its content. The
// size is the same for every seed, since it decides what the RPCs look like, and
// cells are compared.
func smallFile(r *guestproto.Files, i int) (name string, size int64, seed uint64) {
	seed = mix(r.Seed + uint64(i+1)*gamma)
	size = r.MinSize + int64(mix(uint64(i+1)*gamma)%uint64(r.MaxSize-r.MinSize+1))
	return fmt.Sprintf("f%05d", i), size, seed
}

// smallResult is what one thread found out.
type smallResult struct {
	count   int
	bytes   int64
	slowest time.Duration
	wrong   map[int]string   // by file
	sums    map[int][32]byte // SHA-256 of what was read of a wrong file
}

// files serves VerbFiles. Writing makes Dir; checking also finds files that
// are missing or too many.
func (w *work) files(ctx context.Context, r *guestproto.Files, log func(string)) (*guestproto.FilesResult, error) {
	switch {
	case !filepath.IsAbs(r.Dir):
		return nil, usagef("the folder %q is not absolute", r.Dir)
	case r.Count < 0 || r.Count > 1_000_000:
		return nil, usagef("%d files are not between 0 and 1000000", r.Count)
	case r.MinSize < 0 || r.MaxSize < r.MinSize || r.MaxSize > maxSmallFile:
		return nil, usagef("file sizes from %d to %d: want 0 <= min <= max <= %d", r.MinSize, r.MaxSize, maxSmallFile)
	case r.Parallel < 0 || r.Parallel > maxParallel:
		return nil, usagef("%d threads are not between 0 and %d", r.Parallel, maxParallel)
	}
	if !r.Check {
		if err := os.MkdirAll(r.Dir, 0o755); err != nil {
			return nil, ioError(err, pathOnNFS(r.Dir), "cannot make the folder %s", r.Dir)
		}
	}
	res := &guestproto.FilesResult{}
	var fs unix.Statfs_t
	if unix.Statfs(r.Dir, &fs) == nil {
		res.FS = fsName(&fs)
	}
	start := time.Now()
	threads := max(1, min(r.Parallel, r.Count))
	parts := make([]smallResult, threads)
	errs := make([]error, threads)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for k := range threads {
		wg.Go(func() {
			if errs[k] = smallFiles(ctx, r, k, threads, &parts[k], &stop); errs[k] != nil {
				stop.Store(true)
			}
		})
	}
	wg.Wait()
	var slowest time.Duration
	wrong, sums := map[int]string{}, map[int][32]byte{}
	for _, p := range parts {
		res.Count += p.count
		res.Bytes += p.bytes
		slowest = max(slowest, p.slowest)
		maps.Copy(wrong, p.wrong)
		maps.Copy(sums, p.sums)
	}
	res.ElapsedUS, res.SlowestUS = time.Since(start).Microseconds(), slowest.Microseconds()
	for _, err := range errs {
		if err != nil {
			return res, err
		}
	}
	for _, i := range slices.Sorted(maps.Keys(wrong)) {
		res.WrongN++
		if len(res.Wrong) < maxWrong {
			res.Wrong = append(res.Wrong, wrong[i])
		}
	}
	if r.Check {
		if err := extraFiles(r, res); err != nil {
			return res, err
		}
	}
	res.Want = w.filesSum(r)
	res.SHA256 = res.Want
	if len(wrong) > 0 {
		res.SHA256 = sumFiles(r, wrong, sums)
	}
	if res.WrongN > 0 {
		return res, &guestproto.Error{Class: guestproto.ClassData,
			Message: fmt.Sprintf("%s: %d of %d files are wrong; %s", r.Dir, res.WrongN, r.Count, res.Wrong[0]),
			Detail:  strings.Join(res.Wrong, "\n")}
	}
	return res, nil
}

// smallFiles is thread k of n: it writes or checks every n-th file.
func smallFiles(ctx context.Context, r *guestproto.Files, k, n int, p *smallResult, stop *atomic.Bool) error {
	buf := make([]byte, r.MaxSize+1)
	p.wrong, p.sums = map[int]string{}, map[int][32]byte{}
	for i := k; i < r.Count && !stop.Load(); i += n {
		if err := ctx.Err(); err != nil {
			return err
		}
		name, size, seed := smallFile(r, i)
		path := filepath.Join(r.Dir, name)
		c := newContent(seed)
		if !r.Check {
			c.fill(buf[:size], 0)
			t := time.Now()
			if err := writeFile(path, buf[:size], i == 0); err != nil {
				return err
			}
			p.slowest = max(p.slowest, time.Since(t))
			p.count++
			p.bytes += size
			continue
		}
		t := time.Now()
		diff, export := "", ""
		if r.Export != "" {
			export = filepath.Join(r.Export, name)
		}
		got, err := readFile(path, buf[:size+1], export, &diff)
		p.slowest = max(p.slowest, time.Since(t))
		if errnoOf(err) == unix.ENOENT {
			p.wrong[i] = name + ": missing"
			continue
		}
		if err != nil {
			return err
		}
		p.count++
		p.bytes += int64(got)
		switch d := c.diff(buf[:min(int64(got), size)], 0); {
		case d >= 0:
			p.wrong[i] = fmt.Sprintf("%s: first differs at byte %d of %d (%s)", name, d, size, c.diagnose(buf[:got], 0, d, size))
		case int64(got) > size:
			p.wrong[i] = fmt.Sprintf("%s: longer than the %d bytes written", name, size)
		case int64(got) < size:
			p.wrong[i] = fmt.Sprintf("%s: has %d of %d bytes", name, got, size)
		case diff != "":
			p.wrong[i] = name + ": the client sees other attributes than the exported file has: " + diff
		default:
			continue
		}
		p.sums[i] = sha256.Sum256(buf[:got])
	}
	return nil
}

// filesSum gives the SHA-256 over the files as generated. It is remembered:
// the same files are written, read back and checked on the server.
func (w *work) filesSum(r *guestproto.Files) string {
	key := *r
	key.Dir, key.Export, key.Check, key.Parallel = "", "", false, 0
	w.sums.mu.Lock()
	defer w.sums.mu.Unlock()
	v, ok := w.sums.files[key]
	if !ok {
		v = sumFiles(r, nil, nil)
		if w.sums.files == nil || len(w.sums.files) > 256 {
			w.sums.files = map[guestproto.Files]string{}
		}
		w.sums.files[key] = v
	}
	return v
}

// sumFiles gives the SHA-256 over name and SHA-256 of the content of each
// file, in order. Wrong files count with what was read of them, missing ones
// not at all.
func sumFiles(r *guestproto.Files, wrong map[int]string, sums map[int][32]byte) string {
	h := sha256.New()
	buf := make([]byte, r.MaxSize)
	for i := range r.Count {
		name, size, seed := smallFile(r, i)
		sum, read := sums[i]
		if !read {
			if wrong[i] != "" {
				continue
			}
			newContent(seed).fill(buf[:size], 0)
			sum = sha256.Sum256(buf[:size])
		}
		h.Write([]byte(name + "\x00"))
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// extraFiles notes the entries of r.Dir that the workload did not make.
// Files that NFS renamed because they were open when removed are no fault.
func extraFiles(r *guestproto.Files, res *guestproto.FilesResult) error {
	entries, err := os.ReadDir(r.Dir)
	if err != nil {
		if res.WrongN > 0 {
			return nil // the folder is gone, and each file was missed above
		}
		return ioError(err, pathOnNFS(r.Dir), "cannot list %s", r.Dir)
	}
	ours := make(map[string]bool, r.Count)
	for i := range r.Count {
		name, _, _ := smallFile(r, i)
		ours[name] = true
	}
	listed := 0
	note := func(s string) {
		res.WrongN++
		if len(res.Wrong) < maxWrong {
			res.Wrong = append(res.Wrong, s)
		}
	}
	for _, e := range entries {
		switch {
		case ours[e.Name()]:
			listed++
		case strings.HasPrefix(e.Name(), ".nfs"):
		default:
			note(e.Name() + ": in the folder, but never written")
		}
	}
	// Missing ones were found by opening them; a file that opens but is not
	// listed is a fault of READDIR.
	if listed < r.Count && res.WrongN == 0 {
		note(fmt.Sprintf("the folder lists %d of %d files", listed, r.Count))
	}
	return nil
}

func writeFile(path string, b []byte, owner bool) error {
	f, err := openFile(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if err != nil {
		return ioError(err, pathOnNFS(path), "cannot make %s", path)
	}
	nfs := onNFS(f)
	if owner && nfs {
		if err := checkOwner(f); err != nil {
			f.Close()
			return err
		}
	}
	for done := 0; done < len(b); {
		n, err := pwrite(f, b[done:], int64(done))
		if err != nil || n == 0 {
			f.Close()
			return ioError(err, nfs, "%s: writing %d bytes at offset %d failed", path, len(b)-done, done)
		}
		done += n
	}
	if err := f.Close(); err != nil {
		return ioError(err, nfs, "%s: close after %d bytes failed", path, len(b))
	}
	return nil
}

// readFile fills b as far as the file goes. With the path of the exported file
// it also says in what the attributes differ.
func readFile(path string, b []byte, export string, diff *string) (int, error) {
	f, err := openFile(path, unix.O_RDONLY)
	if err != nil {
		if errnoOf(err) == unix.ENOENT {
			return 0, err
		}
		return 0, ioError(err, pathOnNFS(path), "cannot open %s", path)
	}
	defer f.Close()
	if export != "" {
		if *diff, err = otherAttributes(f, export); err != nil {
			return 0, err
		}
	}
	done := 0
	for done < len(b) {
		n, err := pread(f, b[done:], int64(done))
		if err != nil {
			return done, ioError(err, onNFS(f), "%s: reading at offset %d failed", path, done)
		}
		if n == 0 {
			break
		}
		done += n
	}
	return done, nil
}

// remove serves VerbRemove: everything below Dir goes, Dir stays.
func (w *work) remove(ctx context.Context, r *guestproto.Remove, log func(string)) (any, error) {
	dir := filepath.Clean(r.Dir)
	// One level below the root are the guest's own folders, except for mount
	// points and exports, which plans name.
	switch dir {
	case "/", ".", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var":
		return nil, usagef("refusing to remove everything below %q", r.Dir)
	}
	if !filepath.IsAbs(dir) {
		return nil, usagef("the folder %q is not absolute", r.Dir)
	}
	entries, err := os.ReadDir(dir)
	if errnoOf(err) == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, ioError(err, pathOnNFS(dir), "cannot list %s", dir)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return nil, ioError(err, pathOnNFS(dir), "cannot remove %s", filepath.Join(dir, e.Name()))
		}
	}
	return nil, nil
}
