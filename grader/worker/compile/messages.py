"""Turns a compiler's exception into a message for a student: a line in their file and a reason."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import triton
from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure
from triton.runtime.errors import OutOfResources, PTXASError

from .failures import CompileFailure, causes

_TRITON_FOLDER = str(Path(triton.__file__).parent)
_DIAGNOSTIC = re.compile(
    r'^(?:loc\()?"?(?P<file>[^\n":]{1,400}\.py)"?:(?P<line>\d{1,9}):\d{1,9}\)?'
    r": error: (?P<text>.*)$",
    re.MULTILINE,
)
_ASSEMBLER = re.compile(r"line \d{1,9}; error\s*: (.*)")
_QUOTED = re.compile(r"(\w+)\((['\"])(.*)\2\)", re.DOTALL)  # an exception's repr
_LONGEST = 600

_ADVICE = (
    (
        re.compile(r"make_block_ptr|block_ptr|tl\.advance|block pointers?", re.IGNORECASE),
        "Triton {version} has no block pointers any more: use tl.make_tensor_descriptor, or "
        "pointers made of offsets, with masks",
    ),
    (
        re.compile(r"Cannot access global variable (?P<name>\w+)"),
        "{name} is a global variable, which a kernel can use only as a constant: write "
        "{name} = tl.constexpr(...) where it is defined, or pass it as an argument",
    ),
    (  # the key that core.extern_elementwise doesn't find
        re.compile(r"^\((?P<types>triton\.language\.\w+(?:, triton\.language\.\w+)*),?\)$"),
        "this function of libdevice takes no ({types}): convert its arguments first, as in "
        "x.to(tl.float32)",
    ),
)


class Place(NamedTuple):
    """The place in the submission of a function that Triton compiles."""

    source: str  # as in a jit function's `src`
    file: str
    line: int


def failure(
    error: BaseException, functions: Sequence[Place] = (), diagnostics: str = ""
) -> CompileFailure:
    """The failure for an exception of the compiler; `diagnostics` is the output of its C++ side.

    `functions` are the compiled functions, the kernel first.
    """
    if isinstance(error, CompileFailure):
        return error
    errors = causes(error)
    if isinstance(errors[-1], OSError | MemoryError) or "Cannot find ptxas" in str(errors[-1]):
        return CompileFailure(f"compiling: {errors[-1]}", kind="machine")
    file, line, excerpt = _place(errors, functions)
    reason = _reason(errors)
    if not any(isinstance(each, CompilationError) for each in errors):
        if functions and not line:
            file, line = functions[0].file, functions[0].line
        diagnostic = _DIAGNOSTIC.search(diagnostics)
        if diagnostic:
            reason = diagnostic["text"]
            if not functions or diagnostic["file"].endswith(functions[0].file):
                file, line = file or Path(diagnostic["file"]).name, int(diagnostic["line"])
    skips = (PTXASError, CompileTimeAssertionFailure, OutOfResources)
    return CompileFailure(
        _advice(_without_paths(reason)),
        file,
        line,
        excerpt,
        autotuner_skips=any(isinstance(each, skips) for each in errors),
    )


def _place(errors: Sequence[BaseException], functions: Sequence[Place]) -> tuple[str, int, str]:
    """File, line and source line of the innermost place in the student's text."""
    for error in reversed(errors):
        node: Any = getattr(error, "node", None)
        if not isinstance(error, CompilationError) or not hasattr(node, "lineno"):
            continue
        for made in reversed(functions):
            if made.source != error.src:
                continue
            lines = error.src.split("\n")
            if node.lineno > len(lines):  # the source of a called function, the line of the call
                continue
            text = lines[node.lineno - 1]
            indent = len(text) - len(text.lstrip())
            caret = " " * max(node.col_offset - indent, 0) + "^"
            line = made.line + node.lineno - 1
            return made.file, line, f"{text.strip()}\n{caret}"
    return "", 0, ""


def _message(error: CompilationError) -> str | None:
    """The frontend's message; for unknown names it contains the source instead."""
    message: str | None = error.src if isinstance(error.node, str) else error.error_message
    return message


def _reason(errors: Sequence[BaseException]) -> str:
    for error in reversed(errors):
        text = _message(error) if isinstance(error, CompilationError) else str(error)
        if isinstance(error, PTXASError) and (match := _ASSEMBLER.search(str(text))):
            return f"the assembler refuses what it compiles to: {match[1]}"
        if text:
            text = str(text)
            return _QUOTED.sub(r"\1: \3", text) if _QUOTED.fullmatch(text) else text
    if isinstance(errors[-1], CompileTimeAssertionFailure):
        return "static_assert failed"
    return f"the compiler gave no reason ({type(errors[-1]).__name__})"


def _advice(reason: str) -> str:
    for pattern, advice in _ADVICE:
        if match := pattern.search(reason):
            words = advice.format(version=triton.__version__, **match.groupdict())
            return words.replace("triton.language.", "tl.")
    return reason


def _without_paths(text: str) -> str:
    text = text.replace(_TRITON_FOLDER, "triton").strip()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


@contextlib.contextmanager
def captured_stderr() -> Iterator[Callable[[], str]]:
    """Collect the output of the compiler's C++ side, which exceptions don't contain.

    The output of its Python side (the whole PTX, when the assembler fails) is dropped.
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
