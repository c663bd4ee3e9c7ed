"""Finds the int32 arithmetic that wraps: where an index leaves its tensor at a large size.

Values wrap as on a GPU, in every run. Here each sum, difference and product is computed once more
in int64, and the first that differs is noted.
"""

from __future__ import annotations

import numpy as np

from .arithmetic import elementwise
from .ir import Module, Op, walk
from .registry import Run
from .state import Frame, State

_EXACT = {"arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply}


def watch(module: Module, lines: list[int]) -> None:
    """Have the module's int32 arithmetic append to `lines` where it wraps, in the order it runs.

    The module's operations must not have run.
    """
    for function in module.functions.values():
        for op in walk(function.blocks):
            if op.name in _EXACT and op.types[0].kind == "i32":
                op.run = _watched(op, lines)


def _watched(op: Op, lines: list[int]) -> Run:
    function = _EXACT[op.name]
    plain = elementwise(op, function)
    first, second = op.operands

    def run(state: State, frame: Frame) -> None:
        plain(state, frame)
        exact = function(*(frame.values[each].astype(np.int64) for each in (first, second)))
        if not np.array_equal(exact, frame.values[op.results[0]]):
            lines.append(op.line[1])

    return run
