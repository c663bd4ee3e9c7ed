"""What nvcc refuses reaches the student in their own file and line, and without our folders."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from grader.emulator import nvcc_runtime, toolchain
from grader.worker import nvcc

needs_nvcc = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")

FRONT_END = """\
/home/x/build-1/silu.cu(4): error: static assertion failed with "oh no"
  static_assert(sizeof(int) == 8, "oh no");
  ^

/home/x/build-1/silu.cu(9): error #20: identifier "foo" is undefined
  foo;
  ^

2 errors detected in the compilation of "silu.cu".
"""
PREPROCESSOR = """\
silu.cu:2:10: fatal error: nothere.h: No such file or directory
    2 | #include "nothere.h"
      |          ^~~~~~~~~~~
compilation terminated.
"""
IN_A_HEADER = """\
/usr/include/c++/12/bits/predefined_ops.h(45): error: no operator "<" matches these operands
            operand types are: N < N
        { return *__it1 < *__it2; }
          detected during:
            instantiation of "void std::__sort(_RAIter)" at line 4820 of /usr/include/c++/stl_algo.h
            instantiation of "void std::sort(_RAIter)" at line 5 of silu.cu

"""
ASSEMBLER = """\
silu.cu: Assembler messages:
silu.cu:7: Error: no such instruction: `foo bar'
"""
PTXAS = """\
ptxas /tmp/tmpxft_000065ab_00000000-6_silu.ptx, line 28; error   : Unknown modifier '.foo'
ptxas fatal   : Ptx assembly aborted due to errors
"""
LINKER = """\
/usr/bin/ld: silu.o: in function `silu':
silu.cu:(.text+0x5): undefined reference to `helper'
collect2: error: ld returned 1 exit status
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FRONT_END, [(4, 'static assertion failed with "oh no"'), (9, 'identifier "foo" is und')]),
        (PREPROCESSOR, [(2, "nothere.h: No such file or directory")]),
        (IN_A_HEADER, [(5, 'no operator "<" matches these operands (in predefined_ops.h:45)')]),
        (ASSEMBLER, [(7, "no such instruction: `foo bar'")]),
        (PTXAS, [(None, "Unknown modifier '.foo'"), (None, "Ptx assembly aborted")]),
        (LINKER, [(None, "undefined reference to `helper'")]),
        ("silu.cu(3): warning #177-D: variable was declared but never referenced\n", []),
    ],
    ids=["front end", "preprocessor", "header", "assembler", "ptxas", "linker", "warning"],
)
def test_message_of_every_part_is_read(text: str, expected: list[tuple[int | None, str]]) -> None:
    found = nvcc.read_messages(text, "silu.cu")
    assert [each.line for each in found] == [line for line, _ in expected]
    for refusal, (_, message) in zip(found, expected, strict=True):
        assert refusal.message.startswith(message)


@pytest.mark.parametrize("text", [FRONT_END, IN_A_HEADER, PTXAS, LINKER], ids=range(4))
def test_no_folder_of_the_machine_is_told(text: str) -> None:
    for refusal in nvcc.read_messages(text, "silu.cu"):
        assert not any(folder in str(refusal) for folder in ("/home", "/usr", "/tmp"))


def test_endless_messages_are_cut() -> None:
    one = "silu.cu({}): error: x\n" + "context\n" * 10_000
    found = nvcc.read_messages("".join(one.format(line) for line in range(50)), "silu.cu")
    assert len(found) == nvcc.MAX_REFUSALS
    assert all(len(each.detail) < 2 * nvcc.MAX_DETAIL for each in found)


SHARED = """\
#define SIZE 100000

__global__ void wide_kernel(float* p) {
    __shared__ float big[SIZE];
    big[threadIdx.x] = p[1];
    __syncthreads();
    p[0] = big[threadIdx.x + 1];
}
"""
ACCEPTED = """\
template <typename T> __global__ void twice(T* p) { p[threadIdx.x] *= 2; }
#include <algorithm>
template <typename F> __global__ void each(F f) { f(threadIdx.x); }
extern "C" void entry(float* p) {
    twice<<<1, 32>>>(p);
    each<<<1, 32>>>([=] __device__(int i) { p[i] = std::min(p[i], 2.0f); });
}
"""


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("int x;", "-cuda"),
        ('void f() { asm("nop"); }', "-c"),
        ("struct S { float f; __device__ S(unsigned u) : f(__uint_as_float(u)) {} };", "-c"),
        ("struct S { float f; __device__ S(float x) { f = x; } };", "-cuda"),
        ("struct S { float f; __host__ __device__ S(float x) : f(x) {} };", "-cuda"),
    ],
)
def test_a_check_hands_on_to_gcc_only_what_that_may_refuse(tmp_path, monkeypatch, text, step):
    asked = []
    monkeypatch.setattr(nvcc, "run", lambda line, folder: asked.append(line))
    monkeypatch.setattr(nvcc, "_refusals", lambda done, source: ())
    source = tmp_path / "silu.cu"
    source.write_text(text)
    nvcc.check("nvcc", source, tmp_path)
    assert {"-c", "-cuda"} & {*asked[0]} == {step}


