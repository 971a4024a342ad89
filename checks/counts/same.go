// SPDX-License-Identifier: Apache-2.0

package counts

import (
	"fmt"
	"slices"
	"strings"

	"patchcheck/checks"
	"patchcheck/internal/guestproto"
	"patchcheck/testplans"
)

var ruleSame = checks.Rule{ID: "count.same", Severity: checks.Error,
	Title:  "the patched kernel's events are not those of the base kernel",
	Source: "the plan's same section (docs/plans.md)",
	Fix:    "compare the kinds in the evidence; if the series is meant to change them, take the entry out of the plan"}

// Timers of client and server bring out an RPC more or less, however fixed the
// workload is; that many events may differ.
const (
	sameFloor = 8
	sameShare = 100 // one in so many
)

// Same compares a count of a patched cell with that of the base kernel, kind by
// kind. It gives a finding if they differ by more than clocks explain.
func Same(x testplans.Same, where checks.Where, base, patched guestproto.Hist) (checks.Finding, bool) {
	kinds := func(h guestproto.Hist) map[string]int64 {
		m := map[string]int64{}
		for _, row := range h.Rows {
			var k []string
			for _, key := range x.Keys {
				k = append(k, key+" "+row.Keys[key])
			}
			m[strings.Join(k, ", ")] += row.Hits
		}
		return m
	}
	b, p := kinds(base), kinds(patched)
	type change struct {
		kind string
		b, p int64
	}
	var changes []change
	var off int64
	for k, n := range b {
		if p[k] != n {
			changes = append(changes, change{k, n, p[k]})
			off += max(n-p[k], p[k]-n)
		}
	}
	for k, n := range p {
		if _, known := b[k]; !known {
			changes = append(changes, change{k, 0, n})
			off += n
		}
	}
	if off <= max(sameFloor, base.Hits/sameShare) {
		return checks.Finding{}, false
	}
	slices.SortFunc(changes, func(x, y change) int {
		dx, dy := max(x.b-x.p, x.p-x.b), max(y.b-y.p, y.p-y.b)
		if dx != dy {
			return int(dy - dx)
		}
		return strings.Compare(x.kind, y.kind)
	})
	f := ruleSame.New(where, "%s: %s differ from the base kernel's by %d of %d: %s", x.ID, x.Count, off, base.Hits, x.Why)
	for i, c := range changes {
		if i == 12 {
			f.Evidence = append(f.Evidence, fmt.Sprintf("and %d kinds more", len(changes)-i))
			break
		}
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s: %d on base, %d patched", c.kind, c.b, c.p))
	}
	return f, true
}
