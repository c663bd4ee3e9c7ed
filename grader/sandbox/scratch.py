"""A submission's scratch folder, measured and removed; its contents are untrusted."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
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

    Folders are moved to the top before they are emptied, so that no path grows long.
    """
    root = Path(path)
    with contextlib.suppress(OSError):
        if root.is_symlink() or not root.is_dir():
            root.unlink()
    pending = [root] if root.is_dir() else []
    while pending:
        folder = pending.pop()
        with contextlib.suppress(OSError):
            folder.chmod(0o700)
        for entry in _entries(folder):
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    Path(entry.path).chmod(0o700)
                    pending.append(Path(entry.path).rename(root / secrets.token_hex(16)))
                else:
                    Path(entry.path).unlink()
        if folder != root:
            with contextlib.suppress(OSError):
                folder.rmdir()
    with contextlib.suppress(OSError):
        root.rmdir()


def _entries(folder: Path, most: int | None = None) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return list(itertools.islice(entries, most))
    return []
