// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchcheck/internal/cache"
	"patchcheck/internal/kernel"
)

// A clang that the tree refuses compiles nothing, which must not be taken for
// a variant without the touched sources.
func TestClangTooOld(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Makefile": "VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\nEXTRAVERSION =\n",
		"Kconfig":  "\n", "Kbuild": "\n", "MAINTAINERS": "\n", "scripts/Kbuild.include": "\n",
		"scripts/min-tool-version.sh": "case \"$1\" in\ngcc)\n\techo 8.1.0\n\t;;\nllvm)\n\tif [ \"$SRCARCH\" = loongarch ]; then\n\t\techo 18.0.0\n\telse\n\t\techo 17.0.1\n\tfi\n\t;;\nesac\n",
	} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tree, err := kernel.Resolve(context.Background(), c, dir, kernel.TreeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	for version, old := range map[string]bool{"Debian clang version 14.0.6": true, "clang version 17.0.0": true, "clang version 17.0.1": false, "clang version 19.1.7 (3)": false, "": false} {
		err := tooOld(tree, version)
		if (err != nil) != old || old && !strings.Contains(err.Error(), "17.0.1") {
			t.Errorf("%q: %v", version, err)
		}
	}
}
