"""Locks on the GPUs of this machine: shared to check kernels, exclusive to time one.

A process that checks kernels holds its shared lock for a few cases at a time, so that a process
that waits for the exclusive one soon gets it. The locks are flock's, on files: they hold between
all commands of one user, and end with their process.

A GPU has the name that CUDA_VISIBLE_DEVICES gives it. Commands that name one GPU by number and by
UUID don't exclude each other, and neither do two users' commands; timing/watch.py detects a
disturbance by such a command.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from grader.mistakes import Mistake

VISIBLE = "CUDA_VISIBLE_DEVICES"
FOLDER = "warpgrade-gpus"  # of the locks, with the user's number; never removed
ON_GPU = "cuda"  # the device that is locked

_NAME = re.compile(r"\d+|(GPU|MIG)-[0-9A-Za-z-]+")
_mine: tuple[str, IO[str] | None] | None = None  # this process's GPU, and its lock if owned


class GpuError(Mistake, RuntimeError):
    """No GPU, or no lock on one, is available; the message says why."""


@dataclass
class _Held:
    """This process's locks on its GPU, which don't block each other."""

    shared: IO[str] | None = None
    times_exclusive: int = 0


_held = _Held()
_waited = 0.0  # seconds, until now
_waits_since: float | None = None


def seconds_waited() -> float:
    """How long this process has waited for locks so far, the present wait included."""
    since = _waits_since
    return _waited + (time.monotonic() - since if since is not None else 0.0)


def visible() -> list[str]:
    """The usable GPUs of this machine, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get(VISIBLE)
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip()]
    return [str(index) for index in range(_usable())]


def choose(text: str) -> list[str]:
    """Use only the GPUs that `text` names, as in `0,1`; call it before CUDA is used.

    It also applies to processes and sandboxes that are started later. Raises GpuError for a name
    that is unknown, repeated, or not usable.
    """
    names = _names(text)
    there = visible()
    for index, name in enumerate(names):
        if not _NAME.fullmatch(name):
            raise GpuError(f"--gpus {text}: expected numbers as in 0,1, or UUIDs, got {name!r}")
        if name in names[:index]:
            raise GpuError(f"--gpus {text}: expected each GPU once, got {name} again")
        # UUIDs can't be compared with numbers: CUDA is asked below.
        if name not in there and (name.isdigit() or VISIBLE in os.environ or not there):
            listed = ", ".join(there) or "none"
            raise GpuError(f"--gpus {text}: expected some of the GPUs here, {listed}, got {name}")
    os.environ[VISIBLE] = ",".join(names)
    if not set(names) <= set(there) and _usable() < len(names):
        raise GpuError(f"--gpus {text}: expected GPUs of this machine, CUDA has {_usable()}")
    return names


@contextmanager
def inherited(text: str) -> Iterator[None]:
    """Inside, processes start that see only the GPUs that `text` names, if it is right."""
    before = os.environ.get(VISIBLE)
    os.environ[VISIBLE] = ",".join(_names(text))
    try:
        yield
    finally:
        del os.environ[VISIBLE]
        if before is not None:
            os.environ[VISIBLE] = before


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _usable() -> int:
    import torch

    return torch.cuda.device_count()


def settle(owned: bool) -> str:
    """Choose this process's GPU for good, before CUDA is used; returns its name.

    With `owned`, one that no other process owns. Raises GpuError where none is left.
    """
    global _mine
    if _mine is not None:
        return _mine[0]
    here()  # or there is none
    names = visible()
    if not owned:
        _mine = (names[os.getpid() % len(names)], None)
    for name in names if owned else ():
        lock = _open(name, "owner")
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _mine = (name, lock)
            break
        lock.close()
    if _mine is None:
        raise GpuError("every GPU here is being used for timing by another command")
    os.environ[VISIBLE] = _mine[0]
    return _mine[0]


def here() -> str:
    """The name of this process's GPU, CUDA's first. Raises GpuError without one."""
    names = visible()
    if not names:
        raise GpuError("there is no GPU here")
    return names[0]


# --- locks ---------------------------------------------------------------------------------------


@contextmanager
def shared_on(device: str) -> Iterator[None]:
    """Hold a shared lock on this process's GPU; on another device nothing is locked.

    A process that waits for the exclusive lock goes first. Without effect inside another lock of
    this process.
    """
    if device != ON_GPU or _held.shared is not None or _held.times_exclusive:
        yield
        return
    with _open(here(), "turn") as turn, _open(here(), "use") as use:
        _share(turn, use)
        _held.shared = use
        try:
            yield
        finally:
            _held.shared = None


@contextmanager
def next_on(device: str) -> Iterator[None]:
    """Be the only process that prepares a timing on this process's GPU, beside checks.

    Each one takes memory there. Without effect where nothing is locked, and inside this process's
    exclusive lock.
    """
    if device != ON_GPU or is_exclusive_on(device):
        yield
        return
    with _open(here(), "next") as lock:
        _take(lock, lambda: None)
        yield


@contextmanager
def exclusive_on(device: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold an exclusive lock on this process's GPU; on another device nothing is locked.

    Calls `waiting` before it blocks. Granted at once inside another exclusive lock of this process.
    A shared one is released meanwhile.
    """
    if device != ON_GPU:
        yield
        return
    if _held.times_exclusive:
        with _counted():
            yield
        return
    try:
        with _open(here(), "turn") as turn, _open(here(), "use") as use:
            if _held.shared is not None:
                fcntl.flock(_held.shared, fcntl.LOCK_UN)
            _take(turn, waiting)
            _take(use, waiting)
            with _counted():
                yield
    finally:
        if _held.shared is not None:
            with _open(here(), "turn") as turn:
                _share(turn, _held.shared)


def is_exclusive_on(device: str) -> bool:
    return device == ON_GPU and _held.times_exclusive > 0


@contextmanager
def _counted() -> Iterator[None]:
    _held.times_exclusive += 1
    try:
        yield
    finally:
        _held.times_exclusive -= 1


def _share(turn: IO[str], use: IO[str]) -> None:
    with _waiting():
        fcntl.flock(turn, fcntl.LOCK_SH)  # blocks while somebody waits for the exclusive lock
        fcntl.flock(use, fcntl.LOCK_SH)
    fcntl.flock(turn, fcntl.LOCK_UN)


def _take(lock: IO[str], waiting: Callable[[], None]) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        waiting()
        with _waiting():
            fcntl.flock(lock, fcntl.LOCK_EX)


@contextmanager
def _waiting() -> Iterator[None]:
    global _waited, _waits_since
    _waits_since = time.monotonic()
    try:
        yield
    finally:
        _waited, _waits_since = seconds_waited(), None


def _open(name: str, purpose: str) -> IO[str]:
    folder = Path(tempfile.gettempdir()) / f"{FOLDER}-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        wanted = "expected a folder of one's own for locks: remove it, or let TMPDIR name another"
        raise GpuError(f"{folder}: {wanted} folder than {folder.parent}")
    plain = "".join(letter if letter.isalnum() else "-" for letter in name)
    return (folder / f"{plain}.{purpose}").open("a")
