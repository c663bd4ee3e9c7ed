"""This project's specs, parsed once in a process of tests: every reader gets copies of its own."""

from __future__ import annotations

import functools
import pickle
from pathlib import Path

from grader.spec import EXERCISES, Exercise, course
from grader.spec.exercise import load_folder

_State = tuple[tuple[str, int], ...]


def read_once() -> None:
    """Have courses copy this project's specs as they were parsed, while no file changes."""
    vars(course)["load_folder"] = _copies


def _copies(folder: Path) -> dict[str, Exercise]:
    if Path(folder) != EXERCISES:
        return load_folder(folder)
    state = tuple((str(each), each.stat().st_mtime_ns) for each in sorted(EXERCISES.iterdir()))
    copies: dict[str, Exercise] = pickle.loads(_pickled(state))
    return copies


@functools.lru_cache(maxsize=1)
def _pickled(_: _State) -> bytes:
    return pickle.dumps(load_folder(EXERCISES))
