"""Results of CUDA C++ that hang on the order of blocks, or of warps, are told; kernels that draw a
number, leave the rest to the last one, add up or wait for the one before pass.

Each submission is a SiLU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from grader.executors import program_orders
from grader.grading.check import check_part
from grader.grading.session import Session
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status
from tests.support.emulated import NEEDS_COMPILER

from .test_cuda import OPTIONS as OF_CUDA

pytestmark = NEEDS_COMPILER
SPECS = load_all()
OPTIONS = replace(OF_CUDA, policy=False)
HEAD = """
#include <cuda_runtime.h>
__device__ float silu_of(float x) { return x / (1.0f + expf(-x)); }
"""
HONEST = {
    "a number from a counter": """
__device__ int next_block;
__global__ void reset() { next_block = 0; }
__global__ void kernel(const float* x, float* out, int n) {
    __shared__ int number;
    if (threadIdx.x == 0) number = atomicAdd(&next_block, 1);
    __syncthreads();
    int i = number * blockDim.x + threadIdx.x;
    if (i < n) out[i] = silu_of(x[i]);
}
extern "C" void silu(const float* x, float* out, int n) {
    reset<<<1, 1>>>();
    kernel<<<(n + 31) / 32, 32>>>(x, out, n);
}
""",
    "the last block does the rest": """
__device__ float w[1 << 20];
__device__ unsigned count;
__global__ void kernel(const float* x, float* out, int n) {
    __shared__ bool last;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] = silu_of(x[i]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicInc(&count, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    for (int j = threadIdx.x; j < n; j += blockDim.x) out[j] = ((volatile float*)w)[j];
}
extern "C" void silu(const float* x, float* out, int n) {
    kernel<<<(n + 31) / 32, 32>>>(x, out, n);
}
""",
    "parts that are added up": """
__global__ void kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float part = blockIdx.y == 0 ? 0.3f : blockIdx.y == 1 ? 0.45f : 0.25f;
    if (i < n) atomicAdd(&out[i], silu_of(x[i]) * part);
}
extern "C" void silu(const float* x, float* out, int n) {
    cudaMemset(out, 0, n * sizeof(float));
    kernel<<<dim3((n + 31) / 32, 3), 32>>>(x, out, n);
}
""",
    "each block waits for the one before": """
__device__ float w[1 << 20];
__device__ int done[1 << 16];
__global__ void kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, before = i - blockDim.x;
    if (i < n) w[i] = silu_of(x[i]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        if (blockIdx.x) while (atomicAdd(&done[blockIdx.x - 1], 0) == 0) {}
        __threadfence();
        atomicExch(&done[blockIdx.x], 1);
    }
    __syncthreads();
    __threadfence();
    if (before >= 0 && before < n) out[before] = ((volatile float*)w)[before];
}
extern "C" void silu(const float* x, float* out, int n) {
    int* flags;
    cudaGetSymbolAddress((void**)&flags, done);
    cudaMemset(flags, 0, sizeof(int) * (1 << 16));
    kernel<<<(n + 31) / 32 + 1, 32>>>(x, out, n);
}
""",
    "warps draw numbers, and the last one does the rest": """
__global__ void kernel(const float* x, float* out, int n) {
    __shared__ float part[128];
    __shared__ int next, count;
    if (threadIdx.x == 0) next = count = 0;
    __syncthreads();
    int lane = threadIdx.x % 32, place = 0, before = 0;
    if (lane == 0) place = atomicAdd(&next, 1);
    place = __shfl_sync(~0u, place, 0) * 32 + lane;
    int first = blockIdx.x * 128;
    if (first + place < n) part[place] = silu_of(x[first + place]);
    __syncwarp();
    if (lane == 0) {
        __threadfence_block();
        before = atomicAdd(&count, 1);
        __threadfence_block();
    }
    __syncwarp();
    if (__shfl_sync(~0u, before, 0) < 3) return;
    for (int i = lane; i < 128 && first + i < n; i += 32) out[first + i] = part[i];
}
extern "C" void silu(const float* x, float* out, int n) {
    kernel<<<(n + 127) / 128, 128>>>(x, out, n);
}
""",
}
OF_WARPS = {
    "the warp with the highest number does the rest": """
