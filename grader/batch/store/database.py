"""A class's SQLite file: opened, migrated, read and written in transactions.

Whatever SQLite or the file system say becomes a Mistake that says what to do.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from grader.batch.store import migrations
from grader.mistakes import Mistake
from grader.sandbox.untrusted import brief

BUSY_SECONDS = 20.0
LITTLE_SPACE = 1 << 20  # bytes free: an error of the file system's is put down to that
FULL = "the disk is full. All that is stored is safe: make room, and the same command goes on"
BUSY = "another program is using it: wait for it or close it, then give the same command again"


class Database:
    """One SQLite file of a class, at the newest version. Not for several threads."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        """Open a file; `create` makes its folder where there is none.

        Raises Mistake where it is another program's, a newer grader's or damaged, and where it
        can't be written.
        """
        self.path = path
        with self._explained():
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            with self._explained():
                self._begin()
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Bring everything into the one file, and let go of it."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write all or nothing; other processes that write wait meanwhile. Raises Mistake."""
        with self._explained():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    def write(self, query: str, values: Sequence[Any] = ()) -> None:
        """One statement in a transaction of its own."""
        with self.transaction() as connection:
            connection.execute(query, values)

    def insert(self, table: str, **values: Any) -> int:
        """Insert a row in a transaction of its own; returns its number."""
        with self.transaction() as connection:
            return insert(connection, table, **values)

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query. Raises Mistake."""
        with self._explained():
            return self._connection.execute(query, values).fetchall()

    def row(self, query: str, values: Sequence[Any] = ()) -> Any:
        """The first row of a query, or None. Raises Mistake."""
        with self._explained():
            return self._connection.execute(query, values).fetchone()

    @contextlib.contextmanager
    def reading(self, row: str) -> Iterator[None]:
        """Turn what the columns of a damaged row raise into a Mistake that names the row."""
        try:
            yield
        except (ArithmeticError, AttributeError, RecursionError, TypeError, ValueError) as error:
            raise Mistake(f"{self.path}: {row}: {_damaged(error)}") from None

    def _begin(self) -> None:
        version = migrations.version_of(self._connection)
        if version > len(migrations.STEPS):
            raise Mistake(
                f"{self.path}: written by a newer grader (version {version} of the file; this "
                f"grader knows versions up to {len(migrations.STEPS)}): update the grader"
            )
        is_empty = not self._connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        if version == 0 and not is_empty:
            raise Mistake(f"{self.path}: not a class's results: another program wrote it")
        self._connection.execute("PRAGMA journal_mode = WAL")
        # A result is on the disk once it is stored.
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA foreign_keys = ON")
        migrations.migrate(self._connection)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of SQLite and the file system into a Mistake that says what to do."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise Mistake(f"{self.path}: {_why(self.path, error)}") from error


def _why(path: Path, error: Exception) -> str:
    said = str(error)
    if "full" in said or "No space" in said or _has_no_space(path.parent):
        return FULL
    if "locked" in said or "busy" in said:
        return BUSY
    if "not a database" in said or "malformed" in said:
        return f"{_damaged(error)}, or rescue what is in it with `sqlite3 {path.name} .recover`"
    if "readonly" in said or "unable to open" in said or isinstance(error, PermissionError):
        return "it can't be written: give yourself the right to it and its folder"
    if isinstance(error, OSError):
        return f"{error.strerror or said}"
    return f"SQLite says: {said}"


def _damaged(error: Exception) -> str:
    return f"it is damaged ({brief(str(error), 120)}): put a backup in its place"


def _has_no_space(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < LITTLE_SPACE
    except OSError:
        return False


def insert(connection: sqlite3.Connection, table: str, **values: Any) -> int:
    """Insert a row, its columns by name; returns its number."""
    columns, places = ", ".join(values), ", ".join("?" * len(values))
    query = f"INSERT INTO {table} ({columns}) VALUES ({places})"
    return connection.execute(query, tuple(values.values())).lastrowid or 0


def as_text(value: object) -> str:
    """A name as text that can be stored, whatever bytes it is made of."""
    return str(value).encode("utf-8", "backslashreplace").decode()


def now() -> str:
    """The time as the store notes it: ISO 8601, UTC, whole seconds."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
