"""A first look at timed outputs, in float32: nearly all are right, and this says so in less time.

A timed run has dozens of outputs of hundreds of MiB, and judging them takes a hundred times as long
as computing them did. For outputs of 16 bits the truth in float32 is as good as one in float64:
what it is off by is far below a unit in their last place. So an output whose every element is right
by that, with room to spare, is right; of any other nothing is decided here, and compare.py judges
it in float64.

Whether float32 will do for an exercise isn't assumed. The first set is judged in float64, and only
where every result that passes here would have passed there is the screen used for the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from grader.compare import MAX_OWN_ERROR, allowed_error
from grader.oracle import Oracle, Truth
from grader.spec import Tolerance

ROOM = 0.95  # of what an element may be off by
NARROW = (torch.float16, torch.bfloat16)


class Screen:
    """The first look at the outputs of one case."""

    def __init__(self, oracle: Oracle, tolerance: Tolerance, dtypes: Sequence[str]) -> None:
        """`dtypes` are those of the outputs."""
        self._oracle, self._tolerance = oracle, tolerance
        self._kinds = [getattr(torch, dtype) for dtype in dtypes]
        # None where that isn't known yet.
        self.is_trusted: bool | None = None if set(self._kinds) <= {*NARROW} else False

    def learn(
        self,
        inputs: Mapping[str, torch.Tensor],
        scalars: Mapping[str, Any],
        truths: Sequence[Truth],
    ) -> None:
        """Find out, by one set's truths in float64, whether those in float32 will do."""
        if self.is_trusted is None:
            found = self._truths(inputs, scalars)
            self.is_trusted = all(
                self._is_stricter(mine, truth, kind)
                for mine, truth, kind in zip(found, truths, self._kinds, strict=True)
            )

    def passes(
        self,
        inputs: Mapping[str, torch.Tensor],
        scalars: Mapping[str, Any],
        outputs: Sequence[torch.Tensor],
    ) -> bool:
        """Whether every element of every output is right; False where that isn't decided.

        Raises OracleError where a function of the oracle fails.
        """
        if not self.is_trusted:
            return False
        for values, truth in zip(outputs, self._truths(inputs, scalars), strict=True):
            allowed = self._allowed(truth, values.dtype)
            if allowed is None or truth.expected.shape != values.shape:
                return False
            off = (values.float() - truth.expected).abs_()
            if not bool((off <= allowed).all()):  # nan is not
                return False
        return True

    def _truths(
        self, inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, Any]
    ) -> list[Truth]:
        return self._oracle.truths(inputs, scalars, self._tolerance.magnitude, torch.float32)

    def _allowed(self, truth: Truth, kind: torch.dtype) -> torch.Tensor | None:
        """As compare.allowed_error, in float32; None where torch's own is no measure."""
        limits = torch.finfo(kind)
        smallest = limits.smallest_normal * limits.eps
        unit = (truth.magnitude * limits.eps).clamp_(smallest, limits.max * limits.eps)
        own = 0.0
        if truth.own is not None:
            own = float(((truth.own.float() - truth.expected).abs_() / unit).max())
            if not own <= MAX_OWN_ERROR / limits.eps:
                return None
        floor = self._tolerance.floor(str(kind).removeprefix("torch."))
        return unit.mul_(ROOM * (self._tolerance.factor * own + floor))

    def _is_stricter(self, mine: Truth, truth: Truth, kind: torch.dtype) -> bool:
        """Whether whatever passes by `mine` would pass by the `truth` in float64."""
        allowed = self._allowed(mine, kind)
        if allowed is None:
            return False
        wide = allowed_error(truth, str(kind).removeprefix("torch."), self._tolerance)
        apart = (mine.expected.double() - truth.expected).abs()
        return bool((allowed.double() + apart <= wide).all())
