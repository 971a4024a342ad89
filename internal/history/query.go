// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/runfolder"
)

// ErrUnknown is a run, or a key, that the history does not have.
var ErrUnknown = errors.New("not in the history")

// Filter narrows a list of runs; zero fields do not.
type Filter struct {
	Target   Target // each non-empty name must match
	Cell     string // runs that have this cell
	Night    string
	Since    time.Time
	Finished bool
	Limit    int
}

const runColumns = `r.id, r.dir, r.night, r.started, r.ended, r.tree, r.series, r.plan, r.job_key, r.verdict, r.reason,
	r.tree_id, r.tree_version, r.tree_commit, r.series_id, r.series_title, r.series_version, r.plan_id, r.kernel_base, r.kernel_patched, r.built, r.executed`

type scanner interface{ Scan(...any) error }

func scanRun(s scanner, more ...any) (Run, error) {
	var r Run
	var started, ended int64
	err := s.Scan(append([]any{&r.ID, &r.Dir, &r.Night, &started, &ended, &r.Target.Tree, &r.Target.Series, &r.Target.Plan, &r.JobKey, (*string)(&r.Verdict), &r.Reason,
		&r.TreeID, &r.TreeVersion, &r.TreeCommit, &r.SeriesID, &r.SeriesTitle, &r.SeriesVersion, &r.PlanID, &r.KernelBase, &r.KernelPatched, &r.Built, &r.Executed}, more...)...)
	r.Started, r.Ended = unms(started), unms(ended)
	return r, err
}

func unms(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// query runs q and calls each for every row.
func (db *DB) query(ctx context.Context, each func(scanner) error, q string, args ...any) error {
	rows, err := db.sql.QueryContext(ctx, q, args...)
	if err != nil {
		return db.explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return db.explain(err)
		}
	}
	return db.explain(rows.Err())
}

// Runs lists runs, newest first.
func (db *DB) Runs(ctx context.Context, f Filter) ([]Run, error) {
	var where []string
	var args []any
	add := func(cond string, arg any) { where, args = append(where, cond), append(args, arg) }
	for col, v := range map[string]string{"r.tree": f.Target.Tree, "r.series": f.Target.Series, "r.plan": f.Target.Plan, "r.night": f.Night} {
		if v != "" {
			add(col+" = ?", v)
		}
	}
	if f.Cell != "" {
		add("r.n IN (SELECT c.run FROM cells c JOIN cell_names k ON k.n = c.cell WHERE k.id = ?)", f.Cell)
	}
	if !f.Since.IsZero() {
		add("r.started >= ?", ms(f.Since))
	}
	if f.Finished {
		where = append(where, "r.ended > 0")
	}
	q := "SELECT " + runColumns + " FROM runs r"
	if len(where) > 0 {
		q += " WHERE " + strings.Join(where, " AND ")
	}
	q += " ORDER BY r.started DESC, r.id DESC"
	if f.Limit > 0 {
		q += fmt.Sprintf(" LIMIT %d", f.Limit)
	}
	var out []Run
	err := db.query(ctx, func(s scanner) error {
		r, err := scanRun(s)
		out = append(out, r)
		return err
	}, q, args...)
	return out, err
}

// ByKey is the newest run that answers for a job key for good: one that ended
// with PASS, FAIL or BASE-FAILS. ErrUnknown when there is none.
func (db *DB) ByKey(ctx context.Context, key string) (Run, error) {
	if key == "" {
		return Run{}, ErrUnknown
	}
	r, err := scanRun(db.sql.QueryRowContext(ctx, "SELECT "+runColumns+` FROM runs r WHERE r.job_key = ? AND r.job_key <> '' AND r.ended > 0 AND r.verdict IN (?, ?, ?)
		ORDER BY r.started DESC LIMIT 1`, key, string(checks.Pass), string(checks.Fail), string(checks.BaseFails)))
	if errors.Is(err, sql.ErrNoRows) {
		return Run{}, ErrUnknown
	}
	return r, db.explain(err)
}

