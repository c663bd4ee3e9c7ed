"""RESULTS/class.sqlite: everything that is known of a class, in one file.

What was handed in with its bytes, what came of it, and what people decided; each result is written
in a transaction of its own as it comes. Scores are not in here as truth: they follow from results
and specs. docs/batch.md describes the tables; migrations.py leads from version to version.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from grader import evidence as evidence_files
from grader.batch.course.records import Adjustment, AdjustmentKind, Entry, Gradebook, Handin, Member
from grader.batch.store import migrations
from grader.evidence import EvidenceError, VariantEvidence
from grader.mistakes import Mistake

NAME = "class.sqlite"
BUSY_SECONDS = 20.0
LITTLE_SPACE = 1 << 20  # bytes free: an error of the file system's is put down to that


class StoreError(Mistake, RuntimeError):
    """The file can't be used or written; the message names it and says what to do."""


@dataclass(frozen=True)
class StoredHandin:
    """A hand-in as the store has it; `is_current` until a later one has the same id."""

    number: int
    handin: Handin
    hashes: Mapping[str, str]  # of its files, by name
    is_current: bool
    is_gone: bool


@dataclass(frozen=True)
class StoredResult:
    """Evidence of one variant, with the environment that it was observed in."""

    evidence: VariantEvidence
    environment: dict[str, Any]
    stored: str


@dataclass(frozen=True)
class Known:
    """What a run needs to know about a result in order to leave it alone."""

    grader_failed: bool
    to_measure: bool
    had_sandbox: bool


@dataclass(frozen=True)
class NewResult:
    """A result to be stored; `to_measure` where only what takes the whole GPU is left to do."""

    key: str
    evidence: str  # JSON, as Result.evidence
    device: str
    to_measure: bool = False
    grader_failed: bool = False
    seconds: float = 0.0
    gpu_seconds: float = 0.0


@dataclass(frozen=True)
class StoredAdjustment:
    """An adjustment with its number; undone ones are kept."""

    number: int
    adjustment: Adjustment
    undone_by: int | None = None


@dataclass(frozen=True)
class Standing:
    """A student's scores as they were written out last; None where there is none."""

    student: str
    name: str
    score: float | None
    raw: float | None
    handin: str

    @classmethod
    def of(cls, entry: Entry) -> Standing:
        """What a gradebook's entry comes to; a score that isn't final is none."""
        score = None if entry.waiting else entry.score
        handin = entry.counted.handin.id if entry.counted else ""
        return cls(entry.student.id, entry.student.name, score, entry.raw, handin)


