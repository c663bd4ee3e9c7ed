"""Checks of an exercise that run no kernel: its oracle, and its tolerance.

The oracle is asked on cases of each size class and dtype. The tolerance is proved there: the
definition computed in float32 and torch's own result pass it. Zeros, the negated result, a result
that is shifted by an element or half computed, and one of the next lower precision, fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from grader.cases import Case, Space, inputs, oracle
from grader.cases.compare import wrong_values
from grader.cases.oracle import Oracle, OracleError, Truth
from grader.grading.search import spread
from grader.spec import Exercise, Scalar, Variant
from grader.spec.document import read_document
from grader.spec.task import Task
from grader.spec.values import Mistake
from grader.staff.author.fakes import FAKES, TELLING, changed, numbers_in, rounded
from grader.staff.author.own_check import Judged, accepted_fakes

TIES = "constant_rows"  # the data of which most elements are equal
CASES = 6  # of a size class and dtype
_SEED = 21
_LOWER = {"float64": "float32", "float32": "float16", "float16": "bfloat16"}
_OWN = "torch's own result"
_LOOSE = "set a smaller floor_ulps or factor in `tolerance:`, or another magnitude"
_OWN_IS_FAR = "let {}_torch compute as precisely as a kernel should: its own error is allowed"
_TIGHT = (
    "set a larger floor_ulps in `tolerance:`, `magnitude: absolute_inputs` for sums, or "
    "`magnitude: oracle` with a function NAME_magnitude (docs/spec.md#tolerance)"
)


def mistakes(exercise: Exercise, spec: Path, questions: list[str]) -> Iterator[str]:
    """What is wrong with an exercise's oracle and its tolerance. `spec` is the exercise's file.

    `questions` gets lines about what may be right, and must be decided by the author.
    """
    path = oracle.file_of(exercise)
    try:
        functions = oracle.of(exercise)
    except OracleError as error:
        words = str(error).removeprefix(f"{path.name}: ")
        yield f"{_place(error, path)}: {words}; write it as docs/spec.md says"
        return
    if misfits := [*_misfits(exercise, functions, path)]:
        yield from misfits
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
            if broken:
                continue
            for text, is_mistake in trial.fakes_accepted():
                key = text.partition(" in each of ")[0]
                if key not in reported and is_mistake:
                    yield text
                elif key not in reported:
                    questions.append(text)
                reported.add(key)
            shown = [Mistake(("tolerance",), each) for each in trial.unproved()]
            fresh = [each for each in shown if each.message not in reported]
            reported |= {each.message for each in fresh}
            yield from document.report(fresh).mistakes if fresh else ()


def _misfits(exercise: Exercise, functions: Oracle, path: Path) -> Iterator[str]:
    """Functions of the oracle whose parameters aren't what they get, a line each."""
    lines: dict[str, None] = {}
    for variant in exercise.variants.values():
        inputs = [each.name for each in exercise.inputs(variant)]
        scalars = (each.name for each in exercise.signature(variant) if isinstance(each, Scalar))
        numbers = [*exercise.numbers_names, *scalars]
        given = [(functions.definition, numbers), (functions.torch_own, numbers)]
        if functions.magnitude is not None:
            given.append((functions.magnitude, [*numbers, "dtype"]))
        for function, more in given:
            if text := oracle.misfit(function, inputs, more):
                lines[f"{_defined(function, path)}: {text}"] = None
    of_tolerance = {each for v in exercise.variants.values() for each in _magnitudes(exercise, v)}
    if functions.magnitude is not None and "oracle" not in of_tolerance:
        yield (
            f"{_defined(functions.magnitude, path)}: {functions.name}_magnitude isn't used: write "
            "`tolerance: {magnitude: oracle}` in the spec, or leave the function out"
        )
    yield from lines


def _magnitudes(exercise: Exercise, variant: Variant) -> Sequence[str]:
    """The tolerance's magnitude of each output."""
    magnitude = Task(exercise, variant).magnitude
    return (magnitude,) if isinstance(magnitude, str) else magnitude


