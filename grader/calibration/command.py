"""`grader calibrate`: time solutions and slow submissions, propose thresholds, lint the specs."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path as FilePath
from typing import Annotated

import typer

from grader import machine, nvml, roofs
from grader.allowed_paths import DeviceName
from grader.calibration import corpus, readings, table
from grader.calibration.lint import lint
from grader.calibration.proposals import Proposal, propose
from grader.calibration.readings import CalibrationError, Measure, Readings
from grader.calibration.spec_edit import Path, changed
from grader.confinement import Level
from grader.console import (
    OnlyOption,
    bar,
    console,
    errors,
    have_oracles,
    known_names,
    tell,
    writable,
    write,
)
from grader.evidence import PerformanceEvidence
from grader.gpu_state import GpuState
from grader.roofline import Roofs
from grader.runners import Runners
from grader.sandbox import Sandbox
from grader.session import PUBLIC_SEED, selected
from grader.spec import EXERCISES, Exercise, SpecError, Variant, load, load_all
from grader.spec_reading import read_document
from grader.stopwatch import as_timed
from grader.task import Task
from grader.timing.failures import TimingFailed
from grader.timing.measure import measure, trusted_sandbox


def command(
    only: OnlyOption = None,
    out: Annotated[
        FilePath | None,
        typer.Option(metavar="FILE", help="Write what was timed here, as JSON, after each timing."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with what --out has by now.")
    ] = False,
    taken: Annotated[
        FilePath | None,
        typer.Option("--readings", metavar="FILE", help="Time nothing: take what --out wrote."),
    ] = None,
    write_specs: Annotated[
        bool, typer.Option("--write", help="Write the proposed numbers into the specs.")
    ] = False,
) -> None:
    """Time solutions and slow submissions on this GPU, and propose thresholds (staff)."""
    exercises = load_all()
    names = known_names(exercises, only or [])
    have_oracles(exercises, names)
    writable(out)
    if resume and out is None:
        raise CalibrationError("--resume: expected --out too, the file to go on with")
    if resume and taken is not None:
        raise CalibrationError("--resume: expected to time something, and --readings times nothing")
    if taken is None:
        found = _timed(exercises, names, out, resume)
    else:
        found = readings.read(taken)
        if out is not None:
            write(out, readings.to_json(found))
    found = _of_these(found, exercises, names)
    show(exercises, found)
    if write_specs:
        for path in written(exercises, found):
            tell(f"{path} written; now bring the handout up to date: make handout")


def show(
    exercises: Mapping[str, Exercise], found: Readings, folder: FilePath = EXERCISES
) -> list[str]:
    """Print the tables, and what is to be looked at; returns the latter's lines."""
    console.print(table.of_thresholds(exercises, found))
    if found.ladders:
        console.print(table.of_ladders(found.ladders))
    lines = lint_lines(exercises, found, folder)
    for line in lines:
        tell(line, "yellow")
    if not lines:
        tell("The specs say what was measured.", "green")
    return lines


def lint_lines(
    exercises: Mapping[str, Exercise], found: Readings, folder: FilePath = EXERCISES
) -> list[str]:
    """Mistakes as lines: file, line, key, what was expected, what came."""
    slow = corpus.load("wrong")
    lines: list[str] = []
    for name in dict.fromkeys(each.exercise for each in (*found.variants, *found.ladders)):
        exercise = exercises[name]
        known = {
            variant.name: [s.name for s in readings.slow_submissions(exercise, variant, slow)]
            for variant in exercise.variants.values()
        }
        mistakes = lint(exercise, found, known)
        if mistakes:
            lines += read_document(folder / f"{name}.yaml").report(mistakes).mistakes
    return lines


def written(
    exercises: Mapping[str, Exercise], found: Readings, folder: FilePath = EXERCISES
) -> list[FilePath]:
    """Put the proposed numbers and the GPU's name into the specs; returns those that changed.

    All of them or none. Raises CalibrationError where one can't be edited, or would be refused.
    """
    made: dict[FilePath, str] = {}
    for name in dict.fromkeys(each.exercise for each in found.variants):
        path = folder / f"{name}.yaml"
        before = path.read_text(encoding="utf-8")
        after = changed(before, _values(exercises[name], found), path.name)
        _expect_accepted(path.name, after)
        if after != before:
            made[path] = after
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    return list(made)


