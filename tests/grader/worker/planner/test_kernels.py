"""Kernels of a plan come from the submission's text, and their names lead to nothing else."""

from __future__ import annotations

import pytest

from .planning import tensor
from .test_launches import HEAD, PAIR

KERNEL = """
import math, torch, triton
import triton.language as tl
%s
@triton.jit
def kernel(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(y + i, %s)

def f(x, y):
    kernel[(1,)](x, y, 64)
"""


@pytest.mark.parametrize(
    ("before", "expression"),
    [
        ("S = tl.constexpr(2.5)", "v * S"),
        ("", "v * math.pi"),
        ("", "v * math.log2(BLOCK)"),
        ("import numpy", "tl.where(v > -torch.inf, v, numpy.pi)"),  # constants of other modules
        ("from triton.language import exp", "exp(v)"),
        ("from triton.language.extra import libdevice", "libdevice.tanh(v)"),
        ("from triton.language.extra.cuda import libdevice", "libdevice.tanh(v)"),
        ("from triton.language.extra.libdevice import tanh", "tanh(v)"),
        ("", "tl.extra.cuda.libdevice.erf(v)"),
        (
            "from importlib import util\n"
            "spec = util.find_spec('triton.language.extra.libdevice')\n"
            "again = util.module_from_spec(spec)\nspec.loader.exec_module(again)\n"
            "rsqrt = again.rsqrt",
            "rsqrt(v)",
        ),
        ("", "tl.math.exp2(v)"),
        ("", "v + triton.cdiv(BLOCK, 3) + triton.next_power_of_2(BLOCK - 1)"),
        ("", "tl.where(i < tl.cdiv(BLOCK, 2), tl.sigmoid(v), tl.sum(v, axis=0))"),
        ("T = tl.float32", "v.to(T) + v.to(tl.float16)"),
        ("@triton.jit\ndef g(a, b: tl.constexpr = 3):\n    return a * b", "g(v) + g(v, 2)"),
        ("@triton.jit\ndef g(a, b):\n    return a + b", "tl.reduce(v, 0, g) + v"),
        ("@triton.jit(noinline=True)\ndef g(a):\n    return a + 1", "v + g(1.0)"),
        ("@triton.constexpr_function\ndef g(n):\n    return n.bit_length() + 1", "v * g(BLOCK)"),
        (
            "@triton.constexpr_function\ndef g(n):\n    return (n, tl.float16)\n"
            "@triton.jit\ndef h(v, N: tl.constexpr):\n    return v.to(g(N)[1])",
            "h(v, BLOCK)",
        ),
        ("", "tl.rand(7, i) + v.dtype.primitive_bitwidth + x.dtype.element_ty.itemsize"),
        ("from typing import NamedTuple\nclass P(NamedTuple):\n    a: int", "v + P(2).a"),
    ],
)
def test_what_a_kernel_may_use_compiles_from_the_text(planning, tmp_path, before, expression):
    if "itemsize" in expression:
        expression = expression.replace(" + x.dtype.element_ty.itemsize", "")
    plan = planning.plan(tmp_path, KERNEL % (before, expression), PAIR)
    assert "calls" in plan, plan

    answer = planning.frontend(tmp_path, plan["specialisations"][0])
    assert "tt.store" in answer.get("ttir", ""), answer


