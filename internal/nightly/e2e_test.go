// SPDX-License-Identifier: Apache-2.0

//go:build integration

package nightly

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/cache"
	"patchcheck/internal/history"
	"patchcheck/internal/mutants"
	"patchcheck/internal/run"
	"patchcheck/internal/view"
	"patchcheck/patches/bundled"
	"patchcheck/vm/image"
)

// Three nights on the real kernel: a good series, one with a seeded fault in
// its third of four patches, and the series without it again. One device, NFS
// 3, an eighth of the plan's I/O.
//
//	go test -tags integration -run TestThreeNights -v ./internal/nightly

// offline is the real engine without the network: trees are taken as they are
// in the cache.
type offline struct{ *engine }

func (e offline) Fetch(ctx context.Context, spec, base string) (Tip, error) {
	t, _, err := e.tree(ctx, spec, base, false)
	if err != nil {
		return Tip{}, err
	}
	defer t.Close()
	return Tip{t.ID, t.Commit, t.Version}, nil
}

// smallWork are edits of the bundled plan that leave an eighth of its I/O.
var smallWork = strings.NewReplacer(
	"size: 8MiB", "size: 1MiB", "count: 200", "count: 20",
	"inline > 1000", "inline > 100", "by_reference >= 2048", "by_reference >= 500",
)

