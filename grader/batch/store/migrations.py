"""The versions of class.sqlite: `PRAGMA user_version` says which one a file is.

Each step is an SQL script that leads from one version to the next, in one transaction with the
number. A step is never changed once it is out: files of its version exist.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

SCHEMA = Path(__file__).with_name("schema.sql")

# The course and the roster are kept; so are the scores that were written out last.
_SECOND = """
CREATE TABLE documents (
  name TEXT PRIMARY KEY,          -- 'course' or 'roster'
  path TEXT NOT NULL,             -- where it was read; read there again as long as it is there
  content BLOB NOT NULL,
  taken TEXT NOT NULL
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
"""

# Results without a GPU were named after Triton's interpreter, which grades nothing any more.
_THIRD = """
UPDATE results SET device = 'cpu' WHERE device = 'interpreter';
UPDATE standings SET device = 'cpu' WHERE device = 'interpreter';
"""

STEPS = (SCHEMA.read_text(encoding="utf-8"), _SECOND, _THIRD)


def version_of(database: sqlite3.Connection) -> int:
    """The version of a file; 0 for one that is empty."""
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def migrate(database: sqlite3.Connection) -> None:
    """Bring a file to the newest version; nothing has happened where a step fails.

    Raises sqlite3.Error.
    """
    for number, step in enumerate(STEPS, start=1):
        if number <= version_of(database):
            continue
        database.execute("BEGIN IMMEDIATE")
        try:
            if number > version_of(database):  # another process may have been first
                for statement in statements(step):
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {number}")
            database.execute("COMMIT")
        except BaseException:
            database.execute("ROLLBACK")
            raise


def statements(script: str) -> list[str]:
    """The statements of an SQL script (`executescript` would end the transaction)."""
    complete, part = [], ""
    for line in script.splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            complete.append(part)
            part = ""
    return complete
