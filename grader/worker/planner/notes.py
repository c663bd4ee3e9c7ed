"""Notes for the student about calls that give no meaningful answer in a planner, each once."""

from __future__ import annotations

_said: set[str] = set()


def forget() -> None:
    """Allow each note again, for another plan."""
    _said.clear()


def note(operation: str) -> None:
    """Note that an operation gives no times here."""
    if operation not in _said:
        _said.add(operation)
        print(
            f"[grader] {operation} gives no times here: nothing runs while the launcher says what "
            "to launch. To choose between configurations use triton.autotune"
        )
