// SPDX-License-Identifier: Apache-2.0

// Package cache owns the layout and the integrity of patchcheck's cache
// folder: sections of entries that are either whole or absent, locks between
// processes, sizes and clean-up. It knows nothing of what an entry holds.
//
// An entry is written to a temporary name, synced, given a mark with the
// SHA-256 of every file and renamed into place, so that neither kill -9 nor a
// power cut leaves half an entry. A temporary file or folder is held by a lock
// while its writer lives; Sweep removes those without one.
package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// MarkName is the file that makes an entry valid.
const MarkName = ".complete"

// tmpPrefix begins the names of entries that are being written.
const tmpPrefix = ".tmp-"

// markVersion is raised when the meaning of a mark changes; entries of another
// version count as absent.
const markVersion = 1

// Cache is the cache folder.
type Cache struct {
	root string

	// Notice is told what the user should know and nobody else says: an entry
	// that is damaged, a layout that was renewed. May be nil; set it before use.
	Notice func(line string)
	notes  []string // from Open, before there was a Notice
}

// Notices returns what Open had to say.
func (c *Cache) Notices() []string { return c.notes }

// DefaultRoot is $PATCHCHECK_CACHE, else $XDG_CACHE_HOME/patchcheck, else
// ~/.cache/patchcheck.
func DefaultRoot() (string, error) {
	if p := os.Getenv("PATCHCHECK_CACHE"); p != "" {
		return filepath.Abs(p)
	}
	if p := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(p) {
		return filepath.Join(p, "patchcheck"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no place for the cache: %w; set PATCHCHECK_CACHE to a folder", err)
	}
	return filepath.Join(home, ".cache", "patchcheck"), nil
}

// Open makes the folder if need be. An empty root means DefaultRoot. A cache
// that cannot be written is not an error here: whole entries can still be used.
func Open(root string) (*Cache, error) {
	if root == "" {
		var err error
		if root, err = DefaultRoot(); err != nil {
			return nil, err
		}
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	// Command lines of make carry this path: colons, spaces and the like break it.
	if i := strings.IndexFunc(root, func(r rune) bool { return r <= ' ' || strings.ContainsRune(`:#$%'"\*?`, r) }); i >= 0 {
		return nil, fmt.Errorf("cache folder %q holds the character %q, which make cannot cope with; set PATCHCHECK_CACHE to another folder", root, root[i])
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, explain(fmt.Errorf("cannot make the cache folder: %w; set PATCHCHECK_CACHE to a folder that can be written", err), filepath.Dir(root))
	}
	// Builds go by absolute paths, so the one that make sees has to be the real one.
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, err
	}
	c := &Cache{root: root}
	if err := c.checkLayout(layoutVersion); err != nil {
		return nil, err
	}
	c.Sweep()
	return c, nil
}

// Root is the absolute path of the cache folder.
func (c *Cache) Root() string { return c.root }

// Path joins elem below the root.
func (c *Cache) Path(elem ...string) string {
	return filepath.Join(append([]string{c.root}, elem...)...)
}

// mark is the content of MarkName.
type mark struct {
	Version int                 `json:"version"`
	Files   map[string]markFile `json:"files,omitempty"` // nil: the entry is too large to list (Light)
	// Of a Light entry: number and total size of its files. 0: not recorded.
	Count int   `json:"count,omitempty"`
	Bytes int64 `json:"bytes,omitempty"`
}

type markFile struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Option changes how an entry is written.
type Option int

// Light leaves out the hashes: for entries of very many files, such as a
// kernel tree, which would take longer to check than to use. Number and sizes
// of its files are checked once after each boot of the host, as a power cut is
// what loses them.
const Light Option = 1

// Put makes entry key of section with fill, which gets an empty folder. An
// entry of that name that another process finished meanwhile wins and fill's
// work is dropped. The path of the entry is returned.
func (c *Cache) Put(section, key string, fill func(dir string) error, opts ...Option) (string, error) {
	dest := c.Path(section, key)
	if err := os.MkdirAll(c.Path(section), 0o755); err != nil {
		return "", explain(fmt.Errorf("cannot write to the cache: %w", err), c.root)
	}
	tmp, held, err := TempDir(c.Path(section), tmpPrefix+key+"-")
	if err != nil {
		return "", explain(fmt.Errorf("cannot write to the cache: %w", err), c.root)
	}
	defer held.Close()
	defer RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return "", err
	}
	if err := fill(tmp); err != nil {
		return "", explain(err, c.root)
	}
	m := mark{Version: markVersion}
	light := len(opts) > 0 && opts[0] == Light
	if light {
		m.Count, m.Bytes, err = countAll(tmp)
	} else {
		m.Files, err = hashAll(tmp)
	}
	if err != nil {
		return "", err
	}
	b, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(tmp, MarkName), b, 0o644); err != nil {
		return "", explain(err, c.root)
	}
	if err := syncTree(tmp, light); err != nil {
		return "", explain(err, c.root)
	}
	if _, err := c.Lookup(section, key); err == nil {
		return dest, nil
	}
	if err := RemoveAll(dest); err != nil {
		return "", err
	}
	if err := os.Rename(tmp, dest); err != nil {
		if _, lerr := c.Lookup(section, key); lerr == nil {
			return dest, nil // another process was faster
		}
		return "", fmt.Errorf("cannot put %s/%s into the cache: %w", section, key, err)
	}
	return dest, syncDir(c.Path(section))
}

