"""Atomic stores, and waiting for a value (tl.atomic_poll), as of Triton 3.9."""

from __future__ import annotations

import numpy as np

from .control import Steps
from .errors import MalformedIR
from .floats import from_bits, stored
from .ir import Op
from .loading import store_of
from .places import Elements
from .poison import check
from .registry import Run, control_flow
from .state import Frame, State

TURNS_OF_A_TIMEOUT = 100  # in which all waiting programs go on, instead of time


@control_flow("tt.atomic_store")
def _store(op: Op) -> Run:
    """A store, behind which waiting programs go on."""
    run_store = store_of(op)

    def run(state: State, frame: Frame) -> Steps:
        run_store(state, frame)
        if state.execution.interleaved:
            yield

    return run


@control_flow("tt.atomic_poll")
def _poll(op: Op) -> Run:
    """Wait for a value; programs of kernels with this operation take turns."""
    pointer, expected = op.operands[:2]
    times_out, out = len(op.operands) > 2, op.results[0]
    block = op.operand_types[0]
    kind = block.pointee

    def matches(elements: Elements, wanted: np.ndarray) -> np.ndarray:
        same = np.zeros(elements.shape, bool)
        for each in elements.places("load"):
            here = from_bits(each.reading(stored(kind)), kind) == wanted
            same = same | (here if each.chosen is None else here & each.chosen)
        return same

    def run(state: State, frame: Frame) -> Steps:
        for slot in op.operands if frame.poison else ():
            check(state, frame, slot, op)
        turn = 0
        while True:
            elements = Elements(state, op, kind, block.shape, frame.values[pointer])
            same = matches(elements, frame.values[expected])
            active = state.active_as(len(block.shape))
            if (same if active is None else same | ~active).all():
                break
            turn += 1
            if times_out and turn > TURNS_OF_A_TIMEOUT:
                break
            if not state.execution.interleaved:
                raise MalformedIR("a program that waits")
            yield
        elements.tell("atomic", [])
        frame.put([out], [(same, None)])

    return run
