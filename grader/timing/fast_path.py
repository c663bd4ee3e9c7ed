"""A fast path for timed outputs: a cheap comparison that confirms nearly all right ones.

A timed run has dozens of large outputs, and judging them in float64 takes far longer than computing
them. Two comparisons are cheaper. Each can only confirm that an output is right; what neither
confirms is judged by compare.py in float64.

    as torch    with torch's own result in the kernel's dtype, at about the kernel's cost;
                for bfloat16 in float32, which has the same range
    in float32  with the definition's result in float32: its own error is far below a unit in the
                last place of a 16-bit output

Both have errors of their own and so allow less than compare.py does. Whether they allow too much is
tested: the first buffer set is judged in float64, and a comparison is trusted only if it would
accept nothing there, at any element, that compare.py rejects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from grader.cases.compare import MAX_OWN_ERROR, allowed_error
from grader.cases.oracle import Numbers, Oracle, Tensors, Truth
from grader.spec import Tolerance

# A share of the error that the first buffer set allows, since other buffer sets may allow less.
AS_TORCH_ROOM = 0.6  # the rest is for torch's own error
FLOAT32_ROOM = 0.8
FLOATS = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Bound:
    """Elementwise expected values and tolerances of an output."""

    expected: torch.Tensor
    allowed: torch.Tensor

    def holds(self, values: torch.Tensor) -> bool:
        """Whether every element is within the tolerance; nan never is."""
        if self.expected.shape != values.shape:
            return False
        kind = self.allowed.dtype
        if torch.promote_types(values.dtype, self.expected.dtype) is kind:
            off = values - self.expected  # in place from here: each pass costs a kernel's time
        else:
            off = values.to(kind) - self.expected.to(kind)
        return bool((off.abs_() <= self.allowed).all())


class FastPath:
    """The fast path for the outputs of one case."""

    def __init__(self, oracle: Oracle, tolerance: Tolerance, dtypes: Sequence[str]) -> None:
        """`dtypes` are those of the outputs."""
        kinds = [getattr(torch, dtype) for dtype in dtypes]
        self._kinds = kinds
        self._tolerance = tolerance
        self._candidates: list[_Comparison] = []
        # An exercise's own check decides otherwise, and tolerances of their own by output's name.
        is_usual = oracle.check is None and not tolerance.outputs
        if is_usual and set(kinds) <= {*FLOATS}:
            kinds_of_comparison = (_AsTorch, _InFloat32)
            self._candidates = [each(oracle, tolerance, kinds) for each in kinds_of_comparison]
        self._trusted: list[_Comparison] = []

    @property
    def trusted(self) -> list[str]:
        """The names of the comparisons that are made."""
        return [each.name for each in self._trusted]

    def learn(self, inputs: Tensors, numbers: Numbers, truths: Sequence[Truth]) -> None:
        """Decide, from one buffer set's truths in float64, which comparisons can be trusted.

        Only the first call decides. Raises OracleError where a function of the oracle fails.
        """
        candidates, self._candidates = self._candidates, []
        for comparison in candidates:
            comparison.learn(truths)
            bounds = comparison.bounds(inputs, numbers)
            if bounds is not None and all(
                self._is_stricter(bound, truth, kind)
                for bound, truth, kind in zip(bounds, truths, self._kinds, strict=True)
            ):
                self._trusted.append(comparison)

    def passes(self, inputs: Tensors, numbers: Numbers, outputs: Sequence[torch.Tensor]) -> bool:
        """Whether every element of every output is right; False where that is undecided.

        Raises OracleError where a function of the oracle fails.
        """
        for comparison in list(self._trusted):
            bounds = comparison.bounds(inputs, numbers)
            if bounds is not None and all(
                bound.holds(values) for bound, values in zip(bounds, outputs, strict=True)
            ):
                return True
            if comparison is not self._trusted[-1]:  # it confirms none of this kernel's outputs
                self._trusted.remove(comparison)
        return False

    def _is_stricter(self, bound: Bound, truth: Truth, kind: torch.dtype) -> bool:
        """Whether float64 judgement accepts every value that the bound accepts."""
        wide = allowed_error(truth, str(kind).removeprefix("torch."), self._tolerance)
        apart = (bound.expected.double() - truth.expected).abs()
        return bool((bound.allowed.double() + apart <= wide).all())


class _Comparison(ABC):
    """An expected result that is cheap to compute, and its tolerance."""

    name: str

    def __init__(self, oracle: Oracle, tolerance: Tolerance, kinds: Sequence[torch.dtype]) -> None:
        self._oracle, self._tolerance, self._kinds = oracle, tolerance, kinds
        self._units: list[float] | None = None  # units in the last place allowed for each output

    @abstractmethod
    def learn(self, truths: Sequence[Truth]) -> None:
        """Set the tolerances from the truths of a buffer set in float64."""

    @abstractmethod
    def bounds(self, inputs: Tensors, numbers: Numbers) -> list[Bound] | None:
        """A bound for each output; None where the comparison can't judge these outputs."""

    def _units_of(self, truths: Sequence[Truth]) -> list[float]:
        return [
            _allowed_units(truth, kind, self._tolerance)
            for truth, kind in zip(truths, self._kinds, strict=True)
        ]


