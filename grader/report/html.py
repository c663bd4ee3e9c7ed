"""The grade as one self-contained HTML file: no script, nothing fetched, readable on paper."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grader.evidence import Baseline, Evidence, PerformanceEvidence, VariantEvidence
from grader.report import performance, summary
from grader.report.message import large_size_messages, merged_messages
from grader.report.picture import drawn
from grader.report.summary import Header
from grader.sandbox.untrusted import clean, one_line
from grader.scoring.score import ExerciseScore, GradeScore
from grader.status import Status

if TYPE_CHECKING:
    from jinja2 import Template

HERE = Path(__file__).parent


def render(evidence: Evidence, grade: GradeScore, header: Header | None = None) -> str:
    """The grade as an HTML document. Everything from the evidence is cleaned and escaped.

    A `header` says whose final score it is and how it came about; the grade is the hand-in's then.
    """
    return template("grade.html").render(
        header=header,
        grade=grade,
        numbers=summary.out_of(summary.regular_score(grade), grade.gradable, " ").split(),
        regular=summary.regular_score(grade),
        bonus=summary.bonus_line(grade),
        total=summary.total_line(grade),
        exercises=[_exercise(exercise, evidence.by_name) for exercise in grade.exercises],
        first_step=summary.first_step(grade) if summary.is_untouched(grade) and not header else "",
        errors=summary.grader_errors(evidence, grade),
        error_line=summary.GRADER_ERROR_LINE,
        unconfined=summary.UNCONFINED_LINE if summary.is_unconfined(grade) else "",
        interrupted="" if grade.complete else summary.INTERRUPTED_LINE,
        environment=summary.environment_lines(grade),
    )


def render_header(header: Header) -> str:
    """A document of the header alone, where there is no hand-in to show."""
    return template("header_page.html").render(header=header)


@lru_cache
def template(name: str, folder: Path = HERE) -> Template:
    """A template in `folder`, which may include those of reports; text in it is made safe."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # most commands need none

    environment = Environment(
        loader=FileSystemLoader([folder, HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: clean(value) if type(value) is str else value,
    )
    environment.globals["scripts"] = ""  # that a page may run: see head.html
    environment.filters |= {
        each.__name__: each
        for each in (drawn, summary.number, summary.points, summary.result, summary.tone)
    }
    return environment.get_template(name)


def _exercise(
    exercise: ExerciseScore, by_name: dict[tuple[str, str], VariantEvidence]
) -> dict[str, Any]:
    variants = []
    for variant in exercise.variants:
        observed = by_name.get((exercise.name, variant.name))
        is_attempted = variant.status is not Status.not_attempted
        messages = []
        if observed and is_attempted:
            messages += merged_messages(summary.counted_parts(variant, observed))
            messages += large_size_messages(observed)
        variants.append(
            {
                "score": variant,
                "not_attempted": "" if is_attempted else summary.not_attempted(variant),
                "messages": messages,
                "timing": _timing(observed.performance) if observed else "",
                "roofline": _roofline(observed) if observed else [],
                "memory": summary.memory_rows(observed) if observed else [],
                "printed": summary.printed(observed) if observed else [],
            }
        )
    return {"score": exercise, "points": summary.exercise_points(exercise), "variants": variants}


def _roofline(observed: VariantEvidence) -> list[str]:
    return performance.sentences(observed.performance, memory=observed.memory)


def _timing(timed: PerformanceEvidence | None) -> str:
    """'Timed on NVIDIA H100: 93.1 us per call, 2884 GB/s. torch: 93.2 us; this kernel has ...'"""
    if timed is None or timed.microseconds is None:
        return ""
    return " ".join(_timing_of_case(each, named=bool(timed.further)) for each in timed.every)


def _timing_of_case(timed: PerformanceEvidence, named: bool) -> str:
    case = f", {timed.case}" if named else ""
    took = timed.microseconds or math.nan
    speed = f", {timed.bytes / took / 1000:.0f} GB/s" if timed.bytes else ""
    line = f"Timed on {timed.device}{case}: {took:.1f} us per call{speed}."
    return one_line(line + "".join(map(_beside, timed.baselines)) + _how_measured(timed))


def _beside(baseline: Baseline) -> str:
    doubt = ""
    if baseline.low is not None and baseline.high is not None:
        doubt = f" ({baseline.low:.3f} to {baseline.high:.3f})"
    took = f" {baseline.name}: {baseline.microseconds:.1f} us;"
    if baseline.name == "roofline":
        return f"{took} this kernel reaches {baseline.ratio:.3f}{doubt} of it."
    return f"{took} this kernel has {baseline.ratio:.3f}{doubt} of its speed."


def _how_measured(timed: PerformanceEvidence) -> str:
    """' From 24 pairs; 2 more were void (slept in the short run, 2). The budget ended first.'"""
    if not timed.samples:
        return ""
    text = f" From {timed.samples} pairs"
    if timed.voids:
        reasons = "; ".join(f"{reason}, {count}" for reason, count in timed.voids.items())
        text += f"; {sum(timed.voids.values())} more were void ({reasons})"
    if timed.budget_ended:
        text += "; the time for it ended before everything was decided"
    text += f". {timed.disturbed}." if timed.disturbed else "."
    return text + "".join(f" Timed anew after noise: {noise}." for noise in timed.earlier)
