"""A submission's scratch folder, measured and removed; its contents are untrusted."""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path

from grader.worker.emptying import is_emptied

MOST_ENTRIES = 20_000


def is_larger_than(path: Path, most_bytes: int) -> bool:
    """Whether a folder holds more than so many bytes on disk, or than MOST_ENTRIES entries.

    Only reads: it may change meanwhile, and a folder may have become a link.
    """
    total, count = 0, 0
    pending = [path]
    while pending:
        for entry in _entries(pending.pop()):
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
    """Remove a folder in any state: without permissions, of any depth, or a link."""
    root = Path(path)
    with contextlib.suppress(OSError):
        if root.is_symlink() or not root.is_dir():
            root.unlink()
        elif is_emptied(path):
            root.rmdir()


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return list(itertools.islice(entries, MOST_ENTRIES + 1))
    return []
