-- Version 1 of class.sqlite. Later versions are steps from here: migrations.py.
-- Times are ISO 8601 with their offset from UTC. docs/batch.md says the same in words.

CREATE TABLE class (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  seed INTEGER NOT NULL,
  created TEXT NOT NULL
) STRICT;

CREATE TABLE runs (
  number INTEGER PRIMARY KEY,
  command TEXT NOT NULL,
  version TEXT NOT NULL,          -- of the grader
  environment TEXT NOT NULL,      -- JSON, of the machine that ran the command
  started TEXT NOT NULL,
  ended TEXT                      -- NULL: it runs, or was cut off
) STRICT;

CREATE TABLE handins (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL,               -- within its source; several rows are versions, the last counts
  members TEXT NOT NULL,          -- JSON: [{"id", "name", "email", "login"}]
  submitted_at TEXT,              -- by the platform's clock
  marked_late INTEGER NOT NULL,
  files_sha256 TEXT NOT NULL,     -- of all names and bytes
  problem TEXT NOT NULL,          -- why nothing could be read, or ''
  notes TEXT NOT NULL,            -- JSON: a list of lines
  source TEXT NOT NULL,           -- the folder or archive it was collected from
  run INTEGER NOT NULL REFERENCES runs,
  superseded_by INTEGER REFERENCES handins,
  gone INTEGER NOT NULL DEFAULT 0 -- 1: the last collection of its source didn't have it
) STRICT;
CREATE UNIQUE INDEX one_current_handin ON handins (id) WHERE superseded_by IS NULL;

CREATE TABLE contents (
  sha256 TEXT PRIMARY KEY,
  bytes BLOB NOT NULL
) STRICT;

CREATE TABLE files (
  handin INTEGER NOT NULL REFERENCES handins,
  name TEXT NOT NULL,
  sha256 TEXT NOT NULL REFERENCES contents,
  PRIMARY KEY (handin, name)
) STRICT;

CREATE TABLE environments (
  number INTEGER PRIMARY KEY,
  json TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE results (
  number INTEGER PRIMARY KEY,
  key TEXT NOT NULL,              -- grader/batch/store/keys.py
  exercise TEXT NOT NULL,
  variant TEXT NOT NULL,
  file_sha256 TEXT NOT NULL,      -- '' where the file wasn't handed in
  seed INTEGER NOT NULL,
  device TEXT NOT NULL,           -- 'cpu', or the GPU's name
  rules_lifted INTEGER NOT NULL,
  status TEXT NOT NULL,           -- of correctness
  evidence TEXT NOT NULL,         -- JSON: grader/evidence.py, VariantEvidence
  grader_failed INTEGER NOT NULL, -- 1: it is tried again
  to_measure INTEGER NOT NULL,    -- 1: what takes the whole GPU is still to be done
  environment INTEGER NOT NULL REFERENCES environments,
  run INTEGER NOT NULL REFERENCES runs,
  seconds REAL NOT NULL,
  gpu_seconds REAL NOT NULL DEFAULT 0,
  stored TEXT NOT NULL,
  superseded TEXT                 -- when a later result took its place
) STRICT;
CREATE UNIQUE INDEX one_current_result ON results (key) WHERE superseded IS NULL;

CREATE TABLE adjustments (        -- rows are only ever added
  number INTEGER PRIMARY KEY,
  student TEXT NOT NULL,
  kind TEXT NOT NULL,
  reason TEXT NOT NULL,
  only_name TEXT NOT NULL,
  points REAL NOT NULL,
  made_by TEXT NOT NULL,
  made_at TEXT NOT NULL,
  undoes INTEGER UNIQUE REFERENCES adjustments
) STRICT;
CREATE TRIGGER adjustments_stay BEFORE UPDATE ON adjustments
BEGIN SELECT RAISE(ABORT, 'adjustments are never changed: undo one by another'); END;
CREATE TRIGGER adjustments_are_kept BEFORE DELETE ON adjustments
BEGIN SELECT RAISE(ABORT, 'adjustments are never removed: undo one by another'); END;
