// SPDX-License-Identifier: Apache-2.0

package testplans

import (
	"os"
	"strings"
	"testing"
)

func TestEmbeddedPlansLoad(t *testing.T) {
	for _, n := range Names() {
		p, err := Load(n)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if p.Debug != nil {
			if _, err := p.WithDebug(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestCells(t *testing.T) {
	p, err := Load("svcrdma-inline")
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range p.Cells() {
		ids = append(ids, c.ID())
	}
	if len(ids) != 15 || ids[0] != "patched/none/v3" || ids[14] != "base/none/v4.1" {
		t.Errorf("cells: %v", ids)
	}
}

// Each edit of the bundled plan must be refused with a message that names the
// place and what is allowed.
func TestStrictErrors(t *testing.T) {
	src, err := os.ReadFile("svcrdma-inline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"unknown key", "  cpus: 2", "  cpu: 2", "allowed here: cpus, memory"},
		{"version", `nfs: ["3", "4.1"]`, `nfs: ["3", "5"]`, "allowed: 3, 4.0, 4.1, 4.2"},
		{"size", "8MiB, write", "8Mib, write", "is no size"},
		{"device typo", "base: {device: [none]}", "base: {device: [nome]}", `"nome" is not known; allowed: none, intel-216`},
		{"unknown name in hold", "that: granted == device.got", "that: grantet == device.got", "unknown name grantet"},
		{"unknown name in where", "bitand(flags, 8) != 0\"}", "bitand(flag, 8) != 0\"}", "unknown name flag"},
		{"no boolean", "that: too_long_inline == 0", "that: too_long_inline + 1", "expected bool"},
		{"column", "value: granted, unit", "value: grant, unit", "neither a value nor a device label"},
		{"unaligned direct write", "size: 256KiB, write: 4KiB", "size: 256KiB, write: 1000", "multiple of 512"},
		{"duplicate key", "name: svcrdma-inline", "name: a\nname: b", "already defined"},
		{"bad number", "standin_inline_limit: 216", "standin_inline_limit: many", "no whole number"},
		{"from", "from: [completions, ", "from: [completion, ", "is no count"},
		{"predict value", "  value: inline\n", "  value: inlined\n", "is no value of the plan"},
		{"predict size", "  size: len\n", "  size: length\n", "no key of shapes"},
		{"too many keys", "      wrs: sc_sqecount\n", "      wrs: sc_sqecount\n      flags: sc_send_wr.send_flags\n", "histograms take 3"},
		{"nothing read back", "read: [4KiB]", "read: []", "not read back is not tested"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := strings.Replace(string(src), c.old, c.new, 1)
			if bad == string(src) {
				t.Fatalf("the bundled plan no longer has %q", c.old)
			}
			_, err := Parse("x.yaml", []byte(bad))
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "[") {
				t.Errorf("message lacks %q or a position:\n%v", c.want, err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	src, _ := os.ReadFile("svcrdma-inline.yaml")
	f.Add(src)
	f.Add([]byte("name: x\naxes: {nfs: [3]}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		Parse("fuzz", b)
	})
}
