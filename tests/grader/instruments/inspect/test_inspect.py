"""`grader inspect` on solutions: what it says of resources is what NVIDIA's tool says, each stage
has lines of the source, and findings stand at the calls they are about.

Here on a few; `benchmarks/inspect_solutions.py` does the same for all of them."""

from __future__ import annotations

import pytest

from benchmarks.inspect_solutions import CUOBJDUMP, cannot, differences, usage_of, without_reserved
from grader.cases import parse
from grader.grading.session import Options, Session, selected
from grader.instruments.inspect import compiling, listing, page
from grader.instruments.inspect.findings import findings
from grader.instruments.inspect.kernels import inspect, open_compilers
from grader.sandbox import Sandbox
from grader.spec import Course
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


@pytest.mark.skipif(compiling.nvcc() is None, reason=compiling.NO_NVCC)
def test_the_code_of_a_lab_stands_beside_the_lines_of_each_of_its_files(shared_sandbox: Sandbox):
    course = Course(ROOT / "tests" / "lab_course")
    (task,) = selected(course.exercises, ["scale"])
    case = parse("n=300 dtype=float32 seed=1", task, 1, is_run=False)
    options = Options(device="cpu", keeps_builds=False)
    with (
        Session(course.reference, course.exercises, options, sandbox=shared_sandbox) as session,
        open_compilers(session, task) as compilers,
    ):
        made = inspect(session, compilers, task, case)
        kernel = made.kernels[0]
        found = findings(kernel, compilers)
    rows = listing.rows(kernel, "sass", made.sources, found)
    for row in rows:
        if row.place is not None:
            text = (course.reference / row.place.file).read_text(encoding="utf-8")
            assert row.source == text.splitlines()[row.place.line - 1]
    coded = {row.place.file: row.source for row in rows if row.place and row.code}
    assert {"kernel.cu", "helper.cuh"} <= set(coded)
    assert {str(each.place) for each in found if "bytes for each thread" in each.text} == {
        "kernel.cu:7"
    }
    html = page.render([page.Part(made, kernel, found)])
    assert html.count("<h3>kernel.cu</h3>") == html.count("<h3>helper.cuh</h3>") > 0


@needs_cuobjdump
@pytest.mark.skipif(compiling.nvcc() is None, reason=compiling.NO_NVCC)
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
    with Sandbox("emulator", kind="native") as native:
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
