"""Triton's interpreter (TRITON_INTERPRET=1), mended until its verdict is an NVIDIA GPU's.

`install()` patches triton in this process, once, before a submission is loaded. Then

- bfloat16, float16 sums and TF32 are computed as the GPU computes them (numerics.py);
- a launch is bound like a compiled one: a missing argument or an unknown keyword is an error, a
  Python float arrives as a float32 scalar, the grid sees Python numbers and its limits are checked;
- `and`, `or`, `not`, `min` and `max` on blocks work by element, as in the compiler;
- `@triton.autotune` runs its first configuration and records the others;
- what ran is recorded, to be compiled for the GPU later (ahead_of_time.py);
- a student's module keeps its own names: upstream adds all of the interpreter's to it, so that a
  forgotten `import triton.language as tl` goes unnoticed;
- calling a device function costs microseconds where it took the better part of a millisecond,
  since the language is patched once per launch instead of on every call.

Known differences that remain:

- a tensor made without `device=` lives on the CPU like all others here; on a GPU the launch fails;
- programs run one after another in one order, so a race between programs shows no effect;
- a masked-off load without `other` gives 0, which a GPU doesn't promise;
- a float outside an integer's range casts to numpy's choice, not to the nearest integer;
- argmax and argmin of ties or NaN may pick another index;
- float32 sums, dots and exp differ from the GPU's in the last bits;
- `a * b + c` rounds twice, where the compiler makes one fused operation of it;
- libdevice beyond its common functions, inline assembly and casts to float8 are not modelled;
- `kernel.warmup` returns nothing, and there are no device properties to ask for.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton.runtime import autotuner
from triton.runtime import interpreter as upstream
from triton.runtime.errors import InterpreterError
from triton.runtime.jit import JITFunction

from . import ahead_of_time, bounds, libdevice, numerics, reductions, rewriting
from .ahead_of_time import CompileResult, compile_launch
from .language import Language
from .launches import Bound, Launch, Launches, NotModelled, bind, prepare, representative

__all__ = [
    "CompileResult",
    "Launch",
    "Launches",
    "NotModelled",
    "compile_launch",
    "inside_kernel",
    "install",
    "launches",
    "representative",
    "student_line",
]

launches = Launches()

_MAX_GRID = (2**31 - 1, 65535, 65535)  # blocks along each axis, every compute capability since 3.0
_language = Language()
_UpstreamFunction = upstream.InterpretedFunction
_installed = False


def install() -> None:
    """Patch triton's interpreter in this process; a second call does nothing.

    Raises RuntimeError, naming triton's version, when triton is not the one the patches were
    written for or TRITON_INTERPRET was not set before it was imported.
    """
    global _installed
    if _installed:
        return
    _check_upstream()
    prepare()
    numerics.install()
    reductions.install()
    libdevice.install()
    _replace_library_functions()
    upstream.InterpretedFunction = InterpretedFunction  # what @triton.jit makes from now on
    _install_autotuner()
    _language.prepare()
    _installed = True


def _check_upstream() -> None:
    version = triton.__version__
    expected = [
        (upstream, "_patch_lang _implicit_cvt interpreter_builder interpreter_semantic"),
        (upstream.InterpretedFunction, "run __call__ rewrite"),
        (upstream.FunctionRewriter, "rewrite_ast _compile_and_exec _find_def ast_transformer"),
        (autotuner.Autotuner, "run _bench prune_configs"),
        *numerics.EXPECTED,
        *reductions.EXPECTED,
    ]
    for owner, names in expected:
        for name in names.split():
            if not hasattr(owner, name):
                raise RuntimeError(
                    f"triton {version}: {owner.__name__}.{name} is gone; grader/worker was "
                    "written for 3.6 to 3.9"
                )
    if trouble := bounds.upstream_trouble():
        raise RuntimeError(f"triton {version}: {trouble}; written for 3.6 to 3.9")
    if not isinstance(tl.sum, upstream.InterpretedFunction):
        raise RuntimeError(f"triton {version} was imported without TRITON_INTERPRET=1")


# --- running a kernel ---------------------------------------------------------------------------


class InterpretedFunction(JITFunction):
    """What `@triton.jit` makes: compilable like any JITFunction, interpreted when it is called."""

    # By identity: upstream's hash is the compiler's cache key, which can't be computed, and must
    # not be remembered, while the language is patched.
    __hash__ = object.__hash__

    def __init__(self, fn: Callable, **options: Any) -> None:
        super().__init__(fn, **options)
        lines, first = inspect.getsourcelines(fn)
        self.source_file = fn.__code__.co_filename
        self.source_line = first + rewriting.definition_offset(lines)
        self._rewritten: Callable | None = None
        ahead_of_time.functions.append(self)

    def run(self, *args, grid, warmup, **kwargs) -> None:
        """Launch: bind, record, then run every program of the grid, one after another."""
        bound = bind(self, args, kwargs)
        launches.add(self, bound)
        if warmup:
            return
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        extent = _grid_extent(grid, bound, self.__name__)
        builder = upstream.interpreter_builder
        bounds.launched(self.__name__, extent, bound.values)
        with _language.patched(), np.errstate(all="ignore"):
            try:
                kernel = self.rewrite()
                values = _device_values(self, bound)
                builder.set_grid_dim(*extent)
                for x in range(extent[0]):
                    for y in range(extent[1]):
                        for z in range(extent[2]):
                            builder.set_grid_idx(x, y, z)
                            kernel(**values)
            except Exception as error:
                raise InterpreterError(f"{type(error).__name__}: {error}") from error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A call by a kernel; anywhere else it is the error it is on a GPU."""
        if not _language.depth:
            return super().__call__(*args, **kwargs)
        return self.rewrite()(*args, **kwargs)

    def rewrite(self) -> Callable:
        """The function as the interpreter runs it, made on first use."""
        if self._rewritten is None:
            self._rewritten = rewriting.Rewriter(self.fn, _language.shadows()).rewrite_ast()
        return self._rewritten


