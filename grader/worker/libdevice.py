"""NVIDIA's libdevice under Triton's interpreter, which has none of it.

`from triton.language.extra import libdevice` gives stubs that return None when interpreted; the
compiler puts the CUDA library in their place. So does this module, with numpy behind the common
functions of one and two arguments; the others raise NotModelled.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from triton.language.extra import libdevice as stubs
from triton.language.extra.cuda import libdevice as cuda
from triton.runtime import interpreter as upstream
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from .launches import NotModelled

_PREFIX = "__nv_"


def _vectorised(function: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    return np.vectorize(function, otypes=[np.float64])


def _round_half_away(x: np.ndarray) -> np.ndarray:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


# By libdevice's name without prefix and without the f of the float32 form.
_FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log10")},
    **{name: getattr(np, name) for name in ("log1p", "sqrt", "cbrt", "floor", "ceil", "trunc")},
    **{name: getattr(np, name) for name in ("rint", "fabs", "fmin", "fmax", "fmod", "hypot")},
    **{name: getattr(np, name) for name in ("copysign", "isnan", "isinf")},
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "pow": np.power,
    "round": _round_half_away,
    "nearbyint": np.rint,
    "finite": np.isfinite,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp10": lambda x: np.power(np.asarray(10, x.dtype), x),
    "erf": _vectorised(math.erf),
    "erfc": _vectorised(math.erfc),
    "normcdf": _vectorised(lambda x: 0.5 * math.erfc(-x / math.sqrt(2))),
    "fast_exp": np.exp,
    "fast_log": np.log,
    "fast_log2": np.log2,
    "fast_log10": np.log10,
    "fast_sin": np.sin,
    "fast_cos": np.cos,
    "fast_tan": np.tan,
    "fast_pow": np.power,
    "fast_fdivide": np.divide,
}


def install() -> None:
    """Let kernels call these functions; once per process, before a submission imports them.

    The replacements keep names and marks of what they replace, by which the compiler knows it.
    """
    InterpreterBuilder.create_extern_elementwise = _create_extern_elementwise
    InterpreterBuilder.create_inline_asm = _create_inline_asm
    for name, function in inspect.getmembers(cuda, inspect.isfunction):
        if "_semantic" in inspect.signature(function).parameters:
            setattr(cuda, name, _with_semantic(function, function))
            if name in vars(stubs):
                setattr(stubs, name, _with_semantic(vars(stubs)[name], function))


def _with_semantic(looks_like: Callable, function: Callable) -> Callable:
    @functools.wraps(looks_like)
    def call(*args: Any, _semantic: Any = None, **kwargs: Any) -> Any:
        semantic = upstream.interpreter_semantic if _semantic is None else _semantic
        return function(*args, _semantic=semantic, **kwargs)

    return call


def _create_extern_elementwise(self, lib_name, lib_path, symbol, arguments, type, is_pure):
    name = symbol.removeprefix(_PREFIX)
    function = _FUNCTIONS.get(name) or _FUNCTIONS.get(name.removesuffix("f"))
    if function is None or not symbol.startswith(_PREFIX):
        raise NotModelled(f"the library function {symbol}")
    result = function(*(argument.data for argument in arguments))
    element = type.scalar
    return TensorHandle(np.asarray(result).astype(upstream._get_np_dtype(element)), element)


def _create_inline_asm(self, *arguments):
    raise NotModelled("inline assembly")
