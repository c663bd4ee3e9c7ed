"""Plots of timings: over sizes, and below the roofline; PNG and SVG, the same bytes each time.

Needs matplotlib (extra [plots]): see figures.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.gpu.roofline import Place, Roofs, place
from grader.instruments.figures import MISSING, PlotsMissing
from grader.instruments.figures import SIZE as _SIZE
from grader.instruments.figures import figure as _figure
from grader.instruments.figures import save as _save
from grader.instruments.points import Point, Series

__all__ = [
    "MISSING",
    "UNCOUNTED",
    "Cell",
    "PlotsMissing",
    "below_roofline",
    "heat_map",
    "over_sizes",
    "side_by_side",
    "times",
]

# Okabe and Ito's colours, which colour-blind people tell apart.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_LONG_LABEL = 45  # characters, of which two don't fit beside each other
UNCOUNTED = 0.25  # FLOP/byte: where a kernel stands whose FLOP nobody counted


def over_sizes(
    series: Sequence[Series], roofs: Roofs | None, title: str, size_name: str, stem: Path
) -> tuple[Path, Path]:
    """Speed over size, a line per kernel with its intervals, and the roof above them.

    In TFLOP/s where every point has FLOP to count, else in GB/s. Writes `stem`.png and `stem`.svg
    and returns their paths. Raises PlotsMissing, OSError.
    """
    shown = [each for each in series if each.points]
    computes = bool(shown) and all(p.flops for each in shown for p in each.points)
    with _figure() as figure:
        axes = figure.subplots()
        for index, each in enumerate(shown):
            sizes = [p.size for p in each.points]
            speeds = [_speed(p, p.microseconds, computes) for p in each.points]
            axes.errorbar(
                sizes,
                speeds,
                yerr=_intervals(each.points, computes),
                **_line(index, each.name),
            )
        for name, height in _flat_roofs(shown, roofs, computes):
            axes.axhline(height, color="#555555", linestyle="--", linewidth=1)
            axes.annotate(
                name,
                (1.0, height),
                xycoords=("axes fraction", "data"),
                xytext=(0, 3),
                textcoords="offset points",
                ha="right",
                color="#555555",
            )
        _scale_sizes(axes, shown)
        axes.set_ylim(bottom=0)
        axes.margins(y=0.12)
        axes.set_xlabel(size_name)
        axes.set_ylabel("TFLOP/s" if computes else "GB/s")
        axes.set_title(title, loc="left")
        if shown:
            axes.legend(loc="best")
        return _save(figure, stem)


def times(series: Sequence[Series], title: str, size_name: str, stem: Path) -> tuple[Path, Path]:
    """Time over size, a line per kernel with its intervals, both axes logarithmic.

    Writes `stem`.png and `stem`.svg and returns their paths. Raises PlotsMissing, OSError.
    """
    shown = [each for each in series if each.points]
    with _figure() as figure:
        axes = figure.subplots()
        axes.set_yscale("log")
        for index, each in enumerate(shown):
            axes.errorbar(
                [p.size for p in each.points],
                [p.microseconds / 1e3 for p in each.points],
                yerr=[
                    [(p.microseconds - (p.low or p.microseconds)) / 1e3 for p in each.points],
                    [((p.high or p.microseconds) - p.microseconds) / 1e3 for p in each.points],
                ],
                **_line(index, each.name),
            )
        _scale_sizes(axes, shown)
        axes.set_xlabel(size_name)
        axes.set_ylabel("ms")
        axes.set_title(title, loc="left")
        if shown:
            axes.legend(loc="upper left")
        return _save(figure, stem)


def side_by_side(
    series: Sequence[Series], roofs: Roofs | None, title: str, stem: Path
) -> tuple[Path, Path]:
    """The speed of each kernel's first point as a bar, with its interval, and the first's roof.

    In TFLOP/s where every point has FLOP to count, else in GB/s. Writes `stem`.png and `stem`.svg
    and returns their paths. Raises PlotsMissing, OSError.
    """
    shown = [each for each in series if each.points]
    computes = bool(shown) and all(each.points[0].flops for each in shown)
    speeds = [_speed(each.points[0], each.points[0].microseconds, computes) for each in shown]
    families = list(dict.fromkeys(each.name.partition("_")[0] for each in shown))
    with _figure() as figure:
        axes = figure.subplots()
        for index, (each, speed) in enumerate(zip(shown, speeds, strict=True)):
            colour = _COLOURS[families.index(each.name.partition("_")[0]) % len(_COLOURS)]
            below, above = _intervals(each.points[:1], computes)
            axes.barh(index, speed, color=colour, xerr=[below, above], capsize=3)
            axes.annotate(
                f"{speed:.0f}" if speed >= 10 else f"{speed:.2g}",
                (speed + above[0], index),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
            )
        for name, limit in _flat_roofs(shown[:1], roofs, computes):
            axes.axvline(limit, color="#555555", linestyle="--", linewidth=1)
            axes.annotate(
                name,
                (limit, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(-4, -4),
                textcoords="offset points",
                ha="right",
                va="top",
                rotation=90,
                color="#555555",
            )
        axes.set_yticks(range(len(shown)), [each.name for each in shown])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlim(left=0)
        axes.margins(x=0.1)
        axes.set_xlabel("TFLOP/s" if computes else "GB/s")
        axes.set_title(title, loc="left")
        return _save(figure, stem)


@dataclass(frozen=True)
class Cell:
    """One configuration of a heat map: its constants' values, its time, or else why there is none.

    All cells of a map name the same constants in the same order.
    """

    values: Mapping[str, str]
    point: Point | None
    why: str = ""


def heat_map(
    cells: Sequence[Cell], dtype: str, roofs: Roofs | None, title: str, stem: Path
) -> tuple[Path, Path]:
    """Speeds as colours up to the roof: columns by the last constant, rows by the others.

    A cell without a time says why. Writes `stem`.png and `stem`.svg and returns their paths. Raises
    PlotsMissing, OSError.
    """
    *others, last = cells[0].values
    columns = list(dict.fromkeys(cell.values[last] for cell in cells))
    named = [" ".join(f"{name}={cell.values[name]}" for name in others) for cell in cells]
    rows = list(dict.fromkeys(named))
    timed = [cell.point for cell in cells if cell.point is not None]
    computes = bool(timed) and all(point.flops for point in timed)
    speeds = [_speed(point, point.microseconds, computes) for point in timed]
    roof = next(_flat_roofs([Series("", dtype, tuple(timed))], roofs, computes), None)
    top = max([*speeds, roof[1] if roof else 0.0])
    with _figure((max(_SIZE[0], 2.5 + 1.1 * len(columns)), max(2.6, 1.6 + 0.5 * len(rows)))) as f:
        axes = f.subplots()
        grid = [[math.nan] * len(columns) for _ in rows]
        for name, cell in zip(named, cells, strict=True):
            x, y = columns.index(cell.values[last]), rows.index(name)
            text, colour = cell.why.replace(" ", "\n", 1), "#D55E00"
            if cell.point is not None:
                grid[y][x] = _speed(cell.point, cell.point.microseconds, computes)
                text = f"{grid[y][x]:.0f}" if grid[y][x] >= 10 else f"{grid[y][x]:.2g}"
                colour = "white" if grid[y][x] < 0.6 * top else "black"
            axes.text(x, y, text, ha="center", va="center", color=colour, fontsize=9)
        image = axes.imshow(grid, vmin=0, vmax=top, cmap="viridis", aspect="auto")
        bar = f.colorbar(image, ax=axes)
        bar.set_label("TFLOP/s" if computes else "GB/s")
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(rows)), rows)
        axes.set_xlabel(last)
        axes.grid(visible=False)
        axes.set_title(f"{title}\nroof: {roof[0]}" if roof else title, loc="left")
        return _save(f, stem)


def below_roofline(
    series: Sequence[Series], roofs: Roofs, title: str, stem: Path
) -> tuple[Path, Path]:
    """The roofs over arithmetic intensity, and every kernel's largest point below them.

    A kernel whose FLOP nobody counted stands at UNCOUNTED: how far it is below the roof is right
    there as well. Writes `stem`.png and `stem`.svg and returns their paths. Raises PlotsMissing,
    OSError, and RooflineError for a time that can't be.
    """
    spots = [spot for each in series if (spot := _spot(each, roofs))]
    dtypes = dict.fromkeys(s.place.dtype for s in spots if roofs.flops.get(s.place.dtype))
    ridges = [roofs.flops[dtype] / roofs.bandwidth for dtype in dtypes]
    left = min([UNCOUNTED, *(spot.x for spot in spots)]) / 2.5
    right = 8 * max([*ridges, *(spot.x for spot in spots), 10.0])
    with _figure() as figure:
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.set_yscale("log")
        _draw_roofs(axes, roofs, list(dtypes), left, right)
        for index, spot in enumerate(spots):
            colour = _COLOURS[index % len(_COLOURS)]
            top = min(spot.x * roofs.bandwidth, roofs.flops.get(spot.place.dtype, math.inf))
            axes.plot([spot.x, spot.x], [spot.y / 1e12, top / 1e12], color=colour, linewidth=1)
            axes.plot(
                [spot.x],
                [spot.y / 1e12],
                linestyle="none",
                marker=_MARKERS[index % len(_MARKERS)],
                markersize=8,
                color=colour,
                label=spot.label,
                zorder=_above(index),
            )
        axes.set_xlim(left, right)
        uncounted = any(not spot.place.intensity for spot in spots)
        note = f"; {UNCOUNTED} where FLOP are not counted" if uncounted else ""
        axes.set_xlabel(f"arithmetic intensity (FLOP per byte{note})")
        axes.set_ylabel("TFLOP/s")
        axes.set_title(title, loc="left")
        if spots:
            is_long = max(len(spot.label) for spot in spots) > _LONG_LABEL
            figure.legend(loc="outside lower center", ncols=1 if is_long else 2)
        return _save(figure, stem)


def _line(index: int, name: str) -> dict[str, Any]:
    return {
        "label": name,
        "color": _COLOURS[index % len(_COLOURS)],
        "marker": _MARKERS[index % len(_MARKERS)],
        "markersize": 5,
        "capsize": 3,
        "zorder": _above(index),
    }


def _above(index: int) -> float:
    """The height of a kernel's marks: the first kernel lies over the others."""
    return 4 - index / 100