// Facts gives all that is known of a run; ErrUnknown when the history does not
// have it.
func (db *DB) Facts(ctx context.Context, id string) (*Facts, error) {
	var n int64
	r, err := scanRun(db.sql.QueryRowContext(ctx, "SELECT "+runColumns+", r.n FROM runs r WHERE r.id = ?", id), &n)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("run %s: %w", id, ErrUnknown)
	}
	if err != nil {
		return nil, db.explain(err)
	}
	f := &Facts{Run: r, Versions: map[string]string{}}
	if err := db.query(ctx, func(s scanner) error {
		var c Cell
		var work, elapsed int64
		err := s.Scan(&c.ID, (*string)(&c.Verdict), &c.Signature, &c.Reason, &c.Key, &c.Reused, &c.Attempts, &work, &elapsed, &c.Quarantined)
		c.Work, c.Elapsed = time.Duration(work)*time.Millisecond, time.Duration(elapsed)*time.Millisecond
		f.Cells = append(f.Cells, c)
		return err
	}, `SELECT k.id, c.verdict, c.signature, c.reason, c.key, c.reused, c.attempts, c.work_ms, c.elapsed_ms, c.quarantined
		FROM cells c JOIN cell_names k ON k.n = c.cell WHERE c.run = ? ORDER BY c.cell`, n); err != nil {
		return nil, err
	}
	if err := db.query(ctx, func(s scanner) error {
		var cell, name string
		var v int64
		err := s.Scan(&cell, &name, &v)
		if c := f.Cell(cell); c != nil {
			if c.Values == nil {
				c.Values = map[string]int64{}
			}
			c.Values[name] = v
		}
		return err
	}, "SELECT k.id, v.name, c.value FROM counts c JOIN cell_names k ON k.n = c.cell JOIN value_names v ON v.n = c.name WHERE c.run = ?", n); err != nil {
		return nil, err
	}
	if err := db.query(ctx, func(s scanner) error {
		var x checks.Finding
		err := s.Scan(&x.Where.Cell, &x.ID, (*string)(&x.Severity), &x.Where.Patch, &x.Where.File, &x.Where.Line, &x.Message)
		f.Findings = append(f.Findings, x)
		return err
	}, "SELECT cell, id, severity, patch, file, line, message FROM findings WHERE run = ? ORDER BY nth", n); err != nil {
		return nil, err
	}
	if err := db.query(ctx, func(s scanner) error {
		var x runfolder.Step
		var started, elapsed int64
		err := s.Scan(&x.Name, &x.Status, &x.Detail, &started, &elapsed)
		x.Started, x.Elapsed = unms(started), time.Duration(elapsed)*time.Millisecond
		f.Steps = append(f.Steps, x)
		return err
	}, "SELECT name, status, detail, started, elapsed_ms FROM steps WHERE run = ? ORDER BY nth", n); err != nil {
		return nil, err
	}
	if err := db.query(ctx, func(s scanner) error {
		var x runfolder.Build
		var elapsed int64
		err := s.Scan(&x.Patch, &x.OK, &x.Reused, &x.Objects, &x.New, &elapsed)
		x.Elapsed = time.Duration(elapsed) * time.Millisecond
		f.Builds = append(f.Builds, x)
		return err
	}, "SELECT patch, ok, reused, objects, warnings, elapsed_ms FROM builds WHERE run = ? ORDER BY patch", n); err != nil {
		return nil, err
	}
	if err := db.query(ctx, func(s scanner) error {
		var x runfolder.Patch
		err := s.Scan(&x.Index, &x.ID, &x.Subject)
		f.Patches = append(f.Patches, x)
		return err
	}, "SELECT patch, id, subject FROM patches WHERE run = ? ORDER BY patch", n); err != nil {
		return nil, err
	}
	return f, db.query(ctx, func(s scanner) error {
		var k, v string
		err := s.Scan(&k, &v)
		f.Versions[k] = v
		return err
	}, "SELECT what, version FROM versions WHERE run = ?", n)
}

