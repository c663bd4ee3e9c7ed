"""The versions of class.sqlite: `PRAGMA user_version` says which one a file is.

Each step leads from one version to the next, in one transaction with the number. A step is never
changed once it is out: files of its version exist.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

SCHEMA = Path(__file__).with_name("schema.sql")

Step = Callable[[sqlite3.Connection], None]


def _first(database: sqlite3.Connection) -> None:
    for statement in statements(SCHEMA.read_text(encoding="utf-8")):
        database.execute(statement)


STEPS: tuple[Step, ...] = (_first,)


def version_of(database: sqlite3.Connection) -> int:
    """The version of a file; 0 for one that is empty."""
    return database.execute("PRAGMA user_version").fetchone()[0]


def migrate(database: sqlite3.Connection, steps: Sequence[Step] = STEPS) -> None:
    """Bring a file to the newest version; nothing has happened where a step fails.

    Raises sqlite3.Error.
    """
    for number, step in enumerate(steps, start=1):
        if number <= version_of(database):
            continue
        database.execute("BEGIN IMMEDIATE")
        try:
            if number > version_of(database):  # another process may have been first
                step(database)
                database.execute(f"PRAGMA user_version = {number}")
            database.execute("COMMIT")
        except BaseException:
            database.execute("ROLLBACK")
            raise


def statements(script: str) -> list[str]:
    """The statements of an SQL script (`executescript` would end the transaction)."""
    found, part = [], ""
    for line in script.splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            found.append(part)
            part = ""
    return found