// ErrAbsent is returned by Lookup when there is no entry.
var ErrAbsent = errors.New("not in the cache")

// DamagedError is an entry that is there and not what was written.
type DamagedError struct {
	Path   string
	Reason string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("cache entry %s is damaged: %s", e.Path, e.Reason)
}

// Lookup returns the path of an entry after checking it: every listed file
// must have its size and SHA-256. An absent entry is ErrAbsent, one of another
// version too, a damaged one a *DamagedError, of which Notice is told; Put
// replaces it.
func (c *Cache) Lookup(section, key string) (string, error) {
	dir, err := c.lookup(section, key)
	var d *DamagedError
	if errors.As(err, &d) && c.Notice != nil {
		c.Notice(d.Error() + "; it is made again")
	}
	return dir, err
}

func (c *Cache) lookup(section, key string) (string, error) {
	dir := c.Path(section, key)
	b, err := os.ReadFile(filepath.Join(dir, MarkName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", ErrAbsent
	}
	if err != nil {
		return "", err
	}
	var m mark
	if err := json.Unmarshal(b, &m); err != nil {
		return "", &DamagedError{dir, "its mark cannot be read: " + err.Error()}
	}
	if m.Version != markVersion {
		return "", ErrAbsent
	}
	names := make([]string, 0, len(m.Files))
	for n := range m.Files {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		size, sum, err := hashFile(filepath.Join(dir, n))
		switch {
		case err != nil:
			return "", &DamagedError{dir, err.Error()}
		case size != m.Files[n].Size || sum != m.Files[n].SHA256:
			return "", &DamagedError{dir, n + " differs from what was written"}
		}
	}
	if m.Count > 0 {
		if err := c.checkLight(dir, m); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// checkedName holds the id of the host's boot in which a Light entry was
// checked last.
const checkedName = ".checked"

func (c *Cache) checkLight(dir string, m mark) error {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err == nil {
		if b, err := os.ReadFile(filepath.Join(dir, checkedName)); err == nil && string(b) == string(boot) {
			return nil
		}
	}
	n, size, err := countAll(dir)
	switch {
	case err != nil:
		return &DamagedError{dir, err.Error()}
	case n != m.Count || size != m.Bytes:
		return &DamagedError{dir, fmt.Sprintf("%d files of %d bytes are there, %d of %d were written", n, size, m.Count, m.Bytes)}
	}
	if boot != nil {
		// Where it cannot be kept, the next use checks again.
		_ = WriteFile(filepath.Join(dir, checkedName), boot, 0o644)
	}
	return nil
}

// countAll counts what is in an entry but for our own files at its top.
func countAll(dir string) (n int, size int64, err error) {
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if filepath.Dir(p) == dir && (d.Name() == MarkName || d.Name() == checkedName || strings.HasPrefix(d.Name(), newPrefix)) {
			return nil
		}
		n++
		if d.Type().IsRegular() {
			fi, err := d.Info()
			if err != nil {
				return err
			}
			size += fi.Size()
		}
		return nil
	})
	return n, size, err
}

// Remove deletes an entry unless it is in use.
func (c *Cache) Remove(section, key string) error {
	dir := c.Path(section, key)
	l, err := lockDir(dir, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s/%s: %w", section, key, err)
	}
	defer l.Close()
	// Renamed first, so that a removal that is interrupted leaves no half entry.
	gone, held, err := TempDir(c.Path(section), tmpPrefix+"gone-")
	if err != nil {
		return explain(err, c.root)
	}
	defer held.Close()
	if err := os.Rename(dir, filepath.Join(gone, "x")); err != nil {
		os.Remove(gone)
		return err
	}
	return RemoveAll(gone)
}

// Hold keeps an entry from being removed until the lock is closed.
func (c *Cache) Hold(section, key string) (io.Closer, error) {
	return lockDir(c.Path(section, key), unix.LOCK_SH|unix.LOCK_NB)
}

// Usage is the size of one entry.
type Usage struct {
	Section string
	Key     string
	Bytes   int64 // allocated blocks; a file with several links counts once
	Used    int64 // Unix seconds of the latest use, as far as known
}

// Usage lists every entry of every section with its size, largest first.
func (c *Cache) Usage() ([]Usage, error) {
	secs, err := os.ReadDir(c.root)
	if err != nil {
		return nil, err
	}
	seen := map[[2]uint64]bool{}
	var all []Usage
	for _, s := range secs {
		if !s.IsDir() || strings.HasPrefix(s.Name(), ".") {
			continue
		}
		ents, err := os.ReadDir(c.Path(s.Name()))
		if err != nil {
			continue
		}
		for _, e := range ents {
			u := Usage{Section: s.Name(), Key: e.Name()}
			top := c.Path(s.Name(), e.Name())
			if fi, err := os.Stat(filepath.Join(top, MarkName)); err == nil {
				u.Used = fi.ModTime().Unix()
			} else if fi, err := e.Info(); err == nil {
				u.Used = fi.ModTime().Unix()
			}
			filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
				if err != nil {
					return nil
				}
				var st unix.Stat_t
				if unix.Lstat(p, &st) != nil {
					return nil
				}
				if st.Nlink > 1 && !d.IsDir() {
					id := [2]uint64{uint64(st.Dev), st.Ino}
					if seen[id] {
						return nil
					}
					seen[id] = true
				}
				u.Bytes += st.Blocks * 512
				return nil
			})
			all = append(all, u)
		}
	}
	sort.Slice(all, func(i, j int) bool {
		if all[i].Bytes != all[j].Bytes {
			return all[i].Bytes > all[j].Bytes
		}
		return all[i].Section+all[i].Key < all[j].Section+all[j].Key
	})
	return all, nil
}

