"""Reads a submission's source in a process of its own, with limits on time and memory.

A parser given a megabyte of `x<x<x...` may take minutes or the whole stack. It runs in a fork that
is ended after SECONDS of processor time. Wall time doesn't count: it depends on the machine's load.
A fork made while another thread holds a lock may hang, and is then made again.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from grader.grading import stub_check
from grader.mistakes import Mistake

SECONDS = 1.5  # of processor time
HUNG_SECONDS = 30.0  # of wall time without an answer, after which a process counts as hung
MOST_TRIES = 3
MEMORY_BYTES = 1 << 30  # on top of the grader's
MAX_ANSWER_BYTES = 4 << 20


class TooInvolved(Exception):
    """Reading a text took too much time or memory; the message says which."""


class _Hung(Exception):
    """The process neither answers nor uses processor time."""


def limited(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of `function` in a process of its own, passed as JSON.

    Raises TooInvolved when the process uses SECONDS of processor time or ends without an answer,
    Mistake when it hangs MOST_TRIES times.
    """
    for _ in range(MOST_TRIES):
        with contextlib.suppress(_Hung):
            return _asked(function, arguments)
    what = f"a process that reads a source hung {MOST_TRIES} times: the machine's fault; try again"
    raise Mistake(what)


def _asked(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _answer(writing, function, arguments)
    os.close(writing)
    answer = None
    try:
        answer = _read(reading)
    finally:
        os.close(reading)
        if answer is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
        raise TooInvolved(f"reading it takes longer than {SECONDS:g} s")
    if not answer:
        raise TooInvolved("reading it takes too much memory, or it is nested too deeply")
    return json.loads(answer)


@lru_cache(maxsize=512)
def is_untouched(data: bytes, entry: str, language: str) -> str:
    """As stub_check.is_untouched, for a file's bytes. An unreadable file counts as an attempt."""
    source = data.decode("utf-8-sig", "replace")
    try:
        return str(limited(stub_check.is_untouched, source, entry, language))
    except TooInvolved:
        return ""


def _answer(writing: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Run the function in the fork; never returns."""
    status = 1
    try:
        gc.disable()  # a collection would touch, and so copy, all of the grader's memory
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which ends the process
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
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
    """All bytes up to the end of the pipe. Raises TooInvolved or _Hung."""
    until = time.monotonic() + HUNG_SECONDS
    parts: list[bytes] = []
    size = 0
    while True:
        remaining = until - time.monotonic()
        if remaining <= 0 or not select.select([descriptor], [], [], remaining)[0]:
            raise _Hung
        part = os.read(descriptor, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            raise TooInvolved("there is too much to say about it")
