// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"patchcheck/checks"
)

// State is where a nightly job, or one of its trees, stands.
type State string

// States of a job. Done has a verdict; the others say why there is none.
const (
	Waiting     State = "waiting"      // its turn has not come yet
	Running     State = "running"      // being run, or its process was killed
	Done        State = "done"         // it ran; the verdict says the rest
	Known       State = "known"        // tree, series, plan, configuration and compiler as before: the old answer holds
	Conflict    State = "conflict"     // the series no longer applies to the tree
	BaseBroken  State = "base-broken"  // the tree does not build without the series
	Hung        State = "hung"         // it did not end before the job's deadline
	FetchFailed State = "fetch-failed" // the tree or the series could not be fetched (network); nothing older was taken instead
	BadInput    State = "bad-input"    // tree, series or plan cannot be used as they are
	DiskFull    State = "disk-full"    // no room for it
	Left        State = "left"         // the night's time was used up
	Broken      State = "infra"        // our own failure: host, tool or image
	Interrupted State = "interrupted"  // the night was stopped while it ran
)

// States of a tree in a night, beside FetchFailed and BadInput.
const (
	TreeSame      State = "same"
	TreeNew       State = "new"       // it moved on
	TreeRewritten State = "rewritten" // forced update: the old tip is no longer part of it
)

// Final says that a job needs no further attempt in its night.
func (s State) Final() bool { return s != Waiting && s != Running && s != Interrupted && s != Left }

// Night is one run of the nightly job.
type Night struct {
	ID      string    `json:"id"` // "2026-12-01"; "2026-12-01.02" for the second of that UTC day
	Config  string    `json:"config"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	State   State     `json:"state"` // running, done, interrupted
	Summary string    `json:"summary,omitempty"`
}

// TreeState is what fetching a tree gave.
type TreeState struct {
	Tree   string `json:"tree"`
	State  State  `json:"state"`
	ID     string `json:"id,omitempty"`
	Tip    string `json:"tip,omitempty"`
	OldTip string `json:"old_tip,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Job is one tree, series and plan in one night.
type Job struct {
	Night    string         `json:"night"`
	Target   Target         `json:"target"`
	Position int            `json:"position"` // in the order of the night
	Key      string         `json:"job_key,omitempty"`
	State    State          `json:"state"`
	Verdict  checks.Verdict `json:"verdict,omitempty"` // of Run
	Run      string         `json:"run,omitempty"`     // that answers, also when it is an old one
	Detail   string         `json:"detail,omitempty"`
	Culprit  Culprit        `json:"culprit,omitzero"`
	Started  time.Time      `json:"started,omitzero"`
	Ended    time.Time      `json:"ended,omitzero"`
}

// Culprit is the patch of a series that brought a failure, and the cell that
// shows it.
type Culprit struct {
	Patch   int    `json:"patch"` // 1-based; 0: not known
	Subject string `json:"subject"`
	Cell    string `json:"cell"`
}

// BeginNight opens a night. An unfinished one of the same configuration that
// began less than resume ago is taken up again; older ones are closed as
// interrupted.
func (db *DB) BeginNight(ctx context.Context, config string, now time.Time, resume time.Duration) (n Night, resumed bool, err error) {
	err = db.write(ctx, func(tx *sql.Tx) error {
		old, err := scanNight(tx.QueryRowContext(ctx, nightColumns+" WHERE config = ? AND ended = 0 ORDER BY started DESC LIMIT 1", config))
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return err
		case now.Sub(old.Started) < resume:
			n, resumed = old, true
			_, err := tx.ExecContext(ctx, "UPDATE jobs SET state = ? WHERE night = ? AND state = ?", string(Interrupted), n.ID, string(Running))
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE nights SET state = ?, ended = ? WHERE config = ? AND ended = 0", string(Interrupted), ms(now), config); err != nil {
			return err
		}
		day := now.UTC().Format(time.DateOnly)
		n = Night{ID: day, Config: config, Started: now.UTC().Truncate(time.Millisecond), State: Running}
		for i := 2; ; i++ {
			var have int
			if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM nights WHERE id = ?", n.ID).Scan(&have); err != nil {
				return err
			}
			if have == 0 {
				break
			}
			n.ID = fmt.Sprintf("%s.%02d", day, i)
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO nights (id, config, started, ended, state, summary) VALUES (?, ?, ?, 0, ?, '')", n.ID, config, ms(now), string(Running))
		return err
	})
	return n, resumed, err
}

// EndNight closes a night.
func (db *DB) EndNight(ctx context.Context, id string, now time.Time, s State, summary string) error {
	return db.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE nights SET ended = ?, state = ?, summary = ? WHERE id = ?", ms(now), string(s), summary, id)
		return err
	})
}

const nightColumns = "SELECT id, config, started, ended, state, summary FROM nights"

