"""Empties a folder of untrusted contents, while those who made them may still change them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


def is_emptied(folder: str) -> bool:
    """Remove what is in a folder, in whatever state it is; whether nothing is left.

    Folders are moved to its top before they are emptied, so that no path grows long. Each is opened
    as no link: a process of the submission may exchange one for a link meanwhile.
    """
    with contextlib.suppress(OSError), _opened(folder) as top:
        pending = ["."]
        while pending:
            name = pending.pop()
            with contextlib.suppress(OSError), _opened(name, top) as inner:
                for entry in list(os.scandir(inner)):
                    _take_out(entry, inner, top, pending)
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=top)
        return not os.listdir(top)  # noqa: PTH208 (it lists descriptors, too)
    return False


def _take_out(entry: os.DirEntry[str], folder: int, top: int, pending: list[str]) -> None:
    """Remove a file; move a folder to the top and note its new name there."""
    with contextlib.suppress(OSError):
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.name, dir_fd=folder)
            return
        with _opened(entry.name, folder):  # a folder that nobody may write can't be moved
            moved = os.urandom(16).hex()
            os.rename(entry.name, moved, src_dir_fd=folder, dst_dir_fd=top)
        pending.append(moved)


@contextlib.contextmanager
def _opened(name: str, inside: int | None = None) -> Iterator[int]:
    """A folder's descriptor; its owner may do all with it then. Raises OSError, for a link, too."""
    flags = os.O_DIRECTORY | os.O_NOFOLLOW
    with contextlib.ExitStack() as closing:
        path = os.open(name, os.O_PATH | flags, dir_fd=inside)
        closing.callback(os.close, path)
        itself = f"/proc/self/fd/{path}"
        with contextlib.suppress(PermissionError):  # a fork server changes no modes: seccomp.py
            os.chmod(itself, 0o700)  # noqa: PTH101 (pathlib costs an import here)
        descriptor = os.open(itself, os.O_RDONLY | os.O_DIRECTORY)
        closing.callback(os.close, descriptor)
        yield descriptor
