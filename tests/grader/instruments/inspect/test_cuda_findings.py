"""What `grader inspect` says of CUDA C++: each finding on a kernel that has it, and not on one that
hasn't. nvcc compiles; nothing runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.executors.cuda import cuda_build
from grader.instruments.inspect import device_code, tools
from grader.instruments.inspect.compiling import NotCompiled
from grader.sandbox import Sandbox
from tests.grader.instruments.inspect.looking import at, cuda_kernel, kinds, look

pytestmark = [
    pytest.mark.skipif(bool(cuda_build.why_not("emulator")), reason=cuda_build.why_not("emulator")),
    pytest.mark.skipif(tools.nvcc() is None, reason=tools.NO_NVCC),
]

FILE = """#include <cstdio>
__global__ void __launch_bounds__(256) kernel(const float* x, float* out, int n) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    {body}
}}
"""
BODY = 4  # the line of the file
WORK = "for (int k = 0; k < n; k++) out[i + k] = x[k * n];"


@pytest.fixture(scope="module")
def native() -> Iterator[Sandbox]:
    with Sandbox("emulator", native=True) as sandbox:
        yield sandbox


@pytest.fixture
def compiled(shared_sandbox: Sandbox, native: Sandbox):
    """A kernel with a body, launched with blocks of some size, and what it shows."""

    def compiled(body: str, block: tuple[int, ...] = (256, 1, 1), head: str = ""):
        text = FILE.format(body=body).replace("<cstdio>", head or "<cstdio>")
        return cuda_kernel(shared_sandbox, native, text, block)

    return compiled


def test_loads_are_as_wide_as_the_types_in_the_source(compiled):
    _, found = compiled("out[i] = x[i];")
    (load, store) = at(found, BODY)
    assert load.text == (
        "1 load of 4 bytes for each thread (LDG.E). "
        "A float4 has 16, where its address is a multiple of 16."
    )
    assert store.text.startswith("1 store of 4 bytes for each thread (STG.E)")
    wide = "((float4*) out)[i] = ((const float4*) x)[i];"
    _, found = compiled(wide)
    assert [each.kind for each in at(found, BODY)] == ["wide", "wide"]


@pytest.mark.parametrize(
    ("condition", "differs"),
    [
        ("threadIdx.x % 2", True),
        ("threadIdx.x < 16", True),
        ("x[i] > 0", True),
        ("threadIdx.x < 64", False),
        ("threadIdx.x / 32 == 1", False),
        ("blockIdx.x % 2", False),
        ("x[n - 1] > 0", False),
    ],
)
def test_a_branch_is_divergent_where_it_depends_on_the_thread(
    compiled, condition: str, differs: bool
):
    body = f"if ({condition}) {WORK} else out[i] = x[i * 3] + 1;"
    kernel, found = compiled(body)
    assert any(each.opcode.startswith("BRA") for each in kernel.sass)
    assert bool(at(found, BODY, "divergence")) == differs


def test_a_loop_whose_length_depends_on_the_thread_is_told(compiled):
    body = "for (int k = {}; k < n; k += 7) out[k] = x[k] * k;"
    _, found = compiled(body.format("i"))
    told = [each.text for each in at(found, BODY, "divergence")]
    assert any("may go round this loop different numbers of times" in text for text in told)
    _, found = compiled(body.format("blockIdx.x"))
    assert not at(found, BODY, "divergence")


def test_rows_of_a_block_of_16_columns_share_a_warp(compiled):
    body = f"if (threadIdx.y % 2) {WORK} else out[i] = x[i * 3] + 1;"
    _, found = compiled(body, (16, 16, 1))
    assert at(found, BODY, "divergence")
    _, found = compiled(body, (32, 8, 1))
    assert not at(found, BODY, "divergence")


@pytest.mark.parametrize(("literal", "is_double"), [("0.1", True), ("0.1f", False)])
def test_a_literal_without_an_f_makes_float64(compiled, literal: str, is_double: bool):
    _, found = compiled(f"out[i] = x[i] * {literal} + 1;")
    told = at(found, BODY, "float64")
    assert bool(told) == is_double
    assert all("A literal without an f, as 0.5, is a double." in each.text for each in told)


def test_float64_on_purpose_is_no_accident(compiled):
    _, found = compiled("((double*) out)[i] = x[i] * 0.1;")
    assert "float64" not in kinds(found)


def test_an_array_with_a_subscript_of_the_run_is_in_local_memory(compiled):
    body = """float a[16]; for (int k = 0; k < 16; k++) a[k] = x[k * n + i];
