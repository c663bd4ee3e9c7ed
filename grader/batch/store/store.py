"""RESULTS/class.sqlite, the one file with everything about a class.

It holds the hand-ins with their bytes, the results and people's decisions. Each result is written
in a transaction of its own. Scores follow from results and specs, so the file has only those that
were written out last. docs/batch.md describes the tables; migrations.py brings a file up to date.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grader.batch.course.records import Gradebook
from grader.batch.store.adjustments import AdjustmentTable
from grader.batch.store.database import Database, as_text, insert, now
from grader.batch.store.handins import HandinTable
from grader.batch.store.results import ResultTable
from grader.mistakes import Mistake

NAME = "class.sqlite"
_LONGEST_NAME = 255  # bytes of a file's


class Store:
    """One class's file. A context manager; not for several threads.

    `handins`, `results` and `adjustments` are its large tables; what is kept of the class itself,
    of runs, documents and standings has methods here.
    """

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        """Open RESULTS/class.sqlite, brought to the newest version.

        Raises Mistake where there is none (unless `create`), where it is another program's, a
        newer grader's or damaged, and where it can't be written.
        """
        if not create:
            self.expect(folder)
        self._database = Database(folder / NAME, create=create)
        self.path = self._database.path
        self.handins = HandinTable(self._database)
        self.results = ResultTable(self._database)
        self.adjustments = AdjustmentTable(self._database)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def expect(folder: Path) -> Path:
        """The folder, in which there is a class's store. Raises Mistake where there is none."""
        if not (folder / NAME).is_file():
            raise Mistake(
                f"{folder / NAME}: not found; expected the folder that `grader batch --out` wrote"
            )
        if not (folder / NAME).stat().st_size:
            raise Mistake(
                f"{folder / NAME}: expected a class, got an empty file: put a backup in its place, "
                "or grade the class again with `grader batch`"
            )
        return folder

    def close(self) -> None:
        """Bring everything into the one file, and let go of it."""
        self._database.close()

    @property
    def seed(self) -> int | None:
        """The class's seed; None before its first run."""
        row = self._database.row("SELECT seed FROM class")
        return row[0] if row else None

    def set_seed(self, seed: int) -> int:
        """Give the class its seed, once; returns the one it has."""
        self._database.write("INSERT OR IGNORE INTO class VALUES (1, ?, ?)", (seed, now()))
        [stored] = self._database.row("SELECT seed FROM class")
        return int(stored)

    def begin_run(self, command: str, version: str, environment: Mapping[str, Any]) -> int:
        """Note that a command works on the class; its number is what results refer to."""
        text = json.dumps(environment)
        return self._database.insert(
            "runs", command=command, version=version, environment=text, started=now()
        )

    @property
    def has_run(self) -> bool:
        """Whether a command has begun to work on the class."""
        return bool(self._database.row("SELECT EXISTS (SELECT 1 FROM runs)")[0])

    def end_run(self, run: int) -> None:
        """Note that a run came to its end."""
        self._database.write("UPDATE runs SET ended = ? WHERE number = ?", (now(), run))

    def document(self, name: str) -> tuple[Path, bytes] | None:
        """The course or the roster: where it was read, and its bytes then."""
        row = self._database.row("SELECT path, content FROM documents WHERE name = ?", (name,))
        if row is None:
            return None
        with self._database.reading(f"document {name}"):
            if "\0" in row[0]:
                raise ValueError("a path with a zero byte in it")
            path = Path(row[0])
            if path.name in ("", "..") or len(path.name.encode()) > _LONGEST_NAME:
                raise ValueError("a path that can't be a file's")
        return path, row[1]

    def keep_document(self, name: str, path: Path, content: bytes) -> None:
        """Keep the course or the roster as it is now."""
        values = (name, as_text(path), content, now())
        self._database.write("INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?)", values)

    def standings(self) -> dict[str, tuple[str, float | None]]:
        """Name and final score as they were written out last, by student; None for no score."""
        rows = self._database.rows("SELECT student, name, score FROM standings ORDER BY student")
        return {student: (name, score) for student, name, score in rows}

    def keep_standings(self, book: Gradebook) -> None:
        """Keep the scores of a gradebook, in place of the last one's."""
        written = now()
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM scores")
            connection.execute("DELETE FROM standings")
            for entry in book.entries:
                insert(
                    connection,
                    "standings",
                    student=entry.student.id,
                    name=entry.student.name,
                    score=entry.final_score,
                    raw=entry.raw,
                    handin=entry.handin.id if entry.handin else "",
                    device=book.device,
                    written=written,
                )
                connection.executemany(
                    "INSERT INTO scores VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    [
                        (
                            *(entry.student.id, exercise.name, v.name, v.status.value),
                            *(v.score, v.gradable, v.max_score, int(v.is_bonus)),
                        )
                        for exercise in (entry.grade.exercises if entry.grade else ())
                        for v in exercise.variants
                    ],
                )
