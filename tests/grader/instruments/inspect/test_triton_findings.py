"""What `grader inspect` says of Triton kernels: each finding on a kernel that has it, and not on
one that hasn't."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from grader.cases import parse
from grader.grading.session import selected
from grader.instruments.inspect.compiling import Compilers
from grader.instruments.inspect.findings import Finding, findings
from grader.instruments.inspect.kernels import Inspected, Kernel, inspect, open_compilers
from grader.sandbox import Sandbox
from tests.grader.instruments.inspect.looking import (
    at,
    exercises,
    kinds,
    look,
    session_of,
    silu,
)
from tests.support.small_exercise import ROOT

COPY = """
@triton.jit
def {name}(x_ptr, out_ptr, n, step, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = {mask}
    x = tl.load(x_ptr + {source}, mask=mask)
    tl.store(out_ptr + offs, {value}, mask=mask)
"""
LOAD, STORE = 3, 4  # lines below that of the name
LAUNCH = "{name}[(4,)](x, out, x.numel(), 7, BLOCK={block}, num_warps=4)"
COPIES: dict[str, dict[str, Any]] = {
    "copy": {},
    "other_mask": {"mask": "(offs < n) & (offs % 3 != 1)"},
    "strided": {"source": "offs * step"},
    "scattered": {"source": "(offs * 5) % 4096"},
    "one_each": {"block": 128},
    "single_value": {"value": "x + tl.load(x_ptr)"},
    "double": {"value": "x.to(tl.float64) / 3 + 1"},
    "no_double": {"value": "x / 3 + 1"},
    "division": {"value": "(x.to(tl.int32) // n).to(tl.float32)"},
}
DIVIDING = """
@triton.jit
def {name}(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    sums = tl.zeros([BLOCK], tl.int32)
    for i in range(n):
        sums += (offs + i) % {divisor}
    tl.store(out_ptr + offs, sums.to(tl.float32))
"""
OTHERS = """
@triton.jit
def in_a_loop(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    for start in range(0, n, BLOCK):
        tl.store(out_ptr + start + offs, tl.load(x_ptr + start + offs))

@triton.jit
def reduced(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(out_ptr + offs, x - tl.sum(x))

@triton.jit
def scaled(x_ptr, out_ptr, n, scale, keep, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, tl.where(keep, x * scale, x), mask=offs < n)

@triton.jit
def read(x_ptr, offs):
    return tl.load(x_ptr + offs)

@triton.jit
def with_helper(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.softmax(read(x_ptr, offs)))
"""
LAUNCHES = """
    dividing[(1,)](x, out, x.numel(), BLOCK=128)
    dividing_by_16[(1,)](x, out, x.numel(), BLOCK=128)
    in_a_loop[(1,)](x, out, x.numel(), BLOCK=1024, num_stages=4)
    in_a_loop[(1,)](x, out, x.numel(), BLOCK=1024, num_stages=1)
    reduced[(1,)](x, out, BLOCK=16384, num_warps=1)
    reduced[(1,)](x, out, BLOCK=1024, num_warps=1)
    scaled[(1,)](x, out, x.numel(), 0.25, True, BLOCK=1024)
    with_helper[(1,)](x, out, BLOCK=1024)
"""


def copies() -> str:
    """The kernels of COPIES, each with what it has of its own."""
    plain = {"mask": "offs < n", "source": "offs", "value": "x"}
    return "".join(COPY.format(**{**plain, "name": name, **own}) for name, own in COPIES.items())


@dataclass
class Shown:
    """What a file launches, compiled, and what each kernel shows."""

    made: Inspected
    compilers: Compilers

    def look(self, name: str, number: int = 0) -> tuple[Kernel, list[Finding]]:
        """A kernel of this name: the first that is launched, or a later one."""
        kernel = [each for each in self.made.kernels if each.name == name][number]
        return kernel, findings(kernel, self.compilers)

    def line(self, name: str, below: int) -> int:
        """The number of a line below the one with the kernel's name."""
        lines = self.made.sources["silu.py"].splitlines()
        return 1 + below + next(n for n, each in enumerate(lines) if f"def {name}(" in each)


@pytest.fixture(scope="module")
def shown(shared_sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """All kernels of this file, compiled once for a case of silu."""
    dividing = DIVIDING.format(name="dividing", divisor="(n + i)")
    by_16 = DIVIDING.format(name="dividing_by_16", divisor="16")
    launches = [
        LAUNCH.format(name=name, block=own.get("block", 1024)) for name, own in COPIES.items()
    ]
    folder = silu(
        tmp_path_factory.mktemp("kernels"),
        copies() + dividing + by_16 + OTHERS,
        "\n    ".join(launches) + LAUNCHES,
    )
    (task,) = selected(exercises(), ["silu/triton"])
    case = parse("n=4096 dtype=float32", task, 1, is_run=False)
    with session_of(folder, shared_sandbox) as session, open_compilers(session, task) as compilers:
        yield Shown(inspect(session, compilers, task, case), compilers)


# --- global memory --------------------------------------------------------------------------------


def test_gelu_in_bfloat16_has_one_wide_load(shared_sandbox: Sandbox):
    made, found = look(shared_sandbox, "gelu/triton", case="n=16384 dtype=bfloat16")
    (load,) = [each for each in found if "load" in each.text]
    assert load.kind == "wide"
    assert load.text.startswith("1 load of 16 bytes for each thread (LDG.E.128)")
    assert (
        made.sources["gelu.py"].splitlines()[load.place.line - 1].strip().startswith("x = tl.load")
    )


def test_gelu_of_a_misaligned_slice_has_eight_narrow_loads(shared_sandbox: Sandbox):
    case = "n=16384 dtype=bfloat16 x.layout=offset"
    _, found = look(shared_sandbox, "gelu/triton", case=case)
    (load,) = [each for each in found if "load" in each.text]
    assert load.kind == "narrow" and load.tone == "cost"
    assert load.text.startswith("8 loads of 2 bytes for each thread (LDG.E.U16)")
    assert (
        "It would be 16 bytes at once if x_ptr were known to be a multiple of 16 bytes."
        in load.text
    )
    (store,) = [each for each in found if "store" in each.text]
    assert store.kind == "wide"


def test_a_length_that_is_no_multiple_is_why_a_mask_makes_loads_narrow(
    shared_sandbox: Sandbox, shown: Shown, tmp_path: Path
):
    kernel = COPY.format(name="copy", mask="offs < n", source="offs", value="x")
    folder = silu(tmp_path, kernel, LAUNCH.format(name="copy", block=1024))
    made, ragged = look(shared_sandbox, "silu/triton", folder, "n=4093 dtype=float32")
    (load,) = at(ragged, Shown(made, shown.compilers).line("copy", LOAD))
    assert load.kind == "narrow" and "if n were known to be a multiple of 16." in load.text
    _, even = shown.look("copy")
    assert [each.kind for each in at(even, shown.line("copy", LOAD))] == ["wide"]


def test_a_mask_that_differs_from_element_to_element_is_the_reason(shown: Shown):
    _, found = shown.look("other_mask")
    (load,) = at(found, shown.line("other_mask", LOAD))
    mask = shown.line("other_mask", LOAD)
    assert f"if its mask were the same for elements side by side (line {mask})." in load.text


def test_a_stride_is_the_reason_where_1_would_make_it_wide(shown: Shown):
    _, found = shown.look("strided")
    (load,) = at(found, shown.line("strided", LOAD))
    assert "It would be 16 bytes at once if step were known to be 1." in load.text
    assert [each.kind for each in at(found, shown.line("strided", STORE))] == ["wide"]


def test_no_guess_that_fails_is_given_as_a_reason(shown: Shown):
    _, found = shown.look("scattered")
    (load,) = at(found, shown.line("scattered", LOAD))
    assert load.tone == "fact" and "would" not in load.text
    assert "can't tell that the elements of a thread lie beside each other" in load.text


def test_threads_with_one_element_can_load_no_more(shown: Shown):
    _, found = shown.look("one_each")
    (load,) = at(found, shown.line("one_each", LOAD))
    assert "A thread has no more: 1 element of 4 bytes (128 among 128 threads)" in load.text


def test_a_single_value_is_said_to_be_one(shown: Shown):
    _, found = shown.look("single_value")
    line = shown.line("single_value", STORE)
    loads = [each for each in at(found, line) if "load" in each.text]
    assert [each.text.count("a single value, for the whole program") for each in loads] == [1]


# --- products -------------------------------------------------------------------------------------


@pytest.fixture
def gemm(tmp_path: Path):
    """Makes folders with the solutions' gemm.py, with words of it replaced."""

    def make(old: str, new: str) -> Path:
        text = (ROOT / "reference" / "gemm.py").read_text()
        assert old in text
        (tmp_path / "gemm.py").write_text(text.replace(old, new))
        return tmp_path

    return make


def test_num_stages_of_3_loads_ahead_and_of_1_does_not(shared_sandbox: Sandbox, gemm):
    case = "M=512 N=512 K=512 dtype=bfloat16"
    staged = gemm("num_warps=8, num_stages=3", "num_warps=8, num_stages=3")
    _, ahead = look(shared_sandbox, "gemm/triton_v3", staged, case)
    loads = [each for each in ahead if each.kind == "cp.async"]
    assert len(loads) == 2
    assert all("LDGSTS" in each.text and "num_stages is 3" in each.text for each in loads)
    single = gemm("num_warps=8, num_stages=3", "num_warps=8, num_stages=1")
    _, at_once = look(shared_sandbox, "gemm/triton_v3", single, case)
    assert not kinds(at_once) & {"cp.async", "no cp.async", "tma"}


DESCRIPTORS = """
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, b_ptr, out_ptr, M, N, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    a_blocks = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK, BLOCK_K])
    b_blocks = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BLOCK_K, BLOCK])
    row, col = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    acc = tl.zeros([BLOCK, BLOCK], tl.float32)
    for start in range(0, K, BLOCK_K):
        acc = tl.dot(a_blocks.load([row, start]), b_blocks.load([start, col]), acc)
    offs = (row + tl.arange(0, BLOCK))[:, None] * N + (col + tl.arange(0, BLOCK))[None, :]
    tl.store(out_ptr + offs, acc)


def room(size, align, stream):
    return torch.empty(size, dtype=torch.int8, device="cuda")


def gemm_v3(a, b, out):
    triton.set_allocator(room)
    (M, K), N = a.shape, b.shape[1]
    kernel[(M // 64, N // 64)](a, b, out, M, N, K, BLOCK=64, BLOCK_K=64, num_stages=3)
"""


def test_loads_through_descriptors_are_the_memory_accelerators(shared_sandbox: Sandbox, tmp_path):
    (tmp_path / "gemm.py").write_text(DESCRIPTORS)
    case = "M=512 N=512 K=512 dtype=bfloat16"
    _, found = look(shared_sandbox, "gemm/triton_v3", tmp_path, case)
    told = [each for each in found if each.kind == "tma"]
    line = DESCRIPTORS.split("\n").index(
        "        acc = tl.dot(a_blocks.load([row, start]), b_blocks.load([start, col]), acc)"
    )
    assert told and {each.place.line for each in told if each.place} == {line + 1}
    assert "no cp.async" not in kinds(found)


def test_num_stages_without_effect_is_told(shown: Shown):
    _, found = shown.look("in_a_loop", 0)
    (told,) = [each for each in found if each.kind == "no cp.async"]
    assert told.text.startswith("num_stages is 4, and no load of the loop is started ahead")
    _, found = shown.look("in_a_loop", 1)
    assert "no cp.async" not in kinds(found)


def test_tensor_cores_compute_half_precision_and_not_float32_in_ieee(shared_sandbox: Sandbox, gemm):
    case = "M=128 N=128 K=128 dtype={}"
    small = gemm("BLOCK_M, BLOCK_N, BLOCK_K = 64, 64, 32", "BLOCK_M, BLOCK_N, BLOCK_K = 32, 32, 16")
    _, half = look(shared_sandbox, "gemm/triton_v2", small, case.format("float16"))
    assert "tensor cores" in kinds(half) and "no tensor cores" not in kinds(half)
    _, single = look(shared_sandbox, "gemm/triton_v2", small, case.format("float32"))
    (told,) = [each for each in single if each.kind == "no tensor cores"]
    assert 'float32 in input_precision="ieee"' in told.text
    assert "tensor cores" not in kinds(single)
    text = (small / "gemm.py").read_text()
    assert 'input_precision="ieee"' in text
    rounded = text.replace('input_precision="ieee"', 'input_precision="tf32"')
    (small / "gemm.py").write_text(rounded)
    _, tf32 = look(shared_sandbox, "gemm/triton_v2", small, case.format("float32"))
    assert "tensor cores" in kinds(tf32) and "no tensor cores" not in kinds(tf32)


# --- the rest -------------------------------------------------------------------------------------


def test_spilled_registers_are_told_with_their_bytes(shown: Shown):
    kernel, found = shown.look("reduced", 0)
    told = [each for each in found if each.kind == "local memory"]
    stack = kernel.code.usage.stack
    assert stack > 0 and told
    assert all(f"registers that were spilled; {stack:,} bytes" in each.text for each in told)
    kernel, found = shown.look("reduced", 1)
    assert kernel.code.usage.stack == 0 and "local memory" not in kinds(found)


@pytest.mark.parametrize(("name", "is_double"), [("double", True), ("no_double", False)])
def test_float64_is_told_where_no_argument_is(shown: Shown, name: str, is_double: bool):
    _, found = shown.look(name)
    at_store = at(found, shown.line(name, STORE))
    assert ("float64" in {each.kind for each in at_store}) == is_double


@pytest.mark.parametrize(("name", "is_costly"), [("dividing", True), ("dividing_by_16", False)])
def test_divisions_by_what_only_the_run_knows_are_told_in_loops(
    shown: Shown, name: str, is_costly: bool
):
    _, found = shown.look(name)
    assert bool(at(found, shown.line(name, 4), "division")) == is_costly


def test_a_division_outside_of_loops_is_none_of_them(shown: Shown):
    _, found = shown.look("division")
    assert "division" not in kinds(found)


def test_float_bool_and_pointer_arguments_are_compiled_as_launched(shown: Shown):
    kernel, _ = shown.look("scaled")
    arguments = list(kernel.arguments)
    assert arguments[0] == "x_ptr: *fp32, a multiple of 16 bytes"
    assert "scale: fp32" in arguments and "BLOCK = 1024" in arguments
    assert any(each.startswith("keep") for each in arguments)


def test_a_helper_function_of_the_file_keeps_its_own_line(shown: Shown):
    kernel, found = shown.look("with_helper")
    assert [each.kind for each in at(found, shown.line("read", 1))] == ["wide"]
    exponentials = [each.place for each in kernel.sass if each.opcode == "MUFU.EX2"]
    if version("triton") < "3.8":  # it doesn't say where functions of its library are inlined
        assert {*exponentials} == {None}
    else:
        assert {place.line for place in exponentials} == {shown.line("with_helper", 2)}


def test_each_configuration_of_a_tuned_kernel_can_be_chosen(shared_sandbox: Sandbox):
    case = "M=128 N=128 K=128 dtype=bfloat16"
    made, _ = look(shared_sandbox, "gemm/triton_v4", case=case, configuration=3)
    assert made.chosen == 3 and len(made.tuned) == 5
    assert "BLOCK_M = 16" in made.kernels[0].arguments
    assert made.kernels[0].options["num_stages"] == 5


def test_files_beside_the_graded_one_are_shown_too(shared_sandbox: Sandbox, tmp_path: Path):
    shutil.copy(ROOT / "reference" / "silu.py", tmp_path / "silu.py")
    (tmp_path / "beside.py").write_text(
        "import triton\n\n\n\n@triton.jit\ndef double(x):\n    return x * 2\n"
    )
    kernel = """
from beside import double

@triton.jit
def kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, double(tl.load(x_ptr + offs)))
"""
    silu(tmp_path, kernel, "kernel[(1,)](x, out, BLOCK=1024)")
    made, _ = look(shared_sandbox, "silu/triton", tmp_path)
    places = {str(each.place) for each in made.kernels[0].stage("ttgir")}
    assert "beside.py:7" in places
