"""The page that the clock shares with a worker: a request is two words written, an answer one read.

A message over a socket would wake a process, which takes longer and varies more than what is timed.
The page is a memfd, sealed so that the worker can't shrink it (which would end the grader by
SIGBUS) and mapped by both. What the worker writes there is believed in one way only: an answer ends
the wait. What was done by then is seen in its buffers.
"""

from __future__ import annotations

import fcntl
import mmap
import os

from grader.worker.protocol import PAGE_BYTES, STOP, Word

_F_ADD_SEALS = 1033
_F_SEAL_SEAL, _F_SEAL_SHRINK, _F_SEAL_GROW = 1, 2, 4


class RequestPage:
    """The grader's side. A context manager."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("page", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, PAGE_BYTES)
        self._map = mmap.mmap(self.descriptor, PAGE_BYTES)
        fcntl.fcntl(self.descriptor, _F_ADD_SEALS, _F_SEAL_SHRINK | _F_SEAL_GROW | _F_SEAL_SEAL)
        # Words of 8 bytes are read and written at once, and on x86-64 seen in the order written.
        self._words = memoryview(self._map).cast("Q")
        self._number = 0  # ours: the worker may write over the one on the page

    def __enter__(self) -> RequestPage:
        return self

    def __exit__(self, *_: object) -> None:
        self._words.release()
        self._map.close()
        os.close(self.descriptor)

    def announce(self) -> None:
        """A request is about to come: the worker wakes, and spins until it is there."""
        self._words[Word.announced] = self._number + 1

    def ask(self, first: int, count: int) -> None:
        """Request a call for each of `count` sets, from set `first` on."""
        self._put(first << 32 | count)

    def stop(self) -> None:
        """Request that the worker stands by no longer."""
        self.announce()
        self._put(STOP)

    def begin_anew(self) -> None:
        """Count what was asked so far as answered: a worker that has stopped may stand by again."""
        self._words[Word.answer] = self._number

    @property
    def is_answered(self) -> bool:
        """Whether the worker says that it has done what was asked last."""
        return self._words[Word.answer] == self._number

    @property
    def inside_seconds(self) -> float:
        """What the worker says the work took by its device's clock; for a worker of our own."""
        return self._words[Word.inside] * 1e-9

    def _put(self, work: int) -> None:
        self._number += 1
        self._words[Word.work] = work
        self._words[Word.request] = self._number
