"""Streams and events on a GPU: what a plan orders is ordered, and nothing else is.

The driver of the tests does what was asked for later first, wherever it may.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from grader.plan.model import Copy, Record, Step, Synchronise, Wait
from grader.worker.protocol import Code, Operation
from tests.grader.executors.gpu.plans import Kernels, Tensors, add, fill, launch, output
from tests.support.fake_gpu import NEEDS_COMPILER, Executor, FakeGpu
from tests.support.native import vector

pytestmark = NEEDS_COMPILER
INPUT = torch.arange(8.0)


def left(gpu: FakeGpu, kernels: Kernels, *steps_of, replayed: bool = False) -> list[float]:
    """What steps over (tensors) leave in the output, of which the input is 0 to 7."""
    with Tensors(vector("in", INPUT), output("out", 8)) as tensors:
        document = tensors.document(kernels, *(each(tensors) for each in steps_of))
        with Executor(gpu, tensors) as executor:
            if replayed:
                _place(executor, tensors)
                assert executor.adopt(document).code is Code.ok
                assert executor.arrange(0).code is Code.ok
                reply = executor.replay()
            else:
                reply = executor.execute(document)
            assert reply is not None and reply.code is Code.ok, reply
        return tensors.values("out").tolist()


def _place(executor: Executor, tensors: Tensors) -> None:
    assert executor.ask(Operation.place, tensors.arguments).code is Code.ok


def first(stream: int):
    return lambda tensors: add(tensors, 0, 1, 1, stream=stream)  # out = in + 1


def second(stream: int):
    return lambda tensors: add(tensors, 1, 1, 10, stream=stream)  # out += 10


def always(step: Step):
    return lambda tensors: step


IN_ORDER = (INPUT + 11).tolist()
REPLAYED = pytest.mark.parametrize("replayed", [False, True])


@REPLAYED
def test_a_stream_does_one_after_another(gpu: FakeGpu, kernels, replayed) -> None:
    assert left(gpu, kernels, first(5), second(5), replayed=replayed) == IN_ORDER


@REPLAYED
def test_without_a_wait_streams_race(gpu: FakeGpu, kernels, replayed) -> None:
    assert left(gpu, kernels, first(1), second(2), replayed=replayed) == (INPUT + 1).tolist()


@REPLAYED
def test_an_event_orders_two_streams(gpu: FakeGpu, kernels, replayed) -> None:
    record, wait = always(Record("record", 7, 1)), always(Wait("wait", 7, 2))
    steps = [first(1), record, wait, second(2)]
    assert left(gpu, kernels, *steps, replayed=replayed) == IN_ORDER


@REPLAYED
def test_an_event_that_is_recorded_too_early_orders_nothing(gpu, kernels, replayed) -> None:
    record, wait = always(Record("record", 7, 1)), always(Wait("wait", 7, 2))
    steps = [record, first(1), wait, second(2)]
    assert left(gpu, kernels, *steps, replayed=replayed) == (INPUT + 1).tolist()


def test_a_wait_for_an_event_that_nobody_recorded_is_none(gpu: FakeGpu, kernels) -> None:
    steps = [first(1), always(Wait("wait", 7, 2)), second(2)]
    assert left(gpu, kernels, *steps) == (INPUT + 1).tolist()


@REPLAYED
def test_an_event_recorded_again_means_its_last_place(gpu: FakeGpu, kernels, replayed) -> None:
    record, wait = always(Record("record", 7, 1)), always(Wait("wait", 7, 2))
    steps = [record, first(1), record, wait, second(2)]
    assert left(gpu, kernels, *steps, replayed=replayed) == IN_ORDER


@REPLAYED
def test_a_step_without_a_stream_waits_for_all_and_all_wait_for_it(gpu, kernels, replayed) -> None:
    def whole(tensors: Tensors) -> Step:
        return fill(tensors.view(1), 100)

    steps = [first(1), second(2), whole, second(2)]
    assert left(gpu, kernels, *steps, replayed=replayed) == [110.0] * 8
    assert left(gpu, kernels, whole, second(2), first(1), replayed=replayed) in (
        IN_ORDER,
        (INPUT + 1).tolist(),
    )


@REPLAYED
@pytest.mark.parametrize(
    "given", [Synchronise("synchronise"), Synchronise("synchronise", 1)], ids=["device", "stream"]
)
def test_what_comes_behind_a_wait_of_the_hosts_waits_for_all(gpu, kernels, replayed, given) -> None:
    steps = [first(1), always(given), second(2)]
    assert left(gpu, kernels, *steps, replayed=replayed) == IN_ORDER


@REPLAYED
def test_a_copy_without_a_stream_between_two_streams(gpu: FakeGpu, kernels, replayed) -> None:
    def copy(tensors: Tensors) -> Step:
        return Copy("copy", tensors.view(1), tensors.view(0))

    steps = [first(1), copy, second(2)]
    assert left(gpu, kernels, *steps, replayed=replayed) == (INPUT + 10).tolist()


@REPLAYED
@pytest.mark.parametrize("stream", [None, 3])
def test_the_end_of_a_call_is_the_end_of_what_was_overlapped(gpu, kernels, replayed, stream):
    """A launch that needn't wait for the one before it may be the first of the two to end."""

    def empty(number: int, **more: Any):
        return lambda tensors: launch("nothing", *[tensors.at(1)] * 2, stream=number, **more)

    steps = [first(0), empty(0, attributes={"pdl": True})]
    if stream is not None:
        steps.append(empty(stream))
    assert left(gpu, kernels, *steps, replayed=replayed) == (INPUT + 1).tolist()
