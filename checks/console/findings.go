// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"sort"

	"patchcheck/checks"
)

// EvidenceLines of a report go into a finding; the run folder has them all.
const EvidenceLines = 40

// source of a class: where the kernel prints or documents it.
var sources = map[Class]struct{ title, source, fix string }{
	Oops:        {"the kernel took a trap in its own code", "arch/*/mm/fault.c; Documentation/admin-guide/bug-hunting.rst", "look at the function that the title names; with debug info in the kernel (configuration fragment debuginfo) the frames come with file and line"},
	Bug:         {"the kernel found its own state to be impossible", "lib/bug.c, lib/list_debug.c, mm/slub.c; Documentation/admin-guide/bug-hunting.rst", "read the condition at the file and line that the report names"},
	Warn:        {"a WARN_ON fired", "kernel/panic.c; Documentation/process/deprecated.rst", "read the condition at the file and line that the report names"},
	KASAN:       {"bad memory access found by KASAN", "Documentation/dev-tools/kasan.rst", "compare the access with the traces of allocation and free in the report"},
	KMSAN:       {"use of uninitialised memory found by KMSAN", "Documentation/dev-tools/kmsan.rst", "initialise what the report says was stored or allocated"},
	KCSAN:       {"data race found by KCSAN", "Documentation/dev-tools/kcsan.rst", "lock the accesses, or mark them with READ_ONCE, WRITE_ONCE or data_race"},
	KFENCE:      {"bad memory access found by KFENCE", "Documentation/dev-tools/kfence.rst", "compare the access with the traces of allocation and free in the report"},
	UBSAN:       {"undefined behaviour found by UBSAN", "Documentation/dev-tools/ubsan.rst", "check the operands at the file and line that the report names"},
	Lockdep:     {"locking rules broken", "Documentation/locking/lockdep-design.rst; Documentation/RCU/lockdep-splat.rst", "follow the chain of locks in the report"},
	HungTask:    {"a task slept without end", "kernel/hung_task.c; Documentation/admin-guide/sysctl/kernel.rst (hung_task_timeout_secs)", "find what the task waits for in the trace"},
	Lockup:      {"a CPU did not schedule or take interrupts", "Documentation/admin-guide/lockup-watchdogs.rst", "look for a loop that does not end in the function named"},
	RCUStall:    {"RCU found a CPU or task that holds up a grace period", "Documentation/RCU/stallwarn.rst", "look for a loop that does not end in the function named"},
	HangOther:   {"a watchdog of the kernel fired", "kernel/workqueue.c", "find what does not end in the trace"},
	Refcount:    {"a reference counter went wrong", "lib/refcount.c", "pair each get with one put on every path of the function named"},
	AtomicSleep: {"the kernel slept in atomic context", "kernel/sched/core.c; Documentation/kernel-hacking/locking.rst", "allocate with GFP_ATOMIC, or leave the atomic section first"},
	Leak:        {"memory or a reference leaked", "Documentation/dev-tools/kmemleak.rst; lib/ref_tracker.c", "free the object on every path of the function that allocated it"},
	Panic:       {"the kernel panicked", "kernel/panic.c", "the lines before the panic say why"},
	Reboot:      {"the kernel started a second time without being told to", "the second kernel banner of the console", "look at the last lines before the banner; a triple fault prints nothing"},
	Other:       {"the kernel reported an error of its own", "the line itself", "search the kernel for the text"},
	Fuzzer:      {"syzkaller failed, not the kernel", "pkg/report of syzkaller", "check the fuzzer's set-up"},
}

// Rules that say what the log cannot prove, and nothing about the kernel.
const (
	Truncated = "console.truncated"
	Dropped   = "console.dropped"
	Undecoded = "console.undecoded"
)

