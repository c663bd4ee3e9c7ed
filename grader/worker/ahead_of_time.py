"""Compiling what ran under the interpreter for the course's GPU, on a machine that has none.

A launch is bound and specialised exactly as Triton's own launcher does it (types, constexprs,
arguments that are 1 or divisible by 16, launch options), recorded without its tensors, and later
handed to `triton.compile` with a named target. What the interpreter accepts and the compiler
refuses is thereby found, and so is a kernel that needs more shared memory than the GPU has.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton._utils import find_paths_if, get_iterable_path
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure
from triton.runtime import cache, jit
from triton.runtime.errors import OutOfResources, PTXASError

DEFAULT_CAPABILITY = 90

# Shared memory one block may have, in bytes, by compute capability: CUDA programming guide, table
# "Technical specifications per compute capability" (the opt-in maximum).
_SHARED_BYTES = {
    70: 98304,
    75: 65536,
    80: 166912,
    86: 101376,
    87: 166912,
    89: 101376,
    90: 232448,
    100: 232448,
    103: 232448,
    120: 101376,
}
_MAX_THREADS = 1024
_WARP = 32
_TRITON_FOLDER = str(Path(triton.__file__).parent)

class NotModelled(Exception):
    """An operation that can't be given the GPU's meaning here: the verdict needs a GPU."""


@dataclass(frozen=True)
class Bound:
    """Arguments of one launch as Triton's launcher sees them."""

    values: dict[str, Any]  # parameter name -> value, defaults applied
    specialisation: list[tuple[str, Any]]  # per parameter: type name, value-dependent attribute
    options: dict[str, Any]  # num_warps and the like


@dataclass(frozen=True)
class Launch:
    """One specialisation of a kernel that ran; holds no tensor."""

    kernel: str
    file: str
    key: str  # equal for launches that compile to the same code
    tag: int  # the request during which it ran first
    options: dict[str, Any] = field(default_factory=dict, compare=False)
    # What the compiler needs; live objects, so a launch crosses a fork but not a pipe.
    function: Any = field(default=None, compare=False, repr=False)
    signature: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    constants: dict[tuple, Any] = field(default_factory=dict, compare=False, repr=False)
    attributes: dict[tuple, str] = field(default_factory=dict, compare=False, repr=False)
    # The configurations an autotuner chooses from, this one included; shared by all of them.
    group: list[Launch] = field(default_factory=list, compare=False, repr=False)


@dataclass(frozen=True)
class CompileResult:
    """What the compiler said about one launch."""

    ok: bool
    kernel: str
    file: str = ""
    line: int | None = None  # in `file`, counted from 1
    message: str = ""  # the compiler's reason and the source line; "" where ok
    shared_bytes: int | None = None
    num_warps: int | None = None
    ptx_bytes: int | None = None
    seconds: float = 0.0
    not_modelled: str = ""  # why it could not be compiled here, through no fault of the kernel
    # An autotuner passes over a configuration that fails like this.
    autotuner_skips: bool = False


class Launches:
    """The specialisations that ran since they were last taken."""

    def __init__(self) -> None:
        self.tag = 0
        self._seen: dict[Any, Launch] = {}
        self._group: list[Launch] | None = None

    def take(self) -> list[Launch]:
        """Each specialisation once, in the order of first appearance; the record starts anew."""
        taken = list(self._seen.values())
        self._seen.clear()
        return taken

    def add(self, function: jit.JITFunction, bound: Bound) -> None:
        """Note a launch. What can't be hashed is compared by its text."""
        options = tuple(bound.options.items())
        key: Any = (id(function), tuple(bound.specialisation), options)
        try:
            launch = self._seen.get(key)
        except Exception:
            key = str(key)
            launch = self._seen.get(key)
        if launch is None:
            group = [] if self._group is None else self._group
            launch = self._seen[key] = _describe(function, bound, self.tag, group)
            group.append(launch)

    @contextlib.contextmanager
    def alternatives(self) -> Iterator[list[Launch]]:
        """Launches added inside are configurations of which an autotuner needs one to compile."""
        outer, self._group = self._group, []
        try:
            yield self._group
        finally:
            self._group = outer


