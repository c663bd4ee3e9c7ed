"""Conditions that nvcc may see otherwise are told, those that it sees alike are not."""

from __future__ import annotations

import pytest

from grader.emulator import conditions, tokens


def found(text: str) -> list[tuple[int, str]]:
    return [(each.line, each.macro) for each in conditions.find(tokens.read(text))]


@pytest.mark.parametrize(
    ("directive", "macro"),
    [
        ("#ifdef __SANITIZE_THREAD__", "__SANITIZE_THREAD__"),
        ("#if !defined(WARPGRADE_CUDA_RUNTIME_H)", "WARPGRADE_CUDA_RUNTIME_H"),
        ("#if defined(__CUDACC__) && __OPTIMIZE__", "__OPTIMIZE__"),
        ("#if CUB_VERSION >= 200800", "CUB_VERSION"),
        ("#ifndef __CUDA_ARCH__", "__CUDA_ARCH__"),
        ("#if __has_include(<warpgrade/launch.h>)", "__has_include"),
        ("#if __has_include(<cuda_bf16.h>) && !__has_include(<cublas_v2.h>)", "__has_include"),
        ("#ifdef __has_include__", "__has_include__"),
        ("#if CUDART_VERSION < 13000", "CUDART_VERSION"),
        ("#if CUDART_VERSION >= 12000", "CUDART_VERSION"),
        ("#if 20000 - CUDART_VERSION >= 9000", "CUDART_VERSION"),
        ("#if CUDART_VERSION >= 9000 + CUDART_VERSION % 2 * 4000", "CUDART_VERSION"),
        ("#ifdef cudaTextureType1D", "cudaTextureType1D"),
        ("#ifndef SIZE_MAX", "SIZE_MAX"),
        ("#ifdef FE_INVALID", "FE_INVALID"),
    ],
)
def test_a_macro_of_one_compiler_is_told_with_its_line(directive: str, macro: str) -> None:
    assert (2, macro) in found(f"void f() {{\n{directive}\ng();\n#endif\n}}\n")


@pytest.mark.parametrize(
    "text",
    [
        "#ifdef __CUDACC__\nf();\n#endif\n",
        "#ifndef NDEBUG\nf();\n#endif\n",
        "#define __MINE__ 1\n#if __MINE__\nf();\n#endif\n",
        "#ifdef DEBUG\nf();\n#endif\n",
        "__global__ void k() {\n#if __CUDA_ARCH__ >= 800\n;\n#endif\n}\n",
        "// #ifdef __SANITIZE_THREAD__\n",
        "#if defined(_MSC_VER) || defined(__HIPCC__) || defined(__NVCOMPILER)\nf();\n#endif\n",
        "#if defined(__CUDACC_RTC__) || (defined(__clang__) && defined(__CUDA__))\nf();\n#endif\n",
        "#if CUDART_VERSION >= 11000\nf();\n#endif\n",
        "#if defined(__has_include) && __has_include(<cuda_bf16.h>)\nf();\n#endif\n",
        "#ifdef __has_include\n#if __has_include(<cuda_fp16.h>)\nf();\n#endif\n#endif\n",
        "#if defined(__CUDACC__) && (CUDART_VERSION >= 11000) && !defined(MINE)\nf();\n#endif\n",
        "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 600\nf();\n#endif\n",
        "#if !defined(__CUDA_ARCH__) || (__CUDA_ARCH__ >= 600)\n#else\nf();\n#endif\n",
        '#if __CUDA_ARCH__ < 300\n#error "too old"\n#endif\n#include <cstdio>\n',
        "#ifdef __CUDA_ARCH__\n#if __CUDA_ARCH__ < 300\n#error Too old\n#endif\n#endif\nf();\n",
    ],
)
def test_what_both_see_alike_is_not_told(text: str) -> None:
    assert found(text) == []


SHIFTS = "int shift(int a) { return a >> 1 >> 2 >> 3 << 4; }\n"


