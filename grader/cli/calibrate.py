"""`grader calibrate`: time solutions and slow submissions, propose thresholds, lint the specs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from grader.cli.console import (
    OnlyOption,
    console,
    errors,
    have_oracles,
    known_names,
    progress,
    tell,
    the_course,
    writable,
    write,
)
from grader.gpu import machine
from grader.grading.session import selected
from grader.mistakes import Mistake
from grader.spec import Exercise
from grader.staff.calibration import readings, table
from grader.staff.calibration.readings import Readings
from grader.staff.calibration.timings import clock, lint_lines, of_these, written


def command(
    only: OnlyOption = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what was timed here, as JSON, after each timing."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with what --out has by now.")
    ] = False,
    taken: Annotated[
        Path | None,
        typer.Option("--readings", metavar="FILE", help="Time nothing: take what --out wrote."),
    ] = None,
    write_specs: Annotated[
        bool, typer.Option("--write", help="Write the proposed numbers into the specs.")
    ] = False,
) -> None:
    """Time solutions and slow submissions on this GPU, and propose thresholds (staff)."""
    course = the_course()
    exercises = course.exercises
    names = known_names(exercises, only)
    have_oracles(exercises, names)
    writable(out)
    if resume and out is None:
        raise Mistake("--resume: expected --out too, the file to go on with")
    if resume and taken is not None:
        raise Mistake("--resume: expected to time something, and --readings times nothing")
    if taken is None:
        timings = _timed(exercises, names, out, resume)
    else:
        timings = readings.read(taken)
        if out is not None:
            write(out, readings.to_json(timings))
    timings = of_these(timings, exercises, names)
    console.print(table.of_thresholds(exercises, timings))
    if timings.ladders:
        console.print(table.of_ladders(timings.ladders))
    lines = lint_lines(course, timings)
    for line in lines:
        tell(line, "yellow")
    if not lines:
        tell("The specs say what was measured.", "green")
    if write_specs:
        for path in written(exercises, timings, course.specs):
            tell(f"{path} written; now bring the handout up to date: make handout")


def _timed(
    exercises: Mapping[str, Exercise], names: list[str], out: Path | None, resume: bool
) -> Readings:
    device = machine.gpu_name()
    if device is None:
        raise Mistake("expected an NVIDIA GPU to calibrate on, found none")
    known = readings.read(out) if resume and out is not None and out.exists() else None
    with progress(str) as on_step, clock() as timer:

        def on_timing(text: str) -> None:
            on_step(text)
            if not errors.is_terminal:  # there is no bar, and this takes minutes
                errors.print(text, highlight=False)

        def on_reading(so_far: Readings) -> None:
            if out is not None:
                _replace(out, readings.to_json(so_far))

        chosen = selected(exercises, names)
        return readings.take(
            device,
            chosen,
            timer,
            on_timing,
            known=known,
            on_reading=on_reading,
            course=the_course(),
        )


def _replace(path: Path, text: str) -> None:
    """Replace a file at once: at each moment there is either the old one or the new one."""
    beside = path.with_name(f".{path.name}.new")
    write(beside, text)
    beside.replace(path)
