"""A fast path for timed outputs: a cheap comparison that confirms nearly all right ones.

A timed run has dozens of large outputs, and judging them in float64 takes far longer than computing
them. Three comparisons are cheaper. Each can only confirm that an output is right; what none of
them confirms is judged by compare.py in float64.

    by steps    with torch's own result in the kernel's dtype, in numbers of that dtype from one
                value to the other: few passes, and no magnitude
    as torch    with the same result, in units of the magnitude; for bfloat16 alone
    in float32  with the definition's result in float32: its own error is far below a unit in the
                last place of a 16-bit output

All have errors of their own and so allow less than compare.py does. Whether they allow too much is
tested: the first buffer set is judged in float64, and a comparison is trusted only if it would
accept nothing there, at any element, that compare.py rejects.

On a GPU nothing waits for a single output: the answers about all runs are read at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from grader.cases.arena import BITS
from grader.cases.compare import MAX_OWN_ERROR, allowed_error
from grader.cases.oracle import Numbers, Oracle, Tensors, Truth
from grader.spec import Tolerance

# A share of the error that the first buffer set allows, since other buffer sets may allow less.
AS_TORCH_ROOM = 0.6  # the rest is for torch's own error
FLOAT32_ROOM = 0.8
# Of a value, by steps: a difference of bits that overflows is never as small as so few steps.
MOST_BY_STEPS = 0.25
FLOATS = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Bound:
    """Elementwise expected values and tolerances of an output."""

    expected: torch.Tensor
    allowed: torch.Tensor

    def holds(self, values: torch.Tensor) -> torch.Tensor:
        """Whether every element is within the tolerance, as one bool; nan never is."""
        if self.expected.shape != values.shape:
            return values.new_zeros((), dtype=torch.bool)
        kind = self.allowed.dtype
        if torch.promote_types(values.dtype, self.expected.dtype) is kind:
            off = values - self.expected  # in place from here: each pass costs a kernel's time
        else:
            off = values.to(kind) - self.expected.to(kind)
        return (off.abs_() <= self.allowed).all()


@dataclass(frozen=True)
class Run:
    """The inputs of one call, by name, and its outputs, in order."""

    inputs: Tensors
    outputs: Sequence[torch.Tensor]


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
            kinds_of_comparison = (_BySteps, _AsTorch, _InFloat32)
            self._candidates = [each(oracle, tolerance, kinds) for each in kinds_of_comparison]
        self._trusted: list[_Comparison] = []
        self.has_learnt = False

    @property
    def trusted(self) -> list[str]:
        """The names of the comparisons that are made."""
        return [each.name for each in self._trusted]

    def learn(self, inputs: Tensors, numbers: Numbers, truths: Sequence[Truth]) -> None:
        """Decide, from one buffer set's truths in float64, which comparisons can be trusted.

        Only the first call decides. Raises OracleError where a function of the oracle fails.
        """
        self.has_learnt = True
        candidates, self._candidates = self._candidates, []
        for comparison in candidates:
            comparison.learn(truths)
            bounds = comparison.bounds(inputs, numbers)
            if bounds is not None and all(
                self._is_stricter(bound, truth, kind)
                for bound, truth, kind in zip(bounds, truths, self._kinds, strict=True)
            ):
                self._trusted.append(comparison)

    def confirmed(self, runs: Sequence[Run], numbers: Numbers) -> list[bool]:
        """Whether every element of every output is right, for each run; False where undecided.

        Raises OracleError where a function of the oracle fails.
        """
        are_right = [False] * len(runs)
        for comparison in list(self._trusted):
            left = [place for place, is_right in enumerate(are_right) if not is_right]
            if not left:
                break
            answers = comparison.confirmed([runs[place] for place in left], numbers)
            for place, is_right in zip(left, answers, strict=True):
                are_right[place] = is_right
            if not all(answers) and comparison is not self._trusted[-1]:
                self._trusted.remove(
                    comparison
                )  # it would confirm too few of this kernel's outputs
        return are_right

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

    def confirmed(self, runs: Sequence[Run], numbers: Numbers) -> list[bool]:
        """Whether the bounds hold for every output of each run."""
        held = []
        for run in runs:
            bounds = self.bounds(run.inputs, numbers)
            assert bounds is not None  # or it would not be trusted
            pairs = zip(bounds, run.outputs, strict=True)
            held.append(torch.stack([bound.holds(values) for bound, values in pairs]))
        return torch.stack(held).all(dim=1).tolist()

    def _units_of(self, truths: Sequence[Truth]) -> list[float]:
        return [
            _allowed_units(truth, kind, self._tolerance)
            for truth, kind in zip(truths, self._kinds, strict=True)
        ]


class _BySteps(_Comparison):
    """Counts the numbers of the dtype from torch's result to the kernel's.

    The bits of two floats of one sign, read as integers, differ by that count. Where both are
    finite, the difference of two floats of different signs is no small one even if it overflows.
    """

    name = "by steps"

    def learn(self, truths: Sequence[Truth]) -> None:
        if any(each.own is None or not each.expected.numel() for each in truths):
            return
        units = [AS_TORCH_ROOM * each for each in self._units_of(truths)]
        pairs = zip(units, self._kinds, strict=True)
        if all(each * torch.finfo(kind).eps <= MOST_BY_STEPS for each, kind in pairs):
            self._units = [float(int(each)) for each in units]

    def bounds(self, inputs: Tensors, numbers: Numbers) -> list[Bound] | None:
        own = self._oracle.own(inputs, numbers)
        if self._units is None or [each.dtype for each in own] != [*self._kinds]:
            return None
        every = zip(own, self._kinds, self._units, strict=True)
        # A step upwards may cross a power of two, from where on steps are twice as long.
        return [
            Bound(each, _units(steps / (1 - steps * torch.finfo(kind).eps), each.double(), kind))
            for each, kind, steps in every
        ]

    def confirmed(self, runs: Sequence[Run], numbers: Numbers) -> list[bool]:
        steps, ends = [], []
        for run in runs:
            for values, own in zip(run.outputs, self._oracle.own(run.inputs, numbers), strict=True):
                if values.shape != own.shape:
                    return [False] * len(runs)
                bits = BITS[values.itemsize]
                steps.append(torch.stack((values.view(bits) - own.view(bits)).aminmax()).long())
                ends.append(torch.stack((*values.aminmax(), *own.aminmax())).float())
        allowed = torch.tensor(self._units, device=steps[0].device)[:, None]
        are_near = torch.stack(steps).view(len(runs), -1, 2).abs() <= allowed
        are_finite = torch.stack(ends).view(len(runs), -1).isfinite()
        return (are_near.flatten(1).all(dim=1) & are_finite.all(dim=1)).tolist()


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
