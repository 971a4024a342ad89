// SPDX-License-Identifier: Apache-2.0

//go:build integration

package run

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/view"
)

// TestShardsEndToEnd runs the bundled series in two shards, each from nothing
// but its spec, and puts them together. The whole run afterwards takes over
// their answers and must say the same.
func TestShardsEndToEnd(t *testing.T) {
	o := options(t)
	o.Plan = plan(t)
	o.Device, o.NFS = []string{"intel-216", "intel-48"}, []string{"3"}
	specs, err := Specs(context.Background(), o, 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(specs) != 2 {
		t.Fatalf("%d shards", len(specs))
	}
	answers := t.TempDir()
	for _, s := range specs {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		read, err := ReadSpec("spec", bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		so, err := read.Options(Options{CacheDir: e2eCache, RunsDir: filepath.Join(answers, "shard"), Agent: e2eAgent, Tool: "test", View: view.New(testWriter{t})})
		if err != nil {
			t.Fatal(err)
		}
		r := mustRun(t, so)
		if len(r.Cells) != len(s.Shard.Cells) || r.Shard == nil {
			t.Errorf("%d cells, want %v", len(r.Cells), s.Shard.Cells)
		}
	}
	merged, notes, err := Merge([]string{answers}, t.TempDir(), "test", []string{"merge"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if merged.Verdict != checks.Pass || len(notes) > 0 {
		t.Errorf("%s %q, notes %v", merged.Verdict, merged.Reason, notes)
	}
	o.View = view.New(testWriter{t})
	one := mustRun(t, o)
	for _, format := range []string{"cover", "patch", "markdown"} {
		if got, want := rendered(t, merged, format), rendered(t, one, format); got != want {
			t.Errorf("%s differs:\n%s\n--- want\n%s", format, got, want)
		}
	}
	if one.Verdict != merged.Verdict || one.PlanID != merged.PlanID || one.Series.ID != merged.Series.ID {
		t.Errorf("the whole run: %s, plan %.12s, series %.12s", one.Verdict, one.PlanID, one.Series.ID)
	}
}
