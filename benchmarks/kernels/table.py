"""The results of the cases: a table of 100 columns, the missed goals in words, and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from benchmarks.kernels.goals import MEANS, VERSIONS, Aim, Goal
from benchmarks.kernels.judging import (
    Outcome,
    Spread,
    Verdict,
    geometric_means,
    misses,
    overall,
    verdict,
)
from grader.gpu.roofline import Roofs

WIDTH = 100
ROOMY = 4  # columns of peers that leave room for a rate and a verdict
ABOUT = (
    "Ratio: the peer's time over the kernel's, the median of paired rounds, above 1 the kernel is "
    "faster; then p10-p90 in %. A goal that isn't reached is marked <."
)


@dataclass(frozen=True)
class Tally:
    """The number of cases with goals, and of those that reached them."""

    reached: int
    missed: int
    unknown: int

    def __str__(self) -> str:
        total = self.reached + self.missed + self.unknown
        unknown = f", {self.unknown} unknown: a peer is missing" if self.unknown else ""
        return f"{self.reached} of {total} goals of cases reached, {self.missed} missed{unknown}"


def tables(outcomes: Sequence[Outcome]) -> Iterator[Table]:
    """One table for each kernel; with columns for its own peers they look like one."""
    for kernel in dict.fromkeys(each.case.kernel for each in outcomes):
        yield _table(kernel, [each for each in outcomes if each.case.kernel == kernel])


def _table(kernel: str, outcomes: Sequence[Outcome]) -> Table:
    peers = peers_timed(outcomes)
    is_roomy = len(peers) <= ROOMY
    made = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    made.add_column(kernel, no_wrap=True)
    made.add_column("", no_wrap=True)
    made.add_column("us", justify="right", no_wrap=True)
    if is_roomy:
        unit = "TFLOP" if outcomes[0].flops else "GB/s"
        made.add_column(unit, justify="right", no_wrap=True)
    for name in peers:
        made.add_column(name, no_wrap=True)
    if is_roomy:
        made.add_column("goal", no_wrap=True)
    for outcome in outcomes:
        label = outcome.case.label
        for version in (name for name in VERSIONS if name in outcome.times):
            took = Spread.of(outcome.times[version]).median
            cells: list[Text | str] = [_cell(outcome, version, name) for name in peers]
            if is_roomy:
                cells = [_rate(outcome, took), *cells, _verdict(outcome, version)]
            made.add_row(label, version, _us(took), *cells)
            label = ""
        if label:
            made.add_row(label, "-")
    return made


def peers_timed(outcomes: Sequence[Outcome]) -> list[str]:
    """The peers with a time in any of the cases."""
    names = dict.fromkeys(name for each in outcomes for name in each.times)
    return [name for name in names if name not in VERSIONS]


def _us(took: float) -> str:
    return f"{took:.0f}" if took >= 1000 else f"{took:.1f}"


def _rate(outcome: Outcome, microseconds: float) -> str:
    """GB/s, or TFLOP/s for kernels that compute."""
    if outcome.flops:
        return f"{outcome.flops / microseconds / 1e6:.0f}"
    return f"{outcome.moved / microseconds / 1e3:.0f}"


def _cell(outcome: Outcome, version: str, peer: str) -> Text:
    ratio = outcome.ratio(version, peer)
    if ratio is None:
        return Text("-")
    aim = outcome.case.aim_of(version)
    missed = {goal.peer for goal, _ in misses(outcome, version, aim)} if aim else set()
    mark = "<" if peer in missed else " "
    text = f"{ratio.median:.3f}{mark}{_percent(ratio.p10)}-{_percent(ratio.p90)}"
    return Text(text, "yellow" if peer in missed else "")


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.0f}"


def _verdict(outcome: Outcome, version: str) -> Text:
    aim = outcome.case.aim_of(version)
    if aim is None:
        return Text("")
    found = verdict(outcome, version, aim)
    return Text(found.value, {"yes": "green", "no": "red"}.get(found.value, ""))


def tally(outcomes: Sequence[Outcome]) -> Tally:
    """The tally over the aims of all cases, and the means."""
    found = [overall(each, aim) for each in outcomes for aim in each.case.aims]
    found += [each.verdict for each in means(outcomes)]
    return Tally(
        *(found.count(each) for each in (Verdict.reached, Verdict.missed, Verdict.unknown))
    )


@dataclass(frozen=True)
class Mean:
    """A required geometric mean, of the best version; None where it is unknown."""

    kernel: str
    peer: str
    dtype: str
    at_least: float
    by_version: Mapping[str, float]

    @property
    def verdict(self) -> Verdict:
        """Whether a version reached it."""
        if not self.by_version:
            return Verdict.unknown
        reached = max(self.by_version.values()) >= self.at_least
        return Verdict.reached if reached else Verdict.missed

    def __str__(self) -> str:
        told = ", ".join(f"{name} {value:.3f}" for name, value in self.by_version.items())
        return (
            f"{self.kernel} {self.dtype}, geometric mean of {self.peer}: {told or 'unknown'}, "
            f"goal {self.at_least:.2f}: {self.verdict.value}"
        )


def means(outcomes: Sequence[Outcome]) -> list[Mean]:
    """Those of MEANS whose kernels were timed."""
    found = []
    for goal in MEANS:
        values = geometric_means(goal, outcomes)
        cases = [each.case for each in outcomes if each.case.kernel == goal.kernel]
        for dtype in dict.fromkeys(each.dtype for each in cases):
            of_dtype = {version: value for (version, d), value in values.items() if d == dtype}
            found.append(Mean(goal.kernel, goal.peer, dtype, goal.at_least, of_dtype))
    return found


def missed(outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each case's aim that no version reached, about the nearest version."""
    lines = []
    for outcome in outcomes:
        for aim in outcome.case.aims:
            if overall(outcome, aim) is not Verdict.reached:
                lines.append(
                    f"{outcome.case.kernel} {outcome.case.label}: {_nearest(outcome, aim)}"
                )
    return lines


