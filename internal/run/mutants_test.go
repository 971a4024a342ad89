// SPDX-License-Identifier: Apache-2.0

//go:build mutants

package run

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/cache"
	"patchcheck/internal/lint"
	"patchcheck/internal/mutants"
	"patchcheck/internal/report"
	"patchcheck/internal/runfolder"
	"patchcheck/internal/view"
	"patchcheck/patches"
	"patchcheck/patches/bundled"
	"patchcheck/vm/image"
)

// The bank of seeded faults, run for real: each faulty variant of the bundled
// series must get the verdict of testdata/mutants/mutants.yaml from one of the
// oracles named there, and each harmless one must pass.
//
//	make mutants
//	make mutants MUTANTS='leak|harmless' MUTANTS_PLANS=debug

const mutantBank = "../../testdata/mutants"

// mutantHurry shortens the deadlines: each hang is waited for three times, in
// the first guest and in two more that confirm it.
const mutantHurry = 0.7

// smallWork are edits of the bundled plan that leave an eighth of its I/O.
var smallWork = []string{
	"size: 8MiB", "size: 1MiB", "count: 200", "count: 20",
	"inline > 1000", "inline > 100", "by_reference >= 2048", "by_reference >= 500", // 636 on a right kernel, 315 with READ Replies inline
}

