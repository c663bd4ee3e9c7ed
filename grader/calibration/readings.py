"""What a calibration times: solutions, slow submissions, and the rungs of ladders.

The clock is handed in: timing/measure.py on a GPU, figures made up in tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pydantic

from grader.calibration import corpus
from grader.calibration.corpus import Submission
from grader.evidence import PerformanceEvidence, Yardstick
from grader.spec import Exercise, Variant

_RUNG = re.compile(r"(?P<ladder>\w+)_v(?P<number>\d+)")

Measure = Callable[[Exercise, Variant, str], PerformanceEvidence]  # the text of the file handed in
Told = Callable[[str], None]


class CalibrationError(ValueError):
    """Nothing can be calibrated: one line says why."""


@dataclass(frozen=True)
class VariantReadings:
    """What timing one variant's solution and its slow submissions showed."""

    exercise: str
    variant: str
    reference: PerformanceEvidence
    edits: dict[str, PerformanceEvidence] = field(default_factory=dict)  # by name in the corpus


@dataclass(frozen=True)
class LadderReadings:
    """The solutions of one ladder's rungs, all timed on the same case; the lowest first."""

    exercise: str
    rungs: dict[str, PerformanceEvidence]  # by variant


@dataclass(frozen=True)
class Readings:
    """What one calibration came to; JSON in and out."""

    device: str
    variants: tuple[VariantReadings, ...] = ()
    ladders: tuple[LadderReadings, ...] = ()


_ADAPTER = pydantic.TypeAdapter(Readings)


def to_json(readings: Readings) -> str:
    """Readings as indented JSON text."""
    return _ADAPTER.dump_json(readings, indent=1).decode()


def read(path: Path) -> Readings:
    """Read what `to_json` wrote. Raises CalibrationError."""
    try:
        return _ADAPTER.validate_json(path.read_bytes())
    except OSError as error:
        raise CalibrationError(f"{path}: can't be read: {error.strerror}") from None
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "top level"
        raise CalibrationError(f"{path}: {place}: {first['msg']}") from None


def take(
    device: str,
    chosen: Sequence[tuple[Exercise, Variant]],
    measure: Measure,
    told: Told = lambda line: None,
) -> Readings:
    """Time what the thresholds of the variants rest on, and every ladder they belong to.

    `told` hears what is being timed. Raises CorpusError, and what `measure` raises.
    """
    slow = corpus.load("wrong")
    variants = tuple(
        _of_variant(exercise, variant, slow, measure, told)
        for exercise, variant in chosen
        if variant.performance is not None
    )
    ladders = tuple(
        _of_ladder(exercise, rungs, measure, told) for exercise, rungs in _ladders(chosen)
    )
    return Readings(device, variants, ladders)


def slow_submissions(
    exercise: Exercise, variant: Variant, submissions: Sequence[Submission]
) -> list[Submission]:
    """Those that thresholds of a variant may name: right, and slow by intent or by their stores."""
    return [
        each
        for each in submissions
        if (each.exercise, each.variant) == (exercise.name, variant.name) and each.check != "sizes"
    ]


def against(timed: PerformanceEvidence, name: str) -> Yardstick | None:
    """How a timing compares with a yardstick: of several cases that which counts, the slowest."""
    found = [next((y for y in each.yardsticks if y.name == name), None) for each in timed.every]
    if not timed.yardsticks or None in found:
        return None
    return min(found, key=lambda each: (each.at_best, each.ratio))


def _of_variant(
    exercise: Exercise,
    variant: Variant,
    slow: Sequence[Submission],
    measure: Measure,
    told: Told,
) -> VariantReadings:
    place = f"{exercise.name}/{variant.name}"
    told(f"{place} reference")
    reference = measure(exercise, variant, _solution(variant))
    named = {name for each in variant.performance.thresholds for name in each.missed_by}
    edits = {}
    for each in slow_submissions(exercise, variant, slow):
        if each.check == "performance" or each.name in named:
            told(f"{place} {each.name}")
            edits[each.name] = measure(exercise, variant, each.text())
    return VariantReadings(exercise.name, variant.name, reference, edits)


# --- ladders --------------------------------------------------------------------------------------


def rung_of(variant: str) -> tuple[str, int] | None:
    """`triton_v3` is rung 3 of the ladder `triton`; None for what is on no ladder."""
    found = _RUNG.fullmatch(variant)
    return (found["ladder"], int(found["number"])) if found else None


def _ladders(
    chosen: Sequence[tuple[Exercise, Variant]],
) -> Iterator[tuple[Exercise, list[Variant]]]:
    """Ladders whose highest timed rung is among the chosen: from rung 1 on, the lowest first."""
    for exercise, timed in chosen:
        rung = rung_of(timed.name)
        if rung is None:
            continue
        of_ladder = {
            place[1]: variant
            for variant in exercise.variants.values()
            if (place := rung_of(variant.name)) is not None and place[0] == rung[0] and place[1] > 0
        }
        rungs = [of_ladder[number] for number in sorted(of_ladder)]
        highest = [each.name for each in rungs if each.performance is not None][-1:]
        if len(rungs) > 1 and highest == [timed.name]:
            yield exercise, rungs


def _of_ladder(
    exercise: Exercise, rungs: Sequence[Variant], measure: Measure, told: Told
) -> LadderReadings:
    found = {}
    for each in on_one_case(rungs):
        told(f"{exercise.name}/{each.name} as a rung")
        found[each.name] = measure(exercise, each, _solution(each))
    return LadderReadings(exercise.name, found)


def on_one_case(rungs: Sequence[Variant]) -> list[Variant]:
    """Rungs of a ladder, each timed on the first case of the highest, in a dtype all of them take.

    Raises CalibrationError where there is none.
    """
    [*_, top] = (each for each in rungs if each.performance is not None)
    case = dict(top.performance.every_case[0])
    shared = [dtype for dtype in top.dtypes if all(dtype in each.dtypes for each in rungs)]
    if not shared:
        names = ", ".join(each.name for each in rungs)
        raise CalibrationError(f"{names}: expected a dtype that all of them take, found none")
    case["dtype"] = case.get("dtype") if case.get("dtype") in shared else shared[0]
    update = {"case": case, "cases": None}
    performance = top.performance.model_copy(update=update)
    return [each.model_copy(update={"performance": performance}) for each in rungs]


def _solution(variant: Variant) -> str:
    try:
        return (corpus.REFERENCE / variant.file).read_text(encoding="utf-8")
    except OSError as error:
        raise CalibrationError(
            f"{corpus.REFERENCE / variant.file}: expected the staff's solution: {error.strerror}"
        ) from None


def edits_of(readings: VariantReadings, yardstick: str) -> Mapping[str, Yardstick]:
    """How the slow submissions that were timed compare with a yardstick."""
    every = {name: against(timed, yardstick) for name, timed in readings.edits.items()}
    return {name: found for name, found in every.items() if found is not None}
