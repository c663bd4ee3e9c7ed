"""The rules on submission source: every way around them is refused, every honest file passes."""

from __future__ import annotations

import ast
import random
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grader.calibration import corpus
from grader.policy import RULES, Rules, Violation, check
from grader.policy.state import MAX_STEPS

STYLES = sorted((corpus.FOLDER / "honest" / "styles").glob("*.py"))
REFERENCES = sorted(p for p in corpus.REFERENCE.glob("*.py") if p.stem != "oracles")
ASSIGNMENT = sorted((corpus.ROOT / "assignment").glob("*.py"))

HEAD = """import torch
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x * tl.sigmoid(x), mask=offs < n)


"""


def submission(body: str, top: str = "") -> str:
    """A file whose entry is `body`, below `top`."""
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{HEAD}{top}\n\ndef silu(x, out):\n{lines}"


def rules_broken(body: str, top: str = "", rules: Rules | None = None) -> list[str]:
    return [violation.rule for violation in check(submission(body, top), "silu", rules or Rules())]


EVASIONS: dict[str, tuple[str, str]] = {}


def evades(name: str, rule: str, body: str = "", *, top: str = "", whole: str = "") -> None:
    """One way around `rule`."""
    assert name not in EVASIONS
    EVASIONS[name] = (rule, whole or submission(body, top))


