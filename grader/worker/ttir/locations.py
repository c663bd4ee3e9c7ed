"""Places in source code, from TTIR's locations."""

from __future__ import annotations

import re

from .ir import UNKNOWN
from .types import unquoted

MAX_DEPTH = 60
_LIBRARY = ("/triton/language/", "/triton/tools/", "/triton/experimental/")
_FILE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+)')
_NAMED = re.compile(r'"(?:[^"\\]|\\.)*"\(')


class Locations:
    """The aliases (#loc7) of a text and their locations."""

    def __init__(self, aliases: dict[str, str]) -> None:
        self._aliases = aliases
        self._known: dict[str, tuple[str, int]] = {}

    def place(self, location: str) -> tuple[str, int]:
        """The innermost (file, line) of a location outside of Triton's own library."""
        known = self._known.get(location)
        if known is None:
            known = self._known[location] = self._place(location, 0)
        return known

    def strip(self, line: str) -> tuple[str, tuple[str, int]]:
        """A line without the location at its end, and that location's place."""
        start = line.rfind(" loc(")
        if start < 0 or not line.endswith(")"):
            return line, UNKNOWN
        return line[:start], self.place(line[start + 5 : -1])

    def _place(self, text: str, depth: int) -> tuple[str, int]:
        if depth > MAX_DEPTH:
            return UNKNOWN
        text = text.strip()
        if text.startswith("#"):
            known = self._known.get(text)
            if known is None:
                known = self._place(self._aliases.get(text, "unknown"), depth + 1)
                self._known[text] = known
            return known
        if text.startswith("callsite(") and text.endswith(")"):
            callee, caller = _split(text[len("callsite(") : -1])
            inner = self._place(callee, depth + 1)
            return inner if inner != UNKNOWN else self._place(caller, depth + 1)
        if named := _NAMED.match(text):
            return self._place(text[named.end() : -1], depth + 1)
        if file := _FILE.match(text):
            path = file[1]
            ours = any(part in path for part in _LIBRARY)
            return UNKNOWN if ours or len(file[2]) > 9 else (path, int(file[2]))
        if text.startswith("fused"):
            return self._place(text[text.find("[") + 1 :].split(",")[0].rstrip("]"), depth + 1)
        return UNKNOWN


def _split(text: str) -> tuple[str, str]:
    """The two sides of a call site, split at the ` at ` outside of parentheses."""
    depth = 0
    for place, letter in unquoted(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and text.startswith(" at ", place):
            return text[:place], text[place + 4 :]
    return text, "unknown"
