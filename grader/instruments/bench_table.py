"""The table of `grader bench`: a row per kernel and case. Pure, over performance evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from grader.evidence import Baseline, PerformanceEvidence
from grader.gpu.roofline import Roofs
from grader.report import narrow, one_line
from grader.report.performance import duration, placed, speed

Timings = Sequence[tuple[str, PerformanceEvidence]]  # by the kernel's name, in the rows' order
_TITLES = ("median", "interval", "speed", "of roof", "against torch")


def render(timings: Timings, console: Console, roofs: Roofs | None = None) -> None:
    """Print the table, and why cases weren't timed."""
    narrow.show(table(timings, roofs), console)
    for name, timed in timings:
        for each in timed.every:
            if not each.is_timed:
                why = f"{_label(name, timed, each)}: {_why(each)}"
                narrow.tell(Text(why, "yellow"), console)


def table(timings: Timings, roofs: Roofs | None = None) -> Table:
    """Median and interval, GB/s or TFLOP/s, share of the roof, and the speed against torch.

    `roofs` are this machine's measured ones; without them the data sheet's are taken. A case that
    was not timed has dashes.
    """
    made = narrow.table()
    made.add_column("kernel", overflow="fold")
    for title in _TITLES:
        made.add_column(title, justify="right", no_wrap=True)
    for name, timed in timings:
        for each in timed.every:
            cells = _cells(each, roofs) if each.is_timed else ["-"] * len(_TITLES)
            made.add_row(Text(_label(name, timed, each)), *map(Text, cells))
    return made


def brief(
    head: str,
    rows: Sequence[tuple[str, PerformanceEvidence]],
    roofs: Roofs | None = None,
    against: str = "",
) -> Table:
    """A narrow table of kernels that were timed on one case: median, speed, share of the roof.

    The names stand below `head`. `against` is a baseline whose ratios stand in the last column.
    """
    made = narrow.table()
    made.add_column(head)
    for title in ("median", "speed", "roof", *([against] if against else [])):
        made.add_column(title, justify="right", no_wrap=True)
    for name, timed in rows:
        cells = ["-"] * len(made.columns[1:])
        if timed.is_timed:
            position = placed(timed, roofs)
            took = duration(timed.microseconds or 0.0)
            share = _percent(position.fraction) if position else "-"
            ratio = next((each.ratio for each in timed.baselines if each.name == against), None)
            cells = [took, speed(timed, position) or "-", share]
            cells += ["-" if ratio is None else f"{ratio:.2f}x"] if against else []
        made.add_row(*(Text(one_line(cell)) for cell in (name, *cells)))
    return made


def untimed(rows: Sequence[tuple[str, PerformanceEvidence]]) -> list[str]:
    """A line for each reason why kernels weren't timed."""
    names: dict[str, list[str]] = {}
    for name, timed in rows:
        if not timed.is_timed:
            names.setdefault(_why(timed), []).append(name)
    return [
        one_line(f"{first}{f' and {len(others)} more' if others else ''}: {why}")
        for why, (first, *others) in names.items()
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _label(name: str, timed: PerformanceEvidence, case: PerformanceEvidence) -> str:
    return one_line(f"{name} {_sizes(case.case, timed)}" if timed.further else name)


def _cells(timed: PerformanceEvidence, roofs: Roofs | None) -> Iterable[str]:
    position = placed(timed, roofs)
    yield duration(timed.microseconds or 0.0)
    yield _interval(timed)
    yield speed(timed, position) or "-"
    yield _percent(position.fraction) if position else "-"
    yield _against(next((each for each in timed.baselines if each.name == "torch"), None))


def _interval(timed: PerformanceEvidence) -> str:
    """'92.8 to 93.4 us'; a dash where none was taken."""
    low, high = timed.microseconds_low, timed.microseconds_high
    if low is None or high is None:
        return "-"
    if duration(low).endswith("us") != duration(high).endswith("us"):
        return f"{duration(low)} to {duration(high)}"
    return f"{duration(low).split()[0]} to {duration(high)}"


def _against(torch: Baseline | None) -> str:
    """'1.02x (1.01 to 1.03)': above 1 the kernel is faster."""
    if torch is None:
        return "-"
    low, high = torch.low, torch.high
    doubt = "" if low is None or high is None else f" ({low:.2f} to {high:.2f})"
    return f"{torch.ratio:.2f}x{doubt}"


def _sizes(case: str, timed: PerformanceEvidence) -> str:
    """The case without what is alike in all of them."""
    alike = set.intersection(*(set(each.case.split()) for each in timed.every if each.case))
    return " ".join(word for word in case.split() if word not in alike)


def _why(timed: PerformanceEvidence) -> str:
    reason = one_line(timed.reason).rstrip(".")
    return f"{timed.status.headline}: {reason}." if reason else f"{timed.status.headline}."
