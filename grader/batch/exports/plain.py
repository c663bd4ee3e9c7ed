"""A gradebook without its evidence, as a CSV file for people and as JSON for programs.

The JSON has a schema number. Fields may be added under the same number; none may change its
meaning or go.

    schema, title, device, seed, max_score, complete, made_at,
    entries[]
      id, platform_id, name, email, section, state, score, raw, gradable, max_score, bonus,
      handin, submitted_at, due, days_late, slip_days, penalty, refused, points, handins,
      adjustments[]: kind, reason, only, points, by, at
      notes[], waiting[]
      variants[]: exercise, variant, status, score, gradable, max_score, is_bonus
    unmatched_handins[]: id, members[], submitted_at, problem, notes[]
    unmatched_rows[]

`state` is one of STATES; `points` are those that people added or took; `penalty` is the share of
the score that lateness took, 0 to 1. Ids are exact there; times are ISO 8601 with an offset.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from grader.batch.course.records import (
    Adjustment,
    AdjustmentKind,
    Attempt,
    Entry,
    Gradebook,
    Handin,
)
from grader.batch.exports.cells import expect_complete, identifier, points, table, text
from grader.batch.gradebook import incomplete
from grader.sandbox.untrusted import clean
from grader.scoring.score import VariantScore

SCHEMA = 1
STATES = {
    "graded": "graded",
    "waiting": "no final score yet",
    "unreadable": "can't be read",
    "missing": "nothing handed in",
}
_CELLS: Mapping[str, Callable[[Any], str]] = {
    "id": identifier, "platform_id": identifier, "name": text, "email": text, "section": text,
    "state": text, "score": points, "max_score": points, "raw": points, "gradable": points,
    "bonus": points, "handin": identifier, "submitted_at": str, "due": str, "days_late": str,
    "slip_days": str, "penalty_percent": points, "refused": str, "points": points, "handins": str,
    "device": text, "seed": str, "adjustments": text, "notes": text,
}  # fmt: skip


def render(book: Gradebook, *, allow_incomplete: bool = False) -> str:
    """The CSV file's text: a row per student, then two columns per variant: points and status.

    Raises Mistake where a score isn't final.
    """
    expect_complete(book, allow_incomplete)
    names = list(
        dict.fromkeys(name for entry in book.entries for name, _ in _variants(entry.counted))
    )
    header = [*_CELLS, *(column for name in names for column in (name, f"{name} status"))]
    return table(header, [_row(book, entry, names) for entry in book.entries])


def render_json(book: Gradebook, *, allow_incomplete: bool = False) -> str:
    """The JSON file's text. Raises Mistake where a score isn't final."""
    expect_complete(book, allow_incomplete)
    data = {
        "schema": SCHEMA,
        "title": clean(book.title),
        "device": book.device,
        "seed": book.seed,
        "max_score": book.max_score,
        "complete": not incomplete(book),
        "made_at": book.made_at,
        "entries": [_entry(book, entry) for entry in book.entries],
        "unmatched_handins": [_unmatched(handin) for handin in book.unmatched_handins],
        "unmatched_rows": book.unmatched_rows,
    }
    return json.dumps(data, indent=1, allow_nan=False, default=datetime.isoformat) + "\n"


def state(entry: Entry) -> str:
    """The state of a student's grade, as one of STATES."""
    if entry.waiting:
        return "waiting"
    if entry.score is not None:
        return "graded"
    return "unreadable" if entry.attempts else "missing"


def _entry(book: Gradebook, entry: Entry) -> dict[str, Any]:
    student, late, handin, grade = entry.student, entry.lateness, entry.handin, entry.grade
    return {
        "id": student.id,
        "platform_id": student.platform_id,
        "name": clean(student.name),
        "email": student.email,
        "section": clean(student.section),
        "state": state(entry),
        "score": entry.final_score,
        "raw": entry.raw,
        "gradable": grade and grade.gradable,
        "max_score": book.max_score,
        "bonus": grade and grade.bonus,
        "handin": handin and handin.id,
        "submitted_at": handin and handin.submitted_at,
        "due": late.due,
        "days_late": late.days,
        "slip_days": late.slip_days,
        "penalty": late.penalty,
        "refused": late.refused,
        "points": _added(entry),
        "handins": len(entry.attempts),
        "adjustments": [_adjustment(each) for each in entry.adjustments],
        "notes": entry.notes,
        "waiting": entry.waiting,
        "variants": [_variant(name, variant) for name, variant in _variants(entry.counted)],
    }


def _adjustment(each: Adjustment) -> dict[str, Any]:
    data = asdict(each) | {"reason": clean(each.reason), "by": clean(each.by)}
    del data["student"]
    return data


def _variant(name: str, variant: VariantScore) -> dict[str, Any]:
    names = ("score", "gradable", "max_score", "is_bonus")
    exercise = {"exercise": name.partition("/")[0], "variant": variant.name}
    return {**exercise, "status": variant.status, **{n: getattr(variant, n) for n in names}}


def _row(book: Gradebook, entry: Entry, names: list[str]) -> list[str]:
    data = _entry(book, entry)
    times = {key: data[key].isoformat() if data[key] else "" for key in ("submitted_at", "due")}
    data |= times | {
        "state": STATES[data["state"]],
        "handin": data["handin"] or "",
        "penalty_percent": data["penalty"] * 100,
        "refused": "yes" if data["refused"] else "no",
        "device": book.device,
        "seed": book.seed,
        "adjustments": "; ".join(_in_words(each) for each in data["adjustments"]),
        "notes": "; ".join((*entry.waiting, *entry.notes)),
    }
    row = [cell(data[column]) for column, cell in _CELLS.items()]
    variants = dict(_variants(entry.counted))
    for name in names:
        variant = variants.get(name)
        row += [points(variant.score), variant.status.value] if variant else ["", ""]
    return row


def _in_words(adjustment: dict[str, Any]) -> str:
    """'points -2: plagiarised comment', 'accept_time of gemm/triton: seen in ncu'."""
    decision: str = adjustment["kind"].value
    if adjustment["kind"] is AdjustmentKind.points:
        decision += f" {adjustment['points']:+g}"
    of = f" of {adjustment['only']}" if adjustment["only"] else ""
    return f"{decision}{of}: {adjustment['reason']}"


def _added(entry: Entry) -> float:
    own = [each for each in entry.adjustments if each.student == entry.student.id]
    return round(sum(a.points for a in own if a.kind is AdjustmentKind.points), 4)


def _variants(attempt: Attempt | None) -> list[tuple[str, VariantScore]]:
    if attempt is None or attempt.grade is None:
        return []
    return [
        (f"{exercise.name}/{variant.name}", variant)
        for exercise in attempt.grade.exercises
        for variant in exercise.variants
    ]


def _unmatched(handin: Handin) -> dict[str, Any]:
    return {
        "id": clean(handin.id),
        "members": [asdict(each) | {"name": clean(each.name)} for each in handin.members],
        "submitted_at": handin.submitted_at,
        "problem": clean(handin.problem),
        "notes": [clean(note) for note in handin.notes],
    }
