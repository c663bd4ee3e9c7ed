"""A feature that the emulator lacks costs only the entries that reach it, with name and line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from grader.emulator import toolchain
from grader.emulator.build import Build, Entry, build
from grader.worker.protocol import Argument, Code, Kind
from tests.support.emulated import Call
from tests.support.native import Placement, vector

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")

N = 64
TYPES = ("pointer:float32", "int")
OPTIONS = ["--arguments=y:inout,n:input"]
WITH = """\
{before}
__global__ void first_kernel(float* y, int n) {{
    {statement};
    y[0] = n;
}}
"""
WITHOUT = """\
__global__ void second_kernel(float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = 2; }
extern "C" void first(float* y, int n) { first_kernel<<<1, 1>>>(y, n); }
extern "C" void second(float* y, int n) { second_kernel<<<1, 64>>>(y, n); }
"""
GROUPS = "#include <cooperative_groups.h>"

Make = Callable[[str], Build]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Builds a text with the two entries."""

    def run(text: str) -> Build:
        source = tmp_path / "two.cu"
        source.write_text(text)
        entries = [Entry("first", TYPES), Entry("second", TYPES)]
        return build(source, entries, tmp_path / "built", toolchain.prepare())

    return run


def call(made: Build, entry: str) -> str:
    """What the call of an entry lacks, with its line; "" where it runs and is right."""
    assert made.executable is not None and made.problems == (), made.problems
    slot = vector("y", torch.zeros(N), role="inout")
    with Placement([slot]) as placed:
        arguments = [*placed.arguments, Argument(Kind.int64, scalar=N)]
        outcome = Call(made, entry, arguments, placed.arena.buffers, OPTIONS).run()
        if outcome.code is Code.not_modelled:
            told = json.loads(outcome.printed)
            site = made.sites.get(told["pc"])
            return f"{site.line if site else ''}: {told['message']}"
        assert outcome.code is Code.ok, outcome
        assert placed.values("y").tolist() == [2.0] * N
        return ""


@pytest.mark.parametrize(
    ("before", "statement", "lacking"),
    [
        ("", 'asm("x")', "3: this inline assembly (PTX)"),
        ("", "__vadd4(n, n)", "3: packed integer arithmetic (__vadd4)"),
        ("", "__builtin_ia32_pause()", "3: instructions of x86 processors"),
        ("", "__builtin___memcpy_chk(y, y, 4, 4)", "3: g++'s functions that check their room"),
        ("", 'if (n > 100) asm("x")', "3: this inline assembly (PTX)"),
        (
            GROUPS,
            "cooperative_groups::tiled_partition<64>(cooperative_groups::this_thread_block())",
            "3: tiles of more than 32 threads",
        ),
        (GROUPS, "cooperative_groups::this_grid().barrier_arrive()", "3: barriers in two steps"),
        ('#define STEP asm("x")', "STEP", "3: this inline assembly (PTX)"),
        ('__device__ float step(float x) { asm("x"); return x; }', "y[0] = step(1)", "1: this"),
        ('struct Step { void run() { asm("x"); } };', "Step().run()", "1: this inline assembly"),
        (
            "template <class T> using Same = T; template <int N = 4, class T = Same<Same<int>>>\n"
            '__device__ int step(T x) { asm("x"); return N; }',
            "y[0] = step<1, int>(1)",
            "2: this inline assembly",
        ),
        (
            "#include <cub/cub.cuh>",
            "cub::BlockReduce<float, 32, cub::BLOCK_REDUCE_RAKING> f",
            "3: CUB's reductions by raking",
        ),
        (
            "#include <cub/cub.cuh>\nusing namespace cub;",
            "BlockScan<float, 32>().ExclusiveSum(n, n)",
            "4: CUB's other parts (BlockScan)",
        ),
        (
            "#include <cuda_fp8.h>\n__global__ void quantize(__nv_fp8_e4m3*, float) {}",
            "y[0] = float(__nv_fp8_e4m3(2.0f))",
            "4: 8-bit floating-point types",
        ),
        (
            "#include <mma.h>\nusing namespace nvcuda::wmma;",
            "fragment<accumulator, 16, 16, 16, int> f; fill_fragment(f, 0)",
            "4: wmma's fragments of this size and type",
        ),
        (
            "#include <mma.h>\nusing namespace nvcuda::wmma;",
            "fragment<matrix_a, 8, 8, 128, experimental::precision::b1, row_major> f",
            "4: wmma's fragments of this size and type",
        ),
    ],
)
def test_only_who_reaches_it_is_not_measured(
    make: Make, before: str, statement: str, lacking: str
) -> None:
    made = make(WITH.format(before=before, statement=statement) + WITHOUT)
    assert call(made, "first").startswith(lacking)
    assert call(made, "second") == ""


