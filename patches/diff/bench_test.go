// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// manyFiles is a patch of n small file changes and the tree for it.
func manyFiles(n int) (MapTree, []byte) {
	tree := MapTree{}
	var b bytes.Buffer
	for i := range n {
		name := fmt.Sprintf("drivers/d%d/e%d/f%d.c", i%40, i%400, i)
		tree[name] = []byte("x\n" + ten)
		b.WriteString(gitPatch(name, name, "index 1111111..2222222 100644", "--- a/"+name, "+++ b/"+name))
		b.WriteString(change5)
	}
	return tree, b.Bytes()
}

// manyHunks is a patch of n hunks of one large file, each moved by one line.
func manyHunks(n int) (MapTree, []byte) {
	var file, b bytes.Buffer
	file.WriteString("moved\n")
	b.WriteString(gitPatch("f", "f", "--- a/f", "+++ b/f"))
	line := 1
	for i := range n {
		for j := range 20 {
			fmt.Fprintf(&file, "\tstatement(%d, %d);\n", i, j)
		}
		fmt.Fprintf(&b, "@@ -%d,7 +%d,8 @@\n", line+5, line+5+i)
		for j := 5; j < 12; j++ {
			op := " "
			if j == 8 {
				op = "-"
			}
			fmt.Fprintf(&b, "%s\tstatement(%d, %d);\n", op, i, j)
			if j == 8 {
				fmt.Fprintf(&b, "+\tchanged(%d);\n+\tadded(%d);\n", i, i)
			}
		}
		line += 20
	}
	return MapTree{"f": file.Bytes()}, b.Bytes()
}

func benchmarkPatch(b *testing.B, tree MapTree, patch []byte) {
	b.Run("parse", func(b *testing.B) {
		b.SetBytes(int64(len(patch)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Parse(patch); err != nil {
				b.Fatal(err)
			}
		}
	})
	files, err := Parse(patch)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("apply", func(b *testing.B) {
		b.SetBytes(int64(len(patch)))
		b.ReportAllocs()
		for b.Loop() {
			_, r, err := Apply(NewOverlay(tree), files, Options{})
			if err != nil || !r.Applies {
				b.Fatal(r.Class, r.Reason, err)
			}
		}
	})
}

func BenchmarkManyFiles(b *testing.B) {
	tree, patch := manyFiles(50000) // 10 MB
	benchmarkPatch(b, tree, patch)
}

func BenchmarkManyHunks(b *testing.B) {
	tree, patch := manyHunks(40000) // 10 MB into a file of 19 MB
	benchmarkPatch(b, tree, patch)
}

// BenchmarkSeries is a series of 1000 patches of ten files each.
func BenchmarkSeries(b *testing.B) {
	tree, patch := manyFiles(10000)
	files, err := Parse(patch)
	if err != nil {
		b.Fatal(err)
	}
	var patches [][]*File
	for len(files) > 0 {
		patches, files = append(patches, files[:10]), files[10:]
	}
	b.ReportAllocs()
	for b.Loop() {
		o, s, err := ApplySeries(NewOverlay(tree), patches, Options{})
		if err != nil || !s.OK || len(o.Changed()) != 10000 {
			b.Fatal(err)
		}
	}
}

// BenchmarkDiagnose is a patch of which no hunk fits.
func BenchmarkDiagnose(b *testing.B) {
	tree, patch := manyHunks(500)
	tree["f"] = bytes.ReplaceAll(tree["f"], []byte(", 8);"), []byte(", eight);"))
	files, err := Parse(patch)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, r, err := Apply(NewOverlay(tree), files, Options{}); err != nil || r.Class != Conflict {
			b.Fatal(r.Class, err)
		}
	}
}

// A file and a hunk that repeat themselves must not take minutes.
func TestHostileRepetition(t *testing.T) {
	file := strings.Repeat("x\n", 200000)
	var b strings.Builder
	b.WriteString(gitPatch("f", "f", "--- a/f", "+++ b/f"))
	for i := range 20 {
		fmt.Fprintf(&b, "@@ -%d,20003 +%d,20003 @@\n", 1000+i*30000, 1000+i*30000)
		b.WriteString(strings.Repeat(" x\n", 20000) + "-y\n+z\n" + " x\n x\n")
	}
	_, r, err := Check(NewOverlay(MapTree{"f": []byte(file)}), []byte(b.String()), Options{})
	if err != nil || r.Applies {
		t.Errorf("%+v, %v", r, err)
	}
}
