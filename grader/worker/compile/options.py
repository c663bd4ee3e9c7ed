"""Launch options that a kernel may be compiled with: listed, typed and bounded.

Other options would add code that isn't in the kernel's text (`ir_override`, `extern_libs`) or
instructions for the assembler (`ptx_options`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend

from .failures import CompileFailure

CAPABILITY = 90  # of the course's GPU, an H100
TARGET = GPUTarget("cuda", CAPABILITY, 32)
MAX_SHARED_BYTES = 232_448  # of one block on that GPU
# On others; CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
_SHARED_BYTES = {75: 65_536, 80: 166_912, 86: 101_376, 87: 166_912, 89: 101_376, 120: 101_376}
MAX_THREADS = 1024  # of one block


_planned = [TARGET]  # the last one counts


def plan_for(capability: int) -> None:
    """Have launchers in this process meet another GPU."""
    _planned.append(target(capability))


def planned_for() -> GPUTarget:
    """The GPU that launchers in this process meet."""
    return _planned[-1]


def target(capability: int) -> GPUTarget:
    """The GPUs of a compute capability, 90 for 9.0."""
    return GPUTarget("cuda", capability, 32)


def most_shared_bytes(capability: int) -> int:
    """The most bytes of shared memory that one block may have on such a GPU."""
    return _SHARED_BYTES.get(capability, MAX_SHARED_BYTES)


def _integer(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and low <= value <= high


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


def _flag(value: Any) -> bool:
    return type(value) is bool


_OPTIONS: dict[str, Callable[[Any], bool]] = {
    "num_warps": _integer(1, 64),
    "num_stages": _integer(0, 64),
    "num_ctas": _integer(1, 16),
    "maxnreg": _or_none(_integer(1, 255)),
    "enable_fp_fusion": _flag,
    "launch_cooperative_grid": _flag,
    "launch_pdl": _flag,
    "default_dot_input_precision": ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6").__contains__,
    "max_num_imprecise_acc_default": _or_none(_integer(0, 2**31)),
    "debug": _flag,
    "sanitize_overflow": _flag,
    "cluster_dims": lambda value: (
        isinstance(value, list | tuple) and len(value) == 3 and all(map(_integer(1, 16), value))
    ),
}


def chosen(options: Any) -> dict[str, Any]:
    """The listed options of a launch that differ from their defaults, as JSON.

    `options` is the backend's own object. Raises CompileFailure for an unlisted option that is set.
    """
    defaults = vars(make_backend(_planned[-1]).parse_options({}))
    result = {}
    for name, value in vars(options).items():
        if name in defaults and value == defaults[name]:
            continue
        _check(name, value)
        result[name] = list(value) if isinstance(value, tuple) else value
    return result


def parsed(options: Any, capability: int = CAPABILITY) -> Any:
    """The backend's options for a plan's. Raises CompileFailure for options that aren't allowed."""
    if not isinstance(options, Mapping):
        raise CompileFailure("options: expected names and values", kind="forged")
    for name, value in options.items():
        _check(name, value)
    given = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in options.items()
        if name != "cluster_dims" or tuple(value) != (1, 1, 1)
    }
    backend = make_backend(target(capability))
    try:
        return backend.parse_options(given)
    except (AssertionError, TypeError, ValueError) as error:
        raise CompileFailure(f"options: {error}") from None


def _check(name: str, value: Any) -> None:
    check = _OPTIONS.get(name)
    if check is None:
        raise CompileFailure(
            f"the option {str(name)[:60]} isn't available here: kernels are compiled from their "
            f"own text, with {', '.join(_OPTIONS)}"
        )
    if not check(value):
        raise CompileFailure(f"{name}={str(value)[:60]} is not a value that this option can have")
