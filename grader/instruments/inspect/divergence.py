"""Which values of a kernel differ from thread to thread of a warp, as far as PTX shows it.

Only what certainly comes from a thread's number, or from what a thread has loaded, counts as
differing: what a shuffle or a vote gives is left out, since it may be the same for all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from grader.instruments.inspect.ptx import Instruction

THREAD, DATA = "the thread's number", "what each thread has loaded"
_NUMBER = "threadIdx.x itself"  # 32 in a row lie in a warp
_WARP = 32
_PASSES = 6  # values go round loops
_REGISTER = re.compile(r"%[\w.]+")
_NO_RESULT = ("st", "bra", "bar", "red", "ret", "exit", "call", "barrier", "membar", "fence", "cp")
_SHARED_RESULT = ("shfl", "vote", "match", "redux", "activemask", "elect", "atom")
_UP_FROM, _UP_TO = ("lt", "ge", "lo", "hs"), ("gt", "le", "hi", "ls")

Values = dict[str, frozenset[str]]


def differing(instructions: Sequence[Instruction], block: Sequence[int]) -> Values:
    """What each register depends on that differs within a warp, of those with anything such.

    `block` are the sizes of a thread block: by them threads are counted into warps.
    """
    values = _numbers(block)
    for _ in range(_PASSES):
        before = dict(values)
        for each in instructions:
            _learn(each, values)
        if values == before:
            break
    return {name: kinds for name, kinds in values.items() if kinds}


def _numbers(block: Sequence[int]) -> Values:
    """What is known of the special registers."""
    x, y, z = [*block, 1, 1, 1][:3]
    in_rows = x % _WARP == 0 or y * z == 1
    return {
        "%tid.x": frozenset({THREAD, _NUMBER} if in_rows else {THREAD}),
        "%tid.y": frozenset(() if x % _WARP == 0 or y == 1 else {THREAD}),
        "%tid.z": frozenset(() if x * y % _WARP == 0 or z == 1 else {THREAD}),
        "%laneid": frozenset({THREAD}),
    }


def _learn(each: Instruction, values: Values) -> None:
    kind = each.opcode.split(".")[0]
    if kind.startswith(_NO_RESULT) or each.text.endswith(":"):
        return
    results, sources = _operands(each)
    if not results or kind.startswith(_SHARED_RESULT):
        return
    origins = _of_result(each, kind, sources, values)
    if each.guard:  # what it was before stays where the guard says no
        origins |= values.get(each.guard, frozenset()) - {_NUMBER}
    for name in results:
        values[name] = values.get(name, frozenset()) | origins


def _of_result(
    each: Instruction, kind: str, sources: Sequence[str], values: Values
) -> frozenset[str]:
    known = [values.get(name, frozenset()) for name in _registers(sources)]
    joined = frozenset().union(*known)
    if kind == "ld":
        return frozenset({DATA}) if joined else frozenset()
    if kind in ("mov", "cvt") and len(known) == 1:
        return joined
    constant = _constant(sources[-1]) if sources else None
    if _NUMBER in joined and len(known) == 1 and constant is not None:
        if kind == "shr" and constant >= 5:
            return frozenset()
        if kind == "and" and constant % _WARP == 0:
            return frozenset()
        if kind == "setp" and _splits_at_a_warp(each.opcode, constant):
            return frozenset()
    return joined - {_NUMBER}


def _splits_at_a_warp(opcode: str, constant: int) -> bool:
    """Whether a comparison of threadIdx.x is alike for all threads of each warp."""
    how = opcode.split(".")[1]
    return (how in _UP_FROM and constant % _WARP == 0) or (
        how in _UP_TO and constant % _WARP == _WARP - 1
    )


def _operands(each: Instruction) -> tuple[list[str], list[str]]:
    """The registers that an instruction writes, and its other operands."""
    parts, depth, part = [], 0, ""
    for char in each.operands:
        depth += {"{": 1, "[": 1, "(": 1, "}": -1, "]": -1, ")": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += char
    parts.append(part)
    return _registers(parts[:1]), [each.strip() for each in parts[1:]]


def _registers(texts: Sequence[str]) -> list[str]:
    return [name for text in texts for name in _REGISTER.findall(text)]


def _constant(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None
