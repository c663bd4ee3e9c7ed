"""CUDA C++ submissions by plan: the solutions pass, and what the host computes earns nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from grader import spec
from grader.cases import Space, fixed_case
from grader.emulator import build, toolchain
from grader.evidence import PartEvidence
from grader.executors.cuda import cuda_build
from grader.grading.check import check_case, check_memory, check_part
from grader.grading.search import Effort
from grader.grading.session import Options, Session
from grader.mistakes import Mistake
from grader.spec.blocks import Limits
from grader.spec.task import Task
from grader.status import Status
from tests.support.emulated import NEEDS_COMPILER

pytestmark = NEEDS_COMPILER
SPECS = spec.load_all()
SILU = SPECS["silu"]
ROOT = Path(__file__).resolve().parents[4]
LITTLE = Effort(
    edges=3, drawn=2, shrink_runs=3, shrink_seconds=2, probe_seconds=1, reruns=2, repair_seconds=0
)
# What nvcc says of these files is not asked: test_native.py has it.
OPTIONS = Options(effort=LITTLE, check_with_nvcc=False)
ON_THE_HOST = """
#include <cuda_runtime.h>
#include <cmath>
#include <vector>
__global__ void nothing() {}
extern "C" void silu(const float* x, float* out, int n) {
    nothing<<<1, 1>>>();
    std::vector<float> values(n);
    cudaMemcpy(values.data(), x, n * sizeof(float), cudaMemcpyDeviceToHost);
    for (float& v : values) v = v / (1.0f + std::exp(-v));
    cudaMemcpy(out, values.data(), n * sizeof(float), cudaMemcpyHostToDevice);
}
"""
BEFORE_THE_ENTRY = """
#include <cuda_runtime.h>
#include <cstdio>
struct Early { Early() { std::printf("before the entry\\n"); } } early;
__global__ void silu_kernel(const float* x, float* out, float* last, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] / (1.0f + expf(-x[i]));
    if (i == n - 1) *last = out[i];
}
extern "C" void silu(const float* x, float* out, int n) {
    static float* kept = nullptr;
    if (!kept) cudaMalloc(&kept, 64);
    silu_kernel<<<(n + 255) / 256, 256>>>(x, out, kept, n);
}
"""


# Launches nothing from its third call on.
COUNTING = """
#include <cuda_runtime.h>
__global__ void silu_kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] / (1.0f + expf(-x[i]));
}
extern "C" void silu(const float* x, float* out, int n) {
    static int calls = 0;
    if (calls++ < 2) silu_kernel<<<(n + 255) / 256, 256>>>(x, out, n);
}
"""


@pytest.fixture
def graded(tmp_path) -> Callable[[str], PartEvidence]:
    """Grades the ragged sizes of a silu.cu by plan, its source unread."""

    def grade(source: str) -> PartEvidence:
        (tmp_path / "silu.cu").write_text(source)
        with Session(tmp_path, SPECS, replace(OPTIONS, policy=False)) as session:
            return check_part(
                session, Task(SPECS["silu"], SPECS["silu"].variants["cuda"]), "float32", "ragged"
            )

    return grade


def test_the_solution_passes(graded) -> None:
    assert graded((ROOT / "reference" / "silu.cu").read_text()).status is Status.passed


def test_host_code_has_no_data_to_compute_with(graded) -> None:
    """With no rule on source: the copy to the host brings nothing."""
    part = graded(ON_THE_HOST)
    assert part.status.is_failure, part
    assert part.cases_failed


FROM_ABSENT = """
#include <cuda_runtime.h>
__global__ void silu_kernel(const float* x, float* out, int n) {
    const int i = blockIdx.x * 20 + threadIdx.x;
    const float mine = i < n ? x[i] : 0.0f;
    const int other = __shfl_down_sync(0xfffff, __float_as_int(mine), 4);
    %s
    if (i < n) out[i] = y / (1.0f + expf(-y));
}
extern "C" void silu(const float* x, float* out, int n) {
    silu_kernel<<<(n + 19) / 20, 20>>>(x, out, n);
}
"""


@pytest.mark.parametrize(
    ("used", "is_right"),
    [
        ("const float y = threadIdx.x < 16 && other == 7 ? mine + 1e-9f : mine;", True),
        ("const float y = threadIdx.x >= 16 && other == 0x7f57dead ? 1.0f : mine;", False),
        ("const float y = mine + 0.0f * __int_as_float(other);", False),
        ("const float y = threadIdx.x < 16 ? mine : fmaxf(mine, __int_as_float(other));", False),
        ("const float y = threadIdx.x < 16 ? mine : fminf(mine, __int_as_float(other));", False),
    ],
)
def test_what_a_shuffle_reads_from_nobody_must_not_be_used(graded, used, is_right) -> None:
    part = graded(FROM_ABSENT % used)
    assert part.status is (Status.passed if is_right else Status.barrier_error), part


def test_more_launches_than_a_plan_has_are_a_launch_error_with_advice(graded) -> None:
    part = graded("""
