"""`grader inspect` on every solution: what it says of resources is what NVIDIA's tool says, and
each stage has lines of the source."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from grader.executors.cuda import cuda_build
from grader.grading.session import selected
from grader.instruments.inspect import listing, tools
from grader.instruments.inspect.findings import Finding, findings
from grader.instruments.inspect.kernels import Inspected, NothingToInspect, inspect, open_compilers
from grader.sandbox import Sandbox
from grader.worker.compile.cubin import Usage, usage
from tests.grader.instruments.inspect.looking import cuda_kernel, exercises, session_of
from tests.support.small_exercise import ROOT

CUOBJDUMP = tools.of_triton().get("cuobjdump")
_FUNCTION = re.compile(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)")
WITHOUT_KERNELS = {"transpose/torch_v0", "gemm/torch_v0", "copy_first_column/cuda"}

needs_cuobjdump = pytest.mark.skipif(CUOBJDUMP is None, reason="needs cuobjdump")


def as_cuobjdump_says(cubin: bytes, folder: Path) -> dict[str, Usage]:
    """Registers, stack and shared memory of each kernel."""
    path = folder / "kernel.cubin"
    path.write_bytes(cubin)
    done = subprocess.run(
        [str(CUOBJDUMP), "-res-usage", str(path)], capture_output=True, text=True, check=True
    )
    return {name: Usage(*map(int, used)) for name, *used in _FUNCTION.findall(done.stdout)}


def without_reserved(used: Usage) -> Usage:
    """As cuobjdump says it: what is reserved is a part of what is shared."""
    return Usage(used.registers, used.stack, used.shared)


@needs_cuobjdump
@pytest.mark.parametrize("task", [str(each) for each in selected(exercises())])
def test_every_solution_is_inspected_and_uses_what_cuobjdump_says(
    task: str, shared_sandbox: Sandbox, tmp_path: Path
):
    (chosen,) = selected(exercises(), [task])
    in_cuda = chosen.variant.language == "cuda"
    if in_cuda and (reason := cuda_build.why_not("emulator")):
        pytest.skip(reason)
    if in_cuda and tools.nvcc() is None:
        pytest.skip(tools.NO_NVCC)
    with (
        session_of(ROOT / "reference", shared_sandbox) as session,
        open_compilers(session, chosen) as compilers,
    ):
        from grader.cli.console import case_of

        try:
            made = inspect(session, compilers, chosen, case_of(None, chosen))
        except NothingToInspect as nothing:
            assert task in WITHOUT_KERNELS and "launches no kernel" in str(nothing)
            return
        assert task not in WITHOUT_KERNELS
        for kernel in made.kernels:
            said = as_cuobjdump_says(kernel.code.cubin, tmp_path)[kernel.code.name]
            assert without_reserved(kernel.code.usage) == said
            assert kernel.stages[-2:] == ["ptx", "sass"]
            _has_lines_of_its_file(made, kernel.number)
            found = findings(kernel, compilers)
            assert found
            if not in_cuda:
                _stand_at_the_calls_they_are_about(made, found)


def _stand_at_the_calls_they_are_about(made: Inspected, found: list[Finding]) -> None:
    calls = {"tensor cores": "tl.dot(", "no tensor cores": "tl.dot("}
    for each in found:
        if each.place is None:
            continue
        line = made.sources[each.place.file].splitlines()[each.place.line - 1]
        kind = "tl.store(" if " store" in each.text.partition(" of ")[0] else "tl.load("
        if each.kind in (*calls, "wide", "narrow", "cp.async"):
            assert calls.get(each.kind, kind) in line, each


def _has_lines_of_its_file(made: Inspected, number: int) -> None:
    kernel = made.kernels[number - 1]
    lines = made.sources[made.task.variant.file].splitlines()
    for stage in kernel.stages:
        rows = listing.rows(kernel, stage, made.sources, ())
        with_code = [row for row in rows if row.code and row.place is not None]
        assert with_code, stage
        assert all(0 < row.place.line <= len(lines) for row in with_code if row.place)
        placed = sum(len(row.code) for row in with_code)
        assert stage != "sass" or placed >= 0.9 * len(kernel.sass)


@needs_cuobjdump
@pytest.mark.skipif(tools.nvcc() is None, reason=tools.NO_NVCC)
def test_kernels_that_call_spill_and_share_use_what_cuobjdump_says(
    shared_sandbox: Sandbox, tmp_path: Path
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
        kernel, _ = cuda_kernel(shared_sandbox, native, text)
    said = as_cuobjdump_says(kernel.code.cubin, tmp_path)
    ours = {name: without_reserved(used) for name, used in usage(kernel.code.cubin).items()}
    assert {name: ours[name] for name in said} == said
    named = usage(kernel.code.cubin)
    (shares,) = [used for name, used in named.items() if "shares" in name]
    assert (shares.shared, shares.reserved) == (1024 + 64 * 4, 1024)
    (spills,) = [used for name, used in named.items() if "spills" in name]
    assert spills.stack > 0


@pytest.mark.parametrize("cubin", [b"", b"\x7fELF\x02", b"\x7fELF\x02" + b"\xff" * 500, b"x" * 99])
def test_what_is_no_cubin_uses_nothing(cubin: bytes):
    assert usage(cubin) == {}
