"""What several reports say in the same words: totals, one check's result, what to do first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from grader.evidence import Evidence, LineCounters, PartEvidence, VariantEvidence
from grader.report.message import DETAIL_LIMIT, case_in_words, compose, listing, part_text, sentence
from grader.sandbox.untrusted import clean, one_line, shorten_middle
from grader.scoring import memory_bounds
from grader.scoring.score import (
    INTERRUPTED,
    MEMORY,
    PERFORMANCE,
    SKIPPED_AS_WRONG,
    CheckScore,
    ExerciseScore,
    GradeScore,
    PartScore,
    VariantScore,
)
from grader.spec import Variant
from grader.status import Status

STUDENTS_FOLDER = "assignment"
SHARE_OF_SECTORS = 0.1  # of all that a variant moves, from which on unused bytes are told
NEED_GPU = "need a GPU"

INTERRUPTED_LINE = (
    "This run was interrupted: what it did not reach counts as not measured, not as lost."
)
UNCONFINED_LINE = (
    "The submission ran with limits only, not confined: good for your own code, no final grade."
)
GRADER_ERROR_LINE = (
    "This is the grader's mistake, not yours: it costs no points. Please report it to the course "
    "staff with the lines below."
)


@dataclass(frozen=True)
class Header:
    """What stands above a grade that is somebody's final one: whose, and how it came about.

    `score` is None where there is none yet; `facts` are pairs of a name and what it is, and `notes`
    lines. Any text may be untrusted.
    """

    title: str  # "Kernels 1"
    name: str  # whose
    score: float | None
    max_score: float
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def points(self) -> str:
        """'82.5 of 100', or 'no score'."""
        if self.score is None:
            return "no score"
        return out_of(self.score, self.max_score, " of ")


def number(points: float, digits: int = 2) -> str:
    """Points without trailing zeros: 1.5, 12, 0.67."""
    text = f"{points:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def out_of(score: float, most: float, between: str) -> str:
    """'1.5 of 3', in as many digits as keep the two apart: 2.9967 of 3 is not '3 of 3'."""
    digits = 4 if score != most and number(score) == number(most) else 2
    return f"{number(score, digits)}{between}{number(most, digits)}"


def points(check: CheckScore | VariantScore) -> str:
    """'1.5/1.5'; a dash for the score where nothing could be graded: '-/0.75'.

    A variant that is a bonus has a plus: '+4/6'.
    """
    plus = "+" if isinstance(check, VariantScore) and check.is_bonus else ""
    return plus + _fraction(check.score, check.gradable, check.max_score)


def exercise_points(exercise: ExerciseScore) -> str:
    """'25/25', and what is a bonus on its own: '25/25 +4/6 bonus'."""
    words = []
    if exercise.max_score or not exercise.max_bonus:
        regular = regular_score(exercise)
        words.append(_fraction(regular, exercise.gradable, exercise.max_score))
    if exercise.max_bonus:
        bonus = _fraction(exercise.bonus, exercise.gradable_bonus, exercise.max_bonus)
        words.append(f"+{bonus} bonus")
    return " ".join(words)


def regular_score(row: GradeScore | ExerciseScore) -> float:
    """The score without the bonus."""
    return round(row.score - row.bonus, 4)


def _fraction(score: float, gradable: float, most: float) -> str:
    return f"-/{number(most)}" if most and not gradable else out_of(score, most, "/")


def total_line(grade: GradeScore) -> str:
    """'earned 12 of 12 gradable here; 8 more need a GPU'.

    With a bonus: 'earned 96 of 100, and +4 of 6 bonus: 100 in all'.
    """
    start = f"earned {out_of(regular_score(grade), grade.gradable, ' of ')}"
    if grade.gradable != grade.max_score:
        start += " gradable here"
    bonus = bonus_line(grade)
    if bonus and grade.max_score:
        start += f", and {bonus}: {number(grade.score)} in all"
    elif bonus:
        start = f"earned {bonus}"
    return "; ".join([start, *_missing(grade)])


def bonus_line(grade: GradeScore) -> str:
    """'+4 of 6 bonus'; "" where nothing is a bonus."""
    if not grade.max_bonus:
        return ""
    return f"+{out_of(grade.bonus, grade.gradable_bonus, ' of ')} bonus"


def _missing(grade: GradeScore) -> list[str]:
    """'8 more need a GPU', '6 more bonus points could not be measured here'."""
    missing: dict[tuple[bool, str], float] = {}
    variants = (variant for exercise in grade.exercises for variant in exercise.variants)
    for variant, check in ((each, check) for each in variants for check in each.checks):
        if lacking := check.max_score - check.gradable:
            key = variant.is_bonus, _why_ungraded(check, grade)
            missing[key] = round(missing.get(key, 0.0) + lacking, 4)
    keys = sorted(missing, key=lambda key: (key[0], key[1] != NEED_GPU))
    return [
        f"{number(missing[is_bonus, reason])} more{' bonus points' * is_bonus} {reason}"
        for is_bonus, reason in keys
    ]


def result(check: CheckScore) -> str:
    """What a check came to, in words: 'wrong values: float16 and bfloat16'."""
    status = check.status
    if check.message in SKIPPED_AS_WRONG:
        return check.message
    if not check.parts:
        note = one_line(check.message)
        return f"{status.headline}: {note}" if note else status.headline
    if len({part.status for part in check.parts}) == 1:
        return status.headline + _undecided_note(check)
    return statuses_in_words(check.parts)


def statuses_in_words(parts: Sequence[PartScore | PartEvidence]) -> str:
    """'wrong values: float16; passed: float32 and bfloat16'; one status for all stands alone."""
    kinds: dict[Status, list[str]] = {}
    for part in parts:
        kinds.setdefault(part.status, []).append(part.dtype)
    if len(kinds) == 1:
        return next(iter(kinds)).headline
    worst_first = sorted(kinds, key=list(Status).index)
    return "; ".join(f"{kind.headline}: {listing(kinds[kind])}" for kind in worst_first)


def not_attempted(variant: VariantScore) -> str:
    """'not attempted: the TODO is untouched'."""
    headline = Status.not_attempted.headline
    reason = next((one_line(check.message) for check in variant.checks if check.message), "")
    return f"{headline}: {reason}" if reason and reason != headline else headline


def tone(status: Status) -> str:
    """'passed', 'failed' or 'undecided': how a status is coloured."""
    if status is Status.passed:
        return "passed"
    return "failed" if status.is_failure and status is not Status.not_attempted else "undecided"


def check_text(observed: VariantEvidence | None, check: CheckScore) -> str:
    """The full message of a check: its first failure, or why it wasn't decided; "" if it passed."""
    if check.status is Status.passed and not check.message:
        return ""
    if observed is not None and check.parts and check.status is not Status.not_attempted:
        for part in observed.parts:
            if part.size_class == check.name and part.status is check.status:
                return part_text(observed.exercise, observed.variant, part)
    return sentence(check.message) or sentence(check.status.headline)