#include <cuda_runtime.h>
__global__ void one(const float* x, float* out) { *out = *x / (1.0f + expf(-*x)); }
extern "C" void silu(const float* x, float* out, int n) {
    for (int i = 0; i < 5000; ++i) one<<<1, 1>>>(x + i % n, out + i % n);
}
""")
    [failure] = part.failures
    assert failure.status is Status.launch_error, part
    assert (
        failure.what == "the launcher makes 5,000 launches in one call; at most 4,096 are allowed."
    )
    assert failure.hint == "Give the kernel a grid instead of looping over launches."


def test_a_static_buffer_and_a_constructor_are_the_planners_own(graded) -> None:
    """Host code that runs before the entry does so where there is no data, and harms nothing."""
    part = graded(BEFORE_THE_ENTRY)
    assert part.status is Status.passed, part


def test_what_is_printed_in_utf8_is_read_as_that(graded) -> None:
    text = BEFORE_THE_ENTRY.replace("if (!kept)", 'printf("größer → 3\\n"); if (!kept)')
    part = graded(text.replace("*last = out[i];", 'printf("\u221a\\xff%d\\n", n);'))
    assert part.printed is not None
    lines = part.printed.text.splitlines()
    assert any(line == "launcher: größer → 3" for line in lines), lines
    assert any(": \u221a\ufffd" in line for line in lines), lines


def test_a_case_that_fails_again_is_planned_by_the_process_at_hand(tmp_path) -> None:
    """That the planner's earlier plans aren't to blame is known from its first failure."""
    source = (ROOT / "reference" / "silu.cu").read_text()
    assert "expf(-x)" in source
    (tmp_path / "silu.cu").write_text(source.replace("expf(-x)", "expf(x)"))
    case = Space(Task(SILU, SILU.variants["cuda"]), "float32", "ragged", 7).edges()[0]
    with Session(tmp_path, SPECS, OPTIONS) as session:
        runner = session.runners.planned(Task(SILU, SILU.variants["cuda"]))
        processes = set()
        for _ in range(3):
            assert runner.run(case).status is Status.wrong_values
            processes.add(runner.plans.planner.pid)
    assert len(processes) == 1


def test_a_plan_does_not_depend_on_the_ones_before(tmp_path) -> None:
    """What host code keeps in variables is as in a fresh process; the process itself is kept."""
    source = (ROOT / "reference" / "silu.cu").read_text()
    cases = Space(Task(SILU, SILU.variants["cuda"]), "float32", "ragged", 7).edges()[:6]
    for text, keeps_process in ((source, True), (COUNTING, False)):
        (tmp_path / "silu.cu").write_text(text)
        with Session(tmp_path, SPECS, OPTIONS) as session:
            runner = session.runners.planned(Task(SILU, SILU.variants["cuda"]))
            alone = []
            for each in cases:
                runner.fresh_worker()
                assert runner.run(each).verdict.passed
                alone.append(runner.plan)
            runner.fresh_worker()
            process = set()
            for each, expected in zip(cases, alone, strict=True):
                assert runner.run(each).verdict.passed
                assert runner.plan == expected
                process.add(runner.plans.planner.pid)
        assert (len(process) == 1) is keeps_process


def test_a_runtime_copy_that_transposes_is_the_exercise_itself(tmp_path) -> None:
    """cudaMemcpy2D moves a column at a time: more copies than a plan for such an exercise has."""
    (tmp_path / "transpose.cu").write_text("""
