// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// CheckPath says why a file name of a diff must not be used, or returns nil.
// It refuses what git's verify_path refuses on any platform (so that a series
// that passes here is safe for everyone who takes it), and also names that
// mean another place on some file system.
func CheckPath(name string) error {
	bad := func(format string, args ...any) error {
		return &PathError{Path: name, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case name == "":
		return bad("the name is empty")
	case strings.IndexByte(name, 0) >= 0:
		return bad("the name holds a NUL byte")
	case strings.HasPrefix(name, "/"):
		return bad("the name is absolute")
	case strings.HasPrefix(name, "~"):
		if strings.HasPrefix(name, "~/") {
			return bad("the name begins in a home folder")
		}
	case len(name) >= 2 && name[1] == ':' && (name[0]|0x20) >= 'a' && (name[0]|0x20) <= 'z':
		return bad("the name begins with a drive letter")
	}
	if strings.HasSuffix(name, "/") {
		return bad("the name ends in a slash")
	}
	// A backslash separates folders elsewhere: judge the name both ways.
	for _, sep := range []string{"/", "\\"} {
		if sep == "\\" && !strings.Contains(name, sep) {
			continue
		}
		n := strings.ReplaceAll(name, "\\", sep)
		if sep == "\\" {
			n = strings.ReplaceAll(name, "\\", "/")
			if strings.HasPrefix(n, "/") {
				return bad("the name is absolute where a backslash separates folders")
			}
		}
		for _, c := range strings.Split(n, "/") {
			if why := badComponent(c); why != "" {
				return bad("%s", why)
			}
		}
	}
	for _, r := range name {
		if r < 0x20 && r != '\t' || r == 0x7f {
			return bad("the name holds the control character %#x", r)
		}
	}
	if len(name) > 4095 {
		return bad("the name has %d bytes", len(name))
	}
	return nil
}

// badComponent judges one component of a path.
func badComponent(c string) string {
	switch c {
	case "":
		return "the name holds an empty folder name"
	case ".":
		return "the name holds a \".\" folder"
	case "..":
		return "the name leads out of the tree (\"..\")"
	}
	if len(c) > 255 {
		return "a part of the name has more than 255 bytes"
	}
	// What file systems drop or fold: case (HFS+, NTFS, casefold ext4),
	// invisible characters (HFS+), trailing dots and spaces and streams (NTFS).
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff, r == utf8.RuneError:
			return -1
		}
		return r
	}, strings.ToLower(c))
	if i := strings.IndexByte(plain, ':'); i >= 0 {
		plain = plain[:i]
	}
	trimmed := strings.TrimRight(plain, ". ")
	if trimmed == ".git" || trimmed == "git~1" {
		return fmt.Sprintf("the name leads into git's own folder (%q)", c)
	}
	if strings.Trim(c, ". ") == "" {
		return fmt.Sprintf("the part %q is a folder name that some file systems take for another", c)
	}
	return ""
}

// PathError is a file name that must not be used.
type PathError struct {
	Path   string
	Reason string
}

func (e *PathError) Error() string {
	return fmt.Sprintf("refusing the file name %q: %s", e.Path, e.Reason)
}

// parents calls fn with each leading folder of name, the longest first, until
// fn returns false.
func parents(name string, fn func(dir string) bool) {
	for d := path.Dir(name); d != "." && d != "/"; d = path.Dir(d) {
		if !fn(d) {
			return
		}
	}
}
