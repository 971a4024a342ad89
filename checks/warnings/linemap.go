// SPDX-License-Identifier: Apache-2.0

package warnings

import "bytes"

// LineMapper says where a line of a base file stands after the patch: the
// file's new path and line. ok is false when the patch removed or changed the
// line; path and line are then the nearest place that is left.
type LineMapper func(file string, line int) (newFile string, newLine int, ok bool)

// Edit replaces old lines by new ones.
type Edit struct {
	OldLine  int // 1-based, of the first line replaced, or the line before which the new ones stand
	OldCount int
	NewCount int
}

// FileChange is what a patch did to the lines of one file.
type FileChange struct {
	OldPath, NewPath string
	Edits            []Edit // in order, not overlapping
}

// MapEdits makes a LineMapper of the changes of a patch or a series. Files
// that are not named keep their lines.
func MapEdits(changes []FileChange) LineMapper {
	byOld := make(map[string]*FileChange, len(changes))
	for i := range changes {
		byOld[changes[i].OldPath] = &changes[i]
	}
	return func(file string, line int) (string, int, bool) {
		c := byOld[file]
		if c == nil {
			return file, line, true
		}
		to := c.NewPath
		if to == "" {
			return file, line, false // the file is gone
		}
		shift := 0
		for _, e := range c.Edits {
			if line < e.OldLine {
				break
			}
			if line < e.OldLine+e.OldCount {
				in := min(line-e.OldLine, max(e.NewCount-1, 0))
				return to, e.OldLine + shift + in, false
			}
			shift += e.NewCount - e.OldCount
		}
		return to, line + shift, true
	}
}

// DiffLines gives the edits that turn one text into another: the lines that
// are unique in both and stand in the same order stay, and what lies between
// them is replaced. It is meant for source files before and after a patch.
func DiffLines(old, new []byte) []Edit {
	var edits []Edit
	d := lineDiff{a: bytes.SplitAfter(old, []byte{'\n'}), b: bytes.SplitAfter(new, []byte{'\n'})}
	d.walk(0, len(d.a), 0, len(d.b), 0, &edits)
	return edits
}

type lineDiff struct{ a, b [][]byte }

func (d *lineDiff) walk(a0, a1, b0, b1, depth int, out *[]Edit) {
	for a0 < a1 && b0 < b1 && bytes.Equal(d.a[a0], d.b[b0]) {
		a0++
		b0++
	}
	for a0 < a1 && b0 < b1 && bytes.Equal(d.a[a1-1], d.b[b1-1]) {
		a1--
		b1--
	}
	if a0 == a1 && b0 == b1 {
		return
	}
	if a0 < a1 && b0 < b1 && depth < 64 {
		if anchors := d.anchors(a0, a1, b0, b1); len(anchors) > 0 {
			for _, p := range anchors {
				d.walk(a0, p[0], b0, p[1], depth+1, out)
				a0, b0 = p[0]+1, p[1]+1
			}
			d.walk(a0, a1, b0, b1, depth+1, out)
			return
		}
	}
	*out = append(*out, Edit{OldLine: a0 + 1, OldCount: a1 - a0, NewCount: b1 - b0})
}

// anchors finds lines that occur once on each side, and of them a longest run
// that is in order on both.
func (d *lineDiff) anchors(a0, a1, b0, b1 int) [][2]int {
	type seen struct{ inA, inB, posA, posB int }
	lines := make(map[string]*seen, a1-a0)
	for i := a0; i < a1; i++ {
		s := lines[string(d.a[i])]
		if s == nil {
			s = &seen{}
			lines[string(d.a[i])] = s
		}
		s.inA++
		s.posA = i
	}
	for i := b0; i < b1; i++ {
		if s := lines[string(d.b[i])]; s != nil {
			s.inB++
			s.posB = i
		}
	}
	// Patience: piles of increasing positions in b, in the order of a.
	var tops []int // index into pairs
	var pairs [][2]int
	var prev []int
	for i := a0; i < a1; i++ {
		s := lines[string(d.a[i])]
		if s.inA != 1 || s.inB != 1 {
			continue
		}
		lo, hi := 0, len(tops)
		for lo < hi {
			if mid := (lo + hi) / 2; pairs[tops[mid]][1] < s.posB {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		p := -1
		if lo > 0 {
			p = tops[lo-1]
		}
		pairs, prev = append(pairs, [2]int{i, s.posB}), append(prev, p)
		if lo == len(tops) {
			tops = append(tops, len(pairs)-1)
		} else {
			tops[lo] = len(pairs) - 1
		}
	}
	if len(tops) == 0 {
		return nil
	}
	run := make([][2]int, len(tops))
	for i, p := len(tops)-1, tops[len(tops)-1]; i >= 0; i, p = i-1, prev[p] {
		run[i] = pairs[p]
	}
	return run
}