@dataclass(frozen=True)
class _Spot:
    """A kernel's place in the roofline plot: FLOP/byte, FLOP/s."""

    x: float
    y: float
    place: Place
    label: str


def _spot(series: Series, roofs: Roofs) -> _Spot | None:
    if not series.points:
        return None
    point = series.points[-1]
    position = place(point.bytes, point.flops, series.dtype, point.microseconds / 1e6, roofs)
    if position is None:
        return None
    share = f"{100 * position.fraction:.0f} % of the {position.bound} roof"
    label = f"{series.name}: {share}"
    if not point.flops:
        return _Spot(UNCOUNTED, UNCOUNTED * position.reached, position, label)
    reached = point.flops / point.microseconds * 1e6
    return _Spot(position.intensity, reached, position, label)


def _draw_roofs(axes: Any, roofs: Roofs, dtypes: list[str], left: float, right: float) -> None:
    kind = "measured" if roofs.is_measured else "data sheet"
    rates = [roofs.flops[dtype] for dtype in dtypes]
    end = max([rate / roofs.bandwidth for rate in rates], default=right)
    slope = [x * roofs.bandwidth / 1e12 for x in (left, end)]
    axes.plot([left, end], slope, color="#555555", linewidth=1.5)
    middle = math.sqrt(left * end)
    axes.annotate(
        f"{roofs.bandwidth / 1e9:.0f} GB/s ({kind})",
        (middle, middle * roofs.bandwidth / 1e12),
        xytext=(-8, 2),
        textcoords="offset points",
        ha="right",
        color="#555555",
    )
    for dtype, rate in zip(dtypes, rates, strict=True):
        axes.plot([rate / roofs.bandwidth, right], [rate / 1e12] * 2, color="#555555")
        axes.annotate(
            f"{dtype}: {rate / 1e12:.0f} TFLOP/s ({kind})",
            (right, rate / 1e12),
            xytext=(-2, 4),
            textcoords="offset points",
            ha="right",
            color="#555555",
        )


