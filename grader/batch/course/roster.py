"""The roster: the students of a class, from a CSV file.

Five kinds are recognised by their columns, whatever the case of their names:

    Canvas gradebook     Student (or LastName, FirstName), ID, Section; SIS User ID, SIS Login ID
    Gradescope           SID, Email; Name, or First Name and Last Name; Role, Section(s)
    GitHub Classroom     identifier, github_username; name
    ... its grades       roster_identifier, github_username, submission_timestamp
    plain                id; platform_id, login, name, email, section

Cells are separated by commas, semicolons or tabs; UTF-8 with or without a byte order mark, UTF-16
with one, else Latin-1, which a note says. Rows are counted as a spreadsheet does: the header is row
1. What is wrong becomes one line each in a SpecError:

    roster.csv: row 7: expected each id once, got '30123' again: it is in row 3 too
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from grader import given_files
from grader.batch.course.records import Student
from grader.mistakes import Mistake
from grader.report import one_line
from grader.spec import SpecError

GRADES = "GitHub Classroom grades"
MAX_BYTES = 16 << 20
MAX_CELL = 1 << 20  # characters


@dataclass(frozen=True)
class Roster:
    """The students of a class. `rows` has the students' rows."""

    kind: str  # "Canvas", "Gradescope", "GitHub Classroom", GRADES, "plain"
    file: str
    students: tuple[Student, ...]
    rows: Mapping[str, int] = field(default_factory=dict)  # Student.id: row of the file
    notes: tuple[str, ...] = ()  # what the file's reader should know of
    unlinked: Mapping[str, str] = field(default_factory=dict)  # Student.id: it has no platform id

    def place(self, student: Student) -> str:
        """'roster.csv: row 7'."""
        row = self.rows.get(student.id)
        return f"{self.file}: row {row}" if row else self.file


def load(path: Path) -> Roster:
    """Read a roster. Raises SpecError, with a line for every mistake found."""
    path = Path(path)
    text, notes = _text(path)
    names, rows = _table_of(path.name, text)
    kind = _kind(path.name, names)
    reader = _Reader(path.name, kind, names)
    for row, cells in rows:
        reader.read(row, cells)
    return reader.finish(notes)


# --- reading -------------------------------------------------------------------------------------


class _Kind(NamedTuple):
    """A kind of roster; of several columns with one meaning the first that isn't empty counts."""

    name: str
    tell: frozenset[str]  # columns that only this kind has: which one it is meant to be
    needs: tuple[tuple[str, ...], ...]  # of each, one must be there
    id: tuple[str, ...]  # Student.id
    platform_id: tuple[str, ...]
    name_columns: tuple[str, ...] = ()
    section: tuple[str, ...] = ()


_KINDS = (
    _Kind(
        "Canvas",
        frozenset({"sis user id", "sis login id", "student", "lastname"}),
        (("student", "lastname"), ("id",), ("section",)),
        ("id",),
        ("id",),
        ("student",),
        ("section",),
    ),
    _Kind(
        GRADES,
        frozenset({"roster_identifier", "submission_timestamp"}),
        (("roster_identifier",), ("github_username",), ("submission_timestamp",)),
        ("roster_identifier", "github_username"),  # a login that was linked to nobody
        ("github_username",),
    ),
    _Kind(
        "GitHub Classroom",
        frozenset({"identifier", "github_username"}),
        (("identifier",), ("github_username",)),
        ("identifier",),
        ("github_username",),
        ("name",),
        ("section", "group_name"),
    ),
    _Kind(
        "Gradescope",
        frozenset({"sid", "student id"}),
        (("sid", "student id"), ("email", "email address")),
        ("sid", "student id", "email", "email address"),
        ("sid", "student id"),
        ("name", "full name"),
        ("section", "sections", "section_name"),
    ),
    _Kind(
        "plain",
        frozenset({"id"}),
        (("id",),),
        ("id",),
        ("platform_id", "id"),
        ("name",),
        ("section",),
    ),
)
_EMAIL = ("email", "email address")
_FIRST, _LAST = ("first name", "firstname"), ("last name", "lastname")
_STAFF = frozenset({"instructor", "ta", "reader", "teacher", "designer", "observer"})
_MUTED = re.compile(r"\s*(muted|manual posting.*)?\s*", re.IGNORECASE)


