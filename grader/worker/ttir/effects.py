"""Prints, assertions and assumptions of kernels, and operations that only order others."""

from __future__ import annotations

import re

import numpy as np

from .floats import is_float
from .ir import Op
from .registry import Run, operation
from .scanning import STRING
from .state import Frame, State

MAX_LINES = 1000  # of one tl.device_print in one chunk of programs
_ESCAPE = re.compile(r"\\([0-9A-F]{2}|.)")


def _message(op: Op) -> str:
    """The string in an operation's text."""
    matched = STRING.search(op.text)

    def plain(escape: re.Match[str]) -> str:
        code = escape[1]
        return chr(int(code, 16)) if len(code) == 2 else {"n": "\n", "t": "\t"}.get(code, code)

    return _ESCAPE.sub(plain, matched[0][1:-1]) if matched else ""


@operation("tt.assert")
def _assert(op: Op) -> Run:
    return _checked(op, "device_assert")


@operation("llvm.intr.assume")
def _assume(op: Op) -> Run:
    """A promise to the compiler, which leaves out what only matters where it is false."""
    return _checked(op, "false_assumption")


def _checked(op: Op, kind: str) -> Run:
    """A finding of a kind for the elements of active programs for which the operand is false."""
    condition = op.operands[0]
    rank = len(op.operand_types[0].shape)

    def run(state: State, frame: Frame) -> None:
        held = frame.values[condition]
        if held.all():
            return
        active = state.active_as(rank)
        failed = ~held if active is None else ~held & active
        if frame.poison:
            undefined = frame.poison.get(condition)
            if undefined is not None:
                failed = failed & ~undefined.where
        if failed.any():
            first = int(np.argmax(failed.reshape(-1))) // (failed.size // len(failed))
            count = int(np.count_nonzero(failed))
            state.execution.find(kind, op, int(state.linear[first]), count=count)

    return run


@operation("tt.print")
def _print(op: Op) -> Run:
    """As on a GPU: a line for each element, `pid (0, 0, 0) idx (3) name: 1.000000`."""
    prefix = _message(op)
    signed = [bool(sign) for sign in op.attributes.get("isSigned", ())]
    hexadecimal = bool(op.attributes.get("hex"))

    def shown(value: np.generic, kind: str, with_sign: bool) -> str:
        if kind.startswith("ptr<"):
            return f"0x{int(value):x}"
        if is_float(kind):
            return f"{float(value):f}"
        number = int(value)
        bits = int(kind[1:])
        if hexadecimal:
            return f"0x{number & ((1 << bits) - 1):0{(bits + 3) // 4}x}"
        return str(number if with_sign else number & ((1 << bits) - 1))

    def lines(state: State, frame: Frame, row: int) -> list[str]:
        program = ", ".join(str(int(each[row])) for each in state.ids)
        if not op.operands:
            return [f"pid ({program}){prefix}"]
        printed_values = []
        for number, (slot, declared) in enumerate(zip(op.operands, op.operand_types, strict=True)):
            value = frame.values[slot]
            of_row = np.broadcast_to(value[row if len(value) > 1 else 0], declared.shape)
            with_sign = signed[number] if number < len(signed) else True
            which = f"(operand {number}) " if len(op.operands) > 1 else ""
            for index in np.ndindex(*declared.shape):
                place = f"idx ({', '.join(map(str, index))})"
                text = shown(of_row[index], declared.kind, with_sign)
                printed_values.append(f"pid ({program}) {place}{prefix}{which}{text}")
                if len(printed_values) >= MAX_LINES:
                    return printed_values
        return printed_values

    def run(state: State, frame: Frame) -> None:
        for row in range(state.programs):
            if state.active is not None and not state.active[row]:
                continue
            if not state.execution.tell("\n".join(lines(state, frame, row)) + "\n"):
                return

    return run


@operation(
    "gpu.barrier",
    "ttg.barrier",
    "tt.debug_barrier",
    "tt.grid_dependency_wait",
    "tt.grid_dependency_launch_dependents",
)
def _nothing(op: Op) -> Run:
    """Nothing, for waits that are over already."""
    return lambda state, frame: None
