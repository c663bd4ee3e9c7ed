"""The frontend believes nothing of a specialisation, and runs nothing of the text."""

from __future__ import annotations

import copy
import hashlib

import pytest
import triton.language as tl

from grader.worker.compile import textual
from grader.worker.compile.source import SourceFolder
from tests.grader.worker.planner.planning import tensor
from tests.grader.worker.planner.test_kernels import KERNEL
from tests.grader.worker.planner.test_launches import PAIR


@pytest.fixture(scope="module")
def planned(planning, tmp_path_factory):
    return planning.plan(tmp_path_factory.mktemp("kernel"), KERNEL % ("", "v"), PAIR)


@pytest.fixture
def specialisation(planned, tmp_path):
    (tmp_path / "submission.py").write_text(KERNEL % ("", "v"))
    return copy.deepcopy(planned["specialisations"][0])


@pytest.mark.parametrize(
    "expression",
    [
        "tl.core.builtins.exec('open(\"/dev/null\")')",
        "tl.__loader__",
        "tl.__dict__['load'](x)",
        "v.__class__",
        "tl.load.__globals__",
        "getattr(tl, 'load')(x)",
        "kernel.fn",
        "kernel.run(grid=(1,), warmup=True)",
        "kernel.cache_key",
        "tl.core.inspect",
        "tl.standard.core.builtins",
        "tl.semantic",
        "(1).__class__",
        "tl.constexpr.__init__",
        "math.__loader__",
        "math.log.__self__",
        "triton.runtime",
        "'{0.__globals__}'.format(kernel)",
        "'{x.fn}'.format_map({'x': kernel})",
        "''.join.__self__",
        "__builtins__",
        "__name__",
        "open('/dev/null')",
        "eval('1')",
    ],
)
def test_python_beyond_the_language_is_an_error_at_its_line(
    planning, tmp_path, specialisation, expression
):
    text = KERNEL % ("", expression)
    (tmp_path / "submission.py").write_text(text)
    planted = planning.ask({"do": "reference", "folder": str(tmp_path), "line": 6})
    forged = {**specialisation, **planted}
    forged["bindings"] = {
        "tl": {"module": "triton.language"},
        "math": {"module": "math"},
        "triton": {"module": "triton"},
        "kernel": {"kernel": {**planted, "bindings": {}}},
    }
    answer = planning.frontend(tmp_path, forged)

    assert "error" in answer, answer
    assert answer["error"]["kind"] == "compile_error"
    assert answer["error"]["line"] == 9
    assert answer["error"]["file"] == "submission.py"
    assert expression[:10] in answer["error"]["excerpt"]


def test_decorators_defaults_and_annotations_are_not_executed(planning, tmp_path):
    text = """
import triton
import triton.language as tl
from pathlib import Path

@(lambda k: k)
@triton.jit
def kernel(x, y: Path.home() if 0 else "*fp32", B: tl.constexpr = 1 + 1) -> 1 / 1:
    tl.store(y, tl.load(x) + B)

def f(x, y):
    kernel[(1,)](x, y)
"""
    plan = planning.plan(tmp_path, text, PAIR)
    poisoned = text.replace("1 + 1", "1 // 0").replace("1 / 1", "1 / 0")
    poisoned = poisoned.replace("Path.home() if 0 else ", "1 // 0 or ").replace("k: k", "k: 1 // 0")
    (tmp_path / "submission.py").write_text(poisoned)
    described = plan["specialisations"][0]
    planted = planning.ask({"do": "reference", "folder": str(tmp_path), "line": described["line"]})
    answer = planning.frontend(tmp_path, {**described, **planted})

    assert "tt.store" in answer.get("ttir", ""), answer


@pytest.mark.parametrize(
    "change",
    [
        {"hash": "0" * 64},
        {"hash": None},
        {"file": "../../etc/passwd"},
        {"file": "/etc/passwd"},
        {"file": "none.py"},
        {"line": 3},
        {"line": "7"},
        {"bindings": {"tl": {"module": "os"}}},
        {"bindings": {"tl": {"language": "triton.language.core.builtins"}}},
        {"bindings": {"tl": {"language": "os.system"}}},
        {"bindings": {"tl": {"members": {"x": {"module": "sys"}}}}},
        {"bindings": {"tl": [1]}},
        {"signature": {"x": "*fp32"}},
        {"signature": None},
        {"constants": {"BLOCK": {"python": "1"}}},
        {"constants": {"BLOCKS": 1}},
        {"options": {"ir_override": "a.ttir"}},
        {"options": {"extern_libs": {"a": "b"}}},
        {"options": {"ptx_options": "-v"}},
        {"options": {"num_warps": "4"}},
        {"options": {"num_warps": 3}},
        {"options": [1]},
    ],
)
def test_a_forged_specialisation_is_refused(planning, tmp_path, specialisation, change):
    forged = {**copy.deepcopy(specialisation), **change}
    answer = planning.frontend(tmp_path, forged)

    assert set(answer) == {"error"}, answer
    assert answer["error"]["message"]
    assert answer["error"]["kind"] in ("forged", "compile_error")


