// SPDX-License-Identifier: Apache-2.0

// Package sharedtest finds the public cases and seeds beside the checkout, for
// tests only.
package sharedtest

import (
	"os"
	"path/filepath"
	"testing"
)

// Path is the file or folder elem ("cases", "suites", "console") of the folder
// shared, in the nearest folder above the test that has it. Where none has it,
// the test is skipped with a message.
func Path(t testing.TB, elem ...string) string {
	t.Helper()
	p, ok := Find(elem...)
	if !ok {
		t.Skipf("no %s beside the checkout", filepath.Join(append([]string{"shared"}, elem...)...))
	}
	return p
}

// Find is Path for tests that have input of their own, too.
func Find(elem ...string) (path string, ok bool) {
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for ; ; dir = filepath.Dir(dir) {
		p := filepath.Join(append([]string{dir, "shared"}, elem...)...)
		if _, err := os.Stat(p); err == nil {
			return p, true
		}
		if dir == filepath.Dir(dir) {
			return "", false
		}
	}
}