def scored_variants(
    evidence: Evidence, grade: GradeScore
) -> Iterator[tuple[ExerciseScore, VariantScore, VariantEvidence]]:
    """The variants that have both a score and evidence, in the order of the grade."""
    by_name = evidence.by_name
    for exercise in grade.exercises:
        for variant in exercise.variants:
            if observed := by_name.get((exercise.name, variant.name)):
                yield exercise, variant, observed


def find_part(observed: VariantEvidence, size_class: str, dtype: str) -> PartEvidence | None:
    """The evidence of one part, or None where the run didn't get to it."""
    wanted = (size_class, dtype)
    return next((p for p in observed.parts if (p.size_class, p.dtype) == wanted), None)


def counted_parts(variant: VariantScore, observed: VariantEvidence) -> VariantEvidence:
    """`observed` with only the parts that count in the score."""
    counted = {(c.name, part.dtype) for c in variant.checks for part in c.parts}
    parts = tuple(part for part in observed.parts if (part.size_class, part.dtype) in counted)
    return replace(observed, parts=parts)


def grader_errors(evidence: Evidence, grade: GradeScore) -> list[tuple[str, str]]:
    """(where, detail) of everything the grader itself broke on."""
    errors: list[tuple[str, str]] = []
    for _, variant, observed in scored_variants(evidence, grade):
        errors += errors_in(counted_parts(variant, observed))
    return errors


def errors_in(observed: VariantEvidence) -> list[tuple[str, str]]:
    """(where, detail) of what the grader broke on in one variant; alike ones together."""
    places: dict[str, list[str]] = {}
    for part in observed.parts:
        if part.status is Status.grader_error:
            places.setdefault(_error_detail(part), []).append(f"{part.size_class} {part.dtype}")
    for name, measured in ((PERFORMANCE, observed.performance), (MEMORY, observed.memory)):
        if measured is not None and measured.status is Status.grader_error:
            detail = shorten_middle(clean(measured.reason).strip(), DETAIL_LIMIT)
            places.setdefault(detail, []).append(name)
    for each in observed.at_large_sizes:
        if each.status is Status.grader_error:
            places.setdefault(shorten_middle(clean(each.what).strip(), DETAIL_LIMIT), []).append(
                "large sizes"
            )
    name = f"{observed.exercise}/{observed.variant}"
    return [(f"{name}: {listing(where)}", text) for text, where in places.items()]


SHOWN_PRINTS = 2  # cases in which kernels printed, of those that a report shows


def printed(observed: VariantEvidence) -> list[tuple[str, str]]:
    """(case, what its kernels printed) of the first few in which they did; clean text."""
    texts = dict.fromkeys(part.printed for part in observed.parts if part.printed is not None)
    return [
        (case_in_words(one_line(each.case)), clean(each.text).strip("\n"))
        for each in list(texts)[:SHOWN_PRINTS]
    ]


