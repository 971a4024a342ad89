// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"strings"
	"testing"
)

func TestParseSourceURIs(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	out := "Reading package lists...\nNeed to get 30 kB of source archives.\n" +
		"'http://mirror.example/pool/x/x_1.2-3.dsc' x_1.2-3.dsc 2415 SHA256:" + sum + "\n" +
		"'http://mirror.example/pool/x/x_1.2.orig.tar.gz' x_1.2.orig.tar.gz 6185 SHA256:" + sum + "\n" +
		"'http://mirror.example/pool/x/x_1.2.orig.tar.gz.asc' x_1.2.orig.tar.gz.asc 858 SHA256:" + sum + "\n"
	files, err := parseSourceURIs(out)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 3 || files[1].Name != "x_1.2.orig.tar.gz" || files[1].Size != 6185 || files[1].SHA256 != sum {
		t.Errorf("%+v", files)
	}
	files[1].Path = "/cache/x_1.2.orig.tar.gz"
	if p, err := (SourcePackage{Name: "x", Files: files}).Upstream(); err != nil || p != files[1].Path {
		t.Errorf("upstream archive %q, %v", p, err)
	}
	if _, err := (SourcePackage{Name: "x", Files: files[:1]}).Upstream(); err == nil {
		t.Error("a source package without an upstream archive must be refused")
	}
	for _, bad := range []string{
		"'http://mirror.example/x' x_1.dsc 12\n",
		"'http://mirror.example/x' ../x_1.dsc 12 SHA256:" + sum + "\n",
	} {
		if _, err := parseSourceURIs(bad); err == nil {
			t.Errorf("%q must be refused", bad)
		}
	}
}

func TestSourceLines(t *testing.T) {
	got := sourceLines("deb [signed-by=/k] http://m/debian bookworm main\n# note\n")
	if want := "deb-src [signed-by=/k] http://m/debian bookworm main\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