def _flat_roofs(
    series: Sequence[Series], roofs: Roofs | None, computes: bool
) -> Iterator[tuple[str, float]]:
    """(name, height) of the roofs that are flat over sizes."""
    if roofs is None or not series:
        return
    kind = "measured" if roofs.is_measured else "data sheet"
    if not computes:
        yield f"memory: {roofs.bandwidth / 1e9:.0f} GB/s ({kind})", roofs.bandwidth / 1e9
        return
    for dtype in dict.fromkeys(each.dtype for each in series):
        if rate := roofs.flops.get(dtype):
            yield f"{dtype}: {rate / 1e12:.0f} TFLOP/s ({kind})", rate / 1e12


def _speed(point: Point, microseconds: float, computes: bool) -> float:
    """GB/s, or TFLOP/s."""
    if computes:
        return (point.flops or 0.0) / microseconds / 1e6
    return point.bytes / microseconds / 1e3


def _intervals(points: Sequence[Point], computes: bool) -> list[list[float]]:
    """The distances of each interval's ends from the speed; 0 where none was taken."""
    below, above = [], []
    for point in points:
        speed = _speed(point, point.microseconds, computes)
        below.append(max(0.0, speed - _speed(point, point.high, computes)) if point.high else 0.0)
        above.append(max(0.0, _speed(point, point.low, computes) - speed) if point.low else 0.0)
    return [below, above]


def _scale_sizes(axes: Any, series: Sequence[Series]) -> None:
    """A logarithmic axis where sizes span a decade, with the sizes themselves as ticks."""
    if not (sizes := sorted({p.size for each in series for p in each.points})):
        return
    if sizes[0] > 0 and sizes[-1] >= 8 * sizes[0]:
        axes.set_xscale("log", base=2)
    step = -(-len(sizes) // 10)
    ticks = sizes[::step]
    axes.set_xticks(ticks, [_short(size) for size in ticks])
    axes.minorticks_off()


def _short(size: float) -> str:
    """8192, 64 Ki, 4 Mi."""
    for unit, name, least in ((1 << 30, "Gi", 1), (1 << 20, "Mi", 1), (1 << 10, "Ki", 16)):
        if size >= least * unit and size % unit == 0:
            return f"{size / unit:.0f} {name}"
    return f"{size:g}" if size < 1e6 else f"{size:.0f}"
