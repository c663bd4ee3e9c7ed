"""A submission's scratch folder: what it holds is a stranger's doing, so it is met with care."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


def remove_tree(path: str) -> None:
    """Remove a folder, whatever a submission made of it: no permissions, any depth, a link.

    Folders are moved to the top before they are emptied, so that no path grows long.
    """
    root = Path(path)
    with contextlib.suppress(OSError):
        if root.is_symlink() or not root.is_dir():
            root.unlink()
    pending = [root] if root.is_dir() else []
    while pending:
        folder = pending.pop()
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


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError):
        folder.chmod(0o700)
        with os.scandir(folder) as entries:
            return list(entries)
    return []
