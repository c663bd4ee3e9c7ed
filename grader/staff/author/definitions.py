"""Checks of an exercise that run no kernel: its oracle, and its tolerance.

The oracle is asked on cases of each size class and dtype. The tolerance is proved there: the
definition computed in float32 and torch's own result pass it. Zeros, the negated result, a result
that is shifted by an element or half computed, and one of the next lower precision, fail.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from grader.cases import Case, Space, inputs, oracle
from grader.cases.compare import allowed_error, wrong_values
from grader.cases.oracle import Oracle, OracleError, Truth
from grader.grading.search import spread
from grader.spec import Exercise
from grader.spec.document import read_document
from grader.spec.task import Task
from grader.spec.values import Mistake

CASES = 6  # of a size class and dtype
TELLING = 16  # different numbers in an output, by which a wrong one can be told from it
_SEED = 21
_SMALL = 2.0**-10  # below it float16 has fewer bits
_LOWER = {"float64": "float32", "float32": "float16", "float16": "bfloat16"}
_LOOSE = "set a smaller floor_ulps or factor in `tolerance:`, or another magnitude"
_TIGHT = "set a larger floor_ulps in `tolerance:`, or `magnitude: absolute_inputs` for sums"


def mistakes(exercise: Exercise, spec: Path) -> Iterator[str]:
    """What is wrong with an exercise's oracle and its tolerance. `spec` is the exercise's file."""
    path = oracle.file_of(exercise)
    try:
        functions = oracle.of(exercise)
    except OracleError as error:
        words = str(error).removeprefix(f"{path.name}: ")
        yield f"{_place(error, path)}: {words}; write it as docs/spec.md says"
        return
    document = read_document(spec)
    reported: set[str] = set()
    for variant in exercise.variants.values():
        for dtype in variant.dtypes:
            trial = _Trial(Task(exercise, variant), dtype, functions, path)
            broken = list(trial.broken())
            for text in broken:
                # One mistake of an oracle is met by many variants and classes.
                if _without_case(text) not in reported:
                    reported.add(_without_case(text))
                    yield text
            if not broken:
                shown = [Mistake(("tolerance",), each) for each in trial.unproved()]
                fresh = [each for each in shown if each.message not in reported]
                reported |= {each.message for each in fresh}
                yield from document.report(fresh).mistakes if fresh else ()


@dataclass(frozen=True)
class _Output:
    """An output of one case: its right values, and how far a kernel's may be from them."""

    name: str
    dtype: str
    case: Case
    truth: Truth
    allowed: torch.Tensor
    narrow: torch.Tensor  # the definition computed in float32

    @property
    def right(self) -> torch.Tensor:
        return self.truth.expected.to(getattr(torch, self.dtype))

    @cached_property
    def numbers(self) -> int:
        """How many different finite numbers it has."""
        right = self.right.double()
        return len(torch.unique(right[right.isfinite()]))


