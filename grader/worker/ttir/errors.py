"""Why TTIR can't be executed, or no longer is."""

from __future__ import annotations


class NotModelled(Exception):
    """The text is fine, but this executor has no meaning for something in it.

    `what` names that; `line` is the (file, line) of the source, None where unknown.
    """

    def __init__(self, what: str, line: tuple[str, int] | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.line = line


class MalformedIR(Exception):
    """Text that Triton's frontend doesn't write."""


class WrongArguments(MalformedIR):
    """A launch that gives a kernel more or fewer arguments than its text has parameters."""


class LimitExceeded(Exception):
    """More work than a limit allows; subclasses say which."""

    what = "more than the limit"

    def __init__(self, limit: int) -> None:
        super().__init__(f"{self.what}: the limit is {limit:,}")
        self.limit = limit


class TooMuchText(LimitExceeded):
    """The text is too long."""

    what = "characters of IR"


class TooManyOperations(LimitExceeded):
    """The text has too many operations."""

    what = "operations in a kernel"


class TooDeeplyNested(LimitExceeded):
    """Regions, calls or locations are nested too deeply."""

    what = "levels of nested regions or calls"


class BlockTooLarge(LimitExceeded):
    """A block of values has too many elements."""

    what = "elements of a block"


class TooManyPrograms(LimitExceeded):
    """The grid is too large."""

    what = "programs in a grid"


class TooManySteps(LimitExceeded):
    """Too many operations were executed."""

    what = "operations executed in a launch"


class TooMuchWork(LimitExceeded):
    """Operations computed too many elements."""

    what = "elements computed in a launch"


class WaitsForever(LimitExceeded):
    """All programs wait for something that none of them will do."""

    what = "turns of waiting loops while no program changes memory"
