"""Timed calls on a GPU: sets in any order, what lives on between calls, and nothing that a call
before has left."""

from __future__ import annotations

import base64
import json
import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from grader.plan.model import Copy, Step, Upload, View
from grader.worker.protocol import Code, Operation
from tests.grader.executors.gpu.plans import Kernels, Tensors, add, fill, launch, output
from tests.support.fake_gpu import NEEDS_COMPILER, Executor, FakeGpu
from tests.support.native import vector

pytestmark = NEEDS_COMPILER
SETS = 5


class Timed(Executor):
    """An executor with sets placed, each an input of 8 numbers and an output."""

    def __init__(self, gpu: FakeGpu, tensors: Tensors, count: int = SETS, **settings) -> None:
        super().__init__(gpu, tensors, **settings)
        self.tensors = tensors
        for number in range(count):
            arguments = tensors.arguments[2 * number : 2 * number + 2]
            assert self.ask(Operation.place, arguments, repeat=number).code is Code.ok

    def output(self, number: int = 0) -> list[float]:
        """What the output of a set holds; NaN where nothing was written."""
        return self.tensors.values(f"out{number}").tolist()

    def replays(self) -> None:
        """A replay that works."""
        reply = self.replay()
        assert reply is not None and reply.code is Code.ok, reply
        assert json.loads(reply.text)["nanoseconds"] > 0


@contextmanager
def placed(count: int = SETS) -> Iterator[Tensors]:
    """Sets of inputs 0 to 7, and as many more with each set."""
    slots = []
    for number in range(count):
        slots.append(vector(f"in{number}", torch.arange(8.0) + 8 * number))
        slots.append(output(f"out{number}", 8))
    with Tensors(*slots) as tensors:
        tensors.buffers = tensors.buffers[:2]
        yield tensors


def test_every_set_of_an_order_is_written_and_no_other(gpu: FakeGpu, kernels: Kernels) -> None:
    with placed() as tensors, Timed(gpu, tensors) as timed:
        document = tensors.document(kernels, add(tensors, 0, 1, 0.5))
        assert timed.adopt(document).code is Code.ok
        order = random.Random(3).sample(range(SETS), 3)
        assert timed.arrange(*order).code is Code.ok
        assert all(not any(map(_is_number, timed.output(n))) for n in range(SETS))
        assert timed.replay(with_calls=False).code is Code.ok
        assert all(not any(map(_is_number, timed.output(n))) for n in range(SETS))
        timed.replays()
        for number in range(SETS):
            wanted = (torch.arange(8.0) + 8 * number + 0.5).tolist()
            written = timed.output(number)
            assert written == wanted if number in order else not any(map(_is_number, written))


def test_each_is_written_once_in_the_order_that_was_asked_for(gpu: FakeGpu, kernels) -> None:
    """Of memory that calls share, each finds what the one before has left."""
    with placed() as tensors, Timed(gpu, tensors) as timed:
        memory = tensors.own(4)
        zeroed = fill(View(memory, "float32", (1,), (1,)), 0)
        count = launch("count", tensors.at(memory), tensors.at(1))
        document = tensors.document(kernels, zeroed, then=[count])
        assert timed.adopt(document).code is Code.ok
        for order in ((0, 1, 2, 3, 4), (3, 1, 4), (2,), (4, 3, 2, 1, 0)):
            assert timed.arrange(*order).code is Code.ok
            for _ in range(2):  # all that lives on is put back before each
                timed.replays()
                assert [timed.output(n)[0] for n in order] == list(range(1, len(order) + 1))


def test_the_set_up_is_done_once_and_the_second_call_is_timed(gpu: FakeGpu, kernels) -> None:
    with placed() as tensors, Timed(gpu, tensors) as timed:
        memory = tensors.own(4)
        kept = View(memory, "float32", (1,), (1,))
        set_up: list[Step] = [fill(kept, 5), launch("count", tensors.at(memory), tensors.at(1))]
        document = tensors.document(
            kernels, *set_up, then=[launch("count", tensors.at(memory), tensors.at(1))]
        )
        assert timed.adopt(document).code is Code.ok
        assert timed.output()[0] == 6  # of the first set
        assert timed.arrange(1).code is Code.ok
        for _ in range(3):
            timed.replays()
            assert timed.output(1)[0] == 7
        assert timed.output()[0] == 6


def test_variables_of_modules_are_as_they_were_before_each_replay(gpu: FakeGpu, kernels) -> None:
    with placed() as tensors, Timed(gpu, tensors) as timed:
        document = tensors.document(kernels, launch("globals", tensors.at(1)))
        assert timed.adopt(document).code is Code.ok
        assert timed.arrange(2, 0).code is Code.ok
        for _ in range(3):
            timed.replays()
            assert (timed.output(2)[0], timed.output(0)[0]) == (107, 108)


def test_memory_that_no_call_has_written_holds_no_earlier_results(gpu: FakeGpu, kernels) -> None:
    """Bytes of 0xFF: NaN. The first replay leaves something there, the second doesn't find it."""
    with placed() as tensors, Timed(gpu, tensors) as timed:
        own = View(tensors.own(32), "float32", (8,), (1,))
        steps = [Copy("copy", tensors.view(1), own), Copy("copy", own, tensors.view(0))]
        assert timed.adopt(tensors.document(kernels, *steps)).code is Code.ok
        assert timed.arrange(1).code is Code.ok
        for _ in range(2):
            tensors.arena.memory.outputs[:] = 0
            timed.replays()
            assert not any(map(_is_number, _raw(tensors, 3)))