def memory_rows(observed: VariantEvidence) -> list[tuple[str, str, str]]:
    """(place, access, what was counted) for every line of a variant that uses memory."""
    if observed.memory is None:
        return []
    rows = []
    for row in observed.memory.lines:
        place = f"{observed.file}:{row.line}" if row.line else one_line(row.kernel)
        rows.append((place, f"{row.space} {row.access}", _counted(row)))
    return rows


def wasted_sectors(observed: VariantEvidence) -> str:
    """Where a variant's accesses to global memory use less than half of what they move, and why."""
    rows = observed.memory.lines if observed.memory else ()
    least = sum(row.sectors for row in rows) * SHARE_OF_SECTORS
    wasting = [
        f"{observed.file}:{row.line}"
        for row in rows
        if row.space == "global" and row.sectors >= least and row.useful_bytes < 16 * row.sectors
    ]
    if not wasting:
        return ""
    is_triton = observed.file.endswith(".py")
    near = "the elements of a block lie" if is_triton else "what neighbouring threads access lie"
    return (
        f"{listing(dict.fromkeys(wasting))}: most bytes of each sector are moved for nothing, and "
        f"cost time. Let {near} side by side in memory."
    )


def shared_work(observed: VariantEvidence, variant: Variant) -> list[str]:
    """How a variant's kernels share their work, in sentences, where that was counted."""
    if observed.memory is None or variant.memory is None or not observed.memory.lines:
        return []
    return memory_bounds.shared_work(observed.memory, variant)


def _counted(row: LineCounters) -> str:
    """'4 of 32 bytes per sector' or '32 ways: 63,488 extra wavefronts', and of how much."""
    requests = f"{row.requests:,} request{'' if row.requests == 1 else 's'}"
    if row.space == "shared":
        many = f"{row.ways} ways: {row.conflicts:,} extra wavefronts"
        return f"{many if row.conflicts else 'no bank conflicts'}, {requests}"
    useful = memory_bounds.number(row.useful_bytes / row.sectors) if row.sectors else "0"
    if row.rule == "elements":
        requests += " of 32 elements"
    return f"{useful} of 32 bytes per sector, {row.sectors:,} sectors, {requests}"


def is_untouched(grade: GradeScore) -> bool:
    """Whether nothing at all was attempted."""
    statuses = [v.status for exercise in grade.exercises for v in exercise.variants]
    return bool(statuses) and all(status is Status.not_attempted for status in statuses)


def first_step(grade: GradeScore) -> str:
    """What to do with an untouched assignment: the exercise with the fewest points first."""
    exercise = min(grade.exercises, key=lambda e: (not e.max_score, e.max_score))
    file = PurePath(grade.submission, exercise.variants[0].file)
    is_default = PurePath(grade.submission) == PurePath(STUDENTS_FOLDER)
    other = "" if is_default else f" --submission={shlex.quote(grade.submission)}"
    line = f"Start with {exercise.name}: open {file}, fill in the TODO, then run: "
    course = grade.environment.get("course")
    if course == ".":  # pytest finds tests of the default course alone
        return one_line(f"{line}grader check {exercise.name}{other}")
    if course:
        return one_line(f"{line}grader check {exercise.name} --course {shlex.quote(course)}")
    return one_line(f"{line}pytest -k {exercise.name}{other}")


def is_unconfined(grade: GradeScore) -> bool:
    """Whether nothing but limits held the submission."""
    return grade.environment.get("sandbox") == "limits"


def environment_lines(grade: GradeScore) -> list[tuple[str, str]]:
    """(name, value) of the environment the evidence was taken in, nested values on one line."""
    rows = [("seed", str(grade.seed))]
    for name, value in grade.environment.items():
        if isinstance(value, dict):
            pairs = (f"{_listed(key)}: {_listed(item)}" for key, item in value.items() if item)
            text = "; ".join(each.replace("_", " ") for each in pairs)
        else:
            text = "none" if value is None or value is False else _listed(value)
        words = one_line(str(name)).split("_")
        label = " ".join("GPU" if word == "gpu" else word for word in words)
        rows.append((label, one_line(text)))
    return rows


def _listed(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _why_ungraded(check: CheckScore, grade: GradeScore) -> str:
    statuses = {part.status for part in check.parts} or {check.status}
    if Status.grader_error in statuses:
        return "could not be decided because the grader failed"
    if Status.implausible_time in statuses:
        return "wait for a person to look at the timing"
    if check.name == PERFORMANCE and not grade.environment.get("gpu"):
        return NEED_GPU
    return "could not be measured here" + _undecided_note(check)


def _undecided_note(check: CheckScore) -> str:
    reason = one_line(check.message).rstrip(".")
    return f" ({reason})" if reason and check.status is Status.not_measured else ""


def _error_detail(part: PartEvidence) -> str:
    reason = shorten_middle(clean(part.reason).strip(), DETAIL_LIMIT)
    if not part.failures:
        return reason or INTERRUPTED
    message = compose("", "", part.failures[0])
    return "\n".join(filter(None, (reason, message.body, message.detail)))