@pytest.mark.parametrize(
    "text",
    [
        "#ifdef DEBUG\nf();\n#endif\n",
        "__host__ __device__ int f() {\n#if __CUDA_ARCH__ >= 800\n;\n#endif\n}\n",
    ],
)
def test_shifts_before_a_directive_do_not_move_it(text: str) -> None:
    assert found(SHIFTS + text) == []


ONE_COMPILER = "#ifdef __OPTIMIZE__\nf();\n#endif\n"


@pytest.mark.parametrize(
    "text",
    [
        "#ifdef NOBODY\n#define __OPTIMIZE__\n#endif\n" + ONE_COMPILER,
        "#if 1\n#elif 1\n#define __OPTIMIZE__\n#endif\n" + ONE_COMPILER,
        ONE_COMPILER + "#define __OPTIMIZE__\n",
        "#ifndef __OPTIMIZE__\n#define __OPTIMIZE__\nf();\n#endif\n",
        "#ifndef INT_MAX\n#define INT_MAX 1\nf();\n#endif\n",
        "#ifndef INT_MAX\n#define INT_MAX 1\n#else\nf();\n#endif\n",
        "#ifdef linux\nf();\n#endif\n",
        "#ifndef assert\nf();\n#endif\n",
    ],
)
def test_a_definition_that_may_not_count_makes_no_condition_the_same(text: str) -> None:
    assert found(text)


@pytest.mark.parametrize(
    "text",
    [
        "#define __OPTIMIZE__\n" + ONE_COMPILER,
        "#ifndef FLT_MAX\n#define FLT_MAX 1e38f\n#endif\nfloat f = FLT_MAX;\n",
        "#ifndef __KERNELS_CUH__\n#define __KERNELS_CUH__\nf();\n#endif\n",
        "#ifndef _MINE_H_\n#define _MINE_H_\n#define __W 4\n#if __W > 2\nf();\n#endif\n#endif\n",
        "#ifndef TILE\n#define TILE 32\n#endif\n#if TILE > 16\nf();\n#endif\n",
    ],
)
def test_guards_defaults_and_definitions_before_are_the_same_for_both(text: str) -> None:
    assert found(text) == []


FOR_BOTH = "{}\n#define BOTH __host__ __device__\n#else\n#define BOTH\n#endif\n"
ARCHITECTURE = "int f() {\n#if __CUDA_ARCH__ >= 800\n;\n#endif\n}\n"


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("#define DEVICE __forceinline__ __device__\nDEVICE " + ARCHITECTURE, False),
        ("#define BOTH __host__ __device__\nBOTH " + ARCHITECTURE, False),
        ("#define DEVICE __device__\n#define DEVICE\nDEVICE " + ARCHITECTURE, True),
        ("#define DEVICE __device__ int g() {}\nDEVICE " + ARCHITECTURE, True),
        ("DEVICE " + ARCHITECTURE + "#define DEVICE __device__\n", True),
        (FOR_BOTH.format("#ifdef __CUDACC__") + "BOTH " + ARCHITECTURE, False),
        (FOR_BOTH.format("#if defined(__CUDACC__)") + "BOTH " + ARCHITECTURE, False),
        (FOR_BOTH.format("#ifdef __CUDACC_RTC__") + "BOTH " + ARCHITECTURE, True),
        (FOR_BOTH.format("#ifndef __CUDACC__") + "BOTH " + ARCHITECTURE, True),
        ("[[nodiscard]] __host__ __device__ " + ARCHITECTURE, False),
        ("auto f = [] __host__ __device__ () " + ARCHITECTURE[7:], True),
        ("use([] __host__ __device__ () " + ARCHITECTURE[7:] + ");", True),
        ("__host__ __device__ constexpr " + ARCHITECTURE, True),
        ("#define BOTH __host__ __device__ FAST\n#define FAST auto\nBOTH " + ARCHITECTURE, True),
        ("#define J(a, b) a##b\n__host__ __device__ J(const, expr) " + ARCHITECTURE, True),
        ("__host__ __device__ int f() {\n#if __CUDA_ARCH__\n}\n#else\n}\n#endif\n", True),
        ("#undef __CUDA_ARCH__\n__host__ __device__ " + ARCHITECTURE, True),
        ("#define A __CUDA_ARCH__\n__host__ __device__ int f() {\n#if A\n;\n#endif\n}", False),
        ("#define ARCH __CUDA_ARCH__\nint f() {\n#if ARCH\n;\n#endif\n}", True),
        ("#if __CUDA_ARCH__ < 600\nint n;\n#endif", True),
        ("#if defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 600 && MINE\nint n;\n#endif", True),
    ],
)
def test_a_macro_may_mark_device_code(text: str, is_found: bool) -> None:
    assert bool(found(text)) == is_found


