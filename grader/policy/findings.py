"""The rules' names, the exceptions of one variant, and violations."""

from __future__ import annotations

from dataclasses import dataclass

RULES: dict[str, str] = {
    "torch": (
        "Torch is for allocating, shapes, strides and views; "
        "what the exercise asks for is computed in kernels."
    ),
    "unreadable": "The file is UTF-8 and simple enough to be read.",
}


@dataclass(frozen=True)
class Rules:
    """The exceptions of one variant from the rules.

    `torch` are operations that may compute, by plans' names (plan/rules.py), or `*` for all.
    `lifted` are names of `RULES` or cuda.CUDA_RULES that are off.
    """

    torch: frozenset[str] = frozenset()
    lifted: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Violation:
    """One violation: `message` says what it is, `instead` what to do.

    `line` and `column` count from 1, the column in characters.
    """

    rule: str
    line: int
    column: int
    message: str
    instead: str
