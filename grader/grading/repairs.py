"""Causes that a repair shows: a small change of the text with which failing cases become right.

The changed texts run as the submission does, in its sandbox. Those most likely are tried first: at
the line of the failure, at what that line depends on, at lines that name what separates failing
cases from passing ones. Many are tried at once, as functions of one file.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from grader.cases import Case
from grader.cases.compare import RAISED, RETURNED
from grader.evidence import SourceLine
from grader.executors.runner import CaseResult, Runner
from grader.grading import edits, source_reading
from grader.grading.diagnosis import Cause, Separation
from grader.grading.edit_scope import Edit, Scope
from grader.grading.source_text import Change, Function, SourceText
from grader.status import Status

MOST_CHARACTERS = 60_000  # of a source
MOST_COST_OF_LIKELY = 2
LAUNCH_LINES = 5  # that a launch's arguments may take
MOST_TRIED = {"triton": 48, "cuda": 48}
AT_ONCE = {"triton": 8, "cuda": 12}  # in one file
SECONDS = 12.0  # for all on one failure
FURTHER = 6  # failing cases, beside the smallest, that have to become right
PASSING = 3  # cases that have to stay right
_REPAIRABLE = frozenset(
    {
        Status.wrong_values,
        Status.not_finite,
        Status.not_written,
        Status.wrote_out_of_bounds,
        Status.invalid_read,
        Status.modified_input,
        Status.data_race,
        Status.uninitialised_read,
        Status.nondeterministic,
        Status.barrier_error,
        Status.crashed,
    }
)
# Only seen in some of a case's runs.
_OF_SEVERAL_RUNS = frozenset({Status.data_race, Status.nondeterministic})


@dataclass(frozen=True)
class Failing:
    """A failure, and the cases that a repair is tried on."""

    result: CaseResult
    failing: Sequence[Case]  # the smallest first
    passing: Sequence[Case]
    separation: Separation | None
    only: frozenset[str] = frozenset()  # names of changes that are tried, where not all are
    likely_only: bool = False  # whether only the likeliest are tried


class Repairs:
    """Tries repairs of one task, and keeps those that were right for its other parts."""

    def __init__(self) -> None:
        self._known: list[tuple[Edit, Runner]] = []
        self._is_spent = False  # a failure stays without a repair, so that no more are tried

    def close(self) -> None:
        """End the processes of repairs."""
        for _, runner in self._known:
            runner.close()
        self._known.clear()

    def again(self, runner: Runner, failure: Failing) -> Cause | None:
        """The mistake of another part, where what undoes that makes these cases right, too."""
        if runner.on_gpu or _names_its_cause(failure.result):
            return None
        for edit, changed in self._known:
            if is_right(changed, failure, edit):
                return _cause(edit, runner.source)
        return None

    def cause_of(self, runner: Runner, failure: Failing) -> Cause | None:
        """The mistake that a change undoes, where the failing cases are right with it."""
        result = failure.result
        if result.status not in _REPAIRABLE or _names_its_cause(result):
            return None
        if not 0 < len(runner.source) <= MOST_CHARACTERS or runner.on_gpu or self._is_spent:
            return None
        if len(failure.failing) < 2:
            return None  # one case may become right by chance
        proposed = proposals(runner, failure)
        if failure.only:
            proposed = [each for each in proposed if each.name in failure.only]
        if failure.likely_only:
            proposed = [each for each in proposed if each.cost <= MOST_COST_OF_LIKELY]
        repair = _tried(runner, failure, proposed)
        if repair is None:
            self._is_spent = not (failure.only or failure.likely_only)
            return None
        self._known.append(repair)
        return _cause(repair[0], runner.source)


def _names_its_cause(result: CaseResult) -> bool:
    """Whether the message says what to change: an exception, an entry that returns its result,
    and the atomic operation on which the order of programs depends."""
    is_ordered = result.status is Status.nondeterministic and bool(result.hint)
    return is_ordered or result.verdict.pattern in (RAISED, RETURNED)


def _tried(
    runner: Runner, failure: Failing, proposed: Sequence[Edit]
) -> tuple[Edit, Runner] | None:
    """The first edit with which all cases are right, and its runner, which stays open."""
    until = time.monotonic() + SECONDS
    variant = runner.task.variant
    text = SourceText(runner.source, variant.language == "triton")
    reached = text.reached(variant.entry)
    for first in range(0, len(proposed), AT_ONCE[variant.language]):
        together = proposed[first : first + AT_ONCE[variant.language]]
        if time.monotonic() > until:
            return None
        copies = [
            text.copy(reached, f"__{number}", edit.changes) for number, edit in enumerate(together)
        ]
        names = [f"{variant.entry}__{number}" for number in range(len(together))]
        repair = None
        for edit, changed in zip(together, runner.altered(copies, names), strict=True):
            if changed is None:
                continue
            is_tried = repair is None and time.monotonic() < until
            if is_tried and is_right(changed, failure, edit):
                repair = edit, changed
            else:
                changed.close()
        if repair is not None:
            return repair
    return None


def is_right(runner: Runner, failure: Failing, edit: Edit) -> bool:
    """Whether a changed text is right in the failing cases, and still in passing ones.

    Without a `return` threads beyond the end go on: it is enough that the barrier is reached.
    """
    several = failure.result.status in _OF_SEVERAL_RUNS
    if edit.name == "early_return":
        statuses = {runner.once(case).status for case in failure.failing}
        return failure.result.status not in statuses
    for case in (*failure.failing, *failure.passing):
        result = runner.run(case) if several else runner.once(case)
        if not result.verdict.passed:
            return False
    return True


def failing_of(
    result: CaseResult, results: Sequence[CaseResult], separation: Separation | None
) -> Failing:
    """A failure with the cases to try repairs on: of those run, the smallest and large ones."""
    assert result.case is not None

    def spread(chosen: list[Case], most: int) -> list[Case]:
        chosen.sort(key=lambda case: case.complexity, reverse=True)
        return chosen[:: max(1, -(-len(chosen) // most))] if chosen else []

    failing = [
        each.case
        for each in results
        if each.case not in (None, result.case) and not each.verdict.passed
    ]
    passing = [each.case for each in results if each.case is not None and each.verdict.passed]
    cases = [result.case, *spread([each for each in failing if each is not None], FURTHER)]
    return Failing(result, cases, spread(passing, PASSING), separation)


# --- which changes are likely ------------------------------------------------------------------


def proposals(runner: Runner, failure: Failing) -> list[Edit]:
    """Changes of the submission's text, the likeliest first."""
    condition = failure.separation.condition if failure.separation else None
    lines = [line for line, _ in failure.result.marks] or [failure.result.line or 0]
    variant = runner.task.variant
    try:
        read = source_reading.limited(
            ranked,
            runner.source,
            variant.language == "triton",
            variant.entry,
            failure.result.status.value,
            [line for line in lines if line],
            condition.subject if condition else "",
            MOST_TRIED[variant.language],
        )
    except source_reading.TooInvolved:
        return []
    return [_read(each) for each in read]


