"""Cells of CSV files, made safe for whoever opens them in a spreadsheet.

Students choose their names, and a spreadsheet would run `=HYPERLINK(...)` in one. So text for
people gets an apostrophe in front where a spreadsheet would take it for a formula. Ids must stay
exact, since platforms find students by them: one of letters, digits and . _ @ + - alone is written
as it is, also where it begins with one of the last three, which a spreadsheet shows as an error or
a number. An id in which a spreadsheet could run something is quoted as text is. Where a country's
spreadsheets take semicolons between cells, a cell may begin behind any of them, quotes or not.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from grader.batch.course.records import Gradebook
from grader.batch.gradebook import incomplete
from grader.mistakes import Mistake
from grader.report import one_line
from grader.report.summary import number

_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_INNER_FORMULA = re.compile(rf"(;[\s\"]*)(?=[{re.escape(''.join(_FORMULA))}])")
_PLAIN_ID = re.compile(r"[\w.@+-]*")


def text(value: str) -> str:
    """Text for people: one clean line that no spreadsheet takes for a formula."""
    line = _INNER_FORMULA.sub(r"\1'", one_line(value))
    return "'" + line if line.startswith(_FORMULA) else line


def identifier(value: str) -> str:
    """An id for a platform: exact, unless a spreadsheet could run it."""
    has_formula = value.lstrip().startswith(_FORMULA) or _INNER_FORMULA.search(value)
    if _PLAIN_ID.fullmatch(value) or (value.isprintable() and not has_formula):
        return value
    return text(value)


def points(value: float | None) -> str:
    """Points without trailing zeros, in up to 4 digits; an empty cell where there are none."""
    return "" if value is None else number(value, 4)


def expect_complete(book: Gradebook, allow_incomplete: bool) -> None:
    """Raise Mistake where a score isn't final, unless that is allowed."""
    problem = incomplete(book)
    if problem and not allow_incomplete:
        raise Mistake(f"{problem}: grade or decide those first, or give --allow-incomplete")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A CSV file, its lines ended as RFC 4180 has them."""
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(header)
    writer.writerows(rows)
    return file.getvalue()