@dataclass
class _Trial:
    """The oracle and the tolerance of a task in one dtype."""

    task: Task
    dtype: str
    oracle: Oracle
    path: Path

    def _cases(self) -> Iterator[tuple[str, Case]]:
        exercise, variant = self.task.exercise, self.task.variant
        for size_class in exercise.sizes:
            edges = Space(exercise, variant, self.dtype, size_class, _SEED).edges()
            for case in spread(edges, CASES):
                yield size_class, case

    def broken(self) -> Iterator[str]:
        """Where the oracle fails, or gives another shape or dtype than the spec says."""
        self.outputs: list[_Output] = []
        met: set[str] = set()
        for size_class, case in self._cases():
            try:
                texts = list(self._one(case))
            except OracleError as error:
                place = _place(error, self.path)
                texts = [f"{place}: {error}, for {self.task} in class {size_class}, {case}"]
            for text in texts:
                if _without_case(text) not in met:
                    met.add(_without_case(text))
                    yield text

    def _one(self, case: Case) -> Iterator[str]:
        made = inputs.make(self.task.exercise, self.task.variant, case)
        given = (made.tensors, made.numbers, self.task.magnitude)
        truths = self.oracle.truths(*given)
        narrow, _ = self.oracle.in_dtype(*given, torch.float32)
        slots = [each for each in made.slots if each.role != "input"]
        place = _defined(self.oracle, self.path)
        if len(truths) != len(slots):
            names = ", ".join(each.name for each in slots)
            yield (
                f"{place}: {self.oracle.name}: expected {len(slots)} results ({names}), "
                f"got {len(truths)}, for {self.task}"
            )
            return
        for slot, truth, values in zip(slots, truths, narrow, strict=True):
            name = f"{place}: {self.oracle.name}: {slot.name}"
            if tuple(truth.expected.shape) != slot.shape:
                came = [*truth.expected.shape]
                yield f"{name}: expected shape {[*slot.shape]}, got {came}, for {self.task}, {case}"
                return
            if wrong := _wrong_dtype(truth, slot.dtype):
                yield f"{name}: {wrong}, for {self.task}, {case}"
                return
            tolerance = self.task.tolerance.of(slot.name)
            allowed = allowed_error(truth, slot.dtype, tolerance)
            self.outputs.append(_Output(slot.name, slot.dtype, case, truth, allowed, values))
        checker = self.oracle.checker(made.tensors, made.numbers)
        if checker is not None:
            of_case = self.outputs[-len(slots) :]
            right = {each.name: each.right for each in of_case}
            if refused := checker.refused(right, [each.truth.expected for each in of_case]):
                shown = refused if isinstance(refused, str) else ", ".join(refused)
                yield (
                    f"{place}: {self.oracle.name}_check refuses the oracle's own result "
                    f"({shown}), for {self.task}, {case}"
                )

    def unproved(self) -> Iterator[str]:
        """Of the tolerance: what is right and fails, and what is wrong and passes."""
        if self.oracle.check is not None:  # it decides in the tolerance's place
            return
        for name in dict.fromkeys(each.name for each in self.outputs):
            every = [each for each in self.outputs if each.name == name]
            yield from self._too_tight(every)
            yield from self._too_loose(every)

    def _too_tight(self, every: list[_Output]) -> Iterator[str]:
        for each in every:
            kind = getattr(torch, each.dtype)
            honest = {"the definition computed in float32": each.narrow.to(kind)}
            if each.truth.own is not None:
                honest["torch's own result"] = each.truth.own.to(kind)
            for words, values in honest.items():
                if self._is_wrong(each, values):
                    off = float(((values.double() - each.truth.expected).abs()).max())
                    yield (
                        f"{each.name}, {each.dtype}: too tight: {words} is refused, off by "
                        f"{off:.3g} ({each.case}); {_TIGHT}"
                    )
                    return

    def _too_loose(self, every: list[_Output]) -> Iterator[str]:
        telling = [each for each in every if each.numbers >= TELLING]
        if not telling:
            return
        for words in ("zeros", "the negated result", "a result shifted by one", "half a result"):
            for each in telling:
                values = _changed(words, each.right)
                if values is not None and not self._is_wrong(each, values):
                    yield (
                        f"{each.name}, {each.dtype}: too loose: {words} would pass ({each.case}); "
                        f"{_LOOSE}"
                    )
                    return
        lower = _LOWER.get(every[0].dtype)
        if lower is not None:
            rounded = [(each, _rounded(each.right, lower)) for each in telling]
            if not any(self._is_wrong(each, values) for each, values in rounded) and any(
                not torch.equal(each.right, values) for each, values in rounded
            ):
                yield (
                    f"{every[0].name}, {every[0].dtype}: too loose: a result rounded to {lower} "
                    f"would pass in each of {len(telling)} cases; {_LOOSE}"
                )

    def _is_wrong(self, output: _Output, values: torch.Tensor) -> bool:
        tolerance = self.task.tolerance.of(output.name)
        return bool(wrong_values(values, output.truth, output.dtype, tolerance).any())


def _changed(words: str, right: torch.Tensor) -> torch.Tensor | None:
    """A wrong output; None where it says nothing about this one."""
    # torch negates no floats of 8 bits.
    flat = right.flatten().double() if right.dtype.is_floating_point else right.flatten()
    if words == "zeros":
        changed = torch.zeros_like(flat)
    elif words == "the negated result":
        if not right.dtype.is_floating_point:
            return None
        changed = -flat
    elif words == "a result shifted by one":
        changed = flat.roll(1)
    else:
        changed = flat.clone()
        changed[flat.numel() // 2 :] = 0
    changed = changed.reshape(right.shape).to(right.dtype)
    differ = (changed.double() - right.double()).abs() > 0.5 * right.double().abs()
    return changed if bool(differ.any()) else None


def _rounded(right: torch.Tensor, lower: str) -> torch.Tensor:
    """An output rounded to a lower precision, where that holds numbers of its size."""
    narrow = right.to(getattr(torch, lower)).to(right.dtype)
    holds = narrow.isfinite() & (right.abs() > _SMALL)
    return torch.where(holds, narrow, right)


def _wrong_dtype(truth: Truth, dtype: str) -> str:
    """How the results' dtypes don't fit an output's; "" where they do."""
    kind = getattr(torch, dtype)
    if kind.is_floating_point and not truth.expected.is_floating_point():
        return f"expected floating-point values for {dtype}, got {str(truth.expected.dtype)[6:]}"
    own = truth.own
    if own is not None and own.is_floating_point() != kind.is_floating_point:
        return f"torch's own result: expected {dtype}, got {str(own.dtype)[6:]}"
    return ""


def _without_case(text: str) -> str:
    """A mistake's line without the first case that meets it."""
    return text.partition(", for ")[0]


def _defined(functions: Oracle, path: Path) -> str:
    """The place of the definition: `oracles.py:12`."""
    code = getattr(functions.definition, "__code__", None)
    return f"{path.name}:{code.co_firstlineno}" if code is not None else path.name


def _place(error: BaseException, path: Path) -> str:
    """The line of the oracles' file at which an error was raised: `oracles.py:12`."""
    cause = error.__cause__
    if isinstance(cause, SyntaxError):
        return f"{path.name}:{cause.lineno}"
    frames = traceback.extract_tb(cause.__traceback__) if cause is not None else []
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f"{path.name}:{lines[-1]}" if lines else path.name
