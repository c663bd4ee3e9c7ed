"""The table from names of operations to the functions that execute them.

A function is called once for each operation of a text. It returns `run(state, frame)`, which is
called at each execution, or for control flow a generator function of the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .errors import NotModelled
from .ir import Op

if TYPE_CHECKING:
    from .state import Frame, State

Run = Callable[["State", "Frame"], Any]
Meaning = Callable[[Op], Run]

# Barriers, and operations that are compiled to shared memory with barriers around it, or may be.
_MEETINGS = frozenset(
    [
        *("gpu.barrier", "ttg.barrier", "tt.debug_barrier", "tt.reduce", "tt.scan"),
        *("tt.dot", "tt.dot_scaled", "tt.gather", "tt.histogram", "tt.cat", "tt.descriptor_load"),
        *("tt.descriptor_store", "tt.descriptor_gather", "tt.descriptor_scatter"),
        *("tt.descriptor_reduce", "tt.trans", "tt.reshape", "tt.join", "tt.split"),
    ]
)
_MEANINGS: dict[str, Meaning] = {}
_CONTROL: set[str] = set()


def operation(*names: str) -> Callable[[Meaning], Meaning]:
    """Register the decorated function for the named operations."""

    def register(meaning: Meaning) -> Meaning:
        _MEANINGS.update(dict.fromkeys(names, meaning))
        return meaning

    return register


def control_flow(*names: str) -> Callable[[Meaning], Meaning]:
    """Register as `operation` does, for operations after or in which other programs may go on."""
    _CONTROL.update(names)
    return operation(*names)


def _with_meeting(run: Run) -> Run:
    """An operation that a program's warps do together; observers are told."""

    def meet(state: State) -> None:
        for observer in state.execution.observers:
            observer.meet(state.linear if state.active is None else state.linear[state.active])

    def meeting(state: State, frame: Frame) -> None:
        meet(state)
        run(state, frame)
        meet(state)

    return meeting


def prepare(op: Op) -> Run:
    """Decide how an operation runs. Raises NotModelled."""
    meaning = _MEANINGS.get(op.name)
    if meaning is None:
        raise NotModelled(f"operation {op.name}", op.line)
    try:
        run = meaning(op)
    except NotModelled as error:
        raise NotModelled(error.feature, error.line or op.line) from None
    op.runs_programs_apart = op.name in _CONTROL
    if op.name in _MEETINGS:
        run = _with_meeting(run)
    op.run = run
    return run
