"""A compiler process's failure: a place in the submission and a reason."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class CompileFailure(Exception):
    """A kernel that doesn't compile.

    `kind` is "compile_error" (the compiler refuses the kernel), "not_modelled" (this grader can't
    compile it; nobody's mistake), "forged" (a plan contradicts the text) or "machine" (a tool or
    memory is missing). An autotuner skips a configuration with `autotuner_skips`.
    """

    message: str
    file: str = ""  # relative to the submission's folder
    line: int = 0  # in `file`, 0 where unknown
    excerpt: str = ""  # the source line, and a caret below the place in it
    kind: str = "compile_error"
    autotuner_skips: bool = False

    def __post_init__(self) -> None:
        super().__init__(self.message)

    def to_json(self) -> dict[str, Any]:
        """The fields, as the grader reads them."""
        return asdict(self)


def causes(error: BaseException) -> list[BaseException]:
    """The error and its causes, outermost first."""
    errors = [error]
    while errors[-1].__cause__ is not None and len(errors) < 50:
        errors.append(errors[-1].__cause__)
    return errors
