// SPDX-License-Identifier: Apache-2.0

package initramfs

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
	"github.com/google/go-cmp/cmp"
)

func sample() Tree {
	t := Tree{}
	t.File("/init", 0o755, []byte("#!/bin/sh\n"))
	t.File("etc/a/b", 0o600, []byte("x"))
	t.Dir("tmp", 0o1777|fs.ModeSticky)
	t.Link("bin", "usr/bin")
	t.File("empty", 0o644, nil)
	return t
}

// list reads an archive back, one line an entry.
func list(t *testing.T, r io.Reader) []string {
	t.Helper()
	cr := cpio.NewReader(r)
	var out []string
	for {
		h, err := cr.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(cr)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%o %s %q %s", uint32(h.Mode), h.Name, b, h.Linkname))
	}
}

func TestWrite(t *testing.T) {
	b, err := sample().Bytes()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`120777 bin "" usr/bin`,
		`100644 empty "" `,
		`40755 etc "" `,
		`40755 etc/a "" `,
		`100600 etc/a/b "x" `,
		`100755 init "#!/bin/sh\n" `,
		`41777 tmp "" `,
	}
	if d := cmp.Diff(want, list(t, bytes.NewReader(b))); d != "" {
		t.Error(d)
	}
	if len(b)%4 != 0 {
		t.Errorf("%d bytes: no archive can follow", len(b))
	}
	again, err := sample().Bytes()
	if err != nil || !bytes.Equal(b, again) {
		t.Errorf("the same tree gave other bytes (%v)", err)
	}
	z, err := sample().Compressed(6)
	if err != nil {
		t.Fatal(err)
	}
	zr, err := gzip.NewReader(bytes.NewReader(z))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, list(t, zr)); d != "" {
		t.Error(d)
	}
}

func TestNamesStayInside(t *testing.T) {
	tr := Tree{}
	tr.File("../../etc/passwd", 0o644, nil)
	tr.File("/a//b/../c", 0o644, nil)
	b, err := tr.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range list(t, bytes.NewReader(b)) {
		if strings.Contains(l, "..") || strings.Contains(l, " /") {
			t.Errorf("%s", l)
		}
	}
}

func TestRefusesDevices(t *testing.T) {
	tr := Tree{"dev/null": {Mode: fs.ModeDevice | fs.ModeCharDevice | 0o666}}
	if _, err := tr.Bytes(); err == nil {
		t.Error("a device node was written: it would have no number")
	}
}
