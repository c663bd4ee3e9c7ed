"""The grade as JSON: what other programs read, so it has a schema number.

Fields may be added under the same number; none may change its meaning or go.

    schema, submission, seed, score, gradable, max_score, bonus, gradable_bonus, max_bonus,
    complete, environment, exercises[]
      name, title, score, gradable, max_score, bonus, gradable_bonus, max_bonus, variants[]
        name, file, status, is_bonus, score, gradable, max_score, at_large_sizes[], checks[]
          name, status, score, gradable, max_score, message, parts[], failures[], performance,
          memory

The score of an exercise and of the submission holds the points of variants that are a bonus,
`bonus`; `gradable` and `max_score` there don't. For what is no bonus,
score - bonus <= gradable <= max_score; and bonus <= gradable_bonus <= max_bonus. A variant's three
numbers are its own, whether it is a bonus or not.
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

from grader.evidence import Evidence, PerformanceEvidence, VariantEvidence
from grader.report.summary import check_text, find_part
from grader.sandbox.untrusted import clean
from grader.scoring.score import (
    MEMORY,
    PERFORMANCE,
    CheckScore,
    ExerciseScore,
    GradeScore,
    VariantScore,
)
from grader.status import Status

SCHEMA = 1


def render(evidence: Evidence, grade: GradeScore) -> str:
    """The grade as indented JSON text that ends in a line break."""
    data = {
        "schema": SCHEMA,
        "submission": grade.submission,
        "seed": grade.seed,
        **_points(grade),
        **_bonus(grade),
        "complete": grade.complete,
        "environment": grade.environment,
        "exercises": [_exercise(exercise, evidence.by_name) for exercise in grade.exercises],
    }
    return json.dumps(_plain(data), indent=2, allow_nan=False) + "\n"


def _exercise(
    exercise: ExerciseScore, by_name: dict[tuple[str, str], VariantEvidence]
) -> dict[str, Any]:
    variants = [_variant(v, by_name.get((exercise.name, v.name))) for v in exercise.variants]
    names = {"name": exercise.name, "title": exercise.title}
    return {**names, **_points(exercise), **_bonus(exercise), "variants": variants}


def _variant(variant: VariantScore, observed: VariantEvidence | None) -> dict[str, Any]:
    at_large_sizes = observed.at_large_sizes if observed else ()
    return {
        "name": variant.name,
        "file": variant.file,
        "status": variant.status.value,
        "is_bonus": variant.is_bonus,
        **_points(variant),
        "at_large_sizes": [dataclasses.asdict(each) for each in at_large_sizes],
        "checks": [_check(check, observed) for check in variant.checks],
    }


def _check(check: CheckScore, observed: VariantEvidence | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": check.name,
        "status": check.status.value,
        **_points(check),
        "message": check_text(observed, check),
        "parts": [],
        "failures": [],
    }
    if observed is None or observed.not_attempted:
        return data
    for part in check.parts:
        row: dict[str, Any] = dataclasses.asdict(part)
        if own := find_part(observed, check.name, part.dtype):
            row.update(
                cases_run=own.cases_run,
                cases_failed=own.cases_failed,
                seconds=own.seconds,
                reason=own.reason,
                printed=own.printed and dataclasses.asdict(own.printed),
            )
            data["failures"] += [
                {"dtype": part.dtype, **dataclasses.asdict(failure)} for failure in own.failures
            ]
        data["parts"].append(row)
    if check.name == PERFORMANCE and observed.performance is not None:
        data["performance"] = _performance(observed.performance)
    if check.name == MEMORY and observed.memory is not None:
        data["memory"] = dataclasses.asdict(observed.memory)
    return data


def _performance(timed: PerformanceEvidence) -> dict[str, Any]:
    data = dataclasses.asdict(dataclasses.replace(timed, further=()))
    data["further"] = [_performance(each) for each in timed.further]
    if timed.bytes and timed.microseconds:
        data["gigabytes_per_second"] = timed.bytes / timed.microseconds / 1000
    return data


def _points(row: GradeScore | ExerciseScore | VariantScore | CheckScore) -> dict[str, float]:
    return {"score": row.score, "gradable": row.gradable, "max_score": row.max_score}


def _bonus(row: GradeScore | ExerciseScore) -> dict[str, float]:
    return {name: getattr(row, name) for name in ("bonus", "gradable_bonus", "max_bonus")}


def _plain(value: Any) -> Any:
    """Only what JSON has: clean text, finite numbers (else null), lists and objects."""
    if isinstance(value, Status):
        return value.value
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {clean(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return clean(str(value))
