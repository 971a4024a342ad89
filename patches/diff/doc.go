// SPDX-License-Identifier: Apache-2.0

// Package diff reads unified diffs, finds where their hunks belong in a tree,
// applies them to an overlay of that tree and says what became of each file
// and hunk. Nothing is written.
package diff
