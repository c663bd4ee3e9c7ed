"""The grade as Gradescope's results.json: a test per check that was decided.

Gradescope knows passed and failed only, and shows a test of 0 of 0 points as passed, so the text of
a test begins with its status. What this machine could not decide is named in the text above the
tests: a red test would look like lost points. A test's maximum is what could be given here. Where a
student can't see one of the tests, Gradescope hides the total, and so does the text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal

from grader.evidence import Evidence, VariantEvidence
from grader.report import summary
from grader.report.message import DETAIL_LIMIT, merged_messages
from grader.report.summary import Header
from grader.sandbox.untrusted import clean, shorten_middle
from grader.scoring.score import SKIPPED_AS_WRONG, CheckScore, GradeScore, VariantScore
from grader.status import Status

SCHEMA = 1  # of what stands in extra_data
Visibility = Literal["hidden", "after_due_date", "after_published", "visible"]
Visible = Callable[[str, str, str], Visibility]  # of an exercise, a variant and a check


def render(
    evidence: Evidence,
    grade: GradeScore,
    header: Header | None = None,
    visibility: Visible = lambda *names: "visible",
) -> str:
    """The file's text.

    `score` is the header's where there is one (lateness and people's points are in it), else the
    grade's own; with a bonus it may be above the maximum.
    """
    by_name = evidence.by_name
    tests: list[dict[str, Any]] = []
    undecided: list[str] = []
    hides = False
    for place, exercise in enumerate(grade.exercises, start=1):
        count = 0
        for variant in exercise.variants:
            observed = by_name.get((exercise.name, variant.name))
            for check in variant.checks:
                shown = visibility(exercise.name, variant.name, check.name)
                hides |= shown != "visible"
                if not check.max_score or check.gradable:
                    count += 1
                    number = f"{place}.{count}"
                    tests.append(_test(exercise.name, variant, check, observed, number, shown))
                elif shown == "visible":
                    name = f"{exercise.name}/{variant.name} {check.name}"
                    undecided.append(f"{name}: {summary.result(check)}")
    names = ("score", "gradable", "max_score", "complete")
    own = {"schema": SCHEMA, **{name: getattr(grade, name) for name in names}}
    score = grade.score if header is None or header.score is None else header.score
    data = {
        "score": score,
        "execution_time": round(evidence.seconds, 3),
        "output": "\n".join(_output(evidence, grade, header, undecided, hides)),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
        "extra_data": {"warpgrade": own},
    }
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def _test(
    exercise: str,
    variant: VariantScore,
    check: CheckScore,
    observed: VariantEvidence | None,
    number: str,
    shown: Visibility,
) -> dict[str, Any]:
    bonus = " (bonus)" if variant.is_bonus else ""
    return {
        "score": check.score,
        "max_score": check.gradable,
        "status": "failed" if check.status.is_failure else "passed",
        "name": f"{exercise}/{variant.name}{bonus}: {check.name}",
        "number": number,
        "output": shorten_middle(_text(variant, check, observed), DETAIL_LIMIT),
        "tags": [exercise, variant.name],
        "visibility": shown,
    }


def _text(variant: VariantScore, check: CheckScore, observed: VariantEvidence | None) -> str:
    """What a check came to; below it, for a size class, its failures with how to repeat them."""
    result = summary.result(check)
    if check.status is Status.not_attempted:
        return summary.not_attempted(variant)
    if observed is None or not check.parts or check.message in SKIPPED_AS_WRONG:
        return result
    counted = summary.counted_parts(variant, observed)
    own = tuple(part for part in counted.parts if part.size_class == check.name)
    of_class = replace(counted, parts=own)
    paragraphs = [result]
    for each in merged_messages(of_class):
        paragraphs += (
            each.paragraph,
            each.reproduce and f"Reproduce: {each.reproduce}",
            each.detail,
        )
    for case, text in summary.printed(of_class):
        paragraphs.append(clean(f"Printed by kernels for {case}:\n{text}"))
    return "\n\n".join(filter(None, paragraphs))


def _output(
    evidence: Evidence, grade: GradeScore, header: Header | None, undecided: list[str], hides: bool
) -> Iterator[str]:
    if header is not None:
        yield clean(header.title if hides else f"{header.title}: {header.points}")
        for name, value in () if hides else header.facts:
            yield clean(f"{name}: {value}")
        yield from map(clean, header.notes)
    if not hides:  # or the sum would tell what the hidden tests came to
        yield clean(f"{grade.submission}: {summary.total_line(grade)}.")
    if not grade.complete:
        yield summary.INTERRUPTED_LINE
    if summary.grader_errors(evidence, grade):
        yield f"The grader failed on a part. {summary.GRADER_ERROR_LINE}"
    if undecided:
        yield "Not decided here, and no points lost:"
        yield from (clean(f"  {line}") for line in undecided)
