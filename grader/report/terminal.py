"""The report a student reads in the terminal.

Colour only repeats what words say, so that the report reads the same in a file. Rich's markup is
never parsed: all text is a rich.text.Text.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Table
from rich.text import Text

from grader.evidence import Evidence, PartEvidence, VariantEvidence
from grader.report import narrow, performance, summary
from grader.report.code_frame import frame
from grader.report.message import (
    Message,
    case_in_words,
    compose,
    kind_of,
    large_size_messages,
    merged_messages,
    part_text,
    undecided_messages,
)
from grader.sandbox.untrusted import clean, one_line, shorten_middle
from grader.scoring.score import MEMORY, CheckScore, ExerciseScore, GradeScore, VariantScore
from grader.spec import Variant
from grader.status import Status

WIDEST = 96  # columns; longer lines are hard to read
SHOWN_OTHERS = 3  # kinds of failure per variant that are named below the first's message
FULL_WIDTH = 80  # columns; in fewer, messages have more lines
MESSAGE_LINES = 12  # of a message in that width, unless all is asked for
DETAIL_LINES = 4  # of a traceback or compiler output, unless all is asked for
SHOWN_LINES = 12  # of the lines that use memory, and of what is printed
SHOWN_OF_CASE = 60  # lines that are printed in a case that was asked for
NAME_WIDTH = 20  # columns; the same in every table, so that they line up
RESULT_WIDTH = 26  # columns; with fewer for what checks came to, tables become blocks
DETAIL_SHOWN = 1500  # characters of a traceback or compiler output

_STYLES = {"passed": "green", "failed": "bold red", "undecided": "yellow"}


def render(evidence: Evidence, grade: GradeScore, console: Console, verbose: bool = False) -> None:
    """Print the report of one grade on `console`."""
    _print(console, f"warpgrade: {one_line(grade.submission)}, seed {grade.seed}", "bold")
    _print(console, _conditions(grade), "dim")
    if summary.is_unconfined(grade):
        _print(console, summary.UNCONFINED_LINE, "yellow")
    tables = [_table(exercise, console) for exercise in grade.exercises]
    blocks = not all(narrow.fits(each, _width(console), RESULT_WIDTH) for each in tables)
    for exercise, table in zip(grade.exercises, tables, strict=True):
        console.print()
        _print(console, f"{one_line(exercise.title)} ({one_line(exercise.name)})", "bold")
        _show(table, console, blocks)
    _failures(evidence, grade, console, verbose)
    for _, variant, observed in summary.scored_variants(evidence, grade):
        _printed(observed, console)
        _notes(observed, console)
        _messages(large_size_messages(observed), console, verbose)
        _timing(observed, console)
        if any(c.name == MEMORY and c.status is Status.target_missed for c in variant.checks):
            _memory(observed, console)
    _grader_errors(summary.grader_errors(evidence, grade), console)
    console.print()
    if not grade.complete:
        _print(console, summary.INTERRUPTED_LINE, "yellow")
    if not grade.exercises:
        _print(console, "Nothing was graded: no exercise was asked for.", "yellow")
        return
    total = summary.total_line(grade)
    _print(console, f"{total[:1].upper()}{total[1:]}.", "bold")
    if summary.is_untouched(grade):
        _print(console, "Not attempted yet.")
        step = _text(summary.first_step(grade), console).plain
        narrow.say(step, console, whole=step[step.rindex("then run: ") + 10 :])


def render_check(
    observed: VariantEvidence,
    console: Console,
    case: str = "",
    verbose: bool = False,
    variant: Variant | None = None,
    judged: VariantScore | None = None,
) -> None:
    """Print what checking one variant showed. `case` is the only case that was run, if not "".

    With the spec's `variant`, how its work is shared is told too, and which of it has no points.
    With its score `judged`, the verdicts on memory and speed are rows, as in a grade.
    """
    name = f"{observed.exercise}/{observed.variant}"
    if observed.not_attempted:
        reason = f"{name}: {Status.not_attempted.headline}: {one_line(observed.not_attempted)}."
        _print(console, reason, _STYLES["undecided"])
        return
    if case:
        for part in observed.parts:
            _one_case(name, part, case, console)
    else:
        _print(console, one_line(f"{name} ({observed.file})"), "bold")
        table = _check_table(observed, judged.checks if judged else (), console)
        _show(table, console, not narrow.fits(table, _width(console), RESULT_WIDTH))
    undecided = [] if case else undecided_messages(observed)
    _messages(merged_messages(observed, given=bool(case)), console, verbose or bool(case))
    for message in undecided:
        console.print()
        _failure(message, console, verbose)
    _printed(observed, console, SHOWN_OF_CASE if case else SHOWN_LINES)
    _notes(observed, console)
    _messages(large_size_messages(observed), console, verbose)
    _memory(observed, console)
    if variant is not None and (sentences := summary.shared_work(observed, variant)):
        _heading(console, observed, ": how work is shared")
        for each in sentences:
            _indented(console, each)
    _grader_errors(summary.errors_in(observed), console)


def part_block(
    exercise: str,
    variant: str,
    part: PartEvidence,
    width: int,
    shown_parts: dict[tuple[str, ...], str] | None = None,
) -> str:
    """Why a part did not pass, in lines of at most `width` columns but for what must paste whole.

    The detail is left out. "" where the part passed. `shown_parts` are those that were shown
    in full, by kind of failure: what fails as one of them does is a line, and others are added.
    """
    if part.status is Status.passed:
        return ""
    text = io.StringIO()
    console = Console(
        file=text, width=width, color_system=None, legacy_windows=False, markup=False, emoji=False
    )
    kind = (exercise, variant, *kind_of(part.failures[0])) if part.failures else ()
    if shown_parts is not None and kind:
        name = f"{part.dtype} {part.size_class}"
        if (other := shown_parts.setdefault(kind, name)) != name:
            _print(console, f"{exercise}/{variant}: fails as {other} does, which is shown in full.")
            return text.getvalue().strip("\n")
    if part.failures:
        _failure(compose(exercise, variant, part.failures[0]), console, with_detail=False)
    elif part.status is Status.grader_error:
        observed = VariantEvidence(exercise, variant, "", parts=(part,))
        _grader_errors(summary.errors_in(observed), console)
    else:
        _print(console, part_text(exercise, variant, part))
    return text.getvalue().strip("\n")


def _one_case(name: str, part: PartEvidence, case: str, console: Console) -> None:
    """The line for a case that passed or wasn't decided; a failure speaks for itself."""
    if part.status.is_failure or part.status is Status.grader_error:
        return
    reason = one_line(part.reason).rstrip(".")
    note = f" ({reason})" if reason else ""
    words = f"{name}: {part.status.headline} for {case_in_words(one_line(case))}{note}."
    _print(console, words, _STYLES[summary.tone(part.status)])