class _Reader:
    """Makes students of rows, and collects mistakes and notes."""

    def __init__(self, file: str, kind: _Kind, names: list[str]) -> None:
        self.file, self.kind, self.names = file, kind, names
        self.keys = [key_of(name) for name in names]
        self.students: list[Student] = []
        self.rows: dict[str, int] = {}
        self.mistakes: list[str] = []
        self.left_out: list[str] = []
        self.unlinked: dict[str, str] = {}
        self.id_rows: dict[str, int] = {}  # by the id in lower case
        self.platform_rows: dict[str, int] = {}

    def read(self, row: int, cells: list[str]) -> None:
        if len(cells) > len(self.names) and any(cell.strip() for cell in cells[len(self.names) :]):
            self._wrong(row, f"expected {len(self.names)} cells as in row 1, got {len(cells)}")
            return
        cells = [*cells, *[""] * (len(self.names) - len(cells))]
        by_key = dict(zip(self.keys, map(str.strip, cells), strict=False))
        if self._is_no_student(row, by_key):
            return
        student = Student(
            id=_first(by_key, self.kind.id),
            platform_id=_first(by_key, self.kind.platform_id),
            name=_name(by_key, self.kind.name_columns),
            email=_email(by_key, self.kind),
            section=_first(by_key, self.kind.section),
            columns=dict(zip(self.names, cells, strict=False)),
        )
        if self._is_new(row, student):
            self.students.append(student)
            self.rows[student.id] = row

    def finish(self, notes: list[str]) -> Roster:
        if not self.students and not self.mistakes:
            self.mistakes.append(f"{self.file}: expected a row for each student, found none")
        if self.mistakes:
            raise SpecError(self.mistakes)
        if self.left_out:
            notes.append(f"{self.file}: left out, as no students: {', '.join(self.left_out)}")
        rows_of: dict[str, list[str]] = {}
        for student in self.students:
            rows_of.setdefault(student.email.casefold(), []).append(str(self.rows[student.id]))
        notes += [
            f"{self.file}: rows {', '.join(rows)} have one email, {one_line(email)}: "
            "nobody is matched by it"
            for email, rows in rows_of.items()
            if email and len(rows) > 1
        ]
        students, kind = tuple(self.students), self.kind.name
        return Roster(kind, self.file, students, self.rows, tuple(notes), self.unlinked)

    def _is_no_student(self, row: int, cells: Mapping[str, str]) -> bool:
        """Whether a row is about columns, the course's staff or Canvas's test student."""
        if not any(cells.values()):
            return True
        if self.kind.name == "Canvas":
            if "points possible" in next(iter(cells.values())).lower():
                return True
            if all(_MUTED.fullmatch(cell) for cell in cells.values()):
                return True
            is_test = cells.get("student", "").lower() == "student, test"
            if is_test and not cells.get("sis user id"):
                self.left_out.append(f"row {row} (Canvas's test student)")
                return True
        role = cells.get("role", "").lower()
        if role in _STAFF:
            self.left_out.append(f"row {row} ({role})")
        return role in _STAFF

    def _is_new(self, row: int, student: Student) -> bool:
        """Whether a student has an id that no row above has."""
        if not student.id:
            wanted = " or ".join(repr(self._shown(key)) for key in self.kind.id if key in self.keys)
            self._wrong(row, f"expected an id in the column {wanted}, got an empty cell")
            return False
        if not self._is_first(row, "id", student.id, self.id_rows):
            return False
        if student.platform_id:
            return self._is_first(row, "platform id", student.platform_id, self.platform_rows)
        column = self._shown(self.kind.platform_id[0])
        self.unlinked[student.id] = (
            f"{self.file}: row {row}: {one_line(student.name or student.id)} has nothing in "
            f"the column {column!r}"
        )
        return True

    def _is_first(self, row: int, name: str, id: str, rows: dict[str, int]) -> bool:
        above = rows.setdefault(id.casefold(), row)
        if above != row:
            again = f"got {one_line(id)!r} again: it is in row {above} too"
            self._wrong(row, f"expected each {name} once, {again}")
        return above == row

    def _shown(self, key: str) -> str:
        return self.names[self.keys.index(key)] if key in self.keys else key

    def _wrong(self, row: int, message: str) -> None:
        self.mistakes.append(f"{self.file}: row {row}: {message}")