func TestMutants(t *testing.T) {
	root, err := cache.DefaultRoot()
	if err != nil {
		t.Fatal(err)
	}
	agent, err := image.BuildAgent(context.Background(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	all, err := mutants.Load(mutantBank)
	if err != nil {
		t.Fatal(err)
	}
	base, err := bundled.Series(bundled.Example)
	if err != nil {
		t.Fatal(err)
	}
	only, err := regexp.Compile(os.Getenv("MUTANTS"))
	if err != nil {
		t.Fatalf("MUTANTS: %v", err)
	}
	plans := strings.FieldsFunc(os.Getenv("MUTANTS_PLANS"), func(r rune) bool { return r == ',' || r == ' ' })
	if len(plans) == 0 {
		plans = []string{string(mutants.Default)}
	}
	runs := os.Getenv("MUTANTS_RUNS")
	if runs == "" {
		runs = t.TempDir()
	}
	small := smallPlanFile(t)

	var faulty, caught, harmless, passed int
	start := time.Now()
	for _, m := range all {
		if !only.MatchString(m.Name) || !slices.Contains(plans, string(m.Plan)) {
			continue
		}
		mails, err := m.Series(base)
		if err != nil {
			t.Fatal(err)
		}
		ser, err := patches.Load(t.Context(), []string{"-"}, patches.LoadOptions{Stdin: strings.NewReader(string(joinMails(mails)))})
		if err != nil {
			t.Fatalf("%s: %v", m.Name, err)
		}
		o := Options{Plan: small, Debug: m.Plan == mutants.Debug, Device: m.Device, NFS: m.NFS,
			Fresh:  m.Plan != mutants.Debug, // where minutes go into each boot, the base cell is reused
			Series: ser, Tree: "debian:linux-source-7.3", CacheDir: root, RunsDir: filepath.Join(runs, m.Name),
			Accel: "auto", Agent: agent, Tool: "test", hurry: mutantHurry, View: view.New(io.Discard)}
		if m.Full || o.Debug {
			o.Plan = "svcrdma-inline"
		}
		if o.Debug {
			o.hurry = 1
		}
		if m.Plan == mutants.Variants {
			o.Variants, o.BuildOnly = true, true
		}
		if len(o.Device) == 0 {
			o.Device = []string{"intel-216"}
		}
		if len(o.NFS) == 0 {
			o.NFS = []string{"3"}
		}
		began := time.Now()
		rec, err := Run(t.Context(), o)
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			if t.Context().Err() != nil {
				break
			}
			continue
		}
		by, ok := judgeMutant(m, rec)
		mark := "ok  "
		if !ok {
			mark = "MISS"
		}
		fmt.Printf("%s %-34s %-10s %5.0f s  %s\n", mark, m.Name, rec.Verdict, time.Since(began).Seconds(), by)
		if m.Expect == mutants.Pass {
			harmless++
			if ok {
				passed++
			}
		} else {
			faulty++
			if ok {
				caught++
			}
		}
		if !ok {
			var b strings.Builder
			report.Write(&b, rec, "text")
			t.Errorf("%s: %s; want %s by %v, got %s (%s): %s\n%s", m.Name, m.Mistake, m.Expect, m.By, rec.Verdict, rec.Reason, by, b.String())
		}
	}
	fmt.Printf("%d of %d faulty variants caught, %d of %d harmless ones pass, in %v\n",
		caught, faulty, passed, harmless, time.Since(start).Round(time.Second))
	if faulty+harmless == 0 {
		t.Errorf("no mutant of plan %v matches %q", plans, only)
	}
}

// smallPlanFile writes the bundled plan with less I/O.
func smallPlanFile(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../testplans/svcrdma-inline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := string(b)
	for i := 0; i < len(smallWork); i += 2 {
		if !strings.Contains(s, smallWork[i]) {
			t.Fatalf("the plan has no %q", smallWork[i])
		}
		s = strings.Replace(s, smallWork[i], smallWork[i+1], 1)
	}
	path := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// byFinding gives the finding ids that stand for an oracle of the bank.
var byFinding = map[string][]string{
	"build.patch": {"build.fails"},
	"boot":        {"guest.boot"},
	"contents":    {"contents.differ"},
	"step":        {"guest.step", "guest.died"},
	"callback":    {"guest.callback"},
	"hang":        {"guest.hang"},
	"slow":        {"guest.slow-call", "time.slower"},
	"leak":        {"memory.growth", "guest.left-behind", "guest.memory", "console.leak"},
}

// saidBy reports whether a finding comes from an oracle.
func saidBy(oracle string, f checks.Finding) bool {
	switch oracle {
	case "warning.new":
		return f.Severity != checks.Note && (strings.HasPrefix(f.ID, "warning.") || strings.HasPrefix(f.ID, "kerneldoc."))
	case "build.variant":
		return f.Severity != checks.Note && strings.HasPrefix(f.ID, "variant.") && f.ID != lint.RuleVariantInfra.ID
	case "got":
		return f.ID == "count.hold" && strings.HasPrefix(f.Message, "granted:")
	case "refused":
		return f.ID == "count.hold" && strings.HasPrefix(f.Message, "refused:")
	case "count":
		return f.ID == "count.hold" && !saidBy("got", f) && !saidBy("refused", f) || f.ID == "count.value" || f.ID == "count.same"
	}
	if strings.HasPrefix(oracle, "console.") {
		return f.ID == oracle
	}
	return slices.Contains(byFinding[oracle], f.ID)
}

// judgeMutant compares a run with what the bank expects, and says what found
// the fault.
func judgeMutant(m mutants.Mutant, rec *runfolder.Run) (string, bool) {
	all := slices.Clone(rec.Findings)
	for _, c := range rec.Cells {
		all = append(all, c.Findings...)
	}
	var ids []string
	for _, f := range all {
		if !slices.Contains(ids, f.ID) && f.Severity != checks.Note {
			ids = append(ids, f.ID)
		}
	}
	others := strings.Join(ids, " ")
	switch m.Expect {
	case mutants.Pass:
		return others, rec.Verdict == checks.Pass && len(ids) == 0
	case mutants.NotTested:
		said := len(rec.Plan.NotTested) > 0
		return strings.Join(rec.Plan.NotTested, "; "), rec.Verdict == checks.Pass && said
	}
	if rec.Verdict != checks.Fail {
		return "found: " + others, false
	}
	for _, o := range m.By {
		for _, f := range all {
			if saidBy(o, f) {
				msg, _, _ := strings.Cut(f.Message, "\n")
				if len(msg) > 100 {
					msg = msg[:100] + "…"
				}
				return o + ": " + msg, true
			}
		}
	}
	return "found only: " + others, false
}