def _check_table(
    observed: VariantEvidence, checks: Sequence[CheckScore], console: Console
) -> Table:
    """A row per size class: what each dtype came to, and how many cases were run.

    Below stand those of `checks` that have no parts: memory and performance.
    """
    table = _new_table()
    for name in dict.fromkeys(part.size_class for part in observed.parts):
        parts = [part for part in observed.parts if part.size_class == name]
        notes = dict.fromkeys(
            one_line(part.reason)
            for part in parts
            if part.reason and not part.failures and part.status is not Status.grader_error
        )
        result = "; ".join((summary.statuses_in_words(parts), *notes))
        cases = sum(part.cases_run for part in parts)
        counted = f"{cases} case{'' if cases == 1 else 's'}"
        status = replace(observed, parts=tuple(parts)).correctness
        _row(table, console, f"  {one_line(name)}", result, counted, status)
    for check in checks:
        if not check.parts:
            result = summary.result(check)
            _row(table, console, f"  {one_line(check.name)}", result, "", check.status)
    return table


def _conditions(grade: GradeScore) -> str:
    """'GPU: none; sandbox: bubblewrap'."""
    wanted = ("GPU", "cases on the GPU", "sandbox", "rules lifted")
    lines = dict(summary.environment_lines(grade))
    return "; ".join(f"{name}: {lines[name]}" for name in wanted if name in lines)


