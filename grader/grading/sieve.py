"""Edits of a CUDA C++ text that one program for many shows to be wrong (switched.py).

Building a program takes a second, and longer with copies of large functions. This program has one
copy. It only refuses edits: one that it doesn't refuse is built and tried on its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from grader.cases import Case
from grader.executors.runner import Runner
from grader.grading import source_reading, switched
from grader.grading.edit_scope import Edit
from grader.status import Status

WEAK = "early_return"  # a change that shows only that the barrier is reached, not right results
TRY_SECONDS = 0.15  # of computing, for one call: an endless loop takes all of them
MOST_BUILDS = 6  # until edits are left out that don't compile


@dataclass
class Sieve:
    """Edits of a submission, tried on failing cases; a context manager.

    `status` is that of the first case without an edit. After `until`, a time of time.monotonic(),
    nothing is refused any more.
    """

    runner: Runner
    cases: Sequence[Case]  # the smallest first
    status: Status
    until: float
    _runners: dict[int, Runner] = field(default_factory=dict)  # by the edit's place
    _uncompiled: set[int] = field(default_factory=set)

    def __enter__(self) -> Sieve:
        return self

    def __exit__(self, *_: object) -> None:
        for runner in self._runners.values():
            runner.close()
        self._runners.clear()

    def take(self, edits: Sequence[Edit]) -> None:
        """Have a program for these edits, whose places are asked for later."""
        kept = {number: edit for number, edit in enumerate(edits, 1) if edit.name != WEAK}
        entry = self.runner.task.variant.entry
        for _ in range(MOST_BUILDS):
            text = _text(self.runner.source, entry, kept)
            if time.monotonic() > self.until or not text["numbers"]:
                return
            numbers = [switched.AS_IT_IS, *text["numbers"]]
            entries = [switched.entry_of(entry, each) for each in numbers]
            made = self.runner.behind(text["text"], entries, TRY_SECONDS)
            if made.runners:
                places = (number - 1 for number in numbers)
                self._runners = dict(zip(places, made.runners, strict=True))
                self._compare()
                return
            owners = text["owners"]
            wrong = [owners[line - 1] for line in made.wrong if 0 < line <= len(owners)]
            lost = {number for number, _ in wrong} - {switched.AS_IT_IS}
            self._uncompiled |= {number - 1 for number, is_sure in wrong if is_sure}
            if not lost:
                return
            kept = {number: edit for number, edit in kept.items() if number not in lost}

    def is_right(self, place: int) -> bool | None:
        """Whether an edit makes the cases right; None where the program can't tell."""
        if place in self._uncompiled:
            return False
        runner = self._runners.pop(place, None)
        if runner is None:
            return None
        try:
            return None if time.monotonic() > self.until else _is_right(runner, self.cases)
        finally:
            runner.close()

    def _compare(self) -> None:
        """Forget the program if it differs from the submission where no edit is made."""
        with self._runners.pop(switched.AS_IT_IS - 1) as unchanged:
            is_alike = unchanged.once(self.cases[0]).status is self.status
        if not is_alike:
            self.__exit__()


def _is_right(runner: Runner, cases: Sequence[Case]) -> bool:
    """Whether no case is wrong. Only in the first, a small one, too slow is wrong as well."""
    for case in cases:
        result = runner.once(case)
        if not result.verdict.passed:
            return case is not cases[0] and result.status is Status.timed_out
    return True


def _text(source: str, entry: str, edits: Mapping[int, Edit]) -> dict[str, Any]:
    """What switched.py makes of the edits, in the process that reads source."""
    changes = {f"{number}": [asdict(each) for each in edits[number].changes] for number in edits}
    try:
        made: dict[str, Any] = source_reading.limited(switched.switched, source, entry, changes)
    except source_reading.TooInvolved:
        return {"text": "", "numbers": [], "owners": []}
    return made
