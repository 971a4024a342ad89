// SPDX-License-Identifier: Apache-2.0

package variants

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// CopyBuild makes the object folder to out of the built folder from, for a
// variant whose Seed is the variant that was built there. Configured anew, it
// needs no host tools built and compiles only the objects that see a symbol
// which differs: kbuild records for each object which symbols it depends on.
// The ledger of the new variant therefore begins as a clone of the seed's.
//
// Times are kept, since make decides by them. Commands recorded with an
// absolute path of the object folder, objtool's, are made to name the new one.
// to must not exist; a copy that failed is removed.
func CopyBuild(from, to string) (err error) {
	from, to = filepath.Clean(from), filepath.Clean(to)
	if err := os.Mkdir(to, 0o755); err != nil {
		return fmt.Errorf("cannot make the object folder of a variant: %w", err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(to)
			err = fmt.Errorf("cannot copy the object folder %s: %w", from, err)
		}
	}()
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	type stamp struct {
		path string
		info fs.FileInfo
	}
	var folders []stamp
	err = filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil || rel == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			folders = append(folders, stamp{rel, info})
			return root.Mkdir(rel, info.Mode().Perm()|0o700)
		case info.Mode()&fs.ModeSymlink != 0:
			link, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return root.Symlink(link, rel)
		case !info.Mode().IsRegular():
			return nil // no build leaves any
		}
		if err := copyFile(root, p, rel, from, to, info); err != nil {
			return err
		}
		return root.Chtimes(rel, info.ModTime(), info.ModTime())
	})
	if err != nil {
		return err
	}
	for i := len(folders) - 1; i >= 0; i-- {
		if err := root.Chtimes(folders[i].path, folders[i].info.ModTime(), folders[i].info.ModTime()); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(root *os.Root, src, rel, from, to string, info fs.FileInfo) error {
	out, err := root.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	if strings.HasSuffix(rel, ".cmd") {
		b, rerr := os.ReadFile(src)
		if err = rerr; err == nil {
			_, err = out.Write(bytes.ReplaceAll(b, []byte(from+"/"), []byte(to+"/")))
		}
	} else {
		in, oerr := os.Open(src)
		if err = oerr; err == nil {
			_, err = io.Copy(out, in)
			in.Close()
		}
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}
