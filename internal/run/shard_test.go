// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/report"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

var bundledPlan = sync.OnceValues(func() (*testplans.Plan, error) { return PlanOf(Options{Plan: "svcrdma-inline"}) })

func shardPlan(t *testing.T) *testplans.Plan {
	t.Helper()
	p, err := bundledPlan()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestShards(t *testing.T) {
	p := shardPlan(t)
	cells := p.Cells()
	groups := map[string]bool{}
	for _, c := range cells {
		groups[place(c)] = true
	}
	for _, n := range []int{0, 1, 2, 3, 5, len(groups), 256} {
		ss, err := Shards(p, n)
		if err != nil {
			t.Fatal(err)
		}
		want := min(n, len(groups))
		if n == 0 {
			want = len(groups)
		}
		if len(ss) != want {
			t.Errorf("%d: %d shards", n, len(ss))
		}
		seen := map[string]int{}
		least, most := len(cells), 0
		for i, s := range ss {
			if s.Index != i+1 || s.Of != len(ss) {
				t.Errorf("%d: numbered %d of %d", n, s.Index, s.Of)
			}
			if err := checkShard(p, &s); err != nil {
				t.Errorf("%d: %v", n, err)
			}
			for _, id := range s.Cells {
				seen[id]++
			}
			least, most = min(least, len(s.Cells)), max(most, len(s.Cells))
		}
		if len(seen) != len(cells) || least == 0 || n > 1 && n < 4 && most-least > 3 {
			t.Errorf("%d: %d of %d cells, %d to %d in a shard", n, len(seen), len(cells), least, most)
		}
	}
	for _, n := range []int{-1, 257} {
		if _, err := Shards(p, n); err == nil {
			t.Errorf("%d shards were accepted", n)
		}
	}
	// A matrix that is larger than GitHub allows.
	big := *p
	big.Axes.Device = nil
	for i := range 200 {
		d := p.Axes.Device[0]
		d.Name = fmt.Sprintf("d%d", i)
		big.Axes.Device = append(big.Axes.Device, d)
	}
	big.Kernels = map[string]testplans.Selection{testplans.RolePatched: {}}
	ss, err := Shards(&big, 0)
	if err != nil || len(ss) != MaxShards {
		t.Errorf("%d shards of 400 places, %v", len(ss), err)
	}
}

func TestCheckShard(t *testing.T) {
	p := shardPlan(t)
	for want, cells := range map[string][]string{
		"names no cells":            nil,
		"has no cell":               {"patched/intel-9/v3"},
		"twice":                     {"patched/intel-216/v3", "patched/intel-216/v3"},
		"must be in the same shard": {"patched/none/v3"},
		"":                          {"patched/none/v3", "base/none/v3"},
	} {
		err := checkShard(p, &runfolder.Shard{Index: 1, Of: 2, Cells: cells})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !IsInput(err)) {
			t.Errorf("%v: got %v, want %q", cells, err, want)
		}
	}
}

