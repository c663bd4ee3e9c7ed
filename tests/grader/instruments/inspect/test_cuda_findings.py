"""What `grader inspect` says of CUDA C++: each finding on a kernel that has it, and not on one that
hasn't. nvcc compiles; nothing runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.executors.cuda import cuda_build
from grader.instruments.inspect import compiling, device_code
from grader.instruments.inspect.compiling import NotCompiled
from grader.sandbox import Sandbox
from tests.grader.instruments.inspect.looking import CudaFile, at, kinds, look

pytestmark = [
    pytest.mark.skipif(bool(cuda_build.why_not("emulator")), reason=cuda_build.why_not("emulator")),
    pytest.mark.skipif(compiling.nvcc() is None, reason=compiling.NO_NVCC),
]

HEAD = "#include <cuda_fp16.h>\n#include <cuda_pipeline.h>\n#include <mma.h>\n"
KERNEL = """\
__global__ void __launch_bounds__(256) {name}(const float* x, float* out, int n) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    {body}
}}
"""
WORK = "for (int k = 0; k < n; k++) out[i + k] = x[k * n];"
BRANCH = "if ({}) " + WORK + " else out[i] = x[i * 3] + 1;"
ARRAY = """float a[16]; for (int k = 0; k < 16; k++) a[k] = x[k * n + i];
    for (int k = 0; k < n; k++) out[k * 32 + i] = a[{}];"""
DIVISION = "int s = 0; for (int k = 0; k < n; k++) s += (i + k * k) {}; out[i] = s;"
CONDITIONS = {  # whether threads of a warp may differ
    "threadIdx.x % 2": True,
    "threadIdx.x < 16": True,
    "x[i] > 0": True,
    "threadIdx.x < 64": False,
    "threadIdx.x / 32 == 1": False,
    "blockIdx.x % 2": False,
    "x[n - 1] > 0": False,
}
BODIES = {
    "plain": "out[i] = x[i];",
    "by_four": "((float4*) out)[i] = ((const float4*) x)[i];",
    **{f"branch_{n}": BRANCH.format(each) for n, each in enumerate(CONDITIONS)},
    "rows": BRANCH.format("threadIdx.y % 2"),
    "loop_of_threads": "for (int k = i; k < n; k += 7) out[k] = x[k] * k;",
    "loop_of_blocks": "for (int k = blockIdx.x; k < n; k += 7) out[k] = x[k] * k;",
    "literal": "out[i] = x[i] * 0.1 + 1;",
    "literal_f": "out[i] = x[i] * 0.1f + 1;",
    "on_purpose": "((double*) out)[i] = x[i] * 0.1;",
    "subscript": ARRAY.format("(k * 7 + i) % 16"),
    "constant_subscript": ARRAY.format("7"),
    "division": DIVISION.format("% (n + k)"),
    "constant_division": DIVISION.format("% 12"),
    "background": """__shared__ alignas(16) float tile[1024];
    __pipeline_memcpy_async(tile + threadIdx.x * 4, x + i * 4, 16); __pipeline_commit();
    __pipeline_wait_prior(0); __syncthreads(); out[i] = tile[1023 - threadIdx.x];""",
    "tensor_cores": """using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, half, row_major> a; fragment<matrix_b, 16, 16, 16, half,
    row_major> b; fragment<accumulator, 16, 16, 16, float> c; fill_fragment(c, 0.0f);
    load_matrix_sync(a, (const half*) x, 16); load_matrix_sync(b, (const half*) x, 16);
    mma_sync(c, a, b, c); store_matrix_sync(out, c, 16, mem_row_major);""",
    "halves": "((half2*) out)[i] = __hfma2(((const half2*) x)[i], ((const half2*) x)[n], half2{});",
}
FILE = HEAD + "".join(KERNEL.format(name=name, body=body) for name, body in BODIES.items())


@pytest.fixture(scope="module")
def native() -> Iterator[Sandbox]:
    with Sandbox("emulator", kind="native") as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def compiled(shared_sandbox: Sandbox, native: Sandbox) -> Iterator[CudaFile]:
    """All kernels, compiled at once: to start nvcc and read its headers takes longest."""
    file = CudaFile(shared_sandbox, native, FILE)
    with file.compilers:
        yield file


def body_of(name: str) -> int:
    """The line on which a kernel's body begins, below those of its signature and of i."""
    return 3 + next(n for n, line in enumerate(FILE.splitlines()) if f" {name}(" in line)


