"""Small changes of a submission's text, each of which undoes one mistake that students make.

A change says nothing by itself. repairs.py runs the changed text and tells the change as the cause
only where failing cases become right with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from grader.executors.source_text import Change
from grader.grading.edits import (
    block_edits,
    common_edits,
    cuda_edits,
    loop_edits,
    mask_edits,
    neighbour_edits,
    schemas,
    triton_edits,
)
from grader.grading.edits.edit_scope import Edit, Scope

MOST_PER_LINE = 240  # changes of one line


def edits_of(scope: Scope) -> list[Edit]:
    """All changes of a function, without order; one may come twice, by different rules."""
    counts: dict[int, int] = {}
    is_kernel = scope.function.is_kernel
    of_triton = triton_edits.OF_KERNELS if is_kernel else triton_edits.OF_LAUNCHERS
    own = (*mask_edits.RULES, *of_triton) if scope.is_triton else cuda_edits.RULES
    made: list[Edit] = []
    as_named, special = {*_as_named(scope)}, [*_special(scope)]
    beside = (*neighbour_edits.RULES, *loop_edits.RULES, *block_edits.RULES)
    for rule in (*own, *beside, *common_edits.RULES, *schemas.RULES):
        for edit in rule(scope):
            is_as_named = not as_named.isdisjoint(map(_span, edit.changes))
            if _chooses_kernel(scope, edit) or (is_as_named and edit.name != "unused"):
                continue
            # Half of an exchange alone would look so: `a - b`, `b - a`.
            if len(edit.changes) == 1 and _cancels(scope, edit.changes[0]):
                continue
            if any(
                all(low <= e.start and e.end <= high for e in edit.changes) for low, high in special
            ):
                continue
            counts[edit.line] = counts.get(edit.line, 0) + 1
            if counts[edit.line] <= MOST_PER_LINE:
                made.append(edit)
    return [*made, *neighbour_edits.at_all_places(made)]


def _span(change: Change) -> tuple[int, int]:
    return change.start, change.end


MOST_AROUND = 80  # characters beside a change that are looked at


def _cancels(scope: Scope, change: Change) -> bool:
    """Whether a change makes a term such as `n - n` or `n / n`, which nobody writes for 0 or 1."""
    if not change.new.isidentifier():
        return False
    code = scope.text.code
    before = code[max(change.start - MOST_AROUND, 0) : change.start]
    after = code[change.end : change.end + MOST_AROUND]
    is_first = re.search(rf"(?<![\w.]){change.new} (?:-|//?|%) $", before)
    is_last = re.match(rf" (?:-|//?|%) {change.new}(?![\w.(\[])", after)
    return (is_first or is_last) is not None


def _as_named(scope: Scope) -> Iterator[tuple[int, int]]:
    """Arguments that are called as their parameters are: another one is hardly meant there.

    Unless it is one that nothing reads.
    """
    for call in scope.calls:
        callee = scope.callee_of(call)
        for span, name in zip(call.arguments, callee.parameters if callee else (), strict=False):
            if scope.text.source[slice(*span)] == name:
                yield span


def _special(scope: Scope) -> Iterator[tuple[int, int]]:
    """Conditions that single out a size: another number there only moves what fails, or hides it.

    Such as `n == 48` or `n % 96 == 48`. 0 and 1 are what a condition may rightly be about.
    """
    sizes = "|".join(sorted(scope.function.integers))
    pattern = rf"\b(?:{sizes})(?: % \w+)? [=!]= (?:[2-9]|\d\d+)\b"
    for match in scope.matches(pattern) if sizes else ():
        yield match.span()


def _chooses_kernel(scope: Scope, edit: Edit) -> bool:
    """Whether a launcher's line chooses between kernels: another choice only hides a mistake.

    What stands behind the condition, from the launch on, is changed all the same.
    """
    kernels = scope.kernels
    head = scope.text.code[scope.function.start : scope.function.body]
    if scope.function.is_kernel or "__device__" in head or len(kernels) < 2:
        return False
    line = scope.code_line(edit.line)
    launch = line.find("<<<")
    start = min(each.start for each in edit.changes) - scope.text.starts[edit.line - 1]
    chooses = re.search(r"\bif\b|\belse\b|\?", line)
    return chooses is not None and not 0 <= launch < start
