"""The layouts of a source of hand-ins: recognised, and read.

In `folders` and in `archives` both are hand-ins; the name says which of them are more frequent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from grader.batch.collect import canvas_zip, classroom_clones, gradescope_export
from grader.batch.collect.archives import open_archive, without_suffix
from grader.batch.collect.file_names import Match, Quality, Wanted, identifier
from grader.batch.collect.sources import Part, Reader, Source, opened
from grader.batch.course.records import Handin, Member
from grader.grading.submitted import Unreadable
from grader.mistakes import Mistake
from grader.report import one_line
from grader.spec import Exercise


@dataclass(frozen=True)
class _Layout:
    """One way in which hand-ins lie in a source."""

    expected: str  # what a source of this layout has
    find: Callable[[Source], Source | None]  # the part of a source that has it, if any
    read: Callable[[Source, Reader], tuple[list[Handin], list[str]]]


@dataclass(frozen=True)
class Collection:
    """A class as it was handed in. `notes` name what in the source is no hand-in, a line each."""

    layout: str
    handins: tuple[Handin, ...]
    notes: tuple[str, ...] = ()


def collect(
    source: Path,
    exercises: Mapping[str, Exercise],
    *,
    layout: str | None = None,
    merge: bool = False,
    leave_out: Iterable[Path] = (),
) -> Collection:
    """Every hand-in of `source`, in the order of their ids, with the files that exercises name.

    The layout is recognised unless it is given. With `merge` a hand-in gets the files that it lacks
    from earlier ones of the same people. `leave_out` are folders in the source that aren't
    submissions. Raises Mistake where the source isn't there or has no such layout; whatever is
    wrong with one hand-in is its `problem`. Ids are the same whenever the same source is collected.
    """
    if layout is not None and layout not in LAYOUTS:
        raise Mistake(f"layout: expected {', '.join(LAYOUTS)}; got {one_line(layout)}")
    variants = [v for exercise in exercises.values() for v in exercise.graded.values()]
    headers = (name for each in variants for name in each.compile.headers)
    wanted = Wanted((name for each in variants for name in each.files), headers)
    with opened(source, leave_out) as whole:
        if not whole.parts and whole.archive is None:
            raise Mistake(f"{source}: expected submissions, found nothing")
        name, root = _forced(whole, layout, source) if layout else _recognised(whole, wanted)
        made, notes = _LAYOUTS[name].read(root, Reader(wanted))
        if layout is None and root is not whole and whole.archive is None:
            # The only folder may be a student's, whose files say here whose hand-ins there are.
            notes.insert(
                0,
                f"{whole.parts[0].name}/ is all there is, and is read as a class of the layout "
                f"{name}: if it is one student's, give --layout folders",
            )
    if layout is None and name == "archives" and len(made) == 1:
        notes.insert(
            0,
            f"{made[0].id} is all there is, and is read as one student's: if it is a whole "
            f"class's, give {source / made[0].id} in place of the folder",
        )
    made = _with_earlier(_with_own_ids(made), merge)
    return Collection(
        name, tuple(sorted(made, key=lambda each: each.id)), tuple(map(one_line, notes))
    )


def _with_own_ids(handins: Iterable[Handin]) -> list[Handin]:
    """The hand-ins, no two with one id."""
    times: Counter[str] = Counter()
    made = []
    for handin in handins:
        times[handin.id] += 1
        again = times[handin.id]
        made.append(handin if again == 1 else replace(handin, id=f"{handin.id}~{again}"))
    return made


# --- several hand-ins of the same people ----------------------------------------------------------


def _with_earlier(handins: Iterable[Handin], merge: bool) -> list[Handin]:
    """The hand-ins with notes on the files that they lack and earlier ones had.

    Earlier ones are those of the same people; with `merge` a hand-in gets such files. Only hand-ins
    whose times are known are in an order. One that can't be read neither gives nor gets anything.
    """
    made = list(handins)
    groups: dict[frozenset[str], list[int]] = {}
    for index, handin in enumerate(made):
        people = frozenset(member.id for member in handin.members)
        groups.setdefault(people, []).append(index)
    for people, indices in groups.items():
        if people and len(indices) > 1:
            _complete(made, indices, merge)
    return made


def _complete(made: list[Handin], indices: list[int], merge: bool) -> None:
    readable = [index for index in indices if not made[index].problem]
    if any(made[index].submitted_at is None for index in readable):
        for index in readable:
            others = ", ".join(made[other].id for other in indices if other != index)
            note = f"also handed in: {others}; which came first isn't known"
            made[index] = replace(made[index], notes=(*made[index].notes, note))
        return
    had: dict[str, tuple[str, bytes]] = {}  # of every file the last hand-in that had it
    for index in sorted(readable, key=lambda each: (made[each].submitted_at, made[each].id)):
        handin = made[index]
        lacking = {name: had[name] for name in sorted(had.keys() - handin.files.keys())}
        had |= {name: (handin.id, data) for name, data in handin.files.items()}
        if not lacking:
            continue
        verb = "merged from {}: {}" if merge else "{} had, and this one lacks: {}"
        sources = dict.fromkeys(source for source, _ in lacking.values())
        notes = tuple(
            verb.format(each, ", ".join(name for name, (by, _) in lacking.items() if by == each))
            for each in sources
        )
        files = dict(handin.files)
        if merge:
            files |= {name: data for name, (_, data) in lacking.items()}
        made[index] = replace(handin, files=files, notes=(*handin.notes, *notes))


# --- which layout --------------------------------------------------------------------------------


def _forced(source: Source, layout: str, path: Path) -> tuple[str, Source]:
    root = _LAYOUTS[layout].find(source)
    if root is None:
        expected = _LAYOUTS[layout].expected
        raise Mistake(f"{path}: layout {layout}: expected {expected}; found {_contents(source)}")
    return layout, root


def _contents(source: Source) -> str:
    """What a source holds, in words."""
    archives = sum(part.is_archive for part in source.parts)
    counts = {
        "folder": len(source.folders),
        "archive": archives,
        "other file": len(source.parts) - len(source.folders) - archives,
    }
    words = [f"{n} {noun}{'s' * (n != 1)}" for noun, n in counts.items() if n]
    names = ", ".join(part.name for part in source.parts[:3])
    more = ", ..." if len(source.parts) > 3 else ""
    return one_line(f"{' and '.join(words)} ({names}{more})" if words else "an archive")


def _recognised(source: Source, wanted: Wanted) -> tuple[str, Source]:
    for layout in ("gradescope", "canvas", "classroom"):
        find = classroom_clones.find if layout == "classroom" else _LAYOUTS[layout].find
        if (root := find(source)) is not None:
            return layout, root
    if source.archive is not None:
        inner = source.wrapped() or source
        return ("folders", inner) if _is_class(inner, wanted) else ("single", source)
    if _is_single(source, wanted):
        return "single", source
    wrapped = source.wrapped()
    if wrapped is not None and _is_class(wrapped, wanted):
        source = wrapped
    archives = sum(part.is_archive for part in source.parts)
    if not archives and not source.folders and not any(part.is_refused for part in source.parts):
        raise Mistake(
            f"{source.name}: expected a folder or an archive per student, or the export of "
            f"Gradescope, Canvas or GitHub Classroom; found {_contents(source)}"
        )
    return ("archives" if archives > len(source.folders) else "folders"), source


def _is_single(source: Source, wanted: Wanted) -> bool:
    """Whether a folder is one submission: its own files are more than the submissions in it."""
    own = {match.file for part in source.parts if (match := _match(part, wanted)) is not None}
    assignment = source.part("assignment")
    if assignment is not None and assignment.is_folder and _files_in(assignment, wanted):
        return True
    if not own:
        return False
    others = sum(part.is_archive or bool(_files_in(part, wanted)) for part in source.folders)
    others += sum(part.is_archive for part in source.parts)
    return len(own) > others


def _is_class(source: Source, wanted: Wanted) -> bool:
    """Whether several parts are submissions: they have the same file, or are archives."""
    if sum(part.is_archive for part in source.parts) > 1:
        return True
    counts = Counter(file for part in source.folders for file in _files_in(part, wanted))
    return any(count > 1 for count in counts.values())


def _match(part: Part, wanted: Wanted) -> Match | None:
    match = wanted.match(part.name) if part.item is not None else None
    return match if match is not None and match.quality <= Quality.spelling else None


def _files_in(part: Part, wanted: Wanted) -> set[str]:
    try:
        items = part.listing().items
    except Unreadable:
        return set()
    return {match.file for item in items if (match := wanted.match(item.name)) is not None}


# --- folders, archives, one submission -----------------------------------------------------------


def _plain(source: Source, reader: Reader) -> tuple[list[Handin], list[str]]:
    """A hand-in for every folder, archive or link; other files are left out."""
    notes = list(source.notes)
    made = []
    for part in source.parts:
        if part.is_folder or part.is_archive or part.is_refused:
            made.append(reader.of_part(part))
        else:
            notes.append(f"left out, neither a folder nor an archive: {part.name}")
    return made, notes


def _single(source: Source, reader: Reader) -> tuple[list[Handin], list[str]]:
    archive = source.archive
    if archive is None:
        return [reader.handin(source.name, [Member(identifier(source.name))], source.listing)], []
    member = Member(identifier(without_suffix(source.name)))
    return [reader.handin(source.name, [member], lambda: open_archive(archive))], []


_LAYOUTS = {
    "folders": _Layout("folders in it", lambda source: source if source.folders else None, _plain),
    "archives": _Layout(
        "archives in it",
        lambda source: source if any(part.is_archive for part in source.parts) else None,
        _plain,
    ),
    "gradescope": _Layout(
        f"{gradescope_export.METADATA} in it", gradescope_export.find, gradescope_export.handins
    ),
    "canvas": _Layout(
        "names such as doejane_12345_6789_rmsnorm.py", canvas_zip.find, canvas_zip.handins
    ),
    "classroom": _Layout(
        "folders with a .git",
        lambda source: classroom_clones.find(source, least=0),
        classroom_clones.handins,
    ),
    "single": _Layout("a folder or an archive", lambda source: source, _single),
}
LAYOUTS = tuple(_LAYOUTS)
