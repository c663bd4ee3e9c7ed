"""The loops that programs are in: the grader asks by a signal when their time is over."""

from __future__ import annotations

import os
from types import FrameType
from typing import Any

from . import control

_STDERR = 2
_MOST = 32  # loops around each other


def answer(_: int, frame: FrameType | None) -> None:
    """Print the loops that the interrupted program is in: the handler of the signal."""
    numbers = ",".join(map(str, loops(frame)))
    os.write(_STDERR, f"\n[grader] at {numbers}\n".encode())


def loops(frame: FrameType | None) -> list[int]:
    """The lines of the loops that a running frame is in, innermost first."""
    lines: list[int] = []
    while frame is not None and len(lines) < _MOST:
        lines += _line_of(frame)
        frame = frame.f_back
    return lines


def waiting_in(program: Any) -> int:
    """The line of the innermost loop that a waiting program's generator is in; 0 for none."""
    line = 0
    while program is not None and (frame := program.gi_frame) is not None:
        line = next(iter(_line_of(frame)), line)
        program = program.gi_yieldfrom
    return line


def _line_of(frame: FrameType) -> list[int]:
    """The line of a loop's frame; [] for any other."""
    if frame.f_globals is not vars(control) or frame.f_code.co_name != "run":
        return []
    op = frame.f_locals.get("op")
    return [op.line[1]] if op is not None and op.name in ("scf.while", "scf.for") else []
