"""The orders in which a plan's kernels may run on a GPU.

Kernels of one stream run one after another, those of two at once, unless an event makes one wait.
A plan's planner has written down as events, too, what the default stream waits for by itself.
Every step that isn't a launch, a record or a wait (a copy, say) is taken to wait for all before it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from grader.plan.model import Launch, Record, Step, Wait

_OF_STREAMS = (Launch, Record, Wait)


def reorder(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps of a call with each launch as late as streams and events allow.

    A launch that nothing makes wait for an earlier one comes before it.
    """
    done: list[Step] = []
    stretch: list[Step] = []
    for step in steps:
        if isinstance(step, _OF_STREAMS):
            stretch.append(step)
            continue
        done += _last_first(stretch)
        done.append(step)
        stretch = []
    return (*done, *_last_first(stretch))


def _last_first(steps: Sequence[Step]) -> Iterable[Step]:
    """The steps in the order that always goes on with the last one that may run."""
    before = _before(steps)
    after: list[list[int]] = [[] for _ in steps]
    for number, needed in enumerate(before):
        for each in needed:
            after[each].append(number)
    waiting_for = [len(needed) for needed in before]
    ready = [-number for number, count in enumerate(waiting_for) if not count]
    heapq.heapify(ready)
    while ready:
        number = -heapq.heappop(ready)
        yield steps[number]
        for each in after[number]:
            waiting_for[each] -= 1
            if not waiting_for[each]:
                heapq.heappush(ready, -each)


def _before(steps: Sequence[Step]) -> list[set[int]]:
    """Of each step the steps that have to be done when it begins; those before them are, too."""
    last: dict[int, int] = {}  # step of each stream
    recorded: dict[int, int] = {}  # step of each event
    before: list[set[int]] = []
    for number, step in enumerate(steps):
        needed = {last[step.stream]} if step.stream in last else set()
        if isinstance(step, Wait) and step.event in recorded:
            needed.add(recorded[step.event])
        elif isinstance(step, Record):
            recorded[step.event] = number
        last[step.stream] = number
        before.append(needed)
    return before
