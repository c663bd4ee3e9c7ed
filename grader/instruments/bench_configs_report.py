"""What `grader bench --configs` shows: a table, a heat map and the roofline. Pure views."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pydantic_core
from rich.console import Console
from rich.text import Text

from grader.gpu.roofline import Roofs
from grader.instruments import bench_table, plots
from grader.instruments.bench_configs import Configured
from grader.instruments.points import Point, Series, series_of
from grader.report import narrow, one_line
from grader.report.performance import duration
from grader.spec.task import Task
from grader.status import Status

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
