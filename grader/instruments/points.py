"""Timings as points and series, from which plots and tables over sizes are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.evidence import PerformanceEvidence
from grader.report.performance import dtype_of, flops_of


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
