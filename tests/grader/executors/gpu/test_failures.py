"""What goes wrong on a GPU: memory runs out, contexts are lost, inputs are stored to; and tensors
that lie in host memory."""

from __future__ import annotations

import json

import pytest
import torch

from grader.plan.model import Copy, Step, View
from grader.worker.protocol import Code, Operation
from tests.grader.executors.gpu.plans import Kernels, Tensors, add, fill, launch, output
from tests.support.fake_gpu import NEEDS_COMPILER, Executor, FakeGpu
from tests.support.native import fields, vector

pytestmark = NEEDS_COMPILER
INPUT = torch.arange(8.0)
MIB = 1 << 20


def in_and_out(**more) -> Tensors:
    """An input and an output of 8 numbers."""
    return Tensors(vector("in", INPUT), output("out", 8), **more)


# --- memory ---------------------------------------------------------------------------------------


def test_what_was_allocated_is_given_back(gpu: FakeGpu, kernels: Kernels) -> None:
    with in_and_out() as tensors, Executor(gpu, tensors, memory=8 * MIB) as executor:
        tensors.own(6 * MIB)
        document = tensors.document(kernels, add(tensors, 0, 1, 1))
        for _ in range(3):
            assert executor.execute(document).code is Code.ok


def test_too_much_memory_is_named_and_the_process_serves_on(gpu: FakeGpu, kernels) -> None:
    """Also what had been allocated before the refusal is given back."""
    with in_and_out() as tensors, Executor(gpu, tensors, memory=8 * MIB) as executor:
        small = tensors.document(kernels, add(tensors, 0, 1, 1))
        tensors.own(6 * MIB)
        fits = tensors.document(kernels, add(tensors, 0, 1, 1))
        tensors.own(6 * MIB)
        too_much = tensors.document(kernels, add(tensors, 0, 1, 1))
        for document, code in ((too_much, Code.out_of_memory), (fits, Code.ok), (small, Code.ok)):
            reply = executor.execute(document)
            assert reply is not None and reply.code is code, reply
            assert code is Code.ok or fields(reply)["type"] == "CUDA_ERROR_OUT_OF_MEMORY"


def test_a_plan_that_isn_t_taken_leaves_nothing(gpu: FakeGpu, kernels: Kernels) -> None:
    with in_and_out() as tensors, Executor(gpu, tensors, memory=8 * MIB) as executor:
        tensors.own(6 * MIB)
        fits = tensors.document(kernels, add(tensors, 0, 1, 1))
        tensors.symbol("absent", 4)
        refused = tensors.document(kernels, add(tensors, 0, 1, 1))
        for _ in range(2):
            assert executor.adopt(refused).code is Code.raised
            assert executor.execute(refused).code is Code.raised
            assert executor.execute(fits).code is Code.ok


def test_a_full_gpu_is_no_fault_of_a_kernel(gpu: FakeGpu, kernels: Kernels) -> None:
    """There is no memory for a context: that is said, and the process is of no further use."""
    with (
        in_and_out() as tensors,
        Executor(gpu, tensors, fails="cuDevicePrimaryCtxRetain:1:2") as it,
    ):
        reply = it.execute(tensors.document(kernels, add(tensors, 0, 1, 1)))
        assert reply is not None and reply.code is Code.out_of_memory
        assert it.receive() is None


@pytest.mark.parametrize("function", ["cuMemImportFromShareableHandle", "cuMemAddressReserve"])
def test_buffers_that_can_t_be_mapped_at_first(gpu: FakeGpu, kernels, function: str) -> None:
    """What was mapped isn't mapped once more, by a descriptor that is closed."""
    with in_and_out() as tensors, Executor(gpu, tensors, fails=f"{function}:2:2") as executor:
        document = tensors.document(kernels, add(tensors, 0, 1, 1))
        assert executor.execute(document).code is Code.out_of_memory
        assert executor.execute(document).code is Code.ok
        assert torch.equal(tensors.values("out"), INPUT + 1)


# --- contexts -------------------------------------------------------------------------------------


def test_a_store_to_an_input_is_an_illegal_access_and_ends_the_process(gpu, kernels) -> None:
    with in_and_out() as tensors, Executor(gpu, tensors) as executor:
        reply = executor.execute(tensors.document(kernels, add(tensors, 1, 0, 1)))
        assert reply is not None and reply.code is Code.device_failed
        assert fields(reply) == {
            "type": "CUDA_ERROR_ILLEGAL_ADDRESS",
            "message": "an illegal memory access was encountered",
        }
        assert executor.receive() is None
        assert executor.ends_with() == (0, "")


@pytest.mark.parametrize("way", ["fill", "copy"])
def test_a_fill_of_an_input_is_no_way_around(gpu: FakeGpu, kernels: Kernels, way: str) -> None:
    with in_and_out() as tensors, Executor(gpu, tensors) as executor:
        step = (
            fill(tensors.view(0), 1)
            if way == "fill"
            else Copy("copy", tensors.view(0), tensors.view(1))
        )
        assert executor.execute(tensors.document(kernels, step)).code is Code.device_failed


def test_a_kernel_that_traps_ends_the_process_of_a_replay_too(gpu: FakeGpu, kernels) -> None:
    with in_and_out() as tensors, Executor(gpu, tensors) as executor:
        assert executor.ask(Operation.place, tensors.arguments).code is Code.ok
        document = tensors.document(kernels, launch("breaks", tensors.at(1)))
        assert executor.adopt(document).code is Code.ok
        assert executor.arrange(0).code is Code.ok
        reply = executor.replay()
        assert reply is not None and reply.code is Code.device_failed
        assert fields(reply)["type"] == "CUDA_ERROR_ILLEGAL_INSTRUCTION"
        assert executor.receive() is None


