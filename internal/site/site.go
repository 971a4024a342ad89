// SPDX-License-Identifier: Apache-2.0

// Package site owns the pages over many runs: an index of nights by cells, a
// page for each cell, and a server that shows them together with what runs now.
// It reads the history and run folders and changes neither; the page of one run
// is made by internal/page.
//
// Names of trees, series and cells are not trusted: they reach a page only
// through html/template's escaping, and a path only through pathName.
package site

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/history"
)

// Data is what the index shows. Nights are the columns of everything in it.
type Data struct {
	Made   time.Time
	Nights []string // ids, oldest first
	Groups []*Group
	Latest Latest
}

// Latest is the newest nightly job, when there was one.
type Latest struct {
	Night history.Night
	Jobs  []history.Job
	Trees []history.TreeState
}

// Group is what is tested under one target: tree, series and plan.
type Group struct {
	Target   history.Target
	Columns  []history.Column // one for each of Data.Nights; Night is "" when the target had no turn
	Cells    []*Cell
	Failures []history.Failure // those that last first
	Counts   []Count           // added up over the cells of the patched kernel
	Culprits map[string]history.Culprit
}

// Cell is one cell over all nights.
type Cell struct {
	ID      string
	Squares []*history.Square // one for each of Data.Nights; nil where it has no answer
	Counts  []Count
}

// Count is a number over the nights; NaN where there is none.
type Count struct {
	Name   string
	Values []float64
}

// Load reads all that the index shows.
func Load(ctx context.Context, db *history.DB, now time.Time) (*Data, error) {
	d := &Data{Made: now}
	// Counts are many and lie in one table, squares in another: each is read on
	// a connection of its own.
	type count struct {
		run, cell, name string
		value           int64
	}
	var counts []count
	countErr := make(chan error, 1)
	cctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		second, err := history.OpenReadOnly(cctx, db.Path())
		if err == nil {
			err = second.EachCount(cctx, func(run, cell, name string, value int64) {
				counts = append(counts, count{run, cell, name, value})
			})
			second.Close()
		}
		countErr <- err
	}()

	targets, err := db.Targets(ctx)
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	grids := make([]*history.Grid, len(targets))
	for i, t := range targets {
		if grids[i], err = db.Grid(ctx, t.Target, 0); err != nil {
			return nil, err
		}
		for _, c := range grids[i].Columns {
			if _, ok := at[c.Night]; !ok {
				at[c.Night] = 0
				d.Nights = append(d.Nights, c.Night)
			}
		}
	}
	slices.Sort(d.Nights)
	for i, n := range d.Nights {
		at[n] = i
	}
	type place struct {
		group  *Group
		nights []int
		cells  map[string]*Cell
	}
	runs := map[string][]*place{} // by run id; a run answers for later nights too
	for _, g := range grids {
		if len(g.Columns) == 0 {
			continue
		}
		gr := &Group{Target: g.Target, Columns: make([]history.Column, len(d.Nights)), Failures: g.Failures(), Culprits: map[string]history.Culprit{}}
		byID := map[string]*Cell{}
		for i, id := range g.Cells {
			c := &Cell{ID: id, Squares: make([]*history.Square, len(d.Nights))}
			for j, s := range g.Squares[i] {
				c.Squares[at[g.Columns[j].Night]] = s
			}
			gr.Cells = append(gr.Cells, c)
			byID[id] = c
		}
		places := map[string]*place{}
		for _, c := range g.Columns {
			n := at[c.Night]
			gr.Columns[n] = c
			if c.Run == "" {
				continue
			}
			p := places[c.Run]
			if p == nil {
				p = &place{group: gr, cells: byID}
				places[c.Run] = p
				runs[c.Run] = append(runs[c.Run], p)
			}
			p.nights = append(p.nights, n)
		}
		jobs, err := db.JobsOf(ctx, g.Target, 0)
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			if j.Culprit.Cell != "" {
				gr.Culprits[j.Night+"\n"+j.Culprit.Cell] = j.Culprit
			}
		}
		d.Groups = append(d.Groups, gr)
	}
	if nights, err := db.Nights(ctx, "", 1); err != nil {
		return nil, err
	} else if len(nights) == 1 {
		d.Latest.Night = nights[0]
		if d.Latest.Jobs, err = db.Jobs(ctx, nights[0].ID); err != nil {
			return nil, err
		}
		if d.Latest.Trees, err = db.Trees(ctx, nights[0].ID); err != nil {
			return nil, err
		}
	}

	type sum struct {
		value float64
		cells int
	}
	sums := map[*Group]map[string][]sum{}
	lines := map[*Cell]map[string]int{}
	if err := <-countErr; err != nil {
		return nil, fmt.Errorf("cannot read the counts of the history: %w", err)
	}
	for _, c := range counts {
		for _, p := range runs[c.run] {
			cell := p.cells[c.cell]
			if cell == nil {
				continue
			}
			names := lines[cell]
			if names == nil {
				names = map[string]int{}
				lines[cell] = names
			}
			i, ok := names[c.name]
			if !ok {
				i = len(cell.Counts)
				names[c.name] = i
				cell.Counts = append(cell.Counts, Count{c.name, gaps(len(d.Nights))})
			}
			patched := strings.HasPrefix(c.cell, "patched/")
			if patched && sums[p.group] == nil {
				sums[p.group] = map[string][]sum{}
			}
			if patched && sums[p.group][c.name] == nil {
				sums[p.group][c.name] = make([]sum, len(d.Nights))
			}
			for _, n := range p.nights {
				cell.Counts[i].Values[n] = float64(c.value)
				if patched {
					s := &sums[p.group][c.name][n]
					s.value += float64(c.value)
					s.cells++
				}
			}
		}
	}
	for g, byName := range sums {
		for _, name := range sortedKeys(byName) {
			c := Count{name, gaps(len(d.Nights))}
			// A night with another number of cells has another sum for that
			// reason alone: it is left out.
			cells := 0
			for _, s := range byName[name] {
				if s.cells > 0 {
					cells = s.cells
				}
			}
			for n, s := range byName[name] {
				if s.cells == cells && cells > 0 {
					c.Values[n] = s.value
				}
			}
			g.Counts = append(g.Counts, c)
		}
	}
	return d, nil
}

