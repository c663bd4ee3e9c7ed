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
from datetime import datetime
from typing import Any

from grader.batch.course.records import AdjustmentKind, Attempt, Entry, Gradebook, Handin
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
_HEADER = (
    "id", "platform_id", "name", "email", "section", "state", "score", "max_score", "raw",
    "gradable", "bonus", "handin", "submitted_at", "due", "days_late", "slip_days",
    "penalty_percent", "refused", "points", "handins", "device", "seed", "adjustments", "notes",
)  # fmt: skip


def render(book: Gradebook, *, allow_incomplete: bool = False) -> str:
    """The CSV file's text: a row per student, then two columns per variant: points and status.

    Raises GradebookError where a score isn't final.
    """
    expect_complete(book, allow_incomplete)
    names = list(
        dict.fromkeys(name for entry in book.entries for name, _ in _variants(entry.counted))
    )
    header = [*_HEADER, *(column for name in names for column in (name, f"{name} status"))]
    return table(header, [_row(book, entry, names) for entry in book.entries])


def render_json(book: Gradebook, *, allow_incomplete: bool = False) -> str:
    """The JSON file's text. Raises GradebookError where a score isn't final."""
    expect_complete(book, allow_incomplete)
    data = {
        "schema": SCHEMA,
        "title": clean(book.title),
        "device": book.device,
        "seed": book.seed,
        "max_score": book.max_score,
        "complete": not incomplete(book),
        "made_at": _time(book.made_at),
        "entries": [_entry(book, entry) for entry in book.entries],
        "unmatched_handins": [_unmatched(handin) for handin in book.unmatched_handins],
        "unmatched_rows": list(book.unmatched_rows),
    }
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def state(entry: Entry) -> str:
    """The state of a student's grade, as one of STATES."""
    if entry.waiting:
        return "waiting"
    if entry.score is not None:
        return "graded"
    return "unreadable" if entry.attempts else "missing"


def _entry(book: Gradebook, entry: Entry) -> dict[str, Any]:
    student, late, counted = entry.student, entry.lateness, entry.counted
    grade = entry.grade
    return {
        "id": student.id,
        "platform_id": student.platform_id,
        "name": clean(student.name),
        "email": student.email,
        "section": clean(student.section),
        "state": state(entry),
        "score": entry.final_score,
        "raw": entry.raw,
        "gradable": grade.gradable if grade else None,
        "max_score": book.max_score,
        "bonus": grade.bonus if grade else None,
        "handin": counted.handin.id if counted else None,
        "submitted_at": _time(counted.handin.submitted_at) if counted else None,
        "due": _time(late.due),
        "days_late": late.days,
        "slip_days": late.slip_days,
        "penalty": late.penalty,
        "refused": late.refused,
        "points": _added(entry),
        "handins": len(entry.attempts),
        "adjustments": [
            {
                "kind": each.kind.value,
                "reason": clean(each.reason),
                "only": each.only,
                "points": each.points,
                "by": clean(each.by),
                "at": _time(each.at),
            }
            for each in entry.adjustments
        ],
        "notes": list(entry.notes),
        "waiting": list(entry.waiting),
        "variants": [_variant(name, variant) for name, variant in _variants(counted)],
    }


def _variant(name: str, variant: VariantScore) -> dict[str, Any]:
    return {
        "exercise": name.partition("/")[0],
        "variant": variant.name,
        "status": variant.status.value,
        "score": variant.score,
        "gradable": variant.gradable,
        "max_score": variant.max_score,
        "is_bonus": variant.is_bonus,
    }


def _row(book: Gradebook, entry: Entry, names: list[str]) -> list[str]:
    data = _entry(book, entry)
    variants = dict(_variants(entry.counted))
    row = [
        *(identifier(data[key]) for key in ("id", "platform_id")),
        *map(text, (data["name"], data["email"], data["section"], STATES[data["state"]])),
        *(points(data[key]) for key in ("score", "max_score", "raw", "gradable", "bonus")),
        identifier(data["handin"] or ""),
        data["submitted_at"] or "",
        data["due"] or "",
        *(str(data[key]) for key in ("days_late", "slip_days")),
        points(data["penalty"] * 100),
        "yes" if data["refused"] else "no",
        points(data["points"]),
        str(data["handins"]),
        text(book.device),
        str(book.seed),
        text("; ".join(_in_words(each) for each in data["adjustments"])),
        text("; ".join((*entry.waiting, *entry.notes))),
    ]
    for name in names:
        variant = variants.get(name)
        row += [points(variant.score), variant.status.value] if variant else ["", ""]
    return row


def _in_words(adjustment: dict[str, Any]) -> str:
    """'points -2: plagiarised comment', 'accept_time of gemm/triton: seen in ncu'."""
    decision = adjustment["kind"]
    if decision == AdjustmentKind.points.value:
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
        "members": [
            {"id": each.id, "name": clean(each.name), "email": each.email, "login": each.login}
            for each in handin.members
        ],
        "submitted_at": _time(handin.submitted_at),
        "problem": clean(handin.problem),
        "notes": [clean(note) for note in handin.notes],
    }


def _time(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()
