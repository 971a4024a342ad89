// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"patchcheck/internal/cache"
)

// folderFile is one file of a user's folder. Hash is trusted as long as the
// other fields are those of the file, the way git's index does it.
type folderFile struct {
	Size    int64
	MtimeNS int64
	CtimeNS int64
	Ino     uint64
	Mode    fs.FileMode // regular 0644 or 0755, or symbolic link
	Hash    string      // SHA-256 of the content, or of a link's target
}

// folderIndex describes a user's folder. It is kept in the cache, so that only
// files that changed are read again.
type folderIndex struct {
	Taken int64 // Unix nanoseconds of the scan
	Files map[string]folderFile
}

// buildProducts are left out of a copy: an in-tree build would make kbuild
// refuse an object folder beside the sources.
func buildProduct(rel string, d fs.DirEntry) bool {
	name := d.Name()
	if d.IsDir() {
		return name == ".git" || rel == "include/config" || rel == "include/generated" ||
			strings.HasPrefix(rel, "arch/") && strings.HasSuffix(rel, "/include/generated") || name == ".tmp_versions" || name == ".svn" || name == ".hg"
	}
	switch filepath.Ext(name) {
	case ".o", ".ko", ".a", ".cmd", ".mod", ".d", ".order", ".symvers", ".su", ".gcno", ".rej", ".orig":
		return true
	}
	switch rel {
	case ".config", ".config.old", "vmlinux", "System.map", ".version", ".missing-syscalls.d":
		return true
	}
	return strings.HasPrefix(rel, ".vmlinux") || strings.HasPrefix(rel, ".tmp_")
}

// Identify sets ID. For a folder that means reading what changed since the
// last time; other trees have theirs from the start.
func (t *Tree) Identify(ctx context.Context) error {
	if t.ID != "" {
		return nil
	}
	key := sha256.Sum256([]byte(t.Dir))
	store := t.cache.Path("trees", "folder-"+hex.EncodeToString(key[:8])+".index")
	old := &folderIndex{}
	if b, err := os.ReadFile(store); err == nil {
		if gob.NewDecoder(bytes.NewReader(b)).Decode(old) != nil {
			old = &folderIndex{}
		}
	}
	now := &folderIndex{Taken: time.Now().UnixNano(), Files: make(map[string]folderFile, len(old.Files))}
	changed := false
	err := filepath.WalkDir(t.Dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rel, err := filepath.Rel(t.Dir, p)
		if err != nil || rel == "." {
			return err
		}
		if buildProduct(rel, d) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		f := folderFile{Size: fi.Size(), MtimeNS: fi.ModTime().UnixNano()}
		if st, ok := fi.Sys().(*syscall.Stat_t); ok {
			f.CtimeNS, f.Ino = st.Ctim.Nano(), st.Ino
		}
		switch {
		case fi.Mode()&fs.ModeSymlink != 0:
			f.Mode = fs.ModeSymlink
		case fi.Mode().IsRegular():
			f.Mode = gitMode(fi.Mode())
		default:
			return nil // sockets, devices: no part of a source tree
		}
		o, have := old.Files[rel]
		f.Hash = o.Hash
		// A file changed at the very time of the last scan may have changed
		// again after it was read without its times showing that.
		const racy = int64(2 * time.Second)
		if !have || o != f || f.MtimeNS > old.Taken-racy || f.CtimeNS > old.Taken-racy {
			if f.Hash, err = hashSource(p, f.Mode); err != nil {
				return err
			}
			changed = true
		}
		now.Files[rel] = f
		return nil
	})
	if err != nil {
		return &TreeError{Spec: t.Spec, Msg: "cannot be read", Err: err}
	}
	if changed || len(now.Files) != len(old.Files) {
		var b bytes.Buffer
		if err := gob.NewEncoder(&b).Encode(now); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(store), 0o755); err == nil {
			// A cache that cannot be written makes the next scan slow, no more.
			_ = cache.WriteFile(store, b.Bytes(), 0o644)
		}
	}
	names := make([]string, 0, len(now.Files))
	for n := range now.Files {
		names = append(names, n)
	}
	sort.Strings(names)
	h := sha256.New()
	for _, n := range names {
		fmt.Fprintf(h, "%s\x00%o\x00%s\n", n, now.Files[n].Mode, now.Files[n].Hash)
	}
	t.index = now
	t.ID = "folder:" + hex.EncodeToString(h.Sum(nil))
	return nil
}

func hashSource(p string, mode fs.FileMode) (string, error) {
	h := sha256.New()
	if mode&fs.ModeSymlink != 0 {
		target, err := os.Readlink(p)
		if err != nil {
			return "", err
		}
		io.WriteString(h, target)
	} else {
		f, err := os.Open(p)
		if err != nil {
			return "", err
		}
		defer f.Close()
		if _, err := io.Copy(h, f); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
