"""The hand-ins of a class, with the bytes of their files: every one that was ever collected."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from grader.batch.course.records import Handin, Member
from grader.batch.store.database import Database, as_text, insert


@dataclass(frozen=True)
class StoredHandin:
    """A hand-in as the store has it; `is_current` until a later one has the same id."""

    number: int
    handin: Handin
    hashes: Mapping[str, str]  # of its files, by name
    is_current: bool
    is_gone: bool


class HandinTable:
    """The tables handins, files and contents."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, handins: Iterable[Handin], source: str, run: int) -> None:
        """Take in what was collected from `source`, all of it or nothing.

        An id that isn't text is stored with its odd bytes written out.

        A hand-in with the id of an earlier one and other files takes its place; the earlier one
        stays, with its results. What is no longer in the same source is marked as gone.
        """
        source = as_text(source)
        with self._database.transaction() as connection:
            collected = set()
            for handin in handins:
                collected.add(as_text(handin.id))
                _keep(connection, handin, source, run)
            known = connection.execute(
                "SELECT number, id FROM handins WHERE source = ? AND superseded_by IS NULL",
                (source,),
            ).fetchall()
            for number, name in known:
                gone = int(name not in collected)
                connection.execute("UPDATE handins SET gone = ? WHERE number = ?", (gone, number))

    def all(self) -> list[StoredHandin]:
        """Every hand-in ever collected, in the order in which they came, without their bytes."""
        hashes: dict[int, dict[str, str]] = {}
        for number, name, sha256 in self._database.rows("SELECT handin, name, sha256 FROM files"):
            hashes.setdefault(number, {})[name] = sha256
        rows = self._database.rows(
            "SELECT number, id, members, submitted_at, marked_late, problem, notes, "
            "superseded_by, gone FROM handins ORDER BY number"
        )
        return [self._read(row, hashes.get(row[0], {})) for row in rows]

    def files(self, number: int) -> dict[str, bytes]:
        """The files of a hand-in, by name."""
        rows = self._database.rows(
            "SELECT name, bytes FROM files JOIN contents USING (sha256) WHERE handin = ? "
            "ORDER BY name",
            (number,),
        )
        return dict(rows)

    def _read(self, row: tuple[Any, ...], hashes: Mapping[str, str]) -> StoredHandin:
        number, name, members, at, late, problem, notes, superseded, gone = row
        with self._database.reading(f"hand-in {number}"):
            handin = Handin(
                id=name,
                members=tuple(_member(**member) for member in json.loads(members)),
                submitted_at=datetime.fromisoformat(at) if at else None,
                marked_late=bool(late),
                problem=problem,
                notes=tuple(map(as_text, json.loads(notes))),
            )
        is_current = superseded is None
        return StoredHandin(number, handin, hashes, is_current=is_current, is_gone=bool(gone))


def _member(**columns: str) -> Member:
    for column, text in columns.items():
        if not isinstance(text, str):
            raise TypeError(f"{column} of a member isn't text")
        text.encode()  # a half of a surrogate pair can be stored in JSON, and nowhere else
    return Member(**columns)


def _keep(connection: sqlite3.Connection, handin: Handin, source: str, run: int) -> None:
    current = connection.execute(
        "SELECT number, files_sha256 FROM handins WHERE id = ? AND superseded_by IS NULL",
        (as_text(handin.id),),
    ).fetchone()
    details = {
        "members": json.dumps([asdict(member) for member in handin.members]),
        "submitted_at": handin.submitted_at.isoformat() if handin.submitted_at else None,
        "marked_late": int(handin.marked_late),
        "problem": as_text(handin.problem),
        "notes": json.dumps(handin.notes),
        "source": source,
    }
    if current and current[1] == handin.sha256:
        assigned = ", ".join(f"{column} = :{column}" for column in details)
        connection.execute(
            f"UPDATE handins SET {assigned}, gone = 0 WHERE number = :number",
            {**details, "number": current[0]},
        )
        return
    [number] = connection.execute("SELECT coalesce(max(number), 0) + 1 FROM handins").fetchone()
    if current:
        # The row it points at comes next: the reference is looked at when all is done.
        connection.execute("PRAGMA defer_foreign_keys = ON")
        connection.execute(
            "UPDATE handins SET superseded_by = ? WHERE number = ?", (number, current[0])
        )
    named = {"number": number, "id": as_text(handin.id), "files_sha256": handin.sha256, "run": run}
    insert(connection, "handins", **named, **details)
    for name, data in handin.files.items():
        sha256 = hashlib.sha256(data).hexdigest()
        connection.execute("INSERT OR IGNORE INTO contents VALUES (?, ?)", (sha256, data))
        connection.execute("INSERT INTO files VALUES (?, ?, ?)", (number, name, sha256))
