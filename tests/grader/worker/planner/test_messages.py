"""What a planner says where a launcher can't be planned: sentences for a student."""

from __future__ import annotations

import re

import pytest
import triton.language as tl

from .planning import tensor
from .test_launches import HEAD, PAIR

ENTRY = "def f(x, y):\n    {}\n"
SAYS = {
    "no grid": (
        "copy(x, y, 100, BLOCK=64)",
        "`copy` needs a grid: `copy[(programs,)](...)`",
    ),
    "no constant": ("copy[(1,)](x, y, 100)", "`copy` was launched without BLOCK"),
    "neither of two": ("copy[(1,)](x, y)", "`copy` was launched without n and BLOCK"),
    "a name that it hasn't": (
        "copy[(1,)](x, y, 100, BLOCK=64, blocks=4)",
        "`copy` was launched with blocks, which is neither a parameter of it nor an option of "
        "Triton's",
    ),
    "a grid of floats": (
        "copy[(100 / 64,)](x, y, 100, BLOCK=64)",
        "kernel copy is launched on a grid of (1.5625, 1, 1); each has to be an int",
    ),
    "too many": (
        "copy[(1,)](x, y, 100, 64, 5)",
        "`copy` takes 4 positional arguments but 5 were given",
    ),
}


@pytest.mark.parametrize(("line", "said"), SAYS.values(), ids=SAYS)
def test_a_launch_that_triton_refuses_names_the_kernel(planning, tmp_path, line, said):
    refused = planning.plan(tmp_path, HEAD + ENTRY.format(line), PAIR)

    assert (refused["code"], refused["told"], refused["message"]) == ("raised", True, said)
    assert refused["line"] == HEAD.count("\n") + 2
    assert "dynamic_func" not in refused["detail"] and "LaunchError" not in refused["detail"]


def test_a_tuned_kernel_without_a_grid_is_told_so(planning, tmp_path):
    tuned = "@triton.autotune([triton.Config({'BLOCK': 64})], key=['n'])\n@triton.jit\ndef copy"
    text = HEAD.replace("@triton.jit\ndef copy", tuned) + ENTRY.format("copy(x, y, 100)")
    refused = planning.plan(tmp_path, text, PAIR)

    assert refused["message"] == "`kernel` needs a grid: `kernel[(programs,)](...)`"


def test_an_error_of_the_launchers_own_stays_as_it_is(planning, tmp_path):
    text = "def g(a): pass\n" + ENTRY.format("g()")
    refused = planning.plan(tmp_path, text, PAIR)

    assert refused["told"] is False and refused["type"] == "TypeError"
    assert refused["message"] == "g() missing 1 required positional argument: 'a'"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "torch.cuda.CUDAGraph()",
            r"torch\.cuda\.CUDAGraph",
        ),
        (
            "torch._C._cuda_getCurrentBlasHandle()",
            # torch's build for CPUs lacks it, the other one looks for a driver.
            r"(torch\._C\._cuda_getCurrentBlasHandle|a part of torch that asks the GPU itself .*)",
        ),
    ],
)
def test_what_has_no_counterpart_is_named_without_a_class_of_ours(planning, tmp_path, line, said):
    refused = planning.plan(tmp_path, "import torch\n" + ENTRY.format(line), PAIR)

    assert (refused["code"], refused["told"]) == ("not_modelled", True)
    said = f"without a GPU, {said} can't be judged: launch the kernels directly"
    assert re.fullmatch(said, refused["message"])
    assert "Unsupported" not in refused["detail"]


AGGREGATE = """
import triton, triton.language as tl
from triton.language.core import _aggregate
@_aggregate
class Pair:
    a: tl.tensor
    @triton.constexpr_function
    def __init__(self, a):
        self.a = a
@triton.jit
def copy(x, y):
    tl.store(y, Pair(tl.load(x)).a)
def f(x, y):
    copy[(1,)](x, y)
"""


@pytest.mark.skipif(not hasattr(tl.core, "_aggregate"), reason="this Triton has no aggregates")
def test_an_aggregate_is_not_modelled(planning, tmp_path):
    refused = planning.plan(tmp_path, AGGREGATE, PAIR)
    assert refused["code"] == "not_modelled"
    assert "a class made by triton.aggregate (Pair)" in refused["message"]


