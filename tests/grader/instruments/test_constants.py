"""Constants are found by name and set in a file's text, without moving a line."""

from __future__ import annotations

import pytest

from grader.instruments.constants import Unreadable, constants_of
from tests.support.small_exercise import ROOT

PYTHON = """\
import triton
import triton.language as tl

ROWS: tl.constexpr = 4
WIDTH = tl.constexpr(8)
UNUSED = 1


@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr, STEP: tl.constexpr = 2):
    BLOCKS = ROWS + WIDTH


def helper(n, threads=32):
    return n


@triton.autotune(configs=[], key=[])
@triton.jit
def tuned(x_ptr):
    pass


def entry(x):
    n = x.shape[0]
    BLOCK, other = 64, helper(n)
    kernel[(n,)](
        x, n, BLOCK=BLOCK,  # a comment, with a comma
        num_warps=8,
    )
    kernel[(n,)](x, n)


def tuned_entry(x):
    tuned[(1,)](x)
"""
CUDA = """\
#define WARPS 8
constexpr int BLOCK = 256, TILE = 4 * (2 + 2);  // BLOCK = 1
const char* TEXT = "BLOCK = 2;";
void entry() {
    const int row = blockIdx.x;
    const unsigned COUNT = 7;
    int BLOCKS = 3;
}
"""


def changed(source: str, entry: str, language: str, **values: str) -> list[tuple[str, str]]:
    """The lines that differ, before and after."""
    after = constants_of(source.encode(), entry, language).with_values(values)
    lines = list(zip(source.splitlines(), after.splitlines(), strict=True))
    return [(old.strip(), new.strip()) for old, new in lines if old != new]


def test_a_python_name_is_set_again_behind_what_sets_it_and_replaced_at_launches():
    assert changed(PYTHON, "entry", "triton", BLOCK="16") == [
        ("BLOCK, other = 64, helper(n)", "BLOCK, other = 64, helper(n); BLOCK = 16"),
        ("x, n, BLOCK=BLOCK,  # a comment, with a comma",
         "x, n, BLOCK=16,  # a comment, with a comma"),
    ]  # fmt: skip


def test_what_is_a_constexpr_stays_one_and_a_default_is_replaced():
    assert changed(PYTHON, "entry", "triton", ROWS="2", WIDTH="16", STEP="3", threads="1") == [
        ("ROWS: tl.constexpr = 4", "ROWS: tl.constexpr = 4; ROWS: tl.constexpr = 2"),
        ("WIDTH = tl.constexpr(8)", "WIDTH = tl.constexpr(8); WIDTH = tl.constexpr(16)"),
        ("def kernel(x_ptr, n, BLOCK: tl.constexpr, STEP: tl.constexpr = 2):",
         "def kernel(x_ptr, n, BLOCK: tl.constexpr, STEP: tl.constexpr = 3):"),
        ("def helper(n, threads=32):", "def helper(n, threads=1):"),
    ]  # fmt: skip


def test_options_are_replaced_or_added_at_every_launch():
    assert changed(PYTHON, "entry", "triton", num_warps="4", num_stages="2") == [
        ("num_warps=8,", "num_warps=4,"),
        (")", "num_stages=2, )"),
        ("kernel[(n,)](x, n)", "kernel[(n,)](x, n, num_stages=2, num_warps=4)"),
    ]


def test_only_what_the_entry_uses_is_known_and_a_tuned_kernel_has_no_options():
    known = constants_of(PYTHON.encode(), "entry", "triton")
    assert {*known.constants} == {
        *("ROWS", "WIDTH", "STEP", "threads", "BLOCK", "num_warps", "num_stages")
    }
    assert "UNUSED" not in known.names and "BLOCKS" not in known.names
    assert constants_of(PYTHON.encode(), "tuned_entry", "triton").names == []


def test_in_cuda_constexprs_constant_numbers_and_macros_are_replaced():
    assert constants_of(CUDA.encode(), "entry", "cuda").names == ["BLOCK", "TILE", "COUNT", "WARPS"]
    given = {"BLOCK": "128", "TILE": "8", "WARPS": "4", "COUNT": "9"}
    assert changed(CUDA, "entry", "cuda", **given) == [
        ("#define WARPS 8", "#define WARPS 4"),
        ("constexpr int BLOCK = 256, TILE = 4 * (2 + 2);  // BLOCK = 1",
         "constexpr int BLOCK = 128, TILE = 8;  // BLOCK = 1"),
        ("const unsigned COUNT = 7;", "const unsigned COUNT = 9;"),
    ]  # fmt: skip


def test_letters_of_several_bytes_move_no_place():
    source = "é = 'ü'; BLOCK = 1\n\ndef entry(x):\n    return é, BLOCK\n"
    assert changed(source, "entry", "triton", BLOCK="2") == [
        ("é = 'ü'; BLOCK = 1", "é = 'ü'; BLOCK = 1; BLOCK = 2")
    ]
    source = "// é\nconstexpr int BLOCK = 1;\n"
    assert changed(source, "entry", "cuda", BLOCK="2")[0][1] == "constexpr int BLOCK = 2;"


@pytest.mark.parametrize("source", ["def entry(:\n", "x = " + "-" * 200_000 + "1"])
def test_what_cannot_be_read_says_why(source):
    with pytest.raises(Unreadable, match=r"line 1|reading it takes"):
        constants_of(source.encode(), "entry", "triton")


def test_the_solutions_constants_are_those_that_a_reader_sees():
    for file, entry, language, names in [
        ("gemm.py", "gemm_v3", "triton", {"BLOCK_M", "GROUP_SIZE_M", "num_warps", "num_stages"}),
        ("transpose.py", "transpose_v1", "triton", {"ROW_BLOCK", "num_warps"}),
        ("transpose.cu", "transpose_v4", "cuda", {"TILE", "TILE_ROWS"}),
    ]:
        data = (ROOT / "reference" / file).read_bytes()
        known = constants_of(data, entry, language)
        assert names <= {*known.constants}, file
        assert not {"rows", "cols", "M", "N", "grid", "row", "col"} & {*known.constants}, file
