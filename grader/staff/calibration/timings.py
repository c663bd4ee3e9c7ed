"""Takes a calibration's timings by the clock, and writes the proposed thresholds into the specs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path as FilePath

from grader.evidence import PerformanceEvidence
from grader.executors.registry import RunnerOptions, Runners, Ways
from grader.gpu import measured_roofs
from grader.gpu.devices import DeviceName
from grader.grading.session import PUBLIC_SEED, selected
from grader.mistakes import Mistake
from grader.sandbox import Sandbox
from grader.sandbox.confinement import Level
from grader.spec import Course, Exercise, SpecError, load
from grader.spec.document import read_document
from grader.spec.task import Task
from grader.staff.calibration import corpus, readings
from grader.staff.calibration.lint import lint
from grader.staff.calibration.proposals import Proposal, propose
from grader.staff.calibration.readings import Measure, Readings
from grader.staff.calibration.spec_edit import Path, changed
from grader.timing.attempt import Options
from grader.timing.failures import TimingFailed
from grader.timing.submission import as_timed
from grader.timing.timed_variant import measure, trusted_sandbox


def lint_lines(course: Course, taken: Readings) -> list[str]:
    """Mistakes as lines: file, line, key, what was expected, what came."""
    slow = [*corpus.load("wrong", course=course), *corpus.load("wrong", "cuda", course)]
    lines: list[str] = []
    names = [each.exercise for each in taken.variants]
    for name in dict.fromkeys([*names, *(each.exercise for each in taken.ladders)]):
        exercise = course.exercises[name]
        known = {
            variant.name: [s.name for s in readings.slow_submissions(Task(exercise, variant), slow)]
            for variant in exercise.variants.values()
        }
        if mistakes := lint(exercise, taken, known):
            lines += read_document(course.specs / f"{name}.yaml").report(mistakes).mistakes
    return lines


def written(exercises: Mapping[str, Exercise], taken: Readings, folder: FilePath) -> list[FilePath]:
    """Put the proposed numbers and the GPU's name into the specs; returns those that changed.

    All of them or none. Raises Mistake where one can't be edited, or would be refused.
    """
    made: dict[FilePath, str] = {}
    for name in dict.fromkeys(each.exercise for each in taken.variants):
        path = folder / f"{name}.yaml"
        before = path.read_text(encoding="utf-8")
        after = changed(before, _values(exercises[name], taken), path.name)
        _expect_accepted(path.name, after)
        if after != before:
            made[path] = after
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    return list(made)


def _values(exercise: Exercise, taken: Readings) -> dict[Path, float | str]:
    values: dict[Path, float | str] = {}
    for each in taken.variants:
        if each.exercise != exercise.name:
            continue
        variant = exercise.variants[each.variant]
        place = ("variants", variant.name, "performance")
        proposals = propose(variant, each)
        for proposal in proposals:
            values |= _numbers((*place, "thresholds", proposal.index), proposal)
        if any(proposal.at_least is not None for proposal in proposals):
            values |= {(*place, "device"): taken.device}
    return values


def _numbers(place: Path, proposal: Proposal) -> dict[Path, float]:
    numbers = {
        (*place, "at_least"): proposal.at_least,
        (*place, "from"): proposal.from_,
        (*place, "milliseconds", "at_most"): proposal.at_most,
    }
    return {path: value for path, value in numbers.items() if value is not None}


def _expect_accepted(name: str, text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = FilePath(folder) / name
        path.write_text(text, encoding="utf-8")
        try:
            load(path)
        except SpecError as error:
            raise Mistake(f"not written, the spec would be refused:\n{error}") from None


def of_these(taken: Readings, exercises: Mapping[str, Exercise], names: list[str]) -> Readings:
    """The readings that were asked for, of variants that the specs have."""
    chosen = selected(exercises, names)
    kept = {(each.exercise.name, each.variant.name) for each in chosen}
    timed = {(e.exercise.name, e.variant.name) for e in chosen if e.variant.is_graded_on_speed}
    variants = (each for each in taken.variants if (each.exercise, each.variant) in timed)
    ladders = (e for e in taken.ladders if {(e.exercise, name) for name in e.rungs} & kept)
    return Readings(taken.device, tuple(variants), tuple(ladders))


@contextmanager
def clock(device: DeviceName = "cuda") -> Iterator[Measure]:
    """The clock, over files that the staff wrote."""
    kept = measured_roofs.kept_here()
    options = Options(roofs=kept.roofs() if kept else None)
    plans = Sandbox("cpu", Level.limits, kind="plans")
    with plans, trusted_sandbox(device) as trusted:

        def timer(task: Task, source: bytes) -> PerformanceEvidence:
            runners = Runners(
                {task.exercise.name: task.exercise},
                plans,
                device,
                lambda _: source,
                lambda _: False,
                RunnerOptions(Ways(level=Level.limits)),
            )
            with closing(runners):
                try:
                    candidate = as_timed(runners, task)
                except TimingFailed as failed:
                    return PerformanceEvidence(failed.status, str(failed))
                return measure(candidate, PUBLIC_SEED, trusted=trusted, options=options)

        yield timer
