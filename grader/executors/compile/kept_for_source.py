"""Plans and builds of a source, kept in a process's memory for when the same source comes again.

    store = Store(most_bytes)     of a process that answers many requests
    store.of(key)                 its part for one source; `key` is a digest of source, spec and GPU

The texts come from processes that ran or compiled the source. So they are read as untrusted each
time, and no other source finds them. No verdict is kept.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Collection

from grader.executors.compile.kept_builds import KeptBuilds


class Store:
    """Texts by source and key, of a limited size: those go first that were used longest ago."""

    def __init__(self, most_bytes: int) -> None:
        self.bytes = 0
        self._most_bytes = most_bytes
        self._texts: OrderedDict[tuple[str, str], str] = OrderedDict()

    def of(self, source: str) -> KeptForSource:
        """The part of the store that belongs to a source, named by a digest."""
        return KeptForSource(self, source)

    def get(self, key: tuple[str, str]) -> str | None:
        """The text of a key, None where there is none."""
        text = self._texts.get(key)
        if text is not None:
            self._texts.move_to_end(key)
        return text

    def put(self, key: tuple[str, str], text: str) -> None:
        """Keep a text, unless it alone is too large."""
        self.forget(key)
        if sys.getsizeof(text) > self._most_bytes:
            return
        self._texts[key] = text
        self.bytes += sys.getsizeof(text)
        while self.bytes > self._most_bytes:
            self.forget(next(iter(self._texts)))

    def forget(self, key: tuple[str, str]) -> None:
        """Keep the text of a key no longer."""
        self.bytes -= sys.getsizeof(self._texts.pop(key)) if key in self._texts else 0


class KeptForSource(KeptBuilds):
    """Plans and builds of one source, kept instead of builds in the user's cache."""

    def __init__(self, store: Store, source: str) -> None:
        super().__init__(None)
        self._store, self._source = store, source

    def get(self, key: str) -> str | None:
        return self._store.get((self._source, key))

    def put(self, key: str, text: str) -> None:
        self._store.put((self._source, key), text)

    def forget(self, keys: Collection[str]) -> None:
        for key in keys:
            self._store.forget((self._source, key))
