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
        ("#ifndef __CUDA_ARCH__", "__CUDA_ARCH__"),
        ("#if __has_include(<warpgrade/launch.h>)", "__has_include"),
        ("#if CUDART_VERSION < 13000", "CUDART_VERSION"),
    ],
)
def test_a_macro_of_one_compiler_is_told_with_its_line(directive: str, macro: str) -> None:
    assert (2, macro) in found(f"void f() {{\n{directive}\ng();\n#endif\n}}\n")


@pytest.mark.parametrize(
    "text",
    [
        "#ifdef __CUDACC__\n#endif\n",
        "#ifndef NDEBUG\n#endif\n",
        "#define __MINE__ 1\n#if __MINE__\n#endif\n",
        "#ifdef DEBUG\n#endif\n",
        "__global__ void k() {\n#if __CUDA_ARCH__ >= 800\n;\n#endif\n}\n",
        "// #ifdef __SANITIZE_THREAD__\n",
    ],
)
def test_what_both_see_alike_is_not_told(text: str) -> None:
    assert found(text) == []