@pytest.mark.parametrize(
    ("text", "is_slower"),
    [
        ("__device__ int f(int* p) { return p[1]; }", False),
        ("auto f = [=] __device__(int i) { return i; };", True),
        ("auto f = []  __host__ __device__ (int i) { return i; };", True),
        ("#define HD __host__ __device__\nauto f = [] HD (int i) { return i; };", True),
    ],
)
def test_only_a_file_that_may_need_it_gets_the_option_for_lambdas(text, is_slower):
    assert ("--extended-lambda" in nvcc.flags_of(text.encode())) == is_slower


@needs_nvcc
def test_real_refusals_are_read(tmp_path: Path) -> None:
    source = tmp_path / "silu.cu"
    source.write_text("\n\nint x = missing;\n")
    (refusal,) = nvcc.check("nvcc", source, tmp_path)
    assert (refusal.line, refusal.message) == (3, 'identifier "missing" is undefined')
    assert "int x = missing;" in refusal.detail


@needs_nvcc
def test_an_initialiser_that_only_the_host_s_compiler_refuses_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "silu.cu"
    source.write_text("struct S { float f; __device__ S(int i) : f(__int_as_float(i)) {} };\n")
    (refusal,) = nvcc.check("nvcc", source, tmp_path)
    assert (refusal.line, "__int_as_float" in refusal.message) == (1, True)


@needs_nvcc
def test_what_only_ptxas_knows_gets_the_kernel_and_its_line(tmp_path: Path) -> None:
    source = tmp_path / "silu.cu"
    source.write_text(SHARED)
    (refusal,) = nvcc.check("nvcc", source, tmp_path)
    assert refusal.line == 3
    assert "wide_kernel(float*)" in refusal.message
    assert "too much shared data" in refusal.message


@needs_nvcc
def test_accepted_file_is_not_refused_and_leaves_nothing_elsewhere(tmp_path: Path) -> None:
    source = tmp_path / "source" / "silu.cu"
    source.parent.mkdir()
    source.write_text(ACCEPTED)
    (tmp_path / "made").mkdir()
    assert nvcc.check("nvcc", source, tmp_path / "made") == ()
    assert [each.name for each in source.parent.iterdir()] == ["silu.cu"]


def test_a_file_that_fails_without_a_line_is_not_accepted(tmp_path: Path, monkeypatch) -> None:
    source = tmp_path / "silu.cu"
    source.write_text("int x;")
    message = "File uses too much global constant data (0x20000 bytes, 0x10000 max)"
    refused = (nvcc.Refusal(message),)
    monkeypatch.setattr(nvcc, "compile_object", lambda *_: refused)
    with pytest.raises(nvcc.NvccError, match="too much global constant data"):
        nvcc.check("nvcc", source, tmp_path)


@needs_nvcc
def test_our_part_of_a_gpus_planners_is_made_once_and_kept(tmp_path: Path) -> None:
    made = toolchain.prepare().folder  # the emulator's part has tests of its own
    shutil.copytree(made, tmp_path / "cache" / made.name)
    ready = toolchain.prepare(tmp_path / "cache")
    folder = nvcc_runtime.prepare(ready, "nvcc").folder
    times = {each: each.stat().st_mtime_ns for each in folder.iterdir()}
    assert times and folder.is_relative_to(tmp_path)
    assert nvcc_runtime.prepare(ready, "nvcc").folder == folder
    assert {each: each.stat().st_mtime_ns for each in folder.iterdir()} == times


@needs_nvcc
def test_a_header_that_is_not_there_is_no_verdict(tmp_path: Path) -> None:
    source = tmp_path / "file.cu"
    source.write_text("#include <of_no_library.h>\n")
    with pytest.raises(nvcc.NvccError, match="of_no_library"):
        nvcc.check("nvcc", source, tmp_path)
