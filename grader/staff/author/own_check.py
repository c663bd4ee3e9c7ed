"""Trials of an exercise's own check, NAME_check: it accepts what is right and refuses fakes.

Right are the oracle's result and torch's own, also on data with ties. Zeros and a half computed
result are wrong. The negated and the shifted result are wrong nearly always; where a check accepts
them in every case, its author is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from grader.cases.oracle import Checker, Truth
from grader.staff.author.fakes import FAKES, HALF, TELLING, ZEROS, changed, numbers_in


@dataclass(frozen=True)
class Judged:
    """A case for the check: the right outputs by name in their dtypes, and the oracle's results."""

    checker: Checker
    right: Mapping[str, torch.Tensor]
    truths: Sequence[Truth]

    def refused(self, outputs: Mapping[str, torch.Tensor]) -> str:
        """What the check refuses in these outputs: a sentence or outputs' names; "" if nothing.

        Raises OracleError where the check fails, or answers with something else.
        """
        refused = self.checker.refused(outputs, [truth.expected for truth in self.truths])
        return refused if isinstance(refused, str) else ", ".join(refused)

    def right_refused(self) -> tuple[str, str, str]:
        """Which right result the check refuses, what in it, and one element of it.

        All are "" if it accepts every one.
        """
        own = {
            name: self.right[name] if truth.own is None else truth.own.to(self.right[name].dtype)
            for name, truth in zip(self.right, self.truths, strict=True)
        }
        for who, outputs in (("the oracle's", self.right), ("torch's", own)):
            if refused := self.refused(outputs):
                return f"{who} own result", refused, self._element(outputs)
        return "", "", ""

    def _element(self, outputs: Mapping[str, torch.Tensor]) -> str:
        """A refused element: `out[3] is inf, the oracle computes 70000.0`; "" of a sentence."""
        expected = {name: each.expected for name, each in zip(self.right, self.truths, strict=True)}
        refused = self.checker.refused(outputs, [*expected.values()])
        if isinstance(refused, str):
            return ""
        name, wrong = next(iter(refused.items()))
        at = wrong.nonzero()[0].tolist()
        came, computed = (each[name][tuple(at)].item() for each in (outputs, expected))
        return f"{name}{at or ''} is {came}, the oracle computes {computed}"


def accepted_fakes(judged: Sequence[Judged]) -> Iterator[tuple[str, bool]]:
    """Fakes that a check accepts in every case that can tell them, and whether that is a mistake.

    One that is no mistake for certain is a question to the author. Each output is faked alone, the
    others being right; then all of them.
    """
    names = list(judged[0].right) if judged else []
    every = [(name,) for name in names] + ([tuple(names)] if len(names) > 1 else [])
    for words in FAKES:
        accepted: set[str] = set()
        for faked in every:
            if accepted & {*faked}:
                continue
            count = _accepted_in(words, faked, judged)
            if count:
                accepted |= {*faked}
                in_all = f" in each of {count} cases" if count > 1 else ""
                yield f"accepts {words} as {' and '.join(faked)}{in_all}", words in (ZEROS, HALF)


def _accepted_in(words: str, names: Sequence[str], judged: Sequence[Judged]) -> int:
    """The number of cases that can tell, if the check accepts the fake in all of them; else 0."""
    count = 0
    for each in judged:
        if min(numbers_in(each.right[name]) for name in names) < TELLING:
            continue
        fakes = {name: changed(words, each.right[name]) for name in names}
        given = {name: fake for name, fake in fakes.items() if fake is not None}
        if not given:
            continue
        if each.refused({**each.right, **given}):
            return 0
        count += 1
    return count
