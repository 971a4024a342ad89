// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"patchcheck/checks"
)

// Limits below which a difference in time is not worth a word: it must be at
// least slowRatio times as long and slowLeast longer.
const (
	slowRatio = 1.5
	slowLeast = 250 * time.Millisecond
)

// CellChange is a cell whose answer is not what it was.
type CellChange struct {
	Cell         string         `json:"cell"`
	Was          checks.Verdict `json:"was"` // "" for a cell that is new
	Now          checks.Verdict `json:"now"`
	WasSignature string         `json:"was_signature,omitempty"`
	Signature    string         `json:"signature,omitempty"`
	Reason       string         `json:"reason,omitempty"`
	Quarantined  bool           `json:"quarantined,omitempty"`
	Since        string         `json:"since,omitempty"` // night of its first failure in this way, where the history knows
}

// TimeChange is a cell that took longer or less long.
type TimeChange struct {
	Cell string        `json:"cell"`
	Was  time.Duration `json:"was_ns"`
	Now  time.Duration `json:"now_ns"`
}

// CountChange is a count that is not what it was.
type CountChange struct {
	Cell string `json:"cell"`
	Name string `json:"name"`
	Was  int64  `json:"was"`
	Now  int64  `json:"now"`
}

// Environment is something around the tests that is not what it was.
type Environment struct {
	What string `json:"what"`
	Was  string `json:"was"`
	Now  string `json:"now"`
}

// Diff is what changed from one run to another.
type Diff struct {
	Old Run `json:"old"`
	New Run `json:"new"`

	Failing  []CellChange `json:"failing,omitempty"`    // passed, or were not there, and fail now
	Fixed    []CellChange `json:"fixed,omitempty"`      // failed and pass now
	Still    []CellChange `json:"still,omitempty"`      // fail as before, or in another way
	Unknown  []CellChange `json:"unanswered,omitempty"` // had an answer and have none now: INFRA, SKIP
	Answered []CellChange `json:"answered,omitempty"`   // had none and pass now
	Appeared []string     `json:"appeared,omitempty"`   // cells that only the new run has, and that do not fail
	Vanished []string     `json:"vanished,omitempty"`   // cells that only the old run has

	FindingsNew  []checks.Finding `json:"findings_new,omitempty"` // that belong to no cell
	FindingsGone []checks.Finding `json:"findings_gone,omitempty"`

	Slower      []TimeChange  `json:"slower,omitempty"`
	Faster      []TimeChange  `json:"faster,omitempty"`
	NoTiming    string        `json:"no_timing,omitempty"` // why times cannot be compared
	Counts      []CountChange `json:"counts,omitempty"`
	Environment []Environment `json:"environment,omitempty"`
}

// Range is what the history has seen of a cell's time; zero means nothing.
type Range struct{ Least, Most time.Duration }

// Compare says what changed from old to new. seen gives what is known of the
// spread of a cell's times, and may be nil.
func Compare(old, new *Facts, seen func(cell string) Range) *Diff {
	d := &Diff{Old: old.Run, New: new.Run}
	d.NoTiming = timing(old, new)
	for _, n := range new.Cells {
		o := old.Cell(n.ID)
		c := CellChange{Cell: n.ID, Now: n.Verdict, Signature: n.Signature, Reason: n.Reason, Quarantined: n.Quarantined}
		if o != nil {
			c.Was, c.WasSignature = o.Verdict, o.Signature
		}
		switch {
		case Failing(n.Verdict) && (o == nil || !Failing(o.Verdict)):
			d.Failing = append(d.Failing, c)
		case Failing(n.Verdict):
			d.Still = append(d.Still, c)
		case o == nil:
			d.Appeared = append(d.Appeared, n.ID)
		case Failing(o.Verdict) && n.Verdict == checks.Pass:
			d.Fixed = append(d.Fixed, c)
		case o.Verdict != n.Verdict && n.Verdict == checks.Pass:
			d.Answered = append(d.Answered, c)
		case o.Verdict != n.Verdict:
			d.Unknown = append(d.Unknown, c)
		}
		if o == nil || o.Verdict != checks.Pass || n.Verdict != checks.Pass {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(n.Values)) {
			if was, ok := o.Values[name]; ok && was != n.Values[name] {
				d.Counts = append(d.Counts, CountChange{n.ID, name, was, n.Values[name]})
			}
		}
		if d.NoTiming != "" || n.Reused != "" || o.Work <= 0 || n.Work <= 0 {
			continue
		}
		var r Range
		if seen != nil {
			r = seen(n.ID)
		}
		switch {
		case longer(n.Work, o.Work) && (r.Most == 0 || n.Work > r.Most+r.Most/10):
			d.Slower = append(d.Slower, TimeChange{n.ID, o.Work, n.Work})
		case longer(o.Work, n.Work) && (r.Least == 0 || n.Work < r.Least-r.Least/10):
			d.Faster = append(d.Faster, TimeChange{n.ID, o.Work, n.Work})
		}
	}
	for _, o := range old.Cells {
		if new.Cell(o.ID) == nil {
			d.Vanished = append(d.Vanished, o.ID)
		}
	}
	d.FindingsNew, d.FindingsGone = only(new, old), only(old, new)
	d.Environment = environment(old, new)
	return d
}

