"""Tables of a calibration for people: measured ratios and the proposed thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from grader.spec import Exercise
from grader.staff.calibration.lint import APART, shown
from grader.staff.calibration.proposals import Proposal, kept_out_from, propose
from grader.staff.calibration.readings import LadderReadings, Readings, against


def of_thresholds(exercises: Mapping[str, Exercise], readings: Readings) -> Table:
    """A row for each threshold of each variant that was timed."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=readings.device or None)
    for title in ("variant", "points", "baseline", "reference", "must miss it"):
        table.add_column(title, overflow="fold")
    for title in ("in the spec", "proposed"):
        table.add_column(title, justify="right", no_wrap=True)
    for each in readings.variants:
        variant = exercises[each.exercise].variants[each.variant]
        for proposal in propose(variant, each):
            first = proposal.index == 0
            table.add_row(
                f"{each.exercise}/{each.variant}" if first else "",
                f"{proposal.threshold.points:g}",
                proposal.baseline,
                shown(proposal.reached) if proposal.reached else "not measured",
                _edits(proposal),
                *_numbers(proposal),
            )
    return table


def of_ladders(ladders: Sequence[LadderReadings]) -> Table:
    """A row for each rung: its solution on the case of the highest."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="rungs, on one case")
    for title in ("variant", "case", "baseline", "reference"):
        table.add_column(title, overflow="fold")
    for ladder in ladders:
        for name, timed in ladder.rungs.items():
            baseline = timed.baselines[0].name if timed.baselines else ""
            ratio = against(timed, baseline)
            reached = shown(ratio) if ratio else f"not measured: {timed.reason}"
            table.add_row(f"{ladder.exercise}/{name}", timed.case, baseline, Text(reached))
    return table


def _edits(proposal: Proposal) -> Text:
    asked = proposal.at_least or proposal.threshold.at_least
    lines = []
    for name in proposal.threshold.missed_by:
        if (edit := proposal.edits.get(name)) is None:
            lines.append(Text(f"{name}: not measured", "yellow"))
        else:
            reaches = asked is not None and kept_out_from(edit) > asked
            lines.append(Text(f"{name} {shown(edit)}", "red" if reaches else ""))
    return Text("\n").join(lines)


def _numbers(proposal: Proposal) -> tuple[Text, Text]:
    """The spec's present value and the proposed one, as the spec writes them."""
    threshold = proposal.threshold
    before = threshold.limit
    after = proposal.at_most if threshold.milliseconds else proposal.at_least
    if after is None:
        return Text(_ratio(before, threshold.from_)), Text("-")
    style = "yellow" if abs(after / before - 1) > APART else "green"
    return Text(_ratio(before, threshold.from_)), Text(_ratio(after, proposal.from_), style)


def _ratio(value: float, start: float | None) -> str:
    return f"{value:.2f}" if start is None else f"{start:.2f} to {value:.2f}"