def test_a_kernel_in_clusters_costs_only_who_launches_it(make: Make) -> None:
    kernel = WITH.format(before="", statement="n += 1")
    made = make(kernel.replace("void", "__cluster_dims__(2, 1, 1) void") + WITHOUT)
    assert call(made, "first").startswith("2: thread block clusters")
    assert call(made, "second") == ""


def test_of_a_function_that_calls_itself_without_end_it_is_told_what_may_be_wrong(
    make: Make,
) -> None:
    again = "__device__ float again(float x, int n) { return x * again(x, n - 1); }"
    made = make(WITH.format(before=again, statement="y[1] = again(y[0], n)") + WITHOUT)
    assert "a function that calls itself without end" in call(made, "first")


def test_a_launch_that_cannot_be_written_for_gcc_is_lacking(make: Make) -> None:
    text = (
        "template <class T> __global__ void k(T* p, int n) {}\n#define RUN(f) f<<<1, 1>>>(y, 1)\n"
    )
    made = make(text + WITHOUT.replace("first_kernel<<<1, 1>>>(y, n)", "RUN(k)"))
    assert "kernel template" in call(made, "first")
    assert call(made, "second") == ""


def test_what_is_wrong_beside_it_is_an_error_of_the_file(make: Make) -> None:
    text = WITH.format(before="", statement='asm("x")') + "int x = missing;\n" + WITHOUT
    made = make(text)
    assert [(each.kind, each.line) for each in made.problems] == [("compile", 6)]


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ("#include <crt/mma.h>", 1),
        ("__global__ void other(float* y, cudaGraph_t n) {}", 1),
        ("static cudaGraph_t graph;", 1),
        ("struct Kept { cudaGraph_t graph; };", 1),
        ('const auto f = [] { asm("x"); };', 1),
        # What the rest of the file knows of such a function follows from its body.
        ('__device__ auto step() { asm("x"); return 1; }', 1),
        ('constexpr int step() { if (0) { asm("x"); } return 1; }', 1),
        ('#define ANY auto\n__device__ ANY step() { asm("x"); return 1; }', 2),
        (
            '__global__ void other() { asm("x"); }\n'
            "int room() { cudaFuncAttributes a; cudaFuncGetAttributes(&a, other); return 0; }",
            1,
        ),
        (
            "#define IS =\ntemplate <class T> struct Box { T f; };\n"
            'Box step IS []() { asm("x"); return 1; };',
            3,
        ),
        # The text that g++ reads is another one than this.
        ('#define OPEN {\n__device__ void step() OPEN asm("x"); }', 2),
        ('#define STEP asm("x");\n#define NAME(a, b) a##b\nvoid step() { STEP }', 1),
        ('#define STEP asm("x");\n#ifdef STEP\nint step;\n#endif', 1),
        ('void step() {\n#define TILE 8\nasm("x"); }', 3),
        ('#ifdef SPLIT\nvoid step() {\n#endif\nvoid step() { asm("x"); }', 4),
    ],
)
def test_elsewhere_a_feature_costs_the_file(make: Make, before: str, line: int) -> None:
    made = make(f"{before}\n{WITH.format(before='', statement='')}{WITHOUT}")
    assert made.executable is None
    assert {(each.kind, each.line) for each in made.problems} == {("unsupported", line)}


# Each is 2 on a GPU, and something else without what uses a lacking feature.
KNOWN_OTHERWISE = [
    (
        "template <class T> struct Traits { static constexpr int value = 1; };\n"
        "template <class T> struct Traits<T*> {\n"
        "    static constexpr int value = 2 + 0 * sizeof(cudaGraph_t);\n};",
        "Traits<float*>::value",
    ),
    (
        "template <class T> __device__ auto f(T t, int) -> decltype(__vadd4(t, t), 0) "
        "{ return 2; }\ntemplate <class T> __device__ int f(T t, long) { return 1; }",
        "f(1u, 0)",
    ),
    (
        "#define TWO_T cudaGraph_t\n#define JOINED(a, b) a##b",
        "sizeof(JOINED(TWO, _T)) == 8 ? 2 : 1",
    ),
    (
        "#include <thrust/version.h>\n#define VALUE 1\n#ifdef THRUST_VERSION\n#undef VALUE\n"
        "#define VALUE 2\n#endif",
        "VALUE",
    ),
    ("#define asm(...) y[0] = 2", 'y[0]; asm("mov.f32 %0, 0f3F800000;" : "=f"(y[0]))'),
]


