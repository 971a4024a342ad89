// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"patchcheck/internal/runfolder"
)

// Record puts a run into the history, in place of what was known of the same
// run id, so that recording twice is the same as once. A run that has not
// ended is recorded as such.
func (db *DB) Record(ctx context.Context, r *runfolder.Run) error {
	return db.RecordIn(ctx, r, "")
}

// RecordIn is Record for a run of the nightly run night.
func (db *DB) RecordIn(ctx context.Context, r *runfolder.Run, night string) error {
	f := FromRun(r)
	if night != "" {
		f.Night = night
	}
	if err := db.write(ctx, func(tx *sql.Tx) error { return put(ctx, tx, f, night == "") }); err != nil {
		return fmt.Errorf("run %s was not put into the history: %w", r.ID, err)
	}
	return nil
}

// Imported is what became of the run folders below a folder.
type Imported struct {
	New, Known int
	Skipped    []error // folders that cannot be read; the others were imported
}

// Import records the run folders below parent that the history does not have,
// or all of them again.
func (db *DB) Import(ctx context.Context, parent string, again bool) (Imported, error) {
	var im Imported
	dirs, err := runfolder.List(parent)
	if err != nil {
		return im, err
	}
	known := map[string]bool{}
	if !again {
		// A run that had not ended may have gone on since.
		rows, err := db.sql.QueryContext(ctx, "SELECT id FROM runs WHERE ended > 0")
		if err != nil {
			return im, db.explain(err)
		}
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				rows.Close()
				return im, db.explain(err)
			}
			known[id] = true
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return im, db.explain(err)
		}
	}
	for _, d := range dirs {
		if err := ctx.Err(); err != nil {
			return im, err
		}
		if known[d[strings.LastIndexByte(d, '/')+1:]] {
			im.Known++
			continue
		}
		r, err := runfolder.Open(d)
		if err != nil {
			im.Skipped = append(im.Skipped, err)
			continue
		}
		if err := db.Record(ctx, r); err != nil {
			return im, err
		}
		im.New++
	}
	return im, nil
}

func ms(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// stmts prepares each statement of a transaction once.
type stmts struct {
	ctx context.Context
	tx  *sql.Tx
	m   map[string]*sql.Stmt
}

func (s *stmts) exec(q string, args ...any) error {
	st, err := s.get(q)
	if err != nil {
		return err
	}
	_, err = st.ExecContext(s.ctx, args...)
	return err
}

func (s *stmts) get(q string) (*sql.Stmt, error) {
	if st := s.m[q]; st != nil {
		return st, nil
	}
	st, err := s.tx.PrepareContext(s.ctx, q)
	if err != nil {
		return nil, err
	}
	s.m[q] = st
	return st, nil
}

// insert writes one row; table and columns as in "cells (run, cell)".
func (s *stmts) insert(into string, args ...any) error {
	return s.exec("INSERT INTO "+into+" VALUES (?"+strings.Repeat(", ?", len(args)-1)+")", args...)
}

// intern gives the number of a name, which it enters if need be.
func (s *stmts) intern(sel, ins string, key string, args ...any) (int64, error) {
	st, err := s.get(sel)
	if err != nil {
		return 0, err
	}
	var n int64
	err = st.QueryRowContext(s.ctx, key).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		if st, err = s.get(ins); err != nil {
			return 0, err
		}
		res, err := st.ExecContext(s.ctx, append([]any{key}, args...)...)
		if err != nil {
			return 0, err
		}
		return res.LastInsertId()
	}
	return n, err
}

func (s *stmts) close() {
	for _, st := range s.m {
		st.Close()
	}
}

