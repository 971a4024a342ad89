// SPDX-License-Identifier: Apache-2.0

// Package history owns the memory over runs: one SQLite file with what each
// run answered, and the state of each nightly job. It is filled from run
// folders and can be made again from them, except for the nights; it judges
// nothing. Nobody else imports the SQLite driver.
//
// Several processes may use a file at once (write-ahead log, and a wait of
// BusyTimeout for the other's transaction).
package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// BusyTimeout is how long one process waits for the transaction of another.
const BusyTimeout = 30 * time.Second

// DefaultPath is $XDG_STATE_HOME/patchcheck/history.db, else the same below
// ~/.local/state.
func DefaultPath() (string, error) {
	if d := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "patchcheck", "history.db"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no place for the history: %w; set XDG_STATE_HOME, or name a file", err)
	}
	return filepath.Join(home, ".local", "state", "patchcheck", "history.db"), nil
}

// DB is an open history.
type DB struct {
	sql      *sql.DB
	path     string
	readOnly bool
}

// DamagedError is a file that SQLite cannot make sense of.
type DamagedError struct {
	Path string
	Err  error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the history %s is damaged (%v); `patchcheck history reset` moves it aside, then `patchcheck history import` fills a new one from the run folders (the states of past nights are lost)", e.Path, e.Err)
}

func (e *DamagedError) Unwrap() error { return e.Err }

// ForeignError is an SQLite file of some other program.
type ForeignError struct{ Path string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s is an SQLite file of another program; name another file for the history", e.Path)
}

// NewerError is a file that a newer patchcheck wrote.
type NewerError struct {
	Path      string
	Have, Can int
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("the history %s has schema %d, this patchcheck knows %d: a newer patchcheck wrote it; update patchcheck, or name another file", e.Path, e.Have, e.Can)
}

// ErrReadOnly is a change to a history that cannot be written.
var ErrReadOnly = errors.New("the history cannot be written")

// Open opens the file at path, makes it if absent, and brings its schema up to
// date. A file that may not be written is opened for reading; Writable tells.
// Errors: *DamagedError, *ForeignError, *NewerError.
func Open(ctx context.Context, path string) (*DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil && !errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("cannot make the history's folder: %w", err)
	}
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("cannot use the history: %w", err)
	case !fi.Mode().IsRegular():
		return nil, fmt.Errorf("cannot use the history: %s is no file", path)
	case unix.Access(path, unix.W_OK) != nil:
		return OpenReadOnly(ctx, path)
	case fi.Size() > 0:
		// A file that is none of ours must not even be switched to a log.
		if err := refuse(ctx, path); err != nil {
			return nil, err
		}
	}
	db := &DB{path: path}
	if db.sql, err = sql.Open("sqlite", dsn(path, "rwc")); err != nil {
		return nil, err
	}
	// One connection: transactions of one process must not wait for each other.
	db.sql.SetMaxOpenConns(1)
	if err := patient(ctx, func() error { return db.migrate(ctx) }); err != nil {
		db.sql.Close()
		return nil, err
	}
	return db, nil
}

// refuse says why the file at path cannot be a history that is written.
func refuse(ctx context.Context, path string) error {
	db := &DB{path: path}
	var err error
	if db.sql, err = sql.Open("sqlite", dsn(path, "ro")); err != nil {
		return err
	}
	defer db.sql.Close()
	return patient(ctx, func() error { return db.ours(ctx, db.sql) })
}

// patient repeats f while SQLite says that the file is busy, for BusyTimeout.
// SQLite's own wait does not cover every lock: where it could end in a
// deadlock it gives up at once, as when two processes switch a new file to
// the write-ahead log (sqlite.org/c3ref/busy_handler.html). f leaves nothing
// behind when it fails.
func patient(ctx context.Context, f func() error) error {
	for end := time.Now().Add(BusyTimeout); ; {
		err := f()
		if !busy(err) || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func busy(err error) bool {
	var se *sqlite.Error
	return errors.As(err, &se) && (se.Code()&0xff == sqlite3.SQLITE_BUSY || se.Code()&0xff == sqlite3.SQLITE_LOCKED)
}

// ours says why the open file is none that this program can bring up to date.
// One without tables is being made by another process.
func (db *DB) ours(ctx context.Context, q querier) error {
	// Tables and identity come with one commit, which may be between these
	// questions: whoever sees a table must see the identity.
	tables, err := db.tables(ctx, q)
	if err != nil {
		return err
	}
	v, app, err := db.identity(ctx, q)
	if err != nil {
		return err
	}
	switch {
	case app != applicationID && (tables > 0 || v > 0 || app != 0):
		return &ForeignError{db.path}
	case v > SchemaVersion:
		return &NewerError{db.path, v, SchemaVersion}
	}
	return nil
}

// OpenReadOnly opens an existing history without ever changing it or making a
// file beside it. An absent file is fs.ErrNotExist.
func OpenReadOnly(ctx context.Context, path string) (*DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("there is no history yet: %w", err)
	}
	db := &DB{path: path, readOnly: true}
	// A log beside the file has to be read with the file, and the shared
	// memory that this takes has to be made. Where neither log nor permission
	// is there, the file alone is all there is.
	mode := "ro"
	if unix.Access(filepath.Dir(path), unix.W_OK) != nil {
		if _, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
			mode = "ro&immutable=1"
		}
	}
	if db.sql, err = sql.Open("sqlite", dsn(path, mode)); err != nil {
		return nil, err
	}
	var tables, v, app int
	err = patient(ctx, func() (err error) {
		if tables, err = db.tables(ctx, db.sql); err == nil {
			v, app, err = db.identity(ctx, db.sql)
		}
		return err
	})
	switch {
	case err != nil:
	case app == 0 && v == 0 && tables == 0: // another process is making it
		err = fmt.Errorf("there is no history yet: %w", fs.ErrNotExist)
	case app != applicationID:
		err = &ForeignError{path}
	case v > SchemaVersion:
		err = &NewerError{path, v, SchemaVersion}
	case v < SchemaVersion:
		err = fmt.Errorf("the history %s has the older schema %d and cannot be written, so it cannot be brought up to date: make it writable, or use a copy", path, v)
	}
	if err != nil {
		db.sql.Close()
		return nil, err
	}
	return db, nil
}

