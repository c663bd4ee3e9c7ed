"""Files of a submission, read without following links and without opening anything but files.

A symbolic link may lead to the solution or to a secret, a FIFO never ends, a device never stops:
each is refused by what it is.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from grader.grading import source_reading
from grader.spec import Exercise, Variant

MAX_FILE_BYTES = 1 << 20
MAX_MODULES = 64  # Python files beside the one that is graded
_NO_MODULE = re.compile(r"No module named '([A-Za-z_][A-Za-z0-9_]{0,99})[.']")


class Unreadable(Exception):
    """A file, a folder or an archive can't be read; the message says why, in a line."""


def read_file(path: Path, limit: int) -> bytes:
    """At most `limit` bytes of a regular file that is no link. Raises Unreadable."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Unreadable("is a symbolic link; expected the file itself") from None
        raise Unreadable(f"can't be read: {reason(error)}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unreadable("is no regular file")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(limit)
    except OSError as error:
        raise Unreadable(f"can't be read: {reason(error)}") from None
    finally:
        os.close(descriptor)


def reason(error: OSError) -> str:
    """What the system says about a failure, without the path."""
    return error.strerror or type(error).__name__


def contents(path: Path) -> bytes | str:
    """A file of a submission; or, as text, why there is none that can be graded."""
    if not os.path.lexists(path):
        return f"there is no {path.name}"
    try:
        data = read_file(path, MAX_FILE_BYTES + 1)
    except Unreadable as error:
        return f"{path.name} {error}"
    if len(data) > MAX_FILE_BYTES:
        return f"{path.name} is larger than {MAX_FILE_BYTES >> 20} MiB"
    return data


class Files:
    """The files of one submission; each is read once, and stays what it was."""

    def __init__(self, folder: Path, known: Mapping[str, bytes | str] | None = None) -> None:
        """`known` are files that were read already, by name."""
        self._folder = folder
        self._read = dict(known or {})

    def read(self, name: str) -> bytes | str:
        """A file's contents; or, as text, why there are none."""
        if name not in self._read:
            self._read[name] = contents(self._folder / name)
        return self._read[name]

    def of(self, exercises: Iterable[Exercise]) -> dict[str, bytes | str]:
        """Every file that a variant of these names, as `read` has it."""
        names = {variant.file for each in exercises for variant in each.variants.values()}
        return {name: self.read(name) for name in sorted(names)}

    def modules(self) -> dict[str, bytes]:
        """The Python files beside those that are graded, which may import them."""
        return modules(self._folder)

    def not_attempted(self, variant: Variant) -> str:
        """Why there is nothing to run for a variant, or ""."""
        data = self.read(variant.file)
        if isinstance(data, str):
            return data
        return source_reading.is_untouched(data, variant.entry, variant.language)

    @property
    def called(self) -> str:
        """The submission as a reproduce line names it; "" for the default folder."""
        is_default = self._folder.resolve() == Path("assignment").resolve()
        return "" if is_default else str(self._folder)


def missing_folder(folder: Path, message: str) -> str:
    """The folder beside a submission's files that an import failed for want of, or "".

    Folders aren't brought along with a file. `message` is the import's, and untrusted.
    """
    match = _NO_MODULE.search(message)
    name = match[1] if match else ""
    try:
        is_there = bool(name) and stat.S_ISDIR(os.lstat(folder / name).st_mode)
    except OSError:
        is_there = False
    return name if is_there else ""


def modules(folder: Path) -> dict[str, bytes]:
    """The Python files directly in a submission's folder, by name; those that can be read.

    A file that is graded may import them. At most MAX_MODULES, in the order of their names.
    """
    try:
        with os.scandir(folder) as entries:
            names = sorted(each.name for each in entries if each.name.endswith(".py"))
    except OSError:
        return {}
    read = {name: contents(folder / name) for name in names[:MAX_MODULES]}
    return {name: data for name, data in read.items() if isinstance(data, bytes)}