def _values(exercise: Exercise, found: Readings) -> dict[Path, float | str]:
    values: dict[Path, float | str] = {}
    for each in found.variants:
        if each.exercise != exercise.name:
            continue
        variant = exercise.variants[each.variant]
        place = ("variants", variant.name, "performance")
        proposals = propose(variant, each)
        for proposal in proposals:
            values |= _numbers((*place, "thresholds", proposal.index), proposal)
        if any(proposal.at_least is not None for proposal in proposals):
            values[(*place, "device")] = found.device
    return values


def _numbers(place: Path, proposal: Proposal) -> dict[Path, float]:
    limit = ("milliseconds", "at_most")
    told = {(*place, "at_least"): proposal.at_least, (*place, "from"): proposal.from_}
    told[(*place, *limit)] = proposal.at_most
    return {path: value for path, value in told.items() if value is not None}


def _expect_accepted(name: str, text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = FilePath(folder) / name
        path.write_text(text, encoding="utf-8")
        try:
            load(path)
        except SpecError as error:
            raise CalibrationError(f"not written, the spec would be refused:\n{error}") from None


def _of_these(found: Readings, exercises: Mapping[str, Exercise], names: list[str]) -> Readings:
    """Of readings those that are asked for; of variants that the specs have."""
    kept = {(exercise.name, variant.name) for exercise, variant in selected(exercises, names)}
    timed = {
        (e.name, v.name) for e in exercises.values() for v in e.variants.values() if v.performance
    }
    variants = tuple(
        each for each in found.variants if (each.exercise, each.variant) in kept & timed
    )
    ladders = tuple(
        each
        for each in found.ladders
        if {(each.exercise, name) for name in each.rungs} & kept and each.exercise in exercises
    )
    return Readings(found.device, variants, ladders)


# --- on this GPU ----------------------------------------------------------------------------------


def _timed(
    exercises: Mapping[str, Exercise], names: list[str], out: FilePath | None, resume: bool
) -> Readings:
    device = machine.gpu_name()
    if device is None:
        raise CalibrationError("expected an NVIDIA GPU to calibrate on, found none")
    known = readings.read(out) if resume and out is not None and out.exists() else None
    with bar() as line, clock() as timer:
        task = line.add_task("starting", total=None)

        def told(text: str) -> None:
            line.update(task, description=text)
            if not errors.is_terminal:  # there is no bar, and this takes minutes
                errors.print(text, markup=False, highlight=False)

        def kept(so_far: Readings) -> None:
            if out is not None:
                _replace(out, readings.to_json(so_far))

        return readings.take(
            device, selected(exercises, names), timer, told, known=known, kept=kept
        )


def _replace(path: FilePath, text: str) -> None:
    """Write a file so that at each moment there is either the old one or the new one."""
    beside = path.with_name(f".{path.name}.new")
    write(beside, text)
    beside.replace(path)


@contextmanager
def clock(device: DeviceName = "cuda") -> Iterator[Measure]:
    """The clock, over files that the staff wrote."""
    kept = _kept_roofs()
    plans = Sandbox("interpreter", Level.limits, plans=True)
    with plans, trusted_sandbox(device) as trusted:

        def timer(exercise: Exercise, variant: Variant, source: str) -> PerformanceEvidence:
            with contextlib.ExitStack() as opened:
                runners = Runners(
                    {exercise.name: exercise},
                    plans,
                    device,
                    lambda _: source.encode(),
                    lambda _: False,
                    level=Level.limits,
                )
                opened.callback(runners.close)
                try:
                    candidate = as_timed(runners, Task(exercise, variant))
                except TimingFailed as failed:
                    return PerformanceEvidence(failed.status, str(failed))
                return measure(candidate, PUBLIC_SEED, roofs=kept, trusted=trusted)

        yield timer


def _kept_roofs() -> Roofs | None:
    """What `grader doctor --gpu` has measured, where it has."""
    gpu = machine.gpu_properties()
    state = nvml.observe(gpu.uuid or None) if gpu else None
    if gpu is None or not isinstance(state, GpuState):
        return None
    found = roofs.load(roofs.Identity(gpu.uuid or gpu.name, state.driver, gpu.name))
    return found.roofs() if found else None
