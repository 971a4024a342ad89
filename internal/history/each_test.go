// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"path/filepath"
	"testing"

	"patchcheck/internal/runfolder"
)

func TestEachCount(t *testing.T) {
	ctx := context.Background()
	db := open(t, filepath.Join(t.TempDir(), "h.db"))
	for day := range 3 {
		r := &runfolder.Run{ID: "run-" + string(rune('a'+day)), Started: day0.AddDate(0, 0, day)}
		fill(r, day, 2)
		if err := db.Record(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	n, last := 0, int64(0)
	err := db.EachCount(ctx, func(run, cell, name string, value int64) {
		n++
		if run == "run-c" && cell == "patched/dev-00/v3" && name == "by_reference" {
			last = value
		}
	})
	if err != nil || n != 3*2*4 || last != 2050 {
		t.Errorf("%d counts, by_reference %d, %v", n, last, err)
	}
}
