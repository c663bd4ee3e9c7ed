"""The report a student reads in the terminal.

Words carry the meaning and colour only repeats it, so it reads the same piped to a file. Rich
markup is never parsed: all text goes in as rich.text.Text.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from grader.evidence import Evidence
from grader.report import summary
from grader.report.message import Message, clean, merged_messages, one_line, shorten_middle
from grader.score import ExerciseScore, GradeScore
from grader.status import Status

WIDEST = 96  # columns; longer lines are hard to read
SHOWN_FAILURES = 4  # kinds of failure per variant; all of them are in the other reports
NAME_WIDTH = 20  # columns; the same in every table, so that they line up
DETAIL_SHOWN = 1500  # characters of a traceback or compiler output

_STYLES = {"passed": "green", "failed": "bold red", "undecided": "yellow"}


def render(evidence: Evidence, grade: GradeScore, console: Console) -> None:
    """Print the report of one grade on `console`."""
    _print(console, f"warpgrade: {one_line(grade.submission)}, seed {grade.seed}", "bold")
    _print(console, _conditions(grade), "dim")
    for exercise in grade.exercises:
        console.print()
        _print(console, f"{one_line(exercise.title)} ({one_line(exercise.name)})", "bold")
        console.print(_table(exercise, console), width=_width(console))
    _failures(evidence, grade, console)
    _grader_errors(evidence, grade, console)
    console.print()
    if not grade.complete:
        _print(console, summary.INTERRUPTED_LINE, "yellow")
    if not grade.exercises:
        _print(console, "Nothing was graded: no exercise was asked for.", "yellow")
    elif summary.is_untouched(grade):
        _print(console, f"{_capital(summary.total_line(grade))}.", "bold")
        _print(console, "Not attempted yet.")
        console.print(_text(summary.first_step(grade), console), soft_wrap=True)
    else:
        _print(console, f"{_capital(summary.total_line(grade))}.", "bold")


def _conditions(grade: GradeScore) -> str:
    """'GPU: none; sandbox: bubblewrap'."""
    found = dict(summary.environment_lines(grade))
    return "; ".join(f"{name}: {found[name]}" for name in ("GPU", "sandbox") if name in found)


def _table(exercise: ExerciseScore, console: Console) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, expand=True, show_header=False)
    table.add_column(no_wrap=True, min_width=NAME_WIDTH)
    table.add_column(ratio=1, overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    for variant in exercise.variants:
        heading = one_line(f"{variant.name}  ({variant.file})")
        points = summary.points(variant)
        if variant.status is Status.not_attempted:
            _row(table, console, heading, summary.not_attempted(variant), points, variant.status)
            continue
        _row(table, console, heading, "", points)
        for check in variant.checks:
            result = summary.result(check)
            points = summary.points(check)
            _row(table, console, f"  {one_line(check.name)}", result, points, check.status)
    return table


def _row(
    table: Table,
    console: Console,
    name: str,
    result: str,
    points: str,
    status: Status | None = None,
) -> None:
    style = _STYLES[summary.tone(status)] if status else ""
    cells = ((name, ""), (result, style), (points, "" if status else "bold"))
    table.add_row(*(_text(text, console, style) for text, style in cells))


def _failures(evidence: Evidence, grade: GradeScore, console: Console) -> None:
    for _, variant, seen in summary.scored_variants(evidence, grade):
        if seen.not_attempted:
            continue
        messages = merged_messages(summary.counted_parts(variant, seen))
        for message in messages[:SHOWN_FAILURES]:
            _failure(message, console)
        hidden = len(messages) - SHOWN_FAILURES
        if hidden > 0:
            console.print()
            kinds = "kind" if hidden == 1 else "kinds"
            _print(console, f"{hidden} more {kinds} of failure: see --html FILE.", "yellow")


def _failure(message: Message, console: Console) -> None:
    console.print()
    _print(console, message.headline, _STYLES["failed"])
    body = " ".join(filter(None, (message.body, message.scope)))
    if body:
        _indented(console, body)
    if message.detail:
        _indented(console, shorten_middle(message.detail, DETAIL_SHOWN), "dim")
    if message.reproduce:
        _indented(console, "Reproduce:")
        # One unbroken line however narrow the window is: it must paste as one command.
        console.print(_text(f"  {message.reproduce}", console, "cyan"), soft_wrap=True)


def _grader_errors(evidence: Evidence, grade: GradeScore, console: Console) -> None:
    for where, detail in summary.grader_errors(evidence, grade):
        console.print()
        _print(console, f"THE GRADER FAILED on {one_line(where)}", "bold white on red")
        _indented(console, summary.GRADER_ERROR_LINE)
        _indented(console, detail, "dim")


def _indented(console: Console, text: str, style: str = "") -> None:
    _print(console, text, style, indent=2)


def _print(console: Console, text: str, style: str = "", indent: int = 0) -> None:
    for line in _text(text, console, style).wrap(console, _width(console) - indent):
        line.rstrip()
        console.print(Text(" " * indent) + line, soft_wrap=True)


def _text(text: str, console: Console, style: str = "") -> Text:
    """Clean text, with what the console's encoding can't carry replaced."""
    encoding = console.encoding or "utf-8"
    carried = clean(text).encode(encoding, "replace").decode(encoding)
    return Text(carried, style=style)


def _width(console: Console) -> int:
    return min(console.width, WIDEST)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