# PyTorch computes, copies, converts or reads
evades("function", "torch", "torch.mul(x, 2, out=out)")
evades("functional", "torch", "out.copy_(torch.nn.functional.silu(x))")
evades("alias_of_functional", "torch", "F.silu(x)", top="import torch.nn.functional as F")
evades("functional_named_lang", "torch", "lang.silu(x)", top="import torch.nn.functional as lang")
evades("tl_is_functional", "torch", "tl.silu(x)", top="import torch.nn.functional as tl")
evades("from_torch_nn_as_tl", "torch", "tl.functional.silu(x)", top="from torch import nn as tl")
evades("from_torch_function", "torch", "matmul(x, x)", top="from torch import matmul")
evades("renamed_torch", "torch", "t.mul(x, 2)", top="import torch as t")
evades("renamed_twice", "torch", "u.mul(x, 2)", top="u = torch")
evades("alias_at_top", "torch", "f(x)", top="f = torch.nn.functional.silu")
evades("alias_in_tuple", "torch", "g(x)", top="g, h = torch.mul, torch.add")
evades("alias_in_dict", "torch", "OPS['s'](x)", top="OPS = {'s': torch.nn.functional.silu}")
evades("walrus", "torch", "(f := torch.mul)(x, 2)")
evades(
    "default_argument",
    "torch",
    "helper(x)",
    top=("def helper(x, f=torch.mul):\n    return f(x, 2)"),
)
evades("lambda_at_top", "torch", "f(x)", top="f = lambda v: v * torch.sigmoid(v)")
evades("lambda_operator", "torch", "f(x)", top="f = lambda v: v * v")
evades("comprehension", "torch", "[f(x) for f in (torch.exp,)]")
evades("star_arguments", "torch", "helper(*(x, out))", top=("def helper(a, b):\n    b.copy_(a)"))
evades("star_operator", "torch", "helper(*(x, out))", top=("def helper(a, b):\n    return a * b"))
evades("keyword_operator", "torch", "helper(**{'a': x})", top=("def helper(a):\n    return a * 2"))
evades(
    "decorator_compile", "torch", "helper(x)", top=("@torch.compile\ndef helper(x):\n    return x")
)
evades("unbound_method", "torch", "torch.Tensor.mul(x, 2)")
evades("ops", "torch", "torch.ops.aten.mul(x, 2)")
evades("method", "torch", "x.mul(2)")
evades("in_place_method", "torch", "x.mul_(2)")
evades("method_of_view", "torch", "x.view(-1).sigmoid()")
evades("method_of_container", "torch", "[x, out][0].sigmoid()")
evades("copy", "torch", "out.copy_(x)")
evades("copy_of_transposed", "torch", "out.copy_(torch.empty_strided((2, 2), (1, 2)))")
evades("transposed", "torch", "x.t()")
evades("transposed_attribute", "torch", "x.T")
evades("contiguous_part", "torch", "x[:, 0].contiguous()")
evades("permute_function", "torch", "torch.permute(x, (1, 0))")
evades("as_strided", "torch", "x.as_strided((2, 2), (1, 2))")
evades("data_of_out", "torch", "out.data[:] = 1")
evades("plus", "torch", "x + 1")
evades("matmul", "torch", "x @ x")
evades("minus", "torch", "y = -x")
evades("power", "torch", "1 / (1 + 2.718 ** x)")
evades("compare", "torch", "x > 0")
evades("augmented", "torch", "x *= 2")
evades("augmented_part", "torch", "out[0] += 1")
evades("setitem", "torch", "out[:] = 1")
evades("setitem_element", "torch", "out[0] = 1")
evades("setitem_in_helper", "torch", "helper(out)", top=("def helper(o):\n    o[...] = 0.5"))
evades("gather", "torch", "x[x]")
evades("sum_builtin", "torch", "sum([x, x])")
evades("max_builtin", "torch", "max(x, out)")
evades("float_builtin", "torch", "float(x[0])")
evades("math_of_element", "torch", "math.exp(x[0])", top="import math")
evades("cdiv_of_tensor", "torch", "triton.cdiv(x, 2)")
evades("constexpr_of_tensor", "torch", "(tl.constexpr(x) + tl.constexpr(x)).value")
evades("item", "torch", "x.item()")
evades("tolist", "torch", "[v for v in x.tolist()]")
evades("numpy_method", "torch", "x.numpy()")
evades("truth", "torch", ("if x[0]:\n    pass"))
evades("not", "torch", "not x")
evades("or", "torch", "x or out")
evades("format_value", "torch", "float(f'{x[0]:.9f}')")
evades("str_format_value", "torch", "'{}'.format(x)")
evades("percent_value", "torch", "'%f' % (x[0],)")
evades("torch_tensor_of_tensor", "torch", "torch.full((3,), x[0])")
evades("map_lambda", "torch", "list(map(lambda v: v + v, [x]))")
evades("reduce", "torch", "functools.reduce(lambda a, b: a + b, [x, x])", top="import functools")
evades(
    "partial",
    "torch",
    "functools.partial(helper, 2)(x)",
    top=("import functools\ndef helper(n, v):\n    return v * n"),
)
evades(
    "partial_of_method",
    "torch",
    "functools.partial(torch.Tensor.mul, x)(2)",
    top="import functools",
)
evades("nested_function", "torch", ("def inner():\n    return x * 2\ninner()"))
evades("nonlocal", "torch", ("y = 1\ndef inner():\n    nonlocal y\n    y = x\ninner()\ny + 1"))
evades(
    "global",
    "torch",
    ("global kept\nkept = x\nhelper()"),
    top=("kept = None\ndef helper():\n    return kept + 1"),
)
evades("closure", "torch", "return helper(x)()", top=("def helper(v):\n    return lambda: v + 1"))
evades(
    "generator", "torch", ("for v in helper(x):\n    v + 1"), top=("def helper(v):\n    yield v")
)
evades("async", "torch", "helper(x)", top=("async def helper(v):\n    return v + 1"))
evades(
    "attribute_of_object",
    "torch",
    ("h = Holder(x)\nh.x + 1"),
    top=("class Holder:\n    def __init__(self, x):\n        self.x = x"),
)
evades(
    "method_of_object",
    "torch",
    "Holder().run(x)",
    top=("class Holder:\n    def run(self, v):\n        return v + 1"),
)
evades(
    "static_method",
    "torch",
    "Holder.run(x)",
    top=("class Holder:\n    @staticmethod\n    def run(v):\n        return v + 1"),
)
evades(
    "property",
    "torch",
    "Holder(x).y",
    top=(
        "class Holder:\n"
        "    def __init__(self, x):\n"
        "        self.x = x\n"
        "    @property\n"
        "    def y(self):\n"
        "        return self.x + 1"
    ),
)
evades(
    "dataclass",
    "torch",
    ("h = Holder(x)\nh.x + 1"),
    top=("from dataclasses import dataclass\n@dataclass\nclass Holder:\n    x: object"),
)
evades(
    "named_tuple",
    "torch",
    ("h = Holder(x, 1)\na, b = h\na + 1"),
    top=("from typing import NamedTuple\nclass Holder(NamedTuple):\n    x: object\n    n: int"),
)
evades(
    "namedtuple_function",
    "torch",
    ("h = Holder(x)\nh.x + 1"),
    top=("from collections import namedtuple\nHolder = namedtuple('Holder', 'x')"),
)
evades(
    "call_object",
    "torch",
    "Holder()(x)",
    top=("class Holder:\n    def __call__(self, v):\n        return v + 1"),
)
evades("list_append", "torch", ("l = []\nl.append(x)\nl[0] + 1"))
evades("dict_item", "torch", ("d = {}\nd['x'] = x\nd['x'] * 2"))
evades("dict_get", "torch", ("d = {'x': x}\nd.get('x') * 2"))
evades("loop_target", "torch", ("for a in (x, out):\n    a + 1"))
evades(
    "with_item",
    "torch",
    ("with contextlib.nullcontext(x) as y:\n    y + 1"),
    top="import contextlib",
)
evades("zip", "torch", ("for a, b in zip([x], [out]):\n    a + b"))
evades("match_capture", "torch", ("match x:\n    case y:\n        y + 1"))
evades(
    "entry_renamed",
    "torch",
    whole=HEAD + ("def other(x, out):\n    out.copy_(x.sigmoid())\n\n\nsilu = other"),
)
evades("entry_lambda", "torch", whole=HEAD + "silu = lambda x, out: out.copy_(x)")
evades(
    "entry_partial",
    "torch",
    whole=HEAD
    + ("import functools\ndef other(n, x, out):\n    x * n\nsilu = functools.partial(other, 2)"),
)
evades(
    "entry_decorated",
    "torch",
    whole=HEAD
    + ("def d(f):\n    return lambda x, out: f(x + 1, out)\n@d\ndef silu(x, out):\n    pass"),
)
evades(
    "entry_object",
    "torch",
    whole=HEAD + ("class S:\n    def __call__(self, x, out):\n        x + 1\nsilu = S()"),
)
evades(
    "entry_wraps",
    "torch",
    whole=HEAD
    + (
        "import functools\n"
        "def d(f):\n"
        "    @functools.wraps(f)\n"
        "    def g(*a):\n"
        "        return a[0] + 1\n"
        "    return g\n"
        "@d\n"
        "def silu(x, out):\n"
        "    pass"
    ),
)
evades(
    "entry_redefined",
    "torch",
    whole=HEAD + ("def silu(x, out):\n    pass\nif True:\n    def silu(x, out):\n        x + 1"),
)
evades(
    "entry_in_try",
    "torch",
    whole=HEAD
    + (
        "def silu(x, out):\n"
        "    try:\n"
        "        raise ValueError\n"
        "    except ValueError as e:\n"
        "        torch.mul(x, 2, out=out)"
    ),
)
evades(
    "fake_jit",
    "torch",
    "k(x)",
    top=(
        "class fake:\n"
        "    @staticmethod\n"
        "    def jit(f):\n"
        "        return f\n"
        "@fake.jit\n"
        "def k(x):\n"
        "    return x + x"
    ),
)
evades(
    "fake_triton",
    "torch",
    "k(x)",
    top=(
        "class triton2:\n"
        "    jit = lambda f: f\n"
        "triton = triton2\n"
        "@triton.jit\n"
        "def k(x):\n"
        "    return x + x"
    ),
)
evades(
    "jit_rebound",
    "torch",
    "k(x)",
    top=("jit = triton.jit\njit = lambda f: f\n@jit\ndef k(x):\n    return x + x"),
)
evades(
    "jit_of_python_function",
    "torch",
    "helper(x)",
    top=("def helper(x):\n    return x + x\nk = triton.jit(helper)"),
)
evades(
    "torch_in_kernel", "torch", "k[(1,)](x)", top=("@triton.jit\ndef k(p):\n    torch.mul(p, 2)")
)
evades("os_of_torch", "torch", "torch.os.system('ls')")
evades("torch_torch_compile", "torch", "torch.compile(lambda v: v)(x)")
evades("torch_torch_load", "torch", "torch.load('f')")
evades("torch_torch_save", "torch", "torch.save(x, 'f')")
evades("torch_torch_cuda_Stream", "torch", "torch.cuda.Stream()")
evades("torch_torch_cuda_Event", "torch", "torch.cuda.Event()")
evades("torch_torch_cuda_CUDAGraph", "torch", "torch.cuda.CUDAGraph()")
evades(
    "torch_torch_utils_cpp_extension_load_inline",
    "torch",
    "torch.utils.cpp_extension.load_inline('x')",
)
evades("torch_torch_jit_script", "torch", "torch.jit.script(silu)")
evades("torch_torch_library_custom_op", "torch", "torch.library.custom_op('a::b')")
evades("torch_torch_manual_seed", "torch", "torch.manual_seed(1)")
evades("torch_torch_rand", "torch", "torch.rand(3)")
evades("torch_torch_from_numpy", "torch", "torch.from_numpy(x)")
evades("torch_torch_cuda_memory_allocated", "torch", "torch.cuda.memory_allocated()")
evades(
    "unknown_method", "torch", "helper(somewhere)", top=("def helper(v):\n    return v.sigmoid()")
)
evades(
    "hook_of_a_configuration",
    "torch",
    "k[(1,)](x)",
    top=(
        "c = [triton.Config({}, pre_hook=lambda a: a['o'].mul_(2))]\n"
        "k = triton.autotune(configs=c, key=[])(silu_kernel)"
    ),
)
evades(
    "else_of_main",
    "torch",
    "helper(x)",
    top=("if __name__ == '__main__':\n    pass\nelse:\n    def helper(v):\n        return v + 1"),
)
evades(
    "not_main",
    "torch",
    "helper(x)",
    top=("if __name__ != '__main__':\n    def helper(v):\n        return v + 1"),
)
evades("sort_key", "torch", ("l = [x]\nl.sort(key=lambda v: v + 1)"))
evades(
    "exception_arguments",
    "torch",
    ("try:\n    raise E(x)\nexcept E as e:\n    e.args[0] + 1"),
    top=("class E(Exception):\n    pass"),
)
evades(
    "astuple",
    "torch",
    "astuple(H(x))[0] + 1",
    top=("from dataclasses import astuple, dataclass\n@dataclass\nclass H:\n    x: object"),
)
evades(
    "replace",
    "torch",
    ("h = H(None)._replace(x=x)\nh.x + 1"),
    top=("from typing import NamedTuple\nclass H(NamedTuple):\n    x: object"),
)
evades(
    "reduce_first", "torch", "functools.reduce(lambda a, b: a, [x, x]) + 1", top="import functools"
)
evades("next_iter", "torch", "next(iter([x])) + 1")
evades("varargs", "torch", "helper(x)", top=("def helper(*a, **k):\n    return a[0] + 1"))
evades("kwargs", "torch", "helper(v=x)", top=("def helper(*a, **k):\n    return k['v'] + 1"))
evades(
    "context_manager",
    "torch",
    ("with helper(x) as y:\n    y + 1"),
    top=("import contextlib\n@contextlib.contextmanager\ndef helper(v):\n    yield v"),
)
evades(
    "enter",
    "torch",
    ("with H(x) as y:\n    y + 1"),
    top=(
        "class H:\n"
        "    def __init__(self, x):\n"
        "        self.x = x\n"
        "    def __enter__(self):\n"
        "        return self.x\n"
        "    def __exit__(self, *a):\n"
        "        pass"
    ),
)
evades(
    "iter",
    "torch",
    ("for y in H(x):\n    y + 1"),
    top=(
        "class H:\n"
        "    def __init__(self, x):\n"
        "        self.x = x\n"
        "    def __iter__(self):\n"
        "        yield self.x"
    ),
)
evades(
    "inherited",
    "torch",
    "B(x).go()",
    top=(
        "class A:\n"
        "    def __init__(self, x):\n"
        "        self.x = x\n"
        "    def go(self):\n"
        "        return self.x + 1\n"
        "class B(A):\n"
        "    pass"
    ),
)
evades(
    "super",
    "torch",
    "B().go(x)",
    top=(
        "class A:\n"
        "    def go(self, v):\n"
        "        return v + 1\n"
        "class B(A):\n"
        "    def go(self, v):\n"
        "        return super().go(v)"
    ),
)
evades("class_attribute", "torch", ("K.v = x\nK.v + 1"), top=("class K:\n    v = None"))
evades(
    "function_attribute", "torch", ("helper.v = x\nhelper.v + 1"), top=("def helper():\n    pass")
)
evades(
    "late_binding",
    "torch",
    "g(x)",
    top=("def g(v):\n    return h(v)\ndef h(v):\n    return i(v)\ndef i(v):\n    return v + 1"),
)
evades(
    "after_loop",
    "torch",
    ("y = None\nfor i in range(2):\n    if y is not None:\n        y + 1\n    y = x"),
)
evades(
    "annotated_scalar",
    "torch",
    whole=HEAD + ("def silu(x: torch.Tensor, out: 'float'):\n    out[:] = x"),
)
evades("try_finally", "torch", ("try:\n    y = x\nfinally:\n    y + 1"))
evades(
    "suppress",
    "torch",
    ("with contextlib.suppress(Exception):\n    y = x\n    raise ValueError\ny + 1"),
    top="import contextlib",
)
evades("conditional_kernel", "torch", "(silu_kernel[(1,)] if out is None else torch.mul)(x, out)")
evades("list_of_lambdas", "torch", ("for f in [lambda v: v + 1]:\n    f(x)"))
evades(
    "decorator_at_top",
    "torch",
    whole=HEAD
    + ("def g(x, out):\n    x + 1\ndef d(f):\n    return g\n@d\ndef silu(x, out):\n    pass"),
)
evades(
    "hook_in_place",
    "torch",
    "k[(1,)](x)",
    top="k = triton.heuristics({'B': lambda a: a['o'].add_(a['x'])})(silu_kernel)",
)
evades(
    "hook_slice",
    "torch",
    whole=HEAD
    + (
        "def f(a):\n"
        "    a['o'][:] = a['x']\n"
        "k = triton.heuristics({'B': f})(silu_kernel)\n"
        "def silu(x, out):\n"
        "    k[(1,)](x)"
    ),
)
evades(
    "method_from_elsewhere",
    "torch",
    "H().go(x)",
    top=("def helper(own, v):\n    return v + 1\nclass H:\n    go = helper"),
)
evades(
    "value_in_exception",
    "torch",
    ("try:\n    raise ValueError(f'{x[0]:.9f}')\nexcept ValueError as e:\n    float(str(e))"),
)
evades(
    "value_in_assertion",
    "torch",
    ("try:\n    assert False, f'{x[0]:.9f}'\nexcept AssertionError as e:\n    float(str(e))"),
)
evades("part_of_torch_not_loaded", "torch", "torch.contrib.x")
# modules, and what they bring along
evades("star", "import", "mul(x, 2)", top="from torch import *")
evades("builtins_module", "import", "b.eval('1')", top="import builtins as b")
evades("module_of_warnings", "import", "pass", top="from warnings import sys")
evades("import_os", "import", "pass", top="import os")
evades("import_sys", "import", "pass", top="import sys")
evades("import_ctypes", "import", "pass", top="import ctypes")
evades("import_subprocess", "import", "pass", top="import subprocess")
evades("import_socket", "import", "pass", top="import socket")
evades("import_threading", "import", "pass", top="import threading")
evades("import_importlib", "import", "pass", top="import importlib")
evades("import_operator", "import", "pass", top="import operator")
evades("import_numpy", "import", "pass", top="import numpy")
evades("import_builtins", "import", "pass", top="import builtins")
evades("import_inspect", "import", "pass", top="import inspect")
evades("import_gc", "import", "pass", top="import gc")
evades("import_pickle", "import", "pass", top="import pickle")
evades("import_time", "import", "pass", top="import time")
evades("import_random", "import", "pass", top="import random")
evades("import_types", "import", "pass", top="import types")
evades("import_multiprocessing", "import", "pass", top="import multiprocessing")
evades("import_cffi", "import", "pass", top="import cffi")
evades("import_cupy", "import", "pass", top="import cupy")
evades("import_in_entry", "import", "import os")
evades("import_in_helper", "import", "helper()", top=("def helper():\n    import os"))
evades("import_from", "import", "pass", top="from os import environ")
evades("import_relative", "import", "pass", top="from . import other")
evades(
    "import_in_try", "import", "pass", top=("try:\n    import os\nexcept ImportError:\n    pass")
)
evades("module_of_typing", "import", "typing.sys", top="import typing")
evades("module_of_dataclasses", "import", "dataclasses.sys.modules", top="import dataclasses")
evades("module_from_functools", "import", "pass", top="from functools import singledispatch")
evades("get_type_hints", "import", "typing.get_type_hints(silu)", top="import typing")
evades("or_main", "import", "pass", top=("if __name__ == '__main__' or True:\n    import os"))
# code from text, files
evades("eval_in_kernel", "dynamic", "k[(1,)](x)", top=("@triton.jit\ndef k(p):\n    eval('1')"))
evades("builtin_exec", "dynamic", "exec('1')")
evades("builtin_eval", "dynamic", "eval('1')")
evades("builtin_compile", "dynamic", "compile('1', '', 'eval')")
evades("builtin_getattr", "dynamic", "getattr(torch, 'mul')(x, 2)")
evades("builtin_setattr", "dynamic", "setattr(x, 'data', out)")
evades("builtin_delattr", "dynamic", "delattr(x, 'a')")
evades("builtin_vars", "dynamic", "vars(torch)")
evades("builtin_globals", "dynamic", "globals()")
evades("builtin_locals", "dynamic", "locals()")
evades("builtin_dir", "dynamic", "dir(torch)")
evades("builtin_open", "dynamic", "open('/etc/passwd')")
evades("builtin_input", "dynamic", "input()")
evades("builtin_breakpoint", "dynamic", "breakpoint()")
evades("builtin_memoryview", "dynamic", "memoryview(b'')")
evades("builtin_type", "dynamic", "type(x).mul(x, 2)")
evades("eval_referenced", "dynamic", "f = eval")
evades("eval_in_list", "dynamic", "[eval][0]('1')")
evades("eval_mathematical_letters", "dynamic", "𝐞val('1')")
evades("exec_decorator", "dynamic", "pass", top=("@exec\ndef f():\n    pass"))
evades("exec_shadowed", "dynamic", "eval('1')", top=("if False:\n    eval = None"))
evades("eval_before_bound", "dynamic", "pass", top=("eval('1')\neval = 1"))
evades("eval_deleted", "dynamic", "eval('1')", top=("eval = 1\ndel eval"))
evades("eval_as_unused_parameter_default", "dynamic", "pass", top=("def f(g=eval):\n    pass"))
evades("eval_in_class_body", "dynamic", "pass", top=("class C:\n    x = eval('1')"))
evades("eval_in_annotation", "dynamic", "pass", top=("def f(a: eval('1')):\n    pass"))
evades("eval_in_comprehension_scope", "dynamic", "[eval for eval2 in ()]")
evades(
    "print_into_object",
    "dynamic",
    "print(x, file=W())",
    top=("class W:\n    def write(self, text):\n        pass"),
)
evades(
    "print_into_object_by_keywords",
    "dynamic",
    "print(x, **{'file': W()})",
    top=("class W:\n    def write(self, text):\n        pass"),
)
evades(
    "print_into_object_by_partial",
    "dynamic",
    "functools.partial(print, file=W())(x)",
    top=("import functools\nclass W:\n    def write(self, text):\n        pass"),
)
# the interpreter's own
evades("match_class_dunder", "dunder", ("match x:\n    case object(__class__=c):\n        pass"))
evades("builtin___import", "dunder", "__import__('os')")
evades("builtins_name", "dunder", "__builtins__")
evades("loader", "dunder", "__loader__")
evades("class_walk", "dunder", "''.__class__.__mro__")
evades("class_walk_of_tensor", "dunder", "x.__class__")
evades("matmul_dunder", "dunder", "x.__matmul__(x)")
evades("dunder_in_fstring", "dunder", "f'{x.__class__}'")
evades("dunder_in_format", "dunder", "'{0.__class__}'.format(1)")
evades("line_continuation", "dunder", ("x.\\\n    __class__"))
evades("globals_of_function", "dunder", "silu.__globals__")
evades("dict_of_module", "dunder", "torch.__dict__['mul'](x, 2)")
evades("private_of_torch", "dunder", "torch._C")
evades("import_private", "dunder", "c.x", top="import torch._C as c")
evades("frame", "dunder", "(i for i in ()).gi_frame.f_back")
evades("module_getattr", "dunder", "pass", top=("def __getattr__(name):\n    return 1"))
evades("traceback", "dunder", ("try:\n    pass\nexcept Exception as e:\n    e.__traceback__"))
evades(
    "class_getitem",
    "dunder",
    "pass",
    top=("class T:\n    def __class_getitem__(cls, i):\n        return eval(i)"),
)
evades(
    "set_name", "dunder", "pass", top=("class T:\n    def __set_name__(self, o, n):\n        pass")
)
evades(
    "main_by_parameter",
    "dunder",
    whole=HEAD
    + ("def silu(x, out, __name__='__main__'):\n    if __name__ == '__main__':\n        x + 1"),
)
evades(
    "main_by_assignment",
    "dunder",
    whole=HEAD
    + ("__name__ = '__main__'\ndef silu(x, out):\n    if __name__ == '__main__':\n        x + 1"),
)
evades(
    "send",
    "dunder",
    ("g = helper()\nnext(g)\ng.send(x)"),
    top=("def helper():\n    v = yield\n    v + 1"),
)
evades(
    "call_from_elsewhere",
    "dunder",
    "H()(x)",
    top=("class H:\n    __call__ = lambda self, v: v + 1"),
)
# parts of Triton that reach further
evades("sys_of_triton", "triton", "triton.runtime.jit.os.system('ls')")
evades("builtins_of_tl", "triton", "tl.core.builtins.eval('1')")
evades("knobs", "triton", "triton.knobs.runtime")
evades("do_bench", "triton", "triton.testing.do_bench(lambda: 1)")
evades("part_of_triton_not_loaded", "triton", "triton.profiler.start('f')")
evades("part_of_nothing", "triton", "tl.nothing.os")
# kernels as Python functions
evades("kernel_called", "kernel", "silu_kernel(x, out, 1, 2)")
evades("kernel_fn", "kernel", "silu_kernel.fn(x, out, 1, 2)")
evades(
    "kernel_fn_of_unknown",
    "kernel",
    ("for k in KS.values():\n    k.fn(x)"),
    top="KS = dict(a=silu_kernel)",
)
evades("kernel_src", "kernel", "silu_kernel.src")
evades("main_nested_kernel_walk", "kernel", "silu_kernel.jit_function")
# what isn't the submission's own
evades("set_data", "monkeypatch", "out.data = x")
evades("kernel_run_set", "monkeypatch", "silu_kernel.run = lambda *a, **k: None")
evades("patch_tl", "monkeypatch", "tl.load = None")
evades("patch_torch", "monkeypatch", "torch.empty = None")
evades("patch_triton", "monkeypatch", "triton.cdiv = lambda a, b: 1")
evades("patch_by_for", "monkeypatch", ("for torch.empty in [1]:\n    pass"))
evades("patch_by_with", "monkeypatch", ("with silu as tl.load:\n    pass"))
evades("patch_by_del", "monkeypatch", "del torch.empty")
evades("patch_by_tuple", "monkeypatch", "tl.load, b = 1, 2")
evades("patch_alias", "monkeypatch", ("u = torch.Tensor\nu.mul = None"))
evades("patch_augmented", "monkeypatch", "tl.load += 1")
# classes that steer
evades("subclass", "tensor_subclass", "pass", top=("class T(torch.Tensor):\n    pass"))
evades(
    "autograd_function",
    "tensor_subclass",
    "pass",
    top=("class T(torch.autograd.Function):\n    pass"),
)
evades(
    "torch_function",
    "tensor_subclass",
    "pass",
    top=(
        "class T:\n"
        "    @classmethod\n"
        "    def __torch_function__(cls, f, t, a=(), k=None):\n"
        "        return 1"
    ),
)
evades(
    "metaclass",
    "tensor_subclass",
    "pass",
    top=("class M:\n    pass\nclass T(metaclass=M):\n    pass"),
)
# which tensor came
evades("data_ptr", "replay", "seen = x.data_ptr()")
evades("id", "replay", "seen = id(x)")
evades("hash", "replay", "seen = hash(x)")
evades("tensor_key", "replay", ("d = {}\nd[x] = 1"))
evades("tensor_key_in_dict", "replay", "{x: 1}")
evades(
    "cached_function",
    "replay",
    "helper(x)",
    top=("import functools\n@functools.lru_cache(maxsize=None)\ndef helper(x):\n    return 1"),
)
evades(
    "cached_by_hand",
    "replay",
    "functools.cache(helper)(x)",
    top=("import functools\ndef helper(x):\n    return 1"),
)
evades(
    "data_ptr_of_unknown",
    "replay",
    "helper(somewhere)",
    top=("def helper(v):\n    return v.data_ptr()"),
)
evades("storage", "replay", "x.untyped_storage()")
# another text than the one that is read
evades("cookie", "unreadable", whole="# -*- coding: utf-7 -*-\n" + HEAD)


