"""Comparisons as tables (terminal and Markdown), plots (PNG and SVG) and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from grader.gpu.roofline import Roofs
from grader.instruments import plots
from grader.instruments.plots import Point, Series
from grader.report.performance import duration
from grader.timing.bootstrap import Interval
from lecture.comparisons import Comparison, Timing


def lines_of(found: Comparison) -> list[str]:
    """The names of its lines, in the order in which they were timed."""
    return list(dict.fromkeys(timing.line for timing in found.timings))


def rows(found: Comparison) -> list[list[str]]:
    """A header, and a row for each size: the median time of each line, with its interval."""
    names = lines_of(found)
    times = {(t.x, t.line): t.microseconds for t in found.timings}
    made = [[found.x_name, *names]]
    for x in dict.fromkeys(t.x for t in found.timings):
        made.append([str(x), *(_cell(times.get((x, name))) for name in names)])
    return made


def table(found: Comparison) -> Table:
    """For the terminal."""
    header, *body = rows(found)
    made = Table(title=found.title, title_justify="left")
    for name in header:
        made.add_column(name, justify="right")
    for row in body:
        made.add_row(*row)
    return made


def markdown(found: Comparison, device: str, note: str) -> str:
    """For the handout: the table with what it was measured on below."""
    header, *body = rows(found)
    made = [header, ["--:" for _ in header], *body]
    missing = "".join(f" {name} is left out: {why}." for name, why in found.missing.items())
    lines = [f"| {' | '.join(row)} |" for row in made]
    return "\n".join([f"**{found.title}** on {device}", "", *lines, "", f"{note}{missing}", ""])


def draw(found: Comparison, device: str, roofs: Roofs | None, folder: Path) -> None:
    """The plots, each as PNG and SVG: STEM, and STEM-rate for a second one.

    Raises plots.PlotsMissing, OSError.
    """
    title = f"{found.title} on {device}"
    series = [_series(found, name) for name in lines_of(found)]
    for number, what in enumerate(found.drawn):
        stem = folder / (f"{found.stem}-{what}" if number else found.stem)
        if what == "time":
            plots.times(series, title, found.x_name, stem)
        else:
            plots.over_sizes(series, roofs, title, found.x_name, stem)


def to_json(every: Sequence[Comparison], device: str, note: str) -> str:
    """All of it for other programs."""
    document = {"device": device, "note": note, "comparisons": [asdict(each) for each in every]}
    return json.dumps(document, indent=1)


def _series(found: Comparison, name: str) -> Series:
    timings = [timing for timing in found.timings if timing.line == name]
    points = sorted(map(_point, timings), key=lambda point: point.size)
    dtype = name if found.stem == "matmul" else "float32"
    return Series(name, dtype, tuple(points))


def _point(timing: Timing) -> Point:
    took = timing.microseconds
    return Point(timing.x, took.median, timing.bytes, timing.flops, took.low, took.high)


def _cell(took: Interval | None) -> str:
    """'93.1 us (92.8-93.4)'."""
    if took is None:
        return "-"
    middle = duration(took.median)
    scale, digits = (1, 1) if middle.endswith("us") else (1000, 2)
    return f"{middle} ({took.low / scale:.{digits}f}-{took.high / scale:.{digits}f})"
