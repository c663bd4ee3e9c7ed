"""Operations that don't depend on every operand: a choice between two values, `and` and `or`.

Undefined elements that they ignore leave their result defined.
"""

from __future__ import annotations

import numpy as np

from .arithmetic import elementwise
from .ir import Op
from .poison import union
from .registry import Run, operation
from .state import Frame, State


@operation("arith.select")
def _select(op: Op) -> Run:
    (condition, a, b), out = op.operands, op.results[0]
    rank = len(op.types[0].shape)

    def shaped(values: np.ndarray) -> np.ndarray:
        return values.reshape(-1, *(1,) * rank) if values.ndim <= rank else values

    def run(state: State, frame: Frame) -> None:
        values = frame.values
        chosen = shaped(values[condition])
        if isinstance(values[a], np.ndarray):
            values[out] = np.where(chosen, values[a], values[b])
        else:
            values[out] = values[a].merged(values[condition], values[b])
        if frame.poison:
            of_condition, of_a, of_b = map(frame.poison.get, (condition, a, b))
            parts = [
                of_condition and of_condition.moved(shaped),
                of_a and of_a.under(chosen),
                of_b and of_b.under(~chosen),
            ]
            frame.mark(out, union(parts))

    return run


@operation("arith.andi", "arith.ori")
def _and_or(op: Op) -> Run:
    """`and` and `or`, which ignore one operand where the other decides."""
    function = np.bitwise_or if op.name == "arith.ori" else np.bitwise_and
    plain = elementwise(op, function)
    if op.types[0].kind != "i1":
        return plain
    decides = op.name == "arith.ori"
    (a, b), out = op.operands, op.results[0]

    def run(state: State, frame: Frame) -> None:
        plain(state, frame)
        poison = frame.poison.get(out) if frame.poison else None
        if poison is not None:
            for slot in (a, b):
                sure = frame.values[slot] == decides
                of_slot = frame.poison.get(slot)
                decided = sure if of_slot is None else sure & ~of_slot.where
                poison = poison and poison.under(~decided)
            frame.mark(out, poison)

    return run