// TargetState is a target and its newest run.
type TargetState struct {
	Target Target `json:"target"`
	Runs   int    `json:"runs"`
	Latest Run    `json:"latest"` // that ended; zero when none did
}

// Targets lists what was ever tested, most recently tested first.
func (db *DB) Targets(ctx context.Context) ([]TargetState, error) {
	var out []TargetState
	at := map[Target]int{}
	if err := db.query(ctx, func(s scanner) error {
		var n int
		r, err := scanRun(s, &n)
		at[r.Target] = len(out)
		out = append(out, TargetState{r.Target, n, r})
		return err
	}, "SELECT "+runColumns+`, t.n FROM runs r JOIN
		(SELECT tree, series, plan, count(*) AS n, max(started) AS latest FROM runs WHERE ended > 0 GROUP BY tree, series, plan) t
		ON r.tree = t.tree AND r.series = t.series AND r.plan = t.plan AND r.started = t.latest AND r.ended > 0
		GROUP BY r.tree, r.series, r.plan ORDER BY r.started DESC, r.tree, r.series, r.plan`); err != nil {
		return nil, err
	}
	// Targets that never got as far as a run are known by their jobs only.
	err := db.query(ctx, func(s scanner) error {
		var t Target
		err := s.Scan(&t.Tree, &t.Series, &t.Plan)
		if _, ok := at[t]; !ok {
			out = append(out, TargetState{Target: t})
		}
		return err
	}, "SELECT DISTINCT tree, series, plan FROM jobs ORDER BY tree, series, plan")
	return out, err
}

// Column is one night of a grid.
type Column struct {
	Night   string         `json:"night"`
	Run     string         `json:"run,omitempty"`     // id of the run that answers for this night; "" when there is none
	Carried bool           `json:"carried,omitempty"` // the run is of an earlier night: nothing had changed
	State   State          `json:"state,omitempty"`   // of the nightly job; "" for a run by hand
	Verdict checks.Verdict `json:"verdict,omitempty"`
	Detail  string         `json:"detail,omitempty"`
}

// Square is one cell in one night.
type Square struct {
	Verdict     checks.Verdict `json:"verdict"`
	Signature   string         `json:"signature,omitempty"`
	Quarantined bool           `json:"quarantined,omitempty"`
	Reused      bool           `json:"reused,omitempty"`
	Work        time.Duration  `json:"work_ns,omitempty"`
}

// Grid is nights by cells of one target.
type Grid struct {
	Target  Target      `json:"target"`
	Columns []Column    `json:"columns"` // oldest first
	Cells   []string    `json:"cells"`   // ids: patched before base, then as first seen
	Squares [][]*Square `json:"squares"` // [cell][column]; nil where the cell was not run
}

