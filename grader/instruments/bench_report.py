"""The output of `grader bench`: tables in the terminal, plots, JSON. Pure views of timings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path

import pydantic_core
from rich.console import Console
from rich.table import Table
from rich.text import Text

from grader.evidence import PerformanceEvidence
from grader.gpu.roofline import Roofs
from grader.instruments import bench_table, plots
from grader.instruments.bench import BASELINES, SHORT_MICROSECONDS, Timed, axis
from grader.instruments.plots import Point, Series, series_of
from grader.report import narrow, one_line
from grader.report.performance import dtype_of, sentences
from grader.spec import Exercise
from grader.spec.task import Task

SCHEMA = 1
SHORT = (
    f"Below {SHORT_MICROSECONDS:.0f} us a time is as much the launches' as the kernel's: there the "
    "curve says little about the kernel."
)


def show(timings: Sequence[Timed], roofs: Roofs | None, console: Console) -> None:
    """Print every case, its ratio to each baseline, and what bounds the cases that are scored."""
    rows = [(name, _together(of_it)) for name, of_it in _by_variant(timings)]
    bench_table.render(rows, console, roofs)
    ratios = _ratios(timings)
    if ratios.row_count:
        console.print()
        about = "Your speed over each baseline's; above 1 yours is faster:"
        narrow.tell(Text(about), console)
        narrow.show(ratios, console)
    if any((each.evidence.microseconds or 1e9) < SHORT_MICROSECONDS for each in timings):
        console.print()
        narrow.tell(Text(SHORT, "dim"), console)
    for each in timings:
        noted = (each.evidence.reason if each.evidence.is_timed else "", each.evidence.disturbed)
        for note in filter(None, noted):
            label = f"{each.name} {_sizes(each.evidence)}"
            narrow.tell(Text(one_line(f"{label}: {note}"), "yellow"), console)
    for each in timings:
        for sentence in sentences(each.evidence, roofs) if each.is_scored else ():
            console.print()
            dtype = dtype_of(each.evidence)
            label = f"{each.name} {_sizes(each.evidence)} {dtype}"
            narrow.tell(Text(one_line(f"{label}: {sentence}")), console)


def figures(
    timings: Sequence[Timed], exercises: Mapping[str, Exercise], roofs: Roofs | None, folder: Path
) -> list[plots.Figure]:
    """Each variant's speed over sizes, and its scored case below the roofline, to be drawn.

    A variant of which nothing was timed has none, and without roofs there is no roofline.
    """
    to_draw: list[plots.Figure] = []
    for name, of_it in _by_variant(timings):
        exercise = exercises[of_it[0].exercise]
        variant = exercise.variants[of_it[0].variant]
        family = [each for each in of_it if each.size is not None and each.evidence.is_timed]
        if not family:
            continue
        stem = f"{exercise.name}-{variant.name}"
        title = f"{name} on {one_line(family[0].evidence.device) or 'no GPU'}"
        drawn, along = _series(family), axis(Task(exercise, variant))
        to = folder / f"{stem}-sizes"
        to_draw.append(partial(plots.over_sizes, drawn, roofs, title, along, to))
        scored = [each for each in family if each.is_scored]
        if roofs is not None and scored:
            to = folder / f"{stem}-roofline"
            to_draw.append(partial(plots.below_roofline, _series(scored), roofs, title, to))
    return to_draw


def to_json(timings: Sequence[Timed], roofs: Roofs | None) -> str:
    """All timings as JSON, and the roofs: bytes/s, FLOP/s by dtype, and whether measured."""
    document = {"timings": timings, "roofs": roofs, "schema": SCHEMA}
    return pydantic_core.to_json(document, indent=1, inf_nan_mode="null").decode()


def _by_variant(timings: Sequence[Timed]) -> Iterator[tuple[str, list[Timed]]]:
    for name, of_it in groupby(timings, key=lambda each: each.name):
        yield name, list(of_it)


def _together(of_it: Sequence[Timed]) -> PerformanceEvidence:
    """A variant's cases as one evidence."""
    first, *others = (each.evidence for each in _by_size(of_it))
    return replace(first, further=tuple(others))


def _by_size(of_it: Sequence[Timed]) -> list[Timed]:
    """The cases by growing size, those of other proportions last."""
    return sorted(of_it, key=lambda each: (each.size is None, each.size or 0))


def _ratios(timings: Sequence[Timed]) -> Table:
    """A row for each case that was timed, a column for each baseline."""
    timed = [
        each
        for _, of_it in _by_variant(timings)
        for each in _by_size(of_it)
        if each.evidence.is_timed
    ]
    there = {each.name for timing in timed for each in timing.evidence.baselines}
    names = [name for name in BASELINES if name in there]
    made = narrow.table()
    variants = {each.name for each in timed}
    made.add_column("case", overflow="fold")
    for name in names:
        made.add_column(name, justify="right", no_wrap=True)
    for each in timed if names else ():
        cells = {y.name: f"{y.ratio:.2f} ({y.at_worst:.2f}-{y.at_best:.2f})"
                 for y in each.evidence.baselines}  # fmt: skip
        name = "" if len(variants) == 1 else f"{each.name} "
        made.add_row(
            Text(one_line(name + _sizes(each.evidence))),
            *(Text(cells.get(name, "-")) for name in names),
        )
    return made


def _series(family: Sequence[Timed]) -> list[Series]:
    given = [(float(each.size), each.evidence) for each in family if each.size is not None]
    mine = series_of("yours", given)
    every = [mine]
    computes = any(point.flops for point in mine.points)
    for name in BASELINES:
        if name == "copy" and computes:
            continue  # it computes nothing
        points = [
            Point(point.size, baseline.microseconds, point.bytes, point.flops)
            for point, (_, evidence) in zip(
                mine.points, sorted(given, key=lambda p: p[0]), strict=True
            )
            for baseline in evidence.baselines
            if baseline.name == name
        ]
        if points:
            every.append(Series(name, mine.dtype, tuple(points)))
    return every


def _sizes(evidence: PerformanceEvidence) -> str:
    """The sizes of a case, without what is alike in all of them."""
    words = evidence.case.split()
    return " ".join(word for word in words if not word.startswith(("seed=", "dtype=")))