def _text(path: Path) -> tuple[str, list[str]]:
    """The file's text, and a note where its encoding had to be guessed."""
    try:
        data = given_files.content(path, MAX_BYTES)
    except Mistake as mistake:
        raise SpecError([str(mistake)]) from None
    try:
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):  # a spreadsheet's "Unicode text"
            return data.decode("utf-16"), []
        text, notes = data.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        text = data.decode("latin-1")
        notes = [f"{path.name}: not UTF-8, so read as Latin-1: are names with accents right?"]
    if "\0" in text:
        came = "a spreadsheet" if data.startswith(b"PK") else "a file with zero bytes in it"
        raise SpecError([f"{path.name}: expected a CSV file, got {came}: save it as CSV in UTF-8"])
    return text, notes


def _table_of(file: str, text: str) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The header, and the rows below it with their numbers."""
    lines = text.splitlines()
    first = next((line for line in lines if line.strip(" ,;\t")), "")
    if not first:
        raise SpecError([f"{file}: expected a header and a row for each student, got no text"])
    separator = max(",;\t", key=lambda each: (_splits_into_known(first, each), first.count(each)))
    rows = _rows(file, text, separator)
    names = next((cells for _, cells in rows if any(map(str.strip, cells))), [])
    while names and not names[-1].strip():
        names.pop()
    names = [name.strip() for name in names]
    twice = [name for i, name in enumerate(names) if name and name in names[:i]]
    if twice:
        expected = f"expected each column once, got {one_line(twice[0])!r} twice"
        raise SpecError([f"{file}: row 1: {expected}"])
    return names, rows


def _rows(file: str, text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    limit = csv.field_size_limit(MAX_CELL)
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        yield from enumerate(reader, start=1)
    except csv.Error as error:
        why = f"can't be read as CSV: {error}"
        raise SpecError([f"{file}: line {reader.line_num}: {why}"]) from None
    finally:
        csv.field_size_limit(limit)


def _splits_into_known(line: str, separator: str) -> int:
    known = {name for kind in _KINDS for names in (*kind.needs, kind.tell) for name in names}
    return sum(key_of(cell.strip('"')) in known for cell in line.split(separator))


def _kind(file: str, names: Sequence[str]) -> _Kind:
    """The kind of a roster, by the columns that only one kind has."""
    keys = {key_of(name) for name in names}
    came = one_line(", ".join(names))
    *telling, plain = _KINDS
    meant = [kind for kind in telling if keys & kind.tell] or [plain] * bool(keys & plain.tell)
    if not meant:
        wanted = "; ".join(
            f"{kind.name} ({', '.join(group[0] for group in kind.needs)})" for kind in _KINDS
        )
        raise SpecError([f"{file}: row 1: expected the columns of one of {wanted}; got {came}"])
    for kind in meant:
        if all(keys & set(group) for group in kind.needs):
            return kind
    first = meant[0]
    lacking = [group for group in first.needs if not keys & set(group)]
    columns = " and ".join(" or ".join(map(repr, group)) for group in lacking)
    raise SpecError(
        [f"{file}: row 1: expected the column {columns} of a {first.name} roster; got {came}"]
    )


def key_of(name: str) -> str:
    return " ".join(name.split()).casefold()


def _first(cells: Mapping[str, str], columns: Iterable[str]) -> str:
    """The first of these columns that isn't empty."""
    return next((cells[key] for key in columns if cells.get(key)), "")


def _name(cells: Mapping[str, str], columns: Iterable[str]) -> str:
    parts = [_first(cells, _FIRST), _first(cells, _LAST)]
    return _first(cells, columns) or " ".join(filter(None, parts))


def _email(cells: Mapping[str, str], kind: _Kind) -> str:
    if email := _first(cells, _EMAIL):
        return email
    # Where there is no column of its own, an id is often the address.
    ids = (cells.get("sis login id", ""), *(cells.get(key, "") for key in kind.id))
    return next((each for each in ids if re.fullmatch(r"[^@\s]+@[^@\s]+", each)), "")
