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
- names imported from triton.language one by one (`from triton.language import load`) don't work;
- `kernel.warmup` returns nothing, and there are no device properties to ask for.
"""

from __future__ import annotations

import __future__
import ast
import builtins
import contextlib
import functools
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

from . import ahead_of_time, numerics
from .ahead_of_time import (
    Bound,
    CompileResult,
    Launch,
    Launches,
    NotModelled,
    compile_launch,
)

__all__ = [
    "CompileResult",
    "Launch",
    "Launches",
    "NotModelled",
    "compile_launch",
    "inside_kernel",
    "install",
    "launches",
    "student_line",
]

launches = Launches()

_MAX_GRID = (2**31 - 1, 65535, 65535)  # blocks along each axis, every compute capability since 3.0
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
    numerics.install()
    _replace_library_functions()
    upstream.InterpretedFunction = InterpretedFunction  # what @triton.jit makes from now on
    upstream.FunctionRewriter._compile_and_exec = _compile_and_exec
    upstream.FunctionRewriter._find_def = _find_def
    upstream.FunctionRewriter.ast_transformer = _Transformer()
    _install_autotuner()
    _installed = True


def _check_upstream() -> None:
    version = triton.__version__
    expected = [
        (upstream, "_patch_lang _implicit_cvt interpreter_builder interpreter_semantic"),
        (upstream.InterpretedFunction, "run __call__ rewrite"),
        (upstream.FunctionRewriter, "_compile_and_exec _find_def ast_transformer"),
        (autotuner.Autotuner, "run _bench prune_configs"),
        *numerics.EXPECTED,
    ]
    for owner, names in expected:
        for name in names.split():
            if not hasattr(owner, name):
                raise RuntimeError(
                    f"triton {version}: {owner.__name__}.{name} is gone; grader/worker was "
                    "written for 3.7.1 to 3.9"
                )
    if not isinstance(tl.sum, upstream.InterpretedFunction):
        raise RuntimeError(f"triton {version} was imported without TRITON_INTERPRET=1")


# --- running a kernel ---------------------------------------------------------------------------

_kernel_code: set[types.CodeType] = set()  # of every rewritten kernel and device function


class InterpretedFunction(JITFunction):
    """What `@triton.jit` makes: compilable like any JITFunction, interpreted when it is called."""

    # By identity: upstream's hash is the compiler's cache key, which can't be computed, and must
    # not be remembered, while the language is patched.
    __hash__ = object.__hash__

    def __init__(self, fn: Callable, **options: Any) -> None:
        super().__init__(fn, **options)
        self._rewritten: Callable | None = None
        ahead_of_time.functions.append(self)

    def run(self, *args, grid, warmup, **kwargs) -> None:
        """Launch: bind, record, then run every program of the grid, one after another."""
        bound = ahead_of_time.bind(self, args, kwargs)
        launches.add(self, bound)
        if warmup:
            return
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        extent = _grid_extent(grid, bound, self.__name__)
        builder = upstream.interpreter_builder
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
            self._rewritten = upstream.FunctionRewriter(self.fn).rewrite_ast()
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


class _Language:
    """triton.language as the interpreter needs it, while a kernel runs."""

    def __init__(self) -> None:
        self.depth = 0
        self._changes: list[tuple[Any, str, Any, Any]] | None = None

    @contextlib.contextmanager
    def patched(self) -> Iterator[None]:
        """Apply upstream's patches of triton.language; nested uses cost nothing."""
        if self._changes is None:
            self._changes = _language_changes()
        if self.depth == 0:
            for owner, name, _, new in self._changes:
                setattr(owner, name, new)
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            if self.depth == 0:
                for owner, name, old, _ in self._changes:
                    if old is _ABSENT:
                        delattr(owner, name)
                    else:
                        setattr(owner, name, old)


_ABSENT = object()
_language = _Language()


def _language_changes() -> list[tuple[Any, str, Any, Any]]:
    """What upstream's own patching changes, found by letting it patch once."""
    owners = [tl, tl.core, tl.math, tl.tensor, tl.dtype, tl.condition]
    owners.append(tl.core.tensor_descriptor_base)
    before = [dict(vars(owner)) for owner in owners]
    anyone = types.FunctionType((lambda: None).__code__, {"tl": tl, "core": tl.core})
    scope = upstream._patch_lang(anyone)
    if not {id(o) for o, _, _ in getattr(scope, "_changes", ())} <= set(map(id, owners)):
        raise RuntimeError(f"triton {triton.__version__} patches more than the interpreter knows")
    after = [dict(vars(owner)) for owner in owners]
    if scope is not None:
        scope.restore()
    return [
        (owner, name, old.get(name, _ABSENT), new[name])
        for owner, old, new in zip(owners, before, after, strict=True)
        for name in new
        if new[name] is not old.get(name, _ABSENT)
    ]


