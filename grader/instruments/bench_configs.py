"""A kernel with each of several values of its constants, timed on one case.

Each configuration is the file with other values in its text (constants.py), opened as a submission
of its own: planned anew, held to the rules, its outputs judged. One that fails has its reason, and
the others go on.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pydantic_core
from rich.console import Console
from rich.text import Text

from grader.cases import Case, fixed_case
from grader.evidence import PerformanceEvidence
from grader.gpu.roofline import Roofs
from grader.grading.session import Lent, Session
from grader.instruments import bench_table, plots
from grader.instruments.bench import AROUND, BESIDE_OTHERS, Step, time_alike, why_not
from grader.instruments.constants import Constants, Unreadable, constants_of
from grader.instruments.plots import Point, Series, series_of
from grader.mistakes import Mistake
from grader.report import narrow, one_line
from grader.report.performance import duration
from grader.sandbox import Sandbox
from grader.sandbox.worker_process import SandboxError
from grader.spec.task import Task
from grader.status import Status
from grader.timing import sequential
from grader.timing.attempt import Options
from grader.timing.baselines import Baselines
from grader.timing.failures import TimingFailed

MOST = 64  # configurations of one run
_NAME = re.compile(r"[A-Za-z_]\w*")
_VALUE = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?|True|False")

Values = Mapping[str, Sequence[str]]  # by the constant's name, in the order given


@dataclass(frozen=True)
class Configured:
    """One configuration, timed or not."""

    values: dict[str, str]
    evidence: PerformanceEvidence

    @property
    def name(self) -> str:
        """'BLOCK=64 num_warps=4'."""
        return " ".join(f"{name}={value}" for name, value in self.values.items())


def parse(words: Sequence[str]) -> dict[str, list[str]]:
    """`BLOCK=64,128 num_warps=4,8` as values by name. Raises Mistake."""
    values: dict[str, list[str]] = {}
    for word in " ".join(words).split():
        name, _, listed = word.partition("=")
        several = list(dict.fromkeys(listed.split(",")))
        if not _NAME.fullmatch(name) or not all(map(_VALUE.fullmatch, several)):
            raise Mistake(
                "--configs: expected constants with numbers, as in BLOCK=64,128 num_warps=4,8, "
                f"got {word!r}"
            )
        if name in values:
            raise Mistake(f"--configs: expected each constant once, got {name} again")
        values[name] = several
    if not values:
        raise Mistake("--configs: expected constants, as in BLOCK=64,128 num_warps=4,8")
    return values


def configurations(values: Values) -> list[dict[str, str]]:
    """All combinations, the last constant changing fastest. Raises Mistake for too many."""
    count = 1
    for several in values.values():
        count *= len(several)
    if count > MOST:
        raise Mistake(f"--configs: expected at most {MOST} configurations, got {count}")
    return [dict(zip(values, each, strict=True)) for each in itertools.product(*values.values())]


def constants(data: bytes | str, task: Task, values: Values) -> Constants:
    """The constants of a task's file. Raises Mistake where it lacks one of `values`."""
    file = task.variant.file
    if isinstance(data, str):
        raise Mistake(f"{task}: {data}")
    try:
        known = constants_of(data, task.variant.entry, task.variant.language)
    except Unreadable as error:
        raise Mistake(f"{file}: its constants can't be read: {error}") from None
    for name in values:
        if name not in known.names:
            listed = ", ".join(known.constants) or "none"
            raise Mistake(
                f"--configs: expected a constant that {task.variant.entry} uses in {file}, of "
                f"which there are {listed}; got {name}"
            )
    return known


def run(
    session: Session,
    trusted: Sandbox,
    task: Task,
    values: Values,
    known: Roofs | None = None,
    budget: sequential.Budget | None = None,
    on_step: Callable[[Step], None] = lambda step: None,
) -> Iterator[Configured]:
    """Time a task's first performance case with each configuration.

    `trusted` is where the baselines run. Raises Mistake before anything is timed.
    """
    every = configurations(values)
    of_file = constants(session.files.read(task.variant.file), task, values)
    case = fixed_case(task, task.variant.timed.every_case[0], session.seed)
    options = Options(also=BESIDE_OTHERS, roofs=known, budget=budget or AROUND, held_to_idle=False)
    executors = session.runners.sandbox_of("cuda")
    with Baselines(trusted, executors, task, [case], None) as baselines:
        baselines.expect(BESIDE_OTHERS)
        for number, chosen in enumerate(every, 1):
            one = Configured(chosen, PerformanceEvidence(Status.not_measured))
            on_step(Step(f"{task} {one.name}", case, number, len(every)))
            text = of_file.with_values({n: _written(v, task) for n, v in chosen.items()})
            files = {task.variant.file: text.encode()}
            with Session(
                session.submission,
                session.exercises,
                session.options,
                sandbox=session.sandbox,
                files=files,
                lent=Lent(trusted=trusted),
            ) as changed:
                yield Configured(chosen, _timed(changed, task, baselines, case, options))