class _AsTorch(_Comparison):
    name = "as torch"

    def learn(self, truths: Sequence[Truth]) -> None:
        if torch.bfloat16 in self._kinds and all(each.own is not None for each in truths):
            self._units = self._units_of(truths)

    def bounds(self, inputs: Tensors, numbers: Numbers) -> list[Bound] | None:
        if self._units is None:
            return None
        own = self._oracle.own(inputs, numbers)
        sizes = self._oracle.magnitudes(inputs, inputs, numbers, own, self._tolerance.magnitude)
        return [
            # Compared in the output's own dtype, except bfloat16.
            Bound(each, _units(AS_TORCH_ROOM * units, size, kind).to(_work(kind)))
            for each, size, kind, units in zip(own, sizes, self._kinds, self._units, strict=True)
        ]


class _InFloat32(_Comparison):
    name = "in float32"

    def learn(self, truths: Sequence[Truth]) -> None:
        units = self._units_of(truths)
        if max(units) < float("inf"):  # else torch's own error sets no tolerance
            self._units = units

    def bounds(self, inputs: Tensors, numbers: Numbers) -> list[Bound] | None:
        if self._units is None:
            return None
        wide = self._oracle.in_dtype(inputs, numbers, self._tolerance.magnitude, torch.float32)
        return [
            Bound(expected, _units(FLOAT32_ROOM * units, size, kind))
            for expected, size, kind, units in zip(*wide, self._kinds, self._units, strict=True)
        ]


def _allowed_units(truth: Truth, kind: torch.dtype, tolerance: Tolerance) -> float:
    """Units in the last place that an element may be off, as in compare.allowed_error; inf where
    torch's own error sets no tolerance."""
    limits = torch.finfo(kind)
    own = 0.0
    if truth.own is not None:
        work = truth.expected.dtype
        error = (truth.own.to(work) - truth.expected).abs_() / _units(1.0, truth.magnitude, kind)
        own = float(error.max()) if error.numel() else 0.0
        if not own <= MAX_OWN_ERROR / limits.eps:
            return float("inf")
    return tolerance.factor * own + tolerance.floor(str(kind).removeprefix("torch."))


def _units(number: float, magnitude: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """A number of compare.py's units, in the dtype of the magnitude."""
    limits = torch.finfo(kind)
    unit = number * limits.eps  # of 1; few passes, since each costs a kernel's time
    return magnitude.abs().mul_(unit).clamp_(limits.smallest_normal * unit, limits.max * unit)


def _work(kind: torch.dtype) -> torch.dtype:
    return kind if kind is torch.bfloat16 else torch.float32
