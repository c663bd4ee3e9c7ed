"""A folder of folders as hand-ins; gives way to collect/."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from grader.batch.records import Handin
from grader.session import MAX_FILE_BYTES, SubmissionError
from grader.spec import Exercise


def collect(source: Path, exercises: Mapping[str, Exercise], out: Path) -> list[Handin]:
    """A hand-in per folder in `source`."""
    if not source.is_dir():
        raise SubmissionError(f"{source}: expected a folder of submissions, found none")
    names = {v.file for each in exercises.values() for v in each.variants.values()}
    handins = []
    for folder in sorted(source.iterdir()):
        if folder.is_dir() and folder.resolve() != out.resolve() and folder.name[0] != ".":
            files = {}
            for name in names:
                path = folder / name
                if path.is_file() and path.stat().st_size <= MAX_FILE_BYTES:
                    files[name] = path.read_bytes()
            handins.append(Handin(folder.name, files=files))
    return handins