def test_memory_that_was_allocated_holds_nothing_in_a_judged_call(gpu: FakeGpu, kernels) -> None:
    with placed(1) as tensors:
        own = View(tensors.own(32), "float32", (8,), (1,))
        document = tensors.document(kernels, Copy("copy", tensors.view(1), own))
        tensors.arena.memory.outputs[:] = 0
        with Executor(gpu, tensors) as executor:
            assert executor.execute(document).code is Code.ok
        assert not any(map(_is_number, _raw(tensors, 1)))


def test_uploads_are_those_of_the_set(gpu: FakeGpu, kernels: Kernels) -> None:
    """The bytes of a graph's copies live as long as it does, each with its own addresses."""
    with placed() as tensors, Timed(gpu, tensors) as timed:
        structure = tensors.own(24)
        data = base64.b64encode(struct.pack("<QqQ", 1, 8, 2)).decode()
        pointers = tuple((at, *tensors.at(number).pointer) for at, number in ((0, 0), (16, 1)))
        upload = Upload("upload", View(structure, "uint8", (24,), (1,)), data, pointers)
        steps: list[Step] = [upload, launch("follow", tensors.at(structure))]
        assert timed.adopt(tensors.document(kernels, *steps)).code is Code.ok
        for order in ((4, 1), (3, 0, 2)):
            assert timed.arrange(*order).code is Code.ok
            for _ in range(2):
                tensors.arena.memory.outputs[:] = 0
                timed.replays()
                for number in order:
                    wanted = (torch.arange(8.0) + 8 * number).tolist()
                    assert _raw(tensors, 2 * number + 1) == wanted


def test_another_plan_takes_the_place_of_the_first(gpu: FakeGpu, kernels: Kernels) -> None:
    with placed() as tensors, Timed(gpu, tensors) as timed:
        for value in (1.0, 2.0):
            assert timed.adopt(tensors.document(kernels, add(tensors, 0, 1, value))).code is Code.ok
            assert timed.replay().code is Code.bad_request  # it isn't arranged
            assert timed.arrange(0).code is Code.ok
            timed.replays()
            assert timed.output()[0] == value


def test_sets_can_be_placed_anew(gpu: FakeGpu, kernels: Kernels) -> None:
    with placed() as tensors, Timed(gpu, tensors) as timed:
        assert timed.adopt(tensors.document(kernels, add(tensors, 0, 1, 1))).code is Code.ok
        assert timed.ask(Operation.place, tensors.arguments[6:8], repeat=1).code is Code.ok
        assert timed.arrange(2).code is Code.bad_request  # those behind are gone
        assert timed.arrange(1).code is Code.ok
        timed.replays()
        assert timed.output(3)[0] == 25 and not any(map(_is_number, timed.output(1)))


@pytest.mark.parametrize("order", [(5,), (0, 1, 2, 9), (0xFFFFFFFF,)])
def test_an_order_of_sets_that_aren_t_there(gpu: FakeGpu, kernels: Kernels, order) -> None:
    """And after it the executor serves on."""
    with placed() as tensors, Timed(gpu, tensors) as timed:
        streams = [add(tensors, 0, 1, 1, stream=1), add(tensors, 0, 1, 2, stream=2)]
        assert timed.adopt(tensors.document(kernels, *streams)).code is Code.ok
        reply = timed.arrange(*order)
        assert reply is not None and reply.code is Code.bad_request and "no such set" in reply.text
        assert timed.replay().code is Code.bad_request
        assert timed.arrange(4, 3).code is Code.ok
        timed.replays()


@pytest.mark.parametrize("data", [b"", b"\1", b"\2\0\0\0\0\0\0\0", b"\xff\xff\xff\xff"])
def test_bytes_that_are_no_order(gpu: FakeGpu, kernels: Kernels, data: bytes) -> None:
    with placed() as tensors, Timed(gpu, tensors) as timed:
        assert timed.adopt(tensors.document(kernels, add(tensors, 0, 1, 1))).code is Code.ok
        reply = timed.ask(Operation.arrange, document=data)
        assert reply is not None and reply.code is Code.bad_request


def test_nothing_is_timed_without_a_plan_or_sets(gpu: FakeGpu, kernels: Kernels) -> None:
    with placed() as tensors, Timed(gpu, tensors, count=0) as timed:
        assert timed.arrange(0).code is Code.bad_request
        assert timed.replay().code is Code.bad_request
        steps = [add(tensors, 0, 1, 1)]
        assert timed.adopt(tensors.document(kernels, *steps, then=steps)).code is Code.bad_request
        assert timed.ask(Operation.place, tensors.arguments[:2], repeat=1).code is Code.bad_request


def _is_number(value: float) -> bool:
    return value == value


def _raw(tensors: Tensors, number: int) -> list[float]:
    """What a tensor holds, whatever is around it."""
    argument = tensors.arguments[number]
    data = tensors.arena.memory.outputs[argument.offset : argument.offset + 32]
    return data.view(torch.float32).tolist()
