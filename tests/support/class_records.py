"""Hand-ins, evidence and students made by hand, for tests of gradebooks."""

from __future__ import annotations

import tempfile
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any

from grader.batch.course.records import Attempt, Entry, Gradebook, Handin, Member
from grader.batch.gradebook import make
from grader.evidence import (
    Baseline,
    Evidence,
    Failure,
    PartEvidence,
    PerformanceEvidence,
    VariantEvidence,
)
from grader.scoring.score import score
from grader.spec import Exercise, load_all
from grader.status import Status

H100 = "NVIDIA H100 80GB HBM3"
DUE = datetime(2026, 12, 1, 23, 59, tzinfo=timezone.utc)
SEED = 7
SPEC = """\
title: SiLU
arguments:
  - {name: x, shape: [n], dtype: $dtype}
  - {name: out, shape: [n], dtype: $dtype, role: output}
sizes: {aligned: {n: {multiple_of: 4, up_to: 8}}, ragged: {n: [1, 20]}}
data: [normal]
tolerance: {magnitude: oracle}
variants:
  triton:
    file: silu.py
    entry: silu
    dtypes: [float32]
    points: {aligned: 40, ragged: 40, performance: 20}
    performance:
      case: {n: 33554432, dtype: float32}
      bytes: 2 * n * itemsize
      thresholds: [{speed_vs: copy, at_least: 0.9, points: 20}]
  extra: {file: silu.py, entry: silu_extra, dtypes: [float32], bonus: true, points: {ragged: 5}}
"""
CASE = "n=33554432 dtype=float32 seed=7"
UNTRUSTED = (
    "=HYPERLINK(1)\n```\n# <script>alert(1)</script> [link](https://evil.example) | "
    "![x](https://evil.example/x.png) `` ` @everyone www.evil.example \x1b[2J \x00 {{ 7*7 }} ~~~"
)


@lru_cache(maxsize=1)
def exercises() -> dict[str, Exercise]:
    """One exercise with 100 points and a bonus of 5."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "silu.yaml").write_text(SPEC, encoding="utf-8")
        return load_all(Path(folder))


def part(size_class: str, status: Status = Status.passed, what: str = "") -> PartEvidence:
    failures: tuple[Failure, ...] = ()
    if status.is_failure:
        what = what or "out[4] is 0, expected 0.7"
        reproduce = "grader check silu --case 'n=5 dtype=float32 seed=7'"
        failures = (Failure(status, "n=5 dtype=float32 seed=7", what, reproduce=reproduce),)
    return PartEvidence("float32", size_class, status, 9, len(failures), failures, what)


def timed(status: Status = Status.passed, ratio: float = 0.95) -> PerformanceEvidence:
    return PerformanceEvidence(
        status, "why", H100, CASE, 95.0, baselines=(Baseline("copy", 90.0, ratio),)
    )


def evidence(
    aligned: Status = Status.passed,
    ragged: Status = Status.passed,
    performance: PerformanceEvidence | None = None,
    extra: Status = Status.wrong_values,
    gpu: str | None = H100,
    what: str = "",
    **changes,
) -> Evidence:
    """Evidence of a submission: 100 points by default."""
    triton = VariantEvidence(
        "silu",
        "triton",
        "silu.py",
        parts=(part("aligned", aligned, what), part("ragged", ragged, what)),
        performance=performance or timed(),
        rules_lifted=changes.pop("rules_lifted", False),
    )
    bonus = VariantEvidence("silu", "extra", "silu.py", parts=(part("ragged", extra, what),))
    fields: dict[str, Any] = {
        "submission": "ada",
        "seed": SEED,
        "environment": {"gpu": gpu},
        "seconds": 1.5,
    }
    return Evidence(variants=(triton, bonus), **(fields | changes))


def earning(points: int) -> Evidence:
    """Evidence of a submission that earns 0, 40, 80 (it is right, and slow) or 100."""
    aligned = Status.passed if points >= 40 else Status.wrong_values
    ragged = Status.passed if points >= 80 else Status.wrong_values
    return evidence(aligned, ragged, timed(ratio=0.95 if points == 100 else 0.5))


def member(id: str, **fields: str) -> Member:
    return Member(id, **{"name": id.title(), **fields})


def handin(
    id: str = "h1", *members: Member, late: timedelta | None = timedelta(), **fields
) -> Handin:
    """A hand-in of `members` (ada where none is named), `late` after the due date."""
    at = None if late is None else DUE + late
    fields = {"submitted_at": at, "files": {"silu.py": b"x"}} | fields
    return Handin(id, members or (member("ada"),), **fields)


def attempt(
    points: int | None = 100,
    id: str = "h1",
    *members: Member,
    late: timedelta | None = timedelta(),
    seen: Evidence | None = None,
    **fields,
) -> Attempt:
    """A graded hand-in; `points` None for one that isn't graded yet."""
    if points is None:
        return Attempt(handin(id, *members, late=late, **fields))
    seen = seen or earning(points)
    return Attempt(handin(id, *members, late=late, **fields), seen, score(seen, exercises()))


def book(course, *attempts: Attempt, roster=None, adjustments=(), **options) -> Gradebook:
    shared: dict[str, Any] = {"exercises": exercises(), "device": H100, "seed": SEED}
    return make(course, roster, attempts, adjustments, **(shared | options))


def entry(book: Gradebook, id: str = "ada") -> Entry:
    [found] = [each for each in book.entries if each.student.id == id]
    return found
