"""The hand-ins of a source, without the class's own results where these lie in it."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from grader.batch import folders
from grader.batch.records import Handin
from grader.spec import Exercise


@dataclass(frozen=True)
class _Collection:
    handins: tuple[Handin, ...]
    notes: tuple[str, ...] = ()


def collect(
    source: Path, exercises: Mapping[str, Exercise], *, layout: str | None, merge: bool, out: Path
):
    """A Collection. Raises CollectError."""
    if importlib.util.find_spec("grader.batch.collect") is None:
        return _Collection(tuple(folders.collect(source, exercises, out)))
    module = importlib.import_module("grader.batch.collect")
    found = module.collect(source, exercises, layout=layout, merge=merge)
    inside = out.resolve().parent == source.resolve()
    kept = [each for each in found.handins if not (inside and each.id == out.resolve().name)]
    return replace(found, handins=tuple(kept))
