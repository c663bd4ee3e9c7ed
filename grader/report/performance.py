"""A timing in sentences: how fast, how near to which roof, and what to try next."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from grader.evidence import MemoryEvidence, PerformanceEvidence
from grader.gpu.roofline import Counted, Place, Roofs, advice, peaks, place
from grader.sandbox.untrusted import one_line


def sentences(
    timed: PerformanceEvidence | None,
    roofs: Roofs | None = None,
    memory: MemoryEvidence | None = None,
) -> list[str]:
    """One for each timed case, by the data sheet of its GPU unless `roofs` are given; clean text.

    What to try next follows from how the kernel used `memory`, where that was counted.

    'moves 268 MB in 93.1 us: 2884 GB/s, 86 % of what this GPU's memory gives at most, where a copy
    beside it reaches 88 %; bound by memory. Next: keep more bytes in flight ...'
    """
    lines = []
    for each in timed.every if timed else ():
        if sentence := _sentence(each, roofs, _counted(memory)):
            case = f"{each.case}: " if timed and timed.further else ""
            lines.append(one_line(case + sentence))
    return lines


def placed(timed: PerformanceEvidence, roofs: Roofs | None = None) -> Place | None:
    """Where the case stands below the roofs; None where that can't be said.

    Of the published bandwidth what can be hoped for is what a copy reached beside it, if one was
    timed: GPUs come nearer to their data sheet or less near.
    """
    published = peaks(timed.device)
    known = roofs or (published.roofs() if published else None)
    took = _time_of(timed)
    if known is None or not took or not timed.bytes or timed.bytes < 0:
        return None
    seconds = took / 1e6
    standing = place(timed.bytes, flops_of(timed), dtype_of(timed), seconds, known)
    copied = _of_copy(timed)
    if standing and copied and standing.bound == "memory" and not known.is_measured:
        return replace(standing, attainable=standing.fraction / copied)
    return standing


def flops_of(timed: PerformanceEvidence) -> float | None:
    """What the case must compute, where the evidence says."""
    return timed.flops if timed.flops and timed.flops > 0 else None


def dtype_of(timed: PerformanceEvidence) -> str:
    """The dtype of the case; "" where it names none."""
    best = re.search(r"(?:^|\s)dtype=(\w+)", timed.case)
    return best[1] if best else ""


def duration(microseconds: float) -> str:
    """'93.1 us', '1.85 ms'."""
    if microseconds < 999.95:
        return f"{microseconds:.1f} us"
    return f"{microseconds / 1000:.2f} ms"


def speed(timed: PerformanceEvidence, standing: Place | None) -> str:
    """'2884 GB/s', or '763 TFLOP/s' where computing bounds the case; "" where nothing is known."""
    took = _time_of(timed)
    if not took:
        return ""
    flops = flops_of(timed)
    if flops and (standing.bound == "compute" if standing else not timed.bytes):
        return f"{_rounded(flops / took / 1e6)} TFLOP/s"
    return f"{timed.bytes / took / 1e3:.0f} GB/s" if timed.bytes else ""


def _sentence(timed: PerformanceEvidence, roofs: Roofs | None, counted: Counted | None) -> str:
    standing = placed(timed, roofs)
    reached = speed(timed, standing)
    if not reached:
        return ""
    if reached.endswith("TFLOP/s"):
        start = f"computes {_amount(flops_of(timed) or 0, 'FLOP')}"
    else:
        start = f"moves {_amount(timed.bytes or 0, 'B')}"
    start += f" in {duration(timed.microseconds or 0)}: {reached}"
    if standing is None:
        return f"{start}."
    share = f"{100 * standing.fraction:.0f} % of {_roof(standing, roofs)}"
    if _of_copy(timed) and standing.bound == "memory" and not (roofs and roofs.is_measured):
        share += f", where a copy beside it reaches {100 * standing.attainable:.0f} %"
    return f"{start}, {share}; bound by {_bound(standing)}. Next: {advice(standing, counted)}."


def _counted(memory: MemoryEvidence | None) -> Counted | None:
    """What advice needs of the counts; None where nothing was counted."""
    if memory is None or not memory.metrics:
        return None
    by_kind: dict[str, dict[str, float]] = {}
    for metric in memory.metrics:
        kind, _, of = metric.name.partition(".")
        by_kind.setdefault(kind, {})[of] = metric.value
    return Counted(by_kind.get("useful_bytes_per_sector", {}), by_kind.get("reads", {}))


def _of_copy(timed: PerformanceEvidence) -> float | None:
    """The speed of a copy that the case has, where one was timed beside it."""
    copies = (each.ratio for each in timed.baselines if each.name == "copy")
    return next((ratio for ratio in copies if math.isfinite(ratio) and ratio > 0), None)


def _roof(standing: Place, roofs: Roofs | None) -> str:
    if standing.bound == "memory":
        is_measured = roofs is not None and roofs.is_measured
        return "what a copy reaches here" if is_measured else "what this GPU's memory gives at most"
    peak = "matrix peak measured here" if roofs and roofs.is_measured else "peak of this GPU"
    return f"the {standing.dtype} {peak}"


def _bound(standing: Place) -> str:
    if standing.ridge is None:
        return standing.bound
    word = "computing" if standing.bound == "compute" else standing.bound
    intensity = _rounded(standing.intensity)
    return f"{word} ({intensity} FLOP per byte; the ridge is at {_rounded(standing.ridge)})"


def _time_of(timed: PerformanceEvidence) -> float | None:
    """Microseconds of a call; None where there is no time that can be one."""
    took = timed.microseconds
    return took if took is not None and math.isfinite(took) and took > 0 else None


def _amount(value: float, unit: str) -> str:
    """'268 MB', '137 GFLOP'."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= 0.9995 * size:
            return f"{_rounded(value / size)} {prefix}{unit}"
    return f"{value:.0f} {unit}"


def _rounded(value: float) -> str:
    """Three digits at least: 0.5, 1.07, 29.5, 1365."""
    if value >= 99.95:
        return f"{value:.0f}"
    text = f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".")
