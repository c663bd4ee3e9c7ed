BEGIN TRANSACTION;
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
INSERT INTO "adjustments" VALUES(1,'1','points','typo','',2.0,'ta','2026-11-20T12:00:00+00:00',NULL);
CREATE TABLE class (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  seed INTEGER NOT NULL,
  created TEXT NOT NULL
) STRICT;
INSERT INTO "class" VALUES(1,7,'2026-11-24T18:36:34+00:00');
CREATE TABLE contents (
  sha256 TEXT PRIMARY KEY,
  bytes BLOB NOT NULL
) STRICT;
INSERT INTO "contents" VALUES('26c51c18534b0329b8d189b421d6e2a241e0211efec13e61a1ec94723f46cfa4',X'232073696C750A');
CREATE TABLE documents (
  name TEXT PRIMARY KEY,          -- 'course' or 'roster'
  path TEXT NOT NULL,             -- where it was read; read there again as long as it is there
  content BLOB NOT NULL,
  taken TEXT NOT NULL
) STRICT;
CREATE TABLE environments (
  number INTEGER PRIMARY KEY,
  json TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO "environments" VALUES(1,'{"device": "interpreter", "gpu": null, "sandbox": "landlock", "warpgrade": "0.1.0"}');
CREATE TABLE files (
  handin INTEGER NOT NULL REFERENCES handins,
  name TEXT NOT NULL,
  sha256 TEXT NOT NULL REFERENCES contents,
  PRIMARY KEY (handin, name)
) STRICT;
INSERT INTO "files" VALUES(1,'silu.py','26c51c18534b0329b8d189b421d6e2a241e0211efec13e61a1ec94723f46cfa4');
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
INSERT INTO "handins" VALUES(1,'ada','[{"id": "1", "name": "Ada", "email": "", "login": ""}]','2026-11-20T12:00:00+00:00',0,'da3c44527a1d703bf75197b8f2a140b88b24743ea5d8f285c81538e1e8db64f6','','[]','in',1,NULL,0);
INSERT INTO "handins" VALUES(2,'bob','[{"id": "2", "name": "Bob", "email": "", "login": ""}]','2026-11-20T12:00:00+00:00',0,'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855','','[]','in',1,NULL,0);
CREATE TABLE results (
  number INTEGER PRIMARY KEY,
  key TEXT NOT NULL,              -- grader/batch/keys.py
  exercise TEXT NOT NULL,
  variant TEXT NOT NULL,
  file_sha256 TEXT NOT NULL,      -- '' where the file wasn't handed in
  seed INTEGER NOT NULL,
  device TEXT NOT NULL,           -- 'interpreter', or the GPU's name
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
INSERT INTO "results" VALUES(1,'516a91a7723c1d437fb2c4cf678af6a41e91ae2d97452c302b0aa68d98c3fb37','silu','triton','26c51c18534b0329b8d189b421d6e2a241e0211efec13e61a1ec94723f46cfa4',7,'interpreter',0,'passed','{"exercise":"silu","variant":"triton","file":"silu.py","sha256":"26c51c18534b0329b8d189b421d6e2a241e0211efec13e61a1ec94723f46cfa4","not_attempted":"","parts":[{"dtype":"float32","size_class":"ragged","status":"passed","cases_run":3,"cases_failed":0,"failures":[],"reason":"","seconds":0.0,"printed":null,"notes":[]}],"performance":{"status":"passed","reason":"","device":"","case":"","microseconds":10.0,"microseconds_low":null,"microseconds_high":null,"bytes":null,"flops":null,"samples":0,"voids":{},"budget_ended":false,"disturbed":"","earlier":[],"accepted":false,"machine":{},"kernels":[],"unlisted":"","yardsticks":[{"name":"copy","microseconds":9.0,"ratio":0.9,"low":null,"high":null}],"further":[]},"rules_lifted":false,"memory":{"status":"passed","reason":"","case":"","metrics":[{"name":"useful_bytes_per_sector.load","value":32.0,"counters":""}],"lines":[],"observed_by":"worker","run":"","notes":[],"further":[]}}',0,0,1,1,0.0,0.0,'2026-11-24T18:36:34+00:00',NULL);
INSERT INTO "results" VALUES(2,'0c65a083b94d231aa131b66df59e8492156929cb6d7fa5c1f2240cc8303c5ec7','silu','triton','',7,'interpreter',0,'not_attempted','{"exercise":"silu","variant":"triton","file":"silu.py","sha256":"","not_attempted":"there is no silu.py","parts":[],"performance":null,"rules_lifted":false,"memory":null}',0,0,1,1,0.0,0.0,'2026-11-24T18:36:34+00:00',NULL);
CREATE TABLE runs (
  number INTEGER PRIMARY KEY,
  command TEXT NOT NULL,
  version TEXT NOT NULL,          -- of the grader
  environment TEXT NOT NULL,      -- JSON, of the machine that ran the command
  started TEXT NOT NULL,
  ended TEXT                      -- NULL: it runs, or was cut off
) STRICT;
INSERT INTO "runs" VALUES(1,'grader batch in --out out','0.1.0','{"device": "interpreter", "gpu": null, "sandbox": "landlock", "warpgrade": "0.1.0"}','2026-11-24T18:36:34+00:00','2026-11-24T18:36:34+00:00');
CREATE TABLE scores (             -- of the attempt that counts, by the same gradebook
  student TEXT NOT NULL REFERENCES standings ON DELETE CASCADE,
  exercise TEXT NOT NULL,
  variant TEXT NOT NULL,
  status TEXT NOT NULL,
  score REAL NOT NULL,
  gradable REAL NOT NULL,
  max_score REAL NOT NULL,
  is_bonus INTEGER NOT NULL,
  PRIMARY KEY (student, exercise, variant)
) STRICT;
CREATE TABLE standings (          -- by the gradebook that was written last
  student TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  score REAL,                     -- final; NULL where there is none
  raw REAL,                       -- of the attempt that counts
  handin TEXT NOT NULL,           -- its id, or ''
  device TEXT NOT NULL,
  written TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX one_current_handin ON handins (id) WHERE superseded_by IS NULL;
CREATE UNIQUE INDEX one_current_result ON results (key) WHERE superseded IS NULL;
CREATE TRIGGER adjustments_stay BEFORE UPDATE ON adjustments
BEGIN SELECT RAISE(ABORT, 'adjustments are never changed: undo one by another'); END;
CREATE TRIGGER adjustments_are_kept BEFORE DELETE ON adjustments
BEGIN SELECT RAISE(ABORT, 'adjustments are never removed: undo one by another'); END;
COMMIT;
PRAGMA user_version = 2;
