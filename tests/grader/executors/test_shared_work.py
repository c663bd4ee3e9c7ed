"""How kernels share work, counted by both executors: exact numbers of kernels that do and don't."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import spec
from grader.evidence import MemoryEvidence
from grader.executors.cuda import cuda_build
from grader.grading.check import check_memory
from grader.grading.session import Options, Session
from grader.sandbox import Sandbox
from grader.scoring import memory_bounds
from grader.spec.task import Task
from grader.status import Status

SPECS = spec.load_all()
SILU = SPECS["silu"]
IN_CUDA, IN_TRITON = 65536, 524288  # elements of the memory cases
needs_compiler = pytest.mark.skipif(
    bool(cuda_build.why_not("emulator")), reason="there is no compiler for CUDA C++"
)

CUDA = """#include <cooperative_groups.h>
#include <cuda_runtime.h>

__device__ float silu_of(float x) { return x / (1.0f + expf(-x)); }

__global__ void by_grid(const float* x, float* out, int first, int n) {
    const int step = gridDim.x * blockDim.x;
    for (int i = first + blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        out[i] = silu_of(x[i]);
}

__global__ void halves(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 2) out[i] = silu_of(x[i]);
    cooperative_groups::this_grid().sync();
    if (n / 2 + i < n) out[n / 2 + i] = silu_of(x[n / 2 + i]);
}

__global__ void with_idle_lanes(const float* x, float* out, int n) {
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) / 4;
    if (threadIdx.x % 4 == 0 && i < n) out[i] = silu_of(x[i]);
}

// Threads load in whole warps, but one of each block does the work.
__global__ void through_shared_memory(const float* x, float* out, int n) {
    __shared__ float tile[256];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int k = 0; threadIdx.x == 0 && k < 256; ++k) tile[k] = silu_of(tile[k]);
    __syncthreads();
    if (i < n) out[i] = tile[threadIdx.x];
}

// The same by a fourth of the accesses, each of 16 bytes.
__global__ void by_fours(const float* x, float* out, int n) {
    __shared__ float4 tile[64];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float* each = reinterpret_cast<float*>(tile);
    each[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int k = 0; threadIdx.x == 0 && k < 64; ++k) {
        const float4 v = tile[k];
        tile[k] = make_float4(silu_of(v.x), silu_of(v.y), silu_of(v.z), silu_of(v.w));
    }
    __syncthreads();
    if (i < n) out[i] = each[threadIdx.x];
}

// Block 0 does the work. Each other block loads all of x, and nothing comes of it.
__global__ void padded(const float* x, float* out, int n) {
    if (blockIdx.x == 0) {
        for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = silu_of(x[i]);
        return;
    }
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[i];
    if (sum == 12345.678f) out[0] = sum;
}

// One thread does the work. Each other one loads an element, and nothing comes of it.
__global__ void serial_and_padded(const float* x, float* out, int n) {
    if (blockIdx.x == 0) {
        for (int i = 0; threadIdx.x == 0 && i < n; ++i) out[i] = silu_of(x[i]);
        return;
    }
    const int i = (blockIdx.x - 1) * blockDim.x + threadIdx.x;
    if (i < n && x[i] == 12345.678f) out[0] = x[i];
}

extern "C" void silu(const float* x, float* out, int n) {
    LAUNCH
}
"""
COOPERATIVE = """void* parameters[] = {&x, &out, &n};
    cudaLaunchCooperativeKernel((void*)halves, (n / 2 + 255) / 256, 256, parameters, 0, 0);"""

TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def by_grid(x_ptr, out_ptr, first, n, BLOCK: tl.constexpr, TAKEN: tl.constexpr):
    step = tl.num_programs(0) * TAKEN
    for start in range(first + tl.program_id(0) * TAKEN, n, step):
        offs = start + tl.arange(0, BLOCK)
        mask = (offs < n) & (tl.arange(0, BLOCK) < TAKEN)
        x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
        tl.store(out_ptr + offs, x / (1.0 + tl.exp(-x)), mask=mask)


def silu(x, out):
    n = x.numel()
    LAUNCH
"""


def counted(folder: Path, name: str, source: str, sandbox: Sandbox) -> MemoryEvidence:
    (folder / ("silu.cu" if name == "cuda" else "silu.py")).write_text(source)
    options = Options(device="cpu", check_with_nvcc=False, backends=("emulator",))
    with Session(folder, SPECS, options, sandbox=sandbox) as session:
        return check_memory(session, Task(SILU, SILU.variants[name]))