def _timed(
    session: Session, task: Task, baselines: Baselines, case: Case, options: Options
) -> PerformanceEvidence:
    if reason := why_not(session, task):
        return PerformanceEvidence(*reason, case=str(case))
    try:
        candidate = session.stopwatch.planned(task)
        return time_alike(candidate, baselines, case, options)
    except (TimingFailed, SandboxError) as failed:
        status = failed.status if isinstance(failed, TimingFailed) else Status.grader_error
        return PerformanceEvidence(status, str(failed), case=str(case))


def _written(value: str, task: Task) -> str:
    """A value in the language of the file."""
    return value.lower() if task.variant.language == "cuda" else value


# --- what is shown: a table, a heat map and the roofline -----------------------------------------

SCHEMA = 1


def show(timings: Sequence[Configured], task: Task, roofs: Roofs | None, console: Console) -> None:
    """Print a row for each configuration, why some weren't timed, and the fastest one."""
    words = (word for word in timings[0].evidence.case.split() if not word.startswith("seed="))
    narrow.tell(Text(one_line(f"{task}, {' '.join(words)}:"), "bold"), console)
    console.print()
    rows = [(each.name, each.evidence) for each in timings]
    narrow.show(bench_table.brief("configuration", rows, roofs), console)
    for line in bench_table.untimed(rows):
        narrow.tell(Text(line, "yellow"), console)
    if best := fastest(timings):
        console.print()
        took = duration(best.evidence.microseconds or 0.0)
        narrow.tell(Text(one_line(f"The fastest: {best.name}, {took}."), "green"), console)


def fastest(timings: Sequence[Configured]) -> Configured | None:
    """The configuration with the least time; None where none was timed."""
    timed = [each for each in timings if _is_timed(each)]
    return min(timed, key=lambda each: each.evidence.microseconds or 0.0, default=None)


def figures(
    timings: Sequence[Configured], task: Task, roofs: Roofs | None, folder: Path
) -> list[plots.Figure]:
    """The heat map, and below the roofline the fastest and the slowest configuration, to be drawn.

    Nothing where nothing was timed.
    """
    best = fastest(timings)
    if best is None:
        return []
    stem = f"{task.exercise.name}-{task.variant.name}"
    title = f"{task} on {one_line(best.evidence.device) or 'no GPU'}"
    cells = [
        plots.Cell(
            each.values,
            next(iter(series_of("", [(0.0, each.evidence)]).points), None)
            if _is_timed(each)
            else None,
            each.evidence.status.headline,
        )
        for each in timings
    ]
    dtype = series_of("", [(0.0, best.evidence)]).dtype
    to = folder / f"{stem}-configs"
    to_draw: list[plots.Figure] = [partial(plots.heat_map, cells, dtype, roofs, title, to)]
    if roofs is not None:
        drawn, to = _below_the_roof(timings, best), folder / f"{stem}-configs-roofline"
        to_draw.append(partial(plots.below_roofline, drawn, roofs, title, to))
    return to_draw


def to_json(timings: Sequence[Configured], task: Task) -> str:
    """All configurations as JSON, for other programs."""
    document = {"name": str(task), "configurations": timings, "schema": SCHEMA}
    return pydantic_core.to_json(document, indent=1, inf_nan_mode="null").decode()


def _below_the_roof(timings: Sequence[Configured], best: Configured) -> list[Series]:
    timed = [each for each in timings if _is_timed(each)]
    slowest = max(timed, key=lambda each: each.evidence.microseconds or 0.0)
    several = [best] if slowest is best else [best, slowest]
    drawn = [series_of(each.name, [(0.0, each.evidence)]) for each in several]
    first = drawn[0].points[0]
    for baseline in best.evidence.baselines:
        if baseline.name == "torch" or not first.flops:
            point = Point(0.0, baseline.microseconds, first.bytes, first.flops)
            drawn.append(Series(baseline.name, drawn[0].dtype, (point,)))
    return drawn


def _is_timed(timing: Configured) -> bool:
    evidence = timing.evidence
    return evidence.status is Status.passed and bool(evidence.microseconds and evidence.bytes)