func dsn(path, mode string) string {
	q := "mode=" + mode + "&_txlock=immediate&_pragma=" + url.QueryEscape(fmt.Sprintf("busy_timeout(%d)", BusyTimeout.Milliseconds())) +
		"&_pragma=" + url.QueryEscape("foreign_keys(1)")
	if mode == "rwc" {
		q += "&_pragma=" + url.QueryEscape("journal_mode(WAL)") + "&_pragma=" + url.QueryEscape("synchronous(NORMAL)")
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q
}

// Close ends the use of the file.
func (db *DB) Close() error { return db.sql.Close() }

// Path is the file.
func (db *DB) Path() string { return db.path }

// Writable says whether Record and the like can work.
func (db *DB) Writable() bool { return !db.readOnly }

type querier interface {
	QueryRowContext(ctx context.Context, q string, args ...any) *sql.Row
}

func (db *DB) tables(ctx context.Context, q querier) (n int, err error) {
	err = q.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&n)
	return n, db.explain(err)
}

func (db *DB) identity(ctx context.Context, q querier) (version, app int, err error) {
	if err = q.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err == nil {
		err = q.QueryRowContext(ctx, "PRAGMA application_id").Scan(&app)
	}
	return version, app, db.explain(err)
}

// migrate brings an empty or older file to the current schema, in one
// transaction, so that two processes cannot both do it.
func (db *DB) migrate(ctx context.Context) error {
	v, app, err := db.identity(ctx, db.sql)
	if err != nil {
		return err
	}
	if v == SchemaVersion && app == applicationID {
		return nil
	}
	return db.write(ctx, func(tx *sql.Tx) error {
		if err := db.ours(ctx, tx); err != nil {
			return err
		}
		v, _, err := db.identity(ctx, tx)
		if err != nil {
			return err
		}
		for ; v < SchemaVersion; v++ {
			if _, err := tx.ExecContext(ctx, migrations[v]); err != nil {
				return fmt.Errorf("cannot bring the history to schema %d: %w", v+1, db.explain(err))
			}
		}
		_, err = tx.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, SchemaVersion))
		return err
	})
}

// write runs f in a transaction that has the write lock from its beginning.
func (db *DB) write(ctx context.Context, f func(*sql.Tx) error) error {
	if db.readOnly {
		return fmt.Errorf("%w: %s may not be changed by this user", ErrReadOnly, db.path)
	}
	var tx *sql.Tx
	err := patient(ctx, func() (err error) {
		tx, err = db.sql.BeginTx(ctx, nil)
		return err
	})
	if err != nil {
		return db.explain(err)
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return db.explain(err)
	}
	return db.explain(tx.Commit())
}

// explain turns SQLite's errors into messages for a person.
func (db *DB) explain(err error) error {
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return err
	}
	var damaged *DamagedError
	if errors.As(err, &damaged) {
		return err
	}
	if busy(err) {
		return fmt.Errorf("the history %s was in use by another process for more than %v: %w", db.path, BusyTimeout, err)
	}
	switch se.Code() & 0xff {
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return &DamagedError{db.path, errors.New(sqliteText(se))}
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return fmt.Errorf("%w: %s: %v", ErrReadOnly, db.path, err)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("no space left for the history %s: %w", db.path, unix.ENOSPC)
	case sqlite3.SQLITE_CANTOPEN:
		return fmt.Errorf("cannot open the history %s (is its folder there, and may you write to it?): %w", db.path, err)
	}
	return fmt.Errorf("history %s: %w", db.path, err)
}

func sqliteText(e *sqlite.Error) string {
	s, _, _ := strings.Cut(e.Error(), " (")
	return s
}

// Check reads the whole file and says what is wrong with it.
func (db *DB) Check(ctx context.Context) error {
	rows, err := db.sql.QueryContext(ctx, "PRAGMA integrity_check(5)")
	if err != nil {
		return db.explain(err)
	}
	defer rows.Close()
	var bad []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return db.explain(err)
		}
		if s != "ok" {
			bad = append(bad, strings.TrimSpace(s))
		}
	}
	if err := rows.Err(); err != nil {
		return db.explain(err)
	}
	if len(bad) > 0 {
		return &DamagedError{db.path, errors.New(strings.Join(bad, "; "))}
	}
	return nil
}

// MoveAside renames a history, with its log, so that a new one can be begun;
// the new name is returned. Only for when the user asked for it.
func MoveAside(path string, now time.Time) (string, error) {
	if _, err := os.Lstat(path); err != nil {
		return "", err
	}
	to := path + ".aside-" + now.UTC().Format("20060102-150405")
	if _, err := os.Lstat(to); err == nil {
		return "", fmt.Errorf("%s exists already", to)
	}
	for _, suffix := range []string{"-wal", "-shm", ""} {
		err := os.Rename(path+suffix, to+suffix)
		if err != nil && !(suffix != "" && errors.Is(err, fs.ErrNotExist)) {
			return "", err
		}
	}
	return to, nil
}