def _nearest(outcome: Outcome, aim: Aim) -> str:
    timed = [version for version in aim.by if version in outcome.times]
    if not timed:
        return f"no version of {' or '.join(aim.by)} was timed"
    told = {version: misses(outcome, version, aim) for version in timed}
    version = min(timed, key=lambda each: sum(_short(*miss) for miss in told[each]))
    parts = []
    for goal, ratio in told[version]:
        reached = "not timed" if ratio is None else f"{ratio:.3f}"
        parts.append(f"{reached} of {goal.peer}, goal {goal.at_least:.2f}")
    return f"{version} {'; '.join(parts)}"


def _short(goal: Goal, ratio: float | None) -> float:
    return goal.at_least - (ratio or 0.0)


def notes(outcomes: Sequence[Outcome]) -> list[str]:
    """The missing contenders, by reason."""
    found: dict[str, list[str]] = {}
    for outcome in outcomes:
        for name, why in outcome.missing.items():
            found.setdefault(f"{outcome.case.kernel} {name}: {why}", []).append(outcome.case.label)
    return [f"{what} ({len(cases)}: {cases[0]}, ...)"[:300] for what, cases in found.items()]


def errors(outcomes: Sequence[Outcome]) -> str:
    """The errors of the versions, in a sentence."""
    checked = [each for outcome in outcomes for each in outcome.checked.values()]
    right = [each for each in checked if not each.wrong]
    worst = max((each.error / each.limit for each in right if each.limit), default=0.0)
    return (
        f"{len(right)} of {len(checked)} results right against float64, and bitwise the same in "
        f"five calls; the worst had {100 * worst:.0f} % of the error allowed."
    )


def described(about: dict[str, Any]) -> str:
    """The machine, in a sentence or two."""
    state = about["gpu_after"]
    clock = f", {state['sm_mhz']} MHz after it" if "sm_mhz" in state else ""
    packages = ", ".join(f"{name} {version}" for name, version in about["packages"].items())
    driver = f", driver {state['driver']}" if "driver" in state else ""
    return f"{about['gpu']}{driver}{clock}; {packages}; {about['seconds']:.0f} s."


def least(outcome: Outcome, roofs: Roofs | None) -> dict[str, float]:
    """The least times for the bytes and for the operations at these roofs."""
    if roofs is None or not (rate := roofs.flops.get(outcome.case.dtype)):
        return {}
    return {
        "memory": round(1e6 * outcome.moved / roofs.bandwidth, 2),
        "compute": round(1e6 * outcome.flops / rate, 2),
    }


def as_dict(outcome: Outcome, roofs: Roofs | None = None) -> dict[str, Any]:
    """Everything as JSON, including single rounds."""
    versions = [name for name in VERSIONS if name in outcome.times]
    case = outcome.case
    return {
        "kernel": case.kernel,
        "label": case.label,
        "sizes": list(case.sizes),
        "dtype": case.dtype,
        "causal": case.causal,
        "bytes": outcome.moved,
        "flops": outcome.flops,
        "least_microseconds": least(outcome, roofs),
        "calls_of_a_stretch": outcome.calls,
        "sets_of_buffers": outcome.sets,
        "microseconds": {name: asdict(Spread.of(v)) for name, v in outcome.times.items()},
        "ratios": {
            version: {
                peer: asdict(ratio)
                for peer in peers_timed([outcome])
                if (ratio := outcome.ratio(version, peer)) is not None
            }
            for version in versions
        },
        "goals": [{**asdict(aim), "verdict": overall(outcome, aim).value} for aim in case.aims],
        "checked": {
            name: {
                k: v if not isinstance(v, float) or math.isfinite(v) else str(v)
                for k, v in asdict(each).items()
            }
            for name, each in outcome.checked.items()
        },
        "missing": dict(outcome.missing),
        "rounds": {name: [round(value, 3) for value in v] for name, v in outcome.times.items()},
    }
