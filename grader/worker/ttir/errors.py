"""The reasons why TTIR can't be executed, or not to its end."""

from __future__ import annotations


class NotModelled(Exception):
    """The text is valid, but this executor doesn't implement something in it.

    `feature` names it; `line` is the (file, line) of the source, None where unknown.
    """

    def __init__(self, feature: str, line: tuple[str, int] | None = None) -> None:
        super().__init__(feature)
        self.feature = feature
        self.line = line


class MalformedIR(Exception):
    """Text that Triton's frontend doesn't write."""


class WrongArguments(MalformedIR):
    """A launch that gives a kernel more or fewer arguments than its text has parameters."""


class LimitExceeded(Exception):
    """More work than a limit allows; subclasses say which."""

    limited = "more than the limit"

    def __init__(self, limit: int, line: int = 0) -> None:
        """`line` is that of the loop where the work is done, 0 where that isn't known."""
        super().__init__(f"{self.limited}: the limit is {limit:,}")
        self.limit = limit
        self.line = line


class TooMuchText(LimitExceeded):
    """The text is too long."""

    limited = "characters of IR"


class TooManyOperations(LimitExceeded):
    """The text has too many operations."""

    limited = "operations in a kernel"


class TooDeeplyNested(LimitExceeded):
    """Regions, calls or locations are nested too deeply."""

    limited = "levels of nested regions or calls"


class BlockTooLarge(LimitExceeded):
    """A block of values has too many elements."""

    limited = "elements of a block"


class TooManyPrograms(LimitExceeded):
    """The grid is too large."""

    limited = "programs in a grid"


class TooManySteps(LimitExceeded):
    """Too many operations were executed."""

    limited = "operations executed in a launch"


class TooMuchWork(LimitExceeded):
    """Operations computed too many elements."""

    limited = "elements computed in a launch"


class WaitsForever(LimitExceeded):
    """All programs wait, and none can go on."""

    limited = "turns of waiting loops while no program changes memory"


class NeverEnds(LimitExceeded):
    """A loop's variables have the values of an earlier turn, and no memory has changed since."""

    limited = "turns of a loop in which nothing changes"