@pytest.mark.parametrize(
    "forged",
    [
        "tensordesc<fp32[64],NVMMASharedLayout(0,{})>",
        "tensordesc<fp32[64],NVMMASharedLayout(swizzle_byte_width={})>",
        "tensordesc<fp32[64],{}>",
        "*tensordesc<fp32[64],{}>",
        {"tuple": ["i32", "tensordesc<fp32[64],{}>"]},
    ],
)
def test_a_layout_in_a_type_is_not_run_as_python(planning, tmp_path, specialisation, forged):
    """Triton's frontend evaluates it."""
    ran = tmp_path / "ran"
    expression = f"open('{ran}','w').write('8')"
    if isinstance(forged, str):
        planted = forged.format(expression)
    else:
        planted = {"tuple": [each.format(expression) for each in forged["tuple"]]}
    described = {**specialisation, "signature": {**specialisation["signature"], "x": planted}}
    answer = planning.frontend(tmp_path, described)

    assert not ran.exists()
    assert answer["error"]["kind"] == "forged"


def test_a_files_name_can_t_end_a_text_of_the_compilers(planning, tmp_path, specialisation):
    """It stands in TTIR's locations and in the assembler's text."""
    for name in ('a" } module { .py', "a\\.py", "a\n.py", "a'.py"):
        (tmp_path / name).write_text((tmp_path / "submission.py").read_text())
        answer = planning.frontend(tmp_path, {**specialisation, "file": name})
        assert "needs a name of letters" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("v + undefined", "undefined is not defined"),
        pytest.param(
            "tl.make_block_ptr(x, (1,), (1,), (0,), (1,), (0,))",
            "has no block pointers",
            marks=pytest.mark.skipif(hasattr(tl, "advance"), reason="this Triton still has them"),
        ),
        ("tl.exp(v.to(tl.int32))", "Expected dtype"),
        ("[a for a in v]", ""),
        ("tl.arange(0, 65)", "power of 2"),
        ("tl.extra.cuda.libdevice.tanh(v.to(tl.float16))", "libdevice takes no (tl.float16): conv"),
        ("tl.extra.cuda.libdevice.pow(2.0, v.to(tl.int16))", "takes no (tl.float32, tl.int16): "),
    ],
)
def test_a_mistake_is_explained_at_its_line(planning, tmp_path, expression, message):
    plan = planning.plan(tmp_path, KERNEL % ("", expression), PAIR)
    error = planning.frontend(tmp_path, plan["specialisations"][0])["error"]

    assert message in error["message"], error
    assert error["line"] == 9
    assert error["excerpt"].startswith("tl.store(y + i")


def test_a_mistake_in_a_helper_is_at_the_helpers_line(planning, tmp_path):
    before = "@triton.jit\ndef g(a):\n    return tl.dot(a, a)"
    plan = planning.plan(tmp_path, KERNEL % (before, "g(v)"), PAIR)
    error = planning.frontend(tmp_path, plan["specialisations"][0])["error"]

    assert error["line"] == 6
    assert "tl.dot(a, a)" in error["excerpt"]


def test_a_block_for_a_function_without_inlining_is_explained(planning, tmp_path):
    before = "@triton.jit(noinline=True)\ndef g(a):\n    return a"
    plan = planning.plan(tmp_path, KERNEL % (before, "g(v)"), PAIR)
    error = planning.frontend(tmp_path, plan["specialisations"][0])["error"]

    assert "is marked noinline, but was called with non-scalar argument" in error["message"]


def test_a_name_that_triton_does_not_take_is_named(planning, tmp_path):
    text = (KERNEL % ("", "v")).replace("kernel", "kërnel")
    plan = planning.plan(tmp_path, text, PAIR)
    error = planning.frontend(tmp_path, plan["specialisations"][0])["error"]

    assert error["message"] == "invalid function identifier: kërnel"


def test_static_assert_is_what_an_autotuner_skips(planning, tmp_path):
    text = KERNEL % ("", "v")
    text = text.replace("    i =", "    tl.static_assert(BLOCK < 64, 'too big')\n    i =")
    plan = planning.plan(tmp_path, text, PAIR)
    error = planning.frontend(tmp_path, plan["specialisations"][0])["error"]

    assert error["autotuner_skips"]
    assert "too big" in error["message"]


def test_lines_of_operations_are_those_of_the_file(planning, tmp_path, specialisation):
    ttir = planning.frontend(tmp_path, specialisation)["ttir"]

    assert 'submission.py":8:' in ttir  # the load
    assert 'submission.py":9:' in ttir  # the store


def test_text_in_another_encoding(planning, tmp_path):
    text = "# -*- coding: latin-1 -*-" + (KERNEL % ("", "v")).replace(
        "import math", "é = 1\nimport math"
    )
    path = tmp_path / "submission.py"
    path.write_bytes(text.encode("latin-1"))
    job = {"path": str(path), "entry": "f", "folder": str(tmp_path), "arguments": [tensor(64)] * 2}
    plan = planning.ask({"do": "plan", **job})

    assert "ttir" in planning.frontend(tmp_path, plan["specialisations"][0])


def test_a_text_is_parsed_once_and_each_specialisation_has_its_own_defaults(tmp_path):
    text = "def kernel(x, n: tl.constexpr = 4, *, last=None):\n    tl.store(x, n)\n"
    (tmp_path / "submission.py").write_text(text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    reference = {"file": "submission.py", "line": 1, "hash": digest}
    made = [
        textual.Namespace(SourceFolder(str(tmp_path))).kernel({**reference, "defaults": given})
        for given in ({"n": 8, "last": 1}, {"n": 16, "last": 2})
    ]
    assert made[0].parse() is made[1].parse()
    assert [each.fn.__defaults__ for each in made] == [(8,), (16,)]
    assert [each.fn.__kwdefaults__ for each in made] == [{"last": 1}, {"last": 2}]
    assert made[0].__globals__ is not made[1].__globals__
