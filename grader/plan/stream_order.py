"""The orders in which a plan's kernels may run on a GPU.

Kernels of one stream run in order, kernels of two streams at the same time, unless an event makes
one wait. The planner also writes an event for each implicit wait of the default stream. Where the
host waits for a stream or an event, all later steps wait for that. A step on no stream, such as
cudaMemcpy from the host, waits for all steps before it; cudaMallocAsync and cudaFreeAsync wait for
their stream alone. PyTorch's memory is an exception: it comes from a pool, so that allocating and
freeing wait for nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from grader.plan.model import (
    Alloc,
    Copy,
    Fill,
    Free,
    Launch,
    Record,
    ScalarArgument,
    Step,
    Synchronise,
    Wait,
)


def streams(steps: Iterable[Step]) -> set[int]:
    """The streams that have work."""
    waits = Record | Wait | Synchronise
    given = (_stream_of(step) for step in steps if not isinstance(step, waits))
    return {stream for stream in given if stream is not None}


def _stream_of(step: Step) -> int | None:
    stream = getattr(step, "stream", None)
    return stream if isinstance(stream, int) else None


def _waits_for_all(step: Step) -> bool:
    """Whether a step waits for the work of all streams."""
    return _stream_of(step) is None and getattr(step, "event", None) is None


def reorder(steps: Sequence[Step], memory_waits: bool = True) -> tuple[Step, ...]:
    """The steps of a call with each launch as late as streams and events allow.

    So a launch comes before an earlier one that it needn't wait for. With `memory_waits`,
    allocating and freeing wait for all steps before them, as the CUDA runtime's functions do.
    """
    if not memory_waits:
        steps = _without_waits_for_memory(steps)
    done: list[Step] = []
    stretch: list[Step] = []
    for step in steps:
        if not _waits_for_all(step):
            stretch.append(step)
            continue
        done += _last_first(stretch)
        done.append(step)
        stretch = []
    return (*done, *_last_first(stretch))


def left_running(steps: Sequence[Step], memory_waits: bool) -> Launch | Copy | Fill | None:
    """The first step of a call that may go on behind its end: nobody waits for its stream.

    The caller's own work goes to the default stream, which waits for what that or the host has
    waited for. A kernel that is handed no memory doesn't count. `memory_waits` is as in `reorder`.
    """
    if not memory_waits:
        steps = [each for each in steps if not isinstance(each, Alloc | Free)]
    before = _before(steps)
    awaited: set[int] = set()
    everything = False  # behind this step, something waits for all streams
    for number in range(len(steps) - 1, -1, -1):
        step = steps[number]
        everything |= _waits_for_all(step)
        is_awaited = _stream_of(step) == 0 or isinstance(step, Synchronise) or number in awaited
        if everything or is_awaited:
            awaited |= {number, *before[number]}
    running = (step for number, step in enumerate(steps) if number not in awaited)
    work = (step for step in running if isinstance(step, Launch | Copy | Fill))
    return next((each for each in work if _has_memory(each)), None)


def _has_memory(step: Launch | Copy | Fill) -> bool:
    """Whether it could still be using memory that it was handed."""
    if not isinstance(step, Launch) or step.pointers:
        return True
    return not all(isinstance(each, ScalarArgument) for each in step.arguments)


def _without_waits_for_memory(steps: Sequence[Step]) -> list[Step]:
    """The steps with allocations at the start and releases at the end.

    Except for memory that is allocated again after its release.
    """
    story: dict[int, str] = {}
    for step in steps:
        if isinstance(step, Alloc | Free):
            story[step.buffer] = story.get(step.buffer, "") + step.do[0]
    moved = {number for number, uses in story.items() if uses in ("a", "f", "af")}
    is_moved = [isinstance(each, Alloc | Free) and each.buffer in moved for each in steps]
    first = [s for s, moves in zip(steps, is_moved, strict=True) if moves and s.do == "alloc"]
    rest = [s for s, moves in zip(steps, is_moved, strict=True) if not moves]
    last = [s for s, moves in zip(steps, is_moved, strict=True) if moves and s.do == "free"]
    return [*first, *rest, *last]


def _last_first(steps: Sequence[Step]) -> Iterable[Step]:
    """The steps in an order that always takes the last step that may run."""
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
    """For each step, the steps that must end before it begins, not listed transitively."""
    last: dict[int | None, int] = {}  # last step by stream
    recorded: dict[int, int] = {}  # step by event
    before: list[set[int]] = []
    host: set[int] = set()  # its last wait for a stream or an event
    for number, step in enumerate(steps):
        stream = _stream_of(step)
        needed = host | ({last[stream]} if stream in last else set())
        if isinstance(step, Synchronise):
            host = {number}
        if isinstance(step, Wait | Synchronise) and step.event in recorded:
            needed.add(recorded[step.event])
        elif isinstance(step, Record):
            recorded[step.event] = number
        last[stream] = number
        before.append(needed)
    return before