# --- rewriting a kernel's source ----------------------------------------------------------------


class _Transformer(upstream.ASTTransformer):
    """Upstream's rewriting, and the operators Python won't let a class define."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """`a and b` -> `_logical("logical_and", lambda: a, lambda: b)`."""
        self.generic_visit(node)
        method = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        operands = [ast.Lambda(args=nothing, body=value) for value in node.values]
        return _call("_logical", node, ast.Constant(method), *operands)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """`not a` -> `_logical_not(a)`."""
        self.generic_visit(node)
        return _call("_logical_not", node, node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`min(a, b)` -> `_extremum(min, a, b)`; whatever `min` means there stays what it means."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            return _call("_extremum", node, node.func, *node.args, keywords=node.keywords)
        return node


def _call(name: str, at: ast.AST, *args: ast.expr, keywords: list | None = None) -> ast.Call:
    call = ast.Call(func=ast.Name(name, ast.Load()), args=list(args), keywords=keywords or [])
    return ast.copy_location(call, at)


def _logical(method: str, *operands: Callable[[], Any]) -> Any:
    """`and` or `or` with the compiler's meaning: only compile-time values cut evaluation short."""
    dynamic: list[tl.tensor] = []
    value = None
    for operand in operands:
        value = operand()
        if isinstance(value, tl.tensor):
            dynamic.append(value)
        elif bool(value) is (method == "logical_or"):
            return value
    if not dynamic:
        return value
    return functools.reduce(lambda right, left: getattr(left, method)(right), reversed(dynamic))


def _logical_not(value: Any) -> Any:
    return value.__not__() if isinstance(value, tl.tensor) else not value


def _extremum(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """The built-in min and max by element where a tensor takes part."""
    builtin = function is builtins.min or function is builtins.max
    if not builtin or len(args) < 2 or not any(isinstance(a, tl.tensor) for a in args):
        return function(*args, **kwargs)
    return functools.reduce(tl.minimum if function is builtins.min else tl.maximum, args)


_HELPERS = {
    "interpreter_semantic": upstream.interpreter_semantic,
    "_logical": _logical,
    "_logical_not": _logical_not,
    "_extremum": _extremum,
}
if hasattr(upstream, "_InterpreterComparison"):
    _HELPERS["_InterpreterComparison"] = upstream._InterpreterComparison


def _find_def(self, lines: list[str]) -> int:
    """The line of the first `def`, which is the one upstream takes the line number from."""
    return next((i for i, line in enumerate(lines, 1) if line.strip().startswith("def ")), 0)


def _compile_and_exec(self, tree: ast.Module) -> Callable:
    """The rewritten function, over the student's own globals and closure.

    The rewriting's helpers are reached through closure cells instead of being written into the
    student's module.
    """
    cells = dict(zip(self.fn.__code__.co_freevars, self.fn.__closure__ or (), strict=True))
    names = [*_HELPERS, *(name for name in cells if name not in _HELPERS)]
    maker = ast.parse(f"def _make({', '.join(names)}):\n    pass")
    maker.body[0].body = [*tree.body, ast.Return(ast.Name(self.fn.__name__, ast.Load()))]
    ast.fix_missing_locations(maker)
    future = self.fn.__code__.co_flags & _ANNOTATIONS_FLAG
    code = compile(maker, self.filename, "exec", flags=future, dont_inherit=True)
    namespace: dict[str, Any] = {}
    exec(code, self.fn.__globals__, namespace)
    made = namespace["_make"](*(_HELPERS.get(name) for name in names))
    closure = tuple(
        cells.get(name, cell)
        for name, cell in zip(made.__code__.co_freevars, made.__closure__ or (), strict=True)
    )
    rewritten = types.FunctionType(
        made.__code__, self.fn.__globals__, made.__name__, self.fn.__defaults__, closure
    )
    rewritten.__kwdefaults__ = self.fn.__kwdefaults__
    rewritten.__annotations__ = self.fn.__annotations__
    _kernel_code.add(made.__code__)
    return rewritten


_ANNOTATIONS_FLAG = __future__.annotations.compiler_flag


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
        or any(code in _kernel_code for code, _ in _frames(exception))
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