GENERATED = """
import importlib.util, tempfile
SOURCE = "import triton\\n@triton.jit\\ndef made(x, y):\\n    pass\\n"
def f(x, y):
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
        file.write(SOURCE)
    spec = importlib.util.spec_from_file_location("gen", file.name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.made[(1,)](x, y)
"""


def test_a_generated_kernel_is_told_the_same_each_time(planning, tmp_path):
    refused = [planning.plan(tmp_path, GENERATED, PAIR)["message"] for _ in range(2)]

    assert refused == 2 * [
        "`made` was generated while the launcher ran (tmp….py): put its source in a file that you "
        "hand in"
    ]


def test_a_kernel_of_a_library_is_told_by_its_module(planning, tmp_path):
    text = HEAD + "from triton.tools.ragged_tma import load_ragged as lib\n"
    text += "def f(x, y):\n    lib[(1,)](x, 1, 1, (0,))\n"
    refused = planning.plan(tmp_path, text, PAIR)

    assert refused["message"].startswith("`load_ragged` comes from triton.tools.ragged_tma, not ")


UNREADABLE = {
    "latin-1 in a comment": (
        HEAD.encode() + b"# caf\xe9\n",
        "submission.py is not UTF-8: byte 0xe9 in line 10",
        10,
    ),
    "utf-16": (
        "x = 1\n".encode("utf-16"),
        "submission.py is saved as UTF-16: save it as UTF-8",
        None,
    ),
    "utf-16 unmarked": (
        "x = 1\n".encode("utf-16-be"),
        "submission.py is saved as UTF-16: save it as UTF-8",
        None,
    ),
    "not what it declares": (
        b"# coding: ascii\nx = '\xe9'\n",
        "submission.py is not ascii: byte 0xe9 in line 2",
        2,
    ),
    "too deep": (
        b"x = 1\ny = " + b"+".join([b"x"] * 20_000) + b"\nz = (1,\n     2)\n",
        "an expression in submission.py is nested too deeply for Python to compile",
        2,
    ),
}


@pytest.mark.parametrize(("data", "said", "line"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_file_that_python_can_not_read_is_told_with_its_line(
    planning, tmp_path, data, said, line
):
    refused = planning.plan(tmp_path, data, PAIR)

    assert (refused["code"], refused["message"]) == ("import_failed", said)
    assert refused["line"] == line


def test_a_sibling_that_is_no_utf_8_is_named(planning, tmp_path):
    (tmp_path / "kernels.py").write_bytes(HEAD.encode() + b"# caf\xe9\n")
    refused = planning.plan(tmp_path, "import kernels\ndef f(x, y): pass\n", PAIR)

    assert refused["message"] == "kernels.py is not UTF-8: byte 0xe9 in line 10"


@pytest.mark.parametrize("head", [b"# coding: latin-1\n", b"\n# vim: set fileencoding=cp1252 :\n"])
def test_a_declared_encoding_is_read(planning, tmp_path, head):
    data = head + b"def f(x, y):\n    y.copy_(x)  # caf\xe9\n"

    assert "calls" in planning.plan(tmp_path, data, PAIR)


@pytest.mark.parametrize(
    ("text", "returned"),
    [
        ("def f(x, y): return x.clone()", "a tensor of shape [100], float32"),
        ("def f(x, y): return y", ""),
        ("def f(x, y): pass", ""),
        ("def f(x, y): return 5", "a int"),
        ("async def f(x, y): pass", "a coroutine"),
        ("def f(x, y): yield", "a generator"),
    ],
)
def test_a_plan_says_what_the_entry_gave_back(planning, tmp_path, text, returned):
    plan = planning.plan(tmp_path, text + "\n", [tensor(100), tensor(100)])

    assert plan["returned"] == returned


def test_a_limit_says_what_to_do_instead(planning, tmp_path):
    text = HEAD + ENTRY.format("for i in range(5000): copy[(1,)](x, y, 100, BLOCK=64)")
    refused = planning.plan(tmp_path, text, PAIR)

    assert refused["message"] == "the launcher makes more than 4,096 launches in one call"
    assert refused["instead"] == "Give the kernel a grid instead of looping over launches."
