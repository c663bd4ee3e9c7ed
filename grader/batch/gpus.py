"""Turns on the GPUs of this machine: many check kernels side by side, one at a time is timed.

What is checked holds a GPU with the others, and makes way between two cases when somebody wants it
alone. The locks are the kernel's, on files, so they hold between all commands of one user and end
with the process that holds them, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

VISIBLE = "CUDA_VISIBLE_DEVICES"

_mine: tuple[str, IO[str] | None] | None = None  # this process's GPU; its lock where it owns it


class GpuError(RuntimeError):
    """No turn can be had; the message says why."""


def visible() -> list[str]:
    """The GPUs of this machine that may be used, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get(VISIBLE)
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip()]
    import torch

    return [str(index) for index in range(torch.cuda.device_count())]


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


@contextmanager
def beside(name: str) -> Iterator[Callable[[], None]]:
    """Hold a GPU together with others. What it yields makes way for whoever wants it alone."""
    with _open(name, "turn") as turn, _open(name, "use") as use:

        def take() -> None:
            fcntl.flock(turn, fcntl.LOCK_SH)  # not had while somebody waits to be alone
            fcntl.flock(use, fcntl.LOCK_SH)
            fcntl.flock(turn, fcntl.LOCK_UN)

        def make_way() -> None:
            fcntl.flock(use, fcntl.LOCK_UN)
            take()

        take()
        yield make_way


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Hold a GPU with nobody beside; waits for its turn."""
    with _open(name, "turn") as turn, _open(name, "use") as use:
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(use, fcntl.LOCK_EX)
        yield


def _open(name: str, what: str) -> IO[str]:
    folder = Path(tempfile.gettempdir()) / f"warpgrade-gpus-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise GpuError(f"{folder}: expected a folder of one's own for locks: remove it")
    plain = "".join(letter if letter.isalnum() else "-" for letter in name)
    return (folder / f"{plain}.{what}").open("a")