def _read(fields: dict[str, Any]) -> Edit:
    changes = tuple(Change(**each) for each in fields["changes"])
    return Edit(**{**fields, "changes": changes})


def ranked(
    source: str,
    is_triton: bool,
    entry: str,
    status: str,
    lines: Sequence[int],
    subject: str,
    most: int,
) -> list[dict[str, Any]]:
    """The likeliest changes of a source, as JSON; `lines` are the failure's."""
    text = SourceText(source, is_triton)
    reached = text.reached(entry)
    near = _Nearness(text, reached, lines, subject)
    scored: list[tuple[int, int, int, Edit]] = []
    of_line: dict[tuple[int, int], int] = {}
    for function in reached:
        scope = Scope(text, function, reached, is_triton)
        for edit in edits.edits_of(scope):
            if not _fits(edit, status):
                continue
            # Of changes that are as likely, those of different lines take turns.
            score = edit.cost + near.of(edit)
            turn = of_line[score, edit.line] = of_line.get((score, edit.line), 0) + 1
            scored.append((score, turn, len(scored), edit))
    scored.sort(key=lambda each: each[:3])
    likely = (edit for *_, edit in scored)
    sound = (edit for edit in likely if not is_triton or _can_be_read(source, edit))
    return [asdict(edit) for edit in itertools.islice(sound, most)]


