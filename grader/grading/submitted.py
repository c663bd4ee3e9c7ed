"""Reads the files of a submission: only regular files, and without following links.

A symbolic link may lead to the solution or to a secret, a FIFO never ends, and a device never
stops. Each is refused by its type.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from grader.executors.cuda.joining import Joined, Lab, included, join
from grader.grading import source_reading
from grader.grading.lab_places import placed
from grader.mistakes import Mistake
from grader.sandbox import untrusted
from grader.spec import Exercise, Variant

_E = TypeVar("_E")

MAX_FILE_BYTES = 1 << 20
MAX_MODULES = 64  # Python files beside the graded one
MAX_LOOKED_AT = 1000  # names in a folder, for one that is nearly right
_IMPORTED = re.compile(rb"^(?:from|import) (\w{1,100})", re.MULTILINE)
_NO_MODULE = re.compile(r"No module named '([A-Za-z_][A-Za-z0-9_]{0,99})[.']")


class Unreadable(Exception):
    """A file, a folder or an archive can't be read; the message is one line."""


def expect_folder(submission: Path) -> None:
    """Raise Mistake where a submission's folder doesn't exist, or is one file of it."""
    if submission.is_file():
        raise Mistake(
            f"{submission}: expected a folder like assignment/, got a file; it lies in "
            f"{submission.parent}"
        )
    if not submission.is_dir():
        here = "" if submission.is_absolute() else f" in {Path.cwd()}"
        raise Mistake(f"{submission}: expected a folder like assignment/, found none{here}")


@contextmanager
def folder_in(where: Path | int, name: str) -> Iterator[int]:
    """A descriptor of the folder `name` (which may hold "/") in `where`, without following links.

    Raises OSError.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    current = os.dup(where) if isinstance(where, int) else os.open(where, flags)
    try:
        for part in name.split("/"):
            inner = os.open(part, flags, dir_fd=current)
            os.close(current)
            current = inner
        yield current
    finally:
        os.close(current)


def read_file(path: Path, limit: int, root: Path | None = None) -> bytes:
    """At most `limit` bytes of a regular file that is not a link. Raises Unreadable.

    No folder between `root` and the file may be a link either: someone who can write there could
    exchange a folder for a link after it was listed.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        if root is None:
            descriptor = os.open(path, flags)
        else:
            with folder_in(root.resolve(), str(path.parent.relative_to(root))) as folder:
                descriptor = os.open(path.name, flags, dir_fd=folder)
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
    """The system's message of an error, without the path."""
    return error.strerror or type(error).__name__


def contents(path: Path) -> bytes | str:
    """The contents of a submission's file; or, as text, why it can't be graded."""
    if not os.path.lexists(path):
        return f"there is no {path.name}{renamed(path)}"
    try:
        data = read_file(path, MAX_FILE_BYTES + 1)
    except Unreadable as error:
        return f"{path.name} {error}"
    if len(data) > MAX_FILE_BYTES:
        return f"{path.name} is larger than {MAX_FILE_BYTES >> 20} MiB"
    return data


def renamed(path: Path) -> str:
    """A clause that names a file of the folder which may be meant for a missing one, or "".

    Its name has the missing one's in it: my_silu.py, Silu.py, "silu (1).py", silu.py.txt.
    """
    try:
        names = sorted(os.listdir(path.parent), key=len)[:MAX_LOOKED_AT]  # noqa: PTH208
    except OSError:
        return ""
    fitting = re.compile(rf"(?s).*{re.escape(path.stem)}.*{re.escape(path.suffix)}(\.txt)?", re.I)
    like = next(filter(fitting.fullmatch, names), None)
    return f"; rename {untrusted.brief(like, 80)} to {path.name} if it is that" if like else ""


def one_level_down(folder: Path, names: Sequence[str]) -> str:
    """A clause that names a folder within `folder` which has one of the files, or ""."""
    try:
        inner = sorted(os.listdir(folder))[:MAX_LOOKED_AT]  # noqa: PTH208
        having = (e for e in inner if any((folder / e / name).is_file() for name in names))
        first = next(having, None)
    except OSError:
        return ""
    return f"; give {untrusted.brief(str(folder / first), 200)}, which has some" if first else ""


def _included(text: str) -> list[tuple[int, str]]:
    """joining.included, in a process with limits. Raises TooInvolved."""
    return [(line, name) for line, name in source_reading.limited(included, text)]


