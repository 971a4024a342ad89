// SPDX-License-Identifier: Apache-2.0

package mail

import (
	"bytes"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

// Charsets that mailers name in ways no registry knows.
var charsetAliases = map[string]encoding.Encoding{
	"latin1":           charmap.ISO8859_1,
	"latin-1":          charmap.ISO8859_1,
	"iso8859-1":        charmap.ISO8859_1,
	"iso_8859-1":       charmap.ISO8859_1,
	"iso8859-15":       charmap.ISO8859_15,
	"latin-9":          charmap.ISO8859_15,
	"ansi_x3.110-1983": charmap.ISO8859_1,
	"cp1252":           charmap.Windows1252,
	"cp-1252":          charmap.Windows1252,
	"cp1251":           charmap.Windows1251,
	"cp-850":           charmap.CodePage850,
	"cp850":            charmap.CodePage850,
	"utf-16":           unicode.UTF16(unicode.BigEndian, unicode.UseBOM),
	"utf16":            unicode.UTF16(unicode.BigEndian, unicode.UseBOM),
	"utf-16le":         unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM),
	"utf-16be":         unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM),
	"utf-32":           utf32.UTF32(utf32.BigEndian, utf32.UseBOM),
	"utf-32le":         utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM),
	"utf-32be":         utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM),
}

var charsetCache sync.Map // lower-case name -> encoding.Encoding or nil

// lookupCharset returns the encoding of a charset name, nil when unknown.
func lookupCharset(name string) encoding.Encoding {
	if v, ok := charsetCache.Load(name); ok {
		e, _ := v.(encoding.Encoding)
		return e
	}
	e := charsetAliases[name]
	if e == nil {
		// ianaindex knows the exact charsets; htmlindex, by the rules of
		// browsers, takes ISO-8859-1 for Windows-1252.
		if x, err := ianaindex.MIME.Encoding(name); err == nil && x != nil {
			e = x
		} else if x, err := ianaindex.IANA.Encoding(name); err == nil && x != nil {
			e = x
		} else if x, err := htmlindex.Get(name); err == nil {
			e = x
		}
	}
	// Names come from mails: the cache must not grow with them.
	if e != nil {
		charsetCache.Store(name, e)
	}
	return e
}

func charsetName(s string) string {
	return strings.ToLower(strings.Trim(strings.TrimSpace(s), `"'`))
}

// asciiSuperset reports whether text in the charset can be searched for ASCII
// lines before it is converted.
func asciiSuperset(name string) bool {
	return !strings.HasPrefix(name, "utf-16") && !strings.HasPrefix(name, "utf16") &&
		!strings.HasPrefix(name, "utf-32") && !strings.HasPrefix(name, "utf-7")
}

type charsetVerdict int

const (
	charsetOK      charsetVerdict = iota
	charsetGuessed                // none declared and the text is not UTF-8: read as ISO-8859-1
	charsetUnknown                // no such charset: read as UTF-8 or ISO-8859-1
	charsetWrong                  // the text is not in the declared charset
)

// toUTF8 converts b from the declared charset. Like git it reads undeclared
// text as UTF-8 when that is valid, else as ISO-8859-1.
func toUTF8(b []byte, declared string) (string, charsetVerdict) {
	if isASCII(b) && asciiSuperset(declared) && !strings.HasPrefix(declared, "iso-2022") && declared != "hz-gb-2312" {
		return string(b), charsetOK
	}
	switch declared {
	case "utf-8", "utf8", "unicode-1-1-utf-8", "x-utf_8j":
		if utf8.Valid(b) {
			return string(b), charsetOK
		}
		return string(b), charsetWrong
	case "":
		if utf8.Valid(b) {
			return string(b), charsetOK
		}
		return latin1(b), charsetGuessed
	case "us-ascii", "ascii", "ansi_x3.4-1968", "iso646-us":
		return guess(b), charsetWrong
	}
	enc := lookupCharset(declared)
	if enc == nil {
		return guess(b), charsetUnknown
	}
	out, err := enc.NewDecoder().Bytes(b)
	if err != nil || bytes.ContainsRune(out, utf8.RuneError) {
		if utf8.Valid(b) {
			return string(b), charsetWrong
		}
		if err != nil {
			return latin1(b), charsetWrong
		}
		return string(out), charsetWrong
	}
	return string(out), charsetOK
}

func guess(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return latin1(b)
}

func latin1(b []byte) string {
	var s strings.Builder
	s.Grow(len(b) + len(b)/8)
	for _, c := range b {
		s.WriteRune(rune(c))
	}
	return s.String()
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
