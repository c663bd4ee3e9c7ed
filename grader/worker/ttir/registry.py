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

_MEANINGS: dict[str, Meaning] = {}
_CONTROL: set[str] = set()


def operation(*names: str) -> Callable[[Meaning], Meaning]:
    """Register the decorated function for the named operations."""

    def register(meaning: Meaning) -> Meaning:
        _MEANINGS.update(dict.fromkeys(names, meaning))
        return meaning

    return register


def control_flow(*names: str) -> Callable[[Meaning], Meaning]:
    """Register as `operation` does, for operations with regions that may hold any operations."""

    def register(meaning: Meaning) -> Meaning:
        _MEANINGS.update(dict.fromkeys(names, meaning))
        _CONTROL.update(names)
        return meaning

    return register


def supported() -> list[str]:
    """The names of all registered operations."""
    return sorted(_MEANINGS)


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
    op.run = run
    return run