CALLS = {
    "cuModuleLoadData:1:200": Code.raised,
    "cuModuleGetFunction:1:500": Code.raised,
    "cuMemAlloc:1:2": Code.out_of_memory,
    "cuMemsetD8Async:1:1": Code.raised,
    "cuMemcpyDtoH:1:1": Code.raised,
    "cuStreamSynchronize:1:719": Code.device_failed,
    "cuLaunchKernelEx:1:1": Code.raised,
    "cuLaunchKernelEx:1:700": Code.device_failed,
    "cuStreamCreate:1:2": Code.out_of_memory,
    "cuInit:1:100": Code.device_failed,
}


@pytest.mark.parametrize("call", CALLS)
def test_whatever_the_driver_refuses_is_told(gpu: FakeGpu, kernels: Kernels, call: str) -> None:
    """And where the context is whole, the next plan runs."""
    with in_and_out() as tensors, Executor(gpu, tensors, fails=call) as executor:
        tensors.own(64)
        document = tensors.document(kernels, add(tensors, 0, 1, 1))
        reply = executor.execute(document)
        assert reply is not None and reply.code is CALLS[call], reply
        json.loads(reply.text)
        if reply.code is Code.device_failed:
            assert executor.receive() is None
        else:
            assert call.partition(":")[0] in fields(reply)["message"]
            assert executor.execute(document).code is Code.ok
            assert torch.equal(tensors.values("out"), INPUT + 1)


def test_without_a_driver_that_is_said(gpu: FakeGpu, kernels: Kernels, tmp_path) -> None:
    nowhere = FakeGpu(gpu.program, tmp_path)
    with in_and_out() as tensors, Executor(nowhere, tensors) as executor:
        reply = executor.execute(tensors.document(kernels, add(tensors, 0, 1, 1)))
        if "no CUDA driver" not in reply.text:
            pytest.skip("this machine has a driver")
        assert reply.code is Code.device_failed and executor.receive() is None


# --- tensors that lie in memory of the host -------------------------------------------------------


def test_a_gpu_works_on_copies_of_what_lies_in_host_memory(gpu: FakeGpu, kernels: Kernels) -> None:
    with in_and_out(on_gpu=False) as tensors, Executor(gpu, tensors) as executor:
        assert executor.execute(tensors.document(kernels, add(tensors, 0, 1, 1))).code is Code.ok
        assert torch.equal(tensors.values("out"), INPUT + 1)


def test_a_store_to_the_copy_of_an_input_shows(gpu: FakeGpu, kernels: Kernels) -> None:
    with in_and_out(on_gpu=False) as tensors, Executor(gpu, tensors) as executor:
        assert executor.execute(tensors.document(kernels, add(tensors, 0, 0, 1))).code is Code.ok
        assert torch.equal(tensors.values("in"), INPUT + 1)


def on_the_host() -> Tensors:
    """A launcher's own copies: both tensors are pageable memory of the host."""
    return Tensors(
        vector("in", torch.arange(12.0).reshape(3, 4), space="host"),
        output("out", 3, 4, strides=(6, 1), space="host"),
        on_gpu=False,
    )


def test_host_memory_is_copied_to_a_gpu_and_back(gpu: FakeGpu, kernels: Kernels) -> None:
    with on_the_host() as tensors, Executor(gpu, tensors) as executor:
        own = tensors.own(48)
        whole = View(own, "float32", (3, 4), (4, 1))
        steps: list[Step] = [
            Copy("copy", whole, tensors.view(0), 1),
            add(tensors, own, own, 1, count=12, stream=1),
            Copy("copy", tensors.view(1), whole, 1),
        ]
        assert executor.execute(tensors.document(kernels, *steps)).code is Code.ok
        assert torch.equal(tensors.values("out"), torch.arange(12.0).reshape(3, 4) + 1)


def test_host_memory_is_filled_by_the_host(gpu: FakeGpu, kernels: Kernels) -> None:
    with on_the_host() as tensors, Executor(gpu, tensors) as executor:
        assert executor.execute(tensors.document(kernels, fill(tensors.view(1), 0))).code is Code.ok
        assert not tensors.values("out").any()
        reply = executor.execute(tensors.document(kernels, fill(tensors.view(1), 1.5)))
        assert reply is not None and reply.code is Code.bad_request


def test_host_memory_that_is_only_read_isn_t_written(gpu: FakeGpu, kernels: Kernels) -> None:
    slots = vector("in", INPUT, space="host"), output("out", 8, space="host")
    tensors = Tensors(*slots, on_gpu=False, writable=False)
    with tensors, Executor(gpu, tensors) as executor:
        for step in (
            fill(tensors.view(0), 0),
            Copy("copy", tensors.view(0), tensors.view(1)),
        ):
            reply = executor.execute(tensors.document(kernels, step))
            assert reply is not None and reply.code is Code.bad_request


def test_host_memory_isn_t_timed_nor_taken_for_a_gpus(gpu: FakeGpu, kernels: Kernels) -> None:
    with in_and_out(on_gpu=False) as tensors, Executor(gpu, tensors) as executor:
        reply = executor.ask(Operation.place, tensors.arguments)
        assert reply is not None and reply.code is Code.bad_request
    slots = vector("in", INPUT, space="host"), output("out", 8)
    with Tensors(*slots) as tensors, Executor(gpu, tensors) as executor:
        reply = executor.execute(tensors.document(kernels, add(tensors, 0, 1, 1)))
        assert reply is not None and reply.code is Code.bad_request