// Touch records the use of an entry for Usage. Failures do not matter.
func (c *Cache) Touch(section, key string) {
	unix.UtimesNanoAt(unix.AT_FDCWD, c.Path(section, key, MarkName), []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}, 0)
}

// RemoveAll is os.RemoveAll that also deletes folders without write
// permission, which source packages may hold.
func RemoveAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(p, 0o755)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// Free tells how much room is left where path is: "12.3 GiB free".
func Free(path string) string {
	n, err := FreeBytes(path)
	if err != nil {
		return "free space unknown"
	}
	return fmt.Sprintf("%.1f GiB free", float64(n)/(1<<30))
}

// FreeBytes is the room left for an ordinary user where path is.
func FreeBytes(path string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

func hashAll(dir string) (map[string]markFile, error) {
	files := map[string]markFile{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		size, sum, err := hashFile(p)
		files[rel] = markFile{size, sum}
		return err
	})
	return files, err
}

func hashFile(path string) (int64, string, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return n, hex.EncodeToString(h.Sum(nil)), err
}

// syncTree makes a folder durable: file by file, or the whole file system at
// once where there are very many.
func syncTree(dir string, whole bool) error {
	if whole {
		f, err := os.Open(dir)
		if err != nil {
			return err
		}
		defer f.Close()
		return unix.Syncfs(int(f.Fd()))
	}
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Type().IsRegular() || d.IsDir() {
			return syncDir(p)
		}
		return nil
	})
}

func syncDir(p string) error {
	f, err := os.Open(p)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