@pytest.mark.parametrize(
    ("before", "expression", "message"),
    [
        ("def g(v):\n    return v", "g(v)", "decorate it with @triton.jit"),
        ("import os", "os.getpid()", "the module os"),
        ("W = torch.zeros(3)", "W", "pass it as an argument"),
        ("class C: k = 3", "C.k * v", "name leads to"),
        ("D = {}", "D['a'] * v", "a dict"),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused_at_its_line(
    planning, tmp_path, before, expression, message
):
    text = KERNEL % (before, expression)
    plan = planning.plan(tmp_path, text, PAIR)
    refused = planning.frontend(tmp_path, plan["specialisations"][0]).get("error")

    assert refused and refused["kind"] == "compile_error", refused
    assert message.replace("name leads", "leads") in refused["message"]
    assert text.splitlines()[refused["line"] - 1].strip().startswith("tl.store")


def test_a_member_of_a_sibling_module_that_leads_elsewhere_is_refused(planning, tmp_path):
    (tmp_path / "helpers.py").write_text("def twice(v):\n    return v + v\n")
    plan = planning.plan(tmp_path, KERNEL % ("import helpers", "helpers.twice(v)"), PAIR)
    refused = planning.frontend(tmp_path, plan["specialisations"][0])["error"]

    assert "decorate it with @triton.jit" in refused["message"]


def test_beside_a_constant_what_else_a_module_has_is_refused(planning, tmp_path):
    plan = planning.plan(tmp_path, KERNEL % ("", "torch.exp(v) + torch.inf"), PAIR)
    refused = planning.frontend(tmp_path, plan["specialisations"][0])["error"]

    assert "torch leads to the module torch" in refused["message"]


@pytest.mark.parametrize(
    ("before", "expression"),
    [
        ("i = v = torch.zeros(3)", "v"),  # the kernel has variables of the same names
        ("def g(v): return v", "g(v) if BLOCK == 63 else v"),  # a branch that isn't compiled
    ],
)
def test_a_name_that_leads_elsewhere_and_is_not_used_is_no_matter(
    planning, tmp_path, before, expression
):
    plan = planning.plan(tmp_path, KERNEL % (before, expression), PAIR)
    answer = planning.frontend(tmp_path, plan["specialisations"][0])

    assert "tt.store" in answer.get("ttir", ""), answer


@pytest.mark.parametrize(
    "code",
    [
        "from torch._inductor.runtime.triton_helpers import maximum as k",
        "import triton.language.standard as s\nk = s._sum_combine if hasattr(s, '_sum_combine')"
        " else s.sum",
        "import linecache\nsource = '@triton.jit\\ndef k(x, y):\\n    pass\\n'\n"
        "linecache.cache['made'] = (1, None, source.splitlines(True), 'made')\n"
        "exec(compile(source, 'made', 'exec'))",
    ],
)
def test_a_kernel_from_elsewhere_is_refused_by_name(planning, tmp_path, code):
    text = f"import torch, triton\n{code}\ndef f(x, y):\n    k[(1,)](x, y)\n"
    refused = planning.plan(tmp_path, text, PAIR)

    assert refused.get("type") == "ForeignKernel", refused
    assert refused["line"] == text.count("\n")


def test_a_source_that_is_not_the_texts_is_refused(planning, tmp_path):
    text = HEAD + (
        "copy._unsafe_update_src(copy.src.replace('tl.load', 'tl.abs'))\n"
        "def f(x, y):\n    copy[(1,)](x, y, 100, BLOCK=64)\n"
    )
    refused = planning.plan(tmp_path, text, PAIR)

    assert refused["type"] == "ForeignKernel"
    assert "is not what stands at line 6" in refused["message"]


@pytest.mark.parametrize("blank", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_a_character_that_ends_no_line_of_pythons_may_stand_in_a_kernel(planning, tmp_path, blank):
    text = HEAD.replace("tl.load(", f"tl.load(  # all{blank}at once\n            ", 1)
    assert blank in text
    plan = planning.plan(
        tmp_path, text + "def f(x, y):\n    copy[(1,)](x, y, 100, BLOCK=64)\n", PAIR
    )
    answer = planning.frontend(tmp_path, plan["specialisations"][0])

    assert "tt.store" in answer.get("ttir", ""), answer


@pytest.mark.parametrize("option", ["ir_override='a.ttir'", "extern_libs={'a': 'b'}"])
def test_an_option_that_brings_foreign_code_is_refused(planning, tmp_path, option):
    text = HEAD + f"def f(x, y):\n    copy[(1,)](x, y, 100, BLOCK=64, {option})\n"
    refused = planning.plan(tmp_path, text, PAIR)

    assert refused["code"] == "compile_failed", refused
    assert option.split("=")[0] in refused["message"]


def test_two_functions_of_one_name_keep_their_own_bindings(planning, tmp_path):
    text = """
import triton
import triton.language as tl

def make(n):
    N = tl.constexpr(n)

    @triton.jit
    def add(v):
        return v + N

    return add

one, two = make(17), make(29)

@triton.jit
def kernel(x, y):
    tl.store(y, two(one(tl.load(x))))

def f(x, y):
    kernel[(1,)](x, y)
"""
    plan = planning.plan(tmp_path, text, [tensor(4), tensor(4)])
    ttir = planning.frontend(tmp_path, plan["specialisations"][0])["ttir"]

    assert "1.700000e+01" in ttir
    assert "2.900000e+01" in ttir


def test_a_cuda_graph_is_not_modelled_and_says_so(planning, tmp_path):
    text = "import torch\ndef f(x, y):\n    g = torch.cuda.CUDAGraph()\n"
    refused = planning.plan(tmp_path, text, PAIR)

    assert (refused["code"], refused["line"]) == ("not_modelled", 3)
