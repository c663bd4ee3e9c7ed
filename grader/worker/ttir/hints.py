"""What tl.multiple_of, tl.max_contiguous and tl.max_constancy promise the compiler about a value.

A hint is an attribute of the operation that computes the value, with a number for each axis:

    tt.divisibility    the first element of each run of consecutive ones is a multiple of it
    tt.contiguity      runs of so many elements are consecutive
    tt.constancy       runs of so many elements are equal

Of divisibility only the first element along an axis is tested: where the compiler sees further runs
begin isn't known here. Pointers count in bytes, and are consecutive if their elements are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .floats import width_of
from .ir import Op, Type
from .registry import Run

if TYPE_CHECKING:
    from .state import Frame, State

_HINT = re.compile(
    r"tt\.(divisibility|contiguity|constancy) = dense<(\[[\d, ]{1,200}\]|\d{1,10})>", re.ASCII
)
_Test = Callable[[np.ndarray], np.ndarray]  # elements for which a hint is false


def checked(op: Op, run: Run) -> Run:
    """`run` of an operation, followed by a test of the hints about its result, if it has any."""
    if "= dense<" not in op.text or len(op.results) != 1 or not _is_of_numbers(op.types[0]):
        return run
    tests = [
        test
        for name, numbers in _HINT.findall(op.text)
        for test in _tests(name, [int(each) for each in re.findall(r"\d+", numbers)], op.types[0])
    ]
    return _followed(op, run, tests) if tests else run


def _is_of_numbers(kind: Type) -> bool:
    return _is_pointer(kind) or re.fullmatch(r"i\d+", kind.kind) is not None


def _is_pointer(kind: Type) -> bool:
    return kind.kind.startswith("ptr<")


def _followed(op: Op, run: Run, tests: list[_Test]) -> Run:
    slot, rank = op.results[0], len(op.types[0].shape)

    def run_and_test(state: State, frame: Frame) -> None:
        run(state, frame)
        undefined = frame.poison.get(slot) if frame.poison else None
        if undefined is not None:
            return
        active = state.active_as(rank)
        for test in tests:
            failed = test(frame.values[slot])
            if active is not None:
                failed = failed & active
            if failed.any():
                first = int(np.argmax(failed.reshape(-1))) // (failed.size // len(failed))
                count = int(np.count_nonzero(failed))
                state.execution.find("false_hint", op, int(state.linear[first]), count=count)
                return

    return run_and_test


def _tests(name: str, numbers: list[int], kind: Type) -> list[_Test]:
    """A test for each axis; axis 0 of the values is that of programs."""
    shape = kind.shape
    if not shape:  # one number
        return [_divisible(0, numbers[0])] if name == "divisibility" and numbers[0] > 1 else []
    if len(numbers) == 1:  # `dense` of equal numbers
        numbers = numbers * len(shape)
    if len(numbers) != len(shape):
        return []
    step = 0 if name == "constancy" else width_of(kind.pointee) if _is_pointer(kind) else 1
    tests = []
    for axis, (number, size) in enumerate(zip(numbers, shape, strict=True), start=1):
        if number <= 1:
            continue
        if name == "divisibility":
            tests.append(_divisible(axis, number))
        elif size > 1:
            tests.append(_in_runs(axis, min(number, size), step))
    return tests


def _divisible(axis: int, number: int) -> _Test:
    def test(values: np.ndarray) -> np.ndarray:
        first = values if axis == 0 else values.take([0], axis)
        return first.astype(np.int64) % number != 0

    return test


def _in_runs(axis: int, length: int, step: int) -> _Test:
    def test(values: np.ndarray) -> np.ndarray:
        begins = np.arange(1, values.shape[axis]) % length == 0  # a run: no step leads there
        begins = begins.reshape(-1, *(1,) * (values.ndim - axis - 1))
        return (np.diff(values.astype(np.int64), axis=axis) != step) & ~begins

    return test