// Grid gives the last nights (0: all) of a target. Of several runs in a night
// the last that ended counts. A night whose job was known already shows the
// run that answered it.
func (db *DB) Grid(ctx context.Context, t Target, nights int) (*Grid, error) {
	g := &Grid{Target: t}
	type col struct {
		Column
		order int64
	}
	byNight := map[string]*col{}
	runAt := map[string]int64{} // run id -> n
	verdicts := map[string]checks.Verdict{}
	if err := db.query(ctx, func(s scanner) error {
		var n, started int64
		var id, night, verdict, reason string
		if err := s.Scan(&n, &id, &night, &started, &verdict, &reason); err != nil {
			return err
		}
		runAt[id], verdicts[id] = n, checks.Verdict(verdict)
		byNight[night] = &col{Column{Night: night, Run: id, Verdict: checks.Verdict(verdict), Detail: reason}, started}
		return nil
	}, "SELECT n, id, night, started, verdict, reason FROM runs WHERE tree = ? AND series = ? AND plan = ? AND ended > 0 ORDER BY started", t.Tree, t.Series, t.Plan); err != nil {
		return nil, err
	}
	other := map[string]bool{}
	if err := db.query(ctx, func(s scanner) error {
		var night, run, state, verdict, detail string
		if err := s.Scan(&night, &run, &state, &verdict, &detail); err != nil {
			return err
		}
		c := byNight[night]
		if c == nil {
			c = &col{Column: Column{Night: night}}
			byNight[night] = c
		}
		c.State, c.Detail = State(state), detail
		if run != "" {
			c.Run, c.Verdict = run, checks.Verdict(verdict)
			c.Carried = State(state) == Known
			if _, ok := runAt[run]; !ok {
				other[run] = true
			}
		} else if State(state) != Interrupted && State(state) != Running {
			c.Run, c.Verdict = "", ""
		}
		return nil
	}, "SELECT night, run_id, state, verdict, detail FROM jobs WHERE tree = ? AND series = ? AND plan = ?", t.Tree, t.Series, t.Plan); err != nil {
		return nil, err
	}
	// A known answer may come from a run under another name.
	for id := range other {
		var n int64
		if err := db.sql.QueryRowContext(ctx, "SELECT n FROM runs WHERE id = ?", id).Scan(&n); err == nil {
			runAt[id] = n
		} else if !errors.Is(err, sql.ErrNoRows) {
			return nil, db.explain(err)
		}
	}
	for _, c := range byNight {
		g.Columns = append(g.Columns, c.Column)
	}
	sort.Slice(g.Columns, func(i, j int) bool { return g.Columns[i].Night < g.Columns[j].Night })
	if nights > 0 && len(g.Columns) > nights {
		g.Columns = g.Columns[len(g.Columns)-nights:]
	}
	// Which columns show a run.
	shown := map[int64][]int{}
	var least int64 = 1<<63 - 1
	for i, c := range g.Columns {
		if n, ok := runAt[c.Run]; ok && c.Run != "" {
			shown[n] = append(shown[n], i)
			least = min(least, n)
		}
	}
	if len(shown) == 0 {
		return g, nil
	}
	names := map[int64]string{}
	if err := db.query(ctx, func(s scanner) error {
		var n int64
		var id string
		err := s.Scan(&n, &id)
		names[n] = id
		return err
	}, "SELECT n, id FROM cell_names"); err != nil {
		return nil, err
	}
	row := map[int64]int{}
	var order []int64
	var squares [][]*Square
	q := `SELECT c.run, c.cell, c.verdict, c.signature, c.quarantined, c.reused <> '', c.work_ms FROM cells c JOIN runs r ON r.n = c.run
		WHERE r.tree = ? AND r.series = ? AND r.plan = ? AND c.run >= ?`
	args := []any{t.Tree, t.Series, t.Plan, least}
	for id := range other {
		q += " OR c.run = ?"
		args = append(args, runAt[id])
	}
	// Most squares look alike: the strings are shared.
	words := map[string]string{}
	word := func(b []byte) string {
		if s, ok := words[string(b)]; ok {
			return s
		}
		s := string(b)
		words[s] = s
		return s
	}
	var verdict, sig sql.RawBytes
	if err := db.query(ctx, func(s scanner) error {
		var run, cell, work int64
		var sq Square
		if err := s.Scan(&run, &cell, &verdict, &sig, &sq.Quarantined, &sq.Reused, &work); err != nil {
			return err
		}
		cols := shown[run]
		if len(cols) == 0 {
			return nil
		}
		sq.Verdict, sq.Signature, sq.Work = checks.Verdict(word(verdict)), word(sig), time.Duration(work)*time.Millisecond
		i, ok := row[cell]
		if !ok {
			i = len(order)
			row[cell] = i
			order = append(order, cell)
			squares = append(squares, make([]*Square, len(g.Columns)))
		}
		for _, c := range cols {
			squares[i][c] = &sq
		}
		return nil
	}, q, args...); err != nil {
		return nil, err
	}
	by := make([]int, len(order))
	for i := range by {
		by[i] = i
	}
	sort.SliceStable(by, func(a, b int) bool {
		pa, pb := strings.HasPrefix(names[order[by[a]]], "patched/"), strings.HasPrefix(names[order[by[b]]], "patched/")
		if pa != pb {
			return pa
		}
		return order[by[a]] < order[by[b]]
	})
	for _, i := range by {
		g.Cells = append(g.Cells, names[order[i]])
		g.Squares = append(g.Squares, squares[i])
	}
	return g, nil
}