func TestThreeNights(t *testing.T) {
	ctx := t.Context()
	root, err := cache.DefaultRoot()
	if err != nil {
		t.Fatal(err)
	}
	agent, err := image.BuildAgent(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	base, err := bundled.Series(bundled.Example)
	if err != nil {
		t.Fatal(err)
	}
	all, err := mutants.Load("../../testdata/mutants")
	if err != nil {
		t.Fatal(err)
	}
	with := func(mails [][]byte, names ...string) [][]byte {
		for _, n := range names {
			found := false
			for _, m := range all {
				if m.Name == n {
					if mails, err = m.Series(mails); err != nil {
						t.Fatal(err)
					}
					found = true
				}
			}
			if !found {
				t.Fatalf("no mutant %s", n)
			}
		}
		return mails
	}
	dir, err := os.MkdirTemp("", "three-nights-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the nights are kept in %s", dir)
			return
		}
		os.RemoveAll(dir)
	})
	mailDir := filepath.Join(dir, "mails")
	write := func(mails [][]byte) {
		if err := os.RemoveAll(mailDir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(mailDir, 0o755); err != nil {
			t.Fatal(err)
		}
		for i, m := range mails {
			if err := os.WriteFile(filepath.Join(mailDir, fmt.Sprintf("%04d.patch", i+1)), m, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	plan, err := os.ReadFile("../../testplans/svcrdma-inline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	small := smallWork.Replace(string(plan))
	if small == string(plan) {
		t.Fatal("the plan was not made smaller")
	}
	if err := os.WriteFile(filepath.Join(dir, "small.yaml"), []byte(small), 0o644); err != nil {
		t.Fatal(err)
	}
	// Neither the cache nor anybody's run folders are cleared up by a test.
	config := `disk: {cache_days: -1, min_free: 1MiB}
trees: [{name: stable, from: 'debian:linux-source-7.3'}]
series: [{name: inline, from: mails}]
plans: [{name: small, plan: ./small.yaml, device: [intel-216], nfs: ['3']}]
`
	if err := os.WriteFile(filepath.Join(dir, "nightly.yaml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := LoadConfig(filepath.Join(dir, "nightly.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := history.Open(ctx, filepath.Join(dir, "history.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	day := time.Date(2026, 12, 1, 2, 0, 0, 0, time.UTC)
	runs := filepath.Join(dir, "runs")
	night := func() (*Result, []history.Run) {
		began := time.Now()
		n := &Nightly{Config: c, DB: db, Engine: offline{&engine{root, runs}}, Now: func() time.Time { return day }, Log: func(l string) { t.Log(l) },
			Base: run.Options{CacheDir: root, RunsDir: runs, Agent: agent, Tool: "test", View: view.New(io.Discard)}}
		r, err := n.Run(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("in %v:\n%s", time.Since(began).Round(time.Second), r.Text())
		rs, err := db.Runs(ctx, history.Filter{Night: r.Night.ID})
		if err != nil {
			t.Fatal(err)
		}
		day = day.AddDate(0, 0, 1)
		return r, rs
	}
	const cell = "patched/intel-216/v3"
	facts := func(id string) *history.Facts {
		f, err := db.Facts(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}

	// The first night: good.
	write(with(base, "harmless-comment"))
	r, _ := night()
	if j := r.Jobs[0]; j.State != history.Done || j.Verdict != checks.Pass || r.Worse() {
		t.Fatalf("first night: %+v", j)
	}
	good := facts(r.Jobs[0].Run)

	// The second: a fault in the third of four patches.
	write(with(base, "short-reply-corrupted", "harmless-comment"))
	r, rs := night()
	j := r.Jobs[0]
	if j.State != history.Done || j.Verdict != checks.Fail || !r.Worse() {
		t.Fatalf("second night: %+v", j)
	}
	if j.Culprit.Patch != 3 || j.Culprit.Subject != "svcrdma: Pull up a Reply with one copy" || j.Culprit.Cell != cell {
		t.Errorf("culprit: %+v", j.Culprit)
	}
	if s := r.Text(); !strings.Contains(s, "NEW FAILURE  "+cell+": FAIL") || !strings.Contains(s, "culprit      patch 3: svcrdma: Pull up a Reply with one copy, seen in "+cell) {
		t.Errorf("second night says:\n%s", s)
	}
	bad := facts(j.Run)
	for _, b := range bad.Builds {
		if b.Patch <= 2 && !b.Reused {
			t.Errorf("the kernel after patch %d was built again", b.Patch)
		}
	}
	for _, x := range bad.Cells {
		if strings.HasPrefix(x.ID, "base/") && x.Reused == "" {
			t.Errorf("%s was run again although the base kernel is the same", x.ID)
		}
	}
	// The search: patch 3 fails, patch 2 does not; every kernel was there.
	sought := map[string]checks.Verdict{}
	for _, x := range rs {
		if x.ID == j.Run {
			continue
		}
		f := facts(x.ID)
		if f.Built != 0 {
			t.Errorf("%s: %d kernels were built for the search", x.Target.Series, f.Built)
		}
		if c := f.Cell(cell); c != nil {
			sought[x.Target.Series] = c.Verdict
		}
	}
	if len(sought) != 2 || sought["inline (first 3)"] != checks.Fail || sought["inline (first 2)"] != checks.Pass {
		t.Errorf("the search asked %v", sought)
	}

	// The third: fixed, as a new version whose code is that of the first night.
	fixed := with(base, "harmless-comment")
	fixed[2] = bytes.Replace(fixed[2], []byte("The word has two meanings"), []byte("As a reviewer said, the word has two meanings"), 1)
	write(fixed)
	r, rs = night()
	if j := r.Jobs[0]; j.State != history.Done || j.Verdict != checks.Pass || r.Worse() {
		t.Errorf("third night: %+v", j)
	}
	if s := r.Text(); !strings.Contains(s, "FIXED        "+cell+", was FAIL") {
		t.Errorf("third night says:\n%s", s)
	}
	if len(rs) != 1 || rs[0].Built != 0 || rs[0].Executed != 0 {
		t.Errorf("third night: %d runs, %d kernels built, %d cells executed; all of it was known from %s", len(rs), rs[0].Built, rs[0].Executed, good.ID)
	}

	// And a fourth on which nothing happens.
	r, rs = night()
	if len(rs) != 0 || r.Known != 1 || strings.Count(r.Text(), "\n") != 1 || !strings.Contains(r.Text(), "nothing changed since 2026-12-03") {
		t.Errorf("fourth night: %d runs\n%s", len(rs), r.Text())
	}
	g, err := db.Grid(ctx, history.Target{Tree: "stable", Series: "inline", Plan: "small"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	fs := g.Failures()
	if len(g.Columns) != 4 || len(fs) != 1 || fs[0].FirstBad != "2026-12-02" || fs[0].FixedIn != "2026-12-03" || !g.Columns[3].Carried {
		t.Errorf("grid: %+v\nfailures: %+v", g.Columns, fs)
	}
}