class Store:
    """One class's results. A context manager; not for several threads."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        """Open RESULTS/class.sqlite, brought to the newest version.

        Raises StoreError where there is none (unless `create`), where it is another program's, a
        newer grader's or damaged, and where it can't be written.
        """
        self.path = folder / NAME
        if not create:
            self.expect(folder)
        with self._explained():
            if create:
                folder.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            with self._explained():
                self._begin()
        except BaseException:
            self._db.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def expect(folder: Path) -> Path:
        """The folder, in which there is a class's store. Raises StoreError where there is none."""
        if not (folder / NAME).is_file():
            raise StoreError(
                f"{folder / NAME}: not found; expected the folder that `grader batch --out` wrote"
            )
        return folder

    def close(self) -> None:
        """Bring everything into the one file, and let go of it."""
        with contextlib.suppress(sqlite3.Error):
            self._db.close()

    # --- the class ------------------------------------------------------------------------------

    @property
    def seed(self) -> int | None:
        """The class's seed; None before its first run."""
        found = self._one("SELECT seed FROM class")
        return found[0] if found else None

    def set_seed(self, seed: int) -> int:
        """Give the class its seed, once; returns the one it has."""
        with self._transaction() as database:
            database.execute("INSERT OR IGNORE INTO class VALUES (1, ?, ?)", (seed, _now()))
        return self.seed

    def devices(self) -> list[str]:
        """Where there are results from: "interpreter", GPUs' names."""
        rows = self._all("SELECT DISTINCT device FROM results WHERE superseded IS NULL ORDER BY 1")
        return [device for (device,) in rows]

    # --- runs -----------------------------------------------------------------------------------

    def begin_run(self, command: str, version: str, environment: Mapping[str, Any]) -> int:
        """Note that a command works on the class; its number is what results refer to."""
        values = (command, version, json.dumps(environment), _now())
        with self._transaction() as database:
            return database.execute(
                "INSERT INTO runs (command, version, environment, started) VALUES (?, ?, ?, ?)",
                values,
            ).lastrowid

    @property
    def has_run(self) -> bool:
        """Whether a command has begun to work on the class."""
        return bool(self._one("SELECT EXISTS (SELECT 1 FROM runs)")[0])

    def end_run(self, run: int) -> None:
        """Note that a run came to its end."""
        with self._transaction() as database:
            database.execute("UPDATE runs SET ended = ? WHERE number = ?", (_now(), run))

    # --- hand-ins -------------------------------------------------------------------------------

    def keep_handins(self, handins: Iterable[Handin], source: str, run: int) -> None:
        """Take in what was collected from `source`, all of it or nothing.

        An id that isn't text is stored with its odd bytes written out.

        A hand-in with the id of an earlier one and other files takes its place; the earlier one
        stays, with its results. What is no longer in the same source is marked as gone.
        """
        source = _text(source)
        with self._transaction() as database:
            seen = []
            for handin in handins:
                seen.append(_text(handin.id))
                self._keep_handin(database, handin, source, run)
            known = database.execute(
                "SELECT number, id FROM handins WHERE source = ? AND superseded_by IS NULL",
                (source,),
            ).fetchall()
            for number, name in known:
                gone = int(name not in set(seen))
                database.execute("UPDATE handins SET gone = ? WHERE number = ?", (gone, number))

    def handins(self) -> list[StoredHandin]:
        """Every hand-in ever collected, in the order in which they came, without their bytes."""
        hashes: dict[int, dict[str, str]] = {}
        for number, name, sha256 in self._all("SELECT handin, name, sha256 FROM files"):
            hashes.setdefault(number, {})[name] = sha256
        rows = self._all(
            "SELECT number, id, members, submitted_at, marked_late, problem, notes, "
            "superseded_by, gone FROM handins ORDER BY number"
        )
        return [
            StoredHandin(
                number,
                Handin(
                    id=name,
                    members=tuple(Member(**member) for member in json.loads(members)),
                    submitted_at=datetime.fromisoformat(at) if at else None,
                    marked_late=bool(late),
                    problem=problem,
                    notes=tuple(json.loads(notes)),
                ),
                hashes.get(number, {}),
                is_current=superseded is None,
                is_gone=bool(gone),
            )
            for number, name, members, at, late, problem, notes, superseded, gone in rows
        ]

    def files(self, number: int) -> dict[str, bytes]:
        """The files of a hand-in, by name."""
        rows = self._all(
            "SELECT name, bytes FROM files JOIN contents USING (sha256) WHERE handin = ? "
            "ORDER BY name",
            (number,),
        )
        return dict(rows)

    # --- results --------------------------------------------------------------------------------

    def known(self) -> dict[str, Known]:
        """Every current result by its key, as far as a run needs to know it."""
        rows = self._all(
            "SELECT key, grader_failed, to_measure, "
            "json_extract(json, '$.sandbox') IS NOT 'limits' "
            "FROM results JOIN environments ON environments.number = environment "
            "WHERE superseded IS NULL"
        )
        return {key: Known(bool(a), bool(b), bool(c)) for key, a, b, c in rows}

    def graded(self, device: str) -> set[tuple[str, str, str, bool]]:
        """Of what there are results from a device, whatever grader and specs they were made by.

        As (exercise, variant, SHA-256 of the file, whether the rules were lifted).
        """
        rows = self._all(
            "SELECT DISTINCT exercise, variant, file_sha256, rules_lifted FROM results "
            "WHERE device = ? AND superseded IS NULL",
            (device,),
        )
        return {(exercise, variant, file, bool(lifted)) for exercise, variant, file, lifted in rows}

    def covered(self, device: str) -> set[tuple[str, str]]:
        """The variants of which there are results from a device, as (exercise, variant)."""
        return set(
            self._all(
                "SELECT DISTINCT exercise, variant FROM results "
                "WHERE device = ? AND superseded IS NULL",
                (device,),
            )
        )

    def seconds_per_timing(self, device: str) -> float | None:
        """What a variant's time on a device alone has cost on average; None before the first."""
        [seconds] = self._one(
            "SELECT avg(gpu_seconds) FROM results WHERE device = ? AND gpu_seconds > 0", (device,)
        )
        return seconds

    def evidence_of(self, key: str) -> str:
        """The evidence of a key's current result, as JSON; "" where there is none."""
        row = self._one("SELECT evidence FROM results WHERE key = ? AND superseded IS NULL", (key,))
        return row[0] if row else ""

    def result(self, key: str) -> StoredResult | None:
        """The current result of a key. Raises StoreError where it can't be read."""
        row = self._one(
            "SELECT evidence, json, stored FROM results "
            "JOIN environments ON environments.number = environment "
            "WHERE key = ? AND superseded IS NULL",
            (key,),
        )
        if row is None:
            return None
        try:
            seen = evidence_files.variant_from_json(row[0], f"{self.path}: result {key[:12]}")
        except EvidenceError as error:
            raise StoreError(f"{error}; grade it again with `grader regrade`") from None
        return StoredResult(seen, json.loads(row[1]), row[2])

    def keep_results(
        self, results: Sequence[NewResult], seed: int, environment: Mapping[str, Any], run: int
    ) -> None:
        """Take in results, all or none; each takes the place of the one with its key."""
        now = _now()
        with self._transaction() as database:
            text = json.dumps(environment, sort_keys=True)
            database.execute("INSERT OR IGNORE INTO environments (json) VALUES (?)", (text,))
            [number] = database.execute(
                "SELECT number FROM environments WHERE json = ?", (text,)
            ).fetchone()
            for new in results:
                seen = evidence_files.variant_from_json(new.evidence)
                database.execute(
                    "UPDATE results SET superseded = ? WHERE key = ? AND superseded IS NULL",
                    (now, new.key),
                )
                database.execute(
                    "INSERT INTO results (key, exercise, variant, file_sha256, seed, device, "
                    "rules_lifted, status, evidence, grader_failed, to_measure, environment, run, "
                    "seconds, gpu_seconds, stored) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                    (
                        *(new.key, seen.exercise, seen.variant, seen.sha256, seed, new.device),
                        *(int(seen.rules_lifted), seen.correctness.value, new.evidence),
                        *(int(new.grader_failed), int(new.to_measure), number, run),
                        *(new.seconds, new.gpu_seconds, now),
                    ),
                )

    # --- adjustments ----------------------------------------------------------------------------

    def adjustments(self) -> list[StoredAdjustment]:
        """Every adjustment ever made, undone ones too."""
        rows = self._all(
            "SELECT a.number, a.student, a.kind, a.reason, a.only_name, a.points, a.made_by, "
            "a.made_at, b.number FROM adjustments a LEFT JOIN adjustments b ON b.undoes = a.number "
            "WHERE a.undoes IS NULL ORDER BY a.number"
        )
        return [
            StoredAdjustment(
                number,
                Adjustment(
                    *(student, AdjustmentKind(kind), reason, only, points, by),
                    datetime.fromisoformat(at),
                ),
                undone,
            )
            for number, student, kind, reason, only, points, by, at, undone in rows
        ]

    def adjust(self, adjustment: Adjustment) -> int:
        """Add an adjustment; returns its number."""
        return self._add_adjustment(adjustment, None)

    def undo(self, number: int, reason: str, by: str = "") -> None:
        """Undo an adjustment; both stay. Raises StoreError where there is none to undo."""
        found = {each.number: each for each in self.adjustments()}.get(number)
        if found is None:
            raise StoreError(f"{self.path}: there is no adjustment {number}")
        if found.undone_by is not None:
            raise StoreError(f"{self.path}: adjustment {number} is undone already")
        note = Adjustment(found.adjustment.student, AdjustmentKind.note, reason, by=by)
        self._add_adjustment(note, number)

    def _add_adjustment(self, adjustment: Adjustment, undoes: int | None) -> int:
        at = adjustment.at.isoformat() if adjustment.at else _now()
        values = (
            *(adjustment.student, adjustment.kind.value, adjustment.reason, adjustment.only),
            *(adjustment.points, adjustment.by, at, undoes),
        )
        with self._transaction() as database:
            return database.execute(
                "INSERT INTO adjustments (student, kind, reason, only_name, points, made_by, "
                "made_at, undoes) VALUES (?,?,?,?,?,?,?,?)",
                values,
            ).lastrowid

    # --- what is kept beside ----------------------------------------------------------------------

    def document(self, name: str) -> tuple[Path, bytes] | None:
        """The course or the roster: where it was read, and its bytes then."""
        row = self._one("SELECT path, content FROM documents WHERE name = ?", (name,))
        return (Path(row[0]), row[1]) if row else None

    def keep_document(self, name: str, path: Path, content: bytes) -> None:
        """Keep the course or the roster as it is now."""
        with self._transaction() as database:
            values = (name, _text(path), content, _now())
            database.execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?)", values)

    def standings(self) -> dict[str, Standing]:
        """The scores that were written out last, by student."""
        rows = self._all("SELECT student, name, score, raw, handin FROM standings ORDER BY student")
        return {row[0]: Standing(*row) for row in rows}

    def keep_standings(self, book: Gradebook) -> None:
        """Keep the scores of a gradebook, in place of the last one's."""
        now = _now()
        with self._transaction() as database:
            database.execute("DELETE FROM scores")
            database.execute("DELETE FROM standings")
            for entry in book.entries:
                standing = Standing.of(entry)
                database.execute(
                    "INSERT INTO standings VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (*astuple(standing), book.device, now),
                )
                grade = entry.counted.grade if entry.counted else None
                database.executemany(
                    "INSERT INTO scores VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    [
                        (
                            *(entry.student.id, exercise.name, v.name, v.status.value),
                            *(v.score, v.gradable, v.max_score, int(v.is_bonus)),
                        )
                        for exercise in (grade.exercises if grade else ())
                        for v in exercise.variants
                    ],
                )

    # --- underneath -----------------------------------------------------------------------------

    def _begin(self) -> None:
        version = migrations.version_of(self._db)
        if version > len(migrations.STEPS):
            raise StoreError(
                f"{self.path}: written by a newer grader (version {version} of the file; this "
                f"grader knows versions up to {len(migrations.STEPS)}): update the grader"
            )
        is_empty = not self._db.execute("SELECT 1 FROM sqlite_master").fetchone()
        if version == 0 and not is_empty:
            raise StoreError(f"{self.path}: not a class's results: another program wrote it")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")  # a result is on the disk once it is stored
        self._db.execute("PRAGMA foreign_keys = ON")
        migrations.migrate(self._db)

    def _keep_handin(
        self, database: sqlite3.Connection, handin: Handin, source: str, run: int
    ) -> None:
        current = database.execute(
            "SELECT number, files_sha256 FROM handins WHERE id = ? AND superseded_by IS NULL",
            (_text(handin.id),),
        ).fetchone()
        told = (
            json.dumps([asdict(member) for member in handin.members]),
            handin.submitted_at.isoformat() if handin.submitted_at else None,
            int(handin.marked_late),
            _text(handin.problem),
            json.dumps(handin.notes),
            source,
        )
        if current and current[1] == handin.sha256:
            database.execute(
                "UPDATE handins SET members = ?, submitted_at = ?, marked_late = ?, problem = ?, "
                "notes = ?, source = ?, gone = 0 WHERE number = ?",
                (*told, current[0]),
            )
            return
        [number] = database.execute("SELECT coalesce(max(number), 0) + 1 FROM handins").fetchone()
        if current:
            # The row it points at comes next: the reference is looked at when all is done.
            database.execute("PRAGMA defer_foreign_keys = ON")
            database.execute(
                "UPDATE handins SET superseded_by = ? WHERE number = ?", (number, current[0])
            )
        database.execute(
            "INSERT INTO handins (number, id, members, submitted_at, marked_late, problem, notes, "
            "source, files_sha256, run) VALUES (?,?,?,?,?,?,?,?,?,?)",
            (number, _text(handin.id), *told, handin.sha256, run),
        )
        for name, data in handin.files.items():
            sha256 = hashlib.sha256(data).hexdigest()
            database.execute("INSERT OR IGNORE INTO contents VALUES (?, ?)", (sha256, data))
            database.execute("INSERT INTO files VALUES (?, ?, ?)", (number, name, sha256))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._explained():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise

    def _all(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._explained():
            return self._db.execute(query, values).fetchall()

    def _one(self, query: str, values: Sequence[Any] = ()) -> Any:
        with self._explained():
            return self._db.execute(query, values).fetchone()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what SQLite and the file system say into a line that says what to do."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self.path}: {self._why(error)}") from error

    def _why(self, error: Exception) -> str:
        said = str(error)
        if "full" in said or "No space" in said or self._has_no_space():
            return (
                "the disk is full. All that is stored is safe: make room, and the same command "
                "goes on"
            )
        if "locked" in said or "busy" in said:
            return (
                "another program is using it: wait for it or close it, then give the same command "
                "again"
            )
        if "not a database" in said or "malformed" in said:
            return (
                f"it is damaged ({said}): put a backup in its place, or rescue what is in it with "
                f"`sqlite3 {self.path.name} .recover`"
            )
        if "readonly" in said or "unable to open" in said or isinstance(error, PermissionError):
            return "it can't be written: give yourself the right to it and its folder"
        if isinstance(error, OSError):
            return f"{error.strerror or said}"
        return f"SQLite says: {said}"

    def _has_no_space(self) -> bool:
        try:
            return shutil.disk_usage(self.path.parent).free < LITTLE_SPACE
        except OSError:
            return False


def _text(value: object) -> str:
    """A name as text that can be stored, whatever bytes it is made of."""
    return str(value).encode("utf-8", "backslashreplace").decode()


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
