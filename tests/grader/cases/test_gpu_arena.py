"""Cases whose tensors lie on the GPU for grader and worker both, and what happens where they can't.

Without a GPU memfds stand in for its memory, and a function here for the executor with its kernels:
a store that the hardware would stop comes back as the driver's error.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from grader.cases import Case, gpu_memory
from grader.cases import inputs as inputs_of_case
from grader.cases.arena import GAP_BYTES, INPUTS, OUTPUTS, Arena, Slot, required_bytes
from grader.cases.gpu_memory import GpuMemory
from grader.executors import executor
from grader.executors.cuda import cuda_build
from grader.executors.gpu import gpu_runner
from grader.executors.gpu.gpu_runner import GpuRunner
from grader.executors.registry import Runners
from grader.grading import grade
from grader.plan import Plan
from grader.sandbox import Sandbox
from grader.sandbox.memfd import Memfds
from grader.spec import EXERCISES, Variant, load
from grader.spec.task import Task
from grader.status import Status
from grader.worker.gpu_mapping import GpuMemoryError
from grader.worker.protocol import Argument, Code, Operation, Reply
from tests.grader.executors.triton.test_runner import KERNEL
from tests.support.gpu_locks import own_locks

REFERENCE = Path(__file__).resolve().parents[3] / "reference"
SILU = load(EXERCISES / "silu.yaml")
ILLEGAL = {"type": "700", "message": "an illegal memory access was encountered"}
STORE_TO_INPUT = "tl.store(x_ptr + offs, x + 1, mask={mask})"


def case(n: int) -> Case:
    return Case((("n", n),), "float32", seed=1)


CASE = case(8)


class StandIn(Memfds):
    """Memory of a GPU, as far as an arena can tell; it notes what is done with it."""

    on_gpu = True

    def __init__(self, input_bytes: int, output_bytes: int) -> None:
        super().__init__(input_bytes, output_bytes)
        self.done: list[object] = []

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def put(self, buffer: int, start: int, values: torch.Tensor) -> None:
        self.done.append(("put", buffer, start, len(values)))
        super().put(buffer, start, values)

    def finish(self) -> None:
        self.done.append("finish")

    def take(self, buffer: int, start: int, length: int) -> torch.Tensor:
        self.done.append(("take", buffer, start, length))
        return super().take(buffer, start, length)


class IllegalAccess(Exception):
    """What a kernel does that the hardware stops."""


# A kernel: its input, its output with what lies behind it, and whether the input can be written.
StandInKernel = Callable[[torch.Tensor, torch.Tensor, bool], None]


class StandInSandbox:
    """Has executors, which do to the arena what `kernel` says; it notes what they are asked."""

    device = "cuda"
    plans = False

    def __init__(self) -> None:
        self.kernel: StandInKernel = silu
        self.runner: GpuRunner | None = None  # whose arena it is
        self.told: list[bool] = []  # of each worker, whether its buffers lie on the GPU
        self.asked: list[Sequence[Argument]] = []  # the arguments of each run
        self.refuses = False  # such buffers, whatever the worker
        self.after_run: Callable[[], None] = lambda: None

    def worker(self, path, name, buffers, limits, on_gpu=False) -> StandInSandbox:
        self.told.append(on_gpu)
        return self

    def ask(self, operation, arguments, document=b"") -> Reply:
        assert operation is Operation.execute
        self.asked.append(arguments)
        if self.told[-1] and self.refuses:
            return Reply(1, Code.bad_request, json.dumps({"message": "importing: no"}))
        x, out = arguments
        n = x.shape[0]
        try:
            self.kernel(self._from(x)[:n], self._from(out)[: n + 1], x.buffer == OUTPUTS)
        except IllegalAccess:
            return Reply(1, Code.device_failed, json.dumps(ILLEGAL))
        self.after_run()
        return Reply(1, Code.ok, "{}")

    def _from(self, argument: Argument) -> torch.Tensor:
        """What begins with a tensor, in the arena."""
        arena = self.runner._memory.arena
        buffer = (arena.memory.inputs, arena.memory.outputs)[argument.buffer]
        return buffer[argument.offset :][: argument.shape[0] * 4 + 4].view(torch.float32)

    def close(self) -> None:
        """End a worker, of which there is none."""


class StandInPlans:
    """A plan that says nothing: the stand-in for the executor knows what to do."""

    fresh = 0  # planners

    def fresh_worker(self) -> None:
        self.fresh += 1

    def planned(self, case, arguments, buffers=()) -> Plan:
        return Plan(1, "triton", (), (), ((),))


def silu(x: torch.Tensor, out: torch.Tensor, writable: bool) -> None:
    out[: len(x)] = x * torch.sigmoid(x)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> StandInSandbox:
    own_locks(monkeypatch, tmp_path)  # each case locks the GPU
    monkeypatch.setattr(executor, "GpuMemory", StandIn)
    monkeypatch.setattr(gpu_runner, "held_program", lambda sandbox: Path("executor"))
    monkeypatch.setattr(gpu_runner, "document", lambda *_: b"")
    return StandInSandbox()


def runner_in(sandbox: Any, task: Task) -> GpuRunner:
    """A runner of stand-ins."""
    plans: Any = StandInPlans()
    return GpuRunner(sandbox, task, REFERENCE / "silu.py", plans)


@contextlib.contextmanager
def running(stand_in: StandInSandbox, kernel: StandInKernel = silu) -> Iterator[GpuRunner]:
    stand_in.kernel = kernel
    task = Task(SILU, SILU.variants["triton"])
    with runner_in(stand_in, task) as opened:
        stand_in.runner = opened
        yield opened


def in_kernel(statement: str) -> str:
    return KERNEL.format(statement=statement)


# --- the arena over a GPU's memory ----------------------------------------------------------------


def slots() -> list[Slot]:
    values = torch.arange(10.0)
    return [
        Slot("x", "float32", (10,), (1,), values=values),
        Slot("y", "float32", (5,), (2,), values=values[:5]),
        Slot("out", "float32", (10,), (1,), role="output"),
    ]


@pytest.fixture(params=["stand-in", pytest.param("gpu", marks=pytest.mark.gpu)])
def on_gpu(request: pytest.FixtureRequest) -> Iterator[Arena]:
    memory = StandIn if request.param == "stand-in" else GpuMemory
    with Arena(1 << 20, 1 << 20, memory) as opened:
        yield opened


def view(arena: Arena, placed) -> torch.Tensor:
    buffer = (arena.memory.inputs, arena.memory.outputs)[placed.argument.buffer]
    first = placed.argument.offset // 4
    return buffer.view(torch.float32).as_strided(placed.slot.shape, placed.slot.strides, first)


def test_values_and_poison_are_there_when_the_arena_is_filled(on_gpu: Arena) -> None:
    x, y, out = on_gpu.place(slots())
    assert view(on_gpu, x).tolist() == list(range(10))
    assert view(on_gpu, y).tolist() == list(range(5))
    assert bool(view(on_gpu, out).isnan().all())
    assert [each.argument.buffer for each in (x, y, out)] == [INPUTS, INPUTS, OUTPUTS]


def test_what_was_written_comes_back_with_where(on_gpu: Arena) -> None:
    placed = on_gpu.place(slots())
    view(on_gpu, placed[2]).as_strided((11,), (1,))[5:] = 7.0
    outcomes = {each.slot.name: each for each in on_gpu.collect(placed)}
    assert outcomes["out"].values[5:].tolist() == [7.0] * 5
    assert outcomes["out"].unwritten.tolist() == [True] * 5 + [False] * 5
    assert outcomes["out"].outside == (10,)
    assert not outcomes["x"].values.is_cuda


def test_inputs_are_judged_where_no_seal_keeps_them(on_gpu: Arena) -> None:
    placed = on_gpu.place(slots())
    view(on_gpu, placed[1])[3] = -1.0
    changed = {each.slot.name: each.changed for each in on_gpu.collect(placed)}
    assert changed == {"x": False, "y": True, "out": False}


def test_tensors_lie_side_by_side_with_their_guard_zones() -> None:
    outputs = [replace(each, role="inout") for each in slots()[:2]]
    need = required_bytes(outputs, on_gpu=True)
    with Arena(0, need, StandIn) as exact:
        first, second = (each.argument.allocation for each in exact.place(outputs))
    assert first[0] == 0
    assert second[0] == sum(first)
    assert sum(second) == need


def test_where_inputs_can_be_written_they_lie_too_far_off_for_a_stray_store() -> None:
    need = required_bytes(slots(), on_gpu=True, inputs_writable=True)
    with Arena(0, need, StandIn) as exact:
        placed = exact.place(slots(), inputs_writable=True)
    ends = [sum(each.argument.allocation) for each in placed]
    starts = [each.argument.allocation[0] for each in placed]
    assert starts == [0, *(end + GAP_BYTES for end in ends[:-1])]
    assert ends[-1] == need


def test_everything_is_there_before_a_request_and_copied_back_once() -> None:
    memory = []

    def made(*lengths: int) -> StandIn:
        memory.append(StandIn(*lengths))
        return memory[0]

    with Arena(1 << 20, 1 << 20, made) as arena:
        placed = arena.place(slots())
        allocations = [(each.argument.buffer, *each.argument.allocation) for each in placed]
        assert memory[0].done == [*(("put", *each) for each in allocations), "finish"]
        memory[0].done.clear()
        arena.collect(placed)
        assert memory[0].done == [("take", *each) for each in allocations]


# --- cases through it -----------------------------------------------------------------------------


def storing_to_input(x: torch.Tensor, out: torch.Tensor, writable: bool) -> None:
    silu(x, out, writable)
    if len(x) == 9:
        if not writable:
            raise IllegalAccess
        x[3] += 1


def test_a_right_kernel_passes_and_reads_inputs_it_could_not_write(stand_in) -> None:
    with running(stand_in) as runner:
        for n in (1, 17, 4097):
            assert runner.run(case(n)).status is Status.passed
        assert runner.shares_gpu_memory
        assert runner.not_shared == ""
        assert runner.times.workers == 1
    assert stand_in.told == [True]
    assert [[each.buffer for each in asked] for asked in stand_in.asked] == [[INPUTS, OUTPUTS]] * 3


def test_a_store_to_an_input_is_found_by_a_second_run(stand_in) -> None:
    with running(stand_in, storing_to_input) as runner:
        results = [runner.run(case(n)) for n in (8, 9, 8)]
        assert runner.shares_gpu_memory
    statuses = [each.status for each in results]
    assert statuses == [Status.passed, Status.modified_input, Status.passed]
    assert results[1].verdict.what.startswith("x[3] was overwritten (1 of 9 elements")
    assert results[1].observed_by == "grader"


def test_a_store_to_an_input_counts_before_the_error_that_came_with_it(stand_in) -> None:
    def kernel(x: torch.Tensor, out: torch.Tensor, writable: bool) -> None:
        if writable:
            x += 1
        raise IllegalAccess  # a load from nowhere

    with running(stand_in, kernel) as runner:
        assert runner.run(CASE).status is Status.modified_input


def test_a_fresh_worker_comes_with_a_fresh_planner(stand_in) -> None:
    with running(stand_in) as runner:
        for _ in range(2):
            assert runner.run(CASE).status is Status.passed
            runner.fresh_worker()
        assert runner._plans.fresh == runner.times.workers == 2


def test_an_illegal_access_that_changed_no_input_stays_a_crash(stand_in) -> None:
    def kernel(x: torch.Tensor, out: torch.Tensor, writable: bool) -> None:
        silu(x, out, writable)
        if len(x) == 9:
            raise IllegalAccess

    with running(stand_in, kernel) as runner:
        results = [runner.run(case(n)) for n in (8, 9, 8)]
        assert runner.shares_gpu_memory
    assert [each.status for each in results] == [Status.passed, Status.crashed, Status.passed]
    assert "an illegal memory access was encountered" in results[1].verdict.what


def test_without_a_driver_no_kernel_reaches_host_memory(monkeypatch) -> None:
    def missing(flags: int) -> None:  # as cuda-bindings do
        raise RuntimeError("libcuda.so.1 not found")

    driver = SimpleNamespace(cuInit=missing)
    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cuda.bindings", SimpleNamespace(driver=driver))
    assert not gpu_memory.reaches_host_memory()


def test_what_the_driver_refuses_in_other_words_is_not_run_again(stand_in, monkeypatch) -> None:
    refusal = Reply(1, Code.raised, json.dumps({"message": "too many resources", "type": "701"}))
    with running(stand_in) as runner:
        monkeypatch.setattr(stand_in, "ask", lambda *_, **__: refusal)
        result = runner.run(CASE)
    assert result.status is Status.launch_error
    assert "too many resources" in result.verdict.what
    assert len(stand_in.told) == 1


def test_a_store_past_the_end_is_seen(stand_in) -> None:
    def kernel(x: torch.Tensor, out: torch.Tensor, writable: bool) -> None:
        silu(x, out, writable)
        out[len(x)] = 1

    with running(stand_in, kernel) as runner:
        result = runner.run(CASE)
    assert result.status is Status.wrote_out_of_bounds
    assert "past the end of out" in result.verdict.what


def test_an_input_changed_in_spite_of_its_mapping_is_seen(stand_in) -> None:
    with running(stand_in) as runner:
        stand_in.after_run = lambda: runner._memory.arena.memory.inputs.fill_(0)
        result = runner.run(CASE)
    assert result.status is Status.modified_input
    assert len(stand_in.asked) == 1


def test_who_returns_the_result_instead_of_writing_it_is_told_so(stand_in, monkeypatch) -> None:
    returning = Plan(1, "triton", (), (), ((),), returned="a tensor of shape [8], float32")
    monkeypatch.setattr(StandInPlans, "planned", lambda *_: returning)
    with running(stand_in, lambda *_: None) as runner:
        result = runner.run(CASE)
    assert result.status is Status.not_written
    assert "silu() returned a tensor of shape [8]" in result.verdict.what


def test_a_large_case_gets_a_larger_arena(stand_in, monkeypatch) -> None:
    monkeypatch.setattr(executor, "GPU_ARENA_BYTES", 4096)
    with running(stand_in) as opened:
        for n in (1, 30000, 2, 200000):
            assert opened.run(case(n)).status is Status.passed
        assert opened.times.workers == 2  # 30000 in twice what 1 needs; 200000 not
        assert opened._plans.fresh == 1  # which doesn't read from what is gone
        assert opened.shares_gpu_memory


# --- where it can't be had ------------------------------------------------------------------------


def test_an_argument_in_host_memory_is_copied_as_before(stand_in) -> None:
    exercise = load(EXERCISES / "copy_first_column.yaml")
    task = Task(exercise, next(iter(exercise.variants.values())))
    sizes = Case((("rows", 3), ("cols", 5)), "float32", seed=1)
    made = inputs_of_case.make(task, sizes)
    with runner_in(stand_in, task) as runner:
        assert not runner._make_room(made, inputs_writable=False)  # a planner is to read the input
        assert not runner.shares_gpu_memory
        assert runner.not_shared == ""


def refuse(*_: object) -> None:
    raise GpuMemoryError("exporting: CUDA_ERROR_NOT_SUPPORTED")


def expect_copies(stand_in: StandInSandbox, runner: GpuRunner) -> None:
    """Cases get their verdicts, with inputs where only what comes back is seen."""
    assert runner.run(CASE).status is Status.passed
    assert runner.run(case(17)).status is Status.passed
    assert not runner.shares_gpu_memory
    assert stand_in.told[-1] is False
    assert [each.buffer for each in stand_in.asked[-1]] == [OUTPUTS, OUTPUTS]


def test_memory_that_can_not_be_had_means_copies(stand_in, monkeypatch) -> None:
    monkeypatch.setattr(executor, "GpuMemory", refuse)
    with running(stand_in) as opened:
        expect_copies(stand_in, opened)
        assert opened.not_shared == "exporting: CUDA_ERROR_NOT_SUPPORTED"
        assert opened.times.workers == 1


@pytest.mark.parametrize("doing", ["put", "finish", "take", "close"])
def test_memory_that_fails_later_means_copies(stand_in, monkeypatch, doing: str) -> None:
    with running(stand_in) as opened:
        assert opened.run(CASE).status is Status.passed
        monkeypatch.setattr(StandIn, doing, refuse)
        if doing == "close":  # nothing is lost but the memory
            opened.close()
            return
        expect_copies(stand_in, opened)
        assert opened.not_shared == "exporting: CUDA_ERROR_NOT_SUPPORTED"


def test_memory_that_no_worker_can_reach_means_copies(stand_in) -> None:
    stand_in.refuses = True
    with running(stand_in) as opened:
        expect_copies(stand_in, opened)
        assert "importing: no" in opened.not_shared


def test_a_store_to_an_input_is_seen_among_copies(stand_in, monkeypatch) -> None:
    monkeypatch.setattr(executor, "GpuMemory", refuse)
    with running(stand_in, storing_to_input) as opened:
        assert opened.run(case(9)).status is Status.modified_input
    assert len(stand_in.asked) == 1


def test_why_memory_is_not_shared_is_one_line(monkeypatch) -> None:
    monkeypatch.setattr(gpu_memory, "_Allocation", refuse)
    reason = gpu_memory.why_not_shared()
    assert reason
    assert "\n" not in reason


def test_the_evidence_says_how_tensors_reach_kernels(monkeypatch) -> None:
    monkeypatch.setattr(gpu_memory, "GpuMemory", StandIn)
    assert grade.how_memory_reaches_workers("") == "shared with workers"
    assert grade.how_memory_reaches_workers("no memory") == "copied: no memory"
    monkeypatch.setattr(gpu_memory, "GpuMemory", refuse)
    assert grade.how_memory_reaches_workers("").startswith("copied: exporting: ")


def test_why_a_variants_memory_was_not_shared_outlives_its_runner(stand_in) -> None:
    runners = Runners({}, stand_in, "cuda", lambda name: b"", lambda *_: True)
    with running(stand_in) as runner:
        runners._opened["silu", "triton", "gpu"] = runner
        runner.not_shared = "no memory"
        runners.close_variant(Task(SILU, SILU.variants["triton"]))
        assert runners.not_shared == "no memory"


# --- on a GPU -------------------------------------------------------------------------------------


@contextlib.contextmanager
def on_a_gpu(sandbox: Sandbox, variant: Variant, source: bytes) -> Iterator[GpuRunner]:
    """The runner on the GPU of a variant of silu whose file holds this."""
    exercise = SILU.model_copy(update={"variants": {variant.name: variant}})
    runners = Runners({"silu": exercise}, sandbox, "cuda", lambda _: source, lambda _: False)
    task = Task(exercise, variant)
    with contextlib.closing(runners):
        opened = runners.on_gpu(task)
        yield opened
        assert opened.not_shared == ""
        assert opened.shares_gpu_memory


def triton_on(sandbox: Sandbox, source: str) -> contextlib.AbstractContextManager[GpuRunner]:
    return on_a_gpu(sandbox, SILU.variants["triton"], source.encode())


@pytest.mark.gpu
def test_on_a_gpu_memory_is_shared() -> None:
    assert gpu_memory.why_not_shared() == ""


@pytest.mark.gpu
def test_on_a_gpu_the_reference_passes(shared_sandbox: Sandbox) -> None:
    with triton_on(shared_sandbox, (REFERENCE / "silu.py").read_text()) as runner:
        for n in (1, 1025, 1 << 20, 1 << 24):  # the last needs a larger arena
            result = runner.run(case(n))
            assert result.status is Status.passed, result


@pytest.mark.gpu
@pytest.mark.parametrize(
    "source",
    [
        in_kernel(STORE_TO_INPUT.format(mask="(offs == 3) & (n == 9)")),
        in_kernel("tl.atomic_add(x_ptr + offs, x, mask=(offs < n) & (n == 9))"),
    ],
    ids=["store", "atomic"],
)
def test_on_a_gpu_a_store_to_an_input_is_told(shared_sandbox: Sandbox, source: str) -> None:
    with triton_on(shared_sandbox, source) as runner:
        results = [runner.run(case(n)) for n in (8, 9, 8)]
    statuses = [each.status for each in results]
    assert statuses == [Status.passed, Status.modified_input, Status.passed], results


@pytest.mark.gpu
def test_on_a_gpu_a_store_past_an_output_is_told(shared_sandbox: Sandbox) -> None:
    with triton_on(shared_sandbox, in_kernel("mask = offs < n + 1")) as runner:
        result = runner.run(CASE)
    assert result.status is Status.wrote_out_of_bounds, result


@pytest.mark.gpu
def test_on_a_gpu_the_case_after_an_illegal_access_passes(shared_sandbox: Sandbox) -> None:
    source = in_kernel("tl.store(out_ptr + offs + (1 << 40), x, mask=(offs < n) & (n == 9))")
    with triton_on(shared_sandbox, source) as runner:
        results = [runner.run(case(n)) for n in (8, 9, 8)]
    statuses = [each.status for each in results]
    assert statuses == [Status.passed, Status.crashed, Status.passed], results
    assert "illegal memory access" in results[1].verdict.what


CUDA = """
__global__ void twice(float* into, int from, int until) {
    const int i = from + blockIdx.x * blockDim.x + threadIdx.x;
    if (i < until) into[i] = 2;
}
extern "C" void stores_to_input(const float* input, float* output, int n) {
    silu(input, output, n);
    if (n == 9) twice<<<1, 32>>>(const_cast<float*>(input), 0, n);
}
extern "C" void copies_to_input(const float* input, float* output, int n) {
    silu(input, output, n);
    if (n == 9) cudaMemcpy(const_cast<float*>(input), output, 4, cudaMemcpyDeviceToDevice);
}
extern "C" void stores_too_far(const float* input, float* output, int n) {
    silu(input, output, n);
    if (n == 9) twice<<<1, 32>>>(output, n, n + 3);
}
extern "C" void stores_nowhere(const float* input, float* output, int n) {
    silu(input, output, n);
    if (n == 9) twice<<<1, 32>>>((float*)64, 0, n);
}
"""


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("silu", Status.passed),
        ("stores_to_input", Status.modified_input),
        ("copies_to_input", Status.modified_input),
        ("stores_too_far", Status.wrote_out_of_bounds),
        ("stores_nowhere", Status.crashed),
    ],
)
def test_on_a_gpu_a_program_works_in_place(name: str, status: Status) -> None:
    if reason := cuda_build.why_not("gpu"):
        pytest.skip(reason)
    variant = SILU.variants["cuda"].model_copy(update={"entry": name})
    source = (REFERENCE / "silu.cu").read_bytes() + CUDA.encode()
    with on_a_gpu(Sandbox(), variant, source) as runner:  # no sandbox for plans of Triton is needed
        results = [runner.run(case(n)) for n in (8, 9, 8)]
    assert [each.status for each in results] == [Status.passed, status, Status.passed], results
