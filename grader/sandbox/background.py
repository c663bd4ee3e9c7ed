"""Work in a thread that stays: a fork server ends with the thread that launched it."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class InThread(Generic[_T]):
    """What `make` makes in a thread of its own, which stays until `end`."""

    def __init__(self, make: Callable[[], _T]) -> None:
        self._made: concurrent.futures.Future[_T] = concurrent.futures.Future()
        self._is_over = threading.Event()
        threading.Thread(target=self._run, args=(make,), daemon=True).start()

    def _run(self, make: Callable[[], _T]) -> None:
        try:
            self._made.set_result(make())
        except BaseException as error:
            self._made.set_exception(error)
        self._is_over.wait()

    def wait(self) -> None:
        """Wait until it is made, or can't be."""
        concurrent.futures.wait([self._made])

    def take(self) -> _T:
        """Wait for what is made. Raises what `make` raised."""
        return self._made.result()

    def end(self) -> None:
        """Let the thread end, and with it the fork servers that it has launched."""
        self._is_over.set()
