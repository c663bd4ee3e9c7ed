"""Compiling what ran under the interpreter for the course's GPU, on a machine that has none.

A recorded launch is handed to `triton.compile` with a named target. What the interpreter accepts
and the compiler refuses is thereby found, and so is a kernel that needs more shared memory or
threads than the GPU has.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure
from triton.runtime import cache, jit
from triton.runtime.errors import OutOfResources, PTXASError

from .launches import DEFAULT_CAPABILITY, WARP, Launch, backend

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
_INLINE_ASSEMBLY = "elementwise_inline_asm"  # the operation's name in Triton's IR
_TRITON_FOLDER = str(Path(triton.__file__).parent)


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


# --- the language as the compiler wants it ------------------------------------------------------

functions: list[jit.JITFunction] = []  # all that may be compiled: Triton's own and the student's


@contextlib.contextmanager
def _compilable() -> Iterator[None]:
    """Undo, for a while, what TRITON_INTERPRET changed about triton.language at import."""
    forwarders = {name: _forwarded(method) for name, method in vars(tl.tensor).items()}
    changed = {name: vars(tl.tensor)[name] for name, target in forwarders.items() if target}
    key = cache.triton_key
    # The version instead of a hash over all of triton's files: see compiler_warm_up.py.
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


@functools.lru_cache(maxsize=256)  # an autotuner's configurations are asked about repeatedly
def _compile(launch: Launch, capability: int) -> CompileResult:
    if launch.problem:
        return CompileResult(ok=False, kernel=launch.kernel, not_modelled=launch.problem)
    started = time.perf_counter()
    with _captured_stderr() as stderr, _cache_folder(), warnings.catch_warnings(), _compilable():
        warnings.simplefilter("ignore")
        try:
            compiler = backend(capability)
            options = compiler.parse_options(dict(launch.options))
            attributes = {path: compiler.parse_attr(a) for path, a in launch.attributes.items()}
            source = ASTSource(launch.function, launch.signature, launch.constants, attributes)
            target = GPUTarget("cuda", capability, WARP)
            with _CheckedBackend(capability):
                kernel = triton.compile(source, target=target, options=options.__dict__)
            result = _within_limits(launch, kernel)
        except OutOfResources as error:
            result = _too_large(launch, error)
        except Exception as error:
            result = _refusal(launch, error, stderr())
    return replace(result, seconds=time.perf_counter() - started)


class _CheckedBackend:
    """While it is entered, the backend does no more than shows whether a kernel compiles.

    It stops before it writes PTX for what can't be launched: a kernel with far too large blocks
    would keep the assembler busy for half a minute. And PTX is assembled only where the kernel's
    author wrote some of it: what the compiler writes by itself, the assembler takes.
    """

    def __init__(self, capability: int) -> None:
        self.type = type(backend(capability))
        self.original = self.type.add_stages
        self.limit = _SHARED_BYTES.get(capability, _SHARED_BYTES[DEFAULT_CAPABILITY])

    def __enter__(self) -> None:
        original, limit = self.original, self.limit

        @functools.wraps(original)
        def add_stages(backend, stages, *args):
            original(backend, stages, *args)
            read, write_ptx, assemble = stages["ttir"], stages["ptx"], stages["cubin"]
            has_assembly = False

            def noted(module, metadata):
                nonlocal has_assembly
                module = read(module, metadata)
                has_assembly = _INLINE_ASSEMBLY in str(module)
                return module

            def checked(module, metadata):
                if metadata["shared"] > limit:
                    raise OutOfResources(metadata["shared"], limit, "shared memory")
                return write_ptx(module, metadata)

            def assembled(ptx, metadata):
                return assemble(ptx, metadata) if has_assembly else b""

            stages.update(ttir=noted, ptx=checked, cubin=assembled)

        self.type.add_stages = add_stages

    def __exit__(self, *_: object) -> None:
        self.type.add_stages = self.original


def _within_limits(launch: Launch, kernel: Any) -> CompileResult:
    shared, warps = kernel.metadata.shared, kernel.metadata.num_warps
    result = CompileResult(
        ok=True,
        kernel=launch.kernel,
        file=launch.file,
        shared_bytes=shared,
        num_warps=warps,
        ptx_bytes=len(kernel.asm.get("ptx", "")),
    )
    if warps * WARP > _MAX_THREADS:
        message = (
            f"{launch.kernel} asks for {warps} warps, {warps * WARP} threads; "
            f"a block has at most {_MAX_THREADS}"
        )
        line = launch.function.source_line
        return replace(result, ok=False, line=line, message=message, autotuner_skips=True)
    return result


def _too_large(launch: Launch, error: OutOfResources) -> CompileResult:
    return CompileResult(
        ok=False,
        kernel=launch.kernel,
        file=launch.file,
        line=launch.function.source_line,
        message=f"{launch.kernel} needs {error.required} bytes of {error.name}, the GPU has "
        f"{error.limit}: smaller blocks or fewer num_stages need less",
        shared_bytes=error.required,
        autotuner_skips=True,
    )


# --- what the compiler said ---------------------------------------------------------------------

_DIAGNOSTIC = re.compile(
    r'^(?:loc\()?"?(?P<file>[^\n"]+?\.py)"?:(?P<line>\d+):(?P<column>\d+)\)?: error: (?P<text>.*)$',
    re.MULTILINE,
)


def _refusal(launch: Launch, error: Exception, diagnostics: str) -> CompileResult:
    errors = _chain(error)
    if isinstance(errors[-1], (OSError, MemoryError)) or "Cannot find ptxas" in str(errors[-1]):
        # The machine failed, not the kernel.
        return CompileResult(ok=False, kernel=launch.kernel, not_modelled=f"compiling: {error}")
    file, line, excerpt = _place(errors, launch)
    reason = _reason(errors)
    found = None
    if not any(isinstance(e, CompilationError) for e in errors):
        found = _DIAGNOSTIC.search(diagnostics)
        line = launch.function.source_line
        if found:
            reason = found["text"]
            if found["file"] == launch.file:
                line = int(found["line"])
    skips = any(isinstance(e, (PTXASError, CompileTimeAssertionFailure)) for e in errors)
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
        for function in reversed(functions):
            if function.src != error.src or function.source_file.startswith(_TRITON_FOLDER):
                continue
            text = error.src.split("\n")[node.lineno - 1]
            indent = len(text) - len(text.lstrip())
            caret = " " * max(node.col_offset - indent, 0) + "^"
            line = function.source_line + node.lineno - 1
            return function.source_file, line, f"    {text.strip()}\n    {caret}"
    return launch.file, None, ""


_ASSEMBLER = re.compile(r"line \d+; error\s*: (.*)")
_QUOTED = re.compile(r"(\w+)\((['\"])(.*)\2\)", re.DOTALL)  # an exception's repr


def _reason(errors: list[BaseException]) -> str:
    for error in reversed(errors):
        text = error.error_message if isinstance(error, CompilationError) else str(error)
        if isinstance(error, PTXASError) and (found := _ASSEMBLER.search(text)):
            return f"the assembler refuses what it compiles to: {found[1]}"
        if text:
            return _QUOTED.sub(r"\1: \3", text) if _QUOTED.fullmatch(text) else text
    if isinstance(errors[-1], CompileTimeAssertionFailure):
        return "static_assert failed"
    return f"the compiler gave no reason ({type(errors[-1]).__name__})"


def _without_paths(text: str, longest: int = 600) -> str:
    text = text.replace(_TRITON_FOLDER, "triton").strip()
    return text if len(text) <= longest else text[: longest - 3] + "..."


@contextlib.contextmanager
def _captured_stderr() -> Iterator[Any]:
    """Collect what the compiler's C++ side prints, which no exception carries.

    What its Python side prints (the whole PTX, when the assembler fails) is dropped.
    """
    sys.stderr.flush()
    with tempfile.TemporaryFile() as file, contextlib.redirect_stdout(io.StringIO()):
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