// Rules are the findings that this package can make.
var Rules = func() []checks.Rule {
	var rs []checks.Rule
	for c, s := range sources {
		sev := checks.Error
		if c == Fuzzer {
			sev = checks.Note
		}
		rs = append(rs, checks.Rule{ID: "console." + string(c), Severity: sev, Title: s.title, Source: s.source, Fix: s.fix})
	}
	rs = append(rs,
		checks.Rule{ID: "console.consequence", Severity: checks.Note, Title: "a report that an earlier one probably caused", Source: "kernel taint and order of the reports", Fix: "look at the first report"},
		checks.Rule{ID: Truncated, Severity: checks.Warning, Title: "the console log ends within a report", Source: "no end mark and no stack trace", Fix: "let the guest live a few seconds longer after the first line of a report"},
		checks.Rule{ID: Undecoded, Severity: checks.Note, Title: "frames were not decoded to file and line", Source: "the tree's scripts/decode_stacktrace.sh", Fix: "see the reason; the frames stand as they were logged"},
		checks.Rule{ID: Dropped, Severity: checks.Warning, Title: "the console lost kernel messages", Source: "kernel/printk/printk.c", Fix: "read dmesg of the guest too, raise log_buf_len, or log less"},
		checks.Rule{ID: "console.test-fail", Severity: checks.Error, Title: "a KUnit test of the kernel failed", Source: "Documentation/dev-tools/ktap.rst", Fix: "the lines before \"not ok\" say what was expected"},
		checks.Rule{ID: "console.boot-fail", Severity: checks.Error, Title: "the guest did not reach its init", Source: "init/main.c, init/do_mounts.c", Fix: "see the reason"},
	)
	sort.Slice(rs, func(i, j int) bool { return rs[i].ID < rs[j].ID })
	return rs
}()

func rule(id string) checks.Rule {
	for _, r := range Rules {
		if r.ID == id {
			return r
		}
	}
	return checks.Rule{ID: id, Severity: checks.Error}
}

// Findings turns a report into findings: one for each title, in order, and one
// for each thing that limits what the log can prove. A finding's place is the
// line of the log, or the line of the source when the report was decoded.
func Findings(r Report) []checks.Finding {
	var out []checks.Finding
	for _, c := range r.Reports {
		ru := rule("console." + string(c.Class))
		where := checks.Where{Line: c.Line}
		if c.At != nil {
			where = checks.Where{File: c.At.File, Line: c.At.Line}
		}
		f := ru.New(where, "%s", c.Title)
		if c.Count > 1 {
			f.Message += fmt.Sprintf(" (%d times)", c.Count)
		}
		if c.Consequence {
			f.ID, f.Severity = "console.consequence", checks.Note
			f.Message += ": probably a consequence of " + r.Title
		}
		if c.Suspect != "" {
			f.Severity = checks.Warning
			f.Message += "; SUSPECT: " + c.Suspect + " makes time-outs fire late or falsely"
		}
		if c.Truncated {
			f.Message += "; TRUNCATED: the log ends within this report"
		}
		f.Evidence = c.Text
		if len(f.Evidence) > EvidenceLines {
			f.Evidence = f.Evidence[:EvidenceLines:EvidenceLines]
		}
		out = append(out, f)
	}
	if r.Truncated {
		out = append(out, rule(Truncated).New(checks.Where{Line: r.Lines}, "the log ends within a report, after %d lines", r.Lines))
	}
	if r.BootFail != "" {
		out = append(out, rule("console.boot-fail").New(checks.Where{}, "BOOT_FAIL: %s", r.BootFail))
	}
	if r.Dropped > 0 {
		out = append(out, rule(Dropped).New(checks.Where{}, "%d printk messages never reached the console: a report may be missing", r.Dropped))
	}
	for _, e := range r.Events {
		if e.Kind == KindTestFail {
			f := rule("console.test-fail").New(checks.Where{Line: e.Line}, "%d KUnit results are \"not ok\"", e.Count)
			f.Evidence = []string{e.Text}
			out = append(out, f)
		}
	}
	return out
}

// NotDecoded is the finding that frames could not be decoded, and why; said is
// what the tools printed.
func NotDecoded(why string, said []string) checks.Finding {
	f := rule(Undecoded).New(checks.Where{}, "%s", visible(why))
	for _, l := range said {
		f.Evidence = append(f.Evidence, visible(l))
	}
	return f
}