@pytest.mark.parametrize(("declarations", "value"), KNOWN_OTHERWISE)
def test_a_program_is_not_judged_from_another_text(
    make: Make, declarations: str, value: str
) -> None:
    kernel = f"__global__ void first_kernel(float* y, int n) {{ y[0] = {value}; }}"
    made = make(f"{declarations}\n{kernel}\n{WITHOUT}")
    assert [each.kind for each in made.problems] in ([], ["unsupported"])
    assert made.problems or call(made, "first") != ""


def test_conditions_in_a_body_go_with_it(make: Make) -> None:
    step = '#if __CUDA_ARCH__ >= 800\n    asm("x");\n#else\n#pragma unroll\n#endif'
    made = make(WITH.format(before="", statement=f"\n{step}\n") + WITHOUT)
    assert call(made, "first").startswith("5: this inline assembly")
    assert call(made, "second") == ""


def is_measured(make: Make, before: str, statement: str) -> bool:
    """Whether a kernel with this statement runs, when all that it may read is written."""
    text = WITH.format(before=before, statement=statement)
    made = make(text.replace("y[0] = n;", "for (int i = 0; i < 64; ++i) y[i] = 2;") + WITHOUT)
    return call(made, "first") == ""


# g++ calls no hook for the load of an argument in memory: such a load would be neither checked nor
# counted.
FIVE = (
    "struct Five { float v[5]; }; typedef float (*Call)(Five); __device__ float of(Five x) "
    "{ return x.v[0]; } __device__ Call calls[2] = {of, of}; __device__ Five five_1; "
    "struct Base { __device__ virtual float at(Five x) { return 1; } }; struct Next : Base "
    "{ __device__ float at(Five x) override { return x.v[1]; } }; template <class T, int N> struct "
    "Some { T v[N]; };"
)


@pytest.mark.parametrize(
    ("before", "statement"),
    [
        ("", "y[0] = calls[n & 1](*(const Five*)y)"),
        ("", "y[0] = calls[n & 1](((const Five*)y)[n])"),
        ("", "y[0] = calls[n & 1](five_1)"),
        ("", "int five = n + 1; y[five] = five * calls[n & 1](five_1)"),
        ("", "__shared__ Five f[2]; y[0] = calls[n & 1](f[n & 1])"),
        ("", "Next a; Base b; Base* c = n > 1 ? &a : &b; y[0] = c->at(*(const Five*)y)"),
        ("", "Five own; own.v[n & 3] = n; y[0] = calls[n & 1](n > 3 ? *(Five*)y : own)"),
        ("__device__ float (*four)(float4); ", "y[0] = four(*(const float4*)y)"),
        (
            "\n__device__ float sum(Five x, int n) {\n"
            "return n ? sum(*(Five*)&five_1.v[n], n / 2) + sum(x, n / 3) : x.v[2]; }",
            "y[0] = sum(Five{}, n)",
        ),
        (
            "__device__ float (*noted[2])(Five, const char*); ",
            'y[0] = noted[n & 1](*(const Five*)y, "# DEBUG")',
        ),
    ],
)
def test_a_structure_that_a_call_takes_from_memory_is_not_measured(
    make: Make, before: str, statement: str
) -> None:
    made = make(WITH.format(before=FIVE + before, statement=statement) + WITHOUT)
    line = 3  # also that of the recursive function's body
    assert call(made, "first").startswith(f"{line}: a structure passed by value from memory")
    assert call(made, "second") == ""


# Nor for the store of a call's result.
MADE = """#include <new>
struct Five { float v[5]; }; __device__ Five (*makes[2])(int); __device__ Five five_1; """


@pytest.mark.parametrize(
    "statement",
    [
        "new (y) Five(makes[n & 1](n))",
        "new (&five_1) Five(makes[n & 1](n))",
        "struct Two { float x; Five five; }; new (y) Two{2.5f, makes[n & 1](n)}",
        "__shared__ Five f[2]; new (&f[n & 1]) Five(makes[0](n)); y[0] = f[1].v[n & 1]",
    ],
)
def test_a_structure_that_a_call_returns_into_memory_is_not_measured(
    make: Make, statement: str
) -> None:
    made = make(WITH.format(before=MADE, statement=statement) + WITHOUT)
    assert call(made, "first").startswith("4: a structure returned into memory")
    assert call(made, "second") == ""