func TestSpecs(t *testing.T) {
	o := Options{Plan: "svcrdma-inline", Tool: "v1", Device: []string{"none", "intel-48"}, NFS: []string{"3"}, Repeat: 2}
	specs, err := Specs(context.Background(), o, 2)
	if err != nil || len(specs) != 2 {
		t.Fatal(len(specs), err)
	}
	b, err := json.Marshal(specs[0])
	if err != nil {
		t.Fatal(err)
	}
	s, err := ReadSpec("x.json", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	// From here on neither the plan's file nor the series is needed.
	got, err := s.Options(Options{Tool: "v1", Accel: "auto"})
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{o: got}
	if err := r.readPlan(); err != nil {
		t.Fatal(err)
	}
	if err := r.readSeries(context.Background()); err != nil {
		t.Fatal(err)
	}
	if planID(r.plan) != s.Plan.ID || SeriesID(r.ser) != s.Series.ID || got.Repeat != 2 || len(r.kept) == 0 || r.ser.Sources[0] != "bundled:svcrdma-inline" && !strings.HasPrefix(r.ser.Sources[0], "bundled:") {
		t.Errorf("got %+v, series %v", got, r.ser.Sources)
	}
	r.rec = &runfolder.Run{Shard: got.Shard}
	var ids []string
	for _, c := range r.cells() {
		ids = append(ids, c.ID())
	}
	if !slices.Equal(ids, s.Shard.Cells) || len(ids) == 0 {
		t.Errorf("cells %v, want %v", ids, s.Shard.Cells)
	}

	bad := []struct {
		name, want string
		change     func(*Spec)
	}{
		{"another version", "was made by patchcheck v0", func(s *Spec) { s.Tool = "v0" }},
		{"a changed plan", "plan reads differently", func(s *Spec) { s.Plan.Text = strings.Replace(s.Plan.Text, "8MiB", "4MiB", 1) }},
		{"a plan that is none", "cannot be used", func(s *Spec) { s.Plan.Text = "name: 1\nx: y\n" }},
		{"a changed series", "series reads differently", func(s *Spec) {
			s.Series.Kept[0].Data = bytes.Replace(s.Series.Kept[0].Data, []byte("Subject: ["), []byte("Subject: [x "), 1)
			s.Series.ID = "0"
		}},
		{"a cell of no plan", "has no cell", func(s *Spec) { s.Shard.Cells = []string{"patched/x/v3"} }},
		{"no cells", "names no cells", func(s *Spec) { s.Shard.Cells = nil }},
	}
	for _, x := range bad {
		s, err := ReadSpec("x.json", bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		x.change(s)
		if _, err := s.Options(Options{Tool: "v1"}); err == nil || !strings.Contains(err.Error(), x.want) || !IsInput(err) {
			t.Errorf("%s: got %v, want %q", x.name, err, x.want)
		}
	}
	for text, want := range map[string]string{"": "no spec", "{}": "schema 0", `{"schema":99}`: "schema 99", `{"schema":1}`: "no plan", `{"schema":1,"extra":2}`: "extra",
		`{"schema":1,"plan":{"text":"x"}} {}`: "more text"} {
		if _, err := ReadSpec("x.json", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if _, err := Specs(context.Background(), Options{Plan: writePlan(t, "./my/config")}, 1); err == nil || !strings.Contains(err.Error(), "a file of this machine") {
		t.Errorf("got %v", err)
	}
}

// writePlan is the bundled plan with a configuration fragment of one's own.
func writePlan(t *testing.T, config string) string {
	t.Helper()
	b, err := testplans.Source("svcrdma-inline")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(name, bytes.Replace(b, []byte("configs: [guest, nfs-rdma]"), []byte("configs: [guest, "+config+"]"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// whole makes a recorded run; cells says what is in it, shard which part it is.
func whole(t *testing.T, parent string, at time.Time, shard *runfolder.Shard, cells []string, change func(*runfolder.Run)) *runfolder.Run {
	t.Helper()
	p := shardPlan(t)
	r, err := runfolder.Create(parent, at, "x")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.Tool, r.Plan, r.PlanID, r.Ended = "v1", *p, planID(p), at.Add(3*time.Minute)
	r.Series = runfolder.Series{ID: "0011", Title: "svcrdma: x", Total: 1, Patches: []runfolder.Patch{{Index: 1, Subject: "svcrdma: x"}}}
	r.Tree = runfolder.Tree{ID: "t1", Version: "7.3.4", Spec: "debian:linux-source-7.3", PackageVersion: "7.3.4-1", Kind: "debian"}
	r.Accel, r.Image = runfolder.Accel{Name: "tcg"}, runfolder.Image{Key: "i1"}
	for _, k := range []string{"base", "patched"} {
		r.Kernels[k] = runfolder.Kernel{Role: k, Key: "k-" + k, Compiler: "gcc 12"}
	}
	r.Apply = []runfolder.Apply{{Patch: 1, Class: "clean"}}
	r.Builds = []runfolder.Build{{Patch: 0, OK: true}, {Patch: 1, OK: true, Objects: 3}}
	r.Findings = []checks.Finding{{ID: "style.x", Severity: checks.Note, Message: "a remark"}}
	r.NotRun = []string{"other configurations (--variants)"}
	r.Shard = shard
	os.WriteFile(r.Path("series", "0001.diff"), []byte("diff"), 0o644)
	r.Note("make")
	for i, c := range p.Cells() {
		if !slices.Contains(cells, c.ID()) {
			continue
		}
		g := "01-" + c.Kernel
		os.MkdirAll(r.Path("console", g), 0o755)
		os.WriteFile(r.Path("console", g, "console.log"), []byte("console of "+r.ID), 0o644)
		values := map[string]int64{"inline": int64(100 + i), "by_reference": 7, "all": int64(107 + i), "granted": int64(c.Device.Facts["got"])}
		r.Cells = append(r.Cells, &runfolder.Cell{ID: c.ID(), Spec: c, Verdict: checks.Pass, Final: true,
			Attempts: []runfolder.Attempt{{Guest: g, Verdict: checks.Pass, Values: values, Token: "done"}}})
	}
	(&runner{rec: r}).verdict()
	if change != nil {
		change(r)
	}
	// Without the syncs of Save and SaveCell: these are many files.
	put := func(v any, name string) {
		b, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(r.Path(name), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range r.Cells {
		put(c, "cells/"+strings.ReplaceAll(c.ID, "/", ".")+".json")
	}
	put(r, "run.json")
	return r
}

// parts records the plan's run in n shards.
func parts(t *testing.T, n int, change func(int, *runfolder.Run)) (dir string) {
	t.Helper()
	dir = t.TempDir()
	ss, err := Shards(shardPlan(t), n)
	if err != nil {
		t.Fatal(err)
	}
	for i := range ss {
		whole(t, filepath.Join(dir, fmt.Sprintf("artifact-%d", i+1)), at0.Add(time.Duration(i)*time.Second), &ss[i], ss[i].Cells, func(r *runfolder.Run) {
			if change != nil {
				change(i+1, r)
			}
		})
	}
	return dir
}

var at0 = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func merge(t *testing.T, dirs ...string) (*runfolder.Run, []string) {
	t.Helper()
	r, notes, err := Merge(dirs, t.TempDir(), "v1", []string{"patchcheck", "merge"}, at0.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if r, err = runfolder.Open(r.Dir()); err != nil {
		t.Fatal(err)
	}
	return r, notes
}

func rendered(t *testing.T, r *runfolder.Run, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := report.Write(&b, r, format); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The merged run says what the whole run says.
func TestMergeSame(t *testing.T) {
	var all []string
	for _, c := range shardPlan(t).Cells() {
		all = append(all, c.ID())
	}
	failing := func(r *runfolder.Run) {
		for _, c := range r.Cells {
			if c.ID == "patched/intel-101/v4.1" {
				c.Verdict, c.Reason = checks.Fail, "contents differ"
				c.Findings = []checks.Finding{{ID: "contents.differ", Severity: checks.Error, Message: "contents differ"}}
			}
		}
		(&runner{rec: r}).verdict()
	}
	for name, change := range map[string]func(*runfolder.Run){"pass": nil, "fail": failing} {
		one := whole(t, t.TempDir(), at0, nil, all, change)
		for _, n := range []int{1, 2} {
			r, notes := merge(t, parts(t, n, func(_ int, r *runfolder.Run) {
				if change != nil {
					change(r)
				}
			}))
			if r.Verdict != one.Verdict || r.Reason != one.Reason || len(notes) > 0 {
				t.Errorf("%s in %d: %s %q %v, want %s %q", name, n, r.Verdict, r.Reason, notes, one.Verdict, one.Reason)
			}
			for _, f := range []string{"cover", "markdown", "patch"} {
				if got, want := rendered(t, r, f), rendered(t, one, f); got != want {
					t.Errorf("%s in %d: %s differs:\n%s\n--- want\n%s", name, n, f, got, want)
				}
			}
			for _, c := range r.Cells {
				if _, err := os.Stat(r.Path("console", c.Last().Guest, "console.log")); err != nil {
					t.Error(err)
				}
			}
			if b, err := os.ReadFile(r.Path("series", "0001.diff")); err != nil || string(b) != "diff" {
				t.Error(err)
			}
			if len(r.Shards) != n || len(r.Findings) != 1 {
				t.Errorf("%d shards on record, %d findings", len(r.Shards), len(r.Findings))
			}
		}
	}
	// Many small ones lack a check, and say so.
	if r, _ := merge(t, parts(t, 0, nil)); r.Verdict != checks.Pass || !strings.Contains(strings.Join(r.NotRun, " "), "growth of memory") {
		t.Errorf("%s, not run: %q", r.Verdict, r.NotRun)
	}
}

func TestMergeRefuses(t *testing.T) {
	for want, change := range map[string]func(*runfolder.Run){
		"the series": func(r *runfolder.Run) { r.Series.ID = "9" }, "the tree": func(r *runfolder.Run) { r.Tree.ID = "9" },
		"the plan": func(r *runfolder.Run) { r.PlanID = "9" }, "version of patchcheck": func(r *runfolder.Run) { r.Tool = "9" },
		"patched kernel": func(r *runfolder.Run) { k := r.Kernels["patched"]; k.Key = "9"; r.Kernels["patched"] = k },
		"accelerator":    func(r *runfolder.Run) { r.Accel.Name = "kvm" }, "guest image": func(r *runfolder.Run) { r.Image.Key = "9" },
		"--repeat": func(r *runfolder.Run) { r.Repeat = 5 }, "number of shards": func(r *runfolder.Run) { r.Shard.Of = 9 },
		"is a merged run": func(r *runfolder.Run) { r.Shards = []runfolder.ShardRun{{}} },
	} {
		dir := parts(t, 3, func(i int, r *runfolder.Run) {
			if i == 2 {
				change(r)
			}
		})
		out := t.TempDir()
		if _, _, err := Merge([]string{dir}, out, "v1", nil, at0); err == nil || !strings.Contains(err.Error(), want) || !IsInput(err) {
			t.Errorf("got %v, want %q", err, want)
		}
		if ents, _ := os.ReadDir(out); len(ents) > 0 {
			t.Errorf("%s: a run folder was left behind", want)
		}
	}
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "absent")} {
		if _, _, err := Merge([]string{dir}, t.TempDir(), "v1", nil, at0); err == nil || !IsInput(err) {
			t.Errorf("got %v", err)
		}
	}
	dir := parts(t, 2, nil)
	m, _ := filepath.Glob(filepath.Join(dir, "artifact-1", "*", "run.json"))
	os.WriteFile(m[0], []byte("{"), 0o644)
	if _, _, err := Merge([]string{dir}, t.TempDir(), "v1", nil, at0); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("got %v", err)
	}
}

// What is missing is never a pass.
func TestMergeMissing(t *testing.T) {
	tests := []struct {
		name    string
		n       int
		change  func(int, *runfolder.Run)
		drop    int // artifact that does not come
		verdict checks.Verdict
		note    string
		reason  string // of some cell
	}{
		{"a shard that never came", 3, nil, 2, checks.Infra, "no answer for", "no shard answered for it"},
		{"a shard that was killed", 3, func(i int, r *runfolder.Run) {
			if i == 2 {
				r.Verdict, r.Reason = "", ""
				r.Cells[0].Final = false
				r.DropCell(r.Cells[1].ID)
			}
		}, 0, checks.Infra, "no answer for 2 cells", "not compared with base"},
		{"a shard that INFRA ended", 3, func(i int, r *runfolder.Run) {
			if i == 3 {
				for _, c := range slices.Clone(r.Cells) {
					r.DropCell(c.ID)
				}
				r.Verdict, r.Reason = checks.Infra, "no space left"
			}
		}, 0, checks.Infra, "no answer for", "no space left"},
		{"a tool broke in one", 3, func(i int, r *runfolder.Run) {
			if i == 3 {
				r.Findings = append(r.Findings, checks.Finding{ID: "checkpatch.infra", Severity: checks.Error, Message: "perl is missing"})
				r.Verdict, r.Reason = checks.Infra, "perl is missing"
			}
		}, 0, checks.Infra, "", ""},
		{"FAIL beats INFRA", 3, func(i int, r *runfolder.Run) {
			if i == 1 {
				r.Cells[0].Verdict, r.Cells[0].Reason, r.Verdict = checks.Fail, "oops", checks.Fail
			}
		}, 3, checks.Fail, "no answer for", "no shard answered"},
		{"PASS without a token", 3, func(i int, r *runfolder.Run) {
			if i == 1 {
				r.Cells[0].Attempts[0].Token = ""
			}
		}, 0, checks.Infra, "", ""},
		{"nothing applies", 3, func(_ int, r *runfolder.Run) {
			for _, c := range slices.Clone(r.Cells) {
				r.DropCell(c.ID)
			}
			r.Verdict, r.Reason = checks.Fail, "patch 1 does not apply"
			r.Kernels, r.Builds = nil, nil
		}, 0, checks.Fail, "", ""},
		{"one of them does not apply", 3, func(i int, r *runfolder.Run) {
			if i == 2 {
				for _, c := range slices.Clone(r.Cells) {
					r.DropCell(c.ID)
				}
				r.Verdict, r.Reason = checks.Fail, "patch 1 does not apply"
			}
		}, 0, checks.Fail, "no answer for", "patch 1 does not apply"},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			dir := parts(t, x.n, x.change)
			if x.drop > 0 {
				os.RemoveAll(filepath.Join(dir, fmt.Sprintf("artifact-%d", x.drop)))
			}
			r, notes := merge(t, dir)
			if r.Verdict != x.verdict {
				t.Errorf("%s %q, want %s", r.Verdict, r.Reason, x.verdict)
			}
			all := strings.Join(notes, "\n")
			if !strings.Contains(all, x.note) || x.note == "" && all != "" {
				t.Errorf("notes %q, want %q", all, x.note)
			}
			var reasons []string
			for _, c := range r.Cells {
				reasons = append(reasons, c.Reason)
			}
			if !strings.Contains(strings.Join(reasons, "\n"), x.reason) {
				t.Errorf("reasons %q, want %q", reasons, x.reason)
			}
			if x.name != "nothing applies" && len(r.Cells) != len(r.Plan.Cells()) {
				t.Errorf("%d cells of %d", len(r.Cells), len(r.Plan.Cells()))
			}
			if x.name == "nothing applies" && r.Reason != "patch 1 does not apply" {
				t.Errorf("reason %q", r.Reason)
			}
		})
	}
}

func TestMergeTwice(t *testing.T) {
	verdicts := func(v checks.Verdict) func(int, *runfolder.Run) {
		return func(i int, r *runfolder.Run) {
			if i == 2 {
				for _, c := range r.Cells {
					if c.Verdict = v; v != checks.Pass {
						c.Reason = "because"
					}
				}
				(&runner{rec: r}).verdict()
			}
		}
	}
	for _, x := range []struct{ a, b, want checks.Verdict }{
		{checks.Pass, checks.Pass, checks.Pass}, {checks.Infra, checks.Pass, checks.Pass}, {checks.Pass, checks.Infra, checks.Pass},
		{checks.Fail, checks.Pass, checks.Unstable}, {checks.Infra, checks.Fail, checks.Fail}, {checks.Infra, checks.Infra, checks.Infra},
	} {
		one, two := parts(t, 3, verdicts(x.a)), parts(t, 3, verdicts(x.b))
		// Of the second one only the shard in question, as a job that was run again.
		m, _ := filepath.Glob(filepath.Join(two, "artifact-2", "*"))
		var j map[string]any
		b, _ := os.ReadFile(filepath.Join(m[0], "run.json"))
		json.Unmarshal(b, &j)
		j["id"] = "again"
		b, _ = json.Marshal(j)
		os.WriteFile(filepath.Join(m[0], "run.json"), b, 0o644)
		r, notes := merge(t, one, m[0])
		got := checks.Pass
		for _, c := range r.Cells {
			got = worst(got, c.Verdict)
		}
		if got != x.want || !strings.Contains(strings.Join(notes, "\n"), "was answered twice") {
			t.Errorf("%s and %s: cells %s, run %s %q, want %s\n%s", x.a, x.b, got, r.Verdict, r.Reason, x.want, strings.Join(notes, "\n"))
		}
	}
	// The same artifact twice is no second answer.
	dir := parts(t, 3, nil)
	if r, notes := merge(t, dir, dir); r.Verdict != checks.Pass || !strings.Contains(strings.Join(notes, "\n"), "counts once") {
		t.Errorf("%s %v", r.Verdict, notes)
	}
}

// A run folder from elsewhere cannot make files outside of the merged one, nor
// bring files of this machine into it.
func TestMergeLinks(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	os.WriteFile(secret, []byte("secret"), 0o600)
	dir := parts(t, 2, func(_ int, r *runfolder.Run) { os.Symlink(secret, r.Path("logs", "link")) })
	r, _ := merge(t, dir)
	if _, err := os.Lstat(r.Path("logs", "link")); err == nil {
		t.Error("a link was copied")
	}
}

// A spec comes from elsewhere: whatever is in it, it is refused with words or
// understood.
func FuzzSpec(f *testing.F) {
	specs, err := Specs(context.Background(), Options{Plan: "svcrdma-inline", Tool: "v1", NFS: []string{"3"}}, 2)
	if err != nil {
		f.Fatal(err)
	}
	specs[0].Series.Kept[0].Data = specs[0].Series.Kept[0].Data[:2000]
	specs[0].Series.ID = ""
	b, err := json.Marshal(specs[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"schema":1,"plan":{"text":"name: x"},"shard":{"cells":["a"]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ReadSpec("spec", bytes.NewReader(b))
		if err == nil {
			s.Series.Sources = nil // files of this machine
			_, err = s.Options(Options{Tool: "v1"})
		}
		if err != nil && !IsInput(err) {
			t.Errorf("%v is no error of the input", err)
		}
	})
}