FOR_EITHER = "__host__ __device__ void f(int* p) { *p = BLOCKS; }\n"
CHOICE = "#if __CUDA_ARCH__ >= 900\n#define BLOCKS 2\n#else\n#define BLOCKS 1\n#endif\n"


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        (CHOICE + "int n;", False),
        (CHOICE + "int n = BLOCKS;", True),
        (CHOICE + "#ifdef BLOCKS\nint n;\n#endif", True),
        (CHOICE + "#define JOIN(a, b) a##b\nint n = JOIN(BLO, CKS);", True),
        (CHOICE + '#include "cuda_fp16.h"', True),
        (CHOICE.replace("BLOCKS", "NV_BLOCKS"), True),
        (CHOICE + "__global__ void k(int* p) { *p = BLOCKS; }", False),
        (CHOICE + "__global__ void k(int* p) { *p = BLOCKS; } int n = BLOCKS;", True),
        (CHOICE + FOR_EITHER, False),
        (CHOICE + FOR_EITHER + "__global__ void k(int* p) { *p = BLOCKS; }", False),
        (CHOICE + FOR_EITHER + "__global__ void k() { __shared__ int s[BLOCKS]; }", True),
        (CHOICE + FOR_EITHER + "int n = BLOCKS;", True),
        (CHOICE + FOR_EITHER.replace("void", "constexpr int"), True),
        (CHOICE + "#undef __CUDA_ARCH__\n" + FOR_EITHER, True),
        (CHOICE.replace("#if", "#if __OPTIMIZE__ &&") + FOR_EITHER, True),
        (CHOICE + "template <int N = 4> __device__ void f(int* p) { *p = BLOCKS; }", False),
        (CHOICE + "__global__ __launch_bounds__(64, BLOCKS) void k(int* p) {}", True),
        (CHOICE + "#define ALL BLOCKS\n__global__ void k(int* p) { *p = ALL; }", True),
        (CHOICE.replace("CUDA_ARCH", "OPTIMIZE") + "__global__ void k() { BLOCKS; }", True),
        (CHOICE.replace("#else", "int n;\n#else"), True),
        ("#if defined(MINE) && __CUDACC_VER_MAJOR__ < 12\nint n;\n#endif", False),
        ("#define MINE\n#if defined(MINE) && __CUDACC_VER_MAJOR__ < 12\nint n;\n#endif", True),
        ("#if defined(MINE) || __CUDACC_VER_MAJOR__ < 12\nint n;\n#endif", True),
        ("#if defined(MINE) && 0 ? 0 : __CUDACC_VER_MAJOR__\nint n;\n#endif", True),
        ("#if defined(__clang__) && __CUDACC_VER_MAJOR__ < 12\nint n;\n#endif", True),
    ],
)
def test_a_condition_that_decides_nothing_is_none(text, is_found):
    assert bool(found(text)) is is_found


def test_host_code_takes_its_own_branch_of_nested_conditions() -> None:
    nested = f"#ifdef __CUDA_ARCH__\n{CHOICE}#else\n#define BLOCKS 0\n#endif\n"
    assert found(nested + FOR_EITHER) == []
    of_host = conditions.for_host(nested + FOR_EITHER)
    assert of_host is not None and of_host.index("#undef __CUDA_ARCH__") < of_host.index("#ifdef")
    assert of_host.count("#undef") == 1 and of_host.rindex("#define __CUDA_ARCH__") > len(nested)


