"""Gradescope: the folder or zip of an export, with submission_metadata.yml beside the submissions.

The file maps `submission_123` to what is known of it; its keys keep Ruby's colons: `:submitters` is
a list of people with `:name`, `:sid` and, where the course has it, `:email`; `:created_at` is when
it was handed in, by Gradescope's clock. Several submitters are a group with one hand-in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import yaml

from grader.batch.collect.file_names import identifier
from grader.batch.collect.sources import Part, Reader, Source, listing_of
from grader.batch.course.records import Handin, Member
from grader.grading.submitted import Unreadable
from grader.mistakes import Mistake
from grader.report import one_line
from grader.spec.formula import as_written

METADATA = "submission_metadata.yml"
_LARGEST = 256 << 20  # bytes; it has the history of every submission
_DEEPEST = 50  # mappings and lists in one another
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ]+(\d\d:\d\d:\d\d)(?:\.(\d+))?\s*(?:([Zz]|UTC)|([+-])(\d\d):?(\d\d))"
)


def find(source: Source) -> Source | None:
    """The source, or the only folder in it, that has the metadata; None where neither has.

    A folder among others may be a student's own, whose files decide about nobody else.
    """
    return source.itself_or_wrapped(lambda each: each.part(METADATA) is not None)


def handins(source: Source, reader: Reader) -> tuple[list[Handin], list[str]]:
    """The hand-ins of an export, and what was left out of it. Raises Mistake."""
    metadata = _metadata(source)
    notes = list(source.notes)
    made = []
    for name, known in metadata.items():
        part = source.part(name)
        if isinstance(known, Mapping):
            made.append(_handin(name, known, part, reader))
        else:
            notes.append(
                f"{METADATA}: {name}: expected what is known of it, got {as_written(known)}"
            )
    for part in source.parts:
        if part.name == METADATA or part.name in metadata:
            continue
        if part.is_folder or part.is_archive:
            why = f"{METADATA} doesn't name it: whose it is isn't known"
            made.append(reader.handin(part.name, (), listing_of(part), notes=[why]))
        else:
            notes.append(f"left out: {part.name}")
    return made, notes


def _handin(name: str, known: Mapping[str, Any], part: Part | None, reader: Reader) -> Handin:
    notes: list[str] = []
    members = _members(known.get(":submitters"), notes)
    at = _time(known.get(":created_at"), notes)
    if part is None:
        problem = one_line(f"{name}: {METADATA} names it, but there is no such folder")
        return Handin(identifier(name), members, at, problem=problem, notes=tuple(notes))
    return reader.handin(name, members, listing_of(part), submitted_at=at, notes=notes)


def _members(submitters: object, notes: list[str]) -> tuple[Member, ...]:
    members: dict[str, Member] = {}
    for each in submitters if isinstance(submitters, Sequence) else ():
        known = each if isinstance(each, Mapping) else {}
        name, sid, email = (_text(known.get(key)) for key in (":name", ":sid", ":email"))
        if who := sid or email or name:
            members[who] = Member(who, name, email)
    if not members:
        notes.append(f"{METADATA} names no submitter")
    return tuple(members.values())


def _text(value: object) -> str:
    return identifier(value.strip()) if isinstance(value, str) else ""


def _time(value: object, notes: list[str]) -> datetime | None:
    match = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    try:
        if match is not None:
            day, clock, fraction, in_utc, sign, hours, minutes = match.groups()
            offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
            zone = timezone.utc if in_utc else timezone(-offset if sign == "-" else offset)
            at = datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=zone)
            return at.replace(microsecond=int((fraction or "0")[:6].ljust(6, "0")))
    except ValueError:
        pass
    expected = "expected a time with its offset from UTC"
    notes.append(f":created_at: {expected}, got {as_written(value)}")
    return None


# --- the metadata --------------------------------------------------------------------------------


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # built as there is
    """YAML in which all but null is text: `007` stays what it is, and a time keeps its offset.

    Ruby's own tags are passed over, and mappings aren't merged: merges can double at each level.
    """


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith(":null")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _untagged(loader: _Loader, suffix: str, node: yaml.Node) -> object:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return loader.construct_scalar(node)


_Loader.add_multi_constructor("!", _untagged)


def _loaded(data: bytes) -> object:
    """What a YAML text has. Raises yaml.YAMLError, ValueError."""
    depth = 0
    for event in yaml.parse(data, _Loader):
        is_end = isinstance(event, yaml.CollectionEndEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - is_end
        if depth > _DEEPEST:  # libyaml's composer calls itself, to the end of the stack
            raise ValueError(f"expected at most {_DEEPEST} levels, got more")
        tag = getattr(event, "tag", None) or "!"
        if not tag.startswith("!"):  # of another type: reading one ends in errors of every kind
            raise ValueError(f"expected no tags but Ruby's, got {tag}")
    return yaml.load(data, _Loader)


def _metadata(source: Source) -> Mapping[str, Any]:
    place = f"{source.name}/{METADATA}"
    part = source.part(METADATA)
    if part is None or part.item is None or part.item.refused:
        raise Mistake(f"{place}: expected a file")
    try:
        data = part.item.read(_LARGEST + 1)
    except Unreadable as error:
        raise Mistake(f"{place} {error}") from None
    if len(data) > _LARGEST:
        raise Mistake(f"{place}: expected at most {_LARGEST >> 20} MiB")
    try:
        read = _loaded(data)
    except (yaml.YAMLError, ValueError) as error:
        raise Mistake(f"{place}: expected YAML: {one_line(str(error))}") from None
    if not isinstance(read, Mapping) or not all(isinstance(key, str) for key in read):
        raise Mistake(f"{place}: expected a mapping of submissions")
    return read