// Failure is one cell failing in one way over consecutive nights.
type Failure struct {
	Target    Target         `json:"target"`
	Cell      string         `json:"cell"`
	Verdict   checks.Verdict `json:"verdict"` // of the last bad night
	Signature string         `json:"signature"`
	FirstBad  string         `json:"first_bad"` // night
	LastBad   string         `json:"last_bad"`
	Nights    int            `json:"nights"`              // bad nights with an answer
	LastGood  string         `json:"last_good,omitempty"` // night before, "" when it never passed before
	FixedIn   string         `json:"fixed_in,omitempty"`  // night; "" while it lasts
	FirstRun  string         `json:"first_run"`
	LastRun   string         `json:"last_run"`
}

// Failures lists the failures that a grid shows, those that last first, then
// the newest. Nights without an answer neither begin nor end one; another
// signature begins another failure.
func (g *Grid) Failures() []Failure {
	var out []Failure
	for i, cell := range g.Cells {
		var cur *Failure
		good := ""
		end := func(fixed string) {
			if cur != nil {
				cur.FixedIn = fixed
				out = append(out, *cur)
				cur = nil
			}
		}
		for j, sq := range g.Squares[i] {
			if sq == nil {
				continue
			}
			c := g.Columns[j]
			switch {
			case sq.Verdict == checks.Pass:
				end(c.Night)
				good = c.Night
			case Failing(sq.Verdict):
				if cur != nil && cur.Signature != sq.Signature {
					end(c.Night) // this failure is gone, another has come
				}
				if cur == nil {
					cur = &Failure{Target: g.Target, Cell: cell, Signature: sq.Signature, FirstBad: c.Night, LastGood: good, FirstRun: c.Run}
				}
				cur.LastBad, cur.LastRun, cur.Verdict = c.Night, c.Run, sq.Verdict
				cur.Nights++
			}
		}
		end("")
	}
	slices.SortStableFunc(out, func(a, b Failure) int {
		if (a.FixedIn == "") != (b.FixedIn == "") {
			return b2i(b.FixedIn == "") - b2i(a.FixedIn == "")
		}
		return strings.Compare(b.FirstBad, a.FirstBad)
	})
	return out
}

// Point is one night of a trend.
type Point struct {
	Night   string           `json:"night"`
	Run     string           `json:"run"`
	Started time.Time        `json:"started"`
	Verdict checks.Verdict   `json:"verdict"`
	Work    time.Duration    `json:"work_ns"`
	Elapsed time.Duration    `json:"elapsed_ns"`
	Reused  bool             `json:"reused,omitempty"` // an old answer: no new measurement
	Values  map[string]int64 `json:"values,omitempty"`
}