#line 4
    for (int k = 0; k < n; k++) out[k * 32 + i] = a[{}];"""
    kernel, found = compiled(body.format("(k * 7 + i) % 16"))
    told = at(found, BODY, "local memory")
    assert told and all("an array, or spilled registers; 64 bytes" in each.text for each in told)
    assert kernel.code.usage.stack == 64
    kernel, found = compiled(body.format("7"))
    assert kernel.code.usage.stack == 0 and "local memory" not in kinds(found)


def test_an_integer_division_by_an_argument_is_costly_in_a_loop(compiled):
    body = "int s = 0; for (int k = 0; k < n; k++) s += (i + k * k) {}; out[i] = s;"
    _, found = compiled(body.format("% (n + k)"))
    (told,) = at(found, BODY, "division")
    assert "rem.s32" in told.text and "instructions each time round" in told.text
    _, found = compiled(body.format("% 12"))
    assert "division" not in kinds(found)


def test_copies_in_the_background_are_told(compiled):
    body = """__shared__ alignas(16) float tile[1024];
    __pipeline_memcpy_async(tile + threadIdx.x * 4, x + i * 4, 16); __pipeline_commit();
    __pipeline_wait_prior(0); __syncthreads(); out[i] = tile[1023 - threadIdx.x];"""
    _, found = compiled(body, head="<cuda_pipeline.h>")
    assert "cp.async" in kinds(found)


def test_products_of_tensor_cores_are_told(compiled):
    body = """using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, half, row_major> a; fragment<matrix_b, 16, 16, 16, half,
    row_major> b; fragment<accumulator, 16, 16, 16, float> c; fill_fragment(c, 0.0f);
    load_matrix_sync(a, (const half*) x, 16); load_matrix_sync(b, (const half*) x, 16);
    mma_sync(c, a, b, c); store_matrix_sync(out, c, 16, mem_row_major);"""
    _, found = compiled(body, head="<mma.h>")
    (told,) = [each for each in found if each.kind == "tensor cores"]
    assert "HMMA" in told.text


def test_a_half_product_of_ordinary_units_is_no_tensor_core(compiled):
    body = "((half2*) out)[i] = __hfma2(((const half2*) x)[i], ((const half2*) x)[n], half2{});"
    kernel, found = compiled(body, head="<cuda_fp16.h>")
    assert "tensor cores" not in kinds(found)
    assert any(each.parts[0] == "HFMA2" for each in kernel.sass)


def test_templates_are_found_by_their_arguments(shared_sandbox: Sandbox, tmp_path: Path):
    (tmp_path / "silu.cu").write_text("""
template <typename T, int N> __global__ void kernel(const T* x, T* out) {
    out[threadIdx.x] = x[threadIdx.x] * N;
}
extern "C" void silu(const float* x, float* out, int n) {
    kernel<float, 3><<<1, 32>>>(x, out);
    kernel<float, 5><<<1, 32>>>(x, out);
}
""")
    made, _ = look(shared_sandbox, "silu/cuda", tmp_path, "n=4096 dtype=float32")
    assert [each.name for each in made.kernels] == [
        "void kernel<float, 3>(float const*, float*)",
        "void kernel<float, 5>(float const*, float*)",
    ]


def test_what_nvcc_refuses_is_a_line_of_the_file(native: Sandbox):
    with pytest.raises(NotCompiled) as error:
        device_code.compile_file(native, native.hold("silu.cu", b"\nint broken = ;\n"))
    assert str(error.value).startswith("silu.cu:2: nvcc refuses it: expected an expression")


def test_without_nvcc_one_line_says_what_to_install(
    native: Sandbox, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tools, "nvcc", lambda: None)
    with pytest.raises(NotCompiled) as error:
        device_code.compile_file(native, native.hold("silu.cu", b"int x;\n"))
    assert "pip install 'warpgrade[cuda]'" in str(error.value)
    assert "\n" not in str(error.value)