@pytest.mark.parametrize("name", EVASIONS)
def test_a_way_around_a_rule_is_refused_by_that_rule(name: str) -> None:
    rule, source = EVASIONS[name]
    if rule != "unreadable":
        ast.parse(source)  # a snippet that isn't Python would prove nothing
    found = check(source, "silu")
    assert rule in {violation.rule for violation in found}, found
    for violation in found:
        assert violation.message and violation.instead.endswith("."), violation


def test_every_rule_has_ways_around_it_and_a_sentence() -> None:
    assert {rule for rule, _ in EVASIONS.values()} == set(RULES)
    assert all(sentence.endswith(".") for sentence in RULES.values())


# --- honest work ---------------------------------------------------------------------------------


def test_the_submission_that_evasions_are_built_on_is_itself_clean() -> None:
    assert rules_broken("silu_kernel[(1,)](x, out, x.numel(), BLOCK=16)") == []


@pytest.mark.parametrize("path", [*STYLES, *REFERENCES, *ASSIGNMENT], ids=lambda p: p.stem)
def test_an_honest_file_passes(path: Path) -> None:
    assert check(path.read_text(encoding="utf-8"), path.stem.split("_")[0]) == []


@pytest.mark.parametrize("path", STYLES, ids=lambda p: p.stem)
def test_an_honest_style_says_what_it_is(path: Path) -> None:
    first = path.read_text(encoding="utf-8").split("\n")[0]
    assert first.startswith(f"# honest: {path.stem.split('_')[0]}/triton: ")


