// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"database/sql"
)

// EachCount calls f for every count that the history has, by cell and name,
// in one pass over the file: for overviews over all targets.
func (db *DB) EachCount(ctx context.Context, f func(run, cell, name string, value int64)) error {
	names := func(q string) (map[int64]string, error) {
		m := map[int64]string{}
		return m, db.query(ctx, func(s scanner) error {
			var n int64
			var id string
			err := s.Scan(&n, &id)
			m[n] = id
			return err
		}, q)
	}
	runs, err := names("SELECT n, id FROM runs")
	if err != nil {
		return err
	}
	cells, err := names("SELECT n, id FROM cell_names")
	if err != nil {
		return err
	}
	values, err := names("SELECT n, name FROM value_names")
	if err != nil {
		return err
	}
	var cell, name, run, value sql.NullInt64 // reused: one allocation for all rows
	dest := []any{&cell, &name, &run, &value}
	return db.query(ctx, func(s scanner) error {
		if err := s.Scan(dest...); err != nil {
			return err
		}
		f(runs[run.Int64], cells[cell.Int64], values[name.Int64], value.Int64)
		return nil
	}, "SELECT cell, name, run, value FROM counts ORDER BY cell, name, run")
}
