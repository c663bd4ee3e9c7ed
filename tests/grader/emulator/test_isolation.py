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
            site = made.sites[told["pc"]]
            return f"{site.line}: {told['message']}"
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
        ('struct Step { void run() { asm("x"); } };', "Step().run()", "3: this inline assembly"),
        ("using namespace nvcuda;", "wmma::fragment<int> f", "3: tensor core operations"),
        ("#include <mma.h>", "auto f = nvcuda::wmma::row_major()", "3: tensor core operations"),
    ],
)
def test_only_who_reaches_it_is_not_measured(
    make: Make, before: str, statement: str, lacking: str
) -> None:
    made = make(WITH.format(before=before, statement=statement) + WITHOUT)
    assert call(made, "first").startswith(lacking)
    assert call(made, "second") == ""


# Each is 2 on a GPU, and something else without what uses a lacking feature.
KNOWN_OTHERWISE = [
    (
        """
        struct H {};
        template <class T> __device__ int operator+(T a, H b) { return 1; }
        __device__ int operator+(H a, int (&b)[sizeof(cudaGraph_t)]) { return 2; }
        template <class T> __device__ int operator+(H a, T& b) { return 1; }
        __device__ int array[8];
        """,
        "H() + array",
    ),
    (
        """
        template <class T> struct Traits { static constexpr int value = 1; };
        template <class Only> struct Traits<Only*> {
            static constexpr int value = 2 + 0 * sizeof(cudaGraph_t);
        };
        """,
        "Traits<float*>::value",
    ),
    (
        """
        constexpr int a = 1;
        namespace inner {
        enum E { a = sizeof(cudaGraph_t) / 4 };
        __device__ int f() { return a; }
        }
        """,
        "inner::f()",
    ),
    (
        """
        constexpr int a = 1;
        namespace inner {
        enum { a = sizeof(cudaGraph_t) / 4 };
        __device__ int f() { return a; }
        }
        """,
        "inner::f()",
    ),
    (
        """
        constexpr int a = 1;
        namespace inner {
        constexpr int a = 2, b = sizeof(cudaGraph_t);
        __device__ int f() { return a; }
        }
        """,
        "inner::f()",
    ),
    (
        """
        #define NEXT ;
        constexpr int a = 1;
        namespace inner {
        constexpr int b = sizeof(cudaGraph_t) NEXT constexpr int a = 2;
        __device__ int f() { return a; }
        }
        """,
        "inner::f()",
    ),
    (
        """
        #define NEXT ;
        constexpr int a = 1;
        namespace inner {
        constexpr int b = sizeof(cudaGraph_t) NEXT constexpr int a = 2;
        __device__ int f() { return a; }
        }
        #undef NEXT
        #define NEXT + 1
        """,
        "inner::f()",
    ),
    (
        """
        #define SAME(x) x
        constexpr int a = 1;
        namespace inner {
        constexpr int b = sizeof(cudaGraph_t) SAME(; constexpr int a = 2);
        __device__ int f() { return a; }
        }
        """,
        "inner::f()",
    ),
    (
        """
        #define KIND enum
        constexpr int a = 1;
        namespace inner {
        KIND E { a = sizeof(cudaGraph_t) / 4 };
        __device__ int f() { return a; }
        }
        """,
        "inner::f()",
    ),
    (
        """
        using Two = char;
        namespace inner {
        typedef int (*Two)(cudaGraph_t);
        __device__ int f() { return sizeof(Two) / 4 + (sizeof(Two) == 1); }
        }
        """,
        "inner::f()",
    ),
    (
        '__device__ auto f() { asm("x"); return 1.0; }',
        "__is_same(decltype(f()), void) ? 1 : 2",
    ),
    (
        '#define RESULT auto\n__device__ RESULT f() { asm("x"); return 1.0; }',
        "__is_same(decltype(f()), void) ? 1 : 2",
    ),
    (
        '#define VALUE 1\n__device__ void f() { asm("x");\n#undef VALUE\n#define VALUE 2\n}',
        "VALUE",
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
    (
        """
        template <class T> __device__ auto f(T t, int) -> decltype(__vadd4(t, t), 0) { return 2; }
        template <class T> __device__ int f(T t, long) { return 1; }
        """,
        "f(1u, 0)",
    ),
    ("#define asm(...) y[0] = 2", 'y[0]; asm("mov.f32 %0, 0f3F800000;" : "=f"(y[0]))'),
]


@pytest.mark.parametrize(("declarations", "value"), KNOWN_OTHERWISE)
def test_a_program_is_not_judged_from_another_text(
    make: Make, declarations: str, value: str
) -> None:
    kernel = f"__global__ void first_kernel(float* y, int n) {{ y[0] = {value}; }}"
    made = make(f"{declarations}\n{kernel}\n{WITHOUT}")
    if made.problems:
        assert [each.kind for each in made.problems] == ["unsupported"], made.problems
    else:
        assert call(made, "first") != ""


def test_what_a_declaration_needs_is_lacking_where_its_name_is_used(make: Make) -> None:
    text = "__global__ void first_kernel(float* y, cudaGraph_t n) {}\n" + WITHOUT
    made = make(text)
    assert call(made, "first") == "3: CUDA graphs"
    assert call(made, "second") == ""


def test_a_launch_that_cannot_be_written_for_gcc_is_lacking(make: Make) -> None:
    text = (
        "template <class T> __global__ void k(T* p, int n) {}\n#define RUN(f) f<<<1, 1>>>(y, 1)\n"
    )
    made = make(text + WITHOUT.replace("first_kernel<<<1, 1>>>(y, n)", "RUN(k)"))
    assert "kernel template" in call(made, "first")
    assert call(made, "second") == ""


def test_types_of_a_lacking_header_cost_what_uses_them(make: Make) -> None:
    before = (
        "#include <mma.h>\nusing namespace nvcuda;\n"
        "using Left = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>;\n"
        "typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> Sum;\n"
        "struct Tile { Left left; Sum sum; };\n"
        "__device__ void load(Left& left, const half* p) { wmma::load_matrix_sync(left, p, 16); }"
    )
    made = make(WITH.format(before=before, statement="Tile tile") + WITHOUT)
    assert call(made, "first").endswith("tensor core operations (wmma)")
    assert call(made, "second") == ""


def test_an_entry_that_would_be_left_out_is_not_missing(make: Make) -> None:
    entry = 'extern "C" auto first(float* y, int n) -> void { asm("x"); }'
    made = make(f"{entry}\n" + WITHOUT.replace(" first(", " third(").replace("first_", "second_"))
    assert [each.kind for each in made.problems] == ["unsupported"]


def test_what_is_wrong_beside_it_is_an_error_of_the_file(make: Make) -> None:
    text = WITH.format(before="", statement='asm("x")') + "int x = missing;\n" + WITHOUT
    made = make(text)
    assert [(each.kind, each.line) for each in made.problems] == [("compile", 6)]


def test_a_feature_outside_of_every_declaration_costs_the_file(make: Make) -> None:
    made = make("#include <crt/mma.h>\n" + WITH.format(before="", statement="") + WITHOUT)
    assert made.executable is None
    (problem,) = made.problems
    assert (problem.kind, problem.line) == ("unsupported", 1)
    assert problem.message == "the emulator doesn't support CUDA's internal headers (two.cu:1)"
