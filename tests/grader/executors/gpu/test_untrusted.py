"""Documents that none of ours wrote: the executor on a GPU refuses them, and serves on."""

from __future__ import annotations

import base64
import random
import struct
from collections.abc import Iterator

import pytest
import torch

from grader.plan.model import (
    Copy,
    Descriptor,
    DescriptorArgument,
    Record,
    Step,
    Upload,
    View,
    Wait,
)
from grader.worker.protocol import Code, Operation
from tests.grader.executors.gpu.plans import Kernels, Tensors, fill, launch, output, scalar
from tests.support.fake_gpu import NEEDS_COMPILER, Executor, FakeGpu
from tests.support.native import fields, vector

pytestmark = NEEDS_COMPILER
MUTATIONS = 4000
MAP = {"elem_size": 4, "elem_type": 7, "swizzle": 3, "block_size": [8, 8], "fp4_padded": False}
NUMBERS = (0, 1, 2, 3, 7, 255, 1 << 16, 1 << 31, (1 << 32) - 1)


@pytest.fixture(scope="module")
def small(gpu: FakeGpu) -> Kernels:
    """A module with one kernel that does nothing, whatever it is given."""
    source = """
    extern "C" {
    float counter, factors[3];
    extern const unsigned nothing_parameters[] = {0, 8, 64, 128, 192, 4, 0, 0};
    void nothing(void**, const unsigned*, const unsigned*) {}
    }
    """
    return Kernels(gpu.cubin(source)).but("nothing", descriptors=(MAP,), shared=64)


@pytest.fixture(params=["a GPU's", "the host's"])
def tensors(request: pytest.FixtureRequest) -> Iterator[Tensors]:
    on_gpu = request.param == "a GPU's"
    space = "device" if on_gpu else "host"
    # Both may be written: a store to an input ends the context, which is right.
    given = vector("in", torch.zeros(16, 16), space=space, role="inout")
    slots = given, output("out", 16, 16, space=space)
    with Tensors(*slots, on_gpu=on_gpu) as placed:
        yield placed


def everything(tensors: Tensors, kernels: Kernels) -> tuple[bytes, int]:
    """A plan with a step of each kind, in two calls, and where its cubin ends."""
    own = View(tensors.own(1024), "float32", (16, 16), (16, 1))
    data = base64.b64encode(bytes(64)).decode()
    to = View(own.buffer, "uint8", (64,), (1,))
    rows = View(own.buffer, "float32", (4, 8), (16, 1))
    descriptor = Descriptor(0, tensors.view(0).offset, "float32", (16, 16), (16, 1), (8, 8))
    given = tensors.at(1), DescriptorArgument(descriptor), scalar("i32", 3)
    steps: list[Step] = [
        fill(tensors.view(1), 0, 1),
        fill(rows, 1.5, 2),
        Upload("upload", to, data, ((8, 0, 4), (16, own.buffer, 0))),
        Record("record", 3, 1),
        Wait("wait", 3, 2),
        Copy("copy", tensors.view(1), own, 2),
        launch("nothing", *given, grid=(2, 2), stream=1, cooperative=True, cluster=(2,)),
        fill(View(tensors.symbol("factors", 12), "float32", (3,), (1,)), 2),
    ]
    document = tensors.document(kernels, *steps, then=steps)
    return document, document.index(kernels.cubin) + len(kernels.cubin)


def test_the_whole_document_runs(gpu: FakeGpu, small: Kernels, tensors: Tensors) -> None:
    """Else mutations of it would show little."""
    document, _ = everything(tensors, small)
    with Executor(gpu, tensors) as executor:
        assert executor.execute(document).code is Code.ok


