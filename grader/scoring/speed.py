"""Whether a measured speed meets thresholds, and whether it is plausible. Pure.

A threshold holds where the measurement allows it: doubt counts for the student
(timing/sequential.py explains why), and the message says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from grader.evidence import Baseline, PerformanceEvidence
from grader.gpu import kinds, roofline
from grader.spec import OF_BASELINE, Milliseconds, Performance, Threshold
from grader.status import Status

# For a threshold inside an interval. More pairs would not have changed the points.
IN_DOUBT = "within the measurement's doubt, decided in your favour"


class Decision(NamedTuple):
    """Whether a threshold holds, and the message about it."""

    threshold: Threshold
    holds: bool
    message: str


def decided(thresholds: Iterable[Threshold], timed: PerformanceEvidence) -> list[Decision]:
    """The decisions on those thresholds that can be decided, in order."""
    every = (decision(each, timed) for each in thresholds)
    return [each for each in every if each is not None]


def decision(threshold: Threshold, timed: PerformanceEvidence) -> Decision | None:
    """Whether a threshold holds in all cases; None where it can't be decided."""
    if threshold.speed_vs is not None:
        return _of_ratio(threshold, timed)
    assert threshold.milliseconds is not None  # a spec asks for the one or the other
    return _of_time(threshold, threshold.milliseconds, timed)


def _of_ratio(threshold: Threshold, timed: PerformanceEvidence) -> Decision | None:
    name, wanted = threshold.speed_vs, threshold.at_least
    every = [next((y for y in each.baselines if y.name == name), None) for each in timed.every]
    compared = [each for each in every if each is not None and _is_finite(each)]
    if name is None or wanted is None or len(compared) < len(every):
        return None
    slowest = min(compared, key=lambda each: (each.at_best, each.ratio))
    interval = ""
    if slowest.low is not None and slowest.high is not None:
        interval = f"{_cut(slowest.low)} to {_cut(slowest.high)}; "
    message = f"{_cut(slowest.ratio)} {OF_BASELINE.get(name, name)} ({interval}target {wanted:g})"
    holds = slowest.at_best >= wanted
    in_doubt = holds and min(each.at_worst for each in compared) < wanted
    message += _among(timed, timed.every[compared.index(slowest)])
    return Decision(threshold, holds, message + (f": {IN_DOUBT}" if in_doubt else ""))


def _is_finite(baseline: Baseline) -> bool:
    return all(map(math.isfinite, (baseline.ratio, baseline.at_best, baseline.at_worst)))


def _of_time(
    threshold: Threshold, limit: Milliseconds, timed: PerformanceEvidence
) -> Decision | None:
    every = [(each.microseconds_at_best, each.microseconds) for each in timed.every]
    times = [
        (best, median)
        for best, median in every
        if best is not None and median is not None and math.isfinite(best + median)
    ]
    if limit.gpu.lower() not in timed.device.lower() or len(times) < len(every):
        return None
    slowest = timed.every[times.index(max(times))]
    at_best, median = (each / 1000 for each in max(times))
    interval = ""
    if slowest.microseconds_high is not None:
        interval = f"{at_best:.4g} to {slowest.microseconds_high / 1000:.4g}; "
    message = f"{median:.4g} ms ({interval}target {limit.at_most:g} ms)"
    holds = at_best <= limit.at_most
    worst = max(each.microseconds_high or each.microseconds or 0.0 for each in timed.every)
    in_doubt = holds and worst / 1000 > limit.at_most
    message += _among(timed, slowest)
    return Decision(threshold, holds, message + (f": {IN_DOUBT}" if in_doubt else ""))


def _cut(ratio: float) -> str:
    """The ratio cut, not rounded: 0.8996 against 0.9 must not read "0.900 of 0.9"."""
    return f"{math.floor(Fraction(repr(float(ratio))) * 1000) / 1000:.3f}"


def _among(timed: PerformanceEvidence, slowest: PerformanceEvidence) -> str:
    """The name of the slowest of several cases."""
    return f", the worst of {len(timed.every)} cases: {slowest.case}" if timed.further else ""


def implausible(timed: PerformanceEvidence) -> str:
    """Why a person has to check a case's time, or "": the GPU's published figures exclude it.

    A case must move its bytes and compute its FLOP, which takes a least time at the GPU's
    theoretical peaks. "" where the peaks are unknown or a person has `accepted` the time.
    """
    if timed.status is Status.implausible_time:
        return timed.reason or "faster than the hardware can be"
    peaks = roofline.peaks(timed.device)
    took, moved, computed = timed.microseconds, timed.bytes or 0, timed.flops or 0
    if timed.accepted or peaks is None or took is None or not took > 0:
        return ""
    if not all(math.isfinite(each) and each >= 0 for each in (moved, computed)):
        return ""
    words = dict(word.partition("=")[::2] for word in timed.case.split())
    floor = 1e6 * roofline.floor_seconds(peaks, moved, computed, words.get("dtype", ""))
    if took >= floor:
        return ""
    return (
        f"{took:.4g} us is below the {floor:.4g} us that {timed.device} needs at its published "
        f"peaks for {timed.case}: a person will look, and no points are lost until then"
    )


def remarks(timed: PerformanceEvidence, asked: Performance, course_gpu: str = "") -> list[str]:
    """Notes beside the points: a GPU that nobody calibrated the thresholds for, a disturbance."""
    disturbances = dict.fromkeys(each.disturbed for each in timed.every if each.disturbed)
    known = asked.calibrated_on or ((course_gpu,) if course_gpu else ())
    if not known or any(kinds.is_of(gpu, timed.device) for gpu in known):
        return list(disturbances)
    if len(known) == 1 and not asked.by_gpu:
        return [f"indicative: the final grade is taken on an {known[0]}", *disturbances]
    note = f"indicative: no threshold is calibrated for this GPU, only for {', '.join(known)}"
    return [f"{note}; those of {known[0]} are taken", *disturbances]