POLYFILL = (
    "#if __CUDA_ARCH__ < 600\n"
    "static __inline__ __device__ double add(double* at, const double by) { return *at += by; }\n"
    "{}#else\n"
    "__device__ double add(double* __restrict__ at, double by) {\n"
    "#pragma unroll\n"
    "return atomicAdd(at, by); }\n"
    "#endif\n"
)
KERNEL = "__global__ void k(double* p) { add(p, 1); }\n"


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        (POLYFILL + KERNEL, False),
        (POLYFILL.replace("#else", "#endif\n#if __CUDA_ARCH__ >= 600") + KERNEL, False),
        (POLYFILL + "template <class T> __device__ void f(T* p) { add(p, 1); }\n", False),
        (POLYFILL + "int n = sizeof(add(nullptr, 1));\n", True),
        (POLYFILL + "__host__ __device__ void f(double* p) { add(p, 1); }\n", True),
        (POLYFILL + "#define ADD add\n" + KERNEL, True),
        (POLYFILL + "#define J(a, b) a##b\n" + KERNEL, True),
        (POLYFILL + "#include <vector>\n", True),
        ("#define double float\n" + POLYFILL + KERNEL, True),
        ("struct S {\n" + POLYFILL + "};\n", True),
        ("struct S {\n#ifdef NOBODY\n}\n#endif\n" + POLYFILL + "};\n", True),
        (POLYFILL.replace("double*", "S*") + KERNEL, True),
        (POLYFILL.replace("{}", "int n;\n") + KERNEL, True),
        (POLYFILL.replace("{}", "#define N 1\n") + KERNEL, True),
        (POLYFILL.replace("by) { return *at += by; }", "by)") + KERNEL, True),
        (POLYFILL.replace("double add", "auto add") + KERNEL, True),
        (POLYFILL.replace("__CUDA_ARCH__", "__OPTIMIZE__") + KERNEL, True),
    ],
)
def test_functions_that_only_device_code_names_may_depend_on_the_architecture(text, is_found):
    assert bool(found(text.replace("{}", ""))) is is_found


CHOOSES = "{{\n#if __CUDA_ARCH__ >= 800\n{}#else\n{}#endif\n}}"


@pytest.mark.parametrize(
    "text",
    [
        "__global__ void k() " + CHOOSES.format("#define N 2\n", "#define N 1\n") + "\nint n = N;",
        "__device__ constexpr int f() " + CHOOSES.format("return 1;\n", "return 2;\n"),
        "__device__ auto f() " + CHOOSES.format("return 1;\n", "return 2.0;\n"),
        "__device__ struct S " + CHOOSES.format("int a;\n", "int b, a;\n") + " s;",
        "__device__ struct __align__(8) " + CHOOSES.format("int a;\n", "int b, a;\n") + " s;",
        "__device__ class __align__(8) " + CHOOSES.format("int a;\n", "int b, a;\n") + " s;",
        "#define K class\n__device__ K __align__(8) " + CHOOSES.format("int a;\n", "\n") + " s;",
        "__device__ const int n" + CHOOSES.format("1\n", "2\n") + ";",
        "__device__ const int n alignas(8) " + CHOOSES.format("1\n", "2\n") + ";",
        "#define E(x)\n__device__ const int n E(1) " + CHOOSES.format("1\n", "2\n") + ";",
        "#define E(a, b) b\n__device__ E(x, class) __align__(8) " + CHOOSES + " s;",
        CHOICE + "__device__ constexpr int f() { return BLOCKS; }",
        CHOICE + "__device__ struct S { int a[BLOCKS]; } s;",
        "__device__ void f() " + CHOOSES.format("}\n", "} int n;\n__device__ void g() {\n"),
    ],
)
def test_device_code_that_decides_other_code_is_told(text: str) -> None:
    assert found(text)


@pytest.mark.parametrize(
    "head",
    [
        "template <class T> __global__ __launch_bounds__(64) void k(const T* p)",
        "__device__ __forceinline__ int f(int a, int (&b)[4])",
        "struct S { __device__ int operator()(int a) const",
        "struct S { __device__ S() : a(1)",
    ],
)
def test_a_function_s_own_way_decides_nothing_else(head: str) -> None:
    assert not found(head + " " + CHOOSES.format("g(1);\n", "g(2);\n"))