func gaps(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = math.NaN()
	}
	return v
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// A Span is a number of nights, one after the other, in which a cell gave the
// same answer.
type Span struct {
	From, To    int // indexes of nights, both included
	Verdict     checks.Verdict
	Signature   string
	Quarantined bool
}

// Nights is how many.
func (s Span) Nights() int { return s.To - s.From + 1 }

// Spans merges equal answers, oldest first. Nights without an answer end a
// span and are in none.
func (c *Cell) Spans() []Span {
	var out []Span
	last := -2
	for i, s := range c.Squares {
		if s == nil {
			continue
		}
		if n := len(out) - 1; n >= 0 && last == i-1 && out[n].Verdict == s.Verdict && out[n].Signature == s.Signature && out[n].Quarantined == s.Quarantined {
			out[n].To = i
		} else {
			out = append(out, Span{i, i, s.Verdict, s.Signature, s.Quarantined})
		}
		last = i
	}
	return out
}

// Now is the newest answer of a cell and how long it has been like that.
type Now struct {
	Verdict     checks.Verdict // "" when it never had an answer
	Signature   string
	Quarantined bool
	At          int // index of the night of the answer
	Since       int // index of the first night of an unbroken row of such answers
	Nights      int // answers in that row
}

// Now tells how the cell stands: passes and failures of any kind make a row
// each, and nights without an answer do not break one.
func (c *Cell) Now() Now {
	var n Now
	for i := len(c.Squares) - 1; i >= 0; i-- {
		s := c.Squares[i]
		if s == nil {
			continue
		}
		if n.Verdict == "" {
			n = Now{Verdict: s.Verdict, Signature: s.Signature, Quarantined: s.Quarantined, At: i}
		}
		if (s.Verdict == checks.Pass) != (n.Verdict == checks.Pass) {
			break
		}
		n.Since = i
		n.Nights++
	}
	return n
}

// Work is the time that the cell's reads and writes took, in seconds, where it
// was measured.
func (c *Cell) Work() []float64 {
	v := gaps(len(c.Squares))
	for i, s := range c.Squares {
		if s != nil && !s.Reused && s.Verdict == checks.Pass && s.Work > 0 {
			v[i] = s.Work.Seconds()
		}
	}
	return v
}

// code is a verdict as one letter, for strips: lower case when quarantined.
func code(s *history.Square) byte {
	if s == nil {
		return '.'
	}
	c := verdictCode(s.Verdict)
	if s.Quarantined && c != 'P' {
		c += 'a' - 'A'
	}
	return c
}

func verdictCode(v checks.Verdict) byte {
	switch v {
	case checks.Pass:
		return 'P'
	case checks.Fail:
		return 'F'
	case checks.BaseFails:
		return 'B'
	case checks.Unstable:
		return 'U'
	case checks.Infra:
		return 'I'
	case checks.Skip:
		return 'S'
	}
	return 'N' // the run did not come to a verdict
}

// stateCode is a night of a target as one letter.
func stateCode(c history.Column) byte {
	switch {
	case c.Night == "":
		return '.'
	case c.Run != "":
		return verdictCode(c.Verdict)
	}
	return 'N'
}

// strip is the code of a cell for each night.
func (c *Cell) strip() string {
	b := make([]byte, len(c.Squares))
	for i, s := range c.Squares {
		b[i] = code(s)
	}
	return string(b)
}

func (g *Group) strip() string {
	b := make([]byte, len(g.Columns))
	for i, c := range g.Columns {
		b[i] = stateCode(c)
	}
	return string(b)
}

// nightTime is when a night was, for plots: midnight UTC of its day, and some
// hours later for the second and further of one day.
func nightTime(id string) time.Time {
	day, nth, _ := strings.Cut(id, ".")
	t, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return time.Time{}
	}
	var n int
	if _, err := fmt.Sscanf(nth, "%d", &n); err == nil && n > 1 && n < 24 {
		t = t.Add(time.Duration(n-1) * time.Hour)
	}
	return t
}

// pathName makes a file name of words that are not trusted: readable, and
// different for different words.
func pathName(words ...string) string {
	all := strings.Join(words, "\x00")
	sum := sha256.Sum256([]byte(all))
	var b strings.Builder
	for _, r := range strings.Join(words, "-") {
		if b.Len() >= 60 {
			break
		}
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.' && b.Len() > 0:
			b.WriteRune(r)
		case r >= 'A' && r <= 'Z':
			b.WriteRune(r + 'a' - 'A')
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	return strings.Trim(b.String(), "-.") + "-" + hex.EncodeToString(sum[:5])
}

// cellPath is a cell's page, relative to the site.
func cellPath(t history.Target, cell string) string {
	return "cells/" + pathName(cell, t.Series, t.Tree, t.Plan) + ".html"
}

// runPath is a run's page, relative to the site.
func runPath(id string) string { return "runs/" + id + ".html" }

// validRun says whether id may be part of a path.
func validRun(id string) bool {
	if id == "" || len(id) > 100 || id[0] == '.' || strings.Contains(id, "..") {
		return false
	}
	for _, r := range id {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.') {
			return false
		}
	}
	return true
}
