"""A CSV of the layout of Gradescope's own download of an assignment's scores.

Gradescope doesn't import it; what reads that download reads this too.
"""

from __future__ import annotations

from datetime import timezone

from grader.batch.course.lateness import has_time
from grader.batch.course.records import Entry, Gradebook, Student
from grader.batch.exports.cells import (
    expect_complete,
    final_score,
    identifier,
    points,
    table,
    text,
)

HEADER = (
    "First Name",
    "Last Name",
    "SID",
    "Email",
    "Sections",
    "Total Score",
    "Max Points",
    "Status",
    "Submission ID",
    "Submission Time",
    "Lateness (H:M:S)",
    "Submission Count",
)
_COLUMNS = {"first name": 0, "firstname": 0, "last name": 1, "lastname": 1}


def render(book: Gradebook, *, allow_incomplete: bool = False) -> str:
    """The file's text. Raises GradebookError where a score isn't final."""
    expect_complete(book, allow_incomplete)
    return table(HEADER, [_row(book, entry) for entry in book.entries])


def _row(book: Gradebook, entry: Entry) -> list[str]:
    score = final_score(entry)
    handin = entry.counted.handin if entry.counted else None
    timed = handin is not None and has_time(handin)
    return [
        *map(text, _names(entry.student)),
        identifier(entry.student.platform_id or entry.student.id),
        identifier(entry.student.email),
        text(entry.student.section),
        points(score),
        points(book.max_score),
        _status(entry),
        identifier(handin.id) if handin else "",
        handin.submitted_at.strftime("%Y-%m-%d %H:%M:%S %z") if handin and timed else "",
        _lateness(entry),
        str(len(entry.attempts)) if entry.attempts else "",
    ]


def _status(entry: Entry) -> str:
    if final_score(entry) is not None:
        return "Graded"
    return "Ungraded" if entry.attempts else "Missing"


def _names(student: Student) -> tuple[str, str]:
    """First and last name: the roster's, else what stands around the comma or the last space."""
    names = ["", ""]
    for column, cell in student.columns.items():
        if column.casefold() in _COLUMNS:
            names[_COLUMNS[column.casefold()]] = cell.strip()
    if any(names):
        return names[0], names[1]
    last, comma, first = student.name.partition(",")
    if comma:
        return first.strip(), last.strip()
    first, _, last = student.name.strip().rpartition(" ")
    return first, last


def _lateness(entry: Entry) -> str:
    """Hours, minutes and seconds after the student's own due date, the grace not taken off."""
    handin = entry.counted.handin if entry.counted else None
    if handin is None or not has_time(handin) or entry.lateness.due is None:
        return "00:00:00" if handin else ""
    due = entry.lateness.due.astimezone(timezone.utc)
    late = (handin.submitted_at.astimezone(timezone.utc) - due).total_seconds()
    minutes, seconds = divmod(int(max(0, late)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}"