def test_there_are_honest_files_in_many_styles() -> None:
    assert len(STYLES) >= 12


@pytest.mark.parametrize("entry", corpus.load("honest"), ids=lambda s: s.id)
def test_an_honest_submission_of_the_corpus_passes(entry: corpus.Submission) -> None:
    assert check(entry.text(), entry.exercise) == []


# Mistakes that do break a rule, beside being mistakes.
BREAKS = {
    "rmsnorm-changes_the_weight": "torch",
    "rmsnorm-clock_in_eps": "import",
    "rmsnorm-returns_torchs_result": "torch",
    "rmsnorm-unknown_module": "import",
    "silu-coin_toss": "import",
    "silu-dies": "import",
    "silu-exits": "import",
    "silu-null_pointer": "import",
    "silu-numpy_in_kernel": "import",
    "silu-replaces_outs_storage": "torch",
    "silu-writes_a_converted_copy": "torch",
}


@pytest.mark.parametrize("entry", corpus.load("wrong"), ids=lambda s: s.id)
def test_an_honest_mistake_breaks_no_rule(entry: corpus.Submission) -> None:
    expected = [BREAKS[entry.id]] if entry.id in BREAKS else []
    assert [v.rule for v in check(entry.text(), entry.exercise)] == expected


HONEST = {
    "scalars": "n = x.numel()\nm = -n // 2 + 3 ** 2 % 5\nassert n > m and not m == 7",
    "strides": "a, b = x.stride(0) * 2, x.shape[0] + x.size(0) * x.element_size()",
    "views": "x.view(-1).unsqueeze(0).squeeze(0).reshape(-1).flatten()[1:2].narrow(0, 0, 1)",
    "contiguous": "x.contiguous().clone()",
    "allocations": "torch.empty_like(x), torch.zeros(3, device=x.device), torch.full((2,), 0.5)",
    "filling": "torch.empty(3).zero_().fill_(1.0)",
    "dtypes": "torch.float16.itemsize, torch.finfo(x.dtype).max, x.dtype == torch.bfloat16",
    "copy_of_a_result": "y = torch.empty_like(x)\nout.copy_(y)",
    "identity": "assert x is not out and x is not None",
    "tensors_in_containers": "a = [x, out] + [x]\na.append(out)\nb = (x,) * 2\nlen(a), b[0].shape",
    "message_with_a_tensor": "print(x)\nprint('{}'.format(x))\nassert x.dim(), f'{x}'",
    "renamed_to_a_number": "x = x.numel()\nx * 2",
    "number_in_one_branch": "if x.numel() > 1:\n    n = 1\nelse:\n    n = 2\nn + 1",
    "context": "with torch.cuda.device(x.device), torch.no_grad():\n    pass",
    "query": "if torch.cuda.is_available():\n    torch.cuda.get_device_capability()[0] >= 9",
    "versions": "torch.__version__.split('.')[0] > '1' and triton.__version__",
    "tutorial_properties": (
        "d = triton.runtime.driver.active.get_current_device()\n"
        "triton.runtime.driver.active.utils.get_device_properties(d)['max_shared_mem'] // 2"
    ),
    "tutorial_target": "triton.runtime.driver.active.get_current_target().backend == 'cuda'",
    "allocator": (
        "def alloc(size, align, stream):\n"
        "    return torch.empty(size, device=x.device, dtype=torch.int8)\n"
        "triton.set_allocator(alloc)"
    ),
    "descriptor": (
        "from triton.tools.tensor_descriptor import TensorDescriptor\n"
        "TensorDescriptor(x, x.shape, x.stride(), [64])\nTensorDescriptor.from_tensor(x, [64])"
    ),
    "gluon": (
        "from triton.experimental import gluon\n"
        "from triton.experimental.gluon import language as gl\n"
        "from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma\n"
        "from triton.experimental.gluon.nvidia.hopper import TensorDescriptor\n"
        "layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)\n"
        "TensorDescriptor(x, [x.shape[1], x.shape[0]], [x.stride(1), 1], [64, 64], layout)"
    ),
    "warning": "import warnings\nwarnings.warn(f'slower on {x.device}', stacklevel=2)",
    "own_underscores": (
        "class C:\n    def __init__(self):\n        self._n = 1\n"
        "    def _m(self):\n        return self._n\nC()._m()"
    ),
    "replace": "P(1)._replace(n=2).n + 1",
    "own_method_like_a_tensors": "P(1).sum()",
    "memo": "if x.shape not in MEMO:\n    MEMO[x.shape, x.dtype] = 1\nMEMO[x.shape, x.dtype] + 1",
    "slip_of_the_pen": "torch.emtpy(3), tl.laod, triton.cvid(1, 2)",
    "slip_of_the_pen_in_a_part": "tl.math.tanh, triton.language.math.tnah",
}
TOP = """
from typing import NamedTuple

MEMO = {}


class P(NamedTuple):
    n: int

    def sum(self):
        return self.n
"""


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_line_passes(name: str) -> None:
    assert check(submission(HONEST[name], TOP), "silu") == []


