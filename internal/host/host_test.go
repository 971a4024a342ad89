// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"reflect"
	"testing"
)

func TestMissing(t *testing.T) {
	pkgs, other := Missing([]Result{
		{Name: "flex", Package: "flex"},
		{Name: "gcc", Package: "gcc", OK: true},
		{Name: "sparse", Package: "sparse", Optional: true},
		{Name: "disk space"},
	})
	if !reflect.DeepEqual(pkgs, []string{"flex"}) || len(other) != 1 || other[0].Name != "disk space" {
		t.Errorf("packages %v, other %v", pkgs, other)
	}
}

// A host without any program must be told about each that is needed.
func TestCheckSeesMissingPrograms(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	bad := map[string]bool{}
	for _, r := range Check(t.TempDir()) {
		if !r.OK {
			bad[r.Name] = true
		}
	}
	for _, n := range []string{"git", "make", "gcc", "flex", "QEMU", "bubblewrap"} {
		if !bad[n] {
			t.Errorf("%s is not in PATH and was not missed", n)
		}
	}
}

func TestEveryNeedSaysWhyAndWhence(t *testing.T) {
	for _, n := range Needs() {
		if n.Why == "" || n.Package == "" || n.found == nil {
			t.Errorf("%+v is incomplete", n.Name)
		}
	}
}

func TestHostFacts(t *testing.T) {
	if cpu, mem := CPUMem(); cpu == "" || mem <= 0 {
		t.Errorf("cpu %q, memory %d", cpu, mem)
	}
	if _, err := os.Stat("/etc/os-release"); err == nil && OS() == "" {
		t.Error("no name of the system")
	}
}
