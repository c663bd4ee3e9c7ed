"""Memory metrics compared with a spec's bounds, and described in words.

executors/memory_metrics.py defines the metrics.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from grader.cases import agrees
from grader.emulator.report import SECTOR_BYTES
from grader.evidence import LineCounters, MemoryEvidence, Metric
from grader.spec import ITEMSIZE, Bound, Exercise, Memory, Variant
from grader.spec.blocks import GROWTH, SHARED_WORK, SHARES
from grader.spec.checks import sms_of

TO_ROW_MAJOR = ("wave_bytes", "to_row_major")


@dataclass(frozen=True)
class Judged:
    """One bound of a spec and the measured value, None where there is no such access."""

    path: tuple[str, ...]  # ("useful_bytes_per_sector", "store")
    measured: float | None
    wanted: float
    at_least: bool  # whether `wanted` is a minimum, else a maximum
    holds: bool

    @property
    def name(self) -> str:
        """The metric's name: 'useful_bytes_per_sector.store'."""
        return ".".join(self.path)


# --- judging --------------------------------------------------------------------------------------


def sizes_of(variant: Variant) -> dict[str, int]:
    """Sizes, itemsize and sms for the formulas of a variant's memory block."""
    case = variant.counted.case
    sizes = {name: value for name, value in case.items() if type(value) is int}
    itemsize = ITEMSIZE[case.get("dtype", variant.dtypes[0])]
    return {"sms": sms_of(variant.gpu), **sizes, "itemsize": itemsize}


def sizes_in(variant: Variant, case: str) -> dict[str, int]:
    """As `sizes_of`, for a case's text; sizes that it doesn't name are the spec's."""
    words = dict(word.partition("=")[::2] for word in case.split())
    sizes = sizes_of(variant)
    given = {name: int(words[name]) for name in sizes if words.get(name, "").isdecimal()}
    return {**sizes, **given}


def is_case_of(variant: Variant, case: str) -> bool:
    """Whether the text of a case agrees with the variant's memory block."""
    return agrees(case, variant, variant.counted.case)


def shortfalls(evidence: MemoryEvidence, variant: Variant) -> list[tuple[MemoryEvidence, Judged]]:
    """The bounds of a variant that don't hold, each with the first run where it doesn't."""
    missed: dict[str, tuple[MemoryEvidence, Judged]] = {}
    for run in evidence.every:
        for judged in judge(variant.counted, run.metrics, sizes_in(variant, run.case)):
            if not judged.holds:
                missed.setdefault(judged.name, (run, judged))
    return list(missed.values())


def judge(memory: Memory, metrics: Sequence[Metric], sizes: Mapping[str, int]) -> list[Judged]:
    """Each bound of the block and whether it holds; a missing metric holds none.

    `sizes` are the case's, and `itemsize`. Raises FormulaError for a bound without a value, which
    reading the spec excludes.
    """
    values = {metric.name: metric.value for metric in metrics}
    return [
        _judged(path, bound, values.get(".".join(path)), sizes) for path, bound in memory.bounds()
    ]


def _judged(
    path: tuple[str, ...], bound: Bound, measured: float | None, sizes: Mapping[str, int]
) -> Judged:
    formula, at_least = bound.at_most, bound.at_least is not None
    if bound.at_least is not None:
        formula = bound.at_least
    assert formula is not None  # a Bound has one of them
    wanted = formula.evaluate(sizes)
    holds = measured is not None and (measured >= wanted if at_least else measured <= wanted)
    return Judged(path, measured, wanted, at_least, holds)


# --- in words -------------------------------------------------------------------------------------


def missed(judged: Judged, lines: Sequence[LineCounters], file: str, run: str = "") -> str:
    """'stores use 4 of 32 bytes per sector (t.cu:41 the fewest), asked for: at least 30'.

    `run` describes a further run.
    """
    where = f"with {run}: " if run else ""
    return f"{where}{_measured(judged, lines, file)}, asked for: {_wanted(judged)}"


def _wanted(judged: Judged) -> str:
    """'at least 30'; 'none' where nothing is allowed."""
    limit = "at least" if judged.at_least else "at most"
    amount = _amount(judged.path, judged.wanted, up=judged.at_least)
    return f"{limit} {amount}" if judged.wanted else "none"


def sentences(evidence: MemoryEvidence, exercise: Exercise, variant: Variant) -> list[str]:
    """The measurements that some variant of the exercise bounds, in sentences.

    Where other variants of the same language have a stricter bound, their names follow: 'Shared
    loads conflict 32 ways at transpose.cu:63: 63,488 extra wavefronts; cuda_v4 asks for none.'
    """
    held: dict[str, tuple[Judged, dict[str, list[str]]]] = {}
    others = [each for each in exercise.variants.values() if each.name != variant.name]
    for other in (variant, *others):  # its own bounds first
        if other.language != variant.language or other.memory is None:
            continue
        if not is_case_of(other, evidence.case):
            continue
        for judged in judge(other.memory, evidence.metrics, sizes_of(other)):
            if judged.measured is None:
                continue
            _, asking = held.setdefault(judged.name, (judged, {}))
            if not judged.holds and other.name != variant.name:
                asking.setdefault(_wanted(judged), []).append(other.name)
    texts = []
    for judged, asking in held.values():
        stricter = (f"{_ask(names)} for {wanted}" for wanted, names in asking.items())
        text = "; ".join([_measured(judged, evidence.lines, variant.file), *stricter])
        texts.append(f"{text[:1].upper()}{text[1:]}.")
    return [*texts, *evidence.notes]


