"""A class made by hand: gradebooks of artificial evidence, the same ones every time.

`make(300)` is a class with everything that a class report shows: shared mistakes, timings, groups,
late and missing hand-ins, adjustments, and an error of the grader's.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from grader.batch.course.records import (
    Adjustment,
    AdjustmentKind,
    Attempt,
    Entry,
    Gradebook,
    Handin,
    Lateness,
    Member,
    Student,
)
from grader.cases import fixed_case
from grader.evidence import (
    Baseline,
    Evidence,
    Failure,
    MemoryEvidence,
    Metric,
    PartEvidence,
    PerformanceEvidence,
    VariantEvidence,
)
from grader.scoring import memory_bounds
from grader.scoring.score import score
from grader.spec import Exercise, Variant, load_all
from grader.spec.task import Task
from grader.status import Status

H100 = "NVIDIA H100 80GB HBM3"
SEED = 424242
DUE = datetime(2026, 3, 2, 23, 59, tzinfo=timezone.utc)
EXERCISES = load_all()

_FIRST = [
    "Ada",
    "Bruno",
    "Chiara",
    "Daniel",
    "Elif",
    "Farid",
    "Grace",
    "Hiro",
    "Ines",
    "Jakob",
    "Keiko",
    "Lars",
    "Mei",
    "Noor",
    "Olga",
    "Pavel",
    "Quinn",
    "Rosa",
    "Sven",
    "Tariq",
    "Uma",
    "Viktor",
    "Wen",
    "Ximena",
    "Yara",
    "Zoltan",
    "José",
    "Zoë",
    "Łukasz",
]
_LAST = [
    "Abebe",
    "Bauer",
    "Castro",
    "Dubois",
    "Eriksen",
    "Ferrari",
    "Gupta",
    "Hansen",
    "Ito",
    "Jansen",
    "Kaya",
    "Lindqvist",
    "Moreau",
    "Nguyen",
    "Okafor",
    "Petrov",
    "Quispe",
    "Rossi",
    "Sato",
    "Tanaka",
    "Ueda",
    "Varga",
    "Weber",
    "Xu",
    "Yilmaz",
    "Zhang",
    "O'Neill",
]


def failure(
    status: Status = Status.wrong_values,
    condition: str = "cols > 1024",
    otherwise: str = "cols <= 1024",
    what: str = "out[0, 1024] is 0.25, expected 0.173; the other 1024 elements agree",
    hint: str = "Does the kernel loop over, or mask, cols past one block of 1024?",
    tried: tuple[int, int] = (9, 12),
    case: str = "rows=1 cols=1025 dtype=float32 seed=7",
) -> Failure:
    """A failure with a condition; without one where `condition` is ""."""
    pattern = f"Every case with {condition} fails ({tried[0]} tried); "
    pattern += f"every case with {otherwise} passes ({tried[1]} tried)."
    if condition == "always":
        pattern = f"Every case fails ({tried[0]} tried)."
    return Failure(status, case, what, pattern=pattern if condition else "", hint=hint)


def variant_evidence(
    exercise: Exercise,
    variant: Variant,
    failing: Mapping[tuple[str, str], Failure | Status] | None = None,
    *,
    ratios: Mapping[str, float] | None = None,
    performance: PerformanceEvidence | None = None,
    with_memory: bool = True,
) -> VariantEvidence:
    """A variant that passes but for `failing`, by (size class, dtype); ("*", "*") is all parts.

    `ratios` by baseline make it timed, on every case of its spec alike.
    """
    parts = []
    wanted = failing or {}
    for size_class in variant.size_classes:
        for dtype in variant.dtypes:
            keys = ((size_class, dtype), (size_class, "*"), ("*", dtype), ("*", "*"))
            found = next((wanted[key] for key in keys if key in wanted), Status.passed)
            if isinstance(found, Failure):
                parts.append(PartEvidence(dtype, size_class, found.status, 40, 9, (found,)))
            else:
                reason = "the oracle broke" if found is Status.grader_error else ""
                parts.append(PartEvidence(dtype, size_class, found, 40, reason=reason))
    is_right = all(part.status is Status.passed for part in parts)
    if performance is None and variant.is_graded_on_speed:
        performance = _timed(exercise, variant, ratios if is_right else None)
    counted = _counted(exercise, variant) if with_memory and is_right and variant.memory else None
    return VariantEvidence(
        exercise.name,
        variant.name,
        variant.file,
        sha256="0" * 64,
        parts=tuple(parts),
        performance=performance,
        memory=counted,
    )


def untouched(exercise: Exercise, variant: Variant) -> VariantEvidence:
    """A variant that nobody wrote."""
    reason = f"{variant.entry}() is still the stub"
    return VariantEvidence(exercise.name, variant.name, variant.file, not_attempted=reason)


def attempt(
    name: str,
    variants: Iterable[VariantEvidence],
    *,
    members: tuple[Member, ...] = (),
    exercises: Mapping[str, Exercise] = EXERCISES,
    at: datetime = DUE - timedelta(hours=5),
    gpu: str | None = H100,
) -> Attempt:
    """A graded hand-in, scored by the specs."""
    observed = Evidence(name, SEED, tuple(variants), {"gpu": gpu, "sandbox": "bubblewrap"})
    files = {"silu.py": name.encode("utf-8", "replace")}
    handin = Handin(name, members, submitted_at=at, files=files)
    return Attempt(handin, observed, score(observed, exercises))


def entry(name: str, *attempts: Attempt, identity: str = "", **changes: Any) -> Entry:
    """A student whose last graded attempt counts in full."""
    graded = [each for each in attempts if each.is_graded]
    counted = graded[-1] if graded else None
    points = counted.grade.score if counted is not None and counted.grade is not None else None
    fields: dict[str, Any] = {
        "attempts": attempts,
        "counted": counted,
        "raw": points,
        "score": points,
    }
    return Entry(Student(identity or f"id-{name}", name=name), **(fields | changes))


def gradebook(*entries: Entry, **changes: Any) -> Gradebook:
    """A class on an H100."""
    fields: dict[str, Any] = {
        "title": "Kernels, spring 2026",
        "device": H100,
        "seed": SEED,
        "max_score": sum(each.max_points for each in EXERCISES.values()),
        "made_at": DUE + timedelta(days=3),
    }
    return Gradebook(entries=entries, **(fields | changes))


def make(count: int = 300) -> Gradebook:
    """A class of `count` students, with all that a report has to show. Deterministic."""
    random_ = random.Random(count)
    entries: list[Entry] = []
    while len(entries) < count:
        index = len(entries)
        name = f"{_FIRST[(index * 7) % len(_FIRST)]} {_LAST[(index * 11 + index // 29) % 27]}"
        student = Student(f"s{index:04d}", str(10_000 + index), name, section="AB"[index % 2])
        if index % 23 == 5:
            entries.append(Entry(student, notes=("nothing handed in",)))
            continue
        if index % 97 == 13:
            problem = "rmsnorm.zip: the archive is damaged, 312 of 4096 bytes were read"
            broken = Attempt(Handin(f"submission_{index}", problem=problem, submitted_at=DUE))
            entries.append(Entry(student, (broken,), notes=(problem,)))
            continue
        entries += _handed_in(student, index, random_, count - index)
    entries.sort(key=lambda each: each.student.name)
    return gradebook(
        *entries,
        unmatched_handins=(
            Handin(
                "submission_9001", (Member("77777", "Guest Auditor", "guest@example.org"),), DUE
            ),
        ),
        unmatched_rows=("extensions, line 4: 's9999' names nobody of the roster",),
    )


# --- the mistakes of the class --------------------------------------------------------------------

_LARGE = failure(
    Status.not_finite,
    "data=large",
    "other data",
    "out[0, 3] is inf, expected 1.4; 17 other elements are wrong",
    "What leaves the dtype's range: a square, a sum, an exponential?",
)
_PADDED = failure(
    Status.wrong_values,
    "x.layout=row_padded",
    "x.layout=contiguous",
    "out[1, 0] is 0.5, expected 0.9; the first row agrees",
    "Rows of x can lie further apart than they are long: step by its stride(0).",
)
_TAIL = failure(
    Status.not_written,
    "n not a multiple of 1024",
    "n a multiple of 1024",
    "1 of 1025 elements was never written: out[1024]",
    "Does the grid cover all of the output, the last, partly filled block too?",
)
_RACE = failure(
    Status.data_race,
    "always",
    what="thread (8,0,0) of block (0,0,0) writes 4 bytes at offset 32 of tile, which thread "
    "(0,0,0) reads with no barrier between",
    hint="Put __syncthreads() between the writes and the reads of other threads.",
    tried=(6, 0),
)
_CAUSAL = failure(
    Status.wrong_values,
    "causal=True",
    "causal=False",
    "out[0, 0, 1, 0] is 0.31, expected 0.12; 62 other elements are wrong",
    "What does the kernel do only where causal is set, and is that right at its edges?",
)
_NAME = Failure(
    Status.import_error, "", "NameError: name 'tl' is not defined", where="softmax.py:12"
)
_MISTAKES: Mapping[str, tuple[tuple[float, Failure, tuple[str, str]], ...]] = {
    "rmsnorm/triton": (
        (0.09, failure(), ("*", "*")),
        (0.05, _LARGE, ("*", "float16")),
        (0.04, _PADDED, ("ragged", "*")),
    ),
    "rmsnorm/cuda_matrix": ((0.06, _RACE, ("*", "*")),),
    "silu/triton": ((0.04, _TAIL, ("ragged", "*")),),
    "silu/cuda": ((0.07, _TAIL, ("ragged", "*")),),
    "softmax/triton": ((0.03, _NAME, ("*", "*")), (0.06, _LARGE, ("*", "float16"))),
    "transpose/cuda_v3": ((0.1, _RACE, ("*", "*")),),
    "flash_attention/triton": ((0.12, _CAUSAL, ("ragged", "*")), (0.05, _LARGE, ("*", "float16"))),
}
# Where the submissions' ratios lie: median and spread, in how far a student gets.
_SPEEDS = {
    ("silu", "copy"): (0.8, 0.1),
    ("rmsnorm", "copy"): (0.93, 0.1),
    ("rmsnorm", "torch"): (1.35, 0.2),
    ("softmax", "copy"): (0.88, 0.12),
    ("softmax", "torch"): (1.1, 0.15),
    ("silu", "torch"): (0.96, 0.07),
    ("gemm", "torch"): (0.68, 0.16),
    ("transpose", "copy"): (0.74, 0.17),
    ("flash_attention", "torch"): (0.62, 0.2),
}


def _handed_in(student: Student, index: int, random_: random.Random, room: int) -> list[Entry]:
    """The entries of one hand-in: of a student, or of a group of two."""
    skill = min(1.0, max(0.05, random_.gauss(0.72, 0.2)))
    days = 0 if random_.random() < 0.85 else random_.choice((1, 1, 2, 3, 6))
    at = DUE + timedelta(days=days) - timedelta(minutes=random_.randrange(1, 1300))
    variants = [
        _written(exercise, variant, skill, random_)
        for exercise in EXERCISES.values()
        for variant in exercise.variants.values()
    ]
    made = attempt(f"submission_{index}", variants, at=at)
    students = [student]
    if index % 17 == 3 and room > 1:
        students.append(
            replace(student, id=f"{student.id}b", name=f"{_FIRST[index % 29]} {_LAST[index % 26]}")
        )
    return [_line(each, made, days, index, students) for each in students]


def _line(student: Student, made: Attempt, days: int, index: int, students: list[Student]) -> Entry:
    refused = days > 5
    slip = min(days, 2) if not refused else 0
    penalty = 1.0 if refused else round(0.1 * (days - slip), 2)
    adjustments: tuple[Adjustment, ...] = ()
    if index % 41 == 7:
        adjustments = (
            Adjustment(
                student.id,
                AdjustmentKind.points,
                "the printed formula had a typo until Tuesday",
                only="softmax/online",
                points=1.5,
                by="ta-kim",
                at=DUE + timedelta(days=2),
            ),
        )
    if index == 50:
        made = _broken(made)
    assert made.grade is not None
    raw = made.grade.score
    final = round(raw * (1 - penalty), 2) + sum(each.points for each in adjustments)
    others = [each.name for each in students if each is not student]
    return Entry(
        student,
        (made,),
        made,
        raw,
        final,
        Lateness(DUE, days, slip, penalty, refused),
        adjustments,
        tuple(f"in a group with {name}" for name in others),
    )


def _written(
    exercise: Exercise, variant: Variant, skill: float, random_: random.Random
) -> VariantEvidence:
    chance = {"flash_attention": 0.55, "gemm": 0.8, "transpose": 0.9}.get(exercise.name, 1.0)
    if variant.bonus:
        chance *= 0.3
    if random_.random() > chance * (0.45 + 0.75 * skill):
        return untouched(exercise, variant)
    for share, found, place in _MISTAKES.get(f"{exercise.name}/{variant.name}", ()):
        if random_.random() < share * 2 * (1.15 - skill):
            tried = random_.randrange(4, 15)
            pattern = found.pattern.replace("(9 tried)", f"({tried} tried)")
            return variant_evidence(exercise, variant, {place: replace(found, pattern=pattern)})
    ratios: dict[str, float] = {}
    if variant.is_graded_on_speed:
        for threshold in variant.timed.thresholds:
            against = threshold.speed_vs
            assert against is not None
            middle, spread = _SPEEDS[exercise.name, against]
            value = random_.gauss(middle * (0.75 + 0.34 * skill), spread * 0.6)
            ratios.setdefault(against, round(max(0.04, value), 4))
    with_memory = random_.random() < 0.5 + skill / 2
    return variant_evidence(exercise, variant, ratios=ratios, with_memory=with_memory)


def _broken(made: Attempt) -> Attempt:
    """The attempt with a failure of the grader's own in one variant."""
    assert made.evidence is not None and made.handin.submitted_at is not None
    kept = [each for each in made.evidence.variants if each.exercise != "silu"]
    silu = EXERCISES["silu"]
    broken = variant_evidence(
        silu, silu.variants["triton"], {("ragged", "float16"): Status.grader_error}
    )
    return attempt(made.handin.id, (*kept, broken), at=made.handin.submitted_at)


def _timed(
    exercise: Exercise, variant: Variant, ratios: Mapping[str, float] | None
) -> PerformanceEvidence:
    if not ratios:
        return PerformanceEvidence(Status.not_measured, reason="not timed")
    assert variant.performance is not None
    cases = [
        PerformanceEvidence(
            Status.passed,
            device=H100,
            case=str(fixed_case(Task(exercise, variant), case, SEED)),
            microseconds=100.0,
            bytes=1 << 20,
            samples=40,
            baselines=tuple(Baseline(name, 100.0 * by, by) for name, by in ratios.items()),
        )
        for case in variant.performance.every_case
    ]
    return replace(cases[0], further=tuple(cases[1:]))


def _counted(exercise: Exercise, variant: Variant) -> MemoryEvidence:
    """Memory used just as well as the spec asks for."""
    assert variant.memory is not None
    sizes = memory_bounds.sizes_of(variant)
    metrics = [
        Metric(".".join(path), float(limit.evaluate(sizes)))
        for path, bound in variant.memory.bounds()
        if (limit := bound.at_least or bound.at_most) is not None
    ]
    case = str(fixed_case(Task(exercise, variant), variant.memory.case, SEED))
    return MemoryEvidence(Status.passed, case=case, metrics=tuple(metrics))
