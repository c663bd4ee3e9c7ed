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
    """More of something than a limit allows: `limited` says of what, in the plural."""

    def __init__(self, limited: str, limit: int, line: int = 0) -> None:
        """`line` is that of the loop where the work is done, 0 where that isn't known."""
        super().__init__(f"{limited}: the limit is {limit:,}")
        self.line = line


class WaitsForever(LimitExceeded):
    """All programs wait, and none can go on."""


class NeverEnds(LimitExceeded):
    """A loop's variables have the values of an earlier turn, and no memory has changed since."""


NESTED = "levels of nested regions or calls"  # that are limited in the text and in its execution
