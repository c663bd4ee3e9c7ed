"""The backend: TTIR text to a cubin, and clear words for what doesn't become one."""

from __future__ import annotations

import base64

import pytest

from tests.grader.worker.planner.test_kernels import KERNEL
from tests.grader.worker.planner.test_launches import PAIR


def compiled(planning, tmp_path, before="", expression="v", options=None):
    plan = planning.plan(tmp_path, KERNEL % (before, expression), PAIR)
    described = plan["specialisations"][0]
    ttir = planning.frontend(tmp_path, described)["ttir"]
    return planning.backend(ttir, options or described["options"])


def test_a_cubin_and_what_it_needs(planning, tmp_path):
    answer = compiled(planning, tmp_path, options={"num_warps": 2})

    assert base64.b64decode(answer["cubin"])[:4] == b"\x7fELF"
    assert 4 < answer["registers"] < 64
    assert (answer["shared"], answer["spills"], answer["num_warps"]) == (0, 0, 2)
    assert "ttg.num-warps" in answer["ttgir"]
    assert ".target sm_90a" in answer["ptx"]


def test_shared_memory_beyond_the_gpus(planning, tmp_path):
    text = """
import triton
import triton.language as tl

@triton.jit
def kernel(x, y):
    i = tl.arange(0, 256)
    p = x + i[:, None] * 256 + i[None, :]
    tl.store(y + i[:, None] * 256 + i[None, :], tl.dot(tl.load(p), tl.load(p)))

def f(x, y):
    kernel[(1,)](x, y)
"""
    plan = planning.plan(tmp_path, text, PAIR)
    ttir = planning.frontend(tmp_path, plan["specialisations"][0])["ttir"]
    error = planning.backend(ttir, {})["error"]

    assert "of shared memory, the GPU has 232,448" in error["message"], error
    assert error["message"].startswith("kernel needs")
    assert error["autotuner_skips"]


def test_more_warps_than_a_block_has(planning, tmp_path):
    error = compiled(planning, tmp_path, options={"num_warps": 64})["error"]

    assert "64 warps, 2048 threads; a block has at most 1024" in error["message"]


def test_assembly_that_the_assembler_refuses(planning, tmp_path):
    expression = (
        "tl.inline_asm_elementwise('nonsense $0, $1;', '=f,f', [v], dtype=tl.float32, "
        "is_pure=True, pack=1)"
    )
    error = compiled(planning, tmp_path, expression=expression)["error"]

    assert error["message"].startswith("the assembler refuses what it compiles to")


@pytest.mark.parametrize("text", ["", "module {", "module { tt.func public @f() { tt.none } }"])
def test_text_that_is_no_ttir(planning, text):
    assert set(planning.backend(text, {})) == {"error"}


def test_options_are_checked_here_too(planning):
    assert "extern_libs" in planning.backend("module {}", {"extern_libs": {}})["error"]["message"]
