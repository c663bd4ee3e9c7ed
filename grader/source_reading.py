"""Reading a submission's source, in a process of its own with limits on time and memory.

A parser given a megabyte of `x<x<x...` may take minutes or the whole stack. It runs in a fork, so
that what it takes ends with the fork, and the grader has a clear answer within SECONDS.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from grader import attempt

SECONDS = 1.5
MEMORY_BYTES = 1 << 30  # beside what the grader has
MAX_ANSWER_BYTES = 4 << 20


class TooInvolved(Exception):
    """Reading a text took too long or too much memory; the message says which."""


def limited(function: Callable[..., Any], *arguments: Any) -> Any:
    """What `function` returns, as JSON can hold it, from a process of its own.

    Raises TooInvolved when the process doesn't answer within SECONDS, or ends without an answer.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _answer(writing, function, arguments)
    os.close(writing)
    try:
        return _result(_read(reading))
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@lru_cache(maxsize=512)
def is_untouched(data: bytes, entry: str, language: str) -> str:
    """As attempt.is_untouched, of a file's bytes. What can't be read counts as an attempt."""
    source = data.decode("utf-8-sig", "replace")
    try:
        return str(limited(attempt.is_untouched, source, entry, language))
    except TooInvolved:
        return ""


def _answer(writing: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """The fork's part; it never returns."""
    status = 1
    try:
        os.nice(1)
        pages = int(open("/proc/self/statm").read().split()[0])  # noqa: SIM115, PTH123
        most = pages * resource.getpagesize() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with open(writing, "wb") as file:
            file.write(json.dumps(function(*arguments)).encode())
        status = 0
    finally:
        os._exit(status)


def _read(descriptor: int) -> bytes:
    """All that comes before the end of the pipe. Raises TooInvolved where that takes too long."""
    until = time.monotonic() + SECONDS
    parts: list[bytes] = []
    size = 0
    while True:
        remaining = until - time.monotonic()
        if remaining <= 0 or not select.select([descriptor], [], [], remaining)[0]:
            raise TooInvolved(f"reading it takes longer than {SECONDS:g} s")
        part = os.read(descriptor, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            raise TooInvolved("there is too much to say about it")


def _result(answer: bytes) -> Any:
    if not answer:
        raise TooInvolved("reading it takes too much memory, or it is nested too deeply")
    return json.loads(answer)
