"""Changes of a submission's text that may undo its mistake, the likeliest first.

Likely is a change at the line of the failure, at a line that this line depends on, and at one that
names what separates failing cases from passing ones. It runs in the process that reads source.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from grader.executors.source_text import Change, Function, SourceText, changed
from grader.grading.edits import proposals
from grader.grading.edits.edit_scope import Edit, Scope

LAUNCH_LINES = 5  # that a launch's arguments may take
LINES_OF_HEADERS = 6  # above a race, of loops in front of which a barrier may be missing
BITS_PER_STEP = 1.3  # by which a change is less likely, a step further from the failure
BITS_PER_TURN = 0.7  # the same for the second of a name at a line; twice that for the fourth
BITS_IF_SHARED = 3  # by which one is less likely in a function that other variants use as well
BITS_OF_STATUS = 4  # the same for one that mostly undoes a failure of this status
BITS_OF_SUBJECT = 3  # by which one is likelier that is about what failing cases have in common
# How rare a change is among those proposed that undid a mistake of the corpora, by its name and
# cost, in bits: of changes with n, one in 2**n was right. Those too rare to count are estimates.
RARITY = {
    "advance": {1: 3}, "array_size": {1: 3, 2: 10}, "as_elsewhere": {1: 5}, "as_neighbour": {1: 6},
    "as_parameter": {1: 4}, "axes": {1: 5}, "axis": {1: 5}, "axis_of": {0: 1, 1: 4},
    "barrier": {1: 6}, "barrier_in_branch": {0: 5}, "builtin": {2: 7, 4: 11}, "bytes": {1: 4, 2: 6},
    "call": {2: 6, 4: 12}, "cast": {3: 8}, "cleared": {1: 4}, "component": {1: 3, 2: 5},
    "constant": {1: 6, 2: 9}, "copy": {1: 7}, "crossed": {0: 3, 1: 4}, "derived": {1: 7, 2: 9},
    "divisor": {1: 4}, "doubled": {2: 7}, "early_return": {0: 7},
    "exchanged": {0: 4, 1: 5, 2: 8, 3: 8, 4: 10}, "falls_through": {0: 3}, "filled_before": {0: 2},
    "filled_before_cast": {1: 4},
    "fills": {1: 8}, "function": {1: 8, 2: 5, 3: 8}, "grid": {0: 6, 1: 5, 2: 7},
    "group_start": {1: 3}, "guard_lacks": {1: 4, 2: 8}, "hoisted": {1: 4},
    "index": {1: 6, 3: 10, 4: 12}, "infinity": {1: 4, 3: 8}, "just_made": {2: 7}, "keyword": {2: 3},
    "last_group": {1: 3}, "last_of_block": {1: 3}, "launch_number": {1: 3}, "loop_lacks": {1: 5},
    "lost_additions": {3: 10}, "made_of": {1: 5}, "mask": {2: 4, 3: 11},
    "mask_lacks": {0: 3, 1: 4, 2: 7, 3: 10}, "mask_too_strict": {4: 9, 5: 8},
    "missing_term": {1: 10, 2: 9, 4: 10, 5: 14}, "name": {1: 8, 2: 9, 3: 12, 4: 12},
    "names": {1: 5, 2: 8, 3: 13}, "never_called": {1: 3}, "no_cast": {3: 6, 4: 10},
    "no_guard": {2: 9, 3: 10}, "not_advanced": {1: 4}, "not_clamped": {1: 5}, "not_kept": {1: 7},
    "not_moved": {1: 4, 2: 10}, "not_reset": {2: 7}, "not_shared": {0: 2},
    "number": {0: 4, 1: 7, 2: 6, 3: 9, 4: 11, 5: 10, 6: 11, 7: 10}, "numerator": {1: 4},
    "odd_function": {1: 4, 2: 6},
    "odd_index": {1: 3, 2: 6}, "odd_strides": {0: 2}, "odd_tensor": {1: 3},
    "off_by_one": {2: 8, 5: 13}, "offset": {2: 6}, "once": {0: 2}, "one_block": {1: 5},
    "one_of_warp": {1: 2}, "operator": {1: 6, 2: 9, 3: 9, 4: 12, 5: 12}, "order": {1: 5, 3: 8},
    "other_axis": {1: 4}, "pair": {2: 7, 3: 8}, "pairs": {0: 2}, "parameters": {3: 11},
    "parentheses": {1: 6, 2: 7, 3: 9}, "per_element": {1: 4}, "pitch": {1: 4},
    "past_array": {1: 8}, "past_filled": {1: 6},
    "pasted": {1: 4, 2: 6}, "power": {1: 8}, "product": {2: 7}, "program_offset": {0: 5},
    "quotients": {1: 6}, "rebound": {0: 3}, "reordered": {1: 5}, "returned": {2: 6},
    "rounded_down": {1: 5, 5: 9}, "running": {1: 3},
    "same_each_round": {0: 2}, "shared_bytes": {1: 7}, "sibling": {1: 6}, "signature": {0: 0},
    "sign": {3: 8, 4: 11}, "steps": {1: 5}, "stop": {1: 6}, "stop_lacks": {1: 3},
    "stride": {0: 5, 2: 11}, "subscripts": {1: 7, 2: 5, 4: 12}, "swizzle": {0: 2},
    "term": {3: 9, 4: 11}, "threads": {1: 3}, "tile": {1: 3}, "too_much": {5: 12},
    "transposed": {2: 6, 3: 10, 4: 9}, "turns": {1: 4}, "twice": {1: 4}, "two_lines": {1: 5},
    "uninitialised": {0: 5, 1: 5, 3: 7}, "unread": {1: 4}, "unused": {1: 4, 2: 8, 5: 10},
    "vector_offset": {0: 2}, "view": {1: 4, 3: 6}, "whole": {1: 6, 2: 9},
    "whole_blocks": {0: 2}, "whole_warp": {0: 2}, "whole_number": {0: 3, 1: 7, 4: 9},
    "whole_sum": {1: 6},
    "without_mask": {1: 4}, "without_other": {2: 8},
}  # fmt: skip
UNKNOWN = 9  # of a change that is in no corpus


def ranked(
    source: str,
    is_triton: bool,
    entry: str,
    status: str,
    lines: Sequence[int],
    condition: tuple[str, str],
    most: int,
    only: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """The likeliest changes of a source, as JSON; `lines` are the failure's.

    `condition` is the kind and the subject of what failing cases have in common; ("", "") for none.
    `only` has the names of changes, where not all are asked for. The entry has the stub's
    parameters, as in "silu(x, out)", or none where they aren't known.
    """
    kind, subject = condition
    text = SourceText(source, is_triton)
    name_of_entry, *stub = re.findall(r"\w+", entry)
    reached = text.reached(name_of_entry)
    near = _Nearness(text, reached, lines, subject)
    about = _Subject(source, kind, subject)
    scored: list[tuple[float, int, Edit]] = []
    turns: Counter[tuple[str, int]] = Counter()
    users = [each for each in text.functions.values() if each not in reached]
    for function in reached:
        # Other variants of the file use it, too, and are right more often than not.
        name = re.compile(rf"\b{function.name}\b")
        is_shared = any(name.search(text.code, each.start, each.end) for each in users)
        scope = Scope(text, function, reached, is_triton, stub)
        for edit in proposals.edits_of(scope):
            if not _fits(edit, status) or (only and edit.name not in only):
                continue
            # Changes of one name at one line share its likelihood.
            turns[edit.name, edit.line] += 1
            known = RARITY.get(edit.name, {})
            rarity = float(known.get(edit.cost, UNKNOWN + edit.cost))
            rarity += BITS_PER_TURN * math.log2(turns[edit.name, edit.line])
            rarity += BITS_IF_SHARED * is_shared
            rarity -= BITS_OF_STATUS * (status in _TYPICAL.get(edit.name, ()))
            rarity += BITS_PER_STEP * near.of(edit) - BITS_OF_SUBJECT * about(edit)
            scored.append((rarity, len(scored), replace(edit, cost=round(rarity))))
    scored.sort(key=lambda each: each[:2])
    likely: dict[tuple[Change, ...], Edit] = {}
    for *_, edit in scored:
        likely.setdefault(edit.changes, edit)  # of equal ones the likeliest
    can_be_read = _Reading(source, text.functions.values()) if is_triton else lambda edit: True
    return [asdict(edit) for edit in itertools.islice(filter(can_be_read, likely.values()), most)]


class _Reading:
    """Whether a changed text is still Python: only its changed functions are compiled."""

    def __init__(self, source: str, functions: Iterable[Function]) -> None:
        spans = [(each.start, each.end) for each in functions]
        self._source = source
        self._alone = [span for span in spans if _is_python(source[slice(*span)])]

    def __call__(self, edit: Edit) -> bool:
        left, alone = [*edit.changes], []
        for start, end in self._alone:
            own = [each for each in left if start <= each.start and each.end <= end]
            if own:
                left = [each for each in left if each not in own]
                alone.append(changed(self._source, own, start, end))
        return all(map(_is_python, [changed(self._source, edit.changes)] if left else alone))


def _is_python(text: str) -> bool:
    try:
        compile(text, "", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


_WRONG = frozenset({"wrong_values", "not_finite"})
_OUTSIDE = frozenset({"invalid_read", "wrote_out_of_bounds", "modified_input", "data_race"})
# Kinds of changes that only undo some failures.
_ONLY = {
    "barrier": {"data_race", "nondeterministic", "barrier_error", "uninitialised_read"},
    "infinity": _WRONG,
    "filled_before_cast": _WRONG,
    "past_filled": {"uninitialised_read", "wrong_values"},
    "past_array": {"invalid_read", "wrong_values", "uninitialised_read"},
    "array_size": {"wrote_out_of_bounds", "invalid_read", "crashed", "wrong_values"},
    "cleared": {"uninitialised_read", "nondeterministic", "not_written", *_WRONG},
    "shared_bytes": {"wrote_out_of_bounds", "invalid_read"},
    "fills": {"uninitialised_read", "wrong_values", "not_finite"},
    "one_block": {"not_written", "wrong_values", "not_finite"},
    "parameters": {"modified_input", "wrong_values", "invalid_read", "wrote_out_of_bounds"},
    "grid": {"not_written", "wrong_values", "wrote_out_of_bounds", "launch_error"},
    "early_return": {"barrier_error"},
    "barrier_in_branch": {"barrier_error", "data_race"},
    **dict.fromkeys(["no_guard", "without_mask", "mask_lacks"], _OUTSIDE),
    "uninitialised": {"wrong_values", "not_finite", "nondeterministic", "uninitialised_read"},
    "lost_additions": {"data_race", "wrong_values", "nondeterministic"},
    "no_cast": _WRONG,
    "cast": _WRONG,
}


# Changes that mostly undo failures of these statuses, among others.
_TYPICAL = {
    "array_size": {"wrote_out_of_bounds", "invalid_read"},
    "early_return": {"barrier_error"},
    "fills": {"uninitialised_read"},
    "past_filled": {"uninitialised_read"},
}
# A race may end by chance, with fewer threads or less work. Only these changes count.
_OF_RACES = frozenset([
    "barrier", "barrier_in_branch", "lost_additions", "index", "name", "names", "subscripts",
    "unused", "missing_term", "exchanged", "quotients", "mask_lacks", "without_mask", "no_guard",
    "guard_lacks", "term", "stride", "axes", "fills", "product", "as_elsewhere", "uninitialised",
    "cleared", "not_moved", "as_neighbour", "as_parameter", "axis_of", "component", "just_made",
    "made_of", "odd_index", "reordered", "turns", "whole", "one_of_warp", "crossed", "once",
    "never_called", "tile", "mask", "signature", "not_shared", "pairs",
])  # fmt: skip


def _fits(edit: Edit, status: str) -> bool:
    if status in ("data_race", "nondeterministic") and edit.name not in _OF_RACES:
        return False
    return status in _ONLY.get(edit.name, {status})


_OF_DATA = frozenset(
    {"no_cast", "cast", "infinity", "without_other", "function", "numerator", "sign"}
)


@dataclass(frozen=True)
class _Subject:
    """Tells whether a change is about what failing cases have in common: a size, a layout, data."""

    source: str
    kind: str
    subject: str

    def __call__(self, edit: Edit) -> bool:
        if not self.subject:
            return False
        if self.kind == "data":
            return edit.name in _OF_DATA
        texts = [self.source[each.start : each.end] + each.new for each in edit.changes]
        if self.kind == "layout" and "stride" in "".join(texts):
            return True
        return self.kind != "layout" and any(map(_named(self.subject).search, texts))


def _named(subject: str) -> re.Pattern[str]:
    """Names that a program may have for a size or an argument: `n_rows`, `rows`, `stride_x`."""
    return re.compile(
        rf"(?<![A-Za-z])(?:n_)?{re.escape(subject)}\b|{re.escape(subject)}_", re.IGNORECASE
    )


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
            name = _named(subject)
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
            low, high = self._span
            is_near = low - LINES_OF_HEADERS <= edit.line
            return 9 if edit.line > high or not is_near else int(edit.line < low)
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
                    if any((m[1] or m[2]) in names for m in _ASSIGNED.finditer(self._line(number)))
                } | {number for line in nearest for number in self._deciding(first, line)}
        launched = re.compile(rf"\b(?:{'|'.join(kernels)})\s*(?:\[|<<<)")
        for number, text in enumerate(self._text.lines, 1):
            if kernels and launched.search(text):
                for line in range(number, number + LAUNCH_LINES):
                    self._distance.setdefault(line, 1)

    def _line(self, number: int) -> str:
        return self._text.lines[number - 1]

    def _deciding(self, first: int, line: int) -> Iterator[int]:
        """The lines whose blocks a line is in, by indentation, and returns at lines before it."""
        indent = _indent(self._line(line))
        for number in range(line - 1, first - 1, -1):
            text = self._line(number)
            if text.strip() and _indent(text) < indent:
                indent = _indent(text)
                yield number
            elif _RETURNS.match(f"{text}{self._line(number + 1).strip()}"):
                yield number


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


_RETURNS = re.compile(r"\s*if\b.*[{:)]\s*return\b")
# The names that a line gives a value.
_ASSIGNED = re.compile(
    r"([A-Za-z_]\w*)(?:\[[^\]\n]*\])*\s*(?:[-+*/]|<<|>>)?=(?!=)|\bfor\s+([A-Za-z_]\w*)"
)
