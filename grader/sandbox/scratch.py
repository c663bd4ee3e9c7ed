"""A submission's scratch folder, measured and removed; its contents are untrusted."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

MOST_ENTRIES = 20_000


def is_larger_than(path: Path, most_bytes: int) -> bool:
    """Whether a folder holds more than so many bytes on disk, or than MOST_ENTRIES entries.

    Only reads: it may change meanwhile, and a folder may have become a link.
    """
    total, count = 0, 0
    pending = [path]
    while pending:
        for entry in _entries(pending.pop(), MOST_ENTRIES + 1):
            count += 1
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                # Some file systems count blocks late; sizes are wrong for files with holes.
                total += max(512 * status.st_blocks, status.st_size)
                if entry.is_dir(follow_symlinks=False):
                    pending.append(Path(entry.path))
            if total > most_bytes or count > MOST_ENTRIES:
                return True
    return False


def remove_tree(path: str) -> None:
    """Remove a folder in any state: without permissions, of any depth, or a link.

    Folders are moved to the top before they are emptied, so that no path grows long. Each is opened
    as no link: a process of the submission may still be there and exchange one.
    """
    root = Path(path)
    with contextlib.suppress(OSError):
        if root.is_symlink() or not root.is_dir():
            root.unlink()
    with contextlib.suppress(OSError), _folder(path) as top:
        pending = ["."]
        while pending:
            name = pending.pop()
            with contextlib.suppress(OSError), _folder(name, top) as folder:
                for entry in list(os.scandir(folder)):
                    _take_out(entry, folder, top, pending)
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=top)
        root.rmdir()


def _take_out(entry: os.DirEntry[str], folder: int, top: int, pending: list[str]) -> None:
    """Remove a file; move a folder to the top and note its new name there."""
    with contextlib.suppress(OSError):
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.name, dir_fd=folder)
            return
        with _folder(entry.name, folder):  # a folder that nobody may write can't be moved
            moved = secrets.token_hex(16)
            os.rename(entry.name, moved, src_dir_fd=folder, dst_dir_fd=top)
        pending.append(moved)


@contextlib.contextmanager
def _folder(name: str, inside: int | None = None) -> Iterator[int]:
    """A folder's descriptor; its owner may do all with it then. Raises OSError, for a link, too."""
    flags = os.O_DIRECTORY | os.O_NOFOLLOW
    with contextlib.ExitStack() as opened:
        path = os.open(name, os.O_PATH | flags, dir_fd=inside)
        opened.callback(os.close, path)
        itself = f"/proc/self/fd/{path}"
        Path(itself).chmod(0o700)
        descriptor = os.open(itself, os.O_RDONLY | os.O_DIRECTORY)
        opened.callback(os.close, descriptor)
        yield descriptor


def _entries(folder: Path, most: int | None = None) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return list(itertools.islice(entries, most))
    return []