def _ask(names: Sequence[str]) -> str:
    """'cuda_v4 asks', 'cuda_v3 and cuda_v4 ask'."""
    *first, last = names
    return f"{', '.join(first)} and {last} ask" if first else f"{last} asks"


def shared_work(evidence: MemoryEvidence, variant: Variant) -> list[str]:
    """How work is shared, in sentences: 'The largest launch has 64 blocks that store (not scored).'

    A sentence says where the variant has no bound, or no points for it.
    """
    has_points = variant.points.get("memory", 0) > 0
    scored = {path[0] for path, _ in variant.counted.bounds()} if has_points else set()
    texts = []
    for metric in evidence.metrics:
        if metric.name in SHARED_WORK:
            amount = _amount((metric.name,), metric.value, up=metric.name != "simt_efficiency")
            text = _shared(metric.name, amount, variant.file)
            note = "" if metric.name in scored else " (not scored)"
            texts.append(f"{text[:1].upper()}{text[1:]}{note}.")
    return texts


def _shared(metric: str, amount: str, file: str) -> str:
    """What one of the metrics in SHARED_WORK came to."""
    is_cuda = file.endswith(".cu")
    if metric == "largest_share":
        who = "thread" if is_cuda else "program"
        return f"of the bytes that the case needs, the busiest {who} moves {amount}"
    if metric == "requests":
        by = "warps make {} requests to global memory"
        elements = "programs make {} requests to global memory, each of up to 32 elements"
        return (by if is_cuda else elements).format(amount)
    if metric == "blocks":
        who = "block" if is_cuda else "program"
        stores = f"{who} that stores" if amount == "1" else f"{who}s that store"
        return f"the largest launch has {amount} {stores}"
    if is_cuda:
        return f"{amount} of a warp's threads take part in its accesses to memory"
    return f"masks let {amount} of the elements of loads, stores and atomics through"


def _amount(path: tuple[str, ...], value: float, up: bool) -> str:
    """A metric's value or bound: shares in percent."""
    if path[0] in SHARES or path == TO_ROW_MAJOR:
        return f"{number(Fraction(repr(float(value))) * 100, up)} %"
    return number(value, up)


def number(value: float | Fraction, up: bool = False) -> str:
    """'63,488' or '29.99': cut to 2 decimals, never rounded over a bound; `up` rounds up."""
    exact = Fraction(value) * 100
    cut = (math.ceil(exact) if up else math.floor(exact)) / 100
    return f"{cut:,.0f}" if cut == int(cut) else f"{cut:,.2f}".rstrip("0")


def _measured(judged: Judged, lines: Sequence[LineCounters], file: str) -> str:
    subject, *rest = judged.path
    if subject == "useful_bytes_per_sector":
        kind = rest[0]
        if judged.measured is None:
            return f"no kernel {kind}s anything {'from' if kind == 'load' else 'to'} global memory"
        used = f"{kind}s use {number(judged.measured)} of {SECTOR_BYTES} bytes per sector"
        worst = _least_useful(lines, kind)
        return f"{used} ({file}:{worst.line} the fewest)" if worst and not judged.holds else used
    amount = _amount(judged.path, judged.measured or 0, up=not judged.at_least)
    if subject in SHARED_WORK:
        if judged.measured is None:
            return f"{subject} was not counted"
        return _shared(subject, amount, file)
    if subject == "shared_bank_conflicts":
        return _conflicts(amount, lines, file)
    if subject == "copies":
        return f"{amount} {'copy' if amount == '1' else 'copies'} between host and device"
    if subject == "bytes_copied":
        return f"{amount} bytes copied between host and device"
    if subject == "scratch_stores":
        much = f"{amount} bytes" if judged.measured else "nothing"
        return f"kernels store {much} beside the arguments"
    if subject == "scratch_bytes":
        return f"the entry brings {amount} bytes of its own"
    if subject == "wave_bytes":
        return _wave(rest[0], judged.measured, amount)
    if subject == "growth":
        subject = {
            "tile": "the largest block of a program",
            "scratch": "scratch memory, or what is stored to it,",
        }[rest[0]]
        grows = f"grows {amount} times" if (judged.measured or 0) > 1 else "doesn't grow"
        return f"with {GROWTH} times the size {subject} {grows}"
    often = "once" if amount == "1" else f"{amount} times"
    return f"every element of {rest[0]} is read {often}"


def _wave(key: str, measured: float | None, amount: str) -> str:
    if measured is None:
        return "no kernel runs"
    if key == "distinct":
        return f"programs that run at once load {amount} distinct bytes"
    return f"programs that run at once load {amount} of the bytes that row-major order needs"


def _least_useful(lines: Sequence[LineCounters], kind: str) -> LineCounters | None:
    """The line of a kind of global access with the fewest useful bytes per sector."""
    rows = [
        row
        for row in lines
        if row.line and row.sectors and (row.space, row.access) == ("global", kind)
    ]
    return min(rows, key=lambda row: (row.useful_bytes / row.sectors, row.line), default=None)


def _conflicts(amount: str, lines: Sequence[LineCounters], file: str) -> str:
    rows = [row for row in lines if row.space == "shared" and row.conflicts]
    if not rows and amount != "0":
        return f"threads take turns in shared memory: {amount} wavefronts more than warps need"
    if not rows:
        return "shared memory has no bank conflicts"
    worst = max(rows, key=lambda row: (row.conflicts, -row.line))
    at = f" at {file}:{worst.line}" if worst.line else ""
    others = "" if len(rows) == 1 else f", {amount} in all"
    return (
        f"shared {worst.access}s conflict {worst.ways} ways{at}: "
        f"{worst.conflicts:,} extra wavefronts{others}"
    )