def test_a_document_that_was_changed_ends_no_process(gpu, small: Kernels, tensors) -> None:
    document, behind = everything(tensors, small)
    chance = random.Random(11)
    seen = dict.fromkeys(Code, 0)
    with Executor(gpu, tensors, memory=1 << 26) as executor:
        for number in range(MUTATIONS // 2):
            data = changed(document, behind, chance)
            reply = executor.execute(data)
            assert reply is not None, f"mutation {number}: {executor.ends_with()}"
            assert reply.code is not Code.device_failed, f"mutation {number}: {reply}"
            seen[reply.code] += 1
        assert executor.execute(document).code is Code.ok
    assert seen[Code.bad_request] > MUTATIONS // 20
    assert sum(seen.values()) == sum(seen[c] for c in LIVES)


LIVES = (Code.ok, Code.bad_request, Code.raised, Code.out_of_memory)


def test_a_timed_document_that_was_changed_ends_no_process(gpu, small: Kernels) -> None:
    slots = vector("in", torch.zeros(16, 16), role="inout"), output("out", 16, 16)
    chance = random.Random(12)
    with Tensors(*slots) as tensors:
        document, behind = everything(tensors, small)
        with Executor(gpu, tensors, memory=1 << 26) as executor:
            for set_number in range(3):
                place = executor.ask(Operation.place, tensors.arguments, repeat=set_number)
                assert place.code is Code.ok
            for number in range(MUTATIONS // 8):
                data = changed(document, behind, chance)
                for reply in (
                    executor.adopt(data),
                    executor.arrange(*chance.sample(range(4), 2)),
                    executor.replay(),
                ):
                    assert reply is not None, f"mutation {number}: {executor.ends_with()}"
                    assert reply.code in LIVES, f"mutation {number}: {reply}"
            assert executor.adopt(document).code is Code.ok
            assert executor.arrange(1, 0).code is Code.ok
            assert executor.replay().code is Code.ok


def changed(document: bytes, behind: int, chance: random.Random) -> bytes:
    """A document in which some bytes differ; mostly of what is behind its cubin."""
    way = chance.random()
    if way < 0.1:
        return document[: chance.randrange(len(document))]
    if way < 0.15:
        return document + bytes(chance.randrange(1, 9))
    data = bytearray(document)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at = chance.randrange(0 if chance.random() < 0.02 else behind, len(data) - 8)
        if chance.random() < 0.5:
            at -= (at - behind) % 4
            data[at : at + 4] = struct.pack("<I", chance.choice(NUMBERS))
        elif chance.random() < 0.3:
            data[at : at + 8] = struct.pack("<Q", chance.choice((1 << 63, (1 << 64) - 1)))
        else:
            data[at] = chance.randrange(256)
    return bytes(data)


# --- one number each ------------------------------------------------------------------------------


def one_step(*steps: bytes, buffer_bytes: int = 1 << 40) -> bytes:
    """A plan of some steps, on a buffer that claims to be this large: tensor 1."""
    buffer = struct.pack("<iIQI", 1, 0, buffer_bytes, 0) + bytes(4)
    head = struct.pack("<II", 0x50475457, 1)
    return head + bytes(4) + _listed(buffer) + bytes(4) + _listed(_listed(*steps))


def _listed(*parts: bytes) -> bytes:
    return struct.pack("<I", len(parts)) + b"".join(parts)


def _fill(offset: int, pitch: int, width: int, height: int, unit: int = 1) -> bytes:
    return struct.pack("<IIIqQQQII", 1, 0, 0, offset, pitch, width, height, unit, 7)


def _copy(to: tuple[int, ...], source: tuple[int, ...]) -> bytes:
    return struct.pack("<II", 2, 0) + struct.pack("<IqQQQ", *to) + struct.pack("<IqQQQ", *source)


BIG = (1 << 64) - 1
ROWS = {
    "beyond the tensor": _fill(0, 1, 1 << 30, 1),
    "beyond the tensor by rows": _fill(0, 1 << 20, 8, 1 << 10),
    "before it": _fill(-4096, 8, 8, 1),
    "an end that overflows": _fill(0, BIG, 1, BIG),
    "an end that overflows to less": _fill(0, 1 << 63, 1 << 63, 1 << 63),
    "a width that overflows": _fill(1 << 62, 8, BIG, 1),
    "rows that overlap, for ever": _fill(0, 0, 1, BIG),
    "units of nothing": _fill(0, 8, 8, 1, 0),
    "units of three": _fill(0, 9, 9, 1, 3),
    "units that don't fit": _fill(0, 9, 9, 1, 2),
    "another shape": _copy((0, 0, 8, 8, 1), (0, 0, 8, 16, 1)),
    "a source beyond": _copy((0, 0, 8, 8, 1), (0, 1 << 30, 8, 8, 1)),
    "a buffer that isn't there": _copy((9, 0, 8, 8, 1), (0, 0, 8, 8, 1)),
}


@pytest.mark.parametrize("step", ROWS.values(), ids=ROWS)
def test_rows_that_no_buffer_has(gpu: FakeGpu, tensors: Tensors, step: bytes) -> None:
    with Executor(gpu, tensors) as executor:
        reply = executor.execute(one_step(step))
        assert reply is not None and reply.code is Code.bad_request, reply
        assert executor.execute(one_step(_fill(0, 8, 8, 1))).code is Code.ok


def test_what_came_before_a_step_that_is_refused_is_over(gpu: FakeGpu, tensors: Tensors) -> None:
    """Else it would run on in what the next plan has, from bytes that are gone."""
    with Executor(gpu, tensors) as executor:
        steps = _fill(0, 8, 8, 1), _fill(-4096, 8, 8, 1)
        assert executor.execute(one_step(*steps)).code is Code.bad_request
        if tensors.arena.on_gpu:
            start = tensors.arguments[1].allocation[0]
            assert tensors.arena.memory.outputs[start : start + 8].tolist() == [7] * 8


def test_rows_of_nothing_are_done_at_once(gpu: FakeGpu, tensors: Tensors) -> None:
    with Executor(gpu, tensors) as executor:
        assert executor.execute(one_step(_fill(0, 0, 0, BIG))).code is Code.ok


@pytest.mark.parametrize("count", [1 << 20, BIG >> 32])
def test_counts_of_what_isn_t_there(gpu: FakeGpu, tensors: Tensors, count: int) -> None:
    head = struct.pack("<II", 0x50475457, 1)
    with Executor(gpu, tensors) as executor:
        for place in range(4):
            data = head + bytes(4) * place + struct.pack("<I", count) + bytes(1 << 20)
            reply = executor.execute(data)
            assert reply is not None and reply.code is Code.bad_request


@pytest.mark.parametrize("data", [b"", b"WTGP", b"WTGP\2\0\0\0", b"\0" * 64])
def test_bytes_that_are_no_document(gpu: FakeGpu, tensors: Tensors, data: bytes) -> None:
    with Executor(gpu, tensors) as executor:
        for reply in (executor.execute(data), executor.adopt(data)):
            assert reply is not None and reply.code is Code.bad_request


def test_a_launch_that_the_driver_refuses_names_it(gpu: FakeGpu, kernels: Kernels) -> None:
    with Tensors(output("out", 8)) as tensors, Executor(gpu, tensors) as executor:
        step = launch("nothing", tensors.at(0), tensors.at(0), grid=(1, 70_000))
        reply = executor.execute(tensors.document(kernels, step))
        assert reply is not None and reply.code is Code.raised
        assert fields(reply)["type"] == "CUDA_ERROR_INVALID_VALUE"
        assert "cuLaunchKernelEx" in fields(reply)["message"]
