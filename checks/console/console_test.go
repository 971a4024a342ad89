// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchcheck/internal/sharedtest"
)

var update = flag.Bool("update", false, "rewrite the headers of testdata/*.txt with what is found now")

// A case file is a header block of "KEY: value" lines, one empty line, and
// the log. Keys: CRASH, CLASS, TITLE, MORE (titles of further reports, joined
// by " | ", "!" before consequences), COUNT (of the first), FLAGS.
func readCase(t *testing.T, path string) (head string, log []byte) {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h, l, ok := bytes.Cut(b, []byte("\n\n"))
	if !ok {
		t.Fatalf("%s: no empty line after the header block", path)
	}
	return string(h) + "\n", l
}

func summary(r Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "CRASH: %v\nCLASS: %s\n", r.Crash, r.Class)
	if r.Crash {
		fmt.Fprintf(&b, "TITLE: %s\n", r.Title)
		var more []string
		for _, c := range r.Reports[1:] {
			p := ""
			if c.Consequence {
				p = "!"
			}
			more = append(more, p+c.Title)
		}
		if more != nil {
			fmt.Fprintf(&b, "MORE: %s\n", strings.Join(more, " | "))
		}
		if n := r.Reports[0].Count; n > 1 {
			fmt.Fprintf(&b, "COUNT: %d\n", n)
		}
	}
	var flags []string
	if r.Truncated {
		flags = append(flags, "truncated")
	}
	if r.Dropped > 0 {
		flags = append(flags, fmt.Sprintf("dropped=%d", r.Dropped))
	}
	if r.BootFail != "" {
		flags = append(flags, "boot-fail")
	}
	for _, e := range r.Events {
		flags = append(flags, fmt.Sprintf("%s=%d", e.Kind, e.Count))
	}
	if flags != nil {
		fmt.Fprintf(&b, "FLAGS: %s\n", strings.Join(flags, " "))
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d case files, %v", len(files), err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			want, log := readCase(t, f)
			r, err := Parse(bytes.NewReader(log), Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := summary(r)
			if *update && got != want {
				if err := os.WriteFile(f, []byte(got+"\n"+string(log)), 0o644); err != nil {
					t.Fatal(err)
				}
				t.Logf("rewritten:\n%s", got)
				return
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

// allLogs are the logs of the golden cases, and of the suite when it is there.
func allLogs(t testing.TB) map[string][]byte {
	logs := map[string][]byte{}
	files, _ := filepath.Glob("testdata/*.txt")
	if dir, ok := sharedtest.Find("cases", "suites", "console", "logs"); ok {
		more, _ := filepath.Glob(filepath.Join(dir, "*.log"))
		files = append(files, more...)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		logs[f] = b
	}
	return logs
}

// The result does not depend on how the stream was cut.
func TestStreamEqualsBatch(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	for name, log := range allLogs(t) {
		want, err := Parse(bytes.NewReader(log), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, most := range []int{1, 7, 300} {
			if most == 1 && len(log) > 4000 {
				continue
			}
			d := NewDetector(Options{})
			for rest := log; len(rest) > 0; {
				n := min(len(rest), 1+rnd.Intn(most))
				d.Write(rest[:n])
				rest = rest[n:]
			}
			d.Close()
			if diff := cmp.Diff(want, d.Report()); diff != "" {
				t.Fatalf("%s in pieces of up to %d bytes: -batch +stream\n%s", name, most, diff)
			}
		}
	}
}

// How the lines were carried does not change what they say.
func TestCarriers(t *testing.T) {
	prefix := regexp.MustCompile(`(?m)^(<\d>)?\[ *\d+\.\d+\](\[ *[TC]\d+\])? ?`)
	carriers := map[string]func(string) string{
		"CRLF":     func(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "\r", ""), "\n", "\r\n") },
		"CRCRLF":   func(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "\r", ""), "\n", "\r\r\n") },
		"colour":   func(s string) string { return prefix.ReplaceAllString(s, "\x1b[32m$0\x1b[0;1m") },
		"level":    func(s string) string { return prefix.ReplaceAllString(s, "<4>$0") },
		"journald": func(s string) string { return prefix.ReplaceAllString(s, "Nov 30 13:00:00 guest kernel: ") },
		"ISO time": func(s string) string {
			return prefix.ReplaceAllString(s, "2026-11-30T13:00:00.123456+00:00 guest kernel: ")
		},
		"no stamp": func(s string) string { return prefix.ReplaceAllString(s, "") },
		"login":    func(s string) string { return strings.Replace(s, "[", "guest login: [", 1) },
	}
	differ := map[string]int{}
	logs := allLogs(t)
	for name, log := range logs {
		if _, rest, ok := bytes.Cut(log, []byte("\n\n")); ok && strings.HasPrefix(name, "testdata") {
			log = rest
		}
		want, _ := Parse(bytes.NewReader(log), Options{})
		for c, f := range carriers {
			if c == "login" && bytes.Contains(log, []byte("Linux version")) {
				continue // nobody logs in before the kernel runs
			}
			text := f(string(log))
			got, _ := Parse(strings.NewReader(text), Options{})
			if got.Title == want.Title && got.Class == want.Class {
				continue
			}
			// Without stamps, contexts and reboots cannot be told apart,
			// and an unfinished "Kernel panic - not sy" could be a program's.
			if strings.HasPrefix(c, "no stamp") || c == "journald" || c == "ISO time" {
				differ[c]++
				t.Logf("%s: %s: %q, as logged %q", filepath.Base(name), c, got.Title, want.Title)
				continue
			}
			t.Errorf("%s: %s: %q, as logged %q", filepath.Base(name), c, got.Title, want.Title)
		}
	}
	for c, n := range differ {
		if n*10 > len(logs) {
			t.Errorf("%s changes %d of %d", c, n, len(logs))
		}
	}
}

