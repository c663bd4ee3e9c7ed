"""Plots of timings: over sizes, and below the roofline; PNG and SVG, the same bytes each time.

Needs matplotlib (extra [plots]), which is imported when something is drawn. Figures are made
without pyplot, so that no display and no global state is involved.

    prepare()          begin to import matplotlib, in a process that is forked later
    draw_all(figures)  draw each in a fork of that process, all at once
"""

from __future__ import annotations

import importlib.util
import math
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from grader.evidence import PerformanceEvidence
from grader.gpu.roofline import Place, Roofs, place
from grader.report.performance import dtype_of, flops_of

_STYLE: Any = {  # matplotlib's own type names every key there is
    "svg.hashsalt": "warpgrade",  # or ids in the SVG would be random
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 10,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
_SIZE = (7.2, 4.4)  # inches
_DPI = 150
# Okabe and Ito's colours, which colour-blind people tell apart.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_GREY = "#555555"  # of roofs
_MARKERS = ("o", "s", "^", "D", "v", "P")
_LONG_LABEL = 45  # characters, of which two don't fit beside each other
UNCOUNTED = 0.25  # FLOP/byte: where a kernel stands whose FLOP nobody counted

MISSING = "plots need matplotlib: .venv/bin/pip install matplotlib"

# What a figure imports; a fork server leaves out what isn't installed.
_IMPORTED = [__name__, "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg"]


@dataclass(frozen=True)
class Point:
    """One timed case: its size, the time with its interval, and what it moves and computes."""

    size: float
    microseconds: float
    bytes: float
    flops: float | None = None
    low: float | None = None  # microseconds
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """One kernel over sizes, or at one."""

    name: str  # "yours", "torch"
    dtype: str
    points: tuple[Point, ...]


def point_of(timed: PerformanceEvidence, size: float) -> Point | None:
    """A case of the evidence as a point; None where it was not timed or moves nothing."""
    if not timed.microseconds or timed.microseconds <= 0 or not timed.bytes:
        return None
    return Point(
        size,
        timed.microseconds,
        timed.bytes,
        flops_of(timed),
        timed.microseconds_low,
        timed.microseconds_high,
    )


def series_of(name: str, timings: Sequence[tuple[float, PerformanceEvidence]]) -> Series:
    """The cases that were timed, by growing size."""
    points = [point_of(timed, size) for size, timed in timings]
    dtype = dtype_of(timings[0][1]) if timings else ""
    return Series(name, dtype, tuple(sorted(filter(None, points), key=lambda p: p.size)))


Figure = Callable[[], tuple[Path, Path]]  # one of the functions below, with its arguments
_Measure = Callable[[Point, float], float]  # of a point, if a call took so many microseconds


class PlotsMissing(RuntimeError):
    """matplotlib isn't installed; the message says how to get it."""


def prepare() -> None:
    """Begin to import matplotlib in a process that `draw_all` forks, without waiting for it."""
    if _is_installed():
        multiprocessing.get_context("forkserver").set_forkserver_preload(_IMPORTED)
        forkserver.ensure_running()


def draw_all(figures: Sequence[Figure]) -> list[Path]:
    """Draw figures, each in a process of its own; returns the paths of their files, in order.

    Raises PlotsMissing, and what the figures raise.
    """
    if not figures:
        return []
    if not _is_installed():
        raise PlotsMissing(MISSING)
    prepare()
    processes = min(len(figures), len(os.sched_getaffinity(0)))
    context = multiprocessing.get_context("forkserver")
    deaf = (signal.SIGINT, signal.SIG_IGN)  # this process ends them after Ctrl-C
    with ProcessPoolExecutor(processes, context, signal.signal, deaf) as pool:
        return [path for files in pool.map(_draw, figures) for path in files]


def _draw(figure: Figure) -> tuple[Path, Path]:
    return figure()


def _is_installed() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def over_sizes(
    series: Sequence[Series], roofs: Roofs | None, title: str, size_name: str, stem: Path
) -> tuple[Path, Path]:
    """Speed over size, a line per kernel with its intervals, and the roof above them.

    In TFLOP/s where every point has FLOP to count, else in GB/s. Writes `stem`.png and `stem`.svg
    and returns their paths. Raises PlotsMissing, OSError.
    """
    shown = [each for each in series if each.points]
    computes = _has_flops(point for each in shown for point in each.points)
    with _figure() as (made, axes):
        _lines(axes, shown, partial(_speed, computes))
        for name, height in _flat_roofs(shown, roofs, computes):
            axes.axhline(height, color=_GREY, linestyle="--", linewidth=1)
            _note(axes, name, (1.0, height), (0, 3), xycoords=("axes fraction", "data"))
        _scale_sizes(axes, shown)
        axes.set_ylim(bottom=0)
        axes.margins(y=0.12)
        _label(axes, title, size_name, _unit(computes))
        if shown:
            axes.legend(loc="best")
        return _save(made, stem)


def times(series: Sequence[Series], title: str, size_name: str, stem: Path) -> tuple[Path, Path]:
    """Time over size, a line per kernel with its intervals, both axes logarithmic.

    Writes `stem`.png and `stem`.svg and returns their paths. Raises PlotsMissing, OSError.
    """
    shown = [each for each in series if each.points]
    with _figure() as (made, axes):
        axes.set_yscale("log")
        _lines(axes, shown, lambda point, microseconds: microseconds / 1e3)
        _scale_sizes(axes, shown)
        _label(axes, title, size_name, "ms")
        if shown:
            axes.legend(loc="upper left")
        return _save(made, stem)


def side_by_side(
    series: Sequence[Series], roofs: Roofs | None, title: str, stem: Path
) -> tuple[Path, Path]:
    """The speed of each kernel's first point as a bar, with its interval, and the first's roof.

    In TFLOP/s where every point has FLOP to count, else in GB/s. Writes `stem`.png and `stem`.svg
    and returns their paths. Raises PlotsMissing, OSError.
    """
    shown = [each for each in series if each.points]
    computes = _has_flops(each.points[0] for each in shown)
    families = list(dict.fromkeys(each.name.partition("_")[0] for each in shown))
    with _figure() as (made, axes):
        for index, each in enumerate(shown):
            colour = _COLOURS[families.index(each.name.partition("_")[0]) % len(_COLOURS)]
            speed = _speed(computes, each.points[0], each.points[0].microseconds)
            below, above = _intervals(each.points[:1], partial(_speed, computes))
            axes.barh(index, speed, color=colour, xerr=[below, above], capsize=3)
            axes.annotate(
                _digits(speed),
                (speed + above[0], index),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
            )
        for name, limit in _flat_roofs(shown[:1], roofs, computes):
            axes.axvline(limit, color=_GREY, linestyle="--", linewidth=1)
            places: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "va": "top"}
            _note(axes, name, (limit, 1.0), (-4, -4), **places, rotation=90)
        axes.set_yticks(range(len(shown)), [each.name for each in shown])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlim(left=0)
        axes.margins(x=0.1)
        _label(axes, title, _unit(computes))
        return _save(made, stem)


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
    computes = _has_flops(timed)
    speeds = [_speed(computes, point, point.microseconds) for point in timed]
    roof = next(_flat_roofs([Series("", dtype, tuple(timed))], roofs, computes), None)
    top = max([*speeds, roof[1] if roof else 0.0])
    size = max(_SIZE[0], 2.5 + 1.1 * len(columns)), max(2.6, 1.6 + 0.5 * len(rows))
    with _figure(size) as (made, axes):
        grid = [[math.nan] * len(columns) for _ in rows]
        for name, cell in zip(named, cells, strict=True):
            x, y = columns.index(cell.values[last]), rows.index(name)
            text, colour = cell.why.replace(" ", "\n", 1), "#D55E00"
            if cell.point is not None:
                grid[y][x] = _speed(computes, cell.point, cell.point.microseconds)
                text = _digits(grid[y][x])
                colour = "white" if grid[y][x] < 0.6 * top else "black"
            axes.text(x, y, text, ha="center", va="center", color=colour, fontsize=9)
        image = axes.imshow(grid, vmin=0, vmax=top, cmap="viridis", aspect="auto")
        made.colorbar(image, ax=axes).set_label(_unit(computes))
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(rows)), rows)
        axes.grid(visible=False)
        _label(axes, f"{title}\nroof: {roof[0]}" if roof else title, last)
        return _save(made, stem)


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
    with _figure() as (made, axes):
        axes.set_xscale("log")
        axes.set_yscale("log")
        _draw_roofs(axes, roofs, list(dtypes), left, right)
        for index, spot in enumerate(spots):
            colour = _COLOURS[index % len(_COLOURS)]
            top = min(spot.x * roofs.bandwidth, roofs.flops.get(spot.place.dtype, math.inf))
            axes.plot([spot.x, spot.x], [spot.y / 1e12, top / 1e12], color=colour, linewidth=1)
            look = {**_look(index, spot.label), "markersize": 8, "linestyle": "none"}
            axes.plot([spot.x], [spot.y / 1e12], **look)
        axes.set_xlim(left, right)
        uncounted = any(not spot.place.intensity for spot in spots)
        note = f"; {UNCOUNTED} where FLOP are not counted" if uncounted else ""
        _label(axes, title, f"arithmetic intensity (FLOP per byte{note})", "TFLOP/s")
        if spots:
            is_long = max(len(spot.label) for spot in spots) > _LONG_LABEL
            made.legend(loc="outside lower center", ncols=1 if is_long else 2)
        return _save(made, stem)


