"""The clock's workers over a GPU of the tests: what is timed is the executor's own program."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from grader.cases import Case, fixed_case
from grader.executors.encoding import DeviceKernel
from grader.executors.gpu import copy_kernel, gpu_encoding
from grader.executors.gpu import gpu_runner as executors
from grader.plan import Buffer, Plan
from grader.plan.model import Launch, PointerArgument, ScalarArgument
from grader.sandbox import Sandbox
from grader.sandbox import worker_process as worker_module
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status
from grader.timing import contenders
from grader.timing.baselines import Baselines
from grader.timing.buffer_sets import Layout
from grader.timing.failures import TimingFailed
from grader.worker.protocol import Argument
from tests.support.fake_gpu import NEEDS_COMPILER, FakeGpu

pytestmark = NEEDS_COMPILER
SILU = load_all()["silu"]
VARIANT = SILU.variants["triton"]
N = 4000
CASE: Case = fixed_case(Task(SILU, VARIANT), {"n": N, "dtype": "float32"}, 7)
KERNELS = """
#include <algorithm>
#include <cmath>
#include <cstring>
extern "C" {
extern const unsigned silu_parameters[] = {0, 8, 8, 8, 16, 4, 20, 4, 0, 0};
void silu(void** parameters, const unsigned*, const unsigned*) {
    const float* in = *static_cast<const float**>(parameters[0]);
    float* out = *static_cast<float**>(parameters[1]);
    const int count = *static_cast<int*>(parameters[2]);
    const int rounds = *static_cast<int*>(parameters[3]);
    for (int round = 0; round < rounds; ++round) {
        for (int i = 0; i < count; ++i) out[i] = in[i] / (1 + std::exp(-in[i]));
    }
}
extern const unsigned copy_parameters[] = {0, 8, 8, 8, 16, 8, 0, 0};
void copy(void** parameters, const unsigned* grid, const unsigned* block) {
    const unsigned long bytes = *static_cast<unsigned long*>(parameters[2]);
    std::memcpy(*static_cast<void**>(parameters[1]), *static_cast<void**>(parameters[0]),
                std::min(bytes, 16UL * grid[0] * block[0]));
}
}
"""


@dataclass(frozen=True)
class Documents:
    """Plans of one launch of that kernel, each of so many rounds over so many elements."""

    cubin: bytes
    rounds: Sequence[int] = (1,)
    count: int = N

    def documents(self, case: Case, arguments: Sequence[Argument]) -> list[bytes]:
        """As contenders.Documents says."""
        buffers = tuple(
            Buffer(each.allocation[1], "argument", n) for n, each in enumerate(arguments)
        )
        return [self._document(each, buffers, arguments) for each in self.rounds]

    def _document(self, rounds: int, buffers: tuple, arguments: Sequence[Argument]) -> bytes:
        pointers = [
            PointerArgument((n, each.offset - each.allocation[0]))
            for n, each in enumerate(arguments)
        ]
        numbers = [
            ScalarArgument(n.to_bytes(4, "little").hex(), "i32") for n in (self.count, rounds)
        ]
        step = Launch("launch", 0, (1,), arguments=(*pointers, *numbers))
        kernel = DeviceKernel(self.cubin, "silu", 4)
        plan = Plan(1, "triton", buffers, (), ((step,),))
        return gpu_encoding.encode(plan, [(step,)], {0: kernel})


@pytest.fixture(scope="module")
def cubin(gpu: FakeGpu) -> bytes:
    return gpu.cubin(KERNELS)


@pytest.fixture
def opened() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def planned(sandbox: Sandbox, documents: Documents) -> contenders.Planned:
    return contenders.Planned(sandbox, Task(SILU, VARIANT), documents)


def test_a_candidate_is_timed_and_every_output_judged(sandbox, opened, cubin: bytes) -> None:
    replays = planned(sandbox, Documents(cubin)).begin(CASE, opened)
    took = replays.settle()
    assert took > 0 and replays.calls >= contenders.FEWEST_BUFFER_SETS
    for _ in range(3):
        assert replays.seconds() > 0


def test_an_output_that_lacks_an_element_is_seen(sandbox, opened, cubin: bytes) -> None:
    replays = planned(sandbox, Documents(cubin, count=N - 1)).begin(CASE, opened)
    with pytest.raises(TimingFailed) as caught:
        replays.seconds()
    assert caught.value.status is Status.not_written


def test_the_fastest_configuration_is_taken(sandbox, opened, cubin: bytes) -> None:
    replays = planned(sandbox, Documents(cubin, rounds=(60, 1, 90))).begin(CASE, opened)
    slow = planned(sandbox, Documents(cubin, rounds=(60,))).begin(CASE, opened)
    assert min(slow.seconds() for _ in range(3)) > 5 * min(replays.seconds() for _ in range(3))


def test_a_copy_is_a_plan_of_one_launch(
    sandbox: Sandbox, opened, cubin: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = DeviceKernel(cubin, copy_kernel.NAME)  # PTX is for a GPU's driver
    monkeypatch.setattr(copy_kernel, "compiled", lambda: kernel)
    layout = contenders.layout_of("copy", Task(SILU, VARIANT), CASE, 1 << 16)
    more = contenders.layout_of("copy", Task(SILU, VARIANT), CASE, 1 << 17)
    executor = contenders.executor(sandbox, [layout, more], opened)
    for each in (layout, more, layout):  # one process for all sizes
        replays = contenders.copy(executor, each)
        assert replays.seconds() > 0 and replays._worker is executor.worker
        sets = replays._sets
        assert sets._layout == each
        [number] = replays._order
        views = {slot.name: tensor for slot, tensor in sets._views(number, "input")}
        made = {slot.name: tensor for slot, tensor in sets._views(number, "output")}
        assert torch.equal(made["destination"], views["source"])


def test_an_executor_begins_by_itself_and_has_nothing_of_a_variant(
    sandbox: Sandbox, opened, cubin: bytes
) -> None:
    candidate = planned(sandbox, Documents(cubin))
    executor = candidate.executor(CASE, opened)
    assert worker_module.is_readable(executor.worker._requests, 20.0)  # nobody has waited for it
    executor.wait()
    with pytest.raises(TimingFailed, match="there is no plan"):
        executor.ungraded(Layout.of(Task(SILU, VARIANT), CASE)).seconds()
    replays = candidate.begin(CASE, opened, executor=executor)
    assert replays.settle() > 0 and replays._worker is executor.worker


def test_a_shared_executor_serves_several_cases_and_is_replaced_when_it_died(
    sandbox: Sandbox, opened, cubin: bytes
) -> None:
    other = fixed_case(Task(SILU, VARIANT), {"n": 2 * N, "dtype": "float32"}, 7)
    with contenders.SharedExecutor(Task(SILU, VARIANT), [CASE, other]) as shared:
        candidates = [
            replace(planned(sandbox, Documents(cubin, count=count)), shared=shared)
            for count in (N, 2 * N)
        ]
        workers = []
        for candidate, case in zip(candidates, (CASE, other), strict=True):
            replays = candidate.begin(case, opened)
            assert replays.settle() > 0
            workers.append(replays._worker)
        assert workers[0] is workers[1]
        workers[0].close()
        replays = candidates[0].begin(CASE, opened)
        assert replays.settle() > 0 and replays._worker is not workers[0]
    assert not replays._worker.alive


def test_a_worker_with_room_for_a_large_case_has_no_more_sets_for_a_small_one(
    sandbox: Sandbox, opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = fixed_case(Task(SILU, VARIANT), {"n": 8 * N, "dtype": "float32"}, 7)
    layouts = [Layout.of(Task(SILU, VARIANT), case) for case in (CASE, large)]
    monkeypatch.setattr(contenders, "ENOUGH_BYTES", 9 * sum(layouts[0].lengths))
    counts = []
    for served in (layouts[:1], layouts):
        executor = contenders.executor(sandbox, served, opened)
        counts.append(executor.ungraded(layouts[0])._sets.count)
    assert counts[0] <= counts[1] == 9
    assert executor.ungraded(layouts[1])._sets.count == contenders.FEWEST_BUFFER_SETS


def test_the_reference_s_executor_serves_all_cases(sandbox: Sandbox, opened, cubin: bytes) -> None:
    solution = planned(sandbox, Documents(cubin))
    with Baselines(sandbox, sandbox, Task(SILU, VARIANT), [CASE], lambda: solution) as baselines:
        baselines.expect(["reference"])
        begun = [baselines.begin("reference", CASE, opened) for _ in range(2)]
        assert begun[0]._worker is begun[1]._worker and begun[1].settle() > 0
    assert not begun[1]._worker.alive


def test_an_executor_that_has_no_memory_is_not_measured(
    sandbox, opened, cubin: bytes, gpu: FakeGpu, tmp_path: Path
) -> None:
    layout = Layout.of(Task(SILU, VARIANT), CASE)
    program = executors.held_program(sandbox)
    replays = contenders.start(sandbox, program, "", [layout], opened).ungraded(layout)
    arguments = layout.arguments(0)
    buffers = [Buffer(each.allocation[1], "argument", n) for n, each in enumerate(arguments)]
    buffers.append(Buffer(1 << 36, "device"))
    with pytest.raises(TimingFailed) as caught:
        replays.adopt(gpu_encoding.encode(Plan(1, "triton", tuple(buffers), (), ((),)), [()], {}))
    assert caught.value.status is Status.not_measured