def test_loads_are_as_wide_as_the_types_in_the_source(compiled: CudaFile):
    _, found = compiled.look("plain")
    (load, store) = at(found, body_of("plain"))
    assert load.text == (
        "1 load of 4 bytes for each thread (LDG.E). "
        "A float4 is 16 bytes at once, where its address is a multiple of 16."
    )
    assert store.text.startswith("1 store of 4 bytes for each thread (STG.E)")
    _, found = compiled.look("by_four")
    assert [each.kind for each in at(found, body_of("by_four"))] == ["wide", "wide"]


@pytest.mark.parametrize(("number", "differs"), list(enumerate(CONDITIONS.values())))
def test_a_branch_is_divergent_where_it_depends_on_the_thread(
    compiled: CudaFile, number: int, differs: bool
):
    name = f"branch_{number}"
    kernel, found = compiled.look(name)
    assert any(each.opcode.startswith("BRA") for each in kernel.sass)
    assert bool(at(found, body_of(name), "divergence")) == differs


def test_a_loop_whose_length_depends_on_the_thread_is_told(compiled: CudaFile):
    _, found = compiled.look("loop_of_threads")
    told = [each.text for each in at(found, body_of("loop_of_threads"), "divergence")]
    assert any("may go round this loop different numbers of times" in text for text in told)
    _, found = compiled.look("loop_of_blocks")
    assert not at(found, body_of("loop_of_blocks"), "divergence")


def test_rows_of_a_block_of_16_columns_share_a_warp(compiled: CudaFile):
    _, found = compiled.look("rows", (16, 16, 1))
    assert at(found, body_of("rows"), "divergence")
    _, found = compiled.look("rows", (32, 8, 1))
    assert not at(found, body_of("rows"), "divergence")


@pytest.mark.parametrize(("name", "is_double"), [("literal", True), ("literal_f", False)])
def test_a_literal_without_an_f_makes_float64(compiled: CudaFile, name: str, is_double: bool):
    _, found = compiled.look(name)
    told = at(found, body_of(name), "float64")
    assert bool(told) == is_double
    assert all("A literal without an f, as 0.5, is a double." in each.text for each in told)


def test_float64_on_purpose_is_no_accident(compiled: CudaFile):
    _, found = compiled.look("on_purpose")
    assert "float64" not in kinds(found)


def test_an_array_with_a_subscript_of_the_run_is_in_local_memory(compiled: CudaFile):
    kernel, found = compiled.look("subscript")
    line = body_of("subscript")
    assert at(found, line, "local memory") and at(found, line + 1, "local memory")
    for each in found:
        if each.kind == "local memory":
            assert "an array, or spilled registers; 64 bytes" in each.text
    assert kernel.code.usage.stack == 64
    kernel, found = compiled.look("constant_subscript")
    assert kernel.code.usage.stack == 0 and "local memory" not in kinds(found)


def test_an_integer_division_by_an_argument_is_costly_in_a_loop(compiled: CudaFile):
    _, found = compiled.look("division")
    (told,) = at(found, body_of("division"), "division")
    assert "rem.s32" in told.text and "instructions each time round" in told.text
    _, found = compiled.look("constant_division")
    assert "division" not in kinds(found)


def test_copies_in_the_background_are_told(compiled: CudaFile):
    _, found = compiled.look("background")
    assert "cp.async" in kinds(found)


def test_products_of_tensor_cores_are_told(compiled: CudaFile):
    _, found = compiled.look("tensor_cores")
    (told,) = [each for each in found if each.kind == "tensor cores"]
    assert "HMMA" in told.text


def test_a_half_product_of_ordinary_units_is_no_tensor_core(compiled: CudaFile):
    kernel, found = compiled.look("halves")
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
    monkeypatch.setattr(compiling, "nvcc", lambda: None)
    with pytest.raises(NotCompiled) as error:
        device_code.compile_file(native, native.hold("silu.cu", b"int x;\n"))
    assert "pip install 'warpgrade[cuda]'" in str(error.value)
    assert "\n" not in str(error.value)
