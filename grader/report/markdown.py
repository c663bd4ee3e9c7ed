"""The grade as Markdown, for GitHub, Canvas and mail: a table of scores, then the failures.

What a submission may have written stands in code, in a line or in a block, and nowhere else: in
code Markdown has no HTML, no links, no images, and platforms make no mentions of it. The fence of a
block is longer than any run of backticks in it, so that nothing can close it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from grader.evidence import Evidence, VariantEvidence
from grader.report import summary
from grader.report.message import Message, large_size_messages, merged_messages
from grader.report.summary import Header
from grader.sandbox.untrusted import clean, one_line
from grader.scoring.score import SKIPPED_AS_WRONG, CheckScore, GradeScore, VariantScore
from grader.status import Status

WIDTH = 88  # of a paragraph in a block, where platforms don't wrap lines


def render(evidence: Evidence, grade: GradeScore, header: Header | None = None) -> str:
    """The grade as Markdown text that ends in a line break.

    A `header` says whose final score it is and how it came about; the grade is the hand-in's then.
    """
    lines = [*_header_lines(header), ""] if header else []
    mark = "##" if header else "#"
    lines += [f"{mark} {'The hand-in' if header else 'Score of'} {code(grade.submission)}", ""]
    total = summary.total_line(grade)
    lines += [f"{code(total)}", ""]
    if not grade.complete:
        lines += [summary.INTERRUPTED_LINE, ""]
    if summary.is_unconfined(grade):
        lines += [summary.UNCONFINED_LINE, ""]
    for where, detail in summary.grader_errors(evidence, grade):
        lines += [f"**The grader failed on {code(where)}.** {summary.GRADER_ERROR_LINE}", ""]
        lines += [*block(detail), ""] if detail else []
    lines += [*_table(grade), ""]
    by_name = evidence.by_name
    for exercise in grade.exercises:
        for variant in exercise.variants:
            observed = by_name.get((exercise.name, variant.name))
            if failures := list(_failures(variant, observed)):
                lines += [f"{mark}# {exercise.name}/{variant.name}", "", *failures]
    return "\n".join(lines).rstrip("\n") + "\n"


def render_header(header: Header) -> str:
    """The header alone, where there is no hand-in to show."""
    return "\n".join(_header_lines(header)).rstrip("\n") + "\n"


def code(text: str) -> str:
    """One line of anybody's text as a code span; "" where there is none."""
    line = one_line(text)
    if not line:
        return ""
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    pad = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def block(text: str) -> list[str]:
    """Anybody's text as the lines of a block of code."""
    lines = clean(text).strip("\n").split("\n")
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *lines, fence]


def _header_lines(header: Header) -> list[str]:
    lines = [f"# {code(header.title)}: {code(header.name)}", "", f"**{header.points}**", ""]
    lines += [f"- {name}: {code(value)}" for name, value in header.facts]
    if header.notes:
        lines += ["", "Notes:", "", *(f"- {code(note)}" for note in header.notes)]
    return lines


def _table(grade: GradeScore) -> list[str]:
    rows = ["| Exercise | Variant | Check | Result | Points |", "|---|---|---|---|---:|"]
    for exercise in grade.exercises:
        name = exercise.name
        for variant in exercise.variants:
            bonus = " (bonus)" if variant.is_bonus else ""
            for place, check in enumerate(variant.checks):
                label = f"{variant.name}{bonus}" if place == 0 else ""
                cells = (name, label, check.name, _result(check), summary.points(check))
                rows.append(f"| {' | '.join(cells)} |")
                name = ""
    return rows


def _result(check: CheckScore) -> str:
    """The status in words; what the check said of it stands below, in code."""
    if check.message in SKIPPED_AS_WRONG:
        return check.message
    if len({part.status for part in check.parts}) > 1:
        return summary.statuses_in_words(check.parts)
    return check.status.headline


def _failures(variant: VariantScore, observed: VariantEvidence | None) -> Iterator[str]:
    if variant.status is Status.not_attempted:
        yield from (code(summary.not_attempted(variant)), "")
        return
    for check in variant.checks:
        if not check.parts and check.message and check.message not in SKIPPED_AS_WRONG:
            yield from (f"- {check.name}: {code(check.message)}", "")
    if observed is None:
        return
    counted = summary.counted_parts(variant, observed)
    for message in (*merged_messages(counted), *large_size_messages(observed)):
        yield from _message(message)


def _message(message: Message) -> Iterator[str]:
    paragraph = textwrap.fill(
        message.paragraph, WIDTH, break_long_words=False, break_on_hyphens=False
    )
    yield from block(paragraph)
    yield ""
    if message.frame:
        yield from (*block(message.frame), "")
    if message.reproduce:
        yield from ("Reproduce:", "", *block(message.reproduce), "")
    if message.detail:
        words = (
            "What the kernel's process reported:" if message.observed_by == "worker" else "Details:"
        )
        yield from (words, "", *block(message.detail), "")