def test_a_hook_may_set_the_block_of_a_descriptor() -> None:
    top = (
        "def hook(nargs):\n    nargs['x_desc'].block_shape = [nargs['BLOCK'] // 2]\n"
        "    nargs['out_ptr'].zero_()\n"
        "tuned = triton.autotune(configs=[triton.Config({}, pre_hook=hook)], key=[])(silu_kernel)"
    )
    assert rules_broken("tuned[(1,)](x, out, x.numel(), BLOCK=16)", top) == []


# --- what is read, and what isn't ----------------------------------------------------------------


def test_a_function_that_the_entry_does_not_reach_may_use_torch() -> None:
    other = "def test_me():\n    import os\n    torch.nn.functional.silu(torch.rand(3))\n"
    assert rules_broken("pass", other) == []
    assert rules_broken("test_me()", other) == ["import", "torch", "torch"]


def test_variants_of_one_file_are_judged_apart() -> None:
    source = HEAD + "def v0(x, out):\n    out.copy_(x.t())\n\n\ndef v1(x, out):\n    v2(x)\n\n\n"
    source += "def v2(x):\n    return x.shape\n"
    assert [v.rule for v in check(source, "v0")] == ["torch", "torch"]
    assert check(source, "v1") == []


def test_a_table_of_variants_makes_none_of_them_reach_another() -> None:
    top = "def v0(x, out):\n    out.copy_(x * 2)\n\n\nVARIANTS = {'v0': v0}"
    assert rules_broken("pass", top) == []
    assert rules_broken("VARIANTS['v0'](x, out)", top) != []


