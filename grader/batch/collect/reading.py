"""One hand-in, read from a folder or an archive: its files, or why there are none."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from grader.batch.collect.archives import open_archive, without_suffix
from grader.batch.collect.choosing import take
from grader.batch.collect.file_names import Wanted, identifier
from grader.batch.collect.files import Item, Listing
from grader.batch.collect.sources import Part
from grader.batch.course.records import Handin, Member
from grader.grading.submitted import Unreadable
from grader.report import one_line


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
        empty = Handin(
            identifier(name),
            tuple(members),
            submitted_at,
            marked_late,
            notes=tuple(map(one_line, notes)),
        )
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
        name = without_suffix(part.name) if part.is_archive else part.name
        return self.handin(part.name, [Member(identifier(name))], listing_of(part))


def listing_of(part: Part) -> Callable[[], Listing]:
    """A function that lists the files of a folder or an archive."""
    item = part.item
    return part.listing if item is None else lambda: _opened(item)


def _opened(item: Item) -> Listing:
    if item.refused:
        raise Unreadable(item.refused)
    return open_archive(item)
