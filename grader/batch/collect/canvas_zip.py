"""Canvas: a zip of flat names, or the folder it was unpacked to.

A name is `{sortablename}[_LATE]_{user id}_{attachment id}_{display name}`, for anonymous grading
`[LATE_]anon_{anonymous id}_{attachment id}_{display name}`; a text or a link has `text.html` or
`link.html` in place of the last two. Canvas writes names in small letters and without `_digits_` in
them, so that LATE and the first two numbers can't be anything else. A file that a student uploads
again gets -1, -2 ... behind its stem in the display name. (Canvas's own source, content_zipper.rb.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from grader.batch.collect.archives import is_archive
from grader.batch.collect.file_names import Wanted, identifier
from grader.batch.collect.files import Item, Listing
from grader.batch.collect.sources import Part, Reader, Source
from grader.batch.course.records import Handin, Member
from grader.grading.submitted import Unreadable

_DISPLAYED = r"(?:(?P<attachment>[0-9]+)_(?P<display>.+)|(?P<online>text|link)\.html)"
_ANONYMOUS = re.compile(
    rf"(?P<late>LATE_)?anon_(?!LATE_)(?P<id>[0-9A-Za-z]+)_{_DISPLAYED}", re.DOTALL
)
_NAMED = re.compile(rf"(?P<name>.*?)(?P<late>_LATE)?_(?P<id>[0-9]+)_{_DISPLAYED}", re.DOTALL)
_AGAIN = re.compile(r"(?P<stem>.+)-[0-9]{1,3}(?P<suffix>\.[^.]+|\.tar\.gz)", re.DOTALL)


@dataclass(frozen=True)
class CanvasName:
    """The parts of a file's name in Canvas's zip."""

    user: str  # Canvas's user id, or the anonymous one
    name: str  # "doejane"; "" for anonymous ones
    late: bool
    attachment: int  # its id: what was uploaded later has a larger one; 0 for a text or a link
    display: str  # the name that the student's file had; "text.html", "link.html"
    anonymous: bool = False

    @property
    def handin(self) -> str:
        """The part of the name that all attachments of one hand-in share."""
        return f"{'anon' if self.anonymous else self.name}_{self.user}"


def parse(name: str) -> CanvasName | None:
    """The parts of a name, or None where it isn't one of Canvas's."""
    match = _ANONYMOUS.fullmatch(name)
    anonymous = match is not None
    match = match or _NAMED.fullmatch(name)
    if match is None or len(match["attachment"] or "") > 30:
        return None
    return CanvasName(
        user=match["id"],
        name="" if anonymous else match["name"],
        late=bool(match["late"]),
        attachment=int(match["attachment"] or 0),
        display=match["display"] or f"{match['online']}.html",
        anonymous=anonymous,
    )


def find(source: Source) -> Source | None:
    """The source, or the folder around it, if most of its names are Canvas's."""
    return source.itself_or_wrapped(
        lambda each: 2 * sum(parse(part.name) is not None for part in each.parts) > len(each.parts)
    )


def handins(source: Source, reader: Reader) -> tuple[list[Handin], list[str]]:
    """The hand-ins of an export, and what was left out of it."""
    notes = list(source.notes)
    attachments: dict[str, list[tuple[CanvasName, Part]]] = {}
    for part in source.parts:
        parsed = parse(part.name)
        if parsed is None:
            notes.append(f"left out, for its name isn't one of Canvas's: {part.name}")
        else:
            attachments.setdefault(parsed.handin, []).append((parsed, part))
    made = [_handin(name, files, reader) for name, files in attachments.items()]
    return made, notes


def _handin(name: str, attachments: list[tuple[CanvasName, Part]], reader: Reader) -> Handin:
    first, _ = attachments[0]
    member = Member(identifier(first.user), identifier(first.name))
    online = [each.display for each, _ in attachments if not each.attachment]
    notes = [f"handed in as {each.removesuffix('.html')} on the page: no files" for each in online]
    return reader.handin(
        name,
        [member],
        lambda: _listing(attachments, reader.wanted),
        marked_late=any(each.late for each, _ in attachments),
        notes=notes,
    )


def _listing(attachments: list[tuple[CanvasName, Part]], wanted: Wanted) -> Listing:
    items: list[Item] = []
    notes: list[str] = []
    for parsed, part in attachments:
        if not parsed.attachment:
            continue
        if part.item is not None:
            path = _first_name(parsed.display, wanted)
            items.append(replace(part.item, path=path, order=parsed.attachment, label=part.name))
            continue
        try:  # an archive that something unpacked
            inner = part.listing()
        except Unreadable as error:
            items.append(Item(f"{part.name}/", refused=str(error)))
            continue
        notes += inner.notes
        items += _unpacked(inner.items, parsed, part.name)
    return Listing(tuple(items), tuple(notes))


def _unpacked(items: Iterable[Item], parsed: CanvasName, label: str) -> Iterable[Item]:
    for item in items:
        path = f"{parsed.display}/{item.path}"
        yield replace(item, path=path, order=parsed.attachment, label=f"{label}/{item.path}")


def _first_name(display: str, wanted: Wanted) -> str:
    """A display name without the number that Canvas gives a file that is uploaded again."""
    display = display.replace("/", "_")
    match = _AGAIN.fullmatch(display)
    bare = f"{match['stem']}{match['suffix']}" if match else ""
    is_numbered = bare in wanted.files or is_archive(bare)
    return bare if is_numbered and display not in wanted.files else display