def _table(exercise: ExerciseScore, console: Console) -> Table:
    table = _new_table()
    for variant in exercise.variants:
        bonus = ", bonus" if variant.is_bonus else ""
        heading = one_line(f"{variant.name}  ({variant.file}){bonus}")
        points = summary.points(variant)
        if variant.status is Status.not_attempted:
            _row(table, console, heading, summary.not_attempted(variant), points, variant.status)
            continue
        _row(table, console, heading, "", points, None)
        for check in variant.checks:
            result = summary.result(check)
            points = summary.points(check)
            _row(table, console, f"  {one_line(check.name)}", result, points, check.status)
    return table


def _new_table() -> Table:
    table = narrow.table(expand=True, show_header=False)
    table.add_column(no_wrap=True, min_width=NAME_WIDTH)
    table.add_column(ratio=1, overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    return table


def _show(table: Table, console: Console, blocks: bool) -> None:
    """The table, or a block per row: its name, its points, then what it came to."""
    narrow.show(table, console, _width(console), order=(0, 2, 1), blocks=blocks)


def _row(
    table: Table, console: Console, name: str, result: str, points: str, status: Status | None
) -> None:
    style = _STYLES[summary.tone(status)] if status else ""
    cells = ((name, ""), (result, style), (points, "" if status else "bold"))
    table.add_row(*(_text(text, console, style) for text, style in cells))


def _failures(evidence: Evidence, grade: GradeScore, console: Console, verbose: bool) -> None:
    for _, variant, observed in summary.scored_variants(evidence, grade):
        if observed.not_attempted:
            continue
        _messages(merged_messages(summary.counted_parts(variant, observed)), console, verbose)


def _messages(messages: Sequence[Message], console: Console, verbose: bool) -> None:
    """The first message, and what else there is in a line: it mostly follows from the first."""
    whole = len(messages) if verbose else 1
    # Without places, so that it mostly is one line.
    kinds = (message.kind.partition(" at ")[0] for message in messages[whole:])
    shown = {message.kind.partition(" at ")[0] for message in messages[:whole]}
    others = list(dict.fromkeys("more of this kind" if each in shown else each for each in kinds))
    also: list[Text] = []
    if others:
        listed = "; ".join(others[:SHOWN_OTHERS]) + ("; ..." if len(others) > SHOWN_OTHERS else "")
        also = _lines(f"Also seen: {listed}. --verbose shows all.", console, "yellow", 2)
    for message in messages[:whole]:
        console.print()
        _failure(message, console, verbose, beside=len(also))
    _put(also, console)


def _failure(
    message: Message,
    console: Console,
    verbose: bool = False,
    with_detail: bool = True,
    beside: int = 0,
) -> None:
    """A message, in at most MESSAGE_LINES lines with `beside` others unless it is `verbose`.

    What it has more is left out in this order: of its detail all but the end, the parts that fail
    (the table has them too), what the case showed where a cause explains it, frame lines beyond the
    first two with their marks, the end of the body.
    """
    headline = _lines(message.headline, console, _STYLES[summary.tone(message.status)])
    frame_rows = _frame(message, console)
    detail = message.detail if with_detail and (verbose or not frame_rows) else ""
    most = math.ceil(MESSAGE_LINES * max(1, FULL_WIDTH / _width(console)))
    most -= beside + len(headline) + 2 * bool(message.reproduce)
    for body in (f"{message.body} {message.scope}", message.body, message.brief):
        body_lines = _lines(body.strip(), console, "", 2) if body.strip() else []
        spare = most - len(body_lines) - len(frame_rows)
        if verbose or spare >= bool(detail):
            break
    else:
        frame_rows = frame_rows[: max(4, len(frame_rows) + spare)]
        body_lines = _shortened(body_lines, max(3, most - len(frame_rows) - bool(detail)), console)
    _put([*headline, *body_lines, *frame_rows], console)
    if detail:
        spare = max(1, most - len(body_lines) - len(frame_rows))
        is_list = message.status is Status.policy_violation
        _detail(detail, console, verbose, spare, is_list)
    if message.reproduce:
        _indented(console, "Reproduce:")
        # One unbroken line however narrow the window is: it must paste as one command.
        console.print(_text(f"  {message.reproduce}", console, "cyan"), soft_wrap=True)


def _frame(message: Message, console: Console) -> list[Text]:
    """The rows of a code frame, cut at the window's edge."""
    rows = []
    width = _width(console)
    for line in frame(message.code, width - 2).plain.splitlines():
        row = _text(f"  {line}", console, "bold red" if "^" in line else "")
        row.truncate(width, overflow="ellipsis")
        rows.append(row)
    return rows


def _shortened(lines: list[Text], most: int, console: Console) -> list[Text]:
    """The first of some lines, and where the others are, in at most `most` lines."""
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], *_lines("... --verbose shows all.", console, "yellow", 2)]


