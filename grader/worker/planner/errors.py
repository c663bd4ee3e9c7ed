"""Errors of a planner; each message is written for the student."""

from __future__ import annotations

import codecs
import io
import re
import tokenize
from pathlib import Path
from typing import Any

from triton.runtime.jit import JITFunction

from ..protocol import Code


class PlannerError(RuntimeError):
    """An error that is raised at a line of the submission.

    The message is shown as it is; `instead` says what to do.
    """

    def __init__(self, message: str, instead: str = "") -> None:
        super().__init__(message)
        self.instead = instead


class NeedsData(PlannerError):
    """An operation that needs a tensor's values, which a planner doesn't have."""


class PlanLimit(PlannerError):
    """A plan exceeds a limit."""


class TooManyLaunches(PlanLimit):
    """More launches in one call than a plan may have."""


class TooMuchMemory(PlanLimit):
    """More memory allocated at a time than a plan may have."""


class ForeignKernel(PlannerError):
    """A kernel whose text isn't in the submission's own files."""


class KernelError(PlannerError):
    """A kernel that can't be compiled; `line` and `excerpt` are from the compiler."""

    def __init__(self, message: str, line: int = 0, excerpt: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.excerpt = excerpt


class LaunchError(PlannerError):
    """A kernel call that Triton refuses, with the kernel's name in place of Triton's."""


class GridTooLarge(LaunchError):
    """A launch on more programs along an axis than a grid may have."""


class SourceError(PlannerError):
    """A file of the submission that Python can't read; `line` is the place, or 0."""

    def __init__(self, message: str, instead: str = "", line: int = 0) -> None:
        super().__init__(message, instead)
        self.line = line


class Unsupported(PlannerError):
    """A part of torch or Triton without a counterpart in a plan: `part` can't be judged."""

    def __init__(self, part: str, instead: str = "launch the kernels directly") -> None:
        super().__init__(f"without a GPU, {part} can't be judged: {instead}")


class Refusal(Exception):
    """A request with another result than `ok`; `text` is the reply."""

    def __init__(self, code: Code, **text: Any) -> None:
        super().__init__(code.name)
        self.code = code
        self.text = text


# --- files that Python can't read -----------------------------------------------------------------

_UTF_8 = ("utf-8", "utf-8-sig")


def check_encoding(name: str, data: bytes) -> None:
    """Raise SourceError for a file that isn't text in its declared encoding, or in UTF-8.

    Python ignores such a byte in a comment, but Triton then can't read the kernels. Other errors in
    a declaration are left to Python.
    """
    if _is_utf_16(data):
        raise SourceError(f"{name} is saved as UTF-16: save it as UTF-8")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError:
        encoding = "utf-8"
        if _declares(data):
            return
    try:
        codecs.decode(data, encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = f"byte 0x{data[error.start]:02x} in line {line}"
        if encoding in _UTF_8:
            instead = "Save it as UTF-8, or name its encoding in its first line."
            raise SourceError(f"{name} is not UTF-8: {byte}", instead, line) from None
        instead = "Save it in the encoding that its first lines name."
        raise SourceError(f"{name} is not {encoding}: {byte}", instead, line) from None
    except (LookupError, ValueError):
        return


def _is_utf_16(data: bytes) -> bool:
    """Whether it begins as UTF-16: with its mark, or with every other byte zero."""
    even, odd = data[0:8:2].strip(b"\0"), data[1:8:2].strip(b"\0")
    has_mark = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return has_mark or (len(data) > 1 and bool(even) != bool(odd))


def _declares(data: bytes) -> bool:
    """Whether one of the first two lines declares an encoding (PEP 263)."""
    return any(tokenize.cookie_re.match(line.decode("latin-1")) for line in data.split(b"\n")[:2])


def check_encodings(error: BaseException, folder: str) -> None:
    """Raise SourceError for a file in an error's traceback that isn't text."""
    traceback = error.__traceback__
    while traceback is not None:
        file = Path(traceback.tb_frame.f_code.co_filename)
        if file.parent == Path(folder) and file.is_file():
            check_encoding(file.name, file.read_bytes())
        traceback = traceback.tb_next


def too_deep(name: str, data: bytes) -> SourceError:
    """The error for a file with deeper expressions than Python compiles.

    Python doesn't report the place, so the statement with the most symbols is named.
    """
    most, line, start, count = 0, 0, 0, 0
    try:
        for token in tokenize.tokenize(io.BytesIO(data).readline):
            if token.type == tokenize.NEWLINE:
                start = count = 0
            elif token.type not in (tokenize.INDENT, tokenize.DEDENT, tokenize.NL):
                start, count = start or token.start[0], count + 1
                if count > most:
                    most, line = count, start
    except (tokenize.TokenError, SyntaxError, ValueError):
        line = 0
    message = f"an expression in {name} is nested too deeply for Python to compile"
    return SourceError(message, "Write it as several statements, or as a loop.", line)


# --- Triton's errors about a wrong launch, reworded -----------------------------------------------

_WITHOUT_GRID = "Cannot call @triton.jit'd outside of the scope of a kernel"
_NOT_CALLABLE = re.compile(r"'(Autotuner|Heuristics)' object is not callable")
_MISSING = re.compile(
    r"dynamic_func\(\) missing \d+ required (?:positional|keyword-only) arguments?: "
)
_UNKNOWN = re.compile(r"Keyword argument (\w+) was specified but unrecognised")
_BINDER = "dynamic_func()"  # Triton's name of the function that binds a kernel's arguments


def in_words(error: BaseException) -> LaunchError | None:
    """The error that replaces one of Triton's launcher; None for other errors."""
    if not isinstance(error, RuntimeError | TypeError | KeyError) or not error.args:
        return None
    message = str(error.args[0])
    name = _kernel(error)
    if message.startswith(_WITHOUT_GRID) or _NOT_CALLABLE.fullmatch(message):
        name = name or "kernel"
        return LaunchError(f"`{name}` needs a grid: `{name}[(programs,)](...)`")
    if name and (unknown := _UNKNOWN.match(message)):
        there = "which is neither a parameter of it nor an option of Triton's"
        return LaunchError(f"`{name}` was launched with {unknown[1]}, {there}")
    if not name or not message.startswith(_BINDER):
        return None
    if missing := _MISSING.match(message):
        names = message[missing.end() :].replace("'", "")
        return LaunchError(f"`{name}` was launched without {names}")
    return LaunchError(message.replace(_BINDER, f"`{name}`"))


def _kernel(error: BaseException) -> str:
    """The kernel whose launch raised an error; "" where it was none."""
    name, traceback = "", error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        of_kernel = frame.f_locals.get("self")
        if isinstance(of_kernel, JITFunction) and frame.f_globals.get("__name__") == _TRITONS:
            name = str(of_kernel.__name__)
        traceback = traceback.tb_next
    return name


_TRITONS = "triton.runtime.jit"
