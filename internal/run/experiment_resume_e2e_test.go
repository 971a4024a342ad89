// SPDX-License-Identifier: Apache-2.0

//go:build integration

package run

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"patchcheck/checks"
	measure "patchcheck/internal/bench"
	"patchcheck/internal/runfolder"
	"patchcheck/vm/image"
)

// TestBenchResume interrupts the program in the middle of the third boot of
// four, as Ctrl-C does, and goes on with the command that it names.
func TestBenchResume(t *testing.T) {
	bin := t.TempDir()
	if _, err := image.BuildAgent(context.Background(), bin); err != nil {
		t.Fatal(err)
	}
	tool := filepath.Join(bin, "patchcheck")
	if out, err := exec.Command("go", "build", "-o", tool, "patchcheck/cmd/patchcheck").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// As in TestBenchEndToEnd, whose kernels are used.
	plan := benchPlan(t, "nfs-latency", "companions: [rxe-device]", "companions: [rxe-device, xprtrdma-inline]", "  with: [xprtrdma-inline]     # the third arm: the client posts small Calls inline, too\n", "",
		"number_ios=2000", "number_ios=200", "number_ios=500", "number_ios=100", "runs: 3", "runs: 1")
	runs := filepath.Join(t.TempDir(), "runs")
	// run gives the program's exit status and output; line is told each line
	// of its standard error.
	run := func(line func(*os.Process, string), args ...string) (int, string, string) {
		t.Helper()
		cmd := exec.Command(tool, args...)
		var stdout, all bytes.Buffer
		cmd.Stdout = &stdout
		errs, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for in := bufio.NewScanner(io.TeeReader(errs, &all)); in.Scan(); {
			t.Log(in.Text())
			line(cmd.Process, in.Text())
		}
		var ee *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &ee) {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), stdout.String(), all.String()
	}
	interrupt := os.Signal(os.Interrupt)
	if signal.Ignored(os.Interrupt) { // as a test in the background does, and what it starts
		interrupt = syscall.SIGTERM
	}
	code, out, said := run(func(p *os.Process, l string) {
		if strings.HasPrefix(l, "boot 3 of 4") {
			p.Signal(interrupt)
		}
	}, "bench", "--plan", plan, "--tree", "debian:linux-source-7.3", "--cache", e2eCache, "--out", runs, "--boots", "2", "--allow-noise")
	_, command, ok := strings.Cut(said, "To go on from here:  patchcheck ")
	if code != 130 || out != "" || !ok {
		t.Fatalf("interrupted: exit %d, %q\n%s", code, out, said)
	}
	command, _, _ = strings.Cut(command, "\n")
	dirs, err := filepath.Glob(filepath.Join(runs, "*", measure.File))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("%v, %v", dirs, err)
	}
	dir := filepath.Dir(dirs[0])
	before, err := measure.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if before.Stop.Reason != measure.StopCanceled || len(before.Boots) != 2 {
		t.Fatalf("interrupted: %+v, %d boots", before.Stop, len(before.Boots))
	}
	if code, out, said = run(func(*os.Process, string) {}, append(strings.Fields(command), "--cache", e2eCache)...); code != 0 || !strings.Contains(out, "n=2+2 boots") || strings.Contains(out, "did not come to its end") {
		t.Fatalf("gone on: exit %d\n%s\n%s", code, said, out)
	}
	t.Log(out)
	after, err := measure.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(after.Order, before.Order) || !reflect.DeepEqual(after.Boots[:2], before.Boots) || len(after.Boots) != 4 || after.Stop.Reason != measure.StopBoots {
		t.Errorf("gone on: %+v, order %v and %v, %d boots", after.Stop, before.Order, after.Order, len(after.Boots))
	}
	for i, b := range after.Boots {
		if b.Index != i+1 || b.Rejected != "" || len(b.Runs) != 4 {
			t.Errorf("boot %d: %+v", i+1, b)
		}
	}
	if r, err := runfolder.Open(dir); err != nil || r.Verdict != checks.Pass || len(r.Resumed) != 1 {
		t.Errorf("run folder: %v, %+v", err, r)
	}
	a, err := measure.Analyse(after)
	if err != nil {
		t.Fatal(err)
	}
	if r := row(t, a, "counted/Sends inline per RPC"); r.Varies || r.Mean.Patched < 0.9 {
		t.Errorf("%+v", r)
	}
}
