"""The difference between two plans of one case, in words: a launcher should repeat its plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from grader.plan.model import Alloc, Launch, Plan, Specialisation, Step
from grader.plan.text import Names, described, literal

_LONGEST = 120  # characters of a step
_VERBS = {
    "allocate": "allocates",
    "free": "frees",
    "fill": "fills",
    "copy": "copies",
    "upload": "uploads",
    "launch": "launches",
    "try": "tries",
    "record": "records",
    "wait": "waits:",
    "torch": "has torch compute",
    "read": "reads",
    "refused": "is refused",
}


def difference(first: Plan, again: Plan, names: Sequence[str] = (), file: str = "") -> str:
    """The first difference, with both values and its line; "" where there is none.

    'silu.py:16 launches k with BLOCK=256 in one plan and BLOCK=512 in another of the same case'.
    `names` are those of the entry's arguments, `file` is the submission's.
    """
    one, other = Names(first, names, file), Names(again, names, file)
    for before, after in zip(first.calls, again.calls, strict=False):
        for step, instead in zip_longest(before, after):
            if step != instead or _kernel(first, step) != _kernel(again, instead):
                return _between(one, step, other, instead)
            if isinstance(step, Alloc):
                sizes = [plan.buffers[step.buffer].bytes for plan in (first, again)]
                if sizes[0] != sizes[1]:
                    return _said(one, step, "allocates", *(f"{size:,} bytes" for size in sizes))
    if len(first.calls) != len(again.calls):
        return "a second call is in one plan and not in another of the same case"
    if first.specialisations != again.specialisations:
        return "the kernels' constants or options are others in another plan of the same case"
    if first.buffers != again.buffers:
        return "the memory that is allocated is another in another plan of the same case"
    return ""


def _kernel(plan: Plan, step: Step | None) -> Any:
    return plan.specialisations[step.specialisation] if isinstance(step, Launch) else None


def _between(one: Names, step: Step | None, other: Names, instead: Step | None) -> str:
    """The difference between two steps at one place; None stands for no step."""
    if step is None or instead is None:
        names, only = (one, step) if step is not None else (other, instead)
        if only is None:
            return ""
        return f"{_subject(names, only)} {_does(names, only)} in one plan of a case only"
    if isinstance(step, Launch) and isinstance(instead, Launch):
        kernel, replaced = one.kernel(step), other.kernel(instead)
        if kernel != replaced:
            return _said(one, step, "launches", kernel, replaced)
        for how, value, changed in _of_launches(one, step, other, instead):
            if value != changed:
                return _said(one, step, f"launches {kernel} {how}", value, changed)
    verb, target = described(step, one)
    other_verb, changed = described(instead, other)
    if verb == other_verb and target != changed:
        return _said(one, step, _VERBS[verb], target[:_LONGEST], changed[:_LONGEST])
    return _said(one, step, "", _does(one, step), _does(other, instead))


def _of_launches(
    one: Names, step: Launch, other: Names, instead: Launch
) -> Iterator[tuple[str, str, str]]:
    """(words before the value, value, value in the other plan) of two launches of a kernel."""
    kernel = one.plan.specialisations[step.specialisation]
    replaced = other.plan.specialisations[instead.specialisation]
    if isinstance(kernel, Specialisation) and isinstance(replaced, Specialisation):
        for name, value, changed in (
            *_pairs(kernel.constants, replaced.constants),
            *_pairs(kernel.options, replaced.options),
        ):
            yield "with", _set(name, value), _set(name, changed)
    yield "on", one.grid(step), other.grid(instead)
    parameters = [
        name
        for name, kind in getattr(kernel, "signature", {}).items()
        if kind != "constexpr" and not isinstance(kind, dict)
    ]
    if len(parameters) == len(step.arguments) == len(instead.arguments):
        for name, given, changed in zip(parameters, step.arguments, instead.arguments, strict=True):
            yield "with", f"{name}={one.argument(given)}", f"{name}={other.argument(changed)}"
    yield "on", f"stream {step.stream}", f"stream {instead.stream}"


def _pairs(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(name, value, value in the other mapping), with None for a missing value."""
    for name in {**one, **other}:
        yield name, one.get(name), other.get(name)


def _set(name: str, value: Any) -> str:
    return f"{name}={literal(value)}"


def _said(names: Names, step: Step, does: str, value: str, changed: str) -> str:
    subject = " ".join(filter(None, (_subject(names, step), does, value)))
    return f"{subject} in one plan and {changed} in another of the same case"


def _subject(names: Names, step: Step) -> str:
    """The line that asks for a step, if one does: freeing memory has none."""
    line = getattr(step, "line", 0)
    return f"{names.file}:{line}" if line and names.file else "the launcher"


def _does(names: Names, step: Step) -> str:
    verb, target = described(step, names)
    return f"{_VERBS[verb]} {target[:_LONGEST]}"
