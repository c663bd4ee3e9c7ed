"""Runs that count for memory points: what can't be won by padding, by knowing the case, by tuning.

Every submission here is a right transpose of the rung that asks for whole sectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader import evidence, spec
from grader.cases import fixed_case
from grader.evidence import LineCounters, MemoryEvidence, Metric
from grader.executors import memory_metrics
from grader.executors.cuda import cuda_build
from grader.grading import memory_use
from grader.grading.check import check, check_memory
from grader.grading.search import Effort
from grader.grading.session import Options, Session
from grader.report.message import merged_messages
from grader.sandbox import Sandbox
from grader.sandbox.worker_process import SandboxError
from grader.scoring import memory_bounds, score
from grader.spec import Memory, Variant
from grader.spec.task import Task
from grader.status import Status

SPECS = spec.load_all()
TRANSPOSE = SPECS["transpose"]

# Stores of four bytes each 4 * rows apart, and of whole sectors.
KERNELS = """
import torch
import triton
import triton.language as tl


@triton.jit
def naive_kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + col, mask=col < cols)
        tl.store(out_ptr + col * rows + row, x, mask=col < cols)


@triton.jit
def tile_kernel(x_ptr, out_ptr, rows, cols, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    x = tl.load(x_ptr + r[:, None] * cols + c, mask=(r[:, None] < rows) & (c < cols))
    t = tl.trans(x)
    tl.store(out_ptr + c[:, None] * rows + r, t, mask=(c[:, None] < cols) & (r < rows))


def naive(input, output):
    rows, cols = input.shape
    naive_kernel[(rows,)](input.contiguous(), output, rows, cols, BLOCK=128)


def tiled(input, output):
    rows, cols = input.shape
    grid = (triton.cdiv(rows, 32), triton.cdiv(cols, 32))
    tile_kernel[grid](input.contiguous(), output, rows, cols, B=32)
"""
BY_TILES = "\n\ndef transpose_v3(input, output):\n    tiled(input, output)\n"
SPECIAL_CASE = """

def transpose_v3(input, output):
    (tiled if input.shape == (256, 512) else naive)(input, output)
"""
# Nothing depends on what the second launch writes, as much as the first one, in whole sectors.
PADDED = """

def transpose_v3(input, output):
    naive(input, output)
    tiled(input, torch.empty_like(output))
"""
# The work is done twice, so that each launch could be the one that is left out.
TWICE = """

def transpose_v3(input, output):
    tiled(input, output)
    tiled(input, output)
"""
# Both launches are needed, and together they move twice what the arguments hold.
IN_TWO_STEPS = """

@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


def transpose_v3(input, output):
    middle = torch.empty_like(output)
    tiled(input, middle)
    n = middle.numel()
    copy_kernel[(triton.cdiv(n, 1024),)](middle, output, n, BLOCK=1024)
"""
LOADS_AGAIN = """

@triton.jit
def pad_kernel(x_ptr, out_ptr, rows, cols, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    total = tl.full((B, B), -float("inf"), tl.float32)
    for _ in range(3):
        x = tl.load(x_ptr + r[:, None] * cols + c, mask=(r[:, None] < rows) & (c < cols), other=0)
        total = tl.maximum(total, x)
    mask = (c[:, None] < cols) & (r < rows)
    tl.store(out_ptr + c[:, None] * rows + r, tl.trans(total), mask=mask)


def transpose_v3(input, output):
    rows, cols = input.shape
    pad_kernel[(triton.cdiv(rows, 32), triton.cdiv(cols, 32))](
        input.contiguous(), output, rows, cols, B=32
    )
"""
TUNED = """

@triton.autotune([triton.Config({"B": 32}), triton.Config({"B": 4}, num_warps=1)], ["rows"])
@triton.jit
def tuned_kernel(x_ptr, out_ptr, rows, cols, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    x = tl.load(x_ptr + r[:, None] * cols + c, mask=(r[:, None] < rows) & (c < cols))
    t = tl.trans(x)
    tl.store(out_ptr + c[:, None] * rows + r, t, mask=(c[:, None] < cols) & (r < rows))


def transpose_v3(input, output):
    rows, cols = input.shape
    grid = lambda meta: (triton.cdiv(rows, meta["B"]), triton.cdiv(cols, meta["B"]))
    tuned_kernel[grid](input.contiguous(), output, rows, cols)
"""


@pytest.fixture(scope="module")
def variant() -> Variant:
    return TRANSPOSE.variants["triton_v3"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory, variant) -> Iterator[Callable[[str], MemoryEvidence]]:
    """How a transpose.py with KERNELS and more uses memory."""
    sandbox = Sandbox(kind="plans")

    def measure(more: str) -> MemoryEvidence:
        folder: Path = tmp_path_factory.mktemp("submission")
        (folder / "transpose.py").write_text(KERNELS + more)
        with Session(folder, SPECS, Options(device="cpu"), sandbox=sandbox) as session:
            return check_memory(session, Task(TRANSPOSE, variant))

    with sandbox:
        yield measure


def test_a_worker_that_can_not_be_had_is_told_in_a_line(measured, monkeypatch):
    def refused(*given: object) -> None:
        raise SandboxError("the fork server can't be asked: too many files")

    monkeypatch.setattr(memory_use, "measure", refused)
    seen = measured("")
    assert seen.status is Status.grader_error
    assert (
        seen.reason == "no worker could be started: the fork server can't be asked: too many files"
    )


def missed(seen: MemoryEvidence, variant: Variant) -> list[str]:
    return [
        memory_bounds.missed(each, run.lines, variant.file, run.run)
        for run, each in memory_bounds.shortfalls(seen, variant)
    ]


def values(seen: MemoryEvidence) -> dict[str, float]:
    return {metric.name: metric.value for metric in seen.metrics}


# --- Triton ---------------------------------------------------------------------------------------


def test_honest_tiles_hold_at_the_case_and_beside_it(measured, variant):
    seen = measured(BY_TILES)
    assert seen.status is Status.passed and missed(seen, variant) == []
    [beside] = seen.further
    assert beside.case != seen.case and memory_use.BESIDE in beside.run
    assert values(beside)["useful_bytes_per_sector.store"] == 32
    assert any("It is the same with" in note for note in seen.notes)


def test_knowing_the_case_earns_nothing(measured, variant):
    seen = measured(SPECIAL_CASE)
    assert values(seen)["useful_bytes_per_sector.store"] == 32
    [told] = missed(seen, variant)
    assert told.startswith("with a size drawn beside the case (rows=") and "asked for" in told


def test_a_launch_that_changes_nothing_is_left_out(measured, variant):
    seen = measured(PADDED)
    assert values(seen)["useful_bytes_per_sector.store"] == 4  # the average of both is 7.1
    assert "tile_kernel, launched at transpose.py:" in seen.notes[0]
    assert "changes nothing of the result" in seen.notes[0]
    assert any("stores use 4 of 32" in each for each in missed(seen, variant))


def test_of_the_same_work_twice_one_launch_counts(measured, variant):
    seen = measured(TWICE)
    assert seen.status is Status.passed and missed(seen, variant) == []
    size = 4 * 256 * 512
    stored = next(m for m in seen.metrics if m.name == "useful_bytes_per_sector.store")
    assert stored.counters == f"{size} bytes / {size // 32} sectors"


def test_traffic_far_beyond_the_work_voids_an_average(measured):
    seen = measured(LOADS_AGAIN)
    assert seen.status is Status.target_missed
    assert "kernels load 1,572,864 bytes where 524,288 are needed" in seen.reason


def test_every_configuration_of_a_tuned_kernel_counts(measured, variant):
    seen = measured(TUNED)
    assert values(seen)["useful_bytes_per_sector.store"] == 32
    told = missed(seen, variant)
    assert len(told) == 2 and all("with configuration 2 of 2 (B=4 num_warps=1)" in t for t in told)
    assert any("Of 2 configurations 2 were measured" in note for note in seen.notes)


def test_the_configuration_of_the_first_run_is_told_too(measured, variant):
    told = missed(measured(TUNED.replace('{"B": 32}', '{"B": 2}, num_warps=1')), variant)
    assert told and all("with configuration" in each for each in told)


def test_a_configuration_that_no_gpu_has_room_for_doesnt_count(measured, variant):
    seen = measured(TUNED.replace("num_warps=1", "num_warps=64"))
    assert seen.status is Status.passed and missed(seen, variant) == []
    told = "Of 2 configurations 1 were measured, 1 don't compile for the GPU; the worst counts."
    assert told in seen.notes
    first = TUNED.replace("num_warps=1", "num_warps=64").replace('[triton.Config({"B": 32}), ', "[")
    first = first.replace("num_warps=64)]", 'num_warps=64), triton.Config({"B": 32})]')
    again = measured(first)
    assert values(again) == values(seen) and missed(again, variant) == []


def test_launches_of_which_each_is_needed_all_count(measured, variant):
    seen = measured(IN_TWO_STEPS)
    assert seen.status is Status.passed and missed(seen, variant) == []
    stored = next(m for m in seen.metrics if m.name == "useful_bytes_per_sector.store")
    assert stored.counters.startswith(f"{2 * 4 * 256 * 512} bytes")
    assert not any("changes nothing" in note for note in seen.notes)


def test_points_need_every_run(variant):
    """The score is decided by the worst of the runs, and says which one that was."""
    common = (Metric("useful_bytes_per_sector.load", 32), Metric("largest_share", 0.01))
    good = (*common, Metric("useful_bytes_per_sector.store", 32))
    bad = (*common, Metric("useful_bytes_per_sector.store", 4))
    case = str(fixed_case(Task(TRANSPOSE, variant), variant.memory.case, 1))
    for metrics, status in ((good, Status.passed), (bad, Status.target_missed)):
        other = MemoryEvidence(Status.passed, case=case, metrics=metrics, run="other sizes")
        counted = MemoryEvidence(Status.passed, case=case, metrics=good, further=(other,))
        decided = score._decide_bounds(TRANSPOSE, variant, counted, 1)
        assert decided.status is status
    assert decided.message.startswith("with other sizes: stores use 4 of 32")


def test_evidence_from_before_has_one_run():
    old = '{"exercise":"x","variant":"v3","file":"x.py","memory":{"status":"passed"}}'
    assert evidence.variant_from_json(old).memory.further == ()


# --- CUDA C++ -------------------------------------------------------------------------------------

PADDED_IN_CUDA = """#include <cuda_runtime.h>

__global__ void pad(float4* scratch) { scratch[blockIdx.x * 256 + threadIdx.x] = float4{}; }

__global__ void naive(const float* input, float* output, int rows, int cols) {
    const int row = blockIdx.x;
    for (int col = threadIdx.x; col < cols; col += blockDim.x)
        output[col * rows + row] = input[row * cols + col];
}

extern "C" void transpose_v4(const float* input, float* output, int rows, int cols) {
    float4* scratch;
    cudaMalloc(&scratch, 128 * 256 * sizeof(float4));
    pad<<<128, 256>>>(scratch);
    naive<<<rows, 64>>>(input, output, rows, cols);
    cudaFree(scratch);
}
"""


@pytest.mark.skipif(
    bool(cuda_build.why_not("emulator")), reason="there is no compiler for CUDA C++"
)
def test_in_cuda_too_a_launch_that_changes_nothing_is_left_out(tmp_path):
    variant = TRANSPOSE.variants["cuda_v4"]
    (tmp_path / "transpose.cu").write_text(PADDED_IN_CUDA)
    options = Options(device="cpu", check_with_nvcc=False, backends=("emulator",))
    with Session(tmp_path, SPECS, options) as session:
        seen = check_memory(session, Task(TRANSPOSE, variant))
    assert seen.status is Status.passed
    assert values(seen)["useful_bytes_per_sector.store"] == 4  # the average of both is 7.1
    assert seen.notes[0].startswith("pad, launched at transpose.cu:14, changes nothing")


# --- a kernel that is wrong there -----------------------------------------------------------------


def test_a_kernel_that_is_wrong_in_the_memory_case_gets_a_message_as_any_wrong_one(tmp_path):
    """Its sizes are larger than those of all parts, which pass."""
    source = Path("reference/silu.py").read_text()
    right = "grid = (triton.cdiv(n_elements, BLOCK),)"
    assert right in source
    few = "grid = (min(triton.cdiv(n_elements, BLOCK), 10),)"
    (tmp_path / "silu.py").write_text(source.replace(right, few))
    effort = Effort(edges=4, drawn=0, repair_seconds=0, compile_ahead=False)
    options = Options(device="cpu", effort=effort)
    task = Task(SPECS["silu"], SPECS["silu"].variants["triton"])
    with Session(tmp_path, SPECS, options) as session:
        observed = check(session, task)
    assert observed.correctness is Status.passed
    assert observed.memory.status is Status.not_written
    [message] = merged_messages(observed)
    assert "n=524288" in message.text and "every element from 20480 on" in message.text
    assert observed.at_large_sizes == ()  # a second message, on sizes that cost no points


# --- sizes beside a case --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exercise", "name"),
    [(e.name, v.name) for e in SPECS.values() for v in e.variants.values() if v.memory],
)
def test_sizes_beside_divide_as_the_graded_ones_do(exercise, name):
    variant = SPECS[exercise].variants[name]
    drawn = set()
    for seed in range(30):
        case = fixed_case(Task(SPECS[exercise], variant), variant.memory.case, seed)
        beside = memory_use.case_beside(Task(SPECS[exercise], variant), case)
        assert beside is not None and beside != case
        for (_, before), (_, after) in zip(case.sizes, beside.sizes, strict=True):
            assert before <= after <= before * 4 / 3
            assert min(before & -before, 64) == min(after & -after, 64)
        before, after = dict(case.sizes), dict(beside.sizes)
        assert all(after[a] == after[b] for a in after for b in after if before[a] == before[b])
        drawn.add(beside.sizes)
    assert drawn


def test_the_size_beside_depends_on_the_seed(variant):
    cases = [fixed_case(Task(TRANSPOSE, variant), variant.memory.case, seed) for seed in range(20)]
    besides = {memory_use.case_beside(Task(TRANSPOSE, variant), case).sizes for case in cases}
    assert len(besides) > 1


def test_bounds_are_those_of_the_sizes_that_ran(variant):
    sizes = memory_bounds.sizes_in(variant, "rows=320 cols=576 dtype=float32 seed=1")
    assert (sizes["rows"], sizes["cols"], sizes["itemsize"]) == (320, 576, 4)


def test_a_spec_may_allow_more_traffic(variant):
    case = fixed_case(Task(TRANSPOSE, variant), variant.memory.case, 1)
    traffic = memory_metrics.Traffic(
        load=3 * 4 * 256 * 512, store=4 * 256 * 512, atomic=0, copied=0
    )
    refused = memory_metrics.unearned(traffic, Task(TRANSPOSE, variant), case)
    assert refused.startswith("kernels load")
    assert "at most 2 times (the default)" in refused
    block: Memory = variant.memory.model_copy(update={"most_traffic": 4.0})
    lenient = variant.model_copy(update={"memory": block})
    assert memory_metrics.unearned(traffic, Task(TRANSPOSE, lenient), case) == ""


@pytest.mark.parametrize(
    ("conflicts", "line", "told"), [(31, 2, True), (0, 2, False), (31, 3, False)]
)
def test_padding_that_lengthens_no_row_is_told_where_its_array_conflicts(conflicts, line, told):
    source = "__shared__ float tile[TILE + 1][TILE];\nx = tile[i][j];\nx = other[i];"
    counters = LineCounters(line, "k", "shared", "load", 1, conflicts=conflicts)
    evidence = MemoryEvidence(Status.passed, lines=(counters,))
    note = memory_use._misplaced_padding(source, evidence)
    assert ("Lengthen the rows: `tile[TILE][TILE + 1]`" in note) == told


class TooMuch:
    """Runs whose own case fails, and whose others miss their target from 100 elements on."""

    task = Task(TRANSPOSE, TRANSPOSE.variants["cuda_v2"])

    def __init__(self, status: Status) -> None:
        self.status = status

    def evidence(self, case, without=(), configuration=None):
        if case == memory_use.case_of(self.task, 7):
            return MemoryEvidence(self.status, "no answer within 10 s.", str(case))
        if case.elements < 100:
            return MemoryEvidence(Status.passed, "", str(case))
        reason = "threads do each other's work: twice; kernels load too much"
        return MemoryEvidence(Status.target_missed, reason, str(case))


@pytest.mark.parametrize("status", [Status.timed_out, Status.out_of_memory])
def test_a_run_that_is_too_much_is_explained_by_the_counters_of_a_smaller_case(status):
    found = memory_use.measure(TooMuch(status), 7)
    assert found.status is status
    assert found.reason.startswith("no answer within 10 s. With rows=")
    assert found.reason.endswith(", threads do each other's work: twice.")


def test_a_run_that_is_too_much_has_nothing_added_where_smaller_ones_are_right(monkeypatch):
    runs = TooMuch(Status.out_of_memory)
    monkeypatch.setattr(memory_use, "MOST_EDGES", 0)
    assert memory_use.measure(runs, 7).reason == "no answer within 10 s."


@pytest.mark.parametrize(
    ("source", "reads", "told"),
    [
        ("sum += a[i] * b[j];  // no __shared__ yet", 128, True),
        ("__shared__ float tile[8][8];", 128, False),
        ("sum += a[i] * b[j];", 1, False),
    ],
)
def test_shared_memory_is_told_where_an_argument_is_read_too_often_without_it(source, reads, told):
    task = Task(SPECS["gemm"], SPECS["gemm"].variants["cuda_tiled"])
    block = task.variant.memory
    metrics = tuple(
        Metric(".".join(path), reads if path == ("reads", "b") else 0, "")
        for path, _ in block.bounds()
        if path[0] == "reads"
    )
    case = str(fixed_case(task, block.case, 1))
    evidence = MemoryEvidence(Status.passed, case=case, metrics=metrics)
    note = memory_use._without_tiles(source, evidence, task.variant)
    assert ("fetch the same elements of b" in note) == told