func longer(a, b time.Duration) bool {
	return a-b >= slowLeast && float64(a) >= slowRatio*float64(b)
}

// timing says why times of two runs cannot be compared; "" when they can.
func timing(old, new *Facts) string {
	for _, k := range []string{"accel", "host.cpu", "host.cpus"} {
		if a, b := old.Versions[k], new.Versions[k]; a != b && a != "" && b != "" {
			return fmt.Sprintf("%s was %q and is %q", k, a, b)
		}
	}
	if old.PlanID != new.PlanID {
		return "the plan changed"
	}
	return ""
}

// only lists the findings without a cell that a has and b has not. Lines do
// not count: they move. Of findings that do not gate, or name no file, the words
// do not count either: they hold numbers and commits, and say the same thing.
func only(a, b *Facts) []checks.Finding {
	key := func(f checks.Finding) string {
		if !f.Gates() || f.Where.File == "" {
			f.Message = ""
		}
		return strings.Join([]string{f.ID, string(f.Severity), fmt.Sprint(f.Where.Patch), f.Where.File, f.Message}, "\x00")
	}
	have := map[string]int{}
	for _, f := range b.Findings {
		if f.Where.Cell == "" {
			have[key(f)]++
		}
	}
	var out []checks.Finding
	for _, f := range a.Findings {
		if f.Where.Cell != "" {
			continue
		}
		if k := key(f); have[k] > 0 {
			have[k]--
		} else {
			out = append(out, f)
		}
	}
	return out
}