__global__ void kernel(const float* x, float* out, int n) {
    __shared__ float part[128];
    __shared__ int count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    for (int first = 0; first < n; first += 128) {
        if (first + threadIdx.x < n) part[threadIdx.x] = silu_of(x[first + threadIdx.x]);
        __threadfence_block();
        atomicAdd(&count, 1);
        __threadfence_block();
        for (int i = threadIdx.x % 32; threadIdx.x >= 96 && i < 128 && first + i < n; i += 32)
            out[first + i] = part[i];
        __syncthreads();
    }
}
extern "C" void silu(const float* x, float* out, int n) { kernel<<<1, 128>>>(x, out, n); }
""",
    "what the warp before left": """
__global__ void kernel(const float* x, float* out, int n) {
    __shared__ float part[128];
    part[threadIdx.x] = 0.0f;
    __syncthreads();
    for (int first = 0; first < n; first += 96) {
        int i = first + threadIdx.x;
        if (i < n) atomicExch(&part[threadIdx.x], silu_of(x[i]));
        if (threadIdx.x >= 32 && i - 32 < n) out[i - 32] = atomicAdd(&part[threadIdx.x - 32], 0.0f);
        __syncthreads();
    }
}
extern "C" void silu(const float* x, float* out, int n) { kernel<<<1, 128>>>(x, out, n); }
""",
}
HANGING = {
    "what the block before left": """
__device__ float w[1 << 20];
__global__ void kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, before = i - blockDim.x;
    if (i < n) atomicExch(&w[i], silu_of(x[i]));
    if (before >= 0 && before < n) out[before] = atomicAdd(&w[before], 0.0f);
}
extern "C" void silu(const float* x, float* out, int n) {
    kernel<<<(n + 31) / 32 + 1, 32>>>(x, out, n);
}
""",
    "the last exchange": """
__global__ void kernel(const float* x, float* out, int n) {
    int i = blockIdx.x / 3 * blockDim.x + threadIdx.x;
    if (i < n) atomicExch(&out[i], blockIdx.x % 3 == 1 ? 0.0f : silu_of(x[i]));
}
extern "C" void silu(const float* x, float* out, int n) {
    cudaMemset(out, 0, n * sizeof(float));
    kernel<<<(n + 31) / 32 * 3, 32>>>(x, out, n);
}
""",
    "a wait of some rounds": """
__device__ float w[1 << 20];
__device__ int flags[1 << 16];
__global__ void kernel(const float* x, float* out, int n) {
    int tile = blockIdx.x / 2, i = tile * blockDim.x + threadIdx.x;
    volatile int* flag = flags + tile;  // of the atomic loads and stores
    if (blockIdx.x % 2 == 0) {
        if (i < n) w[i] = silu_of(x[i]);
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) *flag = 1;  // atomic
    } else {
        for (int round = 0; threadIdx.x == 0 && round < 100 && !*flag; ++round) {}  // atomic
        __threadfence();
        __syncthreads();
        if (i < n) out[i] = w[i];
        if (threadIdx.x == 0) *flag = 0;  // atomic
    }
}
extern "C" void silu(const float* x, float* out, int n) {
    kernel<<<(n + 31) / 32 * 2, 32>>>(x, out, n);
}
""",
    "in the second call alone": """
