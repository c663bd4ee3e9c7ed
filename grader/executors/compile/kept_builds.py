"""Results of compilers, kept from one run to the next in the user's cache.

One file holds what Triton's compilers made: TTIR, layouts, cubins and which TTIR has become a
cubin. Another one holds programs of CUDA C++, and which files nvcc accepts. Neither holds a
verdict. A folder holds kernels that torch.compile made of baselines. A key is a digest of all that
the result follows from. The user who grades can write the files, so a class is graded without them.
Their loss costs nothing but time, so nothing is raised where they are broken. A `Store` keeps the
same in memory.
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

from grader.emulator import toolchain
from grader.sandbox.scratch import remove_tree

MAX_ENTRIES = 20_000  # of a file
MOST_KERNELS = 4_000  # of baselines
_MOST_BYTES = 16 << 20  # of one text
_WAIT_SECONDS = 2.0  # for another process that writes
T = TypeVar("T")
_GRADER = Path(__file__).resolve().parents[2]


def folder() -> Path:
    """The folder of these files, which no sandbox can read.

    It isn't in the emulator's cache, which sandboxes read: a submission would find kernels there
    that the same user has graded, solutions among them.
    """
    return toolchain.cache_root().with_name("warpgrade-compiled")


def kernels_of_baselines() -> Path | None:
    """The folder where torch.compile keeps the kernels of baselines; None where it can't be made.

    It is emptied once it has very many.
    """
    path = folder() / "baselines"
    try:
        if len(list((path / "triton").glob("*"))) > MOST_KERNELS:
            remove_tree(str(path))
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return path


class KeptBuilds:
    """A table of texts by their keys, in a file that processes share."""

    def __init__(self, path: Path | None, max_entries: int = MAX_ENTRIES) -> None:
        """`path` is the file, made with the first text that is put there; None keeps nothing.

        Of more than `max_entries` texts a quarter goes.
        """
        self._path, self._max_entries = path, max_entries
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
            if count > self._max_entries:
                table.execute(
                    "DELETE FROM kept WHERE key IN (SELECT key FROM kept ORDER BY made LIMIT ?)",
                    (count - self._max_entries * 3 // 4,),
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
    table = sqlite3.connect(
        path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
    )
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
    """A digest of Triton's compilers: its version, and the grader's code around it."""
    return f"{metadata.version('triton')} {code_of('worker/compile')}"


@functools.cache
def code_of(*folders: str) -> str:
    """A digest of the Python files directly in these folders of `grader/`."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted((_GRADER / folder).glob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


class Store:
    """Plans and builds by source and key, in the memory of a process that answers many requests.

    They are kept for when the same source comes again. The texts come from processes that ran or
    compiled it. So they are read as untrusted each time, and no other source finds them. Their size
    is limited: those go first that were used longest ago.
    """

    def __init__(self, most_bytes: int) -> None:
        self.bytes = 0
        self._most_bytes = most_bytes
        self._texts: OrderedDict[tuple[str, str], str] = OrderedDict()

    def of(self, source: str) -> KeptForSource:
        """The part of the store that belongs to a source: a digest of it, its spec and the GPU."""
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
