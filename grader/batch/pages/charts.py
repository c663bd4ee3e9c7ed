"""Positions of marks in the class report's drawings, in percent of their width."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

BARS = 20  # of the histogram, up to the maximum; a bonus adds more
COLUMNS = 160  # of a strip: dots that share one are stacked
DOTS_HIGH = 9.0  # dots above and below the middle of a strip, before they are pressed together


@dataclass(frozen=True)
class Bar:
    """One bar of a histogram: scores from `low` up to, and not with, `high`."""

    low: float
    high: float
    count: int
    left: float  # percent of the drawing's width
    width: float
    height: float  # percent of the highest bar


def histogram(scores: Iterable[float], most: float) -> tuple[Bar, ...]:
    """The distribution of scores, in steps of a twentieth of `most`.

    Full marks are in the last bar, scores below 0 in the first. Scores beyond full marks have bars
    of their own, as many again at most.
    """
    every = list(scores)
    step = most / BARS if most > 0 else 1.0
    over = max([0.0, *(each - most for each in every)])
    count = BARS + min(BARS, math.ceil(over / step - 1e-9))
    counts = [0] * count
    for each in every:
        # A score on a boundary starts its bar, but full marks end the last one.
        index = math.ceil(each / step - 1e-9) - 1 if each >= most else math.floor(each / step)
        counts[min(max(index, 0), count - 1)] += 1
    highest = max([1, *counts])
    return tuple(
        Bar(n * step, (n + 1) * step, held, 100 * n / count, 100 / count, 100 * held / highest)
        for n, held in enumerate(counts)
    )


def five_numbers(scores: Sequence[float]) -> tuple[float, float, float, float, float]:
    """The least, the quartiles and the greatest of at least one score."""
    if len(scores) == 1:
        return (scores[0],) * 5
    low, middle, high = statistics.quantiles(scores, n=4, method="inclusive")
    return min(scores), low, middle, high, max(scores)


@dataclass(frozen=True)
class Axis:
    """A scale over a drawing's width."""

    low: float
    high: float
    step: float  # between ticks

    def at(self, value: float) -> float:
        """The position of a value in percent; beyond the scale, at its end."""
        return 100 * min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    @property
    def ticks(self) -> tuple[float, ...]:
        first = math.ceil(self.low / self.step - 1e-9)
        last = math.floor(self.high / self.step + 1e-9)
        return tuple(round(index * self.step, 6) for index in range(first, last + 1))


def axis(values: Sequence[float], limits: Sequence[float]) -> Axis:
    """A scale with room for the limits and for all values but the farthest few on each side."""
    ordered = sorted(values) or [0.0]
    few = len(ordered) // 50
    low = min(ordered[few], *limits, math.inf)
    high = max(ordered[-1 - few], *limits, -math.inf)
    room = 0.08 * (high - low) or 0.1 * high or 1.0
    low, high = max(0.0, low - room), high + room
    rough = 10 ** math.floor(math.log10(high - low))
    step = next(rough * by for by in (0.1, 0.2, 0.5, 1.0, 2.0) if high - low <= 8 * rough * by)
    return Axis(math.floor(low / step + 1e-9) * step, high, step)


def swarm(values: Sequence[float], scale: Axis) -> list[tuple[float, float]]:
    """A place for each value: percent of the width, and dots above (-) or below the middle."""
    columns: dict[int, int] = {}
    places = []
    for value in values:
        across = scale.at(value)
        column = min(int(across / 100 * COLUMNS), COLUMNS - 1)
        rank = columns[column] = columns.get(column, 0) + 1
        away = rank // 2 * (1 if rank % 2 else -1)
        places.append((round(across, 2), float(away)))
    highest = max([1.0, *(abs(away) for _, away in places)])
    press = min(1.0, DOTS_HIGH / highest)
    return [(across, round(away * press, 2)) for across, away in places]
