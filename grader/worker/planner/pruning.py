"""Removes from a plan the work of the submission's import alone.

A file may test its kernels during the import, on tensors that no call uses. The entry doesn't ask
for that, so it isn't judged, compiled or run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .buffers import Buffer
from .steps import Step


@dataclass(frozen=True)
class Pruned:
    """A plan's parts without those that only the import used."""

    buffers: list[Buffer]
    specialisations: list[dict[str, Any]]
    calls: list[list[Step]]


def prune(
    buffers: Sequence[Buffer],
    imported: Sequence[Buffer],
    specialisations: Sequence[dict[str, Any]],
    calls: Sequence[Sequence[Step]],
    at_import: int,
) -> Pruned:
    """Remove the import's steps on buffers that no call leads to.

    `imported` are the buffers that the import made; the first `at_import` steps of the first call
    are the import's.
    """
    if not imported and not at_import:
        return Pruned([*buffers], [*specialisations], [*map(list, calls)])
    first, *others = calls
    early, own = (
        first[:at_import],
        [*first[at_import:], *(step for call in others for step in call)],
    )
    needed = _reached(early, own)
    dropped = {id(each) for each in imported} - needed
    kept = [
        [step for step in call if not any(id(each) in dropped for each in _buffers(step))]
        for call in calls
    ]
    used = sorted({step["specialisation"] for call in kept for step in call if _launches(step)})
    numbers = {old: new for new, old in enumerate(used)}
    return Pruned(
        [each for each in buffers if id(each) not in dropped],
        [specialisations[old] for old in used],
        [[_renumbered(step, numbers) for step in call] for call in kept],
    )


def _reached(early: Sequence[Step], own: Sequence[Step]) -> set[int]:
    """The buffers that calls use, and those that the import used together with them."""
    needed = {id(each) for step in own if step["do"] != "free" for each in _buffers(step)}
    groups = [{id(each) for each in _buffers(step)} for step in early]
    size = -1
    while size != len(needed):
        size = len(needed)
        for group in groups:
            if group & needed:
                needed |= group
    return needed


def _buffers(value: Any) -> Iterator[Buffer]:
    if isinstance(value, Buffer):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _buffers(each)


def _launches(step: Step) -> bool:
    return bool(step["do"] == "launch")


def _renumbered(step: Step, numbers: dict[int, int]) -> Step:
    if not _launches(step):
        return step
    return {**step, "specialisation": numbers[step["specialisation"]]}