class Files:
    """The files of one submission; each is read once and then kept."""

    def __init__(
        self,
        folder: Path,
        known: Mapping[str, bytes | str] | None = None,
        labs: Mapping[str, Lab] | None = None,
    ) -> None:
        """`known` are files by name that were read already; `labs`: see joining.labs_of."""
        self._folder = folder
        self._read = dict(known or {})
        self._labs = dict(labs or {})
        self._joined: dict[str, Joined | str] = {}

    def read(self, name: str) -> bytes | str:
        """A file as it is run: its contents, joined with those of further files of its variant.

        As text: why it has none.
        """
        if name not in self._labs:
            return self.handed_in(name)
        joined = self.joined(name)
        return joined.data if isinstance(joined, Joined) else joined

    def handed_in(self, name: str) -> bytes | str:
        """The contents of one file as it was handed in; or, as text, why it has none."""
        if name not in self._read:
            self._read[name] = contents(self._folder / name)
        return self._read[name]

    def joined(self, name: str) -> Joined | str:
        """The text of a variant's files, named by its first; or, as text, why there is none."""
        if name not in self._joined:
            try:
                made = join(self._labs[name], self.handed_in, _included)
            except source_reading.TooInvolved as error:
                made = f"the files are too involved to be read: {error}"
            self._joined[name] = made
        return self._joined[name]

    def lab(self, variant: Variant) -> Joined | None:
        """The text of a variant of several files; None without several, or without one."""
        made = self.joined(variant.file) if variant.file in self._labs else ""
        return made if isinstance(made, Joined) else None

    def is_given(self, variant: Variant) -> Callable[[int], bool]:
        """A function that says whether a line of the text that is run is of a course's header."""
        made = self.lab(variant)
        return made.is_given if made is not None else lambda line: False

    def placed(self, variant: Variant, evidence: _E) -> _E:
        """The evidence with lines of the files in place of lines of the joined text that ran."""
        made = self.lab(variant)
        return evidence if made is None else placed(evidence, made)

    def of(self, exercises: Iterable[Exercise]) -> dict[str, bytes | str]:
        """The files of all variants of these exercises, as `handed_in` returns them."""
        variants = (variant for each in exercises for variant in each.variants.values())
        names = {name for variant in variants for name in variant.files}
        return {name: self.handed_in(name) for name in sorted(names)}

    def modules(self) -> dict[str, bytes]:
        """The Python files beside the graded ones, which may import them."""
        return modules(self._folder)

    def imported(self, variant: Variant) -> list[str]:
        """The Python files beside a variant's that it imports at the beginning of a line."""
        text = self.read(variant.file)
        named = set(_IMPORTED.findall(text)) if isinstance(text, bytes) else set()
        if variant.language != "triton" or not named:
            return []
        named.discard(variant.file[:-3].encode())
        return [each for each in self.modules() if each[:-3].encode() in named]

    def not_attempted(self, variant: Variant) -> str:
        """Why a variant has nothing to run, or ""."""
        data = self.read(variant.file)
        if isinstance(data, str):
            return data
        if variant.language == "answers":
            return ""
        reasons = [
            source_reading.is_untouched(data, entry, variant.language)
            for entry in variant.all_entries
        ]
        return reasons[0] if all(reasons) else ""

    @property
    def called(self) -> str:
        """The submission's name in a reproduce line; "" for the default folder."""
        is_default = self._folder.resolve() == Path("assignment").resolve()
        return "" if is_default else str(self._folder)


def missing_folder(folder: Path, message: str) -> str:
    """The folder beside a submission's files whose lack made an import fail, or "".

    Folders aren't handed in with a file. `message` is the import error's, and untrusted.
    """
    match = _NO_MODULE.search(message)
    name = match[1] if match else ""
    try:
        is_there = bool(name) and stat.S_ISDIR(os.lstat(folder / name).st_mode)
    except OSError:
        is_there = False
    return name if is_there else ""


def modules(folder: Path) -> dict[str, bytes]:
    """The readable Python files directly in a submission's folder, by name.

    A graded file may import them. At most MAX_MODULES, in the order of their names.
    """
    try:
        with os.scandir(folder) as entries:
            names = sorted(each.name for each in entries if each.name.endswith(".py"))
    except OSError:
        return {}
    read = {name: contents(folder / name) for name in names[:MAX_MODULES]}
    return {name: data for name, data in read.items() if isinstance(data, bytes)}
