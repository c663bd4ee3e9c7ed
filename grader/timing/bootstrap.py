"""The median of repeated measurements and its interval. Pure functions of numbers.

The interval is the percentile bootstrap's of the median (Efron and Tibshirani, An Introduction to
the Bootstrap, 1993, chapter 13). No samples are drawn: the distribution of a resample's median is
known in closed form (Efron 1979, Annals of Statistics 7, section 3; Maritz and Jarrett 1978,
JASA 73). Of n values, k are at or below the k-th smallest, so the number of a resample's values at
or below it is binomial (n, k/n). Its median is at or below it when more than half of them are. So
the interval depends on the values alone, not on their order or a seed, and an outlier moves it by
one rank.

The distribution is interpolated linearly between neighbouring values, which keeps the interval of
a dozen values from being much too wide. Of fewer than 12 values, the whole range covers less than
0.999.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

CONFIDENCE = 0.95
FEWEST = 5  # values; the interval of fewer is their range, whatever the confidence


@dataclass(frozen=True)
class Interval:
    """A median and its bounds: low <= median <= high, in the unit of the values."""

    median: float
    low: float
    high: float
    count: int  # of values

    @property
    def half_width(self) -> float:
        """Half the width as a share of the median; infinite where the median is 0."""
        return (self.high - self.low) / 2 / abs(self.median) if self.median else math.inf

    def at_least_as_wide(self, share: float) -> Interval:
        """This interval, widened at least to m / (1 + share) .. m (1 + share), for a median m > 0.

        For errors that all measurements of one run share, which averaging doesn't reduce.
        """
        low = min(self.low, self.median / (1 + share))
        return Interval(self.median, low, max(self.high, self.median * (1 + share)), self.count)


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The median of the values with its bootstrap interval at a confidence between 0 and 1.

    Raises ValueError for no values, a value that is no finite number, or another confidence.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"expected a confidence between 0 and 1, got {confidence}")
    if not values:
        raise ValueError("expected at least one value, got none")
    for value in values:
        if not math.isfinite(value):
            raise ValueError(f"expected finite numbers, got {value}")
    ordered = sorted(map(float, values))
    rank, share = _low_end(len(ordered), confidence)
    middle = statistics.median(ordered)
    low = _between(ordered[rank - 1], ordered[min(rank, len(ordered) - 1)], share)
    high = _between(ordered[-rank], ordered[max(-rank - 1, -len(ordered))], share)
    # Rounding must not carry an end past the median.
    return Interval(middle, min(low, middle), max(high, middle), len(ordered))


def paired_ratios(candidate: Iterable[float], baseline: Iterable[float]) -> list[float]:
    """Baseline's time over candidate's, pair by pair: above 1 the candidate wins.

    Raises ValueError where a time is not above 0, or the two are of different lengths.
    """
    ratios = []
    for own, other in zip(candidate, baseline, strict=True):
        if not (own > 0 and other > 0):
            raise ValueError(f"expected times above 0, got {own} and {other}")
        ratios.append(other / own)
    return ratios


def _between(start: float, end: float, share: float) -> float:
    return start + (end - start) * share if share else start


@lru_cache(maxsize=4096)
def _low_end(n: int, confidence: float) -> tuple[int, float]:
    """The low end's rank, from 1, and the share of the way to the next rank.

    The high end lies as far from the top.
    """
    if n < FEWEST:
        return 1, 0.0
    tail = (1 - confidence) / 2
    low, high = 1, (n + 1) // 2
    while high - low > 1:  # the largest rank with no more than the tail at or below it
        middle = (low + high) // 2
        if _median_is_at_most(middle, n) <= tail:
            low = middle
        else:
            high = middle
    here = _median_is_at_most(low, n)
    if here > tail:
        return 1, 0.0
    return low, (tail - here) / (_median_is_at_most(low + 1, n) - here)


def _median_is_at_most(rank: int, n: int) -> float:
    """The probability that a resample's median is at or below the element of a rank < n.

    For an even n, the mean of the probabilities of the two middle elements.
    """
    if n % 2:
        return _at_least((n + 1) // 2, n, rank / n)
    return (_at_least(n // 2, n, rank / n) + _at_least(n // 2 + 1, n, rank / n)) / 2


def _at_least(successes: int, n: int, p: float) -> float:
    """P(X >= successes) for X binomial (n, p), 0 < p < 1."""
    log_p, log_q = math.log(p), math.log1p(-p)
    whole = math.lgamma(n + 1)
    return math.fsum(
        math.exp(whole - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * log_p + (n - k) * log_q)
        for k in range(successes, n + 1)
    )
