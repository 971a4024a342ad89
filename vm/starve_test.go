// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestReadHold(t *testing.T) {
	proc := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		p := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("7/stat", "7 (qemu (x) T) S 1 7 7")
	write("7/task/7/schedstat", "1000 2000000000 3\n")
	write("7/task/8/schedstat", "1000 5000000000 3\n")
	write("7/task/9/schedstat", "no number\n")
	if got, want := readHold(proc, 7), (Hold{Waited: 5 * time.Second}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	write("7/stat", "7 (qemu) T 1 7 7")
	if !readHold(proc, 7).Frozen {
		t.Error("a stopped QEMU is not seen")
	}
	if got := readHold(proc, 8); got != (Hold{}) {
		t.Errorf("a process that is gone: %+v", got)
	}
}

func TestStretch(t *testing.T) {
	for _, c := range []struct {
		wall, waited time.Duration
		want         float64
	}{
		{0, 0, 1},
		{10 * time.Second, 0, 1},
		{10 * time.Second, 5 * time.Second, 2},
		{10 * time.Second, 9900 * time.Millisecond, maxStretch},
		{10 * time.Second, 11 * time.Second, maxStretch},
	} {
		if got := Stretch(c.wall, c.waited); got != c.want {
			t.Errorf("Stretch(%v, %v) = %v, want %v", c.wall, c.waited, got, c.want)
		}
	}
}
