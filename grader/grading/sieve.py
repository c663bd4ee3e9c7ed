"""Refuses wrong edits of a CUDA C++ text by one program that holds many of them (switched.py).

Building a program takes a second, and longer with copies of large functions. This program has one
copy. It only refuses edits: one that it doesn't refuse is built and tried on its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from grader.cases import Case
from grader.executors import side_by_side
from grader.executors.runner import Coming, Runner, Text
from grader.grading import source_reading, switched
from grader.grading.edits.edit_scope import Edit
from grader.status import Status

WEAK = "early_return"  # a change that shows only that the barrier is reached, not right results
TRY_SECONDS = 0.15  # of computing, for one call: an endless loop takes all of them


@dataclass
class Sieve:
    """Edits of a submission, tried on failing cases.

    `status` is that of the first case without an edit. After `until`, a time of time.monotonic(),
    nothing is refused any more.
    """

    runner: Runner
    cases: Sequence[Case]  # the smallest first
    status: Status
    until: float
    _kept: dict[int, Edit] = field(default_factory=dict)  # by number, which is the place and 1
    _text: dict[str, Any] = field(default_factory=dict)  # with all of them
    _coming: Coming[Sequence[Runner]] | None = None
    _runners: dict[int, Runner] = field(default_factory=dict)  # by the edit's place
    _uncompiled: set[int] = field(default_factory=set)

    def begin(self, edits: Sequence[Edit]) -> None:
        """Have a program for these edits, whose places are asked for later, made meanwhile."""
        self._kept = {number: edit for number, edit in enumerate(edits, 1) if edit.name != WEAK}
        text = self._with_kept()
        if text is not None:
            self._coming = self.runner.behind(text, TRY_SECONDS, self._without)

    def close(self) -> None:
        """End all processes, and those that make the program."""
        if self._coming is not None:
            self._coming.close()
            self._coming = None
        for runner in self._runners.values():
            runner.close()
        self._runners.clear()

    def _with_kept(self) -> Text | None:
        """The text with the edits that are kept, and its entries; None where it is too late."""
        entry = self.runner.task.variant.entry
        self._text = _text(self.runner.source, entry, self._kept)
        if time.monotonic() > self.until or not self._text["numbers"]:
            return None
        return self._text["text"], [switched.entry_of(entry, each) for each in self._numbers]

    def _without(self, lines: Sequence[int]) -> Text | None:
        """The text without the edits that have these lines, which don't compile."""
        owners = self._text["owners"]
        wrong = [owners[line - 1] for line in lines if 0 < line <= len(owners)]
        lost = {number for number, _ in wrong} - {switched.AS_IT_IS}
        self._uncompiled |= {number - 1 for number, is_sure in wrong if is_sure}
        self._kept = {n: edit for n, edit in self._kept.items() if n not in lost}
        return self._with_kept() if lost else None

    @property
    def _numbers(self) -> list[int]:
        return [switched.AS_IT_IS, *self._text["numbers"]]

    def _take(self) -> None:
        """Wait for the program."""
        coming, self._coming = self._coming, None
        made = coming.take() if coming is not None else ()
        if made:
            places = (number - 1 for number in self._numbers)
            self._runners = dict(zip(places, made, strict=True))
            self._compare()

    def words(self, places: Sequence[int]) -> dict[int, bool | None]:
        """Whether edits make the cases right, by place; None where the program can't tell."""
        self._take()
        words: dict[int, bool | None] = dict.fromkeys(places)
        words |= dict.fromkeys(self._uncompiled.intersection(places), False)

        def judge(place: int, runner: Runner) -> None:
            with runner:
                if time.monotonic() <= self.until:
                    words[place] = _is_right(runner, self.cases)

        runners = [(each, self._runners.pop(each)) for each in places if each in self._runners]
        side_by_side.run((runner.queue, partial(judge, place, runner)) for place, runner in runners)
        return words

    def _compare(self) -> None:
        """Forget the program if it differs from the submission where no edit is made."""
        with self._runners.pop(switched.AS_IT_IS - 1) as unchanged:
            is_alike = unchanged.once(self.cases[0]).status is self.status
        if not is_alike:
            self.close()


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
