// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var patchSays = regexp.MustCompile(`(?m)^(?:checking file '?([^'\n]+?)'?|Hunk #(\d+) succeeded at (\d+)(?: with fuzz (\d+))?.*|Hunk #(\d+) (?:FAILED|NOT MERGED) at .*)$`)

// TestFuzzAgainstPatch compares gnuPlaces with GNU patch: which hunks it
// takes, where, and with how much fuzz.
func TestFuzzAgainstPatch(t *testing.T) {
	if _, err := exec.LookPath("patch"); err != nil {
		t.Skip("GNU patch is not installed")
	}
	total, fuzzy := 0, 0
	for batch := range 6 {
		g := generator{rand.New(rand.NewPCG(uint64(batch), 31))}
		distinct := []int{6, 26}[batch%2]
		dir := t.TempDir()
		for i := range 200 {
			a := g.lines(8+g.IntN(40), distinct)
			name := fmt.Sprintf("f%d", i)
			writeFile(t, filepath.Join(dir, "a", name), g.join(a, false, false), 0o644)
			writeFile(t, filepath.Join(dir, "b", name), g.join(g.edit(a, 1+g.IntN(3), distinct), false, false), 0o644)
			writeFile(t, filepath.Join(dir, "tree", name), g.join(g.drift(a, distinct), false, false), 0o644)
		}
		text, _, _ := gitTest(t, dir, nil, "diff", "--no-index", "--no-prefix", fmt.Sprintf("-U%d", 3-batch%3), "a", "b")
		files := mustParse(t, text)
		cmd := exec.Command("patch", "-p1", "-f", "--dry-run")
		cmd.Dir = filepath.Join(dir, "tree")
		cmd.Stdin = strings.NewReader(text)
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Run(); err != nil && out.Len() == 0 {
			t.Fatal(err)
		}
		type fate struct {
			ok       bool
			at, fuzz int
		}
		theirs := map[string]fate{}
		file := ""
		for _, m := range patchSays.FindAllStringSubmatch(out.String(), -1) {
			switch {
			case m[1] != "":
				file = m[1]
			case m[2] != "":
				at, _ := strconv.Atoi(m[3])
				fuzz, _ := strconv.Atoi(m[4])
				theirs[file+"#"+m[2]] = fate{true, at, fuzz}
			default:
				theirs[file+"#"+m[5]] = fate{}
			}
		}
		tree := DirTree(filepath.Join(dir, "tree"))
		for _, f := range files {
			content, _, err := tree.ReadFile(f.Old)
			if err != nil {
				continue
			}
			// patch counts lines in the file as patched so far.
			delta := 0
			for i, p := range gnuPlaces(f, splitLines(content), newBudget()) {
				total++
				ours := fate{p.ok, p.at + 1 + delta, p.fuzz}
				if !p.ok {
					ours = fate{}
				} else {
					delta += f.Hunks[i].NewLines - f.Hunks[i].OldLines
				}
				want, said := theirs[fmt.Sprintf("%s#%d", f.Path(), i+1)]
				if !said { // exactly where the header says is not worth a line
					want = fate{true, max(f.Hunks[i].NewStart, 1), 0}
				}
				if ours.fuzz > 0 {
					fuzzy++
				}
				if ours != want {
					t.Errorf("batch %d: %s hunk %d %s: %+v, patch says %+v (said=%t)\ntree: %q\n%v", batch, f.Path(), i+1, f.Hunks[i].Header, ours, want, said, content, f.Hunks[i].Lines)
				}
			}
		}
	}
	t.Logf("%d hunks, %d with fuzz", total, fuzzy)
}
