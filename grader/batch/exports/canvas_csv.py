"""The gradebook CSV that Canvas imports.

    Student, ID, SIS User ID, SIS Login ID, Section, Title (assignment_id)

below it a row `Points Possible`, then a row per student. Canvas finds students by ID, then by SIS
ids; a column by the assignment's id in parentheses. A column it doesn't know becomes a new
assignment. Every other column of the course's gradebook is left out, since importing it would bring
back the scores of the day on which the file was downloaded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from grader.batch.course.records import Gradebook, Student
from grader.batch.exports.cells import expect_complete, identifier, points, table, text
from grader.mistakes import Mistake
from grader.report import one_line

UNTITLED = "warpgrade"
POINTS_POSSIBLE = "    Points Possible"  # as Canvas itself indents it
_NAMES = {"Student", "LastName", "FirstName"}
_IDS = {"ID", "SIS User ID", "SIS Login ID", "Integration ID", "Root Account"}
_OWN = _NAMES | _IDS | {"Section"}
_STUDENT_COLUMNS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
# In the columns that Canvas works out itself: it takes none with these words for an assignment.
_TOTALS = re.compile(r"(Current|Final|Override) (Score|Points|Grade)|Override Status")
_TITLED = re.compile(r"(?P<title>.*?)\s*\((?P<id>\d+)\)")


def render(
    book: Gradebook, *, assignment: str | None = None, allow_incomplete: bool = False
) -> str:
    """The file's text.

    `assignment` names the column: by its header, its title or its id in the gradebook that was the
    roster; another name is that of a new assignment. Without it, it is the class's title. With
    Canvas's own gradebook as roster, its student columns stand here as they stand there. A score of
    nobody's is an empty cell: Canvas leaves that student's grade as it is.

    Raises Mistake where a score isn't final, where two columns have the wanted title, and
    for a name that Canvas gives to a column of its own.
    """
    expect_complete(book, allow_incomplete)
    known = _columns(book)
    students = tuple(name for name in known if name in _OWN) or _STUDENT_COLUMNS
    column = _assignment_column(known, assignment or book.title or UNTITLED)
    header = [*students, column]
    possible = [POINTS_POSSIBLE, *[""] * (len(students) - 1), points(book.max_score)]
    rows = [
        [*(_cell(entry.student, name) for name in students), points(entry.final_score)]
        for entry in book.entries
    ]
    return table(header, [possible, *rows])


def _columns(book: Gradebook) -> tuple[str, ...]:
    """The header of the roster, where that was a gradebook of Canvas's."""
    columns = next((tuple(e.student.columns) for e in book.entries if e.student.columns), ())
    return columns if {"ID", "Section"} <= set(columns) else ()


def _assignment_column(columns: Sequence[str], wanted: str) -> str:
    """The header of the wanted assignment in Canvas's gradebook; else a new one."""
    others = [name for name in columns if not _is_canvas_own(name)]
    wanted = one_line(wanted)
    if _is_canvas_own(wanted):
        raise Mistake(
            f"expected another name for the assignment: {wanted!r} is one that Canvas keeps for "
            "columns of its own"
        )
    if wanted in others:
        return wanted
    titled = [match for name in others if (match := _TITLED.fullmatch(name))]
    title = wanted.casefold()
    meant = [each[0] for each in titled if title in (each["id"], each["title"].casefold())]
    if len(meant) > 1:
        names = ", ".join(map(repr, meant))
        raise Mistake(f"expected one assignment called {wanted!r} in Canvas, got {names}")
    return meant[0] if meant else text(wanted)


def _is_canvas_own(column: str) -> bool:
    return column in _OWN or bool(_TOTALS.search(column))


def _cell(student: Student, column: str) -> str:
    # Canvas takes ID for its own number of a person: another platform's id must not stand there.
    is_foreign = bool(student.columns) and "id" not in map(str.casefold, student.columns)
    cells = {
        "Student": student.name or student.id,
        "SIS User ID" if is_foreign else "ID": student.id,
        "SIS Login ID": student.columns.get("login", ""),
        "Section": student.section,
        **student.columns,
    }
    return (identifier if column in _IDS else text)(cells.get(column, ""))
