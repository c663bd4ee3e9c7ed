"""Several hand-ins of the same people: files that a later one lacks, from an earlier one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from grader.batch.course.records import Handin


def with_earlier(handins: Iterable[Handin], merge: bool) -> list[Handin]:
    """The hand-ins with notes on the files that they lack and earlier ones had.

    Earlier ones are those of the same people; with `merge` a hand-in gets such files.
    Only hand-ins whose times are known are in an order. One that can't be read neither gives nor
    gets anything.
    """
    made = list(handins)
    groups: dict[frozenset[str], list[int]] = {}
    for index, handin in enumerate(made):
        if handin.members:
            people = frozenset(member.id for member in handin.members)
            groups.setdefault(people, []).append(index)
    for indices in groups.values():
        if len(indices) > 1:
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
