// SPDX-License-Identifier: Apache-2.0

package diff

import "errors"

type binaryPatch struct{}

// Parse reads all file changes of b.
func Parse(b []byte) ([]*File, error) { return nil, errors.New("diff: not implemented yet") }

// Overlay is a Tree over a Tree.
type Overlay struct{ base Tree }

// NewOverlay returns an overlay of t that changes nothing.
func NewOverlay(t Tree) *Overlay { return &Overlay{base: t} }

// Options choose how Apply works.
type Options struct{}

// Apply applies one patch.
func Apply(t *Overlay, files []*File, opts Options) (*Overlay, *Result, error) {
	return t, nil, errors.New("diff: not implemented yet")
}