// A live reader hears of a crash when its header is there, not at the end.
func TestNotices(t *testing.T) {
	d := NewDetector(Options{})
	d.Line("[    1.000000] Run /init as init process")
	d.Line("[    2.000000] BUG: kernel NULL pointer dereference, address: 0000000000000008")
	n := d.Notices()
	if len(n) != 1 || n[0].State != Opened || n[0].Crash.Class != Oops {
		t.Fatalf("after the header: %+v", n)
	}
	d.Line("[    2.000001] Oops: Oops: 0000 [#1] SMP NOPTI")
	d.Line("[    2.000002] RIP: 0010:demo_open+0x12/0x40")
	d.Line("[    2.000003] Call Trace:")
	d.Line("[    2.000004]  demo_caller+0x1/0x10")
	d.Line("[    2.000005] ---[ end trace 0000000000000000 ]---")
	n = d.Notices()
	if len(n) != 1 || n[0].State != Closed || n[0].Crash.Title != "BUG: unable to handle kernel NULL pointer dereference in demo_open" {
		t.Fatalf("after the end mark: %+v", n)
	}
}

// A program's text that looks like a report does not count; the same text
// from the kernel does.
func TestLookAlikes(t *testing.T) {
	for _, c := range []struct {
		name, log string
		crash     bool
	}{
		{"echo of a command", "root@guest:~# echo 'Kernel panic - not syncing: x'\n", false},
		{"grep in a script trace", "+ grep -c 'BUG: KASAN: use-after-free in foo+0x1/0x2' log\n", false},
		{"printed by a test among kernel lines", "[    1.0] a\n[    1.1] b\n[    1.2] c\n[    1.3] d\nBUG: KASAN: use-after-free in foo+0x1/0x2\nok 1\n", false},
		{"printed by the kernel", "[    1.0] BUG: KASAN: use-after-free in foo+0x1/0x2\n", true},
		{"journal of another unit", "Nov 30 13:00:00 host test[12]: WARNING: CPU: 0 PID: 1 at a.c:1 foo+0x1/0x2\n", false},
		{"another unit shows dmesg", "Nov 30 13:00:00 host test[12]: [   12.000000] BUG: KASAN: use-after-free in foo+0x1/0x2\n", false},
		{"journal of the kernel", "Nov 30 13:00:00 host kernel: WARNING: CPU: 0 PID: 1 at a.c:1 foo+0x1/0x2\n", true},
		{"user general protection", "[    1.0] traps: prog[12] general protection fault ip:1 sp:2 error:0 in prog[3+4]\n", false},
		{"unknown warning", "[    1.0] WARNING: this option is deprecated\n", false},
		{"unknown BUG of the kernel", "[    1.0] BUG: the device is confused\n", true},
		{"firmware's bug", "[    1.0] pci 0000:00:1f.0: BIOS BUG: bad table\n[    1.1] next\n", false},
		{"a driver's BUG with a trace", "[    1.0] demo: BUG: bad table\n[    1.1] Call Trace:\n[    1.2]  demo_a+0x1/0x2\n", true},
		{"unknown BUG of a program", "BUG: retry later\nanother line\n", false},
		{"old dmesg shown again has no prefix but a trace", "[    1.0] a\n[    1.1] b\n[    1.2] c\n[    1.3] d\nBUG: sleeping function called from invalid context at a.c:1\nCall Trace:\n foo+0x1/0x2\n bar+0x1/0x2\n", true},
		{"cut in the middle of the panic's own words", "[    1.0] Kernel panic - not sy", true},
		{"not cut there", "[    1.0] Kernel panic - not sy\n[    1.1] next\n", false},
		{"command line", "[    0.0] Command line: oops=panic softlockup_panic=1 Kernel panic - not syncing\n", false},
	} {
		r, _ := Parse(strings.NewReader(c.log), Options{})
		if r.Crash != c.crash {
			t.Errorf("%s: crash %v, want %v (%q)", c.name, r.Crash, c.crash, r.Title)
		}
	}
}

