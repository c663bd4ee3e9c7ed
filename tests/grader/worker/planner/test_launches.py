"""Launches in a plan: arguments, addresses, specialisation, options, grids."""

from __future__ import annotations

import struct

import pytest

from grader.worker.compile.tuned import digest

from .planning import steps, tensor

HEAD = """
import torch, triton
import triton.language as tl

@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)

"""
PAIR = [tensor(100), tensor(100)]


def test_a_launch_names_its_buffers_and_scalars(planning, tmp_path):
    text = HEAD + "def f(x, y):\n    copy[(2,)](x, y, x.numel(), BLOCK=64, num_warps=2)\n"
    plan = planning.plan(tmp_path, text, PAIR)

    (launch,) = steps(plan, "launch")
    assert launch["grid"] == [2, 1, 1]
    assert launch["line"] == text.count("\n")
    assert launch["arguments"] == [
        {"pointer": [0, 4096]},
        {"pointer": [1, 4096]},
        {"scalar": struct.pack("<i", 100).hex(), "type": "i32"},
    ]
    (described,) = plan["specialisations"]
    assert described["function"] == "copy"
    assert described["line"] == 6
    assert described["signature"] == {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    assert described["constants"] == {"BLOCK": 64}
    assert described["options"] == {"num_warps": 2}
    assert described["bindings"] == {"tl": {"module": "triton.language"}}
    assert steps(plan, "launch", call=1) == [launch]


def test_pointers_are_specialised_on_their_true_alignment(planning, tmp_path):
    text = HEAD + "def f(x, y):\n    copy[(1,)](x, y[1:], 64, BLOCK=64)\n"
    plan = planning.plan(tmp_path, text, [tensor(100, offset=4), tensor(100)])

    assert plan["specialisations"][0]["attributes"] == {"n": {"divisibility": 16}}
    assert steps(plan, "launch")[0]["arguments"][1] == {"pointer": [1, 4100]}


def test_one_is_a_constant_and_none_is_one(planning, tmp_path):
    text = HEAD.replace("x, y, n, BLOCK", "x, y, n, bias, BLOCK")
    text += "def f(x, y):\n    copy[(1,)](x, y, 1, None, BLOCK=64)\n"
    plan = planning.plan(tmp_path, text, PAIR)

    assert plan["specialisations"][0]["constants"] == {"n": 1, "bias": None, "BLOCK": 64}
    assert len(steps(plan, "launch")[0]["arguments"]) == 2


@pytest.mark.parametrize(
    ("value", "kind", "data"),
    [
        ("True", "u1", "01"),
        ("2.5", "fp32", struct.pack("<f", 2.5).hex()),
        ("3 * 2**39", "i64", struct.pack("<q", 3 * 2**39).hex()),
        ("2**63", "u64", struct.pack("<Q", 2**63).hex()),
        ("-7", "i32", struct.pack("<i", -7).hex()),
        ("float('inf')", "fp32", struct.pack("<f", float("inf")).hex()),
    ],
)
def test_scalars_have_the_types_that_triton_gives_them(planning, tmp_path, value, kind, data):
    text = HEAD + f"def f(x, y):\n    copy[(1,)](x, y, {value}, BLOCK=64)\n"
    plan = planning.plan(tmp_path, text, PAIR)

    assert steps(plan, "launch")[0]["arguments"][2] == {"scalar": data, "type": kind}


def test_an_address_passed_as_a_number_stays_a_pointer(planning, tmp_path):
    text = HEAD + "def f(x, y):\n    copy[(1,)](x, y, y.data_ptr() + 8, BLOCK=64)\n"
    plan = planning.plan(tmp_path, text, PAIR)

    assert steps(plan, "launch")[0]["arguments"][2] == {"pointer": [1, 4104]}


def test_tuples_dtypes_and_kernels_as_constants(planning, tmp_path):
    text = (
        HEAD
        + """
@triton.jit
def twice(v):
    return v + v

@triton.jit
def tupled(pair, y, D: tl.constexpr, OP: tl.constexpr, SHAPE: tl.constexpr):
    i = tl.arange(0, SHAPE[0])
    tl.store(y + i, OP(tl.load(pair[0] + i).to(D)) + pair[1])

def f(x, y):
    tupled[(1,)]((x, 5), y, tl.float32, twice, (32, 2))
"""
    )
    plan = planning.plan(tmp_path, text, PAIR)

    (described,) = plan["specialisations"]
    assert described["signature"]["pair"] == {"tuple": ["*fp32", "i32"]}
    assert described["constants"]["D"] == {"dtype": "fp32"}
    assert described["constants"]["OP"]["kernel"]["function"] == "twice"
    assert described["constants"]["SHAPE"] == {"tuple": [32, 2]}
    assert [list(each) for each in steps(plan, "launch")[0]["arguments"]] == [
        ["pointer"],
        ["scalar", "type"],
        ["pointer"],
    ]
    assert "tt.store" in planning.frontend(tmp_path, described)["ttir"]


def test_a_tensor_descriptor_of_the_host(planning, tmp_path):
    text = """
import torch, triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

@triton.jit
def copy(a, b):
    b.store([0, 0], a.load([0, 0]))

def f(x, y):
    copy[(1,)](TensorDescriptor.from_tensor(x, [8, 32]), TensorDescriptor.from_tensor(y, [8, 32]))
"""
    plan = planning.plan(tmp_path, text, [tensor(16, 64, dtype="float16")] * 2)

    argument = steps(plan, "launch")[0]["arguments"][0]["descriptor"]
    assert argument == {
        "buffer": 0,
        "offset": 2048,
        "dtype": "float16",
        "shape": [16, 64],
        "strides": [64, 1],
        "block": [8, 32],
        "padding": "zero",
    }
    assert "tensordesc" in planning.frontend(tmp_path, plan["specialisations"][0])["ttir"]


def test_grids_that_are_functions_and_helpers(planning, tmp_path):
    text = HEAD + (
        "def f(x, y):\n"
        "    BLOCK = triton.next_power_of_2(x.shape[0])\n"
        "    copy[lambda m: (triton.cdiv(x.numel(), m['BLOCK']), 3)](x, y, 100, BLOCK=BLOCK)\n"
    )
    plan = planning.plan(tmp_path, text, PAIR)

    assert steps(plan, "launch")[0]["grid"] == [1, 3, 1]


def test_a_grid_of_none_is_not_launched_and_one_too_large_is_refused(planning, tmp_path):
    text = HEAD + "def f(x, y):\n    copy[(0,)](x, y, 100, BLOCK=64)\n"
    assert steps(planning.plan(tmp_path, text, PAIR), "launch") == []

    text = HEAD + "def f(x, y):\n    copy[(1, 65536)](x, y, 100, BLOCK=64)\n"
    refused = planning.plan(tmp_path, text, PAIR)
    assert refused["code"] == "raised"
    assert "65,536 programs in y" in refused["message"]


@pytest.mark.parametrize("warps", [4, 8])
def test_a_cooperative_grid_fits_on_the_device_at_once(planning, tmp_path, warps):
    room = 132 * 2048 // (32 * warps)
    cooperative = f"BLOCK=64, num_warps={warps}, launch_cooperative_grid=True"
    text = HEAD + f"def f(x, y):\n    copy[({room},)](x, y, 100, {cooperative})\n"
    assert steps(planning.plan(tmp_path, text, PAIR), "launch")[0]["cooperative"]

    refused = planning.plan(tmp_path, text.replace(f"{room},", f"{room}, 2"), PAIR)
    assert refused["type"] == "GridTooLarge"
    assert f"{2 * room:,} programs; {room:,} of {warps} warps fit" in refused["message"]


def test_a_tensor_of_the_host_is_refused_as_triton_does(planning, tmp_path):
    text = HEAD + "def f(x, y):\n    copy[(1,)](torch.zeros(4), y, 100, BLOCK=64)\n"
    refused = planning.plan(tmp_path, text, PAIR)

    assert refused["type"] == "ValueError"
    assert "cpu tensor?" in refused["message"]


def test_heuristics_and_positional_options(planning, tmp_path):
    text = HEAD.replace(
        "@triton.jit", "@triton.heuristics({'BLOCK': lambda a: 2 * a['n']})\n@triton.jit"
    )
    text += "def f(x, y):\n    copy[(1,)](x, y, 64)\n"
    plan = planning.plan(tmp_path, text, PAIR)

    assert plan["specialisations"][0]["constants"] == {"BLOCK": 128}
    assert plan["specialisations"][0]["line"] == 7


def test_autotune_tries_each_configuration_once_and_takes_the_first(planning, tmp_path):
    text = HEAD.replace(
        "@triton.jit",
        "@triton.autotune([triton.Config({'BLOCK': b}, num_warps=w) for b, w in "
        "((32, 64), (64, 1), (128, 2))], key=['n'], reset_to_zero=['y'])\n@triton.jit",
    )
    text += "def f(x, y):\n    copy[lambda m: (triton.cdiv(100, m['BLOCK']),)](x, y, 100)\n"
    plan = planning.plan(tmp_path, text, PAIR)

    assert blocks(plan) == [32, 64, 128, 32]  # that 64 warps are too many, compilers say
    assert len({each["trial"] for each in steps(plan, "launch")[:-1]}) == 1
    assert [each["trial"] for each in steps(plan, "launch", call=1)] == [-1]
    assert steps(plan, "fill")

    without = planning.plan(tmp_path, text, PAIR, passed_over=[digest(plan["specialisations"][0])])
    assert blocks(without) == [32, 64, 128, 64]
    assert blocks(without, call=1) == [64]

    keys = [digest(each) for each in plan["specialisations"]]
    assert blocks(planning.plan(tmp_path, text, PAIR, passed_over=keys))[-1] == 32


def blocks(plan: dict, call: int = 0) -> list[int]:
    """BLOCK of each launch; the last one is no trial."""
    launches = steps(plan, "launch", call)
    assert [each["trial"] >= 0 for each in launches] == [True] * (len(launches) - 1) + [False]
    numbers = [each["specialisation"] for each in launches]
    return [plan["specialisations"][each]["constants"]["BLOCK"] for each in numbers]


def test_do_bench_gives_no_times_and_says_so(planning, tmp_path):
    text = HEAD + (
        "def f(x, y):\n"
        "    ms = triton.testing.do_bench(lambda: copy[(1,)](x, y, 100, BLOCK=64))\n"
        "    copy[(1,)](x, y, 100, BLOCK=128)\n"
    )
    plan = planning.plan(tmp_path, text, PAIR)

    assert [each["trial"] >= 0 for each in steps(plan, "launch")] == [True, False]
    assert "use triton.autotune" in plan["printed"]


def test_metadata_of_a_kernel_is_the_cubins(planning, tmp_path):
    text = HEAD + (
        "def f(x, y):\n"
        "    k = copy.warmup(x, y, 100, BLOCK=64, num_warps=2, grid=(1,))\n"
        "    k._init_handles()\n"
        "    props = triton.runtime.driver.active.utils.get_device_properties(0)\n"
        "    print(k.n_regs > 4, k.metadata.shared, k.metadata.num_warps, k.n_spills)\n"
        "    print('tt.store' in k.asm['ttir'], '.entry' in k.asm['ptx'], k.asm['cubin'][:4])\n"
        "    k[(props['multiprocessor_count'], 1, 1)](x, y, 100, 64)\n"
    )
    plan = planning.plan(tmp_path, text, PAIR)

    assert plan["printed"].splitlines()[:2] == ["True 0 2 0", r"True True b'\x7fELF'"]
    assert steps(plan, "launch")[0]["grid"] == [132, 1, 1]


def test_a_factory_of_kernels_and_a_sibling_module(planning, tmp_path):
    (tmp_path / "helpers.py").write_text(
        "import triton\nimport triton.language as tl\nBASE = tl.constexpr(3)\n\n"
        "@triton.jit\ndef scaled(v, BY: tl.constexpr = 2):\n    return v * BY + BASE\n"
    )
    text = """
import torch, triton
import triton.language as tl
import helpers
from helpers import scaled as by_name

def make(factor):
    FACTOR = tl.constexpr(factor)

    @triton.jit
    def kernel(x, y, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(y + i, helpers.scaled(tl.load(x + i)) * FACTOR + by_name(1.0))

    return kernel

kernels = {2: make(2), 3: make(3)}

def f(x, y):
    for kernel in kernels.values():
        kernel[(1,)](x, y, 64)
"""
    plan = planning.plan(tmp_path, text, PAIR)

    first, second = plan["specialisations"]
    assert first["bindings"]["FACTOR"] == {"constexpr": 2}
    assert second["bindings"]["FACTOR"] == {"constexpr": 3}
    assert first["hash"] == second["hash"]
    helper = first["bindings"]["helpers"]["members"]["scaled"]["kernel"]
    assert helper["file"] == "helpers.py"
    assert helper["bindings"] == {"BASE": {"constexpr": 3}}
    assert "ttir" in planning.frontend(tmp_path, first), planning.frontend(tmp_path, first)
