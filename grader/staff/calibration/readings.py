"""The timings of a calibration: of solutions, of slow submissions and of the rungs of ladders.

The clock is handed in: timing/timed_variant.py on a GPU, figures made up in tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pydantic

from grader import given_files
from grader.evidence import Baseline, PerformanceEvidence
from grader.executors.cuda import joining
from grader.mistakes import Mistake
from grader.spec import Course, Exercise, Variant
from grader.spec.exercise import on_one_case, rung_of
from grader.spec.task import Task
from grader.staff.calibration import corpus
from grader.staff.calibration.corpus import Submission

Measure = Callable[[Task, bytes], PerformanceEvidence]  # of the text that is compiled


@dataclass(frozen=True)
class VariantReadings:
    """The timings of one variant's solution and its slow submissions."""

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
    """The timings of one calibration, which are stored as JSON."""

    device: str
    variants: tuple[VariantReadings, ...] = ()
    ladders: tuple[LadderReadings, ...] = ()


MOST_BYTES = 64 << 20  # of a file of readings
_ADAPTER = pydantic.TypeAdapter(Readings)


def to_json(readings: Readings) -> str:
    """Readings as indented JSON text."""
    return _ADAPTER.dump_json(readings, indent=1).decode()


def read(path: Path) -> Readings:
    """Read what `to_json` wrote. Raises Mistake."""
    try:
        return _ADAPTER.validate_json(given_files.content(path, MOST_BYTES))
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "top level"
        raise Mistake(f"{path}: {place}: {first['msg']}") from None


def take(
    device: str,
    chosen: Sequence[Task],
    measure: Measure,
    on_timing: Callable[[str], None] = lambda name: None,
    *,
    known: Readings | None = None,
    on_reading: Callable[[Readings], None] = lambda so_far: None,
    course: Course | None = None,
) -> Readings:
    """Time the solutions and slow submissions of the variants, and every ladder they belong to.

    `on_timing` gets the name of what is timed next, `on_reading` all readings after each timing.
    What is among `known` is not timed again. Raises Mistake, and what
    `measure` raises.
    """
    if known is not None and known.device != device:
        raise Mistake(f"expected timings taken on {device}, got {known.device}'s")
    taking = _Taking(known or Readings(device), measure, on_timing, on_reading)
    slow = [*corpus.load("wrong", course=course), *corpus.load("wrong", "cuda", course)]
    for task in chosen:
        if task.variant.is_graded_on_speed:
            taking.variant(task, slow)
    for exercise, rungs in _ladders(chosen):
        taking.ladder(exercise, rungs)
    return taking.readings


@dataclass
class _Taking:
    """A calibration under way, with its `readings` so far."""

    readings: Readings
    measure: Measure
    on_timing: Callable[[str], None]
    on_reading: Callable[[Readings], None]

    def variant(self, task: Task, submissions: Sequence[Submission]) -> None:
        """The solution and what is slow."""
        key = (task.exercise.name, task.variant.name)
        taken = next((v for v in self.readings.variants if (v.exercise, v.variant) == key), None)
        if taken is None:
            taken = VariantReadings(*key, self._timed(f"{task} reference", task))
            self._keep(taken)
        named = {name for each in task.variant.timed.thresholds for name in each.missed_by}
        for each in slow_submissions(task, submissions):
            wanted = each.check == "performance" or each.name in named
            if wanted and each.name not in taken.edits:
                edited = {each.file: each.text().encode()}
                timed = self._timed(f"{task} {each.name}", task, edited)
                taken = replace(taken, edits={**taken.edits, each.name: timed})
                self._keep(taken)

    def ladder(self, exercise: Exercise, rungs: Sequence[Variant]) -> None:
        """The solutions of its rungs, all on one case."""
        known = (each for each in self.readings.ladders if each.exercise == exercise.name)
        names = {each.name for each in rungs}
        taken = next((each for each in known if names & set(each.rungs)), None)
        taken = taken or LadderReadings(exercise.name, {})
        if not (timed_alike := on_one_case(rungs)):
            named = ", ".join(each.name for each in rungs)
            raise Mistake(f"{named}: expected a dtype that all of them take, found none")
        for each in timed_alike:
            if each.name not in taken.rungs:
                task = Task(exercise, each)
                timed = self._timed(f"{task} as a rung", task)
                taken = replace(taken, rungs={**taken.rungs, each.name: timed})
                self._keep(taken)

    def _timed(
        self, name: str, task: Task, edited: Mapping[str, bytes] | None = None
    ) -> PerformanceEvidence:
        source = _text(task, edited)
        self.on_timing(name)
        return self.measure(task, source)

    def _keep(self, taken: VariantReadings | LadderReadings) -> None:
        """Put readings in the place of those of the same variant or ladder."""
        if isinstance(taken, VariantReadings):
            key = (taken.exercise, taken.variant)
            variants = {(v.exercise, v.variant): v for v in self.readings.variants} | {key: taken}
            self.readings = replace(self.readings, variants=tuple(variants.values()))
        else:
            others = (
                each
                for each in self.readings.ladders
                if each.exercise != taken.exercise or not set(each.rungs) & set(taken.rungs)
            )
            self.readings = replace(self.readings, ladders=(*others, taken))
        self.on_reading(self.readings)


def slow_submissions(task: Task, submissions: Sequence[Submission]) -> list[Submission]:
    """Those that thresholds of a variant may name: right, and slow by intent or by their stores."""
    key = (task.exercise.name, task.variant.name)
    of_task = (each for each in submissions if (each.exercise, each.variant) == key)
    return [each for each in of_task if each.check != "sizes"]


def against(timed: PerformanceEvidence, name: str) -> Baseline | None:
    """How a timing compares with a baseline; of several cases the slowest counts."""
    by_case = [[y for y in each.baselines if y.name == name] for each in timed.every]
    if not all(by_case):
        return None
    return min((each for each, *_ in by_case), key=lambda each: (each.at_best, each.ratio))


# --- ladders --------------------------------------------------------------------------------------


def _ladders(chosen: Sequence[Task]) -> Iterator[tuple[Exercise, list[Variant]]]:
    """Ladders whose highest timed rung is among the chosen: from rung 1 on, the lowest first."""
    for task in chosen:
        exercise, timed = task.exercise, task.variant
        rung = rung_of(timed.name)
        if rung is None:
            continue
        of_ladder = {
            place[1]: variant
            for variant in exercise.variants.values()
            if (place := rung_of(variant.name)) is not None and place[0] == rung[0] and place[1] > 0
        }
        rungs = [of_ladder[number] for number in sorted(of_ladder)]
        highest = [each.name for each in rungs if each.is_graded_on_speed][-1:]
        if len(rungs) > 1 and highest == [timed.name]:
            yield exercise, rungs


def _text(task: Task, edited: Mapping[str, bytes] | None) -> bytes:
    """The solution as it is compiled, of all its files, or with `edited` ones in place of some."""
    labs = joining.labs_of({task.exercise.name: task.exercise})
    try:
        text = joining.read_trusted(task.exercise.reference, labs, task.variant.file, edited)
    except OSError as error:
        wanted = "expected the staff's solution"
        raise Mistake(f"{error.filename}: {wanted}: {error.strerror}") from None
    if isinstance(text, str):
        raise Mistake(f"{task}: {text}")
    return text


def edits_of(readings: VariantReadings, baseline: str) -> Mapping[str, Baseline]:
    """How the slow submissions that were timed compare with a baseline."""
    every = {name: against(timed, baseline) for name, timed in readings.edits.items()}
    return {name: ratio for name, ratio in every.items() if ratio is not None}
