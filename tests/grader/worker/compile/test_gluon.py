"""Gluon kernels come from the text as Triton's do: named, not handed over, in a closed world."""

from __future__ import annotations

import base64
import copy
import dataclasses
import json

import pytest
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from grader import plan
from grader.worker.compile import gluon, literals, tuned
from tests.grader.worker.planner.planning import ALLOCATION, tensor
from tests.grader.worker.planner.test_kernels import KERNEL as IN_TRITON
from tests.grader.worker.planner.test_launches import PAIR

KERNEL = """
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
%s
PLAIN = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [0]))

@gluon.jit
def kernel(x, y, BLOCK: gl.constexpr, L: gl.constexpr):
    i = gl.arange(0, BLOCK, layout=L)
    v = gl.load(x + i)
    gl.store(y + i, %s)

def f(x, y):
    layout = gl.BlockedLayout([1], [32], [2], [0])
    kernel[(1,)](x, y, 64, layout, num_warps=2, maxnreg=64, launch_pdl=True)
"""
LINE = 14
HELPER = """
@gluon.jit
def g(v, L: gl.constexpr = gl.constexpr(gl.BlockedLayout([1], [32], [2], [0]))):
    return gl.convert_layout(v, L) * 2
"""
SHARED = """
@gluon.jit
def g(v, LAYOUT: gl.constexpr):
    memory = gl.allocate_shared_memory(v.dtype, [64], PLAIN)
    memory.store(v)
    return memory.load(LAYOUT)
"""
WITH_DESCRIPTOR = """
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

copy_in = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared

@gluon.jit
def loads(desc, memory, full):
    mbarrier.expect(full, desc.block_type.nbytes)
    copy_in(desc, [0, 0], full, memory)

@gluon.jit
def stores(memory, full, y, WARPS: gl.constexpr):
    by_row: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [WARPS, 1], [1, 0])
    mbarrier.wait(full, 0)
    r = gl.arange(0, 64, layout=gl.SliceLayout(1, by_row))
    c = gl.arange(0, 64, layout=gl.SliceLayout(0, by_row))
    gl.store(y + r[:, None] * 64 + c[None, :], memory.load(by_row))

@gluon.jit
def kernel(desc, y):
    memory = gl.allocate_shared_memory(desc.dtype, [64, 64], desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    gl.warp_specialize([(stores, (memory, full, y, 4)), (loads, (desc, memory, full))], [1], [24])

def f(x, y):
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    desc = TensorDescriptor(x, [64, 64], [64, 1], [64, 64], layout)
    kernel[(3,)](desc, y, num_warps=4)
"""
SQUARES = [tensor(64, 64, dtype="float16")] * 2


@pytest.fixture
def specialisation(planning, tmp_path):
    planned = planning.plan(tmp_path, KERNEL % ("", "v"), PAIR)
    return planned["specialisations"][0]


@pytest.mark.parametrize(
    ("before", "expression"),
    [
        ("", "v"),
        (HELPER, "g(v)"),
        (SHARED, "g(v, L)"),
        ("@triton.jit\ndef g(v):\n    return tl.exp(v)", "g(v)"),
        ("W = gl.constexpr(gl.BlockedLayout([2], [32], [2], [0]))", "gl.convert_layout(v, L) + 1"),
        ("@gluon.constexpr_function\ndef g(n):\n    return n + 1", "v * g(BLOCK)"),
        (
            "@gluon.constexpr_function\ndef g(n):\n"
            "    return gl.BlockedLayout([1], [32], [n], [0])",
            "gl.convert_layout(v, g(2))",
        ),
        ("from triton.language.extra import libdevice", "libdevice.tanh(v)"),
        ("", "gl.maximum(v, gl.max(v, axis=0)) + gl.zeros([64], gl.float32, layout=L)"),
        ("", "v + L.size_per_thread[0] + gl.cdiv(BLOCK, 2)"),
        ("zeros = gl.zeros_like", "v + zeros(v)"),
    ],
)
def test_what_a_kernel_may_use_becomes_a_cubin(planning, tmp_path, before, expression):
    planned = planning.plan(tmp_path, KERNEL % (before, expression), PAIR)
    described = planned["specialisations"][0]
    assert described["language"] == "gluon"
    assert described["constants"]["L"]["layout"] == "BlockedLayout"

    text = planning.frontend(tmp_path, described).get("ttir", "")
    assert '"ttg.num-warps" = 2 : i32' in text
    assert "tt.call" not in text

    made = planning.backend(text, described["options"])
    assert base64.b64decode(made["cubin"])[:4] == b"\x7fELF", made
    assert (made["num_warps"], made["descriptors"]) == (2, [])


