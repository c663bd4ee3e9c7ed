"""Changes of a submission's text that may undo its mistake, the likeliest first.

Likely is a change at the line of the failure, at a line that this line depends on, and at one that
names what separates failing cases from passing ones. It runs in the process that reads source.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from grader.grading import edits
from grader.grading.edit_scope import Edit, Scope
from grader.grading.source_text import Function, SourceText

LAUNCH_LINES = 5  # that a launch's arguments may take


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
    "past_filled": {"uninitialised_read", "wrong_values"},
    "past_array": {"invalid_read", "wrong_values", "uninitialised_read"},
    "cleared": {"uninitialised_read", "nondeterministic", "wrong_values"},
    "shared_bytes": {"wrote_out_of_bounds", "invalid_read"},
    "fills": {"uninitialised_read", "wrong_values", "not_finite"},
    "one_block": {"not_written", "wrong_values", "not_finite"},
    "parameters": {"modified_input", "wrong_values", "invalid_read", "wrote_out_of_bounds"},
    "grid": {"not_written", "wrong_values", "wrote_out_of_bounds", "launch_error"},
    "early_return": {"barrier_error"},
    "barrier_in_branch": {"barrier_error"},
    "no_guard": {"invalid_read", "wrote_out_of_bounds", "modified_input", "data_race"},
    "without_mask": {"invalid_read", "wrote_out_of_bounds", "modified_input", "data_race"},
    "mask_lacks": {"invalid_read", "wrote_out_of_bounds", "modified_input", "data_race"},
    "uninitialised": {"wrong_values", "not_finite", "nondeterministic", "uninitialised_read"},
    "lost_additions": {"data_race", "wrong_values", "nondeterministic"},
    "rounded_down": {
        "not_written",
        "wrong_values",
        "not_finite",
        "launch_error",
        "uninitialised_read",
    },
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
        "product",
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
