"""CSVs of the layouts in which Gradescope and GitHub Classroom download scores.

Neither platform imports them; what reads those downloads reads these too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone

from grader.batch.course.records import Entry, Gradebook, Student
from grader.batch.exports.cells import expect_complete, identifier, points, table, text

_Columns = Mapping[str, Callable[[Gradebook, Entry], str]]
_NAME_COLUMNS = {"first name": 0, "firstname": 0, "last name": 1, "lastname": 1}


def to_gradescope(book: Gradebook, *, allow_incomplete: bool = False) -> str:
    """The file's text. Raises Mistake where a score isn't final."""
    return _render(book, _GRADESCOPE, allow_incomplete)


def to_classroom(book: Gradebook, *, allow_incomplete: bool = False) -> str:
    """The file's text. Raises Mistake where a score isn't final.

    Addresses are left empty: a clone doesn't tell them. Who handed in nothing has 0 points; a
    hand-in that can't be read, or isn't graded yet, has an empty cell.
    """
    return _render(book, _CLASSROOM, allow_incomplete)


def _render(book: Gradebook, columns: _Columns, allow_incomplete: bool) -> str:
    expect_complete(book, allow_incomplete)
    rows = ([cell(book, entry) for cell in columns.values()] for entry in book.entries)
    return table(list(columns), rows)


def _status(entry: Entry) -> str:
    if entry.final_score is not None:
        return "Graded"
    return "Ungraded" if entry.attempts else "Missing"


def _names(student: Student) -> tuple[str, str]:
    """First and last name: the roster's, else split at the comma or the last space."""
    names = ["", ""]
    for column, cell in student.columns.items():
        if column.casefold() in _NAME_COLUMNS:
            names[_NAME_COLUMNS[column.casefold()]] = cell.strip()
    if any(names):
        return names[0], names[1]
    last, comma, first = student.name.partition(",")
    if not comma:
        first, _, last = student.name.strip().rpartition(" ")
    return first.strip(), last.strip()


def _time(entry: Entry, as_text: Callable[[datetime], str]) -> str:
    at = entry.handin.known_time if entry.handin else None
    return as_text(at) if at else ""


def _lateness(entry: Entry) -> str:
    """Hours, minutes and seconds after the student's own due date, the grace not taken off."""
    if entry.handin is None:
        return ""
    at, due = entry.handin.known_time, entry.lateness.due
    late = timedelta()
    if at is not None and due is not None:
        late = max(late, at.astimezone(timezone.utc) - due.astimezone(timezone.utc))
    minutes, seconds = divmod(int(late.total_seconds()), 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"


_GRADESCOPE: _Columns = {
    "First Name": lambda _, entry: text(_names(entry.student)[0]),
    "Last Name": lambda _, entry: text(_names(entry.student)[1]),
    "SID": lambda _, entry: identifier(entry.student.platform_id or entry.student.id),
    "Email": lambda _, entry: identifier(entry.student.email),
    "Sections": lambda _, entry: text(entry.student.section),
    "Total Score": lambda _, entry: points(entry.final_score),
    "Max Points": lambda book, _: points(book.max_score),
    "Status": lambda _, entry: _status(entry),
    "Submission ID": lambda _, entry: identifier(entry.handin.id) if entry.handin else "",
    "Submission Time": lambda _, entry: _time(entry, "{:%Y-%m-%d %H:%M:%S %z}".format),
    "Lateness (H:M:S)": lambda _, entry: _lateness(entry),
    "Submission Count": lambda _, entry: str(len(entry.attempts) or ""),
}
_CLASSROOM: _Columns = {
    "assignment_name": lambda book, _: text(book.title),
    "assignment_url": lambda *_: "",
    "starter_code_url": lambda *_: "",
    "github_username": lambda _, entry: identifier(entry.student.platform_id),
    "roster_identifier": lambda _, entry: identifier(entry.student.id),
    "student_repository_name": lambda _, entry: identifier(entry.handin.id) if entry.handin else "",
    "student_repository_url": lambda *_: "",
    "submission_timestamp": lambda _, entry: _time(entry, datetime.isoformat),
    "points_awarded": lambda _, e: points(0.0 if _status(e) == "Missing" else e.final_score),
    "points_available": lambda book, _: points(book.max_score),
}
