// SPDX-License-Identifier: Apache-2.0

package testplans

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestMeasureDefaults(t *testing.T) {
	p, err := Load("nfs-latency")
	if err != nil {
		t.Fatal(err)
	}
	m := p.Measure
	if m.Device != "none" || m.NFS != "3" || m.Warmup != 1 || m.Also[0].Better != "lower" || m.Also[5].Better != "none" {
		t.Errorf("%+v", m)
	}
	if c := m.Cell(p, RolePatched); c.ID() != "patched/none/v3" {
		t.Errorf("cell %s", c.ID())
	}
	for _, x := range m.Also {
		timed, counted := p.In(x, m.Jobs[0]), p.In(x, m.Jobs[1])
		if timed == counted || counted != p.NeedsCounts(x) {
			t.Errorf("metric %s: in the timed job %v, in the counted job %v", x.Name, timed, counted)
		}
	}
	if len(p.Cells()) != 0 {
		t.Errorf("cells: %v", p.Cells())
	}
}

// The plan for tails has writes enough for the percentile that it is about.
func TestTailHasSamples(t *testing.T) {
	p, err := Load("nfs-tail")
	if err != nil {
		t.Fatal(err)
	}
	option := func(name string) int64 {
		m := regexp.MustCompile(`(?m)^\s*` + name + `=(\d+)([km]?)$`).FindStringSubmatch(p.Measure.Jobs[0].Fio)
		if m == nil {
			t.Fatalf("the job has no %s", name)
		}
		n, _ := strconv.ParseInt(m[1], 10, 64)
		return n << map[string]int{"k": 10, "m": 20}[m[2]]
	}
	ios := option("io_size") / option("bs") * option("numjobs") * int64(p.Measure.Boots*p.Measure.Runs)
	// fio draws which I/O is a write: some percent are spare.
	if writes := ios * (100 - option("rwmixread")) / 100; writes < 105_000 {
		t.Errorf("%d writes; the 99.99th percentile needs 100,000", writes)
	}
}

// Each edit of a bundled plan must be refused with a message that names what
// is wrong.
func TestMeasureErrors(t *testing.T) {
	src, err := os.ReadFile("nfs-latency.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"unknown key", "  runs: 3", "  run: 3", "run"},
		{"device", "measure:\n", "measure:\n  device: nome\n", `"nome" is not known`},
		{"NFS version", "measure:\n", "measure:\n  nfs: \"4.2\"\n", "allowed: 3, 4.1"},
		{"runs", "  runs: 3", "  runs: 300", "runs 1 to 100"},
		{"job name", "name: counted\n", "name: a b\n", "without spaces"},
		{"two jobs of one name", "name: counted\n", "name: randwrite-qd1\n", "name of its own"},
		{"no section", "[randwrite]", "", "[section]"},
		{"expression", "cpu.busy / ops", "cpu.busy / opps", "unknown name opps"},
		{"member of an operation", "op.WRITE.rtt /", "op.WRITE.rrt /", "rrt"},
		{"better", "unit: ns, better: lower", "unit: ns, better: less", "allowed: lower, higher, none"},
		{"slash", "name: CPU per RPC", "name: CPU/RPC", "without slashes"},
		{"counts in a timed job", "name: enqueues per RPC,", "name: enqueues per RPC, jobs: [randwrite-qd1],", "is not counted"},
		{"job of a metric", "name: enqueues per RPC,", "name: enqueues per RPC, jobs: [other],", `"other" is not known`},
		{"count of a distribution", "from: client_latency", "from: clients", "which is no count"},
		{"key of a distribution", "key: rtt", "key: ttl", "no key of client_latency"},
		{"primary", "measure:\n", "measure:\n  primary: randwrite\n", "JOB/METRIC"},
	} {
		text := strings.Replace(string(src), c.old, c.new, 1)
		if text == string(src) {
			t.Errorf("%s: the plan has no %q", c.name, c.old)
			continue
		}
		if _, err := Parse("edited.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
