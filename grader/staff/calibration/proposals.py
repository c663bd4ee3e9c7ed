"""Thresholds that follow from what was timed. Pure.

The first threshold gives all points. It asks for FULL of what the solution reaches, and the
solution uses nothing that the handout doesn't teach. The instructor chooses the lower thresholds;
one of them is moved only where a submission that must miss it comes too near, or where it has come
too near to the threshold above.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from grader.evidence import Baseline, PerformanceEvidence
from grader.spec import Threshold, Variant
from grader.staff.calibration.readings import VariantReadings, against, edits_of

FULL = 0.9  # of what the solution reaches
MARGIN = 0.02  # between a threshold and the largest ratio that one that must miss it may have
BELOW = 0.95  # of the threshold above against the same baseline, at most
HUNDRED = 100  # a ratio in a spec has two digits


@dataclass(frozen=True)
class Proposal:
    """One threshold of a variant: what it says, and what it should say."""

    index: int  # among the variant's thresholds
    threshold: Threshold
    reached: Baseline | None  # by the solution; None where it wasn't measured
    edits: Mapping[str, Baseline] = field(default_factory=dict)  # of all slow submissions timed
    at_least: float | None = None  # proposed; None where nothing can be
    from_: float | None = None
    at_most: float | None = None  # milliseconds

    @property
    def baseline(self) -> str:
        """Its name among the timing's."""
        return name_of(self.threshold)

    @property
    def fastest(self) -> tuple[str, Baseline] | None:
        """The submission nearest to the threshold, of those that must miss it."""
        named = [(n, y) for n, y in self.edits.items() if n in self.threshold.missed_by]
        return max(named, key=lambda each: each[1].at_best, default=None)


def name_of(threshold: Threshold) -> str:
    """The name that a threshold's baseline has in a timing (timing/timed_variant.py)."""
    return threshold.speed_vs or f"{threshold.limit:g} ms"


def propose(variant: Variant, readings: VariantReadings) -> list[Proposal]:
    """A proposal for each threshold of a variant, in their order."""
    proposals: list[Proposal] = []
    above: dict[str, float] = {}
    for index, threshold in enumerate(variant.timed.thresholds):
        name = name_of(threshold)
        reached = against(readings.reference, name)
        made = Proposal(index, threshold, reached, edits_of(readings, name))
        if threshold.milliseconds is not None:
            made = _with_milliseconds(made, readings.reference)
        elif reached is not None:
            above[name] = _ratio(made, reached, above.get(name))
            start = threshold.from_ and down(threshold.from_ * above[name] / threshold.limit)
            made = replace(made, at_least=above[name], from_=start)
        proposals.append(made)
    return proposals


def _ratio(made: Proposal, reached: Baseline, above: float | None) -> float:
    wanted = down(FULL * reached.ratio)
    if not made.index:
        return wanted
    most = wanted if above is None else min(wanted, down(BELOW * above))
    least = up(kept_out_from(made.fastest[1])) if made.fastest else 0.0
    return min(max(made.threshold.limit, least), most)


def _with_milliseconds(made: Proposal, reference: PerformanceEvidence) -> Proposal:
    times = [each.microseconds for each in reference.every if each.microseconds is not None]
    if made.index or len(times) < len(reference.every):
        return replace(made, at_most=made.threshold.limit)
    slowest = max(times) / 1000 / FULL
    return replace(made, at_most=float(f"{slowest:.3g}"))


def kept_out_from(edit: Baseline) -> float:
    """The least threshold that a submission misses for certain."""
    return edit.at_best * (1 + MARGIN)


def down(value: float) -> float:
    """Cut to the digits of a spec: a threshold is never rounded to what isn't reached."""
    return math.floor(_exact(value)) / HUNDRED


def up(value: float) -> float:
    """Raised to the digits of a spec."""
    return math.ceil(_exact(value)) / HUNDRED


def _exact(value: float) -> Fraction:
    # Of the twelve digits that are meant: 0.9 * 1.1 is 0.99, whatever binary fractions make of it.
    return Fraction(f"{value:.12f}") * HUNDRED
