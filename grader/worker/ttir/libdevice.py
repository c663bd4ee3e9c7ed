"""NVIDIA's libdevice functions of floating-point numbers, by name.

A name is `__nv_`, the function, its rounding (`_rn`, `_rz`, `_ru`, `_rd`) and `f` for float32:
`__nv_expf`, `__nv_fadd_rz`. Results are correctly rounded or nearly so; NVIDIA's differ from that
by some ulps. The functions `fast_...` are as exact as the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from . import libdevice_integers
from .arithmetic import elementwise, rounded
from .errors import NotModelled
from .floats import computed
from .ir import Op
from .registry import Run, operation

Function = Callable[..., np.ndarray]
_PREFIX = "__nv_"
_DIRECTIONS = ("rn", "rz", "ru", "rd")


def _by_torch(name: str) -> Function:
    """A function of torch.special, on arrays."""

    def function(*operands: np.ndarray) -> np.ndarray:
        import torch

        tensors = [torch.from_numpy(np.array(each, np.float64)) for each in operands]
        return getattr(torch.special, name)(*tensors).numpy()

    return function


def _by_element(function: Callable[..., float]) -> Function:
    def safe(*x: float) -> float:
        try:
            return function(*x)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return np.vectorize(safe, otypes=[np.float64])


def _of_pi(function: Function) -> Function:
    return lambda x: function(np.pi * np.fmod(x, 2.0))


def _exponent(x: np.ndarray) -> np.ndarray:
    exponent = np.frexp(x)[1] - 1.0
    exponent = np.where(x == 0, -np.inf, exponent)
    return np.where(np.isinf(x), np.inf, np.where(np.isnan(x), np.nan, exponent))


_erfc = _by_torch("erfc")
_normcdfinv = _by_torch("ndtri")

# Computed in float64, and rounded once.
_FUNCTIONS: dict[str, Function] = {
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log10")},
    **{name: getattr(np, name) for name in ("log1p", "sqrt", "cbrt", "floor", "ceil", "trunc")},
    **{name: getattr(np, name) for name in ("rint", "fabs", "fmin", "fmax", "fmod", "hypot")},
    "nearbyint": np.rint,
    "copysign": np.copysign,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "pow": np.power,
    "powi": lambda x, n: np.power(x, n.astype(np.float64)),
    "exp10": lambda x: np.power(10.0, x),
    "round": libdevice_integers.half_away,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "frsqrt": lambda x: 1 / np.sqrt(x),
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "erf": _by_torch("erf"),
    "erfc": _erfc,
    "erfcx": _by_torch("erfcx"),
    "erfinv": _by_torch("erfinv"),
    "erfcinv": lambda x: -_normcdfinv(x / 2) / math.sqrt(2),
    "normcdf": lambda x: 0.5 * _erfc(-x / math.sqrt(2)),
    "normcdfinv": _normcdfinv,
    "lgamma": _by_torch("gammaln"),
    "tgamma": _by_element(math.gamma),
    "j0": _by_torch("bessel_j0"),
    "j1": _by_torch("bessel_j1"),
    "y0": _by_torch("bessel_y0"),
    "y1": _by_torch("bessel_y1"),
    "cyl_bessel_i0": _by_torch("i0"),
    "cyl_bessel_i1": _by_torch("i1"),
    "sinpi": _of_pi(np.sin),
    "cospi": _of_pi(np.cos),
    "fdim": lambda a, b: np.where(a > b, a - b, np.where(np.isnan(a) | np.isnan(b), np.nan, 0.0)),
    "saturate": lambda x: np.fmin(np.fmax(x, 0.0), 1.0),
    "norm3d": lambda a, b, c: np.hypot(np.hypot(a, b), c),
    "rnorm3d": lambda a, b, c: 1 / np.hypot(np.hypot(a, b), c),
    "norm4d": lambda a, b, c, d: np.hypot(np.hypot(a, b), np.hypot(c, d)),
    "rnorm4d": lambda a, b, c, d: 1 / np.hypot(np.hypot(a, b), np.hypot(c, d)),
    "rhypot": lambda a, b: 1 / np.hypot(a, b),
    "ldexp": np.ldexp,
    "scalbn": np.ldexp,
    "logb": _exponent,
    "remainder": _by_element(math.remainder),  # of IEEE 754: the quotient is rounded to even
    "fma": lambda a, b, c: a * b + c,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rcp": lambda x: 1 / x,
    "fast_fdivide": np.divide,
}
# Fast and right in float32.
_IN_FLOAT32 = {
    *("exp", "exp2", "log", "sqrt", "floor", "ceil", "trunc", "rint", "fabs", "fmin", "fmax"),
    *("tanh", "sin", "cos", "copysign", "nearbyint", "add", "sub", "mul", "div"),
}
_IN_FLOAT32 |= {"saturate", "rcp", "fast_fdivide"}
_PREDICATES: dict[str, Function] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "finite": np.isfinite,
    "isfinite": np.isfinite,
    "signbit": np.signbit,
}


def _stem(name: str) -> tuple[str, str]:
    """(function, direction) of a name without its prefix: `fadd_rz` is ("add", "rz")."""
    direction = "rn"
    if name[-3:-2] == "_" and name[-2:] in _DIRECTIONS:
        name, direction = name[:-3], name[-2:]
        if name[:1] in "fd" and name[1:] in ("add", "sub", "mul", "div", "rcp", "sqrt"):
            name = name[1:]
    if name not in _FUNCTIONS and name.endswith("f") and name[:-1] in _FUNCTIONS:
        name = name[:-1]
    if name.startswith("fast_") and name not in _FUNCTIONS:
        return _stem(name[5:])
    return name, direction


def _float_function(name: str, kind: str) -> Function | None:
    stem, direction = _stem(name)
    function = _FUNCTIONS.get(stem)
    if function is None:
        return None
    if direction == "rn" and (kind == "f64" or stem in _IN_FLOAT32):
        return rounded(function, kind)
    wide = np.float64 if kind == "f32" else np.longdouble
    if direction == "rn":
        wide = np.float64

    def exactly(*operands: np.ndarray) -> np.ndarray:
        floats = [each.astype(wide) if each.dtype.kind == "f" else each for each in operands]
        return libdevice_integers.towards(function(*floats), kind, direction)

    return exactly


def _predicate(name: str) -> Function | None:
    for stem in (name, name[:-1]):
        if stem in _PREDICATES:
            predicate = _PREDICATES[stem]
            return lambda x: predicate(x).astype(np.int32)
    return None


@operation("tt.extern_elementwise")
def _extern(op: Op) -> Run:
    symbol = str(op.attributes.get("symbol", ""))
    if not symbol.startswith(_PREFIX):
        raise NotModelled(f"the external function {symbol[:60]}")
    name, kind = symbol[len(_PREFIX) :], op.types[0].kind
    computed(kind)
    function = None
    if kind in ("f32", "f64"):
        function = _float_function(name, kind)
    function = function or _predicate(name) or libdevice_integers.function(name)
    if function is None:
        raise NotModelled(f"libdevice's {symbol[:60]}")
    return elementwise(op, function)
