// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// maxBinary bounds the size of a file that a binary patch makes, in bytes. The
// data is compressed, so that a small mail could otherwise ask for any amount.
const maxBinary = 100 << 20

// binaryPatch is the data of a "GIT binary patch".
type binaryPatch struct {
	file *gitdiff.File // only its fragments are used
}

func binaryStart(l string) bool { return l == "GIT binary patch\n" || binaryDiffer(l) }

// binaryBody reads what may stand behind a header in place of hunks.
func (p *parser) binaryBody(f *File) error {
	l := p.peek(p.pos)
	if binaryDiffer(l) {
		f.IsBinary = true
		p.advance(l)
		return nil
	}
	if l != "GIT binary patch\n" {
		return nil
	}
	f.IsBinary = true
	start := p.pos
	p.advance(l)
	n := 0
	for ; n < 2; n++ {
		h := p.peek(p.pos)
		if !strings.HasPrefix(h, "delta ") && !strings.HasPrefix(h, "literal ") {
			break
		}
		p.advance(h)
		for {
			d := p.peek(p.pos)
			if d == "\n" {
				p.advance(d)
				break
			}
			if !binaryLine(d) {
				e := p.errorf(f, Corrupt, "the data of the binary patch is damaged here")
				if d == "" {
					e.Reason = "the diff ends in the middle of a binary patch"
					e.Hint = "the mail was cut off"
				}
				return e
			}
			p.advance(d)
		}
	}
	if n == 0 {
		return p.errorf(f, Corrupt, "a binary patch must go on with \"literal\" or \"delta\"")
	}
	text := "diff --git a/f b/f\nindex 0..0\n" + p.s[start:p.pos]
	files, _, err := gitdiff.Parse(strings.NewReader(text))
	if err == nil && (len(files) != 1 || files[0].BinaryFragment == nil) {
		err = errors.New("no data found")
	}
	if err == nil && files[0].BinaryFragment.Size > maxBinary {
		err = fmt.Errorf("it asks for a file of %d bytes, the limit is %d", files[0].BinaryFragment.Size, maxBinary)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, files[0].BinaryFragment.Data())
	}
	if err != nil {
		e := p.errorf(f, Corrupt, "the data of the binary patch cannot be decoded: %s", strings.TrimPrefix(err.Error(), "gitdiff: "))
		e.Line = f.Line
		return e
	}
	f.binary = &binaryPatch{file: files[0]}
	return nil
}

// binaryLine checks the shape of a base85 line: its first character gives the
// number of bytes, five characters follow for each started four of them.
func binaryLine(l string) bool {
	if len(l) < 7 || (len(l)-2)%5 != 0 || l[len(l)-1] != '\n' {
		return false
	}
	room := (len(l) - 2) / 5 * 4
	n := 0
	switch c := l[0]; {
	case c >= 'A' && c <= 'Z':
		n = int(c-'A') + 1
	case c >= 'a' && c <= 'z':
		n = int(c-'a') + 27
	default:
		return false
	}
	return n <= room && n > room-4
}

// apply makes the new content from the old one.
func (b *binaryPatch) apply(old []byte) ([]byte, error) {
	var out bytes.Buffer
	f := &gitdiff.File{IsBinary: true, BinaryFragment: b.file.BinaryFragment}
	if err := gitdiff.Apply(&out, bytes.NewReader(old), f, gitdiff.WithMaxBinaryFragmentBytes(maxBinary)); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