def _replace_library_functions() -> None:
    """Put our class in the place of upstream's for what triton.language itself defines."""
    replaced: dict[int, InterpretedFunction] = {}

    def replacement(value: Any) -> Any:
        if id(value) not in replaced:
            replaced[id(value)] = InterpretedFunction(value.fn, **value.kwargs)
        return replaced[id(value)]

    modules = [module for name, module in sys.modules.items() if name.startswith("triton.")]
    for module in [triton, *modules]:
        for name, value in list(vars(module).items()):
            if type(value) is _UpstreamFunction:
                setattr(module, name, replacement(value))
    for method in vars(tl.tensor).values():
        for cell in getattr(method, "__closure__", None) or ():
            if type(cell.cell_contents) is _UpstreamFunction:
                cell.cell_contents = replacement(cell.cell_contents)


def _grid_extent(grid: Any, bound: Bound, name: str) -> tuple[int, int, int]:
    """The grid as three integers, after the checks the launcher and the driver make."""
    values = tuple(grid(bound.values) if callable(grid) else grid)
    if not 1 <= len(values) <= 3:
        raise ValueError(f"{name}: a grid has 1 to 3 dimensions, got {values}")
    for value in values:
        if not hasattr(value, "__index__"):
            raise TypeError(f"{name}: a grid is made of integers, got {values}")
    extent = tuple(int(value) for value in values) + (1,) * (3 - len(values))
    for axis, (value, limit) in enumerate(zip(extent, _MAX_GRID, strict=True)):
        if not 0 <= value <= limit:
            raise RuntimeError(
                f"{name}: grid {values} asks for {value} programs along axis {axis}; "
                f"the GPU allows 0 to {limit}"
            )
    return extent


def _device_values(function: Any, bound: Bound) -> dict[str, Any]:
    """Arguments as the kernel's body sees them: constexprs as they are, the rest as tl.tensor."""
    values = {}
    for parameter, (kind, _) in zip(function.params, bound.specialisation, strict=True):
        value = bound.values[parameter.name]
        values[parameter.name] = value if parameter.is_constexpr else _device_value(value, kind)
    return values


def _device_value(value: Any, kind: Any) -> Any:
    if isinstance(value, float) and not isinstance(value, bool):
        # A runtime float is a scalar of its declared type, float32 by default. Upstream leaves it
        # a Python number, which takes on the type of whatever it meets (1e-6 in bfloat16).
        dtype = tl.str_to_ty(kind, None) if kind in ("fp16", "bf16", "fp32", "fp64") else tl.float32
        return upstream.interpreter_semantic.scalar_constant(value, dtype)
    return upstream._implicit_cvt(value)


# --- autotuning ---------------------------------------------------------------------------------


def _install_autotuner() -> None:
    upstream_run, upstream_prune = autotuner.Autotuner.run, autotuner.Autotuner.prune_configs

    @functools.wraps(upstream_run)
    def run(self, *args, **kwargs):
        """The first configuration that survives pruning runs; the others are recorded."""
        if len(self.configs) < 2:
            return upstream_run(self, *args, **kwargs)
        with launches.alternatives():
            result = upstream_run(self, *args, **kwargs)
            for config in self._warpgrade_survivors:
                if config is not self.best_config:
                    options = {**kwargs, "warmup": True, **config.all_kwargs()}
                    self.fn.run(*args, **options)
        return result

    @functools.wraps(upstream_prune)
    def prune_configs(self, kwargs):
        self._warpgrade_survivors = upstream_prune(self, kwargs)
        return self._warpgrade_survivors

    def _bench(self, *args, config, **meta):
        """No time is taken: all are equally fast, so that the first is chosen."""
        conflicts = meta.keys() & config.kwargs.keys()
        if conflicts:
            raise ValueError(
                f"{', '.join(sorted(conflicts))} given in the launch and by @triton.autotune"
            )
        return [0.0, 0.0, 0.0]

    autotuner.Autotuner.run = run
    autotuner.Autotuner.prune_configs = prune_configs
    autotuner.Autotuner._bench = _bench


# --- where an exception came from ---------------------------------------------------------------


def student_line(error: BaseException, path: str) -> tuple[int | None, BaseException]:
    """The innermost line of the file at `path` that `error` passed through, and its root cause.

    The line is None when no frame of the whole chain of causes lies in that file.
    """
    chain = _causes(error)
    for exception in reversed(chain):
        lines = [line for code, line in _frames(exception) if code.co_filename == path]
        if lines:
            return lines[-1], chain[-1]
    return None, chain[-1]


def inside_kernel(error: BaseException, path: str) -> bool:
    """Whether `error` arose while a kernel's body was interpreted, not in its wrapper."""
    return any(
        isinstance(exception, InterpreterError)
        or any(code in rewriting.kernel_code for code, _ in _frames(exception))
        for exception in _causes(error)
    )


def _causes(error: BaseException) -> list[BaseException]:
    """The exception and what led to it, the root cause last."""
    chain = [error]
    while len(chain) < 50:
        last = chain[-1]
        cause = last.__cause__
        if cause is None or cause in chain:
            break
        chain.append(cause)
    return chain


def _frames(error: BaseException) -> Iterator[tuple[types.CodeType, int]]:
    traceback = error.__traceback__
    while traceback is not None:
        yield traceback.tb_frame.f_code, traceback.tb_lineno
        traceback = traceback.tb_next