def test_only_the_main_block_itself_is_skipped() -> None:
    for test in ('__name__ == "__main__"', '"__main__" == __name__'):
        assert rules_broken("pass", f"if {test}:\n    import os\n    eval('1')") == []
    assert rules_broken("pass", "if __name__ == 'submission':\n    import os") == ["import"]


def test_tensors_are_known_by_what_the_caller_says() -> None:
    source = HEAD + "def silu(x: float, eps):\n    return x * 2, eps * 2\n"
    assert [v.message for v in check(source, "silu", Rules(), [True, False])] == [
        "x * 2: * on a tensor computes with PyTorch"
    ]
    assert len(check(source, "silu", Rules(), [False, False])) == 0
    assert len(check(source, "silu")) == 0  # by annotation and name
    assert len(check(source.replace("x: float", "x"), "silu")) == 1


def test_what_is_no_python_is_left_to_the_run() -> None:
    for source in ("def silu(:", "", "\0", "   x", "if", "'" * 3):
        assert check(source, "silu") == []


def test_a_missing_entry_breaks_no_rule() -> None:
    assert check(HEAD, "silu") == []


# --- what an instructor may allow ----------------------------------------------------------------


def test_an_instructor_allows_torch_by_name() -> None:
    body = "x.t() @ x\ntorch.matmul(x, x)\ntorch.Tensor.matmul(x, x)"
    assert rules_broken(body, rules=Rules(torch=frozenset({"matmul", "t"}))) == []
    assert rules_broken(body, rules=Rules(torch=frozenset({"matmul"}))) == ["torch"]
    named = Rules(torch=frozenset({"nn.functional.silu"}))
    assert rules_broken("F.silu(x)", "import torch.nn.functional as F", named) == []
    assert rules_broken("F.gelu(x)", "import torch.nn.functional as F", named) == ["torch"]


