// SPDX-License-Identifier: Apache-2.0

package kernelconfigs

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

func TestEmbeddedFragmentsParseAndMerge(t *testing.T) {
	for _, n := range Names() {
		f, err := Load(n)
		if err != nil {
			t.Errorf("%s: %v", n, err)
			continue
		}
		if !strings.HasPrefix(f.Text, "# SPDX-License-Identifier: GPL-2.0-only\n") {
			t.Errorf("%s does not begin with the licence line", n)
		}
	}
	if _, err := LoadAll("guest", "nfs-rdma", "debug"); err != nil {
		t.Error(err)
	}
	// Debug info goes with a plain kernel and with a debug kernel.
	for _, names := range [][]string{{"guest", "nfs-rdma", "debuginfo"}, {"guest", "nfs-rdma", "debug", "debuginfo"}} {
		m, err := LoadAll(names...)
		if err != nil {
			t.Error(err)
			continue
		}
		if s := m.Text(); !strings.Contains(s, "CONFIG_DEBUG_INFO_DWARF5=y\n") || strings.Contains(s, "CONFIG_DEBUG_INFO_NONE=y") {
			t.Errorf("%v ask for\n%s", names, s)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no prefix":       {"NFSD=y\n", `"NFSD=y" is not a kernel configuration line`},
		"bad value":       {"CONFIG_NFSD=yes\n", "yes is no value"},
		"trailing words":  {"CONFIG_NFSD=y # really\n", "is no value"},
		"contradiction":   {"CONFIG_A=y\n# CONFIG_A is not set\n", "contradicts CONFIG_A=y in line 1"},
		"nothing in it":   {"# only words\n", "sets no symbol"},
		"indented":        {"  CONFIG_A=y\n", "is not a kernel configuration line"},
		"space around =":  {"CONFIG_A = y\n", "is not a kernel configuration line"},
		"unclosed string": {"CONFIG_A=\"x\n", "is no value"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("f.config", c.text)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestMergeConflicts(t *testing.T) {
	a, _ := Parse("a", "CONFIG_X=y\nCONFIG_Y=5\n")
	b, _ := Parse("b", "CONFIG_Z=m\nCONFIG_X=n\n")
	_, err := Merge(a, b)
	var ce *ConflictError
	if !errors.As(err, &ce) || ce.A.Fragment != "a" || ce.B.Line != 2 {
		t.Fatalf("got %v, want a conflict between a:1 and b:2", err)
	}
	over, _ := Parse("b", "CONFIG_Z=m\n# patchcheck: override\nCONFIG_X=n\n")
	m, err := Merge(a, over)
	if err != nil {
		t.Fatal(err)
	}
	want := "# CONFIG_X is not set\nCONFIG_Y=5\nCONFIG_Z=m\n"
	if m.Text() != want {
		t.Errorf("got\n%s\nwant\n%s", m.Text(), want)
	}
	rev, _ := Merge(over, a)
	if rev != nil {
		t.Error("an override must not be undone by a later fragment without a word")
	}
}

func TestVerify(t *testing.T) {
	f, _ := Parse("f", "CONFIG_A=y\nCONFIG_B=n\nCONFIG_C=0x10\nCONFIG_D=\"s\"\nCONFIG_E=y\nCONFIG_F=n\nCONFIG_G=3\n")
	m, _ := Merge(f)
	c, err := ParseConfig(strings.NewReader("CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=16\nCONFIG_D=\"s\"\nCONFIG_E=m\nCONFIG_F=y\nCONFIG_G=4\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range m.Verify(c) {
		got = append(got, x.Name+"="+x.Got)
	}
	if s := strings.Join(got, " "); s != "E=m F=y G=4" {
		t.Errorf("got %q", s)
	}
}

func TestExplain(t *testing.T) {
	files := map[string]string{
		"Kconfig": `mainmenu "x"
source "fs/Kconfig"
source "arch/$(SRCARCH)/Kconfig"
`,
		"arch/x86/Kconfig": "config X86\n\tdef_bool y\n",
		"fs/Kconfig": `menu "File systems"
	depends on BLOCK || NETFS

config NFSD
	tristate "NFS server"
	depends on INET && \
		FILE_LOCKING
	depends on !UML
	select FSNOTIFY
	help
	  Some words.

	  config NOT_A_SYMBOL
	  depends on nothing

config HIDDEN
	bool

config FSNOTIFY
	bool

if EXPERT
config DEEP
	bool "Deep"
	depends on $(cc-option,-fx)
endif

config VISIBLE
	bool "Visible" if EXPERT
	default y

config LEVEL
	int "Level"
	depends on INET

endmenu
`,
	}
	read := func(n string) ([]byte, error) {
		if s, ok := files[n]; ok {
			return []byte(s), nil
		}
		return nil, fs.ErrNotExist
	}
	c := Config{"NETFS": "y", "FILE_LOCKING": "y", "NFSD": "y"}
	for _, tc := range []struct{ name, value, got, want string }{
		{"NFSD", "y", "n", "depends on INET, which does not hold (fs/Kconfig:4)"},
		{"NOPE", "y", "n", "no symbol of that name"},
		{"NOT_A_SYMBOL", "y", "n", "no symbol of that name"},
		{"HIDDEN", "y", "n", "cannot be set by hand"},
		{"FSNOTIFY", "n", "y", "selected by NFSD"},
		{"DEEP", "y", "n", "depends on EXPERT,"},
		{"VISIBLE", "n", "y", "depends on EXPERT,"},
	} {
		m := []Missing{{Symbol: Symbol{Name: tc.name, Value: tc.value}, Got: tc.got}}
		Explain(m, c, "x86", read)
		if !strings.Contains(m[0].Reason, tc.want) {
			t.Errorf("%s: got %q, want %q in it", tc.name, m[0].Reason, tc.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("CONFIG_A=y\n# CONFIG_B is not set\n")
	f.Add("CONFIG_A=\"\\\"\"\n")
	f.Fuzz(func(t *testing.T, s string) {
		fr, err := Parse("f", s)
		if err != nil {
			return
		}
		m, err := Merge(fr)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("g", m.Text())
		if err != nil {
			t.Fatalf("merged text does not parse: %v\n%s", err, m.Text())
		}
		m2, err := Merge(again)
		if err != nil || m2.Text() != m.Text() {
			t.Fatalf("merged text is not stable: %v", err)
		}
	})
}

func FuzzEval(f *testing.F) {
	f.Add("A && (B || !C) && D = \"x\"")
	f.Fuzz(func(t *testing.T, s string) {
		eval(s, func(string) string { return "" })
		unmet(s, func(string) string { return "y" })
	})
}
