"""What differs between two plans of one case, in words: a launcher should ask for the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from grader.plan.model import Alloc, Launch, Plan, Specialisation, Step
from grader.plan.text import Words, literal

_LONGEST = 120  # characters of what a step is
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
    """What differs, with both values and its line: "" where nothing does.

    'silu.py:16 launches k with BLOCK=256 in one plan and BLOCK=512 in another of the same case'.
    `names` are those of the entry's arguments, `file` is the submission's.
    """
    one, other = Words(first, names, file), Words(again, names, file)
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


def _between(one: Words, step: Step | None, other: Words, instead: Step | None) -> str:
    """How two steps at one place differ; None stands for no step."""
    if step is None or instead is None:
        words, there = (one, step) if instead is None else (other, instead)
        return f"{_subject(words, there)} {_does(words, there)} in one plan of a case only"
    if isinstance(step, Launch) and isinstance(instead, Launch):
        kernel, replaced = one.kernel(step), other.kernel(instead)
        if kernel != replaced:
            return _said(one, step, "launches", kernel, replaced)
        for how, value, changed in _of_launches(one, step, other, instead):
            if value != changed:
                return _said(one, step, f"launches {kernel} {how}", value, changed)
    verb, what = one.words(step)
    told, changed = other.words(instead)
    if verb == told and what != changed:
        return _said(one, step, _VERBS[verb], what[:_LONGEST], changed[:_LONGEST])
    return _said(one, step, "", _does(one, step), _does(other, instead))


def _of_launches(
    one: Words, step: Launch, other: Words, instead: Launch
) -> Iterator[tuple[str, str, str]]:
    """(words before it, value, value in the other plan) of what two launches of a kernel have."""
    kernels = [each.plan.specialisations[at.specialisation] for each, at in
               ((one, step), (other, instead))]  # fmt: skip
    if all(isinstance(each, Specialisation) for each in kernels):
        for name, value, changed in (
            *_pairs(kernels[0].constants, kernels[1].constants),
            *_pairs(kernels[0].options, kernels[1].options),
        ):
            yield "with", _set(name, value), _set(name, changed)
    yield "on", one.grid(step), other.grid(instead)
    parameters = [
        name
        for name, kind in getattr(kernels[0], "signature", {}).items()
        if kind != "constexpr" and not isinstance(kind, dict)
    ]
    if len(parameters) == len(step.arguments) == len(instead.arguments):
        for name, given, changed in zip(parameters, step.arguments, instead.arguments, strict=True):
            yield "with", f"{name}={one.argument(given)}", f"{name}={other.argument(changed)}"
    yield "on", f"stream {step.stream}", f"stream {instead.stream}"


def _pairs(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(name, value, value in the other mapping), None where there is none."""
    for name in {**one, **other}:
        yield name, one.get(name), other.get(name)


def _set(name: str, value: Any) -> str:
    return f"{name}={literal(value)}"


def _said(words: Words, step: Step, does: str, value: str, changed: str) -> str:
    told = " ".join(filter(None, (_subject(words, step), does, value)))
    return f"{told} in one plan and {changed} in another of the same case"


def _subject(words: Words, step: Step) -> str:
    """The line that asks for a step, where one does: memory is freed on none."""
    line = getattr(step, "line", 0)
    return f"{words.file}:{line}" if line and words.file else "the launcher"


def _does(words: Words, step: Step) -> str:
    verb, what = words.words(step)
    return f"{_VERBS[verb]} {what[:_LONGEST]}"