func environment(old, new *Facts) []Environment {
	var out []Environment
	add := func(what, was, now string) {
		if was != now {
			out = append(out, Environment{what, was, now})
		}
	}
	short := func(s string) string {
		if len(s) > 12 && !strings.ContainsAny(s, " .:") {
			return s[:12]
		}
		return s
	}
	add("target", targetWords(old.Target), targetWords(new.Target))
	add("tree version", old.TreeVersion, new.TreeVersion)
	if old.TreeCommit != new.TreeCommit {
		add("tree commit", short(old.TreeCommit), short(new.TreeCommit))
	} else if old.TreeID != new.TreeID {
		add("tree content", short(old.TreeID), short(new.TreeID))
	}
	if old.SeriesID != new.SeriesID {
		add("series", fmt.Sprintf("v%d, %s", old.SeriesVersion, short(old.SeriesID)), fmt.Sprintf("v%d, %s", new.SeriesVersion, short(new.SeriesID)))
		is := map[string]bool{}
		for _, p := range old.Patches {
			is[p.ID] = true
		}
		for _, p := range new.Patches {
			if !is[p.ID] {
				add(fmt.Sprintf("patch %d", p.Index), "", p.Subject+" (new or changed)")
			}
		}
	}
	add("plan", short(old.PlanID), short(new.PlanID))
	var keys []string
	for k := range old.Versions {
		keys = append(keys, k)
	}
	for k := range new.Versions {
		if _, ok := old.Versions[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	images := old.Versions["image"] != "" && new.Versions["image"] != ""
	for _, k := range keys {
		if strings.HasPrefix(k, "image.") && !images {
			continue // a run that did not come to its image
		}
		// A kernel's release follows from tree and series; an image's key from
		// its packages and the guest agent.
		if strings.HasPrefix(k, "release.") || (old.Versions[k] == "" || new.Versions[k] == "") && !strings.HasPrefix(k, "image.") {
			continue
		}
		add(k, short(old.Versions[k]), short(new.Versions[k]))
	}
	return out
}

func targetWords(t Target) string { return fmt.Sprintf("%s, %s, %s", t.Series, t.Tree, t.Plan) }

// Worse says that something that was right is not right any more. Cells in
// quarantine do not count, and neither do failures of our own.
func (d *Diff) Worse() bool {
	if Failing(d.New.Verdict) && !Failing(d.Old.Verdict) || len(d.Slower) > 0 {
		return true
	}
	for _, c := range d.Failing {
		if !c.Quarantined {
			return true
		}
	}
	for _, c := range d.Still {
		if c.Was == checks.BaseFails && c.Now == checks.Fail && !c.Quarantined {
			return true
		}
	}
	for _, f := range d.FindingsNew {
		if f.Gates() {
			return true
		}
	}
	return false
}

// SameResults says that the results are the same, whatever changed around them.
func (d *Diff) SameResults() bool {
	for _, c := range d.Still {
		if c.Was != c.Now || c.WasSignature != c.Signature {
			return false
		}
	}
	return d.Old.Verdict == d.New.Verdict &&
		len(d.Failing)+len(d.Fixed)+len(d.Unknown)+len(d.Answered)+len(d.Appeared)+len(d.Vanished)+len(d.FindingsNew)+len(d.FindingsGone)+
			len(d.Slower)+len(d.Faster)+len(d.Counts) == 0
}

// Nothing says that there is nothing to say at all.
func (d *Diff) Nothing() bool { return d.SameResults() && len(d.Environment) == 0 }

// Seen gives what the history knows of a cell's times under an accelerator:
// the least and the most of its passing executions, other than those of the run
// except. Fewer than three are no range.
func (db *DB) Seen(ctx context.Context, t Target, cell, accel, except string) (Range, error) {
	var n, least, most int64
	err := db.sql.QueryRowContext(ctx, `SELECT count(*), coalesce(min(a.work_ms), 0), coalesce(max(a.work_ms), 0)
		FROM attempts a JOIN runs r ON r.n = a.run JOIN cell_names k ON k.n = a.cell JOIN cells c ON c.run = a.run AND c.cell = a.cell
		WHERE k.id = ? AND r.tree = ? AND r.series = ? AND r.plan = ? AND a.accel = ? AND a.verdict = ? AND c.reused = '' AND r.id <> ?`,
		cell, t.Tree, t.Series, t.Plan, accel, string(checks.Pass), except).Scan(&n, &least, &most)
	if err != nil || n < 3 {
		return Range{}, db.explain(err)
	}
	return Range{time.Duration(least) * time.Millisecond, time.Duration(most) * time.Millisecond}, nil
}

// Diff compares two runs with what the history knows: since when a cell fails,
// and how much its times vary.
func (db *DB) Diff(ctx context.Context, old, new *Facts) (*Diff, error) {
	var err error
	d := Compare(old, new, func(cell string) Range {
		r, e := db.Seen(ctx, new.Target, cell, new.Versions["accel"], new.ID)
		if e != nil {
			err = e
		}
		return r
	})
	if err != nil {
		return nil, err
	}
	if len(d.Still) > 0 {
		g, err := db.Grid(ctx, new.Target, 0)
		if err != nil {
			return nil, err
		}
		since := map[string]string{}
		for _, f := range g.Failures() {
			if f.FixedIn == "" {
				since[f.Cell+" "+f.Signature] = f.FirstBad
			}
		}
		for i, c := range d.Still {
			d.Still[i].Since = since[c.Cell+" "+c.Signature]
		}
	}
	return d, nil
}