@contextmanager
def _figure(size: tuple[float, float] = _SIZE) -> Iterator[tuple[Any, Any]]:
    """An empty figure of so many inches in our style, and its axes. Raises PlotsMissing."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PlotsMissing(MISSING) from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # not what a user's matplotlibrc says
        matplotlib.rcParams.update(_STYLE)
        made = Figure(figsize=size, dpi=_DPI, layout="constrained")
        yield made, made.subplots()


def _save(figure: Any, stem: Path) -> tuple[Path, Path]:
    """Both files, without the date and the version that would differ.

    `savefig` would draw the figure once more for each file.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    stem.parent.mkdir(parents=True, exist_ok=True)
    png, svg = (stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg"))
    # matplotlib's methods of canvases have no types
    raster: Any = FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the layout that was found serves both files
    raster.print_png(png, metadata={"Software": None})
    vector: Any = FigureCanvasSVG(figure)
    vector.print_svg(svg, metadata={"Date": None, "Creator": None})
    return png, svg


def _lines(axes: Any, series: Sequence[Series], measure: _Measure) -> None:
    """A line over sizes for each kernel, with its intervals."""
    for index, each in enumerate(series):
        sizes = [point.size for point in each.points]
        values = [measure(point, point.microseconds) for point in each.points]
        intervals = _intervals(each.points, measure)
        look = {**_look(index, each.name), "markersize": 5, "capsize": 3}
        axes.errorbar(sizes, values, yerr=intervals, **look)


def _look(index: int, name: str) -> dict[str, Any]:
    """The marks of a kernel; the first kernel's lie over the others'."""
    return {
        "label": name,
        "color": _COLOURS[index % len(_COLOURS)],
        "marker": _MARKERS[index % len(_MARKERS)],
        "zorder": 4 - index / 100,
    }


def _label(axes: Any, title: str, across: str, up: str = "") -> None:
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.set_title(title, loc="left")


def _note(
    axes: Any, text: str, at: tuple[float, float], away: tuple[int, int], **more: Any
) -> None:
    """A roof's name, which ends `away` points from a place."""
    where = {"xytext": away, "textcoords": "offset points"}
    axes.annotate(text, at, **where, ha="right", color=_GREY, **more)


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
    axes.plot([left, end], slope, color=_GREY, linewidth=1.5)
    middle = math.sqrt(left * end)
    bandwidth = f"{roofs.bandwidth / 1e9:.0f} GB/s ({kind})"
    _note(axes, bandwidth, (middle, middle * roofs.bandwidth / 1e12), (-8, 2))
    for dtype, rate in zip(dtypes, rates, strict=True):
        axes.plot([rate / roofs.bandwidth, right], [rate / 1e12] * 2, color=_GREY)
        name = f"{dtype}: {rate / 1e12:.0f} TFLOP/s ({kind})"
        _note(axes, name, (right, rate / 1e12), (-2, 4))


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


def _has_flops(points: Iterable[Point]) -> bool:
    """Whether every point has FLOP to count, and there is one."""
    counted = [bool(point.flops) for point in points]
    return bool(counted) and all(counted)


def _unit(computes: bool) -> str:
    return "TFLOP/s" if computes else "GB/s"


def _speed(computes: bool, point: Point, microseconds: float) -> float:
    """GB/s, or TFLOP/s."""
    if computes:
        return (point.flops or 0.0) / microseconds / 1e6
    return point.bytes / microseconds / 1e3


def _digits(speed: float) -> str:
    return f"{speed:.0f}" if speed >= 10 else f"{speed:.2g}"


def _intervals(points: Sequence[Point], measure: _Measure) -> list[list[float]]:
    """The distances of each interval's ends from the value; 0 where none was taken."""
    below, above = [], []
    for point in points:
        value = measure(point, point.microseconds)
        ends = [measure(point, end) for end in (point.low, point.high) if end] or [value]
        below.append(max(0.0, value - min(ends)))
        above.append(max(0.0, max(ends) - value))
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
