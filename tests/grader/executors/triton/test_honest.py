"""Honest files as they stand in public repositories keep their points: SiLU, with what lies around.

What each brings along (a test of itself, a benchmark's helpers, a library that nothing calls) is of
no matter to the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from grader.evidence import PartEvidence
from grader.grading.check import check_part
from grader.grading.session import Options, Session
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status
from tests.support.emulated import NEEDS_COMPILER

from .test_triton import KERNEL, LITTLE

SILU = load_all()["silu"]
TRITON = {
    "tests itself while it is imported": """
def silu(x, out):
    launch(x, out)

x = torch.randn(1000, device="cuda")
y = torch.empty_like(x)
silu(x, y)
difference = (y - torch.nn.functional.silu(x)).abs().max()
assert torch.allclose(y, torch.nn.functional.silu(x), atol=1e-5)
print(f"largest difference {difference:.3e}")
""",
    "variables of a kernel are called as what is outside of it": """
x = mask = offs = torch.zeros(3)

def silu(x, out):
    launch(x, out)
""",
    "a branch that isn't compiled": """
import logging
log = logging.getLogger("silu")
VERBOSE = tl.constexpr(False)

@triton.jit
def chatty_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if VERBOSE:
        log.info("a program")
    x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
    tl.store(out_ptr + offs, x * tl.sigmoid(x), mask=offs < n)

def silu(x, out):
    chatty_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
""",
    "a factor of ones from the host": """
@triton.jit
def product_kernel(x_ptr, ones_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
    y = tl.load(ones_ptr + offs, mask=offs < n).to(tl.float32)
    tl.store(out_ptr + offs, x * tl.sigmoid(x) * y, mask=offs < n)

def silu(x, out):
    ones = torch.ones(1 << 20).to(x.device)
    n = x.numel()
    product_kernel[(triton.cdiv(n, 256),)](x, ones, out, n, BLOCK=256)
""",
    "estimates of times": """
from triton.testing import get_dram_gbps, get_max_tensorcore_tflops, nvsmi

def silu(x, out):
    clock = nvsmi(["clocks.max.sm"])[0]
    flops = get_max_tensorcore_tflops(torch.float16, clock * 1e3, x.device.index)
    block = 512 if flops > 1 and get_dram_gbps(0) > 1000 else 256
    silu_kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block)
""",
}
CUDA = """#include <cuda_runtime.h>
%s
__global__ void silu_kernel(const float* x, const float* ones, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] / (1.0f + expf(-x[i])) * ones[i];
}
extern "C" void silu(const float* x, float* out, int n) {
    static float* ones = nullptr;
    static int size = 0;
    if (n > size) {
        if (ones) cudaFree(ones);
        cudaMalloc(&ones, n * sizeof(float));
        std::vector<float> host(n, 1.0f);
        cudaMemcpy(ones, host.data(), n * sizeof(float), cudaMemcpyHostToDevice);
        size = n;
    }
    silu_kernel<<<(n + 255) / 256, 256>>>(x, ones, out, n);
}
"""
AROUND = {
    "a factor of ones that is kept": "#include <vector>",
    "headers that nothing uses": """
#include <vector>
#include <fcntl.h>
#include <unistd.h>
#include <sys/mman.h>
#include <cub/cub.cuh>
#include <cuda_fp8.h>
#include <cuda_profiler_api.h>
#include <curand_kernel.h>
""",
    "cuBLAS that no entry reaches": """
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cublas_v2.h>
#include <cublasLt.h>
static cublasComputeType_t compute;
cublasHandle_t handle;
void check(cublasStatus_t status, int line) {
    if (status != CUBLAS_STATUS_SUCCESS) {
        printf("cuBLAS failed in line %d: %d\\n", line, status);
        exit(EXIT_FAILURE);
    }
}
void setup() {
    check(cublasCreate(&handle), __LINE__);
    compute = CUBLAS_COMPUTE_32F_FAST_TF32;
    check(cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH), __LINE__);
}
""",
}


@pytest.fixture(scope="module")
def graded(tmp_path_factory, sandbox) -> Callable[[str], PartEvidence]:
    """Grades float32's ragged sizes of a silu.py."""

    def grade(text: str) -> PartEvidence:
        folder: Path = tmp_path_factory.mktemp("submission")
        (folder / "silu.py").write_text(text)
        with Session(folder, {"silu": SILU}, Options(effort=LITTLE), sandbox=sandbox) as session:
            return check_part(session, Task(SILU, SILU.variants["triton"]), "float32", "ragged")

    return grade


@pytest.mark.parametrize("more", TRITON.values(), ids=TRITON)
def test_what_lies_around_a_kernel_of_triton_is_no_matter(graded, more) -> None:
    part = graded(KERNEL + more)
    assert part.status is Status.passed, part.failures


@NEEDS_COMPILER
@pytest.mark.parametrize("before", AROUND.values(), ids=AROUND)
def test_what_lies_around_a_kernel_of_cuda_is_no_matter(tmp_path, before) -> None:
    (tmp_path / "silu.cu").write_text(CUDA % before)
    with Session(
        tmp_path, {"silu": SILU}, Options(effort=LITTLE, backends=("emulator",))
    ) as session:
        part = check_part(session, Task(SILU, SILU.variants["cuda"]), "float32", "aligned")
    assert part.status is Status.passed, part.failures


@NEEDS_COMPILER
def test_cublas_that_an_entry_calls_is_a_violation_at_the_call(tmp_path) -> None:
    before = AROUND["cuBLAS that no entry reaches"]
    text = (CUDA % before).replace(
        "    static int size = 0;\n", "    static int size = 0; setup();\n"
    )
    (tmp_path / "silu.cu").write_text(text)
    with Session(
        tmp_path, {"silu": SILU}, Options(effort=LITTLE, backends=("emulator",))
    ) as session:
        part = check_part(session, Task(SILU, SILU.variants["cuda"]), "float32", "aligned")

    (failure,) = part.failures
    assert part.status is Status.policy_violation
    assert "cublasCreate can't be used" in failure.what
    line = int(failure.where.rpartition(":")[2])
    assert "cublasCreate(" in text.splitlines()[line - 1]
