"""Turns on the GPUs of this machine: many check kernels side by side, one at a time is timed.

What is checked holds a GPU with the others, and makes way between two cases when somebody wants it
alone. The locks are the kernel's, on files, so they hold between all commands of one user and end
with the process that holds them, however it ends.

A GPU is called what CUDA_VISIBLE_DEVICES calls it: commands that call the same one by its number
and by its UUID don't know of each other, and neither do those of two users. What they do to a
timing then is the clock's to notice.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from grader.mistakes import Mistake

VISIBLE = "CUDA_VISIBLE_DEVICES"
FOLDER = "warpgrade-gpus"  # of the locks, with the user's number; it stays
ON_GPU = "cuda"  # of the devices that kernels run on, the one that turns are taken on

_NAME = re.compile(r"\d+|(GPU|MIG)-[0-9A-Za-z-]+")
_mine: tuple[str, IO[str] | None] | None = None  # this process's GPU; its lock where it owns it


class GpuError(Mistake, RuntimeError):
    """No GPU or no turn can be had; the message says why."""


@dataclass
class _Held:
    """What this process holds of one GPU: a lock of its own doesn't keep it waiting."""

    share: IO[str] | None = None
    times_alone: int = 0


_held: dict[str, _Held] = {}


def visible() -> list[str]:
    """The GPUs of this machine that may be used, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get(VISIBLE)
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip()]
    return [str(index) for index in range(_usable())]


def choose(text: str) -> list[str]:
    """Use only the GPUs that `text` names, as in `0,1`, from here on and before CUDA is used.

    Processes and sandboxes that are started afterwards see no others. Raises GpuError where a name
    is none, comes twice, or isn't one of those that may be used.
    """
    names = [name.strip() for name in text.split(",")]
    there = visible()
    for index, name in enumerate(names):
        if not _NAME.fullmatch(name):
            raise GpuError(f"--gpus {text}: expected numbers as in 0,1, or UUIDs, got {name!r}")
        if name in names[:index]:
            raise GpuError(f"--gpus {text}: expected each GPU once, got {name} again")
        # A UUID can't be looked up among numbers: CUDA is asked below.
        if name not in there and (name.isdigit() or VISIBLE in os.environ or not there):
            listed = ", ".join(there) or "none"
            raise GpuError(f"--gpus {text}: expected some of the GPUs here, {listed}, got {name}")
    os.environ[VISIBLE] = ",".join(names)
    if not set(names) <= set(there) and _usable() < len(names):
        raise GpuError(f"--gpus {text}: expected GPUs of this machine, CUDA has {_usable()}")
    return names


def _usable() -> int:
    import torch

    return torch.cuda.device_count()


def settle(alone: bool) -> str:
    """Choose this process's GPU, for good and before CUDA is used: a name among the visible.

    `alone`: one that no other process has chosen so. Raises GpuError where there is none left.
    """
    global _mine
    if _mine is not None:
        return _mine[0]
    names = visible()
    if not names:
        raise GpuError("there is no GPU here")
    if not alone:
        _mine = (names[os.getpid() % len(names)], None)
    for name in names if alone else ():
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
    """The GPU that this process's work runs on, CUDA's first. Raises GpuError without one."""
    names = visible()
    if not names:
        raise GpuError("there is no GPU here")
    return names[0]


# --- turns ----------------------------------------------------------------------------------------


@contextmanager
def beside(name: str) -> Iterator[Callable[[], None]]:
    """Hold a GPU together with others. What it yields makes way for whoever wants it alone.

    Within itself it changes nothing: the outermost one holds the GPU, and makes way.
    """
    held = _held.setdefault(name, _Held())
    if held.share is not None or held.times_alone:
        yield lambda: None
        return
    with _open(name, "turn") as turn, _open(name, "use") as use:

        def make_way() -> None:
            if not held.times_alone:
                fcntl.flock(use, fcntl.LOCK_UN)
                _share(turn, use)

        _share(turn, use)
        held.share = use
        try:
            yield make_way
        finally:
            held.share = None


@contextmanager
def alone(name: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a GPU with nobody beside; waits for its turn, and calls `waiting` where it has to.

    Within itself it is had at once. A share that this process has is given back meanwhile.
    """
    held = _held.setdefault(name, _Held())
    if held.times_alone:
        with _counted(held):
            yield
        return
    try:
        with _open(name, "turn") as turn, _open(name, "use") as use:
            if held.share is not None:
                fcntl.flock(held.share, fcntl.LOCK_UN)
            _take(turn, waiting)
            _take(use, waiting)
            with _counted(held):
                yield
    finally:
        if held.share is not None:
            with _open(name, "turn") as turn:
                _share(turn, held.share)


@contextmanager
def alone_on(device: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """As `alone`, for this process's GPU; where kernels run on none there are no turns."""
    if device != ON_GPU:
        yield
        return
    with alone(here(), waiting):
        yield


def is_alone_on(device: str) -> bool:
    """Whether this process holds its GPU with nobody beside."""
    return device == ON_GPU and bool(_held.setdefault(here(), _Held()).times_alone)


@contextmanager
def beside_on(device: str) -> Iterator[Callable[[], None]]:
    """As `beside`, for this process's GPU; where kernels run on none there are no turns."""
    if device != ON_GPU:
        yield lambda: None
        return
    with beside(here()) as make_way:
        yield make_way


@contextmanager
def _counted(held: _Held) -> Iterator[None]:
    held.times_alone += 1
    try:
        yield
    finally:
        held.times_alone -= 1


def _share(turn: IO[str], use: IO[str]) -> None:
    fcntl.flock(turn, fcntl.LOCK_SH)  # not had while somebody waits to be alone
    fcntl.flock(use, fcntl.LOCK_SH)
    fcntl.flock(turn, fcntl.LOCK_UN)


def _take(lock: IO[str], waiting: Callable[[], None]) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        waiting()
        fcntl.flock(lock, fcntl.LOCK_EX)


def _open(name: str, what: str) -> IO[str]:
    folder = Path(tempfile.gettempdir()) / f"{FOLDER}-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise GpuError(f"{folder}: expected a folder of one's own for locks: remove it")
    plain = "".join(letter if letter.isalnum() else "-" for letter in name)
    return (folder / f"{plain}.{what}").open("a")
