"""Errors of a planner; each message is written for the student."""

from __future__ import annotations

from typing import Any

from ..protocol import Code


class PlannerError(RuntimeError):
    """Raised at the line of the submission that asked for it.

    The message is told as it stands; `instead` says what to do.
    """

    def __init__(self, message: str, instead: str = "") -> None:
        super().__init__(message)
        self.instead = instead


class NeedsData(PlannerError):
    """An operation that needs the values of a tensor, of which a planner has none."""


class PlanLimit(PlannerError):
    """More of something than a plan may have."""


class TooManyLaunches(PlanLimit):
    """More launches in one call than a plan may have."""


class TooMuchMemory(PlanLimit):
    """More memory allocated at a time than a plan may have."""


class ForeignKernel(PlannerError):
    """A kernel whose text doesn't stand in the submission's own files."""


class KernelError(PlannerError):
    """A kernel that can't be compiled; `line` and `excerpt` are those that the compiler names."""

    def __init__(self, message: str, line: int = 0, excerpt: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.excerpt = excerpt


class LaunchError(PlannerError):
    """A kernel that is called in a way that Triton refuses, with its name in place of Triton's."""


class SourceError(PlannerError):
    """A file of the submission that Python can't read; `line` is where, 0 where none is known."""

    def __init__(self, message: str, instead: str = "", line: int = 0) -> None:
        super().__init__(message, instead)
        self.line = line


class Unsupported(PlannerError):
    """Part of torch or Triton that has no counterpart in a plan: `part` can't be judged."""

    def __init__(self, part: str, instead: str = "launch the kernels directly") -> None:
        super().__init__(f"without a GPU, {part} can't be judged: {instead}")


class Refusal(Exception):
    """A request that ends in something other than `ok`; `text` describes it for the reply."""

    def __init__(self, code: Code, **text: Any) -> None:
        super().__init__(code.name)
        self.code = code
        self.text = text
