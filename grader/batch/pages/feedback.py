"""Each student's page: their score, how it came about, and the hand-in that counts.

An HTML page, the same as Markdown, and Gradescope's results.json. They name the other members of a
group and the reasons of adjustments, and say nothing of any other student. Adjustments of the kind
`note` are the staff's own, and aren't shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from grader.batch.course.records import Adjustment, AdjustmentKind, Entry, Gradebook
from grader.evidence import Evidence
from grader.report import gradescope_results, html, markdown
from grader.report.summary import Header, number
from grader.scoring.score import GradeScore
from grader.spec.course_file import time_text

UNTITLED = "Score"


def to_html(book: Gradebook, entry: Entry) -> str:
    """One student's page: self-contained, no script, nothing fetched."""
    return _page(book, entry, html.render, html.render_header)


def to_markdown(book: Gradebook, entry: Entry) -> str:
    """One student's page as Markdown."""
    return _page(book, entry, markdown.render, markdown.render_header)


def to_results(book: Gradebook, entry: Entry) -> str:
    """Gradescope's results.json of the hand-in that counts, with the student's final score.

    "" where no graded hand-in counts.
    """
    return _page(book, entry, gradescope_results.render, lambda header: "")


def _page(
    book: Gradebook,
    entry: Entry,
    render: Callable[[Evidence, GradeScore, Header], str],
    without_grade: Callable[[Header], str],
) -> str:
    counted, header = entry.counted, header_of(book, entry)
    if counted is None or counted.evidence is None or counted.grade is None:
        return without_grade(header)
    return render(counted.evidence, counted.grade, header)


def header_of(book: Gradebook, entry: Entry) -> Header:
    """The top of a page: the student, the final score, and what led to it."""
    return Header(
        title=book.title or UNTITLED,
        name=entry.student.name or entry.student.id,
        score=entry.final_score,
        max_score=book.max_score,
        facts=tuple(_facts(entry)),
        notes=(*(f"not final: {line}" for line in entry.waiting), *entry.notes),
    )


def _facts(entry: Entry) -> Iterator[tuple[str, str]]:
    counted, late = entry.counted, entry.lateness
    if counted is not None and (at := counted.handin.known_time) is not None:
        yield "Handed in", time_text(at.astimezone(late.due.tzinfo) if late.due else at)
    if late.due is not None:
        yield "Due", time_text(late.due)
    if counted is not None and counted.grade is not None:
        yield "Hand-in", f"{counted.handin.id}: {number(counted.grade.score, 4)} points"
    if late.refused:
        yield "Lateness", "too late to be accepted: 0 points"
    elif late.days:
        yield "Lateness", _late(late.days, late.slip_days, late.penalty)
    for each in entry.adjustments:
        if each.kind is not AdjustmentKind.note:
            yield _in_words(each)


def _late(days: int, slip_days: int, penalty: float) -> str:
    """'3 started days late, 2 of them paid with slip days: 10 % off'."""
    text = f"{days} started day{'' if days == 1 else 's'} late"
    if slip_days:
        text += f", {slip_days} of them paid with slip days"
    return f"{text}: {number(100 * penalty)} % off" if penalty else f"{text}: nothing off"


def _in_words(each: Adjustment) -> tuple[str, str]:
    """('-2 points', 'the report was missing'), ('Rules lifted', 'gemm/triton: asked before')."""
    sign = "+" if each.points > 0 else ""
    label = {
        AdjustmentKind.points: f"{sign}{number(each.points, 4)} points",
        AdjustmentKind.lift: "Rules lifted",
        AdjustmentKind.accept_time: "Time accepted",
        AdjustmentKind.reject_time: "Time not accepted",
    }[each.kind]
    about = f"{each.only}: " if each.only else ""
    return label, about + (each.reason or "no reason given")
