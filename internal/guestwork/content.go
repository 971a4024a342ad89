// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Constants of splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom
// number generators", OOPSLA 2014): a counter stepped by gamma and a mixing
// function that is a bijection of 64-bit words.
const (
	gamma = 0x9e3779b97f4a7c15
	mul1  = 0xbf58476d1ce4e5b9
	mul2  = 0x94d049bb133111eb
)

// wordSize is the unit of generated content, in bytes.
const wordSize = 8

// content is the content of a file as a pure function of a seed and the
// offset: the 8-byte little-endian word at offset 8*i is mix(base + i*gamma).
// Every word tells the offset that it belongs to, so data that was shifted,
// swapped, left from another seed or never written is always seen, and where
// it came from can be computed.
type content struct{ base uint64 }

func newContent(seed uint64) content {
	// Neighbouring seeds must not give sequences that are shifts of each other.
	return content{base: mix(seed ^ 0x7061746368636b21)}
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * mul1
	z = (z ^ z>>27) * mul2
	return z ^ z>>31
}

// unmix is the inverse of mix.
func unmix(z uint64) uint64 {
	z = unshift(z, 31)
	z *= inverse(mul2)
	z = unshift(z, 27)
	z *= inverse(mul1)
	return unshift(z, 30)
}

// unshift undoes z ^ z>>n for n > 21.
func unshift(z uint64, n uint) uint64 { return z ^ z>>n ^ z>>(2*n) }

// inverse gives the multiplicative inverse of an odd number modulo 2^64.
func inverse(a uint64) uint64 {
	x := a // right in the lowest 3 bits; each step doubles them
	for range 5 {
		x *= 2 - a*x
	}
	return x
}

func (c content) word(i uint64) uint64 { return mix(c.base + i*gamma) }

// at gives the byte at offset off.
func (c content) at(off int64) byte {
	return byte(c.word(uint64(off)/wordSize) >> (8 * (uint64(off) % wordSize)))
}

// fill writes the content of [off, off+len(b)) into b.
func (c content) fill(b []byte, off int64) {
	for len(b) > 0 && off%wordSize != 0 {
		b[0] = c.at(off)
		b, off = b[1:], off+1
	}
	z := c.base + uint64(off)/wordSize*gamma
	for len(b) >= wordSize {
		binary.LittleEndian.PutUint64(b, mix(z))
		z += gamma
		b, off = b[wordSize:], off+wordSize
	}
	for i := range b {
		b[i] = c.at(off + int64(i))
	}
}

// diff gives the index in b of the first byte that is not the content at
// off plus that index, or -1.
func (c content) diff(b []byte, off int64) int {
	n := 0
	for n < len(b) && (off+int64(n))%wordSize != 0 {
		if b[n] != c.at(off+int64(n)) {
			return n
		}
		n++
	}
	z := c.base + uint64(off+int64(n))/wordSize*gamma
	for len(b)-n >= wordSize {
		got := binary.LittleEndian.Uint64(b[n:])
		if want := mix(z); got != want {
			return n + bits.TrailingZeros64(got^want)/8
		}
		z += gamma
		n += wordSize
	}
	for ; n < len(b); n++ {
		if b[n] != c.at(off+int64(n)) {
			return n
		}
	}
	return -1
}

// locate gives the offset, below limit, that the whole word b[0:8] belongs to.
func (c content) locate(b []byte, limit int64) (int64, bool) {
	if len(b) < wordSize {
		return 0, false
	}
	i := (unmix(binary.LittleEndian.Uint64(b)) - c.base) * inverse(gamma)
	if i >= uint64(limit+wordSize-1)/wordSize {
		return 0, false
	}
	return int64(i) * wordSize, true
}

// diagnose says in words what stands in got, which begins at file offset at
// and differs from the content at index d. limit is the size of the file.
func (c content) diagnose(got []byte, at int64, d int, limit int64) string {
	// The word that holds the first wrong byte may be only partly wrong; the
	// next ones tell more.
	for _, step := range []int{0, wordSize, 2 * wordSize} {
		w := d - int((at+int64(d))%wordSize) + step
		if w < 0 || w+wordSize > len(got) {
			continue
		}
		word := got[w : w+wordSize]
		if bytes.Equal(word, make([]byte, wordSize)) {
			return "zero bytes: data was lost, or read before it arrived"
		}
		if o, ok := c.locate(word, limit); ok && o != at+int64(w) {
			return fmt.Sprintf("the right content of offset %d of this file, %+d bytes away", o, o-at-int64(w))
		}
	}
	// Data that moved by less than a word starts at any byte.
	for w := d; w+wordSize <= len(got) && w < d+wordSize; w++ {
		if o, ok := c.locate(got[w:], limit); ok && o != at+int64(w) {
			return fmt.Sprintf("the right content of offset %d of this file, moved by %+d bytes", o, o-at-int64(w))
		}
	}
	if d < len(got) {
		if x := got[d] ^ c.at(at+int64(d)); bits.OnesCount8(x) == 1 && c.diff(got[d+1:], at+int64(d)+1) < 0 {
			return fmt.Sprintf("a single flipped bit (mask %#02x)", x)
		}
		if n := len(got); n > d+1 && c.diff(got[d+1:], at+int64(d)+1) < 0 {
			return "a single wrong byte"
		}
	}
	return "neither zeros nor content of this file: data of another file or memory that was never filled"
}
