// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sample is a run in which everything passed, with made-up counts.
func sample(t *testing.T) *runfolder.Run {
	t.Helper()
	p, err := testplans.Load("svcrdma-inline")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	r, err := runfolder.Create(t.TempDir(), at, "sample series")
	if err != nil {
		t.Fatal(err)
	}
	r.Ended = at.Add(3*time.Minute + 4*time.Second)
	r.Series = runfolder.Series{ID: "00112233445566778899aabbccddeeff", Title: "svcrdma: a series", Version: 1, Total: 2, Cover: true,
		Patches: []runfolder.Patch{{Index: 1, Subject: "svcrdma: one"}, {Index: 2, Subject: "svcrdma: two"}}}
	r.Tree = runfolder.Tree{Spec: "debian:linux-source-7.3", Kind: "debian", Version: "7.3.4", PackageVersion: "7.3.4-1", Exact: "not exact"}
	r.Plan = *p
	r.Accel = runfolder.Accel{Name: "tcg"}
	r.Kernels["patched"] = runfolder.Kernel{Role: "patched", Compiler: "gcc (Debian 12.2.0-14) 12.2.0"}
	r.Apply = []runfolder.Apply{{Patch: 1, Class: "offset"}, {Patch: 2, Class: "clean"}}
	r.Builds = []runfolder.Build{{Patch: 0, OK: true}, {Patch: 1, OK: true, Objects: 19}, {Patch: 2, OK: true, Objects: 3}}
	r.Verdict = checks.Pass
	for i, c := range p.Cells() {
		inline := int64(0)
		if c.Kernel == testplans.RolePatched && c.Device.Facts["got"] > 200 {
			inline = 2800 + int64(i)
		}
		values := map[string]int64{"inline": inline, "by_reference": 5200 - inline, "all": 5200}
		if c.Kernel == testplans.RolePatched {
			values["granted"] = int64(c.Device.Facts["got"])
		}
		if err := r.SaveCell(&runfolder.Cell{ID: c.ID(), Spec: c, Verdict: checks.Pass,
			Attempts: []runfolder.Attempt{{Guest: "01-" + c.Kernel, Verdict: checks.Pass, Values: values, Token: "done"}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Save(); err != nil {
		t.Fatal(err)
	}
	return r
}

// failing is the same with one cell that fails and one that the base fails too.
func failing(t *testing.T) *runfolder.Run {
	r := sample(t)
	c := r.Cells[4]
	c.Verdict, c.Reason = checks.Fail, "direct: read in calls of 4 KiB: first difference at offset 12345 (the base kernel does not do this)"
	c.Findings = []checks.Finding{{ID: "contents.differ", Severity: checks.Error, Where: checks.Where{Cell: c.ID}, Message: c.Reason,
		Evidence: []string{"got      00 01\x1b[31m", "expected 00 02"}}}
	b := r.Cells[5]
	b.Verdict, b.Reason = checks.BaseFails, "mount failed: EPROTO"
	r.Verdict, r.Reason = checks.Fail, "1 cell fails"
	return r
}

func TestGolden(t *testing.T) {
	for name, mk := range map[string]func(*testing.T) *runfolder.Run{"pass": sample, "fail": failing} {
		r := mk(t)
		for _, f := range Formats {
			if f == "json" {
				continue // tested for its content below
			}
			t.Run(name+"/"+f, func(t *testing.T) {
				var b bytes.Buffer
				if err := Write(&b, r, f); err != nil {
					t.Fatal(err)
				}
				got := strings.ReplaceAll(b.String(), r.Dir(), "RUN")
				path := filepath.Join("testdata", name+"."+f)
				if *update {
					if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if got != string(want) {
					t.Errorf("got:\n%s\nwant:\n%s", got, want)
				}
				if strings.Contains(got, "\x1b") {
					t.Error("an escape sequence of the guest reached the output")
				}
				if f == "cover" || f == "patch" {
					for i, l := range strings.Split(got, "\n") {
						if len([]rune(l)) > Width {
							t.Errorf("line %d has %d columns: %s", i+1, len([]rune(l)), l)
						}
					}
				}
			})
		}
	}
}

// Nothing is claimed that no cell shows.
func TestNoClaimWithoutCells(t *testing.T) {
	r := sample(t)
	r.Cells, r.Builds, r.Apply = nil, nil, nil
	p := Build(r)
	if len(p.Lines) != 0 || len(p.Table.Rows) != 0 {
		t.Errorf("a run without results says: %+v %+v", p.Lines, p.Table)
	}
	for _, l := range Build(sample(t)).Lines {
		if len(l.Cells) == 0 {
			t.Errorf("%q stands on nothing", l.Text)
		}
	}
	// One failed cell: no sentence may say that all is equal or clean.
	text := Build(failing(t)).Cover()
	if strings.Contains(text, ": equal when") || !strings.Contains(text, "equal in 11 of 13 cells") {
		t.Errorf("overclaims:\n%s", text)
	}
	// A console finding takes the console sentence away.
	r = failing(t)
	r.Cells[4].Findings = append(r.Cells[4].Findings, checks.Finding{ID: "console.oops"})
	if strings.Contains(Build(r).Cover(), "console   clean") {
		t.Error("an oops, and the console is called clean")
	}
}

func TestReopenedRunSaysTheSame(t *testing.T) {
	r := sample(t)
	again, err := runfolder.Open(r.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if a, b := Build(r).Cover(), Build(again).Cover(); a != b {
		t.Errorf("before:\n%s\nafter:\n%s", a, b)
	}
}

const letter = `From 0123 Mon Sep 17 00:00:00 2001
Subject: [PATCH 0/2] svcrdma: a series

Why it matters.

A. Developer (2):
  svcrdma: one
  svcrdma: two

 net/a.c | 2 +-
 1 file changed, 1 insertion(+), 1 deletion(-)

base-commit: 0123
--` + " \n2.39.5\n"

func TestCover(t *testing.T) {
	r := sample(t)
	opened := func(id string) (*runfolder.Run, error) {
		if id != r.ID {
			return nil, fmt.Errorf("no run %s", id)
		}
		return r, nil
	}
	for _, nl := range []string{"\n", "\r\n"} {
		src := strings.ReplaceAll(letter, "\n", nl)
		if _, err := VerifyCover([]byte(src), "", opened); err != ErrNoBlock {
			t.Errorf("a letter without block: %v", err)
		}
		one, err := UpdateCover([]byte(src), r)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range strings.Split(string(one), "\n") {
			if len(l) > Width+1 {
				t.Errorf("line of %d columns: %s", len(l), l)
			}
		}
		if i := strings.Index(string(one), "[patchcheck "); i < 0 || i > strings.Index(string(one), "A. Developer (2)") {
			t.Errorf("the block is not before the shortlog:\n%s", one)
		}
		// Removing the block gives the letter back, byte for byte.
		b, e := beginMark.FindIndex(one), endMark.FindIndex(one)
		rest := string(one[:b[0]]) + strings.TrimPrefix(string(one[e[1]:]), nl)
		if rest != src {
			t.Errorf("the rest changed:\n%q\n%q", rest, src)
		}
		two, err := UpdateCover(one, r)
		if err != nil || !bytes.Equal(one, two) {
			t.Errorf("a second update changes the letter (%v):\n%s", err, two)
		}
		for _, c := range []struct {
			name, old, new, series, want string
		}{
			{"current", "", "", r.Series.ID, ""},
			{"edited", "no new warnings", "no warnings at all", r.Series.ID, "was edited"},
			{"series changed", "", "", "ffff0000ffff0000ffff", "has changed since"},
			{"run gone", "[patchcheck " + r.ID, "[patchcheck 19990101-000000-x", r.Series.ID, "cannot be read"},
		} {
			l := []byte(strings.Replace(string(one), c.old, c.new, 1))
			bad, err := VerifyCover(l, c.series, opened)
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(bad, "\n"); c.want == "" && text != "" || !strings.Contains(text, c.want) {
				t.Errorf("%s: want %q, got %q", c.name, c.want, text)
			}
		}
	}
	if _, err := UpdateCover(nil, r); err == nil {
		t.Error("an empty letter was accepted")
	}
	cut, _ := UpdateCover([]byte(letter), r)
	if _, err := UpdateCover([]byte(strings.Replace(string(cut), "[end of patchcheck]\n", "", 1)), r); err == nil {
		t.Error("a block without end was accepted")
	}
}

func TestJSONHasEverything(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, sample(t), "json"); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{`"schema": 1`, `"patched/intel-216/v4.1"`, `"verdict": "PASS"`, `"table"`} {
		if !strings.Contains(b.String(), s) {
			t.Errorf("JSON lacks %s", s)
		}
	}
	if err := Write(&b, sample(t), "docx"); err == nil || !strings.Contains(err.Error(), "markdown") {
		t.Errorf("unknown format: %v", err)
	}
}

// A run that goes on has no duration, and its report no verdict.
func TestRunNotAtItsEnd(t *testing.T) {
	r := sample(t)
	r.Ended, r.Verdict = time.Time{}, ""
	var b bytes.Buffer
	if err := Write(&b, r, "text"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), " (not at its end): ") || strings.Contains(b.String(), "PASS") {
		t.Errorf("%s", b.String())
	}
}

// The place that a decoded crash names is shown beside its cell.
func TestCrashHasItsLine(t *testing.T) {
	r := failing(t)
	c := r.Cells[4]
	c.Findings = []checks.Finding{{ID: "console.oops", Severity: checks.Error, Where: checks.Where{Cell: c.ID, File: "net/sunrpc/demo.c", Line: 12}, Message: "BUG: demo"}}
	for _, f := range []string{"text", "ktap", "junit"} {
		var b bytes.Buffer
		if err := Write(&b, r, f); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "net/sunrpc/demo.c:12: BUG: demo") {
			t.Errorf("%s has no place:\n%.2000s", f, b.String())
		}
	}
}
