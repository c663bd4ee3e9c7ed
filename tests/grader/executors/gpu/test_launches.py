"""What a kernel on a GPU is given: parameters where it has them, scratch, descriptors, a shape."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import pytest
import torch

from grader.executors.encoding import NotExecutable
from grader.plan.model import Descriptor, DescriptorArgument, Launch
from grader.worker.protocol import Code
from tests.grader.executors.gpu.plans import (
    NAMES,
    Kernels,
    Tensors,
    add,
    launch,
    output,
    scalar,
)
from tests.support.fake_gpu import NEEDS_COMPILER, Executor, FakeGpu
from tests.support.native import vector

pytestmark = NEEDS_COMPILER
MAP = {"elem_size": 4, "elem_type": 7, "swizzle": 3, "block_size": [16, 32], "fp4_padded": False}


def done(gpu: FakeGpu, tensors: Tensors, document: bytes, **settings: str) -> None:
    """Carry a plan out."""
    with Executor(gpu, tensors, **settings) as executor:
        reply = executor.execute(document)
        assert reply is not None and reply.code is Code.ok, reply


def test_pointers_are_those_of_the_views(gpu: FakeGpu, kernels: Kernels) -> None:
    given = torch.arange(8.0)
    with Tensors(vector("in", given, first=3), output("out", 8, first=2)) as tensors:
        done(gpu, tensors, tensors.document(kernels, add(tensors, 0, 1, 0.5)))
        assert torch.equal(tensors.values("out"), given + 0.5)


def test_scalars_are_laid_out_as_c_does(gpu: FakeGpu, kernels: Kernels) -> None:
    with Tensors(output("out", 11, dtype="float64")) as tensors:
        numbers = [scalar("i8", -3), scalar("i16", 300), scalar("i32", -70000)]
        numbers += [scalar("i64", 1 << 40), scalar("fp64", 0.1)]
        step = launch("scalars", tensors.at(0), *numbers, grid=(3, 2))
        done(gpu, tensors, tensors.document(kernels, step))
        known = [-3, 300, -70000, 1 << 40, 0.1, 3, 2, 1, 128, 1, 1]
        assert tensors.values("out").tolist() == known


def test_parameters_of_cuda_are_bytes_with_addresses_in_them(gpu: FakeGpu, kernels) -> None:
    given = torch.arange(8.0)
    with Tensors(vector("in", given, first=3), output("out", 8), language="cuda") as tensors:
        data = struct.pack("<QQif", 1, 2, 8, 2.0)
        step = Launch(
            "launch",
            NAMES.index("add"),
            (1,),
            block=(32, 2),
            parameters=base64.b64encode(data).decode(),
            pointers=((0, 0, 4), (8, 1, 0)),  # from the second element of the view on
        )
        log = gpu.folder / "launches"
        log.write_text("")
        done(gpu, tensors, tensors.document(kernels, step), log=str(log))
        assert tensors.values("out").tolist()[:7] == [3, 4, 5, 6, 7, 8, 9]
        assert "block 32 2 1," in log.read_text()


@pytest.mark.parametrize("size", [0, 64])
def test_scratch_that_triton_adds_is_null_or_there(gpu: FakeGpu, kernels, size: int) -> None:
    """As much as all programs of all blocks of a cluster have; the second is never used."""
    kernels = kernels.but("scratch", scratch=size)
    with Tensors(output("out", 2, dtype="float64")) as tensors:
        given = tensors.at(0), scalar("i32", size * 6 * 2)
        step = launch("scratch", *given, grid=(3, 2), cluster=(2,))
        done(gpu, tensors, tensors.document(kernels, step))
        assert tensors.values("out").tolist() == [bool(size), 0]


def test_scratch_is_no_larger(gpu: FakeGpu, kernels: Kernels) -> None:
    kernels = kernels.but("scratch", scratch=4096)
    with Tensors(output("out", 2, dtype="float64")) as tensors, Executor(gpu, tensors) as executor:
        step = launch("scratch", tensors.at(0), scalar("i32", 4096 + 1))
        reply = executor.execute(tensors.document(kernels, step))
        assert reply is not None and reply.code is Code.device_failed


# --- tensor descriptors ---------------------------------------------------------------------------


def described(gpu: FakeGpu, kernels: Kernels, given: Descriptor) -> dict[str, tuple[int, ...]]:
    """What `describe` finds in its descriptor and behind it."""
    with Tensors(vector("in", torch.zeros(64, 48)), output("out", 160, dtype="uint8")) as tensors:
        given = Descriptor(0, tensors.view(0).offset + given.offset, *_rest(given))
        step = launch("describe", tensors.at(1), DescriptorArgument(given))
        done(gpu, tensors, tensors.document(kernels, step))
        data = bytes(tensors.values("out").tolist())
    kind, rank, _, *numbers = struct.unpack_from("<2IQ9Q7I", data)
    return {
        "head": (kind, rank),
        "sizes": tuple(numbers[:5]),
        "strides": tuple(numbers[5:9]),
        "box": tuple(numbers[9:14]),
        "how": tuple(numbers[14:16]),
        "behind": struct.unpack_from("<4q", data, 128),
    }


def _rest(given: Descriptor) -> tuple:
    return given.dtype, given.shape, given.strides, given.block, given.padding


def test_a_descriptor_is_encoded_with_its_dimensions_reversed(gpu: FakeGpu, kernels) -> None:
    given = Descriptor(0, 0, "float32", (64, 40), (48, 1), (16, 32), "nan")
    kernels = kernels.but("describe", descriptors=(MAP,))
    assert described(gpu, kernels, given) == {
        "head": (7, 2),
        "sizes": (40, 64, 0, 0, 0),
        "strides": (192, 0, 0, 0),
        "box": (32, 16, 0, 0, 0),
        "how": (3, 1),
        "behind": (64, 40, 48, 1),
    }


@pytest.mark.parametrize(("theirs", "cudas"), [(8, 10), (9, 8), (10, 9), (7, 7), (6, 6)])
def test_element_types_are_tritons_numbers(gpu: FakeGpu, kernels, theirs: int, cudas: int) -> None:
    kernels = kernels.but("describe", descriptors=(MAP | {"elem_type": theirs},))
    given = Descriptor(0, 0, "float32", (64, 40), (48, 1), (16, 32))
    assert described(gpu, kernels, given)["head"] == (cudas, 2)


def test_elements_of_four_bits_are_two_of_what_is_counted(gpu: FakeGpu, kernels) -> None:
    kernels = kernels.but("describe", descriptors=(MAP | {"fp4_padded": True},))
    given = Descriptor(0, 0, "float32", (64, 40), (48, 1), (16, 32))
    assert described(gpu, kernels, given)["sizes"][:2] == (80, 64)


def test_a_descriptor_that_the_driver_refuses_is_the_launchers_fault(gpu: FakeGpu, kernels) -> None:
    kernels = kernels.but("describe", descriptors=(MAP,))
    with Tensors(vector("in", torch.zeros(64, 47)), output("out", 160, dtype="uint8")) as tensors:
        strides = (47, 1)  # 188 bytes: no multiple of 16
        given = Descriptor(0, tensors.view(0).offset, "float32", (64, 40), strides, (16, 32))
        step = launch("describe", tensors.at(1), DescriptorArgument(given))
        with Executor(gpu, tensors) as executor:
            reply = executor.execute(tensors.document(kernels, step))
            assert reply is not None and reply.code is Code.raised
            assert "cuTensorMapEncodeTiled" in reply.text and "invalid argument" in reply.text
            plain = launch("nothing", tensors.at(1), tensors.at(1))
            assert executor.execute(tensors.document(kernels, plain)).code is Code.ok


@pytest.mark.parametrize("wrong", [{}, MAP | {"elem_size": "4"}, MAP | {"block_size": [-1, 1]}])
def test_a_descriptor_that_makes_no_sense_isn_t_run(kernels: Kernels, wrong: dict) -> None:
    kernels = kernels.but("describe", descriptors=(wrong,))
    with Tensors(vector("in", torch.zeros(64, 48)), output("out", 160, dtype="uint8")) as tensors:
        given = Descriptor(0, 0, "float32", (64, 40), (48, 1), (16, 32))
        with pytest.raises(NotExecutable, match="a tensor descriptor"):
            tensors.document(kernels, launch("describe", tensors.at(1), DescriptorArgument(given)))


def test_a_descriptor_that_is_read_by_loads_is_taken_apart(gpu: FakeGpu, kernels: Kernels) -> None:
    """Pointer, sizes, strides, padding, a byte, and behind that sizes and strides once more."""
    with Tensors(vector("in", torch.zeros(64, 48)), output("out", 72, dtype="uint8")) as tensors:
        given = Descriptor(0, 0, "float32", (64, 40), (48, 1), (16, 32), "nan")
        step = launch("taken_apart", tensors.at(1), DescriptorArgument(given))
        done(gpu, tensors, tensors.document(kernels, step))
        data = bytes(tensors.values("out").tolist())
    assert struct.unpack_from("<4q2B2x2i", data, 8) == (64, 40, 48, 1, 1, 0, 64, 40)


# --- a launch's shape -----------------------------------------------------------------------------


def launched(gpu: FakeGpu, kernels: Kernels, *steps: Launch, tensors: Tensors) -> list[str]:
    """What the driver was told of each launch."""
    log: Path = gpu.folder / "launches"
    log.write_text("")
    done(gpu, tensors, tensors.document(kernels, *steps), log=str(log))
    return [line.partition(": ")[2] for line in log.read_text().splitlines()]


def test_grids_blocks_clusters_and_attributes(gpu: FakeGpu, kernels: Kernels) -> None:
    kernels = kernels.but("nothing", warps=8, shared=100_000)
    with Tensors(output("out", 4)) as tensors:
        given = tensors.at(0), tensors.at(0)
        pdl = {"attributes": {"pdl": True}}
        steps = [
            launch("nothing", *given, grid=(5,), **pdl),  # there is nothing to overlap
            launch("nothing", *given, grid=(5, 6, 7), cooperative=True, **pdl),
            launch("nothing", *given, grid=(3,), cluster=(2,)),
            launch("nothing", *given, grid=(1,), cluster=(16,)),  # more than is portable
        ]
        same = "block 256 1 1, cluster"
        assert launched(gpu, kernels, *steps, tensors=tensors) == [
            f"grid 5 1 1, {same} 1 1 1, shared 100000",
            f"grid 5 6 7, {same} 1 1 1, shared 100000, cooperative, programmatic",
            f"grid 6 1 1, {same} 2 1 1, shared 100000",
            f"grid 16 1 1, {same} 16 1 1, shared 100000",
        ]