def test_descriptors_and_warps_of_a_kernel_whose_warps_go_different_ways(planning, tmp_path):
    planned = planning.plan(tmp_path, WITH_DESCRIPTOR, SQUARES)
    (described,), (launch,) = planned["specialisations"], planned["calls"][0]
    assert launch["arguments"][0]["descriptor"]["block"] == [64, 64]

    text = planning.frontend(tmp_path, described)["ttir"]
    made = planning.backend(text, described["options"])
    assert made["num_warps"] == 8  # four, and one in a group of four
    assert [each["block_size"] for each in made["descriptors"]] == [[64, 64]]


@pytest.mark.skipif(
    "round_f32_to_tf32" not in {each.name for each in dataclasses.fields(TensorDescriptor)},
    reason="this Triton has no such descriptors",
)
def test_a_descriptor_that_no_plan_can_name(planning, tmp_path):
    """It isn't passed over in silence: without the rounding it would be another tensor."""
    text = WITH_DESCRIPTOR.replace("gl.float16)", "gl.float32)").replace(
        "[64, 64], layout)", "[64, 64], layout, round_f32_to_tf32=True)"
    )
    refused = planning.plan(tmp_path, text, [tensor(64, 64)] * 2)

    assert refused["code"] == "not_modelled", refused
    assert "round_f32_to_tf32" in refused["message"]


@pytest.mark.parametrize(
    "expression",
    [
        "gl._core.builtins.exec('open(\"/dev/null\")')",
        "gl.__loader__",
        "gl.amd.gfx1250",
        "gl.nvidia.blackwell",
        "gl._unwrap_if_constexpr(v)",
        "gl.load.__wrapped__",
        "gl.load.__globals__",
        "gl.BlockedLayout.mangle",
        "gl.BlockedLayout.__init__",
        "gl.NVMMASharedLayout.get_default_for.fn",
        "L.__class__",
        "L.mangle()",
        "L._to_ir(v)",
        "tma.builtin",
        "tma._unwrap_if_constexpr(v)",
        "mbarrier.math",
        "gluon.jit",
        "open('/dev/null')",
    ],
)
def test_python_beyond_the_language_is_an_error_at_its_line(planning, tmp_path, expression):
    text = KERNEL % ("", expression)
    planned = planning.plan(tmp_path, text, PAIR)
    error = planning.frontend(tmp_path, planned["specialisations"][0])["error"]

    assert error["kind"] == "compile_error"
    assert (error["file"], error["line"]) == ("submission.py", LINE)
    assert expression[:10] in error["excerpt"]


@pytest.mark.parametrize(
    ("before", "expression"),
    [
        ("from triton.experimental.gluon import language as gl", "gl.exp(v)"),
        ("from triton.experimental.gluon.language import zeros_like", "zeros_like(v)"),
        ("from triton.experimental.gluon.language.nvidia.hopper import tma", "tma.store_wait(0)"),
    ],
)
def test_a_kernel_in_triton_gets_nothing_of_gluon(planning, tmp_path, before, expression):
    planned = planning.plan(tmp_path, IN_TRITON % (before, expression), PAIR)
    error = planning.frontend(tmp_path, planned["specialisations"][0])["error"]

    assert "leads to" in error["message"] and "triton.experimental.gluon" in error["message"]
    assert error["line"] == 9