func scanNight(s scanner) (Night, error) {
	var n Night
	var started, ended int64
	err := s.Scan(&n.ID, &n.Config, &started, &ended, (*string)(&n.State), &n.Summary)
	n.Started, n.Ended = unms(started), unms(ended)
	return n, err
}

// Nights lists the nights of a configuration ("" for all), newest first.
func (db *DB) Nights(ctx context.Context, config string, limit int) ([]Night, error) {
	q := nightColumns
	var args []any
	if config != "" {
		q, args = q+" WHERE config = ?", append(args, config)
	}
	q += " ORDER BY started DESC, id DESC"
	if limit > 0 {
		q += fmt.Sprintf(" LIMIT %d", limit)
	}
	var out []Night
	err := db.query(ctx, func(s scanner) error {
		n, err := scanNight(s)
		out = append(out, n)
		return err
	}, q, args...)
	return out, err
}

// SaveJob writes a job's state, in place of an earlier one of its night.
func (db *DB) SaveJob(ctx context.Context, j Job) error {
	return db.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO jobs (night, tree, series, plan, position, job_key, state, verdict, run_id, detail,
			culprit, culprit_subject, culprit_cell, started, ended) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			j.Night, j.Target.Tree, j.Target.Series, j.Target.Plan, j.Position, j.Key, string(j.State), string(j.Verdict), j.Run, j.Detail,
			j.Culprit.Patch, j.Culprit.Subject, j.Culprit.Cell, ms(j.Started), ms(j.Ended))
		return err
	})
}

const jobColumns = `SELECT night, tree, series, plan, position, job_key, state, verdict, run_id, detail, culprit, culprit_subject, culprit_cell, started, ended FROM jobs`

func scanJob(s scanner) (Job, error) {
	var j Job
	var started, ended int64
	err := s.Scan(&j.Night, &j.Target.Tree, &j.Target.Series, &j.Target.Plan, &j.Position, &j.Key, (*string)(&j.State), (*string)(&j.Verdict), &j.Run, &j.Detail,
		&j.Culprit.Patch, &j.Culprit.Subject, &j.Culprit.Cell, &started, &ended)
	j.Started, j.Ended = unms(started), unms(ended)
	return j, err
}

// Jobs lists the jobs of a night in their order.
func (db *DB) Jobs(ctx context.Context, night string) ([]Job, error) {
	var out []Job
	err := db.query(ctx, func(s scanner) error {
		j, err := scanJob(s)
		out = append(out, j)
		return err
	}, jobColumns+" WHERE night = ? ORDER BY position, tree, series, plan", night)
	return out, err
}

// JobsOf lists the jobs of a target over all nights, newest first.
func (db *DB) JobsOf(ctx context.Context, t Target, limit int) ([]Job, error) {
	q := jobColumns + " WHERE tree = ? AND series = ? AND plan = ? ORDER BY night DESC"
	if limit > 0 {
		q += fmt.Sprintf(" LIMIT %d", limit)
	}
	var out []Job
	err := db.query(ctx, func(s scanner) error {
		j, err := scanJob(s)
		out = append(out, j)
		return err
	}, q, t.Tree, t.Series, t.Plan)
	return out, err
}

// SaveTree writes what fetching a tree gave in a night.
func (db *DB) SaveTree(ctx context.Context, night string, t TreeState) error {
	return db.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO trees (night, tree, state, id, tip, old_tip, detail) VALUES (?, ?, ?, ?, ?, ?, ?)",
			night, t.Tree, string(t.State), t.ID, t.Tip, t.OldTip, t.Detail)
		return err
	})
}

// Trees lists the trees of a night.
func (db *DB) Trees(ctx context.Context, night string) ([]TreeState, error) {
	var out []TreeState
	err := db.query(ctx, func(s scanner) error {
		var t TreeState
		err := s.Scan(&t.Tree, (*string)(&t.State), &t.ID, &t.Tip, &t.OldTip, &t.Detail)
		out = append(out, t)
		return err
	}, "SELECT tree, state, id, tip, old_tip, detail FROM trees WHERE night = ? ORDER BY tree", night)
	return out, err
}

// LastTree is the newest state of a tree, before the given night, in which it
// was fetched; ErrUnknown when it never was.
func (db *DB) LastTree(ctx context.Context, tree, before string) (TreeState, error) {
	var t TreeState
	err := db.sql.QueryRowContext(ctx, "SELECT tree, state, id, tip, old_tip, detail FROM trees WHERE tree = ? AND night < ? AND tip <> '' ORDER BY night DESC LIMIT 1", tree, before).
		Scan(&t.Tree, (*string)(&t.State), &t.ID, &t.Tip, &t.OldTip, &t.Detail)
	if errors.Is(err, sql.ErrNoRows) {
		return t, ErrUnknown
	}
	return t, db.explain(err)
}
