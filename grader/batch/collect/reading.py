"""One hand-in out of what it was found in: its files chosen and read, or why there are none."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from grader.batch.collect.archives import open_archive, without_suffix
from grader.batch.collect.choosing import take
from grader.batch.collect.files import Item, Listing, Unreadable
from grader.batch.collect.names import Wanted, identifier, readable
from grader.batch.collect.sources import Part
from grader.batch.course.records import Handin, Member


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
        about = {"submitted_at": submitted_at, "marked_late": marked_late}
        own = tuple(map(readable, notes))
        try:
            taken = take(listing(), self.wanted)
        except Unreadable as error:
            problem = readable(f"{name} {error}")
            return Handin(identifier(name), tuple(members), problem=problem, notes=own, **about)
        except Exception as error:  # our mistake, and no reason for the others not to be read
            told = "".join(traceback.format_exception_only(error))
            problem = readable(f"{name}: the grader failed to read it: {told}")
            return Handin(identifier(name), tuple(members), problem=problem, notes=own, **about)
        files = {file: self._kept.setdefault(data, data) for file, data in taken.files.items()}
        problem = f"{readable(name)}: {taken.problem}" if taken.problem else ""
        return Handin(
            identifier(name),
            tuple(members),
            files=files,
            problem=problem,
            notes=(*own, *taken.notes),
            **about,
        )

    def of_part(self, part: Part) -> Handin:
        """A folder, an archive or what can't be opened, as the hand-in of whom it is named for."""
        name = without_suffix(part.name) if part.is_archive else part.name
        return self.handin(part.name, [Member(identifier(name))], listing_of(part))


def listing_of(part: Part) -> Callable[[], Listing]:
    """What finds the files of a folder or an archive."""
    item = part.item
    return part.listing if item is None else lambda: _opened(item)


def _opened(item: Item) -> Listing:
    if item.refused:
        raise Unreadable(item.refused)
    return open_archive(item)