// Titles do not depend on addresses, offsets, compilers, tasks and CPUs.
func TestTitleStable(t *testing.T) {
	forms := []string{
		"[%d.1][ T%[1]d] BUG: KASAN: slab-use-after-free in svc_put.isra.%[1]d+0x%[1]x/0x90 [sunrpc]\n[%[1]d.1][ T%[1]d] Read of size 8 at addr ffff88800%[1]d by task nfsd/%[1]d\n",
		"[%d.1] WARNING: CPU: %[1]d PID: %[1]d at net/sunrpc/svc.c:%[1]d svc_recv.cold+0x%[1]x/0x99\n",
		"[%d.1] WARNING: net/sunrpc/svc.c:%[1]d at svc_recv.constprop.0+0x%[1]x/0x99, CPU#%[1]d: nfsd/%[1]d\n",
		"[%d.1] Oops: general protection fault, probably for non-canonical address 0xdead%[1]d: 0000 [#1] SMP\n[%[1]d.1] RIP: 0010:svc_xprt_put+0x%[1]x/0x44\n",
		"[%d.1] unregister_netdevice: waiting for eth%[1]d to become free. Usage count = %[1]d\n",
		"[%d.1] BUG: something unknown at 0xffffffff%[1]d on CPU %[1]d\n",
	}
	for _, f := range forms {
		a, _ := Parse(strings.NewReader(fmt.Sprintf(f, 17)), Options{})
		b, _ := Parse(strings.NewReader(fmt.Sprintf(f, 2)), Options{})
		if !a.Crash || a.Title != b.Title || a.Class != b.Class {
			t.Errorf("%q and %q", a.Title, b.Title)
		}
	}
}

func TestSlowMarksSuspect(t *testing.T) {
	log := strings.Repeat("[  672.553000] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [nfsd:978]\n[  672.553001] CPU: 1 PID: 978 Comm: nfsd Not tainted 7.3.4 #1\n", 5)
	r, _ := Parse(strings.NewReader(log), Options{Slow: "emulated guest (TCG)"})
	if len(r.Reports) != 1 || r.Reports[0].Count != 5 || r.Reports[0].Suspect == "" {
		t.Fatalf("%+v", r.Reports)
	}
	fs := Findings(r)
	if len(fs) != 1 || fs[0].ID != "console.lockup" || fs[0].Severity != "warning" {
		t.Fatalf("%+v", fs)
	}
}

// Escapes of the console never reach the evidence.
func TestEvidenceHasNoEscapes(t *testing.T) {
	log := "[1.0] \x1b]0;title\x07\x1b[31mBUG: KASAN: slab-out-of-bounds in foo+0x1/0x2\x1b[0m\x9b31m\u202e\n[1.0] Write of size 1\n"
	r, _ := Parse(strings.NewReader(log), Options{})
	if r.Title != "KASAN: slab-out-of-bounds Write in foo" {
		t.Fatalf("title %q", r.Title)
	}
	b, _ := json.Marshal(r)
	for _, bad := range []string{`\u001b`, `\u0007`, `\u202e`, "\u202e", "\u009b"} {
		if bytes.Contains(b, []byte(bad)) {
			t.Errorf("%q in %s", bad, b)
		}
	}
}

func TestBounds(t *testing.T) {
	d := NewDetector(Options{})
	junk := bytes.Repeat([]byte("x[  1.2] BUG: a "), 1<<16) // 1 MiB with no newline
	d.Write(junk)
	if len(d.buf) > maxLine {
		t.Errorf("buffer of %d bytes", len(d.buf))
	}
	for i := range 5000 {
		fmt.Fprintf(d, "[    1.0][ T%d] BUG: unknown thing number %c%c%c\n", i, 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26)
	}
	if len(d.open) > maxContexts || len(d.reports) > maxReports {
		t.Errorf("%d open, %d reports", len(d.open), len(d.reports))
	}
	d.Close()
}

func FuzzParse(f *testing.F) {
	for _, log := range allLogs(f) {
		if len(log) < 4000 {
			f.Add(log)
		}
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		r, err := Parse(bytes.NewReader(log), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Crash != (len(r.Reports) > 0) || r.Crash == (r.Class == None) {
			t.Fatalf("inconsistent: %+v", r)
		}
		for _, c := range r.Reports {
			if c.Title == "" || c.Line < 1 || c.Count < 1 || strings.ContainsAny(c.Title, "\x00\x1b\n") {
				t.Fatalf("bad report %+v", c)
			}
		}
		Findings(r)
	})
}

// BenchmarkBoot reads what a quiet guest prints; BenchmarkCrash reads logs
// full of reports.
func BenchmarkBoot(b *testing.B) {
	var log bytes.Buffer
	for i := range 20000 {
		fmt.Fprintf(&log, "[%5d.%06d] pci 0000:00:%02x.0: BAR %d [mem 0xfebf%04x-0xfebfffff 64bit pref]: assigned\n", i/100, i, i%32, i%6, i%65536)
	}
	b.SetBytes(int64(log.Len()))
	for b.Loop() {
		Parse(bytes.NewReader(log.Bytes()), Options{})
	}
}

func BenchmarkCrash(b *testing.B) {
	logs := allLogs(b)
	n := 0
	for _, l := range logs {
		n += len(l)
	}
	b.SetBytes(int64(n))
	for b.Loop() {
		for _, l := range logs {
			Parse(bytes.NewReader(l), Options{})
		}
	}
}