@pytest.mark.parametrize(
    "statement",
    [
        "if (n < 0) { Five own = makes[n & 1](n); *(Five*)y = own; }",
        "if (n < 0) { Five own[2]; new (own + 1) Five(makes[0](n)); y[0] = own[n & 1].v[n & 3]; }",
        "if (n < 0) y[n] = makes[n & 1](n).v[2]",
    ],
)
def test_a_result_may_be_kept_in_a_variable_of_the_functions_own(
    make: Make, statement: str
) -> None:
    assert is_measured(make, MADE, statement)


# Nor for the load of a constant variable, which may have been written by a pointer.
SIX = "union Six { char none; float v[6]; constexpr Six() : none() {} }; typedef const Six Fixed; "


@pytest.mark.parametrize(
    ("before", "statement"),
    [
        ("", "__shared__ const Six s; ((float*)&s)[n % 5] = n; y[0] = s.v[n % 3]"),
        ("", "__shared__ Fixed s[2]; ((float*)&s[1])[n % 5] = n; y[0] = s[n % 2].v[n % 3]"),
        ("", "__shared__ Fixed größe; ((float*)&größe)[n % 5] = n; y[0] = größe.v[n % 3]"),
        ("__shared__ Fixed s;", "((float*)&s)[2] = n; y[0] = *(const float*)((char*)&s + 8)"),
        ("__shared__ Fixed s[3]; struct Two { Six a, b; };", "((Two*)y)[0].b = s[n % 3]"),
    ],
)
def test_constant_shared_memory_is_not_measured(make: Make, before: str, statement: str) -> None:
    made = make(WITH.format(before=SIX + before, statement=statement) + WITHOUT)
    assert call(made, "first") == "3: shared memory that is declared const"
    assert call(made, "second") == ""


@pytest.mark.parametrize(
    ("before", "statement"),
    [
        ("", "extern __shared__ const float s[]; y[0] = n < 0 ? s[n] : 2"),
        ("__device__ const float s[3] = {1, 2, 3};", "y[0] = s[n % 3] * n"),
        ("__constant__ const float s[3] = {1, 2, 3};", "y[0] = s[n % 3] * n"),
        ("", "__shared__ Six s; __shared__ float t[2]; t[0] = n; s.v[n % 6] = t[0]; y[0] = s.v[4]"),
        ("", "__shared__ Six s; Six* t = &s; *t = Six(); y[0] = t->v[0]; *t = s"),
        (
            "",
            "__shared__ float s[9]; *(volatile float*)&s[1] = n; y[0] = *(volatile float*)(s + 1)",
        ),
        ("", "__shared__ int s[9]; s[0] = 1; y[0] = atomicAdd((int*)(volatile int*)&s[n % 8], 1)"),
        ("", "__shared__ float2 s; s.x = n; s.y = s.x; y[0] = s.y; ((float2*)y)[n % 32] = s"),
        (
            "",
            "struct B { unsigned a : 5, b : 27; }; __shared__ B s; s.a = n; s.b = s.a; y[0] = s.b",
        ),
    ],
)
def test_other_shared_and_constant_memory_is_measured(
    make: Make, before: str, statement: str
) -> None:
    assert is_measured(make, SIX + before, statement)


@pytest.mark.parametrize(
    ("before", "statement"),
    [
        ("", "const Five own = *(const Five*)y; y[0] = 0 * calls[n & 1](own)"),
        ("", "Five own[2]; own[n & 1].v[0] = n; y[0] = 0 * calls[n & 1](own[n & 1])"),
        ("", "y[0] = 0 * calls[n & 1](Five{1, 2, 3, 4, 5}) + 0 * of(*(const Five*)y)"),
        (
            "__device__ float (*some)(Some<float, 7>, float, float*) = nullptr;",
            "Some<float, 7> own; own.v[n & 3] = n; if (n < 0) y[0] = some(own, 2.5f, y + n)",
        ),
        ("__host__ float on_host(Five* x) { return calls[0](*x); }", "y[0] = n"),
    ],
)
def test_a_structure_of_the_functions_own_may_be_passed(
    make: Make, before: str, statement: str
) -> None:
    assert is_measured(make, FIVE + before, statement)
