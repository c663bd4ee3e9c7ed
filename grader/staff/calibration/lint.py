"""The specs compared with what was measured: mistakes, each with its place. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from grader.evidence import Baseline, PerformanceEvidence
from grader.spec import Exercise, Variant
from grader.spec.exercise import rung_of
from grader.spec.values import Mistake, hint
from grader.staff.calibration.proposals import Proposal, kept_out_from, propose
from grader.staff.calibration.readings import LadderReadings, Readings, VariantReadings, against
from grader.status import Status

APART = 0.02  # of a threshold: what a spec may be off what is proposed


def lint(
    exercise: Exercise, readings: Readings, known: Mapping[str, Iterable[str]]
) -> list[Mistake]:
    """The mistakes of one spec.

    `known` are the names of the slow submissions of each variant.
    """
    mistakes = list(_baseline_rungs(exercise))
    for each in readings.variants:
        if each.exercise == exercise.name:
            variant = exercise.variants[each.variant]
            mistakes += _of_variant(variant, each, readings.device, known.get(variant.name, ()))
    for ladder in readings.ladders:
        if ladder.exercise == exercise.name:
            mistakes += _of_ladder(ladder)
    return mistakes


def _of_variant(
    variant: Variant, readings: VariantReadings, device: str, known: Iterable[str]
) -> Iterator[Mistake]:
    place = ("variants", variant.name, "performance")
    calibrated = variant.timed.device
    if calibrated is None or calibrated.lower() not in device.lower():
        wanted = f"device: {device}, the GPU of this calibration"
        yield Mistake((*place, "device"), f"expected {wanted}, got {calibrated or 'none'}")
    yield from _of_names(variant, known)
    yield from _not_timed(place, "the solution", readings.reference)
    for name, timed in readings.edits.items():
        yield from _not_timed(place, name, timed)
    for proposal in propose(variant, readings):
        yield from _of_threshold((*place, "thresholds", proposal.index), proposal)


def _of_names(variant: Variant, known: Iterable[str]) -> Iterator[Mistake]:
    names = sorted(known)
    for index, threshold in enumerate(variant.timed.thresholds):
        place = ("variants", variant.name, "performance", "thresholds", index)
        if not threshold.missed_by:
            wanted = "missed_by: the names of submissions that miss it"
            yield Mistake((*place, "missed_by"), f"expected {wanted}, got none")
        for name in threshold.missed_by:
            if name not in names:
                wanted = (
                    f"names of slow submissions, of which there are {', '.join(names) or 'none'}"
                )
                got = f"{name}{hint(name, names)}"
                yield Mistake((*place, "missed_by"), f"expected {wanted}; got {got}")


def _not_timed(
    place: tuple[str | int, ...], name: str, timed: PerformanceEvidence
) -> Iterator[Mistake]:
    if timed.status is not Status.passed:
        why = f"{timed.status.value}: {timed.reason}"
        yield Mistake(place, f"expected a time of {name}, got {why}")
    elif timed.disturbed:
        yield Mistake(place, f"expected nothing to disturb {name}, got: {timed.disturbed}")


def _of_threshold(place: tuple[str | int, ...], proposal: Proposal) -> Iterator[Mistake]:
    threshold, reached = proposal.threshold, proposal.reached
    if threshold.at_least is None:
        return
    asked = threshold.at_least
    if reached is not None and not proposal.index and reached.at_worst < asked:
        yield Mistake(
            (*place, "at_least"),
            f"expected what the solution surely reaches, got {asked:g}: it reaches "
            f"{shown(reached)} of {proposal.baseline}",
        )
    wanted = proposal.at_least
    if wanted is not None and abs(asked / wanted - 1) > APART:
        message = f"expected about {wanted:g} by this calibration, got {asked:g}"
        yield Mistake((*place, "at_least"), message)
    for name in threshold.missed_by:
        edit = proposal.edits.get(name)
        if edit is not None and kept_out_from(edit) > asked:
            message = f"expected {name} to miss {asked:g} of {proposal.baseline}, got {shown(edit)}"
            yield Mistake((*place, "missed_by"), message)
    fastest = proposal.fastest
    if reached and fastest and wanted is not None and kept_out_from(fastest[1]) > wanted:
        yield Mistake(
            place,
            f"expected room between {fastest[0]} and the solution, got {shown(fastest[1])} and "
            f"{shown(reached)} of {proposal.baseline}: no threshold tells them apart",
        )


def _of_ladder(ladder: LadderReadings) -> Iterator[Mistake]:
    """A later rung's solution is not slower than an earlier one's."""
    best: tuple[str, Baseline] | None = None
    for name, timed in ladder.rungs.items():
        place = ("variants", name)
        yield from _not_timed(place, f"{name} as a rung", timed)
        if not timed.baselines:
            continue
        now = against(timed, timed.baselines[0].name)
        if now is None:
            continue
        if best is not None and now.at_best < best[1].at_worst:
            yield Mistake(
                place,
                f"expected no slower a solution than that of {best[0]}, {shown(best[1])} of "
                f"{now.name}, got {shown(now)}",
            )
        if best is None or now.ratio > best[1].ratio:
            best = name, now


def _baseline_rungs(exercise: Exercise) -> Iterator[Mistake]:
    """V0 of a ladder ships solved, as a baseline: it earns nothing."""
    for name, variant in exercise.variants.items():
        rung = rung_of(name)
        if rung is not None and rung[1] == 0 and (variant.max_points or variant.is_graded_on_speed):
            got = f"{variant.max_points:g} points" if variant.max_points else "thresholds"
            yield Mistake(("variants", name), f"expected a baseline, worth nothing, got {got}")


def shown(timed: Baseline) -> str:
    """A ratio with its interval."""
    return f"{timed.ratio:.3f} [{timed.at_worst:.3f}, {timed.at_best:.3f}]"
