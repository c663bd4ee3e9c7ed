"""`grader inspect` on solutions: what it says of resources is what NVIDIA's tool says, each stage
has lines of the source, and findings stand at the calls they are about.

Here on a few; `benchmarks/inspect_solutions.py` does the same for all of them."""

from __future__ import annotations

import pytest

from benchmarks.inspect_solutions import CUOBJDUMP, cannot, differences, usage_of, without_reserved
from grader.grading.session import selected
from grader.instruments.inspect import tools
from grader.sandbox import Sandbox
from grader.worker.compile.cubin import usage
from tests.grader.instruments.inspect.looking import CudaFile, exercises, session_of
from tests.support.small_exercise import ROOT

needs_cuobjdump = pytest.mark.skipif(CUOBJDUMP is None, reason="needs cuobjdump")


@pytest.mark.parametrize("name", ["silu/triton", "gemm/triton_v4", "silu/cuda", "gemm/torch_v0"])
def test_solutions_are_inspected_and_use_what_cuobjdump_says(name: str, shared_sandbox: Sandbox):
    (task,) = selected(exercises(), [name])
    if reason := cannot(task):
        pytest.skip(reason)
    with session_of(ROOT / "reference", shared_sandbox) as session:
        assert list(differences(session, task)) == []


@needs_cuobjdump
@pytest.mark.skipif(tools.nvcc() is None, reason=tools.NO_NVCC)
def test_kernels_that_call_spill_and_share_use_what_cuobjdump_says(
    shared_sandbox: Sandbox,
):
    text = """
__device__ __noinline__ float called(const float* x, int n) {
    float a[8]; for (int k = 0; k < 8; k++) a[k] = x[k * n];
    float sum = 0; for (int k = 0; k < n; k++) sum += a[k * n % 8];
    return sum;
}
__global__ void calls(const float* x, float* out, int n) { out[threadIdx.x] = called(x, n); }
__global__ void shares(const float* x, float* out) {
    __shared__ float own[64]; extern __shared__ float given[];
    own[threadIdx.x] = given[threadIdx.x] = x[threadIdx.x]; __syncthreads();
    out[threadIdx.x] = own[63 - threadIdx.x] + given[63 - threadIdx.x];
}
__global__ void __launch_bounds__(1024, 2) spills(const float* x, float* out, int n) {
    float a[64]; for (int i = 0; i < 64; i++) a[i] = x[i * n + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < n; k++) for (int i = 0; i < 64; i++) a[i] *= a[(i + 1) % 64];
    for (int i = 0; i < 64; i++) out[i * n + threadIdx.x] = a[i];
}
"""
    with Sandbox("emulator", native=True) as native:
        cubin = CudaFile(shared_sandbox, native, text).cubin
    said = usage_of(cubin)
    ours = {name: without_reserved(used) for name, used in usage(cubin).items()}
    assert {name: ours[name] for name in said} == said
    named = usage(cubin)
    (shares,) = [used for name, used in named.items() if "shares" in name]
    assert (shares.shared, shares.reserved) == (1024 + 64 * 4, 1024)
    (spills,) = [used for name, used in named.items() if "spills" in name]
    assert spills.stack > 0


@pytest.mark.parametrize("cubin", [b"", b"\x7fELF\x02", b"\x7fELF\x02" + b"\xff" * 500, b"x" * 99])
def test_what_is_no_cubin_uses_nothing(cubin: bytes):
    assert usage(cubin) == {}
