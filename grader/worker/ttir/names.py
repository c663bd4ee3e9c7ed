"""Names of values in one function of TTIR's text, and their slots."""

from __future__ import annotations

import re

from .errors import MalformedIR

NAME = re.compile(r"%[\w$.\-]+(?:#\d{1,4})?")
_RESULT = re.compile(r"(%[\w$.\-]+)(?::(\d{1,3}))?")


class Names:
    """The names known at a place of the text; each definition gets a slot of its own."""

    def __init__(self) -> None:
        self.count = 0  # slots
        self.used: set[int] = set()  # slots that an operation takes
        self._slots: dict[str, int] = {}
        self._undo: list[tuple[str, int | None]] = []

    def define(self, name: str) -> int:
        """The slot of a new value. Raises MalformedIR for an invalid name."""
        if not NAME.fullmatch(name):
            raise MalformedIR(f"the name {name[:40]!r}")
        self._undo.append((name, self._slots.get(name)))
        self._slots[name] = self.count
        self.count += 1
        return self.count - 1

    def define_results(self, text: str | None) -> list[int]:
        """The slots of an operation's results: `%0, %1:3`. Raises MalformedIR."""
        slots: list[int] = []
        for part in (text or "").split(","):
            if not part.strip():
                continue
            matched = _RESULT.fullmatch(part.strip())
            if matched is None:
                raise MalformedIR(f"the results {part[:40]!r}")
            if matched[2] is None:
                slots.append(self.define(matched[1]))
            else:
                slots += [self.define(f"{matched[1]}#{i}") for i in range(int(matched[2]))]
        return slots

    def use(self, names: list[str]) -> list[int]:
        """The slots of values that an operation takes. Raises MalformedIR for an unknown name."""
        slots = []
        for name in names:
            slot = self._slots.get(name)
            if slot is None:
                slot = self._slots.get(name.removesuffix("#0"))
            if slot is None:
                raise MalformedIR(f"{name[:40]} is used before it is there")
            slots.append(slot)
        self.used.update(slots)
        return slots

    def use_all(self, text: str) -> list[int]:
        """The slots of all values that a piece of text names. Raises MalformedIR."""
        return self.use(NAME.findall(text))

    def mark(self) -> int:
        """The current place, for `leave`."""
        return len(self._undo)

    def leave(self, mark: int) -> None:
        """Forget the names that were defined since `mark`."""
        while len(self._undo) > mark:
            name, before = self._undo.pop()
            if before is None:
                self._slots.pop(name, None)
            else:
                self._slots[name] = before