// put writes all rows of a run. keepNight leaves the night of a run that is
// known already: a later import knows nothing of nights.
func put(ctx context.Context, tx *sql.Tx, f *Facts, keepNight bool) error {
	s := &stmts{ctx, tx, map[string]*sql.Stmt{}}
	defer s.close()
	var old int64
	var night string
	switch err := tx.QueryRowContext(ctx, "SELECT n, night FROM runs WHERE id = ?", f.ID).Scan(&old, &night); {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return err
	default:
		if keepNight {
			f.Night = night
		}
		if err := s.exec("DELETE FROM runs WHERE n = ?", old); err != nil {
			return err
		}
	}
	res, err := tx.ExecContext(ctx, `INSERT INTO runs (id, dir, night, started, ended, tree, series, plan, job_key, verdict, reason,
		tree_id, tree_version, tree_commit, series_id, series_title, series_version, plan_id, kernel_base, kernel_patched, built, executed)
		VALUES (?`+strings.Repeat(", ?", 21)+")",
		f.ID, f.Dir, f.Night, ms(f.Started), ms(f.Ended), f.Target.Tree, f.Target.Series, f.Target.Plan, f.JobKey, string(f.Verdict), f.Reason,
		f.TreeID, f.TreeVersion, f.TreeCommit, f.SeriesID, f.SeriesTitle, f.SeriesVersion, f.PlanID, f.KernelBase, f.KernelPatched, f.Built, f.Executed)
	if err != nil {
		return err
	}
	run, err := res.LastInsertId()
	if err != nil {
		return err
	}
	for _, c := range f.Cells {
		k, d, v := split(c.ID)
		cell, err := s.intern("SELECT n FROM cell_names WHERE id = ?", "INSERT INTO cell_names (id, kernel, device, nfs) VALUES (?, ?, ?, ?)", c.ID, k, d, v)
		if err != nil {
			return err
		}
		if err := s.insert("cells (run, cell, verdict, signature, reason, key, reused, attempts, work_ms, elapsed_ms, quarantined)",
			run, cell, string(c.Verdict), c.Signature, c.Reason, c.Key, c.Reused, c.Attempts, c.Work.Milliseconds(), c.Elapsed.Milliseconds(), b2i(c.Quarantined)); err != nil {
			return err
		}
		for name, x := range c.Values {
			n, err := s.intern("SELECT n FROM value_names WHERE name = ?", "INSERT INTO value_names (name) VALUES (?)", name)
			if err != nil {
				return err
			}
			if err := s.insert("counts (cell, name, run, value)", cell, n, run, x); err != nil {
				return err
			}
		}
		for i := range f.attempts[c.ID] {
			a := &f.attempts[c.ID][i]
			if err := s.insert("attempts (run, cell, attempt, guest, kernel, accel, fresh, verdict, started, work_ms, elapsed_ms)",
				run, cell, i+1, a.Guest, a.Kernel, a.Accel, b2i(a.Fresh), string(a.Verdict), ms(a.Started), a.WorkTime().Milliseconds(), a.Elapsed.Milliseconds()); err != nil {
				return err
			}
		}
	}
	for i, x := range f.Findings {
		if err := s.insert("findings (run, nth, cell, id, severity, patch, file, line, message)",
			run, i+1, x.Where.Cell, x.ID, string(x.Severity), x.Where.Patch, x.Where.File, x.Where.Line, x.Message); err != nil {
			return err
		}
	}
	for i, x := range f.Steps {
		if err := s.insert("steps (run, nth, name, status, detail, started, elapsed_ms)", run, i+1, x.Name, x.Status, x.Detail, ms(x.Started), x.Elapsed.Milliseconds()); err != nil {
			return err
		}
	}
	for _, x := range f.Builds {
		if err := s.exec("INSERT OR REPLACE INTO builds (run, patch, ok, reused, objects, warnings, elapsed_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
			run, x.Patch, b2i(x.OK), b2i(x.Reused), x.Objects, x.New, x.Elapsed.Milliseconds()); err != nil {
			return err
		}
	}
	for _, x := range f.Patches {
		if err := s.exec("INSERT OR REPLACE INTO patches (run, patch, id, subject) VALUES (?, ?, ?, ?)", run, x.Index, x.ID, x.Subject); err != nil {
			return err
		}
	}
	for k, v := range f.Versions {
		if err := s.insert("versions (run, what, version)", run, k, v); err != nil {
			return err
		}
	}
	return nil
}

// split takes a cell's id apart: "patched/intel-216/v4.1".
func split(id string) (kernel, device, nfs string) {
	kernel, rest, _ := strings.Cut(id, "/")
	i := strings.LastIndexByte(rest, '/')
	if i < 0 {
		return kernel, rest, ""
	}
	return kernel, rest[:i], strings.TrimPrefix(rest[i+1:], "v")
}