def test_a_star_allows_computing_and_nothing_else() -> None:
    star = Rules(torch=frozenset({"*"}))
    body = "out[:] = (x * 2).sum() + torch.nn.functional.silu(x).t().contiguous().item()\n-x > 0"
    assert rules_broken(body, rules=star) == []
    for reached in ("torch.load('f')", "torch.compile(silu)", "torch.utils.x", "eval('1')"):
        assert rules_broken(reached, rules=star), reached
    assert rules_broken("torch._C", rules=star) == ["dunder"]
    assert rules_broken("x.data_ptr()", rules=star) == ["replay"]


def test_an_instructor_allows_a_module() -> None:
    top = "import numpy as np\nimport numpy.linalg\nfrom numpy import sqrt"
    assert rules_broken("np.sqrt(2)", top, Rules(imports=frozenset({"numpy"}))) == []
    assert rules_broken("np.sqrt(2)", top) == ["import"] * 3


@pytest.mark.parametrize("name", [n for n, (rule, _) in EVASIONS.items() if rule != "unreadable"])
def test_a_lifted_rule_is_silent(name: str) -> None:
    rule, source = EVASIONS[name]
    found = check(source, "silu", Rules(lifted=frozenset({rule})))
    assert rule not in {violation.rule for violation in found}


# --- what a student reads ------------------------------------------------------------------------

MESSAGES = {
    "import os": ("import", "the module os may not be imported", "Allowed are torch, triton, math"),
    "torch.nn.functional.silu(x)": (
        "torch",
        "torch.nn.functional.silu computes the result with PyTorch",
        "Compute it in your own kernel: torch is for allocating, shapes, strides and views here.",
    ),
    "x.t()": ("torch", "x.t rearranges a tensor with PyTorch", "Pass the strides to your kernel"),
    "x @ x": ("torch", "x @ x: @ on a tensor computes with PyTorch", "Compute it in your own"),
    "x.float()": ("torch", "x.float converts with PyTorch", "Convert in your kernel"),
    "out[:] = 1": ("torch", "out[:] = ... writes to a tensor with PyTorch", "tl.store"),
    "out.copy_(x)": ("torch", "out.copy_(x) copies with PyTorch", "Have your kernel write"),
    "x.item()": ("torch", "x.item reads a tensor's values outside a kernel", "Compute it"),
    "triton.knobs": ("triton", "triton.knobs is not part of what a kernel needs", "Use triton."),
    "silu_kernel(x)": (
        "kernel",
        "silu_kernel(...) calls a kernel as a Python function",
        "kernel[grid]",
    ),
    "eval('1')": ("dynamic", "eval() hides what the file does", "Write out what is meant"),
    "getattr(x, 'y')": ("dynamic", "getattr() hides what the file does", "Write object.name."),
    "type(x)": ("dynamic", "type() reaches the class behind an object", "isinstance()"),
    "x.__class__": ("dunder", "x.__class__: .__class__ is private", "Use the public name"),
    "tl.load = 1": ("monkeypatch", "tl.load = ... changes what isn't its own", "Use a variable"),
    "class T(torch.Tensor): ...": ("tensor_subclass", "class T derives from torch.Tensor", "Use"),
    "x.data_ptr()": ("replay", "x.data_ptr tells which tensor came, by its address", "Compute"),
}


@pytest.mark.parametrize("body", MESSAGES)
def test_a_message_names_what_was_found_and_what_to_do(body: str) -> None:
    rule, message, instead = MESSAGES[body]
    violation = check(submission(body), "silu")[0]
    assert (violation.rule, violation.message) == (rule, message)
    assert instead in violation.instead