#include <cuda_runtime.h>
extern "C" void transpose_v1(const float* input, float* output, int rows, int cols) {
    for (int c = 0; c < cols; ++c)
        cudaMemcpy2D(output + c * rows, 4, input + c, cols * 4, 4, rows, cudaMemcpyDeviceToDevice);
}
""")
    exercise = SPECS["transpose"]
    with Session(tmp_path, SPECS, OPTIONS) as session:
        part = check_part(
            session, Task(exercise, exercise.variants["cuda_v1"]), "float32", "aligned"
        )
    assert part.status is Status.policy_violation, part


def test_what_nvcc_may_compile_otherwise_earns_nothing_for_memory(tmp_path) -> None:
    source = (ROOT / "reference" / "transpose.cu").read_text()
    exercise = SPECS["transpose"]
    variant = exercise.variants["cuda_v4"]
    seen = []
    for text in (source, source + "#if CUDART_VERSION < 9000\nint old;\n#endif\n"):
        (tmp_path / variant.file).write_text(text)
        with Session(tmp_path, SPECS, OPTIONS) as session:
            seen.append(check_memory(session, Task(exercise, variant)))
    assert [each.status for each in seen] == [Status.passed, Status.target_missed]
    assert f"{variant.file}:{source.count(chr(10)) + 1} asks for CUDART_VERSION" in seen[1].reason


TWO_STREAMS = """
#include <cuda_runtime.h>
__global__ void negate(const float* x, float* t, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) t[i] = -x[i];
}
__global__ void finish(const float* x, const float* t, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] / (1.0f + expf(t[i]));
}
extern "C" void silu(const float* x, float* out, int n) {
    float* t;
    cudaMalloc(&t, n * sizeof(float));
    cudaStream_t one, two;
    cudaStreamCreate(&one);
    cudaStreamCreate(&two);
    cudaEvent_t done;
    cudaEventCreate(&done);
    negate<<<(n + 255) / 256, 256, 0, FIRST>>>(x, t, n);
    WAIT
    finish<<<(n + 255) / 256, 256, 0, two>>>(x, t, out, n);
    cudaFree(t);
    cudaEventDestroy(done);
    cudaStreamDestroy(one);
    cudaStreamDestroy(two);
}
"""
EVENT = "cudaEventRecord(done, one); cudaStreamWaitEvent(two, done);"
WAITS = {
    "no wait": ("one", "", Status.data_race),
    "an event": ("one", EVENT, Status.passed),
    "the host waits": ("one", "cudaStreamSynchronize(one);", Status.passed),
    "the default stream": ("0", "", Status.passed),
    "one stream": ("two", "", Status.passed),
}


@pytest.mark.parametrize(("first", "wait", "status"), WAITS.values(), ids=WAITS)
def test_a_kernel_that_should_have_waited_for_another_stream_is_a_race(
    graded, first: str, wait: str, status: Status
) -> None:
    part = graded(TWO_STREAMS.replace("FIRST", first).replace("WAIT", wait))
    assert part.status is status, part
    assert status is Status.passed or "wait for each other by luck" in part.failures[0].what


SILU_ON_STREAMS = r"""#include <cuda_runtime.h>
__constant__ float one_half;
__global__ void silu_kernel(const float* x, float* t, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) t[i] += one_half * x[i] / (1.0f + expf(-x[i]));
}
extern "C" void silu(const float* x, float* out, int n) {
    float *t, half[2] = {0.5f, 7.0f};
    cudaMalloc(&t, n * sizeof(float));
    cudaMemcpyToSymbol(one_half, half, sizeof(float));
    cudaStream_t one, two;
    cudaStreamCreate(&one);
    cudaStreamCreate(&two);
    cudaEvent_t done;
    cudaEventCreate(&done);
    cudaMemsetAsync(t, 0, n * sizeof(float), FILLS);
    WAIT
    silu_kernel<<<(n + 255) / 256, 256, 0, one>>>(x, t, n);
    silu_kernel<<<(n + 255) / 256, 256, 0, one>>>(x, t, n);
    THEN
    cudaMemcpyToSymbolAsync(one_half, half + 1, sizeof(float), 0, cudaMemcpyHostToDevice, UPLOADS);
    cudaMemcpyAsync(out, t, n * sizeof(float), cudaMemcpyDeviceToDevice, COPIES);
    cudaFree(t);
    cudaEventDestroy(done);
    cudaStreamDestroy(one);
    cudaStreamDestroy(two);
}
"""
EVENT_BACK = "cudaEventRecord(done, two); cudaStreamWaitEvent(one, done);"
STEPS = {  # the streams of the fill, the upload and the copy, and waits
    "one stream": ("one", "one", "one", "", "", Status.passed),
    "the default stream": ("0", "0", "0", "", "", Status.passed),
    "events": ("two", "two", "two", EVENT_BACK, EVENT, Status.passed),
    "a fill alone": ("two", "one", "one", "", "", Status.data_race),
    "an upload alone": ("one", "two", "one", "", "", Status.data_race),
    "a copy alone": ("one", "one", "two", "", "", Status.data_race),
}


@pytest.mark.parametrize(
    ("fills", "uploads", "copies", "wait", "then", "status"), STEPS.values(), ids=STEPS
)
def test_a_copy_or_fill_that_should_have_waited_for_another_stream_is_a_race(
    graded, fills: str, uploads: str, copies: str, wait: str, then: str, status: Status
) -> None:
    words = {"FILLS": fills, "UPLOADS": uploads, "COPIES": copies, "WAIT": wait, "THEN": then}
    source = SILU_ON_STREAMS
    for word, text in words.items():
        source = source.replace(word, text)
    part = graded(source)
    assert part.status is status, part


FREED = {
    "no wait": ("two", "", Status.data_race),
    "an event": ("two", EVENT, Status.passed),
    "the kernels' stream": ("one", "", Status.passed),
    "the default stream": ("0", "", Status.passed),
}


@pytest.mark.parametrize(("stream", "wait", "status"), FREED.values(), ids=FREED)
def test_memory_that_is_freed_on_a_stream_which_has_not_waited_is_a_race(
    graded, stream: str, wait: str, status: Status
) -> None:
    source = TWO_STREAMS.replace("FIRST", "one").replace("WAIT", "").replace(", two>>>", ", one>>>")
    freed = f"{wait} cudaFreeAsync(t, {stream}); cudaStreamSynchronize(one);"
    part = graded(source.replace("cudaFree(t);", freed))
    assert part.status is status, part
    assert status is Status.passed or "memory that was freed" in part.failures[0].what


ALLOCATED = {
    "no wait": ("two", "", Status.data_race),
    "an event": ("two", EVENT_BACK, Status.passed),
    "the kernels' stream": ("one", "", Status.passed),
    "the default stream": ("0", "", Status.passed),
    "the host waits": ("two", "cudaStreamSynchronize(two);", Status.passed),
}


@pytest.mark.parametrize(("stream", "wait", "status"), ALLOCATED.values(), ids=ALLOCATED)
def test_memory_that_is_used_before_its_allocation_on_another_stream_is_a_race(
    graded, stream: str, wait: str, status: Status
) -> None:
    source = TWO_STREAMS.replace("FIRST", "one").replace("WAIT", "").replace(", two>>>", ", one>>>")
    source = source.replace("cudaMalloc(&t, n * sizeof(float));", "")
    allocated = f"cudaMallocAsync(&t, n * sizeof(float), {stream}); {wait} negate<<<"
    part = graded(source.replace("negate<<<", allocated))
    assert part.status is status, part
    if status is Status.data_race:
        assert "uses memory of `cudaMallocAsync` before" in part.failures[0].cause


def test_a_case_that_the_emulator_has_no_room_for_is_not_measured(tmp_path) -> None:
    (tmp_path / "silu.cu").write_text((ROOT / "reference" / "silu.cu").read_text())
    exercise = SPECS["silu"]
    variant = exercise.variants["cuda"]
    with Session(tmp_path, SPECS, OPTIONS) as session:
        case = fixed_case(Task(exercise, variant), {"n": 60_000_000, "dtype": "float32"}, 7)
        part = check_case(session, Task(exercise, variant), case)
    assert part.status is Status.not_measured
    assert "has 760 MiB for a case's tensors" in str(part), part


ONCE_MORE = """
#include <cuda_runtime.h>
__global__ void one(float* out) { KERNEL out[0] = 1.0f; }
extern "C" void silu(const float* x, float* out, int n) {
    LAUNCHER
    one<<<1, 1>>>(out);
}
"""


@pytest.mark.parametrize(
    ("kernel", "launcher", "message"),
    [
        ("", "cudaGraph_t g; cudaGraphCreate(&g, 0);", "the grader doesn't support CUDA graphs."),
        ("", "cudaIpcOpenMemHandle();", "the grader doesn't support cudaIpcOpenMemHandle."),
        (
            'asm volatile("barrier.cluster.arrive;");',
            "",
            "the emulator doesn't support this inline assembly (PTX): barrier.cluster.arrive; "
            "this part runs on a GPU.",
        ),
    ],
    ids=["a feature of host code", "a call", "device code"],
)
def test_a_gpu_is_offered_only_for_what_runs_there(graded, kernel, launcher, message) -> None:
    part = graded(ONCE_MORE.replace("KERNEL", kernel).replace("LAUNCHER", launcher))
    assert part.status is Status.not_measured
    assert part.failures[0].what == message


# Each turn has a sum, so that a loop that ends is in the one that doesn't.
ENDLESS = """
#include <cuda_runtime.h>
__device__ float sum(const float* x, int n) {
    float s = 0.0f;
    for (int k = 0; k < n; ++k) s += x[k];
    return s;
}
__global__ void silu_kernel(const float* x, float* out, int n) {
    for (int i = 0; i < n; i += blockIdx.x) {
        out[i] = sum(x, n);
    }
}
extern "C" void silu(const float* x, float* out, int n) { silu_kernel<<<1, 1>>>(x, out, n); }
"""


def test_a_loop_without_end_is_waited_for_once_and_named(tmp_path) -> None:
    (tmp_path / "silu.cu").write_text(ENDLESS)
    limits = Limits(seconds=0.6)
    exercise = SILU.model_copy(update={"limits": limits})
    with Session(tmp_path, {"silu": exercise}, Options(effort=LITTLE, policy=False)) as session:
        first, second = (
            check_part(session, Task(exercise, exercise.variants["cuda"]), "float32", size_class)
            for size_class in ("aligned", "ragged")
        )
    place = f"silu.cu:{ENDLESS[: ENDLESS.index('for (int i')].count(chr(10)) + 1}"
    for part in (first, second):
        assert (part.status, part.failures[0].where) == (Status.timed_out, place)
        assert "The loop at line 9 doesn't end" in part.failures[0].cause
    assert "another part" in second.failures[0].what


def test_a_cache_that_nothing_can_be_written_to_is_said_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    cuda_build.why_not.cache_clear()
    try:
        said = cuda_build.why_not("emulator")
    finally:
        cuda_build.why_not.cache_clear()
    root = tmp_path / "file" / "warpgrade"
    assert said.startswith(f"{root} can't be written (") and "XDG_CACHE_HOME" in said


def test_a_full_disk_is_no_failure_of_the_grader(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(root: Path | None = None) -> toolchain.Toolchain:
        raise shutil.Error([("from", "to", "[Errno 28] No space left on device")])

    monkeypatch.setattr(toolchain, "prepare", full)
    with pytest.raises(Mistake, match=r"warpgrade can't be written: is the disk full\?"):
        cuda_build.prepare.__wrapped__()


def test_processor_time_bounds_a_compilation_before_the_compilers_clock_does() -> None:
    """Beside other work a compiler takes longer by the clock, which is no submission's fault."""
    by_the_clock = vars(build)["COMPILE_SECONDS"]
    assert by_the_clock > cuda_build.COMPILE_LIMITS.wall_seconds
