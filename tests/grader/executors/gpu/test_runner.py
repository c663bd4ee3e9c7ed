"""A variant on a GPU, as a report has it: what its cases come to, whatever its kernels do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from grader.cases import Case, oracle
from grader.cases.compare import Verdict
from grader.executors.cuda.native_planner import NativePlanner
from grader.executors.encoding import DeviceKernel, NotExecutable
from grader.executors.gpu.gpu_runner import GpuRunner
from grader.executors.runner import CaseResult
from grader.grading.session import Session
from grader.plan import Buffer, Plan
from grader.plan.model import Copy, HostOp, Launch, PointerArgument, ScalarArgument, Step, View
from grader.sandbox import Sandbox
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status
from grader.worker.protocol import Argument
from tests.support.fake_gpu import NEEDS_COMPILER, FakeGpu, view_of
from tests.support.gpu_locks import own_locks

pytestmark = NEEDS_COMPILER
SILU = load_all()["silu"]
CASE = Case((("n", 4000),), "float32", seed=5)
SOURCE = """
#include <cmath>
#define TAKES(name) extern const unsigned name##_parameters[] = {0, 8, 8, 8, 16, 4, 0, 0}; \\
    void name(void** given, const unsigned*, const unsigned*)
#define IN (*static_cast<float**>(given[0]))
#define OUT (*static_cast<float**>(given[1]))
#define N (*static_cast<int*>(given[2]))
extern "C" {
TAKES(right) { for (int i = 0; i < N; ++i) OUT[i] = IN[i] / (1 + std::exp(-IN[i])); }
TAKES(wrong) { for (int i = 0; i < N; ++i) OUT[i] = IN[i]; }
TAKES(lacks) { for (int i = 1; i < N; ++i) OUT[i] = IN[i] / (1 + std::exp(-IN[i])); }
TAKES(stray) { for (int i = 0; i < N + 1; ++i) OUT[i] = IN[i] / (1 + std::exp(-IN[i])); }
TAKES(stores) { IN[0] = 1; }
TAKES(far) { OUT[1ull << 40] = 1; }
}
"""
NAMES = ("right", "wrong", "lacks", "stray", "stores", "far")
Steps = Callable[[Sequence[Argument]], Sequence[Step]]


@dataclass
class Plans:
    """Plans of these steps; `buffers` come behind the arguments."""

    cubin: bytes
    steps: Steps
    buffers: tuple[Buffer, ...] = ()

    def planned(self, case: Case, arguments: Sequence[Argument], _: Any = ()) -> Plan | CaseResult:
        own = [Buffer(each.allocation[1], "argument", n) for n, each in enumerate(arguments)]
        return Plan(1, "triton", (*own, *self.buffers), (), (tuple(self.steps(arguments)),))

    def compiled_steps(self, case: Case, planned: Plan, call: int = 0, configuration=None):
        kernels = {n: DeviceKernel(self.cubin, name, 4) for n, name in enumerate(NAMES)}
        return planned.calls[call], kernels

    def compile_view(self, ttir: str) -> DeviceKernel:
        raise NotExecutable("a copy of a strided view (here)")

    def configurations_of(self, planned: Plan) -> list[int]:
        return []

    def fresh_worker(self) -> None:
        pass


def launch(name: str, **more: Any) -> Steps:
    """A launch of a kernel on the input and the output."""

    def steps(arguments: Sequence[Argument]) -> list[Step]:
        pointers = [
            PointerArgument((n, each.offset - each.allocation[0]))
            for n, each in enumerate(arguments)
        ]
        count = ScalarArgument(arguments[0].shape[0].to_bytes(4, "little").hex(), "i32")
        given = {"grid": (1, 1, 1)} | more
        return [Launch("launch", NAMES.index(name), arguments=(*pointers, count), **given)]

    return steps


@pytest.fixture(autouse=True)
def locks_of_this_test(tmp_path, monkeypatch) -> None:
    own_locks(monkeypatch, tmp_path)


@pytest.fixture(scope="module")
def cubin(gpu: FakeGpu) -> bytes:
    return gpu.cubin(SOURCE)


def results(sandbox: Sandbox, plans: Any, count: int = 1) -> list[CaseResult]:
    """What one case comes to, so many times."""
    task = Task(SILU, SILU.variants["triton"])
    path = sandbox.hold("silu.py", b"")
    with GpuRunner(sandbox, task, path, plans) as runner:
        return [runner.run(CASE) for _ in range(count)]


def test_a_right_kernel_passes_again_and_again(sandbox: Sandbox, cubin: bytes) -> None:
    for result in results(sandbox, Plans(cubin, launch("right")), 3):
        assert result.status is Status.passed, result


KERNELS = {
    "wrong": Status.wrong_values,
    "lacks": Status.not_written,
    "stray": Status.wrote_out_of_bounds,
    "stores": Status.modified_input,
    "far": Status.crashed,
}


@pytest.mark.parametrize("name", KERNELS)
def test_what_a_kernel_does_is_what_it_is_told(sandbox: Sandbox, cubin: bytes, name: str) -> None:
    """And the case after one that broke the context has a worker of its own."""
    for result in results(sandbox, Plans(cubin, launch(name)), 2):
        assert result.status is KERNELS[name], result


def test_a_launch_that_the_driver_refuses_is_the_launcher_s(sandbox: Sandbox, cubin) -> None:
    [result] = results(sandbox, Plans(cubin, launch("right", grid=(1, 70_000, 1))))
    assert result.status is Status.launch_error
    assert "cuLaunchKernelEx, CUDA_ERROR_INVALID_VALUE" in result.verdict.what.replace(")", "")


def test_more_memory_than_there_is(sandbox: Sandbox, cubin: bytes) -> None:
    plans = Plans(cubin, launch("right"), (Buffer(1 << 36, "device"),))
    [result] = results(sandbox, plans)
    assert result.status is Status.out_of_memory, result


def test_what_no_gpu_does_by_plan_is_not_measured(sandbox: Sandbox, cubin: bytes) -> None:
    def backwards(arguments: Sequence[Argument]) -> list[Step]:
        to, source = view_of(1, arguments[1]), view_of(0, arguments[0])
        every_second = View(0, "float32", (8,), (2,), source.offset)
        return [Copy("copy", View(1, "float32", (8,), (1,), to.offset), every_second)]

    def by_torch(arguments: Sequence[Argument]) -> list[Step]:
        views = [view_of(n, each) for n, each in enumerate(arguments)]
        return [HostOp("host_op", "aten::mm", (views[0],), (views[1],))]

    for steps, words in ((backwards, "strided view (here)"), (by_torch, "aten::mm")):
        [result] = results(sandbox, Plans(cubin, steps))
        assert result.status is Status.not_measured and words in result.verdict.what
    [result] = results(sandbox, Plans(cubin, launch("right", grid=(-1, 1, 1))))
    assert result.status is Status.not_measured


def test_why_there_is_no_plan_at_all_is_told_of_the_case(sandbox: Sandbox, cubin: bytes) -> None:
    """As where nvcc refuses the file, which is known before any case is."""
    why = CaseResult(None, Verdict(Status.compile_error, "nvcc refuses it."))
    plans: Any = Plans(cubin, launch("right"))
    plans.planned = lambda *_: why
    [result] = results(sandbox, plans)
    assert result == replace(why, case=CASE)


class PlansOfALauncher(Plans):
    """Plans that a launcher's host code makes; no kernel of it runs."""

    def __init__(self, cubin: bytes, launcher: NativePlanner) -> None:
        super().__init__(cubin, launch("right"))
        self._launcher = launcher

    def planned(
        self,
        case: Case,
        arguments: Sequence[Argument],
        buffers: Sequence[tuple[int, int, bool]] = (),
    ) -> Plan | CaseResult:
        return self._launcher.planned(case, arguments, buffers)


def test_host_code_may_read_an_input_in_host_memory(sandbox: Sandbox, cubin: bytes) -> None:
    """What it uploads follows from that input's values."""
    exercises = load_all()
    column = exercises["copy_first_column"]
    task = Task(column, column.variants["cuda"])
    with Session(oracle.ORACLES.parent, exercises) as session:
        launcher: Any = session.runners.planned(task).plans
        plans: Any = PlansOfALauncher(cubin, launcher)
        path = sandbox.hold(task.variant.file, b"")
        with GpuRunner(sandbox, task, path, plans) as runner:
            for rows, cols in ((32, 32), (5, 1), (1, 7)):
                sizes = (("rows", rows), ("cols", cols))
                result = runner.run(Case(sizes, "float32", seed=rows))
                assert result.status is Status.passed, result
