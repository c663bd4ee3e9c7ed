"""Results of Triton's compilers, kept from one run to the next in the user's cache.

The file holds TTIR, layouts, cubins and which TTIR has become a cubin; it holds no verdict. A key
is a digest of all that the result follows from. The user who grades can write the file, so a class
is graded without it. Its loss costs nothing but time, so nothing is raised where it is broken.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import sqlite3
import sys
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Collection
from importlib import metadata
from pathlib import Path
from typing import TypeVar

MAX_ENTRIES = 20_000
_PRUNED_TO = 15_000
_MOST_BYTES = 2 << 20  # of one text
_WAIT_SECONDS = 2.0  # for another process that writes
T = TypeVar("T")
_COMPILERS = Path(__file__).resolve().parents[2] / "worker" / "compile"


class KeptBuilds:
    """A table of texts by their keys, in a file that processes share."""

    def __init__(self, path: Path | None) -> None:
        """`path` is the file, made with the first text that is put there; None keeps nothing."""
        self._path = path
        self._table: sqlite3.Connection | None = None

    def close(self) -> None:
        """Close the file."""
        if self._table is not None:
            self._table.close()
            self._table = None

    def get(self, key: str) -> str | None:
        """The text of a key, None where there is none."""
        if self._table is None and (self._path is None or not self._path.exists()):
            return None
        return self._try(lambda table: _text_of(table, key))

    def put(self, key: str, text: str) -> None:
        """Keep a text; of too many, those go that were put there first."""
        if self._path is None:
            return
        row = (key, zlib.compress(text.encode(), 1), time.time())

        def keep(table: sqlite3.Connection) -> None:
            table.execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", row)
            (count,) = table.execute("SELECT count(*) FROM kept").fetchone()
            if count > MAX_ENTRIES:
                table.execute(
                    "DELETE FROM kept WHERE key IN (SELECT key FROM kept ORDER BY made LIMIT ?)",
                    (count - _PRUNED_TO,),
                )

        self._try(keep)

    def forget(self, keys: Collection[str]) -> None:
        """Keep what these keys stand for no longer."""
        rows = [(key,) for key in keys]
        self._try(lambda table: table.executemany("DELETE FROM kept WHERE key = ?", rows))

    def _try(self, step: Callable[[sqlite3.Connection], T]) -> T | None:
        """The result of a step; None where it can't be done. A spoilt file is removed."""
        if self._path is None:
            return None
        try:
            if self._table is None:
                self._table = _connected(self._path)
            return step(self._table)
        except (OSError, sqlite3.OperationalError):  # locked, full, read-only, no folder
            self.close()
        except (sqlite3.DatabaseError, ValueError):
            self.close()
            with contextlib.suppress(OSError):
                self._path.unlink()
        return None


def _connected(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = sqlite3.connect(path, _WAIT_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        table.execute("PRAGMA journal_mode = WAL")
        table.execute("PRAGMA synchronous = OFF")
        columns = "key TEXT PRIMARY KEY, text BLOB, made REAL"
        table.execute(f"CREATE TABLE IF NOT EXISTS kept ({columns})")
    except sqlite3.Error:
        table.close()
        raise
    return table


def _text_of(table: sqlite3.Connection, key: str) -> str | None:
    """The text of a key. Raises ValueError where it's something else."""
    row = table.execute("SELECT text FROM kept WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    data = row[0]
    if not isinstance(data, bytes):
        raise ValueError("no text")
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(data, _MOST_BYTES + 1)
    except zlib.error as error:
        raise ValueError("no text") from error
    return text.decode() if len(text) <= _MOST_BYTES and unpacking.eof else None


@functools.cache
def compilers() -> str:
    """A digest of the compilers: Triton's version, and the grader's code around it."""
    digest = hashlib.sha256(metadata.version("triton").encode())
    for path in sorted(_COMPILERS.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


# --- kept for a source ----------------------------------------------------------------------------

# Plans and builds of a source, kept in a process's memory for when the same source comes again.
#
#     store = Store(most_bytes)     of a process that answers many requests
#     store.of(key)                 its part for a source; `key` is a digest of source, spec and GPU
#
# The texts come from processes that ran or compiled the source. So they are read as untrusted each
# time, and no other source finds them. No verdict is kept.


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
        """The text of a key, None where there is none."""
        return self._store.get((self._source, key))

    def put(self, key: str, text: str) -> None:
        """Keep a text."""
        self._store.put((self._source, key), text)

    def forget(self, keys: Collection[str]) -> None:
        """Keep what these keys stand for no longer."""
        for key in keys:
            self._store.forget((self._source, key))
