// SPDX-License-Identifier: Apache-2.0

package diff

import "io/fs"

// Tree is a source tree that is only read. Paths are slash-separated and
// relative to its top.
type Tree interface {
	// ReadFile returns a file's content and mode without following a symbolic
	// link: of a link the content is its target and the mode has
	// fs.ModeSymlink. The error of an absent file matches fs.ErrNotExist.
	ReadFile(path string) (content []byte, mode fs.FileMode, err error)
}