@pytest.mark.parametrize(
    "layout",
    [
        {"layout": "AutoLayout", "x": 1},
        {"layout": "NoLayout"},
        {"layout": "DistributedLayout"},
        {"layout": ["BlockedLayout"]},
        {"layout": "BlockedLayout"},
        {"layout": "SliceLayout", "dim": 0, "parent": "x"},
        {"layout": "SliceLayout", "dim": 0, "parent": {"kernel": {}}},
        {"layout": "SwizzledSharedLayout", "vec": 1.5, "per_phase": 1, "max_phase": 1, "order": []},
        {"layout": "NVMMASharedLayout", "swizzle_byte_width": 7, "element_bitwidth": 16},
        {"layout": "AutoLayout", "__class__": 1},
    ],
)
def test_a_forged_layout_is_refused(planning, tmp_path, specialisation, layout):
    forged = copy.deepcopy(specialisation)
    forged["constants"]["L"] = layout
    error = planning.frontend(tmp_path, forged)["error"]

    assert error["kind"] == "forged", error


def test_a_layout_nested_too_deeply_is_refused(planning, tmp_path, specialisation):
    layout: dict = {"layout": "AutoLayout"}
    for _ in range(50):
        layout = {"layout": "SliceLayout", "dim": 0, "parent": layout}
    specialisation["constants"]["L"] = layout

    assert planning.frontend(tmp_path, specialisation)["error"]["kind"] == "forged"


def test_layouts_are_the_same_after_a_plan():
    blocked = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    mma = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    for layout in (
        blocked,
        mma,
        gl.AutoLayout(),
        gl.SliceLayout(
            1, gl.SliceLayout(0, gl.BlockedLayout([1] * 3, [1, 4, 8], [4, 1, 1], [2, 1, 0]))
        ),
        gl.DotOperandLayout(0, mma, 2),
        gl.DistributedLinearLayout([[0, 1]], [[1, 0]] * 5, [[0, 2]], [], [2, 4]),
        gl.NVMMASharedLayout.get_default_for([64, 64], gl.bfloat16),
        gl.SwizzledSharedLayout(8, 1, 8, [1, 0]),
        gl.constexpr(blocked),
    ):
        again = literals.from_json(literals.to_json(layout))
        plain = getattr(layout, "value", layout)
        assert again == plain and type(again) is type(plain)


def test_a_class_of_the_submissions_own_is_no_layout():
    class Mine(gl.BlockedLayout):
        pass

    assert not gluon.is_layout(Mine([1], [32], [4], [0]))
    with pytest.raises(literals.NotALiteral):
        literals.to_json(Mine([1], [32], [4], [0]))


def test_the_backend_tells_the_language_by_the_text(planning, tmp_path, specialisation):
    text = planning.frontend(tmp_path, specialisation)["ttir"]
    refused = planning.backend(text, {**specialisation["options"], "num_warps": 4})
    assert "for other options" in refused["error"]["message"]

    planned = planning.plan(tmp_path, IN_TRITON % ("", "v"), PAIR)
    (described,) = planned["specialisations"]
    assert described["language"] == "triton"
    text = planning.frontend(tmp_path, described)["ttir"]
    assert planning.backend(text, {"num_warps": 2})["num_warps"] == 2


@pytest.mark.parametrize("language", ["gluon", "triton", "cuda", 3, None])
def test_a_language_that_a_plan_says_of_a_kernel_in_triton(planning, tmp_path, language):
    """It is the submission's own text, whatever it is compiled as."""
    planned = planning.plan(tmp_path, IN_TRITON % ("", "v"), PAIR)
    described = {**planned["specialisations"][0], "language": language}
    answer = planning.frontend(tmp_path, described)

    assert ("error" in answer) == (language == "gluon"), answer


@pytest.mark.parametrize(
    "text", [KERNEL % ("", "v"), IN_TRITON % ("", "v")], ids=["gluon", "triton"]
)
def test_planner_and_grader_name_a_configuration_alike(planning, tmp_path, text):
    """Else a planner's tuner would take one that the compilers have refused."""
    made = planning.plan(tmp_path, text, PAIR)
    known = plan.read(json.dumps(made), [ALLOCATION] * len(PAIR))

    names = [tuned.digest(each) for each in made["specialisations"]]
    assert names == [each.key for each in known.specialisations]
