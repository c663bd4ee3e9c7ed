"""Reads a source of hand-ins as parts: folders and files, on the disk or in a zip."""

from __future__ import annotations

import traceback
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import BinaryIO

from grader.batch.collect import archives, files
from grader.batch.collect.choosing import take
from grader.batch.collect.file_names import Wanted, identifier
from grader.batch.collect.files import Item, Listing
from grader.batch.course.records import Handin, Member
from grader.grading.submitted import Unreadable, read_file, reason
from grader.mistakes import Mistake
from grader.report import one_line


@dataclass(frozen=True)
class Part:
    """A folder or a file at the top of a source.

    Of a folder `listing` gives the files in it and `inside` its own parts; both raise Unreadable.
    `item` is a file, or says why it is never opened.
    """

    name: str
    item: Item | None = None
    listing: Callable[[], Listing] = Listing
    inside: Callable[[], Source] = lambda: Source("")
    path: Path | None = None  # of a folder on the disk

    @property
    def is_folder(self) -> bool:
        return self.item is None

    @property
    def is_archive(self) -> bool:
        return self.item is not None and archives.is_archive(self.name)

    @property
    def is_refused(self) -> bool:
        return self.item is not None and bool(self.item.refused)


@dataclass(frozen=True)
class Source:
    """A folder's parts or those of a zip, by name; `archive` is the zip itself."""

    name: str
    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()
    listing: Callable[[], Listing] = Listing  # of all of it, were it one submission
    archive: Item | None = None

    @property
    def folders(self) -> list[Part]:
        return [part for part in self.parts if part.is_folder]

    def part(self, name: str) -> Part | None:
        return next((part for part in self.parts if part.name == name), None)

    def itself_or_wrapped(self, fits: Callable[[Source], bool]) -> Source | None:
        """The source, or the folder around it, whichever fits first."""
        return next((each for each in (self, self.wrapped()) if each and fits(each)), None)

    def wrapped(self) -> Source | None:
        """The parts of the only folder, where there is nothing else; None where there is more."""
        if len(self.parts) != 1 or not self.parts[0].is_folder:
            return None
        try:
            inner = self.parts[0].inside()
        except Unreadable:
            return None
        return replace(inner, notes=self.notes + inner.notes)


@contextmanager
def opened(path: Path, leave_out: Iterable[Path] = ()) -> Iterator[Source]:
    """The parts of a folder or an archive. Raises Mistake where it is neither.

    `leave_out` are folders in it that hold no submissions, such as the one for the results.
    """
    if path.is_dir():
        try:
            yield _of_folder(path, {each.resolve() for each in leave_out})
        except Unreadable as error:
            raise Mistake(f"{path} {error}") from None
        return
    expected = "expected a folder of submissions, or an archive"
    if not path.is_file():
        raise Mistake(f"{path}: {expected}; found {'no file' if path.exists() else 'nothing'}")
    if not archives.is_archive(path.name):
        raise Mistake(f"{path}: {expected} (zip or tar.gz); found another file")
    try:
        with path.open("rb") as file:
            yield _of_archive(path, file)
    except (OSError, Unreadable) as error:
        why = reason(error) if isinstance(error, OSError) else error
        raise Mistake(f"{path} can't be read: {why}") from None


def _of_folder(path: Path, leave_out: Collection[Path]) -> Source:
    parts = []
    notes = []
    for entry in files.entries(path):
        inner = Path(entry.path)
        if files.kind(entry) != "folder":
            parts.append(Part(entry.name, files.item_of(entry, entry.name, path)))
        elif inner.resolve() in leave_out:
            continue
        elif files.is_skipped(entry.name):
            notes.append(f"left out: {entry.name}/")
        else:
            listing = cache(partial(files.listed, inner))
            inside = partial(_of_folder, inner, leave_out)
            parts.append(Part(entry.name, None, listing, inside, inner))
    name = path.name or path.resolve().name
    return Source(name, tuple(parts), tuple(notes), cache(partial(files.listed, path)))


def _of_archive(path: Path, file: BinaryIO) -> Source:
    itself = Item(path.name, lambda limit: read_file(path.resolve(), limit))
    head = file.read(512)
    if archives.kind_of(head, path.name) != "zip":
        return Source(path.name, archive=itself)
    try:
        listing = archives.zip_listing(file, path.stat().st_size, archives.OF_A_CLASS)
    except Unreadable:
        return Source(path.name, archive=itself)  # what is wrong with it is said of the submission
    parts = _of_items(path.name, listing.items, listing.folders)
    return replace(parts, notes=listing.notes, archive=itself)


def _of_items(name: str, items: Iterable[Item], empty: Iterable[str] = ()) -> Source:
    """The parts of a zip; `empty` are folders that it names by themselves, empty or not."""
    parts: dict[str, Part] = {}
    folders: defaultdict[str, tuple[list[Item], list[str]]] = defaultdict(lambda: ([], []))
    for path in empty:
        top, _, rest = path.partition("/")
        folders[top][1].extend([rest] if rest else [])
    for item in items:
        top, slash, rest = item.path.partition("/")
        if slash:
            folders[top][0].append(replace(item, path=rest))
        else:
            parts[top] = Part(top, item)
    for top, (inner, named) in folders.items():
        shown = f"{top}/" if top in parts else top  # a zip can have a file and a folder of one name
        inside = partial(_of_items, top, inner, named)
        parts[shown] = Part(top, None, partial(_listing, tuple(inner)), inside)
    return Source(name, tuple(parts[each] for each in sorted(parts)))


def _listing(items: tuple[Item, ...]) -> Listing:
    if len(items) > files.MAX_FILES:
        raise Unreadable(f"holds more than {files.MAX_FILES} files")
    return Listing(items)


# --- a hand-in from a part -----------------------------------------------------------------------


@dataclass
class Reader:
    """Makes hand-ins. Equal files (the stub of a class, say) are kept in memory once."""

    wanted: Wanted
    _kept: dict[bytes, bytes] = field(default_factory=dict)

    def handin(
        self,
        name: str,
        members: Iterable[Member],
        listing: Callable[[], Listing],
        *,
        submitted_at: datetime | None = None,
        marked_late: bool = False,
        notes: Iterable[str] = (),
    ) -> Handin:
        """The hand-in called `name`, of the files that `listing` finds."""
        notes = tuple(map(one_line, notes))
        empty = Handin(identifier(name), tuple(members), submitted_at, marked_late, notes=notes)
        try:
            taken = take(listing(), self.wanted)
        except Unreadable as error:
            return replace(empty, problem=one_line(f"{name} {error}"))
        except Exception as error:  # our mistake, and no reason for the others not to be read
            line = "".join(traceback.format_exception_only(error))
            return replace(empty, problem=one_line(f"{name}: the grader failed to read it: {line}"))
        files = {file: self._kept.setdefault(data, data) for file, data in taken.files.items()}
        problem = f"{one_line(name)}: {taken.problem}" if taken.problem else ""
        return replace(empty, files=files, problem=problem, notes=(*empty.notes, *taken.notes))

    def of_part(self, part: Part) -> Handin:
        """The hand-in in a folder or an archive, which is named for the student."""
        name = archives.without_suffix(part.name) if part.is_archive else part.name
        return self.handin(part.name, [Member(identifier(name))], listing_of(part))


def listing_of(part: Part) -> Callable[[], Listing]:
    """A function that lists the files of a folder or an archive."""
    return part.listing if part.item is None else partial(_archived, part.item)


def _archived(item: Item) -> Listing:
    if item.refused:
        raise Unreadable(item.refused)
    return archives.open_archive(item)
