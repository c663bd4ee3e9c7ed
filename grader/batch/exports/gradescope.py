"""A CSV of the layout of Gradescope's own download of an assignment's scores.

Gradescope doesn't import it; what reads that download reads this too.
"""

from __future__ import annotations

from datetime import timezone

from grader.batch.course.records import Entry, Gradebook, Student
from grader.batch.exports.cells import expect_complete, identifier, points, table, text

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
    score = entry.final_score
    handin = entry.handin
    at = handin.known_time if handin else None
    return [
        *map(text, _names(entry.student)),
        identifier(entry.student.platform_id or entry.student.id),
        identifier(entry.student.email),
        text(entry.student.section),
        points(score),
        points(book.max_score),
        _status(entry),
        identifier(handin.id) if handin else "",
        at.strftime("%Y-%m-%d %H:%M:%S %z") if at else "",
        _lateness(entry),
        str(len(entry.attempts)) if entry.attempts else "",
    ]


def _status(entry: Entry) -> str:
    if entry.final_score is not None:
        return "Graded"
    return "Ungraded" if entry.attempts else "Missing"


def _names(student: Student) -> tuple[str, str]:
    """First and last name: the roster's, else split at the comma or the last space."""
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
    if entry.handin is None:
        return ""
    at, due = entry.handin.known_time, entry.lateness.due
    if at is None or due is None:
        return "00:00:00"
    late = (at.astimezone(timezone.utc) - due.astimezone(timezone.utc)).total_seconds()
    minutes, seconds = divmod(int(max(0, late)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}"