// Trend gives timings and counts of one cell of a target, oldest first.
func (db *DB) Trend(ctx context.Context, t Target, cell string) ([]Point, error) {
	var out []Point
	at := map[int64]int{}
	if err := db.query(ctx, func(s scanner) error {
		var p Point
		var n, started, work, elapsed int64
		err := s.Scan(&n, &p.Night, &p.Run, &started, (*string)(&p.Verdict), &work, &elapsed, &p.Reused)
		p.Started, p.Work, p.Elapsed = unms(started), time.Duration(work)*time.Millisecond, time.Duration(elapsed)*time.Millisecond
		at[n] = len(out)
		out = append(out, p)
		return err
	}, `SELECT r.n, r.night, r.id, r.started, c.verdict, c.work_ms, c.elapsed_ms, c.reused <> ''
		FROM cells c JOIN runs r ON r.n = c.run JOIN cell_names k ON k.n = c.cell
		WHERE k.id = ? AND r.tree = ? AND r.series = ? AND r.plan = ? AND r.ended > 0 ORDER BY r.started`, cell, t.Tree, t.Series, t.Plan); err != nil {
		return nil, err
	}
	return out, db.query(ctx, func(s scanner) error {
		var run, v int64
		var name string
		if err := s.Scan(&run, &name, &v); err != nil {
			return err
		}
		if i, ok := at[run]; ok {
			if out[i].Values == nil {
				out[i].Values = map[string]int64{}
			}
			out[i].Values[name] = v
		}
		return nil
	}, "SELECT c.run, v.name, c.value FROM counts c JOIN value_names v ON v.n = c.name WHERE c.cell = (SELECT n FROM cell_names WHERE id = ?)", cell)
}

// Line is one count of one cell over time.
type Line struct {
	Cell   string   `json:"cell"`
	Name   string   `json:"name"`
	Nights []string `json:"nights"`
	Values []int64  `json:"values"`
}

// Counts gives every count of every cell of a target over time, for an
// overview: by cell, then name, then time.
func (db *DB) Counts(ctx context.Context, t Target) ([]Line, error) {
	type nr struct {
		night string
		rank  int64
	}
	runs := map[int64]nr{}
	if err := db.query(ctx, func(s scanner) error {
		var n, started int64
		var night string
		err := s.Scan(&n, &night, &started)
		runs[n] = nr{night, started}
		return err
	}, "SELECT n, night, started FROM runs WHERE tree = ? AND series = ? AND plan = ? AND ended > 0", t.Tree, t.Series, t.Plan); err != nil {
		return nil, err
	}
	cells, names := map[int64]string{}, map[int64]string{}
	for q, m := range map[string]map[int64]string{"SELECT n, id FROM cell_names": cells, "SELECT n, name FROM value_names": names} {
		if err := db.query(ctx, func(s scanner) error {
			var n int64
			var id string
			err := s.Scan(&n, &id)
			m[n] = id
			return err
		}, q); err != nil {
			return nil, err
		}
	}
	type key struct{ cell, name int64 }
	type acc struct {
		Line
		ranks []int64
	}
	lines := map[key]*acc{}
	var order []key
	if err := db.query(ctx, func(s scanner) error {
		var k key
		var run, v int64
		if err := s.Scan(&k.cell, &k.name, &run, &v); err != nil {
			return err
		}
		r, ok := runs[run]
		if !ok {
			return nil
		}
		l := lines[k]
		if l == nil {
			l = &acc{Line: Line{Cell: cells[k.cell], Name: names[k.name]}}
			lines[k] = l
			order = append(order, k)
		}
		l.Nights, l.Values, l.ranks = append(l.Nights, r.night), append(l.Values, v), append(l.ranks, r.rank)
		return nil
	}, "SELECT cell, name, run, value FROM counts ORDER BY cell, name, run"); err != nil {
		return nil, err
	}
	slices.SortFunc(order, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.cell, b.cell), strings.Compare(names[a.name], names[b.name]))
	})
	var out []Line
	for _, k := range order {
		l := lines[k]
		if !slices.IsSorted(l.ranks) { // imported out of order
			by := make([]int, len(l.ranks))
			for i := range by {
				by[i] = i
			}
			sort.SliceStable(by, func(a, b int) bool { return l.ranks[by[a]] < l.ranks[by[b]] })
			nights, values := make([]string, len(by)), make([]int64, len(by))
			for i, j := range by {
				nights[i], values[i] = l.Nights[j], l.Values[j]
			}
			l.Nights, l.Values = nights, values
		}
		out = append(out, l.Line)
	}
	return out, nil
}

// Forget removes a run.
func (db *DB) Forget(ctx context.Context, id string) error {
	return db.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM runs WHERE id = ?", id)
		return err
	})
}