def _describe(function: jit.JITFunction, bound: Bound, tag: int, group: list[Launch]) -> Launch:
    types = [kind for kind, _ in bound.specialisation]
    constant_paths = find_paths_if(types, lambda _, kind: kind == "constexpr")
    values = list(bound.values.values())
    constants = {path: get_iterable_path(values, path) for path in constant_paths}
    attributes = ["" if kind == "constexpr" else value for kind, value in bound.specialisation]
    attribute_paths = find_paths_if(attributes, lambda _, value: isinstance(value, str))
    options = sorted(bound.options.items(), key=str)
    return Launch(
        kernel=function.__name__,
        file=function.file_name,
        key=f"{function.file_name}:{function.fn.__qualname__} {bound.specialisation} {constants} {options}",
        tag=tag,
        options=dict(bound.options),
        function=function,
        signature=dict(zip(bound.values, types, strict=True)),
        constants=constants,
        attributes={path: get_iterable_path(attributes, path) for path in attribute_paths},
        group=group,
    )


# --- binding ------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def _backend(capability: int) -> Any:
    return make_backend(GPUTarget("cuda", capability, _WARP))


@functools.lru_cache(maxsize=1)
def _option_names() -> frozenset[str]:
    return frozenset(_backend(DEFAULT_CAPABILITY).parse_options({}).__dict__)


def bind(function: jit.JITFunction, args: tuple, kwargs: dict[str, Any]) -> Bound:
    """Bind the arguments of a launch as Triton's launcher would.

    Raises TypeError for a missing or surplus argument and KeyError for a keyword that is neither a
    parameter of the kernel nor a launch option: the errors a launch on a GPU raises.
    """
    name = function.__name__
    binder = function.__dict__.get("_warpgrade_binder")
    if binder is None:
        binder = function._warpgrade_binder = jit.create_function_from_signature(
            function.signature, function.params, _backend(DEFAULT_CAPABILITY)
        )
    try:
        values, specialisation, surplus = binder(*args, **kwargs)
    except TypeError as error:
        raise TypeError(str(error).replace("dynamic_func()", f"{name}()")) from None
    for keyword in surplus:
        if keyword not in _option_names():
            parameters = ", ".join(function.arg_names)
            raise KeyError(
                f"{name} has no parameter {keyword} and no launch option is called that; "
                f"its parameters are {parameters}"
            )
    options = {key: kwargs[key] for key in kwargs if key in _option_names()}
    if function.debug and "debug" not in options:
        options["debug"] = True
    return Bound(values, specialisation, options)


# --- the language as the compiler wants it ------------------------------------------------------

functions: list[jit.JITFunction] = []  # all that may be compiled: Triton's own and the student's


@contextlib.contextmanager
def _compilable() -> Iterator[None]:
    """Undo, for a while, what TRITON_INTERPRET changed about triton.language at import."""
    forwarders = {name: _forwarded(method) for name, method in vars(tl.tensor).items()}
    changed = {name: vars(tl.tensor)[name] for name, target in forwarders.items() if target}
    key = cache.triton_key
    # The version instead of a hash over all of triton's files, which takes half a second.
    cache.triton_key = lambda: triton.__version__
    try:
        with triton.knobs.runtime.scope():
            triton.knobs.runtime.interpret = False
            for name in changed:
                setattr(tl.tensor, name, forwarders[name])
            yield
    finally:
        cache.triton_key = key
        for name, method in changed.items():
            setattr(tl.tensor, name, method)


def _forwarded(method: Any) -> jit.JITFunction | None:
    """The library function that a method of tl.tensor merely forwards to, as `x.sum` does."""
    for cell in getattr(method, "__closure__", None) or ():
        with contextlib.suppress(ValueError):
            if isinstance(cell.cell_contents, jit.JITFunction):
                return cell.cell_contents
    return None


# --- compiling ----------------------------------------------------------------------------------


def compile_launch(launch: Launch, capability: int = DEFAULT_CAPABILITY) -> CompileResult:
    """Compile one recorded launch for an NVIDIA GPU of the given compute capability (90 = H100).

    Never raises for what is wrong with the kernel: `ok`, `file`, `line` and `message` say it. A
    configuration of an autotuned kernel that needs more than the GPU has is no mistake while
    another one compiles, since the autotuner passes over it.
    """
    result = _compile(launch, capability)
    if result.autotuner_skips and len(launch.group) > 1:
        for other in launch.group:
            if other is not launch and _compile(other, capability).ok:
                return replace(result, ok=True, message="", line=None)
    return result


def _compile(launch: Launch, capability: int) -> CompileResult:
    started = time.perf_counter()
    with _captured_stderr() as stderr, _cache_folder(), warnings.catch_warnings(), _compilable():
        warnings.simplefilter("ignore")
        try:
            backend = _backend(capability)
            options = backend.parse_options(dict(launch.options))
            attributes = {path: backend.parse_attr(a) for path, a in launch.attributes.items()}
            source = ASTSource(launch.function, launch.signature, launch.constants, attributes)
            target = GPUTarget("cuda", capability, _WARP)
            kernel = triton.compile(source, target=target, options=options.__dict__)
            result = _within_limits(launch, kernel, capability)
        except Exception as error:
            result = _refusal(launch, error, stderr())
    return replace(result, seconds=time.perf_counter() - started)


