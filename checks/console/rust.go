// SPDX-License-Identifier: Apache-2.0

package console

import "strings"

// rustName turns a symbol of Rust's v0 mangling (RFC 2603) into a path:
// "_RNvMs_NtC4demo3modNtB4_4Type3new" is "<demo::mod::Type>::new". The kernel
// prints such symbols as they are. ok is false for what it does not read.
func rustName(sym string) (name string, ok bool) {
	s, found := strings.CutPrefix(sym, "_R")
	if !found || len(s) > 1000 {
		return "", false
	}
	if i := strings.IndexAny(s, ".$"); i >= 0 {
		s = s[:i] // the compiler's suffix
	}
	d := demangler{s: s}
	name = d.path(0)
	return name, !d.bad && name != ""
}

type demangler struct {
	s     string
	i     int
	bad   bool
	steps int // back references can make short symbols long
}

func (d *demangler) fail() string {
	d.bad = true
	return ""
}

func (d *demangler) next() byte {
	if d.bad || d.i >= len(d.s) {
		d.bad = true
		return 0
	}
	d.i++
	return d.s[d.i-1]
}

func (d *demangler) peek(c byte) bool {
	if !d.bad && d.i < len(d.s) && d.s[d.i] == c {
		d.i++
		return true
	}
	return false
}

// number62 reads "_" as 0, "0_" as 1, "Z_" as 62.
func (d *demangler) number62() int {
	if d.peek('_') {
		return 0
	}
	// A crate's number has 64 bits; only back references are used as numbers,
	// and those are small.
	n := 0
	for range 12 {
		c := d.next()
		if n > 1<<40 {
			n = 1 << 40
		}
		switch {
		case c == '_':
			return n + 1
		case c >= '0' && c <= '9':
			n = n*62 + int(c-'0')
		case c >= 'a' && c <= 'z':
			n = n*62 + int(c-'a') + 10
		case c >= 'A' && c <= 'Z':
			n = n*62 + int(c-'A') + 36
		default:
			d.bad = true
			return 0
		}
	}
	d.bad = true
	return 0
}

func (d *demangler) ident() string {
	if d.peek('s') {
		d.number62() // tells crates or closures of one name apart
	}
	d.peek('u') // punycode: shown as it is
	n, digits := 0, 0
	for d.i < len(d.s) && d.s[d.i] >= '0' && d.s[d.i] <= '9' && digits < 5 {
		n = n*10 + int(d.s[d.i]-'0')
		d.i++
		digits++
	}
	if digits == 0 {
		return d.fail()
	}
	d.peek('_')
	if d.bad || d.i+n > len(d.s) {
		return d.fail()
	}
	d.i += n
	return d.s[d.i-n : d.i]
}

// back follows a back reference to an earlier part of the symbol.
func (d *demangler) back(depth int, read func(int) string) string {
	at := d.i - 1
	to := d.number62()
	if d.bad || to >= at {
		return d.fail()
	}
	here := d.i
	d.i = to
	s := read(depth + 1)
	d.i = here
	return s
}

func (d *demangler) path(depth int) string {
	if d.steps++; depth > 20 || d.steps > 200 {
		return d.fail()
	}
	switch d.next() {
	case 'C':
		return d.ident()
	case 'M':
		d.implPath(depth)
		return "<" + d.typ(depth+1) + ">"
	case 'X':
		d.implPath(depth)
		t := d.typ(depth + 1)
		return "<" + t + " as " + d.path(depth+1) + ">"
	case 'Y':
		t := d.typ(depth + 1)
		return "<" + t + " as " + d.path(depth+1) + ">"
	case 'N':
		ns := d.next()
		p := d.path(depth + 1)
		id := d.ident()
		if ns == 'C' {
			id = "{closure}"
		}
		return p + "::" + id
	case 'I':
		p := d.path(depth + 1)
		for !d.bad && !d.peek('E') {
			if d.peek('L') {
				d.number62()
			} else {
				d.typ(depth + 1)
			}
		}
		return p // arguments of generics make no other function
	case 'B':
		return d.back(depth, d.path)
	}
	return d.fail()
}

// implPath reads where an impl stands; only its type is shown.
func (d *demangler) implPath(depth int) {
	if d.peek('s') {
		d.number62()
	}
	d.path(depth + 1)
}

var rustBasic = map[byte]string{'a': "i8", 'b': "bool", 'c': "char", 'd': "f64", 'e': "str", 'f': "f32", 'h': "u8", 'i': "isize", 'j': "usize", 'l': "i32", 'm': "u32", 'n': "i128", 'o': "u128", 's': "i16", 't': "u16", 'u': "()", 'x': "i64", 'y': "u64", 'z': "!", 'p': "_"}

func (d *demangler) typ(depth int) string {
	if d.steps++; depth > 20 || d.steps > 200 || d.bad || d.i >= len(d.s) {
		return d.fail()
	}
	c := d.s[d.i]
	if b, ok := rustBasic[c]; ok {
		d.i++
		return b
	}
	switch c {
	case 'R', 'Q', 'P', 'O', 'S':
		d.i++
		if (c == 'R' || c == 'Q') && d.peek('L') {
			d.number62()
		}
		t := d.typ(depth + 1)
		return map[byte]string{'R': "&", 'Q': "&mut ", 'P': "*const ", 'O': "*mut ", 'S': "["}[c] + t + map[byte]string{'S': "]"}[c]
	case 'T':
		d.i++
		var ts []string
		for !d.bad && !d.peek('E') {
			ts = append(ts, d.typ(depth+1))
		}
		return "(" + strings.Join(ts, ", ") + ")"
	case 'B':
		d.i++
		return d.back(depth, d.typ)
	}
	return d.path(depth + 1)
}