__global__ void right(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = silu_of(x[i]);
}
__global__ void kernel(const float* x, float* out, int n) {
    int i = blockIdx.x / 2 * blockDim.x + threadIdx.x;
    if (i < n) atomicExch(&out[i], blockIdx.x % 2 == 0 ? 0.0f : silu_of(x[i]));
}
extern "C" void silu(const float* x, float* out, int n) {
    static int calls = 0;
    int blocks = (n + 31) / 32;
    if (calls++ % 2 == 0) right<<<blocks, 32>>>(x, out, n);
    else kernel<<<blocks * 2, 32>>>(x, out, n);
}
""",
}


@pytest.fixture
def graded(tmp_path: Path) -> Callable:
    """Grades the ragged sizes of a silu.cu by plan, its source unread."""

    def grade(source: str):
        (tmp_path / "silu.cu").write_text(HEAD + source)
        with Session(tmp_path, SPECS, OPTIONS) as session:
            return check_part(
                session, Task(SPECS["silu"], SPECS["silu"].variants["cuda"]), "float32", "ragged"
            )

    return grade


@pytest.mark.parametrize("source", HONEST.values(), ids=HONEST)
def test_what_is_right_in_every_order_of_blocks_passes(graded, source) -> None:
    part = graded(source)
    assert part.status is Status.passed, part


def test_a_lane_releases_what_others_did_before_they_met(graded) -> None:
    source = HONEST["warps draw numbers, and the last one does the rest"]
    assert graded(source.replace("__syncwarp();", "", 1)).status is Status.data_race


def nondeterministic(part, unit: str) -> str:
    """The hint of a part that fails in another order of `unit`s alone."""
    assert part.status is Status.nondeterministic, part
    told = program_orders.DEPENDS.format(unit=unit)
    assert any(told[1:] in each.what for each in part.failures), part.failures
    return part.failures[0].hint


@pytest.mark.parametrize("source", OF_WARPS.values(), ids=OF_WARPS)
def test_what_hangs_on_the_order_of_warps_is_nondeterministic(graded, source) -> None:
    hint = nondeterministic(graded(source), "warp")
    assert "`__syncthreads()` waits for all of a block" in hint


@pytest.mark.parametrize("source", HANGING.values(), ids=HANGING)
def test_what_hangs_on_the_order_of_blocks_is_nondeterministic(graded, source) -> None:
    hint = nondeterministic(graded(source), "block")
    places = [
        f"silu.cu:{at}:"
        for at, each in enumerate((HEAD + source).splitlines(), 1)
        if "atomic" in each
    ]
    assert any(each in hint for each in places)


def test_a_flag_that_stays_set_lets_the_next_call_read_old_values(graded) -> None:
    source = HONEST["each block waits for the one before"]
    cleared = "    cudaMemset(flags, 0, sizeof(int) * (1 << 16));\n"
    assert cleared in source
    part = graded(source.replace(cleared, ""))
    assert part.status in (Status.nondeterministic, Status.data_race), part
    assert "is there when the next call begins" in part.failures[0].hint


def test_a_kernel_that_is_wrong_in_every_second_call_is_wrong(graded) -> None:
    part = graded("""
__device__ int calls;
__global__ void kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = calls % 2 ? 0.0f : silu_of(x[i]);
}
__global__ void count() { ++calls; }
extern "C" void silu(const float* x, float* out, int n) {
    kernel<<<(n + 31) / 32, 32>>>(x, out, n);
    count<<<1, 1>>>();
}
""")
    assert part.status.is_failure, part


TIMED = """
__device__ long long taken;
__global__ void kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    long long begin = clock64();
    float value = i < n ? silu_of(x[i]) : 0.0f;
    long long time = clock64() - begin;
    if (i == 0) taken = time;
    if (i < n) out[i] = USED ? 0.0f : value;
}
extern "C" void silu(const float* x, float* out, int n) {
    kernel<<<(n + 31) / 32, 32>>>(x, out, n);
}
"""


def test_what_the_clock_decides_is_nondeterministic(graded) -> None:
    part = graded(TIMED.replace("USED", "time > 5000"))
    assert part.status is Status.nondeterministic, part
    told = program_orders.DEPENDS_ON_THE_CLOCK
    assert any(told[1:] in each.what for each in part.failures), part.failures
    assert "silu.cu:8: use the clock to measure" in part.failures[0].hint


def test_a_kernel_may_measure_itself(graded) -> None:
    part = graded(TIMED.replace("USED", "false"))
    assert part.status is Status.passed, part
