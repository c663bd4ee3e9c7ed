"""Places in source code, from TTIR's locations."""

from __future__ import annotations

from ..compile import origins
from .ir import UNKNOWN


class Locations:
    """The aliases (#loc7) of a text and their locations."""

    def __init__(self, aliases: dict[str, str]) -> None:
        self._aliases = {name: origins.mlir_parts(text) for name, text in aliases.items()}
        self._known: dict[str, tuple[str, int]] = {}

    def place(self, location: str) -> tuple[str, int]:
        """The innermost (file, line) of a location outside of Triton's own library."""
        known = self._known.get(location)
        if known is None:
            own = origins.by_author(origins.mlir_chain(location, self._aliases))
            known = self._known[location] = own[:2] if own else UNKNOWN
        return known

    def strip(self, line: str) -> tuple[str, tuple[str, int]]:
        """A line without the location at its end, and that location's place."""
        start = line.rfind(" loc(")
        if start < 0 or not line.endswith(")"):
            return line, UNKNOWN
        return line[:start], self.place(line[start + 5 : -1])