def _detail(detail: str, console: Console, verbose: bool, most: int, is_list: bool) -> None:
    """A traceback or compiler output: its end, which says what happened, or most of it.

    Of a list, such as other lines that break rules, it is the beginning.
    """
    if verbose:
        _indented(console, shorten_middle(detail, DETAIL_SHOWN), "dim")
        return
    lines = _lines(shorten_middle(detail, DETAIL_SHOWN), console, "dim", 2)
    most = min(most, DETAIL_LINES)
    if is_list:
        _put(_shortened(lines, max(most, 2), console), console)
        return
    if len(lines) > most > 1:
        most -= 1
        _indented(console, f"... {len(lines) - most} more lines: see --verbose.", "dim")
    _put(lines[-most:], console)


def _timing(observed: VariantEvidence, console: Console) -> None:
    """How near to which roof the variant came, where it was timed."""
    timed = observed.performance
    for index, sentence in enumerate(performance.sentences(timed, memory=observed.memory)):
        if timed and not index:
            _heading(console, observed, f" on {timed.device}")
        _indented(console, sentence)


def _printed(observed: VariantEvidence, console: Console, most: int = SHOWN_LINES) -> None:
    """What host code and kernels printed, in a few cases."""
    for case, text in summary.printed(observed):
        _heading(console, observed, f": printed for {case}")
        lines = text.split("\n")
        for line in lines[:most]:
            _indented(console, line, "dim")
        if len(lines) > most:
            _indented(console, f"{len(lines) - most} more lines.", "yellow")


def _notes(observed: VariantEvidence, console: Console) -> None:
    """What the grader says of the launcher, each sentence once for a variant."""
    for note in dict.fromkeys(note for part in observed.parts for note in part.notes):
        _heading(console, observed, f": {note}", "yellow")


def _memory(observed: VariantEvidence, console: Console) -> None:
    """What each line of the kernels did to memory, where that was counted."""
    rows = summary.memory_rows(observed)
    if rows:
        _heading(console, observed, ": memory by line")
    for place, access, counted in rows[:SHOWN_LINES]:
        _indented(console, f"{place}  {access}: {counted}")
    if len(rows) > SHOWN_LINES:
        _indented(console, f"{len(rows) - SHOWN_LINES} more lines: see --html FILE.", "yellow")
    if wasted := summary.wasted_sectors(observed):
        _indented(console, wasted)


def _grader_errors(errors: list[tuple[str, str]], console: Console) -> None:
    for where, detail in errors:
        console.print()
        _print(console, f"THE GRADER FAILED on {one_line(where)}", "bold white on red")
        _indented(console, summary.GRADER_ERROR_LINE)
        _indented(console, detail, "dim")


def _heading(console: Console, observed: VariantEvidence, text: str, style: str = "bold") -> None:
    console.print()
    _print(console, one_line(f"{observed.exercise}/{observed.variant}{text}"), style)


def _indented(console: Console, text: str, style: str = "") -> None:
    _print(console, text, style, indent=2)


def _print(console: Console, text: str, style: str = "", indent: int = 0) -> None:
    _put(_lines(text, console, style, indent), console)


def _lines(text: str, console: Console, style: str = "", indent: int = 0) -> list[Text]:
    return narrow.wrapped(_text(text, console, style), _width(console), indent)


def _put(lines: Iterable[Text], console: Console) -> None:
    for line in lines:
        console.print(line, soft_wrap=True)


def _text(text: str, console: Console, style: str = "") -> Text:
    """Clean text, with what the console's encoding can't carry replaced."""
    encoding = console.encoding or "utf-8"
    carried = clean(text).encode(encoding, "replace").decode(encoding)
    return Text(carried, style=style)


def _width(console: Console) -> int:
    return min(console.width, WIDEST)