@dataclass(frozen=True)
class _Output:
    """An output of one case, and its right values."""

    name: str
    dtype: str
    case: Case
    truth: Truth
    narrow: torch.Tensor  # the definition computed in float32

    @property
    def right(self) -> torch.Tensor:
        return self.truth.expected.to(getattr(torch, self.dtype))

    @cached_property
    def numbers(self) -> int:
        """How many different finite numbers it has."""
        return numbers_in(self.right)


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
            edges = Space(self.task, self.dtype, size_class, _SEED).edges()
            for case in spread(edges, CASES):
                yield size_class, case
            if self.oracle.check is not None and exercise.leading_input(variant, self.dtype):
                yield size_class, replace(edges[-1], data=TIES)  # several results may be right

    def broken(self) -> Iterator[str]:
        """Where the oracle fails, or gives another shape or dtype than the spec says."""
        self.outputs: list[_Output] = []
        self.judged: list[Judged] = []
        for size_class, case in self._cases():
            try:
                yield from self._one(case)
            except OracleError as error:
                place = _place(error, self.path)
                yield f"{place}: {error}, for {self.task} in class {size_class}, {case}"

    def _one(self, case: Case) -> Iterator[str]:
        made = inputs.make(self.task, case)
        given = (made.tensors, made.numbers, self.task.magnitude)
        truths = self.oracle.truths(*given)
        narrow, _ = self.oracle.in_dtype(*given, torch.float32)
        slots = [each for each in made.slots if each.role != "input"]
        place = _defined(self.oracle.definition, self.path)
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
            self.outputs.append(_Output(slot.name, slot.dtype, case, truth, values))
        checker = self.oracle.checker(made.tensors, made.numbers)
        if checker is not None:
            of_case = self.outputs[-len(slots) :]
            judged = Judged(checker, {each.name: each.right for each in of_case}, truths)
            try:
                who, refused, element = judged.right_refused()
            except OracleError as error:
                place = _place(error, self.path, checker.function)
                yield f"{place}: {error}, for {self.task}, {case}"
                return
            if refused:
                at = f": {element}" if element else ""
                yield f"{self._check()} refuses {who} ({refused}), for {self.task}, {case}{at}"
            else:
                self.judged.append(judged)

    def _check(self) -> str:
        """The check's place and name: `oracles.py:26: peak_check`."""
        assert self.oracle.check is not None
        return f"{_defined(self.oracle.check, self.path)}: {self.oracle.name}_check"

    def fakes_accepted(self) -> Iterator[tuple[str, bool]]:
        """Wrong results that the exercise's own check accepts, and whether that is a mistake."""
        for text, is_mistake in accepted_fakes(self.judged):
            asked = "" if is_mistake else ": is that right?"
            yield f"{self._check()} {text}{asked}", is_mistake

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
            # Of doubles float32 is the next lower precision, which has to be refused.
            is_double = kind is torch.float64
            honest = (
                {} if is_double else {"the definition computed in float32": each.narrow.to(kind)}
            )
            if each.truth.own is not None:
                honest[_OWN] = each.truth.own.to(kind)
            for words, values in honest.items():
                if not self._is_wrong(each, values):
                    continue
                if not kind.is_floating_point:
                    yield f"{each.name}, {each.dtype}: {self._differs(words)} ({each.case})"
                else:
                    off = float(((values.double() - each.truth.expected).abs()).max())
                    asked = f"does {self.oracle.name}_torch compute the same? If so, "
                    yield (
                        f"{each.name}, {each.dtype}: too tight: {words} is refused, off by "
                        f"{off:.3g} ({each.case}); {asked if words == _OWN else ''}{_TIGHT}"
                    )
                return

    def _differs(self, words: str) -> str:
        """What to do where integers, which are compared exactly, aren't the oracle's."""
        if words != _OWN:
            return f"{words} differs: let {self.oracle.name} compute integers"
        return (
            f"{words} differs. If several results are right, write {self.oracle.name}_check in "
            "reference/oracles.py (docs/spec.md#oracles)"
        )

    def _too_loose(self, every: list[_Output]) -> Iterator[str]:
        telling = [each for each in every if each.numbers >= TELLING]
        if not telling:
            return
        for words in FAKES:
            for each in telling:
                values = changed(words, each.right)
                if values is not None and not self._is_wrong(each, values):
                    yield (
                        f"{each.name}, {each.dtype}: too loose: {words} would pass ({each.case}); "
                        f"{_LOOSE}"
                    )
                    return
        lower = _LOWER.get(every[0].dtype)
        if lower is not None:
            narrowed = [(each, rounded(each.right, lower)) for each in telling]
            if not any(self._is_wrong(each, values) for each, values in narrowed) and any(
                not torch.equal(each.right, values) for each, values in narrowed
            ):
                yield (
                    f"{every[0].name}, {every[0].dtype}: too loose: a result rounded to {lower} "
                    f"would pass in each of {len(telling)} cases; {self._remedy(every)}"
                )

    def _remedy(self, every: list[_Output]) -> str:
        """What makes the tolerance smaller: torch's own error is a part of it."""
        own_is_exact = [
            replace(each, truth=replace(each.truth, own=each.right.double())) for each in every
        ]
        lower = _LOWER[every[0].dtype]
        if any(self._is_wrong(each, rounded(each.right, lower)) for each in own_is_exact):
            return _OWN_IS_FAR.format(self.oracle.name)
        return _LOOSE

    def _is_wrong(self, output: _Output, values: torch.Tensor) -> bool:
        tolerance = self.task.tolerance.of(output.name)
        return bool(wrong_values(values, output.truth, output.dtype, tolerance).any())


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
    """A mistake's line without the first case that meets it, and without that case's shapes."""
    place, _, said = text.partition(", for ")[0].partition(": ")
    return f"{place}: {re.sub(r'[0-9]+', '', said)}"


def _defined(function: object, path: Path) -> str:
    """The place of a function of the oracles' file: `oracles.py:12`."""
    code = getattr(function, "__code__", None)
    return f"{path.name}:{code.co_firstlineno}" if code is not None else path.name


def _place(error: OracleError, path: Path, function: object = None) -> str:
    """The line of the oracles' file at which an error was raised: `oracles.py:12`.

    The function's line where the error was raised in no line of the file.
    """
    return f"{path.name}:{error.line}" if error.line else _defined(function, path)
