// SPDX-License-Identifier: Apache-2.0

package history

// applicationID marks the file as ours (SQLite's PRAGMA application_id): the
// bytes "pchk".
const applicationID = 0x7063686b

// migrations lead from one version of the schema to the next; the file's
// version (PRAGMA user_version) is how many of them were applied. Never change
// one that was released: append.
//
// docs/history.md describes every table for people who write queries.
var migrations = []string{
	// 1: the first schema.
	`
CREATE TABLE runs (
  n               INTEGER PRIMARY KEY,
  id              TEXT NOT NULL UNIQUE,
  dir             TEXT NOT NULL,
  night           TEXT NOT NULL,
  started         INTEGER NOT NULL,
  ended           INTEGER NOT NULL,
  tree            TEXT NOT NULL,
  series          TEXT NOT NULL,
  plan            TEXT NOT NULL,
  job_key         TEXT NOT NULL,
  verdict         TEXT NOT NULL,
  reason          TEXT NOT NULL,
  tree_id         TEXT NOT NULL,
  tree_version    TEXT NOT NULL,
  tree_commit     TEXT NOT NULL,
  series_id       TEXT NOT NULL,
  series_title    TEXT NOT NULL,
  series_version  INTEGER NOT NULL,
  plan_id         TEXT NOT NULL,
  kernel_base     TEXT NOT NULL,
  kernel_patched  TEXT NOT NULL,
  built           INTEGER NOT NULL,
  executed        INTEGER NOT NULL
);
CREATE INDEX runs_target ON runs (tree, series, plan, started);
CREATE INDEX runs_job_key ON runs (job_key) WHERE job_key <> '';
CREATE INDEX runs_night ON runs (night);

CREATE TABLE cell_names (
  n       INTEGER PRIMARY KEY,
  id      TEXT NOT NULL UNIQUE,
  kernel  TEXT NOT NULL,
  device  TEXT NOT NULL,
  nfs     TEXT NOT NULL
);

CREATE TABLE cells (
  run         INTEGER NOT NULL REFERENCES runs (n) ON DELETE CASCADE,
  cell        INTEGER NOT NULL REFERENCES cell_names (n),
  verdict     TEXT NOT NULL,
  signature   TEXT NOT NULL,
  reason      TEXT NOT NULL,
  key         TEXT NOT NULL,
  reused      TEXT NOT NULL,
  attempts    INTEGER NOT NULL,
  work_ms     INTEGER NOT NULL,
  elapsed_ms  INTEGER NOT NULL,
  quarantined INTEGER NOT NULL,
  PRIMARY KEY (run, cell)
) WITHOUT ROWID;
CREATE INDEX cells_cell ON cells (cell, run);
CREATE INDEX cells_key ON cells (key);

CREATE TABLE attempts (
  run         INTEGER NOT NULL REFERENCES runs (n) ON DELETE CASCADE,
  cell        INTEGER NOT NULL REFERENCES cell_names (n),
  attempt     INTEGER NOT NULL,
  guest       TEXT NOT NULL,
  kernel      TEXT NOT NULL,
  accel       TEXT NOT NULL,
  fresh       INTEGER NOT NULL,
  verdict     TEXT NOT NULL,
  started     INTEGER NOT NULL,
  work_ms     INTEGER NOT NULL,
  elapsed_ms  INTEGER NOT NULL,
  PRIMARY KEY (run, cell, attempt)
) WITHOUT ROWID;

CREATE TABLE value_names (
  n     INTEGER PRIMARY KEY,
  name  TEXT NOT NULL UNIQUE
);

CREATE TABLE counts (
  cell   INTEGER NOT NULL REFERENCES cell_names (n),
  name   INTEGER NOT NULL REFERENCES value_names (n),
  run    INTEGER NOT NULL REFERENCES runs (n) ON DELETE CASCADE,
  value  INTEGER NOT NULL,
  PRIMARY KEY (cell, name, run)
) WITHOUT ROWID;
CREATE INDEX counts_run ON counts (run);

CREATE TABLE findings (
  run       INTEGER NOT NULL REFERENCES runs (n) ON DELETE CASCADE,
  nth       INTEGER NOT NULL,
  cell      TEXT NOT NULL,
  id        TEXT NOT NULL,
  severity  TEXT NOT NULL,
  patch     INTEGER NOT NULL,
  file      TEXT NOT NULL,
  line      INTEGER NOT NULL,
  message   TEXT NOT NULL,
  PRIMARY KEY (run, nth)
) WITHOUT ROWID;
CREATE INDEX findings_id ON findings (id);

CREATE TABLE steps (
  run         INTEGER NOT NULL REFERENCES runs (n) ON DELETE CASCADE,
  nth         INTEGER NOT NULL,
  name        TEXT NOT NULL,
  status      TEXT NOT NULL,
  detail      TEXT NOT NULL,
  started     INTEGER NOT NULL,
  elapsed_ms  INTEGER NOT NULL,
  PRIMARY KEY (run, nth)
) WITHOUT ROWID;

CREATE TABLE builds (
  run         INTEGER NOT NULL REFERENCES runs (n) ON DELETE CASCADE,
  patch       INTEGER NOT NULL,
  ok          INTEGER NOT NULL,
  reused      INTEGER NOT NULL,
  objects     INTEGER NOT NULL,
  warnings    INTEGER NOT NULL,
  elapsed_ms  INTEGER NOT NULL,
  PRIMARY KEY (run, patch)
) WITHOUT ROWID;

CREATE TABLE patches (
  run      INTEGER NOT NULL REFERENCES runs (n) ON DELETE CASCADE,
  patch    INTEGER NOT NULL,
  id       TEXT NOT NULL,
  subject  TEXT NOT NULL,
  PRIMARY KEY (run, patch)
) WITHOUT ROWID;

CREATE TABLE versions (
  run      INTEGER NOT NULL REFERENCES runs (n) ON DELETE CASCADE,
  what     TEXT NOT NULL,
  version  TEXT NOT NULL,
  PRIMARY KEY (run, what)
) WITHOUT ROWID;

CREATE TABLE nights (
  id       TEXT PRIMARY KEY,
  config   TEXT NOT NULL,
  started  INTEGER NOT NULL,
  ended    INTEGER NOT NULL,
  state    TEXT NOT NULL,
  summary  TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX nights_started ON nights (started);

CREATE TABLE trees (
  night       TEXT NOT NULL REFERENCES nights (id) ON DELETE CASCADE,
  tree        TEXT NOT NULL,
  state       TEXT NOT NULL,
  id          TEXT NOT NULL,
  tip         TEXT NOT NULL,
  old_tip     TEXT NOT NULL,
  detail      TEXT NOT NULL,
  PRIMARY KEY (night, tree)
) WITHOUT ROWID;

CREATE TABLE jobs (
  night       TEXT NOT NULL REFERENCES nights (id) ON DELETE CASCADE,
  tree        TEXT NOT NULL,
  series      TEXT NOT NULL,
  plan        TEXT NOT NULL,
  position    INTEGER NOT NULL,
  job_key     TEXT NOT NULL,
  state       TEXT NOT NULL,
  verdict     TEXT NOT NULL,
  run_id      TEXT NOT NULL,
  detail      TEXT NOT NULL,
  culprit     INTEGER NOT NULL,
  culprit_subject TEXT NOT NULL,
  culprit_cell    TEXT NOT NULL,
  started     INTEGER NOT NULL,
  ended       INTEGER NOT NULL,
  PRIMARY KEY (night, tree, series, plan)
) WITHOUT ROWID;
CREATE INDEX jobs_target ON jobs (tree, series, plan);
`,
}

// SchemaVersion is the version of the schema that this program writes.
var SchemaVersion = len(migrations)
