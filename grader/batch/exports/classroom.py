"""A CSV of the layout of GitHub Classroom's download of an assignment's grades."""

from __future__ import annotations

from grader.batch.course.records import Entry, Gradebook
from grader.batch.exports.cells import expect_complete, identifier, points, table, text

HEADER = (
    "assignment_name",
    "assignment_url",
    "starter_code_url",
    "github_username",
    "roster_identifier",
    "student_repository_name",
    "student_repository_url",
    "submission_timestamp",
    "points_awarded",
    "points_available",
)


def render(book: Gradebook, *, allow_incomplete: bool = False) -> str:
    """The file's text. Raises GradebookError where a score isn't final.

    The addresses are left empty: a clone doesn't tell them. Who handed in nothing has 0 points; a
    hand-in that can't be read, or isn't graded yet, has an empty cell.
    """
    expect_complete(book, allow_incomplete)
    return table(HEADER, [_row(book, entry) for entry in book.entries])


def _row(book: Gradebook, entry: Entry) -> list[str]:
    handin = entry.handin
    score = entry.final_score
    awarded = 0.0 if score is None and not entry.attempts else score
    return [
        text(book.title),
        "",
        "",
        identifier(entry.student.platform_id),
        identifier(entry.student.id),
        identifier(handin.id) if handin else "",
        "",
        handin.known_time.isoformat() if handin and handin.known_time else "",
        points(awarded),
        points(book.max_score),
    ]