def test_a_violation_says_where_in_characters_from_1() -> None:
    source = "import torch\n\n\ndef silu(x, out):\n    'é'; x.sum()\n"
    assert [(v.line, v.column) for v in check(source, "silu")] == [(5, 10)]


def test_violations_come_in_the_order_of_the_source() -> None:
    found = check(submission("eval('1')\nx + 1\nout.copy_(x)", "import os"), "silu")
    assert [v.rule for v in found] == ["import", "dynamic", "torch", "torch"]
    assert found == sorted(found, key=lambda v: (v.line, v.column))
    assert all(isinstance(v, Violation) for v in found)


# --- hostile texts -------------------------------------------------------------------------------

HOSTILE = {
    "brackets": "x = " + "(" * 5000 + ")" * 5000,
    "lists": "x = " + "[" * 90 + "]" * 90,
    "unary": "x = " + "-" * 3000 + "1",
    "attributes": "x = a" + ".b" * 3000,
    "calls": "x = a" + "()" * 3000,
    "nested_lambdas": "x = " + "lambda: " * 3000 + "1",
    "elifs": "if a: pass\n" + "elif a: pass\n" * 3000,
    "powers": "x = " + "2 ** " * 3000 + "2",
    "functions": "".join(f"{' ' * d}def f{d}():\n" for d in range(95)) + " " * 95 + "pass",
    "surrogate": "x = '\ud800'",
    "large": "x = 1\n" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_ends_in_a_list(name: str) -> None:
    found = check(HOSTILE[name] + "\n\ndef silu(x, out):\n    pass\n", "silu")
    assert [v.rule for v in found] in ([], ["unreadable"], ["dunder"])


@pytest.mark.parametrize("name", ["attributes", "nested_lambdas", "elifs", "large"])
def test_what_is_too_deep_or_large_to_read_is_one_violation(name: str) -> None:
    (violation,) = check(HOSTILE[name], "silu")
    assert violation.rule == "unreadable" and violation.line == 1


def test_a_long_sum_is_not_deep() -> None:
    assert rules_broken("n = " + " + ".join(["x.numel()"] * 150)) == []


def test_what_is_too_involved_to_read_is_one_violation() -> None:
    # Every function may be every other, and is called with all of them.
    names = [f"f{n}" for n in range(300)]
    functions = "".join(f"def {n}(a, *b):\n    return [g(a, *ALL) for g in ALL]\n" for n in names)
    found = check(submission("f0(x)", f"{functions}ALL = [{', '.join(names)}]"), "silu")
    assert [v.rule for v in found] == ["unreadable"]


def test_the_steps_allowed_suffice_for_a_long_honest_file() -> None:
    text = next(p for p in REFERENCES if p.stem == "rmsnorm").read_text(encoding="utf-8")
    head, entry = text.split("def rmsnorm(")
    copies = "".join(f"def rmsnorm{n}({entry}\n" for n in range(60))
    calls = "".join(f"    rmsnorm{n}(x, weight, out, eps)\n" for n in range(60))
    source = f"{head}{copies}def rmsnorm(x, weight, out, eps):\n{calls}"
    assert len(source.splitlines()) > 1000
    assert check(source, "rmsnorm") == [] and MAX_STEPS <= 300_000


WORDS = [
    *("x", "out", "torch", "triton", "tl", "silu", "def", "lambda", "return", "yield", "await"),
    *("async", "for", "in", "if", "else", "while", "try", "except", "finally", "with", "as", ":"),
    *("import", "from", "class", "match", "case", "_", "=", "==", ":=", "+=", "@", "@=", ".", ","),
    *(";", "(", ")", "[", "]", "{", "}", "*", "**", "->", "None", "1", "'a'", "f'{x}'", "global"),
    *("__class__", "eval", "nonlocal", "del", "not", "is", "and", "or", "silu_kernel", "silu(x)"),
    *("x+1", "[x]", "(x,)", "**x", "*x", "torch.mul", "@triton.jit", "raise", "assert", "pass"),
    *("type", "\n", "\n   ", "\n       "),  # a space follows
]
HONEST_TEXTS = [path.read_text(encoding="utf-8") for path in [*STYLES, *REFERENCES]]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=60))
@example(["match", " ", "x", ":"])
def test_any_words_end_in_a_list(words: list[str]) -> None:
    assert isinstance(check(" ".join(words), "silu"), list)


def _swapped(source: str, seed: int) -> str:
    """`source` with a few of its subtrees put in each other's place: still Python."""
    chance = random.Random(seed)
    tree = ast.parse(source)
    places = [
        (node, name, index)
        for node in ast.walk(tree)
        for name, value in ast.iter_fields(node)
        for index in (range(len(value)) if isinstance(value, list) else [None])
        if isinstance(value if index is None else value[index], ast.expr | ast.stmt)
    ]
    for _ in range(chance.randrange(1, 12)):
        (a, name_a, at), (b, name_b, bt) = chance.sample(places, 2)
        old = getattr(b, name_b) if bt is None else getattr(b, name_b)[bt]
        new = getattr(a, name_a) if at is None else getattr(a, name_a)[at]
        if isinstance(old, ast.expr) != isinstance(new, ast.expr):
            continue
        if bt is None:
            setattr(b, name_b, new)
        else:
            getattr(b, name_b)[bt] = new
    return ast.unparse(tree)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(HONEST_TEXTS), st.integers(0, 2**32))
def test_any_rearrangement_of_an_honest_file_ends_in_a_list(source: str, seed: int) -> None:
    try:
        text = _swapped(source, seed)
    except (RecursionError, ValueError, AttributeError):
        return  # a tree that is part of itself, or has no text
    assert isinstance(check(text, "silu"), list)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(HONEST_TEXTS), st.data())
def test_any_cut_of_an_honest_file_ends_in_a_list(source: str, data: st.DataObject) -> None:
    lines = source.splitlines(keepends=True)
    kept = data.draw(st.lists(st.sampled_from(lines), max_size=40))
    assert isinstance(check("".join(kept), "silu"), list)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="a statement of Python 3.12")
def test_a_type_statement_is_read() -> None:
    assert "dynamic" in rules_broken("pass", "type X = eval('1')")