def _can_be_read(source: str, edit: Edit) -> bool:
    """Whether a changed text is still Python."""
    for change in sorted(edit.changes, key=lambda each: each.start, reverse=True):
        source = source[: change.start] + change.new + source[change.end :]
    try:
        compile(source, "", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


# Kinds of changes that only undo some failures.
_ONLY = {
    "barrier": {"data_race", "nondeterministic", "barrier_error", "uninitialised_read"},
    "infinity": {"wrong_values", "not_finite"},
    "past_array": {"invalid_read", "wrong_values", "uninitialised_read"},
    "fills": {"uninitialised_read", "wrong_values", "not_finite"},
    "one_block": {"not_written", "wrong_values"},
    "parameters": {"modified_input", "wrong_values", "invalid_read", "wrote_out_of_bounds"},
    "grid": {"not_written", "wrong_values", "wrote_out_of_bounds", "launch_error"},
    "early_return": {"barrier_error"},
    "barrier_in_branch": {"barrier_error"},
    "no_guard": {"invalid_read", "wrote_out_of_bounds", "modified_input", "data_race"},
    "without_mask": {"invalid_read", "wrote_out_of_bounds", "modified_input", "data_race"},
    "mask_lacks": {"invalid_read", "wrote_out_of_bounds", "modified_input", "data_race"},
    "uninitialised": {"wrong_values", "not_finite", "nondeterministic", "uninitialised_read"},
    "lost_additions": {"data_race", "wrong_values", "nondeterministic"},
    "rounded_down": {"not_written", "wrong_values", "launch_error", "uninitialised_read"},
    "no_cast": {"wrong_values", "not_finite"},
    "cast": {"wrong_values", "not_finite"},
}


# A race may end by chance, with fewer threads or less work. Only these changes count.
_OF_RACES = frozenset(
    [
        "barrier",
        "lost_additions",
        "index",
        "name",
        "names",
        "subscripts",
        "unused",
        "missing_term",
        "exchanged",
        "quotients",
        "mask_lacks",
        "without_mask",
        "no_guard",
        "guard_lacks",
        "term",
        "stride",
        "axes",
        "fills",
    ]
)


def _fits(edit: Edit, status: str) -> bool:
    if status in ("data_race", "nondeterministic") and edit.name not in _OF_RACES:
        return False
    return status in _ONLY.get(edit.name, {status})


class _Nearness:
    """How near a line is to the failure: 0 at it, larger further away."""

    def __init__(
        self, text: SourceText, reached: Sequence[Function], lines: Sequence[int], subject: str
    ) -> None:
        self._text = text
        self._distance: dict[int, int] = {}
        self._far = 3 if lines else 1
        self._span = (
            (min(lines) - (12 if len(lines) == 1 else 1), max(lines) + 4) if lines else (0, 0)
        )
        if lines:
            self._around(reached, lines)
        elif subject:
            name = re.compile(
                rf"(?<![A-Za-z])(?:n_)?{re.escape(subject)}\b|{re.escape(subject)}_", re.I
            )
            within = 0  # the indentation of a block that such a line begins
            for number, line in enumerate(text.code.split("\n"), 1):
                if name.search(line):
                    self._distance[number] = 0
                    within = _indent(line) if line.rstrip().endswith((":", "{")) else 0
                elif within and line.strip() and _indent(line) > within:
                    self._distance[number] = 0
                elif line.strip():
                    within = 0

    def of(self, edit: Edit) -> int:
        """The distance of an edit's line."""
        if edit.name == "barrier":
            return 0 if self._span[0] <= edit.line <= self._span[1] else 9
        return self._distance.get(edit.line, self._far)

    def _around(self, reached: Sequence[Function], lines: Sequence[int]) -> None:
        names: set[str] = set()
        kernels: set[str] = set()
        for function in reached:
            first, last = (self._text.line_at(at) for at in (function.start, function.end - 1))
            own = [line for line in lines if first <= line <= last]
            if not own:
                continue
            kernels.add(function.name)
            nearest = set(own)
            for distance in range(3):
                for line in nearest:
                    self._distance.setdefault(line, distance)
                names = {
                    name
                    for line in nearest
                    for name in re.findall(r"[A-Za-z_]\w*", self._line(line))
                }
                nearest = {
                    number
                    for number in range(first, last + 1)
                    if any(name in names for name in _assigned(self._line(number)))
                } | {number for line in nearest for number in self._headers(first, line)}
        launched = re.compile(rf"\b(?:{'|'.join(kernels)})\s*(?:\[|<<<)")
        for number, text in enumerate(self._text.lines, 1):
            if kernels and launched.search(text):
                for line in range(number, number + LAUNCH_LINES):
                    self._distance.setdefault(line, 1)

    def _line(self, number: int) -> str:
        return self._text.lines[number - 1]

    def _headers(self, first: int, line: int) -> Iterator[int]:
        """The lines whose blocks a line is in, by indentation."""
        indent = _indent(self._line(line))
        for number in range(line - 1, first - 1, -1):
            text = self._line(number)
            if text.strip() and _indent(text) < indent:
                indent = _indent(text)
                yield number


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


_ASSIGNED = re.compile(
    r"([A-Za-z_]\w*)(?:\[[^\]\n]*\])*\s*(?:[-+*/]|<<|>>)?=(?!=)|\bfor\s+([A-Za-z_]\w*)"
)


def _assigned(line: str) -> list[str]:
    """The names that a line gives a value."""
    return [match[1] or match[2] for match in _ASSIGNED.finditer(line)]


# --- what is told ------------------------------------------------------------------------------


def _cause(edit: Edit, source: str) -> Cause:
    """The cause with the lines that are changed; of a barrier the two that race say more."""
    lines = source.split("\n")
    marked = []
    for change in edit.changes[:2]:
        number = edit.line if len(edit.changes) == 1 else source.count("\n", 0, change.start) + 1
        text = lines[number - 1] if number <= len(lines) else ""
        begin = sum(len(line) + 1 for line in lines[: number - 1])
        start = max(0, change.start - begin)
        length = max(1, min(change.end - change.start, len(text) - start))
        if change.start == change.end or not text[start : start + length].strip():
            start, length = 0, 0
        marked.append(SourceLine(number, text.rstrip(), "", start, length))
    one_each = {each.line: each for each in marked}
    advice = edit.advice
    if not advice:
        advice = "With this change the failing cases that were tried are right."
    code = () if edit.name == "barrier" else tuple(one_each.values())
    return Cause(edit.name, edit.what, advice, code)
