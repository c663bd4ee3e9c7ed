"""Another order of a plan's kernels is one that its streams and events allow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.plan.model import Alloc, Copy, Free, Launch, Record, Step, Synchronise, View, Wait
from grader.plan.stream_order import left_running, reorder


def launch(number: int, stream: int) -> Launch:
    return Launch("launch", number, (1, 1, 1), (1, 1, 1), pointers=((0, 0, 0),), stream=stream)


def record(event: int, stream: int) -> Record:
    return Record("record", event, stream)


def wait(event: int, stream: int) -> Wait:
    return Wait("wait", event, stream)


def copy(stream: int | None) -> Copy:
    whole = View(0, "float32", (4,), (1,))
    return Copy("copy", whole, whole, stream=stream)


def synchronise(stream: int | None = None, event: int | None = None) -> Synchronise:
    return Synchronise("synchronise", stream, event)


SYNCHRONISE = synchronise()
ORDERS: dict[str, tuple[list[Step], list[int]]] = {
    "one stream": ([launch(0, 1), launch(1, 1)], [0, 1]),
    "two streams": ([launch(0, 1), launch(1, 2)], [1, 0]),
    "an event between": (
        [launch(0, 1), record(7, 1), wait(7, 2), launch(1, 2)],
        [0, 1],
    ),
    "an event that is recorded too early": (
        [record(7, 1), launch(0, 1), wait(7, 2), launch(1, 2)],
        [1, 0],
    ),
    "an event of another stream": (
        [launch(0, 1), launch(1, 3), record(7, 3), wait(7, 2), launch(2, 2)],
        [1, 2, 0],
    ),
    "by way of a third stream": (
        [launch(0, 1), record(1, 1), wait(1, 3), record(2, 3), wait(2, 2), launch(1, 2)],
        [0, 1],
    ),
    "an event that is recorded again": (
        [launch(0, 1), record(7, 1), launch(1, 1), record(7, 1), wait(7, 2), launch(2, 2)],
        [0, 1, 2],
    ),
    "a wait of the host's": ([launch(0, 1), SYNCHRONISE, launch(1, 2)], [0, 1]),
    "a wait of the host's for the stream": (
        [launch(0, 1), synchronise(stream=1), launch(1, 2)],
        [0, 1],
    ),
    "a wait of the host's for another stream": (
        [launch(0, 1), launch(1, 3), synchronise(stream=3), launch(2, 2)],
        [1, 2, 0],
    ),
    "a wait of the host's for an event": (
        [launch(0, 1), record(7, 1), launch(1, 1), synchronise(event=7), launch(2, 2)],
        [0, 2, 1],
    ),
    "a wait of the host's for an event of before": (
        [record(7, 1), launch(0, 1), synchronise(event=7), launch(1, 2)],
        [1, 0],
    ),
    "each stream in its order": (
        [launch(0, 1), launch(1, 2), launch(2, 1), launch(3, 2)],
        [1, 3, 0, 2],
    ),
}


@pytest.mark.parametrize(
    ("stream", "wanted"), [(1, [copy(1), launch(0, 2)]), (2, [launch(0, 2), copy(2)])]
)
def test_a_copy_on_a_stream_waits_for_that_stream_alone(stream: int, wanted: list[Step]) -> None:
    assert [*reorder([launch(0, 2), copy(stream)])] == wanted
    assert [*reorder([launch(0, 2), copy(None)])] == [launch(0, 2), copy(None)]


def test_an_allocation_on_a_stream_waits_for_that_stream_alone() -> None:
    alloc = Alloc("alloc", 5, 1)
    assert [*reorder([alloc, launch(0, 2)])] == [launch(0, 2), alloc]
    assert [*reorder([alloc, launch(0, 1)])] == [alloc, launch(0, 1)]


def test_memory_of_a_pool_makes_nothing_wait() -> None:
    """Allocated at the start and given back at the end, but for what is allocated again."""
    alloc, free = Alloc("alloc", 5), Free("free", 5)
    steps: list[Step] = [launch(0, 1), alloc, launch(1, 2), free]
    assert [*reorder(steps)] == steps
    assert [*reorder(steps, memory_waits=False)] == [alloc, launch(1, 2), launch(0, 1), free]
    again: list[Step] = [alloc, launch(0, 1), free, alloc, launch(1, 2)]
    assert [*reorder(again, memory_waits=False)] == again


@pytest.mark.parametrize(("steps", "wanted"), ORDERS.values(), ids=ORDERS)
def test_a_kernel_is_as_late_as_streams_and_events_allow(
    steps: list[Step], wanted: list[int]
) -> None:
    made = reorder(steps)
    assert [step.specialisation for step in made if isinstance(step, Launch)] == wanted
    assert sorted(map(str, made)) == sorted(map(str, steps))


@pytest.mark.parametrize(
    ("steps", "running"),
    [
        ([launch(0, 0)], None),
        ([replace(launch(0, 1), pointers=())], None),
        ([launch(0, 1)], 0),
        ([launch(0, 1), SYNCHRONISE], None),
        ([SYNCHRONISE, launch(0, 1)], 0),
        ([launch(0, 1), synchronise(stream=1)], None),
        ([launch(0, 1), synchronise(stream=2)], 0),
        ([launch(0, 1), record(7, 1), launch(1, 1), synchronise(event=7)], 1),
        ([launch(0, 1), record(7, 1), wait(7, 0)], None),
        ([launch(0, 1), record(7, 1), launch(1, 1), wait(7, 0)], 1),
        ([launch(0, 1), record(7, 1), wait(7, 2), launch(1, 2), record(8, 2), wait(8, 0)], None),
        ([launch(0, 1), record(7, 1), wait(7, 2), launch(1, 2)], 0),
        ([launch(0, 1), Free("free", 0)], None),
        ([launch(0, 1), Free("free", 0, 1)], 0),
    ],
)
def test_a_launch_that_nobody_waits_for_is_left_running(steps, running):
    left = left_running(steps, memory_waits=True)
    assert (left.specialisation if left else None) == running


def test_torchs_memory_waits_for_nothing():
    left = left_running([launch(0, 1), Alloc("alloc", 3)], memory_waits=False)
    assert left == launch(0, 1)