def values(evidence: MemoryEvidence) -> tuple[float | None, ...]:
    """Largest share, requests, blocks and SIMT efficiency."""
    assert evidence.status is Status.passed, evidence.reason
    found = {metric.name: metric.value for metric in evidence.metrics}
    return tuple(
        found.get(name) for name in ("largest_share", "requests", "blocks", "simt_efficiency")
    )


def missed(evidence: MemoryEvidence, name: str) -> set[str]:
    """The metrics whose bounds of silu's variant don't hold."""
    return {judged.name for _, judged in memory_bounds.shortfalls(evidence, SILU.variants[name])}


@needs_compiler
@pytest.mark.parametrize(
    ("launch", "expected", "unmet"),
    [
        ("by_grid<<<n / 256, 256>>>(x, out, 0, n);", (1 / IN_CUDA, 4096, 256, 1), set()),
        (
            "by_grid<<<1, 1>>>(x, out, 0, n);",
            (1, 2 * IN_CUDA, 1, 1 / 32),
            {"largest_share", "requests", "blocks", "simt_efficiency"},
        ),
        # Each of four launches has a busiest thread; together they have done all of the work.
        (
            "for (int i = 0; i < n; i += n / 4) by_grid<<<1, 1>>>(x, out, i, i + n / 4);",
            (1, 2 * IN_CUDA, 1, 1 / 32),
            {"largest_share", "requests", "blocks", "simt_efficiency"},
        ),
        ("by_grid<<<1, 256>>>(x, out, 0, n);", (1 / 256, 4096, 1, 1), {"blocks"}),
        (
            "by_grid<<<n, 1>>>(x, out, 0, n);",
            (1 / IN_CUDA, 2 * IN_CUDA, IN_CUDA, 1 / 32),
            {"requests", "simt_efficiency"},
        ),
        (
            "with_idle_lanes<<<n / 64, 256>>>(x, out, n);",
            (1 / IN_CUDA, 4 * 4096, 1024, 1 / 4),
            {"simt_efficiency"},
        ),
        # For 32 requests of whole warps, half of them to shared memory, 512 of one thread.
        (
            "through_shared_memory<<<(n + 255) / 256, 256>>>(x, out, n);",
            (1 / IN_CUDA, 4096, 256, (32 * 32 + 512) / (32 * 544)),
            {"simt_efficiency"},
        ),
        (
            "by_fours<<<(n + 255) / 256, 256>>>(x, out, n);",
            (1 / IN_CUDA, 4096, 256, (32 * 32 + 512) / (32 * 544)),
            {"simt_efficiency"},
        ),
        # A thread goes on with its bytes behind the grid's barrier.
        (COOPERATIVE, (2 / IN_CUDA, 4096, 128, 1), set()),
    ],
    ids=[
        "shared",
        "serial",
        "serial_in_parts",
        "one_block",
        "lone_threads",
        "idle_lanes",
        "through_shared_memory",
        "by_fours",
        "barrier",
    ],
)
def test_threads_of_cuda(launch, expected, unmet, tmp_path, shared_sandbox):
    evidence = counted(tmp_path, "cuda", CUDA.replace("LAUNCH", launch), shared_sandbox)
    assert values(evidence) == expected
    assert missed(evidence, "cuda") == unmet


@pytest.mark.parametrize(
    ("launch", "expected", "unmet"),
    [
        ("by_grid[(n // 1024,)](x, out, 0, n, 1024, 1024)", (1 / 512, 32768, 512, 1), set()),
        ("by_grid[(1,)](x, out, 0, n, 1024, 1024)", (1, 32768, 1, 1), {"largest_share", "blocks"}),
        (
            "for i in range(4): by_grid[(1,)](x, out, i * n // 4, (i + 1) * n // 4, 1024, 1024)",
            (1, 32768, 1, 1),
            {"largest_share", "blocks"},
        ),
        # Masks let a fourth of each block through: 8 requests of 32 elements, of 32 in a block.
        ("by_grid[(n // 256,)](x, out, 0, n, 1024, 256)", (1 / 2048, 32768, 2048, 1 / 4), set()),
        # A request for each element.
        ("by_grid[(1024,)](x, out, 0, n, 1, 1)", (1 / 1024, 2 * IN_TRITON, 1024, 1), set()),
    ],
    ids=["shared", "serial", "serial_in_parts", "masked", "scalars"],
)
def test_programs_of_triton(launch, expected, unmet, tmp_path, shared_sandbox):
    evidence = counted(tmp_path, "triton", TRITON.replace("LAUNCH", launch), shared_sandbox)
    assert values(evidence) == expected
    assert missed(evidence, "triton") == unmet


