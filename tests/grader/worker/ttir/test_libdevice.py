"""libdevice's functions: all that Triton declares, against torch and Python."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from grader.worker.ttir import libdevice as ours
from grader.worker.ttir import libdevice_integers

from .launching import launching

NOT_MODELLED = {"jn", "jnf", "yn", "ynf", "rcp64h"}


def _declared() -> dict[str, tuple[list[str], str]]:
    """(types of the operands, of the result) of each symbol that Triton can call."""
    source = Path(triton.__file__).parent / "language/extra/cuda/libdevice.py"
    pattern = re.compile(
        r'\(((?:core\.dtype\("\w+"\),? ?)+)\): \("__nv_(\w+)", core\.dtype\("(\w+)"\)\)'
    )
    return {
        name: (re.findall(r'"(\w+)"', types), result)
        for types, name, result in pattern.findall(source.read_text())
    }


DTYPES = {"fp32": np.float32, "fp64": np.float64, "int32": np.int32, "int64": np.int64}
DTYPES |= {"uint32": np.int32, "uint64": np.int64}


@pytest.mark.parametrize("name", sorted(_declared()))
def test_every_declared_symbol_has_a_meaning_or_is_named_as_not_modelled(name):
    types, result = _declared()[name]
    function = None
    if result in ("fp32", "fp64"):
        function = ours._float_function(name, "f" + result[2:])
    function = function or ours._predicate(name) or libdevice_integers.function(name)
    if name in NOT_MODELLED:
        assert function is None
        return
    assert function is not None
    samples = {"f": [0.25, 0.5, 0.75, 1.0], "i": [1, 2, 3, 31]}
    operands = [np.array(samples[DTYPES[each]().dtype.kind], DTYPES[each]) for each in types]
    with np.errstate(all="ignore"):
        answer = function(*operands)
    assert answer.dtype == DTYPES[result]
    assert answer.shape == (4,)


@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("clz", [np.array([1, 0, -1], np.int32)], [31, 32, 0]),
        ("ffs", [np.array([8, 0, 1], np.int32)], [4, 0, 1]),
        ("popcll", [np.array([-1, 5], np.int64)], [64, 2]),
        ("brev", [np.array([1, -2], np.int32)], [-(2**31), 0x7FFFFFFF]),
        ("mul24", [np.array([0x1000002], np.int32), np.array([3], np.int32)], [6]),
        ("umulhi", [np.array([-1], np.int32), np.array([-1], np.int32)], [-2]),
        ("mul64hi", [np.array([2**62], np.int64), np.array([-4], np.int64)], [-1]),
        ("umul64hi", [np.array([-1], np.int64), np.array([-1], np.int64)], [-2]),
        ("hadd", [np.array([-3], np.int32), np.array([0], np.int32)], [-2]),
        ("rhadd", [np.array([-3], np.int32), np.array([0], np.int32)], [-1]),
        ("sad", [np.array([-5], np.int32), np.array([5], np.int32), np.array([2], np.int32)], [12]),
        ("float2int_ru", [np.array([1.2, 3e9, np.nan], np.float32)], [2, 2**31 - 1, 0]),
        ("float2uint_rz", [np.array([4e9, -1.0], np.float32)], [4000000000 - 2**32, 0]),
        ("int2float_rz", [np.array([2**24 + 1, 2**25 - 1], np.int32)], [2**24, 2**25 - 2]),
        ("uint2float_rn", [np.array([-1], np.int32)], [2.0**32]),
        ("byte_perm", [*(np.array([each], np.int32) for each in (0x33221100, 0x77665544, 0x7531))],
         [0x77553311]),
    ],
)  # fmt: skip
def test_integer_functions(name, operands, expected):
    function = libdevice_integers.function(name)
    assert function(*operands).tolist() == expected


@pytest.mark.parametrize(
    ("name", "kind", "operands", "expected"),
    [
        ("fadd_rz", "f32", (1.0, 2.0**-24), 1.0),
        ("fadd_ru", "f32", (1.0, 2.0**-24), 1.0 + 2.0**-23),
        ("fadd_rd", "f32", (-1.0, -(2.0**-24)), -1.0 - 2.0**-23),
        ("dadd_ru", "f64", (1.0, 2.0**-60), 1.0 + 2.0**-52),
        ("ddiv_rd", "f64", (1.0, 3.0), 1 / 3),
        ("erff", "f32", (0.5,), math.erf(0.5)),
        ("tgamma", "f64", (5.0,), 24.0),
        ("erfcinv", "f64", (0.3,), 0.7328690779592167),
        ("normcdf", "f64", (1.0,), 0.8413447460685429),
        ("sinpif", "f32", (0.5,), 1.0),
        ("remainderf", "f32", (5.0, 3.0), -1.0),
        ("roundf", "f32", (2.5,), 3.0),
        ("rintf", "f32", (2.5,), 2.0),
        ("fast_exp10f", "f32", (2.0,), 100.0),
        ("fdimf", "f32", (1.0, 3.0), 0.0),
        ("rnorm3d", "f64", (2.0, 3.0, 6.0), 1 / 7),
    ],
)
def test_float_functions(name, kind, operands, expected):
    dtype = np.float32 if kind == "f32" else np.float64
    function = ours._float_function(name, kind)
    answer = function(*(np.array([each], dtype) for each in operands))
    assert answer.dtype == dtype
    tolerance = 1e-6 if kind == "f32" and "add" not in name else 1e-15
    assert answer[0] == pytest.approx(expected, rel=tolerance)


@triton.jit
def _kernel(x, y, out, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(y + i)
    value = libdevice.pow(a, b) + libdevice.acos(b) + libdevice.isnan(a).to(tl.float32)
    tl.store(out + i, value + libdevice.float2int_rz(a * 7).to(tl.float32))


def test_calls_from_a_kernel():
    x, y = torch.rand(64) + 0.1, torch.rand(64)
    out = torch.empty(64)
    with launching() as launches:
        _kernel[(1,)](x, y, out, B=64)
    assert launches.findings == []
    torch.testing.assert_close(out, x**y + torch.acos(y) + (x * 7).trunc())


@triton.jit
def _unmodelled(x, out):
    tl.store(out, libdevice.jn(3, tl.load(x)))


def test_an_unmodelled_function_is_named():
    from grader.worker.ttir.errors import NotModelled

    with launching(), pytest.raises(NotModelled, match="__nv_jnf") as raised:
        _unmodelled[(1,)](torch.ones(1), torch.ones(1))
    assert raised.value.line[1] > 0
