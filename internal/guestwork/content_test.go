// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"bytes"
	"strings"
	"testing"
)

// The content is a file format between runs of different builds on the two
// sides of the guest channel, so it is pinned.
func TestContentIsPinned(t *testing.T) {
	b := make([]byte, 24)
	newContent(1).fill(b, 0)
	c := newContent(1)
	for i, got := range b {
		if want := c.at(int64(i)); got != want {
			t.Fatalf("byte %d: fill gives %#x, at gives %#x", i, got, want)
		}
	}
	if got, want := c.word(0), uint64(0x52217fb17946f730); got != want {
		t.Errorf("word(0) = %#x, want %#x", got, want)
	}
}

func TestContentAnyAlignment(t *testing.T) {
	c := newContent(42)
	whole := make([]byte, 4096)
	c.fill(whole, 0)
	for off := range 40 {
		for _, n := range []int{0, 1, 7, 8, 9, 63, 1000} {
			b := make([]byte, n)
			c.fill(b, int64(off))
			if !bytes.Equal(b, whole[off:off+n]) {
				t.Fatalf("fill(%d bytes at %d) is not that part of the whole", n, off)
			}
			if d := c.diff(b, int64(off)); d != -1 {
				t.Fatalf("diff(%d bytes at %d) = %d for equal content", n, off, d)
			}
			for i := range b {
				b[i] ^= 0x10
				if d := c.diff(b, int64(off)); d != i {
					t.Fatalf("diff(%d bytes at %d) = %d, want %d", n, off, d, i)
				}
				b[i] ^= 0x10
			}
		}
	}
}

func TestUnmix(t *testing.T) {
	for _, v := range []uint64{0, 1, gamma, ^uint64(0), 0x0123456789abcdef} {
		if got := unmix(mix(v)); got != v {
			t.Errorf("unmix(mix(%#x)) = %#x", v, got)
		}
	}
	if got := uint64(gamma); got*inverse(gamma) != 1 {
		t.Error("inverse(gamma) is not its inverse")
	}
}

func TestDiagnose(t *testing.T) {
	const size = 1 << 20
	c := newContent(7)
	fill := func(off int64, n int) []byte {
		b := make([]byte, n)
		c.fill(b, off)
		return b
	}
	other := make([]byte, 4096)
	newContent(8).fill(other, 8192)
	oneBit := fill(8192, 4096)
	oneBit[100] ^= 4
	oneByte := fill(8192, 4096)
	oneByte[100] ^= 7
	for _, tt := range []struct {
		name string
		got  []byte // stands at offset 8192
		want string
	}{
		{"zeros", make([]byte, 4096), "zero bytes"},
		{"swapped block", fill(4096, 4096), "offset 4096 of this file, -4096 bytes"},
		{"shifted by a word", fill(8200, 4096), "offset 8200 of this file, +8 bytes"},
		{"shifted by three bytes", fill(8195, 4096), "moved by +3 bytes"},
		{"stale seed", other, "neither zeros nor content"},
		{"one bit", oneBit, "a single flipped bit (mask 0x04)"},
		{"one byte", oneByte, "a single wrong byte"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := c.diff(tt.got, 8192)
			if d < 0 {
				t.Fatal("no difference was found")
			}
			if got := c.diagnose(tt.got, 8192, d, size); !strings.Contains(got, tt.want) {
				t.Errorf("diagnose = %q, want it to contain %q", got, tt.want)
			}
		})
	}
}

func FuzzDiff(f *testing.F) {
	f.Add([]byte("abc"), int64(5), uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, off int64, seed uint64) {
		if off < 0 || off > 1<<40 {
			return
		}
		c := newContent(seed)
		want := -1
		for i := range b {
			if b[i] != c.at(off+int64(i)) {
				want = i
				break
			}
		}
		got := c.diff(b, off)
		if got != want {
			t.Fatalf("diff = %d, byte by byte %d", got, want)
		}
		if got >= 0 {
			c.diagnose(b, off, got, off+int64(len(b)))
		}
	})
}

func BenchmarkFill(b *testing.B) {
	buf := make([]byte, 4096)
	b.SetBytes(4096)
	for b.Loop() {
		newContent(1).fill(buf, 4096)
	}
}

func BenchmarkDiff(b *testing.B) {
	buf := make([]byte, 4096)
	newContent(1).fill(buf, 4096)
	b.SetBytes(4096)
	for b.Loop() {
		newContent(1).diff(buf, 4096)
	}
}
