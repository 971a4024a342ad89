// SPDX-License-Identifier: Apache-2.0

// Package initramfs owns the writing of initramfs archives (kernel
// Documentation/driver-api/early-userspace/buffer-format.rst): newc cpio whose
// bytes depend on the content alone, so equal content gives equal archives.
// Archives may be joined end to end; a later one adds to or replaces files of
// the earlier ones.
package initramfs

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/cavaliergopher/cpio"
)

// Entry is one file, folder or symbolic link, owned by root.
type Entry struct {
	Mode   fs.FileMode // type and permission bits; 0 type is a regular file
	Data   []byte      // content of a regular file
	Target string      // of a symbolic link
}

// Tree is a root file system by path, without leading slash. Parents that are
// not named are made, with mode 0755.
type Tree map[string]Entry

// File adds a regular file.
func (t Tree) File(name string, mode fs.FileMode, data []byte) {
	t[clean(name)] = Entry{Mode: mode & fs.ModePerm, Data: data}
}

// Dir adds a folder.
func (t Tree) Dir(name string, mode fs.FileMode) {
	t[clean(name)] = Entry{Mode: fs.ModeDir | mode&(fs.ModePerm|fs.ModeSticky)}
}

// Link adds a symbolic link.
func (t Tree) Link(name, target string) {
	t[clean(name)] = Entry{Mode: fs.ModeSymlink | 0o777, Target: target}
}

func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// Write writes t as an archive, ordered by path, all times zero.
func (t Tree) Write(w io.Writer) error {
	all := maps.Clone(t)
	for name := range t {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, ok := all[dir]; !ok {
				all[dir] = Entry{Mode: fs.ModeDir | 0o755}
			}
		}
	}
	cw := cpio.NewWriter(w)
	// Sorted paths put a folder before what it holds.
	for i, name := range slices.Sorted(maps.Keys(all)) {
		e := all[name]
		h := &cpio.Header{Name: name, Inode: int64(i + 1), Links: 1, Mode: cpio.FileMode(e.Mode.Perm())}
		switch e.Mode.Type() {
		case 0:
			h.Mode |= cpio.TypeReg
			h.Size = int64(len(e.Data))
		case fs.ModeDir:
			h.Mode |= cpio.TypeDir
			h.Links = 2
			if e.Mode&fs.ModeSticky != 0 {
				h.Mode |= cpio.ModeSticky
			}
		case fs.ModeSymlink:
			h.Mode |= cpio.TypeSymlink
			h.Linkname = e.Target
			h.Size = int64(len(e.Target))
		default:
			return fmt.Errorf("initramfs: %s: cannot hold a %v", name, e.Mode.Type())
		}
		if err := cw.WriteHeader(h); err != nil {
			return fmt.Errorf("initramfs: %s: %w", name, err)
		}
		data := e.Data
		if e.Mode.Type() == fs.ModeSymlink {
			data = []byte(e.Target) // the library leaves writing it to us
		}
		if len(data) > 0 {
			if _, err := cw.Write(data); err != nil {
				return fmt.Errorf("initramfs: %s: %w", name, err)
			}
		}
	}
	if err := cw.Close(); err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	return nil
}

// Bytes is the archive, padded so that another may follow it.
func (t Tree) Bytes() ([]byte, error) {
	var b bytes.Buffer
	if err := t.Write(&b); err != nil {
		return nil, err
	}
	b.Write(make([]byte, Padding(int64(b.Len()))))
	return b.Bytes(), nil
}

// Compressed is the archive as one gzip member, the one compression every
// kernel config of ours can read.
func (t Tree) Compressed(level int) ([]byte, error) {
	var b bytes.Buffer
	zw, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		return nil, err
	}
	if err := t.Write(zw); err != nil {
		return nil, err
	}
	if err := zw.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Padding is how many zero bytes follow an archive of n bytes before the next
// may begin.
func Padding(n int64) int64 { return (4 - n%4) % 4 }