@needs_compiler
def test_a_share_cant_be_lowered_by_needless_traffic(tmp_path, shared_sandbox):
    launch = "padded<<<16, 256>>>(x, out, n);"
    evidence = counted(tmp_path, "cuda", CUDA.replace("LAUNCH", launch), shared_sandbox)
    assert evidence.status is Status.target_missed
    assert evidence.reason.startswith("kernels load 4,194,304 bytes where 262,144 are needed")
    assert evidence.reason.endswith(
        "16 times as many (workspaces count), asked for: at most 4 times (most_traffic of the "
        "exercise); with more, the busiest's share and the share of threads that take part can't "
        "be judged"
    )


@needs_compiler
def test_threads_that_do_each_others_work_are_told(tmp_path, shared_sandbox):
    launch = "for (int i = 0; i < 5; ++i) by_grid<<<n / 256, 256>>>(x, out, 0, n);"
    evidence = counted(tmp_path, "cuda", CUDA.replace("LAUNCH", launch), shared_sandbox)
    assert evidence.status is Status.target_missed
    words = "threads do each other's work: every element of out is stored 5 times"
    assert evidence.reason.startswith(words), evidence.reason


PADDED = """

@triton.jit
def padded(x_ptr, out_ptr, scratch_ptr, n, BLOCK: tl.constexpr):
    if tl.program_id(0) == 0:
        for start in range(0, n, BLOCK):
            offs = start + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
            tl.store(out_ptr + offs, x / (1.0 + tl.exp(-x)), mask=offs < n)
    else:
        offs = (tl.program_id(0) - 1) * BLOCK + tl.arange(0, BLOCK)
        mask = offs < 3 * n
        tl.store(scratch_ptr + offs, tl.load(x_ptr + offs % n, mask=mask), mask=mask)


def silu(x, out):
    n = x.numel()
    scratch = torch.empty(3 * n, dtype=x.dtype, device=x.device)
    padded[(1 + triton.cdiv(3 * n, 1024),)](x, out, scratch, n, 1024)
"""
AGAIN = """

@triton.jit
def thrice(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.full([BLOCK], 0.0, tl.float32)
    for _ in range(3):
        x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
    tl.store(out_ptr + offs, x / (1.0 + tl.exp(-x)), mask=offs < n)


def silu(x, out):
    thrice[(triton.cdiv(x.numel(), 32768),)](x, out, x.numel(), 32768)
"""


def test_programs_that_move_more_beside_the_work_share_none_of_it(tmp_path, shared_sandbox):
    evidence = counted(tmp_path, "triton", TRITON.partition("def silu")[0] + PADDED, shared_sandbox)
    found = {metric.name: metric.value for metric in evidence.metrics}
    assert found["scratch_bytes"] == 3 * IN_TRITON * 4  # of one call, though two are planned
    assert values(evidence)[0] == 1
    assert missed(evidence, "triton") == {"largest_share"}


def test_a_program_that_loads_its_part_again_has_no_larger_share(tmp_path, shared_sandbox):
    evidence = counted(tmp_path, "triton", TRITON.partition("def silu")[0] + AGAIN, shared_sandbox)
    assert values(evidence)[0] == 1 / 16
    assert missed(evidence, "triton") == set()


@needs_compiler
def test_threads_that_move_more_beside_the_work_share_none_of_it(tmp_path, shared_sandbox):
    launch = "serial_and_padded<<<n / 256 + 1, 256>>>(x, out, n);"
    evidence = counted(tmp_path, "cuda", CUDA.replace("LAUNCH", launch), shared_sandbox)
    assert values(evidence)[0] == 1
    assert "largest_share" in missed(evidence, "cuda")


@needs_compiler
def test_a_launch_that_changes_nothing_shares_no_work(tmp_path, shared_sandbox):
    launch = "by_grid<<<1, 1>>>(x, out, 0, n); by_grid<<<n / 256, 256>>>(x, out, n, n);"
    evidence = counted(tmp_path, "cuda", CUDA.replace("LAUNCH", launch), shared_sandbox)
    assert values(evidence) == (1, 2 * IN_CUDA, 1, 1 / 32)