def _within_limits(launch: Launch, kernel: Any, capability: int) -> CompileResult:
    shared, warps = kernel.metadata.shared, kernel.metadata.num_warps
    result = CompileResult(
        ok=True,
        kernel=launch.kernel,
        file=launch.file,
        shared_bytes=shared,
        num_warps=warps,
        ptx_bytes=len(kernel.asm.get("ptx", "")),
    )
    line = launch.function.def_file_line_number
    limit = _SHARED_BYTES.get(capability, _SHARED_BYTES[DEFAULT_CAPABILITY])
    if shared > limit:
        message = (
            f"{launch.kernel} needs {shared} bytes of shared memory, the GPU has {limit}: "
            "smaller blocks or fewer num_stages need less"
        )
        return replace(result, ok=False, line=line, message=message, autotuner_skips=True)
    if warps * _WARP > _MAX_THREADS:
        message = (
            f"{launch.kernel} asks for {warps} warps, {warps * _WARP} threads; "
            f"a block has at most {_MAX_THREADS}"
        )
        return replace(result, ok=False, line=line, message=message, autotuner_skips=True)
    return result


# --- what the compiler said ---------------------------------------------------------------------

_DIAGNOSTIC = re.compile(
    r'^(?:loc\()?"?(?P<file>[^\n"]+?\.py)"?:(?P<line>\d+):(?P<column>\d+)\)?: error: (?P<text>.*)$',
    re.MULTILINE,
)


def _refusal(launch: Launch, error: Exception, diagnostics: str) -> CompileResult:
    errors = _chain(error)
    file, line, excerpt = _place(errors, launch)
    reason = _reason(errors)
    found = None
    if not any(isinstance(e, CompilationError) for e in errors):
        found = _DIAGNOSTIC.search(diagnostics)
        line = launch.function.def_file_line_number
        if found:
            reason = found["text"]
            if found["file"] == launch.file:
                line = int(found["line"])
    skips = any(
        isinstance(e, (OutOfResources, PTXASError, CompileTimeAssertionFailure)) for e in errors
    )
    return CompileResult(
        ok=False,
        kernel=launch.kernel,
        file=file,
        line=line,
        message="\n".join(filter(None, [_without_paths(reason), excerpt])),
        autotuner_skips=skips,
    )


def _chain(error: BaseException) -> list[BaseException]:
    """The error and its causes, outermost first."""
    errors = [error]
    while errors[-1].__cause__ is not None and len(errors) < 50:
        errors.append(errors[-1].__cause__)
    return errors


def _place(errors: list[BaseException], launch: Launch) -> tuple[str, int | None, str]:
    """File, line and source line of the innermost place in the student's own code."""
    for error in reversed(errors):
        node = getattr(error, "node", None)
        if not isinstance(error, CompilationError) or not hasattr(node, "lineno"):
            continue
        for function in functions:
            if function.src != error.src or function.file_name.startswith(_TRITON_FOLDER):
                continue
            text = error.src.split("\n")[node.lineno - 1]
            indent = len(text) - len(text.lstrip())
            caret = " " * max(node.col_offset - indent, 0) + "^"
            line = function.def_file_line_number + node.lineno - 1
            return function.file_name, line, f"    {text.strip()}\n    {caret}"
    return launch.file, None, ""


def _reason(errors: list[BaseException]) -> str:
    for error in reversed(errors):
        text = error.error_message if isinstance(error, CompilationError) else str(error)
        if text:
            return text
    return f"the compiler gave no reason ({type(errors[-1]).__name__})"


def _without_paths(text: str, longest: int = 600) -> str:
    text = text.replace(_TRITON_FOLDER, "triton").strip()
    return text if len(text) <= longest else text[: longest - 3] + "..."


@contextlib.contextmanager
def _captured_stderr() -> Iterator[Any]:
    """Collect what the compiler's C++ side prints, which no exception carries."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)

        def text() -> str:
            sys.stderr.flush()
            file.seek(0)
            return file.read(1 << 20).decode(errors="replace")

        try:
            yield text
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)


@contextlib.contextmanager
def _cache_folder() -> Iterator[None]:
    """Compile into TRITON_CACHE_DIR where it is set, else into a folder that is removed again."""
    if os.environ.get("TRITON_CACHE_DIR"):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="warpgrade-") as folder, triton.knobs.cache.scope():
        triton.knobs.cache.dir = folder
        yield
