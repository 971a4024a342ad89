// SPDX-License-Identifier: Apache-2.0

// Package casestest finds the public cases beside the checkout, for tests only.
package casestest

import (
	"os"
	"path/filepath"
	"testing"
)

// Dir is the folder sub ("samples", "suites/console") of the public cases. Where
// they are not beside the checkout, the test is skipped with a message.
func Dir(t testing.TB, sub string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		p := filepath.Join(dir, "shared", "cases", sub)
		if fi, err := os.Stat(p); err == nil && fi.IsDir() {
			return p
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Skip("no shared/cases folder beside the checkout")
		}
		dir = up
	}
}
