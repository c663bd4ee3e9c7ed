"""The files of a hand-in, in a folder on the disk or in an archive.

Of a folder no link is followed and nothing but a regular file is opened, so that neither a link to
a secret nor a FIFO that never answers gets in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.grading.submitted import Unreadable, read_file, reason

MAX_FILES = 10_000  # of one hand-in
MAX_DEPTH = 10  # folders in folders
# What systems and tools leave behind, never a student's work; dropped without a word.
LITTER = frozenset({"__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini", "__pycache__", ".git"})
# Installed packages, thousands of files with names such as softmax.py. Hidden folders are the same.
_PACKAGES = frozenset({"site-packages", "node_modules"})


class TooMany(Unreadable):
    """There are more files than a hand-in may have."""


def _nothing(limit: int) -> bytes:
    raise Unreadable("can't be read")


@dataclass(frozen=True)
class Item:
    """A file of a hand-in, not read yet.

    `read(n)` gives its first n bytes at most, or raises Unreadable. Where `refused` says what it is
    (a link, a device) there is nothing to read. `shown` is its name in messages.
    """

    path: str  # below the hand-in, with "/" between
    read: Callable[[int], bytes] = _nothing
    refused: str = ""
    order: int = 0  # of two with the same name, the one with the larger number came later
    archive: str = ""  # the archive in the hand-in that it lies in
    label: str = ""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def shown(self) -> str:
        return self.label or self.path


@dataclass(frozen=True)
class Listing:
    """The files of a hand-in, in the order of their paths. `notes` name what wasn't read.

    `folders` are those at the top of a class's zip that it names by themselves.
    """

    items: tuple[Item, ...] = ()
    notes: tuple[str, ...] = ()
    in_archive: bool = False  # an archive found in it would be one in an archive
    folders: tuple[str, ...] = ()


def is_litter(path: str) -> bool:
    """Whether a path is one that systems leave behind, such as `__MACOSX/._rmsnorm.py`."""
    parts = path.split("/")
    return not LITTER.isdisjoint(parts) or parts[-1].startswith("._")


def is_skipped(name: str) -> bool:
    """Whether a folder's name says that it holds no student's work."""
    return name.startswith(".") or name in _PACKAGES


def skipped_folder(path: str) -> str:
    """The first folder of `path` that isn't searched, or ""."""
    parts = path.split("/")
    for depth, name in enumerate(parts[:-1], 1):
        if is_skipped(name):
            return "/".join(parts[:depth])
    return ""


def listed(folder: Path) -> Listing:
    """Every file below `folder`. Raises Unreadable where it can't be listed or has too many."""
    items: list[Item] = []
    notes: list[str] = []
    for item in _walk(folder, folder, "", 0, notes):
        if len(items) == MAX_FILES:
            raise TooMany(f"holds more than {MAX_FILES} files")
        items.append(item)
    return Listing(tuple(sorted(items, key=lambda item: item.path)), tuple(notes))


def entries(folder: Path) -> list[os.DirEntry[str]]:
    """What lies directly in `folder`, by name, without litter. Raises Unreadable."""
    kept: list[os.DirEntry[str]] = []
    try:
        with os.scandir(folder) as scanned:
            for entry in scanned:
                if len(kept) == MAX_FILES:
                    raise TooMany(f"holds more than {MAX_FILES} files")
                if not is_litter(entry.name):
                    kept.append(entry)
    except OSError as error:
        raise Unreadable(f"can't be read: {reason(error)}") from None
    return sorted(kept, key=lambda entry: entry.name)


def kind(entry: os.DirEntry[str]) -> str:
    """`folder`, `file`, or for what is never opened `a link` or `no regular file`."""
    if entry.is_symlink():
        return "a link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "no regular file"


def item_of(entry: os.DirEntry[str], path: str, root: Path) -> Item:
    """The file `entry` somewhere in the folder `root`, which the hand-in calls `path`."""
    if (file_type := kind(entry)) != "file":
        return Item(path, refused=f"is {file_type}")
    whole = Path(entry.path)
    return Item(path, lambda limit: read_file(whole, limit, root))


def _walk(root: Path, folder: Path, prefix: str, depth: int, notes: list[str]) -> Iterator[Item]:
    for entry in entries(folder):
        path = prefix + entry.name
        if kind(entry) != "folder":
            yield item_of(entry, path, root)
        elif is_skipped(entry.name):
            notes.append(f"not looked into: {path}/")
        elif depth == MAX_DEPTH:
            notes.append(f"not looked into, {MAX_DEPTH} folders deep: {path}/")
        else:
            try:
                yield from _walk(root, Path(entry.path), f"{path}/", depth + 1, notes)
            except TooMany:
                raise
            except Unreadable as error:
                yield Item(f"{path}/", refused=str(error))
