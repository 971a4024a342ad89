// SPDX-License-Identifier: Apache-2.0

//go:build integration

package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/cache"
	"patchcheck/internal/host"
	"patchcheck/internal/page"
	"patchcheck/internal/report"
	"patchcheck/internal/runfolder"
	"patchcheck/internal/sharedtest"
	"patchcheck/internal/view"
	"patchcheck/patches"
	"patchcheck/testplans"
	"patchcheck/vm"
	"patchcheck/vm/guestssh"
	"patchcheck/vm/image"
)

// These tests build and boot the real kernel. They fail, never skip, when the
// host lacks something; only tests that read ../shared skip without it.

var (
	e2eCache string
	e2eAgent string
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		root, err := cache.DefaultRoot()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		e2eCache = root
		if os.Getenv(bedEnv) != "" {
			return m.Run() // a child that is there to be killed; it needs no guest
		}
		if pk, other := host.Missing(host.Check(root)); len(pk)+len(other) > 0 {
			fmt.Fprintf(os.Stderr, "this host lacks %v %v: run  make deps\n", pk, other)
			return 1
		}
		dir, err := os.MkdirTemp("", "patchcheck-agent-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if e2eAgent, err = image.BuildAgent(context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

func options(t *testing.T) Options {
	t.Helper()
	return Options{Plan: "svcrdma-inline", Tree: "debian:linux-source-7.3", CacheDir: e2eCache, RunsDir: filepath.Join(t.TempDir(), "runs"),
		Accel: "auto", Agent: e2eAgent, Tool: "test", View: view.New(testWriter{t})}
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

func mustRun(t *testing.T, o Options) *runfolder.Run {
	t.Helper()
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	report.Write(&b, r, "text")
	t.Log(b.String())
	return r
}

// plan writes the bundled plan with edits applied, and the small workload.
func plan(t *testing.T, edits ...string) string {
	t.Helper()
	src, err := os.ReadFile("../../testplans/svcrdma-inline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := string(src)
	edits = append([]string{"size: 8MiB", "size: 1MiB", "count: 200", "count: 20", "inline > 1000", "inline > 100", "by_reference >= 2048", "by_reference >= 256"}, edits...)
	for i := 0; i < len(edits); i += 2 {
		n := strings.Replace(s, edits[i], edits[i+1], 1)
		if n == s {
			t.Fatalf("the plan has no %q", edits[i])
		}
		s = n
	}
	path := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// checkTable asserts the figures of the cover letter's table.
func checkTable(t *testing.T, r *runfolder.Run) {
	t.Helper()
	if r.Verdict != checks.Pass {
		t.Fatalf("verdict %s: %s", r.Verdict, r.Reason)
	}
	got := map[string]int64{}
	inline := map[string]int64{}
	for _, c := range r.Cells {
		a := c.Last()
		if a.Token == "" || a.Compared.ClientBytes < 8<<20 || a.Compared.ServerBytes < 8<<20 || a.Compared.Files != 200 {
			t.Errorf("%s: too little was compared: %+v token %q", c.ID, a.Compared, a.Token)
		}
		if !strings.Contains(a.Mounted, "rdma") {
			t.Errorf("%s: no proof of RDMA: %q", c.ID, a.Mounted)
		}
		if c.Spec.Device.Aside != "" {
			if a.Values["granted"] != 0 || a.Values["inline"] != 0 {
				t.Errorf("%s: %v", c.ID, a.Values)
			}
			continue
		}
		if c.Spec.Kernel == testplans.RoleBase {
			if a.Values["inline"] != 0 || a.Values["by_reference"] < 4000 {
				t.Errorf("%s: %v", c.ID, a.Values)
			}
			continue
		}
		d := c.Spec.Device.Name
		if old, ok := got[d]; ok && old != a.Values["granted"] {
			t.Errorf("%s: granted %d and %d", d, old, a.Values["granted"])
		}
		got[d] = a.Values["granted"]
		inline[d] += a.Values["inline"]
	}
	for _, w := range []struct {
		device string
		got    int64
		many   bool
	}{{"none", 256, true}, {"intel-216", 216, true}, {"intel-101", 101, false}, {"intel-48", 48, false}, {"alibaba-96", 96, false}, {"rxe-101", 96, false}} {
		if got[w.device] != w.got {
			t.Errorf("%s: QP got %d, want %d", w.device, got[w.device], w.got)
		}
		if n := inline[w.device]; w.many && n < 4000 || !w.many && n > 40 {
			t.Errorf("%s: %d Sends inline", w.device, n)
		}
	}
	p := page.Predict(r)
	if len(p.Measured) == 0 || len(p.Findings) > 0 {
		t.Errorf("the recorded sizes do not predict what was measured: %d points, %+v", len(p.Measured), p.Findings)
	}
}

func TestBundledSeries(t *testing.T) {
	o := options(t)
	o.Fresh = true
	r := mustRun(t, o)
	checkTable(t, r)
	for _, b := range r.Builds {
		if !b.OK || b.New != 0 {
			t.Errorf("build after patch %d: %+v", b.Patch, b)
		}
	}
	if r.Image.Compressed > 25<<20 {
		t.Errorf("image has %d bytes compressed", r.Image.Compressed)
	}

	// Nothing changed: everything is reused, and the table is the same.
	o.Fresh = false
	o.View = view.New(testWriter{t})
	again := mustRun(t, o)
	for _, c := range again.Cells {
		if c.Reused == "" {
			t.Errorf("%s was run again", c.ID)
		}
	}
	table := func(r *runfolder.Run) string { return fmt.Sprint(report.Build(r).Table) }
	if table(r) != table(again) {
		t.Errorf("tables differ:\n%s\n%s", table(r), table(again))
	}
}

func TestSeed(t *testing.T) {
	o := options(t)
	o.Sources = []string{sharedtest.Path(t, "seeds", "svcrdma-inline-cover-and-patch.txt")}
	r := mustRun(t, o)
	checkTable(t, r)
	if r.Tree.Exact != "not exact" {
		t.Errorf("the base of the seed is not 7.3.4, yet it is called %q", r.Tree.Exact)
	}
	if !strings.Contains(report.Build(r).Cover(), "with offsets and no fuzz") {
		t.Error("offsets are not reported")
	}
}

func TestIncompleteSeed(t *testing.T) {
	o := options(t)
	o.Sources = []string{sharedtest.Path(t, "seeds", "xpt-mutex-v1-2of7.eml")}
	_, err := Run(context.Background(), o)
	var ie *patches.InputError
	if !errors.As(err, &ie) || !strings.Contains(err.Error(), "1 and 3-7 are missing") {
		t.Errorf("got %v", err)
	}
	o.Incomplete = true
	o.View = view.New(testWriter{t})
	r := mustRun(t, o)
	if r.Verdict != checks.Fail || !strings.Contains(r.Reason, "does not apply") {
		t.Errorf("a 2020 patch on 7.3: %s %s", r.Verdict, r.Reason)
	}
}

// small runs one device and version with the small workload.
func small(t *testing.T, edits ...string) Options {
	o := options(t)
	o.Plan = plan(t, edits...)
	o.Device, o.NFS, o.Fresh = []string{"intel-216"}, []string{"3"}, true
	return o
}

// wantFinding asserts a verdict and a finding of the patched cell.
func wantFinding(t *testing.T, r *runfolder.Run, v checks.Verdict, id, text string) *runfolder.Cell {
	t.Helper()
	for _, c := range r.Cells {
		if c.Spec.Kernel != testplans.RolePatched {
			continue
		}
		if c.Verdict != v {
			t.Errorf("%s: verdict %s (%s), want %s", c.ID, c.Verdict, c.Reason, v)
		}
		for _, f := range c.Findings {
			if f.ID == id && strings.Contains(f.Message+strings.Join(f.Evidence, "\n"), text) {
				return c
			}
		}
		t.Errorf("%s: no finding %s with %q in %+v", c.ID, id, text, c.Findings)
		return c
	}
	t.Fatal("no patched cell")
	return nil
}

// Each oracle must be able to fail. The hook damages what the oracle looks at.

func onPatched(step string, do func(ctx context.Context, g *vm.Guest) error) func(context.Context, *vm.Guest, string, string) error {
	return func(ctx context.Context, g *vm.Guest, cell, s string) error {
		if strings.HasPrefix(cell, testplans.RolePatched) && s == step {
			return do(ctx, g)
		}
		return nil
	}
}

func sh(cmd string) func(ctx context.Context, g *vm.Guest) error {
	return func(ctx context.Context, g *vm.Guest) error {
		var out bytes.Buffer
		st, err := g.Exec(ctx, cmd, guestssh.IO{Stdout: &out, Stderr: &out})
		if err != nil {
			return err
		}
		if st.Exit != 0 {
			return fmt.Errorf("%s: exit %d: %s", cmd, st.Exit, out.String())
		}
		return nil
	}
}

func TestOracleServerContents(t *testing.T) {
	o := small(t)
	o.Hook = onPatched("direct: compare the exported file", sh(`printf X | dd of=/export/patched.intel-216.v3/direct bs=1 seek=70000 conv=notrunc 2>/dev/null`))
	c := wantFinding(t, mustRun(t, o), checks.Fail, "contents.differ", "70000")
	if len(c.Attempts) != 3 {
		t.Errorf("%d attempts, want base, first and fresh", len(c.Attempts))
	}
}

func TestOracleClientContents(t *testing.T) {
	o := small(t)
	// After the server's copy was found right, so that only the client sees it.
	o.Hook = onPatched("direct: read in calls of 4 KiB", sh(`printf X | dd of=/export/patched.intel-216.v3/direct bs=1 seek=12345 conv=notrunc 2>/dev/null`))
	wantFinding(t, mustRun(t, o), checks.Fail, "contents.differ", "12345")
}

func TestOracleSmallFiles(t *testing.T) {
	o := small(t)
	o.Hook = onPatched("files: read", sh(`f=$(ls -S /export/patched.intel-216.v3/files/* | head -n 1); printf X | dd of=$f bs=1 seek=1 conv=notrunc 2>/dev/null`))
	wantFinding(t, mustRun(t, o), checks.Fail, "contents.differ", "files: read")
}

func TestOracleLostEvents(t *testing.T) {
	// Every event is a row of its own, and there is room for few.
	o := small(t, "    event: rpcrdma/svcrdma_wc_send\n", "    event: rpcrdma/svcrdma_wc_send\n    keys: [common_timestamp]\n    entries: 128\n")
	wantFinding(t, mustRun(t, o), checks.Infra, "count.invalid", "dropped")
}

func TestOracleGrant(t *testing.T) {
	// The device grants more than the plan says of it.
	o := small(t, "standin_vendor_id: 0x8086, standin_inline_limit: 216", "standin_vendor_id: 0, standin_inline_limit: 512")
	wantFinding(t, mustRun(t, o), checks.Fail, "count.hold", "granted == device.got")
}

func TestOracleInlineNone(t *testing.T) {
	// The base's condition, asked of the patched kernel, must fail.
	o := small(t, "  - id: inline-none\n    on: base", "  - id: inline-none\n    on: patched")
	wantFinding(t, mustRun(t, o), checks.Fail, "count.hold", "inline-none")
}

func TestOracleTransport(t *testing.T) {
	o := small(t)
	o.Hook = onPatched("mount", sh(`mkdir -p /mnt && mount -t nfs -o vers=3,proto=tcp,nolock 192.0.2.1:/export /mnt`))
	r := mustRun(t, o)
	if r.Verdict == checks.Pass {
		t.Error("a mount over TCP passed for RDMA")
	}
}

func TestOracleConsole(t *testing.T) {
	for _, c := range []struct{ name, cmd, id, text string }{
		// The kernel's own words for a WARN, as the log would have them.
		{"warn", `printf '<4>------------[ cut here ]------------\n<4>WARNING: CPU: 0 PID: 77 at net/sunrpc/svc.c:100 svc_example+0x10/0x20\n' > /dev/kmsg; printf '<4>WARNING: net/sunrpc/svc.c:100 at svc_example+0x10/0x20, CPU#0: nfsd/77\n' > /dev/kmsg`, "console.warning", "svc_example"},
		{"panic", `echo c > /proc/sysrq-trigger; sleep 60`, "", "sysrq"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := small(t)
			o.Hook = onPatched("files: write", sh(c.cmd))
			start := time.Now()
			r := mustRun(t, o)
			if c.id != "" {
				wantFinding(t, r, checks.Fail, c.id, c.text)
			} else if r.Verdict != checks.Fail {
				t.Errorf("verdict %s", r.Verdict)
			}
			t.Logf("took %v", time.Since(start).Round(time.Second))
		})
	}
}

// An interrupted run ends within seconds and leaves no QEMU.
func TestInterrupt(t *testing.T) {
	o := small(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var at time.Time
	o.Hook = func(context.Context, *vm.Guest, string, string) error {
		at = time.Now()
		cancel()
		return nil
	}
	_, err := Run(ctx, o)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if at.IsZero() {
		t.Fatal("never got into a cell")
	}
	if d := time.Since(at); d > 3*time.Second {
		t.Errorf("took %v to stop", d)
	}
	if left := qemusOf(t, o.RunsDir); len(left) > 0 {
		t.Errorf("QEMU is still there: %v", left)
	}
}

// qemusOf finds QEMU processes that work for a folder.
func qemusOf(t *testing.T, dir string) (out []string) {
	t.Helper()
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err == nil && regexp.MustCompile(`^[^\x00]*qemu-system`).Match(b) && bytes.Contains(b, []byte(dir)) {
			out = append(out, n)
		}
	}
	return out
}

func TestShell(t *testing.T) {
	o := options(t)
	var out, errb bytes.Buffer
	code, err := Shell(context.Background(), o, ShellOptions{Command: "uname -r; exit 7", Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errb})
	if err != nil {
		t.Fatal(err)
	}
	if code != 7 || !strings.HasPrefix(out.String(), "7.3.") {
		t.Errorf("exit %d, output %q, stderr %q", code, out.String(), errb.String())
	}
}
