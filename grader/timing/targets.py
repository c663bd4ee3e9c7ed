"""The baselines that a variant's thresholds name, and the ratios at which points change."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from grader.cases import Case
from grader.gpu.roofline import Roofs
from grader.spec import Variant
from grader.timing import contenders
from grader.timing.baselines import CONTROL, Baselines
from grader.timing.sequential import Constant

ROOFLINE = "roofline"


@dataclass(frozen=True)
class Targets:
    """The targets of one case. `also` names baselines that no threshold asks for."""

    variant: Variant
    case: Case
    baselines: Baselines
    roofs: Roofs | None = None
    also: Collection[str] = ()

    @property
    def moved_bytes(self) -> int:
        """Bytes that the case must move."""
        return contenders.moved_bytes(self.variant, self.case)

    @property
    def flops(self) -> float | None:
        """Operations that the case must compute; None where the spec has no formula."""
        return contenders.computed_flops(self.variant, self.case)

    @property
    def required(self) -> set[str]:
        """Baselines without which there is no measurement."""
        return {*self.baselines.needed, CONTROL}

    @property
    def names(self) -> list[str]:
        """The baselines that have a worker: those required or asked for."""
        known = {CONTROL, "torch", "compile"}
        if self.baselines.has_reference:
            known.add("reference")
        return sorted((self.required | {*self.also}) & known)

    @property
    def constants(self) -> list[Constant]:
        """The baselines without a worker: the roof, and limits in milliseconds."""
        steps = self.variant.timed.steps
        limits = [each.milliseconds.at_most for each in steps if each.milliseconds is not None]
        constants = [Constant(f"{limit:g} ms", limit / 1000) for limit in limits]
        roof = self._roof_seconds
        if roof is not None and any(each.speed_vs == ROOFLINE for each in steps):
            constants.append(Constant(ROOFLINE, roof))
        return constants

    @property
    def thresholds(self) -> dict[str, list[float]]:
        """The ratios at which points change, by baseline."""
        names = [each.name for each in self.constants]
        ratios = {name: [1.0] for name in names if name != ROOFLINE}
        for each in self.variant.timed.steps:
            if each.speed_vs in {*self.names, *names} and each.at_least is not None:
                ratios.setdefault(each.speed_vs, []).append(each.at_least)
        return ratios

    @property
    def _roof_seconds(self) -> float | None:
        """The case's time at the measured roofs; None where they aren't known."""
        if self.roofs is None:
            return None
        seconds = self.moved_bytes / self.roofs.bandwidth
        if self.flops:
            rate = self.roofs.flops.get(self.case.dtype)
            if rate is None:
                return None
            seconds = max(seconds, self.flops / rate)
        return seconds
