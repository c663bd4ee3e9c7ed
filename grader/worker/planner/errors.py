"""Errors of a planner; each message is written for the student."""

from __future__ import annotations


class PlannerError(RuntimeError):
    """An error that is raised at a line of the submission.

    The message is shown as it is; `instead` says what to do.
    """

    def __init__(self, message: str, instead: str = "") -> None:
        super().__init__(message)
        self.instead = instead


class NeedsData(PlannerError):
    """An operation that needs a tensor's values, which a planner doesn't have."""


class PlanLimit(PlannerError):
    """A plan exceeds a limit."""


class TooManyLaunches(PlanLimit):
    """More launches in one call than a plan may have."""


class TooMuchMemory(PlanLimit):
    """More memory allocated at a time than a plan may have."""


class ForeignKernel(PlannerError):
    """A kernel whose text isn't in the submission's own files."""


class KernelError(PlannerError):
    """A kernel that can't be compiled; `line` and `excerpt` are from the compiler."""

    def __init__(self, message: str, line: int = 0, excerpt: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.excerpt = excerpt


class LaunchError(PlannerError):
    """A kernel call that Triton refuses, with the kernel's name in place of Triton's."""


class GridTooLarge(LaunchError):
    """A launch on more programs than a grid may have along an axis, or the device at once."""


class SourceError(PlannerError):
    """A file of the submission that Python can't read; `line` is the place, or 0."""

    def __init__(self, message: str, instead: str = "", line: int = 0) -> None:
        super().__init__(message, instead)
        self.line = line


class Unsupported(PlannerError):
    """A part of torch or Triton without a counterpart in a plan: `part` can't be judged."""

    def __init__(self, part: str, instead: str = "launch the kernels directly") -> None:
        super().__init__(f"without a GPU, {part} can't be judged: {instead}")
