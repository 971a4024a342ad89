// SPDX-License-Identifier: Apache-2.0

//go:build integration

package run

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"patchcheck/checks"
	"patchcheck/checks/console"
	"patchcheck/internal/mutants"
	"patchcheck/patches"
	"patchcheck/patches/bundled"
)

// TestCrashOfAKernelWithDebugInfo boots a seeded NULL dereference on a kernel
// that was built with debug info. It costs a second whole kernel, so it is run
// when it is asked for:
//
//	PATCHCHECK_DEBUGINFO=1 go test -tags integration -run TestCrashOfAKernelWithDebugInfo -timeout 90m ./internal/run
func TestCrashOfAKernelWithDebugInfo(t *testing.T) {
	if os.Getenv("PATCHCHECK_DEBUGINFO") == "" {
		t.Skip("it builds a kernel with debug info, a quarter of an hour on two cores; set PATCHCHECK_DEBUGINFO=1")
	}
	plan, err := os.ReadFile("../../testplans/svcrdma-inline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	with := bytes.Replace(plan, []byte("configs: [guest, nfs-rdma]"), []byte("configs: [guest, nfs-rdma, debuginfo]"), 1)
	if bytes.Equal(plan, with) {
		t.Fatal("the plan's configs have changed")
	}
	path := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(path, with, 0o644); err != nil {
		t.Fatal(err)
	}
	bank, err := mutants.Load("../../testdata/mutants")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(bank, func(m mutants.Mutant) bool { return m.Name == "null-on-disconnect" })
	if i < 0 {
		t.Fatal("the bank has no null-on-disconnect")
	}
	base, err := bundled.Series(bundled.Example)
	if err != nil {
		t.Fatal(err)
	}
	mails, err := bank[i].Series(base)
	if err != nil {
		t.Fatal(err)
	}
	o := options(t)
	o.Plan, o.Device, o.NFS = path, []string{"intel-216"}, []string{"3"}
	o.Series, err = patches.Load(t.Context(), []string{"-"}, patches.LoadOptions{Stdin: strings.NewReader(string(joinMails(mails)))})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Verdict != checks.Fail {
		t.Fatalf("the run is %s: %s", rec.Verdict, rec.Reason)
	}
	var oops *checks.Finding
	for _, c := range rec.Cells {
		for i, f := range c.Findings {
			if f.ID == "console.oops" && oops == nil {
				oops = &c.Findings[i]
			}
			if f.ID == console.Undecoded {
				t.Logf("%s %q", f.Message, f.Evidence)
			}
		}
	}
	if oops == nil {
		t.Fatal("no cell has an oops")
	}
	evidence := strings.Join(oops.Evidence, "\n")
	t.Logf("%v: %s\n%s", oops.Where, oops.Message, evidence)
	// Frames in a file of the series and in one that it leaves alone.
	for _, want := range []string{
		`RIP: 0010:svc_rdma_send_ctxts_destroy\+0x[0-9a-f]+/0x[0-9a-f]+ \([^)]*net/sunrpc/xprtrdma/svc_rdma_sendto\.c:\d+\)`,
		`\n[^?\n]* kthread\+0x[0-9a-f]+/0x[0-9a-f]+ \(kernel/kthread\.c:\d+\)`,
	} {
		if !regexp.MustCompile(want).MatchString(evidence) {
			t.Errorf("the evidence lacks %s", want)
		}
	}
	if oops.Where.File != "net/sunrpc/xprtrdma/svc_rdma_sendto.c" || oops.Where.Line == 0 {
		t.Errorf("the finding points at %v", oops.Where)
	}
	// The fault itself.
	if src := oops.Source; src == nil || !strings.Contains(src.Lines[oops.Where.Line-src.From], "rdma->sc_qp->device") {
		t.Errorf("around it there is %+v", oops.Source)
	}
	if strings.Contains(evidence, e2eCache) {
		t.Error("names of sources begin with a path of this machine")
	}
}
