"""GitHub Classroom: a clone per student, each a folder named `assignment-login`.

The time is the last commit's own (git_time.py); classroom_times.py knows the platform's. `gh
classroom clone` puts the clones of an assignment into a folder `assignment-submissions`; where it
has another name, what the names of all clones begin with, up to a hyphen, is the assignment's.
"""

from __future__ import annotations

import os
from itertools import takewhile

from grader.batch.collect.file_names import identifier
from grader.batch.collect.git_time import commit_time
from grader.batch.collect.sources import Part, Reader, Source
from grader.batch.course.records import Handin, Member

NO_CLONE = "no clone (it has no .git): its time isn't known"
NO_TIME = "the time of its commit can't be read"
UNTIMED = frozenset({NO_CLONE, NO_TIME})
_FOLDER_SUFFIX = "-submissions"


def is_clone(part: Part) -> bool:
    """Whether a folder on the disk has a .git, whatever is in that."""
    return part.path is not None and os.path.lexists(part.path / ".git")


def find(source: Source, least: float = 0.5) -> Source | None:
    """The source, or the folder around it, if enough of its folders are clones."""
    return source.itself_or_wrapped(
        lambda each: sum(map(is_clone, each.folders)) >= max(1, least * len(each.folders))
    )


def handins(source: Source, reader: Reader) -> tuple[list[Handin], list[str]]:
    """The hand-ins of a folder of clones, and what was left out of it."""
    notes = list(source.notes)
    prefix = assignment_prefix([part.name for part in source.folders], source.name)
    made = []
    for part in source.parts:
        if part.is_folder:
            made.append(_handin(part, prefix, reader))
        elif part.is_archive or part.is_refused:
            made.append(reader.of_part(part))
        else:
            notes.append(f"left out: {part.name}")
    return made, notes


def assignment_prefix(names: list[str], folder: str) -> str:
    """What comes before the login in the names of clones, with its hyphen, or ""."""
    prefix = f"{folder.removesuffix(_FOLDER_SUFFIX)}-"
    if folder.endswith(_FOLDER_SUFFIX) and any(name.startswith(prefix) for name in names):
        return prefix
    if len(names) < 2:
        return ""
    columns = zip(*(name.split("-")[:-1] for name in names), strict=False)
    common = takewhile(lambda words: len(set(words)) == 1, columns)
    return "".join(f"{words[0]}-" for words in common)


def _handin(part: Part, prefix: str, reader: Reader) -> Handin:
    login = part.name.removeprefix(prefix) or part.name
    notes = []
    at = None
    if part.path is None or not is_clone(part):
        notes.append(NO_CLONE)
    elif (at := commit_time(part.path)) is None:
        notes.append(NO_TIME)
    member = Member(identifier(login), login=identifier(login))
    return reader.handin(part.name, [member], part.listing, submitted_at=at, notes=notes)
