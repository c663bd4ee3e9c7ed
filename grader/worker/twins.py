"""Compiling beside the cases: each time in a fork of the worker, which knows what ran.

What one twin compiled without a failure the next ones leave out. A twin hears it from the one
before, and not from the clock, so that the same submission is always compiled alike.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from .protocol import Code, Reply

if TYPE_CHECKING:
    from .devices import Device

_GOOD, _BAD = b"1", b"0"


class Twins:
    """The processes that compile for one worker, each told by the one before what is settled."""

    def __init__(self) -> None:
        self._ran: list[list] = []  # what each twin was given, in order
        self._from_last: int | None = None  # a pipe: one byte for each twin so far

    def start(
        self, device: Device, sequence: int, descriptor: int, to_text: Callable[[dict], str]
    ) -> None:
        """Fork; the child compiles what ran since the last time and answers on the socket."""
        launches = device.take_launches()
        reading, writing = os.pipe()
        if os.fork():
            os.close(descriptor)
            os.close(writing)
            if self._from_last is not None:
                os.close(self._from_last)
            self._from_last = reading
            self._ran.append(launches)
            return
        with contextlib.suppress(BaseException), socket.socket(fileno=descriptor) as side:
            verdicts = self._verdicts()
            settled = [
                ran for ran, each in zip(self._ran, verdicts, strict=False) if each == _GOOD[0]
            ]
            found = device.compile(launches, settled)
            clean = not found.get("failures") and not found.get("not_modelled")
            known = verdicts.ljust(len(self._ran), _BAD)
            os.write(writing, known + (_GOOD if clean else _BAD))
            side.send(Reply(sequence, Code.ok, to_text(found)).pack())
        os._exit(0)

    def _verdicts(self) -> bytes:
        """A byte for each twin before this one; nothing where the last one died."""
        return b"" if self._from_last is None else os.read(self._from_last, 1 << 12)
